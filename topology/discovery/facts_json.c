/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/facts.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "topology/model/node_json.h"

GT_DEFINE_CLEANUP(cJSON *, cJSON_Delete)
#define auto_json GT_CLEANUP(cJSON_Delete)

/* Writing: text by hand into a buffer, whose failure is looked at once. */

static void add_text(struct gt_buf *to, const char *key, const char *value)
{
    if (!value[0])
        return;
    gt_buf_printf(to, ",\"%s\":", key);
    gt_text_quote(to, value);
}

static void add_link(struct gt_buf *to, const char *key, const struct gt_pcie_link *link)
{
    if (link->speed > 0 || link->width)
        gt_buf_printf(to, ",\"%s\":{\"speed\":%g,\"width\":%u}", key, link->speed, link->width);
}

static void add_device(struct gt_buf *to, const struct gt_fact *fact)
{
    gt_buf_printf(to, "{\"bdf\":\"%s\",\"vendor\":\"%04x\",\"device\":\"%04x\",\"class\":\"%04x\"", fact->bdf,
                  fact->vendor, fact->device, fact->class);
    if (fact->numa_node >= 0)
        gt_buf_printf(to, ",\"numaNode\":%d", fact->numa_node);
    add_text(to, "cpuSet", fact->cpu_set);
    add_link(to, "pcieNow", &fact->now);
    add_link(to, "pcieMax", &fact->max);
    add_text(to, "hostBridge", fact->path.root);
    if (fact->path.depth) {
        gt_buf_puts(to, ",\"bridges\":[");
        for (unsigned i = 0; i < fact->path.depth; i++)
            gt_buf_printf(to, "%s\"%s\"", i ? "," : "", fact->path.bridges[i]);
        gt_buf_puts(to, "]");
    }
    add_text(to, "driver", fact->driver);
    if (fact->virtual_function)
        gt_buf_puts(to, ",\"virtualFunction\":true");
    if (fact->drm_card >= 0)
        gt_buf_printf(to, ",\"drmCard\":%d", fact->drm_card);
    if (fact->drm_render >= 0)
        gt_buf_printf(to, ",\"drmRender\":%d", fact->drm_render);
    add_text(to, "rdma", fact->rdma);
    add_text(to, "net", fact->net);
    gt_buf_puts(to, "}");
}

char *gt_facts_to_json(const struct gt_facts *facts)
{
    gt_auto_buf struct gt_buf to = GT_BUF(GT_JSON_MAX);
    gt_buf_printf(&to, "{\"vendor\":\"%04x\",\"read\":%s", facts->vendor, facts->pci_read ? "true" : "false");
    add_text(&to, "driverVersion", facts->driver_version);
    gt_buf_puts(&to, ",\"devices\":[");
    for (unsigned i = 0; i < facts->count; i++) {
        gt_buf_puts(&to, i ? "," : "");
        add_device(&to, &facts->devices[i]);
    }
    gt_buf_puts(&to, "],\"missing\":[");
    for (unsigned i = 0; i < facts->missing_count; i++) {
        gt_buf_puts(&to, i ? ",{\"what\":" : "{\"what\":");
        gt_text_quote(&to, facts->missing[i].what);
        gt_buf_puts(&to, ",\"why\":");
        gt_text_quote(&to, facts->missing[i].why);
        gt_buf_puts(&to, "}");
    }
    gt_buf_puts(&to, "]}");
    return gt_buf_take(&to);
}

/* Reading: hostile until shown otherwise. `where` is the path of an object for the error text. */

struct place {
    const char *source;
    char where[64];
};

static int bad(const struct place *place, const char *key, const char *why, struct gt_err **err)
{
    return gt_fail(err, EINVAL, "%s: %s%s%s: %s", place->source, place->where, place->where[0] ? "." : "",
                   key, why);
}

static int get_text(const cJSON *json, const struct place *place, const char *key, char *to, size_t size,
                    struct gt_err **err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!value)
        return 0;
    if (!cJSON_IsString(value))
        return bad(place, key, "must be a string", err);
    if (!gt_text_copy(to, size, value->valuestring))
        return bad(place, key, "too long", err);
    return 0;
}

static int get_number(const cJSON *json, const struct place *place, const char *key, double max, double *ret,
                      struct gt_err **err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!value)
        return 0;
    /* The negation also catches NaN. */
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble <= max))
        return bad(place, key, "must be a number in range", err);
    *ret = value->valuedouble;
    return 0;
}

static int get_int(const cJSON *json, const struct place *place, const char *key, int max, int *ret,
                   struct gt_err **err)
{
    double number = *ret;
    int r = get_number(json, place, key, max, &number, err);
    if (r >= 0)
        *ret = (int)number;
    return r;
}

static int get_bool(const cJSON *json, const struct place *place, const char *key, bool *ret,
                    struct gt_err **err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, key);
    if (value && !cJSON_IsBool(value))
        return bad(place, key, "must be true or false", err);
    if (value)
        *ret = cJSON_IsTrue(value);
    return 0;
}

static int get_hex(const cJSON *json, const struct place *place, const char *key, unsigned *ret,
                   struct gt_err **err)
{
    char text[8] = "";
    int r = get_text(json, place, key, text, sizeof(text), err);
    if (r < 0 || !text[0])
        return r;
    if (strspn(text, "0123456789abcdefABCDEF") != 4 || text[4])
        return bad(place, key, "must be four hexadecimal digits", err);
    *ret = (unsigned)strtoul(text, NULL, 16);
    return 0;
}

static int get_link(const cJSON *json, const struct place *place, const char *key, struct gt_pcie_link *ret,
                    struct gt_err **err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!value)
        return 0;
    if (!cJSON_IsObject(value))
        return bad(place, key, "must be an object", err);
    int width = 0;
    int r = get_number(value, place, "speed", 1024, &ret->speed, err);
    if (r >= 0)
        r = get_int(value, place, "width", 64, &width, err);
    if (r >= 0)
        ret->width = (unsigned)width;
    return r;
}

static int get_bridges(const cJSON *json, const struct place *place, struct gt_pcie_path *path,
                       struct gt_err **err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "bridges"), *item;
    if (!list)
        return 0;
    if (!cJSON_IsArray(list))
        return bad(place, "bridges", "must be a list", err);
    cJSON_ArrayForEach(item, list)
    {
        if (path->depth >= GT_PATH_MAX_DEPTH)
            return bad(place, "bridges", "too many", err);
        if (!cJSON_IsString(item) || !gt_bdf_normalise(item->valuestring, path->bridges[path->depth]))
            return bad(place, "bridges", "must be PCI addresses", err);
        path->depth++;
    }
    return 0;
}

static int get_device(const cJSON *json, const struct place *place, struct gt_facts *facts,
                      struct gt_err **err)
{
    char text[32] = "", bdf[GT_BDF_SIZE];
    if (!cJSON_IsObject(json))
        return bad(place, "bdf", "the device is not an object", err);
    int r = get_text(json, place, "bdf", text, sizeof(text), err);
    if (r < 0)
        return r;
    if (!gt_bdf_normalise(text, bdf))
        return bad(place, "bdf", "must be a PCI address", err);
    struct gt_fact *fact;
    r = gt_facts_add(facts, bdf, &fact, err);
    if (r < 0)
        return gt_wrap(err, "%s: %s", place->source, place->where);
    if ((r = get_hex(json, place, "vendor", &fact->vendor, err)) < 0 ||
        (r = get_hex(json, place, "device", &fact->device, err)) < 0 ||
        (r = get_hex(json, place, "class", &fact->class, err)) < 0 ||
        (r = get_int(json, place, "numaNode", 65535, &fact->numa_node, err)) < 0 ||
        (r = get_text(json, place, "cpuSet", fact->cpu_set, sizeof(fact->cpu_set), err)) < 0 ||
        (r = get_link(json, place, "pcieNow", &fact->now, err)) < 0 ||
        (r = get_link(json, place, "pcieMax", &fact->max, err)) < 0 ||
        (r = get_text(json, place, "hostBridge", fact->path.root, sizeof(fact->path.root), err)) < 0 ||
        (r = get_bridges(json, place, &fact->path, err)) < 0 ||
        (r = get_text(json, place, "driver", fact->driver, sizeof(fact->driver), err)) < 0 ||
        (r = get_bool(json, place, "virtualFunction", &fact->virtual_function, err)) < 0 ||
        (r = get_int(json, place, "drmCard", 1 << 20, &fact->drm_card, err)) < 0 ||
        (r = get_int(json, place, "drmRender", 1 << 20, &fact->drm_render, err)) < 0 ||
        (r = get_text(json, place, "rdma", fact->rdma, sizeof(fact->rdma), err)) < 0 ||
        (r = get_text(json, place, "net", fact->net, sizeof(fact->net), err)) < 0)
        return r;
    return 0;
}

static int get_missing(const cJSON *list, const struct place *place, struct gt_facts *facts,
                       struct gt_err **err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        struct gt_missing missing = {0};
        int r = get_text(item, place, "what", missing.what, sizeof(missing.what), err);
        if (r >= 0)
            r = get_text(item, place, "why", missing.why, sizeof(missing.why), err);
        if (r < 0)
            return r;
        gt_facts_missing(facts, missing.what, "%s", missing.why);
    }
    return 0;
}

static int get_devices(const cJSON *list, struct place *place, struct gt_facts *facts, struct gt_err **err)
{
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        snprintf(place->where, sizeof(place->where), "devices[%u]", i++);
        int r = get_device(item, place, facts, err);
        if (r < 0)
            return r;
    }
    place->where[0] = '\0';
    return 0;
}

int gt_facts_from_json(const char *text, size_t len, const char *source, struct gt_facts *facts,
                       struct gt_err **err)
{
    auto_json cJSON *json = NULL;
    int r = gt_json_parse(text, len, source, &json, err);
    if (r < 0)
        return r;
    struct place place = {.source = source};
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(json, "devices");
    const cJSON *missing = cJSON_GetObjectItemCaseSensitive(json, "missing");
    if (!cJSON_IsObject(json) || !cJSON_IsArray(devices) || (missing && !cJSON_IsArray(missing)))
        return gt_fail(err, EINVAL, "%s: must be an object with a list \"devices\"", source);
    facts->pci_read = true;
    if ((r = get_hex(json, &place, "vendor", &facts->vendor, err)) < 0 ||
        (r = get_bool(json, &place, "read", &facts->pci_read, err)) < 0 ||
        (r = get_text(json, &place, "driverVersion", facts->driver_version, sizeof(facts->driver_version),
                      err)) < 0 ||
        (r = get_devices(devices, &place, facts, err)) < 0 ||
        (r = get_missing(missing, &place, facts, err)) < 0)
        return r;
    return 0;
}
