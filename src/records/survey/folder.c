// SPDX-License-Identifier: Apache-2.0
// A folder of machines' files. A file that cannot be used is named with the reason, and the others
// are used: nobody waits for somebody else's merge.
#include "records/survey/survey.h"

#include "base/os.h"

enum { FILE_BYTES_MOST = 8 << 20, FILES_MOST = 1000 };

struct str survey_called(const struct survey_file *file) {
    return file->name.len > 0 ? file->name : str_slice(file->machine, 0, 8);
}

struct str survey_path(struct arena *a, struct str folder, struct str machine) {
    return str_format(a, "%.*s/%.*s.jsonl", STR_ARG(folder), STR_ARG(machine));
}

static void leave(struct arena *a, struct survey_folder *f, struct str path, int64_t line,
                  const struct fail *why) {
    struct str reason = str_format(a, "%s%s%s", why->message, why->hint[0] ? ": " : "", why->hint);
    *arena_push(a, &f->left, &f->left_count, &f->left_capacity) =
        (struct survey_left){path, line, reason};
}

// A copy under another name would count a machine twice.
static int check_name(struct str path, struct str name, const struct survey_file *file,
                      struct fail *why) {
    struct str stem = str_slice(name, 0, name.len - (ptrdiff_t)sizeof ".jsonl" + 1);
    if (str_equal(stem, file->machine)) return 0;
    fail_set(why, FAIL_INPUT, "%.*s: holds machine %.*s, unlike its name", STR_ARG(path),
             STR_ARG(file->machine));
    return fail_hint(why, "do not rename a machine's file: MACHINE.jsonl");
}

static void take(struct arena *a, struct survey_folder *f, struct str folder, struct str name) {
    struct str path = str_format(a, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name)), text;
    struct survey_file file;
    struct fail why = {0};
    int64_t line = 0;
    int rc = os_read(a, path.p, FILE_BYTES_MOST, &text, NULL, &why);
    if (rc == 0) rc = survey_read(a, path, text, &file, &line, &why);
    if (rc == 0) rc = check_name(path, name, &file, &why);
    if (rc == 0)
        *arena_push(a, &f->files, &f->count, &f->capacity) = file;
    else
        leave(a, f, path, line, &why);
}

int survey_open(struct arena *a, struct str folder, struct survey_folder *ret_folder,
                struct fail *why) {
    struct str *names;
    ptrdiff_t count;
    *ret_folder = (struct survey_folder){0};
    int rc = os_list(a, str_z(a, folder), ".jsonl", &names, &count, why);
    if (rc == 0 && count > FILES_MOST) {
        rc = fail_set(why, FAIL_INPUT, "%.*s: %td files; at most %d machines are read",
                      STR_ARG(folder), count, FILES_MOST);
    }
    for (ptrdiff_t i = 0; rc == 0 && i < count; i++) take(a, ret_folder, folder, names[i]);
    return rc;
}
