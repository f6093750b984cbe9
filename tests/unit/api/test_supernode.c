/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/supernode.h"
#include "base/err.h"
#include "tests/unit/seed.h"

/* Readers get what the companion has written. */

enum { SUPERNODES = 500, MEMBERS = 200 };

static uint64_t state_of_random;

static unsigned below(unsigned n)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(state_of_random >> 33) % n;
}

struct drawn {
    struct gt_supernode_object object;
    struct gt_supernode_member members[MEMBERS];
    char nodes[MEMBERS][64], servers[MEMBERS][64];
};

static void draw(struct drawn *drawn)
{
    static const char *const sources[] = {"", "report", "config", "label"}, *const reasons[] = {"",
                                                                                                "Complete"};
    struct gt_supernode_object *to = &drawn->object;
    *to = (struct gt_supernode_object){.name = "sn-1",
                                       .tier = below(2) ? 1 : 1 + below(GT_SUPERNODE_TIERS_MAX),
                                       .source = sources[below(4)],
                                       .parent = below(2) ? "sn-2" : "",
                                       .members = drawn->members,
                                       .nodes = (int64_t)below(20000) - 1,
                                       .capacity = (int64_t)below(160000) - 1,
                                       .free = (int64_t)below(160000) - 1,
                                       .spares = (int64_t)below(10) - 1,
                                       .links_healthy = (enum gt_condition_status)below(3)};
    to->member_count = to->tier == 1 ? below(MEMBERS + 1) : 0;
    for (unsigned i = 0; i < to->member_count; i++) {
        snprintf(drawn->nodes[i], sizeof(drawn->nodes[i]), "node-%u", i);
        snprintf(drawn->servers[i], sizeof(drawn->servers[i]), "a \"server\" %u", i);
        drawn->members[i] = (struct gt_supernode_member){.node = drawn->nodes[i],
                                                         .server = below(2) ? drawn->servers[i] : "",
                                                         .gpus = (int)below(66) - 1,
                                                         .free = (int)below(66) - 1};
    }
    for (unsigned i = 0; i < GT_SUPERNODE_CONDITIONS; i++)
        to->conditions[i] = (struct gt_condition){.status = (enum gt_condition_status)below(3),
                                                  .reason = reasons[below(2)],
                                                  .message = "it is \"so\"",
                                                  .since = below(2) ? "2026-01-30T12:00:00Z" : ""};
}

static cJSON *written(const struct gt_supernode_object *object)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_supernode_object_write_status(object, &text);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    cJSON *metadata = cJSON_AddObjectToObject(json, "metadata");
    cJSON_AddStringToObject(metadata, "name", object->name);
    return json;
}

static void what_is_written_is_read(void **state)
{
    static struct drawn drawn;
    (void)state;
    for (unsigned n = 0; n < SUPERNODES; n++) {
        gt_auto_supernode_object struct gt_supernode_object got = {0};
        gt_auto_err struct gt_err *err = NULL;
        draw(&drawn);
        const struct gt_supernode_object *want = &drawn.object;
        cJSON *json = written(want);
        if (gt_supernode_object_read(json, &got, &err) < 0)
            fail_msg("%s", gt_err_text(err));
        assert_string_equal(got.name, want->name);
        assert_int_equal(got.tier, want->tier);
        assert_string_equal(got.source, want->source);
        assert_string_equal(got.parent, want->parent);
        assert_int_equal(got.nodes, want->nodes);
        assert_int_equal(got.capacity, want->capacity);
        assert_int_equal(got.free, want->free);
        assert_int_equal(got.links_healthy, want->links_healthy);
        assert_int_equal(got.member_count, want->member_count);
        for (unsigned i = 0; i < want->member_count; i++) {
            assert_string_equal(got.members[i].node, want->members[i].node);
            assert_string_equal(got.members[i].server, want->members[i].server);
            assert_int_equal(got.members[i].gpus, want->members[i].gpus);
            assert_int_equal(got.members[i].free, want->members[i].free);
        }
        for (unsigned i = 0; i < GT_SUPERNODE_CONDITIONS; i++) {
            assert_string_equal(got.conditions[i].reason, want->conditions[i].reason);
            if (!want->conditions[i].reason[0])
                continue;
            assert_int_equal(got.conditions[i].status, want->conditions[i].status);
            assert_string_equal(got.conditions[i].message, want->conditions[i].message);
            assert_string_equal(got.conditions[i].since, want->conditions[i].since);
        }
        cJSON_Delete(json);
    }
}

static void an_object_may_be_empty_yet(void **state)
{
    static const char *const texts[] = {"{\"metadata\":{\"name\":\"s\"}}",
                                        "{\"metadata\":{\"name\":\"s\"},\"status\":{\"members\":7}}"};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        struct gt_supernode_object got = {.tier = 7};
        cJSON *json = cJSON_Parse(texts[i]);
        assert_int_equal(gt_supernode_object_read(json, &got, NULL), 0);
        assert_int_equal(got.tier, 0);
        assert_int_equal(got.member_count, 0);
        cJSON_Delete(json);
    }
}

static void nonsense_is_refused_with_its_path(void **state)
{
    static const struct {
        const char *status, *error;
    } cases[] = {
        {"{\"tier\":0}", "supernodes/s: tier: expected 1 (best performance) to 8"},
        {"{\"tier\":9}", "supernodes/s: tier: expected 0 to 8, is 9"},
        {"{\"tier\":\"1\"}", "supernodes/s: tier: expected a number, is a string"},
        {"{\"tier\":1,\"parent\":7}", "supernodes/s: parent: expected a string, is a number"},
        {"{\"tier\":1,\"parent\":\"s\"}", "supernodes/s: parent: is the supernode itself"},
        {"{\"tier\":1,\"members\":{}}", "supernodes/s: members: expected an array, is an object"},
        {"{\"tier\":1,\"members\":[{\"node\":\"n\"},7]}",
         "supernodes/s: members[1]: expected an object, is a number"},
        {"{\"tier\":1,\"members\":[{}]}", "supernodes/s: members[0].node: is missing"},
        {"{\"tier\":1,\"members\":[{\"node\":\"n\",\"gpus\":65}]}",
         "supernodes/s: members[0].gpus: expected 0 to 64, is 65"},
        {"{\"tier\":1,\"free\":-1}", "supernodes/s: free: expected 0 to 4294967295, is -1"},
        {"{\"tier\":1,\"linksHealthy\":1}",
         "supernodes/s: linksHealthy: expected true or false, is a number"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_supernode_object got = {.tier = 7};
        gt_auto_err struct gt_err *err = NULL;
        char text[256];
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"s\"},\"status\":%s}", cases[i].status);
        cJSON *json = cJSON_Parse(text);
        assert_non_null(json);
        assert_int_equal(gt_supernode_object_read(json, &got, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_int_equal(got.tier, 7);
        cJSON_Delete(json);
    }
    gt_auto_err struct gt_err *err = NULL;
    struct gt_supernode_object got;
    assert_int_equal(gt_supernode_object_read(NULL, &got, &err), -EINVAL);
    assert_string_equal(gt_err_text(err), "supernodes: metadata.name: is missing");
}

int main(void)
{
    state_of_random = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_object_may_be_empty_yet),
        cmocka_unit_test(nonsense_is_refused_with_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
