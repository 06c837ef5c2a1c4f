// SPDX-License-Identifier: Apache-2.0
// A word is looked at piece by piece: pieces end at blanks and quotes, so that a script of `sh -c`
// and JSON in an argument are found, too. When in doubt, more is hidden than need be.
#include "base/out.h"

#include <string.h>

// Part: of a name in pieces at - _ . and at a capital behind a small letter.
enum kind {
    ANYWHERE,  // db-password-file, client_secret, PGPASSWORD
    LAST_PART, // hf_token, authToken; not tokenizer, not max_tokens
    LAST_TWO,  // api_key; not sort_key
    VARIABLE,  // of NAME=... in capitals: MY_KEY; not --key
};
static const struct {
    enum kind kind;
    const char *part;
} names[] = {
    {ANYWHERE, "password"},
    {ANYWHERE, "passwd"},
    {ANYWHERE, "passphrase"},
    {ANYWHERE, "secret"},
    {ANYWHERE, "credential"},
    {LAST_PART, "token"},
    {LAST_PART, "apikey"},
    {LAST_PART, "pwd"},
    {LAST_PART, "pat"},
    {LAST_PART, "bearer"},
    {LAST_PART, "authorization"},
    {LAST_TWO, "api_key"},
    {LAST_TWO, "access_key"},
    {LAST_TWO, "secret_key"},
    {LAST_TWO, "auth_key"},
    {LAST_TWO, "private_key"},
    {VARIABLE, "key"},
};
// What begins so, and goes on with at least so many letters and digits, wherever it stands.
static const struct {
    const char *begin;
    int least;
} values[] = {
    {"hf_", 16},   {"sk-", 16},   {"sk_", 16},  {"AKIA", 12},        {"ASIA", 12},
    {"ghp_", 16},  {"gho_", 16},  {"ghs_", 16}, {"github_pat_", 16}, {"glpat-", 12},
    {"xoxb-", 12}, {"xoxp-", 12}, {"eyJ", 24}, // a JSON Web Token
};
static const struct str mask = {"***", 3};

static bool is_separator(char c) {
    return c == '-' || c == '_' || c == '.';
}

static bool is_small(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_capital(char c) {
    return c >= 'A' && c <= 'Z';
}

static char plain(char c) {
    return is_separator(c) ? '_' : str_lower(c);
}

// The last part of the name is this one; parts that are written together with capitals count as
// one: apiKey is apikey.
static bool ends_in(struct str name, const char *part) {
    ptrdiff_t len = (ptrdiff_t)strlen(part), at = name.len - len;
    for (ptrdiff_t i = 0; i < len && at >= 0; i++) {
        if (plain(name.p[at + i]) != part[i]) return false;
    }
    return at == 0 || (at > 0 && (is_separator(name.p[at - 1]) ||
                                  (is_small(name.p[at - 1]) && is_capital(name.p[at]))));
}

static bool has_part(struct str name, struct str part) {
    for (ptrdiff_t at = 0; at + part.len <= name.len; at++) {
        if (str_equal_nocase(str_slice(name, at, at + part.len), part)) return true;
    }
    return false;
}

static bool is_upper(struct str name) {
    for (ptrdiff_t i = 0; i < name.len; i++) {
        if (is_small(name.p[i])) return false;
    }
    return true;
}

static bool is_secret_name(struct str name) {
    while (name.len > 0 && strchr("-+~{[(,:", name.p[0])) name = str_slice(name, 1, name.len);
    if (!str_is_made_of(name, "-_.")) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str part = str_of(names[i].part);
        bool has_more = name.len > part.len;
        if (names[i].kind == VARIABLE && !(has_more && is_upper(name))) continue;
        if (names[i].kind == ANYWHERE ? has_part(name, part) : ends_in(name, part.p)) return true;
    }
    return false;
}

// https://user:password@host: from behind the colon of the user, or all of "token@", to the '@'.
static struct str in_url(struct str piece) {
    ptrdiff_t scheme = str_find(piece, STR("://"));
    if (scheme < 0) return (struct str){0};
    struct str rest = str_slice(piece, scheme + 3, piece.len), authority = rest;
    for (ptrdiff_t i = 0; i < rest.len && authority.len == rest.len; i++) {
        if (strchr("/?#", rest.p[i])) authority.len = i;
    }
    ptrdiff_t at = authority.len - 1;
    while (at >= 0 && authority.p[at] != '@') at--;
    if (at <= 0) return (struct str){0};
    ptrdiff_t colon = str_find(str_slice(authority, 0, at), STR(":"));
    return str_slice(authority, colon + 1, at);
}

static struct str known_value(struct str piece) {
    for (ptrdiff_t i = 0; i < piece.len; i++) {
        if (i > 0 && str_is_alnum(piece.p[i - 1])) continue;
        struct str rest = str_slice(piece, i, piece.len);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            ptrdiff_t end = (ptrdiff_t)strlen(values[k].begin), begin = end;
            if (!str_starts(rest, str_of(values[k].begin))) continue;
            while (end < rest.len && (str_is_alnum(rest.p[end]) || strchr("-_.", rest.p[end])))
                end++;
            if (end - begin >= values[k].least) return str_slice(rest, 0, end);
        }
    }
    return (struct str){0};
}

static void add_piece(struct buf *b, struct str piece) {
    for (;;) {
        struct str secret = in_url(piece);
        if (secret.len == 0) secret = known_value(piece);
        if (secret.len == 0) break;
        buf_add(b, str_slice(piece, 0, secret.p - piece.p));
        buf_add(b, mask);
        piece = str_slice(piece, secret.p - piece.p + secret.len, piece.len);
    }
    buf_add(b, piece);
}

struct looking {
    struct buf *b;
    bool awaits;   // the next piece is the secret
    bool is_named; // the piece before is a secret's name, which alone says nothing: JSON's
};

// What stands behind '=' or ':' of a secret's name; -1: nothing does.
static ptrdiff_t value_at(struct str piece) {
    for (ptrdiff_t i = 1; i < piece.len; i++) {
        bool is_end = piece.p[i] == '=' || piece.p[i] == ':';
        if (is_end && is_secret_name(str_slice(piece, 0, i))) return i + 1;
        // --env NAME=..., key=value lists: the name begins behind the separator before it.
        if (strchr("=:,&?;", piece.p[i])) {
            ptrdiff_t more = value_at(str_slice(piece, i + 1, piece.len));
            return more < 0 ? -1 : i + 1 + more;
        }
    }
    return -1;
}

static void look(struct looking *l, struct str piece) {
    bool is_sign = str_is(piece, ":") || str_is(piece, "=");
    bool is_flag = piece.len > 0 && piece.p[0] == '-',
         is_scheme =
             str_equal_nocase(piece, STR("bearer")) || str_equal_nocase(piece, STR("basic"));
    ptrdiff_t value = value_at(piece);
    if (is_sign && (l->is_named || l->awaits)) {
        buf_add(l->b, piece);
        l->awaits = true;
    } else if (l->awaits && is_scheme) {
        buf_add(l->b, piece);
    } else if (l->awaits && !is_flag) {
        buf_add(l->b, mask);
        l->awaits = false;
    } else if (value >= 0) {
        buf_add(l->b, str_slice(piece, 0, value));
        if (value < piece.len) buf_add(l->b, mask);
        l->awaits = value == piece.len;
    } else {
        add_piece(l->b, piece);
        l->awaits = is_secret_name(piece) && (is_flag || str_equal_nocase(piece, STR("bearer")));
        l->is_named = is_secret_name(piece);
        return;
    }
    l->is_named = false;
}

static bool ends_piece(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '"' || c == '\'';
}

static void look_at_word(struct looking *l, struct str word) {
    // A word of its own that is a value or "--name=value" is one, whatever stands in it.
    if (l->awaits || value_at(word) >= 0) {
        ptrdiff_t first = 0;
        while (first < word.len && !ends_piece(word.p[first])) first++;
        bool is_name_first = !l->awaits && value_at(str_slice(word, 0, first)) < 0;
        bool is_header = !l->awaits && value_at(str_slice(word, 0, first)) == first;
        if (!is_name_first && !is_header) {
            look(l, word);
            return;
        }
    }
    while (word.len > 0) {
        ptrdiff_t end = 0;
        while (end < word.len && !ends_piece(word.p[end])) end++;
        if (end > 0) look(l, str_slice(word, 0, end));
        if (end < word.len) buf_byte(l->b, word.p[end++]);
        word = str_slice(word, end, word.len);
    }
}

char **secret_masked(struct arena *a, char *const *words) {
    struct str_words masked = {.arena = a};
    struct looking l = {0};
    for (ptrdiff_t i = 0; words[i]; i++) {
        struct buf b = buf_new(a);
        l.b = &b;
        look_at_word(&l, str_of(words[i]));
        str_word_add(&masked, buf_str(&b));
    }
    if (!masked.items) return arena_new(a, char *, 1);
    return masked.items;
}
