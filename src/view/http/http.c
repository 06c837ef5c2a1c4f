// SPDX-License-Identifier: Apache-2.0
// The server: who is let in, and which page answers. The library (libmicrohttpd) cuts the bytes
// into requests and refuses what is no HTTP; it is driven from outside and gets its connections
// from our door (door.c). Its own time limit is one of silence, which a client that sends a byte
// now and then never meets: so every connection is known there with its age.
#include "view/http/http_int.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ROUNDS = 8 }; // of a turn, while there are more connections to accept

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
    (void)connection;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*socket_context) http_link_closed(h, *socket_context);
        return;
    }
    *socket_context = h->arriving;
    h->arriving = NULL;
}

static struct http_link *link_of(const struct http *h, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        h->library.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
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
    bool has_body, is_odd;                   // not a name: "Content-Length : 5"
    bool is_unclear;                         // where its body ends
    int64_t length;                          // of it
    const char *x_forwarded_for, *forwarded; // the last ones: the nearest proxy's
    const char *host_end, *behind_host;      // where the library takes it to end; the next name
};

static enum MHD_Result outline_add(void *context, enum MHD_ValueKind kind, const char *key,
                                   const char *value) {
    struct outline *o = context;
    struct str name = str_of(key);
    (void)kind;
    o->is_odd |= !http_is_name(name);
    if (o->host_end && !o->behind_host) o->behind_host = key;
    if (value && str_equal_nocase(name, STR("Host"))) o->host_end = value + strlen(value);
    o->hosts += str_equal_nocase(name, STR("Host"));
    o->is_unclear |= str_equal_nocase(name, STR("Transfer-Encoding"));
    if (str_equal_nocase(name, STR("X-Forwarded-For"))) o->x_forwarded_for = value;
    if (str_equal_nocase(name, STR("Forwarded"))) o->forwarded = value;
    if (!str_equal_nocase(name, STR("Content-Length"))) return MHD_YES;
    struct str number = str_of(value);
    o->is_unclear |= ++o->lengths > 1 || !str_is_made_of(number, "") ||
                     !str_to_i64(number, &o->length) || (number.p[0] == '0' && number.len > 1);
    return MHD_YES;
}

static struct outline outline_of(const struct http *h, struct MHD_Connection *connection) {
    struct outline o = {0};
    h->library.get_connection_values(connection, MHD_HEADER_KIND, outline_add, &o);
    o.has_body = o.is_unclear || o.length > 0;
    return o;
}

// The library reads a header up to a NUL, others read on: "localhost\0.evil.example". Where it ends
// in the bytes that came is seen from where the next one begins, or where all of them end: in
// between there are line ends only, which it has overwritten by NULs.
static bool has_nul_in_host(const struct http *h, struct MHD_Connection *connection,
                            const char *method, const struct outline *outline) {
    const union MHD_ConnectionInfo *info =
        h->library.get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!h->library.cuts_at_nul || !outline->host_end || !info) return false;
    const char *end = method + info->header_size, *at = outline->host_end;
    const char *behind = outline->behind_host ? outline->behind_host : end;
    ptrdiff_t line_ends = outline->behind_host ? 2 : 4;
    if (at < method || at > end || behind < at || behind - at > line_ends) return true;
    while (at < behind && *at == 0) at++;
    return at < behind;
}

// Who showed no token asks once a connection, so that the door can see how often. A page that
// others use, too, is none that is sent without a token.
static bool asks_once(const struct http *h, struct MHD_Connection *connection,
                      const struct http_page *page) {
    const struct http_link *link = link_of(h, connection);
    return h->options.token.len > 0 && page->users == 1 && link && !link->is_favoured &&
           !link->from->is_proxy;
}

static enum MHD_Result send_page(struct http *h, struct MHD_Connection *connection,
                                 struct http_page *page) {
    if (!page) return MHD_NO; // no memory: the connection is closed
    if (asks_once(h, connection, page))
        h->library.add_response_header(page->response, "Connection", "close");
    int first = page->status / 100;
    if (first >= 1 && first <= 5) h->counts.answers[first]++;
    enum MHD_Result result =
        h->library.queue_response(connection, (unsigned)page->status, page->response);
    http_page_drop(h, page);
    return result;
}

// What a client has sent so far of a body whose size it said before. Room comes with the bytes: who
// only says a size gets none.
struct body {
    ptrdiff_t len, room, size;
    char text[];
};

// False: more than was said, or out of memory; the body is as it was.
static bool add_piece(struct body **body, const char *piece, ptrdiff_t count) {
    struct body *b = *body;
    if (count > b->size - b->len) return false;
    if (count > b->room - b->len) {
        const ptrdiff_t twice = 2 * b->room, least = b->len + count,
                        room = twice > least ? twice : least;
        b = realloc(b, sizeof *b + (size_t)room);
        if (!b) return false;
        b->room = room;
        *body = b;
    }
    memcpy(b->text + b->len, piece, (size_t)count);
    b->len += count;
    return true;
}

static enum MHD_Result refuse(struct http *h, struct MHD_Connection *connection, int status,
                              const char *what) {
    bool is_browser =
        http_prefers(header(h, connection, MHD_HTTP_HEADER_ACCEPT), "text/html", "text/plain");
    struct http_page *page = status == MHD_HTTP_UNAUTHORIZED && is_browser
                                 ? http_page_door(h)
                                 : http_page_error(h, status, what);
    if (page && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        h->library.add_response_header(page->response, "Allow",
                                       strstr(what, "POST") ? "POST" : "GET, HEAD");
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
    struct str host = header(h, connection, MHD_HTTP_HEADER_HOST);
    *ret_what = "the Host header is not a name or an address with a port";
    if (!http_host_is_sound(host)) return MHD_HTTP_BAD_REQUEST;
    *ret_what = "this server answers only to the name localhost and its own address";
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

static void remember(struct http *h, struct MHD_Connection *connection) {
    struct http_link *link = link_of(h, connection);
    if (link && h->options.token.len > 0) http_address_favour(h, link);
}

// The token goes out of the address bar (and the history) at once; a cookie, which no script can
// read and no other site can send, stands for it.
static enum MHD_Result swap_token(struct http *h, struct MHD_Connection *connection,
                                  const char *path) {
    struct http_page *page = http_page_error(h, MHD_HTTP_SEE_OTHER, "continue without the token");
    if (!page) return MHD_NO;
    ARENA_AUTO scratch = {0};
    struct str cookie = str_format(&scratch, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s",
                                   h->cookie_name, h->session, h->is_tls ? "; Secure" : "");
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
                              const struct http_route *route, const struct body *body) {
    struct http_request request = {h, connection, route,
                                   header(h, connection, MHD_HTTP_HEADER_ACCEPT)};
    if (body) request.body = (struct str){body->text, body->len};
    struct http_page *whole = route->answer(h->options.context, &request);
    if (!whole) return refuse(h, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not available now");
    struct str encodings = header(h, connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    struct http_page *page = http_page_as_taken(h, whole, encodings);
    http_page_drop(h, whole);
    struct str if_none_match = header(h, connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (http_tag_matches(if_none_match, page->tag)) return send_not_modified(h, connection, page);
    return send_page(h, connection, page);
}

static enum MHD_Result stream(struct http *h, struct MHD_Connection *connection) {
    struct http_link *link = link_of(h, connection);
    if (!link || !http_stream_room(h, link)) {
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

static enum MHD_Result serve(struct http *h, struct MHD_Connection *connection, const char *path,
                             const struct body *body) {
    const char *what = NULL;
    int fault = fault_of(h, connection, &what);
    if (fault) return refuse(h, connection, fault, what);
    const struct http_route *route = route_of(h, path);
    bool is_open = route && route->is_open;
    enum pass pass = is_open ? PASS_YES : pass_of(h, connection);
    if (pass != PASS_NO && !is_open) remember(h, connection);
    if (pass == PASS_NO) {
        return refuse(
            h, connection, MHD_HTTP_UNAUTHORIZED,
            "token required: send Authorization: Bearer TOKEN, or once /?token=TOKEN in a browser");
    }
    if (!route) return refuse(h, connection, MHD_HTTP_NOT_FOUND, "not found");
    if (pass == PASS_BY_QUERY) return swap_token(h, connection, route->path);
    return route->is_stream ? stream(h, connection) : answer(h, connection, route, body);
}

// Whom a request is counted for: with a proxy of ours, who it asks for. False: that one has as many
// requests at once as it may.
static bool charge(struct http *h, struct http_link *link, const struct outline *outline) {
    struct http_address client;
    if (!link || !link->from->is_proxy) return true;
    if (!http_forwarded_for(&h->peers, str_of(outline->x_forwarded_for), str_of(outline->forwarded),
                            &client)) {
        return true;
    }
    return http_link_charge(h, link, http_peer_of(&h->peers, &client, os_now_ns()));
}

// Whoever may not ask sends no body either: who that is, is judged by the headers. JSON only, which
// no page of another site can send without asking first (a form cannot; CORS).
static enum MHD_Result open_body(struct http *h, struct MHD_Connection *connection,
                                 const struct http_route *route, const struct outline *outline,
                                 void **request_context) {
    const char *what = NULL;
    struct http_link *link = link_of(h, connection);
    struct str type = header(h, connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    int fault = fault_of(h, connection, &what);
    if (fault) return refuse(h, connection, fault, what);
    if (pass_of(h, connection) != PASS_YES)
        return refuse(h, connection, MHD_HTTP_UNAUTHORIZED,
                      "token required: send Authorization: Bearer TOKEN");
    if (!str_equal_nocase(str_trim(str_cut(&type, ';')), STR("application/json")))
        return refuse(h, connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                      "the body must be application/json");
    if (outline->is_unclear || outline->lengths != 1)
        return refuse(h, connection, MHD_HTTP_LENGTH_REQUIRED, "one Content-Length is required");
    if (outline->length > route->body_most)
        return refuse(h, connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too long");
    struct body *body = malloc(sizeof *body);
    if (!body) return MHD_NO;
    *body = (struct body){.size = (ptrdiff_t)outline->length};
    *request_context = body;
    if (link) link->state = HTTP_LINK_NEW;
    return MHD_YES;
}

static void begin_answer(struct http_link *link) {
    if (!link) return;
    if (link->state != HTTP_LINK_STREAMS) link->state = HTTP_LINK_ANSWERS;
    link->since_ns = os_now_ns();
}

// When the headers are there. An answer now closes the connection afterwards: right for requests
// that have a body, as no more of their bytes are taken for a request.
static enum MHD_Result begin(struct http *h, struct MHD_Connection *connection, const char *path,
                             const char *method, void **request_context) {
    const struct http_route *route = route_of(h, path);
    bool takes_body = route && route->body_most > 0;
    struct http_link *link = link_of(h, connection);
    *request_context = h;
    begin_answer(link);
    if (takes_body && strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(h, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only POST");
    if (!takes_body && !is_get(method))
        return refuse(h, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    struct outline outline = outline_of(h, connection);
    if (!charge(h, link, &outline))
        return refuse(h, connection, MHD_HTTP_TOO_MANY_REQUESTS,
                      "too many requests from this address at once");
    if (outline.is_odd) return refuse(h, connection, MHD_HTTP_BAD_REQUEST, "invalid header name");
    if (has_nul_in_host(h, connection, method, &outline))
        return refuse(h, connection, MHD_HTTP_BAD_REQUEST, "the Host header contains a NUL");
    if (takes_body) return open_body(h, connection, route, &outline, request_context);
    if (!outline.has_body) return MHD_YES;
    return refuse(h, connection, MHD_HTTP_BAD_REQUEST, "requests must not have a body");
}

// The library calls when the headers are there, for each piece of a body, and at its end.
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *piece, size_t *piece_size, void **request_context) {
    struct http *h = context;
    (void)version;
    if (!*request_context) return begin(h, connection, path, method, request_context);
    struct body *body = *request_context == h ? NULL : *request_context;
    if (!*piece_size) {
        if (body) begin_answer(link_of(h, connection));
        return serve(h, connection, path, body);
    }
    if (!body || !add_piece(&body, piece, (ptrdiff_t)*piece_size)) return MHD_NO;
    *request_context = body;
    *piece_size = 0;
    return MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code) {
    struct http_link *link = link_of(context, connection);
    (void)code;
    if (*request_context != context) free(*request_context);
    *request_context = NULL;
    if (!link || link->state == HTTP_LINK_FREE) return;
    http_link_rest(context, link);
}

struct str http_query(const struct http_request *r, const char *key) {
    return value_of(r->http, r->connection, MHD_GET_ARGUMENT_KIND, key);
}

// --- The server

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
    static const struct http_calls calls = {on_request, on_connection, on_completed};
    h->fd = h->listening = -1;
    int rc = check(options, why);
    if (rc == 0) rc = http_library_open(options->tls_cert.len > 0, &h->library, why);
    if (rc == 0) rc = http_peers_open(a, &h->peers, options->trusted_proxies, why);
    if (rc == 0) rc = http_listen(options->address, &h->port, &h->listening, why);
    if (rc == 0) rc = make_session(h, why);
    if (rc == 0) rc = http_library_start(h, &calls, why);
    if (rc == 0) rc = http_door_open(h, why);
    if (rc < 0) {
        if (h->daemon) h->library.stop_daemon(h->daemon);
        http_door_close(h);
        return rc;
    }
    const char *address = options->address ? options->address : "127.0.0.1";
    bool is_v6 = strchr(address, ':') != NULL;
    h->url = str_format(a, "http%s://%s%s%s:%d/", h->is_tls ? "s" : "", is_v6 ? "[" : "", address,
                        is_v6 ? "]" : "", h->port);
    *ret_http = h;
    return 0;
}

int http_wait_ms(const struct http *h) {
    MHD_UNSIGNED_LONG_LONG ms = 1000;
    MHD_UNSIGNED_LONG_LONG most = http_door_holds_back(h) ? 10 : 1000;
    if (h->library.get_timeout(h->daemon, &ms) != MHD_YES || ms > most) ms = most;
    return (int)ms;
}

void http_turn(struct http *h) {
    bool has_more = true;
    for (int round = 0; round < ROUNDS && has_more; round++) {
        has_more = http_door_turn(h);
        h->library.run(h->daemon);
    }
    http_stream_heartbeat(h);
}

void http_close(struct http *h) {
    if (!h) return;
    h->is_closing = true;
    http_streams_end(h);
    h->library.run(h->daemon);
    h->library.stop_daemon(h->daemon);
    http_door_close(h);
}
