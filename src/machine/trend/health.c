// SPDX-License-Identifier: Apache-2.0
// A GPU that goes wrong while we watch: lost, reporting errors, its counters of them growing. All
// well is not said; check says it.
#include "machine/trend/trend_int.h"

#include <math.h>
#include <stddef.h>

bool trend_state(const struct trend *t, struct finding *f) {
    enum device_state state = t->stretch->state;
    const char *reason = t->stretch->reason ? t->stretch->reason : "";
    if (state == DEVICE_UNREACHABLE) {
        return finding_say(f, FINDING_PROBLEM, STR("no answer"), str_copy(t->arena, str_of(reason)),
                           "does batchfit serve run there, and listen to this machine (--address, "
                           "--token-file)?");
    }
    if (state != DEVICE_LOST && state != DEVICE_HANGS) return false;
    return finding_say(
        f, FINDING_PROBLEM, str_of(device_state_name(state)), str_copy(t->arena, str_of(reason)),
        state == DEVICE_LOST ? "end what uses it; `nvidia-smi -r` or a reboot may bring it back; "
                               "if it is lost again, check power, cooling and seating"
                             : "look for Xid in dmesg; a process in state D waits for it");
}

// NVIDIA's Xid catalogue: what asks for a reset, what may, and what a program does wrong by itself.
static const struct {
    int64_t xid;
    enum finding_severity severity;
    const char *what, *remedy;
} xids[] = {
    {13, FINDING_NOTE, "a kernel failed", "usually the program: an index out of range"},
    {31, FINDING_NOTE, "a memory page fault", "usually the program: an address out of range"},
    {43, FINDING_NOTE, "a channel was stopped", "usually the program"},
    {45, FINDING_NOTE, "a channel was stopped with its program", NULL},
    {48, FINDING_PROBLEM, "a double-bit ECC error", "reset the GPU; replace it if it comes back"},
    {62, FINDING_PROBLEM, "the GPU's controller halted", "reset the GPU"},
    {63, FINDING_NOTE, "a memory row was replaced", "reset the GPU when convenient"},
    {64, FINDING_PROBLEM, "a memory row could not be replaced", "have the GPU replaced"},
    {74, FINDING_PROBLEM, "an NVLink error", "reset the GPU; check the link"},
    {79, FINDING_PROBLEM, "the GPU fell off the bus", "reboot; check power, cooling and seating"},
    {92, FINDING_NOTE, "many single-bit ECC errors", NULL},
    {94, FINDING_WARNING, "a contained ECC error", "restart the program that hit it"},
    {95, FINDING_PROBLEM, "an uncontained ECC error", "reset the GPU"},
    {119, FINDING_PROBLEM, "the GPU's CPU (GSP) does not answer", "reset the GPU"},
    {120, FINDING_PROBLEM, "the GPU's CPU (GSP) failed", "reset the GPU"},
};

bool trend_xid(const struct trend *t, struct finding *f) {
    const struct trend_stretch *k = t->stretch;
    int64_t xid = k->gauge_count ? k->gauges[k->gauge_count - 1].xid : -1;
    if (xid <= 0) return false;
    size_t i = 0, count = sizeof xids / sizeof *xids;
    while (i < count && xids[i].xid != xid) i++;
    bool is_known = i < count;
    struct str value = str_format(t->arena, "Xid %lld", (long long)xid);
    struct str evidence =
        str_format(t->arena, "the driver reported Xid %lld while watching%s%s", (long long)xid,
                   is_known ? ": " : "", is_known ? xids[i].what : "");
    return finding_say(f, is_known ? xids[i].severity : FINDING_WARNING, value, evidence,
                       is_known ? xids[i].remedy : "dmesg has the full message");
}

// How much a counter grew over the stretch, resets apart; -1: unknown.
static int64_t grown(const struct trend_stretch *k, size_t offset) {
    int64_t sum = 0, before = -1;
    bool is_known = false;
    for (ptrdiff_t i = 0; i < k->gauge_count; i++) {
        int64_t now = *(const int64_t *)(const void *)((const char *)&k->gauges[i] + offset);
        if (now < 0) continue;
        if (before >= 0) {
            sum += now >= before ? now - before : now;
            is_known = true;
        }
        before = now;
    }
    return is_known ? sum : -1;
}

bool trend_ecc(const struct trend *t, struct finding *f) {
    int64_t worse = grown(t->stretch, offsetof(struct device_gauges, ecc_uncorrected));
    int64_t mended = grown(t->stretch, offsetof(struct device_gauges, ecc_corrected));
    if (worse > 0) {
        return finding_tell(t->arena, f, FINDING_PROBLEM,
                            str_format(t->arena, "%lld", (long long)worse),
                            "do not trust results since then: go back to a checkpoint, reset the "
                            "GPU, replace it if they recur",
                            "%lld uncorrected errors while watching", (long long)worse);
    }
    if (mended <= 0) return false;
    return finding_tell(t->arena, f, FINDING_NOTE,
                        str_format(t->arena, "%lld corrected", (long long)mended), NULL,
                        "%lld corrected errors while watching", (long long)mended);
}

// One now and then is a disturbance, which the link mends by itself.
enum { REPLAYS_A_MINUTE = 10 };

bool trend_replays(const struct trend *t, struct finding *f) {
    const struct trend_stretch *k = t->stretch;
    int64_t replays = grown(k, offsetof(struct device_gauges, pcie_replays));
    if (replays <= 0) return false;
    double seconds = trend_seconds(&k->gauges[0], &k->gauges[k->gauge_count - 1]);
    double a_minute = (double)replays / fmax(seconds, 60) * 60;
    bool is_bad = a_minute >= REPLAYS_A_MINUTE;
    return finding_tell(t->arena, f, is_bad ? FINDING_WARNING : FINDING_NOTE,
                        str_format(t->arena, "%.0f replays a minute", a_minute),
                        is_bad ? "reseat the GPU; check the riser or the slot" : NULL,
                        "%lld packets were sent again in %.0f s", (long long)replays, seconds);
}
