/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "cli/cli.h"

enum { VENDOR_METAX = 0x9999 }; /* the vendor of a scan without --vendor */

static int open_probe(const struct cli_source *source, struct gt_probe_client **ret, struct gt_err **err)
{
    char path[PATH_MAX];
    const char *probe = source->probe;
    if (source->from || (probe && strcmp(probe, "none") == 0))
        return 0;
    if (!probe) {
        if (!gt_file_beside_program("gputopo-probe", path, sizeof(path)))
            return 0;
        probe = path;
    }
    struct stat st;
    if (stat(probe, &st) < 0)
        return gt_fail_sys(err, errno, "--probe: %s", probe);
    if (S_ISSOCK(st.st_mode))
        return gt_probe_client_new(probe, ret, err);
    if (!S_ISREG(st.st_mode))
        return gt_fail(err, EINVAL, "--probe: %s: neither a program nor a socket", probe);
    if (access(probe, X_OK) < 0)
        return gt_fail_sys(err, errno, "--probe: %s", probe);
    return gt_probe_client_spawn(probe, source->root ? source->root : "/", true, ret, err);
}

/* The node name of this machine in Kubernetes, where this machine is scanned. */
static const char *own_name(const struct cli_source *source, struct utsname *uts)
{
    if (source->from || source->root)
        return NULL;
    const char *name = getenv("NODE_NAME");
    if (name && *name)
        return name;
    return uname(uts) == 0 ? uts->nodename : NULL;
}

int cli_source_scan(struct cli_call *call, const struct cli_source *source, struct gt_node **ret,
                    struct gt_raw *ret_raw)
{
    struct gt_err **err = call->err;
    struct stat st;
    bool asks = source->probe && strcmp(source->probe, "none") != 0;
    if (source->from && (source->root || asks))
        return cli_misuse(call, "%s: not together with --from", source->root ? "--root" : "--probe");
    if (source->root && stat(source->root, &st) < 0)
        return gt_fail_sys(err, errno, "--root: %s", source->root);
    if (source->root && !S_ISDIR(st.st_mode))
        return gt_fail_sys(err, ENOTDIR, "--root: %s", source->root);

    gt_auto_probe_client struct gt_probe_client *probe = NULL;
    GT_TRY(open_probe(source, &probe, err));
    struct utsname uts;
    const char *why =
        source->probe ? "--probe none was given" : "there is no gputopo-probe beside this program";
    struct gt_scan_options options = {
        .root = source->root,
        .from = source->from,
        .vendor = source->vendor,
        .node_name = own_name(source, &uts),
        .probe = probe,
        .no_probe_why = source->from || probe ? NULL : why,
        .dev_root = source->from || source->root ? NULL : "/dev",
    };
    return gt_scan(&options, ret, ret_raw, err);
}

int cli_source_no_gpus(const struct cli_source *source, const struct gt_node *node, struct gt_err **err)
{
    char whose[32] = ""; /* a recording names its vendor itself */
    if (source->vendor || !source->from)
        snprintf(whose, sizeof(whose), " of PCI vendor %04x", source->vendor ? source->vendor : VENDOR_METAX);
    const char *place = source->from ? "in " : source->root ? "below " : "on this machine";
    const char *path = source->from ? source->from : source->root ? source->root : "";
    if (!node->missing_count)
        return gt_fail(err, ENODEV, "no GPUs%s %s%s", whose, place, path);
    return gt_fail(err, ENODEV, "no GPUs%s %s%s (%s: %s%s)", whose, place, path, node->missing[0].what,
                   node->missing[0].why, node->missing_count > 1 ? "; show -o json lists more" : "");
}
