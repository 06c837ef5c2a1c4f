// SPDX-License-Identifier: Apache-2.0
// What of a program runs: branches whose condition is a plain value, or an option that has a
// default, are taken or not; of all others it is not known.
#include "records/datum/python_int.h"

#include <string.h>

static bool is_of_bf16(struct str text) {
    return str_find(text, STR("is_bfloat16_supported()")) >= 0 ||
           str_find(text, STR("is_bf16_supported()")) >= 0;
}

static struct datum *text_of(struct program *p, const struct datum *at, struct str text) {
    struct datum *v = datum_copy(&p->m->py->data, at);
    v->kind = DATUM_TEXT;
    v->is_import = false;
    v->text = text;
    return v;
}

// "fp16=not is_bfloat16_supported()" says no more than its bf16 does.
static struct datum *by_gpu(struct program *p, const struct datum *v) {
    if (!str_starts(v->text, STR("not "))) return text_of(p, v, STR("auto"));
    struct datum *off = datum_copy(&p->m->py->data, v);
    off->kind = DATUM_BOOL;
    off->boolean = false;
    return off;
}

// f"meta-llama/Llama-3.2-{SIZE}" of known texts and numbers; NULL: not known.
static struct datum *filled(struct program *p, const struct datum *v) {
    struct buf b = buf_new(p->m->py->data.arena);
    struct str rest = v->text;
    const bool is_one = rest.len > 3 && (rest.p[0] == 'f' || rest.p[0] == 'F') &&
                        strchr("\"'", rest.p[1]) && rest.p[rest.len - 1] == rest.p[1];
    if (!is_one || str_find(str_slice(rest, 2, rest.len - 1), str_slice(rest, 1, 2)) >= 0)
        return NULL;
    rest = str_slice(rest, 2, rest.len - 1);
    while (rest.len > 0) {
        buf_add(&b, str_cut(&rest, '{'));
        if (rest.len == 0) break;
        const struct str name = str_cut(&rest, '}');
        const struct datum_pair *pair = datum_find(p->m->globals, name);
        if (!pair) pair = datum_find(p->usual, str_last(name, '.'));
        const struct datum *part = pair ? pair->value : NULL;
        if (!part || (part->kind != DATUM_TEXT && part->kind != DATUM_INT)) return NULL;
        if (part->kind == DATUM_TEXT)
            buf_add(&b, part->text);
        else
            buf_format(&b, "%lld", (long long)part->integer);
    }
    return text_of(p, v, buf_str(&b));
}

// Of "args.batch_size", "self.args.batch_size" and "batch_size" the last name; of an expression
// none.
static struct str name_of(struct str text) {
    if (str_starts(text, STR("self."))) text = str_slice(text, 5, text.len);
    const bool is_name =
        str_is_made_of(text, "_.") && str_find(str_before_last(text, '.'), STR(".")) < 0;
    return is_name ? str_last(text, '.') : (struct str){0};
}

static enum truth truth_of(const struct datum *v) {
    switch (v->kind) {
    case DATUM_NULL:
        return NO;
    case DATUM_BOOL:
        return v->boolean ? YES : NO;
    case DATUM_INT:
        return v->integer != 0 ? YES : NO;
    case DATUM_TEXT:
        if (v->text.len == 0) return NO;
        return str_is(v->text, "auto") ? MAYBE : YES;
    default:
        return MAYBE;
    }
}

static enum truth opposite(enum truth t) {
    return t == MAYBE ? MAYBE : t == NO ? YES : NO;
}

// "not args.fp32"
static struct datum *negated(struct program *p, struct datum *v) {
    struct datum *of = datum_copy(&p->m->py->data, v);
    of->text = str_trim(str_slice(v->text, 4, v->text.len));
    const struct datum_pair *usual = datum_find(p->usual, name_of(of->text));
    const enum truth t = usual ? truth_of(usual->value) : MAYBE;
    if (t == MAYBE) return v;
    of->kind = DATUM_BOOL;
    of->boolean = t == NO;
    return of;
}

struct datum *datum_program_plain(struct program *p, struct datum *v) {
    static const char *const types[] = {"torch.bfloat16", "torch.float16", "torch.float32", NULL};
    if (v->kind != DATUM_UNKNOWN) return v;
    if (is_of_bf16(v->text)) return by_gpu(p, v);
    if (str_starts(v->text, STR("not "))) return negated(p, v);
    struct datum *text = filled(p, v);
    if (text) return text;
    const struct str name = name_of(v->text);
    const struct datum_pair *usual = datum_find(p->usual, name); // a parameter's, where no dot is
    if (usual) return usual->value;
    return str_is_one_of(v->text, types) ? text_of(p, v, name) : v;
}

// --- Conditions ----------------------------------------------------------------------------------

static bool is_end(const struct module *m) {
    return is(m, ":") || is(m, "else") || now(m)->kind == TOKEN_LINE || now(m)->kind == TOKEN_END;
}

// One side of "and" and "or".
static enum truth operand(struct program *p) {
    struct module *m = p->m;
    bool is_not = false;
    for (; is(m, "not"); is_not = !is_not) datum_python_next(m);
    const ptrdiff_t begin = now(m)->text.p - m->lex.text.p;
    for (int depth = 0; depth > 0 || !(is_end(m) || is(m, "and") || is(m, "or"));
         datum_python_next(m)) {
        depth += is(m, "(") || is(m, "[") || is(m, "{");
        depth -= is(m, ")") || is(m, "]") || is(m, "}");
        if (depth < 0 || now(m)->kind == TOKEN_END) break;
    }
    if (m->lex.end <= begin) return MAYBE;
    const struct lexer behind = m->lex;
    m->lex = datum_lexer_open(str_slice(m->lex.text, begin, m->lex.end));
    const struct datum *v = datum_program_plain(p, datum_python_expr(m));
    const enum truth t = now(m)->kind == TOKEN_END ? truth_of(v) : MAYBE;
    m->lex = behind;
    return is_not ? opposite(t) : t;
}

enum truth datum_program_condition(struct program *p) {
    struct module *m = p->m;
    enum truth any = NO;
    for (;;) {
        enum truth all = operand(p);
        while (is(m, "and")) {
            datum_python_next(m);
            const enum truth t = operand(p);
            all = t < all ? t : all;
        }
        any = all > any ? all : any;
        if (!is(m, "or")) return any;
        datum_python_next(m);
    }
}

// --- Blocks --------------------------------------------------------------------------------------

// if, elif and else are one chain, of which one branch runs.
static struct program_block branch(struct program *p, const struct token *at,
                                   const struct program_block *before) {
    const bool follows = before->column == at->column && !str_is(at->text, "if");
    const enum truth left = follows ? opposite(before->taken) : YES;
    enum truth t = YES;
    if (str_is(at->text, "if") || str_is(at->text, "elif"))
        t = is(p->m, "__name__") ? YES : datum_program_condition(p);
    const enum truth taken = t == YES || left == NO ? YES : t == MAYBE ? MAYBE : opposite(left);
    return (struct program_block){at->column, t < left ? t : left, taken};
}

void datum_program_block(struct program *p, const struct token *at) {
    static const char *const branches[] = {"if", "elif", "else", NULL};
    static const char *const others[] = {"for", "while", "try", "except", NULL};
    const struct lexer behind = p->m->lex;
    struct program_block before = {0};
    while (p->block_count > 0 && p->blocks[p->block_count - 1].column >= at->column)
        before = p->blocks[--p->block_count];
    if (at->column < p->trained_column) p->trained_column = 0;
    if (at->column <= p->class_column) p->class_column = 0;
    if (str_is(at->text, "class")) p->class_column = at->column;
    struct program_block block = {0};
    if (at->kind == TOKEN_NAME && str_is_one_of(at->text, branches))
        block = branch(p, at, &before);
    else if (at->kind == TOKEN_NAME && str_is_one_of(at->text, others))
        block = (struct program_block){at->column, MAYBE, MAYBE};
    p->m->lex = behind;
    if (block.column > 0 && p->block_count < PROGRAM_BLOCKS) p->blocks[p->block_count++] = block;
    p->runs = YES;
    for (int i = 0; i < p->block_count; i++)
        p->runs = p->blocks[i].runs < p->runs ? p->blocks[i].runs : p->runs;
}
