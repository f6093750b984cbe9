/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/digest.h"
#include "scheduler-ext/wire/extender_args.h"
#include "scheduler-ext/wire/volcano_args.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/reference.h"

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

static void add_pod(uint64_t *digest, const struct gt_wire_pod *pod)
{
    add(digest, pod->namespace_);
    add(digest, pod->name);
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

static void add_names(uint64_t *digest, const struct gt_wire_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        const char *name = gt_wire_name(names, i);
        if (strlen(name) != gt_wire_name_length(names, i) || !*name || strlen(name) > GT_WIRE_NAME_MAX)
            abort();
        add(digest, name);
    }
}

static cJSON *parse(const struct gt_buf *to)
{
    if (to->failed || !reference_accepts(to->data, to->len))
        abort();
    cJSON *json = cJSON_ParseWithLength(to->data, to->len);
    if (!json)
        abort();
    return json;
}

static int size_of(const cJSON *json, const char *key)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(json, key));
}

static void answer_extender(const struct gt_extender_args *args)
{
    uint32_t count = args->nodes.count, failed = 0, infeasible = 0;
    struct gt_filter_verdict *verdicts = calloc(count + 1, sizeof(*verdicts));
    uint8_t *scores = calloc(count + 1, 1);
    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    for (uint32_t i = 0; i < count; i++) {
        verdicts[i].reason = i % 3 ? gt_wire_name(&args->nodes, i) : NULL;
        verdicts[i].unresolvable = i % 3 == 2;
        failed += i % 3 == 1;
        infeasible += i % 3 == 2;
        scores[i] = (uint8_t)i;
    }
    gt_filter_answer(&to, args, verdicts);
    cJSON *json = parse(&to);
    int passed =
        args->by_name ? size_of(json, "NodeNames") : size_of(cJSON_GetObjectItem(json, "Nodes"), "items");
    if (passed != (int)(count - failed - infeasible) || size_of(json, "FailedNodes") != (int)failed ||
        size_of(json, "FailedAndUnresolvableNodes") != (int)infeasible)
        abort();
    cJSON_Delete(json);
    to.len = 0;
    gt_prioritize_answer(&to, args, scores);
    json = parse(&to);
    if (cJSON_GetArraySize(json) != (int)count)
        abort();
    cJSON_Delete(json);
    free(verdicts);
    free(scores);
}

static int run_extender(struct gt_extender_reader *reader, const uint8_t *data, size_t size, size_t step,
                        uint64_t *digest)
{
    const struct gt_extender_args *args;
    struct gt_err *err = NULL;
    int r = 0;
    gt_extender_reader_reset(reader);
    for (size_t at = 0; at < size && r == 0; at += step)
        r = gt_extender_reader_feed(reader, data + at, size - at < step ? size - at : step, &err);
    if (r == 0)
        r = gt_extender_reader_finish(reader, &args, &err);
    if ((r < 0) != (err != NULL))
        abort();
    add(digest, gt_err_text(err));
    gt_err_free(err);
    if (r == 0) {
        add_pod(digest, &args->pod);
        add_names(digest, &args->nodes);
        answer_extender(args);
    }
    return r;
}

static void answer_volcano(const struct gt_volcano_args *args)
{
    double *scores = calloc(args->nodes.count + 1, sizeof(*scores));
    gt_auto_buf struct gt_buf to = GT_BUF(GT_WIRE_ANSWER_MAX);
    for (uint32_t i = 0; i < args->nodes.count; i++)
        scores[i] = (double)args->node[i].idle_milli / 1000;
    gt_node_score_answer(&to, args, scores);
    cJSON *json = parse(&to);
    if (size_of(json, "nodeScore") != (int)args->nodes.count)
        abort();
    cJSON_Delete(json);
    to.len = 0;
    gt_predicate_answer(&to, args->task_name, GT_VOLCANO_UNSCHEDULABLE);
    cJSON_Delete(parse(&to));
    free(scores);
}

static int run_volcano(struct gt_volcano_reader *reader, const uint8_t *data, size_t size, size_t step,
                       uint64_t *digest)
{
    const struct gt_volcano_args *args;
    struct gt_err *err = NULL;
    int r = 0;
    gt_volcano_reader_reset(reader);
    for (size_t at = 0; at < size && r == 0; at += step)
        r = gt_volcano_reader_feed(reader, data + at, size - at < step ? size - at : step, &err);
    if (r == 0)
        r = gt_volcano_reader_finish(reader, &args, &err);
    if ((r < 0) != (err != NULL))
        abort();
    add(digest, gt_err_text(err));
    gt_err_free(err);
    if (r == 0) {
        add_names(digest, &args->nodes);
        add(digest, args->task_name);
        add_number(digest, args->gpus);
        for (uint32_t i = 0; i < args->nodes.count; i++)
            add_number(digest, (uint64_t)args->node[i].idle_milli);
        answer_volcano(args);
    }
    return r;
}

/* The first byte: which request, and how it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    unsigned which = data[0] % 4;
    size_t step = data[0] / 4U + 1;
    data++;
    size--;
    uint64_t whole = 0, cut = 0;
    int a, b;
    if (which < 2) {
        struct gt_extender_reader *reader = gt_extender_reader_new(which == 1);
        a = run_extender(reader, data, size, size, &whole);
        b = run_extender(reader, data, size, step, &cut); /* the same reader: a reset must be one */
        gt_extender_reader_free(reader);
    } else {
        struct gt_volcano_reader *reader =
            gt_volcano_reader_new(which == 2 ? GT_VOLCANO_PREDICATE : GT_VOLCANO_PRIORITIZE);
        a = run_volcano(reader, data, size, size, &whole);
        b = run_volcano(reader, data, size, step, &cut);
        gt_volcano_reader_free(reader);
    }
    if (a != b || whole != cut)
        abort();
    return 0;
}
