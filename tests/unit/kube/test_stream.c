/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_get.h"
#include "kube/internal.h"
#include "kube/watch.h"
#include "tests/unit/seed.h"

struct seen {
    struct gt_buf text; /* lines, each in brackets */
    unsigned count, stop_after;
};

static bool see_line(void *arg, const char *line, size_t len)
{
    struct seen *seen = arg;
    gt_buf_puts(&seen->text, "[");
    gt_buf_add(&seen->text, line, len);
    gt_buf_puts(&seen->text, "]");
    return ++seen->count != seen->stop_after;
}

static bool see_long(void *arg, const char *line, size_t len)
{
    struct seen *seen = arg;
    gt_buf_puts(&seen->text, "long ");
    return see_line(arg, line, len);
}

#define LINES(longest)                                                                                       \
    {                                                                                                        \
        .rest = GT_BUF(longest), .on_line = see_line, .on_long = see_long                                    \
    }

/* However a stream is cut, the lines are the same. */
static void test_lines_in_any_chunks(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntwo three\n{\"a\":1}\n0123456789abcdefghij\nx\n0123456789\nrest";
    srandom((unsigned)test_seed());
    for (unsigned round = 0; round < 2000; round++) {
        struct gt_lines lines = LINES(9);
        struct seen seen = {.text = GT_BUF(1024)};
        for (size_t at = 0; at < sizeof(text) - 1;) {
            size_t n = 1 + (size_t)random() % (sizeof(text) - 1 - at);
            assert_int_equal(gt_lines_feed(&lines, text + at, n, &seen), 0);
            at += n;
        }
        assert_string_equal(seen.text.data,
                            "[one][][two three][{\"a\":1}]long [012345678][x]long [012345678]");
        assert_string_equal(lines.rest.data, "rest");
        gt_lines_reset(&lines);
        gt_buf_done(&seen.text);
    }
}

static void test_long_lines(void **state)
{
    (void)state;
    struct gt_lines lines = LINES(4);
    struct seen seen = {.text = GT_BUF(1024)};
    assert_int_equal(gt_lines_feed(&lines, "1234\n12345\nab", 13, &seen), 0);
    assert_int_equal(gt_lines_feed(&lines, "cde", 3, &seen), 0);
    assert_string_equal(seen.text.data, "[1234]long [1234]long [abcd]");
    assert_int_equal(lines.rest.len, 0); /* what follows is not kept */
    assert_int_equal(gt_lines_feed(&lines, "fghijklmno", 10, &seen), 0);
    assert_int_equal(lines.rest.len, 0);
    assert_int_equal(gt_lines_feed(&lines, "pq\nrs\nt", 7, &seen), 0);
    assert_string_equal(seen.text.data, "[1234]long [1234]long [abcd][rs]");
    assert_int_equal(gt_lines_feed(&lines, "uvwx", 4, &seen), 0);
    gt_lines_reset(&lines); /* a new stream begins with a new line */
    assert_int_equal(gt_lines_feed(&lines, "yz\n", 3, &seen), 0);
    assert_string_equal(seen.text.data, "[1234]long [1234]long [abcd][rs]long [tuvw][yz]");
    gt_lines_reset(&lines);
    gt_buf_done(&seen.text);
}

static void test_stopped_feeding(void **state)
{
    (void)state;
    struct gt_lines lines = LINES(2);
    struct seen seen = {.text = GT_BUF(1024), .stop_after = 2};
    assert_int_equal(gt_lines_feed(&lines, "a\nb\nc\n", 6, &seen), -ECANCELED);
    gt_lines_reset(&lines);
    seen.stop_after = 3;
    assert_int_equal(gt_lines_feed(&lines, "long\nc\n", 7, &seen), -ECANCELED);
    assert_string_equal(seen.text.data, "[a][b]long [lo]");
    gt_buf_done(&seen.text);
    gt_lines_reset(&lines);
}

/* Each member, however early the text ends: as it is, or not at all. */
static void test_glimpse(void **state)
{
    (void)state;
    static const char pod[] =
        "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"x\":[{\"name\":\"no\"},\"]}\\\"\"],"
        "\"metadata\":{\"annotations\":{\"name\":\"no\",\"a\":[]},\"name\":\"one\", \"namespace\" : \"team\","
        "\"uid\":\"u-1\",\"n\":1.5e3,\"resourceVersion\":\"77\",\"labels\":{}},\"spec\":{\"name\":\"no\",";
    for (size_t len = 0; len < sizeof(pod); len++) {
        char *copy = malloc(len ? len : 1);
        struct gt_kube_peek seen;
        memcpy(copy, pod, len);
        gt_kube_peek(copy, len, &seen);
        free(copy);
        const struct {
            const char *text, *whole, *ends;
        } members[] = {{seen.type, "MODIFIED", "MODIFIED\""},
                       {seen.name, "one", "one\""},
                       {seen.namespace_, "team", "team\""},
                       {seen.uid, "u-1", "u-1\""},
                       {seen.resource_version, "77", "77\""}};
        for (size_t i = 0; i < GT_COUNT(members); i++) {
            const char *at = strstr(pod, members[i].ends);
            bool reported = len >= (size_t)(at - pod) + strlen(members[i].ends);
            if (strcmp(members[i].text, reported ? members[i].whole : "") != 0)
                fail_msg("%zu bytes: '%s' of %s", len, members[i].text, members[i].whole);
        }
    }
    static const char *const nothing[] = {"",
                                          "xxxx",
                                          "[",
                                          "null",
                                          "{\"type\":1}",
                                          "{\"object\":[{\"metadata\":{\"name\":\"a\"",
                                          "{\"metadata\":{\"name\":\"a\"}}",
                                          "{\"object\":{\"metadata\":{\"name\":\"a\\u0041\"",
                                          "{\"object\":{\"metadata\":null,\"name\":\"a\"",
                                          "{\"\\",
                                          "{\"a\":}{"};
    for (size_t i = 0; i < GT_COUNT(nothing); i++) {
        struct gt_kube_peek seen;
        gt_kube_peek(nothing[i], strlen(nothing[i]), &seen);
        if (*seen.type || *seen.name)
            fail_msg("%s: '%s' '%s'", nothing[i], seen.type, seen.name);
    }
}

static bool see_item(void *arg, cJSON *item)
{
    const char *name = gt_get_string(item, "n");
    return see_line(arg, name, strlen(name));
}

static void test_pages(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int result;
        const char *seen, *version, *next;
    } cases[] = {
        {"{\"kind\":\"L\",\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"c\"},\"items\":[{\"n\":"
         "\"a\"},"
         " {\"n\":\"]}\\\"\"}]}\n",
         0, "[a][]}\"]", "5", "c"},
        {"{\"items\":[{\"n\":\"a\"}],\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"\"}}", 0, "[a]",
         "5", NULL},
        {" { \"items\" : [ ] , \"metadata\" : { \"resourceVersion\" : \"5\" } , \"x\" : [1,{}] } ", 0, "",
         "5", NULL},
        {"{\"items\":null,\"metadata\":{\"resourceVersion\":\"5\"}}", 0, "", "5", NULL},
        {"{\"items\":[{\"n\":\"a\"}", -EBADMSG, "[a]", NULL, NULL},
        {"{\"items\":[{\"n\":\"a\"},]", -EBADMSG, "[a]", NULL, NULL},
        {"{\"items\":[1],\"metadata\":{\"resourceVersion\":\"5\"}}", -EBADMSG, "", NULL, NULL},
        {"{\"items\":nul", -EBADMSG, "", NULL, NULL},
        {"{\"items\":[],\"items\":[],\"metadata\":{\"resourceVersion\":\"5\"}}", -EBADMSG, "", NULL, NULL},
        {"{\"items\":[]}", -EBADMSG, "", NULL, NULL},
        {"{\"metadata\":{\"resourceVersion\":\"5\"}}", -EBADMSG, "", NULL, NULL},
        {"{\"metadata\":{\"resourceVersion\":5},\"items\":[]}", -EBADMSG, "", NULL, NULL},
        {"{1:2}", -EBADMSG, "", NULL, NULL},
        {"{\"a\"}", -EBADMSG, "", NULL, NULL},
        {"{}", -EBADMSG, "", NULL, NULL},
        {"", -EBADMSG, "", NULL, NULL},
        {"null", -EBADMSG, "", NULL, NULL},
    };
    gt_auto_json_arena struct gt_json_arena *arena = NULL;
    assert_int_equal(gt_json_arena_new(&arena, NULL), 0);
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct seen seen = {.text = GT_BUF(1024)};
        struct gt_kube_page page = {0};
        gt_auto_err struct gt_err *error = NULL;
        gt_buf_puts(&seen.text, "");
        /* Exactly its bytes, so that a sanitizer sees a read beyond them. */
        size_t len = strlen(cases[i].text);
        char *copy = malloc(len ? len : 1);
        memcpy(copy, cases[i].text, len);
        int r = gt_kube_page_read(arena, copy, len, see_item, &seen, &page, &error);
        free(copy);
        if (r != cases[i].result || strcmp(seen.text.data, cases[i].seen) != 0)
            fail_msg("case %zu: %d, '%s', %s", i, r, seen.text.data, gt_err_text(error));
        if (r == 0) {
            assert_string_equal(page.resource_version, cases[i].version);
            assert_int_equal(!page.next, !cases[i].next);
            assert_int_equal(page.items, seen.count);
        }
        gt_kube_page_done(&page);
        gt_buf_done(&seen.text);
    }
}

static void test_stopped_page(void **state)
{
    (void)state;
    static const char text[] =
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"n\":\"a\"},{\"n\":\"b\"},{\"n\":\"c\"}]}";
    struct seen seen = {.text = GT_BUF(1024), .stop_after = 2};
    struct gt_kube_page page = {0};
    gt_auto_json_arena struct gt_json_arena *arena = NULL;
    assert_int_equal(gt_json_arena_new(&arena, NULL), 0);
    assert_int_equal(gt_kube_page_read(arena, text, sizeof(text) - 1, see_item, &seen, &page, NULL),
                     -ECANCELED);
    assert_string_equal(seen.text.data, "[a][b]");
    assert_null(page.resource_version);
    gt_buf_done(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_in_any_chunks), cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_stopped_feeding),     cmocka_unit_test(test_pages),
        cmocka_unit_test(test_stopped_page),        cmocka_unit_test(test_glimpse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
