/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/claims.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "deviceplugin/dra/claim_cdi.h"

/* The kubelet names a request with alternatives, "gpus/mesh", without the part after the slash. */
static bool copy_request(const char *from, char to[static GT_DRA_REQUEST_SIZE])
{
    size_t len = strcspn(from, "/");
    if (!len || len >= GT_DRA_REQUEST_SIZE)
        return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

static int prepare_add_device(struct gt_dra_claim *claim, const struct gt_dra_result *result,
                              struct gt_err **err)
{
    char bdf[GT_BDF_SIZE];
    if (claim->device_count == GT_DRA_CLAIM_DEVICES_MAX)
        return gt_fail(err, EINVAL, "the claim has more than %d devices", GT_DRA_CLAIM_DEVICES_MAX);
    struct gt_dra_claimed_device *device = &claim->devices[claim->device_count];
    if (!copy_request(result->request, device->request))
        return gt_fail(err, EINVAL, "the allocation names a request \"%.80s\"", result->request);
    bool composite = gt_composite_is_name(result->device);
    if (!composite && !gt_dra_device_bdf(result->device, bdf))
        return gt_fail(err, EINVAL, "the allocation names a device \"%.80s\", which is no GPU",
                       result->device);
    for (unsigned i = 0; i < claim->device_count; i++)
        if (strcmp(claim->devices[i].device, result->device) == 0 ||
            strcmp(claim->devices[i].composite, result->device) == 0)
            return gt_fail(err, EINVAL, "the allocation has the device %s twice", result->device);
    gt_text_copy(device->device, sizeof(device->device), composite ? "" : result->device);
    gt_text_copy(device->composite, sizeof(device->composite), composite ? result->device : "");
    device->admin = result->admin;
    claim->device_count++;
    return 0;
}

int gt_dra_claim_make(const struct gt_dra_claim_id *id, const struct gt_dra_allocation *allocation,
                      struct gt_dra_claim *ret, struct gt_err **err)
{
    struct gt_dra_claim claim = {.id = *id};
    int r = 0;
    if (strcmp(allocation->uid, id->uid) != 0)
        return gt_fail(err, EINVAL, "the claim %s/%s is another one now, with the UID %.63s", id->namespace,
                       id->name, allocation->uid);
    if (!allocation->count)
        return gt_fail(err, EINVAL, "no GPU of this node is allocated to the claim %s/%s", id->namespace,
                       id->name);
    for (unsigned i = 0; r == 0 && i < allocation->count; i++)
        r = prepare_add_device(&claim, &allocation->results[i], err);
    for (unsigned i = 0; i < allocation->pod_count && claim.pod_count < GT_DRA_PODS_KEPT; i++)
        if (gt_text_copy(claim.pods[claim.pod_count], sizeof(claim.pods[0]), allocation->pods[i]))
            claim.pod_count++;
    if (r == 0)
        *ret = claim;
    return r;
}

static const char *given_as(const struct gt_dra_claimed_device *device)
{
    return device->composite[0] ? device->composite : device->device;
}

static int prepare_add_gpu(struct gt_dra_claim *claim, const struct gt_dra_claimed_device *device,
                           struct gt_err **err)
{
    const struct gt_dra_claimed_device *same =
        GT_FIND(claim->devices, claim->device_count, device, device->device);
    if (same)
        return gt_fail(err, EINVAL, "%s and %s of the allocation overlap: both have %s", given_as(same),
                       given_as(device), device->device);
    if (claim->device_count == GT_DRA_CLAIM_DEVICES_MAX)
        return gt_fail(err, EINVAL, "the claim has more than %d GPUs", GT_DRA_CLAIM_DEVICES_MAX);
    claim->devices[claim->device_count++] = *device;
    return 0;
}

static int add_composite(const struct gt_node *node, struct gt_dra_claim *claim,
                         const struct gt_dra_claimed_device *device, struct gt_err **err)
{
    struct gt_dra_claimed_device one = *device;
    uint64_t gpus = gt_composite_of_node(node, device->composite);
    int r = gpus ? 0 : gt_fail(err, ENODEV, "the GPUs of this node do not make up %s now", device->composite);
    for (uint64_t rest = gpus; r == 0 && rest; rest &= rest - 1) {
        gt_dra_device_name(node->gpus[gt_bit_first(rest)].bdf, one.device);
        r = prepare_add_gpu(claim, &one, err);
    }
    return r;
}

int gt_dra_claim_expand(const struct gt_inventory *inventory, struct gt_dra_claim *claim, struct gt_err **err)
{
    struct gt_dra_claim whole = *claim;
    int r = 0;
    whole.device_count = 0;
    for (unsigned i = 0; r == 0 && i < claim->device_count; i++) {
        const struct gt_dra_claimed_device *device = &claim->devices[i];
        r = device->device[0] ? prepare_add_gpu(&whole, device, err)
                              : add_composite(inventory->node, &whole, device, err);
    }
    if (r == 0)
        *claim = whole;
    return r;
}

static int check_device(const struct gt_dra_facts *facts, const struct gt_dra_claimed_device *claimed,
                        struct gt_err **err)
{
    const struct gt_device *device = gt_dra_find_device(facts->inventory, claimed->device);
    const struct gt_dra_claim *other = gt_dra_claims_with_device(facts->claims, claimed->device);
    if (!device)
        return gt_fail(err, ENODEV, "%s is no GPU of this node, or is lost", claimed->device);
    if (claimed->admin)
        return 0;
    if (!device->healthy)
        return gt_fail(err, ENODEV, "%s is unhealthy: %s", claimed->device, device->reason);
    if (other)
        return gt_fail(err, EAGAIN, "%s is held by the claim %s/%s, which is still prepared", claimed->device,
                       other->id.namespace, other->id.name);
    if (facts->others >> device->gpu & 1)
        return gt_fail(err, EAGAIN, "%s is in use by a container that did not get it by this claim",
                       claimed->device);
    return 0;
}

int gt_dra_claim_check(const struct gt_dra_facts *facts, const struct gt_dra_claim *claim,
                       struct gt_err **err)
{
    int waits = 0;
    gt_auto_err struct gt_err *why = NULL;
    if (!facts->inventory)
        return gt_fail(err, EAGAIN, "the GPUs of this node are not known yet");
    for (unsigned i = 0; i < claim->device_count; i++) {
        gt_auto_err struct gt_err *one = NULL;
        int r = check_device(facts, &claim->devices[i], &one);
        if (r < 0 && claim->devices[i].composite[0])
            gt_wrap(&one, "%s", claim->devices[i].composite);
        if (r < 0 && r != -EAGAIN)
            return gt_fail(err, -r, "%s", gt_err_text(one));
        if (r < 0 && !waits) {
            waits = r;
            why = gt_steal(one);
        }
    }
    return waits < 0 ? gt_fail(err, -waits, "%s", gt_err_text(why)) : 0;
}
