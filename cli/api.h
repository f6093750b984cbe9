/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "kube/client.h"

/* Requests of a command line to the API server: one after the other; each call blocks until its answer is
 * there. */
struct cli_api_options {
    const char *kubeconfig, *context; /* NULL: not given */
};

/* The options that fill it; `type` has a field `api`. */
#define CLI_API_OPTIONS(type)                                                                                \
    {"kubeconfig", "FILE",                                                                                   \
     "how to reach the cluster (default: $KUBECONFIG, in a pod its service account, ~/.kube/config)",        \
     gt_option_any_text, GT_OPTION_FIELD(type, api.kubeconfig)},                                             \
    {                                                                                                        \
        "context", "NAME", "which context of that file", gt_option_any_text,                                 \
            GT_OPTION_FIELD(type, api.context)                                                               \
    }

struct cli_api;

/* Reads the configuration, and runs its exec plugin, if any; sends nothing yet. The caller frees *ret. */
int cli_api_open(const struct cli_api_options *options, struct cli_api **ret, struct gt_err **err);
void cli_api_free(struct cli_api *api);
GT_DEFINE_CLEANUP(struct cli_api *, cli_api_free)
#define cli_auto_api GT_CLEANUP(cli_api_free)

struct cli_api_list {
    const struct gt_kube_resource *resource;
    const char *namespace_;                      /* NULL: all */
    const char *fields;                          /* a field selector, NULL: all */
    bool names_only;                             /* objects have metadata only */
    void (*on_begin)(void *arg);                 /* the list begins (again): forget the objects so far */
    void (*on_object)(void *arg, cJSON *object); /* borrowed: freed after the call */
    void *arg;
};

/*
 * Every object, page by page, one in memory at a time. The error names the server and the resource; for a
 * custom resource that the cluster does not know it is -ENOENT and says how to install it.
 */
int cli_api_list(struct cli_api *api, const struct cli_api_list *list, struct gt_err **err);

/* The namespace that the configuration names, else "default"; lives as long as `api`. */
const char *cli_api_namespace(const struct cli_api *api);

/* Any request; its answer is the caller's (cJSON_Delete) where `ret` is not NULL. */
int cli_api_request(struct cli_api *api, const struct gt_kube_request *request, cJSON **ret,
                    struct gt_err **err);

/* A merge patch of an object; `namespace_` NULL: it has none. */
int cli_api_patch(struct cli_api *api, const struct gt_kube_resource *resource, const char *namespace_,
                  const char *name, const char *body, struct gt_err **err);

/* One object, the caller's (cJSON_Delete); -ENOENT where there is none, or no such kind of object. */
int cli_api_get(struct cli_api *api, const struct gt_kube_resource *resource, const char *name, cJSON **ret,
                struct gt_err **err);

/* A node's NodeGPUTopology; where there is none, -ENOENT with the names that are nearest. */
int cli_api_get_topology(struct cli_api *api, const char *node, cJSON **ret, struct gt_err **err);

/* A text below an object of the API server: of its program, where `below` is "proxy" and `name` is
 * "NAME:PORT" or "https:NAME:PORT"; of a pod, its "log". */
struct cli_api_text {
    const struct gt_kube_resource *resource;
    const char *namespace_, *name, *below; /* namespace_ NULL: it has none */
    const char *rest;                      /* what follows in the path: "/x?y=z" */
};

/* Appends the text. -EBADMSG if the program answers with an error: its line. */
int cli_api_text(struct cli_api *api, const struct cli_api_text *text, struct gt_buf *answer,
                 struct gt_err **err);
