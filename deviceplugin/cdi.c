/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/cdi.h"

#include <pthread.h>

#include "base/file.h"
#include "deviceplugin/cdi_spec.h"

struct gt_cdi {
    char *path;
    struct gt_cdi_options options;

    pthread_mutex_t writing; /* held from reading the host to writing the file, so that an older view is not
                                written last */
    uint64_t newest;         /* number of the last inventory that was written; under `writing` */

    pthread_mutex_t lock; /* held for a moment only, never while the host is read */
    struct gt_cdi_stats stats;
};

/* The spec of an inventory as text; empty if no GPU of the host can be given. */
static int cdi_make_text(const struct gt_cdi *cdi, const struct gt_inventory *inventory, struct gt_buf *to,
                         struct gt_err **err)
{
    struct gt_device_nodes nodes;
    bool any = false;
    if (gt_device_nodes_find(cdi->options.dev_root, NULL, 0, &nodes, NULL) < 0)
        return 0;
    gt_cdi_spec_begin(&cdi->options, &nodes, to);
    for (unsigned i = 0; i < inventory->device_count; i++) {
        const struct gt_device *device = &inventory->devices[i];
        /* Also an unhealthy one: the container that has it may be restarted. */
        if (device->gpu < 0 || gt_device_nodes_drm(cdi->options.dev_root, device, &nodes, NULL) < 0)
            continue;
        gt_cdi_spec_add(&cdi->options, device->id, &nodes, NULL, to);
        any = true;
    }
    gt_cdi_spec_end(to);
    GT_TRY(gt_buf_check(to, "CDI spec", err));
    if (!any)
        gt_buf_consume(to, to->len);
    return 0;
}

/* ---- the file, by one thread at a time ---- */

static int cdi_refresh(struct gt_cdi *cdi, const struct gt_inventory *inventory, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_CDI_SPEC_MAX);
    if (inventory->number < cdi->newest)
        return 0;
    GT_TRY(cdi_make_text(cdi, inventory, &text, err));
    if (!text.len) {
        GT_TRY(gt_cdi_file_remove(cdi->path, err));
    } else if (!gt_cdi_file_says(cdi->path, text.data, text.len)) {
        GT_TRY(gt_cdi_file_write(&cdi->options, cdi->path, text.data, text.len, err));
        pthread_mutex_lock(&cdi->lock);
        cdi->stats.writes++;
        pthread_mutex_unlock(&cdi->lock);
    }
    cdi->newest = inventory->number;
    return 0;
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
    int r = gt_cdi_file_remove(cdi->path, err);
    pthread_mutex_unlock(&cdi->writing);
    return r;
}

bool gt_cdi_exists(struct gt_cdi *cdi)
{
    return access(cdi->path, F_OK) == 0;
}

void gt_cdi_full_name(const struct gt_cdi *cdi, const char *id, struct gt_buf *to)
{
    gt_buf_printf(to, "%s=", cdi->options.kind);
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

int gt_cdi_new(const struct gt_cdi_options *options, struct gt_cdi **ret, struct gt_err **err)
{
    GT_TRY(gt_cdi_check(options, err));
    GT_CLEANUP(gt_cdi_free) struct gt_cdi *cdi = calloc(1, sizeof(*cdi));
    GT_NEED(cdi, err, "CDI spec");
    pthread_mutex_init(&cdi->writing, NULL);
    pthread_mutex_init(&cdi->lock, NULL);
    cdi->options = *options;
    gt_auto_buf struct gt_buf path = GT_BUF(4096);
    gt_cdi_path_add(&cdi->options, &path);
    gt_buf_puts(&path, ".json");
    GT_TRY(gt_buf_check(&path, "path of a CDI spec", err));
    cdi->path = gt_buf_take(&path);
    GT_NEED(cdi->path, err, "CDI spec");
    gt_file_sweep(cdi->path, GT_FILE_SWEPT_AFTER_S);
    *ret = gt_steal(cdi);
    return 0;
}

void gt_cdi_free(struct gt_cdi *cdi)
{
    if (!cdi)
        return;
    pthread_mutex_destroy(&cdi->writing);
    pthread_mutex_destroy(&cdi->lock);
    free(cdi->path);
    free(cdi);
}
