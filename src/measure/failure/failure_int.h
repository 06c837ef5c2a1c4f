// SPDX-License-Identifier: Apache-2.0
// Between the files that say how a training ended.
#pragma once

#include "measure/failure/failure.h"

// Bands of struct failure_signature.rank.
enum {
    RANK_CLEAN = 0,
    RANK_STATUS = 5,     // nothing but the exit status or signal is known
    RANK_WARNED = 7,     // only a warning tells so, and the output ends there
    RANK_LAUNCHER = 10,  // a launcher tells that its child failed
    RANK_SYMPTOM = 20,   // a partner went away
    RANK_KILLED = 30,    // at and below: does not say why; any other exception of the output does
    RANK_CRASH = 40,     // a signal that has a usual cause
    RANK_SETUP = 50,     // often caught and followed by something else
    RANK_OWN = 55,       // an exception that no row names
    RANK_AMBIGUOUS = 60, // usually memory
    RANK_LIMIT = 65,
    RANK_FAULT = 70,
    RANK_THREADS = 75,
    RANK_LIBRARY = 80, // a library could not allocate
    RANK_MEMORY = 85,  // an allocator says so
    RANK_COUNTED = 90, // the kernel says so
};

// The table's parts; each ends with a row without an id.
extern const struct failure_signature failure_signatures_memory[], failure_signatures_setup[],
    failure_signatures_ended[];

// What VS Code's debugger puts before the type of an exception.
#define FAILURE_DEBUGGER "Exception has occurred: "

// A line of the output without escape sequences.
struct failure_line {
    struct str text; // as printed
    struct str bare; // without "[rank0]: " and the like
    bool is_exception;
    bool is_ignored; // of a chain that Python printed and went on: "Exception ignored in"
    int chain;       // tracebacks that Python links by "During handling of …" are one; 0: none
    ptrdiff_t told_before;  // lines before this one that belong to no traceback
    ptrdiff_t steps_before; // … that tell a loss or a rate of steps
};
struct failure_text {
    struct failure_line *lines;
    ptrdiff_t count, capacity;
    struct str text;          // all lines, joined by '\n'
    int last_chain;           // the last that is not ignored; 0: none
    ptrdiff_t last_start;     // its first line
    ptrdiff_t last_exception; // its last exception; -1: none
};

struct failure_text failure_lines(struct arena *a, struct str output);
enum failure_cause failure_cause_of(const struct failure_numbers *n);
