/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/isolation.h"
#include "api/measured.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

/* A file of faults or of measured values, as JSON or as the vendor's test prints it, as programs of the node
 * tell them, on a node of three GPUs: it is refused, or takes GPUs out of use, grades them and lowers
 * weights, and makes nothing that cannot be shown.
 */

enum { NOW_S = 1796000000 };

static void ignore(void *arg, const char *why)
{
    (void)arg;
    if (!*why)
        abort();
}

static void apply(const struct gt_isolations *faults, const struct gt_measured *measured)
{
    gt_auto_node struct gt_node *node = NULL;
    if (gt_node_new(3, 0, &node, NULL) < 0)
        return;
    for (unsigned i = 0; i < 3; i++) {
        memcpy(node->gpus[i].bdf, "0000:00:00.0", 13);
        node->gpus[i].bdf[6] = (char)('0' + i);
    }
    if (gt_node_finish(node, NULL) < 0)
        abort();
    uint32_t before = node->links[0].weight;
    if (gt_isolations_apply(faults, NOW_S, node, NULL) < 0 || gt_measured_apply(measured, node, NULL) < 0)
        return;
    if (node->links[0].weight > before)
        abort();
    for (unsigned i = 0; i < 3; i++)
        if (!gt_text_is_printable(node->gpus[i].grade_reason) ||
            !gt_text_is_printable(node->gpus[i].unhealthy_reason) ||
            (node->gpus[i].grade && !node->gpus[i].grade_reason[0]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gt_measured measured;
    static struct gt_isolations faults;
    struct gt_measured_reader reader = {.to = &measured, .now_s = NOW_S, .note = ignore};
    gt_auto_json cJSON *json = NULL;
    measured.count = faults.count = 0;
    if (gt_json_parse((const char *)data, size, "told", &json, NULL) >= 0) {
        gt_fault_list_read(json, &faults, NULL);
        gt_measured_read_file(json, "told", &reader, NULL);
        gt_measured_read_spec(json, "told", &reader, NULL);
    } else {
        gt_auto_free char *text = strndup((const char *)data, size);
        if (text)
            gt_measured_read_mxvs(text, "told", NOW_S, &reader, NULL);
    }
    if (reader.again_s && reader.again_s <= NOW_S)
        abort();
    for (unsigned i = 0; i < measured.count; i++)
        if (!measured.of[i].gpu[0] || !measured.of[i].mbps)
            abort();
    apply(&faults, &measured);
    return 0;
}
