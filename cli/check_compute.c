/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json_write.h"
#include "base/process.h"
#include "cli/check.h"
#include "cli/cli.h"
#include "topology/model/isolation.h"

/* A site's own test of each GPU, with a time limit: what no counter shows, such as a GPU that hangs every new
 * stream. */

extern char **environ;

enum {
    COMPUTE_TEXT_MAX = 64 << 10,
    COMPUTE_ENV_MAX = 4096,
    COMPUTE_ARGUMENTS_MAX = 16,
    COMPUTE_NOT_RUN = 125, /* to COMPUTE_NOT_FOUND: timeout's and the shell's own exit codes */
    COMPUTE_NOT_FOUND = 127,
};

int cli_check_spawn(unsigned seconds, const char *const *command, const char *const *env, int out, pid_t *ret,
                    struct gt_err **err)
{
    char limit[16];
    unsigned count = 4;
    snprintf(limit, sizeof(limit), "%u", seconds);
    /* timeout ends all of its processes, and waits for none that hangs in the driver */
    const char *argv[COMPUTE_ARGUMENTS_MAX] = {"timeout", "-s", "KILL", limit};
    while (*command && count + 1 < COMPUTE_ARGUMENTS_MAX)
        argv[count++] = *command++;
    posix_spawn_file_actions_t files;
    const struct gt_child_spec spec = {
        .program = "timeout", .search = true, .argv = argv, .env = env, .files = &files};
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return gt_fail_sys(err, r, "%s", spec.program);
    r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    r = r ? gt_fail_sys(err, r, "%s", spec.program) : gt_child_spawn(&spec, ret, err);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

/* Runs the command for one GPU; "" in `why`: it has succeeded. */
static int compute_run(const struct cli_compute *compute, const struct gt_gpu *gpu, char *why, size_t size,
                       struct gt_err **err)
{
    char index[40], vendor[40], uuid[GT_ID_SIZE + 20], bdf[GT_BDF_SIZE + 20];
    const char *env[COMPUTE_ENV_MAX] = {index, vendor, uuid, bdf};
    unsigned count = 4;
    pid_t pid;
    snprintf(index, sizeof(index), "GPUTOPO_GPU=%u", gpu->index);
    snprintf(vendor, sizeof(vendor), "GPUTOPO_VENDOR_INDEX=%d", gpu->vendor_index);
    snprintf(uuid, sizeof(uuid), "GPUTOPO_UUID=%s", gpu->uuid);
    snprintf(bdf, sizeof(bdf), "GPUTOPO_BDF=%s", gpu->bdf);
    for (char **own = environ; *own && count + 1 < COMPUTE_ENV_MAX; own++)
        env[count++] = *own;
    const char *const argv[] = {"/bin/sh", "-c", compute->command, NULL};
    /* It prints to where the messages go: the report alone is this program's output. */
    GT_TRY(cli_check_spawn(compute->seconds, argv, env, STDERR_FILENO, &pid, err));
    int status = gt_child_end(pid, (int64_t)compute->seconds * 1000 + CLI_CHECK_LATE_MS);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code >= COMPUTE_NOT_RUN && code <= COMPUTE_NOT_FOUND)
        return gt_fail(err, ENOEXEC, "the compute test cannot be run, exit code %d; no GPU is judged by it",
                       code);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        snprintf(why, size, "the compute test does not end within %u s", compute->seconds);
    else if (WIFSIGNALED(status))
        snprintf(why, size, "the compute test ends by signal %d", WTERMSIG(status));
    else if (status != 0)
        snprintf(why, size, "the compute test fails, exit code %d", WEXITSTATUS(status));
    return 0;
}

static void compute_add(const struct gt_gpu *gpu, const char *why, struct gt_buf *to)
{
    char index[16];
    snprintf(index, sizeof(index), "%u", gpu->index);
    gt_json_printf(to, "{'gpu': %s, 'reason': %s}", gpu->uuid[0] ? gpu->uuid : index, why);
}

void cli_check_faults_begin(struct gt_buf *faults)
{
    gt_json_printf(faults, "{'version': 1, 'faults': [");
}

int cli_check_faults_write(const char *dir, const char *name, struct gt_buf *faults, unsigned count,
                           struct gt_err **err)
{
    char path[PATH_MAX];
    gt_buf_puts(faults, "]}\n");
    GT_TRY(gt_buf_check(faults, "faults", err));
    if (snprintf(path, sizeof(path), "%s/check-node%s.json", dir, name) >= (int)sizeof(path))
        return gt_fail_sys(err, ENAMETOOLONG, "%s", dir);
    if (!count)
        return unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR ? gt_fail_sys(err, errno, "%s", path)
                                                                       : 0;
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", dir);
    return gt_file_write(path, faults->data, faults->len, 0644, err);
}

int cli_check_compute(const struct cli_checked *checked, const struct cli_compute *compute,
                      struct cli_checks *to, struct gt_err **err)
{
    struct cli_check *check = cli_check_add(to, "compute", "the site's test ends with 0 in time on each GPU");
    gt_auto_buf struct gt_buf faults = GT_BUF(COMPUTE_TEXT_MAX);
    unsigned bad = 0;
    cli_check_faults_begin(&faults);
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        char why[GT_ISOLATION_REASON_SIZE] = "";
        cli_progress("compute test, GPU %u of %u: ", i,
                     checked->node->gpu_count); /* what it prints follows */
        int r = compute_run(compute, &checked->node->gpus[i], why, sizeof(why), err);
        if (r < 0) {
            cli_check_cannot(check, "it cannot be run on GPU %u", i);
            return r;
        }
        if (!why[0])
            continue;
        cli_check_found(check, "GPU %u: %s", i, why);
        compute_add(&checked->node->gpus[i], why, &faults);
        bad++;
    }
    if (cli_check_has_gpus(checked, check)) {
        cli_check_found(check, "%u of %u GPUs pass", checked->node->gpu_count - bad,
                        checked->node->gpu_count);
        cli_check_evaluate(check, !bad);
    }
    return cli_check_faults_write(compute->fault_dir, "", &faults, bad, err);
}
