/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/use.h"

#include <stdio.h>
#include <string.h>

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

int cli_use_from_agent(const cJSON *usage, const char *source, struct gt_node_gpu_topology *to,
                       struct gt_err **err)
{
    const struct gt_at at = {source, "", err};
    const struct gt_node *node = to->node;
    struct gt_node_gpu_topology topology = *to;
    const cJSON *used = gt_get(usage, "used");
    bool known = false;
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
    *to = topology;
    return 0;
}

static uint64_t use_free(const struct gt_node_gpu_topology *topology)
{
    return topology->free & ~topology->owned;
}

/* The GPUs of the container that has this one; 0 where one before it in the list is of the same. */
static uint64_t use_of_container(const struct gt_node_gpu_topology *topology, unsigned i)
{
    const struct gt_gpu_owner *first = &topology->owners[i];
    uint64_t gpus = 0;
    for (unsigned k = 0; k < topology->owner_count; k++) {
        const struct gt_gpu_owner *owner = &topology->owners[k];
        if (strcmp(first->namespace_, owner->namespace_) != 0 || strcmp(first->pod, owner->pod) != 0 ||
            strcmp(first->container, owner->container) != 0)
            continue;
        if (k < i)
            return 0;
        gpus |= UINT64_C(1) << owner->gpu;
    }
    return gpus;
}

void cli_use_text(const struct gt_node_gpu_topology *topology, struct gt_buf *to)
{
    gt_buf_puts(to, "Free GPUs: ");
    if (!topology->use_known)
        gt_buf_puts(to, "not known");
    else if (!use_free(topology))
        gt_buf_puts(to, "none");
    else
        gt_text_add_mask(to, use_free(topology));
    gt_buf_puts(to, "\n");
    for (unsigned i = 0; i < topology->owner_count; i++) {
        const struct gt_gpu_owner *owner = &topology->owners[i];
        uint64_t gpus = use_of_container(topology, i);
        if (!gpus)
            continue;
        gt_buf_puts(to, gpus & (gpus - 1) ? "  GPUs " : "  GPU ");
        gt_text_add_mask(to, gpus);
        gt_buf_printf(to, ": %s/%s", owner->namespace_, owner->pod);
        if (owner->container[0])
            gt_buf_printf(to, ", container %s", owner->container);
        gt_buf_puts(to, "\n");
    }
}

void cli_use_add_json(const struct gt_node_gpu_topology *topology, struct gt_buf *to)
{
    if (!topology->use_known)
        return;
    gt_json_add_mask(to, "free", use_free(topology));
    gt_json_begin(to, "owners", '[');
    for (unsigned gpu = 0; gpu < GT_GPUS_MAX; gpu++)
        for (unsigned i = 0; i < topology->owner_count; i++)
            if (topology->owners[i].gpu == gpu)
                gt_gpu_owner_write(&topology->owners[i], to);
    gt_json_end(to, ']');
}
