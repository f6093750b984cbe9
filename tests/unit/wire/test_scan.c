/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/wire/reference.h"
#include "tests/unit/wire/trace.h"

/* {"name": text, "n": number, "q": amount, "on": bool, "tags": map of texts, "list": [{"name", "raw"}]} */
enum { NAME = 1, NUMBER, AMOUNT, ON, TAGS, TAG, LIST, ITEM, ITEM_NAME };

static const struct gt_scan_shape name = {.kind = GT_SCAN_TEXT, .id = NAME, .max = 8};
static const struct gt_scan_shape number = {.kind = GT_SCAN_NUMBER, .id = NUMBER};
static const struct gt_scan_shape amount = {.kind = GT_SCAN_AMOUNT, .id = AMOUNT, .max = 8};
static const struct gt_scan_shape on = {.kind = GT_SCAN_BOOL, .id = ON};
static const struct gt_scan_shape tag = {.kind = GT_SCAN_TEXT, .id = TAG, .max = 100};
static const struct gt_scan_shape tags = {.kind = GT_SCAN_MAP, .id = TAGS, .of = &tag};
static const struct gt_scan_shape item_name = {.kind = GT_SCAN_TEXT, .id = ITEM_NAME, .max = 100};
static const struct gt_scan_member item_members[] = {{"name", &item_name}, {0}};
static const struct gt_scan_shape item = {.kind = GT_SCAN_OBJECT, .id = ITEM, .members = item_members};
static const struct gt_scan_shape list = {.kind = GT_SCAN_ARRAY, .id = LIST, .of = &item};
static const struct gt_scan_member root_members[] = {
    {"name", &name}, {"n", &number}, {"q", &amount}, {"on", &on}, {"tags", &tags}, {"list", &list}, {0}};
static const struct gt_scan_shape root = {.kind = GT_SCAN_OBJECT, .members = root_members};

static const struct gt_scan_member none[] = {{0}};
static const struct gt_scan_shape any_object = {.kind = GT_SCAN_OBJECT, .members = none};
static const struct gt_scan_shape any_array = {.kind = GT_SCAN_ARRAY};

/* The trace is the same however the text is cut, and whatever finds its characters. */
static void check_len(const char *text, size_t len, const char *expected)
{
    gt_auto_free char *whole = trace_whole(&root, text, len, NULL);
    if (expected)
        assert_string_equal(whole, expected);
    for (const struct gt_masks_variant *way = gt_masks_variants(); way->name; way++) {
        gt_auto_free char *other = trace_whole(&root, text, len, way);
        assert_string_equal(other, whole);
    }
    for (size_t cut = 0; cut <= len; cut++) {
        gt_auto_free char *other = trace_cut(&root, text, len, cut);
        assert_string_equal(other, whole);
    }
    for (size_t step = 1; step < 80; step += 3) {
        gt_auto_free char *other = trace_steps(&root, text, len, step);
        assert_string_equal(other, whole);
    }
}

static void check(const char *text, const char *expected)
{
    /* In front of it up to two blocks of white space, so that each byte is at each place of a block. */
    check_len(text, strlen(text), expected);
    char moved[4096];
    for (size_t shift = 1; shift < 66; shift++) {
        size_t len = strlen(text);
        assert_true(shift + len <= sizeof(moved));
        memset(moved, ' ', shift);
        memcpy(moved + shift, text, len);
        gt_auto_free char *whole = trace_whole(&root, moved, shift + len, NULL);
        gt_auto_free char *steps = trace_steps(&root, moved, shift + len, 1);
        assert_string_equal(whole, steps);
        if (strncmp(expected + strlen(expected) - 2, "ok", 2) == 0)
            assert_string_equal(whole, expected);
    }
}

static void test_values(void **state)
{
    (void)state;
    check("{}", "ok");
    check(" \t\r\n{ \"name\" : \"abc\" , \"n\":-12.5e1, \"q\" : \"8k\", \"on\":true}\n",
          "value 1 \"abc\"\nvalue 2 -125\nvalue 3 \"8k\"\nvalue 4 true\nok");
    check("{\"q\":8,\"on\":false,\"name\":\"\"}", "value 3 8\nvalue 4 false\nvalue 1 \"\"\nok");
    check("{\"name\":null,\"n\":null,\"list\":null,\"tags\":null,\"q\":null,\"on\":null}", "ok");
    check("{\"tags\":{\"a\":\"1\",\"-\":[{}],\"b\":\"2\",\"-x\":\"3\",\"c\":null}}",
          "open 5\nkey 5 \"a\"\nvalue 6 \"1\"\nkey 5 \"-\"\nkey 5 \"b\"\nvalue 6 \"2\"\nkey 5 \"-x\"\n"
          "key 5 \"c\"\nclose 5\nok");
    check("{\"list\":[{\"name\":\"x\",\"raw\":{\"name\":[1,2,{\"name\":\"no\"}]}},{},{\"raw\":\"}]\","
          "\"name\":\"y\"}]}",
          "open 7\nopen 8\nvalue 9 \"x\"\nclose 8\nopen 8\nclose 8\nopen 8\nvalue 9 \"y\"\nclose 8\n"
          "close 7\nok");
    check("{\"other\":{\"list\":[{\"name\":1}]},\"more\":\"\\\\\",\"name\":\"z\",\"x\":[[[]],{}]}",
          "value 1 \"z\"\nok");
    check("{\"list\":[],\"tags\":{}}", "open 7\nclose 7\nopen 5\nclose 5\nok");
}

/* Where a shape takes any kind, another one is told, and what is in it passed over. */
static void test_any_kind(void **state)
{
    static const struct gt_scan_shape leaf = {.kind = GT_SCAN_TEXT, .id = 1, .any_kind = true, .max = 9};
    static const struct gt_scan_shape many = {.kind = GT_SCAN_ARRAY, .id = 2, .any_kind = true, .of = &leaf};
    static const struct gt_scan_member both[] = {{"a", &leaf}, {"list", &many}, {0}};
    static const struct gt_scan_shape whole = {.kind = GT_SCAN_OBJECT, .id = 3, .members = both};
    static const char in[] = "{\"a\":{\"a\":[1,{}]},\"list\":[\"x\",7,true,null,[\"y\",[]],{\"a\":\"z\"}]}";
    char expected[512];
    (void)state;
    snprintf(
        expected, sizeof(expected),
        "open 3\nother 1 %d a\nopen 2\nvalue 1 \"x\"\nother 1 %d \nother 1 %d \nother 1 %d \nother 1 %d \n"
        "other 1 %d \nclose 2\nclose 3\nok",
        GT_FOUND_OBJECT, GT_FOUND_NUMBER, GT_FOUND_BOOL, GT_FOUND_NULL, GT_FOUND_ARRAY, GT_FOUND_OBJECT);
    gt_auto_free char *trace = trace_whole(&whole, in, sizeof(in) - 1, NULL);
    assert_string_equal(trace, expected);
    for (size_t cut = 1; cut < sizeof(in) - 1; cut++) {
        gt_auto_free char *parts = trace_cut(&whole, in, sizeof(in) - 1, cut);
        assert_string_equal(parts, expected);
    }
    gt_auto_free char *wrong = trace_whole(&whole, "{\"list\":7}", 10, NULL);
    assert_string_equal(wrong, "open 3\nother 2 3 list\nclose 3\nok");
}

static void test_escapes(void **state)
{
    (void)state;
    check("{\"name\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
          "value 1 \"\\\"\\\\/\\u0008\\u000c\\n\\u000d\\t\"\nok");
    check("{\"name\":\"\\u0041\\u00e9\\u20AC\"}", "value 1 \"A\xc3\xa9\xe2\x82\xac\"\nok");
    check("{\"tags\":{\"\\u0061\":\"\\ud83d\\ude00\"}}",
          "open 5\nkey 5 \"a\"\nvalue 6 \"\xf0\x9f\x98\x80\"\nclose 5\nok");
    check("{\"n\\u0061me\":\"\\\\\\\\\\\\\\\"\"}", "value 1 \"\\\\\\\\\\\\\\\"\"\nok");
    check("{\"x\":\"\\\\\",\"name\":\"\\\\\"}", "value 1 \"\\\\\"\nok");
    check("{\"name\":\"\xe4\xb8\xad\xf0\x9f\x98\x80\"}", "value 1 \"\xe4\xb8\xad\xf0\x9f\x98\x80\"\nok");

    check("{\"name\":\"\\ud83d\"}", "EBADMSG byte 15: name: half of a surrogate pair");
    check("{\"name\":\"\\ud83dx\"}", "EBADMSG byte 16: name: half of a surrogate pair");
    check("{\"name\":\"\\ude00\"}", "EBADMSG byte 15: name: half of a surrogate pair");
    check("{\"name\":\"\\ud83d\\u0041\"}", "EBADMSG byte 21: name: half of a surrogate pair");
    check("{\"name\":\"\\u0000\"}", "EBADMSG byte 15: name: a NUL in a text");
    check("{\"name\":\"\\x\"}", "EBADMSG byte 10: name: an escape that JSON does not have");
    check("{\"other\":\"a\\x\"}", "EBADMSG byte 12: an escape that JSON does not have");
    check("{\"other\":\"a\\u12g4\"}", "EBADMSG byte 15: an escape that JSON does not have");
    check("{\"other\":\"a\\u123\"}", "EBADMSG byte 16: an escape that JSON does not have");
}

static void test_bytes(void **state)
{
    (void)state;
    check("{\"other\":\"a\tb\"}", "EBADMSG byte 11: a control character, 0x09");
    check("{\"other\":\"a\nb\"}", "EBADMSG byte 11: a control character, 0x0a");
    check("{\x0c}", "EBADMSG byte 1: a control character, 0x0c");
    check("{\"name\":\"\xff\"}", "EBADMSG byte 9: name: not UTF-8");
    check("{\"a\":\"\xc3(\"}", "EBADMSG byte 7: not UTF-8");
    check("{\"a\":\"\xc0\xaf\"}", "EBADMSG byte 6: not UTF-8");         /* overlong */
    check("{\"a\":\"\xed\xa0\x80\"}", "EBADMSG byte 7: not UTF-8");     /* a surrogate */
    check("{\"a\":\"\xf4\x90\x80\x80\"}", "EBADMSG byte 7: not UTF-8"); /* beyond the last */
    check("{\"a\":\"\xe4\xb8\"}", "EBADMSG byte 8: not UTF-8");
    check("\xef\xbb\xbf{}", "EBADMSG byte 0: expected an object or array, found byte 0xef");
    static const char nul[] = "{\"a\":\"\0\"}";
    check_len(nul, sizeof(nul) - 1, "EBADMSG byte 6: a control character, 0x00");
    static const char nul_outside[] = "{\0}";
    check_len(nul_outside, sizeof(nul_outside) - 1, "EBADMSG byte 1: a control character, 0x00");
}

static void test_grammar(void **state)
{
    (void)state;
    check("", "EBADMSG byte 0: the text ends here, expected an object or array");
    check("   ", "EBADMSG byte 3: the text ends here, expected an object or array");
    check("{", "EBADMSG byte 1: the text ends here, expected a key or '}'");
    check("{\"name\"", "EBADMSG byte 7: name: the text ends here, expected ':'");
    check("{\"name\":\"ab", "EBADMSG byte 11: name: the text ends within a string");
    check("{\"x\":\"ab\\", "EBADMSG byte 9: the text ends within a string");
    check("{\"x\":\"ab\\u00", "EBADMSG byte 12: the text ends within a string");
    check("{\"x\":\"\xe4\xb8", "EBADMSG byte 8: the text ends within a string");
    check("{\"list\":[{\"name\":\"x\"}", "open 7\nopen 8\nvalue 9 \"x\"\nclose 8\n"
                                         "EBADMSG byte 21: list[0]: the text ends here, expected ',' or ']'");
    check("{\"x\":tru", "EBADMSG byte 8: the text ends within \"tru\"");
    check("{\"x\":12.", "EBADMSG byte 8: the text ends within \"12.\"");
    check("{\"x\":12", "EBADMSG byte 7: the text ends here, expected ',' or '}'");
    check("{}{}", "EBADMSG byte 2: expected nothing more, found '{'");
    check("{} x", "EBADMSG byte 3: expected nothing more, found 'x'");
    check("[}", "EINVAL byte 0: expected an object, found an array");
    check("{]", "EBADMSG byte 1: expected a key or '}', found ']'");
    check("{\"a\":[1}", "EBADMSG byte 7: expected ',' or ']', found '}'");
    check("{\"a\":{\"b\":1]}", "EBADMSG byte 11: expected ',' or '}', found ']'");
    check("{\"a\":1,}", "EBADMSG byte 7: expected a key, found '}'");
    check("{\"a\":[1,]}", "EBADMSG byte 8: expected a value, found ']'");
    check("{\"a\" 1}", "EBADMSG byte 5: expected ':', found '1'");
    check("{\"a\"::1}", "EBADMSG byte 5: expected a value, found ':'");
    check("{\"a\":1 \"b\":2}", "EBADMSG byte 7: expected ',' or '}', found a string");
    check("{\"a\":\"x\"1}", "EBADMSG byte 8: expected ',' or '}', found '1'");
    check("{a:1}", "EBADMSG byte 1: expected a key or '}', found 'a'");
    check("{1:1}", "EBADMSG byte 1: expected a key or '}', found '1'");
    check("\"text\"", "EBADMSG byte 0: expected an object or array, found a string");
    check("17", "EBADMSG byte 0: expected an object or array, found '1'");
    check("null", "EBADMSG byte 0: expected an object or array, found 'n'");
    check("{\"a\":tru}", "EBADMSG byte 8: \"tru\" is no value of JSON");
    check("{\"a\":truex}", "EBADMSG byte 10: \"truex\" is no value of JSON");
    check("{\"a\":True}", "EBADMSG byte 9: \"True\" is no value of JSON");
    check("{\"a\":01}", "EBADMSG byte 7: \"01\" is no value of JSON");
    check("{\"a\":+1}", "EBADMSG byte 7: \"+1\" is no value of JSON");
    check("{\"a\":1.}", "EBADMSG byte 7: \"1.\" is no value of JSON");
    check("{\"a\":.5}", "EBADMSG byte 7: \".5\" is no value of JSON");
    check("{\"a\":1e}", "EBADMSG byte 7: \"1e\" is no value of JSON");
    check("{\"a\":-}", "EBADMSG byte 6: \"-\" is no value of JSON");
    check("{\"a\":NaN}", "EBADMSG byte 8: \"NaN\" is no value of JSON");
    check("{\"a\":'x'}", "EBADMSG byte 8: \"'x'\" is no value of JSON");
    check("{\"a\":1/*x*/}", "EBADMSG byte 11: \"1/*x*/\" is no value of JSON");
}

static void test_shape(void **state)
{
    (void)state;
    check("{\"name\":5}", "EINVAL byte 9: name: expected a string, found a number");
    check("{\"name\":[]}", "EINVAL byte 8: name: expected a string, found an array");
    check("{\"n\":\"5\"}", "EINVAL byte 5: n: expected a number, found a string");
    check("{\"on\":1}", "EINVAL byte 7: on: expected true or false, found a number");
    check("{\"q\":true}", "EINVAL byte 9: q: expected a string or a number, found true");
    check("{\"tags\":[]}", "EINVAL byte 8: tags: expected an object, found an array");
    check("{\"tags\":{\"a\":1}}",
          "open 5\nkey 5 \"a\"\nEINVAL byte 14: tags: expected a string, found a number");
    check("{\"list\":{}}", "EINVAL byte 8: list: expected an array, found an object");
    check("{\"list\":[{},null]}",
          "open 7\nopen 8\nclose 8\nEINVAL byte 16: list[1]: expected an object, found null");
    check("{\"list\":[{},{\"name\":{}}]}",
          "open 7\nopen 8\nclose 8\nopen 8\n"
          "EINVAL byte 20: list[1].name: expected a string, found an object");
    check("{\"name\":\"a\",\"x\":1,\"name\":\"b\"}",
          "value 1 \"a\"\nEINVAL byte 23: name: comes twice in one object");
    check("{\"name\":null,\"n\\u0061me\":\"b\"}", "EINVAL byte 23: name: comes twice in one object");
    check("{\"x\":1,\"x\":2,\"Name\":5}", "ok");
}

static void test_limits(void **state)
{
    (void)state;
    check("{\"name\":\"12345678\"}", "value 1 \"12345678\"\nok");
    check("{\"name\":\"123456789\"}", "EMSGSIZE byte 18: name: a text of more than 8 bytes");
    check("{\"name\":\"\\u0031\\u0032\\u0033\\u0034\\u0035\\u0036\\u0037\\u0038\"}",
          "value 1 \"12345678\"\nok");
    check("{\"name\":\"\\u0031\\u0032\\u0033\\u0034\\u0035\\u0036\\u0037\\u0038\\u0039\"}",
          "EMSGSIZE byte 63: name: a text of more than 8 bytes");

    /* A key longer than any: unknown, and no cost. A long text nobody wants: nothing at all. */
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, "{\"name");
    for (unsigned i = 0; i < GT_SCAN_KEY_MAX; i++)
        gt_buf_puts(&text, "e");
    gt_buf_puts(&text, "\":1,\"x\":\"");
    for (unsigned i = 0; i < 1500; i++)
        gt_buf_puts(&text, "\\\\y");
    gt_buf_puts(&text, "\",\"name\":\"a\"}");
    gt_auto_free char *trace = trace_steps(&root, text.data, text.len, 7);
    assert_string_equal(trace, "value 1 \"a\"\nok");

    for (unsigned length = GT_SCAN_NUMBER_MAX; length <= GT_SCAN_NUMBER_MAX + 1; length++) {
        text.len = 0;
        gt_buf_puts(&text, "{\"x\":");
        for (unsigned i = 0; i < length; i++)
            gt_buf_puts(&text, "1");
        gt_buf_puts(&text, "}");
        assert_int_equal(reference_accepts(text.data, text.len), length == GT_SCAN_NUMBER_MAX);
        check_len(text.data, text.len,
                  length == GT_SCAN_NUMBER_MAX ? "ok"
                                               : "EMSGSIZE byte 134: a number of more than 128 characters");
    }
}

static void test_depth(void **state)
{
    (void)state;
    for (unsigned depth = GT_SCAN_DEPTH_MAX; depth <= GT_SCAN_DEPTH_MAX + 1; depth++) {
        gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
        for (unsigned i = 0; i < depth - 1; i++)
            gt_buf_puts(&text, i % 2 ? "[" : "{\"a\":");
        gt_buf_puts(&text, "[]");
        for (unsigned i = depth - 1; i-- > 0;)
            gt_buf_puts(&text, i % 2 ? "]" : "}");
        bool fits = depth == GT_SCAN_DEPTH_MAX;
        assert_int_equal(reference_accepts(text.data, text.len), fits);
        gt_auto_free char *trace = trace_whole(&root, text.data, text.len, NULL);
        if (fits)
            assert_string_equal(trace, "ok");
        else
            assert_non_null(strstr(trace, "nested deeper than 128"));
    }
    /* 10 MB of brackets: no stack, no memory, an error at the limit. */
    gt_auto_scan struct gt_scan *scan = gt_scan_new(&any_array, NULL, NULL);
    gt_auto_err struct gt_err *err = NULL;
    char brackets[4096];
    memset(brackets, '[', sizeof(brackets));
    assert_int_equal(gt_scan_feed(scan, brackets, sizeof(brackets), &err), -EMSGSIZE);
    assert_string_equal(gt_err_text(err), "byte 128: [0]: nested deeper than 128");
    gt_auto_err struct gt_err *again = NULL;
    assert_int_equal(gt_scan_feed(scan, "]", 1, &again), -EINVAL);
    assert_int_equal(gt_scan_finish(scan, NULL), -EINVAL);
    gt_scan_reset(scan);
    assert_int_equal(gt_scan_feed(scan, NULL, 0, NULL), 0);
    assert_int_equal(gt_scan_feed(scan, "[[],1]", 6, NULL), 0);
    assert_int_equal(gt_scan_feed(scan, NULL, 0, NULL), 0);
    assert_int_equal(gt_scan_finish(scan, NULL), 0);
}

static int refuse(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    (void)arg;
    return event->what == GT_SCAN_VALUE ? gt_fail(err, ENOENT, "no such thing as %s", event->text) : 0;
}

static void test_callback_fails(void **state)
{
    (void)state;
    gt_auto_scan struct gt_scan *scan = gt_scan_new(&root, refuse, NULL);
    gt_auto_err struct gt_err *err = NULL;
    static const char text[] = "{\"list\":[{},{\"name\":\"x\"}]}";
    int r = gt_scan_feed(scan, text, sizeof(text) - 1, &err);
    if (r == 0)
        r = gt_scan_finish(scan, &err);
    assert_int_equal(r, -ENOENT);
    assert_string_equal(gt_err_text(err), "byte 22: list[1].name: no such thing as x");
    gt_scan_reset(scan);
    assert_int_equal(gt_scan_feed(scan, text, sizeof(text) - 1, NULL), 0);
    assert_int_equal(gt_scan_finish(scan, NULL), -ENOENT); /* without wanting the text */
}

struct keeper {
    struct gt_scan *scan;
    struct gt_buf kept, all;
};

static int keep(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct keeper *keeper = arg;
    (void)err;
    if (event->id == ITEM && event->what == GT_SCAN_OPEN) {
        keeper->kept.len = 0;
        gt_scan_keep(keeper->scan, &keeper->kept);
    } else if (event->id == ITEM && event->what == GT_SCAN_CLOSE) {
        gt_buf_add(&keeper->all, keeper->kept.data, keeper->kept.len);
        gt_buf_puts(&keeper->all, "|");
    }
    return 0;
}

static void test_keep(void **state)
{
    (void)state;
    static const char text[] =
        "{\"list\": [ {\"name\":\"x\", \"raw\":{\"a\":[ 1, \"}\" ]}} ,{},{ \"name\" : \"y\", \"long\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\"} ],"
        "\"n\":1}";
    static const char wanted[] =
        "{\"name\":\"x\", \"raw\":{\"a\":[ 1, \"}\" ]}}|{}|{ \"name\" : \"y\", \"long\":"
        "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\"}|";
    size_t len = sizeof(text) - 1;
    for (size_t step = 1; step <= len; step++) {
        struct keeper keeper = {.kept = GT_BUF(1000), .all = GT_BUF(1000)};
        keeper.scan = gt_scan_new(&root, keep, &keeper);
        for (size_t at = 0; at < len; at += step)
            assert_int_equal(gt_scan_feed(keeper.scan, text + at, len - at < step ? len - at : step, NULL),
                             0);
        assert_int_equal(gt_scan_finish(keeper.scan, NULL), 0);
        assert_string_equal(keeper.all.data, wanted);
        gt_scan_free(keeper.scan);
        gt_buf_done(&keeper.kept);
        gt_buf_done(&keeper.all);
    }
    struct keeper small = {.kept = GT_BUF(20), .all = GT_BUF(1000)};
    gt_auto_err struct gt_err *err = NULL;
    small.scan = gt_scan_new(&root, keep, &small);
    int r = gt_scan_feed(small.scan, text, len, &err);
    if (r == 0)
        r = gt_scan_finish(small.scan, &err);
    assert_int_equal(r, -EMSGSIZE);
    assert_non_null(strstr(gt_err_text(err), "list[0]: objects of more than 20 bytes to copy"));
    gt_scan_free(small.scan);
    gt_buf_done(&small.kept);
    gt_buf_done(&small.all);
}

/* Keys in either case, as Go's decoder takes them; only where the shape says so. */
static void test_any_case(void **state)
{
    (void)state;
    static const struct gt_scan_shape text = {.kind = GT_SCAN_TEXT, .id = 1, .max = 9};
    static const struct gt_scan_member members[] = {{"Na[me", &text}, {0}};
    static const struct gt_scan_shape loose = {.kind = GT_SCAN_OBJECT, .members = members, .any_case = true};
    static const struct gt_scan_shape exact = {.kind = GT_SCAN_OBJECT, .members = members};
    static const char lower[] = "{\"nA[ME\":\"x\"}", bracket[] = "{\"Na{me\":\"x\"}";
    gt_auto_free char *a = trace_whole(&loose, lower, sizeof(lower) - 1, NULL);
    assert_string_equal(a, "value 1 \"x\"\nok");
    gt_auto_free char *b = trace_whole(&exact, lower, sizeof(lower) - 1, NULL);
    assert_string_equal(b, "ok");
    gt_auto_free char *c = trace_whole(&loose, bracket, sizeof(bracket) - 1, NULL);
    assert_string_equal(c, "ok");
}

/* Every byte of a block of every kind is told apart in the same way by every way, at any alignment. */
static void test_masks(void **state)
{
    (void)state;
    uint8_t bytes[64 + 7];
    uint64_t seed = 1;
    for (unsigned round = 0; round < 4000; round++) {
        unsigned shift = round % 8;
        for (unsigned i = 0; i < sizeof(bytes); i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            bytes[i] = round < 256 ? (uint8_t)(round + (i & 1)) : (uint8_t)(seed >> 56);
        }
        struct gt_masks expected = {0};
        for (unsigned i = 0; i < 64; i++) {
            uint8_t c = bytes[shift + i];
            uint64_t bit = UINT64_C(1) << i;
            expected.quote |= c == '"' ? bit : 0;
            expected.backslash |= c == '\\' ? bit : 0;
            expected.op |= c && strchr("{}[],:", c) ? bit : 0;
            expected.space |= c <= 0x20 ? bit : 0;
            expected.control |= c < 0x20 ? bit : 0;
            expected.high |= c >= 0x80 ? bit : 0;
        }
        for (const struct gt_masks_variant *way = gt_masks_variants(); way->name; way++) {
            struct gt_masks masks;
            if (shift + 64 <= sizeof(bytes)) {
                way->fn(bytes + shift, 1, &masks);
                assert_memory_equal(&masks, &expected, sizeof(masks));
            }
        }
    }
}

static void test_any_object(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,2,{\"b\":null}]}";
    gt_auto_free char *trace = trace_whole(&any_object, text, sizeof(text) - 1, NULL);
    assert_string_equal(trace, "ok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_kind),       cmocka_unit_test(test_values),
        cmocka_unit_test(test_escapes),        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_grammar),        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_depth),
        cmocka_unit_test(test_callback_fails), cmocka_unit_test(test_keep),
        cmocka_unit_test(test_any_case),       cmocka_unit_test(test_masks),
        cmocka_unit_test(test_any_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
