/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "scheduler-ext/wire/request.h"
#include "tests/fuzz/fuzz.h"

/* Requests of both schedulers, in one piece and in pieces; what is answered must be JSON of the right size.
 */

static void add(uint64_t *digest, const char *text)
{
    *digest = gt_digest_number(gt_digest_bytes(*digest, text, text ? strlen(text) : 0), 0xff);
}

static void add_number(uint64_t *digest, uint64_t number)
{
    *digest = gt_digest_number(*digest, number);
}

static void add_pod(uint64_t *digest, const struct gt_pod *pod)
{
    add(digest, pod->meta.namespace_);
    add(digest, pod->meta.name);
    add(digest, pod->uid);
    const struct gt_pod_gpus *gpus = &pod->gpus;
    unsigned sum = 0;
    for (unsigned i = 0; i < gpus->containers + gpus->inits; i++) {
        if (!gpus->counts[i] || gpus->counts[i] > GT_POD_GPUS_MAX)
            abort();
        sum += i < gpus->containers ? gpus->counts[i] : 0;
        add_number(digest, gpus->counts[i]);
    }
    if (gpus->total != sum || gpus->total > GT_POD_GPUS_MAX || gpus->sidecars > gpus->containers)
        abort();
}

static void add_nodes(uint64_t *digest, const struct gt_wire_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        if (!request->nodes[i][0] || strlen(request->nodes[i]) > 253 || request->idle[i] < -1)
            abort();
        add(digest, request->nodes[i]);
        add_number(digest, (uint64_t)request->idle[i]);
    }
}

static cJSON *parse(const struct gt_buf *to)
{
    cJSON *json = NULL;
    if (to->failed || gt_json_parse(to->data, to->len, "the answer", &json, NULL) < 0)
        abort();
    return json;
}

static int size_of(const cJSON *json, const char *key)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(json, key));
}

static void answer_extender(const struct gt_wire_request *request)
{
    uint32_t count = request->count, failed = 0, infeasible = 0;
    struct gt_filter_verdict *verdicts = calloc(count + 1, sizeof(*verdicts));
    uint8_t *scores = calloc(count + 1, 1);
    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    for (uint32_t i = 0; i < count; i++) {
        verdicts[i].reason = i % 3 ? request->nodes[i] : NULL;
        verdicts[i].unresolvable = i % 3 == 2;
        failed += i % 3 == 1;
        infeasible += i % 3 == 2;
        scores[i] = (uint8_t)i;
    }
    gt_filter_answer(&to, request, verdicts);
    cJSON *json = parse(&to);
    if (size_of(json, "NodeNames") != (int)(count - failed - infeasible) ||
        size_of(json, "FailedNodes") != (int)failed ||
        size_of(json, "FailedAndUnresolvableNodes") != (int)infeasible)
        abort();
    cJSON_Delete(json);
    gt_buf_consume(&to, to.len);
    gt_prioritize_answer(&to, request, scores);
    json = parse(&to);
    if (cJSON_GetArraySize(json) != (int)count)
        abort();
    cJSON_Delete(json);
    free(verdicts);
    free(scores);
}

static void answer_volcano(const struct gt_wire_request *request)
{
    double *scores = calloc(request->count + 1, sizeof(*scores));
    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    for (uint32_t i = 0; i < request->count; i++)
        scores[i] = request->idle[i];
    gt_node_score_answer(&to, request, scores);
    cJSON *json = parse(&to);
    if (size_of(json, "nodeScore") != (int)request->count)
        abort();
    cJSON_Delete(json);
    gt_buf_consume(&to, to.len);
    gt_predicate_answer(&to, request->pod.meta.name, GT_VOLCANO_UNSCHEDULABLE);
    cJSON_Delete(parse(&to));
    free(scores);
}

static int run(struct gt_wire_request *request, const uint8_t *data, size_t size, size_t step,
               uint64_t *digest)
{
    struct gt_err *err = NULL;
    int r = 0;
    gt_wire_request_reset(request);
    for (size_t at = 0; at < size && r == 0; at += step)
        r = gt_wire_request_feed(request, (const char *)data + at, size - at < step ? size - at : step, &err);
    if (r == 0)
        r = gt_wire_request_read(request, &err);
    if ((r < 0) != (err != NULL))
        abort();
    add(digest, gt_err_text(err));
    gt_err_free(err);
    if (r < 0)
        return r;
    add_pod(digest, &request->pod);
    add_nodes(digest, request);
    if (request->verb < GT_WIRE_VOLCANO_PREDICATE)
        answer_extender(request);
    else
        answer_volcano(request);
    return r;
}

/* The first byte: which request, and how it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    static const enum gt_wire_verb verbs[] = {GT_WIRE_PRIORITIZE, GT_WIRE_FILTER, GT_WIRE_VOLCANO_PREDICATE,
                                              GT_WIRE_VOLCANO_PRIORITIZE};
    struct gt_wire_request *request = gt_wire_request_new(verbs[data[0] % 4]);
    size_t step = data[0] / 4U + 1;
    uint64_t whole = 0, cut = 0;
    int a = run(request, data + 1, size - 1, size - 1, &whole);
    int b = run(request, data + 1, size - 1, step, &cut); /* the same memory: a reset must be one */
    gt_wire_request_free(request);
    if (a != b || whole != cut)
        abort();
    return 0;
}
