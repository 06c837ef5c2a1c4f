// SPDX-License-Identifier: Apache-2.0
// The team's settings file: read for its GPUs, written with the smallest edit.
#include "job/answer/answer.h"
#include "verbs/team/team.h"

struct config_card team_settings_of(struct str key, const struct plan *p) {
    return (struct config_card){
        .card = key,
        .batch = p->batch,
        .accumulation = p->accumulation,
        .effective = plan_effective(p),
        .image_size = p->image_size,
        .mixed_precision = !p->precision               ? 0
                           : p->precision == PLAN_FP32 ? -1
                                                       : 1,
        .precision = plan_precision_text(p->precision),
        .model = p->model,
    };
}

static int read_settings(struct question *q, const char *path, struct config *ret,
                         struct os_stamp *ret_stamp, struct fail *why) {
    struct str text;
    int rc = os_read_file(q->arena, path, CONFIG_MAX_BYTES, &text, ret_stamp, why);
    if (rc == 0) rc = config_parse(q->arena, str_of(path), text, ret, why);
    return rc < 0 ? rc : config_refuse_repeated(ret, why);
}

int team_settings_write(struct question *q, const struct config_card *cards, int count,
                        const char *path, struct buf *report, struct fail *why) {
    struct config before;
    struct config_patched patched;
    struct os_stamp stamp = {0};
    bool exists = os_exists(path);
    int rc = exists ? read_settings(q, path, &before, &stamp, why) : 0;
    if (rc == 0) {
        rc = config_team_write(q->arena, exists ? &before : NULL, cards, count, &patched, why);
    }
    if (rc == 0 && (!exists || patched.changed)) {
        rc = answer_write_file(q->arena, path, patched.text, &stamp, report, why);
    }
    if (rc < 0) return rc;
    buf_format(report, "%s: %s, %d GPUs\n", exists && !patched.changed ? "unchanged" : "written",
               path, count);
    return 0;
}

static bool is_there(const struct question_gpus *cards, struct str key) {
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        if (str_equal(cards->items[i].gpu.key, key)) return true;
    }
    return false;
}

int team_settings_cards(struct question *q, const char *path, struct question_gpus *cards,
                        struct fail *why) {
    struct config before;
    struct config_card *there = NULL;
    struct gpu_match match;
    int count = 0;
    if (!os_exists(path)) return 0;
    int rc = read_settings(q, path, &before, NULL, why);
    if (rc == 0) rc = config_team_read(q->arena, &before, &there, &count, why);
    for (int i = 0; rc == 0 && i < count; i++) {
        // An entry of a GPU that the catalogue lacks is the team's own business.
        if (gpu_find(q->arena, &q->gpus, there[i].card, &match, NULL) < 0) continue;
        if (is_there(cards, match.gpu->key)) continue;
        question_place(q, *match.gpu,
                       arena_push(q->arena, &cards->items, &cards->count, &cards->capacity));
    }
    return rc;
}
