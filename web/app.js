// SPDX-License-Identifier: Apache-2.0
// The page of `batchfit serve`: takes the snapshots, keeps what the charts need of them, and draws
// once a frame what has changed; nothing while nobody looks. Each part of the page is a file of its
// own.
import { clip, setText, setAttribute, setShown, setWidth, el } from './dom.js';
import { figure, figureOf, known, NONE } from './units.js';
import { Series, DAY } from './series.js';
import { Link } from './link.js';
import { SPANS, spanOfHash, hashOfSpan, spanAround } from './spans.js';
import { Overview, healthOf, nameCards } from './cards.js';
import { Detail, CARD_KEYS } from './detail.js';
import { Runs } from './runs.js';
import { Alerts } from './alerts.js';
import { drawStatus } from './status.js';

const by = (id) => document.getElementById(id);

const page = {
    machine: null,
    history: null, // until the first snapshot says whose it is
    day: null, // the same, in minutes
    snapshot: null,
    entries: [], // one a card: {card, key, label, place, series, health, is_chosen}
    series: new Map(), // by the card's key
    days: new Map(), // the same, in minutes
    counters: new Map(), // by the card's key, of the newest ten seconds
    chosen: null, // a key
    span: spanOfHash(window.location.hash),
};

// --- Snapshots

function keyOf(card, place) {
    return card.uuid || `${card.index}/${card.name}/${place}`;
}

// The shares of the newest ten seconds by the driver's counters; these move in steps of their own,
// so that single seconds say little. Heat and brake are added up, as the program does it for its
// windows.
const HELD_MS = 10000;
const HEAT = ['sw_thermal_seconds', 'hw_thermal_seconds', 'power_brake_seconds'];
function clocksLimited(card, key, at_ms) {
    const kept = page.counters.get(key) || [];
    page.counters.set(key, kept);
    while (kept.length > 1 && kept[1].at_ms <= at_ms - HELD_MS) kept.shift();
    if (kept.length && at_ms - kept[kept.length - 1].at_ms < 900) return {};
    const grown = (name) => {
        const [before, now] = [kept[0].gauges[name], card.gauges[name]];
        return known(before) && known(now) && now >= before ? now - before : NaN;
    };
    const seconds = kept.length ? (at_ms - kept[0].at_ms) / 1000 : 0;
    kept.push({ at_ms, gauges: card.gauges });
    if (seconds < 2) return {};
    const heat = HEAT.map(grown).filter((value) => !Number.isNaN(value));
    const throttled = heat.length ? heat.reduce((sum, part) => sum + part) : NaN;
    return {
        throttled: Math.min(1, throttled / seconds),
        power_cap: Math.min(1, grown('power_cap_seconds') / seconds),
    };
}

function seriesOf(key, all, size) {
    if (!all.has(key)) all.set(key, new Series(CARD_KEYS, size));
    return all.get(key);
}

function readCards(snapshot) {
    const labels = nameCards(snapshot.cards);
    page.entries = snapshot.cards.map((card, place) => {
        const key = keyOf(card, place);
        return {
            card,
            key,
            place,
            label: labels[place],
            series: seriesOf(key, page.series),
            day: seriesOf(key, page.days, DAY),
            health: healthOf(snapshot.findings, place),
        };
    });
    const keys = new Set(page.entries.map((e) => e.key));
    for (const key of page.series.keys()) if (!keys.has(key)) page.series.delete(key);
    for (const key of page.days.keys()) if (!keys.has(key)) page.days.delete(key);
    for (const key of page.counters.keys()) if (!keys.has(key)) page.counters.delete(key);
}

function keepReadings(snapshot) {
    page.entries.forEach(({ card, key, place, series, day }) => {
        if (page.day && page.day.cards[place]) day.load(page.day.cards[place]);
        if (page.history && page.history.cards[place]) series.load(page.history.cards[place]);
        if (page.machine && page.machine.interval_ms)
            series.gap_ms = Math.max(10000, 3 * page.machine.interval_ms);
        if (card.state === 'answers') {
            const held = clocksLimited(card, key, snapshot.at_ms);
            const values = { ...card.gauges, ...card.memory, ...held };
            series.push(snapshot.at_ms, values);
            day.push(snapshot.at_ms, values);
        } else {
            page.counters.delete(key);
            series.push(snapshot.at_ms, {});
            day.push(snapshot.at_ms, {});
        }
    });
    page.history = null;
    page.day = null;
}

// A server whose clock was set: what was kept stays as long ago as it is, as in the server's own
// history; else nothing would be newer until the clock is where it was, or hours would be missing
// that never were. A phone that slept is no such thing: more was watched meanwhile.
function followClock(snapshot) {
    const before = page.snapshot;
    if (!before) return;
    const watched_ms = snapshot.watched_ms - before.watched_ms; // negative: it was restarted
    const passed_ms = snapshot.at_ms - before.at_ms;
    const set_ms = watched_ms >= 0 ? passed_ms - watched_ms : Math.min(passed_ms, 0);
    if (Math.abs(set_ms) < 1000) return;
    for (const all of [page.series, page.days, runs.series])
        for (const series of all.values()) series.shift(set_ms - (set_ms < 0 ? series.grain_ms : 0));
    page.counters.clear();
}

function takeSnapshot(snapshot) {
    followClock(snapshot);
    page.snapshot = snapshot;
    readCards(snapshot);
    keepReadings(snapshot);
    runs.take(snapshot);
    alerts.take(snapshot, page.entries);
    drawSoon();
}

// --- Drawing

let is_asked = false;
function drawSoon() {
    if (is_asked || document.hidden) return;
    is_asked = true;
    requestAnimationFrame(() => {
        is_asked = false;
        if (!document.hidden && page.snapshot) draw();
    });
}

function chosenEntry() {
    return page.entries.find((e) => e.key === page.chosen) || page.entries[0] || null;
}

function draw() {
    const { snapshot, entries } = page;
    const chosen = chosenEntry();
    for (const entry of entries) entry.is_chosen = entry === chosen;
    drawBanner(snapshot);
    drawStatus(snapshot, entries);
    drawMachine(snapshot);
    overview.update(entries, snapshot.driver);
    detail.update(chosen, page.span);
    runs.draw(snapshot.runs, entries, page.span);
    alerts.draw(snapshot, entries);
    const bad = snapshot.findings.filter((f) => f.status === 'fail').length;
    const cards = `${entries.length} ${entries.length === 1 ? 'GPU' : 'GPUs'}`;
    const title = `${bad ? `(${bad}) ` : ''}batchfit: ${cards}`;
    if (document.title !== title) document.title = title;
    document.body.dataset.ready = 'true';
}

function drawBanner(snapshot) {
    const broken = snapshot.findings.find((f) => f.id === 'trend.driver');
    by('banner').classList.toggle('bad', Boolean(broken));
    if (broken) {
        setText(by('banner'), `${broken.what} ${broken.value}. ${clip(broken.remedy || '', 300)}`);
        setShown(by('banner'), true);
        return;
    }
    const what = snapshot.standin || (page.machine?.is_recorded ? 'a recorded machine' : null);
    setText(by('banner'), what ? `Not this machine's own GPUs: ${clip(what, 300)}` : '');
    setShown(by('banner'), Boolean(what));
}

function hostUsed({ cpu }) {
    const is_known = known(cpu?.total_bytes) && known(cpu?.available_bytes);
    return is_known ? cpu.total_bytes - cpu.available_bytes : NaN;
}

// {label, value(snapshot), note(snapshot), share(snapshot)}: share is drawn as a bar.
const MACHINE = [
    {
        label: 'Driver',
        value: (s) => s.driver.version || (s.driver.state === 'answers' ? 'none' : NONE),
        note: (s) =>
            s.driver.state === 'hangs' ? 'does not answer' : s.driver.is_wsl ? 'WSL' : '',
    },
    {
        label: 'CUDA',
        value: (s) => s.driver.cuda || NONE,
        note: (s) => (s.driver.cuda ? 'newest supported' : ''),
    },
    {
        label: 'CPU',
        value: (s) => figure(s.cpu?.utilisation, 'share'),
        share: (s) => s.cpu?.utilisation,
        note: (s) => (known(s.cpu?.cores) ? `${s.cpu.cores} cores` : ''),
    },
    {
        label: 'Load',
        value: (s) => figure(s.cpu?.load, 'load'),
        note: (s) =>
            s.cpu?.io_wait > 0.01 ? `waiting for disks ${figure(s.cpu.io_wait, 'share')}` : '',
    },
    {
        label: 'Memory',
        value: (s) => figureOf(hostUsed(s), s.cpu?.total_bytes, 'bytes'),
        share: (s) => hostUsed(s) / s.cpu?.total_bytes,
        note: (s) =>
            s.cpu?.swap_used_bytes > 0 ? `swap ${figure(s.cpu.swap_used_bytes, 'bytes')}` : '',
    },
    {
        label: 'CPU power',
        when: (s) => known(s.cpu?.power_watts),
        value: (s) => figure(s.cpu.power_watts, 'watts'),
    },
    {
        label: 'CPU temperature',
        when: (s) => known(s.cpu?.temperature_celsius),
        value: (s) => figure(s.cpu.temperature_celsius, 'celsius'),
    },
];

const machine_rows = MACHINE.map((row) => {
    const value = el('span', { class: 'value' });
    const note = el('span', { class: 'note' });
    const bar = row.share ? el('i', { class: 'part used' }) : null;
    const node = el(
        'div',
        {},
        el('dt', {}, row.label),
        el(
            'dd',
            {},
            value,
            note,
            bar ? el('span', { class: 'bar', 'aria-hidden': 'true' }, bar) : null,
        ),
    );
    by('machine-figures').append(node);
    return { row, value, note, bar, node };
});

function drawMachine(snapshot) {
    for (const { row, value, note, bar, node } of machine_rows) {
        const shown = !row.when || row.when(snapshot);
        setShown(node, shown);
        if (!shown) continue;
        setText(value, clip(row.value(snapshot), 40));
        setText(note, row.note ? row.note(snapshot) : '');
        if (!bar) continue;
        setShown(bar.parentElement, known(row.share(snapshot)));
        setWidth(bar, row.share(snapshot));
    }
}

const LINK_WORDS = {
    connecting: () => 'connecting',
    live: () => 'live',
    stale: (link) => `stale: no data for ${figure(link.silence_s, 'seconds')}`,
    lost: () => 'no connection, retrying',
    refused: () => 'the server requires its token: reload the page to enter it',
};

let link_state = 'connecting';
function drawLink(link) {
    setText(by('link-text'), LINK_WORDS[link.state](link));
    setAttribute(by('link'), 'data-state', link.state);
    setAttribute(document.body, 'data-link', link.state);
    if (link.state === link_state) return;
    const was_lost = link_state === 'lost' || link_state === 'stale';
    if (link.state === 'lost' || link.state === 'stale')
        alerts.event(Date.now(), 'warn', 'no data from the server', true);
    if (link.state === 'live' && was_lost)
        alerts.event(Date.now(), 'ok', 'the data is live again', true);
    link_state = link.state;
}

// --- Choosing

function choose(key, is_pressed) {
    if (is_pressed && page.chosen === key && matchMedia('(max-width: 720px)').matches)
        detail.focus();
    page.chosen = key;
    draw();
}

function chooseByStep(step) {
    const { entries } = page;
    if (!entries.length) return;
    const at = entries.indexOf(chosenEntry());
    const next = entries[Math.min(Math.max(at + step, 0), entries.length - 1)];
    choose(next.key);
    overview.focus(next.key);
}

function chooseSpan(span) {
    page.span = span;
    window.history.replaceState(null, '', hashOfSpan(span));
    if (page.snapshot) draw();
}

// As many as stand beside each other in the grid.
function tilesInRow() {
    const tops = page.entries.map((e) => overview.views.get(e.key)?.node.offsetTop);
    const row = tops.filter((top) => top === tops[0]).length;
    return Math.max(row, 1);
}

const KEYS = {
    j: () => chooseByStep(1),
    k: () => chooseByStep(-1),
    ArrowRight: () => chooseByStep(1),
    ArrowLeft: () => chooseByStep(-1),
    ArrowDown: () => chooseByStep(tilesInRow()),
    ArrowUp: () => chooseByStep(-tilesInRow()),
    Escape: () => {
        if (page.span.until_ms) return chooseSpan(spanAround(page.span));
        window.scrollTo(0, 0);
        if (chosenEntry()) overview.focus(chosenEntry().key);
        return undefined;
    },
    t: () => nextTheme(),
    m: () => chooseSpan(SPANS[Math.max(SPANS.indexOf(spanAround(page.span)) - 1, 0)]),
    h: () => chooseSpan(SPANS[Math.min(SPANS.indexOf(spanAround(page.span)) + 1, SPANS.length - 1)]),
    '?': () => by('help').showModal(),
};

// Arrows belong to the tiles and to the page at large; other controls have their own use for them.
function onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || by('help').open) return;
    const at = document.activeElement;
    const is_tile = at && at.classList.contains('tile');
    const is_free =
        !at || at === document.body || is_tile || at.id === 'detail-title' || at.id === 'main';
    if (event.key.startsWith('Arrow') && (!is_free || (!is_tile && !event.key.match(/Left|Right/))))
        return;
    if (event.key === 'Enter' && is_tile) {
        event.preventDefault();
        choose(page.entries.find((e) => overview.views.get(e.key).button === at).key);
        detail.focus();
    } else if (/^[1-9]$/.test(event.key)) {
        const entry = page.entries[Number(event.key) - 1];
        if (entry) chooseByStep(entry.place - page.entries.indexOf(chosenEntry()));
    } else if (Object.hasOwn(KEYS, event.key)) {
        event.preventDefault();
        KEYS[event.key]();
    }
}

// --- Theme

const THEMES = ['system', 'dark', 'light'];
let theme = 'system';

// Storage can be forbidden; the theme then lasts as long as the page.
function storedTheme(value) {
    try {
        if (value) localStorage.setItem('batchfit-theme', value);
        return localStorage.getItem('batchfit-theme');
    } catch {
        return null;
    }
}

function setTheme(next) {
    theme = THEMES.includes(next) ? next : 'system';
    if (theme === 'system') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.dataset.theme = theme;
    setText(by('theme-text'), `Theme: ${theme}`);
    restyle();
}

function nextTheme() {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    storedTheme(next);
    setTheme(next);
}

function restyle() {
    detail.restyle();
    runs.restyle();
    if (page.snapshot) draw();
}

// --- Begin

const overview = new Overview(choose);
const detail = new Detail(chooseSpan, page.span);
const runs = new Runs(chooseSpan);
const alerts = new Alerts((place) => {
    if (page.entries[place]) choose(page.entries[place].key);
    detail.focus();
});

setTheme(storedTheme());
by('theme').addEventListener('click', nextTheme);
by('help-open').addEventListener('click', KEYS['?']);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', restyle);
document.addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', drawSoon);

new Link({
    machine(machine) {
        page.machine = machine;
        by('fleet-link').hidden = !machine.has_fleet;
        setText(by('version'), `batchfit ${clip(machine.version || '', 40)}`.trim());
    },
    history(history, day) {
        page.history = history;
        page.day = day;
        runs.load(history.runs);
    },
    snapshot: takeSnapshot,
    state: drawLink,
}).start();
