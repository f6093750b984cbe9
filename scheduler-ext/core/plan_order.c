/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/core/plan_work.h"

/* In which order a job's units with atoms, and the atoms of each, get the places that were chosen. And units
 * smaller than a node. */

enum { ORDER_ATOMS_MAX = 256, ORDER_STEPS = 1 << 20 };

/* The units of one kind. Atoms are numbered unit by unit, as they were placed. */
struct atom_order {
    struct job *job;
    const struct gt_plan_unit *kind;
    uint32_t count, atoms;            /* units, and atoms of each */
    uint32_t unit[ORDER_ATOMS_MAX];   /* [nth of the kind] its number in the job */
    uint32_t super[ORDER_ATOMS_MAX];  /* [atom] */
    uint32_t wanted[ORDER_ATOMS_MAX]; /* [atom] the least distance to an atom of another unit to come */
    uint32_t next[ORDER_ATOMS_MAX];   /* [place in rank order] an atom */
    bool used[ORDER_ATOMS_MAX];       /* [atom] */
    uint32_t steps;                   /* so many are left */
};

/* The tier of the lowest supernode that contains both. */
static uint32_t order_distance(struct atom_order *order, uint32_t from, uint32_t to)
{
    const struct gt_cluster *cluster = order->job->cluster;
    order->steps -= order->steps > 0;
    while (from != GT_NONE && !gt_core_is_below(cluster, to, from))
        from = cluster->supers[from].parent;
    return from == GT_NONE ? GT_TIERS_MAX + 1 : cluster->supers[from].tier;
}

/* How often the job comes back to a domain that it has left. */
static uint32_t order_returns(const struct atom_order *order, const uint32_t *next)
{
    struct gt_cluster *cluster = order->job->cluster;
    uint32_t returns = 0, stamp = gt_core_stamp(cluster), last = GT_NONE;
    for (uint32_t i = 0; i < order->count * order->atoms; i++) {
        uint32_t super = order->super[next ? next[i] : i];
        for (uint32_t s = super; s != GT_NONE; s = cluster->supers[s].parent) {
            returns += cluster->mark[s] == stamp && !gt_core_is_below(cluster, last, s);
            cluster->mark[s] = stamp;
        }
        last = super;
    }
    return returns;
}

/* How near to each atom of a unit the other units lie that are still to come. */
static void order_want(struct atom_order *order, uint32_t unit)
{
    for (uint32_t a = unit * order->atoms; a < (unit + 1) * order->atoms; a++) {
        order->wanted[a] = GT_TIERS_MAX + 1;
        for (uint32_t b = 0; b < order->count * order->atoms; b++) {
            uint32_t distance = order->used[b] || b / order->atoms == unit
                                    ? GT_TIERS_MAX + 1
                                    : order_distance(order, order->super[a], order->super[b]);
            order->wanted[a] = distance < order->wanted[a] ? distance : order->wanted[a];
        }
    }
}

/* The next atom of a unit: the nearest one, of several that which no other unit needs as much. */
static uint32_t order_atom(struct atom_order *order, uint32_t unit, uint32_t from)
{
    uint32_t best = GT_NONE, best_key = UINT32_MAX;
    for (uint32_t a = unit * order->atoms; a < (unit + 1) * order->atoms; a++) {
        uint32_t distance = from == GT_NONE ? 0 : order_distance(order, from, order->super[a]);
        uint32_t key = distance * (GT_TIERS_MAX + 2) + GT_TIERS_MAX + 1 - order->wanted[a];
        if (order->used[a] || key >= best_key)
            continue;
        best = a;
        best_key = key;
    }
    return best;
}

/* The next unit: the nearest one, of several that which leads away least. */
static uint32_t order_unit(struct atom_order *order, uint32_t from)
{
    uint32_t best = GT_NONE, best_key = UINT32_MAX;
    for (uint32_t u = 0; u < order->count; u++) {
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t a = u * order->atoms; !order->used[u * order->atoms] && a < (u + 1) * order->atoms;
             a++) {
            uint32_t distance = order_distance(order, from, order->super[a]);
            least = distance < least ? distance : least;
            most = distance > most ? distance : most;
        }
        uint32_t key = least * (GT_TIERS_MAX + 2) + most;
        if (least == UINT32_MAX || key >= best_key)
            continue;
        best = u;
        best_key = key;
    }
    return best;
}

/* An order that begins with this unit. */
static void order_from(struct atom_order *order, uint32_t unit)
{
    uint32_t at = 0, last = GT_NONE;
    memset(order->used, 0, sizeof(order->used));
    for (; unit != GT_NONE; unit = order_unit(order, last)) {
        order_want(order, unit);
        for (uint32_t i = 0; i < order->atoms; i++) {
            uint32_t atom = order_atom(order, unit, last);
            order->used[atom] = true;
            order->next[at++] = atom;
            last = order->super[atom];
        }
    }
}

/* Gives the places in the order `next`; what was said of a unit goes with its place. */
static void order_apply(const struct atom_order *order, const uint32_t *next)
{
    struct job *job = order->job;
    uint32_t size = gt_unit_run(order->kind), units = order->count;
    struct gt_plan_pod *pods = gt_close_memory(
        job->cluster, 0, job->pod_count * sizeof(*pods) + job->unit_count * sizeof(struct gt_plan_unit));
    uint32_t now[ORDER_ATOMS_MAX]; /* [unit as placed] its number in the job */
    if (!pods)
        return;
    struct gt_plan_unit *said = (struct gt_plan_unit *)(pods + job->pod_count);
    memcpy(pods, job->pods, job->pod_count * sizeof(*pods));
    memcpy(said, job->units, job->unit_count * sizeof(*said));
    for (uint32_t u = 0; u < units; u++)
        now[next[u * order->atoms] / order->atoms] = order->unit[u];
    for (uint32_t u = 0; u < units; u++) {
        struct gt_plan_unit *unit = &job->units[order->unit[u]];
        const struct gt_plan_unit own = *unit;
        uint32_t from = next[u * order->atoms] / order->atoms, with;
        *unit = said[order->unit[from]];
        unit->first = own.first;
        unit->atom = own.atom;
        unit->within = own.within;
        for (with = 0; with < units && order->unit[with] != unit->with; with++)
            ;
        unit->with = with < units ? now[with] : unit->with;
        for (uint32_t i = 0; i < unit->pods; i++) {
            uint32_t atom = next[u * order->atoms + i / size];
            uint32_t place =
                said[order->unit[atom / order->atoms]].first + atom % order->atoms * size + i % size;
            job->pods[own.first + i].place = pods[place].place;
            job->pods[own.first + i].gpus = pods[place].gpus;
        }
    }
}

static void order_kind(struct job *job, const struct gt_plan_unit *kind)
{
    struct atom_order order = {.job = job, .kind = kind, .steps = ORDER_STEPS};
    uint32_t best[ORDER_ATOMS_MAX], size = gt_unit_run(kind);
    order.atoms = kind->pods / size;
    for (uint32_t u = (uint32_t)(kind - job->units); u < job->unit_count; u++) {
        if (!gt_unit_is_kind(&job->units[u], kind))
            continue;
        if (order.atoms > ORDER_ATOMS_MAX - order.count * order.atoms)
            return;
        for (uint32_t a = 0; a < order.atoms; a++)
            order.super[order.count * order.atoms + a] = gt_pod_super(job, job->units[u].first + a * size);
        order.unit[order.count++] = u;
    }
    uint32_t before = order_returns(&order, NULL), least = before;
    for (uint32_t start = 0; start < order.count && least && order.steps; start++) {
        order_from(&order, start);
        uint32_t returns = order_returns(&order, order.next);
        if (returns >= least)
            continue;
        least = returns;
        memcpy(best, order.next, sizeof(best));
    }
    if (least < before)
        order_apply(&order, best);
}

/* Whole units of a node and more are in order already; smaller ones stay as the rule took them where nothing
 * lies above supernodes. */
static bool order_may_help(const struct job *job, const struct gt_plan_unit *kind)
{
    bool helps = gt_unit_run(kind) < kind->pods;
    for (uint64_t n = (uint64_t)kind->pods * kind->gpus + 1; n <= GT_GPUS_MAX && job->close && !helps; n++)
        helps = job->cluster->nodes_of[n] > 0;
    return helps;
}

void gt_plan_order(struct job *job)
{
    for (uint32_t u = 0; u < job->unit_count && job->unit_count <= ORDER_ATOMS_MAX && !job->any_running;
         u++) {
        const struct gt_plan_unit *kind = &job->units[u];
        uint32_t first = 0;
        while (!gt_unit_is_kind(&job->units[first], kind))
            first++;
        if (first == u && order_may_help(job, kind))
            order_kind(job, kind);
    }
}
