// SPDX-License-Identifier: Apache-2.0
// What a client sends, understood: Host, Authorization, Cookie, If-None-Match. No state and no
// memory; all of it is untrusted (tests/fuzz/http.c).
#include "view/http/http_int.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct str trim(struct str s) {
    while (s.len > 0 && is_blank(s.p[0])) s = str_slice(s, 1, s.len);
    while (s.len > 0 && is_blank(s.p[s.len - 1])) s.len--;
    return s;
}

bool http_host_is_sound(struct str host) {
    host = trim(host);
    return host.len == 0 || str_is_made_of(host, "-._~!$&'()*+,;=:%[]");
}

// The host of "host", "host:port" or "[v6]:port"; empty when it is not one of these.
static struct str host_name(struct str host) {
    ptrdiff_t end =
        str_starts(host, STR("[")) ? str_find(host, STR("]")) + 1 : str_find(host, STR(":"));
    if (end == 0) return (struct str){0};
    if (end < 0) return host;
    struct str port = str_slice(host, end, host.len);
    if (port.len == 0) return host;
    int64_t number = 0;
    if (port.p[0] != ':' || port.len > 6) return (struct str){0};
    for (ptrdiff_t i = 1; i < port.len; i++) {
        if (port.p[i] < '0' || port.p[i] > '9') return (struct str){0};
        number = number * 10 + port.p[i] - '0';
    }
    return number > 0 && number < 65536 ? str_slice(host, 0, end) : (struct str){0};
}

// A page of another site whose name was made to lead here (DNS rebinding) says that name. Any port
// will do: it may be one end of a tunnel.
bool http_host_is_local(struct str host, const char *address) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    struct str name = host_name(trim(host));
    return str_is_one_of_nocase(name, names) || (name.len > 0 && address && str_is(name, address));
}

struct str http_bearer(struct str authorization) {
    struct str rest = trim(authorization);
    struct str scheme = str_cut(&rest, ' ');
    return rest.p && str_equal_nocase(scheme, STR("Bearer")) ? trim(rest) : (struct str){0};
}

struct str http_cookie(struct str cookies, const char *name) {
    while (cookies.p) {
        struct str value = trim(str_cut(&cookies, ';'));
        struct str key = str_cut(&value, '=');
        if (value.p && str_is(key, name)) return value;
    }
    return (struct str){0};
}

bool http_tag_matches(struct str if_none_match, const char *tag) {
    while (tag[0] && if_none_match.p) {
        struct str one = trim(str_cut(&if_none_match, ','));
        if (str_starts(one, STR("W/"))) one = str_slice(one, 2, one.len);
        if (str_is(one, tag) || str_is(one, "*")) return true;
    }
    return false;
}

bool http_same_secret(struct str given, struct str secret) {
    unsigned differs = given.len != secret.len;
    for (ptrdiff_t i = 0; i < given.len && secret.len > 0; i++) {
        differs |= (unsigned char)(given.p[i] ^ secret.p[i % secret.len]);
    }
    return differs == 0 && secret.len > 0;
}

bool http_token_is_sound(struct str token) {
    return str_is_made_of(token, "-._~+/=") && token.len >= HTTP_TOKEN_LEAST;
}

// The quality (0 to 1000) of "q=0.75" among a type's parameters; 1000 without one.
static int quality(struct str parameters) {
    while (parameters.p) {
        struct str value = trim(str_cut(&parameters, ';'));
        struct str key = trim(str_cut(&value, '='));
        double q = 0;
        if (!str_equal_nocase(key, STR("q")) || !value.p) continue;
        return str_to_double(trim(value), &q) && q >= 0 && q <= 1 ? (int)(q * 1000) : 0;
    }
    return 1000;
}

// The best quality that an Accept header gives to exactly this type.
static int accepted(struct str accept, const char *type) {
    int best = 0;
    while (accept.p) {
        struct str parameters = str_cut(&accept, ',');
        struct str name = trim(str_cut(&parameters, ';'));
        int q = str_equal_nocase(name, str_of(type)) ? quality(parameters) : 0;
        if (q > best) best = q;
    }
    return best;
}

bool http_accepts(struct str accept, const char *type) {
    return accepted(accept, type) > 0;
}

bool http_prefers(struct str accept, const char *type, const char *rather_than) {
    int wanted = accepted(accept, type);
    return wanted > 0 && wanted >= accepted(accept, rather_than);
}

bool http_is_name(struct str name) {
    return str_is_made_of(name, "!#$%&'*+-.^_`|~");
}

size_t http_unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        int high = *from == '%' ? str_hex(from[1]) : 16, low = high < 16 ? str_hex(from[2]) : 16;
        if (low > 15 || high + low == 0) {
            *to++ = *from;
            continue;
        }
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = 0;
    return (size_t)(to - text);
}
