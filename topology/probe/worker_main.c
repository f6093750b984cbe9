/* SPDX-License-Identifier: Apache-2.0 */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/text.h"
#include "topology/probe/vendor.h"
#include "topology/probe/worker.h"

enum { LISTED_DEVICES_MAX = 64, WORKER_FD = 3 };

/* Takes away what the library must not reach: the supervisor's descriptors, signal handlers and output. */
static int give_up_rights(int fd, pid_t supervisor, const char *name, bool verbose)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    prctl(PR_SET_NAME, name);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (int i = 1; i < 32; i++)
        signal(i, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0)
        _exit(1);
    dup2(nowhere, 0);
    dup2(verbose ? 2 : nowhere, 1);
    if (!verbose)
        dup2(nowhere, 2);
    if (fd != WORKER_FD && dup3(fd, WORKER_FD, O_CLOEXEC) < 0)
        _exit(1);
    closefrom(WORKER_FD + 1); /* unlike close_range() also on kernels before 5.9 */
    return WORKER_FD;
}

/* A name in a list, where the library does not have that function. */
static void add_missing(const char *name, struct gt_buf *to)
{
    if (!gt_vendor_symbol(name))
        gt_json_add_text(to, NULL, name);
}

static void open_library(const char *path, struct gt_buf *to)
{
    const char *why = "";
    if (!gt_vendor_open(path, &why)) {
        char copy[512]; /* a loader's complaint may be long */
        gt_text_copy(copy, sizeof(copy), strlen(why) < sizeof(copy) ? why : "dlopen failed");
        gt_json_add_text(to, "error", copy);
        return;
    }
    gt_json_begin(to, "missing", '[');
    for (unsigned i = 0; i < gt_vendor_call_count; i++)
        add_missing(gt_vendor_calls[i].name, to);
    for (unsigned i = 0; gt_vendor_event_functions[i]; i++)
        add_missing(gt_vendor_event_functions[i], to);
    gt_json_end(to, ']');
}

/* Reads up to `max` numbers, each preceded by a space. */
static bool read_numbers(const char *text, uint32_t *to, unsigned max, unsigned *ret_count)
{
    unsigned count = 0;
    while (*text) {
        char digits[16];
        uint64_t value;
        size_t len = strcspn(text + 1, " ");
        if (*text != ' ' || count == max || len >= sizeof(digits))
            return false;
        memcpy(digits, text + 1, len);
        digits[len] = '\0';
        if (!gt_text_to_unsigned(digits, UINT32_MAX, &value))
            return false;
        to[count++] = (uint32_t)value;
        text += 1 + len;
    }
    *ret_count = count;
    return true;
}

static void worker_main_call(const char *request, struct gt_buf *to)
{
    size_t name = strcspn(request, " ");
    uint32_t args[GT_CALL_ARGS_MAX] = {0};
    unsigned count = 0;
    for (unsigned i = 0; i < gt_vendor_call_count; i++) {
        const struct gt_vendor_call *known = &gt_vendor_calls[i];
        if (strlen(known->name) != name || memcmp(known->name, request, name) != 0)
            continue;
        const struct gt_vendor_query query = {known, gt_vendor_symbol(known->name), args};
        if (query.function && read_numbers(request + name, args, GT_CALL_ARGS_MAX, &count) &&
            count == known->args)
            known->run(&query, to);
        else
            gt_json_add_text(to, "error", "missing");
        return;
    }
    gt_json_add_text(to, "error", "unknown call");
}

static void events(int fd, const char *request, struct gt_buf *to)
{
    uint32_t devices[LISTED_DEVICES_MAX];
    unsigned count = 0;
    const char *why = "bad request";
    if (read_numbers(request, devices, LISTED_DEVICES_MAX, &count))
        gt_vendor_events(fd, devices, count, &why);
    gt_json_add_text(to, "error", why);
}

_Noreturn void gt_worker_main(int fd, pid_t supervisor, const char *name, bool verbose)
{
    fd = give_up_rights(fd, supervisor, name, verbose);
    char request[4096 + 8];
    for (;;) {
        ssize_t n = recv(fd, request, sizeof(request) - 1, 0);
        if (n <= 0)
            _exit(0);
        request[n] = '\0';
        gt_auto_buf struct gt_buf answer = GT_BUF(GT_WORKER_PACKET_MAX - 1);
        gt_json_begin(&answer, NULL, '{');
        if (strncmp(request, "open ", 5) == 0)
            open_library(request + 5, &answer);
        else if (strncmp(request, "call ", 5) == 0)
            worker_main_call(request + 5, &answer);
        else if (strncmp(request, "events", 6) == 0)
            events(fd, request + 6, &answer);
        gt_json_end(&answer, '}');
        if (answer.failed || send(fd, answer.data, answer.len, MSG_NOSIGNAL) < 0)
            _exit(1);
    }
}
