/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/supernodes/network.h"

enum { LINK_WITHIN = 64, LINK_ACROSS = 8, LINKED = 4, SHAPE_GPUS = 8, SHAPE_PARTS_MAX = 16 };

void gt_site_free(struct gt_site *site)
{
    if (!site)
        return;
    for (unsigned t = 0; t < GT_SITE_UPPER; t++)
        free(site->upper[t]);
    free(site->nodes);
    free(site->first_node);
    free(site);
}

static struct gt_site *site_new(uint32_t nodes)
{
    struct gt_site *site = calloc(1, sizeof(*site));
    if (!site)
        return NULL;
    site->nodes = calloc(nodes, sizeof(*site->nodes));
    site->first_node = calloc((size_t)nodes + 1, sizeof(uint32_t));
    site->node_count = nodes;
    if (!site->nodes || !site->first_node) {
        gt_site_free(site);
        return NULL;
    }
    return site;
}

/* Sets first_node[]; the nodes must have their supernodes, ascending from 0. */
static void site_finish(struct gt_site *site)
{
    uint32_t super = 0;
    for (uint32_t i = 0; i < site->node_count; i++) {
        site->gpus += site->nodes[i].gpus;
        while (super <= site->nodes[i].super)
            site->first_node[super++] = i;
    }
    site->super_count = super;
    site->first_node[super] = site->node_count;
}

struct shape {
    uint32_t supers, nodes, gpus, linked;
};

static bool read_shape(char *text, struct shape *ret)
{
    uint64_t number[4] = {0, 0, SHAPE_GPUS, LINKED};
    unsigned count = 0;
    for (char *part = text, *next; part; part = next) {
        next = strchr(part, 'x');
        if (next)
            *next++ = '\0';
        if (count == GT_COUNT(number) || !gt_text_to_unsigned(part, GT_SITE_NODES_MAX, &number[count]) ||
            !number[count++])
            return false;
    }
    *ret = (struct shape){(uint32_t)number[0], (uint32_t)number[1], (uint32_t)number[2], (uint32_t)number[3]};
    return count >= 2 && number[2] <= GT_GPUS_MAX && number[3] <= GT_GPUS_MAX &&
           number[0] * number[1] <= GT_SITE_NODES_MAX;
}

int gt_site_from_shape(const char *text, struct gt_site **ret, struct gt_err **err)
{
    struct shape shapes[SHAPE_PARTS_MAX];
    char copy[256];
    uint32_t nodes = 0, node = 0, super = 0;
    unsigned count = 0;
    bool good = gt_text_copy(copy, sizeof(copy), text);
    for (char *part = copy, *next; good && part; part = next) {
        next = strchr(part, '+');
        if (next)
            *next++ = '\0';
        good = count < SHAPE_PARTS_MAX && read_shape(part, &shapes[count]);
        if (good)
            nodes += shapes[count].supers * shapes[count].nodes;
        good = good && nodes <= GT_SITE_NODES_MAX;
        count++;
    }
    if (!good)
        return gt_fail(
            err, EINVAL,
            "expected a shape such as 320x32x8 (supernodes x nodes x GPUs; at most %d nodes and %d "
            "GPUs a node) or a file, is '%.100s'",
            GT_SITE_NODES_MAX, GT_GPUS_MAX, text);
    struct gt_site *site = site_new(nodes);
    GT_NEED(site, err, "cluster %s", text);
    for (unsigned i = 0; i < count; super += shapes[i++].supers)
        for (uint32_t n = 0; n < shapes[i].supers * shapes[i].nodes; n++)
            site->nodes[node++] = (struct gt_site_node){
                .super = super + n / shapes[i].nodes, .gpus = shapes[i].gpus, .linked = shapes[i].linked};
    site_finish(site);
    *ret = site;
    return 0;
}

int gt_site_group(struct gt_site *site, unsigned tier, uint32_t supers, struct gt_err **err)
{
    uint32_t *of = reallocarray(site->upper[tier], site->super_count + 1UL, sizeof(*of));
    GT_NEED(of, err, "cluster");
    for (uint32_t s = 0; s < site->super_count; s++)
        of[s] = s / supers;
    site->upper[tier] = of;
    site->upper_count[tier] = (site->super_count + supers - 1) / supers;
    return 0;
}

/* A node and the domains that it is in, each within the next one. */
struct site_row {
    const char *name;
    const struct gt_network_domain *of[1 + GT_SITE_UPPER]; /* [tier - 1]; NULL: in none */
};

/* By domains from the highest tier, then by name. */
static int site_by_place(const void *a, const void *b)
{
    const struct site_row *x = a, *y = b;
    for (unsigned t = 1 + GT_SITE_UPPER; t-- > 0;) {
        int order = x->of[t] == y->of[t] ? 0 : strcmp(x->of[t]->name, y->of[t]->name);
        if (order || x->of[t] != y->of[t])
            return order ? order : strcmp(x->of[t]->key, y->of[t]->key);
    }
    return strcmp(x->name, y->name);
}

static int site_find_domains(const char *file, const struct gt_network_places *places, struct site_row *rows,
                             uint32_t count, struct gt_err **err)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t d = places->domain_of[i]; d != GT_NETWORK_NONE; d = places->domains[d].parent) {
            if (places->domains[d].tier > 1 + GT_SITE_UPPER)
                return gt_fail(err, EINVAL, "%s: more than %d tiers above the supernodes", file,
                               GT_SITE_UPPER);
            rows[i].of[places->domains[d].tier - 1] = &places->domains[d];
        }
        for (unsigned t = 0; t < 1 + GT_SITE_UPPER; t++)
            if (!rows[i].of[t] != !rows[0].of[t])
                return gt_fail(err, EINVAL, "%s: of the nodes %.80s and %.80s one is in no domain of tier %u",
                               file, rows[0].name, rows[i].name, t + 1);
    }
    return 0;
}

/* The nodes must be in the order of their places. */
static int site_of_rows(const struct site_row *rows, uint32_t count, struct gt_site **ret,
                        struct gt_err **err)
{
    gt_auto_site struct gt_site *site = site_new(count);
    GT_NEED(site, err, "cluster");
    uint32_t super = 0;
    for (uint32_t i = 0; i < count; i++) {
        super += i && (!rows[i].of[0] || rows[i - 1].of[0] != rows[i].of[0]);
        site->nodes[i] = (struct gt_site_node){.super = super, .gpus = SHAPE_GPUS, .linked = LINKED};
    }
    site_finish(site);
    for (unsigned t = 0; t < GT_SITE_UPPER; t++) {
        uint32_t domain = 0;
        if (!rows[0].of[1 + t])
            continue;
        GT_TRY(gt_site_group(site, t, 1, err));
        for (uint32_t i = 0; i < count; i++) {
            domain += i && rows[i - 1].of[1 + t] != rows[i].of[1 + t];
            site->upper[t][site->nodes[i].super] = domain;
        }
        site->upper_count[t] = domain + 1;
    }
    *ret = gt_steal(site);
    return 0;
}

int gt_site_from_text(const char *file, const char *text, size_t len, struct gt_site **ret,
                      struct gt_err **err)
{
    gt_auto_network struct gt_network *network = NULL;
    gt_auto_network_places struct gt_network_places *places = NULL;
    uint32_t count = 0;
    if (memchr(text, '\0', len))
        return gt_fail(err, EINVAL, "%s: there is a NUL byte", file);
    GT_TRY(gt_network_new(&network, err));
    if (gt_network_read(network, text, len, err) < 0)
        return gt_wrap(err, "%s", file);
    if (network->note_count)
        return gt_fail(err, EINVAL, "%s: not all of it can be used: %s", file, network->notes[0]);
    gt_auto_free struct site_row *rows = calloc((size_t)network->point_count + 1, sizeof(*rows));
    gt_auto_free const char **names = calloc((size_t)network->point_count + 1, sizeof(*names));
    GT_NEED(rows && names, err, "%s", file);
    for (uint32_t i = 0; i < network->point_count; i++)
        if (!network->points[i].is_switch)
            names[count++] = network->points[i].key;
    for (uint32_t i = 0; i < count; i++)
        rows[i].name = names[i];
    if (!count || count > GT_SITE_NODES_MAX)
        return gt_fail(err, count ? E2BIG : EINVAL, "%s: %u nodes, expected 1 to %d", file, count,
                       GT_SITE_NODES_MAX);
    GT_TRY(gt_network_place(network, names, count, &places, err));
    if (places->problem_count)
        return gt_fail(err, EINVAL, "%s: not all of it can be used: %s", file, places->problems[0].text);
    GT_TRY(site_find_domains(file, places, rows, count, err));
    qsort(rows, count, sizeof(*rows), site_by_place);
    return site_of_rows(rows, count, ret, err);
}

uint32_t gt_site_largest_super(const struct gt_site *site)
{
    uint32_t largest = 0;
    for (uint32_t s = 0; s < site->super_count; s++) {
        uint32_t gpus = 0;
        for (uint32_t n = site->first_node[s]; n < site->first_node[s + 1]; n++)
            gpus += site->nodes[n].gpus;
        largest = gpus > largest ? gpus : largest;
    }
    return largest;
}

uint32_t gt_site_largest_node(const struct gt_site *site)
{
    uint32_t largest = 0;
    for (uint32_t n = 0; n < site->node_count; n++)
        largest = site->nodes[n].gpus > largest ? site->nodes[n].gpus : largest;
    return largest;
}

static int site_add_class(struct gt_cluster *cluster, unsigned gpus, unsigned linked, uint32_t *ret,
                          struct gt_err **err)
{
    struct gt_weights weights = {.n = gpus};
    for (unsigned a = 0; a < gpus; a++)
        for (unsigned b = 0; b < gpus; b++)
            weights.w[a][b] = a == b ? 0 : a / linked == b / linked ? LINK_WITHIN : LINK_ACROSS;
    gt_auto_class struct gt_class *class = NULL;
    GT_TRY(gt_class_new(&weights, &class, err));
    return gt_cluster_add_class(cluster, class, ret, err);
}

/* Adds the leaf, the spine and the hall that begin with the supernode. above[t]: the last one. */
static int site_add_upper(const struct gt_site *site, struct gt_cluster *cluster, uint32_t super,
                          uint32_t *above, struct gt_err **err)
{
    char name[32];
    for (unsigned t = GT_SITE_UPPER; t-- > 0;) {
        const uint32_t *of = site->upper[t];
        uint32_t parent = t + 1 < GT_SITE_UPPER && site->upper[t + 1] ? above[t + 1] : GT_NONE;
        if (!of || (super && of[super] == of[super - 1]))
            continue;
        snprintf(name, sizeof(name), "t%u-%06u", t + 2, of[super]);
        GT_TRY(gt_cluster_add_supernode(cluster, name, t + 2, parent, &above[t], err));
    }
    return 0;
}

int gt_site_model(const struct gt_site *site, struct gt_cluster **ret, struct gt_err **err)
{
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    uint32_t class[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1]; /* [GPUs][of them linked] */
    bool known[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1] = {{false}};
    uint32_t super = GT_NONE, above[GT_SITE_UPPER] = {GT_NONE, GT_NONE, GT_NONE}, id;
    char name[32];
    int r = gt_cluster_new(&cluster, err);
    for (uint32_t i = 0; i < site->node_count && r >= 0; i++) {
        const struct gt_site_node *node = &site->nodes[i];
        if (!known[node->gpus][node->linked]) {
            /* A node without GPUs: one GPU that is never free. */
            GT_TRY(site_add_class(cluster, node->gpus ? node->gpus : 1, node->linked,
                                  &class[node->gpus][node->linked], err));
            known[node->gpus][node->linked] = true;
        }
        if (i == site->first_node[node->super]) {
            GT_TRY(site_add_upper(site, cluster, node->super, above, err));
            snprintf(name, sizeof(name), "s%06u", node->super);
            GT_TRY(gt_cluster_add_supernode(cluster, name, 1, above[0], &super, err));
        }
        snprintf(name, sizeof(name), "n%06u", i);
        r = gt_cluster_add_node(cluster, name, class[node->gpus][node->linked], super, &id, err);
        if (r >= 0 && node->gpus == 0)
            gt_cluster_set_eligible(cluster, id, false);
    }
    if (r < 0)
        return r;
    *ret = gt_steal(cluster);
    return 0;
}
