/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/lease.h"

static void test_words(void **state)
{
    (void)state;
    const char *note = "n1=0-3 n2=* nonsense n3=x =1 n3= n1=4,63  n4=64 n5=7";
    struct gt_lease_note_word word;
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "n1");
    assert_int_equal(word.mask, 0xf);
    assert_false(word.is_whole);
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "n2");
    assert_true(word.is_whole);
    assert_true(word.mask == UINT64_MAX);
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "n3"); /* no GPU of it */
    assert_int_equal(word.mask, 0);
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "n1");
    assert_true(word.mask == ((uint64_t)1 << 63 | 1 << 4));
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "n5");
    assert_false(gt_lease_note_next(&note, &word));
    assert_false(gt_lease_note_next(&note, &word));
}

/* What was written is read; what has no room is left out, and what comes after it may fit. */
static void test_there_and_back(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(20);
    struct gt_lease_note_word word;
    gt_lease_note_add(&text, "n1", 0xf1);
    gt_lease_note_add(&text, "a-name-that-is-too-long", 1);
    gt_lease_note_add(&text, "n2", 0);
    assert_string_equal(text.data, "n1=0,4-7 n2=*");
    const char *note = text.data;
    assert_true(gt_lease_note_next(&note, &word));
    assert_int_equal(word.mask, 0xf1);
    assert_true(gt_lease_note_next(&note, &word));
    assert_true(word.is_whole);
    assert_false(gt_lease_note_next(&note, &word));
}

static void test_names_that_are_too_long(void **state)
{
    (void)state;
    char text[1024];
    struct gt_lease_note_word word;
    const char *note = text;
    memset(text, 'n', sizeof(text));
    memcpy(text + 300, "=1 ", 3);
    memcpy(text + sizeof(text) - 10, "=1 ok=2", 8);
    assert_true(gt_lease_note_next(&note, &word));
    assert_string_equal(word.node, "ok");
    assert_false(gt_lease_note_next(&note, &word));
}

static void how_long_no_place_was_offered(void **state)
{
    gt_auto_buf struct gt_buf buf = GT_BUF(GT_LEASE_NOTE_MAX);
    uint64_t seconds = 7;
    (void)state;
    assert_false(gt_lease_note_quiet("", &seconds));
    assert_false(gt_lease_note_quiet("quiet: quiet:x n1=0-3 unquiet:3", &seconds));
    assert_false(gt_lease_note_quiet("quiet:123456789012345678901234567890", &seconds));
    assert_int_equal(seconds, 7);
    gt_lease_note_add(&buf, "n1", 3);
    gt_lease_note_add_quiet(&buf, 42);
    assert_string_equal(buf.data, "n1=0,1 quiet:42");
    assert_true(gt_lease_note_quiet(buf.data, &seconds));
    assert_int_equal(seconds, 42);
    assert_true(gt_lease_note_quiet(GT_LEASE_NOTE_NO_LEADER, &seconds));
    assert_int_equal(seconds, UINT32_MAX);
}

static void when_moves_were_made(void **state)
{
    static const uint64_t made[] = {1700000000, 1700000001};
    gt_auto_buf struct gt_buf buf = GT_BUF(GT_LEASE_NOTE_MAX);
    uint64_t times[2] = {0};
    (void)state;
    gt_lease_note_add(&buf, "n1", 3);
    gt_lease_note_add_moved(&buf, made, 2);
    assert_string_equal(buf.data, "n1=0,1 moved:1700000000,1700000001");
    assert_int_equal(gt_lease_note_moved(buf.data, times, 2), 2);
    assert_memory_equal(times, made, sizeof(made));
    assert_int_equal(gt_lease_note_moved(buf.data, times, 1), 1);
    assert_int_equal(gt_lease_note_moved("moved:,x,7,99999999999999999999999999999999 unmoved:3", times, 2),
                     1);
    assert_int_equal(times[0], 7);
    assert_int_equal(gt_lease_note_moved("", times, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(how_long_no_place_was_offered),
        cmocka_unit_test(when_moves_were_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
