// SPDX-License-Identifier: Apache-2.0
// What the files of a trial know of each other: the process tree, the scratch folder, the limiter,
// the guardian, the log, and the ways steps travel.
//
// tree, meter, scratch and trial_limit_make/trial_limit_kill/trial_limit_drop are also called
// between fork and exec: they allocate nothing and call only what is async-signal-safe.
#pragma once

#include "measure/steps/steps.h"
#include "measure/trial/trial.h"

#include <limits.h>
#include <sys/types.h>

// What a folder lists, as getdents64(2) gives it.
struct folder_entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

// --- the processes below one process, read from /proc ---

struct tree_process {
    int64_t start_ticks; // since boot: with pid, the identity of a process
    pid_t pid, parent, group, session;
    // Since it started, of all its threads: pages that it got without a disk, time in clock ticks.
    int64_t faults, user_ticks, kernel_ticks;
    int64_t reaped_ticks;                  // of its children that are gone
    bool is_zombie, is_below, is_runnable; // is_runnable: its first thread has or wants a CPU
};
struct tree {
    struct tree_process *items; // by pid
    int count;
    int proc_fd;
};
struct tree_memory {
    int64_t rss_bytes;         // summed, what several share as often; -1: nothing could be read
    int64_t largest_hwm_bytes; // of one process
    int64_t largest_data_bytes;
    const struct tree_process *largest_data; // whose; until the next scan. NULL: nobody's
    int processes;
};
// Both 0 or -errno.
int trial_tree_open(struct tree *t);
void trial_tree_close(struct tree *t);
// All that descend from `root`, without it.
int trial_tree_scan(struct tree *t, pid_t root);
bool trial_tree_has(const struct tree *t, pid_t pid); // of the last scan, and not a zombie
// Whether it is one of these or has started one.
bool trial_tree_leads_to(const struct tree *t, pid_t pid, const int32_t *pids, int count);
bool trial_tree_is_shell(const struct tree *t, pid_t pid);            // that runs now
bool trial_tree_catches(const struct tree *t, pid_t pid, int signal); // has a handler for it
int trial_tree_living(const struct tree *t);
int64_t trial_tree_ticks(const struct tree *t); // CPU time of all, and of those that they outlived
// True when one is in another process group than `group`.
bool trial_tree_has_left(const struct tree *t, pid_t group);
// Who is left alone: a session (0: none), and what started before.
struct tree_spared {
    pid_t session;
    int64_t before_ticks;
};
bool trial_tree_is_spared(const struct tree_process *p, struct tree_spared spared);
// Sends a signal to each of the last scan and, when it cannot be refused, to the groups they are in
// but for our own.
void trial_tree_signal(const struct tree *t, int signal, struct tree_spared spared);
int64_t trial_tree_start_of(const struct tree *t, pid_t pid); // -1: no such process
// What a process of the last scan holds; false: it is gone.
struct tree_held {
    int64_t rss_bytes, hwm_bytes, data_bytes;
};
bool trial_tree_held(const struct tree *t, const struct tree_process *p, struct tree_held *ret);
// What all hold, what several share counted once (PSS). Walks all their pages: 20 ms a GiB.
// A process whose pages may not be looked at counts with its RSS. -1: nothing could be read.
int64_t trial_tree_pss(const struct tree *t);

// --- the memory of a tree, now and at its most ---

// PSS is what the tree takes from the machine, but slow to read; RSS is read in microseconds. So
// PSS is read now and then, and between two readings taken to be RSS less what was shared at the
// last. Highest water marks tell what was there between two looks.
enum { METER_MOST = 512 }; // processes whose marks are kept
struct meter {
    struct meter_mark {
        pid_t pid;
        int64_t start_ticks, hwm_bytes;
    } marks[METER_MOST]; // of the look before, by pid
    int count;
    int64_t shared_bytes; // RSS less PSS, at the last reading
    int64_t read_ns;      // when that was; 0: never
    int64_t read_cost_ns; // what it took
    int64_t now_bytes;    // PSS, read or estimated
    bool is_exact;        // read just now, or of one process
    int64_t peak_bytes;   // -1: nothing was read
    struct tree_memory last;
};
// Looks at a tree that was just scanned. PSS is read where it may be above `most_bytes` (-1: above
// the peak so far), and from time to time.
void trial_meter_look(struct meter *m, const struct tree *t, int64_t most_bytes, int64_t now_ns);
// The peak, where it is known of those that have ended what the largest of them had (getrusage(2),
// RSS; 0: nothing is): what lives for the time between two looks is seen by that alone. What it
// may have shared is not counted. -1: nothing was read or is known.
int64_t trial_meter_most(const struct meter *m, int64_t largest_rss_bytes);

// --- a process that gets no memory and asks for ever ---

struct spin {
    struct tree_process first; // as it was when it last got a page
    int64_t since_ns;          // 0: nothing seen
};
// `p` as seen at now_ns, below a limit that leaves it room_bytes. True: it has done nothing for
// long but ask, in vain.
bool trial_spin_sees(struct spin *s, const struct tree_process *p, int64_t room_bytes,
                     int64_t now_ns);

// --- what its processes are ---

enum { SIGHT_KNOWN = 64 };
struct sight {
    struct trial_sight seen;
    const char *hook;                       // our folder in PYTHONPATH; NULL: nothing is looked for
    struct tree_process known[SIGHT_KNOWN]; // with PyTorch: they need no further look
    int known_count;
    double next_s, ticks_s;
    int64_t ticks;
};
// now_s: since the start.
void trial_sight_see(struct sight *s, const struct tree *t, double now_s);
// The command has ended, left_s ago. What lives on has gone into the background.
void trial_sight_see_left(struct sight *s, const struct tree *t, double left_s);
// Of what told of no step. Whether it never will: PyTorch was loaded where nothing of it can be
// seen, and nowhere else.
bool trial_sight_is_blind(const struct sight *s, double now_s);
// … or what went into the background shows for some seconds nothing that trains; silent_s: how long
// it has shown no sign of life.
bool trial_sight_is_idle(const struct sight *s, double silent_s);
const char *trial_sight_hook(struct arena *a, char *const *environment); // as the command gets it

// --- whether it lives ---

struct life {
    int64_t ns, looked_ns;       // when it last showed that it does, and when it was last looked at
    int64_t ticks, output_bytes; // what it had used of the CPUs and printed by then
    int looks, runnable;         // since then; and those at which it had or wanted a CPU
    // When it last showed more than a busy CPU, and what it had got of memory and started by then.
    int64_t more_ns, faults;
    int processes;
};
// Signs of life of a training whose steps are not seen: it uses a CPU, prints, or tells of anything
// (line_ns: when it last did).
void trial_life_see(struct life *l, const struct tree *t, int64_t output_bytes, int64_t line_ns,
                    int64_t now_ns);

// --- the scratch folder ---

// Makes NAME with steps/, out/ and tmp/ in it. 0 or -errno; on an error nothing is left.
int trial_scratch_make(int parent_fd, const char *name);
// Removes it with all that is in it, never following a symlink. False: something could not be
// removed.
bool trial_scratch_remove(int parent_fd, const char *name);

// --- the memory limit ---

// The folder of a cgroup v2 in which a group with a memory limit may be made, from
// ROOT/proc/self/{cgroup,mountinfo}; empty: there is none. `root` is "" but for tests.
struct str trial_limit_find(struct arena *a, const char *root);
// Makes the group; 0 or -errno; on an error nothing is left.
int trial_limit_make(const char *folder, int64_t bytes);
int trial_limit_join(const char *folder); // the calling process
void trial_limit_kill(const char *folder);
void trial_limit_drop(const char *folder);
int trial_limit_set_data(int64_t bytes); // RLIMIT_DATA; 0 or -errno
// Behind the guardian, which watches the tree's memory where no cgroup does: what one process may
// reserve, and the system's first choice when memory runs out all the same.
int64_t trial_limit_backstop(int64_t bytes);
void trial_limit_offer(void); // the calling process
int64_t trial_limit_counter(const char *folder, const char *file, const char *key); // -1: unknown
int64_t trial_limit_system_oom_kills(const char *root); // /proc/vmstat; -1: unknown

// --- the guardian ---

// What the guardian tells. Sent whole.
enum guard_kind {
    GUARD_READY,    // the scratch folder is there; value: errno of the cgroup, 0: it is there
    GUARD_FAILED,   // code: stage, value: errno
    GUARD_LAUNCHED, // code: pid, value: limiter
    GUARD_REAPED,   // code: pid, value: status, more: its largest RSS in bytes, -1: unknown
    GUARD_EMPTY,    // nothing descends from it any more; code: strays killed, value: left_group
    GUARD_OVER,     // the tree held more than its limit and is being killed; value: bytes
};
struct guard_message {
    int kind, code;
    int64_t value, more;
};
enum guard_stage {
    STAGE_SCRATCH,
    STAGE_FORK,
    STAGE_DESCRIPTORS,
    STAGE_LIMIT,
    STAGE_FOLDER,
    STAGE_EXEC
};

// What is told to the guardian: first the launch, then stops. End of file: clean up and go.
struct guard_launch {
    int64_t bytes; // of the strings that follow: folder, argv, environment, each ended by NUL
    int64_t memory_limit_bytes;
    int argc, envc;
};
enum { GUARD_TRAINERS = 64 };
struct guard_stop {
    int64_t grace_ms;
    int signal;     // that the command gets first; 0: SIGTERM
    int is_message; // only that signal; nothing is stopped
    // The processes that train, of those that report.
    int32_t trainer_count, trainers[GUARD_TRAINERS];
};

// --- a stop's polite part (farewell.c) ---

enum { FAREWELL_LAUNCHERS = 16, FAREWELL_LOOK_MS = 100 };
struct farewell {
    struct guard_stop stop;
    pid_t command;
    bool was_signalled; // the command was ended by a signal
    bool had_exited;    // it had ended before the stop: what it left is what is to end
    bool has_asked_all;
    pid_t launchers[FAREWELL_LAUNCHERS]; // that are asked once their trainers are gone
    int launcher_count;
    int64_t gone_ns; // since when they are; 0: not yet
};
// A tree that was just scanned is asked to end.
void trial_farewell_begin(struct farewell *f, const struct tree *t, pid_t command,
                          const struct guard_stop *stop);
// Asks those whose time has come. When what is left is to be killed, though the grace is not over:
// os_now_ns; INT64_MAX: not before.
int64_t trial_farewell_look(struct farewell *f, const struct tree *t, int64_t now_ns);
// Passes a signal on that stops nothing.
void trial_farewell_pass(const struct tree *t, pid_t command, const struct guard_stop *message);

// Set before the fork; all the guardian knows.
struct guard_setup {
    int socket_fd, output_fd, error_fd, steps_fd, scratch_parent_fd; // error_fd: of stderr
    const char *scratch_name;
    char cgroup[PATH_MAX]; // empty: none
    int64_t memory_limit_bytes;
};
// Where the child finds the pipe for its steps: one digit, since dash knows no others, and none
// that scripts like to use (3 and 9 are).
enum { GUARD_STEPS_FD = 7 };
_Noreturn void trial_guardian_main(struct guard_setup *setup);

// This side of it.
struct guard {
    pid_t pid;
    int socket_fd, parent_fd;
    bool is_subreaper;                                 // that we were before
    struct str scratch_name, scratch, out, steps, tmp; // absolute paths but for the name
    struct str cgroup;                                 // empty: none
    pid_t command;
    enum trial_limiter limiter;
    bool is_launched, has_exited, is_stopping, is_empty, is_lost;
    int status;
    pid_t left;     // what the command left in the background; 0: unknown
    int bad_status; // of a reporting process, or of that, which ended badly; 0: none
    int64_t largest_rss_bytes;
    int64_t over_bytes; // that it held when it was killed for it; 0: it was not
    int strays;
    bool left_group;
    int64_t start_ticks;
};
// What the command gets: standard output, standard error (may be the same), the pipe for steps.
struct guard_pipes {
    int output_fd, error_fd, steps_fd;
};
// Starts the guardian, which makes the scratch folder. Takes over none of the descriptors.
int trial_guard_open(struct arena *a, const struct trial_request *request, struct guard_pipes pipes,
                     struct guard *g, struct fail *why);
int trial_guard_launch(struct arena *a, struct guard *g, const struct trial_request *request,
                       char *const *argv, char *const *environment, struct fail *why);
// Reads what the guardian has to tell now; `steps` says whose ends are of interest.
void trial_guard_hear(struct guard *g, const struct steps *steps);
// First `signal` (0: SIGTERM) and, after the grace, SIGKILL. `steps` says who trains, and may save;
// NULL: nobody has to.
void trial_guard_stop(struct guard *g, const struct steps *steps, double grace_s, int signal);
void trial_guard_pass(struct guard *g, const struct steps *steps, int signal);
// How it ended: of a command that ended well, what it left in the background.
int trial_guard_status(const struct guard *g);
// What is known of the command's end besides its output.
struct failure_facts trial_guard_facts(const struct guard *g, int64_t oom_kills_before,
                                       int64_t memory_limit_bytes);
// Removes everything. Waits for it, unless processes cannot be killed. False: the scratch folder
// could not be removed.
bool trial_guard_close(struct guard *g);

// A pipe that we read, without waiting, and the command writes. `of`: what, for the error.
int trial_pipe_open(const char *of, int *ret_read_fd, int *ret_write_fd, struct fail *why);

// --- output ---

enum { LOG_TAIL_BYTES = 256 << 10 };
struct log {
    char *ring; // LOG_TAIL_BYTES
    int64_t total_bytes;
    int file_fd; // -1: none
    int error;   // errno of the first write that failed, after which there is no file; 0: none did
};
int trial_log_open(struct arena *a, const char *path, struct log *l, struct fail *why);
void trial_log_add(struct log *l, struct str text);
struct str trial_log_tail(struct arena *a, const struct log *l);
void trial_log_close(struct log *l);

// --- output that goes on to ours ---

// One stream. What is read is kept until it could be written: who reads ours slowly slows the
// command down, as without us.
enum { PASS_BYTES = 1 << 16 };
struct pass {
    int from_fd, to_fd; // to_fd -1: nowhere, or not any more
    ptrdiff_t begin, end;
    struct printed *printed; // what it tells of progress; NULL: nobody asks
    struct printed_source source;
    char bytes[PASS_BYTES];
};
// Moves what can be moved without waiting; `waits`: all that is held, however long it takes, unless
// a signal interrupts.
void trial_pass_move(struct pass *p, struct log *l, bool waits);
static inline bool pass_is_full(const struct pass *p) {
    return p->begin < p->end;
}

// --- how steps travel ---

struct transport_file {
    struct str name;
    int64_t offset;
    struct step_source source;
};
struct transport {
    struct arena *arena;
    int read_fd, write_fd; // the pipe; -1: none
    struct step_source source;
    struct str folder;
    int64_t next_look_ns; // into the folder
    struct transport_file *files;
    ptrdiff_t file_count, file_capacity;
};
struct transport_row {
    const char *name;
    int (*open)(struct transport *t, struct fail *why); // before the guardian starts
    void (*describe)(const struct transport *t, struct arena *a, char **variables, int *count);
    // Feeds what is new; NULL for steps: throws it away.
    void (*read)(struct transport *t, struct steps *steps);
};
enum { TRANSPORT_VARIABLES = 8 };
int trial_transport_open(struct arena *a, struct transport *t, struct fail *why);
// Variables for the child, NULL-ended; at most TRANSPORT_VARIABLES.
void trial_transport_describe(const struct transport *t, struct arena *a, char **variables);
// `is_last`: nobody writes any more.
void trial_transport_read(struct transport *t, struct steps *steps, bool is_last);
void trial_transport_close(struct transport *t);

// --- the command's environment ---

// Ours, the trial's on top, what is wanted on top of that. NULL-ended, as is `wanted` (may be
// NULL).
char *const *trial_environment_of(struct arena *a, const struct trial_request *request,
                                  const struct guard *g, const struct transport *t,
                                  char *const *wanted);

// --- ranks ---

enum { RANKS_WATCHED = 1024 };
// Processes that report, seen from outside; at the place of the rank in the steps.
struct ranks {
    bool was_any_seen;
    int64_t gone_ns[RANKS_WATCHED]; // 0: not
};
void trial_ranks_see(struct ranks *r, const struct steps *s, struct tree *tree, int64_t now_ns);
// Whether a process that has announced itself, can still tell, and did not end well is there: one
// that has made steps, or one that has made none.
bool trial_ranks_are_expected(const struct steps *s, const struct tree *tree, bool has_stepped);
// Whether a process that reports lives. One that has said that it ends has some seconds for it;
// that of a whole run which ends well, as long as it takes.
bool trial_ranks_live(const struct steps *s, const struct tree *tree, int64_t now_ns,
                      bool is_whole);
// Whether a rank is gone, or can do no further step, while others run and wait for it; are_missing:
// some have not yet said anything.
bool trial_ranks_are_lost(const struct ranks *r, const struct steps *s, int64_t last_step_ns,
                          int64_t now_ns, bool are_missing);
