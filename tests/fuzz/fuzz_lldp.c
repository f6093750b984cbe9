/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "topology/discovery/backends.h"

/* What networkd knows of one interface: whatever it is, names of switches can be shown. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char peer[GT_PEER_SIZE] = "", port[GT_PEER_SIZE] = "";
    if (gt_lldp_neighbour(data, size, peer, port) &&
        (!peer[0] || !gt_text_is_printable(peer) || !gt_text_is_printable(port)))
        abort();
    return 0;
}
