/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/text.h"
#include "deviceplugin/podresources_call.h"
#include "tests/fuzz/fuzz.h"

/* The same bytes as an answer of List, of GetAllocatableResources, and as a list of containers: an incomplete
 * message is an error, and every text is valid UTF-8. */
static const char resource[] = "metax-tech.com/gpu";

static void read_answer(enum gt_pod_method method, const uint8_t *data, size_t size)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_pod_answer answer;
    const struct gt_pod_wanted wanted = {resource, "metax-tech.com/sgpu", "gpu.metax-tech.com"};
    int r = gt_pod_answer_read(method, data, size, &wanted, &answer, &err);
    if ((r < 0) != (err != NULL))
        abort();
    if (r < 0)
        return;
    if (answer.uses.count > GT_DEVICE_USERS_MAX)
        abort();
    for (unsigned i = 0; i < answer.uses.count; i++) {
        const struct gt_device_user *holder = &answer.uses.users[i];
        if (!gt_text_is_utf8(holder->id) || !gt_text_is_utf8(holder->namespace) ||
            !gt_text_is_utf8(holder->pod) || !gt_text_is_utf8(holder->container) ||
            (method == GT_POD_ALLOCATABLE && holder->pod[0]))
            abort();
    }
    gt_pod_answer_done(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_listed_containers containers;
    read_answer(GT_POD_LIST, data, size);
    read_answer(GT_POD_ALLOCATABLE, data, size);
    int r = gt_pod_containers_read(data, size, resource, &containers, &err);
    if ((r < 0) != (err != NULL))
        abort();
    if (r < 0)
        return 0;
    if (containers.count > GT_LISTED_CONTAINERS_MAX)
        abort();
    for (unsigned i = 0; i < containers.count; i++)
        if (!containers.containers[i].pod || !containers.containers[i].namespace ||
            !containers.containers[i].container)
            abort();
    gt_pod_containers_done(&containers);
    return 0;
}
