// SPDX-License-Identifier: Apache-2.0
// One stream of the command's output on its way to ours: what is read is kept for the ending (log)
// and written on, unchanged. Ours is not made non-blocking (it is shared with whoever gave it to
// us); instead no more is written than it takes at once: a pipe that poll calls writable takes
// PIPE_BUF bytes (pipe(7)). When nobody reads ours any more, the command goes on and its output is
// dropped.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { OUTPUT_AT_ONCE = 4 << 20, WRITE_AT_ONCE = 4096 }; // then the rest has its turn; PIPE_BUF

// False: nothing more goes out now.
static bool write_some(struct pass *p, bool waits) {
    struct pollfd to = {.fd = p->to_fd, .events = POLLOUT};
    if (!waits && poll(&to, 1, 0) <= 0) return false;
    ptrdiff_t bytes = p->end - p->begin;
    if (bytes > WRITE_AT_ONCE) bytes = WRITE_AT_ONCE;
    ssize_t n = write(p->to_fd, p->bytes + p->begin, (size_t)bytes);
    if (n > 0) p->begin += n;
    if (n > 0 || (n < 0 && errno == EINTR && !waits)) return n > 0;
    if (n < 0 && errno == EAGAIN) { // somebody else made it non-blocking
        if (waits) (void)poll(&to, 1, -1);
        return waits;
    }
    p->to_fd = -1; // closed, or a full disk; or a signal while we wait for a reader at the end
    return false;
}

static bool flush(struct pass *p, bool waits) {
    while (p->to_fd >= 0 && p->begin < p->end) {
        if (!write_some(p, waits) && p->to_fd >= 0) return false;
    }
    p->begin = p->end = 0;
    return true;
}

void trial_pass_move(struct pass *p, struct log *l, bool waits) {
    for (ptrdiff_t total = 0; flush(p, waits) && p->from_fd >= 0 && total < OUTPUT_AT_ONCE;) {
        ssize_t n = read(p->from_fd, p->bytes, sizeof p->bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        if (n == 0) {
            os_close(&p->from_fd);
            p->from_fd = -1;
            return;
        }
        trial_log_add(l, (struct str){p->bytes, n});
        if (p->printed)
            steps_printed_feed(p->printed, &p->source, (struct str){p->bytes, n}, os_now_ns());
        p->end = n;
        total += n;
    }
}
