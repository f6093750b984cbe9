/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * What a pod's spec asks of the pods around it, as far as a scheduler refuses nodes for it: host ports,
 * required affinity and anti-affinity between pods, spread constraints with DoNotSchedule. Preferred rules
 * are not read. With them go the claims that it uses, of volumes and of devices.
 */
enum { GT_PEER_PORTS_MAX = 64, GT_PEER_TERMS_MAX = 16, GT_PEERS_TEXT_MAX = 1 << 15 };

enum gt_peer_term_kind { GT_PEER_TERM_APART, GT_PEER_TERM_TOGETHER, GT_PEER_TERM_SPREAD };

struct gt_peer_port {
    uint16_t port;
    char protocol;  /* its first letter: T, U, S */
    const char *ip; /* "0.0.0.0": all */
};

struct gt_peer_term {
    enum gt_peer_term_kind kind;
    const char *key;           /* of the label that names domains */
    const cJSON *selector;     /* of pods; NULL: none */
    const cJSON *namespaces;   /* an array; NULL: the pod's own, unless there is a selector of them */
    const cJSON *of_namespace; /* NULL: none */
    uint32_t skew, fewest;     /* SPREAD */
    bool any_node, untainted;  /* SPREAD: nodes that its affinity excludes count; nodes that its tolerations
                                  exclude do not */
};

struct gt_pod_peers {
    uint32_t refs, hash;  /* for the user of these rules */
    const char *text;     /* the source; pods with the same one ask for the same */
    cJSON *parts;         /* what the others point into */
    const char *of;       /* the namespace of its pods */
    const cJSON *claims;  /* names of PersistentVolumeClaims, an array; NULL: none */
    const cJSON *own;     /* likewise, of this pod alone, by their names */
    const cJSON *devices; /* [{"claim":NAME} or {"template":NAME}], ResourceClaims that may be of other
                             drivers; NULL: none */
    struct gt_peer_port ports[GT_PEER_PORTS_MAX];
    struct gt_peer_term terms[GT_PEER_TERMS_MAX];
    unsigned port_count, term_count;
    bool of_namespaces; /* a term asks for labels of Namespaces */
};

/* Whether a volume of the pod is that of a PersistentVolumeClaim. */
bool gt_pod_uses_claims(const cJSON *spec);
/* Whether it has ResourceClaims beside the one that the webhook made for its GPUs. */
bool gt_pod_uses_devices(const cJSON *spec);
/* Whether one is of this pod alone: of a StatefulSet's pod, or ephemeral. `name`: "" where it has none yet.
 */
bool gt_pod_has_own_claims(const cJSON *spec, const char *name);

/* "NAMESPACE\nCLAIM\nCLAIM\n": its volume claims, which the caller frees; NULL: it has none. -ENOMEM. */
int gt_pod_claims_text(const cJSON *spec, const char *namespace_, const char *name, char **ret);

/* The parts as one text, which the caller frees; NULL: there are none. -EINVAL where one is invalid or they
 * are more than the limits above, -ENOMEM. Namespace and labels are the pod's own, and so is the name; NULL:
 * its volumes are not asked for. */
int gt_pod_peers_text(const cJSON *spec, const char *namespace_, const char *name, const cJSON *labels,
                      char **ret);
/* Reads the text. -ENOMEM. gt_pod_peers_free() frees it. */
int gt_pod_peers_read(const char *text, struct gt_pod_peers **ret);
void gt_pod_peers_free(struct gt_pod_peers *peers);

/* Appends a sentence for the author of the rules where they contradict each other, whatever the cluster;
 * false: they do not. */
bool gt_pod_peers_contradict(const struct gt_pod_peers *peers, struct gt_buf *to);

/* Whether pods with these ports cannot be on one node. */
bool gt_peer_ports_conflict(const struct gt_pod_peers *a, const struct gt_pod_peers *b);

/* Where a pod is found for selectors: its namespace and labels, as one text. The caller frees it; NULL
 * without memory. */
char *gt_peer_labels_text(const char *namespace_, const cJSON *labels);

/* Whether a term of such a pod means a pod with that text. `namespace_labels` is that of its Namespace; NULL:
 * only its name is known. */
bool gt_peer_term_matches(const struct gt_pod_peers *peers, const struct gt_peer_term *term,
                          const char *labels, const char *namespace_labels);
