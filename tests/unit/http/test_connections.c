/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "http/internal.h"

static struct gt_http_remote *remote_of(struct gt_http *http, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(1)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return gt_http_remote_get(http, (const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return gt_http_remote_get(http, (const struct sockaddr *)&v6);
}

static void test_addresses_are_told_apart(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.2", false},
        {"10.0.0.1", "::ffff:10.0.0.1", true}, /* as one that listens for both families sees it */
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true}, /* one client may have a whole network */
        {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
        {"::1", "0.0.0.0", false},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(pairs); i++) {
        struct gt_http http = {0};
        struct gt_http_remote *a = remote_of(&http, pairs[i].a), *b = remote_of(&http, pairs[i].b);
        assert_non_null(a);
        assert_non_null(b);
        if ((a == b) != pairs[i].same)
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
        gt_http_remote_put(&http, a);
        assert_ptr_equal(http.remotes, b);
        gt_http_remote_put(&http, b);
        assert_null(http.remotes);
    }
}

enum kind { SILENT, IDLE, STALLED, YOUNG, JUST_IDLE, WORKS };

struct clients {
    struct gt_http http;
    struct gt_http_remote hog, guest;
    struct gt_http_peer peers[8];
    unsigned count;
};

static struct gt_http_peer *add(struct clients *clients, struct gt_http_remote *remote, enum kind kind,
                                uint64_t quiet_ms)
{
    struct gt_http_peer *peer = &clients->peers[clients->count++];
    bool in_request = kind == STALLED || kind == WORKS;
    *peer = (struct gt_http_peer){.http = &clients->http,
                                  .remote = remote,
                                  .next = clients->http.peers,
                                  .served = kind == IDLE || kind == JUST_IDLE,
                                  .in_request = in_request,
                                  .request.stage = in_request ? AT_COLLECT : AT_HEADER,
                                  .since_ms = gt_clock_ms() - quiet_ms,
                                  .received_ms = gt_clock_ms() - quiet_ms};
    clients->http.peers = peer;
    remote->connections++;
    return peer;
}

/* A body that comes byte by byte is no work; one that comes as fast as a network carries it is. */
static void test_bodies_that_drip(void **state)
{
    struct clients clients = {0};
    (void)state;
    struct gt_http_peer *large = add(&clients, &clients.guest, WORKS, 0),
                        *drips = add(&clients, &clients.hog, WORKS, 0);
    large->since_ms -= 5000;
    large->request.received = 10 << 20;
    drips->since_ms -= 5000;
    drips->request.received = 5;
    assert_ptr_equal(gt_http_victim(&clients.http, NULL), drips);
    gt_http_cut(drips);
    assert_null(gt_http_victim(&clients.http, NULL));
}

/* Each in turn, the one before being cut. */
static void test_order(void **state)
{
    struct clients clients = {0};
    (void)state;
    struct gt_http_peer *at_work = add(&clients, &clients.guest, WORKS, 0);
    struct gt_http_peer *young_guest = add(&clients, &clients.guest, YOUNG, 100);
    struct gt_http_peer *just_idle = add(&clients, &clients.hog, JUST_IDLE, 50);
    struct gt_http_peer *young = add(&clients, &clients.hog, YOUNG, 20);
    struct gt_http_peer *stalled = add(&clients, &clients.hog, STALLED, 60000);
    struct gt_http_peer *idle = add(&clients, &clients.guest, IDLE, 30000);
    struct gt_http_peer *silent_guest = add(&clients, &clients.guest, SILENT, 20000);
    struct gt_http_peer *silent = add(&clients, &clients.hog, SILENT, 10000);
    clients.hog.connections += 100; /* elsewhere */
    struct gt_http_peer *const order[] = {silent, silent_guest, idle, stalled, just_idle, young, young_guest};
    assert_ptr_equal(gt_http_victim(&clients.http, &clients.guest), silent_guest);
    for (size_t i = 0; i < GT_COUNT(order); i++) {
        struct gt_http_peer *victim = gt_http_victim(&clients.http, NULL);
        if (victim != order[i])
            fail_msg("number %zu is another", i);
        victim->cut = true;
    }
    assert_null(gt_http_victim(&clients.http, NULL));
    assert_false(at_work->cut);
}

static void test_the_oldest_of_equals(void **state)
{
    struct clients clients = {0};
    (void)state;
    struct gt_http_peer *first = add(&clients, &clients.hog, SILENT, 500);
    struct gt_http_peer *second = add(&clients, &clients.hog, SILENT, 500);
    second->received_ms = first->received_ms;
    assert_ptr_equal(gt_http_victim(&clients.http, NULL), first);
    first->received_ms++;
    assert_ptr_equal(gt_http_victim(&clients.http, NULL), second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_told_apart),
        cmocka_unit_test(test_bodies_that_drip),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_the_oldest_of_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
