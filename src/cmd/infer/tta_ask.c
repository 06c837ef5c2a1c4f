// SPDX-License-Identifier: Apache-2.0
// What is asked about test-time augmentation, from the options and what the config says, and the
// edits that put the answer there.
#include "base/near.h"
#include "base/os.h"
#include "cmd/infer/keys.h"
#include "cmd/infer/tta.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS_DEEP = 16 };

// --- Images in a folder --------------------------------------------------------------------------

// What timm's and torchvision's image folders take, and TIFF.
static bool is_image(struct str name) {
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png",  ".bmp", ".webp",
                                           ".ppm", ".pgm",  ".tiff", ".tif", NULL};
    for (int i = 0; suffixes[i]; i++) {
        struct str suffix = str_of(suffixes[i]);
        if (name.len > suffix.len &&
            str_equal_nocase(str_slice(name, name.len - suffix.len, name.len), suffix)) {
            return true;
        }
    }
    return false;
}

// Links to folders are not followed: they may lead in a circle.
static int64_t count_images(struct arena *a, const char *path, int depth) {
    DIR *folder = opendir(path);
    int64_t count = 0;
    struct dirent *e;
    while (folder && (e = readdir(folder))) {
        if (e->d_name[0] == '.') continue;
        struct str name = str_of(e->d_name);
        if (is_image(name)) count++;
        if (is_image(name) || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)) continue;
        struct arena_mark mark = arena_mark(a);
        struct str inner = str_format(a, "%s/%s", path, e->d_name);
        struct stat st;
        bool is_folder = lstat(inner.p, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_folder && depth < FOLDERS_DEEP) count += count_images(a, inner.p, depth + 1);
        arena_rewind(a, mark);
    }
    if (folder) closedir(folder);
    return count;
}

static int images_in(struct arena *a, const char *path, int64_t *ret, struct fail *why) {
    if (access(path, R_OK | X_OK) < 0) {
        return fail_set(why, FAIL_INPUT, "--test-data %s: no folder that can be read", path);
    }
    *ret = count_images(a, path, 0);
    if (*ret > 0) return 0;
    fail_set(why, FAIL_INPUT, "--test-data %s: no image in it", path);
    return fail_hint(why,
                     "jpg, jpeg, png, bmp, webp, ppm, pgm and tif are counted; --images N says the "
                     "number itself");
}

// --- What the config says ------------------------------------------------------------------------

static const char *const type_keys[] = {"tta_type", NULL};
static const char *const switch_keys[] = {"tta", "use_tta", NULL};

static bool config_value_of(struct question *q, const char *const *keys, struct str *ret_path,
                            struct config_value *ret) {
    return q->has_config && infer_key_find(q->arena, &q->config, q->section, keys, ret_path) &&
           config_get(q->arena, &q->config, *ret_path, ret, NULL) == 0;
}

static void take_images(struct question *q, struct tta_ask *ask) {
    static const char *const keys[] = {"num_images", "num_test_images", "n_images", NULL};
    struct config_value v;
    struct str path;
    if (ask->images > 0 || !config_value_of(q, keys, &path, &v)) return;
    if (v.type == CONFIG_INT && v.integer > 0) ask->images = v.integer;
}

// tta_mode: how the team's code runs the views.
static void take_mode(struct question *q, struct tta_ask *ask) {
    static const char *const keys[] = {"tta_mode", "tta_views_at_once", NULL};
    static const char *const stacked[] = {"stacked", "stack", "batched", "batch", "parallel", NULL};
    static const char *const in_turn[] = {"sequential", "in_turn", "loop", "one_by_one", NULL};
    struct config_value v;
    struct str path;
    if (ask->at_once > 0 || !config_value_of(q, keys, &path, &v)) return;
    if (v.type == CONFIG_INT && v.integer > 0) ask->at_once = v.integer;
    for (int i = 0; stacked[i]; i++) {
        if (str_equal_nocase(v.text, str_of(stacked[i]))) ask->at_once = TTA_VIEWS_MAX;
    }
    for (int i = 0; in_turn[i]; i++) {
        if (str_equal_nocase(v.text, str_of(in_turn[i]))) ask->at_once = 1;
    }
    if (ask->at_once > 0) return;
    str_list_add(q->arena, &ask->notes,
                 str_format(q->arena, "%.*s = %.*s is neither stacked, sequential nor a number",
                            STR_ARG(path), STR_ARG(v.text)));
}

// A config with views whose cost nobody asked about.
static void note_unasked(struct question *q) {
    struct config_value on, type;
    struct str path;
    bool has_switch = config_value_of(q, switch_keys, &path, &on) && on.type == CONFIG_BOOL;
    if (has_switch && !on.boolean) return;
    if (!config_value_of(q, type_keys, &path, &type) || str_is(type.text, "none")) return;
    question_note(q, str_format(q->arena,
                                "%.*s = %.*s: this is without its views; --tta %.*s says what they "
                                "cost",
                                STR_ARG(path), STR_ARG(type.text), STR_ARG(type.text)));
}

// --- The options ---------------------------------------------------------------------------------

static int unknown_type(struct question *q, struct str typed, const struct tta_table *table,
                        struct fail *why) {
    struct near near = {.typed = typed};
    struct buf all = buf_new(q->arena);
    for (ptrdiff_t i = 0; i < table->count; i++) {
        near_offer(&near, table->items[i].name);
        buf_format(&all, "%.*s, ", STR_ARG(table->items[i].name));
    }
    fail_set(why, FAIL_USAGE, "--tta %.*s: neither a type nor a file", STR_ARG(typed));
    struct str names = near_text(q->arena, &near);
    return fail_hint(why, "%s%.*s%sthere are %.*sauto, and files with a view a line",
                     names.len ? "did you mean " : "", STR_ARG(names), names.len ? "? " : "",
                     STR_ARG(buf_str(&all)));
}

static int take_types(struct question *q, const struct tta_options *o, struct tta_ask *ask,
                      struct fail *why) {
    struct str typed = str_of(o->tta);
    struct tta_table table;
    struct tta_type *one = arena_new(q->arena, struct tta_type, 1);
    int rc = tta_table_load(q->arena, o->table, &table, why);
    if (rc < 0) return rc;
    ask->is_auto = str_is(typed, "auto");
    ask->types = table;
    if (ask->is_auto) return 0;
    ask->types = (struct tta_table){one, 1, 1};
    for (ptrdiff_t i = 0; i < table.count; i++) {
        if (!str_equal_nocase(table.items[i].name, typed)) continue;
        *one = table.items[i];
        return 0;
    }
    if (str_is(typed, "none")) {
        *one = (struct tta_type){.name = typed, .views = 1, .f1_low = NAN, .f1_high = NAN};
        return 0;
    }
    if (os_exists(o->tta)) return tta_views_load(q->arena, o->tta, one, why);
    return unknown_type(q, typed, &table, why);
}

static int take_limits(struct question *q, const struct tta_options *o, struct tta_ask *ask,
                       struct fail *why) {
    if (o->min_f1 > 1 || o->min_f1 <= 0) {
        return fail_set(why, FAIL_USAGE, "--min-f1 %g: not an F1 score between 0 and 1", o->min_f1);
    }
    if (o->target_time && !tta_parse_time(str_of(o->target_time), &ask->target_s)) {
        return fail_set(why, FAIL_USAGE, "--target-time %s: not a time such as 20m, 1h30m or 90s",
                        o->target_time);
    }
    if (!o->target_time || ask->images > 0) return 0;
    ask->within_s = ask->target_s;
    ask->target_s = NAN;
    str_list_add(q->arena, &ask->notes,
                 str_format(q->arena,
                            "--target-time %s is not judged: for how many images? --images N says "
                            "it, --test-data DIR counts them",
                            o->target_time));
    return 0;
}

static int check_unasked(const struct tta_options *o, struct fail *why) {
    const char *option = o->table           ? "tta-table"
                         : o->test_data     ? "test-data"
                         : o->target_time   ? "target-time"
                         : o->at_once       ? "tta-views-at-once"
                         : o->images        ? "images"
                         : isnan(o->min_f1) ? NULL
                                            : "min-f1";
    if (!option) return 0;
    fail_set(why, FAIL_USAGE, "--%s says something only about test-time augmentation", option);
    return fail_hint(why, "add --tta auto, or one of its types; --tta none for a single view");
}

int tta_ask_open(struct question *q, const struct tta_options *o, struct tta_ask *ret,
                 struct fail *why) {
    struct tta_ask ask = {.is_asked = o->tta != NULL,
                          .at_once = o->at_once,
                          .images = o->images,
                          .target_s = (double)NAN,
                          .within_s = (double)NAN,
                          .min_f1 = o->min_f1};
    int rc = ask.is_asked ? 0 : check_unasked(o, why);
    if (rc < 0) return rc;
    *ret = ask;
    if (!ask.is_asked) {
        if (q->plan.inference) note_unasked(q);
        return 0;
    }
    if (o->images > 0 && o->test_data) {
        return fail_set(why, FAIL_USAGE, "--images and --test-data both say how many images");
    }
    rc = take_types(q, o, &ask, why);
    if (rc == 0 && o->test_data) rc = images_in(q->arena, o->test_data, &ask.images, why);
    if (rc < 0) return rc;
    take_images(q, &ask);
    take_mode(q, &ask);
    rc = take_limits(q, o, &ask, why);
    *ret = ask;
    return rc;
}

// --- Writing -------------------------------------------------------------------------------------

static struct str map_of(struct str path, struct str *ret_leaf) {
    ptrdiff_t at = path.len;
    while (at > 0 && path.p[at - 1] != '.') at--;
    *ret_leaf = str_slice(path, at, path.len);
    return str_slice(path, 0, at);
}

struct config_edits tta_edits(struct question *q, const struct tta_type *type) {
    struct str path, leaf, batch = q->reading.values[CONFIG_BATCH].path;
    struct config_edits edits = {0};
    struct config_value v;
    if (!q->has_config || batch.len == 0 || q->batch_is_trainings || type->is_own) return edits;
    if (config_value_of(q, type_keys, &path, &v)) {
        config_edits_add(q->arena, &edits,
                         (struct config_edit){.path = path, .value = type->name, .is_text = true});
    } else {
        struct str map = map_of(batch, &leaf);
        path = str_format(q->arena, "%.*stta_type", STR_ARG(map));
        config_edits_add(
            q->arena, &edits,
            (struct config_edit){.path = path,
                                 .value = type->name,
                                 .is_text = true,
                                 .insert = true,
                                 .after = leaf,
                                 .note = STR("tta_type is a new key: your code must read it")});
    }
    bool is_on = type->views > 1;
    if (config_value_of(q, switch_keys, &path, &v) && v.type == CONFIG_BOOL && v.boolean != is_on) {
        config_edits_add(
            q->arena, &edits,
            (struct config_edit){.path = path, .value = is_on ? STR("true") : STR("false")});
    }
    return edits;
}
