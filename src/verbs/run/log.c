// SPDX-License-Identifier: Apache-2.0
// The event log of a run on the disk (doc/formats/run-log.md). Each event is there before it is
// acted on. The same command in the same folder finds the log that a killed one has left, and goes
// on from it; one that came to its end is kept as NAME.old.
#include "verbs/run/run.h"

#include "base/os.h"
#include "base/out.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
enum { LOG_MAX_BYTES = 256 << 20, BESIDE_MOST = 64 };

struct str run_folder(struct arena *a) {
    char *folder = getcwd(NULL, 0);
    struct str copy = str_copy(a, str_of(folder));
    free(folder);
    return copy;
}

// The folder, the command and the config's path: what makes it the same run.
static struct str identity(struct arena *a, char *const *command, const char *config) {
    struct str folder = run_folder(a), words = trial_command_text(a, command);
    return str_format(a, "%.*s\n%.*s\n%s\n", STR_ARG(folder), STR_ARG(words), config ? config : "");
}

static int log_path(struct run *r, char *const *command, struct fail *why) {
    struct arena *a = r->arena;
    if (r->o->log) {
        r->log.path = str_of(r->o->log);
        return os_make_dirs(a, dirname(str_z(a, r->log.path)), why);
    }
    struct str folder = store_folder(a, r->o->h.store);
    if (folder.len == 0) {
        fail_set(why, FAIL_MACHINE, "no home folder for the run's event log");
        return fail_hint(why, "name a file with --log FILE");
    }
    struct str runs = str_format(a, "%.*s/runs", STR_ARG(folder));
    uint64_t hash = str_hash(identity(a, command, r->o->config));
    r->log.path = str_format(a, "%.*s/%016llx.jsonl", STR_ARG(runs), (unsigned long long)hash);
    int rc = os_make_private_dirs(a, runs.p, why);
    if (rc < 0)
        fail_hint(why, "choose another place for the event log with --log FILE or --store DIR");
    return rc;
}

static int unwritable(const struct run *r, struct fail *why) {
    fail_set(why, FAIL_MACHINE, "%.*s: cannot write the run's event log: %s", STR_ARG(r->log.path),
             strerror(errno));
    return fail_hint(why, "choose another place with --log FILE");
}

// Nobody has it: the file system has no locks, or has none left.
static int unlockable(const struct run *r, struct fail *why) {
    fail_set(why, FAIL_MACHINE, "%.*s: cannot lock the run's event log: %s", STR_ARG(r->log.path),
             strerror(errno));
    return fail_hint(why, "choose a place on another file system with --log FILE");
}

// The same command beside itself, with another environment perhaps, has a log of its own where
// nothing is continued.
static int open_file(struct run *r, struct fail *why) {
    const struct str first = r->log.path;
    const int most = r->o->log || r->rules.recover ? 1 : BESIDE_MOST;
    for (int i = 0; i < most; i++) {
        if (i > 0) r->log.path = str_format(r->arena, "%.*s.%d", STR_ARG(first), i);
        r->log.fd =
            open(str_z(r->arena, r->log.path), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (r->log.fd < 0) return unwritable(r, why);
        if (!r->o->log)
            (void)fchmod(r->log.fd, 0600); // of a time when it could be read by everybody
        if (flock(r->log.fd, LOCK_EX | LOCK_NB) == 0) return 0;
        if (errno != EWOULDBLOCK) return unlockable(r, why);
        if (i + 1 < most) os_close(&r->log.fd);
    }
    fail_set(why, FAIL_MACHINE, "%.*s: in use by another batchfit", STR_ARG(r->log.path));
    return fail_hint(why, "wait for it, end it, or use another log with --log FILE");
}

// False: it is not on the disk.
static bool write_line(struct run *r, struct str line) {
    struct stat st;
    if (os_write(r->log.fd, line) < 0) return false;
    if (fsync(r->log.fd) < 0 && errno != EINVAL) return false; // a pipe has no disk
    bool is_deleted = fstat(r->log.fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
    if (is_deleted) errno = ENOENT;
    return !is_deleted;
}

void run_log_add(struct run *r, struct recover_event event) {
    ARENA_AUTO scratch = {0};
    event.t_s = (double)os_wall_ns() * 1e-9;
    recover_apply(&r->state, &event);
    if (r->log.fd < 0 || r->log.is_broken) return;
    if (write_line(r, recover_event_line(&scratch, &event))) return;
    r->log.is_broken = true; // the training is worth more than its log
    run_say("%.*s: cannot write any more (%s): if batchfit is killed, the run cannot be continued",
            STR_ARG(r->log.path), strerror(errno));
}

static struct recover_event begin_event(struct run *r, char *const *command) {
    struct recover_event e = recover_event_of(RECOVER_BEGIN);
    e.rules = r->rules;
    // Told for people; which run it is, the name of the log says (identity).
    char **words = secret_masked(r->arena, command);
    for (int i = 0; words[i]; i++) str_list_add(r->arena, &e.command, str_of(words[i]));
    e.config = str_of(r->o->config);
    e.folder = run_folder(r->arena);
    return e;
}

static int begin_anew(struct run *r, char *const *command, struct fail *why) {
    r->state = (struct recover_state){.arena = r->arena};
    r->began_ns = os_wall_ns();
    run_log_add(r, begin_event(r, command));
    if (r->log.fd >= 0) os_sync_folder(dirname(str_z(r->arena, r->log.path)));
    return r->log.is_broken ? unwritable(r, why) : 0;
}

// An end by the user's own signal is no end: the next call goes on.
static void forget_interrupt(struct recover_log *log) {
    if (log->count == 0) return;
    const struct recover_event *last = &log->events[log->count - 1];
    if (last->kind == RECOVER_END && last->end == FAILURE_INTERRUPTED) log->count--;
}

static double seconds_of(const struct recover_log *log) {
    double sum = 0, began = 0;
    for (ptrdiff_t i = 0; i < log->count; i++) {
        const struct recover_event *e = &log->events[i];
        if (began > 0 && e->t_s > began) sum += e->t_s - began;
        began = e->kind == RECOVER_END || e->kind == RECOVER_DECIDE ? 0 : e->t_s;
    }
    return sum;
}

static int go_on(struct run *r, struct recover_log *log, struct fail *why) {
    int rc = recover_agree(&log->events[0].rules, &r->rules, why);
    if (rc < 0) {
        fail_wrap(why, "%.*s: an unfinished run of this command", STR_ARG(r->log.path));
        return fail_hint(why, "give its original settings, or start over with --fresh");
    }
    if (log->is_torn && ftruncate(r->log.fd, log->whole_bytes) < 0) return unwritable(r, why);
    double began_s = log->events[0].t_s; // of a log that was made by hand it may be anything
    r->began_ns = began_s > 0 && began_s < 9e9 ? (int64_t)(began_s * 1e9) : 0;
    r->lost_seconds = seconds_of(log);
    forget_interrupt(log);
    recover_replay(r->arena, log, &r->state);
    run_say("continuing the unfinished run in %.*s (--fresh starts over)", STR_ARG(r->log.path));
    return 0;
}

bool run_file_at(struct str path, struct recover_file *ret_file) {
    struct stat st;
    if (stat(path.p, &st) < 0) return false;
    *ret_file =
        (struct recover_file){path, (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec};
    return true;
}

// --- Over what is there already ------------------------------------------------------------------

// The newest checkpoint of a run that has ended, as the disk still has it; NULL: none.
static const struct recover_checkpoint *left_by(const struct recover_state *old) {
    struct recover_file file;
    for (ptrdiff_t i = old->checkpoint_count - 1; i >= 0; i--) {
        const struct recover_checkpoint *c = &old->checkpoints[i];
        bool is_there = run_file_at(c->file.path, &file) && file.written == c->file.written;
        if (is_there && !c->is_passed_over) return c;
    }
    return NULL;
}

// A training that begins at 0 writes over what another one has come to.
static int check_left(struct run *r, const struct recover_state *old, struct fail *why) {
    const struct recover_checkpoint *left = left_by(old);
    if (r->o->resume && !r->o->checkpoint && !left) {
        fail_set(why, FAIL_USAGE, "--resume: the checkpoints are unknown");
        return fail_hint(
            why,
            "name the files or folders that the training writes: --checkpoint 'out/ckpt-*.pt'");
    }
    if (!left || r->o->resume || r->o->fresh || r->rules.resumes_itself) return 0;
    struct buf holds = buf_new(r->arena);
    if (left->samples > 0) buf_format(&holds, " (%lld samples)", (long long)left->samples);
    fail_set(why, FAIL_USAGE,
             "an earlier run of this command %s and left the checkpoint %.*s%.*s, which starting "
             "over could overwrite",
             old->status == 0 ? "finished" : "gave up", STR_ARG(left->file.path),
             STR_ARG(buf_str(&holds)));
    return fail_hint(why, "--resume continues from it; --fresh starts over");
}

// What it holds is known from the log of the run before.
static void take_over(struct run *r, const struct recover_state *old) {
    for (ptrdiff_t i = 0; i < old->checkpoint_count && r->o->resume; i++) {
        const struct recover_checkpoint *c = &old->checkpoints[i];
        struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
        e.file = c->file;
        e.samples = c->samples;
        if (!c->is_passed_over) run_log_add(r, e);
    }
}

static int keep_old(struct run *r, struct fail *why) {
    const char *path = str_z(r->arena, r->log.path);
    if (rename(path, str_format(r->arena, "%s.old", path).p) < 0) return unwritable(r, why);
    os_close(&r->log.fd);
    return open_file(r, why);
}

// Where nothing is restarted or continued, the training is worth more than its log.
static int begin_unlogged(struct run *r, char *const *command, struct fail *why) {
    run_say("no event log: %s; if it is stopped, it cannot be continued", why->message);
    r->log.path = (struct str){0};
    return begin_anew(r, command, why);
}

int run_log_open(struct run *r, char *const *command, struct fail *why) {
    struct recover_log log = {0};
    struct str text = {0};
    struct stat st;
    bool is_needed = r->o->log || r->o->resume || r->rules.recover;
    int rc = log_path(r, command, why);
    if (rc == 0) rc = open_file(r, why);
    if (rc < 0) return is_needed ? rc : begin_unlogged(r, command, why);
    bool is_file = fstat(r->log.fd, &st) == 0 && S_ISREG(st.st_mode);
    if (is_file) {
        rc = os_read(r->arena, str_z(r->arena, r->log.path), LOG_MAX_BYTES, &text, NULL, why);
    }
    struct recover_state old = {.arena = r->arena};
    if (rc == 0 && !r->o->fresh) {
        rc = recover_log_read(r->arena, text, &log, why);
        if (rc < 0) fail_wrap(why, "%.*s", STR_ARG(r->log.path));
        if (rc < 0 && !why->hint[0]) fail_hint(why, "--fresh starts over and keeps it as .old");
    }
    if (rc < 0) return rc;
    if (log.count > 0 && !log.is_finished) return go_on(r, &log, why);
    recover_replay(r->arena, &log, &old);
    rc = check_left(r, &old, why);
    if (rc == 0 && text.len > 0) rc = keep_old(r, why);
    if (rc == 0) rc = begin_anew(r, command, why);
    if (rc == 0) take_over(r, &old);
    return rc;
}

void run_log_close(struct run *r) {
    os_close(&r->log.fd);
    r->log.fd = -1;
}
