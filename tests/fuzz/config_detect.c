// SPDX-License-Identifier: Apache-2.0
// Any text through all that `fit` and `team` do with it: dialect, roles, batches, edits, advice. No
// crash, every refusal has a reason, and what a fit has written is read back as it was asked for.
//
// Input: format, which section or dialect option, change, flags; then the text.
#include "fuzz.h"

#include "records/config/config.h"

#include <stdio.h>
#include <stdlib.h>

// libfyaml 0.7.12 loses a kilobyte on some broken quoted scalars: not ours to report.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfyaml";
}

static int said(int status, const struct fail *why) {
    if (status && (!why->message[0] || why->code == FAIL_BUG)) abort();
    return status;
}

static void team(struct arena *a, const struct config *c) {
    struct config_card *cards;
    struct config_patched p;
    struct fail why = {0};
    int count;
    const struct config_card mine = {
        .card = STR("rtx_3060"), .batch = 12, .accumulation = 4, .mixed_precision = 1};
    if (said(config_team_read(a, c, &cards, &count, &why), &why) || count == 0) return;
    if (said(config_team_write(a, c, &mine, 1, &p, &why), &why)) return;
    struct config after;
    if (config_parse(a, c->name, p.text, &after, &why)) abort();
}

static void fit(struct arena *a, const struct config *c, const struct config_options *o,
                const struct config_reading *r, const struct config_change *change) {
    struct config_edits edits;
    struct config_patched p;
    struct config after;
    struct config_reading again;
    struct config_batches b;
    struct fail why = {0};
    if (said(config_fit(a, c, r, change, &edits, &why), &why)) {
        config_advice(a, r, change);
        return;
    }
    if (said(config_patch(a, c, edits.items, edits.count, change->flags, &p, &why), &why)) return;
    if (config_parse(a, c->name, p.text, &after, &why)) abort();
    if (!change->batch || config_read_roles(a, &after, o, &again, &why)) return;
    if (!str_equal(again.dialect, r->dialect) || config_batches(a, &again, change->ranks, &b, &why))
        return;
    if (b.micro != change->batch ||
        b.effective != change->batch * change->accumulation * change->ranks) {
        fprintf(stderr,
                "asked for %d x %d x %d, got %d of %d in %.*s\n--- before\n%.*s\n--- after\n%.*s\n",
                (int)change->batch, (int)change->accumulation, (int)change->ranks, (int)b.micro,
                (int)b.effective, STR_ARG(r->dialect), STR_ARG(c->text), STR_ARG(p.text));
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"c.yaml", "c.json", "c.py", "c.toml"};
    static const char *const precisions[] = {"", "fp32", "amp-fp16", "amp-bf16", "bf16"};
    if (size < 4) return 0;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct config_options o = {0};
    struct config_batches b;
    struct fail why = {0};
    const struct str text = {(const char *)data + 4, (ptrdiff_t)size - 4};
    if (said(config_parse(&a, str_of(names[data[0] & 3]), text, &c, &why), &why)) return 0;
    if (data[0] & 4) o.section = STR("train");
    if (data[0] & 8) o.dialect = STR("ultralytics");
    if (data[0] & 16) o.keys[CONFIG_BATCH] = STR("train.batch_size");
    if (said(config_read_roles(&a, &c, &o, &r, &why), &why)) return 0;
    said(config_batches(&a, &r, 0, &b, &why), &why);
    const struct config_change change = {
        .batch = data[1] % 17,
        .accumulation = data[1] % 17 ? 1 + data[1] / 17 % 4 : 0,
        .ranks = 1 + (data[2] & 1),
        .precision = str_of(precisions[data[2] / 2 % 5]),
        .checkpointing = data[2] / 16 % 3 - 1,
        .workers = data[2] / 64,
        .image_size = data[3] & 4 ? 384 : 0,
        .flags = data[3] & 3u,
    };
    fit(&a, &c, &o, &r, &change);
    team(&a, &c);
    return 0;
}
