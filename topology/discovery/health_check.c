/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology/discovery/backends.h"
#include "topology/discovery/discovery.h"
#include "topology/probe/answers.h"

/* Health checks of known GPUs: what changes between two scans. */

static uint64_t health_check_digest_of(const char *log)
{
    uint64_t digest;
    if (!log || gt_answers_digest(log, strlen(log), &digest, NULL) < 0)
        return 0;
    return digest ? digest : 1;
}

uint64_t gt_raw_digest(const struct gt_raw *raw)
{
    return health_check_digest_of(raw->vendor);
}

/* The vendor library's evidence, read into a node with only these GPUs, by the code that a scan uses. */
static int health_check_read_answers(const char *log, struct gt_node *node, struct gt_err **err)
{
    gt_auto_node struct gt_node *bare = NULL;
    unsigned unmatched;
    GT_TRY(gt_node_new(node->gpu_count, 0, &bare, err));
    for (unsigned i = 0; i < node->gpu_count; i++) {
        memcpy(bare->gpus[i].bdf, node->gpus[i].bdf, sizeof(bare->gpus[i].bdf));
        bare->gpus[i].pci.vendor = node->gpus[i].pci.vendor;
        bare->gpus[i].pci.device = node->gpus[i].pci.device;
    }
    int r = gt_answers_apply(log, strlen(log), bare, &unmatched, err);
    for (unsigned i = 0; r >= 0 && i < node->gpu_count; i++)
        node->gpus[i].evidence = bare->gpus[i].evidence;
    return r;
}

int gt_scan_health(const struct gt_scan_options *options, const struct gt_node *node, struct gt_node **ret,
                   uint64_t *ret_digest, struct gt_err **err)
{
    gt_auto_node struct gt_node *copy = NULL;
    gt_auto_free char *log = NULL;
    const unsigned nodes = 1U << GT_SIGNAL_CONTROL_NODE | 1U << GT_SIGNAL_DRM_NODE;
    GT_TRY(gt_node_copy(node, &copy, err));
    for (unsigned i = 0; i < copy->gpu_count; i++) {
        struct gt_evidence *evidence = &copy->gpus[i].evidence;
        if (!options->from)
            memset(evidence, 0, sizeof(*evidence));
        evidence->known &= ~nodes;
        evidence->seen &= ~nodes;
    }
    if (!options->from && options->probe && gt_probe_health(options->probe, &log, NULL) >= 0)
        GT_TRY(health_check_read_answers(log, copy, err));
    if (!options->from)
        gt_host_health_pci(gt_scan_root(options), copy);
    if (options->dev_root)
        gt_host_health_device_nodes(options->dev_root, copy);
    *ret_digest = health_check_digest_of(log);
    *ret = gt_steal(copy);
    return 0;
}
