/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/probe/machine.h"

/* gputopo-probe as a server of its own, and clients that do not behave. */

static int connect_raw(const struct machine *machine)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", machine->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    for (int i = 0; connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0; i++) {
        assert_in_range(i, 0, PATIENCE_MS / 5);
        sleep_ms(5);
    }
    return fd;
}

/* Probes that run, for the case that a test fails in between: ctest would wait for one that is left. */
static pid_t running[4];

static void note(pid_t before, pid_t after)
{
    unsigned i = 0;
    while (i < GT_COUNT(running) && running[i] != before)
        i++;
    assert_in_range(i, 0, GT_COUNT(running) - 1);
    running[i] = after;
}

static int end_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GT_COUNT(running); i++)
        if (running[i]) {
            kill(running[i], SIGKILL);
            waitpid(running[i], NULL, 0);
            running[i] = 0;
        }
    return 0;
}

static pid_t start(struct machine *machine, const char *expected_failure)
{
    pid_t pid = 0;
    char socket_option[] = "--socket", root_option[] = "--root", name[] = "probe";
    char *argv[] = {name, socket_option, machine->socket, root_option, machine->dir, NULL};
    assert_int_equal(posix_spawn(&pid, machine->probe, NULL, NULL, argv, environ), 0);
    note(0, pid);
    if (!expected_failure)
        close(connect_raw(machine)); /* the path is there a moment before it listens */
    return pid;
}

static int stop(pid_t pid, int signal)
{
    int status = 0;
    if (signal)
        kill(pid, signal);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    note(pid, 0);
    return status;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Whether the peer hangs up. */
static bool hangs_up(int fd)
{
    char buffer[4096];
    for (long until = clock_ms() + PATIENCE_MS; clock_ms() < until;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        if (poll(&poll_fd, 1, (int)(until - clock_ms())) > 0 && recv(fd, buffer, sizeof(buffer), 0) <= 0)
            return true;
    }
    return false;
}

static void serves_several(void **state)
{
    (void)state;
    struct machine machine;
    gt_auto_probe_client struct gt_probe_client *second = NULL;
    gt_auto_free char *log = NULL;
    struct stat st;
    machine_new(&machine, "");
    pid_t probe = start(&machine, NULL);
    assert_int_equal(lstat(machine.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(gt_probe_client_new(machine.socket, &machine.client, NULL), 0);
    assert_int_equal(gt_probe_client_new(machine.socket, &second, NULL), 0);
    gt_auto_free char *first = machine_scan(&machine);
    assert_int_equal(gt_probe_scan(second, 0, &log, NULL), 0);
    assert_string_equal(first, log);

    char reply[64] = "";
    int fd = connect_raw(&machine);
    say(fd, "ping\npin");
    sleep_ms(20);
    say(fd, "g\n");
    for (size_t got = 0; got < 14;) {
        ssize_t n = recv(fd, reply + got, sizeof(reply) - 1 - got, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_string_equal(reply, "ok 0 0\nok 0 0\n");
    close(fd);

    /* A second probe does not take the socket away; the end of the first one removes it. */
    pid_t other = start(&machine, "in use");
    int status = stop(other, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    status = stop(probe, SIGTERM);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(lstat(machine.socket, &st), -1);

    /* Without a server: a clear error. With a new one: on again. */
    gt_auto_err struct gt_err *err = NULL;
    char *none = NULL;
    assert_int_equal(gt_probe_scan(machine.client, 0, &none, &err), -ENOENT);
    assert_non_null(strstr(gt_err_text(err), machine.socket));
    probe = start(&machine, NULL);
    gt_auto_free char *again = machine_scan(&machine);
    assert_string_equal(first, again);
    stop(probe, SIGKILL);
    /* A worker that was just forked holds the listening socket for a moment. */
    assert_true(machine_gone(&machine, NULL));
    /* The socket of a probe that has ended is replaced. */
    assert_int_equal(lstat(machine.socket, &st), 0);
    probe = start(&machine, NULL);
    gt_auto_free char *third = machine_scan(&machine);
    assert_string_equal(first, third);
    stop(probe, SIGTERM);
    machine_done(&machine);
}

static void rude_clients(void **state)
{
    (void)state;
    struct machine machine;
    int rude[16];
    machine_new(&machine, "");
    pid_t probe = start(&machine, NULL);
    assert_int_equal(gt_probe_client_new(machine.socket, &machine.client, NULL), 0);
    gt_auto_free char *first = machine_scan(&machine);

    static const char *const rubbish[] = {"GET / HTTP/1.1\r\n\r\n", "\n", "scan\nrubbish\n", "\xff\xfe\x00"};
    for (unsigned i = 0; i < GT_COUNT(rubbish); i++) {
        int fd = connect_raw(&machine);
        char flood[300];
        memset(flood, 'x', sizeof(flood));
        say(fd, rubbish[i]);
        send(fd, flood, sizeof(flood), MSG_NOSIGNAL);
        assert_true(hangs_up(fd));
        close(fd);
    }
    /* Silent ones, more than there are places, and ones that ask but do not read. A machine that stands still
     * is no failure: at least one answer comes before the patience with them ends.
     */
    bool in_time = false;
    for (unsigned turn = 0; turn < 10 && !in_time; turn++) {
        long start_time = clock_ms();
        for (unsigned i = 0; i < GT_COUNT(rude); i++) {
            rude[i] = connect_raw(&machine);
            if (i >= 12)
                send(rude[i], "scan\n", 5, MSG_NOSIGNAL);
        }
        gt_auto_free char *second = machine_scan(&machine);
        in_time = clock_ms() - start_time < 4900;
        assert_string_equal(first, second);
        for (unsigned i = 0; i < GT_COUNT(rude); i++)
            close(rude[i]);
    }
    assert_true(in_time);

    int half = connect_raw(&machine);
    say(half, "sca");
    assert_true(hangs_up(half)); /* its patience is 5 s */
    close(half);
    gt_auto_free char *third = machine_scan(&machine);
    assert_string_equal(first, third);
    stop(probe, SIGTERM);
    machine_done(&machine);
}

static unsigned open_files(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    gt_auto_dir DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    return count;
}

static void ping(int fd)
{
    char reply[16];
    say(fd, "ping\n");
    assert_int_equal(recv(fd, reply, sizeof(reply), 0), 7);
}

/* Descriptors that nobody asked for are closed. How many it was born with is not ours to say. */
static void passed_descriptors(void **state)
{
    (void)state;
    struct machine machine;
    machine_new(&machine, "");
    pid_t probe = start(&machine, NULL);
    int fd = connect_raw(&machine);
    ping(fd);
    unsigned before = open_files(probe);
    for (int round = 0; round < 50; round++) {
        int files[3] = {0, 1, 2};
        char text[] = "ping\n", reply[16];
        struct iovec part = {text, 5};
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(files))] = {0};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(files));
        memcpy(CMSG_DATA(c), files, sizeof(files));
        assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), 5);
        assert_int_equal(recv(fd, reply, sizeof(reply), 0), 7);
    }
    assert_in_range(open_files(probe), 4, before + 3); /* of the last message they may still be there */
    close(fd);
    stop(probe, SIGTERM);
    machine_done(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(serves_several, end_all),
        cmocka_unit_test_teardown(rude_clients, end_all),
        cmocka_unit_test_teardown(passed_descriptors, end_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
