// SPDX-License-Identifier: Apache-2.0
// A small web server for reading: pages by a table of exact paths, and one stream of events. It
// knows nothing of what it shows. There are no folders behind it, nothing can be written through
// it, and it waits for nobody: who reads slowly, says nothing or says too much is let go.
//
// All of it runs in the caller's thread: wait until show_http_fd is readable or show_http_wait_ms
// have passed, then call show_http_turn.
#ifndef SHOW_HTTP_H
#define SHOW_HTTP_H

#include "base/fail.h"
#include "base/str.h"

struct show_http;      // private
struct show_http_page; // an answer with its headers; made once, sent to many, never changed

// What a handler sees of a request that was let through. Valid during the call.
struct show_http_request {
    struct show_http *http;
    void *connection; // private
    const struct show_http_route *route;
    struct str accept; // what the client wants; may be empty
};
// The decoded value of ?KEY=; empty: there is none.
struct str show_http_query(const struct show_http_request *r, const char *key);
// True: an Accept header wants the one type rather than the other.
bool show_http_prefers(struct str accept, const char *type, const char *rather_than);

struct show_http_route {
    const char *path;
    // The page, with one use given away (show_http_page_keep for one that is cached). NULL: 503.
    struct show_http_page *(*answer)(void *context, const struct show_http_request *r);
    const void *of; // what the handler tells one route from another by
    bool is_open;   // answered without the token
    bool is_stream; // server-sent events; `answer` is not called
};

struct show_http_options {
    const char *address;                  // numeric, or "localhost"; NULL: 127.0.0.1
    int port;                             // 0: any
    struct str token;                     // empty: none is asked for
    const struct show_http_route *routes; // ends with a row without a path
    void *context;                        // of the handlers
    // What a client of the stream is sent first: the name of an event, and its data in one line.
    const char *event;
    struct str (*greeting)(void *context);
};

// FAIL_MACHINE: no libmicrohttpd, the port is taken, the address is not this machine's. FAIL_USAGE:
// the address is none.
int show_http_open(struct arena *a, const struct show_http_options *options,
                   struct show_http **ret_http, struct fail *why);
// True: only this machine can reach an address (127.0.0.0/8, ::1, localhost).
bool show_http_is_loopback(const char *address);
int show_http_port(const struct show_http *h);
struct str show_http_url(const struct show_http *h); // "http://127.0.0.1:8080/"
int show_http_fd(const struct show_http *h);
int show_http_wait_ms(const struct show_http *h); // at most 1000
void show_http_turn(struct show_http *h);
void show_http_close(struct show_http *h);

// `text` is copied unless it lives as long as the program. A page that may be kept by browsers has
// a tag, by which they ask whether it is still the same.
struct show_http_page *show_http_page_new(struct show_http *h, int status, const char *type,
                                          struct str text);
struct show_http_page *show_http_page_static(struct show_http *h, const char *type,
                                             struct str text);
struct show_http_page *show_http_page_keep(struct show_http_page *page);    // one use more
void show_http_page_drop(struct show_http *h, struct show_http_page *page); // one less; may be NULL

// Sends an event to all clients of the stream; who has not taken the last ones is let go.
void show_http_publish(struct show_http *h, struct str data);

// Since the server was opened, except for what is there now.
struct show_http_counts {
    int64_t connections; // accepted
    int connections_now, streams_now;
    int64_t requests, answers[6]; // by the first digit of the status
    int64_t timed_out;            // connections that were let go for saying or taking nothing
    int64_t streams_dropped;      // clients of the stream that did not keep up
};
struct show_http_counts show_http_count(const struct show_http *h);

#endif
