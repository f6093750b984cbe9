/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "topology/probe/protocol.h"

static enum gt_probe_request request(const char *text, size_t *used)
{
    *used = 99;
    return gt_probe_read_request(text, strlen(text), used);
}

static void requests(void **state)
{
    (void)state;
    size_t used;
    assert_int_equal(request("scan\n", &used), GT_PROBE_SCAN);
    assert_int_equal(used, 5);
    assert_int_equal(request("ping\nscan\n", &used), GT_PROBE_PING);
    assert_int_equal(used, 5);
    assert_int_equal(request("watch\n", &used), GT_PROBE_WATCH);
    assert_int_equal(used, 6);
    assert_int_equal(request("", &used), GT_PROBE_INCOMPLETE);
    assert_int_equal(request("sca", &used), GT_PROBE_INCOMPLETE);
    static const char *const bad[] = {"\n", "Scan\n", "scan \n", "scan\r\n", "scans\n", "GET / HTTP/1.1\n"};
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        assert_int_equal(request(bad[i], &used), GT_PROBE_BAD);
        assert_int_equal(used, 99);
    }
    char flood[GT_PROBE_REQUEST_MAX];
    memset(flood, 's', sizeof(flood));
    assert_int_equal(gt_probe_read_request(flood, sizeof(flood), &used), GT_PROBE_BAD);
    assert_int_equal(gt_probe_read_request(flood, sizeof(flood) - 1, &used), GT_PROBE_INCOMPLETE);
}

static int header(const char *text, struct gt_probe_header *ret)
{
    return gt_probe_read_header(text, strlen(text), ret);
}

static void headers(void **state)
{
    (void)state;
    struct gt_probe_header h;
    assert_int_equal(header("ok 12 3\n{...", &h), 8);
    assert_int_equal(h.length, 12);
    assert_int_equal(h.restarts, 3);
    assert_string_equal(h.error, "");
    assert_int_equal(header("ok 0 0\n", &h), 7);
    assert_int_equal(header("ok 4194304 0\n", &h), 13);
    assert_int_equal(header("error no memory\n", &h), 16);
    assert_string_equal(h.error, "no memory");
    assert_int_equal(header("ok 1", &h), 0);
    assert_int_equal(header("", &h), 0);

    static const char *const bad[] = {"\n",         "ok\n",       "ok 1\n",
                                      "ok 1 \n",    "ok  1 1\n",  "ok 4194305 0\n",
                                      "ok -1 0\n",  "ok 1 -1\n",  "ok 1 1001\n",
                                      "ok 1 1 1\n", "OK 1 1\n",   "error\n",
                                      "error \n",   "ok 0x1 1\n", "ok 99999999999999999999 0\n"};
    h.length = 77;
    for (unsigned i = 0; i < GT_COUNT(bad); i++)
        assert_int_equal(header(bad[i], &h), -EBADMSG);
    assert_int_equal(h.length, 77);
    assert_int_equal(gt_probe_read_header("ok 1\0 1\n", 8, &h), -EBADMSG);
    char flood[GT_PROBE_HEADER_MAX + 1];
    memset(flood, 'e', sizeof(flood));
    assert_int_equal(gt_probe_read_header(flood, GT_PROBE_HEADER_MAX - 1, &h), 0);
    assert_int_equal(gt_probe_read_header(flood, GT_PROBE_HEADER_MAX, &h), -EBADMSG);
    memcpy(flood, "error ", 6);
    flood[GT_PROBE_HEADER_MAX - 1] = '\n';
    assert_int_equal(gt_probe_read_header(flood, GT_PROBE_HEADER_MAX, &h), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests), cmocka_unit_test(headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
