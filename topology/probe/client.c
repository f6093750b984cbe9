/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "topology/probe/protocol.h"

enum {
    DEADLINE_MS = 25000, /* the probe's 20 s for a scan, and a margin */
    RESPAWN_GAP_MS = 1000,
    PARTING_MS = 500, /* time for a child to end by itself */
    PROBE_FD = 3,     /* the connection, in the child */
};

struct gt_probe_client {
    char socket[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* "" where the probe is a child */
    struct {
        char *program, *root;
        pid_t pid; /* 0: none */
        int64_t started_ms;
    } child;
    int fd;                  /* the connection, -1 none */
    int event_in, event_out; /* read here; passed to the probe */
    int deadline_ms;
    bool quiet;                     /* the probe at the other end */
    const char *request;            /* that is asked for */
    int patience_ms;                /* for a socket that is not there yet; spent by the first connection */
    int64_t patient_until;          /* of that one, 0: it was not tried yet */
    int64_t deadline;               /* of the scan that is asked for, 0: none is */
    bool watch_due, scan_due, kept; /* answers to come; the connection is from before that scan */
    bool stale_due;                 /* an answer to come is to an earlier request */
    bool overdue;                   /* the answer was not there in time */
    bool silent;                    /* the last one was not there at its deadline */
    struct {
        _Atomic uint64_t scans, failures, restarts, late;
    } counts;
};

static void pause_ms(int64_t milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static int new_client(struct gt_probe_client **ret, struct gt_err **err)
{
    struct gt_probe_client *client = calloc(1, sizeof(*client));
    int ends[2];
    GT_NEED(client, err, "probe client");
    /* Datagrams: the probe's send() never blocks, and never sees its peer in one of our other processes. */
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        int r = gt_fail_sys(err, errno, "probe client");
        free(client);
        return r;
    }
    client->fd = -1;
    client->event_in = ends[0];
    client->event_out = ends[1];
    client->deadline_ms = DEADLINE_MS;
    *ret = client;
    return 0;
}

int gt_probe_client_new(const char *socket, struct gt_probe_client **ret, struct gt_err **err)
{
    gt_auto_probe_client struct gt_probe_client *client = NULL;
    GT_TRY(new_client(&client, err));
    if (!*socket || !gt_text_copy(client->socket, sizeof(client->socket), socket))
        return gt_fail(err, EINVAL, "%s: a socket's path has 1 to %zu bytes", socket,
                       sizeof(client->socket) - 1);
    *ret = gt_steal(client);
    return 0;
}

int gt_probe_client_spawn(const char *program, const char *root, bool quiet, struct gt_probe_client **ret,
                          struct gt_err **err)
{
    gt_auto_probe_client struct gt_probe_client *client = NULL;
    GT_TRY(new_client(&client, err));
    client->child.program = strdup(program);
    client->child.root = strdup(root ? root : "/");
    client->quiet = quiet;
    GT_NEED(client->child.program && client->child.root, err, "probe client");
    *ret = gt_steal(client);
    return 0;
}

static void probe_client_disconnect(struct gt_probe_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    if (client->child.pid)
        gt_child_end(client->child.pid, PARTING_MS);
    client->child.pid = 0;
    client->watch_due = client->scan_due = client->stale_due = false;
}

void gt_probe_client_free(struct gt_probe_client *client)
{
    if (!client)
        return;
    probe_client_disconnect(client);
    close(client->event_in);
    close(client->event_out);
    free(client->child.program);
    free(client->child.root);
    free(client);
}

/* Waits for the connection; -ETIMEDOUT at the deadline. */
static int await(struct gt_probe_client *client, short events, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - gt_clock_signed_ms();
        struct pollfd fd = {.fd = client->fd, .events = events};
        int n = poll(&fd, 1, left > 0 ? (int)left : 0);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (left <= 0)
            return -ETIMEDOUT;
    }
}

/* -ETIMEDOUT at `until`; if that is not the scan's deadline, the next call continues to wait. */
static int connect_socket(struct gt_probe_client *client, int64_t until, struct gt_err **err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    gt_text_copy(address.sun_path, sizeof(address.sun_path), client->socket);
    gt_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gt_fail_sys(err, errno, "probe");
    if (!client->patient_until)
        client->patient_until = gt_clock_signed_ms() + client->patience_ms;
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int why = errno;
        int64_t now = gt_clock_signed_ms();
        bool absent = why == ENOENT || why == ECONNREFUSED;
        bool wait = why == EAGAIN || (absent && now < client->patient_until); /* EAGAIN: its queue is full */
        if (wait && now >= until && until < client->deadline)
            return gt_fail(err, ETIMEDOUT, "probe at %s: %s", client->socket, strerror(why));
        if (!wait || now >= until) {
            client->patient_until = now;
            return gt_fail_sys(err, why, "probe at %s", client->socket);
        }
        pause_ms(20);
    }
    client->patient_until = gt_clock_signed_ms();
    client->fd = gt_steal_fd(&fd);
    return 0;
}

/*
 * The child has a stream socket and no other descriptor of ours. It ends when it reads the end of the socket,
 * which the kernel closes in whatever way this process ends. (The parent-death signal would come too early:
 * it follows the thread that spawned, not the process.)
 */
static int spawn_probe(struct gt_probe_client *client, struct gt_err **err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return gt_fail_sys(err, errno, "%s", client->child.program);
    gt_auto_close int ours = ends[0];
    gt_auto_close int theirs = ends[1];
    posix_spawn_file_actions_t files;
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", client->child.program);
    /* In this order: the socket may itself be one of 0, 1, 2 or 3. */
    r = posix_spawn_file_actions_adddup2(&files, theirs, PROBE_FD);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&files, 2, 1);
    if (r == 0)
        r = gt_child_close_from(&files, PROBE_FD + 1);
    const char *const argv[] = {
        "gputopo-probe", "--fd", "3", "--root", client->child.root, client->quiet ? "--quiet" : NULL, NULL};
    const struct gt_child_spec spec = {.program = client->child.program, .argv = argv, .files = &files};
    r = r != 0 ? gt_fail_sys(err, r, "%s", client->child.program)
               : gt_child_spawn(&spec, &client->child.pid, err);
    posix_spawn_file_actions_destroy(&files);
    if (r < 0)
        return r;
    client->fd = gt_steal_fd(&ours);
    return 0;
}

static int start_child(struct gt_probe_client *client, struct gt_err **err)
{
    int64_t wait =
        client->child.started_ms ? client->child.started_ms + RESPAWN_GAP_MS - gt_clock_signed_ms() : 0;
    if (wait > 0)
        pause_ms(wait);
    if (client->child.started_ms)
        atomic_fetch_add(&client->counts.restarts, 1);
    client->child.started_ms = gt_clock_signed_ms();
    return spawn_probe(client, err);
}

/* Sends the first requests of a connection: the socket for events, then nothing or more. */
static int send_watch(struct gt_probe_client *client)
{
    char request[] = "watch\n";
    struct iovec part = {request, strlen(request)};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &client->event_out, sizeof(int));
    return sendmsg(client->fd, &message, MSG_NOSIGNAL) == (ssize_t)part.iov_len ? 0 : -EPIPE;
}

/* Reads one reply, which has to begin before `until`; *ret_document where there is one. */
static int read_reply(struct gt_probe_client *client, int64_t until, struct gt_probe_header *ret,
                      char **ret_document, struct gt_err **err)
{
    gt_auto_buf struct gt_buf in = GT_BUF(GT_PROBE_HEADER_MAX + GT_PROBE_DOCUMENT_MAX);
    struct gt_probe_header header = {0};
    int header_len = 0;
    char chunk[16384];
    for (;;) {
        if (!header_len) {
            header_len = gt_probe_read_header(in.data, in.len, &header);
            if (header_len < 0)
                return gt_fail(err, EBADMSG, "the probe answers nonsense");
        }
        if (header_len && in.len >= (size_t)header_len + header.length)
            break;
        int r = await(client, POLLIN, in.len ? client->deadline : until);
        if (r < 0)
            return gt_fail_sys(err, -r, "no answer from the probe");
        /* Never beyond this reply. */
        size_t want = header_len ? (size_t)header_len + header.length - in.len : 1;
        ssize_t n = recv(client->fd, chunk, want < sizeof(chunk) ? want : sizeof(chunk), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return gt_fail(err, ECONNRESET, "the probe has hung up");
        gt_buf_add(&in, chunk, (size_t)n);
        if (in.failed)
            return gt_fail_sys(err, ENOMEM, "answer of the probe");
    }
    if (header.error[0])
        return gt_fail(err, EIO, "probe: %s", header.error);
    if (memchr(in.data, '\0', in.len))
        return gt_fail(err, EBADMSG, "the probe answers nonsense");
    *ret = header;
    if (ret_document) {
        gt_buf_consume(&in, (size_t)header_len);
        *ret_document = gt_buf_take(&in);
        GT_NEED(*ret_document, err, "answer of the probe");
    }
    return 0;
}

static int connect_probe(struct gt_probe_client *client, int64_t until, struct gt_err **err)
{
    GT_TRY(client->child.program ? start_child(client, err) : connect_socket(client, until, err));
    if (send_watch(client) < 0)
        return gt_fail(err, ECONNRESET, "the probe has hung up");
    client->watch_due = true;
    return 0;
}

static int probe_client_ask(struct gt_probe_client *client, int64_t until, char **ret_answers,
                            struct gt_err **err)
{
    gt_auto_free char *answers = NULL;
    struct gt_probe_header header;
    GT_TRY(client->fd < 0 ? connect_probe(client, until, err) : 0);
    GT_TRY(client->watch_due ? read_reply(client, until, &header, NULL, err) : 0);
    client->watch_due = false;
    GT_TRY(client->stale_due ? read_reply(client, until, &header, NULL, err) : 0);
    client->stale_due = false;
    size_t len = strlen(client->request);
    if (!client->scan_due && send(client->fd, client->request, len, MSG_NOSIGNAL) != (ssize_t)len)
        return gt_fail(err, ECONNRESET, "the probe has hung up");
    client->scan_due = true;
    GT_TRY(read_reply(client, until, &header, &answers, err));
    client->scan_due = false;
    atomic_fetch_add(&client->counts.restarts, header.restarts);
    *ret_answers = gt_steal(answers);
    return 0;
}

static void drain_events(struct gt_probe_client *client)
{
    char byte[16];
    for (int i = 0; i < 1024 && recv(client->event_in, byte, sizeof(byte), MSG_DONTWAIT) >= 0; i++)
        ;
}

static const char scan_request[] = "scan\n", health_request[] = "health\n";

static void probe_client_begin(struct gt_probe_client *client, const char *request)
{
    /* A probe that is at work answers before DEADLINE_MS. One that did not is not waited for so long again.
     */
    bool is_short = client->silent && client->deadline_ms > GT_PROBE_LATE_MS;
    client->deadline = gt_clock_signed_ms() + (is_short ? GT_PROBE_LATE_MS : client->deadline_ms);
    client->kept = client->fd >= 0;
    client->stale_due = client->stale_due || client->scan_due;
    client->scan_due = client->overdue = false;
    client->request = request;
    drain_events(client); /* this scan finds what they report */
    atomic_fetch_add(&client->counts.scans, 1);
}

/* Whether our child is stopped by a signal: it does not answer before somebody continues it. */
static bool probe_client_is_stopped(const struct gt_probe_client *client)
{
    char path[32], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)client->child.pid);
    if (!client->child.pid || gt_file_read_attribute(AT_FDCWD, path, text, sizeof(text)) < 0)
        return false;
    const char *name_end = strrchr(text, ')'); /* the name may have brackets, too */
    return name_end && strncmp(name_end, ") T", 3) == 0;
}

/* Asks until that time. *ret_stopped: the probe has not answered, and will not. */
static int ask_until(struct gt_probe_client *client, int64_t until, char **ret_answers, bool *ret_stopped,
                     struct gt_err **err)
{
    for (;;) {
        gt_auto_err struct gt_err *why = NULL;
        int64_t step = gt_clock_signed_ms() + GT_PROBE_LATE_MS;
        int r = probe_client_ask(client, step < until ? step : until, ret_answers, &why);
        bool late = r == -ETIMEDOUT;
        if (late && client->request == health_request && !client->overdue) {
            client->overdue = true;
            atomic_fetch_add(&client->counts.late, 1);
        }
        *ret_stopped = late && probe_client_is_stopped(client);
        if (late && !*ret_stopped && step < until)
            continue;
        if (r < 0 && err)
            *err = gt_steal(why);
        return r;
    }
}

/* `milliseconds`: 0 without another limit than the deadline. */
static int query_within(struct gt_probe_client *client, const char *request, int milliseconds,
                        char **ret_answers, struct gt_err **err)
{
    gt_auto_err struct gt_err *why = NULL;
    bool again = true, stopped;
    if (!client->deadline || client->request != request)
        probe_client_begin(client, request);
    int r = 0;
    for (unsigned attempts = 0; again && attempts < 2; attempts++) {
        int64_t until = gt_clock_signed_ms() + milliseconds;
        if (!milliseconds || until > client->deadline)
            until = client->deadline;
        gt_err_free(gt_steal(why));
        r = ask_until(client, until, ret_answers, &stopped, &why);
        if (r == -ETIMEDOUT && until < client->deadline && !stopped)
            return gt_fail(err, EINPROGRESS, "no answer from the probe yet");
        if (r < 0)
            probe_client_disconnect(client);
        /* A connection from before may have ended meanwhile: that alone is no failure. */
        again = (r == -ECONNRESET && client->kept) || stopped;
    }
    client->deadline = 0;
    client->silent = r == -ETIMEDOUT;
    if (r < 0) {
        atomic_fetch_add(&client->counts.failures, 1);
        if (err)
            *err = gt_steal(why);
    }
    return r;
}

int gt_probe_scan(struct gt_probe_client *client, int milliseconds, char **ret_answers, struct gt_err **err)
{
    return query_within(client, scan_request, milliseconds, ret_answers, err);
}

int gt_probe_health(struct gt_probe_client *client, char **ret_answers, struct gt_err **err)
{
    return query_within(client, health_request, GT_PROBE_LATE_MS, ret_answers, err);
}

bool gt_probe_scan_is_due(const struct gt_probe_client *client)
{
    return client->deadline != 0 && client->request == scan_request;
}

bool gt_probe_health_is_due(const struct gt_probe_client *client)
{
    return client->deadline != 0 && client->request == health_request;
}

void gt_probe_client_stats(const struct gt_probe_client *client, struct gt_probe_stats *ret)
{
    ret->scans = atomic_load(&client->counts.scans);
    ret->failures = atomic_load(&client->counts.failures);
    ret->restarts = atomic_load(&client->counts.restarts);
    ret->late = atomic_load(&client->counts.late);
}

void gt_probe_client_patience(struct gt_probe_client *client, int milliseconds)
{
    client->patience_ms = milliseconds;
}

void gt_probe_client_deadline(struct gt_probe_client *client, int milliseconds)
{
    client->deadline_ms = milliseconds;
}

int gt_probe_client_event_fd(const struct gt_probe_client *client)
{
    return client->event_in;
}
