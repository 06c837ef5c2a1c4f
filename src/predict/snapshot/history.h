// SPDX-License-Identifier: Apache-2.0
// One GPU of a snapshot: every allocation with its birth and death, the moment that is asked about
// (the out-of-memory, else the peak), whose the bytes were then, and the steps of the training.
#pragma once

#include "predict/snapshot/snapshot.h"
#include "predict/tape/tape.h"

enum { SNAPSHOT_BEFORE = -1, SNAPSHOT_NEVER = INT32_MAX };

// Which part of a training a stack belongs to; places.c has the rules.
enum snapshot_place {
    SNAPSHOT_NOWHERE, // no rule knows it
    SNAPSHOT_LOADING, // weights are made, loaded or moved
    SNAPSHOT_STATE,   // the optimizer makes its state
    SNAPSHOT_STEPPING,
    SNAPSHOT_EXCHANGE, // between GPUs
    SNAPSHOT_CACHING,
    SNAPSHOT_LIBRARY, // work spaces
    SNAPSHOT_FEEDING, // a batch comes
    SNAPSHOT_BACKWARD,
    SNAPSHOT_FORWARD,
    SNAPSHOT_PROGRAM, // the program's own lines, nothing of PyTorch's in between
    SNAPSHOT_PLACE_COUNT
};
enum snapshot_kind {
    SNAPSHOT_WEIGHTS,
    SNAPSHOT_GRADIENTS,
    SNAPSHOT_OPTIMIZER,
    SNAPSHOT_ACTIVATIONS,
    SNAPSHOT_PASSING, // backward's own or an optimizer step's: gone soon
    SNAPSHOT_INPUTS,
    SNAPSHOT_KEPT, // made in an earlier step, still there
    SNAPSHOT_CACHES,
    SNAPSHOT_WORKSPACES,
    SNAPSHOT_BUCKETS,
    SNAPSHOT_UNKNOWN,
    SNAPSHOT_KIND_COUNT
};
struct snapshot_word {
    const char *id, *text;
};
extern const struct snapshot_word snapshot_kinds[SNAPSHOT_KIND_COUNT];

struct snapshot_alloc {
    int64_t address, requested, bytes; // bytes: of its block
    int32_t born, died;                // events of the history; SNAPSHOT_BEFORE, SNAPSHOT_NEVER
    int32_t stack;
    int32_t step; // in which it was made; -1: before the history
    int32_t pool; // 0: the common one of the first stream; 1, 2, … as they come
    uint8_t place, kind;
};

struct snapshot_step { // a stretch of the history
    int32_t first;     // event
    uint8_t phase;     // enum snapshot_place: FORWARD, BACKWARD, STEPPING, FEEDING, LOADING
    int32_t step;
};

struct snapshot_history {
    const struct snapshot *of;
    int gpu;
    const struct snapshot_event *events;
    int32_t event_count;
    struct snapshot_alloc *allocs; // those from before by address, then by birth
    ptrdiff_t count, capacity;
    int32_t *alloc_of;                  // by event: the allocation that is made or freed; -1
    int64_t before_count, before_bytes; // there when the history begins
    uint8_t *places;                    // by stack
    bool has_stacks;                    // of allocations in the history
    bool has_optimizer;                 // an optimizer's lines are among them
    struct snapshot_step *phases;
    ptrdiff_t phase_count, phase_capacity;
    int32_t steps; // begun
    // The moment.
    bool is_oom;
    int32_t moment;             // an event; -1: the file's end without a history
    int64_t asked, device_free; // of the oom; -1
    int32_t oom_stack;
    uint8_t phase;                          // of the moment
    int32_t step;                           // of the moment
    int64_t allocated, requested, reserved; // reserved -1: not known
    int64_t live;                           // allocations
    int64_t holes, largest_hole;            // free inside of what is reserved; -1: not known
    int32_t ooms;
};
// The GPUs of a snapshot that have anything to say.
bool snapshot_has(const struct snapshot *s, int gpu);
void snapshot_look(struct arena *a, const struct snapshot *s, int gpu,
                   struct snapshot_history *ret);
static inline bool snapshot_lives(const struct snapshot_alloc *x, int32_t moment) {
    return x->born <= moment && x->died > moment;
}
// "train.py:57 forward": the innermost frame that is the user's own, else the innermost one; empty
// where there is none.
struct str snapshot_place_text(struct arena *a, const struct snapshot *s, int32_t stack);

// tape.c: the history up to the moment, and what was asked for there, as a tape. Sizes are those of
// the file; with a batch those of activations, inputs and what backward passes on are shared out
// over it where that goes without a rest. FAIL_INPUT: there is no history, or it is too long.
struct snapshot_tape_options {
    int64_t batch; // 0: not known
    bool whole;    // to the end of the history, not to the moment
};
struct snapshot_tape_notes {
    int64_t fixed_bytes;   // of activations at the moment whose size the batch does not divide
    int64_t scaling_bytes; // of what does
};
int snapshot_tape(struct arena *a, const struct snapshot_history *h,
                  const struct snapshot_tape_options *o, struct tape *ret,
                  struct snapshot_tape_notes *ret_notes, struct fail *why);
