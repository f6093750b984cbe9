/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/core/plan_work.h"

/* Soft units: their atoms lie as close together as possible, but need not be in one supernode. */

static uint32_t atoms_left(const struct job *job, const struct gt_plan_unit *unit)
{
    uint32_t left = 0, atom = gt_unit_run(unit);
    for (uint32_t run = 0; run < unit->pods; run += atom)
        left += !gt_run_is_placed(job, unit->first + run, atom);
    return left;
}

static bool place_atoms(struct job *job, const struct gt_plan_unit *unit, uint32_t super, uint32_t atoms,
                        uint32_t *run)
{
    uint32_t atom = gt_unit_run(unit);
    for (; atoms; *run += atom) {
        if (gt_run_is_placed(job, unit->first + *run, atom))
            continue;
        if (!gt_place_in_super(job, super, unit->gpus, unit->first + *run, atom))
            return false;
        atoms--;
    }
    return true;
}

/* Places the rest of a unit in the supernode where all its running pods lie; false: there is none, or no
 * room. */
static bool plan_soft_complete(struct job *job, const struct gt_plan_unit *unit, uint32_t left,
                               const struct room *room)
{
    uint32_t super, run = 0;
    return gt_unit_mark_supernodes(job, unit, &super) == 1 &&
           room->slots[super] / gt_unit_run(unit) >= left && place_atoms(job, unit, super, left, &run);
}

void gt_complete_started(struct job *job, const struct gt_plan_unit *kind, const struct room *room)
{
    /* Completing a unit costs its supernode at most the room of one whole unit, and saves one unit from being
     * split: so as many as possible are completed. */
    for (uint32_t done = 0, next; job->any_running; done = next) {
        next = UINT32_MAX;
        for (uint32_t u = (uint32_t)(kind - job->units); u < job->unit_count; u++) {
            const struct gt_plan_unit *unit = &job->units[u];
            if (!gt_unit_is_kind(unit, kind) || !gt_run_has_started(job, unit->first, unit->pods))
                continue;
            uint32_t left = atoms_left(job, unit);
            if (left > done && left < next)
                next = left;
        }
        if (next == UINT32_MAX)
            return;
        for (uint32_t u = (uint32_t)(kind - job->units); u < job->unit_count; u++) {
            const struct gt_plan_unit *unit = &job->units[u];
            if (gt_unit_is_kind(unit, kind) && gt_run_has_started(job, unit->first, unit->pods) &&
                atoms_left(job, unit) == next)
                plan_soft_complete(job, unit, next, room);
        }
    }
}

/* ---- a unit over several supernodes ---- */

/* The state for spreading `left` atoms of `atom` slots; the arrays are scratch of the cluster. */
struct spread {
    const struct room *room;
    const struct gt_cluster *cluster;
    uint32_t atom, left;
    uint32_t *own;    /* [supernode] atoms that fit on its own nodes */
    uint32_t *below;  /* [supernode] with all below */
    uint32_t *total;  /* [supernode] slots, with all below */
    uint32_t *order;  /* supernodes that hold an atom, most first, then by id */
    uint32_t *taken;  /* [supernode] atoms, for the choice of a domain */
    uint32_t *needed; /* [supernode] supernodes that the atoms would touch in it */
    uint32_t count;   /* of order */
    uint64_t all;     /* atoms that the cluster holds */
};

static void count_atoms(struct spread *spread)
{
    const struct room *room = spread->room;
    memset(spread->below, 0, room->count * sizeof(*spread->below));
    memset(spread->total, 0, room->count * sizeof(*spread->total));
    for (uint32_t s = 0; s < room->count; s++) {
        uint32_t slots = room->slots[s], own = slots >= spread->atom ? slots / spread->atom : 0;
        spread->own[s] = own;
        spread->all += own;
        if (own)
            spread->order[spread->count++] = s;
        for (uint32_t above = slots ? s : GT_NONE; above != GT_NONE;
             above = spread->cluster->supers[above].parent) {
            spread->below[above] += own;
            spread->total[above] += slots;
        }
    }
}

/* Most atoms first; more than needed counts as just enough. A stable radix sort, lowest digit first. */
static void sort_by_atoms(struct spread *spread)
{
    enum { BITS = 9, DIGITS = 1 << BITS };
    for (unsigned shift = 0; shift == 0 || spread->left >> shift; shift += BITS) {
        uint32_t start[DIGITS] = {0}, at = 0, *to = spread->taken;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t i = 0; i < spread->count; i++) {
                uint32_t s = spread->order[i];
                uint32_t missing = spread->own[s] < spread->left ? spread->left - spread->own[s] : 0;
                uint32_t digit = missing >> shift & (DIGITS - 1);
                if (pass == 0)
                    start[digit]++;
                else
                    to[start[digit]++] = s;
            }
            for (unsigned d = 0; d < DIGITS && pass == 0; d++) {
                uint32_t size = start[d];
                start[d] = at;
                at += size;
            }
        }
        spread->taken = spread->order;
        spread->order = to;
    }
}

/* The lowest tier with a supernode that holds all atoms; GT_TIERS_MAX + 1: only the whole cluster does. */
static unsigned lowest_tier(const struct spread *spread)
{
    unsigned lowest = GT_TIERS_MAX + 1;
    for (uint32_t s = 0; s < spread->room->count; s++)
        if (spread->below[s] >= spread->left && spread->cluster->supers[s].tier < lowest)
            lowest = spread->cluster->supers[s].tier;
    return lowest;
}

/* What a supernode holds of the units to come, where these lie whole in domains of one tier. */
struct domain_share {
    uint32_t units;
    uint32_t domains; /* the fewest in it that hold all of them, or all that it holds */
};

/* What a domain means for the unit, the first member first; less is better. */
struct domain_choice {
    uint32_t needed;  /* tier-1 supernodes that it touches there */
    uint32_t near;    /* the tier at which the job is there already */
    uint32_t reach;   /* the lowest tier at which this domain, or the one above it, holds all units to come */
    uint32_t domains; /* in as many */
    uint32_t missing; /* of these units, where the domain alone holds too few */
    uint32_t total;   /* slots */
};

static bool domain_is_better(const struct domain_choice *a, const struct domain_choice *b)
{
    if (a->needed != b->needed)
        return a->needed < b->needed;
    if (a->near != b->near)
        return a->near < b->near;
    if (a->reach != b->reach)
        return a->reach < b->reach;
    if (a->domains != b->domains)
        return a->domains < b->domains;
    return a->missing != b->missing ? a->missing < b->missing : a->total < b->total;
}

static int domain_compare(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? 1 : *a > *b ? -1 : 0;
}

/* [supernode]; NULL: one unit alone has nothing to wait for, or there is no memory. */
static struct domain_share *domain_shares(const struct job *job, const struct spread *spread, unsigned tier,
                                          uint32_t units)
{
    const struct super *supers = spread->cluster->supers;
    uint32_t count = spread->room->count, listed = 0;
    uint64_t *list =
        job->close && units > 1
            ? gt_close_memory(job->cluster, 1, count * (sizeof(*list) + sizeof(struct domain_share)))
            : NULL;
    if (!list)
        return NULL;
    struct domain_share *shares = (struct domain_share *)(list + count);
    memset(shares, 0, count * sizeof(*shares));
    for (uint32_t s = 0; s < count; s++)
        if (supers[s].tier == tier && spread->below[s] >= spread->left)
            list[listed++] = (uint64_t)(spread->below[s] / spread->left) << 32 | s;
    qsort(list, listed, sizeof(*list), domain_compare); /* the fewest are those that hold most */
    for (uint32_t i = 0; i < listed; i++) {
        uint32_t fitting = (uint32_t)(list[i] >> 32);
        for (uint32_t above = (uint32_t)list[i]; above != GT_NONE; above = supers[above].parent) {
            shares[above].domains += shares[above].units < units;
            shares[above].units += fitting;
        }
    }
    return shares;
}

static struct domain_choice domain_judge(const struct job *job, const struct spread *spread, uint32_t domain,
                                         const struct domain_share *shares, uint32_t units)
{
    const struct gt_cluster *cluster = spread->cluster;
    struct domain_choice choice = {.needed = spread->needed[domain], .total = spread->total[domain]};
    uint32_t near = job->close && job->any_touched ? domain : GT_NONE, reach = domain;
    while (near != GT_NONE && cluster->touched[near] != job->touch)
        near = cluster->supers[near].parent;
    choice.near = near == GT_NONE ? GT_TIERS_MAX + 1 : cluster->supers[near].tier;
    if (!shares)
        return choice;
    while (reach != GT_NONE && shares[reach].units < units)
        reach = cluster->supers[reach].parent;
    choice.reach = reach == GT_NONE ? GT_TIERS_MAX + 1 : cluster->supers[reach].tier;
    choice.domains = reach == GT_NONE ? 0 : shares[reach].domains;
    choice.missing = reach == domain ? 0 : units - shares[domain].units;
    return choice;
}

/* A supernode of the lowest tier that holds all atoms. `units`: of this kind have no place yet; they follow
 * into as few domains as possible. GT_NONE: only the whole cluster holds the atoms. */
static uint32_t choose_domain(const struct job *job, struct spread *spread, uint32_t units)
{
    const struct super *supers = spread->cluster->supers;
    unsigned tier = lowest_tier(spread);
    if (tier > GT_TIERS_MAX)
        return GT_NONE;
    memset(spread->taken, 0, spread->room->count * sizeof(*spread->taken));
    memset(spread->needed, 0, spread->room->count * sizeof(*spread->needed));
    for (uint32_t i = 0; i < spread->count; i++) {
        uint32_t above = spread->order[i], own = spread->own[above];
        while (above != GT_NONE && supers[above].tier < tier)
            above = supers[above].parent;
        if (above == GT_NONE || supers[above].tier != tier || spread->taken[above] >= spread->left)
            continue;
        spread->taken[above] += own < spread->left ? own : spread->left;
        spread->needed[above]++;
    }
    const struct domain_share *shares = domain_shares(job, spread, tier, units);
    uint32_t best = GT_NONE;
    struct domain_choice best_choice = {0};
    for (uint32_t s = 0; s < spread->room->count; s++) {
        if (supers[s].tier != tier || spread->below[s] < spread->left)
            continue;
        struct domain_choice choice = domain_judge(job, spread, s, shares, units);
        if (best == GT_NONE || domain_is_better(&choice, &best_choice)) {
            best = s;
            best_choice = choice;
        }
    }
    return best;
}

/* The fewest supernodes that the unit can touch, of any tier; it is in `places` marked ones already. */
static uint32_t fewest(const struct spread *spread, uint32_t places)
{
    const uint32_t *mark = spread->cluster->mark, stamp = spread->cluster->stamp;
    uint64_t got = 0;
    for (uint32_t i = 0; i < spread->count && places; i++)
        got += mark[spread->order[i]] == stamp ? spread->own[spread->order[i]] : 0;
    for (uint32_t i = 0; i < spread->count && got < spread->left; i++) {
        if (mark[spread->order[i]] == stamp)
            continue;
        got += spread->own[spread->order[i]];
        places++;
    }
    return places;
}

/* The supernode for the last atoms: by the min-loss rule among those of the domain (and with the mark, or
 * without) that hold them. */
static uint32_t choose_last(const struct spread *spread, uint32_t domain, bool marked, uint32_t left)
{
    const struct gt_cluster *cluster = spread->cluster;
    struct rule rule;
    uint32_t best = GT_NONE, best_key = UINT32_MAX;
    gt_rule_make(cluster, left * spread->atom, spread->room->gpus, &rule);
    for (uint32_t s = 0; s < spread->room->count; s++) {
        if (spread->own[s] < left || (cluster->mark[s] == cluster->stamp) != marked)
            continue;
        uint32_t key = gt_rule_key(&rule, spread->room->slots[s]);
        if (key < best_key && gt_core_is_below(cluster, s, domain)) {
            best = s;
            best_key = key;
        }
    }
    return best;
}

/* Chooses the marked, or the unmarked, supernodes of the domain: those with most atoms first, until one holds
 * all that are left. Returns the number of places. */
static uint32_t choose_over(struct job *job, struct spread *spread, uint32_t domain, bool marked,
                            uint32_t *left, struct gt_close_place *places)
{
    uint32_t count = 0;
    const struct gt_cluster *cluster = job->cluster;
    for (uint32_t i = 0; i < spread->count && *left; i++) {
        uint32_t super = spread->order[i], own = spread->own[super];
        if ((cluster->mark[super] == cluster->stamp) != marked || !gt_core_is_below(cluster, super, domain))
            continue;
        if (own >= *left) {
            super = choose_last(spread, domain, marked, *left);
            own = *left;
        }
        places[count++] = (struct gt_close_place){.from = super, .to = super, .load = own};
        spread->own[super] -= own;
        *left -= own;
    }
    return count;
}

/* The units of the kind that have no place yet, this one among them. */
static uint32_t units_left(const struct job *job, const struct gt_plan_unit *unit)
{
    uint32_t count = 0;
    for (const struct gt_plan_unit *other = unit; other < job->units + job->unit_count; other++)
        count += gt_unit_is_kind(other, unit) && !gt_run_is_placed(job, other->first, other->pods);
    return count;
}

bool gt_place_split(struct job *job, struct gt_plan_unit *unit, const struct room *room)
{
    uint32_t *scratch = job->cluster->scratch, capacity = job->cluster->super_capacity;
    if (!capacity) /* a cluster that never had a node: there is no scratch */
        return atoms_left(job, unit) == 0;
    struct spread spread = {
        .room = room,
        .cluster = job->cluster,
        .atom = gt_unit_run(unit),
        .left = atoms_left(job, unit),
        .own = scratch,
        .below = scratch + capacity,
        .order = scratch + 2 * (size_t)capacity,
        .taken = scratch + 3 * (size_t)capacity,
        .needed = scratch + 4 * (size_t)capacity,
        .total = scratch + 5 * (size_t)capacity,
    };
    uint32_t domain, run = 0, left = spread.left, count;
    count_atoms(&spread);
    struct gt_close_place *chosen = gt_close_places(job->cluster, left);
    if (spread.all < left || !chosen)
        return false;
    sort_by_atoms(&spread);
    uint32_t places = gt_unit_mark_supernodes(job, unit, &domain), units = units_left(job, unit);
    bool alone = units == 1 && !job->any_touched && !unit->within;
    if (!places)
        domain = choose_domain(job, &spread, units);
    while (domain != GT_NONE && spread.below[domain] < left)
        domain = job->cluster->supers[domain].parent;
    if (unit->within && (domain == GT_NONE || job->cluster->supers[domain].tier > unit->within))
        return false;
    if (!job->close && !unit->within && domain != GT_NONE && job->cluster->supers[domain].tier > 1)
        domain = GT_NONE;
    unit->started = places > 0;
    unit->feasible = spread.count;
    unit->fewest = fewest(&spread, places);
    uint32_t started = choose_over(job, &spread, domain, true, &left, chosen);
    count = started + choose_over(job, &spread, domain, false, &left, chosen + started);
    if (left)
        return false;
    unit->slots_before = room->slots[chosen->from];
    for (uint32_t i = 0; i < started; i++) /* before the others are chosen: it has no room for them */
        if (!place_atoms(job, unit, chosen[i].to, chosen[i].load, &run))
            return false;
    if (job->close) {
        unit->supernode = alone ? GT_NONE : domain;
        gt_close_choose(job, room, chosen + started, count - started, unit);
        unit->supernode = GT_NONE;
    }
    for (uint32_t i = started; i < count; i++)
        if (!place_atoms(job, unit, chosen[i].to, chosen[i].load, &run))
            return false;
    return true;
}
