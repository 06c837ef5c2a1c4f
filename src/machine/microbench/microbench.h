// SPDX-License-Identifier: Apache-2.0
// How fast memory, links and matrix units of this machine are: timed runs, plain figures out, and
// the range that a figure should lie in (data/rates.tsv). Made for a process of its own, because
// what is measured may hang (a GPU), break (somebody's BLAS) or leave memory behind (a CUDA
// context): `check
// --benchmark` starts one for the CPU and one for each GPU. Judging is the caller's.
//
// Recipe: to add a measurement
//   1. give it a row in the table of microbench.c; the id is for ever;
//   2. write it beside those of its kind (cpu.c, gpu.c): what is run once is timed by
//   microbench_repeat;
//   3. give it a row in data/rates.tsv, with its source, and a remedy in the table of
//      src/machine/rules/microbench.c;
//   4. add its row to doc/formats/check.md.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct gpu;

enum microbench_unit { MICROBENCH_BYTES_S, MICROBENCH_FLOP_S };
struct microbench_measure {
    const char *id;   // "rate.h2d"
    const char *what; // "host to GPU"
    enum microbench_unit unit;
    bool is_of_card;
};
extern const struct microbench_measure microbench_measures[];
extern const int microbench_measure_count;
const struct microbench_measure *microbench_find(struct str id); // NULL: none

enum microbench_state {
    MICROBENCH_UNKNOWN, // could not be measured: `why`
    MICROBENCH_MEASURED,
    MICROBENCH_WRONG, // measured, and what came out is not what should have: `why`
};
const char *microbench_state_name(enum microbench_state state); // "unknown", "measured", "wrong"

struct microbench_figure {
    const struct microbench_measure *measure;
    enum microbench_state state;
    double median, low, high; // of the runs, bytes/s or FLOP/s; NaN: not measured
    double variation;         // standard deviation over mean; NaN: fewer than two runs
    int count;                // runs that were timed
    struct str how, why;      // "256 MiB, pinned"; of what was measured and with what
    struct str standin;       // set: a library of the measurement is a fake for tests
};
// Called with every figure as soon as it is there.
struct microbench_sink {
    void (*take)(void *owner, const struct microbench_figure *figure);
    void *owner;
};

// The CPU: `cores` threads at most, each on a core of its own, and at most a fifth of
// `available_bytes`.
struct microbench_host {
    int cores;
    int64_t available_bytes;
};
void microbench_cpu(struct arena *a, const struct microbench_host *host,
                    const struct microbench_sink *sink);

// A GPU, by its UUID (or that of an instance) or its number; changes the environment of the
// process. At most half of the GPU's free memory is used. `folders`: where the CUDA libraries of
// the user's PyTorch are, separated by colons; they are looked into when the loader has none.
struct microbench_place {
    struct str card, folders;
};
void microbench_card(struct arena *a, const struct microbench_place *place,
                     const struct microbench_sink *sink);

// --- What it should be ---------------------------------------------------------------------------

struct microbench_table {
    struct rate_row *rows;
    ptrdiff_t count, capacity;
};
// data/rates.tsv. FAIL_INPUT names the line.
int microbench_table_load(struct arena *a, struct microbench_table *ret_table, struct fail *why);

// What is known of what was measured.
struct microbench_subject {
    const struct gpu *gpu;           // of the catalogue; NULL: not in it, or the CPU
    int pcie_generation, pcie_width; // what GPU and slot can do together; 0: unknown
    bool is_mig, is_unified;
    int cores; // of the CPU
};
// NaN: no reference, `why_none` says why. Below `floor` is far below; above `high` is a surprise
// and no fault.
struct microbench_range {
    double low, high, floor;
    struct str of;     // "PCIe 4.0 x16, 31.5 GB/s"
    struct str source; // who measured or published it
    struct str why_none;
};
void microbench_range_find(struct arena *a, const struct microbench_table *table,
                           const struct microbench_measure *measure,
                           const struct microbench_subject *subject,
                           struct microbench_range *ret_range);

struct str microbench_text(struct arena *a, enum microbench_unit unit,
                           double value); // "24.6 GB/s"; empty: NaN
