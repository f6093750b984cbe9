/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "topology/discovery/backends.h"

enum { XML_ATTRIBUTES_MAX = 64, XML_NAME_SIZE = 32 };

struct xml_attribute {
    char name[XML_NAME_SIZE];
    const char *value; /* not NUL-terminated */
    size_t len;
};

struct xml_attributes {
    struct xml_attribute list[XML_ATTRIBUTES_MAX];
    unsigned count;
};

/* Where an element may stand. */
enum xml_kind {
    XML_TOPOLOGY, /* the outermost */
    XML_NORMAL,   /* objects: machine, packages, caches, cores */
    XML_PU,
    XML_MEMORY,
    XML_BRIDGE,
    XML_PCI_DEVICE,
    XML_OS_DEVICE,
    XML_MISC,
    XML_OTHER, /* an element that is not an object */
};

enum {
    INDEX_MAX = 65535,   /* number of a CPU or NUMA node: hwloc makes a bitmap of that many bits */
    SET_LEN_MAX = 32768, /* characters of a CPU set */
};

static const struct xml_attribute *xml_find(const struct xml_attributes *attributes, const char *name)
{
    return GT_FIND(attributes->list, attributes->count, name, name);
}

/* Whether the value is a decimal number of at most `max`. */
static bool xml_is_number(const struct xml_attribute *attribute, unsigned long max)
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
static bool xml_object_matches(const struct xml_attribute *attribute, const char *pattern)
{
    if (!attribute || attribute->len != strlen(pattern))
        return false;
    for (size_t i = 0; i < attribute->len; i++)
        if (pattern[i] == 'x' ? !is_hex(attribute->value[i]) : attribute->value[i] != pattern[i])
            return false;
    return true;
}

/* "0x00000003", "0x00000055,0x55555555", "0x3,,0x1": words of 32 bits, an empty one is zero. */
static bool is_set(const struct xml_attribute *attribute)
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

static bool is_bdf(const struct xml_attribute *attribute)
{
    return xml_object_matches(attribute, "xxxx:xx:xx.x");
}

static bool is_pci_type(const struct xml_attribute *attribute)
{
    return xml_object_matches(attribute, "xxxx [xxxx:xxxx] [xxxx:xxxx] xx");
}

static const char *check_bridge(const struct xml_attributes *attributes)
{
    const struct xml_attribute *type = xml_find(attributes, "bridge_type");
    bool below_host = xml_object_matches(type, "0-1"), below_pci = xml_object_matches(type, "1-1");
    if (!below_host && !below_pci)
        return "bridge_type must be 0-1 or 1-1";
    if (!xml_object_matches(xml_find(attributes, "bridge_pci"), "xxxx:[xx-xx]"))
        return "bridge_pci must be a range of buses";
    if (below_pci &&
        (!is_bdf(xml_find(attributes, "pci_busid")) || !is_pci_type(xml_find(attributes, "pci_type"))))
        return "bridge without PCI address and type";
    return NULL;
}

/* The types that hwloc 2 writes. */
static bool xml_object_kind_of(const struct xml_attribute *type, enum xml_kind *ret)
{
    static const struct {
        const char *name;
        enum xml_kind kind;
    } types[] = {
        {"Machine", XML_NORMAL},  {"Package", XML_NORMAL},  {"Die", XML_NORMAL},
        {"Core", XML_NORMAL},     {"Group", XML_NORMAL},    {"L1Cache", XML_NORMAL},
        {"L2Cache", XML_NORMAL},  {"L3Cache", XML_NORMAL},  {"L4Cache", XML_NORMAL},
        {"L5Cache", XML_NORMAL},  {"L1iCache", XML_NORMAL}, {"L2iCache", XML_NORMAL},
        {"L3iCache", XML_NORMAL}, {"PU", XML_PU},           {"NUMANode", XML_MEMORY},
        {"MemCache", XML_MEMORY}, {"Bridge", XML_BRIDGE},   {"PCIDev", XML_PCI_DEVICE},
        {"OSDev", XML_OS_DEVICE}, {"Misc", XML_MISC},
    };
    for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
        if (type->len == strlen(types[i].name) && memcmp(type->value, types[i].name, type->len) == 0) {
            *ret = types[i].kind;
            return true;
        }
    return false;
}

static bool may_stand_in(enum xml_kind kind, enum xml_kind parent)
{
    switch (kind) {
    case XML_NORMAL:
        return parent == XML_NORMAL || parent == XML_TOPOLOGY;
    case XML_PU:
        return parent == XML_NORMAL;
    case XML_MEMORY:
        return parent == XML_NORMAL || parent == XML_PU || parent == XML_MEMORY;
    case XML_BRIDGE:
    case XML_PCI_DEVICE:
        return parent == XML_NORMAL || parent == XML_PU || parent == XML_BRIDGE;
    case XML_OS_DEVICE:
        return parent == XML_NORMAL || parent == XML_PU || parent == XML_MEMORY || parent == XML_BRIDGE ||
               parent == XML_PCI_DEVICE;
    case XML_MISC:
        return parent != XML_TOPOLOGY && parent != XML_OTHER;
    case XML_TOPOLOGY:
    case XML_OTHER:
        break;
    }
    return false;
}

static const char *check_place_among_cpus(const struct xml_attributes *attributes, enum xml_kind kind)
{
    static const char *const sets[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (!is_set(xml_find(attributes, sets[i])))
            return "object without its CPU and node sets";
    const struct xml_attribute *type = xml_find(attributes, "type");
    bool numbered =
        kind == XML_PU || (type->len == strlen("NUMANode") && kind == XML_MEMORY && type->value[0] == 'N');
    if (numbered && !xml_is_number(xml_find(attributes, "os_index"), INDEX_MAX))
        return "CPU or NUMA node without a number";
    return NULL;
}

/* Checks the attributes of an object within an element of kind `parent`. Returns NULL and sets *ret to its
 * kind, or returns what is wrong. */
static const char *xml_check_object(const struct xml_attributes *attributes, enum xml_kind parent,
                                    enum xml_kind *ret)
{
    const struct xml_attribute *type = xml_find(attributes, "type");
    if (!xml_object_kind_of(type, ret))
        return "object of an unknown type";
    if (parent == XML_TOPOLOGY &&
        !(type->len == strlen("Machine") && type->value[0] == 'M' && *ret == XML_NORMAL))
        return "the outermost object must be the machine";
    if (!may_stand_in(*ret, parent))
        return "object in a place where it cannot be";
    static const char *const optional_sets[] = {"allowed_cpuset", "allowed_nodeset"};
    for (size_t i = 0; i < sizeof(optional_sets) / sizeof(optional_sets[0]); i++) {
        const struct xml_attribute *set = xml_find(attributes, optional_sets[i]);
        if (set && !is_set(set))
            return "broken CPU or node set";
    }
    switch (*ret) {
    case XML_NORMAL:
    case XML_PU:
    case XML_MEMORY:
        return check_place_among_cpus(attributes, *ret);
    case XML_BRIDGE:
        return check_bridge(attributes);
    case XML_PCI_DEVICE:
        if (!is_bdf(xml_find(attributes, "pci_busid")) || !is_pci_type(xml_find(attributes, "pci_type")))
            return "PCI device without address and type";
        return NULL;
    case XML_OS_DEVICE:
        return xml_is_number(xml_find(attributes, "osdev_type"), 5) ? NULL : "OS device of an unknown type";
    case XML_MISC:
    case XML_TOPOLOGY:
    case XML_OTHER:
        break;
    }
    return NULL;
}

/*
 * hwloc reads XML recursively, without limits, and expects XML that hwloc has written: an object without one
 * of its sets makes version 2.9 read from a null pointer, a CPU number of four billion makes it allocate half
 * a gigabyte, and a broken set ends the process in an assertion. This check of the text refuses all of that.
 * It knows the little XML that hwloc writes (tags, quoted attributes, lists of numbers) and what an object
 * must have.
 */
enum {
    XML_DEPTH_MAX = 64,    /* elements within each other */
    ELEMENTS_MAX = 200000, /* in the file */
    MATRIX_MAX = 1024,     /* rows of a matrix */
};

struct xml_scanner {
    const char *at, *start, *source;
    unsigned depth, elements, machines;
    struct {
        char name[XML_NAME_SIZE];
        enum xml_kind kind;
    } open[XML_DEPTH_MAX];
    struct xml_attributes attributes; /* of the element at hand */
};

static int xml_check_fail(const struct xml_scanner *scanner, const char *why, struct gt_err **err)
{
    unsigned line = 1;
    for (const char *p = scanner->start; p < scanner->at; p++)
        line += *p == '\n';
    return gt_fail(err, EINVAL, "%s: line %u: %s", scanner->source, line, why);
}

static bool xml_check_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_blanks(struct xml_scanner *scanner)
{
    scanner->at += strspn(scanner->at, " \t\r\n");
}

static bool take_name(struct xml_scanner *scanner, char to[static XML_NAME_SIZE])
{
    size_t len = 0;
    while (xml_check_is_name(scanner->at[len]))
        len++;
    if (!len || len >= XML_NAME_SIZE)
        return false;
    memcpy(to, scanner->at, len);
    to[len] = '\0';
    scanner->at += len;
    return true;
}

/* Within a tag, behind its name: the attributes and the end. *ret_closed for "/>". */
static int take_attributes(struct xml_scanner *scanner, bool *ret_closed, struct gt_err **err)
{
    scanner->attributes.count = 0;
    for (;;) {
        skip_blanks(scanner);
        *ret_closed = scanner->at[0] == '/' && scanner->at[1] == '>';
        if (*ret_closed || *scanner->at == '>') {
            scanner->at += *ret_closed ? 2 : 1;
            return 0;
        }
        if (scanner->attributes.count >= XML_ATTRIBUTES_MAX)
            return xml_check_fail(scanner, "too many attributes", err);
        struct xml_attribute *attribute = &scanner->attributes.list[scanner->attributes.count];
        if (!take_name(scanner, attribute->name) || scanner->at[0] != '=' || scanner->at[1] != '"')
            return xml_check_fail(scanner, "attribute without name and quoted value", err);
        if (xml_find(&scanner->attributes, attribute->name))
            return xml_check_fail(scanner, "the same attribute twice", err);
        attribute->value = scanner->at + 2;
        attribute->len = strcspn(attribute->value, "\"<");
        if (attribute->value[attribute->len] != '"')
            return xml_check_fail(scanner, "value without its closing quote", err);
        scanner->attributes.count++;
        scanner->at = attribute->value + attribute->len + 1;
    }
}

/* What an element that is no object must have. */
static const char *check_other(const struct xml_scanner *scanner, const char *name)
{
    if (strncmp(name, "distances2", strlen("distances2")) == 0 &&
        !xml_is_number(xml_find(&scanner->attributes, "nbobjs"), MATRIX_MAX))
        return "matrix without a sound number of rows";
    if (strcmp(name, "info") == 0 &&
        (!xml_find(&scanner->attributes, "name") || !xml_find(&scanner->attributes, "value")))
        return "info without name and value";
    return NULL;
}

static const char *check_element(struct xml_scanner *scanner, const char *name, enum xml_kind *ret)
{
    *ret = XML_OTHER;
    if (scanner->depth == 0) {
        const struct xml_attribute *version = xml_find(&scanner->attributes, "version");
        if (scanner->elements > 1 || strcmp(name, "topology") != 0)
            return "hwloc's XML has one topology element and nothing beside it";
        if (!version || version->len < 3 || strncmp(version->value, "2.", 2) != 0)
            return "only XML that hwloc 2 has written is read";
        *ret = XML_TOPOLOGY;
        return NULL;
    }
    enum xml_kind parent = scanner->open[scanner->depth - 1].kind;
    if (strcmp(name, "object") != 0)
        return check_other(scanner, name);
    if (parent == XML_TOPOLOGY && ++scanner->machines > 1)
        return "more than one machine";
    return xml_check_object(&scanner->attributes, parent, ret);
}

static int take_opening(struct xml_scanner *scanner, struct gt_err **err)
{
    char name[XML_NAME_SIZE];
    if (!take_name(scanner, name))
        return xml_check_fail(scanner, "tag without a name", err);
    if (++scanner->elements > ELEMENTS_MAX)
        return xml_check_fail(scanner, "too many elements", err);
    bool closed = false;
    GT_TRY(take_attributes(scanner, &closed, err));
    enum xml_kind kind;
    const char *wrong = check_element(scanner, name, &kind);
    if (wrong)
        return xml_check_fail(scanner, wrong, err);
    if (!closed) {
        if (scanner->depth >= XML_DEPTH_MAX)
            return xml_check_fail(scanner, "elements nested too deep", err);
        memcpy(scanner->open[scanner->depth].name, name, sizeof(name));
        scanner->open[scanner->depth++].kind = kind;
    }
    return 0;
}

static int take_closing(struct xml_scanner *scanner, struct gt_err **err)
{
    char name[XML_NAME_SIZE];
    if (!take_name(scanner, name) || *scanner->at != '>')
        return xml_check_fail(scanner, "broken closing tag", err);
    if (!scanner->depth || strcmp(scanner->open[scanner->depth - 1].name, name) != 0)
        return xml_check_fail(scanner, "closing tag that matches no open one", err);
    scanner->depth--;
    scanner->at++;
    return 0;
}

/* <?xml ...?> and <!DOCTYPE ...>, as hwloc writes them: in front, without an inner part. */
static int take_prologue(struct xml_scanner *scanner, struct gt_err **err)
{
    for (;;) {
        skip_blanks(scanner);
        if (scanner->at[0] != '<' || (scanner->at[1] != '?' && scanner->at[1] != '!'))
            return 0;
        size_t len = 1 + strcspn(scanner->at + 1, "<>[");
        if (scanner->at[len] != '>')
            return xml_check_fail(scanner, "broken prologue", err);
        scanner->at += len + 1;
    }
}

int gt_xml_check(const char *text, size_t len, const char *source, struct gt_err **err)
{
    struct xml_scanner s = {.at = text, .start = text, .source = source};
    if (memchr(text, '\0', len))
        return gt_fail(err, EINVAL, "%s: not an XML file: it holds a NUL byte", source);
    int r = take_prologue(&s, err);
    while (r >= 0) {
        s.at += strcspn(s.at, "<");
        if (!*s.at)
            break;
        s.at++;
        if (*s.at == '/') {
            s.at++;
            r = take_closing(&s, err);
        } else {
            r = take_opening(&s, err);
        }
    }
    if (r < 0)
        return r;
    if (s.depth)
        return xml_check_fail(&s, "the file ends within an element: truncated", err);
    if (!s.machines)
        return xml_check_fail(&s, "no machine in it", err);
    return 0;
}
