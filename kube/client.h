/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"
#include "kube/config.h"

/* A kind of object as in paths. Texts are literals; it must outlive the requests for it. With a group alone
 * it is the group, of which GT_KUBE_GET answers the versions that are served (an APIGroup). */
struct gt_kube_resource {
    const char *group;   /* "" is the core group */
    const char *version; /* "v1" */
    const char *plural;  /* "configmaps" */
    bool namespaced;
};

extern const struct gt_kube_resource gt_kube_nodes, gt_kube_pods, gt_kube_configmaps, gt_kube_leases,
    gt_kube_services, gt_kube_events, gt_kube_resource_quotas, gt_kube_resource_claims,
    gt_kube_resource_claim_templates, gt_kube_resource_slices, gt_kube_volume_claims, gt_kube_volumes,
    gt_kube_storage_classes, gt_kube_csi_nodes, gt_kube_device_classes, gt_kube_namespaces, gt_kube_crds;

/* Our own kinds, and the kinds of others as which Supernodes are published. */
extern const struct gt_kube_resource gt_kube_node_gpu_topologies, gt_kube_supernodes, gt_kube_gpu_placements,
    gt_kube_hypernodes, gt_kube_nodefeatures;

/*
 * Appends the path: /api/v1/namespaces/NS/PLURAL/NAME/SUBRESOURCE, or /apis/GROUP/... `name` and
 * `subresource` may be NULL; `namespace_` NULL means all of them (lists only). -EINVAL if a name is invalid,
 * or if the namespace is missing or not allowed.
 */
int gt_kube_path(struct gt_buf *to, const struct gt_kube_resource *resource, const char *namespace_,
                 const char *name, const char *subresource, struct gt_err **err);

/* Appends "?key=value", or "&key=value" if the text has a query already. A NULL value adds nothing. */
void gt_kube_query(struct gt_buf *to, const char *key, const char *value);

/*
 * A client of the Kubernetes API in the event loop. Everything is asynchronous: a call returns a handle at
 * once; its answer comes later, on the loop's thread. Up to 16 requests run at a time, and up to 1,024 in
 * all: those beyond the first 16 wait in a queue.
 */
struct gt_kube;
struct gt_kube_call;

/* `component` is the program's name for the User-Agent. The configuration is copied. */
int gt_kube_new(struct gt_loop *loop, const struct gt_kube_config *config, const char *component,
                struct gt_kube **ret, struct gt_err **err);

/* Cancels every call. Lists, watches and informers must be freed before. It may be called within a callback.
 */
void gt_kube_free(struct gt_kube *kube);
GT_DEFINE_CLEANUP(struct gt_kube *, gt_kube_free)

/* The namespace of the configuration; "default" if it names none. */
const char *gt_kube_namespace(const struct gt_kube *kube);

enum gt_kube_verb {
    GT_KUBE_GET,
    GT_KUBE_CREATE,      /* POST; `name` only with a subresource */
    GT_KUBE_UPDATE,      /* PUT */
    GT_KUBE_APPLY,       /* server-side apply; needs field_manager */
    GT_KUBE_MERGE_PATCH, /* RFC 7396 */
    GT_KUBE_DELETE,      /* body: DeleteOptions, or none */
};

enum {
    GT_KUBE_RESPONSE_MAX = 4 << 20,
    GT_KUBE_DEADLINE_MS = 30000,
    GT_KUBE_TRY_MS = 10000,
};
#define GT_KUBE_FOREVER UINT64_MAX

/* A member that is NULL or 0 is left out or has its default. All texts are copied. */
struct gt_kube_request {
    enum gt_kube_verb verb;
    const struct gt_kube_resource *resource;
    const char *namespace_;
    const char *name;
    const char *subresource;   /* "status" */
    const char *body;          /* JSON */
    const char *field_manager; /* apply, create, update, patch */
    bool force;                /* apply: takes fields over from other managers */
    bool strict;               /* an error where the server does not know a field; else it drops it */
    bool dry_run;              /* the server only says whether it would do it */
    bool metadata_only;        /* the answer has apiVersion, kind and metadata only */
    bool once;                 /* no retries: temporary errors are answers, too, and the caller retries */
    bool no_object;            /* on success the server sends the shortest answer, and `object` is NULL */
    uint64_t deadline_ms;      /* all tries and pauses together; GT_KUBE_FOREVER: until it is cancelled */
    uint64_t try_ms;           /* one try */
    size_t response_max;       /* bytes */
};

/* `status` is the HTTP status, 0 without a complete answer. `error` is NULL for 2xx, else see gt_kube_fail().
 */
struct gt_kube_answer {
    unsigned status;
    cJSON *object; /* the answer's JSON, also of an error; may be NULL; take it with gt_steal() */
    const struct gt_err *error;
    unsigned tries;
    unsigned retry_after_s; /* of the last try; 0: not said */
};

typedef void gt_kube_done(void *arg, struct gt_kube_answer *answer);

/*
 * Starts a request. Connection errors, 429, 500, 502, 503 and 504 are tried again with back-off and jitter
 * until the deadline; a 401 once, with the token read again. Everything else is an answer. A create that has
 * succeeded may be answered with AlreadyExists if the answer to its first try was lost.
 */
int gt_kube_start(struct gt_kube *kube, const struct gt_kube_request *request, gt_kube_done *done, void *arg,
                  struct gt_kube_call **ret, struct gt_err **err);

#define GT_KUBE_ACCEPT "application/json"

struct gt_backoff;
typedef void gt_kube_raw_done(void *arg, struct gt_kube_answer *answer, const char *body, size_t body_len);

/*
 * A GET of any path, for callers that make their own paths. The body is passed unread, also that of an error
 * (`answer->object` is NULL for 2xx, and where the body is not JSON).
 */
struct gt_kube_get {
    const char *path;
    const char *accept; /* a literal */
    uint64_t deadline_ms, try_ms;
    size_t response_max;
    struct gt_backoff *backoff; /* goes on from earlier requests of the caller; NULL: it begins again */
    gt_kube_raw_done *done;
    void *arg;
};
int gt_kube_start_raw(struct gt_kube *kube, const struct gt_kube_get *get, struct gt_kube_call **ret,
                      struct gt_err **err);

/* Ends a call without a callback. NULL is allowed. It may be called within its own callback. */
void gt_kube_cancel(struct gt_kube_call *call);

/*
 * Reports an object that a list or watch has left out, since it is larger than the limit of `max` bytes.
 * Objects that were reported lately are not reported again. `object` is "pods default/x", as far as it is
 * known.
 */
typedef void gt_kube_oversize_report(void *arg, const char *object, size_t max);
void gt_kube_on_oversize(struct gt_kube *kube, gt_kube_oversize_report *report, void *arg);
/* A report that writes a warning to the log; for daemons. */
gt_kube_oversize_report gt_kube_log_oversize;

/* For metrics. */
struct gt_kube_counters {
    uint64_t requests;  /* tries, watches included */
    uint64_t retries;   /* tries that are not the first of their request */
    uint64_t failures;  /* tries without a 2xx */
    uint64_t throttled; /* answers 429 */
    uint64_t unauthorized;
    uint64_t oversize; /* objects that lists and watches have left out, counted each time */
    unsigned running, waiting;
};
void gt_kube_counters(const struct gt_kube *kube, struct gt_kube_counters *ret);
