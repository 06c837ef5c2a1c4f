// SPDX-License-Identifier: Apache-2.0
// What a tree of processes takes from the machine: PSS, in which a page that n of them map counts
// as n parts of one (proc_pid_smaps(5)). The sum of RSS counts it n times: four data workers of a
// small training make twice of it.
//
// Allocates nothing: the guardian looks, too.
#include "measure/trial/trial_int.h"

#include "base/os.h"

// Reading PSS holds up the processes that are looked at, so it may take this part of the time: the
// first where something new may show, the second in any case.
enum { COST_SOON = 20, COST_LATER = 50 };
// Where something new may show, a reading that took long because the machine is busy does not put
// off the next one for longer: a peak of half a second is seen.
static const int64_t SOON_NS = 250000000;

static const struct meter_mark *mark_of(const struct meter *m, const struct tree_process *p) {
    int low = 0, high = m->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (m->marks[middle].pid < p->pid)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_same = low < m->count && m->marks[low].pid == p->pid &&
                   m->marks[low].start_ticks == p->start_ticks;
    return is_same ? &m->marks[low] : NULL;
}

// Sums up what the processes hold. How far the one that rose most stood above where it is now,
// since the look before (at any time, where it is new and alone): *ret_gone_bytes. Whether the
// processes are others than before.
static bool look_at_each(struct meter *m, const struct tree *t, int64_t *ret_gone_bytes) {
    struct meter_mark marks[METER_MOST];
    struct tree_memory sum = {.rss_bytes = -1, .largest_hwm_bytes = -1, .largest_data_bytes = -1};
    int count = 0, known = 0;
    int64_t alone_bytes = 0; // how far the last stood higher at any time
    *ret_gone_bytes = 0;
    for (int i = 0; i < t->count; i++) {
        const struct tree_process *p = &t->items[i];
        struct tree_held held;
        if (!trial_tree_held(t, p, &held)) continue;
        sum.processes++;
        sum.rss_bytes = sum.rss_bytes < 0 ? held.rss_bytes : sum.rss_bytes + held.rss_bytes;
        if (held.hwm_bytes > sum.largest_hwm_bytes) sum.largest_hwm_bytes = held.hwm_bytes;
        if (held.data_bytes > sum.largest_data_bytes) {
            sum.largest_data_bytes = held.data_bytes;
            sum.largest_data = p;
        }
        const struct meter_mark *before = mark_of(m, p);
        known += before != NULL;
        bool has_risen = before && held.hwm_bytes > before->hwm_bytes;
        alone_bytes = held.hwm_bytes - held.rss_bytes;
        if (has_risen && alone_bytes > *ret_gone_bytes) *ret_gone_bytes = alone_bytes;
        if (count == METER_MOST) continue;
        marks[count++] = (struct meter_mark){p->pid, p->start_ticks, held.hwm_bytes};
    }
    // What is new may have got its mark from who forked it, and with others that counts already.
    if (sum.processes == 1 && known == 0) *ret_gone_bytes = alone_bytes;
    bool is_other = known != m->count || count != m->count;
    for (int i = 0; i < count; i++) m->marks[i] = marks[i];
    m->count = count;
    m->last = sum;
    return is_other;
}

static void read_pss(struct meter *m, const struct tree *t, int64_t now_ns) {
    int64_t begin_ns = os_now_ns(), bytes = trial_tree_pss(t);
    m->read_ns = now_ns;
    m->read_cost_ns = os_now_ns() - begin_ns;
    m->is_exact = bytes >= 0;
    if (bytes < 0) return;
    // What was mapped between the two readings makes the difference too small, never the sum.
    m->shared_bytes = m->last.rss_bytes > bytes ? m->last.rss_bytes - bytes : 0;
    m->now_bytes = bytes;
}

void trial_meter_look(struct meter *m, const struct tree *t, int64_t most_bytes, int64_t now_ns) {
    int64_t gone_bytes;
    bool is_other = look_at_each(m, t, &gone_bytes);
    m->is_exact = false;
    if (m->last.rss_bytes < 0) return;
    int64_t estimate = m->last.rss_bytes - m->shared_bytes;
    m->now_bytes = estimate > 0 ? estimate : 0;
    bool is_limited = most_bytes >= 0;
    if (!is_limited) most_bytes = m->peak_bytes;
    bool is_news = is_other || m->now_bytes + gone_bytes > most_bytes;
    int64_t soon = is_limited ? 1 : COST_SOON;
    int64_t wait_ns = m->read_cost_ns * (is_news ? soon : COST_LATER);
    if (is_news && wait_ns > SOON_NS) wait_ns = SOON_NS;
    if (!m->read_ns || now_ns - m->read_ns >= wait_ns) read_pss(m, t, now_ns);
    // Of several processes the estimate may be far off: one that was just forked shares all it has.
    if (!m->is_exact && (m->last.processes > 1 || is_other)) return;
    m->is_exact = true;
    int64_t bytes = m->now_bytes + gone_bytes;
    if (bytes > m->peak_bytes) m->peak_bytes = bytes;
}

int64_t trial_meter_most(const struct meter *m, int64_t largest_rss_bytes) {
    if (largest_rss_bytes <= 0) return m->peak_bytes;
    int64_t bytes = largest_rss_bytes - m->shared_bytes;
    return bytes > m->peak_bytes ? bytes : m->peak_bytes;
}
