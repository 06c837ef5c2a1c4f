// SPDX-License-Identifier: Apache-2.0
// How many launches the search with trials needs, over seeded made-up trainings (scenarios.h):
// prints the tables of doc/search.md and fails when a goal is missed. The same trainings are also
// given to the published rules of two other finders.
//   search [--quick]     300 scenarios of each kind and 5,000; --quick: only the 300
#include "scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEW = 300, MANY = 5000, BINS = 5 };
enum { BATCHFIT, DOUBLE_TO_GAP, DOUBLE_TO_ONE };

static int64_t integers[SCENARIO_LARGEST], eights[SCENARIO_LARGEST / 8], divisors[32];
static ptrdiff_t divisor_count;

static const struct row {
    const char *name;
    enum scenario_kind kind;
    int finder;
    bool is_predicted, has_first, is_blind;
    const int64_t *rising;
    double most_launches, least_yield, most_out, least_recognized; // goals; 0: none
} rows[] = {
    {"without a prediction", .rising = integers, .most_launches = 4, .least_yield = 0.97,
     .most_out = 1},
    {"with a prediction, off by up to 5 %", .is_predicted = true, .rising = integers,
     .most_launches = 2.2, .least_yield = 0.97, .most_out = 0.3},
    {"spilling, without a prediction", SCENARIO_SPILLS, .rising = integers,
     .least_recognized = 0.99},
    {"spilling, with a prediction", SCENARIO_SPILLS, .is_predicted = true, .rising = integers,
     .least_recognized = 0.99},
    {"without, from a batch of the user's", .has_first = true, .rising = integers},
    {"without, multiples of 8", .rising = eights},
    {"without, divisors of 96", .rising = divisors},
    {"with, divisors of 96", .is_predicted = true, .rising = divisors},
    {"rough, in steps of up to 2 to 10 %", SCENARIO_STEPS, .rising = integers},
    {"rough, in steps, with a prediction", SCENARIO_STEPS, .is_predicted = true,
     .rising = integers},
    {"3 % of noise", SCENARIO_NOISY, .rising = integers},
    {"3 % of noise, with a prediction", SCENARIO_NOISY, .is_predicted = true, .rising = integers},
    {"measured on a CPU", SCENARIO_REAL, .rising = integers},
    {"measured on a CPU, from a batch of the user's", SCENARIO_REAL, .has_first = true,
     .rising = integers},
    {"memory not to be read", .is_blind = true, .rising = integers},
    {"doubling from 32, then halving to a gap of 5 %", .finder = DOUBLE_TO_GAP, .rising = integers},
    {"doubling from 2, then halving to a gap of 1", .finder = DOUBLE_TO_ONE, .rising = integers},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct tally {
    double *launches, *yields, *out;
    double limit_launches[BINS], limit_yields[BINS], limit_out[BINS], limit_count[BINS];
    ptrdiff_t count, above, spilled, recognized, alarms;
    double seconds;
};

static ptrdiff_t count_of(const int64_t *rising) {
    return rising == integers ? SCENARIO_LARGEST
           : rising == eights ? SCENARIO_LARGEST / 8
                              : divisor_count;
}

// Doubles until a launch fails (halves until one fits), then bisects; as NeMo's OOMptimizer does
// from 32 to a gap of 5 %, and Lightning's BatchSizeFinder ("binsearch") from 2 to a gap of 1.
static struct search_trials_result doubling(struct scenario *s, int finder) {
    struct search_trials_result r = {0};
    int64_t value = finder == DOUBLE_TO_GAP ? 32 : 2, bad = 0;
    double gap = finder == DOUBLE_TO_GAP ? 0.05 : 0;
    while (value >= 1 && r.launches < 64) {
        struct search_seen seen = scenario_launch(s, value);
        r.launches++;
        if (seen.outcome == SEARCH_FITS) {
            r.largest = value;
        } else {
            bad = value;
            r.out_of_memory++;
        }
        value = bad ? (r.largest + bad) / 2 : value * 2;
        if (bad && (value == r.largest || (double)(bad - r.largest) <= gap * (double)bad)) break;
    }
    return r;
}

static void count_spills(const struct search_trials *t, const struct scenario *s,
                         const struct search_trials_result *r, struct tally *sum) {
    bool spilled = false, is_alarm = false, is_missed = false;
    for (ptrdiff_t i = 0; i < t->count; i++) {
        const struct search_seen *seen = &t->items[i];
        double usual = 1e-3 * (s->step_cost + (double)seen->value) / (double)seen->value;
        bool is_slow =
            s->spills && seen->seconds_per_item > 2 * usual; // 4 times or more, with noise
        bool is_marked = seen->outcome == SEARCH_SPILLS;
        spilled = spilled || is_slow;
        is_alarm = is_alarm || (is_marked && !is_slow);
        is_missed = is_missed || (is_slow && (!is_marked || seen->value == r->largest));
    }
    sum->spilled += spilled;
    sum->recognized += spilled && !is_missed;
    sum->alarms += is_alarm;
}

static struct search_trials_result walk(struct arena *a, const struct row *row, struct scenario *s,
                                        uint64_t seed, struct tally *sum) {
    struct search_space space = {
        .rising = row->rising,
        .count = count_of(row->rising),
        .enough = 0.97,
        .budget_bytes = row->is_blind ? NAN : scenario_budget,
        .predict = row->is_predicted ? scenario_predict : NULL,
        .context = s,
        .prediction_error = 0.05,
    };
    if (row->has_first) {
        struct stats_random r = {seed};
        space.first = (int64_t)exp(scenario_between(&r, 0, log(1025)));
    }
    struct search_trials t = search_trials_open(a, &space);
    for (int64_t value; search_trials_ask(&t, &value);) {
        struct search_seen seen = scenario_launch(s, value);
        search_trials_tell(&t, &seen);
    }
    struct search_trials_result r;
    search_trials_answer(&t, &r);
    count_spills(&t, s, &r, sum);
    return r;
}

static void add(struct tally *sum, const struct scenario *s, const struct search_trials_result *r,
                int64_t truth) {
    double yield = fmin(1, (double)r->largest / (double)truth);
    int bin = s->limit < 4 ? 0 : s->limit < 16 ? 1 : s->limit < 64 ? 2 : s->limit < 256 ? 3 : 4;
    sum->launches[sum->count] = r->launches;
    sum->yields[sum->count] = yield;
    sum->out[sum->count++] = r->out_of_memory;
    sum->limit_launches[bin] += r->launches;
    sum->limit_yields[bin] += yield;
    sum->limit_out[bin] += r->out_of_memory;
    sum->limit_count[bin]++;
    sum->above += r->largest > truth;
}

static struct tally measure(struct arena *a, const struct row *row, int count) {
    struct tally sum = {arena_new(a, double, count), arena_new(a, double, count),
                        arena_new(a, double, count)};
    clock_t started = clock();
    for (int i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(a);
        struct scenario s = scenario_make((uint64_t)i, row->kind);
        int64_t truth = scenario_truth(&s, row->rising, count_of(row->rising));
        struct search_trials_result r = row->finder == BATCHFIT
                                            ? walk(a, row, &s, (uint64_t)i, &sum)
                                            : doubling(&s, row->finder);
        if (truth > 0) add(&sum, &s, &r, truth); // where nothing fits there is no share to reach
        arena_rewind(a, mark);
    }
    sum.seconds = (double)(clock() - started) / CLOCKS_PER_SEC;
    return sum;
}

static bool is_met(const struct row *row, const struct tally *t) {
    double launches = stats_mean(t->launches, t->count), yield = stats_mean(t->yields, t->count);
    if (row->most_launches > 0 && launches > row->most_launches) return false;
    if (row->most_out > 0 && stats_mean(t->out, t->count) > row->most_out) return false;
    if (row->least_recognized > 0 &&
        (double)t->recognized < row->least_recognized * (double)t->spilled) {
        return false;
    }
    return yield >= row->least_yield;
}

static bool print_row(const struct row *row, const struct tally *t, int count) {
    bool has_goal = row->most_launches > 0 || row->least_recognized > 0, ok = is_met(row, t);
    printf("| %s | %d | %.2f | %.0f | %.0f | %.1f %% | %.1f %% | %.0f %% | %.2f | %.1f %% | ",
           row->name, count, stats_mean(t->launches, t->count),
           stats_quantile(t->launches, t->count, 0.9), stats_quantile(t->launches, t->count, 1),
           100 * stats_mean(t->yields, t->count), 100 * stats_quantile(t->yields, t->count, 0.1),
           100 * stats_quantile(t->yields, t->count, 0), stats_mean(t->out, t->count),
           100 * (double)t->above / (double)t->count);
    if (row->finder != BATCHFIT)
        printf("– | – | ");
    else if (t->spilled)
        printf("%.2f %% of %td | ", 100 * (double)t->recognized / (double)t->spilled, t->spilled);
    else
        printf("– | ");
    if (row->finder == BATCHFIT) printf("%.2f %% | ", 100 * (double)t->alarms / count);
    printf("%s |\n", !has_goal ? "" : ok ? "yes" : "NO");
    fflush(stdout);
    return ok && (double)t->alarms <= 0.01 * count;
}

static void print_limits(const struct row *row, const struct tally *t) {
    printf("| %s |", row->name);
    for (int i = 0; i < BINS; i++) {
        if (t->limit_count[i] == 0) printf(" – |");
        if (t->limit_count[i] == 0) continue;
        printf(" %.2f / %.1f %% / %.2f |", t->limit_launches[i] / t->limit_count[i],
               100 * t->limit_yields[i] / t->limit_count[i], t->limit_out[i] / t->limit_count[i]);
    }
    printf("\n");
}

int main(int argc, char **argv) {
    bool is_quick = argc > 1 && !strcmp(argv[1], "--quick"), ok = true;
    struct tally last[ROWS];
    ARENA_AUTO a = {0};
    for (int i = 0; i < SCENARIO_LARGEST; i++) integers[i] = i + 1;
    for (int i = 0; i < SCENARIO_LARGEST / 8; i++) eights[i] = 8 * (i + 1);
    for (int i = 1; i <= 96; i++) {
        if (96 % i == 0) divisors[divisor_count++] = i;
    }
    printf("| scenarios | how many | launches, mean | 90 %% | most | yield, mean | 10 %% | least | "
           "out of memory, mean | "
           "answers above the truth | spills recognized | false alarms | goal met |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    double seconds = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int many = 0; many <= !is_quick; many++) {
            int count = many ? MANY : FEW;
            last[i] = measure(&a, &rows[i], count);
            seconds += last[i].seconds;
            ok = print_row(&rows[i], &last[i], count) && ok;
        }
    }
    printf(
        "\nBy limit, launches / yield / out of memory, means of the larger number of scenarios:\n\n"
        "| scenarios | 1 to 3 | 4 to 15 | 16 to 63 | 64 to 255 | 256 to 1024 "
        "|\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kind != SCENARIO_REAL) print_limits(&rows[i], &last[i]); // it has its own limit
    }
    printf("\n%.1f s of CPU time\n", seconds);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
