// SPDX-License-Identifier: Apache-2.0
// The table of older words names only what exists, and its walk keeps what it does not know.
#include "unit.h"

#include "cli/cli.h"
#include "verbs/verbs.h"

#include <ctype.h>

static struct arena arena;

static bool has_option(const struct cli_verb *verb, struct str name) {
    if (str_is(name, "json") || str_is(name, "help")) return true;
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (str_is(name, row->name)) return true;
    }
    return false;
}

// The name at `text`: letters and dashes.
static struct str name_at(const char *text) {
    struct str name = {text, 0};
    while (islower(text[name.len]) || isdigit(text[name.len]) || text[name.len] == '-') name.len++;
    while (name.len > 0 && name.p[name.len - 1] == '-') name.len--;
    return name;
}

// Every option that the text names is one of some verb's in it, or of the row's own verbs.
static void check_text(const char *text, const struct cli_verb *own) {
    const struct cli_verb *named[8] = {own};
    int count = 1;
    for (const char *at = text; (at = strstr(at, "batchfit ")); at++) {
        named[count] = cli_verb_find(verbs, name_at(at + 9));
        if (!named[count]) fail_msg("no such verb: %s", at);
        assert_true(++count < 8);
    }
    for (const char *at = text; (at = strstr(at, "--")); at += 2) {
        struct str name = name_at(at + 2);
        bool is_there = name.len == 0;
        for (int i = 0; i < count && !is_there; i++) is_there = has_option(named[i], name);
        if (!is_there) fail_msg("%s names --%.*s: %s", own->name, STR_ARG(name), text);
    }
}

static void check_row(const struct cli_compat_row *row, const struct cli_verb *verb) {
    const struct cli_verb *answers = row->verb ? cli_verb_find(verbs, str_of(row->verb)) : verb;
    bool is_itself = row->becomes && strcmp(row->becomes, "=") == 0;
    bool is_shared = strchr(row->verbs, ' ') != NULL;
    struct str rest = str_of(row->options);
    if (!answers) fail_msg("%s: there is no verb %s", row->options, row->verb);
    while (rest.p) {
        struct str name = str_cut(&rest, ' ');
        if (str_ends(name, STR("="))) name.len--;
        if (has_option(verb, name) && !is_shared) {
            fail_msg("%s has --%.*s: it is never looked up", verb->name, STR_ARG(name));
        }
        struct str becomes = is_itself || !row->becomes ? name : name_at(row->becomes + 2);
        if (row->becomes && !has_option(answers, becomes)) {
            fail_msg("%s has no --%.*s", answers->name, STR_ARG(becomes));
        }
    }
    assert_true(row->kind == CLI_COMPAT_BECOMES ? row->becomes || row->verb : row->says != NULL);
    if (row->says) check_text(row->says, verb);
}

static void rows_name_what_exists(void **state) {
    (void)state;
    for (const struct cli_compat_row *row = cli_compat_table; row->verbs; row++) {
        struct str rest = str_of(row->verbs);
        while (rest.p) {
            struct str name = str_cut(&rest, ' ');
            const struct cli_verb *verb = cli_verb_find(verbs, name);
            if (!verb) fail_msg("%s: there is no verb %.*s", row->options, STR_ARG(name));
            check_row(row, verb);
        }
    }
}

static void the_options_of_the_short_help_exist(void **state) {
    (void)state;
    for (int i = 0; verbs[i]; i++) {
        int count = 0;
        for (const struct cli_row *row = verbs[i]->options; row->name; row++) count++;
        if (count > 12) assert_non_null(verbs[i]->common);
        struct str rest = str_of(verbs[i]->common);
        while (rest.p) {
            struct str name = str_cut(&rest, ' ');
            if (!has_option(verbs[i], name)) fail_msg("%s: %.*s", verbs[i]->name, STR_ARG(name));
        }
    }
}

static struct str read_line(const char *line, struct fail *why) {
    struct str_words words = str_words_of(&arena, str_of(line), ' ');
    struct cli_compat_words w = {verbs, cli_verb_find(verbs, str_of(words.items[0])),
                                 (int)words.count, words.items};
    struct buf out = buf_new(&arena);
    if (cli_compat_read(&arena, &w, why) < 0) return str_of(why->hint);
    buf_format(&out, "%s", w.verb->name);
    for (int i = 1; i < w.count; i++) buf_format(&out, " %s", w.items[i]);
    return buf_str(&out);
}

static void older_lines_become_today_s(void **state) {
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"fit --config a.yaml --gpu rtx3060", "fit --config a.yaml --gpu rtx3060"},
        {"fit --gpu_model rtx4090 --image_size=448", "fit --gpu rtx4090 --img-size 448"},
        {"fit --safety_factor 0.75 --json", "fit --safety-margin 0.25 --json"},
        {"fit --memory-fraction=75%", "fit --safety-margin 0.25"},
        {"fit --safety-factor much", "fit --safety-margin much"},
        {"fit --multi_gpu --gpu_ids 0,1,2,3", "fit --ranks 4 --gpu_ids 0,1,2,3"},
        {"fit --gpu-ids=0,1 --multi-gpu", "fit --gpu-ids=0,1 --ranks 2"},
        {"fit --multi-gpu", "fit"},
        {"fit --inference --memory_fraction 0.5", "infer --safety-margin 0.5"},
        {"fit --tta auto --min-f1-score 0.9", "infer --tta auto --min-f1 0.9"},
        {"fit --inference --eval-batch", "batchfit infer answers for evaluation itself"},
        {"fit -- python train.py --image_size 3", "fit -- python train.py --image_size 3"},
        {"fit --safety-factor", "fit --safety-margin"},
        {"watch --dashboard --port 80 --update_interval 1", "serve --port 80 --interval 1"},
        {"watch --export_prometheus --log_file a.csv", "use batchfit serve and batchfit watch"},
        {"check --analyze-team-performance --recommend-tta-type",
         "use batchfit team and batchfit infer"},
        {"bench --bucket_size_mb 25", "bench --bucket-cap-mb 25"},
        {"bench --compare-precision fp32 fp16", "bench --precision fp32 fp16"},
        {"run --oom_recovery -- python t.py --oom_recovery",
         "run --recover -- python t.py --oom_recovery"},
        {"run --use_amp", "it belongs to the training"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fail why = {0};
        struct str got = read_line(cases[i].line, &why);
        bool is_hint = why.hint[0] != 0;
        if (is_hint ? !str_starts(got, str_of(cases[i].expected)) : !str_is(got, cases[i].expected))
            fail_msg("%s: %.*s", cases[i].line, STR_ARG(got));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_name_what_exists),
        cmocka_unit_test(the_options_of_the_short_help_exist),
        cmocka_unit_test(older_lines_become_today_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
