// SPDX-License-Identifier: Apache-2.0
// `batchfit completion bash|zsh|fish` prints the shell's completion script. The script asks the
// program itself (`batchfit completion words VERB`), so it is never out of date.
#include "base/data.h"
#include "base/out.h"
#include "cli/cli.h"
#include "predict/gpu/gpu.h"
#include "predict/tape/store.h"

#include <stdio.h>

// The word before the cursor is asked about with "=" before it: it may be an option, which would be
// ours. A list (--gpus rtx4090,rtx<Tab>) is completed behind its last comma; --option=<Tab> as
// --option <Tab>.
static const char bash_script[] =
    "# bash completion for batchfit: eval \"$(batchfit completion bash)\"\n"
    "_batchfit() {\n"
    "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" head= words\n"
    "    if [ \"$cur\" = = ]; then cur=; elif [ \"$prev\" = = ]; then "
    "prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        words=$(batchfit completion words)\n"
    "    else\n"
    "        words=$(batchfit completion words \"${COMP_WORDS[1]}\" \"=$prev\")\n"
    "    fi\n"
    "    case \"$cur-$words\" in -*) ;; *--help*) words=file;; esac\n"
    "    if [ \"$words\" = file ]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
    "    else\n"
    "        case $cur in *,*) head=${cur%,*},; cur=${cur##*,};; esac\n"
    "        COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"$cur\"))\n"
    "    fi\n"
    "}\n"
    "complete -o bashdefault -F _batchfit batchfit\n";

static const char zsh_script[] =
    "#compdef batchfit\n"
    "_batchfit() {\n"
    "    local -a answer\n"
    "    local before=${words[CURRENT-1]}\n"
    "    if [[ ${words[CURRENT]} == --*=* ]]; then\n"
    "        before=${words[CURRENT]%%=*}\n"
    "        compset -P '*='\n"
    "    fi\n"
    "    if (( CURRENT == 2 )); then\n"
    "        answer=(${(f)\"$(batchfit completion words)\"})\n"
    "    else\n"
    "        answer=(${(f)\"$(batchfit completion words ${words[2]} \"=$before\")\"})\n"
    "    fi\n"
    "    if [[ $answer == file || ( ${words[CURRENT]} != -* && $answer == *--help* ) ]]; then\n"
    "        _files\n"
    "        return\n"
    "    fi\n"
    "    compset -P '*,'\n"
    "    compadd -a answer\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _batchfit ]; then _batchfit \"$@\"; else compdef _batchfit batchfit; "
    "fi\n";

static const char fish_script[] =
    "# fish completion for batchfit\n"
    "function __batchfit_words\n"
    "    set -l tokens (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    if test (count $tokens) -lt 2\n"
    "        batchfit completion words\n"
    "        return\n"
    "    end\n"
    "    set -l answer (batchfit completion words $tokens[2] =$tokens[-1])\n"
    "    set -l head (string match -r '^.*,' -- $current)\n"
    "    if test \"$answer\" = file; or contains -- --help $answer; and not string match -q -- "
    "'-*' "
    "$current\n"
    "        __fish_complete_path $current\n"
    "    else\n"
    "        string join \\n -- \"$head\"$answer\n"
    "    end\n"
    "end\n"
    "complete -c batchfit -f -a '(__batchfit_words)'\n"
    "for verb in (batchfit completion words)\n"
    "    for option in (batchfit completion words $verb)\n"
    "        complete -c batchfit -n \"__fish_seen_subcommand_from $verb\" -l (string sub -s 3 -- "
    "$option)\n"
    "    end\n"
    "end\n";

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static void print_words(const char *blank_separated) {
    struct str rest = str_of(blank_separated);
    while (rest.p) {
        struct str word = str_cut(&rest, ' ');
        out_say(stdout, "%.*s\n", STR_ARG(word));
    }
}

// --- Values --------------------------------------------------------------------------------------

static void print_gpus(struct arena *a) {
    struct gpu_catalogue c = {0};
    if (gpu_load(a, &c, NULL) < 0) return;
    for (ptrdiff_t i = 0; i < c.count; i++) out_say(stdout, "%.*s\n", STR_ARG(c.gpus[i].key));
    for (int i = 0; i < GPU_TIERS; i++) out_say(stdout, "%s\n", gpu_tier_name((enum gpu_tier)i));
}

// The names that people write, and those of the tapes; behind "timm:", which no shell takes for a
// part of a word.
static void print_models(struct arena *a) {
    struct tape_store store;
    struct str_list names = {0};
    struct str text;
    struct tsv t;
    if (data_find(a, "data/models.tsv", &text, NULL) == 0 &&
        tsv_open(&t, STR("data/models.tsv"), text, NULL) == 0) {
        while (tsv_next(&t, NULL) > 0) str_list_add(a, &names, tsv_cell(&t, "name"));
    }
    if (tape_store_open(a, (struct tape_places){0}, &store, NULL) == 0) {
        for (ptrdiff_t i = 0; i < store.count; i++) {
            struct str name = tape_store_at(&store, i)->header.model;
            ptrdiff_t colon = str_find(name, STR(":"));
            name = str_slice(name, colon + 1, name.len);
            str_list_add_new(a, &names, name);
        }
    }
    for (ptrdiff_t i = 0; i < names.count; i++) out_say(stdout, "%.*s\n", STR_ARG(names.items[i]));
}

// Words of an option's row that stand for more.
static const struct {
    const char *word;
    void (*print)(struct arena *a);
} kinds[] = {{"gpus", print_gpus}, {"models", print_models}};

static void print_values(struct arena *a, const char *words) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (str_is(str_of(words), kinds[i].word)) {
            kinds[i].print(a);
            return;
        }
    }
    print_words(words);
}

// The option before the cursor wants a value of its own; otherwise all options are offered.
static void print_after(struct arena *a, const struct cli_verb *verb, struct str previous) {
    if (str_starts(previous, STR("="))) previous = str_slice(previous, 1, previous.len);
    for (const struct cli_row *row = verb->options; row->name; row++) {
        bool here = str_starts(previous, STR("--")) &&
                    str_is(str_slice(previous, 2, previous.len), row->name);
        if (!here || !row->value) continue;
        print_values(a, row->words);
        return;
    }
    for (const struct cli_row *row = verb->options; row->name; row++)
        out_say(stdout, "--%s\n", row->name);
    out_say(stdout, "--json\n--help\n");
}

static int words_run(struct arena *a, const struct cli_options *options) {
    const struct cli_verb *verb = options->argument_count > 1
                                      ? cli_verb_find(options->verbs, str_of(options->arguments[1]))
                                      : NULL;
    if (verb) {
        print_after(a, verb, str_of(options->argument_count > 2 ? options->arguments[2] : ""));
        return 0;
    }
    for (const struct cli_verb *const *v = options->verbs; *v; v++) {
        if (!(*v)->hidden) out_say(stdout, "%s\n", (*v)->name);
    }
    return 0;
}

static int completion_run(struct arena *a, const struct cli_options *options, struct fail *why) {
    struct str shell = str_of(options->argument_count > 0 ? options->arguments[0] : "");
    if (str_is(shell, "words")) return words_run(a, options);
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
