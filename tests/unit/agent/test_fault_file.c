/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/fault_file.h"
#include "base/err.h"

static void what_is_not_named_stays(void **state)
{
    static const char text[] = "signals:\n"
                               "  callError: {when: after, times: 5, withinSeconds: 30}\n"
                               "  temperature: {threshold: 85}\n"
                               "  pciError: {when: atOnce}\n"
                               "flapping: {falls: 0}\n";
    struct gt_fault_table table, expected = gt_fault_table_default;
    (void)state;
    assert_return_code(gt_fault_text_read(text, strlen(text), "f", &table, NULL), 0);
    expected.rules[GT_SIGNAL_CALL_ERROR].times = 5;
    expected.rules[GT_SIGNAL_CALL_ERROR].within_s = 30;
    expected.rules[GT_SIGNAL_TEMPERATURE].threshold = 85;
    expected.rules[GT_SIGNAL_PCI_ERROR].times = 1; /* one more is at once */
    expected.flapping.falls = 0;
    assert_memory_equal(&table, &expected, sizeof(table));
    assert_return_code(gt_fault_text_read("", 0, "f", &table, NULL), 0);
    assert_memory_equal(&table, &gt_fault_table_default, sizeof(table));
}

static void written_and_read(void **state)
{
    gt_auto_buf struct gt_buf first = GT_BUF(64 << 10), second = GT_BUF(64 << 10);
    struct gt_fault_table table;
    (void)state;
    gt_fault_text_write(&gt_fault_table_default, &first);
    assert_return_code(gt_fault_text_read(first.data, first.len, "f", &table, NULL), 0);
    assert_memory_equal(&table, &gt_fault_table_default, sizeof(table));
    gt_fault_text_write(&table, &second);
    assert_string_equal(first.data, second.data);
}

static void mistakes(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"[]", "f: must be a mapping with the keys signals and flapping"},
        {"signal: {}", "f: signal: unknown, there are signals and flapping"},
        {"signals: 3", "f: signals: must be a mapping"},
        {"signals: {ecc: {}}", "f: signals.ecc: there is no such signal"},
        {"signals: {flapping: {}}", "f: signals.flapping: there is no such signal"},
        {"signals: {eccDram: }", "f: signals.eccDram: must be a mapping"},
        {"signals: {eccDram: {when: now}}",
         "f: signals.eccDram.when: \"now\" is none of atOnce, after, reportOnly"},
        {"signals: {eccDram: {when: {}}}", "f: signals.eccDram.when"},
        {"signals: {eccDram: {limit: 3}}", "f: signals.eccDram.limit: unknown, there are when, times"},
        {"signals: {eccDram: {threshold: 0}}", "f: signals.eccDram.threshold: \"0\" is no number from 1 to"},
        {"signals: {eccDram: {times: 21}}", "f: signals.eccDram.times: \"21\" is no number from 1 to 20"},
        {"signals: {eccDram: {recoverSeconds: -1}}",
         "f: signals.eccDram.recoverSeconds: \"-1\" is no number"},
        {"signals: {eccDram: {}, eccDram: {}}", "line 1"},
        {"signals: {", "f: "},
        {"flapping: {fall: 1}", "f: flapping.fall: unknown, there are falls"},
        {"flapping: {holdSeconds: 60, holdMaxSeconds: 59}", "f: flapping.holdMaxSeconds: 59 is less than"},
    };
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct gt_fault_table table = {.flapping.falls = 12345};
        assert_true(gt_fault_text_read(bad[i].text, strlen(bad[i].text), "f", &table, &err) < 0);
        if (!strstr(gt_err_text(err), bad[i].why))
            fail_msg("%s: %s", bad[i].text, gt_err_text(err));
        assert_int_equal(table.flapping.falls, 12345);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_named_stays),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
