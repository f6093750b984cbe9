/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/file.h"
#include "kube/yaml.h"
#include "tests/unit/placement/example.h"

enum { EXAMPLE_MAX = 64 << 10 };

/* YAML's reader keeps numbers as texts. In annotations and labels they are texts. */
static void make_numbers(cJSON *json)
{
    for (cJSON *item = json->child, *next; item; item = next) {
        char *end = NULL;
        next = item->next;
        if (item->string && (strcmp(item->string, "annotations") == 0 || strcmp(item->string, "labels") == 0))
            continue;
        make_numbers(item);
        double number = cJSON_IsString(item) ? strtod(item->valuestring, &end) : 0;
        if (!end || end == item->valuestring || *end)
            continue;
        if (item->string)
            cJSON_ReplaceItemInObjectCaseSensitive(json, item->string, cJSON_CreateNumber(number));
        else
            cJSON_ReplaceItemViaPointer(json, item, cJSON_CreateNumber(number));
    }
}

cJSON *example_of(const char *name)
{
    gt_auto_free char *text = NULL;
    gt_auto_err struct gt_err *err = NULL;
    char file[64], path[256];
    size_t len;
    cJSON *json = NULL;
    snprintf(file, sizeof(file), "%s", name);
    for (char *p = file; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    snprintf(path, sizeof(path), TEST_SOURCE_DIR "/../daemonset/examples/%s.yaml", file);
    if (gt_file_read(AT_FDCWD, path, EXAMPLE_MAX, &text, &len, &err) < 0)
        fail_msg("an example of %s is missing: %s", name, gt_err_text(err));
    const char *next = strstr(text, "\n---");
    if (gt_yaml_read(text, next ? (size_t)(next - text) : len, &json, &err) < 0)
        fail_msg("%s: %s", path, gt_err_text(err));
    make_numbers(json);
    return json;
}
