// SPDX-License-Identifier: Apache-2.0
// Another batch while it trains: smaller when memory is near its end, larger when an adaptive run
// has room. The peak of a larger batch is predicted from the measured ones, or from the tape's
// forecast moved to what was measured; without either nothing grows.
#include "measure/recover/recover_int.h"

#include <math.h>

// Memory that is short once may be a passing neighbour's; short in several steps it is the
// training's.
enum { RETRY_STEPS_NEAR = 3 };

static bool is_over(const struct recover_rules *rules, int64_t peak_bytes, double share) {
    return rules->capacity_bytes > 0 && peak_bytes > 0 &&
           (double)peak_bytes > share * (double)rules->capacity_bytes;
}

bool recover_is_near(const struct recover_rules *rules, const struct recover_sight *sight) {
    if (!rules->recover && !rules->adaptive) return false;
    return sight->retry_steps >= RETRY_STEPS_NEAR ||
           is_over(rules, sight->peak_bytes, rules->near_share);
}

// Bytes at batch 0 and for each sample, by least squares. False: fewer than two batches, or a line
// that falls (noise: batches too near each other).
static bool fit_line(const struct recover_state *s, double *ret_base, double *ret_each) {
    double n = s->peak_count, x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < s->peak_count; i++) {
        x += (double)s->peaks[i].batch / n;
        y += (double)s->peaks[i].bytes / n;
    }
    for (int i = 0; i < s->peak_count; i++) {
        double dx = (double)s->peaks[i].batch - x, dy = (double)s->peaks[i].bytes - y;
        xx += dx * dx;
        xy += dx * dy;
    }
    if (!(xx > 0) || !(xy > 0)) return false;
    *ret_each = xy / xx;
    *ret_base = y - *ret_each * x;
    return true;
}

static const struct recover_peak *largest_peak(const struct recover_state *s) {
    const struct recover_peak *best = NULL;
    for (int i = 0; i < s->peak_count; i++) {
        if (!best || s->peaks[i].batch > best->batch) best = &s->peaks[i];
    }
    return best;
}

static int64_t whole_bytes(double bytes) {
    return bytes < 0x1p62 ? (int64_t)ceil(bytes) : INT64_C(1) << 62;
}

int64_t recover_predict(const struct recover_state *state, int64_t batch) {
    const struct recover_peak *known = largest_peak(state);
    double base = 0, each = 0;
    if (!known) return -1;
    double above = (double)known->bytes;
    if (fit_line(state, &base, &each)) {
        double line = base + each * (double)batch;
        // What was measured at a smaller batch is needed at a larger one, whatever the line says.
        return whole_bytes(batch >= known->batch ? fmax(line, above) : fmax(line, 0));
    }
    // Weights and optimizer do not grow with the batch: in proportion is too much, which is safe.
    return whole_bytes(above * (double)batch / (double)known->batch);
}

static int64_t peak_of(const struct recover_state *s, int64_t batch) {
    for (int i = 0; i < s->peak_count; i++) {
        if (s->peaks[i].batch == batch) return s->peaks[i].bytes;
    }
    return -1;
}

// The forecast, and on top what the present batch took more than was forecast for it.
static int64_t predict(const struct recover_state *s, const struct recover_sight *sight,
                       int64_t batch) {
    int64_t forecast = -1, here = -1, measured = peak_of(s, s->size.batch);
    if (sight->forecast) {
        forecast = sight->forecast(sight->forecast_context, batch);
        here = sight->forecast(sight->forecast_context, s->size.batch);
    }
    if (forecast <= 0) return recover_predict(s, batch);
    return here > 0 && measured > here ? forecast + (measured - here) : forecast;
}

static bool shrink(struct arena *a, const struct recover_rules *rules,
                   const struct recover_state *s, const struct recover_sight *sight,
                   struct recover_size *ret_size, struct str *ret_why) {
    int64_t batch = recover_batch_smaller(rules, s);
    if (batch == 0) return false;
    *ret_size = recover_size_of(rules, batch);
    *ret_why =
        sight->retry_steps >= RETRY_STEPS_NEAR
            ? str_format(a, "the allocator had to retry in %lld steps",
                         (long long)sight->retry_steps)
            : str_format(a, "the peak is over %.3g %% of the memory", 100 * rules->near_share);
    return true;
}

static bool grow(struct arena *a, const struct recover_rules *rules, const struct recover_state *s,
                 const struct recover_sight *sight, struct recover_size *ret_size,
                 struct str *ret_why) {
    double least = ceil((double)s->size.batch * rules->factor);
    if (!rules->adaptive || rules->capacity_bytes <= 0 || !(least < 0x1p40)) return false;
    int64_t batch = recover_batch_above(rules, (int64_t)least);
    if (batch <= s->size.batch || (s->failed_batch > 0 && batch >= s->failed_batch)) return false;
    int64_t peak = predict(s, sight, batch);
    if (peak < 0 || is_over(rules, peak, rules->threshold)) return false;
    *ret_size = recover_size_of(rules, batch);
    *ret_why = str_format(a, "batch %lld is predicted to take %.3g %% of the memory, below %.3g %%",
                          (long long)batch, 100 * (double)peak / (double)rules->capacity_bytes,
                          100 * rules->threshold);
    return true;
}

bool recover_adapt(struct arena *a, const struct recover_rules *rules,
                   const struct recover_state *state, const struct recover_sight *sight,
                   struct recover_size *ret_size, struct str *ret_why) {
    if (state->phase != RECOVER_RUNNING || state->wanted.batch > 0) return false;
    if (recover_is_near(rules, sight)) return shrink(a, rules, state, sight, ret_size, ret_why);
    // The peak of now is not in the state yet when no checkpoint told it.
    struct recover_state now = *state;
    for (int i = 0; i < now.peak_count; i++) {
        if (now.peaks[i].batch == now.size.batch && sight->peak_bytes > now.peaks[i].bytes)
            now.peaks[i].bytes = sight->peak_bytes;
    }
    if (peak_of(&now, now.size.batch) < 0 && sight->peak_bytes > 0 &&
        now.peak_count < RECOVER_PEAKS_MAX)
        now.peaks[now.peak_count++] = (struct recover_peak){now.size.batch, sight->peak_bytes};
    return grow(a, rules, &now, sight, ret_size, ret_why);
}
