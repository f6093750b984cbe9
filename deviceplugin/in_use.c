/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/in_use.h"

#include <string.h>

#include "base/text.h"

bool gt_in_use_has(const struct gt_in_use *in_use, const char *id)
{
    for (unsigned i = 0; i < in_use->count; i++)
        if (strcmp(in_use->ids[i], id) == 0)
            return true;
    return false;
}

bool gt_in_use_retired(const struct gt_in_use *in_use, const char *id)
{
    for (unsigned i = 0; i < in_use->retired_count; i++)
        if (strcmp(in_use->retired[i], id) == 0)
            return true;
    return false;
}

bool gt_in_use_retire(struct gt_in_use *in_use, const char *id)
{
    return in_use->retired_count < GT_GPUS_MAX && !gt_in_use_retired(in_use, id) &&
           gt_text_copy(in_use->retired[in_use->retired_count++], GT_ID_SIZE, id);
}

void gt_in_use_add(struct gt_in_use *in_use, const char *id)
{
    if (!gt_device_id_is_valid(id) || gt_in_use_has(in_use, id))
        return;
    if (in_use->count == GT_IN_USE_MAX)
        in_use->complete = false;
    else
        gt_text_copy(in_use->ids[in_use->count++], GT_ID_SIZE, id);
}

bool gt_in_use_equal(const struct gt_in_use *a, const struct gt_in_use *b)
{
    if (a->count != b->count || a->complete != b->complete || a->retired_count != b->retired_count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!gt_in_use_has(b, a->ids[i]))
            return false;
    return true;
}
