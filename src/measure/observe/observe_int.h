// SPDX-License-Identifier: Apache-2.0
// The parts of a watch: readings kept (ring.c), counters turned into shares (window.c), files that
// grow (tail.c), the runs (runs.c), what they did (progress.c), whose a process is (owner.c).
#pragma once

#include "measure/observe/observe.h"

#include "base/field.h"
#include "measure/registry/registry.h"

#include <sys/types.h>

// The newest readings of one GPU, always in one piece: they move to the front of a buffer that is
// an eighth longer when its end is reached.
struct ring {
    struct device_gauges *items;
    int64_t *ours; // bytes of our runs at each; -1: not known
    ptrdiff_t begin, count, most, capacity;
};
struct ring observe_ring_new(struct arena *a, ptrdiff_t most);
void observe_ring_add(struct ring *r, const struct device_gauges *g);
const struct device_gauges *observe_ring_items(const struct ring *r);
const struct device_gauges *observe_ring_newest(const struct ring *r); // NULL: none

// A share is of the time in which its counter was known.
struct part {
    double part, seconds;
};
// What adds up over pairs of readings that follow each other.
struct sums {
    double seconds;
    struct part throttled, power_cap, sync_boost, sw_thermal, hw_thermal, power_brake;
    double clock_mhz, power_watts, utilisation;
    int64_t clocks, powers, utilisations; // readings that are in the three above
    double counted_joules, integrated_joules;
    int64_t counted, uncounted, integrated; // pairs
};
void observe_sums_add(struct sums *s, const struct device_gauges *before,
                      const struct device_gauges *now);
struct observe_window observe_sums_window(const struct sums *s, double sm_clock_max_mhz);
// Of the readings of the last `seconds`.
struct observe_window observe_window_of(const struct device_gauges *items, ptrdiff_t count,
                                        double seconds, double sm_clock_max_mhz);

// The newest minutes of one GPU (minutes.c), and the one that is not over.
enum { MINUTES_MEANS = 6 };
struct minutes {
    struct observe_minute *items;
    ptrdiff_t begin, count, most, capacity;
    bool has_begun;
    int64_t number; // of the minute that is not over
    struct sums sums;
    double totals[MINUTES_MEANS], ours;
    int64_t counts[MINUTES_MEANS], ours_count;
};
struct minutes observe_minutes_new(struct arena *a, int most);
// `before` is the reading before, NULL where there is none.
void observe_minutes_add(struct minutes *m, const struct device_gauges *before,
                         const struct device_gauges *now, int64_t ours_bytes);
const struct observe_minute *observe_minutes_items(const struct minutes *m);

// A file of the steps protocol that somebody writes. What was taken in is known by its inode and
// how far we are; a file that is another one, or shorter, begins again.
struct tail {
    bool is_open;
    dev_t device;
    ino_t inode;
    int64_t at;       // bytes that were taken in
    bool is_skipping; // the rest of a line that is too long
    int fd;           // held open, so that its end is seen although it is removed; -1: it is not
};
enum { TAIL_LINE_MAX = 64 << 10, TAIL_BACK = 512 << 10 };
struct tail observe_tail_new(void);
// Called for each whole line; false: not yet, ask for it again next time.
typedef bool tail_line(void *context, struct str line);
struct tail_reader {
    char *buffer; // of TAIL_LINE_MAX bytes, for all tails
    tail_line *take;
    void *context;
    bool holds; // keeps the file open
};
// Takes in what is new, at most TAIL_BACK bytes a call: of a longer file that is met for the first
// time its beginning and its last TAIL_BACK bytes. True: the file was begun again.
bool observe_tail_read(struct tail *t, const char *path, const struct tail_reader *reader);
void observe_tail_close(struct tail *t);

// What the processes of one run did.
enum { PROGRESS_RANKS = 64, PROGRESS_RECENT = 8 };
struct progress_rank {
    int rank;
    int64_t pid, made, samples;
    enum step_rank_state state;
    double recent_samples[PROGRESS_RECENT], recent_ms[PROGRESS_RECENT];
    int64_t retries;
};
struct progress {
    struct progress_rank ranks[PROGRESS_RANKS];
    int rank_count, followed;  // the rank whose steps are kept; -1: none yet
    int64_t world, last_ns;    // last: when the newest step ended
    bool is_partial;           // its beginning was not seen, so samples are not known
    double earlier_most_bytes; // allocated, of the steps that are not kept any more
    char device[32];
    bool is_standin; // it says that it plays a scenario
    // The newest steps of the rank that is followed, in one piece; as struct ring.
    struct trend_step *steps;
    ptrdiff_t begin, count;
};
void observe_progress_open(struct progress *p, struct arena *a);
void observe_progress_reset(struct progress *p);
// Takes in what was read in one look. `clock` says when a step with `t` ended; one without ended
// when it was read, those before it in the same look as much earlier as they took.
struct progress_clock {
    int64_t now_ns;
    double t_to_ns, t_offset_ns; // at = t * t_to_ns + t_offset_ns
};
void observe_progress_add(struct progress *p, const struct steps *steps,
                          const struct progress_clock *clock);
// Without what its folder says: ended means that all of its processes said so.
enum observe_run_state observe_progress_state(const struct progress *p, int64_t now_ns);
void observe_progress_show(const struct progress *p, struct observe_run *run);
// Samples that its rank made for each joule that its GPU took in the same time; NaN: unknown, or
// too short to tell.
double observe_progress_samples_per_joule(const struct progress *p,
                                          const struct device_gauges *history, ptrdiff_t count);

// Whose processes are on the GPUs: asked of /proc now and then only.
struct owner_root {
    int64_t pid;
    int run;
};
enum { OWNER_MOST = 256, OWNER_ROOTS = 256 };
struct owner {
    bool asks_proc; // false: a recorded machine, whose processes are not ours
    struct owner_root roots[OWNER_ROOTS];
    int root_count;
    struct owned {
        int64_t pid, looked_ns;
        int run;
    } items[OWNER_MOST];
    int count;
};
// The runs' processes, as they are from now on.
void observe_owner_set(struct owner *o, const struct owner_root *roots, int count);
// The run that the process is of, or descends from; -1: none of them.
int observe_owner_of(struct owner *o, int64_t pid, int64_t now_ns);
double observe_owner_cpu_seconds(int64_t pid); // that it has used; NaN: unknown

// The runs.
struct runs;
struct runs *observe_runs_open(struct arena *a, const struct observe_options *options);
// Looks for runs that are new or gone and reads their steps. `now_ns` is the watch's clock, and
// wall_ns the same moment since 1970.
void observe_runs_follow(struct runs *r, int64_t now_ns, int64_t wall_ns, int64_t opened_ns);
// Which GPUs they are on, whose the memory is; fills the view.
void observe_runs_show(struct runs *r, const struct device_snapshot *devices,
                       struct observe_card *cards, int64_t now_ns, struct observe_view *view);
void observe_runs_close(struct runs *r);
// What is known of the run on a GPU, for its verdicts; nothing where there is none.
void observe_runs_tell(struct runs *r, const struct observe_view *view, int card, int64_t now_ns,
                       struct trend_stretch *stretch);

// The members of a run and of its phases in a document.
extern const struct field observe_run_fields[], observe_phase_fields[];

// The runs of other machines, and which memory is theirs, as the snapshot's `told` says.
void observe_told_show(struct arena *a, const struct device_snapshot *devices,
                       struct observe_card *cards, struct observe_view *view);

// The verdicts, every few seconds.
struct judge;
struct judge *observe_judge_open(struct arena *a);

// Since when findings hold, and those that held.
struct lives;
struct lives *observe_lives_open(struct arena *a);
void observe_lives_turn(struct lives *l, struct observe_view *view);
// The wall clock was set by so much: what is kept stays as long ago as it is.
void observe_lives_shift(struct lives *l, int64_t ms);
void observe_judge_shift(struct judge *j, int64_t ms);

// The limits that the user sets; NULL: none.
struct alerts;
int observe_alerts_open(struct arena *a, const struct observe_options *options,
                        struct alerts **ret_alerts, struct fail *why);
void observe_alerts_judge(struct alerts *alerts, const struct observe_view *view, struct arena *a,
                          struct findings *findings);
// Which commands have ended; waits at most so long for those that run.
void observe_alerts_collect(struct alerts *alerts, int wait_ms, struct observe_view *view);
void observe_alerts_close(struct alerts *alerts);

// The commands of alerts, in the background; `alert` is a name that lives as long as they.
struct commands;
struct observe_said {
    const char *alert;
    int card;
    struct str value, text; // with a zero behind them
};
struct commands *observe_commands_open(struct arena *a);
void observe_commands_start(struct commands *c, const char *command,
                            const struct observe_said *said);
const struct observe_told *observe_commands_collect(struct commands *c, int wait_ms,
                                                    int *ret_count);
// How the alert's last command on this GPU ended; NULL: none has.
const struct observe_told *observe_commands_last(const struct commands *c, const char *alert,
                                                 int card);
void observe_commands_close(struct commands *c);

// `is_urgent`: at once.
void observe_judge_turn(struct judge *j, struct runs *runs, struct alerts *alerts,
                        struct observe_view *view, int64_t now_ns, bool is_urgent);
void observe_judge_close(struct judge *j);
