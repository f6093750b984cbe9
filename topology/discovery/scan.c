/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/discovery.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "topology/discovery/backends.h"
#include "topology/model/health.h"

enum { DESCRIPTORS_AT_ONCE = 8 }; /* that a scan holds open, at most */

void gt_raw_done(struct gt_raw *raw)
{
    free(raw->hwloc);
    free(raw->pci);
    free(raw->vendor);
    memset(raw, 0, sizeof(*raw));
}

/* Without free descriptors every file would seem to be missing and every GPU lost: such a scan must fail. */
static int check_descriptors(const char *root, struct gt_err **err)
{
    int fds[DESCRIPTORS_AT_ONCE], r = 0;
    unsigned count = 0;
    for (; r == 0 && count < GT_COUNT(fds); count += r == 0) {
        fds[count] = open(root, O_RDONLY | O_CLOEXEC);
        if (fds[count] < 0)
            r = gt_fail_sys(err, errno, "%s", root);
    }
    while (count)
        close(fds[--count]);
    return r;
}

/* The live machine, or one recorded as a tree of files: the same below another root. */
static int scan_root(const char *root, const struct gt_scan_options *options, struct gt_node **ret,
                     struct gt_raw *raw, struct gt_err **err)
{
    struct gt_probe_client *probe = options->from ? NULL : options->probe;
    const char *no_probe_why =
        options->from ? "not asked: a recorded sysfs tree is read" : options->no_probe_why;
    struct stat st;
    if (stat(root, &st) < 0)
        return gt_fail_sys(err, errno, "%s", root);
    if (!S_ISDIR(st.st_mode))
        return gt_fail_sys(err, ENOTDIR, "%s", root);
    gt_auto_free char *sys = NULL;
    if (asprintf(&sys, "%s/sys", root) < 0) {
        sys = NULL;
        return gt_fail_sys(err, ENOMEM, "%s", root);
    }
    if (stat(sys, &st) < 0 || !S_ISDIR(st.st_mode))
        return gt_fail(err, ENOENT, "%s: no root of a machine: there is no directory sys in it", root);
    GT_TRY(check_descriptors(root, err));

    gt_auto_facts struct gt_facts facts = {.vendor = options->vendor ? options->vendor : GT_VENDOR_METAX};
    gt_auto_err struct gt_err *pci_err = NULL, *hwloc_err = NULL, *probe_err = NULL;
    if (gt_pci_scan(root, &facts, &pci_err) < 0)
        gt_facts_missing(&facts, GT_MISSING_PCI, "%s", gt_err_text(pci_err));
    raw->pci = gt_facts_to_json(&facts); /* before other backends add to it */
    GT_NEED(raw->pci, err, "PCI devices");
    if (gt_hwloc_scan(root, &facts, &raw->hwloc, &hwloc_err) < 0)
        gt_facts_missing(&facts, GT_MISSING_HWLOC, "%s", gt_err_text(hwloc_err));
    if (probe && gt_probe_scan(probe, options->probe_wait_ms, &raw->vendor, &probe_err) < 0)
        no_probe_why = gt_err_text(probe_err);
    return gt_assemble(&facts, raw->vendor, no_probe_why, options->node_name, ret, err);
}

const char *gt_scan_root(const struct gt_scan_options *options)
{
    struct stat st;
    if (!options->from)
        return options->root && options->root[0] ? options->root : "/";
    return stat(options->from, &st) == 0 && S_ISDIR(st.st_mode) ? options->from : NULL;
}

void gt_scan_prepare(const struct gt_scan_options *options)
{
    const char *root = gt_scan_root(options);
    gt_hwloc_prepare(root ? root : "/");
}

int gt_scan(const struct gt_scan_options *options, struct gt_node **ret, struct gt_raw *ret_raw,
            struct gt_err **err)
{
    struct gt_raw raw = {0};
    struct gt_node *node = NULL; /* not shared yet: this is still its making */
    const char *root = gt_scan_root(options);
    int r;
    if (!root)
        r = gt_replay(options, &node, &raw, err);
    else
        r = scan_root(root, options, &node, &raw, err);
    if (r >= 0 && root)
        gt_host_health_pci(root, node);
    if (r >= 0 && options->dev_root)
        gt_host_health_device_nodes(options->dev_root, node);
    if (r >= 0) {
        gt_health_evaluate(options->faults ? options->faults : &gt_fault_table_default, node);
        *ret = node;
    }
    if (r >= 0 && ret_raw)
        *ret_raw = raw;
    else
        gt_raw_done(&raw);
    return r;
}
