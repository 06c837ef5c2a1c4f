// SPDX-License-Identifier: Apache-2.0
// fit --on kubernetes, --on skypilot: which GPUs hold the config as it stands, in the words of an
// engine that finds one of them. The engine is not asked: what it may have is the catalogue, or
// what --gpus names.
#pragma once

#include "verbs/fit/check.h"

struct fit_cloud_row {
    struct forecast_card card;
    struct fit_check_row as_is;
    bool fits;
};

struct fit_cloud {
    struct question *q;
    const struct fit_options *options;
    struct fit_cloud_row *rows; // the least memory first
    ptrdiff_t count, fitting;
    // Without --gpus: from here on every row fits. Otherwise 0.
    ptrdiff_t floor;
    bool is_named; // by --gpus
    bool needs_bf16;
    int64_t gpus, nodes; // GPUs of one node, and nodes
    struct str_list notes;
};

struct fit_cloud_engine {
    const char *name;
    // What the engine reads. FAIL_INPUT: it has no word for a GPU.
    int (*spec)(struct fit_cloud *c, json_t **ret_spec, struct fail *why);
    const char *where; // it belongs
};
extern const struct fit_cloud_engine fit_cloud_engines[]; // ends with a row without a name

// 0; FAIL_NO: none holds it (shown, with the remedies); FAIL_INPUT: it cannot be judged.
int fit_cloud(struct arena *a, const struct fit_options *options, struct fail *why);
