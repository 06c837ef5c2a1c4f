// SPDX-License-Identifier: Apache-2.0
// `batchfit completion bash|zsh|fish` prints the shell's completion script. The script asks the
// program itself (`batchfit completion words VERB`), so it is never out of date.
#include "base/out.h"
#include "cli/verb.h"

#include <stdio.h>

static const char bash_script[] =
    "# bash completion for batchfit: eval \"$(batchfit completion bash)\"\n"
    "_batchfit() {\n"
    "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
    "    local words\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$(batchfit completion words)\n"
    "    else\n"
    "        words=$(batchfit completion words \"${COMP_WORDS[1]}\" \"$prev\")\n"
    "    fi\n"
    "    if [ \"$words\" = file ]; then\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "    else\n"
    "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "    fi\n"
    "}\n"
    "complete -o bashdefault -F _batchfit batchfit\n";

static const char zsh_script[] =
    "#compdef batchfit\n"
    "_batchfit() {\n"
    "    local -a answer\n"
    "    if (( CURRENT == 2 )); then\n"
    "        answer=(${(f)\"$(batchfit completion words)\"})\n"
    "    else\n"
    "        answer=(${(f)\"$(batchfit completion words ${words[2]} ${words[CURRENT-1]})\"})\n"
    "    fi\n"
    "    if [[ $answer == file ]]; then _files; else compadd -a answer; fi\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _batchfit ]; then _batchfit \"$@\"; else compdef _batchfit batchfit; "
    "fi\n";

static const char fish_script[] =
    "# fish completion for batchfit\n"
    "function __batchfit_words\n"
    "    set -l tokens (commandline -opc)\n"
    "    if test (count $tokens) -lt 2\n"
    "        batchfit completion words\n"
    "    else\n"
    "        set -l answer (batchfit completion words $tokens[2] $tokens[-1])\n"
    "        if test \"$answer\" = file\n"
    "            __fish_complete_path (commandline -ct)\n"
    "        else\n"
    "            string join \\n -- $answer\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c batchfit -f -a '(__batchfit_words)'\n";

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static void print_words(const char *blank_separated) {
    struct str rest = str_of(blank_separated);
    while (rest.p) out_say(stdout, "%.*s\n", STR_ARG(str_cut(&rest, ' ')));
}

// The option before the cursor wants a value of its own; otherwise all options are offered.
static void print_after(const struct cli_verb *verb, struct str previous) {
    for (const struct cli_row *row = verb->options; row->name; row++) {
        bool here = str_starts(previous, STR("--")) &&
                    str_is(str_slice(previous, 2, previous.len), row->name);
        if (!here || !row->value) continue;
        print_words(row->words ? row->words : "file");
        return;
    }
    for (const struct cli_row *row = verb->options; row->name; row++)
        out_say(stdout, "--%s\n", row->name);
    out_say(stdout, "--json\n--help\n");
}

static int words_run(const struct cli_options *options) {
    const struct cli_verb *verb = options->argument_count > 1
                                      ? cli_verb_find(options->verbs, str_of(options->arguments[1]))
                                      : NULL;
    if (verb) {
        print_after(verb, str_of(options->argument_count > 2 ? options->arguments[2] : ""));
        return 0;
    }
    for (const struct cli_verb *const *v = options->verbs; *v; v++) {
        if (!(*v)->hidden) out_say(stdout, "%s\n", (*v)->name);
    }
    return 0;
}

static int completion_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    (void)a;
    struct str shell = str_of(options->argument_count > 0 ? options->arguments[0] : "");
    if (str_is(shell, "words")) return words_run(options);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (!str_is(shell, scripts[i].shell)) continue;
        out_data(stdout, str_of(scripts[i].script));
        return 0;
    }
    return fail_set(why, FAIL_USAGE, "batchfit completion bash|zsh|fish");
}

static const struct cli_row rows[] = {{.name = NULL}};

const struct cli_verb completion_verb = {
    .name = "completion",
    .summary = "print a shell completion script",
    .arguments = "SHELL",
    .description = "SHELL is bash, zsh or fish. In bash: eval \"$(batchfit completion bash)\"",
    .options = rows,
    .options_size = sizeof(struct cli_options),
    .run = completion_run,
    .hidden = true,
};
