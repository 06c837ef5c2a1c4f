// SPDX-License-Identifier: Apache-2.0
// A rank's memory on the host. Shared by the files of this room.
#pragma once

#include "predict/tape/tape.h"

// The host's memory as torch has it: what is not pinned comes and goes; what is pinned is rounded
// to a power of two and kept for others of that size.
struct tape_host {
    bool is_paged; // nothing is pinned
    int64_t paged, pinned, most;
    int32_t spare[63]; // pinned blocks that nobody has, by the power
};
void tape_host_page(struct tape_host *h, int64_t bytes);
void tape_host_unpage(struct tape_host *h, int64_t bytes);
void tape_host_pin(struct tape_host *h, int64_t bytes);
void tape_host_unpin(struct tape_host *h, int64_t bytes);
// What is for disks passes through buffers of the aio library, which are locked as they are.
void tape_host_lock(struct tape_host *h, int64_t bytes);
// Made as any tensor is, and pinned then unless is_paged.
void tape_host_put(struct tape_host *h, int64_t bytes);
void tape_host_tell(const struct tape_host *h, struct tape *ret); // in its header

// Takes what is the host's out of a tape that was just read or made, and puts its bytes into the
// header: the most there is at once, and how much of it is pinned.
void tape_host_leave(struct tape *t);
