/* SPDX-License-Identifier: Apache-2.0 */
#include "api/related.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_peers.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/text.h"

/* allowedTopologies as terms of a node affinity; NULL without memory. */
static cJSON *terms_of_topologies(const cJSON *topologies)
{
    gt_auto_json cJSON *terms = cJSON_CreateArray();
    for (const cJSON *item = topologies->child; item; item = item->next) {
        cJSON *term = cJSON_CreateObject();
        cJSON *all =
            gt_json_attach(terms, NULL, term) ? cJSON_AddArrayToObject(term, "matchExpressions") : NULL;
        bool whole = all;
        for (const cJSON *label = gt_first(gt_get(item, "matchLabelExpressions")); label && whole;
             label = label->next) {
            cJSON *made = cJSON_Duplicate(label, true);
            whole = gt_json_attach(all, NULL, made) && cJSON_AddStringToObject(made, "operator", "In");
        }
        if (!whole)
            return NULL;
    }
    return gt_steal(terms);
}

int gt_namespace_closeness(const cJSON *object, enum gt_closeness *ret, struct gt_err **err)
{
    static const char *const words[] = {[GT_CLOSENESS_UNSAID] = "", "preferred", "none"};
    const char *text =
        gt_get_string(gt_get_at(object, "metadata", "annotations"), GT_ANNOTATION_DEFAULT_TOPOLOGY);
    size_t word = GT_PLACE_OF_TEXT(words, GT_COUNT(words), text);
    if (word == GT_COUNT(words)) {
        const char *meant = gt_text_meant(text, &words[1], GT_COUNT(words) - 1);
        return gt_fail(err, EINVAL,
                       GT_ANNOTATION_DEFAULT_TOPOLOGY ": \"%.60s\" is none of preferred, none%s%s%s", text,
                       meant ? "; " : "", meant ? meant : "", meant ? " is meant" : "");
    }
    *ret = (enum gt_closeness)word;
    return 0;
}

/* NULL without memory. */
static char *attach_limits(const cJSON *spec)
{
    struct gt_buf text = GT_BUF(1 << 16);
    const cJSON *drivers = gt_get(spec, "drivers");
    for (const cJSON *item = gt_first(drivers); item; item = item->next) {
        const cJSON *count = gt_get(gt_get(item, "allocatable"), "count");
        uint64_t number;
        if (gt_json_is_unsigned(count, INT32_MAX, &number))
            gt_buf_printf(&text, "%s=%" PRIu64 "\n", gt_get_string(item, "name"), number);
    }
    return gt_buf_take(&text);
}

/* ---- devices ---- */

/* Requests whose number of devices is known. NULL without memory. */
static char *device_requests(const cJSON *requests)
{
    struct gt_buf text = GT_BUF(1 << 16);
    for (const cJSON *item = gt_first(requests); item; item = item->next) {
        const cJSON *exactly = gt_get(item, "exactly"), *count = gt_get(exactly, "count");
        const char *class = gt_get_string(exactly, "deviceClassName");
        uint64_t number = 1;
        bool known = *class && strcmp(gt_get_string(exactly, "allocationMode"), "All") != 0 &&
                     !cJSON_IsTrue(gt_get(exactly, "adminAccess")) &&
                     (!count || gt_json_is_unsigned(count, INT16_MAX, &number));
        if (known)
            gt_buf_printf(&text, "%s=%" PRIu64 "\n", class, number);
    }
    return gt_buf_take(&text);
}

/* NULL without memory. */
static char *allocated_devices(const cJSON *allocation)
{
    struct gt_buf text = GT_BUF(1 << 16);
    for (const cJSON *item = gt_first(gt_get_at(allocation, "devices", "results")); item; item = item->next)
        if (!cJSON_IsTrue(gt_get(item, "adminAccess")))
            gt_buf_printf(&text, "%s=%s\n", gt_get_string(item, "driver"), gt_get_string(item, "pool"));
    return gt_buf_take(&text);
}

/*
 * The driver whose devices alone can be of the class; "" where its selectors do not say so in the usual way,
 * `device.driver == "NAME"`, with or without `&& ...` behind it. NULL without memory.
 */
static char *driver_of_class(const cJSON *selectors)
{
    static const char begin[] = "device.driver == ";
    for (const cJSON *item = gt_first(selectors); item; item = item->next) {
        const char *text = gt_get_string(gt_get(item, "cel"), "expression");
        text += strspn(text, " \t\n");
        if (strncmp(text, begin, strlen(begin)) != 0 || strstr(text, "||") || strchr(text, '?'))
            continue;
        text += strlen(begin);
        char quote[] = {*text, '\0'};
        size_t len = *text ? strcspn(text + 1, quote) : 0;
        const char *after = len ? text + 1 + len : "";
        if ((*quote != '"' && *quote != '\'') || *after != *quote)
            continue;
        after += 1 + strspn(after + 1, " \t\n");
        if (!*after || strncmp(after, "&&", 2) == 0)
            return strndup(text + 1, len);
    }
    return strdup("");
}

static void read_slice(const cJSON *spec, struct gt_related *ret)
{
    const cJSON *devices = gt_get(spec, "devices");
    ret->driver = gt_get_string(spec, "driver");
    ret->handle = gt_get_string(spec, "nodeName");
    for (const cJSON *item = gt_first(devices); item; item = item->next) {
        ret->count++;
        ret->is_many |= cJSON_IsTrue(gt_get(item, "allowMultipleAllocations"));
    }
}

static char *what_it_is_of(enum gt_related_kind kind, const cJSON *object, const char *name)
{
    const cJSON *spec = gt_get(object, "spec");
    const char *volume = gt_get_string(spec, "volumeName");
    if (kind == GT_RELATED_NAMESPACE)
        return gt_peer_labels_text(name, gt_get_at(object, "metadata", "labels"));
    if (kind == GT_RELATED_CSI_NODE)
        return attach_limits(spec);
    const cJSON *allocation = gt_get_at(object, "status", "allocation");
    if (kind == GT_RELATED_DEVICE_CLAIM)
        return allocation ? allocated_devices(allocation)
                          : device_requests(gt_get_at(spec, "devices", "requests"));
    if (kind == GT_RELATED_DEVICE_TEMPLATE)
        return device_requests(gt_get_at(spec, "spec", "devices", "requests"));
    if (kind == GT_RELATED_DEVICE_SLICE)
        return strdup(gt_get_string(gt_get(spec, "pool"), "name"));
    return strdup(*volume ? volume : gt_get_string(spec, "storageClassName"));
}

int gt_related_read(enum gt_related_kind kind, const cJSON *object, struct gt_related *ret)
{
    const cJSON *spec = gt_get(object, "spec");
    const cJSON *topologies = kind == GT_RELATED_CLASS ? gt_get(object, "allowedTopologies") : NULL;
    bool has = cJSON_IsArray(topologies) && topologies->child;
    *ret = (struct gt_related){
        .namespace_ = gt_meta_namespace(object),
        .name = gt_meta_name(object),
        .is_bound = *gt_get_string(spec, "volumeName"),
        .is_late = strcmp(gt_get_string(object, "volumeBindingMode"), "WaitForFirstConsumer") == 0};
    ret->of = what_it_is_of(kind, object, ret->name);
    ret->driver = kind == GT_RELATED_CLASS ? gt_get_string(object, "provisioner")
                                           : gt_get_string(gt_get(spec, "csi"), "driver");
    ret->handle = gt_get_string(gt_get(spec, "csi"), "volumeHandle");
    if (kind == GT_RELATED_DEVICE_CLASS)
        ret->driver = ret->class_driver = driver_of_class(gt_get(spec, "selectors"));
    if (kind == GT_RELATED_DEVICE_SLICE)
        read_slice(spec, ret);
    if (kind == GT_RELATED_NAMESPACE)
        gt_namespace_closeness(object, &ret->closeness, NULL); /* a wrong one says nothing */
    ret->is_bound |= kind == GT_RELATED_DEVICE_CLAIM && gt_get_at(object, "status", "allocation");
    ret->made = has ? terms_of_topologies(topologies) : NULL;
    ret->nodes.terms = kind == GT_RELATED_VOLUME
                           ? gt_get_at(spec, "nodeAffinity", "required", "nodeSelectorTerms")
                       : kind == GT_RELATED_DEVICE_CLAIM
                           ? gt_get_at(object, "status", "allocation", "nodeSelector", "nodeSelectorTerms")
                           : ret->made;
    ret->nodes.has_terms = ret->nodes.terms;
    return ret->of && ret->driver && (ret->made || !has) ? 0 : -ENOMEM;
}

void gt_related_done(struct gt_related *related)
{
    free(related->of);
    free(related->class_driver);
    cJSON_Delete(related->made);
}
