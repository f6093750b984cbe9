/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/isolation_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/isolation.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"

enum { ISOLATION_FILE_MAX = 64 << 10 };

static int isolation_file_path(const char *kubelet_dir, const char *name, char to[static PATH_MAX],
                               struct gt_err **err)
{
    int len = snprintf(to, PATH_MAX, "%s/device-plugins/gputopo%s", kubelet_dir, name);
    return len < PATH_MAX ? 0 : gt_fail_sys(err, ENAMETOOLONG, "%s", kubelet_dir);
}

int gt_isolation_file_read(const char *kubelet_dir, struct gt_isolations *ret, struct gt_err **err)
{
    char path[PATH_MAX];
    gt_auto_free char *text = NULL;
    cJSON *json = NULL;
    size_t len;
    GT_TRY(isolation_file_path(kubelet_dir, "/isolated.json", path, err));
    gt_file_sweep(path, GT_FILE_SWEPT_AFTER_S);
    if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    GT_TRY(gt_file_read(AT_FDCWD, path, ISOLATION_FILE_MAX, &text, &len, err));
    GT_TRY(gt_json_parse(text, len, path, &json, err));
    int r = gt_isolations_read(json, ret, err);
    cJSON_Delete(json);
    return r < 0 ? gt_wrap(err, "%s", path) : 1;
}

int gt_isolation_file_write(const char *kubelet_dir, const struct gt_isolations *isolations,
                            struct gt_err **err)
{
    char dir[PATH_MAX], path[PATH_MAX];
    gt_auto_buf struct gt_buf text = GT_BUF(ISOLATION_FILE_MAX);
    GT_TRY(isolation_file_path(kubelet_dir, "", dir, err));
    GT_TRY(isolation_file_path(kubelet_dir, "/isolated.json", path, err));
    if (!isolations->count)
        return unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR ? gt_fail_sys(err, errno, "%s", path)
                                                                       : 0;
    gt_isolations_write(isolations, &text);
    GT_TRY(gt_buf_check(&text, path, err));
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", dir);
    return gt_file_write_durable(path, text.data, text.len, 0644, err);
}
