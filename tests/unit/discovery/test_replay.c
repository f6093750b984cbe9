/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "topology/model/render.h"

/* Recordings: made, replayed, and read in many invalid forms. */

/* hwloc 2.9 loses a few kilobytes when it refuses a file in the middle. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libhwloc";
}

static struct machine machine;
static char file[128];

static int set_up(void **state)
{
    (void)state;
    machine_new(&machine);
    machine_add_processors(&machine);
    for (int i = 1; i <= 4; i++) {
        char bdf[GT_BDF_SIZE], path[160];
        snprintf(bdf, sizeof(bdf), "0000:0%d:00.0", i);
        machine_add_device(&machine, "pci0000:00/0000:00:01.0", bdf, "0x9999\n", "0x030200\n");
        snprintf(path, sizeof(path), "sys/devices/pci0000:00/0000:00:01.0/%s/drm/card%d", bdf, i);
        machine_mkdir(&machine, path);
    }
    machine_add_device(&machine, "pci0000:00/0000:00:02.0", "0000:0a:00.0", "0x15b3\n", "0x020700\n");
    machine_mkdir(&machine, "sys/devices/pci0000:00/0000:00:02.0/0000:0a:00.0/infiniband/mlx5_0");
    snprintf(file, sizeof(file), "%s/recording.json", machine.root);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    machine_free(&machine);
    return 0;
}

static struct gt_node *record(const struct gt_scan_options *options, char **ret_text)
{
    struct gt_raw raw = {0};
    struct gt_node *node = scan_ok(options, &raw);
    assert_int_equal(gt_recording_make(node, &raw, ret_text, NULL), 0);
    gt_raw_done(&raw);
    return node;
}

static void write_file(const char *text)
{
    machine_write(&machine, "recording.json", text);
}

static void a_recording_replays(void **state)
{
    (void)state;
    struct gt_scan_options live = {.root = machine.root, .node_name = "worker-1"};
    gt_auto_free char *text = NULL;
    gt_auto_node struct gt_node *node = record(&live, &text);
    assert_int_equal(node->gpu_count, 4);
    assert_int_equal(node->nic_count, 1);
    write_file(text);
    machine_remove(&machine, "sys"); /* the recording is all there is */

    struct gt_scan_options replay = {.from = file};
    gt_auto_free char *again = NULL;
    gt_auto_node struct gt_node *replayed = record(&replay, &again);
    assert_same_node(node, replayed);
    assert_string_equal(text, again); /* a recording of a recording is the same */

    struct gt_scan_options named = {.from = file, .node_name = "other"};
    gt_auto_node struct gt_node *other = scan_ok(&named, NULL);
    assert_string_equal(other->name, "other");
    struct gt_scan_options nics = {.from = file, .vendor = 0x1234};
    gt_auto_node struct gt_node *none = scan_ok(&nics, NULL);
    assert_int_equal(none->gpu_count, 0);
}

static void a_node_is_a_recording_too(void **state)
{
    (void)state;
    struct gt_scan_options live = {.root = machine.root, .node_name = "worker-1"};
    gt_auto_node struct gt_node *node = scan_ok(&live, NULL);
    gt_auto_buf struct gt_buf json = GT_BUF(1 << 20);
    gt_render_json(node, &json);
    write_file(json.data);
    struct gt_scan_options replay = {.from = file};
    gt_auto_node struct gt_node *replayed = scan_ok(&replay, NULL);
    assert_same_node(node, replayed);

    gt_auto_free char *text = NULL;
    assert_int_equal(gt_recording_make(node, NULL, &text, NULL), 0);
    write_file(text);
    gt_auto_node struct gt_node *bare = scan_ok(&replay, NULL);
    assert_same_node(node, bare);
}

static void the_vendor_of_a_recording_counts(void **state)
{
    (void)state;
    struct gt_scan_options live = {.root = machine.root, .vendor = 0x15b3};
    machine_add_device(&machine, "pci0000:00/0000:00:02.0", "0000:0b:00.0", "0x15b3\n", "0x120000\n");
    gt_auto_free char *text = NULL;
    gt_auto_node struct gt_node *node = record(&live, &text);
    assert_int_equal(node->gpu_count, 1);
    write_file(text);
    struct gt_scan_options replay = {.from = file};
    gt_auto_node struct gt_node *replayed = scan_ok(&replay, NULL);
    assert_same_node(node, replayed);
}

static void what_a_recording_lacks_is_said(void **state)
{
    (void)state;
    write_file(
        "{\"gputopoRecording\": 1, \"node\": {\"missing\": [{\"what\": \"hwloc\", \"why\": \"broke\"}]},"
        " \"raw\": {\"pci\": {\"vendor\": \"9999\", \"devices\": [{\"bdf\": \"01:00.0\", \"vendor\": "
        "\"9999\", \"class\": \"0302\"}]}}}");
    struct gt_scan_options replay = {.from = file};
    gt_auto_node struct gt_node *node = scan_ok(&replay, NULL);
    assert_int_equal(node->gpu_count, 1);
    assert_string_equal(node->gpus[0].bdf, "0000:01:00.0");
    assert_string_equal(missing_why(node, "hwloc"), "broke");
    assert_string_equal(missing_why(node, "vendor library"), "not in the recording");
    assert_non_null(missing_why(node, "NUMA node"));
}

static void broken_recordings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "recording.json"},
        {"nonsense", "recording.json"},
        {"{", "recording.json"},
        {"[]", "recording.json"},
        {"\"text\"", "recording.json"},
        {"{\"gputopoRecording\": 2}", "only version 1 is known"},
        {"{\"gputopoRecording\": \"1\"}", "only version 1 is known"},
        {"{\"gputopoRecording\": 1}", "without \"node\" and without \"raw\""},
        {"{\"gputopoRecording\": 1, \"raw\": 7}", "raw: must be an object"},
        {"{\"gputopoRecording\": 1, \"raw\": {\"pci\": 7}}", "raw.pci: must be an object"},
        {"{\"gputopoRecording\": 1, \"raw\": {\"pci\": \"x\"}}", "raw.pci"},
        {"{\"gputopoRecording\": 1, \"raw\": {\"pci\": {}}}", "a list \"devices\""},
        {"{\"gputopoRecording\": 1, \"raw\": {\"hwloc\": \"<x/>\"}}", "raw.hwloc: line 1"},
        {"{\"gputopoRecording\": 1, \"raw\": {\"hwloc\": \"\"}}", "raw.hwloc"},
        {"{\"gputopoRecording\": 1, \"node\": {\"gpus\": 3}}", "gpus"},
    };
    struct gt_scan_options replay = {.from = file};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        write_file(cases[i].text);
        scan_fails(&replay, cases[i].part);
    }
    machine_remove(&machine, "recording.json");
    scan_fails(&replay, "No such file");
}

static void broken_devices_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *device, *part;
    } cases[] = {
        {"7", "devices[0].bdf: must be a PCI address"},
        {"{}", "devices[0].bdf: must be a PCI address"},
        {"{\"bdf\": \"01:00.9\"}", "devices[0].bdf: \"01:00.9\" is no PCI address"},
        {"{\"bdf\": 1}", "devices[0].bdf: expected a string, is a number"},
        {"{\"bdf\": \"01:00.0\", \"vendor\": \"99999\"}", "four hexadecimal digits"},
        {"{\"bdf\": \"01:00.0\", \"vendor\": \"0x99\"}", "four hexadecimal digits"},
        {"{\"bdf\": \"01:00.0\", \"vendor\": \"123456789\"}", "too long"},
        {"{\"bdf\": \"01:00.0\", \"numaNode\": -2}", "devices[0].numaNode"},
        {"{\"bdf\": \"01:00.0\", \"numaNode\": 1e300}", "devices[0].numaNode"},
        {"{\"bdf\": \"01:00.0\", \"virtualFunction\": 1}", "true or false"},
        {"{\"bdf\": \"01:00.0\", \"pcieNow\": 3}", "pcieNow: expected an object, is a number"},
        {"{\"bdf\": \"01:00.0\", \"pcieNow\": {\"width\": 65}}", "width"},
        {"{\"bdf\": \"01:00.0\", \"bridges\": \"no\"}", "expected an array, is a string"},
        {"{\"bdf\": \"01:00.0\", \"bridges\": [\"no\"]}", "must be PCI addresses"},
        {"{\"bdf\": \"01:00.0\", \"bridges\": "
         "[\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\","
         "\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\",\"01:00.0\","
         "\"01:00.0\","
         "\"01:00.0\",\"01:00.0\"]}",
         "17 members, the limit is 16"},
        {"{\"bdf\": \"01:00.0\"}, {\"bdf\": \"0000:01:00.0\"}", "is there twice"},
    };
    struct gt_scan_options replay = {.from = file};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(4096);
        gt_buf_printf(&text, "{\"gputopoRecording\": 1, \"raw\": {\"pci\": {\"devices\": [%s]}}}",
                      cases[i].device);
        write_file(text.data);
        scan_fails(&replay, cases[i].part);
    }
}

static void too_many_gpus_are_refused(void **state)
{
    (void)state;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    gt_buf_puts(&text, "{\"gputopoRecording\": 1, \"raw\": {\"pci\": {\"devices\": [");
    for (int i = 0; i < 65; i++)
        gt_buf_printf(&text, "%s{\"bdf\": \"%02x:00.0\", \"vendor\": \"9999\", \"class\": \"0302\"}",
                      i ? "," : "", i);
    gt_buf_puts(&text, "]}}}");
    write_file(text.data);
    struct gt_scan_options replay = {.from = file};
    scan_fails(&replay, "65");
}

/* Texts that would spoil a terminal or a JSON document stay out of the node. */
static void names_are_cleaned(void **state)
{
    (void)state;
    write_file(
        "{\"gputopoRecording\": 1, \"node\": {\"name\": \"a\\u001b[2J\", \"missing\": [{\"what\": \"hwloc\", "
        "\"why\": \"b\\u001b[2J\"}]}, "
        "\"raw\": {\"pci\": {\"devices\": ["
        "{\"bdf\": \"01:00.0\", \"vendor\": \"9999\", \"class\": \"0302\", \"cpuSet\": \"\\u001b[2J\"},"
        "{\"bdf\": \"02:00.0\", \"vendor\": \"15b3\", \"class\": \"0207\", \"rdma\": "
        "\"mlx\\u001b[2J\\n\"}]}}}");
    struct gt_scan_options replay = {.from = file};
    gt_auto_node struct gt_node *node = scan_ok(&replay, NULL);
    assert_string_equal(node->name, "");
    assert_null(strchr(missing_why(node, "hwloc"), '\x1b'));
    assert_string_equal(node->gpus[0].cpu_set, "");
    assert_string_equal(node->nics[0].name, "mlx?[2J?");
}

/* A recording that is cut, or in which a byte was changed, gives a node or one error. */
static void damaged_recordings(void **state)
{
    (void)state;
    struct gt_scan_options live = {.root = machine.root};
    gt_auto_free char *text = NULL;
    gt_auto_node struct gt_node *node = record(&live, &text);
    assert_int_equal(node->gpu_count, 4);
    size_t len = strlen(text);
    unsigned failed = 0;
    uint64_t seed = 20240229;
    for (unsigned i = 0; i < 400; i++) {
        gt_auto_free char *copy = strdup(text);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t)(seed >> 33) % len;
        if (i % 2)
            copy[at] = '\0';
        else
            copy[at] = (char)(' ' + (seed >> 20) % 95);
        write_file(copy);
        struct gt_scan_options replay = {.from = file};
        struct gt_node *replayed = NULL;
        gt_auto_err struct gt_err *err = NULL;
        if (gt_scan(&replay, &replayed, NULL, &err) < 0) {
            failed++;
            assert_null(strchr(gt_err_text(err), '\n'));
        } else {
            gt_node_unref(replayed);
        }
    }
    assert_true(failed >= 200); /* every cut one, except for the last brace */
}

static void a_huge_file(void **state)
{
    (void)state;
    char path[160];
    snprintf(path, sizeof(path), "%s/huge", machine.root);
    gt_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(fd, GT_JSON_MAX + 1), 0);
    struct gt_scan_options replay = {.from = path};
    scan_fails(&replay, "larger than the limit");
}

#define ON_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MACHINE(a_recording_replays),
        ON_MACHINE(a_node_is_a_recording_too),
        ON_MACHINE(the_vendor_of_a_recording_counts),
        ON_MACHINE(what_a_recording_lacks_is_said),
        ON_MACHINE(broken_recordings_are_refused),
        ON_MACHINE(broken_devices_are_refused),
        ON_MACHINE(too_many_gpus_are_refused),
        ON_MACHINE(names_are_cleaned),
        ON_MACHINE(damaged_recordings),
        ON_MACHINE(a_huge_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
