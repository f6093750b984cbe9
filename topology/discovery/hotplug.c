/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/hotplug.h"

#include <errno.h>
#include <libudev.h>
#include <stdbool.h>
#include <string.h>

#include "topology/discovery/backends.h"

enum {
    EVENTS_MAX = 1024,
    RECEIVE_BUFFER = 1 << 20, /* when a chassis returns, there are hundreds of events at once */
};

struct gt_hotplug {
    struct udev *udev;
    struct udev_monitor *monitor;
};

void gt_hotplug_free(struct gt_hotplug *hotplug)
{
    if (!hotplug)
        return;
    if (hotplug->monitor)
        udev_monitor_unref(hotplug->monitor);
    if (hotplug->udev)
        udev_unref(hotplug->udev);
    free(hotplug);
}

static int hotplug_start(struct gt_hotplug *hotplug, struct gt_err **err)
{
    hotplug->udev = udev_new();
    if (!hotplug->udev)
        return gt_fail_sys(err, errno ? errno : ENOMEM, "libudev");
    hotplug->monitor = udev_monitor_new_from_netlink(hotplug->udev, "kernel");
    if (!hotplug->monitor)
        return gt_fail_sys(err, errno, "libudev: kernel uevents");
    static const char *const subsystems[] = {"pci", "drm", "net", "infiniband"};
    for (size_t i = 0; i < GT_COUNT(subsystems); i++) {
        int r = udev_monitor_filter_add_match_subsystem_devtype(hotplug->monitor, subsystems[i], NULL);
        if (r < 0)
            return gt_fail_sys(err, -r, "libudev: filter");
    }
    /* Needs CAP_NET_ADMIN; without it the default size is used, and an overflow counts as an event. */
    (void)udev_monitor_set_receive_buffer_size(hotplug->monitor, RECEIVE_BUFFER);
    int r = udev_monitor_enable_receiving(hotplug->monitor);
    return r < 0 ? gt_fail_sys(err, -r, "libudev: receiving uevents") : 0;
}

int gt_hotplug_new(struct gt_hotplug **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_hotplug_free) struct gt_hotplug *hotplug = calloc(1, sizeof(*hotplug));
    GT_NEED(hotplug, err, "hotplug monitor");
    GT_TRY(hotplug_start(hotplug, err));
    *ret = gt_steal(hotplug);
    return 0;
}

int gt_hotplug_fd(const struct gt_hotplug *hotplug)
{
    return udev_monitor_get_fd(hotplug->monitor);
}

/* "9999:0A01", the property PCI_ID of a PCI device's uevent. */
static bool is_of_vendor(struct udev_device *device, unsigned vendor)
{
    const char *id = udev_device_get_property_value(device, "PCI_ID");
    if (!id) {
        const char *text = udev_device_get_sysattr_value(device, "vendor");
        /* A device that is gone, with unknown vendor: a scan too many does no harm. */
        return !text || strtoul(text, NULL, 16) == vendor;
    }
    return strtoul(id, NULL, 16) == vendor;
}

static bool hotplug_concerns_us(struct udev_device *device, unsigned vendor)
{
    const char *subsystem = udev_device_get_subsystem(device);
    if (!subsystem)
        return false;
    if (strcmp(subsystem, "infiniband") == 0)
        return true;
    if (strcmp(subsystem, "pci") == 0)
        return is_of_vendor(device, vendor);
    if (strcmp(subsystem, "net") == 0) {
        /* Only network cards: a node that runs pods makes and removes virtual interfaces all day. */
        const char *path = udev_device_get_devpath(device);
        return path && strstr(path, "/pci") != NULL;
    }
    /* DRM: any card; its device nodes are what containers get. Connectors announce nothing of interest. */
    const char *action = udev_device_get_action(device);
    return action && strcmp(action, "change") != 0;
}

unsigned gt_hotplug_drain(struct gt_hotplug *hotplug, unsigned vendor)
{
    unsigned counted = 0;
    if (!vendor)
        vendor = GT_VENDOR_METAX;
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        errno = 0;
        struct udev_device *device = udev_monitor_receive_device(hotplug->monitor);
        if (!device) {
            if (errno == ENOBUFS)
                counted++; /* the socket has overflowed: events were lost */
            else
                break;
            continue;
        }
        if (hotplug_concerns_us(device, vendor))
            counted++;
        udev_device_unref(device);
    }
    return counted;
}
