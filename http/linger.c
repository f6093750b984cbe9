/* SPDX-License-Identifier: Apache-2.0 */
#include "http/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"

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
    if (gt_loop_add_fd(linger->loop, place->fd, EPOLLIN, linger_on_data, place, &place->source, NULL) < 0)
        close(place->fd);
    else
        gt_source_arm(linger->timer, LINGER_CHECK_MS);
}

int gt_linger_new(struct gt_loop *loop, struct gt_linger **ret, struct gt_err **err)
{
    struct gt_linger *linger = calloc(1, sizeof(*linger));
    if (!linger)
        return gt_fail_sys(err, ENOMEM, "HTTP server");
    linger->loop = loop;
    int r = gt_loop_add_timer(loop, linger_on_timer, linger, &linger->timer, err);
    if (r < 0)
        free(linger);
    else
        *ret = linger;
    return r;
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
