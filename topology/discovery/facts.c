/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/facts.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "topology/model/node_json.h"

void gt_facts_done(struct gt_facts *facts)
{
    free(facts->devices);
    free(facts->direct);
    memset(facts, 0, sizeof(*facts));
}

struct gt_fact *gt_facts_find(const struct gt_facts *facts, const char *bdf)
{
    return GT_FIND(facts->devices, facts->count, bdf, bdf);
}

int gt_facts_add(struct gt_facts *facts, const char *bdf, struct gt_fact **ret, struct gt_err **err)
{
    if (gt_facts_find(facts, bdf))
        return gt_fail(err, EEXIST, "PCI device %s is there twice", bdf);
    if (facts->count >= GT_FACTS_MAX)
        return gt_fail(err, E2BIG, "more than %d PCI devices", GT_FACTS_MAX);
    GT_NEED(GT_GROW(facts->devices, facts->count, facts->capacity, 32), err, "PCI devices");
    struct gt_fact *fact = &facts->devices[facts->count];
    *fact = (struct gt_fact){.numa_node = -1, .drm_card = -1, .drm_render = -1};
    if (!gt_text_copy(fact->bdf, sizeof(fact->bdf), bdf))
        return gt_fail(err, EINVAL, "\"%.32s\" is no PCI address", bdf);
    facts->count++;
    *ret = fact;
    return 0;
}

int gt_facts_add_direct(struct gt_facts *facts, const char *a, const char *b, uint64_t bandwidth_mbps,
                        struct gt_err **err)
{
    if (facts->direct_count >= GT_DIRECT_MAX)
        return gt_fail(err, E2BIG, "more than %d direct links", GT_DIRECT_MAX);
    GT_NEED(GT_GROW(facts->direct, facts->direct_count, facts->direct_capacity, 64), err, "direct links");
    struct gt_direct *direct = &facts->direct[facts->direct_count];
    if (!gt_text_copy(direct->a, sizeof(direct->a), a) || !gt_text_copy(direct->b, sizeof(direct->b), b))
        return gt_fail(err, EINVAL, "direct link with a bad PCI address");
    direct->bandwidth_mbps = bandwidth_mbps;
    facts->direct_count++;
    return 0;
}

void gt_facts_missing(struct gt_facts *facts, const char *what, const char *format, ...)
{
    if (facts->missing_count >= GT_MISSING_MAX)
        return; /* the node, which gets them all, says that more is missing */
    struct gt_missing *missing = &facts->missing[facts->missing_count++];
    snprintf(missing->what, sizeof(missing->what), "%s", what);
    va_list args;
    va_start(args, format);
    vsnprintf(missing->why, sizeof(missing->why), format, args);
    va_end(args);
}

static bool computes(unsigned class)
{
    return class >> 8 == 0x03 || class >> 8 == 0x12 || class == 0x0b40;
}

bool gt_fact_is_gpu(const struct gt_fact *fact, unsigned vendor)
{
    return fact->vendor == vendor && computes(fact->class);
}

bool gt_fact_is_nic(const struct gt_fact *fact)
{
    return !fact->virtual_function && (fact->rdma[0] || fact->class == 0x0207);
}

bool gt_fact_is_of_interest(const struct gt_fact *fact, unsigned vendor)
{
    return computes(fact->class) || fact->class >> 8 == 0x02 || fact->vendor == vendor;
}

static void add_hex(struct gt_buf *to, const char *key, unsigned number)
{
    char text[16];
    snprintf(text, sizeof(text), "%04x", number);
    gt_json_add_text(to, key, text);
}

static void facts_json_add_link(struct gt_buf *to, const char *key, const struct gt_pcie_link *link)
{
    if (!(link->speed > 0) && !link->width)
        return;
    gt_json_begin(to, key, '{');
    gt_json_add_real(to, "speed", link->speed, 6);
    gt_json_printf(to, "'width': %u}", link->width);
}

static void facts_json_add_number(struct gt_buf *to, const char *key, int number)
{
    if (number >= 0)
        gt_json_add_int(to, key, number);
}

static void facts_json_add_device(struct gt_buf *to, const struct gt_fact *fact)
{
    gt_json_printf(to, "{'bdf': %s", fact->bdf);
    add_hex(to, "vendor", fact->vendor);
    add_hex(to, "device", fact->device);
    add_hex(to, "class", fact->class);
    facts_json_add_number(to, "numaNode", fact->numa_node);
    gt_json_add_text_if(to, "cpuSet", fact->cpu_set);
    facts_json_add_link(to, "pcieNow", &fact->now);
    facts_json_add_link(to, "pcieMax", &fact->max);
    gt_json_add_text_if(to, "hostBridge", fact->path.root);
    if (fact->path.depth) {
        gt_json_begin(to, "bridges", '[');
        for (unsigned i = 0; i < fact->path.depth; i++)
            gt_json_add_text(to, NULL, fact->path.bridges[i]);
        gt_json_end(to, ']');
    }
    gt_json_printf(to, "?'driver': %s, ?'virtualFunction': !%d", fact->driver, fact->virtual_function);
    facts_json_add_number(to, "drmCard", fact->drm_card);
    facts_json_add_number(to, "drmRender", fact->drm_render);
    gt_json_printf(to, "?'rdma': %s, ?'net': %s, ?'switch': %s, ?'switchPort': %s}", fact->rdma, fact->net,
                   fact->peer, fact->peer_port);
}

char *gt_facts_to_json(const struct gt_facts *facts)
{
    gt_auto_buf struct gt_buf to = GT_BUF(GT_JSON_MAX);
    gt_json_begin(&to, NULL, '{');
    add_hex(&to, "vendor", facts->vendor);
    gt_json_printf(&to, "'read': !%d, ?'driverVersion': %s, 'devices': [", facts->pci_read,
                   facts->driver_version);
    for (unsigned i = 0; i < facts->count; i++)
        facts_json_add_device(&to, &facts->devices[i]);
    gt_json_end(&to, ']');
    gt_json_begin(&to, "missing", '[');
    for (unsigned i = 0; i < facts->missing_count; i++)
        gt_json_printf(&to, "{'what': %s, 'why': %s}", facts->missing[i].what, facts->missing[i].why);
    gt_buf_puts(&to, "]}");
    return gt_buf_take(&to);
}

/* Reading: the text is not trusted. */

/* A text as the machine has it, control characters too: it is cleaned when a node is made of it. */
static int get_raw(const struct gt_at *at, const cJSON *json, const char *key, char *ret, size_t size)
{
    const cJSON *value = gt_get(json, key);
    if (!value)
        return 0;
    if (!cJSON_IsString(value))
        return gt_at_fail(at, key, "expected a string, is %s", gt_json_type(value));
    return gt_text_copy(ret, size, value->valuestring) ? 0 : gt_at_fail(at, key, "too long");
}

static int get_hex(const struct gt_at *at, const cJSON *json, const char *key, unsigned *ret)
{
    char text[8] = "";
    int r = get_raw(at, json, key, text, sizeof(text));
    if (r < 0 || !text[0])
        return r;
    if (strspn(text, "0123456789abcdefABCDEF") != 4 || text[4])
        return gt_at_fail(at, key, "must be four hexadecimal digits");
    *ret = (unsigned)strtoul(text, NULL, 16);
    return 0;
}

static int get_link(const struct gt_at *at, const cJSON *json, const char *key, struct gt_pcie_link *ret)
{
    const cJSON *value;
    GT_TRY(gt_get_object(at, json, key, &value));
    GT_TRY(gt_get_number(at, value, "speed", 1024, &ret->speed));
    return gt_get_unsigned(at, value, "width", 64, &ret->width);
}

static int get_bridges(const struct gt_at *at, const cJSON *json, struct gt_pcie_path *path)
{
    const cJSON *list, *item;
    unsigned count;
    GT_TRY(gt_get_array(at, json, "bridges", GT_PATH_MAX_DEPTH, &list, &count));
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) || !gt_bdf_normalise(item->valuestring, path->bridges[path->depth]))
            return gt_at_fail(at, "bridges", "must be PCI addresses");
        path->depth++;
    }
    return 0;
}

static int get_device(const struct gt_at *at, const cJSON *json, struct gt_facts *facts)
{
    char bdf[GT_BDF_SIZE] = "";
    struct gt_fact *fact;
    GT_TRY(gt_get_bdf(at, json, "bdf", bdf));
    if (!bdf[0])
        return gt_at_fail(at, "bdf", "must be a PCI address");
    if (gt_facts_add(facts, bdf, &fact, at->err) < 0)
        return gt_wrap(at->err, "%s: %s", at->source, at->path);
    GT_TRY(get_hex(at, json, "vendor", &fact->vendor));
    GT_TRY(get_hex(at, json, "device", &fact->device));
    GT_TRY(get_hex(at, json, "class", &fact->class));
    GT_TRY(gt_get_int(at, json, "numaNode", 65535, &fact->numa_node));
    GT_TRY(get_raw(at, json, "cpuSet", fact->cpu_set, sizeof(fact->cpu_set)));
    GT_TRY(get_link(at, json, "pcieNow", &fact->now));
    GT_TRY(get_link(at, json, "pcieMax", &fact->max));
    GT_TRY(get_raw(at, json, "hostBridge", fact->path.root, sizeof(fact->path.root)));
    GT_TRY(get_bridges(at, json, &fact->path));
    GT_TRY(get_raw(at, json, "driver", fact->driver, sizeof(fact->driver)));
    GT_TRY(gt_get_bool(at, json, "virtualFunction", &fact->virtual_function));
    GT_TRY(gt_get_int(at, json, "drmCard", 1 << 20, &fact->drm_card));
    GT_TRY(gt_get_int(at, json, "drmRender", 1 << 20, &fact->drm_render));
    GT_TRY(get_raw(at, json, "rdma", fact->rdma, sizeof(fact->rdma)));
    GT_TRY(get_raw(at, json, "net", fact->net, sizeof(fact->net)));
    GT_TRY(get_raw(at, json, "switch", fact->peer, sizeof(fact->peer)));
    return get_raw(at, json, "switchPort", fact->peer_port, sizeof(fact->peer_port));
}

static int get_missing(const struct gt_at *at, const cJSON *list, struct gt_facts *facts)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        struct gt_missing missing = {0};
        GT_TRY(get_raw(at, item, "what", missing.what, sizeof(missing.what)));
        GT_TRY(get_raw(at, item, "why", missing.why, sizeof(missing.why)));
        gt_facts_missing(facts, missing.what, "%s", missing.why);
    }
    return 0;
}

static int get_devices(const struct gt_at *at, const cJSON *list, struct gt_facts *facts)
{
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char path[32];
        snprintf(path, sizeof(path), "devices[%u]", i++);
        GT_TRY(get_device(&(struct gt_at){at->source, path, at->err}, item, facts));
    }
    return 0;
}

int gt_facts_from_json(const char *text, size_t len, const char *source, struct gt_facts *facts,
                       struct gt_err **err)
{
    gt_auto_json cJSON *json = NULL;
    GT_TRY(gt_json_parse(text, len, source, &json, err));
    const struct gt_at at = {source, "", err};
    const cJSON *devices = gt_get(json, "devices"), *missing = gt_get(json, "missing");
    if (!cJSON_IsArray(devices) || (missing && !cJSON_IsArray(missing)))
        return gt_fail(err, EINVAL, "%s: must be an object with a list \"devices\"", source);
    facts->pci_read = true;
    GT_TRY(get_hex(&at, json, "vendor", &facts->vendor));
    GT_TRY(gt_get_bool(&at, json, "read", &facts->pci_read));
    GT_TRY(get_raw(&at, json, "driverVersion", facts->driver_version, sizeof(facts->driver_version)));
    GT_TRY(get_devices(&at, devices, facts));
    return get_missing(&at, missing, facts);
}
