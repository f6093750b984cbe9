/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/review.h"

#include <errno.h>
#include <string.h>

#include "api/pod.h"
#include "base/text.h"
#include "scheduler-ext/wire/scan.h"

/* How the builder handles a value, and for a map, its keys. */
enum review_id { VALUE = 1, OBJECT, ARRAY, LABELS, ANNOTATIONS, RESOURCES, ALL };

enum { REVIEW_TEXT_MAX = 64 << 10, ANNOTATION_MAX = 1 << 20 };

#define SHAPE   static const struct gt_scan_shape
#define MEMBERS static const struct gt_scan_member
#define SHAPE_LEAF(name, KIND)                                                                               \
    SHAPE name = {.kind = (KIND), .id = VALUE, .any_kind = true, .max = REVIEW_TEXT_MAX}
#define OBJECT_OF(name, list)                                                                                \
    SHAPE name = {.kind = GT_SCAN_OBJECT, .id = OBJECT, .any_kind = true, .members = (list)}
#define ARRAY_OF(name, item)                                                                                 \
    SHAPE name = {.kind = GT_SCAN_ARRAY, .id = ARRAY, .any_kind = true, .of = &(item)}
#define MAP_OF(name, ID, item) SHAPE name = {.kind = GT_SCAN_MAP, .id = (ID), .any_kind = true, .of = &(item)}

SHAPE_LEAF(text, GT_SCAN_TEXT);
SHAPE_LEAF(number, GT_SCAN_NUMBER);
SHAPE_LEAF(amount, GT_SCAN_AMOUNT);
SHAPE_LEAF(yes_or_no, GT_SCAN_BOOL);
SHAPE annotation = {.kind = GT_SCAN_AMOUNT, .id = VALUE, .any_kind = true, .max = ANNOTATION_MAX};

MAP_OF(labels, LABELS, text);
MAP_OF(annotations, ANNOTATIONS, annotation);
MEMBERS owner_members[] = {
    {"apiVersion", &text}, {"kind", &text}, {"name", &text}, {"controller", &yes_or_no}, {0}};
OBJECT_OF(owner, owner_members);
ARRAY_OF(owners, owner);
MEMBERS metadata_members[] = {{"name", &text},
                              {"deletionTimestamp", &text},
                              {"labels", &labels},
                              {"annotations", &annotations},
                              {"ownerReferences", &owners},
                              {0}};
OBJECT_OF(metadata, metadata_members);

MAP_OF(amounts, RESOURCES, amount);
MEMBERS claimed_members[] = {{"name", &text}, {"request", &text}, {0}};
OBJECT_OF(claimed, claimed_members);
ARRAY_OF(all_claimed, claimed);
MEMBERS resources_members[] = {{"limits", &amounts}, {"requests", &amounts}, {"claims", &all_claimed}, {0}};
OBJECT_OF(resources, resources_members);
MEMBERS container_members[] = {{"name", &text}, {"restartPolicy", &text}, {"resources", &resources}, {0}};
OBJECT_OF(container, container_members);
ARRAY_OF(containers, container);
MEMBERS gate_members[] = {{"name", &text}, {0}};
OBJECT_OF(gate, gate_members);
ARRAY_OF(gates, gate);
MEMBERS claim_members[] = {
    {"name", &text}, {"resourceClaimTemplateName", &text}, {"resourceClaimName", &text}, {0}};
OBJECT_OF(claim, claim_members);
ARRAY_OF(claims, claim);
MEMBERS nothing[] = {{0}};
OBJECT_OF(node_affinity, nothing); /* whether it exists */
MEMBERS affinity_members[] = {{"nodeAffinity", &node_affinity}, {0}};
OBJECT_OF(affinity, affinity_members);

/* A pod template, and the owners that have some: api/owner.c. */
MAP_OF(all_amounts, ALL, amount);
MEMBERS asked_members[] = {
    {"limits", &all_amounts}, {"requests", &all_amounts}, {"claims", &all_claimed}, {0}};
OBJECT_OF(asked, asked_members);
MEMBERS asking_members[] = {{"name", &text}, {"restartPolicy", &text}, {"resources", &asked}, {0}};
OBJECT_OF(asking, asking_members);
ARRAY_OF(all_asking, asking);
ARRAY_OF(texts, text);
MEMBERS expression_members[] = {{"key", &text}, {"operator", &text}, {"values", &texts}, {0}};
OBJECT_OF(expression, expression_members);
ARRAY_OF(expressions, expression);
MEMBERS term_members[] = {{"matchExpressions", &expressions}, {"matchFields", &expressions}, {0}};
OBJECT_OF(term, term_members);
ARRAY_OF(terms, term);
MEMBERS required_members[] = {{"nodeSelectorTerms", &terms}, {0}};
OBJECT_OF(required, required_members);
MEMBERS of_nodes_members[] = {{"requiredDuringSchedulingIgnoredDuringExecution", &required}, {0}};
OBJECT_OF(of_nodes, of_nodes_members);
MEMBERS where_members[] = {{"nodeAffinity", &of_nodes}, {0}};
OBJECT_OF(where, where_members);
MAP_OF(selector, ALL, text);
MEMBERS toleration_members[] = {
    {"key", &text}, {"operator", &text}, {"value", &text}, {"effect", &text}, {0}};
OBJECT_OF(toleration, toleration_members);
ARRAY_OF(tolerations, toleration);
MEMBERS template_spec_members[] = {
    {"resourceClaims", &claims}, {"initContainers", &all_asking}, {"containers", &all_asking},
    {"resources", &asked},       {"overhead", &all_amounts},      {"affinity", &where},
    {"nodeSelector", &selector}, {"tolerations", &tolerations},   {0}};
OBJECT_OF(template_spec, template_spec_members);
MEMBERS template_members[] = {{"metadata", &metadata}, {"spec", &template_spec}, {0}};
OBJECT_OF(template, template_members);
MEMBERS role_members[] = {
    {"name", &text}, {"replicas", &number}, {"minAvailable", &number}, {"template", &template}, {0}};
OBJECT_OF(role, role_members);
MAP_OF(roles, ALL, role);
ARRAY_OF(tasks, role);
ARRAY_OF(arguments, text);
MEMBERS plugins_members[] = {{"pytorch", &arguments}, {0}};
OBJECT_OF(plugins, plugins_members);
MEMBERS ordinals_members[] = {{"start", &number}, {0}};
OBJECT_OF(ordinals, ordinals_members);

MEMBERS policy_members[] = {{"minAvailable", &number}, {0}};
OBJECT_OF(policy, policy_members);
MEMBERS run_members[] = {{"schedulingPolicy", &policy}, {0}};
OBJECT_OF(run, run_members);
MEMBERS elastic_members[] = {{"minReplicas", &number}, {"maxReplicas", &number}, {0}};
OBJECT_OF(elastic, elastic_members);

MEMBERS job_template_spec_members[] = {{"template", &template}, {0}};
OBJECT_OF(job_template_spec, job_template_spec_members);
MEMBERS job_template_members[] = {{"metadata", &metadata}, {"spec", &job_template_spec}, {0}};
OBJECT_OF(job_template, job_template_members);

MEMBERS spec_members[] = {{"nodeName", &text},
                          {"schedulingGates", &gates},
                          {"affinity", &affinity},
                          {"resourceClaims", &claims},
                          {"initContainers", &containers},
                          {"containers", &containers},
                          {"replicas", &number},
                          {"parallelism", &number},
                          {"completions", &number},
                          {"completionMode", &text},
                          {"podManagementPolicy", &text},
                          {"ordinals", &ordinals},
                          {"template", &template},
                          {"pytorchReplicaSpecs", &roles},
                          {"replicaSpecs", &roles},
                          {"tasks", &tasks},
                          {"minAvailable", &number},
                          {"runPolicy", &run},
                          {"elasticPolicy", &elastic},
                          {"plugins", &plugins},
                          {"jobTemplate", &job_template},
                          {0}};
OBJECT_OF(spec, spec_members);
MEMBERS object_members[] = {{"metadata", &metadata}, {"spec", &spec}, {0}};
OBJECT_OF(object, object_members);

MEMBERS kind_members[] = {{"group", &text}, {"kind", &text}, {0}};
OBJECT_OF(kind, kind_members);
MEMBERS request_members[] = {{"uid", &text},       {"kind", &kind},        {"subResource", &text},
                             {"namespace", &text}, {"operation", &text},   {"dryRun", &yes_or_no},
                             {"object", &object},  {"oldObject", &object}, {0}};
OBJECT_OF(request, request_members);
MEMBERS review_members[] = {{"apiVersion", &text}, {"kind", &text}, {"request", &request}, {0}};
SHAPE review_shape = {.kind = GT_SCAN_OBJECT, .id = OBJECT, .members = review_members};

struct builder {
    const char *resource;
    struct gt_scan *scan;
    struct gt_buf *annotations;          /* of the request's object */
    cJSON *open[GT_SCAN_SHAPES_MAX + 1]; /* from the outermost one, which is open[0] */
    unsigned depth, values;
    char key[GT_SCAN_KEY_MAX + 1]; /* key of the next value in a map */
};

static bool is_wanted(const struct builder *b, enum review_id map, const char *key)
{
    if (map == RESOURCES)
        return strcmp(key, b->resource) == 0;
    if (map == ALL)
        return true;
    return gt_pod_key_of(key) < GT_POD_KEYS || strncmp(key, GT_USER_PREFIX, strlen(GT_USER_PREFIX)) == 0 ||
           (map == ANNOTATIONS && strncmp(key, GT_PLAN_PREFIX, strlen(GT_PLAN_PREFIX)) == 0);
}

static cJSON *other(enum gt_scan_found found)
{
    switch (found) {
    case GT_FOUND_OBJECT:
        return cJSON_CreateObject();
    case GT_FOUND_ARRAY:
        return cJSON_CreateArray();
    case GT_FOUND_TEXT:
        return cJSON_CreateString("");
    case GT_FOUND_NUMBER:
        return cJSON_CreateNumber(0);
    case GT_FOUND_BOOL:
        return cJSON_CreateFalse();
    case GT_FOUND_NULL:
        break;
    }
    return cJSON_CreateNull();
}

static cJSON *value(const struct gt_scan_event *event)
{
    if (event->is_text)
        return cJSON_CreateString(event->text);
    if (event->text[0] == 't' || event->text[0] == 'f')
        return cJSON_CreateBool(event->yes);
    return cJSON_CreateNumber(strtod(event->text, NULL));
}

static int add(struct builder *b, const struct gt_scan_event *event, cJSON *item, struct gt_err **err)
{
    cJSON *parent = b->depth ? b->open[b->depth - 1] : NULL;
    bool done = item;
    if (item && !parent)
        b->open[0] = item;
    else if (item && cJSON_IsArray(parent))
        done = cJSON_AddItemToArray(parent, item);
    else if (item && event->member)
        done = cJSON_AddItemToObjectCS(parent, event->member, item);
    else if (item)
        done = cJSON_AddItemToObject(parent, b->key, item);
    if (!done) {
        cJSON_Delete(item);
        return gt_fail_sys(err, ENOMEM, "review");
    }
    return ++b->values > GT_REVIEW_VALUES_MAX
               ? gt_fail(err, EMSGSIZE, "more than %d values that count", GT_REVIEW_VALUES_MAX)
               : 0;
}

/* review.request.object.metadata.annotations: not those of a template, nor of the old object. */
static bool is_of_object(const struct builder *b, const struct gt_scan_event *event)
{
    return event->id == ANNOTATIONS && b->depth == 4 && strcmp(b->open[2]->string, "object") == 0 &&
           strcmp(b->open[3]->string, "metadata") == 0;
}

static int on_event(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct builder *b = arg;
    cJSON *item;
    int r;
    switch (event->what) {
    case GT_SCAN_OPEN:
        if (is_of_object(b, event))
            gt_scan_keep(b->scan, b->annotations);
        item = event->id == ARRAY ? cJSON_CreateArray() : cJSON_CreateObject();
        r = add(b, event, item, err);
        if (r >= 0)
            b->open[b->depth++] = item;
        return r;
    case GT_SCAN_CLOSE:
        b->depth--;
        return 0;
    case GT_SCAN_KEY:
        gt_text_copy(b->key, sizeof(b->key), event->text);
        return is_wanted(b, (enum review_id)event->id, event->text);
    case GT_SCAN_VALUE:
        return add(b, event, value(event), err);
    case GT_SCAN_OTHER:
        return add(b, event, other(event->found), err);
    }
    return 0;
}

int gt_review_read(const char *body, size_t len, const char *resource, cJSON **ret,
                   struct gt_buf *ret_annotations, struct gt_err **err)
{
    struct builder builder = {.resource = resource, .annotations = ret_annotations};
    gt_auto_scan struct gt_scan *scan = gt_scan_new(&review_shape, on_event, &builder);
    if (!scan)
        return gt_fail_sys(err, ENOMEM, "review");
    builder.scan = scan;
    int r = gt_scan_feed(scan, body, len, err);
    if (r >= 0)
        r = gt_scan_finish(scan, err);
    if (r < 0) {
        cJSON_Delete(builder.open[0]);
        return gt_wrap(err, "the review");
    }
    *ret = builder.open[0];
    return 0;
}
