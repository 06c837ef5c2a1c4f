// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot; doc/formats/snapshot.md): what the
// caching allocator of each GPU held, and the history of how it came to that. This room reads the
// file, tells whose the bytes are, and makes a tape of it. A snapshot is a pickle; nothing in it is
// ever executed: an opcode that would call or look up something is refused.
#pragma once

#include "base/fail.h"
#include "base/str.h"

enum {
    SNAPSHOT_GPUS = 64,        // a reader's limit
    SNAPSHOT_POOLS = 64,       // those beyond share the last
    SNAPSHOT_DEPTH = 1024,     // frames of a stack
    SNAPSHOT_TEXT_MOST = 4096, // of a text; what is longer is cut
};
#define SNAPSHOT_ROOM_MOST ((int64_t)1 << 30) // what reading may take beside the file

enum snapshot_action {
    SNAPSHOT_OTHER, // one that we do not know
    SNAPSHOT_ALLOC,
    SNAPSHOT_FREE_REQUESTED,
    SNAPSHOT_FREE_COMPLETED,
    SNAPSHOT_SEGMENT_ALLOC,
    SNAPSHOT_SEGMENT_FREE,
    SNAPSHOT_SEGMENT_MAP,
    SNAPSHOT_SEGMENT_UNMAP,
    SNAPSHOT_OOM,
    SNAPSHOT_TAKEN,
    SNAPSHOT_ACTION_COUNT
};

struct snapshot_frame {
    int32_t file, name, line; // of texts; 0: none
};
struct snapshot_stack {   // innermost frame first
    int32_t first, count; // in stack_frames
};
struct snapshot_event {
    int64_t address; // of an oom: what the GPU had free; -1: not in the file
    int64_t size;
    int32_t stack; // in stacks; 0: none
    uint8_t action, pool;
};
struct snapshot_pool { // a stream's, or a private one of a stream
    int64_t stream;
    int32_t high, low; // 0, 0: not private
};
enum snapshot_state { SNAPSHOT_INACTIVE, SNAPSHOT_ACTIVE, SNAPSHOT_AWAITS_FREE };
struct snapshot_block {
    int64_t address, size, requested; // requested: -1: not in the file
    int32_t stack;
    int32_t history; // while reading; see room's object.c
    uint8_t state;
};
struct snapshot_segment {
    int64_t address, bytes;
    int32_t device, pool;
    int32_t first, count; // in blocks
    bool expandable;
};
struct snapshot_settings {
    bool known;
    struct str conf;         // PYTORCH_CUDA_ALLOC_CONF as torch last read it
    int expandable;          // 0, 1 or -1
    int64_t max_split_bytes; // -1: not set
    double gc_threshold;     // 0 or NaN: not set
    int64_t roundup[16];     // roundup_power2_divisions, from 1 MiB on; 0: none
};
struct snapshot_trace {   // of a GPU
    int32_t first, count; // in events
};

struct snapshot {
    struct str name;
    int64_t bytes, protocol;
    struct str *texts; // [0] is empty
    struct snapshot_frame *frames;
    struct snapshot_stack *stacks; // [0] is empty; equal stacks have one number
    int32_t *stack_frames;
    struct snapshot_event *events;
    struct snapshot_block *blocks;
    struct snapshot_segment *segments;
    ptrdiff_t text_count, frame_count, stack_count, stack_frame_count;
    ptrdiff_t event_count, block_count, segment_count;
    struct snapshot_pool pools[SNAPSHOT_POOLS]; // [0] is the default stream's
    int pool_count;
    struct snapshot_trace traces[SNAPSHOT_GPUS];
    int trace_count; // 0: the file has no history
    struct snapshot_settings settings;
    int64_t texts_cut; // how many texts were longer than SNAPSHOT_TEXT_MOST
};

// Whether a file begins like one: a pickle of protocol 2 to 5.
bool snapshot_is_pickle(struct str head);
// Everything in *ret lives in the arena. FAIL_INPUT: no such file, no pickle, one that wants to
// call something, broken, or no snapshot.
int snapshot_read(struct arena *a, const char *path, struct snapshot *ret, struct fail *why);
int snapshot_read_bytes(struct arena *a, struct str name, struct str bytes, struct snapshot *ret,
                        struct fail *why);
