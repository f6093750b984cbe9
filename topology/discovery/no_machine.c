/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "topology/discovery/backends.h"

/* In the client alone: the backends of a program without libpci and hwloc. */

static int no_machine(const char *library, struct gt_err **err)
{
    return gt_fail(err, ENOTSUP, "this program is built without %s; the gputopo of a node has it", library);
}

int gt_pci_scan(const char *root, struct gt_facts *facts, struct gt_err **err)
{
    (void)root;
    (void)facts;
    return no_machine("libpci", err);
}

int gt_hwloc_scan(const char *root, struct gt_facts *facts, char **ret_xml, struct gt_err **err)
{
    (void)root;
    (void)facts;
    (void)ret_xml;
    return no_machine("hwloc", err);
}

void gt_hwloc_prepare(const char *root)
{
    (void)root;
}

int gt_hwloc_read(const char *text, size_t len, const char *source, struct gt_facts *facts,
                  struct gt_err **err)
{
    (void)text;
    (void)len;
    (void)source;
    (void)facts;
    return no_machine("hwloc", err);
}
