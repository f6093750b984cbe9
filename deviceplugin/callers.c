/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/callers.h"

void gt_callers_dialled(struct gt_callers *callers, const struct gt_rpc_caller *caller)
{
    if (callers->dialled_count < GT_DIALLED_MAX && caller->connection >= 0)
        callers->dialled[callers->dialled_count++] = caller->connection;
}

static bool has_dialled(const struct gt_callers *callers, int connection)
{
    for (unsigned i = 0; i < callers->dialled_count; i++)
        if (callers->dialled[i] == connection)
            return true;
    return false;
}

bool gt_callers_opened(struct gt_callers *callers, const struct gt_rpc_caller *caller, bool is_registered)
{
    bool is_kubelets = callers->dialled_count ? has_dialled(callers, caller->connection) : is_registered;
    if (callers->stream)
        return false;
    if (is_kubelets)
        callers->stream = caller->call;
    else if (!callers->early)
        callers->early = caller->call;
    return is_kubelets;
}

bool gt_callers_registered(struct gt_callers *callers)
{
    if (!callers->early || callers->stream || callers->dialled_count)
        return false;
    callers->stream = callers->early;
    return true;
}

bool gt_callers_gone(struct gt_callers *callers, const struct gt_rpc_caller *caller)
{
    if (caller->call == callers->early)
        callers->early = 0;
    if (caller->call != callers->stream)
        return false;
    callers->stream = 0;
    return true;
}
