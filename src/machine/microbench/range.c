// SPDX-License-Identifier: Apache-2.0
// What a figure should be: data/rates.tsv, and what its shares are shares of.
#include "base/data.h"
#include "machine/microbench/microbench_int.h"
#include "predict/gpu/gpu.h"

#include <math.h>

struct rate_row {
    struct str id, card, of, source;
    double low, high, floor;
};

static int read_number(const struct tsv *t, const char *column, double *ret, struct fail *why) {
    struct str cell = tsv_cell(t, column);
    *ret = (double)NAN;
    if (cell.len == 0 || (str_to_double(cell, ret) && *ret >= 0)) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s: not a number of at least 0: %.*s",
                    STR_ARG(t->name), t->line, column, STR_ARG(cell));
}

static int read_row(const struct tsv *t, struct rate_row *row, struct fail *why) {
    *row = (struct rate_row){.id = tsv_cell(t, "id"),
                             .card = tsv_cell(t, "card"),
                             .of = tsv_cell(t, "of"),
                             .source = tsv_cell(t, "source")};
    int rc = read_number(t, "low", &row->low, why);
    if (rc == 0) rc = read_number(t, "high", &row->high, why);
    if (rc == 0) rc = read_number(t, "floor", &row->floor, why);
    return rc;
}

int microbench_table_load(struct arena *a, struct microbench_table *ret_table, struct fail *why) {
    struct str text;
    struct tsv t;
    int rc = data_find(a, "data/rates.tsv", &text, why);
    *ret_table = (struct microbench_table){0};
    if (rc == 0) rc = tsv_open(&t, STR("rates.tsv"), text, why);
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        struct rate_row row;
        if (read_row(&t, &row, why) < 0) return FAIL_INPUT;
        *arena_push(a, &ret_table->rows, &ret_table->count, &ret_table->capacity) = row;
    }
    return rc;
}

static const struct rate_row *find_row(const struct microbench_table *table, struct str id,
                                       struct str card) {
    for (ptrdiff_t i = 0; i < table->count; i++) {
        const struct rate_row *row = &table->rows[i];
        if (str_equal(row->id, id) && str_equal(row->card, card)) return row;
    }
    return NULL;
}

// --- What the shares are of ----------------------------------------------------------------------

// In the unit of the measurement; NaN: not known, and range->why_none says why.
struct asked {
    struct arena *arena;
    const struct microbench_table *table;
    const struct microbench_subject *subject;
};

static double none(struct microbench_range *range, struct str why) {
    range->why_none = why;
    return (double)NAN;
}

static double link_peak(const struct asked *q, struct microbench_range *range) {
    const struct microbench_subject *s = q->subject;
    if (s->is_unified) return none(range, STR("GPU and CPU share memory: no link"));
    if (s->pcie_generation <= 0 || s->pcie_width <= 0) {
        return none(range, STR("the driver does not report what the link supports"));
    }
    struct str id = str_format(q->arena, "pcie.%d", s->pcie_generation);
    const struct rate_row *lane = find_row(q->table, id, (struct str){0});
    if (!lane) return none(range, STR("PCIe generation missing from rates.tsv"));
    double peak = lane->high * 1e9 * s->pcie_width;
    range->of = str_format(q->arena, "PCIe %d.0 x%d, %.*s", s->pcie_generation, s->pcie_width,
                           STR_ARG(microbench_text(q->arena, MICROBENCH_BYTES_S, peak)));
    return peak;
}

static double card_peak(const struct asked *q, struct microbench_range *range,
                        enum microbench_unit unit, size_t offset) {
    const struct microbench_subject *s = q->subject;
    if (!s->gpu) return none(range, STR("the GPU is not in the catalogue"));
    if (s->is_mig) return none(range, STR("an instance has only a part of its GPU: no reference"));
    // Without tensor cores the library multiplies fp16 in fp32, as it adds up in fp32.
    bool is_plain = offset == offsetof(struct gpu, fp16) && !s->gpu->has_tensor_cores;
    if (is_plain) offset = offsetof(struct gpu, fp32);
    double value = *(const double *)(const void *)((const char *)s->gpu + offset);
    if (isnan(value)) return none(range, STR("the catalogue has no such figure for this GPU"));
    range->of = str_format(q->arena, "%.*s, %.*s", STR_ARG(s->gpu->name),
                           STR_ARG(microbench_text(q->arena, unit, value)));
    return value;
}

static double plain_peak(const struct asked *q, struct microbench_range *range) {
    (void)q;
    range->of = STR("any machine: the number of memory channels is unknown");
    return 1e9;
}
static double core_peak(const struct asked *q, struct microbench_range *range) {
    int cores = q->subject->cores;
    if (cores <= 0) return none(range, STR("the number of cores is unknown"));
    range->of = str_format(q->arena, "any %d core%s", cores, cores == 1 ? "" : "s");
    return 1e9 * cores;
}

static const struct {
    const char *of;
    double (*peak)(const struct asked *q, struct microbench_range *range);
    enum microbench_unit unit; // without a function: of a figure of the catalogue
    size_t offset;
} peaks[] = {
    {"link", link_peak},
    {"GB/s", plain_peak},
    {"GFLOP/s a core", core_peak},
    {"memory", NULL, MICROBENCH_BYTES_S, offsetof(struct gpu, bandwidth)},
    {"fp32", NULL, MICROBENCH_FLOP_S, offsetof(struct gpu, fp32)},
    {"tf32", NULL, MICROBENCH_FLOP_S, offsetof(struct gpu, tf32)},
    {"fp16", NULL, MICROBENCH_FLOP_S, offsetof(struct gpu, fp16)},
    {"bf16", NULL, MICROBENCH_FLOP_S, offsetof(struct gpu, bf16)},
};

void microbench_range_find(struct arena *a, const struct microbench_table *table,
                           const struct microbench_measure *measure,
                           const struct microbench_subject *subject,
                           struct microbench_range *ret_range) {
    struct asked q = {a, table, subject};
    struct microbench_range range = {0};
    struct str id = str_of(measure->id);
    const struct rate_row *row = subject->gpu ? find_row(table, id, subject->gpu->key) : NULL;
    double peak = (double)NAN;
    if (!row) row = find_row(table, id, (struct str){0});
    if (!row) range.why_none = STR("rates.tsv has no range for it");
    for (size_t i = 0; row && i < sizeof peaks / sizeof *peaks; i++) {
        if (!str_is(row->of, peaks[i].of)) continue;
        peak = peaks[i].peak ? peaks[i].peak(&q, &range)
                             : card_peak(&q, &range, peaks[i].unit, peaks[i].offset);
    }
    range.low = row ? row->low * peak : (double)NAN;
    range.high = row ? row->high * peak : (double)NAN;
    range.floor = row ? row->floor * peak : (double)NAN;
    range.source = row ? row->source : (struct str){0};
    *ret_range = range;
}
