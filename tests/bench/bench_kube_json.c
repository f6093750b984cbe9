/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_kube.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"

/*
 * How fast objects are read. The text is a list of many copies, larger than the caches, as a page of a list
 * comes from the network. Lower bounds for any reader: to read every byte once (memchr for a byte that does
 * not occur), and to copy it once (memcpy). A time is the least of several repetitions.
 */
enum { REPEAT = 7, TEXT_SIZE = 64 << 20, OBJECT_MAX = 4 << 20 };

/* Megabytes per second; `did` is the least time in ns. */
static double rate(size_t bytes, uint64_t did)
{
    return (double)bytes * 1000 / (double)did;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void measure(const char *name, double value, const char *unit, const char *goal)
{
    printf("%s\t%.0f\t%s\t%s\n", name, value, unit, goal);
}

int bench_json(const char *path)
{
    gt_auto_free char *object = NULL;
    gt_auto_err struct gt_err *error = NULL;
    size_t len = 0;
    if (gt_file_read(AT_FDCWD, path, OBJECT_MAX, &object, &len, &error) < 0) {
        fprintf(stderr, "bench_kube: %s\n", gt_err_text(error));
        return 2;
    }
    size_t count = len ? TEXT_SIZE / len : 0, bytes = count * len;
    gt_auto_free char *text = malloc(bytes + 1), *copy = malloc(bytes + 1);
    if (!count || !text || !copy) {
        fprintf(stderr, "bench_kube: %s: %zu bytes are no object\n", path, len);
        return 2;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * len, object, len);
    memcpy(copy, text, bytes);
    uint64_t parse = UINT64_MAX, scan = UINT64_MAX, move = UINT64_MAX;
    for (unsigned round = 0; round < REPEAT; round++) {
        uint64_t start = gt_clock_ns();
        for (size_t i = 0; i < count; i++) {
            cJSON *json = cJSON_ParseWithLength(text + i * len, len);
            if (!json) {
                fprintf(stderr, "bench_kube: %s is no JSON\n", path);
                return 2;
            }
            cJSON_Delete(json);
        }
        parse = least(parse, gt_clock_ns() - start);
        start = gt_clock_ns();
        if (memchr(text, '\x01', bytes)) /* not in any JSON */
            return 2;
        scan = least(scan, gt_clock_ns() - start);
        start = gt_clock_ns();
        memcpy(copy, text, bytes);
        __asm__ volatile("" : : "r"(copy) : "memory"); /* it has to be done */
        move = least(move, gt_clock_ns() - start);
    }
    measure("an object's JSON", (double)len, "bytes", "-");
    measure("cJSON: read into a tree and freed", rate(bytes, parse), "MB/s", "-");
    measure("  one object", (double)parse / 1000 / (double)count, "us", "-");
    measure("bound: every byte looked at once (memchr)", rate(bytes, scan), "MB/s", "-");
    measure("bound: every byte moved once (memcpy)", rate(bytes, move), "MB/s", "-");
    return 0;
}
