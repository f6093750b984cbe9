/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/cache/audit.h"
#include "tests/unit/cache/cache_world.h"
#include "topology/model/composite.h"

/* The detector: each kind of finding, cases without a finding, and many correct clusters. */

struct scene {
    struct gt_cache *cache;
    struct gt_audit *audit;
    uint64_t now_ms;
    const char *owner_group; /* what the owner of all jobs says */
};

static void add_owner_texts(void *arg, const struct gt_cache_pod *pod, struct gt_job_texts *texts)
{
    const struct scene *scene = arg;
    (void)pod;
    texts->of[GT_KEY_GROUP] = texts->of[GT_KEY_GROUP] ? texts->of[GT_KEY_GROUP] : scene->owner_group;
}

static int new_audit(struct scene *scene)
{
    const struct gt_audit_spec spec = {
        .cache = scene->cache, .add_owner_texts = add_owner_texts, .arg = scene};
    return gt_audit_new(&spec, &scene->audit, NULL);
}

/* Two supernodes "left" and "right" with nodes l0..l3 and r0..r3 of 8 GPUs. */
static int set_up(void **state)
{
    static struct scene scene;
    scene = (struct scene){.cache = new_cache(NULL)};
    for (unsigned i = 0; i < 8; i++)
        give_plain_node(scene.cache, (const char *[]){"l0", "l1", "l2", "l3", "r0", "r1", "r2", "r3"}[i]);
    give_supernode(scene.cache, SUPERNODE(.name = "left", .tier = 1, .members = {"l0", "l1", "l2", "l3"}));
    give_supernode(scene.cache, SUPERNODE(.name = "right", .tier = 1, .members = {"r0", "r1", "r2", "r3"}));
    assert_return_code(new_audit(&scene), 0);
    *state = &scene;
    return 0;
}

/* Node "l0", whose GPUs claims give. */
static int set_up_claims(void **state)
{
    static struct scene scene;
    scene = (struct scene){.cache = new_cache(&(struct gt_cache_spec){.claims = true})};
    give_plain_node(scene.cache, "l0");
    assert_return_code(new_audit(&scene), 0);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    gt_audit_free(scene->audit);
    gt_cache_free(scene->cache);
    return 0;
}

static void go_round(struct scene *scene)
{
    unsigned steps = 0;
    while (!gt_audit_step(scene->audit, 3, scene->now_ms))
        assert_true(++steps < 100000);
}

/* Rounds until what exists counts, and what was deleted is dropped. */
static void settle(struct scene *scene)
{
    go_round(scene);
    scene->now_ms += GT_AUDIT_SETTLE_MS;
    go_round(scene);
}

static void assert_found(struct scene *scene, unsigned torn, unsigned twice, unsigned misplaced)
{
    static const char *const names[] = {"torn", "planned twice", "misplaced", "claimed twice", "unplaced"};
    const unsigned want[] = {torn, twice, misplaced, 0, 0};
    unsigned found[GT_FINDING_KINDS] = {0};
    settle(scene);
    for (struct gt_finding *at = NULL; (at = gt_audit_next(scene->audit, at));)
        found[at->kind]++;
    for (unsigned i = 0; i < GT_FINDING_KINDS; i++) {
        struct gt_finding *first = gt_audit_next(scene->audit, NULL);
        if (found[i] != want[i])
            fail_msg("%u %s, expected %u; %s", found[i], names[i], want[i], first ? first->note : "nothing");
        assert_int_equal(gt_audit_count(scene->audit, (enum gt_finding_kind)i), want[i]);
    }
}

static const char *note(struct scene *scene)
{
    struct gt_finding *found = gt_audit_next(scene->audit, NULL);
    assert_non_null(found);
    return found->note;
}

struct member {
    const char *job, *node, *sizes;
    unsigned rank, unit, gpus;
    uint64_t mask;
    bool deleting;
};

/* A pod "JOB-RANK" that is bound where it is planned. */
static void give_member(struct scene *scene, const struct member *is)
{
    char name[64], annotations[512];
    snprintf(name, sizeof(name), "%s-%u", is->job, is->rank);
    snprintf(annotations, sizeof(annotations),
             "%s\"plan.topology.metax-tech.com/unit\":\"%u\",\"plan.topology.metax-tech.com/rank\":\"%u\",",
             is->sizes, is->unit, is->rank);
    give_pod(scene->cache,
             POD(.name = name, .job = is->job, .gpus = is->gpus, .node = is->node, .plan_node = is->node,
                 .plan_mask = is->mask, .annotations = annotations, .deleting = is->deleting));
}
#define MEMBER(...) (&(struct member){__VA_ARGS__})
#define HARD16      "\"metax-tech.com/gpu-group-size\":\"16\","
#define SOFT32_16   "\"metax-tech.com/gpu-group-size\":\"32\",\"metax-tech.com/atomic-gpu-group-size\":\"16\","

static void test_hard_unit(void **state)
{
    struct scene *scene = *state;
    give_member(scene, MEMBER(.job = "j", .node = "l0", .sizes = HARD16, .rank = 0, .unit = 0, .gpus = 8,
                              .mask = 0xff));
    give_member(scene, MEMBER(.job = "j", .node = "l1", .sizes = HARD16, .rank = 1, .unit = 0, .gpus = 8,
                              .mask = 0xff));
    give_member(scene, MEMBER(.job = "j", .node = "r0", .sizes = HARD16, .rank = 2, .unit = 1, .gpus = 8,
                              .mask = 0xff));
    assert_found(scene, 0, 0, 0);
    give_member(scene, MEMBER(.job = "j", .node = "l2", .sizes = HARD16, .rank = 3, .unit = 1, .gpus = 8,
                              .mask = 0xff));
    assert_found(scene, 1, 0, 0);
    assert_string_equal(note(scene), "unit 1 of job ns/Owned/ReplicaSet/j is in two supernodes: rank 2, pod "
                                     "j-2, on node r0 in right; rank 3, pod j-3, on node l2 in left");
    /* "group": all pods are one unit. */
    for (unsigned i = 0; i < 2; i++)
        give_member(scene, MEMBER(.job = "whole", .node = i ? "l3" : "r1", .rank = i, .gpus = 8, .mask = 0xff,
                                  .sizes = "\"metax-tech.com/gpu-group-size\":\"group\","));
    assert_found(scene, 2, 0, 0);
    gt_cache_pod_deleted(scene->cache, "ns", "whole-1");
    /* That pod is being deleted: its replacement may be elsewhere. */
    give_member(scene, MEMBER(.job = "j", .node = "l2", .sizes = HARD16, .rank = 3, .unit = 1, .gpus = 8,
                              .mask = 0xff, .deleting = true));
    assert_found(scene, 0, 0, 0);
}

/* Not before it has stood for a while, and until two rounds have not seen it. */
static void test_settles(void **state)
{
    struct scene *scene = *state;
    for (unsigned i = 0; i < 2; i++)
        give_member(scene, MEMBER(.job = "j", .node = i ? "l0" : "r0", .sizes = HARD16, .rank = i, .gpus = 8,
                                  .mask = 0xff));
    go_round(scene);
    scene->now_ms += GT_AUDIT_SETTLE_MS - 1;
    go_round(scene);
    assert_null(gt_audit_next(scene->audit, NULL));
    scene->now_ms++;
    go_round(scene);
    struct gt_finding *found = gt_audit_next(scene->audit, NULL);
    assert_string_equal(found->owner_name, "j");
    assert_string_equal(found->owner_uid, "uid-of-j");
    assert_string_equal(gt_finding_kind_name(found->kind), "UnitTorn");
    found->reported = true;
    go_round(scene);
    assert_true(gt_audit_next(scene->audit, NULL)->reported);
    gt_cache_pod_deleted(scene->cache, "ns", "j-1");
    go_round(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNIT_TORN), 1);
    go_round(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNIT_TORN), 0);
}

/* The nodes of a running unit go to other supernodes. */
static void test_supernode_changes(void **state)
{
    struct scene *scene = *state;
    for (unsigned i = 0; i < 2; i++)
        give_member(scene, MEMBER(.job = "j", .node = i ? "l0" : "l1", .sizes = HARD16, .rank = i, .gpus = 8,
                                  .mask = 0xff));
    assert_found(scene, 0, 0, 0);
    give_supernode(scene->cache, SUPERNODE(.name = "left", .tier = 1, .members = {"l1", "l2", "l3"}));
    assert_found(scene, 1, 0, 0);
}

/* A soft unit may be in two supernodes, an atom of it may not. */
static void test_atoms(void **state)
{
    struct scene *scene = *state;
    for (unsigned i = 0; i < 4; i++)
        give_member(scene, MEMBER(.job = "j", .node = (const char *[]){"l0", "l1", "r0", "r1"}[i],
                                  .sizes = SOFT32_16, .rank = 4 + i, .unit = 1, .gpus = 8, .mask = 0xff));
    assert_found(scene, 0, 0, 0);
    give_member(scene, MEMBER(.job = "j", .node = "l2", .sizes = SOFT32_16, .rank = 7, .unit = 1, .gpus = 8,
                              .mask = 0xff));
    assert_found(scene, 1, 0, 0);
    assert_non_null(strstr(note(scene), "an atom of unit 1"));
}

/* Pods without GPUs have ranks too, so a unit may begin with any: nothing is said that is not certain. */
static void test_atoms_of_a_part(void **state)
{
    struct scene *scene = *state;
    give_member(scene,
                MEMBER(.job = "j", .node = "l0", .sizes = SOFT32_16, .rank = 2, .gpus = 8, .mask = 0xff));
    give_member(scene,
                MEMBER(.job = "j", .node = "r0", .sizes = SOFT32_16, .rank = 3, .gpus = 8, .mask = 0xff));
    assert_found(scene, 0, 0, 0); /* ranks 1 and 2 are one atom if a pod without GPUs has rank 0 */
    give_member(scene,
                MEMBER(.job = "j", .node = "l1", .sizes = SOFT32_16, .rank = 1, .gpus = 8, .mask = 0xff));
    give_member(scene,
                MEMBER(.job = "j", .node = "r1", .sizes = SOFT32_16, .rank = 4, .gpus = 8, .mask = 0xff));
    assert_found(scene, 0, 0, 0);
    gt_cache_pod_deleted(scene->cache, "ns", "j-1");
    give_member(scene,
                MEMBER(.job = "j", .node = "l1", .sizes = SOFT32_16, .rank = 0, .gpus = 8, .mask = 0xff));
    gt_cache_pod_deleted(scene->cache, "ns", "j-4");
    assert_found(scene, 1, 0, 0);
}

static void test_double_planned(void **state)
{
    struct scene *scene = *state;
    give_pod(scene->cache, POD(.name = "a", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f, .node = "l0"));
    give_pod(scene->cache, POD(.name = "b", .gpus = 4, .plan_node = "l0", .plan_mask = 0xf0));
    assert_found(scene, 0, 0, 0);
    give_pod(scene->cache, POD(.name = "b", .gpus = 4, .plan_node = "l0", .plan_mask = 0x78));
    assert_found(scene, 0, 1, 0);
    assert_string_equal(note(scene), "GPUs 3 of node l0 are in the plans of two pods, ns/b and ns/a");
    give_pod(scene->cache, POD(.name = "a", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f, .node = "l0",
                               .phase = "Succeeded"));
    assert_found(scene, 0, 0, 0);
}

/* A plan that was given up, and one whose pod has other GPUs, conflict with no other plan. */
static void test_no_claim(void **state)
{
    struct scene *scene = *state;
    cJSON *pod = world_pod(POD(.name = "a", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f));
    cJSON_AddItemToArray(
        cJSON_AddArrayToObject(cJSON_GetObjectItem(pod, "status"), "conditions"),
        cJSON_Parse("{\"type\":\"GPUPlacement\",\"status\":\"False\",\"reason\":\"PlanRefused\"}"));
    give_json_pod(scene->cache, pod);
    cJSON_Delete(pod);
    give_pod(scene->cache, POD(.name = "b", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f));
    give_pod(scene->cache, POD(.name = "c", .gpus = 4, .plan_node = "l1", .plan_mask = 0x0f, .node = "l1"));
    give_topology(scene->cache, TOPOLOGY(.name = "l1", .gpus = 8, .owners = {{"c", 0xf0}}), 1);
    give_pod(scene->cache, POD(.name = "d", .gpus = 4, .plan_node = "l1", .plan_mask = 0x0f));
    assert_found(scene, 0, 0, 1);
}

static void test_misplaced(void **state)
{
    struct scene *scene = *state;
    give_pod(scene->cache, POD(.name = "a", .gpus = 2, .plan_node = "l0", .plan_mask = 0x03, .node = "l0"));
    give_topology(scene->cache, TOPOLOGY(.name = "l0", .gpus = 8, .owners = {{"a", 0x01}}), 1);
    assert_found(scene, 0, 0, 0); /* its other container is still to come */
    give_topology(scene->cache, TOPOLOGY(.name = "l0", .gpus = 8, .owners = {{"a", 0x06}}), 1);
    assert_found(scene, 0, 0, 1);
    assert_string_equal(note(scene), "pod ns/a uses GPUs 1,2 of node l0, its plan is for 0,1");
    give_topology(scene->cache, TOPOLOGY(.name = "l0", .gpus = 8, .owners = {{"a", 0x03}}), 1);
    assert_found(scene, 0, 0, 0);
    give_pod(scene->cache, POD(.name = "b", .gpus = 2, .plan_node = "l0", .plan_mask = 0x0c, .node = "r0"));
    assert_found(scene, 0, 0, 1);
    assert_string_equal(note(scene), "pod ns/b is on node r0, its plan is for node l0");
    give_pod(scene->cache,
             POD(.name = "b", .gpus = 2, .plan_node = "l0", .plan_mask = 0x0c, .node = "strange"));
    assert_found(scene, 0, 0, 1); /* a node without an agent */
}

/* A claim of the pod with the GPUs from..to of node "l0", or with the composite of this name. */
static void give_claim_of(struct scene *scene, const char *pod, unsigned from, unsigned to,
                          const char *composite)
{
    char text[4096];
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(scene->cache), "l0");
    int len = snprintf(text, sizeof(text),
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s-claim\",\"uid\":\"%s-claim\","
                       "\"resourceVersion\":\"1\",\"ownerReferences\":[{\"kind\":\"Pod\",\"name\":\"%s\","
                       "\"uid\":\"%s\",\"controller\":true}]},\"status\":{\"allocation\":{\"devices\":"
                       "{\"results\":[",
                       pod, pod, pod, pod);
    for (unsigned gpu = from; gpu <= to; gpu++)
        len += snprintf(text + len, sizeof(text) - (size_t)len,
                        "%s{\"request\":\"gpus\",\"driver\":\"gpu.metax-tech.com\",\"pool\":\"l0\","
                        "\"device\":\"%s\"}",
                        gpu > from ? "," : "",
                        composite ? composite : gt_cache_device_name(scene->cache, node, gpu));
    snprintf(text + len, sizeof(text) - (size_t)len, "]}}}}");
    cJSON *claim = cJSON_Parse(text);
    assert_non_null(claim);
    gt_cache_claim(scene->cache, claim);
    cJSON_Delete(claim);
}

static void give_claim(struct scene *scene, const char *pod, unsigned from, unsigned to)
{
    give_claim_of(scene, pod, from, to, NULL);
}

/* A composite is all its GPUs. */
static void test_composites(void **state)
{
    struct scene *scene = *state;
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(scene->cache), "l0");
    char zone[GT_DRA_DEVICE_SIZE], pair[2 * GT_DRA_DEVICE_SIZE];
    snprintf(zone, sizeof(zone), "zone-%s-8", gt_cache_device_name(scene->cache, node, 0) + 4);
    snprintf(pair, sizeof(pair), "pair-%s-%s", gt_cache_device_name(scene->cache, node, 0) + 4,
             gt_cache_device_name(scene->cache, node, 7) + 4);
    const struct {
        const char *name;
        uint64_t gpus;
    } composites[] = {{"node-8", 0xff}, {zone, 0xff}, {pair, 0x81}, {"node-7", 0}};
    for (unsigned i = 0; i < GT_COUNT(composites); i++) {
        struct gt_cluster_node info;
        give_claim_of(scene, "a", 0, 0, composites[i].name);
        assert_true(gt_cluster_get_node(gt_cache_cluster(scene->cache), node, &info));
        assert_int_equal(info.free, 0xff & ~composites[i].gpus);
        assert_true(gt_cache_claim_has_gpus(gt_cache_find_claim(scene->cache, "ns", "a-claim"), node,
                                            composites[i].gpus));
    }
    give_claim(scene, "b", 4, 4);
    give_claim_of(scene, "a", 0, 0, zone);
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_DOUBLE_CLAIMED), 1);
}

/* It is about the claim whose pod has to wait; where neither pod has its GPUs yet, always about the same. */
static void test_double_claimed(void **state)
{
    struct scene *scene = *state;
    give_claim(scene, "b", 0, 3);
    give_claim(scene, "a", 4, 7);
    settle(scene);
    assert_null(gt_audit_next(scene->audit, NULL));
    give_claim(scene, "a", 3, 6);
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_DOUBLE_CLAIMED), 1);
    assert_string_equal(gt_audit_next(scene->audit, NULL)->name, "b-claim");
    assert_string_equal(gt_audit_next(scene->audit, NULL)->object, "ResourceClaim");
    assert_string_equal(note(scene),
                        "GPUs 3 of node l0 are in two ResourceClaims, ns/a-claim and ns/b-claim; the pod "
                        "of the second one waits for the other's end");
    give_topology(scene->cache, TOPOLOGY(.name = "l0", .gpus = 8, .owners = {{"b", 0x0f}}), 1);
    give_claim(scene, "b", 0, 3);
    for (unsigned i = 0; i < 3; i++) /* the first one has to be forgotten */
        settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_DOUBLE_CLAIMED), 1);
    assert_string_equal(gt_audit_next(scene->audit, NULL)->name, "a-claim");
    gt_cache_claim_deleted(scene->cache, "ns", "b-claim");
    settle(scene);
    assert_null(gt_audit_next(scene->audit, NULL));
}

/* The planner's own state does not matter: the plan in the object counts. */
static void test_object_counts(void **state)
{
    struct scene *scene = *state;
    give_pod(scene->cache, POD(.name = "a", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f));
    gt_cache_unplan_pod(scene->cache, pod_of(scene->cache, "a"));
    assert_found(scene, 0, 0, 0);
    give_pod(scene->cache, POD(.name = "a", .gpus = 4, .plan_node = "l0", .plan_mask = 0x0f, .node = "l1"));
    assert_found(scene, 0, 0, 1);
    give_pod(scene->cache, POD(.name = "b", .gpus = 4, .gated = true));
    assert_return_code(gt_cache_plan_pod(scene->cache, pod_of(scene->cache, "b"),
                                         gt_cluster_find_node(gt_cache_cluster(scene->cache), "r0"), 0x0f,
                                         NULL),
                       0);
    give_pod(scene->cache, POD(.name = "b", .gpus = 4, .node = "r1"));
    assert_found(scene, 0, 0, 1); /* b has no plan */
}

/* A pod on a node without a plan, whose own template or owner has a group size. */
static void test_unplaced(void **state)
{
    struct scene *scene = *state;
    give_pod(scene->cache, POD(.name = "a", .gpus = 4, .node = "l0"));
    give_pod(scene->cache, POD(.name = "waits", .gpus = 4, .annotations = HARD16));
    give_pod(scene->cache, POD(.name = "gated", .gpus = 4, .annotations = HARD16, .gated = true));
    give_pod(scene->cache,
             POD(.name = "goes", .gpus = 4, .annotations = HARD16, .node = "l1", .deleting = true));
    assert_found(scene, 0, 0, 0);
    give_pod(scene->cache, POD(.name = "own", .gpus = 4, .annotations = HARD16, .node = "l1"));
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNPLACED), 1);
    assert_string_equal(gt_audit_next(scene->audit, NULL)->name, "own");
    assert_string_equal(note(scene),
                        "pod ns/own runs on node l1 without a plan, though its job ns/Pod/own has "
                        "gpu-group-size 16: its units may lie apart. The webhook did not see the pod, or the "
                        "size was set later");
    scene->owner_group = "8";
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNPLACED), 2); /* a, too */
    /* It was placed, and its plan is for a node that is gone: no more a plan, but it has been one. */
    scene->owner_group = NULL;
    give_pod(scene->cache, POD(.name = "own", .gpus = 4, .node = "l1", .plan_node = "gone", .plan_mask = 0x0f,
                               .annotations = HARD16 "\"plan.topology.metax-tech.com/unit\":\"0\","
                                                     "\"plan.topology.metax-tech.com/rank\":\"0\","));
    settle(scene);
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNPLACED), 0);
}

/* The owner's annotation alone: its units are checked as well. */
static void test_owner_units(void **state)
{
    struct scene *scene = *state;
    give_member(scene, MEMBER(.job = "j", .node = "l0", .sizes = "", .rank = 0, .gpus = 8, .mask = 0xff));
    give_member(scene, MEMBER(.job = "j", .node = "r0", .sizes = "", .rank = 1, .gpus = 8, .mask = 0xff));
    assert_found(scene, 0, 0, 0);
    scene->owner_group = "16";
    assert_found(scene, 1, 0, 0);
}

/* More of one kind than are counted hide none of another. */
static void test_many_unplaced(void **state)
{
    struct scene *scene = *state;
    for (unsigned i = 0; i < GT_AUDIT_FINDINGS_MAX + 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "pod%u", i);
        give_pod(scene->cache, POD(.name = name, .gpus = 1, .annotations = HARD16, .node = "l0"));
    }
    give_pod(scene->cache, POD(.name = "b", .gpus = 2, .plan_node = "l0", .plan_mask = 0x0c, .node = "r0"));
    settle(scene);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNPLACED), GT_AUDIT_FINDINGS_MAX);
    assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_MISPLACED), 1);
}

/* ---- many ---- */

static uint64_t dice(uint64_t *seed, uint64_t sides)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % sides;
}

/* Units of one to four pods of a whole node, or of half ones, each in one supernode; some pods are missing,
 * some are not bound, some run. */
static unsigned fill(struct scene *scene, uint64_t *seed)
{
    uint64_t free[8];
    unsigned pods = 0;
    memset(free, 0xff, sizeof(free));
    for (unsigned job = 0; job < 6; job++) {
        unsigned gpus = dice(seed, 2) ? 8 : 4, size = 1 + (unsigned)dice(seed, 4),
                 units = 1 + (unsigned)dice(seed, 3);
        char sizes[128], name[16];
        snprintf(sizes, sizeof(sizes), "\"metax-tech.com/gpu-group-size\":\"%u\",", gpus * size);
        snprintf(name, sizeof(name), "job%u", job);
        for (unsigned rank = 0; rank < size * units; rank++) {
            unsigned side = (unsigned)((job + rank / size) % 2) * 4;
            uint64_t mask = gpus == 8 ? 0xff : dice(seed, 2) ? 0xf0 : 0x0f;
            char node[3] = {side ? 'r' : 'l', (char)('0' + dice(seed, 4)), 0}, pod[32], extra[384];
            unsigned at = side + (unsigned)(node[1] - '0');
            if ((free[at] & mask & 0xff) != mask || !dice(seed, 8))
                continue;
            free[at] &= ~mask;
            snprintf(pod, sizeof(pod), "%s-%u", name, rank);
            snprintf(extra, sizeof(extra),
                     "%s\"plan.topology.metax-tech.com/unit\":\"%u\",\"plan.topology.metax-tech.com/"
                     "rank\":\"%u\",",
                     sizes, rank / size, rank);
            give_pod(scene->cache,
                     POD(.name = pod, .job = name, .gpus = gpus, .plan_node = node, .plan_mask = mask,
                         .node = dice(seed, 4) ? node : NULL, .annotations = extra));
            if (mask == 0xff && pod_of(scene->cache, pod)->node_name && dice(seed, 2))
                give_topology(scene->cache, TOPOLOGY(.name = node, .gpus = 8, .owners = {{pod, mask}}), 1);
            pods++;
        }
    }
    return pods;
}

static void test_random(void **state)
{
    unsigned pods = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t dices = seed * 77;
        set_up(state);
        struct scene *scene = *state;
        pods += fill(scene, &dices);
        assert_found(scene, 0, 0, 0);
        /* One pod more, in the unit of a pod in the other supernode. */
        for (unsigned i = 0; i < 2; i++)
            give_member(scene, MEMBER(.job = "bad", .node = i ? "l0" : "r0", .sizes = HARD16, .rank = i,
                                      .gpus = 1, .mask = 1));
        settle(scene);
        assert_int_equal(gt_audit_count(scene->audit, GT_FINDING_UNIT_TORN), 1);
        tear_down(state);
    }
    assert_true(pods > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hard_unit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_supernode_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_atoms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_atoms_of_a_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_double_planned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_claim, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_misplaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_composites, set_up_claims, tear_down),
        cmocka_unit_test_setup_teardown(test_double_claimed, set_up_claims, tear_down),
        cmocka_unit_test_setup_teardown(test_object_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unplaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_unplaced, set_up, tear_down),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
