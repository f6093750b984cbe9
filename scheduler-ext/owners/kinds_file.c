/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/kinds_file.h"

#include <fcntl.h>

#include "api/kinds/custom.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "kube/yaml.h"

enum { KINDS_FILE_MAX = 256 << 10 };

int gt_kinds_file_read(const char *path, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    cJSON *document = NULL;
    size_t len;
    GT_TRY(gt_file_read(AT_FDCWD, path, KINDS_FILE_MAX, &text, &len, err));
    int r = gt_yaml_read(text, len, &document, err);
    r = r < 0 ? gt_wrap(err, "%s", path) : gt_custom_kinds_load(document, path, err);
    cJSON_Delete(document);
    return r;
}
