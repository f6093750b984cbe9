/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "scheduler-ext/supernodes/network.h"

/*
 * Tier by tier, items are joined: first nodes, then the domains that came of them. An item's signature is the
 * set of the tier's switches that it has cables to. The signatures that most items have become domains, as
 * long as their switches are in none; the other items go by majority. Everything is sorted, so the time is
 * O(n log n) in the cables, for each tier.
 */
#define PLACE_SEVERAL (GT_NETWORK_NONE - 1) /* in adopt[]: items of several domains have cables to it */

struct place_edge {
    uint32_t item, high;
    const struct gt_network_cable *cable;
    uint32_t node; /* the node whose port it is; GT_NETWORK_NONE: a switch's */
    const char *port;
    bool told;
};

struct place_item {
    uint32_t item, first, count; /* its edges */
    uint32_t distinct, least;    /* its switches: how many, and the first by name */
    uint64_t digest;
    uint32_t signature;
};

struct place_signature {
    const struct place_item *example;
    uint32_t items, domain;
};

struct place {
    const struct gt_network *network;
    const char *const *names;
    uint32_t node_count;
    struct gt_network_places *places;
    uint32_t *node_of; /* [point]: the cluster's node; GT_NETWORK_NONE */
    unsigned *tier;    /* [point]: of a switch; 0 not known */
    uint32_t *owner;   /* [point]: the item that it belongs to, the highest so far */
    uint32_t *parent;  /* [item]: node, or node_count + domain */
    uint32_t *adopt;   /* [point]: the domain of all items with cables to it; none owns it yet */
    struct place_edge *edges;
    uint32_t edge_count;
    struct place_item *items;
    uint32_t item_count;
    struct place_signature *signatures;
    uint32_t signature_count;
};

__attribute__((format(printf, 3, 4))) static void place_tell(struct place *place, uint32_t node,
                                                             const char *format, ...)
{
    struct gt_network_places *places = place->places;
    va_list args;
    if (places->problem_count == GT_NETWORK_PROBLEMS_MAX)
        return;
    struct gt_network_problem *problem = &places->problems[places->problem_count++];
    problem->node = node;
    va_start(args, format);
    vsnprintf(problem->text, sizeof(problem->text), format, args);
    va_end(args);
}

static const char *place_name(const struct place *place, uint32_t point)
{
    return place->network->points[point].name;
}

static const char *place_item_name(const struct place *place, uint32_t item)
{
    return item < place->node_count ? place->names[item]
                                    : place->places->domains[item - place->node_count].name;
}

/* ---- tiers of switches where no source says them ---- */

/* A switch is a leaf if it has at least as many cables to nodes as to switches that have some, too: a single
 * node at a spine makes no leaf of it. */
static int place_find_leaves(struct place *place, struct gt_err **err)
{
    const struct gt_network *network = place->network;
    gt_auto_free uint32_t *nodes = calloc((size_t)network->point_count + 1, sizeof(*nodes));
    gt_auto_free uint32_t *peers = calloc((size_t)network->point_count + 1, sizeof(*peers));
    GT_NEED(nodes && peers, err, "network");
    for (uint32_t i = 0; i < network->cable_count; i++)
        nodes[network->cables[i].high] += place->node_of[network->cables[i].low] != GT_NETWORK_NONE;
    for (uint32_t i = 0; i < network->cable_count; i++) {
        const struct gt_network_cable *cable = &network->cables[i];
        if (network->points[cable->low].is_switch) {
            peers[cable->low] += nodes[cable->high] > 0;
            peers[cable->high] += nodes[cable->low] > 0;
        }
    }
    for (uint32_t i = 0; i < network->point_count; i++)
        if (!place->tier[i] && network->points[i].is_switch && nodes[i] && nodes[i] >= peers[i])
            place->tier[i] = GT_NETWORK_LEAF_TIER;
    return 0;
}

static int place_find_tiers(struct place *place, struct gt_err **err)
{
    const struct gt_network *network = place->network;
    for (uint32_t i = 0; i < network->point_count; i++)
        place->tier[i] = network->points[i].tier;
    GT_TRY(place_find_leaves(place, err));
    for (unsigned tier = GT_NETWORK_LEAF_TIER; tier < GT_NETWORK_TIERS_MAX; tier++)
        for (uint32_t i = 0; i < network->cable_count; i++) {
            const struct gt_network_cable *cable = &network->cables[i];
            if (!network->points[cable->low].is_switch)
                continue;
            if (place->tier[cable->low] == tier && !place->tier[cable->high])
                place->tier[cable->high] = tier + 1;
            else if (place->tier[cable->high] == tier && !place->tier[cable->low])
                place->tier[cable->low] = tier + 1;
        }
    return 0;
}

/* ---- one tier ---- */

static int place_compare_edges(const void *a, const void *b)
{
    const struct place_edge *x = a, *y = b;
    GT_BY(x->item, y->item);
    GT_BY(x->high, y->high);
    GT_BY(x->node, y->node);
    return strcmp(x->port, y->port);
}

static void place_add_edge(struct place *place, const struct gt_network_cable *cable, bool upward,
                           unsigned tier)
{
    uint32_t low = upward ? cable->low : cable->high, high = upward ? cable->high : cable->low;
    bool is_switch = place->network->points[low].is_switch;
    if (place->tier[high] != tier || place->owner[low] == GT_NETWORK_NONE ||
        (is_switch && place->tier[low] >= tier))
        return;
    place->edges[place->edge_count++] = (struct place_edge){
        .item = place->owner[low],
        .high = high,
        .cable = cable,
        .node = is_switch ? GT_NETWORK_NONE : place->node_of[low],
        .port = upward ? cable->port : cable->high_port,
    };
}

/* A cable may have been told by both its ends: equal edges count once. */
static void place_collect(struct place *place, unsigned tier)
{
    const struct gt_network *network = place->network;
    uint32_t count = 0;
    place->edge_count = 0;
    for (uint32_t i = 0; i < network->cable_count; i++) {
        place_add_edge(place, &network->cables[i], true, tier);
        if (network->points[network->cables[i].low].is_switch)
            place_add_edge(place, &network->cables[i], false, tier);
    }
    if (place->edge_count)
        qsort(place->edges, place->edge_count, sizeof(*place->edges), place_compare_edges);
    for (uint32_t i = 0; i < place->edge_count; i++)
        if (!count || place_compare_edges(&place->edges[count - 1], &place->edges[i]) != 0)
            place->edges[count++] = place->edges[i];
    place->edge_count = count;
}

static void place_make_items(struct place *place)
{
    place->item_count = 0;
    for (uint32_t i = 0; i < place->edge_count; i++) {
        const struct place_edge *edge = &place->edges[i];
        struct place_item *item = &place->items[place->item_count];
        if (!place->item_count || item[-1].item != edge->item) {
            *item = (struct place_item){
                .item = edge->item, .first = i, .least = edge->high, .digest = GT_DIGEST_EMPTY};
            place->item_count++;
        } else
            item--;
        if (!item->count++ || place->edges[i - 1].high != edge->high) {
            item->distinct++;
            item->digest = gt_digest_mix(item->digest, edge->high);
            if (strcmp(place_name(place, edge->high), place_name(place, item->least)) < 0)
                item->least = edge->high;
        }
    }
}

static int place_by_digest(const void *a, const void *b)
{
    const struct place_item *x = a, *y = b;
    GT_BY(x->digest, y->digest);
    return (x->item > y->item) - (x->item < y->item);
}

static int place_by_weight(const void *a, const void *b, void *arg)
{
    const struct gt_network_point *points = arg;
    const struct place_signature *x = a, *y = b;
    GT_BY(y->items, x->items);
    GT_BY(y->example->distinct, x->example->distinct);
    int order = strcmp(points[x->example->least].name, points[y->example->least].name);
    return order ? order : strcmp(points[x->example->least].key, points[y->example->least].key);
}

static void place_make_signatures(struct place *place)
{
    place->signature_count = 0;
    if (place->item_count)
        qsort(place->items, place->item_count, sizeof(*place->items), place_by_digest);
    for (uint32_t i = 0; i < place->item_count; i++) {
        if (!i || place->items[i].digest != place->items[i - 1].digest)
            place->signatures[place->signature_count++] =
                (struct place_signature){.example = &place->items[i], .domain = GT_NETWORK_NONE};
        place->signatures[place->signature_count - 1].items++;
    }
    if (place->signature_count)
        qsort_r(place->signatures, place->signature_count, sizeof(*place->signatures), place_by_weight,
                place->network->points);
    for (uint32_t s = 0; s < place->signature_count; s++) {
        uint32_t first = (uint32_t)(place->signatures[s].example - place->items);
        for (uint32_t i = first; i < first + place->signatures[s].items; i++)
            place->items[i].signature = s;
    }
}

static void place_make_domain(struct place *place, struct place_signature *signature, unsigned tier)
{
    const struct place_item *example = signature->example;
    const struct gt_network_point *least = &place->network->points[example->least];
    for (uint32_t e = example->first; e < example->first + example->count; e++)
        if (place->owner[place->edges[e].high] != GT_NETWORK_NONE)
            return;
    uint32_t number = place->places->domain_count++;
    place->places->domains[number] =
        (struct gt_network_domain){least->name, least->key, tier, GT_NETWORK_NONE};
    signature->domain = place->node_count + number;
    place->parent[signature->domain] = GT_NETWORK_NONE;
    for (uint32_t e = example->first; e < example->first + example->count; e++)
        place->owner[place->edges[e].high] = signature->domain;
}

/* The domain of more than half of an item's cables; GT_NETWORK_NONE: there is none. */
static uint32_t place_majority(const struct place *place, const struct place_item *item)
{
    uint32_t candidate = GT_NETWORK_NONE, lead = 0, votes = 0;
    for (uint32_t e = item->first; e < item->first + item->count; e++) {
        uint32_t domain = place->owner[place->edges[e].high];
        if (!lead)
            candidate = domain;
        lead = domain == candidate ? lead + 1 : lead - 1;
    }
    for (uint32_t e = item->first; e < item->first + item->count; e++)
        votes += place->owner[place->edges[e].high] == candidate;
    return votes * 2 > item->count ? candidate : GT_NETWORK_NONE;
}

static void place_tell_torn(struct place *place, const struct place_item *item)
{
    const struct place_edge *first = &place->edges[item->first],
                            *last = &place->edges[item->first + item->count - 1];
    bool is_node = item->item < place->node_count;
    place_tell(
        place, is_node ? item->item : GT_NETWORK_NONE,
        "%s %s has cables to switches of several domains, from %s to %s, and to none more than half: it "
        "is in none of them",
        is_node ? "node" : "domain", place_item_name(place, item->item), place_name(place, first->high),
        place_name(place, last->high));
}

/* Items whose switches are in no domain, or in several. */
static void place_vote(struct place *place)
{
    for (uint32_t i = 0; i < place->item_count; i++) {
        struct place_item *item = &place->items[i];
        uint32_t domain = place->signatures[item->signature].domain;
        if (domain == GT_NETWORK_NONE) {
            domain = place_majority(place, item);
            if (domain == GT_NETWORK_NONE)
                place_tell_torn(place, item);
            for (uint32_t e = item->first; e < item->first + item->count; e++) {
                uint32_t high = place->edges[e].high;
                if (place->owner[high] == GT_NETWORK_NONE)
                    place->adopt[high] = place->adopt[high] == GT_NETWORK_NONE || place->adopt[high] == domain
                                             ? domain
                                             : PLACE_SEVERAL;
            }
        }
        place->parent[item->item] = domain;
    }
}

static void place_adopt(struct place *place, unsigned tier)
{
    for (uint32_t i = 0; i < place->edge_count; i++) {
        uint32_t high = place->edges[i].high;
        uint32_t domain = place->adopt[high];
        if (place->owner[high] == GT_NETWORK_NONE && domain < PLACE_SEVERAL &&
            place->places->domains[domain - place->node_count].tier == tier)
            place->owner[high] = domain;
    }
}

/* ---- cables that contradict the others ---- */

/* Edges by the domain that their item is in, by port and switch; those that say nothing come last. */
static int place_compare_ports(const void *a, const void *b, void *arg)
{
    const struct place *place = arg;
    const struct place_edge *x = a, *y = b;
    uint32_t p = place->parent[x->item], q = place->parent[y->item];
    GT_BY(p, q);
    int order = strcmp(x->port, y->port);
    if (order)
        return order;
    return x->high != y->high ? (x->high < y->high ? -1 : 1) : (x->node > y->node) - (x->node < y->node);
}

/* The edges of one port in one domain: tells those that are not at the switch of more than half. */
static void place_tell_port(struct place *place, uint32_t first, uint32_t end)
{
    uint32_t best = first, best_count = 0;
    for (uint32_t i = first, run = 0; i < end; i++) {
        run = i > first && place->edges[i].high == place->edges[i - 1].high ? run + 1 : 1;
        if (run > best_count) {
            best_count = run;
            best = i;
        }
    }
    if (best_count < 2 || best_count * 2 <= end - first)
        return;
    for (uint32_t i = first; i < end; i++) {
        struct place_edge *edge = &place->edges[i];
        if (edge->high == place->edges[best].high)
            continue;
        edge->told = true;
        place_tell(place, edge->node, "node %s: port %s is at switch %s, expected %s, as of %u of %u nodes",
                   place->names[edge->node], edge->port, place_name(place, edge->high),
                   place_name(place, place->edges[best].high), best_count, end - first);
    }
}

static void place_tell_edge(struct place *place, const struct place_edge *edge)
{
    uint32_t domain = place->parent[edge->item];
    bool is_node = edge->node != GT_NETWORK_NONE;
    bool up = edge->cable->high == edge->high;
    place_tell(place, edge->node, "%s %s%s%s is at switch %s, its other cables are in domain %s",
               is_node ? "node" : "switch",
               is_node ? place->names[edge->node]
                       : place_name(place, up ? edge->cable->low : edge->cable->high),
               *edge->port ? ": port " : "", edge->port, place_name(place, edge->high),
               place_item_name(place, domain));
}

static void place_tell_contradictions(struct place *place)
{
    if (place->edge_count)
        qsort_r(place->edges, place->edge_count, sizeof(*place->edges), place_compare_ports, place);
    for (uint32_t first = 0, end; first < place->edge_count; first = end) {
        const struct place_edge *edge = &place->edges[first];
        uint32_t domain = place->parent[edge->item];
        for (end = first + 1; end < place->edge_count && place->parent[place->edges[end].item] == domain &&
                              strcmp(place->edges[end].port, edge->port) == 0;)
            end++;
        if (domain != GT_NETWORK_NONE && *edge->port && edge->node != GT_NETWORK_NONE)
            place_tell_port(place, first, end);
        for (uint32_t i = first; i < end && domain != GT_NETWORK_NONE; i++)
            if (!place->edges[i].told && place->owner[place->edges[i].high] != domain)
                place_tell_edge(place, &place->edges[i]);
    }
}

static void place_tier(struct place *place, unsigned tier)
{
    place_collect(place, tier);
    place_make_items(place);
    place_make_signatures(place);
    for (uint32_t s = 0; s < place->signature_count; s++)
        place_make_domain(place, &place->signatures[s], tier);
    place_vote(place);
    place_adopt(place, tier);
    place_tell_contradictions(place);
    for (uint32_t i = 0; i < place->network->point_count; i++) {
        uint32_t item = place->owner[i];
        if (item != GT_NETWORK_NONE && place->parent[item] != GT_NETWORK_NONE)
            place->owner[i] = place->parent[item];
    }
}

/* ---- names ---- */

/* Descriptions and tables often have a host's name without its domain, the cluster has it with it, or the
 * reverse. */
static size_t names_short(const char *name)
{
    return strcspn(name, ".");
}

static int names_compare_short(const char *a, const char *b)
{
    size_t x = names_short(a), y = names_short(b);
    int order = memcmp(a, b, x < y ? x : y);
    return order ? order : (x > y) - (x < y);
}

static int names_compare(const void *a, const void *b, void *arg)
{
    const char *const *names = arg;
    const char *x = names[*(const uint32_t *)a], *y = names[*(const uint32_t *)b];
    int order = names_compare_short(x, y);
    return order ? order : strcmp(x, y);
}

static uint32_t names_find(const char *const *names, const uint32_t *order, uint32_t count, const char *name)
{
    uint32_t first = (uint32_t)GT_LOWER_BOUND(i, count, names_compare_short(names[order[i]], name) < 0);
    uint32_t end = first;
    for (; end < count && names_compare_short(names[order[end]], name) == 0; end++)
        if (strcmp(names[order[end]], name) == 0)
            return order[end];
    /* One of the two has no domain. */
    bool is_short = !name[names_short(name)];
    if (end - first != 1 || (!is_short && names[order[first]][names_short(name)]))
        return GT_NETWORK_NONE;
    return order[first];
}

/* The cluster's node of each point, in an array with room for all; GT_NETWORK_NONE: none, or a switch. */
static int place_find_nodes(const struct gt_network *network, const char *const *names, uint32_t count,
                            uint32_t *node_of, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)count + 1, sizeof(*order));
    GT_NEED(order, err, "network");
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    if (count)
        qsort_r(order, count, sizeof(*order), names_compare, (void *)(uintptr_t)names);
    for (uint32_t i = 0; i < network->point_count; i++)
        node_of[i] = network->points[i].is_switch ? GT_NETWORK_NONE
                                                  : names_find(names, order, count, network->points[i].key);
    return 0;
}

/* ---- all ---- */

static void place_done(struct place *place)
{
    free(place->node_of);
    free(place->tier);
    free(place->owner);
    free(place->parent);
    free(place->adopt);
    free(place->edges);
    free(place->items);
    free(place->signatures);
}

void gt_network_places_free(struct gt_network_places *places)
{
    if (!places)
        return;
    free(places->domains);
    free(places->domain_of);
    free(places->problems);
    free(places);
}

static int place_new(struct place *place, struct gt_err **err)
{
    size_t points = (size_t)place->network->point_count + 1, nodes = (size_t)place->node_count + 1;
    size_t cables = (size_t)place->network->cable_count + 1;
    struct gt_network_places *places = place->places;
    place->node_of = malloc(points * sizeof(*place->node_of));
    place->tier = calloc(points, sizeof(*place->tier));
    place->owner = malloc(points * sizeof(*place->owner));
    place->adopt = malloc(points * sizeof(*place->adopt));
    /* Each domain has a switch of its own. */
    place->parent = malloc((nodes + points) * sizeof(*place->parent));
    place->edges = calloc(cables, sizeof(*place->edges));
    place->items = calloc(cables, sizeof(*place->items));
    place->signatures = calloc(cables, sizeof(*place->signatures));
    if (places) {
        places->domains = calloc(points, sizeof(*places->domains));
        places->domain_of = malloc(nodes * sizeof(*places->domain_of));
        places->problems = calloc(GT_NETWORK_PROBLEMS_MAX, sizeof(*places->problems));
    }
    GT_NEED(places && places->domains && places->domain_of && places->problems && place->node_of &&
                place->tier && place->owner && place->adopt && place->parent && place->edges &&
                place->items && place->signatures,
            err, "network");
    for (uint32_t i = 0; i < place->node_count; i++)
        place->parent[i] = GT_NETWORK_NONE;
    return 0;
}

int gt_network_place(const struct gt_network *network, const char *const *names, uint32_t name_count,
                     struct gt_network_places **ret, struct gt_err **err)
{
    gt_auto_network_places struct gt_network_places *places = calloc(1, sizeof(*places));
    __attribute__((cleanup(place_done))) struct place place = {
        .network = network, .names = names, .node_count = name_count, .places = places};
    GT_TRY(place_new(&place, err));
    GT_TRY(place_find_nodes(network, names, name_count, place.node_of, err));
    for (uint32_t i = 0; i < network->point_count; i++) {
        place.owner[i] = place.node_of[i];
        place.adopt[i] = GT_NETWORK_NONE;
    }
    GT_TRY(place_find_tiers(&place, err));
    for (unsigned tier = 1; tier <= GT_NETWORK_TIERS_MAX; tier++)
        place_tier(&place, tier);
    for (uint32_t i = 0; i < name_count; i++)
        places->domain_of[i] =
            place.parent[i] == GT_NETWORK_NONE ? GT_NETWORK_NONE : place.parent[i] - name_count;
    for (uint32_t i = 0; i < places->domain_count; i++) {
        uint32_t parent = place.parent[name_count + i];
        places->domains[i].parent = parent == GT_NETWORK_NONE ? GT_NETWORK_NONE : parent - name_count;
    }
    *ret = gt_steal(places);
    return 0;
}
