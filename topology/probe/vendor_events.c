/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "topology/probe/mxsml_abi.h"
#include "topology/probe/vendor.h"

enum { EVENT_MASK = 1, FAILURES_MAX = 5, EVENT_GUARD = 4096 };

const char *const gt_vendor_event_functions[] = {"mxSmlEventSetCreate", "mxSmlDeviceRegisterEvents",
                                                 "mxSmlEventSetWait", NULL};

static void rest(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static bool vendor_events_send(int fd, const struct mx_event *event)
{
    char packet[96];
    int n = snprintf(packet, sizeof(packet), "{\"event\":{\"device\":%d,\"type\":%d}}", event->device_id,
                     event->type);
    return send(fd, packet, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
}

void gt_vendor_events(int fd, const uint32_t *devices, unsigned count, const char **ret_why)
{
    mx_event_set_create *create = (mx_event_set_create *)gt_vendor_symbol(gt_vendor_event_functions[0]);
    mx_event_register *enroll = (mx_event_register *)gt_vendor_symbol(gt_vendor_event_functions[1]);
    mx_event_wait *wait = (mx_event_wait *)gt_vendor_symbol(gt_vendor_event_functions[2]);
    void *set = NULL;
    if (!create || !enroll || !wait) {
        *ret_why = "the library has no events";
        return;
    }
    if (create(&set) != MX_OK) {
        *ret_why = "no event set";
        return;
    }
    unsigned enrolled = 0;
    for (unsigned i = 0; i < count; i++)
        enrolled += enroll(devices[i], EVENT_MASK, set) == MX_OK;
    if (!enrolled) {
        *ret_why = "no device takes part in events";
        return;
    }
    struct mx_event *event = malloc(sizeof(*event) + EVENT_GUARD); /* room for a longer structure */
    *ret_why = "the library failed to wait for events";
    /* The process ends with this loop, which frees the set. */
    for (unsigned failures = 0; event && failures < FAILURES_MAX;) {
        memset(event, 0, sizeof(*event));
        if (wait(set, event) != MX_OK) {
            failures++;
            rest(1000);
            continue;
        }
        failures = 0;
        if (!vendor_events_send(fd, event))
            break;
        rest(100); /* a storm of events is as good as one */
    }
    free(event);
}
