// SPDX-License-Identifier: Apache-2.0
// What a trial's steps and its end come to: status, times, memory. Ranks wait for one another, so
// the slowest decides the time; each has its own GPU, so the one that needs most decides the
// memory.
#include "measure/launch/launch_int.h"

#include <math.h>
#include <stddef.h>

enum { SEED = 20261121 };

// --- Times ---------------------------------------------------------------------------------------

// The steps of one rank after the warm-up; of a run that made fewer, all but the first. Steps
// beyond those that were wanted, made before the command could be stopped, are left out.
struct measured {
    int rank;
    const struct step **items;
    ptrdiff_t count;
};

int64_t launch_steps(const struct launch_options *o) {
    return o->steps > 0 ? o->steps : LAUNCH_STEPS;
}
int64_t launch_warmup(const struct launch_options *o) {
    return o->warmup > 0 ? o->warmup : LAUNCH_WARMUP;
}

static struct measured measured_steps(struct arena *a, const struct steps *steps, int rank,
                                      const struct launch_options *o) {
    int64_t warmup = launch_warmup(o), wanted = warmup + launch_steps(o);
    struct measured m = {rank, arena_new(a, const struct step *, steps->count + 1), 0};
    for (ptrdiff_t i = 0; i < steps->count && m.count < wanted; i++) {
        if (steps->items[i].rank == rank) m.items[m.count++] = &steps->items[i];
    }
    ptrdiff_t skip = m.count > warmup ? warmup : m.count > 1 ? 1 : 0;
    m.items += skip;
    m.count -= skip;
    return m;
}

// Those of them that say how long they took. Not only the usual ones: data workers deliver in
// bursts, so that one step in as many as there are workers waits for all of them.
static struct measured timed_steps(struct arena *a, const struct measured *m) {
    struct measured timed = {m->rank, arena_new(a, const struct step *, m->count + 1), 0};
    for (ptrdiff_t i = 0; i < m->count; i++) {
        if (!isnan(m->items[i]->times.total_ms)) timed.items[timed.count++] = m->items[i];
    }
    return timed;
}

// Means of what each time was where a step says it.
static struct step_times means_of(const struct measured *m) {
    struct step_times means;
    for (int t = 0; t < STEP_TIME_COUNT; t++) {
        double sum = 0;
        ptrdiff_t n = 0;
        for (ptrdiff_t i = 0; i < m->count; i++) {
            double value = m->items[i]->times.ms[t];
            if (!isnan(value)) sum += value, n++;
        }
        means.ms[t] = n > 0 ? sum / (double)n : (double)NAN;
    }
    return means;
}

static struct measured slowest_rank(struct arena *a, const struct steps *steps,
                                    const struct launch_options *o) {
    struct measured slowest = measured_steps(a, steps, 0, o);
    double most = -1;
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) {
        struct measured m = measured_steps(a, steps, steps->ranks[i].rank, o);
        struct measured timed = timed_steps(a, &m);
        double ms = means_of(&timed).total_ms;
        if (ms > most) most = ms, slowest = m;
    }
    return slowest;
}

// Every rank does the same number of samples in its share of a step.
static void read_throughput(struct arena *a, const struct measured *m, double ranks,
                            struct launch_result *r) {
    double *each = arena_new(a, double, m->count + 1), samples = 0, seconds = 0;
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < m->count; i++) {
        const struct step *s = m->items[i];
        if (isnan(s->times.total_ms) || s->samples <= 0) continue;
        each[n++] = s->times.total_ms / 1e3 / ((double)s->samples * ranks);
        samples += (double)s->samples * ranks;
        seconds += s->times.total_ms / 1e3;
    }
    r->seconds_per_sample = each;
    r->sample_count = n;
    if (n == 0 || seconds <= 0) return;
    r->samples_per_s = samples / seconds;
    struct stats_interval slow = stats_mean_interval(each, n, 0.95, SEED);
    r->samples_per_s_ci = (struct stats_interval){1 / slow.high, 1 / slow.low};
}

static void read_times(struct launch *l, struct launch_result *r) {
    const struct steps *steps = &r->trial.steps;
    struct measured m = slowest_rank(l->arena, steps, l->options);
    struct measured timed = timed_steps(l->arena, &m);
    r->times = means_of(&timed);
    r->samples_per_s = (double)NAN;
    r->samples_per_s_ci = (struct stats_interval){(double)NAN, (double)NAN};
    read_throughput(l->arena, &m, steps->rank_count > 1 ? (double)steps->rank_count : 1, r);
    r->steps = r->sample_count;
    int64_t made = steps_of_slowest(steps, 0),
            wanted = launch_warmup(l->options) + launch_steps(l->options);
    r->made = made < wanted ? made : wanted;
}

// --- Memory --------------------------------------------------------------------------------------

static int64_t most_of(const struct steps *steps, size_t member) {
    int64_t most = -1;
    for (ptrdiff_t i = 0; i < steps->count; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)&steps->items[i] + member);
        if (value > most) most = value;
    }
    return most;
}

// What counts against the capacity: on a GPU what the driver shows beyond what others held before;
// on the CPU what the limit counts; for a program with a device that we do not see, what it
// says itself.
static int64_t peak_of(const struct launch *l, const struct launch_result *r) {
    if (l->place.sampler) {
        int64_t used = device_sampler_peaks(l->place.sampler).used_bytes - l->place.others_bytes;
        if (used > r->torch_reserved_bytes) return used;
    }
    if (l->place.kind == LAUNCH_CUDA || !steps_on_cpu(&r->trial.steps))
        return r->torch_reserved_bytes;
    return r->trial.peak_bytes;
}

static void read_memory(struct launch *l, struct launch_result *r) {
    const struct steps *steps = &r->trial.steps;
    r->torch_allocated_bytes = most_of(steps, offsetof(struct step, peak_allocated_bytes));
    r->torch_reserved_bytes = most_of(steps, offsetof(struct step, peak_reserved_bytes));
    r->alloc_retries = most_of(steps, offsetof(struct step, alloc_retries));
    r->seen_batch = most_of(steps, offsetof(struct step, micro_batch));
    r->covered = steps->covered;
    r->device_share = (double)NAN;
    if (l->place.sampler) r->device_share = device_sampler_peaks(l->place.sampler).utilisation_mean;
    r->peak_bytes = peak_of(l, r);
    r->is_on_cpu = l->place.kind == LAUNCH_CPU && steps_on_cpu(steps);
    r->charged_bytes = r->peak_bytes;
    const struct failure_numbers *n = &r->trial.ending.numbers;
    r->wanted_bytes = (double)NAN;
    int64_t held = n->in_use_bytes > 0 ? n->in_use_bytes : n->reserved_bytes;
    if (n->tried_bytes > 0 && held > 0) r->wanted_bytes = (double)(held + n->tried_bytes);
    if (r->trial.over_bytes > 0) r->wanted_bytes = (double)r->trial.over_bytes;
}

// --- Status --------------------------------------------------------------------------------------

static const struct step_rank *rank_out_of_memory(const struct steps *steps) {
    for (ptrdiff_t i = 0; i < steps->rank_count; i++) {
        if (steps->ranks[i].oom_message.len > 0) return &steps->ranks[i];
    }
    return NULL;
}

static void set_status(struct launch_result *r, enum launch_status status, struct str reason,
                       struct str hint) {
    r->status = status;
    r->reason = reason;
    r->hint = hint;
}

static bool ran_well(const struct launch_result *r) {
    const struct trial *t = &r->trial;
    return (t->end == FAILURE_ENOUGH || t->end == FAILURE_CLEAN) && t->steps.count > 0;
}

static bool is_out_of_memory(const struct launch_result *r) {
    const struct trial *t = &r->trial;
    if (t->end == FAILURE_ENOUGH) return false;
    return t->ending.signature->kind == FAILURE_MEMORY || steps_out_of_memory(&t->steps) ||
           (t->end == FAILURE_RANK_LOST && rank_out_of_memory(&t->steps));
}

// It ended, or was stopped, without a step: what was seen of it instead.
static void judge_unseen(struct launch *l, struct launch_result *r) {
    static const char *const texts[] = {
        [FAILURE_CLEAN] = "the command ended without a step that batchfit could see: ",
        [FAILURE_NO_START] = "no step within --start-limit: ",
        [FAILURE_BLIND] = "",
        [FAILURE_LEFT] = "",
    };
    const struct trial *t = &r->trial;
    struct str hint;
    struct str seen = trial_sight_text(l->arena, &t->sight, &t->steps, (double)NAN, &hint);
    const char *stopped = t->end == FAILURE_LEFT ? "; it was stopped" : "";
    set_status(r, LAUNCH_FAILED,
               str_format(l->arena, "%s%.*s%s", texts[t->end], STR_ARG(seen), stopped), hint);
}

// What it says of itself; where that is nothing known, how it ended and the last that it said.
static struct str own_words(struct arena *a, const struct failure *ending) {
    if (ending->exception.len > 0) return ending->exception;
    if (ending->line.len > 0 || ending->exit_status <= 0) return ending->line;
    struct str rest = str_trim(ending->last_lines), last = {0};
    while (rest.len > 0) last = str_trim(str_cut(&rest, '\n'));
    if (last.len == 0)
        return str_format(a, "exit status %d, and it printed nothing", ending->exit_status);
    return str_format(a, "exit status %d, and its last line was \"%.*s\"", ending->exit_status,
                      STR_ARG(last));
}

struct str launch_failure_text(struct arena *a, const struct failure *ending) {
    struct str words = own_words(a, ending);
    const char *what = ending->signature->what;
    return words.len > 0 ? str_format(a, "%s: %.*s", what, STR_ARG(words)) : str_of(what);
}

static void judge_failure(struct launch *l, struct launch_result *r) {
    const struct trial *t = &r->trial;
    const struct failure_signature *s = t->ending.signature;
    struct str hint = str_of(s->hint);
    bool is_unseen = t->end == FAILURE_CLEAN || t->end == FAILURE_NO_START ||
                     t->end == FAILURE_BLIND || t->end == FAILURE_LEFT;
    if (is_unseen) {
        judge_unseen(l, r);
    } else if (failure_stop_text(t->end)) {
        set_status(r, LAUNCH_FAILED, str_of(failure_stop_text(t->end)), hint);
    } else {
        set_status(r, LAUNCH_FAILED, launch_failure_text(l->arena, &t->ending), hint);
    }
}

// A command that runs another batch than it was given would be measured wrongly.
static bool ignores_batch(const struct launch_result *r) {
    return r->seen_batch > 0 && r->batch > 0 && r->seen_batch != r->batch;
}

static void judge_run(struct launch *l, struct launch_result *r) {
    const struct step_rank *caught = rank_out_of_memory(&r->trial.steps);
    if (caught) {
        set_status(r, LAUNCH_OOM,
                   str_format(l->arena,
                              "memory ran out; the program caught it and continued with %lld",
                              (long long)r->seen_batch),
                   (struct str){0});
    } else if (ignores_batch(r)) {
        set_status(r, LAUNCH_FAILED,
                   str_format(l->arena, "it ran batches of %lld instead of %lld",
                              (long long)r->seen_batch, (long long)r->batch),
                   STR("check that {batch} reaches the data loader, and that the dataset has that "
                       "many samples"));
    } else if (r->alloc_retries > 0) {
        set_status(r, LAUNCH_ALMOST,
                   str_format(l->arena, "the allocator had to free its cache and retry %lld times",
                              (long long)r->alloc_retries),
                   (struct str){0});
    }
}

// Where the steps or their samples were not told but taken from something else, once for all
// trials.
static void note_source(struct launch *l, const struct launch_result *r) {
    const struct steps *steps = &r->trial.steps;
    if (r->trial.printed.len > 0 && !l->has_said_printed) {
        l->has_said_printed = true;
        str_list_format(l->arena, &l->notes,
                        "the steps were read from the command's output (\"%.*s\"): there are no "
                        "phases, and each step counts as batch x accumulation samples%s",
                        STR_ARG(r->trial.printed),
                        l->place.kind == LAUNCH_CUDA ? "; its GPU memory is not capped" : "");
    }
    int64_t dim = steps->rank_count > 0 ? steps->ranks[0].batch_dim : 0;
    if (dim <= 0 || l->options->batch_dim > 0) return;
    if (!l->dimension_note) {
        str_list_format(l->arena, &l->notes,
                        "samples are counted along dimension %lld of the tensors, which "
                        "has the size of {batch} (--batch-dim %lld sets it)",
                        (long long)dim, (long long)dim);
        l->dimension_note = &l->notes.items[l->notes.count - 1];
        l->dimension_batch = r->batch;
    } else if (r->batch != l->dimension_batch) {
        *l->dimension_note = str_format(l->arena,
                                        "samples are counted along dimension %lld of the tensors: "
                                        "its size followed {batch} from trial to trial",
                                        (long long)dim);
    }
}

void launch_read(struct launch *l, struct launch_result *r) {
    struct trial *t = &r->trial;
    note_source(l, r);
    read_memory(l, r);
    read_times(l, r);
    r->status = LAUNCH_OK;
    if (t->end == FAILURE_INTERRUPTED) {
        set_status(r, LAUNCH_INTERRUPTED, STR("interrupted"), (struct str){0});
    } else if (is_out_of_memory(r)) {
        const struct step_rank *rank = rank_out_of_memory(&t->steps);
        struct str line = rank ? rank->oom_message : t->ending.line;
        set_status(r, LAUNCH_OOM, line.len > 0 ? line : str_of(t->ending.signature->what),
                   str_of(t->ending.signature->hint));
    } else if (ran_well(r)) {
        judge_run(l, r);
    } else {
        judge_failure(l, r);
    }
}
