// SPDX-License-Identifier: Apache-2.0
// Thousands of runs (recover_random [RUNS]) of a made-up training, by a fixed seed: a line of
// memory with noise, faults at random steps, checkpoints that are torn, and deaths of batchfit
// itself in the middle of writing an event, after which only the log's bytes are left. Where the
// last step can be reached it is, with exactly the right samples; where it cannot, the run is given
// up; no attempt has another effective batch; and the state is always the one that the log's events
// give.
#include "recover_room.h"

#include <stdlib.h>

enum { FILES_MAX = 512, EVENTS_MAX = 8192, ATTEMPTS_MAX = 1500 };
static int run_count = 2500;
static const int64_t capacity = 1000000;

struct disk_file {
    struct recover_file file;
    int64_t samples;
    bool is_torn;
};

struct world {
    uint64_t random;
    struct recover_rules rules;
    int64_t total;      // samples at the last step
    int64_t every;      // steps between checkpoints
    double base, each;  // bytes: base + each x batch, up to 3 % more
    int64_t bad_sample; // at which it fails for itself; -1: none
    double fault, tear, death;
    bool one_path, takes_over;
    struct disk_file files[FILES_MAX];
    int file_count;
    int64_t clock; // what tells one writing from the next
    struct buf log;
    uint64_t states[EVENTS_MAX]; // after each event
    int event_count;
    int64_t failed; // the least batch that is known to have run out of memory
    int attempts, deaths, crashes;
};
static struct world w;

// splitmix64 (Vigna, 2015)
static uint64_t next_random(void) {
    uint64_t z = (w.random += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static int64_t below(int64_t n) {
    return (int64_t)(next_random() % (uint64_t)n);
}

static bool chance(double p) {
    return (double)(next_random() >> 11) * 0x1p-53 < p;
}

// All of a state but where it lies.
static uint64_t digest(const struct recover_state *s) {
    ARENA_AUTO a = {0};
    struct buf b = buf_new(&a);
    buf_format(&b, "%d %lld %lld %a %lld %lld", s->phase, (long long)s->size.batch,
               (long long)s->size.accumulation, s->size.lr, (long long)s->wanted.batch,
               (long long)s->attempt);
    buf_format(&b, " %lld %lld %lld %lld %lld %lld %lld %llx", (long long)s->restarts,
               (long long)s->counted, (long long)s->samples, (long long)s->samples_best,
               (long long)s->best_before, (long long)s->failed_batch, (long long)s->fruitless,
               (unsigned long long)s->crash);
    for (int i = 0; i < s->peak_count; i++) {
        buf_format(&b, " p%lld:%lld", (long long)s->peaks[i].batch, (long long)s->peaks[i].bytes);
    }
    for (ptrdiff_t i = 0; i < s->checkpoint_count; i++) {
        const struct recover_checkpoint *c = &s->checkpoints[i];
        buf_format(&b, " c%.*s:%lld:%lld:%d", STR_ARG(c->file.path), (long long)c->file.written,
                   (long long)c->samples, c->is_passed_over);
    }
    buf_format(&b, " %.*s:%lld %d %.*s %lld %lld %d %d %d %.*s", STR_ARG(s->resumed.path),
               (long long)s->resumed.written, s->end, STR_ARG(s->ending), (long long)s->status,
               (long long)s->steps, s->is_gain, s->is_repeated, s->action, STR_ARG(s->why));
    return str_hash(buf_str(&b));
}

// False: batchfit died while it wrote, and the line is there in part, or whole.
static bool append(struct recover_state *s, const struct recover_event *e) {
    struct str line = recover_event_line(&arena, e);
    bool dies = chance(w.death);
    ptrdiff_t written = dies ? below(line.len + 1) : line.len;
    buf_add(&w.log, str_slice(line, 0, written));
    if (written == line.len) {
        recover_apply(s, e);
        assert_true(w.event_count < EVENTS_MAX);
        w.states[w.event_count++] = digest(s);
    }
    w.deaths += dies;
    return !dies;
}

// --- The training --------------------------------------------------------------------------------

static struct disk_file *find_file(struct recover_file wanted) {
    for (int i = 0; i < w.file_count; i++) {
        struct disk_file *f = &w.files[i];
        if (f->file.written == wanted.written && str_equal(f->file.path, wanted.path)) return f;
    }
    return NULL;
}

static struct disk_file *write_file(int64_t samples) {
    struct str path =
        w.one_path ? STR("last.pt") : str_format(&arena, "ckpt-%lld.pt", (long long)w.clock);
    if (w.one_path || w.file_count == FILES_MAX) {
        w.file_count -= w.file_count > 0;
        memmove(w.files, w.files + 1, (size_t)w.file_count * sizeof *w.files);
    }
    struct disk_file *f = &w.files[w.file_count++];
    *f = (struct disk_file){{path, ++w.clock}, samples, false};
    return f;
}

static double peak_now(int64_t batch) {
    return w.base + w.each * (double)batch * (1 + 0.03 * (double)below(1000) / 1000);
}

static struct recover_event ended(enum failure_class end, const char *exception) {
    struct recover_event e = recover_event_of(RECOVER_END);
    e.end = end;
    e.ending = STR("made-up");
    e.exception = str_of(exception);
    e.status = end == FAILURE_CLEAN ? 0 : 1;
    return e;
}

// Another text each time, without figures: two of them are not the same crash.
static struct recover_event failed_once(void) {
    char text[] = "RuntimeError: zzzzz";
    int64_t number = w.crashes++;
    for (int i = 14; i < 19; i++, number /= 19) text[i] = (char)('g' + number % 19);
    return ended(FAILURE_CRASH, str_z(&arena, str_of(text)));
}

static struct recover_event random_fault(void) {
    static const enum failure_class ends[] = {FAILURE_KILLED, FAILURE_DEVICE, FAILURE_COMMUNICATION,
                                              FAILURE_STALLED};
    int64_t kind = below(5);
    return kind == 4 ? failed_once() : ended(ends[kind], "");
}

// At a checkpoint. False: it is stopped, or batchfit died (*ret_died).
static bool adapt(struct recover_state *s, double peak, bool *ret_died) {
    struct recover_sight sight = {.peak_bytes = (int64_t)peak};
    struct recover_event e = recover_event_of(RECOVER_ADAPT);
    if (!recover_adapt(&arena, &w.rules, s, &sight, &e.size, &e.why)) return true;
    assert_int_equal(e.size.batch * e.size.accumulation, w.rules.batch * w.rules.accumulation);
    assert_true(w.failed == 0 || e.size.batch < w.failed);
    if (e.size.batch > s->size.batch) {
        int64_t predicted = recover_predict(s, e.size.batch);
        assert_true((double)predicted <= w.rules.threshold * (double)capacity);
    }
    e.peak_bytes = sight.peak_bytes;
    *ret_died = !append(s, &e);
    if (*ret_died || !w.takes_over) return false;
    e.is_taken = true;
    *ret_died = !append(s, &e);
    return !*ret_died;
}

// What it is doing.
struct attempt {
    int64_t samples, steps;
    double peak;
    struct recover_event end;
    bool is_over, died; // died: batchfit, and the training with it
};

static void over(struct attempt *t, struct recover_event end) {
    t->end = end;
    t->is_over = true;
}

static void write_checkpoint(struct recover_state *s, struct attempt *t) {
    struct disk_file *file = write_file(t->samples);
    if (chance(w.tear)) { // killed while it wrote
        file->is_torn = true;
        over(t, ended(FAILURE_KILLED, ""));
        return;
    }
    struct recover_event e = recover_event_of(RECOVER_CHECKPOINT);
    e.file = file->file;
    e.samples = t->samples;
    e.peak_bytes = (int64_t)t->peak;
    t->died = !append(s, &e);
    if (t->died || t->samples == w.total) return;
    int64_t before = s->size.batch;
    if (!adapt(s, t->peak, &t->died)) over(t, ended(FAILURE_ASKED, ""));
    if (s->size.batch != before) t->peak = 0; // it was the other batch's
}

static void make_step(const struct recover_state *s, struct attempt *t) {
    int64_t effective = s->size.batch * s->size.accumulation * w.rules.ranks;
    int64_t next = t->samples + effective < w.total ? t->samples + effective : w.total;
    double peak = peak_now(s->size.batch);
    assert_int_equal(effective, w.rules.batch * w.rules.accumulation * w.rules.ranks);
    assert_true(w.failed == 0 || s->size.batch < w.failed);
    if (peak > (double)capacity) {
        over(t, ended(FAILURE_MEMORY, "OutOfMemoryError"));
    } else if (chance(w.fault) && t->steps > 0) {
        over(t, random_fault());
    } else if (w.bad_sample >= t->samples && w.bad_sample < next) {
        over(t, ended(FAILURE_CRASH, "ValueError: bad sample"));
    } else {
        t->peak = peak > t->peak ? peak : t->peak;
        t->samples = next;
        t->steps++;
    }
}

// One attempt to its end; false: batchfit died meanwhile.
static bool attempt(struct recover_state *s) {
    struct disk_file *from = s->resumed.path.len > 0 ? find_file(s->resumed) : NULL;
    struct attempt t = {.samples = from ? from->samples : 0, .end = ended(FAILURE_CLEAN, "")};
    assert_true(s->resumed.path.len == 0 || from);
    if (from && from->is_torn) {
        over(&t, ended(FAILURE_CRASH, "EOFError: Ran out of input"));
    } else {
        assert_true(s->samples == -1 || s->samples == t.samples);
    }
    while (!t.is_over && !t.died && t.samples < w.total) {
        make_step(s, &t);
        bool is_due = t.steps % w.every == 0 || t.samples == w.total;
        if (!t.is_over && is_due) write_checkpoint(s, &t);
    }
    if (t.died) return false;
    t.end.steps = t.steps;
    t.end.samples = t.samples;
    t.end.peak_bytes = (int64_t)t.peak;
    bool lives = append(s, &t.end);
    // If batchfit died before the end was in the log, nobody knows that memory ran out.
    if (t.end.end == FAILURE_MEMORY && s->phase == RECOVER_ENDED) w.failed = s->size.batch;
    return lives;
}

// --- batchfit ------------------------------------------------------------------------------------

// What a new call makes of the log.
static void open_log(struct recover_state *s) {
    struct recover_log log;
    struct fail why = {0};
    assert_int_equal(recover_log_read(&arena, buf_str(&w.log), &log, &why), 0);
    assert_int_equal(log.count, w.event_count);
    w.log.count = (ptrdiff_t)log.whole_bytes;
    recover_replay(&arena, &log, s);
    if (log.count > 0) assert_true(digest(s) == w.states[log.count - 1]);
}

// One call of batchfit; false: it died. The newest file first.
static bool call(struct recover_state *s, struct recover_decision *ret_decision) {
    struct recover_event e = recover_event_of(RECOVER_BEGIN);
    open_log(s);
    e.rules = w.rules;
    if (w.event_count == 0 && !append(s, &e)) return false;
    for (;;) {
        struct recover_file files[FILES_MAX];
        int count = 0;
        for (int i = w.file_count - 1; i >= 0; i--) files[count++] = w.files[i].file;
        struct recover_decision d =
            recover_next(&arena, &w.rules, s, files, s->phase == RECOVER_FRESH ? 0 : count);
        *ret_decision = d;
        e = recover_decided(&d);
        if (!append(s, &e)) return false;
        if (d.action != RECOVER_START) {
            e = recover_finished(s, &d);
            return append(s, &e);
        }
        assert_true(d.delay_s >= 0 && d.delay_s <= w.rules.most_backoff_s);
        e = recover_started(s, &d);
        if (!append(s, &e)) return false;
        assert_true(++w.attempts < ATTEMPTS_MAX);
        if (!attempt(s)) return false;
    }
}

// Every beginning of the log gives the state of then.
static void check_prefixes(void) {
    struct recover_log log;
    struct recover_state s;
    assert_int_equal(recover_log_read(&arena, buf_str(&w.log), &log, NULL), 0);
    assert_int_equal(log.count, w.event_count);
    for (ptrdiff_t count = log.count; log.count > 0 && count > 0; count--) {
        log.count = count;
        recover_replay(&arena, &log, &s);
        assert_true(digest(&s) == w.states[count - 1]);
    }
}

static void make_world(int number) {
    static const int64_t batches[] = {1, 7, 12, 25, 32, 48, 64, 96, 100, 128};
    w = (struct world){
        .random = 20261122u + (uint64_t)number, .bad_sample = -1, .log = buf_new(&arena)};
    w.rules = rules_of(batches[below(10)], 1 + below(3), 1 + below(3));
    w.rules.max_restarts = 1000000;
    w.rules.from_scratch = true;
    w.rules.adaptive = chance(0.5);
    w.rules.initial_batch = w.rules.adaptive ? 1 + below(w.rules.batch) : 0;
    w.rules.capacity_bytes = chance(0.8) ? capacity : -1;
    int64_t effective = w.rules.batch * w.rules.accumulation * w.rules.ranks;
    w.total = effective * (5 + below(30)) + below(effective); // the last step is a smaller one
    w.every = 1 + below(6);
    w.base = (double)(100000 + below(500000));
    w.each = (double)(1000 + below(chance(0.5) ? 200000 : 20000));
    w.fault = chance(0.3) ? 0 : 0.08;
    w.tear = chance(0.5) ? 0 : 0.1;
    w.death = chance(0.5) ? 0 : 0.03;
    w.one_path = chance(0.3);
    w.takes_over = chance(0.5);
}

static struct recover_decision play(struct recover_state *s) {
    struct recover_decision d = {0};
    while (!call(s, &d)) {
        if (s->phase == RECOVER_FINISHED) break; // it died right after
    }
    return d;
}

static void the_last_step_is_reached(void **state) {
    (void)state;
    int64_t attempts = 0, deaths = 0, smaller = 0;
    for (int i = 0; i < run_count; i++) {
        struct recover_state s;
        make_world(i);
        struct recover_decision d = play(&s);
        assert_int_equal(d.action, RECOVER_DONE);
        assert_int_equal(s.phase, RECOVER_FINISHED);
        assert_int_equal(d.status, 0);
        assert_int_equal(s.samples, w.total);
        assert_int_equal(s.samples_best, w.total);
        if (i % 100 == 0) check_prefixes();
        attempts += w.attempts;
        deaths += w.deaths;
        smaller += w.failed > 0;
        arena_clear(&arena);
    }
    print_message("# %d runs: %lld attempts, %lld deaths of batchfit, %lld with memory too small\n",
                  run_count, (long long)attempts, (long long)deaths, (long long)smaller);
    // Else nothing was tried.
    assert_true(attempts > 3 * run_count && deaths > run_count / 4 && smaller > run_count / 10);
}

// Too little memory for one sample; a sample that it always fails at.
static void what_cannot_be_reached_is_given_up(void **state) {
    (void)state;
    for (int i = 0; i < run_count / 10; i++) {
        struct recover_state s;
        make_world(i);
        if (i % 2 == 0) {
            w.base = (double)capacity;
        } else {
            w.bad_sample = below(w.total);
        }
        struct recover_decision d = play(&s);
        assert_int_equal(d.action, RECOVER_GIVE_UP);
        assert_int_equal(d.status, 1);
        assert_true(s.samples_best < w.total);
        if (i % 2 == 0) assert_int_equal(s.failed_batch, 1);
        if (i % 2 == 1) assert_true(s.samples_best <= w.bad_sample);
        arena_clear(&arena);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) run_count = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        TEST(the_last_step_is_reached),
        TEST(what_cannot_be_reached_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
