/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/volcano/volcano.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cache/cache_world.h"

/* The plugins in Volcano's scheduler, as its adapter uses them: objects in, sessions, answers. */

enum { RACKS = 3, NODES_EACH = 4, NODES = RACKS * NODES_EACH, TASKS_MAX = 32, TEXT_MAX = 4096 };

static char error[GT_VOLCANO_TEXT_SIZE];

/* ---- objects ---- */

static unsigned number_of(const char *plural)
{
    const struct gt_volcano_resource *resource;
    for (unsigned i = 0; (resource = gt_volcano_resource(i)); i++)
        if (strcmp(resource->plural, plural) == 0)
            return i;
    fail_msg("nobody asks for %s", plural);
    return 0;
}

static void put(struct gt_volcano *volcano, const char *plural, cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    if (gt_volcano_put(volcano, number_of(plural), text, strlen(text), error) < 0)
        fail_msg("%s: %s", plural, error);
    cJSON_free(text);
    cJSON_Delete(object);
}

static const char *node_name(unsigned node)
{
    static char names[NODES][16];
    snprintf(names[node], sizeof(names[0]), "r%u-n%u", node / NODES_EACH, node % NODES_EACH);
    return names[node];
}

static void put_node(struct gt_volcano *volcano, unsigned node, uint64_t taken)
{
    struct world_topology topology = {.name = node_name(node), .gpus = 8, .unnamed = taken};
    put(volcano, "nodes", world_node(NODE(.name = node_name(node))));
    put(volcano, "nodegputopologies", world_topology(&topology));
}

static struct gt_volcano *new_world(void)
{
    struct gt_volcano *volcano = NULL;
    assert_int_equal(gt_volcano_new(&volcano, error), 0);
    for (unsigned rack = 0; rack < RACKS; rack++) {
        char name[16];
        struct world_supernode supernode = {.name = name, .tier = 1};
        snprintf(name, sizeof(name), "rack-%u", rack);
        for (unsigned n = 0; n < NODES_EACH; n++) {
            put_node(volcano, rack * NODES_EACH + n, 0);
            supernode.members[n] = node_name(rack * NODES_EACH + n);
        }
        put(volcano, "supernodes", world_supernode(&supernode));
    }
    return volcano;
}

struct pod {
    const char *job;
    unsigned index, gpus;
    const char *group; /* its annotation; NULL: none */
    unsigned node;     /* as number + 1; 0: it waits */
    bool gated, deleting;
    const char *plan_node;
    int priority;
};

static void put_pod(struct gt_volcano *volcano, const struct pod *pod)
{
    char name[32], labels[256], annotations[128] = "", spec[32];
    snprintf(name, sizeof(name), "%s-%u", pod->job, pod->index);
    snprintf(labels, sizeof(labels),
             "\"batch.kubernetes.io/job-name\":\"%s\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
             pod->job, pod->index);
    if (pod->group)
        snprintf(annotations, sizeof(annotations), "\"metax-tech.com/gpu-group-size\":\"%s\",", pod->group);
    snprintf(spec, sizeof(spec), "\"priority\":%d,", pod->priority);
    put(volcano, "pods",
        world_pod(POD(.name = name, .spec = spec, .gpus = pod->gpus, .gated = pod->gated,
                      .deleting = pod->deleting, .labels = labels, .annotations = annotations,
                      .node = pod->node ? node_name(pod->node - 1) : NULL, .plan_node = pod->plan_node,
                      .plan_mask = pod->plan_node ? 0xff : 0)));
}
#define PUT_POD(volcano, ...) put_pod(volcano, &(struct pod){__VA_ARGS__})

static void put_job(struct gt_volcano *volcano, const char *job, unsigned pods, unsigned gpus,
                    const char *group)
{
    for (unsigned i = 0; i < pods; i++)
        PUT_POD(volcano, .job = job, .index = i, .gpus = gpus, .group = group);
}

/* ---- sessions ---- */

struct session {
    char texts[TEXT_MAX];
    size_t size;
    uint32_t nodes[NODES];
    struct gt_volcano_group groups[6];
    struct gt_volcano_task tasks[TASKS_MAX];
    uint32_t group_count, task_count;
};

static uint32_t add_text(struct session *session, const char *text)
{
    uint32_t at = (uint32_t)session->size;
    assert_true(session->size + strlen(text) + 1 <= sizeof(session->texts));
    memcpy(session->texts + at, text, strlen(text) + 1);
    session->size += strlen(text) + 1;
    return at;
}

static void begin(struct session *session)
{
    *session = (struct session){0};
    for (unsigned n = 0; n < NODES; n++)
        session->nodes[n] = add_text(session, node_name(n));
}

/* A PodGroup of pods JOB-0, JOB-1...; `nodes` NULL: all wait. Returns the number of its first task. */
static uint32_t add_group(struct session *session, const char *job, unsigned pods, unsigned minimum,
                          const uint32_t *nodes)
{
    uint32_t first = session->task_count, group = session->group_count++;
    session->groups[group] = (struct gt_volcano_group){add_text(session, job), minimum};
    for (unsigned i = 0; i < pods; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s-%u", job, i);
        uint32_t at = add_text(session, "ns");
        add_text(session, name);
        add_text(session, name);
        session->tasks[session->task_count++] =
            (struct gt_volcano_task){at, group, nodes ? nodes[i] : GT_VOLCANO_NO_NODE, 0};
    }
    return first;
}

static void open_session(struct gt_volcano *volcano, const struct session *session)
{
    if (gt_volcano_open(volcano, session->texts, session->size, session->nodes, NODES, session->groups,
                        session->group_count, session->tasks, session->task_count, error) < 0)
        fail_msg("%s", error);
}

static uint32_t place(struct gt_volcano *volcano, uint32_t task)
{
    uint32_t node = GT_VOLCANO_NO_NODE;
    int r = gt_volcano_place(volcano, task, &node, error);
    if (r != 1)
        fail_msg("task %u: %d, %s", task, r, r < 0 ? error : "");
    assert_true(node < NODES);
    return node;
}

/* Every run of `pods` tasks lies in one rack, and no node has more than its GPUs. */
static void check_units(const uint32_t *nodes, unsigned count, unsigned pods, unsigned gpus)
{
    unsigned used[NODES] = {0};
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(nodes[i] / NODES_EACH, nodes[i / pods * pods] / NODES_EACH);
        used[nodes[i]] += gpus;
        assert_true(used[nodes[i]] <= 8);
    }
}

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
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 3, scores, error), 0);
    assert_true(scores[1] > scores[0] && scores[0] > 0);
    assert_true(scores[2] == 0);
    /* What the session has given away counts. */
    gt_volcano_allocated(volcano, task, 1);
    assert_int_equal(gt_volcano_score_nodes(volcano, task + 1, nodes, 3, scores, error), 0);
    assert_true(scores[1] == 0 && scores[0] > 0);
    gt_volcano_deallocated(volcano, task);
    assert_int_equal(gt_volcano_score_nodes(volcano, task + 1, nodes, 3, scores, error), 0);
    assert_true(scores[1] > scores[0]);
    gt_volcano_free(volcano);
}

static int set_arguments(struct gt_volcano *volcano, const char *json)
{
    return gt_volcano_set_arguments(volcano, json, strlen(json), error);
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
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, before, error), 0);
    assert_int_equal(set_arguments(volcano, "{\"weight\":2}"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, after, error), 0);
    assert_true(after[0] > 1.9 * before[0] && after[0] < 2.1 * before[0]);
    assert_true(after[0] <= 200);
    static const struct {
        const char *arguments, *sentence;
    } bad[] = {{"{\"loss.weight\":-1}", "loss.weight: -1, expected a number of 0 or more"},
               {"{\"weight\":1e999}", "arguments: line 1, column 11: number 1e999 is too large"},
               {"{\"score.weight\":\"much\"}", "argument score.weight: expected a number, got \"much\""},
               {"{\"weight\":null}", "argument weight: expected a number, got null"}};
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        assert_int_equal(set_arguments(volcano, bad[i].arguments), -EINVAL);
        assert_string_equal(error, bad[i].sentence);
    }
    assert_true(set_arguments(volcano, "{") < 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, error), 0);
    assert_true(again[0] == after[0]);
    assert_int_equal(set_arguments(volcano, "{\"other\":0,\"score.weight\":0,\"loss.weight\":0}"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, error), 0);
    assert_true(again[0] != before[0]);
    assert_int_equal(set_arguments(volcano, "null"), 0);
    assert_int_equal(gt_volcano_score_nodes(volcano, task, nodes, 2, again, error), 0);
    assert_true(again[0] == before[0]);
    gt_volcano_free(volcano);
}

/* ---- gpu-podaffinity ---- */

static void place_all(struct gt_volcano *volcano, uint32_t first, unsigned count, uint32_t *ret)
{
    for (unsigned i = 0; i < count; i++) {
        ret[i] = place(volcano, first + i);
        gt_volcano_allocated(volcano, first + i, ret[i]);
    }
}

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
        assert_int_equal(gt_volcano_check(volcano, first + i, &rank, error), 1);
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
    assert_int_equal(gt_volcano_place(volcano, big, &node, error), -EAGAIN);
    assert_non_null(strstr(error, "2 units of 32 GPUs needed"));
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
    assert_int_equal(gt_volcano_place(volcano, one, &node, error), -EAGAIN);
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
    assert_int_equal(gt_volcano_place(volcano, lone, &node, error), 0);
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
    assert_int_equal(gt_volcano_check(volcano, first, &rank, error), 1);
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
        assert_int_equal(gt_volcano_check(volcano, task, &rank, error), -EINVAL);
        assert_string_equal(error, cases[i].sentence);
        assert_int_equal(gt_volcano_place(volcano, task, &node, error), -EINVAL);
        assert_string_equal(error, cases[i].sentence);
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
    assert_int_equal(gt_volcano_place(volcano, late + 1, &node, error), -EAGAIN);
    assert_non_null(strstr(error, "gputopo-scheduler places this job"));
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
    assert_int_equal(gt_volcano_place(volcano, first + 4, &node, error), -EAGAIN);
    gt_volcano_free(volcano);
}

/* ---- preempt and reclaim ---- */

/* A node whose GPUs are all used by that pod; NULL: they are free. */
static void put_user(struct gt_volcano *volcano, unsigned node, const char *pod)
{
    struct world_topology topology = {.name = node_name(node), .gpus = 8};
    if (pod)
        topology.owners[0] = (struct world_owner){pod, 0xff};
    put(volcano, "nodegputopologies", world_topology(&topology));
}

/* Each rack is full of a job of four pods, "low0" to "low2"; "high" waits for a rack. */
static struct gt_volcano *full_world(void)
{
    struct gt_volcano *volcano = new_world();
    for (unsigned n = 0; n < NODES; n++) {
        char job[8], pod[16];
        snprintf(job, sizeof(job), "low%u", n / NODES_EACH);
        snprintf(pod, sizeof(pod), "%s-%u", job, n % NODES_EACH);
        PUT_POD(volcano, .job = job, .index = n % NODES_EACH, .gpus = 8, .node = n + 1);
        put_user(volcano, n, pod);
    }
    put_job(volcano, "high", 4, 8, "32");
    return volcano;
}

/* What leaves has a bit in `leaves` by its node, what is gone one in `gone`. Returns the first task of high;
 * task n is that on node n. */
static uint32_t open_full(struct gt_volcano *volcano, struct session *session, unsigned leaves)
{
    begin(session);
    for (unsigned rack = 0; rack < RACKS; rack++) {
        char job[8];
        uint32_t nodes[NODES_EACH];
        snprintf(job, sizeof(job), "low%u", rack);
        for (unsigned n = 0; n < NODES_EACH; n++)
            nodes[n] = rack * NODES_EACH + n;
        add_group(session, job, NODES_EACH, NODES_EACH, nodes);
    }
    for (unsigned n = 0; n < NODES; n++)
        session->tasks[n].leaves = leaves >> n & 1;
    uint32_t high = add_group(session, "high", 4, 4, NULL);
    open_session(volcano, session);
    return high;
}

/* `ret`: by task, as the steps say. */
static int make_room(struct gt_volcano *volcano, uint32_t task, unsigned may_go, uint32_t *ret)
{
    struct gt_volcano_step steps[TASKS_MAX];
    uint8_t go[TASKS_MAX] = {0}, use[NODES];
    memset(use, 1, sizeof(use));
    for (unsigned n = 0; n < NODES; n++)
        go[n] = may_go >> n & 1;
    int r = gt_volcano_make_room(volcano, task, go, use, 0, steps, error);
    for (unsigned i = 0; r >= 0 && i < TASKS_MAX; i++)
        ret[i] = GT_VOLCANO_NO_NODE;
    for (int i = 0; i < r; i++) {
        assert_int_equal(ret[steps[i].task], GT_VOLCANO_NO_NODE);
        ret[steps[i].task] = steps[i].node;
        if (steps[i].node != GT_VOLCANO_GOES) /* who was there has gone by then; task n was on node n */
            assert_int_equal(ret[steps[i].node], GT_VOLCANO_GOES);
    }
    return r;
}

static void check_waits(struct gt_volcano *volcano, uint32_t task)
{
    uint32_t node;
    assert_int_equal(gt_volcano_place(volcano, task, &node, error), -EAGAIN);
    assert_non_null(strstr(error, "1 unit of 32 GPUs needed"));
}

/* high waits, and the second rack is made free for it; the session goes on. */
static uint32_t begin_room(struct gt_volcano *volcano, struct session *session)
{
    uint32_t ret[TASKS_MAX], node, high = open_full(volcano, session, 0);
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, high, 0x0f7, ret), 8);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(ret[n], n / NODES_EACH == 1 ? GT_VOLCANO_GOES : GT_VOLCANO_NO_NODE);
    assert_false(gt_volcano_wants_room(volcano, high));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ret[high + i] / NODES_EACH, 1);
        assert_int_equal(gt_volcano_place(volcano, high + i, &node, error), 1);
        assert_int_equal(node, ret[high + i]);
    }
    return high;
}

/* As Volcano tells of a statement that is committed. */
static void evict_room(struct gt_volcano *volcano, uint32_t high)
{
    for (uint32_t i = 0; i < 4; i++) {
        gt_volcano_deallocated(volcano, 4 + i);
        gt_volcano_allocated(volcano, high + i, place(volcano, high + i));
        assert_int_equal(gt_volcano_is_whole(volcano, high), i == 3);
    }
    assert_false(gt_volcano_is_ready(volcano, high));
}

static void remove_victim(struct gt_volcano *volcano, unsigned node, bool reported)
{
    char name[16];
    snprintf(name, sizeof(name), "low1-%u", node % NODES_EACH);
    gt_volcano_remove(volcano, number_of("pods"), "ns", name);
    if (reported)
        put_user(volcano, node, NULL);
}

static void test_a_rack_is_freed(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t nodes[4], node;
    char annotations[GT_VOLCANO_ANNOTATIONS_SIZE];
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(gt_volcano_annotations(volcano, high + i, annotations), 0);
    gt_volcano_close(volcano);

    /* One after the other they go; nobody else gets in. */
    put_job(volcano, "rival", 4, 8, "32");
    PUT_POD(volcano, .job = "lone", .gpus = 1);
    for (unsigned gone = 0; gone <= 4; gone++) {
        uint8_t may[NODES];
        high = open_full(volcano, &session, 0x0f0);
        gt_volcano_close(volcano);
        uint32_t conflict = add_group(&session, "rival", 4, 4, NULL);
        uint32_t lone = add_group(&session, "lone", 1, 1, NULL);
        open_session(volcano, &session);
        assert_int_equal(gt_volcano_place(volcano, conflict, &node, error), -EAGAIN);
        assert_false(gt_volcano_wants_room(volcano, high));
        gt_volcano_may_use(volcano, lone, may, NODES);
        for (unsigned n = 0; n < NODES; n++)
            assert_int_equal(may[n], n / NODES_EACH != 1);
        for (unsigned i = 0; i < 4; i++) {
            nodes[i] = place(volcano, high + i);
            assert_int_equal(nodes[i] / NODES_EACH, 1);
            gt_volcano_allocated(volcano, high + i, nodes[i]);
        }
        assert_true(gt_volcano_is_whole(volcano, high));
        assert_int_equal(gt_volcano_is_ready(volcano, high), gone == 4);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(gt_volcano_annotations(volcano, high + i, annotations) > 0, gone == 4);
        if (gone == 4)
            break;
        gt_volcano_close(volcano);
        /* The agent tells of it later than the API server. */
        remove_victim(volcano, 4 + gone, false);
        high = open_full(volcano, &session, 0x0f0);
        assert_int_equal(gt_volcano_place(volcano, high, &node, error), 1);
        assert_false(gt_volcano_is_ready(volcano, high) && gt_volcano_wants_room(volcano, high));
        gt_volcano_close(volcano);
        remove_victim(volcano, 4 + gone, true);
    }
    gt_volcano_free(volcano);
}

static void test_nothing_is_kept_where_nobody_is_evicted(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t ret[TASKS_MAX];
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    for (unsigned i = 0; i < 4; i++) { /* the statement is discarded, but for one of them */
        gt_volcano_deallocated(volcano, high + i);
        if (i)
            gt_volcano_allocated(volcano, 4 + i, 4 + i);
    }
    gt_volcano_close(volcano);
    high = open_full(volcano, &session, 0);
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, high, 0x0f0, ret), 8);
    gt_volcano_give_up_room(volcano, high);
    check_waits(volcano, high);
    assert_false(gt_volcano_wants_room(volcano, high)); /* for a while */
    gt_volcano_free(volcano);
}

static void test_an_eviction_that_fails(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    high = open_full(volcano, &session, 0x0e0); /* the API server refused one */
    check_waits(volcano, high);
    assert_true(gt_volcano_wants_room(volcano, high));
    gt_volcano_close(volcano);
    gt_volcano_free(volcano);
}

static void test_a_planned_node_is_lost(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = begin_room(volcano, &session), node;
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    put(volcano, "nodes", world_node(NODE(.name = node_name(5), .not_ready = true)));
    high = open_full(volcano, &session, 0x0f0);
    assert_int_equal(gt_volcano_place(volcano, high, &node, error), -EAGAIN);
    assert_true(gt_volcano_wants_room(volcano, high));
    gt_volcano_free(volcano);
}

static void test_nobody_goes_where_it_would_not_do(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t ret[TASKS_MAX], high = open_full(volcano, &session, 0);
    assert_false(gt_volcano_wants_room(volcano, high)); /* it has not been asked about */
    check_waits(volcano, high);
    assert_int_equal(make_room(volcano, high, 0x777, ret), -EAGAIN); /* three of each rack */
    assert_string_equal(error, "it would not fit without the pods that may go either");
    check_waits(volcano, high);
    assert_false(gt_volcano_wants_room(volcano, high));
    assert_int_equal(make_room(volcano, 0, 0xfff, ret), -EINVAL); /* no job with units */
    assert_int_equal(make_room(volcano, 99, 0xfff, ret), -EINVAL);
    gt_volcano_free(volcano);
}

/* Nobody is evicted where pods leave of themselves; who comes first has their places, for this session. */
static void test_pods_that_leave_of_themselves(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    uint32_t high = open_full(volcano, &session, 0xf00), node;
    gt_volcano_close(volcano);
    put_job(volcano, "rival", 4, 8, "32");
    uint32_t conflict = add_group(&session, "rival", 4, 4, NULL);
    open_session(volcano, &session);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(place(volcano, high + i) / NODES_EACH, 2);
    assert_false(gt_volcano_wants_room(volcano, high));
    assert_int_equal(gt_volcano_place(volcano, conflict, &node, error), -EAGAIN);
    assert_true(gt_volcano_wants_room(volcano, conflict));
    gt_volcano_close(volcano);
    open_session(volcano, &session);
    assert_int_equal(place(volcano, conflict) / NODES_EACH, 2);
    assert_int_equal(gt_volcano_place(volcano, high, &node, error), -EAGAIN);
    gt_volcano_free(volcano);
}

/* Jobs come, evict others of lower priority or do not, and go, in many sessions. */
enum { JOBS = 5 };

struct random_job {
    char name[16], group[8];
    unsigned pods;
    int priority;
    uint32_t first; /* task of the session */
    bool lives, runs, makes_room;
    struct {
        uint32_t node; /* GT_VOLCANO_NO_NODE: it waits */
        bool leaves, gone;
    } pod[NODES_EACH];
};

struct random_world {
    struct gt_volcano *volcano;
    struct random_job jobs[JOBS];
    struct session session;
    int kept[NODES]; /* job whose evictions free it, -1 */
    unsigned number, evictions, bound;
};

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static void random_come(struct random_world *world, struct random_job *job)
{
    *job = (struct random_job){.pods = 1 + below(NODES_EACH), .priority = (int)below(4), .lives = true};
    snprintf(job->name, sizeof(job->name), "job%u", world->number++);
    snprintf(job->group, sizeof(job->group), "%u", 8 * job->pods);
    for (unsigned i = 0; i < job->pods; i++) {
        job->pod[i].node = GT_VOLCANO_NO_NODE;
        PUT_POD(world->volcano, .job = job->name, .index = i, .gpus = 8, .group = job->group,
                .priority = job->priority);
    }
}

/* Pods that leave go, the agents tell of it now or later; who lost a pod ends. */
static void random_go(struct random_world *world, struct random_job *job)
{
    bool any = false, hurt = below(20) == 0;
    for (unsigned i = 0; i < job->pods; i++)
        hurt = hurt || job->pod[i].leaves || job->pod[i].gone;
    for (unsigned i = 0; job->runs && i < job->pods; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s-%u", job->name, i);
        job->pod[i].leaves = job->pod[i].leaves || hurt;
        if (job->pod[i].leaves && !job->pod[i].gone && below(3) == 0) {
            gt_volcano_remove(world->volcano, number_of("pods"), "ns", name);
            job->pod[i].gone = true;
        } else if (job->pod[i].gone && job->pod[i].node != GT_VOLCANO_NO_NODE && below(2)) {
            put_user(world->volcano, job->pod[i].node, NULL);
            job->pod[i].node = GT_VOLCANO_NO_NODE;
        }
        any = any || job->pod[i].node != GT_VOLCANO_NO_NODE;
    }
    job->lives = any || !job->runs;
}

static void random_open(struct random_world *world)
{
    begin(&world->session);
    for (unsigned j = 0; j < JOBS; j++) {
        struct random_job *job = &world->jobs[j];
        uint32_t nodes[NODES_EACH], count = 0;
        for (unsigned i = 0; i < job->pods && !job->pod[i].gone; i++)
            nodes[count++] = job->pod[i].node;
        job->first = world->session.task_count;
        if (!job->lives ||
            count < job->pods) { /* pods that are left over are known to nobody but the cache */
            job->first = GT_VOLCANO_NO_NODE;
            continue;
        }
        add_group(&world->session, job->name, job->pods, job->pods, nodes);
        for (unsigned i = 0; i < job->pods; i++)
            world->session.tasks[job->first + i].leaves = job->pod[i].leaves;
    }
    open_session(world->volcano, &world->session);
}

static bool is_in_use(const struct random_world *world, uint32_t node)
{
    for (unsigned j = 0; j < JOBS; j++)
        for (unsigned i = 0; world->jobs[j].lives && i < world->jobs[j].pods; i++)
            if (world->jobs[j].pod[i].node == node)
                return true;
    return false;
}

/* Binds the job if it may be. */
static bool random_allocate(struct random_world *world, unsigned j)
{
    struct random_job *job = &world->jobs[j];
    uint32_t nodes[NODES_EACH];
    for (unsigned i = 0; i < job->pods; i++) {
        int r = gt_volcano_place(world->volcano, job->first + i, &nodes[i], error);
        assert_true(r == 1 || (r == -EAGAIN && !i));
        if (r < 0)
            return false;
        assert_true(world->kept[nodes[i]] < 0 || world->kept[nodes[i]] == (int)j);
        gt_volcano_allocated(world->volcano, job->first + i, nodes[i]);
    }
    check_units(nodes, job->pods, job->pods, 8);
    assert_true(gt_volcano_is_whole(world->volcano, job->first));
    if (!gt_volcano_is_ready(world->volcano, job->first))
        return true;
    job->runs = true;
    job->makes_room = false;
    world->bound++;
    for (unsigned i = 0; i < job->pods; i++) {
        assert_false(is_in_use(world, nodes[i]));
        job->pod[i].node = nodes[i];
    }
    for (unsigned n = 0; n < NODES; n++)
        world->kept[n] = world->kept[n] == (int)j ? -1 : world->kept[n];
    return true;
}

static void random_evict(struct random_world *world, unsigned j)
{
    struct random_job *job = &world->jobs[j];
    struct gt_volcano_step steps[TASKS_MAX];
    uint8_t go[TASKS_MAX] = {0}, use[NODES];
    if (!gt_volcano_wants_room(world->volcano, job->first))
        return;
    assert_false(job->makes_room); /* nobody else goes for it */
    for (unsigned n = 0; n < NODES; n++)
        use[n] = below(8) != 0;
    for (unsigned k = 0; k < JOBS; k++)
        for (unsigned i = 0; i < world->jobs[k].pods; i++)
            if (world->jobs[k].runs && world->jobs[k].first != GT_VOLCANO_NO_NODE)
                go[world->jobs[k].first + i] = world->jobs[k].priority < job->priority;
    int count = gt_volcano_make_room(world->volcano, job->first, go, use, 0, steps, error);
    if (count < 0)
        return;
    bool commits = below(3) != 0;
    unsigned places = 0, added = 0;
    uint32_t rack = GT_VOLCANO_NO_NODE;
    for (int s = 0; s < count; s++) {
        if (steps[s].node == GT_VOLCANO_GOES) {
            assert_true(go[steps[s].task]);
            added++;
            gt_volcano_deallocated(world->volcano, steps[s].task);
            continue;
        }
        assert_in_range(steps[s].task, job->first, job->first + job->pods - 1);
        assert_true(use[steps[s].node] && world->kept[steps[s].node] < 0);
        assert_true(rack == GT_VOLCANO_NO_NODE || rack == steps[s].node / NODES_EACH);
        rack = steps[s].node / NODES_EACH;
        gt_volcano_allocated(world->volcano, steps[s].task, steps[s].node);
        places++;
    }
    assert_int_equal(places, job->pods);
    assert_true(gt_volcano_is_whole(world->volcano, job->first));
    for (int s = count; s-- > 0 && !commits;)
        if (steps[s].node == GT_VOLCANO_GOES)
            gt_volcano_allocated(world->volcano, steps[s].task, 0);
        else
            gt_volcano_deallocated(world->volcano, steps[s].task);
    if (!commits) {
        gt_volcano_give_up_room(world->volcano, job->first);
        return;
    }
    if (!added) /* others that leave are enough, and these places are kept for one session */
        return;
    world->evictions++;
    job->makes_room = true;
    for (int s = 0; s < count; s++)
        if (steps[s].node != GT_VOLCANO_GOES)
            world->kept[steps[s].node] = (int)j;
    for (unsigned k = 0; k < JOBS; k++)
        for (int s = 0; s < count; s++)
            if (steps[s].node == GT_VOLCANO_GOES &&
                steps[s].task - world->jobs[k].first < world->jobs[k].pods)
                world->jobs[k].pod[steps[s].task - world->jobs[k].first].leaves = true;
}

static void random_session(struct random_world *world)
{
    bool placed[JOBS] = {false};
    for (unsigned j = 0; j < JOBS; j++) {
        struct random_job *job = &world->jobs[j];
        if (job->lives)
            random_go(world, job);
        if (!job->lives && below(3) == 0)
            random_come(world, job);
    }
    random_open(world);
    for (int priority = 3; priority >= 0; priority--)
        for (unsigned j = 0; j < JOBS; j++) {
            const struct random_job *job = &world->jobs[j];
            if (job->lives && !job->runs && job->priority == priority)
                placed[j] = random_allocate(world, j);
        }
    for (int priority = 3; priority >= 0; priority--)
        for (unsigned j = 0; j < JOBS; j++) {
            const struct random_job *job = &world->jobs[j];
            if (job->lives && !job->runs && job->priority == priority && !placed[j])
                random_evict(world, j);
        }
    gt_volcano_close(world->volcano);
    for (unsigned j = 0; j < JOBS; j++)
        for (unsigned i = 0; world->jobs[j].runs && i < world->jobs[j].pods; i++) {
            const struct random_job *job = &world->jobs[j];
            char name[32];
            if (job->pod[i].gone)
                continue;
            snprintf(name, sizeof(name), "%s-%u", job->name, i);
            PUT_POD(world->volcano, .job = job->name, .index = i, .gpus = 8, .group = job->group,
                    .priority = job->priority, .node = job->pod[i].node + 1, .deleting = job->pod[i].leaves);
            put_user(world->volcano, job->pod[i].node, name);
        }
}

static void test_random_evictions(void **state)
{
    (void)state;
    struct random_world world = {.volcano = new_world()};
    const char *given = getenv("GPUTOPO_SEED");
    bool is_short = getenv("GPUTOPO_UNDER_VALGRIND") != NULL; /* too short to be sure of an eviction */
    seed = given ? strtoull(given, NULL, 10) : 1;
    printf("GPUTOPO_SEED=%llu\n", (unsigned long long)seed);
    for (unsigned n = 0; n < NODES; n++)
        world.kept[n] = -1;
    for (unsigned round = 0; round < (is_short ? 50U : 1000U); round++)
        random_session(&world);
    printf("%u jobs evicted others, %u were bound\n", world.evictions, world.bound);
    assert_true(world.bound && (is_short || (world.evictions && world.bound > world.evictions)));
    gt_volcano_free(world.volcano);
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
        assert_int_equal(gt_volcano_score_nodes(volcano, lone, nodes, 2, scores, error), 0);
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

/* ---- beside gputopo-scheduler ---- */

static void put_lease(struct gt_volcano *volcano, unsigned seconds, const char *note)
{
    cJSON *lease = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(lease, "metadata");
    cJSON *spec = cJSON_AddObjectToObject(lease, "spec");
    cJSON_AddStringToObject(metadata, "name", "gputopo-scheduler");
    cJSON_AddStringToObject(metadata, "namespace", "gputopo-system");
    cJSON_AddStringToObject(metadata, "resourceVersion", "1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(metadata, "annotations"), "topology.metax-tech.com/note",
                            note);
    cJSON_AddStringToObject(spec, "holderIdentity", "someone");
    cJSON_AddNumberToObject(spec, "leaseDurationSeconds", seconds);
    put(volcano, "leases", lease);
}

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
    assert_int_equal(gt_volcano_place(volcano, first, &node, error), -EAGAIN);
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

/* The pod for which a place was kept comes and goes there; the others still keep off. */
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
    assert_int_equal(gt_volcano_place(volcano, mine, &node, error), 1);
    assert_string_equal(node_name(node), "r1-n2");
    gt_volcano_free(volcano);
}

/* The note that is to be written, which the caller frees; NULL: none is. */
static char *published(struct gt_volcano *volcano)
{
    const char *namespace_, *text = gt_volcano_publish(volcano, &namespace_);
    if (!text)
        return NULL;
    assert_string_equal(namespace_, "gputopo-system");
    cJSON *lease = cJSON_Parse(text), *metadata = cJSON_GetObjectItem(lease, "metadata");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name")), "gputopo-vc-scheduler");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "namespace")), namespace_);
    const cJSON *note =
        cJSON_GetObjectItem(cJSON_GetObjectItem(metadata, "annotations"), "topology.metax-tech.com/note");
    char *copy = strdup(note ? cJSON_GetStringValue(note) : "");
    cJSON_Delete(lease);
    return copy;
}

static void assert_published(struct gt_volcano *volcano, const char *note)
{
    char *text = published(volcano);
    assert_non_null(text);
    assert_string_equal(text, note);
    free(text);
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
            assert_int_equal(gt_volcano_put(volcano, i, text, strlen(text), error), 0);
}

/* Places of pods to come are told, once, and that they are kept no more; of a job that is bound in one
 * session there is nothing to tell. */
static void test_places_are_told(void **state)
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
            assert_int_equal(gt_volcano_check(volcano, first, &rank, error), 1);
            gt_volcano_close(volcano);
            gt_volcano_remove(volcano, number_of("pods"), "ns", "unit-2");
        }
        if (!round) {
            assert_null(published(volcano)); /* there is nobody to tell */
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

/* As are places that pods have to leave first. */
static void test_room_is_told(void **state)
{
    (void)state;
    struct gt_volcano *volcano = full_world();
    struct session session;
    put_lease(volcano, 300, "");
    uint32_t high = begin_room(volcano, &session);
    evict_room(volcano, high);
    gt_volcano_close(volcano);
    char *note = published(volcano);
    assert_non_null(note);
    for (unsigned n = 0; n < NODES; n++)
        assert_int_equal(strstr(note, node_name(n)) != NULL, n / NODES_EACH == 1);
    free(note);
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
    assert_int_equal(gt_volcano_put(volcano, 0, "{", 1, error), -EINVAL);
    assert_int_equal(gt_volcano_put(volcano, 999, "{}", 2, error), -EINVAL);
    assert_int_equal(gt_volcano_place(volcano, 0, &node, error), -EINVAL);
    begin(&session);
    uint32_t task = add_group(&session, "unseen", 1, 1, NULL);
    open_session(volcano, &session);
    assert_int_equal(gt_volcano_put(volcano, 0, "{}", 2, error), -EBUSY);
    assert_int_equal(gt_volcano_check(volcano, task, &rank, error), 0);
    assert_int_equal(gt_volcano_place(volcano, task, &node, error), -EAGAIN);
    assert_non_null(strstr(error, "not seen this pod yet"));
    assert_int_equal(gt_volcano_score_nodes(volcano, task, &beyond, 1, &score, error), -EINVAL);
    session.tasks[0].group = 7;
    assert_int_equal(gt_volcano_open(volcano, session.texts, session.size, session.nodes, NODES,
                                     session.groups, session.group_count, session.tasks, session.task_count,
                                     error),
                     -EINVAL);
    session.nodes[0] = TEXT_MAX;
    session.tasks[0].group = 0;
    assert_int_equal(gt_volcano_open(volcano, session.texts, session.size, session.nodes, NODES,
                                     session.groups, session.group_count, session.tasks, session.task_count,
                                     error),
                     -EINVAL);
    assert_int_equal(gt_volcano_check(volcano, task, &rank, error), -EINVAL);
    gt_volcano_free(volcano);
}

/* 10,000 sessions in which a gang is placed, bound, and gone, hold no more than the first. */
static void test_sessions_do_not_grow(void **state)
{
    (void)state;
    struct gt_volcano *volcano = new_world();
    struct session session;
    uint32_t nodes[8];
    size_t after_first = 0, heap = 0;
    unsigned pods = number_of("pods");
    for (unsigned round = 0; round < 5000; round++) {
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
        if (round == 1000) { /* by then the sizes of jobs that were are learned */
            after_first = gt_volcano_bytes(volcano);
            heap = mallinfo2().uordblks;
        }
    }
    assert_true(gt_volcano_bytes(volcano) <= after_first + 4096);
    /* Less than a byte a session; tables grow by a step now and then. 0 under a sanitizer, which has an
     * allocator of its own. */
    assert_true(mallinfo2().uordblks <= heap + 4096);
    gt_volcano_free(volcano);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_follow_the_free_gpus),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_units_lie_in_racks),
        cmocka_unit_test(test_no_room_holds_nothing),
        cmocka_unit_test(test_a_plan_is_given_back),
        cmocka_unit_test(test_reservations_last_until_the_pods_say_so),
        cmocka_unit_test(test_a_unit_stays_in_its_rack),
        cmocka_unit_test(test_a_successor_comes_home),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_the_companions_plans_stay),
        cmocka_unit_test(test_a_race_gets_its_gpus_written),
        cmocka_unit_test(test_a_part_may_start),
        cmocka_unit_test(test_a_rack_is_freed),
        cmocka_unit_test(test_nothing_is_kept_where_nobody_is_evicted),
        cmocka_unit_test(test_an_eviction_that_fails),
        cmocka_unit_test(test_a_planned_node_is_lost),
        cmocka_unit_test(test_nobody_goes_where_it_would_not_do),
        cmocka_unit_test(test_pods_that_leave_of_themselves),
        cmocka_unit_test(test_random_evictions),
        cmocka_unit_test(test_a_list_says_who_is_gone),
        cmocka_unit_test(test_what_the_lease_notes_is_kept),
        cmocka_unit_test(test_a_pod_comes_to_its_noted_place),
        cmocka_unit_test(test_places_are_told),
        cmocka_unit_test(test_room_is_told),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_sessions_do_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
