// SPDX-License-Identifier: Apache-2.0
// Two runs of the history, compared by what is stored of them: one figure a step, or a pair of an
// earlier comparison, or one of a whole training, and one figure of the memory.
#include "verbs/compare/compare.h"

#include <math.h>

static int find_run(struct compare *c, struct store *store, struct str text,
                    struct store_run *ret_run, struct fail *why) {
    int64_t id;
    if (!str_to_i64(text, &id) || id <= 0) {
        return fail_set(why, FAIL_USAGE, "--runs %.*s: not a run number", STR_ARG(text));
    }
    return history_run(c->arena, store, id, ret_run, why);
}

static int find_both(struct compare *c, struct store_run *runs, struct fail *why) {
    struct str rest = str_of(c->options->runs), first = str_trim(str_cut(&rest, ','));
    struct store *store;
    if (!rest.p || str_find(rest, STR(",")) >= 0) {
        fail_set(why, FAIL_USAGE, "--runs takes two runs");
        return fail_hint(why, "compare --runs 41 57");
    }
    if (c->options->h.is_off) {
        return fail_set(why, FAIL_USAGE, "--runs needs the history, which --no-history excludes");
    }
    int rc = store_open(c->arena, store_place(c->arena, c->options->h.store), &store, why);
    if (rc < 0) return rc;
    rc = find_run(c, store, first, &runs[COMPARE_A], why);
    if (rc == 0) rc = find_run(c, store, str_trim(rest), &runs[COMPARE_B], why);
    store_close(store);
    return rc;
}

// --- Whether they can be compared ----------------------------------------------------------------

static int differ(const struct store_run *runs, const char *what, struct str a, struct str b,
                  struct fail *why) {
    fail_set(why, FAIL_INPUT, "runs %lld and %lld cannot be compared: %s %.*s and %.*s",
             (long long)runs[0].id, (long long)runs[1].id, what, STR_ARG(a), STR_ARG(b));
    return fail_hint(why, "a comparison changes how it is trained, not what");
}

static struct str count_text(struct arena *a, int64_t value) {
    return value > 0 ? str_format(a, "%lld", (long long)value) : (struct str){0};
}

static int check_run(const struct store_run *run, struct fail *why) {
    if (str_is(run->kind, "fit")) {
        fail_set(why, FAIL_INPUT, "run %lld is a prediction: nothing was measured",
                 (long long)run->id);
        return fail_hint(why, "only runs of kind trial, bench or compare are measured");
    }
    bool is_good = str_is(run->status, "OK") || str_is(run->status, "ALMOST");
    if (is_good && (run->each_s.len > 0 || run->samples_per_s > 0)) return 0;
    if (is_good) {
        fail_set(why, FAIL_INPUT, "run %lld has no figures: none of its steps were seen",
                 (long long)run->id);
    } else {
        fail_set(why, FAIL_INPUT, "run %lld has no figures: %.*s%s%.*s", (long long)run->id,
                 STR_ARG(run->status), run->reason.len > 0 ? ": " : "", STR_ARG(run->reason));
    }
    return fail_hint(why, "batchfit list runs shows which ones have samples/s");
}

static int check_alike(struct compare *c, const struct store_run *runs, struct fail *why) {
    const struct store_run *a = &runs[COMPARE_A], *b = &runs[COMPARE_B];
    const struct {
        const char *what;
        struct str a, b;
    } same[] = {
        {"models", a->plan.model, b->plan.model},
        {"image sizes", count_text(c->arena, a->plan.image_size),
         count_text(c->arena, b->plan.image_size)},
        {"sequence lengths", count_text(c->arena, a->plan.sequence_length),
         count_text(c->arena, b->plan.sequence_length)},
        {"target lengths", count_text(c->arena, a->plan.target_length),
         count_text(c->arena, b->plan.target_length)},
    };
    int rc = check_run(a, why);
    if (rc == 0) rc = check_run(b, why);
    for (size_t i = 0; rc == 0 && i < sizeof same / sizeof *same; i++) {
        if (str_equal(same[i].a, same[i].b)) continue;
        struct str none = STR("an unknown one");
        rc = differ(runs, same[i].what, same[i].a.len > 0 ? same[i].a : none,
                    same[i].b.len > 0 ? same[i].b : none, why);
    }
    if (rc == 0 && a->is_standin != b->is_standin) {
        rc = differ(runs, "one is of a fake:", a->kind, b->kind, why);
    }
    return rc;
}

// --- Figures -------------------------------------------------------------------------------------

static void add_figure(struct compare_side *side, double seconds) {
    ptrdiff_t i = side->count++;
    side->figures[COMPARE_THROUGHPUT][i] = 1 / seconds;
    side->figures[COMPARE_TIME][i] = 1e3 * seconds;
    side->figures[COMPARE_MEMORY][i] = side->figures[COMPARE_ENERGY][i] = (double)NAN;
}

// One figure each where only one is stored: there is nothing to test with then. `is_one`: so has
// the other run.
static void read_side(struct compare *c, int index, const struct store_run *run, bool is_one) {
    struct compare_side *side = &c->sides[index];
    ptrdiff_t room = run->each_s.len / 2 + 2;
    struct str rest = is_one ? (struct str){0} : run->each_s;
    double seconds;
    for (int k = 0; k < COMPARE_METRICS; k++) {
        side->figures[k] = arena_new(c->arena, double, room);
        side->why[k] = STR("the history does not have it for both runs");
    }
    while (rest.len > 0) {
        if (str_to_double(str_cut(&rest, ' '), &seconds) && seconds > 0) add_figure(side, seconds);
    }
    if (is_one && run->samples_per_s > 0) add_figure(side, 1 / run->samples_per_s);
    if (side->count == 0) return;
    if (run->peak_bytes > 0) side->figures[COMPARE_MEMORY][0] = (double)run->peak_bytes;
    double samples = run->samples_per_s * run->times.total_ms / 1e3 * (double)run->steps;
    if (samples > 0) side->figures[COMPARE_ENERGY][0] = run->energy_joules / samples;
    side->name =
        str_format(c->arena, "run %lld, %.*s%s%.*s", (long long)run->id, STR_ARG(run->kind),
                   run->setting.len > 0 ? ", " : "", STR_ARG(run->setting));
}

static void say_how_sure(struct compare *c, const struct store_run *runs) {
    const struct store_run *a = &runs[COMPARE_A], *b = &runs[COMPARE_B];
    if (!str_is(a->kind, "compare") || !str_is(b->kind, "compare")) {
        compare_note(c, STR("single launches: these figures do not include variation between "
                            "launches; compare --a --b measures it"));
    }
    if (!str_equal(a->gpu, b->gpu) || !str_equal(a->driver, b->driver)) {
        compare_note(
            c,
            str_format(c->arena,
                       "the runs are not from the same device and driver: %.*s %.*s, %.*s %.*s",
                       STR_ARG(a->gpu), STR_ARG(a->driver), STR_ARG(b->gpu), STR_ARG(b->driver)));
    }
}

int compare_recall(struct compare *c, struct fail *why) {
    struct store_run runs[COMPARE_SIDES];
    int rc = find_both(c, runs, why);
    if (rc == 0) rc = check_alike(c, runs, why);
    if (rc == 0) {
        rc = compare_ask_cost(c, runs[COMPARE_B].gpu, runs[COMPARE_B].capacity_bytes,
                              runs[COMPARE_B].plan.ranks, why);
    }
    if (rc < 0) return rc;
    // Of a whole training (run) only its speed from the start to the end is stored.
    bool is_one = runs[COMPARE_A].each_s.len == 0 || runs[COMPARE_B].each_s.len == 0;
    for (int i = 0; i < COMPARE_SIDES; i++) read_side(c, i, &runs[i], is_one);
    ptrdiff_t a = c->sides[COMPARE_A].count, b = c->sides[COMPARE_B].count;
    c->pairs = a < b ? a : b;
    if (!is_one && c->pairs < COMPARE_STEPS_LEAST) {
        return fail_set(why, FAIL_INPUT, "runs %lld and %lld have only %td figures; %d are needed",
                        (long long)runs[0].id, (long long)runs[1].id, c->pairs,
                        COMPARE_STEPS_LEAST);
    }
    c->is_standin = runs[COMPARE_A].is_standin == 1;
    c->device = runs[COMPARE_B].gpu;
    if (c->is_standin)
        compare_note(c, STR("FAKE: the command played a scenario; nothing was trained"));
    say_how_sure(c, runs);
    compare_judge(c);
    return 0;
}
