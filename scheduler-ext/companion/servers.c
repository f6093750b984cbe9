/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/view.h"

#include <errno.h>
#include <string.h>

#include "api/supernode.h"
#include "base/json.h"
#include "scheduler-ext/supernodes/join.h"

struct server_node {
    char *uuid, *node;
    bool is_published;
};

struct gt_servers {
    struct server_node
        *items; /* sorted, one for each UUID; those learned since the last settle are appended */
    uint32_t count, capacity;
    bool failed; /* no memory for a learned holder */
};

static void servers_drop(struct server_node *server)
{
    free(server->uuid);
    free(server->node);
}

int gt_servers_new(struct gt_servers **ret, struct gt_err **err)
{
    struct gt_servers *servers = calloc(1, sizeof(*servers));
    GT_NEED(servers, err, "servers");
    *ret = servers;
    return 0;
}

void gt_servers_free(struct gt_servers *servers)
{
    if (!servers)
        return;
    for (uint32_t i = 0; i < servers->count; i++)
        servers_drop(&servers->items[i]);
    free(servers->items);
    free(servers);
}

static bool servers_add(struct gt_servers *servers, const char *uuid, const char *node, bool is_published)
{
    if (!GT_GROW(servers->items, servers->count, servers->capacity, 64))
        return false;
    struct server_node server = {strdup(uuid), strdup(node), is_published};
    if (!server.uuid || !server.node) {
        servers_drop(&server);
        return false;
    }
    servers->items[servers->count++] = server;
    return true;
}

void gt_servers_learn(void *arg, const char *name, enum gt_apply_set_state state, const char *have)
{
    struct gt_servers *servers = arg;
    gt_auto_supernode_object struct gt_supernode_object object = {0};
    gt_auto_json cJSON *json = state == GT_APPLY_SET_OURS ? cJSON_Parse(have) : NULL;
    if (gt_supernode_object_read_status(name, json, &object, NULL) >= 0)
        for (unsigned i = 0; i < object.member_count; i++) {
            const struct gt_supernode_member *member = &object.members[i];
            if (member->server[0] && servers->count < 2 * GT_JOIN_NODES_MAX)
                servers->failed |= !servers_add(servers, member->server, member->node, true);
        }
}

static int compare_servers(const void *a, const void *b)
{
    const struct server_node *x = a, *y = b;
    int order = strcmp(x->uuid, y->uuid);
    if (order == 0)
        order = y->is_published - x->is_published;
    return order ? order : strcmp(x->node, y->node);
}

static int servers_compare_names(const void *name, const void *report)
{
    return strcmp(name, (*(const struct gt_cache_report *const *)report)->name);
}

static int servers_compare_uuids(const void *a, const void *b)
{
    const struct gt_cache_report *x = *(const struct gt_cache_report *const *)a,
                                 *y = *(const struct gt_cache_report *const *)b;
    return strcmp(x->server_uuid, y->server_uuid);
}

static bool server_still_has(const struct server_node *server, const struct gt_cache_report *const *reports,
                             uint32_t count)
{
    const struct gt_cache_report *const *found =
        bsearch(server->node, reports, count, sizeof(*reports), servers_compare_names);
    return found && (!(*found)->server_uuid || strcmp((*found)->server_uuid, server->uuid) == 0);
}

/* Keeps one holder for each UUID, if it still holds it. */
static void servers_keep_nodes(struct gt_servers *servers, const struct gt_cache_report *const *reports,
                               uint32_t count)
{
    uint32_t kept = 0;
    if (servers->count)
        qsort(servers->items, servers->count, sizeof(*servers->items), compare_servers);
    for (uint32_t i = 0; i < servers->count; i++) {
        struct server_node *server = &servers->items[i];
        bool is_known = kept && strcmp(servers->items[kept - 1].uuid, server->uuid) == 0;
        if (is_known || !server_still_has(server, reports, count)) {
            servers_drop(server);
            continue;
        }
        server->is_published = false;
        servers->items[kept++] = *server;
    }
    servers->count = kept;
}

int gt_servers_settle(struct gt_servers *servers, const struct gt_cache_report *const *reports,
                      uint32_t count, struct gt_err **err)
{
    gt_auto_free const struct gt_cache_report **claims = calloc((size_t)count + 1, sizeof(*claims));
    uint32_t claimed = 0;
    if (!claims || servers->failed) {
        servers->failed = false;
        return gt_fail_sys(err, ENOMEM, "servers");
    }
    servers_keep_nodes(servers, reports, count);
    for (uint32_t i = 0; i < count; i++)
        if (reports[i]->server_uuid && !gt_servers_node(servers, reports[i]->server_uuid))
            claims[claimed++] = reports[i];
    qsort(claims, claimed, sizeof(*claims), servers_compare_uuids);
    bool whole = true;
    for (uint32_t i = 0; i < claimed && whole; i++)
        if ((i == 0 || servers_compare_uuids(&claims[i], &claims[i - 1]) != 0) &&
            (i + 1 == claimed || servers_compare_uuids(&claims[i], &claims[i + 1]) != 0))
            whole = servers_add(servers, claims[i]->server_uuid, claims[i]->name, false);
    if (servers->count)
        qsort(servers->items, servers->count, sizeof(*servers->items), compare_servers);
    return whole ? 0 : gt_fail_sys(err, ENOMEM, "servers");
}

static int compare_uuid(const void *uuid, const void *server)
{
    return strcmp(uuid, ((const struct server_node *)server)->uuid);
}

const char *gt_servers_node(const struct gt_servers *servers, const char *uuid)
{
    if (!servers || !uuid || !servers->count)
        return NULL;
    const struct server_node *found =
        bsearch(uuid, servers->items, servers->count, sizeof(*servers->items), compare_uuid);
    return found ? found->node : NULL;
}
