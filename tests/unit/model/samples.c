/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"
#include "base/err.h"

#include <stdio.h>
#include <string.h>

const char *const sample_names[] = {"two-mesh",  "mesh-8", "dead-link", "nvswitch-16", "one",     "none",
                                    "no-vendor", "bare",   "big-64",    "unhealthy",   "hostile", NULL};

/* Where GPU i sits: behind a switch, a host bridge, a NUMA node. */
struct wiring {
    unsigned gpus, per_switch, switches_per_root, roots_per_numa;
    bool deep; /* a second level of switches below the first */
};

static void set_path(struct gt_pcie_path *path, unsigned root, unsigned upper, unsigned lower, unsigned port,
                     bool deep)
{
    unsigned bus = root * 0x20 + 1, at = 0;
    snprintf(path->root, sizeof(path->root), "pci0000:%02x", root * 0x20);
    snprintf(path->bridges[at++], GT_BDF_SIZE, "0000:%02x:%02x.0", bus + 3 + lower, port);
    snprintf(path->bridges[at++], GT_BDF_SIZE, "0000:%02x:00.%u", bus + 2 + lower, lower & 7);
    if (deep) {
        snprintf(path->bridges[at++], GT_BDF_SIZE, "0000:%02x:%02x.0", bus + 1, lower);
        snprintf(path->bridges[at++], GT_BDF_SIZE, "0000:%02x:00.0", bus);
    }
    snprintf(path->bridges[at++], GT_BDF_SIZE, "0000:%02x:%02x.0", root * 0x20, upper + 1);
    path->depth = at;
}

static struct gt_node *wire(const char *name, const struct wiring *wiring, unsigned nics)
{
    struct gt_node *node = NULL;
    if (gt_node_new(wiring->gpus, nics, &node, NULL) < 0)
        return NULL;
    snprintf(node->name, sizeof(node->name), "%s", name);
    snprintf(node->driver_version, sizeof(node->driver_version), "3.0.11");
    snprintf(node->library_version, sizeof(node->library_version), "2.2.9");
    for (unsigned i = 0; i < wiring->gpus; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        unsigned sw = i / wiring->per_switch, root = sw / wiring->switches_per_root;
        unsigned numa = root / wiring->roots_per_numa;
        snprintf(gpu->bdf, sizeof(gpu->bdf), "%04x:%02x:%02x.0", 0,
                 root * 0x20 + 8 + sw % wiring->switches_per_root * 8 + i % wiring->per_switch, 0);
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%08x-1c2d-4e5f-8a9b-%012x", 0xc500a0d1u + 0x01010101u * i,
                 i + 1);
        snprintf(gpu->product, sizeof(gpu->product), "MXC500");
        snprintf(gpu->serial, sizeof(gpu->serial), "S%06u", 4200 + i);
        snprintf(gpu->cpu_set, sizeof(gpu->cpu_set), "%u-%u,%u-%u", numa * 32, numa * 32 + 31, numa * 32 + 64,
                 numa * 32 + 95);
        gpu->vendor_index = (int)(wiring->gpus - 1 - i);
        gpu->health = GT_GPU_HEALTHY;
        gpu->pci.vendor = 0x9999;
        gpu->pci.device = 0x4001;
        gpu->memory_bytes = UINT64_C(64) << 30;
        gpu->numa_node = (int)numa;
        gpu->pci.now = gpu->pci.max = (struct gt_pcie_link){32, 16};
        gpu->drm_card = (int)i;
        gpu->drm_render = 128 + (int)i;
        set_path(&gpu->pci.path, root, wiring->deep ? 0 : sw % wiring->switches_per_root,
                 sw % wiring->switches_per_root, i % wiring->per_switch, wiring->deep);
    }
    return node;
}

static void join(struct gt_node *node, unsigned a, unsigned b, unsigned ports)
{
    struct gt_link *link = gt_node_link(node, a, b);
    link->kind = GT_LINK_MX;
    link->ports = ports;
    link->width = 16;
    link->speed = 32;
    link->state = GT_LINK_STATE_UP;
}

static void add_nic(struct gt_node *node, unsigned i, unsigned like_gpu, unsigned port)
{
    struct gt_nic *nic = &node->nics[i];
    const struct gt_gpu *gpu = &node->gpus[like_gpu];
    snprintf(nic->name, sizeof(nic->name), "mlx5_%u", i);
    snprintf(nic->bdf, sizeof(nic->bdf), "0000:%02x:00.%u", 0xc0 + i / 2, i & 1);
    nic->path = gpu->pci.path;
    snprintf(nic->path.bridges[0], GT_BDF_SIZE, "%.8s1%u.0", gpu->pci.path.bridges[0], port);
    nic->numa_node = gpu->numa_node;
}

static struct gt_node *two_mesh(const char *name)
{
    struct gt_node *node = wire(name, &(struct wiring){8, 4, 1, 2, false}, 6);
    if (!node)
        return NULL;
    for (unsigned b = 1; b < 8; b++)
        for (unsigned a = 0; a < b; a++)
            if (a / 4 == b / 4)
                join(node, a, b, 1);
    for (unsigned i = 0; i < 4; i++)
        add_nic(node, i, i / 2 * 4, 1 + i % 2);
    for (unsigned i = 4; i < 6; i++) {
        struct gt_nic *nic = &node->nics[i];
        snprintf(nic->name, sizeof(nic->name), "mlx5_%u", i);
        snprintf(nic->bdf, sizeof(nic->bdf), "0000:d8:00.%u", i - 4);
        snprintf(nic->path.root, sizeof(nic->path.root), "pci0000:d7");
        snprintf(nic->path.bridges[0], GT_BDF_SIZE, "0000:d7:00.0");
        nic->path.depth = 1;
        nic->numa_node = 1;
    }
    snprintf(node->server_uuid, sizeof(node->server_uuid), "7f0c1f5e-90ab-4cde-8123-000000000001");
    return node;
}

static struct gt_node *all_joined(const char *name, const struct wiring *wiring, unsigned nics)
{
    struct gt_node *node = wire(name, wiring, nics);
    if (!node)
        return NULL;
    for (unsigned i = 0; i < node->link_count; i++)
        join(node, node->links[i].a, node->links[i].b, 1 + (node->links[i].a ^ node->links[i].b) % 3 / 2);
    for (unsigned i = 0; i < nics; i++)
        add_nic(node, i, i * wiring->gpus / nics, 1 + i % 8);
    return node;
}

static struct gt_node *dead_link(const char *name)
{
    struct gt_node *node = wire(name, &(struct wiring){4, 2, 1, 1, false}, 2);
    if (!node)
        return NULL;
    for (unsigned i = 0; i < node->link_count; i++)
        join(node, node->links[i].a, node->links[i].b, 1);
    gt_node_link(node, 1, 3)->state = GT_LINK_STATE_DOWN;
    gt_node_link(node, 0, 2)->stale = true;
    gt_node_link(node, 0, 2)->measured_mbps = 90000; /* more than nominal */
    node->gpus[1].grade = GT_GRADE_SLOW;
    snprintf(node->gpus[1].grade_reason, sizeof(node->gpus[1].grade_reason), "memory bandwidth 70 %%");
    node->links_reported_s = 1767225600;
    node->kubelet =
        (struct gt_kubelet){"single-numa-node", "pod", "static", "/var/lib/kubelet/config.yaml", ""};
    node->numa_nodes[0] = (struct gt_numa_node){0, "0-31,64-95", UINT64_C(549755813888)};
    node->numa_nodes[1] = (struct gt_numa_node){1, "", 0};
    node->numa_node_count = 2;
    add_nic(node, 0, 0, 1);
    add_nic(node, 1, 2, 1);
    node->gpus[2].pci.now = (struct gt_pcie_link){16, 8};
    snprintf(node->server_uuid, sizeof(node->server_uuid), "7f0c1f5e-90ab-4cde-8123-00000000000a");
    for (unsigned i = 0; i < 3; i++)
        snprintf(node->remotes[i], GT_ID_SIZE, "7f0c1f5e-90ab-4cde-8123-00000000000%x", 11 + i);
    node->remote_count = 3;
    return node;
}

static struct gt_node *unhealthy(const char *name)
{
    struct gt_node *node = two_mesh(name);
    if (!node)
        return NULL;
    node->gpus[2].health = GT_GPU_UNHEALTHY;
    snprintf(node->gpus[2].unhealthy_reason, sizeof(node->gpus[2].unhealthy_reason),
             "double-bit ECC errors in DRAM");
    node->gpus[5].mode = GT_GPU_SGPU;
    gt_node_missing(node, "links of GPU 0000:08:00.0", "the vendor library did not answer within %d s", 3);
    return node;
}

static struct gt_node *no_vendor(const char *name)
{
    struct gt_node *node = wire(name, &(struct wiring){8, 2, 2, 1, false}, 4);
    if (!node)
        return NULL;
    for (unsigned i = 0; i < 8; i++) {
        memset(node->gpus[i].uuid, 0, sizeof(node->gpus[i].uuid));
        memset(node->gpus[i].product, 0, sizeof(node->gpus[i].product));
        memset(node->gpus[i].serial, 0, sizeof(node->gpus[i].serial));
        node->gpus[i].vendor_index = -1;
        node->gpus[i].health = GT_GPU_HEALTH_UNKNOWN;
        node->gpus[i].memory_bytes = 0;
    }
    for (unsigned i = 0; i < 4; i++)
        add_nic(node, i, 2 * i, 1);
    node->driver_version[0] = node->library_version[0] = '\0';
    gt_node_missing(node, "vendor library", "no libmxsml.so below /opt");
    snprintf(node->kubelet.unknown, sizeof(node->kubelet.unknown),
             "config.yaml: this is no KubeletConfiguration");
    gt_node_missing(node, "MetaXLink", "only the vendor library tells");
    return node;
}

/* Nothing known but the addresses. */
static struct gt_node *bare(void)
{
    struct gt_node *node = NULL;
    if (gt_node_new(3, 1, &node, NULL) < 0)
        return NULL;
    for (unsigned i = 0; i < 3; i++)
        snprintf(node->gpus[i].bdf, GT_BDF_SIZE, "10000:%02x:00.0", i);
    snprintf(node->nics[0].name, sizeof(node->nics[0].name), "eth0");
    return node;
}

/* Texts that try to break out of every format. */
static struct gt_node *hostile(void)
{
    struct gt_node *node = dead_link("a\"b\\c<d>&'e'\n\x1b[31m \xc3\xa9 \xff]]>${x}`y`-->");
    if (!node)
        return NULL;
    for (unsigned i = 0; i < 4; i++) {
        memset(node->gpus[i].product, 0, sizeof(node->gpus[i].product));
        memset(node->gpus[i].serial, 0, sizeof(node->gpus[i].serial));
    }
    snprintf(node->gpus[0].product, sizeof(node->gpus[0].product), "\"<script>&amp;\\N{x}\\l");
    snprintf(node->gpus[1].product, sizeof(node->gpus[1].product), "yes");
    snprintf(node->gpus[2].product, sizeof(node->gpus[2].product), "null");
    snprintf(node->gpus[3].product, sizeof(node->gpus[3].product), "1e3");
    snprintf(node->gpus[1].serial, sizeof(node->gpus[1].serial), "- a: #b");
    snprintf(node->gpus[2].serial, sizeof(node->gpus[2].serial), "0x1f");
    snprintf(node->gpus[3].serial, sizeof(node->gpus[3].serial), " 2026-01-31 ");
    snprintf(node->nics[0].name, sizeof(node->nics[0].name), "*alias & %%tag %s", "{}");
    snprintf(node->nics[0].peer, sizeof(node->nics[0].peer), "leaf-1");
    snprintf(node->nics[0].peer_port, sizeof(node->nics[0].peer_port), "Ethernet1/7");
    node->gpus[0].health = GT_GPU_UNHEALTHY;
    memset(node->gpus[0].unhealthy_reason, '\x80', sizeof(node->gpus[0].unhealthy_reason) - 1);
    gt_node_missing(node, "!tag", "| > @ ` \"' \t\r\n: #");
    gt_node_missing(node, "~", "%s", "");
    return node;
}

struct gt_node *sample_node(const char *name)
{
    struct gt_node *node = NULL;
    if (!strcmp(name, "two-mesh"))
        node = two_mesh("gpu-node-01");
    else if (!strcmp(name, "mesh-8"))
        node = all_joined("gpu-node-02", &(struct wiring){8, 2, 2, 1, false}, 4);
    else if (!strcmp(name, "dead-link"))
        node = dead_link("gpu-node-03");
    else if (!strcmp(name, "nvswitch-16"))
        node = all_joined("gpu-node-04", &(struct wiring){16, 2, 4, 1, true}, 8);
    else if (!strcmp(name, "one"))
        node = wire("gpu-node-05", &(struct wiring){1, 1, 1, 1, false}, 0);
    else if (!strcmp(name, "none") && gt_node_new(0, 0, &node, NULL) == 0)
        snprintf(node->name, sizeof(node->name), "cpu-node-06");
    else if (!strcmp(name, "no-vendor"))
        node = no_vendor("gpu-node-07");
    else if (!strcmp(name, "bare"))
        node = bare();
    else if (!strcmp(name, "big-64"))
        node = all_joined("gpu-node-64", &(struct wiring){64, 8, 2, 2, false}, 16);
    else if (!strcmp(name, "unhealthy"))
        node = unhealthy("gpu-node-08");
    else if (!strcmp(name, "hostile"))
        node = hostile();
    struct gt_err *err = NULL;
    if (node && gt_node_finish(node, &err) < 0) {
        fprintf(stderr, "sample %s: %s\n", name, gt_err_text(err));
        gt_err_free(err);
        gt_node_unref(node);
        node = NULL;
    }
    return node;
}
