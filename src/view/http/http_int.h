// SPDX-License-Identifier: Apache-2.0
// Inside the web server.
#pragma once

#include "view/http/http.h"

#include <microhttpd.h>

// The functions of libmicrohttpd that we call; see library.c.
#define HTTP_LIBRARY_CALLS(X)        \
    X(start_daemon)                  \
    X(stop_daemon)                   \
    X(run)                           \
    X(add_connection)                \
    X(is_feature_supported)          \
    X(get_timeout)                   \
    X(get_version)                   \
    X(get_daemon_info)               \
    X(get_connection_info)           \
    X(get_connection_values)         \
    X(lookup_connection_value_n)     \
    X(suspend_connection)            \
    X(resume_connection)             \
    X(queue_response)                \
    X(create_response_from_buffer)   \
    X(create_response_from_callback) \
    X(add_response_header)           \
    X(destroy_response)
#define HTTP_LIBRARY_MEMBER(name) __typeof__(MHD_##name) *(name);
struct http_library {
    void *handle;
    bool cuts_at_nul; // a header's value ends for it at a NUL, whatever follows
    HTTP_LIBRARY_CALLS(HTTP_LIBRARY_MEMBER)
};
int http_library_open(bool needs_tls, struct http_library *ret_library, struct fail *why);
struct http_calls {
    MHD_AccessHandlerCallback on_request;
    MHD_NotifyConnectionCallback on_connection;
    MHD_RequestCompletedCallback on_completed;
};
// Starts it without a socket that listens, and with TLS where there is a certificate.
int http_library_start(struct http *h, const struct http_calls *calls, struct fail *why);

enum {
    HTTP_CONNECTIONS = 1024, // at the same time
    HTTP_RESERVED = 128,     // of them for those who showed the token, and for this machine
    HTTP_FAVOURED = 16,      // of one such address that do not make room for strangers
    HTTP_PER_ADDRESS = 128,  // of them on the account of one address
    HTTP_PER_PROXY = 512,    // the same for a proxy that we trust, between its requests
    HTTP_ACCEPTED = 256,     // of them new in one turn
    HTTP_LINKS = HTTP_CONNECTIONS + HTTP_ACCEPTED, // with those that the library has yet to close
    HTTP_PEERS = 3072,          // addresses: two of each link, and who showed the token lately
    HTTP_REQUEST_BYTES = 16384, // of a connection: request line, headers and answer's headers
    HTTP_SEND_BYTES = 65536,    // what the system keeps for a connection that reads slowly
    HTTP_STREAMS = 64,          // clients of the stream
    HTTP_QUEUE = 8,             // events that wait for one of them
    HTTP_FIRST_S = 5,           // a new connection must have sent a whole request
    HTTP_NEXT_S = 75,           // the same for the next request on a connection that is kept
    HTTP_ANSWER_S = 30,         // a client must have taken an answer
    HTTP_IDLE_S = 75,           // nothing at all was sent or taken
    HTTP_HEARTBEAT_S = 15,      // a comment on a stream that is silent
    HTTP_KNOWN_S = 600,         // an address is remembered that showed the token
    HTTP_TOKEN_LEAST = 16,      // characters
};

// IPv4 as ::ffff:a.b.c.d.
struct http_address {
    unsigned char bytes[16];
};
struct http_network {
    struct http_address address;
    int bits;
};

// Who connections are counted for: one IPv4 address, or one IPv6 network of 64 bits, as that is
// what one subscriber gets.
struct http_peer {
    struct http_address key;
    int uses;    // by links
    int links;   // connections on its account
    int streams; // clients of the stream among them
    int lately;  // strangers' connections that the library got of it, halved each second
    int64_t known_until_ns;
    bool is_loopback, is_proxy;
    struct http_peer *next; // of the same hash
};
struct http_peers {
    struct http_peer all[HTTP_PEERS], *heads[1024];
    int hand; // from where the next one is taken
    struct http_network *proxies;
    int proxies_count;
};

// One connection of a client, from accept to close.
enum http_link_state {
    HTTP_LINK_FREE,
    HTTP_LINK_WAITS, // at the door: it said nothing yet, or too many of its address are before it
    HTTP_LINK_NEW,   // the library has it, and no whole request
    HTTP_LINK_ANSWERS,
    HTTP_LINK_KEPT,
    HTTP_LINK_STREAMS
};
struct http_link {
    enum http_link_state state;
    int fd;
    int64_t since_ns;
    bool is_let_go;
    bool has_said;             // at the door: there is something to read
    bool is_favoured;          // from this machine, or of an address that showed the token
    struct http_peer *from;    // the other end of the connection
    struct http_peer *account; // the same, or for whom a proxy asks just now
    struct http_stream *stream;
    struct MHD_Connection *asleep; // a stream with nothing to say
    struct http_link *next_free;
};

struct http_event {
    int users;
    ptrdiff_t len;
    char text[];
};

struct http_stream {
    struct http_stream *next;
    struct http *http;
    struct MHD_Connection *connection;
    struct http_link *link;
    struct http_event *queue[HTTP_QUEUE];
    int first, count;
    ptrdiff_t sent; // of the first
};

struct http_page {
    int users, status;
    struct MHD_Response *response;
    char tag[24];    // with its quotes; empty: not to be kept
    struct str text; // the response's
    const char *type, *cache;
    struct http_page *packed; // the same by gzip; NULL: nobody has asked for it
};

struct http {
    struct http_library library;
    struct http_options options;
    struct MHD_Daemon *daemon;
    int fd;        // an epoll descriptor of the door: who waits there, who listens, the library's
    int listening; // -1: not any more
    int port;
    bool is_loopback, is_closing, is_tls;
    struct str url;
    char cookie_name[32];
    char session[65]; // what the cookie holds, instead of the token
    struct http_link links[HTTP_LINKS], *free_links, *arriving;
    int most, held, common; // connections: at most, now, and those of now that are not favoured
    int highest;            // no link from here on was ever used
    int said;               // links at the door that have said something
    int strangers;          // how many that are not favoured the library may get now
    int64_t refilled_ns;
    struct http_peers peers;
    struct http_stream *streams;
    int64_t swept_ns, spoken_ns;
    struct http_counts counts;
};

// listen.c: a socket that listens; its port in *port.
int http_listen(const char *address, int *port, int *ret_fd, struct fail *why);

// peer.c: addresses, and what is on their account.
struct http_address http_address_of(const struct sockaddr_storage *address);
bool http_address_parse(struct str text, struct http_address *ret_address);
bool http_network_parse(struct str text, struct http_network *ret_network);
bool http_network_has(const struct http_network *network, const struct http_address *address);
int http_peers_open(struct arena *a, struct http_peers *peers, const char *proxies,
                    struct fail *why);
struct http_peer *http_peer_of(struct http_peers *peers, const struct http_address *address,
                               int64_t now_ns);
bool http_is_proxy(const struct http_peers *peers, const struct http_address *address);
// For whom a proxy asks, by the headers that it sent; false: they do not say.
bool http_forwarded_for(const struct http_peers *peers, struct str x_forwarded_for,
                        struct str forwarded, struct http_address *ret_client);

// door.c: who gets in, and who has to go for it.
int http_door_open(struct http *h, struct fail *why);
bool http_door_turn(struct http *h);             // true: there is more to do at once
bool http_door_holds_back(const struct http *h); // somebody waits who has said something
void http_door_close(struct http *h);
void http_link_let_go(struct http *h, struct http_link *link);
void http_link_wake(struct http *h, struct http_link *link);
void http_link_closed(struct http *h, struct http_link *link); // by the library
// It showed the token: from now on neither it nor others of its address stand back for strangers,
// those that wait at the door already included.
void http_address_favour(struct http *h, struct http_link *link);
// From here on the link is on another's account; false: that one has as many as it may.
bool http_link_charge(struct http *h, struct http_link *link, struct http_peer *account);
void http_link_rest(struct http *h, struct http_link *link); // it has its answer
bool http_stream_room(struct http *h, const struct http_link *link);

// request.c: parsing of what a client sends; no state, no memory.
bool http_host_is_sound(struct str host); // of the characters that a host and a port may have
bool http_host_is_local(struct str host, const char *address);
struct str http_bearer(struct str authorization);
struct str http_cookie(struct str cookies, const char *name);
bool http_tag_matches(struct str if_none_match, const char *tag);
bool http_same_secret(struct str given, struct str secret); // in a time that tells nothing of it
// Decodes %XX in place, but for %00: a path does not end before its end. Returns the length.
size_t http_unescape(char *text);
bool http_is_name(struct str name);         // of a header: a token of RFC 9110
bool http_token_is_sound(struct str token); // long enough, and of the characters of RFC 6750

// stream.c
enum MHD_Result http_stream_open(struct http *h, struct MHD_Connection *connection,
                                 struct http_link *link);
void http_stream_heartbeat(struct http *h);
void http_streams_end(struct http *h);

// page.c
void http_headers(const struct http *h, struct MHD_Response *response, const char *type,
                  const char *cache);
// Asks for the token: the answer to a browser that has not shown it.
struct http_page *http_page_door(struct http *h);
// One use more of the page, or of the same by gzip where an Accept-Encoding header takes it.
struct http_page *http_page_as_taken(struct http *h, struct http_page *page, struct str accept);
struct http_page *http_page_error(struct http *h, int status, const char *what);
