/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/unit/probe/machine.h"

/* The lives of the processes: probe, worker, and the one that spawned them. */

/* The process of this name; a fork of another one bears that one's name for a moment. */
static pid_t only(const struct machine *machine, const char *name)
{
    pid_t pid = 0;
    for (long until = clock_ms() + PATIENCE_MS; clock_ms() < until; sleep_ms(5))
        if (machine_processes(machine, name, &pid) == 1)
            return pid;
    fail_msg("there is not one %s, but %u", name, machine_processes(machine, name, NULL));
    return 0;
}

static void library_comes_and_goes(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    machine_library(&machine, NULL);
    gt_auto_node struct gt_node *none = machine_node(&machine, 8, NULL);
    assert_true(misses(none, "vendor library", "no libmxsml.so in /opt/mxdriver/lib"));
    assert_int_equal(machine_processes(&machine, "gputopo-vendor", NULL), 0);

    machine_library(&machine, "fake-mxsml-old");
    gt_auto_free char *old = NULL;
    gt_auto_node struct gt_node *with_old = machine_node(&machine, 8, &old);
    assert_int_equal(with_old->missing_count, 0);
    assert_string_equal(with_old->gpus[0].uuid, "GPU-0");
    assert_non_null(strstr(old, "\"missing\":[\"mxSmlGetMetaXLinkInfo_v2\",\"mxSmlEventSetCreate\","
                                "\"mxSmlDeviceRegisterEvents\",\"mxSmlEventSetWait\"]"));

    pid_t before = 0, after = 0;
    before = only(&machine, "gputopo-vendor");
    machine_library(&machine, "fake-mxsml"); /* an upgrade: only a new process can see it */
    gt_auto_free char *upgraded = machine_scan(&machine);
    after = only(&machine, "gputopo-vendor");
    assert_int_not_equal(before, after);
    assert_non_null(strstr(upgraded, "\"missing\":[]"));

    /* No library at all, but a file that calls itself so. */
    assert_int_equal(gt_file_write(machine.library, "nonsense", 8, 0700, NULL), 0);
    gt_auto_node struct gt_node *broken = machine_node(&machine, 8, NULL);
    assert_true(misses(broken, "dlopen", "libmxsml.so"));
    machine_done(&machine);
}

static void library_elsewhere(void **state)
{
    (void)state;
    struct machine machine;
    char place[160];
    machine_new(&machine, "");
    snprintf(place, sizeof(place), "%s/opt/vendor", machine.dir);
    assert_int_equal(mkdir(place, 0700), 0);
    snprintf(place, sizeof(place), "%s/opt/vendor/libmxsml.so", machine.dir);
    assert_int_equal(rename(machine.library, place), 0);
    gt_auto_free char *found = machine_scan(&machine);
    assert_non_null(strstr(found, "\"path\":\"/opt/vendor/libmxsml.so\""));
    /* An absolute link leads to the same file below the root, as the programs of that machine see it. */
    assert_int_equal(symlink("/opt/vendor/libmxsml.so", machine.library), 0);
    gt_auto_free char *linked = machine_scan(&machine);
    assert_non_null(strstr(linked, "\"path\":\"/opt/mxdriver/lib/libmxsml.so\""));
    assert_non_null(strstr(linked, "GPU-7"));
    machine_done(&machine);
}

/* Away from the vendor's places, what others than root and we can change is not run. */
static void library_of_others(void **state)
{
    (void)state;
    struct machine machine;
    char dir[160], file[192];
    machine_new(&machine, "");
    snprintf(dir, sizeof(dir), "%s/opt/somebody", machine.dir);
    snprintf(file, sizeof(file), "%s/libmxsml.so", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(rename(machine.library, file), 0);
    static const struct {
        mode_t dir, file;
        bool found;
    } cases[] = {{0755, 0755, true}, {0755, 0757, false}, {0777, 0755, false}, {01777, 0755, false}};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        assert_int_equal(chmod(dir, cases[i].dir), 0);
        assert_int_equal(chmod(file, cases[i].file), 0);
        gt_auto_free char *log = machine_scan(&machine);
        assert_int_equal(strstr(log, "/opt/somebody/libmxsml.so") != NULL, cases[i].found);
        assert_int_equal(strstr(log, "GPU-7") != NULL, cases[i].found);
    }
    if (geteuid() == 0) {
        assert_int_equal(chmod(dir, 0755), 0);
        assert_int_equal(chown(file, 65534, 65534), 0);
        gt_auto_free char *log = machine_scan(&machine);
        assert_null(strstr(log, "GPU-7"));
    }
    machine_done(&machine);
}

/* This process and its children are on a kernel that does not have close_range(). */
static void forget_close_range(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {GT_COUNT(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

/* Sockets that a process holds above its own, which is number 3. */
static unsigned foreign_sockets(pid_t pid)
{
    char path[64], target[64];
    unsigned count = 0;
    for (int fd = 4; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        count += n > 7 && memcmp(target, "socket:", 7) == 0;
    }
    return count;
}

static void worker_holds_nothing_of_others(void **state)
{
    if (getenv("GPUTOPO_UNDER_VALGRIND")) /* which needs the system call that is taken away here */
        skip();
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pid_t worker = 0;
        gt_auto_free char *log = NULL;
        forget_close_range();
        if (gt_probe_client_spawn(machine.probe, machine.dir, false, &machine.client, NULL) < 0 ||
            gt_probe_scan(machine.client, 0, &log, NULL) < 0 || !strstr(log, "GPU-7") ||
            machine_processes(&machine, "gputopo-vendor", &worker) != 1)
            _exit(1);
        _exit(foreign_sockets(worker) ? 2 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 77) /* no seccomp here */
        assert_int_equal(WEXITSTATUS(status), 0);
    machine_done(&machine);
}

/* Waits until a process has closed all it had: it gives its memory back, and looks gone, some time before. */
static void await_exit(pid_t pid)
{
    for (long until = clock_ms() + PATIENCE_MS; clock_ms() < until; sleep_ms(5)) {
        char path[64];
        gt_auto_free char *text = NULL;
        size_t len;
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        if (gt_file_read(AT_FDCWD, path, 4096, &text, &len, NULL) < 0)
            return;
        const char *state = strrchr(text, ')');
        if (state && strncmp(state, ") Z", 3) == 0)
            return;
    }
    fail_msg("process %d does not end", pid);
}

static void worker_killed(void **state)
{
    (void)state;
    struct machine machine;
    struct gt_probe_stats stats;
    pid_t worker = 0, next = 0;
    machine_new(&machine, "");
    gt_auto_free char *first = machine_scan(&machine);
    worker = only(&machine, "gputopo-vendor");
    assert_int_equal(kill(worker, SIGKILL), 0);
    await_exit(worker);
    gt_auto_free char *second = machine_scan(&machine);
    assert_string_equal(first, second);
    next = only(&machine, "gputopo-vendor");
    assert_int_not_equal(worker, next);
    gt_probe_client_stats(machine.client, &stats);
    assert_int_equal(stats.restarts, 1);
    assert_int_equal(stats.failures, 0);
    machine_done(&machine);
}

static void probe_killed(void **state)
{
    (void)state;
    struct machine machine;
    struct gt_probe_stats stats;
    pid_t probe = 0;
    machine_new(&machine, "");
    gt_auto_free char *first = machine_scan(&machine);
    probe = only(&machine, "gputopo-probe");
    assert_int_equal(kill(probe, SIGKILL), 0);
    assert_true(machine_gone(&machine, NULL)); /* the worker ended with it */
    long start = clock_ms();
    gt_auto_free char *second = machine_scan(&machine);
    assert_string_equal(first, second);
    gt_probe_client_stats(machine.client, &stats);
    assert_int_equal(stats.restarts, 1);
    assert_int_equal(stats.failures, 0);
    /* Started at most once a second: the second one not before `start`, so the third a second after it. */
    probe = only(&machine, "gputopo-probe");
    assert_int_equal(kill(probe, SIGKILL), 0);
    gt_auto_free char *third = machine_scan(&machine);
    assert_string_equal(first, third);
    assert_in_range(clock_ms() - start, 999, PATIENCE_MS);
    machine_done(&machine);
}

static void probe_stopped_while_scanning(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "--call-timeout 300000 --scan-timeout 300000");
    machine_scenario(&machine, 2, "\"faults\":[{\"call\":\"mxSmlGetDeviceState\",\"do\":\"hang\"}]");
    machine_spawn(&machine);
    gt_probe_client_deadline(machine.client, 600);
    gt_auto_err struct gt_err *err = NULL;
    char *log = NULL;
    long start = clock_ms();
    assert_int_equal(gt_probe_scan(machine.client, 0, &log, &err), -ETIMEDOUT);
    assert_null(log);
    assert_in_range(clock_ms() - start, 550, PATIENCE_MS);
    assert_true(machine_gone(&machine, NULL)); /* the probe gave up its hanging worker with its client */
    machine_done(&machine);
}

/* Programs that are no probe. */
/* A caller with a short limit continues with the same scan later. */
static void not_answered_yet(void **state)
{
    (void)state;
    struct machine machine;
    struct gt_probe_stats stats;
    gt_auto_free char *log = NULL;
    machine_new(&machine, "");
    machine_scenario(&machine, 4,
                     "\"faults\":[{\"call\":\"mxSmlGetDeviceCount\",\"do\":\"slow\",\"ms\":1500}]");
    machine_spawn(&machine);
    assert_int_equal(gt_probe_scan(machine.client, 10, &log, NULL), -EINPROGRESS);
    assert_true(gt_probe_scan_is_due(machine.client));
    assert_int_equal(gt_probe_scan(machine.client, 10, &log, NULL), -EINPROGRESS);
    assert_int_equal(gt_probe_scan(machine.client, 0, &log, NULL), 0);
    assert_false(gt_probe_scan_is_due(machine.client));
    assert_non_null(strstr(log, "GPU-3"));
    gt_probe_client_stats(machine.client, &stats);
    assert_int_equal(stats.scans, 1);
    assert_int_equal(stats.failures, 0);
    machine_done(&machine);
}

/* A socket that is awaited: for the caller's time each, for the patience in all. */
static void not_listening_yet(void **state)
{
    (void)state;
    gt_auto_probe_client struct gt_probe_client *client = NULL;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *log = NULL;
    assert_int_equal(gt_probe_client_new("/tmp/gputopo-no-such/probe.sock", &client, NULL), 0);
    gt_probe_client_patience(client, 300);
    assert_int_equal(gt_probe_scan(client, 10, &log, NULL), -EINPROGRESS);
    assert_int_equal(gt_probe_scan(client, 10, &log, NULL), -EINPROGRESS);
    assert_int_equal(gt_probe_scan(client, 0, &log, &err), -ENOENT);
    assert_non_null(strstr(gt_err_text(err), "/tmp/gputopo-no-such/probe.sock"));
    assert_false(gt_probe_scan_is_due(client));
    assert_int_equal(gt_probe_scan(client, 60000, &log, NULL), -ENOENT); /* it has been waited for */
}

static void impostors(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int code;
    } table[] = {
        {"#!/bin/sh\nexec sleep 300\n", -ETIMEDOUT},
        {"#!/bin/sh\nexit 0\n", -ECONNRESET},
        {"#!/bin/sh\nprintf 'hello\\n' >&3\nexec sleep 300\n", -EBADMSG},
        {"#!/bin/sh\nprintf 'ok 99999999 0\\n' >&3\nexec sleep 300\n", -EBADMSG},
        {"#!/bin/sh\nprintf 'ok 0 0\\nok 10 0\\nabc' >&3\nexec sleep 300\n", -ETIMEDOUT},
        {"#!/bin/sh\nprintf 'ok 0 0\\nok 4 0\\na\\0bc' >&3\nexec sleep 300\n", -EBADMSG},
        {"#!/bin/sh\nprintf 'ok 0 0\\nerror too busy\\n' >&3\nexec sleep 300\n", -EIO},
        {"#!/bin/sh\nhead -c 1000000 /dev/zero >&3\nexec sleep 300\n", -EBADMSG},
    };
    for (unsigned i = 0; i < GT_COUNT(table); i++) {
        struct machine machine;
        struct gt_probe_stats stats;
        gt_auto_err struct gt_err *err = NULL;
        char *log = NULL;
        machine_new(&machine, "");
        assert_int_equal(gt_file_write(machine.probe, table[i].script, strlen(table[i].script), 0700, NULL),
                         0);
        machine_spawn(&machine);
        gt_probe_client_deadline(machine.client, table[i].code == -ETIMEDOUT ? 700 : PATIENCE_MS);
        int r = gt_probe_scan(machine.client, 0, &log, &err);
        if (r != table[i].code)
            print_error("script %u: %s\n", i, gt_err_text(err));
        assert_int_equal(r, table[i].code);
        assert_null(log);
        gt_probe_client_stats(machine.client, &stats);
        assert_int_equal(stats.failures, 1);
        machine_done(&machine);
    }
}

static void no_program(void **state)
{
    if (getenv("GPUTOPO_UNDER_VALGRIND")) /* where posix_spawn() cannot tell that the program is missing */
        skip();
    (void)state;
    gt_auto_probe_client struct gt_probe_client *client = NULL;
    gt_auto_err struct gt_err *err = NULL;
    char *log = NULL;
    assert_int_equal(gt_probe_client_spawn("/nonexistent/probe", "/", false, &client, NULL), 0);
    assert_int_equal(gt_probe_scan(client, 0, &log, &err), -ENOENT);
    assert_non_null(strstr(gt_err_text(err), "/nonexistent/probe"));
}

/* In whatever way the process that has started the probe ends, the probe and its worker end, too. */
static void orphaned(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *log = NULL;
        if (gt_probe_client_spawn(machine.probe, machine.dir, false, &machine.client, NULL) < 0 ||
            gt_probe_scan(machine.client, 0, &log, NULL) < 0)
            _exit(1);
        raise(SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    machine_done(&machine);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, timeout_ms) == 1;
}

static void events(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    machine_scenario(&machine, 4, "\"events\":[{\"afterMs\":3000,\"dev\":2,\"type\":7,\"data\":\"x\"}]");
    machine_spawn(&machine);
    int fd = gt_probe_client_event_fd(machine.client);
    assert_true(fd >= 0);
    free(machine_scan(&machine));
    assert_false(readable(fd, 0));
    assert_true(readable(fd, PATIENCE_MS));
    only(&machine, "gputopo-events");
    free(machine_scan(&machine)); /* drains it */
    assert_false(readable(fd, 50));

    /* After the probe was replaced, the same descriptor reports events. */
    pid_t probe = 0;
    probe = only(&machine, "gputopo-probe");
    assert_int_equal(kill(probe, SIGKILL), 0);
    assert_true(machine_gone(&machine, NULL));
    gt_auto_free char *look = NULL;
    assert_int_equal(gt_probe_health(machine.client, &look, NULL), 0);
    assert_int_equal(gt_probe_client_event_fd(machine.client), fd);
    assert_true(readable(fd, PATIENCE_MS));
    machine_done(&machine);
}

/* A storm of events, a hanging or crashing event call: scans go on. */
static void event_faults(void **state)
{
    (void)state;
    static const char *const more[] = {
        "\"events\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]",
        "\"faults\":[{\"call\":\"mxSmlEventSetCreate\",\"do\":\"hang\"}]",
        "\"faults\":[{\"call\":\"mxSmlEventSetWait\",\"do\":\"crash\"}]",
        "\"faults\":[{\"call\":\"mxSmlDeviceRegisterEvents\",\"do\":\"code\",\"code\":9}]",
        "\"faults\":[{\"call\":\"mxSmlEventSetWait\",\"do\":\"missing\"}]",
    };
    for (unsigned i = 0; i < GT_COUNT(more); i++) {
        struct machine machine;
        struct gt_probe_stats stats;
        machine_new(&machine, "");
        machine_scenario(&machine, 2, more[i]);
        gt_auto_free char *first = machine_scan(&machine), *second = NULL;
        for (long until = clock_ms() + PATIENCE_MS;;) {
            sleep_ms(150);
            free(second);
            second = machine_scan(&machine);
            if (i > 0 || strstr(second, "\"events\":[{\"device\":0,\"count\":")) /* they are counted */
                break;
            assert_true(clock_ms() < until);
        }
        if (i > 0)
            assert_string_equal(first, second);
        gt_probe_client_stats(machine.client, &stats);
        assert_int_equal(stats.restarts, 0);
        assert_int_equal(stats.failures, 0);
        machine_done(&machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_comes_and_goes),
        cmocka_unit_test(library_elsewhere),
        cmocka_unit_test(library_of_others),
        cmocka_unit_test(worker_holds_nothing_of_others),
        cmocka_unit_test(worker_killed),
        cmocka_unit_test(probe_killed),
        cmocka_unit_test(probe_stopped_while_scanning),
        cmocka_unit_test(not_answered_yet),
        cmocka_unit_test(not_listening_yet),
        cmocka_unit_test(impostors),
        cmocka_unit_test(no_program),
        cmocka_unit_test(orphaned),
        cmocka_unit_test(events),
        cmocka_unit_test(event_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
