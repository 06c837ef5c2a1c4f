// SPDX-License-Identifier: Apache-2.0
// The figure of a value that was found: the longer side of a size, the number of a list's devices,
// the switch in a word.
#include "records/config/dialect_int.h"

enum { PIXELS_LEAST = 8, IMAGE_LEAST = 24 };

// Of the numbers of a size; none: 0 and 0. A smaller number is a count of channels.
struct span {
    int64_t least, most;
};

static void span_add(struct span *s, int64_t value) {
    if (value > s->most) s->most = value;
    if (value >= PIXELS_LEAST && (s->least == 0 || value < s->least)) s->least = value;
}

// "[224, 224]", "(640, 672)", "224x224"
static struct span span_of_text(struct str text) {
    struct span s = {0};
    int64_t value = 0;
    for (ptrdiff_t i = 0; i <= text.len; i++) {
        const bool digit = i < text.len && str_is_digit(text.p[i]);
        if (digit && value < 100000000) value = value * 10 + (text.p[i] - '0');
        if (digit) continue;
        span_add(&s, value);
        value = 0;
    }
    return s;
}

// Of a list, or of the lists in it: several sizes are drawn from.
static struct span span_of_list(const struct config *c, const struct config_node *list, int depth) {
    struct span s = {0};
    for (ptrdiff_t i = 0; i < list->count; i++) {
        const struct config_node *n = config_node_follow(list->items[i]);
        const struct scalar one = config_scalar_read(c, n);
        const struct span inner = n->kind == NODE_LIST && depth == 0 ? span_of_list(c, n, 1)
                                  : one.type == CONFIG_INT ? (struct span){one.integer, one.integer}
                                                           : (struct span){0};
        span_add(&s, inner.least);
        span_add(&s, inner.most);
    }
    return s;
}

// null is no size, null and false are no list, and a mask of 14 x 14 patches no picture: another
// place may say one. Where none does, the first.
ptrdiff_t config_reader_first(const struct reader *r, enum config_role role,
                              const struct matches *all) {
    const enum role_sort sort = config_role_sort(role);
    const bool is_open = sort == SORT_SIZE || sort == SORT_LIST;
    for (ptrdiff_t i = 0; is_open && i < all->count; i++) {
        const struct config_node *n = config_node_follow(all->items[i].place.value);
        const bool is_list = n->kind == NODE_LIST;
        const struct span s = is_list ? span_of_list(r->config, n, 0) : (struct span){0};
        const bool is_small = role == CONFIG_IMAGE_SIZE && is_list && s.most < IMAGE_LEAST;
        const struct scalar one = config_scalar_read(r->config, n);
        const bool is_off = one.type == CONFIG_BOOL && !one.boolean && sort == SORT_LIST;
        if (one.type != CONFIG_NULL && !is_small && !is_off) return i;
    }
    return 0;
}

// "0,1", "0,": a device by every number, and none behind a last comma.
static int64_t devices_in(struct str numbers) {
    int64_t count = 0;
    while (numbers.len > 0) count += str_trim(str_cut(&numbers, ',')).len > 0;
    return count;
}

static void take_span(struct config_value *v, struct span s) {
    v->integer = s.most;
    if (s.least > 0) v->number = (double)s.least;
}

void config_reader_number(struct reader *r, struct config_value *v, enum config_role role,
                          const struct config_node *n) {
    const enum role_sort sort = config_role_sort(role);
    if (role == CONFIG_RANKS && n->kind == NODE_LIST) {
        v->type = CONFIG_INT; // devices: [0, 1]
        v->integer = n->count;
        v->number = (double)n->count;
    } else if (role == CONFIG_RANKS && (v->unit == 'I' || str_find(v->text, STR(",")) >= 0)) {
        // "0,1"; 0 is the first GPU; and cpu is no GPU but one device
        const bool is_list = str_find(v->text, STR(",")) >= 0;
        v->integer = is_list ? devices_in(v->text) : 1;
        v->type = v->integer > 0 ? CONFIG_INT : CONFIG_SPECIAL;
    } else if (n->kind == NODE_LIST && sort == SORT_COUNT && n->count == 1) {
        v->integer = span_of_list(r->config, n, 1).most; // fairseq's update_freq: [4]
        v->number = (double)v->integer;
        v->type = v->integer > 0 ? CONFIG_INT : CONFIG_NESTED;
    } else if (v->type == CONFIG_NESTED && n->kind == NODE_LIST && sort == SORT_SIZE) {
        take_span(v, span_of_list(r->config, n, 0));
    } else if (n->kind == NODE_LIST && str_is(r->dialect->rule, "largest")) {
        v->integer = span_of_list(r->config, n, 0).most; // of a sweep
        v->number = (double)v->integer;
        v->type = v->integer > 0 ? CONFIG_INT : CONFIG_NESTED;
    } else if (v->type == CONFIG_TEXT && sort == SORT_SIZE && role == CONFIG_IMAGE_SIZE) {
        take_span(v, span_of_text(v->text));
    } else if (v->type == CONFIG_INT || v->type == CONFIG_FLOAT) {
        const bool whole = v->number == (double)v->integer;
        if (!whole || v->integer < (sort == SORT_WORKERS ? 0 : 1)) v->type = CONFIG_SPECIAL;
    }
    if (v->type == CONFIG_FLOAT) v->type = CONFIG_INT;
    // scale=4 enlarges; it is no size.
    if (role == CONFIG_IMAGE_SIZE && v->type == CONFIG_INT && v->integer < PIXELS_LEAST)
        v->type = CONFIG_SPECIAL;
    if (v->type != CONFIG_INT && v->type != CONFIG_NESTED && v->type != CONFIG_TEXT) v->integer = 0;
}

// "@.max_prompt_length=512": the number there, or the default behind the sign.
static int64_t part(struct reader *r, struct str place, struct match *ret_match) {
    struct str usual = place;
    const struct str pattern = str_cut(&usual, '=');
    struct matches m = {0};
    int64_t number = 0;
    config_scope_find(&r->scope, pattern, &m);
    *ret_match = m.count > 0 ? m.items[0] : (struct match){0};
    if (m.count == 0) return str_to_i64(usual, &number) ? number : 0;
    const struct scalar s =
        config_scalar_read(r->config, config_node_follow(ret_match->place.value));
    if (s.type == CONFIG_NULL) return str_to_i64(usual, &number) ? number : 0;
    return s.type == CONFIG_INT ? s.integer : 0;
}

// A list's names; one that is called otherwise here, "output_proj:o_proj", by that name.
static struct str renamed(struct arena *a, struct str names, struct str otherwise) {
    struct buf text = buf_new(a);
    struct str here = otherwise, there = str_cut(&here, ':');
    while (names.p) {
        const struct str name = str_cut(&names, ',');
        const struct str said = here.len > 0 && str_equal(name, there) ? here : name;
        buf_join(&text, ",", said);
    }
    return buf_str(&text);
}

// "lora_mlp=gate_proj,up_proj,down_proj=true": what a switch adds to a list, if it is on, in the
// file or else by default; "model.lora_attn_modules=output_proj:o_proj": a list that is added.
static struct str names_of(struct reader *r, struct str place, struct match *last) {
    struct str usual = place;
    struct matches m = {0};
    const struct str pattern = str_cut(&usual, '='), names = str_cut(&usual, '=');
    config_scope_find(&r->scope, pattern, &m);
    if (m.count == 0) return str_is(usual, "true") ? names : (struct str){0};
    const struct config_node *n = config_node_follow(m.items[0].place.value);
    *last = m.items[0];
    if (n->kind == NODE_LIST) return renamed(r->arena, config_node_text(r->arena, n, ','), names);
    const struct scalar s = config_scalar_read(r->config, n);
    return s.type == CONFIG_BOOL && s.boolean ? names : (struct str){0};
}

bool config_reader_names(struct reader *r, struct str places, struct config_value *ret_value) {
    struct buf text = buf_new(r->arena);
    struct match last = {0};
    while (places.len > 0) {
        const struct str names = names_of(r, str_cut(&places, ' '), &last);
        if (names.len > 0) buf_join(&text, ",", names);
    }
    if (text.count == 0 || !last.place.value) return false;
    *ret_value = config_value_of(r->arena, r->config, &last.place, last.path);
    ret_value->type = CONFIG_TEXT;
    ret_value->text = buf_str(&text);
    return true;
}

bool config_reader_sum(struct reader *r, struct str places, struct config_value *ret_value) {
    struct buf parts = buf_new(r->arena);
    struct match last = {0};
    int64_t sum = 0;
    while (places.len > 0) {
        const struct str place = str_cut(&places, ' ');
        const int64_t number = part(r, place, &last);
        if (number < 1 || __builtin_add_overflow(sum, number, &sum)) return false;
        struct str name = place;
        name = str_last(str_cut(&name, '='), '.');
        buf_format(&parts, "%s%.*s %lld%s", parts.count > 0 ? " and " : "", STR_ARG(name),
                   (long long)number, last.place.value ? "" : " (not said)");
    }
    if (sum == 0 || !last.place.value) return false;
    *ret_value = config_value_of(r->arena, r->config, &last.place, last.path);
    ret_value->type = CONFIG_INT;
    ret_value->integer = sum;
    ret_value->number = (double)sum;
    ret_value->refusal =
        str_format(r->arena, "%.*s is a part of the sequence length", STR_ARG(last.path));
    config_reader_warn(r, "line %d: the sequence length is %lld, the sum of %.*s", ret_value->line,
                       (long long)sum, STR_ARG(buf_str(&parts)));
    return true;
}

void config_reader_bool(struct config_value *v) {
    static const char *const off[] = {"", "none", "None", "null", "false", "False", "no", NULL};
    if (v->type == CONFIG_INT) v->boolean = v->integer != 0;
    // "unsloth", "offload", "full", "selective": some kind of on.
    if (v->type == CONFIG_TEXT) v->boolean = !str_is_one_of(v->text, off);
}
