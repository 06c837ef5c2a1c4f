// SPDX-License-Identifier: Apache-2.0
// A model that is a folder or a config.json, not a name: the shape that it describes decides, and
// never what it is called.
#include "job/question/local.h"

#include "base/shell.h"
#include "base/unit.h"
#include "predict/shape/shape.h"

#include <math.h>
#include <sys/stat.h>

enum { CONFIG_MOST = 1 << 20 };
static const double parameters_alike = 0.01; // heads of other tasks differ by less

static bool names(struct str model, struct str family) {
    for (ptrdiff_t i = 0; i + family.len <= model.len; i++) {
        if (str_equal_nocase(str_slice(model, i, i + family.len), family)) return true;
    }
    return false;
}

// Whether a tape's model has that shape: by the table where it has the model, else (a recording of
// the user's own) by its family and parameters.
static bool is_of_shape(const struct shape_table *shapes, const struct tape_header *h,
                        const struct shape *s) {
    struct str name = h->model, library = str_cut(&name, ':');
    const struct shape *known = name.p && str_is(library, "hf") ? shape_find(shapes, name) : NULL;
    if (known) return shape_is_alike(known, s);
    double off = s->parameters > 0 ? fabs((double)h->parameters / (double)s->parameters - 1) : 1;
    return h->parameters > 0 && names(h->model, s->type) && off <= parameters_alike;
}

// The model of that shape that there is a tape of; empty: none.
static struct str alike(const struct question *q, const struct shape_table *shapes,
                        const struct shape *s) {
    for (ptrdiff_t i = 0; i < q->store.count; i++) {
        const struct tape_header *h = &q->store.entries[i].header;
        if (is_of_shape(shapes, h, s)) return h->model;
    }
    return (struct str){0};
}

static int say_unknown(struct question *q, struct str path, struct str what, bool is_recordable,
                       bool is_optional, struct fail *why) {
    q->plan.model = (struct str){0};
    if (is_optional) {
        str_list_format(q->arena, &q->notes, "%.*s; so there is no prediction", STR_ARG(what));
        return 0;
    }
    fail_set(why, FAIL_INPUT, "%.*s", STR_ARG(what));
    if (!is_recordable) return FAIL_INPUT;
    struct str source = str_format(q->arena, "hf:%.*s", STR_ARG(path));
    source = shell_word(q->arena, source);
    return fail_hint(why, "record its tape: batchfit record %.*s", STR_ARG(source));
}

// Its size in words: "a gpt2 of 124 million parameters".
static struct str size_text(struct arena *a, const struct shape *s) {
    if (s->parameters == 0) {
        return str_format(a, "a %.*s of %lld layers, %lld wide", STR_ARG(s->type),
                          (long long)s->layers, (long long)s->hidden);
    }
    const bool is_large = s->parameters >= 1000000000;
    return str_format(a, "a %.*s of %.3g %s parameters", STR_ARG(s->type),
                      (double)s->parameters / (is_large ? 1e9 : 1e6),
                      is_large ? "billion" : "million");
}

// Where the config.json of a model is, if it is a folder or a file; empty: it is a name. A word
// without '/' stays a name where a folder happens to have it that holds no config.json.
static struct str config_of(struct arena *a, struct str model, bool *ret_is_folder) {
    struct stat st;
    bool is_there = model.len > 0 && stat(str_z(a, model), &st) == 0;
    *ret_is_folder = is_there && S_ISDIR(st.st_mode);
    if (is_there && S_ISREG(st.st_mode) && str_ends(model, STR(".json"))) return model;
    if (!*ret_is_folder) return (struct str){0};
    struct str path = str_format(a, "%.*s/config.json", STR_ARG(model));
    bool is_name = str_find(model, STR("/")) < 0 && !os_exists(path.p);
    return is_name ? (struct str){0} : path;
}

int question_local(struct question *q, bool is_optional, struct fail *why) {
    struct arena *a = q->arena;
    struct str model = q->plan.model, text, what;
    struct shape_table shapes;
    struct shape shape;
    struct fail unread = {0};
    bool is_folder;
    if (str_starts(model, STR("hf:"))) model = str_slice(model, 3, model.len);
    struct str path = config_of(a, model, &is_folder);
    if (path.len == 0) return 0;
    const char *kind = is_folder ? "is a folder" : "is a file";
    if (!os_exists(str_z(a, path))) {
        what = str_format(a, "%.*s is a folder without a config.json", STR_ARG(model));
        return say_unknown(q, model, what, false, is_optional, why);
    }
    int rc = os_read(a, str_z(a, path), CONFIG_MOST, &text, NULL, why);
    if (rc == 0) rc = shape_load(a, &shapes, why);
    if (rc < 0) return rc;
    if (shape_read(&shapes, path, text, &shape, &unread) < 0)
        return say_unknown(q, model, str_copy(a, str_of(unread.message)), false, is_optional, why);
    struct str recorded = alike(q, &shapes, &shape);
    const struct shape *covered;
    q->shape = shape;
    q->tape_cache.own_name = model;
    q->tape_cache.own_shape = &q->shape;
    rc = forecast_shape(&q->tape_cache, model, &covered, why);
    if (rc < 0) return rc;
    what = str_format(a, "%.*s %s: its config.json describes %.*s", STR_ARG(model), kind,
                      STR_ARG(size_text(a, &shape)));
    if (covered && (recorded.len == 0 || q->plan.adapter.len > 0)) {
        str_list_format(a, &q->notes, "%.*s", STR_ARG(what));
        q->plan.model = model;
        return 0;
    }
    if (recorded.len == 0) {
        what = str_format(a, "%.*s, which has no tape", STR_ARG(what));
        return say_unknown(q, model, what, true, is_optional, why);
    }
    str_list_format(a, &q->notes, "%.*s, treated as %.*s", STR_ARG(what), STR_ARG(recorded));
    q->plan.model = recorded;
    return 0;
}
