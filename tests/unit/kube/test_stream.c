/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kube/lines.h"
#include "kube/page.h"
#include "kube/status.h"

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

/* However a stream is cut, the lines are the same. */
static void test_lines_in_any_chunks(void **state)
{
    (void)state;
    static const char text[] = "one\n\ntwo three\n{\"a\":1}\nrest";
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srandom(seed);
    for (unsigned round = 0; round < 2000; round++) {
        struct gt_lines lines = {.rest = GT_BUF(9)};
        struct seen seen = {.text = GT_BUF(1024)};
        for (size_t at = 0; at < sizeof(text) - 1;) {
            size_t n = 1 + (size_t)random() % (sizeof(text) - 1 - at);
            assert_int_equal(gt_lines_feed(&lines, text + at, n, see_line, &seen), 0);
            at += n;
        }
        assert_string_equal(seen.text.data, "[one][][two three][{\"a\":1}]");
        assert_string_equal(lines.rest.data, "rest");
        gt_lines_reset(&lines);
        gt_buf_done(&seen.text);
    }
}

static void test_long_lines(void **state)
{
    (void)state;
    struct gt_lines lines = {.rest = GT_BUF(4)};
    struct seen seen = {.text = GT_BUF(1024)};
    assert_int_equal(gt_lines_feed(&lines, "1234\n", 5, see_line, &seen), 0);
    assert_int_equal(gt_lines_feed(&lines, "12345\n", 6, see_line, &seen), -EFBIG);
    assert_int_equal(gt_lines_feed(&lines, "12", 2, see_line, &seen), 0);
    assert_int_equal(gt_lines_feed(&lines, "345", 3, see_line, &seen), -EFBIG);
    gt_lines_reset(&lines);
    assert_int_equal(gt_lines_feed(&lines, "12", 2, see_line, &seen), 0);
    assert_int_equal(gt_lines_feed(&lines, "345\n", 4, see_line, &seen), -EFBIG);
    gt_lines_reset(&lines);
    assert_string_equal(seen.text.data, "[1234]");
    gt_buf_done(&seen.text);
}

static void test_stopped_feeding(void **state)
{
    (void)state;
    struct gt_lines lines = {.rest = GT_BUF(64)};
    struct seen seen = {.text = GT_BUF(1024), .stop_after = 2};
    assert_int_equal(gt_lines_feed(&lines, "a\nb\nc\n", 6, see_line, &seen), -ECANCELED);
    assert_string_equal(seen.text.data, "[a][b]");
    gt_buf_done(&seen.text);
    gt_lines_reset(&lines);
}

static bool see_item(void *arg, cJSON *item)
{
    const char *name = gt_kube_text(item, "n");
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
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct seen seen = {.text = GT_BUF(1024)};
        struct gt_kube_page page = {0};
        gt_auto_err struct gt_err *error = NULL;
        gt_buf_puts(&seen.text, "");
        /* Exactly its bytes, so that a sanitizer sees a read beyond them. */
        size_t len = strlen(cases[i].text);
        char *copy = malloc(len ? len : 1);
        memcpy(copy, cases[i].text, len);
        int r = gt_kube_page_read(copy, len, see_item, &seen, &page, &error);
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
    assert_int_equal(gt_kube_page_read(text, sizeof(text) - 1, see_item, &seen, &page, NULL), -ECANCELED);
    assert_string_equal(seen.text.data, "[a][b]");
    assert_null(page.resource_version);
    gt_buf_done(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_in_any_chunks), cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_stopped_feeding),     cmocka_unit_test(test_pages),
        cmocka_unit_test(test_stopped_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
