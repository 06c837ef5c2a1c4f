// SPDX-License-Identifier: Apache-2.0
// The reader of the steps protocol (doc/formats/steps.md). A program may be in any language and as
// wrong as it likes: what is no JSON object of version 1 is counted as broken, a field of the wrong
// type or beyond all sense is not known, and texts lose what a terminal would obey. JSON is read by
// jansson, integers as doubles: one of 30 digits is no reason to drop a line.
#include "measure/steps/steps_int.h"

#include "base/os.h"
#include "base/out.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 64 << 10,
    BROKEN_MAX_BYTES = 200,
    TEXT_MAX_BYTES = 2000,
    RANK_MAX = 1 << 20,
    PROCESSES_MAX = 4096, // more are no training, and each line looks for its own
};
static const double count_max = 0x1p50, time_max_ms = 1e15; // a pebibyte; sums stay in 63 bits

const char *const step_cover_names[] = {"forward",       "backward",   "second_optimizer_step",
                                        "validation",    "checkpoint", "last_batch",
                                        "longest_batch", NULL};

struct steps steps_new(struct arena *a) {
    return (struct steps){.arena = a, .opened_ns = os_now_ns()};
}

static void count_broken(struct steps *s, struct str line) {
    if (s->broken_lines++ == 0) s->first_broken = clean_short(s->arena, line, BROKEN_MAX_BYTES);
}

// From 0 on.
static double number_of(const json_t *object, const char *key, double most) {
    const json_t *value = json_object_get(object, key);
    double number = json_is_real(value) ? json_real_value(value) : NAN;
    return number >= 0 && number <= most ? number : NAN;
}

static double time_of(const json_t *object, const char *key) {
    return number_of(object, key, time_max_ms);
}

static int64_t count_value(const json_t *value) {
    double n = json_is_real(value) ? json_real_value(value) : -1;
    return n >= 0 && n <= count_max && n == floor(n) ? (int64_t)n : -1;
}

static int64_t count_of(const json_t *object, const char *key) {
    return count_value(json_object_get(object, key));
}

static struct str text_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return (struct str){json_string_value(value), (ptrdiff_t)json_string_length(value)};
}

// A program that says the same again and again must not fill the memory.
static void keep_text(struct steps *s, struct str *kept, struct str text) {
    struct arena_mark before = arena_mark(s->arena);
    struct str now = clean_short(s->arena, text, TEXT_MAX_BYTES);
    if (now.len > 0 && !str_equal(now, *kept)) {
        *kept = now;
    } else {
        arena_rewind(s->arena, before);
    }
}

// The process that speaks. One that does not give its pid is the latest of its rank. NULL: too
// many.
static struct step_rank *rank_of(struct steps *s, const json_t *object) {
    int64_t rank = count_of(object, "rank"), pid = count_of(object, "pid");
    if (rank < 0 || rank > RANK_MAX) rank = 0;
    for (ptrdiff_t i = s->rank_count - 1; i >= 0; i--) {
        struct step_rank *r = &s->ranks[i];
        if (r->rank != rank || (r->pid >= 0 && pid >= 0 && r->pid != pid)) continue;
        if (pid >= 0) r->pid = pid;
        return r;
    }
    if (s->rank_count == PROCESSES_MAX) return NULL;
    struct step_rank *r = arena_push(s->arena, &s->ranks, &s->rank_count, &s->rank_capacity);
    *r = (struct step_rank){.rank = (int)rank, .pid = pid, .samples_began = -1};
    return r;
}

static void on_start(struct steps *s, struct step_rank *r, const json_t *object) {
    int64_t world = count_of(object, "world");
    const json_t *defaults = json_object_get(object, "defaults");
    int64_t batch = count_of(defaults, "batch"), accumulation = count_of(defaults, "accumulate");
    if (world > s->world && world <= RANK_MAX) s->world = world;
    if (batch > 0) s->default_batch = batch;
    if (accumulation > 0) s->default_accumulation = accumulation;
    r->state = STEPS_RANK_STARTED;
    int64_t batch_dim = count_of(object, "batch_dim");
    if (batch_dim > 0) r->batch_dim = batch_dim;
    int64_t bucket_mb = count_of(object, "ddp_bucket_cap_mb");
    if (bucket_mb > 0) r->ddp_bucket_mb = bucket_mb;
    keep_text(s, &r->device, text_of(object, "device"));
    keep_text(s, &r->framework, text_of(object, "framework"));
    keep_text(s, &r->framework_version, text_of(object, "framework_version"));
}

static void see_micro_batch(struct steps *s, struct step_rank *r, int64_t samples) {
    if (samples <= 0) return;
    if (samples < r->largest_micro_batch) s->covered |= STEPS_COVER_LAST_BATCH;
    if (samples > r->largest_micro_batch) r->largest_micro_batch = samples;
}

// False: there is no list of micro-batches, or not only of numbers.
static bool read_micro_batches(struct steps *s, struct step_rank *r, const json_t *list,
                               struct step *step) {
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        if (count_value(json_array_get(list, i)) < 0) return false;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t samples = count_value(json_array_get(list, i));
        see_micro_batch(s, r, samples);
        if (samples > step->micro_batch) step->micro_batch = samples;
    }
    if (count > 0) step->micro_count = (int64_t)count;
    return count > 0;
}

// A busy reader gets to several lines at once. `t` may be of any clock, but emitters take the
// host's monotonic one, and a moment since the reader began is hardly another's.
static double end_of(const struct steps *s, double t_s) {
    const int64_t now_ns = os_now_ns();
    const bool is_hosts = t_s * 1e9 >= (double)s->opened_ns && t_s * 1e9 <= (double)now_ns;
    const double at_s = is_hosts ? t_s : (double)now_ns * 1e-9;
    return at_s + (double)os_wall_ahead_ns() * 1e-9;
}

static void on_step(struct steps *s, struct step_rank *r, const json_t *object) {
    struct step *step = arena_push(s->arena, &s->items, &s->count, &s->capacity);
    *step = (struct step){
        .rank = r->rank,
        .number = count_of(object, "step"),
        .samples = count_of(object, "samples"),
        .micro_batch = -1,
        .micro_count = -1,
        .allocated_bytes = count_of(object, "allocated"),
        .reserved_bytes = count_of(object, "reserved"),
        .peak_allocated_bytes = count_of(object, "peak_allocated"),
        .peak_reserved_bytes = count_of(object, "peak_reserved"),
        .alloc_retries = count_of(object, "alloc_retries"),
        .t_s = time_of(object, "t"),
        .made = count_of(object, "made"),
        .made_samples = count_of(object, "made_samples"),
    };
    for (int i = 0; i < STEP_TIME_COUNT; i++)
        step->times.ms[i] = time_of(object, step_time_keys[i]);
    // A program that accumulates nothing may leave the list out.
    const json_t *list = json_object_get(object, "micro_batches");
    if (!read_micro_batches(s, r, list, step)) see_micro_batch(s, r, step->samples);
    r->state = STEPS_RANK_STARTED;
    r->oom_ns = 0;
    if (r->steps++ == 0 && step->made_samples >= 0 && step->samples >= 0) {
        int64_t before = step->made_samples - step->samples;
        r->samples_began = before >= 0 ? before : -1;
    }
    r->samples = r->samples >= 0 && step->samples >= 0 ? r->samples + step->samples : -1;
    step->rank_steps = r->steps;
    step->rank_samples = r->samples;
    step->end_s = end_of(s, step->t_s);
    if (!isnan(step->times.forward_ms)) s->covered |= STEPS_COVER_FORWARD;
    if (!isnan(step->times.backward_ms)) s->covered |= STEPS_COVER_BACKWARD;
    if (r->steps > 1) s->covered |= STEPS_COVER_SECOND_STEP;
}

static void on_phase(struct steps *s, struct step_rank *r, const json_t *object) {
    struct str phase = text_of(object, "phase");
    if (str_is(phase, "validation")) s->covered |= STEPS_COVER_VALIDATION;
    if (!str_is(phase, "checkpoint")) return;
    s->covered |= STEPS_COVER_CHECKPOINT;
    double end_s = time_of(object, "at");
    struct step_mark mark = {
        .rank = r->rank,
        .steps = r->steps,
        .samples = r->samples,
        .end_s = isnan(end_s) ? (double)os_wall_ns() * 1e-9 : end_s,
        .ms = time_of(object, "ms"),
    };
    s->marks[s->mark_count++ % STEP_MARKS] = mark;
    if (!r->says_saves) steps_save_written(s, r, text_of(object, "path"), &mark);
}

static void on_checkpoint(struct steps *s, struct step_rank *r, const json_t *object) {
    double at_s = time_of(object, "at");
    struct str by = text_of(object, "by");
    struct steps_save_word word = {
        .state = text_of(object, "state"),
        .path = text_of(object, "path"),
        .from = text_of(object, "from"),
        .folder = text_of(object, "folder"),
        .error = text_of(object, "error"),
        .is_of_files = str_is(by, "files"),
        .is_file = str_is(by, "torch.save") || str_is(by, "safetensors"),
        .step = count_of(object, "step"),
        .ranks = count_of(object, "ranks"),
        .at_s = isnan(at_s) ? (double)os_wall_ns() * 1e-9 : at_s,
        .is_background = json_is_true(json_object_get(object, "background")),
    };
    r->says_saves = true;
    steps_save_said(s, r, &word);
}

static void on_lengths(struct steps *s, struct step_rank *r, const json_t *object) {
    (void)r;
    if (count_of(object, "looked") > 0) s->covered |= STEPS_COVER_LONGEST;
}

static void on_outputs(struct steps *s, struct step_rank *r, const json_t *object) {
    struct steps_outputs *o = &s->outputs;
    (void)r;
    o->is_said = true;
    o->max_abs = number_of(object, "max_abs", DBL_MAX);
    o->mean_abs = number_of(object, "mean_abs", DBL_MAX);
    o->max_rel = number_of(object, "max_rel", DBL_MAX);
    o->mean_rel = number_of(object, "mean_rel", DBL_MAX);
    o->top1 = number_of(object, "top1", 1);
    o->samples = count_of(object, "samples");
    keep_text(s, &o->reference, text_of(object, "reference"));
    keep_text(s, &o->problem, text_of(object, "problem"));
}

static void on_oom(struct steps *s, struct step_rank *r, const json_t *object) {
    r->oom_ns = r->last_ns;
    keep_text(s, &r->oom_phase, text_of(object, "phase"));
    keep_text(s, &r->oom_message, text_of(object, "message"));
}

static void on_batch(struct steps *s, struct step_rank *r, const json_t *object) {
    int64_t batch = count_of(object, "batch"), accumulation = count_of(object, "accumulation");
    (void)s;
    if (batch < 1 || accumulation < 1) return;
    r->taken_batch = batch;
    r->taken_accumulation = accumulation;
}

static void on_end(struct steps *s, struct step_rank *r, const json_t *object) {
    const json_t *ok = json_object_get(object, "ok");
    struct str error = text_of(object, "error");
    keep_text(s, &r->error, error);
    bool is_bad = json_is_false(ok) || (!json_is_true(ok) && error.len > 0);
    r->state = is_bad ? STEPS_RANK_ENDED_BADLY : STEPS_RANK_ENDED_WELL;
}

static void on_fault(struct steps *s, struct step_rank *r, const json_t *object) {
    (void)s, (void)object;
    r->is_mute = true;
}

static const struct {
    const char *name;
    void (*read)(struct steps *s, struct step_rank *r, const json_t *object);
} events[] = {
    {"start", on_start},           {"step", on_step},   {"phase", on_phase},
    {"checkpoint", on_checkpoint}, {"batch", on_batch}, {"end", on_end},
    {"outputs", on_outputs},       {"fault", on_fault}, {"oom", on_oom},
    {"lengths", on_lengths},
};

// Of a process that may only predict, or help: it is no rank yet. A rank lives, for example in a
// long evaluation.
static void on_seen(struct steps *s, const json_t *object) {
    int64_t pid = count_of(object, "pid");
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (pid >= 0 && s->ranks[i].pid == pid) s->ranks[i].last_ns = os_now_ns();
    }
    if (!str_is(text_of(object, "what"), "forward")) return;
    s->has_forwards = true;
    s->has_gradients = s->has_gradients || json_is_true(json_object_get(object, "gradients"));
}

static void read_event(struct steps *s, const json_t *object) {
    struct str name = text_of(object, "event");
    if (str_is(name, "seen")) {
        on_seen(s, object);
        return;
    }
    size_t i = 0, count = sizeof events / sizeof *events;
    while (i < count && !str_is(name, events[i].name)) i++;
    struct step_rank *r = i < count ? rank_of(s, object) : NULL;
    if (!r) {
        s->unknown_events++;
        return;
    }
    int64_t dropped = count_of(object, "dropped");
    if (dropped > r->dropped) {
        s->dropped_lines += dropped - r->dropped;
        r->dropped = dropped;
    }
    r->last_ns = os_now_ns();
    events[i].read(s, r, object);
}

void steps_line(struct steps *s, struct str line) {
    if (str_trim(line).len == 0) return;
    json_t *object = NULL;
    if (line.len <= LINE_MAX_BYTES) {
        object =
            json_loadb(line.p, (size_t)line.len, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    }
    if (json_is_object(object) && count_of(object, "v") == 1) {
        read_event(s, object);
    } else {
        count_broken(s, line);
    }
    json_decref(object);
}

// A whole line, or the rest of one whose beginning waits.
static void end_line(struct steps *s, struct step_source *source, struct str rest) {
    if (source->skipping) {
        source->skipping = false;
        return;
    }
    if (source->partial.count > 0) {
        buf_add(&source->partial, rest);
        rest = buf_str(&source->partial);
    }
    steps_line(s, rest);
    source->partial.count = 0;
}

// The beginning that will be shown, and the rest of a character that is cut there.
static struct str beginning(struct str text) {
    ptrdiff_t max = BROKEN_MAX_BYTES + 4;
    return str_slice(text, 0, text.len < max ? text.len : max);
}

static void give_up_line(struct steps *s, struct step_source *source, struct str part) {
    buf_add(&source->partial, beginning(part));
    count_broken(s, buf_str(&source->partial));
    source->partial.count = 0;
    source->skipping = true;
}

void steps_feed(struct steps *s, struct step_source *source, struct str bytes) {
    if (!source->partial.arena) source->partial = buf_new(s->arena);
    while (bytes.len > 0) {
        const char *end = memchr(bytes.p, '\n', (size_t)bytes.len);
        struct str part = str_slice(bytes, 0, end ? end - bytes.p : bytes.len);
        bytes = str_slice(bytes, part.len + (end != NULL), bytes.len);
        bool is_overlong = source->partial.count + part.len > LINE_MAX_BYTES;
        if (is_overlong && !source->skipping) give_up_line(s, source, part);
        if (end) {
            end_line(s, source, part);
        } else if (!source->skipping) {
            buf_add(&source->partial, part);
        }
    }
}

bool steps_on_cpu(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        struct str device = s->ranks[i].device;
        if (device.len > 0 && !str_starts(device, STR("cpu"))) return false;
    }
    return true;
}

bool steps_out_of_memory(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].oom_ns != 0) return true;
    }
    return false;
}

bool steps_are_announced(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].state != STEPS_RANK_SILENT) return true;
    }
    return false;
}

bool steps_are_cut(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].is_mute) return true;
    }
    return false;
}

int64_t steps_of_slowest(const struct steps *s, int64_t ranks) {
    int64_t fewest = INT64_MAX, reporting = 0;
    if (ranks <= 0) ranks = s->world > 0 ? s->world : 1;
    // One that has made no step may be a launcher that only loaded the framework.
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].steps == 0) continue;
        reporting++;
        if (s->ranks[i].steps < fewest) fewest = s->ranks[i].steps;
    }
    return reporting >= ranks ? fewest : 0;
}

void steps_forget(struct steps *s, ptrdiff_t keep) {
    if (s->count <= keep) return;
    ptrdiff_t gone = s->count - keep;
    memmove(s->items, s->items + gone, (size_t)keep * sizeof *s->items);
    s->count = keep;
    s->forgotten += gone;
}

// A launcher has started the rank again: what the first process made is not counted twice.
static bool is_replaced(const struct steps *s, ptrdiff_t i) {
    for (ptrdiff_t k = i + 1; k < s->rank_count; k++) {
        if (s->ranks[k].rank == s->ranks[i].rank && s->ranks[k].steps > 0) return true;
    }
    return false;
}

int64_t steps_samples_after(const struct steps *s, int rank, int64_t made, int64_t samples) {
    int64_t sum = 0, counted = 0;
    for (ptrdiff_t i = 0; i < s->rank_count && samples >= 0; i++) {
        const struct step_rank *r = &s->ranks[i];
        if (r->steps == 0 || is_replaced(s, i)) continue;
        const struct step *step = r->rank == rank ? NULL : steps_step_of(s, r->rank, made);
        int64_t own = step ? step->rank_samples : samples;
        if (own < 0) return -1;
        sum += own;
        counted++;
    }
    // Those of which nothing was read yet.
    if (counted < s->world) sum += (s->world - counted) * samples;
    return samples < 0 ? -1 : sum;
}
