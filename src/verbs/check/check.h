// SPDX-License-Identifier: Apache-2.0
// The parts of the verb check: facts are gathered, judged (rules), turned into settings, and
// shown.
#pragma once

#include "base/json.h"
#include "job/answer/answer.h"
#include "job/question/question.h"
#include "machine/rules/rules.h"
#include "machine/trend/trend.h"
#include "view/show/show.h"

// check --benchmark: measured in processes of their own (src/verbs/check/microbench_verb.c), judged
// (machine/rules/rules.h), shown.

struct check;

struct check_microbenches {
    struct rules_microbench *items;
    ptrdiff_t count, capacity;
    double busy; // share of the cores that others kept busy before we began; NaN: unknown
};

// microbench.c: measures and adds the findings. FAIL_INPUT: a broken rates.tsv.
int check_measure(struct check *c, struct fail *why);
// microbench_show.c
json_t *check_figure_json(const struct microbench_figure *figure); // a line between the processes
void check_figure_read(struct arena *a, const json_t *line, struct microbench_figure *ret_figure);
void check_microbench_show(const struct check *c, struct show_style style, struct buf *out);
json_t *check_microbench_json(const struct check *c);

struct check_options {
    struct question_options q;
    const char *machine, *python, *models, *gpus, *uses, *sizes, *output, *record;
    bool detailed, matrix, recommend, benchmark, demo;
    const char *only; // GPUs, cpu: all that --benchmark measures; NULL: both
    int64_t deadline; // seconds of one benchmark; 0: the usual
};

// What to set for a training on one GPU, or on the CPU. Unknown: -1, NaN, an empty text.
struct check_advice {
    int card; // index; -1: the CPU
    // Mixed: none without tensor cores, fp16 where bf16 is emulated, else bf16.
    enum plan_precision precision;
    bool tf32, pin_memory, channels_last, compile, cudnn_benchmark;
    int workers;
    bool has_answer; // a tape matches the config's model
    struct answer answer;
    struct str why_no_answer;
};

struct check {
    struct arena *arena;
    const struct check_options *options;
    struct question question;
    struct rules_facts facts;
    struct rules_support *supports;
    const struct gpu **gpus; // of the catalogue, one a GPU; NULL: not in it
    struct rules_needs needs;
    struct trend_stretch *stretches; // with --detailed: what was watched, one a GPU
    struct findings findings;
    struct check_microbenches rates; // with --benchmark
    struct check_advice *advice;     // one a GPU that answers, or one for the CPU
    int advice_count;
};

// facts.c: all that is known of the machine (the options', or this one). FAIL_INPUT: a broken
// recording.
int check_gather(struct check *c, struct fail *why);
// site.c: the same by the files that the Python imports from. False: these do not tell.
bool check_read_torch(struct arena *a, const char *python, struct rules_torch *ret_torch);
// torch.c: asks the user's Python about its PyTorch, within 30 s.
void check_ask_torch(struct arena *a, const char *python, struct rules_torch *ret_torch);
// Watches the GPUs for about three seconds, for the share of time that only counters tell.
int check_watch(struct check *c, struct fail *why);
struct rules_torch check_torch_unasked(void); // nothing is known
// advice.c
int check_advise(struct check *c, struct fail *why);
struct str check_precision_text(const struct check_advice *advice); // "amp-bf16"
// show.c
void check_show(struct check *c, struct show_style style, struct buf *out);
json_t *check_json(struct check *c);
bool check_is_well(const struct check *c); // neither a problem nor a warning

// topology.c: how the GPUs are joined
void check_topology_show(const struct check *c, struct show_style style, struct buf *out);
json_t *check_topology_json(const struct check *c);

// matrix.c: models by GPUs, on standard output or into the file of --output (.md, .html,
// .json, .csv by its name).
int check_matrix(struct check *c, struct fail *why);

// What check --matrix asks and what came of it: a row a model, use and size; a column a GPU.

struct matrix_cell {
    bool is_known;
    bool is_counted; // known, and of the training that is asked for (answer_is_counted)
    struct str why;  // not known, or not counted: what the GPU lacks, what is not modelled
    struct answer_word word; // as fit would say it; of a known one
    struct answer answer;
};

struct matrix_use; // what the model is used for
struct matrix_row {
    struct str model;
    const struct matrix_use *use;
    int64_t size; // pixels or tokens; 0: nobody says
};

struct matrix {
    struct check *check;
    struct str_list models;
    struct matrix_row *rows;
    ptrdiff_t row_count, row_capacity;
    struct question_gpus cards;
    struct matrix_cell *cells; // row by row
    bool at_batch;             // --batch-size
};

// Models, uses, sizes and GPUs of the options. FAIL_USAGE, FAIL_INPUT: one that nobody knows.
int check_matrix_open(struct matrix *m, struct fail *why);
void check_matrix_fill(struct matrix *m);
const char *check_matrix_use_name(const struct matrix_use *use); // "train", "eval", "infer"
// More than that the model trains is asked.
bool check_matrix_has_uses(const struct matrix *m);
