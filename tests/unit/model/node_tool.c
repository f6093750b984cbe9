/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "samples.h"
#include "topology/model/node_json.h"
#include "topology/model/render.h"

/* node_tool samples | node_tool sample NAME FORMAT | node_tool file PATH FORMAT: for the script tests. */

static int render(const struct gt_node *node, const char *format)
{
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 20);
    if (!strcmp(format, "matrix"))
        gt_render_matrix(node, &text);
    else if (!strcmp(format, "json"))
        gt_render_json(node, &text);
    else if (!strcmp(format, "yaml")) {
        gt_auto_json cJSON *json = gt_node_to_json(node);
        gt_render_yaml(json, &text);
    } else if (!strcmp(format, "dot"))
        gt_render_dot(node, &text);
    else if (!strcmp(format, "svg"))
        gt_render_svg(node, &text);
    if (text.failed || !text.len) {
        fprintf(stderr, "no %s\n", format);
        return 1;
    }
    return fwrite(text.data, 1, text.len, stdout) == text.len ? 0 : 1;
}

static int read_node(const char *path, struct gt_node **ret, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    int r = gt_file_read(AT_FDCWD, path, GT_JSON_MAX, &text, &len, err);
    if (r < 0)
        return r;
    cJSON *json = NULL;
    r = gt_json_parse(text, len, path, &json, err);
    if (r < 0)
        return r;
    r = gt_node_from_json(json, path, ret, err);
    cJSON_Delete(json);
    return r;
}

int main(int argc, char **argv)
{
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (argc == 2 && !strcmp(argv[1], "samples")) {
        for (unsigned i = 0; sample_names[i]; i++)
            puts(sample_names[i]);
        return 0;
    }
    if (argc != 4)
        return 2;
    if (!strcmp(argv[1], "sample"))
        node = sample_node(argv[2]);
    else if (read_node(argv[2], &node, &err) < 0)
        fprintf(stderr, "%s\n", gt_err_text(err));
    return node ? render(node, argv[3]) : 1;
}
