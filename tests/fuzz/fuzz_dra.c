/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "deviceplugin/dra/server.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The same bytes as the kubelet's request about claims, as its notice about the registration, and as the file
 * of prepared claims: what is accepted can be written and read again with the same content. Also as a
 * composite's name, which is never that of other GPUs. */
static void read_request(const uint8_t *data, size_t size)
{
    struct gt_dra_request *request = NULL;
    if (gt_dra_request_read(data, size, &request, NULL) < 0)
        return;
    for (unsigned i = 0; i < request->count; i++)
        if (!gt_dra_claim_id_is_valid(&request->claims[i]))
            abort();
    free(request);
}

static void read_notice(const uint8_t *data, size_t size)
{
    char reason[64];
    bool registered;
    if (gt_dra_notice_read(data, size, &registered, reason, sizeof(reason), NULL) == 0 &&
        strlen(reason) >= sizeof(reason))
        abort();
}

static void read_file(const uint8_t *data, size_t size)
{
    gt_auto_buf struct gt_buf text = GT_BUF(16 << 20), other = GT_BUF(16 << 20);
    struct gt_dra_claims claims, again;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_dra_claims_read((const char *)data, size, "file", &claims, &err);
    if ((r < 0) != (err != NULL))
        abort();
    if (r < 0)
        return;
    gt_dra_claims_write(&claims, &text);
    if (gt_dra_claims_read(text.data, text.len, "file", &again, NULL) < 0)
        abort();
    gt_dra_claims_write(&again, &other);
    if (strcmp(text.data, other.data) != 0)
        abort();
    gt_dra_claims_done(&again);
    gt_dra_claims_done(&claims);
}

/* Eight GPUs, two link zones of four. */
static struct gt_node *make_node(void)
{
    struct gt_node *node = NULL;
    if (gt_node_new(8, 0, &node, NULL) < 0)
        abort();
    for (unsigned i = 0; i < 8; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:1%u:00.0", i);
    for (unsigned i = 0; i < node->link_count; i++)
        node->links[i].kind = node->links[i].a / 4 == node->links[i].b / 4 ? GT_LINK_MX : GT_LINK_SYS;
    if (gt_node_finish(node, NULL) < 0)
        abort();
    return node;
}

static void read_name(const uint8_t *data, size_t size)
{
    gt_auto_node struct gt_node *node = make_node();
    char text[GT_DRA_DEVICE_SIZE + 8], name[GT_DRA_DEVICE_SIZE];
    size_t len = size < sizeof(text) ? size : sizeof(text) - 1;
    bool same = false;
    memcpy(text, data, len);
    text[len] = '\0';
    uint64_t gpus = gt_composite_of_node(node, text);
    for (unsigned type = 0; gpus && type < GT_COMPOSITE_TYPES; type++) {
        gt_composite_name(node, (enum gt_composite_type)type, gpus, name);
        same = same || strcmp(name, text) == 0;
    }
    if (gpus && (!same || !gt_composite_is_name(text)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_request(data, size);
    read_notice(data, size);
    read_file(data, size);
    read_name(data, size);
    return 0;
}
