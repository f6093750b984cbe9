/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "kube/internal.h"

enum { LIST_RESTARTS_MAX = 5, LIST_PATH_MAX = 64 << 10, LIST_DEADLINE_MS = 120000 };

struct gt_kube_list {
    struct gt_kube *kube;
    struct gt_kube_list_spec spec; /* its strings are not ours any more */
    char *path;
    char *next;   /* NULL at the first page */
    char *pinned; /* the version that the first page is requested of; NULL: the newest */
    unsigned limit, limit_max, restarts;
    enum { PAGE_OBJECTS, PAGE_VERSION, PAGE_NAME } page; /* what is requested; see narrow() */
    struct gt_kube_call *call;
    struct gt_source *timer;
    struct gt_backoff backoff;
    bool busy, dead; /* within a callback; cancelled there */
};

int gt_kube_selection_path(const struct gt_kube_selection *selection, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(LIST_PATH_MAX);
    GT_TRY(gt_kube_path(&path, selection->resource, selection->namespace_, NULL, NULL, err));
    gt_kube_query(&path, "labelSelector", selection->label_selector);
    gt_kube_query(&path, "fieldSelector", selection->field_selector);
    GT_TRY(gt_buf_check(&path, "path", err));
    *ret = gt_buf_take(&path);
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "path");
}

static void free_list(struct gt_kube_list *list)
{
    gt_source_free(list->timer);
    free(list->path);
    free(list->next);
    free(list->pinned);
    free(list);
}
GT_DEFINE_CLEANUP(struct gt_kube_list *, free_list)

void gt_kube_list_cancel(struct gt_kube_list *list)
{
    if (!list || list->dead)
        return;
    gt_kube_cancel(list->call);
    list->call = NULL;
    if (list->busy)
        list->dead = true;
    else
        free_list(list);
}

static void list_finish(struct gt_kube_list *list, const char *resource_version, const struct gt_err *error)
{
    if (!list->dead) {
        list->busy = true;
        list->dead = true; /* a cancel has no effect now */
        list->spec.on_done(list->spec.arg, resource_version, error);
    }
    free_list(list);
}

static bool on_item(void *arg, cJSON *item)
{
    struct gt_kube_list *list = arg;
    if (list->page == PAGE_OBJECTS) {
        list->spec.on_object(list->spec.arg, item);
    } else if (list->page == PAGE_NAME) {
        gt_kube_pass_over(list->kube, list->spec.selection.resource, gt_meta_namespace(item),
                          gt_meta_name(item), list->spec.page_max);
        if (list->spec.on_oversize)
            list->spec.on_oversize(list->spec.arg, item);
    }
    return !list->dead;
}

static void on_page(void *arg, struct gt_kube_answer *answer, const char *body, size_t body_len);

static int request_page(struct gt_kube_list *list, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(LIST_PATH_MAX);
    char limit[16];
    snprintf(limit, sizeof(limit), "%u", list->limit);
    gt_buf_puts(&path, list->path);
    gt_kube_query(&path, "limit", limit);
    gt_kube_query(&path, "continue", list->next);
    if (!list->next && list->pinned) {
        gt_kube_query(&path, "resourceVersion", list->pinned);
        gt_kube_query(&path, "resourceVersionMatch", "Exact");
    }
    GT_TRY(gt_buf_check(&path, "path", err));
    bool metadata_only = list->spec.selection.metadata_only || list->page != PAGE_OBJECTS;
    const struct gt_kube_get get = {.path = path.data,
                                    .accept = metadata_only ? GT_KUBE_ACCEPT_METALIST : GT_KUBE_ACCEPT,
                                    .deadline_ms = list->spec.deadline_ms,
                                    .try_ms = GT_KUBE_LIST_TRY_MS,
                                    .response_max = list->spec.page_max,
                                    .backoff = list->spec.backoff,
                                    .done = on_page,
                                    .arg = list};
    return gt_kube_start_raw(list->kube, &get, &list->call, err);
}

static void request_or_finish(struct gt_kube_list *list)
{
    gt_auto_err struct gt_err *error = NULL;
    if (request_page(list, &error) < 0)
        list_finish(list, NULL, error);
}

/* From the first page again, after a while. */
static void list_on_timer(void *arg)
{
    struct gt_kube_list *list = arg;
    if (list->spec.on_begin) {
        list->busy = true;
        list->spec.on_begin(list->spec.arg);
        list->busy = false;
    }
    if (list->dead)
        free_list(list);
    else
        request_or_finish(list);
}

static void list_read_page(struct gt_kube_list *list, const char *body, size_t body_len)
{
    struct gt_kube_page page;
    gt_auto_err struct gt_err *error = NULL;
    list->busy = true;
    int r = gt_kube_page_read(list->kube->arena, body, body_len, on_item, list, &page, &error);
    list->busy = false;
    if (r < 0 || list->dead) {
        if (r == 0)
            gt_kube_page_done(&page);
        list_finish(list, NULL, error);
        return;
    }
    bool whole = false;
    if (list->page == PAGE_VERSION) {
        list->pinned = gt_steal(page.resource_version);
    } else {
        free(list->next);
        list->next = gt_steal(page.next);
        list->limit = list->limit > list->limit_max / 2 ? list->limit_max : list->limit * 2;
        whole = !list->next;
    }
    list->page = PAGE_OBJECTS;
    if (whole)
        list_finish(list, page.resource_version, NULL);
    else
        request_or_finish(list);
    gt_kube_page_done(&page);
}

/*
 * The page was too large: ask for fewer objects, down to one. That one is left out; its metadata have its
 * name and the place at which the list continues. At the beginning of a list another object could have become
 * the first one: so the version is requested first, and then the object as of that version.
 */
static bool narrow(struct gt_kube_list *list)
{
    if (list->limit > 1)
        list->limit /= 2;
    else if (list->spec.selection.metadata_only || list->page != PAGE_OBJECTS)
        return false;
    else
        list->page = list->next || list->pinned ? PAGE_NAME : PAGE_VERSION;
    return true;
}

static void on_page(void *arg, struct gt_kube_answer *answer, const char *body, size_t body_len)
{
    struct gt_kube_list *list = arg;
    list->call = NULL;
    int code = gt_err_code(answer->error);
    if (!code) {
        list_read_page(list, body, body_len);
    } else if (code == EFBIG && narrow(list)) {
        request_or_finish(list);
    } else if (code == ESTALE && (list->next || list->pinned) && list->restarts < LIST_RESTARTS_MAX) {
        list->restarts++;
        list->page = PAGE_OBJECTS;
        free(gt_steal(list->next));
        free(gt_steal(list->pinned));
        gt_source_arm(list->timer, gt_backoff_next(&list->backoff, 0, &list->kube->jitter));
    } else {
        list_finish(list, NULL, answer->error);
    }
}

int gt_kube_list_start(struct gt_kube *kube, const struct gt_kube_list_spec *spec, struct gt_kube_list **ret,
                       struct gt_err **err)
{
    GT_CLEANUP(free_list) struct gt_kube_list *list = calloc(1, sizeof(*list));
    GT_NEED(list, err, "list");
    list->kube = kube;
    list->spec = *spec;
    list->limit = list->limit_max = spec->limit ? spec->limit : GT_KUBE_LIST_LIMIT;
    list->spec.page_max = spec->page_max ? spec->page_max : GT_KUBE_PAGE_MAX;
    list->spec.deadline_ms = spec->deadline_ms ? spec->deadline_ms : LIST_DEADLINE_MS;
    GT_TRY(gt_kube_selection_path(&spec->selection, &list->path, err));
    GT_TRY(gt_loop_add_timer(kube->loop, list_on_timer, list, &list->timer, err));
    gt_source_arm(list->timer, 0); /* the first page too: on_begin is not called from here */
    *ret = gt_steal(list);
    return 0;
}
