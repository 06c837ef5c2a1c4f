// SPDX-License-Identifier: Apache-2.0
// The fleet's page: three tables of /api/v1/fleet, a minute old at most.
import { clip, el } from './dom.js';

const SECONDS = 60;
const GIB = 1024 ** 3;
const known = (value, text) => (value === null || value === undefined ? '–' : text(value));
const percent = (value) => known(value, (v) => `${v.toFixed(0)} %`);
const hours = (value) => known(value, (v) => (v < 10 ? v.toFixed(1) : v.toFixed(0)));
const bytes = (value) => known(value, (v) => `${(v / GIB).toFixed(1)} GiB`);
const day = (value) => known(value, (v) => new Date(v).toISOString().slice(0, 16).replace('T', ' '));
const name = (value) => known(value, (v) => clip(v, 60));

// A column: its title, what it shows of a row, and whether it is a number.
const TABLES = {
    cards: [['GPU', (r) => name(r.gpu)], ['card', (r) => name(r.card)], ['used', (r) => percent(r.used_percent), true],
        ['hours', (r) => hours(r.hours), true], ['runs', (r) => r.runs, true], ['last run (UTC)', (r) => day(r.last_ms)],
        ['state', (r) => (r.idles ? 'idles' : '')]],
    oversized: [['model', (r) => name(r.model)], ['GPU', (r) => name(r.gpu)], ['trainings', (r) => r.runs, true],
        ['given', (r) => bytes(r.asked_bytes), true], ['peak', (r) => bytes(r.peak_bytes), true],
        ['times', (r) => known(r.times, (v) => v.toFixed(1)), true]],
    models: [['model', (r) => name(r.model)], ['GPU', (r) => name(r.gpu)], ['runs', (r) => r.runs, true], ['hours', (r) => hours(r.hours), true],
        ['GPU busy', (r) => percent(r.gpu_percent), true], ['peak', (r) => bytes(r.peak_bytes), true],
        ['of the memory', (r) => percent(r.memory_percent), true], ['last run (UTC)', (r) => day(r.last_ms)]],
};

// What is wider than the screen scrolls in its place, by the keyboard too.
function table(key, columns, rows) {
    const head = el('tr', {}, ...columns.map(([title, , isNumber]) => el('th', { scope: 'col', class: isNumber ? 'number' : '' }, title)));
    const body = rows.map((row) => el('tr', {}, ...columns.map(([, text, isNumber]) => el('td', { class: isNumber ? 'number' : '', dir: 'auto' }, String(text(row))))));
    const all = el('table', { class: 'fleet-table' }, el('thead', {}, head), el('tbody', {}, ...body));
    return el('div', { class: 'wide', role: 'group', tabindex: '0', 'aria-labelledby': `${key}-title` }, all);
}

function sentence(fleet) {
    if (fleet.error) return `The history does not answer: ${fleet.error}`;
    const idle = fleet.cards.filter((c) => c.idles).length;
    const spare = fleet.oversized.reduce((sum, r) => sum + r.runs, 0);
    const days = ((fleet.until_ms - fleet.since_ms) / 86400000).toFixed(1).replace('.0', '');
    return `${idle} of ${fleet.cards.length} GPUs idle; ${spare} trainings were given twice the memory they used; the last ${days} days of ${fleet.store}`;
}

async function look() {
    const said = document.getElementById('said');
    try {
        const answer = await fetch('/api/v1/fleet', { credentials: 'same-origin' });
        const fleet = await answer.json();
        if (!answer.ok) throw new Error(fleet.error || answer.status);
        said.textContent = sentence(fleet);
        for (const [key, columns] of Object.entries(TABLES)) {
            const rows = fleet[key];
            document.getElementById(key).replaceChildren(rows.length ? table(key, columns, rows) : el('p', { class: 'quiet' }, 'None.'));
        }
    } catch (why) {
        said.textContent = `No answer: ${why.message}`;
    }
    setTimeout(look, SECONDS * 1000);
}

look();
