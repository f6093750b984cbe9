/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/node.h"
#include "api/pod_patch.h"
#include "base/json.h"
#include "base/json_write.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "kube/client.h"

/* Removes what agents and the companion have written into a cluster, after they were uninstalled. */

enum { OBJECTS_MAX = 200000, TAINTS_MAX = 64 << 10 };

/* The field managers by which agents apply to Nodes, and what. */
static const struct {
    const char *manager, *subresource;
} writers[] = {{GT_MANAGER_AGENT, NULL}, {GT_MANAGER_LABELS, NULL}, {GT_MANAGER_CONDITION, "status"}};

/* What is needed of an object to remove or change it. */
struct withdrawn {
    char *namespace_, *name, *uid, *version;
    struct gt_pod_lists lists; /* of a pod */
};

static void withdrawn_done(struct withdrawn *withdrawn)
{
    free(withdrawn->namespace_);
    free(withdrawn->name);
    free(withdrawn->uid);
    free(withdrawn->version);
    gt_pod_lists_done(&withdrawn->lists);
}

/* ---- whether it exists ---- */

static bool is_written(const cJSON *object)
{
    for (size_t i = 0; i < GT_COUNT(writers); i++)
        if (gt_meta_is_applied_by(object, writers[i].manager))
            return true;
    return gt_meta_is_updated_by(object, GT_MANAGER_COMPANION); /* a taint */
}

static bool is_gated(const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    return pod.gated;
}

/* ---- what there is ---- */

struct withdrawn_kind {
    const char *name, *how; /* "2 Pods", "remove the gate of pods x/y" */
    const struct gt_kube_resource *resource;
    const char *fields;                  /* pods that may have our gate; they are then read as a whole */
    bool (*wanted)(const cJSON *object); /* NULL: all; other programs create objects of some kinds, too */
    int (*take)(struct cli_api *api, const struct gt_kube_resource *resource, const struct withdrawn *one,
                struct gt_err **err);
};

struct object_search {
    const struct withdrawn_kind *kind;
    struct withdrawn *found;
    unsigned count, capacity, taken;
    struct gt_err *error;
};

static void withdraw_on_begin(void *arg)
{
    struct object_search *search = arg;
    while (search->count)
        withdrawn_done(&search->found[--search->count]);
}

static int withdraw_keep(struct object_search *search, const cJSON *object, struct gt_err **err)
{
    const struct withdrawn_kind *kind = search->kind;
    if (kind->wanted && !kind->wanted(object))
        return 0;
    if (search->count == OBJECTS_MAX)
        return gt_fail(err, ENOMEM, "%s: no room for more than %d", kind->name, OBJECTS_MAX);
    GT_NEED(GT_GROW(search->found, search->count, search->capacity, 64U), err, "%s", kind->name);
    struct withdrawn *one = &search->found[search->count++];
    *one = (struct withdrawn){.namespace_ = strdup(gt_meta_namespace(object)),
                              .name = strdup(gt_meta_name(object)),
                              .uid = strdup(gt_meta_uid(object)),
                              .version = strdup(gt_meta_version(object))};
    GT_NEED(one->namespace_ && one->name && one->uid && one->version, err, "%s", kind->name);
    if (kind->fields) {
        struct gt_pod pod;
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        GT_TRY(gt_pod_lists_read(&pod, &one->lists, err));
    }
    return 0;
}

static void withdraw_on_object(void *arg, cJSON *object)
{
    struct object_search *search = arg;
    if (!search->error)
        withdraw_keep(search, object, &search->error);
}

/* ---- taking it back ---- */

/* Other gates of a waiting pod stay; only our gate is removed, since no program would remove it later. */
static int ungate(struct cli_api *api, const struct gt_kube_resource *resource,
                  const struct withdrawn *withdrawn, struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(GT_POD_LISTS_MAX + 4096);
    gt_pod_patch_write(&(struct gt_pod_patch){.uid = withdrawn->uid,
                                              .resource_version = withdrawn->version,
                                              .lists = &withdrawn->lists,
                                              .ungate = true},
                       &body);
    GT_TRY(gt_buf_check(&body, "pod", err));
    return cli_api_patch(api, resource, withdrawn->namespace_, withdrawn->name, body.data, err);
}

static int delete_one(struct cli_api *api, const struct gt_kube_resource *resource,
                      const struct withdrawn *withdrawn, struct gt_err **err)
{
    const struct gt_kube_request request = {.verb = GT_KUBE_DELETE,
                                            .resource = resource,
                                            .namespace_ = resource->namespaced ? withdrawn->namespace_ : NULL,
                                            .name = withdrawn->name};
    return cli_api_request(api, &request, NULL, err);
}

/* The companion's taint; that of nobody else. */
static int untaint(struct cli_api *api, const char *name, struct gt_err **err)
{
    gt_auto_json cJSON *node = NULL;
    gt_auto_buf struct gt_buf body = GT_BUF(TAINTS_MAX);
    GT_TRY(cli_api_get(api, &gt_kube_nodes, name, &node, err));
    if (!gt_node_taint_write(node, GT_TAINT_KEY_GPUS, NULL, &body))
        return 0;
    GT_TRY(gt_buf_check(&body, "taints", err));
    return cli_api_patch(api, &gt_kube_nodes, NULL, name, body.data, err);
}

/* An apply without fields removes the fields that this field manager owned. */
static int empty_node(struct cli_api *api, const struct gt_kube_resource *resource,
                      const struct withdrawn *withdrawn, struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    gt_node_object_write(withdrawn->name, withdrawn->uid, GT_NODE_NOTHING, NULL, 0, &body);
    int r = 0;
    for (size_t i = 0; r >= 0 && i < GT_COUNT(writers); i++) {
        const struct gt_kube_request request = {.verb = GT_KUBE_APPLY,
                                                .resource = resource,
                                                .name = withdrawn->name,
                                                .body = body.data,
                                                .subresource = writers[i].subresource,
                                                .field_manager = writers[i].manager,
                                                .metadata_only = true};
        r = cli_api_request(api, &request, NULL, err);
    }
    return r < 0 ? r : untaint(api, withdrawn->name, err);
}

static const struct withdrawn_kind kinds[] = {
    /* --gates: the first alone */
    {"Pods", "remove the gate of", &gt_kube_pods, "status.phase=Pending", is_gated, ungate},
    {"Nodes", "remove our labels, annotations, condition and taint of", &gt_kube_nodes, NULL, is_written,
     empty_node},
    {"NodeGPUTopologies", "delete", &gt_kube_node_gpu_topologies, NULL, NULL, delete_one},
    {"Supernodes", "delete", &gt_kube_supernodes, NULL, gt_meta_is_companions, delete_one},
    {"GPUPlacements", "delete", &gt_kube_gpu_placements, NULL, NULL, delete_one},
    {"HyperNodes", "delete", &gt_kube_hypernodes, NULL, gt_meta_is_companions, delete_one},
    {"NodeFeatures", "delete", &gt_kube_nodefeatures, NULL, gt_meta_is_companions, delete_one},
};

/* An error that says that the object does not exist is ignored. */
static int unless_absent(int r, struct gt_err **err)
{
    if (r != -ENOENT)
        return r;
    gt_err_free(gt_steal(*err));
    return 0;
}

static int find_objects(struct cli_api *api, struct object_search *search, struct gt_err **err)
{
    const struct cli_api_list list = {.resource = search->kind->resource,
                                      .fields = search->kind->fields,
                                      .names_only = !search->kind->fields,
                                      .on_begin = withdraw_on_begin,
                                      .on_object = withdraw_on_object,
                                      .arg = search};
    int r = unless_absent(cli_api_list(api, &list, err), err);
    return r < 0 || !search->error ? r : gt_err_pass(err, &search->error);
}

static int withdraw_take_back(struct cli_api *api, struct object_search *search, struct gt_err **err)
{
    int r = 0;
    unsigned gone = 0;
    for (unsigned i = 0; r >= 0 && i < search->count; i++) {
        r = unless_absent(search->kind->take(api, search->kind->resource, &search->found[i], err), err);
        gone += r >= 0;
    }
    search->taken = gone;
    return r;
}

/* ---- our Leases, in the configuration's namespace ---- */

static const char *const leases[] = {GT_COMPANION_NAME, GT_VC_SCHEDULER_NAME};

/* GT_KUBE_GET finds out whether it exists, which needs a right that deleting it does not. */
static int ask_for_lease(struct cli_api *api, enum gt_kube_verb verb, const char *name, struct gt_err **err)
{
    const struct gt_kube_request request = {
        .verb = verb, .resource = &gt_kube_leases, .namespace_ = cli_api_namespace(api), .name = name};
    return cli_api_request(api, &request, NULL, err);
}

/* ---- the verb ---- */

struct withdraw_options {
    struct cli_parse parse;
    struct cli_api_options api;
    bool gates, dry_run, yes;
};

static const struct gt_option own_options[] = {
    CLI_API_OPTIONS(struct withdraw_options),
    {"gates", NULL, "only the gates of pods that wait", gt_option_set,
     GT_OPTION_FIELD(struct withdraw_options, gates)},
    {"dry-run", NULL, "list what would be deleted and changed, and change nothing", gt_option_set,
     GT_OPTION_FIELD(struct withdraw_options, dry_run)},
    CLI_OWN_FORMAT_OPTION("of --dry-run: text (default), json or yaml", cli_formats),
    {"yes", NULL, "do not ask; needed where there is no terminal", gt_option_set,
     GT_OPTION_FIELD(struct withdraw_options, yes)},
    CLI_HELP_OPTION,
};

/* What there is, and how much of it. */
struct withdrawal {
    struct cli_api *api;
    struct object_search searches[GT_COUNT(kinds)];
    size_t count; /* of searches */
    bool gates, empty;
};

static void withdrawal_done(struct withdrawal *withdrawal)
{
    for (size_t i = 0; i < withdrawal->count; i++) {
        withdraw_on_begin(&withdrawal->searches[i]);
        free(withdrawal->searches[i].found);
        gt_err_free(withdrawal->searches[i].error);
    }
    if (withdrawal->api)
        cli_api_free(withdrawal->api);
}
#define withdraw_auto __attribute__((cleanup(withdrawal_done)))

static int find_all(struct withdrawal *withdrawal, struct gt_err **err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < withdrawal->count; i++)
        r = find_objects(withdrawal->api, &withdrawal->searches[i], err);
    return r;
}

static void withdraw_count_all(const struct withdrawal *withdrawal, bool taken, struct gt_buf *to)
{
    for (size_t i = 0; i < withdrawal->count; i++)
        gt_buf_printf(to, "%s%u %s", i ? ", " : "",
                      taken ? withdrawal->searches[i].taken : withdrawal->searches[i].count,
                      withdrawal->searches[i].kind->name);
    gt_buf_puts(to, "\n");
}

static void withdraw_list_one(const char *how, const struct gt_kube_resource *resource,
                              const char *namespace_, const char *name, bool json, struct gt_buf *to)
{
    if (json)
        gt_json_printf(to, "{'action': %s, 'resource': %s, ?'namespace': %s, 'name': %s}",
                       strcmp(how, "delete") == 0 ? how : "change", resource->plural, namespace_, name);
    else
        gt_buf_printf(to, "%s %s %s%s%s\n", how, resource->plural, namespace_, *namespace_ ? "/" : "", name);
}

/* One line for each change, and how many they are. */
static int list_all(struct withdrawal *withdrawal, bool json, struct gt_buf *to, struct gt_err **err)
{
    if (json)
        gt_json_printf(to, "{'changes': [");
    for (size_t i = 0; i < withdrawal->count; i++)
        for (unsigned k = 0; k < withdrawal->searches[i].count; k++) {
            const struct withdrawn_kind *kind = withdrawal->searches[i].kind;
            const struct withdrawn *one = &withdrawal->searches[i].found[k];
            withdraw_list_one(kind->how, kind->resource, one->namespace_, one->name, json, to);
        }
    for (size_t i = 0; !withdrawal->gates && i < GT_COUNT(leases); i++) {
        int r = ask_for_lease(withdrawal->api, GT_KUBE_GET, leases[i], err);
        if (r >= 0)
            withdraw_list_one("delete", &gt_kube_leases, cli_api_namespace(withdrawal->api), leases[i], json,
                              to);
        GT_TRY(unless_absent(r, err));
    }
    withdrawal->empty = !to->len;
    if (json)
        gt_json_ends(to, "]}");
    else
        withdraw_count_all(withdrawal, false, to);
    return gt_buf_check(to, "the list", err);
}

static int change_all(struct withdrawal *withdrawal, struct gt_err **err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < withdrawal->count; i++)
        r = withdraw_take_back(withdrawal->api, &withdrawal->searches[i], err);
    for (size_t i = 0; r >= 0 && !withdrawal->gates && i < GT_COUNT(leases); i++)
        r = unless_absent(ask_for_lease(withdrawal->api, GT_KUBE_DELETE, leases[i], err), err);
    return r;
}

/* What is there is looked for again after the answer: it may have taken long. */
static int ask_person(struct withdrawal *withdrawal, struct gt_err **err)
{
    char answer[16] = "";
    fputs("Change this? [y/N] ", stdout);
    fflush(stdout);
    char *said = fgets(answer, sizeof(answer), stdin);
    answer[strcspn(answer, "\r\n")] = '\0';
    if (!said || (strcasecmp(answer, "y") != 0 && strcasecmp(answer, "yes") != 0))
        return gt_fail(err, ECANCELED, "not confirmed: nothing was changed");
    return find_all(withdrawal, err);
}

static int withdraw_run(struct cli_call *call)
{
    const struct withdraw_options *options = call->options;
    bool asks = !options->yes && !options->dry_run;
    bool json = options->parse.format != CLI_TEXT;
    if (json && !options->dry_run)
        return cli_misuse(call, "-o: only together with --dry-run");
    if (asks && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return cli_misuse(call, "there is no terminal to ask at: give --yes, or --dry-run for a list");
    withdraw_auto struct withdrawal all = {.count = options->gates ? 1 : GT_COUNT(kinds),
                                           .gates = options->gates};
    for (size_t i = 0; i < all.count; i++)
        all.searches[i].kind = &kinds[i];
    gt_auto_buf struct gt_buf list = GT_BUF(CLI_OUTPUT_MAX);
    GT_TRY(cli_api_open(&options->api, &all.api, call->err));
    GT_TRY(find_all(&all, call->err));
    if (asks || options->dry_run)
        GT_TRY(list_all(&all, json, json ? &list : call->text, call->err));
    if (json)
        gt_json_indent(&list, call->text);
    if (options->dry_run || all.empty)
        return 0;
    if (asks) {
        call->exit_code = cli_print(call->verb->name, call->text);
        gt_buf_consume(call->text, call->text->len);
        if (call->exit_code != CLI_DONE)
            return 0;
        GT_TRY(ask_person(&all, call->err));
    }
    GT_TRY(change_all(&all, call->err));
    withdraw_count_all(&all, true, call->text);
    return 0;
}
const struct cli_verb cli_withdraw = {
    .name = "withdraw",
    .about = "take back what a removed gputopo has written into a cluster",
    .command =
        {.about =
             "Take back what agents and companion have written into a cluster: the gates of pods that wait, "
             "labels and annotations of Nodes, and the objects that they made. It lists them and asks "
             "first. For a cluster that gputopo was removed from, or (--gates) where nobody plans jobs any "
             "more; agents that still run write it again.",
         .more = "Example: gputopo withdraw --dry-run",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct withdraw_options),
    .run = withdraw_run};
