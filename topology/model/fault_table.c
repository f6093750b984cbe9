/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/fault_table.h"

#define AT_ONCE(scans)                                                                                       \
    {                                                                                                        \
        .when = GT_FAULT_AT_ONCE, .times = 1, .within_s = 60, .threshold = 1, .recover_checks = (scans)      \
    }

const struct gt_fault_table gt_fault_table_default = {
    .rules =
        {
            [GT_SIGNAL_PCI_GONE] = AT_ONCE(3),
            [GT_SIGNAL_CONTROL_NODE] = AT_ONCE(1),
            [GT_SIGNAL_DRM_NODE] = AT_ONCE(1),
            [GT_SIGNAL_UNAVAILABLE] = AT_ONCE(3),
            [GT_SIGNAL_LIMITED] = AT_ONCE(3),
            [GT_SIGNAL_ECC_DRAM] = AT_ONCE(3),
            [GT_SIGNAL_ECC_SRAM] = AT_ONCE(3),
            [GT_SIGNAL_TEMPERATURE] = {GT_FAULT_AFTER, 3, 60, .threshold = 100, .recover_checks = 3,
                                       .recover_s = 60},
            [GT_SIGNAL_LIBRARY] = AT_ONCE(3),
            [GT_SIGNAL_CALL_HANG] = AT_ONCE(3),
            [GT_SIGNAL_CALL_ERROR] = {GT_FAULT_AFTER, 3, 120, .threshold = 1, .recover_checks = 3},
            [GT_SIGNAL_PCI_ERROR] = {GT_FAULT_AFTER, 3, 3600, .threshold = 1, .recover_checks = 1,
                                     .recover_s = 3600},
            [GT_SIGNAL_PCI_EVENT] = {GT_FAULT_AFTER, 3, 3600, .threshold = 1, .recover_checks = 1,
                                     .recover_s = 3600},
            [GT_SIGNAL_VENDOR_EVENT] = {GT_FAULT_REPORT, 3, 3600, .threshold = 1, .recover_checks = 1,
                                        .recover_s = 3600},
            [GT_SIGNAL_RECORDED] = AT_ONCE(3),
        },
    .flapping = {.falls = 3, .within_s = 600, .hold_s = 300, .hold_max_s = 3600},
};

const char *gt_fault_when_name(enum gt_fault_when when)
{
    static const char *const names[] = {
        [GT_FAULT_AT_ONCE] = "atOnce", [GT_FAULT_AFTER] = "after", [GT_FAULT_REPORT] = "reportOnly"};
    return names[when];
}
