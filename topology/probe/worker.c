/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

enum { STOP_PATIENCE_MS = 500, STUCK_MAX = 8 };

static pid_t stuck[STUCK_MAX];

unsigned gt_worker_stuck(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < STUCK_MAX; i++) {
        if (stuck[i] && waitpid(stuck[i], NULL, WNOHANG) != 0)
            stuck[i] = 0;
        count += stuck[i] != 0;
    }
    return count;
}

int gt_worker_start(struct gt_worker *worker, const char *name, bool verbose, struct gt_err **err)
{
    if (gt_worker_stuck() >= STUCK_MAX / 2)
        return gt_fail(err, EAGAIN, "vendor worker: %u earlier ones hang in the kernel and cannot be killed",
                       gt_worker_stuck());
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return gt_fail_sys(err, errno, "vendor worker: socketpair");
    pid_t supervisor = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        int r = gt_fail_sys(err, errno, "vendor worker: fork");
        close(ends[0]);
        close(ends[1]);
        return r;
    }
    if (pid == 0)
        gt_worker_main(ends[1], supervisor, name, verbose);
    setpgid(pid, pid); /* here too, so that the group exists whoever runs first */
    close(ends[1]);
    *worker = (struct gt_worker){.pid = pid, .fd = ends[0]};
    return 0;
}

int gt_worker_request(struct gt_worker *worker, const char *request, int timeout_ms, int owner,
                      char answer[static GT_WORKER_PACKET_MAX])
{
    if (send(worker->fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -ECONNRESET;
    int64_t deadline = gt_clock_signed_ms() + timeout_ms;
    for (;;) {
        int64_t left = deadline - gt_clock_signed_ms();
        struct pollfd fds[2] = {{.fd = worker->fd, .events = POLLIN}, {.fd = owner, .events = POLLRDHUP}};
        int n = poll(fds, 2, left > 0 ? (int)left : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -ECONNRESET;
        if (owner >= 0 && fds[1].revents)
            return -ECANCELED;
        if (fds[0].revents)
            break;
        if (left <= 0)
            return -ETIMEDOUT;
    }
    ssize_t n = recv(worker->fd, answer, GT_WORKER_PACKET_MAX - 1, MSG_DONTWAIT | MSG_TRUNC);
    if (n <= 0)
        return -ECONNRESET;
    if (n >= GT_WORKER_PACKET_MAX || memchr(answer, '\0', (size_t)n))
        return -EMSGSIZE;
    answer[n] = '\0';
    return (int)n;
}

static void describe_end(int status, char *why, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(why, size, "crashed (signal %d)", WTERMSIG(status));
    else
        snprintf(why, size, "exited (status %d)", WEXITSTATUS(status));
}

void gt_worker_stop(struct gt_worker *worker, char *why, size_t size)
{
    pid_t pid = worker->pid;
    int status = 0;
    if (!pid)
        return;
    /* One that has closed its socket is about to end by itself: let it, so that its own exit status is known.
     */
    pid_t ended = 0;
    struct pollfd closed = {.fd = worker->fd};
    bool disconnected = poll(&closed, 1, 0) > 0;
    int64_t start = gt_clock_signed_ms();
    bool killed = false;
    while (!ended && gt_clock_signed_ms() - start < STOP_PATIENCE_MS) {
        ended = waitpid(pid, &status, WNOHANG);
        if (ended)
            break;
        if (!killed && (!disconnected || gt_clock_signed_ms() - start > 100)) {
            kill(-pid, SIGKILL); /* with whatever the library has started */
            kill(pid, SIGKILL);
            killed = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    if (ended == pid && !killed)
        kill(-pid, SIGKILL);
    if (ended == pid && !killed && why)
        describe_end(status, why, size);
    for (unsigned i = 0; !ended && i < STUCK_MAX; i++)
        if (!stuck[i]) {
            stuck[i] = pid;
            break;
        }
    close(worker->fd);
    *worker = (struct gt_worker){.fd = -1};
}

bool gt_worker_alive(struct gt_worker *worker)
{
    struct pollfd fd = {.fd = worker->fd, .events = POLLIN};
    return worker->pid && poll(&fd, 1, 0) == 0; /* silent, and not hung up */
}
