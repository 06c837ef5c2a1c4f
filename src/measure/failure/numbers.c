// SPDX-License-Identifier: Apache-2.0
// The numbers in an allocator's message. Every quantity of the text ("2.00 GiB", "4096 bytes") is
// looked up by the words that stand right before or after it, so the order and the sentences
// around, which change with the version, do not matter. Messages as printed by PyTorch 1.0 to 2.13
// (CUDA, HIP, XPU, MPS, CPU), NumPy, OpenCV, JAX and TensorFlow: tests/failures/.
#include "measure/failure/failure_int.h"

#include "base/unit.h"

#include <stddef.h>
#include <string.h>

// A blank of a phrase stands for any white space: logs wrap lines.
static const struct phrase {
    const char *before, *after; // NULL: anything
    size_t field;
} phrases[] = {
    {"ried to allocate ", NULL, offsetof(struct failure_numbers, tried_bytes)},
    {"trying to allocate ", NULL, offsetof(struct failure_numbers, tried_bytes)}, // XLA
    {"Out of memory allocating ", NULL, offsetof(struct failure_numbers, tried_bytes)},
    {"Failed to allocate request for ", NULL, offsetof(struct failure_numbers, tried_bytes)},
    {"Failed to allocate ", " in function",
     offsetof(struct failure_numbers, tried_bytes)}, // OpenCV
    {"Unable to allocate ", " for an array",
     offsetof(struct failure_numbers, tried_bytes)}, // NumPy
    {NULL, " total capacity", offsetof(struct failure_numbers, total_bytes)},
    {"total capacity of ", NULL, offsetof(struct failure_numbers, total_bytes)},
    {"total capacty of ", NULL, offsetof(struct failure_numbers, total_bytes)}, // PyTorch 2.1, 2.2
    {"max allowed: ", NULL, offsetof(struct failure_numbers, total_bytes)},
    {NULL, " free;", offsetof(struct failure_numbers, free_bytes)},
    {"of which ", " is free", offsetof(struct failure_numbers, free_bytes)},
    {"this process has ", " memory in use", offsetof(struct failure_numbers, in_use_bytes)},
    {NULL, " already allocated", offsetof(struct failure_numbers, allocated_bytes)},
    {"allocated memory ", " is allocated by", offsetof(struct failure_numbers, allocated_bytes)},
    {"MPS allocated: ", NULL, offsetof(struct failure_numbers, allocated_bytes)},
    {NULL, " reserved in total", offsetof(struct failure_numbers, reserved_bytes)},
    {NULL, " is reserved by PyTorch but", offsetof(struct failure_numbers, unallocated_bytes)},
    {NULL, " cached)", offsetof(struct failure_numbers, unallocated_bytes)}, // until PyTorch 1.3
};

// "GB" is 2^30 here: MPS printed the same limit as "18.13 GB" and, later, as "18.13 GiB".
static const struct {
    const char *name;
    int64_t bytes;
} units[] = {
    {"bytes", 1},      {"KiB", UNIT_KIB},        {"MiB", UNIT_MIB},
    {"GiB", UNIT_GIB}, {"TiB", 1024 * UNIT_GIB}, {"KB", UNIT_KIB},
    {"MB", UNIT_MIB},  {"GB", UNIT_GIB},         {"TB", 1024 * UNIT_GIB},
    {"B", 1},
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c) {
    return str_is_alnum(c) || c == '_' || c == '.';
}

static bool follows(struct str text, ptrdiff_t at, const char *phrase) {
    for (; *phrase; phrase++) {
        if (at >= text.len) return false;
        if (*phrase == ' ') {
            if (!is_blank(text.p[at])) return false;
            while (at < text.len && is_blank(text.p[at])) at++;
        } else if (text.p[at++] != *phrase) {
            return false;
        }
    }
    return true;
}

static bool precedes(struct str text, ptrdiff_t at, const char *phrase) {
    for (size_t n = strlen(phrase); n > 0; n--) {
        if (at <= 0) return false;
        if (phrase[n - 1] == ' ') {
            if (!is_blank(text.p[at - 1])) return false;
            while (at > 0 && is_blank(text.p[at - 1])) at--;
        } else if (text.p[--at] != phrase[n - 1]) {
            return false;
        }
    }
    return true;
}

// "2.00 GiB" at `begin`: its bytes and end. False: no unit, or too large.
static bool read_quantity(struct str text, ptrdiff_t begin, ptrdiff_t *ret_end,
                          int64_t *ret_bytes) {
    ptrdiff_t end = begin;
    double value;
    while (end < text.len && (str_is_digit(text.p[end]) || text.p[end] == '.')) end++;
    *ret_end = end;
    if (!str_to_double(str_slice(text, begin, end), &value)) return false;
    while (end < text.len && is_blank(text.p[end])) end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        ptrdiff_t n = (ptrdiff_t)strlen(units[i].name);
        if (!follows(text, end, units[i].name)) continue;
        if (end + n < text.len && is_word(text.p[end + n]) && text.p[end + n] != '.') continue;
        if (value * (double)units[i].bytes >= 0x1p62) return false;
        *ret_end = end + n;
        *ret_bytes = (int64_t)(value * (double)units[i].bytes);
        return true;
    }
    return false;
}

static void note(struct str text, ptrdiff_t begin, ptrdiff_t end, int64_t bytes,
                 struct failure_numbers *n) {
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const struct phrase *p = &phrases[i];
        int64_t *field = (int64_t *)(void *)((char *)n + p->field);
        if (*field >= 0 || (p->before && !precedes(text, begin, p->before)) ||
            (p->after && !follows(text, end, p->after)))
            continue;
        *field = bytes;
        return;
    }
}

// "GPU 3 has a total capacity", "(GPU 3; 8.00 GiB total capacity", "on device ordinal 3".
static int read_device(struct str text, ptrdiff_t number, ptrdiff_t end) {
    int64_t device;
    bool is_named = (precedes(text, number, "GPU ") &&
                     (follows(text, end, ";") || follows(text, end, " has"))) ||
                    precedes(text, number, "device ordinal ");
    if (!is_named || !str_to_i64(str_slice(text, number, end), &device) || device > 1023) return -1;
    return (int)device;
}

static void complete(struct failure_numbers *n) {
    if (n->unallocated_bytes < 0 && n->reserved_bytes >= n->allocated_bytes &&
        n->allocated_bytes >= 0)
        n->unallocated_bytes = n->reserved_bytes - n->allocated_bytes;
    if (n->reserved_bytes < 0 && n->unallocated_bytes >= 0 && n->allocated_bytes >= 0)
        n->reserved_bytes = n->allocated_bytes + n->unallocated_bytes;
}

bool failure_read_numbers(struct str line, struct failure_numbers *ret_numbers) {
    struct failure_numbers n = {-1, -1, -1, -1, -1, -1, -1, -1};
    for (ptrdiff_t i = 0; i < line.len; i++) {
        ptrdiff_t end;
        int64_t bytes;
        if (!str_is_digit(line.p[i]) || (i > 0 && is_word(line.p[i - 1]))) continue;
        if (read_quantity(line, i, &end, &bytes))
            note(line, i, end, bytes, &n);
        else if (n.device < 0)
            n.device = read_device(line, i, end);
        i = end - 1;
    }
    if (n.tried_bytes < 0) return false;
    complete(&n);
    *ret_numbers = n;
    return true;
}

// Outside the allocator a process holds its CUDA context and the kernels it loaded: 300 to 900 MiB
// (data/overheads.tsv). What is missing beyond that is not ours.
static const int64_t overhead_bytes = UNIT_GIB;
// Pieces of a few hundredths of the GPU are left over in every full one.
enum { FRAGMENTS_LEAST = 20 };

enum failure_cause failure_cause_of(const struct failure_numbers *n) {
    if (n->tried_bytes < 0 || n->total_bytes < 0) return FAILURE_CAUSE_UNKNOWN;
    if (n->allocated_bytes > n->total_bytes) return FAILURE_CAUSE_SPILL;
    if (n->unallocated_bytes >= n->tried_bytes &&
        n->unallocated_bytes >= n->total_bytes / FRAGMENTS_LEAST)
        return FAILURE_CAUSE_FRAGMENTATION;
    int64_t own = n->in_use_bytes;
    if (own < 0 && n->reserved_bytes >= 0) own = n->reserved_bytes + overhead_bytes;
    if (own < 0 || n->free_bytes < 0) return FAILURE_CAUSE_NEED;
    int64_t others = n->total_bytes - n->free_bytes - own;
    // Where enough was free, it was not they who kept it from us. The driver does not give the last
    // hundredth: 20 MiB were refused where 25 of 8,000 were free.
    bool was_free = n->free_bytes >= n->tried_bytes + n->total_bytes / 100;
    bool is_much =
        others >= n->total_bytes / 10 && !was_free && n->free_bytes + others >= n->tried_bytes;
    return is_much ? FAILURE_CAUSE_OTHERS : FAILURE_CAUSE_NEED;
}
