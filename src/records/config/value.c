// SPDX-License-Identifier: Apache-2.0
// What a scalar means to a YAML 1.1 trainer. The rules are those of PyYAML 6.0.3's resolver, which
// differ from YAML 1.2 in ways that bite: 016 is 14, 1e-4 is text, yes is true.
#include "records/config/tree_int.h"

#include <math.h>
#include <string.h>

// The exact spellings; "y", "tRuE" and "None" are text.
static const char *const true_words[] = {"true", "True", "TRUE", "yes", "Yes",
                                         "YES",  "on",   "On",   "ON",  NULL};
static const char *const false_words[] = {"false", "False", "FALSE", "no",  "No",
                                          "NO",    "off",   "Off",   "OFF", NULL};
static const char *const null_words[] = {"~", "null", "Null", "NULL", NULL};
static const char *const special_words[] = {"auto", "Auto", "AUTO", "???", "'auto'", NULL};

static bool all_of(struct str s, const char *allowed) {
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (!strchr(allowed, s.p[i]) || s.p[i] == 0) return false;
    }
    return s.len > 0;
}

// 12:30 is 12 * 60 + 30.
static bool base_sixty(struct str s, int64_t *ret) {
    int64_t value = 0;
    int parts = 0;
    while (s.p) {
        struct str part = str_cut(&s, ':');
        int64_t digit;
        if (part.len < 1 || part.len > 9 || !all_of(part, "0123456789") ||
            !str_to_i64(part, &digit) || (parts > 0 && digit > 59) || parts > 4) {
            return false;
        }
        value = value * 60 + digit;
        parts++;
    }
    *ret = value;
    return parts > 1;
}

static struct scalar integer(int64_t value, enum odd odd) {
    return (struct scalar){CONFIG_INT, odd, value, (double)value, false};
}

static struct scalar text(enum odd odd) {
    return (struct scalar){.type = CONFIG_TEXT, .odd = odd, .number = NAN};
}

static bool read_integer(struct str s, struct scalar *ret) {
    bool negative = s.len > 0 && s.p[0] == '-';
    if (s.len > 0 && (s.p[0] == '-' || s.p[0] == '+')) s = str_slice(s, 1, s.len);
    if (s.len == 0 || !str_is_digit(s.p[0])) return false;
    int64_t value;
    enum odd odd = memchr(s.p, '_', (size_t)s.len) ? ODD_UNDERSCORE : ODD_NONE;
    if (str_starts(s, STR("0b")) && str_to_digits(str_slice(s, 2, s.len), 2, &value)) {
        odd = ODD_BASE;
    } else if (str_starts(s, STR("0x")) && str_to_digits(str_slice(s, 2, s.len), 16, &value)) {
        odd = ODD_BASE;
    } else if (s.len > 1 && s.p[0] == '0' && str_to_digits(str_slice(s, 1, s.len), 8, &value)) {
        odd = ODD_OCTAL;
    } else if ((s.p[0] != '0' || s.len == 1) && str_to_digits(s, 10, &value)) {
        // the plain case
    } else if (s.p[0] != '0' && base_sixty(s, &value)) {
        odd = ODD_SIXTY;
    } else {
        return false;
    }
    *ret = integer(negative ? -value : value, odd);
    return true;
}

// A number with a dot or an exponent. PyYAML wants a dot, and a sign in the exponent.
static bool read_float(struct str s, struct scalar *ret) {
    char plain[64];
    ptrdiff_t n = 0;
    if (s.len == 0 || s.len >= (ptrdiff_t)sizeof plain || !all_of(s, "0123456789_.eE+-"))
        return false;
    for (ptrdiff_t i = 0; i < s.len; i++) {
        if (s.p[i] != '_') plain[n++] = s.p[i];
    }
    double value;
    if (!str_to_double((struct str){plain, n}, &value)) return false;
    const char *dot = memchr(plain, '.', (size_t)n), *e = memchr(plain, 'e', (size_t)n);
    if (!e) e = memchr(plain, 'E', (size_t)n);
    if (!dot && !e) return false;
    bool signed_exponent = !e || e[1] == '-' || e[1] == '+';
    *ret = (struct scalar){CONFIG_FLOAT, dot && signed_exponent ? ODD_NONE : ODD_EXPONENT, 0, value,
                           false};
    if (value == trunc(value) && fabs(value) < 1e15) {
        ret->integer = (int64_t)value;
        if (ret->odd == ODD_NONE) ret->odd = ODD_FLOAT;
    }
    return true;
}

static bool is_date(struct str s) {
    return s.len >= 8 && s.len <= 30 && all_of(str_slice(s, 0, 4), "0123456789") && s.p[4] == '-' &&
           str_is_digit(s.p[5]) && all_of(s, "0123456789-:.TtZz +");
}

// Text that was meant as a number.
static enum odd odd_text(struct str s) {
    ptrdiff_t i = 0;
    while (i < s.len && str_is_digit(s.p[i])) i++;
    if (str_find(s, STR("{{")) >= 0) return ODD_TEMPLATE;
    if (str_find(s, STR("\xEF\xBC")) == 0) return ODD_WIDE;
    if (i == 0) return ODD_NONE;
    if (is_date(s)) return ODD_DATE;
    if (i == s.len && s.p[0] == '0') return ODD_ZERO;
    if (i < s.len && s.p[i] == '#') return ODD_GLUED;
    if (i + 1 == s.len && s.p[i] == ',') return ODD_COMMA;
    if (str_starts(s, STR("0o")) && all_of(str_slice(s, 2, s.len), "01234567")) return ODD_OCTAL12;
    return ODD_NONE;
}

struct scalar config_scalar_plain(struct str s) {
    struct scalar r;
    if (s.len == 0 || str_is_one_of(s, null_words))
        return (struct scalar){.type = CONFIG_NULL, .number = NAN};
    if (str_is_one_of(s, true_words)) return (struct scalar){CONFIG_BOOL, ODD_NONE, 0, NAN, true};
    if (str_is_one_of(s, false_words)) return (struct scalar){CONFIG_BOOL, ODD_NONE, 0, NAN, false};
    if (str_is_one_of(s, special_words) || str_find(s, STR("${")) >= 0) {
        return (struct scalar){.type = CONFIG_SPECIAL, .number = NAN};
    }
    if (read_integer(s, &r) || read_float(s, &r)) return r;
    return text(odd_text(s));
}

bool config_scalar_is_key(struct str text) {
    return str_is_made_of(text, "_-") && text.p[0] != '-' &&
           config_scalar_plain(text).type == CONFIG_TEXT;
}

bool config_scalar_is_text(struct str text) {
    for (ptrdiff_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        if (c < ' ' || c == 0x7f || c == '"' || c == '\'' || c == '\\') return false;
    }
    return text.len > 0;
}

// "timm:resnet50" needs none; "a: b", "a #b" and "-" do.
bool config_scalar_needs_quotes(struct str text) {
    return !str_is_made_of(text, "_.+-/:") || str_ends(text, STR(":")) || text.p[0] == '-' ||
           text.p[0] == ':' || config_scalar_plain(text).type != CONFIG_TEXT;
}

static bool is_multi_line(const struct config *c, const struct config_node *n) {
    if (n->kind != NODE_SCALAR || n->begin < 0) return false;
    struct str raw = str_slice(c->text, n->begin, n->end);
    return raw.len > 0 &&
           (memchr(raw.p, '\n', (size_t)raw.len) || memchr(raw.p, '\r', (size_t)raw.len));
}

bool config_node_is_template(const struct config_node *n) {
    return n->kind == NODE_MAP && n->flow && n->count == 2 && n->items[0]->kind == NODE_MAP &&
           n->items[0]->flow;
}

static bool is_core_tag(struct str tag, const char *name) {
    return str_starts(tag, STR("tag:yaml.org,2002:")) && str_is(str_slice(tag, 18, tag.len), name);
}

// What a spelling means to PyYAML says nothing of other languages: their readers have worked it
// out, and a program makes a number of the words of its command line.
static struct scalar read_foreign(const struct config *c, const struct config_node *n) {
    struct scalar r = config_scalar_plain(n->text);
    if (n->style == STYLE_UNKNOWN) return (struct scalar){.type = CONFIG_SPECIAL, .number = NAN};
    if (n->style == STYLE_SINGLE || n->style == STYLE_DOUBLE) {
        const bool is_number = r.type == CONFIG_INT || r.type == CONFIG_FLOAT;
        if (!is_number || r.odd == ODD_OCTAL || r.odd == ODD_SIXTY) return text(ODD_NONE);
        r.odd = ODD_QUOTED;
        return r;
    }
    if (c->format == CONFIG_SHELL && r.odd == ODD_OCTAL) { // 016 is 16 to int()
        const bool fits = str_to_digits(n->text, 10, &r.integer);
        r = fits ? integer(r.integer, ODD_NONE) : text(ODD_NONE);
    }
    if (c->format == CONFIG_SHELL && (r.odd == ODD_BASE || r.odd == ODD_SIXTY)) r = text(ODD_NONE);
    r.odd = ODD_NONE;
    return r;
}

struct scalar config_scalar_read(const struct config *c, const struct config_node *n) {
    if (n->kind != NODE_SCALAR) {
        return (struct scalar){CONFIG_NESTED, config_node_is_template(n) ? ODD_TEMPLATE : ODD_NONE,
                               0, NAN, false};
    }
    if (c->format > CONFIG_JSON) return read_foreign(c, n);
    struct scalar r = config_scalar_plain(n->text);
    const bool quoted = n->style == STYLE_SINGLE || n->style == STYLE_DOUBLE;
    if (n->style == STYLE_LITERAL || n->style == STYLE_FOLDED || is_multi_line(c, n)) {
        return text(ODD_BLOCK);
    }
    if (is_core_tag(config_node_tag(n), "int") || is_core_tag(config_node_tag(n), "float") ||
        is_core_tag(config_node_tag(n), "bool")) {
        return r;
    }
    if (quoted || config_node_tag(n).p) {
        if (r.type == CONFIG_INT || r.type == CONFIG_FLOAT) {
            if (r.odd == ODD_NONE || r.odd == ODD_FLOAT) r.odd = ODD_QUOTED;
            return r;
        }
        return r.type == CONFIG_SPECIAL ? r : text(r.odd);
    }
    if (c->format == CONFIG_JSON && r.odd == ODD_EXPONENT) r.odd = r.integer ? ODD_FLOAT : ODD_NONE;
    return r;
}

static const char *const meanings[] = {
    [ODD_NONE] = "",
    [ODD_QUOTED] = "is quoted, so the trainer reads text, not a number",
    [ODD_UNDERSCORE] = "is a number with an underscore (text in YAML 1.2)",
    [ODD_FLOAT] = "is written as a float",
    [ODD_EXPONENT] = "is text for PyYAML (it needs a dot and a sign: 1.0e-4)",
    [ODD_OCTAL] = "is octal for PyYAML",
    [ODD_BASE] = "is hexadecimal or binary",
    [ODD_OCTAL12] = "is text for PyYAML (octal in YAML 1.2)",
    [ODD_ZERO] = "is text for PyYAML (a leading zero, but not octal)",
    [ODD_SIXTY] = "is a base 60 number for PyYAML",
    [ODD_DATE] = "is a date",
    [ODD_GLUED] = "is text: a comment needs a space before the #",
    [ODD_COMMA] = "is text: it has an extra comma",
    [ODD_WIDE] = "is text: full-width digits",
    [ODD_BLOCK] = "is multi-line text, not a plain number",
    [ODD_TEMPLATE] = "is a template's placeholder, not YAML data",
};

struct str config_scalar_meaning(struct arena *a, struct scalar s, struct str spelled) {
    int shown = (int)(spelled.len < 40 ? spelled.len : 40);
    if (s.odd == ODD_OCTAL || s.odd == ODD_BASE || s.odd == ODD_SIXTY) {
        return str_format(a, "%.*s %s and means %lld", shown, spelled.p, meanings[s.odd],
                          (long long)s.integer);
    }
    return str_format(a, "%.*s %s", shown, spelled.p, meanings[s.odd]);
}

static const struct {
    const char *no, *yes;
} spellings[] = {
    {"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"}, {"no", "yes"}, {"No", "Yes"},
    {"NO", "YES"},     {"off", "on"},     {"Off", "On"},     {"OFF", "ON"},
};

struct str config_scalar_spell(struct arena *a, struct scalar old, struct str old_text,
                               struct str value) {
    struct scalar new = config_scalar_plain(value);
    if (new.type == CONFIG_BOOL) {
        for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
            if (str_is(old_text, spellings[i].no) || str_is(old_text, spellings[i].yes)) {
                return str_of(new.boolean ? spellings[i].yes : spellings[i].no);
            }
        }
    }
    bool has_dot = old_text.len > 0 && memchr(old_text.p, '.', (size_t)old_text.len);
    if (new.type == CONFIG_INT && old.type == CONFIG_FLOAT &&has_dot) {
        return str_format(a, "%.*s.0", STR_ARG(value));
    }
    return value;
}
