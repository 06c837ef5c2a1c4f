// SPDX-License-Identifier: Apache-2.0
// The catalogue: reading data/gpus.tsv, and what follows from a GPU's facts by rule: usable
// memory, tier, precision, attention kernel.
#include "predict/gpu/gpu.h"

#include "base/data.h"
#include "base/field.h"
#include "base/os.h"
#include "base/unit.h"

#include <math.h>

// What the driver keeps of the total of nvidia-smi, where no reading of the GPU is at hand: a line
// through 17 GPUs whose cudaMemGetInfo total is published in out-of-memory messages (the rows with
// a usable_mib in data/gpus.tsv): 190 MiB + 0.9 % errs to the safe side for most of them. The large
// GPUs with HBM keep less than the line says (H100 551 MiB, NVML's "reserved" of an H200 614).
static int64_t reserve_by_rule(int64_t total_bytes) {
    int64_t reserve = 190 * UNIT_MIB + total_bytes / 1000 * 9;
    return reserve < 620 * UNIT_MIB ? reserve : 620 * UNIT_MIB;
}

static void set_usable(struct gpu *g, double usable_mib) {
    if (!isnan(usable_mib)) {
        g->usable_bytes = (int64_t)usable_mib * UNIT_MIB;
        return;
    }
    // Shared memory and other vendors: nothing is known about what the driver keeps.
    bool is_known_family = g->compute_capability && !g->is_unified;
    g->usable_bytes = g->total_bytes - (is_known_family ? reserve_by_rule(g->total_bytes) : 0);
    g->usable_source = is_known_family ? STR("total minus the driver's usual share")
                                       : STR("the total: the driver's share is unknown");
}

// A row of the table: a GPU, and figures that are not its own members.
struct card_row {
    struct gpu gpu;
    double capability, sms, gib, total_mib, usable_mib, pcie_gen;
};

// clang-format off
#define COLUMN(type_of, column, member, times) \
    {.field = {.name = (column), .type = (type_of), .offset = offsetof(struct card_row, member)}, .scale = (times)}
#define TEXT(column) COLUMN(FIELD_TEXT, #column, gpu.column, 0)
#define YES(column, member) COLUMN(FIELD_SWITCH, column, gpu.member, 0)
#define NUMBER(column, member, times) COLUMN(FIELD_REAL, column, member, times)
// clang-format on

static const struct card_column {
    struct field field;
    double scale; // of a number
} card_columns[] = {
    TEXT(name),
    TEXT(key),
    TEXT(aliases),
    TEXT(vendor),
    TEXT(market),
    TEXT(arch),
    TEXT(source),
    TEXT(note),
    TEXT(usable_source),
    YES("usual", is_usual),
    YES("total_verified", total_is_verified),
    YES("tensor_cores", has_tensor_cores),
    YES("bf16", has_bf16),
    YES("unified", is_unified),
    NUMBER("compute_capability", capability, 10),
    NUMBER("sms", sms, 1),
    NUMBER("mem_gib", gib, 1),
    NUMBER("total_mib", total_mib, 1),
    NUMBER("usable_mib", usable_mib, 1),
    NUMBER("bandwidth_gbs", gpu.bandwidth, 1e9),
    NUMBER("fp32_tflops", gpu.fp32, 1e12),
    NUMBER("tf32_tflops", gpu.tf32, 1e12),
    NUMBER("fp16_tflops", gpu.fp16, 1e12),
    NUMBER("bf16_tflops", gpu.bf16, 1e12),
    NUMBER("fp8_tflops", gpu.fp8, 1e12),
    NUMBER("fp16_fast_tflops", gpu.fp16_fast, 1e12),
    NUMBER("tdp_w", gpu.tdp_watts, 1),
    NUMBER("pcie_gen", pcie_gen, 1),
};
enum { CARD_COLUMNS = sizeof card_columns / sizeof *card_columns };

static int read_cell(const struct tsv *t, const struct card_column *c, struct str cell,
                     struct card_row *row, struct fail *why) {
    double number = (double)NAN;
    if (c->field.type == FIELD_TEXT) field_set_text(row, &c->field, cell);
    if (c->field.type == FIELD_SWITCH) field_set_whole(row, &c->field, str_is(cell, "yes"));
    if (c->field.type != FIELD_REAL) return 0;
    int rc = gpu_number(t, c->field.name, cell, &number, why);
    field_set_real(row, &c->field, number * c->scale);
    return rc;
}

static int whole_or_0(double number) {
    return isnan(number) ? 0 : (int)lround(number);
}

static int finish_card(const struct tsv *t, const struct card_row *row, struct gpu *g,
                       struct fail *why) {
    double total = isnan(row->total_mib) ? row->gib * 1024 : row->total_mib;
    *g = row->gpu;
    if (g->name.len == 0 || g->key.len == 0) {
        return fail_set(why, FAIL_INPUT, "%.*s:%d: a GPU needs a name and a key", STR_ARG(t->name),
                        t->line);
    }
    if (!(total > 0 && total < 1e9)) {
        return fail_set(why, FAIL_INPUT, "%.*s:%d: neither total_mib nor mem_gib is given",
                        STR_ARG(t->name), t->line);
    }
    g->compute_capability = whole_or_0(row->capability);
    g->sms = whole_or_0(row->sms);
    g->pcie_gen = whole_or_0(row->pcie_gen);
    g->nominal_gb = (int)lround(isnan(row->gib) ? total / 1024 : row->gib);
    g->total_bytes = (int64_t)total * UNIT_MIB;
    set_usable(g, row->usable_mib);
    return 0;
}

static int read_card(const struct tsv *t, const int *places, struct gpu *ret, struct fail *why) {
    struct card_row row = {0};
    for (int i = 0; i < CARD_COLUMNS; i++) {
        struct str cell = places[i] < 0 ? (struct str){0} : t->cells[places[i]];
        int rc = read_cell(t, &card_columns[i], cell, &row, why);
        if (rc < 0) return rc;
    }
    return finish_card(t, &row, ret, why);
}

static void set_figures_unknown(struct gpu *g) {
    g->bandwidth = g->tdp_watts = NAN;
    g->fp32 = g->tf32 = g->fp16 = g->bf16 = g->fp8 = g->fp16_fast = NAN;
}

static struct gpu *place_for(struct arena *a, struct gpu_catalogue *c, struct str key) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        if (str_equal_nocase(c->gpus[i].key, key)) return &c->gpus[i];
    }
    return arena_push(a, &c->gpus, &c->count, &c->capacity);
}

static int read_cards(struct arena *a, struct gpu_catalogue *c, struct tsv *t, struct fail *why) {
    enum { EXPECTED = 256 }; // GPUs; the table has some 150
    int r, places[CARD_COLUMNS];
    for (int i = 0; i < CARD_COLUMNS; i++) places[i] = tsv_column(t, card_columns[i].field.name);
    arena_expect(a, &c->gpus, &c->count, &c->capacity, EXPECTED);
    while ((r = tsv_next(t, why)) > 0) {
        struct gpu g;
        r = read_card(t, places, &g, why);
        if (r < 0) return r;
        *place_for(a, c, g.key) = g;
    }
    return r;
}

typedef int table_reader(struct arena *a, struct gpu_catalogue *c, struct tsv *t, struct fail *why);

static int read_text(struct arena *a, struct gpu_catalogue *c, struct str name, struct str text,
                     table_reader *read, struct fail *why) {
    struct tsv *t = arena_new(a, struct tsv, 1);
    int r = tsv_open(t, name, text, why);
    return r < 0 ? r : read(a, c, t, why);
}

// The user's additions: NAME.local.tsv beside the files that replace embedded ones.
static int read_local(struct arena *a, struct gpu_catalogue *c, const char *name,
                      table_reader *read, struct fail *why) {
    struct str path, text;
    if (!data_find_own(a, name, &path)) return 0;
    int r = os_read(a, path.p, 16 * UNIT_MIB, &text, NULL, why);
    return r < 0 ? r : read_text(a, c, path, text, read, why);
}

int gpu_load(struct arena *a, struct gpu_catalogue *ret_catalogue, struct fail *why) {
    static const struct {
        const char *name, *local;
        table_reader *read;
    } tables[] = {
        {"data/gpus.tsv", "gpus.local.tsv", read_cards},
        {"data/overheads.tsv", "overheads.local.tsv", gpu_read_overheads},
    };
    struct gpu_catalogue c = {0};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct str text;
        int r = data_find(a, tables[i].name, &text, why);
        if (r < 0) return r;
        r = read_text(a, &c, str_of(tables[i].name), text, tables[i].read, why);
        if (r < 0) return r;
        r = read_local(a, &c, tables[i].local, tables[i].read, why);
        if (r < 0) return r;
    }
    *ret_catalogue = c;
    return 0;
}

struct gpu gpu_custom(const struct gpu *like, int64_t memory_bytes) {
    struct gpu g = {
        .name = STR("custom GPU"),
        .key = STR("custom"),
        .vendor = STR("NVIDIA"),
        // What is not known is taken from what teams have most: tensor cores and bf16.
        .has_tensor_cores = true,
        .has_bf16 = true,
        .compute_capability = 80,
    };
    set_figures_unknown(&g);
    if (like) g = *like;
    g.total_bytes = g.usable_bytes = memory_bytes;
    g.nominal_gb = (int)((memory_bytes + UNIT_GIB / 2) / UNIT_GIB);
    g.usable_source = STR("given by the user");
    g.is_custom = !like;
    return g;
}

// Half-precision tensor rate counts an eighth of fp32 rate: that is V100's ratio (125 to 15.7), the
// first GPU with both. So a GPU is as fast as its better half.
static double speed(const struct gpu *g) {
    double half = isnan(g->fp16) ? g->bf16 : g->fp16;
    return fmax(g->fp32, half / 8); // fmax passes over a NaN
}

// The tiers of the team's guide: high_end RTX 4090, 4080, 3090, A100, V100; mid_range RTX 3080,
// 3070, 4070; budget RTX 3060, 2070, 2080; low_end GTX 1660, GTX 1080 and older. The rule gives all
// of them:
//   high_end   16 GB and more, 650 GB/s and more, 13 TFLOPS and more
//   mid_range   8 GB and more, 13 TFLOPS and more
//   budget      8 GB and more, tensor cores
//   low_end    the rest
// Limits lie between the named GPUs: 3060 has 12.7 TFLOPS and V100 15.7; 3080 has 10 GB and 4080
// 16 GB. "16 GB" is 15 GiB and "8 GB" 7 GiB of nvidia-smi's total (T4 15360 MiB, P4 7611 MiB).
// A GPU of which only the memory is known is judged by that.
enum gpu_tier gpu_tier(const struct gpu *g) {
    double rate = speed(g), gib = (double)g->total_bytes / (double)UNIT_GIB;
    bool is_fast = isnan(rate) || rate >= 13e12;
    bool is_wide = isnan(g->bandwidth) || g->bandwidth >= 650e9;
    if (gib >= 15 && is_wide && is_fast) return GPU_HIGH_END;
    if (gib >= 7 && is_fast) return GPU_MID_RANGE;
    if (gib >= 7 && g->has_tensor_cores) return GPU_BUDGET;
    return GPU_LOW_END;
}

const char *gpu_tier_name(enum gpu_tier tier) {
    static const char *const names[GPU_TIERS] = {"low_end", "budget", "mid_range", "high_end"};
    return names[tier];
}

double gpu_tier_margin(enum gpu_tier tier) {
    // The team's guide: 20 % on high-end and mid-range GPUs, 15 % on budget, 10 % on old ones.
    static const double margins[GPU_TIERS] = {0.10, 0.15, 0.20, 0.20};
    return margins[tier];
}
