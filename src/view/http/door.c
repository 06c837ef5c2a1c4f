// SPDX-License-Identifier: Apache-2.0
// The door: who gets in, and who has to go for it. A connection costs a descriptor here until it
// has said something; only then the library gets it. Nobody is refused because others came before:
// when it is full, one goes of the address that has the most, the one that has been idle longest.
// Who showed the token, and this machine itself, have places that no other can take.
#include "view/http/http_int.h"

#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OTHER_FILES = 128 }; // descriptors that the rest of the program may need
static const int64_t SECOND_NS = 1000000000;

// --- Places

// Its place is free for others, though the library may need a moment to close it.
static void leave(struct http *h, struct http_link *link) {
    if (link->is_let_go) return;
    link->is_let_go = true;
    h->held--;
    h->common -= !link->is_favoured;
    h->said -= link->state == HTTP_LINK_WAITS && link->has_said;
    link->account->links--;
    link->account->streams -= link->stream != NULL;
}

void http_link_closed(struct http *h, struct http_link *link) {
    leave(h, link);
    link->account->uses--;
    link->from->uses--;
    link->state = HTTP_LINK_FREE;
    link->next_free = h->free_links;
    h->free_links = link;
    h->counts.connections_now--;
}

// A reset: an attacker's connections are not remembered by the system for a minute each.
static void close_at_door(struct http *h, struct http_link *link) {
    struct linger at_once = {.l_onoff = 1};
    setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(link->fd);
    http_link_closed(h, link);
}

void http_link_wake(struct http *h, struct http_link *link) {
    if (link->asleep) h->library.resume_connection(link->asleep);
    link->asleep = NULL;
}

void http_link_let_go(struct http *h, struct http_link *link) {
    if (link->is_let_go) return;
    if (link->state == HTTP_LINK_WAITS) {
        close_at_door(h, link);
        return;
    }
    leave(h, link);
    shutdown(link->fd, SHUT_RDWR); // the library sees it and closes
    http_link_wake(h, link);
}

static void favour(struct http *h, struct http_link *link) {
    if (link->is_favoured || link->is_let_go) return;
    link->is_favoured = true;
    h->common--;
}

void http_address_favour(struct http *h, struct http_link *link) {
    link->account->known_until_ns = os_now_ns() + HTTP_KNOWN_S * SECOND_NS;
    favour(h, link);
    for (int i = 0; i < h->highest; i++) {
        struct http_link *other = &h->links[i];
        bool is_waiting = other->state == HTTP_LINK_WAITS && other->account == link->account;
        if (is_waiting) favour(h, other);
    }
}

// --- Who goes

// An address that is favoured is so for its first connections; what it has more is like others'.
static bool is_sure(const struct http_link *link) {
    return link->is_favoured && link->account->links <= HTTP_FAVOURED;
}

// Who goes first has the highest: not sure of its place, of an address that has many, and little is
// lost with it. Of those that are alike the oldest goes.
static int rank(const struct http_link *link) {
    static const int least_lost[] = {[HTTP_LINK_WAITS] = 4,
                                     [HTTP_LINK_NEW] = 4,
                                     [HTTP_LINK_KEPT] = 3,
                                     [HTTP_LINK_ANSWERS] = 1,
                                     [HTTP_LINK_STREAMS] = 0};
    int lost = link->state == HTTP_LINK_WAITS && link->has_said ? 2 : least_lost[link->state];
    return ((is_sure(link) ? 0 : HTTP_LINKS) + link->account->links) * 8 + lost;
}

// What came while we looked at others: it is not idle then.
static bool says_something(struct http *h, struct http_link *link) {
    char byte;
    if (link->state != HTTP_LINK_WAITS || link->has_said) return false;
    if (recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1) return false;
    link->has_said = true;
    h->said++;
    return true;
}

enum who { ANYBODY, THE_UNSURE, STRANGERS };

static bool is_of(const struct http_link *link, enum who who) {
    if (who == STRANGERS) return !link->is_favoured;
    return who == ANYBODY || !is_sure(link);
}

static struct http_link *next_to_go(struct http *h, const struct http_peer *account, enum who who) {
    struct http_link *victim = NULL;
    int highest = 0;
    for (int i = 0; i < h->highest; i++) {
        struct http_link *link = &h->links[i];
        if (link->state == HTTP_LINK_FREE || link->is_let_go) continue;
        if (account && link->account != account) continue;
        int its = rank(link);
        if (victim && (its < highest || (its == highest && link->since_ns >= victim->since_ns)))
            continue;
        if (!is_of(link, who)) continue;
        highest = its;
        victim = link;
    }
    return victim;
}

// Of one account, or of all. False: there is nobody who would have to go.
static bool put_out(struct http *h, const struct http_peer *account, enum who who) {
    struct http_link *victim = next_to_go(h, account, who);
    while (victim && says_something(h, victim)) victim = next_to_go(h, account, who);
    if (!victim) return false;
    h->counts.put_out++;
    http_link_let_go(h, victim);
    return true;
}

static int most_of(const struct http *h, const struct http_peer *account) {
    bool is_many = account->is_proxy || account->is_loopback; // a tunnel's end, it may be
    int most = is_many ? HTTP_PER_PROXY : HTTP_PER_ADDRESS;
    return most < h->most / 2 ? most : h->most / 2;
}

static bool make_room(struct http *h, const struct http_peer *account, bool is_favoured) {
    int reserved = h->most / (HTTP_CONNECTIONS / HTTP_RESERVED);
    bool is_sure_of_it = is_favoured && account->links < HTTP_FAVOURED, has_room = true;
    while (has_room && account->links >= most_of(h, account))
        has_room = put_out(h, account, ANYBODY);
    while (has_room && !is_favoured && h->common >= h->most - reserved)
        has_room = put_out(h, NULL, STRANGERS);
    while (has_room && h->held >= h->most)
        has_room = put_out(h, NULL, is_sure_of_it ? ANYBODY : THE_UNSURE);
    return has_room;
}

bool http_link_charge(struct http *h, struct http_link *link, struct http_peer *account) {
    if (!account || link->is_let_go || account == link->account) return account != NULL;
    if (account != link->from && account->links >= most_of(h, account)) return false;
    link->account->links--;
    link->account->uses--;
    link->account = account;
    account->links++;
    account->uses++;
    return true;
}

// Between the requests that it passes on, a proxy's connection is its own.
void http_link_rest(struct http *h, struct http_link *link) {
    link->state = HTTP_LINK_KEPT;
    link->since_ns = os_now_ns();
    if (!link->from->is_proxy || link->is_let_go) return;
    http_link_charge(h, link, link->from);
    h->common += link->is_favoured;
    link->is_favoured = false;
}

// A stream goes only for one of an address that has fewer.
bool http_stream_room(struct http *h, const struct http_link *link) {
    struct http_link *victim = NULL;
    if (h->counts.streams_now < HTTP_STREAMS) return true;
    for (struct http_stream *s = h->streams; s; s = s->next) {
        if (s->link->is_let_go) continue;
        if (!victim || s->link->account->streams > victim->account->streams) victim = s->link;
    }
    if (!victim || victim->account->streams <= link->account->streams + 1) return false;
    h->counts.put_out++;
    http_link_let_go(h, victim);
    return true;
}

// --- Who comes

static struct http_link *take_link(struct http *h) {
    struct http_link *link = h->free_links;
    if (link) {
        h->free_links = link->next_free;
    } else if (h->highest < HTTP_LINKS) {
        link = &h->links[h->highest++];
    }
    return link;
}

static bool watch(struct http *h, int fd, struct http_link *link, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = link};
    return epoll_ctl(h->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Its first byte, or its end.
static void look_at(struct http *h, struct http_link *link) {
    char byte;
    if (link->state != HTTP_LINK_WAITS || link->has_said || says_something(h, link)) return;
    bool is_silent = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    if (!is_silent) http_link_let_go(h, link);
}

static void let_in(struct http *h, int fd, const struct sockaddr_storage *address) {
    int64_t now = os_now_ns();
    struct http_address of = http_address_of(address);
    struct http_peer *peer = http_peer_of(&h->peers, &of, now);
    bool is_favoured = peer && (peer->is_loopback || peer->known_until_ns > now);
    struct http_link *link = peer && make_room(h, peer, is_favoured) ? take_link(h) : NULL;
    if (!link) {
        h->counts.put_out++;
        close(fd);
        return;
    }
    int send_bytes = HTTP_SEND_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    *link = (struct http_link){.state = HTTP_LINK_WAITS,
                               .fd = fd,
                               .since_ns = now,
                               .is_favoured = is_favoured,
                               .from = peer,
                               .account = peer};
    peer->uses += 2;
    peer->links++;
    h->held++;
    h->common += !is_favoured;
    h->counts.connections_now++;
    if (says_something(h, link)) return;
    if (!watch(h, fd, link, EPOLLIN | EPOLLRDHUP | EPOLLET)) http_link_let_go(h, link);
}

// True: there may be more, for the next round.
static bool accept_some(struct http *h) {
    for (int i = 0; i < HTTP_ACCEPTED; i++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        int fd =
            accept4(h->listening, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            h->counts.connections++;
            let_in(h, fd, &address);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            put_out(h, NULL, ANYBODY); // the next turn tries again
            return false;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return false;
        }
    }
    return true;
}

// --- From the door to the library

// Those that may not wait first, then those of addresses that asked least lately.
static int by_turn(const void *one, const void *other) {
    const struct http_link *a = *(struct http_link *const *)one;
    const struct http_link *b = *(struct http_link *const *)other;
    if (a->is_favoured != b->is_favoured) return a->is_favoured ? -1 : 1;
    if (a->from->lately != b->from->lately) return a->from->lately < b->from->lately ? -1 : 1;
    return a->since_ns < b->since_ns ? -1 : 1;
}

static void hand_over(struct http *h, struct http_link *link) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getpeername(link->fd, (struct sockaddr *)&address, &size)) { // gone
        http_link_let_go(h, link);
        return;
    }
    epoll_ctl(h->fd, EPOLL_CTL_DEL, link->fd, NULL);
    h->said--;
    link->state = HTTP_LINK_NEW;
    link->from->lately += !link->is_favoured;
    h->arriving = link;
    h->library.add_connection(h->daemon, link->fd, (struct sockaddr *)&address, size);
    if (h->arriving) http_link_closed(h, link); // the library closed it at once
    h->arriving = NULL;
}

// New connections of strangers take a fifth of one CPU at most, however many there are: an answer
// takes some 0.1 ms, TLS from its start some 2 ms.
static void refill(struct http *h) {
    static const struct rate { int each_second, most; } rates[] = {{2000, 100}, {100, 20}};
    const struct rate *rate = &rates[h->is_tls];
    int64_t now = os_now_ns(), since = now - h->refilled_ns;
    int64_t more = (since < SECOND_NS ? since : SECOND_NS) * rate->each_second / SECOND_NS;
    if (more == 0) return;
    h->strangers = more < rate->most - h->strangers ? h->strangers + (int)more : rate->most;
    h->refilled_ns = now;
}

// A few in each round, so that no flood keeps those waiting that are in already; fewer while others
// wait to be accepted, as the good ones may be among them.
static void hand_over_some(struct http *h, bool has_more) {
    struct http_link *ready[HTTP_LINKS];
    int count = 0, left = (h->is_tls ? 8 : 64) / (has_more ? 4 : 1);
    if (h->said == 0) return;
    refill(h);
    for (int i = 0; i < h->highest; i++) {
        struct http_link *link = &h->links[i];
        if (link->state == HTTP_LINK_WAITS && link->has_said) ready[count++] = link;
    }
    qsort(ready, (size_t)count, sizeof *ready, by_turn);
    for (int i = 0; i < count && left > 0; i++, left--) {
        bool is_stranger = !ready[i]->is_favoured && !ready[i]->from->is_proxy;
        if (is_stranger && h->strangers == 0) continue;
        h->strangers -= is_stranger;
        hand_over(h, ready[i]);
    }
}

bool http_door_holds_back(const struct http *h) {
    return h->said > 0;
}

// --- Time

// The library waits for the rest of a request, but is not told of an end that came together with
// the bytes before it (the edges of epoll).
static bool will_say_no_more(const struct http_link *link) {
    char byte;
    return link->state == HTTP_LINK_NEW && recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// Once a second: who has had its time is let go, and who left before its request was whole.
static void sweep(struct http *h) {
    static const int limits_s[] = {
        [HTTP_LINK_FREE] = 0,           [HTTP_LINK_WAITS] = HTTP_FIRST_S,
        [HTTP_LINK_NEW] = HTTP_FIRST_S, [HTTP_LINK_ANSWERS] = HTTP_ANSWER_S,
        [HTTP_LINK_KEPT] = HTTP_NEXT_S, [HTTP_LINK_STREAMS] = 0};
    int64_t now = os_now_ns();
    if (now - h->swept_ns < SECOND_NS) return;
    h->swept_ns = now;
    for (int i = 0; i < HTTP_PEERS; i++) h->peers.all[i].lately /= 2;
    for (int i = 0; i < h->highest; i++) {
        struct http_link *link = &h->links[i];
        int limit = limits_s[link->state];
        if (!limit || link->is_let_go) continue;
        bool is_late = now - link->since_ns >= limit * SECOND_NS;
        if (!is_late && !will_say_no_more(link)) continue;
        h->counts.timed_out += is_late;
        http_link_let_go(h, link);
    }
}

bool http_door_turn(struct http *h) {
    struct epoll_event events[256];
    int count = epoll_wait(h->fd, events, sizeof events / sizeof *events, 0);
    bool has_new = false;
    for (int i = 0; i < count; i++) {
        struct http_link *link = events[i].data.ptr;
        if (link >= h->links && link < h->links + HTTP_LINKS) {
            look_at(h, link); // of another connection by now, it may be: that does no harm
        } else {
            has_new |= events[i].data.ptr == &h->listening;
        }
    }
    bool has_more = has_new && accept_some(h);
    hand_over_some(h, has_more);
    sweep(h);
    return has_more;
}

// The system's own limit may be raised by us up to the hard one.
static int connection_limit(void) {
    struct rlimit files = {0};
    rlim_t wanted = HTTP_LINKS + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files)) return HTTP_CONNECTIONS / 2;
    if (files.rlim_cur < wanted && files.rlim_max > files.rlim_cur) {
        files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
        if (setrlimit(RLIMIT_NOFILE, &files)) getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur >= wanted ? HTTP_CONNECTIONS : (int)files.rlim_cur / 2 + 1;
}

int http_door_open(struct http *h, struct fail *why) {
    const union MHD_DaemonInfo *info =
        h->library.get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    h->most = connection_limit();
    h->fd = info ? epoll_create1(EPOLL_CLOEXEC) : -1;
    struct epoll_event listens = {.events = EPOLLIN, .data.ptr = &h->listening};
    struct epoll_event library = {.events = EPOLLIN, .data.ptr = &h->daemon};
    if (h->fd >= 0 && epoll_ctl(h->fd, EPOLL_CTL_ADD, h->listening, &listens) == 0 &&
        epoll_ctl(h->fd, EPOLL_CTL_ADD, info->epoll_fd, &library) == 0) {
        return 0;
    }
    return fail_set(why, FAIL_MACHINE, "the system gives no descriptor to wait with (epoll)");
}

void http_door_close(struct http *h) {
    for (int i = 0; i < h->highest; i++) {
        if (h->links[i].state == HTTP_LINK_WAITS) close_at_door(h, &h->links[i]);
    }
    os_close(&h->listening);
    os_close(&h->fd);
}
