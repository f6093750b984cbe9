/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/health_file.h"

#define BOOT "7f0c1f5e-90ab-4cde-8123-000000000001"
#define GPU(signals)                                                                                         \
    "{\"bdf\": \"0000:0e:00.0\", \"uuid\": \"GPU-1\", \"signals\": [" signals "], "                          \
    "\"holdSeconds\": 0, \"level\": 0, \"reason\": \"it hangs\"}"
#define FILE_OF(version, boot, gpus)                                                                         \
    "{\"version\": " version ", \"bootId\": \"" boot "\", \"gpus\": [" gpus "]}"

static struct gt_health health;

static int read_text(const char *text)
{
    memset(&health, 0, sizeof(health));
    return gt_health_text_read(text, strlen(text), BOOT, &health, 1000, NULL);
}

/* GPUs that are read are unhealthy for the same reason, and are written as they were read. */
static void goes_round(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf first = GT_BUF(1 << 16), second = GT_BUF(1 << 16);
    assert_int_equal(read_text(FILE_OF("1", BOOT, GPU("\"librarySilent\", \"callHang\""))), 0);
    assert_int_equal(health.count, 1);
    assert_true(health.gpus[0].unhealthy);
    assert_int_equal(health.gpus[0].cause, GT_SIGNAL_LIBRARY);
    assert_string_equal(health.gpus[0].reason, "it hangs");
    assert_true(health.gpus[0].tracks[GT_SIGNAL_CALL_HANG].faulty);
    gt_health_text_write(&health, BOOT, &first);
    assert_int_equal(read_text(first.data), 0);
    gt_health_text_write(&health, BOOT, &second);
    assert_string_equal(first.data, second.data);
}

static void of_another_boot_or_version(void **state)
{
    (void)state;
    assert_int_equal(read_text(FILE_OF("1", "another", GPU("\"callHang\""))), 0);
    assert_int_equal(health.count, 0);
    assert_int_equal(read_text(FILE_OF("2", BOOT, "3")), 0);
    assert_int_equal(health.count, 0);
}

static void nonsense(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        FILE_OF("-1", BOOT, ""),
        FILE_OF("1", BOOT, "3"),
        FILE_OF("1", BOOT, "{}"),
        FILE_OF("1", BOOT, GPU("\"callHang\"") ", {\"bdf\": \"0000:0f:00.0\"}"),
        FILE_OF("1", BOOT,
                "{\"bdf\": \"\", \"uuid\": \"\", \"holdSeconds\": 0, \"level\": 0, \"reason\": \"\"}"),
        FILE_OF("1", BOOT,
                "{\"bdf\": \"a\", \"uuid\": \"\", \"holdSeconds\": 1e9, \"level\": 0, \"reason\": \"\"}"),
        FILE_OF(
            "1", BOOT,
            "{\"bdf\": \"a\", \"uuid\": \"\", \"holdSeconds\": 0, \"level\": 0, \"reason\": \"\\u001b\"}"),
        FILE_OF("1", BOOT,
                "{\"bdf\": \"longer than any address of a PCI device\", \"uuid\": \"\", \"holdSeconds\": 0, "
                "\"level\": 0, \"reason\": \"\"}"),
    };
    for (unsigned i = 0; i < GT_COUNT(texts); i++) {
        assert_int_equal(read_text(texts[i]), -EINVAL);
        assert_int_equal(health.count, 0);
    }
    gt_auto_buf struct gt_buf many = GT_BUF(1 << 20);
    gt_buf_puts(&many, "{\"version\": 1, \"bootId\": \"" BOOT "\", \"gpus\": [");
    for (unsigned i = 0; i <= GT_COUNT(health.gpus); i++)
        gt_buf_printf(&many, "%s" GPU(""), i ? "," : "");
    gt_buf_puts(&many, "]}");
    assert_int_equal(read_text(many.data), -EINVAL);
    assert_int_equal(health.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_round),
        cmocka_unit_test(of_another_boot_or_version),
        cmocka_unit_test(nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
