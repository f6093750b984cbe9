/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "scheduler-ext/supernodes/join_internal.h"

void gt_join_tell(struct join_work *work, enum gt_join_problem_kind kind, struct join_about about,
                  const char *format, ...)
{
    struct gt_join *join = work->join;
    if (join->problem_count == GT_JOIN_PROBLEMS_MAX)
        return;
    struct gt_join_problem *p = &join->problems[join->problem_count++];
    va_list args;
    p->kind = kind;
    p->supernode = about.supernode;
    p->node = about.node;
    p->other = about.other;
    p->in_config = about.in_config;
    va_start(args, format);
    vsnprintf(p->text, sizeof(p->text), format, args);
    va_end(args);
}

uint32_t gt_join_make(struct join_work *work, const char *name, unsigned tier, enum gt_join_source source)
{
    struct gt_join *join = work->join;
    uint32_t id = join->supernode_count++;
    struct gt_supernode *s = &join->supernodes[id];
    *s = (struct gt_supernode){.tier = tier, .parent = GT_JOIN_NONE, .source = source};
    snprintf(s->name, sizeof(s->name), "%s", name);
    return id;
}

/* Letters of any case, digits, and '-' for all else. */
static void network_label(const char *text, char to[static GT_JOIN_NAME_SIZE])
{
    size_t len = 0;
    for (; *text && len < GT_JOIN_NAME_SIZE - 1; text++)
        if (isalnum((unsigned char)*text))
            to[len++] = (char)tolower((unsigned char)*text);
        else if (len && to[len - 1] != '-')
            to[len++] = '-';
    while (len && to[len - 1] == '-')
        len--;
    to[len] = '\0';
}

static bool network_is_named(const void *item, const void *key)
{
    return strcmp(((const struct gt_supernode *)item)->name, key) == 0;
}

static struct gt_supernode *network_taken(const struct join_work *work, const char *name)
{
    return gt_table_find(&work->taken, gt_digest_hash(gt_digest_keyed(name)), network_is_named, name);
}

static int network_note_name(struct join_work *work, struct gt_supernode *supernode, struct gt_err **err)
{
    return gt_table_add(&work->taken, gt_digest_hash(gt_digest_keyed(supernode->name)), supernode) < 0
               ? gt_fail_sys(err, ENOMEM, "supernodes")
               : 0;
}

/* A new supernode named after `text`; a name that is taken is changed. */
static int network_supernode(struct join_work *work, const char *text, const char *key, unsigned tier,
                             uint32_t *ret, struct gt_err **err)
{
    struct gt_join *join = work->join;
    char name[GT_JOIN_NAME_SIZE], changed[GT_JOIN_NAME_SIZE];
    network_label(text, name);
    if (!*name || network_taken(work, name)) {
        uint64_t digest = gt_digest_number(gt_digest_bytes(GT_DIGEST_EMPTY, key, strlen(key)), tier);
        do
            snprintf(changed, sizeof(changed), "%.46s%s%016llx", name, *name ? "-" : "net-",
                     (unsigned long long)digest++);
        while (network_taken(work, changed));
        memcpy(name, changed, sizeof(name));
    }
    *ret = gt_join_make(work, name, tier, GT_JOIN_NETWORK);
    return network_note_name(work, &join->supernodes[*ret], err);
}

/* The supernode of a domain: one of the configuration or of labels with this name and tier, or a new one. */
static int network_domain(struct join_work *work, uint32_t domain, uint32_t *ret, struct gt_err **err)
{
    const struct gt_network_domain *d = &work->places->domains[domain];
    char name[GT_JOIN_NAME_SIZE];
    network_label(d->name, name);
    const struct gt_supernode *same = network_taken(work, name);
    if (work->made[domain] == GT_JOIN_NONE && same && same->tier == d->tier && same->source < GT_JOIN_NETWORK)
        work->made[domain] = (uint32_t)(same - work->join->supernodes);
    else if (work->made[domain] == GT_JOIN_NONE)
        GT_TRY(network_supernode(work, d->name, d->key, d->tier, &work->made[domain], err));
    *ret = work->made[domain];
    return 0;
}

static int network_start(struct join_work *work, struct gt_err **err)
{
    work->made = malloc(((size_t)work->places->domain_count + 1) * sizeof(*work->made));
    GT_NEED(work->made, err, "supernodes");
    for (uint32_t i = 0; i < work->places->domain_count; i++)
        work->made[i] = GT_JOIN_NONE;
    for (uint32_t i = 0; i < work->places->problem_count; i++)
        gt_join_tell(work, GT_JOIN_CABLING,
                     (struct join_about){GT_JOIN_NONE, work->places->problems[i].node, GT_JOIN_NONE,
                                         work->places->problems[i].node == GT_NETWORK_NONE},
                     "%s", work->places->problems[i].text);
    return 0;
}

int gt_join_by_network(struct join_work *work, struct gt_err **err)
{
    struct gt_join *join = work->join;
    if (!work->places)
        return 0;
    for (uint32_t s = 0; s < join->supernode_count; s++)
        GT_TRY(network_note_name(work, &join->supernodes[s], err));
    GT_TRY(network_start(work, err));
    for (uint32_t i = 0; i < work->node_count; i++) {
        uint32_t domain = work->places->domain_of[i];
        if (join->supernode_of[i] == GT_JOIN_NONE && domain != GT_NETWORK_NONE &&
            work->places->domains[domain].tier == 1)
            GT_TRY(network_domain(work, domain, &join->supernode_of[i], err));
    }
    return 0;
}

/* ---- above the supernodes ---- */

/* The domain of that tier that the node is in; GT_NETWORK_NONE: none. */
static uint32_t network_above(const struct join_work *work, uint32_t node, unsigned tier)
{
    const struct gt_network_domain *domains = work->places->domains;
    uint32_t domain = work->places->domain_of[node];
    while (domain != GT_NETWORK_NONE && domains[domain].tier < tier)
        domain = domains[domain].parent;
    return domain != GT_NETWORK_NONE && domains[domain].tier == tier ? domain : GT_NETWORK_NONE;
}

/* The domain of more than half of those members that are in one; GT_NETWORK_NONE: there is none. */
static uint32_t network_most(const struct join_work *work, const uint32_t *members, uint32_t count,
                             unsigned tier)
{
    uint32_t candidate = GT_NETWORK_NONE, lead = 0, votes = 0, placed = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t domain = network_above(work, members[i], tier);
        placed += work->places->domain_of[members[i]] != GT_NETWORK_NONE;
        if (domain == GT_NETWORK_NONE)
            continue;
        if (!lead)
            candidate = domain;
        lead = domain == candidate ? lead + 1 : lead - 1;
    }
    for (uint32_t i = 0; i < count; i++)
        votes += candidate != GT_NETWORK_NONE && network_above(work, members[i], tier) == candidate;
    return votes * 2 > placed ? candidate : GT_NETWORK_NONE;
}

static int network_parent(struct join_work *work, uint32_t supernode, const uint32_t *members, uint32_t count,
                          struct gt_err **err)
{
    struct gt_join *join = work->join;
    uint32_t domain = GT_NETWORK_NONE;
    unsigned tier = GT_NETWORK_LEAF_TIER;
    for (; tier <= GT_NETWORK_TIERS_MAX && domain == GT_NETWORK_NONE; tier++)
        domain = network_most(work, members, count, tier);
    if (domain == GT_NETWORK_NONE)
        return 0;
    GT_TRY(network_domain(work, domain, &join->supernodes[supernode].parent, err));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = network_above(work, members[i], tier - 1);
        if (other != domain && other != GT_NETWORK_NONE)
            gt_join_tell(work, GT_JOIN_CABLING,
                         (struct join_about){supernode, members[i], GT_JOIN_NONE, false},
                         "node %s of supernode %s is in %s, most others of it in %s, which counts",
                         work->nodes[members[i]].name, join->supernodes[supernode].name,
                         work->places->domains[other].name, work->places->domains[domain].name);
    }
    return 0;
}

/* Nodes without a supernode become one each, where the network has a tier for them. */
static int network_alone(struct join_work *work, struct gt_err **err)
{
    struct gt_join *join = work->join;
    for (uint32_t i = 0; i < work->node_count; i++)
        if (join->supernode_of[i] == GT_JOIN_NONE && work->places->domain_of[i] != GT_NETWORK_NONE)
            GT_TRY(network_supernode(work, work->nodes[i].name, work->nodes[i].name, 1,
                                     &join->supernode_of[i], err));
    return 0;
}

/* The domains above those that are used; their parents are of a higher tier. */
static int network_raise(struct join_work *work, struct gt_err **err)
{
    const struct gt_network_places *places = work->places;
    for (unsigned tier = 1; tier <= GT_NETWORK_TIERS_MAX; tier++)
        for (uint32_t d = 0; d < places->domain_count; d++) {
            uint32_t made = work->made[d], parent = places->domains[d].parent;
            struct gt_supernode *supernode = made == GT_JOIN_NONE ? NULL : &work->join->supernodes[made];
            if (supernode && supernode->tier == tier && supernode->parent == GT_JOIN_NONE &&
                parent != GT_NETWORK_NONE)
                GT_TRY(network_domain(work, parent, &supernode->parent, err));
        }
    return 0;
}

int gt_join_tiers(struct join_work *work, struct gt_err **err)
{
    struct gt_join *join = work->join;
    uint32_t *members = join->members, node_count = work->node_count;
    if (!work->places)
        return 0;
    for (uint32_t s = 0; s < join->supernode_count; s++)
        if (join->supernodes[s].source == GT_JOIN_REPORT)
            GT_TRY(network_note_name(work, &join->supernodes[s], err));
    GT_TRY(network_alone(work, err));
    /* The members of each supernode in a run, as they will be at the end. */
    uint32_t supernodes = join->supernode_count;
    gt_auto_free uint32_t *first = calloc((size_t)supernodes + 2, sizeof(*first));
    GT_NEED(first, err, "supernodes");
    for (uint32_t i = 0; i < node_count; i++)
        if (join->supernode_of[i] != GT_JOIN_NONE)
            first[join->supernode_of[i] + 2]++;
    for (uint32_t s = 0; s < supernodes; s++)
        first[s + 2] += first[s + 1];
    for (uint32_t i = 0; i < node_count; i++)
        if (join->supernode_of[i] != GT_JOIN_NONE)
            members[first[join->supernode_of[i] + 1]++] = i;
    for (uint32_t s = 0; s < supernodes; s++)
        if (join->supernodes[s].tier == 1 && join->supernodes[s].parent == GT_JOIN_NONE)
            GT_TRY(network_parent(work, s, members + first[s], first[s + 1] - first[s], err));
    return network_raise(work, err);
}
