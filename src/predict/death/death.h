// SPDX-License-Identifier: Apache-2.0
// Why one GPU of a memory snapshot ran out, and what would have helped: who held the memory, leak,
// peak, fragmentation or a limit, with the figures that decide; and the history replayed in the
// simulator under other settings of the allocator and at smaller batches.
#pragma once

#include "predict/sim/sim.h"
#include "predict/snapshot/snapshot.h"

enum { DEATH_HOLDERS = 12, DEATH_CASES = 8 };

enum death_verdict { // the first that holds is the answer; the others that hold are said, too
    DEATH_LIMIT,     // the GPU had the memory; a limit of the program's own did not let it be taken
    DEATH_LEAK,      // what earlier steps left behind is more than was missing
    DEATH_FRAGMENTED,
    DEATH_PEAK,
    DEATH_VERDICTS
};
struct death_holder {     // equal stack and kind
    int32_t stack, steps; // made in so many steps of the history
    uint8_t kind;
    int64_t bytes, count;
};
struct death_share {
    uint8_t kind;
    int64_t bytes, count;
};
// The history once more, under other settings.
struct death_case {
    const char *conf; // PYTORCH_CUDA_ALLOC_CONF, added to the file's; "": as it was
    bool runs;
    int64_t needed; // least capacity; -1: not computed
    int64_t spare;  // capacity - needed; negative: short by so much
};
struct death_batch {
    int64_t batch;    // 0: not even one
    const char *conf; // "" or with expandable segments
};
enum death_replay {
    DEATH_SAME,       // the simulator dies where the program died
    DEATH_EARLIER,    // it dies before
    DEATH_LATER,      // it lives on
    DEATH_NOT_PLAYED, // no history, no out-of-memory, or no figure of what was free
};
struct death {
    const struct snapshot_history *history;
    bool holds[DEATH_VERDICTS];
    int64_t capacity; // what the allocator had and could get: reserved + free; -1: not known
    int64_t missing;  // asked for less what the GPU had free; -1
    struct death_share kinds[SNAPSHOT_KIND_COUNT]; // largest first
    int kind_count;
    struct death_holder holders[DEATH_HOLDERS]; // largest first
    int holder_count;
    int64_t leak_bytes, leak_per_step; // what at least three earlier steps left behind
    struct death_holder leak;          // its largest part
    enum death_replay replay;
    struct death_case cases[DEATH_CASES];
    int case_count;
    int64_t batch; // as given; 0: not
    struct death_batch batches[2];
    int batch_count;
    int64_t fixed_bytes;    // see snapshot_tape
    struct str conf_unread; // the file's settings that the simulator does not know
};
// batch 0: not known.
void death_judge(struct arena *a, const struct snapshot_history *h, int64_t batch,
                 struct death *ret);
// whatif.c: the replays.
void death_replay(struct arena *a, struct death *d);
