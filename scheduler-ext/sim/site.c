/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/site.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "scheduler-ext/sim/csv.h"

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

enum { SITE_KEYS = GT_SITE_UPPER + 1 };

/* A row of a file, until names are sorted and replaced by numbers. */
struct node_row {
    const char *key[SITE_KEYS], *name; /* the domains, from the highest to the supernode */
    unsigned line;
};

/* What the columns of a file are. */
struct site_columns {
    unsigned keys;
    unsigned upper;  /* of the keys, those above the supernodes */
    bool has_supers; /* else each node is one */
    char names[1 + SITE_KEYS][32];
};

/* Whether two rows are the same in the first `keys` keys. */
static int site_by_keys(const struct node_row *a, const struct node_row *b, unsigned keys)
{
    int order = 0;
    for (unsigned k = 0; k < keys && !order; k++)
        order = strcmp(a->key[k], b->key[k]);
    return order;
}

static int site_by_name(const void *a, const void *b)
{
    const struct node_row *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int site_by_place(const void *a, const void *b, void *arg)
{
    const struct site_columns *columns = arg;
    int order = site_by_keys(a, b, columns->keys);
    return order ? order : site_by_name(a, b);
}

static int site_by_key(const void *a, const void *b, void *arg)
{
    const struct node_row *x = a, *y = b;
    int order = strcmp(x->key[*(unsigned *)arg], y->key[*(unsigned *)arg]);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int site_read_header(const struct gt_csv *csv, struct site_columns *to, struct gt_err **err)
{
    static const char *const supers[] = {"supernode", "block", "accelerator"};
    if (csv->field_count < 2 || strcasecmp(csv->fields[0], "node") != 0)
        return gt_fail(err, EINVAL, "%s:%u: not a cluster: expected a header such as node,leaf,spine",
                       csv->file, csv->line);
    *to = (struct site_columns){.keys = csv->field_count - 1};
    for (unsigned i = 0; i < GT_COUNT(supers); i++)
        to->has_supers |= strcasecmp(csv->fields[1], supers[i]) == 0;
    to->upper = to->keys - to->has_supers;
    if (to->upper > GT_SITE_UPPER)
        return gt_fail(err, EINVAL, "%s:%u: %u tiers above the supernodes, expected at most %d", csv->file,
                       csv->line, to->upper, GT_SITE_UPPER);
    gt_text_cut(to->names[0], sizeof(to->names[0]), csv->fields[0]);
    for (unsigned k = 0; k < to->keys; k++)
        gt_text_cut(to->names[1 + k], sizeof(to->names[0]), csv->fields[to->keys - k]);
    return 0;
}

static int site_read_row(const struct gt_csv *csv, const struct site_columns *columns, struct node_row *ret,
                         struct gt_err **err)
{
    if (csv->field_count != columns->keys + 1)
        return gt_fail(err, EINVAL, "%s:%u: expected %u fields, is %u", csv->file, csv->line,
                       columns->keys + 1, csv->field_count);
    *ret = (struct node_row){.name = csv->fields[0], .line = csv->line};
    for (unsigned k = 0; k < columns->keys; k++)
        ret->key[k] = csv->fields[columns->keys - k];
    const char *lacks = *ret->name ? NULL : columns->names[0];
    for (unsigned k = 0; k < columns->upper + columns->has_supers && columns->upper; k++)
        lacks = *ret->key[k] ? lacks : columns->names[1 + k];
    return lacks ? gt_fail(err, EINVAL, "%s:%u: %s: expected a name, is empty", csv->file, csv->line, lacks)
                 : 0;
}

static int site_read_rows(struct gt_csv *csv, struct site_columns *columns, struct node_row **rows,
                          uint32_t *ret_count, struct gt_err **err)
{
    uint32_t capacity = 0, count = 0;
    int r = gt_csv_next(csv, err);
    if (r < 0)
        return r;
    if (!r) {
        csv->field_count = 0;
        csv->line = csv->line ? csv->line : 1;
    }
    GT_TRY(site_read_header(csv, columns, err));
    while ((r = gt_csv_next(csv, err)) > 0) {
        if (count == GT_SITE_NODES_MAX)
            return gt_fail(err, E2BIG, "%s:%u: more than %d nodes", csv->file, csv->line, GT_SITE_NODES_MAX);
        GT_NEED(GT_GROW(*rows, count, capacity, 1024), err, "%s", csv->file);
        r = site_read_row(csv, columns, &(*rows)[count], err);
        if (r < 0)
            return r;
        count++;
    }
    if (r < 0)
        return r;
    if (!count)
        return gt_fail(err, EINVAL, "%s: no nodes", csv->file);
    *ret_count = count;
    return 0;
}

/* A node is there once, and a domain within one other. */
static int site_check_rows(const char *file, const struct site_columns *columns, struct node_row *rows,
                           uint32_t count, struct gt_err **err)
{
    qsort(rows, count, sizeof(*rows), site_by_name);
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(rows[i - 1].name, rows[i].name) == 0)
            return gt_fail(err, EEXIST, "%s:%u: node %.80s is there twice", file, rows[i].line, rows[i].name);
    for (unsigned k = 1; k < columns->keys && columns->upper; k++) {
        qsort_r(rows, count, sizeof(*rows), site_by_key, &k);
        for (uint32_t i = 1; i < count; i++)
            if (strcmp(rows[i - 1].key[k], rows[i].key[k]) == 0 &&
                strcmp(rows[i - 1].key[k - 1], rows[i].key[k - 1]) != 0)
                return gt_fail(err, EEXIST, "%s:%u: %s %.80s is in %.80s, but in %.80s in line %u", file,
                               rows[i].line, columns->names[1 + k], rows[i].key[k], rows[i].key[k - 1],
                               rows[i - 1].key[k - 1], rows[i - 1].line);
    }
    return 0;
}

int gt_site_from_text(const char *file, char *text, size_t len, struct gt_site **ret, struct gt_err **err)
{
    struct gt_csv csv;
    struct site_columns columns;
    gt_csv_open(&csv, file, text, len);
    gt_auto_free struct node_row *rows = NULL;
    uint32_t count = 0;
    GT_TRY(site_read_rows(&csv, &columns, &rows, &count, err));
    GT_TRY(site_check_rows(file, &columns, rows, count, err));
    qsort_r(rows, count, sizeof(*rows), site_by_place, &columns);
    gt_auto_site struct gt_site *site = site_new(count);
    GT_NEED(site, err, "%s", file);
    uint32_t super = 0;
    for (uint32_t i = 0; i < count; i++) {
        super += i && (!columns.has_supers || site_by_keys(&rows[i - 1], &rows[i], columns.keys) != 0);
        site->nodes[i] = (struct gt_site_node){.super = super, .gpus = SHAPE_GPUS, .linked = LINKED};
    }
    site_finish(site);
    for (unsigned t = 0; t < columns.upper; t++) {
        GT_TRY(gt_site_group(site, t, 1, err));
        uint32_t domain = 0;
        for (uint32_t i = 0; i < count; i++) {
            domain += i && site_by_keys(&rows[i - 1], &rows[i], columns.upper - t) != 0;
            site->upper[t][site->nodes[i].super] = domain;
        }
        site->upper_count[t] = domain + 1;
    }
    *ret = gt_steal(site);
    return 0;
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
