// SPDX-License-Identifier: Apache-2.0
// Shell scripts: the command line that trains, as a map of its flags. Variables that the script
// sets to plain text are put in; what it gets from the environment, a loop or another command is
// unknown. Nothing is run.
#include "records/datum/datum_int.h"

#include <string.h>

// --- Commands into flags -------------------------------------------------------------------------

struct flags {
    struct data *data;
    struct datum *map;
    const struct shell_command *command;
    ptrdiff_t at, end; // words
    bool is_launcher;  // whose flags have one value each: "srun --ntasks 2 python"
};

static bool is_flag(const struct shell_word *w) {
    return !w->is_quoted && w->text.len > 2 && str_starts(w->text, STR("--")) &&
           str_is_alnum(w->text.p[2]);
}

// "$@": what the script itself was called with.
static bool is_rest(const struct shell_word *w) {
    return !w->is_known && (str_is(w->text, "$@") || str_is(w->text, "$*"));
}

// "$NAME", and what it is stands nowhere.
static bool is_variable(const struct shell_word *w) {
    return !w->is_known && !w->is_quoted && str_starts(w->text, STR("$"));
}

// -1 is a value, -b is none.
static bool is_value(const struct shell_word *w) {
    if (is_rest(w) || is_flag(w) || w->is_flags) return false;
    return w->is_quoted || !w->is_known || !str_starts(w->text, STR("-")) ||
           (w->text.len > 1 && (str_is_digit(w->text.p[1]) || w->text.p[1] == '.'));
}

// "trainer.batch_size=4" of Hydra and others; where the "=" is. -1: it is none.
static ptrdiff_t equals_at(const struct shell_word *w) {
    const ptrdiff_t at = str_find(w->text, STR("="));
    ptrdiff_t i = 0;
    while (i < at && w->text.p[i] == '+') i++;
    const struct str key = str_slice(w->text, i, at < 0 ? i : at);
    return at > i && str_is_made_of(key, "_.@/-") && key.p[0] != '-' ? at : -1;
}

static struct datum *word_value(struct flags *f, const struct shell_word *w, struct str text) {
    struct datum *v =
        datum_new(f->data, w->is_known ? DATUM_WORD : DATUM_UNKNOWN, w->line, w->column);
    v->text = w->is_known || text.len > 0 ? text : w->text;
    return v;
}

// "data.batch-size" becomes data: {batch_size: …}.
static void set(struct flags *f, struct str path, struct str spelled, struct datum *value,
                const struct shell_word *w) {
    struct datum *map = f->map;
    struct str rest = str_of(str_z_swapped(f->data->arena, path, '-', '_'));
    for (int i = 0; str_find(rest, STR(".")) >= 0 && i < 16; i++) {
        const struct str key = str_cut(&rest, '.');
        const struct datum_pair *p = datum_find(map, key);
        struct datum *below = p ? p->value : NULL;
        if (!below || below->kind != DATUM_MAP) {
            below = datum_new(f->data, DATUM_MAP, w->line, w->column);
            datum_set(f->data, map, key, below, w->line, w->column);
        }
        map = below;
    }
    datum_set(f->data, map, rest, value, w->line, w->column)->spelled = spelled;
}

// "--resolution 512 512", "--batch-size=4", "--amp"
static void take_flag(struct flags *f) {
    const struct shell_command *c = f->command;
    const struct shell_word *w = &c->words[f->at++];
    struct str name = str_slice(w->text, 2, w->text.len);
    const ptrdiff_t equals = str_find(name, STR("="));
    if (equals >= 0) {
        const struct str value = str_slice(name, equals + 1, name.len);
        set(f, str_slice(name, 0, equals), str_slice(w->text, 0, equals + 3),
            word_value(f, w, value), w);
        return;
    }
    struct datum *value = NULL;
    while (f->at < f->end && is_value(&c->words[f->at]) && equals_at(&c->words[f->at]) < 0) {
        if (value && (f->is_launcher || is_variable(&c->words[f->at]))) break; // "4 $MORE_FLAGS"
        struct datum *v = word_value(f, &c->words[f->at], c->words[f->at].text);
        f->at++;
        if (!value) {
            value = v;
            continue;
        }
        if (value->kind != DATUM_LIST) {
            struct datum *list = datum_new(f->data, DATUM_LIST, v->line, v->column);
            datum_push(f->data, list, value);
            value = list;
        }
        datum_push(f->data, value, v);
    }
    if (!value) {
        value = datum_new(f->data, w->is_known ? DATUM_BOOL : DATUM_UNKNOWN, w->line, w->column);
        value->boolean = w->is_known;
        if (!w->is_known) value->text = w->text;
    }
    set(f, name, str_format(f->data->arena, "%.*s ", STR_ARG(w->text)), value, w);
}

static bool names_model(const struct shell_command *c) {
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct shell_word *w = &c->words[i];
        struct str rest = str_slice(w->text, is_flag(w) ? 2 : w->text.len, w->text.len);
        const struct str name = str_cut(&rest, '=');
        if (str_is(w->text, "-a") || str_is(name, "arch") || str_is(name, "model")) return true;
    }
    return false;
}

// "-a resnet50 -b 256" of PyTorch's examples and of timm: what the letter is. NULL: none; in many
// programs -b is something else, but not beside a model.
static const char *letter_at(const struct shell_command *c, ptrdiff_t at, bool has_model) {
    const struct shell_word *w = &c->words[at], *value = w + 1;
    int64_t n;
    if (!has_model || at + 1 >= c->count || !is_value(value)) return NULL;
    if (str_is(w->text, "-a")) return "arch";
    const bool is_count = !value->is_known || str_to_i64(value->text, &n);
    return is_count && str_is(w->text, "-b") ? "batch_size" : NULL;
}

static void take_words(struct flags *f, ptrdiff_t begin, ptrdiff_t end) {
    const bool has_model = !f->is_launcher && names_model(f->command);
    f->at = begin;
    f->end = end;
    while (f->at < end) {
        const struct shell_word *w = &f->command->words[f->at];
        const ptrdiff_t equals = equals_at(w);
        if (is_flag(w)) {
            take_flag(f);
            continue;
        }
        const char *key = letter_at(f->command, f->at, has_model);
        f->at++;
        if (key) {
            const struct shell_word *value = &f->command->words[f->at++];
            set(f, str_of(key), str_format(f->data->arena, "%.*s ", STR_ARG(w->text)),
                word_value(f, value, value->text), w);
            continue;
        }
        if (equals < 0) continue;
        struct str path = str_slice(w->text, 0, equals);
        while (path.p[0] == '+') path = str_slice(path, 1, path.len);
        set(f, path, str_slice(w->text, 0, equals + 1),
            word_value(f, w, str_slice(w->text, equals + 1, w->text.len)), w);
    }
}

// Trainers of their own: a file in their flags is a plugin or data.
static const char *const trainers[] = {"swift", "megatron", "llamafactory-cli", "axolotl", "litgpt",
                                       "yolo",  NULL};
// Programs whose first word says what of theirs runs: trl dpo, swift sft, litgpt finetune_lora.
static const char *const with_verbs[] = {"trl", "swift", "litgpt", NULL};

static bool is_program(const struct shell_command *c, const char *const *names) {
    return c->count > 0 && str_is_one_of(c->words[0].text, names);
}

// "distributed_train.sh 8 /imagenet …" of timm: torchrun with 8 processes. 0: another word.
static int64_t processes_behind(const struct shell_command *c, ptrdiff_t at) {
    int64_t n = 0;
    if (!str_ends(c->words[at].text, STR("distributed_train.sh")) || at + 1 >= c->count) return 0;
    return str_to_i64(c->words[at + 1].text, &n) ? n : 0;
}

// Where the training's own words begin: behind its file, behind "-m module", behind the word for
// one of a program's own ("trl dpo"), or behind the recipe of torchtune ("tune run
// --nproc_per_node 2 RECIPE --config X").
static ptrdiff_t script_at(const struct shell_command *c) {
    if (c->count > 1 && is_program(c, with_verbs) && !is_flag(&c->words[1])) return 2;
    for (ptrdiff_t i = 1; i < 3 && i < c->count && str_is(c->words[0].text, "yolo"); i++)
        if (str_is(c->words[i].text, "train")) return i + 1; // yolo detect train
    if (is_program(c, trainers)) return 0;
    const bool is_tune = c->count > 1 && str_is(c->words[0].text, "tune");
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct str text = c->words[i].text;
        const struct str next = i + 1 < c->count ? c->words[i + 1].text : (struct str){0};
        if (str_ends(text, STR(".py"))) return i + 1;
        if (str_is(text, "-m") && str_is(next, "trl") && i + 2 < c->count) return i + 3;
        if ((str_is(text, "-m") || str_is(text, "--module")) && next.len > 0 &&
            !str_starts(next, STR("torch.")) && !str_starts(next, STR("accelerate")))
            return i + 2;
        if (is_tune && i > 1 && str_is(next, "--config")) return i + 1;
        if (processes_behind(c, i) > 0) return i + 2;
    }
    return 0;
}

static void set_number(struct flags *f, const char *key, int64_t value,
                       const struct shell_word *w) {
    const struct shell_word number = {.line = w->line, .column = w->column, .is_known = true};
    const struct str text = str_format(f->data->arena, "%lld", (long long)value);
    if (value > 0 && !datum_find(f->map, str_of(key)))
        datum_set(f->data, f->map, str_of(key), word_value(f, &number, text), w->line, w->column);
}

// srun starts as many as the job has, where it is not told otherwise.
static void take_job(struct flags *f, const struct shell_word *w, const struct shell_job *job) {
    if (!datum_find(f->map, STR("ntasks")) && !datum_find(f->map, STR("ntasks_per_node"))) {
        set_number(f, "ntasks", job->tasks, w);
        set_number(f, "ntasks_per_node", job->tasks_per_node, w);
    }
    set_number(f, "nodes", job->nodes, w);
}

// "srun -N 2 -n 16", "mpirun -np 8"
static void take_letters(struct flags *f, ptrdiff_t begin) {
    static const struct {
        const char *letter, *key;
    } letters[] = {{"-np", "ntasks"}, {"-n", "ntasks"}, {"-N", "nodes"}};
    for (ptrdiff_t i = begin; i < f->end; i++) {
        const struct shell_word *w = &f->command->words[i];
        for (size_t k = 0; k < sizeof letters / sizeof *letters; k++) {
            const struct str letter = str_of(letters[k].letter);
            struct str value = str_slice(w->text, letter.len, w->text.len); // -N2
            int64_t n;
            if (!str_starts(w->text, letter)) continue;
            if (value.len == 0 && i + 1 < f->end) value = w[1].text;
            if (str_to_i64(value, &n)) set_number(f, letters[k].key, n, w);
        }
    }
}

// "deepspeed --include node1:0,1@node2:0,1": a process for each of its slots.
static void take_slots(struct flags *f, const struct shell_word *w) {
    const struct datum_pair *p = datum_find(f->map, STR("include"));
    struct str nodes = p && p->value->kind == DATUM_WORD ? p->value->text : (struct str){0};
    int64_t count = 0;
    while (nodes.len > 0) {
        struct str slots = str_cut(&nodes, '@');
        (void)str_cut(&slots, ':');
        if (slots.len == 0) return; // all that the node has
        for (; slots.len > 0; count++) (void)str_cut(&slots, ',');
    }
    set_number(f, "ntasks", count, w);
}

// "CUDA_VISIBLE_DEVICES=0,1": deepspeed starts a process for each, and one of python's has both.
static void take_visible(struct flags *f, const struct shell_word *w) {
    static const char *const pythons[] = {"python", "python3", NULL};
    const struct shell_command *c = f->command;
    struct str gpus = c->visible.is_known ? c->visible.text : (struct str){0};
    int64_t count = 0;
    for (; gpus.len > 0; count++) (void)str_cut(&gpus, ',');
    if (count < 2) return;
    const bool is_started = datum_find(f->map, STR("nproc_per_node")) != NULL;
    if (str_is(w->text, "deepspeed") && !datum_find(f->map, STR("num_gpus")))
        set_number(f, "ntasks", count, w);
    else if (str_is_one_of(c->words[0].text, pythons) && !is_started)
        set_number(f, "data_parallel", count, w);
}

// What starts the training's processes, by its own words: torchrun --nproc_per_node 8 train.py …
static void take_launcher(struct data *d, const struct shell_command *c, ptrdiff_t script,
                          const struct shell_job *job, struct datum *launcher) {
    // Without a number they start as many as the job, the machine or a file of theirs has.
    static const char *const starters[] = {"srun",       "mpirun",    "mpiexec", "horovodrun",
                                           "accelerate", "deepspeed", "trl",     NULL};
    struct flags f = {.data = d, .map = launcher, .command = c, .is_launcher = true};
    ptrdiff_t begin = 0;
    while (begin + 1 < script && equals_at(&c->words[begin]) > 0) begin++; // CUDA_VISIBLE_DEVICES=0
    take_words(&f, begin, script - 1);
    for (ptrdiff_t i = begin; i + 1 < script; i++) {
        const struct shell_word *w = &c->words[i];
        if (!str_is_one_of(w->text, starters)) continue;
        datum_set(d, f.map, STR("started_by"), word_value(&f, w, w->text), w->line, w->column);
        take_letters(&f, i);
        take_slots(&f, w);
        take_visible(&f, w);
        if (str_is(w->text, "srun")) take_job(&f, w, job);
        break;
    }
    if (!datum_find(f.map, STR("started_by"))) take_visible(&f, &c->words[0]);
    const struct shell_word *w = &c->words[script - 1];
    const int64_t processes = script > 1 ? processes_behind(c, script - 2) : 0;
    set_number(&f, "nproc_per_node", processes, w);
    w -= processes > 0;
    datum_set(d, f.map, STR("script"), word_value(&f, w, w->text), w->line, w->column);
}

// A trainer that starts its processes by itself is told so by its environment.
static void take_environment(struct data *d, const struct shell_command *c,
                             struct datum *launcher) {
    const struct shell_word *processes = &c->processes, *machines = &c->machines;
    struct flags f = {.data = d, .map = launcher, .command = c};
    if (processes->text.len == 0) return;
    datum_set(d, f.map, STR("nproc_per_node"), word_value(&f, processes, processes->text),
              processes->line, processes->column);
    if (machines->text.len > 0)
        datum_set(d, f.map, STR("nnodes"), word_value(&f, machines, machines->text), machines->line,
                  machines->column);
}

// litgpt's model stands behind its verb, as setup()'s first argument.
static void take_argument(struct flags *f, const struct shell_command *c) {
    const struct shell_word *w = c->count > 2 ? &c->words[2] : NULL;
    if (!w || !str_is(c->words[0].text, "litgpt") || is_flag(w)) return;
    datum_set(f->data, f->map, STR("checkpoint_dir"), word_value(f, w, w->text), w->line,
              w->column);
}

static bool names_settings(const struct shell_word *w) {
    const bool is_file = str_ends(w->text, STR(".yaml")) || str_ends(w->text, STR(".yml"));
    return is_file && !is_flag(w) && equals_at(w) < 0;
}

// A file of settings, which many programs take as their first word ("train.py config.yaml
// --batch_size 2", "axolotl train config.yaml"), and trl behind --config.
static void take_settings(struct data *d, const struct shell_command *c, ptrdiff_t script,
                          struct datum *launcher) {
    const bool is_trl = script > 1 && str_is(c->words[script - 2].text, "trl");
    struct flags f = {.data = d, .map = launcher, .command = c};
    bool may_follow = true;
    for (ptrdiff_t i = script > 0 ? script : 1; i < c->count; i++) {
        const struct shell_word *w = &c->words[i];
        may_follow &= !is_flag(w);
        if (!names_settings(w)) continue;
        if (!may_follow && !(is_trl && str_is(c->words[i - 1].text, "--config"))) continue;
        datum_set(d, f.map, STR("settings"), word_value(&f, w, w->text), w->line, w->column);
        return;
    }
}

static struct datum *flags_of(struct data *d, const struct shell_command *c,
                              const struct shell_job *job) {
    struct flags f = {.data = d, .map = datum_new(d, DATUM_MAP, c->line, 1), .command = c};
    struct datum *launcher = datum_new(d, DATUM_MAP, c->line, 1);
    const ptrdiff_t script = script_at(c);
    take_words(&f, script, c->count);
    if (script == 2) take_argument(&f, c);
    if (script > 0) take_launcher(d, c, script, job, launcher);
    if (script == 0 || is_program(c, trainers)) take_environment(d, c, launcher);
    take_settings(d, c, script, launcher);
    if (c->allocator.text.len > 0)
        datum_set(d, launcher, STR("alloc_conf"), word_value(&f, &c->allocator, c->allocator.text),
                  c->allocator.line, c->allocator.column);
    if (launcher->map->count > 0) datum_set(d, f.map, STR("launcher"), launcher, c->line, 1);
    // "$ARGS" may be anything.
    for (ptrdiff_t i = script; i < c->count; i++) {
        const struct shell_word *w = &c->words[i];
        const bool is_flags = is_variable(w) && (i == script || !is_flag(&c->words[i - 1]));
        f.map->is_open = f.map->is_open || is_flags || w->is_flags || is_rest(w);
    }
    return f.map;
}

// --- Which command -------------------------------------------------------------------------------

static const char *const programs[] = {
    "python",  "python3", "torchrun",         "accelerate", "deepspeed", "yolo", "xtuner",
    "axolotl", "swift",   "llamafactory-cli", "tune",       "litgpt",    "trl",  NULL};

// A text that the shell reads as words, in the place of its one word.
static void split(struct data *d, const struct shell_word *from, struct shell_command *to) {
    ptrdiff_t gap = 0, begin = 0;
    bool is_known = true;
    for (ptrdiff_t i = 0; i <= from->text.len; i++) {
        for (; gap < from->gap_count && i == from->gaps[gap].begin; is_known = false)
            i = from->gaps[gap++].end;
        if (i < from->text.len && !strchr(" \t\r\n", from->text.p[i])) continue;
        struct str text = str_slice(from->text, begin, i);
        const char first = text.len > 1 ? text.p[0] : 0;
        if ((first == '"' || first == '\'') && text.p[text.len - 1] == first)
            text = str_slice(text, 1, text.len - 1);
        if (text.len > 0 && !str_is(text, "\\"))
            *arena_push(d->arena, &to->words, &to->count, &to->capacity) = (struct shell_word){
                .text = text, .line = from->line, .column = from->column, .is_known = is_known};
        begin = i + 1;
        is_known = true;
    }
}

// "submit.py --cluster x -- torchrun …": the command is behind the dashes.
static void skip_submitter(struct shell_command *c) {
    for (ptrdiff_t i = 0; i + 1 < c->count; i++) {
        if (!str_is(c->words[i].text, "--") || !str_is_one_of(c->words[i + 1].text, programs))
            continue;
        c->words += i + 1;
        c->count -= i + 1;
        c->capacity = c->count;
        return;
    }
}

// "eval $COMMAND", "srun bash -c "torchrun …"": the command that is in the text.
static void unfold(struct data *d, struct shell_command *c) {
    static const char *const shells[] = {"bash", "sh", "/bin/bash", "/bin/sh", NULL};
    const struct shell_command old = *c;
    bool is_text = str_is(old.words[0].text, "eval"), is_shell = false;
    c->words = NULL;
    c->count = c->capacity = 0;
    for (ptrdiff_t i = is_text; i < old.count; i++) {
        const struct shell_word *w = &old.words[i];
        if (is_text)
            split(d, w, c);
        else
            *arena_push(d->arena, &c->words, &c->count, &c->capacity) = *w;
        is_text |= is_shell && str_starts(w->text, STR("-")) && str_ends(w->text, STR("c"));
        is_shell |= str_is_one_of(w->text, shells);
    }
}

// Programs that prepare, judge or serve, by what their names have, and trainings have not.
static bool trains_not(const struct shell_command *c) {
    static const char *const others[] = {"eval",    "infer",      "predict",  "generate",
                                         "prepare", "preprocess", "tokeniz",  "convert",
                                         "merge",   "export",     "download", NULL};
    static const char *const trainings[] = {"train", "tune", "sft", "dpo", "run_", NULL};
    const ptrdiff_t at = script_at(c);
    const struct str name = at > 0 ? str_last(c->words[at - 1].text, '/') : (struct str){0};
    bool is_other = false;
    for (int i = 0; others[i]; i++) is_other |= str_find(name, str_of(others[i])) >= 0;
    for (int i = 0; trainings[i]; i++) is_other &= str_find(name, str_of(trainings[i])) < 0;
    return is_other;
}

// Whose flags have no dashes, and a batch that it need not be told.
static bool trains_yolo(const struct shell_command *c) {
    bool trains = c->count > 0 && script_at(c) > 0;
    for (ptrdiff_t i = 1; i < c->count; i++) trains |= str_is(c->words[i].text, "mode=train");
    return trains && str_is(c->words[0].text, "yolo");
}

// 3: it has a flag for the batch of a training; 2: for a batch; 1: it starts a program with flags,
// or a file of them; 0: neither.
static int rank_of(const struct shell_command *c) {
    static const char *const says[] = {"echo", "printf", "cat", NULL};
    bool trains = false, has_flag = false, has_batch = false;
    const bool is_yolo = trains_yolo(c), has_model = names_model(c);
    if (c->count > 0 && str_is_one_of(c->words[0].text, says)) return 0;
    for (ptrdiff_t i = 0; i < c->count; i++) {
        const struct shell_word *w = &c->words[i];
        const ptrdiff_t equals = equals_at(w), end = is_flag(w) ? w->text.len : equals;
        const struct str value = str_slice(w->text, 0, end < 0 ? 0 : end);
        const ptrdiff_t cut = str_find(value, STR("="));
        const struct str name = cut < 0 ? value : str_slice(value, 0, cut);
        const bool is_batch = str_find(name, STR("batch")) >= 0;
        if (is_batch && str_find(name, STR("train")) >= 0) return 3;
        const char *letter = letter_at(c, i, has_model);
        has_batch |= is_batch || (letter && str_is(str_of(letter), "batch_size"));
        has_flag = has_flag || is_flag(w) || names_settings(w) || (equals > 0 && is_yolo);
        trains = trains || str_is_one_of(w->text, programs);
    }
    return has_batch && !trains_not(c) ? 2 : trains && has_flag;
}

// "line_3"; "line_3_2" is the second training of that line.
static struct str name_of(struct data *d, int line, int nth) {
    return nth > 1 ? str_format(d->arena, "line_%d_%d", line, nth)
                   : str_format(d->arena, "line_%d", line);
}

static struct datum *choose(struct data *d, const struct shell_commands *all) {
    int best = 0, count = 0, line = 0, nth = 0;
    struct datum *map = NULL;
    for (ptrdiff_t i = 0; i < all->count; i++) {
        const int rank = rank_of(&all->items[i]);
        if (rank > best) count = 0;
        best = rank > best ? rank : best;
        count += rank == best && rank > 0;
    }
    if (count > 1) map = datum_new(d, DATUM_MAP, 1, 1);
    for (ptrdiff_t i = 0; i < all->count && count > 0; i++) {
        const struct shell_command *c = &all->items[i];
        if (rank_of(c) != best) continue;
        struct datum *flags = flags_of(d, c, &all->job);
        if (count == 1) return flags;
        nth = c->line == line ? nth + 1 : 1;
        line = c->line;
        datum_set(d, map, name_of(d, line, nth), flags, line, 1);
    }
    return map;
}

int datum_shell_read(struct arena *a, struct datum_source *source, const struct datum **ret_root,
                     struct fail *why) {
    struct data d = {.arena = a};
    struct shell_commands all = {0};
    int status = datum_shell_commands(a, source, &all, why);
    if (status) return status;
    for (ptrdiff_t i = 0; i < all.count; i++) {
        if (all.items[i].count == 0) continue;
        unfold(&d, &all.items[i]);
        skip_submitter(&all.items[i]);
    }
    datum_shell_note_sourced(a, source, &all);
    const struct datum *map = choose(&d, &all);
    *ret_root = map && map->map->count > 0 ? map : NULL;
    return 0;
}
