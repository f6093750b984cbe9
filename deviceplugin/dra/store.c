/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"

struct gt_dra_store {
    char *dir, *path, *aside, *lock;
    struct gt_dra_claims claims;
    struct stat seen; /* the file as it was read; st_ino 0: there was none */
};

int gt_dra_store_new(const char *dir, struct gt_dra_store **ret, struct gt_err **err)
{
    gt_auto_dra_store struct gt_dra_store *store = calloc(1, sizeof(*store));
    GT_NEED(store, err, "%s", dir);
    store->dir = strdup(dir);
    if (!store->dir || asprintf(&store->path, "%s/claims.json", dir) < 0)
        return gt_fail_sys(err, ENOMEM, "%s", dir);
    if (asprintf(&store->aside, "%s.unreadable", store->path) < 0 ||
        asprintf(&store->lock, "%s/claims.lock", dir) < 0)
        return gt_fail_sys(err, ENOMEM, "%s", dir);
    *ret = gt_steal(store);
    return 0;
}

void gt_dra_store_free(struct gt_dra_store *store)
{
    if (!store)
        return;
    gt_dra_claims_done(&store->claims);
    free(store->dir);
    free(store->path);
    free(store->aside);
    free(store->lock);
    free(store);
}

const struct gt_dra_claims *gt_dra_store_claims(const struct gt_dra_store *store)
{
    return &store->claims;
}

static int put_aside(struct gt_dra_store *store, const struct gt_err *error, char **ret_why,
                     struct gt_err **err)
{
    char *why = strdup(gt_err_text(error));
    if (rename(store->path, store->aside) < 0) {
        free(why);
        return gt_fail_sys(err, errno, "%s: rename to %s", store->path, store->aside);
    }
    store->seen = (struct stat){0};
    if (ret_why)
        *ret_why = why;
    else
        free(why);
    return 0;
}

int gt_dra_store_read(struct gt_dra_store *store, bool *ret_changed, char **ret_why, struct gt_err **err)
{
    gt_auto_err struct gt_err *error = NULL;
    gt_auto_free char *data = NULL;
    struct gt_dra_claims claims = {0};
    struct stat st = {0};
    size_t len = 0;
    if (ret_changed)
        *ret_changed = false;
    if (stat(store->path, &st) < 0 && errno != ENOENT && errno != ENOTDIR)
        return gt_fail_sys(err, errno, "%s", store->path);
    if (gt_file_is_same(&store->seen, &st))
        return 0;
    int r = st.st_ino ? gt_file_read(AT_FDCWD, store->path, GT_DRA_FILE_MAX, &data, &len, &error) : 0;
    if (r < 0 && r != -EFBIG && r != -ENOENT)
        return gt_fail(err, -r, "%s", gt_err_text(error));
    if (r >= 0 && st.st_ino)
        r = gt_dra_claims_read(data, len, store->path, &claims, &error);
    if (r == -ENOMEM || r == -EPROTONOSUPPORT)
        return gt_fail(err, -r, "%s", gt_err_text(error));
    if (r < 0)
        return put_aside(store, error, ret_why, err);
    gt_dra_claims_done(&store->claims);
    store->claims = claims;
    store->seen = st;
    if (ret_changed)
        *ret_changed = true;
    return 0;
}

int gt_dra_store_lock(struct gt_dra_store *store, struct gt_err **err)
{
    if (mkdir(store->dir, 0750) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", store->dir);
    gt_auto_close int fd = open(store->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", store->lock);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? gt_fail(err, EBUSY, "%s: another process holds it", store->lock)
                                    : gt_fail_sys(err, errno, "%s", store->lock);
    return gt_steal_fd(&fd);
}

int gt_dra_store_write(struct gt_dra_store *store, struct gt_dra_claims *claims, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_DRA_FILE_MAX);
    gt_dra_claims_write(claims, &text);
    GT_TRY(gt_buf_check(&text, store->path, err));
    GT_TRY(gt_file_write_durable(store->path, text.data, text.len, 0600, err));
    gt_dra_claims_done(&store->claims);
    store->claims = *claims;
    *claims = (struct gt_dra_claims){0};
    if (stat(store->path, &store->seen) < 0)
        store->seen = (struct stat){0}; /* it is read again */
    return 0;
}

void gt_dra_store_sweep(struct gt_dra_store *store)
{
    gt_file_sweep(store->path, 0);
}

bool gt_dra_store_is_there(const struct gt_dra_store *store)
{
    return access(store->path, F_OK) == 0;
}

void gt_dra_store_unmark(struct gt_dra_store *store)
{
    if (!store->claims.count)
        unlink(store->path);
}

bool gt_dra_store_is_used(const char *dir)
{
    gt_auto_dra_store struct gt_dra_store *store = NULL;
    return gt_dra_store_new(dir, &store, NULL) >= 0 && gt_dra_store_is_there(store);
}
