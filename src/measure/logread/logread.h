// SPDX-License-Identifier: Apache-2.0
// The text log of a training, of any framework and any size, read once from front to end in little
// memory: its last lines (for measure/failure/failure.h), how long its steps took, the first loss
// that is no number, and where it was when it ended. Progress bars are lines that end in a carriage
// return; escape sequences are dropped; line numbers are those that an editor shows.
#pragma once

#include "measure/failure/failure.h"

enum {
    LOGREAD_TIMES = 1024, // of one kind of steps that are kept; of more, every second, fourth, …
    LOGREAD_BARS = 8,     // kinds of steps: training, validation, …
    // So many lines with a time or a loss after an error: the training went on. Bars of all ranks
    // are drawn once more when it ends.
    LOGREAD_WENT_ON = 20,
};

// Steps of one progress bar, or of all lines that look alike.
struct logread_bar {
    uint64_t label; // hash of its words
    bool is_validation;
    int64_t steps; // readings
    int64_t rises; // … by name that were more than the one before
    double newest_ms;
    int64_t stride;
    double times_ms[LOGREAD_TIMES];
    int64_t lines[LOGREAD_TIMES];
    ptrdiff_t count;
};

struct logread_mark {
    int64_t line; // 0: none
    char text[200];
};

struct logread {
    struct arena *arena;
    int64_t bytes, line; // line: of the next one, from 1
    struct logread_bar *bars;
    int bar_count;
    double io_ms[LOGREAD_TIMES]; // waits for data, where a log tells them ("Data: 0.456")
    double io_total_ms[LOGREAD_TIMES];
    ptrdiff_t io_count;
    int64_t io_seen;
    struct logread_mark nan;
    int64_t nan_count;
    bool loss_recovered, has_nan_loss; // has: not gradients alone
    struct logread_mark flushes;       // the allocator's cache, given back under pressure
    int64_t flush_count;
    // The first line of the last stretch in which the fp16 loss scale was at its end, and the last.
    struct logread_mark scale;
    int64_t scale_last, scale_count;
    uint64_t table_columns; // of the last header of a table: those with a loss in their name
    int table_fields;       // … how many its lines have; 0: no header yet
    char table_separator;
    int64_t progress[LOGREAD_WENT_ON]; // lines that told a time or a finite loss, the newest ones
    int64_t progress_count;
    bool has_progress;         // the line that is being read
    int64_t run;               // the line where the newest of several runs begins; 0: the first
    int64_t finished;          // the last line that tells that a training came to its end
    struct logread_mark place; // the last bar or line that tells where the training is
    bool place_is_validation, place_is_last_batch, place_is_done; // done: that batch, too
    struct logread_mark traceback; // a frame of the last traceback that is of validation
    struct logread_mark on_cpu;    // the first line that tells that no GPU is used, though wanted
    int64_t card_bytes;            // "CUDA:0 (NVIDIA …, 16376MiB)" (Ultralytics); 0: not said
    double memory_gib;             // the newest of a column "11.4G" (Ultralytics); NaN
    struct logread_tail *tail;     // private
};

struct logread logread_new(struct arena *a);
void logread_feed(struct logread *j, struct str bytes);

// Why the beginning of a file is no text log; NULL: it is one. Compressed and binary files are
// known by their first bytes.
const char *logread_refusal(struct str head);

// Takes in a last line without an end, and reads the ending. `ret_line`: the number of the line
// that decided, 0: none.
void logread_end(struct logread *j, struct failure *ret_ending, int64_t *ret_line);
// The number of the newest line with this text; 0: none of the last ones has it.
int64_t logread_number_of(const struct logread *j, struct str text);
// Whether the training went on after that line.
bool logread_went_on(const struct logread *j, int64_t line);
// Whether it may have: a little of it came after, or another run that shows nothing.
bool logread_may_have_gone_on(const struct logread *j, int64_t line);
// As logread_end, and after it, of what the training did not go on after.
void logread_end_later(struct logread *j, struct failure *ret_ending, int64_t *ret_line);
// Whether the loss scale had fallen to its end when the log ended.
bool logread_scale_is_gone(const struct logread *j);
// Whether what it prints is the time since the beginning, not that of a step: it only grows.
bool logread_is_elapsed(const struct logread_bar *b);
// The row of measure/failure/failure.h that explains why a GPU is not used, and its line: printed
// early in a training that goes on without it. NULL: no such line, or nothing came after it.
const struct failure_signature *logread_on_cpu(const struct logread *j);
// The bar with most steps that is not validation's; NULL: no times were found.
const struct logread_bar *logread_training(const struct logread *j);
// Steps of training that were seen; -1: the log tells none, so nobody knows.
int64_t logread_steps(const struct logread *j);
