// SPDX-License-Identifier: Apache-2.0
// PyTorch's CUDA caching allocator, simulated, and a tape replayed through it. Says how much a plan
// allocates, what the allocator holds, the least capacity in which it runs, and who stands at the
// peak. No GPU, no clock; one core, no threads inside (a struct sim belongs to one thread).
//
// Rules after c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 to 2.9, whose default behaviour on
// sizes is the same. `capacity` is what the allocator may take from the driver: the GPU's memory
// less everything outside the allocator.
#pragma once

#include "predict/tape/tape.h"

#define SIM_UNLIMITED ((int64_t)1 << 62)

// PYTORCH_CUDA_ALLOC_CONF, and what the simulation itself adds.
struct sim_options {
    bool expandable_segments;
    int64_t max_split_bytes;              // SIM_UNLIMITED: not set
    int64_t max_non_split_rounding_bytes; // 20 MiB (2.6 on; the fixed value before)
    int64_t large_segment_bytes;          // 20 MiB (an option after 2.9)
    int64_t roundup_bypass_bytes;         // SIM_UNLIMITED: not set (1.13 only)
    int64_t roundup_divisions[16];        // by size from 1 MiB to 32 GiB and above; 0 or 1: off
    double garbage_collection_threshold;  // 0: off. Does nothing without memory_fraction
    double memory_fraction;               // of device_bytes; 0: not set
    int64_t device_bytes; // the whole GPU, for memory_fraction and the virtual range of
                          // expandable segments; 0: the capacity, and a range without end
    bool scratch;         // pessimistic: each `w` is allocated and freed at once
};
struct sim_options sim_options_default(void);
// What cudaMalloc is asked for when the cache has no place for a rounded size.
int64_t sim_cache_segment_size(const struct sim_options *options, int64_t size);
// Adds the options of a PYTORCH_CUDA_ALLOC_CONF text to *options. Options without effect on sizes
// are accepted; an unknown one is FAIL_INPUT with the nearest names, and so is
// backend:cudaMallocAsync, whose rules are the driver's. *options is untouched on failure.
int sim_options_parse(struct str text, struct sim_options *options, struct fail *why);

// One tape and one set of options, prepared for many replays. Lives in the arena, which grows a
// little with the first replays and then no more. The tape must outlive it.
struct sim;
struct sim *sim_prepare(struct arena *a, const struct tape *t, const struct sim_options *options);

// Peaks between two phase marks of the tape.
struct sim_phase {
    int32_t event; // its mark's index in the tape's events; -1: before the first mark
    int32_t step;
    uint8_t phase; // enum tape_phase; TAPE_INIT before the first mark
    int64_t allocated_bytes, reserved_bytes;
};

struct sim_result {
    bool oom;                // it does not run; the figures below hold up to that event
    int32_t oom_event;       // index in the tape's events, -1: none
    int64_t oom_bytes;       // what PyTorch would print: "Tried to allocate", the segment's size
    int64_t allocated_bytes; // peaks; allocated counts whole blocks, as torch does
    int64_t reserved_bytes;
    int32_t allocated_event, reserved_event; // where the peaks are first reached; -1: no allocation
    int64_t end_bytes;                       // still allocated after the last event
    int32_t events;                          // of the tape, replayed
    int32_t retries;                         // num_alloc_retries: the cache had to be given back
    int32_t segments;                        // asked of the driver (expandable: mappings)
    // Every capacity from same_from_bytes up to but without same_below_bytes gives this result.
    int64_t same_from_bytes, same_below_bytes;
    // The phases reached; the array is the sim's and holds until its next replay.
    const struct sim_phase *phases;
    int32_t phase_count;
};
// Runs the tape from an empty allocator. Classes 0: the header's.
void sim_replay(struct sim *s, int64_t batch, int64_t classes, int64_t capacity_bytes,
                struct sim_result *ret);

// The peak of live bytes, each rounded as the allocator rounds: no capacity below it can do. An
// order of magnitude cheaper than a replay.
int64_t sim_live_peak(struct sim *s, int64_t batch, int64_t classes);
// Whether that peak is at most so many bytes. Of many batches asked one after the other most are
// answered by the two before.
bool sim_live_within(struct sim *s, int64_t batch, int64_t classes, int64_t bytes);

// "Does it fit" is not monotone in the capacity: giving back the cache changes later fits. So the
// least capacity is not found by bisection; every capacity at which anything changes is tried.
struct sim_need {
    bool runs;            // false: it does not even run without a limit (a size beyond 2^60)
    int64_t needed_bytes; // the least capacity at which the tape runs
    bool needed_exact;    // false: the bound on replays was reached; the figure is then a capacity
                          // that is known to do, with one just below it that fails
    int32_t replays;
    struct sim_result free; // the replay without a limit; its phases are not kept
};
enum { SIM_NEED_REPLAYS = 4000 }; // a fair bound for max_replays: about a second
// When the bound is reached, a dozen replays more find the figure.
void sim_needed(struct sim *s, int64_t batch, int64_t classes, int32_t max_replays,
                struct sim_need *ret);

// A sum over the allocations alive at the peak.
struct sim_share {
    struct str name; // "unknown" where the tape does not say
    int64_t bytes;
    int32_t count;
};
struct sim_shares { // largest first
    struct sim_share *items;
    ptrdiff_t count, capacity;
};
struct sim_holder {
    const struct tape_alloc *alloc;
    int64_t bytes; // of its block
    int64_t requested_bytes;
};
struct sim_holders {
    int32_t event, step; // where allocated first reaches its peak; event -1: nothing was allocated
    uint8_t phase;
    struct str op, module;   // of the allocation that made the peak
    int64_t allocated_bytes; // the sum of every list below; scratch is in none
    int64_t reserved_bytes;  // at that moment
    int64_t requested_bytes; // allocated less the allocator's rounding
    bool oom;                // the tape does not run in this capacity: the peak is before its end
    struct sim_shares tags, ops;
    struct sim_shares modules;  // by full path
    struct sim_shares tops;     // by the path's first part, with its number: "layers.2", "head"
    struct sim_holder *largest; // single allocations, at most `top`
    int largest_count;
};
void sim_peak_holders(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                      int64_t capacity_bytes, int top, struct sim_holders *ret);
// The same by tags alone, which is cheaper: the other lists stay empty.
void sim_peak_tags(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                   int64_t capacity_bytes, struct sim_holders *ret);

// The course of memory along the tape, thinned out to at most `points` points. A point stands for
// the events after the point before it, up to and with `event`, and shows the highest moment. Only
// what is there between events is shown: no scratch.
struct sim_point {
    int32_t event; // the last one of the point
    int64_t allocated_bytes, reserved_bytes;
    int64_t tags[TAPE_TAG_COUNT]; // what makes up allocated_bytes
};
struct sim_timeline {
    struct sim_point *points;
    int count;
    struct sim_phase *phases; // where the phases begin
    int phase_count;
    bool oom;
};
void sim_timeline(struct arena *a, struct sim *s, int64_t batch, int64_t classes,
                  int64_t capacity_bytes, int points, struct sim_timeline *ret);

// The option --alloc-conf, which every verb that simulates takes.

// The defaults and, unless `text` is NULL, the text of PYTORCH_CUDA_ALLOC_CONF on top of them;
// "env" reads PYTORCH_ALLOC_CONF (torch 2.9 on, it wins) or PYTORCH_CUDA_ALLOC_CONF.
int sim_alloc_conf_read(const char *text, struct sim_options *ret_options, struct fail *why);
