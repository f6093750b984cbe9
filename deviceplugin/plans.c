/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/plans.h"

#include <errno.h>
#include <string.h>

#include "deviceplugin/podresources_call.h"

const char *gt_plan_result_name(enum gt_plan_result result)
{
    static const char *const names[GT_PLAN_RESULTS] = {"none", "hit", "ambiguous", "late"};
    return result < GT_PLAN_RESULTS ? names[result] : "?";
}

/* ---- the snapshot: one block of memory ---- */

static size_t plans_text_size(const struct gt_plan *plan)
{
    size_t size = strlen(plan->namespace) + strlen(plan->pod) + strlen(plan->container) + 3;
    for (unsigned i = 0; i < plan->count; i++)
        size += strlen(plan->ids[i]) + 1;
    return size;
}

static int plans_by_name(const void *a, const void *b)
{
    const struct gt_bound_pod *one = a, *other = b;
    int order = strcmp(one->namespace, other->namespace);
    return order ? order : strcmp(one->pod, other->pod);
}

static const char *plans_put(char **text, const char *from)
{
    const char *at = *text;
    *text = stpcpy(*text, from) + 1;
    return at;
}

int gt_plans_new(const struct gt_plan *plans, unsigned count, const struct gt_bound_pod *known,
                 unsigned known_count, struct gt_plans **ret, struct gt_err **err)
{
    size_t ids = 0, texts = 0;
    for (unsigned i = 0; i < count && i < GT_PLANS_MAX; i++) {
        if (!plans[i].count || plans[i].count > GT_PLAN_IDS_MAX)
            return gt_fail(err, E2BIG, "a plan of %u devices", plans[i].count);
        ids += plans[i].count;
        texts += plans_text_size(&plans[i]);
    }
    if (count > GT_PLANS_MAX)
        return gt_fail(err, E2BIG, "more than %d planned containers", GT_PLANS_MAX);
    if (known_count > GT_PLAN_KNOWN_MAX)
        return gt_fail(err, E2BIG, "more than %d pods on the node", GT_PLAN_KNOWN_MAX);
    for (unsigned i = 0; i < known_count; i++)
        texts += strlen(known[i].namespace) + strlen(known[i].pod) + 2;
    size_t head = sizeof(struct gt_plans) + count * sizeof(struct gt_plan);
    struct gt_plans *made =
        malloc(head + known_count * sizeof(*known) + ids * sizeof(made->plans[0].ids[0]) + texts);
    GT_NEED(made, err, "plans");
    struct gt_bound_pod *pods = (struct gt_bound_pod *)&made->plans[count];
    const char **id = (const char **)(pods + known_count);
    char *text = (char *)(id + ids);
    made->references = 1;
    made->is_complete = known != NULL;
    made->known_count = known_count;
    made->known = pods;
    made->count = count;
    for (unsigned i = 0; i < known_count; i++)
        pods[i] = (struct gt_bound_pod){plans_put(&text, known[i].namespace), plans_put(&text, known[i].pod)};
    qsort(pods, known_count, sizeof(*pods), plans_by_name);
    for (unsigned i = 0; i < count; i++) {
        made->plans[i] = (struct gt_plan){.namespace = plans_put(&text, plans[i].namespace),
                                          .pod = plans_put(&text, plans[i].pod),
                                          .container = plans_put(&text, plans[i].container),
                                          .ids = id,
                                          .count = plans[i].count};
        for (unsigned k = 0; k < plans[i].count; k++)
            *id++ = plans_put(&text, plans[i].ids[k]);
    }
    *ret = made;
    return 0;
}

struct gt_plans *gt_plans_ref(struct gt_plans *plans)
{
    if (plans)
        __atomic_add_fetch(&plans->references, 1, __ATOMIC_RELAXED);
    return plans;
}

void gt_plans_unref(struct gt_plans *plans)
{
    if (plans && !__atomic_sub_fetch(&plans->references, 1, __ATOMIC_ACQ_REL))
        free(plans);
}

/* ---- sets of devices ---- */

/* The index of the device with this ID; -1: none that could be given. */
static int usable_number(const struct gt_inventory *inventory, const char *id)
{
    const struct gt_device *device = gt_inventory_find(inventory, id);
    return device && device->gpu >= 0 && device->healthy ? (int)(device - inventory->devices) : -1;
}

static bool plans_has(const struct gt_device_set *set, int number)
{
    return number >= 0 && (set->bits[number / 64] >> (number % 64) & 1);
}

static void plans_insert(struct gt_device_set *set, int number)
{
    set->bits[number / 64] |= 1ULL << (number % 64);
}

struct gt_planned_request gt_plan_request_make(const struct gt_inventory *inventory,
                                               const char *const *available, unsigned available_count,
                                               unsigned size)
{
    struct gt_planned_request request = {
        .inventory = inventory, .available = available, .available_count = available_count, .size = size};
    for (unsigned i = 0; i < available_count; i++) {
        int number = usable_number(inventory, available[i]);
        if (number >= 0)
            plans_insert(&request.usable, number);
    }
    return request;
}

/* The plan's devices; false if one cannot be given, or if their number is wrong. */
static bool devices_of(const struct gt_plan *plan, const struct gt_planned_request *request,
                       struct gt_device_set *ret)
{
    struct gt_device_set set = {0};
    if (plan->count != request->size)
        return false;
    for (unsigned i = 0; i < plan->count; i++) {
        int number = usable_number(request->inventory, plan->ids[i]);
        if (!plans_has(&request->usable, number) || plans_has(&set, number))
            return false;
        plans_insert(&set, number);
    }
    *ret = set;
    return true;
}

bool gt_plan_fits(const struct gt_plan *plan, const struct gt_planned_request *request)
{
    struct gt_device_set set;
    return devices_of(plan, request, &set);
}

bool gt_plans_any_fits(const struct gt_plans *plans, const struct gt_planned_request *request)
{
    for (unsigned i = 0; i < plans->count; i++)
        if (gt_plan_fits(&plans->plans[i], request))
            return true;
    return false;
}

void gt_plan_ids(const struct gt_plan *plan, const struct gt_planned_request *request, const char **ret_ids)
{
    unsigned count = 0;
    for (unsigned i = 0; i < plan->count; i++)
        for (unsigned k = 0; k < request->available_count && count < request->size; k++)
            if (strcmp(plan->ids[i], request->available[k]) == 0) {
                ret_ids[count++] = request->available[k];
                break;
            }
}

/* ---- which container is meant ---- */

static bool same_pod(const struct gt_plan *plan, const struct gt_listed_container *container)
{
    return strcmp(plan->pod, container->pod) == 0 && strcmp(plan->namespace, container->namespace) == 0;
}

/* NULL: it is not in the list. */
static const struct gt_listed_container *plans_find(const struct gt_listed_containers *listed,
                                                    const struct gt_plan *plan)
{
    for (unsigned i = 0; i < listed->count; i++)
        if (strcmp(listed->containers[i].container, plan->container) == 0 &&
            same_pod(plan, &listed->containers[i]))
            return &listed->containers[i];
    return NULL;
}

static bool of_one_pod(const struct gt_plan *a, const struct gt_plan *b)
{
    return strcmp(a->pod, b->pod) == 0 && strcmp(a->namespace, b->namespace) == 0;
}

/* Whether a container of the plan's pod that is listed and has a plan holds no devices yet. */
static bool pod_waits(const struct gt_plans *plans, const struct gt_listed_containers *listed,
                      const struct gt_plan *plan)
{
    for (unsigned i = 0; i < plans->count; i++) {
        if (!of_one_pod(&plans->plans[i], plan))
            continue;
        const struct gt_listed_container *container = plans_find(listed, &plans->plans[i]);
        if (container && !container->has_device)
            return true;
    }
    return false;
}

/* Whether another container of the pod gets its devices before this one. */
static bool another_is_first(const struct gt_plans *plans, const struct gt_planned_request *request,
                             const struct gt_listed_containers *listed, const struct gt_plan *plan,
                             const struct gt_listed_container *container)
{
    for (unsigned i = 0; i < plans->count; i++) {
        const struct gt_plan *other = &plans->plans[i];
        if (other == plan || !of_one_pod(other, plan))
            continue;
        const struct gt_listed_container *at = plans_find(listed, other);
        if (at ? !at->has_device && at < container : gt_plan_fits(other, request))
            return true;
    }
    return false;
}

static bool plans_waits(const struct gt_plans *plans, const struct gt_planned_request *request,
                        const struct gt_listed_containers *listed, const struct gt_plan *plan)
{
    const struct gt_listed_container *container = plans_find(listed, plan);
    if (!container)
        return pod_waits(plans, listed, plan);
    return !container->has_device && !another_is_first(plans, request, listed, plan, container);
}

bool gt_plans_lack_one(const struct gt_plans *plans, const struct gt_listed_containers *listed)
{
    for (unsigned i = 0; i < listed->count; i++) {
        const struct gt_listed_container *container = &listed->containers[i];
        const struct gt_bound_pod pod = {container->namespace, container->pod};
        if (!container->has_device &&
            !bsearch(&pod, plans->known, plans->known_count, sizeof(pod), plans_by_name))
            return true;
    }
    return false;
}

enum gt_plan_result gt_plans_match(const struct gt_plans *plans, const struct gt_planned_request *request,
                                   const struct gt_listed_containers *listed, const struct gt_plan **ret)
{
    const struct gt_plan *found = NULL;
    struct gt_device_set set, found_set = {0};
    for (unsigned i = 0; i < plans->count; i++) {
        const struct gt_plan *plan = &plans->plans[i];
        if (!devices_of(plan, request, &set) || !plans_waits(plans, request, listed, plan))
            continue;
        if (found && memcmp(&set, &found_set, sizeof(set)) != 0)
            return GT_PLAN_AMBIGUOUS;
        if (found)
            continue;
        found = plan;
        found_set = set;
    }
    if (!found)
        return GT_PLAN_NONE;
    *ret = found;
    return GT_PLAN_HIT;
}
