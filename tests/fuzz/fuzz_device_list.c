/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "deviceplugin/answers.h"
#include "proto/deviceplugin.pb-c.h"
#include "tests/fuzz/fuzz.h"

/* The list of another plugin: it has as many of our devices as a comparison one by one finds, or it is not a
 * list. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ours[] = {"GPU-0", "GPU-1", "GPU-2", "PCI-0000:0e:00.0"};
    unsigned shared = 0, expected = 0;
    bool is_list = gt_answer_list_shares(data, size, ours, GT_COUNT(ours), &shared);
    Dp__DeviceList *list = dp__device_list__unpack(NULL, size, data);
    if (is_list && !list)
        abort();
    for (size_t i = 0; list && i < list->n_devices; i++)
        for (size_t k = 0; k < GT_COUNT(ours); k++)
            expected += strcmp(list->devices[i]->id, ours[k]) == 0;
    if (is_list && shared != expected)
        abort();
    if (list)
        dp__device_list__free_unpacked(list, NULL);
    return 0;
}
