// SPDX-License-Identifier: Apache-2.0
// The history once more: as it was, under other settings, at smaller batches. `capacity` is what
// the allocator held when it died and what the GPU had free.
#include "predict/death/death.h"

static const char *const settings[] = {
    "expandable_segments:True",         "max_split_size_mb:128",      "max_split_size_mb:512",
    "garbage_collection_threshold:0.8", "roundup_power2_divisions:8",
};

// What replays of a long history may cost in all, in events.
#define EVENTS_MOST INT64_C(60000000)

static struct sim_options own_options(struct death *d) {
    const struct snapshot_settings *s = &d->history->of->settings;
    struct sim_options o = sim_options_default();
    struct fail why = {0};
    if (s->conf.len > 0 && sim_options_parse(s->conf, &o, &why) < 0) d->conf_unread = s->conf;
    if (!s->known) return o;
    // What the allocator itself says wins over the text that it has read.
    if (s->expandable >= 0) o.expandable_segments = s->expandable > 0;
    if (s->max_split_bytes > 0) o.max_split_bytes = s->max_split_bytes;
    if (s->gc_threshold > 0 && s->gc_threshold < 1)
        o.garbage_collection_threshold = s->gc_threshold;
    for (int i = 0; i < 16; i++) {
        if (s->roundup[i] > 0) o.roundup_divisions[i] = s->roundup[i];
    }
    return o;
}

struct player {
    struct arena *a;
    struct death *d;
    const struct tape *t;
    struct sim_options own;
    int64_t left; // events that may still be replayed
};

static void play(struct player *p, const char *conf, struct death_case *ret,
                 struct sim_result *result) {
    struct sim_options o = p->own;
    struct sim_need need;
    *ret = (struct death_case){.conf = conf, .needed = -1};
    if (conf[0]) (void)sim_options_parse(str_of(conf), &o, NULL);
    struct sim *s = sim_prepare(p->a, p->t, &o);
    sim_replay(s, 1, 0, p->d->capacity, result);
    ret->runs = !result->oom;
    p->left -= p->t->event_count;
    int64_t replays = p->left / 4 / (p->t->event_count + 1);
    if (replays < 16) return;
    sim_needed(s, 1, 0, replays > 400 ? 400 : (int32_t)replays - 12, &need);
    p->left -= (int64_t)need.replays * p->t->event_count;
    if (!need.runs) return;
    ret->needed = need.needed_bytes;
    ret->spare = p->d->capacity - need.needed_bytes;
}

static void play_settings(struct player *p) {
    struct death *d = p->d;
    struct sim_result result;
    struct death_case as_it_was;
    play(p, "", &as_it_was, &result);
    d->replay = !result.oom                                 ? DEATH_LATER
                : result.oom_event == p->t->event_count - 1 ? DEATH_SAME
                                                            : DEATH_EARLIER;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        play(p, settings[i], &d->cases[d->case_count++], &result);
}

// The largest batch that runs, at most that which died: under other settings it may run itself.
// "Does it fit" is not quite monotone, so the answer of the bisection is a batch that was replayed.
static int64_t largest(struct player *p, const struct sim_options *o, const struct tape *t) {
    struct sim *s = sim_prepare(p->a, t, o);
    int64_t low = 0, high = p->d->batch;
    struct sim_result result;
    sim_replay(s, high, 0, p->d->capacity, &result);
    if (!result.oom) return high;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        sim_replay(s, middle, 0, p->d->capacity, &result);
        if (result.oom)
            high = middle;
        else
            low = middle;
    }
    return low;
}

static void play_batches(struct player *p) {
    struct death *d = p->d;
    struct tape scaled;
    struct snapshot_tape_options o = {.batch = d->batch};
    if (d->batch <= 0 || snapshot_tape(p->a, d->history, &o, &scaled, &d->fixed_bytes, NULL) < 0)
        return;
    struct sim_options options = p->own;
    d->batches[d->batch_count++] = (struct death_batch){largest(p, &options, &scaled), ""};
    if (options.expandable_segments) return;
    options.expandable_segments = true;
    d->batches[d->batch_count++] = (struct death_batch){largest(p, &options, &scaled), settings[0]};
}

void death_replay(struct arena *a, struct death *d) {
    struct tape tape;
    struct snapshot_tape_options o = {0};
    struct player p = {.a = a, .d = d, .t = &tape, .left = EVENTS_MOST};
    if (d->capacity <= 0) return;
    if (snapshot_tape(a, d->history, &o, &tape, &d->fixed_bytes, NULL) < 0) return;
    p.own = own_options(d);
    play_settings(&p);
    play_batches(&p);
}
