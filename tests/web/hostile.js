// SPDX-License-Identifier: Apache-2.0
// Puts every text of `window.hostile` (hostile.json) wherever the server could send one.
window.inventHostile = (s) => {
    window.inventedTrouble(s);
    s.runs = hostile.map((t, i) => ({
        ...inventedRun(t, i % 8, 0),
        model: t,
        verb: t,
        command: t,
        precision: t,
        standin: t,
        state: i % 2 ? t : 'steps',
    }));
    s.findings = hostile.map((t, i) => ({
        id: t,
        status: ['fail', 'warn', 'ok', 'unknown'][i % 4],
        card: i % 8,
        what: t,
        value: t,
        evidence: t,
        remedy: t,
    }));
    s.standin = hostile.join(' ');
    for (const key of ['version', 'cuda', 'left_out']) s.driver[key] = hostile[5];
    s.cards.forEach((c, i) => {
        c.name = c.reason = c.uuid = hostile[i];
        c.state = i ? 'answers' : hostile[9];
        c.processes = hostile.map((t, j) => ({
            pid: j,
            name: t,
            kinds: [t],
            used_bytes: 1,
        }));
    });
};
