// SPDX-License-Identifier: Apache-2.0
// batchfit sim: replay one tape. The plumbing below fit, for scripts and for checking us.
#include "predict/sim/sim.h"
#include "base/os.h"
#include "base/out.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "job/answer/answer.h"
#include "predict/tape/template.h"
#include "predict/tape/zero.h"

#include <stdio.h>

struct sim_verb_options {
    struct cli_options base;
    int64_t batch, classes, capacity, accumulation;
    const char *alloc_conf, *gpu, *torch, *dims, *zero, *write_tape, *trace;
    bool scratch;
};

#define AT(member) offsetof(struct sim_verb_options, member)
static const struct cli_row rows[] = {
    {"batch", "B", CLI_COUNT, AT(batch), "batch (micro-batch of one device)"},
    {"capacity", "BYTES", CLI_BYTES, AT(capacity),
     "memory limit of the allocator: 22GiB (default none)"},
    {"dims", "NAME=N,...", CLI_TEXT, AT(dims),
     "of a template, the value of each dimension: sequence=2048,hidden=4096"},
    {"accumulation", "N", CLI_COUNT, AT(accumulation),
     "micro-steps per optimizer step of a tape that was recorded with one"},
    {"zero", "STAGE,RANKS,BUCKET", CLI_TEXT, AT(zero),
     "as DeepSpeed's ZeRO shares a bf16 tape: 2,8,500000000, with overlap and offload perhaps "
     "behind: 2,8,500000000,overlap,offload"},
    {"write-tape", "FILE", CLI_TEXT, AT(write_tape), "write the tape that is replayed"},
    CLI_ROW_TRACE(AT(trace)),
    CLI_ROW_NUM_CLASSES(AT(classes)),
    CLI_ROW_ALLOC_CONF(AT(alloc_conf)),
    {"scratch", NULL, CLI_SWITCH, AT(scratch),
     "include scratch that kernels may request (the tape's w lines: a guess)"},
    {"gpu", "NAME", CLI_TEXT, AT(gpu), "also predict the speed on this GPU: rtx3090", "gpus"},
    {"torch", "VERSION", CLI_TEXT, AT(torch),
     "PyTorch version of the run, for its speed (default that of the tape's rules)"},
    {.name = NULL},
};

// The figures of a run without limit, whether the tape runs in the capacity, and the least it
// needs.
struct figures {
    struct sim_result free_run, limited;
    struct sim_need need;
    bool has_capacity, wants_speed;
    struct speed speed; // row NULL: nothing can be said
};

static int print_json(const struct figures *f, struct fail *why) {
    json_t *document = json_pack(
        "{s:I, s:I, s:I, s:I, s:b, s:o, s:i, s:i}", "allocated_bytes",
        (json_int_t)f->free_run.allocated_bytes, "end_bytes", (json_int_t)f->free_run.end_bytes,
        "reserved_bytes", (json_int_t)f->free_run.reserved_bytes, "needed_bytes",
        (json_int_t)f->need.needed_bytes, "needed_is_exact", f->need.needed_exact, "fits",
        f->has_capacity ? json_boolean(!f->limited.oom) : json_null(), "events",
        (int)f->free_run.events, "retries", f->has_capacity ? (int)f->limited.retries : 0);
    if (f->has_capacity) {
        json_object_set_new(document, "reserved_in_capacity_bytes",
                            json_integer(f->limited.reserved_bytes));
    }
    if (f->wants_speed) json_object_set_new(document, "speed", answer_speed_json(&f->speed));
    return json_print(document, why);
}

static int predict_speed(struct arena *a, const struct sim_verb_options *o, const struct tape *tape,
                         struct speed *ret, struct fail *why) {
    struct gpu_catalogue cards;
    struct gpu_match match;
    struct speed_table table;
    struct gpu_software software = {0};
    if (o->torch && !gpu_software_parse(str_of(o->torch), &software)) {
        fail_set(why, FAIL_USAGE, "--torch %s: not a version", o->torch);
        return fail_hint(why, "for example --torch 2.4");
    }
    int rc = gpu_load(a, &cards, why);
    if (rc == 0) rc = gpu_find(a, &cards, str_of(o->gpu), &match, why);
    if (rc == 0) rc = speed_load(a, &table, why);
    if (rc < 0) return rc;
    const struct speed_run run = {tape, o->batch, 1, match.gpu, software.torch};
    if (!speed_at(&table, &run, ret)) ret->row = NULL;
    return 0;
}

static void print_text(struct arena *a, const struct figures *f, int64_t capacity) {
    out_say(stdout, "allocated %s\nreserved  %s without pressure\nneeded    %s%s\nevents    %d\n",
            unit_bytes(a, f->free_run.allocated_bytes).p,
            unit_bytes(a, f->free_run.reserved_bytes).p, unit_bytes(a, f->need.needed_bytes).p,
            f->need.needed_exact ? "" : " or less", (int)f->free_run.events);
    struct buf speed = buf_shown(a);
    answer_speed_text(&f->speed, &speed);
    if (speed.count > 0) out_buf(stdout, &speed);
    if (!f->has_capacity) return;
    out_say(stdout, "capacity  %s: %s", unit_bytes(a, capacity).p,
            answer_verdict_name(f->limited.oom ? ANSWER_NOT : ANSWER_FITS));
    if (f->limited.oom) {
        out_say(stdout, " at event %d, asking for %s", (int)f->limited.oom_event,
                unit_bytes(a, f->limited.oom_bytes).p);
    } else if (f->limited.retries > 0) {
        out_say(stdout, ", after freeing the cache %d times", (int)f->limited.retries);
    }
    out_say(stdout, "\n");
}

// "sequence=2048,hidden=4096"
static int read_dims(const char *text, int64_t values[TAPE_DIM_COUNT], struct fail *why) {
    for (struct str rest = str_of(text); rest.len > 0;) {
        struct str value = str_cut(&rest, ','), name = str_cut(&value, '=');
        int dim = tape_dim_find(name);
        if (dim < 0) {
            return fail_set(why, FAIL_USAGE, "--dims: there is no dimension '%.*s'", STR_ARG(name));
        }
        if (!str_to_i64(value, &values[dim]) || values[dim] < 1) {
            return fail_set(why, FAIL_USAGE, "--dims: %.*s is not a number from 1 on",
                            STR_ARG(name));
        }
    }
    return 0;
}

// "overlap,offload"
static bool read_words(struct str words, struct tape_zero *how) {
    while (words.p) {
        struct str word = str_cut(&words, ',');
        if (str_is(word, "overlap"))
            how->overlaps = true;
        else if (str_is(word, "offload"))
            how->offload.optimizer = TAPE_ON_HOST;
        else
            return false;
    }
    return true;
}

// "2,8,500000000,overlap"
static int zero(struct arena *a, const char *text, struct tape *t, struct fail *why) {
    struct str rest = str_of(text), stage = str_cut(&rest, ','), ranks = str_cut(&rest, ',');
    struct str bucket = str_cut(&rest, ',');
    struct tape_zero how = {.stage = 0};
    int64_t number = 0;
    struct tape made;
    bool is_read = str_to_i64(stage, &number) && (number == 1 || number == 2) &&
                   str_to_i64(ranks, &how.ranks) && how.ranks > 0 && how.ranks <= PLAN_RANKS_MAX &&
                   str_to_i64(bucket, &how.bucket) && how.bucket > 0 &&
                   how.bucket < TAPE_SIZE_MAX && read_words(rest, &how);
    how.stage = (int)number;
    if (!is_read)
        return fail_set(why, FAIL_USAGE, "--zero %s: not STAGE,RANKS,BUCKET such as 2,8,500000000",
                        text);
    bool is_bf16 = str_is(t->header.precision, "bf16") || str_is(t->header.shard, "zero0");
    if (!is_bf16 || !tape_zero(a, t, &how, &made))
        return fail_set(why, FAIL_INPUT,
                        "--zero: the tape is not that of a training with weights in bf16");
    *t = made;
    return 0;
}

static int write_tape(struct arena *a, const char *path, const struct tape *t, struct fail *why) {
    struct buf text = buf_new(a);
    tape_write(t, &text);
    return os_replace(a, path, buf_str(&text), NULL, why);
}

static int accumulate(struct arena *a, const char *name, struct tape *t, struct fail *why) {
    struct tape several;
    if (!tape_accumulate(a, t, &several)) {
        return fail_set(why, FAIL_INPUT, "%s: no tape of two steps with one micro-step each", name);
    }
    *t = several;
    return 0;
}

// A tape, or a template at the dimensions that were given.
static int read_any(struct arena *a, const struct sim_verb_options *o, struct tape *ret,
                    struct fail *why) {
    struct str name = str_of(o->base.arguments[0]), bytes;
    struct tape_template *t;
    int64_t values[TAPE_DIM_COUNT] = {0};
    int rc = os_read(a, name.p, TAPE_TEXT_MAX, &bytes, NULL, why);
    if (rc < 0) return rc;
    if (!o->dims) rc = tape_read(a, name, bytes, ret, why);
    if (o->dims) rc = read_dims(o->dims, values, why);
    if (rc == 0 && o->dims) rc = tape_template_read(a, name, bytes, &t, why);
    if (rc == 0 && o->dims) rc = tape_instantiate(a, t, values, ret, why);
    if (rc == 0 && o->accumulation > 1) rc = accumulate(a, name.p, ret, why);
    if (rc == 0 && o->zero) rc = zero(a, o->zero, ret, why);
    if (rc == 0 && o->write_tape) rc = write_tape(a, o->write_tape, ret, why);
    return rc;
}

static int sim_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    const struct sim_verb_options *o = (const struct sim_verb_options *)options;
    struct sim_options how;
    struct tape tape;
    struct figures f = {.has_capacity = o->capacity > 0, .wants_speed = o->gpu != NULL};
    if (options->argument_count != 1 || o->batch <= 0) {
        fail_set(why, FAIL_USAGE, "sim takes one tape and --batch B");
        return fail_hint(why, "batchfit sim swin.tape --batch 32 --capacity 22GiB");
    }
    int rc = sim_alloc_conf_read(o->alloc_conf, &how, why);
    if (rc == 0) rc = read_any(a, o, &tape, why);
    if (rc < 0) return rc;
    how.scratch = o->scratch;
    struct sim *sim = sim_prepare(a, &tape, &how);
    sim_replay(sim, o->batch, o->classes, SIM_UNLIMITED, &f.free_run);
    sim_needed(sim, o->batch, o->classes, SIM_NEED_REPLAYS, &f.need);
    if (f.has_capacity) sim_replay(sim, o->batch, o->classes, o->capacity, &f.limited);
    const struct answer_traced traced = {sim, &tape, o->batch, o->classes,
                                         f.has_capacity ? o->capacity : SIM_UNLIMITED};
    if (o->trace) rc = answer_trace_write(a, o->trace, &traced, why);
    if (rc == 0 && o->gpu) rc = predict_speed(a, o, &tape, &f.speed, why);
    if (rc < 0) return rc;
    if (options->json)
        rc = print_json(&f, why);
    else
        print_text(a, &f, o->capacity);
    if (rc < 0) return rc;
    return f.has_capacity && f.limited.oom ? FAIL_NO : 0;
}

const struct cli_verb sim_verb = {
    .name = "sim",
    .summary = "replay one tape through the caching allocator",
    .arguments = "TAPE",
    .description =
        "Prints the peak of allocated bytes, what the allocator holds without memory pressure "
        "(reserved), and the smallest capacity in which the tape still runs (needed). With "
        "--capacity also whether it runs there; if not, the exit status is 1.",
    .examples = "batchfit sim swin.tape --batch 32 --capacity 22GiB --json\n"
                "batchfit sim swin.tape --batch 32 --alloc-conf expandable_segments:True",
    .options = rows,
    .options_size = sizeof(struct sim_verb_options),
    .run = sim_run,
    .hidden = true,
};
