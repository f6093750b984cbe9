/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/xml_check.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "topology/discovery/backends.h"

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
        char name[GT_XML_NAME_SIZE];
        enum gt_xml_kind kind;
    } open[XML_DEPTH_MAX];
    struct gt_xml_attributes attributes; /* of the element at hand */
};

static int xml_check_fail(const struct xml_scanner *s, const char *why, struct gt_err **err)
{
    unsigned line = 1;
    for (const char *p = s->start; p < s->at; p++)
        line += *p == '\n';
    return gt_fail(err, EINVAL, "%s: line %u: %s", s->source, line, why);
}

static bool xml_check_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_blanks(struct xml_scanner *s)
{
    s->at += strspn(s->at, " \t\r\n");
}

static bool take_name(struct xml_scanner *s, char to[static GT_XML_NAME_SIZE])
{
    size_t len = 0;
    while (xml_check_is_name(s->at[len]))
        len++;
    if (!len || len >= GT_XML_NAME_SIZE)
        return false;
    memcpy(to, s->at, len);
    to[len] = '\0';
    s->at += len;
    return true;
}

/* Within a tag, behind its name: the attributes and the end. *ret_closed for "/>". */
static int take_attributes(struct xml_scanner *s, bool *ret_closed, struct gt_err **err)
{
    s->attributes.count = 0;
    for (;;) {
        skip_blanks(s);
        *ret_closed = s->at[0] == '/' && s->at[1] == '>';
        if (*ret_closed || *s->at == '>') {
            s->at += *ret_closed ? 2 : 1;
            return 0;
        }
        if (s->attributes.count >= GT_XML_ATTRIBUTES_MAX)
            return xml_check_fail(s, "too many attributes", err);
        struct gt_xml_attribute *attribute = &s->attributes.list[s->attributes.count];
        if (!take_name(s, attribute->name) || s->at[0] != '=' || s->at[1] != '"')
            return xml_check_fail(s, "attribute without name and quoted value", err);
        if (gt_xml_find(&s->attributes, attribute->name))
            return xml_check_fail(s, "the same attribute twice", err);
        attribute->value = s->at + 2;
        attribute->len = strcspn(attribute->value, "\"<");
        if (attribute->value[attribute->len] != '"')
            return xml_check_fail(s, "value without its closing quote", err);
        s->attributes.count++;
        s->at = attribute->value + attribute->len + 1;
    }
}

/* What an element that is no object must have. */
static const char *check_other(const struct xml_scanner *s, const char *name)
{
    if (strncmp(name, "distances2", strlen("distances2")) == 0 &&
        !gt_xml_is_number(gt_xml_find(&s->attributes, "nbobjs"), MATRIX_MAX))
        return "matrix without a sound number of rows";
    if (strcmp(name, "info") == 0 &&
        (!gt_xml_find(&s->attributes, "name") || !gt_xml_find(&s->attributes, "value")))
        return "info without name and value";
    return NULL;
}

static const char *check_element(struct xml_scanner *s, const char *name, enum gt_xml_kind *ret)
{
    *ret = GT_XML_OTHER;
    if (s->depth == 0) {
        const struct gt_xml_attribute *version = gt_xml_find(&s->attributes, "version");
        if (s->elements > 1 || strcmp(name, "topology") != 0)
            return "hwloc's XML has one topology element and nothing beside it";
        if (!version || version->len < 3 || strncmp(version->value, "2.", 2) != 0)
            return "only XML that hwloc 2 has written is read";
        *ret = GT_XML_TOPOLOGY;
        return NULL;
    }
    enum gt_xml_kind parent = s->open[s->depth - 1].kind;
    if (strcmp(name, "object") != 0)
        return check_other(s, name);
    if (parent == GT_XML_TOPOLOGY && ++s->machines > 1)
        return "more than one machine";
    return gt_xml_check_object(&s->attributes, parent, ret);
}

static int take_opening(struct xml_scanner *s, struct gt_err **err)
{
    char name[GT_XML_NAME_SIZE];
    if (!take_name(s, name))
        return xml_check_fail(s, "tag without a name", err);
    if (++s->elements > ELEMENTS_MAX)
        return xml_check_fail(s, "too many elements", err);
    bool closed = false;
    int r = take_attributes(s, &closed, err);
    if (r < 0)
        return r;
    enum gt_xml_kind kind;
    const char *wrong = check_element(s, name, &kind);
    if (wrong)
        return xml_check_fail(s, wrong, err);
    if (!closed) {
        if (s->depth >= XML_DEPTH_MAX)
            return xml_check_fail(s, "elements nested too deep", err);
        memcpy(s->open[s->depth].name, name, sizeof(name));
        s->open[s->depth++].kind = kind;
    }
    return 0;
}

static int take_closing(struct xml_scanner *s, struct gt_err **err)
{
    char name[GT_XML_NAME_SIZE];
    if (!take_name(s, name) || *s->at != '>')
        return xml_check_fail(s, "broken closing tag", err);
    if (!s->depth || strcmp(s->open[s->depth - 1].name, name) != 0)
        return xml_check_fail(s, "closing tag that matches no open one", err);
    s->depth--;
    s->at++;
    return 0;
}

/* <?xml ...?> and <!DOCTYPE ...>, as hwloc writes them: in front, without an inner part. */
static int take_prologue(struct xml_scanner *s, struct gt_err **err)
{
    for (;;) {
        skip_blanks(s);
        if (s->at[0] != '<' || (s->at[1] != '?' && s->at[1] != '!'))
            return 0;
        size_t len = 1 + strcspn(s->at + 1, "<>[");
        if (s->at[len] != '>')
            return xml_check_fail(s, "broken prologue", err);
        s->at += len + 1;
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
