// SPDX-License-Identifier: Apache-2.0
// Addresses, and what is on the account of each. A proxy that we trust is not counted for what it
// passes on: its headers say for whom it asks.
#include "view/http/http_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff}; // ::ffff:0:0/96
enum { MAPPED_BITS = 96, ALL_BITS = 128, COUNTED_BITS = 64 };

static struct http_address from_v4(const void *four) {
    struct http_address address;
    memcpy(address.bytes, mapped, sizeof mapped);
    memcpy(address.bytes + sizeof mapped, four, 4);
    return address;
}

static bool is_v4(const struct http_address *address) {
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

struct http_address http_address_of(const struct sockaddr_storage *address) {
    struct http_address found = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (address->ss_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        return from_v4(&v4.sin_addr);
    }
    memcpy(&v6, address, sizeof v6);
    memcpy(found.bytes, &v6.sin6_addr, sizeof found.bytes);
    return found;
}

bool http_address_parse(struct str text, struct http_address *ret_address) {
    char copy[INET6_ADDRSTRLEN + 1];
    unsigned char four[4];
    if (text.len <= 0 || text.len >= (ptrdiff_t)sizeof copy) return false;
    memcpy(copy, text.p, (size_t)text.len);
    copy[text.len] = 0;
    if (strlen(copy) != (size_t)text.len) return false;
    if (inet_pton(AF_INET, copy, four) == 1) {
        *ret_address = from_v4(four);
        return true;
    }
    return inet_pton(AF_INET6, copy, ret_address->bytes) == 1;
}

bool http_network_parse(struct str text, struct http_network *ret_network) {
    struct str bits = text, address = str_cut(&bits, '/');
    if (!http_address_parse(address, &ret_network->address)) return false;
    int first = is_v4(&ret_network->address) && str_find(address, STR(":")) < 0 ? MAPPED_BITS : 0;
    int64_t count = ALL_BITS - first;
    if (bits.p && (!str_to_i64(bits, &count) || count < 0 || count > ALL_BITS - first))
        return false;
    ret_network->bits = first + (int)count;
    return true;
}

bool http_network_has(const struct http_network *network, const struct http_address *address) {
    int bytes = network->bits / 8, rest = network->bits % 8;
    if (memcmp(network->address.bytes, address->bytes, (size_t)bytes) != 0) return false;
    unsigned differs = rest ? network->address.bytes[bytes] ^ address->bytes[bytes] : 0;
    return differs >> (8 - rest) == 0;
}

int http_peers_open(struct arena *a, struct http_peers *peers, const char *proxies,
                    struct fail *why) {
    struct str_words words = str_words_of(a, str_of(proxies), '\n');
    peers->proxies = arena_new(a, struct http_network, words.count);
    for (ptrdiff_t i = 0; i < words.count; i++) {
        if (http_network_parse(str_of(words.items[i]), &peers->proxies[i])) continue;
        fail_set(why, FAIL_USAGE, "--trusted-proxy '%s': not an address or a network",
                 words.items[i]);
        return fail_hint(
            why, "for example 192.0.2.7, 2001:db8::7, or a network with its bits: 10.0.0.0/8");
    }
    peers->proxies_count = (int)words.count;
    return 0;
}

bool http_is_proxy(const struct http_peers *peers, const struct http_address *address) {
    for (int i = 0; i < peers->proxies_count; i++) {
        if (http_network_has(&peers->proxies[i], address)) return true;
    }
    return false;
}

static struct http_peer **head_of(struct http_peers *peers, const struct http_address *key) {
    struct str bytes = {(const char *)key->bytes, sizeof key->bytes};
    uint64_t hash = str_hash(bytes);
    return &peers->heads[(hash ^ hash >> 32) % (sizeof peers->heads / sizeof *peers->heads)];
}

// One that no connection uses: those that showed the token lately only when there is no other. Two
// of each connection are used at most, so there always is one.
static struct http_peer *take(struct http_peers *peers, int64_t now_ns) {
    for (int i = 0; i < 2 * HTTP_PEERS; i++) {
        struct http_peer *peer = &peers->all[peers->hand++ % HTTP_PEERS];
        peers->hand %= HTTP_PEERS;
        if (peer->uses > 0 || (i < HTTP_PEERS && peer->known_until_ns > now_ns)) continue;
        struct http_peer **at = head_of(peers, &peer->key);
        while (*at && *at != peer) at = &(*at)->next;
        if (*at) *at = peer->next;
        return peer;
    }
    return NULL;
}

static bool is_loopback(const struct http_address *address) {
    static const struct http_address one = {{[15] = 1}};
    return is_v4(address) ? address->bytes[12] == 127 : memcmp(address, &one, sizeof one) == 0;
}

struct http_peer *http_peer_of(struct http_peers *peers, const struct http_address *address,
                               int64_t now_ns) {
    struct http_address key = *address;
    bool is_proxy = http_is_proxy(peers, address);
    bool is_whole = is_proxy || is_v4(address) || is_loopback(address);
    if (!is_whole) memset(key.bytes + COUNTED_BITS / 8, 0, sizeof key.bytes - COUNTED_BITS / 8);
    struct http_peer **head = head_of(peers, &key);
    for (struct http_peer *p = *head; p; p = p->next) {
        if (memcmp(&p->key, &key, sizeof key) == 0) return p;
    }
    struct http_peer *peer = take(peers, now_ns);
    if (!peer) return NULL;
    *peer = (struct http_peer){.key = key,
                               .is_proxy = is_proxy,
                               .is_loopback = !is_proxy && is_loopback(address),
                               .next = *head};
    *head = peer;
    return peer;
}

// "192.0.2.7", "192.0.2.7:80", "2001:db8::7", "[2001:db8::7]:80"; quoted or not.
static bool node_parse(struct str node, struct http_address *ret_address) {
    node = str_trim(node);
    if (node.len >= 2 && node.p[0] == '"' && node.p[node.len - 1] == '"')
        node = str_slice(node, 1, node.len - 1);
    if (str_starts(node, STR("["))) {
        ptrdiff_t end = str_find(node, STR("]"));
        return end > 0 && http_address_parse(str_slice(node, 1, end), ret_address);
    }
    if (http_address_parse(node, ret_address)) return true;
    return http_address_parse(str_cut(&node, ':'), ret_address);
}

// The value of for= in an element of Forwarded (RFC 7239).
static struct str for_of(struct str element) {
    while (element.p) {
        struct str value = str_trim(str_cut(&element, ';'));
        struct str name = str_cut(&value, '=');
        if (value.p && str_equal_nocase(str_trim(name), STR("for"))) return value;
    }
    return (struct str){0};
}

// From the right, where each proxy adds whom it heard: the first that is no proxy of ours. What
// stands left of it anybody may have written.
bool http_forwarded_for(const struct http_peers *peers, struct str x_forwarded_for,
                        struct str forwarded, struct http_address *ret_client) {
    bool is_forwarded = x_forwarded_for.len == 0;
    struct str rest = is_forwarded ? forwarded : x_forwarded_for;
    bool is_found = false;
    for (; rest.len > 0; rest = str_before_last(rest, ',')) {
        struct str element = str_last(rest, ',');
        struct http_address one;
        if (!node_parse(is_forwarded ? for_of(element) : element, &one)) return is_found;
        *ret_client = one;
        is_found = true;
        if (!http_is_proxy(peers, &one)) return true;
    }
    return is_found;
}
