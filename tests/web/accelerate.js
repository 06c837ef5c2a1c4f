// SPDX-License-Identifier: Apache-2.0
// Hours of snapshots in seconds: `accelerate(n)` sends the page n copies of the newest real one, a
// second apart each, with figures that change, and with runs and findings that come and go.
window.accelerate = (() => {
    let take = null;
    let newest = null;
    let at_ms = 0;
    let count = 0;
    const Real = window.EventSource;
    window.EventSource = class extends Real {
        addEventListener(kind, listener) {
            take = listener;
            super.addEventListener(kind, (event) => {
                if (newest) return; // from the first on, time is ours
                newest = event.data;
                at_ms = JSON.parse(newest).at_ms;
                listener(event);
            });
        }
    };
    function next() {
        const snapshot = JSON.parse(newest);
        count += 1;
        at_ms += 1000;
        window.passed = count;
        window.inventedTrouble(snapshot);
        snapshot.at_ms = at_ms;
        snapshot.watched_ms += 1000 * count;
        snapshot.runs.forEach((run) => {
            run.id += Math.floor(count / 500);
        });
        snapshot.findings = snapshot.findings.filter((f, i) => (count >> (i + 4)) % 2);
        snapshot.cards.forEach((card, i) => {
            card.gauges.utilisation = 0.5 + 0.5 * Math.sin(count / 10 + i);
            card.gauges.power_watts = 400 + 200 * Math.sin(count / 30 + i);
            card.state = count % 700 < 5 && i === 2 ? 'hangs' : 'answers';
        });
        return JSON.stringify(snapshot);
    }
    return async (n) => {
        for (let i = 0; i < n; i++) {
            take({ data: next() });
            if (i % 40 === 0)
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
        }
        return count;
    };
})();
