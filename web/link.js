// SPDX-License-Identifier: Apache-2.0
// The connection to the server: what does not change and what was kept, once for each connection;
// then one snapshot after another by server-sent events. It comes back by itself.
const API = '/api/v1/';
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
const HISTORY_S = 3600;
const DAY_S = 86400;

// States: connecting, live, stale (no snapshot for some time), lost (no connection), refused (by
// the server's token).
export class Link {
    constructor(on) {
        this.on = on; // {machine, history, snapshot, state}
        this.state = 'connecting';
        this.hear();
        this.tries = 0;
        this.interval_ms = 1000;
    }

    start() {
        this.open();
        setInterval(() => this.watch(), 1000);
        for (const [target, name] of [
            [document, 'visibilitychange'],
            [window, 'pageshow'],
            [window, 'online'],
        ])
            target.addEventListener(name, () => document.hidden || this.wake());
    }

    async fetchJson(path) {
        const answer = await fetch(API + path, {
            cache: 'no-store',
            signal: AbortSignal.timeout(10000),
        });
        if (answer.status === 401 || answer.status === 403) {
            this.become('refused');
            throw new Error('refused');
        }
        if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
        return answer.json();
    }

    // Each try makes a stream of its own; what an older one still sends is not listened to.
    async open() {
        const turn = {};
        this.turn = turn;
        if (this.stream) this.stream.close();
        this.hear();
        try {
            const [machine, history, day] = await Promise.all([
                this.fetchJson('machine'),
                this.fetchJson(`history?seconds=${HISTORY_S}`),
                this.fetchJson(`history?seconds=${DAY_S}`),
            ]);
            if (this.turn !== turn) return;
            this.interval_ms = machine.interval_ms || history.interval_ms || 1000;
            this.on.machine(machine);
            this.on.history(history, day);
        } catch {
            this.again(turn);
            return;
        }
        this.stream = new EventSource(`${API}stream`);
        this.stream.addEventListener('snapshot', (event) => {
            if (this.turn === turn) this.take(event.data);
        });
        // Also what the browser would repeat by itself: after a restart the cards can be others.
        this.stream.onerror = () => this.again(turn);
    }

    take(data) {
        let snapshot;
        try {
            snapshot = JSON.parse(data);
        } catch {
            return; // cut off; the next one comes
        }
        if (snapshot.watch !== 1) return;
        this.hear();
        this.tries = 0;
        this.become('live');
        this.on.snapshot(snapshot);
    }

    again(turn) {
        if (this.turn !== turn) return;
        this.turn = null;
        if (this.stream) this.stream.close();
        if (this.state !== 'refused') this.become('lost');
        const wait = RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)];
        this.tries += 1;
        setTimeout(() => this.open(), wait);
    }

    hear() {
        this.heard = performance.now();
        this.heard_at_ms = Date.now();
    }

    // A phone that sleeps stops the first clock, and whoever sets the time moves the second.
    get silence_s() {
        return Math.max(performance.now() - this.heard, Date.now() - this.heard_at_ms) / 1000;
    }

    get patience_s() {
        return Math.max(5, (3 * this.interval_ms) / 1000);
    }

    // Back from sleep, or from behind other pages: what stands there is old, and the stream of
    // before may be dead without an error.
    wake() {
        if (this.state === 'live' && this.silence_s > this.patience_s) this.become('stale');
        if (this.state !== 'stale' && this.state !== 'lost') return;
        this.tries = 0;
        this.open();
    }

    // A connection can be open and dead: a laptop that slept, a firewall that forgot.
    watch() {
        const { patience_s } = this;
        if (this.state === 'live' && this.silence_s > patience_s) this.become('stale');
        if (this.turn && this.stream && this.silence_s > 4 * patience_s) this.again(this.turn);
        this.on.state(this);
    }

    become(state) {
        if (this.state === state) return;
        this.state = state;
        if (state === 'refused') this.tries = RETRY_MS.length;
        this.on.state(this);
    }
}
