// SPDX-License-Identifier: Apache-2.0
// What a training process holds on the GPU outside of PyTorch's allocator: data/overheads.tsv says
// how much and where each figure comes from; here only which row matches. cuBLAS work spaces are
// not here: from PyTorch 2.0 on they come from the allocator and stand in the tape.
#include "predict/gpu/gpu.h"

#include "base/unit.h"

#include <math.h>

int gpu_number(const struct tsv *t, const char *column, struct str cell, double *ret,
               struct fail *why) {
    double value;
    if (cell.len == 0) return 0;
    if (str_to_double(cell, &value) && value >= 0 && value < 1e9) {
        *ret = value;
        return 0;
    }
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s is \"%.*s\", not a number from 0 to 1e9",
                    STR_ARG(t->name), t->line, column, STR_ARG(cell));
}

static int read_loading(const struct tsv *t, enum gpu_loading *ret, struct fail *why) {
    struct str cell = tsv_cell(t, "loading");
    *ret = str_is(cell, "lazy")    ? GPU_LOADING_LAZY
           : str_is(cell, "eager") ? GPU_LOADING_EAGER
                                   : GPU_LOADING_BY_VERSION;
    if (*ret != GPU_LOADING_BY_VERSION || cell.len == 0) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: loading is \"%.*s\", neither lazy nor eager",
                    STR_ARG(t->name), t->line, STR_ARG(cell));
}

static int read_row(const struct tsv *t, struct gpu_overhead_row *row, struct fail *why) {
    double bounds[4] = {0};
    struct {
        const char *column;
        double *value;
    } numbers[] = {
        {"cc_min", &bounds[0]},
        {"cc_max", &bounds[1]},
        {"cuda_min", &bounds[2]},
        {"cuda_max", &bounds[3]},
        {"mib", &row->mib},
        {"mib_per_sm", &row->mib_per_sm},
        {"minus_mib", &row->minus_mib},
        {"plus_mib", &row->plus_mib},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *column = numbers[i].column;
        int r = gpu_number(t, column, tsv_cell(t, column), numbers[i].value, why);
        if (r < 0) return r;
    }
    row->cc_min = (int)bounds[0], row->cc_max = (int)bounds[1];
    row->cuda_min = (int)bounds[2], row->cuda_max = (int)bounds[3];
    return read_loading(t, &row->loading, why);
}

int gpu_read_overheads(struct arena *a, struct gpu_catalogue *c, struct tsv *t, struct fail *why) {
    int r;
    while ((r = tsv_next(t, why)) > 0) {
        struct gpu_overhead_row row = {
            .what = tsv_cell(t, "what"),
            .vendor = tsv_cell(t, "vendor"),
            .gpu = tsv_cell(t, "gpu"),
            .from = tsv_cell(t, "from"),
        };
        r = read_row(t, &row, why);
        if (r < 0) return r;
        *arena_push(a, &c->overheads, &c->overhead_count, &c->overhead_capacity) = row;
    }
    return r;
}

// The CUDA that a PyTorch brings where nobody says which: up to 1.12 the newest that pytorch.org
// offered ("previous versions"; PyPI's had 10.2), from 1.13 on that of PyPI's wheels, as they
// require it (nvidia-cuda-runtime-cu12, cuda-toolkit). Each line holds up to and including that
// PyTorch; one that is newer than all is not known, and has at least the last.
static int cuda_of_torch(int torch) {
    static const struct {
        int torch, cuda;
    } wheels[] = {{106, 1002}, {107, 1100}, {109, 1101}, {112, 1103}, {200, 1107},
                  {204, 1201}, {206, 1204}, {207, 1206}, {210, 1208}, {213, 1300}};
    size_t i = 0;
    while (torch > wheels[i].torch && i + 1 < sizeof wheels / sizeof *wheels) i++;
    return wheels[i].cuda;
}

// Versions with the unknown filled in, and how kernels are loaded: torch/cuda/__init__.py asks for
// lazy loading from 1.13 on, and CUDA has it from 11.7 on.
static struct gpu_software complete(const struct gpu_software *given) {
    struct gpu_software s = *given;
    if (!s.torch && !s.cuda) s.torch = 205, s.cuda = 1204;
    if (!s.cuda) s.cuda = cuda_of_torch(s.torch);
    if (s.loading == GPU_LOADING_BY_VERSION) {
        bool is_lazy = s.cuda >= 1107 && (!s.torch || s.torch >= 113);
        s.loading = is_lazy ? GPU_LOADING_LAZY : GPU_LOADING_EAGER;
    }
    return s;
}

// How closely a row fits: -1 not at all, else the more the better.
static int closeness(const struct gpu_overhead_row *row, struct str what, const struct gpu *g,
                     const struct gpu_software *s) {
    int cc = g ? g->compute_capability : 0;
    struct str vendor = g && g->vendor.len ? g->vendor : STR("NVIDIA");
    if (!str_equal(row->what, what)) return -1;
    if (s->not_from.len && str_has_name(row->from, s->not_from)) return -1;
    if (row->vendor.len && !str_equal(row->vendor, vendor)) return -1;
    if (row->gpu.len && !(g && str_equal(row->gpu, g->key))) return -1;
    if ((row->cc_min || row->cc_max) && !tsv_within(cc, row->cc_min, row->cc_max)) return -1;
    if (!tsv_within(s->cuda, row->cuda_min, row->cuda_max)) return -1;
    if (row->loading != GPU_LOADING_BY_VERSION && row->loading != s->loading) return -1;
    return 4 * (row->gpu.len > 0) + 2 * (row->cc_min || row->cc_max) + (row->vendor.len > 0);
}

static const struct gpu_overhead_row *best_row(const struct gpu_catalogue *c, struct str what,
                                               const struct gpu *g, const struct gpu_software *s) {
    const struct gpu_overhead_row *best = NULL;
    int best_closeness = -1;
    for (ptrdiff_t i = 0; i < c->overhead_count; i++) {
        int how = closeness(&c->overheads[i], what, g, s);
        if (how > best_closeness) best = &c->overheads[i], best_closeness = how;
    }
    return best;
}

static int64_t bytes_of_mib(double mib) {
    return mib > 0 ? (int64_t)llround(mib * (double)UNIT_MIB) : 0;
}

static void add_part(struct gpu_overhead *o, const struct gpu_overhead_row *row,
                     const struct gpu *g) {
    // Without a count of SMs: 80 stands for the middle of the GPUs of the table (40 to 170), and
    // the band takes in both ends.
    bool is_known = g && g->sms > 0;
    double slope = row->mib_per_sm, extra = is_known ? 0 : slope * 45;
    double mib = row->mib + slope * (is_known ? g->sms : 80);
    struct gpu_overhead_part part = {
        .what = row->what,
        .bytes = bytes_of_mib(mib),
        .low_bytes = bytes_of_mib(mib - row->minus_mib - extra),
        .high_bytes = bytes_of_mib(mib + row->plus_mib + 2 * extra),
        .from = row->from,
    };
    o->bytes += part.bytes;
    o->low_bytes += part.low_bytes;
    o->high_bytes += part.high_bytes;
    o->parts[o->part_count++] = part;
}

static struct str one_line(struct arena *a, const struct gpu_overhead *o) {
    struct buf b = buf_new(a);
    for (int i = 0; i < o->part_count; i++) {
        const struct gpu_overhead_part *part = &o->parts[i];
        buf_format(&b, "%s%.*s %lld MiB (%.*s)", i ? ", " : "", STR_ARG(part->what),
                   (long long)(part->bytes / UNIT_MIB), STR_ARG(part->from));
    }
    return buf_str(&b);
}

void gpu_overhead(struct arena *a, const struct gpu_catalogue *c, const struct gpu *g,
                  const struct gpu_software *software, struct gpu_overhead *ret_overhead) {
    struct gpu_software s = complete(software);
    const struct {
        struct str what;
        bool is_wanted;
    } wanted[] = {
        {STR("context"), true},          {STR("cudnn"), s.uses_cudnn}, {STR("nccl"), s.uses_nccl},
        {STR("display"), s.has_display}, {STR("wsl"), s.is_wsl},
    };
    struct gpu_overhead o = {0};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!wanted[i].is_wanted) continue;
        const struct gpu_overhead_row *row = best_row(c, wanted[i].what, g, &s);
        if (row) add_part(&o, row, g);
    }
    o.source = one_line(a, &o);
    *ret_overhead = o;
}

static int digits(struct str s, ptrdiff_t *at, int at_most) {
    int value = 0;
    for (int n = 0; n < at_most && *at < s.len && s.p[*at] >= '0' && s.p[*at] <= '9'; n++) {
        value = value * 10 + s.p[(*at)++] - '0';
    }
    return value;
}

// "12.1" at the front of the text, or the "113" of cu113: 100 * major + minor. 0: neither.
static int version_number(struct str s) {
    ptrdiff_t at = 0;
    int major = digits(s, &at, 3);
    if (at < s.len && s.p[at] >= '0' && s.p[at] <= '9') return 0;
    if (at < s.len && s.p[at] == '.') {
        at++;
        return major * 100 + digits(s, &at, 2);
    }
    return major < 20 ? major * 100 : major / 10 * 100 + major % 10;
}

bool gpu_software_parse(struct str version, struct gpu_software *ret_software) {
    struct str rest = str_trim(version);
    ptrdiff_t cu = str_find(rest, STR("cu"));
    int torch = version_number(cu >= 0 ? str_slice(rest, 0, cu) : rest), cuda = 0;
    if (cu >= 0) {
        struct str tail = str_slice(rest, cu + 2, rest.len);
        if (str_starts(tail, STR("da"))) tail = str_trim(str_slice(tail, 2, tail.len));
        cuda = version_number(tail);
    }
    if (torch) ret_software->torch = torch;
    if (cuda) ret_software->cuda = cuda;
    return torch || cuda;
}
