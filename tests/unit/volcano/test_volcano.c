/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "scheduler-ext/volcano/volcano.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/volcano/volcano_world.h"

/* The plugins in Volcano's scheduler, as its adapter uses them: objects in, sessions, answers. */

/* ---- gpu-aware ---- */

static void test_scores_follow_the_free_gpus(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[3] = {0, 1, 2};
    double scores[3];
    put_node(volcano, 1, 0xf0); /* four are left: just as many as it asks for */
    put_node(volcano, 2, 0xfe);
    PUT_POD(volcano, .job = "lone", .gpus = 4);
    PUT_POD(volcano, .job = "lone", .index = 1, .gpus = 4);
    begin(&session);
    uint32_t task = add_group(&session, "lone", 2, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 3, scores, volcano_error), 0);
    assert_true(scores[1] > scores[0] && scores[0] > 0);
    assert_true(scores[2] == 0);
    /* What the session has given away counts. */
    gt_volcano_allocated(volcano, task, 1);
    assert_int_equal(gt_volcano_score_nodes(volcano, task + 1, nodes, 3, scores, volcano_error), 0);
    assert_true(scores[1] == 0 && scores[0] > 0);
    gt_volcano_deallocated(volcano, task);
    assert_int_equal(gt_volcano_score_nodes(volcano, task + 1, nodes, 3, scores, volcano_error), 0);
    assert_true(scores[1] > scores[0]);
    gt_volcano_free(volcano);
}

/* Its policy is single-numa-node, and of the 4 GPUs of each NUMA node 2 are free. */
static void test_what_a_kubelet_would_refuse(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    const struct world_topology topology = {
        .name = node_name(1), .gpus = 8, .unnamed = 0x33, .single_numa = true};
    struct session session;
    put_node(volcano, 0, 0x33); /* as many, and nobody refuses */
    put(volcano, "nodegputopologies", world_topology(&topology));
    for (unsigned gpus = 2; gpus <= 4; gpus += 2) {
        uint32_t nodes[2] = {0, 1};
        uint8_t may[NODES];
        double scores[2];
        PUT_POD(volcano, .job = "lone", .gpus = gpus);
        begin(&session);
        uint32_t task = add_group(&session, "lone", 1, 1, NULL);
        open_session(volcano, &session);
        gt_volcano_may_use(volcano, task, may, NODES);
        assert_int_equal(may[0], 1);
        assert_int_equal(may[1], gpus == 2);
        assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, scores, volcano_error), 0);
        assert_true(scores[0] > 0);
        assert_int_equal(scores[1] > 0, gpus == 2);
        gt_volcano_close(volcano);
        gt_volcano_remove(volcano, number_of("pods"), "ns", "lone-0");
    }
    gt_volcano_free(volcano);
}

static int set_arguments(struct gt_volcano *volcano, const char *json);

/* Passes a Namespace that says how its jobs lie. */
static int put_namespace(struct gt_volcano *volcano, const char *name, const char *topology)
{
    char text[200];
    snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"metax-tech.com/default-job-topology\":\"%s\"}}}",
        name, topology);
    return gt_volcano_put(volcano, number_of("namespaces"), text, strlen(text), volcano_error);
}

/* Pods of a job without units come near to those that have a place, if closeness has a weight, or if their
 * Namespace asks for it. */
static void test_siblings_attract(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    uint32_t nodes[2] = {1, NODES_EACH}; /* beside the first pod, and in another rack; as good without it */
    for (unsigned round = 0; round < 5; round++) {
        struct session session;
        double scores[2];
        bool close = round == 1 || round == 3;
        if (round == 3)
            assert_int_equal(put_namespace(volcano, "ns", "preferred"), 0);
        if (round == 4) {
            assert_int_equal(put_namespace(volcano, "ns", "Preferred"), -EINVAL);
            assert_string_equal(volcano_error,
                                "metax-tech.com/default-job-topology: \"Preferred\" is none of "
                                "preferred, none; preferred is meant");
        }
        PUT_POD(volcano, .job = "kept", .gpus = 8);
        PUT_POD(volcano, .job = "kept", .index = 1, .gpus = 8);
        begin(&session);
        uint32_t task = add_group(&session, "kept", 2, 1, NULL);
        assert_int_equal(set_arguments(volcano, round == 1 ? "{\"closeness.weight\":1}" : "{}"), 0);
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, scores, volcano_error), 0);
        assert_true(scores[0] > 0 && scores[0] == scores[1]); /* no sibling has a place */
        gt_volcano_allocated(volcano, task, 0);
        assert_int_equal(gt_volcano_score_nodes(volcano, task + 1, nodes, 2, scores, volcano_error), 0);
        assert_int_equal(scores[0] > scores[1], close);
        assert_int_equal(scores[0] == scores[1], !close);
        gt_volcano_deallocated(volcano, task);
        gt_volcano_close(volcano);
    }
    gt_volcano_free(volcano);
}

static int set_arguments(struct gt_volcano *volcano, const char *json)
{
    return gt_volcano_set_arguments(volcano, json, strlen(json), volcano_error);
}

static void test_arguments(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[2] = {0, 1};
    double before[2], after[2], again[2];
    PUT_POD(volcano, .job = "lone", .gpus = 2);
    begin(&session);
    uint32_t task = add_group(&session, "lone", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, before, volcano_error), 0);
    assert_int_equal(set_arguments(volcano, "{\"weight\":2}"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, after, volcano_error), 0);
    assert_true(after[0] > 1.9 * before[0] && after[0] < 2.1 * before[0]);
    assert_true(after[0] <= 200);
    static const struct {
        const char *arguments, *sentence;
    } wrong[] = {
        {"{\"loss.weight\":-1}", "argument loss.weight: expected a number of 0 or more, got -1; 0.5 is used"},
        {"{\"weight\":1e999}", "arguments: line 1, column 11: number 1e999 is too large"},
        {"{\"weight\":\"1e999\"}",
         "argument weight: expected a number of 0 or more, got \"1e999\"; 1 is used"},
        {"{\"score.weight\":\"much\",\"Loss-Weight\":2,\"binpack\":{}}",
         "argument score.weight: expected a number of 0 or more, got \"much\"; 1 is used; unknown argument "
         "Loss-Weight: loss.weight is meant; unknown argument binpack: there are weight, score.weight, "
         "loss.weight, closeness.weight"},
        {"{\"weight\":null}", "argument weight: expected a number of 0 or more, got null; 1 is used"},
        {"{", "arguments: line 1, column 2: expected a key in quotes, found the end of the text"},
    };
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        assert_int_equal(set_arguments(volcano, wrong[i].arguments), 1);
        assert_string_equal(volcano_error, wrong[i].sentence);
        assert_int_equal(set_arguments(volcano, wrong[i].arguments), 0); /* it was told */
        assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, volcano_error), 0);
        assert_true(again[0] == before[0]);
    }
    assert_int_equal(set_arguments(volcano, "{\"weight\":\"2\",\"los.weight\":0}"), 1);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, volcano_error), 0);
    assert_true(again[0] == after[0]);
    assert_int_equal(set_arguments(volcano, "{\"score.weight\":0,\"loss.weight\":\"0\"}"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, volcano_error), 0);
    assert_true(again[0] != before[0]);
    assert_int_equal(set_arguments(volcano, "null"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, volcano_error), 0);
    assert_true(again[0] == before[0]);
    gt_volcano_free(volcano);
}

/* ---- gpu-podaffinity ---- */

static void test_units_lie_in_racks(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[8], rank;
    put_job(volcano, "big", 8, 8, "32");
    begin(&session);
    uint32_t first = add_group(&session, "big", 8, 8, NULL);
    open_session(volcano, &session);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(gt_volcano_check(volcano, first + i, &rank, volcano_error), 1);
        assert_int_equal(rank, i);
    }
    place_all(volcano, first, 3, nodes);
    assert_false(gt_volcano_is_whole(volcano, first));
    nodes[3] = place(volcano, first + 3);
    gt_volcano_allocated(volcano, first + 3, nodes[3]);
    assert_true(gt_volcano_is_whole(volcano, first)); /* one unit of two */
    place_all(volcano, first + 4, 4, nodes + 4);
    check_units(nodes, 8, 4, 8);
    assert_true(gt_volcano_is_whole(volcano, first));

    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    size_t size = gt_volcano_annotations(volcano, first + 5, annotations);
    assert_true(size > 0);
    assert_string_equal(annotations, GT_PLAN_ANNOTATION_GPUS);
    assert_non_null(strstr(annotations + strlen(annotations) + 1, "\"main\":["));
    gt_volcano_free(volcano);
}

static void test_a_required_tier(void **state)
{
    (void)state;
    static const char required[] = "16\",\"metax-tech.com/job-topology\":\"required=supernode";
    for (unsigned pods = NODES_EACH; pods <= NODES_EACH + 2; pods += 2) {
        struct gt_volcano *volcano = new_world();
        struct session session;
        uint32_t nodes[NODES_EACH];
        put_job(volcano, "tied", pods, 8, required);
        begin(&session);
        uint32_t first = add_group(&session, "tied", pods, 8, NULL);
        open_session(volcano, &session);
        if (pods == NODES_EACH) {
            place_all(volcano, first, NODES_EACH, nodes);
            check_units(nodes, NODES_EACH, NODES_EACH, NODES_EACH);
        } else {
            assert_int_equal(gt_volcano_place(volcano, first, nodes, volcano_error), -EAGAIN);
            assert_non_null(strstr(volcano_error, "the job must lie in one supernode of tier 1"));
        }
        gt_volcano_free(volcano);
    }
}

static void reserve_rack(struct gt_volcano *volcano, unsigned rack, const char *whom)
{
    char name[16], text[64];
    struct world_supernode supernode = {.name = name, .tier = 1};
    snprintf(name, sizeof(name), "rack-%u", rack);
    for (unsigned n = 0; n < NODES_EACH; n++)
        supernode.members[n] = node_name(rack * NODES_EACH + n);
    cJSON *object = world_supernode(&supernode);
    snprintf(text, sizeof(text), "2126-01-01T00:00:00Z for=%s", whom);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(cJSON_GetObjectItem(object, "metadata"), "annotations"),
                            "metax-tech.com/reserved-until", text);
    put(volcano, "supernodes", object);
}

static void test_people_reserve_racks(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[NODES_EACH], node;
    for (unsigned rack = 0; rack < RACKS; rack++)
        reserve_rack(volcano, rack, rack == 1 ? "ns/Job/mine" : "other");
    put_job(volcano, "mine", NODES_EACH, 8, "32");
    put_job(volcano, "yours", NODES_EACH, 8, "32");
    begin(&session);
    uint32_t yours = add_group(&session, "yours", NODES_EACH, NODES_EACH, NULL),
             mine = add_group(&session, "mine", NODES_EACH, NODES_EACH, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_place(volcano, yours, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "12 nodes are reserved by people"));
    place_all(volcano, mine, NODES_EACH, nodes);
    for (unsigned i = 0; i < NODES_EACH; i++)
        assert_int_equal(nodes[i] / NODES_EACH, 1);
    gt_volcano_free(volcano);
}

static void test_no_room_holds_nothing(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t node;
    for (unsigned rack = 0; rack < RACKS; rack++)
        put_node(volcano, rack * NODES_EACH, 1); /* three whole nodes in each rack */
    put_job(volcano, "big", 8, 8, "32");
    put_job(volcano, "small", 2, 8, "16");
    begin(&session);
    uint32_t big = add_group(&session, "big", 8, 8, NULL), small = add_group(&session, "small", 2, 2, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_place(volcano, big, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "2 units of 32 GPUs needed"));
    uint32_t nodes[2];
    place_all(volcano, small, 2, nodes);
    check_units(nodes, 2, 2, 8);
    gt_volcano_free(volcano);
}

/* A job that was planned, but whose tasks the session cannot allocate, holds nothing when another one comes.
 */
static void test_a_plan_is_given_back(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[12];
    put_job(volcano, "one", 12, 8, "32");
    put_job(volcano, "two", 12, 8, "32");
    begin(&session);
    uint32_t one = add_group(&session, "one", 12, 12, NULL), two = add_group(&session, "two", 12, 12, NULL);
    open_session(volcano, &session);
    place(volcano, one);
    place_all(volcano, two, 12, nodes); /* all nodes there are */
    check_units(nodes, 12, 4, 8);
    uint32_t node;
    assert_int_equal(gt_volcano_place(volcano, one, &node, volcano_error), -EAGAIN);
    for (unsigned i = 0; i < 12; i++) /* a statement that is discarded */
        gt_volcano_deallocated(volcano, two + i);
    place_all(volcano, one, 12, nodes);
    check_units(nodes, 12, 4, 8);
    gt_volcano_free(volcano);
}

static void test_reservations_last_until_the_pods_say_so(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4], node;
    uint8_t may[NODES];
    put_job(volcano, "one", 4, 8, "32");
    begin(&session);
    uint32_t one = add_group(&session, "one", 4, 4, NULL);
    open_session(volcano, &session);
    place_all(volcano, one, 4, nodes);
    gt_volcano_close(volcano);
    /* They are being bound; their objects do not know yet. */
    PUT_POD(volcano, .job = "lone", .gpus = 1);
    begin(&session);
    add_group(&session, "one", 4, 4, nodes);
    uint32_t lone = add_group(&session, "lone", 1, 1, NULL);
    open_session(volcano, &session);
    gt_volcano_may_use(volcano, lone, may, NODES);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(may[n], n / NODES_EACH != nodes[0] / NODES_EACH);
    assert_int_equal(gt_volcano_place(volcano, lone, &node, volcano_error), 0);
    gt_volcano_close(volcano);
    /* Nothing came of the bindings. */
    begin(&session);
    add_group(&session, "one", 4, 4, NULL);
    lone = add_group(&session, "lone", 1, 1, NULL);
    open_session(volcano, &session);
    gt_volcano_may_use(volcano, lone, may, NODES);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(may[n], 1);
    gt_volcano_free(volcano);
}

/* A scheduler that was killed in the middle of a gang, and another that goes on. */
static void test_a_unit_stays_in_its_rack(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[8] = {4, 5, GT_VOLCANO_NO_NODE, GT_VOLCANO_NO_NODE, 0, 1, 2, 3};
    put_node(volcano, 8, 1); /* the third rack would be the tightest for two pods of eight */
    put_node(volcano, 9, 1);
    put_job(volcano, "big", 8, 8, "32");
    for (unsigned i = 0; i < 8; i++)
        if (nodes[i] != GT_VOLCANO_NO_NODE)
            PUT_POD(volcano, .job = "big", .index = i, .gpus = 8, .group = "32", .node = nodes[i] + 1);
    begin(&session);
    uint32_t first = add_group(&session, "big", 8, 8, nodes);
    open_session(volcano, &session);
    nodes[2] = place(volcano, first + 2);
    nodes[3] = place(volcano, first + 3);
    check_units(nodes, 8, 4, 8);
    gt_volcano_free(volcano);
}

/* The successor of a pod gets its place again, and what is written on it says so. */
static void test_a_successor_comes_home(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4] = {4, 5, 6, 7}, rank;
    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    for (unsigned i = 0; i < 4; i++)
        PUT_POD(volcano, .job = "unit", .index = i, .gpus = 8, .group = "32", .node = nodes[i] + 1,
                .plan_node = node_name(nodes[i]));
    begin(&session);
    uint32_t first = add_group(&session, "unit", 4, 4, nodes);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_check(volcano, first, &rank, volcano_error), 1);
    gt_volcano_close(volcano);
    gt_volcano_remove(volcano, number_of("pods"), "ns", "unit-2");
    PUT_POD(volcano, .job = "unit", .index = 2, .gpus = 8, .group = "32");
    nodes[2] = GT_VOLCANO_NO_NODE;
    begin(&session);
    first = add_group(&session, "unit", 4, 4, nodes);
    open_session(volcano, &session);
    assert_int_equal(place(volcano, first + 2), 6);
    gt_volcano_allocated(volcano, first + 2, 6);
    assert_true(gt_volcano_annotations(volcano, first + 2, annotations) > 0);
    gt_volcano_free(volcano);
}

/* Other plugins are asked about the plan's nodes once a session, and about all with room where they refuse
 * one. */
static void test_predicates_decide(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t tasks[GT_VOLCANO_TEMPLATES_MAX];
    uint8_t nodes[NODES];
    put_job(volcano, "big", 4, 8, "32");
    put_user(volcano, NODES - 1, "other"); /* has no room */
    begin(&session);
    uint32_t first = add_group(&session, "big", 4, 4, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_ask(volcano, first, false, nodes, tasks), 0);
    uint32_t rack = place(volcano, first) / NODES_EACH;
    assert_int_equal(gt_volcano_ask(volcano, first, false, nodes, tasks), 1);
    assert_int_equal(tasks[0], first);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(nodes[n], n / NODES_EACH == rack ? GT_VOLCANO_ASKED : 0);
    nodes[rack * NODES_EACH + 1] = GT_VOLCANO_REFUSED;
    gt_volcano_answer(volcano, first, nodes);
    assert_int_equal(gt_volcano_ask(volcano, first, true, nodes, tasks), 1);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(nodes[n], n / NODES_EACH != rack && n != NODES - 1 ? GT_VOLCANO_ASKED : 0);
    gt_volcano_answer(volcano, first, nodes);
    uint32_t other = place(volcano, first) / NODES_EACH;
    assert_int_not_equal(other, rack);
    assert_int_equal(gt_volcano_ask(volcano, first, false, nodes, tasks), 0);
    gt_volcano_allocated(volcano, first, place(volcano, first));
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(place(volcano, first + i) / NODES_EACH, other);
    gt_volcano_close(volcano);
    /* The next session asks again. */
    volcano_error[0] = '\0';
    open_session(volcano, &session);
    assert_int_equal(place(volcano, first) / NODES_EACH, rack);
    assert_int_equal(gt_volcano_ask(volcano, first, false, nodes, tasks), 1);
    memset(nodes, GT_VOLCANO_REFUSED, sizeof(nodes));
    gt_volcano_answer(volcano, first, nodes);
    uint32_t node;
    assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "its scheduler or kubelets have refused 12 nodes"));
    gt_volcano_free(volcano);
}

/* A pod of a job with units of two nodes; `node` as number + 1, 0: it waits. */
static void put_loser(struct gt_volcano *volcano, const char *policy, unsigned index, unsigned node)
{
    char name[16], labels[160], annotations[160];
    snprintf(name, sizeof(name), "v-%u", index);
    snprintf(labels, sizeof(labels),
             "\"batch.kubernetes.io/job-name\":\"v\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
             index);
    snprintf(annotations, sizeof(annotations),
             "\"metax-tech.com/gpu-group-size\":\"16\",\"metax-tech.com/on-node-loss\":\"%s\",", policy);
    put(volcano, "pods",
        world_pod(POD(.name = name, .spec = "", .gpus = 8, .labels = labels, .annotations = annotations,
                      .node = node ? node_name(node - 1) : NULL,
                      .plan_node = node ? node_name(node - 1) : NULL, .plan_mask = node ? 0xff : 0)));
}

static uint32_t open_losers(struct gt_volcano *volcano, struct session *session, const uint32_t *nodes)
{
    begin(session);
    uint32_t first = add_group(session, "v", 4, 4, nodes);
    open_session(volcano, session);
    return first;
}

static void put_tainted(struct gt_volcano *volcano, unsigned node)
{
    put(volcano, "nodes",
        world_node(NODE(.name = node_name(node), .taints = "[{\"key\":\"away\",\"effect\":\"NoExecute\"}]")));
}

/* Two units on racks 0 and 1; the other nodes of rack 0 are used, and node 0 is lost. */
static struct gt_volcano *losing_world(const char *policy, const uint32_t *nodes)
{
    struct gt_volcano *volcano = new_world();
    for (unsigned i = 0; i < 4; i++)
        put_loser(volcano, policy, i, nodes[i] + 1);
    put_user(volcano, 2, "other");
    put_user(volcano, 3, "other");
    put_tainted(volcano, 0);
    return volcano;
}

static void test_a_unit_leaves_a_lost_node(void **state)
{
    (void)state;
    const uint32_t nodes[4] = {0, 1, 4, 5};
    uint32_t ret[TASKS_MAX], node;
    char text[GT_VOLCANO_TEXT_SIZE];
    struct session session;
    struct gt_volcano *volcano = losing_world("unit", nodes);
    uint32_t first = open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first + 1, ret, text), 0); /* has lost nothing itself */
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 2);
    assert_true(ret[0] == first && ret[1] == first + 1);
    assert_string_equal(text,
                        "unit 0, pod v-0 on node r0-n0: its node has a taint NoExecute; another place is "
                        "reserved");
    gt_volcano_close(volcano);
    open_losers(volcano, &session, nodes); /* they are named until they leave, and told of once */
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 2);
    assert_string_equal(text, "");
    gt_volcano_close(volcano);
    /* The first one is gone: its successor waits for the other one, then both go to one rack. */
    gt_volcano_remove(volcano, number_of("pods"), "ns", "v-0");
    put_loser(volcano, "unit", 0, 0);
    const uint32_t half[4] = {GT_VOLCANO_NO_NODE, 1, 4, 5},
                   gone[4] = {GT_VOLCANO_NO_NODE, GT_VOLCANO_NO_NODE, 4, 5};
    open_losers(volcano, &session, half);
    assert_int_equal(gt_volcano_move(volcano, first + 1, ret, text), 1);
    assert_int_equal(ret[0], first + 1);
    assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
    assert_string_equal(volcano_error, "pods of its unit have still to leave for other places");
    gt_volcano_close(volcano);
    gt_volcano_remove(volcano, number_of("pods"), "ns", "v-1");
    put_loser(volcano, "unit", 1, 0);
    open_losers(volcano, &session, gone);
    assert_int_equal(gt_volcano_move(volcano, first + 1, ret, text), 0);
    uint32_t rack = place(volcano, first) / NODES_EACH;
    assert_int_not_equal(rack, 0);
    assert_int_equal(place(volcano, first + 1) / NODES_EACH, rack);
    gt_volcano_free(volcano);
}

/* Where more than a tenth of the nodes are lost at once, one node may go, and no other for ten minutes. */
static void test_the_brake(void **state)
{
    (void)state;
    const uint32_t nodes[4] = {0, 1, 4, 5};
    uint32_t ret[TASKS_MAX];
    char text[GT_VOLCANO_TEXT_SIZE];
    struct session session;
    struct gt_volcano *volcano = losing_world("unit", nodes);
    put_tainted(volcano, 4);
    uint32_t first = open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 2);
    gt_volcano_close(volcano);
    open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 2); /* unit 0 alone */
    assert_int_equal(ret[1], first + 1);
    assert_string_equal(
        text, "unit 1, pod v-2 on node r1-n0: its node has a taint NoExecute; no pod is evicted: "
              "with it 2 of the 12 nodes of the cluster would be not Ready, tainted, or have lost their pods "
              "of late, and brake lets 1 go at once");
    gt_volcano_set_brake(volcano, 25);
    gt_volcano_close(volcano);
    open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 3);
    assert_int_equal(ret[2], first + 2);
    gt_volcano_free(volcano);
}

/* Unit 0 has no other place; unit 1 has one in its rack. */
static void test_a_unit_moves_where_another_cannot(void **state)
{
    (void)state;
    const uint32_t nodes[4] = {0, 1, 4, 5};
    uint32_t ret[TASKS_MAX];
    char text[GT_VOLCANO_TEXT_SIZE];
    struct session session;
    struct gt_volcano *volcano = losing_world("unit", nodes);
    put_tainted(volcano, 4);
    for (unsigned n = 7; n < NODES; n++)
        put_user(volcano, n, "other");
    uint32_t first = open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 1);
    assert_int_equal(ret[0], first + 2);
    gt_volcano_free(volcano);
}

static void test_policies_of_lost_nodes(void **state)
{
    (void)state;
    const uint32_t nodes[4] = {0, 1, 4, 5};
    uint32_t ret[TASKS_MAX];
    char text[GT_VOLCANO_TEXT_SIZE];
    struct session session;
    struct gt_volcano *volcano = losing_world("job", nodes);
    uint32_t first = open_losers(volcano, &session, nodes);
    /* All move; the last one stays until another pod is there, since the places are known by the job's pods.
     */
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 3);
    gt_volcano_free(volcano);
    volcano = losing_world("wait", nodes);
    first = open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 0);
    assert_string_equal(text, "");
    gt_volcano_free(volcano);
    volcano = losing_world("unit", nodes);
    for (unsigned n = 6; n < NODES; n++)
        put_user(volcano, n, "other");
    first = open_losers(volcano, &session, nodes);
    assert_int_equal(gt_volcano_move(volcano, first, ret, text), 0);
    assert_non_null(strstr(text, "no pod is evicted while there is no other place for the unit: "));
    gt_volcano_free(volcano);
}

/* As gputopo-scheduler does: each node that refused a pod is left out, and after three the job waits. */
static void test_kubelets_refuse_pods(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t rank, node, seen = 0;
    const char *const uids[] = {"k-0", "k-1", "k-2", "k-3"};
    assert_string_equal(gt_volcano_resource(number_of("pods"))->fields, "status.phase!=Succeeded");
    for (unsigned times = 0; times <= 3; times++) {
        PUT_POD(volcano, .job = "k", .index = 0, .gpus = 8, .group = "8", .uid = uids[times]);
        begin(&session);
        uint32_t first = add_group(&session, "k", 1, 1, NULL);
        session.texts[session.size - 2] = (char)('0' + times); /* the last text is its uid */
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_check(volcano, first, &rank, volcano_error), 1);
        if (times == 3) {
            assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
            assert_non_null(strstr(volcano_error, "kubelets have refused 3 of its pods within 10 minutes"));
            assert_int_equal(gt_volcano_wants_room(volcano, first), 0); /* nobody leaves for it */
            break;
        }
        node = place(volcano, first);
        assert_false(seen >> node & 1);
        seen |= 1U << node;
        gt_volcano_allocated(volcano, first, node);
        gt_volcano_close(volcano);
        const struct pod bound = {.job = "k", .gpus = 8, .group = "8", .node = node + 1, .uid = uids[times]};
        put_pod(volcano, &bound);
        assert_int_equal(refuse_pod(volcano, &bound), 1);
        assert_non_null(strstr(volcano_error, "refuses pod k-0 (OutOfmetax-tech.com/gpu)"));
        assert_int_equal(refuse_pod(volcano, &bound), 0);
        gt_volcano_remove(volcano, number_of("pods"), "ns", "k-0");
    }
    gt_volcano_free(volcano);
}

/* Of a scheduler that has just begun: pods that kubelets have refused are listed before all. */
static void test_refused_pods_are_listed(void **state)
{
    (void)state;
    struct gt_volcano *volcano = NULL;
    struct session session;
    uint32_t rank, node;
    assert_int_equal(gt_volcano_new(&volcano, "", "", volcano_error), 0);
    for (unsigned n = 0; n < 3; n++) {
        const struct pod refused = {
            .job = "k", .index = n + 1, .gpus = 8, .group = "8", .node = n + 1, .plan_node = node_name(n)};
        assert_int_equal(refuse_pod(volcano, &refused), 1);
        assert_int_equal(refuse_pod(volcano, &refused), 0);
    }
    const struct pod alone = {.job = "alone", .gpus = 8, .node = 4, .plan_node = node_name(3)};
    assert_int_equal(refuse_pod(volcano, &alone), 0);
    fill_world(volcano);
    PUT_POD(volcano, .job = "k", .index = 0, .gpus = 8, .group = "8");
    begin(&session);
    uint32_t first = add_group(&session, "k", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_check(volcano, first, &rank, volcano_error), 1);
    assert_int_equal(gt_volcano_place(volcano, first, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "kubelets have refused 3 of its pods within 10 minutes"));
    gt_volcano_free(volcano);
}

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *group, *sentence;
    } cases[] = {
        {"40", "the job's 32 GPUs are not a multiple of gpu-group-size 40"},
        {"20", "gpu-group-size 20 is not a multiple of the pod's 8 GPUs"},
        {"24", "the job's 32 GPUs are not a multiple of gpu-group-size 24"},
    };
    struct session session;
    uint32_t rank, node;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct gt_volcano *volcano = new_world();
        put_job(volcano, "wrong", 4, 8, cases[i].group);
        begin(&session);
        uint32_t task = add_group(&session, "wrong", 4, 4, NULL);
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_check(volcano, task, &rank, volcano_error), -EINVAL);
        assert_string_equal(volcano_error, cases[i].sentence);
        assert_int_equal(gt_volcano_place(volcano, task, &node, volcano_error), -EINVAL);
        assert_string_equal(volcano_error, cases[i].sentence);
        gt_volcano_free(volcano);
    }
}

/* gputopo-scheduler may run in the same cluster. */
static void test_the_companions_plans_stay(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t node;
    uint8_t may[NODES];
    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    PUT_POD(volcano, .job = "mine", .index = 0, .gpus = 8, .group = "16", .plan_node = "r1-n2");
    PUT_POD(volcano, .job = "mine", .index = 1, .gpus = 8, .group = "16", .plan_node = "r1-n3",
            .gated = true);
    PUT_POD(volcano, .job = "late", .index = 0, .gpus = 8, .group = "16", .gated = true);
    PUT_POD(volcano, .job = "late", .index = 1, .gpus = 8, .group = "16");
    PUT_POD(volcano, .job = "lone", .gpus = 1);
    begin(&session);
    uint32_t mine = add_group(&session, "mine", 2, 2, NULL), late = add_group(&session, "late", 2, 2, NULL);
    uint32_t lone = add_group(&session, "lone", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(place(volcano, mine), 6);
    gt_volcano_allocated(volcano, mine, 6);
    assert_int_equal(gt_volcano_annotations(volcano, mine, annotations), 0);
    assert_int_equal(gt_volcano_place(volcano, late + 1, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "gputopo-scheduler places this job"));
    assert_false(gt_volcano_wants_room(volcano, late + 1));
    gt_volcano_may_use(volcano, lone, may, NODES);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(may[n], n != 6 && n != 7);
    gt_volcano_free(volcano);
}

/* Pods without units, too: which of several the kubelet admits first must not matter. */
static void test_a_race_gets_its_gpus_written(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    put_job(volcano, "pair", 2, 2, NULL);
    begin(&session);
    uint32_t pair = add_group(&session, "pair", 2, 1, NULL);
    open_session(volcano, &session);
    gt_volcano_allocated(volcano, pair, 0);
    assert_true(gt_volcano_annotations(volcano, pair, annotations) > 0);
    gt_volcano_allocated(volcano, pair + 1, 0);
    assert_true(gt_volcano_annotations(volcano, pair + 1, annotations) > 0);
    gt_volcano_free(volcano);
}

static void test_a_part_may_start(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[4], node;
    for (unsigned n = NODES_EACH; n < NODES; n++)
        put_node(volcano, n, 1);
    put_job(volcano, "part", 8, 8, "32");
    begin(&session);
    uint32_t first = add_group(&session, "part", 8, 4, NULL);
    open_session(volcano, &session);
    place_all(volcano, first, 4, nodes);
    check_units(nodes, 4, 4, 8);
    assert_true(gt_volcano_is_whole(volcano, first));
    assert_int_equal(gt_volcano_place(volcano, first + 4, &node, volcano_error), -EAGAIN);
    gt_volcano_free(volcano);
}

/* After a new list those that are not in it are gone. */
static void test_a_list_says_who_is_gone(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    const uint32_t nodes[2] = {4, 5};
    double scores[2];
    PUT_POD(volcano, .job = "lone", .gpus = 1);
    begin(&session);
    uint32_t lone = add_group(&session, "lone", 1, 1, NULL);
    for (unsigned round = 0; round < 3; round++) {
        open_session(volcano, &session);
        gt_volcano_listed(volcano, number_of("nodegputopologies")); /* not during a session */
        assert_int_equal(gt_volcano_score_nodes(volcano, lone, nodes, 2, scores, volcano_error), 0);
        assert_int_equal(scores[0] > 0, round < 2);
        assert_int_equal(scores[1] > 0, round < 1);
        gt_volcano_close(volcano);
        for (unsigned n = 0; n < NODES && !round; n++)
            if (n != 5)
                put_user(volcano, n, NULL);
        gt_volcano_listed(volcano, number_of("nodegputopologies"));
        gt_volcano_listed(volcano, 999);
    }
    gt_volcano_free(volcano);
}

static void test_nonsense(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t node, rank;
    double score;
    uint32_t beyond = NODES;
    assert_int_equal(gt_volcano_put(volcano, 0, "{", 1, volcano_error), -EINVAL);
    assert_int_equal(gt_volcano_put(volcano, 999, "{}", 2, volcano_error), -EINVAL);
    assert_int_equal(gt_volcano_place(volcano, 0, &node, volcano_error), -EINVAL);
    begin(&session);
    uint32_t task = add_group(&session, "unseen", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_put(volcano, 0, "{}", 2, volcano_error), -EBUSY);
    assert_int_equal(gt_volcano_check(volcano, task, &rank, volcano_error), 0);
    assert_int_equal(gt_volcano_place(volcano, task, &node, volcano_error), -EAGAIN);
    assert_non_null(strstr(volcano_error, "not seen this pod yet"));
    assert_int_equal(gt_volcano_score_nodes(volcano, task, &beyond, 1, &score, volcano_error), -EINVAL);
    session.tasks[0].group = 7;
    assert_int_equal(gt_volcano_open(volcano, session.texts, session.size, session.nodes, NODES,
                                     session.groups, session.group_count, session.tasks, session.task_count,
                                     volcano_error),
                     -EINVAL);
    session.nodes[0] = TEXT_MAX;
    session.tasks[0].group = 0;
    assert_int_equal(gt_volcano_open(volcano, session.texts, session.size, session.nodes, NODES,
                                     session.groups, session.group_count, session.tasks, session.task_count,
                                     volcano_error),
                     -EINVAL);
    assert_int_equal(gt_volcano_check(volcano, task, &rank, volcano_error), -EINVAL);
    gt_volcano_free(volcano);
}

struct rounds {
    struct gt_volcano *volcano;
    unsigned count;
};

/* Twice count sessions: a gang is placed, then bound, and is gone. */
static void *run_rounds(void *data)
{
    const struct rounds *rounds = data;
    struct gt_volcano *volcano = rounds->volcano;
    struct session session;
    uint32_t nodes[8];
    unsigned pods = number_of("pods");
    for (unsigned round = 0; round < rounds->count; round++) {
        put_job(volcano, "big", 8, 8, "32");
        begin(&session);
        uint32_t first = add_group(&session, "big", 8, 8, NULL);
        open_session(volcano, &session);
        place_all(volcano, first, 8, nodes);
        gt_volcano_close(volcano);
        begin(&session);
        add_group(&session, "big", 8, 8, nodes);
        open_session(volcano, &session);
        gt_volcano_close(volcano);
        for (unsigned i = 0; i < 8; i++) {
            char name[32];
            snprintf(name, sizeof(name), "big-%u", i);
            gt_volcano_remove(volcano, pods, "ns", name);
        }
        begin(&session);
    }
    return NULL;
}

/* Bytes in use after so many rounds. They run in a thread of their own: glibc counts as used what a thread
 * keeps for its next calls, and gives that back when the thread ends. 0 under a sanitizer, which has an
 * allocator of its own. */
static size_t heap_after_rounds(struct gt_volcano *volcano, unsigned count)
{
    struct rounds rounds = {.volcano = volcano, .count = count};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_rounds, &rounds), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return mallinfo2().uordblks;
}

/* 8,000 sessions more hold no more than the first 2,000. */
static void test_sessions_do_not_grow(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    size_t heap = heap_after_rounds(volcano, 1000); /* by then the sizes of jobs that were are learned */
    /* Less than a byte a session; tables grow by a step now and then. */
    assert_true(heap_after_rounds(volcano, 4000) <= heap + 4096);
    gt_volcano_free(volcano);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_follow_the_free_gpus),
        cmocka_unit_test(test_what_a_kubelet_would_refuse),
        cmocka_unit_test(test_siblings_attract),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_units_lie_in_racks),
        cmocka_unit_test(test_a_required_tier),
        cmocka_unit_test(test_people_reserve_racks),
        cmocka_unit_test(test_no_room_holds_nothing),
        cmocka_unit_test(test_a_plan_is_given_back),
        cmocka_unit_test(test_reservations_last_until_the_pods_say_so),
        cmocka_unit_test(test_a_unit_stays_in_its_rack),
        cmocka_unit_test(test_a_successor_comes_home),
        cmocka_unit_test(test_predicates_decide),
        cmocka_unit_test(test_a_unit_leaves_a_lost_node),
        cmocka_unit_test(test_the_brake),
        cmocka_unit_test(test_a_unit_moves_where_another_cannot),
        cmocka_unit_test(test_policies_of_lost_nodes),
        cmocka_unit_test(test_kubelets_refuse_pods),
        cmocka_unit_test(test_refused_pods_are_listed),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_the_companions_plans_stay),
        cmocka_unit_test(test_a_race_gets_its_gpus_written),
        cmocka_unit_test(test_a_part_may_start),
        cmocka_unit_test(test_a_list_says_who_is_gone),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_sessions_do_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
