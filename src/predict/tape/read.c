// SPDX-License-Identifier: Apache-2.0
// Reads a tape: every line is checked against doc/formats/tape.md and the first one that breaks a
// rule is named with what was expected. Ids become numbers counted from 0, so that replaying needs
// no hashing. Texts are views into the input.
#include "predict/tape/host.h"
#include "predict/tape/intern.h"
#include "predict/tape/line.h"
#include "predict/tape/packed.h"
#include "predict/tape/tape_int.h"

#include <string.h>

enum { WORK_DETAILS_FIELD = 7 };
static const int64_t id_limit = INT64_C(1) << 62;

struct reader {
    struct arena *arena;
    struct tape_line in;
    struct tape *tape;
    struct id_map ids;
    struct text_map texts;
};

static int intern(struct reader *r, struct str text, int32_t *ret) {
    if (text.len == 0) return tape_line_bad(&r->in, "expected a name between two blanks");
    bool fresh;
    int32_t number = tape_text_map_number(&r->texts, text, &fresh);
    if (fresh && !tape_is_text(text))
        return tape_line_bad(&r->in, "expected a name in printable UTF-8");
    *ret = number;
    return 0;
}

static struct tape_event *add_event(struct reader *r, enum tape_kind kind, int32_t index) {
    struct tape_event *e = &r->tape->events[r->tape->event_count++];
    *e = (struct tape_event){.kind = (uint8_t)kind, .index = index};
    return e;
}

static int check_size(const struct reader *r, int64_t c, int64_t k) {
    int64_t batch = tape_size_wrong_at(&r->tape->header, c, k);
    if (batch == 0) return 0;
    if (batch < 0) return tape_line_bad(&r->in, "expected a size that is never negative");
    return tape_line_bad(&r->in, "expected a size of at most 2^60 bytes at batch %lld",
                         (long long)batch);
}

static int read_mark(struct reader *r) {
    uint8_t phase;
    int32_t step;
    int code = tape_line_mark(&r->in, r->arena, &phase, &step);
    if (code == 0) add_event(r, TAPE_MARK, step)->phase = phase;
    return code;
}

// "n=CN,KN"
static int read_slope(const struct reader *r, int i, struct tape_alloc *x) {
    struct str rest = str_slice(r->in.fields[i], 2, r->in.fields[i].len),
               first = str_cut(&rest, ',');
    if (!rest.p || !tape_parse_number(first, &x->cn) || !tape_parse_number(rest, &x->kn)) {
        return tape_line_bad_field(&r->in, i, "n=CN,KN with two whole numbers");
    }
    if (!tape_has_slopes(&r->tape->header)) {
        return tape_line_bad(&r->in, "expected no n=, since the header has no \"classes\"");
    }
    return 0;
}

static int read_names(struct reader *r, struct tape_alloc *x) {
    int last = r->in.count - 1, code = 0;
    if (last >= 5 && str_starts(r->in.fields[last], STR("n="))) {
        code = read_slope(r, last--, x);
    }
    if (code == 0 && last > 6)
        return tape_line_bad_field(&r->in, 7, "n=CN,KN or nothing after MODULE");
    if (code == 0 && last >= 5 && !str_is(r->in.fields[5], "-")) {
        code = intern(r, r->in.fields[5], &x->op);
    }
    if (code == 0 && last == 6) code = intern(r, r->in.fields[6], &x->module);
    return code;
}

static int read_alloc(struct reader *r) {
    struct tape *t = r->tape;
    struct tape_alloc x = {.event = t->event_count, .free_event = -1};
    int code = tape_line_count(&r->in, 5, 8, "a ID C K TAG [OP [MODULE]] [n=CN,KN]");
    if (code == 0) code = tape_line_stream(&r->in, &x.stream);
    if (code == 0) code = tape_line_number(&r->in, 1, "an id", &x.id);
    if (code == 0) code = tape_line_number(&r->in, 2, "C, a whole number", &x.c);
    if (code == 0) code = tape_line_number(&r->in, 3, "K, a whole number", &x.k);
    if (code == 0) code = check_size(r, x.c, x.k);
    if (code < 0) return code;
    if (x.id < 0 || x.id >= id_limit) return tape_line_bad_field(&r->in, 1, "an id from 0 to 2^62");
    code = tape_line_word(&r->in, r->arena, 4, "a tag", tape_tag_names, TAPE_TAG_WORDS, &x.tag);
    if (code < 0) return code;
    if (x.tag >= TAPE_TAG_COUNT && x.k != 0)
        return tape_line_bad_field(&r->in, 3, "K 0: of the host nothing depends on the batch");
    code = read_names(r, &x);
    if (code < 0) return code;
    struct id_slot *slot = tape_id_map_at(&r->ids, x.id);
    if (slot->number > 0) {
        return tape_line_bad(&r->in, "expected a new id; %lld was used on line %d", (long long)x.id,
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
    int code = tape_line_count(&r->in, 2, 2, "f ID");
    if (code == 0) code = tape_line_number(&r->in, 1, "an id", &id);
    if (code < 0) return code;
    const struct id_slot *slot = tape_id_map_at(&r->ids, id);
    if (slot->number == 0)
        return tape_line_bad(&r->in, "expected a live id; %lld is unknown", (long long)id);
    struct tape_alloc *x = &r->tape->allocs[slot->number - 1];
    if (x->free_event >= 0) {
        return tape_line_bad(&r->in, "expected a live id; %lld was freed on line %d", (long long)id,
                             x->free_event + 2);
    }
    x->free_event = r->tape->event_count;
    add_event(r, TAPE_FREE, slot->number - 1);
    return 0;
}

static int read_empty_cache(struct reader *r) {
    int code = tape_line_count(&r->in, 1, 1, "e");
    if (code == 0) add_event(r, TAPE_EMPTY_CACHE, 0);
    return code;
}

static int read_scratch(struct reader *r) {
    struct tape_scratch s;
    int code = tape_line_count(&r->in, 3, 3, "w C K");
    if (code == 0) code = tape_line_number(&r->in, 1, "C, a whole number", &s.c);
    if (code == 0) code = tape_line_number(&r->in, 2, "K, a whole number", &s.k);
    if (code == 0) code = check_size(r, s.c, s.k);
    if (code < 0) return code;
    add_event(r, TAPE_SCRATCH, r->tape->scratch_count);
    r->tape->scratches[r->tape->scratch_count++] = s;
    return 0;
}

// The rest of an `o` line, all of it key=value.
static int read_details(struct reader *r, struct tape_work *w) {
    if (r->in.count <= WORK_DETAILS_FIELD) return 0;
    struct str last = r->in.fields[r->in.count - 1], first = r->in.fields[WORK_DETAILS_FIELD];
    struct str all = {first.p, last.p + last.len - first.p};
    int code = tape_line_details(&r->in, all);
    return code < 0 ? code : intern(r, all, &w->details);
}

static int read_work(struct reader *r) {
    static const char *const names[] = {"FLOPS_C", "FLOPS_K", "BYTES_C", "BYTES_K", "N"};
    struct tape_work w = {0};
    int64_t *const numbers[] = {&w.flops_c, &w.flops_k, &w.bytes_c, &w.bytes_k, &w.count};
    int code = tape_line_count(&r->in, 7, TAPE_FIELDS_MAX,
                               "o CLASS FLOPS_C FLOPS_K BYTES_C BYTES_K N [key=value …]");
    if (code == 0)
        code = tape_line_word(&r->in, r->arena, 1, "a class", tape_class_names, TAPE_CLASS_COUNT,
                              &w.class_);
    for (int i = 0; i < 5 && code == 0; i++)
        code = tape_line_number(&r->in, i + 2, names[i], numbers[i]);
    if (code == 0 && w.count < 1)
        code = tape_line_bad_field(&r->in, 6, "N, a number of kernels of at least 1");
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
    tape_line_split(&r->in, p, end);
    struct str word = r->in.fields[0];
    bool known = word.len == 1 || (word.len > 1 && word.p[0] == 'a' && word.p[1] == '@');
    for (size_t i = 0; known && i < sizeof keywords / sizeof *keywords; i++) {
        if (word.p[0] == keywords[i].letter) return keywords[i].read(r);
    }
    return tape_line_bad_field(&r->in, 0, "one of the keywords a f m e w o");
}

// How many lines there are of each kind, so that every array gets its exact size.
static int make_room(struct reader *r, struct str text, struct arena *scratch) {
    int64_t lines = 0, of[256] = {0};
    for (const char *p = text.p, *end = p + text.len; p < end; lines++) {
        of[(unsigned char)*p]++;
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) {
            r->in.line = (int32_t)(lines < INT32_MAX - 2 ? lines + 2 : INT32_MAX);
            return tape_line_bad(&r->in,
                                 "expected a line end; the file ends in the middle of a line");
        }
        p = stop + 1;
        if (lines == TAPE_EVENTS_MAX) {
            r->in.line = TAPE_EVENTS_MAX + 2;
            return tape_line_bad(&r->in, "expected at most %d events", TAPE_EVENTS_MAX);
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
    for (r->in.line = 2; p < end; r->in.line++) {
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
    struct reader r = {.arena = a, .in = {.name = name, .why = why}, .tape = &t};
    text = str_slice(text, str_find(text, STR("\n")) + 1, text.len);
    bool is_packed = tape_is_packed(text);
    code = is_packed ? tape_read_packed(a, text, &t, why) : make_room(&r, text, &scratch);
    if (code == 0 && !is_packed) code = read_lines(&r, text);
    if (code == 0) tape_host_leave(&t);
    if (code == 0) *ret = t;
    return code;
}
