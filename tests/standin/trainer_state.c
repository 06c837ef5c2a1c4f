// SPDX-License-Identifier: Apache-2.0
// The state that the trainer saves and resumes, and the faults that it meets on the way. The state
// is the list of the samples that its weights have seen, and of how many each step took, so that a
// test can tell whether a recovered training saw each sample once, in steps of the right size.
#include "trainer.h"

#include <errno.h>
#include <signal.h>

static const char head[] = "fake state, trained nothing", foot[] = "end of the state";

// --- Saving --------------------------------------------------------------------------------------

// Sample i of the order in which an undisturbed training sees them.
int64_t state_sample(const struct scenario *s, int64_t i) {
    return (i * 7919 + s->seed) % 1000003;
}

static void write_state(const struct trainer *t, FILE *file, bool is_torn) {
    int64_t steps = is_torn ? t->state.step_count / 2 : t->state.step_count, seen = 0;
    fprintf(file, "%s\nsamples %lld\n", head, (long long)t->state.seen);
    for (int64_t i = 0; i < steps; i++) {
        fprintf(file, "step %lld:", (long long)t->state.steps[i]);
        for (int64_t k = 0; k < t->state.steps[i]; k++) {
            fprintf(file, " %lld", (long long)t->state.samples[seen++]);
        }
        fputc('\n', file);
    }
    if (!is_torn) fprintf(file, "%s\n", foot);
}

static void save(const struct trainer *t, const char *path, bool is_torn) {
    char other[4200];
    bool is_replaced = t->scene->save_file == NULL && !is_torn;
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(is_replaced ? other : path, "w");
    if (!file) {
        fprintf(stderr, "trainer: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    write_state(t, file, is_torn);
    fclose(file);
    if (is_replaced) rename(other, path);
}

void state_save(struct trainer *t) {
    const struct scenario *s = t->scene;
    char path[4096];
    if (t->steps.rank != 0 || (!s->save && !s->save_file)) return;
    if (s->save_file) {
        snprintf(path, sizeof path, "%s", s->save_file);
    } else {
        snprintf(path, sizeof path, "%s%06lld.state", s->save, (long long)t->state.seen);
    }
    save(t, path, t->state.is_tearing);
    if (t->state.is_tearing) kill(getpid(), SIGKILL);
}

void state_result(const struct trainer *t) {
    if (t->scene->result && t->steps.rank == 0) save(t, t->scene->result, false);
}

// --- Resuming ------------------------------------------------------------------------------------

static _Noreturn void refuse(const char *path) {
    fprintf(stderr,
            "Traceback (most recent call last):\nRuntimeError: PytorchStreamReader failed reading "
            "zip archive: failed finding central directory (%s)\n",
            path);
    exit(1);
}

void state_add(struct trainer *t, int64_t samples) {
    struct state *state = &t->state;
    const struct scenario *s = t->scene;
    if (!s->save && !s->save_file && !s->result) { // nobody asks which
        state->seen += samples;
        return;
    }
    state->steps = realloc(state->steps, (size_t)(state->step_count + 1) * sizeof *state->steps);
    state->samples =
        realloc(state->samples, (size_t)(state->seen + samples + 1) * sizeof *state->samples);
    if (!state->steps || !state->samples) abort();
    state->steps[state->step_count++] = samples;
    for (int64_t i = 0; i < samples; i++, state->seen++) {
        state->samples[state->seen] = state_sample(t->scene, state->seen);
    }
}

void state_resume(struct trainer *t) {
    const char *path = t->scene->resume;
    char line[1 << 16], expected[128];
    bool is_whole = false;
    if (!path) return;
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file) || strncmp(line, head, sizeof head - 1) != 0) {
        refuse(path);
    }
    while (fgets(line, sizeof line, file)) {
        long long samples;
        if (sscanf(line, "step %lld:", &samples) == 1) state_add(t, samples);
        if (strncmp(line, foot, sizeof foot - 1) == 0) is_whole = true;
    }
    rewind(file);
    snprintf(expected, sizeof expected, "samples %lld\n", (long long)t->state.seen);
    bool is_right = fgets(line, sizeof line, file) && fgets(line, sizeof line, file) &&
                    strcmp(line, expected) == 0;
    fclose(file);
    if (!is_whole || !is_right) refuse(path);
}

// --- Faults --------------------------------------------------------------------------------------

// A fault happens once, in whichever attempt comes there first.
static bool is_first(const char *faults, int64_t line) {
    char path[4200];
    snprintf(path, sizeof path, "%s.%lld", faults, (long long)line);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void hang(void) {
    alarm(600);
    for (;;) pause();
}

// batchfit itself: the guardian's parent.
static void kill_batchfit(void) {
    char path[64], text[512] = "", *end;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file) && strstr(text, "(batchfit-guard)") &&
        (end = strrchr(text, ')'))) {
        sscanf(end, ") %*c %d", &parent);
    }
    if (file) fclose(file);
    if (parent > 1) kill(parent, SIGKILL);
}

static void meet(struct trainer *t, const char *kind, int64_t argument) {
    (void)argument;
    if (strcmp(kind, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(kind, "hang") == 0) hang();
    if (strcmp(kind, "batchfit") == 0) kill_batchfit();
    if (strcmp(kind, "torn") == 0) t->state.is_tearing = true;
    if (strcmp(kind, "crash") == 0) {
        fprintf(stderr,
                "Traceback (most recent call last):\nValueError: a fault of the scenario\n");
        batchfit_end(&t->steps, 0, "ValueError: a fault of the scenario");
        exit(1);
    }
}

// Before a step: the faults of all samples up to here. "SAMPLES KIND [ARGUMENT]" a line; "oom B" is
// no event but a change: from there on larger batches than B run out of memory.
void state_faults(struct trainer *t) {
    char line[256], kind[32];
    FILE *file = t->scene->faults && t->steps.rank == 0 ? fopen(t->scene->faults, "r") : NULL;
    for (int64_t number = 0; file && fgets(line, sizeof line, file); number++) {
        long long samples, argument = 0;
        if (sscanf(line, "%lld %31s %lld", &samples, kind, &argument) < 2) continue;
        if (samples > t->state.seen) continue;
        if (strcmp(kind, "oom") == 0) {
            if (t->scene->batch > argument) memory_run_out(t, t->scene->batch);
        } else if (is_first(t->scene->faults, number)) {
            meet(t, kind, argument);
        }
    }
    if (file) fclose(file);
}
