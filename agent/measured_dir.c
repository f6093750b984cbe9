/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/measured_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/fault_dir.h"
#include "api/measured.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"

static bool measured_dir_ends(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static int measured_dir_is_ours(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return name[0] != '.' && (measured_dir_ends(name, ".json") || measured_dir_ends(name, ".txt"));
}

void gt_measured_note(void *arg, const char *why)
{
    (void)arg;
    gt_warning("a measured value is not used", GT_STR("why", why));
}

static int measured_dir_file(int in, const char *name, struct gt_measured_reader *reader, struct gt_err **err)
{
    gt_auto_json cJSON *json = NULL;
    gt_auto_free char *text = NULL;
    struct stat state;
    size_t len;
    GT_TRY(gt_fault_dir_text(in, name, &state, &text, &len, err));
    if (measured_dir_ends(name, ".txt"))
        return gt_measured_read_mxvs(text, name, state.st_mtim.tv_sec, reader, err);
    GT_TRY(gt_json_parse(text, len, name, &json, err));
    return gt_measured_read_file(json, name, reader, err);
}

static void measured_dir_add(int in, const char *name, struct gt_measured_dir *to)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_measured_reader reader = {
        .to = &to->told, .now_s = time(NULL), .again_s = to->again_s, .note = gt_measured_note};
    if (measured_dir_file(in, name, &reader, &err) < 0)
        gt_warning("a file of measured values is not used", GT_STR("why", gt_err_text(err)));
    to->again_s = reader.again_s;
}

bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir)
{
    gt_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **files = NULL;
    struct stat state;
    uint64_t stamp = GT_DIGEST_EMPTY;
    int count = fd < 0 ? 0 : scandirat(fd, ".", &files, measured_dir_is_ours, alphasort);
    if (fd >= 0 && fstat(fd, &state) == 0) { /* not its time: other files come and go in it */
        const uint64_t safety[] = {(uint64_t)state.st_ino, state.st_mode, state.st_uid};
        stamp = gt_digest_bytes(stamp, safety, sizeof(safety));
    }
    for (int i = 0; i < count; i++)
        if (fstatat(fd, files[i]->d_name, &state, AT_SYMLINK_NOFOLLOW) == 0)
            stamp = gt_digest_number(stamp, gt_fault_dir_stamp(&state));
    int64_t now_s = time(NULL);
    bool differs = false;
    if (stamp != dir->stamp || now_s < dir->seen_s || (dir->again_s && now_s >= dir->again_s)) {
        struct gt_measured before = dir->told;
        gt_auto_err struct gt_err *err = NULL;
        bool is_safe =
            fd >= 0 && fstat(fd, &state) == 0 && gt_fault_dir_check(&state, S_IFDIR, path, &err) >= 0;
        if (err)
            gt_warning("measured values are not used", GT_STR("why", gt_err_text(err)));
        *dir = (struct gt_measured_dir){.stamp = stamp};
        for (int i = 0; is_safe && i < count && i < GT_FAULT_FILES_MAX; i++)
            measured_dir_add(fd, files[i]->d_name, dir);
        if (is_safe && count > GT_FAULT_FILES_MAX)
            gt_warning("not all files of measured values are read", GT_STR("dir", path),
                       GT_INT("files", count), GT_INT("most", GT_FAULT_FILES_MAX));
        differs = !gt_measured_equal(&before, &dir->told);
    }
    dir->seen_s = now_s;
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return differs;
}
