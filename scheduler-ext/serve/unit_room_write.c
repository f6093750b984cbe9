/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/json_write.h"
#include "base/text.h"
#include "scheduler-ext/serve/unit_room.h"

static const char *unit_room_write_supernode_name(const struct gt_debug_view *view, uint32_t id,
                                                  struct gt_cluster_supernode *buffer)
{
    return gt_cluster_get_supernode(gt_cache_cluster(view->cache), id, buffer) ? buffer->name : "";
}

/* ---- text ---- */

static const char *node_word(enum gt_refusal refusal)
{
    static const char *const words[GT_REFUSALS] = {
        [GT_REFUSED_CORDONED] = "cordoned",
        [GT_REFUSED_NOT_READY] = "not Ready",
        [GT_REFUSED_STALE] = "stale",
        [GT_REFUSED_OUTLIVED] = "with a report of an earlier Node",
        [GT_REFUSED_UNSUITED] = "that its selector, affinity or tolerations exclude",
        [GT_REFUSED_NODE_RESERVED] = "reserved for others",
        [GT_REFUSED_SPARE] = "spare",
        [GT_REFUSED_LEFT_ALONE] = "left alone",
        [GT_REFUSED_NO_NODE] = "without a Node object",
    };
    return words[refusal] ? words[refusal] : "not eligible";
}

static void add_obstacle(const struct gt_obstacle *obstacle, struct gt_buf *to)
{
    switch (obstacle->kind) {
    case GT_OBSTACLE_JOB:
        gt_buf_printf(to, "job %s", obstacle->job->key);
        break;
    case GT_OBSTACLE_NODES:
        gt_buf_printf(to, "%" PRIu32 " node%s %s", obstacle->nodes, gt_plural(obstacle->nodes),
                      node_word(obstacle->refusal));
        break;
    case GT_OBSTACLE_UNHEALTHY:
        gt_buf_puts(to, "unhealthy GPUs");
        break;
    case GT_OBSTACLE_RESERVED:
        gt_buf_puts(to, "reserved for pods to come");
        break;
    case GT_OBSTACLE_UNKNOWN:
        gt_buf_puts(to, "users that are no pods");
        break;
    case GT_OBSTACLE_RESOURCES:
        gt_buf_printf(to, "%" PRIu32 " node%s with too little besides GPUs", obstacle->nodes,
                      gt_plural(obstacle->nodes));
        break;
    }
    gt_buf_printf(to, " (%" PRIu32 " GPU%s)", obstacle->gpus, gt_plural(obstacle->gpus));
}

static void add_obstacles(const struct gt_obstacle *obstacles, unsigned count, const char *between,
                          struct gt_buf *to)
{
    for (unsigned i = 0; i < count; i++) {
        gt_buf_puts(to, i ? between : "");
        add_obstacle(&obstacles[i], to);
    }
}

void gt_unit_rooms_text(const struct gt_debug_view *view, const struct gt_unit_rooms *rooms,
                        struct gt_buf *to)
{
    struct gt_cluster_supernode super;
    int width = (int)strlen("SUPERNODE");
    for (unsigned i = 0; i < rooms->room_count; i++) {
        int len = (int)strlen(unit_room_write_supernode_name(view, rooms->rooms[i].supernode, &super));
        width = len > width ? len : width;
    }
    gt_buf_printf(to,
                  "\nSupernodes, for a unit of %" PRIu32 " GPU%s (%" PRIu32 " pod%s of %u) each; LACKS: GPUs "
                  "for one more:\n  %-*s  NODES  FREE  UNITS  LACKS  IN THE WAY\n",
                  rooms->pods * rooms->gpus, gt_plural(rooms->pods * rooms->gpus), rooms->pods,
                  gt_plural(rooms->pods), rooms->gpus, width, "SUPERNODE");
    for (unsigned i = 0; i < rooms->room_count; i++) {
        const struct gt_unit_room *room = &rooms->rooms[i];
        gt_buf_printf(to, "  %-*s  %5" PRIu32 "  %4" PRIu32 "  %5" PRIu32 "  %5" PRIu32 "  ", width,
                      unit_room_write_supernode_name(view, room->supernode, &super), room->nodes,
                      room->slots * rooms->gpus, room->units, room->lacks);
        add_obstacles(room->obstacles, room->obstacle_count, ", ", to);
        if (room->more)
            gt_buf_printf(to, " and %u more", room->more);
        gt_buf_puts(to, room->obstacle_count ? "\n" : "-\n");
    }
    if (rooms->room_count < rooms->count)
        gt_buf_printf(to, "  and %" PRIu32 " more\n", rooms->count - rooms->room_count);
    if (rooms->least_supernode == GT_NONE)
        return;
    gt_buf_printf(to, "The least in the way of one more unit is in %s: ",
                  unit_room_write_supernode_name(view, rooms->least_supernode, &super));
    add_obstacles(rooms->least, rooms->least_count, " and ", to);
    gt_buf_puts(to, "\n");
}

/* ---- JSON ---- */

static void add_obstacles_json(const struct gt_obstacle *obstacles, unsigned count, struct gt_buf *to)
{
    static const char *const words[] = {
        [GT_OBSTACLE_JOB] = "job",
        [GT_OBSTACLE_UNHEALTHY] = "unhealthy",
        [GT_OBSTACLE_RESERVED] = "reserved",
        [GT_OBSTACLE_UNKNOWN] = "unknown",
        [GT_OBSTACLE_RESOURCES] = "resources",
    };
    gt_json_begin(to, "inTheWay", '[');
    for (unsigned i = 0; i < count; i++) {
        const struct gt_obstacle *of = &obstacles[i];
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "what",
                         of->kind == GT_OBSTACLE_NODES ? gt_refusal_name(of->refusal) : words[of->kind]);
        gt_json_add_text_or_null(to, "job", of->job ? of->job->key : NULL);
        gt_json_add_unsigned(to, "gpus", of->gpus);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

void gt_unit_rooms_json(const struct gt_debug_view *view, const struct gt_unit_rooms *rooms,
                        struct gt_buf *to)
{
    struct gt_cluster_supernode super;
    gt_json_begin(to, "unit", '{');
    gt_json_add_unsigned(to, "pods", rooms->pods);
    gt_json_add_unsigned(to, "gpus", rooms->pods * rooms->gpus);
    gt_json_end(to, '}');
    gt_json_begin(to, "supernodes", '[');
    for (unsigned i = 0; i < rooms->room_count; i++) {
        const struct gt_unit_room *room = &rooms->rooms[i];
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", unit_room_write_supernode_name(view, room->supernode, &super));
        gt_json_add_unsigned(to, "nodes", room->nodes);
        gt_json_add_unsigned(to, "free", room->slots * rooms->gpus);
        gt_json_add_unsigned(to, "units", room->units);
        gt_json_add_unsigned(to, "lacks", room->lacks);
        add_obstacles_json(room->obstacles, room->obstacle_count, to);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    if (rooms->least_supernode == GT_NONE) {
        gt_json_add_null(to, "leastChange");
        return;
    }
    gt_json_begin(to, "leastChange", '{');
    gt_json_add_text(to, "supernode", unit_room_write_supernode_name(view, rooms->least_supernode, &super));
    add_obstacles_json(rooms->least, rooms->least_count, to);
    gt_json_end(to, '}');
}
