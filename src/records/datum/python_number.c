// SPDX-License-Identifier: Apache-2.0
// Python's numbers: exact as long as they fit into 64 bits, else unknown. 9**9**9 costs nothing.
#include "records/datum/python_int.h"

#include <math.h>
#include <string.h>

static bool is_number(const struct datum *v) {
    return v->kind == DATUM_INT || v->kind == DATUM_FLOAT || v->kind == DATUM_BOOL;
}

static double number_of(const struct datum *v) {
    return v->kind == DATUM_FLOAT  ? v->number
           : v->kind == DATUM_BOOL ? (double)v->boolean
                                   : (double)v->integer;
}

static int64_t integer_of(const struct datum *v) {
    return v->kind == DATUM_BOOL ? v->boolean : v->integer;
}

// False: it does not fit.
static bool power(int64_t base, int64_t exponent, int64_t *ret) {
    *ret = 1;
    if (base == 0 || base == 1 || base == -1) {
        *ret = exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base;
        return true;
    }
    for (int64_t i = 0; i < exponent; i++) { // at most 63 times
        if (__builtin_mul_overflow(*ret, base, ret)) return false;
    }
    return true;
}

static bool whole(char sign, bool is_double, int64_t a, int64_t b, int64_t *ret) {
    switch (sign) {
    case '+':
        return !__builtin_add_overflow(a, b, ret);
    case '-':
        return !__builtin_sub_overflow(a, b, ret);
    case '*':
        return is_double ? power(a, b, ret) : !__builtin_mul_overflow(a, b, ret);
    case '/': // rounded down
        if (b == 0 || (a == INT64_MIN && b == -1)) return false;
        *ret = a / b - (a % b != 0 && (a < 0) != (b < 0));
        return true;
    case '%': // has the sign of b
        if (b == 0 || b == -1) return b != 0 ? (*ret = 0, true) : false;
        *ret = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
        return true;
    default:
        return false;
    }
}

static double real(char sign, bool is_double, double a, double b) {
    switch (sign) {
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return is_double ? pow(a, b) : a * b;
    case '/':
        return b == 0 ? (double)NAN : is_double ? floor(a / b) : a / b;
    default:
        return NAN;
    }
}

static struct datum *joined(struct module *m, const struct datum *a, const struct datum *b) {
    struct data *d = &m->py->data;
    if (a->kind == DATUM_TEXT && b->kind == DATUM_TEXT) {
        struct datum *v = datum_at(d, a, a->line, a->column);
        if (a->text.len + b->text.len > DATUM_MAX_BYTES / 16) return NULL;
        d->count += (int)((a->text.len + b->text.len) / 64);
        v->text = str_format(d->arena, "%.*s%.*s", STR_ARG(a->text), STR_ARG(b->text));
        return v;
    }
    if (a->kind != DATUM_LIST || b->kind != DATUM_LIST || a->is_tuple != b->is_tuple) return NULL;
    if (a->list->count + b->list->count + d->count > DATUM_MAX) return NULL;
    struct datum *v = datum_copy(d, a);
    for (ptrdiff_t i = 0; i < b->list->count; i++) datum_push(d, v, b->list->items[i]);
    d->count += (int)b->list->count;
    v->is_open = a->is_open || b->is_open;
    return v;
}

static struct datum *repeated(struct module *m, const struct datum *list, int64_t times) {
    struct data *d = &m->py->data;
    const ptrdiff_t count = list->list->count;
    if (times < 0) times = 0;
    if (times > DATUM_MAX || count * times + d->count > DATUM_MAX) return NULL;
    struct datum *v = datum_at(d, list, list->line, list->column);
    v->list = arena_new(d->arena, struct datum_list, 1);
    for (int64_t i = 0; i < times; i++) {
        for (ptrdiff_t k = 0; k < count; k++) datum_push(d, v, list->list->items[k]);
    }
    d->count += (int)(count * times);
    return v;
}

// NULL: not known.
struct datum *datum_python_binary(struct module *m, struct str sign, const struct datum *a,
                                  const struct datum *b) {
    const bool is_double = sign.len == 2;
    const char c = sign.p[0];
    int64_t result;
    if (c == '+' && !is_number(a)) return joined(m, a, b);
    if (c == '*' && !is_double && a->kind == DATUM_LIST && b->kind == DATUM_INT)
        return repeated(m, a, b->integer);
    if (!is_number(a) || !is_number(b)) return NULL;
    const bool whole_both = a->kind != DATUM_FLOAT && b->kind != DATUM_FLOAT;
    const bool is_true_division = c == '/' && !is_double;
    if (whole_both && !is_true_division && !(c == '*' && is_double && integer_of(b) < 0)) {
        if (!whole(c, is_double, integer_of(a), integer_of(b), &result)) return NULL;
        return datum_integer(&m->py->data, result, a);
    }
    const double value = real(c, is_double, number_of(a), number_of(b));
    return isfinite(value) ? datum_float(&m->py->data, value, a) : NULL;
}

struct datum *datum_python_number(struct module *m) {
    const struct token at = m->lex.token;
    const char kind = at.text.len > 2 && at.text.p[0] == '0' ? (char)(at.text.p[1] | 32) : 0;
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    struct buf b = buf_new(m->py->data.arena);
    struct datum *v = datum_python_make(m, DATUM_INT, &at);
    datum_python_next(m);
    if (str_to_digits(base == 10 ? at.text : str_slice(at.text, 2, at.text.len), base, &v->integer))
        return v;
    for (ptrdiff_t i = 0; i < at.text.len; i++) {
        if (at.text.p[i] != '_') buf_byte(&b, at.text.p[i]);
    }
    struct str plain = buf_str(&b);
    v->kind = DATUM_FLOAT;
    if (str_ends(plain, STR("."))) plain = str_slice(plain, 0, plain.len - 1);
    const bool is_float = base == 10 && str_find(at.text, STR("j")) < 0 &&
                          (memchr(at.text.p, '.', (size_t)at.text.len) ||
                           memchr(at.text.p, 'e', (size_t)at.text.len) ||
                           memchr(at.text.p, 'E', (size_t)at.text.len));
    if (is_float && str_to_double(plain, &v->number) && isfinite(v->number)) return v;
    v->kind = DATUM_UNKNOWN;
    v->text = at.text;
    return v;
}
