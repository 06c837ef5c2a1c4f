// SPDX-License-Identifier: Apache-2.0
// A trainer that plays scenarios, for tests and demos: a training that needs constant + slope x
// batch bytes and takes step + sample x batch ms, and everything that goes wrong with trainings. It
// says on its standard output that it is a fake, and in the steps protocol that its framework
// is "standin". Starts within a few ms: a search is tried out with over a thousand launches.
#include "trainer.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STRAY_SECONDS = 120, HANG_SECONDS = 600, SPILL_FACTOR = 15, FLOOD_LINE = 100 };

// Shares of a step. The first four are spent once each micro-batch.
static const double shares[BATCHFIT_STEP_PHASES] = {
    [BATCHFIT_IO] = 0.05,       [BATCHFIT_H2D] = 0.02,       [BATCHFIT_FORWARD] = 0.30,
    [BATCHFIT_BACKWARD] = 0.55, [BATCHFIT_OPTIMIZER] = 0.05, [BATCHFIT_OTHER] = 0.03,
};

static long long played_ns; // the clock of --fast

static long long played_clock(void) {
    return played_ns;
}

static void rest(double ms) {
    struct timespec t = {(time_t)(ms / 1000), 0};
    t.tv_nsec = (long)((ms - (double)t.tv_sec * 1000) * 1e6);
    while (nanosleep(&t, &t) != 0) {
    }
}

static void spend(const struct trainer *t, double ms) {
    if (t->scene->fast) {
        played_ns += (long long)(ms * 1e6);
    } else {
        rest(ms);
    }
}

// SplitMix64 (Vigna, public domain), twelve of it for a normal number.
double trainer_random(struct trainer *t) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        uint64_t z = t->random += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        sum += (double)((z ^ z >> 31) >> 11) * 0x1p-53;
    }
    return sum < -3 ? -3 : sum > 3 ? 3 : sum;
}

static double step_ms(struct trainer *t) {
    const struct scenario *s = t->scene;
    double ms = (double)s->accumulate * (s->step_ms + s->sample_ms * (double)s->batch);
    if (memory_spills(t)) ms *= SPILL_FACTOR;
    return ms * (1 + s->noise * trainer_random(t));
}

// A file as large as the lines are: something that must not be left behind.
static void write_checkpoint(int64_t step) {
    const char *folder = getenv("BATCHFIT_SCRATCH");
    char path[4096];
    snprintf(path, sizeof path, "%s/checkpoint-%lld.bin", folder ? folder : "", (long long)step);
    FILE *file = folder ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < 1 << 16; i++) putc('c', file);
    fclose(file);
}

static void flood(int64_t bytes) {
    char line[FLOOD_LINE];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\n';
    for (int64_t i = 0; i < bytes; i += FLOOD_LINE) fwrite(line, 1, sizeof line, stdout);
    fflush(stdout);
}

static void write_broken_lines(const struct batchfit_steps *s) {
    static const char lines[] =
        "{\"v\":1,\"event\":\"step\",\"samp\nloss \x1b[31m0.5\n{\"v\":9,\"event\":\"step\"}\n";
    ssize_t written = s->fd >= 0 ? write(s->fd, lines, sizeof lines - 1) : 0;
    (void)written; // a full pipe: then not
}

static void misbehave_before(struct trainer *t, int64_t step) {
    const struct scenario *s = t->scene;
    if (step == 1) flood(s->print_bytes);
    if (s->broken_lines) write_broken_lines(&t->steps);
    if (step == s->hang_at_step) {
        alarm(HANG_SECONDS);
        for (;;) pause();
    }
    if (step != s->crash_at_step) return;
    if (s->signal > 0) {
        kill(getpid(), (int)s->signal);
        pause();
    }
    char error[100];
    snprintf(error, sizeof error, "ValueError: the scenario crashes at step %lld", (long long)step);
    fprintf(stderr, "Traceback (most recent call last):\n%s\n", error);
    batchfit_end(&t->steps, 0, error);
    exit(1);
}

// The gradients of all ranks are averaged: none goes on before the others have theirs.
static void wait_for_ranks(struct trainer *t, int64_t step) {
    if (!t->arrived) return;
    t->arrived[t->steps.rank] = step;
    for (int64_t r = 0; r < t->scene->ranks; r++) {
        while (t->arrived[r] < step) rest(0.2);
    }
}

static void make_micro_batch(struct trainer *t, int64_t step, bool is_last, double ms) {
    const struct scenario *s = t->scene;
    int64_t samples = s->batch;
    if (step == s->last_batch && is_last) samples = (samples + 1) / 2;
    for (int phase = BATCHFIT_IO; phase <= BATCHFIT_BACKWARD; phase++) {
        batchfit_phase(&t->steps, (enum batchfit_phase_id)phase);
        if (phase == BATCHFIT_FORWARD && t->held_bytes == memory_of_weights(t)) {
            memory_take(t, memory_of_activations(t, s->batch), samples);
        }
        spend(t, ms * shares[phase]);
    }
    batchfit_micro_batch(&t->steps, samples);
}

static void make_step(struct trainer *t, int64_t step) {
    const struct scenario *s = t->scene;
    double ms = step_ms(t);
    for (int64_t i = 1; i <= s->accumulate; i++) {
        make_micro_batch(t, step, i == s->accumulate, ms / (double)s->accumulate);
    }
    wait_for_ranks(t, step);
    batchfit_phase(&t->steps, BATCHFIT_OPTIMIZER);
    if (step == 1) memory_take(t, memory_of_optimizer(t), s->batch);
    spend(t, ms * shares[BATCHFIT_OPTIMIZER]);
    batchfit_phase(&t->steps, BATCHFIT_OTHER);
    memory_take(t, s->leak_bytes, s->batch);
    spend(t, ms * shares[BATCHFIT_OTHER]);
    memory_report(t);
    state_add(t, s->batch * s->accumulate * s->ranks);
    if (s->say_made) t->steps.made_samples = t->state.seen / s->ranks;
    batchfit_step(&t->steps);
    if (s->fast) rest(0.1); // or the reader would get no turn
}

static void make_stretches(struct trainer *t, int64_t step) {
    const struct scenario *s = t->scene;
    if (s->validation_every > 0 && step % s->validation_every == 0) {
        batchfit_phase(&t->steps, BATCHFIT_VALIDATION);
        spend(t, step_ms(t));
        batchfit_phase(&t->steps, BATCHFIT_OTHER);
    }
    if (s->checkpoint_every > 0 && step % s->checkpoint_every == 0) {
        if (!s->quiet_save) batchfit_phase(&t->steps, BATCHFIT_CHECKPOINT);
        write_checkpoint(step);
        state_save(t);
        spend(t, step_ms(t));
        batchfit_phase(&t->steps, BATCHFIT_OTHER);
    }
}

static bool has_ended(const struct trainer *t, int64_t step) {
    if (t->scene->samples > 0) return t->state.seen >= t->scene->samples;
    return t->scene->steps > 0 && step > t->scene->steps;
}

static void train(const struct scenario *s, int rank, volatile int64_t *arrived) {
    struct trainer t = {.scene = s, .arrived = arrived};
    char device[32] = "cpu";
    batchfit_open(&t.steps);
    if (s->no_steps) t.steps.fd = -1;
    if (arrived) t.steps.rank = rank;
    if (arrived) t.steps.world = (int)s->ranks;
    if (scenario_is_card(s)) snprintf(device, sizeof device, "cuda:%d", t.steps.rank);
    if (s->fast) t.steps.clock_ns = played_clock;
    t.steps.framework = "standin";
    t.steps.device = device;
    t.steps.device_name = "fake";
    t.steps.program = "trainer";
    t.random = (uint64_t)s->seed * 1000003u + (uint64_t)t.steps.rank;
    t.memory_factor = 1 + s->noise * trainer_random(&t);
    batchfit_start(&t.steps);
    memory_take(&t, memory_of_weights(&t), s->batch);
    state_resume(&t);
    for (int64_t step = 1; !has_ended(&t, step); step++) {
        misbehave_before(&t, step);
        state_faults(&t);
        bool is_short = s->oom_above > 0 && step >= s->oom_from_step && s->batch > s->oom_above;
        if (is_short) memory_run_out(&t, s->batch);
        make_step(&t, step);
        make_stretches(&t, step);
    }
    state_result(&t);
    batchfit_end(&t.steps, 1, NULL);
}

// Says its pid, so that a test can see what became of it.
static void start_strays(const struct scenario *s) {
    for (int64_t i = 0; i < s->stray; i++) {
        pid_t pid = fork();
        if (pid > 0) printf("fake trainer: stray %d\n", (int)pid);
        if (pid != 0) continue;
        if (i == 0) setsid();
        if (i == 1) signal(SIGTERM, SIG_IGN);
        alarm(STRAY_SECONDS);
        for (;;) pause();
    }
    fflush(stdout);
}

static int train_ranks(const struct scenario *s) {
    size_t size = (size_t)s->ranks * sizeof(int64_t);
    int64_t *arrived = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arrived == MAP_FAILED) return 1;
    for (int rank = 0; rank < s->ranks; rank++) {
        if (fork() != 0) continue;
        train(s, rank, arrived);
        exit(0);
    }
    int status = 0, first_bad = 0;
    while (wait(&status) > 0) {
        if (status != 0 && first_bad == 0) first_bad = status;
    }
    return first_bad != 0;
}

int main(int argc, char **argv) {
    static struct scenario s;
    scenario_read(argc, argv, &s);
    printf("fake trainer: plays a scenario and trains nothing; batch %lld\n",
           (long long)s.batch);
    fflush(stdout);
    if (s.needs_tty && !isatty(STDIN_FILENO)) {
        fprintf(stderr, "termios.error: (25, 'Inappropriate ioctl for device')\n");
        return 1;
    }
    if (s.ignore_sigterm) signal(SIGTERM, SIG_IGN);
    if (s.setpgid) setpgid(0, 0);
    if (s.fork_exit && fork() > 0) return 0;
    rest(s.start_delay_s * 1000);
    start_strays(&s);
    if (s.ranks > 1) return train_ranks(&s);
    train(&s, 0, NULL);
    return 0;
}
