/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "http/http.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/placement/controller.h"

/* The command line of gputopo-scheduler (docs/reference/scheduler.md). Texts point into argv or literals. */
struct gt_companion_options {
    const char *kubeconfig; /* NULL: the pod's service account */
    struct {
        const char *http;   /* NULL: off */
        const char *https;  /* NULL: off; else tls has a certificate and a key */
        const char *health; /* NULL: off */
        struct gt_http_tls tls;
        const char *webhook_except;   /* names separated by commas, "" for none */
        const char *webhook_clients;  /* likewise, or "any"; "": the webhook asks for no certificate */
        const char *extender_clients; /* names separated by commas, or "any" */
        const char *ui_clients;       /* likewise; "": no certificate opens the page */
        unsigned ui_access;           /* 0: everybody; 1: checked */
    } serve;
    struct gt_aware_weights weights;
    struct gt_chain_sizes chain; /* empty: it is learned */
    unsigned close;              /* 0: room first; 1: prefer */
    struct gt_placement_options placement;
    unsigned parts;                /* mask of positions in gt_parts */
    const char *namespace_;        /* NULL: the pod's, or the kubeconfig's */
    const char *supernode_label;   /* keys of node labels, see gt_cache_spec; NULL: no labels */
    const char *supernodes_config; /* name of a ConfigMap; a path if it has a slash; NULL: none */
    const char *network;           /* likewise */
    const char *network_labels;    /* keys of node labels, the lowest tier first; NULL: none */
    bool project_hypernodes, project_nodefeatures;
    bool leader_elect;
    enum gt_log_level log_level;
    enum gt_log_format log_format;
    const char *kinds;  /* a file; NULL: none */
    bool help, version; /* asked for: print it and do nothing else */
};

/* Reads and checks the command line. -EINVAL with one line that names the wrong option. */
int gt_companion_options_read(int argc, char **argv, struct gt_companion_options *ret, struct gt_err **err);

/* What --help prints. */
struct gt_buf;
void gt_companion_options_help(struct gt_buf *to);
