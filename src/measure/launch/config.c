// SPDX-License-Identifier: Apache-2.0
// The config's copy for one trial: the same file with the trial's values patched in, by the keys
// that were named or by the roles that the file's dialect gives them. The user's own file is not
// touched.
#include "measure/launch/launch_int.h"

#include "base/os.h"

#include <libgen.h>

// The next "[NAME=]PATH" of --config-key.
static struct str next_key(struct str *rest, struct str *ret_name) {
    struct str path = str_cut(rest, '\n'), all = path;
    struct str name = str_cut(&path, '=');
    *ret_name = path.p ? name : STR("batch");
    return path.p ? path : all;
}

static bool has_key(const struct launch *l, struct str name) {
    struct str rest = str_of(l->options->config_keys), of;
    while (rest.p) {
        next_key(&rest, &of);
        if (str_equal(of, name)) return true;
    }
    return false;
}

// Without a key and without {batch} in the command, the file's own keys say where the values go.
static bool goes_by_role(const struct launch *l) {
    return l->config && !l->options->config_keys &&
           trial_command_mentions(l->command, STR("config")) &&
           !trial_command_mentions(l->command, STR("batch"));
}

bool launch_config_takes(const struct launch *l, struct str name) {
    static const char *const roles[] = {"batch", "accumulate", "workers", "precision", "lr"};
    if (has_key(l, name)) return true;
    bool has_lr = l->reading && l->reading->values[CONFIG_LR].line > 0;
    if (str_is(name, "lr") && !has_lr) return false;
    for (size_t i = 0; goes_by_role(l) && i < sizeof roles / sizeof *roles; i++) {
        if (str_is(name, roles[i])) return true;
    }
    return false;
}

static const struct trial_command_value *find_value(const struct launch_values *v,
                                                    struct str name) {
    for (ptrdiff_t i = 0; i < v->count; i++) {
        if (str_equal(v->items[i].name, name)) return &v->items[i];
    }
    return NULL;
}

static int64_t count_of(const struct launch_values *v, struct str name, int64_t absent) {
    const struct trial_command_value *value = find_value(v, name);
    int64_t number;
    return value && str_to_i64(value->text, &number) ? number : absent;
}

// Only where it is not what the file says.
static void add_lr(struct launch *l, const struct launch_values *v, struct config_edits *edits) {
    const struct trial_command_value *lr = find_value(v, STR("lr"));
    const struct config_value *there = &l->reading->values[CONFIG_LR];
    double wanted;
    if (!lr || !str_to_double(lr->text, &wanted) || there->line == 0) return;
    if (wanted == there->number) return;
    struct config_edit edit = {.path = there->path, .value = lr->text};
    config_edits_add(l->arena, edits, edit);
}

static int edits_by_role(struct launch *l, const struct launch_values *v,
                         struct config_edits *edits, struct fail *why) {
    const struct trial_command_value *precision = find_value(v, STR("precision"));
    int64_t workers = count_of(v, STR("workers"), INT64_MIN);
    struct config_change change = {
        .batch = count_of(v, STR("batch"), 0),
        .accumulation = count_of(v, STR("accumulate"), 0),
        .ranks = l->options->ranks,
        .precision = precision ? precision->text : (struct str){0},
        .workers = workers == INT64_MIN ? 0
                   : workers == 0       ? -1
                                        : workers,
        .flags = CONFIG_EDIT_ANCHOR | CONFIG_REPLACE_SPECIAL, // only a copy is changed
    };
    int rc = config_fit(l->arena, l->config, l->reading, &change, edits, why);
    if (rc == 0) add_lr(l, v, edits);
    return rc;
}

static int edits_by_key(struct launch *l, const struct launch_values *v, struct config_edits *edits,
                        struct fail *why) {
    struct str rest = str_of(l->options->config_keys), name;
    while (rest.p) {
        struct str path = next_key(&rest, &name);
        const struct trial_command_value *value = find_value(v, name);
        if (!value) {
            fail_set(why, FAIL_USAGE, "--config-key %.*s=%.*s: unknown value", STR_ARG(name),
                     STR_ARG(path));
            return fail_hint(
                why, "use batch, accumulate, workers, amp, precision, or the name of an axis");
        }
        struct config_value there;
        int rc = config_get(l->arena, l->config, path, &there, why);
        if (rc < 0) return rc;
        if (there.type == CONFIG_ABSENT) {
            fail_set(why, FAIL_INPUT, "%.*s: no key %.*s", STR_ARG(l->config->name), STR_ARG(path));
            return fail_hint(why,
                             "--config-key takes the path of a key in the file: train.batch_size");
        }
        struct config_edit edit = {
            .path = path, .value = value->text, .is_text = there.type == CONFIG_TEXT};
        config_edits_add(l->arena, edits, edit);
    }
    return 0;
}

static int patched_text(struct launch *l, const struct launch_values *v, struct str *ret_text,
                        struct fail *why) {
    struct config_edits edits = {0};
    struct config_patched patched;
    int rc = l->options->config_keys ? edits_by_key(l, v, &edits, why)
                                     : edits_by_role(l, v, &edits, why);
    if (rc == 0) {
        rc = config_patch(l->arena, l->config, edits.items, edits.count,
                          CONFIG_EDIT_ANCHOR | CONFIG_REPLACE_SPECIAL, &patched, why);
    }
    if (rc < 0) return rc;
    *ret_text = patched.text;
    return 0;
}

int launch_config(struct launch *l, const struct launch_values *v, const char *scratch,
                  struct str *ret_path, struct fail *why) {
    struct arena *a = l->arena;
    *ret_path = l->config->name;
    if (!l->options->config_keys && !goes_by_role(l)) return 0;
    struct str folder = str_format(a, "%s/config", dirname(str_z(a, str_of(scratch))));
    struct str text = {0};
    int rc = patched_text(l, v, &text, why);
    if (rc == 0) rc = os_make_dirs(a, folder.p, why);
    if (rc < 0) return rc;
    *ret_path = str_format(a, "%.*s/%s", STR_ARG(folder), basename(str_z(a, l->config->name)));
    return os_replace(a, ret_path->p, text, NULL, why);
}
