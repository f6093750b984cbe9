/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/scanner.h"

/* The end of a scan thread that hangs in the probe, even if the wall clock changes meanwhile; requests that
 * come together. */

/* As if the clock were set back by an hour right after it was read. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = (int)syscall(SYS_clock_gettime, clock, ret);
    if (clock == CLOCK_REALTIME)
        ret->tv_sec += 3600;
    return r;
}

static void never(void *arg, const struct gt_scan_result *result)
{
    (void)arg;
    (void)result;
    fail();
}

/* A probe that accepts connections and never answers. */
static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void stop_keeps_its_time(void **state)
{
    (void)state;
    char root[] = "/tmp/gputopo-scanner-XXXXXX", sys[64], socket[64];
    assert_non_null(mkdtemp(root));
    snprintf(sys, sizeof(sys), "%s/sys", root);
    snprintf(socket, sizeof(socket), "%s/probe.sock", root);
    assert_int_equal(mkdir(sys, 0700), 0);
    int listener = listen_at(socket);
    gt_auto_loop struct gt_loop *loop = NULL;
    gt_auto_probe_client struct gt_probe_client *probe = NULL;
    struct gt_scanner *scanner = NULL;
    assert_int_equal(gt_loop_new(&loop, NULL), 0);
    assert_int_equal(gt_probe_client_new(socket, &probe, NULL), 0);
    const struct gt_scanner_options options = {
        .scan = {.root = root, .probe = probe, .faults = &gt_fault_table_default}};
    assert_int_equal(gt_scanner_new(loop, &options, never, NULL, &scanner, NULL), 0);
    gt_scanner_request(scanner, GT_SCAN_FULL);
    struct pollfd asked = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&asked, 1, 60000), 1);

    alarm(60); /* the test ends, also where this does not return */
    assert_false(gt_scanner_stop(scanner, 100));
    alarm(0);
    close(listener); /* the probe closes the connection, and the scan ends */
    assert_true(gt_scanner_stop(scanner, 60000));
    unlink(socket);
    rmdir(sys);
    rmdir(root);
}

struct asking {
    struct gt_loop *loop;
    struct gt_scanner *scanner;
    unsigned results;
};

/* Whoever takes a relabelled inventory, and what a health check found, must not take one inventory twice. */
static void on_asked(void *arg, const struct gt_scan_result *result)
{
    struct asking *asking = arg;
    assert_null(result->err);
    assert_non_null(result->inventory);
    gt_inventory_unref(result->inventory);
    if (asking->results++ == 0) {
        assert_false(result->checked || result->relabelled);
        gt_scanner_request(asking->scanner, GT_SCAN_HEALTH | GT_SCAN_IDS);
        return;
    }
    assert_true(result->checked);
    assert_false(result->relabelled);
    gt_loop_stop(asking->loop, 0);
}

static void a_health_check_with_new_ids_is_one_result(void **state)
{
    (void)state;
    char root[] = "/tmp/gputopo-scanner-XXXXXX", sys[64];
    assert_non_null(mkdtemp(root));
    snprintf(sys, sizeof(sys), "%s/sys", root);
    assert_int_equal(mkdir(sys, 0700), 0);
    gt_auto_loop struct gt_loop *loop = NULL;
    assert_int_equal(gt_loop_new(&loop, NULL), 0);
    struct asking asking = {.loop = loop};
    const struct gt_scanner_options options = {.scan = {.root = root, .faults = &gt_fault_table_default}};
    assert_int_equal(gt_scanner_new(loop, &options, on_asked, &asking, &asking.scanner, NULL), 0);
    gt_scanner_name_gpus(asking.scanner);
    gt_scanner_request(asking.scanner, GT_SCAN_FULL);
    alarm(60);
    assert_int_equal(gt_loop_run(loop, NULL), 0);
    alarm(0);
    assert_true(gt_scanner_stop(asking.scanner, 60000));
    rmdir(sys);
    rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_keeps_its_time),
        cmocka_unit_test(a_health_check_with_new_ids_is_one_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
