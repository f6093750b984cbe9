/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/discovery/backends.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

/* "32.0 GT/s PCIe", "8 GT/s"; 0 for "Unknown" and all else. */
static double read_speed(int dirfd, const char *name)
{
    char text[64];
    if (gt_file_read_attribute(dirfd, name, text, sizeof(text)) <= 0)
        return 0;
    char *end;
    double speed = strtod(text, &end);
    return end != text && strncmp(end, " GT/s", 5) == 0 && speed > 0 && speed <= 1024 ? speed : 0;
}

static unsigned read_width(int dirfd, const char *name)
{
    char text[64];
    uint64_t width;
    if (gt_file_read_attribute(dirfd, name, text, sizeof(text)) <= 0 ||
        !gt_text_to_unsigned(text, 64, &width))
        return 0; /* the kernel writes 255 for "unknown" */
    return (unsigned)width;
}

/* The number behind a prefix: 3 of "card3"; -1 for another name ("card3-DP-1" is a connector). */
static int number_behind(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    uint64_t number;
    if (strncmp(name, prefix, len) != 0 || !gt_text_to_unsigned(name + len, 1 << 20, &number))
        return -1;
    return (int)number;
}

static bool read_drm(int dirfd, const char *path, struct gt_fact *fact)
{
    gt_auto_dir DIR *dir = gt_file_open_dir(dirfd, path);
    if (!dir)
        return false;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int card = number_behind(entry->d_name, "card");
        int render = number_behind(entry->d_name, "renderD");
        if (card >= 0)
            fact->drm_card = card;
        if (render >= 0)
            fact->drm_render = render;
    }
    return fact->drm_card >= 0 || fact->drm_render >= 0;
}

/* The DRM numbers of a GPU: beside the device, else where the vendor's driver shows its devices. */
static void fill_drm(int rootfd, int dirfd, struct gt_fact *fact)
{
    if (read_drm(dirfd, "drm", fact))
        return;
    static const char *const drivers[] = {"pci:METAX", "pci:metax"};
    for (size_t i = 0; i < GT_COUNT(drivers); i++) {
        char path[96];
        snprintf(path, sizeof(path), "sys/module/metax/drivers/%s/%s/drm", drivers[i], fact->bdf);
        if (read_drm(rootfd, path, fact))
            return;
    }
}

/* The first name, in order of the alphabet, in a directory. */
static void first_entry(int dirfd, const char *path, char *to, size_t size)
{
    gt_auto_dir DIR *dir = gt_file_open_dir(dirfd, path);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        if (entry->d_name[0] != '.' && len < size && (!to[0] || strcmp(entry->d_name, to) < 0))
            memcpy(to, entry->d_name, len + 1);
    }
}

/*
 * Where a device hangs, from the target of its link in bus/pci/devices:
 * ../../../devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:08.0/0000:1b:00.0
 */
static void fill_path(int rootfd, struct gt_fact *fact)
{
    char link[64], target[1024];
    snprintf(link, sizeof(link), "sys/bus/pci/devices/%s", fact->bdf);
    ssize_t len = readlinkat(rootfd, link, target, sizeof(target) - 1);
    if (len <= 0)
        return;
    target[len] = '\0';
    char chain[GT_PATH_MAX_DEPTH + 1][GT_BDF_SIZE];
    unsigned depth = 0;
    struct gt_pcie_path path = {0};
    char *rest = target;
    for (char *part; (part = strsep(&rest, "/"));) {
        if (strncmp(part, "pci", 3) == 0 && strchr(part, ':') && !path.root[0]) {
            if (!gt_text_copy(path.root, sizeof(path.root), part))
                return;
        } else if (path.root[0] && depth < GT_COUNT(chain) && gt_bdf_normalise(part, chain[depth])) {
            depth++;
        }
    }
    /* The last one is the device itself; a chain that is too deep to hold ends without it. */
    if (!depth || strcmp(chain[depth - 1], fact->bdf) != 0)
        return;
    for (unsigned i = depth - 1; i-- > 0;)
        memcpy(path.bridges[path.depth++], chain[i], GT_BDF_SIZE);
    fact->path = path;
}

void gt_sysfs_fill(int rootfd, struct gt_fact *fact)
{
    char text[1024];
    snprintf(text, sizeof(text), "sys/bus/pci/devices/%s", fact->bdf);
    gt_auto_close int dirfd = openat(rootfd, text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return;
    if (gt_file_read_attribute(dirfd, "local_cpulist", text, sizeof(text)) > 0)
        gt_text_copy(fact->cpu_set, sizeof(fact->cpu_set), text);
    fact->now.speed = read_speed(dirfd, "current_link_speed");
    fact->now.width = read_width(dirfd, "current_link_width");
    fact->max.speed = read_speed(dirfd, "max_link_speed");
    fact->max.width = read_width(dirfd, "max_link_width");
    fact->virtual_function = readlinkat(dirfd, "physfn", text, sizeof(text)) > 0;
    first_entry(dirfd, "infiniband", fact->rdma, sizeof(fact->rdma));
    first_entry(dirfd, "net", fact->net, sizeof(fact->net));
    gt_lldp_fill(rootfd, dirfd, fact);
    fill_path(rootfd, fact);
    fill_drm(rootfd, dirfd, fact);
}

void gt_sysfs_fill_module(int rootfd, struct gt_facts *facts)
{
    if (gt_file_read_attribute(rootfd, "sys/module/metax/version", facts->driver_version,
                               sizeof(facts->driver_version)) < 0)
        facts->driver_version[0] = '\0';
}
