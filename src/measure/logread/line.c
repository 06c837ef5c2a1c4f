// SPDX-License-Identifier: Apache-2.0
// What one line of a log tells: a rate of tqdm ("12.3it/s", "1.5s/it"), the times that trainers
// print by name (timm, torchvision's reference scripts, MMEngine, Megatron), the loader's row of a
// profile, the size of the GPU and what is used of it (Ultralytics), whether it is validation, and
// whether a run begins or a training ends. Losses are in loss.c.
#include "measure/logread/logread_int.h"

#include "base/unit.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// --- Places --------------------------------------------------------------------------------------

// Behind no other letter: not in "raise_if_cache_size_invalid".
static bool has_word_nocase(struct str s, const char *word) {
    ptrdiff_t n = (ptrdiff_t)strlen(word);
    for (ptrdiff_t i = 0; i + n <= s.len; i++) {
        if (i > 0 && isalpha((unsigned char)s.p[i - 1])) continue;
        if (strncasecmp(s.p + i, word, (size_t)n) == 0) return true;
    }
    return false;
}

// The bar of validation, or a frame of a traceback: "in validate", "Evaluating:  12%|".
static bool is_validation(struct str label) {
    static const char *const words[] = {"valid",   "evaluat",      "eval_",
                                        "val ",    "val:",         "val_loop",
                                        "Testing", "Sanity Check", "Class     Images"};
    // Functions that look whether settings are valid.
    static const char *const checks[] = {"validate_arg",   "validate_config", "validate_env",
                                         "validate_input", "validate_kwargs", "validate_model",
                                         "validate_param", "evaluate_guard"};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (has_word_nocase(label, checks[i])) return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (has_word_nocase(label, words[i])) return true;
    }
    return false;
}

// Its letters: figures change from line to line.
static uint64_t label_of(struct str s) {
    char letters[64];
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < s.len && n < 64; i++) {
        if (isalpha((unsigned char)s.p[i])) letters[n++] = s.p[i];
    }
    return str_hash((struct str){letters, n});
}

// "99%|#### | 1250/1251 [": whether the bar is at its last batch, and whether that is done.
static bool is_last_batch(struct str after_bar, bool *ret_is_done) {
    ptrdiff_t at = str_find(after_bar, STR("| ")), n = 0, m = 0;
    *ret_is_done = false;
    if (at < 0) return false;
    struct str s = str_trim(str_slice(after_bar, at + 2, after_bar.len));
    double done = logread_number_at(s, &n);
    if (n == 0 || n >= s.len || s.p[n] != '/') return false;
    double all = logread_number_at(str_slice(s, n + 1, s.len), &m);
    *ret_is_done = m > 0 && done >= all;
    return m > 0 && all >= 3 && done >= all - 1 && done <= all;
}

// --- Times ---------------------------------------------------------------------------------------

static struct logread_bar *bar_of(struct logread *j, struct str label) {
    uint64_t hash = label_of(label);
    for (int i = 0; i < j->bar_count; i++) {
        if (j->bars[i].label == hash) return &j->bars[i];
    }
    if (j->bar_count == LOGREAD_BARS) return NULL;
    struct logread_bar *b = &j->bars[j->bar_count++];
    b->label = hash;
    b->stride = 1;
    b->is_validation = is_validation(label);
    return b;
}

// Keeps every stride-th; a full bar drops every second.
static void add_time(struct logread *j, struct str label, double ms, bool is_rate) {
    struct logread_bar *b = bar_of(j, label);
    if (!b || !(ms > 0) || !(ms < 1e9)) return;
    b->rises += !is_rate && b->steps > 0 && ms > b->newest_ms;
    b->newest_ms = ms;
    if (b->steps++ % b->stride != 0) return;
    if (b->count == LOGREAD_TIMES) {
        for (ptrdiff_t i = 0; i < LOGREAD_TIMES / 2; i++) {
            b->times_ms[i] = b->times_ms[2 * i];
            b->lines[i] = b->lines[2 * i];
        }
        b->count = LOGREAD_TIMES / 2;
        b->stride *= 2;
    }
    b->times_ms[b->count] = ms;
    b->lines[b->count++] = j->line;
}

// tqdm: the last rate of the line, "[00:10<01:22, 12.3it/s]" or "1.5s/it".
static bool read_rate(struct str line, double *ret_ms) {
    static const struct {
        const char *unit;
        bool is_rate;
    } units[] = {{"it/s", true}, {"s/it", false}, {"batch/s", true}, {"s/batch", false}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        ptrdiff_t at = str_find(line, str_of(units[i].unit)), begin, length;
        if (at <= 0) continue;
        for (begin = at; begin > 0; begin--) {
            char c = line.p[begin - 1];
            if (!isdigit((unsigned char)c) && c != '.') break;
        }
        double value = logread_number_at(str_slice(line, begin, at), &length);
        if (length == 0 || !(value > 0)) continue;
        *ret_ms = units[i].is_rate ? 1000 / value : 1000 * value;
        return true;
    }
    return false;
}

// Names that trainers print before a time, with what one of it is in ms.
static const struct named_time {
    const char *name;
    double ms;
    bool is_io;
    bool has_mean; // only where its mean stands behind it, in brackets
} named_times[] = {
    {"data_time: ", 1000, true},                     // MMEngine, detectron2
    {"data: ", 1000, true},                          // torchvision's references
    {"Data: ", 1000, true},                          // timm
    {"\tData ", 1000, true},                         // PyTorch's imagenet example
    {" Data ", 1000, true, true},                    // semseg and those that follow it
    {"elapsed time per iteration (ms): ", 1, false}, // Megatron-LM
    {"iter time (s): ", 1000, false},                // DeepSpeed
    {"Time: ", 1000, false},                         // timm
    {"\tTime ", 1000, false},                        // PyTorch's imagenet example
    {" time: ", 1000, false},                        // MMEngine, detectron2, torchvision
    {" Batch ", 1000, false, true},                  // semseg
    {"time ", 1000, false, true},                    // Swin
};

static bool read_named(struct str line, bool is_io, double *ret_ms) {
    for (size_t i = 0; i < sizeof named_times / sizeof *named_times; i++) {
        const struct named_time *t = &named_times[i];
        ptrdiff_t at = str_find(line, str_of(t->name)), length;
        if (t->is_io != is_io || at < 0) continue;
        struct str rest = str_trim(str_slice(line, at + (ptrdiff_t)strlen(t->name), line.len));
        double value = logread_number_at(rest, &length);
        if (length == 0) continue;
        if (t->has_mean && !str_starts(str_slice(rest, length, rest.len), STR(" ("))) continue;
        *ret_ms = value * t->ms;
        return true;
    }
    return false;
}

static void add_io(struct logread *j, double io_ms, double total_ms) {
    if (!(io_ms >= 0) || !(total_ms > 0) || io_ms > total_ms) return;
    ptrdiff_t at = (ptrdiff_t)(j->io_seen++ % LOGREAD_TIMES);
    j->io_ms[at] = io_ms;
    j->io_total_ms[at] = total_ms;
    if (j->io_count < LOGREAD_TIMES) j->io_count++;
}

// The next field, behind blanks; its number, and what stands behind it ("%", "us", "ms", "s").
static double next_quantity(struct str *rest, struct str *ret_unit) {
    ptrdiff_t n = 0, length;
    *rest = str_trim(*rest);
    while (n < rest->len && !isblank((unsigned char)rest->p[n])) n++;
    double value = logread_number_at(str_slice(*rest, 0, n), &length);
    *ret_unit = str_slice(*rest, length, n);
    *rest = str_slice(*rest, n, rest->len);
    return length > 0 ? value : (double)NAN;
}

// A table of torch.profiler's: the row of the loop's wait for its loader, "Self CPU %", "Self CPU",
// "CPU total %", "CPU total", "CPU time avg", what the GPU adds, "# of Calls". A step is one call:
// what the whole takes, by the share, belongs to as many.
static void read_profile(struct logread *j, struct str line) {
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"us", 1e-3}, {"ms", 1}, {"s", 1000}};
    enum { SHARE = 2, AVERAGE = 4, CPU_FIELDS };
    double fields[CPU_FIELDS] = {0}, calls = NAN, ms = NAN;
    struct str rest = str_trim(line), unit;
    if (!str_starts(rest, STR("enumerate(DataLoader)#"))) return;
    next_quantity(&rest, &unit);
    for (int i = 0; i < CPU_FIELDS; i++) fields[i] = next_quantity(&rest, &unit);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (str_is(unit, units[i].unit)) ms = fields[AVERAGE] * units[i].ms;
    }
    while (str_trim(rest).len > 0) calls = next_quantity(&rest, &unit);
    for (int i = 0; i < LOGREAD_TIMES && i < calls; i++) add_io(j, ms, ms / (fields[SHARE] / 100));
}

static void read_times(struct logread *j, struct str line) {
    double total = NAN, io = NAN;
    ptrdiff_t bar = str_find(line, STR("%|"));
    if (bar >= 0) {
        struct str label = str_slice(line, 0, bar);
        logread_set_mark(&j->place, j->line, line);
        j->has_progress = true;
        j->place_is_validation = is_validation(label);
        j->place_is_last_batch = is_last_batch(str_slice(line, bar, line.len), &j->place_is_done);
        if (read_rate(line, &total)) add_time(j, label, total, true);
        return;
    }
    bool is_rate = !read_named(line, false, &total);
    if (is_rate && !read_rate(line, &total)) return;
    struct str label = str_slice(line, 0, line.len < 24 ? line.len : 24);
    j->has_progress = true;
    logread_set_mark(&j->place, j->line, line);
    j->place_is_validation = is_validation(label);
    j->place_is_last_batch = false;
    add_time(j, label, total, is_rate);
    if (!j->place_is_validation && read_named(line, true, &io)) add_io(j, io, total);
}

// --- Ultralytics: "      3/200      11.4G      1.062      nan …: 12%|" ---------------------------

static void read_columns(struct logread *j, struct str line) {
    bool has_memory = false, has_nan = false;
    struct str rest = str_slice(line, 0, line.len < 200 ? line.len : 200);
    int column = 0;
    while (rest.len > 0 && column < 12) {
        struct str word = str_trim(str_cut(&rest, ' '));
        ptrdiff_t length = 0;
        if (word.len == 0) continue;
        double value = logread_number_at(word, &length);
        if (column == 0 && str_find(word, STR("/")) <= 0) return;
        if (column == 1) {
            has_memory = length > 0 && length == word.len - 1 && word.p[length] == 'G';
            if (!has_memory) return;
            if (value > 0) j->memory_gib = value;
        }
        has_nan |= column > 1 && column < 6 && logread_value_kind(word) == 1;
        column++;
    }
    if (has_memory && column > 2) logread_add_loss(j, line, has_nan);
}

// "CUDA:0 (NVIDIA GeForce RTX 4080 SUPER, 16376MiB)"
static void read_card(struct logread *j, struct str line) {
    ptrdiff_t at = str_find(line, STR("CUDA:")), end = str_find(line, STR("MiB)")), begin;
    int64_t mib = 0;
    if (at < 0 || end < at) return;
    for (begin = end; begin > 0 && isdigit((unsigned char)line.p[begin - 1]);) begin--;
    if (str_to_i64(str_slice(line, begin, end), &mib) && mib > 0 && mib < INT64_C(1) << 30)
        j->card_bytes = mib * UNIT_MIB;
}

// A training that wanted a GPU and goes on without: TensorFlow's and PyTorch's words.
static void read_on_cpu(struct logread *j, struct str line) {
    static const char *const texts[] = {"Cannot dlopen some GPU libraries",
                                        "UserWarning: CUDA initialization: "};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && j->on_cpu.line == 0; i++) {
        if (str_find(line, str_of(texts[i])) >= 0) logread_set_mark(&j->on_cpu, j->line, line);
    }
}

// A log to which several runs were written: nohup's first line, or a prompt and the command of a
// training. What came before is another run's.
static bool begins_run(struct str line) {
    static const char *const prompts[] = {"$ ", "# ", "> "};
    static const char *const commands[] = {
        "python ",    "python3 ", "torchrun ", "nohup ", "accelerate launch ",
        "deepspeed ", "CUDA_",    "sbatch ",   "srun "};
    if (str_starts(line, STR("nohup: ignoring input"))) return true;
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        ptrdiff_t at = str_find(line, str_of(prompts[i]));
        struct str command = str_slice(line, at + 2, line.len);
        // "user@host:~/project$", "PS C:\project>"
        bool is_prompt = at > 0 && (str_find(str_slice(line, 0, at), STR("@")) >= 0 ||
                                    str_find(str_slice(line, 0, at), STR(":\\")) > 0);
        for (size_t k = 0; is_prompt && k < sizeof commands / sizeof *commands; k++) {
            if (str_starts(command, str_of(commands[k])) &&
                (k > 1 || str_find(command, STR(".py")) > 0))
                return true;
        }
    }
    return false;
}

static void begin_run(struct logread *j) {
    j->run = j->line;
    j->nan_count = j->nan.line = 0;
    j->loss_recovered = j->has_nan_loss = false;
}

// What only a training prints that came to its end: of transformers, Ultralytics, Lightning.
static bool is_finished(struct str line) {
    static const char *const words[] = {"'train_runtime': ", " epochs completed in ",
                                        "`Trainer.fit` stopped: `max_", NULL};
    return str_has_one_of(line, words);
}

void logread_read_line(struct logread *j, struct str line) {
    j->has_progress = false;
    if (begins_run(line)) begin_run(j);
    if (is_finished(line)) j->finished = j->line;
    ptrdiff_t frame = str_find(line, STR(", in "));
    if (str_find(line, STR("Traceback (most recent call last)")) >= 0)
        j->traceback.line = 0;
    else if (frame > 0 && str_find(line, STR("File \"")) >= 0 && j->traceback.line == 0 &&
             is_validation(str_slice(line, frame, line.len)))
        logread_set_mark(&j->traceback, j->line, line);
    read_times(j, line);
    read_profile(j, line);
    logread_read_loss(j, line);
    read_columns(j, line);
    read_card(j, line);
    read_on_cpu(j, line);
    if (j->has_progress) j->progress[j->progress_count++ % LOGREAD_WENT_ON] = j->line;
}
