/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "base/options.h"
#include "deviceplugin/cdi.h"

enum gt_publish_what {
    GT_PUBLISH_NOTHING,
    GT_PUBLISH_NODE_ONLY, /* annotations and labels of the Node */
    GT_PUBLISH_ALL,
};

enum { GT_FAULT_CONDITION_SIZE = 128, GT_FAULT_CONDITIONS_MAX = 64 };

/* What offers the GPUs. */
enum gt_advertise {
    GT_ADVERTISE_PLUGIN, /* the device plugin */
    GT_ADVERTISE_DRA,    /* Dynamic Resource Allocation */
};
enum gt_taint { GT_TAINT_NONE, GT_TAINT_NO_SCHEDULE, GT_TAINT_NO_EXECUTE };

/* The command line of gputopo-agent (docs/reference/agent.md). Texts point into argv, the environment or
 * literals. */
struct gt_agent_options {
    const char *from; /* NULL: the live machine */
    const char *root; /* NULL: "/" */
    const char *dev_root, *kubelet_dir, *resource, *cdi_dir;
    const char *kubelet_config; /* NULL: config.yaml in kubelet_dir */
    bool kubelet_configz;       /* ask the kubelet through the API server, too */
    const char *probe;          /* a program or a socket; "none"; NULL: the program beside the agent's own */
    const char *probe_resource; /* NULL: none */
    const char *http;           /* NULL: off */
    const char *health;         /* NULL: off */
    const char *node_name;
    const char *fault_table;       /* NULL: the default */
    const char *fault_dir;         /* NULL: none is read */
    const char *measured_dir;      /* likewise */
    const char *admit_after_check; /* names of checks; NULL: none */
    const char *fault_conditions;  /* NAME=report|isolate,...; NULL: none */
    const char *kubeconfig;        /* NULL: the pod's service account, where this is one */
    unsigned vendor;               /* 0: MetaX, or that of the recording */
    unsigned rescan_s, health_s;   /* 0: never */
    unsigned stale_links_s;        /* 0: earlier direct links are not kept */
    unsigned heartbeat_s, probe_patience_s;
    enum gt_log_level log_level;
    enum gt_log_format log_format;
    enum gt_publish_what publish;
    enum gt_device_strategy strategy;
    enum gt_advertise advertise;
    enum gt_taint taint; /* of unhealthy GPUs */
    bool composites;     /* composites are offered, too (--advertise=dra) */
    bool device_plugin, honour_plan, oneshot;
    bool print_fault_table;
    bool help, version; /* print help or version and do nothing else */
    char host_name[256], config_path[256];
};

/* Reads and checks the command line; `environment_node` is $NODE_NAME or NULL. -EINVAL with one line that
 * names the invalid option. */
int gt_agent_options_read(int argc, char **argv, const char *environment_node, struct gt_agent_options *ret,
                          struct gt_err **err);

extern const struct gt_command gt_agent_command;
