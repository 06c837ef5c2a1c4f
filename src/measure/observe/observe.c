// SPDX-License-Identifier: Apache-2.0
// The watch: reads the monitor, keeps what is new, and shows it as one view. What one update
// allocates lives in an arena that the next one rewinds; all else is taken when it is opened, or
// when a driver that hung answers for the first time.
#include "measure/observe/observe_int.h"

#include "base/os.h"

#include <stdlib.h>
#include <time.h>

enum { LAST_COMMANDS_MS = 2000 };
enum { USUAL_INTERVAL_MS = 1000, USUAL_HISTORY = 600, LEAST_HISTORY = 2, IDS_MOST = 64 };
static const double window_seconds = 60;

// What is kept of one GPU.
struct kept {
    struct ring ring;
    struct sums since;
    struct minutes minutes;
    int64_t read_ns; // of the newest reading, real time
    enum device_state state;
};

struct watch {
    struct arena *arena, tick, told; // told: the runs of other machines
    struct arena_mark tick_begin, told_begin;
    struct observe_options options;
    int ids[IDS_MOST], id_count;
    struct device_monitor *monitor;
    struct device_cpu_watch *cpu;
    int64_t opened_ns, next_ns, wall_ahead_ns;
    struct kept *kept;
    int kept_count;
    struct observe_card *cards;
    struct runs *runs;
    struct judge *judge;
    struct alerts *alerts;
    bool is_urgent; // a GPU is lost, or came back
    struct device_snapshot devices;
    struct observe_view view;
};

// --- Options -------------------------------------------------------------------------------------

// Beyond that a reading is no time after the last one, or none comes.
static const double least_speed = 0.01, most_speed = 10000;

static int check_speed(const struct observe_options *o, struct fail *why) {
    if (o->speed >= least_speed && o->speed <= most_speed) return 0;
    return fail_set(why, FAIL_USAGE, "--speed %g: a recording is played %g to %g times as fast",
                    o->speed, least_speed, most_speed);
}

static int read_ids(struct watch *w, struct fail *why) {
    struct str rest = str_of(w->options.gpu_ids);
    while (rest.p) {
        struct str word = str_trim(str_cut(&rest, ','));
        int64_t id;
        if (!str_to_i64(word, &id) || id < 0 || id > 9999 || w->id_count == IDS_MOST) {
            fail_set(why, FAIL_INPUT, "--gpu-ids %s: not a list of GPU numbers",
                     w->options.gpu_ids);
            return fail_hint(why, "for example --gpu-ids 0,2; `batchfit check` lists the GPUs");
        }
        for (int i = 0; i < w->id_count; i++) {
            if (w->ids[i] == id)
                return fail_set(why, FAIL_INPUT, "--gpu-ids %s: GPU %d is there twice",
                                w->options.gpu_ids, (int)id);
        }
        w->ids[w->id_count++] = (int)id;
    }
    return 0;
}

static bool is_wanted(const struct watch *w, int index) {
    for (int i = 0; i < w->id_count; i++) {
        if (w->ids[i] == index) return true;
    }
    return w->id_count == 0;
}

static void leave_out_unwanted(const struct watch *w, struct device_snapshot *s) {
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        if (!is_wanted(w, s->cards[i].index)) continue;
        if (kept != i) s->cards[kept] = s->cards[i];
        kept++;
    }
    s->count = kept;
}

static bool has_card(const struct device_snapshot *s, int index) {
    for (int i = 0; i < s->count; i++) {
        if (s->cards[i].index == index) return true;
    }
    return false;
}

// A driver that hangs may still know the GPU.
static int check_ids(const struct watch *w, struct fail *why) {
    const struct device_snapshot *s = &w->devices;
    for (int i = 0; i < w->id_count && s->state == DEVICE_ANSWERS; i++) {
        if (has_card(s, w->ids[i])) continue;
        fail_set(why, FAIL_INPUT, "--gpu-ids %s: no GPU %d", w->options.gpu_ids, w->ids[i]);
        if (s->why_none.len) return fail_hint(why, "%.*s", STR_ARG(s->why_none));
        return fail_hint(why, "`batchfit check` lists the GPUs");
    }
    return 0;
}

// --- Readings ------------------------------------------------------------------------------------

// A recording's time goes faster with its speed, and so do its counters: all that is kept is on its
// clock.
static int64_t played_ns(const struct watch *w, int64_t real_ns) {
    if (!w->options.machine || w->options.speed == 1) return real_ns;
    return w->opened_ns + (int64_t)((double)(real_ns - w->opened_ns) * w->options.speed);
}

// The GPUs of a driver become known once.
static void keep_cards(struct watch *w, int count) {
    if (count <= w->kept_count) return;
    w->kept = arena_new(w->arena, struct kept, count);
    w->cards = arena_new(w->arena, struct observe_card, count);
    for (int i = 0; i < count; i++) {
        w->kept[i] = (struct kept){.ring = observe_ring_new(w->arena, w->options.history),
                                   .minutes = observe_minutes_new(w->arena, w->options.minutes)};
        w->cards[i] = (struct observe_card){.ours_bytes = -1, .others_bytes = -1};
    }
    w->kept_count = count;
}

static bool keep_reading(struct watch *w, int place, bool *is_late) {
    struct device_card *card = &w->devices.cards[place];
    struct kept *kept = &w->kept[place];
    int64_t read_ns = card->now.at_ns;
    bool has_changed = card->state != kept->state;
    w->is_urgent |= has_changed;
    kept->state = card->state;
    if (read_ns) card->now.at_ns = played_ns(w, read_ns);
    if (card->state != DEVICE_ANSWERS || read_ns == kept->read_ns) return has_changed;
    int64_t late_ns = 2 * (int64_t)w->options.interval_ms * 1000000;
    *is_late |= kept->read_ns && read_ns - kept->read_ns > late_ns;
    kept->read_ns = read_ns;
    const struct device_gauges *before = observe_ring_newest(&kept->ring);
    if (before) observe_sums_add(&kept->since, before, &card->now);
    observe_minutes_add(&kept->minutes, before, &card->now, w->cards[place].ours_bytes);
    observe_ring_add(&kept->ring, &card->now);
    return true;
}

static void show_card(struct watch *w, int place) {
    const struct device_card *card = &w->devices.cards[place];
    const struct kept *kept = &w->kept[place];
    double clock_max = card->facts.sm_clock_max_mhz;
    struct observe_card *shown = &w->cards[place];
    shown->history = observe_ring_items(&kept->ring);
    shown->history_count = kept->ring.count;
    shown->minutes = observe_minutes_items(&kept->minutes);
    shown->minute_count = kept->minutes.count;
    shown->ours_history = kept->ring.ours + kept->ring.begin;
    shown->window =
        observe_window_of(shown->history, shown->history_count, window_seconds, clock_max);
    shown->since = observe_sums_window(&kept->since, clock_max);
}

static bool read_cards(struct watch *w) {
    arena_rewind(&w->tick, w->tick_begin);
    device_monitor_read(&w->tick, w->monitor, &w->devices);
    leave_out_unwanted(w, &w->devices);
    bool has_changed = w->devices.count > w->kept_count, is_late = false;
    keep_cards(w, w->devices.count);
    for (int i = 0; i < w->devices.count; i++) has_changed |= keep_reading(w, i, &is_late);
    if (!has_changed) return false;
    for (int i = 0; i < w->devices.count; i++) show_card(w, i);
    w->view.late_readings += is_late;
    return true;
}

static void read_cpu(struct watch *w) {
    device_cpu_look(w->cpu, &w->view.cpu);
    if (!w->options.machine) {
        w->view.has_cpu = true;
        return;
    }
    w->view.cpu.cores = 0; // a recording does not say how many of them were ours
    w->view.has_cpu = w->view.cpu.total_bytes > 0;
}

// The same reading keeps its time: what the two clocks drift apart is followed in steps that are
// larger than the error of reading them.
static void follow_wall_clock(struct watch *w) {
    int64_t ahead_ns = os_wall_ahead_ns();
    if (llabs(ahead_ns - w->wall_ahead_ns) <= 2000000) return;
    observe_judge_shift(w->judge, (ahead_ns - w->wall_ahead_ns) / 1000000);
    w->wall_ahead_ns = ahead_ns;
}

static void show_time(struct watch *w, int64_t now_ns) {
    int64_t newest_ns = 0;
    for (int i = 0; i < w->kept_count; i++) {
        if (w->kept[i].read_ns > newest_ns) newest_ns = w->kept[i].read_ns;
    }
    if (newest_ns == 0) newest_ns = now_ns; // a machine without a GPU
    w->view.at_ns = played_ns(w, newest_ns);
    w->view.at_ms = (newest_ns + w->wall_ahead_ns) / 1000000;
    w->view.watched_ms = (newest_ns - w->opened_ns) / 1000000;
}

static void judge(struct watch *w, int64_t now_ns, bool is_urgent) {
    observe_judge_turn(w->judge, w->runs, w->alerts, &w->view, played_ns(w, now_ns), is_urgent);
    w->is_urgent = false;
}

bool observe_update(struct watch *w) {
    int64_t now_ns = os_now_ns();
    bool has_changed = read_cards(w), is_turn = now_ns >= w->next_ns;
    if (is_turn) {
        int64_t interval_ns = (int64_t)w->options.interval_ms * 1000000;
        w->next_ns += interval_ns;
        if (w->next_ns <= now_ns) w->next_ns = now_ns + interval_ns;
        read_cpu(w);
        w->view.readings++;
    }
    w->view.devices = &w->devices;
    w->view.cards = w->cards;
    w->view.told_count = 0;
    if (!has_changed && !is_turn) return false;
    follow_wall_clock(w);
    show_time(w, now_ns);
    if (is_turn)
        observe_runs_follow(w->runs, played_ns(w, now_ns), now_ns + w->wall_ahead_ns, w->opened_ns);
    observe_runs_show(w->runs, &w->devices, w->cards, played_ns(w, now_ns), &w->view);
    if (w->devices.told.len > 0) {
        arena_rewind(&w->told, w->told_begin);
        observe_told_show(&w->told, &w->devices, w->cards, &w->view);
    }
    for (int i = 0; i < w->devices.count; i++) {
        struct ring *r = &w->kept[i].ring;
        if (r->count) r->ours[r->begin + r->count - 1] = w->cards[i].ours_bytes;
    }
    // Before the rules: what they start now ends in a turn to come, whose caller tells of it.
    if (is_turn) observe_alerts_collect(w->alerts, 0, &w->view);
    if (is_turn) judge(w, now_ns, w->is_urgent);
    return true;
}

void observe_judge(struct watch *w) {
    judge(w, os_now_ns(), true);
}

// --- Life ----------------------------------------------------------------------------------------

static struct observe_options complete(const struct observe_options *options) {
    struct observe_options o = options ? *options : (struct observe_options){0};
    if (o.interval_ms < 1) o.interval_ms = USUAL_INTERVAL_MS;
    if (!(o.speed > 0)) o.speed = 1;
    if (o.history < 1) o.history = USUAL_HISTORY;
    if (o.history < LEAST_HISTORY) o.history = LEAST_HISTORY;
    return o;
}

int observe_open(struct arena *a, const struct observe_options *options, struct watch **ret_watch,
                 struct fail *why) {
    struct watch *w = arena_new(a, struct watch, 1);
    w->arena = a;
    w->options = complete(options);
    struct device_watching how = {w->options.interval_ms, w->options.wants_pcie_throughput,
                                  w->options.speed, w->options.wants_profile};
    int failed = check_speed(&w->options, why);
    if (failed == 0) failed = read_ids(w, why);
    if (failed == 0) failed = observe_alerts_open(a, &w->options, &w->alerts, why);
    if (failed) return failed;
    w->opened_ns = os_now_ns();
    failed = device_monitor_open(a, w->options.machine, &how, &w->monitor, why);
    if (failed) return failed;
    arena_new(&w->tick, char, 1); // so that a rewind does not give the first chunk back
    w->tick_begin = arena_mark(&w->tick);
    arena_new(&w->told, char, 1);
    w->told_begin = arena_mark(&w->told);
    w->cpu = device_cpu_open(a, w->options.machine ? w->options.machine : "");
    w->runs = observe_runs_open(a, &w->options);
    w->judge = observe_judge_open(a);
    w->view.started_ns = w->opened_ns;
    w->view.interval_ms = w->options.interval_ms;
    w->view.cost_per_hour = w->options.cost_per_hour;
    w->next_ns = w->opened_ns;
    observe_update(w);
    failed = check_ids(w, why);
    if (failed) {
        observe_close(w);
        return failed;
    }
    *ret_watch = w;
    return 0;
}

const struct observe_view *observe_view(const struct watch *w) {
    return &w->view;
}

void observe_end(struct watch *w) {
    observe_alerts_collect(w->alerts, LAST_COMMANDS_MS, &w->view);
}

void observe_close(struct watch *w) {
    if (!w) return;
    observe_alerts_close(w->alerts);
    device_monitor_close(w->monitor);
    observe_runs_close(w->runs);
    observe_judge_close(w->judge);
    arena_clear(&w->tick);
    arena_clear(&w->told);
}
