// SPDX-License-Identifier: Apache-2.0
// Readings over time, in memory that is taken once: the newest hour at one reading a second. What
// the charts need of it is a row for each pixel or two, not all of it.
const MOST = 3700; // an hour and a little
const LEAST_MS = 900; // readings that come more often than once a second are passed over

export class Series {
    constructor(keys) {
        this.keys = keys;
        this.at = new Float64Array(MOST);
        this.columns = Object.fromEntries(keys.map((key) => [key, new Float64Array(MOST)]));
        this.gap_ms = 10000; // a longer time without a reading is a gap
        this.clear();
    }

    clear() {
        this.count = 0;
        this.end = 0; // the place of the next reading
    }

    get newest() {
        return this.count ? this.at[(this.end + MOST - 1) % MOST] : -Infinity;
    }

    // Unknown (null, undefined) is kept as NaN.
    push(at_ms, values) {
        if (!(at_ms - this.newest >= LEAST_MS)) return;
        this.at[this.end] = at_ms;
        for (const key of this.keys) {
            const value = values[key];
            this.columns[key][this.end] = typeof value === 'number' ? value : NaN;
        }
        this.end = (this.end + 1) % MOST;
        this.count = Math.min(this.count + 1, MOST);
    }

    // Lists of equal length, oldest first, as /api/v1/history has them: what the server kept while
    // this page was not there. What we have seen ourselves and it does not have stays.
    load(lists) {
        if (!lists.at_ms.length) return;
        const ours = [];
        for (let i = 0; i < this.count; i++) {
            const place = (this.end + MOST - this.count + i) % MOST;
            const values = this.keys.map((key) => [key, this.columns[key][place]]);
            ours.push({ at: this.at[place], ...Object.fromEntries(values) });
        }
        const told = lists.at_ms.map((at, i) => {
            const values = this.keys.map((key) => [key, lists[key] ? lists[key][i] : null]);
            return { at, ...Object.fromEntries(values) };
        });
        const [first, last] = [told[0].at, told[told.length - 1].at];
        this.gap_ms = Math.max(this.gap_ms, (3 * (last - first)) / told.length);
        const by_second = new Map(ours.map((o) => [Math.round(o.at / 1000), o]));
        for (const reading of told) {
            const own = by_second.get(Math.round(reading.at / 1000));
            if (own) for (const key of this.keys) reading[key] ??= own[key];
        }
        this.clear();
        for (const r of ours) if (r.at < first - LEAST_MS) this.push(r.at, r);
        for (const r of told) this.push(r.at, r);
        for (const r of ours) if (r.at > last) this.push(r.at, r);
    }

    // Rows [Date, value of key, …] from `from_ms` on, means of `step_ms` each; null where nothing
    // is known. A stretch without readings is a row of nulls, so that no line crosses it.
    rows(keys, from_ms, step_ms) {
        const rows = [];
        const columns = keys.map((key) => this.columns[key]);
        const sums = keys.map(() => 0);
        const counts = keys.map(() => 0);
        let bucket = -1;
        let last = -Infinity;
        const flush = () => {
            if (bucket < 0) return;
            const means = sums.map((sum, k) => (counts[k] ? sum / counts[k] : null));
            rows.push([new Date((bucket + 0.5) * step_ms), ...means]);
            sums.fill(0);
            counts.fill(0);
        };
        for (let i = 0; i < this.count; i++) {
            const place = (this.end + MOST - this.count + i) % MOST;
            const at = this.at[place];
            if (at < from_ms) continue;
            const now = Math.floor(at / step_ms);
            if (now !== bucket) {
                flush();
                if (rows.length && at - last > Math.max(3 * step_ms, this.gap_ms)) {
                    rows.push([new Date(last + step_ms), ...keys.map(() => null)]);
                }
                bucket = now;
            }
            last = at;
            columns.forEach((column, k) => {
                if (!Number.isNaN(column[place])) {
                    sums[k] += column[place];
                    counts[k] += 1;
                }
            });
        }
        flush();
        return rows;
    }

    // The newest, least, mean and greatest known value since `from_ms`.
    digest(key, from_ms) {
        const column = this.columns[key];
        let now = NaN,
            least = Infinity,
            most = -Infinity,
            sum = 0,
            count = 0;
        for (let i = 0; i < this.count; i++) {
            const place = (this.end + MOST - this.count + i) % MOST;
            if (this.at[place] < from_ms) continue;
            const value = column[place];
            now = value;
            if (Number.isNaN(value)) continue;
            least = Math.min(least, value);
            most = Math.max(most, value);
            sum += value;
            count += 1;
        }
        return { now, least, most, mean: count ? sum / count : NaN, count };
    }
}
