/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "tests/fuzz/fuzz.h"
#include "topology/probe/answers.h"

/* Any log is refused, or leaves a node that can be finished. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1];
    const char *log = size ? (const char *)data : nothing;
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    char bdfs[GT_GPUS_MAX][GT_BDF_SIZE];
    unsigned unmatched;
    if (gt_node_new(8, 0, &node, NULL) < 0)
        return 0;
    for (unsigned i = 0; i < node->gpu_count; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", 0x0e + i);
    if (gt_answers_apply(log, size, node, &unmatched, &err) == 0 && gt_node_finish(node, &err) < 0) {
        fprintf(stderr, "%s\n", gt_err_text(err));
        abort();
    }
    if (gt_answers_bdfs(log, size, bdfs, NULL) > GT_GPUS_MAX)
        abort();
    return 0;
}
