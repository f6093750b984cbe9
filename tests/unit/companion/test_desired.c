/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_get.h"
#include "scheduler-ext/companion/apply_set_entry.h"

static bool holds(const char *desired, const char *have)
{
    cJSON *a = cJSON_Parse(desired), *b = cJSON_Parse(have);
    assert_non_null(a);
    bool result = gt_desired_is_met(a, b);
    cJSON_Delete(a);
    cJSON_Delete(b);
    return result;
}

static void test_holds(void **state)
{
    (void)state;
    assert_true(holds("{\"a\":1}", "{\"a\":1,\"b\":2}"));
    assert_false(holds("{\"a\":1,\"b\":2}", "{\"a\":1}"));
    assert_false(holds("{\"a\":1}", "{\"a\":\"1\"}"));
    assert_false(holds("{\"a\":true}", "{\"a\":false}"));
    assert_true(holds("{\"a\":null}", "{\"a\":null}"));
    assert_false(holds("{\"a\":1}", "7"));
    assert_false(holds("{\"a\":1}", "?"));
    assert_true(holds("{\"a\":{\"b\":[1,2]}}", "{\"a\":{\"c\":1,\"b\":[1,2]}}"));
    /* lists are whole */
    assert_false(holds("{\"a\":[1,2]}", "{\"a\":[1,2,3]}"));
    assert_false(holds("{\"a\":[1,2]}", "{\"a\":[2,1]}"));
    assert_false(holds("{\"a\":[{\"n\":1}]}", "{\"a\":[{\"n\":1,\"m\":2}]}"));
    assert_true(holds("{\"a\":[{\"n\":1}]}", "{\"a\":[{\"n\":1}]}"));
    /* times do not matter */
    assert_true(holds("{\"a\":1,\"observedAt\":\"x\"}", "{\"a\":1,\"observedAt\":\"y\"}"));
    assert_true(holds("{\"a\":1,\"observedAt\":\"x\"}", "{\"a\":1}"));
    /* conditions go by their type */
    const char *desired = "{\"conditions\":[{\"type\":\"A\",\"status\":\"True\"}]}";
    assert_true(holds(desired,
                      "{\"conditions\":[{\"type\":\"B\",\"status\":\"x\"},{\"type\":\"A\",\"status\":"
                      "\"True\",\"lastTransitionTime\":\"t\"}]}"));
    assert_false(holds(desired, "{\"conditions\":[{\"type\":\"A\",\"status\":\"False\"}]}"));
    assert_false(holds(desired, "{\"conditions\":[7,null,{\"type\":7}]}"));
    assert_false(holds(desired, "{\"conditions\":\"none\"}"));
}

static void expect_extra_fields(const char *desired, const char *have, const char *patch)
{
    cJSON *a = cJSON_Parse(desired), *b = cJSON_Parse(have), *found = gt_desired_extras(a, b);
    char *text = found ? cJSON_PrintUnformatted(found) : NULL;
    if (patch)
        assert_string_equal(text ? text : "none", patch);
    else
        assert_null(found);
    cJSON_free(text);
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(found);
}

static void test_extra_fields(void **state)
{
    (void)state;
    expect_extra_fields("{\"a\":1}", "{\"a\":2}", NULL);
    expect_extra_fields("{\"a\":1}", "{\"a\":1,\"b\":{\"c\":1}}", "{\"b\":null}");
    expect_extra_fields("{\"a\":{\"x\":1}}", "{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":null}}");
    expect_extra_fields("{\"a\":{\"x\":1}}", "{\"a\":[1]}", NULL); /* the apply replaces it */
    expect_extra_fields("{\"a\":1}", "{\"a\":1,\"observedAt\":\"x\",\"conditions\":[]}", NULL);
    expect_extra_fields("{\"a\":1}", "7", NULL);
}

static void test_stamp(void **state)
{
    cJSON *desired =
        cJSON_Parse("{\"conditions\":[{\"type\":\"A\",\"status\":\"True\"},{\"type\":\"B\",\"status\":"
                    "\"True\"},{\"type\":\"C\",\"status\":\"True\"},{\"type\":\"D\",\"status\":\"True\"}]}");
    cJSON *have =
        cJSON_Parse("{\"conditions\":[{\"type\":\"A\",\"status\":\"True\",\"lastTransitionTime\":\"2020-01-"
                    "01T00:00:00Z\"},"
                    "{\"type\":\"B\",\"status\":\"False\",\"lastTransitionTime\":\"2020-01-01T00:00:00Z\"},"
                    "{\"type\":\"C\",\"status\":\"True\",\"lastTransitionTime\":\"long ago, I think\"}]}");
    const char *want[] = {"2020-01-01T00:00:00Z", "NOW", "NOW", "NOW"};
    (void)state;
    assert_true(gt_desired_stamp(desired, have, "NOW"));
    assert_string_equal(gt_get_string(desired, "observedAt"), "NOW");
    const cJSON *list = cJSON_GetObjectItem(desired, "conditions");
    for (int i = 0; i < 4; i++)
        assert_string_equal(gt_get_string(cJSON_GetArrayItem(list, i), "lastTransitionTime"), want[i]);
    assert_true(gt_desired_stamp(desired, NULL, "LATER"));
    assert_string_equal(gt_get_string(cJSON_GetArrayItem(list, 0), "lastTransitionTime"), "LATER");
    cJSON_Delete(desired);
    cJSON_Delete(have);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_extra_fields),
        cmocka_unit_test(test_stamp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
