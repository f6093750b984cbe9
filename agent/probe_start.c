/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/probe_start.h"
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static bool probe_start_is_socket(const char *path)
{
    struct stat status;
    size_t len = strlen(path);
    if (stat(path, &status) == 0)
        return S_ISSOCK(status.st_mode);
    /* The probe's container may come up later. */
    return len > 5 && strcmp(path + len - 5, ".sock") == 0;
}

int gt_probe_start(const struct gt_agent_options *options, struct gt_probe_client **ret, const char **ret_why,
                   struct gt_err **err)
{
    char beside[PATH_MAX];
    const char *program = options->probe;
    const char *root = options->root ? options->root : "/";
    *ret = NULL;
    if (options->from) {
        *ret_why = "a recording is replayed";
        return 0;
    }
    if (program && strcmp(program, "none") == 0) {
        *ret_why = "switched off by --probe none";
        return 0;
    }
    if (program && probe_start_is_socket(program)) {
        int r = gt_probe_client_new(program, ret, err);
        if (r >= 0)
            gt_probe_client_patience(*ret, (int)options->probe_patience_s * 1000);
        return r;
    }
    if (!program) {
        if (!gt_file_beside_program("gputopo-probe", beside, sizeof(beside))) {
            *ret_why = "gputopo-probe is not installed beside gputopo-agent";
            return 0;
        }
        program = beside;
    } else if (access(program, X_OK) < 0)
        return gt_fail_sys(err, errno, "--probe %s", program);
    return gt_probe_client_spawn(program, root, false, ret, err);
}
