/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/core/plan_work.h"

/* The choice among supernodes of equal kinds: first what needs no search, then by tables for the rest. */

/* ---- memory ---- */

struct gt_close_place *gt_close_places(struct gt_cluster *cluster, uint32_t count)
{
    return gt_close_memory(cluster, 0, count * sizeof(struct gt_close_place));
}

uint32_t gt_close_next_touch(struct gt_cluster *cluster)
{
    if (++cluster->touch == 0) {
        memset(cluster->touched, 0, cluster->super_capacity * sizeof(*cluster->touched));
        memset(cluster->touched_unit, 0, cluster->super_capacity * sizeof(*cluster->touched_unit));
        cluster->touch = 1;
    }
    return cluster->touch;
}

static void close_touch_unit(struct job *job, uint32_t super)
{
    struct gt_cluster *cluster = job->cluster;
    for (; super != GT_NONE && cluster->touched_unit[super] != job->touch_unit;
         super = cluster->supers[super].parent) {
        cluster->touched_unit[super] = job->touch_unit;
        job->any_touched_unit = true;
    }
}

enum {
    CLOSE_LEAVES_TRIED = 4, /* before all are counted at once */
};

/* The domain in which a supernode lies directly; one outside of tier 2 is a domain by itself. */
static uint32_t close_home(const struct close_search *search, uint32_t super)
{
    const struct super *supers = search->job->cluster->supers;
    uint32_t parent = supers[super].parent;
    return parent != GT_NONE && supers[parent].tier == 2 ? parent : super;
}

static unsigned close_kind_of(const struct close_search *search, uint32_t super)
{
    unsigned k = 0;
    while (k < search->kind_count && (search->room->slots[super] != search->kinds[k].slots ||
                                      search->room->whole[super] != search->kinds[k].whole))
        k++;
    return k;
}

static bool close_is_touched(const struct close_search *search, uint32_t super)
{
    const struct gt_cluster *cluster = search->job->cluster;
    return cluster->touched[super] == search->job->touch &&
           (!search->unit || cluster->touched_unit[super] == search->job->touch_unit);
}

static void close_touch(const struct close_search *search, uint32_t super)
{
    gt_run_touch(search->job, super);
    if (search->unit)
        close_touch_unit(search->job, super);
}

/* The kinds of the places that have no supernode yet, at most CLOSE_KINDS; returns how many places these
 * are. */
static uint32_t close_take_kinds(struct close_search *search, const struct gt_close_place *places,
                                 uint32_t count)
{
    uint32_t wanted = 0;
    search->kind_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        unsigned k = places[i].to == GT_NONE ? close_kind_of(search, places[i].from) : CLOSE_KINDS;
        if (k == CLOSE_KINDS)
            continue;
        if (k == search->kind_count)
            search->kinds[search->kind_count++] = (struct close_kind){
                search->room->slots[places[i].from], search->room->whole[places[i].from], 0, 0, 0};
        search->kinds[k].want++;
        wanted++;
    }
    return wanted;
}

/* Lists the supernodes of these kinds. The loop has no branch: a guess for each supernode would often be
 * wrong. */
static void close_list(struct close_search *search)
{
    const uint32_t *slots = search->room->slots;
    uint64_t sizes = 0; /* bit n: a kind has n slots, modulo 64 */
    for (unsigned k = 0; k < search->kind_count; k++)
        sizes |= UINT64_C(1) << search->kinds[k].slots % 64;
    uint32_t listed = 0, end = search->room->count, *list = search->list;
#pragma GCC unroll 8
    for (uint32_t s = 0; s < end; s++) {
        list[listed] = s;
        listed += sizes >> slots[s] % 64 & 1;
    }
    search->listed = 0;
    uint32_t bound = search->unit ? search->unit->supernode : GT_NONE;
    for (uint32_t i = 0; i < listed; i++) {
        unsigned k = close_kind_of(search, list[i]);
        if (k == search->kind_count || !gt_core_is_below(search->job->cluster, list[i], bound))
            continue;
        search->kinds[k].there++;
        search->home[search->listed] = close_home(search, list[i]);
        list[search->listed++] = list[i];
    }
}

/* Gives a supernode to the next place of its kind. `at`: [kind] where to look for that place. */
static void close_give(struct close_search *search, struct gt_close_place *places, uint32_t at[CLOSE_KINDS],
                       unsigned k, uint32_t super)
{
    while (places[at[k]].to != GT_NONE || close_kind_of(search, places[at[k]].from) != k)
        at[k]++;
    places[at[k]].to = super;
    close_touch(search, super);
}

/* Gives the listed supernodes that have pods of the job, or (`near`) lie in a domain that has some. */
static void close_take_touched(struct close_search *search, struct gt_close_place *places, bool near)
{
    uint32_t at[CLOSE_KINDS] = {0}, listed = 0;
    for (uint32_t i = 0; i < search->listed; i++) {
        uint32_t s = search->list[i], home = search->home[i];
        unsigned k = close_kind_of(search, s);
        if (!search->kinds[k].want)
            continue;
        if (close_is_touched(search, near ? home : s)) {
            close_give(search, places, at, k, s);
            search->kinds[k].want--;
            continue;
        }
        search->home[listed] = home;
        search->list[listed++] = s;
    }
    search->listed = listed;
}

/* The domain above a home that counts at this tier. */
static uint32_t close_at_tier(const struct close_search *search, uint32_t home, unsigned tier)
{
    const struct super *supers = search->job->cluster->supers;
    while (supers[home].parent != GT_NONE && supers[supers[home].parent].tier <= tier)
        home = supers[home].parent;
    return home;
}

/* Keeps only supernodes in domains where the job is, of the lowest tier at which these hold all that is
 * wanted: others would cost more at that tier. */
static void close_stay_near(struct close_search *search)
{
    for (unsigned tier = 3; tier <= search->tiers; tier++) {
        uint32_t there[CLOSE_KINDS + 1] = {0}, listed = 0;
        for (uint32_t i = 0; i < search->listed; i++)
            if (close_is_touched(search, close_at_tier(search, search->home[i], tier)))
                there[close_kind_of(search, search->list[i])]++;
        unsigned k = 0;
        while (k < search->kind_count && there[k] >= search->kinds[k].want)
            k++;
        if (k < search->kind_count)
            continue;
        for (uint32_t i = 0; i < search->listed; i++)
            if (close_is_touched(search, close_at_tier(search, search->home[i], tier))) {
                search->home[listed] = search->home[i];
                search->list[listed++] = search->list[i];
            }
        search->listed = listed;
        return;
    }
}

/* Before others are searched for: kinds of which all supernodes are wanted, which leave no choice, then
 * supernodes in domains that cost nothing. */
static void close_take_sure(struct close_search *search, struct gt_close_place *places, uint32_t count)
{
    struct close_kind *kinds = search->kinds;
    unsigned left = 0;
    for (uint32_t i = 0; i < count; i++) {
        unsigned k = places[i].to == GT_NONE ? close_kind_of(search, places[i].from) : search->kind_count;
        if (k == search->kind_count || kinds[k].there > kinds[k].want)
            continue;
        kinds[k].there--;
        kinds[k].want--;
        places[i].to = places[i].from;
        close_touch(search, places[i].to);
    }
    if (search->job->any_running)
        close_take_touched(search, places, false);
    if (search->job->any_touched)
        close_take_touched(search, places, true);
    for (unsigned k = 0; k < search->kind_count; k++)
        if (kinds[k].want)
            kinds[left++] = kinds[k];
    search->kind_count = left;
    if (search->job->any_touched && left)
        close_stay_near(search);
}

static void close_collect(struct close_search *search)
{
    search->count = 0;
    search->stamp = gt_core_stamp(search->job->cluster);
    for (uint32_t i = 0; i < search->listed; i++) {
        uint32_t s = search->list[i];
        unsigned k = close_kind_of(search, s);
        if (k < search->kind_count)
            search->domains[gt_close_domain(search, search->home[i])].own[k]++;
    }
}

/* The highest domain above a leaf up to this tier; GT_NONE: there is none. */
static uint32_t close_above(const struct super *supers, uint32_t leaf, unsigned tier)
{
    uint32_t found = GT_NONE;
    for (uint32_t s = supers[leaf].parent; s != GT_NONE && supers[s].tier <= tier; s = supers[s].parent)
        found = s;
    return found;
}

/* Of two leaves that hold the whole job: the one in the domains that were added first, the highest tier
 * first, and there the one with fewer GPUs available. So the later domains stay free for jobs that need
 * several leaves. */
static bool close_is_before(const struct close_search *search, uint32_t a, uint32_t b)
{
    const struct super *supers = search->job->cluster->supers;
    for (unsigned tier = search->tiers; tier > 2 && supers[a].parent != supers[b].parent; tier--) {
        uint32_t x = close_above(supers, a, tier), y = close_above(supers, b, tier);
        if (x != y)
            return x < y;
    }
    return search->total[a] < search->total[b];
}

/* One domain of the lowest tier that holds everything. No choice touches less than one such domain, so
 * nothing is better where the job has no pods yet, or has some in all that lies above it. UINT32_MAX: there
 * is none. */
static uint32_t close_single(const struct close_search *search)
{
    const struct super *supers = search->job->cluster->supers;
    uint32_t best = UINT32_MAX;
    struct close_cost least = {UINT64_MAX, UINT64_MAX};
    bool any = search->unit ? search->job->any_touched_unit : search->job->any_touched;
    for (uint32_t d = 0; d < search->count; d++) {
        uint32_t super = search->domains[d].super;
        unsigned k = 0;
        while (k < search->kind_count && search->domains[d].own[k] >= search->kinds[k].want)
            k++;
        if (k < search->kind_count)
            continue;
        struct close_cost cost = {0, 0};
        for (uint32_t above = super; any && above != GT_NONE; above = supers[above].parent)
            cost = gt_close_sum(cost, gt_close_cost(search, above));
        bool before = any ? gt_close_is_less(cost, least)
                          : best == UINT32_MAX || close_is_before(search, super, search->domains[best].super);
        if (before) {
            least = cost;
            best = d;
        }
    }
    return !any || least.domains == 1 ? best : UINT32_MAX;
}

/* Gives the chosen supernodes, the lowest ids of each domain, to places of their kinds. */
static void close_hand_out(struct close_search *search, struct gt_close_place *places)
{
    uint32_t at[CLOSE_KINDS] = {0}, left = 0;
    for (unsigned k = 0; k < search->kind_count; k++)
        left += search->kinds[k].want;
    for (uint32_t i = 0; i < search->listed && left; i++) {
        uint32_t s = search->list[i];
        unsigned k = close_kind_of(search, s);
        if (k == search->kind_count)
            continue;
        struct close_domain *home = &search->domains[search->index[search->home[i]]];
        if (!gt_close_digit(&search->kinds[k], home->need))
            continue;
        home->need -= search->kinds[k].stride;
        close_give(search, places, at, k, s);
        left--;
    }
}

/* ---- one domain of tier 2 ---- */

/* How many supernodes of the leaf are of the kind. */
static uint32_t close_count_in(const struct close_search *search, uint32_t leaf,
                               const struct close_kind *kind)
{
    const struct super *supers = search->job->cluster->supers;
    const uint32_t *slots = search->room->slots, *whole = search->room->whole;
    uint32_t count = 0;
    for (uint32_t s = supers[leaf].first_below; s != GT_NONE; s = supers[s].next_beside)
        count += slots[s] == kind->slots && whole[s] == kind->whole;
    return count;
}

/* Where one leaf holds the whole job, no search is needed: it touches one domain of each tier, and the
 * first such leaf is the best. False: none of the first leaves does, or the job has pods elsewhere. */
static bool close_in_leaf(struct close_search *search, struct gt_close_place *places, uint32_t count)
{
    const struct gt_cluster *cluster = search->job->cluster;
    const struct super *supers = cluster->supers;
    uint32_t best = GT_NONE;
    uint64_t gpus = 0; /* that a leaf must have at least, which is known without looking into it */
    for (unsigned k = 0; k < search->kind_count; k++)
        gpus += (uint64_t)search->kinds[k].want * search->kinds[k].slots * search->room->gpus;
    if (search->job->any_touched || (search->unit && search->unit->supernode != GT_NONE) ||
        (count == 1 && cluster->in_leaves != cluster->tiers[1]))
        return false;
    for (uint32_t i = 0; i < cluster->tiers[2]; i++) {
        uint32_t leaf = cluster->leaves[i];
        if (best == GT_NONE && i == CLOSE_LEAVES_TRIED)
            return false;
        if (best != GT_NONE && !close_is_before(search, leaf, best))
            continue;
        unsigned k = search->total[leaf] < gpus ? CLOSE_KINDS + 1 : 0;
        while (k < search->kind_count &&
               close_count_in(search, leaf, &search->kinds[k]) >= search->kinds[k].want)
            k++;
        best = k == search->kind_count ? leaf : best;
    }
    if (best == GT_NONE)
        return false;
    for (unsigned k = 0; k < search->kind_count; k++) {
        uint32_t skip = close_count_in(search, best, &search->kinds[k]) - search->kinds[k].want, at = count;
        for (uint32_t s = supers[best].first_below; s != GT_NONE; s = supers[s].next_beside) {
            if (close_kind_of(search, s) != k || (skip && skip--))
                continue;
            while (at-- && (places[at].to != GT_NONE || close_kind_of(search, places[at].from) != k))
                ;
            places[at].to = s;
        }
    }
    return true;
}

static void close_solve(struct close_search *search, struct gt_close_place *places, uint32_t count)
{
    if (close_take_kinds(search, places, count) == count && close_in_leaf(search, places, count))
        return;
    close_list(search);
    close_take_sure(search, places, count);
    if (!search->kind_count)
        return;
    gt_close_count_states(search);
    close_collect(search);
    uint32_t single = close_single(search);
    if (single != UINT32_MAX)
        search->domains[single].need = search->states - 1;
    bool found = single != UINT32_MAX || gt_close_search(search);
    if (found)
        close_hand_out(search, places);
    for (uint32_t i = 0; i < count && !found; i++)
        if (places[i].to == GT_NONE && close_kind_of(search, places[i].from) < search->kind_count) {
            places[i].to = places[i].from;
            close_touch(search, places[i].to);
        }
}

static int close_compare(const void *left, const void *right)
{
    const struct gt_close_place *a = left, *b = right;
    for (unsigned i = 0; i < GT_TIERS_MAX; i++)
        if (a->path[i] != b->path[i])
            return a->path[i] < b->path[i] ? -1 : 1;
    return 0;
}

void gt_close_sort(const struct gt_cluster *cluster, struct gt_close_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memset(places[i].path, 0, sizeof(places[i].path));
        for (uint32_t s = places[i].to; s != GT_NONE; s = cluster->supers[s].parent)
            places[i].path[GT_TIERS_MAX - cluster->supers[s].tier] = s + 1;
    }
    qsort(places, count, sizeof(*places), close_compare);
}

/* The available GPUs of each supernode, with all below, in the draft. */
static const uint32_t *close_total(struct gt_cluster *cluster)
{
    const struct gt_node_set changed = {cluster->draft_changed, cluster->draft_high * 64};
    uint32_t node = gt_node_set_next(&changed, cluster->draft_low * 64);
    if (node == GT_NONE)
        return cluster->total;
    uint32_t *total = cluster->scratch + cluster->super_capacity;
    memcpy(total, cluster->total, cluster->super_count * sizeof(*total));
    for (; node != GT_NONE; node = gt_node_set_next(&changed, node + 1))
        for (uint32_t s = cluster->super[node]; s != GT_NONE; s = cluster->supers[s].parent)
            total[s] += (uint32_t)cluster->draft_count[node] - cluster->count[node];
    return total;
}

void gt_close_choose(struct job *job, const struct room *room, struct gt_close_place *places, uint32_t count,
                     const struct gt_plan_unit *unit)
{
    struct gt_cluster *cluster = job->cluster;
    struct close_search search = {.job = job,
                                  .room = room,
                                  .unit = unit,
                                  .index = cluster->scratch,
                                  .list = cluster->scratch + 2 * (size_t)cluster->super_capacity,
                                  .home = cluster->scratch + 3 * (size_t)cluster->super_capacity,
                                  .order = cluster->scratch + 4 * (size_t)cluster->super_capacity};
    uint64_t total = 0;
    uint32_t open = count;
    for (uint32_t i = 0; i < count; i++)
        places[i].to = GT_NONE;
    job->any_touched_unit = false;
    job->touch_unit = unit ? gt_close_next_touch(cluster) : 0;
    for (uint32_t pod = 0; unit && pod < unit->pods; pod++)
        close_touch_unit(job, gt_pod_super(job, unit->first + pod));
    for (search.tiers = GT_TIERS_MAX; !cluster->tiers[search.tiers]; search.tiers--)
        ;
    for (unsigned n = 1; n <= GT_GPUS_MAX; n++)
        total += (uint64_t)n * job->nodes_with[n];
    search.bits = 63 / (search.tiers - 1);
    while (total >> search.scale >> search.bits)
        search.scale++;
    search.total = close_total(cluster);
    search.domains = gt_close_memory(cluster, 1, room->count * sizeof(*search.domains));
    bool can = search.domains && count < UINT64_C(1) << search.bits;
    for (; can && open;) {
        close_solve(&search, places, count);
        open = 0;
        for (uint32_t i = 0; i < count; i++)
            open += places[i].to == GT_NONE;
    }
    for (uint32_t i = 0; i < count; i++)
        if (places[i].to == GT_NONE)
            places[i].to = places[i].from;
    gt_close_sort(cluster, places, count);
}
