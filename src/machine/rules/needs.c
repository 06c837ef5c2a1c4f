// SPDX-License-Identifier: Apache-2.0
#include "machine/rules/rules.h"

#include "base/data.h"

int64_t rules_driver_number(struct str version) {
    int64_t number = 0;
    for (int i = 0; i < 3; i++) {
        struct str part = str_cut(&version, '.');
        int64_t value = 0;
        if (part.len > 0 && (!str_to_i64(part, &value) || value < 0 || value > 9999)) return 0;
        number = number * 1000 + value;
    }
    return number;
}

static int leading_number(struct str *text) {
    int value = 0, digits = 0;
    while (text->len > 0 && text->p[0] >= '0' && text->p[0] <= '9' && digits < 4) {
        value = value * 10 + (text->p[0] - '0');
        *text = str_slice(*text, 1, text->len);
        digits++;
    }
    return digits ? value : -1;
}

int rules_version(struct str text) {
    int major = leading_number(&text);
    if (major < 0 || text.len == 0 || text.p[0] != '.') return 0;
    text = str_slice(text, 1, text.len);
    int minor = leading_number(&text);
    return minor < 0 ? 0 : 100 * major + minor;
}

static int read_version(const struct tsv *t, const char *column, int *ret, struct fail *why) {
    *ret = rules_version(tsv_cell(t, column));
    if (*ret > 0) return 0;
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s is not a version", STR_ARG(t->name), t->line,
                    column);
}

static int read_capability(const struct tsv *t, const char *column, int *ret, struct fail *why) {
    int64_t value;
    if (str_to_i64(tsv_cell(t, column), &value) && value >= 10 && value < 1000) {
        *ret = (int)value;
        return 0;
    }
    return fail_set(why, FAIL_INPUT, "%.*s:%d: %s is not a compute capability x 10",
                    STR_ARG(t->name), t->line, column);
}

static int read_cuda(struct arena *a, const struct tsv *t, struct rules_needs *n,
                     struct fail *why) {
    struct rules_cuda row = {.driver_text = tsv_cell(t, "driver"),
                             .runs_from_text = tsv_cell(t, "runs_from")};
    int rc = read_version(t, "cuda", &row.cuda, why);
    if (rc == 0) rc = read_capability(t, "cc_min", &row.cc_min, why);
    if (rc == 0) rc = read_capability(t, "cc_max", &row.cc_max, why);
    if (rc < 0) return rc;
    row.driver = rules_driver_number(row.driver_text);
    row.runs_from = rules_driver_number(row.runs_from_text);
    if (row.runs_from == 0) {
        return fail_set(why, FAIL_INPUT, "%.*s:%d: runs_from is not a driver version",
                        STR_ARG(t->name), t->line);
    }
    *arena_push(a, &n->cudas, &n->cuda_count, &n->cuda_capacity) = row;
    return 0;
}

static int read_build(struct arena *a, const struct tsv *t, struct rules_needs *n,
                      struct fail *why) {
    struct rules_build row = {0};
    int rc = read_version(t, "torch", &row.torch, why);
    if (rc == 0) rc = read_version(t, "cuda", &row.cuda, why);
    if (rc == 0) rc = read_capability(t, "cc_min", &row.cc_min, why);
    if (rc == 0) rc = read_capability(t, "cc_max", &row.cc_max, why);
    if (rc < 0) return rc;
    *arena_push(a, &n->builds, &n->build_count, &n->build_capacity) = row;
    return 0;
}

static int read_table(struct arena *a, const char *name, struct rules_needs *n,
                      int (*read)(struct arena *, const struct tsv *, struct rules_needs *,
                                  struct fail *),
                      struct fail *why) {
    struct tsv *t = arena_new(a, struct tsv, 1);
    int rc = tsv_find(a, name, t, why);
    while (rc == 0 && (rc = tsv_next(t, why)) > 0) rc = read(a, t, n, why);
    return rc;
}

int rules_needs_load(struct arena *a, struct rules_needs *ret_needs, struct fail *why) {
    *ret_needs = (struct rules_needs){0};
    int rc = read_table(a, "data/cuda.tsv", ret_needs, read_cuda, why);
    return rc < 0 ? rc : read_table(a, "data/torch.tsv", ret_needs, read_build, why);
}

const struct rules_cuda *rules_cuda_find(const struct rules_needs *n, int cuda) {
    for (ptrdiff_t i = 0; i < n->cuda_count; i++) {
        if (n->cudas[i].cuda == cuda) return &n->cudas[i];
    }
    return NULL;
}

const struct rules_cuda *rules_cuda_of_driver(const struct rules_needs *n, int64_t driver) {
    const struct rules_cuda *newest = NULL;
    for (ptrdiff_t i = 0; i < n->cuda_count; i++) {
        const struct rules_cuda *c = &n->cudas[i];
        if (c->driver > 0 && c->driver <= driver && (!newest || c->cuda > newest->cuda)) newest = c;
    }
    return newest;
}

int rules_cuda_runs(const struct rules_needs *n, int cuda, int64_t driver) {
    const struct rules_cuda *c = rules_cuda_find(n, cuda);
    return !c || driver <= 0 ? -1 : driver >= c->runs_from;
}

const struct rules_build *rules_build_for(const struct rules_needs *n, int64_t driver,
                                          int compute_capability) {
    const struct rules_build *best = NULL;
    int cc = compute_capability;
    for (ptrdiff_t i = 0; i < n->build_count; i++) {
        const struct rules_build *b = &n->builds[i];
        // Kernels for 8.6 run on 8.9: the same major version is enough at the upper end.
        bool has_kernels = cc <= 0 || (cc >= b->cc_min && cc / 10 <= b->cc_max / 10);
        if (!has_kernels || (driver > 0 && rules_cuda_runs(n, b->cuda, driver) == 0)) continue;
        if (!best || b->torch > best->torch || (b->torch == best->torch && b->cuda > best->cuda)) {
            best = b;
        }
    }
    return best;
}
