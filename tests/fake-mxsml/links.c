/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fake-mxsml/fake.h"

/* PCIe and MetaXLink links, and the servers at their other end. */

static enum result pcie(const char *call, u32 device, const char *key, LinkInfo *info)
{
    struct entry entry;
    const cJSON *from = enter(call, device, &entry);
    if (!from)
        return (enum result)entry.code;
    from = cJSON_GetObjectItemCaseSensitive(from, key);
    info->speed = entry.fault == FAULT_GARBAGE ? NAN : (float)scenario_number(from, "speed", 32);
    info->width = put_number(&entry, (u32)scenario_number(from, "width", 16));
    return SUCCESS;
}

enum result mxSmlGetPcieInfo(u32 device, LinkInfo *info)
{
    return pcie("mxSmlGetPcieInfo", device, "pcie", info);
}

enum result mxSmlGetPcieMaxLinkInfo(u32 device, LinkInfo *info)
{
    return pcie("mxSmlGetPcieMaxLinkInfo", device, "pcieMax", info);
}

enum result mxSmlGetPcieThroughput(u32 device, Throughput *info)
{
    struct entry entry;
    if (!enter("mxSmlGetPcieThroughput", device, &entry))
        return (enum result)entry.code;
    *info = (Throughput){100, 200};
    return SUCCESS;
}

enum result mxSmlGetDeviceTopology(u32 device, u32 other, u32 *level)
{
    struct entry entry;
    if (!enter_link("mxSmlGetDeviceTopology", device, other, &entry))
        return (enum result)entry.code;
    if (!scenario_device(other))
        return INVALID_DEVICE_ID;
    const cJSON *row = cJSON_GetArrayItem(list_of("matrix"), (int)device);
    const cJSON *cell = cJSON_GetArrayItem(row, (int)other);
    *level = put_number(&entry, cJSON_IsNumber(cell) ? (u32)cell->valuedouble : device == other ? 0 : 6);
    return SUCCESS;
}

enum result mxSmlGetDeviceDistance(u32 device, u32 other, u32 *distance)
{
    struct entry entry;
    if (!enter("mxSmlGetDeviceDistance", device, &entry))
        return (enum result)entry.code;
    if (!scenario_device(other))
        return INVALID_DEVICE_ID;
    *distance = device == other ? 0 : 10;
    return SUCCESS;
}

/* The port that the scenario describes under this number, from 0. */
static const cJSON *port_of(const cJSON *device, u32 number)
{
    const cJSON *port;
    cJSON_ArrayForEach(
        port, cJSON_GetObjectItemCaseSensitive(device, "ports")) if (scenario_number(port, "port", -1) ==
                                                                     number) return port;
    return NULL;
}

static float speed_of(const struct entry *entry, const cJSON *port)
{
    if (entry->fault == FAULT_GARBAGE)
        return NAN;
    return port ? (float)scenario_number(port, "speed", 32) : 0;
}

static u32 width_of(const struct entry *entry, const cJSON *port)
{
    return put_number(entry, port ? (u32)scenario_number(port, "width", 16) : 0);
}

enum result mxSmlGetMetaXLinkInfo(u32 device, MetaXLinkInfo *info)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMetaXLinkInfo", device, &entry);
    if (!from)
        return (enum result)entry.code;
    for (u32 i = 0; i < PORTS; i++) {
        info->speed[i] = speed_of(&entry, port_of(from, i));
        info->width[i] = width_of(&entry, port_of(from, i));
    }
    return SUCCESS;
}

#ifndef FAKE_WITHOUT_OPTIONAL
enum result mxSmlGetMetaXLinkInfo_v2(u32 device, u32 *size, LinkInfo *info)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMetaXLinkInfo_v2", device, &entry);
    if (!from)
        return (enum result)entry.code;
    if (*size < PORTS) {
        *size = PORTS;
        return INSUFFICIENT_SIZE;
    }
    for (u32 i = 0; i < PORTS; i++)
        info[i] = (LinkInfo){speed_of(&entry, port_of(from, i)), width_of(&entry, port_of(from, i))};
    *size = entry.fault == FAULT_WRONG_SIZE ? UINT_MAX : PORTS;
    return SUCCESS;
}
#endif

enum result mxSmlGetMetaXLinkRemoteInfo(u32 device, u32 link, RemoteInfo *info)
{
    struct entry entry;
    const cJSON *from = enter_link("mxSmlGetMetaXLinkRemoteInfo", device, link, &entry);
    if (!from)
        return (enum result)entry.code;
    u32 base = (u32)scenario_number(scenario_root(), "linkBase", 0);
    if (link < base || link >= base + PORTS)
        return INVALID_INPUT;
    const cJSON *port = port_of(from, link - base);
    if (!cJSON_GetObjectItemCaseSensitive(port, "remoteDevice"))
        return NO_DEVICE;
    char bdf[TEXT_BDF];
    i32 remote = (i32)scenario_number(port, "remoteDevice", -1);
    snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", (u32)(0x0e + remote) & 0xff);
    info->deviceId = (i32)put_number(&entry, (u32)remote);
    put_text(&entry, info->bdfId, sizeof(info->bdfId),
             scenario_text(port, "remoteBdf",
                           scenario_text(scenario_device((u32)remote), "bdf", remote < 0 ? "" : bdf)));
    return SUCCESS;
}

enum result mxSmlGetDieMetaXLinkRemoteInfo(u32 device, u32 die, u32 link, DieRemoteInfo *info)
{
    RemoteInfo remote;
    enum result result = die ? INVALID_DIE_ID : mxSmlGetMetaXLinkRemoteInfo(device, link, &remote);
    if (result == SUCCESS) {
        memset(info, 0, sizeof(*info));
        info->deviceId = remote.deviceId;
        memcpy(info->bdfId, remote.bdfId, sizeof(info->bdfId));
    }
    return result;
}

enum result mxSmlGetMetaXLinkTopo(u32 device, LinkTopo *topo)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMetaXLinkTopo", device, &entry);
    if (!from)
        return (enum result)entry.code;
    *topo = (LinkTopo){put_number(&entry, (u32)scenario_number(from, "topologyId", 0)), device, 0};
    return SUCCESS;
}

enum result mxSmlGetMetaXLinkState(u32 device, u32 *code, char *text, u32 *size)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMetaXLinkState", device, &entry);
    if (!from)
        return (enum result)entry.code;
    *code = put_number(&entry, (u32)scenario_number(from, "linkState", 0));
    return put_sized_text(&entry, text, size, scenario_text(from, "linkStateText", "enabled"));
}

enum result mxSmlGetMetaXLinkPortState(u32 device, u32 *states, u32 *size)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMetaXLinkPortState", device, &entry);
    if (!from)
        return (enum result)entry.code;
    u32 need = entry.fault == FAULT_WRONG_SIZE ? UINT_MAX : PORTS;
    if (*size < need) {
        *size = need;
        return INSUFFICIENT_SIZE;
    }
    for (u32 i = 0; i < PORTS; i++) {
        const cJSON *port = port_of(from, i);
        states[i] = put_number(&entry, port ? (u32)scenario_number(port, "state", 1) : 5);
    }
    *size = PORTS;
    return SUCCESS;
}

static enum result per_port(const char *call, u32 device, u32 direction, u32 *size, void *to, size_t item)
{
    struct entry entry;
    if (!enter(call, device, &entry))
        return (enum result)entry.code;
    if (direction > 1)
        return INVALID_INPUT;
    if (*size < PORTS) {
        *size = PORTS;
        return INSUFFICIENT_SIZE;
    }
    memset(to, 0, PORTS * item);
    *size = PORTS;
    return SUCCESS;
}

enum result mxSmlGetMetaXLinkBandwidth(u32 device, u32 direction, u32 *size, Bandwidth *info)
{
    return per_port("mxSmlGetMetaXLinkBandwidth", device, direction, size, info, sizeof(*info));
}

enum result mxSmlGetMetaXLinkTrafficStat(u32 device, u32 direction, u32 *size, Traffic *info)
{
    return per_port("mxSmlGetMetaXLinkTrafficStat", device, direction, size, info, sizeof(*info));
}

enum result mxSmlGetMetaXLinkAer(u32 device, u32 *size, Aer *info)
{
    return per_port("mxSmlGetMetaXLinkAer", device, 0, size, info, sizeof(*info));
}

enum result mxSmlGetLocalAndRemoteUuid(char *local, char *remote, u32 *size)
{
    struct entry entry;
    const cJSON *server = list_of("server");
    if (!enter("mxSmlGetLocalAndRemoteUuid", -1, &entry))
        return (enum result)entry.code;
    if (!server)
        return NOT_SUPPORTED;
    if (*size < SERVER_UUID) {
        *size = SERVER_UUID;
        return INSUFFICIENT_SIZE;
    }
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(server, "remotes"), 0);
    put_text(&entry, local, *size, scenario_text(server, "uuid", ""));
    put_text(&entry, remote, *size, cJSON_IsString(first) ? first->valuestring : "");
    return SUCCESS;
}

enum result mxSmlGetLocalAndMultipleRemoteUuid(char *local, char **remotes, u32 *count, u32 *size)
{
    struct entry entry;
    const cJSON *server = list_of("server"), *remote;
    u32 used = 0;
    if (!enter("mxSmlGetLocalAndMultipleRemoteUuid", -1, &entry))
        return (enum result)entry.code;
    if (!server)
        return NOT_SUPPORTED;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(server, "remotes");
    if (*size < SERVER_UUID || *count < (u32)cJSON_GetArraySize(list)) {
        *size = SERVER_UUID;
        *count = (u32)cJSON_GetArraySize(list);
        return INSUFFICIENT_SIZE;
    }
    put_text(&entry, local, *size, scenario_text(server, "uuid", ""));
    cJSON_ArrayForEach(remote, list)
        put_text(&entry, remotes[used++], *size, cJSON_IsString(remote) ? remote->valuestring : "");
    *count = entry.fault == FAULT_WRONG_SIZE ? UINT_MAX : used;
    *size = SERVER_UUID;
    return SUCCESS;
}

enum result mxSmlGetOpticalModuleStatus(u32 device, OpticalStatus *status, u32 *size)
{
    struct entry entry;
    (void)status;
    if (!enter("mxSmlGetOpticalModuleStatus", device, &entry))
        return (enum result)entry.code;
    *size = 0;
    return SUCCESS;
}

enum result mxSmlGetOpticalModuleInfo(u32 device, OpticalInfo *info, u32 *size)
{
    struct entry entry;
    (void)info;
    if (!enter("mxSmlGetOpticalModuleInfo", device, &entry))
        return (enum result)entry.code;
    *size = 0;
    return SUCCESS;
}
