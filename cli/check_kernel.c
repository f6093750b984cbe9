/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "deviceplugin/device_nodes.h"

/* PCI, the kernel's driver and the device nodes. */

enum { VENDOR = 0x9999, KNOWN_DEVICE = 0x0a01 }; /* the one id of MetaX's that public lists have */

static void check_vendor(const struct cli_checked *checked, struct cli_check *check)
{
    cli_check_found(check, "%u of vendor %04x", checked->node->gpu_count, checked->vendor);
    if (checked->node->gpu_count)
        cli_check_evaluate(check, checked->vendor == VENDOR);
    else
        cli_check_cannot(check, "there is none: no GPU, or its vendor id is another one");
}

static void check_pci_device(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally ids = {0};
    bool known = true;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        cli_tally_add(&ids, "%04x", checked->node->gpus[i].pci.device);
        known = known && checked->node->gpus[i].pci.device == KNOWN_DEVICE;
    }
    cli_check_found_tally(check, "", &ids);
    cli_check_evaluate(check, known);
}

static void check_driver(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally drivers = {0};
    bool bound = true;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        const struct gt_fact *fact = gt_facts_find(checked->facts, checked->node->gpus[i].bdf);
        const char *driver = fact && fact->driver[0] ? fact->driver : "none";
        cli_tally_add(&drivers, "%s", driver);
        bound = bound && strcasecmp(driver, "metax") == 0;
    }
    cli_check_found_tally(check, "", &drivers);
    cli_check_evaluate(check, bound);
}

static void check_driver_version(const struct cli_checked *checked, struct cli_check *check)
{
    cli_check_found(check, "%s", checked->facts->driver_version[0] ? checked->facts->driver_version : "none");
    cli_check_evaluate(check, checked->facts->driver_version[0]);
}

static bool check_kernel_has(const struct gt_device_nodes *nodes, const char *name)
{
    return GT_HAS_TEXT(nodes->names, nodes->count, name);
}

static void check_control(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_device_nodes *nodes = &checked->nodes;
    struct cli_tally names = {0};
    for (unsigned i = 0; checked->dev_root && i < nodes->count; i++)
        if (strncmp(nodes->names[i], "dri/", 4) != 0)
            cli_tally_add(&names, "%s", nodes->names[i]);
    cli_check_found_tally(check, "", &names);
    if (!checked->dev_root)
        cli_check_cannot(check, "device nodes are not in a recording");
    else if (cli_check_has_gpus(checked, check))
        cli_check_evaluate(check, check_kernel_has(nodes, "mxcd"));
}

static void check_kernel_drm(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_device_nodes *nodes = &checked->nodes;
    struct cli_tally problems = {0};
    unsigned named = 0, there = 0;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        const struct gt_gpu *gpu = &checked->node->gpus[i];
        char card[32], render[32];
        snprintf(card, sizeof(card), "dri/card%d", gpu->drm_card);
        snprintf(render, sizeof(render), "dri/renderD%d", gpu->drm_render);
        if (gpu->drm_card < 0 || gpu->drm_render < 0) {
            cli_tally_add(&problems, "none is named for GPU %u", i);
            continue;
        }
        named++;
        bool both = !checked->dev_root || (check_kernel_has(nodes, card) && check_kernel_has(nodes, render));
        there += both;
        if (!both)
            cli_tally_add(&problems, "no /dev/%s", check_kernel_has(nodes, card) ? render : card);
    }
    cli_check_found(check, "named for %u of %u GPUs", named, checked->node->gpu_count);
    if (checked->dev_root)
        cli_check_found(check, "there for %u", there);
    cli_check_found_tally(check, "", &problems);
    if (checked->dev_root || named < checked->node->gpu_count)
        cli_check_evaluate(check, there == checked->node->gpu_count);
    else
        cli_check_cannot(check, "device nodes are not in a recording");
}

static void check_pcie(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned whole = 0;
    struct cli_tally links = {0};
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        const struct gt_gpu *gpu = &checked->node->gpus[i];
        whole += gpu->numa_node >= 0 && gpu->pci.path.root[0] && gpu->pci.now.width && gpu->pci.max.width;
        cli_tally_add(&links, "%g GT/s x%u of %g GT/s x%u", gpu->pci.now.speed, gpu->pci.now.width,
                      gpu->pci.max.speed, gpu->pci.max.width);
    }
    cli_check_found_tally(check, "", &links);
    if (cli_check_has_gpus(checked, check)) {
        cli_check_found(check, "all of it for %u of %u GPUs", whole, checked->node->gpu_count);
        cli_check_evaluate(check, whole == checked->node->gpu_count);
    }
}

const struct cli_check_rule cli_check_kernel[] = {
    {"pci-vendor", "the GPUs are PCI devices of vendor 9999 that compute", .judge = check_vendor},
    {"pci-device", "their PCI device id is 0a01, the only one that public lists have",
     .judge = check_pci_device, .needs = CLI_CHECK_GPUS},
    {"driver", "the kernel module is called metax and is bound to each GPU", .judge = check_driver,
     .needs = CLI_CHECK_GPUS},
    {"driver-version", "/sys/module/metax/version has the driver's version", .judge = check_driver_version,
     .needs = CLI_CHECK_GPUS},
    {"control-nodes",
     "the driver makes /dev/mxcd; mxgd, mxnd and other /dev/mx?d may be there and belong to it",
     .judge = check_control},
    {"drm-nodes", "sysfs names a cardN and a renderDN of each GPU, and both are in /dev/dri",
     .judge = check_kernel_drm, .needs = CLI_CHECK_GPUS},
    {"pcie-path", "sysfs has NUMA node, PCIe path and link of each GPU, and its best link",
     .judge = check_pcie},
    {.name = NULL},
};
