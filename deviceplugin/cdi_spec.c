/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/cdi_spec.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_write.h"
#include "base/options.h"
#include "base/text.h"

static bool cdi_spec_is_alphanumeric(char c)
{
    return isalnum((unsigned char)c);
}

/* Begins with a letter, ends with a letter or digit, and has letters, digits, '-', '_' and '.' between. */
static bool cdi_spec_is_name(const char *text, size_t len)
{
    return gt_option_is_name(text, len, "-_.") && isalpha((unsigned char)text[0]) &&
           cdi_spec_is_alphanumeric(text[len - 1]);
}

/* How long a path is without slashes at its end. */
static size_t cdi_spec_length(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len;
}

/* Whether the path is absolute, without empty parts, "." and "..". */
static bool is_path(const char *path)
{
    const char *end = path + cdi_spec_length(path);
    if (path[0] != '/' || strlen(path) >= PATH_MAX || !gt_text_is_utf8(path))
        return false;
    for (const char *part = path + 1;; part = strchr(part, '/') + 1) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len <= 2 && strspn(part, ".") >= len))
            return false;
        if (part + len >= end)
            return true;
    }
}

int gt_cdi_check(const struct gt_cdi_options *options, struct gt_err **err)
{
    const char *kind = options->kind, *slash = strchr(kind, '/');
    if (!slash || !cdi_spec_is_name(kind, (size_t)(slash - kind)) ||
        !cdi_spec_is_name(slash + 1, strlen(slash + 1)))
        return gt_fail(err, EINVAL, "CDI spec: \"%.80s\" is no kind of devices", kind);
    if (!is_path(options->dev_root))
        return gt_fail(err, EINVAL, "CDI spec: \"%.200s\" is no absolute path of device nodes on the host",
                       options->dev_root);
    return 0;
}

void gt_cdi_name_add(struct gt_buf *to, const char *id)
{
    if (!cdi_spec_is_alphanumeric(id[0]))
        gt_buf_puts(to, "x");
    for (const char *c = id; *c; c++) {
        if (cdi_spec_is_alphanumeric(*c) || (c[1] && strchr("-.:", *c)))
            gt_buf_add(to, c, 1);
        else
            gt_buf_printf(to, "_%02x", (unsigned char)*c);
    }
}

/* ---- the text ---- */

static void write_edits(const struct gt_cdi_options *options, const struct gt_device_nodes *nodes,
                        const char *variables, int indent, struct gt_buf *to)
{
    const char *dev_root = options->dev_root;
    gt_json_new_line(to, indent);
    gt_json_begin(to, "containerEdits", '{');
    if (variables)
        gt_json_add_raw(to, "env", variables);
    if (nodes)
        gt_json_begin(to, "deviceNodes", '[');
    for (unsigned i = 0; nodes && i < nodes->count; i++) {
        char path[PATH_MAX + GT_DEVICE_NAME_SIZE], host_path[sizeof(path)];
        snprintf(path, sizeof(path), "/dev/%s", nodes->names[i]);
        snprintf(host_path, sizeof(host_path), "%.*s/%s", (int)cdi_spec_length(dev_root), dev_root,
                 nodes->names[i]);
        gt_json_new_line(to, indent + 2);
        gt_json_printf(to, "{'path': %s, ?'hostPath': %s, 'permissions': 'rw'}", path,
                       strcmp(host_path, path) != 0 ? host_path : "");
    }
    gt_json_ends(to, nodes ? "]}" : "}");
}

void gt_cdi_spec_begin(const struct gt_cdi_options *options, const struct gt_device_nodes *nodes,
                       struct gt_buf *to)
{
    gt_json_printf(to, "{'cdiVersion': '0.6.0', 'kind': %s", options->kind);
    write_edits(options, nodes, NULL, 2, to);
    gt_json_new_line(to, 2);
    gt_json_begin(to, "devices", '[');
}

void gt_cdi_spec_add(const struct gt_cdi_options *options, const char *id,
                     const struct gt_device_nodes *nodes, const char *variables, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf name = GT_BUF(1024);
    gt_cdi_name_add(&name, id);
    to->failed |= name.failed;
    gt_json_new_line(to, 4);
    gt_json_printf(to, "{'name': %s", name.failed ? "" : name.data);
    write_edits(options, nodes, variables, 6, to);
    gt_json_end(to, '}');
}

void gt_cdi_spec_end(struct gt_buf *to)
{
    gt_buf_puts(to, "]}\n");
}

/* ---- files ---- */

void gt_cdi_path_add(const struct gt_cdi_options *options, struct gt_buf *to)
{
    const char *kind = options->kind, *slash = strchr(kind, '/');
    gt_buf_printf(to, "%.*s/%.*s-%s", (int)cdi_spec_length(options->dir), options->dir, (int)(slash - kind),
                  kind, slash + 1);
}

bool gt_cdi_file_says(const char *path, const char *text, size_t len)
{
    gt_auto_free char *data = NULL;
    struct stat st;
    size_t found = 0;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           gt_file_read(AT_FDCWD, path, GT_CDI_SPEC_MAX, &data, &found, NULL) >= 0 && found == len &&
           memcmp(data, text, len) == 0;
}

int gt_cdi_file_write(const struct gt_cdi_options *options, const char *path, const char *text, size_t len,
                      struct gt_err **err)
{
    struct stat st;
    if (mkdir(options->dir, 0755) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "%s", options->dir);
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return gt_fail(err, EEXIST, "%s: it is there, and no plain file", path);
    return gt_file_write(path, text, len, 0644, err);
}

int gt_cdi_file_remove(const char *path, struct gt_err **err)
{
    return unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR ? gt_fail_sys(err, errno, "%s", path) : 0;
}
