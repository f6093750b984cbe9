/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/options.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/options.h"
#include "base/text.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/view.h"

enum { WAIT_MAX_S = 86400, SCORE_WEIGHT_MAX = 1000000, NAMESPACE_NAME_MAX = 63, OBJECT_NAME_MAX = 253 };

#define COMPANION_FIELD(member) GT_OPTION_FIELD(struct gt_companion_options, member)

static bool is_none(const char *value)
{
    return !*value || strcmp(value, "none") == 0;
}

/* A namespace: 63 characters; the name of a ConfigMap: 253. */
static int companion_options_read_name(const struct gt_option *option, const char *value, void *field,
                                       struct gt_err **err)
{
    size_t len = strlen(value);
    if ((double)len > option->max || !gt_option_is_name(value, len, "-.") || value[0] == '-' ||
        value[0] == '.')
        return gt_option_refuse(option, "the name of an object", value, err);
    *(const char **)field = value;
    return 0;
}

static int read_supernodes_config(const struct gt_option *option, const char *value, void *field,
                                  struct gt_err **err)
{
    if (!is_none(value))
        return strchr(value, '/') ? gt_option_text(option, value, field, err)
                                  : companion_options_read_name(option, value, field, err);
    *(const char **)field = NULL;
    return 0;
}

static int read_label_keys(const struct gt_option *option, const char *value, void *field,
                           struct gt_err **err)
{
    char key[GT_CACHE_LABEL_KEY_SIZE];
    const char *keys = is_none(value) ? NULL : value;
    for (const char *at = keys; at;)
        if (!gt_text_next_listed(&at, key, sizeof(key)) || !gt_option_is_qualified_name(key))
            return gt_option_refuse(option, "keys of labels", value, err);
    *(const char **)field = keys;
    return 0;
}

static bool has_label_key(const char *keys, const char *wanted)
{
    char key[GT_CACHE_LABEL_KEY_SIZE];
    while (keys)
        if (gt_text_next_listed(&keys, key, sizeof(key)) && strcmp(key, wanted) == 0)
            return true;
    return false;
}

/* The mask of the words of "a,b,c": one bit for the index of each in `words`. */
static int companion_options_read_list(const struct gt_option *option, const char *const *words,
                                       const char *list, unsigned *ret, struct gt_err **err)
{
    unsigned mask = 0, at = 0;
    const char *next = list;
    for (char part[64]; next;) {
        if (!gt_text_next_listed(&next, part, sizeof(part)))
            return gt_option_refuse(option, "shorter words", list, err);
        GT_TRY(gt_option_find_word(option, words, part, &at, err));
        mask |= 1U << at;
    }
    *ret = mask;
    return 0;
}

static int read_project(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    static const char *const words[] = {"hypernodes", "nodefeatures", "none", NULL};
    struct gt_companion_options *to = field;
    unsigned mask = 0;
    GT_TRY(is_none(value) ? 0 : companion_options_read_list(option, words, value, &mask, err));
    bool afresh = !mask || mask & 4;
    to->project_hypernodes = (!afresh && to->project_hypernodes) || mask & 1;
    to->project_nodefeatures = (!afresh && to->project_nodefeatures) || mask & 2;
    return 0;
}

static int read_parts(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    const char *names[GT_PARTS_MAX + 1] = {NULL};
    for (unsigned i = 0; i < gt_part_count; i++)
        names[i] = gt_parts[i]->name;
    return companion_options_read_list(option, names, value, field, err);
}

/* Names separated by commas, without blanks. */
static int companion_options_read_names(const struct gt_option *option, const char *value, void *field,
                                        struct gt_err **err)
{
    for (const char *p = value;; p++) {
        size_t len = strcspn(p, ",");
        if (len == 0 || len > 253 || strcspn(p, " \t\r\n") < len)
            return gt_option_refuse(option, "a list of names", value, err);
        p += len;
        if (!*p)
            break;
    }
    *(const char **)field = value;
    return 0;
}

static int read_names_or_none(const struct gt_option *option, const char *value, void *field,
                              struct gt_err **err)
{
    if (!is_none(value))
        return companion_options_read_names(option, value, field, err);
    *(const char **)field = "";
    return 0;
}

static int read_weight(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    int r = gt_option_real(option, value, field, err);
    return r >= 0 && *(double *)field == 0 ? gt_option_refuse(option, "a number above 0", value, err) : r;
}

static int read_seconds(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    GT_TRY(gt_option_number(option, value, field, err));
    *(uint64_t *)field *= 1000;
    return 0;
}

static const char *const unannotated_words[] = {"leave", "prefer", NULL};

static const char *const access_words[] = {"all", "checked", NULL};
static const char *const close_words[] = {"room", "prefer", NULL};

static const char *const lost_plans[] = {[GT_LOST_REPORT] = "report", [GT_LOST_RECREATE] = "recreate", NULL};

static const char *const taint_words[] = {[GT_NODE_TAINT_NONE] = "none",
                                          [GT_NODE_TAINT_HARD] = "NoSchedule",
                                          [GT_NODE_TAINT_SOFT] = "PreferNoSchedule",
                                          NULL};

static const char *const unhealthy_words[] = {
    [GT_UNHEALTHY_KEEP] = "keep", [GT_UNHEALTHY_EVICT] = "evict", NULL};

static const char *const rebalance_words[] = {
    [GT_REBALANCE_SUGGEST] = "suggest", [GT_REBALANCE_OFF] = "off", [GT_REBALANCE_EVICT] = "evict", NULL};

static const char *const claim_words[] = {
    [GT_CLAIMS_OFF] = "none", [GT_CLAIMS_OF_GROUPS] = "groups", [GT_CLAIMS_OF_ALL] = "all", NULL};

/* Options of before. They are named, since getopt_long() would take one for the beginning of another. */
static int refuse_gone(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    (void)value;
    (void)field;
    return gt_fail(err, EINVAL, "--%s is gone: %s", option->name, *option->words);
}

#define OPTION_GONE(name, instead)                                                                           \
    {                                                                                                        \
        name, "=VALUE", .read = refuse_gone, .words = (const char *const[])                                  \
        {                                                                                                    \
            instead                                                                                          \
        }                                                                                                    \
    }

static const struct gt_option table[] = {
    {"kubeconfig", "FILE", "use this API server (the pod's, where this is a pod)", gt_option_text,
     COMPANION_FIELD(kubeconfig)},
    {"http", "ADDRESS:PORT", "health, metrics and what the parts serve, or none (127.0.0.1:9401)",
     gt_http_option, COMPANION_FIELD(serve.http)},
    {"https", "ADDRESS:PORT", "the same with TLS, or none (none)", gt_http_option,
     COMPANION_FIELD(serve.https)},
    {"health", "ADDRESS:PORT", "health alone, where nothing else can fill the listener, or none (none)",
     gt_http_option, COMPANION_FIELD(serve.health)},
    {"tls-certificate", "FILE", "PEM, for --https; read again when it changes, as are the next two",
     gt_option_text, COMPANION_FIELD(serve.tls.certificate)},
    {"tls-key", "FILE", "PEM", gt_option_text, COMPANION_FIELD(serve.tls.key)},
    {"tls-client-ca", "FILE", "PEM; the kube-scheduler endpoint then wants a certificate of it",
     gt_option_text, COMPANION_FIELD(serve.tls.client_ca)},
    {"extender-clients", "NAMES",
     "names that this certificate may have (CN or DNS), or any (kube-scheduler,system:kube-scheduler)",
     companion_options_read_names, COMPANION_FIELD(serve.extender_clients)},
    {"webhook-clients", "NAMES",
     "the webhook wants such a certificate of the API server, with one of these names or any; or none (none)",
     read_names_or_none, COMPANION_FIELD(serve.webhook_clients)},
    {"ui-access", "WHO", "who may look at the page: all, or checked, by token or certificate (all)",
     gt_option_word, COMPANION_FIELD(serve.ui_access), .words = access_words},
    {"ui-clients", "NAMES",
     "with --ui-access=checked: names in certificates of --tls-client-ca that see all, or any; or none "
     "(none)",
     read_names_or_none, COMPANION_FIELD(serve.ui_clients)},
    {"webhook-except", "NAMES",
     "namespaces of which the webhook is not asked: pods there miss no review; or none (kube-system)",
     read_names_or_none, COMPANION_FIELD(serve.webhook_except)},
    {"weight", "NUMBER", "of gpu-aware among a scheduler's other scores, above 0 (1)", read_weight,
     COMPANION_FIELD(weights.weight), .max = SCORE_WEIGHT_MAX},
    {"loss-weight", "NUMBER",
     "of the free bandwidth that the pod does not get: higher, less fragmentation (0.5)", gt_option_real,
     COMPANION_FIELD(weights.loss_weight), .max = SCORE_WEIGHT_MAX},
    {"closeness-weight", "NUMBER", "of the nearness to pods of the same job, above 0; see --unannotated (1)",
     read_weight, COMPANION_FIELD(weights.closeness_weight), .max = SCORE_WEIGHT_MAX},
    {"unannotated", "HOW",
     "jobs that do not say how they lie: leave, or prefer nodes near their pods that have a place (leave)",
     gt_option_word, COMPANION_FIELD(weights.close), .words = unannotated_words},
    {"chain", "LIST", "sizes of units, in GPUs, that room is left for, ascending (those of the jobs seen)",
     gt_chain_option, COMPANION_FIELD(chain)},
    {"close", "HOW",
     "whether jobs lie close only where that costs no room for larger ones, or always: room, prefer (room)",
     gt_option_word, COMPANION_FIELD(close), .words = close_words},
    {"kinds", "FILE", "further kinds of jobs, in YAML; see how-to/describe-a-kind.md", gt_option_text,
     COMPANION_FIELD(kinds)},
    {"on-lost-plan", "WHAT",
     "a planned pod whose place is taken before it is bound: report, or recreate it (report)", gt_option_word,
     COMPANION_FIELD(placement.lost_plan), .words = lost_plans},
    {"claims", "WHOSE",
     "make claims of the limits of GPUs: none, those of jobs with groups, or all; see how-to/claims.md "
     "(none)",
     gt_option_word, COMPANION_FIELD(placement.claims), .words = claim_words},
    {"patience", "SECONDS", "a job that waits for so long has nodes reserved for it (60)", read_seconds,
     COMPANION_FIELD(placement.patience_ms), .min = 1, .max = WAIT_MAX_S},
    {"unschedulable", "SECONDS",
     "a planned pod that its scheduler refuses for so long has lost its plan (60)", read_seconds,
     COMPANION_FIELD(placement.unschedulable_ms), .min = 1, .max = WAIT_MAX_S},
    {"node-loss-after", "SECONDS",
     "a node that is not Ready, or a GPU that is unhealthy, for so long is lost for its pods (300)",
     read_seconds, COMPANION_FIELD(placement.node_loss_ms), .min = 1, .max = WAIT_MAX_S},
    {"brake", "PERCENT",
     "of the cluster's nodes, and of a supernode's, pods are evicted from so many at most at once (10)",
     gt_option_number, COMPANION_FIELD(placement.brake_percent), .min = 1, .max = 100},
    {"on-unhealthy-gpu", "WHAT",
     "pods with limits on a GPU that is lost in this way: keep, or evict them (keep)", gt_option_word,
     COMPANION_FIELD(placement.unhealthy_gpu), .words = unhealthy_words},
    {"taint-unhealthy", "EFFECT",
     "Nodes with half of their GPUs bad get a taint: NoSchedule, PreferNoSchedule, or none (none)",
     gt_option_word, COMPANION_FIELD(placement.taints), .words = taint_words},
    {"rebalance", "WHAT",
     "for the first job that waits while enough GPUs are free: suggest which pods could move, evict them, or "
     "off (suggest)",
     gt_option_word, COMPANION_FIELD(placement.rebalance), .words = rebalance_words},
    {"preempt", "BOOL", "evict pods of lower priority for a job that waits: true or false (false)",
     gt_option_bool, COMPANION_FIELD(placement.preempt)},
    {"moves-a-day", "NUMBER", "with --rebalance=evict, units and single pods that move in 24 hours (10)",
     gt_option_number, COMPANION_FIELD(placement.moves_a_day), .min = 1, .max = GT_MOVES_A_DAY_MAX},
    {"spare-nodes", "NUMBER", "free nodes of each supernode that are left to pods whose nodes were lost (0)",
     gt_option_number, COMPANION_FIELD(placement.spare_nodes), .max = 8192},
    {"reserve", "SECONDS", "a StatefulSet's places are reserved for so long after its last pod came (1800)",
     read_seconds, COMPANION_FIELD(placement.reserve.coming_ms), .min = 1, .max = WAIT_MAX_S},
    {"reserve-yield", "SECONDS",
     "places of pods that do not come are given to jobs of other namespaces after so long without new pods "
     "(5)",
     read_seconds, COMPANION_FIELD(placement.reserve.yield_ms), .min = 1, .max = WAIT_MAX_S},
    {"reserve-gpus", "NUMBER",
     "GPUs that are reserved for pods that do not exist, for a namespace, beyond as many as its pods run on "
     "(512)",
     gt_option_number, COMPANION_FIELD(placement.reserve.gpus_per_namespace), .min = 1, .max = 1000000},
    OPTION_GONE("reserve-waiting", "nodes are reserved for 600 seconds at a time"),
    OPTION_GONE("reserve-waiting-percent", "at most half of the GPUs are reserved for a waiting job"),
    OPTION_GONE("score-weight", "divide --loss-weight and --closeness-weight by it, multiply --weight by it"),
    OPTION_GONE("taint-unhealthy-above", "a Node gets the taint where half of its GPUs are bad"),
    OPTION_GONE("moves-at-once", "two units or single pods move at the same time"),
    OPTION_GONE("kueue-reject-after", "a unit larger than any supernode waits, and its message says so"),
    OPTION_GONE("lift-gates", "gputopo withdraw --gates removes the gates"),
    {"only", "PARTS", "do these alone, a list; see below (all but kueue)", read_parts,
     COMPANION_FIELD(parts)},
    {"namespace", "NAME", "where its ConfigMap and its own objects are (the pod's, else the kubeconfig's)",
     companion_options_read_name, COMPANION_FIELD(namespace_), .max = NAMESPACE_NAME_MAX},
    {"supernode-label", "KEYS",
     "node label that names a supernode, the first of a list that is there, or none (" GT_LABEL_SUPERNODE ")",
     read_label_keys, COMPANION_FIELD(supernode_label)},
    {"supernodes-config", "WHAT",
     "ConfigMap of supernodes, a file where it has a slash, or none (gputopo-supernodes)",
     read_supernodes_config, COMPANION_FIELD(supernodes_config), .max = OBJECT_NAME_MAX},
    {"network", "WHAT",
     "ConfigMap of the network: a table, ibnetdiscover's output, or Slurm's topology; a file where it has a "
     "slash, or none (none)",
     read_supernodes_config, COMPANION_FIELD(network), .max = OBJECT_NAME_MAX},
    {"network-labels", "KEYS",
     "node labels that name its leaf, spine and so on, the lowest first, or none (none)", read_label_keys,
     COMPANION_FIELD(network_labels)},
    {"project", "WHAT",
     "what else to write: hypernodes, nodefeatures; adds up, none starts an empty list (none)",
     .read = read_project},
    {"leader-elect", "BOOL", "write only while holding the lease: true or false (true)", gt_option_bool,
     COMPANION_FIELD(leader_elect)},
    {"log-level", "LEVEL", "error, warning, info or debug (info)", gt_option_word, COMPANION_FIELD(log_level),
     .words = gt_option_log_levels},
    {"log-format", "FORMAT", "text or json (text)", gt_option_word, COMPANION_FIELD(log_format),
     .words = gt_option_log_formats},
    {"help", NULL, "print this", gt_option_last, COMPANION_FIELD(help)},
    {"version", NULL, "print the version", gt_option_last, COMPANION_FIELD(version)},
};

static const struct gt_command command = {
    .name = "gputopo-scheduler",
    .about = "The companion of gputopo beside the scheduler: knows the topology of the whole cluster.",
    .options = table,
    .count = GT_COUNT(table),
};

void gt_companion_options_help(struct gt_buf *to)
{
    gt_options_help(&command, to);
    gt_buf_puts(to, "\nParts:\n");
    for (unsigned i = 0; i < gt_part_count; i++)
        gt_buf_printf(to, "  %-26s %s\n", gt_parts[i]->name, gt_parts[i]->help);
    gt_buf_puts(to, "\nSIGTERM and SIGINT give the lease back and end it.\n"
                    "Exit code: 0 done, 1 failed, 2 wrong usage.\n"
                    "Example: gputopo-scheduler --only ui --kubeconfig ~/.kube/config\n");
}

static int check_together(const struct gt_companion_options *options, struct gt_err **err)
{
    bool whole = options->serve.tls.certificate && options->serve.tls.key;
    if (*options->serve.webhook_clients && !options->serve.tls.client_ca)
        return gt_fail(err, EINVAL, "--webhook-clients needs --tls-client-ca");
    if (*options->serve.ui_clients && !options->serve.tls.client_ca)
        return gt_fail(err, EINVAL, "--ui-clients needs --tls-client-ca");
    if (options->serve.https && !whole)
        return gt_fail(err, EINVAL, "--https needs --tls-certificate and --tls-key");
    if (!options->serve.https &&
        (options->serve.tls.certificate || options->serve.tls.key || options->serve.tls.client_ca))
        return gt_fail(err, EINVAL, "--tls-certificate, --tls-key and --tls-client-ca need --https");
    return 0;
}

static unsigned default_parts(void)
{
    unsigned parts = 0;
    for (unsigned i = 0; i < gt_part_count; i++)
        parts |= gt_parts[i]->on_demand ? 0 : 1U << i;
    return parts;
}

int gt_companion_options_read(int argc, char **argv, struct gt_companion_options *ret, struct gt_err **err)
{
    struct gt_companion_options options = {
        .serve.http = "127.0.0.1:9401",
        .serve.webhook_clients = "",
        .serve.ui_clients = "",
        .serve.webhook_except = "kube-system",
        .serve.extender_clients = "kube-scheduler,system:kube-scheduler",
        .parts = default_parts(),
        .supernode_label = GT_LABEL_SUPERNODE,
        .supernodes_config = "gputopo-supernodes",
        .placement.reserve.gpus_per_namespace = 512,
        .leader_elect = true,
        .weights = GT_AWARE_DEFAULT,
        .log_level = GT_LOG_INFO,
        .log_format = GT_LOG_TEXT,
    };
    GT_TRY(gt_options_read(&command, argc, argv, &options, NULL, err));
    if (options.project_nodefeatures && has_label_key(options.supernode_label, GT_LABEL_MEMBER_OF))
        return gt_fail(err, EINVAL,
                       "--supernode-label: %s is what --project=nodefeatures makes of supernodes",
                       GT_LABEL_MEMBER_OF);
    GT_TRY(check_together(&options, err));
    options.placement.reserve.gpus = options.placement.reserve.gpus_per_namespace;
    *ret = options;
    return 0;
}
