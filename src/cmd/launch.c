// SPDX-License-Identifier: Apache-2.0
// From values to a command: placeholders, the patched copy of the config, the environment that puts
// the step emitter into the training, ranks. What the trial then shows is read in figures.c.
#include "cmd/launch.h"

#include "base/os.h"
#include "base/unit.h"
#include "cmd/figures.h"
#include "cmd/place.h"
#include "cmd/python.h"

#include <libgen.h>
#include <signal.h>
#include <string.h>

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
    static const char *const names[] = {
        [LAUNCH_OK] = "OK",         [LAUNCH_ALMOST] = "ALMOST", [LAUNCH_OOM] = "OOM",
        [LAUNCH_SPILLS] = "SPILLS", [LAUNCH_FAILED] = "FAILED", [LAUNCH_INTERRUPTED] = "INTERRUPTED",
    };
    return names[status];
}

void launch_value(struct arena *a, struct launch_values *v, const char *name, struct str text) {
    struct command_value value = {str_of(name), text, text.p == NULL};
    *arena_push(a, &v->items, &v->count, &v->capacity) = value;
}

void launch_switch(struct arena *a, struct launch_values *v, const char *name, bool on) {
    struct command_value value = {str_of(name), on ? STR("true") : STR("false"), !on};
    *arena_push(a, &v->items, &v->count, &v->capacity) = value;
}

void launch_note(struct launch *l, struct str note) {
    *arena_push(l->arena, &l->notes.items, &l->notes.count, &l->notes.capacity) = note;
}

// --- The config's copy ---------------------------------------------------------------------------

// The next "[NAME=]PATH" of --config-key.
static struct str next_key(struct str *rest, struct str *ret_name) {
    struct str path = str_cut(rest, '\n'), all = path;
    struct str name = str_cut(&path, '=');
    *ret_name = path.p ? name : STR("batch");
    return path.p ? path : all;
}

static bool has_key(const struct launch *l, struct str name) {
    struct str rest = str_of(l->options->config_keys), of;
    while (rest.p) {
        next_key(&rest, &of);
        if (str_equal(of, name)) return true;
    }
    return false;
}

// Without a key and without {batch} in the command, the file's own keys say where the values go.
static bool goes_by_role(const struct launch *l) {
    return l->config && !l->options->config_keys && command_mentions(l->command, STR("config")) &&
           !command_mentions(l->command, STR("batch"));
}

bool launch_takes(const struct launch *l, struct str name) {
    static const char *const roles[] = {"batch", "accumulate", "workers", "precision"};
    if (command_mentions(l->command, name) || has_key(l, name)) return true;
    struct str rest = str_of(l->options->environment);
    struct str braced = str_format(l->arena, "{%.*s", STR_ARG(name));
    if (str_find(rest, braced) >= 0) return true;
    for (size_t i = 0; goes_by_role(l) && i < sizeof roles / sizeof *roles; i++) {
        if (str_is(name, roles[i])) return true;
    }
    return false;
}

static const struct command_value *find_value(const struct launch_values *v, struct str name) {
    for (ptrdiff_t i = 0; i < v->count; i++) {
        if (str_equal(v->items[i].name, name)) return &v->items[i];
    }
    return NULL;
}

static int64_t count_of(const struct launch_values *v, struct str name, int64_t absent) {
    const struct command_value *value = find_value(v, name);
    int64_t number;
    return value && str_to_i64(value->text, &number) ? number : absent;
}

static int edits_by_role(struct launch *l, const struct launch_values *v, struct config_edits *edits,
                         struct fail *why) {
    const struct command_value *precision = find_value(v, STR("precision"));
    int64_t workers = count_of(v, STR("workers"), INT64_MIN);
    struct config_wish wish = {
        .batch = count_of(v, STR("batch"), 0),
        .accumulation = count_of(v, STR("accumulate"), 0),
        .ranks = l->options->ranks,
        .precision = precision ? precision->text : (struct str){0},
        .workers = workers == INT64_MIN ? 0 : workers == 0 ? -1 : workers,
        .flags = CONFIG_EDIT_ANCHOR | CONFIG_REPLACE_SPECIAL, // only a copy is changed
    };
    return config_fit(l->arena, l->config, l->reading, &wish, edits, why);
}

static int edits_by_key(struct launch *l, const struct launch_values *v, struct config_edits *edits,
                        struct fail *why) {
    struct str rest = str_of(l->options->config_keys), name;
    while (rest.p) {
        struct str path = next_key(&rest, &name);
        const struct command_value *value = find_value(v, name);
        if (!value) {
            fail_set(why, FAIL_USAGE, "--config-key %.*s=%.*s: no value has that name",
                     STR_ARG(name), STR_ARG(path));
            return fail_hint(why, "batch, accumulate, workers, amp, precision, or the name of an axis");
        }
        struct config_value there;
        int rc = config_get(l->arena, l->config, path, &there, why);
        if (rc < 0) return rc;
        if (there.type == CONFIG_ABSENT) {
            fail_set(why, FAIL_INPUT, "%.*s: there is no key %.*s", STR_ARG(l->config->name),
                     STR_ARG(path));
            return fail_hint(why, "--config-key takes the path of a key that is in the file: "
                                  "train.batch_size");
        }
        struct config_edit edit = {.path = path, .value = value->text,
                                   .is_text = there.type == CONFIG_TEXT};
        *arena_push(l->arena, &edits->items, &edits->count, &edits->capacity) = edit;
    }
    return 0;
}

static int patched_text(struct launch *l, const struct launch_values *v, struct str *ret_text,
                        struct fail *why) {
    struct config_edits edits = {0};
    struct config_patched patched;
    int rc = l->options->config_keys ? edits_by_key(l, v, &edits, why)
                                     : edits_by_role(l, v, &edits, why);
    if (rc == 0) {
        rc = config_patch(l->arena, l->config, edits.items, edits.count,
                          CONFIG_EDIT_ANCHOR | CONFIG_REPLACE_SPECIAL, &patched, why);
    }
    if (rc < 0) return rc;
    *ret_text = patched.text;
    return 0;
}

// Where {config} leads: to a copy with the values, or to the file itself when the command takes them
// in another way.
static int config_path(struct launch *l, const struct launch_values *v, const char *scratch,
                       struct str *ret_path, struct fail *why) {
    struct arena *a = l->arena;
    *ret_path = l->config->name;
    if (!l->options->config_keys && !goes_by_role(l)) return 0;
    struct str folder = str_format(a, "%s/config", dirname(str_z(a, str_of(scratch))));
    struct str text = {0};
    int rc = patched_text(l, v, &text, why);
    if (rc == 0) rc = os_make_dirs(a, folder.p, why);
    if (rc < 0) return rc;
    *ret_path = str_format(a, "%.*s/%s", STR_ARG(folder), basename(str_z(a, l->config->name)));
    return os_replace(a, ret_path->p, text, NULL, why);
}

// --- Ranks ---------------------------------------------------------------------------------------

static const char *const launchers[] = {"torchrun", "accelerate", "deepspeed", "mpirun", "srun",
                                        "horovodrun", "colossalai", "composer", NULL};

static bool starts_ranks_itself(struct arena *a, char *const *argv) {
    const char *program = basename(str_z(a, str_of(argv[0])));
    for (int i = 0; launchers[i]; i++) {
        if (strcmp(program, launchers[i]) == 0) return true;
    }
    for (int i = 1; argv[i] && i < 4; i++) {
        if (strncmp(argv[i], "torch.distributed", 17) == 0) return true;
    }
    return false;
}

// "train.py …" and "python train.py …" become torchrun's command, by its module: the program of that
// name may belong to another Python.
static int with_ranks(struct launch *l, char *const *argv, char *const **ret_argv,
                      struct fail *why) {
    struct arena *a = l->arena;
    int64_t ranks = l->options->ranks;
    *ret_argv = argv;
    if (ranks <= 1 || starts_ranks_itself(a, argv)) return 0;
    struct str first = str_of(argv[0]), program = str_of(basename(str_z(a, first)));
    bool is_python = str_starts(program, STR("python")) || str_is(first, "{python}");
    if (!is_python && !str_ends(first, STR(".py"))) {
        fail_set(why, FAIL_USAGE, "--ranks %lld: how '%s' starts several ranks is not known",
                 (long long)ranks, argv[0]);
        return fail_hint(why, "write the launcher yourself: -- torchrun --nproc-per-node %lld ...",
                         (long long)ranks);
    }
    int n = 0, given = 0;
    while (argv[given]) given++;
    char **words = arena_new(a, char *, given + 8);
    words[n++] = is_python ? argv[0] : str_z(a, l->python);
    words[n++] = str_z(a, STR("-m"));
    words[n++] = str_z(a, STR("torch.distributed.run"));
    words[n++] = str_z(a, STR("--standalone"));
    words[n++] = str_z(a, STR("--nproc_per_node"));
    words[n++] = str_z(a, str_format(a, "%lld", (long long)ranks));
    for (int i = is_python; i < given; i++) words[n++] = argv[i];
    *ret_argv = words;
    return 0;
}

// --- One trial -----------------------------------------------------------------------------------

struct words {
    char **items;
    ptrdiff_t count, capacity;
};
static void add_variable(struct arena *a, struct words *w, struct str text) {
    *arena_push(a, &w->items, &w->count, &w->capacity) = text.p ? str_z(a, text) : NULL;
}

static int user_variables(struct launch *l, const struct launch_values *v, struct words *w,
                          struct fail *why) {
    struct str rest = str_of(l->options->environment);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n'), text;
        if (str_find(line, STR("=")) <= 0) {
            return fail_set(why, FAIL_USAGE, "--env %.*s: not of the form NAME=VALUE", STR_ARG(line));
        }
        int rc = command_expand_text(l->arena, line, v->items, (int)v->count, &text, why);
        if (rc < 0) return rc;
        add_variable(l->arena, w, text);
    }
    return 0;
}

static bool runs_workload(const struct launch *l) {
    for (int i = 1; l->command[i]; i++) {
        if (strcmp(l->command[i], "batchfit.workload") == 0) return true;
    }
    return false;
}

static int environment(struct launch *l, const struct launch_values *v, int64_t limit_bytes,
                       char *const **ret_environment, struct fail *why) {
    struct arena *a = l->arena;
    struct words w = {0};
    struct str folders = str_format(a, "%.*s/hook", STR_ARG(l->layout));
    if (runs_workload(l)) {
        folders = str_format(a, "%.*s:%.*s", STR_ARG(folders), STR_ARG(l->layout));
    }
    add_variable(a, &w, str_format(a, "PYTHONPATH=%.*s", STR_ARG(python_path(a, folders))));
    add_variable(a, &w, STR("PYTHONUNBUFFERED=1")); // the last lines must not be lost in a buffer
    if (l->place.kind == LAUNCH_CUDA) {
        add_variable(a, &w, str_format(a, "BATCHFIT_OTHERS=%lld", (long long)l->place.others_bytes));
    }
    if (l->place.kind == LAUNCH_CUDA && limit_bytes > 0) {
        add_variable(a, &w, str_format(a, "BATCHFIT_MEMORY_CAP=%lld", (long long)limit_bytes));
    }
    int rc = user_variables(l, v, &w, why);
    add_variable(a, &w, (struct str){0});
    *ret_environment = w.items;
    return rc;
}

struct making {
    struct launch *l;
    struct launch_values values;
    int64_t limit_bytes;
};

static int prepare(void *context, struct arena *a, const char *scratch, char *const **ret_argv,
                   char *const **ret_environment, struct fail *why) {
    struct making *m = context;
    struct launch *l = m->l;
    struct str config = {0};
    char *const *argv = NULL;
    char **expanded = NULL;
    launch_value(a, &m->values, "scratch", str_copy(a, str_of(scratch)));
    int rc = l->config ? config_path(l, &m->values, scratch, &config, why) : 0;
    launch_value(a, &m->values, "config", config);
    if (rc == 0) rc = with_ranks(l, l->command, &argv, why);
    if (rc == 0) {
        rc = command_expand(a, argv, m->values.items, (int)m->values.count, &expanded, why);
    }
    if (rc == 0) rc = environment(l, &m->values, m->limit_bytes, ret_environment, why);
    *ret_argv = expanded;
    return rc;
}

static double seconds_or_default(double seconds) { return seconds > 0 ? seconds : 0; }

// The figures of a trial come from its values and those that every command may use.
static struct making making_of(struct launch *l, const struct launch_values *values,
                               int64_t limit_bytes) {
    struct making m = {l, {0}, limit_bytes};
    for (ptrdiff_t i = 0; i < values->count; i++) {
        *arena_push(l->arena, &m.values.items, &m.values.count, &m.values.capacity) =
            values->items[i];
    }
    launch_value(l->arena, &m.values, "python", l->python);
    launch_value(l->arena, &m.values, "device",
                 l->place.kind == LAUNCH_CUDA ? STR("cuda") : STR("cpu"));
    int64_t ranks = l->options->ranks > 0 ? l->options->ranks : 1;
    launch_value(l->arena, &m.values, "ranks", str_format(l->arena, "%lld", (long long)ranks));
    return m;
}

int launch_try(struct launch *l, const struct launch_values *values, int64_t batch,
               int64_t limit_bytes, struct launch_result *ret_result, struct fail *why) {
    const struct launch_options *o = l->options;
    struct making making = making_of(l, values, limit_bytes);
    bool is_cpu = l->place.kind == LAUNCH_CPU;
    struct trial_request request = {
        .argv = l->command,
        .prepare = prepare,
        .prepare_context = &making,
        .warmup_steps = launch_warmup(o),
        .steps = launch_steps(o),
        .ranks = o->ranks,
        .memory_limit_bytes = is_cpu ? limit_bytes > 0 ? limit_bytes : l->place.capacity_bytes : 0,
        .start_limit_s = seconds_or_default(o->start_seconds),
        .stall_limit_s = seconds_or_default(o->stall_seconds),
        .time_limit_s = seconds_or_default(o->time_seconds),
        .interrupted = l->interrupted,
        .watch = l->watch,
        .watch_context = l->watch_context,
    };
    l->made++;
    if (o->log_folder) {
        int rc = os_make_dirs(l->arena, o->log_folder, why);
        if (rc < 0) return rc;
        request.log_path = str_format(l->arena, "%s/trial-%02d-batch-%lld.log", o->log_folder,
                                      l->made, (long long)batch).p;
    }
    *ret_result = (struct launch_result){.batch = batch};
    if (l->place.sampler) device_sampler_reset(l->place.sampler);
    int rc = trial_run(l->arena, &request, &ret_result->trial, why);
    if (rc < 0) return rc;
    figures_read(l, ret_result);
    return 0;
}

int64_t launch_steps(const struct launch_options *o) { return o->steps > 0 ? o->steps : LAUNCH_STEPS; }
int64_t launch_warmup(const struct launch_options *o) { return o->warmup > 0 ? o->warmup : LAUNCH_WARMUP; }

int launch_open(struct arena *a, const struct launch_options *options, char *const *command,
                struct launch *ret_launch, struct fail *why) {
    struct launch *l = ret_launch;
    *l = (struct launch){.arena = a, .options = options, .command = command,
                         .interrupted = &is_interrupted};
    l->python = str_of(python_program(options->python));
    int rc = place_open(a, options, &l->place, why);
    if (rc == 0) rc = python_lay_out(a, &l->layout, why);
    if (rc < 0) return rc;
    if (l->place.standin.len > 0) {
        launch_note(l, str_format(a, "STAND-IN DRIVER, no real card: %.*s",
                                  STR_ARG(l->place.standin)));
    }
    if (l->place.is_capped && l->place.kind == LAUNCH_CUDA) {
        launch_note(l, STR("--memory caps PyTorch's caching allocator (the context is charged to "
                           "it); it cannot imitate another chip's choice of kernels"));
    }
    if (l->place.others_bytes > 0) {
        launch_note(l, str_format(a, "other processes hold %s of the card; the trials get what is left",
                                  unit_bytes(a, l->place.others_bytes).p));
    }
    is_interrupted = false;
    catch_signals(interrupt);
    return 0;
}

void launch_close(struct launch *l) {
    catch_signals(SIG_DFL);
    place_close(&l->place);
}
