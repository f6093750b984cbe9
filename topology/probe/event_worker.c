/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/text.h"
#include "topology/probe/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { PAUSE_MS = 60000 }; /* before one that ended is started again */

void gt_event_worker_stop(struct gt_event_worker *events)
{
    gt_worker_stop(&events->worker, NULL, 0);
}

static bool send_request(const struct gt_event_worker *events, const char *request)
{
    return send(events->worker.fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

void gt_event_worker_run(struct gt_event_worker *events, const struct gt_library *library, uint64_t devices,
                         bool verbose)
{
    bool others = devices && devices != events->devices && gt_clock_signed_ms() >= events->again;
    if (events->worker.pid && (others || !gt_library_same(library, &events->library)))
        gt_event_worker_stop(events);
    if (!events->wanted || events->worker.pid || !devices || gt_clock_signed_ms() < events->again)
        return;
    events->again = gt_clock_signed_ms() + PAUSE_MS;
    if (gt_worker_start(&events->worker, "gputopo-events", verbose, NULL) < 0)
        return;
    events->library = *library;
    events->devices = devices;
    /* All requests at once: the answers come when they come. */
    char open[PATH_MAX + 8], list[8 + 4 * GT_EVENT_DEVICES_MAX];
    snprintf(open, sizeof(open), "open %s", library->path);
    int n = snprintf(list, sizeof(list), "events");
    for (unsigned i = 0; i < GT_EVENT_DEVICES_MAX; i++)
        if (devices >> i & 1)
            n += snprintf(list + n, sizeof(list) - (size_t)n, " %u", i);
    if (!send_request(events, open) || !send_request(events, "call mxSmlInit") || !send_request(events, list))
        gt_event_worker_stop(events);
}

int gt_event_worker_fd(const struct gt_event_worker *events)
{
    return events->worker.pid ? events->worker.fd : -1;
}

static bool begins(const char *packet, ssize_t len, const char *with)
{
    return (size_t)len > strlen(with) && memcmp(packet, with, strlen(with)) == 0;
}

static void event_worker_count(struct gt_event_worker *events, const char *packet)
{
    static const char head[] = "{\"event\":{\"device\":";
    char digits[8] = "";
    uint64_t device;
    if (strncmp(packet, head, strlen(head)) != 0)
        return;
    packet += strlen(head);
    size_t len = strspn(packet, "0123456789");
    memcpy(digits, packet, len < sizeof(digits) ? len : 0);
    if (gt_text_to_unsigned(digits, GT_EVENT_DEVICES_MAX - 1, &device))
        events->reported[device]++;
}

bool gt_event_worker_take(struct gt_event_worker *events)
{
    bool any = false;
    for (;;) {
        char packet[256];
        ssize_t n = recv(events->worker.fd, packet, sizeof(packet) - 1, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return any;
        if (n <= 0 || begins(packet, n, "{\"error\":")) { /* it ended, or cannot wait for events */
            gt_event_worker_stop(events);
            return any;
        }
        packet[n] = '\0';
        if (begins(packet, n, "{\"event\":")) {
            event_worker_count(events, packet);
            any = true;
        }
    }
}
