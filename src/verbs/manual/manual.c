// SPDX-License-Identifier: Apache-2.0
// `batchfit manual VERB` prints the verb's man page (mdoc), made from the same option table that
// the parser and --help use. Run at build time by `make install` and `make dist`.
#include "cli/cli.h"

#include <stdio.h>

// mdoc takes a leading dot or quote for a macro and a backslash for an escape.
static void print_escaped(struct str text) {
    bool line_start = true;
    for (ptrdiff_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (line_start && (c == '.' || c == '\'')) fputs("\\&", stdout);
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else
            putchar(c);
        line_start = c == '\n';
    }
}

static void print_paragraphs(struct str text) {
    while (text.p) {
        struct str line = str_line(&text);
        if (line.len == 0) {
            if (text.p) puts(".Pp");
            continue;
        }
        print_escaped(line);
        putchar('\n');
    }
}

static void print_option(const struct cli_row *row) {
    fputs(".It ", stdout);
    if (row->letter) printf("Fl %c , ", row->letter);
    printf("Fl \\-%s", row->name);
    if (row->value) printf(" Ns = Ns Ar %s", row->value);
    putchar('\n');
    print_escaped(str_of(row->help));
    putchar('\n');
}

static void print_examples(struct str text) {
    puts(".Sh EXAMPLES\n.Bd -literal");
    while (text.p) {
        print_escaped(str_trim(str_line(&text)));
        if (text.p) putchar('\n');
    }
    puts("\n.Ed");
}

static void print_exit_status(void) {
    puts(".Sh EXIT STATUS\n.Bl -tag -width 2n\n.It 0\nyes\n.It 1\nthe answer is no\n.It 2\nwrong "
         "options\n.It 3\nbad input\n.It 4\na problem of the machine: permission, disk, driver, "
         "missing program\n.It 5\na bug in batchfit\n.It 75\nbatchfit run \\-\\-recover was "
         "stopped: the "
         "same command continues\n.It 130\ninterrupted\n.El");
}

static void print_verb(const struct cli_verb *verb) {
    fputs(".Dd November 21, 2026\n.Dt BATCHFIT\\-", stdout);
    for (const char *c = verb->name; *c; c++) putchar(*c - 'a' + 'A');
    printf(" 1\n.Os\n.Sh NAME\n.Nm batchfit\\-%s\n.Nd ", verb->name);
    print_escaped(str_of(verb->summary));
    printf("\n.Sh SYNOPSIS\n.Nm batchfit %s\n.Op Ar options\n", verb->name);
    if (verb->takes_command) puts(".Op \\-\\- Ar command ...");
    if (verb->arguments) {
        if (verb->takes_command) printf(".Nm batchfit %s\n.Op Ar options\n", verb->name);
        fputs(".Ar ", stdout);
        print_escaped(str_of(verb->arguments));
        putchar('\n');
    }
    puts(".Sh DESCRIPTION");
    print_paragraphs(str_of(verb->description));
    puts(".Pp\nThe options are:\n.Bl -tag -width Ds");
    for (const struct cli_row *row = verb->options; row->name; row++) print_option(row);
    puts(".It Fl \\-json\nprint one JSON document on standard output\n.El");
    print_exit_status();
    if (verb->examples) print_examples(str_of(verb->examples));
    puts(".Sh SEE ALSO\n.Xr batchfit 1");
}

static void print_program(const struct cli_verb *const *verbs) {
    puts(".Dd November 21, 2026\n.Dt BATCHFIT 1\n.Os\n.Sh NAME\n.Nm batchfit\n"
         ".Nd fit a training job to a GPU\n.Sh SYNOPSIS\n.Nm\n.Ar verb\n.Op Ar options\n"
         ".Sh DESCRIPTION\nPredicts, without a GPU, whether a PyTorch training fits a GPU, and\n"
         "which batch size, gradient accumulation and precision to use.\nThe verbs are:\n"
         ".Bl -tag -width Ds");
    for (int i = 0; verbs[i]; i++) {
        if (verbs[i]->hidden) continue;
        printf(".It Nm %s\n", verbs[i]->name);
        print_escaped(str_of(verbs[i]->summary));
        putchar('\n');
    }
    puts(".El");
    puts(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n.It Ev BATCHFIT_DATA\nfolder whose files override "
         "the data shipped with the program\n.It Ev BATCHFIT_STORE\nfolder or postgresql:// "
         "address of the history\n.It Ev BATCHFIT_PYTHON\nPython that has your PyTorch\n.It Ev "
         "PYTORCH_CUDA_ALLOC_CONF\nread with the "
         "option\n.Fl \\-alloc\\-conf Ns = Ns Ar env\n.It Ev NO_COLOR\nno colours\n.El");
    print_exit_status();
    puts(".Sh SEE ALSO");
    for (int i = 0; verbs[i]; i++) {
        if (!verbs[i]->hidden)
            printf(".Xr batchfit\\-%s 1%s\n", verbs[i]->name,
                   verbs[i + 1] && !verbs[i + 1]->hidden ? " ," : "");
    }
}

static int manual_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    (void)a;
    if (options->argument_count == 0) {
        print_program(options->verbs);
        return 0;
    }
    const struct cli_verb *verb = cli_verb_find(options->verbs, str_of(options->arguments[0]));
    if (!verb) return fail_set(why, FAIL_USAGE, "no verb '%s'", options->arguments[0]);
    print_verb(verb);
    return 0;
}

static const struct cli_row rows[] = {{.name = NULL}};

const struct cli_verb manual_verb = {
    .name = "manual",
    .summary = "print a man page",
    .arguments = "[VERB]",
    .description = "Prints the man page of a verb, or of the program, as mdoc source:\n"
                   "batchfit manual fit | mandoc -l",
    .options = rows,
    .options_size = sizeof(struct cli_options),
    .run = manual_run,
    .hidden = true,
};
