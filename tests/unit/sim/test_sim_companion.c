/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/err.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/file/cluster_file.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/sim/sim_test.h"

/* The simulator decides as the companion does: jobs come and go, nodes fail and come back, and each job is
 * planned twice: by the policy gputopo in a simulated world, and from Kubernetes objects through the cache
 * and gt_decide(). Both learn the unit sizes by themselves. In between units of jobs that run would move. And
 * each decision is made again from what the companion has kept of it. */

enum { JOBS = 600, JOB_PODS_MAX = 64, RUNNING_MAX = 40 };

struct both {
    struct gt_site *site;
    struct gt_world *world;
    void *policy;
    struct gt_cache *cache;
    struct {
        struct gt_sim_job job;
        struct gt_place places[JOB_PODS_MAX];
        unsigned number;
    } running[RUNNING_MAX];
    unsigned running_count;
    unsigned placed, refused, moved, stayed;
    struct gt_decision_log *log;
    uint64_t last; /* number of the last decision that was made again */
    unsigned again, otherwise;
    struct gt_rng random;
};

static const struct gt_group_policy *const policy = &gt_group_gputopo;

static void give_site_node(struct both *both, uint32_t node, bool ready)
{
    char name[16], supernode[16];
    snprintf(name, sizeof(name), "n%06u", node);
    snprintf(supernode, sizeof(supernode), "s%06u", both->site->nodes[node].super);
    give_node(both->cache, NODE(.name = name, .not_ready = !ready));
}

static void open_both(struct both *both, const char *shape, uint64_t seed)
{
    memset(both, 0, sizeof(*both));
    gt_rng_seed(&both->random, seed);
    both->site = make_site(shape);
    const struct gt_group_setup setup = {.pods_max = JOB_PODS_MAX};
    assert_int_equal(gt_world_new(both->site, &both->world, NULL), 0);
    assert_int_equal(policy->open(both->world, &setup, &both->policy, NULL), 0);
    both->cache = new_cache(NULL);
    assert_int_equal(gt_decision_log_new(&both->log, NULL), 0);
    for (uint32_t s = 0; s < both->site->super_count; s++) {
        char name[16], members[16][16];
        struct world_supernode object = {.name = name, .tier = 1};
        uint32_t first = both->site->first_node[s], count = both->site->first_node[s + 1] - first;
        assert_true(count <= 16);
        snprintf(name, sizeof(name), "s%06u", s);
        for (uint32_t n = 0; n < count; n++) {
            snprintf(members[n], sizeof(members[n]), "n%06u", first + n);
            object.members[n] = members[n];
        }
        give_supernode(both->cache, &object);
        for (uint32_t n = 0; n < count; n++) {
            give_topology(both->cache, TOPOLOGY(.name = members[n], .gpus = both->site->nodes[first].gpus),
                          0);
            give_site_node(both, first + n, true);
        }
    }
}

static void close_both(struct both *both)
{
    policy->close(both->policy);
    gt_world_free(both->world);
    gt_site_free(both->site);
    gt_cache_free(both->cache);
    gt_decision_log_free(both->log);
}

static void expect_same(void *arg, const struct gt_decision_again *again)
{
    struct both *both = arg;
    assert_string_equal(again->recorded, again->made);
    assert_true(again->recorded[0]);
    assert_int_equal(again->number, both->last + 1);
    both->last = again->number;
    both->again++;
}

static void count_other(void *arg, const struct gt_decision_again *again)
{
    struct both *both = arg;
    both->otherwise += strcmp(again->recorded, again->made) != 0;
}

/* Makes the newest decision again: with the product's rule the same, with the other one often not. */
static void decide_again(struct both *both)
{
    gt_auto_buf struct gt_buf kept = GT_BUF(1 << 22);
    const struct gt_decision_file same = {expect_same, both}, other = {count_other, both};
    gt_auto_err struct gt_err *err = NULL;
    gt_decision_log_write(both->log, both->last, 1 << 20, &kept);
    if (gt_decision_file_run(kept.data, kept.len, "kept", &same, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    char *rule = strstr(kept.data, "\"static\":false");
    assert_non_null(rule);
    memcpy(rule, "\"static\":true ", strlen("\"static\":true "));
    assert_int_equal(gt_decision_file_run(kept.data, kept.len, "kept", &other, &err), 0);
}

/* `places` NULL: they are gated; else they run there. */
static void give_pods(struct both *both, const struct gt_sim_job *job, unsigned number,
                      const struct gt_place *places)
{
    char name[32], node[16], labels[256], annotations[160];
    for (uint32_t i = 0; i < job->pods; i++) {
        int len = snprintf(annotations, sizeof(annotations), "\"metax-tech.com/gpu-group-size\":\"%u\",",
                           job->unit * job->gpus);
        if (job->atom)
            snprintf(annotations + len, sizeof(annotations) - (size_t)len,
                     "\"metax-tech.com/atomic-gpu-group-size\":\"%u\",", job->atom * job->gpus);
        snprintf(name, sizeof(name), "j%u-%u", number, i);
        snprintf(
            labels, sizeof(labels),
            "\"batch.kubernetes.io/job-name\":\"j%u\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
            number, i);
        snprintf(node, sizeof(node), "n%06u", places ? places[i].node : 0);
        give_pod(both->cache,
                 POD(.name = name, .gpus = job->gpus, .gated = !places, .labels = labels,
                     .annotations = annotations, .node = places ? node : NULL,
                     .plan_node = places ? node : NULL, .plan_mask = places ? places[i].mask : 0));
    }
}

static void take_pods(struct both *both, const struct gt_sim_job *job, unsigned number)
{
    char name[32];
    for (uint32_t i = 0; i < job->pods; i++) {
        snprintf(name, sizeof(name), "j%u-%u", number, i);
        gt_cache_pod_deleted(both->cache, "ns", name);
    }
}

static bool decide(struct both *both, unsigned number, bool crowded)
{
    char key[32];
    struct gt_job_view *view = NULL;
    struct gt_reservations reservations = {0};
    struct gt_plan_failure failure;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    const struct gt_job_view_spec spec = {.now = 1};
    const struct gt_decide_spec plainly = {
        .reserve_until = 1000, .crowded = crowded, .log = both->log, .name = key};
    snprintf(key, sizeof(key), "ns/Job/j%u", number);
    struct gt_cache_job *job = gt_cache_find_job(both->cache, key);
    assert_non_null(job);
    assert_int_equal(gt_job_view_make(both->cache, job, &spec, &reservations, &view, NULL), 0);
    enum gt_decision decision = gt_decide(view, &plainly, &failure, &text);
    assert_true(decision == GT_DECISION_PLACED || decision == GT_DECISION_WAITS);
    decide_again(both);
    gt_job_view_free(view);
    gt_reservations_done(&reservations, gt_cache_cluster(both->cache));
    return decision == GT_DECISION_PLACED;
}

static void leave(struct both *both, unsigned at)
{
    const struct gt_sim_job job = both->running[at].job;
    for (uint32_t i = 0; i < job.pods; i++) {
        const struct gt_place *place = &both->running[at].places[i];
        gt_world_give(both->world, place->node, place->mask);
        policy->changed(both->policy, both->world, place->node);
    }
    policy->gone(both->policy, &job);
    take_pods(both, &job, both->running[at].number);
    both->running[at] = both->running[--both->running_count];
}

static void submit(struct both *both, const struct gt_sim_job *job, unsigned number)
{
    struct gt_place places[JOB_PODS_MAX];
    policy->came(both->policy, job);
    give_pods(both, job, number, NULL);
    bool crowded = number % 2;
    policy->crowded(both->policy, crowded);
    bool placed = policy->place(both->policy, both->world, job, places);
    policy->crowded(both->policy, false);
    assert_int_equal(decide(both, number, crowded), placed);
    both->placed += placed;
    both->refused += !placed;
    for (uint32_t i = 0; placed && i < job->pods; i++) {
        char name[32], node[16];
        snprintf(name, sizeof(name), "j%u-%u", number, i);
        snprintf(node, sizeof(node), "n%06u", places[i].node);
        const struct gt_cache_pod *pod = pod_of(both->cache, name);
        assert_int_equal(pod->planned.node, gt_cluster_find_node(gt_cache_cluster(both->cache), node));
        assert_int_equal(pod->planned.mask, places[i].mask);
    }
    if (placed && both->running_count < RUNNING_MAX) {
        both->running[both->running_count].job = *job;
        both->running[both->running_count].number = number;
        memcpy(both->running[both->running_count++].places, places, sizeof(places));
        return;
    }
    for (uint32_t i = 0; placed && i < job->pods; i++) {
        gt_world_give(both->world, places[i].node, places[i].mask);
        policy->changed(both->policy, both->world, places[i].node);
    }
    policy->gone(both->policy, job);
    take_pods(both, job, number);
}

/* Plans pods from `first` on again in the policy's model; the others stay. */
static bool plan_again(struct both *both, const struct gt_sim_job *job, uint32_t first, uint32_t length,
                       struct gt_place *places)
{
    struct gt_plan_unit units[JOB_PODS_MAX];
    struct gt_plan_pod pods[JOB_PODS_MAX];
    struct gt_plan_request request;
    struct gt_plan_failure failure;
    gt_group_request(job, true, units, pods, &request);
    for (uint32_t i = 0; i < job->pods; i++)
        if (i < first || i >= first + length)
            pods[i] = (struct gt_plan_pod){.running = true, .place = places[i]};
    bool planned = gt_plan_job(policy->model(both->policy), &request, &failure);
    for (uint32_t i = first; planned && i < first + length; i++)
        places[i] = (struct gt_place){pods[i].place.node, pods[i].place.mask};
    return planned;
}

/* Another place for a unit (or an atom) of a job that runs: as the core plans it, and as gt_decide_move()
 * does; then it stays where it is. */
static void move(struct both *both, unsigned at)
{
    const struct gt_sim_job job = both->running[at].job;
    uint32_t length = job.atom ? job.atom : job.unit,
             first = gt_rng_below(&both->random, job.pods / length) * length;
    struct gt_place places[JOB_PODS_MAX];
    struct gt_job_view *view = NULL;
    struct gt_reservations reservations = {0};
    struct gt_plan_failure failure;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    const struct gt_job_view_spec spec = {.now = 1};
    char key[32];
    const struct gt_decide_spec plainly = {.reserve_until = 1000, .log = both->log, .name = key};
    memcpy(places, both->running[at].places, sizeof(places));
    give_pods(both, &job, both->running[at].number, places);
    bool planned = plan_again(both, &job, first, length, places);
    snprintf(key, sizeof(key), "ns/Job/j%u", both->running[at].number);
    struct gt_cache_job *cached = gt_cache_find_job(both->cache, key);
    assert_int_equal(gt_job_view_make(both->cache, cached, &spec, &reservations, &view, NULL), 0);
    enum gt_decision decision = gt_decide_move(view, first, first + length, NULL, &plainly, &failure, &text);
    assert_int_equal(decision, planned ? GT_DECISION_PLACED : GT_DECISION_WAITS);
    decide_again(both);
    for (uint32_t i = first; planned && i < first + length; i++) {
        char node[16];
        snprintf(node, sizeof(node), "n%06u", places[i].node);
        assert_int_equal(reservations.reservations[i].promise.place.node,
                         gt_cluster_find_node(gt_cache_cluster(both->cache), node));
        assert_int_equal(reservations.reservations[i].promise.place.mask, places[i].mask);
    }
    both->moved += planned;
    both->stayed += !planned;
    gt_job_view_free(view);
    gt_reservations_done(&reservations, gt_cache_cluster(both->cache));
}

static void set_up(struct both *both, uint32_t node, bool up)
{
    gt_world_set_up(both->world, node, up);
    policy->changed(both->policy, both->world, node);
    give_site_node(both, node, up);
}

static void test_same_decisions(void **state)
{
    static const struct {
        const char *shape;
        unsigned sizes[3], gpus;
    } settings[] = {{"4x6x4", {8, 24, 12}, 4}, {"3x8x8x8", {8, 32, 64}, 8}, {"5x6x8x8", {2, 16, 48}, 2}};
    (void)state;
    unsigned moved = 0, stayed = 0, again = 0, otherwise = 0;
    for (unsigned s = 0; s < GT_COUNT(settings); s++) {
        struct both both;
        open_both(&both, settings[s].shape, 7 + s);
        for (unsigned i = 0; i < JOBS; i++) {
            unsigned size = settings[s].sizes[gt_rng_below(&both.random, 3)], gpus = settings[s].gpus;
            uint32_t unit = size / gpus, units = 1 + gt_rng_below(&both.random, 3);
            bool soft = unit % 2 == 0 && gt_rng_below(&both.random, 4) == 0;
            struct gt_sim_job job = {
                .pods = unit * units, .unit = unit, .gpus = gpus, .atom = soft ? unit / 2 : 0};
            if (job.pods <= JOB_PODS_MAX)
                submit(&both, &job, i);
            for (unsigned gone = gt_rng_below(&both.random, 3); gone && both.running_count; gone--)
                leave(&both, gt_rng_below(&both.random, both.running_count));
            if (i % 4 == 1 && both.running_count)
                move(&both, gt_rng_below(&both.random, both.running_count));
            if (i % 20 == 10)
                set_up(&both, i % both.site->node_count, false);
            if (i % 20 == 19)
                set_up(&both, (i - 9) % both.site->node_count, true);
        }
        assert_true(both.placed > JOBS / 2);
        moved += both.moved;
        stayed += both.stayed;
        again += both.again;
        otherwise += both.otherwise;
        close_both(&both);
    }
    if (moved < 100 || stayed < 10)
        fail_msg("%u units moved, %u stayed", moved, stayed);
    print_message("%u decisions made again, %u are others by the other rule\n", again, otherwise);
    assert_true(again >= 1000 && otherwise >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_decisions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
