// SPDX-License-Identifier: Apache-2.0
// Causes that the processes of a training show from outside.
#include "machine/cause/cause_int.h"

static bool card_is_busy(const struct cause_facts *f) {
    return f->utilisation >= 0.7; // the team's guide; unknown is not busy
}

bool cause_disk(const struct cause_view *v, struct cause *c) {
    const struct cause_process *p = &v->facts->process;
    if (!(p->disk_share >= 0.3) || card_is_busy(v->facts)) return false;
    return cause_tell(v, c, cause_measured(p->looks),
                      "in %.0f %% of %td samples over %.0f s a thread waited for a disk (state D)",
                      100 * p->disk_share, p->looks, p->seconds);
}

// Without a GPU that is seen to wait it may as well be what a busy loop does while the GPU works.
bool cause_one_core(const struct cause_view *v, struct cause *c) {
    const struct cause_process *p = &v->facts->process;
    if (!(p->main_thread >= 0.9) || !(p->cpus < p->main_thread + 0.5)) return false;
    if (card_is_busy(v->facts)) return false;
    bool is_idle = v->facts->utilisation < 0.7;
    return cause_tell(v, c, is_idle ? cause_measured(p->looks) : CAUSE_CONSISTENT,
                      "one thread is busy %.0f %% of the time, the whole training uses %.1f cores, "
                      "over %.0f s",
                      100 * p->main_thread, p->cpus, p->seconds);
}

bool cause_workers_pace(const struct cause_view *v, struct cause *c) {
    const struct cause_process *p = &v->facts->process;
    if (p->workers < 1 || !(p->workers_busy >= 0.9) || card_is_busy(v->facts)) return false;
    if (p->main_thread >= 0.9) return false;
    return cause_tell(v, c, cause_measured(p->looks),
                      "%d workers use %.0f %% of a core each, the training thread %.0f "
                      "%%, over %.0f s",
                      p->workers, 100 * p->workers_busy, 100 * p->main_thread, p->seconds);
}

bool cause_files_low(const struct cause_view *v, struct cause *c) {
    const struct cause_process *p = &v->facts->process;
    if (p->open_files < 0 || p->open_files_limit <= 0) return false;
    if (p->open_files * 10 < p->open_files_limit * 9) return false;
    return cause_tell(v, c, CAUSE_MEASURED, "%lld of %lld files are open", (long long)p->open_files,
                      (long long)p->open_files_limit);
}
