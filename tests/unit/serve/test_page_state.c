/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/page_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/serve/explain.h"
#include "tests/unit/cache/cache_world.h"

/* A page, and a client that keeps what it was told. */
struct looking {
    struct gt_cache *cache;
    struct gt_page *page;
    char state[64];
};

static struct gt_debug_view view_of(const struct looking *looking)
{
    return (struct gt_debug_view){.cache = looking->cache,
                                  .weights = GT_AWARE_DEFAULT,
                                  .leads = true,
                                  .synced = true,
                                  .now_ms = 10001,
                                  .wall_ms = UINT64_C(1893456000000)};
}

static int set_up(void **state)
{
    struct looking *looking = test_calloc(1, sizeof(*looking));
    looking->cache = new_cache(NULL);
    assert_int_equal(gt_page_new(&(struct gt_page_spec){0}, &looking->page, NULL), 0);
    *state = looking;
    return 0;
}

static int tear_down(void **state)
{
    struct looking *looking = *state;
    gt_page_free(looking->page);
    gt_cache_free(looking->cache);
    test_free(looking);
    return 0;
}

static void scan_all(struct looking *looking)
{
    const struct gt_debug_view view = view_of(looking);
    while (!gt_page_scan(looking->page, &view, UINT64_MAX / 4))
        continue;
}

static void job_name(unsigned i, char name[static 16])
{
    snprintf(name, 16, "p%05u", i);
}

static void add_jobs(struct looking *looking, unsigned first, unsigned count)
{
    char name[16];
    for (unsigned i = first; i < first + count; i++) {
        job_name(i, name);
        give_pod(looking->cache, POD(.name = name, .gpus = 1, .job = name, .gated = true));
    }
}

static void remove_jobs(struct looking *looking, unsigned first, unsigned count)
{
    char name[16];
    for (unsigned i = first; i < first + count; i++) {
        job_name(i, name);
        gt_cache_pod_deleted(looking->cache, "ns", name);
    }
}

/* What the client is told of all since `since`; the caller frees it. */
static cJSON *told_since(struct looking *looking, const char *since, const char *only)
{
    const struct gt_debug_view view = view_of(looking);
    const struct gt_page_around around = {"me", "", NULL, only};
    char query[96];
    struct gt_http_response response = {.status = 200, .body = GT_BUF(16 << 20)};
    snprintf(query, sizeof(query), "since=%s", since);
    gt_page_state(looking->page, &view, &around, query, &response);
    assert_int_equal(response.status, 200);
    assert_false(response.body.failed);
    cJSON *json = cJSON_ParseWithLength(response.body.data, response.body.len);
    assert_non_null(json);
    gt_buf_done(&response.body);
    snprintf(looking->state, sizeof(looking->state), "%s",
             cJSON_GetStringValue(cJSON_GetObjectItem(json, "state")));
    return json;
}

static void assert_told(struct looking *looking, bool all, int jobs, int gone)
{
    char since[sizeof(looking->state)];
    memcpy(since, looking->state, sizeof(since));
    cJSON *json = told_since(looking, since, NULL);
    assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(json, "all")), all);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobs")), jobs);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobsGone")), gone);
    cJSON_Delete(json);
}

static void test_jobs_come_and_go(void **state)
{
    struct looking *looking = *state;
    add_jobs(looking, 0, 10);
    scan_all(looking);
    assert_told(looking, true, 10, 0);
    assert_told(looking, false, 0, 0);
    remove_jobs(looking, 3, 2);
    scan_all(looking);
    assert_told(looking, false, 0, 2);
    add_jobs(looking, 4, 1);
    scan_all(looking);
    assert_told(looking, false, 1, 0);
    scan_all(looking);
    assert_told(looking, false, 0, 0);
}

/* More than are remembered: clients get all again, and then changes again. */
static void test_more_jobs_go_than_are_remembered(void **state)
{
    struct looking *looking = *state;
    add_jobs(looking, 0, 5001);
    scan_all(looking);
    assert_told(looking, true, 5001, 0);
    remove_jobs(looking, 0, 5000);
    scan_all(looking);
    assert_told(looking, true, 1, 0);
    assert_told(looking, false, 0, 0);
    add_jobs(looking, 6000, 1);
    remove_jobs(looking, 5000, 1);
    scan_all(looking);
    assert_told(looking, false, 1, 1);
}

/* Jobs vanish and come back between the pieces of a round, and clients ask between them. */
static void test_changes_within_a_round(void **state)
{
    struct looking *looking = *state;
    const struct gt_debug_view view = view_of(looking);
    char since[sizeof(looking->state)];
    add_jobs(looking, 0, 200);
    for (unsigned i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%02u", i);
        give_plain_node(looking->cache, name);
    }
    scan_all(looking);
    cJSON_Delete(told_since(looking, "", NULL));
    for (unsigned round = 0; round < 6; round++)
        for (unsigned piece = 0; !gt_page_scan(looking->page, &view, 0); piece++) {
            unsigned first = (piece * 37 + round * 11) % 190;
            remove_jobs(looking, first, 5);
            if (piece % 2)
                add_jobs(looking, first, 5);
            memcpy(since, looking->state, sizeof(since));
            cJSON_Delete(told_since(looking, since, piece % 3 ? NULL : "ns"));
        }
    scan_all(looking);
    add_jobs(looking, 0, 200);
    scan_all(looking);
    *looking->state = '\0';
    assert_told(looking, true, 200, 0);
}

/* Another namespace's viewer is told of none of its jobs, nor that they went, nor the names of nodes. */
static void test_a_namespace(void **state)
{
    struct looking *looking = *state;
    char since[sizeof(looking->state)];
    add_jobs(looking, 0, 4);
    give_node(looking->cache, NODE(.name = "dark"));
    scan_all(looking);
    cJSON *json = told_since(looking, "", NULL);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "absent")), 1);
    cJSON_Delete(json);
    json = told_since(looking, "", "n");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "absent")), 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobs")), 0);
    cJSON_Delete(json);
    memcpy(since, looking->state, sizeof(since));
    remove_jobs(looking, 0, 1);
    scan_all(looking);
    json = told_since(looking, since, "n");
    assert_false(cJSON_IsTrue(cJSON_GetObjectItem(json, "all")));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobsGone")), 0);
    cJSON_Delete(json);
    json = told_since(looking, looking->state, "ns");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "all")));
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "jobs")), 3);
    cJSON_Delete(json);
}

static void note_reason(void *arg, const char *node, bool worse, const char *reason, const char *text)
{
    (void)node;
    (void)text;
    gt_buf_printf(arg, "%s%s ", reason, worse ? "!" : "");
}

/* A GPU that somebody keeps out of use is no fault, and told apart from one. */
static void test_isolated(void **state)
{
    struct looking *looking = *state;
    gt_auto_buf struct gt_buf told = GT_BUF(1 << 10);
    const struct gt_page_spec spec = {note_reason, &told};
    static const struct {
        uint64_t isolated, unhealthy;
        const char *reasons, *of_isolated, *of_unhealthy;
    } steps[] = {
        {0, 0, "", "", ""},
        {1 << 3, 0, "GPUIsolated ", "3", ""},
        {1 << 3, 1 << 5, "GPUUnhealthy! ", "3", "5"},
        {0, 1 << 3, "GPUUnhealthy! GPUHealthy ", "", "3"},
        {0, 0, "GPUHealthy ", "", ""},
    };
    gt_page_free(looking->page);
    assert_int_equal(gt_page_new(&spec, &looking->page, NULL), 0);
    give_node(looking->cache, NODE(.name = "n"));
    for (unsigned i = 0; i < GT_COUNT(steps); i++) {
        gt_buf_consume(&told, told.len);
        give_topology(
            looking->cache,
            TOPOLOGY(.name = "n", .gpus = 8, .isolated = steps[i].isolated, .unhealthy = steps[i].unhealthy),
            i + 1);
        scan_all(looking);
        assert_string_equal(told.len ? told.data : "", steps[i].reasons);
        cJSON *json = told_since(looking, "", NULL);
        const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "nodes"), 0);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(row, 8)), steps[i].of_unhealthy);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(row, 9)), steps[i].of_isolated);
        cJSON_Delete(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobs_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_more_jobs_go_than_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changes_within_a_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_namespace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_isolated, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
