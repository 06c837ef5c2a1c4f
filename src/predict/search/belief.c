// SPDX-License-Identifier: Apache-2.0
// What the trials so far say about the values that were not tried. The peak of a training step is
// close to a line over the batch: a part that is there at any batch (weights, optimizer state,
// context) and a part for each item. Neither is known, so both are: 432 guesses, each a line, are
// weighed by how well they agree with every trial (Bayes' rule), and by what is usual or was
// predicted. Three rounds zoom in on the limits that have the weight.
// A trial may be one that follows no line (another kernel was chosen: 2.3 % of doublings in public
// measurements of image models need less memory, not more), and never rules a guess out by itself.
#include "predict/search/trials_int.h"

#include <math.h>
#include <string.h>

static const double reading_noise = 0.01; // of a peak between two launches
// What launches are off a line, and how usual that is: public measurements of GPUs lie on lines;
// what a CPU's allocators hold goes in steps of some per cent.
static const struct {
    double noise, usual;
} noises[BELIEF_NOISES] = {{0.01, 0.92}, {0.025, 0.05}, {0.06, 0.03}};
static const double odd_share = 0.03; // trials that follow no line
static const double bend =
    0.25; // how much less a trial says for each doubling away from the others

// One trial as evidence: x as in struct belief_guess, bytes as shares of the budget.
struct evidence {
    enum { READ, RAN, FAILED } kind;
    double x, share;
    double spread; // of the supposed noise: it counts this much less
};
struct forming {
    struct belief *belief;
    struct evidence items[64];
    int count;
    struct belief_guess *guesses;  // of this noise
    const struct evidence *anchor; // the reading of the smallest value: it tells the fixed part
    double noise;                  // that is supposed in this part of the guesses
    double low, high;              // of the limits
    double blur;                   // rounds before the last look through a wider noise
};

static double x_of(const struct belief *b, int64_t value) {
    const struct search_space *space = &b->trials->space;
    if (!b->line.is_known || !space->predict) return (double)value;
    double bytes = space->predict(space->context, value);
    if (isnan(bytes)) return (double)value;
    return (bytes - b->line.fixed_bytes) / b->line.bytes_per_value;
}

static double peak_of(const struct belief_guess *g, double x) {
    return g->fixed + (1 - g->fixed) * x / g->limit;
}

// Probability that a normal variable is below z, to 1e-7 (skipping what is as good as certain).
static double below(double z) {
    if (z > 5) return 1;
    if (z < -5) return 0;
    return 0.5 * erfc(-z * M_SQRT1_2);
}

static double stays(double peak, double noise) {
    return peak <= 0 ? 1 : below((1 / peak - 1) / noise);
}

double search_belief_guess_fits(const struct belief *b, const struct belief_guess *g,
                                int64_t value) {
    return stays(peak_of(g, x_of(b, value)), g->noise);
}

bool search_belief_is_rough(const struct belief *b) {
    double sum = 0;
    for (int i = 0; i < b->count; i++) {
        if (b->guesses[i].noise > reading_noise) sum += b->guesses[i].weight;
    }
    return sum > 0.5;
}

double search_belief_fits(const struct belief *b, int64_t value, double part) {
    double x = x_of(b, value), sum = 0;
    for (int i = 0; i < b->count; i++) {
        const struct belief_guess *g = &b->guesses[i];
        sum += g->weight * stays(peak_of(g, x) / part, g->noise);
    }
    return sum;
}

double search_belief_limit(const struct belief *b, const struct belief_guess *g, int64_t near) {
    return b->line.is_known ? (double)near + g->limit - x_of(b, near) : g->limit;
}

// Largest index whose predicted peak is in the budget, 0 when none is.
static ptrdiff_t predicted_largest(const struct search_space *space) {
    ptrdiff_t low = 0, high = space->count;
    while (high - low > 1) {
        ptrdiff_t mid = low + (high - low) / 2;
        double bytes = space->predict(space->context, space->rising[mid]);
        if (bytes <= space->budget_bytes)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static struct belief_line line_of(const struct search_space *space) {
    struct belief_line line = {0};
    if (!space->predict || isnan(space->budget_bytes)) return line;
    ptrdiff_t at = predicted_largest(space), half = 0;
    if (at == 0 && space->count > 1) at = 1;
    while (half + 1 < at && space->rising[half + 1] * 2 <= space->rising[at]) half++;
    double x1 = (double)space->rising[half], x2 = (double)space->rising[at];
    double y1 = space->predict(space->context, space->rising[half]);
    double y2 = space->predict(space->context, space->rising[at]);
    double slope = at > half ? (y2 - y1) / (x2 - x1) : y2 / x2;
    double fixed = fmin(fmax(y2 - slope * x2, 0), y2);
    line.fixed_bytes = fmin(fixed, 0.98 * space->budget_bytes);
    line.bytes_per_value = (y2 - line.fixed_bytes) / x2;
    line.limit = (space->budget_bytes - line.fixed_bytes) / line.bytes_per_value;
    line.is_known = line.bytes_per_value > 0 && isfinite(line.limit);
    return line;
}

static double error_of(const struct search_space *space) {
    return fmin(fmax(space->prediction_error, 0.01), 0.5);
}

// By what share, at least, a prediction was wrong about a trial.
static double miss_of(const struct search_space *space, const struct search_seen *seen) {
    double predicted = space->predict(space->context, seen->value) / space->budget_bytes;
    if (!search_fits(seen)) return 1 - predicted; // negative: it was right
    return isnan(seen->bytes) ? predicted - 1
                              : fabs(seen->bytes / space->budget_bytes / predicted - 1);
}

// A prediction that one trial shows to be wrong by far more than it admits, or two by more, is
// forgotten.
static bool is_refuted(const struct search_trials *s) {
    double error = error_of(&s->space);
    int misses = 0;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        double miss = miss_of(&s->space, &s->items[i]);
        if (miss > 2.5 * error + 3 * reading_noise) return true;
        misses += miss > error + 2 * reading_noise;
    }
    return misses > 1;
}

static struct evidence evidence_of(const struct belief *b, const struct search_seen *seen) {
    double share = seen->bytes / b->trials->space.budget_bytes; // NaN where either is
    struct evidence e = {.x = x_of(b, seen->value), .share = 1, .spread = 1};
    bool is_over = seen->outcome == SEARCH_ALMOST && share >= 1;
    if (is_over || (search_fits(seen) && !isnan(share))) {
        e.kind = READ;
        e.share = share;
    } else if (search_fits(seen)) {
        e.kind = RAN;
    } else {
        e.kind = FAILED;
        if (seen->outcome == SEARCH_OUT && share > 1) e.share = share;
    }
    return e;
}

static void gather(struct forming *f) {
    const struct search_trials *s = f->belief->trials;
    int most = (int)(sizeof f->items / sizeof *f->items);
    const struct evidence *near = NULL; // to the budget: what happens there is what matters
    ptrdiff_t first = s->count > most ? s->count - most : 0;
    for (ptrdiff_t i = first; i < s->count; i++) {
        struct evidence *e = &f->items[f->count++];
        *e = evidence_of(f->belief, &s->items[i]);
        if (e->kind != READ) continue;
        if (!f->anchor || e->x < f->anchor->x) f->anchor = e;
        if (!near || fabs(e->share - 1) < fabs(near->share - 1)) near = e;
    }
    for (int i = 0; near && i < f->count; i++) {
        double doublings = fabs(log2(fmax(f->items[i].x, 1e-3) / fmax(near->x, 1e-3)));
        f->items[i].spread += bend * doublings;
    }
}

// How well a guess agrees with the trials. The anchor's own noise is spread over the guesses.
static double agreement(const struct forming *f, const struct belief_guess *g) {
    double product = 1;
    for (int i = 0; i < f->count; i++) {
        const struct evidence *e = &f->items[i];
        double peak = peak_of(g, e->x), noise = f->noise * e->spread * f->blur, p;
        if (e->kind == READ) {
            double z = (e->share / peak - 1) / noise;
            p = exp(-0.5 * z * z) * reading_noise / noise;
        } else {
            p = stays(peak / e->share, noise);
            if (e->kind == FAILED) p = 1 - p;
        }
        product *= (1 - odd_share) * p + odd_share * 0.5 * (e->kind == READ ? reading_noise : 1);
    }
    return product;
}

// What is usual: parameters, optimizer state and context take 5 to 60 % of a GPU that is used
// well; the limit lies within a few doublings of the user's own batch, or of 32.
static double usual(const struct forming *f, const struct belief_guess *g) {
    const struct search_space *space = &f->belief->trials->space;
    double centre = space->first > 0 ? (double)space->first : 32;
    double doublings = log2(g->limit / centre) / 5;
    double fixed = g->fixed < 0 ? 0 : g->fixed < 0.65 ? 1 : exp((0.65 - g->fixed) / 0.1);
    return fixed / (1 + doublings * doublings);
}

// What was predicted: the peak near the predicted limit is off by any share up to the error, a
// larger one is possible; the fixed part may be off by the error against the rest.
static double predicted(const struct forming *f, const struct belief_guess *g) {
    const struct belief_line *line = &f->belief->line;
    const struct search_space *space = &f->belief->trials->space;
    double error = error_of(space);
    double off = peak_of(g, line->limit) - 1;
    double share = line->fixed_bytes / space->budget_bytes;
    double tilt = (g->fixed - share * (1 + off)) / (error * fmax(share, 0.1));
    double edge = below((error - fabs(off)) / (error * 0.2 * f->blur));
    return (edge + 0.002) * (exp(-0.5 * tilt * tilt) + 1e-4);
}

// The fixed part of guess j of BELIEF_SHARES at this limit: such that the anchor is met but for its
// noise, where that says something; else any usual one. Returns how wide a range of fixed parts the
// guess stands for.
static double choose_fixed(const struct forming *f, int j, struct belief_guess *g) {
    const struct belief *b = f->belief;
    double place = (double)j / (BELIEF_SHARES - 1); // 0 … 1
    double along = f->anchor ? f->anchor->x / g->limit : 1;
    if (f->anchor && fabs(1 - along) > 0.1) {
        double spread = 6.4 * f->noise * f->anchor->spread * f->anchor->share;
        g->fixed = (f->anchor->share + (place - 0.5) * spread - along) / (1 - along);
        bool is_possible = g->fixed > -0.02 && g->fixed < 0.97;
        g->fixed = fmax(g->fixed, 0);
        return is_possible ? spread / fabs(1 - along) : 0;
    }
    double middle = 0.42, spread = 0.8;
    if (b->line.is_known) {
        middle = b->line.fixed_bytes / b->trials->space.budget_bytes;
        spread = 6 * error_of(&b->trials->space) * fmax(middle, 0.1);
    }
    g->fixed = fmin(fmax(middle + (place - 0.5) * spread, 0), 0.97);
    return spread;
}

// The guesses of one noise; returns their weight, times the width that each of them stands for.
static double weigh_all(struct forming *f) {
    const struct belief *b = f->belief;
    double sum = 0, step = log(f->high / f->low) / (BELIEF_LIMITS - 1);
    for (int i = 0; i < BELIEF_LINES; i++) {
        struct belief_guess *g = &f->guesses[i];
        int limit = i / BELIEF_SHARES;
        g->limit = f->low * exp(step * limit);
        g->noise = f->noise;
        g->weight = choose_fixed(f, i % BELIEF_SHARES, g);
        if (g->weight > 0) {
            g->weight *= (b->line.is_known ? predicted(f, g) : usual(f, g)) * agreement(f, g);
            g->weight *= step;
        }
        sum += g->weight;
    }
    return sum;
}

// The limits that have the weight, and one more at either side.
static void zoom(struct forming *f, double sum) {
    double step = log(f->high / f->low) / (BELIEF_LIMITS - 1);
    int first = BELIEF_LIMITS - 1, last = 0;
    for (int i = 0; i < BELIEF_LIMITS; i++) {
        double weight = 0;
        for (int j = 0; j < BELIEF_SHARES; j++) {
            weight += f->guesses[i * BELIEF_SHARES + j].weight;
        }
        if (weight < 1e-3 * sum) continue;
        if (i < first) first = i;
        last = i;
    }
    double low = f->low * exp(step * (first - 1)), high = f->low * exp(step * (last + 1));
    f->low = fmax(f->low, low);
    f->high = fmin(f->high, high);
}

// Limits that the trials leave possible: hardly below what fits, hardly above what fails.
static void bound(struct forming *f) {
    const struct search_space *space = &f->belief->trials->space;
    f->low = 0.8 * fmax((double)space->rising[0], 1e-3);
    f->high = 30 * (double)space->rising[space->count - 1];
    for (int i = 0; i < f->count; i++) {
        const struct evidence *e = &f->items[i];
        if (e->x <= 0) continue;
        bool fits = e->kind == RAN || (e->kind == READ && e->share <= 1);
        if (fits)
            f->low = fmax(f->low, e->x * 0.9);
        else
            f->high = fmin(f->high, e->x * 1.1);
    }
    if (f->belief->line.is_known) {
        const struct belief_line *line = &f->belief->line;
        double off = fmin(4 * error_of(space) / (1 - line->fixed_bytes / space->budget_bytes), 2);
        f->low = fmax(f->low, line->limit * exp(-off));
        f->high = fmin(f->high, line->limit * exp(off));
    }
    if (!(f->high > f->low * 1.0001)) f->high = f->low * 1.2;
}

static void form_part(struct forming *f, double share) {
    double sum = 0;
    bound(f);
    for (f->blur = 4; f->blur >= 1; f->blur /= 2) {
        sum = weigh_all(f);
        if (f->blur > 1) zoom(f, sum);
    }
    for (int i = 0; i < BELIEF_LINES; i++) f->guesses[i].weight *= share;
}

// Weights that add up to 1, without the many guesses that have next to none.
static void tidy(struct belief *b) {
    double sum = 0, left = 0;
    for (int i = 0; i < BELIEF_GUESSES; i++) sum += b->guesses[i].weight;
    for (int i = 0; i < BELIEF_GUESSES; i++) {
        struct belief_guess g = b->guesses[i];
        if (sum > 0 && g.weight < 1e-6 * sum) continue;
        if (!(sum > 0)) g.weight = 1;
        left += g.weight;
        b->guesses[b->count++] = g;
    }
    for (int i = 0; i < b->count; i++) b->guesses[i].weight /= left;
}

void search_belief_form(const struct search_trials *s, struct belief *b) {
    memset(b, 0, sizeof *b);
    b->trials = s;
    if (s->space.predict && !isnan(s->space.budget_bytes) && !is_refuted(s)) {
        b->line = line_of(&s->space);
    }
    struct forming f = {.belief = b, .guesses = b->guesses};
    gather(&f);
    for (int i = 0; i < BELIEF_NOISES; i++, f.guesses += BELIEF_LINES) {
        f.noise = noises[i].noise;
        form_part(&f, noises[i].usual);
    }
    tidy(b);
}
