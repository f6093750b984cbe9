/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "cli/check.h"
#include "deviceplugin/device_nodes.h"
#include "kube/yaml.h"

/* Whether the machine is ready for containers with GPUs: the kubelet, the runtime, device nodes, the clock.
 * Each reads a file or two below the host's root. */

enum { HOST_FILE_MAX = 1 << 20, RDMA_NODES_MAX = 1024 };

#define HOST_KUBELET_CONFIG "/var/lib/kubelet/config.yaml"
#define HOST_CONTAINERD     "/etc/containerd/config.toml"
#define HOST_SELINUX        "/sys/fs/selinux"
#define HOST_POD_RESOURCES  "/var/lib/kubelet/pod-resources/kubelet.sock"

static bool host_path(const struct cli_checked *checked, const char *name, char to[static PATH_MAX])
{
    return snprintf(to, PATH_MAX, "%s%s", checked->root, name) < PATH_MAX;
}

/* A setting of the kubelet's file, "" where it has none. False: there is no such file, and the check says so.
 */
static bool host_kubelet(const struct cli_checked *checked, struct cli_check *check, cJSON **ret)
{
    char path[PATH_MAX];
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len = 0;
    if (!host_path(checked, HOST_KUBELET_CONFIG, path))
        return false;
    if (gt_file_read(AT_FDCWD, path, HOST_FILE_MAX, &text, &len, &err) >= 0 &&
        gt_yaml_read(text, len, ret, &err) >= 0)
        return true;
    cli_check_cannot(check, "%.150s", gt_err_text(err));
    return false;
}

/* ---- device nodes ---- */

/* The next device node of the driver that is one, from *at on; NULL: no more. */
static const char *host_next_device(const struct cli_checked *checked, unsigned *at, struct stat *ret)
{
    char path[PATH_MAX];
    while (*at < checked->nodes.count) {
        const char *name = checked->nodes.names[(*at)++];
        if (snprintf(path, sizeof(path), "%s/%s", checked->dev_root, name) < PATH_MAX &&
            stat(path, ret) == 0 && S_ISCHR(ret->st_mode))
            return name;
    }
    return NULL;
}

/* What was found of the driver's device nodes, of which there must be some. */
static void host_judge_devices(struct cli_check *check, const struct cli_tally *tally, bool any, bool passed)
{
    cli_check_found_tally(check, "", tally);
    if (any)
        cli_check_evaluate(check, passed);
    else
        cli_check_cannot(check, "there is no device node of the driver");
}

static bool host_has_link(const struct cli_checked *checked, dev_t device)
{
    char path[PATH_MAX];
    struct stat found;
    return snprintf(path, sizeof(path), "%s/char/%u:%u", checked->dev_root, major(device), minor(device)) <
               PATH_MAX &&
           stat(path, &found) == 0 && found.st_rdev == device;
}

static void check_dev_char(const struct cli_checked *checked, struct cli_check *check)
{
    gt_auto_json cJSON *config = NULL;
    struct cli_tally missing = {0};
    struct stat device;
    unsigned at = 0, devices = 0, linked = 0;
    bool known = host_kubelet(checked, check, &config);
    if (!checked->root)
        return;
    const char *driver = known ? gt_get_string(config, "cgroupDriver") : "";
    for (const char *name; (name = host_next_device(checked, &at, &device)); devices++) {
        bool has = host_has_link(checked, device.st_rdev);
        linked += has;
        if (!has)
            cli_tally_add(&missing, "none of %s", name);
    }
    cli_check_found(check, "%u of %u links%s%s", linked, devices, *driver ? ", cgroup driver " : "", driver);
    host_judge_devices(check, &missing, devices, linked == devices || strcmp(driver, "cgroupfs") == 0);
}

static void check_rights(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally modes = {0};
    struct stat device;
    unsigned at = 0;
    bool open = true;
    while (host_next_device(checked, &at, &device)) {
        open = open && (device.st_mode & 0666) == 0666;
        cli_tally_add(&modes, "mode %04o", (unsigned)(device.st_mode & 07777));
    }
    host_judge_devices(check, &modes, modes.count, open);
}

static void check_rdma(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally names = {0};
    unsigned nics = 0, nodes = 0;
    char path[PATH_MAX];
    for (unsigned i = 0; i < checked->facts->count; i++)
        if (checked->facts->devices[i].rdma[0]) {
            cli_tally_add(&names, "%s", checked->facts->devices[i].rdma);
            nics++;
        }
    cli_check_found_tally(check, "", &names);
    if (!nics) {
        cli_check_cannot(check, "there is no RDMA NIC");
        return;
    }
    for (unsigned i = 0; i < RDMA_NODES_MAX; i++) {
        int len = snprintf(path, sizeof(path), "%s/infiniband/uverbs%u", checked->dev_root, i);
        nodes += len < PATH_MAX && access(path, F_OK) == 0;
    }
    cli_check_found(check, "%u device nodes", nodes);
    cli_check_evaluate(check, nodes >= nics);
}

/* ---- kubelet, runtime, clock ---- */

static void check_numa_policies(const struct cli_checked *checked, struct cli_check *check)
{
    gt_auto_json cJSON *config = NULL;
    if (!host_kubelet(checked, check, &config))
        return;
    const char *cpu = gt_get_string(config, "cpuManagerPolicy"),
               *policy = gt_get_string(config, "topologyManagerPolicy");
    unsigned numa = 0, last = UINT_MAX;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        unsigned own = (unsigned)checked->node->gpus[i].numa_node;
        numa += checked->node->gpus[i].numa_node >= 0 && own != last;
        last = own;
    }
    cli_check_found(check, "cpuManagerPolicy %.40s, topologyManagerPolicy %.40s", *cpu ? cpu : "none",
                    *policy ? policy : "none");
    if (numa < 2)
        cli_check_cannot(check, "the GPUs are on one NUMA node, or it is not known on which");
    else
        cli_check_evaluate(check, strcmp(cpu, "static") == 0 && *policy && strcmp(policy, "none") != 0);
}

/* The value of `key = value` on a line of its own, without quotes; false: there is none. */
static bool host_toml(const char *text, const char *key, char *to, size_t size)
{
    size_t len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *at = line + strspn(line, " \t");
        if (strncmp(at, key, len) != 0)
            continue;
        at += len;
        at += strspn(at, " \t");
        if (*at++ != '=')
            continue;
        at += strspn(at, " \t\"'");
        snprintf(to, size, "%.*s", (int)strcspn(at, " \t\"'#\r\n"), at);
        return true;
    }
    return false;
}

/* "1 1": as it is, and as it will be. */
static bool host_has_boolean(const struct cli_checked *checked, const char *name, bool otherwise)
{
    char path[PATH_MAX], file[128], text[16];
    snprintf(file, sizeof(file), HOST_SELINUX "/booleans/%s", name);
    if (!host_path(checked, file, path) || gt_file_read_attribute(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return otherwise;
    return text[0] == '1';
}

/* The type of "USER:ROLE:TYPE:LEVEL"; "" where the file has none. */
static void host_selinux_type(const struct cli_checked *checked, const char *device, char *to, size_t size)
{
    char path[PATH_MAX], label[256], *type = label;
    ssize_t n = -1;
    if (snprintf(path, sizeof(path), "%s/%s", checked->dev_root, device) < (int)sizeof(path))
        n = lgetxattr(path, "security.selinux", label, sizeof(label) - 1);
    label[n > 0 ? n : 0] = '\0';
    for (unsigned i = 0; i < 2 && type; i++)
        type = strchr(type, ':') ? strchr(type, ':') + 1 : NULL;
    snprintf(to, size, "%.*s", type ? (int)strcspn(type, ":") : 0, type ? type : "");
}

/* By the policy container-selinux. */
static void check_selinux(const struct cli_checked *checked, struct cli_check *check)
{
    char path[PATH_MAX], text[16], type[64];
    struct cli_tally types = {0};
    struct stat device;
    unsigned at = 0;
    bool allowed = true;
    if (!host_path(checked, HOST_SELINUX "/enforce", path))
        return;
    if (gt_file_read_attribute(AT_FDCWD, path, text, sizeof(text)) <= 0 || text[0] != '1') {
        cli_check_found(check, "not enforced");
        cli_check_evaluate(check, true);
        return;
    }
    bool all = host_has_boolean(checked, "container_use_devices", false);
    bool dri = host_has_boolean(checked, "container_use_dri_devices", true); /* older policies have it not */
    for (const char *name; (name = host_next_device(checked, &at, &device));) {
        host_selinux_type(checked, name, type, sizeof(type));
        cli_tally_add(&types, "%s", type[0] ? type : "no type");
        allowed = allowed && (all || (dri && strcmp(type, "dri_device_t") == 0) ||
                              strcmp(type, "container_file_t") == 0);
    }
    cli_check_found(check, "container_use_devices %s", all ? "on" : "off");
    host_judge_devices(check, &types, types.count, allowed);
}

static void check_containerd(const struct cli_checked *checked, struct cli_check *check)
{
    char path[PATH_MAX], version[16] = "1", cdi[16] = "", imports[16] = "";
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    if (!host_path(checked, HOST_CONTAINERD, path))
        return;
    if (gt_file_read(AT_FDCWD, path, HOST_FILE_MAX, &text, NULL, &err) < 0) {
        cli_check_cannot(check, "%.150s", gt_err_text(err));
        return;
    }
    host_toml(text, "version", version, sizeof(version));
    bool said = host_toml(text, "enable_cdi", cdi, sizeof(cdi));
    cli_check_found(check, "version %s%s%s", version, said ? ", enable_cdi " : "", cdi);
    if (!said && host_toml(text, "imports", imports, sizeof(imports)) && strcmp(imports, "[") == 0 &&
        strcmp(version, "3") < 0)
        cli_check_cannot(check, "it imports other files, which are not read here");
    else
        cli_check_evaluate(check, said ? strcmp(cdi, "true") == 0 : strcmp(version, "3") >= 0);
}

static void check_pod_resources(const struct cli_checked *checked, struct cli_check *check)
{
    char path[PATH_MAX];
    struct stat found;
    if (!host_path(checked, HOST_POD_RESOURCES, path))
        return;
    bool there = stat(path, &found) == 0;
    if (!there && errno == ENOENT &&
        (!host_path(checked, "/var/lib/kubelet", path) || access(path, F_OK) < 0))
        cli_check_cannot(check, "there is no kubelet in /var/lib/kubelet");
    else
        cli_check_evaluate(check, there && S_ISSOCK(found.st_mode));
}

static void check_clock(const struct cli_checked *checked, struct cli_check *check)
{
    struct timex state = {0};
    if (*checked->root) {
        cli_check_cannot(check, "the root is not this machine's");
        return;
    }
    int r = adjtimex(&state);
    if (r < 0)
        cli_check_cannot(check, "the kernel does not say it");
    else
        cli_check_evaluate(check, r != TIME_ERROR && !(state.status & STA_UNSYNC));
}

const struct cli_check_rule cli_check_host[] = {
    {"dev-char-links",
     "each device node has its link in /dev/char: with the cgroup "
     "driver systemd a container else loses its GPUs at "
     "systemctl daemon-reload",
     .judge = check_dev_char},
    {"device-rights",
     "everyone may read and write the device nodes: in a user namespace, or as a "
     "user without rights, a container else cannot open its GPU",
     .judge = check_rights, .needs = CLI_CHECK_MACHINE},
    {"selinux-types",
     "SELinux, where it is enforced, lets containers use the types of the device nodes: dri_device_t with "
     "container_use_dri_devices, others with container_use_devices",
     .judge = check_selinux, .needs = CLI_CHECK_MACHINE},
    {"rdma-devices", "each RDMA NIC beside the GPUs has a device node in /dev/infiniband",
     .judge = check_rdma, .needs = CLI_CHECK_MACHINE},
    {"numa-policies",
     "on several NUMA nodes the kubelet gives a pod CPUs beside its GPUs: cpuManagerPolicy static and a "
     "topologyManagerPolicy",
     .judge = check_numa_policies},
    {"containerd-cdi",
     "containerd resolves CDI names: its configuration has version 3 (containerd 2), or version 2 with "
     "enable_cdi = true",
     .judge = check_containerd, .needs = CLI_CHECK_MACHINE},
    {"pod-resources", "the kubelet says which pod has which GPU: its socket is at " HOST_POD_RESOURCES,
     .judge = check_pod_resources, .needs = CLI_CHECK_MACHINE},
    {"clock", "the clock is synchronised: certificates, leases and the ends of isolations depend on it",
     .judge = check_clock, .needs = CLI_CHECK_MACHINE},
    {.name = NULL},
};
