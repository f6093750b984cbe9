/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/volcano/volcano_world.h"

#include "api/names.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/time_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

char volcano_error[GT_VOLCANO_TEXT_SIZE];

/* ---- objects ---- */

unsigned number_of(const char *plural)
{
    const struct gt_volcano_resource *resource;
    for (unsigned i = 0; (resource = gt_volcano_resource(i)); i++)
        if (strcmp(resource->plural, plural) == 0)
            return i;
    fail_msg("nobody asks for %s", plural);
    return 0;
}

void put(struct gt_volcano *volcano, const char *plural, cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    if (gt_volcano_put(volcano, number_of(plural), text, strlen(text), volcano_error) < 0)
        fail_msg("%s: %s", plural, volcano_error);
    cJSON_free(text);
    cJSON_Delete(object);
}

const char *node_name(unsigned node)
{
    static char names[NODES][16];
    snprintf(names[node], sizeof(names[0]), "r%u-n%u", node / NODES_EACH, node % NODES_EACH);
    return names[node];
}

void put_node(struct gt_volcano *volcano, unsigned node, uint64_t taken)
{
    struct world_topology topology = {.name = node_name(node), .gpus = 8, .unnamed = taken};
    put(volcano, "nodes", world_node(NODE(.name = node_name(node))));
    put(volcano, "nodegputopologies", world_topology(&topology));
}

struct gt_volcano *new_world(void)
{
    return new_world_beside("");
}

struct gt_volcano *new_world_beside(const char *namespace_)
{
    struct gt_volcano *volcano = NULL;
    assert_int_equal(gt_volcano_new(&volcano, namespace_, "", volcano_error), 0);
    fill_world(volcano);
    return volcano;
}

void fill_world(struct gt_volcano *volcano)
{
    for (unsigned rack = 0; rack < RACKS; rack++) {
        char name[16];
        struct world_supernode supernode = {.name = name, .tier = 1};
        snprintf(name, sizeof(name), "rack-%u", rack);
        for (unsigned n = 0; n < NODES_EACH; n++) {
            put_node(volcano, rack * NODES_EACH + n, 0);
            supernode.members[n] = node_name(rack * NODES_EACH + n);
        }
        put(volcano, "supernodes", world_supernode(&supernode));
    }
}

static cJSON *pod_object(const struct pod *pod, const char *phase)
{
    char name[32], labels[256], annotations[256] = "", spec[32];
    size_t used = 0;
    snprintf(name, sizeof(name), "%s-%u", pod->job, pod->index);
    snprintf(labels, sizeof(labels),
             "\"batch.kubernetes.io/job-name\":\"%s\",\"batch.kubernetes.io/job-completion-index\":\"%u\"",
             pod->job, pod->index);
    if (pod->group)
        used = (size_t)snprintf(annotations, sizeof(annotations), "\"metax-tech.com/gpu-group-size\":\"%s\",",
                                pod->group);
    if (pod->group && pod->plan_node)
        snprintf(annotations + used, sizeof(annotations) - used, "\"%s\":\"0\",", GT_PLAN_ANNOTATION_UNIT);
    snprintf(spec, sizeof(spec), "\"priority\":%d,", pod->priority);
    return world_pod(POD(.name = name, .uid = pod->uid, .spec = spec, .gpus = pod->gpus, .gated = pod->gated,
                         .deleting = pod->deleting, .labels = labels, .annotations = annotations,
                         .node = pod->node ? node_name(pod->node - 1) : NULL, .phase = phase,
                         .plan_node = pod->plan_node, .plan_mask = pod->plan_node ? 0xff : 0));
}

void put_pod(struct gt_volcano *volcano, const struct pod *pod)
{
    put(volcano, "pods", pod_object(pod, NULL));
}

int refuse_pod(struct gt_volcano *volcano, const struct pod *pod)
{
    char status[128], now[GT_TIME_TEXT_SIZE];
    gt_time_text((int64_t)(gt_clock_wall_ms() / 1000), now);
    snprintf(status, sizeof(status), "Failed\",\"reason\":\"OutOfmetax-tech.com/gpu\",\"startTime\":\"%s",
             now);
    gt_auto_json cJSON *failed = pod_object(pod, status);
    gt_auto_free char *json = cJSON_PrintUnformatted(failed);
    return gt_volcano_put(volcano, number_of("pods"), json, strlen(json), volcano_error);
}

void put_job(struct gt_volcano *volcano, const char *job, unsigned pods, unsigned gpus, const char *group)
{
    for (unsigned i = 0; i < pods; i++)
        PUT_POD(volcano, .job = job, .index = i, .gpus = gpus, .group = group);
}

void put_user(struct gt_volcano *volcano, unsigned node, const char *pod)
{
    struct world_topology topology = {.name = node_name(node), .gpus = 8};
    if (pod)
        topology.owners[0] = (struct world_owner){pod, 0xff};
    put(volcano, "nodegputopologies", world_topology(&topology));
}

/* ---- sessions ---- */

uint32_t add_text(struct session *session, const char *text)
{
    uint32_t at = (uint32_t)session->size;
    assert_true(session->size + strlen(text) + 1 <= sizeof(session->texts));
    memcpy(session->texts + at, text, strlen(text) + 1);
    session->size += strlen(text) + 1;
    return at;
}

void begin(struct session *session)
{
    *session = (struct session){0};
    for (unsigned n = 0; n < NODES; n++)
        session->nodes[n] = add_text(session, node_name(n));
}

uint32_t new_group(struct session *session, const char *name, unsigned minimum)
{
    session->groups[session->group_count] =
        (struct gt_volcano_group){add_text(session, name), minimum, false};
    return session->group_count++;
}

uint32_t add_task(struct session *session, const char *pod, uint32_t node)
{
    uint32_t at = add_text(session, "ns");
    add_text(session, pod);
    add_text(session, pod);
    session->tasks[session->task_count] = (struct gt_volcano_task){at, session->group_count - 1, node, 0};
    return session->task_count++;
}

uint32_t add_group(struct session *session, const char *job, unsigned pods, unsigned minimum,
                   const uint32_t *nodes)
{
    uint32_t first = session->task_count;
    new_group(session, job, minimum);
    for (unsigned i = 0; i < pods; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s-%u", job, i);
        add_task(session, name, nodes ? nodes[i] : GT_VOLCANO_NO_NODE);
    }
    return first;
}

void open_session(struct gt_volcano *volcano, const struct session *session)
{
    if (gt_volcano_open(volcano, session->texts, session->size, session->nodes, NODES, session->groups,
                        session->group_count, session->tasks, session->task_count, volcano_error) < 0)
        fail_msg("%s", volcano_error);
}

uint32_t place(struct gt_volcano *volcano, uint32_t task)
{
    uint32_t node = GT_VOLCANO_NO_NODE;
    int r = gt_volcano_place(volcano, task, &node, volcano_error);
    if (r != 1)
        fail_msg("task %u: %d, %s", task, r, r < 0 ? volcano_error : "");
    assert_true(node < NODES);
    return node;
}

void check_units(const uint32_t *nodes, unsigned count, unsigned pods, unsigned gpus)
{
    unsigned used[NODES] = {0};
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(nodes[i] / NODES_EACH, nodes[i / pods * pods] / NODES_EACH);
        used[nodes[i]] += gpus;
        assert_true(used[nodes[i]] <= 8);
    }
}

void place_all(struct gt_volcano *volcano, uint32_t first, unsigned count, uint32_t *ret)
{
    for (unsigned i = 0; i < count; i++) {
        ret[i] = place(volcano, first + i);
        gt_volcano_allocated(volcano, first + i, ret[i]);
    }
}

/* The note that is to be written, which the caller frees; NULL: none is. */
char *published(struct gt_volcano *volcano)
{
    const char *namespace_, *text = gt_volcano_publish(volcano, &namespace_);
    if (!text)
        return NULL;
    assert_string_equal(namespace_, "gputopo-system");
    cJSON *lease = cJSON_Parse(text), *metadata = cJSON_GetObjectItem(lease, "metadata");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name")), "gputopo-vc-scheduler");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "namespace")), namespace_);
    const cJSON *note =
        cJSON_GetObjectItem(cJSON_GetObjectItem(metadata, "annotations"), "topology.metax-tech.com/note");
    char *copy = strdup(note ? cJSON_GetStringValue(note) : "");
    cJSON_Delete(lease);
    return copy;
}

void assert_published(struct gt_volcano *volcano, const char *note)
{
    char *text = published(volcano);
    assert_non_null(text);
    assert_string_equal(text, note);
    free(text);
}

void put_lease(struct gt_volcano *volcano, unsigned seconds, const char *note)
{
    put_lease_in(volcano, "gputopo-system", seconds, note);
}

void put_lease_in(struct gt_volcano *volcano, const char *namespace_, unsigned seconds, const char *note)
{
    cJSON *lease = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(lease, "metadata");
    cJSON *spec = cJSON_AddObjectToObject(lease, "spec");
    cJSON_AddStringToObject(metadata, "name", "gputopo-scheduler");
    cJSON_AddStringToObject(metadata, "namespace", namespace_);
    cJSON_AddStringToObject(metadata, "resourceVersion", "1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(metadata, "annotations"), "topology.metax-tech.com/note",
                            note);
    cJSON_AddStringToObject(spec, "holderIdentity", "someone");
    cJSON_AddNumberToObject(spec, "leaseDurationSeconds", seconds);
    put(volcano, "leases", lease);
}
