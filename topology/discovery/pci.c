/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "base/file.h"
#include "topology/discovery/backends.h"

#include <errno.h>
#include <fcntl.h>
#include <pci/pci.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

/*
 * libpci ends the process on the first attribute that it cannot read, unless its error callback does not
 * return. Ours jumps out of the call, which costs the one device. The callback gets no context, hence the
 * thread's variables. Every call that may fail is made by guarded(), which keeps no locals of its own across
 * the jump.
 */
static _Thread_local jmp_buf escape;
static _Thread_local char escape_text[160];

static void discovery_pci_keep_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static void discovery_pci_keep_text(const char *format, va_list args)
{
    vsnprintf(escape_text, sizeof(escape_text), format, args);
}

static void discovery_pci_on_error(char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void discovery_pci_on_error(char *format, ...)
{
    va_list args;
    va_start(args, format);
    discovery_pci_keep_text(format, args);
    va_end(args);
    longjmp(escape, 1);
}

static void on_warning(char *format, ...) __attribute__((format(printf, 1, 2)));
static void on_warning(char *format, ...)
{
    (void)format; /* a library does not print */
}

struct pci_call {
    struct pci_access *access;
    struct pci_dev *device;
    int domain, bus, slot, function;
    const char *driver;
};

static void call_init(struct pci_call *call)
{
    pci_init(call->access);
}

static void call_get(struct pci_call *call)
{
    call->device = pci_get_dev(call->access, call->domain, call->bus, call->slot, call->function);
}

static void call_fill(struct pci_call *call)
{
    /* All three come from sysfs attributes: config space is not touched. */
    pci_fill_info(call->device, PCI_FILL_IDENT | PCI_FILL_CLASS | PCI_FILL_NUMA_NODE);
}

static void call_driver(struct pci_call *call)
{
    pci_fill_info(call->device, PCI_FILL_DRIVER);
    call->driver = pci_get_string_property(call->device, PCI_FILL_DRIVER);
}

static bool guarded(void (*function)(struct pci_call *), struct pci_call *call)
{
    if (setjmp(escape) != 0)
        return false;
    function(call);
    return true;
}

static void pci_cleanup_p(struct pci_access **access)
{
    if (*access)
        pci_cleanup(*access);
}

/* The parts of a canonical BDF, "0000:0e:00.0". */
static bool parse_bdf(const char *bdf, struct pci_call *call)
{
    char *end;
    unsigned long domain = strtoul(bdf, &end, 16);
    if (*end != ':' || domain > INT32_MAX)
        return false;
    call->domain = (int)domain;
    call->bus = (int)strtoul(end + 1, &end, 16);
    call->slot = (int)strtoul(end + 1, &end, 16);
    call->function = (int)strtoul(end + 1, &end, 16);
    return *end == '\0';
}

static int discovery_pci_read_device(struct pci_call *call, const char *name, int rootfd,
                                     struct gt_facts *facts, struct gt_err **err)
{
    char bdf[GT_BDF_SIZE];
    if (strchr(name, ':') == strrchr(name, ':') || !gt_bdf_normalise(name, bdf) || !parse_bdf(bdf, call))
        return 0; /* not a device */
    if (!guarded(call_get, call))
        return gt_fail(err, EIO, "libpci: %s", escape_text);
    if (!guarded(call_fill, call)) {
        gt_facts_missing(facts, "PCI devices", "%s is left out: %s", bdf, escape_text);
        return 0;
    }
    struct gt_fact found = {.vendor = call->device->vendor_id,
                            .device = call->device->device_id,
                            .class = call->device->device_class};
    if (!gt_fact_is_of_interest(&found, facts->vendor))
        return 0;
    struct gt_fact *fact;
    GT_TRY(gt_facts_add(facts, bdf, &fact, err));
    fact->vendor = found.vendor;
    fact->device = found.device;
    fact->class = found.class;
    if (call->device->numa_node >= 0)
        fact->numa_node = call->device->numa_node;
    if (guarded(call_driver, call) && call->driver)
        snprintf(fact->driver, sizeof(fact->driver), "%s", call->driver);
    gt_sysfs_fill(rootfd, fact);
    return 0;
}

static int scan_entries(DIR *dir, struct pci_access *access, int rootfd, struct gt_facts *facts,
                        struct gt_err **err)
{
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? gt_fail_sys(err, errno, "sys/bus/pci/devices") : 0;
        struct pci_call call = {.access = access};
        int r = discovery_pci_read_device(&call, entry->d_name, rootfd, facts, err);
        if (call.device)
            pci_free_dev(call.device);
        if (r < 0)
            return r;
    }
}

int gt_pci_scan(const char *root, struct gt_facts *facts, struct gt_err **err)
{
    gt_auto_free char *sysfs = NULL;
    if (asprintf(&sysfs, "%s/sys/bus/pci", strcmp(root, "/") == 0 ? "" : root) < 0) {
        sysfs = NULL;
        return gt_fail_sys(err, ENOMEM, "PCI");
    }
    gt_auto_close int rootfd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rootfd < 0)
        return gt_fail_sys(err, errno, "%s", root);
    gt_auto_dir DIR *dir = gt_file_open_dir(rootfd, "sys/bus/pci/devices");
    if (!dir)
        return gt_fail_sys(err, errno, "%s/devices", sysfs);

    __attribute__((cleanup(pci_cleanup_p))) struct pci_access *access = pci_alloc();
    GT_NEED(access, err, "libpci");
    access->method = PCI_ACCESS_SYS_BUS_PCI;
    access->error = discovery_pci_on_error;
    access->warning = on_warning;
    access->debug = on_warning;
    static char parameter[] = "sysfs.path"; /* libpci's prototypes lack const */
    if (pci_set_param(access, parameter, sysfs) < 0)
        return gt_fail(err, ENOTSUP, "libpci does not know the parameter sysfs.path");
    struct pci_call call = {.access = access};
    if (!guarded(call_init, &call))
        return gt_fail(err, EIO, "libpci: %s", escape_text);

    GT_TRY(scan_entries(dir, access, rootfd, facts, err));
    gt_lldp_fill_saved(rootfd, facts);
    gt_sysfs_fill_module(rootfd, facts);
    facts->pci_read = true;
    return 0;
}
