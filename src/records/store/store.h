// SPDX-License-Identifier: Apache-2.0
// What happened before: one database of runs, SQLite in the user's state folder or PostgreSQL for a
// fleet. A run is one trial, one setting of a benchmark, one answer of fit, one half of a
// comparison, one watched training. What store_add has reported as stored survives kill -9 of every
// process and, as far as the disk keeps its promises, a power loss; of answers of fit that were
// only predicted a power loss may take the last. Many processes may write at once.
//
// Recipe: to add a column, a member here and a row in src/records/store/columns.c with the next
// schema version, and that version in the table of src/records/store/migrate.c: both databases have
// it from there.
#pragma once

#include "base/fail.h"
#include "predict/plan/plan.h"
#include "step/times.h"

#include <stdbool.h>

// Unknown is -1 (whole numbers), NaN and an empty text; NULL in the database.
struct store_run {
    int64_t id;         // given by the store
    int64_t at_ms;      // when it ended; since 1970
    struct str kind;    // fit, trial, bench, compare, run
    struct str version; // of batchfit
    // 1: a program or driver that plays a scenario; never used to correct real runs.
    int64_t is_standin;
    // What identifies it.
    struct plan plan;   // unknown in its own way; `classes` is not stored
    struct str library; // "timm 1.0.9"
    int64_t workers;
    struct str device;      // cuda, cpu
    struct str gpu;         // the GPU's name, or the CPU's
    struct str gpu_hash;    // of its UUID
    int64_t capacity_bytes; // of the device
    int64_t limit_bytes;    // that it was allowed; -1: all
    struct str driver, cuda, torch;
    struct str command_hash;
    struct str question; // hash of all that must be the same for the answer to be the same
    int64_t began_ms;    // when the verb began: rows of one call have the same
    struct str setting;  // further settings, for people: "pinned, bucket_mb 25"
    // Its figures.
    struct str status; // OK, ALMOST, OOM, SPILLS, FAILED; of fit and compare FITS, OOM, …
    int64_t steps, seen_batch;
    int64_t allocated_bytes, reserved_bytes; // peaks of the framework's allocator
    int64_t peak_bytes;                      // of the GPU, or resident on the CPU
    int64_t charged_bytes;                   // what was held against the limit
    int64_t alloc_retries;
    double samples_per_s, samples_per_s_low, samples_per_s_high;
    struct step_times times;
    double device_share, energy_joules, seconds;
    int64_t predicted_bytes;          // the GPU's peak
    int64_t predicted_reserved_bytes; // of the allocator, without pressure
    int64_t predicted_upper_bytes;    // end of the band
    // What an answer from the history needs besides.
    struct str reason, hint, ending;
    int64_t covered, made, exit_status, signal;
    double wanted_bytes;
    struct str each_s; // seconds per sample of each step, blanks in between
    // The same wherever the run is stored; given by store_add. Empty in rows of before version 3.
    struct str uid;
};
struct store_run store_run_unknown(void); // of which nothing is known

struct store_column {
    struct field field; // of struct store_run
    int since;          // schema version
};
extern const struct store_column store_columns[]; // without id; ends with version 0

struct store; // private

// Where the history is, a folder or postgresql://...: $BATCHFIT_STORE, $XDG_STATE_HOME/batchfit or
// ~/.local/state/batchfit; `option` wins. Empty: HOME is not set, or another user's.
struct str store_place(struct arena *a, const char *option);
// The same for what lies on this machine's disk beside it: an address is passed over.
struct str store_folder(struct arena *a, const char *option);
bool store_is_address(struct str place);

// Opens PLACE/history.db, which is made when it is not there. A damaged file is moved aside to
// history.db.damaged-DATE and a new one begun, now or when the damage is met later; store_note
// tells it. A database that cannot be written is opened for reading; store_add says why.
// FAIL_INPUT: of a newer version; FAIL_MACHINE: neither readable nor writable. Close with
// store_close; the arena must last as long.
//
// Of an address it is opened whatever the server says (FAIL_INPUT: no address; FAIL_MACHINE: no
// libpq): store_find says what is wrong, and what store_add gets lies in the folder of store_folder
// until the server takes it. What lies there is sent by the first that opens the store.
int store_open(struct arena *a, struct str place, struct store **ret_store, struct fail *why);
struct str store_note(const struct store *s); // one line for the user; empty: nothing to tell
struct str store_name(const struct store *s); // for messages; without a password
void store_close(struct store *s);            // NULL is nothing

// 0: it is stored; its number is -1 while it waits for its server. FAIL_MACHINE: nothing was
// stored (full, read-only, busy for long).
int store_add(struct store *s, const struct store_run *run, int64_t *ret_id, struct fail *why);

// Which runs; an empty text, 0 and -1 ask for any.
struct store_filter {
    struct str kind, question, status;
    struct str gpu;                  // the name
    struct str gpu_like, model_like; // part of the name, as people write it
    struct str model;                // the name
    int64_t since_ms;
    bool only_real;      // no fakes
    bool only_predicted; // with a predicted and a measured size of the allocator, and no retries
    int64_t id;          // 0: any
    int64_t above_id;    // more than 0, or -1 for the first: in the order of their numbers
    int64_t limit;       // 0: all
};
// The newest first. They live in the arena.
int store_find(struct store *s, struct arena *a, const struct store_filter *filter,
               struct store_run **ret_runs, ptrdiff_t *ret_count, struct fail *why);

// Real runs on GPUs that ended from a time on, grouped: by model and GPU; by the GPU itself; and of
// trainings that were given twice the memory that they used, by model and GPU.
enum store_group { STORE_BY_MODEL, STORE_BY_CARD, STORE_BY_SPARE, STORE_GROUPS };
// Those with the most time first. Of a group's runs: id is their number, seconds the sum of what
// they took after `busy_since_ms`, device_share the mean by that time, peak_bytes, capacity_bytes,
// limit_bytes and at_ms the largest; of texts there are only those that they are grouped by.
int store_grouped(struct store *s, struct arena *a, enum store_group by, int64_t since_ms,
                  int64_t busy_since_ms, int64_t limit, struct store_run **ret_runs,
                  ptrdiff_t *ret_count, struct fail *why);

struct store_number {
    int64_t runs;
    bool is_rough; // of a large table on a server: as it was when the server last looked
};
int store_count(struct store *s, struct store_number *ret, struct fail *why);

// Copies the runs that the filter takes (its limit left out). What is there already, by its uid, is
// left alone: copied twice, or stopped in the middle and begun again, nothing is there twice.
struct store_copied {
    int64_t copied, present;
};
int store_copy(struct store *from, struct store *to, const struct store_filter *filter,
               struct store_copied *ret, struct fail *why);
