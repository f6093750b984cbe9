/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The whole documented interface of libmxsml.so, for LP64. It is written from the table of functions and
 * structures, independently of the header that the product uses, so that tests find a mistake in one of the
 * two.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_SIZE(type, size)          static_assert(sizeof(type) == (size), #type)
#define CHECK_PLACE(type, field, place) static_assert(offsetof(type, field) == (place), #type "." #field)

typedef unsigned int u32;
typedef int i32;
typedef long l64;

CHECK_SIZE(u32, 4);
CHECK_SIZE(l64, 8);
CHECK_SIZE(float, 4);
CHECK_SIZE(void *, 8);

enum result {
    SUCCESS = 0,
    FAILURE = 1,
    NO_DEVICE = 2,
    NOT_SUPPORTED = 3,
    INVALID_DEVICE_ID = 6,
    INVALID_DIE_ID = 7,
    INVALID_INPUT = 9,
    INSUFFICIENT_SIZE = 10,
    TOO_MANY_EVENT_SETS = 23,
};
CHECK_SIZE(enum result, 4);

enum { PORTS = 7, TEXT_BDF = 32, TEXT_UUID = 96, TEXT_NAME = 32, LIMITED = 128, SERVER_UUID = 64 };

typedef struct {
    u32 deviceId;
    u32 type;
    char bdfId[TEXT_BDF];
    u32 gpuId;
    u32 nodeId;
    char uuid[TEXT_UUID];
    u32 brand;
    u32 mode;
    char deviceName[TEXT_NAME];
} DeviceInfo;
CHECK_SIZE(DeviceInfo, 184);
CHECK_PLACE(DeviceInfo, deviceId, 0);
CHECK_PLACE(DeviceInfo, type, 4);
CHECK_PLACE(DeviceInfo, bdfId, 8);
CHECK_PLACE(DeviceInfo, gpuId, 40);
CHECK_PLACE(DeviceInfo, nodeId, 44);
CHECK_PLACE(DeviceInfo, uuid, 48);
CHECK_PLACE(DeviceInfo, brand, 144);
CHECK_PLACE(DeviceInfo, mode, 148);
CHECK_PLACE(DeviceInfo, deviceName, 152);

typedef struct {
    i32 number;
    i32 deviceId[LIMITED];
} IdList;
CHECK_SIZE(IdList, 516);
CHECK_PLACE(IdList, deviceId, 4);

typedef struct {
    l64 visVramTotal, visVramUse, vramTotal, vramUse, xttTotal, xttUse;
} MemoryInfo;
CHECK_SIZE(MemoryInfo, 48);
CHECK_PLACE(MemoryInfo, visVramUse, 8);
CHECK_PLACE(MemoryInfo, vramTotal, 16);
CHECK_PLACE(MemoryInfo, vramUse, 24);
CHECK_PLACE(MemoryInfo, xttTotal, 32);
CHECK_PLACE(MemoryInfo, xttUse, 40);

typedef struct {
    float speed;
    u32 width;
} LinkInfo;
CHECK_SIZE(LinkInfo, 8);
CHECK_PLACE(LinkInfo, width, 4);

typedef struct {
    i32 rx, tx;
} Throughput;
CHECK_SIZE(Throughput, 8);
CHECK_PLACE(Throughput, tx, 4);

typedef struct {
    float speed[PORTS];
    u32 width[PORTS];
} MetaXLinkInfo;
CHECK_SIZE(MetaXLinkInfo, 56);
CHECK_PLACE(MetaXLinkInfo, width, 28);

typedef struct {
    i32 deviceId;
    char bdfId[TEXT_BDF];
} RemoteInfo;
CHECK_SIZE(RemoteInfo, 36);
CHECK_PLACE(RemoteInfo, bdfId, 4);

typedef struct {
    i32 deviceId;
    char bdfId[TEXT_BDF];
    u32 dieId;
} DieRemoteInfo;
CHECK_SIZE(DieRemoteInfo, 40);
CHECK_PLACE(DieRemoteInfo, dieId, 36);

typedef struct {
    u32 topologyId, socketId, dieId;
} LinkTopo;
CHECK_SIZE(LinkTopo, 12);
CHECK_PLACE(LinkTopo, socketId, 4);
CHECK_PLACE(LinkTopo, dieId, 8);

typedef struct {
    i32 req, resp;
} Bandwidth;
CHECK_SIZE(Bandwidth, 8);
CHECK_PLACE(Bandwidth, resp, 4);

typedef struct {
    l64 req, resp;
} Traffic;
CHECK_SIZE(Traffic, 16);
CHECK_PLACE(Traffic, resp, 8);

typedef struct {
    i32 ce, ue;
} Aer;
CHECK_SIZE(Aer, 8);
CHECK_PLACE(Aer, ue, 4);

typedef struct {
    i32 code;
    char text[64];
} Reason;
CHECK_SIZE(Reason, 68);
CHECK_PLACE(Reason, text, 4);

typedef struct {
    u32 sramCE, sramUE, dramCE, dramUE, retiredPage;
} EccErrors;
CHECK_SIZE(EccErrors, 20);
CHECK_PLACE(EccErrors, sramUE, 4);
CHECK_PLACE(EccErrors, dramCE, 8);
CHECK_PLACE(EccErrors, dramUE, 12);
CHECK_PLACE(EccErrors, retiredPage, 16);

typedef struct {
    i32 bitNumber;
    i32 count;
    char firstTime[20];
    char name[64];
} PciEvent;
CHECK_SIZE(PciEvent, 92);
CHECK_PLACE(PciEvent, count, 4);
CHECK_PLACE(PciEvent, firstTime, 8);
CHECK_PLACE(PciEvent, name, 28);

typedef struct {
    i32 temperature;
    u32 voltage, moduleState, dataPathState, rxState[2], version[2];
} OpticalStatus;
CHECK_SIZE(OpticalStatus, 32);
CHECK_PLACE(OpticalStatus, rxState, 16);
CHECK_PLACE(OpticalStatus, version, 24);

typedef struct {
    char name[32];
    u32 oui[3];
    char pn[32], rev[32], sn[32];
} OpticalInfo;
CHECK_SIZE(OpticalInfo, 140);
CHECK_PLACE(OpticalInfo, oui, 32);
CHECK_PLACE(OpticalInfo, pn, 44);
CHECK_PLACE(OpticalInfo, rev, 76);
CHECK_PLACE(OpticalInfo, sn, 108);

typedef struct {
    i32 deviceId;
    i32 type;
    char eventData[1024];
} Event;
CHECK_SIZE(Event, 1032);
CHECK_PLACE(Event, type, 4);
CHECK_PLACE(Event, eventData, 8);

typedef void *EventSet;

enum result mxSmlInit(void);
enum result mxSmlInitWithFlags(u32 flags);
const char *mxSmlGetErrorString(enum result result);
u32 mxSmlGetDeviceCount(void);
u32 mxSmlGetPfDeviceCount(void);
enum result mxSmlGetMacaVersion(char *text, u32 *size);
enum result mxSmlGetDeviceVersion(u32 device, u32 unit, char *text, u32 *size);
enum result mxSmlGetDeviceInfo(u32 device, DeviceInfo *info);
enum result mxSmlGetAllLimitedDevices(IdList *list);
enum result mxSmlGetLimitedDeviceInfo(u32 device, DeviceInfo *info);
enum result mxSmlGetDeviceDieCount(u32 device, u32 *count);
enum result mxSmlGetBoardSerial(u32 device, char *text, u32 *size);
enum result mxSmlGetChipSerial(u32 device, char *text, u32 *size);
i32 mxSmlGetDeviceBoardId(u32 device);
enum result mxSmlGetDeviceSlot(u32 device, u32 *slot);
enum result mxSmlGetDeviceRealPath(u32 device, char *text, u32 *size);
enum result mxSmlGetMemoryInfo(u32 device, MemoryInfo *info);
enum result mxSmlGetDieMemoryInfo(u32 device, u32 die, MemoryInfo *info);
enum result mxSmlGetPcieInfo(u32 device, LinkInfo *info);
enum result mxSmlGetPcieMaxLinkInfo(u32 device, LinkInfo *info);
enum result mxSmlGetPcieThroughput(u32 device, Throughput *info);
enum result mxSmlGetDeviceTopology(u32 device, u32 other, u32 *level);
enum result mxSmlGetDeviceDistance(u32 device, u32 other, u32 *distance);
enum result mxSmlGetCpuAffinity(u32 device, u32 words, u32 *mask);
enum result mxSmlGetNodeAffinity(u32 device, u32 words, u32 *mask);
enum result mxSmlGetMetaXLinkInfo(u32 device, MetaXLinkInfo *info);
enum result mxSmlGetMetaXLinkInfo_v2(u32 device, u32 *size, LinkInfo *info);
enum result mxSmlGetMetaXLinkRemoteInfo(u32 device, u32 link, RemoteInfo *info);
enum result mxSmlGetDieMetaXLinkRemoteInfo(u32 device, u32 die, u32 link, DieRemoteInfo *info);
enum result mxSmlGetMetaXLinkTopo(u32 device, LinkTopo *topo);
enum result mxSmlGetMetaXLinkState(u32 device, u32 *code, char *text, u32 *size);
enum result mxSmlGetMetaXLinkPortState(u32 device, u32 *states, u32 *size);
enum result mxSmlGetMetaXLinkBandwidth(u32 device, u32 direction, u32 *size, Bandwidth *info);
enum result mxSmlGetMetaXLinkTrafficStat(u32 device, u32 direction, u32 *size, Traffic *info);
enum result mxSmlGetMetaXLinkAer(u32 device, u32 *size, Aer *info);
enum result mxSmlGetLocalAndRemoteUuid(char *local, char *remote, u32 *size);
enum result mxSmlGetLocalAndMultipleRemoteUuid(char *local, char **remotes, u32 *count, u32 *size);
enum result mxSmlGetOpticalModuleStatus(u32 device, OpticalStatus *status, u32 *size);
enum result mxSmlGetOpticalModuleInfo(u32 device, OpticalInfo *info, u32 *size);
enum result mxSmlGetDeviceState(u32 device, i32 *state);
enum result mxSmlGetDeviceUnavailableReason(u32 device, Reason *reason);
enum result mxSmlGetDieUnavailableReason(u32 device, u32 die, Reason *reason);
enum result mxSmlGetTotalEccErrors(u32 device, EccErrors *errors);
enum result mxSmlGetDieTotalEccErrors(u32 device, u32 die, EccErrors *errors);
enum result mxSmlGetEccState(u32 device, u32 *state);
enum result mxSmlGetPciEventInfo(u32 device, u32 type, PciEvent *events, u32 *size);
enum result mxSmlGetTemperatureInfo(u32 device, u32 sensor, i32 *temperature);

/* Not in every release. */
enum result mxSmlEventSetCreate(EventSet *set);
enum result mxSmlDeviceRegisterEvents(u32 device, unsigned long long mask, EventSet set);
enum result mxSmlEventSetWait(EventSet set, Event *event);
enum result mxSmlEventSetFree(EventSet set);
