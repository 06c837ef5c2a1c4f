// SPDX-License-Identifier: Apache-2.0
// What one line of a log tells of losses: by name and as a column of a table; of the fp16 loss
// scale, and of the allocator under pressure.
#include "measure/logread/logread_int.h"

#include <ctype.h>
#include <string.h>

// "loss_cls" and "loss/train" are losses by name, "loss_scale" and "loss_weight" are not.
static ptrdiff_t name_end(struct str s, ptrdiff_t i) {
    static const char *const others[] = {"scal", "weight", "mask", "coef", "fn", "type", NULL};
    if (i >= s.len || (s.p[i] != '_' && s.p[i] != '/')) return i;
    if (str_starts_one_of(str_slice(s, i + 1, s.len), others)) return i;
    while (i < s.len && (isalnum((unsigned char)s.p[i]) || s.p[i] == '_' || s.p[i] == '/')) i++;
    return i;
}

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

int logread_value_kind(struct str s) {
    // Lightning prints "nan.0", C and Windows' C "-nan" and "-nan(ind)".
    static const char *const words[] = {"nan",   "inf",   "-inf", "+inf", "infinity",
                                        "nan.0", "inf.0", "-nan", NULL};
    ptrdiff_t n = 0;
    while (n < s.len && (isalnum((unsigned char)s.p[n]) || strchr("+-._", s.p[n]))) n++;
    struct str value = str_slice(s, 0, n);
    if (str_is_one_of_nocase(value, words)) return 1;
    bool is_number = n > 0 && (isdigit((unsigned char)s.p[0]) ||
                               (n > 1 && s.p[0] == '-' && isdigit((unsigned char)s.p[1])));
    return is_number ? 0 : -1;
}

// The best one so far is infinite at the beginning of every healthy training.
static bool is_record(struct str line, ptrdiff_t at) {
    struct str before = str_slice(line, at > 16 ? at - 16 : 0, at);
    return logread_has_nocase(before, "best") || logread_has_nocase(before, "min") ||
           logread_has_nocase(before, "prev");
}

void logread_add_loss(struct logread *j, struct str line, int kind) {
    if (kind == 0) j->has_progress = true;
    if (kind == 0) j->loss_recovered = j->nan_count > 0;
    if (kind != 1) return;
    if (j->nan_count++ == 0) logread_set_mark(&j->nan, j->line, line);
    j->loss_recovered = false;
}

// The length of the name of a loss at the beginning; 0: not a loss.
static ptrdiff_t loss_name(struct str s) {
    if (s.len > 4 && strncasecmp(s.p, "loss", 4) == 0) return 4;
    return str_starts(s, STR("손실")) ? STR("손실").len : 0; // "loss" in Korean
}

// "NaN loss detected", "nan loss at step 7".
static bool is_said_nan(struct str line, ptrdiff_t at) {
    static const char *const words[] = {"loss detected", "loss encountered", "loss at ", "loss in ",
                                        NULL};
    return at >= 4 && strncasecmp(line.p + at - 4, "nan ", 4) == 0 &&
           str_starts_one_of(str_slice(line, at, line.len), words);
}

// "aux_loss" and "loss_cls" are one of several, where there is a "loss", too.
static bool is_whole_loss(struct str line, ptrdiff_t at, ptrdiff_t end) {
    bool begins = at == 0 || (!isalnum((unsigned char)line.p[at - 1]) && line.p[at - 1] != '_');
    return begins && (end >= line.len || (line.p[end] != '_' && line.p[end] != '/'));
}

static void read_losses(struct logread *j, struct str line) {
    int worst = -1;
    bool norm_is_finite = false, whole_is_finite = false;
    if (str_starts(str_trim(line), STR("If "))) return; // advice: "If the loss is nan, …"
    for (ptrdiff_t i = 0; i + 4 < line.len; i++) {
        if (!strchr("lLg\xec", line.p[i]) || line.p[i] == 0) continue; // most bytes begin no name
        struct str from = str_slice(line, i, line.len);
        ptrdiff_t name = loss_name(from);
        bool is_norm = from.len > 9 && (str_starts(from, STR("grad_norm")) ||
                                        str_starts(from, STR("grad norm"))); // Megatron-LM
        if ((name == 0 && !is_norm) || is_record(line, i)) continue;
        struct str rest = str_slice(from, is_norm ? 9 : name_end(from, name), from.len);
        struct str value = str_slice(rest, skip_between(rest), rest.len);
        ptrdiff_t length;
        int kind = logread_value_kind(value);
        // An fp16 scaler skips steps whose gradients overflow: that norm may be infinite.
        if (is_norm && kind == 1 && !logread_has_nocase(str_slice(rest, 0, 8), "nan")) continue;
        if (is_said_nan(line, i)) kind = 1;
        if (kind > worst) worst = kind;
        if (!is_norm && kind == 1) j->has_nan_loss = true;
        norm_is_finite = norm_is_finite || (is_norm && kind == 0);
        // transformers logs 0.0 in the place of a loss that is none.
        bool is_whole = !is_norm && kind == 0 && is_whole_loss(line, i, i + name);
        whole_is_finite = whole_is_finite || (is_whole && logread_number_at(value, &length) != 0);
    }
    logread_add_loss(j, line, worst);
    if (whole_is_finite && worst == 1) j->has_progress = j->loss_recovered = true;
    // A gradient that was skipped, before steps that were not: as an fp16 scaler does it.
    if (worst != 0 || !norm_is_finite || j->has_nan_loss || j->nan_count == 0) return;
    j->nan_count = 0;
    j->nan.line = 0;
    j->loss_recovered = false;
}

// "8 pytorch allocator cache flushes since last step", of DeepSpeed's ZeRO-3.
static void read_flushes(struct logread *j, struct str line) {
    if (str_find(line, STR("pytorch allocator cache flushes since last step")) < 0) return;
    if (j->flush_count++ == 0) logread_set_mark(&j->flushes, j->line, line);
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
        double value = logread_number_at(str_slice(line, at, line.len), &length);
        if (length == 0) continue;
        if (value > texts[i].end) {
            j->scale_count = 0;
            continue;
        }
        if (j->scale_count++ == 0) logread_set_mark(&j->scale, j->line, line);
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
        if (logread_has_nocase(name, "loss") && logread_value_kind(name) < 0)
            columns |= UINT64_C(1) << i;
    }
    return columns;
}

static int worst_of_row(struct str row, char separator, uint64_t columns) {
    int worst = -1;
    for (int i = 0; row.len > 0 && i < 64; i++) {
        struct str value = next_field(&row, separator);
        int kind = (columns >> i) & 1 ? logread_value_kind(value) : -1;
        if (kind > worst) worst = kind;
    }
    return worst;
}

static void read_table(struct logread *j, struct str line) {
    static const char separators[] = {'\t', ',', '|', ' '};
    line = str_trim(line);
    if (j->table_fields > 0 && count_fields(line, j->table_separator) == j->table_fields)
        logread_add_loss(j, line, worst_of_row(line, j->table_separator, j->table_columns));
    if (!logread_has_nocase(line, "loss")) return;
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

void logread_read_loss(struct logread *j, struct str line) {
    read_losses(j, line);
    read_scale(j, line);
    read_flushes(j, line);
    read_table(j, line);
}
