/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/use.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/text.h"

void cli_near_init(struct cli_near *near, const char *wanted)
{
    *near = (struct cli_near){0};
    snprintf(near->wanted, sizeof(near->wanted), "%s", wanted);
}

/* Edit distance; less where one name begins with the other: a host name with and without its domain. */
static unsigned distance_of(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    return n && m && (strncmp(a, b, n) == 0 || strncmp(a, b, m) == 0) ? 1 : gt_text_distance(a, b);
}

void cli_near_add(struct cli_near *near, const char *name)
{
    if (!*name || strlen(name) >= CLI_NEAR_NAME)
        return;
    near->seen++;
    unsigned distance = distance_of(near->wanted, name), at = near->kept_count;
    while (at && near->kept[at - 1].distance > distance)
        at--;
    if (at == CLI_NEAR_KEPT)
        return;
    near->kept_count += near->kept_count < CLI_NEAR_KEPT;
    memmove(&near->kept[at + 1], &near->kept[at], (near->kept_count - 1 - at) * sizeof(near->kept[0]));
    near->kept[at].distance = distance;
    gt_text_copy(near->kept[at].name, CLI_NEAR_NAME, name);
}

void cli_near_text(const struct cli_near *near, struct gt_buf *to)
{
    if (!near->seen) {
        gt_buf_puts(to, "there is none at all: does the agent run?");
        return;
    }
    unsigned most = (unsigned)strlen(near->wanted) / 3 + 1, count = 0;
    while (count < near->kept_count && near->kept[count].distance <= most)
        count++;
    if (!count) {
        gt_buf_printf(to, "there %s %u, for example %s", near->seen == 1 ? "is" : "are", near->seen,
                      near->kept[0].name);
        return;
    }
    gt_buf_printf(to, "of the %u there are, near %s ", near->seen, count == 1 ? "is" : "are");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", near->kept[i].name);
}

/* A list of GPU numbers below `gpus`; where it is absent, only *ret_there is set. */
static int read_mask(const struct gt_at *at, const cJSON *object, const char *key, unsigned gpus,
                     uint64_t *ret, bool *ret_there)
{
    const cJSON *array;
    unsigned count, i = 0;
    uint64_t mask = 0;
    GT_TRY(gt_get_array(at, object, key, GT_GPUS_MAX, &array, &count));
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        char place[32];
        snprintf(place, sizeof(place), "%s[%u]", key, i);
        if (!cJSON_IsNumber(item))
            return gt_at_fail(at, place, "expected a number, is %s", gt_json_type(item));
        double number = item->valuedouble;
        if (!(number >= 0 && number < gpus) || (unsigned)number != number)
            return gt_at_fail(at, place, "there is no GPU %g, the node has %u", number, gpus);
        mask |= UINT64_C(1) << (unsigned)number;
    }
    *ret = mask;
    *ret_there = array;
    return 0;
}

static void cli_use_add_owner(struct cli_use *use, unsigned gpu, const struct cli_owner *owner)
{
    use->used |= UINT64_C(1) << gpu;
    for (unsigned i = 0; i < use->owner_count; i++) {
        struct cli_owner *known = &use->owners[i];
        if (strcmp(known->namespace_, owner->namespace_) == 0 && strcmp(known->pod, owner->pod) == 0 &&
            strcmp(known->container, owner->container) == 0) {
            known->mask |= UINT64_C(1) << gpu;
            return;
        }
    }
    struct cli_owner *added = &use->owners[use->owner_count++];
    *added = *owner;
    added->mask = UINT64_C(1) << gpu;
}

static int cli_use_read_owner(const char *source, const char *key, unsigned i, const cJSON *item,
                              unsigned gpus, struct cli_use *use, unsigned *ret_gpu, struct gt_err **err)
{
    char path[32];
    snprintf(path, sizeof(path), "%s[%u]", key, i);
    struct gt_at at = {source, path, err};
    struct cli_owner owner = {0};
    unsigned gpu = UINT32_MAX;
    if (!cJSON_IsObject(item))
        return gt_at_fail(&at, "", "expected an object, is %s", gt_json_type(item));
    GT_TRY(gt_get_unsigned(&at, item, "gpu", UINT32_MAX - 1, &gpu));
    GT_TRY(gt_get_text(&at, item, "namespace", owner.namespace_, sizeof(owner.namespace_)));
    GT_TRY(gt_get_text(&at, item, "pod", owner.pod, sizeof(owner.pod)));
    GT_TRY(gt_get_text(&at, item, "container", owner.container, sizeof(owner.container)));
    if (gpu == UINT32_MAX)
        return gt_at_fail(&at, "gpu", "is missing");
    if (gpu >= gpus)
        return gt_at_fail(&at, "gpu", "there is no GPU %u, the node has %u", gpu, gpus);
    if (!owner.pod[0] || !owner.namespace_[0])
        return gt_at_fail(&at, owner.pod[0] ? "namespace" : "pod", "is missing");
    if (use->used >> gpu & 1)
        return gt_at_fail(&at, "gpu", "GPU %u has an owner already", gpu);
    cli_use_add_owner(use, gpu, &owner);
    *ret_gpu = gpu;
    return 0;
}

void cli_use_from_topology(const struct gt_node_gpu_topology *topology, struct cli_use *ret)
{
    struct cli_use use = {.known = topology->use_known, .free = topology->free & ~topology->owned};
    for (unsigned i = 0; i < topology->owner_count; i++) {
        const struct gt_gpu_owner *owner_of = &topology->owners[i];
        struct cli_owner owner = {0};
        gt_text_copy(owner.namespace_, sizeof(owner.namespace_), owner_of->namespace_);
        gt_text_copy(owner.pod, sizeof(owner.pod), owner_of->pod);
        gt_text_copy(owner.container, sizeof(owner.container), owner_of->container);
        cli_use_add_owner(&use, owner_of->gpu, &owner);
    }
    *ret = use;
}

int cli_use_read_topology(const cJSON *object, struct gt_node_gpu_topology *ret, struct gt_err **ret_problem,
                          struct gt_err **err)
{
    gt_auto_err struct gt_err *problem = NULL;
    int r = gt_node_gpu_topology_read(object, ret, &problem);
    if (r >= 0)
        return r;
    r = gt_node_gpu_topology_read_wiring(object, ret, err);
    if (r >= 0)
        *ret_problem = gt_steal(problem);
    return r;
}

int cli_use_from_agent(const cJSON *usage, const char *source, const struct gt_node *node,
                       struct cli_use *ret, struct gt_err **err)
{
    struct gt_at at = {source, "", err};
    struct cli_use use = {0};
    bool there = false, known = false;
    const cJSON *owners;
    unsigned count, i = 0, gpu = 0;
    *ret = use;
    if (!cJSON_IsObject(usage))
        return gt_at_fail(&at, "", "expected an object, is %s", gt_json_type(usage));
    GT_TRY(gt_get_bool(&at, usage, "known", &known));
    if (!known)
        return 0;
    GT_TRY(read_mask(&at, usage, "free", node->gpu_count, &use.free, &there));
    GT_TRY(gt_get_array(&at, usage, "used", GT_GPUS_MAX, &owners, &count));
    if (!there || !owners)
        return gt_at_fail(&at, there ? "used" : "free", "is missing");
    for (const cJSON *item = owners->child; item; item = item->next) {
        char uuid[GT_ID_SIZE] = "";
        GT_TRY(cli_use_read_owner(source, "used", i++, item, node->gpu_count, &use, &gpu, err));
        GT_TRY(gt_get_text(&at, item, "uuid", uuid, sizeof(uuid)));
        if (uuid[0] && node->gpus[gpu].uuid[0] && strcmp(uuid, node->gpus[gpu].uuid) != 0)
            return gt_at_fail(&at, "used", "GPU %u is %s there and %s here: it speaks of another machine",
                              gpu, uuid, node->gpus[gpu].uuid);
    }
    use.known = true;
    *ret = use;
    return 0;
}

void cli_use_text(const struct cli_use *use, struct gt_buf *to)
{
    gt_buf_puts(to, "Free GPUs: ");
    if (!use->known)
        gt_buf_puts(to, "not known");
    else if (!use->free)
        gt_buf_puts(to, "none");
    else
        gt_text_add_mask(to, use->free);
    gt_buf_puts(to, "\n");
    for (unsigned i = 0; i < use->owner_count; i++) {
        const struct cli_owner *owner = &use->owners[i];
        gt_buf_puts(to, owner->mask & (owner->mask - 1) ? "  GPUs " : "  GPU ");
        gt_text_add_mask(to, owner->mask);
        gt_buf_printf(to, ": %s/%s", owner->namespace_, owner->pod);
        if (owner->container[0])
            gt_buf_printf(to, ", container %s", owner->container);
        gt_buf_puts(to, "\n");
    }
}

static bool add_one_owner(cJSON *owners, const struct cli_owner *owner, unsigned gpu)
{
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(owners, item)) {
        cJSON_Delete(item);
        return false;
    }
    return cJSON_AddNumberToObject(item, "gpu", gpu) &&
           cJSON_AddStringToObject(item, "namespace", owner->namespace_) &&
           cJSON_AddStringToObject(item, "pod", owner->pod) &&
           cJSON_AddStringToObject(item, "container", owner->container);
}

bool cli_use_add_json(const struct cli_use *use, cJSON *node)
{
    if (!use->known)
        return true;
    cJSON *free = cJSON_AddArrayToObject(node, "free"), *owners = cJSON_AddArrayToObject(node, "owners");
    bool good = free && owners;
    for (unsigned gpu = 0; gpu < GT_GPUS_MAX && good; gpu++) {
        if (use->free >> gpu & 1) {
            cJSON *number = cJSON_CreateNumber(gpu);
            good = number && cJSON_AddItemToArray(free, number);
            if (!good)
                cJSON_Delete(number);
        }
        for (unsigned i = 0; i < use->owner_count && good; i++)
            if (use->owners[i].mask >> gpu & 1)
                good = add_one_owner(owners, &use->owners[i], gpu);
    }
    return good;
}
