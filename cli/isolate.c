/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/isolation.h"
#include "api/meta.h"
#include "api/node_gpu_topology.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "cli/api.h"
#include "cli/cli.h"

/* Takes GPUs, links and nodes out of use by hand, and gives them back: `spec.isolated` of NodeGPUTopologies.
 */

enum { ENTRY_MAX = 8192, CONFLICTS_MAX = 5, SPAN_MAX_S = 366 * 86400 };

static const char *const isolate_grades[] = {GT_GRADE_BAD, "slow", "suspect", NULL};

static const struct gt_kube_resource self_reviews = {"authentication.k8s.io", "v1", "selfsubjectreviews",
                                                     false};

struct isolate_options {
    struct cli_parse parse;
    struct cli_api_options api;
    const char *reason, *value;
    unsigned grade;  /* in isolate_grades */
    uint64_t span_s; /* 0: until it is released */
    bool link, evict;
};

/* ---- what is named: NODE[/GPU[,GPU]...] ---- */

struct isolated_target {
    char node[GT_API_NAME_MAX + 1];
    unsigned count; /* of GPUs; 0: the whole node */
    char gpus[GT_GPUS_MAX][GT_ID_SIZE];
    bool link;
};

static int isolate_read_target(const char *text, bool link, struct isolated_target *ret, struct gt_err **err)
{
    const char *slash = strchr(text, '/'), *rest = slash ? slash + 1 : NULL;
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    *ret = (struct isolated_target){.link = link};
    if (!len || len >= sizeof(ret->node))
        return gt_fail(err, EINVAL, "'%.100s': expected NODE or NODE/GPU,GPU", text);
    memcpy(ret->node, text, len);
    while (rest) {
        if (ret->count == GT_GPUS_MAX ||
            !gt_text_next_listed(&rest, ret->gpus[ret->count], sizeof(ret->gpus[0])) ||
            !ret->gpus[ret->count][0])
            return gt_fail(err, EINVAL, "'%.100s': expected indices or UUIDs of GPUs after the slash", text);
        ret->count++;
    }
    if (link && ret->count != 2)
        return gt_fail(err, EINVAL, "--link: '%.100s' does not name two GPUs, expected NODE/GPU,GPU", text);
    return 0;
}

/* A UUID stays with the card; a GPU that has none goes by its index. */
static int isolate_name_gpu(const struct gt_node *node, char gpu[static GT_ID_SIZE], struct gt_err **err)
{
    int index = gt_node_gpu_named(node, gpu);
    if (index < 0)
        return gt_fail(err, EINVAL, "node %s has no GPU '%.100s', expected 0..%u or a UUID", node->name, gpu,
                       node->gpu_count ? node->gpu_count - 1 : 0);
    if (node->gpus[index].uuid[0])
        gt_text_copy(gpu, GT_ID_SIZE, node->gpus[index].uuid);
    else
        snprintf(gpu, GT_ID_SIZE, "%d", index);
    return 0;
}

static int isolate_check_link(const struct gt_node *node, const struct isolated_target *target,
                              struct gt_err **err)
{
    const struct gt_link *link = gt_node_link(node, (unsigned)gt_node_gpu_named(node, target->gpus[0]),
                                              (unsigned)gt_node_gpu_named(node, target->gpus[1]));
    if (link && (link->kind == GT_LINK_MX || link->kind == GT_LINK_UNKNOWN))
        return 0;
    return gt_fail(err, EINVAL, "node %s has no direct link between these GPUs", node->name);
}

/* ---- the list in the object ---- */

static bool is_same_gpu(const struct gt_node *node, const char *a, const char *b)
{
    int index = gt_node_gpu_named(node, a);
    return strcasecmp(a, b) == 0 || (index >= 0 && index == gt_node_gpu_named(node, b));
}

/* Whether an entry is about this GPU of the target, or about its link, or about all. */
static bool isolate_is_about(const cJSON *entry, const struct gt_node *node,
                             const struct isolated_target *target, unsigned i)
{
    const cJSON *link = gt_get(entry, "link");
    const char *a = cJSON_GetStringValue(cJSON_GetArrayItem(link, 0));
    const char *b = cJSON_GetStringValue(cJSON_GetArrayItem(link, 1));
    if (!target->count)
        return cJSON_IsTrue(gt_get(entry, "all"));
    if (!target->link)
        return is_same_gpu(node, gt_get_string(entry, "gpu"), target->gpus[i]);
    return a && b &&
           ((is_same_gpu(node, a, target->gpus[0]) && is_same_gpu(node, b, target->gpus[1])) ||
            (is_same_gpu(node, a, target->gpus[1]) && is_same_gpu(node, b, target->gpus[0])));
}

/* Moves what is dropped to `gone`. A whole node that is released is released of everything. */
static void isolate_drop(cJSON *list, const struct gt_node *node, const struct isolated_target *target,
                         unsigned i, cJSON *gone)
{
    bool everything = gone && !target->count;
    for (cJSON *entry = list->child, *next; entry; entry = next) {
        next = entry->next;
        if (!everything && !isolate_is_about(entry, node, target, i))
            continue;
        cJSON_DetachItemViaPointer(list, entry);
        if (!gone || !cJSON_AddItemToArray(gone, entry))
            cJSON_Delete(entry);
    }
}

/* What is over goes only where room is needed: the clock here may be wrong. */
static void isolate_drop_ended(cJSON *list)
{
    for (cJSON *entry = list->child, *next; entry && cJSON_GetArraySize(list) > GT_ISOLATIONS_MAX;
         entry = next) {
        next = entry->next;
        if (gt_isolated_is_over(entry, time(NULL)))
            cJSON_Delete(cJSON_DetachItemViaPointer(list, entry));
    }
}

static bool isolate_add(cJSON *list, const struct isolated_target *target, unsigned i,
                        const struct isolate_options *options, const char *by)
{
    gt_auto_buf struct gt_buf text = GT_BUF(ENTRY_MAX);
    char since[GT_TIME_TEXT_SIZE], until[GT_TIME_TEXT_SIZE] = "";
    gt_time_text(time(NULL), since);
    if (options->span_s)
        gt_time_text((int64_t)time(NULL) + (int64_t)options->span_s, until);
    if (target->link)
        gt_json_printf(&text, "{'link': [%s, %s]", target->gpus[0], target->gpus[1]);
    else
        gt_json_printf(&text, "{?'gpu': %s, ?'all': !%d", target->count ? target->gpus[i] : "",
                       !target->count);
    gt_json_printf(
        &text,
        "?'grade': %s, ?'value': %s, 'reason': %s, ?'evict': !%d, ?'by': %s, 'since': %s, ?'until': %s}",
        options->grade ? isolate_grades[options->grade] : "", options->value, options->reason, options->evict,
        by, since, until);
    return gt_json_attach(list, NULL, text.failed ? NULL : cJSON_Parse(text.data));
}

/* Who asks, as the API server sees it; "" where it does not say: the policy then refuses the entry, if there
 * is one. The text belongs to *ret_review. */
static const char *isolate_who(struct cli_api *api, cJSON **ret_review)
{
    const struct gt_kube_request request = {
        .verb = GT_KUBE_CREATE, .resource = &self_reviews, .body = GT_SELF_REVIEW};
    return cli_api_request(api, &request, ret_review, NULL) < 0 ? "" : gt_self_review_user(*ret_review);
}

static int isolate_patch(struct cli_api *api, const char *name, const char *version, const cJSON *list,
                         struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(256 << 10);
    gt_isolated_patch_write(version, list, &body);
    GT_TRY(gt_buf_check(&body, "patch", err));
    return cli_api_patch(api, &gt_kube_node_gpu_topologies, NULL, name, body.data, err);
}

struct isolate_change {
    const struct isolate_options *options;
    const char *by;  /* NULL: it releases */
    cJSON *released; /* then: what is named, and what the node had of that */
};

/* False without memory. */
static bool isolate_note_released(const struct isolated_target *target, unsigned i, cJSON *released)
{
    const char *const link[] = {target->gpus[0], target->gpus[1]};
    cJSON *entry = cJSON_CreateObject();
    return gt_json_attach(released, NULL, entry) &&
           gt_json_attach(entry, target->link ? "link" : "gpu",
                          target->link ? cJSON_CreateStringArray(link, 2)
                                       : cJSON_CreateString(target->gpus[i]));
}

static int isolate_change_list(cJSON *list, const struct gt_node *node, struct isolated_target target,
                               const struct isolate_change *change, struct gt_err **err)
{
    const char *by = change->by;
    unsigned entries = target.count && !target.link ? target.count : 1;
    int before = cJSON_GetArraySize(list);
    for (unsigned i = 0; i < target.count; i++)
        if (by || gt_node_gpu_named(node, target.gpus[i]) >= 0)
            GT_TRY(isolate_name_gpu(node, target.gpus[i], err));
    if (by && target.link)
        GT_TRY(isolate_check_link(node, &target, err));
    for (unsigned i = 0; i < entries; i++) {
        isolate_drop(list, node, &target, i, change->released);
        if (by ? !isolate_add(list, &target, i, change->options, by)
               : target.count && !isolate_note_released(&target, i, change->released))
            return gt_fail_sys(err, ENOMEM, "%s", target.node);
    }
    isolate_drop_ended(list);
    if (cJSON_GetArraySize(list) > GT_ISOLATIONS_MAX)
        return gt_fail(err, EINVAL, "node %s has %d isolations already, the most there may be", target.node,
                       GT_ISOLATIONS_MAX);
    return by || cJSON_GetArraySize(list) < before
               ? 0
               : gt_fail(err, ENOENT,
                         "nothing like that is isolated on node %s; gputopo isolated lists what is",
                         target.node);
}

static int isolate_change_once(struct cli_api *api, const struct isolated_target *target,
                               const struct isolate_change *change, struct gt_err **err)
{
    gt_auto_json cJSON *object = NULL, *list = NULL;
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    GT_TRY(cli_api_get_topology(api, target->node, &object, err));
    GT_TRY(gt_node_gpu_topology_read_wiring(object, &topology, err));
    if (!topology.node)
        return gt_fail(err, ENODATA, "the agent of node %s has not reported anything yet", target->node);
    const cJSON *before = gt_isolated_entries(object);
    list = before ? cJSON_Duplicate(before, true) : cJSON_CreateArray();
    GT_TRY(list ? 0 : gt_fail_sys(err, ENOMEM, "%s", target->node));
    /* Without a list the agent may still keep what an object before this one said: an empty list ends that.
     */
    if (before || change->by || target->count)
        GT_TRY(isolate_change_list(list, topology.node, *target, change, err));
    return isolate_patch(api, target->node, gt_meta_version(object), list, err);
}

/* Somebody else, or the agent, may write the object meanwhile. */
static int isolate_change(struct cli_api *api, const struct isolated_target *target,
                          const struct isolate_change *change, struct gt_err **err)
{
    for (unsigned tries = 1;; tries++) {
        int r = isolate_change_once(api, target, change, err);
        if (r != -EBUSY || tries == CONFLICTS_MAX)
            return r;
        gt_err_free(gt_steal(*err));
    }
}

/* ---- what follows its GPU to another node is released there, too ---- */

struct isolated_elsewhere {
    const cJSON *released;
    cJSON *found;    /* [{node, version, list: without what is released}] */
    bool has_failed; /* without memory: something may be missing in it */
};

static void elsewhere_on_begin(void *arg)
{
    struct isolated_elsewhere *elsewhere = arg;
    cJSON_Delete(elsewhere->found);
    elsewhere->found = cJSON_CreateArray();
    elsewhere->has_failed = !elsewhere->found;
}

static void elsewhere_on_object(void *arg, cJSON *object)
{
    struct isolated_elsewhere *elsewhere = arg;
    const cJSON *entries = gt_isolated_entries(object);
    gt_auto_json cJSON *list = cJSON_Duplicate(entries, true);
    for (const cJSON *released = gt_first(elsewhere->released); released; released = released->next) {
        for (cJSON *entry = list ? list->child : NULL, *next; entry; entry = next) {
            next = entry->next;
            if (gt_isolated_same_gpus(entry, released))
                cJSON_Delete(cJSON_DetachItemViaPointer(list, entry));
        }
    }
    if (!entries || (list && cJSON_GetArraySize(list) == cJSON_GetArraySize(entries)))
        return;
    cJSON *found = cJSON_CreateObject();
    bool whole = gt_json_attach(elsewhere->found, NULL, found) &&
                 cJSON_AddStringToObject(found, "node", gt_meta_name(object)) &&
                 cJSON_AddStringToObject(found, "version", gt_meta_version(object)) &&
                 gt_json_attach(found, "list", gt_steal(list));
    elsewhere->has_failed = elsewhere->has_failed || !whole;
}

static bool isolated_names_uuid(const cJSON *entries)
{
    const char *uuids[2];
    const cJSON *entry = entries ? entries->child : NULL;
    while (entry && !gt_isolated_uuids(entry, uuids))
        entry = entry->next;
    return entry != NULL;
}

/* Until nothing is found: the companion may just copy an entry. *ret_count: the nodes. */
static int isolate_release_elsewhere(struct cli_api *api, const cJSON *released, const char *node,
                                     struct cli_call *call, unsigned *ret_count)
{
    struct isolated_elsewhere elsewhere = {.released = released, .found = cJSON_CreateArray()};
    const struct cli_api_list list = {.resource = &gt_kube_node_gpu_topologies,
                                      .on_begin = elsewhere_on_begin,
                                      .on_object = elsewhere_on_object,
                                      .arg = &elsewhere};
    int r = 0;
    bool is_tree = ((const struct cli_parse *)call->options)->format != CLI_TEXT;
    for (unsigned tries = 0; r >= 0 && tries < CONFLICTS_MAX && isolated_names_uuid(released); tries++) {
        r = cli_api_list(api, &list, call->err);
        if (r >= 0 && elsewhere.has_failed)
            r = gt_fail(call->err, ENOMEM, "no memory for what other nodes have isolated");
        if (r < 0 || !cJSON_GetArraySize(elsewhere.found))
            break;
        for (const cJSON *found = gt_first(elsewhere.found); found; found = found->next) {
            const char *name = gt_get_string(found, "node");
            if (r >= 0)
                r = isolate_patch(api, name, gt_get_string(found, "version"), gt_get(found, "list"),
                                  call->err);
            if (r == -EBUSY && tries + 1 < CONFLICTS_MAX) {
                gt_err_free(gt_steal(*call->err));
                r = 0;
            } else if (r >= 0) {
                ++*ret_count;
                if (strcmp(name, node) != 0 && !is_tree)
                    gt_buf_printf(call->text, "released on node %s, too\n", name);
            }
        }
    }
    cJSON_Delete(elsewhere.found);
    return r;
}

static int isolate_release(struct cli_api *api, const struct isolated_target *target,
                           const struct isolate_options *options, struct cli_call *call)
{
    gt_auto_json cJSON *released = cJSON_CreateArray();
    const struct isolate_change change = {.options = options, .released = released};
    unsigned count = 0;
    for (unsigned i = 0; i < (target->link ? 1 : target->count); i++) /* the node may be gone, too */
        if (!isolate_note_released(target, i, released))
            return gt_fail(call->err, ENOMEM, "no memory for what is released");
    int r = isolate_change(api, target, &change, call->err);
    if (r < 0 && r != -ENOENT)
        return r;
    struct gt_err *why = gt_steal(*call->err);
    int other = isolate_release_elsewhere(api, released, target->node, call, &count);
    if (other >= 0 && r < 0 && !count) {
        *call->err = why;
        return r;
    }
    gt_err_free(why);
    return other;
}

/* ---- the list over the cluster ---- */

struct isolated_list {
    const char *node; /* NULL: all nodes */
    cJSON *rows;
};

static void isolated_on_begin(void *arg)
{
    struct isolated_list *all = arg;
    cJSON_Delete(all->rows);
    all->rows = cJSON_CreateArray();
}

/* "GPU 3 (UUID)", "GPU UUID, which is not there", "all GPUs", "link 3 - 5" */
static void isolated_what(const cJSON *entry, const struct gt_node *node, struct gt_buf *to)
{
    const cJSON *link = gt_get(entry, "link");
    const char *gpu = gt_get_string(entry, "gpu");
    int index = node ? gt_node_gpu_named(node, gpu) : -1;
    if (*gpu && index >= 0)
        gt_buf_printf(to, strlen(gpu) > 2 ? "GPU %d (%s)" : "GPU %d", index, gpu);
    else if (*gpu)
        gt_buf_printf(to, "GPU %s, which is not there", gpu);
    else if (!link)
        gt_buf_puts(to, "all GPUs");
    for (const cJSON *end = link ? link->child : NULL; end; end = end->next) {
        const char *name = cJSON_IsString(end) ? end->valuestring : "";
        index = node ? gt_node_gpu_named(node, name) : -1;
        gt_buf_puts(to, end == link->child ? "link " : " - ");
        if (index >= 0)
            gt_buf_printf(to, "%d", index);
        else
            gt_buf_puts(to, name);
    }
}

static void isolated_on_object(void *arg, cJSON *object)
{
    struct isolated_list *all = arg;
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    if (all->node && strcmp(all->node, gt_meta_name(object)) != 0)
        return;
    gt_node_gpu_topology_read_wiring(object, &topology, NULL); /* without it GPUs have no index here */
    for (const cJSON *entry = gt_first(gt_isolated_entries(object)); entry; entry = entry->next) {
        gt_auto_buf struct gt_buf what = GT_BUF(1024);
        cJSON *row = gt_isolated_is_over(entry, time(NULL)) ? NULL : cJSON_Duplicate(entry, true);
        isolated_what(entry, topology.node, &what);
        cJSON_AddStringToObject(row, "node", gt_meta_name(object));
        cJSON_AddStringToObject(row, "what", what.data ? what.data : "");
        gt_json_attach(all->rows, NULL, row);
    }
}

/* "n1  GPU 3 (UUID)  until released, by alice, since ...: ticket 17" */
static void isolated_text(const cJSON *rows, struct gt_buf *to)
{
    const cJSON *row;
    size_t node_width = 0, what_width = 0;
    cJSON_ArrayForEach(row, rows)
    {
        size_t node = strlen(gt_get_string(row, "node")), what = strlen(gt_get_string(row, "what"));
        node_width = node > node_width ? node : node_width;
        what_width = what > what_width ? what : what_width;
    }
    cJSON_ArrayForEach(row, rows)
    {
        const char *by = gt_get_string(row, "by"), *since = gt_get_string(row, "since");
        const char *until = gt_get_string(row, "until"), *grade = gt_get_string(row, "grade");
        const char *value = gt_get_string(row, "value");
        bool graded = *grade && strcmp(grade, GT_GRADE_BAD) != 0;
        gt_buf_printf(to, "%-*s  %-*s  %s%suntil %s%s%s%s%s: %s%s%s\n", (int)node_width,
                      gt_get_string(row, "node"), (int)what_width, gt_get_string(row, "what"),
                      graded ? grade : "", graded ? ", " : "", *until ? until : "released",
                      *by ? ", by " : "", by, *since ? ", since " : "", since, value, *value ? ": " : "",
                      gt_get_string(row, "reason"));
    }
    if (!cJSON_GetArraySize(rows))
        gt_buf_puts(to, "nothing is isolated\n");
}

static int isolated_print(struct cli_api *api, const char *node, unsigned format, struct cli_call *call)
{
    struct isolated_list all = {.node = node, .rows = cJSON_CreateArray()};
    char field[GT_API_NAME_MAX + 32];
    snprintf(field, sizeof(field), "metadata.name=%s", node ? node : "");
    const struct cli_api_list list = {.resource = &gt_kube_node_gpu_topologies,
                                      .fields = node ? field : NULL,
                                      .on_begin = isolated_on_begin,
                                      .on_object = isolated_on_object,
                                      .arg = &all};
    int r = cli_api_list(api, &list, call->err);
    if (r >= 0 && format != CLI_TEXT)
        gt_json_print(all.rows, call->text);
    else if (r >= 0)
        isolated_text(all.rows, call->text);
    cJSON_Delete(all.rows);
    return r;
}

/* ---- the verbs ---- */

/* "90m", "12h" or "3d" */
static int isolate_read_span(const struct gt_option *option, const char *value, void *field,
                             struct gt_err **err)
{
    size_t digits = strspn(value, "0123456789");
    char number[16] = "";
    uint64_t count = 0, unit = value[digits] == 'd' ? 86400 : value[digits] == 'h' ? 3600 : 60;
    bool is_span = digits && digits < sizeof(number) && value[digits] && strchr("dhm", value[digits]) &&
                   !value[digits + 1];
    memcpy(number, value, is_span ? digits : 0);
    if (!is_span || !gt_text_to_unsigned(number, SPAN_MAX_S / unit, &count) || !count)
        return gt_option_refuse(option, "is no time such as 90m, 12h or 3d, at most 366d", value, err);
    *(uint64_t *)field = count * unit;
    return 0;
}

#define ISOLATE_LINK_OPTION                                                                                  \
    {                                                                                                        \
        "link", NULL, "the link between two GPUs, not the GPUs", gt_option_set,                              \
            GT_OPTION_FIELD(struct isolate_options, link)                                                    \
    }

static const struct gt_option isolate_own_options[] = {
    {"reason", "TEXT", "why, for everyone who meets it; at most 100 characters", gt_option_text,
     GT_OPTION_FIELD(struct isolate_options, reason)},
    {"for", "TIME", "how long: 90m, 12h, 3d (default: until it is released)", isolate_read_span,
     GT_OPTION_FIELD(struct isolate_options, span_s)},
    {"grade", "GRADE",
     "bad: out of use (default); slow, suspect: in use, and last for jobs that other GPUs would do for",
     gt_option_word, GT_OPTION_FIELD(struct isolate_options, grade), .words = isolate_grades},
    {"value", "TEXT", "how slow, 'memory bandwidth 70 %'; at most 40 characters", gt_option_text,
     GT_OPTION_FIELD(struct isolate_options, value)},
    {"evict", NULL, "running pods are treated as on a broken GPU; else they stay", gt_option_set,
     GT_OPTION_FIELD(struct isolate_options, evict)},
    ISOLATE_LINK_OPTION,
    CLI_FORMAT_OPTION,
    CLI_API_OPTIONS(struct isolate_options),
    CLI_HELP_OPTION,
};

static const struct gt_option release_own_options[] = {
    ISOLATE_LINK_OPTION,
    CLI_FORMAT_OPTION,
    CLI_API_OPTIONS(struct isolate_options),
    CLI_HELP_OPTION,
};

static const struct gt_option isolated_own_options[] = {
    CLI_FORMAT_OPTION,
    CLI_API_OPTIONS(struct isolate_options),
    CLI_HELP_OPTION,
};

static int isolate_check(struct cli_call *call, const struct isolate_options *options)
{
    if (!options->reason)
        return cli_misuse(call, "--reason: say why");
    if (gt_text_characters(options->reason) > 100 || !gt_text_is_printable(options->reason))
        return cli_misuse(call, "--reason: longer than 100 characters, or not printable");
    if (options->value && (gt_text_characters(options->value) > 40 || !gt_text_is_printable(options->value)))
        return cli_misuse(call, "--value: longer than 40 characters, or not printable");
    if (options->grade && (options->link || options->evict))
        return cli_misuse(call, "--grade %s: such a GPU stays in use, without --link and --evict",
                          isolate_grades[options->grade]);
    return 0;
}

static int isolate_run(struct cli_call *call)
{
    const struct isolate_options *options = call->options;
    bool isolates = call->verb == &cli_isolate;
    cli_auto_api struct cli_api *api = NULL;
    gt_auto_json cJSON *review = NULL;
    struct isolated_target target;
    GT_TRY(isolates ? isolate_check(call, options) : 0);
    int r = isolate_read_target(call->args[0], options->link, &target, call->err);
    call->is_misuse = r == -EINVAL;
    GT_TRY(r);
    GT_TRY(cli_api_open(&options->api, &api, call->err));
    if (isolates) {
        const struct isolate_change change = {.options = options, .by = isolate_who(api, &review)};
        GT_TRY(isolate_change(api, &target, &change, call->err));
    } else
        GT_TRY(isolate_release(api, &target, options, call));
    return isolated_print(api, target.node, options->parse.format, call);
}

static int isolated_run(struct cli_call *call)
{
    const struct isolate_options *options = call->options;
    cli_auto_api struct cli_api *api = NULL;
    GT_TRY(cli_api_open(&options->api, &api, call->err));
    return isolated_print(api, call->args[0], options->parse.format, call);
}

const struct cli_verb cli_isolate = {
    .name = "isolate",
    .about = "take a GPU, a link or a node out of use by hand",
    .command =
        {.arguments = "NODE[/GPU[,GPU]...]",
         .about =
             "Take GPUs of a node, a link between two, or all GPUs of a node out of use. No new container "
             "gets them; those that run go on. A GPU is an index or a UUID; it is followed by its UUID.",
         .more = "Example: gputopo isolate rack-a-n03/5 --reason 'ECC errors' --for 12h",
         CLI_OPTIONS(isolate_own_options)},
    .least_args = 1,
    .most_args = 1,
    .wanted = "expected NODE or NODE/GPU,GPU",
    .options_size = sizeof(struct isolate_options),
    .run = isolate_run};

const struct cli_verb cli_release = {
    .name = "release",
    .about = "give back what isolate took",
    .command = {.arguments = "NODE[/GPU[,GPU]...]",
                .about =
                    "Give back what gputopo isolate took out of use: GPUs, a link, or everything of a node.",
                .more = "Example: gputopo release rack-a-n03/5",
                CLI_OPTIONS(release_own_options)},
    .least_args = 1,
    .most_args = 1,
    .wanted = "expected NODE or NODE/GPU,GPU",
    .options_size = sizeof(struct isolate_options),
    .run = isolate_run};

const struct cli_verb cli_isolated = {
    .name = "isolated",
    .about = "list what is out of use by hand",
    .command = {.arguments = "[NODE]",
                .about = "List what is isolated in the cluster or on a node, why, by whom and until when.",
                .more = "Example: gputopo isolated rack-a-n03",
                CLI_OPTIONS(isolated_own_options)},
    .most_args = 1,
    .options_size = sizeof(struct isolate_options),
    .run = isolated_run};
