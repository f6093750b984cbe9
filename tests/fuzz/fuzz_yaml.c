/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kube/yaml.h"
#include "tests/fuzz/fuzz.h"

/* A tree keeps to its limits and has objects, arrays, texts and nulls only; written as JSON and read again it
 * is the same. */
static unsigned count(const cJSON *json, unsigned depth)
{
    unsigned nodes = 1;
    if (depth > GT_YAML_DEPTH_MAX ||
        !(cJSON_IsObject(json) || cJSON_IsArray(json) || cJSON_IsString(json) || cJSON_IsNull(json)))
        abort();
    const cJSON *child;
    cJSON_ArrayForEach(child, json)
    {
        if (cJSON_IsObject(json) && !child->string)
            abort();
        nodes += count(child, depth + 1);
    }
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gt_err *err = NULL;
    cJSON *tree = NULL, *again = NULL;
    int r = gt_yaml_read((const char *)data, size, &tree, &err);
    if ((r < 0) != (err != NULL) || (r < 0) == (tree != NULL))
        abort();
    gt_err_free(err);
    if (r < 0)
        return 0;
    if (count(tree, 0) > GT_YAML_NODES_MAX)
        abort();
    char *text = cJSON_PrintUnformatted(tree);
    /* YAML takes no key of more than 1,024 bytes, nor control characters that JSON has no escape for. */
    if (text && gt_yaml_read(text, strlen(text), &again, NULL) == 0 && !cJSON_Compare(tree, again, true))
        abort();
    free(text);
    cJSON_Delete(again);
    cJSON_Delete(tree);
    return 0;
}
