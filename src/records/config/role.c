// SPDX-License-Identifier: Apache-2.0
// What the roles are called, and what kind of value each has.
#include "records/config/dialect_int.h"

static const struct {
    const char *name;
    enum role_sort sort;
} roles[CONFIG_ROLES] = {
    [CONFIG_MODEL] = {"model", SORT_TEXT},
    [CONFIG_IMAGE_SIZE] = {"image_size", SORT_SIZE},
    [CONFIG_SEQUENCE_LENGTH] = {"sequence_length", SORT_SIZE},
    [CONFIG_TARGET_LENGTH] = {"target_length", SORT_SIZE},
    [CONFIG_BATCH] = {"batch", SORT_COUNT},
    [CONFIG_ACCUMULATION] = {"accumulation", SORT_COUNT},
    [CONFIG_EFFECTIVE] = {"effective", SORT_COUNT},
    [CONFIG_PRECISION] = {"precision", SORT_PRECISION},
    [CONFIG_OPTIMIZER] = {"optimizer", SORT_TEXT},
    [CONFIG_LR] = {"lr", SORT_NUMBER},
    [CONFIG_CHECKPOINTING] = {"checkpointing", SORT_BOOL},
    [CONFIG_WORKERS] = {"workers", SORT_WORKERS},
    [CONFIG_CLASSES] = {"classes", SORT_SIZE},
    [CONFIG_EVAL_BATCH] = {"eval_batch", SORT_COUNT},
    [CONFIG_EMA] = {"ema", SORT_BOOL},
    [CONFIG_CHANNELS_LAST] = {"channels_last", SORT_BOOL},
    [CONFIG_RANKS] = {"ranks", SORT_SIZE},
    [CONFIG_COMPILE] = {"compile", SORT_BOOL},
    [CONFIG_WEIGHTS_DTYPE] = {"weights_dtype", SORT_TEXT},
    [CONFIG_LORA_RANK] = {"lora_rank", SORT_SIZE},
    [CONFIG_LORA_TARGETS] = {"lora_targets", SORT_LIST},
    [CONFIG_LORA_DROPOUT] = {"lora_dropout", SORT_NUMBER},
    [CONFIG_LORA_FOLLOWS] = {"lora_follows", SORT_BOOL},
    [CONFIG_DOUBLE_QUANT] = {"double_quant", SORT_BOOL},
    [CONFIG_LOSS] = {"loss", SORT_TEXT},
    [CONFIG_PREFERENCE] = {"preference", SORT_LIST},
    [CONFIG_PRECOMPUTED] = {"precomputed", SORT_BOOL},
    [CONFIG_CPO_ALPHA] = {"cpo_alpha", SORT_NUMBER},
    [CONFIG_BETA] = {"beta", SORT_NUMBER},
    [CONFIG_COMPLETION] = {"completion", SORT_SIZE},
    [CONFIG_GENERATION_GROUP] = {"generation_group", SORT_SIZE},
    [CONFIG_GENERATION_STEPS] = {"generation_steps", SORT_SIZE},
    [CONFIG_GENERATION_BATCH] = {"generation_batch", SORT_SIZE},
    [CONFIG_ENGINE] = {"engine", SORT_BOOL},
    [CONFIG_ENGINE_MODE] = {"engine_mode", SORT_TEXT},
    [CONFIG_ENGINE_SHARE] = {"engine_share", SORT_NUMBER},
    [CONFIG_ENGINE_SLEEPS] = {"engine_sleeps", SORT_BOOL},
    [CONFIG_ZERO_BUCKET] = {"zero_bucket", SORT_NUMBER},
    [CONFIG_ZERO_OVERLAP] = {"zero_overlap", SORT_BOOL},
    [CONFIG_ZERO_PREFETCH] = {"zero_prefetch", SORT_NUMBER},
    [CONFIG_ZERO_PERSIST] = {"zero_persist", SORT_NUMBER},
    [CONFIG_ZERO_LIVE] = {"zero_live", SORT_NUMBER},
    [CONFIG_ZERO_REUSE] = {"zero_reuse", SORT_NUMBER},
    [CONFIG_ZERO_GROUP] = {"zero_group", SORT_NUMBER},
    [CONFIG_ZERO_OPTIMIZER_BUFFERS] = {"zero_optimizer_buffers", SORT_NUMBER},
    [CONFIG_ZERO_PARAM_BUFFERS] = {"zero_param_buffers", SORT_NUMBER},
    [CONFIG_ZERO_PARAM_BUFFER] = {"zero_param_buffer", SORT_NUMBER},
    [CONFIG_ZERO_PARAM_MOST] = {"zero_param_most", SORT_NUMBER},
    [CONFIG_ZERO_OPTIMIZER] = {"zero_optimizer", SORT_TEXT},
    [CONFIG_ZERO_PARAM] = {"zero_param", SORT_TEXT},
    [CONFIG_ZERO_PINNED] = {"zero_pinned", SORT_BOOL},
};

const char *config_role_name(enum config_role role) {
    return roles[role].name;
}

enum config_role config_role_find(struct str name) {
    int i = 0;
    while (i < CONFIG_ROLES && !str_is(name, roles[i].name)) i++;
    return (enum config_role)i;
}

enum role_sort config_role_sort(enum config_role role) {
    return roles[role].sort;
}

bool config_role_is_told(enum config_role role) {
    static const char *const inner[] = {"zero_", "engine",     "generation",  "preference", "cpo_",
                                        "beta",  "completion", "precomputed", NULL};
    return !str_starts_one_of(str_of(config_role_name(role)), inner);
}
