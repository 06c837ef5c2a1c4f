// SPDX-License-Identifier: Apache-2.0
// What a training program tells of itself: the steps protocol (doc/formats/steps.md), read line by
// line from any source. Broken lines are counted, never fatal.
#pragma once

#include "base/str.h"
#include "step/times.h"

// NaN where the program did not say; bytes and counts -1 where it did not.
struct step {
    int rank;
    int64_t number, samples;
    int64_t micro_batch; // the largest of its micro-batches
    int64_t micro_count; // gradient accumulation
    struct step_times times;
    int64_t allocated_bytes, reserved_bytes, peak_allocated_bytes, peak_reserved_bytes;
    int64_t alloc_retries;
    // What registered and recorded runs add (doc/formats/runs.md): seconds since 1970, or since
    // somebody began to watch; steps and samples that its rank has made with this one.
    double t_s;
    int64_t made, made_samples;
    // Counted here: what its rank has made in this process with it, and when it ended (unix time):
    // by its own clock where that is the host's monotonic one, or else when it was read.
    int64_t rank_steps, rank_samples; // samples -1 when a step did not say them
    double end_s;
};

enum step_rank_state {
    STEPS_RANK_SILENT,
    STEPS_RANK_STARTED,
    STEPS_RANK_ENDED_WELL,
    STEPS_RANK_ENDED_BADLY
};
// One process that reports.
struct step_rank {
    int rank;
    int64_t pid;
    enum step_rank_state state;
    int64_t steps;
    int64_t samples;       // of all its steps; -1: one of them did not say
    int64_t samples_began; // that it says to have made before its first step; -1: it does not say
    int64_t last_ns;       // when its last line was read (os_now_ns)
    int64_t oom_ns;        // when it reported that memory ran out and has made no step since; 0: no
    struct str device;     // "cuda:0", "cpu"; empty: not said
    struct str framework, framework_version;
    struct str error; // of `end`
    struct str oom_message, oom_phase;
    int64_t batch_dim;           // of its tensors, along which the samples are
    int64_t ddp_bucket_mb;       // of its DistributedDataParallel, as we asked; 0: it made none
    bool is_mute;                // its emitter gave up: the training goes on and tells nothing more
    bool says_saves;             // it tells of checkpoints by the event `checkpoint`
    int64_t largest_micro_batch; // so far; 0: not said
    int64_t dropped;             // lines that it could not write
    int64_t taken_batch, taken_accumulation; // that it took over while it runs; 0: it takes none
};

// How far an inference engine's outputs are from a reference's. NaN, -1: not said.
struct steps_outputs {
    bool is_said;
    double max_abs, mean_abs, max_rel, mean_rel;
    double top1; // share of samples whose largest output is the same one
    int64_t samples;
    struct str reference; // "torch 2.13.0, fp32, CPU"
    struct str problem;   // why they cannot be compared: they are wrong; empty: they can
};

// What the run has been seen to do; bits of covered.
enum step_cover {
    STEPS_COVER_FORWARD = 1,
    STEPS_COVER_BACKWARD = 2,
    STEPS_COVER_SECOND_STEP = 4, // the optimizer's state was there already
    STEPS_COVER_VALIDATION = 8,
    STEPS_COVER_CHECKPOINT = 16,
    STEPS_COVER_LAST_BATCH = 32, // a micro-batch smaller than those before it
    STEPS_COVER_LONGEST = 64,    // the longest samples that were found came first
};
// A checkpoint that a rank says to have written, after these steps of its own.
struct step_mark {
    int rank;
    int64_t steps, samples;
    double end_s, ms; // when it was written (unix time), and how long it took; NaN
};
// A file or folder that a program says it saves as a checkpoint: one state for each path.
enum step_save_state {
    STEPS_SAVE_BEGUN, // not ended, by one rank at least
    STEPS_SAVE_ENDED,
    STEPS_SAVE_BAD, // saving failed; or it turned out to be none
};
struct step_save {
    struct str path;
    enum step_save_state state;
    int64_t number; // of the last word on it, from 1, over all paths
    int rank;
    int64_t row, samples;  // its rank's steps that it holds, and their samples; -1: not known
    int64_t open, ended;   // ranks that have begun and not ended; that have ended
    int64_t ranks;         // that take part; 1: whoever saves
    int64_t parts;         // of a folder: files that went into it one by one
    struct str folder;     // of a file that may be one of several: theirs
    bool is_guess;         // a folder of which nobody has said yet that all is in it
    bool is_of_files;      // a folder whose files were told one by one
    bool is_file;          // that the program saved itself, through no framework
    double began_s, end_s; // of the last saving (unix time)
    struct str error;      // of the last saving that failed; empty: none did
};
enum { STEP_MARKS = 64, STEP_SAVES_MAX = 4096 };
// Whether all of it is there.
enum step_save_trust {
    STEPS_SAVE_NO,    // or it is a part of another one
    STEPS_SAVE_MAYBE, // nothing more was heard: worth a trial where there is nothing better
    STEPS_SAVE_SURE,
};

extern const char
    *const step_cover_names[]; // by bit, NULL-ended: "forward", "second_optimizer_step"

struct steps {
    struct arena *arena;
    int64_t opened_ns;  // since when lines come (os_now_ns)
    struct step *items; // in the order they came
    ptrdiff_t count, capacity;
    int64_t forgotten;                   // that came before items[0] (steps_forget)
    struct step_mark marks[STEP_MARKS];  // the newest: number i (from 0) at i % STEP_MARKS
    int64_t mark_count;                  // all
    struct step_save *saves;             // each path once, as it was told first
    ptrdiff_t save_count, save_capacity; // STEP_SAVES_MAX at most: the newest
    int64_t save_number;                 // the last that was given
    struct step_rank *ranks;
    ptrdiff_t rank_count, rank_capacity;
    int64_t world; // ranks that a start event named; 0: none did
    // What the command's own parser would take without the options that we give; 0: not said.
    int64_t default_batch, default_accumulation;
    unsigned covered;
    bool has_forwards, has_gradients; // before any backward: a model is called; with gradients
    struct steps_outputs outputs;     // the last that was said
    int64_t broken_lines, unknown_events, dropped_lines;
    struct str first_broken; // for the report
};

struct steps steps_new(struct arena *a);
// One line without its end. Never fails.
void steps_line(struct steps *s, struct str line);
// Cuts bytes as they come from one source into lines. A line over 64 KiB counts as broken.
struct step_source {
    struct buf partial;
    bool skipping; // the rest of an overlong line
};
void steps_feed(struct steps *s, struct step_source *source, struct str bytes);
// Whether all ranks say that they are on the CPU, or say nothing.
bool steps_on_cpu(const struct steps *s);
// Whether a rank reported that memory ran out and has made no step since: what a command died of,
// also where it writes texts that nobody knows. (One that ends well all the same has caught it.)
bool steps_out_of_memory(const struct steps *s);
// Whether a process has announced itself: by `start`, or by a step.
bool steps_are_announced(const struct steps *s);
// Whether an emitter gave up: what its process does from then on is not known.
bool steps_are_cut(const struct steps *s);
// Steps of the rank that has made the fewest; 0 when fewer than `ranks` processes report.
int64_t steps_of_slowest(const struct steps *s, int64_t ranks);
// The newest word on a path; NULL: none.
const struct step_save *steps_save_find(const struct steps *s, struct str path);
// is_ended: nothing more will be heard.
enum step_save_trust steps_save_trust(const struct steps *s, const struct step_save *save,
                                      bool is_ended);
// Drops all but the newest `keep` steps: a run of a day must not fill the memory.
void steps_forget(struct steps *s, ptrdiff_t keep);
// Samples of all ranks once each has made `made` steps: of those whose step is still kept what they
// say, of the others (also those that have not spoken yet) as many as `rank` has. -1: unknown.
int64_t steps_samples_after(const struct steps *s, int rank, int64_t made, int64_t samples);

// Progress that a training prints: the bars and lines of the usual frameworks, by one table of
// patterns. Where nothing tells of its steps otherwise, what it counts up regularly are its steps.

// What one line says of a place in a training. -1: not said.
struct printed_line {
    int64_t number, total;
    bool is_validation;
    bool is_step; // it counts steps or batches, by its words; else: samples, or nobody knows what
    uint64_t label; // the same for all lines of a kind
};
// False: it tells of none. Without its end; escape sequences are skipped.
bool steps_printed_read(struct str line, struct printed_line *ret_line);

enum { PRINTED_LINE_BYTES = 512, PRINTED_BARS = 8, PRINTED_SPANS = 256 };
// One stream of output: the line that is being read. Of a longer one only the beginning counts.
struct printed_source {
    char line[PRINTED_LINE_BYTES];
    ptrdiff_t length;
};
// What counts up: between two lines some steps were made, in some time.
struct printed_bar {
    uint64_t label;
    int64_t number, last_ns, made; // made: since its first line
    struct printed_span {
        int64_t steps;
        double ms;
    } spans[PRINTED_SPANS]; // the first ones
    ptrdiff_t count;
    char example[80];
};
struct printed {
    struct printed_bar bars[PRINTED_BARS];
    int count;
    int64_t lines; // that told of progress, of any kind
};
void steps_printed_feed(struct printed *p, struct printed_source *source, struct str bytes,
                        int64_t now_ns);
// The bar that has counted up the farthest and does so regularly; NULL: none.
const struct printed_bar *steps_printed_best(const struct printed *p);
// Its steps as those of a training that says only how long they took; `samples`: of each, -1:
// unknown.
void steps_printed_take(const struct printed_bar *bar, int64_t samples, struct steps *steps);
