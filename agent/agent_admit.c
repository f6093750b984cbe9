/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_private.h"
#include "agent/health_file.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

/* --admit-after-check: all GPUs of the node are isolated until `gputopo check-node` has passed once since the
 * boot. It runs as a child, beside everything else. */

enum { ADMIT_LOOK_MS = 500, ADMIT_AGAIN_MS = 30000, ADMIT_LIMIT_MS = 120000, ADMIT_ARGUMENTS = 16 };

#define ADMIT_PREFIX "gputopo: check-node: "

static void admit_isolate(struct gt_agent *agent, const char *why)
{
    struct gt_node_admission *admission = &agent->admission;
    admission->isolates.count = 1;
    gt_text_shorten(admission->isolates.of[0].reason, sizeof(admission->isolates.of[0].reason), why);
    gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_CHECK, &admission->isolates, false);
}

static int admit_spawn(struct gt_agent *agent, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    struct gt_node_admission *admission = &agent->admission;
    char program[PATH_MAX], vendor[16];
    unsigned count = 4;
    const char *argv[ADMIT_ARGUMENTS] = {"gputopo", "check-node", "--fail", options->admit_after_check};
    if (!gt_file_beside_program("gputopo", program, sizeof(program)))
        return gt_fail(err, ENOENT, "gputopo is not installed beside gputopo-agent");
    snprintf(vendor, sizeof(vendor), "%x", options->vendor);
    const char *const given[] = {"--from",   options->from,
                                 "--root",   options->from ? NULL : options->root,
                                 "--probe",  options->from ? NULL : options->probe,
                                 "--vendor", options->vendor ? vendor : NULL};
    for (unsigned i = 0; i < GT_COUNT(given); i += 2)
        if (given[i + 1]) {
            argv[count++] = given[i];
            argv[count++] = given[i + 1];
        }
    admission->out = memfd_create("check-node", MFD_CLOEXEC);
    if (admission->out < 0)
        return gt_fail_sys(err, errno, "check-node");
    posix_spawn_file_actions_t files;
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "check-node");
    r = posix_spawn_file_actions_adddup2(&files, admission->out, STDOUT_FILENO);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, admission->out, STDERR_FILENO);
    r = r ? r : gt_child_close_from(&files, 3);
    const struct gt_child_spec spec = {.program = program, .argv = argv, .files = &files};
    r = r ? gt_fail_sys(err, r, "check-node") : gt_child_spawn(&spec, &admission->pid, err);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

static void admit_close(struct gt_node_admission *admission)
{
    if (admission->out >= 0)
        close(admission->out);
    admission->out = -1;
    admission->pid = 0;
}

/* The last line that the child has printed, without the name of the program. */
static void admit_last_line(int out, char *to, size_t size)
{
    char text[2048];
    off_t end = lseek(out, 0, SEEK_END);
    ssize_t n =
        pread(out, text, sizeof(text) - 1, end > (off_t)sizeof(text) ? end - (off_t)sizeof(text) + 1 : 0);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    if (strncmp(line, ADMIT_PREFIX, strlen(ADMIT_PREFIX)) == 0)
        line += strlen(ADMIT_PREFIX);
    gt_text_shorten(to, size, line);
}

static void admit_refuse(struct gt_agent *agent, const char *why)
{
    struct gt_node_admission *admission = &agent->admission;
    char text[sizeof(admission->why)];
    snprintf(text, sizeof(text), "check-node has not passed: %.200s", why);
    gt_text_make_printable(text);
    gt_source_arm(admission->timer, ADMIT_AGAIN_MS);
    if (strcmp(text, admission->why) == 0)
        return;
    memcpy(admission->why, text, sizeof(text));
    gt_warning("the node's GPUs are kept out of use", GT_STR("why", text));
    gt_agent_record_event(agent, true, "NodeNotAdmitted", "no pod gets a GPU of this node: %s", text);
    admit_isolate(agent, text);
}

static void admit_pass(struct gt_agent *agent)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_node_admission *admission = &agent->admission;
    gt_info("check-node has passed, the node's GPUs may be used");
    gt_agent_record_event(agent, false, "NodeAdmitted",
                          "check-node has passed, pods may get GPUs of this node");
    admission->isolates.count = 0;
    gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_CHECK, &admission->isolates, false);
    if (admission->dir && gt_admitted_file_write(admission->dir, agent->options->root, &err) < 0)
        gt_warning("that check-node has passed is not written down", GT_STR("why", gt_err_text(err)));
}

static void admit_ended(struct gt_agent *agent, int status)
{
    struct gt_node_admission *admission = &agent->admission;
    char line[200];
    admit_last_line(admission->out, line, sizeof(line));
    admit_close(admission);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        admit_pass(agent);
    else
        admit_refuse(agent, WIFEXITED(status) && line[0] ? line : "it did not end well");
}

static void admit_on_timer(void *arg)
{
    struct gt_agent *agent = arg;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_node_admission *admission = &agent->admission;
    int status;
    gt_source_arm(admission->timer, ADMIT_LOOK_MS);
    if (!admission->pid && agent->inventory && !agent->early) {
        admission->since_ms = gt_clock_ms();
        if (admit_spawn(agent, &err) < 0) {
            admit_close(admission);
            admit_refuse(agent, gt_err_text(err));
        }
    } else if (admission->pid && waitpid(admission->pid, &status, WNOHANG) == admission->pid) {
        gt_source_disarm(admission->timer);
        admit_ended(agent, status);
    } else if (admission->pid && gt_clock_ms() - admission->since_ms > ADMIT_LIMIT_MS)
        kill(admission->pid, SIGKILL);
}

int gt_agent_admit_start(struct gt_agent *agent, struct gt_err **err)
{
    struct gt_node_admission *admission = &agent->admission;
    admission->out = -1;
    admission->dir = agent->options->device_plugin ? agent->options->kubelet_dir : NULL;
    if (!agent->options->admit_after_check ||
        (admission->dir && gt_admitted_file_is_current(admission->dir, agent->options->root)))
        return 0;
    GT_TRY(gt_loop_add_timer(agent->loop, admit_on_timer, agent, &admission->timer, err));
    gt_source_arm(admission->timer, ADMIT_LOOK_MS);
    admit_isolate(agent, "check-node has not passed yet");
    return 0;
}

void gt_agent_admit_stop(struct gt_agent *agent)
{
    struct gt_node_admission *admission = &agent->admission;
    gt_source_free(gt_steal(admission->timer));
    if (!admission->pid)
        return;
    kill(admission->pid, SIGKILL);
    gt_child_end(admission->pid, 0);
    admit_close(admission);
}
