/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/openb.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/sim/csv.h"

enum { LINKED = 4 };

static const char *const node_header[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model"};
static const char *const pod_header[] = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"};

void openb_nodes_done(struct openb_nodes *nodes)
{
    free(nodes->node);
    nodes->node = NULL;
}

void openb_pods_done(struct openb_pods *pods)
{
    free(pods->pod);
    free(pods->specs);
    pods->pod = NULL;
    pods->specs = NULL;
}

/* Makes room for one item more in an array. */
static int grow(void *items, size_t size, uint32_t count, uint32_t *capacity, const char *file,
                struct gt_err **err)
{
    if (count < *capacity)
        return 0;
    uint32_t wanted = *capacity ? *capacity * 2 : 1024;
    void **array = items, *grown = realloc(*array, wanted * size);
    if (!grown)
        return gt_fail_sys(err, ENOMEM, "%s", file);
    *array = grown;
    *capacity = wanted;
    return 0;
}

/* Reads the header, which must be or begin with these names. */
static int read_header(struct gt_csv *csv, const char *const *names, unsigned count, bool more,
                       const char *what, struct gt_err **err)
{
    int r = gt_csv_next(csv, err);
    if (r < 0)
        return r;
    bool same = r && (more ? csv->field_count >= count : csv->field_count == count);
    for (unsigned i = 0; same && i < count; i++)
        same = strcmp(csv->fields[i], names[i]) == 0;
    return same ? 0
                : gt_fail(err, EINVAL, "%s:%u: not a list of %s of the openb trace", csv->file,
                          csv->line ? csv->line : 1, what);
}

static int check_fields(const struct gt_csv *csv, unsigned expected, struct gt_err **err)
{
    return csv->field_count == expected ? 0
                                        : gt_fail(err, EINVAL, "%s:%u: expected %u fields, is %u", csv->file,
                                                  csv->line, expected, csv->field_count);
}

/* ---- nodes ---- */

struct named_node {
    const char *name, *model;
    unsigned line;
    struct openb_node node;
};

static int by_name(const void *a, const void *b)
{
    const struct named_node *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int read_node(const struct gt_csv *csv, struct named_node *ret, struct gt_err **err)
{
    int r = check_fields(csv, GT_COUNT(node_header), err);
    if (r < 0)
        return r;
    if (!*csv->fields[0])
        return gt_fail(err, EINVAL, "%s:%u: sn: expected a name, is empty", csv->file, csv->line);
    *ret = (struct named_node){.name = csv->fields[0], .model = csv->fields[4], .line = csv->line};
    r = gt_csv_whole(csv, 1, "cpu_milli", UINT32_MAX / 2, &ret->node.cpu_milli, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 2, "memory_mib", UINT32_MAX / 2, &ret->node.memory_mib, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 3, "gpu", GT_GPUS_MAX, &ret->node.gpus, err);
    return r;
}

uint32_t openb_model_number(const struct openb_nodes *nodes, const char *name)
{
    for (uint32_t i = 1; i <= nodes->model_count; i++)
        if (strcmp(nodes->models[i], name) == 0)
            return i;
    return 0;
}

static int name_model(struct openb_nodes *nodes, const char *file, const struct named_node *row,
                      uint32_t *ret, struct gt_err **err)
{
    *ret = *row->model ? openb_model_number(nodes, row->model) : 0;
    if (*ret || !*row->model)
        return 0;
    if (nodes->model_count == OPENB_MODELS_MAX)
        return gt_fail(err, E2BIG, "%s:%u: more than %d models", file, row->line, OPENB_MODELS_MAX);
    if (!gt_text_copy(nodes->models[nodes->model_count + 1], OPENB_MODEL_LEN, row->model))
        return gt_fail(err, EINVAL, "%s:%u: model: expected a name of at most %d characters, is '%.80s'",
                       file, row->line, OPENB_MODEL_LEN - 1, row->model);
    *ret = ++nodes->model_count;
    return 0;
}

static int take_rows(const char *file, struct named_node *rows, uint32_t count, struct openb_nodes *ret,
                     struct gt_err **err)
{
    qsort(rows, count, sizeof(*rows), by_name);
    ret->node = calloc(count, sizeof(*ret->node));
    if (!ret->node)
        return gt_fail_sys(err, ENOMEM, "%s", file);
    for (uint32_t i = 0; i < count; i++) {
        if (i && strcmp(rows[i - 1].name, rows[i].name) == 0)
            return gt_fail(err, EEXIST, "%s:%u: node %.80s is there twice", file, rows[i].line, rows[i].name);
        ret->node[i] = rows[i].node;
        int r = name_model(ret, file, &rows[i], &ret->node[i].model, err);
        if (r < 0)
            return r;
        ret->gpus += rows[i].node.gpus;
    }
    ret->count = count;
    return 0;
}

int openb_read_nodes(const char *file, char *text, size_t len, struct openb_nodes *ret, struct gt_err **err)
{
    struct gt_csv csv;
    gt_auto_free struct named_node *rows = NULL;
    uint32_t capacity = 0, count = 0;
    *ret = (struct openb_nodes){0};
    gt_csv_open(&csv, file, text, len);
    int r = read_header(&csv, node_header, GT_COUNT(node_header), false, "nodes", err);
    while (r >= 0 && (r = gt_csv_next(&csv, err)) > 0) {
        if (count == GT_SITE_NODES_MAX)
            return gt_fail(err, E2BIG, "%s:%u: more than %d nodes", file, csv.line, GT_SITE_NODES_MAX);
        r = grow(&rows, sizeof(*rows), count, &capacity, file, err);
        if (r >= 0)
            r = read_node(&csv, &rows[count++], err);
    }
    if (r < 0)
        return r;
    return count ? take_rows(file, rows, count, ret, err) : gt_fail(err, EINVAL, "%s: no nodes", file);
}

int openb_shuffle(const struct openb_nodes *from, struct gt_rng *rng, struct openb_nodes *ret,
                  struct gt_err **err)
{
    *ret = *from;
    ret->node = calloc(from->count, sizeof(*ret->node));
    if (!ret->node)
        return gt_fail_sys(err, ENOMEM, "cluster");
    for (uint32_t i = 0; i < from->count; i++) { /* each is swapped into a random position of those so far */
        uint32_t at = gt_rng_below(rng, i + 1);
        ret->node[i] = ret->node[at];
        ret->node[at] = from->node[i];
    }
    return 0;
}

int openb_site(const struct openb_nodes *nodes, struct gt_site **ret, struct gt_err **err)
{
    gt_auto_site struct gt_site *site = calloc(1, sizeof(*site));
    if (!site)
        return gt_fail_sys(err, ENOMEM, "cluster");
    site->nodes = calloc(nodes->count, sizeof(*site->nodes));
    site->first_node = calloc((size_t)nodes->count + 1, sizeof(*site->first_node));
    if (!site->nodes || !site->first_node)
        return gt_fail_sys(err, ENOMEM, "cluster");
    site->node_count = site->super_count = nodes->count;
    site->gpus = nodes->gpus;
    for (uint32_t i = 0; i < nodes->count; i++) {
        site->nodes[i] = (struct gt_site_node){.super = i, .gpus = nodes->node[i].gpus, .linked = LINKED};
        site->first_node[i + 1] = i + 1;
    }
    *ret = gt_steal(site);
    return 0;
}

/* ---- pods ---- */

static int read_pod(const struct gt_csv *csv, struct openb_pod *ret, struct gt_err **err)
{
    int r = gt_csv_whole(csv, 1, "cpu_milli", UINT32_MAX / 2, &ret->cpu_milli, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 2, "memory_mib", UINT32_MAX / 2, &ret->memory_mib, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 3, "num_gpu", GT_GPUS_MAX, &ret->gpus, err);
    if (r >= 0)
        r = gt_csv_whole(csv, 4, "gpu_milli", 1000, &ret->milli, err);
    if (r < 0)
        return r;
    if (ret->gpus == 0)
        ret->milli = 0;
    else if (ret->milli == 0 || (ret->gpus > 1 && ret->milli != 1000))
        return gt_fail(err, EINVAL, "%s:%u: gpu_milli: %u for %u GPUs, expected %s", csv->file, csv->line,
                       ret->milli, ret->gpus, ret->gpus > 1 ? "1000" : "1 to 1000");
    return 0;
}

/* The number of the models that a pod can use, where the file has the column. */
static int read_spec(const struct gt_csv *csv, int column, struct openb_pods *pods, uint32_t *ret,
                     struct gt_err **err)
{
    const char *text = column < 0 ? "" : csv->fields[column];
    *ret = 0;
    if (!*text)
        return 0;
    for (uint32_t i = 1; i <= pods->spec_count && !*ret; i++)
        *ret = strcmp(pods->specs[i], text) == 0 ? i : 0;
    if (*ret)
        return 0;
    if (pods->spec_count == OPENB_SPECS_MAX)
        return gt_fail(err, E2BIG, "%s:%u: more than %d values of gpu_spec", csv->file, csv->line,
                       OPENB_SPECS_MAX);
    if (!pods->specs)
        pods->specs = calloc(OPENB_SPECS_MAX + 1, sizeof(*pods->specs));
    if (!pods->specs)
        return gt_fail_sys(err, ENOMEM, "%s", csv->file);
    if (!gt_text_copy(pods->specs[pods->spec_count + 1], OPENB_SPEC_LEN, text))
        return gt_fail(err, EINVAL, "%s:%u: gpu_spec: expected at most %d characters, is '%.40s...'",
                       csv->file, csv->line, OPENB_SPEC_LEN - 1, text);
    *ret = ++pods->spec_count;
    return 0;
}

static bool any_gpu(const struct openb_pods *pods)
{
    for (uint32_t i = 0; i < pods->count; i++)
        if (pods->pod[i].gpus)
            return true;
    return false;
}

int openb_read_pods(const char *file, char *text, size_t len, struct openb_pods *ret, struct gt_err **err)
{
    struct gt_csv csv;
    uint32_t capacity = 0;
    int spec = -1;
    *ret = (struct openb_pods){0};
    gt_csv_open(&csv, file, text, len);
    int r = read_header(&csv, pod_header, GT_COUNT(pod_header), true, "pods", err);
    if (r < 0)
        return r;
    unsigned fields = csv.field_count;
    for (unsigned i = GT_COUNT(pod_header); i < fields; i++)
        spec = strcmp(csv.fields[i], "gpu_spec") == 0 ? (int)i : spec;
    while (r >= 0 && (r = gt_csv_next(&csv, err)) > 0) {
        struct openb_pod pod = {0};
        if (ret->count == OPENB_PODS_MAX)
            return gt_fail(err, E2BIG, "%s:%u: more than %d pods", file, csv.line, OPENB_PODS_MAX);
        r = check_fields(&csv, fields, err);
        if (r >= 0)
            r = grow(&ret->pod, sizeof(*ret->pod), ret->count, &capacity, file, err);
        if (r >= 0)
            r = read_pod(&csv, &pod, err);
        if (r >= 0)
            r = read_spec(&csv, spec, ret, &pod.spec, err);
        if (r >= 0)
            ret->pod[ret->count++] = pod;
    }
    if (r < 0)
        return r;
    return any_gpu(ret) ? 0 : gt_fail(err, EINVAL, "%s: no pods with GPUs", file);
}

int openb_drop_shared(struct openb_pods *pods, struct gt_err **err)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pods->count; i++)
        if (pods->pod[i].gpus == 0 || pods->pod[i].milli == 1000)
            pods->pod[kept++] = pods->pod[i];
    pods->count = kept;
    return any_gpu(pods) ? 0 : gt_fail(err, EINVAL, "no pod asks for a whole GPU");
}
