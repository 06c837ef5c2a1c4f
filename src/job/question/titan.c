// SPDX-License-Identifier: Apache-2.0
// Facts: torchtitan 0.1 to 0.2, torchtitan/config/job_config.py (names and defaults),
// torchtitan/models/llama3/infra/parallelize.py and distributed/activation_checkpoint.py.
#include "job/question/question_int.h"

static const char fsdp2[] = "torchtitan's FSDP2", split[] = "tensor parallelism"; // guards

// Its flavors of llama3 (torchtitan/models/llama3/__init__.py) and the model of the same shape.
static const struct {
    const char *flavor, *model;
} flavors[] = {{"llama3-8B", "meta-llama/Llama-3.1-8B"},
               {"llama3-70B", "meta-llama/Llama-3.1-70B"},
               {"llama3-405B", "meta-llama/Llama-3.1-405B"}};

static bool is_titan(const struct question *q) {
    return q->has_config && str_starts(q->reading.dialect, STR("torchtitan"));
}

static const struct config_guard *guard_of(const struct question *q, const char *what) {
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++)
        if (str_is(q->reading.guards[i].what, what)) return &q->reading.guards[i];
    return NULL;
}

// "2", its default, is every second layer, of which there is no template.
static bool is_by_operation(const struct question *q) {
    struct config_value option = {0};
    (void)config_get(q->arena, &q->config, STR("activation_checkpoint.selective_ac_option"),
                     &option, NULL);
    return str_is(option.text, "op");
}

// "selective", "full" or "none".
static bool is_selective(const struct question *q) {
    return str_is(q->reading.values[CONFIG_CHECKPOINTING].text, "selective");
}

// What a guard names stays one where this is false.
static bool take_config(struct question *q) {
    for (size_t i = 0; is_titan(q) && i < sizeof flavors / sizeof *flavors; i++)
        if (str_is(q->plan.model, flavors[i].flavor)) q->plan.model = str_of(flavors[i].model);
    const struct config_guard *g = guard_of(q, fsdp2), *t = guard_of(q, split);
    if (!is_titan(q) || !g || q->plan.inference) return false;
    int64_t by = 0;
    if (t && !str_to_i64(t->value, &by)) return false;
    if (is_selective(q) && !is_by_operation(q)) {
        str_list_add(q->arena, &q->notes,
                     STR("no template has selective checkpointing of whole layers "
                         "(selective_ac_option, unless it is op): batchfit record titan:NAME "
                         "--selective layer"));
        return false;
    }
    q->plan.tensor_parallel = by;
    q->plan.shard = is_selective(q) ? STR("titan:op") : STR("titan");
    return true;
}

int question_titan(struct question *q, const struct question_options *o, struct fail *why) {
    struct plan *p = &q->plan;
    if (!o->shard && p->shard.len == 0) (void)take_config(q);
    if (plan_is_titan(p->shard)) p->fused = true; // its optimizer.implementation
    if (str_is(p->shard, "titan:op")) p->checkpointing = true;
    if (o->tensor_parallel <= 0) return 0;
    p->tensor_parallel = o->tensor_parallel;
    if (o->tensor_parallel == 1) return 0;
    if (p->shard.len == 0 || !(plan_is_titan(p->shard) || str_is(p->shard, "fsdp2"))) {
        fail_set(why, FAIL_USAGE, "--tp %lld: layers are split only together with FSDP2",
                 (long long)o->tensor_parallel);
        return fail_hint(why, "for example --gpus 64xh100 --tp 8 --shard fsdp2");
    }
    if (str_is(p->shard, "fsdp2") && !str_starts(p->model, STR("titan:"))) p->shard = STR("titan");
    return 0;
}

// What the ranks are of, where no template counts all that they share.
static void say_groups(struct question *q, int64_t gpus, int64_t by) {
    static const char *const kinds[] = {split, "pipeline parallelism", "context parallelism",
                                        "sequence parallelism", NULL};
    struct str names = {0};
    for (ptrdiff_t i = 0; i < q->reading.guard_count; i++) {
        const struct config_guard *g = &q->reading.guards[i];
        if (!str_is_one_of(g->what, kinds)) continue;
        names = str_format(q->arena, "%.*s%s%.*s: %.*s", STR_ARG(names),
                           names.len > 0 ? ", " : " (", STR_ARG(g->path), STR_ARG(g->value));
    }
    if (names.len > 0) names = str_format(q->arena, "%.*s)", STR_ARG(names));
    str_list_format(q->arena, &q->notes,
                    "%lld GPUs are %lld data-parallel ranks: groups of %lld share each sample%.*s",
                    (long long)gpus, (long long)(gpus / by), (long long)by, STR_ARG(names));
}

int question_titan_ranks(struct question *q, const struct question_options *o, int64_t *ret_ranks,
                         struct fail *why) {
    const int64_t tp = q->plan.tensor_parallel, sharing = q->reading.sharing;
    const bool is_by_layers = tp > 1 && (o->tensor_parallel > 0 || sharing <= tp);
    int64_t by = is_by_layers ? tp : sharing;
    *ret_ranks = o->ranks;
    if (!o->gpus_in_all || by < 2) return 0;
    if (o->ranks % by != 0)
        return fail_set(why, FAIL_INPUT, "%lld GPUs cannot be divided into groups of %lld that %s",
                        (long long)o->ranks, (long long)by,
                        is_by_layers ? "split each layer" : "share each sample");
    *ret_ranks = o->ranks / by;
    if (!is_by_layers) say_groups(q, o->ranks, by);
    return 0;
}

static int64_t replicas(const struct question *q) {
    struct config_value v = {0};
    (void)config_get(q->arena, &q->config, STR("parallelism.data_parallel_replicate_degree"), &v,
                     NULL);
    return v.integer > 1 ? v.integer : 1;
}

// Groups of ranks of which each has all of the weights; where the two degrees are not those of the
// GPUs, the trainer refuses them (distributed/parallel_dims.py, _validate), and what a group has is
// the smaller number.
void question_titan_groups(struct question *q) {
    struct plan *p = &q->plan;
    const struct config_guard *g = is_titan(q) ? guard_of(q, fsdp2) : NULL;
    const int64_t times = g ? replicas(q) : 1;
    int64_t said = 0;
    if (!g || !plan_is_titan(p->shard)) return;
    if (!str_to_i64(g->value, &said) || said < 1)
        said = p->ranks % times == 0 ? p->ranks / times : 0;
    if (said > 1 && said < p->ranks) p->shard_ranks = said;
}

// Over all GPUs, or over so many of them.
static bool is_over_all(const struct question *q, const struct config_guard *g) {
    int64_t said = 0;
    return !str_to_i64(g->value, &said) || said < 1 || said == q->plan.ranks;
}

bool question_titan_models(const struct question *q, const struct config_guard *g) {
    int64_t said = 0;
    if (str_is(g->what, split))
        return str_to_i64(g->value, &said) && said == q->plan.tensor_parallel;
    if (!str_is(g->what, fsdp2) || !plan_is_titan(q->plan.shard)) return false;
    return q->plan.shard_ranks > 0 ? q->plan.shard_ranks * replicas(q) == q->plan.ranks
                                   : is_over_all(q, g);
}
