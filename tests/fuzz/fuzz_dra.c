/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/messages.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The same bytes as the kubelet's request about claims, as its word on the registration, and as the file of
 * prepared claims: what is taken can be written, read again, and says the same. */
static void read_request(const uint8_t *data, size_t size)
{
    struct gt_dra_request request;
    if (gt_dra_request_read(data, size, &request, NULL) < 0)
        return;
    for (unsigned i = 0; i < request.count; i++)
        if (!gt_dra_claim_id_is_valid(&request.claims[i]))
            abort();
    gt_dra_request_done(&request);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_request(data, size);
    read_notice(data, size);
    read_file(data, size);
    return 0;
}
