/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "topology/discovery/backends.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <string.h>

#include "base/text.h"

enum { BANDWIDTH_MAX = 65535000 }; /* MB/s: what a pair weight can hold */

GT_DEFINE_CLEANUP(hwloc_topology_t, hwloc_topology_destroy)
#define auto_topology GT_CLEANUP(hwloc_topology_destroy)

static pthread_mutex_t environment = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t settled = PTHREAD_ONCE_INIT;

/* Settings that hwloc reads from the environment only, and keeps after its first load. */
static void discovery_hwloc_settle(void)
{
    /* Use only what the kernel reports: CPUID is about this machine, not a recorded one, and it must run on
     * every CPU. */
    setenv("HWLOC_COMPONENTS", "linux,stop", 1);
    setenv("HWLOC_LIBXML", "0", 1);      /* its own reader, which reads what it wrote and nothing else */
    setenv("HWLOC_HIDE_ERRORS", "2", 1); /* a library does not print */
    setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1); /* no CUDA, OpenCL or X11 in this process */
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XML_VERBOSE");
}

static int topology_new(hwloc_topology_t *ret, struct gt_err **err)
{
    pthread_once(&settled, discovery_hwloc_settle);
    auto_topology hwloc_topology_t topology = NULL;
    if (hwloc_topology_init(&topology) < 0)
        return gt_fail_sys(err, errno ? errno : ENOMEM, "hwloc");
    /* All CPUs of the machine, also those that a pod's cpuset leaves out. */
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                          HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    if (hwloc_topology_set_flags(topology, flags) < 0 ||
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0 ||
        hwloc_topology_set_type_filter(topology, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
        return gt_fail_sys(err, errno, "hwloc settings");
    *ret = gt_steal(topology);
    return 0;
}

static bool bdf_of(const struct hwloc_pcidev_attr_s *attr, char to[static GT_BDF_SIZE])
{
    char text[32];
    snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", (unsigned)attr->domain, attr->bus, attr->dev,
             attr->func);
    return gt_bdf_normalise(text, to);
}

static void discovery_hwloc_copy_path(hwloc_obj_t device, struct gt_pcie_path *path)
{
    struct gt_pcie_path found = {0};
    for (hwloc_obj_t up = device->parent; up && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
        if (up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
            if (found.depth < GT_PATH_MAX_DEPTH &&
                bdf_of(&up->attr->bridge.upstream.pci, found.bridges[found.depth]))
                found.depth++;
        } else {
            snprintf(found.root, sizeof(found.root), "pci%04x:%02x",
                     (unsigned)up->attr->bridge.downstream.pci.domain & 0xffffff,
                     (unsigned)up->attr->bridge.downstream.pci.secondary_bus);
        }
    }
    if (found.root[0])
        *path = found;
}

/* If the kernel knows the NUMA node, that is used; else the position in hwloc's tree, which also follows
 * HWLOC_PCI_LOCALITY. */
static void copy_locality(hwloc_topology_t topology, hwloc_obj_t device, struct gt_fact *fact)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
    if (!near || (fact->numa_node >= 0 && fact->cpu_set[0]))
        return;
    bool better = fact->numa_node < 0 && near->parent; /* the whole machine is no locality */
    if (fact->numa_node < 0 && near->nodeset && hwloc_bitmap_weight(near->nodeset) == 1)
        fact->numa_node = hwloc_bitmap_first(near->nodeset);
    if ((better || !fact->cpu_set[0]) && near->cpuset && hwloc_bitmap_weight(near->cpuset) > 0) {
        char list[sizeof(fact->cpu_set)];
        int len = hwloc_bitmap_list_snprintf(list, sizeof(list), near->cpuset);
        if (len > 0 && (size_t)len < sizeof(list))
            memcpy(fact->cpu_set, list, (size_t)len + 1);
    }
}

static void copy_info(hwloc_obj_t obj, const char *const names[], char *to, size_t size)
{
    for (size_t i = 0; names[i] && !to[0]; i++) {
        const char *value = hwloc_obj_get_info_by_name(obj, names[i]);
        if (value && gt_text_is_utf8(value))
            gt_text_copy(to, size, value);
    }
}

static void copy_os_device(hwloc_obj_t os, struct gt_fact *fact)
{
    static const char *const product[] = {"GPUModel", NULL};
    static const char *const uuid[] = {"NVIDIAUUID", "AMDUUID", NULL};
    static const char *const serial[] = {"NVIDIASerial", "AMDSerial", NULL};
    if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && os->name && !fact->rdma[0]) {
        gt_text_copy(fact->rdma, sizeof(fact->rdma), os->name);
    } else if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && os->name && !fact->net[0]) {
        gt_text_copy(fact->net, sizeof(fact->net), os->name);
    } else if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU ||
               os->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC) {
        copy_info(os, product, fact->product, sizeof(fact->product));
        copy_info(os, uuid, fact->uuid, sizeof(fact->uuid));
        copy_info(os, serial, fact->serial, sizeof(fact->serial));
    }
}

static int apply_devices(hwloc_topology_t topology, struct gt_facts *facts, struct gt_err **err)
{
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_pcidev(topology, device));) {
        const struct hwloc_pcidev_attr_s *attr = &device->attr->pcidev;
        struct gt_fact seen = {.vendor = attr->vendor_id, .device = attr->device_id, .class = attr->class_id};
        char bdf[GT_BDF_SIZE];
        if (!gt_fact_is_of_interest(&seen, facts->vendor) || !bdf_of(attr, bdf))
            continue;
        struct gt_fact *fact = gt_facts_find(facts, bdf);
        if (!fact) {
            if (facts->pci_read)
                continue;
            GT_TRY(gt_facts_add(facts, bdf, &fact, err));
            fact->vendor = seen.vendor;
            fact->device = seen.device;
            fact->class = seen.class;
        }
        if (!fact->path.root[0])
            discovery_hwloc_copy_path(device, &fact->path);
        copy_locality(topology, device, fact);
        for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling)
            if (child->type == HWLOC_OBJ_OS_DEVICE)
                copy_os_device(child, fact);
    }
    return 0;
}

/* The PCI device that an object of a link matrix is or belongs to. */
static bool discovery_hwloc_device_of(hwloc_obj_t obj, char to[static GT_BDF_SIZE])
{
    while (obj && obj->type == HWLOC_OBJ_OS_DEVICE)
        obj = obj->parent;
    return obj && obj->type == HWLOC_OBJ_PCI_DEVICE && bdf_of(&obj->attr->pcidev, to);
}

static int apply_pairs(const struct hwloc_distances_s *matrix, const char *name, struct gt_facts *facts,
                       struct gt_err **err)
{
    unsigned n = matrix->nbobjs, odd = 0;
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = i + 1; j < n; j++) {
            uint64_t there = matrix->values[(size_t)i * n + j], back = matrix->values[(size_t)j * n + i];
            uint64_t bandwidth = there < back ? there : back;
            char a[GT_BDF_SIZE], b[GT_BDF_SIZE];
            if (there != back || bandwidth > BANDWIDTH_MAX)
                odd++;
            if (!bandwidth || bandwidth > BANDWIDTH_MAX || !discovery_hwloc_device_of(matrix->objs[i], a) ||
                !discovery_hwloc_device_of(matrix->objs[j], b) || strcmp(a, b) == 0)
                continue;
            GT_TRY(gt_facts_add_direct(facts, a, b, bandwidth, err));
        }
    if (odd)
        gt_facts_missing(facts, "link matrix",
                         "%s: %u pairs differ by direction (the lower value counts) or are out of range",
                         name, odd);
    return 0;
}

/* Direct links of other makers, where hwloc carries them. Switches are made one, then passed through. */
static int apply_matrix(hwloc_topology_t topology, const char *name, struct gt_facts *facts,
                        struct gt_err **err)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;
    if (hwloc_distances_get_by_name(topology, name, &count, &matrix, 0) < 0 || !count || !matrix)
        return 0;
    if (hwloc_distances_transform(topology, matrix, HWLOC_DISTANCES_TRANSFORM_MERGE_SWITCH_PORTS, NULL, 0) ==
        0)
        hwloc_distances_transform(topology, matrix, HWLOC_DISTANCES_TRANSFORM_TRANSITIVE_CLOSURE, NULL, 0);
    int r = apply_pairs(matrix, name, facts, err);
    hwloc_distances_release(topology, matrix);
    return r;
}

static int apply(hwloc_topology_t topology, struct gt_facts *facts, struct gt_err **err)
{
    GT_TRY(apply_devices(topology, facts, err));
    GT_TRY(apply_matrix(topology, "NVLinkBandwidth", facts, err));
    return apply_matrix(topology, "XGMIBandwidth", facts, err);
}

/* Recordings are shown to others: they must not have serial numbers and similar data of the host. */
static void blank_private(hwloc_topology_t topology)
{
    hwloc_obj_t machine = hwloc_get_root_obj(topology);
    for (unsigned i = 0; i < machine->infos_count; i++) {
        const char *name = machine->infos[i].name;
        if (strstr(name, "Serial") || strstr(name, "UUID") || strstr(name, "AssetTag") ||
            strcmp(name, "HostName") == 0 || strcmp(name, "ProcessName") == 0)
            machine->infos[i].value[0] = '\0';
    }
}

static int export(hwloc_topology_t topology, char **ret, struct gt_err **err)
{
    blank_private(topology);
    char *buffer = NULL;
    int len = 0;
    if (hwloc_topology_export_xmlbuffer(topology, &buffer, &len, 0) < 0)
        return gt_fail_sys(err, errno, "hwloc XML");
    char *copy = strndup(buffer, len > 0 ? (size_t)len : 0);
    hwloc_free_xmlbuffer(topology, buffer);
    GT_NEED(copy, err, "hwloc XML");
    *ret = copy;
    return 0;
}

/* Under the lock. The environment is written only where it has to change, since other threads may read it. */
static void set_root(const char *root)
{
    const char *now = getenv("HWLOC_FSROOT");
    bool elsewhere = strcmp(root, "/") != 0;
    if (elsewhere && (!now || strcmp(now, root) != 0))
        setenv("HWLOC_FSROOT", root, 1);
    else if (!elsewhere && now)
        unsetenv("HWLOC_FSROOT");
}

void gt_hwloc_prepare(const char *root)
{
    pthread_once(&settled, discovery_hwloc_settle);
    pthread_mutex_lock(&environment);
    set_root(root);
    pthread_mutex_unlock(&environment);
}

/* One load at a time, so that none sees the root of another. */
static int discovery_hwloc_load(hwloc_topology_t topology, const char *root)
{
    pthread_mutex_lock(&environment);
    set_root(root);
    errno = 0;
    int r = hwloc_topology_load(topology);
    int errnum = errno;
    pthread_mutex_unlock(&environment);
    errno = errnum;
    return r;
}

int gt_hwloc_scan(const char *root, struct gt_facts *facts, char **ret_xml, struct gt_err **err)
{
    auto_topology hwloc_topology_t topology = NULL;
    GT_TRY(topology_new(&topology, err));
    if (discovery_hwloc_load(topology, root) < 0)
        return gt_fail_sys(err, errno, "no CPUs or memory found below %s", root);
    GT_TRY(apply(topology, facts, err));
    return export(topology, ret_xml, err);
}

int gt_hwloc_read(const char *text, size_t len, const char *source, struct gt_facts *facts,
                  struct gt_err **err)
{
    GT_TRY(gt_xml_check(text, len, source, err));
    auto_topology hwloc_topology_t topology = NULL;
    GT_TRY(topology_new(&topology, err));
    if (len >= INT32_MAX || hwloc_topology_set_xmlbuffer(topology, text, (int)len + 1) < 0 ||
        hwloc_topology_load(topology) < 0)
        return gt_fail(err, EINVAL, "%s: not an XML file that hwloc 2 has written", source);
    return apply(topology, facts, err);
}
