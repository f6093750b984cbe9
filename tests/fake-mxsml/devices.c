/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake-mxsml/fake.h"

/* Counts, identities, state, memory and counters of devices. */

const cJSON *enter_link(const char *call, long device, long link, struct entry *entry)
{
    static const cJSON none;
    scenario_refresh(false);
    entry->code = FAILURE;
    entry->fault = scenario_fault(call, device, link, &entry->code);
    if (entry->fault == FAULT_CODE)
        return NULL;
    if (device < 0)
        return &none;
    entry->code = INVALID_DEVICE_ID;
    return scenario_device((unsigned)device);
}

const cJSON *enter(const char *call, long device, struct entry *entry)
{
    return enter_link(call, device, -1, entry);
}

void put_text(const struct entry *entry, char *to, size_t size, const char *text)
{
    if (entry->fault == FAULT_UNTERMINATED) {
        memset(to, 'A', size);
        return;
    }
    if (entry->fault == FAULT_GARBAGE) {
        memset(to, 0xfe, size - 1);
        to[size - 1] = '\0';
        return;
    }
    memset(to, 0, size);
    size_t len = strlen(text);
    memcpy(to, text, len < size ? len : size - 1);
}

u32 put_number(const struct entry *entry, u32 number)
{
    return entry->fault == FAULT_GARBAGE ? 0xfefefefe : number;
}

enum result put_sized_text(const struct entry *entry, char *to, u32 *size, const char *text)
{
    u32 need = (u32)strlen(text) + 1;
    if (entry->fault == FAULT_WRONG_SIZE)
        need = UINT_MAX;
    if (*size < need) {
        *size = need;
        return INSUFFICIENT_SIZE;
    }
    put_text(entry, to, *size, text);
    *size = need;
    return SUCCESS;
}

const cJSON *list_of(const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(scenario_root(), key);
}

__attribute__((constructor)) static void on_load(void)
{
    scenario_refresh(true);
    scenario_hide_symbols();
}

enum result mxSmlInit(void)
{
    struct entry entry;
    scenario_refresh(true);
    return enter("mxSmlInit", -1, &entry) ? SUCCESS : (enum result)entry.code;
}

enum result mxSmlInitWithFlags(u32 flags)
{
    return flags > 1 ? INVALID_INPUT : mxSmlInit();
}

const char *mxSmlGetErrorString(enum result result)
{
    return result == SUCCESS ? "success" : "failure";
}

u32 mxSmlGetDeviceCount(void)
{
    struct entry entry;
    enter("mxSmlGetDeviceCount", -1, &entry);
    if (entry.fault == FAULT_CODE)
        return (u32)entry.code;
    return put_number(&entry, (u32)scenario_number(scenario_root(), "count", scenario_devices()));
}

u32 mxSmlGetPfDeviceCount(void)
{
    struct entry entry;
    enter("mxSmlGetPfDeviceCount", -1, &entry);
    return put_number(&entry, scenario_devices());
}

enum result mxSmlGetMacaVersion(char *text, u32 *size)
{
    struct entry entry;
    if (!enter("mxSmlGetMacaVersion", -1, &entry))
        return (enum result)entry.code;
    return put_sized_text(&entry, text, size, scenario_text(list_of("versions"), "maca", "2.29.0.19"));
}

enum result mxSmlGetDeviceVersion(u32 device, u32 unit, char *text, u32 *size)
{
    struct entry entry;
    if (!enter("mxSmlGetDeviceVersion", device, &entry))
        return (enum result)entry.code;
    if (unit > 1)
        return INVALID_INPUT;
    return put_sized_text(&entry, text, size,
                          unit ? scenario_text(list_of("versions"), "driver", "2.12.13")
                               : scenario_text(list_of("versions"), "bios", "1.20.3.0"));
}

static void fill_info(const struct entry *entry, u32 device, const cJSON *from, DeviceInfo *info)
{
    char text[64];
    memset(info, 0, sizeof(*info));
    if (entry->fault == FAULT_WRONG_SIZE) /* a later release's longer structure */
        memset(info, 0x11, sizeof(*info) + 64);
    info->deviceId = put_number(entry, device);
    snprintf(text, sizeof(text), "0000:%02x:00.0", 0x0e + device);
    put_text(entry, info->bdfId, sizeof(info->bdfId), scenario_text(from, "bdf", text));
    info->gpuId = device;
    info->nodeId = (u32)scenario_number(from, "numaNode", 0);
    snprintf(text, sizeof(text), "GPU-00000000-0000-0000-0000-%012x", device);
    put_text(entry, info->uuid, sizeof(info->uuid), scenario_text(from, "uuid", text));
    info->brand = put_number(entry, (u32)scenario_number(from, "brand", 2));
    info->mode = put_number(entry, (u32)scenario_number(from, "mode", 1));
    put_text(entry, info->deviceName, sizeof(info->deviceName), scenario_text(from, "name", "MXC500"));
}

enum result mxSmlGetDeviceInfo(u32 device, DeviceInfo *info)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetDeviceInfo", device, &entry);
    if (!from)
        return (enum result)entry.code;
    fill_info(&entry, device, from, info);
    return SUCCESS;
}

enum result mxSmlGetAllLimitedDevices(IdList *list)
{
    struct entry entry;
    if (!enter("mxSmlGetAllLimitedDevices", -1, &entry))
        return (enum result)entry.code;
    memset(list, 0, sizeof(*list));
    int count = cJSON_GetArraySize(list_of("limited"));
    for (int i = 0; i < count && i < LIMITED; i++)
        list->deviceId[i] = i;
    list->number = (i32)put_number(&entry, (u32)count);
    return SUCCESS;
}

enum result mxSmlGetLimitedDeviceInfo(u32 device, DeviceInfo *info)
{
    struct entry entry;
    if (!enter("mxSmlGetLimitedDeviceInfo", -1, &entry))
        return (enum result)entry.code;
    const cJSON *from = device < LIMITED ? cJSON_GetArrayItem(list_of("limited"), (int)device) : NULL;
    if (!from)
        return INVALID_DEVICE_ID;
    fill_info(&entry, device, from, info);
    return SUCCESS;
}

static enum result get_number(const char *call, u32 device, u32 *to, const char *key, u32 otherwise)
{
    struct entry entry;
    const cJSON *from = enter(call, device, &entry);
    if (!from)
        return (enum result)entry.code;
    *to = put_number(&entry, (u32)(l64)scenario_number(from, key, otherwise));
    return SUCCESS;
}

enum result mxSmlGetDeviceDieCount(u32 device, u32 *count)
{
    return get_number("mxSmlGetDeviceDieCount", device, count, "dies", 1);
}

enum result mxSmlGetDeviceSlot(u32 device, u32 *slot)
{
    return get_number("mxSmlGetDeviceSlot", device, slot, "slot", device);
}

enum result mxSmlGetDeviceState(u32 device, i32 *state)
{
    u32 value = 0;
    enum result result = get_number("mxSmlGetDeviceState", device, &value, "state", 1);
    if (result == SUCCESS)
        *state = (i32)value;
    return result;
}

enum result mxSmlGetEccState(u32 device, u32 *state)
{
    return get_number("mxSmlGetEccState", device, state, "eccState", 1);
}

enum result mxSmlGetTemperatureInfo(u32 device, u32 sensor, i32 *temperature)
{
    u32 value = 0;
    if (sensor)
        return INVALID_INPUT;
    enum result result = get_number("mxSmlGetTemperatureInfo", device, &value, "temperature", 3600);
    if (result == SUCCESS)
        *temperature = (i32)value;
    return result;
}

enum result mxSmlGetBoardSerial(u32 device, char *text, u32 *size)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetBoardSerial", device, &entry);
    return from ? put_sized_text(&entry, text, size, scenario_text(from, "serial", "B0000001"))
                : (enum result)entry.code;
}

enum result mxSmlGetChipSerial(u32 device, char *text, u32 *size)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetChipSerial", device, &entry);
    return from ? put_sized_text(&entry, text, size, scenario_text(from, "chipSerial", "C0000001"))
                : (enum result)entry.code;
}

enum result mxSmlGetDeviceRealPath(u32 device, char *text, u32 *size)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetDeviceRealPath", device, &entry);
    return from ? put_sized_text(&entry, text, size,
                                 scenario_text(from, "realPath", "/sys/devices/pci0000:00"))
                : (enum result)entry.code;
}

enum result mxSmlGetDieMemoryInfo(u32 device, u32 die, MemoryInfo *info)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetMemoryInfo", device, &entry);
    if (!from)
        return (enum result)entry.code;
    if (die)
        return INVALID_DIE_ID;
    memset(info, 0, sizeof(*info));
    info->vramTotal = info->visVramTotal = (l64)scenario_number(from, "vramKiB", 67108864);
    info->vramUse = info->visVramUse = (l64)scenario_number(from, "vramUseKiB", 845824);
    if (entry.fault == FAULT_GARBAGE)
        info->vramTotal = LONG_MIN;
    return SUCCESS;
}

enum result mxSmlGetMemoryInfo(u32 device, MemoryInfo *info)
{
    return mxSmlGetDieMemoryInfo(device, 0, info);
}

enum result mxSmlGetDeviceUnavailableReason(u32 device, Reason *reason)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetDeviceUnavailableReason", device, &entry);
    if (!from)
        return (enum result)entry.code;
    from = cJSON_GetObjectItemCaseSensitive(from, "unavailableReason");
    reason->code = (i32)put_number(&entry, (u32)scenario_number(from, "code", 0));
    put_text(&entry, reason->text, sizeof(reason->text), scenario_text(from, "text", ""));
    return SUCCESS;
}

enum result mxSmlGetDieUnavailableReason(u32 device, u32 die, Reason *reason)
{
    return die ? INVALID_DIE_ID : mxSmlGetDeviceUnavailableReason(device, reason);
}

enum result mxSmlGetTotalEccErrors(u32 device, EccErrors *errors)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetTotalEccErrors", device, &entry);
    if (!from)
        return (enum result)entry.code;
    from = cJSON_GetObjectItemCaseSensitive(from, "ecc");
    errors->sramCE = put_number(&entry, (u32)scenario_number(from, "sramCE", 0));
    errors->sramUE = put_number(&entry, (u32)scenario_number(from, "sramUE", 0));
    errors->dramCE = put_number(&entry, (u32)scenario_number(from, "dramCE", 0));
    errors->dramUE = put_number(&entry, (u32)scenario_number(from, "dramUE", 0));
    errors->retiredPage = put_number(&entry, (u32)scenario_number(from, "retiredPage", 0));
    if (entry.fault == FAULT_GARBAGE)
        errors->dramUE = UINT_MAX;
    return SUCCESS;
}

enum result mxSmlGetDieTotalEccErrors(u32 device, u32 die, EccErrors *errors)
{
    return die ? INVALID_DIE_ID : mxSmlGetTotalEccErrors(device, errors);
}

enum result mxSmlGetPciEventInfo(u32 device, u32 type, PciEvent *events, u32 *size)
{
    struct entry entry;
    static const char *const kinds[] = {"aerUE", "aerCE", "syncFlood", "doubleBit", "mmio"};
    const cJSON *from = enter("mxSmlGetPciEventInfo", device, &entry);
    if (!from)
        return (enum result)entry.code;
    if (type > 4)
        return INVALID_INPUT;
    double count = scenario_number(cJSON_GetObjectItemCaseSensitive(from, "pciEvents"), kinds[type], 0);
    if (count > 0 && *size) {
        memset(events, 0, sizeof(*events));
        events->count = (i32)put_number(&entry, (u32)count);
        put_text(&entry, events->name, sizeof(events->name), kinds[type]);
    }
    *size = count > 0;
    return SUCCESS;
}

static enum result put_mask(const struct entry *entry, u32 words, u32 *mask, const char *list)
{
    memset(mask, entry->fault == FAULT_GARBAGE ? 0xff : 0, words * sizeof(*mask));
    for (char *p = NULL; *list; list = *p == ',' ? p + 1 : p) {
        unsigned long first = strtoul(list, &p, 10), last = first;
        if (*p == '-')
            last = strtoul(p + 1, &p, 10);
        for (; first <= last; first++) {
            if (first / 32 >= words)
                return INSUFFICIENT_SIZE;
            mask[first / 32] |= 1U << first % 32;
        }
        if (*p && *p != ',')
            return FAILURE;
    }
    return SUCCESS;
}

enum result mxSmlGetCpuAffinity(u32 device, u32 words, u32 *mask)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetCpuAffinity", device, &entry);
    return from ? put_mask(&entry, words, mask, scenario_text(from, "cpus", "0-31,64-95"))
                : (enum result)entry.code;
}

enum result mxSmlGetNodeAffinity(u32 device, u32 words, u32 *mask)
{
    struct entry entry;
    char node[16];
    const cJSON *from = enter("mxSmlGetNodeAffinity", device, &entry);
    if (!from)
        return (enum result)entry.code;
    snprintf(node, sizeof(node), "%u", (u32)scenario_number(from, "numaNode", 0));
    return put_mask(&entry, words, mask, node);
}
