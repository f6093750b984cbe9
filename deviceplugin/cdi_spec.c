/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/cdi_spec.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"

enum { CDI_NAME_MAX = 1024 };

_Static_assert((int)GT_GPUS_MAX <= (int)GT_CDI_DEVICES_MAX, "each GPU is a device");
_Static_assert((int)GT_DEVICE_NODES_MAX <= (int)GT_CDI_NODES_MAX, "the control nodes are common to all");

int gt_cdi_parts_new(const char *dev_root, struct gt_cdi_parts **ret, struct gt_err **err)
{
    struct gt_cdi_parts *parts = calloc(1, sizeof(*parts));
    GT_NEED(parts, err, "CDI spec");
    parts->dev_root = dev_root;
    *ret = parts;
    return 0;
}

void gt_cdi_parts_free(struct gt_cdi_parts *parts)
{
    for (unsigned i = 0; parts && i < parts->device_count; i++)
        gt_buf_done(&parts->names[i]);
    for (unsigned i = 0; parts && i < parts->path_count; i++)
        free(parts->paths[i]);
    free(parts);
}

static const char *cdi_parts_add_path(struct gt_cdi_parts *parts, const char *directory, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return NULL;
    return parts->paths[parts->path_count++] = path;
}

int gt_cdi_parts_nodes(struct gt_cdi_parts *parts, const struct gt_device_nodes *nodes,
                       struct gt_cdi_edits *ret, struct gt_err **err)
{
    if (nodes->count > GT_COUNT(parts->nodes) - parts->node_count)
        return gt_fail(err, E2BIG, "CDI spec: more than %zu device nodes", GT_COUNT(parts->nodes));
    ret->nodes = &parts->nodes[parts->node_count];
    ret->node_count = nodes->count;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct gt_cdi_node *node = &parts->nodes[parts->node_count++];
        node->permissions = "rw";
        node->path = cdi_parts_add_path(parts, "/dev", nodes->names[i]);
        node->host_path = node->path ? cdi_parts_add_path(parts, parts->dev_root, nodes->names[i]) : NULL;
        GT_NEED(node->host_path, err, "CDI spec");
    }
    return 0;
}

int gt_cdi_parts_device(struct gt_cdi_parts *parts, const char *name, const struct gt_device_nodes *nodes,
                        struct gt_err **err)
{
    if (parts->device_count == GT_CDI_DEVICES_MAX)
        return gt_fail(err, E2BIG, "CDI spec: more than %d devices", GT_CDI_DEVICES_MAX);
    struct gt_cdi_device *to = &parts->devices[parts->device_count];
    struct gt_buf *text = &parts->names[parts->device_count++];
    *text = (struct gt_buf)GT_BUF(CDI_NAME_MAX);
    gt_cdi_name_add(text, name);
    GT_TRY(gt_buf_check(text, "name of a CDI device", err));
    to->name = text->data;
    return nodes ? gt_cdi_parts_nodes(parts, nodes, &to->edits, err) : 0;
}

static const char version[] = "0.6.0";

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool cdi_spec_is_alphanumeric(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9');
}

/* Letters and digits, and those of `more` in between. */
static bool cdi_spec_is_name(const char *text, size_t len, const char *more)
{
    if (!len || !cdi_spec_is_alphanumeric(text[0]) || !cdi_spec_is_alphanumeric(text[len - 1]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!cdi_spec_is_alphanumeric(text[i]) && !strchr(more, text[i]))
            return false;
    return true;
}

/* Whether "domain/name" may be the kind of a spec: both begin with a letter, end with a letter or digit, and
 * have letters, digits, '-', '_' and '.' between. */
static bool is_kind(const char *kind)
{
    const char *slash = strchr(kind, '/');
    return slash && is_letter(kind[0]) && cdi_spec_is_name(kind, (size_t)(slash - kind), "-_.") &&
           is_letter(slash[1]) && cdi_spec_is_name(slash + 1, strlen(slash + 1), "-_.");
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

/* Whether the path is absolute, without empty parts, "." and "..". */
static bool is_path(const char *path)
{
    if (path[0] != '/' || strlen(path) >= PATH_MAX || !gt_text_is_utf8(path))
        return false;
    for (const char *part = path + 1;; part = strchr(part, '/') + 1) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len <= 2 && strspn(part, ".") >= len))
            return false;
        if (!part[len])
            return true;
    }
}

static int cdi_spec_check_node(const struct gt_cdi_node *node, const char *whose, struct gt_err **err)
{
    if (!is_path(node->path))
        return gt_fail(err, EINVAL, "%s: \"%.200s\" is no absolute path of a device node", whose, node->path);
    if (node->host_path && !is_path(node->host_path))
        return gt_fail(err, EINVAL, "%s: \"%.200s\" is no absolute path of a device node on the host", whose,
                       node->host_path);
    size_t len = strlen(node->permissions);
    if (!len || len > 3 || strspn(node->permissions, "rwm") != len)
        return gt_fail(err, EINVAL, "%s: %.200s: the permissions \"%.20s\" are not some of r, w and m", whose,
                       node->path, node->permissions);
    return 0;
}

static size_t variable_length(const char *entry)
{
    return strcspn(entry, "=");
}

/* The same path in the container, among the first `nodes` of a and all of b. */
static bool has_path(const struct gt_cdi_edits *a, unsigned nodes, const struct gt_cdi_edits *b,
                     const char *path)
{
    for (unsigned i = 0; i < nodes; i++)
        if (strcmp(a->nodes[i].path, path) == 0)
            return true;
    return b && GT_FIND(b->nodes, b->node_count, path, path);
}

static bool same_variable(const char *a, const char *b)
{
    size_t len = variable_length(a);
    return variable_length(b) == len && strncmp(a, b, len) == 0;
}

static bool has_variable(const struct gt_cdi_edits *a, unsigned count, const struct gt_cdi_edits *b,
                         const char *entry)
{
    for (unsigned i = 0; i < count; i++)
        if (same_variable(a->env[i], entry))
            return true;
    for (unsigned i = 0; b && i < b->env_count; i++)
        if (same_variable(b->env[i], entry))
            return true;
    return false;
}

/* `common`: the edits that are common to all; NULL: none. */
static int check_edits(const struct gt_cdi_edits *edits, const struct gt_cdi_edits *common, const char *whose,
                       struct gt_err **err)
{
    if (edits->node_count > GT_CDI_NODES_MAX)
        return gt_fail(err, E2BIG, "%s: more than %d device nodes", whose, GT_CDI_NODES_MAX);
    if (edits->env_count > GT_CDI_ENV_MAX)
        return gt_fail(err, E2BIG, "%s: more than %d variables", whose, GT_CDI_ENV_MAX);
    for (unsigned i = 0; i < edits->node_count; i++) {
        GT_TRY(cdi_spec_check_node(&edits->nodes[i], whose, err));
        if (has_path(edits, i, common, edits->nodes[i].path))
            return gt_fail(err, EINVAL, "%s: %.200s is there twice", whose, edits->nodes[i].path);
    }
    for (unsigned i = 0; i < edits->env_count; i++) {
        const char *entry = edits->env[i];
        size_t len = variable_length(entry);
        if (!len || !entry[len] || !gt_text_is_utf8(entry))
            return gt_fail(err, EINVAL, "%s: \"%.80s\" is not of the form NAME=value", whose, entry);
        if (has_variable(edits, i, common, entry))
            return gt_fail(err, EINVAL, "%s: the variable %.*s is there twice", whose,
                           (int)(len < 80 ? len : 80), entry);
    }
    return 0;
}

int gt_cdi_spec_check(const struct gt_cdi_spec *spec, struct gt_err **err)
{
    if (!is_kind(spec->kind))
        return gt_fail(err, EINVAL, "CDI spec: \"%.80s\" is no kind of devices", spec->kind);
    if (!spec->device_count)
        return gt_fail(err, EINVAL, "CDI spec: there is no device");
    if (spec->device_count > GT_CDI_DEVICES_MAX)
        return gt_fail(err, E2BIG, "CDI spec: more than %d devices", GT_CDI_DEVICES_MAX);
    int r = check_edits(&spec->common, NULL, "common to all devices", err);
    for (unsigned i = 0; r == 0 && i < spec->device_count; i++) {
        const struct gt_cdi_device *device = &spec->devices[i];
        if (!cdi_spec_is_name(device->name, strlen(device->name), "-_.:"))
            return gt_fail(err, EINVAL, "CDI spec: \"%.120s\" is no name of a device", device->name);
        for (unsigned k = 0; k < i; k++)
            if (strcmp(spec->devices[k].name, device->name) == 0)
                return gt_fail(err, EINVAL, "CDI spec: two devices are called %.120s", device->name);
        if (!device->edits.node_count && !device->edits.env_count)
            return gt_fail(err, EINVAL, "CDI spec: the device %.120s has neither device nodes nor variables",
                           device->name);
        r = check_edits(&device->edits, &spec->common, device->name, err);
    }
    return r < 0 && err && *err ? gt_wrap(err, "CDI spec") : r;
}

static void cdi_spec_write_node(const struct gt_cdi_node *node, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "path", node->path);
    if (node->host_path && strcmp(node->host_path, node->path) != 0)
        gt_json_add_text(to, "hostPath", node->host_path);
    gt_json_add_text(to, "permissions", node->permissions);
    gt_json_end(to, '}');
}

static void write_edits(const struct gt_cdi_edits *edits, int indent, struct gt_buf *to)
{
    gt_json_new_line(to, indent);
    gt_json_begin(to, "containerEdits", '{');
    if (edits->env_count) {
        gt_json_begin(to, "env", '[');
        for (unsigned i = 0; i < edits->env_count; i++)
            gt_json_add_text(to, NULL, edits->env[i]);
        gt_json_end(to, ']');
    }
    if (edits->node_count) {
        gt_json_begin(to, "deviceNodes", '[');
        for (unsigned i = 0; i < edits->node_count; i++) {
            gt_json_new_line(to, indent + 2);
            cdi_spec_write_node(&edits->nodes[i], to);
        }
        gt_json_end(to, ']');
    }
    gt_json_end(to, '}');
}

int gt_cdi_spec_write(const struct gt_cdi_spec *spec, struct gt_buf *to, struct gt_err **err)
{
    GT_TRY(gt_cdi_spec_check(spec, err));
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "cdiVersion", version);
    gt_json_add_text(to, "kind", spec->kind);
    if (spec->common.node_count || spec->common.env_count)
        write_edits(&spec->common, 2, to);
    gt_json_new_line(to, 2);
    gt_json_begin(to, "devices", '[');
    for (unsigned i = 0; i < spec->device_count; i++) {
        gt_json_new_line(to, 4);
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "name", spec->devices[i].name);
        write_edits(&spec->devices[i].edits, 6, to);
        gt_json_end(to, '}');
    }
    gt_buf_puts(to, "]}\n");
    return gt_buf_check(to, "CDI spec", err);
}
