// SPDX-License-Identifier: Apache-2.0
// How things are, in one sentence at the top, as the first line of `batchfit watch` has it; below it
// what was lost and what is over in the hours that nobody looked: the summary of a night.
import { clip, setText, setAttribute, setShown } from './dom.js';
import { clock, figure, known } from './units.js';
import { LEVELS } from './cards.js';

const by = (id) => document.getElementById(id);
const DAY_MS = 24 * 3600e3;
const IDLE = 0.1; // as in watch

const many = (count, one) => `${count} ${one}${count === 1 ? '' : 's'}`;

// What the GPUs and the first run do.
function calm(snapshot) {
    const shares = snapshot.cards.map((card) => card.gauges.utilisation).filter(known);
    const busy = shares.reduce((sum, share) => sum + share, 0) / shares.length;
    let text = many(snapshot.cards.length, 'GPU');
    if (busy < IDLE) text += ' idle';
    else if (known(busy)) text += ` ${figure(busy, 'share')} busy`;
    const run = snapshot.runs.find((r) => r.state !== 'ended');
    if (!run) return text;
    text += ` · ${clip(run.model || run.command || 'a run', 60)}`;
    if (run.state !== 'steps') return `${text} ${run.state}`;
    return known(run.samples_per_second)
        ? `${text} ${figure(run.samples_per_second, 'number')} samples/s`
        : text;
}

// {level, word, text, more}
function verdictOf(snapshot, entries) {
    const bad = ['fail', 'warn'].flatMap((level) =>
        snapshot.findings.filter((f) => f.status === level),
    );
    if (bad.length) {
        const [f] = bad;
        const label = f.card !== null && entries[f.card] ? `${entries[f.card].label}, ` : '';
        return {
            level: f.status,
            word: LEVELS[f.status].one.toUpperCase(),
            text: label + clip(f.what, 80) + (f.value ? `: ${clip(f.value, 120)}` : ''),
            more: bad.length > 1 ? `+${bad.length - 1} more` : '',
        };
    }
    if (!entries.length)
        return { level: 'warn', word: 'NO GPU', text: 'only the CPU can be watched here', more: '' };
    const is_judged = snapshot.findings.length > 0;
    return { level: 'ok', word: is_judged ? 'OK' : '', text: calm(snapshot), more: '' };
}

// What the GPUs lost, together, in the minutes that the server has kept of them.
function lostOf(snapshot) {
    const sum = {};
    for (const { day } of snapshot.cards) {
        for (const [name, value] of Object.entries(day || {})) {
            if (known(value)) sum[name] = (sum[name] || 0) + value;
        }
    }
    return sum;
}

// One line, in the same place whether or not there is something to say.
function drawLost(snapshot) {
    const lost = lostOf(snapshot);
    let text = 'Lost: known once a minute has been watched';
    if (known(lost.idle_seconds)) {
        const money = (snapshot.cost_per_hour * lost.idle_seconds) / 3600;
        const cost = known(snapshot.cost_per_hour) ? ` (${money.toFixed(2)})` : '';
        text = `Lost in ${figure(lost.seconds, 'seconds')} on ${many(snapshot.cards.length, 'GPU')}: `;
        text += `${figure(lost.idle_seconds, 'seconds')} idle${cost}`;
        if (known(lost.throttled_seconds))
            text += `, ${figure(lost.throttled_seconds, 'seconds')} slowed`;
        if (known(lost.energy_joules)) text += `, ${figure(lost.energy_joules, 'joules')}`;
    }
    setShown(by('lost'), snapshot.cards.length > 0);
    setText(by('lost'), text);
}

// Of the alerts that are over, the worst, and of these the longest.
function drawPassed(snapshot, entries) {
    const over = (snapshot.resolved || []).filter((r) => snapshot.at_ms - r.until_ms < DAY_MS);
    const weight = (r) => (r.severity === 'problem' ? DAY_MS * 100 : 0) + r.until_ms - r.since_ms;
    const [worst] = [...over].sort((a, b) => weight(b) - weight(a));
    setShown(by('passed'), Boolean(worst));
    if (!worst) return;
    const label = worst.card !== null && entries[worst.card] ? `${entries[worst.card].label}, ` : '';
    const first = `${label}${clip(worst.what, 80)}, ${clock(worst.since_ms)} to ${clock(worst.until_ms)}`;
    const others = over.length > 1 ? ` and ${many(over.length - 1, 'other')}` : '';
    setText(by('passed'), `Over since then: ${first}${others}`);
}

export function drawStatus(snapshot, entries) {
    const { level, word, text, more } = verdictOf(snapshot, entries);
    setAttribute(by('verdict'), 'data-level', level);
    setText(by('verdict-word'), word);
    setText(by('verdict-text'), text);
    setText(by('verdict-more'), more);
    drawLost(snapshot);
    drawPassed(snapshot, entries);
}
