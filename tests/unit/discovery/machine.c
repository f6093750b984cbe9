/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "topology/model/render.h"

static void full_path(const struct machine *machine, const char *path, char to[static 512])
{
    int len = snprintf(to, 512, "%s/%s", machine->root, path);
    assert_in_range(len, 1, 511);
}

static void make_parents(char *full)
{
    for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(full, 0755) < 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
}

void machine_new(struct machine *machine)
{
    snprintf(machine->root, sizeof(machine->root), "/tmp/gputopo-machine-XXXXXX");
    assert_non_null(mkdtemp(machine->root));
    machine_mkdir(machine, "sys/bus/pci/devices");
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void machine_free(struct machine *machine)
{
    nftw(machine->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void machine_write(const struct machine *machine, const char *path, const char *text)
{
    char full[512];
    full_path(machine, path, full);
    make_parents(full);
    GT_CLEANUP(fclose) FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
}

void machine_mkdir(const struct machine *machine, const char *path)
{
    char full[512];
    full_path(machine, path, full);
    make_parents(full);
    if (mkdir(full, 0755) < 0)
        assert_int_equal(errno, EEXIST);
}

void machine_symlink(const struct machine *machine, const char *path, const char *target)
{
    char full[512];
    full_path(machine, path, full);
    make_parents(full);
    assert_int_equal(symlink(target, full), 0);
}

void machine_remove(const struct machine *machine, const char *path)
{
    char full[512];
    full_path(machine, path, full);
    assert_int_equal(nftw(full, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void machine_add_device(const struct machine *machine, const char *parents, const char *bdf,
                        const char *vendor, const char *class)
{
    const struct {
        const char *name, *value;
    } attributes[] = {
        {"vendor", vendor},
        {"device", "0x0a01\n"},
        {"class", class},
        {"numa_node", "0\n"},
        {"local_cpulist", "0-1\n"},
        {"current_link_speed", "32.0 GT/s PCIe\n"},
        {"irq", "0\n"},
        {"max_link_speed", "32.0 GT/s PCIe\n"},
        {"resource", "\n"},
        {"current_link_width", "8\n"},
        {"max_link_width", "16\n"},
    };
    char path[256], target[256];
    for (size_t i = 0; i < GT_COUNT(attributes); i++) {
        snprintf(path, sizeof(path), "sys/devices/%s/%s/%s", parents, bdf, attributes[i].name);
        machine_write(machine, path, attributes[i].value);
    }
    snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bdf);
    snprintf(target, sizeof(target), "../../../devices/%s/%s", parents, bdf);
    machine_symlink(machine, path, target);
}

void machine_add_processors(const struct machine *machine)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        static const char *const names[] = {"core_cpus", "thread_siblings", "package_cpus", "core_siblings"};
        char path[128];
        for (size_t i = 0; i < GT_COUNT(names); i++) {
            snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/topology/%s", cpu, names[i]);
            machine_write(machine, path, i < 2 ? (cpu ? "2\n" : "1\n") : "3\n");
        }
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        machine_write(machine, path, cpu ? "1\n" : "0\n");
        snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        machine_write(machine, path, "0\n");
    }
    machine_write(machine, "sys/devices/system/cpu/online", "0-1\n");
    machine_write(machine, "sys/devices/system/cpu/possible", "0-1\n");
    machine_write(machine, "sys/devices/system/node/online", "0\n");
    machine_write(machine, "sys/devices/system/node/possible", "0\n");
    machine_write(machine, "sys/devices/system/node/node0/cpumap", "3\n");
    machine_write(machine, "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 1048576 kB\n");
    machine_write(machine, "proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n");
}

struct gt_node *scan_ok(const struct gt_scan_options *options, struct gt_raw *ret_raw)
{
    struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_scan(options, &node, ret_raw, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    assert_non_null(node);
    return node;
}

void scan_fails(const struct gt_scan_options *options, const char *part)
{
    struct gt_node *node = NULL;
    struct gt_raw raw = {0};
    gt_auto_err struct gt_err *err = NULL;
    assert_true(gt_scan(options, &node, &raw, &err) < 0);
    assert_null(node);
    assert_null(raw.pci);
    assert_null(raw.hwloc);
    assert_null(raw.vendor);
    if (!strstr(gt_err_text(err), part))
        fail_msg("\"%s\" does not say \"%s\"", gt_err_text(err), part);
    assert_null(strchr(gt_err_text(err), '\n'));
}

const char *missing_why(const struct gt_node *node, const char *what)
{
    for (unsigned i = 0; i < node->missing_count; i++)
        if (strcmp(node->missing[i].what, what) == 0)
            return node->missing[i].why;
    return NULL;
}

void assert_same_node(const struct gt_node *a, const struct gt_node *b)
{
    gt_auto_buf struct gt_buf left = GT_BUF(1 << 24), right = GT_BUF(1 << 24);
    gt_render_json(a, &left);
    gt_render_json(b, &right);
    assert_false(left.failed);
    assert_string_equal(left.data, right.data);
}
