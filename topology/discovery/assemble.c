/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "topology/discovery/facts.h"
#include "topology/discovery/replay.h"
#include "topology/probe/answers.h"

/* The last step of a live scan and of a replay alike: facts and vendor answers become a node. */

static bool has_gpus(const struct gt_facts *facts, unsigned vendor)
{
    for (unsigned i = 0; i < facts->count; i++)
        if (gt_fact_is_gpu(&facts->devices[i], vendor))
            return true;
    return false;
}

static void apply_answers(const struct gt_material *material, struct gt_node *node)
{
    if (!material->answers) {
        gt_node_missing(node, GT_MISSING_VENDOR, "%s",
                        material->answers_why && material->answers_why[0] ? material->answers_why
                                                                          : "not asked");
        return;
    }
    gt_auto_err struct gt_err *err = NULL;
    unsigned unmatched = 0;
    if (gt_answers_apply(material->answers, strlen(material->answers), node, &unmatched, &err) < 0)
        gt_node_missing(node, GT_MISSING_VENDOR, "%s", gt_err_text(err));
    else if (unmatched)
        gt_node_missing(node, "vendor devices",
                        "%u devices of the vendor library are at no PCI address known here", unmatched);
}

int gt_assemble(const struct gt_material *material, struct gt_node **ret, struct gt_err **err)
{
    char extra[GT_GPUS_MAX][GT_BDF_SIZE];
    int extras = 0;
    /* Without any PCI knowledge the vendor library's devices are the GPUs. */
    if (material->answers && !has_gpus(material->facts, material->vendor))
        extras = gt_answers_bdfs(material->answers, strlen(material->answers), extra, NULL);
    gt_auto_node struct gt_node *node = NULL;
    GT_TRY(gt_facts_to_node(material->facts, material->vendor, extra, extras > 0 ? (unsigned)extras : 0,
                            &node, err));
    if (material->name && gt_text_is_printable(material->name)) /* it may be that of a recording */
        gt_text_copy(node->name, sizeof(node->name), material->name);
    apply_answers(material, node);
    GT_TRY(gt_node_finish(node, err));
    *ret = gt_steal(node);
    return 0;
}
