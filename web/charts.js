// SPDX-License-Identifier: Apache-2.0
// The charts over time, drawn by dygraphs: one a row of a table, all of one group over the same
// time and with one pointer. What a chart shows is also a table of figures beside it (detail.js),
// so the pictures are labelled and need no more.
import { el, setText, setAttribute, setShown } from './dom.js';
import { figure, NONE } from './units.js';
import { spanAround, spanBetween } from './spans.js';

const { Dygraph } = window;
// Its legend writes style attributes, which the page's policy forbids; ours stands above the chart.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

// light-dark() is resolved only where a colour is used.
const probe = el('i', { class: 'probe', hidden: true });
export function themeColor(name) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
}

function timeLabel(date, granularity, opts, graph) {
    const [from, to] = graph.xAxisRange();
    const options = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
    if (to - from <= 120e3) options.second = '2-digit';
    return date.toLocaleTimeString([], options);
}

function limitLine(context, area, graph, value, words) {
    const y = graph.toDomYCoord(value);
    if (!(y >= area.y && y <= area.y + area.h)) return;
    context.save();
    context.strokeStyle = themeColor('--bad');
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(area.x, Math.round(y) + 0.5);
    context.lineTo(area.x + area.w, Math.round(y) + 0.5);
    context.stroke();
    context.fillStyle = themeColor('--muted');
    context.font = '10px system-ui, sans-serif';
    context.textBaseline = y - area.y > 13 ? 'bottom' : 'top';
    context.fillText(words, area.x + 4, y + (y - area.y > 13 ? -1 : 3));
    context.restore();
}

// dygraphs looks at the window's size only; a plot also changes when its neighbours come and go.
const plots = new WeakMap();
const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) plots.get(target)?.fit();
});

const DRAG_LEAST = 6; // pixels; less is a click

// One chart. `row`: {label, unit, lines: [{key, label, color}], range(subject), limit?(subject),
// stacked?}.
class Chart {
    constructor(group, row) {
        this.group = group;
        this.row = row;
        this.values = row.lines.map((line, i) => {
            const value = el('b', { class: 'value' }, NONE);
            const dash = el('i', { class: `dash dash${i}`, 'data-color': line.color });
            return {
                value,
                node: el(
                    'span',
                    { class: 'line' },
                    row.lines.length > 1 ? dash : null,
                    line.label ? `${line.label} ` : '',
                    value,
                ),
            };
        });
        this.canvas = el('div', { class: 'plot', role: 'img', 'aria-label': row.label });
        this.stretch = el('i', { class: 'stretch', hidden: true });
        this.listen();
        this.node = el(
            'figure',
            { class: 'chart' },
            el(
                'figcaption',
                {},
                el(group.heading, {}, row.label),
                el('span', { class: 'lines' }, ...this.values.map((v) => v.node)),
            ),
            this.canvas,
        );
    }

    // A stretch dragged over is what all charts then show; a double click goes back.
    listen() {
        let from = null;
        const x = (event) => {
            const area = this.graph.getArea();
            const at = event.clientX - this.canvas.getBoundingClientRect().left;
            return Math.min(Math.max(at, area.x), area.x + area.w);
        };
        const show = (event) => {
            const [a, b] = [from, x(event)].sort((p, q) => p - q);
            this.stretch.style.left = `${a}px`;
            this.stretch.style.width = `${b - a}px`;
            setShown(this.stretch, b - a >= DRAG_LEAST);
            return [a, b];
        };
        this.canvas.addEventListener('pointerdown', (event) => {
            if (!this.graph || event.pointerType !== 'mouse' || event.button !== 0) return;
            from = x(event);
            this.canvas.setPointerCapture(event.pointerId);
        });
        this.canvas.addEventListener('pointermove', (event) => {
            if (from !== null) show(event);
        });
        this.canvas.addEventListener('pointerup', (event) => {
            if (from === null) return;
            const [a, b] = show(event);
            from = null;
            setShown(this.stretch, false);
            if (b - a >= DRAG_LEAST)
                this.group.chooseSpan(
                    spanBetween(this.graph.toDataXCoord(a), this.graph.toDataXCoord(b), this.group.to),
                );
        });
        this.canvas.addEventListener('pointercancel', () => {
            from = null;
            setShown(this.stretch, false);
        });
        this.canvas.addEventListener('dblclick', () =>
            this.group.chooseSpan(spanAround(this.group.span)),
        );
    }

    fit() {
        const { clientWidth } = this.canvas;
        if (this.graph && clientWidth && clientWidth !== this.width) this.graph.resize();
        this.width = clientWidth;
    }

    options() {
        const { row } = this;
        const count = row.lines.length;
        const grid = themeColor('--line');
        return {
            labels: ['time', ...row.lines.map((line) => line.label || row.label)],
            colors: row.lines.map((line) => themeColor(line.color)),
            strokeWidth: row.stacked ? 1 : 1.6,
            stackedGraph: Boolean(row.stacked),
            fillGraph: true,
            fillAlpha: row.stacked ? 0.55 : 0.1,
            series:
                row.stacked || count < 2
                    ? {}
                    : { [row.lines[1].label]: { strokePattern: [5, 3], fillGraph: false } },
            axisLineColor: grid,
            gridLineColor: grid,
            gridLineWidth: 1,
            axisLabelFontSize: 11,
            legend: 'never',
            interactionModel: {}, // ours below: a page that scrolls must not turn into one that zooms
            highlightCircleSize: 3,
            rightGap: 6,
            axes: {
                x: { axisLabelFormatter: timeLabel, pixelsPerLabel: 70, axisLabelWidth: 60 },
                y: {
                    axisLabelFormatter: (v) => figure(v, row.unit),
                    pixelsPerLabel: 28,
                    axisLabelWidth: 58,
                    labelsKMG2: row.unit === 'bytes',
                },
            },
            underlayCallback: (context, area, graph) => {
                if (this.limit !== undefined)
                    limitLine(context, area, graph, this.limit, row.limit_words);
            },
            highlightCallback: (event, x, points, index) => this.group.point(this, index),
            unhighlightCallback: () => this.group.point(this, -1),
        };
    }

    begin(rows, changes) {
        this.graph = new Dygraph(this.canvas, rows, { ...this.options(), ...changes });
        this.canvas.append(this.stretch);
        this.width = this.canvas.clientWidth;
        plots.set(this.canvas, this);
        resized.observe(this.canvas);
    }

    draw(rows, window_ms, subject) {
        if (!this.canvas.clientWidth) return;
        const limit = this.row.limit && this.row.limit(subject);
        this.limit = limit === null ? undefined : limit;
        const changes = {
            file: rows,
            dateWindow: window_ms,
            valueRange: this.row.range ? this.row.range(subject) : [0, null],
        };
        if (this.graph) this.graph.updateOptions(changes);
        else this.begin(rows, changes);
        this.rows = rows;
        this.tell(-1);
    }

    // The figures above the chart: where the pointer is, else the newest.
    tell(index) {
        const row = this.rows && this.rows[index < 0 ? this.rows.length - 1 : index];
        this.values.forEach((v, i) =>
            setText(v.value, figure(row ? row[i + 1] : null, this.row.unit)),
        );
    }

    describe(text) {
        setAttribute(this.canvas, 'aria-label', text);
    }

    close() {
        resized.unobserve(this.canvas);
        if (this.graph) this.graph.destroy();
        this.graph = null;
    }
}

export class ChartGroup {
    // `heading`: the element of a chart's title, one level below what it stands in.
    constructor(table, heading, chooseSpan) {
        this.heading = heading;
        this.chooseSpan = chooseSpan;
        this.charts = table.map((row) => new Chart(this, row));
        this.node = el('div', { class: 'charts' }, ...this.charts.map((chart) => chart.node));
        this.drawn_at = -Infinity;
    }

    // With one pointer: what a chart points at, all of them do.
    point(from, index) {
        for (const chart of this.charts) {
            if (chart !== from && chart.graph) {
                if (index < 0) chart.graph.clearSelection();
                else chart.graph.setSelection(index);
            }
            chart.tell(index);
        }
    }

    draw(series, span, subject, is_urgent) {
        const to = span.until_ms ?? series.newest;
        this.span = span;
        this.to = series.newest;
        const drawn_ago_ms = Math.abs(to - this.drawn_at); // a clock may be set back
        if (!Number.isFinite(to) || (!is_urgent && drawn_ago_ms < span.patience_ms)) return;
        this.drawn_at = to;
        const from = to - span.ms;
        for (const chart of this.charts) {
            const rows = series.rows(
                chart.row.lines.map((line) => line.key),
                from,
                span.step_ms,
            );
            chart.draw(rows, [from, to], subject);
            chart.describe(describe(chart.row, series, from, span));
        }
    }

    // Colours are the theme's and a size is the page's: begin again.
    restyle() {
        this.close();
        this.drawn_at = -Infinity;
    }

    close() {
        this.charts.forEach((chart) => chart.close());
    }
}

function describe(row, series, from_ms, span) {
    const parts = row.lines.map((line) => {
        const d = series.digest(line.key, from_ms, span.until_ms);
        const name = line.label ? `${line.label}: ` : '';
        if (!d.count) return `${name}unknown`;
        const [now, least, most] = [d.now, d.least, d.most].map((v) => figure(v, row.unit));
        return `${name}now ${now}, from ${least} to ${most}`;
    });
    return `${row.label}, ${span.words}. ${parts.join('; ')}`;
}
