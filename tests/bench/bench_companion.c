/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the schedulers post to gputopo-scheduler, for companion.py:
 *
 *     bench_companion names NODES           kube-scheduler's, with nodeCacheCapable
 *     bench_companion whole NODES           the same without it
 *     bench_companion volcano NODES PODS    Volcano's prioritize, PODS on each node
 *     bench_companion predicate PODS        Volcano's predicate
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tests/bench/wire_bodies.h"

enum { NODES_MAX = 100000, PODS_MAX = 1000 };

static int usage(void)
{
    fprintf(stderr, "usage: bench_companion names NODES | volcano NODES PODS | predicate PODS\n");
    return 2;
}

int main(int argc, char **argv)
{
    gt_auto_buf struct gt_buf body = GT_BUF((size_t)1 << 30);
    uint64_t first = 0, second = 0;
    if (argc < 3 || !gt_text_to_unsigned(argv[2], NODES_MAX, &first) ||
        (argc > 3 && !gt_text_to_unsigned(argv[3], PODS_MAX, &second)))
        return usage();
    if (argc == 3 && strcmp(argv[1], "names") == 0)
        gt_body_extender(&body, (uint32_t)first);
    else if (argc == 4 && strcmp(argv[1], "volcano") == 0)
        gt_body_volcano(&body, (uint32_t)first, (uint32_t)second, false);
    else if (argc == 3 && strcmp(argv[1], "predicate") == 0)
        gt_body_volcano(&body, 1, (uint32_t)(first < PODS_MAX ? first : PODS_MAX), true);
    else
        return usage();
    if (body.failed || fwrite(body.data, 1, body.len, stdout) != body.len || fflush(stdout) != 0) {
        fprintf(stderr, "bench_companion: the body cannot be written\n");
        return 2;
    }
    return 0;
}
