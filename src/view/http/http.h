// SPDX-License-Identifier: Apache-2.0
// A small web server for reading: pages by a table of exact paths, one stream of events, and paths
// that answer what they are sent. It knows nothing of what it shows. There are no folders behind
// it, nothing can be written through it, and it waits for nobody: who reads slowly, says nothing or
// says too much is let go.
//
// All of it runs in the caller's thread: wait until http_fd is readable or http_wait_ms
// have passed, then call http_turn.
#pragma once

#include "base/fail.h"
#include "base/str.h"

struct http;      // private
struct http_page; // an answer with its headers; made once, sent to many, never changed

// What a handler sees of a request that was let through. Valid during the call.
struct http_request {
    struct http *http;
    void *connection; // private
    const struct http_route *route;
    struct str accept; // what the client wants; may be empty
    struct str body;   // of a route that takes one
};
// The decoded value of ?KEY=; empty: there is none.
struct str http_query(const struct http_request *r, const char *key);
// Whether an Accept or an Accept-Encoding header names exactly this, and does not refuse it.
bool http_accepts(struct str accept, const char *type);
// True: an Accept header wants the one type rather than the other.
bool http_prefers(struct str accept, const char *type, const char *rather_than);

struct http_route {
    const char *path;
    // The page, with one use given away (http_page_keep for one that is cached). NULL: 503.
    struct http_page *(*answer)(void *context, const struct http_request *r);
    const void *of; // what the handler tells one route from another by
    bool is_open;   // answered without the token
    bool is_stream; // server-sent events; `answer` is not called
    // More than 0: it is asked by POST, with so many bytes of JSON at most. Only then.
    int64_t body_most;
};

struct http_options {
    const char *address;             // numeric, or "localhost"; NULL: 127.0.0.1
    int port;                        // 0: any
    struct str token;                // empty: none is asked for
    struct str tls_cert, tls_key;    // PEM; empty: what is sent is not encrypted
    const char *trusted_proxies;     // ADDRESS[/BITS], one a line; NULL: none
    const struct http_route *routes; // ends with a row without a path
    void *context;                   // of the handlers
    // What a client of the stream is sent first: the name of an event, and its data in one line.
    const char *event;
    struct str (*greeting)(void *context);
};

// FAIL_MACHINE: no libmicrohttpd, the port is taken, the address is not this machine's. FAIL_USAGE:
// the address or a proxy's is none. FAIL_INPUT: certificate and key are no pair.
int http_open(struct arena *a, const struct http_options *options, struct http **ret_http,
              struct fail *why);
// True: only this machine can reach an address (127.0.0.0/8, ::1, localhost).
bool http_is_loopback(const char *address);
int http_port(const struct http *h);
struct str http_url(const struct http *h); // "http://127.0.0.1:8080/"
int http_fd(const struct http *h);
int http_wait_ms(const struct http *h); // at most 1000
void http_turn(struct http *h);
void http_close(struct http *h);

// `text` is copied unless it lives as long as the program. A page that may be kept by browsers has
// a tag, by which they ask whether it is still the same.
struct http_page *http_page_new(struct http *h, int status, const char *type, struct str text);
struct http_page *http_page_static(struct http *h, const char *type, struct str text);
struct http_page *http_page_keep(struct http_page *page);    // one use more
void http_page_drop(struct http *h, struct http_page *page); // one less; may be NULL

// Sends an event to all clients of the stream; who has not taken the last ones is let go.
void http_publish(struct http *h, struct str data);

// Since the server was opened, except for what is there now.
struct http_counts {
    int64_t connections; // accepted
    int connections_now, streams_now;
    int64_t answers[6];      // by the first digit of the status
    int64_t timed_out;       // connections that were let go for saying or taking nothing
    int64_t put_out;         // connections that made room for others
    int64_t streams_dropped; // clients of the stream that did not keep up
};
struct http_counts http_count(const struct http *h);
