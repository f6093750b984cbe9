/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/server.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "deviceplugin/answers_pack.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "proto/dra.pb-c.h"

enum { ERROR_MAX = 1024, CDI_IDS = 2 };

static int copy_claim(const Dra__Claim *from, struct gt_dra_claim_id *to, struct gt_err **err)
{
    if (!gt_text_copy(to->namespace, sizeof(to->namespace), from->namespace_) ||
        !gt_text_copy(to->name, sizeof(to->name), from->name) ||
        !gt_text_copy(to->uid, sizeof(to->uid), from->uid) || !gt_dra_claim_id_is_valid(to))
        return gt_fail(err, EINVAL, "\"%.63s/%.80s\" with the UID \"%.63s\" is no claim", from->namespace_,
                       from->name, from->uid);
    return 0;
}

int gt_dra_request_read(const uint8_t *bytes, size_t len, struct gt_dra_request **ret, struct gt_err **err)
{
    Dra__ClaimsRequest *message =
        gt_unpack(&dra__claims_request__descriptor, bytes, len, GT_REQUEST_UNPACKED_MAX);
    if (!message)
        return gt_fail(err, EINVAL, "this is no request about claims");
    bool fits = message->n_claims <= GT_DRA_REQUEST_CLAIMS_MAX;
    gt_auto_free struct gt_dra_request *request =
        calloc(1, sizeof(*request) + (fits ? message->n_claims : 0) * sizeof(request->claims[0]));
    int r = fits ? request ? 0 : gt_fail_sys(err, ENOMEM, "claims")
                 : gt_fail(err, E2BIG, "more than %d claims in one request", GT_DRA_REQUEST_CLAIMS_MAX);
    for (size_t i = 0; r == 0 && i < message->n_claims; i++) {
        struct gt_dra_claim_id *claim = &request->claims[i];
        r = copy_claim(message->claims[i], claim, err);
        if (r == 0 && GT_FIND(request->claims, request->count, uid, claim->uid))
            r = gt_fail(err, EINVAL, "the claim %s is in the request twice", claim->uid);
        request->count++;
    }
    gt_unpacked_free(&message->base);
    if (r == 0)
        *ret = gt_steal(request);
    return r;
}

/* One device of an answer with everything that it points to. */
struct packed_device {
    Dra__Device device;
    char *request, *ids[CDI_IDS];
    char id[2][GT_DRA_CDI_ID_SIZE];
};

static void pack_device(const struct gt_dra_claim *claim, unsigned i, const char *pool, const char *kind,
                        struct packed_device *to)
{
    const struct gt_dra_claimed_device *from = &claim->devices[i];
    dra__device__init(&to->device);
    to->request = gt_pack_text(from->request);
    to->device.requests = &to->request;
    to->device.n_requests = 1;
    to->device.pool = gt_pack_text(pool);
    to->device.device = gt_pack_text(from->device);
    gt_dra_cdi_device_id(kind, claim->id.uid, from->device, to->id[0]);
    to->ids[to->device.n_cdi_ids++] = to->id[0];
    /* The variables of a request are given once, with its first device. */
    if (gt_dra_cdi_is_first(claim, i)) {
        gt_dra_cdi_request_id(kind, claim->id.uid, from->request, to->id[1]);
        to->ids[to->device.n_cdi_ids++] = to->id[1];
    }
    to->device.cdi_ids = to->ids;
}

static char *pack_error(const char *error, char text[static ERROR_MAX])
{
    snprintf(text, ERROR_MAX, "%s", error);
    gt_text_make_printable(text);
    return text;
}

void gt_dra_answer_prepare(const struct gt_dra_outcome *outcome, const char *pool, const char *kind,
                           struct gt_buf *to)
{
    struct packed_device *all = calloc(GT_DRA_CLAIM_DEVICES_MAX, sizeof(*all));
    Dra__Device *devices[GT_DRA_CLAIM_DEVICES_MAX];
    Dra__PreparedClaim prepared;
    Dra__PrepareResponse__ClaimsEntry entry, *entries[] = {&entry};
    Dra__PrepareResponse response = DRA__PREPARE_RESPONSE__INIT;
    char error[ERROR_MAX];
    if (!all) {
        to->failed = true;
        return;
    }
    dra__prepared_claim__init(&prepared);
    dra__prepare_response__claims_entry__init(&entry);
    if (outcome->error)
        prepared.error = pack_error(outcome->error, error);
    for (unsigned i = 0; outcome->claim && !outcome->error && i < outcome->claim->device_count; i++) {
        pack_device(outcome->claim, i, pool, kind, &all[i]);
        devices[prepared.n_devices++] = &all[i].device;
    }
    prepared.devices = devices;
    entry.key = gt_pack_text(outcome->uid);
    entry.value = &prepared;
    response.claims = entries;
    response.n_claims = 1;
    gt_pack(&response.base, to);
    free(all);
}

void gt_dra_answer_unprepare(const struct gt_dra_outcome *outcome, struct gt_buf *to)
{
    Dra__UnpreparedClaim claim;
    Dra__UnprepareResponse__ClaimsEntry entry, *entries[] = {&entry};
    Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;
    char error[ERROR_MAX];
    dra__unprepared_claim__init(&claim);
    dra__unprepare_response__claims_entry__init(&entry);
    if (outcome->error)
        claim.error = pack_error(outcome->error, error);
    entry.key = gt_pack_text(outcome->uid);
    entry.value = &claim;
    response.claims = entries;
    response.n_claims = 1;
    gt_pack(&response.base, to);
}

void gt_dra_answer_info(const char *driver, struct gt_buf *to)
{
    static const char *const services[] = {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                                           "v1alpha1.DRAResourceHealth"};
    char *names[GT_COUNT(services)];
    Dra__PluginInfo info;
    dra__plugin_info__init(&info);
    for (unsigned i = 0; i < GT_COUNT(services); i++)
        names[i] = gt_pack_text(services[i]);
    info.type = gt_pack_text("DRAPlugin");
    info.name = gt_pack_text(driver);
    info.services = names;
    info.n_services = GT_COUNT(services);
    gt_pack(&info.base, to);
}

int gt_dra_notice_read(const uint8_t *bytes, size_t len, bool *ret_registered, char *ret_error, size_t size,
                       struct gt_err **err)
{
    Dra__RegistrationStatus *status =
        gt_unpack(&dra__registration_status__descriptor, bytes, len, GT_REQUEST_UNPACKED_MAX);
    if (!status)
        return gt_fail(err, EBADMSG, "this is no registration status");
    *ret_registered = status->registered;
    snprintf(ret_error, size, "%s", status->error);
    gt_text_make_printable(ret_error);
    gt_unpacked_free(&status->base);
    return 0;
}

static Dra__HealthState messages_state_of(const struct gt_inventory *inventory,
                                          const struct gt_device *device)
{
    if (device->gpu < 0 || !device->healthy)
        return DRA__HEALTH_STATE__HEALTH_UNHEALTHY;
    return inventory->node->gpus[device->gpu].health == GT_GPU_HEALTHY ? DRA__HEALTH_STATE__HEALTH_HEALTHY
                                                                       : DRA__HEALTH_STATE__HEALTH_UNKNOWN;
}

void gt_dra_answer_health(const struct gt_inventory *inventory, const char *pool, int64_t now_s,
                          struct gt_buf *to)
{
    for (unsigned i = 0; inventory && i < inventory->device_count; i++) {
        const struct gt_device *from = &inventory->devices[i];
        char name[GT_DRA_DEVICE_SIZE];
        if (GT_FIND(inventory->devices, i, bdf, from->bdf) || !gt_dra_device_name(from->bdf, name))
            continue;
        Dra__DeviceId id;
        Dra__DeviceHealth health, *one[] = {&health};
        Dra__HealthResponse response = DRA__HEALTH_RESPONSE__INIT;
        dra__device_id__init(&id);
        dra__device_health__init(&health);
        id.pool = gt_pack_text(pool);
        id.device = name;
        health.device = &id;
        health.health = messages_state_of(inventory, from);
        health.updated = now_s;
        health.message = gt_pack_text(from->reason);
        response.devices = one;
        response.n_devices = 1;
        gt_pack(&response.base, to);
    }
}
