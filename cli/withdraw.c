/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "api/node.h"
#include "api/pod.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "cli/api.h"
#include "cli/cli.h"
#include "kube/client.h"
#include "kube/status.h"

/* Takes back what agents and companion have written into a cluster, once they are gone. */

enum { OBJECTS_MAX = 200000 };

/* an agent as a writer of Nodes */
static const char *const writers[] = {GT_MANAGER_AGENT, GT_MANAGER_LABELS};

static const cJSON *metadata_of(const cJSON *object)
{
    return gt_get(object, "metadata");
}

static bool is_any(const cJSON *object)
{
    (void)object;
    return true;
}

/* Others make objects of these kinds, too. */
static bool is_companions(const cJSON *object)
{
    const cJSON *labels = gt_get(metadata_of(object), "labels");
    return strcmp(gt_get_string(labels, GT_LABEL_MANAGED_BY), GT_COMPANION_NAME) == 0;
}

static bool has_writer(const cJSON *object, const char *writer)
{
    const cJSON *one, *fields = gt_get(metadata_of(object), "managedFields");
    cJSON_ArrayForEach(one, fields)
    {
        if (strcmp(gt_get_string(one, "manager"), writer) == 0 &&
            strcmp(gt_get_string(one, "operation"), "Apply") == 0)
            return true;
    }
    return false;
}

static bool is_written(const cJSON *object)
{
    for (size_t i = 0; i < GT_COUNT(writers); i++)
        if (has_writer(object, writers[i]))
            return true;
    return false;
}

/* Those of a pod that waits behind ours; NULL: it does not, or is no pod. */
static const cJSON *gates_of(const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    return pod.gated ? pod.gates : NULL;
}

static bool is_gated(const cJSON *object)
{
    return gates_of(object);
}

/* ---- what there is ---- */

struct object_search {
    bool (*wanted)(const cJSON *object);
    cJSON *found; /* array of objects with what is needed to take them back */
    unsigned count;
    bool full;
};

static void on_begin(void *arg)
{
    struct object_search *search = arg;
    search->count = 0;
    while (cJSON_GetArraySize(search->found))
        cJSON_DeleteItemFromArray(search->found, 0);
}

static void on_object(void *arg, cJSON *object)
{
    struct object_search *search = arg;
    static const char *const kept[] = {"name", "namespace", "uid", "resourceVersion"};
    if (!search->wanted(object))
        return;
    search->full |= search->count++ >= OBJECTS_MAX;
    if (search->full)
        return;
    cJSON *one = cJSON_CreateObject(), *gates;
    for (size_t i = 0; one && i < GT_COUNT(kept); i++)
        search->full |= !cJSON_AddStringToObject(one, kept[i], gt_get_string(metadata_of(object), kept[i]));
    if (one && gates_of(object))
        search->full |=
            !(gates = cJSON_Duplicate(gates_of(object), true)) || !cJSON_AddItemToObject(one, "gates", gates);
    search->full |= !one || !cJSON_AddItemToArray(search->found, one);
}

/* ---- taking it back ---- */

/* The other gates of a waiting pod stay; nobody would ever take ours off. */
static int ungate(struct cli_api *api, const struct gt_kube_resource *resource, const cJSON *one,
                  struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    const cJSON *other;
    gt_json_begin(&body, NULL, '{');
    gt_json_begin(&body, "metadata", '{');
    gt_json_add_text(&body, "resourceVersion", gt_get_string(one, "resourceVersion"));
    gt_json_end(&body, '}');
    gt_json_begin(&body, "spec", '{');
    gt_json_begin(&body, "schedulingGates", '[');
    cJSON_ArrayForEach(other, gt_get(one, "gates"))
    {
        if (strcmp(gt_get_string(other, "name"), GT_GATE) == 0)
            continue;
        gt_json_begin(&body, NULL, '{');
        gt_json_add_text(&body, "name", gt_get_string(other, "name"));
        gt_json_end(&body, '}');
    }
    gt_buf_puts(&body, "]}}");
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = resource,
                                            .namespace_ = gt_get_string(one, "namespace"),
                                            .name = gt_get_string(one, "name"),
                                            .body = body.data,
                                            .metadata_only = true};
    return cli_api_request(api, &request, NULL, err);
}

static int delete_one(struct cli_api *api, const struct gt_kube_resource *resource, const cJSON *one,
                      struct gt_err **err)
{
    const struct gt_kube_request request = {.verb = GT_KUBE_DELETE,
                                            .resource = resource,
                                            .namespace_ =
                                                resource->namespaced ? gt_get_string(one, "namespace") : NULL,
                                            .name = gt_get_string(one, "name")};
    return cli_api_request(api, &request, NULL, err);
}

/* An apply without fields gives up those that this writer had. */
static int empty_node(struct cli_api *api, const struct gt_kube_resource *resource, const cJSON *one,
                      struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    gt_node_object_write(gt_get_string(one, "name"), gt_get_string(one, "uid"), GT_NODE_NOTHING, NULL, 0,
                         &body);
    int r = 0;
    for (size_t i = 0; r >= 0 && i < GT_COUNT(writers); i++) {
        const struct gt_kube_request request = {.verb = GT_KUBE_APPLY,
                                                .resource = resource,
                                                .name = gt_get_string(one, "name"),
                                                .body = body.data,
                                                .field_manager = writers[i],
                                                .metadata_only = true};
        r = cli_api_request(api, &request, NULL, err);
    }
    return r;
}

static const struct withdrawn_kind {
    const char *name;
    const struct gt_kube_resource *resource;
    const char *fields; /* those that may be wanted; then whole objects are read */
    bool (*wanted)(const cJSON *object);
    int (*take)(struct cli_api *api, const struct gt_kube_resource *resource, const cJSON *one,
                struct gt_err **err);
} kinds[] = {
    {"Pods", &gt_kube_pods, "status.phase=Pending", is_gated, ungate},
    {"Nodes", &gt_kube_nodes, NULL, is_written, empty_node},
    {"NodeGPUTopologies", &gt_kube_node_gpu_topologies, NULL, is_any, delete_one},
    {"Supernodes", &gt_kube_supernodes, NULL, is_companions, delete_one},
    {"GPUPlacements", &gt_kube_gpu_placements, NULL, is_any, delete_one},
    {"HyperNodes", &gt_kube_hypernodes, NULL, is_companions, delete_one},
    {"NodeFeatures", &gt_kube_nodefeatures, NULL, is_companions, delete_one},
};

/* The error is forgotten where it says that there is no such thing. */
static int unless_absent(int r, struct gt_err **err)
{
    if (r != -ENOENT)
        return r;
    gt_err_free(gt_steal(*err));
    return 0;
}

static int take_back(struct cli_api *api, const struct withdrawn_kind *kind, unsigned *ret,
                     struct gt_err **err)
{
    struct object_search search = {.wanted = kind->wanted, .found = cJSON_CreateArray()};
    const struct cli_api_list list = {.resource = kind->resource,
                                      .fields = kind->fields,
                                      .names_only = !kind->fields,
                                      .on_begin = on_begin,
                                      .on_object = on_object,
                                      .arg = &search};
    const cJSON *one;
    int r = search.found ? unless_absent(cli_api_list(api, &list, err), err)
                         : gt_fail_sys(err, ENOMEM, "%s", kind->name);
    if (r >= 0 && search.full)
        r = gt_fail(err, ENOMEM, "%s: no room for more than %d", kind->name,
                    cJSON_GetArraySize(search.found));
    cJSON_ArrayForEach(one, search.found)
    {
        if (r < 0)
            break;
        r = unless_absent(kind->take(api, kind->resource, one, err), err);
        *ret += r >= 0;
    }
    cJSON_Delete(search.found);
    return r;
}

/* A lease of ours, where the configuration's namespace has it. */
static int delete_lease(struct cli_api *api, const char *name, struct gt_err **err)
{
    const struct gt_kube_request request = {.verb = GT_KUBE_DELETE,
                                            .resource = &gt_kube_leases,
                                            .namespace_ = cli_api_namespace(api),
                                            .name = name};
    return unless_absent(cli_api_request(api, &request, NULL, err), err);
}

/* ---- the verb ---- */

struct withdraw_options {
    struct cli_parse parse;
    struct cli_api_options api;
};

static const struct gt_option own_options[] = {
    CLI_API_OPTIONS(struct withdraw_options),
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .about =
        "Take back what agents and companion have written into a cluster: the gates of pods that wait, "
        "labels and annotations of Nodes, and the objects that they made. For a cluster that gputopo was "
        "removed from; agents that "
        "still run write it again.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct withdraw_options options = {.parse = {.verb = verb->name}};
    int exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    gt_auto_err struct gt_err *err = NULL;
    cli_auto_api struct cli_api *api = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1024);
    int r = cli_api_open(&options.api, &api, &err);
    for (size_t i = 0; r >= 0 && i < GT_COUNT(kinds); i++) {
        unsigned count = 0;
        r = take_back(api, &kinds[i], &count, &err);
        gt_buf_printf(&text, "%s%u %s", i ? ", " : "", count, kinds[i].name);
    }
    if (r >= 0)
        r = delete_lease(api, GT_COMPANION_NAME, &err);
    if (r >= 0)
        r = delete_lease(api, GT_VC_SCHEDULER_NAME, &err);
    if (r < 0)
        return cli_failed(verb->name, err);
    gt_buf_puts(&text, "\n");
    return cli_print(verb->name, &text);
}
const struct cli_verb cli_withdraw = {"withdraw", run};
