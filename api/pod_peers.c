/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_peers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pod_claim.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"

enum { PEERS_BYTES_MAX = 4 << 20 }; /* of the source, which the API server limits */

static const char required[] = "requiredDuringSchedulingIgnoredDuringExecution";

/* ---- from the spec to the text ---- */

/* {"port":..,"protocol":..,"ip":..} of each host port of containers that run beside each other. How many. */
static unsigned add_ports(const cJSON *spec, const char *containers, struct gt_buf *to)
{
    bool only_sidecars = strcmp(containers, "initContainers") == 0;
    bool of_host = cJSON_IsTrue(gt_get(spec, "hostNetwork"));
    unsigned count = 0;
    for (const cJSON *item = gt_first(gt_get(spec, containers)); item; item = item->next)
        for (const cJSON *port = gt_first(gt_get(item, "ports")); port; port = port->next) {
            uint64_t number = 0;
            const char *ip = gt_get_string(port, "hostIP"), *protocol = gt_get_string(port, "protocol");
            gt_json_is_unsigned(gt_get(port, "hostPort"), UINT16_MAX, &number);
            if (!number && of_host) /* the API server fills it in */
                gt_json_is_unsigned(gt_get(port, "containerPort"), UINT16_MAX, &number);
            if (!number || (only_sidecars && strcmp(gt_get_string(item, "restartPolicy"), "Always") != 0))
                continue;
            gt_json_printf(to, "{'port': %" PRIu64 ", 'protocol': %s, 'ip': %s}", number,
                           *protocol ? protocol : "TCP", *ip ? ip : "0.0.0.0");
            count++;
        }
    return count;
}

/* A label key for which pods must have the pod's own value (`how` In), or another one. */
static void add_own_values(const cJSON *term, const char *keys, const cJSON *labels, const char *how,
                           struct gt_buf *to)
{
    for (const cJSON *key = gt_first(gt_get(term, keys)); key; key = key->next) {
        const char *name = cJSON_GetStringValue(key);
        const char *value = name ? cJSON_GetStringValue(gt_get(labels, name)) : NULL;
        if (value)
            gt_json_printf(to, "{'key': %s, 'operator': %s, 'values': [%s]}", name, how, value);
    }
}

/* The term as it is, with its kind, and with the pod's own labels in its selector. */
static void add_term(const cJSON *term, enum gt_peer_term_kind kind, const cJSON *labels, struct gt_buf *to)
{
    const cJSON *item, *selector = gt_get(term, "labelSelector");
    gt_json_printf(to, "{'kind': %d", (int)kind);
    cJSON_ArrayForEach(item, term)
    {
        if (item->string && strcmp(item->string, "kind") != 0 && strcmp(item->string, "labelSelector") != 0 &&
            !cJSON_IsNull(item))
            gt_json_add_tree(to, item->string, item);
    }
    if (selector) {
        gt_json_printf(to, "'labelSelector': {'matchExpressions': [");
        cJSON_ArrayForEach(item, gt_get(selector, "matchExpressions")) gt_json_add_tree(to, NULL, item);
        add_own_values(term, "matchLabelKeys", labels, "In", to);
        add_own_values(term, "mismatchLabelKeys", labels, "NotIn", to);
        gt_json_end(to, ']');
        if (gt_get(selector, "matchLabels"))
            gt_json_add_tree(to, "matchLabels", gt_get(selector, "matchLabels"));
        gt_json_end(to, '}');
    }
    gt_json_end(to, '}');
}

/* How many. */
static unsigned pod_peers_add_terms(const cJSON *spec, const cJSON *labels, struct gt_buf *to)
{
    static const char *const kinds[] = {
        [GT_PEER_TERM_APART] = "podAntiAffinity", [GT_PEER_TERM_TOGETHER] = "podAffinity"};
    unsigned count = 0;
    for (unsigned kind = 0; kind < GT_COUNT(kinds); kind++)
        for (const cJSON *term = gt_first(gt_get(gt_get_at(spec, "affinity", kinds[kind]), required)); term;
             term = term->next, count++)
            add_term(term, (enum gt_peer_term_kind)kind, labels, to);
    for (const cJSON *term = gt_first(gt_get(spec, "topologySpreadConstraints")); term; term = term->next)
        if (strcmp(gt_get_string(term, "whenUnsatisfiable"), "ScheduleAnyway") != 0) {
            add_term(term, GT_PEER_TERM_SPREAD, labels, to);
            count++;
        }
    return count;
}

/* The claim of a volume; "": it has none. */
static const char *pod_peers_claim_of(const cJSON *volume, const char *name, char made[static 512])
{
    if (!gt_get(volume, "ephemeral"))
        return gt_get_string(gt_get(volume, "persistentVolumeClaim"), "claimName");
    snprintf(made, 512, "%s-%s", name, gt_get_string(volume, "name"));
    return made;
}

int gt_pod_claims_text(const cJSON *spec, const char *namespace_, const char *name, char **ret)
{
    struct gt_buf text = GT_BUF(1 << 20);
    char made[512];
    for (const cJSON *item = gt_first(gt_get(spec, "volumes")); item; item = item->next) {
        const char *claim = pod_peers_claim_of(item, name, made);
        if (*claim && !text.len)
            gt_buf_printf(&text, "%s\n", namespace_);
        if (*claim)
            gt_buf_printf(&text, "%s\n", claim);
    }
    if (text.failed)
        gt_buf_done(&text);
    *ret = text.data;
    return text.failed ? -ENOMEM : 0;
}

/* A StatefulSet's claims, and those of ephemeral volumes, have the pod's name in theirs: they are its own.
 * Whether there is one. */
static bool add_claims(const cJSON *spec, const char *name, bool own, struct gt_buf *to)
{
    char made[512];
    bool any = false;
    for (const cJSON *item = gt_first(gt_get(spec, "volumes")); item; item = item->next) {
        const char *claim = pod_peers_claim_of(item, name, made);
        if (!*claim || (strstr(claim, name) != NULL) != own)
            continue;
        if (!any)
            gt_json_begin(to, own ? "own" : "claims", '[');
        gt_json_add_text(to, NULL, claim);
        any = true;
    }
    if (any)
        gt_json_end(to, ']');
    return any;
}

/* The ResourceClaims but the one that the webhook made for its GPUs. */
static bool next_device_claim(const cJSON *spec, struct gt_claim_entry *entry)
{
    struct gt_claim_of_pod ours;
    gt_claim_of_pod_read(spec, &ours);
    while (gt_claim_entry_next(spec, entry))
        if (!ours.template_ || strcmp(ours.name, entry->name) != 0)
            return true;
    return false;
}

bool gt_pod_uses_devices(const cJSON *spec)
{
    struct gt_claim_entry entry = {0};
    return next_device_claim(spec, &entry);
}

static bool pod_peers_add_devices(const cJSON *spec, struct gt_buf *to)
{
    struct gt_claim_entry entry = {0};
    if (!gt_pod_uses_devices(spec))
        return false;
    gt_json_begin(to, "devices", '[');
    while (next_device_claim(spec, &entry))
        gt_json_printf(to, "{?'claim': %s, ?'template': %s}", entry.claim,
                       *entry.claim ? "" : entry.template_);
    gt_json_end(to, ']');
    return true;
}

bool gt_pod_uses_claims(const cJSON *spec)
{
    for (const cJSON *item = gt_first(gt_get(spec, "volumes")); item; item = item->next)
        if (gt_get(item, "persistentVolumeClaim") || gt_get(item, "ephemeral"))
            return true;
    return false;
}

bool gt_pod_has_own_claims(const cJSON *spec, const char *name)
{
    for (const cJSON *item = gt_first(gt_get(spec, "volumes")); item; item = item->next)
        if (gt_get(item, "ephemeral") ||
            (*name && strstr(gt_get_string(gt_get(item, "persistentVolumeClaim"), "claimName"), name)))
            return true;
    return false;
}

/* Most pods ask for nothing: that is seen without any memory. */
static bool pod_peers_asks(const cJSON *spec, bool of_volumes)
{
    if (of_volumes && (gt_pod_uses_claims(spec) || gt_pod_uses_devices(spec)))
        return true;
    if (gt_get(gt_get_at(spec, "affinity", "podAntiAffinity"), required) ||
        gt_get(gt_get_at(spec, "affinity", "podAffinity"), required) ||
        gt_get(spec, "topologySpreadConstraints") || cJSON_IsTrue(gt_get(spec, "hostNetwork")))
        return true;
    static const char *const lists[] = {"containers", "initContainers"};
    for (unsigned i = 0; i < GT_COUNT(lists); i++)
        for (const cJSON *item = gt_first(gt_get(spec, lists[i])); item; item = item->next)
            for (const cJSON *port = gt_first(gt_get(item, "ports")); port; port = port->next)
                if (gt_get(port, "hostPort"))
                    return true;
    return false;
}

int gt_pod_peers_text(const cJSON *spec, const char *namespace_, const char *name, const cJSON *labels,
                      char **ret)
{
    gt_auto_buf struct gt_buf text = GT_BUF(PEERS_BYTES_MAX);
    *ret = NULL;
    if (!pod_peers_asks(spec, name))
        return 0;
    gt_json_printf(&text, "{'of': %s, 'ports': [", namespace_);
    unsigned ports = add_ports(spec, "containers", &text) + add_ports(spec, "initContainers", &text);
    gt_json_printf(&text, "], 'terms': [");
    unsigned terms = pod_peers_add_terms(spec, labels, &text);
    gt_json_end(&text, ']');
    bool any = ports || terms;
    any = (name && add_claims(spec, name, false, &text)) || any;
    any = (name && add_claims(spec, name, true, &text)) || any;
    any = (name && pod_peers_add_devices(spec, &text)) || any;
    gt_json_end(&text, '}');
    if (text.failed)
        return -ENOMEM;
    if (ports > GT_PEER_PORTS_MAX || terms > GT_PEER_TERMS_MAX || (any && text.len > GT_PEERS_TEXT_MAX))
        return -EINVAL;
    *ret = any ? gt_buf_take(&text) : NULL;
    return 0;
}

/* ---- from the text ---- */

static uint32_t number_of(const cJSON *item, const char *key)
{
    uint64_t number = 0;
    gt_json_is_unsigned(gt_get(item, key), INT32_MAX, &number);
    return (uint32_t)number;
}

static void read_term(const cJSON *item, struct gt_peer_term *to)
{
    *to = (struct gt_peer_term){
        .kind = (enum gt_peer_term_kind)number_of(item, "kind"),
        .key = gt_get_string(item, "topologyKey"),
        .selector = gt_get(item, "labelSelector"),
        .namespaces = gt_first(gt_get(item, "namespaces")) ? gt_get(item, "namespaces") : NULL,
        .of_namespace = gt_get(item, "namespaceSelector"),
        .skew = number_of(item, "maxSkew"),
        .fewest = number_of(item, "minDomains"),
        .any_node = strcmp(gt_get_string(item, "nodeAffinityPolicy"), "Ignore") == 0,
        .untainted = strcmp(gt_get_string(item, "nodeTaintsPolicy"), "Honor") == 0,
    };
}

int gt_pod_peers_read(const char *text, struct gt_pod_peers **ret)
{
    size_t size = strlen(text) + 1;
    struct gt_pod_peers *peers = calloc(1, sizeof(*peers) + size);
    if (peers)
        peers->parts = cJSON_Parse(text);
    if (!peers || !peers->parts) {
        free(peers);
        return -ENOMEM;
    }
    peers->of = gt_get_string(peers->parts, "of");
    peers->claims = gt_get(peers->parts, "claims");
    peers->own = gt_get(peers->parts, "own");
    peers->devices = gt_get(peers->parts, "devices");
    peers->text = memcpy(peers + 1, text, size);
    for (const cJSON *item = gt_first(gt_get(peers->parts, "ports"));
         item && peers->port_count < GT_PEER_PORTS_MAX; item = item->next)
        peers->ports[peers->port_count++] = (struct gt_peer_port){
            (uint16_t)number_of(item, "port"), gt_get_string(item, "protocol")[0], gt_get_string(item, "ip")};
    for (const cJSON *item = gt_first(gt_get(peers->parts, "terms"));
         item && peers->term_count < GT_PEER_TERMS_MAX; item = item->next)
        read_term(item, &peers->terms[peers->term_count++]);
    for (unsigned i = 0; i < peers->term_count; i++)
        peers->of_namespaces |= peers->terms[i].of_namespace && peers->terms[i].of_namespace->child;
    *ret = peers;
    return 0;
}

void gt_pod_peers_free(struct gt_pod_peers *peers)
{
    if (peers)
        cJSON_Delete(peers->parts);
    free(peers);
}

static bool are_equal(const cJSON *a, const cJSON *b)
{
    return a == b || (a && b && cJSON_Compare(a, b, true));
}

/* Of one pod: it wants to be where such pods are, and where none is. */
static bool are_opposed(const struct gt_peer_term *a, const struct gt_peer_term *b)
{
    return a->kind == GT_PEER_TERM_TOGETHER && b->kind == GT_PEER_TERM_APART && strcmp(a->key, b->key) == 0 &&
           a->selector && are_equal(a->selector, b->selector) && are_equal(a->namespaces, b->namespaces) &&
           are_equal(a->of_namespace, b->of_namespace);
}

bool gt_pod_peers_contradict(const struct gt_pod_peers *peers, struct gt_buf *to)
{
    for (unsigned i = 0; i < peers->term_count; i++) {
        const struct gt_peer_term *term = &peers->terms[i];
        if (term->kind == GT_PEER_TERM_SPREAD && !term->skew) {
            gt_buf_printf(to, "a spread constraint by %.100s has no maxSkew of 1 or more", term->key);
            return true;
        }
        for (unsigned k = 0; k < peers->term_count; k++)
            if (are_opposed(term, &peers->terms[k])) {
                gt_buf_printf(
                    to,
                    "required affinity and required anti-affinity by %.100s mean the same pods: at most "
                    "one of its pods can be placed",
                    term->key);
                return true;
            }
    }
    return false;
}

bool gt_peer_ports_conflict(const struct gt_pod_peers *a, const struct gt_pod_peers *b)
{
    for (unsigned i = 0; a && b && i < a->port_count; i++)
        for (unsigned k = 0; k < b->port_count; k++) {
            const struct gt_peer_port *x = &a->ports[i], *y = &b->ports[k];
            if (x->port == y->port && x->protocol == y->protocol &&
                (strcmp(x->ip, y->ip) == 0 || strcmp(x->ip, "0.0.0.0") == 0 || strcmp(y->ip, "0.0.0.0") == 0))
                return true;
        }
    return false;
}

/* ---- selectors ---- */

/* "NAMESPACE\nKEY=VALUE\n...": neither has a newline, and no key has "=". */
char *gt_peer_labels_text(const char *namespace_, const cJSON *labels)
{
    struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, namespace_);
    gt_buf_puts(&text, "\n");
    for (const cJSON *item = cJSON_IsObject(labels) ? labels->child : NULL; item; item = item->next) {
        if (!item->string || !cJSON_IsString(item))
            continue;
        gt_buf_puts(&text, item->string);
        gt_buf_puts(&text, "=");
        gt_buf_puts(&text, item->valuestring);
        gt_buf_puts(&text, "\n");
    }
    if (text.failed) {
        gt_buf_done(&text);
        return NULL;
    }
    return text.data;
}

/* Whether the label has the value; `value` NULL: any. */
static bool has_label(const char *labels, const char *key, const char *value)
{
    size_t key_len = strlen(key), len = value ? strlen(value) : 0;
    for (const char *line = strchr(labels, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        const char *at = line + 1;
        if (strncmp(at, key, key_len) != 0 || at[key_len] != '=')
            continue;
        at += key_len + 1;
        return !value || (strncmp(at, value, len) == 0 && at[len] == '\n');
    }
    return false;
}

static bool has_one_of(const char *labels, const char *key, const cJSON *values)
{
    for (const cJSON *item = gt_first(values); item; item = item->next)
        if (cJSON_IsString(item) && has_label(labels, key, item->valuestring))
            return true;
    return false;
}

static bool selects(const cJSON *selector, const char *labels)
{
    const cJSON *pairs = gt_get(selector, "matchLabels");
    for (const cJSON *item = cJSON_IsObject(pairs) ? pairs->child : NULL; item; item = item->next)
        if (!cJSON_IsString(item) || !has_label(labels, item->string, item->valuestring))
            return false;
    for (const cJSON *item = gt_first(gt_get(selector, "matchExpressions")); item; item = item->next) {
        const char *how = gt_get_string(item, "operator"), *key = gt_get_string(item, "key");
        const cJSON *values = gt_get(item, "values");
        bool is_true = strcmp(how, "In") == 0             ? has_one_of(labels, key, values)
                       : strcmp(how, "NotIn") == 0        ? !has_one_of(labels, key, values)
                       : strcmp(how, "Exists") == 0       ? has_label(labels, key, NULL)
                       : strcmp(how, "DoesNotExist") == 0 ? !has_label(labels, key, NULL)
                                                          : false;
        if (!is_true)
            return false;
    }
    return true;
}

static bool is_namespace(const char *labels, const char *name)
{
    size_t len = strlen(name);
    return strncmp(labels, name, len) == 0 && labels[len] == '\n';
}

static bool means_namespace(const struct gt_peer_term *term, const char *of, const char *labels,
                            const char *namespace_labels)
{
    if (!term->namespaces && !term->of_namespace)
        return is_namespace(labels, of);
    for (const cJSON *item = term->namespaces ? term->namespaces->child : NULL; item; item = item->next)
        if (cJSON_IsString(item) && is_namespace(labels, item->valuestring))
            return true;
    if (!term->of_namespace)
        return false;
    char text[320];
    size_t len = strcspn(labels, "\n");
    snprintf(text, sizeof(text), "\nkubernetes.io/metadata.name=%.*s\n", (int)len, labels);
    return selects(term->of_namespace, namespace_labels ? namespace_labels : text);
}

bool gt_peer_term_matches(const struct gt_pod_peers *peers, const struct gt_peer_term *term,
                          const char *labels, const char *namespace_labels)
{
    return term->selector && means_namespace(term, peers->of, labels, namespace_labels) &&
           selects(term->selector, labels);
}
