/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/xml_check.h"

#include <string.h>

enum {
    INDEX_MAX = 65535,   /* number of a CPU or NUMA node: hwloc makes a bitmap of that many bits */
    SET_LEN_MAX = 32768, /* characters of a CPU set */
};

const struct gt_xml_attribute *gt_xml_find(const struct gt_xml_attributes *attributes, const char *name)
{
    for (unsigned i = 0; i < attributes->count; i++)
        if (strcmp(attributes->list[i].name, name) == 0)
            return &attributes->list[i];
    return NULL;
}

bool gt_xml_is_number(const struct gt_xml_attribute *attribute, unsigned long max)
{
    unsigned long number = 0;
    if (!attribute || attribute->len < 1 || attribute->len > 12)
        return false;
    for (size_t i = 0; i < attribute->len; i++) {
        if (attribute->value[i] < '0' || attribute->value[i] > '9')
            return false;
        number = 10 * number + (unsigned long)(attribute->value[i] - '0');
    }
    return number <= max;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* A value against a pattern: 'x' stands for one hexadecimal digit, all else for itself. */
static bool xml_object_matches(const struct gt_xml_attribute *attribute, const char *pattern)
{
    if (!attribute || attribute->len != strlen(pattern))
        return false;
    for (size_t i = 0; i < attribute->len; i++)
        if (pattern[i] == 'x' ? !is_hex(attribute->value[i]) : attribute->value[i] != pattern[i])
            return false;
    return true;
}

/* "0x00000003", "0x00000055,0x55555555", "0x3,,0x1": words of 32 bits, an empty one is zero. */
static bool is_set(const struct gt_xml_attribute *attribute)
{
    if (!attribute || !attribute->len || attribute->len > SET_LEN_MAX)
        return false;
    const char *p = attribute->value, *end = p + attribute->len;
    for (bool first = true;; first = false) {
        size_t digits = 0;
        if (end - p >= 3 && p[0] == '0' && p[1] == 'x') {
            p += 2;
            while (p < end && is_hex(*p)) {
                p++;
                digits++;
            }
            if (digits < 1 || digits > 8)
                return false;
        } else if (first) {
            return false;
        }
        if (p == end)
            return true;
        if (*p++ != ',')
            return false;
    }
}

static bool is_bdf(const struct gt_xml_attribute *attribute)
{
    return xml_object_matches(attribute, "xxxx:xx:xx.x");
}

static bool is_pci_type(const struct gt_xml_attribute *attribute)
{
    return xml_object_matches(attribute, "xxxx [xxxx:xxxx] [xxxx:xxxx] xx");
}

static const char *check_bridge(const struct gt_xml_attributes *attributes)
{
    const struct gt_xml_attribute *type = gt_xml_find(attributes, "bridge_type");
    bool below_host = xml_object_matches(type, "0-1"), below_pci = xml_object_matches(type, "1-1");
    if (!below_host && !below_pci)
        return "bridge_type must be 0-1 or 1-1";
    if (!xml_object_matches(gt_xml_find(attributes, "bridge_pci"), "xxxx:[xx-xx]"))
        return "bridge_pci must be a range of buses";
    if (below_pci &&
        (!is_bdf(gt_xml_find(attributes, "pci_busid")) || !is_pci_type(gt_xml_find(attributes, "pci_type"))))
        return "bridge without PCI address and type";
    return NULL;
}

/* The types that hwloc 2 writes. */
static bool xml_object_kind_of(const struct gt_xml_attribute *type, enum gt_xml_kind *ret)
{
    static const struct {
        const char *name;
        enum gt_xml_kind kind;
    } types[] = {
        {"Machine", GT_XML_NORMAL},  {"Package", GT_XML_NORMAL},  {"Die", GT_XML_NORMAL},
        {"Core", GT_XML_NORMAL},     {"Group", GT_XML_NORMAL},    {"L1Cache", GT_XML_NORMAL},
        {"L2Cache", GT_XML_NORMAL},  {"L3Cache", GT_XML_NORMAL},  {"L4Cache", GT_XML_NORMAL},
        {"L5Cache", GT_XML_NORMAL},  {"L1iCache", GT_XML_NORMAL}, {"L2iCache", GT_XML_NORMAL},
        {"L3iCache", GT_XML_NORMAL}, {"PU", GT_XML_PU},           {"NUMANode", GT_XML_MEMORY},
        {"MemCache", GT_XML_MEMORY}, {"Bridge", GT_XML_BRIDGE},   {"PCIDev", GT_XML_PCI_DEVICE},
        {"OSDev", GT_XML_OS_DEVICE}, {"Misc", GT_XML_MISC},
    };
    for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
        if (type->len == strlen(types[i].name) && memcmp(type->value, types[i].name, type->len) == 0) {
            *ret = types[i].kind;
            return true;
        }
    return false;
}

static bool may_stand_in(enum gt_xml_kind kind, enum gt_xml_kind parent)
{
    switch (kind) {
    case GT_XML_NORMAL:
        return parent == GT_XML_NORMAL || parent == GT_XML_TOPOLOGY;
    case GT_XML_PU:
        return parent == GT_XML_NORMAL;
    case GT_XML_MEMORY:
        return parent == GT_XML_NORMAL || parent == GT_XML_PU || parent == GT_XML_MEMORY;
    case GT_XML_BRIDGE:
    case GT_XML_PCI_DEVICE:
        return parent == GT_XML_NORMAL || parent == GT_XML_PU || parent == GT_XML_BRIDGE;
    case GT_XML_OS_DEVICE:
        return parent == GT_XML_NORMAL || parent == GT_XML_PU || parent == GT_XML_MEMORY ||
               parent == GT_XML_BRIDGE || parent == GT_XML_PCI_DEVICE;
    case GT_XML_MISC:
        return parent != GT_XML_TOPOLOGY && parent != GT_XML_OTHER;
    case GT_XML_TOPOLOGY:
    case GT_XML_OTHER:
        break;
    }
    return false;
}

static const char *check_place_among_cpus(const struct gt_xml_attributes *attributes, enum gt_xml_kind kind)
{
    static const char *const sets[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (!is_set(gt_xml_find(attributes, sets[i])))
            return "object without its CPU and node sets";
    const struct gt_xml_attribute *type = gt_xml_find(attributes, "type");
    bool numbered = kind == GT_XML_PU ||
                    (type->len == strlen("NUMANode") && kind == GT_XML_MEMORY && type->value[0] == 'N');
    if (numbered && !gt_xml_is_number(gt_xml_find(attributes, "os_index"), INDEX_MAX))
        return "CPU or NUMA node without a number";
    return NULL;
}

const char *gt_xml_check_object(const struct gt_xml_attributes *attributes, enum gt_xml_kind parent,
                                enum gt_xml_kind *ret)
{
    const struct gt_xml_attribute *type = gt_xml_find(attributes, "type");
    if (!xml_object_kind_of(type, ret))
        return "object of an unknown type";
    if (parent == GT_XML_TOPOLOGY &&
        !(type->len == strlen("Machine") && type->value[0] == 'M' && *ret == GT_XML_NORMAL))
        return "the outermost object must be the machine";
    if (!may_stand_in(*ret, parent))
        return "object in a place where it cannot be";
    static const char *const optional_sets[] = {"allowed_cpuset", "allowed_nodeset"};
    for (size_t i = 0; i < sizeof(optional_sets) / sizeof(optional_sets[0]); i++) {
        const struct gt_xml_attribute *set = gt_xml_find(attributes, optional_sets[i]);
        if (set && !is_set(set))
            return "broken CPU or node set";
    }
    switch (*ret) {
    case GT_XML_NORMAL:
    case GT_XML_PU:
    case GT_XML_MEMORY:
        return check_place_among_cpus(attributes, *ret);
    case GT_XML_BRIDGE:
        return check_bridge(attributes);
    case GT_XML_PCI_DEVICE:
        if (!is_bdf(gt_xml_find(attributes, "pci_busid")) ||
            !is_pci_type(gt_xml_find(attributes, "pci_type")))
            return "PCI device without address and type";
        return NULL;
    case GT_XML_OS_DEVICE:
        return gt_xml_is_number(gt_xml_find(attributes, "osdev_type"), 5) ? NULL
                                                                          : "OS device of an unknown type";
    case GT_XML_MISC:
    case GT_XML_TOPOLOGY:
    case GT_XML_OTHER:
        break;
    }
    return NULL;
}
