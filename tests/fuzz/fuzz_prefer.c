/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "deviceplugin/answers.h"
#include "proto/deviceplugin.pb-c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_inventory.h"

/*
 * A PreferredAllocationRequest. Each container gets as many of the IDs named as it asks for and there are,
 * each once, those first that it must have.
 */
enum { COMPARED_MAX = 1024 }; /* IDs of a container: the check is quadratic */

static bool has(char *const *ids, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

/* How many different ones there are, beside those of `others`. */
static size_t different(char *const *ids, size_t count, char *const *others, size_t other_count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += !has(ids, i, ids[i]) && !has(others, other_count, ids[i]);
    return found;
}

static void check_container(const Dp__ContainerPreferredRequest *asked,
                            const Dp__ContainerPreferredResponse *got)
{
    size_t size = asked->size > 0 ? (size_t)asked->size : 0;
    if (got->n_ids > size)
        abort();
    if (asked->n_available > COMPARED_MAX || asked->n_must > COMPARED_MAX)
        return;
    size_t must = different(asked->must, asked->n_must, NULL, 0);
    size_t all = must + different(asked->available, asked->n_available, asked->must, asked->n_must);
    if (got->n_ids != (size < all ? size : all))
        abort();
    for (size_t i = 0; i < got->n_ids; i++) {
        bool is_must = has(asked->must, asked->n_must, got->ids[i]);
        if (has(got->ids, i, got->ids[i]) || is_must != (i < must) ||
            (!is_must && !has(asked->available, asked->n_available, got->ids[i])))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_buf struct gt_buf reply = GT_BUF(64 << 20);
    gt_auto_err struct gt_err *err = NULL;
    enum gt_rpc_status status = gt_answer_preferred(fuzz_inventory(), NULL, data, size, &reply, &err);
    if ((status == GT_RPC_OK) == (err != NULL) || (status != GT_RPC_OK && reply.len))
        abort();
    if (status != GT_RPC_OK)
        return 0;
    Dp__PreferredRequest *request = dp__preferred_request__unpack(NULL, size, data);
    Dp__PreferredResponse *response =
        dp__preferred_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    if (!request || !response || request->n_containers != response->n_containers)
        abort();
    for (size_t i = 0; i < request->n_containers; i++)
        check_container(request->containers[i], response->containers[i]);
    dp__preferred_request__free_unpacked(request, NULL);
    dp__preferred_response__free_unpacked(response, NULL);
    return 0;
}
