/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "base/text.h"
#include "kube/yaml.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/view.h"

enum { CONFIG_FILE_MAX = 1 << 20, VALUE_MAX = 4096 };

enum option_key {
    OPTION_KUBECONFIG = 256,
    OPTION_HTTP,
    OPTION_HTTPS,
    OPTION_HEALTH,
    OPTION_TLS_CERTIFICATE,
    OPTION_TLS_KEY,
    OPTION_TLS_CLIENT_CA,
    OPTION_EXTENDER_CLIENTS,
    OPTION_WEBHOOK_CLIENTS,
    OPTION_WEBHOOK_EXCEPT,
    OPTION_WEIGHT,
    OPTION_SCORE_WEIGHT,
    OPTION_LOSS_WEIGHT,
    OPTION_ON_LOST_PLAN,
    OPTION_PATIENCE,
    OPTION_UNSCHEDULABLE,
    OPTION_RESERVE,
    OPTION_RESERVE_GPUS,
    OPTION_ONLY,
    OPTION_CONFIG,
    OPTION_NAMESPACE,
    OPTION_SUPERNODE_LABEL,
    OPTION_SUPERNODES_CONFIG,
    OPTION_PROJECT,
    OPTION_LEADER_ELECT,
    OPTION_LEASE_NAMESPACE,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT,
    OPTION_HELP,
    OPTION_VERSION,
};

/* One table for the parser, for --help and for the keys of a configuration file. */
static const struct gt_option table[] = {
    {"kubeconfig", "FILE", "use this API server (the pod's, where this is a pod)", OPTION_KUBECONFIG},
    {"http", "ADDRESS:PORT", "health, metrics and what the parts serve, or none (127.0.0.1:9401)",
     OPTION_HTTP},
    {"https", "ADDRESS:PORT", "the same with TLS, or none (none)", OPTION_HTTPS},
    {"health", "ADDRESS:PORT", "health alone, where nothing else can fill the listener, or none (none)",
     OPTION_HEALTH},
    {"tls-certificate", "FILE", "PEM, for --https; read again when it changes, as are the next two",
     OPTION_TLS_CERTIFICATE},
    {"tls-key", "FILE", "PEM", OPTION_TLS_KEY},
    {"tls-client-ca", "FILE", "PEM; the kube-scheduler endpoint then wants a certificate of it",
     OPTION_TLS_CLIENT_CA},
    {"extender-clients", "NAMES",
     "names that this certificate may have (CN or DNS), or any (kube-scheduler,system:kube-scheduler)",
     OPTION_EXTENDER_CLIENTS},
    {"webhook-clients", "NAMES",
     "the webhook wants such a certificate of the API server, with one of these names or any; or none (none)",
     OPTION_WEBHOOK_CLIENTS},
    {"webhook-except", "NAMES",
     "namespaces of which the webhook is not asked: pods there miss no review; or none (kube-system)",
     OPTION_WEBHOOK_EXCEPT},
    {"weight", "NUMBER", "of gpu-aware among a scheduler's other scores, above 0 (1)", OPTION_WEIGHT},
    {"score-weight", "NUMBER", "of the links that a pod gets (1)", OPTION_SCORE_WEIGHT},
    {"loss-weight", "NUMBER",
     "of the free bandwidth that the pod does not get: higher, less fragmentation (0.5)", OPTION_LOSS_WEIGHT},
    {"on-lost-plan", "WHAT",
     "a planned pod whose place is taken before it is bound: report, or recreate it (report)",
     OPTION_ON_LOST_PLAN},
    {"patience", "SECONDS", "a job that waits for so long has nodes kept for it (60)", OPTION_PATIENCE},
    {"unschedulable", "SECONDS",
     "a planned pod that its scheduler refuses for so long has lost its plan (60)", OPTION_UNSCHEDULABLE},
    {"reserve", "SECONDS", "a StatefulSet's places are kept for so long after its last pod came (1800)",
     OPTION_RESERVE},
    {"reserve-gpus", "NUMBER", "GPUs that are kept for units of which no pod is there, for each (512)",
     OPTION_RESERVE_GPUS},
    {"only", "PARTS", "do these alone, a list; see below (all)", OPTION_ONLY},
    {"config", "FILE", "options in YAML or JSON; the command line wins", OPTION_CONFIG},
    {"namespace", "NAME", "where its ConfigMap and its own objects are (the pod's, else the kubeconfig's)",
     OPTION_NAMESPACE},
    {"supernode-label", "KEYS",
     "node label that names a supernode, the first of a list that is there, or none (" GT_SUPERNODE_LABEL ")",
     OPTION_SUPERNODE_LABEL},
    {"supernodes-config", "WHAT",
     "ConfigMap of supernodes, a file where it has a slash, or none (gputopo-supernodes)",
     OPTION_SUPERNODES_CONFIG},
    {"project", "WHAT", "what else to write: hypernodes, nodefeatures; adds up, none begins anew (none)",
     OPTION_PROJECT},
    {"leader-elect", "BOOL", "write only while holding the lease: true or false (true)", OPTION_LEADER_ELECT},
    {"lease-namespace", "NAME", "where the lease is (as --namespace)", OPTION_LEASE_NAMESPACE},
    {"log-level", "LEVEL", "error, warning, info or debug (info)", OPTION_LOG_LEVEL},
    {"log-format", "FORMAT", "text or json (text)", OPTION_LOG_FORMAT},
    {"help", NULL, "print this", OPTION_HELP},
    {"version", NULL, "print the version", OPTION_VERSION},
};

void gt_companion_options_help(struct gt_buf *to)
{
    gt_buf_puts(
        to, "Usage: gputopo-scheduler [OPTION]...\n"
            "The companion of gputopo beside the scheduler: knows the topology of the whole cluster.\n\n");
    gt_options_help(table, GT_COUNT(table), 24, to);
    gt_buf_puts(to, "\nParts:\n");
    for (unsigned i = 0; i < gt_part_count; i++)
        gt_buf_printf(to, "  %-24s %s\n", gt_parts[i]->name, gt_parts[i]->help);
    gt_buf_puts(to, "\nSIGTERM and SIGINT give the lease back and end it.\n"
                    "Exit code: 0 done, 1 failed, 2 wrong usage.\n");
}

/* A namespace: 63 characters; the name of a ConfigMap: 253. */
static int read_name(const char *name, const char *text, size_t max, const char **ret, struct gt_err **err)
{
    size_t len = strlen(text);
    if (len > max || !gt_option_is_name(text, len, "-.") || text[0] == '-' || text[0] == '.')
        return gt_fail(err, EINVAL, "--%s: \"%.80s\" is no name of an object", name, text);
    *ret = text;
    return 0;
}

static int read_label_keys(const char *name, const char *text, const char **ret, struct gt_err **err)
{
    char key[GT_CACHE_LABEL_KEY_SIZE];
    for (const char *at = text; at;)
        if (!gt_text_next_listed(&at, key, sizeof(key)) || !gt_option_is_qualified_name(key))
            return gt_fail(err, EINVAL, "--%s: \"%.80s\" is no key of a label", name, text);
    *ret = text;
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

/* Each word of "a,b,c" as a bit of its place among `words`. */
static int read_list(const char *name, const char *text, const char *const *words, unsigned count,
                     const char *expected, unsigned *ret, struct gt_err **err)
{
    unsigned mask = 0;
    for (const char *p = text;;) {
        size_t len = strcspn(p, ",");
        char part[64];
        unsigned at = 0;
        snprintf(part, sizeof(part), "%.*s", (int)(len < sizeof(part) ? len : sizeof(part) - 1), p);
        int r = gt_option_word(name, part, words, count, expected, &at, err);
        if (r < 0)
            return r;
        mask |= 1U << at;
        if (!p[len])
            break;
        p += len + 1;
    }
    *ret = mask;
    return 0;
}

/* Names with commas between them, without blanks. */
static int read_names(const char *name, const char *text, const char **ret, struct gt_err **err)
{
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        if (len == 0 || len > 253 || strcspn(p, " \t\r\n") < len)
            return gt_fail(err, EINVAL, "--%s: \"%.80s\" is no list of names", name, text);
        p += len;
        if (!*p)
            break;
    }
    *ret = text;
    return 0;
}

static int read_parts(const char *name, const char *text, unsigned *ret, struct gt_err **err)
{
    const char *names[GT_PARTS_MAX];
    gt_auto_buf struct gt_buf expected = GT_BUF(1024);
    for (unsigned i = 0; i < gt_part_count; i++) {
        names[i] = gt_parts[i]->name;
        gt_buf_printf(&expected, "%s%s", i ? ", " : "", names[i]);
    }
    return read_list(name, text, names, gt_part_count, expected.data ? expected.data : "", ret, err);
}

static int read_weight(const char *name, const char *text, double *ret, struct gt_err **err)
{
    char *end;
    double weight = strtod(text, &end);
    if (end == text || *end || !(weight >= 0 && weight <= 1e6))
        return gt_fail(err, EINVAL, "--%s: \"%.40s\" is not a number from 0 to 1000000", name, text);
    *ret = weight;
    return 0;
}

static int check_together(const struct gt_companion_options *options, struct gt_err **err)
{
    bool whole = options->tls.certificate && options->tls.key;
    if (options->webhook_clients && !options->tls.client_ca)
        return gt_fail(err, EINVAL, "--webhook-clients needs --tls-client-ca");
    if (options->https && !whole)
        return gt_fail(err, EINVAL, "--https needs --tls-certificate and --tls-key");
    if (!options->https && (options->tls.certificate || options->tls.key || options->tls.client_ca))
        return gt_fail(err, EINVAL, "--tls-certificate, --tls-key and --tls-client-ca need --https");
    return 0;
}

static int read_seconds(const char *name, const char *text, uint64_t *ret_ms, struct gt_err **err)
{
    unsigned seconds = 0;
    int r = gt_option_number(name, text, 1, 86400, &seconds, err);
    *ret_ms = seconds * UINT64_C(1000);
    return r;
}

static int take_option(void *arg, int key, const char *name, const char *value, struct gt_err **err)
{
    struct gt_companion_options *to = arg;
    static const char *const lost_plans[] = {"report", "recreate"};
    static const char *const projections[] = {"hypernodes", "nodefeatures"};
    bool is_none = !*value || strcmp(value, "none") == 0;
    unsigned word = 0;
    int r = 0;
    switch ((enum option_key)key) {
    case OPTION_KUBECONFIG:
        return gt_option_text(name, value, &to->kubeconfig, err);
    case OPTION_HTTP:
        return gt_http_option(name, value, &to->http, err);
    case OPTION_HTTPS:
        return gt_http_option(name, value, &to->https, err);
    case OPTION_HEALTH:
        return gt_http_option(name, value, &to->health, err);
    case OPTION_TLS_CERTIFICATE:
        return gt_option_text(name, value, &to->tls.certificate, err);
    case OPTION_TLS_KEY:
        return gt_option_text(name, value, &to->tls.key, err);
    case OPTION_TLS_CLIENT_CA:
        return gt_option_text(name, value, &to->tls.client_ca, err);
    case OPTION_EXTENDER_CLIENTS:
        return read_names(name, value, &to->extender_clients, err);
    case OPTION_WEBHOOK_CLIENTS:
        to->webhook_clients = NULL;
        return is_none ? 0 : read_names(name, value, &to->webhook_clients, err);
    case OPTION_WEBHOOK_EXCEPT:
        to->webhook_except = "";
        return is_none ? 0 : read_names(name, value, &to->webhook_except, err);
    case OPTION_WEIGHT:
        r = read_weight(name, value, &to->weights.weight, err);
        if (r >= 0 && to->weights.weight == 0)
            return gt_fail(err, EINVAL, "--%s: is above 0", name);
        return r;
    case OPTION_SCORE_WEIGHT:
        return read_weight(name, value, &to->weights.score_weight, err);
    case OPTION_LOSS_WEIGHT:
        return read_weight(name, value, &to->weights.loss_weight, err);
    case OPTION_ON_LOST_PLAN:
        r = gt_option_word(name, value, lost_plans, GT_COUNT(lost_plans), "report, recreate", &word, err);
        to->placement.lost_plan = word ? GT_LOST_RECREATE : GT_LOST_REPORT;
        return r;
    case OPTION_PATIENCE:
        return read_seconds(name, value, &to->placement.patience_ms, err);
    case OPTION_UNSCHEDULABLE:
        return read_seconds(name, value, &to->placement.unschedulable_ms, err);
    case OPTION_RESERVE:
        return read_seconds(name, value, &to->placement.reserve_ms, err);
    case OPTION_RESERVE_GPUS:
        r = gt_option_number(name, value, 1, 1000000, &word, err);
        to->placement.reserve_gpus = word;
        return r;
    case OPTION_ONLY:
        return read_parts(name, value, &to->parts, err);
    case OPTION_CONFIG:
        return 0; /* was read before all others */
    case OPTION_NAMESPACE:
        return read_name(name, value, 63, &to->namespace_, err);
    case OPTION_LEASE_NAMESPACE:
        return read_name(name, value, 63, &to->lease_namespace, err);
    case OPTION_SUPERNODE_LABEL:
        to->supernode_label = NULL;
        return is_none ? 0 : read_label_keys(name, value, &to->supernode_label, err);
    case OPTION_SUPERNODES_CONFIG:
        to->supernodes_config = NULL;
        if (is_none)
            return 0;
        return strchr(value, '/') ? gt_option_text(name, value, &to->supernodes_config, err)
                                  : read_name(name, value, 253, &to->supernodes_config, err);
    case OPTION_PROJECT:
        if (is_none) {
            to->project_hypernodes = to->project_nodefeatures = false;
            return 0;
        }
        r = read_list(name, value, projections, GT_COUNT(projections), "hypernodes, nodefeatures, none",
                      &word, err);
        to->project_hypernodes |= word & 1;
        to->project_nodefeatures |= word >> 1 & 1;
        return r;
    case OPTION_LEADER_ELECT:
        return gt_option_bool(name, value, &to->leader_elect, err);
    case OPTION_LOG_LEVEL:
        return gt_option_log_level(name, value, &to->log_level, err);
    case OPTION_LOG_FORMAT:
        return gt_option_log_format(name, value, &to->log_format, err);
    case OPTION_HELP:
        to->help = true;
        return 0;
    case OPTION_VERSION:
        to->version = true;
        return 0;
    }
    return gt_fail(err, EINVAL, "--%s: unknown option", name);
}

/* A list stands for its items with commas between them; it is made a text in place. */
static int join_items(cJSON *value, struct gt_err **err)
{
    gt_auto_buf struct gt_buf joined = GT_BUF(VALUE_MAX);
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        if (!cJSON_IsString(item))
            return gt_fail(err, EINVAL, "%s: a list of words is expected", value->string);
        gt_buf_printf(&joined, "%s%s", joined.len ? "," : "", item->valuestring);
    }
    cJSON *text = cJSON_CreateString(joined.data ? joined.data : "");
    if (!text || joined.failed) {
        cJSON_Delete(text);
        return gt_fail(err, E2BIG, "%s: is too long", value->string);
    }
    /* The item stays where it is, so that whoever walks the mapping may go on. */
    cJSON_Delete(value->child);
    value->child = NULL;
    value->type = cJSON_String;
    value->valuestring = text->valuestring;
    text->valuestring = NULL;
    cJSON_Delete(text);
    return 0;
}

static bool is_part(const char *name)
{
    for (unsigned i = 0; i < gt_part_count; i++)
        if (strcmp(gt_parts[i]->name, name) == 0)
            return true;
    return false;
}

/* A key is an option's name; one that is a part's holds what only that part understands. */
static int take_config(struct gt_companion_options *to, struct gt_err **err)
{
    cJSON *value;
    if (cJSON_IsNull(to->config))
        return 0;
    if (!cJSON_IsObject(to->config))
        return gt_fail(err, EINVAL, "a mapping of options is expected");
    cJSON_ArrayForEach(value, to->config)
    {
        size_t i = 0;
        while (i < GT_COUNT(table) && strcmp(table[i].name, value->string) != 0)
            i++;
        if (is_part(value->string))
            continue;
        if (i == GT_COUNT(table) || !table[i].value || table[i].key == OPTION_CONFIG)
            return gt_fail(err, EINVAL, "\"%.80s\" is no option", value->string);
        if (cJSON_IsArray(value) && join_items(value, err) < 0)
            return -EINVAL;
        if (!cJSON_IsString(value))
            return gt_fail(err, EINVAL, "%s: a text is expected", value->string);
        int r = take_option(to, table[i].key, table[i].name, value->valuestring, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_config(const char *path, struct gt_companion_options *to, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    int r = gt_file_read(AT_FDCWD, path, CONFIG_FILE_MAX, &text, &len, err);
    if (r >= 0)
        r = gt_yaml_read(text, len, &to->config, err);
    if (r >= 0)
        r = take_config(to, err);
    if (r < 0)
        gt_wrap(err, "--config %s", path);
    return r;
}

/* The file counts less than the command line, wherever it stands there: it is looked for first. */
static int take_config_path(void *arg, int key, const char *name, const char *value, struct gt_err **err)
{
    return key == OPTION_CONFIG ? gt_option_text(name, value, arg, err) : 0;
}

void gt_companion_options_done(struct gt_companion_options *options)
{
    cJSON_Delete(options->config);
    options->config = NULL;
}

int gt_companion_options_read(int argc, char **argv, struct gt_companion_options *ret, struct gt_err **err)
{
    struct gt_companion_options options = {
        .http = "127.0.0.1:9401",
        .webhook_except = "kube-system",
        .extender_clients = "kube-scheduler,system:kube-scheduler",
        .parts = (1U << gt_part_count) - 1,
        .supernode_label = GT_SUPERNODE_LABEL,
        .supernodes_config = "gputopo-supernodes",
        .leader_elect = true,
        .weights = GT_AWARE_DEFAULT,
        .log_level = GT_LOG_INFO,
        .log_format = GT_LOG_TEXT,
    };
    const char *config = NULL;
    int r = gt_options_read(table, GT_COUNT(table), argc, argv, take_config_path, &config, err);
    if (r >= 0 && config)
        r = read_config(config, &options, err);
    if (r >= 0)
        r = gt_options_read(table, GT_COUNT(table), argc, argv, take_option, &options, err);
    if (r >= 0 && options.project_nodefeatures && has_label_key(options.supernode_label, GT_LABEL_MEMBER_OF))
        r = gt_fail(err, EINVAL, "--supernode-label: %s is what --project=nodefeatures makes of supernodes",
                    GT_LABEL_MEMBER_OF);
    if (r >= 0)
        r = check_together(&options, err);
    if (r < 0) {
        gt_companion_options_done(&options);
        return r;
    }
    *ret = options;
    return 0;
}
