/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lease.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"

static unsigned lease_number(const cJSON *object, const char *key)
{
    uint64_t value = 0;
    gt_json_is_unsigned(gt_get(object, key), INT_MAX, &value);
    return (unsigned)value;
}

int gt_lease_read(const cJSON *object, struct gt_lease *ret, struct gt_err **err)
{
    if (!*gt_meta_name(object) || !*gt_meta_version(object))
        return gt_fail(err, EBADMSG, "lease: no name or no resourceVersion");
    const cJSON *spec = gt_get(object, "spec");
    struct gt_lease lease = {.duration_s = lease_number(spec, "leaseDurationSeconds"),
                             .transitions = lease_number(spec, "leaseTransitions")};
    bool fits = gt_text_copy(lease.holder, sizeof(lease.holder), gt_get_string(spec, "holderIdentity")) &&
                gt_text_copy(lease.acquired, sizeof(lease.acquired), gt_get_string(spec, "acquireTime")) &&
                gt_text_copy(lease.renewed, sizeof(lease.renewed), gt_get_string(spec, "renewTime")) &&
                gt_text_copy(lease.resource_version, sizeof(lease.resource_version), gt_meta_version(object));
    if (!fits)
        return gt_fail(err, EBADMSG, "lease %s: a text in it is too long", gt_meta_name(object));
    *ret = lease;
    return 0;
}

const char *gt_lease_note(const cJSON *object)
{
    return gt_get_string(gt_get_at(object, "metadata", "annotations"), GT_ANNOTATION_LEASE_NOTE);
}

void gt_lease_write(struct gt_buf *to, const char *namespace_, const char *name, const struct gt_lease *lease)
{
    gt_json_printf(to,
                   "{'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease',"
                   "'metadata': {'name': %s, ?'namespace': %s, ?'resourceVersion': %s",
                   name, namespace_, lease->resource_version);
    if (lease->note && *lease->note)
        gt_json_printf(to, "'annotations': {'" GT_ANNOTATION_LEASE_NOTE "': %s}", lease->note);
    gt_json_printf(to,
                   "}, 'spec': {'leaseTransitions': %u, ?'leaseDurationSeconds': %u, ?'holderIdentity': %s,"
                   "?'acquireTime': %s, ?'renewTime': %s}}",
                   lease->transitions, lease->duration_s, lease->holder, lease->acquired, lease->renewed);
}
