/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/reviews.h"

#include <string.h>

#include "api/review.h"
#include "base/clock.h"
#include "base/log.h"

enum {
    REVIEWS_MAX = 64,    /* viewers that are remembered */
    REVIEWS_RUNNING = 4, /* that are asked for at one time, so that strangers do not fill the API server */
    REVIEW_TOKEN_MAX = 8 << 10,
    REVIEW_NAMESPACE_MAX = 63,
    REVIEW_KEPT_MS = 60000,
    REVIEW_REFUSED_MS = 10000,
    REVIEW_DEADLINE_MS = 5000,
    REVIEW_BODY_MAX = 64 << 10,
};

static const struct gt_kube_resource token_reviews = {"authentication.k8s.io", "v1", "tokenreviews", false};
static const struct gt_kube_resource access_reviews = {"authorization.k8s.io", "v1", "subjectaccessreviews",
                                                       false};

struct viewer {
    char *token, *namespace_;
    cJSON *user; /* as the TokenReview has it */
    enum gt_verdict verdict;
    enum { REVIEW_TOKEN, REVIEW_NODES, REVIEW_PODS } step;
    uint64_t until_ms;
    struct gt_reviews *reviews;
    struct gt_kube_call *call;
};

struct gt_reviews {
    struct gt_kube *kube;
    struct viewer all[REVIEWS_MAX];
};

int gt_reviews_new(struct gt_kube *kube, struct gt_reviews **ret, struct gt_err **err)
{
    struct gt_reviews *reviews = calloc(1, sizeof(*reviews));
    GT_NEED(reviews, err, "reviews of viewers");
    reviews->kube = kube;
    *ret = reviews;
    return 0;
}

static void review_clear(struct viewer *viewer)
{
    gt_kube_cancel(viewer->call);
    free(viewer->token);
    free(viewer->namespace_);
    cJSON_Delete(viewer->user);
    *viewer = (struct viewer){0};
}

void gt_reviews_free(struct gt_reviews *reviews)
{
    for (unsigned i = 0; reviews && i < REVIEWS_MAX; i++)
        review_clear(&reviews->all[i]);
    free(reviews);
}

static void review_end(struct viewer *viewer, enum gt_verdict verdict)
{
    viewer->verdict = verdict;
    viewer->until_ms = gt_clock_ms() + (verdict >= GT_VERDICT_NAMESPACE ? REVIEW_KEPT_MS : REVIEW_REFUSED_MS);
}

static void review_step(struct viewer *viewer);

static void review_token(struct viewer *viewer, struct gt_kube_answer *answer)
{
    viewer->user = gt_token_review_read(answer->object);
    viewer->step = REVIEW_NODES;
    if (viewer->user)
        review_step(viewer);
    else
        review_end(viewer, GT_VERDICT_UNKNOWN);
}

static void review_answered(void *arg, struct gt_kube_answer *answer)
{
    struct viewer *review = arg;
    review->call = NULL;
    if (answer->error) {
        gt_warning("the API server cannot be asked who may look at the page",
                   GT_STR("error", gt_err_text(answer->error)));
        review_end(review, GT_VERDICT_FAILED);
    } else if (review->step == REVIEW_TOKEN) {
        review_token(review, answer);
    } else if (gt_access_review_read(answer->object)) {
        review_end(review, review->step == REVIEW_NODES ? GT_VERDICT_ALL : GT_VERDICT_NAMESPACE);
    } else if (review->step == REVIEW_NODES && *review->namespace_) {
        review->step = REVIEW_PODS;
        review_step(review);
    } else {
        review_end(review, GT_VERDICT_FORBIDDEN);
    }
}

static void review_step(struct viewer *viewer)
{
    gt_auto_buf struct gt_buf body = GT_BUF(REVIEW_BODY_MAX);
    bool token = viewer->step == REVIEW_TOKEN, nodes = viewer->step == REVIEW_NODES;
    if (token)
        gt_token_review_write(&body, viewer->token);
    else
        gt_access_review_write(&body, viewer->user, nodes ? "nodes" : "pods",
                               nodes ? NULL : viewer->namespace_);
    const struct gt_kube_request request = {.verb = GT_KUBE_CREATE,
                                            .resource = token ? &token_reviews : &access_reviews,
                                            .body = body.data,
                                            .deadline_ms = REVIEW_DEADLINE_MS};
    if (body.failed ||
        gt_kube_start(viewer->reviews->kube, &request, review_answered, viewer, &viewer->call, NULL) < 0)
        review_end(viewer, GT_VERDICT_FAILED);
}

/* A place for one more: free, or whose time is over. */
static struct viewer *review_place(struct gt_reviews *reviews, uint64_t now_ms)
{
    struct viewer *found = NULL;
    unsigned running = 0;
    for (unsigned i = 0; i < REVIEWS_MAX; i++) {
        struct viewer *review = &reviews->all[i];
        running += review->call != NULL;
        if (!review->call && (!review->token || now_ms >= review->until_ms))
            found = review;
    }
    return running < REVIEWS_RUNNING ? found : NULL;
}

static bool review_is_of(const struct viewer *viewer, const char *token, const char *namespace_)
{
    return viewer->token && strcmp(viewer->token, token) == 0 && strcmp(viewer->namespace_, namespace_) == 0;
}

/* Who was let in goes on while he is reviewed again: a page that asks each second would else stop each
 * minute. */
static bool review_is_renewed(struct viewer *viewer)
{
    if (viewer->verdict < GT_VERDICT_NAMESPACE)
        return false;
    cJSON_Delete(gt_steal(viewer->user));
    viewer->step = REVIEW_TOKEN;
    review_step(viewer);
    return true;
}

enum gt_verdict gt_reviews_ask(struct gt_reviews *reviews, const char *token, const char *namespace_,
                               uint64_t now_ms)
{
    if (!*token || strlen(token) > REVIEW_TOKEN_MAX || strlen(namespace_) > REVIEW_NAMESPACE_MAX)
        return GT_VERDICT_UNKNOWN;
    for (unsigned i = 0; i < REVIEWS_MAX; i++) {
        struct viewer *review = &reviews->all[i];
        if (!review->call && now_ms >= review->until_ms + REVIEW_KEPT_MS) /* no token stays for long */
            review_clear(review);
        if (review_is_of(review, token, namespace_) &&
            (review->call || now_ms < review->until_ms || review_is_renewed(review)))
            return review->verdict;
    }
    struct viewer *review = review_place(reviews, now_ms);
    if (!review)
        return GT_VERDICT_PENDING;
    review_clear(review);
    *review = (struct viewer){.token = strdup(token), .namespace_ = strdup(namespace_), .reviews = reviews};
    if (!review->token || !review->namespace_) {
        review_clear(review);
        return GT_VERDICT_FAILED;
    }
    review_step(review);
    return review->verdict;
}
