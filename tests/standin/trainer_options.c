// SPDX-License-Identifier: Apache-2.0
// The command line of the trainer that plays scenarios: one table.
#include "trainer.h"

#include <argp.h>
#include <stddef.h>

enum kind { SWITCH, COUNT, BYTES, REAL, TEXT, BUMP };
#define AT(field) offsetof(struct scenario, field)

static const struct row {
    const char *name, *argument;
    enum kind kind;
    size_t offset;
    const char *help;
} rows[] = {
    {"batch", "N", COUNT, AT(batch), "samples of a micro-batch (8)"},
    {"accumulate", "N", COUNT, AT(accumulate), "micro-batches of a step (1)"},
    {"steps", "N", COUNT, AT(steps), "optimizer steps; 0: endless (50)"},
    {"ignore-batch", "M", COUNT, AT(ignore_batch), "run with M whatever --batch says"},
    {"constant", "BYTES", BYTES, AT(constant_bytes),
     "memory at any batch: half weights, half optimizer (16MiB)"},
    {"slope", "BYTES", BYTES, AT(slope_bytes), "memory of each sample (1MiB)"},
    {"bump", "LO-HI:BYTES", BUMP, AT(bumps), "batches LO to HI need BYTES more; may be repeated"},
    {"limit", "BYTES", BYTES, AT(limit_bytes),
     "play a GPU of this memory, or of $BATCHFIT_MEMORY_CAP when that is less; without it memory "
     "ends where the system says"},
    {"pretend", NULL, SWITCH, AT(pretend), "allocate nothing, play a GPU that reports its memory"},
    {"real", NULL, SWITCH, 0, "allocate and touch the memory (the default)"},
    {"message", "KIND", TEXT, AT(message),
     "how it says that memory ran out: torch (with --limit), cpu (without), cublas, bad_alloc "
     "(aborts), plain, none, spin (asks again for ever, as OpenBLAS does)"},
    {"spill", "BYTES", BYTES, AT(spill_bytes),
     "above this no error: memory stays there and steps take 15 times as long"},
    {"retries-from", "BYTES", BYTES, AT(retries_from_bytes),
     "above this each step counts an allocator retry"},
    {"leak", "BYTES", BYTES, AT(leak_bytes), "more memory after each step"},
    {"noise", "SHARE", REAL, AT(noise),
     "standard deviation of memory (by launch) and time (by step) (0)"},
    {"seed", "N", COUNT, AT(seed), "of the noise (1)"},
    {"step-ms", "MS", REAL, AT(step_ms), "time of a micro-batch (2), and"},
    {"sample-ms", "MS", REAL, AT(sample_ms), "of each of its samples (0.1)"},
    {"fast", NULL, SWITCH, AT(fast), "tell the times, but do not take them"},
    {"validation-every", "N", COUNT, AT(validation_every),
     "a validation after every N steps, as long as a step"},
    {"checkpoint-every", "N", COUNT, AT(checkpoint_every),
     "the same for a checkpoint; a file in $BATCHFIT_SCRATCH if that is set"},
    {"last-batch", "STEP", COUNT, AT(last_batch),
     "the last micro-batch of this step is half as large"},
    {"ranks", "N", COUNT, AT(ranks),
     "data parallel: N processes that wait for each other in every step"},
    {"oom-rank", "R", COUNT, AT(oom_rank),
     "only rank R has a limit (without --limit: one it does not meet)"},
    {"hang-at-step", "N", COUNT, AT(hang_at_step), "stop for ever before this step is made"},
    {"crash-at-step", "N", COUNT, AT(crash_at_step), "end with an exception instead of this step"},
    {"signal", "NUMBER", COUNT, AT(signal), "the crash is this signal"},
    {"stray", "N", COUNT, AT(stray),
     "children that outlive it (two minutes); the first has its own session, the second ignores "
     "SIGTERM"},
    {"fork-exit", NULL, SWITCH, AT(fork_exit),
     "a child trains, the process started exits with 0 at once"},
    {"setpgid", NULL, SWITCH, AT(setpgid), "change to a process group of its own"},
    {"ignore-sigterm", NULL, SWITCH, AT(ignore_sigterm), "end only by SIGKILL"},
    {"needs-tty", NULL, SWITCH, AT(needs_tty), "fail when the standard input is no terminal"},
    {"start-delay", "S", REAL, AT(start_delay_s), "seconds before anything happens"},
    {"print", "BYTES", BYTES, AT(print_bytes), "flood the standard output in the first step"},
    {"broken-lines", NULL, SWITCH, AT(broken_lines),
     "write broken lines of the steps protocol between the good ones"},
    {"no-steps", NULL, SWITCH, AT(no_steps), "do not speak the steps protocol"},
    {"samples", "N", COUNT, AT(samples),
     "end when the weights have seen so many (instead of --steps)"},
    {"save", "PREFIX", TEXT, AT(save),
     "the checkpoints of --checkpoint-every are states, in files of their own: PREFIX000064.state"},
    {"quiet-save", NULL, SWITCH, AT(quiet_save), "do not tell of checkpoints"},
    {"save-file", "FILE", TEXT, AT(save_file), "the same in one file that is written over"},
    {"resume", "FILE", TEXT, AT(resume), "go on from this state; it must be whole"},
    {"result", "FILE", TEXT, AT(result), "the state at the end"},
    {"say-made", NULL, SWITCH, AT(say_made),
     "tell in each step how many samples the weights have seen"},
    {"oom-from-step", "N", COUNT, AT(oom_from_step), "from this step of the process on (1),"},
    {"oom-above", "B", COUNT, AT(oom_above), "batches above B run out of memory"},
    {"faults", "FILE", TEXT, AT(faults),
     "lines \"SAMPLES KIND [B]\": kill, hang, crash, torn (half a state, then killed), batchfit "
     "(is killed), each once (FILE.LINE is made); oom B: from there on above that batch"},
};
enum { ROWS = sizeof rows / sizeof *rows, FIRST_KEY = 256 };

static bool read_bytes(const char *text, char **ret_end, int64_t *ret) {
    static const char units[] = "KMGT";
    double value = strtod(text, ret_end);
    const char *unit = **ret_end ? strchr(units, **ret_end & ~32) : NULL;
    if (*ret_end == text || value < 0) return false;
    if (unit) {
        for (; unit >= units; unit--) value *= 1024;
        ++*ret_end;
        if (strncmp(*ret_end, "iB", 2) == 0) *ret_end += 2;
    }
    *ret = (int64_t)value;
    return value < 0x1p60;
}

static bool read_bump(struct scenario *s, const char *text) {
    char *end;
    if (s->bump_count == BUMPS_MAX) return false;
    struct bump *b = &s->bumps[s->bump_count++];
    b->from = strtoll(text, &end, 10);
    if (*end != '-') return false;
    b->to = strtoll(end + 1, &end, 10);
    return *end == ':' && read_bytes(end + 1, &end, &b->extra_bytes) && !*end;
}

static bool read_value(struct scenario *s, const struct row *row, char *text) {
    char *field = (char *)s + row->offset, *end = NULL;
    bool is_good = true;
    if (row->kind == SWITCH && row->offset > 0) *(bool *)field = true;
    if (row->kind == TEXT) *(const char **)field = text;
    if (row->kind == COUNT) *(int64_t *)field = strtoll(text, &end, 10);
    if (row->kind == REAL) *(double *)field = strtod(text, &end);
    if (row->kind == BYTES) is_good = read_bytes(text, &end, (int64_t *)field);
    if (row->kind == BUMP) is_good = read_bump(s, text);
    return is_good && (!end || (end != text && !*end));
}

static error_t on_option(int key, char *text, struct argp_state *state) {
    if (key == ARGP_KEY_ARG) argp_error(state, "%s: not an option", text);
    if (key < FIRST_KEY || key >= FIRST_KEY + ROWS) return ARGP_ERR_UNKNOWN;
    const struct row *row = &rows[key - FIRST_KEY];
    if (!read_value(state->input, row, text))
        argp_error(state, "--%s %s: not %s", row->name, text, row->argument);
    return 0;
}

void scenario_read(int argc, char **argv, struct scenario *ret) {
    static struct argp_option options[ROWS + 1];
    static const struct argp parser = {
        options,
        on_option,
        NULL,
        "A fake for a training, for tests and demos: it plays a scenario and trains nothing. "
        "It writes the steps protocol (framework \"standin\") and takes memory and time that are "
        "affine in the batch.",
        NULL,
        NULL,
        NULL};
    for (int i = 0; i < ROWS; i++) {
        options[i] =
            (struct argp_option){rows[i].name, FIRST_KEY + i, rows[i].argument, 0, rows[i].help, 0};
    }
    *ret = (struct scenario){.batch = 8,
                             .accumulate = 1,
                             .steps = 50,
                             .constant_bytes = 16 << 20,
                             .slope_bytes = 1 << 20,
                             .seed = 1,
                             .step_ms = 2,
                             .sample_ms = 0.1,
                             .ranks = 1,
                             .oom_rank = -1,
                             .signal = 0};
    argp_err_exit_status = 2;
    argp_parse(&parser, argc, argv, 0, NULL, ret);
    if (ret->ignore_batch > 0) ret->batch = ret->ignore_batch;
    bool is_good = ret->batch > 0 && ret->accumulate > 0 && ret->ranks > 0 && ret->ranks <= 64;
    if (is_good) return;
    fprintf(stderr, "trainer: --batch and --accumulate are at least 1, --ranks 1 to 64\n");
    exit(2);
}

bool scenario_is_card(const struct scenario *s) {
    return s->pretend || s->limit_bytes > 0 || s->spill_bytes > 0 || s->oom_rank >= 0;
}
