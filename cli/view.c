/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/view.h"

#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"
#include "base/text.h"

/* The contents of a view. */

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology)
{
    *view = (struct cli_view){.picture.now = now, .keep_topology = keep_topology};
}

void cli_view_clear_nodes(void *arg)
{
    struct cli_view *view = arg;
    for (uint32_t i = 0; i < view->picture.node_count; i++)
        free(view->nodes[i].topology);
    while (view->problem_count > view->supernode_problems)
        free(view->problems[--view->problem_count]);
    view->picture.node_count = view->picture.pod_count = view->wiring_count = 0;
    view->topology_bytes = view->topology_values = 0;
    view->shorthand = false;
}

void cli_view_clear_supernodes(void *arg)
{
    struct cli_view *view = arg;
    for (uint32_t i = 0; i < view->picture.supernode_count; i++) {
        gt_supernode_object_done(&view->supernodes[i].object);
        cJSON_Delete(view->supernodes[i].json);
    }
    while (view->problem_count > 0)
        free(view->problems[--view->problem_count]);
    view->picture.supernode_count = view->supernode_problems = 0;
}

void cli_view_done(struct cli_view *view)
{
    cli_view_clear_nodes(view);
    cli_view_clear_supernodes(view);
    for (uint32_t i = 0; i < view->text_count; i++)
        free(view->texts[i]);
    void *const arrays[] = {
        view->picture.nodes, view->picture.supernodes, view->picture.pods, view->picture.jobs, view->nodes,
        view->supernodes,    view->problems,           view->wirings,      view->texts};
    for (size_t i = 0; i < GT_COUNT(arrays); i++)
        free(arrays[i]);
    *view = (struct cli_view){0};
}

void *cli_view_grown(struct cli_view *view, void *array, uint32_t count, size_t size)
{
    if (count & (count - 1)) /* the capacity doubles at powers of two */
        return array;
    void *grown = count >= CLI_VIEW_MAX ? NULL : reallocarray(array, count ? 2 * (size_t)count : 1, size);
    view->failed |= !grown;
    return grown;
}

bool cli_view_append(struct cli_view *view, const struct gt_picture_node *node, struct cli_view_node *more)
{
    uint32_t count = view->picture.node_count;
    struct gt_picture_node *shown = cli_view_grown(view, view->picture.nodes, count, sizeof(*shown));
    struct cli_view_node *grown = cli_view_grown(view, view->nodes, count, sizeof(*grown));
    view->picture.nodes = shown ? shown : view->picture.nodes;
    view->nodes = grown ? grown : view->nodes;
    if (!shown || !grown) {
        free(more->topology);
        return false;
    }
    shown[count] = *node;
    shown[count].source = count;
    grown[count] = *more;
    view->picture.node_count++;
    return true;
}

static bool cli_view_keep_text(struct cli_view *view, char ***texts, uint32_t *count, const char *text)
{
    char **grown = cli_view_grown(view, *texts, *count, sizeof(*grown)), *copy = grown ? strdup(text) : NULL;
    if (grown)
        *texts = grown;
    if (copy)
        grown[(*count)++] = copy;
    view->failed |= !copy;
    return copy;
}

const char *cli_view_keep(struct cli_view *view, const char *text)
{
    return cli_view_keep_text(view, &view->texts, &view->text_count, text) ? view->texts[view->text_count - 1]
                                                                           : "";
}

void cli_view_problem(struct cli_view *view, const char *format, ...)
{
    char text[512];
    GT_TEXT_OF_ARGS(text, format);
    cli_view_keep_text(view, &view->problems, &view->problem_count, text);
}

/* The letters of random suffixes of generated names; there are no vowels, unlike in words. */
static const char suffix_letters[] = "bcdfghjklmnpqrstvwxz2456789";
static const char *const roles[] = {"master", "worker", "launcher"};

/* The length without a suffix of "-" and `low` to `high` bytes of `letters`; the same length where there is
 * no such suffix. */
static size_t without(const char *name, size_t len, const char *messages, size_t low, size_t high)
{
    size_t n = 0;
    while (n < len && strchr(messages, name[len - 1 - n]))
        n++;
    if (n < low || n > high || len < n + 2 || name[len - 1 - n] != '-')
        return len;
    return len - n - 1;
}

static size_t without_role(const char *name, size_t len)
{
    for (size_t i = 0; i < GT_COUNT(roles); i++) {
        size_t n = strlen(roles[i]);
        if (len > n + 1 && name[len - 1 - n] == '-' && memcmp(name + len - n, roles[i], n) == 0)
            return len - n - 1;
    }
    return len;
}

void cli_job_of_pod(const char *pod, char *to, size_t size)
{
    static const char digits[] = "0123456789";
    size_t len = strlen(pod);
    /* A number of up to ten digits is an index; five characters that may be a random suffix or a number count
     * as a number. */
    size_t cut = without(pod, len, digits, 1, 10);
    if (cut == len) {
        cut = without(pod, len, suffix_letters, 5, 5);
        if (cut < len) {
            size_t set = without(pod, cut, suffix_letters, 8, 10); /* of a Deployment's ReplicaSet */
            cut = set < cut ? set : without(pod, cut, digits, 1, 10);
        }
    }
    if (cut < len)
        cut = without_role(pod, cut);
    if (cut >= size)
        cut = size - 1;
    memcpy(to, pod, cut);
    to[cut] = '\0';
}

/* Supernode objects, which are kept as a whole. */

/* Room for one more. */
static bool view_supernode_grow(struct cli_view *view)
{
    uint32_t count = view->picture.supernode_count;
    struct cli_view_supernode *grown = cli_view_grown(view, view->supernodes, count, sizeof(*grown));
    struct gt_picture_supernode *shown =
        cli_view_grown(view, view->picture.supernodes, count, sizeof(*shown));
    view->supernodes = grown ? grown : view->supernodes;
    view->picture.supernodes = shown ? shown : view->picture.supernodes;
    return grown && shown;
}

void cli_view_add_object(struct cli_view *view, cJSON *json, struct gt_supernode_object *object)
{
    if (view->failed || !view_supernode_grow(view)) {
        gt_supernode_object_done(object);
        cJSON_Delete(json);
        return;
    }
    const struct gt_condition *conflict = &object->conditions[GT_SUPERNODE_CONFLICT];
    uint32_t place = view->picture.supernode_count++;
    view->supernodes[place] = (struct cli_view_supernode){.json = json, .object = *object};
    view->picture.supernodes[place] = (struct gt_picture_supernode){
        .name = object->name,
        .note = conflict->status != GT_CONDITION_TRUE ? ""
                : *conflict->message                  ? conflict->message
                                                      : conflict->reason,
        .tier = object->tier,
        .links_down = object->links_healthy == GT_CONDITION_FALSE,
        .parent = GT_NONE,
        .source = place,
    };
}

void cli_view_add_supernode(void *arg, cJSON *json)
{
    struct cli_view *view = arg;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_supernode_object object = {0};
    if (!*gt_meta_name(json) || view->failed)
        return;
    cJSON *copy = cJSON_Duplicate(json, true);
    int r = copy ? gt_supernode_object_read(copy, &object, &err) : gt_fail_sys(&err, ENOMEM, "cluster");
    view->failed |= !copy;
    if (r >= 0 && !object.tier)
        r = gt_fail(&err, EINVAL, GT_PLURAL_SUPERNODE "/%s: status.tier: is missing", object.name);
    if (r >= 0) {
        cli_view_add_object(view, copy, &object);
        return;
    }
    cli_view_problem(view, "%s; this supernode is left out", gt_err_text(err));
    view->supernode_problems = view->problem_count;
    gt_supernode_object_done(&object);
    cJSON_Delete(copy);
}
