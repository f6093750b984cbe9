/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Pods that ask for GPUs and have not ended: added, changed, deleted. */

struct gt_cache_pod *gt_cache_find_pod(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    struct cache_pod *pod = gt_cache_pod_named(cache, namespace_, name);
    return pod ? &pod->pub : NULL;
}

bool gt_cache_name_pod(const struct gt_cache_pod *pod, struct gt_cache_pod_name *ret)
{
    int len = asprintf(&ret->names, "%s%c%s", pod->meta.namespace_, '\0', pod->meta.name);
    ret->names = len < 0 ? NULL : ret->names;
    ret->uid = gt_digest_keyed(pod->uid);
    return ret->names;
}

const struct gt_cache_pod *gt_cache_named_pod(const struct gt_cache *cache,
                                              const struct gt_cache_pod_name *name)
{
    const struct gt_cache_pod *pod =
        gt_cache_find_pod(cache, name->names, name->names + strlen(name->names) + 1);
    return pod && gt_digest_keyed(pod->uid) == name->uid ? pod : NULL;
}

struct gt_cache_pod *gt_cache_next_pod(const struct gt_cache *cache, const struct gt_cache_pod *pod)
{
    return gt_table_after(&cache->pods, pod ? ((const struct cache_pod *)pod)->hash : 0, pod);
}

uint32_t gt_cache_terminating(const struct gt_cache *cache)
{
    return cache->terminating;
}

/* ---- what is kept of an object ---- */

static bool share_pairs(struct gt_cache *cache, const struct gt_pair *from, unsigned count,
                        struct gt_pair *to)
{
    for (unsigned i = 0; i < count; i++) {
        to[i] = (struct gt_pair){from[i].key, gt_cache_string(cache, from[i].value)};
        if (!to[i].value)
            return false;
    }
    return true;
}

/* Shares a text that may be missing; false without memory. */
static bool cache_pods_share(struct gt_cache *cache, const char *text, const char **ret)
{
    *ret = gt_cache_string(cache, text);
    return *ret || !text;
}

static uint64_t mix_pairs(uint64_t digest, const struct gt_pair *pairs, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        digest = gt_digest_mix_text(gt_digest_mix_text(digest, pairs[i].key), pairs[i].value);
    return gt_digest_mix(digest, count);
}

static bool is_refused(const struct gt_pod *pod)
{
    const struct gt_condition *said = &pod->conditions[GT_POD_PLACEMENT];
    return pod->plan_node &&
           (gt_condition_has(said, GT_CONDITION_REFUSED) || gt_condition_has(said, GT_CONDITION_HELD));
}

static bool has_other_gates(const struct gt_pod *pod)
{
    return pod->gate_count > pod->gated;
}

/* A digest of everything that is kept, except for selectors and the like, which are shared and compared
 * separately. */
static uint64_t cache_pods_digest_of(const struct gt_cache *cache, const struct gt_pod *from)
{
    const struct gt_pod_meta *meta = &from->meta;
    const struct gt_pod_gpus *gpus = &from->gpus;
    const char *const texts[] = {from->uid,       meta->owner_kind,        meta->owner_name,
                                 from->owner_uid, from->owner_api_version, from->scheduler,
                                 from->node_name, from->priority_class,    from->plan_gpus,
                                 from->plan_node, from->claim_template};
    uint64_t digest = cache->seed;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        digest = gt_digest_mix_text(digest, texts[i]);
    digest = mix_pairs(digest, meta->labels, meta->label_count);
    digest = mix_pairs(digest, meta->annotations, meta->annotation_count);
    for (unsigned i = 0; i < gpus->containers + gpus->inits; i++)
        digest = gt_digest_mix(gt_digest_mix_text(digest, gpus->names[i]), gpus->counts[i]);
    digest = gt_digest_mix(digest, gpus->requests);
    digest = gt_digest_mix(digest, gpus->sidecars << 16 | gpus->containers << 8 | gpus->inits);
    digest = gt_digest_mix(digest, (uint32_t)from->priority);
    digest = gt_digest_mix(gt_digest_mix(digest, from->created_s), from->gone_by_s);
    return gt_digest_mix(digest, meta->owner_controls | from->deleting << 1 | from->gated << 2 |
                                     has_other_gates(from) << 3 | is_refused(from) << 4 |
                                     from->has_deadline << 5 | from->best_effort << 6 | from->started << 7 |
                                     from->preempts_never << 8);
}

static bool fill_body(struct gt_cache *cache, const struct gt_pod *from, struct cache_pod *pod)
{
    const struct gt_pod_meta *read = &from->meta;
    unsigned containers = from->gpus.containers + from->gpus.inits;
    size_t pairs = (size_t)read->label_count + read->annotation_count;
    size_t size = pairs * sizeof(struct gt_pair) + containers * (sizeof(char *) + sizeof(unsigned)) +
                  strlen(read->name) + strlen(from->uid) + 2;
    struct gt_pair *labels = calloc(1, size);
    if (!labels)
        return false;
    struct gt_pair *annotations = labels + read->label_count;
    const char **names = (const char **)(labels + pairs);
    unsigned *gpus = (unsigned *)(names + containers);
    char *texts = (char *)(gpus + containers);
    struct gt_pod_meta *meta = &pod->pub.meta;
    meta->name = gt_cache_put_text(&texts, read->name);
    pod->pub.uid = gt_cache_put_text(&texts, from->uid);
    meta->labels = labels;
    meta->label_count = read->label_count;
    meta->annotations = annotations;
    meta->annotation_count = read->annotation_count;
    meta->containers = from->gpus.containers;
    meta->gpus = gpus;
    meta->requests = from->gpus.requests;
    pod->pub.container_names = names;
    pod->pub.sidecars = from->gpus.sidecars;
    pod->pub.inits = from->gpus.inits;
    for (unsigned i = 0; i < containers; i++) {
        gpus[i] = from->gpus.counts[i];
        names[i] = gt_cache_string(cache, from->gpus.names[i]);
        if (!names[i])
            return false;
    }
    return share_pairs(cache, read->labels, read->label_count, labels) &&
           share_pairs(cache, read->annotations, read->annotation_count, annotations);
}

static bool is_terminating(const struct cache_pod *pod)
{
    return pod->pub.deleting && pod->at;
}

static bool cache_pods_fill(struct gt_cache *cache, const struct gt_pod *from, struct cache_pod *pod)
{
    struct gt_cache_pod *pub = &pod->pub;
    struct gt_pod_meta *meta = &pub->meta;
    if (!fill_body(cache, from, pod) || !cache_pods_share(cache, from->meta.namespace_, &meta->namespace_) ||
        !cache_pods_share(cache, from->meta.owner_kind, &meta->owner_kind) ||
        !cache_pods_share(cache, from->meta.owner_name, &meta->owner_name) ||
        !cache_pods_share(cache, from->owner_api_version, &pub->owner_api_version) ||
        !cache_pods_share(cache, from->owner_uid, &pub->owner_uid) ||
        !cache_pods_share(cache, from->scheduler, &pub->scheduler) ||
        !cache_pods_share(cache, from->priority_class, &pub->priority_class) ||
        !cache_pods_share(cache, from->claim_template, &pub->claim_template))
        return false;
    if (from->node_name) {
        struct cache_node *node = gt_cache_node_record(cache, from->node_name);
        if (!node)
            return false;
        node->refs++;
        pod->at = node;
        pub->node_name = node->name;
    }
    meta->owner_controls = from->meta.owner_controls;
    pub->priority = from->priority;
    pub->created_s = from->created_s;
    pub->deleting = from->deleting;
    pub->gone_by_s = from->gone_by_s;
    cache->terminating += is_terminating(pod);
    pub->has_deadline = from->has_deadline;
    pub->best_effort = from->best_effort;
    pub->preempts_never = from->preempts_never;
    pub->other_gates = has_other_gates(from);
    pub->refused = is_refused(from);
    pub->started = from->started;
    pub->gpus = from->gpus.total;
    pod->gated = from->gated;
    return true;
}

/* The pod's identity, or why jobs/ cannot determine it. */
static bool cache_pods_identify(struct cache_pod *pod, struct gt_buf *key)
{
    struct gt_cache_pod *pub = &pod->pub;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_pod_identify(&pub->meta, &pub->identity, &err) < 0) {
        if (!(pub->identity_error = strdup(gt_err_text(err))))
            return false;
        pub->identity = (struct gt_pod_identity){.kind = GT_JOB_POD, .job = pub->meta.name, .role = ""};
    }
    gt_job_key(&pub->meta, &pub->identity, key);
    return !key->failed && key->data;
}

/* Frees what cache_pods_fill() and cache_pods_identify() allocated. */
static void cache_pods_empty(struct gt_cache *cache, struct cache_pod *pod)
{
    const struct gt_pod_meta *meta = &pod->pub.meta;
    for (unsigned i = 0; meta->labels && i < meta->label_count; i++)
        gt_cache_string_drop(cache, meta->labels[i].value);
    for (unsigned i = 0; meta->labels && i < meta->annotation_count; i++)
        gt_cache_string_drop(cache, meta->annotations[i].value);
    for (unsigned i = 0; meta->labels && i < meta->containers + pod->pub.inits; i++)
        gt_cache_string_drop(cache, pod->pub.container_names[i]);
    const char *const texts[] = {meta->namespace_,           meta->owner_kind,       meta->owner_name,
                                 pod->pub.owner_api_version, pod->pub.owner_uid,     pod->pub.scheduler,
                                 pod->pub.priority_class,    pod->pub.claim_template};
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        gt_cache_string_drop(cache, texts[i]);
    cache->terminating -= is_terminating(pod);
    if (pod->at)
        gt_cache_node_drop(cache, pod->at);
    gt_cache_constraints_drop(cache, pod->constraints);
    gt_cache_peers_drop(cache, &pod->peers);
    gt_cache_request_drop(cache, pod->request);
    free((void *)(uintptr_t)meta->labels);
    free((void *)(uintptr_t)pod->pub.identity_error);
}

/* ---- changes ---- */

/* The plan in force now that the object has `reported`. */
static void cache_pods_read_plan(struct gt_cache *cache, const struct gt_pod *from, struct cache_pod *pod)
{
    struct cache_plan *plan = NULL;
    if (gt_cache_read_plan(cache, from->plan_node, from->plan_gpus, from->gpus.total, &plan) < 0)
        cache->refused++;
    uint64_t digest = gt_digest_mix_text(gt_digest_mix_text(cache->seed, from->plan_node), from->plan_gpus);
    pod->reported = plan ? digest | 1 : 0;
    /* A pod on a node cannot be planned any more, so the plan of its object is in force. */
    if (pod->overrides && !from->node_name && (!plan || pod->reported == pod->overridden)) {
        if (!plan)
            pod->overridden = 0;
        gt_cache_free_plan(cache, plan);
        return;
    }
    pod->overrides = false;
    pod->plan = plan;
    pod->resolved_version = 0;
}

/* Swaps the pod's contents with what was read from the object; `new` then has the old contents. */
static void cache_pods_exchange(struct cache_pod *pod, struct cache_pod *new)
{
    struct cache_pod old = *pod;
    const struct gt_cache_pod *kept = &old.pub;
    pod->pub = new->pub;
    pod->pub.state = kept->state;
    pod->pub.node = kept->node;
    pod->pub.plan = kept->plan;
    pod->pub.planned.node = kept->planned.node;
    pod->pub.planned.mask = kept->planned.mask;
    pod->pub.promise = kept->promise;
    pod->pub.namespace_ = kept->namespace_;
    pod->pub.job = kept->job;
    pod->pub.next = kept->next;
    pod->constraints = new->constraints;
    pod->peers = new->peers;
    pod->request = new->request;
    pod->at = new->at;
    pod->gated = new->gated;
    pod->digest = new->digest;
    *new = old;
}

static void cache_pods_change(struct gt_cache *cache, const struct gt_pod *from, struct cache_pod *pod,
                              struct cache_pod *new)
{
    struct cache_node *left = pod->node;
    struct cache_plan *old_plan = pod->plan;
    gt_cache_detach_pod(cache, pod);
    cache_pods_exchange(pod, new);
    cache_pods_read_plan(cache, from, pod);
    gt_cache_attach_pod(pod);
    gt_cache_see_sizes(cache, pod);
    if (left && left != pod->node)
        gt_cache_recompute(cache, left);
    if (pod->node)
        gt_cache_recompute(cache, pod->node);
    else
        gt_cache_recompute_detached(cache, pod);
    gt_cache_changed(cache, pod);
    if (old_plan != pod->plan)
        gt_cache_free_plan(cache, old_plan);
    cache_pods_empty(cache, new); /* the old contents */
}

/* Adds an empty pod to the table and its job; `new` has its name and stays the caller's. */
static struct cache_pod *cache_pods_make(struct gt_cache *cache, const struct cache_pod *new, const char *key)
{
    struct cache_pod *pod = calloc(1, sizeof(*pod));
    if (!pod)
        return NULL;
    pod->pub.state = GT_CACHE_WAITING;
    pod->pub.node = pod->pub.planned.node = GT_NONE;
    pod->hash = gt_cache_pod_hash(cache, new->pub.meta.namespace_, new->pub.meta.name);
    if (gt_cache_join_namespace(cache, pod, new->pub.meta.namespace_) < 0) {
        free(pod);
        return NULL;
    }
    if (gt_cache_join_job(cache, pod, key) < 0) {
        gt_cache_remove_from_namespace(cache, pod);
        free(pod);
        return NULL;
    }
    if (gt_table_add(&cache->pods, pod->hash, pod) < 0) {
        struct gt_cache_job *job = pod->pub.job;
        gt_cache_remove_from_job(pod);
        gt_cache_drop_job(cache, job);
        gt_cache_remove_from_namespace(cache, pod);
        free(pod);
        return NULL;
    }
    cache->pods_in[GT_CACHE_WAITING]++;
    return pod;
}

void gt_cache_free_pod(struct gt_cache *cache, struct cache_pod *pod)
{
    gt_cache_drop_job(cache, pod->pub.job);
    gt_cache_remove_from_namespace(cache, pod);
    gt_cache_discharge_plan(cache, pod);
    gt_cache_free_plan(cache, pod->plan);
    cache_pods_empty(cache, pod);
    free(pod);
}

static void drop_pod(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_node *left = pod->node;
    gt_table_remove(&cache->pods, pod->hash, pod);
    gt_cache_detach_pod(cache, pod);
    gt_cache_remove_from_job(pod);
    gt_cache_unchanged(cache, pod);
    cache->pods_in[pod->pub.state]--;
    if (left)
        gt_cache_recompute(cache, left);
    if (cache->spec.on_pod_deleted)
        cache->spec.on_pod_deleted(cache->spec.arg, &pod->pub);
    gt_cache_free_pod(cache, pod);
}

static void cache_pods_refuse(struct gt_cache *cache, const struct gt_pod *from, const char *why)
{
    cache->refused++;
    if (cache->spec.on_refused && from->meta.namespace_[0] && from->meta.name[0])
        cache->spec.on_refused(cache->spec.arg, from->meta.namespace_, from->meta.name, why);
}

/* A pod on a node stays there, so its constraints do not matter, unless it may move, or its job is placed by
 * units, which may lose nodes. The annotation may be on another template of the job. */
static bool may_move(const struct gt_pod *from)
{
    return !from->node_name || from->plan_node || gt_pod_annotation(&from->meta, GT_KEY_GROUP) ||
           gt_pod_annotation(&from->meta, GT_KEY_LOSS) || gt_pod_annotation(&from->meta, GT_KEY_MOVABLE);
}

/* Adds or changes a pod that asks for GPUs; `pod` NULL: a new one. */
static void cache_pods_put(struct gt_cache *cache, const struct gt_pod *from, struct cache_pod *pod)
{
    struct cache_pod new = {.digest = cache_pods_digest_of(cache, from),
                            .request = gt_cache_request_make(cache, &from->asked, true)};
    gt_auto_buf struct gt_buf key = GT_BUF(2048);
    int r = may_move(from) ? gt_cache_constraints_of(cache, &from->where, &new.constraints) : 0;
    int peers = gt_cache_peers_of(cache, from, &new.peers);
    r = r == 0 || peers == -ENOMEM ? peers : r;
    if (r == -EINVAL && from->node_name)
        r = 0; /* it runs nevertheless */
    bool sound = r == 0;
    if (sound && pod && pod->digest == new.digest && pod->constraints == new.constraints &&
        pod->request == new.request &&gt_cache_peers_are(&pod->peers, &new.peers)) {
        gt_cache_constraints_drop(cache, new.constraints);
        gt_cache_peers_drop(cache, &new.peers);
        gt_cache_request_drop(cache, new.request);
        return;
    }
    sound = sound && cache_pods_fill(cache, from, &new) && cache_pods_identify(&new, &key);
    if (sound && pod && strcmp(pod->pub.job->key, key.data) != 0) {
        drop_pod(cache, pod); /* its labels now say that it belongs to another job */
        pod = NULL;
    }
    bool came = sound && !pod;
    if (came)
        pod = cache_pods_make(cache, &new, key.data);
    if (sound && pod)
        cache_pods_change(cache, from, pod, &new);
    if (came && pod) {
        struct gt_mix_amounts asked;
        gt_cache_asked(cache, &pod->pub, &asked);
        gt_mix_came(cache->mix, &asked);
    } else if (!sound || !pod) {
        cache_pods_empty(cache, &new);
        cache_pods_refuse(cache, from,
                          r == -EINVAL
                              ? "its node selector, node affinity and tolerations have more than 64 KiB, or "
                                "more than 4096 parts, or are invalid; or it has more than 64 host ports, or "
                                "more than 16 required rules on other pods"
                              : "gputopo-scheduler has no memory for it");
    }
}

bool gt_cache_knows_scheduler(const struct gt_cache *cache, const char *name)
{
    unsigned i = 0;
    while (name && i < cache->scheduler_count && strcmp(cache->schedulers[i], name) != 0)
        i++;
    return !name || i < cache->scheduler_count || i == CACHE_SCHEDULERS_MAX;
}

void gt_cache_pod(struct gt_cache *cache, const struct gt_pod *from)
{
    const struct gt_pod_meta *meta = &from->meta;
    const char *scheduler = from->node_name && !gt_cache_knows_scheduler(cache, from->scheduler)
                                ? gt_cache_string(cache, from->scheduler)
                                : NULL;
    if (scheduler)
        cache->schedulers[cache->scheduler_count++] = scheduler;
    if (from->node_name || from->ended)
        gt_cache_end_passed(cache, meta->namespace_, meta->name);
    if (!cache->spec.reports_only && meta->namespace_[0] && meta->name[0])
        gt_cache_charge_bound(cache, from);
    if (!meta->namespace_[0] || !meta->name[0] || !from->uid || (from->invalid && !from->ended)) {
        cache_pods_refuse(cache, from, from->invalid ? from->invalid : "it has no name, namespace or uid");
        return;
    }
    struct cache_pod *pod = gt_cache_pod_named(cache, meta->namespace_, meta->name);
    bool counts = !from->ended && from->gpus.total;
    if (pod && (!counts || strcmp(pod->pub.uid, from->uid) != 0)) {
        drop_pod(cache, pod);
        pod = NULL;
    }
    if (counts && !pod && cache->pods.count == GT_CACHE_PODS_MAX) {
        cache->pods_beyond++;
        if (cache->spec.on_refused)
            cache->spec.on_refused(cache->spec.arg, meta->namespace_, meta->name,
                                   "more pods ask for GPUs than gputopo-scheduler stores");
    } else if (counts)
        cache_pods_put(cache, from, pod);
    gt_cache_notify(cache);
}

void gt_cache_pod_deleted(struct gt_cache *cache, const char *namespace_, const char *name)
{
    struct cache_pod *pod = gt_cache_pod_named(cache, namespace_, name);
    gt_cache_discharge_bound(cache, namespace_, name);
    gt_cache_end_passed(cache, namespace_, name);
    if (pod)
        drop_pod(cache, pod);
    gt_cache_notify(cache);
}
