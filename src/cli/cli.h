// SPDX-License-Identifier: Apache-2.0
// What a verb is: a name, its options, and a function. The command line is read by its option
// table, and --help, the man page and shell completion come from it; nothing else is to be written.
//
// Recipe: to add a verb NAME
//   1. copy tools/recipes/null.c, a verb that works, to src/verbs/NAME/NAME.c: an option table
//   (rows
//      that other verbs have, too, are in src/cli/cli.h; with more than a dozen, the ten that
//      people use are its `common`), one `NAME_run` and last `const struct cli_verb NAME_verb`;
//   2. give the room a line in src/meson.build and one in tools/layers, before that of
//   verbs/record,
//      then run `tools/layers --write`: doc/house.md shows the house as it is;
//   3. declare the verb in src/verbs/verbs.h and give it a row in the table of src/verbs/verbs.c;
//   4. name it in man/meson.build, which installs its page;
//   5. copy tools/recipes/null.test to tests/cli/NAME.test: what it answers, and each bad input.
// tests/recipes/run does just this in a copy of the tree.
// A verb is short and knows no other verb: what two of them need belongs in a room below.
#pragma once

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

// How an option's value is read, and the type at the row's offset.
enum cli_kind {
    CLI_SWITCH,        // bool
    CLI_TEXT,          // const char *, not empty
    CLI_TEXT_OR_NONE,  // const char *
    CLI_COUNT,         // int64_t, from 1 to 10^12
    CLI_BYTES,         // int64_t, at least 1: "6GiB"
    CLI_MEMORY,        // int64_t, of a GPU: as BYTES, but a bare 6 is 6 GiB and a bare 6144 is MiB
    CLI_SHARE,         // double in [0, 1): "0.15", "15%"; NaN when absent
    CLI_LIST,          // const char *: repeated values are joined with commas
    CLI_REPEAT,        // const char *: repeated values, joined with line ends: they may hold commas
    CLI_MANY,          // const char *: all words up to the next option, joined with commas: 4 8 12
    CLI_NUMBER,        // double from 0 to 10^9; NaN when absent
    CLI_BYTES_OR_NONE, // int64_t: as BYTES, but 0 is -1: none, which says more than nothing
};

// One option of a verb, always a long name; underscores are accepted for its dashes.
struct cli_row {
    const char *name;  // "batch-size"
    const char *value; // "N", "FILE"; NULL: a switch
    enum cli_kind kind;
    size_t offset; // of the member in the verb's struct of options
    const char *help;
    const char *words; // what shell completion offers: "file", "gpus", "models", "a b c"; or NULL
    char letter;       // a short form; 0: none
    unsigned about;    // enum cli_about, for a verb that is asked in several ways; 0: of them all
};

// What an option is about. Ways to ask take some of these, so that a new option needs its row only.
enum cli_about {
    CLI_OF_TRAINING = 1 << 0, // what is trained; it names no file of this machine
    CLI_OF_SPLIT = 1 << 1,    // … over which of its GPUs
    CLI_OF_FILES = 1 << 2,    // what is read: the config, a tape
    CLI_OF_MEMORY = 1 << 3,   // of the GPU and its machine, whichever it is
    CLI_OF_OTHERS = 1 << 4,   // who else is on this GPU
    CLI_OF_SEARCH = 1 << 5,   // which batches may be the answer
    CLI_OF_STEP = 1 << 6,     // the effective batch that is kept
    CLI_OF_GPU = 1 << 7,      // the GPU that is named
    CLI_OF_GPUS = 1 << 8,     // several of them
    CLI_OF_MACHINE = 1 << 9,  // this machine's GPUs
    CLI_OF_EDIT = 1 << 10,    // how the config is changed
    CLI_OF_FREEDOM = 1 << 11, // … also beyond what was asked to be kept
    CLI_OF_NO_EDIT = 1 << 12, // --test-only
    CLI_OF_HISTORY = 1 << 13,
    CLI_OF_ANSWER = 1 << 14, // what is shown of a prediction, or asked beside it
    CLI_OF_TRIALS = 1 << 15,
    CLI_OF_VIEWS = 1 << 16, // of inference, with test-time augmentation
    CLI_OF_STEPS = 1 << 17, // --trace: refused beside predictions with a hint of its own
    CLI_OF_CHECK = 1 << 18,
    CLI_OF_ENGINE = 1 << 19,  // --on
    CLI_OF_CLUSTER = 1 << 20, // Slurm, whoever chooses among its GPUs
    CLI_OF_TYPES = 1 << 21,   // … by prediction
    CLI_OF_JOBS = 1 << 22,    // … by jobs
    CLI_OF_RESTARTS = 1 << 23,
    CLI_OF_GROWTH = 1 << 24, // of the batch, while it trains
};

struct cli_verb;

// What a verb gets: its own struct, whose first member is this one.
struct cli_options {
    char **arguments; // positional
    int argument_count;
    char **command; // what stands after "--", NULL-ended; NULL: there is no "--"
    // The verb and what follows, up to a "--", NULL-ended: the command as it was typed.
    char **words;
    bool json;
    const struct cli_verb *const *verbs; // all of them, for the verbs that speak of others
};

struct cli_verb {
    const char *name, *summary;    // summary: the question it answers
    const char *arguments;         // "TAPE"; NULL: none
    const char *description;       // paragraphs for --help and the man page
    const char *examples;          // command lines, one a line
    const struct cli_row *options; // ends with a row without a name
    const char *common;            // "config gpu": the options of --help; NULL: all of them
    size_t options_size;           // of the struct that the rows fill
    // 0: yes, FAIL_NO: the answer is no (already printed), other codes: an error to be printed.
    int (*run)(struct arena *a, const struct cli_options *options, struct fail *why);
    bool hidden;
    bool takes_command; // "-- COMMAND": everything after it is the user's
};

// Of a list that ends with NULL; NULL: there is none.
const struct cli_verb *cli_verb_find(const struct cli_verb *const *list, struct str name);

// Options that several verbs have: their words are written once. Each is a row of a verb's table,
// for the member at `at` (an offset).

// A row in a macro: what formats the code lays out a call better than braces.
#define CLI_ROW(...) \
    { __VA_ARGS__ }

#define CLI_ROW_CONFIG_DIALECT(at)                                                    \
    CLI_ROW("dialect", "ID", CLI_TEXT, at,                                            \
            "config dialect, if not recognised (batchfit list dialects)", "dialects", \
            .about = CLI_OF_TRAINING)
#define CLI_ROW_CONFIG_SECTION(at)           \
    CLI_ROW("section", "PATH", CLI_TEXT, at, \
            "section of the config to use, if it holds several runs", .about = CLI_OF_TRAINING)
#define CLI_ROW_GPU(at)                                                                    \
    CLI_ROW("gpu", "NAME", CLI_TEXT, at, "GPU: rtx3060, 'RTX 3080 Ti', a100-80gb", "gpus", \
            .about = CLI_OF_GPU)
#define CLI_ROW_GPUS(at)                    \
    CLI_ROW("gpus", "NxNAME", CLI_TEXT, at, \
            "several GPUs of this name in one training: 8xh100 (--gpu and --ranks in one)")
#define CLI_ROW_GPU_MEMORY(at)                                                        \
    CLI_ROW("gpu-memory", "BYTES", CLI_MEMORY, at, "GPU with this much memory: 6GiB", \
            .about = CLI_OF_GPU)
#define CLI_ROW_GPU_IDS(at)                                                      \
    CLI_ROW("gpu-ids", "LIST", CLI_TEXT, at, "GPUs of this machine to use: 0,1", \
            .about = CLI_OF_MACHINE)
#define CLI_ROW_MACHINE(at)                                                                       \
    CLI_ROW("machine", "DIR", CLI_TEXT, at, "use a recorded machine instead of this one", "file", \
            .about = CLI_OF_MACHINE)
#define CLI_ROW_MACHINE_GAUGES(at)          \
    CLI_ROW("machine", "DIR", CLI_TEXT, at, \
            "read the GPU gauges of a recorded machine instead of this one's", "file")
#define CLI_ROW_DEMO(at)                  \
    CLI_ROW("demo", NULL, CLI_SWITCH, at, \
            "use a made-up machine with four GPUs (shipped with batchfit)")
#define CLI_ROW_PROFILE(at)                  \
    CLI_ROW("profile", NULL, CLI_SWITCH, at, \
            "also read how busy multiprocessors, tensor cores and memory are (Hopper and newer)")
#define CLI_ROW_RANKS_OF_TRIAL(at) \
    CLI_ROW("ranks", "N", CLI_COUNT, at, "data-parallel processes per trial")
#define CLI_ROW_PYTHON(at)                                                                   \
    CLI_ROW("python", "PROGRAM", CLI_TEXT, at,                                               \
            "Python that has your PyTorch (default $BATCHFIT_PYTHON, else python3)", "file", \
            .about = CLI_OF_TRIALS)
#define CLI_ROW_SNAPSHOT(at)                                                                     \
    CLI_ROW("snapshot", "DIR", CLI_TEXT, at,                                                     \
            "when memory runs out, save PyTorch's memory snapshot in this folder, for batchfit " \
            "doctor (CUDA, torch 2.0 or newer)",                                                 \
            "file", .about = CLI_OF_TRIALS)
#define CLI_ROW_ENV(at)                                                                       \
    CLI_ROW("env", "NAME=VALUE", CLI_REPEAT, at,                                              \
            "environment variable for the command; VALUE may hold placeholders (repeatable)", \
            .about = CLI_OF_TRIALS)
#define CLI_ROW_DATA_KEY(at) CLI_ROW("data-key", "NAME", CLI_TEXT, at, "dataset in the HDF5 file")
#define CLI_ROW_NUM_CLASSES(at) \
    CLI_ROW("num-classes", "N", CLI_COUNT, at, "number of classes", .about = CLI_OF_TRAINING)
#define CLI_ROW_ALLOC_CONF(at)                                                            \
    CLI_ROW("alloc-conf", "TEXT", CLI_TEXT_OR_NONE, at,                                   \
            "PYTORCH_CUDA_ALLOC_CONF of the run; 'env' takes the one in the environment", \
            .about = CLI_OF_MEMORY)
#define CLI_ROW_STORE(at)                                                                    \
    CLI_ROW("store", "DIR", CLI_TEXT, at,                                                    \
            "folder or postgresql:// address of the history (default $BATCHFIT_STORE, else " \
            "~/.local/state/batchfit)",                                                      \
            "file", .about = CLI_OF_HISTORY)
#define CLI_ROW_FORCE(at)                                                                 \
    CLI_ROW("force", NULL, CLI_SWITCH, at,                                                \
            "write even if the config has settings that are not counted (LoRA, ZeRO, …)", \
            .about = CLI_OF_FREEDOM)
#define CLI_ROW_DETAILS(at)                                                                       \
    CLI_ROW("details", NULL, CLI_SWITCH, at, "also show the allocator's figures, and the budget", \
            .about = CLI_OF_ANSWER)
#define CLI_ROW_ALERT(at)                                          \
    CLI_ROW("alert", "NAME=N,...", CLI_LIST, at,                   \
            "report a GPU at or above these limits as a problem: " \
            "temperature=83,memory=95%,power=300 (degrees C, W)")
#define CLI_ROW_EXEC(at)                                                                         \
    CLI_ROW("exec", "COMMAND", CLI_TEXT, at,                                                     \
            "with --alert: run this with sh, once each time a GPU reaches a limit; "             \
            "$BATCHFIT_TEXT is the message, $BATCHFIT_ALERT, $BATCHFIT_GPU and $BATCHFIT_VALUE " \
            "its parts")
#define CLI_ROW_COST_PER_HOUR(at)                 \
    CLI_ROW("cost-per-hour", "N", CLI_NUMBER, at, \
            "price of a GPU hour: shows what the idle hours cost")
#define CLI_ROW_TRACE(at)                  \
    CLI_ROW("trace", "FILE", CLI_TEXT, at, \
            "also write memory over time as a trace for Perfetto or chrome://tracing", "file")
#define CLI_ROW_TEST_ONLY(at) \
    CLI_ROW("test-only", NULL, CLI_SWITCH, at, "change no files", .about = CLI_OF_NO_EDIT)

// A way to ask a verb: with an option such as --check, or a command.
struct cli_way {
    const char *name;    // "--check"
    unsigned takes, own; // of enum cli_about; own: those that go only with such a way, taken, too
    const char *example, *does, *instead;
};
// Whether the ways that are asked take each option that was given; those that are a way's own need
// one that takes them. FAIL_USAGE names the first that cannot be combined with them.
int cli_ways_check(const struct cli_row *rows, const struct cli_options *options,
                   const struct cli_way *ways, size_t count, const bool *asked, struct fail *why);

// Reading a verb's command line by its option table, with argp.

// Refuses an argument of a verb that has none; of a file that is there it says --config.
int cli_no_argument(const char *verb, const char *text, bool has_config, bool takes_command,
                    struct fail *why);

// Fills a struct of verb->options_size bytes. 0, or FAIL_USAGE with the nearest option in the hint;
// --help and a missing value end the program here (argp).
int cli_options_read(struct arena *a, const struct cli_verb *verb, int argc, char **argv,
                     struct cli_options **ret_options, struct fail *why);

// The command as it was typed, up to a "--", without the options of these two lists of names (NULL:
// none) and their values. Abbreviations are what argp takes them for.
struct str_words cli_words_without(struct arena *a, const struct cli_options *base,
                                   const char *names, const char *more);

// The words of older scripts, for all verbs in one table (compat_table.c). They stand in no
// --help, no man page and no completion, and an option that a verb has itself is never looked up
// here.

enum cli_compat_kind {
    CLI_COMPAT_BECOMES,  // another option, or another verb
    CLI_COMPAT_NEEDLESS, // what the verb does anyway: accepted without a word
    CLI_COMPAT_IGNORED,  // changes nothing here, which stderr says with what to use instead
    CLI_COMPAT_REFUSED,  // not done here: an error that says who does it
};

// What becomes of the value on the way.
enum cli_compat_value {
    CLI_COMPAT_AS_IT_IS,
    CLI_COMPAT_REST,  // a share that may be used: what it leaves free
    CLI_COMPAT_RANKS, // there is none: as many as --gpu-ids names
};

struct cli_compat_row {
    const char *verbs;   // "fit infer"
    const char *options; // their spellings, with dashes; "mode=": it takes a value
    const char *becomes; // "--gpu=" with the value, "--amp=on" without, "=": itself; NULL: nothing
    const char *verb;    // that answers in the place of the one that was typed; NULL: the same
    enum cli_compat_kind kind;
    const char *says; // why, and what to use instead; NULL where becomes says it
    enum cli_compat_value value;
};
extern const struct cli_compat_row cli_compat_table[]; // ends with a row without verbs

// A command line: its verb, and its words with the verb's name first.
struct cli_compat_words {
    const struct cli_verb *const *verbs; // among which another one is found
    const struct cli_verb *verb;
    int count;
    char **items;
};
// Puts today's words in the place of older ones, up to a lone "--"; verb and words may be others
// afterwards. FAIL_USAGE with the replacement in the hint for what is refused.
int cli_compat_read(struct arena *a, struct cli_compat_words *words, struct fail *why);
