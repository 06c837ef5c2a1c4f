// SPDX-License-Identifier: Apache-2.0
// Expressions are read by one pass without precedence: a sum of products, whose factors are letters
// or [sum/product]. Values are made in 128 bits and every step is checked.
#include "predict/tape/expr.h"

#include "predict/tape/line.h"

enum { POWER_MOST = 8, FACTORS_MOST = 8, TERMS_MOST = 64 };
static const int64_t value_limit = INT64_C(1) << 62;

const struct tape_dim_word tape_dim_words[TAPE_DIM_COUNT] = {
    [TAPE_DIM_BATCH] = {"batch", 'B'},
    [TAPE_DIM_SEQUENCE] = {"sequence", 'S'},
    [TAPE_DIM_HIDDEN] = {"hidden", 'D'},
    [TAPE_DIM_FFN] = {"ffn", 'F'},
    [TAPE_DIM_VOCABULARY] = {"vocabulary", 'V'},
    [TAPE_DIM_HEAD_SIZE] = {"head_size", 'E'},
    [TAPE_DIM_KV_HEADS] = {"kv_heads", 'K'},
    [TAPE_DIM_GROUP] = {"group", 'G'},
    [TAPE_DIM_ADAPTER_RANK] = {"adapter_rank", 'R'},
    [TAPE_DIM_LAYERS] = {"layers", 'L'},
    [TAPE_DIM_RANKS] = {"ranks", 'N'},
    [TAPE_DIM_TENSOR_PARALLEL] = {"tensor_parallel", 'T'},
    [TAPE_DIM_IMAGE_SIZE] = {"image_size", 'I'},
    [TAPE_DIM_EXPERTS] = {"experts", 'X'},
    [TAPE_DIM_ACTIVE_EXPERTS] = {"active_experts", 'A'},
    [TAPE_DIM_EXPERT_FFN] = {"expert_ffn", 'W'},
    [TAPE_DIM_POSITIONS] = {"positions", 'P'},
    [TAPE_DIM_TARGET_SEQUENCE] = {"target_sequence", 'Y'},
};

static int dim_of(char letter) {
    for (int i = 0; i < TAPE_DIM_COUNT; i++)
        if (letter == tape_dim_words[i].letter) return i;
    return -1;
}

int tape_dim_find(struct str name) {
    if (name.len == 1) return dim_of(name.p[0]);
    for (int i = 0; i < TAPE_DIM_COUNT; i++)
        if (str_is(name, tape_dim_words[i].name)) return i;
    return -1;
}

static int symbol_of(char letter) {
    if (letter >= 'i' && letter < 'i' + TAPE_LOOP_DEPTH) return TAPE_DIM_COUNT + letter - 'i';
    return dim_of(letter);
}

// The text that is left, and the first thing that is wrong with it.
struct scan {
    struct str rest;
    uint32_t allowed;
    const char *wrong;
};

static bool scan_is(struct scan *s, char c) {
    if (s->rest.len == 0 || s->rest.p[0] != c) return false;
    s->rest = str_slice(s->rest, 1, s->rest.len);
    return true;
}

static bool scan_number(struct scan *s, int64_t *ret) {
    ptrdiff_t len = 0;
    while (len < s->rest.len && str_is_digit(s->rest.p[len])) len++;
    if (len == 0) return false;
    if (!tape_parse_number(str_slice(s->rest, 0, len), ret)) s->wrong = "a number below 2^62";
    s->rest = str_slice(s->rest, len, s->rest.len);
    return true;
}

// One letter, if there is one.
static bool scan_symbol(struct scan *s, struct tape_product *p) {
    int symbol = s->rest.len > 0 ? symbol_of(s->rest.p[0]) : -1;
    if (symbol < 0) return false;
    if (!(s->allowed >> symbol & 1)) {
        s->wrong = "only dimensions of the header and iterations of blocks that are open";
    } else if (++p->powers[symbol] > POWER_MOST) {
        s->wrong = "a dimension at most 8 times in a product";
    }
    s->rest = str_slice(s->rest, 1, s->rest.len);
    return true;
}

// A number, letters, or both; false: neither is there.
static bool scan_product(struct scan *s, struct tape_product *p) {
    bool any = scan_number(s, &p->c);
    while (!s->wrong && scan_symbol(s, p)) any = true;
    return any;
}

// What follows "[", up to and with "]".
static struct tape_ceil scan_ceil(struct arena *a, struct tape_pool *pool, struct scan *s) {
    struct tape_ceil c = {.part = (int32_t)pool->part_count, .divisor.c = 1};
    uint32_t allowed = s->allowed;
    bool whole = true, negative = false;
    for (bool more = true; more && whole && !s->wrong;) {
        struct tape_product p = {.c = 1};
        whole = scan_product(s, &p) || c.count == 0; // a first one of nothing is 1
        if (negative) p.c = -p.c;
        *arena_push(a, &pool->parts, &pool->part_count, &pool->part_capacity) = p;
        if (++c.count > TERMS_MOST) s->wrong = "at most 64 terms";
        negative = scan_is(s, '-');
        more = negative || scan_is(s, '+');
    }
    whole = whole && scan_is(s, '/');
    s->allowed &= (1u << TAPE_DIM_COUNT) - 1 - (1u << TAPE_DIM_BATCH);
    whole = whole && scan_product(s, &c.divisor) && scan_is(s, ']');
    s->allowed = allowed;
    if (!whole && !s->wrong) s->wrong = "[sum/product]";
    if (c.divisor.c < 1 && !s->wrong) s->wrong = "a divisor of at least 1";
    return c;
}

static struct tape_term scan_term(struct arena *a, struct tape_pool *pool, struct scan *s) {
    struct tape_term t = {.product.c = 1, .ceil = (int32_t)pool->ceil_count};
    bool any = scan_number(s, &t.product.c);
    while (!s->wrong) {
        if (scan_is(s, '[')) {
            struct tape_ceil c = scan_ceil(a, pool, s);
            *arena_push(a, &pool->ceils, &pool->ceil_count, &pool->ceil_capacity) = c;
            if (++t.ceil_count > FACTORS_MOST) s->wrong = "at most 8 rounded factors";
        } else if (!scan_symbol(s, &t.product)) {
            break;
        }
        any = true;
    }
    if (!any && !s->wrong) s->wrong = "a number, a dimension or [sum/product]";
    return t;
}

const char *tape_expr_read(struct arena *a, struct tape_pool *pool, struct str text,
                           uint32_t allowed, struct tape_expr *ret) {
    struct scan s = {.rest = text, .allowed = allowed};
    struct tape_expr e = {.term = (int32_t)pool->term_count};
    bool negative = scan_is(&s, '-');
    for (bool more = true; more && !s.wrong;) {
        struct tape_term t = scan_term(a, pool, &s);
        if (negative) t.product.c = -t.product.c;
        *arena_push(a, &pool->terms, &pool->term_count, &pool->term_capacity) = t;
        if (++e.count > TERMS_MOST) s.wrong = "at most 64 terms";
        negative = scan_is(&s, '-');
        more = negative || scan_is(&s, '+');
    }
    if (!s.wrong && s.rest.len > 0) s.wrong = "terms joined by + or -";
    *ret = e;
    return s.wrong;
}

static const char too_large[] = "it is beyond 2^62";

static bool is_within(__int128 value, __int128 limit) {
    return value < limit && value > -limit;
}

// Multiplies *value by n, below 2^62; false: it is too large to. A product of two may be beyond
// 2^62 where another of the sum takes it back: rounded sizes times whether they are rounded.
static bool times(__int128 *value, int64_t n) {
    if (!is_within(*value, value_limit)) return false;
    *value *= n;
    return is_within(*value, (__int128)1 << 120); // so 64 of them can be added
}

static bool product_value(const struct tape_product *p, const int64_t *values, int first,
                          __int128 *ret) {
    *ret = p->c;
    bool fits = true;
    for (int i = first; i < TAPE_SYMBOLS && fits; i++) {
        for (int n = p->powers[i]; n > 0 && fits; n--) fits = times(ret, values[i]);
    }
    return fits;
}

// ⌈sum / divisor⌉; NULL, or what is wrong.
static const char *ceil_value(const struct tape_pool *pool, const struct tape_ceil *c,
                              const int64_t *values, bool free_batch, int64_t *ret) {
    __int128 sum = 0, part, divisor;
    for (int32_t i = c->part; i < c->part + c->count; i++) {
        if (free_batch && pool->parts[i].powers[TAPE_DIM_BATCH] > 0) return "it rounds the batch";
        if (!product_value(&pool->parts[i], values, 0, &part)) return too_large;
        sum += part;
    }
    if (!product_value(&c->divisor, values, 0, &divisor) || !is_within(divisor, value_limit)) {
        return too_large;
    }
    sum = sum > 0 ? (sum + divisor - 1) / divisor : sum / divisor; // C rounds to 0
    if (!is_within(sum, value_limit)) return too_large;
    *ret = (int64_t)sum;
    return NULL;
}

// The term without its batches.
static const char *term_value(const struct tape_pool *pool, const struct tape_term *t,
                              const int64_t *values, int first, __int128 *ret) {
    if (!product_value(&t->product, values, first, ret)) return too_large;
    for (int32_t i = t->ceil; i < t->ceil + t->ceil_count; i++) {
        int64_t n;
        const char *wrong = ceil_value(pool, &pool->ceils[i], values, first > 0, &n);
        if (wrong) return wrong;
        if (!times(ret, n)) return too_large;
    }
    return NULL;
}

const char *tape_expr_value(const struct tape_pool *pool, struct tape_expr e,
                            const int64_t values[TAPE_SYMBOLS], int64_t *ret_c, int64_t *ret_k) {
    bool free_batch = values[TAPE_DIM_BATCH] == 0;
    __int128 sums[2] = {0};
    for (int32_t i = e.term; i < e.term + e.count; i++) {
        const struct tape_term *t = &pool->terms[i];
        int power = free_batch ? t->product.powers[TAPE_DIM_BATCH] : 0;
        __int128 value;
        if (power > 1) return "it squares the batch";
        const char *wrong = term_value(pool, t, values, free_batch ? 1 : 0, &value);
        if (wrong) return wrong;
        sums[power] += value;
    }
    for (int i = 0; i < 2; i++) {
        if (!is_within(sums[i], value_limit)) return too_large;
    }
    *ret_c = (int64_t)sums[0];
    *ret_k = (int64_t)sums[1];
    return NULL;
}
