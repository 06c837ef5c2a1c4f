// SPDX-License-Identifier: Apache-2.0
// What the setup window changes, and the file that keeps it (doc/formats/watch-conf.md). The file
// is written only when the user asks for it, and read line by line: what is not understood is
// passed over, so that an older program reads the file of a newer one.
#include "verbs/watch/watch.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 16 };

static const char *const no_yes[] = {"no", "yes"};
static const char *const kinds[] = {"braille", "blocks", "ascii"};
static const char *const layouts[] = {"auto", "blocks", "lines"};
static const char *const degrees[] = {"celsius", "fahrenheit"};
static const char *const intervals[] = {"usual", "0.25", "0.5", "1", "2", "5", "10"};

#define AT(member) offsetof(struct watch_settings, member)
const struct watch_setting watch_setting_rows[] = {
    {"plot-utilisation", "plot: utilisation", AT(plots[0]), no_yes, 2},
    {"plot-memory", "plot: memory", AT(plots[1]), no_yes, 2},
    {"plot-power", "plot: power, of its limit", AT(plots[2]), no_yes, 2},
    {"plot-temperature", "plot: temperature", AT(plots[3]), no_yes, 2},
    {"plot-clock", "plot: clock", AT(plots[4]), no_yes, 2},
    {"plot-memory-traffic", "plot: memory traffic", AT(plots[5]), no_yes, 2},
    {"plot-style", "plots are drawn in", AT(plot_kind), kinds, 3},
    {"cards", "GPUs as", AT(cards), layouts, 3},
    {"cpu", "CPU", AT(cpu), no_yes, 2},
    {"runs", "runs", AT(runs), no_yes, 2},
    {"findings", "findings", AT(findings), no_yes, 2},
    {"processes", "processes", AT(processes), no_yes, 2},
    {"sort", "processes by", AT(sort), watch_sorts, WATCH_SORTS},
    {"ascending", "smallest first", AT(ascending), no_yes, 2},
    {"mouse", "the mouse chooses (else it marks text)", AT(mouse), no_yes, 2},
    {"temperature", "temperatures in", AT(fahrenheit), degrees, 2},
    {"interval", "seconds between readings, from the next start on", AT(interval), intervals, 7},
};
const int watch_setting_count = sizeof watch_setting_rows / sizeof *watch_setting_rows;

struct watch_settings watch_settings_usual(void) {
    return (struct watch_settings){
        .plots = {1, 1}, .cpu = 1, .runs = 1, .findings = 1, .processes = 1, .mouse = 1};
}

static bool take(struct watch_settings *settings, struct str key, struct str value) {
    for (int i = 0; i < watch_setting_count; i++) {
        const struct watch_setting *row = &watch_setting_rows[i];
        if (!str_is(key, row->key)) continue;
        for (int word = 0; word < row->count; word++) {
            if (!str_is(value, row->words[word])) continue;
            *watch_setting_at(settings, i) = word;
            return true;
        }
    }
    return false;
}

static void parse(struct str text, struct watch_settings *settings, int *ret_bad_line) {
    *ret_bad_line = 0;
    for (int number = 1; text.len > 0; number++) {
        struct str line = str_trim(str_line(&text));
        if (line.len == 0 || line.p[0] == '#') continue;
        struct str key = str_trim(str_cut(&line, '='));
        bool is_good = line.p && take(settings, key, str_trim(line));
        if (!is_good && *ret_bad_line == 0) *ret_bad_line = number;
    }
}

static struct str path_of(struct arena *a) {
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = os_home();
    if (folder && folder[0] == '/') return str_format(a, "%s/batchfit/watch.conf", folder);
    return home ? str_format(a, "%s/.config/batchfit/watch.conf", home) : STR("");
}

void watch_settings_load(struct arena *a, struct watch_settings *settings, struct str *ret_note) {
    struct str path = path_of(a), text;
    struct fail why = {0};
    *ret_note = STR("");
    if (path.len == 0 || !os_exists(path.p)) return;
    if (os_read(a, path.p, FILE_MOST, &text, NULL, &why) < 0) {
        *ret_note = str_format(a, "cannot read the settings: %s", why.message);
        return;
    }
    int bad = 0;
    parse(text, settings, &bad);
    if (bad) *ret_note = str_format(a, "watch.conf:%d is unknown and ignored", bad);
}

int watch_settings_save(struct arena *a, const struct watch_settings *settings,
                        struct str *ret_path, struct fail *why) {
    struct str path = path_of(a);
    if (path.len == 0) {
        return fail_set(why, FAIL_MACHINE, "neither XDG_CONFIG_HOME nor HOME is set to keep it in");
    }
    char *folder = str_z(a, path);
    *strrchr(folder, '/') = '\0';
    int rc = os_make_dirs(a, folder, why);
    if (rc < 0) return rc;
    struct watch_settings copy = *settings;
    struct buf b = buf_new(a);
    buf_add(&b, STR("# batchfit watch: saved by F12\n"));
    for (int i = 0; i < watch_setting_count; i++) {
        const struct watch_setting *row = &watch_setting_rows[i];
        buf_format(&b, "%s = %s\n", row->key, row->words[*watch_setting_at(&copy, i)]);
    }
    *ret_path = path;
    return os_replace(a, path.p, buf_str(&b), NULL, why);
}
