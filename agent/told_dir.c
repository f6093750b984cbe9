/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/told_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/isolation.h"
#include "api/measured.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

enum { FAULT_LIST_BYTES_MAX = 64 << 10 };

/* ---- the directories and their files ---- */

static bool told_dir_ends(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return name[0] != '.' && len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static int is_fault_file(const struct dirent *entry)
{
    return told_dir_ends(entry->d_name, ".json");
}

static int is_measured_file(const struct dirent *entry)
{
    return is_fault_file(entry) || told_dir_ends(entry->d_name, ".txt");
}

static void told_dir_free(struct dirent **files, int count)
{
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
}

/* Only root, or the user that the agent runs as, may have written it. */
static int told_dir_check(const struct stat *status, mode_t type, const char *path, struct gt_err **err)
{
    if ((status->st_mode & S_IFMT) != type)
        return gt_fail(err, EINVAL, "%s is no %s", path, type == S_IFDIR ? "directory" : "regular file");
    if (status->st_uid != 0 && status->st_uid != geteuid())
        return gt_fail(err, EPERM, "%s belongs to user %u, not to root", path, (unsigned)status->st_uid);
    if (status->st_mode & (S_IWGRP | S_IWOTH))
        return gt_fail(err, EPERM, "%s may be written by others than its owner, mode %o", path,
                       (unsigned)(status->st_mode & 07777));
    return 0;
}

static uint64_t told_dir_stamp(const struct stat *status)
{
    const uint64_t state[] = {(uint64_t)status->st_ino,         (uint64_t)status->st_size,
                              (uint64_t)status->st_mtim.tv_sec, (uint64_t)status->st_mtim.tv_nsec,
                              (uint64_t)status->st_ctim.tv_sec, (uint64_t)status->st_ctim.tv_nsec};
    return gt_digest_bytes(GT_DIGEST_EMPTY, state, sizeof(state));
}

/* It is not opened as what could hang: a pipe. */
static int told_dir_text(int in, const char *name, struct stat *state, char **ret, size_t *len,
                         struct gt_err **err)
{
    gt_auto_close int fd = openat(in, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, state) < 0)
        return gt_fail_sys(err, errno, "%s", name);
    GT_TRY(told_dir_check(state, S_IFREG, name, err));
    return gt_file_read_all(fd, name, FAULT_LIST_BYTES_MAX, ret, len, err);
}

/* ---- faults ---- */

/* Adds what the file says. */
static int fault_dir_read_file(int in, const char *name, struct gt_isolations *to, struct gt_err **err)
{
    gt_auto_json cJSON *json = NULL;
    gt_auto_free char *text = NULL;
    struct stat state;
    size_t len;
    GT_TRY(told_dir_text(in, name, &state, &text, &len, err));
    GT_TRY(gt_json_parse(text, len, name, &json, err));
    return gt_fault_list_read(json, to, err) < 0 ? gt_wrap(err, "%s", name) : 0;
}

/* Adds the entries that a file had before. */
static void fault_dir_keep(const struct gt_isolations *before, unsigned first, unsigned entries,
                           struct gt_isolations *to)
{
    for (unsigned i = 0; i < entries && to->count < GT_ISOLATIONS_MAX; i++)
        to->of[to->count++] = before->of[first + i];
}

static void fault_dir_say(struct gt_fault_dir *dir, const char *path, const char *why)
{
    uint64_t said = why ? gt_digest_keyed(why) : 0;
    if (why && said != dir->said)
        gt_warning("not all of the faults that are told in files are known", GT_STR("dir", path),
                   GT_STR("why", why));
    dir->said = said;
}

/* Adds new files after those that are known, in the order of their names; how many there are, or -1. */
static int fault_dir_list(int in, struct gt_fault_dir *dir)
{
    struct dirent **files = NULL;
    unsigned known = dir->count;
    int count = scandirat(in, ".", &files, is_fault_file, alphasort);
    for (int i = 0; i < count; i++) {
        if (!GT_FIND(dir->files, known, name, files[i]->d_name) && dir->count < GT_FAULT_FILES_MAX) {
            struct gt_fault_dir_file *file = &dir->files[dir->count++];
            *file = (struct gt_fault_dir_file){.stamp = 0};
            gt_text_copy(file->name, sizeof(file->name), files[i]->d_name);
        }
    }
    told_dir_free(files, count);
    return count;
}

/* Reads a file that has changed or could not be used, or keeps what it said. False: it is gone. Room is left
 * for what the files after it said. */
static bool fault_dir_refresh(int in, const struct gt_isolations *before, unsigned first,
                              struct gt_fault_dir_file *file, struct gt_isolations *to)
{
    gt_auto_err struct gt_err *err = NULL;
    struct stat state;
    unsigned count = to->count, later = before->count - first - file->entries;
    int r = fstatat(in, file->name, &state, AT_SYMLINK_NOFOLLOW);
    if (r < 0 && errno == ENOENT)
        return false;
    uint64_t stamp = r < 0 ? 1 : told_dir_stamp(&state);
    bool again = file->stamp == stamp, kept = again && !file->is_bad;
    if (!kept) {
        file->is_bad = fault_dir_read_file(in, file->name, to, &err) < 0 ||
                       (to->count + later > GT_ISOLATIONS_MAX &&
                        gt_fail(&err, E2BIG, "%s: with other files there are more than %d entries",
                                file->name, GT_ISOLATIONS_MAX) < 0);
        if ((kept = file->is_bad)) {
            to->count = count;
            gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING,
                   "a file of faults is not used, what it said before holds", GT_STR("why", gt_err_text(err)),
                   GT_INT("entries", file->entries));
        }
    }
    if (kept)
        fault_dir_keep(before, first, file->entries, to);
    file->stamp = stamp;
    file->entries = to->count - count;
    return true;
}

bool gt_fault_dir_read(const char *path, struct gt_fault_dir *dir)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_isolations told = {0};
    char crowd[64];
    struct stat state;
    gt_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        dir->count = 0;
    else if (fd < 0 || fstat(fd, &state) < 0)
        gt_fail_sys(&err, errno, "%s", path);
    else
        told_dir_check(&state, S_IFDIR, path, &err);
    if (err) {
        fault_dir_say(dir, path, gt_err_text(err));
        return false;
    }
    int found = fd >= 0 ? fault_dir_list(fd, dir) : 0;
    if (found < 0)
        gt_fail_sys(&err, errno, "%s", path); /* those that are known hold */
    unsigned first = 0, kept = 0;
    for (unsigned i = 0; i < dir->count; i++) {
        unsigned entries = dir->files[i].entries;
        if (fault_dir_refresh(fd, &dir->told, first, &dir->files[i], &told))
            dir->files[kept++] = dir->files[i];
        first += entries;
    }
    dir->count = kept;
    snprintf(crowd, sizeof(crowd), "it has more than %d files, the others are not read", GT_FAULT_FILES_MAX);
    fault_dir_say(dir, path, found < 0 ? gt_err_text(err) : found > GT_FAULT_FILES_MAX ? crowd : NULL);
    if (gt_isolations_equal(&told, &dir->told))
        return false;
    dir->told = told;
    return true;
}

bool gt_told_settle(struct gt_told *told, const struct gt_flapping_rule *rule,
                    const struct gt_isolations *isolations)
{
    struct gt_isolations now;
    gt_isolations_damp(&told->damper, rule, isolations, gt_clock_ms() / 1000, &now);
    if (gt_isolations_equal(&now, &told->in_use))
        return false;
    if (now.count > isolations->count)
        gt_info("what was told again and again holds on", GT_INT("entries", now.count - isolations->count));
    told->in_use = now;
    return true;
}

/* ---- measured values ---- */

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
    GT_TRY(told_dir_text(in, name, &state, &text, &len, err));
    if (told_dir_ends(name, ".txt"))
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
    int count = fd < 0 ? 0 : scandirat(fd, ".", &files, is_measured_file, alphasort);
    if (fd >= 0 && fstat(fd, &state) == 0) { /* not its time: other files come and go in it */
        const uint64_t safety[] = {(uint64_t)state.st_ino, state.st_mode, state.st_uid};
        stamp = gt_digest_bytes(stamp, safety, sizeof(safety));
    }
    for (int i = 0; i < count; i++)
        if (fstatat(fd, files[i]->d_name, &state, AT_SYMLINK_NOFOLLOW) == 0)
            stamp = gt_digest_number(stamp, told_dir_stamp(&state));
    int64_t now_s = time(NULL);
    bool differs = false;
    if (stamp != dir->stamp || now_s < dir->seen_s || (dir->again_s && now_s >= dir->again_s)) {
        struct gt_measured before = dir->told;
        gt_auto_err struct gt_err *err = NULL;
        bool is_safe = fd >= 0 && fstat(fd, &state) == 0 && told_dir_check(&state, S_IFDIR, path, &err) >= 0;
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
    told_dir_free(files, count);
    return differs;
}
