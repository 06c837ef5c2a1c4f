// SPDX-License-Identifier: Apache-2.0
// Inside the web server.
#ifndef HTTP_HTTP_INT_H
#define HTTP_HTTP_INT_H

#include "view/http/http.h"

#include <microhttpd.h>

// The functions of libmicrohttpd that we call; see library.c.
#define HTTP_LIBRARY_CALLS(X)        \
    X(start_daemon)                  \
    X(stop_daemon)                   \
    X(run)                           \
    X(get_timeout)                   \
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
    HTTP_LIBRARY_CALLS(HTTP_LIBRARY_MEMBER)
};
int http_library_load(struct http_library *ret_library, struct fail *why);

enum {
    HTTP_CONNECTIONS = 256,     // at the same time
    HTTP_PER_ADDRESS = 128,     // of them from one address
    HTTP_REQUEST_BYTES = 16384, // of a connection: request line, headers and answer's headers
    HTTP_STREAMS = 64,          // clients of the stream
    HTTP_QUEUE = 8,             // events that wait for one of them
    HTTP_FIRST_S = 10,          // a new connection must have sent a whole request
    HTTP_NEXT_S = 75,           // the same for the next request on a connection that is kept
    HTTP_ANSWER_S = 30,         // a client must have taken an answer
    HTTP_IDLE_S = 75,           // nothing at all was sent or taken
    HTTP_HEARTBEAT_S = 15,      // a comment on a stream that is silent
    HTTP_TOKEN_LEAST = 16,      // characters
};

// One connection of a client, from accept to close.
enum http_link_state {
    HTTP_LINK_FREE,
    HTTP_LINK_NEW,
    HTTP_LINK_ANSWERS,
    HTTP_LINK_KEPT,
    HTTP_LINK_STREAMS
};
struct http_link {
    enum http_link_state state;
    int fd;
    int64_t since_ns;
    bool is_let_go;
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
    bool is_suspended;
    struct http_event *queue[HTTP_QUEUE];
    int first, count;
    ptrdiff_t sent; // of the first
};

struct http_page {
    int users, status;
    struct MHD_Response *response;
    char tag[24]; // with its quotes; empty: not to be kept
};

struct http {
    struct http_library library;
    struct http_options options;
    struct MHD_Daemon *daemon;
    int fd, port;
    bool is_loopback, is_closing;
    struct str url;
    char cookie_name[32];
    char session[65]; // what the cookie holds, instead of the token
    struct http_link links[HTTP_CONNECTIONS];
    struct http_stream *streams;
    int64_t swept_ns, spoken_ns;
    struct http_counts counts;
};

// listen.c: a socket that listens; its port in *port.
int http_listen(struct arena *a, const char *address, int *port, int *ret_fd, struct fail *why);

// request.c: parsing of what a client sends; no state, no memory.
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
struct http_page *http_page_error(struct http *h, int status, const char *what);

#endif
