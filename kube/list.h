/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/client.h"

/* Selects objects. A member that is NULL selects all. Texts are copied. */
struct gt_kube_selection {
    const struct gt_kube_resource *resource;
    const char *namespace_;
    const char *label_selector; /* "app=x,tier!=y" */
    const char *field_selector; /* "metadata.name=n1", "spec.nodeName=n1" */
    bool metadata_only;         /* objects have only metadata */
};

/*
 * A list, in pages. A page that is larger than page_max is asked for again with half as many objects, and
 * each page that fits is followed by one of twice as many, up to the limit. A single object that is larger is
 * left out: see gt_kube_on_oversize(). If the server cannot continue the list (410), it starts again.
 */
struct gt_kube_list;

enum { GT_KUBE_LIST_LIMIT = 500, GT_KUBE_PAGE_MAX = 16 << 20, GT_KUBE_LIST_TRY_MS = 60000 };

struct gt_kube_list_spec {
    struct gt_kube_selection selection;
    unsigned limit;       /* objects a page, 0: GT_KUBE_LIST_LIMIT */
    size_t page_max;      /* bytes, 0: GT_KUBE_PAGE_MAX */
    uint64_t deadline_ms; /* for each page, as in gt_kube_request; 0: two minutes */
    /* Of a caller that repeats lists: failures of earlier ones count. NULL: each list begins again. */
    struct gt_backoff *backoff;
    void (*on_begin)(void *arg); /* the list (re)starts: objects so far are invalid; may be NULL */
    void (*on_object)(void *arg, cJSON *object);   /* freed afterwards; has no apiVersion and kind */
    void (*on_oversize)(void *arg, cJSON *object); /* metadata of an object that was left out; may be NULL */
    /* Called once; the list is freed afterwards. One of resource_version and error is NULL. */
    void (*on_done)(void *arg, const char *resource_version, const struct gt_err *error);
    void *arg;
};

int gt_kube_list_start(struct gt_kube *kube, const struct gt_kube_list_spec *spec, struct gt_kube_list **ret,
                       struct gt_err **err);

/* Ends it without a callback; it may be called within its callbacks. NULL is allowed. */
void gt_kube_list_cancel(struct gt_kube_list *list);

/* The path of a selection with its selectors; watches use it too. The caller frees *ret. */
int gt_kube_selection_path(const struct gt_kube_selection *selection, char **ret, struct gt_err **err);
