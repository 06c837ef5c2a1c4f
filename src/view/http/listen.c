// SPDX-License-Identifier: Apache-2.0
// The socket that listens, and what to say when it cannot.
#include "view/http/http_int.h"

#include "base/os.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { BACKLOG = 4096 }; // the system may cut it (net.core.somaxconn)

bool http_is_loopback(const char *address) {
    struct str s = str_of(address);
    return s.len == 0 || str_is(s, "localhost") || str_is(s, "::1") || str_starts(s, STR("127."));
}

static int find(const char *address, int port, struct addrinfo **ret_found, struct fail *why) {
    char service[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    snprintf(service, sizeof service, "%d", port);
    if (!address || strcmp(address, "localhost") == 0) address = "127.0.0.1";
    if (getaddrinfo(address, service, &hints, ret_found) == 0) return 0;
    fail_set(why, FAIL_USAGE, "'%s' is not an address to listen on", address);
    return fail_hint(why,
                     "use a number: 127.0.0.1 or ::1 (this machine only), 0.0.0.0 (all networks)");
}

static int refused(const char *address, int port, int error, struct fail *why) {
    const char *shown = address ? address : "127.0.0.1";
    fail_set(why, FAIL_MACHINE, "cannot listen on %s port %d: %s", shown, port, strerror(error));
    if (error == EADDRINUSE) {
        return fail_hint(why,
                         "another program uses this port (ss -ltnp 'sport = :%d' shows it); stop "
                         "it, or take another: --port 0 finds a free one",
                         port);
    }
    if (error == EACCES) return fail_hint(why, "ports below 1024 need root; use a higher one");
    if (error == EADDRNOTAVAIL) return fail_hint(why, "this machine does not have that address");
    return FAIL_MACHINE;
}

static int port_of(int fd) {
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &size)) return 0;
    return ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                             : ((struct sockaddr_in *)&bound)->sin_port);
}

int http_listen(const char *address, int *port, int *ret_fd, struct fail *why) {
    struct addrinfo *found = NULL;
    int rc = find(address, *port, &found, why);
    if (rc < 0) return rc;
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, BACKLOG)) {
        rc = refused(address, *port, errno, why);
        os_close(&fd);
    } else {
        *port = port_of(fd);
        *ret_fd = fd;
    }
    freeaddrinfo(found);
    return rc;
}
