/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/decide.h"

#include "base/bits.h"
#include "base/text.h"
#include "scheduler-ext/core/capacity.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/decide/demands.h"

enum { SORTS_MAX = 16 };

/* Runs (units, or atoms) of equal size. */
struct never_sort {
    unsigned gpus;     /* of a pod */
    uint64_t requests; /* struct gt_numa_pod; too many also where pods differ */
    uint32_t run;      /* pods */
    bool atoms;
    uint64_t wanted;
};

struct never_search {
    struct gt_cache *cache;
    const struct gt_never_spec *spec;
    struct gt_buf *text;
    struct never_sort sorts[SORTS_MAX];
    unsigned sort_count;
    unsigned gpus; /* of the pods in question */
};

/* ---- what it needs ---- */

static bool is_run_open(const struct gt_plan_pod *pods, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (pods[i].running)
            return false;
    return true;
}

/* False: there are too many sorts to say anything. */
static bool count_sorts(struct never_search *search)
{
    const struct gt_job_units *units = search->spec->units;
    for (uint32_t u = 0; u < units->count; u++) {
        const struct gt_plan_unit *unit = &units->units[u];
        uint32_t run = unit->atom ? unit->atom : unit->pods;
        unsigned at = 0;
        while (at < search->sort_count &&
               (search->sorts[at].gpus != unit->gpus || search->sorts[at].run != run))
            at++;
        if (at == SORTS_MAX || !unit->gpus)
            return false;
        const struct gt_plan_pod *pods = &search->spec->pods[unit->first];
        if (at == search->sort_count)
            search->sorts[search->sort_count++] = (struct never_sort){
                .gpus = unit->gpus, .requests = pods->requests, .run = run, .atoms = run < unit->pods};
        for (uint32_t i = 0; i < unit->pods; i++)
            if (pods[i].requests != search->sorts[at].requests)
                search->sorts[at].requests = GT_NUMA_TOO_MANY;
        for (uint32_t first = unit->first; first < unit->first + unit->pods; first += run)
            search->sorts[at].wanted += is_run_open(search->spec->pods, first, run);
    }
    return search->sort_count;
}

/* ---- pods that no node holds ---- */

static const char closed[] = "its node selector, affinity or tolerations exclude";

static bool node_is_too_small(const struct never_search *search, const struct never_sort *sort)
{
    const struct gt_numa_pod pod = {sort->gpus, sort->requests};
    unsigned gpus = sort->gpus;
    const struct gt_cluster *cluster = gt_cache_cluster(search->cache);
    unsigned most = 0;
    uint32_t large = 0, open = 0;
    bool judged = false, by_request = false; /* by a kubelet that has refused it */
    const struct gt_class *class = NULL;
    bool serves = false; /* a node of `class` */
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, n, &node))
            continue;
        const struct gt_numa *numa = gt_class_numa(node.class);
        unsigned own = gt_bit_count(node.all);
        if (node.class != class)
            serves = gt_numa_serves(node.class, node.all, pod);
        class = node.class;
        if (own >= gpus && !serves) {
            judged = true;
            by_request |= gt_numa_by_request(numa, sort->requests);
            own = gt_numa_most(numa) < gpus ? gt_numa_most(numa) : gpus - 1;
        }
        most = own > most ? own : most;
        large += own >= gpus;
        open += own >= gpus && !gt_node_set_has(search->spec->excluded, n);
    }
    if (!large && by_request)
        gt_buf_printf(search->text,
                      "no kubelet admits a pod of %u GPUs that are divided among its containers in this way, "
                      "by the policies of their topology managers: other sizes of containers are needed",
                      gpus);
    else if (!large && judged)
        gt_buf_printf(
            search->text,
            "no kubelet gives a pod more than %u GPUs, by the policies of their topology managers, a "
            "pod asks for %u: pods of up to %u would do",
            most, gpus, most);
    else if (!large)
        gt_buf_printf(search->text,
                      "no node has more than %u GPUs, a pod asks for %u: pods of up to %u would do", most,
                      gpus, most);
    else if (!open)
        gt_buf_printf(search->text,
                      "%s all %u node%s with %u GPU%s or more: rules that allow some of them are needed",
                      closed, large, gt_plural(large), gpus, gt_plural(gpus));
    return !open;
}

static void say_shortage(const struct never_search *search, const char *name, uint64_t asked, uint64_t most)
{
    bool some = gt_node_set_count(search->spec->excluded);
    gt_buf_printf(search->text, "no node%s has %s %s", some ? " that it may use" : "", most ? "more" : "any",
                  gt_demands_resource_name(name));
    if (most) {
        gt_buf_puts(search->text, " than ");
        gt_demands_amount_text(name, most, search->text);
    }
    gt_buf_puts(search->text, ", a pod asks for ");
    gt_demands_amount_text(name, asked, search->text);
    if (most) {
        gt_buf_puts(search->text, ": pods of up to ");
        gt_demands_amount_text(name, most, search->text);
        gt_buf_puts(search->text, " would do");
    }
}

static bool never_fits_one(const struct never_search *search, const struct gt_cache_demand *demand)
{
    const struct gt_cluster *cluster = gt_cache_cluster(search->cache);
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node node;
        if (gt_cluster_get_node(cluster, n, &node) && gt_bit_count(node.all) >= demand->gpus &&
            !gt_node_set_has(search->spec->excluded, n) &&
            gt_cache_room_for(search->cache, n, demand->request, GT_CACHE_ROOM_EMPTY))
            return true;
    }
    return false;
}

/* Where there are as many demands as there can be, some stand for others. */
static bool is_exact(const struct never_search *search)
{
    return search->spec->demand_count < GT_DEMANDS_MAX;
}

static bool resources_are_too_few(const struct never_search *search)
{
    for (unsigned k = 0; is_exact(search) && k < search->spec->demand_count; k++) {
        const struct gt_cache_demand *demand = &search->spec->demands[k];
        uint64_t asked, most;
        if (never_fits_one(search, demand))
            continue;
        const char *name =
            gt_cache_never_enough(search->cache, search->spec->excluded, demand->request, &asked, &most);
        if (name)
            say_shortage(search, name, asked, most);
        else
            gt_buf_printf(search->text, "no node%s has all at once that a pod of %u GPU%s asks for",
                          gt_node_set_count(search->spec->excluded) ? " that it may use" : "", demand->gpus,
                          gt_plural(demand->gpus));
        return true;
    }
    return false;
}

/* ---- runs and jobs that are too large ---- */

/* Pods of the demand that most of fit. */
static uint32_t most_on(const void *arg, uint32_t node)
{
    const struct never_search *search = arg;
    uint32_t most = 0;
    bool any = false;
    for (unsigned k = 0; is_exact(search) && k < search->spec->demand_count; k++) {
        const struct gt_cache_demand *demand = &search->spec->demands[k];
        if (demand->gpus != search->gpus)
            continue;
        uint32_t pods = gt_cache_room_for(search->cache, node, demand->request, GT_CACHE_ROOM_EMPTY);
        most = pods > most ? pods : most;
        any = true;
    }
    return any ? most : UINT32_MAX;
}

static uint64_t gpus_of_pods(const struct never_search *search, unsigned gpus)
{
    uint64_t pods = 0;
    for (unsigned i = 0; i < search->sort_count; i++)
        pods += search->sorts[i].gpus == gpus ? search->sorts[i].wanted * search->sorts[i].run : 0;
    return pods * gpus;
}

static void say_nodes(const struct never_search *search)
{
    uint32_t count = gt_node_set_count(search->spec->excluded);
    if (count)
        gt_buf_printf(search->text, "; %s %u node%s", closed, count, gt_plural(count));
}

static bool run_is_too_large(const struct never_search *search, const struct never_sort *sort,
                             const struct gt_bounds *bounds)
{
    if (sort->run <= bounds->largest || !sort->wanted)
        return false;
    uint32_t most = bounds->largest * sort->gpus;
    gt_buf_printf(search->text,
                  "no supernode has more than %u GPU%s for pods of %u, %s of %u must lie in one: ", most,
                  gt_plural(most), sort->gpus, sort->atoms ? "an atom" : "a unit", sort->run * sort->gpus);
    gt_buf_printf(search->text,
                  sort->atoms ? "an atomic size up to %u would do"
                              : "a size up to %u, or an atomic size, would do",
                  most);
    say_nodes(search);
    return true;
}

static bool job_is_too_large(const struct never_search *search, const struct never_sort *sort,
                             const struct gt_bounds *bounds)
{
    uint64_t needed = gpus_of_pods(search, sort->gpus), all = bounds->slots * sort->gpus;
    const char *what = sort->atoms ? "atom" : "unit";
    if (needed > all)
        gt_buf_printf(search->text,
                      "it needs %llu GPUs in pods of %u, the empty cluster has %llu for them: a job of up to "
                      "%llu would do",
                      (unsigned long long)needed, sort->gpus, (unsigned long long)all,
                      (unsigned long long)all);
    else if (sort->wanted > bounds->whole)
        gt_buf_printf(search->text,
                      "it needs %llu %s%s of %u GPUs, the empty cluster holds %llu: %llu, or a "
                      "smaller size, would do",
                      (unsigned long long)sort->wanted, what, gt_plural(sort->wanted), sort->run * sort->gpus,
                      (unsigned long long)bounds->whole, (unsigned long long)bounds->whole);
    else
        return false;
    say_nodes(search);
    return true;
}

static bool sort_is_too_large(struct never_search *search, const struct never_sort *sort)
{
    const struct gt_cluster *cluster = gt_cache_cluster(search->cache);
    const struct gt_empty_spec spec = {.pod = {sort->gpus, sort->requests},
                                       .excluded = search->spec->excluded,
                                       .most = most_on,
                                       .arg = search};
    gt_auto_free uint32_t *room = NULL;
    search->gpus = sort->gpus;
    if (gt_capacity_empty(cluster, &spec, &room, NULL) < 0)
        return false;
    struct gt_bounds bounds = gt_bounds_of(room, gt_cluster_supernodes(cluster), sort->run);
    return run_is_too_large(search, sort, &bounds) || job_is_too_large(search, sort, &bounds);
}

/* All its pods together, whatever they ask for. */
static bool all_is_too_large(const struct never_search *search)
{
    const struct gt_cluster *cluster = gt_cache_cluster(search->cache);
    const struct gt_empty_spec spec = {.pod.gpus = 1, .excluded = search->spec->excluded};
    gt_auto_free uint32_t *room = NULL;
    uint64_t needed = 0, all = 0;
    for (unsigned i = 0; i < search->sort_count; i++)
        needed += search->sorts[i].wanted * search->sorts[i].run * search->sorts[i].gpus;
    if (gt_capacity_empty(cluster, &spec, &room, NULL) < 0)
        return false;
    for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++)
        all += room[s];
    if (needed <= all)
        return false;
    gt_buf_printf(search->text,
                  "it needs %llu GPUs, the empty cluster has %llu: a job of up to %llu would do",
                  (unsigned long long)needed, (unsigned long long)all, (unsigned long long)all);
    say_nodes(search);
    return true;
}

static bool knows_a_node(const struct gt_cluster *cluster)
{
    struct gt_cluster_node node;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++)
        if (gt_cluster_get_node(cluster, n, &node))
            return true;
    return false;
}

bool gt_never_fits(struct gt_cache *cache, const struct gt_never_spec *spec, struct gt_buf *text)
{
    struct never_search search = {.cache = cache, .spec = spec, .text = text};
    bool never = false;
    if (!knows_a_node(gt_cache_cluster(cache)) || !count_sorts(&search))
        return false;
    for (unsigned i = 0; i < search.sort_count && !never; i++)
        never = search.sorts[i].wanted && node_is_too_small(&search, &search.sorts[i]);
    never = never || resources_are_too_few(&search);
    for (unsigned i = 0; i < search.sort_count && !never; i++)
        never = sort_is_too_large(&search, &search.sorts[i]);
    return never || all_is_too_large(&search);
}
