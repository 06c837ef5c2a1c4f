// SPDX-License-Identifier: Apache-2.0
// What the processes of a command are, before any has told of a step: read from /proc (proc(5)).
// The libraries that a process has mapped say which framework it has loaded; its environment and
// its first words say whether our emitter can be in it.
#include "measure/trial/trial_int.h"

#include "base/os.h"

#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S 1e9
static const double QUICK_S = 5, EARLY_S = 60; // looked at often at first, seldom later
static const double CPUS_S = 1;                // over which busy CPUs are counted
static const double BLIND_S = 2; // for a process that only looks whether PyTorch is there
// In the background: to load a framework while it works (a busy machine takes its time), or while
// it does nothing.
static const double LOADING_S = 30, IDLE_S = 5;

enum { FRAMEWORKS = 6, LIBRARIES = FRAMEWORKS + 1, CHUNK = 1 << 15, OVERLAP = 1 << 10 };
// Parts of the paths of what a framework maps; PyTorch is the first.
static const struct {
    const char *library, *name;
} libraries[LIBRARIES] = {
    {"/libtorch_python", "PyTorch"}, {"/jaxlib/", "JAX"},    {"/libtensorflow", "TensorFlow"},
    {"/paddle/", "PaddlePaddle"},    {"/libmxnet", "MXNet"}, {"/mindspore/", "MindSpore"},
    {"/libpython", "Python"},
};

// --- One process ---------------------------------------------------------------------------------

// Which of the texts stand in /proc/PID/FILE, by bit. *ret_bytes: its length; -1: it cannot be
// read.
static unsigned find_texts(pid_t pid, const char *file, const char *const *texts, int count,
                           int64_t *ret_bytes) {
    char path[48], bytes[OVERLAP + CHUNK];
    size_t held = 0;
    unsigned found = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret_bytes = fd < 0 ? -1 : 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes + held, CHUNK)) > 0;) {
        *ret_bytes += n;
        held += (size_t)n;
        for (int i = 0; i < count; i++) {
            if (memmem(bytes, held, texts[i], strlen(texts[i]))) found |= 1u << i;
        }
        size_t keep = held < OVERLAP ? held : OVERLAP;
        memmove(bytes, bytes + held - keep, keep);
        held = keep;
    }
    return found;
}

static bool is_python(pid_t pid, unsigned found) {
    char path[48], program[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    struct str name = str_of(basename(program));
    return (found & 1u << FRAMEWORKS) || str_starts(name, STR("python")) ||
           str_starts(name, STR("pypy"));
}

// The first of Python's own options that keeps it from sitecustomize or from PYTHONPATH; 0: none,
// or the process shows another title.
static char blinding_option(pid_t pid) {
    char path[48], words[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, words, sizeof words - 1) : 0;
    words[n > 0 ? n : 0] = 0;
    for (char *word = words + strlen(words) + 1; word < words + n && *word == '-';
         word += strlen(word) + 1) {
        for (char *c = word + 1; *c; c++) {
            if (strchr("IES", *c)) return *c;
            if (strchr("cm-", *c)) return 0; // what follows is the program's
            if (!strchr("XW", *c)) continue;
            if (!c[1]) word += strlen(word) + 1; // its argument is the next word
            break;
        }
    }
    return 0;
}

static enum trial_blind blindness(pid_t pid, const char *hook, char *ret_option) {
    const char *const texts[] = {hook, "BATCHFIT_STEPS_DIR=", "="};
    int64_t bytes;
    unsigned found = find_texts(pid, "environ", texts, 3, &bytes);
    *ret_option = blinding_option(pid);
    if (*ret_option) return TRIAL_BLIND_OPTION;
    bool is_dropped = (found & 3) != 3;
    // A program that has set its title has written over its environment.
    bool is_readable = bytes == 0 || (found & 4);
    return is_dropped && is_readable ? TRIAL_BLIND_ENVIRONMENT : TRIAL_SEES;
}

static void look_at(struct sight *s, const struct tree_process *p, double now_s) {
    struct trial_sight *seen = &s->seen;
    const char *texts[LIBRARIES];
    int64_t bytes;
    for (int i = 0; i < LIBRARIES; i++) texts[i] = libraries[i].library;
    unsigned found = find_texts(p->pid, "maps", texts, LIBRARIES, &bytes);
    seen->has_python = seen->has_python || is_python(p->pid, found);
    for (int i = 0; i < FRAMEWORKS; i++) {
        if (!(found & 1u << i) || (seen->framework && i > 0)) continue;
        if (!seen->framework || (i == 0 && !seen->has_torch)) seen->framework_s = now_s;
        seen->framework = libraries[i].name;
    }
    if (!(found & 1)) return;
    char option = 0;
    enum trial_blind blind = blindness(p->pid, s->hook, &option);
    seen->has_torch = true;
    s->known[s->known_count++ % SIGHT_KNOWN] = *p;
    if (blind == TRIAL_SEES) {
        seen->has_emitter = true;
    } else if (seen->blind == TRIAL_SEES || isinf(seen->blind_s)) {
        seen->blind = blind;
        seen->option = option;
        seen->blind_pid = p->pid;
        seen->blind_s = now_s;
    }
}

// --- All of them ---------------------------------------------------------------------------------

static bool is_known(const struct sight *s, const struct tree_process *p) {
    for (int i = 0; i < s->known_count && i < SIGHT_KNOWN; i++) {
        if (s->known[i].pid == p->pid && s->known[i].start_ticks == p->start_ticks) return true;
    }
    return false;
}

static void see_cpus(struct sight *s, const struct tree *t, double now_s) {
    int64_t ticks = trial_tree_ticks(t);
    double past_s = now_s - s->ticks_s;
    if (past_s < CPUS_S) return;
    double used_s = (double)(ticks - s->ticks) / (double)sysconf(_SC_CLK_TCK);
    s->seen.cpus = used_s > 0 ? used_s / past_s : 0;
    s->ticks = ticks;
    s->ticks_s = now_s;
}

void trial_sight_see(struct sight *s, const struct tree *t, double now_s) {
    see_cpus(s, t, now_s);
    if (!s->hook || now_s < s->next_s) return;
    s->next_s = now_s + (now_s < QUICK_S ? .1 : now_s < EARLY_S ? .5 : 5);
    for (int i = 0; i < t->count; i++) {
        if (!t->items[i].is_zombie && !is_known(s, &t->items[i])) look_at(s, &t->items[i], now_s);
    }
    bool is_gone = s->seen.blind_pid > 0 && !trial_tree_has(t, (pid_t)s->seen.blind_pid);
    if (is_gone) s->seen.blind_s = (double)INFINITY; // another one may come
}

void trial_sight_see_left(struct sight *s, const struct tree *t, double left_s) {
    const struct tree_process *oldest = NULL;
    char path[48];
    for (int i = 0; i < t->count; i++) {
        const struct tree_process *p = &t->items[i];
        if (!p->is_zombie && (!oldest || p->start_ticks < oldest->start_ticks)) oldest = p;
    }
    if (!oldest) return;
    s->seen.left_s = left_s;
    s->seen.left_pid = oldest->pid;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)oldest->pid);
    OS_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, s->seen.left_name, sizeof s->seen.left_name - 1) : 0;
    while (n > 0 && s->seen.left_name[n - 1] == '\n') n--;
    s->seen.left_name[n > 0 ? n : 0] = 0;
}

bool trial_sight_is_blind(const struct sight *s, double now_s) {
    bool is_seen = s->seen.has_emitter || s->seen.blind == TRIAL_SEES;
    return !is_seen && now_s - s->seen.blind_s > BLIND_S;
}

bool trial_sight_is_idle(const struct sight *s, double silent_s) {
    if (s->seen.left_pid == 0 || s->seen.framework) return false;
    return s->seen.left_s > LOADING_S || (s->seen.left_s > IDLE_S && silent_s > IDLE_S);
}

// The folder that PYTHONPATH begins with: ours.
const char *trial_sight_hook(struct arena *a, char *const *environment) {
    static const char name[] = "PYTHONPATH=";
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, name, sizeof name - 1) != 0) continue;
        struct str rest = str_of(*environment + sizeof name - 1);
        struct str folder = str_cut(&rest, ':');
        return str_ends(folder, STR("/hook")) ? str_z(a, folder) : NULL;
    }
    return NULL;
}

// --- In words ------------------------------------------------------------------------------------

#define OTHER_HINT                                                                                \
    "it must train with PyTorch in a Python that reads PYTHONPATH, print its steps as the usual " \
    "frameworks do, or write the steps protocol itself (doc/formats/steps.md)"

#define LEFT_HINT                                                                                \
    "start the training in the foreground, without nohup, & or an option such as --daemon: the " \
    "command is to end when it does"

enum {
    ANNOUNCED,
    BLIND_BY_OPTION,
    BLIND,
    PREDICTING,
    FORWARDING,
    SILENT,
    FOREIGN,
    BARE,
    ANYTHING,
    SIGHTS
};
// The first that holds decides. In a text %P is the process, %O the option, %F the framework, %A
// how long ago it was loaded.
static const struct {
    const char *text, *hint;
} sights[SIGHTS] = {
    [ANNOUNCED] = {"a backward was seen, but no change of the weights",
                   "a non-finite loss or a gradient scaler may skip the updates"},
    [BLIND_BY_OPTION] =
        {"PyTorch runs in process %P, whose Python was started with -%O and ignores PYTHONPATH",
         "leave out -%O: batchfit enters the training through PYTHONPATH and sitecustomize"},
    [BLIND] = {"PyTorch runs in process %P, which did not get the environment of the command",
               "have the launcher pass on PYTHONPATH and the variables that begin with BATCHFIT_ "
               "(env -i, sudo and the like drop them)"},
    [PREDICTING] =
        {"PyTorch calls a model without gradients: the program runs inference and does not train",
         "batchfit infer -- COMMAND finds the batch of an inference program"},
    [FORWARDING] = {"PyTorch calls a model, but no backward was seen",
                    "gradients computed only by torch.autograd.grad or torch.func cannot be seen: "
                    "write the steps "
                    "protocol (doc/formats/steps.md)"},
    [SILENT] =
        {"PyTorch was loaded%A, but no model was called long enough to be seen",
         "check that the command reaches its training, and that it trains in the main thread"},
    [FOREIGN] = {"%F was loaded%A, not PyTorch, and the output shows no regular steps",
                 "have it print its steps (a tqdm bar, 'step N'), or write the steps protocol "
                 "(doc/formats/steps.md)"},
    [BARE] = {"Python ran, but loaded neither PyTorch nor another known framework", OTHER_HINT},
    [ANYTHING] = {"it did not run Python", OTHER_HINT},
};

static struct str fill(struct arena *a, const char *text, const struct trial_sight *s,
                       double now_s) {
    struct buf b = buf_new(a);
    for (; *text; text++) {
        if (*text != '%') {
            buf_byte(&b, *text);
            continue;
        }
        switch (*++text) {
        case 'P':
            buf_format(&b, "%d", (int)s->blind_pid);
            break;
        case 'O':
            buf_byte(&b, s->option);
            break;
        case 'F':
            buf_add(&b, str_of(s->framework));
            break;
        default:
            if (!isnan(now_s)) buf_format(&b, " %.0f s ago", now_s - s->framework_s);
        }
    }
    return buf_str(&b);
}

struct str trial_sight_text(struct arena *a, const struct trial_sight *s, const struct steps *steps,
                            double now_s, struct str *ret_hint) {
    bool is_blind = s->blind != TRIAL_SEES && !s->has_emitter;
    const bool holds[SIGHTS] = {
        [ANNOUNCED] = steps_are_announced(steps),
        [BLIND_BY_OPTION] = is_blind && s->blind == TRIAL_BLIND_OPTION,
        [BLIND] = is_blind,
        [PREDICTING] = steps->has_forwards && !steps->has_gradients,
        [FORWARDING] = steps->has_forwards,
        [SILENT] = s->has_torch,
        [FOREIGN] = s->framework != NULL,
        [BARE] = s->has_python,
        [ANYTHING] = true,
    };
    size_t i = 0;
    while (!holds[i]) i++;
    struct str text = fill(a, sights[i].text, s, now_s);
    bool is_left = s->left_pid > 0 && !steps_are_announced(steps);
    if (ret_hint) *ret_hint = fill(a, is_left ? LEFT_HINT : sights[i].hint, s, now_s);
    if (!is_left) return text;
    return str_format(a, "the command has ended and left process %lld (%s) in the background; %.*s",
                      (long long)s->left_pid, s->left_name, STR_ARG(text));
}
