// SPDX-License-Identifier: Apache-2.0
// Reads a tape: every line is checked against doc/formats/tape.md and the first one that breaks a
// rule is named with what was expected. Ids become numbers counted from 0, so that replaying needs
// no hashing. Texts are views into the input.
#include "base/clean.h"
#include "predict/tape/intern.h"
#include "predict/tape/tape_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 9, STREAM_MAX = 63, WORK_DETAILS_FIELD = 7 };
static const int64_t id_limit = INT64_C(1) << 62;
static const int64_t number_limit = INT64_C(1) << 62; // two of them can be added

struct reader {
    struct arena *arena;
    struct str name;
    struct tape *tape;
    struct id_map ids;
    struct text_map texts;
    struct fail *why;
    int32_t line;
    struct str fields[FIELDS_MAX]; // [0] is the keyword; the last one may hold a whole rest
    int count;
};

__attribute__((format(printf, 2, 3))) static int bad(const struct reader *r, const char *format,
                                                     ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail_set(r->why, FAIL_INPUT, "%.*s:%d: %s", STR_ARG(r->name), r->line, text);
}

// As much of a text as a message can take.
static struct str brief(struct str s) {
    return s.len <= 40 ? s : str_slice(s, 0, 40);
}

static int bad_field(const struct reader *r, int i, const char *expected) {
    struct str got = brief(r->fields[i]);
    return bad(r, "expected %s, not '%.*s'", expected, STR_ARG(got));
}

static bool parse_number(struct str s, int64_t *ret) {
    bool negative = s.len > 0 && s.p[0] == '-';
    if (s.len - negative < 1 || s.len - negative > 19) return false;
    uint64_t value = 0; // 19 digits fit
    for (ptrdiff_t i = negative; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.p[i] - '0';
        if (digit > 9) return false;
        value = value * 10 + digit;
    }
    if (value >= (uint64_t)number_limit) return false;
    *ret = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

static int read_number(const struct reader *r, int i, const char *expected, int64_t *ret) {
    return parse_number(r->fields[i], ret) ? 0 : bad_field(r, i, expected);
}

static void split(struct reader *r, const char *p, const char *end) {
    r->count = 0;
    for (bool more = true; more; p++) {
        const char *begin = p;
        bool last = r->count == FIELDS_MAX - 1;
        while (p < end && (*p != ' ' || last)) p++;
        r->fields[r->count++] = (struct str){begin, p - begin};
        more = p < end;
    }
}

static int count_fields(const struct reader *r, int least, int most, const char *form) {
    if (r->count >= least && r->count <= most) return 0;
    return bad(r, "expected \"%s\", but the line has %d field%s", form, r->count,
               r->count == 1 ? "" : "s");
}

// Printable UTF-8 (RFC 3629), so that every text can go into JSON.
static bool is_text(struct str s) {
    while (s.len > 0) {
        ptrdiff_t before = s.len;
        uint32_t c = clean_next(&s);
        bool is_broken = c == CLEAN_BROKEN && before - s.len == 1;
        if (is_broken || c < 0x20 || c == 0x7f) return false;
    }
    return true;
}

static int intern(struct reader *r, struct str text, int32_t *ret) {
    if (text.len == 0) return bad(r, "expected a name between two blanks");
    bool fresh;
    int32_t number = tape_text_map_number(&r->texts, text, &fresh);
    if (fresh && !is_text(text)) return bad(r, "expected a name in printable UTF-8");
    *ret = number;
    return 0;
}

static struct tape_event *add_event(struct reader *r, enum tape_kind kind, int32_t index) {
    struct tape_event *e = &r->tape->events[r->tape->event_count++];
    *e = (struct tape_event){.kind = (uint8_t)kind, .index = index};
    return e;
}

static int check_size(const struct reader *r, int64_t c, int64_t k) {
    if (k < 0 || c + k < 0) return bad(r, "expected a size that is never negative");
    if (c + k > TAPE_SIZE_MAX) return bad(r, "expected a size of at most 2^60 bytes at batch 1");
    const struct tape_header *h = &r->tape->header;
    for (int i = 0; i < h->batch_count; i++) {
        if ((__int128)k * h->batches[i] + c > TAPE_SIZE_MAX) {
            return bad(r, "expected a size of at most 2^60 bytes at batch %lld",
                       (long long)h->batches[i]);
        }
    }
    return 0;
}

static int read_mark(struct reader *r) {
    int64_t step = 0;
    int code = count_fields(r, 3, 3, "m PHASE STEP");
    if (code < 0) return code;
    int phase = tape_word(r->fields[1], tape_phase_names, TAPE_PHASE_COUNT);
    if (phase < 0) {
        struct str list = tape_word_list(r->arena, tape_phase_names, TAPE_PHASE_COUNT);
        return bad_field(r, 1, str_format(r->arena, "a phase (%.*s)", STR_ARG(list)).p);
    }
    code = read_number(r, 2, "the number of a step", &step);
    if (code < 0) return code;
    if (step < 0 || step > INT32_MAX) return bad_field(r, 2, "the number of a step");
    add_event(r, TAPE_MARK, (int32_t)step)->phase = (uint8_t)phase;
    return 0;
}

// "n=CN,KN"
static int read_slope(const struct reader *r, int i, struct tape_alloc *x) {
    struct str rest = str_slice(r->fields[i], 2, r->fields[i].len), first = str_cut(&rest, ',');
    if (!rest.p || !parse_number(first, &x->cn) || !parse_number(rest, &x->kn)) {
        return bad_field(r, i, "n=CN,KN with two whole numbers");
    }
    if (r->tape->header.classes < 0) {
        return bad(r, "expected no n=, since the header has no \"classes\"");
    }
    return 0;
}

// a, or a@STREAM
static int read_stream(const struct reader *r, int32_t *ret) {
    struct str word = r->fields[0];
    int64_t stream = 0;
    if (word.len > 1) {
        if (!parse_number(str_slice(word, 2, word.len), &stream) || stream < 1 ||
            stream > STREAM_MAX) {
            return bad(r, "expected a@STREAM with a stream from 1 to %d", STREAM_MAX);
        }
    }
    *ret = (int32_t)stream;
    return 0;
}

static int read_names(struct reader *r, struct tape_alloc *x) {
    int last = r->count - 1, code = 0;
    if (last >= 5 && str_starts(r->fields[last], STR("n="))) {
        code = read_slope(r, last--, x);
    }
    if (code == 0 && last > 6) return bad_field(r, 7, "n=CN,KN or nothing after MODULE");
    if (code == 0 && last >= 5 && !str_is(r->fields[5], "-")) {
        code = intern(r, r->fields[5], &x->op);
    }
    if (code == 0 && last == 6) code = intern(r, r->fields[6], &x->module);
    return code;
}

static int read_alloc(struct reader *r) {
    struct tape *t = r->tape;
    struct tape_alloc x = {.event = t->event_count, .free_event = -1};
    int code = count_fields(r, 5, 8, "a ID C K TAG [OP [MODULE]] [n=CN,KN]");
    if (code == 0) code = read_stream(r, &x.stream);
    if (code == 0) code = read_number(r, 1, "an id", &x.id);
    if (code == 0) code = read_number(r, 2, "C, a whole number", &x.c);
    if (code == 0) code = read_number(r, 3, "K, a whole number", &x.k);
    if (code == 0) code = check_size(r, x.c, x.k);
    if (code < 0) return code;
    if (x.id < 0 || x.id >= id_limit) return bad_field(r, 1, "an id from 0 to 2^62");
    int tag = tape_word(r->fields[4], tape_tag_names, TAPE_TAG_COUNT);
    if (tag < 0) {
        struct str list = tape_word_list(r->arena, tape_tag_names, TAPE_TAG_COUNT);
        return bad_field(r, 4, str_format(r->arena, "a tag (%.*s)", STR_ARG(list)).p);
    }
    x.tag = (uint8_t)tag;
    code = read_names(r, &x);
    if (code < 0) return code;
    struct id_slot *slot = tape_id_map_at(&r->ids, x.id);
    if (slot->number > 0) {
        return bad(r, "expected a new id; %lld was used on line %d", (long long)x.id,
                   t->allocs[slot->number - 1].event + 2);
    }
    add_event(r, TAPE_ALLOC, t->alloc_count);
    t->allocs[t->alloc_count++] = x;
    *slot = (struct id_slot){x.id, t->alloc_count};
    if (x.stream >= t->stream_count) t->stream_count = x.stream + 1;
    return 0;
}

static int read_free(struct reader *r) {
    int64_t id;
    int code = count_fields(r, 2, 2, "f ID");
    if (code == 0) code = read_number(r, 1, "an id", &id);
    if (code < 0) return code;
    const struct id_slot *slot = tape_id_map_at(&r->ids, id);
    if (slot->number == 0) return bad(r, "expected a live id; %lld is unknown", (long long)id);
    struct tape_alloc *x = &r->tape->allocs[slot->number - 1];
    if (x->free_event >= 0) {
        return bad(r, "expected a live id; %lld was freed on line %d", (long long)id,
                   x->free_event + 2);
    }
    x->free_event = r->tape->event_count;
    add_event(r, TAPE_FREE, slot->number - 1);
    return 0;
}

static int read_empty_cache(struct reader *r) {
    int code = count_fields(r, 1, 1, "e");
    if (code == 0) add_event(r, TAPE_EMPTY_CACHE, 0);
    return code;
}

static int read_scratch(struct reader *r) {
    struct tape_scratch s;
    int code = count_fields(r, 3, 3, "w C K");
    if (code == 0) code = read_number(r, 1, "C, a whole number", &s.c);
    if (code == 0) code = read_number(r, 2, "K, a whole number", &s.k);
    if (code == 0) code = check_size(r, s.c, s.k);
    if (code < 0) return code;
    add_event(r, TAPE_SCRATCH, r->tape->scratch_count);
    r->tape->scratches[r->tape->scratch_count++] = s;
    return 0;
}

// The rest of an `o` line, all of it key=value.
static int read_details(struct reader *r, struct tape_work *w) {
    if (r->count <= WORK_DETAILS_FIELD) return 0;
    struct str last = r->fields[r->count - 1], first = r->fields[WORK_DETAILS_FIELD];
    struct str all = {first.p, last.p + last.len - first.p}, rest = all;
    while (rest.p) {
        struct str value = str_cut(&rest, ' '), key = str_cut(&value, '=');
        if (key.len == 0 || value.len == 0) {
            key = brief(key);
            return bad(r, "expected key=value, not '%.*s'", STR_ARG(key));
        }
    }
    return intern(r, all, &w->details);
}

static int read_work(struct reader *r) {
    static const char *const names[] = {"FLOPS_C", "FLOPS_K", "BYTES_C", "BYTES_K", "N"};
    struct tape_work w = {0};
    int64_t *const numbers[] = {&w.flops_c, &w.flops_k, &w.bytes_c, &w.bytes_k, &w.count};
    int code =
        count_fields(r, 7, FIELDS_MAX, "o CLASS FLOPS_C FLOPS_K BYTES_C BYTES_K N [key=value …]");
    if (code < 0) return code;
    int class_ = tape_word(r->fields[1], tape_class_names, TAPE_CLASS_COUNT);
    if (class_ < 0) {
        struct str list = tape_word_list(r->arena, tape_class_names, TAPE_CLASS_COUNT);
        return bad_field(r, 1, str_format(r->arena, "a class (%.*s)", STR_ARG(list)).p);
    }
    w.class_ = (uint8_t)class_;
    for (int i = 0; i < 5 && code == 0; i++) code = read_number(r, i + 2, names[i], numbers[i]);
    if (code == 0 && w.count < 1) code = bad_field(r, 6, "N, a number of kernels of at least 1");
    if (code == 0) code = read_details(r, &w);
    if (code < 0) return code;
    add_event(r, TAPE_WORK, r->tape->work_count);
    r->tape->works[r->tape->work_count++] = w;
    return 0;
}

static const struct keyword {
    char letter;
    int (*read)(struct reader *);
} keywords[] = {{'a', read_alloc},       {'f', read_free},    {'m', read_mark},
                {'e', read_empty_cache}, {'w', read_scratch}, {'o', read_work}};

static int read_line(struct reader *r, const char *p, const char *end) {
    split(r, p, end);
    struct str word = r->fields[0];
    bool known = word.len == 1 || (word.len > 1 && word.p[0] == 'a' && word.p[1] == '@');
    for (size_t i = 0; known && i < sizeof keywords / sizeof *keywords; i++) {
        if (word.p[0] == keywords[i].letter) return keywords[i].read(r);
    }
    return bad_field(r, 0, "one of the keywords a f m e w o");
}

// How many lines there are of each kind, so that every array gets its exact size.
static int make_room(struct reader *r, struct str text, struct arena *scratch) {
    int64_t lines = 0, of[256] = {0};
    for (const char *p = text.p, *end = p + text.len; p < end; lines++) {
        of[(unsigned char)*p]++;
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) {
            r->line = (int32_t)(lines < INT32_MAX - 2 ? lines + 2 : INT32_MAX);
            return bad(r, "expected a line end; the file ends in the middle of a line");
        }
        p = stop + 1;
        if (lines == TAPE_EVENTS_MAX) {
            r->line = TAPE_EVENTS_MAX + 2;
            return bad(r, "expected at most %d events", TAPE_EVENTS_MAX);
        }
    }
    struct tape *t = r->tape;
    t->events = arena_new(r->arena, struct tape_event, lines);
    t->allocs = arena_new(r->arena, struct tape_alloc, of['a']);
    t->scratches = arena_new(r->arena, struct tape_scratch, of['w']);
    t->works = arena_new(r->arena, struct tape_work, of['o']);
    r->ids = tape_id_map_new(scratch, of['a']);
    r->texts = tape_text_map_new(r->arena, scratch);
    return 0;
}

static int read_lines(struct reader *r, struct str text) {
    const char *p = text.p, *end = p + text.len;
    for (r->line = 2; p < end; r->line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        int code = read_line(r, p, stop);
        if (code < 0) return code;
        p = stop + 1;
    }
    r->tape->strings = r->texts.texts;
    r->tape->string_count = (int32_t)r->texts.count;
    return 0;
}

int tape_read(struct arena *a, struct str name, struct str bytes, struct tape *ret,
              struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct tape t = {.name = name, .stream_count = 1};
    struct str text;
    int code = tape_unpack(a, name, bytes, TAPE_TEXT_MAX, true, &text, why);
    if (code == 0) code = tape_read_header(a, name, text, &t.header, why);
    if (code < 0) return code;
    struct reader r = {.arena = a, .name = name, .tape = &t, .why = why};
    text = str_slice(text, str_find(text, STR("\n")) + 1, text.len);
    code = make_room(&r, text, &scratch);
    if (code == 0) code = read_lines(&r, text);
    if (code == 0) *ret = t;
    return code;
}
