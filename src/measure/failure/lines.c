// SPDX-License-Identifier: Apache-2.0
// The output as lines: escape sequences taken out, progress bars' carriage returns taken as line
// ends, the prefix of a launcher known, and Python's tracebacks found, so that an exception that
// ended the program is told from one that was handled and only logged.
#include "measure/failure/failure_int.h"

#include <string.h>

static bool is_end(char c) {
    return c == '\n' || c == '\r';
}

// ESC [ … letter, ESC ] … BEL or ESC \, ESC and one character (ECMA-48). Returns the place after
// it: at a line's end, if that comes first.
static ptrdiff_t skip_escape(struct str s, ptrdiff_t i) {
    if (++i >= s.len || is_end(s.p[i])) return i;
    char kind = s.p[i++];
    if (kind == '[') {
        while (i < s.len && (unsigned char)s.p[i] < 0x40 && !is_end(s.p[i])) i++;
        return i < s.len && !is_end(s.p[i]) ? i + 1 : i;
    }
    if (kind != ']') return i;
    while (i < s.len && s.p[i] != '\a' && !is_end(s.p[i]) && s.p[i] != '\033') i++;
    if (i < s.len && s.p[i] == '\a') return i + 1;
    return i + 1 < s.len && s.p[i] == '\033' && s.p[i + 1] == '\\' ? i + 2 : i;
}

static struct str clean(struct arena *a, struct str s) {
    char *p = arena_new(a, char, s.len + 1);
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < s.len;) {
        char c = s.p[i];
        if (c == '\033') {
            i = skip_escape(s, i);
            continue;
        }
        i++;
        if (c == '\r') {
            if (i < s.len && s.p[i] == '\n') continue;
            c = '\n';
        }
        if ((unsigned char)c < ' ' && c != '\n' && c != '\t') continue;
        p[n++] = c;
    }
    return (struct str){p, n};
}

static bool is_name(char c) {
    return str_is_alnum(c) || c == '_' || c == '.';
}

static ptrdiff_t count_of(struct str s, ptrdiff_t from, const char *set) {
    ptrdiff_t n = 0;
    while (from + n < s.len && strchr(set, s.p[from + n]) && s.p[from + n]) n++;
    return n;
}

enum { PREFIX_MAX = 60 };
static const char digits[] = "0123456789";

// "[rank0]: " and "[default0]:" (torchrun), "[1,0]<stderr>:" (mpirun).
static ptrdiff_t bracket_prefix(struct str s) {
    ptrdiff_t n = 1;
    if (s.len == 0 || s.p[0] != '[') return 0;
    while (n < s.len && n < PREFIX_MAX && (is_name(s.p[n]) || s.p[n] == ',' || s.p[n] == '-')) n++;
    if (n < 3 || n >= s.len || s.p[n++] != ']') return 0;
    struct str rest = str_slice(s, n, s.len);
    if (str_starts(rest, STR("<stderr>")) || str_starts(rest, STR("<stdout>"))) n += 8;
    return n < s.len && s.p[n] == ':' ? n + 1 : 0;
}

// "0: " (srun --label).
static ptrdiff_t label_prefix(struct str s) {
    ptrdiff_t n = count_of(s, 0, digits);
    return n > 0 && n < 6 && n + 1 < s.len && s.p[n] == ':' && s.p[n + 1] == ' ' ? n + 1 : 0;
}

// "(RayTrainWorker pid=123, ip=10.0.0.1) ".
static ptrdiff_t ray_prefix(struct str s) {
    if (s.len == 0 || s.p[0] != '(') return 0;
    struct str head = str_slice(s, 0, s.len < PREFIX_MAX ? s.len : PREFIX_MAX);
    ptrdiff_t end = str_find(head, STR(")"));
    return end > 0 && str_find(str_slice(head, 0, end), STR("pid=")) > 0 ? end + 1 : 0;
}

// "2024-11-20 14:37:16 " and with ",123" behind.
static ptrdiff_t time_prefix(struct str s) {
    if (s.len < 20 || s.p[4] != '-' || s.p[7] != '-' || s.p[13] != ':' || s.p[16] != ':' ||
        count_of(s, 0, digits) != 4)
        return 0;
    ptrdiff_t n = 19 + count_of(s, 19, ".,0123456789");
    return n < s.len && s.p[n] == ' ' ? n : 0;
}

// "Exception has occurred: RuntimeError" (VS Code).
static ptrdiff_t debugger_prefix(struct str s) {
    struct str head = str_of(FAILURE_DEBUGGER);
    return str_starts(s, head) ? head.len : 0;
}

static struct str bare_of(struct str s) {
    static ptrdiff_t (*const prefixes[])(struct str s) = {bracket_prefix, label_prefix, ray_prefix,
                                                          time_prefix, debugger_prefix};
    for (size_t i = 0; i < 2 * sizeof prefixes / sizeof *prefixes; i++) {
        ptrdiff_t n = prefixes[i % (sizeof prefixes / sizeof *prefixes)](s);
        if (n > 0 && n < s.len && s.p[n] == ' ') n++;
        s = str_slice(s, n, s.len);
    }
    return s;
}

static bool has(struct str line, const char *text) {
    return str_find(line, str_of(text)) >= 0;
}

// "package.Name: message" or "Name" alone. Outside of a traceback the name must end like one.
static bool is_exception(struct str bare, bool in_traceback) {
    static const char *const endings[] = {"Error", "Exception", "Interrupt", "Exit", "Failure"};
    ptrdiff_t n = 0, last = 0;
    while (n < bare.len && n < 200 && is_name(bare.p[n])) {
        if (bare.p[n++] == '.') last = n;
    }
    struct str name = str_slice(bare, last, n);
    if (n == 0 || (bare.p[0] >= '0' && bare.p[0] <= '9') || bare.p[0] == '.') return false;
    if (n < bare.len && bare.p[n] != ':') return false;
    if (n + 1 < bare.len && bare.p[n + 1] != ' ') return false;
    if (in_traceback) return true;
    struct str message = str_trim(str_slice(bare, n + 1, bare.len));
    if (message.len > 0 && count_of(message, 0, "0123456789.+-e%") == message.len)
        return false; // "MeanSquaredError: 0.0512"
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (str_ends(name, str_of(endings[i]))) return true;
    }
    return false;
}

// Frames are indented; rich draws boxes around them (UTF-8 from U+2500 on).
static bool is_inside(struct str bare) {
    return bare.len == 0 || bare.p[0] == ' ' || bare.p[0] == '\t' || bare.p[0] == '|' ||
           bare.p[0] == '^' || (unsigned char)bare.p[0] == 0xE2;
}

// "step 100 loss 1.0", "{'loss': 0.69", " 2.08it/s": only a training that goes on prints them.
static bool tells_steps(struct str bare) {
    ptrdiff_t loss = str_find(bare, STR("loss"));
    if (str_starts(bare, STR("wandb: "))) return false; // its summary, after the end
    if (has(bare, "it/s") || has(bare, "s/it")) return true;
    if (loss < 0) return false;
    loss += 4 + count_of(bare, loss + 4, " :='\"");
    return count_of(bare, loss, digits) > 0;
}

struct reader {
    struct failure_text *t;
    struct str prefix; // what a logger put before the head of this traceback, and perhaps its lines
    int chain, chains;
    bool in_traceback, is_linked, is_ignored, will_ignore;
    ptrdiff_t chain_start, told, steps;
};

// The prefix that the head had, with other figures: a logger's time, a container's.
static struct str without_prefix(const struct reader *r, const struct failure_line *line) {
    struct str p = r->prefix, s = line->text;
    if (p.len == 0 || s.len < p.len) return line->bare;
    for (ptrdiff_t i = 0; i < p.len; i++) {
        bool are_digits = strchr(digits, p.p[i]) && strchr(digits, s.p[i]);
        if (!are_digits && p.p[i] != s.p[i]) return line->bare;
    }
    return bare_of(str_slice(s, p.len, s.len));
}

static void begin_chain(struct reader *r, ptrdiff_t at) {
    r->chain = ++r->chains;
    r->chain_start = at;
    r->is_ignored = r->will_ignore;
}

static void read_head(struct reader *r, struct failure_line *line, ptrdiff_t at) {
    r->prefix = str_slice(line->text, 0, str_find(line->text, STR("Traceback (most recent")));
    if (has(line->text, "Original Traceback")) r->is_linked = true;
    if (!r->is_linked || r->chain == 0) begin_chain(r, at);
    r->in_traceback = true;
    r->is_linked = r->will_ignore = false;
}

static void read_exception(struct reader *r, struct failure_line *line, ptrdiff_t at) {
    if (!r->in_traceback) begin_chain(r, at);
    r->in_traceback = false;
    line->is_exception = true;
    line->is_ignored = r->is_ignored;
    line->chain = r->chain;
    if (r->is_ignored) return;
    r->t->last_chain = r->chain;
    r->t->last_start = r->chain_start;
    r->t->last_exception = at;
}

// What Python prints between two tracebacks that belong together, and before one that it survives.
static void read_between(struct reader *r, struct str bare) {
    if (has(bare, "During handling of the above exception") ||
        has(bare, "direct cause of the following exception") ||
        str_starts(bare, STR("-- Process ")))
        r->is_linked = true;
    else if (str_starts(bare, STR("Exception ignored in")) ||
             str_starts(bare, STR("Error in atexit.")))
        r->will_ignore = true;
    else if (bare.len > 0 && !str_starts(bare, STR("frame #"))) { // of c10's C++ stacks
        r->told++;
        r->steps += tells_steps(bare);
    }
}

static void read_line(struct reader *r, struct failure_line *line, ptrdiff_t at) {
    line->told_before = r->told;
    line->steps_before = r->steps;
    if (r->in_traceback) line->bare = without_prefix(r, line);
    if (has(line->text, "Traceback (most recent call last)")) {
        read_head(r, line, at);
    } else if (r->in_traceback && is_inside(line->bare)) {
        line->chain = r->chain;
    } else if (is_exception(line->bare, r->in_traceback)) {
        read_exception(r, line, at);
    } else {
        r->in_traceback = false;
        read_between(r, line->bare);
    }
}

struct failure_text failure_lines(struct arena *a, struct str output) {
    struct failure_text t = {.text = clean(a, output), .last_exception = -1};
    struct reader r = {.t = &t};
    struct str rest = t.text;
    while (rest.len > 0) {
        struct str line = str_cut(&rest, '\n');
        *arena_push(a, &t.lines, &t.count, &t.capacity) =
            (struct failure_line){.text = line, .bare = bare_of(line)};
    }
    for (ptrdiff_t i = 0; i < t.count; i++) read_line(&r, &t.lines[i], i);
    return t;
}
