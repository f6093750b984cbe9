/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

/* Pods that ask for GPUs and have not ended: made, changed in place, gone. */

struct feed_body { /* one block; arrays and texts stand behind it */
    struct gt_pair *labels, *annotations;
    const char **names;
    unsigned *gpus;
};

struct name {
    const char *namespace_, *name;
};

static bool is(const void *item, const void *key)
{
    const struct feed_pod *pod = item;
    const struct name *name = key;
    return strcmp(pod->pub.meta.name, name->name) == 0 &&
           strcmp(pod->pub.meta.namespace_, name->namespace_) == 0;
}

static uint32_t hash_of(const struct gt_feed *feed, const char *namespace_, const char *name)
{
    return gt_feed_hash(gt_feed_mix_text(gt_feed_mix_text(feed->seed, namespace_), name));
}

struct feed_pod *gt_feed_pod_named(const struct gt_feed *feed, const char *namespace_, const char *name)
{
    struct name key = {namespace_, name};
    return gt_feed_table_find(&feed->pods, hash_of(feed, namespace_, name), is, &key);
}

struct gt_feed_pod *gt_feed_find_pod(const struct gt_feed *feed, const char *namespace_, const char *name)
{
    struct feed_pod *pod = gt_feed_pod_named(feed, namespace_, name);
    return pod ? &pod->pub : NULL;
}

struct gt_feed_pod *gt_feed_next_pod(const struct gt_feed *feed, const struct gt_feed_pod *pod)
{
    return gt_feed_table_after(&feed->pods, pod ? ((const struct feed_pod *)pod)->hash : 0, pod);
}

/* ---- what is kept of an object ---- */

static bool share_pairs(struct gt_feed *feed, const struct gt_pair *from, unsigned count, struct gt_pair *to)
{
    for (unsigned i = 0; i < count; i++) {
        to[i] = (struct gt_pair){from[i].key, gt_feed_text(feed, from[i].value)};
        if (!to[i].value)
            return false;
    }
    return true;
}

static char *put_text(char **to, const char *text)
{
    size_t size = strlen(text) + 1;
    char *start = memcpy(*to, text, size);
    *to += size;
    return start;
}

/* Shares a text that may be missing; false without memory. */
static bool share(struct gt_feed *feed, const char *text, const char **ret)
{
    *ret = gt_feed_text(feed, text);
    return *ret || !text;
}

static bool fill_body(struct gt_feed *feed, const struct feed_draft *draft, struct feed_pod *pod)
{
    unsigned containers = draft->containers + draft->inits;
    size_t size =
        sizeof(struct feed_body) + (draft->label_count + draft->annotation_count) * sizeof(struct gt_pair) +
        containers * (sizeof(char *) + sizeof(unsigned)) + strlen(draft->name) + strlen(draft->uid) + 2;
    struct feed_body *body = gt_feed_alloc(&feed->bytes, size);
    if (!body)
        return false;
    pod->body = body;
    body->labels = (struct gt_pair *)(body + 1);
    body->annotations = body->labels + draft->label_count;
    body->names = (const char **)(body->annotations + draft->annotation_count);
    body->gpus = (unsigned *)(body->names + containers);
    char *texts = (char *)(body->gpus + containers);
    struct gt_pod_meta *meta = &pod->pub.meta;
    meta->name = put_text(&texts, draft->name);
    pod->pub.uid = put_text(&texts, draft->uid);
    meta->labels = body->labels;
    meta->label_count = draft->label_count;
    meta->annotations = body->annotations;
    meta->annotation_count = draft->annotation_count;
    meta->containers = draft->containers;
    meta->gpus = body->gpus;
    pod->pub.container_names = body->names;
    pod->pub.sidecars = draft->sidecars;
    pod->pub.inits = draft->inits;
    for (unsigned i = 0; i < containers; i++) {
        bool init = i >= draft->containers;
        unsigned at = init ? i - draft->containers : i;
        body->gpus[i] = init ? draft->init_gpus[at] : draft->gpus[at];
        body->names[i] = gt_feed_text(feed, init ? draft->init_names[at] : draft->container_names[at]);
        if (!body->names[i])
            return false;
    }
    return share_pairs(feed, draft->labels, draft->label_count, body->labels) &&
           share_pairs(feed, draft->annotations, draft->annotation_count, body->annotations);
}

static bool fill(struct gt_feed *feed, const struct feed_draft *draft, struct feed_pod *pod)
{
    struct gt_feed_pod *pub = &pod->pub;
    struct gt_pod_meta *meta = &pub->meta;
    if (!fill_body(feed, draft, pod) || !share(feed, draft->namespace_, &meta->namespace_) ||
        !share(feed, draft->owner_kind, &meta->owner_kind) ||
        !share(feed, draft->owner_name, &meta->owner_name) ||
        !share(feed, draft->owner_api_version, &pub->owner_api_version) ||
        !share(feed, draft->owner_uid, &pub->owner_uid) || !share(feed, draft->scheduler, &pub->scheduler) ||
        !share(feed, draft->priority_class, &pub->priority_class))
        return false;
    if (draft->node_name) {
        struct feed_node *node = gt_feed_node_record(feed, draft->node_name);
        if (!node)
            return false;
        node->refs++;
        pod->at = node;
        pub->node_name = node->name;
    }
    meta->owner_controls = draft->owner_controls;
    pub->priority = draft->priority;
    pub->created_s = draft->created_s;
    pub->deleting = draft->deleting;
    pub->other_gates = draft->other_gates;
    pub->refused = draft->refused;
    pub->gpus = draft->gpu_sum;
    pod->gated = draft->gated;
    pod->digest = draft->digest;
    return true;
}

/* Who it is, or why jobs/ cannot tell. */
static bool identify(struct gt_feed *feed, struct feed_pod *pod, struct gt_buf *key)
{
    struct gt_feed_pod *pub = &pod->pub;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_pod_identify(&pub->meta, &pub->identity, &err) < 0) {
        const char *text = gt_err_text(err);
        size_t size = strlen(text) + 1;
        pod->error = gt_feed_alloc(&feed->bytes, size);
        if (!pod->error)
            return false;
        pub->identity_error = memcpy(pod->error, text, size);
        pub->identity = (struct gt_pod_identity){.kind = GT_JOB_POD, .job = pub->meta.name, .role = ""};
    }
    gt_job_key(&pub->meta, &pub->identity, key);
    return !key->failed && key->data;
}

/* Gives back what fill() and identify() took. */
static void empty(struct gt_feed *feed, struct feed_pod *pod)
{
    const struct gt_pod_meta *meta = &pod->pub.meta;
    for (unsigned i = 0; pod->body && i < meta->label_count; i++)
        gt_feed_text_drop(feed, meta->labels[i].value);
    for (unsigned i = 0; pod->body && i < meta->annotation_count; i++)
        gt_feed_text_drop(feed, meta->annotations[i].value);
    for (unsigned i = 0; pod->body && i < meta->containers + pod->pub.inits; i++)
        gt_feed_text_drop(feed, pod->pub.container_names[i]);
    const char *const texts[] = {meta->namespace_,           meta->owner_kind,   meta->owner_name,
                                 pod->pub.owner_api_version, pod->pub.owner_uid, pod->pub.scheduler,
                                 pod->pub.priority_class};
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        gt_feed_text_drop(feed, texts[i]);
    if (pod->at)
        gt_feed_node_drop(feed, pod->at);
    gt_feed_suit_drop(feed, pod->suit);
    gt_feed_release(&feed->bytes, pod->body);
    gt_feed_release(&feed->bytes, pod->error);
}

/* ---- seats ---- */

static bool is_older(const struct feed_pod *a, const struct feed_pod *b)
{
    if (a->pub.created_s != b->pub.created_s)
        return a->pub.created_s < b->pub.created_s;
    int order = strcmp(a->pub.uid, b->pub.uid);
    if (order == 0)
        order = strcmp(a->pub.meta.namespace_, b->pub.meta.namespace_);
    return order == 0 ? strcmp(a->pub.meta.name, b->pub.meta.name) < 0 : order < 0;
}

void gt_feed_seat(struct feed_pod *pod)
{
    struct feed_node *node = pod->at ? pod->at : pod->plan ? pod->plan->node : NULL;
    pod->seat = node;
    if (!node)
        return;
    struct feed_pod *previous = NULL, *next = node->seats;
    for (; next && is_older(next, pod); next = next->seat_next)
        previous = next;
    pod->seat_previous = previous;
    pod->seat_next = next;
    if (next)
        next->seat_previous = pod;
    if (previous)
        previous->seat_next = pod;
    else
        node->seats = pod;
}

void gt_feed_unseat(struct gt_feed *feed, struct feed_pod *pod)
{
    struct feed_node *node = pod->seat;
    if (!node)
        return;
    if (pod->seat_previous)
        pod->seat_previous->seat_next = pod->seat_next;
    else
        node->seats = pod->seat_next;
    if (pod->seat_next)
        pod->seat_next->seat_previous = pod->seat_previous;
    pod->seat = NULL;
    pod->seat_next = pod->seat_previous = NULL;
    if (pod->hold) {
        gt_cluster_forget(feed->cluster, pod->pub.assumption);
        node->freed |= pod->hold;
    }
    pod->pub.assumption = GT_NONE;
    pod->hold = 0;
}

/* ---- changes ---- */

/* The plan that counts now that the object tells of `told`. */
static void take_plan(struct gt_feed *feed, const struct feed_draft *draft, struct feed_pod *pod)
{
    struct feed_plan *plan = NULL;
    if (draft->bad_plan ||
        gt_feed_read_plan(feed, draft->plan_node, draft->plan_gpus, draft->gpu_sum, &plan) < 0)
        feed->refused++;
    uint64_t digest = gt_feed_mix_text(gt_feed_mix_text(feed->seed, draft->plan_node), draft->plan_gpus);
    pod->told = plan ? digest | 1 : 0;
    if (pod->overrides && (!plan || pod->told == pod->overridden)) {
        if (!plan)
            pod->overridden = 0;
        gt_feed_free_plan(feed, plan);
        return;
    }
    pod->overrides = false;
    pod->plan = plan;
    pod->resolved_version = 0;
}

/* Puts what was read of the object into the pod; `new` then holds what was there. */
static void exchange(struct feed_pod *pod, struct feed_pod *new)
{
    struct feed_pod old = *pod;
    const struct gt_feed_pod *kept = &old.pub;
    pod->pub = new->pub;
    pod->pub.state = kept->state;
    pod->pub.node = kept->node;
    pod->pub.plan = kept->plan;
    pod->pub.plan_node = kept->plan_node;
    pod->pub.plan_mask = kept->plan_mask;
    pod->pub.assumption = kept->assumption;
    pod->pub.job = kept->job;
    pod->pub.next = kept->next;
    pod->body = new->body;
    pod->error = new->error;
    pod->suit = new->suit;
    pod->at = new->at;
    pod->gated = new->gated;
    pod->digest = new->digest;
    *new = old;
}

static void change(struct gt_feed *feed, const struct feed_draft *draft, struct feed_pod *pod,
                   struct feed_pod *new)
{
    struct feed_node *left = pod->seat;
    struct feed_plan *old_plan = pod->plan;
    gt_feed_unseat(feed, pod);
    exchange(pod, new);
    take_plan(feed, draft, pod);
    gt_feed_seat(pod);
    if (left && left != pod->seat)
        gt_feed_settle(feed, left);
    if (pod->seat)
        gt_feed_settle(feed, pod->seat);
    else
        gt_feed_settle_unseated(feed, pod);
    gt_feed_changed(feed, pod);
    if (old_plan != pod->plan)
        gt_feed_free_plan(feed, old_plan);
    empty(feed, new); /* what was before */
}

/* An empty pod in the table and in its job; `new` has its name and stays the caller's. */
static struct feed_pod *make(struct gt_feed *feed, const struct feed_pod *new, const char *key)
{
    struct feed_pod *pod = gt_feed_alloc(&feed->bytes, sizeof(*pod));
    if (!pod)
        return NULL;
    pod->pub.state = GT_FEED_WAITING;
    pod->pub.node = pod->pub.plan_node = pod->pub.assumption = GT_NONE;
    pod->hash = hash_of(feed, new->pub.meta.namespace_, new->pub.meta.name);
    if (gt_feed_join_job(feed, pod, key) < 0) {
        gt_feed_release(&feed->bytes, pod);
        return NULL;
    }
    if (gt_feed_table_add(&feed->pods, &feed->bytes, pod->hash, pod) < 0) {
        struct gt_feed_job *job = pod->pub.job;
        gt_feed_leave_job(pod);
        gt_feed_drop_job(feed, job);
        gt_feed_release(&feed->bytes, pod);
        return NULL;
    }
    feed->pods_in[GT_FEED_WAITING]++;
    return pod;
}

static void unqueue(struct gt_feed *feed, const struct feed_pod *pod)
{
    struct feed_pod *previous = NULL;
    if (!pod->changed)
        return;
    for (struct feed_pod *at = feed->first_changed; at != pod; at = at->next_changed)
        previous = at;
    if (previous)
        previous->next_changed = pod->next_changed;
    else
        feed->first_changed = pod->next_changed;
    if (feed->last_changed == pod)
        feed->last_changed = previous;
}

void gt_feed_free_pod(struct gt_feed *feed, struct feed_pod *pod)
{
    gt_feed_drop_job(feed, pod->pub.job);
    gt_feed_free_plan(feed, pod->plan);
    empty(feed, pod);
    gt_feed_release(&feed->bytes, pod);
}

static void drop_pod(struct gt_feed *feed, struct feed_pod *pod)
{
    struct feed_node *left = pod->seat;
    gt_feed_table_remove(&feed->pods, pod->hash, pod);
    gt_feed_unseat(feed, pod);
    gt_feed_leave_job(pod);
    unqueue(feed, pod);
    feed->pods_in[pod->pub.state]--;
    if (left)
        gt_feed_settle(feed, left);
    if (feed->spec.on_pod_gone)
        feed->spec.on_pod_gone(feed->spec.arg, &pod->pub);
    gt_feed_free_pod(feed, pod);
}

static void refuse(struct gt_feed *feed, const struct feed_draft *draft, const char *why)
{
    feed->refused++;
    if (feed->spec.on_refused && draft->namespace_ && draft->name)
        feed->spec.on_refused(feed->spec.arg, draft->namespace_, draft->name, why);
}

/* A pod that asks for GPUs: new, or another state of `pod`. */
static void take_pod(struct gt_feed *feed, const struct feed_draft *draft, struct feed_pod *pod)
{
    struct feed_pod new = {0};
    gt_auto_buf struct gt_buf key = GT_BUF(2048);
    /* A pod that is on a node stays there: where else it might go does not matter. */
    int r = draft->node_name ? 0 : gt_feed_suit_of(feed, draft->spec, &new.suit);
    bool sound = r == 0;
    if (sound && pod && pod->digest == draft->digest && pod->suit == new.suit) {
        gt_feed_suit_drop(feed, new.suit);
        return;
    }
    sound = sound && fill(feed, draft, &new) && identify(feed, &new, &key);
    if (sound && pod && strcmp(pod->pub.job->key, key.data) != 0) {
        drop_pod(feed, pod); /* its labels say now that it is of another job */
        pod = NULL;
    }
    if (sound && !pod)
        pod = make(feed, &new, key.data);
    if (sound && pod)
        change(feed, draft, pod, &new);
    else {
        empty(feed, &new);
        refuse(feed, draft,
               r == -EINVAL ? "its node selector, node affinity and tolerations have more than 64 KiB, or "
                              "more than 4096 parts, or make no sense"
                            : "gputopo-scheduler has no memory for it");
    }
}

void gt_feed_pod(struct gt_feed *feed, const cJSON *object)
{
    struct feed_draft draft;
    if (!gt_feed_read_pod(feed, object, &draft)) {
        refuse(
            feed, &draft,
            "it has more than 64 containers with GPUs, more GPUs than any node has, or fields that make no "
            "sense");
        return;
    }
    struct feed_pod *pod = gt_feed_pod_named(feed, draft.namespace_, draft.name);
    bool counts = !draft.ended && draft.gpu_sum;
    if (pod && (!counts || strcmp(pod->pub.uid, draft.uid) != 0)) {
        drop_pod(feed, pod);
        pod = NULL;
    }
    if (counts && !pod && feed->pods.count == GT_FEED_PODS_MAX) {
        feed->pods_beyond++;
        if (feed->spec.on_refused)
            feed->spec.on_refused(feed->spec.arg, draft.namespace_, draft.name,
                                  "more pods ask for GPUs than gputopo-scheduler keeps");
    } else if (counts)
        take_pod(feed, &draft, pod);
    gt_feed_deliver(feed);
}

void gt_feed_pod_gone(struct gt_feed *feed, const char *namespace_, const char *name)
{
    struct feed_pod *pod = gt_feed_pod_named(feed, namespace_, name);
    if (pod)
        drop_pod(feed, pod);
    gt_feed_deliver(feed);
}
