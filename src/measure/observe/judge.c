// SPDX-License-Identifier: Apache-2.0
// When the verdicts are asked for, and over which stretch: seldom, because slopes cost more than
// all the rest of a watch.
#include "measure/observe/observe_int.h"

#include "base/os.h"
#include "machine/device/device.h"

enum { SWAPS = 16 };
#define EVERY_NS INT64_C(5000000000)
#define FIRST_NS INT64_C(2500000000)
static const double stretch_seconds = 300, swap_seconds = 60;

struct judge {
    struct arena arena;
    struct arena_mark begin;
    int64_t next_ns;
    struct lives *lives;
    struct swap {
        int64_t at_ns, used_bytes;
    } swaps[SWAPS];
    int swap_count;
};

struct judge *observe_judge_open(struct arena *a) {
    struct judge *j = arena_new(a, struct judge, 1);
    arena_new(&j->arena, char, 1); // so that a rewind does not give the first chunk back
    j->begin = arena_mark(&j->arena);
    j->lives = observe_lives_open(a);
    j->next_ns = os_now_ns() + FIRST_NS;
    return j;
}

void observe_judge_close(struct judge *j) {
    if (j) arena_clear(&j->arena);
}

void observe_judge_shift(struct judge *j, int64_t ms) {
    observe_lives_shift(j->lives, ms);
}

// How much more is in swap than a minute ago; 0: not known.
static double swap_grown(struct judge *j, const struct observe_view *view) {
    const struct device_cpu_gauges *cpu = &view->cpu;
    if (!view->has_cpu || cpu->swap_used_bytes < 0) return 0;
    int keeps = 0;
    for (int i = 0; i < j->swap_count; i++) {
        bool is_old = (double)(cpu->at_ns - j->swaps[i].at_ns) > swap_seconds * 1e9;
        if (!is_old && keeps < SWAPS - 1) j->swaps[keeps++] = j->swaps[i];
    }
    j->swaps[keeps] = (struct swap){cpu->at_ns, cpu->swap_used_bytes};
    j->swap_count = keeps + 1;
    return (double)(cpu->swap_used_bytes - j->swaps[0].used_bytes);
}

static struct trend_stretch stretch_of(const struct observe_view *view, int place) {
    const struct device_card *card = &view->devices->cards[place];
    const struct observe_card *c = &view->cards[place];
    int64_t from_ns = view->at_ns - (int64_t)(stretch_seconds * 1e9);
    ptrdiff_t begin = c->history_count;
    while (begin > 0 && c->history[begin - 1].at_ns >= from_ns) begin--;
    return (struct trend_stretch){
        .gauges = c->history + begin,
        .gauge_count = c->history_count - begin,
        .sm_clock_max_mhz = card->facts.sm_clock_max_mhz,
        .state = card->state,
        .reason = card->reason,
        .is_unified = card->is_unified,
        .is_wsl = view->devices->is_wsl,
    };
}

// A driver that hangs, or that is there and cannot be used: without it there is no GPU to judge.
static void judge_driver(const struct device_snapshot *devices, struct arena *a,
                         struct findings *findings) {
    const char *remedy = device_code_remedy(devices->why_none);
    const bool hangs = devices->state == DEVICE_HANGS;
    bool is_broken = hangs || (devices->count == 0 && !devices->driver_is_absent && remedy);
    if (!is_broken) return;
    struct finding f = {.id = "trend.driver", .card = -1, .what = "NVIDIA driver"};
    struct str evidence = devices->why_none.len > 0
                              ? devices->why_none
                              : STR("the driver listed its GPUs and then stopped answering");
    finding_say(&f, FINDING_PROBLEM, hangs ? STR("does not answer") : STR("not usable"), evidence,
                hangs ? "look for NVRM and Xid in dmesg; reset the GPU or reboot" : remedy);
    *arena_push(a, &findings->items, &findings->count, &findings->capacity) = f;
}

void observe_judge_turn(struct judge *j, struct runs *runs, struct alerts *alerts,
                        struct observe_view *view, int64_t now_ns, bool is_urgent) {
    int64_t real_ns = os_now_ns();
    if (real_ns < j->next_ns && !is_urgent) return;
    j->next_ns = real_ns + EVERY_NS;
    arena_rewind(&j->arena, j->begin);
    view->findings = (struct findings){0};
    double swap = swap_grown(j, view);
    for (int i = 0; i < view->devices->count; i++) {
        struct trend_stretch stretch = stretch_of(view, i);
        stretch.swap_grown_bytes = swap;
        observe_runs_tell(runs, view, i, now_ns, &stretch);
        trend_judge(&j->arena, &stretch, i, &view->findings);
    }
    observe_alerts_judge(alerts, view, &j->arena, &view->findings);
    judge_driver(view->devices, &j->arena, &view->findings);
    observe_lives_turn(j->lives, view);
    view->is_judged = true;
}
