/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/fuzz/fuzz.h"
#include "topology/model/node_json.h"

/* A document is refused, or its node can be written, and what was written can be read and writes the same. */
static char *written(const struct gt_node *node)
{
    cJSON *json = gt_node_to_json(node);
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    if (!json)
        return NULL;
    gt_json_print(json, &text);
    cJSON_Delete(json);
    return gt_buf_take(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1];
    cJSON *json = NULL;
    gt_auto_node struct gt_node *node = NULL;
    if (gt_json_parse(size ? (const char *)data : nothing, size, "input", &json, NULL) < 0)
        return 0;
    int r = gt_node_from_json(json, "input", &node, NULL);
    cJSON_Delete(json);
    if (r < 0)
        return 0;
    gt_auto_free char *first = written(node);
    gt_auto_node struct gt_node *again = NULL;
    gt_auto_err struct gt_err *err = NULL;
    json = NULL;
    if (!first)
        return 0;
    if (gt_json_parse(first, strlen(first), "output", &json, &err) < 0 ||
        gt_node_from_json(json, "output", &again, &err) < 0) {
        fprintf(stderr, "%s\n%s", gt_err_text(err), first);
        abort();
    }
    cJSON_Delete(json);
    gt_auto_free char *second = written(again);
    if (second && strcmp(first, second) != 0) {
        fprintf(stderr, "%s---\n%s", first, second);
        abort();
    }
    return 0;
}
