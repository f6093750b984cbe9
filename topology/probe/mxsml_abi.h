/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The part of libmxsml.so that is used, as plain C types on LP64. Our own declarations: the layout is the
 * library's, the names are ours. Only the worker process of gputopo-probe includes this.
 */
_Static_assert(sizeof(long) == 8 && sizeof(void *) == 8, "the library exists for LP64 only");

enum { MX_PORTS = 7, MX_LIMITED_MAX = 128 };

/* Return codes that the worker itself has to know. */
enum { MX_OK = 0, MX_INSUFFICIENT_SIZE = 10 };

struct mx_device_info {
    uint32_t device_id;
    uint32_t type; /* unused */
    char bdf[32];
    uint32_t gpu_id;
    uint32_t node_id;
    char uuid[96];
    uint32_t brand; /* 1 N, 2 C, 3 G */
    uint32_t mode;  /* 0 none, 1 PF, 2 VF */
    char name[32];
};
_Static_assert(sizeof(struct mx_device_info) == 184, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, bdf) == 8, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, gpu_id) == 40, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, node_id) == 44, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, uuid) == 48, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, brand) == 144, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, mode) == 148, "DeviceInfo");
_Static_assert(offsetof(struct mx_device_info, name) == 152, "DeviceInfo");

struct mx_id_list {
    int32_t number;
    int32_t ids[MX_LIMITED_MAX];
};
_Static_assert(sizeof(struct mx_id_list) == 516 && offsetof(struct mx_id_list, ids) == 4, "IdList");

struct mx_memory { /* KiB */
    int64_t visible_total, visible_used, vram_total, vram_used, xtt_total, xtt_used;
};
_Static_assert(sizeof(struct mx_memory) == 48 && offsetof(struct mx_memory, vram_total) == 16, "MemoryInfo");
_Static_assert(offsetof(struct mx_memory, xtt_used) == 40, "MemoryInfo");

struct mx_link { /* GT/s, lanes */
    float speed;
    uint32_t width;
};
_Static_assert(sizeof(struct mx_link) == 8 && offsetof(struct mx_link, width) == 4, "LinkInfo");

struct mx_port_links {
    float speed[MX_PORTS];
    uint32_t width[MX_PORTS];
};
_Static_assert(sizeof(struct mx_port_links) == 56 && offsetof(struct mx_port_links, width) == 28,
               "MetaXLinkInfo");

struct mx_remote {
    int32_t device_id;
    char bdf[32];
};
_Static_assert(sizeof(struct mx_remote) == 36 && offsetof(struct mx_remote, bdf) == 4, "RemoteInfo");

struct mx_link_topology {
    uint32_t topology_id, socket_id, die_id;
};
_Static_assert(sizeof(struct mx_link_topology) == 12 && offsetof(struct mx_link_topology, die_id) == 8,
               "MetaXLinkTopo");

struct mx_reason {
    int32_t code;
    char text[64];
};
_Static_assert(sizeof(struct mx_reason) == 68 && offsetof(struct mx_reason, text) == 4, "UnavailableReason");

struct mx_ecc {
    uint32_t sram_ce, sram_ue, dram_ce, dram_ue, retired_pages;
};
_Static_assert(sizeof(struct mx_ecc) == 20 && offsetof(struct mx_ecc, dram_ue) == 12, "EccErrors");

struct mx_pci_event {
    int32_t bit, count;
    char first_time[20];
    char name[64];
};
_Static_assert(sizeof(struct mx_pci_event) == 92 && offsetof(struct mx_pci_event, name) == 28, "PciEvent");

struct mx_event {
    int32_t device_id;
    int32_t type;
    char data[1024];
};
_Static_assert(sizeof(struct mx_event) == 1032 && offsetof(struct mx_event, data) == 8, "Event");

/* The types of the functions, by what they take and fill; every `uint32_t` result except mx_count's is a
 * return code. */
typedef uint32_t mx_init(void);
typedef uint32_t mx_count(void);
typedef uint32_t mx_text(char *text, uint32_t *size);
typedef uint32_t mx_device_text(uint32_t device, char *text, uint32_t *size);
typedef uint32_t mx_unit_text(uint32_t device, uint32_t unit, char *text, uint32_t *size);
typedef uint32_t mx_fill(uint32_t device, void *to);
typedef uint32_t mx_fill_of(uint32_t device, uint32_t number, void *to);
typedef uint32_t mx_get_ids(struct mx_id_list *to);
typedef uint32_t mx_get_mask(uint32_t device, uint32_t words, uint32_t *to);
typedef uint32_t mx_get_port_links(uint32_t device, struct mx_port_links *to);
typedef uint32_t mx_get_port_links_v2(uint32_t device, uint32_t *size, struct mx_link *to);
typedef uint32_t mx_get_link_state(uint32_t device, uint32_t *code, char *text, uint32_t *size);
typedef uint32_t mx_get_port_states(uint32_t device, uint32_t *states, uint32_t *size);
typedef uint32_t mx_get_pci_events(uint32_t device, uint32_t type, struct mx_pci_event *to, uint32_t *size);
typedef uint32_t mx_get_remote_server(char *local, char *remote, uint32_t *size);
typedef uint32_t mx_get_remote_servers(char *local, char **remotes, uint32_t *count, uint32_t *size);
typedef uint32_t mx_event_set_create(void **set);
typedef uint32_t mx_event_register(uint32_t device, uint64_t mask, void *set);
typedef uint32_t mx_event_wait(void *set, struct mx_event *to);
