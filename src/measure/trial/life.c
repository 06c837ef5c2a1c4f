// SPDX-License-Identifier: Apache-2.0
// Whether a training whose steps are not seen does anything at all.
#include "measure/trial/trial_int.h"

#include <unistd.h>

// Of one CPU, since it last showed life: what timers and ranks that poll for a lost one take is
// less, and a training that hangs has them, too.
static const double TRICKLE_SHARE = .1;

void trial_life_see(struct life *l, const struct tree *t, int64_t output_bytes, int64_t line_ns,
                    int64_t now_ns) {
    int64_t ticks = trial_tree_ticks(t);
    if (ticks < l->ticks) l->ticks = ticks; // a process has left the tree
    double used_s = (double)(ticks - l->ticks) / (double)sysconf(_SC_CLK_TCK);
    bool works = used_s > TRICKLE_SHARE * (double)(now_ns - l->ns) / 1e9;
    bool speaks = output_bytes > l->output_bytes || line_ns > l->ns;
    l->looked_ns = now_ns;
    if (works || speaks) *l = (struct life){now_ns, now_ns, ticks, output_bytes};
}
