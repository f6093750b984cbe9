/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "base/version.h"
#include "topology/probe/no_network.h"
#include "topology/probe/server.h"

/* gputopo-probe: asks the vendor library on behalf of others. Exit codes: 0 done, 1 failed, 2 wrong usage. */

enum {
    OPT_SOCKET = 256,
    OPT_FD,
    OPT_ROOT,
    OPT_LIBRARY,
    OPT_CALL,
    OPT_SCAN,
    OPT_UID,
    OPT_NO_NETWORK,
    OPT_VERBOSE,
    OPT_QUIET,
    OPT_VERSION,
    OPT_HELP
};

static const struct argp_option options[] = {
    {"socket", OPT_SOCKET, "PATH", 0, "Listen on this unix socket", 0},
    {"fd", OPT_FD, "N", 0, "Serve this inherited connection and end with it", 0},
    {"allow-uid", OPT_UID, "UID", 0, "Serve this user too, beside root and the own one", 0},
    {"root", OPT_ROOT, "DIR", 0, "Look for opt/.../libmxsml.so below this directory (default /)", 0},
    {"library", OPT_LIBRARY, "FILE", 0, "Use this vendor library", 0},
    {"call-timeout", OPT_CALL, "MS", 0, "Longest time of one vendor call (default 3000)", 0},
    {"scan-timeout", OPT_SCAN, "MS", 0, "Longest time of one scan (default 20000)", 0},
    {"no-network", OPT_NO_NETWORK, NULL, 0, "Keep the vendor library from all but unix sockets", 0},
    {"verbose", OPT_VERBOSE, NULL, 0, "Let the vendor library write to stderr", 0},
    {"quiet", OPT_QUIET, NULL, 0, "Log errors of the probe itself only", 0},
    {"help", OPT_HELP, NULL, 0, "Print this text", -1},
    {"version", OPT_VERSION, NULL, 0, "Print the version", -1},
    {0},
};

struct arguments {
    const char *socket;
    int fd;
    uid_t uid;
    bool no_network;
    struct gt_prober_options prober;
};

/* One line, which argp's own complaint is not. */
_Noreturn __attribute__((format(printf, 1, 2))) static void wrong_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("gputopo-probe: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
    exit(2);
}

/* Names the option that argp has refused without a word. */
_Noreturn static void blame(char **argv)
{
    for (char **arg = argv + 1; *arg; arg++) {
        size_t len = strncmp(*arg, "--", 2) == 0 ? strcspn(*arg + 2, "=") : 0;
        bool known = false;
        for (const struct argp_option *option = options; option->name; option++)
            known = known || (len && strncmp(option->name, *arg + 2, len) == 0);
        if ((*arg)[0] == '-' && !known)
            wrong_usage("%s: no such option", *arg);
    }
    wrong_usage("an option lacks its value, has one too many, or is not spelt out");
}

static uint64_t read_number(const char *name, const char *text, uint64_t min, uint64_t max)
{
    uint64_t value = 0;
    if (!gt_text_to_unsigned(text, max, &value) || value < min)
        wrong_usage("%s: \"%s\" is not a number from %llu to %llu", name, text, (unsigned long long)min,
                    (unsigned long long)max);
    return value;
}

static error_t parse(int key, char *text, struct argp_state *state);

static const struct argp description = {
    .options = options,
    .parser = parse,
    .doc = "Asks the MetaX vendor library (libmxsml.so) in processes of their own, which it can stop, "
           "and gives its answers to gputopo-agent and gputopo.",
};

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPT_SOCKET:
        arguments->socket = text;
        return 0;
    case OPT_FD:
        arguments->fd = (int)read_number("--fd", text, 0, 65535);
        return 0;
    case OPT_UID:
        arguments->uid = (uid_t)read_number("--allow-uid", text, 0, UINT32_MAX - 1);
        return 0;
    case OPT_ROOT:
        arguments->prober.root = text;
        return 0;
    case OPT_LIBRARY:
        arguments->prober.library = text;
        return 0;
    case OPT_CALL:
        arguments->prober.call_timeout_ms = (int)read_number("--call-timeout", text, 1, 600000);
        return 0;
    case OPT_SCAN:
        arguments->prober.scan_timeout_ms = (int)read_number("--scan-timeout", text, 1, 600000);
        return 0;
    case OPT_NO_NETWORK:
        arguments->no_network = true;
        return 0;
    case OPT_VERBOSE:
        arguments->prober.verbose = true;
        return 0;
    case OPT_QUIET:
        gt_log_setup(GT_LOG_ERROR, GT_LOG_TEXT);
        return 0;
    case OPT_HELP:
        argp_help(&description, stdout, ARGP_HELP_STD_HELP, state->name);
        exit(0);
    case OPT_VERSION:
        printf("gputopo-probe %s (%s)\n", gt_version, gt_commit);
        exit(0);
    case ARGP_KEY_ARG:
        wrong_usage("\"%s\": no argument is expected", text);
    case ARGP_KEY_END:
        if (!arguments->socket == (arguments->fd < 0))
            wrong_usage("give either --socket or --fd");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What a signal handler needs to take the socket away, unless it is another probe's by now. */
static const char *socket_path;
static struct stat socket_file;

static void on_end(int signal)
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
    struct sigaction end = {.sa_handler = on_end}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGHUP, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* Clients with their sockets for events, and the workers. */
enum { DESCRIPTORS_NEEDED = 64 };

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .fd = -1,
        .uid = (uid_t)-1,
        .prober = {.root = "/", .call_timeout_ms = 3000, .scan_timeout_ms = 20000, .owner = -1},
    };
    if (argp_parse(&description, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &arguments) != 0)
        blame(argv);

    gt_auto_err struct gt_err *err = NULL;
    gt_auto_prober struct gt_prober *prober = NULL;
    struct gt_server_options server = {.listener = -1, .peer = arguments.fd, .allowed = arguments.uid};
    struct stat st;
    if (arguments.fd >= 0 && (fstat(arguments.fd, &st) < 0 || !S_ISSOCK(st.st_mode))) {
        fprintf(stderr, "gputopo-probe: --fd %d is not a socket\n", arguments.fd);
        return 1;
    }
    set_signals();
    arguments.prober.owner = arguments.fd;
    int r = gt_process_need_descriptors(DESCRIPTORS_NEEDED, &err);
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
    if (r < 0)
        fprintf(stderr, "gputopo-probe: %s\n", gt_err_text(err));
    return r < 0 ? 1 : 0;
}
