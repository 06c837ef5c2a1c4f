// SPDX-License-Identifier: Apache-2.0
// Words of the recorder: an adapter in one text, four bits.
#include "predict/plan/plan.h"

const char *const plan_quants[] = {"nf4", "nf4-dq", "nf4-left", "nf4-dq-left", "nf4-torchao", NULL};

// The linear layers of a Llama, of a Phi-3, where several are one matrix, and of other families:
// names are put in their order.
static const char *const llama_layers[] = {"q_proj",    "k_proj",  "v_proj",    "o_proj",
                                           "gate_proj", "up_proj", "down_proj", NULL};
static const char *const fused_layers[] = {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", NULL};
static const char *const gpt2_layers[] = {"c_attn", "c_proj", "c_fc", NULL};
static const char *const neox_layers[] = {"query_key_value", "dense", "dense_h_to_4h",
                                          "dense_4h_to_h", NULL};
static const char *const phi_layers[] = {"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2", NULL};
static const char *const starcoder_layers[] = {"q_proj", "k_proj", "v_proj", "o_proj",
                                               "c_fc",   "c_proj", NULL};
static const char *const mixtral_layers[] = {"q_proj", "k_proj", "v_proj", "o_proj",
                                             "w1",     "w2",     "w3",     NULL};
static const char *const t5_layers[] = {"q", "k", "v", "o", "wi", "wi_0", "wi_1", "wo", NULL};

// The names in the order in which a layer has them, if all are of one kind of layer.
static struct str in_order(struct arena *a, struct str names) {
    static const char *const *const kinds[] = {llama_layers,     fused_layers, gpt2_layers,
                                               neox_layers,      phi_layers,   mixtral_layers,
                                               starcoder_layers, t5_layers};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct buf text = buf_new(a);
        int found = 0;
        for (int i = 0; kinds[k][i]; i++)
            if (str_has_name(names, str_of(kinds[k][i])))
                buf_format(&text, "%s%s", found++ > 0 ? "," : "", kinds[k][i]);
        if (found == str_count_names(names)) return buf_str(&text);
    }
    return names;
}

static bool is_every(struct str targets) {
    static const char *const words[] = {"all", "all-linear", NULL};
    return targets.len == 0 || str_is_one_of(targets, words);
}

struct str plan_adapter_more(bool has_dropout, bool is_bf16) {
    if (!has_dropout) return is_bf16 ? STR("bf16") : (struct str){0};
    return is_bf16 ? STR("dropout:bf16") : STR("dropout");
}

static bool is_more(struct str more) {
    static const char *const words[] = {"dropout", "bf16", "dropout:bf16", NULL};
    return more.len == 0 || str_is_one_of(more, words);
}

struct str plan_adapter(struct arena *a, int64_t rank, struct str targets, struct str more) {
    struct buf text = buf_new(a), names = buf_new(a);
    if (rank < 1 || !is_more(more)) return (struct str){0};
    if (targets.len == 0) targets = (struct str){0}; // no name, not an empty one
    for (struct str rest = targets; rest.p;) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (!str_is_made_of(name, "-_.")) return (struct str){0};
        buf_join(&names, ",", name);
    }
    struct str ordered = in_order(a, buf_str(&names));
    bool is_all = is_every(ordered);
    buf_format(&text, "lora:%lld", (long long)rank);
    if (!is_all) buf_format(&text, ":%.*s", STR_ARG(ordered));
    if (more.len > 0) buf_format(&text, "%s:%.*s", is_all ? ":all-linear" : "", STR_ARG(more));
    return buf_str(&text);
}

struct str plan_adapter_short(struct arena *a, struct str adapter, struct str layers) {
    struct str rest = plan_adapter_rest(adapter), targets = str_cut(&rest, ':');
    if (layers.len == 0) layers = STR("q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj");
    if (!str_equal(targets, layers)) return adapter;
    return plan_adapter(a, plan_adapter_rank(adapter), (struct str){0}, rest);
}

int64_t plan_adapter_rank(struct str adapter) {
    struct str kind = str_cut(&adapter, ':');
    int64_t rank = 0;
    return str_is(kind, "lora") && str_to_i64(str_cut(&adapter, ':'), &rank) ? rank : 0;
}

struct str plan_adapter_rest(struct str adapter) {
    str_cut(&adapter, ':');
    str_cut(&adapter, ':');
    return adapter;
}

bool plan_adapter_has_dropout(struct str adapter) {
    struct str rest = plan_adapter_rest(adapter);
    str_cut(&rest, ':');
    return str_starts(rest, STR("dropout"));
}

bool plan_adapter_is_bf16(struct str adapter) {
    struct str rest = plan_adapter_rest(adapter);
    str_cut(&rest, ':');
    return str_ends(rest, STR("bf16"));
}

struct str plan_adapter_targets(struct str adapter) {
    struct str rest = plan_adapter_rest(adapter), targets = str_cut(&rest, ':');
    return str_is(targets, "all-linear") ? (struct str){0} : targets;
}

const char *plan_training_name(struct str adapter, struct str quant) {
    return adapter.len == 0 ? "full fine-tuning" : quant.len > 0 ? "QLoRA" : "LoRA";
}

bool plan_quant_is_left(struct str quant) {
    return str_ends(quant, STR("-left"));
}

// Double quantisation stores the same weights with smaller scales.
int plan_quant_excess(struct str has, struct str wanted) {
    struct str bits = has, asked = wanted;
    bool is_left = plan_quant_is_left(wanted), has_left = plan_quant_is_left(has);
    if (has_left) bits.len -= STR("-left").len;
    if (is_left) asked.len -= STR("-left").len;
    bool is_double = str_is(bits, "nf4") && str_is(asked, "nf4-dq");
    if ((!is_double && !str_equal(bits, asked)) || (has_left && !is_left)) return -1;
    return is_double + 8 * (is_left && !has_left);
}

bool plan_is_wide(const struct plan *p) {
    bool is_amp = plan_precision_is_amp(p->precision);
    return p->frozen_fp32 && is_amp && p->adapter.len > 0 && p->quant.len == 0 && p->shard.len == 0;
}
