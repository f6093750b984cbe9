/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/file/cluster_file.h"
#include "tests/fuzz/fuzz.h"

/* Lines of decisions are refused with the number of the line, or are made again. */
static void on_decision(void *arg, const struct gt_decision_again *again)
{
    (void)arg;
    if (!again->job || !again->time || !again->recorded || !again->made)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1];
    const struct gt_decision_file file = {on_decision, NULL};
    gt_auto_err struct gt_err *err = NULL;
    if (gt_decision_file_run(size ? (const char *)data : nothing, size, "input", &file, &err) < 0 &&
        strncmp(gt_err_text(err), "input: line ", 12) != 0) {
        fprintf(stderr, "an error without a place: %s\n", gt_err_text(err));
        abort();
    }
    return 0;
}
