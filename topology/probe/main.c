/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/options.h"
#include "base/process.h"
#include "topology/probe/server.h"

/* gputopo-probe: queries the vendor library for others. Exit codes: 0 done, 1 failed, 2 wrong usage. */

struct arguments {
    const char *socket;
    int fd;
    uid_t uid;
    bool no_network, quiet, help, version;
    struct gt_prober_options prober;
};

#define PROBE_FIELD(member) GT_OPTION_FIELD(struct arguments, member)

enum { TIMEOUT_MAX_MS = 600000 };

static const struct gt_option options[] = {
    {"socket", "PATH", "Listen on this unix socket", gt_option_text, PROBE_FIELD(socket)},
    {"fd", "N", "Serve this inherited connection and end with it", gt_option_number, PROBE_FIELD(fd),
     .max = 65535},
    {"allow-uid", "UID", "Serve this user too, beside root and the own one", gt_option_number,
     PROBE_FIELD(uid), .max = UINT32_MAX - 1},
    {"root", "DIR", "Look for opt/.../libmxsml.so below this directory (default /)", gt_option_text,
     PROBE_FIELD(prober.root)},
    {"library", "FILE", "Use this vendor library", gt_option_text, PROBE_FIELD(prober.library)},
    {"call-timeout", "MS", "Longest time of one vendor call (default 3000)", gt_option_number,
     PROBE_FIELD(prober.call_timeout_ms), .min = 1, .max = TIMEOUT_MAX_MS},
    {"scan-timeout", "MS", "Longest time of one scan (default 20000)", gt_option_number,
     PROBE_FIELD(prober.scan_timeout_ms), .min = 1, .max = TIMEOUT_MAX_MS},
    {"no-network", NULL, "Keep the vendor library from all but unix sockets", gt_option_set,
     PROBE_FIELD(no_network)},
    {"verbose", NULL, "Let the vendor library write to stderr", gt_option_set, PROBE_FIELD(prober.verbose)},
    {"quiet", NULL, "Log errors of the probe itself only", gt_option_set, PROBE_FIELD(quiet)},
    {"help", NULL, "Print this text", gt_option_last, PROBE_FIELD(help)},
    {"version", NULL, "Print the version", gt_option_last, PROBE_FIELD(version)},
};

static const struct gt_command command = {
    .name = "gputopo-probe",
    .about = "Asks the MetaX vendor library (libmxsml.so) in processes of their own, which it can stop, "
             "and gives its answers to gputopo-agent and gputopo.",
    .more = "Example: gputopo-probe --socket /run/gputopo/probe.sock",
    .options = options,
    .count = GT_COUNT(options),
};

/* What a signal handler needs to take the socket away, unless it is another probe's by now. */
static const char *socket_path;
static struct stat socket_file;

static void probe_main_on_end(int signal)
{
    struct stat st;
    (void)signal;
    if (socket_path && lstat(socket_path, &st) == 0 && st.st_ino == socket_file.st_ino &&
        st.st_dev == socket_file.st_dev)
        unlink(socket_path);
    _exit(0); /* workers end with this process */
}

static void set_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* whatever the parent had blocked */
    struct sigaction end = {.sa_handler = probe_main_on_end}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGHUP, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* Clients with their sockets for events, and the workers. */
enum { PROBE_DESCRIPTORS = 64 };

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .fd = -1,
        .uid = (uid_t)-1,
        .prober = {.root = "/", .call_timeout_ms = 3000, .scan_timeout_ms = 20000, .owner = -1},
    };
    gt_auto_err struct gt_err *err = NULL;
    if (gt_options_read(&command, argc, argv, &arguments, NULL, &err) < 0)
        return gt_exit_with(command.name, err, GT_EXIT_USAGE);
    if (arguments.help)
        return gt_exit_with_help(&command);
    if (arguments.version)
        return gt_exit_with_version(command.name);
    if (!arguments.socket == (arguments.fd < 0)) {
        gt_fail(&err, EINVAL, "expected either --socket or --fd, see --help");
        return gt_exit_with(command.name, err, GT_EXIT_USAGE);
    }
    if (arguments.quiet)
        gt_log_setup(GT_LOG_ERROR, GT_LOG_TEXT);
    gt_auto_prober struct gt_prober *prober = NULL;
    struct gt_server_options server = {.listener = -1, .peer = arguments.fd, .allowed = arguments.uid};
    struct stat st;
    if (arguments.fd >= 0 && (fstat(arguments.fd, &st) < 0 || !S_ISSOCK(st.st_mode))) {
        fprintf(stderr, "gputopo-probe: --fd %d is not a socket\n", arguments.fd);
        return 1;
    }
    set_signals();
    arguments.prober.owner = arguments.fd;
    int r = gt_process_need_descriptors(PROBE_DESCRIPTORS, &err);
    if (r == 0 && arguments.no_network)
        r = gt_no_network(&err);
    if (r == 0)
        r = gt_prober_new(&arguments.prober, &prober, &err);
    if (r == 0 && arguments.socket)
        r = gt_server_listen(arguments.socket, arguments.uid != (uid_t)-1, &server.listener, &err);
    if (r == 0 && arguments.socket && lstat(arguments.socket, &socket_file) == 0)
        socket_path = arguments.socket;
    if (r == 0)
        r = gt_server_run(prober, &server, &err);
    return r < 0 ? gt_exit_with(command.name, err, GT_EXIT_FAILED) : 0;
}
