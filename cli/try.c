/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/try.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/identity.h"
#include "api/meta.h"
#include "api/names.h"
#include "api/node.h"
#include "base/bits.h"
#include "base/text.h"
#include "cli/api.h"
#include "cli/cli.h"

enum { TRY_HTML = CLI_FORMATS, TRY_PROBLEMS = 20 };
static const char *const try_formats[] = {CLI_FORMAT_WORDS, "html", NULL};

struct try_options {
    struct cli_parse parse;
    struct cli_api_options api;
    const char *labels, *resource;
};
static const struct try_options try_defaults = {.labels = GT_LABEL_SUPERNODE "," GT_LABEL_OLD_SUPERNODE,
                                                .resource = GT_RESOURCE_GPU};

static const struct gt_option try_options[] = {
    {"supernode-label", "KEYS",
     "node label that names a supernode, the first of a list that is there (default: gputopo's own)",
     gt_option_text, GT_OPTION_FIELD(struct try_options, labels)},
    {"resource-name", "NAME", "the extended resource of GPUs (default: " GT_RESOURCE_GPU ")", gt_option_text,
     GT_OPTION_FIELD(struct try_options, resource)},
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml or html", try_formats),
    CLI_API_OPTIONS(struct try_options),
    CLI_HELP_OPTION,
};

/* ---- reading ---- */

struct try_node {
    const char *name, *supernode; /* "" none */
    uint32_t source;
    uint64_t left;      /* GPUs that no pod was given yet */
    unsigned unhealthy; /* GPUs that the kubelet does not give to pods; which ones is not known */
};

struct try_read {
    const struct try_options *options;
    struct try_result *result;
    struct try_node *nodes; /* those with GPUs; sorted by name once all are there */
    uint32_t node_count;
};

static void try_forget_nodes(void *arg)
{
    struct try_read *read = arg;
    cli_view_clear_nodes(&read->result->view);
    read->node_count = 0;
}

static void try_forget_pods(void *arg)
{
    struct try_read *read = arg;
    read->result->pod_count = 0;
    for (uint32_t i = 0; i < read->node_count; i++)
        read->nodes[i].left = read->result->view.picture.nodes[read->nodes[i].source].free;
}

static const char *try_supernode_of(struct try_read *read, const struct gt_node_object *node)
{
    char key[GT_API_NAME_MAX + 1];
    for (const char *keys = read->options->labels; keys;) {
        const char *value =
            gt_text_next_listed(&keys, key, sizeof(key)) ? gt_node_object_label(node, key) : NULL;
        if (value && *value)
            return cli_view_keep(&read->result->view, value);
    }
    return "";
}

static void try_add_node(void *arg, cJSON *json)
{
    struct try_read *read = arg;
    struct cli_view *view = &read->result->view;
    struct cli_view_node more = {.supernode = GT_NONE, .wiring = GT_NONE};
    gt_auto_node_object struct gt_node_object node = {0};
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_node_object_read(json, read->options->resource, &node, &err);
    view->failed |= r == -ENOMEM;
    if (r < 0) {
        cli_view_problem(view, "%s; this node is left out", gt_err_text(err));
        return;
    }
    unsigned gpus = node.gpus > GT_GPUS_MAX ? GT_GPUS_MAX : node.gpus;
    uint64_t healthy = gpus;
    if (!gpus)
        return;
    if (node.gpus > gpus)
        cli_view_problem(view, "nodes/%s: has %u GPUs, %u of them are looked at", node.name, node.gpus, gpus);
    gt_resources_get(&node.allocatable, read->options->resource, &healthy);
    bool usable = node.ready && !node.cordoned;
    struct try_node *grown = cli_view_grown(view, read->nodes, read->node_count, sizeof(*grown));
    if (!grown)
        return;
    read->nodes = grown;
    struct gt_picture_node shown = {.name = cli_view_keep(view, node.name),
                                    .product = "",
                                    .note = usable          ? ""
                                            : node.cordoned ? "cordoned"
                                                            : "not ready",
                                    .known = true,
                                    .use_known = true,
                                    .gpus = gpus,
                                    .free = UINT64_MAX >> (64 - gpus)};
    grown[read->node_count++] = (struct try_node){.name = shown.name,
                                                  .supernode = try_supernode_of(read, &node),
                                                  .source = view->picture.node_count,
                                                  .left = shown.free,
                                                  .unhealthy = healthy < gpus ? gpus - (unsigned)healthy : 0};
    cli_view_append(view, &shown, &more);
}

static int try_by_name(const void *a, const void *b)
{
    return strcmp(((const struct try_node *)a)->name, ((const struct try_node *)b)->name);
}

static int try_by_supernode(const void *a, const void *b)
{
    const struct try_node *x = a, *y = b;
    int order = strcmp(x->supernode, y->supernode);
    return order ? order : strcmp(x->name, y->name);
}

/* A container's pod has so many GPUs of its node, the first that nobody has. */
static uint64_t try_take(struct try_node *node, unsigned gpus)
{
    uint64_t taken = 0;
    for (; gpus && node->left; gpus--) {
        uint64_t bit = UINT64_C(1) << gt_bit_first(node->left);
        node->left &= ~bit;
        taken |= bit;
    }
    return taken;
}

/* A pod whose job cannot be told is one by itself. */
static const char *try_job_of(struct cli_view *view, const struct gt_pod *pod)
{
    struct gt_pod_identity identity;
    gt_auto_buf struct gt_buf key = GT_BUF(4 * GT_API_NAME_MAX);
    if (gt_pod_identify(&pod->meta, &identity, NULL) == 0)
        gt_job_key(&pod->meta, &identity, &key);
    else
        gt_buf_printf(&key, "%s/Pod/%s", pod->meta.namespace_, pod->meta.name);
    return cli_view_keep(view, key.data && !key.failed ? key.data : "");
}

static void try_add_pod(void *arg, cJSON *json)
{
    struct try_read *read = arg;
    struct try_result *result = read->result;
    struct cli_view *view = &result->view;
    struct gt_pod pod;
    char name[2 * GT_API_NAME_MAX + 2];
    gt_pod_read(json, read->options->resource, &pod);
    if (pod.ended || !pod.gpus.total)
        return;
    struct try_node key = {.name = pod.node_name ? pod.node_name : ""}, *node = NULL;
    if (*key.name && read->node_count)
        node = bsearch(&key, read->nodes, read->node_count, sizeof(key), try_by_name);
    if (*key.name && !node) {
        cli_view_problem(view, "pods/%s/%s: runs on %s, which has no GPUs; it is left out",
                         pod.meta.namespace_, pod.meta.name, key.name);
        return;
    }
    struct try_pod *grown = cli_view_grown(view, result->pods, result->pod_count, sizeof(*grown));
    if (!grown)
        return;
    result->pods = grown;
    snprintf(name, sizeof(name), "%s/%s", pod.meta.namespace_, pod.meta.name);
    uint64_t mask = node ? try_take(node, pod.gpus.total) : 0;
    if (node && gt_bit_count(mask) < pod.gpus.total)
        cli_view_problem(view, "pods/%s: asks for %u GPUs, %s has only %u left for it", name, pod.gpus.total,
                         node->name, gt_bit_count(mask));
    grown[result->pod_count++] = (struct try_pod){.job = try_job_of(view, &pod),
                                                  .name = cli_view_keep(view, name),
                                                  .gpus = pod.gpus.total,
                                                  .place = {node ? node->source : GT_NONE, mask}};
}

static int try_read_cluster(struct try_read *read, struct gt_err **err)
{
    cli_auto_api struct cli_api *api = NULL;
    const struct cli_api_list nodes = {
        .resource = &gt_kube_nodes, .on_begin = try_forget_nodes, .on_object = try_add_node, .arg = read};
    const struct cli_api_list pods = {
        .resource = &gt_kube_pods, .on_begin = try_forget_pods, .on_object = try_add_pod, .arg = read};
    GT_TRY(cli_api_open(&read->options->api, &api, err));
    GT_TRY(cli_api_list(api, &nodes, err));
    if (!read->node_count)
        return gt_fail(err, ENOENT, "no node has GPUs: none has %s in status.capacity",
                       read->options->resource);
    qsort(read->nodes, read->node_count, sizeof(*read->nodes), try_by_name);
    return cli_api_list(api, &pods, err);
}

/* ---- the model ---- */

/* The supernode of the nodes [first, end), as the companion would publish it. */
static int try_add_supernode(struct try_read *read, uint32_t first, uint32_t end, struct gt_err **err)
{
    gt_auto_free struct gt_supernode_member *members = calloc(end - first, sizeof(*members));
    GT_NEED(members, err, "cluster");
    for (uint32_t i = first; i < end; i++)
        members[i - first] = (struct gt_supernode_member){.node = read->nodes[i].name};
    struct gt_supernode_object object = {.name = read->nodes[first].supernode,
                                         .tier = 1,
                                         .parent = "",
                                         .members = gt_steal(members),
                                         .member_count = end - first};
    cli_view_add_object(&read->result->view, NULL, &object);
    return 0;
}

static int try_make_view(struct try_read *read, struct gt_err **err)
{
    struct try_result *result = read->result;
    struct cli_view *view = &result->view;
    for (uint32_t i = 0; i < result->pod_count; i++) {
        const struct try_pod *pod = &result->pods[i];
        struct gt_picture_pod *grown =
            pod->place.node == GT_NONE || !pod->place.mask
                ? NULL
                : cli_view_grown(view, view->picture.pods, view->picture.pod_count, sizeof(*grown));
        if (!grown)
            continue;
        const char *slash = strchr(pod->name, '/');
        char namespace_[GT_API_NAME_MAX + 1];
        snprintf(namespace_, sizeof(namespace_), "%.*s", (int)(slash - pod->name), pod->name);
        view->picture.pods = grown;
        grown[view->picture.pod_count++] =
            (struct gt_picture_pod){.namespace_ = cli_view_keep(view, namespace_),
                                    .name = slash + 1,
                                    .job = pod->job,
                                    .place = pod->place,
                                    .unit = GT_NONE,
                                    .rank = GT_NONE};
    }
    for (uint32_t i = 0; i < read->node_count; i++) {
        struct gt_picture_node *node = &view->picture.nodes[read->nodes[i].source];
        node->used = node->free & ~read->nodes[i].left;
        uint64_t left = read->nodes[i].left;
        for (unsigned bad = read->nodes[i].unhealthy; bad && left; bad--, left &= left - 1)
            node->unhealthy |= left & -left;
        node->free = *node->note ? 0 : left;
    }
    qsort(read->nodes, read->node_count, sizeof(*read->nodes), try_by_supernode);
    for (uint32_t i = 0, end; i < read->node_count; i = end) {
        for (end = i + 1;
             end < read->node_count && strcmp(read->nodes[end].supernode, read->nodes[i].supernode) == 0;)
            end++;
        if (*read->nodes[i].supernode)
            GT_TRY(try_add_supernode(read, i, end, err));
        else
            result->alone = end - i;
    }
    return cli_view_finish(view, err);
}

static void try_done(struct try_result *result)
{
    if (result->file)
        gt_cluster_file_free(result->file);
    cli_view_done(&result->view);
    for (unsigned i = 0; i < GT_COUNT(result->empty); i++)
        free(result->empty[i]);
    free(result->pods);
    free(result->jobs);
}
#define try_auto_result __attribute__((cleanup(try_done)))

static int run_try(struct cli_call *call)
{
    const struct try_options *options = call->options;
    try_auto_result struct try_result result = {.labels = options->labels};
    struct try_read read = {.options = options, .result = &result};
    cli_view_init(&result.view, (int64_t)time(NULL), false);
    int r = try_read_cluster(&read, call->err);
    if (r >= 0)
        r = try_make_view(&read, call->err);
    free(read.nodes);
    if (r >= 0)
        r = try_find(&result, call->err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < result.view.problem_count && i < TRY_PROBLEMS; i++)
        cli_warn(call->verb->name, result.view.problems[i]);
    if (options->parse.format == CLI_TEXT)
        try_write_text(&result, call->text);
    else if (options->parse.format == TRY_HTML)
        try_write_html(&result, call->text);
    else
        try_write_json(&result, call->text);
    return 0;
}
const struct cli_verb cli_try = {
    .name = "try",
    .about = "look at a cluster where gputopo is not installed",
    .command = {.about = "Look at a cluster where gputopo is not installed: which units would fit, which "
                         "running jobs lie apart, and what gputopo would change. It lists Nodes and Pods and "
                         "writes nothing.",
                .more = "Example: gputopo try --supernode-label example.com/rack -o html > cluster.html",
                CLI_OPTIONS(try_options)},
    .options_size = sizeof(struct try_options),
    .defaults = &try_defaults,
    .run = run_try};
