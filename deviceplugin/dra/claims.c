/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/claims.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"

enum { FILE_VERSION = 1, FILE_VERSION_MAX = 1 << 20 };

static bool consists_of(const char *text, const char *more)
{
    for (const char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || strchr(more, *c)))
            return false;
    return *text;
}

/* A letter or digit at both ends. */
static bool dra_claims_is_name(const char *text, const char *more)
{
    size_t len = strlen(text);
    return consists_of(text, more) && !strchr(more, text[0]) && !strchr(more, text[len - 1]);
}

bool gt_dra_uid_is_valid(const char *uid)
{
    return uid[0] != '-' && uid[strlen(uid) - (*uid != '\0')] != '-' &&
           consists_of(uid, "-ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

bool gt_dra_claim_id_is_valid(const struct gt_dra_claim_id *id)
{
    return dra_claims_is_name(id->namespace, "-") && dra_claims_is_name(id->name, "-.") &&
           gt_dra_uid_is_valid(id->uid);
}

struct gt_dra_claim *gt_dra_claims_find(const struct gt_dra_claims *claims, const char *uid)
{
    return GT_FIND(claims->list, claims->count, id.uid, uid);
}

const struct gt_dra_claim *gt_dra_claims_with_device(const struct gt_dra_claims *claims, const char *device)
{
    for (unsigned i = 0; i < claims->count; i++)
        for (unsigned k = 0; k < claims->list[i].device_count; k++)
            if (!claims->list[i].devices[k].admin && strcmp(claims->list[i].devices[k].device, device) == 0)
                return &claims->list[i];
    return NULL;
}

int gt_dra_claims_add(struct gt_dra_claims *claims, const struct gt_dra_claim *claim, struct gt_err **err)
{
    if (gt_dra_claims_find(claims, claim->id.uid))
        return gt_fail(err, EEXIST, "the claim %s is there already", claim->id.uid);
    if (claims->count == GT_DRA_CLAIMS_MAX)
        return gt_fail(err, E2BIG, "more than %d claims are prepared on this node", GT_DRA_CLAIMS_MAX);
    struct gt_dra_claim *more = reallocarray(claims->list, claims->count + 1UL, sizeof(*more));
    GT_NEED(more, err, "claims");
    claims->list = more;
    claims->list[claims->count++] = *claim;
    return 0;
}

int gt_dra_claims_copy(const struct gt_dra_claims *claims, struct gt_dra_claims *ret, struct gt_err **err)
{
    struct gt_dra_claim *list = claims->count ? malloc(claims->count * sizeof(*list)) : NULL;
    if (claims->count && !list)
        return gt_fail_sys(err, ENOMEM, "claims");
    if (claims->count)
        memcpy(list, claims->list, claims->count * sizeof(*list));
    *ret = (struct gt_dra_claims){list, claims->count};
    return 0;
}

bool gt_dra_claims_remove(struct gt_dra_claims *claims, const char *uid)
{
    struct gt_dra_claim *claim = gt_dra_claims_find(claims, uid);
    if (!claim)
        return false;
    struct gt_dra_claim *last = &claims->list[--claims->count];
    if (claim != last)
        *claim = *last;
    return true;
}

void gt_dra_claims_done(struct gt_dra_claims *claims)
{
    free(claims->list);
    *claims = (struct gt_dra_claims){0};
}

/* ---- JSON ---- */

static void write_claim(const struct gt_dra_claim *claim, struct gt_buf *to)
{
    gt_json_new_line(to, 2);
    gt_json_printf(to, "{'namespace': %s, 'name': %s, 'uid': %s, 'devices': [", claim->id.namespace,
                   claim->id.name, claim->id.uid);
    for (unsigned i = 0; i < claim->device_count; i++) {
        const struct gt_dra_claimed_device *device = &claim->devices[i];
        gt_json_printf(to, "{'request': %s, 'device': %s, ?'composite': %s, ?'admin': !%d}", device->request,
                       device->device, device->composite, device->admin);
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "pods", '[');
    for (unsigned i = 0; i < claim->pod_count; i++)
        gt_json_add_text(to, NULL, claim->pods[i]);
    gt_json_ends(to, "]}");
}

void gt_dra_claims_write(const struct gt_dra_claims *claims, struct gt_buf *to)
{
    gt_json_printf(to, "{'version': %d, 'claims': [", FILE_VERSION);
    for (unsigned i = 0; i < claims->count; i++)
        write_claim(&claims->list[i], to);
    gt_buf_puts(to, "\n]}\n");
}

static int dra_claims_read_device(const struct gt_at *at, const cJSON *json,
                                  struct gt_dra_claimed_device *ret)
{
    char bdf[GT_BDF_SIZE];
    GT_TRY(gt_get_text(at, json, "request", ret->request, sizeof(ret->request)));
    GT_TRY(gt_get_text(at, json, "device", ret->device, sizeof(ret->device)));
    GT_TRY(gt_get_text(at, json, "composite", ret->composite, sizeof(ret->composite)));
    GT_TRY(gt_get_bool(at, json, "admin", &ret->admin));
    if (!dra_claims_is_name(ret->request, "-"))
        return gt_at_fail(at, "request", "is no name of a request");
    if (!gt_dra_device_bdf(ret->device, bdf))
        return gt_at_fail(at, "device", "is no name of a GPU");
    if (ret->composite[0] && !gt_composite_is_name(ret->composite))
        return gt_at_fail(at, "composite", "is no name of a composite");
    return 0;
}

static int dra_claims_read_lists(const struct gt_at *at, const cJSON *json, struct gt_dra_claim *claim)
{
    const cJSON *devices = NULL, *pods = NULL, *item;
    unsigned count = 0;
    GT_TRY(gt_get_array(at, json, "devices", GT_DRA_CLAIM_DEVICES_MAX, &devices, &count));
    GT_TRY(gt_get_array(at, json, "pods", GT_DRA_PODS_KEPT, &pods, &count));
    cJSON_ArrayForEach(item, devices)
    {
        GT_TRY(dra_claims_read_device(at, item, &claim->devices[claim->device_count++]));
    }
    cJSON_ArrayForEach(item, pods)
    {
        GT_TRY(gt_read_text(at, "pods", item, claim->pods[claim->pod_count], sizeof(claim->pods[0])));
        if (!dra_claims_is_name(claim->pods[claim->pod_count++], "-."))
            return gt_at_fail(at, "pods", "there is a text that is no name of a pod");
    }
    return 0;
}

static int read_claim(const struct gt_at *at, const cJSON *json, struct gt_dra_claims *claims)
{
    struct gt_dra_claim claim = {0};
    GT_TRY(gt_get_text(at, json, "namespace", claim.id.namespace, sizeof(claim.id.namespace)));
    GT_TRY(gt_get_text(at, json, "name", claim.id.name, sizeof(claim.id.name)));
    GT_TRY(gt_get_text(at, json, "uid", claim.id.uid, sizeof(claim.id.uid)));
    if (!gt_dra_claim_id_is_valid(&claim.id))
        return gt_at_fail(at, "uid", "it, the name or the namespace is none");
    GT_TRY(dra_claims_read_lists(at, json, &claim));
    for (unsigned i = 0; i < claim.device_count; i++)
        if (!claim.devices[i].admin && gt_dra_claims_with_device(claims, claim.devices[i].device))
            return gt_at_fail(at, "devices", "%s is held by another claim, too", claim.devices[i].device);
    return gt_dra_claims_add(claims, &claim, at->err);
}

int gt_dra_claims_read(const char *json, size_t len, const char *source, struct gt_dra_claims *ret,
                       struct gt_err **err)
{
    gt_auto_json cJSON *document = NULL;
    __attribute__((cleanup(gt_dra_claims_done))) struct gt_dra_claims claims = {0};
    const cJSON *list = NULL, *item;
    unsigned version = 0, count = 0;
    struct gt_at at = {source, "", err};
    GT_TRY(gt_json_parse(json, len, source, &document, err));
    GT_TRY(gt_get_unsigned(&at, document, "version", FILE_VERSION_MAX, &version));
    if (version > FILE_VERSION)
        return gt_fail(err, EPROTONOSUPPORT, "%s: version: %u is of a newer release, this one knows %d",
                       source, version, FILE_VERSION);
    if (version != FILE_VERSION)
        return gt_at_fail(&at, "version", "expected %d", FILE_VERSION);
    GT_TRY(gt_get_array(&at, document, "claims", GT_DRA_CLAIMS_MAX, &list, &count));
    if (!list)
        return gt_at_fail(&at, "claims", "is missing");
    count = 0;
    cJSON_ArrayForEach(item, list)
    {
        char path[32];
        snprintf(path, sizeof(path), "claims[%u]", count++);
        GT_TRY(read_claim(&(struct gt_at){source, path, err}, item, &claims));
    }
    *ret = claims;
    claims = (struct gt_dra_claims){0};
    return 0;
}
