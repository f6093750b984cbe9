/* SPDX-License-Identifier: Apache-2.0 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/internal.h"

enum { PLACES = 32, LINGER_MS = 2000, LINGER_CHECK_MS = 500, READS_AT_ONCE = 8, READ_SIZE = 64 << 10 };

struct linger_place {
    struct gt_source *source; /* NULL: free */
    int fd;
    uint64_t until_ms;
};

struct gt_linger {
    struct gt_loop *loop;
    struct gt_source *timer;
    struct linger_place places[PLACES];
};

static void vacate(struct linger_place *place)
{
    gt_source_free(gt_steal(place->source));
    close(place->fd);
}

static void linger_on_data(void *arg, uint32_t events)
{
    static char scrap[READ_SIZE];
    struct linger_place *place = arg;
    (void)events;
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t n = recv(place->fd, scrap, sizeof(scrap), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            vacate(place);
            return;
        }
    }
}

static void linger_on_timer(void *arg)
{
    struct gt_linger *linger = arg;
    uint64_t now = gt_clock_ms();
    bool used = false;
    for (unsigned i = 0; i < PLACES; i++) {
        struct linger_place *place = &linger->places[i];
        if (place->source && place->until_ms <= now)
            vacate(place);
        used = used || place->source;
    }
    if (used)
        gt_source_arm(linger->timer, LINGER_CHECK_MS);
}

void gt_linger_add(struct gt_linger *linger, int fd)
{
    struct linger_place *place = linger->places;
    while (place < linger->places + PLACES && place->source)
        place++;
    if (place == linger->places + PLACES || (place->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return; /* it is closed as it is */
    shutdown(place->fd, SHUT_WR);
    place->until_ms = gt_clock_ms() + LINGER_MS;
    if (gt_loop_add_fd(linger->loop, place->fd, POLLIN, linger_on_data, place, &place->source, NULL) < 0)
        close(place->fd);
    else
        gt_source_arm(linger->timer, LINGER_CHECK_MS);
}

int gt_linger_new(struct gt_loop *loop, struct gt_linger **ret, struct gt_err **err)
{
    gt_auto_free struct gt_linger *linger = calloc(1, sizeof(*linger));
    GT_NEED(linger, err, "HTTP server");
    linger->loop = loop;
    GT_TRY(gt_loop_add_timer(loop, linger_on_timer, linger, &linger->timer, err));
    *ret = gt_steal(linger);
    return 0;
}

void gt_linger_free(struct gt_linger *linger)
{
    if (!linger)
        return;
    for (unsigned i = 0; i < PLACES; i++)
        if (linger->places[i].source)
            vacate(&linger->places[i]);
    gt_source_free(linger->timer);
    free(linger);
}

/*
 * Anyone can open many connections, so a full server closes some instead of waiting. It first closes
 * connections that send nothing, since that costs their owners least. Among equals it closes one of the
 * address that has most, and then the oldest, so that many connections of one client do not displace the few
 * of another.
 */

enum {
    SILENT_SPARE_MS = 250, /* time for a handshake and a request */
    SPARE_MS = 1000,       /* of one that is idle between two requests, or has stopped within one */
    FAIR_RATE = 16,        /* bytes of a body in a millisecond: a slower connection counts as silent */
};

enum rank { SILENT, IDLE, STALLED, FRESH, AT_WORK };

static void read_prefix(const struct sockaddr *address, uint64_t *ret_prefix, bool *ret_v6)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* IPv4 within IPv6 */
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    uint32_t four;
    *ret_v6 = address->sa_family == AF_INET6;
    *ret_prefix = 0;
    if (*ret_v6 && memcmp(&v6->sin6_addr, mapped, sizeof(mapped)) == 0) {
        memcpy(&four, (const uint8_t *)&v6->sin6_addr + sizeof(mapped), sizeof(four));
        *ret_prefix = four;
        *ret_v6 = false;
    } else if (*ret_v6) {
        memcpy(ret_prefix, &v6->sin6_addr, sizeof(*ret_prefix));
    } else if (address->sa_family == AF_INET) {
        *ret_prefix = v4->sin_addr.s_addr;
    }
}

struct gt_http_remote *gt_http_remote_get(struct gt_http *http, const struct sockaddr *address)
{
    uint64_t prefix;
    bool v6;
    read_prefix(address, &prefix, &v6);
    struct gt_http_remote *remote = http->remotes;
    while (remote && (remote->prefix != prefix || remote->v6 != v6))
        remote = remote->next;
    if (!remote) {
        remote = calloc(1, sizeof(*remote));
        if (!remote)
            return NULL;
        *remote = (struct gt_http_remote){.next = http->remotes, .prefix = prefix, .v6 = v6};
        http->remotes = remote;
    }
    remote->references++;
    return remote;
}

void gt_http_remote_put(struct gt_http *http, struct gt_http_remote *remote)
{
    if (!remote || --remote->references)
        return;
    struct gt_http_remote **at = &http->remotes;
    while (*at != remote)
        at = &(*at)->next;
    *at = remote->next;
    free(remote);
}

static enum rank connections_rank_of(const struct gt_http_peer *peer, uint64_t now)
{
    uint64_t quiet = now - peer->received_ms;
    if (!peer->served && peer->request.stage == AT_HEADER)
        return quiet < SILENT_SPARE_MS ? FRESH : SILENT;
    if (!peer->in_request)
        return quiet >= SPARE_MS ? IDLE : FRESH;
    uint64_t elapsed = now - peer->since_ms;
    bool drips = elapsed >= SPARE_MS && peer->request.received < elapsed * FAIR_RATE;
    return quiet >= SPARE_MS || drips ? STALLED : AT_WORK;
}

static bool connections_goes_before(const struct gt_http_peer *a, enum rank rank_a,
                                    const struct gt_http_peer *b, enum rank rank_b)
{
    if (rank_a != rank_b)
        return rank_a < rank_b;
    if (a->remote != b->remote && a->remote->connections != b->remote->connections)
        return a->remote->connections > b->remote->connections;
    return a->received_ms < b->received_ms;
}

struct gt_http_peer *gt_http_victim(struct gt_http *http, const struct gt_http_remote *remote)
{
    struct gt_http_peer *first = NULL;
    enum rank rank_first = AT_WORK;
    uint64_t now = gt_clock_ms();
    for (struct gt_http_peer *peer = http->peers; peer; peer = peer->next) {
        enum rank rank = connections_rank_of(peer, now);
        if (peer->cut || rank == AT_WORK || (remote && peer->remote != remote))
            continue;
        /* The list has the youngest first: of two that are equal the later one is older. */
        if (!first || !connections_goes_before(first, rank_first, peer, rank)) {
            first = peer;
            rank_first = rank;
        }
    }
    return first;
}

static size_t left(size_t max, size_t used)
{
    return max > used ? max - used : 0;
}

size_t gt_http_bytes_left(const struct gt_http_peer *peer)
{
    const struct gt_http_budget *budget = peer->http->spec.budget;
    size_t all = left(budget->max, budget->used);
    size_t of_server = left(budget->max / 4 * 3, peer->http->bytes_used);
    size_t of_remote = left(budget->max / 2, peer->remote->bytes_used);
    size_t least = all < of_server ? all : of_server;
    return least < of_remote ? least : of_remote;
}

bool gt_http_reserve_bytes(struct gt_http_peer *peer, size_t bytes)
{
    size_t before = peer->request.bytes_used;
    if (bytes > before && bytes - before > gt_http_bytes_left(peer))
        return false;
    peer->http->spec.budget->used += bytes - before; /* unsigned: less works, too */
    peer->http->bytes_used += bytes - before;
    peer->remote->bytes_used += bytes - before;
    peer->request.bytes_used = bytes;
    return true;
}

void gt_http_cut(struct gt_http_peer *peer)
{
    peer->cut = true;
    peer->http->live--;
    peer->remote->connections--;
    shutdown(peer->fd, SHUT_RDWR);
}
