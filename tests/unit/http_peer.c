// SPDX-License-Identifier: Apache-2.0
// Whose connections they are: addresses, networks, and what proxies say.
#include "unit.h"

#include "view/http/http_int.h"

#include <stdio.h>
#include <string.h>

static struct http_address address(const char *text) {
    struct http_address found;
    assert_true(http_address_parse(str_of(text), &found));
    return found;
}

static bool is_in(const char *network, const char *text) {
    struct http_network found;
    struct http_address one = address(text);
    assert_true(http_network_parse(str_of(network), &found));
    return http_network_has(&found, &one);
}

static void a_network_has_the_addresses_of_its_bits(void **state) {
    (void)state;
    assert_true(is_in("192.0.2.7", "192.0.2.7"));
    assert_false(is_in("192.0.2.7", "192.0.2.6"));
    assert_true(is_in("10.0.0.0/8", "10.255.1.2"));
    assert_false(is_in("10.0.0.0/8", "11.0.0.0"));
    assert_true(is_in("192.0.2.128/25", "192.0.2.255"));
    assert_false(is_in("192.0.2.128/25", "192.0.2.127"));
    assert_true(is_in("0.0.0.0/0", "203.0.113.9"));
    assert_false(is_in("0.0.0.0/0", "2001:db8::1"));
    assert_true(is_in("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(is_in("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(is_in("192.0.2.7", "::ffff:192.0.2.7"));
}

static void what_is_no_network_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",          "x",          "10.0.0/8",    "10.0.0.0/33",
                                      "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "::1/129",
                                      "10.0.0.0 ", "[::1]",      "localhost",   "10.0.0.0/8/8"};
    struct http_network network;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(http_network_parse(str_of(bad[i]), &network));
    }
}

// Who is behind 10.0.0.0/8 and 2001:db8:1::/48, which are ours; "" where it is not said.
static void expect(const char *x_forwarded_for, const char *forwarded, const char *client) {
    static struct http_peers peers;
    static struct arena a;
    struct http_address found, wanted;
    struct fail why = {0};
    peers = (struct http_peers){0};
    assert_int_equal(http_peers_open(&a, &peers, "10.0.0.0/8\n2001:db8:1::/48", &why), 0);
    bool is_said = http_forwarded_for(&peers, str_of(x_forwarded_for), str_of(forwarded), &found);
    assert_int_equal(is_said, client[0] != 0);
    if (!is_said) return;
    wanted = address(client);
    assert_memory_equal(&found, &wanted, sizeof found);
    arena_clear(&a);
}

static void a_proxy_is_believed_as_far_as_others_are_ours(void **state) {
    (void)state;
    expect("192.0.2.7", "", "192.0.2.7");
    expect("198.51.100.1, 192.0.2.7", "", "192.0.2.7"); // the first may be anybody's word
    expect("198.51.100.1, 192.0.2.7, 10.1.2.3", "", "192.0.2.7");
    expect("192.0.2.7:4711,[2001:db8:1::9]:80", "", "192.0.2.7");
    expect("2001:db8::7", "", "2001:db8::7");
    expect("10.1.1.1, 10.2.2.2", "", "10.1.1.1"); // one of our own asks
    expect("192.0.2.7", "for=203.0.113.1", "192.0.2.7");
    expect("", "for=192.0.2.7;proto=https;by=10.0.0.1", "192.0.2.7");
    expect("", "for=\"[2001:db8::7]:80\";proto=http, FOR=10.0.0.1", "2001:db8::7");
    expect("", "", "");
    expect("unknown", "", "");
    expect("192.0.2.7, unknown", "", "");
    expect("192.0.2.7, _hidden, 10.0.0.1", "", "10.0.0.1");
    expect(",,,", "", "");
    expect("", "proto=https", "");
}

static struct http_peer *peer(struct http_peers *peers, const char *text, int64_t now) {
    struct http_address one = address(text);
    return http_peer_of(peers, &one, now);
}

static void an_address_is_one_account_and_an_ipv6_network_too(void **state) {
    (void)state;
    static struct http_peers peers;
    assert_ptr_equal(peer(&peers, "192.0.2.7", 1), peer(&peers, "192.0.2.7", 2));
    assert_ptr_not_equal(peer(&peers, "192.0.2.7", 1), peer(&peers, "192.0.2.8", 1));
    assert_ptr_equal(peer(&peers, "2001:db8::1", 1), peer(&peers, "2001:db8::ffff:1", 1));
    assert_ptr_not_equal(peer(&peers, "2001:db8::1", 1), peer(&peers, "2001:db8:0:1::1", 1));
    assert_true(peer(&peers, "127.3.2.1", 1)->is_loopback && peer(&peers, "::1", 1)->is_loopback);
    assert_false(peer(&peers, "::2", 1)->is_loopback || peer(&peers, "128.0.0.1", 1)->is_loopback);
}

// A flood of addresses does not push out those that are in use or have shown the token.
static void who_is_known_stays_known_through_a_flood(void **state) {
    (void)state;
    static struct http_peers peers;
    char text[32];
    struct http_peer *used = peer(&peers, "192.0.2.1", 1), *known = peer(&peers, "192.0.2.2", 1);
    used->uses = 1;
    known->known_until_ns = 1000;
    for (int i = 0; i < 10 * HTTP_PEERS; i++) {
        snprintf(text, sizeof text, "10.%d.%d.1", i / 256 % 256, i % 256);
        assert_non_null(peer(&peers, text, 2));
    }
    assert_int_equal(peer(&peers, "192.0.2.1", 2)->uses, 1);
    assert_int_equal(peer(&peers, "192.0.2.2", 2)->known_until_ns, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_has_the_addresses_of_its_bits),
        cmocka_unit_test(what_is_no_network_is_refused),
        cmocka_unit_test(a_proxy_is_believed_as_far_as_others_are_ours),
        cmocka_unit_test(an_address_is_one_account_and_an_ipv6_network_too),
        cmocka_unit_test(who_is_known_stays_known_through_a_flood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
