// SPDX-License-Identifier: Apache-2.0
// Reading data/speed.tsv. A row that lacks a constant, or has one that no GPU could have, is
// refused with its line and column: a wrong constant would go unnoticed otherwise.
#include "predict/speed/speed.h"
#include "predict/speed/speed_int.h"

static const char *const columns[SPEED_CONSTANTS] = {
    [SPEED_F_MM] = "f_mm",
    [SPEED_F_BMM] = "f_bmm",
    [SPEED_F_WGRAD] = "f_wgrad",
    [SPEED_F_WGRAD_NHWC] = "f_wgrad_nhwc",
    [SPEED_F_CONV] = "f_conv",
    [SPEED_F_CONV_NHWC] = "f_conv_nhwc",
    [SPEED_F_GROUP] = "f_group",
    [SPEED_F_GROUP_NHWC] = "f_group_nhwc",
    [SPEED_F_GROUP_FEW] = "f_group_few",
    [SPEED_B_ELEM] = "b_elem",
    [SPEED_B_NONCONTIG] = "b_noncontig",
    [SPEED_B_NORM] = "b_norm",
    [SPEED_B_REDUCE] = "b_reduce",
    [SPEED_B_BN] = "b_bn",
    [SPEED_B_BN_NHWC] = "b_bn_nhwc",
    [SPEED_L_MM] = "l_mm",
    [SPEED_L_BMM] = "l_bmm",
    [SPEED_B_HEAVY] = "b_heavy",
    [SPEED_L_CONV] = "l_conv",
    [SPEED_L_CONV_NHWC] = "l_conv_nhwc",
    [SPEED_L_WGRAD] = "l_wgrad",
    [SPEED_L_WGRAD_NHWC] = "l_wgrad_nhwc",
    [SPEED_L_DEPTHWISE] = "l_depthwise",
    [SPEED_L_DEPTHWISE_NHWC] = "l_depthwise_nhwc",
    [SPEED_DEPTHWISE_WGRAD] = "depthwise_wgrad",
    [SPEED_KNEE_CHANNELS] = "knee_channels",
    [SPEED_KNEE_GROUP] = "knee_group",
    [SPEED_KNEE_GROUP_NHWC] = "knee_group_nhwc",
    [SPEED_ODD_CHANNELS] = "odd_channels",
    [SPEED_LAUNCH_US] = "launch_us",
};

// A cell that must be a number between the two.
static int read_number(const struct tsv *t, const char *column, double low, double high,
                       double *ret, struct fail *why) {
    struct str cell = tsv_cell(t, column);
    if (str_to_double(cell, ret) && *ret >= low && *ret <= high) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s is \"%.*s\", not a number from %g to %g",
                    STR_ARG(t->name), t->line, column, STR_ARG(cell), low, high);
}

static int read_bound(const struct tsv *t, const char *column, int *ret, struct fail *why) {
    double value = 0;
    if (tsv_cell(t, column).len == 0) return 0;
    int rc = read_number(t, column, 0, 10000, &value, why);
    *ret = (int)value;
    return rc;
}

static int read_mode(const struct tsv *t, struct str *ret, struct fail *why) {
    *ret = tsv_cell(t, "mode");
    if (str_is(*ret, "train") || str_is(*ret, "inference")) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: mode is \"%.*s\", neither train nor inference",
                    STR_ARG(t->name), t->line, STR_ARG(*ret));
}

// Name, GPUs, bounds and ranges of a row, but for its constants, its mode and what is doubtful.
static int read_row(const struct tsv *t, struct speed_row *row, struct fail *why) {
    *row = (struct speed_row){.name = tsv_cell(t, "name"),
                              .cards = tsv_cell(t, "cards"),
                              .from = tsv_cell(t, "from"),
                              .note = tsv_cell(t, "note")};
    int rc = read_bound(t, "cc_min", &row->cc_min, why);
    if (rc == 0) rc = read_bound(t, "cc_max", &row->cc_max, why);
    if (rc == 0) rc = read_number(t, "range", 1, 100, &row->range, why);
    if (rc == 0) rc = read_number(t, "range_other", 1, 100, &row->range_other, why);
    if (rc == 0) rc = read_number(t, "range_measured", 1, 100, &row->range_measured, why);
    return rc < 0 ? rc : read_number(t, "host_us", 0, 10000, &row->host_us, why);
}

static int read_kernels(const struct tsv *t, struct speed_row *row, struct fail *why) {
    struct str mode;
    int rc = read_mode(t, &mode, why);
    if (rc == 0) rc = read_row(t, row, why);
    row->mode = mode;
    if (rc == 0) rc = read_bound(t, "torch_min", &row->torch_min, why);
    if (rc == 0) rc = read_bound(t, "torch_max", &row->torch_max, why);
    if (rc == 0) rc = read_number(t, "range_doubtful", 1, 100, &row->range_doubtful, why);
    for (int i = 0; rc == 0 && i < SPEED_CONSTANTS; i++) {
        rc = read_number(t, columns[i], 0.001, 10000, &row->constants[i], why);
    }
    return rc;
}

int speed_load(struct arena *a, struct speed_table *ret, struct fail *why) {
    struct tsv t;
    int rc = tsv_find(a, "data/speed.tsv", &t, why);
    *ret = (struct speed_table){0};
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        struct speed_row row;
        rc = read_kernels(&t, &row, why);
        if (rc < 0) return rc;
        *arena_push(a, &ret->rows, &ret->count, &ret->capacity) = row;
    }
    return rc;
}

static const char *const tokens_columns[SPEED_TOKENS_CONSTANTS] = {
    [SPEED_TOKENS_LINEAR] = "f_linear",   [SPEED_TOKENS_ATTENTION] = "f_attention",
    [SPEED_TOKENS_KNEE] = "knee",         [SPEED_TOKENS_MOVED] = "b_moved",
    [SPEED_TOKENS_LAYER_MS] = "layer_ms",
};

int speed_tokens_load(struct arena *a, struct speed_tokens_table *ret, struct fail *why) {
    struct tsv t;
    *ret = (struct speed_tokens_table){0};
    int rc = speed_links_load(a, &ret->links, why);
    if (rc == 0) rc = tsv_find(a, "data/tokens.tsv", &t, why);
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        struct speed_tokens_row row;
        rc = read_row(&t, &row.row, why);
        for (int i = 0; rc == 0 && i < SPEED_TOKENS_CONSTANTS; i++)
            rc = read_number(&t, tokens_columns[i], 0, 10000, &row.constants[i], why);
        if (rc < 0) return rc;
        row.row.range_doubtful = row.row.range_other;
        *arena_push(a, &ret->rows, &ret->count, &ret->capacity) = row;
    }
    return rc;
}
