/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/volcano/volcano.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/volcano/volcano_world.h"

/* The plugins beside gputopo-scheduler: which places each reserves for pods to come. */

/* How many nodes the first task of a gang of `pods` whole nodes in one rack may use. */
static unsigned open_rack_job(struct gt_volcano *volcano, struct session *session, unsigned pods,
                              uint32_t *ret_first)
{
    uint8_t may[NODES];
    unsigned count = 0;
    begin(session);
    *ret_first = add_group(session, "rack", pods, pods, NULL);
    open_session(volcano, session);
    gt_volcano_may_use(volcano, *ret_first, may, NODES);
    for (unsigned n = 0; n < NODES; n++)
        count += may[n];
    return count;
}

/* Places of pods to come, and nodes for a job that waits, are left alone as long as the lease is renewed. */
static void test_what_the_lease_notes_is_kept(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t first, node, nodes[4];
    put_job(volcano, "rack", 4, 8, "32");
    put_lease(volcano, 300, "r0-n1=0-3 r1-n2=* nowhere=0-7 r2-n0=");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES - 2);
    place_all(volcano, first, 4, nodes);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(nodes[i] / NODES_EACH, 2); /* the only whole rack */
    gt_volcano_close(volcano);

    put_lease(volcano, 300, "r0-n1=0-3 r1-n2=* r2-n3=7");
    open_rack_job(volcano, &session, 4, &first);
    assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
    gt_volcano_close(volcano);

    put_lease(volcano, 300, "");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES);
    place(volcano, first);
    gt_volcano_close(volcano);
    put_lease(volcano, 300, "r0-n1=* r1-n2=* r2-n3=*");
    gt_volcano_remove(volcano, number_of("leases"), "gputopo-system", "gputopo-scheduler");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES);
    gt_volcano_close(volcano);
    put_lease(volcano, 0, "r0-n1=* r1-n2=* r2-n3=*"); /* its time is over */
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES);
    gt_volcano_free(volcano);
}

/* Whoever may write a Lease into a namespace of his own reserves nothing, and hides no other. */
static void test_leases_of_others(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t first;
    put_job(volcano, "rack", 4, 8, "32");
    put_lease(volcano, 300, "r0-n1=*");
    put_lease_in(volcano, "tenant", 300, "r0-n0=* r1-n2=* r2-n3=*");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES - 1);
    gt_volcano_close(volcano);
    gt_volcano_remove(volcano, number_of("leases"), "tenant", "gputopo-scheduler");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES - 1);
    gt_volcano_close(volcano);
    gt_volcano_free(volcano);
    volcano = new_world_beside("elsewhere");
    put_job(volcano, "rack", 4, 8, "32");
    put_lease(volcano, 300, "r0-n1=*");
    put_lease_in(volcano, "elsewhere", 300, "r0-n0=* r1-n2=*");
    assert_int_equal(open_rack_job(volcano, &session, 4, &first), NODES - 2);
    gt_volcano_free(volcano);
}

/* The pod for which a place was reserved comes and goes there; the others still keep off. */
static void test_a_pod_comes_to_its_noted_place(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t first, node;
    PUT_POD(volcano, .job = "rack", .gpus = 8);
    put_lease(volcano, 300, "r1-n2=0-7");
    assert_int_equal(open_rack_job(volcano, &session, 1, &first), NODES - 1);
    gt_volcano_close(volcano);
    PUT_POD(volcano, .job = "mine", .gpus = 8, .group = "16", .plan_node = "r1-n2");
    PUT_POD(volcano, .job = "mine", .index = 1, .gpus = 8, .group = "16", .plan_node = "r1-n3");
    begin(&session);
    uint32_t mine = add_group(&session, "mine", 2, 2, NULL);
    add_group(&session, "rack", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_place(volcano, mine, &node, volcano_error), 1);
    assert_string_equal(node_name(node), "r1-n2");
    gt_volcano_free(volcano);
}

/* An Indexed Job of four whole nodes in one unit. */
static void put_indexed_job(struct gt_volcano *volcano, const char *name)
{
    char text[512];
    const struct gt_volcano_resource *resource;
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"u\"},\"spec\":{\"parallelism\":4,"
             "\"completions\":4,\"completionMode\":\"Indexed\",\"template\":{\"metadata\":{\"annotations\":"
             "{\"metax-tech.com/gpu-group-size\":\"32\"}},\"spec\":{\"containers\":[{\"name\":\"main\","
             "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]}}}}",
             name);
    for (unsigned i = 0; (resource = gt_volcano_resource(i)); i++)
        if (strcmp(resource->plural, "jobs") == 0 && strcmp(resource->group, "batch") == 0)
            assert_int_equal(gt_volcano_put(volcano, i, text, strlen(text), volcano_error), 0);
}

/* Places of pods to come are published once, and also their end; for a job that is bound in one session there
 * is nothing to publish. */
static void test_places_are_published(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4] = {4, 5, 6, 7}, rank;
    put_indexed_job(volcano, "unit");
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 4; i++)
            PUT_POD(volcano, .job = "unit", .index = i, .gpus = 8, .group = "32", .node = nodes[i] + 1,
                    .plan_node = node_name(nodes[i]));
        for (unsigned gone = 0; gone < 2; gone++) {
            begin(&session);
            uint32_t first = add_group(&session, "unit", 4 - gone, 4, nodes);
            open_session(volcano, &session);
            assert_int_equal(gt_volcano_check(volcano, first, &rank, volcano_error), 1);
            gt_volcano_close(volcano);
            gt_volcano_remove(volcano, number_of("pods"), "ns", "unit-2");
        }
        if (!round) {
            assert_null(published(volcano)); /* there is nothing to publish */
            put_lease(volcano, 300, "");
        }
        assert_published(volcano, "r1-n2=0-7");
        assert_null(published(volcano));
        for (unsigned i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof(name), "unit-%u", i);
            gt_volcano_remove(volcano, number_of("pods"), "ns", name);
        }
        assert_published(volcano, "");
        assert_null(published(volcano));
    }

    put_job(volcano, "rack", 4, 8, "32");
    begin(&session);
    uint32_t first = add_group(&session, "rack", 4, 4, NULL);
    open_session(volcano, &session);
    place_all(volcano, first, 4, nodes);
    gt_volcano_close(volcano);
    assert_null(published(volcano));
    gt_volcano_free(volcano);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_lease_notes_is_kept),
        cmocka_unit_test(test_leases_of_others),
        cmocka_unit_test(test_a_pod_comes_to_its_noted_place),
        cmocka_unit_test(test_places_are_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
