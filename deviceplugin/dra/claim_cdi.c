/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/claim_cdi.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/cdi_spec.h"

enum { CUT_OFF_LENGTH = 7 }; /* of a temporary file, ".XXXXXX" */

static void device_name(const char *uid, const char *device, char to[static GT_DRA_CDI_ID_SIZE])
{
    snprintf(to, GT_DRA_CDI_ID_SIZE, "%s-%s", uid, device);
}

/* The name of a GPU cannot end like this (device_name.h). */
static void request_name(const char *uid, const char *request, char to[static GT_DRA_CDI_ID_SIZE])
{
    snprintf(to, GT_DRA_CDI_ID_SIZE, "%s-%s-request", uid, request);
}

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
static void file_prefix(const struct gt_dra_cdi_options *options, struct gt_buf *to)
{
    const char *slash = strchr(options->kind, '/');
    gt_buf_printf(to, "%s/%.*s-%s-claim-", options->dir, (int)(slash - options->kind), options->kind,
                  slash + 1);
}

static int file_path(const struct gt_dra_cdi_options *options, const char *uid, struct gt_buf *to,
                     struct gt_err **err)
{
    file_prefix(options, to);
    gt_buf_printf(to, "%s.json", uid);
    return gt_buf_check(to, "path of a CDI spec", err);
}

/* The devices of a claim, as devices of the inventory. */
static int claim_cdi_find_devices(const struct gt_inventory *inventory, const struct gt_dra_claim *claim,
                                  const struct gt_device **devices, struct gt_err **err)
{
    for (unsigned i = 0; i < claim->device_count; i++) {
        devices[i] = gt_dra_find_device(inventory, claim->devices[i].device);
        if (!devices[i])
            return gt_fail(err, ENODEV, "%s is no GPU of this node", claim->devices[i].device);
    }
    return 0;
}

/* The variables of one request. */
struct request_variables {
    char *entries[GT_VARIABLES];
    const char *env[GT_VARIABLES];
    unsigned count;
};

static int claim_cdi_add_variable(const char *name, struct gt_buf *value, struct request_variables *to,
                                  struct gt_err **err)
{
    int r = gt_buf_check(value, name, err);
    char *entry = NULL;
    if (r < 0)
        return r;
    if (asprintf(&entry, "%s=%s", name, value->data ? value->data : "") < 0)
        return gt_fail_sys(err, ENOMEM, "CDI spec");
    to->env[to->count] = to->entries[to->count] = entry;
    to->count++;
    return 0;
}

static int fill_variables(const struct gt_inventory *inventory, const struct gt_device *const *devices,
                          unsigned count, struct request_variables *to, struct gt_err **err)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < GT_VARIABLES; i++) {
        gt_auto_buf struct gt_buf value = GT_BUF(GT_VARIABLE_MAX);
        gt_variables[i].write(inventory->node, devices, count, &value);
        if (value.len > 0 || value.failed)
            r = claim_cdi_add_variable(gt_variables[i].name, &value, to, err);
    }
    return r;
}

/* The devices of one request with its variables. */
static int claim_cdi_add_request(const struct gt_inventory *inventory, const struct gt_dra_claim *claim,
                                 const struct gt_device *const *devices, unsigned first,
                                 struct gt_cdi_parts *parts, struct request_variables *variables,
                                 struct gt_err **err)
{
    const struct gt_device *meant[GT_DRA_CLAIM_DEVICES_MAX];
    const char *request = claim->devices[first].request;
    char name[GT_DRA_CDI_ID_SIZE];
    unsigned count = 0;
    for (unsigned i = first; i < claim->device_count; i++)
        if (strcmp(claim->devices[i].request, request) == 0)
            meant[count++] = devices[i];
    int r = fill_variables(inventory, meant, count, variables, err);
    if (r < 0 || !variables->count)
        return r;
    request_name(claim->id.uid, request, name);
    r = gt_cdi_parts_device(parts, name, NULL, err);
    if (r == 0) {
        parts->devices[parts->device_count - 1].edits.env = variables->env;
        parts->devices[parts->device_count - 1].edits.env_count = variables->count;
    }
    return r;
}

static int claim_cdi_add_all(const struct gt_dra_cdi_options *options, const struct gt_inventory *inventory,
                             const struct gt_dra_claim *claim, struct gt_cdi_parts *parts,
                             struct request_variables *variables, struct gt_err **err)
{
    const struct gt_device *devices[GT_DRA_CLAIM_DEVICES_MAX];
    int r = claim_cdi_find_devices(inventory, claim, devices, err);
    for (unsigned i = 0; r == 0 && i < claim->device_count; i++) {
        struct gt_device_nodes nodes;
        char name[GT_DRA_CDI_ID_SIZE];
        device_name(claim->id.uid, claim->devices[i].device, name);
        r = gt_device_nodes_drm(options->dev_root, devices[i], &nodes, err);
        if (r == 0)
            r = gt_cdi_parts_device(parts, name, &nodes, err);
        if (r == 0 && gt_dra_cdi_is_first(claim, i))
            r = claim_cdi_add_request(inventory, claim, devices, i, parts, &variables[i], err);
    }
    return r;
}

static int claim_cdi_make_text(const struct gt_dra_cdi_options *options, const struct gt_inventory *inventory,
                               const struct gt_dra_claim *claim, struct gt_buf *to, struct gt_err **err)
{
    gt_auto_cdi_parts struct gt_cdi_parts *parts = NULL;
    struct request_variables variables[GT_DRA_CLAIM_DEVICES_MAX] = {0};
    struct gt_device_nodes control;
    GT_TRY(gt_cdi_parts_new(options->dev_root, &parts, err));
    struct gt_cdi_spec spec = {.kind = options->kind, .devices = parts->devices};
    int r = gt_device_nodes_find(options->dev_root, NULL, 0, &control, err);
    if (r == 0)
        r = gt_cdi_parts_nodes(parts, &control, &spec.common, err);
    if (r == 0)
        r = claim_cdi_add_all(options, inventory, claim, parts, variables, err);
    spec.device_count = parts->device_count;
    if (r == 0)
        r = gt_cdi_spec_write(&spec, to, err);
    for (unsigned i = 0; i < claim->device_count; i++)
        for (unsigned k = 0; k < variables[i].count; k++)
            free(variables[i].entries[k]);
    return r;
}

static bool claim_cdi_file_says(const char *path, const struct gt_buf *text)
{
    gt_auto_free char *data = NULL;
    struct stat st;
    size_t len = 0;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           gt_file_read(AT_FDCWD, path, GT_CDI_SPEC_MAX, &data, &len, NULL) >= 0 && len == text->len &&
           memcmp(data, text->data, len) == 0;
}

int gt_dra_cdi_write(const struct gt_dra_cdi_options *options, const struct gt_inventory *inventory,
                     const struct gt_dra_claim *claim, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_CDI_SPEC_MAX), path = GT_BUF(4096);
    int r = claim_cdi_make_text(options, inventory, claim, &text, err);
    if (r == 0)
        r = file_path(options, claim->id.uid, &path, err);
    if (r < 0 || claim_cdi_file_says(path.data, &text))
        return r;
    if (mkdir(options->dir, 0755) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", options->dir);
    return gt_file_write(path.data, text.data, text.len, 0644, err);
}

int gt_dra_cdi_remove(const struct gt_dra_cdi_options *options, const char *uid, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(4096);
    int r = file_path(options, uid, &path, err);
    if (r == 0 && unlink(path.data) < 0 && errno != ENOENT && errno != ENOTDIR)
        r = gt_fail_sys(err, errno, "%s", path.data);
    return r;
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

unsigned gt_dra_cdi_sweep(const struct gt_dra_cdi_options *options, const struct gt_dra_claims *claims)
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
