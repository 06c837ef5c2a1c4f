// SPDX-License-Identifier: Apache-2.0
// Tokens a second of language models, a line of answer for a line of question: tools/tokens_fit.py
// asks with published runs.
//   tokens [NAME=VALUE ...] < ROWS
// ROWS are tab-separated, the first line names the columns: gpu ranks shard precision checkpointing
// batch accumulation sequence hidden layers heads kv_heads head_dim intermediate vocabulary tied
// parameters moved tape bandwidth peak. moved: bytes of a micro-step; empty: those of the tape.
// bandwidth and peak: of the GPU, in place of data/gpus.tsv's. NAME=VALUE sets a constant of
// data/tokens.tsv (a100-tokens.f_linear=0.7). Answers: tokens a second of one GPU, the range, the
// utilisation, the share of the step that waits for other GPUs.
#include "base/data.h"
#include "base/os.h"
#include "predict/speed/speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 28 };

static const char *const constants[] = {"f_linear", "f_attention", "knee", "b_moved", "layer_ms"};

static void die(const struct fail *why) {
    fprintf(stderr, "tokens: %s\n", why->message);
    exit(3);
}

static void set(struct speed_tokens_table *t, struct str text) {
    struct str rest = text, path = str_cut(&rest, '=');
    struct str row = str_cut(&path, '.');
    for (ptrdiff_t i = 0; i < t->count; i++)
        for (int k = 0; k < SPEED_TOKENS_CONSTANTS; k++)
            if (str_equal(t->rows[i].row.name, row) && str_is(path, constants[k]) &&
                str_to_double(rest, &t->rows[i].constants[k]))
                return;
    fprintf(stderr, "tokens: %.*s: no constant of data/tokens.tsv\n", STR_ARG(text));
    exit(2);
}

static int64_t number(const struct tsv *t, const char *column) {
    int64_t value = 0;
    (void)str_to_i64(tsv_cell(t, column), &value);
    return value;
}

static struct speed_seen seen_of(struct arena *a, const struct tsv *t, int64_t batch) {
    struct speed_seen seen = {0};
    struct tape tape;
    struct str bytes;
    struct fail why = {0};
    struct str path = tsv_cell(t, "tape");
    if (str_to_double(tsv_cell(t, "moved"), &seen.bytes)) {
        seen.linear_again = seen.attention_again = (double)number(t, "checkpointing");
        return seen;
    }
    if (os_read_file(a, str_z(a, path), MOST_BYTES, &bytes, NULL, &why) < 0 ||
        tape_read(a, path, bytes, &tape, &why) < 0)
        die(&why);
    return speed_seen_of(&tape, batch);
}

static void answer(struct arena *a, const struct gpu_catalogue *gpus,
                   const struct speed_tokens_table *table, const struct tsv *t) {
    struct fail why = {0};
    struct gpu_match match;
    struct shape shape = {
        .hidden = number(t, "hidden"),
        .layers = number(t, "layers"),
        .heads = number(t, "heads"),
        .kv_heads = number(t, "kv_heads"),
        .head_dim = number(t, "head_dim"),
        .intermediate = number(t, "intermediate"),
        .vocabulary = number(t, "vocabulary"),
        .parameters = number(t, "parameters"),
        .tied = number(t, "tied") != 0,
    };
    struct plan plan = {
        .batch = number(t, "batch"),
        .accumulation = number(t, "accumulation"),
        .sequence_length = number(t, "sequence"),
        .ranks = number(t, "ranks"),
        .shard = tsv_cell(t, "shard"),
        .precision = plan_precision_find(tsv_cell(t, "precision")),
        .checkpointing = number(t, "checkpointing") != 0,
    };
    struct speed s;
    if (gpu_find(a, gpus, tsv_cell(t, "gpu"), &match, &why) < 0) die(&why);
    struct gpu gpu = *match.gpu;
    (void)str_to_double(tsv_cell(t, "bandwidth"), &gpu.bandwidth);
    (void)str_to_double(tsv_cell(t, "peak"), &gpu.bf16);
    struct speed_tokens_run run = {&plan, &shape, &gpu, seen_of(a, t, plan.batch)};
    if (!speed_tokens_at(table, &run, &s)) {
        printf("\n");
        return;
    }
    printf("%.6g\t%.6g\t%.6g\t%.6g\t%.6g\n", s.samples_per_s * s.tokens, s.low * s.tokens,
           s.high * s.tokens, s.mfu, s.waits_s / s.step_s);
}

int main(int argc, char **argv) {
    struct arena a = {0};
    struct fail why = {0};
    struct gpu_catalogue gpus;
    struct speed_tokens_table table;
    struct str text;
    struct tsv t = {0};
    if (gpu_load(&a, &gpus, &why) < 0 || speed_tokens_load(&a, &table, &why) < 0) die(&why);
    for (int i = 1; i < argc; i++) set(&table, str_of(argv[i]));
    if (os_read(&a, "/dev/stdin", MOST_BYTES, &text, NULL, &why) < 0 ||
        tsv_open(&t, STR("stdin"), text, &why) < 0)
        die(&why);
    int rc;
    while ((rc = tsv_next(&t, &why)) > 0) answer(&a, &gpus, &table, &t);
    if (rc < 0) die(&why);
    arena_clear(&a);
    return 0;
}
