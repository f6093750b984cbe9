/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json_write.h"
#include "base/text.h"
#include "deviceplugin/dra/claim_cdi.h"

struct gt_usage_table {
    gt_usage_changed *changed;
    void *arg;
    struct gt_inventory *inventory; /* NULL before the first scan */
    struct gt_usage_owner *entries; /* what the kubelet lists, ascending, each once */
    unsigned count;
    struct gt_dra_claims claims; /* that the driver has prepared */
    bool listed, stale;
    struct gt_usage *now;
};

static int compare_owners(const struct gt_usage_owner *a, const struct gt_usage_owner *b)
{
    int order = strcmp(a->namespace, b->namespace);
    if (order == 0)
        order = strcmp(a->pod, b->pod);
    return order == 0 ? strcmp(a->container, b->container) : order;
}

static int compare_entries(const void *x, const void *y)
{
    const struct gt_usage_owner *a = x, *b = y;
    int order = compare_owners(a, b);
    if (order == 0)
        order = strcmp(a->id, b->id);
    if (order == 0)
        order = strcmp(a->claim, b->claim);
    return order == 0 ? strcmp(a->claim_namespace, b->claim_namespace) : order;
}

/* The kubelet's answer does not limit the texts: one that is too long for Kubernetes is cut. */
static void fill_entry(struct gt_usage_owner *owner, const struct gt_device_user *user)
{
    *owner = (struct gt_usage_owner){0};
    gt_text_cut(owner->id, sizeof(owner->id), user->id);
    gt_text_cut(owner->namespace, sizeof(owner->namespace), user->namespace);
    gt_text_cut(owner->pod, sizeof(owner->pod), user->pod);
    gt_text_cut(owner->container, sizeof(owner->container), user->container);
    gt_text_cut(owner->claim, sizeof(owner->claim), user->claim ? user->claim : "");
    gt_text_cut(owner->claim_namespace, sizeof(owner->claim_namespace),
                user->claim ? user->claim_namespace : "");
}

static bool same_claim(const struct gt_usage_owner *a, const struct gt_usage_owner *b)
{
    return a->claim[0] && strcmp(a->claim, b->claim) == 0 &&
           strcmp(a->claim_namespace, b->claim_namespace) == 0;
}

/* The prepared device that an entry of the kubelet is about; NULL: none. */
static const struct gt_dra_claimed_device *usage_claimed(const struct gt_dra_claims *claims,
                                                         const struct gt_usage_owner *owner)
{
    for (unsigned i = 0; owner->claim[0] && i < claims->count; i++) {
        const struct gt_dra_claim *claim = &claims->list[i];
        const struct gt_dra_claimed_device *found =
            GT_FIND(claim->devices, claim->device_count, device, owner->id);
        if (found && strcmp(claim->id.name, owner->claim) == 0 &&
            strcmp(claim->id.namespace, owner->claim_namespace) == 0)
            return found;
    }
    return NULL;
}

/* The owner of a device of a claim, as the driver knows it. */
static void claim_entry(struct gt_usage_owner *owner, const struct gt_dra_claim *claim,
                        const struct gt_dra_claimed_device *device)
{
    const struct gt_device_user user = {
        .namespace = claim->id.namespace,
        .pod = claim->pod_count ? claim->pods[0] : "",
        .container = device->request,
        .id = device->device,
        .claim = claim->id.name,
        .claim_namespace = claim->id.namespace,
    };
    fill_entry(owner, &user);
}

static bool usage_lists(const struct gt_usage_table *table, const struct gt_usage_owner *owner)
{
    for (unsigned i = 0; i < table->count; i++)
        if (same_claim(&table->entries[i], owner) && strcmp(table->entries[i].id, owner->id) == 0)
            return true;
    return false;
}

/* The GPU that an ID stands for, also where it is served by another one now; -1: none of this node. */
static int find_gpu(const struct gt_inventory *inventory, const struct gt_usage_owner *owner)
{
    const char *id = owner->id;
    if (owner->claim[0]) {
        const struct gt_device *claimed = gt_dra_find_device(inventory, id);
        return claimed ? claimed->gpu : -1;
    }
    const struct gt_device *device = gt_inventory_find(inventory, id);
    if (device && device->gpu >= 0)
        return device->gpu;
    char bdf[GT_BDF_SIZE] = "";
    if (device)
        memcpy(bdf, device->bdf, sizeof(bdf));
    else if (strncmp(id, "PCI-", 4) == 0)
        gt_bdf_normalise(id + 4, bdf);
    const char *uuid = device ? device->uuid : id;
    for (unsigned i = 0; i < inventory->node->gpu_count; i++) {
        const struct gt_gpu *gpu = &inventory->node->gpus[i];
        bool same_uuid = gpu->uuid[0] && strcmp(gpu->uuid, uuid) == 0;
        bool same_place = bdf[0] && strcmp(gpu->bdf, bdf) == 0 && !(device && gpu->uuid[0] && uuid[0]);
        if (same_uuid || same_place)
            return (int)i;
    }
    return -1;
}

/* Of several owners the previous one is shown, else the first by name: the kubelet's answer has no order. */
static void usage_add_owner(const struct gt_usage_table *table, struct gt_usage *usage, unsigned gpu,
                            const struct gt_usage_owner *entry)
{
    uint64_t bit = 1ULL << gpu;
    struct gt_usage_owner *owner = &usage->owners[gpu];
    if (!(usage->used & bit))
        *owner = *entry;
    else if (compare_owners(owner, entry) != 0 && !same_claim(owner, entry)) {
        usage->twice |= bit;
        if (table->now && gpu < table->now->gpu_count &&
            compare_entries(&table->now->owners[gpu], entry) == 0)
            *owner = *entry;
    }
    usage->used |= bit;
}

static void add_entries(const struct gt_usage_table *table, struct gt_usage *usage)
{
    for (unsigned i = 0; i < table->count; i++) {
        const struct gt_dra_claimed_device *claimed = usage_claimed(&table->claims, &table->entries[i]);
        int gpu = find_gpu(table->inventory, &table->entries[i]);
        if (claimed && claimed->admin)
            continue;
        if (gpu >= 0)
            usage_add_owner(table, usage, (unsigned)gpu, &table->entries[i]);
        else if (usage->unknown_devices < GT_UNKNOWN_DEVICES_MAX)
            usage->owners[usage->gpu_count + usage->unknown_devices++] = table->entries[i];
    }
    for (unsigned i = 0; i < table->claims.count; i++)
        for (unsigned k = 0; k < table->claims.list[i].device_count; k++) {
            const struct gt_dra_claimed_device *device = &table->claims.list[i].devices[k];
            struct gt_usage_owner entry;
            claim_entry(&entry, &table->claims.list[i], device);
            int gpu = device->admin ? -1 : find_gpu(table->inventory, &entry);
            if (gpu >= 0 && !usage_lists(table, &entry))
                usage_add_owner(table, usage, (unsigned)gpu, &entry);
        }
    for (unsigned i = 0; i < table->inventory->device_count; i++) {
        const struct gt_device *device = &table->inventory->devices[i];
        if (device->gpu >= 0 && device->healthy)
            usage->free |= 1ULL << device->gpu;
    }
    usage->free &= ~usage->used;
}

static bool usage_is_same(const struct gt_usage *a, const struct gt_usage *b)
{
    if (a->known != b->known || a->stale != b->stale || a->gpu_count != b->gpu_count || a->used != b->used ||
        a->free != b->free || a->twice != b->twice || a->unknown_devices != b->unknown_devices)
        return false;
    for (unsigned i = 0; i < a->gpu_count + a->unknown_devices; i++)
        if (compare_entries(&a->owners[i], &b->owners[i]) != 0)
            return false;
    return true;
}

/* Without memory the previous state stays until the next change. */
static void usage_make(struct gt_usage_table *table)
{
    bool known = table->listed && table->inventory;
    unsigned gpus = known ? table->inventory->node->gpu_count : 0;
    unsigned unknown_devices = table->count < GT_UNKNOWN_DEVICES_MAX ? table->count : GT_UNKNOWN_DEVICES_MAX;
    struct gt_usage *next = calloc(1, sizeof(*next) + (gpus + unknown_devices) * sizeof(next->owners[0]));
    if (!next)
        return;
    next->known = known;
    next->stale = known && table->stale;
    next->gpu_count = gpus;
    if (known)
        add_entries(table, next);
    if (usage_is_same(table->now, next)) {
        free(next);
        return;
    }
    struct gt_usage *before = table->now;
    next->generation = before->generation + 1;
    table->now = next;
    if (table->changed)
        table->changed(table->arg, before, next);
    free(before);
}

int gt_usage_table_new(gt_usage_changed *changed, void *arg, struct gt_usage_table **ret, struct gt_err **err)
{
    struct gt_usage_table *table = calloc(1, sizeof(*table));
    struct gt_usage *nothing = calloc(1, sizeof(*nothing));
    if (!table || !nothing) {
        free(table);
        free(nothing);
        return gt_fail_sys(err, ENOMEM, "usage");
    }
    nothing->generation = 1;
    *table = (struct gt_usage_table){.changed = changed, .arg = arg, .now = nothing};
    *ret = table;
    return 0;
}

void gt_usage_table_free(struct gt_usage_table *table)
{
    if (!table)
        return;
    gt_inventory_unref(table->inventory);
    free(table->entries);
    gt_dra_claims_done(&table->claims);
    free(table->now);
    free(table);
}

const struct gt_usage *gt_usage_now(const struct gt_usage_table *table)
{
    return table->now;
}

/* `count` entries, put in order, each once; returns how many are left. */
static unsigned usage_sort(struct gt_usage_owner *entries, unsigned count)
{
    unsigned left = 0;
    if (count)
        qsort(entries, count, sizeof(*entries), compare_entries);
    for (unsigned i = 0; i < count; i++)
        if (!left || compare_entries(&entries[left - 1], &entries[i]) != 0)
            entries[left++] = entries[i];
    return left;
}

void gt_usage_listed(struct gt_usage_table *table, const struct gt_device_uses *uses)
{
    unsigned kept = uses->settling ? table->count : 0, count = 0;
    struct gt_usage_owner *entries = calloc(uses->count + kept + 1UL, sizeof(*entries));
    if (!entries)
        return;
    for (unsigned i = 0; i < uses->count; i++)
        fill_entry(&entries[count++], &uses->users[i]);
    for (unsigned i = 0; i < kept; i++)
        if (!GT_FIND(uses->users, uses->count, id, table->entries[i].id))
            entries[count++] = table->entries[i];
    free(table->entries);
    table->entries = entries;
    table->count = usage_sort(entries, count);
    table->listed |= !uses->settling;
    table->stale = false;
    usage_make(table);
}

void gt_usage_inventory(struct gt_usage_table *table, const struct gt_inventory *inventory)
{
    struct gt_inventory *next = gt_inventory_ref(inventory);
    gt_inventory_unref(table->inventory);
    table->inventory = next;
    usage_make(table);
}

void gt_usage_stale(struct gt_usage_table *table, bool stale)
{
    table->stale = stale;
    usage_make(table);
}

/* A claim that is no longer prepared has ended: what the kubelet listed before is not true any more. */
static void drop_ended(struct gt_usage_table *table, const struct gt_dra_claims *next)
{
    unsigned left = 0;
    for (unsigned i = 0; i < table->count; i++) {
        const struct gt_usage_owner *entry = &table->entries[i];
        const struct gt_dra_claimed_device *was = usage_claimed(&table->claims, entry),
                                           *is = usage_claimed(next, entry);
        if (!was || was->admin || (is && !is->admin))
            table->entries[left++] = *entry;
    }
    table->count = left;
}

void gt_usage_claims(struct gt_usage_table *table, const struct gt_dra_claims *claims)
{
    struct gt_dra_claims next;
    if (gt_dra_claims_copy(claims, &next, NULL) < 0)
        return; /* without memory the state before stays until the next change */
    drop_ended(table, &next);
    gt_dra_claims_done(&table->claims);
    table->claims = next;
    usage_make(table);
}

bool gt_usage_lists_claim(const struct gt_usage_table *table, const char *namespace, const char *claim)
{
    for (unsigned i = 0; i < table->count; i++)
        if (strcmp(table->entries[i].claim, claim) == 0 &&
            strcmp(table->entries[i].claim_namespace, namespace) == 0)
            return true;
    return false;
}

uint64_t gt_usage_others(const struct gt_usage *usage, const struct gt_dra_claims *claims,
                         const struct gt_inventory *inventory)
{
    uint64_t others = usage->used;
    for (unsigned i = 0; i < claims->count; i++)
        for (unsigned k = 0; k < claims->list[i].device_count; k++) {
            const struct gt_dra_claim *claim = &claims->list[i];
            const struct gt_device *device = gt_dra_find_device(inventory, claim->devices[k].device);
            if (!device || claim->devices[k].admin || (unsigned)device->gpu >= usage->gpu_count)
                continue;
            const struct gt_usage_owner *owner = &usage->owners[device->gpu];
            bool is_its = strcmp(owner->claim, claim->id.name) == 0 &&
                          strcmp(owner->claim_namespace, claim->id.namespace) == 0;
            if (is_its)
                others &= ~(UINT64_C(1) << device->gpu);
        }
    return others;
}

void gt_usage_in_use(const struct gt_usage_table *table, struct gt_in_use *ret)
{
    *ret = (struct gt_in_use){.complete = table->listed};
    for (unsigned i = 0; i < table->count; i++)
        if (!table->entries[i].claim[0])
            gt_in_use_add(ret, table->entries[i].id);
}

static void add_owner_json(struct gt_buf *to, const struct gt_usage_owner *owner)
{
    gt_json_printf(to, "'id': %s, 'namespace': %s, 'pod': %s, 'container': %s, ?'claim': %s}", owner->id,
                   owner->namespace, owner->pod, owner->container, owner->claim);
}

void gt_usage_json(const struct gt_usage_table *table, const char *node_name, double asked_s,
                   struct gt_buf *to)
{
    const struct gt_usage *usage = table->now;
    gt_json_printf(to, "{'node': %s, 'known': !%d, 'stale': !%d, 'generation': %" PRIu64, node_name,
                   usage->known, usage->stale, usage->generation);
    if (asked_s > 0) {
        gt_json_key(to, "asked");
        gt_buf_printf(to, "%.3f", asked_s);
    }
    gt_json_add_mask(to, "free", usage->free);
    gt_json_add_mask(to, "twice", usage->twice);
    gt_json_begin(to, "used", '[');
    for (unsigned i = 0; i < usage->gpu_count; i++) {
        if (!(usage->used >> i & 1))
            continue;
        gt_json_printf(to, "{'gpu': %u, 'uuid': %s", i, table->inventory->node->gpus[i].uuid);
        add_owner_json(to, &usage->owners[i]);
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "strangers", '[');
    for (unsigned i = 0; i < usage->unknown_devices; i++) {
        gt_json_begin(to, NULL, '{');
        add_owner_json(to, &usage->owners[usage->gpu_count + i]);
    }
    gt_buf_puts(to, "]}\n");
}
