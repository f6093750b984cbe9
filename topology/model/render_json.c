/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>

#include "topology/model/node_json.h"
#include "topology/model/render.h"

void gt_render_json(const struct gt_node *node, struct gt_buf *to)
{
    cJSON *json = gt_node_to_json(node);
    if (!json) {
        to->failed = true;
        return;
    }
    gt_json_print(json, to);
    cJSON_Delete(json);
}
