// SPDX-License-Identifier: Apache-2.0
// The trainings: what each of them does, where its time goes, and whether the forecast of its
// memory was right.
import { el, clip, setText, setAttribute, setShown, setWidth, eachOf, figureList } from './dom.js';
import { figure, known } from './units.js';
import { ChartGroup } from './charts.js';
import { Series } from './series.js';

const PHASES = [
    { key: 'io', label: 'data', color: '--p1' },
    { key: 'h2d', label: 'to the GPU', color: '--p2' },
    { key: 'forward', label: 'forward', color: '--p3' },
    { key: 'backward', label: 'backward', color: '--p4' },
    { key: 'optimizer', label: 'optimizer', color: '--p5' },
    { key: 'other', label: 'other', color: '--p6' },
];

const STATES = {
    starts: 'starts',
    steps: 'trains',
    quiet: 'no recent step',
    ended: 'ended',
};

const CHARTED = 4; // runs that get a chart of their own; a screen has no room for more

// "× 2 accum. × 8 ranks"
function shape(r) {
    const parts = [];
    if (known(r.accumulation)) parts.push(`× ${r.accumulation} accum.`);
    if (r.ranks > 1) parts.push(`× ${r.ranks} ranks`);
    return parts.join(' ');
}

const FIGURES = [
    { label: 'Batch', value: (r) => figure(r.batch, 'count'), note: shape },
    {
        label: 'Steps',
        value: (r) => figure(r.steps, 'count'),
        note: (r) => `${figure(r.samples, 'count')} samples`,
    },
    {
        label: 'Samples/s',
        value: (r) => figure(r.samples_per_second, 'number'),
        note: (r) => `${figure(r.samples_per_joule, 'number')} a joule`,
    },
    {
        label: 'Step',
        value: (r) => figure(r.phases_ms.total, 'ms'),
        note: (r) => clip(r.precision, 20),
    },
    {
        label: 'Allocator retries',
        value: (r) => figure(r.alloc_retries, 'count'),
        when: (r) => r.alloc_retries > 0,
        level: () => 'warn',
    },
];

function phaseBar() {
    const parts = PHASES.map((p, i) => {
        const value = el('dd', { class: 'number' });
        const share = el('dd', { class: 'number note' });
        return {
            p,
            value,
            share,
            bar: el('i', { class: `part phase${i}` }),
            node: el(
                'div',
                {},
                el('dt', {}, el('i', { class: `swatch part phase${i}` }), p.label),
                value,
                share,
            ),
        };
    });
    return {
        node: el(
            'div',
            { class: 'phases' },
            el('span', { class: 'bar tall', 'aria-hidden': 'true' }, ...parts.map((x) => x.bar)),
            el('dl', { class: 'legend shares' }, ...parts.map((x) => x.node)),
        ),
        update(ms) {
            for (const { p, value, share, bar } of parts) {
                const part = known(ms[p.key]) && ms.total > 0 ? ms[p.key] / ms.total : null;
                setText(value, figure(ms[p.key], 'ms'));
                setText(share, figure(part, 'share'));
                setWidth(bar, part);
            }
        },
    };
}

const sign = (difference) => (difference >= 0 ? '+' : '−');

// Predicted against actual: a bar that has grown to the peak so far, and two marks.
function peakBar() {
    const actual = el('i', { class: 'part ours' });
    const point = el('i', { class: 'tick point' });
    const upper = el('i', { class: 'tick upper' });
    const text = el('p', { class: 'peak-text' });
    const node = el(
        'div',
        { class: 'peak' },
        el('h4', {}, 'Peak GPU memory'),
        el('span', { class: 'bar tall', 'aria-hidden': 'true' }, actual, point, upper),
        text,
    );
    return {
        node,
        update(r, total) {
            const {
                predicted_peak_bytes: predicted,
                predicted_upper_bytes: most,
                peak_bytes: peak,
            } = r;
            const whole = Math.max(total || 0, predicted || 0, most || 0, peak || 0) || 1;
            setWidth(actual, peak / whole);
            for (const [tick, value] of [
                [point, predicted],
                [upper, most],
            ]) {
                setShown(tick, known(value));
                if (known(value)) tick.style.left = `${((value / whole) * 100).toFixed(2)}%`;
            }
            const error = known(peak) && known(predicted) ? peak / predicted - 1 : NaN;
            const off = known(error) ? `, ${sign(error)}${figure(Math.abs(error), 'share')}` : '';
            const forecast = figure(predicted, 'bytes');
            const band = known(most) ? ` (at most ${figure(most, 'bytes')})` : '';
            setText(text, `actual ${figure(peak, 'bytes')}, predicted ${forecast}${band}${off}`);
        },
    };
}

function runView(context, run) {
    const title = el('h3', { dir: 'auto' });
    const state = el('span', { class: 'chip' });
    const sub = el('p', { class: 'sub', dir: 'auto' });
    const figures = figureList(FIGURES, 'figures small');
    const phases = phaseBar();
    const peak = peakBar();
    const chart_row = { label: 'Step time', unit: 'ms', stacked: true, lines: PHASES };
    let charts = null;
    const node = el(
        'article',
        { class: 'run' },
        el('div', { class: 'row head' }, title, state),
        sub,
        figures.node,
        phases.node,
        peak.node,
    );
    return {
        node,
        series: context.seriesOf(run.id),
        update(r, place) {
            const card = r.card === null ? null : context.entries[r.card];
            setText(title, clip(r.model || r.command || 'unnamed run', 80));
            setText(state, STATES[r.state] || clip(r.state, 20));
            setAttribute(
                state,
                'data-level',
                r.state === 'quiet' ? 'warn' : r.state === 'steps' ? 'ok' : '',
            );
            const where = card ? card.label : 'CPU';
            const standin = r.standin ? `fake: ${clip(r.standin, 80)}` : null;
            setText(
                sub,
                [where, r.verb && clip(r.verb, 20), known(r.pid) && `pid ${r.pid}`, standin]
                    .filter(Boolean)
                    .join(' · '),
            );
            figures.update(r);
            phases.update(r.phases_ms);
            peak.update(r, card && card.card.memory.total_bytes);
            const wants = place < CHARTED;
            if (wants && !charts) {
                charts = new ChartGroup([chart_row], 'h4', context.chooseSpan);
                node.append(charts.node);
            } else if (!wants && charts) {
                charts.close();
                charts.node.remove();
                charts = null;
            }
            if (charts) charts.draw(this.series, context.span, r, context.is_urgent);
        },
        restyle() {
            if (charts) charts.restyle();
        },
        close() {
            if (charts) charts.close();
        },
    };
}

export class Runs {
    constructor(chooseSpan) {
        this.chooseSpan = chooseSpan;
        this.views = new Map();
        this.series = new Map();
        this.list = document.getElementById('runs-list');
        this.none = document.getElementById('runs-none');
        this.seriesOf = (id) => {
            if (!this.series.has(id)) this.series.set(id, new Series(PHASES.map((p) => p.key)));
            return this.series.get(id);
        };
    }

    // What the server kept of the newest steps.
    load(runs) {
        for (const { id, ...lists } of runs || []) {
            const parts = Object.entries(lists).map(([key, list]) => [key.replace(/_ms$/, ''), list]);
            this.seriesOf(id).load({ ...Object.fromEntries(parts), at_ms: lists.at_ms });
        }
    }

    // Every snapshot, drawn or not. A run that is gone leaves nothing behind.
    take(snapshot) {
        const ids = new Set(snapshot.runs.map((r) => r.id));
        for (const id of this.series.keys()) if (!ids.has(id)) this.series.delete(id);
        for (const r of snapshot.runs) {
            if (r.state === 'steps') this.seriesOf(r.id).push(snapshot.at_ms, r.phases_ms);
        }
    }

    draw(runs, entries, span) {
        const context = {
            seriesOf: this.seriesOf,
            chooseSpan: this.chooseSpan,
            entries,
            span,
            is_urgent: span !== this.span,
        };
        this.span = span;
        this.context = Object.assign(this.context || {}, context);
        setShown(this.none, runs.length === 0);
        this.list.parentElement.classList.toggle('empty', runs.length === 0);
        eachOf(
            this.list,
            this.views,
            runs,
            (r) => String(r.id),
            (r) => runView(this.context, r),
        );
    }

    restyle() {
        for (const view of this.views.values()) view.restyle();
    }
}
