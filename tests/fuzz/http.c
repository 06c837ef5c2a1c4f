// SPDX-License-Identifier: Apache-2.0
// What a client of the web server sends, as far as we parse it ourselves: one header or query of
// each kind from the same bytes. What comes out must lie inside what went in.
#include "fuzz.h"

#include "view/http/http_int.h"

#include <stdlib.h>
#include <string.h>

static void check_inside(struct str part, struct str whole) {
    if (part.len == 0) return;
    if (part.p < whole.p || part.p + part.len > whole.p + whole.len) abort();
}

static void check_unescape(struct arena *a, struct str text) {
    char *copy = str_z(a, text);
    size_t before = strlen(copy), after = http_unescape(copy);
    if (after > before || strlen(copy) != after) abort(); // no %00 cuts a path
}

// Whoever a proxy names: never one of our proxies, but where all that are named are.
static void check_forwarded(struct str text) {
    struct http_network networks[2];
    if (!http_network_parse(STR("10.0.0.0/8"), &networks[0])) abort();
    if (!http_network_parse(STR("2001:db8::/33"), &networks[1])) abort();
    static struct http_peers peers;
    peers.proxies = networks;
    peers.proxies_count = 2;
    struct http_address client;
    if (http_forwarded_for(&peers, text, (struct str){0}, &client) &&
        http_is_proxy(&peers, &client) && str_find(text, STR("10.")) < 0 &&
        str_find(text, STR(":")) < 0) {
        abort();
    }
    http_forwarded_for(&peers, (struct str){0}, text, &client);
    struct http_network network;
    if (http_network_parse(text, &network) && (network.bits < 0 || network.bits > 128)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ARENA_AUTO a = {0};
    struct str text = {(const char *)data, (ptrdiff_t)size};
    bool is_local = http_host_is_local(text, "192.0.2.7");
    if (is_local && str_find(text, STR("example")) >= 0) abort();
    check_inside(http_bearer(text), text);
    check_inside(http_cookie(text, "batchfit_8080"), text);
    http_tag_matches(text, "\"0123456789abcdef\"");
    if (http_same_secret(text, STR("0123456789abcdef")) !=
        str_equal(text, STR("0123456789abcdef"))) {
        abort();
    }
    check_forwarded(text);
    if (http_host_is_sound(text) && memchr(data, 0, size)) abort();
    if (http_token_is_sound(text) && size < HTTP_TOKEN_LEAST) abort();
    if (http_is_name(text) && str_find(text, STR(":")) >= 0) abort();
    http_prefers(text, "application/openmetrics-text", "text/plain");
    check_unescape(&a, text);
    return 0;
}
