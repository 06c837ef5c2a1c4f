// SPDX-License-Identifier: Apache-2.0
// Reads a log from front to end. What of a line tells a time, a loss or a place is in
// line.c and loss.c; here are the bytes, the lines and what is kept of them.
#include "measure/logread/logread_int.h"

#include <math.h>
#include <string.h>

enum {
    TAIL_BYTES = 1 << 18, // as a trial's
    TAIL_LINES = 1 << 15,
    LINE_BYTES = 1 << 13, // the rest of a longer line is dropped
    BINARY_SHARE = 50,    // one in so many bytes
    MAY_HAVE_GONE_ON = 3, // lines of progress: a bar's last word, after an error, is no more
    ELAPSED_LEAST = 10,   // readings, of which nine in ten grow: steps' times do so in five
};

// The newest lines, whole and cleaned: as much as two tails, of which the older half is dropped.
struct logread_tail {
    char text[2 * TAIL_BYTES];
    ptrdiff_t length;
    struct tail_line {
        ptrdiff_t begin;
        int64_t number;
    } lines[2 * TAIL_LINES];
    ptrdiff_t count;
    char line[LINE_BYTES]; // that is being read
    ptrdiff_t line_length;
    enum { PLAIN, ESCAPE, SEQUENCE, TITLE } state;
    bool after_return; // a line end that belongs to the carriage return before
};

struct logread logread_new(struct arena *a) {
    struct logread j = {.arena = a, .line = 1, .memory_gib = NAN};
    j.tail = arena_new(a, struct logread_tail, 1);
    j.bars = arena_new(a, struct logread_bar, LOGREAD_BARS);
    return j;
}

static void drop_half(struct logread_tail *t) {
    ptrdiff_t from = t->count / 2;
    while (from < t->count - 1 && t->length - t->lines[from].begin > TAIL_BYTES) from++;
    ptrdiff_t begin = t->lines[from].begin;
    memmove(t->text, t->text + begin, (size_t)(t->length - begin));
    t->length -= begin;
    for (ptrdiff_t i = from; i < t->count; i++) {
        t->lines[i - from] = (struct tail_line){t->lines[i].begin - begin, t->lines[i].number};
    }
    t->count -= from;
}

static void end_line(struct logread *j) {
    struct logread_tail *t = j->tail;
    struct str line = {t->line, t->line_length};
    if (t->length + line.len + 1 > 2 * TAIL_BYTES || t->count == 2 * TAIL_LINES) drop_half(t);
    t->lines[t->count++] = (struct tail_line){t->length, j->line};
    memcpy(t->text + t->length, line.p, (size_t)line.len);
    t->length += line.len;
    t->text[t->length++] = '\n';
    if (line.len > 0) logread_read_line(j, line);
    t->line_length = 0;
}

// Drops ESC [ … letter, ESC ] … BEL, ESC and one character (ECMA-48). True: the byte is none of
// them. A line that ends within one has its end: another process's output may begin there.
static bool passes(struct logread_tail *t, unsigned char c) {
    const bool is_end = c == '\n' || c == '\r';
    if (t->state == PLAIN && c != 033) return true;
    if (is_end)
        t->state = PLAIN;
    else if (t->state == PLAIN)
        t->state = ESCAPE;
    else if (t->state == ESCAPE)
        t->state = c == '[' ? SEQUENCE : c == ']' ? TITLE : PLAIN;
    else if (t->state == SEQUENCE ? c >= 0x40 : c == '\a' || c == '\\')
        t->state = PLAIN;
    return is_end;
}

void logread_feed(struct logread *j, struct str bytes) {
    struct logread_tail *t = j->tail;
    j->bytes += bytes.len;
    for (ptrdiff_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.p[i];
        if (!passes(t, c)) continue;
        bool returned = t->after_return;
        t->after_return = c == '\r';
        if (c == '\r' || c == '\n') {
            if (c == '\r' || !returned) end_line(j);
            j->line += c == '\n';
        } else if ((c >= ' ' || c == '\t') && t->line_length < LINE_BYTES) {
            t->line[t->line_length++] = (char)c;
        }
    }
}

// A control character that no terminal program prints.
static bool is_strange(unsigned char c) {
    return (c < ' ' && !(c >= '\a' && c <= '\r') && c != 033) || c == 0x7f;
}

const char *logread_refusal(struct str head) {
    static const struct {
        const char *magic;
        ptrdiff_t length;
        const char *what;
    } known[] = {
        {"\x1f\x8b", 2, "compressed (gzip): zcat FILE | batchfit doctor -"},
        {"\x28\xb5\x2f\xfd", 4, "compressed (zstd): zstdcat FILE | batchfit doctor -"},
        {"BZh", 3, "compressed (bzip2): bzcat FILE | batchfit doctor -"},
        {"\xfd"
         "7zXZ",
         5, "compressed (xz): xzcat FILE | batchfit doctor -"},
        {"PK\x03\x04", 4, "an archive (zip, or a PyTorch checkpoint), not a log"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_starts(head, (struct str){known[i].magic, known[i].length})) return known[i].what;
    }
    // A log has a few of them where a machine crashed or a pipe was torn; and runs of zeros where
    // several machines write to one file of a network file system: each counts once.
    ptrdiff_t strange = 0, zeros = 0;
    for (ptrdiff_t i = 0; i < head.len; i++) {
        zeros += head.p[i] == 0;
        strange += is_strange((unsigned char)head.p[i]) && !(i > 0 && !head.p[i] && !head.p[i - 1]);
    }
    bool is_binary = strange * BINARY_SHARE > head.len || zeros * 2 > head.len;
    return is_binary ? "a binary file, not a text log" : NULL;
}

int64_t logread_number_of(const struct logread *j, struct str text) {
    const struct logread_tail *t = j->tail;
    for (ptrdiff_t i = t->count - 1; i >= 0 && text.len > 0; i--) {
        ptrdiff_t end = i + 1 < t->count ? t->lines[i + 1].begin : t->length;
        struct str line = {t->text + t->lines[i].begin, end - t->lines[i].begin - 1};
        if (str_equal(line, text)) return t->lines[i].number;
    }
    return 0;
}

// Of the newest TAIL_BYTES, the lines from that number on.
static void classify_from(struct logread *j, int64_t line, struct failure *ret_ending,
                          int64_t *ret_line) {
    static const struct failure_facts nothing = {.oom_kills = -1, .system_oom_kills = -1};
    struct logread_tail *t = j->tail;
    ptrdiff_t from = 0;
    while (from < t->count - 1 &&
           (t->length - t->lines[from].begin > TAIL_BYTES || t->lines[from].number < line))
        from++;
    ptrdiff_t begin = t->count > 0 ? t->lines[from].begin : 0;
    failure_classify(j->arena, (struct str){t->text + begin, t->length - begin}, &nothing,
                     ret_ending);
    *ret_line = logread_number_of(j, ret_ending->line);
}

// The line of progress with `count` - 1 after it; 0: there are fewer.
static int64_t progress_before(const struct logread *j, int64_t count) {
    if (j->progress_count < count) return 0;
    return j->progress[(j->progress_count - count) % LOGREAD_WENT_ON];
}

// What was before this line is over.
static int64_t over_before(const struct logread *j) {
    int64_t line = progress_before(j, LOGREAD_WENT_ON);
    return j->finished > line ? j->finished : line;
}

// Of several runs the newest, unless it shows nothing: neither an end nor that it trains.
void logread_end(struct logread *j, struct failure *ret_ending, int64_t *ret_line) {
    if (j->tail->line_length > 0) end_line(j);
    classify_from(j, j->run, ret_ending, ret_line);
    bool shows_nothing = ret_ending->signature->kind == FAILURE_CLEAN &&
                         progress_before(j, MAY_HAVE_GONE_ON) < j->run && j->finished < j->run;
    if (j->run > 0 && shows_nothing) classify_from(j, 0, ret_ending, ret_line);
}

bool logread_went_on(const struct logread *j, int64_t line) {
    return line > 0 && over_before(j) > line;
}

bool logread_may_have_gone_on(const struct logread *j, int64_t line) {
    return line > 0 && (progress_before(j, MAY_HAVE_GONE_ON) > line || j->run > line);
}

void logread_end_later(struct logread *j, struct failure *ret_ending, int64_t *ret_line) {
    int64_t over = over_before(j);
    classify_from(j, j->run > over ? j->run : over, ret_ending, ret_line);
}

bool logread_scale_is_gone(const struct logread *j) {
    return j->scale_count >= 2 && !logread_went_on(j, j->scale_last);
}

bool logread_is_elapsed(const struct logread_bar *b) {
    return b->steps >= ELAPSED_LEAST && b->rises * 10 >= (b->steps - 1) * 9;
}

const struct failure_signature *logread_on_cpu(const struct logread *j) {
    if (!logread_went_on(j, j->on_cpu.line)) return NULL;
    bool by_torch = str_find(str_of(j->on_cpu.text), STR("CUDA initialization")) >= 0;
    return failure_signature_named(by_torch ? STR("cuda-warned") : STR("tensorflow-cpu"));
}

const struct logread_bar *logread_training(const struct logread *j) {
    const struct logread_bar *best = NULL;
    for (int i = 0; i < j->bar_count; i++) {
        const struct logread_bar *b = &j->bars[i];
        if (!b->is_validation && b->count > 0 && (!best || b->steps > best->steps)) best = b;
    }
    return best;
}

int64_t logread_steps(const struct logread *j) {
    const struct logread_bar *b = logread_training(j);
    return b ? b->steps : j->bar_count > 0 || j->place.line > 0 ? 0 : -1;
}
