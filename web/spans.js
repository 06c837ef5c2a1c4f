// SPDX-License-Identifier: Apache-2.0
// The times that charts show: the newest minute to day, or a stretch that was dragged over.
// How long, and how much time one row of data stands for. `patience_ms`: how often it is worth
// drawing.
export const SPANS = [
    { label: '1 min', words: 'last minute', ms: 60e3, step_ms: 1000, patience_ms: 0 },
    { label: '10 min', words: 'last 10 minutes', ms: 600e3, step_ms: 2000, patience_ms: 2000 },
    { label: '1 h', words: 'last hour', ms: 3600e3, step_ms: 10e3, patience_ms: 10e3 },
    {
        label: '6 h',
        words: 'last 6 hours',
        ms: 6 * 3600e3,
        step_ms: 60e3,
        patience_ms: 60e3,
        is_long: true,
    },
    {
        label: '24 h',
        words: 'last 24 hours',
        ms: 24 * 3600e3,
        step_ms: 240e3,
        patience_ms: 60e3,
        is_long: true,
    },
];

// A stretch of time that stands still, as fine as what is kept of it: seconds for an hour, else
// minutes.
const HOUR_MS = 3600e3;
export function spanBetween(from_ms, to_ms, now_ms = Date.now()) {
    const ms = to_ms - from_ms;
    const is_long = now_ms - from_ms > HOUR_MS;
    const clock = (at) =>
        new Date(at).toLocaleTimeString([], { hourCycle: 'h23', timeStyle: 'medium' });
    return {
        label: '',
        words: `${clock(from_ms)} to ${clock(to_ms)}`,
        ms,
        step_ms: Math.max(is_long ? 60e3 : 1000, Math.ceil(ms / 400000) * 1000),
        patience_ms: 0,
        is_long,
        until_ms: to_ms,
    };
}

// The shortest of the others with at least as much time: where one goes back to.
export function spanAround(span) {
    if (!span.until_ms) return span;
    return SPANS.find((s) => s.ms >= span.ms) || SPANS[SPANS.length - 1];
}

// The range as it stands in the page's address: #6h, or #FROM-TO in seconds since 1970.
export function spanOfHash(hash) {
    const [, from, to] = /^#(\d{9,11})-(\d{9,11})$/.exec(hash) || [];
    if (Number(to) > Number(from)) return spanBetween(from * 1000, to * 1000);
    return SPANS.find((s) => `#${s.label.replace(' ', '')}` === hash) || SPANS[0];
}
export function hashOfSpan(span) {
    if (!span.until_ms) return `#${span.label.replace(' ', '')}`;
    const [from, to] = [span.until_ms - span.ms, span.until_ms].map((ms) => Math.round(ms / 1000));
    return `#${from}-${to}`;
}
