/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <stdlib.h>
#include <string.h>

/* The tables of the choice among supernodes of equal kinds: one for each domain says what it costs least to
 * take a number of supernodes of each kind in it; they are joined from the lowest tier up. */

enum {
    CLOSE_STATES_MAX = 1 << 16, /* for one kind */
    CLOSE_CELLS = 1 << 22,
    CLOSE_WORK = 1 << 24,
};
static const struct close_cost CLOSE_NEVER = {UINT64_MAX, UINT64_MAX};

void *gt_close_memory(struct gt_cluster *cluster, unsigned block, size_t size)
{
    if (cluster->close_bytes[block] < size) {
        free(cluster->close[block]);
        cluster->close[block] = malloc(size + size / 2);
        cluster->close_bytes[block] = cluster->close[block] ? size + size / 2 : 0;
    }
    return cluster->close[block];
}

uint32_t gt_close_domain(struct close_search *search, uint32_t super)
{
    struct gt_cluster *cluster = search->job->cluster;
    if (super == GT_NONE)
        return UINT32_MAX;
    if (cluster->mark[super] == search->stamp)
        return search->index[super];
    struct close_domain *domain = &search->domains[search->count];
    domain->super = super;
    domain->need = 0;
    domain->inner = false;
    for (unsigned k = 0; k < search->kind_count; k++)
        domain->own[k] = 0;
    cluster->mark[super] = search->stamp;
    return search->index[super] = search->count++;
}

struct close_cost gt_close_cost(const struct close_search *search, uint32_t super)
{
    const struct gt_cluster *cluster = search->job->cluster;
    const struct super *s = &cluster->supers[super];
    unsigned bits = search->bits, end = search->tiers + 1;
    struct close_cost cost = {0, 0};
    bool touched = cluster->touched[super] == search->job->touch;
    bool counted = search->unit ? cluster->touched_unit[super] == search->job->touch_unit : touched;
    if (s->parent != GT_NONE)
        end = cluster->supers[s->parent].tier;
    for (unsigned tier = s->tier < 2 ? 2 : s->tier; tier < end; tier++) {
        if (!counted)
            cost.domains += UINT64_C(1) << (tier - 2) * bits;
        if (!touched)
            cost.room += (uint64_t)(search->total[super] >> search->scale) << (tier - 2) * bits;
    }
    return cost;
}

void gt_close_count_states(struct close_search *search)
{
    unsigned k = 0;
    for (search->states = 1; k < search->kind_count; k++) {
        uint32_t next = search->kinds[k].want + 1;
        if (k && (uint64_t)search->states * next > CLOSE_STATES)
            break;
        search->kinds[k].stride = search->states;
        search->states *= next;
    }
    search->kind_count = k;
}

uint32_t gt_close_digit(const struct close_kind *kind, uint32_t state)
{
    return state / kind->stride % (kind->want + 1);
}

/* The numbers of each state side by side, each with a free bit above it, so that one subtraction compares
 * all: several kinds have at most CLOSE_STATES states. */
static void close_pack(struct close_search *search, uint64_t packed[static CLOSE_STATES])
{
    if (search->kind_count == 1)
        return;
    search->packed = packed;
    search->borrow = 0;
    for (uint32_t state = 0; state < search->states; state++)
        packed[state] = 0;
    unsigned shift = 0;
    for (unsigned k = 0; k < search->kind_count; k++) {
        const struct close_kind *kind = &search->kinds[k];
        for (uint32_t state = 0; state < search->states; state++)
            packed[state] |= (uint64_t)gt_close_digit(kind, state) << shift;
        unsigned bits = 0;
        while (kind->want >> bits)
            bits++;
        search->borrow |= UINT64_C(1) << (shift + bits);
        shift += bits + 1;
    }
}

/* Whether each number of `part` is at most that of `state`. */
static bool close_is_within(const struct close_search *search, uint32_t part, uint32_t state)
{
    if (search->kind_count == 1)
        return part <= state;
    return (((search->packed[state] | search->borrow) - search->packed[part]) & search->borrow) ==
           search->borrow;
}

static uint32_t close_state(const struct close_search *search, const uint32_t *numbers)
{
    uint32_t state = 0;
    for (unsigned k = 0; k < search->kind_count; k++)
        state += (numbers[k] < search->kinds[k].want ? numbers[k] : search->kinds[k].want) *
                 search->kinds[k].stride;
    return state;
}

/* Adds the domains above those that have supernodes, and sorts all. */
static void close_add_above(struct close_search *search)
{
    const struct super *supers = search->job->cluster->supers;
    for (uint32_t d = 0; d < search->count; d++) {
        struct close_domain *domain = &search->domains[d];
        domain->parent = gt_close_domain(search, supers[domain->super].parent);
        domain->cost = gt_close_cost(search, domain->super);
        domain->table = NULL;
        if (domain->parent != UINT32_MAX)
            search->domains[domain->parent].inner = true;
    }
    uint32_t sorted = 0;
    for (unsigned tier = 1; tier <= search->tiers; tier++)
        for (uint32_t d = 0; d < search->count; d++)
            if (supers[search->domains[d].super].tier == tier)
                search->order[sorted++] = d;
}

/* Sums up what domains have; the work of the search in steps. */
static uint64_t close_sum_up(struct close_search *search)
{
    uint64_t work = 0;
    for (uint32_t d = 0; d < search->count; d++)
        memcpy(search->domains[d].have, search->domains[d].own, search->kind_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < search->count; i++) {
        struct close_domain *domain = &search->domains[search->order[i]];
        domain->top = close_state(search, domain->have);
        work += (uint64_t)search->states * (domain->top + 1);
        for (unsigned k = 0; domain->parent != UINT32_MAX && k < search->kind_count; k++)
            search->domains[domain->parent].have[k] += domain->have[k];
    }
    return work;
}

/* Adds to what its parent can take a domain without domains below it. What it gives costs the same however
 * much it is, and to take less of the others never costs more: so it gives as much as it can. */
static void close_join_leaf(const struct close_search *search, struct close_cost *table, uint32_t top,
                            struct close_domain *child)
{
    for (uint32_t state = top + 1; state-- > 0;) {
        uint32_t part = 0;
        if (search->kind_count == 1) /* without division */
            part = child->own[0] < state ? child->own[0] : state;
        for (unsigned k = 0; k < search->kind_count && search->kind_count > 1; k++) {
            uint32_t number = gt_close_digit(&search->kinds[k], state);
            part += (child->own[k] < number ? child->own[k] : number) * search->kinds[k].stride;
        }
        struct close_cost rest = table[state - part], cost = gt_close_sum(rest, child->cost);
        child->taken[state] = 0;
        if (!part || rest.domains == UINT64_MAX || !gt_close_is_less(cost, table[state]))
            continue;
        table[state] = cost;
        child->taken[state] = (uint16_t)part;
    }
}

/* Adds a domain to what its parent can take, in states up to `top`. From the highest down, so that each step
 * reads states without this domain. */
static void close_join(const struct close_search *search, struct close_cost *table, uint32_t top,
                       struct close_domain *child)
{
    if (!child->table) {
        close_join_leaf(search, table, top, child);
        return;
    }
    for (uint32_t state = top + 1; state-- > 0;) {
        struct close_cost best = table[state];
        child->taken[state] = 0;
        for (uint32_t part = 1; part <= child->top && part <= state; part++) {
            if (!close_is_within(search, part, state))
                continue;
            struct close_cost below = child->table[part], rest = table[state - part];
            if (below.domains == UINT64_MAX || rest.domains == UINT64_MAX)
                continue;
            struct close_cost cost = gt_close_sum(gt_close_sum(rest, below), child->cost);
            if (gt_close_is_less(cost, best)) {
                best = cost;
                child->taken[state] = (uint16_t)part;
            }
        }
        table[state] = best;
    }
}

bool gt_close_search(struct close_search *search)
{
    uint32_t states = search->states, inner = 1;
    close_add_above(search);
    uint64_t work = close_sum_up(search);
    for (uint32_t d = 0; d < search->count; d++)
        inner += search->domains[d].inner;
    uint64_t cells = (uint64_t)states * (inner + search->count);
    if (work > CLOSE_WORK || cells > CLOSE_CELLS || states > CLOSE_STATES_MAX)
        return false;
    struct close_cost *tables = gt_close_memory(
        search->job->cluster, 2,
        (size_t)states * (inner * sizeof(struct close_cost) + search->count * sizeof(uint16_t)));
    if (!tables)
        return false;
    uint64_t packed[CLOSE_STATES];
    close_pack(search, packed);
    uint16_t *taken = (uint16_t *)(tables + (size_t)inner * states);
    struct close_cost *root = tables, *at = tables + states;
    for (uint32_t i = 0; i < states; i++)
        root[i] = i ? CLOSE_NEVER : (struct close_cost){0, 0};
    for (uint32_t d = 0; d < search->count; d++) {
        struct close_domain *domain = &search->domains[d];
        uint32_t own = close_state(search, domain->own);
        domain->taken = taken + (size_t)d * states;
        if (!domain->inner)
            continue;
        domain->table = at;
        at += states;
        for (uint32_t i = 0; i <= domain->top; i++)
            domain->table[i] = close_is_within(search, i, own) ? (struct close_cost){0, 0} : CLOSE_NEVER;
    }
    for (uint32_t i = 0; i < search->count; i++) {
        struct close_domain *domain = &search->domains[search->order[i]], *parent = NULL;
        if (domain->parent != UINT32_MAX)
            parent = &search->domains[domain->parent];
        close_join(search, parent ? parent->table : root, parent ? parent->top : states - 1, domain);
    }
    uint32_t rest = states - 1;
    for (uint32_t i = search->count; i-- > 0;) { /* the same steps backward */
        struct close_domain *domain = &search->domains[search->order[i]];
        uint32_t *from = domain->parent == UINT32_MAX ? &rest : &search->domains[domain->parent].need;
        domain->need = domain->taken[*from];
        *from -= domain->need;
    }
    return true;
}
