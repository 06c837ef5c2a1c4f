// SPDX-License-Identifier: Apache-2.0
// Tells a process that was refused memory and does not give up. OpenBLAS is one: where it gets no
// buffer it asks again, by one system call after the other, for ever (blas_memory_alloc of its
// driver/others/memory.c; seen with Debian's 0.3.21). From outside that is a process that works in
// the kernel most of its time and gets no page for it.
#include "measure/trial/trial_int.h"

#include <unistd.h>

static const double SPIN_S = 10;       // no training works so long without one new page
static const double SPIN_CPU_S = 1;    // of that; a busy machine lets it run seldom
static const double KERNEL_SHARE = .5; // of its time, at least; OpenBLAS in its loop: 0.78
// Twice what OpenBLAS asks for (BUFFER_SIZE of its common_x86_64.h, 32 << 22).
static const int64_t ROOM_BYTES = INT64_C(256) << 20;

bool trial_spin_sees(struct spin *s, const struct tree_process *p, int64_t room_bytes,
                     int64_t now_ns) {
    bool is_same = s->since_ns > 0 && p->pid == s->first.pid &&
                   p->start_ticks == s->first.start_ticks && p->faults == s->first.faults;
    if (!is_same || room_bytes > ROOM_BYTES) {
        *s = (struct spin){*p, now_ns};
        return false;
    }
    double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    double kernel_s = (double)(p->kernel_ticks - s->first.kernel_ticks) / ticks_per_s;
    double user_s = (double)(p->user_ticks - s->first.user_ticks) / ticks_per_s;
    double seconds = (double)(now_ns - s->since_ns) / 1e9, cpu_s = kernel_s + user_s;
    return seconds >= SPIN_S && cpu_s >= SPIN_CPU_S && kernel_s >= KERNEL_SHARE * cpu_s;
}
