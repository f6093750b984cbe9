/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "topology/discovery/backends.h"
#include "topology/model/node.h"

/* Evidence about GPUs that the host itself gives: the PCI bus, NICs and device nodes. */

static bool attribute_is(int dirfd, const char *name, const char *value)
{
    char text[64];
    return gt_file_read_attribute(dirfd, name, text, sizeof(text)) > 0 && strcmp(text, value) == 0;
}

/* A device that does not answer reads as all ones. */
static bool is_all_ones(int dirfd, bool *ret_read)
{
    unsigned char id[4];
    gt_auto_close int fd = openat(dirfd, "config", O_RDONLY | O_CLOEXEC);
    *ret_read = fd >= 0 && pread(fd, id, sizeof(id), 0) == (ssize_t)sizeof(id);
    return *ret_read && (id[0] & id[1] & id[2] & id[3]) == 0xff;
}

/* The rest of the line that begins with `total`; false if there is none. */
static bool read_total(int dirfd, const char *name, const char *total, uint64_t *ret)
{
    char text[1024], *at;
    if (gt_file_read_attribute(dirfd, name, text, sizeof(text)) <= 0 || !(at = strstr(text, total)))
        return false;
    at += strlen(total);
    at += strspn(at, " ");
    at[strcspn(at, "\n")] = '\0';
    return gt_text_to_unsigned(at, UINT32_MAX, ret);
}

static void host_health_check_pci(int rootfd, struct gt_gpu *gpu)
{
    char path[96];
    uint64_t fatal, other;
    bool was_read = false;
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", gpu->bdf);
    gt_auto_close int dirfd = openat(rootfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return;
    /* Reading the configuration of a suspended device would resume it. */
    if (attribute_is(dirfd, "power/runtime_status", "suspended"))
        gt_evidence_absent(&gpu->evidence, GT_SIGNAL_PCI_GONE);
    else if (attribute_is(dirfd, "power_state", "D3cold"))
        gt_evidence_seen(&gpu->evidence, GT_SIGNAL_PCI_GONE, "it has no power (PCI state D3cold)");
    else if (is_all_ones(dirfd, &was_read))
        gt_evidence_seen(&gpu->evidence, GT_SIGNAL_PCI_GONE,
                         "it does not answer on the PCI bus (configuration reads as all ones)");
    else if (was_read)
        gt_evidence_absent(&gpu->evidence, GT_SIGNAL_PCI_GONE);
    if (read_total(dirfd, "aer_dev_fatal", "TOTAL_ERR_FATAL", &fatal) &&
        read_total(dirfd, "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", &other))
        gt_evidence_value(&gpu->evidence, GT_SIGNAL_PCI_ERROR, (uint32_t)(fatal + other));
}

/* ---- the NICs nearest to a GPU ---- */

enum nic_link { NIC_LINK_UNKNOWN, NIC_LINK_UP, NIC_LINK_DOWN };
enum nic_says { NIC_HAS_NONE, NIC_SAYS_NOTHING, NIC_SAYS_OTHER, NIC_SAYS_SO };

/* Whether all that a device has of a kind, network interfaces (with those that stand for virtual functions)
 * or InfiniBand devices, say a word that begins so, as far as they can be read. */
static enum nic_says nic_says(int devicefd, const char *kind, const char *name, char begin)
{
    gt_auto_dir DIR *list = gt_file_open_dir(devicefd, kind);
    char path[NAME_MAX + 64], text[32];
    enum nic_says says = NIC_HAS_NONE;
    for (const struct dirent *entry; list && says != NIC_SAYS_OTHER && (entry = readdir(list));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", entry->d_name, name);
        if (gt_file_read_attribute(dirfd(list), path, text, sizeof(text)) > 0)
            says = text[0] == begin ? NIC_SAYS_SO : NIC_SAYS_OTHER;
        else if (says == NIC_HAS_NONE)
            says = NIC_SAYS_NOTHING;
    }
    return says;
}

/* An Ethernet interface that is switched off has no carrier to read, and its port is down, too: it is not
 * judged. The state of a port is "1: DOWN". */
static enum nic_link nic_link_of(int rootfd, const char *bdf)
{
    char path[96];
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
    gt_auto_close int devicefd = openat(rootfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (devicefd < 0)
        return NIC_LINK_UNKNOWN;
    enum nic_says carrier = nic_says(devicefd, "net", "carrier", '0');
    enum nic_says port = nic_says(devicefd, "infiniband", "ports/1/state", '1');
    bool is_off = carrier == NIC_SAYS_NOTHING &&
                  nic_says(devicefd, "infiniband", "ports/1/link_layer", 'E') == NIC_SAYS_SO;
    if (carrier == NIC_SAYS_SO || (port == NIC_SAYS_SO && !is_off))
        return NIC_LINK_DOWN;
    return carrier == NIC_SAYS_OTHER || port == NIC_SAYS_OTHER ? NIC_LINK_UP : NIC_LINK_UNKNOWN;
}

static void host_health_check_nics(int rootfd, struct gt_node *node)
{
    enum nic_link links[GT_NICS_MAX];
    for (unsigned n = 0; n < node->nic_count; n++)
        links[n] = nic_link_of(rootfd, node->nics[n].bdf);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_evidence *evidence = &node->gpus[i].evidence;
        enum gt_link_kind nearest = GT_LINK_UNKNOWN;
        for (unsigned n = 0; n < node->nic_count; n++)
            nearest = node->nics[n].kind[i] < nearest ? node->nics[n].kind[i] : nearest;
        for (unsigned n = 0; n < node->nic_count; n++) {
            if (node->nics[n].kind[i] != nearest || nearest > GT_LINK_PXB || links[n] == NIC_LINK_UNKNOWN)
                continue;
            if (links[n] == NIC_LINK_DOWN)
                gt_evidence_seen(evidence, GT_SIGNAL_NIC_DOWN, "%s, a NIC nearest to it, has no link",
                                 node->nics[n].name);
            else
                gt_evidence_absent(evidence, GT_SIGNAL_NIC_DOWN);
        }
    }
}

void gt_host_health_pci(const char *root, struct gt_node *node)
{
    gt_auto_close int rootfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; rootfd >= 0 && i < node->gpu_count; i++)
        host_health_check_pci(rootfd, &node->gpus[i]);
    if (rootfd >= 0)
        host_health_check_nics(rootfd, node);
}

/* A check that fails without memory is no sign of a fault. */
static bool is_missing(const char *dev_root, const char *name)
{
    int r = gt_file_check(dev_root, name, NULL);
    return r < 0 && r != -ENOMEM;
}

static void host_health_check_drm(const char *dev_root, struct gt_gpu *gpu)
{
    char names[2][GT_DEVICE_NAME_SIZE];
    gt_drm_node_names(gpu->drm_card, gpu->drm_render, names);
    const char *missing = names[0][0] && is_missing(dev_root, names[0])   ? names[0]
                          : names[1][0] && is_missing(dev_root, names[1]) ? names[1]
                                                                          : NULL;
    if (!names[0][0] && !names[1][0])
        gt_evidence_seen(&gpu->evidence, GT_SIGNAL_DRM_NODE, "no DRM device node of it is known");
    else if (missing)
        gt_evidence_seen(&gpu->evidence, GT_SIGNAL_DRM_NODE, "its device node %s is missing", missing);
    else
        gt_evidence_absent(&gpu->evidence, GT_SIGNAL_DRM_NODE);
}

void gt_host_health_device_nodes(const char *dev_root, struct gt_node *node)
{
    bool no_control = is_missing(dev_root, GT_CONTROL_NODE);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        if (no_control)
            gt_evidence_seen(&node->gpus[i].evidence, GT_SIGNAL_CONTROL_NODE,
                             "the device node " GT_CONTROL_NODE " is missing");
        else
            gt_evidence_absent(&node->gpus[i].evidence, GT_SIGNAL_CONTROL_NODE);
        host_health_check_drm(dev_root, &node->gpus[i]);
    }
}
