// SPDX-License-Identifier: Apache-2.0
// Reads a template, line by line as a tape is read.
#include "predict/tape/template_int.h"

#include "predict/tape/intern.h"
#include "predict/tape/line.h"
#include "predict/tape/tape_int.h"

#include <string.h>

struct reader {
    struct arena *arena;
    struct tape_line in;
    struct tape_template *t;
    ptrdiff_t piece_count, piece_capacity, name_count, name_capacity;
    struct text_map texts; // of names, and the name that each was read as last
    int32_t *name_of;
    ptrdiff_t text_count, text_capacity;
    int32_t open[TAPE_LOOP_DEPTH]; // blocks that are not closed
    int depth;
    int32_t last; // the op of the last allocation; -1: none since a block was closed
};

static uint32_t dimensions(const struct reader *r) {
    uint32_t all = 0;
    for (int i = 0; i < TAPE_DIM_COUNT; i++) {
        if (r->t->bounds[i].most > 0) all |= 1u << i;
    }
    return all;
}

// Those of the header, and the iterations of open blocks.
static uint32_t allowed(const struct reader *r, bool batch) {
    uint32_t all = dimensions(r);
    for (int i = 0; i < r->depth; i++) all |= 1u << r->t->ops[r->open[i]].symbol;
    return batch ? all : all & ~(1u << TAPE_DIM_BATCH);
}

static int read_text(struct reader *r, struct str text, bool batch, struct tape_expr *ret) {
    const char *wrong = tape_expr_read(r->arena, &r->t->pool, text, allowed(r, batch), ret);
    if (!wrong) return 0;
    struct str got = tape_brief(text);
    return tape_line_bad(&r->in, "expected %s in '%.*s'", wrong, STR_ARG(got));
}

static int read_expr(struct reader *r, int field, bool batch, struct tape_expr *ret) {
    return read_text(r, r->in.fields[field], batch, ret);
}

static struct tape_op *add_op(struct reader *r, int kind) {
    struct tape_op *op = &r->t->ops[r->t->op_count++];
    *op = (struct tape_op){.kind = (uint8_t)kind};
    return op;
}

static struct tape_piece *add_piece(struct reader *r) {
    return arena_push(r->arena, &r->t->pieces, &r->piece_count, &r->piece_capacity);
}

// Texts and {expressions} in turn.
static int read_pieces(struct reader *r, struct str text, struct tape_name *ret) {
    *ret = (struct tape_name){.piece = (int32_t)r->piece_count};
    for (; text.len > 0; ret->count++) {
        ptrdiff_t open = str_find(text, STR("{")), close = str_find(text, STR("}"));
        if (open != 0) {
            ptrdiff_t end = open < 0 ? text.len : open;
            if (close >= 0 && close < end) return tape_line_bad(&r->in, "expected '{' before '}'");
            *add_piece(r) = (struct tape_piece){.text = str_slice(text, 0, end)};
            text = str_slice(text, end, text.len);
            continue;
        }
        struct tape_piece p = {.is_value = true};
        if (close < 0) return tape_line_bad(&r->in, "expected '}' after '{'");
        int code = read_text(r, str_slice(text, 1, close), false, &p.value);
        if (code < 0) return code;
        *add_piece(r) = p;
        text = str_slice(text, close + 1, text.len);
    }
    return 0;
}

static int read_name(struct reader *r, struct str text, int32_t *ret) {
    struct tape_name name;
    if (text.len == 0) return tape_line_bad(&r->in, "expected a name between two blanks");
    if (!tape_is_text(text)) return tape_line_bad(&r->in, "expected a name in printable UTF-8");
    bool is_new;
    int32_t number = tape_text_map_number(&r->texts, text, &is_new);
    if (is_new) *arena_push(r->texts.keep, &r->name_of, &r->text_count, &r->text_capacity) = 0;
    *ret = r->name_of[number - 1];
    // An equal one is the same name where the same iterations are open.
    if (!is_new && r->t->names[*ret].allowed == allowed(r, false)) return 0;
    int code = read_pieces(r, text, &name);
    if (code < 0) return code;
    name.allowed = allowed(r, false);
    *ret = r->name_of[number - 1] = (int32_t)r->name_count;
    *arena_push(r->arena, &r->t->names, &r->name_count, &r->name_capacity) = name;
    return 0;
}

// n=SIZE, of chunks of a loss n=SIZE,SIZE
static int read_slope(struct reader *r, struct str text, struct tape_op *x) {
    bool has_rows = tape_is_by_rows(&r->t->header);
    if (r->t->header.classes < 0 && !has_rows)
        return tape_line_bad(&r->in, "expected no n=, since the header has no \"classes\"");
    struct str first = str_cut(&text, ',');
    if ((text.p != NULL) != has_rows)
        return tape_line_bad(&r->in, "expected n=%s", has_rows ? "SIZE,SIZE" : "SIZE");
    int code = read_text(r, first, !has_rows, &x->more);
    return code == 0 && has_rows ? read_text(r, text, false, &x->second) : code;
}

// [OP [MODULE]] [n=SIZE]
static int read_names(struct reader *r, struct tape_op *x) {
    int last = r->in.count - 1, code = 0;
    struct str word = r->in.fields[last];
    if (last >= 4 && str_starts(word, STR("n="))) {
        code = read_slope(r, str_slice(word, 2, word.len), x);
        last--;
    }
    if (code == 0 && last > 5)
        return tape_line_bad_field(&r->in, 6, "n=SIZE or nothing after MODULE");
    for (int i = 4; i <= last && code == 0; i++) {
        word = r->in.fields[i];
        if (str_starts(word, STR("n="))) return tape_line_bad(&r->in, "expected a name, not n=");
        if (i == 5 || !str_is(word, "-")) code = read_name(r, word, i == 4 ? &x->op : &x->module);
    }
    return code;
}

// By how much an id is more than the last allocation's: "+" of one, "-12" of a free. False: it is
// an expression of its own.
static bool is_relative(struct str text, bool is_alloc, int64_t *ret) {
    *ret = 1;
    if (is_alloc) return str_is(text, "+");
    return str_starts(text, STR("-")) && tape_parse_number(text, ret);
}

// The id of the op that is added next.
static int read_id(struct reader *r, struct tape_op *x) {
    x->id_op = r->t->op_count;
    bool is_alloc = x->kind == TAPE_ALLOC;
    if (!is_relative(r->in.fields[1], is_alloc, &x->id_more)) {
        x->id_more = 0;
        return read_expr(r, 1, false, &x->id);
    }
    if (r->last < 0)
        return tape_line_bad(&r->in,
                             "expected an id: no allocation of an open block stands before");
    x->id_op = r->t->ops[r->last].id_op;
    x->id_more += r->t->ops[r->last].id_more;
    return 0;
}

static int read_alloc(struct reader *r) {
    int code = tape_line_count(&r->in, 4, 7, "a ID SIZE TAG [OP [MODULE]] [n=SIZE]");
    struct tape_op x = {.kind = TAPE_ALLOC};
    if (code == 0) code = tape_line_stream(&r->in, &x.stream);
    if (code == 0) code = read_id(r, &x);
    if (code == 0) code = read_expr(r, 2, true, &x.size);
    if (code == 0)
        code = tape_line_word(&r->in, r->arena, 3, "a tag", tape_tag_names, TAPE_TAG_WORDS, &x.tag);
    if (code == 0) code = read_names(r, &x);
    if (code < 0) return code;
    r->last = r->t->op_count;
    *add_op(r, TAPE_ALLOC) = x;
    return 0;
}

// o CLASS FLOPS BYTES N [key=value …]
static int read_work(struct reader *r) {
    struct tape_op x = {.kind = TAPE_WORK};
    int code = tape_line_count(&r->in, 5, TAPE_FIELDS_MAX, "o CLASS FLOPS BYTES N [key=value …]");
    if (code == 0)
        code = tape_line_word(&r->in, r->arena, 1, "a class", tape_class_names, TAPE_CLASS_COUNT,
                              &x.tag);
    if (code == 0) code = read_expr(r, 2, true, &x.size);
    if (code == 0) code = read_expr(r, 3, true, &x.more);
    if (code == 0) code = read_expr(r, 4, false, &x.id);
    if (code == 0 && r->in.count > 5) {
        struct str first = r->in.fields[5], last = r->in.fields[r->in.count - 1];
        struct str all = {first.p, last.p + last.len - first.p};
        code = tape_line_details(&r->in, all);
        if (code == 0) code = read_name(r, all, &x.module);
    }
    if (code == 0) *add_op(r, TAPE_WORK) = x;
    return code;
}

static int read_free(struct reader *r) {
    struct tape_op x = {.kind = TAPE_FREE};
    int code = tape_line_count(&r->in, 2, 2, "f ID");
    if (code == 0) code = read_id(r, &x);
    if (code == 0) *add_op(r, TAPE_FREE) = x;
    return code;
}

static int read_mark(struct reader *r) {
    uint8_t phase;
    int32_t step;
    int code = tape_line_mark(&r->in, r->arena, &phase, &step);
    if (code < 0) return code;
    struct tape_op *op = add_op(r, TAPE_MARK);
    op->phase = phase;
    op->step = step;
    return 0;
}

static int read_empty_cache(struct reader *r) {
    int code = tape_line_count(&r->in, 1, 1, "e");
    if (code == 0) add_op(r, TAPE_EMPTY_CACHE);
    return code;
}

static int read_scratch(struct reader *r) {
    struct tape_expr size;
    int code = tape_line_count(&r->in, 2, 2, "w SIZE");
    if (code == 0) code = read_expr(r, 1, true, &size);
    if (code == 0) add_op(r, TAPE_SCRATCH)->size = size;
    return code;
}

// l VARIABLE COUNT
static int read_loop(struct reader *r) {
    struct tape_expr count;
    int code = tape_line_count(&r->in, 3, 3, "l VARIABLE COUNT");
    if (code < 0) return code;
    if (r->depth == TAPE_LOOP_DEPTH) {
        return tape_line_bad(&r->in, "expected at most %d blocks inside each other",
                             TAPE_LOOP_DEPTH);
    }
    struct str variable = r->in.fields[1];
    if (variable.len != 1 || variable.p[0] != 'i' + r->depth) {
        const char expected[] = {(char)('i' + r->depth), 0};
        return tape_line_bad(&r->in, "expected the variable %s of this depth", expected);
    }
    code = read_expr(r, 2, false, &count);
    if (code < 0) return code;
    r->open[r->depth] = r->t->op_count;
    struct tape_op *op = add_op(r, TAPE_LOOP);
    op->symbol = (uint8_t)(TAPE_DIM_COUNT + r->depth++);
    op->id = count;
    return 0;
}

static int read_loop_end(struct reader *r) {
    int code = tape_line_count(&r->in, 1, 1, "/l");
    if (code < 0) return code;
    if (r->depth == 0) return tape_line_bad(&r->in, "expected an open block for this /l");
    int32_t begin = r->open[--r->depth];
    r->last = -1; // its iterations are no more
    r->t->ops[begin].other = r->t->op_count;
    add_op(r, TAPE_LOOP_END)->other = begin;
    return 0;
}

static const struct keyword {
    const char *word;
    int (*read)(struct reader *);
} keywords[] = {{"a", read_alloc},     {"f", read_free},        {"m", read_mark},
                {"l", read_loop},      {"e", read_empty_cache}, {"w", read_scratch},
                {"/l", read_loop_end}, {"o", read_work}};

static int read_line(struct reader *r, const char *p, const char *end) {
    tape_line_split(&r->in, p, end);
    struct str word = r->in.fields[0];
    if (str_starts(word, STR("a@"))) return read_alloc(r);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (str_is(word, keywords[i].word)) return keywords[i].read(r);
    }
    return tape_line_bad_field(&r->in, 0, "one of the keywords a f m e w o l /l");
}

static int read_lines(struct reader *r, struct str text) {
    int64_t lines = 0;
    for (ptrdiff_t i = 0; i < text.len; i++) lines += text.p[i] == '\n';
    if (lines > TAPE_TEMPLATE_LINES_MAX) {
        r->in.line = TAPE_TEMPLATE_LINES_MAX + 2;
        return tape_line_bad(&r->in, "expected at most %d lines", TAPE_TEMPLATE_LINES_MAX);
    }
    r->t->ops = arena_new(r->arena, struct tape_op, lines);
    const char *p = text.p, *end = p + text.len;
    for (r->in.line = 2; p < end; r->in.line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) {
            return tape_line_bad(&r->in,
                                 "expected a line end; the file ends in the middle of a line");
        }
        int code = read_line(r, p, stop);
        if (code < 0) return code;
        p = stop + 1;
    }
    if (r->depth > 0) return tape_line_bad(&r->in, "expected /l: a block is open at the end");
    return 0;
}

int tape_template_check(struct arena *a, const struct tape_template *t, struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    int64_t least[TAPE_DIM_COUNT];
    struct tape instance;
    for (int i = 0; i < TAPE_DIM_COUNT; i++) least[i] = t->bounds[i].least;
    least[TAPE_DIM_BATCH] = 0;
    return tape_instantiate(&scratch, t, least, &instance, why);
}

int tape_template_parse(struct arena *a, struct str name, struct str bytes,
                        struct tape_template **ret, struct fail *why) {
    struct tape_template *t = arena_new(a, struct tape_template, 1);
    struct str text;
    int code = tape_unpack(a, name, bytes, TAPE_TEXT_MAX, true, &text, why);
    if (code < 0) return code;
    ptrdiff_t end = str_find(text, STR("\n"));
    if (end < 0 || end > TAPE_HEADER_MAX) {
        return fail_set(why, FAIL_INPUT, "%.*s:1: no line end within the first %d bytes",
                        STR_ARG(name), TAPE_HEADER_MAX);
    }
    t->name = name;
    code = tape_template_header_parse(a, name, str_slice(text, 0, end), &t->header, t->bounds, why);
    if (code < 0) return code;
    ARENA_AUTO scratch = {.escape = a->escape};
    struct reader r = {.arena = a,
                       .in = {.name = name, .why = why},
                       .t = t,
                       .last = -1,
                       .texts = tape_text_map_new(&scratch, &scratch)};
    *arena_push(a, &t->names, &r.name_count, &r.name_capacity) = (struct tape_name){0};
    code = read_lines(&r, str_slice(text, end + 1, text.len));
    t->piece_count = (int32_t)r.piece_count;
    t->name_count = (int32_t)r.name_count;
    if (code == 0) *ret = t;
    return code;
}

int tape_template_read(struct arena *a, struct str name, struct str bytes,
                       struct tape_template **ret, struct fail *why) {
    int code = tape_template_parse(a, name, bytes, ret, why);
    return code == 0 ? tape_template_check(a, *ret, why) : code;
}

struct tape_bound tape_template_bound(const struct tape_template *t, enum tape_dim dim) {
    return t->bounds[dim];
}
