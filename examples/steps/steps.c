// SPDX-License-Identifier: Apache-2.0
// The steps protocol from C: a line fitted to points by gradient descent. It runs alone, too, and
// then writes nothing.
//
//     cc -O2 -I../../include steps.c -o steps
//     ./steps 64                     # points in a batch
#include "batchfit_steps.h"

enum { STEPS = 200, BATCH_MAX = 1 << 16 };
static double xs[BATCH_MAX], errors[BATCH_MAX];

static void load(int batch) {
    for (int i = 0; i < batch; i++) xs[i] = rand() / (RAND_MAX + 1.0);
}

static void measure_errors(int batch, double slope, double intercept) {
    for (int i = 0; i < batch; i++) errors[i] = slope * xs[i] + intercept - (3 * xs[i] + 1);
}

static void find_gradients(int batch, double *slope, double *intercept) {
    *slope = *intercept = 0;
    for (int i = 0; i < batch; i++) {
        *slope += 2 * errors[i] * xs[i] / batch;
        *intercept += 2 * errors[i] / batch;
    }
}

int main(int argc, char **argv) {
    int batch = argc > 1 ? atoi(argv[1]) : 64;
    if (batch < 1 || batch > BATCH_MAX) {
        fprintf(stderr, "steps: a batch is 1 to %d points\n", BATCH_MAX);
        return 2;
    }
    double slope = 0, intercept = 0, down_slope, down_intercept;
    struct batchfit_steps s;
    batchfit_open(&s);
    s.framework = "none";
    s.device = "cpu";
    s.program = "steps.c";
    batchfit_start(&s);
    for (int step = 0; step < STEPS; step++) {
        batchfit_phase(&s, BATCHFIT_IO);
        load(batch);
        batchfit_phase(&s, BATCHFIT_FORWARD);
        measure_errors(batch, slope, intercept);
        batchfit_phase(&s, BATCHFIT_BACKWARD);
        find_gradients(batch, &down_slope, &down_intercept);
        batchfit_micro_batch(&s, batch);
        batchfit_phase(&s, BATCHFIT_OPTIMIZER);
        slope -= 0.5 * down_slope;
        intercept -= 0.5 * down_intercept;
        batchfit_step(&s);
    }
    batchfit_end(&s, 1, NULL);
    printf("y = %.2f x + %.2f\n", slope, intercept);
    return 0;
}
