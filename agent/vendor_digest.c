/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/vendor_digest.h"

#include <string.h>

#include "base/digest.h"
#include "topology/probe/answers.h"

static void mix_number(uint64_t *digest, uint64_t number)
{
    *digest = gt_digest_bytes(*digest, &number, sizeof(number));
}

static void mix_text(uint64_t *digest, const char *text)
{
    *digest = gt_digest_bytes(*digest, text, strlen(text) + 1);
}

/* The answers go into a bare node with the same GPUs, read by the very code that a scan uses. */
static int bare_node(const struct gt_node *like, struct gt_node **ret, struct gt_err **err)
{
    int r = gt_node_new(like->gpu_count, 0, ret, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < like->gpu_count; i++) {
        struct gt_gpu *gpu = &(*ret)->gpus[i];
        memcpy(gpu->bdf, like->gpus[i].bdf, sizeof(gpu->bdf));
        gpu->index = i;
        gpu->pci_vendor = like->gpus[i].pci_vendor;
        gpu->pci_device = like->gpus[i].pci_device;
    }
    return 0;
}

int gt_vendor_digest(const char *log, const struct gt_node *node, uint64_t *ret, struct gt_err **err)
{
    gt_auto_node struct gt_node *bare = NULL;
    unsigned unmatched;
    int r = bare_node(node, &bare, err);
    if (r >= 0)
        r = gt_answers_apply(log, strlen(log), bare, &unmatched, err);
    if (r < 0)
        return r;
    uint64_t digest = GT_DIGEST_EMPTY;
    mix_number(&digest, unmatched);
    for (unsigned i = 0; i < bare->gpu_count; i++) {
        const struct gt_gpu *gpu = &bare->gpus[i];
        mix_text(&digest, gpu->uuid);
        mix_number(&digest, (uint64_t)gpu->vendor_index);
        mix_number(&digest, gpu->mode);
        mix_number(&digest, gpu->health_told);
        mix_number(&digest, gpu->ill_by);
    }
    for (unsigned i = 0; i < bare->link_count; i++) {
        const struct gt_link *link = &bare->links[i];
        mix_number(&digest, link->kind);
        mix_number(&digest, link->state);
        mix_number(&digest, link->ports);
        mix_number(&digest, link->bandwidth_mbps);
    }
    mix_text(&digest, bare->server_uuid);
    for (unsigned i = 0; i < bare->remote_count; i++)
        mix_text(&digest, bare->remotes[i]);
    *ret = digest;
    return 0;
}
