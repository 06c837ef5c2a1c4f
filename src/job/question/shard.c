// SPDX-License-Identifier: Apache-2.0
#include "job/question/question.h"

#include "base/near.h"
#include "base/unit.h"
#include "job/question/question_int.h"

// Words of the field that no template covers.
static const char *const unmodelled[] = {"fsdp", "hsdp", "zero", "tp", "pp", "cp", NULL};

// data/dialects.tsv
static const char titan_fsdp2[] = "torchtitan's FSDP2";

static int bad_word(struct arena *a, struct str word, struct fail *why) {
    struct near near = {.typed = word};
    if (str_is(word, "ddp")) {
        fail_set(why, FAIL_USAGE, "--shard ddp: DDP shares no weights");
        return fail_hint(why, "leave --shard out: several GPUs are DDP then");
    }
    if (str_is_one_of(word, unmodelled)) {
        fail_set(why, FAIL_USAGE, "--shard %.*s: not modelled", STR_ARG(word));
        return fail_hint(why, "what is: --shard fsdp2 (torch's fully_shard, each layer a group), "
                              "fsdp1 (its FullyShardedDataParallel), titan and torchtune (fsdp2 as "
                              "they do it), zero1, zero2 and zero3 (DeepSpeed)");
    }
    for (int i = 0; plan_shards[i]; i++) near_offer(&near, str_of(plan_shards[i]));
    fail_set(why, FAIL_USAGE,
             "--shard %.*s: not fsdp1, fsdp2, titan, torchtune, zero1, zero2 or zero3",
             STR_ARG(word));
    return near.count > 0 ? fail_hint(why, "nearest: %.*s", STR_ARG(near_text(a, &near)))
                          : FAIL_USAGE;
}

// Of a config's "ZeRO stage 2", or "ZeRO stage 2 by default"; 0: it says something else.
static int zero_stage(const struct config_guard *g) {
    int64_t stage = 0;
    static const char begin[] = "ZeRO stage ";
    if (!str_starts(g->what, str_of(begin))) return 0;
    struct str rest = str_slice(g->what, sizeof begin - 1, g->what.len);
    return str_to_i64(str_cut(&rest, ' '), &stage) ? (int)stage : 0;
}

// torchtitan shards over all GPUs unless told over how many: where there is one, nothing is
// sharded.
static bool is_over_one(const struct question *q, const struct config_guard *g) {
    int64_t said = 0;
    return str_is(g->what, titan_fsdp2) && q->plan.ranks < 2 &&
           (!str_to_i64(g->value, &said) || said < 1);
}

// What of offload the forecast counts: all that the plan's shard says. Below stage 3 DeepSpeed
// keeps parameters where they are, whatever is said.
static bool models_offload(struct str shard, struct str what) {
    struct plan_zero read, *zero = &read;
    if (plan_fsdp_offloads(shard))
        return str_is(what, "parameter offload") || str_is(what, "CPU offload");
    if (!plan_zero_read(shard, zero)) return false;
    bool is_optimizer = zero->places[PLAN_OPTIMIZER] != PLAN_ON_GPU;
    bool is_param = zero->places[PLAN_PARAM] != PLAN_ON_GPU;
    if (str_is(what, "optimizer offload")) return is_optimizer;
    if (str_is(what, "parameter offload")) return is_param || zero->stage < 3;
    return str_is(what, "optimizer and parameter offload") && is_optimizer && is_param;
}

// What the trainer makes of several GPUs by itself becomes one of the config's guards, unless the
// config says another way.
static void add_own_way(struct question *q, const struct question_options *o) {
    struct config_reading *r = &q->reading;
    const struct config_value *said = &r->values[CONFIG_RANKS];
    int64_t ranks = o->ranks > 0 ? o->ranks : said->integer;
    if (r->several.what.len == 0 || ranks < 2 || q->plan.inference) return;
    for (ptrdiff_t i = 0; i < r->guard_count; i++) {
        const struct config_guard *g = &r->guards[i];
        bool is_other = str_is(g->kind, "sharding") && !str_starts(g->what, STR("FSDP"));
        if (is_other || str_equal(g->what, r->several.what)) return;
    }
    *arena_push(q->arena, &r->guards, &r->guard_count, &r->guard_capacity) = r->several;
}

bool question_shard_models(const struct question *q, const struct config_guard *g) {
    struct plan_zero zero;
    if (is_over_one(q, g) || question_fsdp_unused(q, g) || question_titan_models(q, g)) return true;
    if (str_is(g->kind, "offload")) return models_offload(q->plan.shard, g->what);
    if (q->plan.shard.len == 0 || !str_is(g->kind, "sharding")) return false;
    if (question_fsdp_extra(q, g)) return true;
    // torchtitan's own is a recording's: no template has it
    bool is_titan = str_starts(q->plan.model, STR("titan:"));
    if (plan_zero_read(q->plan.shard, &zero)) return zero_stage(g) == zero.stage;
    if (is_titan) return str_is(g->what, titan_fsdp2);
    if (plan_is_tune(q->plan.shard)) return plan_is_tune(str_of(question_fsdp_of(q, g)));
    return plan_fsdp(q->plan.shard) > 0 &&
           plan_fsdp(q->plan.shard) == plan_fsdp(str_of(question_fsdp_of(q, g)));
}

static bool has_numbers(const struct question *q) {
    for (int i = CONFIG_ZERO_BUCKET; i <= CONFIG_ZERO_GROUP; i++) {
        const struct config_value *v = &q->reading.values[i];
        if (v->type != CONFIG_ABSENT && !v->assumed) return true;
    }
    return false;
}

// The numbers are DeepSpeed's own where its file, or accelerate's, says none of them; a program
// that only calls its option zero_stage makes a DeepSpeed config of its own.
static bool is_deepspeeds(const struct question *q, const struct config_guard *g) {
    static const char *const files[] = {"deepspeed", "deepspeed_config", "deepspeed_config_file",
                                        NULL};
    return has_numbers(q) || str_is(g->path, "launcher.zero_stage") ||
           str_ends(g->path, STR("deepspeed_config.zero_stage")) ||
           str_ends(g->path, STR("zero_optimization.stage")) ||
           str_is_one_of(str_last(g->path, '.'), files);
}

// The stage that the config says, once or several times; 0: none, several, or more than that.
static int config_stage(const struct question *q) {
    int stage = 0;
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!str_is(g->kind, "sharding")) continue;
        int said = zero_stage(g);
        if (said == 0 || (stage > 0 && said != stage)) return 0;
        if (said == 3 && !is_deepspeeds(q, g)) return 0;
        stage = said;
    }
    return stage <= 3 ? stage : 0;
}

static bool is_elements(const struct config_value *v, double least) {
    return v->number >= least && v->number <= (double)PLAN_BUCKET_MAX;
}

// What the shard would not be without it. False: it says what is no number.
static bool put_number(struct buf *text, const struct config_value *v, enum plan_zero_number number,
                       const struct plan_zero *so_far) {
    struct plan_zero usual;
    plan_zero_read(STR("zero3"), &usual);
    int64_t wanted = usual.numbers[number];
    if (str_is(v->text, "auto"))
        wanted = PLAN_ZERO_AUTO;
    else if (v->type != CONFIG_ABSENT && !is_elements(v, 0))
        return false;
    else if (v->type != CONFIG_ABSENT)
        wanted = (int64_t)v->number;
    if (wanted == so_far->numbers[number]) return true;
    buf_format(text, ":%s=", plan_zero_word(number));
    if (wanted == PLAN_ZERO_AUTO)
        buf_format(text, "auto");
    else
        buf_format(text, "%lld", (long long)wanted);
    return true;
}

// A trainer's own switch takes it to the host.
static int place_of(const struct config_value *v) {
    int place = PLAN_ON_NVME;
    if (v->type == CONFIG_BOOL) return v->boolean ? PLAN_ON_CPU : PLAN_ON_GPU;
    while (place > 0 && !str_is(v->text, plan_places[place])) place--;
    return place;
}

// What the file keeps elsewhere; of disks stages 1 and 2 know nothing and take the host.
static void put_places(struct question *q, struct buf *text, int stage) {
    const struct config_value *values = q->reading.values;
    bool is_away = false, is_pinned = false;
    for (int i = 0; i < PLAN_OFFLOADS; i++) {
        const struct config_value *v = &values[CONFIG_ZERO_OPTIMIZER + i];
        const int place = place_of(v);
        if (place == PLAN_ON_GPU || (i == PLAN_PARAM && stage < 3)) continue;
        buf_format(text, ":%s=%s", plan_offloads[i], plan_places[stage < 3 ? PLAN_ON_CPU : place]);
        if (place == PLAN_ON_NVME && stage < 3)
            str_list_format(q->arena, &q->notes,
                            "%.*s = nvme: below stage 3 DeepSpeed keeps the optimizer's states in "
                            "the host's memory: counted so",
                            STR_ARG(v->path));
        is_away = true;
    }
    const struct config_value *pinned = &values[CONFIG_ZERO_PINNED];
    is_pinned = pinned->type != CONFIG_BOOL || pinned->boolean;
    if (is_away && !is_pinned) buf_add(text, STR(":paged"));
}

// ms-swift's own files, by their names (3602360a5623, swift/config/zero1.json and its neighbours).
static const struct {
    const char *name, *shard;
} swift_files[] = {{"zero1", "zero1:200000000"},
                   {"zero2", "zero2:200000000"},
                   {"zero2_offload", "zero2:200000000:optimizer=cpu"},
                   {"zero3", "zero3:auto"},
                   {"zero3_offload", "zero3:auto:optimizer=cpu:param=cpu"}};

static struct str swift_zero(const struct question *q) {
    bool is_swift = str_is(q->reading.dialect, "swift");
    for (ptrdiff_t i = 0; is_swift && i < q->reading.guard_count; i++)
        for (size_t k = 0; k < sizeof swift_files / sizeof *swift_files; k++)
            if (str_is(q->reading.guards[i].value, swift_files[k].name) &&
                str_is(str_last(q->reading.guards[i].path, '.'), "deepspeed"))
                return str_of(swift_files[k].shard);
    return (struct str){0};
}

// "zero2:500000000:overlap" of the DeepSpeed file's numbers. Empty: it shards otherwise, or more
// than that.
static struct str config_zero(struct question *q) {
    const struct config_value *values = q->reading.values, *bucket = &values[CONFIG_ZERO_BUCKET];
    const struct config_value *overlap = &values[CONFIG_ZERO_OVERLAP];
    int stage = config_stage(q);
    if (stage == 0) return (struct str){0};
    struct buf text = buf_new(q->arena);
    struct str shipped = swift_zero(q);
    if (shipped.len > 0) return shipped;
    buf_format(&text, "zero%d", stage);
    // Stage 3 overlaps unless told not to (deepspeed/runtime/zero/config.py, overlap_comm_valid).
    bool is_said = overlap->type != CONFIG_ABSENT && !overlap->assumed;
    bool overlaps = is_said || stage < 3 ? overlap->boolean : true;
    if (str_is(bucket->text, "auto"))
        buf_format(&text, ":auto");
    else if (is_elements(bucket, 0)) // of 0, each gradient is reduced as it comes
        buf_format(&text, ":%lld", bucket->number < 1 ? 1LL : (long long)bucket->number);
    else if (overlaps || stage == 3)
        buf_format(&text, ":%lld", (long long)PLAN_ZERO_BUCKET);
    if (overlaps) buf_format(&text, ":overlap");
    struct plan_zero so_far;
    plan_zero_read(buf_str(&text), &so_far);
    for (int i = 0; i < PLAN_ZERO_NUMBERS && stage == 3; i++) {
        const struct config_value *v = &values[CONFIG_ZERO_PREFETCH + i];
        if (!put_number(&text, v, (enum plan_zero_number)i, &so_far)) return (struct str){0};
    }
    put_places(q, &text, stage);
    const bool keeps = stage == 3 && q->plan.quant.len > 0;
    if (keeps && question_reentrant(q) == REENTRANT) buf_format(&text, ":reentrant");
    return buf_str(&text);
}

static bool is_shard(struct str word) {
    struct plan_zero zero;
    return str_is_one_of(word, plan_shards) || plan_zero_read(word, &zero);
}

// --offload: of the config's ZeRO, or of --shard's.
static int add_offload(struct question *q, const char *what, struct fail *why) {
    struct str word = str_of(what);
    struct plan_zero zero;
    if (!what) return 0;
    if (!str_is(word, "all") && !str_is_one_of(word, plan_offloads))
        return fail_set(why, FAIL_USAGE, "--offload %s: not optimizer, param or all", what);
    const bool is_fsdp = plan_fsdp(q->plan.shard) > 0;
    if (!is_fsdp && !plan_zero_read(q->plan.shard, &zero)) {
        fail_set(why, FAIL_USAGE,
                 "--offload %s needs FSDP or DeepSpeed's ZeRO, and neither is asked for", what);
        return fail_hint(why, "say which: --shard fsdp2 --offload all, --shard zero2 --offload "
                              "optimizer, or --shard zero3 --offload all");
    }
    struct str shard = plan_offload(q->arena, q->plan.shard, word);
    if (shard.len == 0 && is_fsdp) {
        fail_set(why, FAIL_USAGE, "--offload %s: FSDP updates where it keeps the parameters", what);
        return fail_hint(why, "--offload all moves both to the host");
    }
    if (shard.len == 0) {
        fail_set(why, FAIL_USAGE, "--offload %s: stage %d keeps parameters on the GPU", what,
                 zero.stage);
        return fail_hint(
            why, "--shard zero3 can offload them; --offload optimizer works at every stage");
    }
    q->plan.shard = shard;
    return 0;
}

static int fill_shard(struct question *q, const struct question_options *o, struct fail *why) {
    add_own_way(q, o);
    if (!o->shard && !q->plan.inference) q->plan.shard = question_fsdp(q);
    if (!o->shard && !q->plan.inference && q->plan.shard.len == 0) q->plan.shard = config_zero(q);
    if (!o->shard) return question_titan(q, o, why);
    struct str word = str_of(o->shard);
    if (!is_shard(word)) return bad_word(q->arena, word, why);
    if (q->plan.inference)
        return fail_set(why, FAIL_USAGE, "--shard %s is only for training", o->shard);
    q->plan.shard = word;
    return question_titan(q, o, why);
}

int question_shard(struct question *q, const struct question_options *o, struct fail *why) {
    int rc = fill_shard(q, o, why);
    return rc < 0 ? rc : add_offload(q, o->offload, why);
}

// One GPU has nobody to share with; what it keeps elsewhere is counted.
static bool is_enough_alone(const struct question *q) {
    struct plan_zero zero;
    return plan_zero_read(q->plan.shard, &zero) && plan_zero_offloads(&zero);
}

static void say_sizes(struct question *q) {
    struct plan_zero zero;
    bool is_third = plan_zero_read(q->plan.shard, &zero) && zero.stage == 3;
    if (is_third && !has_numbers(q) && swift_zero(q).len == 0)
        str_list_format(q->arena, &q->notes,
                        "the config gives no sizes for ZeRO stage 3: DeepSpeed's defaults are "
                        "counted (transformers' \"auto\" needs less)");
}

static bool is_counted(struct question *q, struct fail *why) {
    struct forecast f;
    return forecast_open(&q->tape_cache, &q->plan, &f, why) == 0;
}

// Where no template has Axolotl's groups, accelerate's come near.
static bool is_counted_newer(struct question *q) {
    if (!str_is(q->plan.shard, plan_fsdp2_older)) return false;
    q->plan.shard = STR("fsdp2");
    if (q->plan.adapter.len == 0) q->plan.precision = PLAN_AMP_BF16;
    return is_counted(q, NULL);
}

// What the config alone asks for is counted if it can be.
static void check_config(struct question *q, bool has_gpus) {
    struct fail unserved = {0};
    const char *why = "the config does not say over how many GPUs (--gpus 8xh100, or --ranks 8)";
    if (has_gpus) why = "one rank has all of the weights and shares none";
    if (q->plan.model.len == 0) why = "no model is named";
    if (q->plan.model.len > 0 && (q->plan.ranks > 1 || is_enough_alone(q))) {
        if (is_counted(q, &unserved) || is_counted_newer(q)) {
            say_sizes(q);
            return;
        }
        why = unserved.message;
    }
    struct plan_zero zero;
    bool is_zero = plan_zero_read(q->plan.shard, &zero);
    const char *name = is_zero ? "ZeRO" : plan_fsdp(q->plan.shard) == 1 ? "FSDP1" : "FSDP2";
    str_list_format(q->arena, &q->notes, "%s is not predicted: %s", name, why);
    q->plan.shard = (struct str){0};
    q->plan.tensor_parallel = q->plan.shard_ranks = 0;
    question_weights(q);
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int question_check_ranks(const struct question *q, const struct question_options *o,
                         struct fail *why) {
    const int64_t ranks = q->plan.ranks, batch = larger(1, larger(o->batch, q->plan.batch)),
                  steps = larger(1, larger(o->accumulation, q->plan.accumulation));
    const int64_t tried = larger(batch, larger(o->least, larger(o->most, o->multiple)));
    int64_t all;
    if (tried > PLAN_BATCH_MAX)
        return fail_set(why, FAIL_USAGE, "batch %lld: at most %d are supported", (long long)tried,
                        PLAN_BATCH_MAX);
    if (ranks > PLAN_RANKS_MAX)
        return fail_set(why, FAIL_USAGE, "%lld GPUs: at most %d are supported", (long long)ranks,
                        PLAN_RANKS_MAX);
    if (__builtin_mul_overflow(batch, steps, &all) || __builtin_mul_overflow(all, ranks, &all))
        return fail_set(why, FAIL_USAGE, "batch %lld x %lld x %lld GPUs: too many samples to count",
                        (long long)batch, (long long)steps, (long long)ranks);
    if (!o->ranks_are_open && q->effective % ranks != 0)
        return fail_set(why, FAIL_INPUT, "the effective batch %lld cannot be split over %lld ranks",
                        (long long)q->effective, (long long)ranks);
    return 0;
}

int question_shard_check(struct question *q, const struct question_options *o, struct fail *why) {
    if (!o->shard) question_titan_groups(q);
    if (q->plan.shard.len > 0 && !o->shard && !o->tape) check_config(q, o->ranks > 1);
    if (q->plan.shard.len > 0 && q->plan.ranks <= 1 && is_enough_alone(q))
        str_list_add(
            q->arena, &q->notes,
            STR("counted on one GPU; several share what it holds: --gpus 8xh100, or --ranks 8"));
    if (q->plan.shard.len == 0 || q->plan.ranks > 1 || is_enough_alone(q)) return 0;
    fail_set(why, FAIL_USAGE, "--shard %.*s: weights are shared by two GPUs or more",
             STR_ARG(o->shard ? str_of(o->shard) : q->plan.shard));
    long long by = q->plan.tensor_parallel;
    if (by > 1)
        return fail_hint(why,
                         "each of the ranks that share them is %lld GPUs: --gpus %lldxh100 is two",
                         by, 2 * by);
    return fail_hint(why, "say how many: --gpus 8xh100, or --ranks 8");
}

int question_gpu_word(const struct question_options *o, struct str word, int64_t *ret_count,
                      struct str *ret_name, struct fail *why) {
    if (!unit_parse_counted(word, ret_count, ret_name)) {
        fail_set(why, FAIL_USAGE, "--gpus %.*s: not NUMBERxNAME", STR_ARG(word));
        return fail_hint(why, "for example --gpus 8xh100");
    }
    if (*ret_count == 0 || o->ranks <= 0 || o->ranks == *ret_count) return 0;
    return fail_set(why, FAIL_USAGE, "--gpus %.*s cannot be combined with --ranks %lld",
                    STR_ARG(word), (long long)o->ranks);
}

int question_shard_gpus(struct question_options *o, const char **ret_gpu, struct arena *a,
                        struct fail *why) {
    const struct str list = str_of(o->gpus);
    struct str name;
    int64_t count;
    if (!o->gpus) return 0;
    if (*ret_gpu)
        return fail_set(why, FAIL_USAGE, "--gpus %s cannot be combined with --gpu %s", o->gpus,
                        *ret_gpu);
    if (str_find(list, STR("+")) >= 0 || str_find(list, STR(",")) >= 0) {
        fail_set(why, FAIL_USAGE,
                 "--gpus %s: one training over several kinds of GPU is not supported", o->gpus);
        return fail_hint(why, "with one batch for all, the GPU with the least memory decides: ask "
                              "for as many of that one");
    }
    int rc = question_gpu_word(o, list, &count, &name, why);
    if (rc < 0) return rc;
    if (count == 0) {
        fail_set(why, FAIL_USAGE, "--gpus %s: not NUMBERxNAME", o->gpus);
        return fail_hint(why, "for example --gpus 8xh100");
    }
    o->ranks = count;
    o->gpus_in_all = true;
    *ret_gpu = str_z(a, name);
    return 0;
}
