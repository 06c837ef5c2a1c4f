// SPDX-License-Identifier: Apache-2.0
// Test-time augmentation: a model sees several views of an image and their outputs are averaged.
// What a type costs comes from the model's tape, or from a measurement; what it gains (F1) is the
// team's own figure and never ours.
#pragma once

#include "cli/cli.h"
#include "job/answer/answer.h"

struct answer_tta_options {
    const char *tta, *table, *target_time;
    int64_t images;
    double min_f1;
};

// The rows of these options, for a verb whose struct is `type` with the member `t`.
#define ANSWER_TTA_AT(type, member) offsetof(type, t.member)
#define ANSWER_TTA_ROWS(type)                                                             \
    CLI_ROW("tta", "TYPE", CLI_TEXT, ANSWER_TTA_AT(type, tta),                            \
            "test-time augmentation: auto, or a type of the table: none, essential, "     \
            "comprehensive, legacy (data/tta.tsv)",                                       \
            "auto none essential comprehensive legacy", .about = CLI_OF_VIEWS),           \
        CLI_ROW("tta-table", "FILE", CLI_TEXT, ANSWER_TTA_AT(type, table),                \
                "table of your own types and their F1 scores (doc/inference.md)", "file", \
                .about = CLI_OF_VIEWS),                                                   \
        CLI_ROW("images", "N", CLI_COUNT, ANSWER_TTA_AT(type, images),                    \
                "number of images to predict", .about = CLI_OF_VIEWS),                    \
        CLI_ROW("target-time", "TIME", CLI_TEXT, ANSWER_TTA_AT(type, target_time),        \
                "time limit for all images: 20m, 1h30m, 90s; a bare number is minutes",   \
                .about = CLI_OF_VIEWS),                                                   \
        CLI_ROW("min-f1", "SCORE", CLI_NUMBER, ANSWER_TTA_AT(type, min_f1),               \
                "minimum F1 score, by the table's figures", .about = CLI_OF_VIEWS)

// One row of data/tta.tsv.
struct answer_tta_type {
    struct str name;
    int64_t views;
    double f1_low, f1_high; // NaN: not known; high alone: "or more"
    struct str source;      // whose figures
};
struct answer_tta_table {
    struct answer_tta_type *items;
    ptrdiff_t count, capacity;
};
// The file at `path`, or data/tta.tsv (the user's folder wins). FAIL_INPUT names file and line.
int answer_tta_table_load(struct arena *a, const char *path, struct answer_tta_table *ret,
                          struct fail *why);

struct answer_tta_ask {
    bool is_asked, is_auto;
    bool stacks;                   // the config has all views of an image in one batch
    struct answer_tta_table types; // that are compared: one, or with auto all of the table
    int64_t images;                // that the times are for
    bool has_images;               // else they are the usual thousand
    double target_s, min_f1;       // NaN: none
    double within_s;       // a target that cannot be judged, for want of `images`; NaN: none
    struct str_list notes; // for the user
};
// Needs the question's config for what the options leave open.
int answer_tta_ask_open(struct question *q, const struct answer_tta_options *o,
                        struct answer_tta_ask *ret, struct fail *why);
// The edits that make the config's own keys say the type.
struct config_edits answer_tta_edits(struct question *q, const struct answer_tta_type *type);

// NaN: not known. Where the host decides how fast it is, only how fast it is at best.
struct answer_tta_range {
    double likely, low, high;
};
// LIKELY: the time is met in the middle of its range and not at its end.
enum answer_tta_verdict {
    ANSWER_TTA_MEETS,
    ANSWER_TTA_LIKELY,
    ANSWER_TTA_OOM,
    ANSWER_TTA_TOO_SLOW,
    ANSWER_TTA_F1_LOW,
    ANSWER_TTA_F1_UNKNOWN,
    ANSWER_TTA_TIME_UNKNOWN,
    ANSWER_TTA_VERDICTS
};
struct answer_tta_row {
    const struct answer_tta_type *type;
    int64_t at_once;      // views stacked into a batch; 1: one forward for each
    int64_t batch;        // images; the model sees batch x at_once
    int64_t needed_bytes; // of the allocator; measured: of the device
    bool fits;
    struct answer_tta_range time_s; // for ask->images
    enum answer_tta_verdict verdict;
};
struct answer_tta {
    const struct answer_tta_ask *ask;
    struct answer_tta_row *rows;              // one for each of ask->types
    const struct answer_tta_row *recommended; // NULL: none meets what was asked
};
// What trials have shown; they take the place of the tape.
struct answer_tta_measured {
    int64_t batch, peak_bytes;
    struct answer_tta_range per_s; // views
};
// For the answer's GPU; measured may be NULL.
int answer_tta_answer(struct question *q, const struct answer *answer,
                      const struct answer_tta_ask *ask, const struct answer_tta_measured *measured,
                      struct answer_tta **ret, struct fail *why);

void answer_tta_show(struct arena *a, const struct answer_tta *t, struct show_style style,
                     struct buf *out);
// Adds "tta", "recommended", "nearest" and "images" to an object.
void answer_tta_json(json_t *to, const struct answer_tta *t);
