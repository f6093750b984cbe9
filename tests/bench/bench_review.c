/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "scheduler-ext/webhook/review.h"

/* What an AdmissionReview of 2 MB costs that somebody made up. One measure a line: name, value, unit, goal.
 */

enum { ROUNDS = 9, SIZE = 2 << 20, VALUES_MAX = 900000 };

static const char resource[] = "metax-tech.com/gpu";

typedef int reader(const char *body, size_t len, cJSON **ret, struct gt_err **err);

static int read_review(const char *body, size_t len, cJSON **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf annotations = GT_BUF(SIZE + 1024);
    return gt_review_read(body, len, resource, ret, &annotations, err);
}

static int read_all(const char *body, size_t len, cJSON **ret, struct gt_err **err)
{
    return gt_json_parse(body, len, "the review", ret, err);
}

/* The shortest of some rounds, to exclude other work of the machine. */
static double least_ms(reader *read, const struct gt_buf *body)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < ROUNDS; i++) {
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json = NULL;
        uint64_t start = gt_clock_ns();
        if (read(body->data, body->len, &json, &err) < 0) {
            fprintf(stderr, "bench_review: %s\n", gt_err_text(err));
            exit(2);
        }
        cJSON_Delete(json);
        uint64_t took = gt_clock_ns() - start;
        least = took < least ? took : least;
    }
    return (double)least / 1e6;
}

static void measure(const char *what, const char *item, const char *goal)
{
    gt_auto_buf struct gt_buf body = GT_BUF(SIZE + 1024);
    gt_buf_puts(
        &body,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\","
        "\"operation\":\"CREATE\",\"object\":{\"metadata\":{\"name\":\"p\"},\"spec\":{\"x\":[0");
    for (unsigned i = 0; i < VALUES_MAX && body.len < SIZE; i++)
        gt_buf_puts(&body, item);
    gt_buf_puts(&body, "]}}}}");
    double scanned = least_ms(read_review, &body), tree = least_ms(read_all, &body);
    printf("%s: read\t%.2f\tms\t-\n", what, scanned);
    printf("  the same, of the time that a tree of it takes\t%.3f\tx\t%s\n", scanned / tree, goal);
}

int main(void)
{
    printf("# AdmissionReviews of 2 MB\n");
    measure("numbers of one digit", ",0", "<0.25");
    measure("variables", ",{\"name\":\"A\",\"value\":\"B\"}", "<0.25");
    measure("texts of 26 bytes", ",\"abcdefghijklmnopqrstuvwxyz\"", "<0.25");
    return 0;
}
