/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* What was logged: stderr goes to a pipe meanwhile. */
static int saved = -1, ends[2] = {-1, -1};
static char text[40000];

static void begin(void)
{
    assert_int_equal(pipe(ends), 0);
    saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
}

static const char *end(void)
{
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* The line behind its time, which is checked for its form alone. */
static const char *after_time(const char *line)
{
    static const char form[] = "0000-00-00T00:00:00.000Z ";
    assert_true(strlen(line) > strlen(form));
    for (unsigned i = 0; form[i]; i++) {
        if (form[i] == '0')
            assert_in_range(line[i], '0', '9');
        else
            assert_int_equal(line[i], form[i]);
    }
    return line + strlen(form);
}

static void as_text(void **state)
{
    (void)state;
    gt_log_setup(GT_LOG_INFO, GT_LOG_TEXT);
    begin();
    gt_info("registered", GT_STR("resource", "metax-tech.com/gpu"), GT_INT("gpus", -8), GT_BOOL("again", 7));
    assert_string_equal(after_time(end()),
                        "info registered resource=metax-tech.com/gpu gpus=-8 again=true\n");
    begin();
    gt_error("bad", GT_STR("why", "two words\n\"x\"=\\"), GT_STR("empty", ""), GT_STR("null", NULL));
    assert_string_equal(after_time(end()),
                        "error bad why=\"two words\\n\\\"x\\\"=\\\\\" empty=\"\" null=\"\"\n");
    begin();
    gt_warning("alone");
    assert_string_equal(after_time(end()), "warning alone\n");
    begin();
    gt_debug("not shown");
    assert_string_equal(end(), "");
}

static void as_json(void **state)
{
    (void)state;
    gt_log_setup(GT_LOG_DEBUG, GT_LOG_JSON);
    begin();
    gt_debug("e \"v\"", GT_STR("k", "a\nb\xff"), GT_INT("n", 1LL << 60), GT_BOOL("b", false));
    const char *line = end();
    assert_memory_equal(line, "{\"time\":\"", 9);
    assert_string_equal(strstr(line, "\"level\""),
                        "\"level\":\"debug\",\"event\":\"e \\\"v\\\"\",\"k\":\"a\\nb\xef\xbf\xbd\","
                        "\"n\":1152921504606846976,\"b\":false}\n");
}

/* Bytes that are no UTF-8, terminal sequences and line ends come out escaped, in values as in events. */
static void from_outside(void **state)
{
    static const struct {
        const char *given, *text, *json;
    } cases[] = {
        {"GPU-0", "GPU-0", "\"GPU-0\""},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "gr\xc3\xb6\xc3\x9f"
         "e",
         "\"gr\xc3\xb6\xc3\x9f"
         "e\""},
        {"\xff", "\"\xef\xbf\xbd\"", "\"\xef\xbf\xbd\""},
        {"GPU-\xc3(", "\"GPU-\xef\xbf\xbd(\"", "\"GPU-\xef\xbf\xbd(\""},
        {"a\x1b[31m", "\"a\\u001b[31m\"", "\"a\\u001b[31m\""},
        {"a\xc2\x9b"
         "31m",
         "\"a\\u009b31m\"", "\"a\\u009b31m\""},
        {"x\nforged", "\"x\\nforged\"", "\"x\\nforged\""},
        {"x\r\x7f", "\"x\\u000d\\u007f\"", "\"x\\u000d\\u007f\""},
    };
    char want[128];
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gt_log_setup(GT_LOG_INFO, GT_LOG_TEXT);
        begin();
        gt_info(cases[i].given, GT_STR("id", cases[i].given));
        snprintf(want, sizeof(want), "info %s id=%s\n", cases[i].text, cases[i].text);
        assert_string_equal(after_time(end()), want);
        gt_log_setup(GT_LOG_INFO, GT_LOG_JSON);
        begin();
        gt_info(cases[i].given, GT_STR("id", cases[i].given));
        snprintf(want, sizeof(want), "\"event\":%s,\"id\":%s}\n", cases[i].json, cases[i].json);
        assert_string_equal(strstr(end(), "\"event\""), want);
    }
}

static void too_long(void **state)
{
    (void)state;
    char *huge = malloc(20000);
    memset(huge, 'x', 19999);
    huge[19999] = '\0';
    gt_log_setup(GT_LOG_INFO, GT_LOG_TEXT);
    begin();
    gt_info("huge", GT_STR("field", huge));
    assert_string_equal(after_time(end()), "info huge cut=true\n");
    gt_log_setup(GT_LOG_INFO, GT_LOG_JSON);
    begin();
    gt_info("huge", GT_STR("field", huge));
    assert_non_null(strstr(end(), "\"event\":\"huge\",\"cut\":true}\n"));
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_text), cmocka_unit_test(as_json),
                                       cmocka_unit_test(from_outside), cmocka_unit_test(too_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
