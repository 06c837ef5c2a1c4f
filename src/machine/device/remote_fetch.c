// SPDX-License-Identifier: Apache-2.0
// One GET of several servers at once: HTTP/1.0, so that the answer ends with the connection. Nobody
// waits for one that is silent longer than the deadline.
#include "machine/device/device_int.h"

#include "base/os.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MS_NS = 1000000, ANSWER_MOST = 8 << 20 };
static const char usual_port[] = "8080";

int device_remote_read_host(struct arena *a, struct str text, struct remote_host *ret_host,
                            struct fail *why) {
    struct str host = text;
    if (str_starts(host, STR("https://"))) {
        fail_set(why, FAIL_USAGE, "%.*s: https is not supported here", STR_ARG(text));
        return fail_hint(why, "forward the port by ssh: ssh -L 8081:localhost:8080 HOST, then "
                              "batchfit watch localhost:8081");
    }
    if (str_starts(host, STR("http://"))) host = str_slice(host, 7, host.len);
    if (str_ends(host, STR("/"))) host = str_slice(host, 0, host.len - 1);
    struct str address, port = {0};
    if (str_starts(host, STR("["))) {
        ptrdiff_t end = str_find(host, STR("]"));
        address = end < 0 ? (struct str){0} : str_slice(host, 1, end);
        if (end >= 0 && end + 1 < host.len) port = str_slice(host, end + 2, host.len);
    } else {
        port = host;
        address = str_cut(&port, ':');
    }
    int64_t number = 0;
    bool has_port = port.len > 0 && str_to_i64(port, &number) && number > 0 && number < 65536;
    if (!str_is_made_of(address, "-._:%") || (port.len > 0 && !has_port)) {
        fail_set(why, FAIL_USAGE, "'%.*s' is not a machine", STR_ARG(text));
        return fail_hint(why, "use HOST or HOST:PORT of a batchfit serve");
    }
    *ret_host = (struct remote_host){.name = str_copy(a, host),
                                     .address = str_z(a, address),
                                     .port = has_port ? str_z(a, port) : usual_port};
    return 0;
}

// One request on its way.
struct request {
    struct remote_host *host;
    struct buf in;
    struct str out;
    ptrdiff_t sent;
    int fd; // -1: it is over
};

static void finish(struct request *r, const char *reason) {
    if (r->fd >= 0) close(r->fd);
    r->fd = -1;
    r->host->answer = reason ? (struct str){0} : buf_str(&r->in);
    snprintf(r->host->reason, sizeof r->host->reason, "%s", reason ? reason : "");
}

static void start(struct request *r, const char *token) {
    struct remote_host *h = r->host;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    r->fd = -1;
    if (os_now_ns() < h->again_ns) return; // what was said of it stays
    arena_clear(&h->body);
    r->in = buf_new(&h->body);
    struct str said =
        token ? str_format(&h->body, "Authorization: Bearer %s\r\n", token) : (struct str){0};
    r->out = str_format(&h->body,
                        "GET /api/v1/snapshot HTTP/1.0\r\nHost: %.*s\r\nAccept: "
                        "application/json\r\n%.*sConnection: close\r\n\r\n",
                        STR_ARG(h->name), STR_ARG(said));
    int code = getaddrinfo(h->address, h->port, &hints, &found);
    if (code) {
        finish(r, gai_strerror(code));
        return;
    }
    r->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_begun = r->fd >= 0 && (connect(r->fd, found->ai_addr, found->ai_addrlen) == 0 ||
                                   errno == EINPROGRESS);
    freeaddrinfo(found);
    if (!is_begun) finish(r, strerror(errno));
}

static void go_on_writing(struct request *r) {
    ssize_t n = send(r->fd, r->out.p + r->sent, (size_t)(r->out.len - r->sent), MSG_NOSIGNAL);
    if (n > 0)
        r->sent += n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        finish(r, strerror(errno));
}

static void go_on_reading(struct request *r) {
    char part[65536];
    ssize_t n = recv(r->fd, part, sizeof part, 0);
    if (n > 0)
        buf_add(&r->in, (struct str){part, n});
    else if (n == 0)
        finish(r, r->in.count > 0 ? NULL : "it closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
        finish(r, strerror(errno));
    if (r->fd >= 0 && r->in.count > ANSWER_MOST) finish(r, "its answer is too long");
}

// False: nothing is on its way any more.
static bool wait_for_some(struct request *requests, int count, int wait_ms) {
    struct pollfd fds[REMOTE_HOSTS];
    bool is_any = false;
    for (int i = 0; i < count; i++) {
        struct request *r = &requests[i];
        fds[i] = (struct pollfd){r->fd, r->sent < r->out.len ? POLLOUT : POLLIN, 0};
        is_any |= r->fd >= 0;
    }
    if (!is_any || poll(fds, (nfds_t)count, wait_ms) < 0) return is_any;
    for (int i = 0; i < count; i++) {
        if (fds[i].fd < 0 || !fds[i].revents) continue;
        if (fds[i].events == POLLOUT)
            go_on_writing(&requests[i]);
        else
            go_on_reading(&requests[i]);
    }
    return true;
}

void device_remote_fetch(struct remote_host *hosts, int count, const char *token) {
    struct request requests[REMOTE_HOSTS] = {0};
    int64_t end_ns = os_now_ns() + (int64_t)REMOTE_DEADLINE_MS * MS_NS, left_ns;
    for (int i = 0; i < count; i++) {
        requests[i].host = &hosts[i];
        start(&requests[i], token);
    }
    do {
        left_ns = end_ns - os_now_ns();
    } while (left_ns > 0 && wait_for_some(requests, count, (int)(left_ns / MS_NS) + 1));
    for (int i = 0; i < count; i++) {
        if (requests[i].fd < 0) continue;
        finish(&requests[i], "no answer within 2 s");
        hosts[i].again_ns = os_now_ns() + (int64_t)REMOTE_REST_MS * MS_NS;
    }
}
