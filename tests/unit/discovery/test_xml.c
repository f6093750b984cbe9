/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "topology/discovery/backends.h"

/* The check of XML before hwloc reads it, and hwloc's result for valid XML. */

#define SETS                                                                                                 \
    " cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" complete_nodeset=\"0x1\" "                      \
    "allowed_cpuset=\"0x3\" allowed_nodeset=\"0x1\""
#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
#define OPEN                                                                                                 \
    HEAD "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"" SETS " gp_index=\"1\">\n"     \
         "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" "  \
         "complete_nodeset=\"0x1\" gp_index=\"2\" local_memory=\"1024\"/>\n"                                 \
         "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "        \
         "complete_nodeset=\"0x1\" gp_index=\"3\"/>\n"                                                       \
         "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x1\" "        \
         "complete_nodeset=\"0x1\" gp_index=\"4\"/>\n"                                                       \
         "<object type=\"Bridge\" gp_index=\"5\" bridge_type=\"0-1\" depth=\"0\" "                           \
         "bridge_pci=\"0000:[00-0f]\">\n"
#define GPU(n, bus)                                                                                          \
    "<object type=\"PCIDev\" gp_index=\"" n "\" pci_busid=\"0000:" bus ":00.0\" "                            \
    "pci_type=\"0302 [9999:0a01] [0000:0000] 00\" pci_link_speed=\"0.000000\">"                              \
    "<object type=\"OSDev\" gp_index=\"1" n "\" name=\"gpu" n "\" osdev_type=\"1\">"                         \
    "<info name=\"GPUModel\" value=\"Model " n "\"/></object></object>\n"
#define CLOSE "</object>\n</object>\n"
#define END   "</topology>\n"

/* hwloc 2.9 loses a few kilobytes when it refuses a file in the middle. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhwloc";
}

static int check(const char *text, struct gt_err **err)
{
    return gt_xml_check(text, strlen(text), "test.xml", err);
}

static void refused(const char *text, const char *part)
{
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(check(text, &err), -EINVAL);
    if (!strstr(gt_err_text(err), part))
        fail_msg("\"%s\" does not say \"%s\"", gt_err_text(err), part);
}

static void sound_xml_passes(void **state)
{
    (void)state;
    assert_int_equal(check(OPEN GPU("6", "01") CLOSE END, NULL), 0);
    assert_int_equal(check(OPEN CLOSE END, NULL), 0);
}

static void broken_xml_is_refused(void **state)
{
    (void)state;
    refused("", "no machine");
    refused("<topology version=\"2.0\"/>", "no machine");
    refused("<", "tag without a name");
    refused("<?xml", "broken prologue");
    refused("<!DOCTYPE topology [<!ENTITY a \"b\">]><topology version=\"2.0\"/>", "broken prologue");
    refused("<html></html>", "line 1: hwloc's XML has one topology element");
    refused("<topology version=\"2.0\"/><topology version=\"2.0\"/>", "one topology element");
    refused("<topology>", "only XML that hwloc 2 has written");
    refused("<topology version=\"3.0\"></topology>", "only XML that hwloc 2 has written");
    refused(OPEN, "truncated");
    refused(OPEN CLOSE "</object>" END, "matches no open one");
    refused(OPEN CLOSE "</", "broken closing tag");
    refused(OPEN "<object type=\"PCIDev\"", "attribute without name");
    refused(OPEN "<object type=\"PCIDev", "without its closing quote");
    refused(OPEN "<object type=PCIDev/>", "attribute without name");
    refused(OPEN "<object type='PCIDev'/>", "attribute without name");
    refused(OPEN CLOSE "<distances2 nbobjs=\"100000\"/>" END, "number of rows");
    refused(OPEN CLOSE "<distances2hetero nbobjs=\"-1\"/>" END, "number of rows");
    refused(OPEN "<info name=\"a\"/>" CLOSE END, "info without");
    refused(OPEN "<info name=\"a\" name=\"b\"/>" CLOSE END, "the same attribute twice");
    gt_auto_err struct gt_err *err = NULL;
    assert_int_equal(gt_xml_check("<topology\0/>", 12, "test.xml", &err), -EINVAL);
    assert_non_null(strstr(gt_err_text(err), "NUL byte"));
}

/* Within the machine (line 5 of the text) rather than its bridge, where CPUs may be. */
static void object_refused(const char *object, const char *part)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_printf(&text,
                  "%s<topology version=\"2.0\">\n<object type=\"Machine\"" SETS ">\n%s</object></topology>",
                  HEAD, object);
    refused(text.data, part);
}

static void broken_objects_are_refused(void **state)
{
    (void)state;
    static const char *const no_sets = "line 5: object without its CPU and node sets";
    object_refused("<object/>", "unknown type");
    object_refused("<object type=\"Bogus\"" SETS "/>", "unknown type");
    object_refused("<object type=\"Group\"/>", no_sets);
    object_refused("<object type=\"Core\" cpuset=\"0x1\" nodeset=\"0x1\"/>", no_sets);
    static const char *const sets[] = {"",       "3",       "0x", "0x123456789", "0x3,z",
                                       "0x3,0x", "0xf...f", "-1", "0&3"};
    for (size_t i = 0; i < GT_COUNT(sets); i++) {
        char object[256];
        snprintf(object, sizeof(object),
                 "<object type=\"Core\" cpuset=\"0x1\" complete_cpuset=\"%s\" nodeset=\"0x1\" "
                 "complete_nodeset=\"0x1\"/>",
                 sets[i]);
        object_refused(object, no_sets);
    }
    object_refused("<object type=\"PU\"" SETS "/>", "without a number");
    object_refused("<object type=\"PU\" os_index=\"4294967295\"" SETS "/>", "without a number");
    object_refused("<object type=\"NUMANode\" os_index=\"-1\"" SETS "/>", "without a number");
    object_refused("<object type=\"Bridge\" bridge_type=\"2-1\" bridge_pci=\"0000:[00-0f]\"/>",
                   "bridge_type");
    object_refused("<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:00-0f\"/>",
                   "range of buses");
    object_refused("<object type=\"Bridge\" bridge_type=\"1-1\" bridge_pci=\"0000:[00-0f]\"/>",
                   "without PCI address");
    object_refused("<object type=\"PCIDev\" pci_busid=\"0000:01:00.0\"/>", "without address and type");
    object_refused("<object type=\"OSDev\" osdev_type=\"9\"/>", "unknown type");
    object_refused("<object type=\"OSDev\" osdev_type=\"1\"><object type=\"PU\" os_index=\"0\"" SETS
                   "/></object>",
                   "place where it cannot be");
    refused(HEAD "<topology version=\"2.0\"><object type=\"Core\"" SETS "/></topology>",
            "outermost object must be the machine");
    refused(OPEN CLOSE "<object type=\"Machine\"" SETS "/>" END, "more than one machine");
}

static void limits_hold(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf deep = GT_BUF(1 << 24), many = GT_BUF(1 << 24), attributes = GT_BUF(1 << 20);
    gt_buf_puts(&deep, "<topology version=\"2.0\">");
    gt_buf_puts(&many, "<topology version=\"2.0\">");
    gt_buf_puts(&attributes, "<topology version=\"2.0\"");
    for (unsigned i = 0; i < 250000; i++) {
        gt_buf_puts(&deep, "<cpukind>");
        gt_buf_puts(&many, "<cpukind/>");
        if (i < 100)
            gt_buf_printf(&attributes, " a%u=\"b\"", i);
    }
    refused(deep.data, "nested too deep");
    refused(many.data, "too many elements");
    refused(attributes.data, "too many attributes");
}

static int read_xml(const char *text, struct gt_facts *facts, struct gt_err **err)
{
    facts->vendor = 0x9999;
    return gt_hwloc_read(text, strlen(text), "test.xml", facts, err);
}

static void devices_are_read(void **state)
{
    (void)state;
    gt_auto_facts struct gt_facts facts = {0};
    gt_auto_err struct gt_err *err = NULL;
    if (read_xml(OPEN GPU("6", "01") GPU("7", "02") CLOSE END, &facts, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    assert_int_equal(facts.count, 2);
    assert_string_equal(facts.devices[1].bdf, "0000:02:00.0");
    assert_string_equal(facts.devices[1].product, "Model 7");
    assert_string_equal(facts.devices[1].path.root, "pci0000:00");
    assert_int_equal(facts.devices[1].numa_node, 0);
    assert_string_equal(facts.devices[1].cpu_set, "0-1");
    assert_true(gt_fact_is_gpu(&facts.devices[1], 0x9999));
}

static void what_pci_found_is_completed_not_extended(void **state)
{
    (void)state;
    gt_auto_facts struct gt_facts facts = {.pci_read = true};
    struct gt_fact *fact;
    assert_int_equal(gt_facts_add(&facts, "0000:02:00.0", &fact, NULL), 0);
    assert_int_equal(read_xml(OPEN GPU("6", "01") GPU("7", "02") CLOSE END, &facts, NULL), 0);
    assert_int_equal(facts.count, 1);
    assert_string_equal(facts.devices[0].product, "Model 7");
    assert_int_equal(facts.devices[0].numa_node, 0);
}

#define MATRIX(name, values)                                                                                 \
    "<distances2hetero nbobjs=\"2\" kind=\"25\" name=\"" name "\">\n"                                        \
    "<indexes length=\"18\">PCIDev:6 OSDev:17 </indexes>\n<u64values length=\"" values " </u64values>\n"     \
    "</distances2hetero>\n"

static void matrices_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *xml;
        unsigned links, notes;
        uint64_t bandwidth;
    } cases[] = {
        {OPEN GPU("6", "01") GPU("7", "02") CLOSE MATRIX("XGMIBandwidth", "18\">0 100000 100000 0") END, 1, 0,
         100000},
        {OPEN GPU("6", "01") GPU("7", "02") CLOSE MATRIX("XGMIBandwidth", "17\">0 100000 50000 0") END, 1, 1,
         50000},
        {OPEN GPU("6", "01") GPU("7", "02") CLOSE MATRIX("XGMIBandwidth", "13\">0 100000 0 0") END, 0, 1, 0},
        {OPEN GPU("6", "01") GPU("7", "02")
             CLOSE MATRIX("NVLinkBandwidth", "30\">0 900000000000 900000000000 0") END,
         0, 1, 0},
        {OPEN GPU("6", "01") GPU("7", "02") CLOSE MATRIX("OtherBandwidth", "18\">0 100000 100000 0") END, 0,
         0, 0},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_facts struct gt_facts facts = {0};
        gt_auto_err struct gt_err *err = NULL;
        if (read_xml(cases[i].xml, &facts, &err) < 0)
            fail_msg("case %zu: %s", i, gt_err_text(err));
        assert_int_equal(facts.direct_count, cases[i].links);
        assert_int_equal(facts.missing_count, cases[i].notes);
        if (cases[i].links)
            assert_int_equal(facts.direct[0].bandwidth_mbps, cases[i].bandwidth);
    }
}

/* What passes the check but is not hwloc's: refused, and nothing printed. */
static void hwloc_refuses_silently(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD "<topology version=\"2.0\"><object type=\"Machine\"" SETS "/></topology>",
        OPEN "<bogus/>" CLOSE END,
        OPEN CLOSE "<distances2hetero nbobjs=\"2\" name=\"x\"><indexes length=\"3\">a "
                   "b</indexes></distances2hetero>" END,
        OPEN CLOSE "<distances2 nbobjs=\"2\"/>" END,
    };
    fflush(stderr);
    gt_auto_close int old = dup(STDERR_FILENO);
    char path[] = "/tmp/gputopo-stderr-XXXXXX";
    gt_auto_close int caught = mkostemp(path, O_CLOEXEC);
    assert_true(old >= 0 && caught >= 0);
    unlink(path);
    dup2(caught, STDERR_FILENO);
    unsigned failed = 0;
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        gt_auto_facts struct gt_facts facts = {0};
        failed += read_xml(texts[i], &facts, NULL) < 0;
    }
    dup2(old, STDERR_FILENO);
    assert_int_equal(lseek(caught, 0, SEEK_END), 0);
    assert_int_equal(failed, GT_COUNT(texts));
}

/* Damage at random places: a result or an error, no crash. */
static void damaged_xml(void **state)
{
    (void)state;
    static const char good[] =
        OPEN GPU("6", "01") GPU("7", "02") CLOSE MATRIX("XGMIBandwidth", "18\">0 100000 100000 0") END;
    uint64_t seed = 7;
    for (unsigned i = 0; i < 3000; i++) {
        char copy[sizeof(good)];
        memcpy(copy, good, sizeof(good));
        for (unsigned k = 0; k <= i % 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % (sizeof(good) - 1)] = (char)(' ' + (seed >> 20) % 95);
        }
        gt_auto_facts struct gt_facts facts = {0};
        gt_auto_err struct gt_err *err = NULL;
        if (read_xml(copy, &facts, &err) < 0)
            assert_null(strchr(gt_err_text(err), '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_xml_passes),
        cmocka_unit_test(broken_xml_is_refused),
        cmocka_unit_test(broken_objects_are_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(devices_are_read),
        cmocka_unit_test(what_pci_found_is_completed_not_extended),
        cmocka_unit_test(matrices_are_read),
        cmocka_unit_test(hwloc_refuses_silently),
        cmocka_unit_test(damaged_xml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
