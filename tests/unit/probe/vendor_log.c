/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/probe/vendor_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 0))) static void add_v(struct vendor_log *log, const char *format,
                                                        va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    while (log->len + (size_t)n + 1 > log->capacity) {
        log->capacity = log->capacity ? 2 * log->capacity : 4096;
        log->text = realloc(log->text, log->capacity);
        if (!log->text)
            abort();
    }
    vsnprintf(log->text + log->len, (size_t)n + 1, format, args);
    log->len += (size_t)n;
}

__attribute__((format(printf, 2, 3))) static void add(struct vendor_log *log, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_v(log, format, args);
    va_end(args);
}

void log_begin(struct vendor_log *log)
{
    *log = (struct vendor_log){0};
    add(log, "{\"probe\":1,\"calls\":[");
}

void log_call(struct vendor_log *log, const char *call, const char *args, const char *format, ...)
{
    va_list rest;
    add(log, "%s{\"call\":\"%s\",\"args\":[%s],", log->calls++ ? "," : "", call, args);
    va_start(rest, format);
    add_v(log, format, rest);
    va_end(rest);
    add(log, "}");
}

void log_device(struct vendor_log *log, unsigned device)
{
    char args[16];
    snprintf(args, sizeof(args), "%u", device);
    log_call(
        log, "mxSmlGetDeviceInfo", args,
        "\"rc\":0,\"value\":{\"deviceId\":%u,\"bdfId\":\"0000:%02x:00.0\",\"uuid\":\"GPU-%u\",\"brand\":2,"
        "\"mode\":1,\"deviceName\":\"MXC500\"}",
        device, 0x0e + device, device);
}

void log_level(struct vendor_log *log, unsigned from, unsigned to, unsigned level)
{
    char args[32];
    snprintf(args, sizeof(args), "%u,%u", from, to);
    log_call(log, "mxSmlGetDeviceTopology", args, "\"rc\":0,\"value\":%u", level);
}

void log_remote(struct vendor_log *log, unsigned device, unsigned link, int remote)
{
    char args[32];
    snprintf(args, sizeof(args), "%u,%u", device, link);
    log_call(log, "mxSmlGetMetaXLinkRemoteInfo", args,
             "\"rc\":0,\"value\":{\"deviceId\":%d,\"bdfId\":\"0000:%02x:00.0\"}", remote, 0x0e + remote);
}

void log_end(struct vendor_log *log, const char *more)
{
    add(log, "],\"missing\":[],\"library\":{\"path\":\"/opt/x\"}%s}", more);
}

void log_done(struct vendor_log *log)
{
    free(log->text);
    *log = (struct vendor_log){0};
}

struct gt_node *log_node(unsigned gpus)
{
    struct gt_node *node = NULL;
    if (gt_node_new(gpus, 0, &node, NULL) < 0)
        abort();
    for (unsigned i = 0; i < gpus; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", 0x0e + i);
    return node;
}

bool log_misses(const struct gt_node *node, const char *what, const char *why)
{
    for (unsigned i = 0; i < node->missing_count; i++)
        if (strstr(node->missing[i].what, what) && strstr(node->missing[i].why, why))
            return true;
    log_print_missing(node);
    return false;
}

void log_print_missing(const struct gt_node *node)
{
    for (unsigned i = 0; i < node->missing_count; i++)
        fprintf(stderr, "  missing: %s: %s\n", node->missing[i].what, node->missing[i].why);
}
