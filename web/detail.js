// SPDX-License-Identifier: Apache-2.0
// One card: its figures, its charts, why it is not faster, what is in its memory and who put it
// there.
import { el, clip, setText, setAttribute, setShown, eachOf, figureList } from './dom.js';
import { figure, figureOf, known, NONE } from './units.js';
import { ChartGroup } from './charts.js';
import { SPANS } from './spans.js';
import { heatLevel, memoryBar, MEMORY_PARTS, stateWords } from './cards.js';

const REASONS = [
    // NVML's bits of event_reasons
    [0x1, 'idle'],
    [0x2, 'application clocks'],
    [0x4, 'power limit'],
    [0x8, 'hardware slowdown'],
    [0x10, 'sync boost'],
    [0x20, 'heat (software)'],
    [0x40, 'heat (hardware)'],
    [0x80, 'power brake'],
    [0x100, 'display clocks'],
];
function reasonWords(bits) {
    if (!known(bits)) return NONE;
    const words = REASONS.filter(([bit]) => Math.floor(bits / bit) % 2 === 1).map(
        ([, word]) => word,
    );
    return words.length ? words.join(', ') : 'nothing';
}

const g = (key, unit) => (c) => figure(c.gauges[key], unit);
const both = (a, b, join) => (known(a) && known(b) ? join(a, b) : NONE);
const link = (generation, width) => both(generation, width, (x, y) => `gen ${x} ×${y}`);

const FIGURES = [
    {
        label: 'Utilisation',
        value: g('utilisation', 'share'),
        note: (c) => `memory bus ${figure(c.gauges.memory_utilisation, 'share')}`,
    },
    {
        label: 'Memory used',
        value: (c) => figure(c.memory.used_bytes, 'bytes'),
        note: (c) => `of ${figure(c.memory.total_bytes, 'bytes')}`,
    },
    {
        label: 'Temperature',
        value: g('temperature_celsius', 'celsius'),
        level: heatLevel,
        note: (c) =>
            known(c.gauges.memory_temperature_celsius)
                ? `memory ${figure(c.gauges.memory_temperature_celsius, 'celsius')}`
                : `slows at ${figure(c.facts.slowdown_celsius, 'celsius')}`,
    },
    {
        label: 'Power',
        value: g('power_watts', 'watts'),
        note: (c) => `limit ${figure(c.gauges.power_limit_watts, 'watts')}`,
    },
    {
        label: 'SM clock',
        value: g('sm_clock_mhz', 'mhz'),
        note: (c) => `at most ${figure(c.facts.sm_clock_max_mhz, 'mhz')}`,
    },
    {
        label: 'Throttled',
        value: (c) => figure(c.window.throttled_share, 'share'),
        note: (c) => `last ${figure(c.window.seconds, 'seconds')}`,
        level: (c) => (c.window.throttled_share > 0.01 ? 'warn' : ''),
    },
];

const FACTS = [
    { label: 'Clocks now limited by', value: (c) => reasonWords(c.gauges.event_reasons) },
    {
        label: 'Energy',
        value: (c) => figure(c.since.energy_joules, 'joules'),
        note: (c) =>
            (c.since.energy_is_integrated ? 'from power, in ' : 'in ') +
            figure(c.since.seconds, 'seconds'),
    },
    {
        label: 'Mean power',
        value: (c) => figure(c.window.power_mean_watts, 'watts'),
        note: () => 'last minute',
    },
    {
        label: 'Mean utilisation',
        value: (c) => figure(c.window.utilisation_mean, 'share'),
        note: () => 'last minute',
    },
    { label: 'Memory clock', value: g('memory_clock_mhz', 'mhz') },
    { label: 'Fan', value: g('fan', 'share'), when: (c) => known(c.gauges.fan) },
    {
        label: 'PCIe link',
        value: (c) => link(c.gauges.pcie_generation, c.gauges.pcie_width),
        note: (c) => `at most ${link(c.facts.pcie_generation_max, c.facts.pcie_width_max)}`,
    },
    {
        label: 'PCIe sent / received',
        when: (c) => known(c.gauges.pcie_tx_bytes_s),
        value: (c) =>
            `${g('pcie_tx_bytes_s', 'bytes')(c)}/s, ${g('pcie_rx_bytes_s', 'bytes')(c)}/s`,
    },
    {
        label: 'Video encoder / decoder',
        when: (c) => c.gauges.encoder_utilisation > 0 || c.gauges.decoder_utilisation > 0,
        value: (c) =>
            [g('encoder_utilisation', 'share')(c), g('decoder_utilisation', 'share')(c)].join(', '),
    },
    {
        label: 'Memory errors',
        when: (c) => known(c.gauges.ecc_corrected) || known(c.gauges.ecc_uncorrected),
        value: (c) => `${figure(c.gauges.ecc_uncorrected, 'count')} uncorrected`,
        note: (c) => `${figure(c.gauges.ecc_corrected, 'count')} corrected`,
        level: (c) => (c.gauges.ecc_uncorrected > 0 ? 'fail' : ''),
    },
    {
        label: 'Replaced memory rows',
        when: (c) =>
            c.gauges.remapped_rows > 0 || c.gauges.remap_pending > 0 || c.gauges.remap_failed > 0,
        value: (c) => figure(c.gauges.remapped_rows, 'count'),
        note: (c) =>
            c.gauges.remap_failed > 0
                ? 'one failed'
                : c.gauges.remap_pending > 0
                  ? 'one waits for a reset'
                  : '',
        level: (c) =>
            c.gauges.remap_failed > 0 ? 'fail' : c.gauges.remap_pending > 0 ? 'warn' : '',
    },
    {
        label: 'Last error (XID)',
        when: (c) => known(c.gauges.xid),
        value: g('xid', 'count'),
        level: () => 'fail',
    },
    {
        label: 'Compute capability',
        value: (c) => both(c.facts.compute_major, c.facts.compute_minor, (a, b) => `${a}.${b}`),
    },
    { label: 'PCI address', value: (c) => c.facts.pci_bus_id || NONE },
    { label: 'UUID', value: (c) => c.uuid || NONE },
];

const most = (value, otherwise) => (known(value) && value > 0 ? value : otherwise);
const CHARTS = [
    {
        label: 'Utilisation',
        unit: 'share',
        lines: [{ key: 'utilisation', color: '--c1' }],
        range: () => [0, 1.02],
    },
    {
        label: 'Memory',
        unit: 'bytes',
        range: (c) => [0, most(c.memory.total_bytes, null)],
        lines: [
            { key: 'used_bytes', label: 'used', color: '--c2' },
            { key: 'ours_bytes', label: 'ours', color: '--c1' },
        ],
    },
    {
        label: 'Power',
        unit: 'watts',
        lines: [{ key: 'power_watts', color: '--c3' }],
        limit: (c) => c.gauges.power_limit_watts,
        limit_words: 'limit',
        range: (c) => [
            0,
            known(c.gauges.power_limit_watts) ? c.gauges.power_limit_watts * 1.08 : null,
        ],
    },
    {
        label: 'Temperature',
        unit: 'celsius',
        lines: [{ key: 'temperature_celsius', color: '--c4' }],
        limit: (c) => c.facts.slowdown_celsius,
        limit_words: 'slows down',
        range: (c) => [20, most(c.facts.slowdown_celsius, 96) + 4],
    },
    {
        label: 'SM clock',
        unit: 'mhz',
        lines: [{ key: 'sm_clock_mhz', color: '--c5' }],
        range: (c) => [0, most(c.facts.sm_clock_max_mhz * 1.04, null)],
    },
    {
        label: 'Clocks limited',
        unit: 'share',
        range: () => [0, 1.02],
        lines: [
            { key: 'throttled', label: 'throttled', color: '--c4' },
            { key: 'power_cap', label: 'by power', color: '--c3' },
        ],
    },
];
export const CARD_KEYS = CHARTS.flatMap((row) => row.lines.map((line) => line.key));

const SHARES = [
    ['power_cap_share', 'Power limit', 'normal at full load'],
    ['sw_thermal_share', 'Heat (driver)', ''],
    ['hw_thermal_share', 'Heat (hardware)', ''],
    ['power_brake_share', 'Power brake', ''],
    ['sync_boost_share', 'Sync boost', 'waits for other GPUs'],
    ['throttled_share', 'Throttled (heat or brake)', ''],
    ['clock_lost_share', 'Clock below its maximum', 'while busy'],
];

function table(caption, heads, className) {
    const body = el('tbody');
    const node = el(
        'table',
        { class: className || '' },
        el('caption', { class: 'unseen' }, caption),
        el(
            'thead',
            {},
            el(
                'tr',
                {},
                ...heads.map((h, i) => el('th', { scope: 'col', class: i ? 'number' : '' }, h)),
            ),
        ),
        body,
    );
    return { node, body };
}

// A row of a table whose first cell names it.
function tableRow(cells) {
    const nodes = Array.from({ length: cells }, (_, i) =>
        el(i ? 'td' : 'th', i ? { class: 'number' } : { scope: 'row', dir: 'auto' }),
    );
    return { nodes, node: el('tr', {}, ...nodes) };
}

function panel(title, ...children) {
    return el('section', { class: 'panel' }, el('h3', {}, title), ...children);
}

function throttlePanel() {
    const t = table('Share of time with limited clocks', [
        'Limited by',
        'last minute',
        'since start',
    ]);
    const rows = SHARES.map(([key, label, note]) => {
        const row = tableRow(3);
        row.nodes[0].append(label, note ? el('span', { class: 'note' }, ` ${note}`) : '');
        t.body.append(row.node);
        return { key, row };
    });
    return {
        node: panel('Throttling', t.node),
        update(card) {
            for (const { key, row } of rows) {
                setText(row.nodes[1], figure(card.window[key], 'share'));
                setText(row.nodes[2], figure(card.since[key], 'share'));
            }
        },
    };
}

function memoryPanel() {
    const bar = memoryBar();
    const parts = MEMORY_PARTS.map((p) => {
        const value = el('dd', { class: 'number' });
        return {
            p,
            value,
            node: el(
                'div',
                {},
                el('dt', {}, el('i', { class: `swatch part ${p.key}` }), p.label),
                value,
            ),
        };
    });
    const t = table('Programs on this GPU', ['Program', 'pid', 'memory']);
    const views = new Map();
    const none = el('p', { class: 'quiet' });
    return {
        node: panel(
            'Memory',
            bar.node,
            el('dl', { class: 'legend' }, ...parts.map((x) => x.node)),
            t.node,
            none,
        ),
        update(card) {
            const m = card.memory;
            bar.update(m);
            for (const { p, value, node } of parts) {
                setShown(node, p.key !== 'used' || !known(m.ours_bytes));
                setText(value, figure(p.of(m), 'bytes'));
            }
            const list = card.processes || [];
            eachOf(
                t.body,
                views,
                list,
                (p) => `${p.pid}`,
                () => {
                    const row = tableRow(3);
                    return {
                        node: row.node,
                        update(p) {
                            setText(row.nodes[0], clip(p.name || 'another container', 48));
                            setText(row.nodes[1], figure(p.pid, 'count').replaceAll(',', ''));
                            setText(row.nodes[2], figure(p.used_bytes, 'bytes'));
                        },
                    };
                },
            );
            setShown(t.node, list.length > 0);
            const more = card.processes_unlisted > 0 ? `and ${card.processes_unlisted} more` : '';
            setText(
                none,
                !card.processes
                    ? 'The driver does not report which programs use it.'
                    : list.length
                      ? more
                      : 'No program uses it.',
            );
            setShown(none, none.textContent !== '');
        },
    };
}

function valueTable() {
    const t = table('Chart figures', ['Figure', 'now', 'lowest', 'mean', 'highest']);
    const rows = CHARTS.flatMap((chart) =>
        chart.lines.map((line) => {
            const row = tableRow(5);
            row.nodes[0].textContent = line.label ? `${chart.label}, ${line.label}` : chart.label;
            t.body.append(row.node);
            return { chart, line, row };
        }),
    );
    const node = el(
        'details',
        { class: 'values' },
        el('summary', {}, 'Chart figures'),
        t.node,
    );
    return {
        node,
        update(series, span) {
            if (!node.open) return;
            for (const { chart, line, row } of rows) {
                const to = span.until_ms ?? series.newest;
                const d = series.digest(line.key, to - span.ms, to);
                const cells = [d.now, d.count ? d.least : NaN, d.mean, d.count ? d.most : NaN];
                cells.forEach((value, i) => setText(row.nodes[i + 1], figure(value, chart.unit)));
            }
        },
    };
}

export function spanSwitch(span, choose) {
    const inputs = SPANS.map((s, i) => {
        const input = el('input', {
            type: 'radio',
            name: 'span',
            value: String(i),
            checked: s === span,
        });
        input.addEventListener('change', () => choose(SPANS[i]));
        return { s, input, node: el('label', {}, input, el('span', {}, s.label)) };
    });
    return {
        node: el(
            'fieldset',
            { class: 'spans' },
            el('legend', { class: 'unseen' }, 'Time range of the charts'),
            ...inputs.map((x) => x.node),
        ),
        show(now) {
            for (const { s, input } of inputs) input.checked = s === now;
        },
    };
}

const KINDS = {
    mig: 'A MIG instance: power, temperature and clocks are the whole GPU\u2019s.',
    unified: 'It has no memory of its own; it uses the machine\u2019s.',
};

export class Detail {
    constructor(chooseSpan, span) {
        this.section = document.getElementById('detail');
        this.title = el('h2', { id: 'detail-title', tabIndex: -1, dir: 'auto' });
        this.kind = el('p', { class: 'sub' });
        this.reason = el('p', { class: 'reason', dir: 'auto' });
        this.spans = spanSwitch(span, chooseSpan);
        this.figures = figureList(FIGURES, 'figures');
        this.charts = new ChartGroup(CHARTS, 'h3', chooseSpan);
        this.values = valueTable();
        this.throttle = throttlePanel();
        this.memory = memoryPanel();
        this.facts = figureList(FACTS, 'facts');
        this.section.append(
            el('div', { class: 'detail-head' }, this.title, this.spans.node),
            this.kind,
            this.reason,
            this.figures.node,
            this.charts.node,
            this.values.node,
            el(
                'div',
                { class: 'panels' },
                this.memory.node,
                this.throttle.node,
                panel('More about this GPU', this.facts.node),
            ),
        );
    }

    update(entry, span) {
        setShown(this.section, Boolean(entry));
        if (!entry) return;
        const { card } = entry;
        const series = span.is_long ? entry.day : entry.series;
        const is_other = this.key !== entry.key || this.span !== span;
        this.key = entry.key;
        this.span = span;
        setText(this.title, `${entry.label} · ${clip(card.name || 'unnamed GPU', 120)}`);
        const kind = card.is_mig ? KINDS.mig : card.is_unified ? KINDS.unified : '';
        setText(this.kind, kind);
        setShown(this.kind, kind !== '');
        const state = stateWords(card.state);
        const why = [state, clip(card.reason, 300)];
        setText(
            this.reason,
            state ? `${why.filter(Boolean).join(': ')}. The figures are from before.` : '',
        );
        setShown(this.reason, Boolean(state));
        setAttribute(this.section, 'data-state', card.state);
        for (const part of [this.figures, this.throttle, this.memory, this.facts])
            part.update(card);
        this.charts.draw(series, span, card, is_other);
        this.values.update(series, span);
        this.spans.show(span);
    }

    restyle() {
        this.charts.restyle();
    }

    focus() {
        this.section.scrollIntoView({ block: 'start' });
        this.title.focus({ preventScroll: true });
    }
}
