/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/part.h"
#include "scheduler-ext/file/cluster_file.h"
#include "scheduler-ext/placement/objects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/model/loss_wirings.h"

/* Jobs that start with less than all of their pods: the minimum or nothing, whole units, more as room comes.
 */

enum { RACKS = 4, RACK_NODES = 2, JOB_PODS = 8, UNIT_PODS = 2 }; /* a rack holds one unit */

struct gang {
    struct gt_cache *cache;
    struct gt_owner *owner;
    struct gt_reservations reservations;
    struct gt_buf text;
};

static void rack_node(char to[static 16], unsigned rack, unsigned node)
{
    snprintf(to, 16, "r%u-n%u", rack, node);
}

static void set_owner(struct gang *gang, uint32_t pods, uint32_t minimum)
{
    static const char object[] =
        "{\"spec\":{\"minAvailable\":%u,\"tasks\":[{\"name\":\"worker\",\"replicas\":%u,\"template\":{"
        "\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"16\"}},\"spec\":{\"containers\":["
        "{\"name\":\"main\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":8}}}]}}}]}}";
    char text[512];
    snprintf(text, sizeof(text), object, minimum, pods);
    cJSON *json = cJSON_Parse(text);
    if (gang->owner)
        gt_owner_free(gang->owner);
    assert_int_equal(gt_owner_read(GT_JOB_VOLCANO, json, "metax-tech.com/gpu", &gang->owner, NULL), 0);
    cJSON_Delete(json);
}

static void gang_begin(struct gang *gang, uint32_t minimum)
{
    *gang = (struct gang){.cache = new_cache(NULL), .text = GT_BUF(1 << 16)};
    for (unsigned r = 0; r < RACKS; r++) {
        char members[RACK_NODES][16], rack[16];
        struct world_supernode super = {.name = rack, .tier = 1};
        snprintf(rack, sizeof(rack), "r%u", r);
        for (unsigned n = 0; n < RACK_NODES; n++) {
            rack_node(members[n], r, n);
            give_plain_node(gang->cache, members[n]);
            super.members[n] = members[n];
        }
        give_supernode(gang->cache, &super);
    }
    set_owner(gang, JOB_PODS, minimum);
}

static void gang_end(struct gang *gang)
{
    gt_reservations_done(&gang->reservations, gt_cache_cluster(gang->cache));
    gt_owner_free(gang->owner);
    gt_cache_free(gang->cache);
    gt_buf_done(&gang->text);
}

/* `used`: GPUs of other jobs. */
static void use_rack(const struct gang *gang, unsigned rack, uint64_t used)
{
    for (unsigned n = 0; n < RACK_NODES; n++) {
        char name[16];
        rack_node(name, rack, n);
        give_topology(gang->cache, TOPOLOGY(.name = name, .gpus = 8, .unnamed = used), 1);
    }
}

static void gang_pod(const struct gang *gang, unsigned index, const char *node)
{
    char name[32], labels[256];
    snprintf(name, sizeof(name), "a-worker-%u", index);
    snprintf(labels, sizeof(labels),
             "\"volcano.sh/job-name\":\"a\",\"volcano.sh/task-spec\":\"worker\",\"volcano.sh/task-index\":"
             "\"%u\"",
             index);
    give_pod(gang->cache, POD(.name = name, .gpus = 8, .gated = !node, .node = node, .labels = labels,
                              .annotations = "\"metax-tech.com/gpu-group-size\":\"16\","));
}

static struct gt_cache_pod *pod_at(const struct gang *gang, unsigned index)
{
    char name[32];
    snprintf(name, sizeof(name), "a-worker-%u", index);
    return gt_cache_find_pod(gang->cache, "ns", name);
}

static struct gt_job_view *gang_view(struct gang *gang)
{
    struct gt_job_view *view = NULL;
    gt_auto_err struct gt_err *err = NULL;
    const struct gt_job_view_spec spec = {
        .owner = gang->owner, .now = 1, .wanted_until = 10, .missing_until = 1000};
    struct gt_cache_job *job = gt_cache_find_job(gang->cache, "ns/VolcanoJob/a");
    assert_non_null(job);
    if (gt_job_view_make(gang->cache, job, &spec, &gang->reservations, &view, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return view;
}

static void expect_same(void *arg, const struct gt_decision_again *again)
{
    unsigned *count = arg;
    assert_string_equal(again->recorded, again->made);
    ++*count;
}

/* What is kept of a decision is the same when it is made again, also where only a part has room. */
static unsigned decide_again(const struct gt_decision_log *log)
{
    unsigned count = 0;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf kept = GT_BUF(1 << 20);
    const struct gt_decision_file file = {expect_same, &count};
    gt_decision_log_write(log, 0, kept.max, &kept);
    if (kept.len && gt_decision_file_run(kept.data, kept.len, "kept", &file, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return count;
}

static enum gt_decision gang_decide(struct gang *gang, uint64_t gpus_max)
{
    struct gt_decision_log *log = NULL;
    assert_return_code(gt_decision_log_new(&log, NULL), 0);
    const struct gt_decide_spec spec = {
        .reserve_until = 1000, .gpus_max = gpus_max, .keep = true, .log = log, .name = "ns/VolcanoJob/a"};
    struct gt_plan_failure failure;
    gt_auto_job_view struct gt_job_view *view = gang_view(gang);
    gt_buf_consume(&gang->text, gang->text.len);
    enum gt_decision decision = gt_decide(view, &spec, &failure, &gang->text);
    check_cache(gang->cache);
    unsigned again = decide_again(log);
    assert_true(again > 0 || decision != GT_DECISION_WAITS);
    gt_decision_log_free(log);
    return decision;
}

static uint32_t home_of(const struct gang *gang, unsigned index)
{
    const struct gt_cache_pod *pod = pod_at(gang, index);
    struct gt_cluster_node info;
    uint32_t node = !pod                                 ? GT_NONE
                    : pod->state >= GT_CACHE_BOUND       ? pod->node
                    : pod->plan == GT_CACHE_PLAN_ASSUMED ? pod->planned.node
                                                         : GT_NONE;
    return gt_cluster_get_node(gt_cache_cluster(gang->cache), node, &info) ? info.supernode : GT_NONE;
}

/* Pods that have a place; none of their units is torn, or has only some of its pods placed. */
static unsigned placed_pods(const struct gang *gang)
{
    unsigned placed = 0;
    for (unsigned i = 0; i < JOB_PODS; i += UNIT_PODS) {
        for (unsigned j = 1; j < UNIT_PODS; j++)
            assert_int_equal(home_of(gang, i), home_of(gang, i + j));
        placed += home_of(gang, i) == GT_NONE ? 0 : UNIT_PODS;
    }
    return placed;
}

static void all_pods(const struct gang *gang)
{
    for (unsigned i = 0; i < JOB_PODS; i++)
        gang_pod(gang, i, NULL);
}

static unsigned callocs_left; /* 0: none fails */

void *__wrap_calloc(size_t count, size_t size); /* NOLINT(bugprone-reserved-identifier) */
void *__real_calloc(size_t count, size_t size); /* NOLINT(bugprone-reserved-identifier) */

void *__wrap_calloc(size_t count, size_t size)
{
    return callocs_left && !--callocs_left ? NULL : __real_calloc(count, size);
}

/* A job never waits for room because memory was lacking. */
static void test_no_memory(void **state)
{
    (void)state;
    enum gt_decision decision = GT_DECISION_WAITS;
    unsigned failed = 0;
    for (unsigned at = 1; decision != GT_DECISION_PLACED; at++) {
        struct gang gang;
        gang_begin(&gang, 4);
        all_pods(&gang);
        const struct gt_decide_spec spec = {.reserve_until = 1000, .keep = true};
        struct gt_plan_failure failure;
        struct gt_job_view *view = gang_view(&gang);
        callocs_left = at;
        decision = gt_decide(view, &spec, &failure, &gang.text);
        callocs_left = 0;
        assert_int_not_equal(decision, GT_DECISION_WAITS);
        failed += decision == GT_DECISION_FAILED;
        gt_job_view_free(view);
        gang_end(&gang);
    }
    assert_true(failed > 2);
}

static void test_minimum_or_nothing(void **state)
{
    (void)state;
    struct gang gang;
    gang_begin(&gang, 4);
    for (unsigned r = 1; r < RACKS; r++)
        use_rack(&gang, r, 1);
    all_pods(&gang);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_WAITS);
    assert_int_equal(placed_pods(&gang), 0);
    /* what it could begin without was left out, and counts neither as needed nor as placed */
    assert_non_null(strstr(gang.text.data, "2 units of 16 GPUs needed, supernodes can hold 1;"));
    assert_non_null(strstr(gang.text.data, "32 GPUs are needed in all, the cluster has 16"));
    assert_non_null(strstr(gang.text.data, "; 4 of its 8 pods are enough to begin"));
    use_rack(&gang, 2, 0);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_PLACED);
    assert_int_equal(placed_pods(&gang), 4);
    assert_true(home_of(&gang, 0) != GT_NONE && home_of(&gang, 2) != GT_NONE); /* the lowest ranks */
    assert_null(strstr(gang.text.data, "unit 2"));
    gt_auto_job_view struct gt_job_view *view = gang_view(&gang);
    assert_true(gt_part_suffices(view));
    assert_true(gt_part_grows(view));
    assert_int_equal(gt_part_units(view), 2);
    assert_int_equal(gt_part_least_gpus(view), 16);
    gang_end(&gang);
}

static void test_more_as_room_comes(void **state)
{
    (void)state;
    struct gang gang;
    gang_begin(&gang, 3); /* two units */
    use_rack(&gang, 0, 1);
    use_rack(&gang, 1, 1);
    all_pods(&gang);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_PLACED);
    assert_int_equal(placed_pods(&gang), 4);
    uint32_t homes[] = {home_of(&gang, 0), home_of(&gang, 2)};
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_WAITS); /* and nothing is given up for it */
    assert_int_equal(placed_pods(&gang), 4);
    assert_null(strstr(gang.text.data, "enough"));
    use_rack(&gang, 1, 0);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_PLACED);
    assert_int_equal(placed_pods(&gang), 6);
    use_rack(&gang, 0, 0);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_PLACED);
    assert_int_equal(placed_pods(&gang), 8);
    assert_int_equal(homes[0], home_of(&gang, 0));
    assert_int_equal(homes[1], home_of(&gang, 2));
    gang_end(&gang);
}

/* No more than its queue has room for. */
static void test_limit(void **state)
{
    (void)state;
    struct gang gang;
    gang_begin(&gang, 2);
    all_pods(&gang);
    assert_int_equal(gang_decide(&gang, 40), GT_DECISION_PLACED);
    assert_int_equal(placed_pods(&gang), 4);
    gang_end(&gang);
}

/* A unit that lacks a pod and finds no room for it keeps no other unit from running. */
static void test_stuck_unit(void **state)
{
    (void)state;
    struct gang gang;
    gang_begin(&gang, 2);
    gang_pod(&gang, 0, "r0-n0");
    gang_pod(&gang, 1, NULL);
    gang_pod(&gang, 2, "r1-n0");
    gang_pod(&gang, 3, "r1-n1");
    gang_pod(&gang, 4, NULL);
    gang_pod(&gang, 5, NULL);
    give_topology(gang.cache, TOPOLOGY(.name = "r0-n1", .gpus = 8, .unnamed = 1), 1);
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_PLACED);
    assert_int_equal(home_of(&gang, 1), GT_NONE);
    assert_true(home_of(&gang, 4) != GT_NONE);
    assert_int_equal(home_of(&gang, 4), home_of(&gang, 5));
    assert_int_equal(gang_decide(&gang, 0), GT_DECISION_WAITS);
    assert_non_null(strstr(gang.text.data, "r0"));
    gt_auto_job_view struct gt_job_view *view = gang_view(&gang);
    assert_false(gt_part_grows(view));
    gang_end(&gang);
}

/* What has to run for it to begin, and not all of it. */
static void test_drain_for_the_minimum(void **state)
{
    (void)state;
    struct gang gang;
    struct gt_node_set set = {0};
    gang_begin(&gang, 4);
    for (unsigned r = 0; r < RACKS; r++)
        use_rack(&gang, r, 1);
    all_pods(&gang);
    gt_auto_job_view struct gt_job_view *view = gang_view(&gang);
    assert_true(gt_decide_drain(view, &set));
    assert_int_equal(gt_node_set_count(&set), 4);
    gt_node_set_done(&set);
    gang_end(&gang);
}

/* GPUs become free and are used, pods run, end and are created again: a job has nothing or its minimum, and
 * no unit is divided. */
static void test_random_gangs(void **state)
{
    (void)state;
    unsigned seed = (unsigned)test_seed(), began = 0, grew = 0;
    for (unsigned run = 0; run < 60; run++) {
        struct gang gang;
        uint32_t minimum = 1 + run % JOB_PODS;
        gang_begin(&gang, minimum);
        all_pods(&gang);
        for (unsigned step = 0; step < 40; step++) {
            seed = seed * 1103515245 + 12345;
            unsigned rack = (seed >> 16) % RACKS, before = placed_pods(&gang);
            bool taken = false;
            for (unsigned i = 0; i < JOB_PODS; i++)
                taken = taken || home_of(&gang, i) ==
                                     gt_cluster_find_supernode(gt_cache_cluster(gang.cache),
                                                               (char[]){'r', (char)('0' + rack), '\0'});
            if (!taken)
                use_rack(&gang, rack, seed >> 20 & 1);
            gang_decide(&gang, 0);
            unsigned now = placed_pods(&gang);
            assert_true(now >= before);
            assert_true(!now || now >= minimum);
            began += !before && now;
            grew += before && now > before;
        }
        gang_end(&gang);
    }
    assert_true(began > 20 && grew > 2);
}

/* A pod of one job that runs and was planned where it is. */
static void running_pod_at(const struct gang *gang, unsigned index, const char *node, bool deleting)
{
    char name[32], labels[256];
    snprintf(name, sizeof(name), "a-worker-%u", index);
    snprintf(labels, sizeof(labels),
             "\"volcano.sh/job-name\":\"a\",\"volcano.sh/task-spec\":\"worker\",\"volcano.sh/task-index\":"
             "\"%u\"",
             index);
    give_pod(gang->cache, POD(.name = name, .gpus = 8, .node = node, .plan_node = node, .plan_mask = 0xff,
                              .deleting = deleting, .labels = labels,
                              .annotations = "\"metax-tech.com/gpu-group-size\":\"16\","));
}

static void running_pod(const struct gang *gang, unsigned index, bool deleting)
{
    char node[16];
    rack_node(node, index / RACK_NODES, index % RACK_NODES);
    running_pod_at(gang, index, node, deleting);
}

/* As the controller makes it while pods move: what is kept is kept for long, seen from now. */
static struct gt_job_view *moving_view(struct gang *gang, uint64_t now)
{
    struct gt_job_view *view = NULL;
    const struct gt_job_view_spec spec = {.owner = gang->owner,
                                          .now = now,
                                          .wanted_until = now + 30,
                                          .leave_before_s = 1000000000000,
                                          .moving_until = now + 120};
    struct gt_cache_job *job = gt_cache_find_job(gang->cache, "ns/VolcanoJob/a");
    assert_int_equal(gt_job_view_make(gang->cache, job, &spec, &gang->reservations, &view, NULL), 0);
    return view;
}

static enum gt_member_state moving_state(struct gang *gang, uint64_t now, unsigned index)
{
    gt_auto_job_view struct gt_job_view *view = moving_view(gang, now);
    return view->members[index].state;
}

/* Pods that the GPUPlacement names. */
static uint32_t named_pods(struct gang *gang, uint64_t now)
{
    gt_auto_job_view struct gt_job_view *view = moving_view(gang, now);
    auto_placement_content struct placement_content content = {0};
    const struct gt_cache_job *job = gt_cache_find_job(gang->cache, "ns/VolcanoJob/a");
    assert_int_equal(gt_placement_content_make(job, view, gang->owner, &content, NULL), 0);
    return content.object.pod_count;
}

/* Of a job all of which begins again, a pod goes for the sake of others: it gets its place again however long
 * it takes to end. */
static void test_place_of_a_pod_that_moves_with_its_job(void **state)
{
    (void)state;
    struct gang gang;
    gang_begin(&gang, 8);
    for (unsigned i = 0; i < JOB_PODS; i++)
        running_pod(&gang, i, false);
    assert_int_equal(moving_state(&gang, 1, 7), GT_MEMBER_PLACED);
    gt_reservations_set_moving(&gang.reservations, 7);
    assert_int_equal(moving_state(&gang, 2, 7), GT_MEMBER_MOVING);
    running_pod(&gang, 7, true);
    assert_int_equal(moving_state(&gang, 3, 7), GT_MEMBER_ABSENT);
    assert_int_equal(moving_state(&gang, 100, 7), GT_MEMBER_ABSENT); /* it is ending still */
    gt_cache_pod_deleted(gang.cache, "ns", "a-worker-7");
    assert_int_equal(moving_state(&gang, 101, 7), GT_MEMBER_RESERVED);
    assert_int_equal(moving_state(&gang, 200, 7), GT_MEMBER_RESERVED);
    assert_int_equal(named_pods(&gang, 200), 8);
    gang_pod(&gang, 7, NULL); /* until it has its plan, too, for another leader */
    assert_int_equal(moving_state(&gang, 201, 7), GT_MEMBER_TO_PLACE);
    assert_int_equal(named_pods(&gang, 201), 8);
    gang_end(&gang);
}

/* Where two units are, and which racks somebody else uses. */
struct moves {
    struct gang gang;
    unsigned rack_of[2];
    bool used[RACKS];
    unsigned moved, waited;
};

static bool is_free_rack(const struct moves *moves, unsigned rack)
{
    return !moves->used[rack] && moves->rack_of[0] != rack && moves->rack_of[1] != rack;
}

/* The pods of the unit leave, and those after them come to the places that were reserved. */
static void finish_move(struct moves *moves, unsigned unit)
{
    struct gang *gang = &moves->gang;
    char name[32], rack[16];
    for (unsigned i = unit * UNIT_PODS; i < (unit + 1) * UNIT_PODS; i++) {
        assert_int_equal(moving_state(gang, 2, i), GT_MEMBER_MOVING);
        snprintf(name, sizeof(name), "a-worker-%u", i);
        gt_cache_pod_deleted(gang->cache, "ns", name);
        assert_int_equal(moving_state(gang, 2, i), GT_MEMBER_RESERVED);
    }
    for (unsigned i = unit * UNIT_PODS; i < (unit + 1) * UNIT_PODS; i++)
        gang_pod(gang, i, NULL);
    assert_int_equal(gang_decide(gang, 0), GT_DECISION_PLACED);
    uint32_t home = home_of(gang, unit * UNIT_PODS);
    assert_int_equal(home, home_of(gang, unit * UNIT_PODS + 1));
    for (unsigned r = 0; r < RACKS; r++) {
        snprintf(rack, sizeof(rack), "r%u", r);
        if (gt_cluster_find_supernode(gt_cache_cluster(gang->cache), rack) == home) {
            assert_true(is_free_rack(moves, r));
            moves->rack_of[unit] = r;
        }
    }
    for (unsigned i = unit * UNIT_PODS; i < (unit + 1) * UNIT_PODS; i++) {
        char node[16];
        rack_node(node, moves->rack_of[unit], i % RACK_NODES);
        running_pod_at(gang, i, node, false);
    }
}

/* `avoid`, `leave`: as of gt_decide_spec. */
static enum gt_decision move_unit(struct gang *gang, unsigned unit, const bool *leaves,
                                  const struct gt_node_set *avoid, const struct gt_node_set *leave)
{
    const struct gt_decide_spec spec = {
        .reserve_until = 1000, .avoid = avoid, .avoid_for = "ns/Job/b", .last_resort = leave};
    struct gt_plan_failure failure;
    gt_auto_job_view struct gt_job_view *view = moving_view(gang, 1);
    gt_buf_consume(&gang->text, gang->text.len);
    enum gt_decision decision =
        gt_decide_move(view, unit * UNIT_PODS, (unit + 1) * UNIT_PODS, leaves, &spec, &failure, &gang->text);
    check_cache(gang->cache);
    return decision;
}

/* A unit moves where a rack is free, and only there; where none is, nothing is kept. */
static void test_random_moves(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    struct moves moves = {.rack_of = {0, 1}};
    struct gang *gang = &moves.gang;
    gang_begin(gang, 2);
    for (unsigned i = 0; i < 2 * UNIT_PODS; i++)
        running_pod(gang, i, false);
    for (unsigned step = 0; step < 400; step++) {
        unsigned unit = random_next(&random) % 2, rack = random_next(&random) % RACKS, free = 0;
        unsigned first = unit * UNIT_PODS;
        bool leaves[JOB_PODS] = {0}, all;
        if (moves.rack_of[0] != rack && moves.rack_of[1] != rack) {
            moves.used[rack] = random_next(&random) % 2;
            use_rack(gang, rack, moves.used[rack]);
        }
        for (unsigned r = 0; r < RACKS; r++)
            free += is_free_rack(&moves, r);
        all = random_next(&random) % 2;
        leaves[first + random_next(&random) % 2] = true;
        enum gt_decision decision = move_unit(gang, unit, all ? NULL : leaves, NULL, NULL);
        assert_int_equal(decision, all && free ? GT_DECISION_PLACED : GT_DECISION_WAITS);
        if (decision == GT_DECISION_PLACED)
            finish_move(&moves, unit);
        moves.moved += decision == GT_DECISION_PLACED;
        moves.waited += decision != GT_DECISION_PLACED;
        gt_job_view_free(moving_view(gang, 3));
        assert_int_equal(gt_reservations_gpus(&gang->reservations), 0);
    }
    assert_true(moves.moved > 20 && moves.waited > 20);
    gang_end(gang);
}

/* The rack that is reserved for the pods of a unit. */
static unsigned kept_rack(const struct gang *gang, unsigned unit)
{
    const struct gt_cluster *cluster = gt_cache_cluster(gang->cache);
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;
    uint32_t at = gt_reservations_node(&gang->reservations, cluster, unit * UNIT_PODS);
    assert_true(gt_cluster_get_node(cluster, at, &node));
    assert_true(gt_cluster_get_supernode(cluster, node.supernode, &super));
    return (unsigned)(super.name[1] - '0');
}

static void add_rack(const struct gang *gang, unsigned rack, struct gt_node_set *to)
{
    for (unsigned n = 0; n < RACK_NODES; n++) {
        char name[16];
        rack_node(name, rack, n);
        uint32_t node = gt_cluster_find_node(gt_cache_cluster(gang->cache), name);
        assert_int_equal(gt_node_set_add(to, node, NULL), 0);
    }
}

/* Nodes that others are to use are left to them where others serve, and kept ones altogether. */
static void test_a_move_leaves_the_nodes_of_others(void **state)
{
    (void)state;
    for (unsigned rack = 2; rack < RACKS; rack++) {
        struct gang gang;
        struct gt_node_set set = {0};
        gang_begin(&gang, 2);
        for (unsigned i = 0; i < 2 * UNIT_PODS; i++)
            running_pod(&gang, i, false);
        add_rack(&gang, rack, &set);
        assert_int_equal(move_unit(&gang, 0, NULL, NULL, &set), GT_DECISION_PLACED);
        assert_int_equal(kept_rack(&gang, 0), rack == 2 ? 3 : 2);
        gt_reservations_release(&gang.reservations, gt_cache_cluster(gang.cache), 0);
        gt_reservations_release(&gang.reservations, gt_cache_cluster(gang.cache), 1);
        use_rack(&gang, rack == 2 ? 3 : 2, 1);
        assert_int_equal(move_unit(&gang, 0, NULL, &set, NULL), GT_DECISION_WAITS);
        assert_non_null(strstr(gang.text.data, "16 free GPUs on 2 nodes are reserved by ns/Job/b"));
        assert_int_equal(move_unit(&gang, 0, NULL, NULL, &set), GT_DECISION_PLACED);
        assert_int_equal(kept_rack(&gang, 0), rack);
        gt_node_set_done(&set);
        gang_end(&gang);
    }
}

/* A job gets another size while a unit moves: what is reserved for the pods after those that were evicted
 * stays.
 */
static void test_another_size_while_a_unit_moves(void **state)
{
    (void)state;
    static const unsigned sizes[] = {6, 8, 4, 8};
    struct gang gang;
    gang_begin(&gang, 2);
    for (unsigned i = 0; i < 2 * UNIT_PODS; i++)
        running_pod(&gang, i, false);
    assert_int_equal(move_unit(&gang, 0, NULL, NULL, NULL), GT_DECISION_PLACED);
    unsigned rack = kept_rack(&gang, 0);
    gt_cache_pod_deleted(gang.cache, "ns", "a-worker-0");
    for (unsigned i = 0; i < GT_COUNT(sizes); i++) {
        set_owner(&gang, sizes[i], 2);
        assert_int_equal(moving_state(&gang, 2, 0), GT_MEMBER_RESERVED);
        assert_int_equal(moving_state(&gang, 2, 1), GT_MEMBER_MOVING);
        assert_int_equal(kept_rack(&gang, 0), rack);
        assert_int_equal(gt_reservations_gpus(&gang.reservations), 16);
    }
    gang_end(&gang);
}

/* One place after the other for the same member: nothing is kept twice. */
static void test_another_place_is_instead_of_the_first(void **state)
{
    (void)state;
    struct gang gang;
    struct gt_cluster_node first, second;
    gang_begin(&gang, 8);
    struct gt_cluster *cluster = gt_cache_cluster(gang.cache);
    uint32_t nodes[] = {gt_cluster_find_node(cluster, "r0-n0"), gt_cluster_find_node(cluster, "r1-n0")};
    struct gt_reservations reservations = {.owner = 7};
    assert_int_equal(gt_reservations_resize(&reservations, cluster, 1, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        gt_reservations_reserve(&reservations, cluster, 0, &(struct gt_promise){.place = {nodes[i], 0xff}},
                                1000);
        gt_reservations_sync(&reservations, cluster, 1);
    }
    assert_int_equal(gt_reservations_gpus(&reservations), 8);
    assert_true(gt_cluster_get_node(cluster, nodes[0], &first));
    assert_true(gt_cluster_get_node(cluster, nodes[1], &second));
    assert_int_equal(first.assumed, 0);
    assert_int_equal(second.assumed, 0xff);
    gt_reservations_done(&reservations, cluster);
    gang_end(&gang);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_minimum_or_nothing),
        cmocka_unit_test(test_more_as_room_comes),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stuck_unit),
        cmocka_unit_test(test_drain_for_the_minimum),
        cmocka_unit_test(test_random_gangs),
        cmocka_unit_test(test_random_moves),
        cmocka_unit_test(test_a_move_leaves_the_nodes_of_others),
        cmocka_unit_test(test_another_size_while_a_unit_moves),
        cmocka_unit_test(test_another_place_is_instead_of_the_first),
        cmocka_unit_test(test_place_of_a_pod_that_moves_with_its_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
