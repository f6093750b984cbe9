/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "api/kinds/kind.h"
#include "api/names.h"
#include "base/json_get.h"

/*
 * kind: ElasticJob (dlrover)
 * job: label `elasticjob.dlrover/name`
 * role: label `elasticjob.dlrover/replica-type`
 * index: label `elasticjob.dlrover/rank-index`
 * templates: `spec.replicaSpecs`, without `dlrover-master`
 * come: together
 */

static int identify_elastic(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                            struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *job = gt_pod_label(pod, GT_KEY_ELASTIC_JOB), *type = gt_pod_label(pod, GT_KEY_ELASTIC_TYPE),
               *index = gt_pod_label(pod, GT_KEY_ELASTIC_INDEX);
    if (!job)
        return 0;
    if (!type)
        return gt_index_missing(pod, GT_KEY_ELASTIC_TYPE, err);
    ret->job = job;
    ret->role = type;
    if (strcmp(type, "dlrover-master") == 0) {
        ret->ignored = true;
        return 1;
    }
    if (!index) /* replica-index is the node id, which changes when a worker is started again */
        return gt_index_missing(pod, GT_KEY_ELASTIC_INDEX, err);
    return gt_index_read(pod, GT_KEY_ELASTIC_INDEX, index, ret, err);
}

static bool elastic_read_nodes(const char **at, uint32_t *ret)
{
    char *end;
    unsigned long number = isdigit((unsigned char)**at) ? strtoul(*at, &end, 10) : ULONG_MAX;
    if (number > GT_OWNER_REPLICAS_MAX)
        return false;
    *at = end;
    *ret = (uint32_t)number;
    return true;
}

/* Its object has no field for that; an argument of the launcher says it: "dlrover-run --nnodes=MIN:MAX". */
static void read_launcher(struct gt_template_reader *reader, const cJSON *words)
{
    static const char option[] = "--nnodes";
    for (const cJSON *word = gt_first(words); word; word = word->next) {
        const char *at = cJSON_GetStringValue(word);
        uint32_t least, most;
        at = at ? strstr(at, option) : NULL;
        if (!at)
            continue;
        at += sizeof(option) - 1;
        at = *at || !word->next ? at : cJSON_GetStringValue(word->next);
        at = at ? at + strspn(at, "= \"'") : "";
        if (elastic_read_nodes(&at, &least) && *at++ == ':' && elastic_read_nodes(&at, &most))
            gt_template_set_least_workers(reader, option, least, most);
    }
}

/* Its own master does no training (identity.h). */
static int read_elastic(struct gt_template_reader *reader, const cJSON *spec)
{
    const cJSON *role, *roles = gt_get(spec, "replicaSpecs");
    int r = gt_template_add_roles(reader, roles, "dlrover-master");
    cJSON_ArrayForEach(role, roles)
    {
        if (r < 0 || !role->string || strcasecmp(role->string, "worker") != 0)
            continue;
        for (const cJSON *container = gt_first(gt_get_at(gt_get(role, "template"), "spec", "containers"));
             container; container = container->next) {
            read_launcher(reader, gt_get(container, "command"));
            read_launcher(reader, gt_get(container, "args"));
        }
    }
    return r;
}

/* Its master makes more pods than the object says. */
const struct gt_kind gt_kind_elastic = {
    .type = {"elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob"},
    .name = "ElasticJob",
    .identify = identify_elastic,
    .may_grow = true,
    .read = read_elastic};
