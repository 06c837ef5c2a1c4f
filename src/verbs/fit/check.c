// SPDX-License-Identifier: Apache-2.0
// The gate: what is asked, judged file by file, compared, printed, and its exit status.
#include "verbs/fit/fit.h"

#include "base/os.h"
#include "base/unit.h"

#include <math.h>
#include <string.h>

// "90%", "0.9", also all of it.
static int read_limit(const char *text, double *margin, struct fail *why) {
    double share = 1;
    struct str s = str_of(text);
    if (!text) return 0;
    bool is_all = str_is(s, "100%") || str_is(s, "1") || str_is(s, "1.0");
    if (is_all || (unit_parse_share(s, &share) && share > 0)) {
        if (!isnan(*margin))
            return fail_set(why, FAIL_USAGE,
                            "--max-memory %s cannot be combined with --safety-margin", text);
        *margin = 1 - share;
        return 0;
    }
    fail_set(why, FAIL_USAGE, "--max-memory: '%s' is not a share of the GPU's memory", text);
    return fail_hint(why, "for example --max-memory 90%%");
}

static const struct {
    const char *name;
    int (*print)(const struct fit_check *c, struct fail *why);
} formats[] = {
    {"text", fit_check_text},   {"json", fit_check_json},     {"sarif", fit_check_sarif},
    {"junit", fit_check_junit}, {"github", fit_check_github}, {"markdown", fit_check_markdown},
};

static int print(const struct fit_check *c, struct fail *why) {
    const char *name = c->options->c.format;
    const bool is_json = c->options->o.q.base.json;
    if (!name) return is_json ? fit_check_json(c, why) : fit_check_text(c, why);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) return formats[i].print(c, why);
    }
    return fail_set(why, FAIL_USAGE,
                    "--format %s: not text, json, sarif, junit, github or markdown", name);
}

static bool is_format(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) return true;
    }
    return false;
}

// --config, the arguments, and those behind a lone "--", which a gate puts before names that it
// does not know. One that is there twice is judged once.
static struct str_words files_of(struct arena *a, const struct cli_options *base,
                                 const char *config) {
    struct str_words files = {.arena = a};
    struct str_list all = {0};
    if (config) str_list_add(a, &all, str_of(config));
    for (int i = 0; i < base->argument_count; i++)
        str_list_add(a, &all, str_of(base->arguments[i]));
    for (char **p = base->command; p && *p; p++) str_list_add(a, &all, str_of(*p));
    for (ptrdiff_t i = 0; i < all.count; i++) {
        struct str_list before = {all.items, i, i};
        all.items[i] = os_plain_path(all.items[i]);
        if (!str_list_has(&before, all.items[i])) str_word_add(&files, all.items[i]);
    }
    return files;
}

static void count(struct fit_check *c) {
    int *const counts[] = {&c->passed, &c->failed, &c->unjudged};
    for (ptrdiff_t i = 0; i < c->count; i++) {
        ++*counts[c->rows[i].state];
        c->drifted += fit_check_is_off_lock(&c->rows[i]);
    }
}

static int exit_of(const struct fit_check *c, struct fail *why) {
    if (c->unjudged > 0 && !c->options->c.allows_unjudged) {
        fail_set(why, FAIL_INPUT, "%d of %td not judged", c->unjudged, c->count);
        return fail_hint(why, "a gate passes only what it could judge; --allow-unjudged lets them "
                              "through");
    }
    return c->failed + c->drifted > 0 ? FAIL_NO : 0;
}

int fit_check(struct arena *a, const struct fit_options *options, struct fail *why) {
    struct fit_options asked = *options;
    struct fit_check c = {.arena = a, .options = &asked};
    const char *format = asked.c.format;
    struct str_words files = files_of(a, &asked.o.q.base, asked.o.q.config);
    if (files.count == 0) {
        fail_set(why, FAIL_USAGE, "--check: no config is named");
        return fail_hint(why, "batchfit fit --check configs/*.yaml --gpus rtx3060,a100");
    }
    if (format && !is_format(format)) return print(&c, why);
    if (asked.o.gpu && asked.o.q.gpus)
        return fail_set(why, FAIL_USAGE, "--gpus %s cannot be combined with --gpu %s",
                        asked.o.q.gpus, asked.o.gpu);
    int rc = read_limit(asked.c.max_memory, &asked.o.q.margin, why);
    for (ptrdiff_t i = 0; rc == 0 && i < files.count; i++)
        rc = fit_check_config(&c, files.items[i], NULL, why);
    c.config_count = (int)files.count;
    if (rc == 0) rc = fit_check_base(&c, why);
    if (rc == 0) rc = fit_check_lock(&c, why);
    if (rc < 0) return rc;
    count(&c);
    rc = print(&c, why);
    return rc < 0 ? rc : exit_of(&c, why);
}
