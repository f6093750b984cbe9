/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kubelet_config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/text.h"
#include "kube/yaml.h"

enum { CONFIG_MAX = 1 << 20, MEMINFO_SIZE = 4096 };

static const char *const policies[] = {"none", "best-effort", GT_POLICY_RESTRICTED, GT_POLICY_SINGLE, NULL},
                         *const scopes[] = {"container", "pod", NULL},
                         *const cpu_policies[] = {"none", "static", NULL};

static void kubelet_config_give_up(struct gt_kubelet *to, const char *why)
{
    *to = (struct gt_kubelet){.policy = ""};
    snprintf(to->unknown, sizeof(to->unknown), "%s", why);
    gt_text_make_printable(to->unknown);
}

/* A word of a list; the first one where nothing is said. */
static bool read_word(const cJSON *config, const char *key, const char *const *words, char *ret, size_t size,
                      struct gt_kubelet *to)
{
    const cJSON *json = gt_get(config, key);
    const char *text = cJSON_IsString(json) ? json->valuestring : "";
    char why[sizeof(to->unknown)];
    if (!json || cJSON_IsNull(json) || (cJSON_IsString(json) && !*text))
        text = words[0];
    for (unsigned i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return gt_text_copy(ret, size, text);
    snprintf(why, sizeof(why), "%s: \"%.60s\" does not exist", key,
             cJSON_IsString(json) ? text : gt_json_type(json));
    kubelet_config_give_up(to, why);
    return false;
}

void gt_kubelet_config_parse(const char *text, size_t len, const char *source, bool is_answer,
                             struct gt_kubelet *ret)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_json cJSON *root = NULL;
    char why[sizeof(ret->unknown)];
    *ret = (struct gt_kubelet){.policy = ""};
    if (gt_yaml_read(text, len, &root, &err) < 0) {
        snprintf(why, sizeof(why), "%.80s: %.120s", source, gt_err_text(err));
        kubelet_config_give_up(ret, why);
        return;
    }
    const cJSON *inner = gt_get(root, "kubeletconfig"), *config = inner || is_answer ? inner : root;
    struct gt_kubelet read = {.policy = ""};
    if (!cJSON_IsObject(config)) {
        snprintf(why, sizeof(why), "%.120s: this is no KubeletConfiguration", source);
        kubelet_config_give_up(ret, why);
    } else if (read_word(config, "topologyManagerPolicy", policies, read.policy, sizeof(read.policy), ret) &&
               read_word(config, "topologyManagerScope", scopes, read.scope, sizeof(read.scope), ret) &&
               read_word(config, "cpuManagerPolicy", cpu_policies, read.cpu_policy, sizeof(read.cpu_policy),
                         ret)) {
        snprintf(read.source, sizeof(read.source), "%s", source);
        *ret = read;
    }
}

int gt_kubelet_config_read(const char *path, struct gt_kubelet *ret)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    int r = gt_file_read(AT_FDCWD, path, CONFIG_MAX, &text, &len, &err);
    if (r < 0)
        kubelet_config_give_up(ret, gt_err_text(err));
    else
        gt_kubelet_config_parse(text, len, path, false, ret);
    return r;
}

/* "Node 0 MemTotal:  1048576 kB" */
static uint64_t memory_of(int dirfd, const char *path)
{
    static const char key[] = "MemTotal:";
    char text[MEMINFO_SIZE];
    if (gt_file_read_attribute(dirfd, path, text, sizeof(text)) <= 0)
        return 0;
    const char *at = strstr(text, key);
    return at ? strtoull(at + sizeof(key) - 1, NULL, 10) * 1024 : 0;
}

void gt_numa_nodes_read(const char *root, struct gt_node *node)
{
    int dirfd = open(root && *root ? root : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    node->numa_node_count = 0;
    for (unsigned id = 0; dirfd >= 0 && id < GT_NUMA_NODES_MAX; id++) {
        struct gt_numa_node *to = &node->numa_nodes[node->numa_node_count];
        char path[64];
        *to = (struct gt_numa_node){.id = id};
        snprintf(path, sizeof(path), "sys/devices/system/node/node%u/cpulist", id);
        if (gt_file_read_attribute(dirfd, path, to->cpus, sizeof(to->cpus)) < 0)
            continue;
        snprintf(path, sizeof(path), "sys/devices/system/node/node%u/meminfo", id);
        to->memory_bytes = memory_of(dirfd, path);
        node->numa_node_count++;
    }
    if (dirfd >= 0)
        close(dirfd);
}
