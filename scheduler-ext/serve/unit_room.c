/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/unit_room.h"

#include <string.h>

#include "api/names.h"
#include "base/bits.h"
#include "base/text.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/jobs/rules.h"

enum {
    OBSTACLES_MAX = 64,  /* of a supernode; further ones count as one that cannot go */
    LEAST_SEARCHED = 4,  /* supernodes for which the least change is searched */
    LOOKS_MAX = 1 << 18, /* at nodes, in these searches: milliseconds */
    NOBODY = 255,
};

/* ---- the unit ---- */

static uint32_t size_of_text(const char *text)
{
    uint64_t size;
    return text && gt_text_to_unsigned(text, GT_GROUP_MAX, &size) ? (uint32_t)size : 0;
}

/* GPUs of what must lie in one supernode. */
static uint32_t unit_gpus(const struct gt_debug_view *view, const struct gt_cache_job *job)
{
    struct gt_job_texts texts;
    gt_debug_job_texts(view, job, &texts);
    bool whole = texts.of[GT_KEY_GROUP] && strcmp(texts.of[GT_KEY_GROUP], GT_GROUP_WHOLE) == 0;
    bool part = texts.of[GT_KEY_GROUP] && strcmp(texts.of[GT_KEY_GROUP], GT_GROUP_PART) == 0;
    uint32_t group = whole  ? gt_cache_job_gpus(job)
                     : part ? texts.subgroup
                            : size_of_text(texts.of[GT_KEY_GROUP]),
             atomic = size_of_text(texts.of[GT_KEY_ATOMIC]);
    return group && atomic ? atomic : group;
}

bool gt_unit_rooms_apply(const struct gt_debug_view *view, const struct gt_cache_pod *pod)
{
    uint32_t size = pod->state == GT_CACHE_GATED ? unit_gpus(view, pod->job) : 0;
    return size && pod->gpus && size % pod->gpus == 0;
}

/* ---- one supernode ---- */

/* A node of it, and which obstacle each of its GPUs is part of. */
struct unit_node {
    uint32_t id;
    const struct gt_class *class;
    uint8_t as_a_whole;     /* NOBODY: it can be used */
    uint8_t resources;      /* NOBODY: it has enough besides GPUs */
    uint32_t room, emptied; /* pods for which it has enough besides GPUs: now, and once others have left */
    uint8_t by[GT_GPUS_MAX];
};

struct unit_search {
    const struct gt_debug_view *view;
    struct gt_extender_pod pod;
    struct unit_node *nodes;
    uint32_t node_count;
    struct gt_obstacle obstacles[OBSTACLES_MAX];
    bool gone[OBSTACLES_MAX];
    unsigned count;
    uint32_t looks; /* so far */
};

static uint8_t obstacle_of(struct unit_search *search, const struct gt_obstacle *like)
{
    unsigned i = 0;
    while (i < search->count &&
           (search->obstacles[i].kind != like->kind || search->obstacles[i].job != like->job ||
            search->obstacles[i].refusal != like->refusal))
        i++;
    if (i == OBSTACLES_MAX)
        return NOBODY - 1;
    if (i == search->count)
        search->obstacles[search->count++] = *like;
    return (uint8_t)i;
}

static void add_amount(struct unit_search *search, uint8_t at, uint32_t gpus, uint32_t nodes)
{
    if (at >= search->count)
        return;
    search->obstacles[at].gpus += gpus;
    search->obstacles[at].nodes += nodes;
}

static bool is_about_gpus(enum gt_refusal refusal)
{
    return refusal == GT_REFUSED_TOO_FEW || refusal == GT_REFUSED_GPUS_RESERVED ||
           refusal == GT_REFUSED_NUMA || refusal == GT_REFUSED_SLOW || refusal == GT_REFUSED_RESOURCES ||
           refusal == GT_REFUSED_OFFERED;
}

static struct gt_obstacle obstacle_at(const struct gt_debug_view *view, uint32_t id,
                                      const struct gt_cluster_node *node, unsigned gpu)
{
    const struct gt_cache_pod *user = gt_cache_gpu_user(view->cache, id, gpu);
    return (struct gt_obstacle){.kind = user                          ? GT_OBSTACLE_JOB
                                        : !(node->healthy >> gpu & 1) ? GT_OBSTACLE_UNHEALTHY
                                        : node->free >> gpu & 1       ? GT_OBSTACLE_RESERVED
                                                                      : GT_OBSTACLE_UNKNOWN,
                                .job = user ? user->job : NULL};
}

static void unit_room_read_gpus(struct unit_search *search, const struct gt_cluster_node *node,
                                struct unit_node *to)
{
    uint64_t available = gt_node_available(gt_cache_cluster(search->view->cache), to->id, node);
    to->class = node->class;
    for (unsigned gpu = 0; gpu < gt_class_gpus(to->class); gpu++) {
        to->by[gpu] = NOBODY;
        if (available >> gpu & 1)
            continue;
        const struct gt_obstacle obstacle = obstacle_at(search->view, to->id, node, gpu);
        to->by[gpu] = obstacle_of(search, &obstacle);
        if (to->as_a_whole == NOBODY)
            add_amount(search, to->by[gpu], 1, 0);
    }
}

static bool is_gone(const struct unit_search *search, uint8_t obstacle)
{
    return obstacle == NOBODY || (obstacle < search->count && search->gone[obstacle]);
}

static uint64_t gpus_left(const struct unit_search *search, const struct unit_node *node)
{
    uint64_t gpus = 0;
    for (unsigned gpu = 0; gpu < gt_class_gpus(node->class); gpu++)
        gpus |= (uint64_t)is_gone(search, node->by[gpu]) << gpu;
    return gpus;
}

/* Pods for which it has GPUs. */
static uint32_t slots_left(const struct unit_search *search, const struct unit_node *node)
{
    return gt_numa_serves(node->class, gpus_left(search, node), gt_mix_numa_pod(&search->pod.asked));
}

static void unit_room_read_node(struct unit_search *search, uint32_t id, const struct gt_cluster_node *node)
{
    enum gt_refusal refusal;
    uint32_t slots = gt_node_slots(search->view, &search->pod, id, &refusal);
    const struct gt_cache_request *request = gt_cache_pod_request(search->pod.known);
    struct unit_node *to = &search->nodes[search->node_count++];
    *to = (struct unit_node){.id = id,
                             .as_a_whole = NOBODY,
                             .resources = NOBODY,
                             .room = gt_cache_room_for(search->view->cache, id, request, GT_CACHE_ROOM_NOW),
                             .emptied =
                                 gt_cache_room_for(search->view->cache, id, request, GT_CACHE_ROOM_EMPTIED)};
    if (!slots && !is_about_gpus(refusal))
        to->as_a_whole =
            obstacle_of(search, &(struct gt_obstacle){.kind = GT_OBSTACLE_NODES, .refusal = refusal});
    unit_room_read_gpus(search, node, to);
    uint32_t by_gpus = slots_left(search, to);
    if (to->as_a_whole != NOBODY)
        add_amount(search, to->as_a_whole, gt_bit_count(gpus_left(search, to)), 1);
    else if (by_gpus > slots && refusal != GT_REFUSED_NUMA) {
        to->resources = obstacle_of(search, &(struct gt_obstacle){.kind = GT_OBSTACLE_RESOURCES});
        add_amount(search, to->resources, (by_gpus - slots) * search->pod.gpus, 1);
    }
}

/* The pods that the supernode would hold without what is gone. */
static uint32_t slots_without(const struct unit_search *search)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < search->node_count; i++) {
        const struct unit_node *node = &search->nodes[i];
        uint32_t here = slots_left(search, node);
        if (!here || !is_gone(search, node->as_a_whole))
            continue;
        bool left = false; /* what they had besides GPUs is free, too */
        for (unsigned gpu = 0; gpu < gt_class_gpus(node->class); gpu++)
            left = left || (node->by[gpu] != NOBODY && is_gone(search, node->by[gpu]));
        uint32_t room = node->resources != NOBODY && is_gone(search, node->resources) ? here
                        : left                                                        ? node->emptied
                                                                                      : node->room;
        slots += here < room ? here : room;
    }
    return slots;
}

/* What time, or a person, can remove. */
static bool can_go(const struct unit_search *search, const struct gt_obstacle *obstacle)
{
    return (!obstacle->job || obstacle->job != search->pod.known->job) &&
           obstacle->kind != GT_OBSTACLE_UNKNOWN &&
           (obstacle->kind != GT_OBSTACLE_NODES || obstacle->refusal == GT_REFUSED_CORDONED ||
            obstacle->refusal == GT_REFUSED_NOT_READY || obstacle->refusal == GT_REFUSED_STALE ||
            obstacle->refusal == GT_REFUSED_OUTLIVED);
}

/* The next obstacle that goes: the smallest one that is enough, else the one that gives most. NOBODY: none.
 */
static unsigned next_to_go(struct unit_search *search, uint32_t wanted)
{
    unsigned enough = NOBODY, most = NOBODY;
    uint32_t most_slots = 0;
    for (unsigned i = 0; i < search->count; i++) {
        if (search->gone[i] || !can_go(search, &search->obstacles[i]))
            continue;
        search->gone[i] = true;
        uint32_t slots = slots_without(search);
        search->gone[i] = false;
        if (slots >= wanted &&
            (enough == NOBODY || search->obstacles[i].gpus < search->obstacles[enough].gpus))
            enough = i;
        if (most == NOBODY || slots > most_slots) {
            most = i;
            most_slots = slots;
        }
    }
    return enough != NOBODY ? enough : most;
}

/* What has to go so that it has `wanted` slots, in *ret; GPUs of all that, 0: it cannot. */
static uint32_t find_least(struct unit_search *search, uint32_t wanted, struct gt_obstacle *ret,
                           unsigned *ret_count)
{
    uint32_t gpus = 0;
    *ret_count = 0;
    while (*ret_count < GT_OBSTACLES) {
        search->looks += search->count * search->node_count;
        unsigned next = search->looks <= LOOKS_MAX ? next_to_go(search, wanted) : NOBODY;
        if (next == NOBODY)
            return 0;
        search->gone[next] = true;
        ret[(*ret_count)++] = search->obstacles[next];
        gpus += search->obstacles[next].gpus;
        if (slots_without(search) >= wanted)
            return gpus;
    }
    return 0;
}

static void keep_largest(const struct unit_search *search, struct gt_unit_room *to)
{
    for (unsigned i = 0; i < search->count; i++) {
        const struct gt_obstacle *obstacle = &search->obstacles[i];
        unsigned at = to->obstacle_count;
        if (!obstacle->gpus && !obstacle->nodes)
            continue;
        while (at > 0 && to->obstacles[at - 1].gpus < obstacle->gpus)
            at--;
        to->more += to->obstacle_count == GT_OBSTACLES;
        if (at == GT_OBSTACLES)
            continue;
        to->obstacle_count += to->obstacle_count < GT_OBSTACLES;
        memmove(&to->obstacles[at + 1], &to->obstacles[at],
                (to->obstacle_count - 1 - at) * sizeof(*to->obstacles));
        to->obstacles[at] = *obstacle;
    }
}

/* ---- all supernodes ---- */

static bool lacks_less(const struct gt_cluster *cluster, const struct gt_unit_room *a,
                       const struct gt_unit_room *b)
{
    struct gt_cluster_supernode x, y;
    if (a->lacks != b->lacks)
        return a->lacks < b->lacks;
    return gt_cluster_get_supernode(cluster, a->supernode, &x) &&
           gt_cluster_get_supernode(cluster, b->supernode, &y) && gt_natural_order(x.name, y.name) < 0;
}

static void keep_best(const struct gt_cluster *cluster, const struct gt_unit_room *room,
                      struct gt_unit_rooms *to)
{
    unsigned at = to->room_count;
    to->count++;
    while (at > 0 && lacks_less(cluster, room, &to->rooms[at - 1]))
        at--;
    if (at == GT_UNIT_ROOMS)
        return;
    to->room_count += to->room_count < GT_UNIT_ROOMS;
    memmove(&to->rooms[at + 1], &to->rooms[at], (to->room_count - 1 - at) * sizeof(*room));
    to->rooms[at] = *room;
}

static void unit_room_count_all(const struct gt_debug_view *view, const struct gt_extender_pod *pod,
                                struct gt_unit_room *rooms, struct gt_unit_rooms *ret)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node node;
    enum gt_refusal refusal;
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++) {
        if (!gt_cluster_get_node(cluster, id, &node))
            continue;
        rooms[node.supernode].nodes++;
        rooms[node.supernode].slots += gt_node_slots(view, pod, id, &refusal);
    }
    for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++) {
        if (!rooms[s].nodes)
            continue;
        rooms[s].supernode = s;
        rooms[s].units = rooms[s].slots / ret->pods;
        rooms[s].lacks = (ret->pods - rooms[s].slots % ret->pods) * pod->gpus;
        keep_best(cluster, &rooms[s], ret);
    }
}

static void look_into(struct unit_search *search, struct gt_unit_room *room)
{
    const struct gt_cluster *cluster = gt_cache_cluster(search->view->cache);
    struct gt_cluster_node node;
    search->node_count = search->count = 0;
    memset(search->gone, 0, sizeof(search->gone));
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node) && node.supernode == room->supernode)
            unit_room_read_node(search, id, &node);
    keep_largest(search, room);
}

int gt_unit_rooms_find(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                       struct gt_unit_rooms *ret, struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_free struct gt_unit_room *rooms =
        calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*rooms));
    gt_auto_free struct unit_node *nodes = calloc((size_t)gt_cluster_nodes(cluster) + 1, sizeof(*nodes));
    struct unit_search search = {.view = view, .pod = gt_debug_extender_pod(view, pod), .nodes = nodes};
    uint32_t least = UINT32_MAX;
    GT_NEED(rooms && nodes, err, "explanation");
    *ret = (struct gt_unit_rooms){.gpus = pod->gpus, .least_supernode = GT_NONE};
    ret->pods = unit_gpus(view, pod->job) / pod->gpus;
    unit_room_count_all(view, &search.pod, rooms, ret);
    for (unsigned i = 0; i < ret->room_count; i++) {
        struct gt_unit_room *room = &ret->rooms[i];
        struct gt_obstacle found[GT_OBSTACLES];
        unsigned count;
        look_into(&search, room);
        uint32_t gpus =
            i < LEAST_SEARCHED ? find_least(&search, (room->units + 1) * ret->pods, found, &count) : 0;
        if (!gpus || gpus >= least)
            continue;
        least = gpus;
        ret->least_supernode = room->supernode;
        ret->least_count = count;
        memcpy(ret->least, found, sizeof(found));
    }
    return 0;
}
