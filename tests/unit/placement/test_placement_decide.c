/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/json.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/node_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/model/loss_wirings.h"

/* Decisions on one job: what is placed, what stays, what is reserved for pods that are not there. */

enum { SUPERNODES = 3, NODES_EACH = 4 };

static const struct gt_decide_spec plainly = {.reserve_until = 1000};

static const char *node_name(unsigned supernode, unsigned node)
{
    static char names[8][16];
    static unsigned next;
    char *name = names[next++ % 8];
    snprintf(name, sizeof(names[0]), "s%u-n%u", supernode, node);
    return name;
}

static struct gt_cache *new_world(void)
{
    struct gt_cache *cache = new_cache(NULL);
    for (unsigned s = 0; s < SUPERNODES; s++) {
        char supernode[16];
        struct world_supernode object = {.tier = 1};
        for (unsigned n = 0; n < NODES_EACH; n++)
            give_plain_node(cache, node_name(s, n));
        snprintf(supernode, sizeof(supernode), "s%u", s);
        object.name = supernode;
        char members[NODES_EACH][16];
        for (unsigned n = 0; n < NODES_EACH; n++) {
            snprintf(members[n], sizeof(members[n]), "s%u-n%u", s, n);
            object.members[n] = members[n];
        }
        give_supernode(cache, &object);
    }
    return cache;
}

struct pod_spec {
    const char *job;
    unsigned index, gpus, group;
    bool ungated;
    const char *node, *uid, *spec, *topology;
};

static struct gt_cache_pod *give(struct gt_cache *cache, const struct pod_spec *spec)
{
    char name[32], labels[256], annotations[192];
    snprintf(name, sizeof(name), "%s-%u", spec->job, spec->index);
    snprintf(labels, sizeof(labels),
             "\"batch.kubernetes.io/job-name\":\"%s\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
             spec->job, spec->index);
    snprintf(annotations, sizeof(annotations), "\"metax-tech.com/gpu-group-size\":\"%u\",%s", spec->group,
             spec->topology ? spec->topology : "");
    give_pod(cache,
             POD(.name = name, .uid = spec->uid, .gpus = spec->gpus, .gated = !spec->ungated,
                 .node = spec->node, .labels = labels, .annotations = annotations, .spec = spec->spec));
    struct gt_cache_pod *pod = gt_cache_find_pod(cache, "ns", name);
    assert_non_null(pod);
    return pod;
}
#define GIVE(cache, ...) give(cache, &(struct pod_spec){__VA_ARGS__})

static struct gt_owner *owner_of(unsigned pods, unsigned gpus, unsigned group)
{
    static const char form[] =
        "{\"spec\":{\"completionMode\":\"Indexed\",\"parallelism\":%u,\"completions\":%u,\"template\":{"
        "\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"%u\"}},\"spec\":{\"containers\":["
        "{\"name\":\"main\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":%u}}}]}}}}";
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    struct gt_owner *owner = NULL;
    gt_buf_printf(&text, form, pods, pods, group, gpus);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    assert_int_equal(gt_owner_read(GT_JOB_INDEXED, json, "metax-tech.com/gpu", &owner, NULL), 0);
    cJSON_Delete(json);
    return owner;
}

static struct gt_job_view *view_of(struct gt_cache *cache, const char *key, const struct gt_owner *owner,
                                   struct gt_reservations *reservations, uint64_t now)
{
    struct gt_job_view *view = NULL;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_cache_job *job = gt_cache_find_job(cache, key);
    assert_non_null(job);
    const struct gt_job_view_spec spec = {
        .owner = owner, .now = now, .wanted_until = now + 10, .missing_until = 1000, .ahead_gpus = 64};
    if (gt_job_view_make(cache, job, &spec, reservations, &view, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return view;
}

static enum gt_decision decide(struct gt_cache *cache, const char *key, const struct gt_owner *owner,
                               struct gt_reservations *reservations, const struct gt_decide_spec *spec,
                               struct gt_buf *text)
{
    gt_auto_job_view struct gt_job_view *view = view_of(cache, key, owner, reservations, 1);
    struct gt_plan_failure failure;
    enum gt_decision decision = gt_decide(view, spec, &failure, text);
    check_cache(cache);
    return decision;
}

static uint32_t supernode_of(struct gt_cache *cache, uint32_t node)
{
    struct gt_cluster_node info;
    assert_true(gt_cluster_get_node(gt_cache_cluster(cache), node, &info));
    return info.supernode;
}

static unsigned available(struct gt_cache *cache)
{
    unsigned gpus = 0;
    for (unsigned s = 0; s < SUPERNODES; s++)
        for (unsigned n = 0; n < NODES_EACH; n++)
            gpus += (unsigned)__builtin_popcountll(cluster_node(cache, node_name(s, n)).available);
    return gpus;
}

static void end(struct gt_cache *cache, struct gt_reservations *reservations, struct gt_owner *owner)
{
    gt_reservations_done(reservations, gt_cache_cluster(cache));
    if (owner)
        gt_owner_free(owner);
    gt_cache_free(cache);
}

/* The first pod of eight: the job is planned as a whole. */
static void test_whole_job_at_its_first_pod(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(8, 8, 32);
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    struct gt_cache_pod *first = GIVE(cache, .job = "a", .index = 5, .gpus = 8, .group = 32);
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_equal(first->plan, GT_CACHE_PLAN_ASSUMED);
    assert_int_equal(gt_reservations_gpus(&reservations), 56);
    assert_int_equal(available(cache), SUPERNODES * NODES_EACH * 8 - 64);
    assert_non_null(strstr(text.data, "unit 1"));
    uint32_t home = supernode_of(cache, first->planned.node);
    for (unsigned i = 0; i < 8; i++) {
        struct gt_cache_pod *pod =
            i == 5 ? first : GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32);
        uint32_t kept =
            i == 5 ? first->planned.node : gt_reservations_node(&reservations, gt_cache_cluster(cache), i);
        assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text),
                         GT_DECISION_PLACED);
        assert_int_equal(pod->planned.node, kept);
        assert_int_equal(supernode_of(cache, kept) == home, i >= 4);
    }
    assert_int_equal(gt_reservations_gpus(&reservations), 0);
    assert_int_equal(available(cache), SUPERNODES * NODES_EACH * 8 - 64);
    end(cache, &reservations, owner);
}

/* Without an owner the pods at hand are all there is. */
static void test_job_without_owner(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 16);
    gt_auto_job_view struct gt_job_view *view = view_of(cache, "ns/Job/a", NULL, &reservations, 1);
    assert_int_equal(view->states[GT_MEMBER_TO_PLACE], 4);
    assert_int_equal(view->job->units.count, 2);
    assert_true(view->whole);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_equal(gt_reservations_gpus(&reservations), 0);
    end(cache, &reservations, NULL);
}

/* Planned in part by a leader that is gone: the rest is planned for again, until a gate has gone. */
static void test_rest_is_wanted_until_a_gate_goes(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(4, 8, 32);
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    struct gt_cache_pod *pod = GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 32);
    assert_int_equal(
        gt_cache_plan_pod(cache, pod, gt_cluster_find_node(gt_cache_cluster(cache), "s1-n2"), 0xff, NULL), 0);
    struct gt_job_view *view = view_of(cache, "ns/Job/a", owner, &reservations, 1);
    assert_int_equal(view->states[GT_MEMBER_PLANNED], 1);
    assert_int_equal(view->states[GT_MEMBER_TO_RESERVE], 3);
    gt_job_view_free(view);
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_equal(gt_reservations_gpus(&reservations), 24);
    gt_reservations_done(&reservations, gt_cache_cluster(cache));
    GIVE(cache, .job = "b", .index = 0, .gpus = 8, .group = 32, .node = "s0-n0", .ungated = true);
    struct gt_reservations others = {0};
    struct gt_owner *same = owner_of(4, 8, 32);
    view = view_of(cache, "ns/Job/b", same, &others, 1);
    assert_int_equal(view->states[GT_MEMBER_PLACED], 1);
    assert_int_equal(view->states[GT_MEMBER_ABSENT], 3);
    gt_job_view_free(view);
    gt_reservations_done(&others, gt_cache_cluster(cache));
    gt_owner_free(same);
    end(cache, &reservations, owner);
}

static void test_too_big_says_why_and_changes_nothing(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(8, 8, 64);
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    struct gt_cache_pod *pod = GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 64);
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_WAITS);
    assert_non_null(strstr(text.data, "64"));
    assert_int_equal(pod->plan, GT_CACHE_PLAN_NONE);
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 0);
    assert_int_equal(available(cache), SUPERNODES * NODES_EACH * 8);
    end(cache, &reservations, owner);
}

/* A pod without units is drawn to its siblings: an eighth less with each tier; not by those of a ReplicaSet.
 */
static void test_nearness_to_siblings(void **state)
{
    (void)state;
    const struct gt_aware_weights all = {.weight = 2, .score_weight = 1, .closeness_weight = 3, .close = 1};
    for (unsigned round = 0; round < 3; round++) {
        struct gt_cache *cache = new_cache(NULL);
        const char *const nodes[] = {"same", "beside", "far"};
        uint32_t ids[3];
        double values[4] = {1, 1, 1, (double)NAN};
        for (unsigned n = 0; n < 3; n++)
            give_plain_node(cache, nodes[n]);
        give_supernode(cache, SUPERNODE(.name = "hall", .tier = 3));
        give_supernode(cache, SUPERNODE(.name = "s0", .tier = 1, .parent = "hall", .members = {"same"}));
        give_supernode(cache, SUPERNODE(.name = "s1", .tier = 1, .parent = "hall", .members = {"beside"}));
        for (unsigned n = 0; n < 3; n++)
            ids[n] = gt_cluster_find_node(gt_cache_cluster(cache), nodes[n]);
        for (unsigned i = 0; i < 3; i++) {
            char name[8], labels[128];
            snprintf(name, sizeof(name), "p-%u", i);
            snprintf(
                labels, sizeof(labels),
                "\"batch.kubernetes.io/job-name\":\"p\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
                i);
            give_pod(cache, POD(.name = name, .gpus = 1,
                                .node = i == 1            ? "same"
                                        : i && round == 1 ? "far"
                                                          : NULL,
                                .labels = round < 2 ? labels : NULL, .job = round < 2 ? NULL : "p"));
        }
        const struct gt_aware_weights weights = gt_node_weights(cache, &all, pod_of(cache, "p-0"));
        gt_node_values_near(cache, &weights, pod_of(cache, "p-0"), ids, 3, values);
        const double sum[3][3] = {{6, 6 * 0.75, 0}, {3, 3 * 0.75, 3}, {0, 0, 0}};
        for (unsigned n = 0; n < 3; n++)
            assert_true(values[n] == 1 + sum[round][n]);
        gt_cache_free(cache);
    }
}

/* Who asks for closeness: the pod, else its Namespace, else the options. Only then it has a weight. */
static void test_who_is_kept_close(void **state)
{
    (void)state;
    static const struct {
        const char *of_pod, *of_namespace; /* annotations */
        unsigned all;
        double given, expected;
    } cases[] = {
        {NULL, NULL, 0, 3, 0},        {NULL, NULL, 1, 3, 3},        {NULL, NULL, 1, 0, 1},
        {NULL, "preferred", 0, 3, 3}, {NULL, "preferred", 0, 0, 1}, {NULL, "none", 1, 3, 0},
        {NULL, "Preferred", 0, 3, 0}, {NULL, "far", 1, 3, 3},       {"none", "preferred", 1, 3, 0},
        {"preferred", NULL, 0, 3, 3},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        struct gt_cache *cache = new_cache(NULL);
        const struct gt_aware_weights weights = {
            .weight = 1, .closeness_weight = cases[i].given, .close = cases[i].all};
        char text[160], annotations[80];
        snprintf(annotations, sizeof(annotations), "\"metax-tech.com/job-topology\":\"%s\",",
                 cases[i].of_pod ? cases[i].of_pod : "");
        snprintf(text, sizeof(text),
                 "{\"metadata\":{\"name\":\"ns\",\"annotations\":{\"metax-tech.com/"
                 "default-job-topology\":\"%s\"}}}",
                 cases[i].of_namespace ? cases[i].of_namespace : "");
        gt_auto_json cJSON *object =
            cJSON_Parse(cases[i].of_namespace ? text : "{\"metadata\":{\"name\":\"ns\"}}");
        gt_cache_related(cache, GT_RELATED_NAMESPACE, object);
        give_pod(cache, POD(.name = "p", .gpus = 1, .annotations = cases[i].of_pod ? annotations : NULL,
                            .labels = "\"batch.kubernetes.io/job-name\":\"p\","
                                      "\"batch.kubernetes.io/job-completion-index\":\"0\""));
        assert_true(gt_node_weights(cache, &weights, pod_of(cache, "p")).closeness_weight ==
                    cases[i].expected);
        assert_true(gt_node_weights(cache, &weights, NULL).closeness_weight == 0);
        gt_cache_related_deleted(cache, GT_RELATED_NAMESPACE, NULL, "ns");
        assert_int_equal(gt_cache_namespace_closeness(cache, "ns"), GT_CLOSENESS_UNSAID);
        gt_cache_free(cache);
    }
}

/* A job that must lie in one supernode waits, and says what each lacks. */
static void test_a_required_tier_holds_the_job_back(void **state)
{
    (void)state;
    for (unsigned required = 0; required < 2; required++) {
        struct gt_cache *cache = new_world();
        struct gt_owner *owner = owner_of(4, 8, 16);
        struct gt_reservations reservations = {0};
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
        for (unsigned s = 0; s < SUPERNODES; s++)
            GIVE(cache, .job = "other", .index = s, .gpus = 8, .group = 8, .ungated = true,
                 .node = node_name(s, 0));
        GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 16,
             .topology = required ? "\"metax-tech.com/job-topology\":\"required=supernode\"," : NULL);
        enum gt_decision decision = decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text);
        assert_int_equal(decision, required ? GT_DECISION_WAITS : GT_DECISION_PLACED);
        if (required)
            assert_non_null(strstr(
                text.data, "the job must lie in one supernode of tier 1; 2 units of 16 GPUs needed; s0 "
                           "lacks room for 1, s1 lacks room for 1, s2 lacks room for 1"));
        end(cache, &reservations, owner);
    }
}

/* Reserved places expire, and end with their node, even if its id is used again. */
static void test_places_end(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(4, 8, 32);
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 32);
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_equal(gt_reservations_gpus(&reservations), 24);
    assert_int_equal(gt_reservations_next_end(&reservations), 1000);
    struct gt_cluster_node info;
    assert_true(gt_cluster_get_node(gt_cache_cluster(cache),
                                    gt_reservations_node(&reservations, gt_cache_cluster(cache), 2), &info));
    char gone[64];
    snprintf(gone, sizeof(gone), "%s", info.name);
    gt_cache_topology_deleted(cache, gone);
    give_topology(cache, TOPOLOGY(.name = "another", .gpus = 8), 1);
    give_node(cache, NODE(.name = "another"));
    gt_reservations_sync(&reservations, gt_cache_cluster(cache), 2);
    assert_int_equal(gt_reservations_gpus(&reservations), 16);
    assert_int_equal(cluster_node(cache, "another").assumed, 0);
    assert_true(gt_reservations_sync(&reservations, gt_cache_cluster(cache), 1000));
    assert_int_equal(gt_reservations_gpus(&reservations), 0);
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 1); /* of the pod that is there */
    check_cache(cache);
    end(cache, &reservations, owner);
}

/* The place of a pod that left is kept as long as was said when it left, though places of pods that were
 * never made are kept longer. */
static void test_place_of_a_pod_that_left_ends(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(4, 8, 32);
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    for (unsigned i = 0; i < 3; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32);
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    struct gt_cluster_node home;
    const struct gt_cache_pod *stays = gt_cache_find_pod(cache, "ns", "a-0");
    assert_true(gt_cluster_get_node(gt_cache_cluster(cache), stays->planned.node, &home));
    GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 32, .ungated = true, .node = home.name);
    gt_job_view_free(view_of(cache, "ns/Job/a", owner, &reservations, 2));
    gt_cache_pod_deleted(cache, "ns", "a-2");
    for (uint64_t now = 3; now < 13; now += 3) {
        gt_job_view_free(view_of(cache, "ns/Job/a", owner, &reservations, now));
        assert_int_equal(gt_reservations_gpus(&reservations), 16);
        assert_int_equal(gt_reservations_next_end(&reservations), 13);
        assert_int_equal(gt_reservations_reserved_end(&reservations), 1000);
    }
    gt_reservations_extend(&reservations, gt_cache_cluster(cache), 1500);
    for (uint32_t i = 0; i < reservations.count; i++) { /* the ledger has the same end */
        const struct gt_reservation *one = &reservations.reservations[i];
        if (one->state != GT_RESERVATION_HELD)
            continue;
        const struct gt_promise *told = gt_cluster_find_promise(gt_cache_cluster(cache), one->entry);
        assert_int_equal(told->until_ms, one->promise.until_ms);
        assert_int_equal(told->until_ms, one->returns ? 13 : 1500);
    }
    gt_job_view_free(view_of(cache, "ns/Job/a", owner, &reservations, 13));
    assert_int_equal(gt_reservations_gpus(&reservations), 8);
    assert_int_equal(gt_reservations_next_end(&reservations), 1500);
    end(cache, &reservations, owner);
}

/* Seconds for keeping so many places of one GPU, looking at them, and giving up one after the other. */
static double cpu_of_places(struct gt_cache *cache, uint32_t count)
{
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_reservations reservations = {.owner = 1};
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_int_equal(gt_reservations_resize(&reservations, cluster, count, NULL), 0);
    for (uint32_t i = 0; i < count; i++)
        gt_reservations_reserve(
            &reservations, cluster, i,
            &(struct gt_promise){.place = {i / 8, (uint64_t)1 << i % 8}, .until_ms = UINT64_MAX});
    assert_false(gt_reservations_sync(&reservations, cluster, 1));
    assert_int_equal(gt_reservations_gpus(&reservations), count);
    assert_int_equal(gt_cluster_assumptions(cluster), count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(gt_reservations_release(&reservations, cluster, i));
    assert_int_equal(gt_cluster_assumptions(cluster), 0);
    gt_reservations_done(&reservations, cluster);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

/* Eight times as many take some eight times as long, and not sixty-four. */
static void test_many_places(void **state)
{
    (void)state;
    enum { PLACES = 8000 };
    struct gt_cache *cache = new_cache(NULL);
    double few = 1e9, many = 1e9; /* the least of five: the machine may be busy */
    for (unsigned n = 0; n < PLACES / 8; n++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", n);
        cJSON *objects[] = {world_topology(TOPOLOGY(.name = name, .gpus = 8)),
                            world_node(NODE(.name = name))};
        gt_cache_topology(cache, objects[0], 1);
        gt_cache_node(cache, objects[1]);
        cJSON_Delete(objects[0]);
        cJSON_Delete(objects[1]);
    }
    for (unsigned i = 0; i < 5; i++) {
        double took = cpu_of_places(cache, PLACES / 8);
        few = took < few ? took : few;
        took = cpu_of_places(cache, PLACES);
        many = took < many ? took : many;
    }
    assert_true(many < 40 * few);
    gt_cache_free(cache);
}

/* A gang that is planned in part (the rest has no room any more) gives its reservations up and is planned
 * again.
 */
static void test_reservations_give_way(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_cache_pod *pods[4];
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    for (unsigned i = 0; i < 4; i++)
        pods[i] = GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32);
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), "s0-n0");
    assert_int_equal(gt_cache_plan_pod(cache, pods[0], node, 0xff, NULL), 0);
    give_topology(cache, TOPOLOGY(.name = "s0-n1", .gpus = 8, .unnamed = 1), 1);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pods[i]->plan, GT_CACHE_PLAN_ASSUMED);
        assert_int_equal(supernode_of(cache, pods[i]->planned.node),
                         supernode_of(cache, pods[0]->planned.node));
    }
    assert_true(pods[0]->planned.node != node);
    end(cache, &reservations, NULL);
}

/* A leader that ended while it wrote a new plan over an old one leaves pods with some of each. Before the
 * first gate goes that is seen; afterwards it is too late. */
static void test_mixed_plans_are_given_up(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_cache_pod *pods[4];
    for (unsigned i = 0; i < 4; i++) {
        pods[i] = GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32);
        uint32_t node = gt_cluster_find_node(gt_cache_cluster(cache), node_name(i < 2 ? 0 : 1, i));
        assert_int_equal(gt_cache_plan_pod(cache, pods[i], node, 0xff, NULL), 0);
    }
    struct gt_job_view *view = NULL;
    struct gt_cache_job *job = gt_cache_find_job(cache, "ns/Job/a");
    assert_int_equal(gt_job_view_make(cache, job, &(struct gt_job_view_spec){.now = 1, .wanted_until = 1},
                                      &reservations, &view, NULL),
                     0);
    assert_int_equal(view->states[GT_MEMBER_PLANNED], 4);
    assert_true(gt_decide_repair(view, true));
    assert_int_equal(view->states[GT_MEMBER_PLANNED], 4);
    assert_true(gt_decide_repair(view, false));
    assert_int_equal(view->states[GT_MEMBER_TO_PLACE], 4);
    assert_false(gt_decide_repair(view, false));
    gt_job_view_free(view);
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(supernode_of(cache, pods[i]->planned.node),
                         supernode_of(cache, pods[0]->planned.node));
    end(cache, &reservations, NULL);
}

/* What runs stays, and the missing pod returns to its supernode or waits. */
static void test_running_pods_bind(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    for (unsigned i = 0; i < 3; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32, .ungated = true, .node = node_name(1, i));
    struct gt_cache_pod *last = GIVE(cache, .job = "a", .index = 3, .gpus = 8, .group = 32);
    give_topology(cache, TOPOLOGY(.name = "s1-n3", .gpus = 8, .unnamed = 4), 1);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_WAITS);
    assert_non_null(strstr(text.data, "s1"));
    give_topology(cache, TOPOLOGY(.name = "s1-n3", .gpus = 8), 1);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_equal(last->planned.node, gt_cluster_find_node(gt_cache_cluster(cache), "s1-n3"));
    end(cache, &reservations, NULL);
}

static void test_selector_and_kept_nodes(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_node_set kept = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    for (unsigned n = 0; n < NODES_EACH; n++)
        give_node(cache, NODE(.name = node_name(2, n), .labels = "{\"hall\":\"b\"}"));
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32,
             .spec = "\"nodeSelector\":{\"hall\":\"b\"},");
    assert_int_equal(gt_node_set_add(&kept, gt_cluster_find_node(gt_cache_cluster(cache), "s2-n1"), NULL), 0);
    const struct gt_decide_spec avoiding = {
        .avoid = &kept, .avoid_for = "reserved for job ns/Job/b until 12:00", .reserve_until = 1000};
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &avoiding, &text), GT_DECISION_WAITS);
    assert_non_null(strstr(text.data, "exclude 8 nodes"));
    assert_non_null(strstr(text.data, "it would fit"));
    assert_non_null(strstr(text.data, "; 8 free GPUs on 1 node are reserved for job ns/Job/b until 12:00"));
    gt_buf_consume(&text, text.len);
    /* what is reserved counts all the same */
    give_topology(cache, TOPOLOGY(.name = node_name(2, 0), .gpus = 8, .unnamed = 0xff), 1);
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &avoiding, &text), GT_DECISION_WAITS);
    assert_non_null(strstr(text.data, "32 GPUs are needed in all, the cluster has 24"));
    assert_non_null(strstr(text.data, "; 8 free GPUs on 1 node are reserved for job ns/Job/b until 12:00"));
    give_topology(cache, TOPOLOGY(.name = node_name(2, 0), .gpus = 8), 1);
    assert_int_equal(available(cache), SUPERNODES * NODES_EACH * 8); /* all are eligible again */
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    for (unsigned n = 0; n < NODES_EACH; n++)
        assert_int_equal(cluster_node(cache, node_name(2, n)).assumed, 0xff);
    gt_node_set_done(&kept);
    end(cache, &reservations, NULL);
}

/* The nodes that run empty soonest: of the supernode that is least in use. */
static void test_drain(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_node_set set = {0};
    for (unsigned s = 0; s < SUPERNODES; s++)
        for (unsigned n = 0; n < NODES_EACH; n++)
            if (s != 1 || n == 2)
                give_topology(cache,
                              TOPOLOGY(.name = node_name(s, n), .gpus = 8, .unnamed = s == 1 ? 1 : 0xff), 1);
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32);
    unsigned before = available(cache);
    gt_auto_job_view struct gt_job_view *view = view_of(cache, "ns/Job/a", NULL, &reservations, 1);
    assert_true(gt_decide_drain(view, &set));
    for (unsigned s = 0; s < SUPERNODES; s++)
        for (unsigned n = 0; n < NODES_EACH; n++)
            assert_int_equal(
                gt_node_set_has(&set, gt_cluster_find_node(gt_cache_cluster(cache), node_name(s, n))),
                s == 1);
    assert_int_equal(available(cache), before);
    check_cache(cache);
    gt_node_set_done(&set);
    end(cache, &reservations, NULL);
}

static void test_drain_of_what_never_fits(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_node_set set = {0};
    struct gt_owner *owner = owner_of(8, 8, 64); /* no supernode has 64 GPUs */
    GIVE(cache, .job = "a", .index = 0, .gpus = 8, .group = 64);
    gt_auto_job_view struct gt_job_view *view = view_of(cache, "ns/Job/a", owner, &reservations, 1);
    assert_false(gt_decide_drain(view, &set));
    assert_null(set.bits);
    end(cache, &reservations, owner);
}

/* Jobs come, in any order of their pods, and go; at every moment units lie in one supernode, no GPU is
 * reserved twice, and in the end nothing is left. */
static void test_random_lives(void **state)
{
    (void)state;
    enum { JOBS = 6, PODS = 8, STEPS = 1500 };
    unsigned seed = (unsigned)test_seed();
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations[JOBS] = {{0}};
    struct gt_owner *owners[JOBS];
    bool there[JOBS][PODS] = {{false}};
    unsigned placed = 0;
    for (unsigned j = 0; j < JOBS; j++)
        owners[j] = owner_of(PODS / (1 + j % 2), 8, 16U << j % 2);
    for (unsigned s = 0; s < STEPS; s++) {
        seed = seed * 1103515245 + 12345;
        unsigned j = (seed >> 16) % JOBS, i = (seed >> 20) % (PODS / (1 + j % 2)), what = (seed >> 24) % 8;
        char job[4] = {(char)('a' + j)}, key[16], name[8];
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
        snprintf(key, sizeof(key), "ns/Job/%s", job);
        snprintf(name, sizeof(name), "%s-%u", job, i);
        if (what < 6 && !there[j][i]) {
            GIVE(cache, .job = job, .index = i, .gpus = 8, .group = 16U << j % 2);
            there[j][i] = true;
        } else if (what >= 6 && there[j][i]) {
            gt_cache_pod_deleted(cache, "ns", name);
            there[j][i] = false;
        }
        if (!gt_cache_find_job(cache, key)) {
            gt_reservations_done(&reservations[j], gt_cache_cluster(cache));
            continue;
        }
        placed += decide(cache, key, owners[j], &reservations[j], &plainly, &text) == GT_DECISION_PLACED;
        gt_auto_job_view struct gt_job_view *view = view_of(cache, key, owners[j], &reservations[j], 1);
        for (uint32_t u = 0; u < view->job->units.count; u++) {
            const struct gt_plan_unit *unit = &view->job->units.units[u];
            uint32_t home = GT_NONE;
            for (uint32_t m = unit->first; m < unit->first + unit->pods; m++) {
                const struct gt_cache_pod *pod = view->members[m].pod;
                uint32_t node = pod && pod->plan == GT_CACHE_PLAN_ASSUMED ? pod->planned.node : GT_NONE;
                if (node == GT_NONE && reservations[j].reservations[m].state == GT_RESERVATION_HELD)
                    node = gt_reservations_node(&reservations[j], gt_cache_cluster(cache), m);
                if (node == GT_NONE)
                    continue;
                assert_true(home == GT_NONE || home == supernode_of(cache, node));
                home = supernode_of(cache, node);
            }
        }
    }
    assert_true(placed > STEPS / 10);
    for (unsigned j = 0; j < JOBS; j++) {
        for (unsigned i = 0; i < PODS; i++) {
            char name[8];
            snprintf(name, sizeof(name), "%c-%u", (char)('a' + j), i);
            gt_cache_pod_deleted(cache, "ns", name);
        }
        gt_reservations_done(&reservations[j], gt_cache_cluster(cache));
        gt_owner_free(owners[j]);
    }
    assert_int_equal(gt_cluster_assumptions(gt_cache_cluster(cache)), 0);
    assert_int_equal(available(cache), SUPERNODES * NODES_EACH * 8);
    gt_cache_free(cache);
}

/* ---- CPU and the like ---- */

/* A container of the pods here asks for 1500m besides; the node's `cpu` in CPUs. */
static void give_cpus(struct gt_cache *cache, unsigned supernode, unsigned node, unsigned cpu)
{
    char allocatable[64];
    snprintf(allocatable, sizeof(allocatable), "{\"cpu\":\"%u\",\"pods\":\"110\"}", cpu);
    give_node(cache, NODE(.name = node_name(supernode, node), .allocatable = allocatable));
}

static void give_all_cpus(struct gt_cache *cache, unsigned cpu)
{
    for (unsigned s = 0; s < SUPERNODES; s++)
        for (unsigned n = 0; n < NODES_EACH; n++)
            give_cpus(cache, s, n, cpu);
}

#define ASKS(cpus) "\"overhead\":{\"cpu\":\"" cpus "\"},"

static void test_nodes_without_cpus_are_left_out(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0}, others = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    give_all_cpus(cache, 64);
    for (unsigned s = 0; s < 2; s++) {
        char name[16];
        snprintf(name, sizeof(name), "full-%u", s);
        give_pod(cache, POD(.name = name, .node = node_name(s, 1), .spec = ASKS("40")));
    }
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32, .spec = ASKS("30"));
    assert_int_equal(decide(cache, "ns/Job/a", NULL, &reservations, &plainly, &text), GT_DECISION_PLACED);
    uint32_t s2 = supernode_of(cache, gt_cluster_find_node(gt_cache_cluster(cache), "s2-n0"));
    assert_int_equal(supernode_of(cache, gt_cache_find_pod(cache, "ns", "a-0")->planned.node), s2);
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "b", .index = i, .gpus = 8, .group = 32, .spec = ASKS("30"));
    gt_buf_consume(&text, text.len);
    assert_int_equal(decide(cache, "ns/Job/b", NULL, &others, &plainly, &text), GT_DECISION_WAITS);
    if (!strstr(text.data,
                "GPUs for it are free, on nodes with too little else; 2 nodes lack CPU (a pod needs "
                "31.5, at most 22.5 is free)"))
        fail_msg("%s", text.data);
    gt_cache_pod_deleted(cache, "ns", "full-1");
    assert_int_equal(decide(cache, "ns/Job/b", NULL, &others, &plainly, &text), GT_DECISION_PLACED);
    gt_reservations_done(&others, gt_cache_cluster(cache));
    end(cache, &reservations, NULL);
}

/* Pods of one job, and places for those that do not exist, take from each other. */
static void test_places_take_cpus(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_owner *owner = owner_of(8, 1, 8);
    struct gt_reservations reservations = {0}, others = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    give_all_cpus(cache, 64);
    struct gt_cache_pod *first =
        GIVE(cache, .job = "a", .index = 0, .gpus = 1, .group = 8, .spec = ASKS("18500m"));
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    unsigned on[64] = {0}; /* three on a node */
    on[first->planned.node]++;
    for (unsigned i = 1; i < 8; i++)
        assert_true(++on[gt_reservations_node(&reservations, gt_cache_cluster(cache), i)] <= 3);
    /* Of the 12 nodes 2 have 4 CPUs left, one 24. */
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "b", .index = i, .gpus = 2, .group = 8, .spec = ASKS("60"));
    assert_int_equal(decide(cache, "ns/Job/b", NULL, &others, &plainly, &text), GT_DECISION_PLACED);
    for (unsigned i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "b-%u", i);
        assert_int_equal(on[gt_cache_find_pod(cache, "ns", name)->planned.node]++, 0);
    }
    /* The CPUs of its place are in use: it is placed elsewhere. */
    uint32_t kept = gt_reservations_node(&reservations, gt_cache_cluster(cache), 7);
    struct gt_cluster_node info;
    assert_true(gt_cluster_get_node(gt_cache_cluster(cache), kept, &info));
    give_pod(cache, POD(.name = "daemon", .node = info.name, .spec = ASKS("60")));
    struct gt_cache_pod *last =
        GIVE(cache, .job = "a", .index = 7, .gpus = 1, .group = 8, .spec = ASKS("18500m"));
    assert_int_equal(decide(cache, "ns/Job/a", owner, &reservations, &plainly, &text), GT_DECISION_PLACED);
    assert_int_not_equal(last->planned.node, kept);
    gt_reservations_done(&others, gt_cache_cluster(cache));
    end(cache, &reservations, owner);
}

/* Whoever waits is not given nodes whose CPUs others than GPU pods have. */
static void test_drain_heeds_cpus(void **state)
{
    (void)state;
    struct gt_cache *cache = new_world();
    struct gt_reservations reservations = {0};
    struct gt_node_set nodes = {0};
    give_all_cpus(cache, 64);
    for (unsigned s = 0; s < SUPERNODES; s++)
        for (unsigned n = 0; n < NODES_EACH; n++) {
            char name[32];
            snprintf(name, sizeof(name), "r%u%u", s, n);
            give_pod(cache, POD(.name = name, .gpus = 8, .node = node_name(s, n), .spec = ASKS("60")));
            give_topology(
                cache, TOPOLOGY(.name = node_name(s, n), .gpus = 8, .owners = {{name, 0xff}}, .version = "2"),
                2);
            snprintf(name, sizeof(name), "d%u%u", s, n);
            if (s < 2)
                give_pod(cache, POD(.name = name, .node = node_name(s, n), .spec = ASKS("2")));
        }
    for (unsigned i = 0; i < 4; i++)
        GIVE(cache, .job = "a", .index = i, .gpus = 8, .group = 32, .spec = ASKS("60"));
    gt_auto_job_view struct gt_job_view *view = view_of(cache, "ns/Job/a", NULL, &reservations, 1);
    assert_true(gt_decide_drain(view, &nodes));
    for (unsigned n = 0; n < NODES_EACH; n++)
        assert_true(gt_node_set_has(&nodes, gt_cluster_find_node(gt_cache_cluster(cache), node_name(2, n))));
    assert_int_equal(gt_node_set_count(&nodes), 4);
    give_pod(cache, POD(.name = "d", .node = "s2-n1", .spec = ASKS("2")));
    assert_false(gt_decide_drain(view, &nodes));
    gt_node_set_done(&nodes);
    end(cache, &reservations, NULL);
}

/* Random jobs of pods that ask for different amounts: no node is ever over its CPUs. */
static void test_no_node_is_overcommitted(void **state)
{
    (void)state;
    enum { JOBS = 6, PODS = 8 };
    uint64_t random = test_seed();
    unsigned placed = 0, waits = 0;
    for (unsigned round = 0; round < 60; round++) {
        struct gt_cache *cache = new_world();
        struct gt_reservations reservations[JOBS] = {0};
        unsigned cpus[SUPERNODES * NODES_EACH], used[SUPERNODES * NODES_EACH] = {0};
        for (unsigned i = 0; i < SUPERNODES * NODES_EACH; i++) {
            cpus[i] = 10 + random_next(&random) % 60;
            give_cpus(cache, i / NODES_EACH, i % NODES_EACH, cpus[i]);
        }
        for (unsigned j = 0; j < JOBS; j++) {
            char job[8], key[32], spec[80], name[16];
            gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
            unsigned gpus = 1u << random_next(&random) % 3, asks[PODS], kinds = 1 + random_next(&random) % 3;
            unsigned of_kind[3];
            for (unsigned k = 0; k < 3; k++)
                of_kind[k] = 1 + random_next(&random) % 20;
            snprintf(job, sizeof(job), "j%u", j);
            for (unsigned i = 0; i < PODS; i++) {
                asks[i] = of_kind[i % kinds];
                snprintf(spec, sizeof(spec), "\"resources\":{\"requests\":{\"cpu\":\"%u\"}},", asks[i]);
                GIVE(cache, .job = job, .index = i, .gpus = gpus, .group = gpus * PODS / 2, .spec = spec);
            }
            snprintf(key, sizeof(key), "ns/Job/%s", job);
            if (decide(cache, key, NULL, &reservations[j], &plainly, &text) != GT_DECISION_PLACED) {
                waits++;
                continue;
            }
            placed++;
            for (unsigned i = 0; i < PODS; i++) {
                struct gt_cluster_node info;
                snprintf(name, sizeof(name), "%s-%u", job, i);
                assert_true(gt_cluster_get_node(gt_cache_cluster(cache),
                                                gt_cache_find_pod(cache, "ns", name)->planned.node, &info));
                unsigned at = (unsigned)(info.name[1] - '0') * NODES_EACH + (unsigned)(info.name[4] - '0');
                used[at] += asks[i];
                assert_true(used[at] <= cpus[at]);
            }
        }
        for (unsigned j = 0; j < JOBS; j++)
            gt_reservations_done(&reservations[j], gt_cache_cluster(cache));
        gt_cache_free(cache);
    }
    assert_true(placed && waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_job_at_its_first_pod),
        cmocka_unit_test(test_job_without_owner),
        cmocka_unit_test(test_rest_is_wanted_until_a_gate_goes),
        cmocka_unit_test(test_too_big_says_why_and_changes_nothing),
        cmocka_unit_test(test_place_of_a_pod_that_left_ends),
        cmocka_unit_test(test_many_places),
        cmocka_unit_test(test_nearness_to_siblings),
        cmocka_unit_test(test_who_is_kept_close),
        cmocka_unit_test(test_a_required_tier_holds_the_job_back),
        cmocka_unit_test(test_places_end),
        cmocka_unit_test(test_reservations_give_way),
        cmocka_unit_test(test_mixed_plans_are_given_up),
        cmocka_unit_test(test_running_pods_bind),
        cmocka_unit_test(test_selector_and_kept_nodes),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_of_what_never_fits),
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_nodes_without_cpus_are_left_out),
        cmocka_unit_test(test_places_take_cpus),
        cmocka_unit_test(test_drain_heeds_cpus),
        cmocka_unit_test(test_no_node_is_overcommitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
