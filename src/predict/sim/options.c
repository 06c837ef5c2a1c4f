// SPDX-License-Identifier: Apache-2.0
// PYTORCH_CUDA_ALLOC_CONF: "name:value,name:value", blanks ignored, lists in square brackets. Rules
// of values are those of c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.h of 2.13,
// whose library was asked for what it makes of each case in tests/unit/sim_options.c.
#include "predict/sim/sim.h"

#include "base/near.h"
#include "base/unit.h"

struct sim_options sim_options_default(void) {
    return (struct sim_options){.max_split_bytes = SIM_UNLIMITED,
                                .max_non_split_rounding_bytes = 20 * UNIT_MIB,
                                .large_segment_bytes = 20 * UNIT_MIB,
                                .roundup_bypass_bytes = SIM_UNLIMITED};
}

static int wrong(struct str name, struct str value, const char *expected, struct fail *why) {
    return fail_set(why, FAIL_INPUT, "allocator option %.*s: '%.*s' is not %s", STR_ARG(name),
                    STR_ARG(value), expected);
}

static int set_expandable(struct str name, struct str value, struct sim_options *o,
                          struct fail *why) {
    if (!str_is(value, "True") && !str_is(value, "False")) {
        return wrong(name, value, "True or False", why);
    }
    o->expandable_segments = str_is(value, "True");
    return 0;
}

static int read_mib(struct str name, struct str value, int64_t least, int64_t *ret,
                    struct fail *why) {
    int64_t n = 0;
    if (!str_to_i64(value, &n) || n < least || n > INT64_C(1) << 40) {
        return fail_set(why, FAIL_INPUT,
                        "allocator option %.*s: '%.*s' is not a number of MiB of at least %lld",
                        STR_ARG(name), STR_ARG(value), (long long)least);
    }
    *ret = n * UNIT_MIB;
    return 0;
}

static int set_collection(struct str name, struct str value, struct sim_options *o,
                          struct fail *why) {
    double share;
    if (!str_to_double(value, &share) || !(share > 0 && share < 1)) {
        return wrong(name, value, "a number between 0 and 1", why);
    }
    o->garbage_collection_threshold = share;
    return 0;
}

// A limit of 1 is kept by PyTorch as no limit.
static int set_fraction(struct str name, struct str value, struct sim_options *o,
                        struct fail *why) {
    double share;
    if (!str_to_double(value, &share) || !(share > 0 && share <= 1)) {
        return wrong(name, value, "a number above 0 and at most 1", why);
    }
    o->memory_fraction = share < 1 ? share : 0;
    return 0;
}

static int set_backend(struct str name, struct str value, struct sim_options *o, struct fail *why) {
    (void)o;
    if (str_is(value, "native")) return 0;
    if (!str_is(value, "cudaMallocAsync")) return wrong(name, value, "native", why);
    fail_set(why, FAIL_INPUT, "backend:cudaMallocAsync cannot be simulated");
    return fail_hint(why, "its pools belong to the CUDA driver, whose rules are not published; the "
                          "forecast for backend:native comes closest");
}

static int ignore(struct str name, struct str value, struct sim_options *o, struct fail *why) {
    (void)name, (void)o;
    return value.len > 0 ? 0 : wrong(name, value, "a value", why);
}

static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

enum { INTERVALS = 16 }; // from 1 MiB on, the last from 32 GiB on

// In a list 0 switches it off.
static int read_divisions(struct str name, struct str value, bool may_be_off, int64_t *ret,
                          struct fail *why) {
    int64_t n = 0;
    bool is_number = str_to_i64(value, &n);
    if (!is_number || !(is_power_of_two(n) || (may_be_off && n == 0)))
        return wrong(name, value, may_be_off ? "a power of two or 0" : "a power of two", why);
    *ret = n;
    return 0;
}

// Entry of the table for a key in MiB; what is beyond the last is the last.
static int read_key(struct str name, struct str key, int *ret, struct fail *why) {
    int64_t mib;
    if (!str_to_i64(key, &mib) || !is_power_of_two(mib)) {
        return wrong(name, key, "a power of two of MiB, or >", why);
    }
    *ret = 63 - __builtin_clzll((unsigned long long)mib);
    if (*ret >= INTERVALS) *ret = INTERVALS - 1;
    return 0;
}

static void fill(int64_t *divisions, int begin, int end, int64_t value) {
    for (int i = begin; i < end; i++) divisions[i] = value;
}

// "256:1,512:2,>:8": entries below the first key get its value, ">" fills those above the last key
// (before 2.9 that one, too), and the others stay as they were.
static int set_division_list(struct str name, struct str list, struct sim_options *o,
                             struct fail *why) {
    int code = 0;
    for (int last = 0, is_first = true; code == 0 && list.len > 0;) {
        struct str value = str_cut(&list, ','), key = str_cut(&value, ':');
        int64_t n = 0;
        code = read_divisions(name, value, true, &n, why);
        if (code == 0 && str_is(key, ">")) {
            fill(o->roundup_divisions, last + 1, INTERVALS, n);
            continue;
        }
        if (code == 0) code = read_key(name, key, &last, why);
        if (code == 0) fill(o->roundup_divisions, is_first ? 0 : last, last + 1, n);
        is_first = false;
    }
    return code;
}

static int set_divisions(struct str name, struct str value, struct sim_options *o,
                         struct fail *why) {
    if (value.len > 0 && value.p[0] == '[') {
        return set_division_list(name, str_slice(value, 1, value.len - 1), o, why);
    }
    int64_t n = 0;
    int code = read_divisions(name, value, false, &n, why);
    if (code == 0) fill(o->roundup_divisions, 0, INTERVALS, n);
    return code;
}

#define MIB(member, least) .offset = offsetof(struct sim_options, member), .least_mib = (least)
static const struct option {
    const char *name;
    // NULL: a number of MiB, which is kept in bytes.
    int (*set)(struct str name, struct str value, struct sim_options *o, struct fail *why);
    size_t offset;
    int64_t least_mib;
} options_known[] = {
    {"max_split_size_mb", MIB(max_split_bytes, 20)},
    {"roundup_power2_divisions", set_divisions},
    {"roundup_bypass_threshold_mb", MIB(roundup_bypass_bytes, 1)},
    {"garbage_collection_threshold", set_collection},
    {"backend", set_backend},
    {"expandable_segments", set_expandable},
    {"max_non_split_rounding_mb", MIB(max_non_split_rounding_bytes, 20)},
    {"per_process_memory_fraction", set_fraction},
    {"large_segment_size_mb", MIB(large_segment_bytes, 11)},
    // Without effect on the sizes of device memory.
    {"release_lock_on_cudamalloc", ignore},
    {"throw_on_cudamalloc_oom", ignore},
    {"graph_capture_record_stream_reuse", ignore},
    {"pinned_use_cuda_host_register", ignore},
    {"pinned_num_register_threads", ignore},
    {"pinned_use_background_threads", ignore},
    {"pinned_reserve_segment_size_mb", ignore},
    {"pinned_max_round_threshold_mb", ignore},
    {"pinned_max_cached_size_mb", ignore},
    {"pinned_free_catch_all", ignore},
    // The same in a build for AMD.
    {"release_lock_on_hipmalloc", ignore},
    {"pinned_use_hip_host_register", ignore},
};
enum { OPTION_COUNT = (int)(sizeof options_known / sizeof *options_known) };

static int unknown(struct arena *a, struct str name, struct fail *why) {
    struct near near = {.typed = name};
    for (int i = 0; i < OPTION_COUNT; i++) near_offer(&near, str_of(options_known[i].name));
    struct str names = near_text(a, &near);
    fail_set(why, FAIL_INPUT, "PYTORCH_CUDA_ALLOC_CONF: unknown option '%.*s'", STR_ARG(name));
    if (names.len == 0) return FAIL_INPUT;
    return fail_hint(why, "did you mean %.*s?", STR_ARG(names));
}

// Cuts at the first comma outside square brackets.
static struct str cut_option(struct str *rest) {
    int depth = 0;
    for (ptrdiff_t i = 0; i < rest->len; i++) {
        depth += (rest->p[i] == '[') - (rest->p[i] == ']');
        if (rest->p[i] != ',' || depth > 0) continue;
        struct str head = str_slice(*rest, 0, i);
        *rest = str_slice(*rest, i + 1, rest->len);
        return head;
    }
    struct str head = *rest;
    *rest = (struct str){0};
    return head;
}

static int set_option(struct arena *a, struct str text, struct sim_options *o, struct fail *why) {
    struct str value = text, name = str_cut(&value, ':');
    if (!value.p) {
        return fail_set(why, FAIL_INPUT, "PYTORCH_CUDA_ALLOC_CONF: '%.*s' has no ':' and value",
                        STR_ARG(text));
    }
    if (value.len > 0 && value.p[0] == '[' && !str_ends(value, STR("]"))) {
        return wrong(name, value, "closed by ]", why);
    }
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *known = &options_known[i];
        if (!str_is(name, known->name)) continue;
        if (known->set) return known->set(name, value, o, why);
        int64_t *bytes = (int64_t *)(void *)((char *)o + known->offset);
        return read_mib(name, value, known->least_mib, bytes, why);
    }
    return unknown(a, name, why);
}

int sim_options_parse(struct str text, struct sim_options *options, struct fail *why) {
    ARENA_AUTO scratch = {0};
    struct buf bare = buf_new(&scratch);
    for (ptrdiff_t i = 0; i < text.len; i++) {
        if (text.p[i] != ' ') buf_byte(&bare, text.p[i]);
    }
    struct sim_options result = *options;
    for (struct str rest = buf_str(&bare); rest.p && rest.len > 0;) {
        int code = set_option(&scratch, cut_option(&rest), &result, why);
        if (code < 0) return code;
    }
    *options = result;
    return 0;
}
