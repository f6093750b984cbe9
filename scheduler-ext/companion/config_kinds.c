/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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

const struct gt_config_kind gt_config_groups = {
    .what = "groups",
    .keys = (const char *const[]){GT_GROUPS_KEY, NULL},
    .text_max = GT_GROUPS_TEXT_MAX,
    .read = config_read_groups,
    .free = config_free_groups,
};

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

/* The last two as topograph and Slurm's operator name them. */
const struct gt_config_kind gt_config_network = {
    .what = "network",
    .keys = (const char *const[]){"network.csv", "ibnetdiscover", "topology.conf", "topology.yaml", NULL},
    .text_max = GT_NETWORK_TEXT_MAX,
    .read = config_read_network,
    .free = config_free_network,
};
