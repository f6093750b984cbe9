/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/probe/machine.h"
#include "topology/probe/server.h"

/* How a call ends: 0, or errno. */
static int ends(long result)
{
    return result < 0 ? errno : 0;
}

/* In a process of its own, and in one that it starts: there is no way back. The number of the line that is
 * wrong. */
static int unix_sockets_alone(void)
{
    int pair[2];
    if (ends(socket(AF_INET, SOCK_STREAM, 0)) != 0) /* this machine knows it */
        return __LINE__;
    if (gt_no_network(NULL) < 0)
        return __LINE__;
    pid_t child = fork();
    int status = 0;
    if (child > 0)
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : __LINE__;
    if (ends(socket(AF_INET, SOCK_STREAM, 0)) != EAFNOSUPPORT ||
        ends(socket(AF_INET6, SOCK_DGRAM, 0)) != EAFNOSUPPORT ||
        ends(socket(AF_NETLINK, SOCK_RAW, 0)) != EAFNOSUPPORT ||
        ends(socket(AF_PACKET, SOCK_RAW, 0)) != EAFNOSUPPORT)
        _exit(__LINE__);
    if (ends(syscall(SYS_socket, 0x100000000L | AF_INET, SOCK_STREAM, 0)) !=
        EAFNOSUPPORT) /* the kernel takes an int */
        _exit(__LINE__);
    if (ends(syscall(SYS_io_uring_setup, 1, NULL)) != ENOSYS)
        _exit(__LINE__);
    if (ends(socket(AF_UNIX, SOCK_STREAM, 0)) != 0 || ends(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) != 0)
        _exit(__LINE__);
#ifdef __x86_64__
    if (ends(syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0)) != ENOSYS) /* as x32 */
        _exit(__LINE__);
    long answer = 359; /* socket, for 32 bits */
    __asm__ volatile("int $0x80"
                     : "+a"(answer)
                     : "b"(AF_INET), "c"(SOCK_STREAM), "d"(0)
                     : "memory", "r8", "r9", "r10", "r11");
    if (answer != -ENOSYS)
        _exit(__LINE__);
#endif
    _exit(0);
}

static void only_unix_sockets_are_made(void **state)
{
    (void)state;
    if (getenv("GPUTOPO_UNDER_VALGRIND")) /* which makes calls of its own */
        skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(unix_sockets_alone());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* How many filters the process of this name has, -1: it is not known. A fork of another one bears that one's
 * name for a moment. */
static int filters(const struct machine *machine, const char *name)
{
    char path[64], line[256];
    pid_t pid = 0;
    int count = -1;
    for (long until = clock_ms() + 10000; machine_processes(machine, name, &pid) != 1; sleep_ms(5))
        if (clock_ms() > until)
            return -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "Seccomp_filters:", 16) == 0)
            count = (int)strtol(line + 16, NULL, 10);
    if (file)
        fclose(file);
    return count;
}

/* What a probe with these options gets from the library, and how many filters its worker and itself have. */
static char *scan(const char *options, int *ret_worker, int *ret_probe)
{
    struct machine machine;
    machine_new(&machine, options);
    char *log = machine_scan(&machine);
    *ret_worker = filters(&machine, "gputopo-vendor");
    *ret_probe = filters(&machine, "gputopo-probe");
    machine_done(&machine);
    return log;
}

/* The vendor's library answers as ever, and the process that it is in has one filter more than ours. */
static void the_library_is_in_it(void **state)
{
    int before[2], with[2];
    (void)state;
    if (getenv("GPUTOPO_UNDER_VALGRIND"))
        skip();
    gt_auto_free char *log = scan("", &before[0], &before[1]);
    gt_auto_free char *same = scan("--no-network", &with[0], &with[1]);
    assert_true(before[0] >= 0);
    assert_int_equal(with[0], before[0] + 1);
    assert_int_equal(with[1], before[1] + 1);
    assert_non_null(strstr(log, "\"missing\":[]"));
    assert_non_null(strstr(same, "\"missing\":[]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_unix_sockets_are_made),
        cmocka_unit_test(the_library_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
