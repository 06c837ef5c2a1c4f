// SPDX-License-Identifier: Apache-2.0
// Put before the page's own scripts: changes the snapshots of the real server on their way in, so
// that the page is seen with runs and findings that the machine at hand does not have (all of them
// invented). `window.doctor(snapshot)` may be set by the test; `window.passed` counts the
// snapshots.
window.passed = 0;
{
    const Real = window.EventSource;
    window.EventSource = class extends Real {
        addEventListener(kind, take) {
            super.addEventListener(kind, (event) => {
                if (window.silent) return;
                window.passed += 1;
                if (!window.doctor) return take(event);
                const snapshot = JSON.parse(event.data);
                window.doctor(snapshot);
                take({ data: JSON.stringify(snapshot) });
            });
        }
    };
}

window.inventedRun = (id, card, swing) => ({
    id,
    pid: 4000 + card,
    verb: 'fit',
    model: 'swin_base_patch4_window12_384',
    command: 'python train.py',
    precision: 'amp-bf16',
    standin: null,
    card,
    state: 'steps',
    batch: 24,
    accumulation: 2,
    ranks: 1,
    steps: 1200 + window.passed,
    samples: 48 * (1200 + window.passed),
    alloc_retries: 0,
    phases_ms: {
        io: 14 + swing,
        h2d: 4.1,
        forward: 61 + swing,
        backward: 118 - swing,
        optimizer: 9.3,
        other: 2.2,
        total: 208.6 + swing,
    },
    samples_per_second: 230.1 + swing,
    samples_per_joule: 0.42,
    predicted_peak_bytes: 71.2e9,
    predicted_upper_bytes: 76e9,
    peak_bytes: 72.5e9,
});
window.inventedTrouble = (snapshot) => {
    const swing = 4 * Math.sin(window.passed / 5);
    snapshot.runs = [
        window.inventedRun('a', 0, swing),
        {
            ...window.inventedRun('b', 3, -swing),
            model: 'vit_large_patch14_dinov2',
            state: 'quiet',
        },
    ];
    snapshot.findings = [
        {
            id: 'trend.throttled',
            status: 'fail',
            card: 5,
            what: 'time throttled',
            value: '38 %',
            evidence:
                'heat held the clocks back for 22.6 of the last 60 s; SM clock 1410 of 1980 MHz',
            remedy: 'look at the fans; nvidia-smi -q -d TEMPERATURE says which sensor',
        },
        {
            id: 'card.link',
            status: 'warn',
            card: 7,
            what: 'PCIe link',
            value: 'gen 5 ×8',
            evidence: 'the card and its slot can do ×16, and it is busy',
            remedy: 'reseat the card, or look for a slot that has all lanes',
        },
        {
            id: 'trend.starved',
            status: 'warn',
            card: 3,
            what: 'GPU starved',
            value: 'for its data',
            evidence: 'utilisation 41 % while 46 % of a step is loading',
            remedy: 'num_workers 8 instead of 2',
        },
        {
            id: 'trend.leak',
            status: 'ok',
            card: 0,
            what: 'memory leak',
            value: 'no',
            evidence: '0.0 MiB a step, 95 % interval -0.1 to 0.1',
            remedy: null,
        },
    ];
    snapshot.cpu = {
        cores: 96,
        utilisation: 0.31,
        io_wait: 0.02,
        load: 34.2,
        total_bytes: 2.1e12,
        available_bytes: 1.4e12,
        swap_total_bytes: 0,
        swap_used_bytes: 0,
        power_watts: 412,
        energy_joules: 1e6,
        temperature_celsius: 61,
        memory_stalled: 0,
    };
    for (const card of snapshot.cards) {
        card.memory.ours_bytes = card.index === 0 || card.index === 3 ? 60e9 : 0;
        card.memory.others_bytes = card.memory.used_bytes - card.memory.ours_bytes;
    }
};
