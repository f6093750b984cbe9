/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/text.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/plan_lookup.h"
#include "deviceplugin/podresources_call.h"
#include "machine.h"
#include "proto/deviceplugin.pb-c.h"

static const char *const all[] = {"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7"};
static const char *const a[] = {"GPU-0", "GPU-5"}, *const b[] = {"GPU-1", "GPU-6"};
static const char *const a_turned[] = {"GPU-5", "GPU-0"};
static const char *const four[] = {"GPU-0", "GPU-2", "GPU-5", "GPU-7"};

static struct gt_inventory *inventory; /* of eight, GPU-7 unhealthy */

static int set_up(void **state)
{
    struct gt_node *node = machine_new(8, 3);
    (void)state;
    node->gpus[7].health = GT_GPU_UNHEALTHY;
    inventory = machine_inventory(node, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gt_inventory_unref(inventory);
    return 0;
}

static struct gt_plans *plans_of(const struct gt_plan *plans, unsigned count)
{
    struct gt_plans *made = NULL;
    assert_return_code(gt_plans_new(plans, count, NULL, 0, &made, NULL), 0);
    return made;
}

static enum gt_plan_result match(const struct gt_plans *plans, unsigned size,
                                 const struct gt_listed_container *containers, unsigned count,
                                 const struct gt_plan **ret)
{
    struct gt_listed_container copy[8];
    memcpy(copy, containers, count * sizeof(copy[0]));
    const struct gt_listed_containers listed = {copy, count, NULL};
    const struct gt_planned_request request = gt_plan_request_make(inventory, all, 8, size);
    return gt_plans_match(plans, &request, &listed, ret);
}

static void copies(void **state)
{
    char pod[] = "p", id[] = "GPU-0";
    const char *ids[] = {id};
    const struct gt_plan one = {"ns", pod, "c", ids, 1};
    (void)state;
    gt_auto_plans struct gt_plans *plans = plans_of(&one, 1);
    pod[0] = id[0] = 'x';
    assert_string_equal(plans->plans[0].pod, "p");
    assert_string_equal(plans->plans[0].ids[0], "GPU-0");
    struct gt_plans *again = gt_plans_ref(plans);
    gt_plans_unref(again);
    gt_plans_unref(NULL);
    assert_null(gt_plans_ref(NULL));
}

static void keeps_its_limits(void **state)
{
    static struct gt_plan many[GT_PLANS_MAX + 1];
    struct gt_plans *plans = NULL;
    (void)state;
    for (unsigned i = 0; i <= GT_PLANS_MAX; i++)
        many[i] = (struct gt_plan){"ns", "p", "c", a, 2};
    assert_int_equal(gt_plans_new(many, GT_PLANS_MAX + 1, NULL, 0, &plans, NULL), -E2BIG);
    many[0].count = 0;
    assert_int_equal(gt_plans_new(many, 1, NULL, 0, &plans, NULL), -E2BIG);
    many[0].count = GT_PLAN_IDS_MAX + 1;
    assert_int_equal(gt_plans_new(many, 1, NULL, 0, &plans, NULL), -E2BIG);
    static struct gt_bound_pod pods[GT_PLAN_KNOWN_MAX + 1];
    for (unsigned i = 0; i <= GT_PLAN_KNOWN_MAX; i++)
        pods[i] = (struct gt_bound_pod){"ns", "p"};
    assert_int_equal(gt_plans_new(NULL, 0, pods, GT_PLAN_KNOWN_MAX + 1, &plans, NULL), -E2BIG);
    assert_null(plans);
}

static void knows_who_waits(void **state)
{
    const struct gt_bound_pod known[] = {{"ns", "z"}, {"ns", "a"}, {"a", "p"}};
    struct gt_listed_container waiting[] = {
        {"ns", "a", "c", false}, {"a", "p", "c", false}, {"ns", "gone", "c", true}, {"ns", "z", "c", false}};
    const struct gt_listed_containers listed = {waiting, GT_COUNT(waiting), NULL};
    struct gt_plans *plans = NULL;
    (void)state;
    assert_return_code(gt_plans_new(NULL, 0, known, GT_COUNT(known), &plans, NULL), 0);
    assert_true(plans->is_complete);
    assert_false(gt_plans_lack_one(plans, &listed)); /* who holds devices does not wait */
    waiting[2].has_device = false;
    assert_true(gt_plans_lack_one(plans, &listed));
    waiting[2] = (struct gt_listed_container){"a", "a", "c", false};
    assert_true(gt_plans_lack_one(plans, &listed));
    gt_plans_unref(plans);
    assert_return_code(gt_plans_new(NULL, 0, known, 0, &plans, NULL), 0);
    assert_true(plans->is_complete && gt_plans_lack_one(plans, &listed));
    gt_plans_unref(plans);
}

static void fits(void **state)
{
    static const char *const unhealthy[] = {"GPU-0", "GPU-7"}, *const unknown[] = {"GPU-0", "GPU-9"},
                             *const twice[] = {"GPU-0", "GPU-0"}, *const held[] = {"GPU-0", "GPU-4"};
    static const char *const some[] = {"GPU-0", "GPU-5", "GPU-7", "GPU-9"};
    const struct gt_planned_request request = gt_plan_request_make(inventory, some, 4, 2);
    (void)state;
    assert_true(gt_plan_fits(&(struct gt_plan){"n", "p", "c", a, 2}, &request));
    assert_true(gt_plan_fits(&(struct gt_plan){"n", "p", "c", a_turned, 2}, &request));
    assert_false(gt_plan_fits(&(struct gt_plan){"n", "p", "c", a, 1}, &request));
    assert_false(gt_plan_fits(&(struct gt_plan){"n", "p", "c", unhealthy, 2}, &request));
    assert_false(gt_plan_fits(&(struct gt_plan){"n", "p", "c", unknown, 2}, &request));
    assert_false(gt_plan_fits(&(struct gt_plan){"n", "p", "c", twice, 2}, &request));
    assert_false(gt_plan_fits(&(struct gt_plan){"n", "p", "c", held, 2}, &request));
    const char *ids[2] = {0};
    gt_plan_ids(&(struct gt_plan){"n", "p", "c", a_turned, 2}, &request, ids);
    assert_ptr_equal(ids[0], some[1]);
    assert_ptr_equal(ids[1], some[0]);
}

static void one_waits(void **state)
{
    const struct gt_plan entries[] = {{"n", "p", "c", a, 2}, {"n", "q", "c", b, 2}};
    const struct gt_plan *found = NULL;
    (void)state;
    gt_auto_plans struct gt_plans *plans = plans_of(entries, 2);
    const struct gt_listed_container first[] = {{"n", "q", "c", false}};
    assert_int_equal(match(plans, 2, first, 1, &found), GT_PLAN_HIT);
    assert_string_equal(found->pod, "q");
    /* one that has its devices already, or is another's namesake, does not wait */
    const struct gt_listed_container second[] = {
        {"n", "p", "c", false}, {"n", "q", "c", true}, {"other", "q", "c", false}, {"n", "r", "c", false}};
    assert_int_equal(match(plans, 2, second, 4, &found), GT_PLAN_HIT);
    assert_string_equal(found->pod, "p");
    assert_int_equal(match(plans, 2, second + 1, 3, &found), GT_PLAN_NONE);
    assert_int_equal(match(plans, 3, second, 4, &found), GT_PLAN_NONE);
    assert_int_equal(match(plans, 2, second, 0, &found), GT_PLAN_NONE); /* a kubelet that has just started */
}

static void several_wait(void **state)
{
    const struct gt_plan entries[] = {
        {"n", "p", "c", a, 2}, {"n", "q", "c", b, 2}, {"n", "r", "c", a_turned, 2}};
    const struct gt_listed_container listed[] = {
        {"n", "p", "c", false}, {"n", "q", "c", false}, {"n", "r", "c", false}};
    const struct gt_plan *found = NULL;
    (void)state;
    gt_auto_plans struct gt_plans *plans = plans_of(entries, 3);
    assert_int_equal(match(plans, 2, listed, 2, &found), GT_PLAN_AMBIGUOUS);
    assert_null(found);
    const struct gt_listed_container same[] = {{"n", "p", "c", false}, {"n", "r", "c", false}};
    assert_int_equal(match(plans, 2, same, 2, &found), GT_PLAN_HIT); /* the same devices, whoever it is */
}

static void containers_come_in_order(void **state)
{
    const struct gt_plan entries[] = {{"n", "p", "second", b, 2}, {"n", "p", "first", a, 2}};
    struct gt_listed_container listed[] = {
        {"n", "p", "proxy", false}, {"n", "p", "first", false}, {"n", "p", "second", false}};
    const struct gt_plan *found = NULL;
    (void)state;
    gt_auto_plans struct gt_plans *plans = plans_of(entries, 2);
    assert_int_equal(match(plans, 2, listed, 3, &found), GT_PLAN_HIT);
    assert_string_equal(found->container, "first");
    listed[1].has_device = true;
    assert_int_equal(match(plans, 2, listed, 3, &found), GT_PLAN_HIT);
    assert_string_equal(found->container, "second");
    listed[2].has_device = true;
    assert_int_equal(match(plans, 2, listed, 3, &found), GT_PLAN_NONE);
}

static void init_containers_are_not_listed(void **state)
{
    const struct gt_plan entries[] = {
        {"n", "p", "main", b, 2}, {"n", "p", "init", a, 2}, {"n", "q", "init", a, 2}};
    struct gt_listed_container listed[] = {{"n", "p", "main", false}, {"n", "q", "main", false}};
    const struct gt_plan *found = NULL;
    (void)state;
    gt_auto_plans struct gt_plans *plans = plans_of(entries, 3);
    assert_int_equal(match(plans, 2, listed, 2, &found), GT_PLAN_HIT);
    assert_string_equal(found->container, "init");
    assert_string_equal(found->pod, "p"); /* nothing of q is planned that waits */
    listed[0].has_device = true;          /* and nothing of p any more */
    assert_int_equal(match(plans, 2, listed, 2, &found), GT_PLAN_NONE);
}

/* ---- in the answer ---- */

struct asked {
    unsigned times, size;
    bool knows;
};

static bool planned(void *arg, const char *const *available, unsigned count, unsigned size, const char **ret)
{
    struct asked *asked = arg;
    asked->times++;
    asked->size = size;
    for (unsigned i = 0; asked->knows && i < size; i++)
        ret[i] = available[count - 1 - i];
    return asked->knows;
}

static Dp__PreferredResponse *prefer(unsigned containers, unsigned must, struct asked *asked)
{
    const struct gt_preferred_callbacks callbacks = {planned, NULL, asked};
    char text[8][8], *ids[8];
    for (unsigned i = 0; i < 8; i++) {
        assert_true(gt_text_copy(text[i], sizeof(text[i]), all[i]));
        ids[i] = text[i];
    }
    Dp__ContainerPreferredRequest one = DP__CONTAINER_PREFERRED_REQUEST__INIT, *pointers[] = {&one, &one};
    Dp__PreferredRequest request = DP__PREFERRED_REQUEST__INIT;
    one.available = one.must = ids;
    one.n_available = 8;
    one.n_must = must;
    one.size = 2;
    request.containers = pointers;
    request.n_containers = containers;
    uint8_t bytes[2048];
    size_t len = dp__preferred_request__pack(&request, bytes);
    gt_auto_buf struct gt_buf reply = GT_BUF(4096);
    *asked = (struct asked){.knows = asked->knows};
    assert_int_equal(gt_answer_preferred(inventory, &callbacks, bytes, len, &reply, NULL), GT_RPC_OK);
    Dp__PreferredResponse *response =
        dp__preferred_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    assert_non_null(response);
    assert_int_equal(response->n_containers, containers);
    assert_int_equal(response->containers[0]->n_ids, 2);
    return response;
}

static void a_plan_goes_before_topology(void **state)
{
    struct asked asked = {.knows = true};
    (void)state;
    Dp__PreferredResponse *response = prefer(1, 0, &asked);
    assert_int_equal(asked.times, 1);
    assert_int_equal(asked.size, 2);
    assert_string_equal(response->containers[0]->ids[0], "GPU-7");
    assert_string_equal(response->containers[0]->ids[1], "GPU-6");
    dp__preferred_response__free_unpacked(response, NULL);
    asked.knows = false;
    response = prefer(1, 0, &asked);
    assert_int_equal(asked.times, 1);
    assert_string_not_equal(response->containers[0]->ids[0], "GPU-7");
    dp__preferred_response__free_unpacked(response, NULL);
    asked.knows = true;
    response = prefer(1, 1, &asked); /* something must be included: it was picked already */
    assert_int_equal(asked.times, 0);
    dp__preferred_response__free_unpacked(response, NULL);
    response = prefer(2, 0, &asked);
    assert_int_equal(asked.times, 0);
    dp__preferred_response__free_unpacked(response, NULL);
}

/* ---- the question ---- */

static struct gt_plans *nothing_newer(void *arg)
{
    (void)arg;
    return NULL;
}

static void asks_only_where_a_plan_fits(void **state)
{
    const struct gt_plan entry = {"n", "p", "c", four, 4}; /* of which one is unhealthy */
    const struct gt_plan *found = NULL;
    char directory[] = "/tmp/gputopo-plans-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(directory));
    gt_auto_plans struct gt_plans *plans = plans_of(&entry, 1);
    gt_auto_plan_lookup struct gt_plan_lookup *lookup = NULL;
    assert_return_code(gt_plan_lookup_new(directory, "metax-tech.com/gpu", 60, &lookup, NULL), 0);
    struct gt_planned_request request = gt_plan_request_make(inventory, all, 8, 4);
    assert_int_equal(gt_plan_lookup_find(lookup, &plans, nothing_newer, NULL, &request, &found),
                     GT_PLAN_NONE);
    /* and where there is no kubelet, it does not take long to see that */
    const struct gt_plan two = {"n", "p", "c", a, 2};
    gt_auto_plans struct gt_plans *others = plans_of(&two, 1);
    request = gt_plan_request_make(inventory, all, 8, 2);
    uint64_t begin = gt_clock_ms();
    assert_int_equal(gt_plan_lookup_find(lookup, &others, nothing_newer, NULL, &request, &found),
                     GT_PLAN_LATE);
    assert_true(gt_clock_ms() - begin < 10000);
    assert_null(found);
    assert_return_code(rmdir(directory), errno);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(keeps_its_limits),
        cmocka_unit_test(knows_who_waits),
        cmocka_unit_test(fits),
        cmocka_unit_test(one_waits),
        cmocka_unit_test(several_wait),
        cmocka_unit_test(containers_come_in_order),
        cmocka_unit_test(init_containers_are_not_listed),
        cmocka_unit_test(a_plan_goes_before_topology),
        cmocka_unit_test(asks_only_where_a_plan_fits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
