// SPDX-License-Identifier: Apache-2.0
// Figures as people read them. The server sends base units (bytes, seconds, shares from 0 to 1);
// what is not known is null there and a dash here, never 0.
export const NONE = '–';

export function known(value) {
    return typeof value === 'number' && Number.isFinite(value);
}

// Three significant digits, as the terminal prints them, and always as many as before when a
// number moves a little: nothing jumps.
function three(value) {
    if (value === 0) return '0';
    const size = Math.abs(value);
    return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(step, names) {
    return (value) => {
        let at = 0;
        while (at < names.length - 1 && Math.abs(value) >= step) {
            value /= step;
            at += 1;
        }
        return `${at === 0 ? Math.round(value) : three(value)} ${names[at]}`;
    };
}

// A share that is not nothing is not shown as nothing.
function percent(share) {
    const value = share * 100;
    return `${value > 0 && value < 0.95 ? '< 1' : Math.round(value)} %`;
}

function duration(seconds) {
    if (seconds < 100) return `${Math.round(seconds)} s`;
    if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
    return `${three(seconds / 3600)} h`;
}

// One watt hour is 3600 joules; a bill counts in those.
function energy(joules) {
    if (joules < 3600) return `${Math.round(joules)} J`;
    const hours = joules / 3600;
    return hours < 1000 ? `${three(hours)} Wh` : `${three(hours / 1000)} kWh`;
}

const COUNT = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

const UNITS = {
    bytes: scaled(1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']),
    share: percent,
    celsius: (v) => `${Math.round(v)} °C`,
    watts: (v) => `${v < 10 ? three(v) : Math.round(v)} W`,
    mhz: (v) => `${Math.round(v)} MHz`,
    joules: energy,
    seconds: duration,
    ms: (v) => (v < 10000 ? `${three(v)} ms` : `${three(v / 1000)} s`),
    number: three,
    count: (v) => COUNT.format(v),
    load: (v) => v.toFixed(2),
};

// The one way from a number to a text.
export function figure(value, unit) {
    return known(value) ? UNITS[unit](value) : NONE;
}

// "68.6 of 79.6 GiB", "640 of 700 W": the unit once where both have the same.
export function figureOf(value, whole, unit) {
    const parts = [figure(value, unit), figure(whole, unit)];
    if (!known(whole)) return parts[0];
    const [a, b] = parts.map((p) => p.slice(p.lastIndexOf(' ')));
    return `${a === b ? parts[0].slice(0, -a.length) : parts[0]} of ${parts[1]}`;
}

export function clock(at_ms) {
    return new Date(at_ms).toLocaleTimeString([], { hourCycle: 'h23' });
}
