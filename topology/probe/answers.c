/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/answers.h"

#include <string.h>

#include "base/err.h"
#include "base/json_get.h"
#include "base/text.h"
#include "topology/probe/answers_internal.h"

enum { UNIT_DRIVER = 1, COUNT_SENSIBLE = 1024 };

static void probe_answers_read_text(const struct gt_answer *answer, char *to, size_t size)
{
    char text[128];
    if (gt_value_text(gt_get(answer->value, "text"), text, sizeof(text)))
        gt_text_copy(to, size, text);
}

static bool is_server_uuid(const cJSON *item, char to[static GT_ID_SIZE])
{
    if (!gt_value_text(item, to, GT_ID_SIZE) || strpbrk(to, " \"\\"))
        return false;
    return to[strspn(to, "0-")] != '\0'; /* all zeros: none */
}

static void add_remote(struct gt_node *node, const cJSON *item)
{
    char uuid[GT_ID_SIZE];
    if (!is_server_uuid(item, uuid)) {
        if (cJSON_IsString(item) && !item->valuestring[0])
            return; /* no such neighbour */
        gt_node_missing(node, "vendor library, server UUIDs", "a remote one is nonsense");
        return;
    }
    if (strcmp(uuid, node->server_uuid) == 0)
        return;
    if (GT_HAS_TEXT(node->remotes, node->remote_count, uuid))
        return;
    if (node->remote_count == GT_REMOTES_MAX)
        gt_node_missing(node, "vendor library, server UUIDs", "more than %d remote ones", GT_REMOTES_MAX);
    else
        gt_text_copy(node->remotes[node->remote_count++], GT_ID_SIZE, uuid);
}

static void read_servers(struct gt_node *node, const struct gt_answer *answer)
{
    const cJSON *remotes = gt_get(answer->value, "remotes"), *remote;
    char uuid[GT_ID_SIZE];
    uint64_t count;
    if (is_server_uuid(gt_get(answer->value, "local"), uuid))
        gt_text_copy(node->server_uuid, sizeof(node->server_uuid), uuid);
    else
        gt_node_missing(node, "vendor library, server UUIDs", "the own one is nonsense");
    if (gt_get(answer->value, "remote"))
        add_remote(node, gt_get(answer->value, "remote"));
    cJSON_ArrayForEach(remote, remotes) add_remote(node, gt_get(remote, "uuid"));
    if (gt_get(answer->value, "count") &&
        (!gt_json_is_unsigned(gt_get(answer->value, "count"), UINT32_MAX, &count) ||
         count > (uint64_t)cJSON_GetArraySize(remotes)))
        gt_node_missing(node, "vendor library, server UUIDs", "it counts more remote ones than it names");
}

static void read_system(struct gt_reading *reading)
{
    struct gt_node *node = reading->node;
    uint64_t count;
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        if (gt_answer_is(answer, "mxSmlGetMacaVersion"))
            probe_answers_read_text(answer, node->library_version, sizeof(node->library_version));
        else if (gt_answer_is(answer, "mxSmlGetDeviceVersion") && answer->arg_count == 2 &&
                 answer->args[1] == UNIT_DRIVER)
            probe_answers_read_text(answer, node->driver_version, sizeof(node->driver_version));
        else if (gt_answer_is(answer, "mxSmlGetLocalAndMultipleRemoteUuid") ||
                 gt_answer_is(answer, "mxSmlGetLocalAndRemoteUuid"))
            read_servers(node, answer);
        else if (gt_answer_is(answer, "mxSmlGetDeviceCount") &&
                 (!gt_json_is_unsigned(answer->value, UINT32_MAX, &count) || count > GT_VENDOR_DEVICES))
            gt_node_missing(node, "vendor library, number of GPUs", "%s",
                            cJSON_IsNumber(answer->value) && answer->value->valuedouble <= COUNT_SENSIBLE
                                ? "more than 64, only the first 64 are read"
                                : "nonsense");
    }
}

/* GPUs on the bus that the library does not list, though it answers. */
static void note_unnamed(struct gt_reading *reading)
{
    gt_auto_buf struct gt_buf list = GT_BUF(256);
    struct gt_node *node = reading->node;
    uint64_t unnamed = 0;
    unsigned count = 0;
    bool answered = false;
    for (unsigned i = 0; i < reading->answers->count; i++)
        answered = answered || (gt_answer_is(&reading->answers->calls[i], "mxSmlGetDeviceCount") &&
                                cJSON_IsNumber(reading->answers->calls[i].value));
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].vendor_index < 0) {
            unnamed |= UINT64_C(1) << i;
            count++;
        }
    if (!answered || !count)
        return;
    gt_text_add_mask(&list, unnamed);
    gt_node_missing(node, "vendor library, GPUs", "it answers for %u of %u, not for GPU %s",
                    node->gpu_count - count, node->gpu_count, list.failed ? "..." : list.data);
}

int gt_answers_apply(const char *log, size_t len, struct gt_node *node, unsigned *ret_unmatched,
                     struct gt_err **err)
{
    gt_auto_answers struct gt_answers answers = {0};
    GT_TRY(gt_answers_read(log, len, &answers, err));
    struct gt_reading reading = {.answers = &answers, .node = node};
    gt_read_identities(&reading);
    gt_read_devices(&reading);
    gt_read_health(&reading);
    gt_read_silence(&reading);
    gt_read_links(&reading);
    read_system(&reading);
    gt_read_failures(&reading);
    note_unnamed(&reading);
    *ret_unmatched = reading.unmatched;
    return 0;
}

int gt_answers_bdfs(const char *log, size_t len, char (*ret)[GT_BDF_SIZE], struct gt_err **err)
{
    gt_auto_answers struct gt_answers answers = {0};
    int count = 0;
    GT_TRY(gt_answers_read(log, len, &answers, err));
    for (unsigned i = 0; i < answers.count && count < GT_GPUS_MAX; i++) {
        char bdf[GT_BDF_SIZE];
        if ((!gt_answer_is(&answers.calls[i], "mxSmlGetDeviceInfo") &&
             !gt_answer_is(&answers.calls[i], "mxSmlGetLimitedDeviceInfo")) ||
            !gt_answer_bdf(&answers.calls[i], bdf))
            continue;
        if (!GT_HAS_TEXT(ret, (size_t)count, bdf))
            gt_text_copy(ret[count++], GT_BDF_SIZE, bdf);
    }
    return count;
}
