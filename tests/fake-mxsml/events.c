/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/fake-mxsml/fake.h"

/* Events come in the order of the scenario, each `afterMs` after the set was made; then nothing, for ever. */

i32 mxSmlGetDeviceBoardId(u32 device)
{
    struct entry entry;
    const cJSON *from = enter("mxSmlGetDeviceBoardId", device, &entry);
    return from ? (i32)scenario_number(from, "boardId", device) : -1;
}

struct set {
    struct timespec made;
    int next;
    unsigned long long devices; /* registered */
};

enum result mxSmlEventSetCreate(EventSet *set)
{
    struct entry entry;
    if (!enter("mxSmlEventSetCreate", -1, &entry))
        return (enum result)entry.code;
    struct set *made = calloc(1, sizeof(*made));
    if (!made)
        return FAILURE;
    clock_gettime(CLOCK_MONOTONIC, &made->made);
    *set = made;
    return SUCCESS;
}

enum result mxSmlDeviceRegisterEvents(u32 device, unsigned long long mask, EventSet set)
{
    struct entry entry;
    struct set *to = set;
    if (!enter("mxSmlDeviceRegisterEvents", device, &entry))
        return (enum result)entry.code;
    if (mask != 1 || !to || device >= 64 || to->devices >> device & 1)
        return INVALID_INPUT;
    to->devices |= 1ULL << device;
    return SUCCESS;
}

enum result mxSmlEventSetWait(EventSet set, Event *event)
{
    struct entry entry;
    struct set *from = set;
    if (!enter("mxSmlEventSetWait", -1, &entry))
        return (enum result)entry.code;
    for (;;) {
        struct timespec now;
        const cJSON *next = cJSON_GetArrayItem(list_of("events"), from->next);
        clock_gettime(CLOCK_MONOTONIC, &now);
        double ms =
            (double)(now.tv_sec - from->made.tv_sec) * 1e3 + (double)(now.tv_nsec - from->made.tv_nsec) / 1e6;
        if (next && ms >= scenario_number(next, "afterMs", 0)) {
            from->next++;
            memset(event, 0, sizeof(*event));
            event->deviceId = (i32)scenario_number(next, "dev", 0);
            event->type = (i32)scenario_number(next, "type", 1);
            put_text(&entry, event->eventData, sizeof(event->eventData), scenario_text(next, "data", ""));
            return SUCCESS;
        }
        usleep(5000);
        scenario_refresh(false); /* a test may add events */
    }
}

enum result mxSmlEventSetFree(EventSet set)
{
    free(set);
    return SUCCESS;
}
