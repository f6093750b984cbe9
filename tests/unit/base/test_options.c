/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/options.h"

enum { ARGUMENTS_MAX = 12 };

struct taken {
    const char *text;
    unsigned small, word;
    uint64_t large;
    double real;
    bool set, kept, help;
};

static const char *const words[] = {"one", "two", "three", NULL};
static const struct gt_option table[] = {
    {"text", "FILE|DIRECTORY|none", "a text whose name leaves no room", gt_option_text,
     GT_OPTION_FIELD(struct taken, text), .letter = 't'},
    {"small", "N", "a number of four bytes, of which enough is said to need a second line", gt_option_number,
     GT_OPTION_FIELD(struct taken, small), .min = 2, .max = 9},
    {"large", "N", "a number of eight", gt_option_number, GT_OPTION_FIELD(struct taken, large),
     .max = UINT32_MAX},
    {"real", "X", "another", gt_option_real, GT_OPTION_FIELD(struct taken, real), .min = 0.5, .max = 1e9},
    {"word", "W", "one of three", gt_option_word, GT_OPTION_FIELD(struct taken, word), .words = words,
     .letter = 'w'},
    {"set", NULL, "on", gt_option_set, GT_OPTION_FIELD(struct taken, set), .letter = 's'},
    {"drop", NULL, "off", gt_option_clear, GT_OPTION_FIELD(struct taken, kept)},
    {"help", NULL, "this", gt_option_last, GT_OPTION_FIELD(struct taken, help)},
};

static int read_words(const char *line, bool has_verbs, struct taken *ret, int *ret_first,
                      struct gt_err **err)
{
    static char copy[256], name[] = "test";
    const struct gt_command command = {.name = name,
                                       .arguments = ret_first ? "WORD" : NULL,
                                       .options = table,
                                       .count = GT_COUNT(table),
                                       .has_verbs = has_verbs};
    char *argv[ARGUMENTS_MAX + 2] = {name}, *save = NULL;
    int argc = 1;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *p = strtok_r(copy, " ", &save); p && argc <= ARGUMENTS_MAX; p = strtok_r(NULL, " ", &save))
        argv[argc++] = p;
    *ret = (struct taken){.kept = true};
    return gt_options_read(&command, argc, argv, ret, ret_first, err);
}

static void test_values(void **state)
{
    struct taken taken;
    (void)state;
    assert_int_equal(
        read_words("-t a --small=9 --large 4294967295 --real 0.5 -s -w three", false, &taken, NULL, NULL), 0);
    assert_string_equal(taken.text, "a");
    assert_int_equal(taken.small, 9);
    assert_int_equal(taken.large, UINT32_MAX);
    assert_true(taken.real >= 0.5 && taken.real <= 0.5);
    assert_int_equal(taken.word, 2);
    assert_true(taken.set && taken.kept && !taken.help);
    assert_int_equal(read_words("--drop --te=b", false, &taken, NULL, NULL), 0); /* may be shortened */
    assert_string_equal(taken.text, "b");
    assert_false(taken.kept);
    assert_int_equal(read_words("--set --help --nonsense x", false, &taken, NULL, NULL), 0);
    assert_true(taken.help);
}

static void test_arguments(void **state)
{
    struct taken taken;
    int first;
    (void)state;
    assert_int_equal(read_words("word --set", false, &taken, &first, NULL), 0);
    assert_int_equal(first, 2); /* behind the option now */
    assert_true(taken.set);
    assert_int_equal(read_words("--drop verb --set", true, &taken, &first, NULL), 0);
    assert_int_equal(first, 2);
    assert_false(taken.set || taken.kept);
}

static void test_wrong(void **state)
{
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"--nonsense", "unrecognized option '--nonsense', see --help"},
        {"--s", "option '--s' is ambiguous, see --help"},
        {"-x", "unrecognized option '-x', see --help"},
        {"-sx", "unrecognized option '-x', see --help"},
        {"-t", "option '-t' requires an argument"},
        {"--set --text", "option '--text' requires an argument"},
        {"--set=1", "option '--set=1' doesn't allow an argument"},
        {"a --nonsense", "unrecognized option '--nonsense', see --help"},
        {"a --set", "unexpected argument 'a'"},
        {"-- --set", "unexpected argument '--set'"},
        {"--text=", "--text: expected FILE|DIRECTORY|none of 1 to 4095 bytes, is ''"},
        {"--small 1", "--small: expected a number from 2 to 9, is '1'"},
        {"--small 10", "--small: expected a number from 2 to 9, is '10'"},
        {"--large 4294967296", "--large: expected a number from 0 to 4294967295, is '4294967296'"},
        {"--real nan", "--real: expected a number from 0.5 to 1000000000, is 'nan'"},
        {"--real 0.4", "--real: expected a number from 0.5 to 1000000000, is '0.4'"},
        {"-w four", "-w: expected one, two or three, is 'four'"},
        {"--word four", "--word: expected one, two or three, is 'four'"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(wrong); i++) {
        gt_auto_err struct gt_err *err = NULL;
        struct taken taken;
        assert_int_equal(read_words(wrong[i].line, false, &taken, NULL, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), wrong[i].says);
    }
}

static void test_vendor(void **state)
{
    static const struct gt_option vendor = {"vendor", "ID", "", gt_option_vendor, .size = sizeof(unsigned)};
    static const char *const wrong[] = {"", "0", "ffff", "0x", "12345", "-1", "9999 ", "g"};
    unsigned id = 0;
    (void)state;
    assert_int_equal(gt_option_read_value(&vendor, "0x10DE", &id, NULL), 0);
    assert_int_equal(id, 0x10de);
    for (size_t i = 0; i < GT_COUNT(wrong); i++)
        assert_int_equal(gt_option_read_value(&vendor, wrong[i], &id, NULL), -EINVAL);
    assert_int_equal(id, 0x10de);
}

static void test_help(void **state)
{
    const struct gt_command command = {.name = "test",
                                       .arguments = "WORD",
                                       .about = "About\nit.",
                                       .more = "And more.",
                                       .options = table,
                                       .count = 3};
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    (void)state;
    gt_options_help(&command, &text);
    assert_string_equal(text.data,
                        "Usage: test [OPTION]... WORD\n"
                        "About\nit.\n\n"
                        "  -t, --text FILE|DIRECTORY|none\n"
                        "                             a text whose name leaves no room\n"
                        "      --small N              a number of four bytes, of which enough is said to\n"
                        "                             need a second line\n"
                        "      --large N              a number of eight\n"
                        "\nAnd more.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_arguments), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_vendor), cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
