/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
#include "topology/discovery/backends.h"
#include "topology/model/node_json.h"

enum { RECORDING_VERSION = 1 };

/* A JSON text goes into the recording as JSON, easy to read there; one that is none as the string it is. */
static void embed(struct gt_buf *to, const char *key, const char *text)
{
    gt_auto_json cJSON *json = NULL;
    size_t len = text ? strlen(text) : 0;
    while (len && strchr(" \t\r\n", text[len - 1]))
        len--;
    if (text && gt_json_parse(text, len, key, &json, NULL) >= 0) {
        gt_json_key(to, key);
        gt_buf_add(to, text, len);
    } else if (text)
        gt_json_add_text(to, key, text);
}

int gt_recording_make(const struct gt_node *node, const struct gt_raw *raw, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX), indented = GT_BUF(GT_JSON_MAX);
    gt_json_printf(&text, "{'gputopoRecording': %d, 'node': {", RECORDING_VERSION);
    gt_node_add_json(node, node->name, &text);
    gt_json_end(&text, '}');
    if (raw) {
        gt_json_begin(&text, "raw", '{');
        if (raw->hwloc)
            gt_json_add_text(&text, "hwloc", raw->hwloc);
        embed(&text, "pci", raw->pci);
        embed(&text, "vendor", raw->vendor);
        gt_json_end(&text, '}');
    }
    gt_json_end(&text, '}');
    gt_json_indent(&text, &indented);
    GT_TRY(gt_buf_check(&indented, "recording", err));
    char *data = gt_buf_take(&indented);
    GT_NEED(data, err, "recording");
    *ret = data;
    return 0;
}

/* A piece of raw: the string it is, or the text of the JSON it is. NULL stays where it is not there. */
static int recording_copy_raw(const cJSON *raw, const char *key, const char *source, char **ret,
                              struct gt_err **err)
{
    const cJSON *value = gt_get(raw, key);
    if (!value)
        return 0;
    char *text = NULL;
    if (cJSON_IsString(value))
        text = strdup(value->valuestring);
    else if (cJSON_IsObject(value))
        text = cJSON_PrintUnformatted(value);
    else
        return gt_fail(err, EINVAL, "%s: raw.%s: must be an object or a string", source, key);
    GT_NEED(text, err, "%s", source);
    *ret = text;
    return 0;
}

/* What the recording says about a part that it lacks. */
static const char *recorded_why(const cJSON *node, const char *what)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, gt_get(node, "missing"))
    {
        const char *why = cJSON_GetStringValue(gt_get(item, "why"));
        if (why && strcmp(gt_get_string(item, "what"), what) == 0)
            return why;
    }
    return "not in the recording";
}

static int replay_raw(const struct gt_scan_options *options, const cJSON *node, const char *name,
                      struct gt_node **ret, const struct gt_raw *raw, struct gt_err **err)
{
    const char *source = options->from;
    gt_auto_facts struct gt_facts facts = {0};
    if (raw->pci) {
        int r = gt_facts_from_json(raw->pci, strlen(raw->pci), "raw.pci", &facts, err);
        if (r < 0)
            return gt_wrap(err, "%s", source);
    } else {
        gt_facts_missing(&facts, GT_MISSING_PCI, "%s", recorded_why(node, GT_MISSING_PCI));
    }
    if (options->vendor || !facts.vendor)
        facts.vendor = options->vendor ? options->vendor : GT_VENDOR_METAX;
    if (raw->hwloc) {
        int r = gt_hwloc_read(raw->hwloc, strlen(raw->hwloc), "raw.hwloc", &facts, err);
        if (r < 0)
            return gt_wrap(err, "%s", source);
    } else {
        gt_facts_missing(&facts, GT_MISSING_HWLOC, "%s", recorded_why(node, GT_MISSING_HWLOC));
    }
    int r = gt_assemble(&facts, raw->vendor, recorded_why(node, GT_MISSING_VENDOR),
                        options->node_name ? options->node_name : name, ret, err);
    return r < 0 ? gt_wrap(err, "%s", source) : r;
}

static int replay_node(const struct gt_scan_options *options, const cJSON *json, struct gt_node **ret,
                       struct gt_err **err)
{
    gt_auto_node struct gt_node *node = NULL;
    GT_TRY(gt_node_from_json(json, options->from, &node, err));
    if (options->node_name) /* not shared yet: this is still its making */
        snprintf(node->name, sizeof(node->name), "%s", options->node_name);
    *ret = gt_steal(node);
    return 0;
}

static int replay_recording(const struct gt_scan_options *options, const cJSON *json, struct gt_node **ret,
                            struct gt_raw *raw, struct gt_err **err)
{
    const char *source = options->from;
    const cJSON *version = gt_get(json, "gputopoRecording");
    if (!version)
        return replay_node(options, json, ret, err);
    if (!cJSON_IsNumber(version) || version->valuedouble != RECORDING_VERSION)
        return gt_fail(err, EINVAL, "%s: gputopoRecording: only version %d is known", source,
                       RECORDING_VERSION);
    const cJSON *node = gt_get(json, "node");
    const cJSON *from = gt_get(json, "raw");
    if (from && !cJSON_IsObject(from))
        return gt_fail(err, EINVAL, "%s: raw: must be an object", source);
    GT_TRY(recording_copy_raw(from, "pci", source, &raw->pci, err));
    GT_TRY(recording_copy_raw(from, "hwloc", source, &raw->hwloc, err));
    GT_TRY(recording_copy_raw(from, "vendor", source, &raw->vendor, err));
    if (raw->pci || raw->hwloc || raw->vendor)
        return replay_raw(options, node, cJSON_GetStringValue(gt_get(node, "name")), ret, raw, err);
    if (!node)
        return gt_fail(err, EINVAL, "%s: a recording without \"node\" and without \"raw\"", source);
    return replay_node(options, node, ret, err);
}

/* An hwloc XML file alone: a machine without PCI attributes and without a vendor library. */
static int replay_xml(const struct gt_scan_options *options, const char *text, size_t len,
                      struct gt_node **ret, struct gt_raw *raw, struct gt_err **err)
{
    gt_auto_facts struct gt_facts facts = {.vendor = options->vendor ? options->vendor : GT_VENDOR_METAX};
    gt_facts_missing(&facts, GT_MISSING_PCI, "not read: an hwloc XML file is all there is");
    raw->pci = gt_facts_to_json(&facts); /* the vendor that was searched, and why there is no more */
    raw->hwloc = strdup(text);
    GT_NEED(raw->pci && raw->hwloc, err, "%s", options->from);
    GT_TRY(gt_hwloc_read(text, len, options->from, &facts, err));
    int r = gt_assemble(&facts, NULL, "not asked: an hwloc XML file is read", options->node_name, ret, err);
    return r < 0 ? gt_wrap(err, "%s", options->from) : r;
}

int gt_replay(const struct gt_scan_options *options, struct gt_node **ret, struct gt_raw *ret_raw,
              struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len = 0;
    GT_TRY(strcmp(options->from, "-") == 0
               ? gt_file_read_all(STDIN_FILENO, "standard input", GT_JSON_MAX, &text, &len, err)
               : gt_file_read(AT_FDCWD, options->from, GT_JSON_MAX, &text, &len, err));
    const char *source = options->from;
    size_t mark = strncmp(text, "\ufeff", 3) == 0 ? 3 : 0;
    char *content = text + mark;
    len -= mark;
    size_t blanks = strspn(content, " \t\r\n");
    if (blanks == len)
        return gt_fail(err, EINVAL,
                       "%s: is empty: expected a recording, hwloc's XML or the text of mx-smi topo -m",
                       source);
    char first = content[blanks];
    if (first == '<')
        return replay_xml(options, content, len, ret, ret_raw, err);
    if (first != '{' && first != '[') {
        gt_auto_node struct gt_node *node = NULL;
        GT_TRY(gt_matrix_read(content, source, options->node_name, &node, err));
        if (options->needs_devices)
            return gt_fail(err, EINVAL, "%s: a matrix names no devices; a recording is needed", source);
        *ret = gt_steal(node);
        return 0;
    }
    gt_auto_json cJSON *json = NULL;
    GT_TRY(gt_json_parse(content, len, source, &json, err));
    return replay_recording(options, json, ret, ret_raw, err);
}
