/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/lease.h"
#include "kube/status.h"
#include "scheduler-ext/companion/leader.h"

/*
 * Two candidates, one Lease, and a clock that the test advances. The server is a few lines that check the
 * resourceVersion. Requests are answered when the test says so, or never.
 */
struct server {
    bool is_there, away;
    struct gt_lease lease;
    unsigned version, writes;
    char note[64];
};

struct world;
struct candidate {
    struct world *world;
    char name[16];
    struct gt_leader *leader;
    uint64_t wake_at; /* 0: not */
    struct gt_kube_request request;
    char *body;
    gt_kube_done *done; /* NULL: nothing is on its way */
    void *done_arg;
    bool leads, released;
    const char *tells;
    char received[64];
    unsigned errors;
};

struct world {
    uint64_t now;
    struct server server;
    struct candidate candidates[2];
};

static uint64_t now_ms(void *arg)
{
    return ((struct candidate *)arg)->world->now;
}

static void now_text(void *arg, char to[static GT_TIME_TEXT_SIZE])
{
    const struct timespec when = {.tv_sec = (time_t)(((struct candidate *)arg)->world->now / 1000)};
    gt_time_text_fine(&when, 6, to);
}

static uint64_t no_random(void *arg, uint64_t max)
{
    (void)arg;
    (void)max;
    return 0;
}

static void wake(void *arg, uint64_t ms)
{
    struct candidate *c = arg;
    c->wake_at = c->world->now + (ms ? ms : 1);
}

static int send(void *arg, const struct gt_kube_request *request, gt_kube_done *done, void *done_arg,
                struct gt_err **err)
{
    struct candidate *c = arg;
    (void)err;
    assert_null(c->done); /* one at a time */
    assert_ptr_equal(request->resource, &gt_kube_leases);
    c->request = *request;
    c->body = request->body ? strdup(request->body) : NULL;
    c->done = done;
    c->done_arg = done_arg;
    return 0;
}

static void forget(struct candidate *c)
{
    free(c->body);
    c->body = NULL;
    c->done = NULL;
}

static void withdraw(void *arg)
{
    struct candidate *c = arg;
    assert_non_null(c->done);
    forget(c);
}

static void on_lead(void *arg, bool leads)
{
    ((struct candidate *)arg)->leads = leads;
}

static void on_released(void *arg)
{
    ((struct candidate *)arg)->released = true;
}

static void on_error(void *arg, const char *what)
{
    assert_true(what[0] != '\0');
    ((struct candidate *)arg)->errors++;
}

static void report(void *arg, struct gt_buf *to)
{
    gt_buf_puts(to, ((struct candidate *)arg)->tells);
}

static void report_last(void *arg, struct gt_buf *to)
{
    gt_buf_printf(to, "quiet:%s", ((struct candidate *)arg)->name);
}

static void receive(void *arg, const char *note)
{
    struct candidate *c = arg;
    snprintf(c->received, sizeof(c->received), "%s", note);
}

static cJSON *lease_object(const struct server *server)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    gt_lease_write(&text, "ns", "lease", &server->lease);
    return cJSON_Parse(text.data);
}

/* What the server makes of a request; the HTTP status. */
static unsigned serve(struct server *server, const struct candidate *c)
{
    struct gt_lease lease;
    if (c->request.verb == GT_KUBE_GET)
        return server->is_there ? 200 : 404;
    if (c->request.verb == GT_KUBE_CREATE && server->is_there)
        return 409;
    if (c->request.verb == GT_KUBE_UPDATE && !server->is_there)
        return 404;
    cJSON *body = cJSON_Parse(c->body);
    if (c->request.verb == GT_KUBE_CREATE)
        cJSON_AddStringToObject(cJSON_GetObjectItem(body, "metadata"), "resourceVersion", "none");
    assert_int_equal(gt_lease_read(body, &lease, NULL), 0);
    bool late = c->request.verb == GT_KUBE_UPDATE &&
                strcmp(lease.resource_version, server->lease.resource_version) != 0;
    if (!late)
        snprintf(server->note, sizeof(server->note), "%s", gt_lease_note(body));
    cJSON_Delete(body);
    if (late)
        return 409;
    server->lease = lease;
    server->lease.note = server->note;
    server->is_there = true;
    server->writes++;
    snprintf(server->lease.resource_version, sizeof(lease.resource_version), "%u", ++server->version);
    return 200;
}

static void answer(struct candidate *c)
{
    struct server *server = &c->world->server;
    struct gt_err *error = NULL;
    struct gt_kube_answer reply = {.status = serve(server, c)};
    if (reply.status == 200)
        reply.object = lease_object(server);
    else {
        gt_kube_fail(&error, reply.status, NULL);
        reply.error = error;
    }
    gt_kube_done *done = c->done;
    forget(c);
    done(c->done_arg, &reply);
    cJSON_Delete(reply.object);
    gt_err_free(error);
}

static void no_answer(struct candidate *c)
{
    struct gt_err *error = NULL;
    gt_fail(&error, ETIMEDOUT, "no answer");
    struct gt_kube_answer reply = {.error = error};
    gt_kube_done *done = c->done;
    forget(c);
    done(c->done_arg, &reply);
    gt_err_free(error);
}

/* Advances the clock; at no moment may two lead. */
static void pass(struct world *world, uint64_t ms)
{
    for (uint64_t end = world->now + ms; world->now < end; world->now += 100) {
        for (unsigned i = 0; i < 2; i++) {
            struct candidate *c = &world->candidates[i];
            if (c->leader && c->wake_at && world->now >= c->wake_at) {
                c->wake_at = 0;
                gt_leader_run(c->leader);
            }
            while (c->done && !world->server.away)
                answer(c);
        }
        assert_false(world->candidates[0].leads && world->candidates[1].leads);
    }
}

static void join(struct world *world, unsigned i, const char *name)
{
    struct candidate *c = &world->candidates[i];
    const struct gt_leader_port port = {now_ms, now_text, no_random, wake, send, withdraw, c};
    c->world = world;
    snprintf(c->name, sizeof(c->name), "%s", name);
    c->tells = "";
    const struct gt_leader_spec spec = {.namespace_ = "ns",
                                        .name = "lease",
                                        .identity = c->name,
                                        .on_lead = on_lead,
                                        .on_released = on_released,
                                        .on_error = on_error,
                                        .write_note = report,
                                        .write_last_note = report_last,
                                        .read_note = receive,
                                        .arg = c};
    assert_int_equal(gt_leader_new(&spec, &port, &c->leader, NULL), 0);
    c->wake_at = world->now;
}

static void leave(struct candidate *c)
{
    gt_leader_free(c->leader);
    c->leader = NULL;
    c->leads = false;
    c->wake_at = 0;
}

static void test_first_come(void **state)
{
    struct world world = {.now = 1000000};
    struct gt_leader_stats stats;
    (void)state;
    join(&world, 0, "a");
    pass(&world, 1000);
    assert_true(world.candidates[0].leads);
    assert_string_equal(world.server.lease.identity, "a");
    assert_int_equal(world.server.lease.duration_s, 15);
    assert_int_equal(world.server.lease.transitions, 0);
    join(&world, 1, "b");
    pass(&world, 60000);
    assert_true(world.candidates[0].leads);
    assert_false(world.candidates[1].leads);
    gt_leader_stats(world.candidates[0].leader, &stats);
    assert_int_equal(stats.lost, 0);
    assert_in_range(world.server.writes, 25, 31); /* every two seconds, by one of them */
    assert_string_equal(world.server.lease.identity, "a");
    leave(&world.candidates[0]);
    leave(&world.candidates[1]);
}

/* A candidate that does not lead gets the leader's note within two renewals, and also its removal. */
static void test_what_the_leader_tells(void **state)
{
    struct world world = {.now = 1000000};
    struct candidate *a = &world.candidates[0], *b = &world.candidates[1];
    (void)state;
    join(&world, 0, "a");
    pass(&world, 1000);
    join(&world, 1, "b");
    b->tells = "of no account";
    a->tells = "n1=0-3 n2=*";
    pass(&world, 5000);
    assert_true(a->leads);
    assert_string_equal(b->received, "n1=0-3 n2=*");
    assert_string_equal(a->received, GT_LEASE_NOTE_NO_LEADER); /* there was no Lease */
    a->tells = "";
    pass(&world, 5000);
    assert_string_equal(b->received, "");
    a->tells = "n3=0";
    pass(&world, 5000);
    gt_leader_release(a->leader);
    pass(&world, 100);
    assert_string_equal(world.server.note, "quiet:a"); /* nothing is reserved any more */
    pass(&world, 4000);
    assert_true(b->leads);
    assert_string_equal(b->received, "quiet:a");
    leave(a);
    leave(b);
}

static void test_a_dead_holder(void **state)
{
    struct world world = {.now = 1000000};
    (void)state;
    join(&world, 0, "a");
    pass(&world, 5000);
    join(&world, 1, "b");
    pass(&world, 5000);
    leave(&world.candidates[0]); /* without releasing the Lease */
    pass(&world, 12000);
    assert_false(world.candidates[1].leads);
    pass(&world, 8000);
    assert_true(world.candidates[1].leads);
    assert_string_equal(world.server.lease.identity, "b");
    assert_int_equal(world.server.lease.transitions, 1);
    leave(&world.candidates[1]);
}

static void test_given_back(void **state)
{
    struct world world = {.now = 1000000};
    (void)state;
    join(&world, 0, "a");
    join(&world, 1, "b");
    pass(&world, 5000);
    struct candidate *first = &world.candidates[world.candidates[1].leads],
                     *second = &world.candidates[!world.candidates[1].leads];
    gt_leader_release(first->leader);
    assert_false(first->leads);
    assert_false(first->released);
    pass(&world, 100);
    assert_true(first->released);
    pass(&world, 4000); /* and not 15 s */
    assert_true(second->leads);
    leave(first);
    gt_leader_release(second->leader);
    assert_non_null(second->done);
    no_answer(second); /* it ends all the same */
    assert_true(second->released);
    leave(second);
}

/* A renewal is on its way, and is written though nobody waits for its answer any more. */
static void test_given_back_during_a_renewal(void **state)
{
    struct world world = {.now = 1000000};
    struct candidate *one = &world.candidates[0];
    (void)state;
    join(&world, 0, "a");
    pass(&world, 5000);
    assert_true(one->leads);
    world.now = one->wake_at;
    gt_leader_run(one->leader);
    assert_int_equal(one->request.verb, GT_KUBE_UPDATE);
    assert_int_equal(serve(&world.server, one), 200);
    gt_leader_release(one->leader);
    pass(&world, 100);
    assert_true(one->released);
    assert_string_equal(world.server.lease.identity, "");
    leave(one);
}

static void test_release_of_who_does_not_lead(void **state)
{
    struct world world = {.now = 1000000, .server = {.away = true}};
    (void)state;
    join(&world, 0, "a");
    pass(&world, 1000);
    assert_non_null(world.candidates[0].done);
    gt_leader_release(world.candidates[0].leader);
    assert_true(world.candidates[0].released);
    assert_null(world.candidates[0].done);
    pass(&world, 10000);
    assert_null(world.candidates[0].done);
    leave(&world.candidates[0]);
}

static void test_another_replica_takes_it(void **state)
{
    struct world world = {.now = 1000000};
    (void)state;
    join(&world, 0, "a");
    pass(&world, 3000);
    struct gt_lease *lease = &world.server.lease;
    snprintf(lease->identity, sizeof(lease->identity), "other");
    snprintf(lease->resource_version, sizeof(lease->resource_version), "other-1");
    lease->duration_s = 6;
    pass(&world, 2500);
    assert_false(world.candidates[0].leads);
    unsigned writes = world.server.writes;
    pass(&world, 3000);
    assert_int_equal(world.server.writes, writes);
    pass(&world, 6000); /* the other is silent for what its lease says */
    assert_true(world.candidates[0].leads);
    assert_int_equal(lease->transitions, 1);
    /* A Lease with an invalid duration is valid for at most five minutes. */
    snprintf(lease->identity, sizeof(lease->identity), "other");
    snprintf(lease->resource_version, sizeof(lease->resource_version), "other-2");
    lease->duration_s = 1000000000;
    pass(&world, 290000);
    assert_false(world.candidates[0].leads);
    pass(&world, 20000);
    assert_true(world.candidates[0].leads);
    leave(&world.candidates[0]);
}

static void test_who_cannot_renew_stops(void **state)
{
    struct world world = {.now = 1000000};
    struct gt_leader_stats stats;
    (void)state;
    join(&world, 0, "a");
    pass(&world, 3000);
    assert_true(world.candidates[0].leads);
    world.server.away = true; /* requests hang */
    pass(&world, 7000);
    assert_true(world.candidates[0].leads);
    pass(&world, 6000);
    assert_false(world.candidates[0].leads); /* before anybody may take it, 15 s after the last renewal */
    gt_leader_stats(world.candidates[0].leader, &stats);
    assert_int_equal(stats.lost, 1);
    world.server.away = false;
    pass(&world, 5000);
    assert_true(world.candidates[0].leads);
    assert_int_equal(world.server.lease.transitions, 0); /* it was its own all the time */
    leave(&world.candidates[0]);
}

static void test_an_answer_that_is_lost(void **state)
{
    struct world world = {.now = 1000000};
    (void)state;
    join(&world, 0, "a");
    pass(&world, 3000);
    struct candidate *c = &world.candidates[0];
    world.server.away = true;
    pass(&world, 2000);
    assert_non_null(c->done);
    assert_int_equal(serve(&world.server, c), 200); /* it got through */
    no_answer(c);
    assert_int_equal(c->errors, 1);
    world.server.away = false;
    pass(&world, 4000);
    assert_true(c->leads);
    /* deleted by hand */
    world.server.is_there = false;
    pass(&world, 5000);
    assert_true(c->leads);
    assert_true(world.server.is_there);
    leave(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_come),
        cmocka_unit_test(test_what_the_leader_tells),
        cmocka_unit_test(test_a_dead_holder),
        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_given_back_during_a_renewal),
        cmocka_unit_test(test_release_of_who_does_not_lead),
        cmocka_unit_test(test_another_replica_takes_it),
        cmocka_unit_test(test_who_cannot_renew_stops),
        cmocka_unit_test(test_an_answer_that_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
