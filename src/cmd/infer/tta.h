// SPDX-License-Identifier: Apache-2.0
// Test-time augmentation: a model sees several views of an image and their outputs are averaged.
// What a type costs comes from the model's tape, or from a measurement; what it gains (F1) is the
// team's own figure and never ours.
#ifndef CMD_INFER_TTA_H
#define CMD_INFER_TTA_H

#include "cmd/answer.h"
#include "cmd/rows.h"

struct tta_options {
    const char *tta, *table, *target_time;
    int64_t images;
    double min_f1;
};

// The rows of these options, for a verb whose struct is `type` with the member `t`.
#define TTA_AT(type, member) offsetof(type, t.member)
#define TTA_ROWS(type)                                                                         \
    ROW("tta", "TYPE", OPTION_TEXT, TTA_AT(type, tta),                                         \
        "test-time augmentation: a type of the table or auto; the table has none, essential, " \
        "comprehensive and legacy (data/tta.tsv)",                                             \
        "auto none essential comprehensive legacy"),                                           \
        ROW("tta-table", "FILE", OPTION_TEXT, TTA_AT(type, table),                             \
            "your own types and their F1 scores (doc/inference.md)", "file"),                  \
        ROW("images", "N", OPTION_COUNT, TTA_AT(type, images), "images to be predicted", ""),  \
        ROW("target-time", "TIME", OPTION_TEXT, TTA_AT(type, target_time),                     \
            "all images within this time: 20m, 1h30m, 90s; a bare number is minutes", ""),     \
        ROW("min-f1", "SCORE", OPTION_NUMBER, TTA_AT(type, min_f1),                            \
            "the F1 score that the type must reach, by the table's figures", "")

// One row of data/tta.tsv.
struct tta_type {
    struct str name;
    int64_t views;
    double f1_low, f1_high; // NaN: not known; high alone: "or more"
    struct str source;      // whose figures
};
struct tta_table {
    struct tta_type *items;
    ptrdiff_t count, capacity;
};
// The file at `path`, or data/tta.tsv (the user's folder wins). FAIL_INPUT names file and line.
int tta_table_load(struct arena *a, const char *path, struct tta_table *ret, struct fail *why);
// "20m", "1h30m", "90s"; bare: minutes. False when it is none, or not above 0.
bool tta_parse_time(struct str text, double *ret_s);

struct tta_ask {
    bool is_asked, is_auto;
    bool stacks;             // the config has all views of an image in one batch
    struct tta_table types;  // that are compared: one, or with auto all of the table
    int64_t images;          // that the times are for
    bool knows_images;       // else they are the usual thousand
    double target_s, min_f1; // NaN: none
    double within_s;         // a target that cannot be judged, for want of `images`; NaN: none
    struct str_list notes;   // for the user
};
// Needs the question's config for what the options leave open.
int tta_ask_open(struct question *q, const struct tta_options *o, struct tta_ask *ret,
                 struct fail *why);
// The edits that make the config's own keys say the type.
struct config_edits tta_edits(struct question *q, const struct tta_type *type);

// NaN: not known. Where the host decides how fast it is, only how fast it is at best.
struct tta_range {
    double likely, low, high;
};
// LIKELY: the time is met in the middle of its range and not at its end.
enum tta_verdict {
    TTA_MEETS,
    TTA_LIKELY,
    TTA_OOM,
    TTA_TOO_SLOW,
    TTA_F1_LOW,
    TTA_F1_UNKNOWN,
    TTA_TIME_UNKNOWN,
    TTA_VERDICTS
};
struct tta_row {
    const struct tta_type *type;
    int64_t at_once;      // views stacked into a batch; 1: one forward for each
    int64_t batch;        // images; the model sees batch x at_once
    int64_t needed_bytes; // of the allocator; measured: of the device
    bool fits;
    struct tta_range time_s; // for ask->images
    enum tta_verdict verdict;
};
struct tta {
    const struct tta_ask *ask;
    struct tta_row *rows;              // one for each of ask->types
    const struct tta_row *recommended; // NULL: none meets what was asked
};
// What trials have shown; they take the place of the tape.
struct tta_measured {
    int64_t batch, peak_bytes;
    struct tta_range per_s; // views
};
// For the answer's card; measured may be NULL.
int tta_answer(struct question *q, const struct answer *answer, const struct tta_ask *ask,
               const struct tta_measured *measured, struct tta **ret, struct fail *why);

void tta_show(struct arena *a, const struct tta *t, struct show_style style, struct buf *out);
// Adds "tta", "recommended", "nearest" and "images" to an object.
void tta_json(json_t *to, const struct tta *t);

#endif
