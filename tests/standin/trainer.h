// SPDX-License-Identifier: Apache-2.0
// A trainer that plays scenarios: what its parts share.
#ifndef TRAINER_H
#define TRAINER_H

#include "batchfit_steps.h"

#include <stdbool.h>
#include <stdint.h>

enum { BUMPS_MAX = 8 };

struct bump {
    int64_t from, to, extra_bytes; // batches from..to need more
};

// What the command line asks for; --help says what each means.
struct scenario {
    int64_t batch, accumulate, ignore_batch;
    int64_t constant_bytes, slope_bytes, limit_bytes, spill_bytes, retries_from_bytes, leak_bytes;
    struct bump bumps[BUMPS_MAX];
    int bump_count;
    bool pretend, fast;
    const char *message;
    double noise, step_ms, sample_ms, start_delay_s;
    int64_t seed, steps, hang_at_step, crash_at_step, signal, validation_every, checkpoint_every,
        last_batch, stray, ranks, oom_rank, print_bytes;
    bool fork_exit, broken_lines, needs_tty, setpgid, no_steps, ignore_sigterm;
    int64_t samples, oom_from_step, oom_above;
    const char *save, *save_file, *resume, *result, *faults;
    bool say_made, quiet_save;
};

// What the weights have seen.
struct state {
    int64_t *samples, *steps; // their numbers, in order; how many each step took
    int64_t seen, step_count;
    bool is_tearing; // the next save ends half way
};

// One process that trains.
struct trainer {
    const struct scenario *scene;
    struct batchfit_steps steps;
    uint64_t random;
    double memory_factor;           // this launch's noise
    int64_t held_bytes, real_bytes; // asked for; really allocated
    struct state state;
    volatile int64_t *arrived; // by rank: steps whose gradients are ready; NULL: one rank
};

// Fills *ret from the command line, or prints what is wrong and exits with 2.
void scenario_read(int argc, char **argv, struct scenario *ret);
// It plays a GPU, whose memory it reports; otherwise it is on the CPU.
bool scenario_is_card(const struct scenario *s);

// A normal random number, cut at 3.
double trainer_random(struct trainer *t);

// Bytes of the weights (at the start), of the activations (first forward) and of the optimizer's
// state (first update). Their sum is the need, noise included.
int64_t memory_of_weights(const struct trainer *t);
int64_t memory_of_activations(const struct trainer *t, int64_t batch);
int64_t memory_of_optimizer(const struct trainer *t);
// Holds so many more, or says that memory ran out and ends the process.
void memory_take(struct trainer *t, int64_t bytes, int64_t samples);
bool memory_spills(const struct trainer *t);
// Says that memory ran out, and ends the process.
void memory_run_out(struct trainer *t, int64_t samples);

int64_t state_sample(const struct scenario *s, int64_t i);
void state_add(struct trainer *t, int64_t samples); // a step has seen so many more
void state_save(struct trainer *t);
void state_result(const struct trainer *t);
void state_resume(struct trainer *t); // ends the process when the file is not whole
void state_faults(struct trainer *t); // may not return

// What the program tells of a GPU; a CPU has no allocator to ask.
void memory_report(struct trainer *t);

#endif
