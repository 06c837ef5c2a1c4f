// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "measure/steps/steps.h"

#include <math.h>
#include <stdio.h>

// Lines as the frameworks print them: whose, what they count to and of how many.
static void lines_of_every_framework_are_read(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int64_t number, total;
        bool is_step, is_validation;
    } cases[] = {
        {" 12%|█▏        | 12/100 [00:10<01:22,  1.20it/s]", 12, 100, true,
         false}, // tqdm, HF's Trainer
        {"Epoch 0:  12%|█▏        | 12/100 [00:01<00:11,  8.0it/s, v_num=0]", 12, 100, true, false},
        {"Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00, 90it/s]", 5, 10, false,
         true},
        {"Map:  12%|█▏        | 1000/8000 [00:01<00:11, 900 examples/s]", 1000, 8000, false, false},
        {"Loading weights: 100%|██████████| 76/76 [00:00<00:00, 9000it/s]", 76, 76, false, false},
        {"iter 10: loss 4.2313, time 21.50ms, mfu 0.25%", 10, -1, true, false}, // nanoGPT
        {" iteration       10/     100 | consumed samples:          640 |", 10, 100, true, false},
        {"Epoch [1][50/100]  lr: 1.0e-02, eta: 0:01:02, time: 0.215, loss: 0.9", 50, 100, true,
         false},
        {"11/22 10:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/100]  lr: 1e-2", 50, 100, true,
         false},
        {"11/22 10:00:00 - mmengine - INFO - Epoch(val)  [1][ 50/100]  ", -1, -1, false, false},
        {"11/22 10:00:00 - mmengine - INFO - Iter(train) [  50/1000]  lr: 1e-2", 50, 1000, true,
         false},
        {"Epoch: [0]  [ 10/100]  eta: 0:00:20  lr: 0.1  loss: 2.3 (2.4)", 10, 100, true, false},
        {"Epoch: [0][  10/1251]\tTime  0.2 ( 0.3)\tData  0.0", 10, 1251, true, false}, // imagenet
        {"Test: [ 10/100]\tTime  0.2", -1, -1, false, false},
        {"Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.9)  Time: 0.2s", 50, 1251, true, false}, // timm
        {"Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.7", 640, 60000, false, false}, // counts samples
        {"12/100 ━━━━━━━━━━━━━━━━━━━━ 3s 30ms/step - loss: 0.5", 12, 100, true, false}, // Keras 3
        {" 12/100 [==>...........................] - ETA: 3s - loss: 0.5", 12, 100, true, false},
        {"Epoch 3/9  ━━━━━━━━━━━━ 12/100 0:00:01 • 0:00:10 8.00it/s", 12, 100, true, false},
        {"[titan] step: 30  loss:  7.1  memory:  1.2GiB", 30, -1, true, false},
        {"Step [20/600], Loss: 0.31", 20, 600, true, false},
        {"step=120, loss=0.4", 120, -1, true, false},
        {"[120] learning_rate=0.1, loss=0.4", 120, -1, true, false}, // JAX: clu
        {"{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}", -1, -1, false,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct printed_line line = {.number = -1, .total = -1};
        bool is_read = steps_printed_read(str_of(cases[i].line), &line);
        if (line.number != cases[i].number || line.total != cases[i].total ||
            (is_read && line.is_step != cases[i].is_step) ||
            (is_read && line.is_validation != cases[i].is_validation))
            fail_msg("%s: %d, %lld of %lld, step %d, validation %d", cases[i].line, is_read,
                     (long long)line.number, (long long)line.total, line.is_step,
                     line.is_validation);
    }
}

static void other_lines_are_none(void **state) {
    (void)state;
    static const char *const lines[] = {
        "loaded 12/100 files",
        "2026-11-22 10/11/12 started",
        "misstep 12",
        "the next step is to wait",
        "step into it",
        "",
        "100%",
        "Traceback (most recent call last):",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct printed_line line;
        if (steps_printed_read(str_of(lines[i]), &line) && line.number >= 0)
            fail_msg("%s: %lld", lines[i], (long long)line.number);
    }
}

static void feed(struct printed *p, struct printed_source *source, const char *text, int64_t ms) {
    steps_printed_feed(p, source, str_of(text), ms * 1000000);
}

static void what_counts_up_regularly_are_steps(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct printed *p = arena_new(&a, struct printed, 1);
    struct printed_source source = {0};
    char line[100];
    feed(p, &source, "Map: 100%|####| 9/9 [00:01<00:00]\n", 0);
    for (int i = 0; i <= 8; i++) {
        snprintf(line, sizeof line, "\r\033[1m%d/20\033[0m \xe2\x94\x81\xe2\x94\x81 loss: 0.5",
                 2 * i);
        feed(p, &source, line, 100 * i);
        if (i < 3) assert_null(steps_printed_best(p));
    }
    const struct printed_bar *bar = steps_printed_best(p);
    assert_non_null(bar);
    assert_int_equal(bar->made, 16);
    struct steps steps = steps_new(&a);
    steps_printed_take(bar, 4, &steps);
    assert_int_equal(steps.count, 8);
    assert_int_equal(steps.items[0].samples, 8);
    assert_true(fabs(steps.items[3].times.total_ms - 100) < 1e-6);
    assert_true(isnan(steps.items[3].times.forward_ms));
    assert_int_equal(steps_of_slowest(&steps, 0), 16);
    assert_true(steps.covered == STEPS_COVER_SECOND_STEP);
}

static void what_comes_in_bursts_is_none(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct printed *p = arena_new(&a, struct printed, 1);
    struct printed_source source = {0};
    static const int64_t ms[] = {0, 1, 900, 905, 4000, 4001, 4002, 9000};
    char line[40];
    for (int i = 0; i < 8; i++) {
        snprintf(line, sizeof line, "step %d\n", i);
        feed(p, &source, line, ms[i]);
    }
    assert_null(steps_printed_best(p));
}

// A gigabyte without a line's end costs neither memory nor the next line.
static void an_endless_line_is_dropped(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct printed *p = arena_new(&a, struct printed, 1);
    struct printed_source source = {0};
    char *much = arena_new(&a, char, 1 << 20);
    memset(much, 'x', 1 << 20);
    for (int i = 0; i < 16; i++) steps_printed_feed(p, &source, (struct str){much, 1 << 20}, 0);
    assert_int_equal(source.length, PRINTED_LINE_BYTES);
    feed(p, &source, "\nstep 1\nstep 2\nstep 3\nstep 4\nstep 5\n", 0);
    assert_int_equal(p->lines, 5);
}

// It is shown: a bar of thick letters, cut where it no longer fits, has no half one at its end.
static void an_example_ends_in_no_letter(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct printed *p = arena_new(&a, struct printed, 1);
    struct printed_source source = {0};
    char line[200] = "2%|";
    for (int i = 0; i < 30; i++) strcat(line, "█");
    strcat(line, "| 2/100 [00:01<00:49, 2.00it/s]\n");
    feed(p, &source, line, 0);
    assert_int_equal(p->count, 1);
    assert_int_equal(strlen(p->bars[0].example), strlen("2%|") + 25 * strlen("█"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_every_framework_are_read),
        cmocka_unit_test(other_lines_are_none),
        cmocka_unit_test(what_counts_up_regularly_are_steps),
        cmocka_unit_test(what_comes_in_bursts_is_none),
        cmocka_unit_test(an_endless_line_is_dropped),
        cmocka_unit_test(an_example_ends_in_no_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
