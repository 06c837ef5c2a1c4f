// SPDX-License-Identifier: Apache-2.0
// The option table becomes an argp parser. Before argp sees a word, underscores in option names
// become dashes (the spelling of older scripts) and an unknown name is answered with the nearest
// ones, which argp does not do.
#include "cli/cli.h"

#include "base/near.h"
#include "base/out.h"
#include "base/say.h"
#include "base/unit.h"

#include <argp.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_FIRST = 256,
    OPTIONS_MAX = 96,
    KEY_JSON = KEY_FIRST + OPTIONS_MAX,
    KEY_HELP_ALL,
    KEY_USAGE
};

struct reading {
    struct arena *arena;
    const struct cli_verb *verb;
    struct cli_options *options;
    struct fail *why;
    int rc;
    const struct argp_option *rows;
};

static int option_bad(struct reading *r, const struct cli_row *row, const char *text,
                      const char *expected) {
    return fail_set(r->why, FAIL_USAGE, "--%s: '%s' is not %s", row->name, text, expected);
}

static int store_text(struct reading *r, const struct cli_row *row, char *text, void *to) {
    const char **slot = to;
    // A script's variable that is not set.
    if (row->kind == CLI_TEXT && !*text)
        return fail_set(r->why, FAIL_USAGE, "--%s: its %s is empty", row->name, row->value);
    bool is_one = row->kind == CLI_TEXT || row->kind == CLI_TEXT_OR_NONE;
    bool more = !is_one && *slot;
    char separator = row->kind == CLI_REPEAT ? '\n' : ',';
    *slot = more ? str_format(r->arena, "%s%c%s", *slot, separator, text).p : text;
    return 0;
}

// What comes of a number must itself be one: as nanoseconds the largest is a whole number of 64
// bits, and so is the product of a count and as many GPUs as are answered.
static const double number_most = 1e9;
static const int64_t count_most = INT64_C(1000000000000);

static int store_number(struct reading *r, const struct cli_row *row, char *text, void *to) {
    double value;
    if (!str_to_double(str_of(text), &value) || !(value >= 0)) {
        return option_bad(r, row, text, "a number of at least 0");
    }
    if (value > number_most) return option_bad(r, row, text, "a number of at most 1000000000");
    *(double *)to = value;
    return 0;
}

static int store_count(struct reading *r, const struct cli_row *row, char *text, void *to) {
    int64_t value;
    if (!str_to_i64(str_of(text), &value) || value < 1) {
        return option_bad(r, row, text, "a whole number of at least 1");
    }
    if (value > count_most)
        return option_bad(r, row, text, "a whole number of at most 1000000000000");
    *(int64_t *)to = value;
    return 0;
}

static int read_bytes(struct reading *r, const struct cli_row *row, char *text, void *to) {
    if (unit_parse_bytes(str_of(text), to)) return 0;
    return option_bad(r, row, text, "an amount of memory such as 6GiB, 512MiB or 8000000000");
}

// Nothing is what is there without the option.
static int store_bytes(struct reading *r, const struct cli_row *row, char *text, void *to) {
    int rc = read_bytes(r, row, text, to);
    bool is_none = rc == 0 && *(int64_t *)to == 0;
    return is_none ? option_bad(r, row, text, "more than nothing, such as 512MiB") : rc;
}

// No GPU has 6 bytes: a small bare number is in the unit that people think of GPUs in. With a unit
// beside it, it is what it says.
static int store_memory(struct reading *r, const struct cli_row *row, char *text, void *to) {
    int64_t *bytes = to;
    double number;
    int rc = 0;
    if (str_to_double(str_of(text), &number) && number > 0 && number < (double)UNIT_MIB)
        *bytes = (int64_t)(number * (double)(number < 1024 ? UNIT_GIB : UNIT_MIB));
    else
        rc = read_bytes(r, row, text, to);
    if (rc == 0 && *bytes == 0) return option_bad(r, row, text, "an amount above 0, such as 6GiB");
    if (rc == 0 && *bytes < UNIT_MIB)
        return option_bad(r, row, text, "an amount that a GPU can have, such as 6GiB");
    return rc;
}

static int store_bytes_or_none(struct reading *r, const struct cli_row *row, char *text, void *to) {
    int rc = read_bytes(r, row, text, to);
    int64_t *bytes = to;
    if (rc == 0 && *bytes == 0) *bytes = -1;
    return rc;
}

static int store_share(struct reading *r, const struct cli_row *row, char *text, void *to) {
    if (unit_parse_share(str_of(text), to)) return 0;
    return option_bad(r, row, text, "a fraction such as 0.15 or 15%");
}

static int store_switch(struct reading *r, const struct cli_row *row, char *text, void *to) {
    (void)r, (void)row, (void)text;
    *(bool *)to = true;
    return 0;
}

static int (*const stores[])(struct reading *, const struct cli_row *, char *, void *) = {
    [CLI_SWITCH] = store_switch,     [CLI_TEXT] = store_text,
    [CLI_TEXT_OR_NONE] = store_text, [CLI_COUNT] = store_count,
    [CLI_BYTES] = store_bytes,       [CLI_SHARE] = store_share,
    [CLI_LIST] = store_text,         [CLI_MEMORY] = store_memory,
    [CLI_REPEAT] = store_text,       [CLI_MANY] = store_text,
    [CLI_NUMBER] = store_number,     [CLI_BYTES_OR_NONE] = store_bytes_or_none,
};

static int key_of_row(const struct cli_verb *verb, const struct cli_row *row) {
    return row->letter ? row->letter : KEY_FIRST + (int)(row - verb->options);
}

static const struct cli_row *row_of_key(const struct cli_verb *verb, int key) {
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (key_of_row(verb, row) == key) return row;
    }
    return NULL;
}

static struct str option_name(struct str word) {
    word = str_slice(word, 2, word.len);
    return str_cut(&word, '=');
}

static bool is_known(const struct cli_verb *verb, struct str name) {
    static const char *const always[] = {"help", "help-all", "usage", "json"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (str_is(name, always[i])) return true;
    }
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (str_starts(str_of(row->name), name)) return true; // argp takes abbreviations
    }
    return false;
}

static int unknown_option(struct arena *a, const struct cli_verb *verb, struct str name,
                          struct fail *why) {
    struct near near = {.typed = name};
    for (const struct cli_row *row = verb->options; row->name; row++) {
        near_offer(&near, str_of(row->name));
    }
    near_offer(&near, STR("json"));
    fail_set(why, FAIL_USAGE, "%s has no option --%.*s", verb->name, STR_ARG(name));
    for (int i = 0; i < near.count; i++)
        near.names[i] = str_format(a, "--%.*s", STR_ARG(near.names[i]));
    if (near.count > 0) return fail_hint(why, "nearest: %.*s", STR_ARG(near_text(a, &near)));
    if (!verb->takes_command) {
        return fail_hint(why, "batchfit %s --help lists its options", verb->name);
    }
    return fail_hint(why,
                     "batchfit %s --help lists its options; options of the training go after --: "
                     "batchfit %s ... -- python train.py --%.*s ...",
                     verb->name, verb->name, STR_ARG(name));
}

// getopt prints a word that it does not know as it is: one that holds what is hidden (out.h) must
// be an option by its full name, or by a letter that takes a value.
static bool is_printable(struct arena *a, const struct cli_verb *verb, struct str word) {
    if (str_equal(clean_text(a, word), word)) return true;
    bool is_long = str_starts(word, STR("--"));
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (is_long && str_is(option_name(word), row->name)) return true;
        if (!is_long && row->kind != CLI_SWITCH && row->letter == word.p[1]) return true;
    }
    return false;
}

// Dashes for underscores in the names of options, up to a lone "--".
static int normalise(struct arena *a, const struct cli_verb *verb, int argc, char **argv,
                     struct fail *why) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        struct str word = str_of(argv[i]);
        if (word.len > 1 && word.p[0] == '-' && !is_printable(a, verb, word)) {
            return fail_set(why, FAIL_USAGE, "%s has no option %s", verb->name, argv[i]);
        }
        if (strncmp(argv[i], "--", 2) != 0) continue;
        argv[i] = str_z(a, str_of(argv[i]));
        struct str name = option_name(str_of(argv[i]));
        for (ptrdiff_t j = 0; j < name.len; j++) {
            if (argv[i][2 + j] == '_') argv[i][2 + j] = '-';
        }
        if (!is_known(verb, name)) return unknown_option(a, verb, name, why);
    }
    return 0;
}

static const struct cli_row *row_of_word(const struct cli_verb *verb, const char *word) {
    if (strncmp(word, "--", 2) != 0) return NULL;
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (strcmp(word + 2, row->name) == 0) return row;
    }
    return NULL;
}

// "--batch-sizes 1024 2048" becomes "--batch-sizes 1024,2048", which argp understands.
static int gather(struct arena *a, const struct cli_verb *verb, int argc, char **argv) {
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        const struct cli_row *row = row_of_word(verb, argv[i]);
        argv[kept++] = argv[i];
        if (!row || row->kind != CLI_MANY) continue;
        struct buf joined = buf_new(a);
        while (i + 1 < argc && argv[i + 1][0] != '-') {
            buf_format(&joined, "%s%s", joined.count ? "," : "", argv[++i]);
        }
        if (joined.count > 0) argv[kept++] = buf_z(&joined);
    }
    argv[kept] = NULL;
    return kept;
}

// What is the user's command is none of argp's business. Returns the words before it.
static int cut_command(const struct cli_verb *verb, int argc, char **argv,
                       struct cli_options *options, struct fail *why) {
    for (int i = 1; verb->takes_command && i < argc; i++) {
        if (strcmp(argv[i], "--") != 0) continue;
        options->command = argv + i + 1;
        if (i + 1 < argc) return i;
        fail_set(why, FAIL_USAGE, "no command after --");
        return fail_hint(why,
                         "for example: batchfit %s ... -- python train.py --batch-size {batch}",
                         verb->name);
    }
    return argc;
}

// --- Help ----------------------------------------------------------------------------------------

enum { EXAMPLES_SHORT = 1, GROUP_LAST = OPTIONS_MAX, LAST_ROWS = 5 };
enum { LONG_COLUMN = 6, TEXT_COLUMN = 29, LAST_COLUMN = 79 }; // of argp's help

// The place of the option in the short help, from 1; 0: it is not there.
static int place_in_help(const struct cli_verb *verb, const char *name) {
    struct str rest = str_of(verb->common);
    for (int place = 1; rest.p; place++) {
        if (str_is(str_cut(&rest, ' '), name)) return place;
    }
    return 0;
}

// What stands before the first "; " or " (": the rest is for --help-all.
static const char *first_clause(struct arena *a, const char *text) {
    struct str whole = str_of(text);
    ptrdiff_t semicolon = str_find(whole, STR("; ")), bracket = str_find(whole, STR(" ("));
    ptrdiff_t end = semicolon < 0 || (bracket > 0 && bracket < semicolon) ? bracket : semicolon;
    return end < 0 ? text : str_z(a, str_slice(whole, 0, end));
}

// The groups keep the order of verb->common; argp sorts by the letters within a group.
static const struct argp_option *argp_rows(struct arena *a, const struct cli_verb *verb,
                                           bool is_short) {
    int n = 0;
    while (verb->options[n].name) n++;
    struct argp_option *rows = arena_new(a, struct argp_option, n + LAST_ROWS);
    for (int i = 0; i < n; i++) {
        const struct cli_row *row = &verb->options[i];
        int place = is_short ? place_in_help(verb, row->name) : 0;
        rows[i] = (struct argp_option){row->name,
                                       key_of_row(verb, row),
                                       row->value,
                                       is_short && place == 0 ? OPTION_HIDDEN : 0,
                                       say_own(place > 0 ? first_clause(a, row->help) : row->help),
                                       place};
    }
    const char *all = str_format(a, say_own("show all %d options and the description"), n + 1).p;
    const struct argp_option last[] = {
        {"json", KEY_JSON, NULL, 0, say_own("print one JSON document; errors go to stderr"),
         is_short ? GROUP_LAST : 0},
        {"help-all", KEY_HELP_ALL, NULL, is_short ? 0 : OPTION_HIDDEN, all, -1},
        {"help", '?', NULL, 0, say_own("show this help"), -1},
        {"usage", KEY_USAGE, NULL, OPTION_HIDDEN, "show the options only", -1},
        {0}};
    memcpy(rows + n, last, sizeof last);
    return rows;
}

static struct str help_text(struct arena *a, const struct cli_verb *verb, bool is_short) {
    struct buf text = buf_new(a);
    struct str examples = str_of(verb->examples);
    buf_add(&text, str_of(say_own(verb->summary)));
    if (!is_short) buf_format(&text, "\n\n%s", verb->description);
    buf_byte(&text, '\v');
    if (examples.p) buf_add(&text, str_of(say_own("Examples:")));
    for (int i = 0; examples.p && (!is_short || i < EXAMPLES_SHORT); i++) {
        struct str line = str_line(&examples);
        buf_format(&text, "\n%.*s", STR_ARG(line));
    }
    return str_of(buf_z(&text));
}

// By group, those below 0 last, and by name within one.
static int in_order(const void *x, const void *y) {
    const struct argp_option *a = *(const struct argp_option *const *)x;
    const struct argp_option *b = *(const struct argp_option *const *)y;
    if (a->group != b->group) return (unsigned)a->group < (unsigned)b->group ? -1 : 1;
    return strcasecmp(a->name, b->name);
}

static void fill_to(struct buf *b, ptrdiff_t *column, ptrdiff_t wanted) {
    if (*column >= wanted) {
        buf_byte(b, '\n');
        *column = 0;
    }
    while (*column < wanted) {
        buf_byte(b, ' ');
        ++*column;
    }
}

static void add_option(struct buf *b, const struct argp_option *o) {
    ptrdiff_t before = b->count, column;
    struct str rest = str_of(o->doc);
    if (isascii(o->key))
        buf_format(b, "  -%c, ", o->key);
    else
        buf_format(b, "%*s", LONG_COLUMN, "");
    buf_format(b, "--%s%s%s", o->name, o->arg ? "=" : "", o->arg ? o->arg : "");
    column = b->count - before;
    bool is_beside = column >= TEXT_COLUMN && column <= TEXT_COLUMN + 3; // a little too long for it
    fill_to(b, &column, is_beside ? column + 3 : TEXT_COLUMN);
    for (bool is_first = true; rest.p; is_first = false) {
        struct str word = str_cut(&rest, ' ');
        if (!is_first && column + 1 + word.len >= LAST_COLUMN)
            fill_to(b, &column, TEXT_COLUMN);
        else if (!is_first)
            fill_to(b, &column, column + 1);
        buf_add(b, word);
        column += word.len;
    }
    buf_byte(b, '\n');
}

// argp's own loses the column of an option where its buffer of 200 bytes ends (glibc 2.36).
static struct buf options_text(struct arena *a, const struct argp_option *rows) {
    const struct argp_option *shown[OPTIONS_MAX + LAST_ROWS];
    struct buf b = buf_new(a);
    int n = 0;
    buf_byte(&b, '\n');
    for (const struct argp_option *o = rows; o->name; o++) {
        if (!(o->flags & OPTION_HIDDEN)) shown[n++] = o;
    }
    qsort(shown, (size_t)n, sizeof *shown, in_order);
    for (int i = 0; i < n; i++) add_option(&b, shown[i]);
    buf_byte(&b, '\n');
    return b;
}

// Ends the program, unless its text could not be written.
static error_t end_help(const struct argp_state *state, struct reading *r) {
    if (out_is_written(state->out_stream))
        argp_state_help(state, state->out_stream, ARGP_HELP_EXIT_OK);
    r->rc = fail_set(r->why, FAIL_MACHINE, "cannot write to stdout");
    return EINVAL;
}

static error_t show_help(const struct argp_state *state, struct reading *r) {
    const struct buf text = options_text(r->arena, r->rows);
    argp_state_help(state, state->out_stream, ARGP_HELP_SHORT_USAGE | ARGP_HELP_PRE_DOC);
    out_buf(state->out_stream, &text);
    argp_state_help(state, state->out_stream, ARGP_HELP_POST_DOC);
    return end_help(state, r);
}

int cli_no_argument(const char *verb, const char *text, bool has_config, bool takes_command,
                    struct fail *why) {
    fail_set(why, FAIL_USAGE, "'%s': %s takes no arguments", text, verb);
    if (has_config && access(text, R_OK) == 0 && access(text, X_OK) < 0)
        return fail_hint(why, "--config %s reads it", text);
    return takes_command ? fail_hint(why, "write -- before the command") : FAIL_USAGE;
}

static bool has_row(const struct argp_option *rows, const char *name) {
    while (rows->name && strcmp(rows->name, name) != 0) rows++;
    return rows->name != NULL;
}

static error_t parse_one(int key, char *text, struct argp_state *state) {
    struct reading *r = state->input;
    if (key == ARGP_KEY_ARG) {
        if (!r->verb->arguments) {
            r->rc = cli_no_argument(r->verb->name, text, has_row(r->rows, "config"),
                                    r->verb->takes_command, r->why);
            return EINVAL;
        }
        r->options->arguments[r->options->argument_count++] = text;
        return 0;
    }
    if (key == '?') return show_help(state, r);
    if (key == KEY_USAGE) {
        argp_state_help(state, state->out_stream, ARGP_HELP_USAGE);
        return end_help(state, r);
    }
    if (key == KEY_JSON) {
        r->options->json = true;
        return 0;
    }
    const struct cli_row *row = row_of_key(r->verb, key);
    if (!row) return ARGP_ERR_UNKNOWN;
    r->rc = stores[row->kind](r, row, text, (char *)r->options + row->offset);
    return r->rc < 0 ? EINVAL : 0;
}

// --help-all is argp's --help of a longer table.
static bool take_help_all(int argc, char **words) {
    static char help[] = "--help";
    bool is_asked = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(words[i], "--help-all") != 0) continue;
        words[i] = help;
        is_asked = true;
    }
    return is_asked;
}

static void no_numbers(const struct cli_verb *verb, struct cli_options *options) {
    for (const struct cli_row *row = verb->options; row->name; row++) {
        if (row->kind == CLI_SHARE || row->kind == CLI_NUMBER) {
            *(double *)(void *)((char *)options + row->offset) = (double)NAN;
        }
    }
}

int cli_options_read(struct arena *a, const struct cli_verb *verb, int argc, char **argv,
                     struct cli_options **ret_options, struct fail *why) {
    struct cli_options *options = arena_alloc(a, (ptrdiff_t)verb->options_size, 16, 1);
    options->arguments = arena_new(a, char *, argc + 1);
    no_numbers(verb, options);
    argc = cut_command(verb, argc, argv, options, why);
    int rc = argc < 0 ? argc : normalise(a, verb, argc, argv, why);
    if (rc < 0) return rc;
    char **words = arena_new(a, char *, argc + 1);
    memcpy(words, argv, (size_t)argc * sizeof *words);
    options->words = arena_new(a, char *, argc + 1); // argp puts its own into another order
    memcpy(options->words, argv, (size_t)argc * sizeof *words);
    options->words[0] = str_z(a, str_of(verb->name));
    argc = gather(a, verb, argc, words);
    struct reading r = {.arena = a, .verb = verb, .options = options, .why = why};
    bool is_short = !take_help_all(argc, words) && verb->common;
    const char *arguments = verb->takes_command ? "[-- COMMAND...]" : verb->arguments;
    if (verb->takes_command && verb->arguments)
        arguments = str_format(a, "%s\n%s", arguments, verb->arguments).p;
    const struct argp argp = {.options = argp_rows(a, verb, is_short),
                              .parser = parse_one,
                              .args_doc = arguments,
                              .doc = help_text(a, verb, is_short).p};
    r.rows = argp.options;
    words[0] = str_z(a, str_format(a, "batchfit %s", verb->name));
    argp_err_exit_status = -FAIL_USAGE; // argp itself ends the program for --help and misuse
    argp_parse(&argp, argc, words, ARGP_NO_HELP, NULL, &r);
    if (r.rc < 0) return r.rc;
    *ret_options = options;
    return 0;
}

const struct cli_verb *cli_verb_find(const struct cli_verb *const *list, struct str name) {
    for (; *list; list++) {
        if (str_is(name, (*list)->name)) return *list;
    }
    return NULL;
}
