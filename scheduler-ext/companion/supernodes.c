/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/log.h"
#include "scheduler-ext/companion/supernodes_private.h"

static int config_read_groups(const char *text, void **ret, struct gt_err **err)
{
    struct gt_groups *groups;
    GT_TRY(gt_groups_read(text, strlen(text), &groups, err));
    *ret = groups;
    return 0;
}

static void config_free_groups(void *value)
{
    gt_groups_free(value);
}

static int config_read_network(const char *text, void **ret, struct gt_err **err)
{
    gt_auto_network struct gt_network *network = NULL;
    GT_TRY(gt_network_new(&network, err));
    GT_TRY(gt_network_read(network, text, strlen(text), err));
    *ret = gt_steal(network);
    return 0;
}

static void config_free_network(void *value)
{
    gt_network_free(value);
}

enum { INTERVAL_MS = 1000, SETTLE_MS = 50, NODE_LABEL_MAX = 63 };

/* Changes within one second are handled together. */
static void supernodes_changed(void *arg)
{
    struct gt_supernodes *self = arg;
    uint64_t now = gt_clock_ms(), at = now + SETTLE_MS;
    if (self->is_due)
        return;
    if (self->last_ms && self->last_ms + INTERVAL_MS > at)
        at = self->last_ms + INTERVAL_MS;
    self->is_due = true;
    gt_source_arm(self->timer, at - now);
}

static void supernodes_network_changed(void *arg)
{
    struct gt_supernodes *self = arg;
    gt_view_network_forget(&self->kept);
    supernodes_changed(self);
}

static const struct gt_config_kind config_groups = {
    .what = "groups",
    .keys = (const char *const[]){GT_GROUPS_KEY, NULL},
    .text_max = GT_GROUPS_TEXT_MAX,
    .read = config_read_groups,
    .free = config_free_groups,
    .on_change = supernodes_changed,
};

/* The last two as topograph and Slurm's operator name them. */
static const struct gt_config_kind config_network = {
    .what = "network",
    .keys = (const char *const[]){"network.csv", "ibnetdiscover", "topology.conf", "topology.yaml", NULL},
    .text_max = GT_NETWORK_TEXT_MAX,
    .read = config_read_network,
    .free = config_free_network,
    .on_change = supernodes_network_changed,
};

/* A configuration that cannot be read must not undo what a valid one has made in an earlier process. */
static bool is_readable(const struct gt_config_source *source)
{
    return gt_config_source_get(source) || !gt_config_source_error(source)[0];
}

static bool knows_enough(const struct gt_supernodes *supernodes)
{
    const struct gt_informers *informers = supernodes->env->informers;
    return gt_informers_has_listed(informers, GT_INFORMER_NODES, NULL) &&
           gt_informers_has_listed(informers, GT_INFORMER_TOPOLOGIES, NULL) &&
           gt_config_source_is_known(supernodes->source) && gt_config_source_is_known(supernodes->network) &&
           gt_apply_set_is_synced(supernodes->set);
}

/* ---- one round ---- */

static bool apply_supernodes(struct gt_supernodes *supernodes, const struct gt_view *view,
                             const struct gt_projected *projected)
{
    bool whole = true;
    gt_apply_set_begin(supernodes->set);
    for (uint32_t s = 0; s < view->join->supernode_count && whole; s++) {
        gt_auto_buf struct gt_buf desired = GT_BUF(GT_APPLY_SET_BODY_MAX);
        gt_view_write_supernode(view, s, projected ? &projected[s] : NULL, &desired);
        whole = !desired.failed &&
                gt_apply_set_want(supernodes->set, view->join->supernodes[s].name, desired.data);
    }
    if (whole)
        gt_apply_set_end(supernodes->set);
    return whole;
}

/* Children before parents. */
static bool apply_hypernodes(struct gt_supernodes *supernodes, const struct gt_view *view,
                             struct gt_projected *projected)
{
    const struct gt_join *join = view->join;
    gt_auto_member_parents struct gt_member_parents *parents = NULL;
    gt_auto_free bool *made = calloc((size_t)join->supernode_count + 1, sizeof(*made));
    bool whole = made && gt_member_parents_new(&parents, NULL) >= 0;
    if (!whole)
        return false;
    gt_apply_set_each(supernodes->hypernodes, gt_member_parents_add, parents);
    whole = gt_member_parents_end(parents);
    gt_apply_set_begin(supernodes->hypernodes);
    for (unsigned tier = 1; tier <= GT_JOIN_TIERS_MAX; tier++)
        for (uint32_t s = 0; s < join->supernode_count && whole; s++) {
            gt_auto_buf struct gt_buf desired = GT_BUF(GT_APPLY_SET_BODY_MAX);
            if (join->supernodes[s].tier != tier)
                continue;
            if (gt_hypernode_write(view, s, parents, made, &projected[s], &desired))
                whole = !desired.failed &&
                        gt_apply_set_want(supernodes->hypernodes, join->supernodes[s].name, desired.data);
        }
    if (whole)
        gt_apply_set_end(supernodes->hypernodes);
    return whole;
}

static void say_unknown_kind(struct gt_projected *projected, uint32_t count)
{
    for (uint32_t s = 0; s < count; s++) {
        projected[s].reason = "NotInstalled";
        snprintf(projected[s].message, sizeof(projected[s].message),
                 "the HyperNodes of this cluster are not known (yet): is Volcano installed?");
    }
}

static bool apply_nodefeatures(struct gt_supernodes *supernodes, const struct gt_view *view)
{
    bool whole = true;
    gt_apply_set_begin(supernodes->nodefeatures);
    for (uint32_t i = 0; i < view->node_count && whole; i++) {
        const struct gt_cache_report *report = view->reports[i];
        gt_auto_buf struct gt_buf desired = GT_BUF(GT_APPLY_SET_BODY_MAX);
        char name[NODE_LABEL_MAX + 16];
        if (!report->is_filled || strlen(report->name) > NODE_LABEL_MAX)
            continue; /* nothing is known about it, or its name is not valid for NFD */
        snprintf(name, sizeof(name), "gputopo-%s", report->name);
        gt_view_write_nodefeature(view, i, &desired);
        whole = !desired.failed && gt_apply_set_want(supernodes->nodefeatures, name, desired.data);
    }
    if (whole)
        gt_apply_set_end(supernodes->nodefeatures);
    return whole;
}

static void supernodes_count(struct gt_supernodes *supernodes, const struct gt_view *view)
{
    struct gt_supernodes_stats *stats = &supernodes->stats;
    memset(stats->supernodes, 0, sizeof(stats->supernodes));
    memset(stats->problems, 0, sizeof(stats->problems));
    stats->nodes = view->node_count;
    stats->nodes_silent = stats->nodes_placed = 0;
    for (uint32_t s = 0; s < view->join->supernode_count; s++)
        stats->supernodes[view->join->supernodes[s].tier]++;
    for (uint32_t p = 0; p < view->join->problem_count; p++)
        stats->problems[view->join->problems[p].kind]++;
    for (uint32_t i = 0; i < view->node_count; i++) {
        stats->nodes_silent += view->reports[i]->gpus < 0;
        stats->nodes_placed += view->join->supernode_of[i] != GT_JOIN_NONE;
    }
}

static int work_out(struct gt_supernodes *supernodes, struct gt_err **err)
{
    gt_auto_view struct gt_view *view = NULL;
    gt_auto_free struct gt_projected *projected = NULL;
    if (!supernodes->knows_servers)
        gt_apply_set_each(supernodes->set, gt_servers_learn, supernodes->servers);
    const struct gt_view_spec spec = {
        .groups = gt_config_source_get(supernodes->source),
        .network = gt_config_source_get(supernodes->network),
        .kept = &supernodes->kept,
        .network_labels = supernodes->env->options->network_labels,
        .servers = supernodes->servers,
        .spare_nodes = (uint32_t)supernodes->env->options->placement.spare_nodes,
    };
    GT_TRY(gt_view_make(gt_informers_cache(supernodes->env->informers), &spec, &view, err));
    supernodes->knows_servers = supernodes->leads; /* published objects of others may have changed */
    bool whole = true;
    if (supernodes->hypernodes) {
        projected = calloc((size_t)view->join->supernode_count + 1, sizeof(*projected));
        GT_NEED(projected, err, "supernodes");
        if (gt_apply_set_is_synced(supernodes->hypernodes))
            whole = apply_hypernodes(supernodes, view, projected);
        else
            say_unknown_kind(projected, view->join->supernode_count);
    }
    whole = apply_supernodes(supernodes, view, projected) && whole;
    if (supernodes->nodefeatures)
        whole = apply_nodefeatures(supernodes, view) && whole;
    supernodes_count(supernodes, view);
    if (supernodes->leads)
        gt_supernodes_events(supernodes, view, projected);
    return whole ? 0 : gt_fail_sys(err, ENOMEM, "supernodes");
}

static void supernodes_run(void *arg)
{
    struct gt_supernodes *self = arg;
    gt_auto_err struct gt_err *err = NULL;
    uint64_t begun = gt_clock_ns();
    self->is_due = false;
    self->last_ms = gt_clock_ms();
    if (!knows_enough(self))
        return; /* missing inputs call on_change when they are known */
    if (!is_readable(self->source) || !is_readable(self->network)) {
        if (self->leads)
            gt_supernodes_events(self, NULL, NULL);
        return;
    }
    if (work_out(self, &err) < 0) {
        gt_warning("supernodes cannot be worked out", GT_STR("why", gt_err_text(err)));
        supernodes_changed(self);
    }
    self->stats.joins++;
    self->stats.seconds += (double)(gt_clock_ns() - begun) / 1e9;
}

/* ---- Events ---- */

/* The default key of earlier versions, which a kubelet may set on its own Node. Reported once. */
static void check_old_label(struct gt_supernodes *supernodes, const cJSON *node)
{
    const char *keys = supernodes->env->options->supernode_label;
    const char *old = gt_meta_label(node, GT_LABEL_OLD_SUPERNODE);
    if (supernodes->reported_old_label || !keys || strcmp(keys, GT_LABEL_SUPERNODE) != 0 || !*old)
        return;
    supernodes->reported_old_label = true;
    gt_warning("a node label names a supernode and is not read any more", GT_STR("node", gt_meta_name(node)),
               GT_STR("label", GT_LABEL_OLD_SUPERNODE), GT_STR("read", keys));
}

static void supernodes_observe(void *arg, enum gt_informer_kind kind, const cJSON *object)
{
    struct gt_supernodes *self = arg;
    if (kind == GT_INFORMER_SUPERNODES)
        gt_apply_set_observe(self->set, object);
    else if (kind == GT_INFORMER_NODES)
        check_old_label(self, object);
}

static void supernodes_observe_deleted(void *arg, enum gt_informer_kind kind, const char *namespace_,
                                       const char *name)
{
    struct gt_supernodes *self = arg;
    (void)namespace_;
    if (kind == GT_INFORMER_SUPERNODES)
        gt_apply_set_observe_deleted(self->set, name);
}

static void supernodes_on_listed(void *arg, enum gt_informer_kind kind)
{
    struct gt_supernodes *self = arg;
    if (kind == GT_INFORMER_SUPERNODES)
        gt_apply_set_observe_all(self->set);
    supernodes_changed(self);
}

/* ---- the part ---- */

static void supernodes_free(void *arg)
{
    struct gt_supernodes *self = arg;
    gt_informers_remove_handlers(self->env->informers, self);
    gt_apply_set_free(self->set);
    gt_apply_set_free(self->hypernodes);
    gt_apply_set_free(self->nodefeatures);
    gt_config_source_free(self->source);
    gt_config_source_free(self->network);
    gt_view_network_forget(&self->kept);
    gt_servers_free(self->servers);
    gt_source_free(self->timer);
    free(self);
}
GT_DEFINE_CLEANUP(struct gt_supernodes *, supernodes_free)

static int start_apply_set(struct gt_supernodes *supernodes, struct gt_err **err)
{
    const struct gt_part_env *env = supernodes->env;
    const struct gt_apply_set_spec own = {.loop = env->loop,
                                          .kube = env->kube,
                                          .resource = &gt_kube_supernodes,
                                          .api_version = GT_API_GROUP_VERSION,
                                          .kind = GT_KIND_SUPERNODE,
                                          .root = "status",
                                          .is_status = true,
                                          .no_informer = true,
                                          .is_strict = true,
                                          .on_change = supernodes_changed,
                                          .arg = supernodes};
    struct gt_apply_set_spec volcano = own, nfd = own;
    volcano.no_informer = nfd.no_informer = false;
    volcano.resource = &gt_kube_hypernodes;
    volcano.api_version = "topology.volcano.sh/v1alpha1";
    volcano.kind = "HyperNode";
    volcano.root = "spec";
    volcano.is_status = volcano.is_strict = false;
    volcano.is_optional = volcano.reports_own = true;
    nfd.resource = &gt_kube_nodefeatures;
    nfd.api_version = "nfd.k8s-sigs.io/v1alpha1";
    nfd.kind = "NodeFeature";
    nfd.namespace_ = env->namespace_;
    nfd.root = "spec";
    nfd.is_status = false;
    nfd.is_optional = true;
    nfd.selector = GT_LABEL_MANAGED_BY "=" GT_MANAGER_COMPANION;
    GT_TRY(gt_apply_set_new(&own, &supernodes->set, err));
    if (env->options->project_hypernodes)
        GT_TRY(gt_apply_set_new(&volcano, &supernodes->hypernodes, err));
    if (env->options->project_nodefeatures)
        GT_TRY(gt_apply_set_new(&nfd, &supernodes->nodefeatures, err));
    return 0;
}

static int supernodes_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    const struct gt_companion_options *options = env->options;
    __attribute__((cleanup(supernodes_free_p))) struct gt_supernodes *self = calloc(1, sizeof(*self));
    GT_NEED(self, err, "supernodes");
    self->env = env;
    GT_TRY(gt_loop_add_timer(env->loop, supernodes_run, self, &self->timer, err));
    GT_TRY(gt_servers_new(&self->servers, err));
    GT_TRY(gt_config_source_new(env, options->supernodes_config, &config_groups, self, &self->source, err));
    GT_TRY(gt_config_source_new(env, options->network, &config_network, self, &self->network, err));
    GT_TRY(start_apply_set(self, err));
    gt_informers_add_handlers(env->informers,
                              &(struct gt_cache_handlers){.observe = supernodes_observe,
                                                          .observe_deleted = supernodes_observe_deleted,
                                                          .on_report = supernodes_changed,
                                                          .on_listed = supernodes_on_listed,
                                                          .arg = self});
    *ret = gt_steal(self);
    return 0;
}

static bool supernodes_ready(const void *arg, struct gt_buf *why)
{
    const struct gt_supernodes *self = arg;
    static const struct {
        enum gt_informer_kind kind;
        const char *what;
    } kinds[] = {{GT_INFORMER_NODES, "Nodes"},
                 {GT_INFORMER_TOPOLOGIES, "NodeGPUTopologies"},
                 {GT_INFORMER_SUPERNODES, "Supernodes"}};
    for (unsigned i = 0; i < GT_COUNT(kinds); i++) {
        const char *error;
        if (gt_informers_has_listed(self->env->informers, kinds[i].kind, &error))
            continue;
        gt_buf_printf(why, "%s not known yet%s%s", kinds[i].what, *error ? ": " : "", error);
        return false;
    }
    if (!gt_config_source_is_known(self->source))
        gt_buf_puts(why, "the configuration of supernodes not known yet");
    else if (!gt_config_source_is_known(self->network))
        gt_buf_puts(why, "the network not known yet");
    return gt_config_source_is_known(self->source) && gt_config_source_is_known(self->network);
}

static void supernodes_lead(void *arg, bool leads)
{
    struct gt_supernodes *self = arg;
    struct gt_apply_set *const sets[] = {self->set, self->hypernodes, self->nodefeatures};
    self->leads = leads;
    for (unsigned i = 0; i < GT_COUNT(sets); i++)
        if (sets[i])
            gt_apply_set_lead(sets[i], leads);
    self->knows_servers = false;
    if (leads) {
        self->before_count = 0; /* a new leader reports everything */
        supernodes_changed(self);
    }
}

const struct gt_part gt_supernodes_part = {
    .name = "supernodes",
    .help = "joins what nodes report into Supernode objects",
    .kinds = 1U << GT_INFORMER_NODES | 1U << GT_INFORMER_TOPOLOGIES | 1U << GT_INFORMER_SUPERNODES,
    .reports = true,
    .new = supernodes_new,
    .free = supernodes_free,
    .ready = supernodes_ready,
    .lead = supernodes_lead,
    .metrics = gt_supernodes_metrics,
};
