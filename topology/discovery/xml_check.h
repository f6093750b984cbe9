/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What xml_check.c and xml_object.c share; private to topology/discovery. */

enum { GT_XML_ATTRIBUTES_MAX = 64, GT_XML_NAME_SIZE = 32 };

struct gt_xml_attribute {
    char name[GT_XML_NAME_SIZE];
    const char *value; /* not NUL-terminated */
    size_t len;
};

struct gt_xml_attributes {
    struct gt_xml_attribute list[GT_XML_ATTRIBUTES_MAX];
    unsigned count;
};

/* Where an element may stand. */
enum gt_xml_kind {
    GT_XML_TOPOLOGY, /* the outermost */
    GT_XML_NORMAL,   /* objects: machine, packages, caches, cores */
    GT_XML_PU,
    GT_XML_MEMORY,
    GT_XML_BRIDGE,
    GT_XML_PCI_DEVICE,
    GT_XML_OS_DEVICE,
    GT_XML_MISC,
    GT_XML_OTHER, /* an element that is not an object */
};

/* Checks the attributes of an object within an element of kind `parent`. Returns NULL and sets *ret to its
 * kind, or returns what is wrong. */
const char *gt_xml_check_object(const struct gt_xml_attributes *attributes, enum gt_xml_kind parent,
                                enum gt_xml_kind *ret);

/* Whether the value is a decimal number of at most `max`. */
bool gt_xml_is_number(const struct gt_xml_attribute *attribute, unsigned long max);

const struct gt_xml_attribute *gt_xml_find(const struct gt_xml_attributes *attributes, const char *name);
