/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "scheduler-ext/placement/objects.h"

#include <string.h>

#include "base/bits.h"

enum {
    UNIT_TEXTS_MAX = 64 << 20, /* a name for each pod of the largest job is half of that */
    SUPERNODES_NAMED_MAX = 16, /* of a unit */
    WHERE_NAMED_MAX = 3,       /* of a job, in one column of a table */
    WHERE_MAX = 1024,
};

static const char *content_supernode_name(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;
    struct gt_cluster_supernode super;
    return gt_cluster_get_node(cluster, node, &info) &&
                   gt_cluster_get_supernode(cluster, info.supernode, &super)
               ? super.name
               : "";
}

/* ---- the request ---- */

static void add_template(struct gt_gpu_placement *to, const char *role, uint32_t pods, uint32_t gpus,
                         const struct gt_job_sizes *sizes, const char *claim)
{
    struct gt_gpu_placement_template *templates =
        (struct gt_gpu_placement_template *)(uintptr_t)to->templates;
    struct gt_gpu_placement_template *last = to->template_count ? &templates[to->template_count - 1] : NULL;
    if (!gpus || !pods)
        return;
    claim = claim ? claim : "";
    if (last && last->gpus == gpus && strcmp(last->role, role) == 0 && strcmp(last->claim, claim) == 0)
        last->pods += pods;
    else if (to->template_count < GT_GPU_PLACEMENT_TEMPLATES_MAX)
        templates[to->template_count++] =
            (struct gt_gpu_placement_template){role, pods, gpus, sizes->group, sizes->atomic, claim};
}

/* The first pod of a template stands for all. */
static const char *claim_of(const struct gt_job_view *view, const struct gt_job_template *template)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod && view->job->members[i].template == template)
            return view->members[i].pod->claim_template;
    return NULL;
}

static void content_add_templates(const struct gt_job_view *view, const struct gt_owner *owner,
                                  struct gt_gpu_placement *to)
{
    for (unsigned t = 0; owner && t < owner->spec.count; t++) {
        const struct gt_job_template *template = &owner->spec.templates[t];
        add_template(to, template->role ? template->role : "", template->replicas,
                     gt_job_pod_gpus(&(struct gt_job_pod){template->gpus, template->containers, 0}),
                     &view->job->sizes, claim_of(view, template));
    }
    for (uint32_t i = 0; !owner && i < view->count; i++)
        add_template(to, "", 1, gt_job_pod_gpus(&view->job->members[i].gpus), &view->job->sizes,
                     view->members[i].pod ? view->members[i].pod->claim_template : NULL);
}

/* ---- the plan ---- */

/* The index of a node in the table, by its id in the cluster. */
struct node_table {
    uint32_t *at; /* [node]: place + 1 */
    const char **names;
    uint32_t count;
};

static uint32_t place_in(struct node_table *table, uint32_t node, const char *name)
{
    if (!table->at[node]) {
        table->names[table->count] = name;
        table->at[node] = ++table->count;
    }
    return table->at[node] - 1;
}

/* A pod that exists has the place that is reserved for it until it is planned, also for another leader. */
static uint32_t content_place_of(const struct gt_job_view *view, uint32_t at, uint64_t *ret_mask)
{
    const struct gt_reservation *reservation =
        at < view->reservations->count ? &view->reservations->reservations[at] : NULL;
    if (view->members[at].state != GT_MEMBER_TO_PLACE || !reservation ||
        reservation->state != GT_RESERVATION_HELD)
        return gt_job_view_place(view, at, ret_mask);
    *ret_mask = reservation->promise.place.mask;
    return gt_reservations_node(view->reservations, gt_cache_cluster(view->cache), at);
}

static int content_add_places(const struct gt_job_view *view, struct placement_content *to,
                              struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_free uint32_t *at = calloc((size_t)gt_cluster_nodes(cluster) + 1, sizeof(*at));
    struct node_table table = {.at = at, .names = to->nodes};
    GT_NEED(at, err, "placement");
    for (uint32_t i = 0; i < view->count; i++) {
        uint64_t mask;
        struct gt_cluster_node info;
        uint32_t node = content_place_of(view, i, &mask);
        if (node == GT_NONE || !mask || !gt_cluster_get_node(cluster, node, &info))
            continue;
        const struct gt_cache_pod *pod = view->members[i].pod;
        to->pods[to->object.pod_count++] = (struct gt_gpu_placement_pod){
            .rank = view->job->members[i].rank,
            .unit = view->members[i].unit,
            .node = place_in(&table, node, info.name),
            .gpus = mask,
            .name = pod && gt_job_kind_is_nameless(view->job->kind) ? pod->meta.name : NULL};
    }
    to->object.node_count = table.count;
    return 0;
}

/* Collects the different supernodes of a unit's pods, at most `max`; *ret_more: number of further ones. */
static unsigned supernodes_of(const struct gt_cluster *cluster, const struct placement_content *content,
                              uint32_t unit, unsigned max, const char **ret, unsigned *ret_more)
{
    unsigned count = 0;
    const char *last = "";
    *ret_more = 0;
    for (uint32_t i = 0; i < content->object.pod_count; i++) {
        const struct gt_gpu_placement_pod *pod = &content->pods[i];
        if (unit != GT_NONE && pod->unit != unit)
            continue;
        const char *name =
            content_supernode_name(cluster, gt_cluster_find_node(cluster, content->nodes[pod->node]));
        if (!*name || name == last || GT_HAS_TEXT(ret, count, name))
            continue;
        last = name;
        if (count < max)
            ret[count++] = name;
        else
            ++*ret_more;
    }
    return count;
}

/* ---- both ---- */

static void add_names(const char *const *names, unsigned count, const char *separator, struct gt_buf *to)
{
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i ? separator : "", names[i]);
}

static void add_where(const struct gt_cluster *cluster, struct placement_content *content)
{
    const char *names[WHERE_NAMED_MAX];
    unsigned more, count = supernodes_of(cluster, content, GT_NONE, WHERE_NAMED_MAX, names, &more);
    add_names(names, count, ", ", &content->where);
    if (more)
        gt_buf_puts(&content->where, " and more");
    content->object.where = content->where.data ? content->where.data : "";
}

static int content_add_units(const struct gt_cluster *cluster, const struct gt_job_view *view,
                             struct placement_content *content, struct gt_err **err)
{
    uint32_t count = content->object.pod_count ? view->job->units.count : 0;
    gt_auto_free size_t *starts = calloc((size_t)count + 1, sizeof(*starts));
    uint32_t first = 0;
    GT_NEED(starts, err, "placement");
    for (uint32_t u = 0; u < count; u++) {
        const char *names[SUPERNODES_NAMED_MAX];
        struct placement_content part = {.nodes = content->nodes, .pods = content->pods + first};
        while (first + part.object.pod_count < content->object.pod_count &&
               content->pods[first + part.object.pod_count].unit == u)
            part.object.pod_count++;
        first += part.object.pod_count;
        unsigned more, found = supernodes_of(cluster, &part, u, SUPERNODES_NAMED_MAX, names, &more);
        starts[u] = content->texts.len;
        add_names(names, found, ",", &content->texts);
        gt_buf_add(&content->texts, "", 1);
    }
    int r = gt_buf_check(&content->texts, "placement", err);
    for (uint32_t u = 0; u < count && r >= 0; u++)
        content->units[u] = content->texts.data + starts[u];
    content->object.unit_count = count;
    return r;
}

/* The object that created the pods, where the job has its name. */
static void content_add_job(const struct gt_cache_job *job, struct gt_gpu_placement *to)
{
    to->job = job->key;
    to->priority = INT32_MIN;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        to->namespace_ = pod->meta.namespace_;
        to->priority = pod->priority > to->priority ? pod->priority : to->priority;
        if (to->owner_kind[0] || !pod->meta.owner_kind || !pod->meta.owner_name || !pod->owner_uid ||
            !pod->owner_api_version || pod->identity.owner ||
            strcmp(pod->meta.owner_name, pod->identity.job) != 0)
            continue;
        to->owner_api_version = pod->owner_api_version;
        to->owner_kind = pod->meta.owner_kind;
        to->owner_name = pod->meta.owner_name;
        to->owner_uid = pod->owner_uid;
    }
}

static int add_view(const struct gt_job_view *view, const struct gt_owner *owner,
                    struct placement_content *to, struct gt_err **err)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    size_t count = (size_t)view->count + 1;
    to->object.nodes = to->nodes = calloc(count, sizeof(*to->nodes));
    to->object.units = to->units = calloc(count, sizeof(*to->units));
    to->object.pods = to->pods = calloc(count, sizeof(*to->pods));
    to->object.templates = to->templates = calloc(GT_GPU_PLACEMENT_TEMPLATES_MAX, sizeof(*to->templates));
    GT_NEED(to->nodes && to->units && to->pods && to->templates, err, "placement");
    content_add_templates(view, owner, &to->object);
    GT_TRY(content_add_places(view, to, err));
    GT_TRY(content_add_units(cluster, view, to, err));
    add_where(cluster, to);
    return 0;
}

int gt_placement_content_make(const struct gt_cache_job *job, const struct gt_job_view *view,
                              const struct gt_owner *owner, struct placement_content *ret,
                              struct gt_err **err)
{
    struct gt_gpu_placement *to = &ret->object;
    *ret = (struct placement_content){.texts = GT_BUF(UNIT_TEXTS_MAX), .where = GT_BUF(WHERE_MAX)};
    to->uid = to->resource_version = to->name = to->namespace_ = to->owner_api_version = to->owner_kind =
        to->owner_name = to->owner_uid = to->part_of = to->on_lost_plan = to->reason = to->message =
            to->behind = to->where = to->promised_until = to->waiting_since = to->planned_at =
                to->reserved_until = to->moving = to->moving_before = to->moves = "";
    content_add_job(job, to);
    return view ? add_view(view, owner, ret, err) : 0;
}

void gt_placement_content_done(struct placement_content *content)
{
    free(content->nodes);
    free(content->units);
    free(content->pods);
    free(content->templates);
    for (unsigned i = 0; i < GT_COUNT(content->parts); i++)
        free(content->parts[i]);
    gt_buf_done(&content->texts);
    gt_buf_done(&content->where);
}

/* ---- from the object to the view ---- */

enum placement_match gt_placement_match(const struct gt_cluster *cluster, const struct placement_plan *plan,
                                        uint32_t rank, uint32_t node, uint64_t mask)
{
    uint64_t gpus;
    const char *name = gt_placement_plan_place(plan, rank, &gpus);
    if (!name)
        return PLACEMENT_UNNAMED;
    return gt_cluster_find_node(cluster, name) == node && gpus == mask ? PLACEMENT_MATCHES
                                                                       : PLACEMENT_DIFFERS;
}

bool gt_placement_is_acknowledged(const struct gt_cluster *cluster, const struct placement_objects *objects,
                                  const struct placement_object *object, uint32_t rank, uint32_t node,
                                  uint64_t mask)
{
    struct placement_plan plan;
    return object && object->acknowledged && !object->is_unknown && !object->write &&
           gt_placement_object_plan(objects, object, &plan) &&
           gt_placement_match(cluster, &plan, rank, node, mask) == PLACEMENT_MATCHES;
}

static void adopt_pod(struct gt_job_view *view, uint32_t at, uint32_t node, uint64_t mask)
{
    struct gt_cache_pod *pod = view->members[at].pod;
    if (gt_bit_count(mask) == pod->gpus && gt_cache_plan_pod(view->cache, pod, node, mask, NULL) >= 0)
        gt_job_view_set_state(view, at, GT_MEMBER_PLANNED);
}

/* Where the places of one object go. */
struct adoption {
    struct gt_cluster *cluster;
    struct gt_job_view *view;
    const struct placement_adopt *how;
};

static bool adopt_place(const struct adoption *to, uint32_t at, uint32_t node, uint64_t mask, uint64_t until)
{
    struct gt_cluster_node info;
    if (!gt_cluster_get_node(to->cluster, node, &info) || mask & ~info.available)
        return false;
    const struct gt_promise promise = {.place = {node, mask},
                                       .requests = to->view->job->members[at].gpus.requests};
    gt_reservations_reserve(to->view->reservations, to->cluster, at, &promise, until);
    gt_job_view_set_state(to->view, at, GT_MEMBER_RESERVED);
    return true;
}

/* A missing member. The plan has its reserved place; while its old pod is still ending, and the job leaves
 * lost nodes, the reservation lasts until the successor exists. */
static void adopt_missing(const struct adoption *to, uint32_t at, uint32_t node, uint64_t mask)
{
    const struct placement_adopt *how = to->how;
    bool moves = how->moving_until && to->view->job->sizes.loss != GT_ON_NODE_LOSS_WAIT;
    uint64_t until =
        moves && how->moving_until > how->promised_until ? how->moving_until : how->promised_until;
    if (adopt_place(to, at, node, mask, until) && moves)
        gt_reservations_set_moving(to->view->reservations, at);
}

/* A pod that has to leave, as recorded by the last leader. */
static void adopt_move(const struct adoption *to, uint32_t at, uint32_t node, uint64_t mask)
{
    uint64_t has;
    const struct placement_adopt *how = to->how;
    const struct gt_job_view_member *member = &to->view->members[at];
    if (!how->moves || !gt_job_view_stays(member) || member->pod->created_s > how->leave_before_s)
        return;
    bool elsewhere = gt_job_view_place(to->view, at, &has) != node || (has && has != mask);
    if (elsewhere ? !adopt_place(to, at, node, mask, how->moving_until) : !how->all_move)
        return;
    gt_reservations_set_moving(to->view->reservations, at);
    gt_job_view_set_state(to->view, at, GT_MEMBER_MOVING);
}

void gt_placement_adopt(struct gt_job_view *view, const struct gt_owner *owner,
                        const struct placement_plan *plan, const struct placement_adopt *adopt)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    const struct adoption to = {.cluster = cluster, .view = view, .how = adopt};
    if (!view->grouped)
        return;
    for (uint32_t i = 0; i < view->count; i++) {
        uint64_t gpus;
        const char *name = gt_placement_plan_place(plan, view->job->members[i].rank, &gpus);
        uint32_t node = name ? gt_cluster_find_node(cluster, name) : GT_NONE;
        if (node == GT_NONE)
            continue;
        switch (view->members[i].state) {
        case GT_MEMBER_TO_PLACE:
            adopt_pod(view, i, node, gpus);
            break;
        case GT_MEMBER_TO_RESERVE:
            adopt_place(&to, i, node, gpus, adopt->until);
            break;
        case GT_MEMBER_ABSENT:
            if (adopt->promised_until && !gt_job_view_has_ended(view, owner, i))
                adopt_missing(&to, i, node, gpus);
            break;
        default:
            adopt_move(&to, i, node, gpus);
        }
    }
    gt_reservations_sync(view->reservations, cluster, 0);
}
