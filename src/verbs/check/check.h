// SPDX-License-Identifier: Apache-2.0
// The parts of the verb check: facts are gathered, judged (rules), turned into settings, and
// shown.
#pragma once

#include "job/answer/answer.h"
#include "job/question/gpus.h"
#include "machine/trend/trend.h"
#include "verbs/check/microbench.h"

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
