/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/yaml.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "base/json.h"

/* The only file that reads YAML. */

enum { MAPPING_KEYS_MAX = 4096 }; /* of one mapping: each new key is compared with all before it */

struct yaml_reader {
    yaml_document_t document;
    unsigned left; /* nodes that may still be made */
};

static int kube_yaml_read_node(struct yaml_reader *reader, int number, unsigned depth, cJSON **ret,
                               struct gt_err **err);

static bool is_null(const yaml_node_t *node)
{
    const char *value = (const char *)node->data.scalar.value;
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*value || strcmp(value, "null") == 0 || strcmp(value, "~") == 0);
}

static int kube_yaml_read_items(struct yaml_reader *reader, const yaml_node_t *node, unsigned depth,
                                cJSON *to, struct gt_err **err)
{
    for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
         item++) {
        cJSON *made = NULL;
        GT_TRY(kube_yaml_read_node(reader, *item, depth, &made, err));
        cJSON_AddItemToArray(to, made);
    }
    return 0;
}

static int kube_yaml_read_pairs(struct yaml_reader *reader, const yaml_node_t *node, unsigned depth,
                                cJSON *to, struct gt_err **err)
{
    const yaml_node_pair_t *first = node->data.mapping.pairs.start, *end = node->data.mapping.pairs.top;
    if (end - first > MAPPING_KEYS_MAX)
        return gt_fail(err, E2BIG, "line %zu: more than %d keys in one mapping", node->start_mark.line + 1,
                       MAPPING_KEYS_MAX);
    for (const yaml_node_pair_t *pair = first; pair < end; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&reader->document, pair->key);
        if (!key || key->type != YAML_SCALAR_NODE)
            return gt_fail(err, EINVAL, "line %zu: a key that is no text", node->start_mark.line + 1);
        const char *name = (const char *)key->data.scalar.value;
        if (cJSON_GetObjectItemCaseSensitive(to, name))
            return gt_fail(err, EINVAL, "line %zu: the key \"%.64s\" stands twice in one mapping",
                           key->start_mark.line + 1, name);
        cJSON *made = NULL;
        GT_TRY(kube_yaml_read_node(reader, pair->value, depth, &made, err));
        GT_NEED(gt_json_attach(to, name, made), err, "YAML");
    }
    return 0;
}

static int kube_yaml_read_node(struct yaml_reader *reader, int number, unsigned depth, cJSON **ret,
                               struct gt_err **err)
{
    const yaml_node_t *node = yaml_document_get_node(&reader->document, number);
    if (!node)
        return gt_fail(err, EINVAL, "an alias that names nothing");
    if (depth > GT_YAML_DEPTH_MAX || !reader->left)
        return gt_fail(err, E2BIG, "line %zu: more than %d levels or %d entries", node->start_mark.line + 1,
                       GT_YAML_DEPTH_MAX, GT_YAML_NODES_MAX);
    reader->left--;
    gt_auto_json cJSON *made = NULL;
    if (node->type == YAML_SEQUENCE_NODE)
        made = cJSON_CreateArray();
    else if (node->type == YAML_MAPPING_NODE)
        made = cJSON_CreateObject();
    else
        made = is_null(node) ? cJSON_CreateNull() : cJSON_CreateString((const char *)node->data.scalar.value);
    GT_NEED(made, err, "YAML");
    if (node->type == YAML_SEQUENCE_NODE)
        GT_TRY(kube_yaml_read_items(reader, node, depth + 1, made, err));
    else if (node->type == YAML_MAPPING_NODE)
        GT_TRY(kube_yaml_read_pairs(reader, node, depth + 1, made, err));
    *ret = gt_steal(made);
    return 0;
}

/* Whether nothing but the end comes after the document that was read. */
static int expect_end(yaml_parser_t *parser, struct gt_err **err)
{
    yaml_document_t next;
    if (!yaml_parser_load(parser, &next))
        return gt_fail(err, EINVAL, "not YAML: %s at line %zu", parser->problem ? parser->problem : "?",
                       parser->problem_mark.line + 1);
    bool more = yaml_document_get_root_node(&next) != NULL;
    yaml_document_delete(&next);
    return more ? gt_fail(err, EINVAL, "more than one YAML document") : 0;
}

int gt_yaml_read(const char *text, size_t len, cJSON **ret, struct gt_err **err)
{
    struct yaml_reader reader = {.left = GT_YAML_NODES_MAX};
    yaml_parser_t parser;
    GT_NEED(yaml_parser_initialize(&parser), err, "YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (!yaml_parser_load(&parser, &reader.document)) {
        int r = gt_fail(err, EINVAL, "not YAML: %s at line %zu",
                        parser.problem ? parser.problem : "no memory", parser.problem_mark.line + 1);
        yaml_parser_delete(&parser);
        return r;
    }
    gt_auto_json cJSON *made = NULL;
    int r = 0;
    if (!yaml_document_get_root_node(&reader.document)) {
        made = cJSON_CreateNull();
        r = made ? 0 : gt_fail_sys(err, ENOMEM, "YAML");
    } else {
        r = kube_yaml_read_node(&reader, 1, 0, &made, err); /* the root is number 1 */
        if (r >= 0)
            r = expect_end(&parser, err);
    }
    yaml_document_delete(&reader.document);
    yaml_parser_delete(&parser);
    if (r >= 0)
        *ret = gt_steal(made);
    return r;
}
