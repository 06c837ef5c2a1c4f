// SPDX-License-Identifier: Apache-2.0
// Where a model that has no tape can be recorded from: the library that has one of its name, the
// hub, or else the user's own code. What is printed runs: tests/cli/hints.test runs each.
#include "base/data.h"
#include "base/shell.h"
#include "predict/forecast/forecast_int.h"
#include "predict/shape/shape.h"

#include <string.h>

enum { NAME_BYTES = 128 };

// Lower case, without '-' and '_': what teams spell differently.
static struct str squeezed(struct str name, char *to) {
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < name.len && n < NAME_BYTES; i++) {
        char c = name.p[i];
        if (c != '-' && c != '_') to[n++] = str_lower(c);
    }
    return (struct str){to, n};
}

// How well a name of timm is the one that is spelled: 3 itself, 2 but for case and dashes, 1 with
// the tf_ before it that timm gives to ported weights; 0 not at all.
static int likeness(struct str spelled, struct str name) {
    char a[NAME_BYTES], b[NAME_BYTES];
    if (str_equal(spelled, name)) return 3;
    struct str typed = squeezed(spelled, a), known = squeezed(name, b);
    if (str_equal(typed, known)) return 2;
    bool is_ported = str_starts(name, STR("tf_"));
    return is_ported && str_equal(typed, str_slice(known, 2, known.len)) ? 1 : 0;
}

// The size at the end of a tag: fb_in22k_ft_in1k_384.
static int64_t tag_size(struct str tag) {
    struct str last = tag;
    int64_t size = 0;
    while (tag.p) last = str_cut(&tag, '_');
    return last.len == 3 && str_to_i64(last, &size) && size > 0 ? size : 0;
}

int forecast_timm_model(struct arena *a, struct str spelled, struct forecast_model *ret_model,
                        struct fail *why) {
    struct tsv t;
    int best = 0;
    struct str tag = spelled, name = str_cut(&tag, '.');
    if (str_starts(name, STR("timm/"))) name = str_slice(name, 5, name.len);
    if (tag.p && str_find(tag, STR(".")) >= 0) return 0; // a path of Python's modules
    int rc = tsv_find(a, "data/timm.tsv", &t, why);
    if (rc < 0) return rc;
    while ((rc = tsv_next(&t, why)) > 0) {
        int how = likeness(name, tsv_cell(&t, "name"));
        struct str model = tsv_cell(&t, "model");
        if (how <= best || model.len == 0) continue;
        best = how;
        ret_model->name = str_format(a, "timm:%.*s", STR_ARG(model));
        ret_model->image_size = tag_size(tag);
        if (ret_model->image_size == 0)
            (void)str_to_i64(tsv_cell(&t, "image_size"), &ret_model->image_size);
    }
    return rc < 0 ? rc : best > 0;
}

// yolov8n, yolo11x: a version and a size.
static bool is_ultralytics(struct str name) {
    if (!str_starts(name, STR("yolo"))) return false;
    ptrdiff_t i = name.len > 4 && name.p[4] == 'v' ? 5 : 4, digits = i;
    while (i < name.len && str_is_digit(name.p[i])) i++;
    return i > digits && i - digits < 3 && i + 1 == name.len &&
           str_find(STR("nsmlxtbce"), str_slice(name, i, i + 1)) >= 0;
}

static struct str command(struct arena *a, const char *library, struct str name) {
    struct str source = str_format(a, "%s%.*s", library, STR_ARG(name));
    return str_format(a, "add it with: batchfit record %.*s", STR_ARG(shell_word(a, source)));
}

static struct str of_own_code(struct arena *a) {
    return str_copy(a, STR("for a model of your own: write a function in FILE.py that returns the "
                           "model, then batchfit record python:FILE:FUNCTION"));
}

// A diffusion pipeline is several models, and has no config.json of one. Empty: it is none that is
// known here.
static int pipeline_advice(struct arena *a, struct str name, struct str *ret_advice,
                           struct fail *why) {
    struct tsv t;
    int rc = tsv_find(a, "data/pipelines.tsv", &t, why);
    while (rc >= 0 && (rc = tsv_next(&t, why)) > 0) {
        for (struct str ids = tsv_cell(&t, "ids"); ids.len > 0;) {
            if (!str_equal_nocase(str_cut(&ids, ','), name)) continue;
            *ret_advice = str_format(
                a,
                "a pipeline of several models (parameters: %.*s): write a function in FILE.py that "
                "returns the one that is trained, then batchfit record python:FILE:FUNCTION",
                STR_ARG(tsv_cell(&t, "parts")));
        }
    }
    return rc;
}

// What `record hf:` refuses, as it takes no texts or images alone: by the shape of a name that is
// known, else by how it begins (data/families.tsv).
static bool is_refused(struct str name, const struct shape *known) {
    static const char *const kinds[] = {"speech", "two-tower", NULL};
    static const char *const names[] = {"whisper", "distil-whisper", "siglip", "clip-vit", NULL};
    const struct str last = str_last(name, '/');
    if (known) return str_is_one_of(known->kind, kinds);
    for (int i = 0; names[i]; i++)
        if (str_equal_nocase(str_slice(last, 0, (ptrdiff_t)strlen(names[i])), str_of(names[i])))
            return true;
    return false;
}

// A name of the hub: in the table, in the cache, or to be fetched by the hub's own tool; empty: it
// cannot be one.
static int hub_advice(struct arena *a, struct str name, struct str *ret_advice, struct fail *why) {
    struct shape_table shapes;
    struct str path, word = shell_word(a, name);
    int rc = pipeline_advice(a, name, ret_advice, why);
    if (rc < 0 || ret_advice->len > 0) return rc;
    rc = shape_load(a, &shapes, why);
    if (rc < 0) return rc;
    const struct shape *known = shape_find(&shapes, name);
    bool has_owner = shape_is_id(name);
    if (is_refused(name, known)) {
        *ret_advice = of_own_code(a);
        return 0;
    }
    if (known || (has_owner && shape_cached(a, name, &path))) {
        *ret_advice = command(a, "hf:", has_owner || !known ? name : shape_id(known));
    } else if (has_owner) {
        struct str source = str_format(a, "hf:%.*s", STR_ARG(name));
        *ret_advice = str_format(a,
                                 "its shape is not known here, and batchfit fetches nothing; if "
                                 "its family has templates, the first of these is enough: hf "
                                 "download %.*s config.json && batchfit record %.*s",
                                 STR_ARG(word), STR_ARG(shell_word(a, source)));
    }
    return 0;
}

// The name after a prefix that says the library; empty: it has none of these.
static struct str after(struct str name, const char *prefix) {
    bool has = str_starts(name, str_of(prefix));
    return has ? str_slice(name, str_of(prefix).len, name.len) : (struct str){0};
}

static bool says_its_library(struct str name) {
    static const char *const libraries[] = {"torchvision:", "ultralytics:", "python:", NULL};
    for (int i = 0; libraries[i]; i++) {
        if (after(name, libraries[i]).len > 0) return true;
    }
    return false;
}

int forecast_record_advice(struct arena *a, struct str spelled, struct str bare,
                           struct str *ret_advice, struct fail *why) {
    struct forecast_model model = {0};
    struct str in_timm = after(spelled, "timm:"), on_hub = after(spelled, "hf:");
    bool is_bare = in_timm.len == 0 && on_hub.len == 0;
    int rc = 0;
    *ret_advice = (struct str){0};
    if (says_its_library(spelled)) {
        *ret_advice = command(a, "", spelled);
        return 0;
    }
    if (in_timm.len == 0) rc = hub_advice(a, on_hub.len > 0 ? on_hub : spelled, ret_advice, why);
    bool is_known = ret_advice->len > 0 && str_starts(*ret_advice, STR("add"));
    if (rc == 0 && !is_known && on_hub.len == 0)
        rc = forecast_timm_model(a, in_timm.len > 0 ? in_timm : spelled, &model, why);
    if (rc < 0) return rc;
    if (model.name.len > 0) *ret_advice = command(a, "", model.name);
    if (ret_advice->len == 0 && is_bare && is_ultralytics(bare))
        *ret_advice = command(a, "ultralytics:", bare);
    if (ret_advice->len == 0) *ret_advice = of_own_code(a);
    return 0;
}

struct str forecast_record_command(struct arena *a, const struct plan *p,
                                   const struct forecast_model *m) {
    struct buf text = buf_new(a);
    buf_format(&text, "batchfit record %.*s --precision %s", STR_ARG(shell_word(a, m->name)),
               plan_precision_name(p->precision ? p->precision : PLAN_FP32));
    if (p->optimizer.len > 0) {
        buf_format(&text, " --optimizer %.*s", STR_ARG(shell_word(a, p->optimizer)));
    }
    if (p->image_size > 0) buf_format(&text, " --img-size %lld", (long long)p->image_size);
    if (p->sequence_length > 0) buf_format(&text, " --seq-len %lld", (long long)p->sequence_length);
    if (p->target_length > 0) buf_format(&text, " --target-len %lld", (long long)p->target_length);
    if (p->accumulation > 1) buf_add(&text, STR(" --accumulation 2"));
    if (p->checkpointing) buf_add(&text, STR(" --checkpointing"));
    if (p->inference) buf_add(&text, STR(" --mode inference"));
    if (p->adapter.len > 0) {
        buf_format(&text, " --adapter %.*s --weights %s", STR_ARG(shell_word(a, p->adapter)),
                   plan_is_wide(p) ? "fp32" : "bf16");
    }
    if (p->shard.len > 0) {
        buf_format(&text, " --shard %.*s --ranks %lld --fused-optimizer",
                   STR_ARG(shell_word(a, p->shard)), (long long)(p->ranks > 1 ? p->ranks : 8));
    }
    if (p->loss.len > 0) buf_format(&text, " --loss %.*s", STR_ARG(shell_word(a, p->loss)));
    if (p->compile) buf_format(&text, " --compile %s", p->shard.len > 0 ? "layers" : "model");
    if (p->quant.len > 0) buf_format(&text, " --quant %.*s", STR_ARG(shell_word(a, p->quant)));
    return buf_str(&text);
}
