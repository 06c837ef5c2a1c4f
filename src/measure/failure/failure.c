// SPDX-License-Identifier: Apache-2.0
// Decides how a training ended: all rows of the table that are found, in lines that may decide, and
// of those the one of the highest rank. Which line may decide is what tells a cause from an error
// that was handled: the last chain of tracebacks does; earlier ones only when the last one merely
// reports that somebody else failed, or when the program did not go on after them; log lines only
// when no exception of the program's own came after. Exit status 0 is a good end, whatever was
// printed.
#include "measure/failure/failure_int.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
    LAST_LINES = 12,
    LINES_AFTER = 3,      // of them, at most so many after the line that decided
    WENT_ON = 20,         // so many lines of output after an exception: it was handled
    WENT_ON_IN_LOG = 100, // the same up to the end of a log whose exit status is unknown
    SAID_ON = 10,         // … after "Error: " of a program's own, which no exception of Python is
    RANKS_TELL = 1000,    // … which ends with what other ranks say when one of them failed
    MESSAGE_LINES = 6,    // a message that was wrapped at a narrow terminal
};

struct hit {
    const struct failure_signature *row;
    ptrdiff_t line; // -1: none
};

struct ruling {
    struct arena *arena;
    const struct failure_facts *facts;
    struct failure_text t;
    struct hit *hits;
    ptrdiff_t count, capacity;
    const struct failure_signature **rows; // by line, the best that stands in it; NULL: none
    bool last_is_symptom; // the last exception only reports that somebody else failed
    bool last_is_own;     // … has no row
    bool last_is_rank;    // … is another rank's that misses its partner
    struct hit best;
};

const char *failure_stop_text(enum failure_class kind) {
    static const char *const texts[] = {
        [FAILURE_ENOUGH] = "made all its steps and was stopped",
        [FAILURE_NO_START] = "made no step within the start limit",
        [FAILURE_BLIND] = "trains where batchfit cannot see it",
        [FAILURE_LEFT] = "ended and left a process in the background",
        [FAILURE_STALLED] = "stalled: made no more steps",
        [FAILURE_TIME_UP] = "was stopped at its time limit",
        [FAILURE_INTERRUPTED] = "was interrupted",
        [FAILURE_RANK_LOST] = "a rank died and the others waited for it",
        [FAILURE_ASKED] = "was stopped to continue with another batch",
        [FAILURE_REFUSED] = "kept asking for memory beyond its limit",
    };
    return texts[kind];
}

// The signal that ended it, also when a shell tells by 128 + N; 0: none.
static int deadly_signal(const struct failure_facts *f) {
    if (!f->has_status) return 0;
    if (WIFSIGNALED(f->status)) return WTERMSIG(f->status);
    int code = WIFEXITED(f->status) ? WEXITSTATUS(f->status) : 0;
    return code > 128 && code <= 128 + 31 ? code - 128 : 0;
}

static bool is_clean(const struct failure_facts *f) {
    return f->has_status && WIFEXITED(f->status) && WEXITSTATUS(f->status) == 0;
}

const struct failure_signature *failure_signature(int index) {
    static const struct failure_signature *const parts[] = {
        failure_signatures_memory, failure_signatures_setup, failure_signatures_ended};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (const struct failure_signature *row = parts[i]; row->id; row++) {
            if (index-- == 0) return row;
        }
    }
    return NULL;
}

const struct failure_signature *failure_signature_named(struct str id) {
    const struct failure_signature *row = NULL;
    for (int i = 0; (row = failure_signature(i)) && !str_is(id, row->id);) i++;
    return row;
}

static ptrdiff_t line_at(const struct failure_text *t, const char *p) {
    ptrdiff_t low = 0, high = t->count - 1;
    while (low < high) {
        ptrdiff_t middle = low + (high - low + 1) / 2;
        if (t->lines[middle].text.p <= p)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// One part of a row's text: '^' and '$' are places, the rest stands in the line.
static bool part_matches(struct str part, const struct failure_line *line) {
    bool begins = str_starts(part, STR("^")), ends = str_ends(part, STR("$"));
    struct str text = str_slice(part, begins, part.len - ends);
    if (begins && ends) return str_equal(str_trim(line->bare), text);
    if (begins) return str_starts(line->bare, text);
    if (ends) return str_ends(str_trim(line->text), text);
    return str_find(line->text, text) >= 0;
}

static bool all_parts_match(struct str texts, const struct failure_line *line) {
    while (texts.len > 0) {
        if (!part_matches(str_cut(&texts, '&'), line)) return false;
    }
    return true;
}

static void note(struct ruling *r, const struct failure_signature *row, ptrdiff_t line) {
    *arena_push(r->arena, &r->hits, &r->count, &r->capacity) = (struct hit){row, line};
    if (!r->rows[line] || row->rank > r->rows[line]->rank) r->rows[line] = row;
}

static void find_texts(struct ruling *r, const struct failure_signature *row,
                       struct str alternative) {
    struct str first = alternative, part = str_cut(&first, '&');
    struct str needle =
        str_slice(part, str_starts(part, STR("^")), part.len - str_ends(part, STR("$")));
    struct str rest = r->t.text;
    for (;;) {
        ptrdiff_t found = str_find(rest, needle);
        if (found < 0 || r->t.count == 0) return;
        ptrdiff_t line = line_at(&r->t, rest.p + found);
        struct str text = r->t.lines[line].text;
        if (all_parts_match(alternative, &r->t.lines[line])) note(r, row, line);
        rest = str_slice(rest, text.p + text.len - rest.p, rest.len);
    }
}

static void find_rows(struct ruling *r) {
    r->rows = arena_new(r->arena, const struct failure_signature *, r->t.count);
    const struct failure_signature *row;
    for (int i = 0; (row = failure_signature(i)); i++) {
        struct str texts = str_of(row->texts);
        while (texts.len > 0) find_texts(r, row, str_cut(&texts, '\n'));
    }
}

// "RuntimeError:" (a debugger's and a notebook's without the colon) whose message begins on the
// next line; -1: it has none.
static ptrdiff_t message_of(const struct failure_text *t, ptrdiff_t exception) {
    struct str head = str_trim(t->lines[exception].bare);
    if (!str_ends(head, STR(":")) && str_find(head, STR(":")) >= 0) return -1;
    for (ptrdiff_t i = exception + 1; i < t->count && i <= exception + MESSAGE_LINES; i++) {
        if (t->lines[i].chain > 0) return -1;
        if (str_trim(t->lines[i].bare).len > 0) return i;
    }
    return -1;
}

// Such an exception is what its message is. Behind a bare name may also stand what a launcher says
// of it, which is no message.
static void find_messages(struct ruling *r) {
    for (ptrdiff_t i = 0; i < r->t.count; i++) {
        ptrdiff_t message = r->t.lines[i].is_exception && !r->rows[i] ? message_of(&r->t, i) : -1;
        const struct failure_signature *row = message >= 0 ? r->rows[message] : NULL;
        if (row && row->rank >= RANK_SETUP) r->rows[i] = row;
    }
}

// A log line of a program that deals with it: fairseq's "ran out of memory, skipping batch",
// Ultralytics' "CUDA out of memory with batch=16. Reducing to batch=8 and retrying".
static bool is_notice(struct str line) {
    static const char *const words[] = {
        "WARNING",
        "skipping",
        " retry",
        "Retrying",
        "educing batch",
        "educing the batch",
        "educing to ",
        // docker inspect of a container that was not killed
        "\"OOMKilled\": false",
        NULL,
    };
    return str_has_one_of(line, words);
}

// What Python's warnings module prints, "image.py:13: UserWarning: …": nothing failed. That CUDA
// did not start is only told so.
static bool is_python_warning(struct str line) {
    ptrdiff_t at = str_find(line, STR("Warning: "));
    if (at <= 0 || str_find(line, STR("CUDA initialization: ")) > at) return false;
    while (at > 0 && str_is_alnum(line.p[at - 1])) at--;
    struct str before = str_slice(line, 0, at);
    return str_ends(before, STR(": ")) && str_find(before, STR(":")) < before.len - 2;
}

// The line that warned, which warnings prints below: the program's source.
static bool is_warned_source(const struct ruling *r, ptrdiff_t at) {
    return at > 0 && str_starts(r->t.lines[at].bare, STR("  ")) &&
           is_python_warning(r->t.lines[at - 1].text);
}

// Advice, not an event: "If you see CUDA out of memory, …".
static bool is_advice(const struct failure_line *line) {
    return str_starts(str_trim(line->bare), STR("If "));
}

// What stands before both is the same, a logger's time apart: "[rank0]: " is not "[rank1]: ".
static bool are_of_one_rank(const struct failure_line *one, const struct failure_line *other) {
    struct str p = str_slice(one->text, 0, one->text.len - one->bare.len);
    struct str q = str_slice(other->text, 0, other->text.len - other->bare.len);
    bool are_times = p.len > 4 && q.len > 4 && p.p[4] == '-' && q.p[4] == '-';
    return are_times || str_equal(p, q);
}

// The program printed much more after it, or made steps.
static bool is_survived(const struct ruling *r, ptrdiff_t line) {
    const struct failure_text *t = &r->t;
    ptrdiff_t told = t->lines[line].told_before;
    bool is_own_word = !r->rows[line] && str_starts(t->lines[line].bare, STR("Error: "));
    ptrdiff_t most = r->last_is_rank ? RANKS_TELL : is_own_word ? SAID_ON : WENT_ON_IN_LOG;
    if (!r->facts->has_status && t->lines[t->count - 1].told_before - told > most) return true;
    if (t->last_exception < 0 || line >= t->last_start || r->last_is_symptom) return false;
    const struct failure_line *last = &t->lines[t->last_start], *at = &t->lines[line];
    return last->told_before - told > WENT_ON ||
           (at->is_exception && last->steps_before > at->steps_before &&
            are_of_one_rank(at, &t->lines[t->last_exception]));
}

// "torch.OutOfMemoryError: …, skipping batch", without a traceback: of a program that deals with
// it.
static bool is_noticed(const struct ruling *r, ptrdiff_t at) {
    const struct failure_line *line = &r->t.lines[at];
    bool has_traceback = at > 0 && r->t.lines[at - 1].chain == line->chain;
    return !has_traceback && is_notice(line->text);
}

static bool may_decide(const struct ruling *r, const struct failure_signature *row, ptrdiff_t at) {
    const struct failure_line *line = &r->t.lines[at];
    const struct failure_facts *f = r->facts;
    if (line->is_ignored || is_survived(r, at)) return false;
    if (row && row->is_kernels && f->system_oom_kills == 0 && f->oom_kills <= 0) return false;
    if (line->is_exception) return !is_noticed(r, at);
    if (line->chain > 0 || is_notice(line->text) || is_advice(line))
        return false; // a frame's source text, or a log line
    if (row && row->rank > RANK_WARNED && is_python_warning(line->text)) return false;
    if (is_warned_source(r, at)) return false;
    if (row && row->is_early) return true;
    return at >= r->t.last_start || r->last_is_symptom || r->t.last_exception < 0;
}

static void take(struct ruling *r, const struct failure_signature *row, ptrdiff_t line) {
    if (r->best.row &&
        (row->rank < r->best.row->rank || (row->rank == r->best.row->rank && line < r->best.line)))
        return;
    r->best = (struct hit){row, line};
}

// The last exception that may decide and that no row names; -1: none.
static ptrdiff_t own_exception(const struct ruling *r) {
    if (!r->last_is_own && !r->last_is_symptom) return -1;
    for (ptrdiff_t i = r->t.count - 1; i >= 0; i--) {
        if (r->t.lines[i].is_exception && may_decide(r, NULL, i) && !r->rows[i]) return i;
    }
    return -1;
}

static bool is_killed(const struct ruling *r, ptrdiff_t *ret_line) {
    if (deadly_signal(r->facts) == SIGKILL) return true;
    for (ptrdiff_t i = r->count - 1; i >= 0; i--) {
        bool says_so = strcmp(r->hits[i].row->id, "killed") == 0;
        if (says_so && may_decide(r, r->hits[i].row, r->hits[i].line)) {
            *ret_line = r->hits[i].line;
            return true;
        }
    }
    return false;
}

static bool is_crash(int s) {
    return s == SIGSEGV || s == SIGABRT || s == SIGFPE || s == SIGILL;
}

// "KeyError: 'pos_text'": of the types that Python raises for a mistake in a program.
static bool is_mistake(struct str exception) {
    static const char types[] =
        "ArithmeticError AssertionError AttributeError EOFError FloatingPointError "
        "IndentationError IndexError KeyError LookupError NameError NotImplementedError "
        "OverflowError RecursionError StopIteration SyntaxError TabError TypeError "
        "UnboundLocalError UnicodeDecodeError UnicodeEncodeError ValueError ZeroDivisionError";
    return str_has_word(str_of(types), str_trim(str_cut(&exception, ':')));
}

// Rows that no text finds: whether each is so, and perhaps the line that shows it.
static void find_facts(struct ruling *r) {
    const struct failure_facts *f = r->facts;
    const int signal = deadly_signal(f);
    const ptrdiff_t own = own_exception(r);
    ptrdiff_t killed_at = -1;
    const bool is_dead = is_killed(r, &killed_at), is_crashed = is_crash(signal);
    // An extension that failed without saying why: so Python's own modules end, too, when they find
    // no memory ("SystemError: error return without exception set").
    const bool is_mute = own >= 0 && str_starts(r->t.lines[own].bare, STR("SystemError: "));
    const struct {
        const char *id;
        bool is_so;
        ptrdiff_t line;
    } rows[] = {
        {"cgroup-oom-kill", f->oom_kills > 0, -1},
        {"system-oom-kill", f->system_oom_kills > 0 && is_dead, killed_at},
        {"limit-crash", f->memory_limit_bytes > 0 && (is_crashed || is_mute),
         is_crashed ? -1 : own},
        {"limit-spin", f->is_refused, -1},
        {"limit-over", f->is_over, -1},
        {"bus-error", signal == SIGBUS, -1},
        {"crash", is_crashed && signal != SIGABRT, -1},
        {"abort", signal == SIGABRT, -1},
        {"killed", is_dead, killed_at},
        {"interrupted", signal == SIGINT || signal == SIGTERM || signal == SIGHUP, -1},
        {"signal", signal != 0, -1},
        {"own-error", own >= 0 && is_mistake(r->t.lines[own].bare), own},
        {"unknown-error", own >= 0, own},
        {"exit-status", f->has_status && !is_clean(f), -1},
        {"clean", true, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct failure_signature *row = failure_signature_named(str_of(rows[i].id));
        bool is_better = !r->best.row || row->rank > r->best.row->rank;
        if (is_better && rows[i].is_so) r->best = (struct hit){row, rows[i].line};
    }
}

static void rule(struct ruling *r) {
    find_rows(r);
    find_messages(r);
    if (r->t.last_exception >= 0) {
        const struct failure_signature *row = r->rows[r->t.last_exception];
        r->last_is_own = !row;
        r->last_is_symptom = row && row->rank <= RANK_KILLED;
        r->last_is_rank = row && row->kind == FAILURE_COMMUNICATION;
    }
    for (ptrdiff_t i = 0; i < r->count; i++) {
        if (may_decide(r, r->hits[i].row, r->hits[i].line))
            take(r, r->hits[i].row, r->hits[i].line);
    }
    find_facts(r);
}

// A later traceback that does not belong to the line that decided, and neither only tells that
// somebody else failed nor is of the same kind: two attempts in one log, or an error that was
// handled.
static struct str later_line(const struct ruling *r) {
    const ptrdiff_t last = r->t.last_exception, best = r->best.line;
    const struct str none = {0};
    if (best < 0 || last < 0 || best >= r->t.last_start || r->last_is_symptom) return none;
    const struct failure_line *line = &r->t.lines[best];
    bool is_other = r->best.row->kind != FAILURE_COMMUNICATION && r->rows[last] != r->best.row &&
                    (line->chain == 0 || line->chain != r->t.last_chain) &&
                    str_find(r->t.lines[last].bare, STR("OutOfMemory")) < 0;
    return is_other ? r->t.lines[last].text : none;
}

// The last error of memory before the end that did not bring it about.
static struct str handled_line(const struct ruling *r) {
    const struct failure_signature *best = r->best.row;
    const struct failure_line *found = NULL;
    if (!best || best->kind == FAILURE_CLEAN || best->kind == FAILURE_MEMORY)
        return (struct str){0};
    for (ptrdiff_t i = 0; i < r->count; i++) {
        const struct failure_line *line = &r->t.lines[r->hits[i].line];
        bool is_event = line->is_exception || (line->chain == 0 && is_notice(line->text));
        if (r->hits[i].row->kind != FAILURE_MEMORY || !is_event ||
            r->hits[i].line >= r->t.last_start)
            continue;
        if (!found || line > found) found = line;
    }
    return found ? found->text : (struct str){0};
}

// From one line on, at most so many more, up to the next that is empty or begins a traceback.
static struct str lines_from(const struct failure_text *t, ptrdiff_t first, ptrdiff_t more) {
    ptrdiff_t last = first;
    while (last + 1 < t->count && last < first + more &&
           str_trim(t->lines[last + 1].bare).len > 0 && t->lines[last + 1].chain == 0)
        last++;
    const char *end = t->lines[last].text.p + t->lines[last].text.len;
    return (struct str){t->lines[first].text.p, end - t->lines[first].text.p};
}

static struct str last_lines(struct arena *a, const struct failure_text *t, ptrdiff_t decided) {
    ptrdiff_t end = t->count, first, wanted = LAST_LINES;
    struct buf b = buf_new(a);
    if (decided >= 0 && decided + 1 + LINES_AFTER < end) end = decided + 1 + LINES_AFTER;
    while (end > 0 && str_trim(t->lines[end - 1].text).len == 0) end--;
    for (first = end; first > 0 && wanted > 0; first--) {
        wanted -= str_trim(t->lines[first - 1].text).len > 0;
    }
    for (ptrdiff_t i = first; i < end; i++) {
        if (str_trim(t->lines[i].text).len == 0) continue;
        buf_add(&b, t->lines[i].text);
        buf_byte(&b, '\n');
    }
    return buf_str(&b);
}

// The deciding one, else the last that says why, else the last.
static ptrdiff_t told_exception(const struct ruling *r) {
    if (r->best.line >= 0 && r->t.lines[r->best.line].is_exception) return r->best.line;
    ptrdiff_t own = own_exception(r);
    return own >= 0 ? own : r->t.last_exception;
}

// The deciding one, or its message.
static ptrdiff_t told_line(const struct ruling *r) {
    bool is_head = r->t.lines[r->best.line].is_exception && !r->rows[r->best.line];
    ptrdiff_t message = is_head ? message_of(&r->t, r->best.line) : -1;
    return message >= 0 ? message : r->best.line;
}

static void read_numbers(const struct ruling *r, struct failure *e) {
    e->numbers = (struct failure_numbers){-1, -1, -1, -1, -1, -1, -1, -1};
    if (r->best.line < 0 || e->signature->kind != FAILURE_MEMORY) return;
    if (!failure_read_numbers(e->line, &e->numbers))
        failure_read_numbers(lines_from(&r->t, r->best.line, MESSAGE_LINES), &e->numbers);
    else if (e->numbers.total_bytes < 0)
        failure_read_numbers(lines_from(&r->t, r->best.line, MESSAGE_LINES), &e->numbers);
    e->cause = failure_cause_of(&e->numbers);
}

void failure_classify(struct arena *a, struct str output, const struct failure_facts *facts,
                      struct failure *ret_ending) {
    struct ruling r = {.arena = a, .facts = facts, .best.line = -1};
    struct failure e = {.exit_status = -1};
    r.t = failure_lines(a, output);
    if (is_clean(facts))
        r.best = (struct hit){failure_signature_named(STR("clean")), -1};
    else
        rule(&r);
    e.signature = r.best.row;
    if (r.best.line >= 0) e.line = r.t.lines[told_line(&r)].text;
    if (r.best.line >= 0)
        e.subject = failure_subject(r.best.row, lines_from(&r.t, told_line(&r), MESSAGE_LINES));
    ptrdiff_t exception = is_clean(facts) ? -1 : told_exception(&r);
    if (exception >= 0) e.exception = r.t.lines[exception].bare;
    e.last_lines = last_lines(a, &r.t, r.best.line);
    e.later = later_line(&r);
    e.handled = handled_line(&r);
    read_numbers(&r, &e);
    if (facts->has_status && WIFSIGNALED(facts->status)) e.signal = WTERMSIG(facts->status);
    if (facts->has_status && WIFEXITED(facts->status)) e.exit_status = WEXITSTATUS(facts->status);
    *ret_ending = e;
}
