/* SPDX-License-Identifier: Apache-2.0 */
/* Times whole scans of a recorded sysfs root: bench_discovery ROOT [RUNS]; prints GPUs and the median in ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "topology/discovery/discovery.h"

enum { RUNS_MAX = 1000 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    uint64_t runs = 21;
    if (argc < 2 || argc > 3 || (argc == 3 && (!gt_text_to_unsigned(argv[2], RUNS_MAX, &runs) || !runs))) {
        fprintf(stderr, "usage: bench_discovery ROOT [RUNS]\n");
        return 2;
    }
    static double times[RUNS_MAX];
    unsigned gpus = 0;
    for (uint64_t i = 0; i < runs; i++) {
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_node struct gt_node *node = NULL;
        double start = now_ms();
        if (gt_scan(&(struct gt_scan_options){.root = argv[1]}, &node, NULL, &err) < 0) {
            fprintf(stderr, "bench_discovery: %s\n", gt_err_text(err));
            return 1;
        }
        times[i] = now_ms() - start;
        gpus = node->gpu_count;
    }
    qsort(times, runs, sizeof(times[0]), by_value);
    printf("%u %.3f\n", gpus, times[runs / 2]);
    return 0;
}
