// SPDX-License-Identifier: Apache-2.0
// From values to a command: placeholders, the patched copy of the config, the environment that puts
// the step emitter into the training, ranks. What the trial then shows is read in
// figures.c.
#include "measure/launch/launch_int.h"

#include "base/os.h"
#include "base/out.h"
#include "base/shell.h"
#include "base/unit.h"
#include "machine/device/device.h"
#include "measure/launch/launch.h"

#include <libgen.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_SHOWN = 300, DIMENSION_MOST = 3 };
static const double margin_on_cpu = 0.05; // of what is free, for everything else on the machine

static volatile bool is_interrupted;
static void interrupt(int signal) {
    (void)signal;
    is_interrupted = true;
}

static void catch_signals(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

const char *launch_status_name(enum launch_status status) {
    static const char *const names[LAUNCH_STATUSES] = {
        [LAUNCH_UNTRIED] = "UNTRIED",         [LAUNCH_OK] = "OK",
        [LAUNCH_ALMOST] = "ALMOST",           [LAUNCH_OOM] = "OOM",
        [LAUNCH_SPILLS] = "SPILLS",           [LAUNCH_FAILED] = "FAILED",
        [LAUNCH_INTERRUPTED] = "INTERRUPTED",
    };
    return names[status];
}

bool launch_status_is_kept(enum launch_status status) {
    return status >= LAUNCH_OK && status <= LAUNCH_SPILLS;
}

bool launch_status_find(struct str name, enum launch_status *ret_status) {
    for (enum launch_status s = LAUNCH_OK; launch_status_is_kept(s); s++) {
        if (!str_is(name, launch_status_name(s))) continue;
        *ret_status = s;
        return true;
    }
    return false;
}

void launch_value(struct arena *a, struct launch_values *v, const char *name, struct str text) {
    struct trial_command_value value = {str_of(name), text, text.p == NULL};
    *arena_push(a, &v->items, &v->count, &v->capacity) = value;
}

void launch_switch(struct arena *a, struct launch_values *v, const char *name, bool on) {
    struct trial_command_value value = {str_of(name), on ? STR("true") : STR("false"), !on};
    *arena_push(a, &v->items, &v->count, &v->capacity) = value;
}

void launch_note(struct launch *l, struct str note) {
    str_list_add(l->arena, &l->notes, note);
}

bool launch_takes(const struct launch *l, struct str name) {
    struct str braced = str_format(l->arena, "{%.*s", STR_ARG(name));
    return trial_command_mentions(l->command, name) || launch_config_takes(l, name) ||
           str_find(str_of(l->options->environment), braced) >= 0;
}

static int user_variables(struct launch *l, const struct launch_values *v, struct str_words *w,
                          struct fail *why) {
    struct str rest = str_of(l->options->environment);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n'), text;
        if (str_find(line, STR("=")) <= 0) {
            return fail_set(why, FAIL_USAGE, "--env %.*s: not of the form NAME=VALUE",
                            STR_ARG(line));
        }
        int rc = trial_command_expand_text(l->arena, line, v->items, (int)v->count, &text, why);
        if (rc < 0) return rc;
        str_word_add(w, text);
    }
    return 0;
}

static bool runs(const struct launch *l, const char *module) {
    for (int i = 1; l->command[i]; i++) {
        if (strcmp(l->command[i], module) == 0) return true;
    }
    return false;
}

// The user's own PYTHONPATH comes behind our folders: theirs is the rest of the path, as without
// us.
static void join_path(struct str_words *w, struct str folders) {
    static const char name[] = "PYTHONPATH=";
    ptrdiff_t kept = 1; // the first is ours
    for (ptrdiff_t i = 1; i < w->count; i++) {
        if (strncmp(w->items[i], name, sizeof name - 1) == 0) {
            const char *rest = w->items[i] + sizeof name - 1;
            w->items[0] = (char *)str_format(w->arena, "%s%.*s%s%s", name, STR_ARG(folders),
                                             *rest ? ":" : "", rest)
                              .p;
        } else {
            w->items[kept++] = w->items[i];
        }
    }
    w->items[kept] = NULL;
    w->count = kept;
}

// What a trial has given to the command: whose tensors have the samples along another dimension
// than the first is seen by it.
static void tell_batch(struct launch_making *m, struct str_words *w) {
    const struct launch *l = m->l;
    struct arena *a = l->arena;
    for (ptrdiff_t i = 0; i < m->values.count && launch_takes(l, STR("batch")); i++) {
        if (!str_is(m->values.items[i].name, "batch")) continue;
        str_word_add(w, str_format(a, "BATCHFIT_BATCH=%.*s", STR_ARG(m->values.items[i].text)));
    }
    if (l->options->batch_dim > 0) {
        str_word_add(w, str_format(a, "BATCHFIT_BATCH_DIM=%lld", (long long)l->options->batch_dim));
    }
}

// The option that a value is given by: "--batch-size {batch}", "--batch-size={batch}". Empty: none.
static struct str option_of(const struct launch *l, struct str braced) {
    for (int i = 1; l->command[i]; i++) {
        struct str word = str_of(l->command[i]), before = str_of(l->command[i - 1]);
        if (str_equal(word, braced) && str_starts(before, STR("-"))) return before;
        struct str value = word, option = str_cut(&value, '=');
        if (str_starts(option, STR("-")) && value.p && str_equal(value, braced)) return option;
    }
    return (struct str){0};
}

// What the emitter is to ask the program's parser for: its defaults of the options that we give.
static void add_defaults(const struct launch *l, struct str_words *w) {
    struct str batch = option_of(l, STR("{batch}")), accumulate = option_of(l, STR("{accumulate}"));
    if (batch.len == 0) return;
    str_word_add(w, str_format(l->arena, "BATCHFIT_DEFAULTS=batch=%.*s%s%.*s", STR_ARG(batch),
                               accumulate.len ? " accumulate=" : "", STR_ARG(accumulate)));
}

static int environment(struct launch_making *m, char *const **ret_environment, struct fail *why) {
    struct launch *l = m->l;
    const struct launch_values *v = &m->values;
    int64_t limit_bytes = m->limit_bytes;
    struct arena *a = l->arena;
    struct str_words w = {.arena = a};
    struct str folders = str_format(a, "%.*s/hook", STR_ARG(l->layout));
    bool is_workload = runs(l, "batchfit.workload"), is_engine = runs(l, "batchfit.engine");
    if (is_workload || m->attempt) { // run's child may import batchfit
        folders = str_format(a, "%.*s:%.*s", STR_ARG(folders), STR_ARG(l->layout));
    }
    if (is_engine) folders = l->layout; // it reports its steps itself
    struct str path = is_workload || is_engine ? launch_python_own_path(a, folders)
                                               : launch_python_path(a, folders);
    str_word_add(&w, str_format(a, "PYTHONPATH=%.*s", STR_ARG(path)));
    add_defaults(l, &w);
    if (l->options->longest_first && !m->attempt) str_word_add(&w, STR("BATCHFIT_LONGEST_FIRST=1"));
    if (l->options->is_inference) str_word_add(&w, STR("BATCHFIT_MODE=inference"));
    str_word_add(&w, STR("PYTHONUNBUFFERED=1")); // the last lines must not be lost in a buffer
    if (l->place.kind == LAUNCH_CUDA) {
        str_word_add(&w, str_format(a, "BATCHFIT_OTHERS=%lld", (long long)l->place.others_bytes));
    }
    if (l->place.kind == LAUNCH_CUDA) { // CUDA's own order is by speed
        str_word_add(&w, STR("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
    }
    if (l->options->cards) {
        str_word_add(&w, str_format(a, "CUDA_VISIBLE_DEVICES=%s", l->options->cards));
    }
    if (limit_bytes > 0) { // on the CPU the system enforces it, and the workload looks ahead
        bool is_cuda = l->place.kind == LAUNCH_CUDA;
        str_word_add(&w, str_format(a, "BATCHFIT_MEMORY_%s=%lld", is_cuda ? "CAP" : "LIMIT",
                                    (long long)limit_bytes));
    }
    if (l->snapshots.len > 0) {
        str_word_add(&w, str_format(a, "BATCHFIT_SNAPSHOT=%.*s", STR_ARG(l->snapshots)));
    }
    if (m->attempt) {
        str_word_add(&w, str_format(a, "BATCHFIT_CONTROL=%.*s", STR_ARG(m->attempt->control_path)));
    }
    tell_batch(m, &w);
    int rc = user_variables(l, v, &w, why);
    join_path(&w, folders);
    *ret_environment = w.items;
    return rc;
}

void launch_control(struct launch_attempt *attempt, int64_t batch, int64_t accumulation) {
    struct arena *a = attempt->arena;
    struct str text = str_format(a, "{\"v\":1,\"batch\":%lld,\"accumulation\":%lld}\n",
                                 (long long)batch, (long long)accumulation);
    (void)os_replace(a, str_z(a, attempt->control_path), text, NULL, NULL);
}

// The last step of a trial's command and of one that is only shown: {config}, ranks, placeholders.
static int expand(struct launch_making *m, struct arena *a, struct str config, char ***ret_argv,
                  struct fail *why) {
    char *const *argv = NULL;
    launch_value(a, &m->values, "config", config);
    int rc = launch_ranks(m->l, m->l->command, &argv, why);
    if (rc < 0) return rc;
    return trial_command_expand(a, argv, m->values.items, (int)m->values.count, ret_argv, why);
}

int launch_prepare(void *context, struct arena *a, const char *scratch, char *const **ret_argv,
                   char *const **ret_environment, struct fail *why) {
    struct launch_making *m = context;
    struct launch *l = m->l;
    struct str config = {0};
    char **expanded = NULL;
    launch_value(a, &m->values, "scratch", str_copy(a, str_of(scratch)));
    int rc = l->config ? launch_config(l, &m->values, scratch, &config, why) : 0;
    if (rc == 0) rc = expand(m, a, config, &expanded, why);
    if (rc == 0 && m->attempt) {
        m->attempt->control_path =
            str_format(a, "%s/control.json", dirname(str_z(a, str_of(scratch))));
        launch_control(m->attempt, m->attempt->batch, m->attempt->accumulation);
    }
    if (rc == 0) rc = environment(m, ret_environment, why);
    *ret_argv = expanded;
    return rc;
}

static int64_t count_value(const struct launch_values *v, const char *name, int64_t absent) {
    int64_t number;
    for (ptrdiff_t i = 0; i < v->count; i++) {
        if (str_is(v->items[i].name, name) && str_to_i64(v->items[i].text, &number)) return number;
    }
    return absent;
}

static double seconds_or_default(double seconds) {
    return seconds > 0 ? seconds : 0;
}

// The figures of a trial come from its values and those that every command may use.
struct launch_making launch_making_of(struct launch *l, const struct launch_values *values,
                                      int64_t limit_bytes) {
    struct launch_making m = {l, {0}, limit_bytes, NULL};
    for (ptrdiff_t i = 0; i < values->count; i++) {
        *arena_push(l->arena, &m.values.items, &m.values.count, &m.values.capacity) =
            values->items[i];
    }
    launch_value(l->arena, &m.values, "python", l->python);
    launch_value(l->arena, &m.values, "shipped", l->layout);
    launch_value(l->arena, &m.values, "device",
                 l->place.kind == LAUNCH_CUDA ? STR("cuda") : STR("cpu"));
    int64_t ranks = l->options->ranks > 0 ? l->options->ranks : 1;
    launch_value(l->arena, &m.values, "ranks", str_format(l->arena, "%lld", (long long)ranks));
    return m;
}

int launch_preview(struct launch *l, const struct launch_values *values, struct str *ret_text,
                   struct fail *why) {
    struct launch_making m = launch_making_of(l, values, 0);
    char **expanded = NULL;
    launch_value(l->arena, &m.values, "scratch", STR("SCRATCH"));
    struct str config = l->config ? l->config->name : (struct str){0};
    int rc = expand(&m, l->arena, config, &expanded, why);
    if (rc == 0) *ret_text = shell_command(l->arena, expanded);
    return rc;
}

// --- Announcing ----------------------------------------------------------------------------------

// A trial that others may watch while we do.
struct showing {
    struct launch *l;
    struct registry_entry *entry;
    struct launch_energy energy;
};

static void show(void *context, const struct steps *steps, const struct trial_outside *outside) {
    struct showing *s = context;
    registry_steps(s->entry, steps);
    launch_energy_look(&s->energy, s->l, steps);
    if (s->l->watch) s->l->watch(s->l->watch_context, steps, outside);
}

static struct str words_of(struct arena *a, char *const *command) {
    struct buf b = buf_new(a);
    char **words = secret_masked(a, command);
    for (int i = 0; words[i] && b.count < COMMAND_SHOWN; i++) {
        buf_format(&b, "%s%s", i ? " " : "", words[i]);
    }
    return buf_str(&b);
}

struct registry_entry *launch_register(struct launch *l, int64_t batch) {
    struct registry_run run = l->registered;
    run.command = words_of(l->arena, l->command);
    run.device = l->place.name;
    run.card_uuid = l->place.card_uuid;
    run.card_index = l->place.card_index;
    run.standin = l->place.standin;
    run.pid = getpid();
    run.batch = batch;
    run.started_s = time(NULL);
    if (l->about) l->about(l->about_context, batch, &run);
    return registry_open(l->arena, &run);
}

// On the CPU a trial may have what is asked for, but never all that is free now: the system would
// not come to say no, but swap, and kill whom it likes.
static int64_t limit_of(const struct launch *l, int64_t limit_bytes) {
    ARENA_AUTO scratch = {0};
    struct device_cpu cpu;
    if (l->place.kind != LAUNCH_CPU) return limit_bytes;
    device_cpu_read(&scratch, "", &cpu);
    int64_t most_bytes = (int64_t)((double)cpu.available_bytes * (1 - margin_on_cpu));
    if (limit_bytes <= 0) limit_bytes = l->place.capacity_bytes;
    return most_bytes > 0 && most_bytes < limit_bytes ? most_bytes : limit_bytes;
}

// Whoever asked for more than is free should know what the trial ran out of.
static void say_limit(struct launch *l, int64_t asked_bytes, int64_t limit_bytes,
                      const struct launch_result *r) {
    if (r->status != LAUNCH_OOM || l->place.kind != LAUNCH_CPU || limit_bytes >= asked_bytes)
        return;
    launch_note(
        l,
        str_format(l->arena, "a trial was to have %s, but only %s of what is free could be allowed",
                   unit_bytes(l->arena, asked_bytes).p, unit_bytes(l->arena, limit_bytes).p));
}

int launch_try(struct launch *l, const struct launch_values *values, int64_t batch,
               int64_t asked_bytes, struct launch_result *ret_result, struct fail *why) {
    const struct launch_options *o = l->options;
    int64_t limit_bytes = limit_of(l, asked_bytes);
    struct launch_making making = launch_making_of(l, values, limit_bytes);
    struct showing showing = {.l = l};
    struct trial_request request = {
        .argv = l->command,
        .prepare = launch_prepare,
        .prepare_context = &making,
        .warmup_steps = launch_warmup(o),
        .steps = launch_steps(o),
        .ranks = o->ranks,
        .samples_each = batch > 0 ? batch * count_value(values, "accumulate", 1) : 0,
        .memory_limit_bytes = l->place.kind == LAUNCH_CPU ? limit_bytes : 0,
        .start_limit_s = seconds_or_default(o->start_seconds),
        .stall_limit_s = seconds_or_default(o->stall_seconds),
        .time_limit_s = seconds_or_default(o->time_seconds),
        .interrupted = l->interrupted,
        .watch = show,
        .watch_context = &showing,
    };
    l->made++;
    if (o->log_folder) {
        int rc = os_make_private_dirs(l->arena, o->log_folder, why);
        if (rc < 0) return rc;
        request.log_path = str_format(l->arena, "%s/trial-%02d-batch-%lld.log", o->log_folder,
                                      l->made, (long long)batch)
                               .p;
    }
    *ret_result = (struct launch_result){.batch = batch};
    if (l->place.sampler) device_sampler_reset(l->place.sampler);
    showing.entry = launch_register(l, batch);
    int rc = trial_run(l->arena, &request, &ret_result->trial, why);
    registry_close(showing.entry);
    if (rc < 0) return rc;
    launch_read(l, ret_result);
    say_limit(l, asked_bytes, limit_bytes, ret_result);
    if (ret_result->trial.log_error != 0)
        launch_note(l, str_format(l->arena, "%s has not all of the trial's output: %s",
                                  request.log_path, strerror(ret_result->trial.log_error)));
    launch_snapshots_tell(l, true);
    launch_energy_read(&showing.energy, l, ret_result);
    return 0;
}

int launch_open(struct arena *a, const struct launch_options *options, char *const *command,
                struct launch *ret_launch, struct fail *why) {
    struct launch *l = ret_launch;
    *l = (struct launch){.arena = a,
                         .options = options,
                         .command = command,
                         .interrupted = &is_interrupted,
                         .registered = registry_unknown()};
    if (options->batch_dim > DIMENSION_MOST) {
        fail_set(why, FAIL_USAGE, "--batch-dim %lld: not a dimension of a batch's tensors",
                 (long long)options->batch_dim);
        return fail_hint(why, "it is 1 if the sequence comes first; the batch itself goes into the "
                              "command, as {batch}");
    }
    l->python = str_of(launch_python_program(options->python));
    int rc = launch_place_open(a, options, &l->place, why);
    if (rc == 0) rc = launch_python_lay_out(a, &l->layout, why);
    if (rc == 0) rc = launch_snapshots_open(l, why);
    if (rc < 0) return rc;
    if (l->place.kind == LAUNCH_CPU) l->processor = device_cpu_open(a, "");
    if (l->place.standin.len > 0) launch_note(l, device_standin_note(a, l->place.standin));
    if (l->place.is_capped && l->place.kind == LAUNCH_CUDA) {
        launch_note(l, STR("--memory caps PyTorch's caching allocator (including the context); it "
                           "cannot imitate another GPU's choice of kernels"));
    }
    if (l->place.others_bytes > 0) {
        launch_note(l, str_format(a, "other processes hold %s of the GPU; the trials get the rest",
                                  unit_bytes(a, l->place.others_bytes).p));
    }
    is_interrupted = false;
    catch_signals(interrupt);
    return 0;
}

void launch_close(struct launch *l) {
    catch_signals(SIG_DFL);
    launch_place_close(&l->place);
}
