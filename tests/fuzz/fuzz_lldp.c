/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tests/fuzz/fuzz.h"
#include "topology/discovery/backends.h"

/* What networkd knows of one interface, or what lldpd's client has printed: whatever it is, names of switches
 * can be shown. */
static void from_lldpd(const char *text, size_t size)
{
    gt_auto_facts struct gt_facts facts = {0};
    struct gt_fact *fact;
    if (gt_facts_add(&facts, "0000:01:00.0", &fact, NULL) < 0)
        return;
    memcpy(fact->net, "eth0", 5);
    gt_lldp_read_saved(text, size, &facts, NULL);
    if (!gt_text_is_printable(facts.devices[0].peer) || !gt_text_is_printable(facts.devices[0].peer_port))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char peer[GT_PEER_SIZE] = "", port[GT_PEER_SIZE] = "";
    if (gt_lldp_neighbour(data, size, peer, port) &&
        (!peer[0] || !gt_text_is_printable(peer) || !gt_text_is_printable(port)))
        abort();
    from_lldpd((const char *)data, size);
    return 0;
}
