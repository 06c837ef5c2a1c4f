// SPDX-License-Identifier: Apache-2.0
// What one line of a log tells: a rate of tqdm ("12.3it/s", "1.5s/it"), the times that trainers
// print by name (timm, torchvision's reference scripts, MMEngine, Megatron), the loader's row of a
// profile, a loss that is no number, the size of the GPU and what is used of it (Ultralytics), and
// whether it is validation.
#include "measure/logread/logread_int.h"

#include "base/out.h"
#include "base/unit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void mark(struct logread_mark *m, int64_t number, struct str line) {
    clean_keep(m->text, sizeof m->text, str_trim(line));
    m->line = number;
}

// A number at the beginning of the text; *ret_length 0: none. Not one that goes on
// (12:33:07, 1.2.3).
static double number_at(struct str s, ptrdiff_t *ret_length) {
    char copy[32];
    ptrdiff_t n = 0;
    while (n < s.len && n < 31 && (isdigit((unsigned char)s.p[n]) || s.p[n] == '.')) n++;
    memcpy(copy, s.p, (size_t)n);
    copy[n] = 0;
    char *end = copy;
    double value = n > 0 ? strtod(copy, &end) : (double)NAN;
    bool is_time =
        n < s.len && s.p[n] == ':' && n + 1 < s.len && isdigit((unsigned char)s.p[n + 1]);
    *ret_length = end == copy + n && n > 0 && !is_time ? n : 0;
    return value;
}

// --- Places --------------------------------------------------------------------------------------

static bool has_nocase(struct str s, const char *word) {
    ptrdiff_t n = (ptrdiff_t)strlen(word);
    for (ptrdiff_t i = 0; i + n <= s.len; i++) {
        if (strncasecmp(s.p + i, word, (size_t)n) == 0) return true;
    }
    return false;
}

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
    double done = number_at(s, &n);
    if (n == 0 || n >= s.len || s.p[n] != '/') return false;
    double all = number_at(str_slice(s, n + 1, s.len), &m);
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
        double value = number_at(str_slice(line, begin, at), &length);
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
        double value = number_at(rest, &length);
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
    double value = number_at(str_slice(*rest, 0, n), &length);
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
        mark(&j->place, j->line, line);
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
    mark(&j->place, j->line, line);
    j->place_is_validation = is_validation(label);
    j->place_is_last_batch = false;
    add_time(j, label, total, is_rate);
    if (!j->place_is_validation && read_named(line, true, &io)) add_io(j, io, total);
}

// --- Losses --------------------------------------------------------------------------------------

// What may stand between a loss's name and its value: "loss: nan", "'loss': nan", "loss=inf",
// "Loss is nan", "[Loss] nan", "loss: tensor(nan, ". Not "loss decreased (inf --> 0.51)".
static ptrdiff_t skip_between(struct str s) {
    static const char *const words[] = {"is ", "tensor("};
    ptrdiff_t i = 0;
    while (i < s.len && strchr("'\" \t:=|(])", s.p[i])) i++;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (str_starts(str_slice(s, i, s.len), str_of(words[k]))) i += (ptrdiff_t)strlen(words[k]);
    }
    return i;
}

// 1: no number; 0: a finite number; -1: neither.
static int value_kind(struct str s) {
    // Lightning prints "nan.0", C and Windows' C "-nan" and "-nan(ind)".
    static const char *const words[] = {"nan",      "inf",   "-inf",  "+inf",
                                        "infinity", "nan.0", "inf.0", "-nan"};
    ptrdiff_t n = 0;
    while (n < s.len && (isalnum((unsigned char)s.p[n]) || strchr("+-._", s.p[n]))) n++;
    struct str value = str_slice(s, 0, n);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_equal_nocase(value, str_of(words[i]))) return 1;
    }
    bool is_number = n > 0 && (isdigit((unsigned char)s.p[0]) ||
                               (n > 1 && s.p[0] == '-' && isdigit((unsigned char)s.p[1])));
    return is_number ? 0 : -1;
}

// The best one so far is infinite at the beginning of every healthy training.
static bool is_record(struct str line, ptrdiff_t at) {
    struct str before = str_slice(line, at > 16 ? at - 16 : 0, at);
    return has_nocase(before, "best") || has_nocase(before, "min") || has_nocase(before, "prev");
}

static void add_loss(struct logread *j, struct str line, int kind) {
    if (kind == 0) j->has_progress = true;
    if (kind == 0) j->loss_recovered = j->nan_count > 0;
    if (kind != 1) return;
    if (j->nan_count++ == 0) mark(&j->nan, j->line, line);
    j->loss_recovered = false;
}

// The length of the name of a loss at the beginning; 0: not a loss.
static ptrdiff_t loss_name(struct str s) {
    if (s.len > 4 && strncasecmp(s.p, "loss", 4) == 0) return 4;
    return str_starts(s, STR("손실")) ? STR("손실").len : 0; // "loss" in Korean
}

// "NaN loss detected", "nan loss at step 7".
static bool is_said_nan(struct str line, ptrdiff_t at) {
    static const char *const words[] = {"loss detected", "loss encountered", "loss at ",
                                        "loss in "};
    if (at < 4 || strncasecmp(line.p + at - 4, "nan ", 4) != 0) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_starts(str_slice(line, at, line.len), str_of(words[i]))) return true;
    }
    return false;
}

static void read_losses(struct logread *j, struct str line) {
    int worst = -1;
    bool norm_is_finite = false;
    for (ptrdiff_t i = 0; i + 4 < line.len; i++) {
        if (!strchr("lLg\xec", line.p[i]) || line.p[i] == 0) continue; // most bytes begin no name
        struct str from = str_slice(line, i, line.len);
        ptrdiff_t name = loss_name(from);
        bool is_norm = from.len > 9 && (str_starts(from, STR("grad_norm")) ||
                                        str_starts(from, STR("grad norm"))); // Megatron-LM
        if ((name == 0 && !is_norm) || is_record(line, i)) continue;
        struct str rest = str_slice(from, is_norm ? 9 : name, from.len);
        int kind = value_kind(str_slice(rest, skip_between(rest), rest.len));
        // An fp16 scaler skips steps whose gradients overflow: that norm may be infinite.
        if (is_norm && kind == 1 && !has_nocase(str_slice(rest, 0, 8), "nan")) continue;
        if (is_said_nan(line, i)) kind = 1;
        if (kind > worst) worst = kind;
        if (!is_norm && kind == 1) j->has_nan_loss = true;
        norm_is_finite = norm_is_finite || (is_norm && kind == 0);
    }
    add_loss(j, line, worst);
    // A gradient that was skipped, before steps that were not: as an fp16 scaler does it.
    if (worst != 0 || !norm_is_finite || j->has_nan_loss || j->nan_count == 0) return;
    j->nan_count = 0;
    j->nan.line = 0;
    j->loss_recovered = false;
}

// "8 pytorch allocator cache flushes since last step", of DeepSpeed's ZeRO-3.
static void read_flushes(struct logread *j, struct str line) {
    if (str_find(line, STR("pytorch allocator cache flushes since last step")) < 0) return;
    if (j->flush_count++ == 0) mark(&j->flushes, j->line, line);
}

// DeepSpeed's scaler and apex's end at 1, fairseq's at 1/8192.
static void read_scale(struct logread *j, struct str line) {
    static const struct {
        const char *before;
        double end;
    } texts[] = {{"reducing to ", 1},
                 {"reducing loss scale to ", 1},
                 {"setting loss scale to: ", 1.0 / 1024}};
    if (str_find(line, STR("loss scale")) < 0) return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ptrdiff_t at = str_find(line, str_of(texts[i].before)), length;
        if (at < 0) continue;
        at += (ptrdiff_t)strlen(texts[i].before);
        double value = number_at(str_slice(line, at, line.len), &length);
        if (length == 0) continue;
        if (value > texts[i].end) {
            j->scale_count = 0;
            continue;
        }
        if (j->scale_count++ == 0) mark(&j->scale, j->line, line);
        j->scale_last = j->line;
    }
}

// --- Tables --------------------------------------------------------------------------------------
// A header, "epoch,train_loss,val_loss", and rows of figures: Lightning's CSVLogger and Keras
// (','), fastai (blanks), tables with tabs or bars.

static struct str next_field(struct str *rest, char separator) {
    struct str field = str_cut(rest, separator);
    while (separator == ' ' && field.len == 0 && rest->len > 0) field = str_cut(rest, separator);
    return str_trim(field);
}

static int count_fields(struct str line, char separator) {
    int n = 0;
    for (; line.len > 0; n++) next_field(&line, separator);
    return n;
}

// Which columns are losses: bit 0 is the first. 0: no such header.
static uint64_t loss_columns(struct str line, char separator) {
    uint64_t columns = 0;
    for (int i = 0; line.len > 0 && i < 64; i++) {
        struct str name = next_field(&line, separator);
        ptrdiff_t n = 0;
        while (n < name.len && (isalnum((unsigned char)name.p[n]) || strchr("_/.- ", name.p[n])))
            n++;
        if (n < name.len || n > 40 || (n > 0 && isdigit((unsigned char)name.p[0]))) return 0;
        if (has_nocase(name, "loss") && value_kind(name) < 0) columns |= UINT64_C(1) << i;
    }
    return columns;
}

static int worst_of_row(struct str row, char separator, uint64_t columns) {
    int worst = -1;
    for (int i = 0; row.len > 0 && i < 64; i++) {
        struct str value = next_field(&row, separator);
        int kind = (columns >> i) & 1 ? value_kind(value) : -1;
        if (kind > worst) worst = kind;
    }
    return worst;
}

static void read_table(struct logread *j, struct str line) {
    static const char separators[] = {'\t', ',', '|', ' '};
    line = str_trim(line);
    if (j->table_fields > 0 && count_fields(line, j->table_separator) == j->table_fields)
        add_loss(j, line, worst_of_row(line, j->table_separator, j->table_columns));
    if (!has_nocase(line, "loss")) return;
    for (size_t i = 0; i < sizeof separators; i++) {
        int fields = count_fields(line, separators[i]);
        uint64_t columns = fields > 1 ? loss_columns(line, separators[i]) : 0;
        if (!columns) continue;
        j->table_columns = columns;
        j->table_fields = fields;
        j->table_separator = separators[i];
        return;
    }
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
        double value = number_at(word, &length);
        if (column == 0 && str_find(word, STR("/")) <= 0) return;
        if (column == 1) {
            has_memory = length > 0 && length == word.len - 1 && word.p[length] == 'G';
            if (!has_memory) return;
            if (value > 0) j->memory_gib = value;
        }
        has_nan |= column > 1 && column < 6 && value_kind(word) == 1;
        column++;
    }
    if (has_memory && column > 2) add_loss(j, line, has_nan);
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
        if (str_find(line, str_of(texts[i])) >= 0) mark(&j->on_cpu, j->line, line);
    }
}

void logread_read_line(struct logread *j, struct str line) {
    j->has_progress = false;
    ptrdiff_t frame = str_find(line, STR(", in "));
    if (str_find(line, STR("Traceback (most recent call last)")) >= 0)
        j->traceback.line = 0;
    else if (frame > 0 && str_find(line, STR("File \"")) >= 0 && j->traceback.line == 0 &&
             is_validation(str_slice(line, frame, line.len)))
        mark(&j->traceback, j->line, line);
    read_times(j, line);
    read_profile(j, line);
    read_losses(j, line);
    read_scale(j, line);
    read_flushes(j, line);
    read_table(j, line);
    read_columns(j, line);
    read_card(j, line);
    read_on_cpu(j, line);
    if (j->has_progress) j->progress[j->progress_count++ % LOGREAD_WENT_ON] = j->line;
}
