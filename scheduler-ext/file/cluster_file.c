/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/file/cluster_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/file/reader.h"

/* cJSON stores no positions. The text is valid JSON, so only strings and brackets matter; the end is checked
 * at every step nevertheless. */
struct line_scanner {
    const char *p, *end;
};

static bool at(const struct line_scanner *scanner, char c)
{
    return scanner->p < scanner->end && *scanner->p == c;
}

static void json_line_skip_space(struct line_scanner *scanner)
{
    while (scanner->p < scanner->end &&
           (*scanner->p == ' ' || *scanner->p == '\t' || *scanner->p == '\n' || *scanner->p == '\r'))
        scanner->p++;
}

static void skip_string(struct line_scanner *scanner)
{
    for (scanner->p++; scanner->p < scanner->end && *scanner->p != '"'; scanner->p++)
        if (*scanner->p == '\\')
            scanner->p++;
    if (scanner->p < scanner->end)
        scanner->p++;
    else
        scanner->p = scanner->end;
}

static void json_line_skip_value(struct line_scanner *scanner)
{
    size_t depth = 0;
    do {
        json_line_skip_space(scanner);
        if (scanner->p >= scanner->end)
            return;
        if (at(scanner, '"')) {
            skip_string(scanner);
        } else if (at(scanner, '{') || at(scanner, '[')) {
            depth++;
            scanner->p++;
        } else if (at(scanner, '}') || at(scanner, ']')) {
            if (!depth) /* an empty list: nothing to skip */
                return;
            depth--;
            scanner->p++;
        } else if (at(scanner, ',') || at(scanner, ':')) {
            scanner->p++;
        } else {
            while (scanner->p < scanner->end && !strchr(",]}: \t\r\n", *scanner->p))
                scanner->p++;
        }
    } while (depth);
}

/* Moves from a value to its nth member; false where there is none. */
static bool enter_element(struct line_scanner *scanner, size_t n)
{
    if (!at(scanner, '['))
        return false;
    scanner->p++;
    for (size_t i = 0;; i++) {
        json_line_skip_space(scanner);
        if (scanner->p >= scanner->end || *scanner->p == ']')
            return false;
        if (i == n)
            return true;
        json_line_skip_value(scanner);
        json_line_skip_space(scanner);
        if (!at(scanner, ','))
            return false;
        scanner->p++;
    }
}

static bool enter_member(struct line_scanner *scanner, const char *key, size_t key_len)
{
    if (!at(scanner, '{'))
        return false;
    scanner->p++;
    for (;;) {
        json_line_skip_space(scanner);
        if (!at(scanner, '"'))
            return false;
        const char *name = scanner->p + 1;
        skip_string(scanner);
        size_t len = (size_t)(scanner->p - name) - 1;
        json_line_skip_space(scanner);
        if (!at(scanner, ':'))
            return false;
        scanner->p++;
        json_line_skip_space(scanner);
        if (len == key_len && memcmp(name, key, len) == 0)
            return scanner->p < scanner->end;
        json_line_skip_value(scanner);
        json_line_skip_space(scanner);
        if (!at(scanner, ','))
            return false;
        scanner->p++;
    }
}

unsigned gt_json_line(const char *text, size_t len, const char *path)
{
    struct line_scanner s = {text, text + len};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        s.p += 3;
    json_line_skip_space(&s);
    const char *found = s.p;
    while (*path) {
        bool there;
        if (*path == '[') {
            size_t n = 0;
            for (path++; *path >= '0' && *path <= '9' && n < 100000000; path++)
                n = n * 10 + (size_t)(*path - '0');
            path += *path == ']';
            there = enter_element(&s, n);
        } else {
            path += *path == '.';
            size_t key_len = strcspn(path, ".[");
            there = key_len && enter_member(&s, path, key_len);
            path += key_len;
        }
        if (!there)
            break;
        found = s.p;
    }
    unsigned line = 1;
    for (const char *q = text; q < found; q++)
        line += *q == '\n';
    return line;
}

void gt_cluster_file_free(struct gt_cluster_file *file)
{
    gt_cluster_free(file->cluster);
    for (uint32_t i = 0; i < file->pod_count; i++) {
        free(file->pods[i].name);
        free(file->pods[i].job);
    }
    free(file->pods);
    free(file->running);
    free(file);
}

/* What a companion has learned about unit sizes. */
static int read_unit_sizes(struct cluster_reader *reader, const cJSON *array)
{
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next) {
        struct gt_chain_seen seen = {0};
        char path[READER_PATH_SIZE];
        snprintf(path, sizeof(path), "unitSizes[%u]", i++);
        struct gt_at at = {READER_SOURCE, path, reader->err};
        GT_TRY(gt_reader_object(&at, item));
        GT_TRY(gt_get_unsigned(&at, item, "gpus", GT_CHAIN_SIZE_MAX, &seen.size));
        GT_TRY(gt_get_integer(&at, item, "present", GT_CHAIN_WEIGHT_MAX, &seen.present));
        GT_TRY(gt_get_number(&at, item, "past", GT_CHAIN_WEIGHT_MAX, &seen.past));
        if (!seen.size)
            return gt_at_fail(&at, "gpus", "expected a size of units, in GPUs");
        gt_chain_adopt(reader->file->cluster, &seen);
    }
    return 0;
}

/* What the nodes of a tier have to nodes in its other supernodes. */
static int read_tiers(struct cluster_reader *reader, const cJSON *array)
{
    struct gt_cluster *cluster = reader->file->cluster;
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next) {
        struct gt_cluster_supernode supernode;
        unsigned tier = 0;
        double gbps = 0;
        char path[READER_PATH_SIZE];
        snprintf(path, sizeof(path), "tiers[%u]", i++);
        struct gt_at at = {READER_SOURCE, path, reader->err};
        GT_TRY(gt_reader_object(&at, item));
        GT_TRY(gt_get_unsigned(&at, item, "tier", GT_TIERS_MAX, &tier));
        GT_TRY(gt_get_number(&at, item, "bandwidthGBps", GT_GBPS_MAX, &gbps));
        if (!tier)
            return gt_at_fail(&at, "tier", "expected 1 (best performance) to %d", GT_TIERS_MAX);
        if (!(gbps > 0))
            return gt_at_fail(&at, "bandwidthGBps", "expected GB/s, above 0");
        for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++)
            if (gt_cluster_get_supernode(cluster, s, &supernode) && supernode.tier == tier)
                gt_cluster_set_bandwidth(cluster, s, gbps);
    }
    return 0;
}

static int cluster_file_read_all(struct cluster_reader *reader, const cJSON *json)
{
    struct gt_at at = {READER_SOURCE, "", reader->err};
    GT_TRY(gt_reader_object(&at, json));
    const cJSON *supernodes, *nodes, *pods, *sizes, *tiers;
    unsigned supernode_count, node_count, pod_count, size_count, tier_count;
    GT_TRY(gt_get_array(&at, json, "supernodes", GT_CLUSTER_SUPERNODES_MAX, &supernodes, &supernode_count));
    GT_TRY(gt_get_array(&at, json, "nodes", GT_CLUSTER_NODES_MAX, &nodes, &node_count));
    GT_TRY(gt_get_array(&at, json, "pods", GT_CLUSTER_PODS_MAX, &pods, &pod_count));
    GT_TRY(gt_get_array(&at, json, "unitSizes", GT_CHAIN_SEEN_MAX, &sizes, &size_count));
    GT_TRY(gt_get_array(&at, json, "tiers", GT_TIERS_MAX, &tiers, &tier_count));
    if (!nodes)
        return gt_at_fail(&at, "nodes", "is missing; this is no cluster");
    reader->supernodes_given = supernodes;
    reader->free_given = calloc((size_t)node_count + 1, sizeof(bool));
    if (!reader->free_given)
        return gt_fail_sys(reader->err, ENOMEM, "nodes");
    GT_TRY(gt_reader_supernodes(reader, supernodes, supernode_count));
    GT_TRY(gt_reader_nodes(reader, nodes));
    GT_TRY(read_tiers(reader, tiers));
    GT_TRY(read_unit_sizes(reader, sizes));
    reader->sizes_given = sizes;
    return gt_reader_pods(reader, pods, pod_count);
}

/* "@: nodes[3].name: ..." becomes "FILE: line 12: nodes[3].name: ...". The reader of a node appends a second
 * path: "nodes[3].topology: links[2].a: ..." */
static int cluster_file_add_place(const char *text, size_t len, const char *source, struct gt_err **err)
{
    static const char mark[] = READER_SOURCE ": ";
    if (!err || !*err)
        return -EINVAL;
    const char *said = gt_err_text(*err);
    if (strncmp(said, mark, sizeof(mark) - 1) != 0)
        return gt_wrap(err, "%s", source);
    said += sizeof(mark) - 1;
    static const char in_path[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.[]";
    char path[256] = "";
    size_t first = strspn(said, in_path);
    if (first < sizeof(path) / 2 && said[first] == ':') {
        const char *behind = said + first + 1 + (said[first + 1] == ' ');
        size_t second = strspn(behind, in_path);
        bool below = second < sizeof(path) / 2 && behind[second] == ':';
        snprintf(path, sizeof(path), "%.*s%s%.*s", (int)first, said, below ? "." : "",
                 below ? (int)second : 0, behind);
    }
    struct gt_err *placed = NULL;
    int r =
        gt_fail(&placed, gt_err_code(*err), "%s: line %u: %s", source, gt_json_line(text, len, path), said);
    gt_err_free(*err);
    *err = placed;
    return r;
}

int gt_cluster_file_parse(const char *text, size_t len, const char *source, struct gt_cluster_file **ret,
                          struct gt_err **err)
{
    cJSON *json = NULL;
    static const struct gt_json_limits limits = {GT_CLUSTER_FILE_MAX, GT_CLUSTER_VALUES_MAX};
    int r = gt_json_parse_within(text, len, source, &limits, &json, err);
    if (r < 0)
        return r;
    gt_auto_cluster_file struct gt_cluster_file *file = calloc(1, sizeof(*file));
    struct gt_err *own = NULL;
    struct cluster_reader reader = {.file = file, .err = &own};
    for (unsigned i = 0; i <= GT_GPUS_MAX; i++)
        reader.count_class[i] = GT_NONE;
    if (!file)
        r = gt_fail_sys(&own, ENOMEM, "cluster");
    if (r >= 0)
        r = gt_cluster_new(&file->cluster, &own);
    if (r >= 0)
        r = gt_class_cache_new(GT_CLUSTER_CLASSES_MAX, &reader.classes, &own);
    if (r >= 0)
        r = cluster_file_read_all(&reader, json);
    if (r < 0)
        r = cluster_file_add_place(text, len, source, &own);
    else
        *ret = gt_steal(file);
    cJSON_Delete(json);
    if (reader.classes)
        gt_class_cache_free(reader.classes);
    free(reader.free_given);
    if (err && own)
        *err = gt_steal(own);
    gt_err_free(own);
    return r;
}

int gt_cluster_file_read(const char *path, struct gt_cluster_file **ret, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    GT_TRY(gt_file_read(AT_FDCWD, path, GT_CLUSTER_FILE_MAX, &text, &len, err));
    return gt_cluster_file_parse(text, len, path, ret, err);
}
