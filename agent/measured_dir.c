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

static int measured_dir_is_json(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".json") == 0;
}

static void measured_dir_note(void *arg, const char *why)
{
    (void)arg;
    gt_warning("a measured value is not used", GT_STR("why", why));
}

static void measured_dir_add(int in, const char *name, struct gt_measured_dir *to)
{
    gt_auto_json cJSON *json = NULL;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_fault_dir_json(in, name, &json, &err);
    if (r >= 0)
        r = gt_measured_read(json, name, time(NULL), &to->told, &to->again_s, measured_dir_note, NULL, &err);
    if (r < 0)
        gt_warning("a file of measured values is not used", GT_STR("why", gt_err_text(err)));
}

static bool measured_dir_same(const struct gt_measured *a, const struct gt_measured *b)
{
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = a->of[i].mbps == b->of[i].mbps && strcmp(a->of[i].gpu, b->of[i].gpu) == 0 &&
               strcmp(a->of[i].peer, b->of[i].peer) == 0;
    return same;
}

bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir)
{
    gt_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **files = NULL;
    struct stat state;
    uint64_t stamp = GT_DIGEST_EMPTY;
    int count = fd < 0 ? 0 : scandirat(fd, ".", &files, measured_dir_is_json, alphasort);
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
        differs = !measured_dir_same(&before, &dir->told);
    }
    dir->seen_s = now_s;
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return differs;
}
