// SPDX-License-Identifier: Apache-2.0
// What is to be said of the machine, worst and newest first, and what came and went: while this page
// was open, and before as far as the server remembers.
import { el, clip, setText, setAttribute, setShown, eachOf } from './dom.js';
import { clock } from './units.js';
import { LEVELS, stateWords } from './cards.js';

const MOST_EVENTS = 100;
const CALM_MS = 10000; // a screen reader hears at most one sentence in this time

function inWords(finding, join) {
    const what = clip(finding.what, 80);
    return finding.value ? `${what}${join}${clip(finding.value, 120)}` : what;
}

// Says what is new to those who do not see it.
class Announcer {
    constructor() {
        this.node = document.getElementById('announce');
        this.waiting = [];
        this.said_at = -Infinity;
    }

    say(text) {
        this.waiting = this.waiting.filter((t) => t !== text).slice(-2);
        this.waiting.push(text);
        if (!this.timer)
            this.timer = setTimeout(
                () => this.flush(),
                Math.max(0, this.said_at + CALM_MS - performance.now()),
            );
    }

    flush() {
        this.timer = null;
        this.said_at = performance.now();
        this.node.textContent = this.waiting.join('. ');
        this.waiting = [];
    }
}

function alertView(go) {
    const mark = el('span', { class: 'mark', 'aria-hidden': 'true' });
    const level = el('span', { class: 'level' });
    const where = el('button', { type: 'button', class: 'where' });
    const since = el('span', { class: 'since' });
    const title = el('h3', { dir: 'auto' });
    const evidence = el('p', { dir: 'auto' });
    const remedy = el('p', { class: 'remedy', dir: 'auto' });
    let card = null;
    where.addEventListener('click', () => go(card));
    return {
        node: el(
            'li',
            { class: 'alert' },
            el('div', { class: 'row' }, el('span', { class: 'kind' }, mark, level), where, since),
            title,
            evidence,
            remedy,
        ),
        update({ finding: f, label, first_ms }) {
            card = f.card;
            setAttribute(this.node, 'data-level', f.status);
            setText(mark, LEVELS[f.status].mark);
            setText(level, LEVELS[f.status].one);
            setShown(where, label !== null);
            setText(where, label || '');
            setText(since, first_ms === null ? '' : `since ${clock(first_ms)}`);
            setText(
                title,
                f.value ? `${clip(f.what, 80)}: ${clip(f.value, 120)}` : clip(f.what, 200),
            );
            setText(evidence, clip(f.evidence, 600));
            setText(remedy, clip(f.remedy, 600));
            setShown(remedy, Boolean(f.remedy));
        },
    };
}

function fineView() {
    const title = el('b', {});
    const text = el('span', { dir: 'auto' });
    return {
        node: el('li', {}, title, ' ', text),
        update({ finding: f, label }) {
            setText(title, `${label ? `${label}, ` : ''}${inWords(f, ': ')}`);
            setText(text, clip(f.evidence, 300));
        },
    };
}

export class Alerts {
    constructor(go) {
        this.go = go;
        this.announcer = new Announcer();
        this.first = null; // key -> {at_ms, status, text}
        this.states = new Map(); // card key -> state
        this.runs = null; // run id -> {name, state}
        this.views = new Map();
        this.fine_views = new Map();
        this.ids = Object.fromEntries(
            ['alerts', 'alerts-none', 'fine', 'fine-title', 'fine-list', 'events'].map((id) => [
                id,
                document.getElementById(id),
            ]),
        );
    }

    event(at_ms, level, text, is_spoken) {
        const mark = level ? LEVELS[level].mark : '·';
        const node = el(
            'li',
            { 'data-level': level || '' },
            el('time', {}, clock(at_ms)),
            el('span', { class: 'mark', 'aria-hidden': 'true' }, mark),
            el('span', { dir: 'auto' }, text),
        );
        this.ids.events.prepend(node);
        while (this.ids.events.children.length > MOST_EVENTS)
            this.ids.events.lastElementChild.remove();
        if (is_spoken) this.announcer.say(text);
    }

    // Compares a snapshot with the one before. The first is only remembered.
    take(snapshot, entries) {
        this.takeFindings(snapshot, entries);
        this.takeCards(snapshot, entries);
        this.takeRuns(snapshot);
    }

    takeFindings(snapshot, entries) {
        const before = this.first;
        const now = new Map();
        for (const f of snapshot.findings) {
            if (f.status !== 'warn' && f.status !== 'fail') continue;
            const entry = f.card === null ? null : entries[f.card];
            const key = `${f.id} ${entry ? entry.key : ''}`;
            const old = before && before.get(key);
            const text = `${entry ? `${entry.label}: ` : ''}${inWords(f, ', ')}`;
            now.set(key, { at_ms: old ? old.at_ms : snapshot.at_ms, status: f.status, text });
            if (before && (!old || LEVELS[f.status].rank < LEVELS[old.status].rank))
                this.event(snapshot.at_ms, f.status, text, true);
        }
        if (!before) {
            // What the server remembers of before this page.
            for (const r of [...(snapshot.resolved || [])].reverse()) {
                const entry = r.card === null ? null : entries[r.card];
                const label = entry ? `${entry.label}: ` : '';
                this.event(r.until_ms, 'ok', `over: ${label}${clip(r.what, 80)}`, false);
            }
        }
        if (before) {
            for (const [key, old] of before)
                if (!now.has(key)) this.event(snapshot.at_ms, 'ok', `over: ${old.text}`, false);
        }
        this.first = now;
    }

    takeCards(snapshot, entries) {
        const now = new Map(entries.map((e) => [e.key, { state: e.card.state, label: e.label }]));
        if (this.states.size) {
            for (const [key, { state, label }] of now) {
                const old = this.states.get(key);
                if (!old) this.event(snapshot.at_ms, '', `${label} appeared`, false);
                else if (old.state !== state) {
                    const is_bad = state === 'lost' || state === 'hangs' || state === 'unreachable';
                    this.event(
                        snapshot.at_ms,
                        is_bad ? 'fail' : '',
                        `${label}: ${stateWords(state) || 'answers'}`,
                        is_bad,
                    );
                }
            }
            for (const [key, { label }] of this.states)
                if (!now.has(key)) this.event(snapshot.at_ms, 'warn', `${label} disappeared`, true);
        }
        this.states = now;
    }

    takeRuns(snapshot) {
        const now = new Map(
            snapshot.runs.map((r) => [
                String(r.id),
                { name: clip(r.model || r.command || 'a run', 60), state: r.state },
            ]),
        );
        const before = this.runs;
        this.runs = now;
        if (!before) return;
        for (const [id, { name, state }] of now) {
            const old = before.get(id);
            if (!old && state !== 'ended')
                this.event(snapshot.at_ms, '', `run of ${name} started`, false);
            if (old && old.state !== 'ended' && state === 'ended')
                this.event(snapshot.at_ms, '', `run of ${name} ended`, false);
            if (old && old.state !== 'quiet' && state === 'quiet')
                this.event(snapshot.at_ms, 'warn', `run of ${name}: no recent step`, true);
        }
        for (const [id, { name, state }] of before) {
            if (!now.has(id) && state !== 'ended')
                this.event(snapshot.at_ms, '', `run of ${name} ended`, false);
        }
    }

    draw(snapshot, entries) {
        const rows = snapshot.findings.map((finding) => {
            const entry = finding.card === null ? null : entries[finding.card];
            const key = `${finding.id} ${entry ? entry.key : ''}`;
            const first = this.first && this.first.get(key);
            return {
                finding,
                key,
                label: entry ? entry.label : null,
                first_ms: finding.since_ms || (first ? first.at_ms : null),
            };
        });
        const rank = (row) => (LEVELS[row.finding.status] || LEVELS.unknown).rank;
        const bad = rows.filter((row) => rank(row) < LEVELS.unknown.rank);
        bad.sort((a, b) => rank(a) - rank(b) || b.first_ms - a.first_ms);
        const fine = rows.filter((row) => rank(row) >= LEVELS.unknown.rank);
        eachOf(
            this.ids.alerts,
            this.views,
            bad,
            (row) => row.key,
            () => alertView(this.go),
        );
        eachOf(this.ids['fine-list'], this.fine_views, fine, (row) => row.key, fineView);
        const none = entries.length ? 'Nothing to report.' : 'No GPU is watched.';
        setText(this.ids['alerts-none'], none);
        setShown(this.ids['alerts-none'], bad.length === 0);
        setShown(this.ids.fine, fine.length > 0);
        setText(
            this.ids['fine-title'],
            fine.length === 1 ? '1 check is fine' : `${fine.length} checks are fine`,
        );
    }
}
