/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/group/run.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"

/* ---- links ---- */

int gt_links_open(struct gt_links *links, const struct gt_site *site, struct gt_err **err)
{
    links->nodes = site->node_count;
    for (unsigned k = 0; k <= GT_GPUS_MAX; k++)
        links->best[k] = -1;
    return gt_site_model(site, &links->model, err);
}

void gt_links_done(struct gt_links *links)
{
    gt_cluster_free(links->model);
}

static uint32_t best_of(struct gt_links *links, unsigned k)
{
    struct gt_cluster_node node;
    if (links->best[k] < 0)
        for (uint32_t i = 0; i < links->nodes; i++)
            if (gt_cluster_get_node(links->model, i, &node)) {
                uint32_t score = gt_class_best_score(node.class, k);
                links->best[k] = score > links->best[k] ? score : links->best[k];
            }
    return (uint32_t)links->best[k];
}

void gt_links_add(struct gt_links *links, uint32_t node, uint64_t mask)
{
    struct gt_cluster_node at;
    uint32_t best = best_of(links, gt_bit_count(mask));
    if (!best || !gt_cluster_get_node(links->model, node, &at))
        return;
    links->share_sum += (double)gt_class_sum(at.class, mask) / best;
    links->share_count++;
}

double gt_links_share(const struct gt_links *links)
{
    return links->share_count ? links->share_sum / links->share_count : 1;
}

double gt_links_fragmentation(const struct gt_links *links, uint64_t (*free)(const void *arg, uint32_t node),
                              const void *arg)
{
    double left = 0, whole = 0;
    for (uint32_t i = 0; i < links->nodes; i++) {
        struct gt_cluster_node node;
        uint64_t mask = free(arg, i);
        if (!mask || !gt_cluster_get_node(links->model, i, &node))
            continue;
        left += gt_class_sum(node.class, mask);
        whole += (double)gt_class_sum(node.class, node.all) * gt_bit_count(mask) / gt_bit_count(node.all);
    }
    return whole > 0 ? 1 - left / whole : 0;
}

/* ---- jobs ---- */

static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static bool open_tier(struct gt_meter_tier *tier, const struct gt_world *world, const uint32_t *domain_of,
                      uint32_t domains)
{
    tier->domain_of = domain_of;
    tier->domains = domains;
    tier->gpus = calloc(tier->domains + 1UL, sizeof(*tier->gpus));
    if (!tier->gpus)
        return false;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        tier->gpus[domain_of ? domain_of[s] : s] += world->super_gpus[s];
    qsort(tier->gpus, tier->domains, sizeof(*tier->gpus), larger_first);
    return true;
}

int gt_meter_open(struct group_run *run, uint32_t unit, uint32_t gpus, struct gt_err **err)
{
    struct gt_meter *meter = &run->meter;
    struct gt_world *world = run->world;
    const struct gt_jobs *jobs = run->jobs;
    uint32_t count = jobs->count;
    meter->class_gpus[GT_METER_NODE] = gt_site_largest_node(world->site);
    meter->class_gpus[GT_METER_SUPERNODE] = gt_site_largest_super(world->site);
    meter->world = world;
    meter->jobs = jobs;
    meter->unit = unit ? unit : 1;
    meter->gpus = gpus;
    meter->lasting = count && !isfinite(jobs->job[0].duration);
    meter->first = meter->lasting ? 0 : (uint32_t)(run->options->warm_up * count);
    if (count) {
        meter->begin = meter->first ? jobs->job[meter->first].submit : 0;
        meter->end = jobs->job[count - 1].submit;
    }
    meter->waits = malloc((count + 1) * sizeof(*meter->waits));
    meter->first_waits = malloc((count + 1) * sizeof(*meter->first_waits));
    meter->ran = calloc(count + 1, sizeof(*meter->ran));
    meter->alone = calloc(count + 1, sizeof(*meter->alone));
    meter->moves = calloc(count + 1, sizeof(*meter->moves));
    bool enough = meter->waits && meter->first_waits && meter->ran && meter->alone && meter->moves;
    const struct gt_site *site = world->site;
    enough = enough && open_tier(&meter->tiers[0], world, NULL, site->super_count);
    for (unsigned t = 0; t < GT_SITE_UPPER && enough; t++)
        if (site->upper[t])
            enough = open_tier(&meter->tiers[1 + t], world, site->upper[t], site->upper_count[t]);
    GT_NEED(enough, err, "simulation of %u jobs", count);
    return gt_links_open(&meter->links, world->site, err);
}

void gt_meter_done(struct gt_meter *meter)
{
    free(meter->waits);
    free(meter->first_waits);
    free(meter->ran);
    free(meter->alone);
    free(meter->moves);
    for (unsigned t = 0; t < GT_COUNT(meter->tiers); t++)
        free(meter->tiers[t].gpus);
    gt_links_done(&meter->links);
}

/* The fraction of the free GPUs that no further unit of the largest size can use. */
static double fragmentation(const struct gt_meter *meter)
{
    const struct gt_world *world = meter->world;
    const uint32_t *slots = world->slots[meter->gpus];
    uint64_t fitting = 0;
    if (!world->free_gpus)
        return 0;
    for (uint32_t s = 0; s < world->site->super_count; s++)
        fitting += slots[s] / meter->unit;
    return 1 - (double)fitting * meter->unit * meter->gpus / world->free_gpus;
}

static uint64_t meter_free_of(const void *world, uint32_t node)
{
    return gt_world_available(world, node);
}

static double link_fragmentation(const struct gt_meter *meter)
{
    return gt_links_fragmentation(&meter->links, meter_free_of, meter->world);
}

static double accepted_share(const struct gt_meter *meter)
{
    return meter->asked > 0 ? meter->accepted / meter->asked : 1;
}

static void sample(struct gt_meter *meter, double at)
{
    const struct gt_world *world = meter->world;
    if (meter->recent_units)
        meter->last_spread = meter->recent_spread / meter->recent_units;
    meter->series[meter->samples++] = (struct gt_sample){
        .at = meter->lasting ? meter->all_asked / world->site->gpus : at,
        .occupancy = world->up_gpus ? 1 - (double)world->free_gpus / world->up_gpus : 0,
        .acceptance = meter->all_asked > 0 ? meter->all_accepted / meter->all_asked : 1,
        .spread = meter->last_spread,
        .fragmentation = fragmentation(meter),
    };
    meter->recent_spread = 0;
    meter->recent_units = 0;
    if (at >= meter->begin) {
        meter->fragmentation_sum += meter->series[meter->samples - 1].fragmentation;
        meter->link_fragmentation_sum += link_fragmentation(meter);
        meter->fragmentation_count++;
    }
}

void gt_meter_advance(struct gt_meter *meter, double now)
{
    double step = meter->end / GT_SERIES_MAX;
    if (meter->last_spread < 1)
        meter->last_spread = 1; /* until a unit was placed */
    while (meter->samples < GT_SERIES_MAX && (meter->samples + 1) * step <= now)
        sample(meter, (meter->samples + 1) * step);
    double from = meter->now > meter->begin ? meter->now : meter->begin;
    if (now > meter->end)
        now = meter->end;
    if (now > from) {
        meter->used_area += (now - from) * (meter->world->up_gpus - meter->world->free_gpus);
        meter->up_area += (now - from) * meter->world->up_gpus;
    }
    meter->now = now;
}

/* The weight of a job in the acceptance: its GPU time, or its GPUs where it never ends. */
static double weight(const struct gt_sim_job *job, double seconds)
{
    return (double)job->pods * job->gpus * (isfinite(seconds) ? seconds : 1);
}

void gt_meter_submitted(struct gt_meter *meter, uint32_t job, bool alone)
{
    double asked = weight(&meter->jobs->job[job], meter->jobs->job[job].duration);
    meter->submitted++;
    meter->alone[job] = alone;
    meter->all_asked += asked;
    if (job >= meter->first)
        meter->asked += asked;
}

void gt_meter_rejected(struct gt_meter *meter)
{
    meter->rejected++;
}

void gt_meter_interrupted(struct gt_meter *meter, uint32_t job, double left)
{
    double lost = weight(&meter->jobs->job[job], left);
    meter->interrupted++;
    meter->all_accepted -= lost;
    if (job >= meter->first)
        meter->accepted -= lost;
}

void gt_meter_moved(struct gt_meter *meter, uint32_t job)
{
    meter->moved++;
    meter->moves[job]++;
}

void gt_meter_worked(struct gt_meter *meter, double since, double until, double gpus)
{
    double from = fmax(since, meter->begin), to = fmin(until, meter->end);
    if (to > from)
        meter->work += (to - from) * gpus;
}

/* The number of domains that the pods touch; domain_of: of each supernode, NULL: itself. */
static uint32_t count_domains(const struct gt_meter *meter, const struct gt_place *places, uint32_t pods,
                              const uint32_t *domain_of)
{
    const struct gt_site_node *nodes = meter->world->site->nodes;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pods; i++) {
        bool seen = false;
        uint32_t super = nodes[places[i].node].super;
        for (uint32_t p = i; p-- && !seen;) {
            uint32_t other = nodes[places[p].node].super;
            seen = other == super || (domain_of && domain_of[other] == domain_of[super]);
        }
        count += !seen;
    }
    return count;
}

/* Counts the supernodes of each unit. */
static void add_spread(struct gt_meter *meter, const struct gt_sim_job *job, const struct gt_place *places,
                       bool measured)
{
    for (uint32_t pod = 0; pod < job->pods; pod += job->unit) {
        uint32_t supers = count_domains(meter, places + pod, job->unit, NULL);
        meter->recent_spread += supers;
        meter->recent_units++;
        if (!measured)
            continue;
        meter->split += supers > 1;
        meter->spread_sum += supers;
        meter->units++;
    }
}

/* Counts the domains of a job, tier by tier, up to the tier that needs but one. */
static void add_job_spread(struct gt_meter *meter, const struct gt_sim_job *job,
                           const struct gt_place *places)
{
    uint64_t gpus = (uint64_t)job->pods * job->gpus;
    uint32_t bound = job->pods; /* of the tier below */
    for (unsigned t = 0; t < GT_COUNT(meter->tiers) && bound > 1 && meter->tiers[t].gpus; t++) {
        struct gt_meter_tier *tier = &meter->tiers[t];
        uint64_t fitting = 0;
        for (bound = 0; fitting < gpus && bound < tier->domains; bound++)
            fitting += tier->gpus[bound];
        uint32_t domains = count_domains(meter, places, job->pods, tier->domain_of);
        tier->jobs++;
        tier->in_one += domains == 1;
        tier->sum += domains;
        tier->bound_sum += bound;
    }
}

void gt_meter_started(struct gt_meter *meter, uint32_t number, double now, double seconds,
                      const struct gt_place *places)
{
    const struct gt_sim_job *job = &meter->jobs->job[number];
    bool measured = number >= meter->first, again = meter->ran[number];
    meter->ran[number] = true;
    meter->started += !again;
    bool in_time = now <= meter->end;
    meter->all_accepted += in_time ? weight(job, seconds) : 0;
    add_spread(meter, job, places, measured);
    if (!measured)
        return;
    meter->accepted += in_time ? weight(job, seconds) : 0;
    if (!again)
        add_job_spread(meter, job, places);
    if (!again) {
        double gpus = (double)job->pods * job->gpus, wait = now - job->submit;
        meter->waits[meter->wait_count++] = wait;
        meter->wait_sum += wait;
        meter->gpu_wait_sum += wait * gpus;
        meter->gpu_sum += gpus;
    }
    if (!again && meter->alone[number])
        meter->first_waits[meter->first_wait_count++] = now - job->submit;
    for (uint32_t i = 0; i < job->pods; i++)
        gt_links_add(&meter->links, places[i].node, places[i].mask);
}

void gt_meter_finished(struct gt_meter *meter, uint32_t number, double now)
{
    enum { SHORT_S = 10 }; /* shorter runs count with this length */
    const struct gt_sim_job *job = &meter->jobs->job[number];
    uint32_t gpus = job->pods * job->gpus;
    if (number < meter->first)
        return;
    enum gt_meter_class class = gpus <= meter->class_gpus[GT_METER_NODE]        ? GT_METER_NODE
                                : gpus <= meter->class_gpus[GT_METER_SUPERNODE] ? GT_METER_SUPERNODE
                                                                                : GT_METER_LARGER;
    double slowdown = (now - job->submit) / fmax(job->duration, SHORT_S);
    meter->slowdown_sum[class] += fmax(slowdown, 1);
    meter->slowdown_count[class]++;
}

static double slowdown(const struct gt_meter *meter, enum gt_meter_class class)
{
    return meter->slowdown_count[class] ? meter->slowdown_sum[class] / meter->slowdown_count[class] : 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, uint32_t count, double part)
{
    return count ? sorted[(uint32_t)ceil(part * count) - 1] : 0;
}

void gt_meter_result(struct gt_meter *meter, struct gt_result *ret)
{
    const struct gt_world *world = meter->world;
    while (meter->samples < GT_SERIES_MAX) /* rounding may leave the last one out */
        sample(meter, meter->end);
    qsort(meter->waits, meter->wait_count, sizeof(*meter->waits), by_value);
    qsort(meter->first_waits, meter->first_wait_count, sizeof(*meter->first_waits), by_value);
    *ret = (struct gt_result){
        .jobs = meter->submitted,
        .placed = meter->started,
        .rejected = meter->rejected,
        .interrupted = meter->interrupted,
        .acceptance = accepted_share(meter),
        .occupancy = meter->up_area > 0 ? meter->used_area / meter->up_area : 0,
        .fragmentation =
            meter->fragmentation_count ? meter->fragmentation_sum / meter->fragmentation_count : 0,
        .link_fragmentation =
            meter->fragmentation_count ? meter->link_fragmentation_sum / meter->fragmentation_count : 0,
        .split_share = meter->units ? (double)meter->split / meter->units : 0,
        .spread_mean = meter->units ? meter->spread_sum / meter->units : 0,
        .link_share = gt_links_share(&meter->links),
        .served = meter->end > meter->begin
                      ? meter->used_area / (meter->end - meter->begin) / world->site->gpus
                      : 0,
        .worked =
            meter->end > meter->begin ? meter->work / (meter->end - meter->begin) / world->site->gpus : 0,
        .moved = meter->moved,
        .wait_mean = meter->wait_count ? meter->wait_sum / meter->wait_count : 0,
        .wait_gpu_mean = meter->gpu_sum > 0 ? meter->gpu_wait_sum / meter->gpu_sum : 0,
        .slowdown_node = slowdown(meter, GT_METER_NODE),
        .slowdown_supernode = slowdown(meter, GT_METER_SUPERNODE),
        .slowdown_larger = slowdown(meter, GT_METER_LARGER),
        .wait_p50 = percentile(meter->waits, meter->wait_count, 0.5),
        .wait_p99 = percentile(meter->waits, meter->wait_count, 0.99),
        .wait_first_p99 = percentile(meter->first_waits, meter->first_wait_count, 0.99),
        .decisions_per_second =
            meter->nanoseconds ? (double)meter->decisions * 1e9 / (double)meter->nanoseconds : 0,
        .fragmentation_size = meter->unit * meter->gpus,
        .samples = meter->samples,
    };
    double *of_tier[][3] = {
        {&ret->jobs_in_one, &ret->job_supernodes, &ret->job_supernodes_bound},
        {&ret->jobs_in_one_leaf, &ret->job_leaves, &ret->job_leaves_bound},
        {&ret->jobs_in_one_spine, &ret->job_spines, &ret->job_spines_bound},
        {&ret->jobs_in_one_hall, &ret->job_halls, &ret->job_halls_bound},
    };
    for (unsigned t = 0; t < GT_COUNT(meter->tiers); t++) {
        const struct gt_meter_tier *tier = &meter->tiers[t];
        *of_tier[t][0] = tier->jobs ? (double)tier->in_one / tier->jobs : 1;
        *of_tier[t][1] = tier->jobs ? tier->sum / tier->jobs : 1;
        *of_tier[t][2] = tier->jobs ? tier->bound_sum / tier->jobs : 1;
    }
    if (meter->lasting) { /* no job ends: the final state counts */
        ret->occupancy = world->up_gpus ? 1 - (double)world->free_gpus / world->up_gpus : 0;
        ret->fragmentation = fragmentation(meter);
        ret->link_fragmentation = link_fragmentation(meter);
    }
    for (uint32_t i = 0; i < meter->jobs->count; i++) {
        ret->jobs_moved += meter->moves[i] > 0;
        ret->moved_most = fmax(ret->moved_most, meter->moves[i]);
    }
    memcpy(ret->series, meter->series, sizeof(ret->series));
}
