// SPDX-License-Identifier: Apache-2.0
// Readings over time, in memory that is taken once: the newest hour at one reading a second, or a
// day at one a minute. What the charts need of it is a row for each pixel or two, not all of it.
export const HOUR = { most: 3700, least_ms: 900 }; // an hour and a little
export const DAY = { most: 1500, least_ms: 59e3 };

export class Series {
    constructor(keys, { most, least_ms } = HOUR) {
        this.keys = keys;
        this.most = most;
        this.least_ms = least_ms;
        this.at = new Float64Array(most);
        this.columns = Object.fromEntries(keys.map((key) => [key, new Float64Array(most)]));
        this.gap_ms = Math.max(10000, 3 * least_ms); // a longer time without a reading is a gap
        this.clear();
    }

    clear() {
        this.count = 0;
        this.end = 0; // the place of the next reading
        this.waiting = new Map(); // sums and counts of readings that came too soon for a place
    }

    get grain_ms() {
        return this.least_ms > 1000 ? 60000 : 1000;
    }

    get newest() {
        return this.count ? this.at[(this.end + this.most - 1) % this.most] : -Infinity;
    }

    // The mean of what came since the last place. Unknown (null, undefined) is kept as NaN.
    push(at_ms, values) {
        for (const key of this.keys) {
            const value = values[key];
            if (typeof value !== 'number' || Number.isNaN(value)) continue;
            const kept = this.waiting.get(key) || { sum: 0, count: 0 };
            this.waiting.set(key, { sum: kept.sum + value, count: kept.count + 1 });
        }
        if (!(at_ms - this.newest >= this.least_ms)) return;
        this.at[this.end] = at_ms;
        for (const key of this.keys) {
            const kept = this.waiting.get(key);
            this.columns[key][this.end] = kept ? kept.sum / kept.count : NaN;
        }
        this.waiting.clear();
        this.end = (this.end + 1) % this.most;
        this.count = Math.min(this.count + 1, this.most);
    }

    // The clock that the times are of was set by so much.
    shift(ms) {
        for (let i = 0; i < this.count; i++) {
            this.at[(this.end + this.most - 1 - i) % this.most] += ms;
        }
    }

    // Lists of equal length, oldest first, as /api/v1/history has them: what the server kept while
    // this page was not there. What we have seen ourselves and it does not have stays.
    load(lists) {
        if (!lists.at_ms.length) return;
        const ours = [];
        for (let i = 0; i < this.count; i++) {
            const place = (this.end + this.most - this.count + i) % this.most;
            const values = this.keys.map((key) => [key, this.columns[key][place]]);
            ours.push({ at: this.at[place], ...Object.fromEntries(values) });
        }
        const told = lists.at_ms.map((at, i) => {
            const values = this.keys.map((key) => [key, lists[key] ? lists[key][i] : null]);
            return { at, ...Object.fromEntries(values) };
        });
        const [first, last] = [told[0].at, told[told.length - 1].at];
        this.gap_ms = Math.max(this.gap_ms, (3 * (last - first)) / told.length);
        const by_second = new Map(ours.map((o) => [Math.round(o.at / this.grain_ms), o]));
        for (const reading of told) {
            const own = by_second.get(Math.round(reading.at / this.grain_ms));
            if (own) for (const key of this.keys) reading[key] ??= own[key];
        }
        this.clear();
        for (const r of ours) if (r.at < first - this.least_ms) this.push(r.at, r);
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
            const place = (this.end + this.most - this.count + i) % this.most;
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

    // The newest, least, mean and greatest known value from `from_ms` to `to_ms`.
    digest(key, from_ms, to_ms = Infinity) {
        const column = this.columns[key];
        let now = NaN,
            least = Infinity,
            most = -Infinity,
            sum = 0,
            count = 0;
        for (let i = 0; i < this.count; i++) {
            const place = (this.end + this.most - this.count + i) % this.most;
            if (this.at[place] < from_ms || this.at[place] > to_ms) continue;
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
