/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/use.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"
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
    const struct gt_at at = {source, "", err};
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {.node = gt_node_ref(node)};
    const cJSON *used = gt_get(usage, "used");
    bool known = false;
    *ret = (struct cli_use){0};
    if (!cJSON_IsObject(usage))
        return gt_at_fail(&at, "", "expected an object, is %s", gt_json_type(usage));
    GT_TRY(gt_get_bool(&at, usage, "known", &known));
    if (!known)
        return 0;
    GT_TRY(gt_node_gpu_topology_read_usage(&at, usage, "used", &topology));
    if (!topology.use_known || !used)
        return gt_at_fail(&at, topology.use_known ? "used" : "free", "is missing");
    for (const cJSON *item = used->child; item; item = item->next) {
        const char *uuid = gt_get_string(item, "uuid");
        int gpu = gt_get(item, "gpu")->valueint;
        if (*uuid && node->gpus[gpu].uuid[0] && strcmp(uuid, node->gpus[gpu].uuid) != 0)
            return gt_at_fail(&at, "used", "GPU %d is %.64s there and %s here: it speaks of another machine",
                              gpu, uuid, node->gpus[gpu].uuid);
    }
    cli_use_from_topology(&topology, ret);
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

void cli_use_add_json(const struct cli_use *use, struct gt_buf *to)
{
    if (!use->known)
        return;
    gt_json_add_mask(to, "free", use->free);
    gt_json_begin(to, "owners", '[');
    for (unsigned gpu = 0; gpu < GT_GPUS_MAX; gpu++)
        for (unsigned i = 0; i < use->owner_count; i++) {
            const struct cli_owner *owner = &use->owners[i];
            if (owner->mask >> gpu & 1)
                gt_gpu_owner_write(
                    &(struct gt_gpu_owner){gpu, owner->namespace_, owner->pod, owner->container}, to);
        }
    gt_json_end(to, ']');
}
