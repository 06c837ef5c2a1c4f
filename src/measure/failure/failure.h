// SPDX-License-Identifier: Apache-2.0
// How a training ended: one table of signatures over the last output, the exit status and what the
// kernel counted. Also used on log files.
//
// Recipe: to add a signature, one row in src/measure/failure/signatures*.c and one captured text in
// tests/failures/ID.txt, further ones in ID@VARIANT.txt (any text the table must not take for it
// goes to tests/failures/not-ID@VARIANT.txt). A real log, with its source and the right answer,
// goes to tests/doctor/threads/.
#pragma once

#include "base/str.h"

// How a training ended: the one list of it. The class of a signature is one of the first part; a
// trial may be ended by us, too.
enum failure_class {
    // What recovery tells apart; the event log has a word for each (measure/recover/events.c).
    FAILURE_UNKNOWN, // by itself, and nobody knows how
    FAILURE_CLEAN,   // exit status 0
    FAILURE_MEMORY,  // the GPU's, the machine's or of the limit set on it, /dev/shm's, for threads
    FAILURE_CRASH,   // the user's own exception, import errors, missing files, wrong arguments
    FAILURE_KILLED,  // by a signal that nothing explains
    FAILURE_DEVICE,  // illegal access, lost GPU: neither batch nor memory
    FAILURE_COMMUNICATION, // NCCL, Gloo, rendezvous; another rank is usually the cause
    FAILURE_STALLED,       // by us: no further step within stall_limit_s
    FAILURE_ASKED,         // by us, to go on with another batch: whole->asks_stop became true
    FAILURE_INTERRUPTED,   // by the user: *interrupted became true
    // What is one of these to it.
    FAILURE_LIMIT, // of a kernel or library, that a smaller batch avoids; not memory
    // By us, of trials:
    FAILURE_ENOUGH,    // made the steps that were wanted
    FAILURE_NO_START,  // no step within start_limit_s
    FAILURE_TIME_UP,   // time_limit_s
    FAILURE_RANK_LOST, // a rank ended or ran out of memory and the others waited for it
    FAILURE_BLIND,     // PyTorch runs where the emitter cannot be
    FAILURE_LEFT,      // the command ended, and what it left behind shows nothing that trains
    FAILURE_REFUSED,   // asks for memory for ever that its limit refuses
};
// What we stopped it for: "stalled: made no further step"; NULL: it ended by itself.
const char *failure_stop_text(enum failure_class kind);

struct failure_signature {
    const char *id; // "cuda-oom"; stable, used in JSON and in later rules
    enum failure_class kind;
    const char *what; // one line for people: "the GPU's memory ran out (CUDA caching allocator)"
    const char *hint; // what to do
    // Texts of which any must stand in the output, separated by '\n'; all of a row that are joined
    // by '&' must stand in one line. A text that begins with '^' begins the line (what a launcher
    // puts in front, "[rank0]: ", not counted), one that ends with '$' ends it. NULL: this row is
    // found by a function (signals, counters).
    const char *texts;
    // A row that explains another one's cause is taken before it: the highest wins (the bands are
    // in failure_int.h).
    int rank;
    bool is_kernels; // not this row when the kernel's counters are known and deny it
    bool is_early;   // printed before the exception that it leads to
};
// The rows, from 0 on; NULL after the last.
const struct failure_signature *failure_signature(int index);
// NULL: there is no such row.
const struct failure_signature *failure_signature_named(struct str id);

// What is known besides the output.
struct failure_facts {
    int status; // of waitpid, if it has one
    bool has_status;
    int64_t oom_kills;          // memory.events oom_kill of its cgroup since the start; -1: unknown
    int64_t system_oom_kills;   // /proc/vmstat oom_kill since the start; -1: unknown
    int64_t memory_limit_bytes; // that we set; 0: none
    bool is_refused;            // it was stopped because it asked for ever and that limit said no
    bool is_over;               // it was killed because all its processes held more than that
};

// The numbers of PyTorch's message, bytes; -1 where absent.
struct failure_numbers {
    int64_t tried_bytes, total_bytes, free_bytes, in_use_bytes, allocated_bytes, reserved_bytes;
    int64_t unallocated_bytes; // reserved but not allocated
    int device;                // -1: not said
};
enum failure_cause {
    FAILURE_CAUSE_UNKNOWN,
    FAILURE_CAUSE_NEED,
    FAILURE_CAUSE_FRAGMENTATION,
    FAILURE_CAUSE_OTHERS,
    FAILURE_CAUSE_SPILL
};

struct failure {
    const struct failure_signature *signature; // never NULL
    struct str line;                           // of the output that decided; empty: none
    struct str subject;    // what it is about: a file, a host, a module; empty: not said
    struct str exception;  // "ValueError: …": the last exception of the output
    struct str handled;    // an earlier error of memory that the program dealt with; empty: none
    struct str last_lines; // at most 12, for the report
    struct failure_numbers numbers;
    enum failure_cause cause; // of device memory: spill when more is allocated than the GPU has,
                              // so that the driver had lent the host's (Windows and WSL);
                              // fragmentation when what is reserved but unallocated would have been
                              // enough, and is a twentieth of the GPU; others when other processes
                              // hold the rest
    struct str later; // an error of something else that came later, which this one may have to do
                      // with; empty: none
    int signal;       // that killed it; 0: none
    int exit_status;  // -1: killed, or nobody knows
};

// Reads PyTorch's "Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; …)" of every
// version from 1.4 to 2.13, HIP's and MPS's too, and the CPU allocator's. False: not such a line.
bool failure_read_numbers(struct str line, struct failure_numbers *ret_numbers);

// What the message is about: "data/train.csv", "huggingface.co", "apex"; empty: not said.
struct str failure_subject(const struct failure_signature *row, struct str message);

// `output` is the tail of stdout and stderr (at most some MiB).
void failure_classify(struct arena *a, struct str output, const struct failure_facts *facts,
                      struct failure *ret_ending);
