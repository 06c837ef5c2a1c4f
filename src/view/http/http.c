// SPDX-License-Identifier: Apache-2.0
// The server: who is let in, which page answers, and for how long a connection may take. The
// library (libmicrohttpd) cuts the bytes into requests and refuses what is no HTTP; it is driven
// from outside, by one epoll descriptor. Its own time limit is one of silence, which a client that
// sends a byte now and then never meets: so every connection is known here with its age.
#include "view/http/http_int.h"

#include "base/os.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const int64_t SECOND_NS = 1000000000;

struct http_counts http_count(const struct http *h) {
    return h->counts;
}
int http_port(const struct http *h) {
    return h->port;
}
struct str http_url(const struct http *h) {
    return h->url;
}
int http_fd(const struct http *h) {
    return h->fd;
}

// --- Connections

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http *h = context;
    struct http_link *link = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (link) link->state = HTTP_LINK_FREE;
        h->counts.connections_now--;
        return;
    }
    h->counts.connections++;
    h->counts.connections_now++;
    const union MHD_ConnectionInfo *info =
        h->library.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (int i = 0; info && i < HTTP_CONNECTIONS; i++) {
        if (h->links[i].state != HTTP_LINK_FREE) continue;
        h->links[i] = (struct http_link){HTTP_LINK_NEW, info->connect_fd, os_now_ns(), false};
        *socket_context = &h->links[i];
        return;
    }
}

static struct http_link *link_of(const struct http *h, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        h->library.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

// Once a second: who has had its time is let go.
static void sweep(struct http *h) {
    static const int limits_s[] = {[HTTP_LINK_FREE] = 0,
                                   [HTTP_LINK_NEW] = HTTP_FIRST_S,
                                   [HTTP_LINK_ANSWERS] = HTTP_ANSWER_S,
                                   [HTTP_LINK_KEPT] = HTTP_NEXT_S,
                                   [HTTP_LINK_STREAMS] = 0};
    int64_t now = os_now_ns();
    if (now - h->swept_ns < SECOND_NS) return;
    h->swept_ns = now;
    for (int i = 0; i < HTTP_CONNECTIONS; i++) {
        struct http_link *link = &h->links[i];
        int limit = limits_s[link->state];
        if (!limit || link->is_let_go || now - link->since_ns < limit * SECOND_NS) continue;
        link->is_let_go = true;
        h->counts.timed_out++;
        shutdown(link->fd, SHUT_RDWR); // the library sees it and closes
    }
    http_stream_heartbeat(h);
}

// --- One request

// By its length: what is behind a NUL counts, too.
static struct str value_of(const struct http *h, struct MHD_Connection *connection,
                           enum MHD_ValueKind kind, const char *name) {
    const char *value = NULL;
    size_t size = 0;
    if (h->library.lookup_connection_value_n(connection, kind, name, strlen(name), &value, &size) !=
            MHD_YES ||
        !value) {
        return (struct str){0};
    }
    return (struct str){value, (ptrdiff_t)size};
}

static struct str header(const struct http *h, struct MHD_Connection *connection,
                         const char *name) {
    return value_of(h, connection, MHD_HEADER_KIND, name);
}

// What of a request's headers is looked at before anything else. Two proxies that take different
// ones of several for the true one can be made to disagree about where a request ends.
struct outline {
    int hosts, lengths;
    bool has_body, is_odd; // not a name: "Content-Length : 5"
};

static enum MHD_Result outline_add(void *context, enum MHD_ValueKind kind, const char *key,
                                   const char *value) {
    struct outline *o = context;
    struct str name = str_of(key);
    (void)kind;
    o->is_odd |= !http_is_name(name);
    o->hosts += str_equal_nocase(name, STR("Host"));
    o->has_body |= str_equal_nocase(name, STR("Transfer-Encoding"));
    if (!str_equal_nocase(name, STR("Content-Length"))) return MHD_YES;
    o->has_body |= ++o->lengths > 1 || !value || strcmp(value, "0") != 0;
    return MHD_YES;
}

static struct outline outline_of(const struct http *h, struct MHD_Connection *connection) {
    struct outline o = {0};
    h->library.get_connection_values(connection, MHD_HEADER_KIND, outline_add, &o);
    return o;
}

static enum MHD_Result send_page(struct http *h, struct MHD_Connection *connection,
                                 struct http_page *page) {
    if (!page) return MHD_NO; // no memory: the connection is closed
    int first = page->status / 100;
    if (first >= 1 && first <= 5) h->counts.answers[first]++;
    enum MHD_Result result =
        h->library.queue_response(connection, (unsigned)page->status, page->response);
    http_page_drop(h, page);
    return result;
}

static enum MHD_Result refuse(struct http *h, struct MHD_Connection *connection, int status,
                              const char *what) {
    struct http_page *page = http_page_error(h, status, what);
    if (page && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        h->library.add_response_header(page->response, "Allow", "GET, HEAD");
    if (page && status == MHD_HTTP_UNAUTHORIZED)
        h->library.add_response_header(page->response, "WWW-Authenticate",
                                       "Bearer realm=\"batchfit\"");
    return send_page(h, connection, page);
}

static bool is_get(const char *method) {
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

// What is wrong with a request before anything is looked for; 0: nothing.
static int fault_of(const struct http *h, struct MHD_Connection *connection,
                    const char **ret_what) {
    *ret_what = "exactly one Host header is required";
    if (outline_of(h, connection).hosts != 1) return MHD_HTTP_BAD_REQUEST;
    *ret_what = "this server answers only to the name localhost and its own address";
    struct str host = header(h, connection, MHD_HTTP_HEADER_HOST);
    bool is_ours = !h->is_loopback || http_host_is_local(host, h->options.address);
    return is_ours ? 0 : MHD_HTTP_MISDIRECTED_REQUEST;
}

enum pass { PASS_NO, PASS_YES, PASS_BY_QUERY };
static enum pass pass_of(const struct http *h, struct MHD_Connection *connection) {
    struct str token = h->options.token;
    if (token.len == 0) return PASS_YES;
    struct str bearer = http_bearer(header(h, connection, MHD_HTTP_HEADER_AUTHORIZATION));
    struct str cookie = http_cookie(header(h, connection, MHD_HTTP_HEADER_COOKIE), h->cookie_name);
    if (http_same_secret(bearer, token)) return PASS_YES;
    if (http_same_secret(cookie, str_of(h->session))) return PASS_YES;
    struct str query = value_of(h, connection, MHD_GET_ARGUMENT_KIND, "token");
    return http_same_secret(query, token) ? PASS_BY_QUERY : PASS_NO;
}

// The token goes out of the address bar (and the history) at once; a cookie, which no script can
// read and no other site can send, stands for it.
static enum MHD_Result swap_token(struct http *h, struct MHD_Connection *connection,
                                  const char *path) {
    struct http_page *page = http_page_error(h, MHD_HTTP_SEE_OTHER, "continue without the token");
    if (!page) return MHD_NO;
    ARENA_AUTO scratch = {0};
    struct str cookie = str_format(&scratch, "%s=%s; Path=/; HttpOnly; SameSite=Strict",
                                   h->cookie_name, h->session);
    h->library.add_response_header(page->response, "Set-Cookie", cookie.p);
    h->library.add_response_header(page->response, "Location", path);
    return send_page(h, connection, page);
}

static enum MHD_Result send_not_modified(struct http *h, struct MHD_Connection *connection,
                                         struct http_page *page) {
    struct http_page *same = http_page_new(h, MHD_HTTP_NOT_MODIFIED, "text/plain", (struct str){0});
    if (same) h->library.add_response_header(same->response, "ETag", page->tag);
    http_page_drop(h, page);
    return send_page(h, connection, same);
}

static enum MHD_Result answer(struct http *h, struct MHD_Connection *connection,
                              const struct http_route *route) {
    struct http_request request = {h, connection, route,
                                   header(h, connection, MHD_HTTP_HEADER_ACCEPT)};
    struct http_page *page = route->answer(h->options.context, &request);
    if (!page) return refuse(h, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not available now");
    struct str if_none_match = header(h, connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (http_tag_matches(if_none_match, page->tag)) return send_not_modified(h, connection, page);
    return send_page(h, connection, page);
}

static enum MHD_Result stream(struct http *h, struct MHD_Connection *connection) {
    struct http_link *link = link_of(h, connection);
    if (!link || h->counts.streams_now >= HTTP_STREAMS) {
        return refuse(h, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                      "too many clients of the event stream");
    }
    h->counts.answers[2]++;
    return http_stream_open(h, connection, link);
}

static const struct http_route *route_of(const struct http *h, const char *path) {
    for (const struct http_route *r = h->options.routes; r->path; r++) {
        if (strcmp(r->path, path) == 0) return r;
    }
    return NULL;
}

static enum MHD_Result serve(struct http *h, struct MHD_Connection *connection, const char *path) {
    const char *what = NULL;
    int fault = fault_of(h, connection, &what);
    if (fault) return refuse(h, connection, fault, what);
    const struct http_route *route = route_of(h, path);
    enum pass pass = route && route->is_open ? PASS_YES : pass_of(h, connection);
    if (pass == PASS_NO) {
        return refuse(
            h, connection, MHD_HTTP_UNAUTHORIZED,
            "token required: send Authorization: Bearer TOKEN, or once /?token=TOKEN in a browser");
    }
    if (!route) return refuse(h, connection, MHD_HTTP_NOT_FOUND, "not found");
    if (pass == PASS_BY_QUERY) return swap_token(h, connection, route->path);
    return route->is_stream ? stream(h, connection) : answer(h, connection, route);
}

// The library calls twice: when the headers are there, and when the body is. An answer to the
// first closes the connection afterwards: right for requests that have a body, as no more of their
// bytes are taken for a request.
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *body, size_t *body_size, void **request_context) {
    struct http *h = context;
    (void)version;
    (void)body;
    if (!*request_context) {
        *request_context = h;
        struct http_link *link = link_of(h, connection);
        if (link && link->state != HTTP_LINK_STREAMS) link->state = HTTP_LINK_ANSWERS;
        if (link) link->since_ns = os_now_ns();
        if (!is_get(method)) {
            return refuse(h, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
        }
        struct outline outline = outline_of(h, connection);
        if (outline.is_odd) {
            return refuse(h, connection, MHD_HTTP_BAD_REQUEST, "invalid header name");
        }
        if (outline.has_body) {
            return refuse(h, connection, MHD_HTTP_BAD_REQUEST, "requests must not have a body");
        }
        return MHD_YES;
    }
    if (*body_size) return MHD_NO;
    return serve(h, connection, path);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code) {
    struct http_link *link = link_of(context, connection);
    (void)request_context;
    (void)code;
    if (!link || link->state == HTTP_LINK_FREE) return;
    link->state = HTTP_LINK_KEPT;
    link->since_ns = os_now_ns();
}

struct str http_query(const struct http_request *r, const char *key) {
    return value_of(r->http, r->connection, MHD_GET_ARGUMENT_KIND, key);
}

// --- The server

// Fewer connections than the system lets us have descriptors.
static unsigned connection_limit(void) {
    struct rlimit files = {0};
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
        return HTTP_CONNECTIONS;
    rlim_t half = files.rlim_cur / 2;
    return half < HTTP_CONNECTIONS ? (unsigned)half + 1 : HTTP_CONNECTIONS;
}

static size_t unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context;
    (void)connection;
    return http_unescape(text);
}

static struct MHD_Daemon *start(struct http *h, int listening) {
    bool is_v6 = h->options.address && strchr(h->options.address, ':');
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (is_v6 ? MHD_USE_IPv6 : 0);
    return h->library.start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, listening,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit(), MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)HTTP_PER_ADDRESS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
}

static int make_session(struct http *h, struct fail *why) {
    unsigned char random[32];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return fail_set(why, FAIL_MACHINE, "cannot get random numbers");
    }
    for (size_t i = 0; i < sizeof random; i++) snprintf(h->session + 2 * i, 3, "%02x", random[i]);
    snprintf(h->cookie_name, sizeof h->cookie_name, "batchfit_%d", h->port);
    return 0;
}

static int check(const struct http_options *o, struct fail *why) {
    if (o->token.len > 0 && !http_token_is_sound(o->token)) {
        fail_set(why, FAIL_INPUT, "the token is too short or has invalid characters");
        return fail_hint(why, "use at least %d letters and digits: openssl rand -hex 32 makes one",
                         HTTP_TOKEN_LEAST);
    }
    if (o->token.len > 0 || http_is_loopback(o->address)) return 0;
    return fail_set(why, FAIL_USAGE, "%s: other machines can reach it, and no token is set",
                    o->address);
}

int http_open(struct arena *a, const struct http_options *options, struct http **ret_http,
              struct fail *why) {
    struct http *h = arena_new(a, struct http, 1);
    h->options = *options;
    h->port = options->port;
    h->is_loopback = http_is_loopback(options->address);
    int listening = -1, rc = check(options, why);
    if (rc == 0) rc = http_library_load(&h->library, why);
    if (rc == 0) rc = http_listen(a, options->address, &h->port, &listening, why);
    if (rc == 0) rc = make_session(h, why);
    if (rc < 0) return rc;
    h->daemon = start(h, listening);
    const union MHD_DaemonInfo *info =
        h->daemon ? h->library.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) {
        os_close(&listening);
        return fail_set(why, FAIL_MACHINE, "libmicrohttpd cannot start a server here");
    }
    h->fd = info->epoll_fd;
    const char *address = options->address ? options->address : "127.0.0.1";
    bool is_v6 = strchr(address, ':') != NULL;
    h->url =
        str_format(a, "http://%s%s%s:%d/", is_v6 ? "[" : "", address, is_v6 ? "]" : "", h->port);
    *ret_http = h;
    return 0;
}

int http_wait_ms(const struct http *h) {
    MHD_UNSIGNED_LONG_LONG ms = 1000;
    if (h->library.get_timeout(h->daemon, &ms) != MHD_YES || ms > 1000) return 1000;
    return (int)ms;
}

void http_turn(struct http *h) {
    h->library.run(h->daemon);
    sweep(h);
}

void http_close(struct http *h) {
    if (!h) return;
    h->is_closing = true;
    http_streams_end(h);
    h->library.run(h->daemon);
    h->library.stop_daemon(h->daemon);
}
