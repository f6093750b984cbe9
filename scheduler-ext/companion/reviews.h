/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/client.h"

/*
 * Who may look at the page: the API server says whose a bearer token is (TokenReview), and what he may see
 * (SubjectAccessReview). Who may list nodes sees all; who may list the pods of a namespace sees its jobs.
 * Verdicts are kept for a minute, and for one more while they are renewed. Reviews change nothing in the
 * cluster.
 */
struct gt_reviews;

enum gt_verdict {
    GT_VERDICT_PENDING,   /* the API server is being asked: ask again in a moment */
    GT_VERDICT_FAILED,    /* it cannot be asked */
    GT_VERDICT_UNKNOWN,   /* it does not know the token */
    GT_VERDICT_FORBIDDEN, /* it does, but he may see nothing here */
    GT_VERDICT_NAMESPACE, /* he may list the pods of the namespace */
    GT_VERDICT_ALL,
};

int gt_reviews_new(struct gt_kube *kube, struct gt_reviews **ret, struct gt_err **err);
/* To be called before the client is freed. NULL is allowed. */
void gt_reviews_free(struct gt_reviews *reviews);
/* `namespace_` "": he asks for no namespace. */
enum gt_verdict gt_reviews_ask(struct gt_reviews *reviews, const char *token, const char *namespace_,
                               uint64_t now_ms);
