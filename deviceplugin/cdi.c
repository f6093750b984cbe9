/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/cdi.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "deviceplugin/cdi_spec.h"

struct gt_cdi {
    char *dir, *path, *kind, *dev_root;

    pthread_mutex_t writing; /* held from reading the host to writing the file, so that an older view is not
                                written last */
    char *text; /* the content of the file when `seen` was taken; NULL: not known. Under `writing`, as the
                   next */
    struct stat seen;
    uint64_t newest; /* number of the last inventory that was written */

    pthread_mutex_t lock; /* held for a moment only, never while the host is read */
    struct gt_cdi_stats stats;
};

/* ---- the spec of an inventory ---- */

/* The spec as text; *ret is NULL if no GPU of the host can be given. */
static int cdi_make_text(const struct gt_cdi *cdi, const struct gt_inventory *inventory, char **ret,
                         struct gt_err **err)
{
    gt_auto_cdi_parts struct gt_cdi_parts *parts = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(GT_CDI_SPEC_MAX);
    struct gt_device_nodes nodes;
    *ret = NULL;
    GT_TRY(gt_cdi_parts_new(cdi->dev_root, &parts, err));
    if (gt_device_nodes_find(cdi->dev_root, NULL, 0, &nodes, NULL) < 0)
        return 0;
    struct gt_cdi_spec spec = {.kind = cdi->kind, .devices = parts->devices};
    int r = gt_cdi_parts_nodes(parts, &nodes, &spec.common, err);
    for (unsigned i = 0; r == 0 && i < inventory->device_count; i++) {
        const struct gt_device *device = &inventory->devices[i];
        /* Also an unhealthy one: the container that has it may be restarted. */
        if (device->gpu >= 0 && gt_device_nodes_drm(cdi->dev_root, device, &nodes, NULL) == 0)
            r = gt_cdi_parts_device(parts, device->id, &nodes, err);
    }
    spec.device_count = parts->device_count;
    if (r < 0 || !spec.device_count)
        return r;
    GT_TRY(gt_cdi_spec_write(&spec, &text, err));
    *ret = gt_buf_take(&text);
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "CDI spec");
}

/* ---- the file, by one thread at a time ---- */

static void cdi_forget(struct gt_cdi *cdi)
{
    free(cdi->text);
    cdi->text = NULL;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Whether the file is a plain file with exactly this content; then cdi->seen is its state before it was read.
 */
static bool cdi_file_says(struct gt_cdi *cdi, const char *text)
{
    struct stat st;
    gt_auto_free char *data = NULL;
    if (lstat(cdi->path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    bool known = cdi->text && is_same_file(&st, &cdi->seen) && strcmp(cdi->text, text) == 0;
    size_t len = 0;
    if (!known && (gt_file_read(AT_FDCWD, cdi->path, GT_CDI_SPEC_MAX, &data, &len, NULL) < 0 ||
                   len != strlen(text) || memcmp(data, text, len) != 0))
        return false;
    cdi->seen = st;
    return true;
}

static int cdi_remove_file(struct gt_cdi *cdi, struct gt_err **err)
{
    cdi_forget(cdi);
    if (unlink(cdi->path) < 0 && errno != ENOENT && errno != ENOTDIR)
        return gt_fail_sys(err, errno, "%s", cdi->path);
    return 0;
}

static int write_file(struct gt_cdi *cdi, char *text, struct gt_err **err)
{
    if (cdi_file_says(cdi, text)) {
        cdi_forget(cdi);
        cdi->text = text;
        return 0;
    }
    cdi_forget(cdi);
    struct stat st;
    int r = 0;
    if (mkdir(cdi->dir, 0755) < 0 && errno != EEXIST)
        r = gt_fail_sys(err, errno, "%s", cdi->dir);
    else if (lstat(cdi->path, &st) == 0 && !S_ISREG(st.st_mode))
        r = gt_fail(err, EEXIST, "%s: it is there, and no plain file", cdi->path);
    else
        r = gt_file_write(cdi->path, text, strlen(text), 0644, err);
    if (r < 0) {
        free(text);
        return r;
    }
    pthread_mutex_lock(&cdi->lock);
    cdi->stats.writes++;
    pthread_mutex_unlock(&cdi->lock);
    if (cdi_file_says(cdi, text))
        cdi->text = text;
    else /* somebody else has written it: it is checked again the next time */
        free(text);
    return 0;
}

static int cdi_refresh(struct gt_cdi *cdi, const struct gt_inventory *inventory, struct gt_err **err)
{
    char *text = NULL;
    if (inventory->number < cdi->newest)
        return 0;
    int r = cdi_make_text(cdi, inventory, &text, err);
    if (r == 0)
        r = text ? write_file(cdi, text, err) : cdi_remove_file(cdi, err);
    if (r == 0)
        cdi->newest = inventory->number;
    return r;
}

int gt_cdi_refresh(struct gt_cdi *cdi, const struct gt_inventory *inventory, struct gt_err **err)
{
    pthread_mutex_lock(&cdi->writing);
    int r = cdi_refresh(cdi, inventory, err);
    pthread_mutex_lock(&cdi->lock);
    cdi->stats.current = r == 0;
    cdi->stats.failures += r < 0;
    pthread_mutex_unlock(&cdi->lock);
    pthread_mutex_unlock(&cdi->writing);
    return r;
}

int gt_cdi_remove(struct gt_cdi *cdi, struct gt_err **err)
{
    pthread_mutex_lock(&cdi->writing);
    int r = cdi_remove_file(cdi, err);
    pthread_mutex_unlock(&cdi->writing);
    return r;
}

bool gt_cdi_exists(struct gt_cdi *cdi)
{
    return access(cdi->path, F_OK) == 0;
}

void gt_cdi_full_name(const struct gt_cdi *cdi, const char *id, struct gt_buf *to)
{
    gt_buf_printf(to, "%s=", cdi->kind);
    gt_cdi_name_add(to, id);
}

const char *gt_cdi_path(const struct gt_cdi *cdi)
{
    return cdi->path;
}

void gt_cdi_stats(struct gt_cdi *cdi, struct gt_cdi_stats *ret)
{
    pthread_mutex_lock(&cdi->lock);
    *ret = cdi->stats;
    pthread_mutex_unlock(&cdi->lock);
}

/* ---- begin and end ---- */

static char *without_slash(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return strndup(path, len);
}

/* Checks them with an example of a spec. */
int gt_cdi_check(const struct gt_cdi_options *options, struct gt_err **err)
{
    gt_auto_free char *dev_root = without_slash(options->dev_root), *host_path = NULL;
    if (!dev_root || asprintf(&host_path, "%s/mxcd", dev_root) < 0) {
        host_path = NULL;
        return gt_fail_sys(err, ENOMEM, "CDI spec");
    }
    const struct gt_cdi_node node = {"/dev/mxcd", host_path, "rw"};
    const struct gt_cdi_device device = {"gpu", {.nodes = &node, .node_count = 1}};
    const struct gt_cdi_spec spec = {.kind = options->kind, .devices = &device, .device_count = 1};
    return gt_cdi_spec_check(&spec, err);
}

int gt_cdi_new(const struct gt_cdi_options *options, struct gt_cdi **ret, struct gt_err **err)
{
    GT_TRY(gt_cdi_check(options, err));
    GT_CLEANUP(gt_cdi_free) struct gt_cdi *cdi = calloc(1, sizeof(*cdi));
    GT_NEED(cdi, err, "CDI spec");
    pthread_mutex_init(&cdi->writing, NULL);
    pthread_mutex_init(&cdi->lock, NULL);
    cdi->dir = without_slash(options->dir);
    cdi->kind = strdup(options->kind);
    cdi->dev_root = without_slash(options->dev_root);
    GT_NEED(cdi->dir && cdi->kind && cdi->dev_root, err, "CDI spec");
    const char *slash = strchr(cdi->kind, '/');
    if (asprintf(&cdi->path, "%s/%.*s-%s.json", cdi->dir, (int)(slash - cdi->kind), cdi->kind, slash + 1) <
        0) {
        cdi->path = NULL;
        return gt_fail_sys(err, ENOMEM, "CDI spec");
    }
    gt_file_sweep(cdi->path, GT_FILE_SWEPT_AFTER_S);
    *ret = gt_steal(cdi);
    return 0;
}

void gt_cdi_free(struct gt_cdi *cdi)
{
    if (!cdi)
        return;
    cdi_forget(cdi);
    pthread_mutex_destroy(&cdi->writing);
    pthread_mutex_destroy(&cdi->lock);
    free(cdi->dir);
    free(cdi->path);
    free(cdi->kind);
    free(cdi->dev_root);
    free(cdi);
}
