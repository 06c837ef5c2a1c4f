// SPDX-License-Identifier: Apache-2.0
// Server-sent events. An event is kept once however many clients wait for it; each has a short
// queue, and who lets it fill up is let go: the browser comes back by itself and gets the state of
// then.
#include "view/http/http_int.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16384 };
// How long a browser waits before it comes back, in ms.
static const char opening[] = "retry: 2000\n\n";
static const char heartbeat[] = ": still here\n\n";

static struct http_event *event_new(ptrdiff_t len) {
    struct http_event *event = malloc(sizeof *event + (size_t)len);
    if (!event) return NULL;
    event->users = 1;
    event->len = len;
    return event;
}

static void event_drop(struct http_event *event) {
    if (event && --event->users == 0) free(event);
}

static struct http_event *event_of(struct str text) {
    struct http_event *event = event_new(text.len);
    if (event) memcpy(event->text, text.p, (size_t)text.len);
    return event;
}

static void stream_add(struct http_stream *s, struct http_event *event) {
    if (!event || s->count == HTTP_QUEUE) {
        if (!s->link->is_let_go) s->http->counts.streams_dropped++;
        http_link_let_go(s->http, s->link);
    } else {
        event->users++;
        s->queue[(s->first + s->count++) % HTTP_QUEUE] = event;
    }
    http_link_wake(s->http, s->link);
}

// The library asks for more bytes. Nothing to say: the connection sleeps until there is.
static ssize_t stream_read(void *context, uint64_t at, char *bytes, size_t most) {
    struct http_stream *s = context;
    (void)at;
    if (s->http->is_closing || s->link->is_let_go) return MHD_CONTENT_READER_END_OF_STREAM;
    if (s->count == 0) {
        s->link->asleep = s->connection;
        s->http->library.suspend_connection(s->connection);
        return 0;
    }
    struct http_event *event = s->queue[s->first];
    ptrdiff_t size = event->len - s->sent;
    if (size > (ptrdiff_t)most) size = (ptrdiff_t)most;
    memcpy(bytes, event->text + s->sent, (size_t)size);
    s->sent += size;
    if (s->sent == event->len) {
        event_drop(event);
        s->first = (s->first + 1) % HTTP_QUEUE;
        s->count--;
        s->sent = 0;
    }
    return size;
}

static void stream_free(void *context) {
    struct http_stream *s = context;
    struct http_stream **at = &s->http->streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    for (int i = 0; i < s->count; i++) event_drop(s->queue[(s->first + i) % HTTP_QUEUE]);
    s->http->counts.streams_now--;
    if (!s->link->is_let_go) s->link->account->streams--;
    s->link->stream = NULL;
    free(s);
}

static struct http_event *event_make(const char *name, struct str data) {
    ARENA_AUTO scratch = {0};
    return event_of(str_format(&scratch, "event: %s\ndata: %.*s\n\n", name, STR_ARG(data)));
}

static void greet(struct http_stream *s) {
    struct http_event *first = event_of(str_of(opening));
    stream_add(s, first);
    event_drop(first);
    struct http *h = s->http;
    if (!h->options.greeting) return;
    struct http_event *state =
        event_make(h->options.event, h->options.greeting(h->options.context));
    stream_add(s, state);
    event_drop(state);
}

enum MHD_Result http_stream_open(struct http *h, struct MHD_Connection *connection,
                                 struct http_link *link) {
    struct http_stream *s = calloc(1, sizeof *s);
    if (!s) return MHD_NO;
    *s =
        (struct http_stream){.next = h->streams, .http = h, .connection = connection, .link = link};
    h->streams = s;
    if (++h->counts.streams_now == 1) h->spoken_ns = os_now_ns();
    link->state = HTTP_LINK_STREAMS;
    link->stream = s;
    link->account->streams++;
    greet(s);
    struct MHD_Response *response = h->library.create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK, stream_read, s, stream_free);
    if (!response) {
        stream_free(s);
        return MHD_NO;
    }
    http_headers(h, response, "text/event-stream", "no-store");
    h->library.add_response_header(response, "X-Accel-Buffering", "no"); // nginx in between
    enum MHD_Result result = h->library.queue_response(connection, MHD_HTTP_OK, response);
    h->library.destroy_response(response);
    return result;
}

static void send_all(struct http *h, struct http_event *event) {
    for (struct http_stream *s = h->streams; s; s = s->next) stream_add(s, event);
    event_drop(event);
    h->spoken_ns = os_now_ns();
}

void http_publish(struct http *h, struct str data) {
    if (h->streams) send_all(h, event_make(h->options.event, data));
}

void http_stream_heartbeat(struct http *h) {
    if (!h->streams || os_now_ns() - h->spoken_ns < HTTP_HEARTBEAT_S * INT64_C(1000000000)) return;
    send_all(h, event_of(str_of(heartbeat)));
}

void http_streams_end(struct http *h) {
    for (struct http_stream *s = h->streams; s; s = s->next) http_link_wake(h, s->link);
}
