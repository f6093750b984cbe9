/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/isolation.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/text.h"

static int read_text(const char *list, struct gt_isolations *ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(16384);
    gt_auto_json cJSON *json = NULL;
    gt_buf_printf(&text, "{\"metadata\": {\"uid\": \"u\"}, \"spec\": {\"isolated\": %s}}", list);
    assert_int_equal(gt_json_parse(text.data, text.len, "test", &json, NULL), 0);
    return gt_isolations_read(json, ret, err);
}

static void what_is_read_is_written(void **state)
{
    (void)state;
    struct gt_isolations made, again;
    gt_auto_buf struct gt_buf text = GT_BUF(16384);
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(
        read_text("[{\"gpu\": \"GPU-1\", \"reason\": \"x\", \"until\": \"2026-01-01T00:00:00Z\"},"
                  " {\"link\": [\"0\", \"1\"], \"reason\": \"y\", \"grade\": \"bad\"},"
                  " {\"all\": true, \"reason\": \"z\", \"evict\": true}]",
                  &made, NULL),
        1);
    assert_int_equal(made.count, 3);
    assert_string_equal(made.object, "u");
    gt_isolations_write(&made, &text);
    assert_int_equal(gt_json_parse(text.data, text.len, "test", &json, NULL), 0);
    assert_int_equal(gt_isolations_read(json, &again, NULL), 1);
    assert_true(gt_isolations_equal(&made, &again));
    again.of[2].evicts = false;
    assert_false(gt_isolations_equal(&made, &again));
}

static void a_grade_takes_nothing_out(void **state)
{
    (void)state;
    struct gt_isolations made, again;
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(16384);
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(
        read_text("[{\"all\": true, \"grade\": \"suspect\", \"reason\": \"old firmware\"},"
                  " {\"gpu\": \"1\", \"grade\": \"slow\", \"value\": \"70 %\", \"reason\": \"x\"},"
                  " {\"gpu\": \"1\", \"grade\": \"suspect\", \"reason\": \"y\"},"
                  " {\"gpu\": \"2\", \"reason\": \"z\"}]",
                  &made, NULL),
        1);
    gt_isolations_write(&made, &text);
    assert_int_equal(gt_json_parse(text.data, text.len, "test", &json, NULL), 0);
    assert_int_equal(gt_isolations_read(json, &again, NULL), 1);
    again.object[0] = made.object[0];
    assert_true(gt_isolations_equal(&made, &again));
    again.of[1].grade = GT_GRADE_SUSPECT;
    assert_false(gt_isolations_equal(&made, &again));
    assert_int_equal(gt_node_new(3, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 3; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:0%u:00.0", i);
    assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
    assert_int_equal(gt_node_usable(node), 3);
    assert_int_equal(gt_node_graded(node), 3);
    assert_int_equal(node->gpus[0].grade, GT_GRADE_SUSPECT);
    assert_string_equal(node->gpus[0].grade_reason, "old firmware");
    assert_int_equal(node->gpus[1].grade, GT_GRADE_SLOW);
    assert_string_equal(node->gpus[1].grade_reason, "70 %: x");
    for (unsigned i = 0; i < 36; i++) {
        memcpy(made.of[0].reason + 3 * i, "\xe6\xb5\x8b", 4);
        memcpy(made.of[0].value + 3 * (i % 20), "\xe6\xb5\x8b", 4);
    }
    node->gpus[0].grade = GT_GRADE_NONE;
    assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
    assert_int_equal(strlen(node->gpus[0].grade_reason),
                     20 * 3 + 2 + 20 * 3 + 3); /* whole characters, and "..." */
    assert_null(strchr(node->gpus[0].grade_reason, '?'));
}

/* The API server counts characters: 100 of three bytes each are no reason to refuse the list. */
static void a_reason_in_another_language(void **state)
{
    (void)state;
    struct gt_isolations made;
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf list = GT_BUF(1024);
    gt_buf_puts(&list, "[{\"all\": true, \"evict\": true, \"reason\": \"");
    for (unsigned i = 0; i < 100; i++)
        gt_buf_puts(&list, "\u6d4b");
    gt_buf_puts(&list, "\"}]");
    assert_int_equal(read_text(list.data, &made, NULL), 1);
    assert_int_equal(strlen(made.of[0].reason) % 3, 0);
    assert_int_equal(gt_node_new(1, 0, &node, NULL), 0);
    gt_text_copy(node->gpus[0].bdf, sizeof(node->gpus[0].bdf), "0000:00:00.0");
    assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
    assert_int_equal((strlen(node->gpus[0].unhealthy_reason) - strlen(GT_ISOLATED_EVICT)) % 3, 0);
}

static void absent_and_empty(void **state)
{
    (void)state;
    struct gt_isolations made;
    gt_auto_json cJSON *json = cJSON_Parse("{\"metadata\": {\"uid\": \"u\"}}");
    assert_int_equal(gt_isolations_read(json, &made, NULL), 0);
    assert_int_equal(read_text("[]", &made, NULL), 1);
    assert_int_equal(made.count, 0);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{}", "spec.isolated"},
        {"[1]", "spec.isolated[0]: expected one of gpu, link and all"},
        {"[{\"reason\": \"x\"}]", "spec.isolated[0]: expected one of gpu, link and all"},
        {"[{\"all\": true, \"gpu\": \"1\"}]", "spec.isolated[0]: expected one of gpu, link and all"},
        {"[{\"all\": true}, {\"link\": [\"1\"]}]", "spec.isolated[1].link: expected two GPUs"},
        {"[{\"link\": [\"1\", 2]}]", "link[1]"},
        {"[{\"all\": true, \"until\": \"soon\"}]", "'soon' is no time"},
        {"[{\"all\": 1}]", "spec.isolated[0].all"},
        {"[{\"all\": true, \"grade\": \"slwo\"}]", "'slwo' is none of bad, slow, suspect"},
        {"[{\"all\": true, \"grade\": \"slow\", \"evict\": true}]", "without link and evict"},
    };
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_isolations made = {.count = 7};
        assert_int_equal(read_text(wrong[i][0], &made, &err), -EINVAL);
        assert_non_null(strstr(gt_err_text(err), wrong[i][1]));
        assert_int_equal(made.count, 7);
    }
}

/* What several files say is one list; a file that is wrong adds nothing to it. */
static void files_of_faults(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{}", "version: 0 is not known here, 1 is"},
        {"{\"version\": 2, \"faults\": [{\"all\": true}]}", "version: 2 is not known here, 1 is"},
        {"{\"version\": 1}", "fault file: faults: is not there"},
        {"{\"version\": 1, \"faults\": {}}", "fault file: faults"},
        {"{\"version\": 1, \"faults\": [{\"all\": true}, {\"gpu\": 1}]}", "faults[1].gpu"},
    };
    struct gt_isolations made = {0};
    for (unsigned i = 1; i <= 3; i++) {
        gt_auto_json cJSON *good =
            cJSON_Parse("{\"version\": 1, \"faults\": [{\"gpu\": \"3\", \"reason\": \"x\"}]}");
        assert_int_equal(gt_fault_list_read(good, &made, NULL), 1);
        assert_int_equal(made.count, i);
    }
    assert_string_equal(made.of[2].gpu, "3");
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_json cJSON *file = cJSON_Parse(wrong[i][0]);
        assert_int_equal(gt_fault_list_read(file, &made, &err), -EINVAL);
        assert_non_null(strstr(gt_err_text(err), wrong[i][1]));
        assert_int_equal(made.count, 3);
    }
}

static void too_many(void **state)
{
    (void)state;
    struct gt_isolations made = {0};
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf list = GT_BUF(8192);
    for (unsigned i = 0; i <= GT_ISOLATIONS_MAX; i++)
        gt_buf_puts(&list, i ? ", {\"all\": true}" : "[{\"all\": true}");
    gt_buf_puts(&list, "]");
    assert_int_equal(read_text(list.data, &made, &err), -EINVAL);
}

/* Also after the end: the clock may be set back, and forward again. */
static void which_are_over_and_when_to_ask_again(void **state)
{
    (void)state;
    struct gt_isolations made = {.count = 4,
                                 .of = {{.until_s = 50}, {.until_s = 0}, {.until_s = 200}, {.until_s = 150}}};
    unsigned again_s;
    assert_int_equal(gt_isolations_over(&made, 20, &again_s), 0);
    assert_int_equal(again_s, 30);
    assert_int_equal(gt_isolations_over(&made, 60, &again_s), 1);
    assert_int_equal(again_s, 60);
    assert_int_equal(gt_isolations_over(&made, 149, &again_s), 1);
    assert_int_equal(again_s, 1);
    assert_int_equal(gt_isolations_over(&made, 200, &again_s), 13);
    assert_int_equal(again_s, 60);
    assert_int_equal(gt_isolations_over(&made, 20 + 864000, &again_s), 13); /* ten days ahead, and back */
    assert_int_equal(again_s, 60);
    assert_int_equal(gt_isolations_over(&made, 20, &again_s), 0);
    made = (struct gt_isolations){.count = 1};
    assert_int_equal(gt_isolations_over(&made, 200, &again_s), 0);
    assert_int_equal(again_s, 0);
}

static void only_those_whose_pods_stay(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(4, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:0%u:00.0", i);
    node->gpus[3].health = GT_GPU_UNHEALTHY;
    gt_text_copy(node->gpus[3].unhealthy_reason, sizeof(node->gpus[3].unhealthy_reason), "hot");
    struct gt_isolations made = {.count = 4,
                                 .of = {{.gpu = "0", .reason = "a"},
                                        {.gpu = "0000:01:00.0", .reason = "b", .evicts = true},
                                        {.gpu = "2", .reason = "over", .until_s = 5},
                                        {.gpu = "3", .reason = "too"}}};
    assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
    assert_int_equal(gt_node_usable(node), 4);
    assert_int_equal(gt_node_isolated(node), 1);
    assert_string_equal(node->gpus[1].unhealthy_reason, "isolated, pods leave: b");
    assert_string_equal(node->gpus[3].unhealthy_reason, "hot");
}

/* What comes for the second time in a minute is held for ten seconds after it has gone, then twice as long.
 */
static void what_comes_and_goes_is_held(void **state)
{
    const struct gt_flapping_rule rule = {.falls = 2, .within_s = 60, .hold_s = 10, .hold_max_s = 15};
    static struct gt_isolation_damper damper;
    static struct gt_isolations told, ret;
    const struct gt_isolations none = {0};
    uint64_t now = 1000;
    (void)state;
    told = (struct gt_isolations){.count = 2,
                                  .of = {{.gpu = "0", .reason = "it fails"}, {.gpu = "1", .reason = "70 %"}}};
    told.of[1].grade = GT_GRADE_SLOW;
    for (unsigned fall = 0; fall < 4; fall++) {
        const unsigned holds[] = {0, 10, 15, 15};
        gt_isolations_damp(&damper, &rule, &told, now++, &ret);
        assert_int_equal(ret.of[0].hold_s, holds[fall]);
        ret.of[0].hold_s = 0;
        assert_true(gt_isolations_equal(&ret, &told));
        told.of[0].until_s = 5; /* another entry of that GPU */
        gt_isolations_damp(&damper, &rule, &told, now++, &ret);
        told.of[0].until_s = 0;
        for (unsigned second = 0; second < holds[fall]; second++) {
            gt_isolations_damp(&damper, &rule, &none, now++, &ret);
            assert_int_equal(ret.count, 1);
            assert_string_equal(ret.of[0].gpu, "0");
            assert_int_equal(ret.of[0].until_s, 0);
            assert_non_null(strstr(ret.of[0].reason, fall == 1 ? "has to be away for 10 s; last: it fails"
                                                               : "has to be away for 15 s; last: it fails"));
        }
        gt_isolations_damp(&damper, &rule, &none, now++, &ret);
        assert_int_equal(ret.count, 0);
    }
    gt_isolations_damp(&damper, &rule, &none, now + 100, &ret);
    assert_int_equal(damper.count, 0);
    gt_isolations_damp(&damper, &rule, &told, now + 101, &ret);
    gt_isolations_damp(&damper, &rule, &none, now + 102, &ret);
    assert_int_equal(ret.count, 0);
}

/* What is held goes on in another process, by what was written. */
static void what_is_held_goes_on(void **state)
{
    const struct gt_flapping_rule rule = {.falls = 3, .within_s = 60, .hold_s = 10, .hold_max_s = 100};
    static struct gt_isolation_damper damper;
    static struct gt_isolations told, before, ret;
    const struct gt_isolations none = {0};
    char reason[GT_ISOLATION_REASON_SIZE];
    gt_auto_buf struct gt_buf text = GT_BUF(4 << 10);
    gt_auto_json cJSON *json = NULL;
    (void)state;
    told = (struct gt_isolations){.count = 4,
                                  .of = {{.gpu = "0", .reason = "it fails", .hold_s = 20},
                                         {.gpu = "1", .reason = "so does it"},
                                         {.gpu = "0", .reason = "twice", .hold_s = 20},
                                         {.gpu = "2", .reason = "slow", .hold_s = 20}}};
    told.of[3].grade = GT_GRADE_SLOW;
    gt_isolations_write(&told, &text);
    assert_int_equal(gt_json_parse(text.data, text.len, "text", &json, NULL), 0);
    assert_true(gt_isolations_read(json, &before, NULL) > 0 && gt_isolations_equal(&before, &told));
    gt_isolations_restore(&damper, &rule, &before);
    for (uint64_t now = 100; now < 120; now++) {
        gt_isolations_damp(&damper, &rule, &none, now, &ret);
        assert_int_equal(ret.count, 1);
        assert_string_equal(ret.of[0].gpu, "0");
        assert_int_equal(ret.of[0].hold_s, 20);
    }
    snprintf(reason, sizeof(reason), "%s", ret.of[0].reason);
    assert_string_equal(reason, "came again and again, has to be away for 20 s; last: it fails");
    damper.count = 0;
    gt_isolations_restore(&damper, &rule, &ret); /* a third process says the same */
    gt_isolations_damp(&damper, &rule, &none, 200, &ret);
    assert_string_equal(ret.of[0].reason, reason);
    gt_isolations_damp(&damper, &rule, &none, 220, &ret);
    assert_int_equal(ret.count, 0);
    told.count = 1;
    gt_isolations_damp(&damper, &rule, &told, 221, &ret);
    assert_int_equal(ret.of[0].hold_s, 40); /* and so it goes on to double */
    told.of[0].hold_s = 0;
    gt_isolations_damp(&damper, &rule, &told, 222, &ret);
    assert_int_equal(ret.of[0].hold_s, 40);
}

static void links_that_there_are(void **state)
{
    (void)state;
    gt_auto_node struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(3, 0, &node, NULL), 0);
    for (unsigned i = 0; i < 3; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:0%u:00.0", i);
    gt_node_link(node, 0, 1)->kind = GT_LINK_MX;
    gt_node_link(node, 0, 2)->kind = gt_node_link(node, 0, 2)->path_kind = GT_LINK_NODE;
    struct gt_isolations made = {.count = 4,
                                 .of = {{.gpu = "1", .peer = "0"},
                                        {.gpu = "0", .peer = "2"},
                                        {.gpu = "0", .peer = "0"},
                                        {.gpu = "GPU-gone", .peer = "1"}}};
    assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
    assert_int_equal(gt_node_link(node, 0, 1)->state, GT_LINK_STATE_DOWN);
    assert_int_equal(gt_node_link(node, 0, 2)->state, GT_LINK_STATE_UNKNOWN);
    assert_int_equal(gt_node_usable(node), 7);
}

/* In any order: pods leave where one of the entries about their GPU says so. */
static void the_stricter_of_two_counts(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 2; order++) {
        gt_auto_node struct gt_node *node = NULL;
        assert_int_equal(gt_node_new(2, 0, &node, NULL), 0);
        gt_text_copy(node->gpus[0].bdf, sizeof(node->gpus[0].bdf), "0000:00:00.0");
        gt_text_copy(node->gpus[1].bdf, sizeof(node->gpus[1].bdf), "0000:01:00.0");
        struct gt_isolations made = {.count = 2};
        made.of[order] = (struct gt_isolation){.gpu = "1", .reason = "ticket"};
        made.of[!order] = (struct gt_isolation){.reason = "burn-in", .evicts = true};
        assert_int_equal(gt_isolations_apply(&made, 10, node, NULL), 0);
        assert_int_equal(gt_node_isolated(node), 0);
        assert_string_equal(node->gpus[0].unhealthy_reason, "isolated, pods leave: burn-in");
        assert_string_equal(node->gpus[1].unhealthy_reason, "isolated, pods leave: burn-in");
    }
}

/* ---- GPUs that are in another node now ---- */

/* `gpus`: [{"uuid": ..., "health": ...}]. */
static cJSON *moved_object(const char *list, const char *gpus)
{
    gt_auto_buf struct gt_buf text = GT_BUF(16384);
    cJSON *json = NULL, *gpu;
    int index = 0;
    gt_buf_printf(
        &text,
        "{\"metadata\": {\"name\": \"n\", \"resourceVersion\": \"1\"}, \"spec\": {\"isolated\": %s},"
        " \"status\": {\"gpus\": %s, \"links\": [], \"nics\": []}}",
        list, gpus);
    assert_int_equal(gt_json_parse(text.data, text.len, "test", &json, NULL), 0);
    cJSON_ArrayForEach(gpu, gt_get_at(json, "status", "gpus"))
    {
        char bdf[32];
        snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", 16 + index);
        cJSON_AddNumberToObject(gpu, "index", index++);
        cJSON_AddStringToObject(gpu, "bdf", bdf);
    }
    return json;
}

#define MOVED_A "{\"uuid\": \"GPU-aaaaaaaa\", \"health\": \"healthy\"}"
#define MOVED_B "{\"uuid\": \"GPU-bbbbbbbb\", \"health\": \"healthy\"}"
#define MOVED_ENTRY(more)                                                                                    \
    "{\"gpu\": \"GPU-AAAAAAAA\", \"reason\": \"hot\", \"by\": \"alice\", \"since\": "                        \
    "\"2026-01-01T00:00:00Z\"" more "}"

/* How many entries are added, and stay in the old list. */
static void check_move(const char *old, const char *old_gpus, const char *new, const char *new_gpus,
                       bool is_silent, int added, int stay)
{
    gt_auto_json cJSON *from = moved_object(old, old_gpus), *to = moved_object(new, new_gpus);
    gt_auto_isolated_move struct gt_isolated_move move = {0};
    const struct gt_isolated_moving moving = {from, to, is_silent, 1767225600 + 86400};
    assert_int_equal(gt_isolated_move_make(&moving, &move, NULL), 0);
    assert_int_equal(cJSON_GetArraySize(move.added), added);
    assert_int_equal(cJSON_GetArraySize(move.to), cJSON_GetArraySize(gt_isolated_entries(to)) + added);
    assert_int_equal(cJSON_GetArraySize(move.from), stay);
    assert_int_equal(move.leaves, stay < cJSON_GetArraySize(gt_isolated_entries(from)));
    for (const cJSON *entry = move.added->child; entry; entry = entry->next) /* as it was written */
        assert_true(cJSON_Compare(entry, gt_isolated_entries(from)->child, true));
}

static void an_entry_follows_its_gpu(void **state)
{
    (void)state;
    static const char one[] = "[" MOVED_ENTRY("") "]", none[] = "[]";
    static const char isolated[] =
        "[{\"uuid\": \"GPU-aaaaaaaa\", \"health\": \"unhealthy\", \"unhealthyReason\": \"isolated: hot\"}]";
    check_move(one, "[" MOVED_B "]", none, "[" MOVED_A "]", false, 1, 1);
    check_move(one, "[" MOVED_B "]", one, "[" MOVED_A "]", false, 0, 1); /* it is not obeyed yet */
    check_move(one, "[" MOVED_B "]", one, isolated, false, 0, 0);
    check_move(one, "[" MOVED_B "]", none, isolated, false, 1, 1);        /* unhealthy for another reason */
    check_move(one, "[" MOVED_A "]", none, "[" MOVED_A "]", false, 0, 1); /* two of one UUID: which is it? */
    check_move(one, "[" MOVED_A "]", none, "[" MOVED_A "]", true, 1, 1);
    check_move(one, "[" MOVED_A "]", one, isolated, true, 0, 1); /* until the old node's agent says so */
    check_move(one, "[" MOVED_B "]", none, "[" MOVED_B "]", false, 0, 1);
}

static void some_entries_follow_nothing(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf full = GT_BUF(16384);
    check_move("[" MOVED_ENTRY(", \"until\": \"2026-01-01T12:00:00Z\"") "]", "[]", "[]", "[" MOVED_A "]",
               false, 0, 1);
    check_move("[" MOVED_ENTRY(", \"until\": \"2026-01-02T00:00:01Z\"") "]", "[]", "[]", "[" MOVED_A "]",
               false, 1, 1);
    check_move("[{\"gpu\": \"0\", \"reason\": \"x\"}, {\"gpu\": \"0000:10:00.0\", \"reason\": \"x\"},"
               " {\"gpu\": \"PCI-0000:10:00.0\", \"reason\": \"x\"}, {\"all\": true, \"reason\": \"x\"}]",
               "[]", "[]", "[" MOVED_A "]", false, 0, 4);
    gt_buf_puts(&full, "[");
    for (unsigned i = 0; i < GT_ISOLATIONS_MAX; i++)
        gt_buf_printf(&full, "%s{\"gpu\": \"%u\", \"reason\": \"x\"}", i ? ", " : "", i);
    gt_buf_puts(&full, "]");
    check_move("[" MOVED_ENTRY("") "]", "[]", full.data, "[" MOVED_A "]", false, 0, 1);
}

/* As with `gputopo isolate` on one node. */
static void a_later_word_replaces_the_first(void **state)
{
    (void)state;
    static const char later[] = "[{\"gpu\": \"GPU-aaaaaaaa\", \"reason\": \"x\", \"grade\": \"slow\","
                                " \"since\": \"2026-01-01T00:00:01Z\"}]";
    static const char before[] = "[{\"gpu\": \"GPU-aaaaaaaa\", \"reason\": \"x\", \"grade\": \"slow\","
                                 " \"since\": \"2025-12-31T23:59:59Z\"}]";
    static const char graded[] =
        "[{\"uuid\": \"GPU-aaaaaaaa\", \"health\": \"healthy\", \"grade\": \"slow\"}]";
    static const char one[] = "[" MOVED_ENTRY("") "]";
    check_move(one, "[]", later, "[" MOVED_A "]", false, 0, 1);
    check_move(one, "[]", later, graded, false, 0, 0);
    check_move(one, "[]", before, graded, false, 1, 1);
    check_move("[{\"gpu\": \"GPU-aaaaaaaa\", \"reason\": \"no time\"}]", "[]", later, graded, false, 1, 1);
}

static void a_link_and_a_grade_follow(void **state)
{
    (void)state;
    static const char link[] = "[{\"link\": [\"GPU-aaaaaaaa\", \"GPU-bbbbbbbb\"], \"reason\": \"x\"}]";
    static const char slow[] = "[" MOVED_ENTRY(", \"grade\": \"slow\"") "]";
    static const char graded[] =
        "[{\"uuid\": \"GPU-aaaaaaaa\", \"health\": \"healthy\", \"grade\": \"slow\"}]";
    check_move(link, "[]", "[]", "[" MOVED_A "]", false, 0, 1); /* only one of the two is there */
    check_move(link, "[]", "[]", "[" MOVED_A ", " MOVED_B "]", false, 1, 1);
    check_move(link, "[]", link, "[" MOVED_A ", " MOVED_B "]", false, 0, 0); /* not linked there */
    check_move(slow, "[]", "[]", "[" MOVED_A "]", false, 1, 1);
    check_move(slow, "[]", slow, "[" MOVED_A "]", false, 0, 1);
    check_move(slow, "[]", slow, graded, false, 0, 0);
}

static void what_is_released_meanwhile_is_taken_back(void **state)
{
    (void)state;
    static const char one[] = "[" MOVED_ENTRY("") "]", later[] = "[" MOVED_ENTRY(", \"value\": \"1\"") "]";
    gt_auto_json cJSON *added = cJSON_Parse(one);
    gt_auto_json cJSON *to = moved_object("[{\"gpu\": \"0\", \"reason\": \"x\"}, " MOVED_ENTRY("") "]", "[]");
    gt_auto_json cJSON *has = moved_object(one, "[]"), *released = moved_object("[]", "[]");
    gt_auto_json cJSON *changed = moved_object(later, "[]");
    assert_null(gt_isolated_take_back(has, to, added));
    gt_auto_json cJSON *left = gt_isolated_take_back(released, to, added);
    assert_int_equal(cJSON_GetArraySize(left), 1);
    gt_auto_json cJSON *again = gt_isolated_take_back(changed, to, added);
    assert_int_equal(cJSON_GetArraySize(again), 1);
    assert_null(gt_isolated_take_back(released, released, added));
    gt_auto_json cJSON *made_again = cJSON_Parse("{\"metadata\": {\"name\": \"n1\"}}");
    assert_null(gt_isolated_take_back(made_again, to, added));
}

static unsigned moved_left;

static void *moved_malloc(size_t size)
{
    return moved_left && --moved_left == 0 ? NULL : malloc(size);
}

/* It fails as a whole, or is done as a whole. */
static void no_entry_is_lost_without_memory(void **state)
{
    (void)state;
    gt_auto_json cJSON *from =
        moved_object("[" MOVED_ENTRY("") ", {\"all\": true, \"reason\": \"x\"}]", "[]");
    gt_auto_json cJSON *to = moved_object("[{\"gpu\": \"0\", \"reason\": \"x\"}]", "[" MOVED_A "]");
    const struct gt_isolated_moving moving = {from, to, false, 1};
    unsigned failed = 0;
    for (int r = -1; r < 0; failed++) {
        gt_auto_isolated_move struct gt_isolated_move move = {0};
        cJSON_InitHooks(&(cJSON_Hooks){moved_malloc, free});
        moved_left = failed + 1;
        r = gt_isolated_move_make(&moving, &move, NULL);
        moved_left = 0;
        cJSON_InitHooks(NULL);
        assert_true(r == 0 || (r == -ENOMEM && !move.to && !move.from && !move.added));
        assert_int_equal(cJSON_GetArraySize(move.to), r == 0 ? 2 : 0);
        assert_int_equal(cJSON_GetArraySize(move.from), r == 0 ? 2 : 0);
    }
    assert_true(failed > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(absent_and_empty),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(too_many),
        cmocka_unit_test(files_of_faults),
        cmocka_unit_test(which_are_over_and_when_to_ask_again),
        cmocka_unit_test(only_those_whose_pods_stay),
        cmocka_unit_test(what_comes_and_goes_is_held),
        cmocka_unit_test(what_is_held_goes_on),
        cmocka_unit_test(links_that_there_are),
        cmocka_unit_test(the_stricter_of_two_counts),
        cmocka_unit_test(a_grade_takes_nothing_out),
        cmocka_unit_test(a_reason_in_another_language),
        cmocka_unit_test(an_entry_follows_its_gpu),
        cmocka_unit_test(some_entries_follow_nothing),
        cmocka_unit_test(a_later_word_replaces_the_first),
        cmocka_unit_test(a_link_and_a_grade_follow),
        cmocka_unit_test(what_is_released_meanwhile_is_taken_back),
        cmocka_unit_test(no_entry_is_lost_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
