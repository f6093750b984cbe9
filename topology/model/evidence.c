/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/evidence.h"

#include <stdarg.h>
#include <stdio.h>

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
            [GT_SIGNAL_LEFT_OVER] = {GT_FAULT_AFTER, 3, 60, .threshold = 1536, .limit_s = 86400,
                                     .recover_checks = 3},
            [GT_SIGNAL_NIC_DOWN] = {GT_FAULT_REPORT, 3, 3600, .threshold = 1, .recover_checks = 3},
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

static const struct {
    const char *name, *text; /* the text where a source gives none */
    enum gt_signal_kind kind;
} signals[GT_SIGNALS] = {
    [GT_SIGNAL_PCI_GONE] = {"pciGone", "does not answer on the PCI bus", GT_SIGNAL_STATE},
    [GT_SIGNAL_CONTROL_NODE] = {"controlNodeMissing", "the control device node is missing", GT_SIGNAL_STATE},
    [GT_SIGNAL_DRM_NODE] = {"drmNodeMissing", "a DRM device node is missing", GT_SIGNAL_STATE},
    [GT_SIGNAL_UNAVAILABLE] = {"unavailable", "the vendor library calls it not available", GT_SIGNAL_STATE},
    [GT_SIGNAL_LIMITED] = {"limited", "the vendor library lists it as limited, not usable", GT_SIGNAL_STATE},
    [GT_SIGNAL_ECC_DRAM] = {"eccDram", "uncorrectable DRAM ECC errors", GT_SIGNAL_LEVEL},
    [GT_SIGNAL_ECC_SRAM] = {"eccSram", "uncorrectable SRAM ECC errors", GT_SIGNAL_LEVEL},
    [GT_SIGNAL_TEMPERATURE] = {"temperature", "too hot", GT_SIGNAL_LEVEL},
    [GT_SIGNAL_LIBRARY] = {"librarySilent", "the vendor library does not answer for it", GT_SIGNAL_STATE},
    [GT_SIGNAL_CALL_HANG] = {"callHang", "calls of the vendor library hang for it", GT_SIGNAL_STATE},
    [GT_SIGNAL_CALL_ERROR] = {"callError", "calls of the vendor library fail for it", GT_SIGNAL_STATE},
    [GT_SIGNAL_PCI_ERROR] = {"pciError", "errors on the PCI bus", GT_SIGNAL_COUNTER},
    [GT_SIGNAL_PCI_EVENT] = {"pciEvent", "PCI events of the vendor library", GT_SIGNAL_COUNTER},
    [GT_SIGNAL_VENDOR_EVENT] = {"vendorEvent", "events of the vendor library", GT_SIGNAL_COUNTER},
    [GT_SIGNAL_LEFT_OVER] = {"leftOver", "memory is in use, and no container holds it", GT_SIGNAL_LEVEL},
    [GT_SIGNAL_NIC_DOWN] = {"nicDown", "a NIC nearest to it has no link", GT_SIGNAL_STATE},
    [GT_SIGNAL_RECORDED] = {"recorded", "the recording calls it unhealthy", GT_SIGNAL_STATE},
};

const char *gt_signal_name(enum gt_signal signal)
{
    return signal < GT_SIGNALS ? signals[signal].name : signal == GT_SIGNALS ? "flapping" : "isolated";
}

const char *gt_signal_text(enum gt_signal signal)
{
    return signal < GT_SIGNALS ? signals[signal].text : "";
}

enum gt_signal_kind gt_signal_kind(enum gt_signal signal)
{
    return signals[signal].kind;
}

void gt_evidence_seen(struct gt_evidence *evidence, enum gt_signal signal, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(evidence->text[signal], sizeof(evidence->text[signal]), format, args);
    va_end(args);
    evidence->known |= 1U << signal;
    evidence->seen |= 1U << signal;
}

void gt_evidence_absent(struct gt_evidence *evidence, enum gt_signal signal)
{
    evidence->known |= 1U << signal;
}

void gt_evidence_value(struct gt_evidence *evidence, enum gt_signal signal, uint32_t value)
{
    evidence->known |= 1U << signal;
    evidence->value[signal] = value;
}
