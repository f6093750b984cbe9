/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/page_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json_write.h"
#include "base/text.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/picture/picture.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/explain.h"

enum {
    ROW_MAX = 64 << 10,
    STATE_KEYS_MAX = 256 << 20,
    GONE_MAX = 4096,  /* jobs that are gone and remembered; with more, clients get all again */
    PIECE_ITEMS = 16, /* between two looks at the clock */
    ABSENT_NAMED = 40,
};

struct seen {
    uint64_t digest;  /* of its row */
    uint64_t changed; /* the round in which this was so first */
};

struct seen_node {
    struct seen row;
    uint64_t unhealthy, isolated; /* exclude each other */
    unsigned flags;
    bool known;
};

struct seen_job {
    char *key;
    struct seen row;
};

struct gt_page {
    struct gt_page_spec spec;
    uint64_t epoch;          /* names this process */
    uint64_t round, floor;   /* the last complete one; older states than `floor` get all */
    bool scanning, changed;  /* changed: the round has found something */
    struct seen head;        /* counters and sizes */
    struct seen tree;        /* of supernodes: these change seldom, and are sent together */
    struct seen_node *nodes; /* by id */
    uint32_t node_count, next_node;
    struct seen_job *jobs, *gone; /* by key; no longer there */
    uint32_t job_count, next_job, gone_count;
    bool jobs_listed;
    struct gt_buf row;
};

int gt_page_new(const struct gt_page_spec *spec, struct gt_page **ret, struct gt_err **err)
{
    struct gt_page *page = calloc(1, sizeof(*page));
    GT_NEED(page, err, "page");
    page->spec = *spec;
    page->epoch = gt_clock_wall_ms();
    page->row = (struct gt_buf)GT_BUF(ROW_MAX);
    *ret = page;
    return 0;
}

static void free_jobs(struct seen_job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(jobs[i].key);
    free(jobs);
}

void gt_page_free(struct gt_page *page)
{
    if (!page)
        return;
    free_jobs(page->jobs, page->job_count);
    free_jobs(page->gone, page->gone_count);
    free(page->nodes);
    gt_buf_done(&page->row);
    free(page);
}

/* ---- a round ---- */

/* Takes the row that was written. */
static void page_note_row(struct gt_page *page, struct seen *seen)
{
    uint64_t digest = gt_digest_bytes(GT_DIGEST_EMPTY, page->row.data, page->row.len);
    if (page->row.failed) { /* it is too large, or there is no memory: its changes are not seen */
        gt_buf_done(&page->row);
        digest = 0;
    }
    gt_buf_consume(&page->row, page->row.len);
    page->row.max = ROW_MAX;
    if (digest == seen->digest && seen->changed)
        return;
    *seen = (struct seen){digest, page->round + 1};
    page->changed = true;
}

static void page_add_head(const struct gt_debug_view *view, const char *only, struct gt_buf *to)
{
    const char *absent[ABSENT_NAMED];
    uint32_t absent_count = gt_cache_absent_nodes(view->cache, absent, ABSENT_NAMED);
    struct gt_cache_counters counters;
    struct gt_placement_counters placement = {0};
    struct gt_chain_seen size;
    gt_cache_counters(view->cache, &counters);
    if (view->placement)
        gt_placement_counters(view->placement, &placement);
    gt_json_add_bool(to, "leads", view->leads);
    gt_json_add_bool(to, "synced", view->synced);
    gt_json_add_bool(to, "places", view->placement != NULL);
    gt_json_add_bool(to, "acts", placement.leads);
    gt_json_add_unsigned(to, "withoutTopology", absent_count);
    gt_json_begin(to, "absent", '[');
    for (uint32_t i = 0; !only && i < absent_count && i < ABSENT_NAMED; i++)
        gt_json_add_text(to, NULL, absent[i]);
    gt_json_end(to, ']');
    gt_json_add_unsigned(to, "refusedObjects", counters.refused);
    gt_json_add_unsigned(to, "podsBeyond", counters.pods_beyond);
    gt_json_begin(to, "sizes", '[');
    for (unsigned i = 0; gt_chain_get_seen(gt_cache_cluster(view->cache), i, &size); i++)
        if (size.present)
            gt_json_add_unsigned(to, NULL, size.size);
    gt_json_end(to, ']');
}

static void page_add_tree(const struct gt_debug_view *view, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_supernode supernode;
    for (uint32_t id = 0; id < gt_cluster_supernodes(cluster); id++) {
        if (!gt_cluster_get_supernode(cluster, id, &supernode) || supernode.is_node)
            continue;
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, id);
        gt_json_add_text(to, NULL, supernode.name);
        gt_json_add_unsigned(to, NULL, supernode.tier);
        gt_picture_add_id(to, NULL, supernode.parent);
        gt_json_end(to, ']');
    }
}

static int page_order(const void *a, const void *b)
{
    return strcmp(((const struct seen_job *)a)->key, ((const struct seen_job *)b)->key);
}

static void bury(struct gt_page *page, struct seen_job *job)
{
    page->changed = true;
    if (!page->gone)
        page->gone = calloc(GONE_MAX, sizeof(*page->gone));
    if (!page->gone || page->gone_count >= GONE_MAX) {
        for (uint32_t i = 0; i < page->gone_count; i++)
            free(page->gone[i].key);
        page->gone_count = 0;
        page->floor = page->round + 1;
    }
    if (!page->gone)
        return;
    struct seen_job *gone = &page->gone[page->gone_count++];
    gone->key = gt_steal(job->key);
    gone->row = (struct seen){0, page->round + 1};
}

/* The jobs of this round, with what is known of them from the round before. They are found by their keys,
 * since they may come and go between two pieces. */
static void list_page_jobs(struct gt_page *page, const struct gt_cache *cache)
{
    uint32_t count = 0, capacity = 0, old = 0;
    struct seen_job *jobs = NULL;
    for (const struct gt_cache_job *job = NULL; (job = gt_cache_next_job(cache, job));)
        capacity++;
    jobs = calloc((size_t)capacity + 1, sizeof(*jobs));
    for (const struct gt_cache_job *job = NULL; jobs && (job = gt_cache_next_job(cache, job));)
        if ((jobs[count].key = strdup(job->key)))
            count++;
    page->jobs_listed = true;
    page->next_job = 0;
    if (!jobs)
        return;
    qsort(jobs, count, sizeof(*jobs), page_order);
    for (uint32_t i = 0; i < count; i++) {
        while (old < page->job_count && strcmp(page->jobs[old].key, jobs[i].key) < 0)
            bury(page, &page->jobs[old++]);
        if (old < page->job_count && strcmp(page->jobs[old].key, jobs[i].key) == 0)
            jobs[i].row = page->jobs[old++].row;
    }
    while (old < page->job_count)
        bury(page, &page->jobs[old++]);
    free_jobs(page->jobs, page->job_count);
    page->jobs = jobs;
    page->job_count = count;
}

static void tell(const struct gt_page *page, const char *node, bool worse, const char *reason,
                 const char *text)
{
    page->spec.on_health(page->spec.arg, node, worse, reason, text);
}

/* What people want to know of a node later: since when it is so. */
static void compare_health(const struct gt_page *page, const struct seen_node *old,
                           const struct gt_picture_node *new)
{
    static const struct {
        unsigned flag;
        bool good; /* the flag is good news */
        const char *set, *set_text, *cleared, *cleared_text;
    } words[] = {
        {GT_PICTURE_READY, true, "NodeReady", "the node is Ready again", "NodeNotReady",
         "the node is not Ready"},
        {GT_PICTURE_CORDONED, false, "NodeCordoned", "the node was cordoned", "NodeUncordoned",
         "the node is no longer cordoned"},
        {GT_PICTURE_STALE, false, "ReportStale", "the agent of the node is silent", "ReportCurrent",
         "the agent of the node reports again"},
        {GT_PICTURE_LINKS_DOWN, false, "LinkDown", "a direct link between GPUs is down", "LinksUp",
         "all direct links are up again"},
    };
    for (unsigned i = 0; i < GT_COUNT(words); i++) {
        bool set = new->flags &words[i].flag;
        if (set != (bool)(old->flags & words[i].flag))
            tell(page, new->name, set != words[i].good, set ? words[i].set : words[i].cleared,
                 set ? words[i].set_text : words[i].cleared_text);
    }
    const struct {
        uint64_t mask;
        const char *reason, *text;
    } changes[] = {
        {new->unhealthy & ~new->isolated & ~old->unhealthy, "GPUUnhealthy", "unhealthy: GPU "},
        {new->isolated & ~old->isolated, "GPUIsolated", "isolated: GPU "},
        {(old->unhealthy | old->isolated) & ~new->unhealthy, "GPUHealthy", "healthy again: GPU "},
    };
    for (unsigned i = 0; i < GT_COUNT(changes); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(ROW_MAX);
        if (!changes[i].mask)
            continue;
        gt_buf_puts(&text, changes[i].text);
        gt_text_add_mask(&text, changes[i].mask);
        if (!text.failed)
            tell(page, new->name, i == 0, changes[i].reason, text.data);
    }
}

static void page_scan_node(struct gt_page *page, const struct gt_debug_view *view, uint32_t id)
{
    struct gt_picture_node drawn;
    gt_auto_buf struct gt_buf note = GT_BUF(ROW_MAX);
    struct seen_node *seen = &page->nodes[id];
    gt_page_node_row(view, id, NULL, &page->row);
    bool there = page->row.len > 0;
    page_note_row(page, &seen->row);
    gt_model_draw_node(view, id, &drawn, &note);
    if (there && seen->known && view->synced && page->spec.on_health)
        compare_health(page, seen, &drawn);
    seen->known = there && view->synced;
    seen->flags = drawn.flags;
    seen->unhealthy = drawn.unhealthy & ~drawn.isolated;
    seen->isolated = drawn.isolated;
}

static bool page_grow_nodes(struct gt_page *page, uint32_t count)
{
    if (count <= page->node_count)
        return true;
    struct seen_node *nodes = realloc(page->nodes, count * sizeof(*nodes));
    if (!nodes)
        return false;
    memset(nodes + page->node_count, 0, (count - page->node_count) * sizeof(*nodes));
    page->nodes = nodes;
    page->node_count = count;
    return true;
}

/* False: the round is complete. */
static bool page_scan_next(struct gt_page *page, const struct gt_debug_view *view)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    if (!page->scanning) {
        page->scanning = page_grow_nodes(page, gt_cluster_nodes(cluster));
        page->next_node = 0;
        page->jobs_listed = false;
        return page->scanning;
    }
    if (page->next_node < page->node_count) {
        page_scan_node(page, view, page->next_node++);
        return true;
    }
    if (!page->jobs_listed) {
        page->row.max = STATE_KEYS_MAX;
        page_add_tree(view, &page->row);
        page_note_row(page, &page->tree);
        list_page_jobs(page, view->cache);
        return true;
    }
    if (page->next_job < page->job_count) {
        struct seen_job *seen = &page->jobs[page->next_job++];
        const struct gt_cache_job *job = gt_cache_find_job(view->cache, seen->key);
        if (job) {
            gt_page_job_row(view, job, &page->row);
            page_note_row(page, &seen->row);
        }
        return true;
    }
    page_add_head(view, NULL, &page->row);
    page_note_row(page, &page->head);
    page->scanning = false;
    page->round += page->changed;
    page->changed = false;
    return false;
}

bool gt_page_scan(struct gt_page *page, const struct gt_debug_view *view, uint64_t budget_ns)
{
    uint64_t end = gt_clock_ns() + budget_ns;
    do {
        for (unsigned i = 0; i < PIECE_ITEMS; i++)
            if (!page_scan_next(page, view))
                return true;
    } while (gt_clock_ns() < end);
    return false;
}

bool gt_page_is_scanning(const struct gt_page *page)
{
    return page->scanning;
}

/* ---- an answer ---- */

/* The round of the state that a client has; 0: it gets all. `epoch`: what all states of its kind begin with.
 */
static uint64_t state_of_client(const struct gt_page *page, const char *epoch, const char *query)
{
    char since[48];
    uint64_t round;
    gt_query_get(query, "since", since, sizeof(since));
    if (strncmp(since, epoch, strlen(epoch)) != 0 ||
        !gt_text_to_unsigned(since + strlen(epoch), page->round, &round) || round < page->floor)
        return 0;
    return round;
}

static void page_add_nodes(const struct gt_page *page, const struct gt_debug_view *view, uint64_t since,
                           const char *only, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf gone = GT_BUF(to->max);
    gt_json_begin(to, "nodes", '[');
    for (uint32_t id = 0; id < page->node_count; id++) {
        size_t len = to->len;
        if (page->nodes[id].row.changed <= since)
            continue;
        gt_page_node_row(view, id, only, to);
        if (since && to->len == len)
            gt_json_add_unsigned(&gone, NULL, id);
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "nodesGone", '[');
    if (gone.len)
        gt_buf_add(to, gone.data, gone.len);
    gt_json_end(to, ']');
    to->failed = to->failed || gone.failed;
}

static void page_add_jobs(const struct gt_page *page, const struct gt_debug_view *view, uint64_t since,
                          const char *only, struct gt_buf *to)
{
    gt_json_begin(to, "jobs", '[');
    for (uint32_t i = 0; i < page->job_count; i++) {
        const struct gt_cache_job *job =
            page->jobs[i].row.changed > since ? gt_cache_find_job(view->cache, page->jobs[i].key) : NULL;
        if (job && (!only || strcmp(job->pods->meta.namespace_, only) == 0))
            gt_page_job_row(view, job, to);
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "jobsGone", '[');
    for (uint32_t i = 0; since && i < page->gone_count; i++) {
        const char *key = page->gone[i].key;
        bool theirs = only && (strncmp(key, only, strlen(only)) != 0 || key[strlen(only)] != '/');
        if (page->gone[i].row.changed > since && !theirs)
            gt_json_add_text(to, NULL, key);
    }
    gt_json_end(to, ']');
}

void gt_page_state(struct gt_page *page, const struct gt_debug_view *view,
                   const struct gt_page_around *around, const char *query, struct gt_http_response *response)
{
    struct gt_buf *to = &response->body;
    char epoch[24], state[48], number[24];
    /* what one may see has states of its own: who may see more, or less, than before gets all of it */
    snprintf(epoch, sizeof(epoch), "%" PRIx64 "-",
             around->only ? gt_digest_mix_text(page->epoch, around->only) : page->epoch);
    uint64_t since = state_of_client(page, epoch, query), events = 0, last = 0;
    response->content_type = "application/json";
    response->compressed = true;
    if (!page->round) {
        response->status = 503;
        response->content_type = "text/plain; charset=utf-8";
        gt_buf_puts(to, "the cluster is being read: ask again in a second\n");
        return;
    }
    if (gt_query_get(query, "events", number, sizeof(number)))
        gt_text_to_unsigned(number, UINT64_MAX - 1, &events);
    snprintf(state, sizeof(state), "%s%" PRIu64, epoch, page->round);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "state", state);
    gt_json_add_bool(to, "all", !since);
    gt_json_add_unsigned(to, "ms", view->wall_ms);
    gt_json_add_text(to, "leader", around->leader);
    gt_json_add_text(to, "certificate", around->certificate);
    gt_json_add_text_if(to, "only", around->only);
    page_add_head(view, around->only, to);
    if (page->tree.changed > since) {
        gt_json_begin(to, "supernodes", '[');
        page_add_tree(view, to);
        gt_json_end(to, ']');
    }
    page_add_nodes(page, view, since, around->only, to);
    page_add_jobs(page, view, since, around->only, to);
    gt_json_begin(to, "events", '[');
    if (around->recorder)
        last = gt_kube_recorder_kept(around->recorder, since ? events : 0, around->only, to);
    gt_json_end(to, ']');
    gt_json_add_unsigned(to, "lastEvent", last);
    gt_json_end(to, '}');
    snprintf(
        response->etag, sizeof(response->etag), "%s-%" PRIu64 "-%" PRIx32, state, last,
        (uint32_t)gt_digest_mix_text(gt_digest_mix_text(view->leads, around->leader), around->certificate));
}
