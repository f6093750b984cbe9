/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/claim_cdi.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/json_write.h"
#include "deviceplugin/answers.h"

enum { CUT_OFF_LENGTH = 7 }; /* of a temporary file, ".XXXXXX" */

void gt_dra_cdi_device_id(const char *kind, const char *uid, const char *device,
                          char to[static GT_DRA_CDI_ID_SIZE])
{
    snprintf(to, GT_DRA_CDI_ID_SIZE, "%s=%s-%s", kind, uid, device);
}

void gt_dra_cdi_request_id(const char *kind, const char *uid, const char *request,
                           char to[static GT_DRA_CDI_ID_SIZE])
{
    snprintf(to, GT_DRA_CDI_ID_SIZE, "%s=%s-%s-request", kind, uid, request);
}

const struct gt_device *gt_dra_find_device(const struct gt_inventory *inventory, const char *device)
{
    char bdf[GT_BDF_SIZE];
    if (!gt_dra_device_bdf(device, bdf))
        return NULL;
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].gpu >= 0 && strcmp(inventory->devices[i].bdf, bdf) == 0)
            return &inventory->devices[i];
    return NULL;
}

bool gt_dra_cdi_is_first(const struct gt_dra_claim *claim, unsigned device)
{
    return !GT_FIND(claim->devices, device, request, claim->devices[device].request);
}

/* "<dir>/<vendor>-<class>-claim-": the beginning of the path of a claim's file. */
static void file_prefix(const struct gt_cdi_options *options, struct gt_buf *to)
{
    gt_cdi_path_add(options, to);
    gt_buf_puts(to, "-claim-");
}

static int file_path(const struct gt_cdi_options *options, const char *uid, struct gt_buf *to,
                     struct gt_err **err)
{
    file_prefix(options, to);
    gt_buf_printf(to, "%s.json", uid);
    return gt_buf_check(to, "path of a CDI spec", err);
}

/* The variables of the request of device `first`, as a JSON array; false: it has none. */
static bool claim_cdi_add_variables(const struct gt_inventory *inventory, const struct gt_dra_claim *claim,
                                    const struct gt_device *const *devices, unsigned first, struct gt_buf *to)
{
    const struct gt_device *meant[GT_DRA_CLAIM_DEVICES_MAX];
    unsigned count = 0;
    bool any = false;
    for (unsigned i = first; i < claim->device_count; i++)
        if (strcmp(claim->devices[i].request, claim->devices[first].request) == 0)
            meant[count++] = devices[i];
    gt_json_begin(to, NULL, '[');
    for (unsigned i = 0; i < GT_VARIABLES; i++) {
        gt_auto_buf struct gt_buf entry = GT_BUF(GT_VARIABLE_MAX);
        gt_buf_printf(&entry, "%s=", gt_variables[i].name);
        size_t empty = entry.len;
        gt_variables[i].write(inventory->node, meant, count, &entry);
        to->failed |= entry.failed;
        if (entry.failed || entry.len == empty)
            continue;
        gt_json_add_text(to, NULL, entry.data);
        any = true;
    }
    gt_json_end(to, ']');
    return any;
}

static int claim_cdi_make_text(const struct gt_cdi_options *options, const struct gt_inventory *inventory,
                               const struct gt_dra_claim *claim, struct gt_buf *to, struct gt_err **err)
{
    const struct gt_device *devices[GT_DRA_CLAIM_DEVICES_MAX];
    struct gt_device_nodes nodes;
    char name[GT_DRA_CDI_ID_SIZE];
    for (unsigned i = 0; i < claim->device_count; i++) {
        devices[i] = gt_dra_find_device(inventory, claim->devices[i].device);
        if (!devices[i])
            return gt_fail(err, ENODEV, "%s is no GPU of this node", claim->devices[i].device);
    }
    GT_TRY(gt_device_nodes_find(options->dev_root, NULL, 0, &nodes, err));
    gt_cdi_spec_begin(options, &nodes, to);
    for (unsigned i = 0; i < claim->device_count; i++) {
        gt_auto_buf struct gt_buf variables = GT_BUF(GT_CDI_SPEC_MAX);
        GT_TRY(gt_device_nodes_drm(options->dev_root, devices[i], &nodes, err));
        snprintf(name, sizeof(name), "%s-%s", claim->id.uid, claim->devices[i].device);
        gt_cdi_spec_add(options, name, &nodes, NULL, to);
        if (!gt_dra_cdi_is_first(claim, i))
            continue;
        bool any = claim_cdi_add_variables(inventory, claim, devices, i, &variables);
        GT_TRY(gt_buf_check(&variables, "variables of a request", err)); /* also where none is left */
        if (!any)
            continue;
        /* The name of a GPU cannot end like this. */
        snprintf(name, sizeof(name), "%s-%s-request", claim->id.uid, claim->devices[i].request);
        gt_cdi_spec_add(options, name, NULL, variables.data, to);
    }
    gt_cdi_spec_end(to);
    return gt_buf_check(to, "CDI spec", err);
}

int gt_dra_cdi_write(const struct gt_cdi_options *options, const struct gt_inventory *inventory,
                     const struct gt_dra_claim *claim, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_CDI_SPEC_MAX), path = GT_BUF(4096);
    GT_TRY(claim_cdi_make_text(options, inventory, claim, &text, err));
    GT_TRY(file_path(options, claim->id.uid, &path, err));
    return gt_cdi_file_says(path.data, text.data, text.len)
               ? 0
               : gt_cdi_file_write(options, path.data, text.data, text.len, err);
}

int gt_dra_cdi_remove(const struct gt_cdi_options *options, const char *uid, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(4096);
    GT_TRY(file_path(options, uid, &path, err));
    return gt_cdi_file_remove(path.data, err);
}

/* The UID in a file's name after the prefix, also for the temporary file of an interrupted write. */
static bool uid_of(const char *rest, char to[static GT_DRA_UID_SIZE], bool *ret_cut_off)
{
    const char *end = strstr(rest, ".json");
    size_t len = end ? (size_t)(end - rest) : GT_DRA_UID_SIZE;
    if (len >= GT_DRA_UID_SIZE)
        return false;
    memcpy(to, rest, len);
    to[len] = '\0';
    end += strlen(".json");
    *ret_cut_off = *end == '.' && strlen(end) == CUT_OFF_LENGTH;
    return gt_dra_uid_is_valid(to) && (*ret_cut_off || !*end);
}

static bool is_old(int dir, const char *name)
{
    struct stat status;
    return fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - status.st_mtime >= GT_FILE_SWEPT_AFTER_S;
}

unsigned gt_dra_cdi_sweep(const struct gt_cdi_options *options, const struct gt_dra_claims *claims)
{
    gt_auto_buf struct gt_buf prefix = GT_BUF(4096);
    gt_auto_dir DIR *dir = opendir(options->dir);
    unsigned removed = 0;
    file_prefix(options, &prefix);
    if (prefix.failed)
        return 0;
    const char *name = strrchr(prefix.data, '/') + 1;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char uid[GT_DRA_UID_SIZE];
        bool cut_off;
        if (strncmp(entry->d_name, name, strlen(name)) != 0 ||
            !uid_of(entry->d_name + strlen(name), uid, &cut_off))
            continue;
        if ((cut_off || !gt_dra_claims_find(claims, uid)) && is_old(dirfd(dir), entry->d_name) &&
            unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            removed++;
    }
    return removed;
}
