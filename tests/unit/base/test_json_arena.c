/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_arena.h"
#include "base/json_get.h"

static int make(void **state)
{
    struct gt_json_arena *arena;
    if (gt_json_arena_new(&arena, NULL) < 0)
        return -1;
    *state = arena;
    return 0;
}

static int end(void **state)
{
    gt_json_arena_free(*state);
    return 0;
}

static cJSON *parse(struct gt_json_arena *arena, const char *text)
{
    return gt_json_arena_parse(arena, text, strlen(text), NULL);
}

/* The next object takes the place of the one before. */
static void objects_take_one_place(void **state)
{
    uintptr_t first = 0;
    for (unsigned i = 0; i < 1000; i++) {
        cJSON *json = parse(*state, "{\"name\":\"a\",\"list\":[1,2,{\"b\":null}]}");
        assert_string_equal(gt_get_string(json, "name"), "a");
        assert_int_equal(cJSON_GetArraySize(gt_get(json, "list")), 3);
        if (!first)
            first = (uintptr_t)json;
        assert_true((uintptr_t)json == first);
        gt_json_arena_delete(*state, json);
    }
}

static void one_may_be_changed(void **state)
{
    cJSON *json = parse(*state, "{\"a\":\"x\",\"b\":{\"c\":1}}");
    cJSON *copy = cJSON_Duplicate(json, true);
    cJSON_DeleteItemFromObjectCaseSensitive(json, "b");
    assert_non_null(cJSON_AddStringToObject(json, "d", "added"));
    assert_non_null(cJSON_SetValuestring(cJSON_GetObjectItemCaseSensitive(json, "a"), "longer than before"));
    char *text = cJSON_PrintUnformatted(json);
    assert_string_equal(text, "{\"a\":\"longer than before\",\"d\":\"added\"}");
    cJSON_free(text);
    gt_json_arena_delete(*state, json);
    text = cJSON_PrintUnformatted(copy); /* the copy stays valid */
    assert_string_equal(text, "{\"a\":\"x\",\"b\":{\"c\":1}}");
    cJSON_free(text);
    cJSON_Delete(copy);
}

static void a_second_one_meanwhile(void **state)
{
    gt_auto_json_arena struct gt_json_arena *other = NULL;
    assert_int_equal(gt_json_arena_new(&other, NULL), 0);
    cJSON *first = parse(*state, "[1,\"one\"]"), *second = parse(*state, "[2,\"two\"]");
    cJSON *third = parse(other, "[3,\"three\"]"), *plain = cJSON_Parse("[4]");
    gt_json_arena_delete(*state, first);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(second, 1)), "two");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(third, 1)), "three");
    gt_json_arena_delete(*state, second);
    gt_json_arena_delete(other, third);
    cJSON_Delete(plain);
}

static void one_that_does_not_fit(void **state)
{
    enum { COUNT = 20000 };
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, "[0");
    for (unsigned i = 1; i < COUNT; i++)
        gt_buf_printf(&text, ",\"%u\"", i);
    gt_buf_puts(&text, "]");
    for (unsigned round = 0; round < 2; round++) {
        cJSON *json = parse(*state, text.data), *item;
        assert_int_equal(cJSON_GetArraySize(json), COUNT);
        unsigned i = 0;
        cJSON_ArrayForEach(item, json)
        {
            char number[12];
            snprintf(number, sizeof(number), "%u", i);
            if (i++)
                assert_string_equal(cJSON_GetStringValue(item), number);
        }
        gt_json_arena_delete(*state, json);
    }
}

static void what_is_no_json(void **state)
{
    static const char *const texts[] = {"", "{", "{\"a\":\"b\",", "[1,2", "nothing"};
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        cJSON *json = parse(*state, texts[i]);
        assert_null(json);
        gt_json_arena_delete(*state, json);
    }
    objects_take_one_place(state);
}

static void the_rest_of_a_text(void **state)
{
    static const char text[] = "{\"a\":1},{\"b\":2}";
    const char *rest;
    cJSON *json = gt_json_arena_parse(*state, text, strlen(text), &rest);
    assert_string_equal(rest, ",{\"b\":2}");
    gt_json_arena_delete(*state, json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(objects_take_one_place, make, end),
        cmocka_unit_test_setup_teardown(one_may_be_changed, make, end),
        cmocka_unit_test_setup_teardown(a_second_one_meanwhile, make, end),
        cmocka_unit_test_setup_teardown(one_that_does_not_fit, make, end),
        cmocka_unit_test_setup_teardown(what_is_no_json, make, end),
        cmocka_unit_test_setup_teardown(the_rest_of_a_text, make, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
