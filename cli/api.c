/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "cli/cli.h"
#include "kube/config.h"
#include "kube/list.h"

/* A person waits for the first answer, so its timeout is short; a page of large objects may take longer. */
enum { CONTACT_MS = 10000, PAGE_MS = 60000 };

struct cli_api {
    struct gt_kube_config config;
    struct gt_loop *loop;
    struct gt_kube *kube;
    bool answered; /* the server has answered */

    /* the request in flight */
    const struct cli_api_list *list;
    cJSON *object;
    struct gt_buf *body;
    struct gt_err *failed;
};

void cli_api_free(struct cli_api *api)
{
    gt_kube_free_p(&api->kube);
    gt_loop_free_p(&api->loop);
    gt_kube_config_done(&api->config);
    cJSON_Delete(api->object);
    gt_err_free(api->failed);
    free(api);
}

/* Makes the client; one with an exec plugin gets a new credential. */
static int log_in(struct cli_api *api, struct gt_err **err)
{
    GT_TRY(api->config.exec ? gt_kube_exec_run(&api->config, 0, err) : 0);
    if (api->config.expires_s <= time(NULL)) /* by this machine's clock: the server decides */
        api->config.expires_s = 0;
    gt_kube_free(gt_steal(api->kube));
    return gt_kube_new(api->loop, &api->config, "gputopo", &api->kube, err);
}

int cli_api_open(const struct cli_api_options *options, struct cli_api **ret, struct gt_err **err)
{
    cli_auto_api struct cli_api *api = calloc(1, sizeof(*api));
    GT_NEED(api, err, "kubeconfig");
    GT_TRY(gt_kube_config_find(options->kubeconfig, options->context, &api->config, err));
    GT_TRY(gt_loop_new(&api->loop, err));
    GT_TRY(log_in(api, err));
    *ret = gt_steal(api);
    return 0;
}

/* Ends the wait with the answer. */
static void end(struct cli_api *api, const struct gt_err *error)
{
    api->answered |= !error;
    int r = error ? gt_fail(&api->failed, gt_err_code(error), "%s", gt_err_text(error)) : 0;
    gt_loop_stop(api->loop, r);
}

static int wait_for_answer(struct cli_api *api, const struct gt_kube_resource *resource, const char *name,
                           struct gt_err **err)
{
    int r = gt_loop_run(api->loop, err);
    if (!api->failed)
        return r;
    GT_TRY_WRAP(gt_err_pass(err, &api->failed), err, "%s: %s%s%s", api->config.server, resource->plural,
                name ? " " : "", name ? name : "");
    return r;
}

/* A request, with a new credential if the plugin's has expired, and once more if the server refuses it. */
static int perform(struct cli_api *api,
                   int (*once)(struct cli_api *api, const void *request, struct gt_err **err),
                   const void *request, struct gt_err **err)
{
    for (bool again = false;; again = true) {
        bool expired = api->config.expires_s && api->config.expires_s <= time(NULL);
        int r = again || expired ? log_in(api, err) : 0;
        if (r >= 0)
            r = once(api, request, err);
        if (r != -EPERM || !api->config.exec)
            return r;
        if (again)
            return gt_wrap(err, "the credential of exec plugin %s",
                           cJSON_GetStringValue(cJSON_GetObjectItem(api->config.exec, "command")));
        if (err)
            gt_err_free(gt_steal(*err));
    }
}

static void cli_api_on_done(void *arg, const char *resource_version, const struct gt_err *error)
{
    (void)resource_version;
    end(arg, error);
}

static void cli_api_on_begin(void *arg)
{
    const struct cli_api *api = arg;
    if (api->list->on_begin)
        api->list->on_begin(api->list->arg);
}

static void cli_api_on_object(void *arg, cJSON *object)
{
    const struct cli_api *api = arg;
    api->list->on_object(api->list->arg, object);
}

/* An incomplete list is an error, which is reported at its end. */
static void on_oversize(void *arg, cJSON *object)
{
    struct cli_api *api = arg;
    if (!api->failed)
        gt_fail(&api->failed, EFBIG, "%s is larger than %d bytes", gt_meta_name(object), GT_KUBE_PAGE_MAX);
}

static int list_once(struct cli_api *api, const void *wanted, struct gt_err **err)
{
    const struct cli_api_list *list = api->list = wanted;
    struct gt_kube_list_spec spec = {
        .selection = {.resource = list->resource,
                      .namespace_ = list->namespace_,
                      .field_selector = list->fields,
                      .metadata_only = list->names_only},
        .deadline_ms = api->answered ? PAGE_MS : CONTACT_MS,
        .on_begin = cli_api_on_begin,
        .on_object = cli_api_on_object,
        .on_oversize = on_oversize,
        .on_done = cli_api_on_done,
        .arg = api,
    };
    struct gt_kube_list *started;
    GT_TRY(gt_kube_list_start(api->kube, &spec, &started, err));
    return wait_for_answer(api, list->resource, NULL, err);
}

int cli_api_list(struct cli_api *api, const struct cli_api_list *list, struct gt_err **err)
{
    cli_progress("reading %s", list->resource->plural);
    int r = perform(api, list_once, list, err);
    cli_progress_end();
    if (r != -ENOENT)
        return r;
    if (err)
        gt_err_free(gt_steal(*err));
    return gt_fail(
        err, ENOENT,
        "%s: the cluster has no custom resource %s.%s; install it with: "
        "kubectl apply --server-side --force-conflicts -k daemonset/crds (in the source of gputopo)",
        api->config.server, list->resource->plural, list->resource->group);
}

static void on_got(void *arg, struct gt_kube_answer *answer)
{
    struct cli_api *api = arg;
    if (!answer->error)
        api->object = gt_steal(answer->object);
    end(api, answer->error);
}

const char *cli_api_namespace(const struct cli_api *api)
{
    return gt_kube_namespace(api->kube);
}

static int request_once(struct cli_api *api, const void *wanted, struct gt_err **err)
{
    const struct gt_kube_request *request = wanted;
    struct gt_kube_call *call;
    GT_TRY(gt_kube_start(api->kube, request, on_got, api, &call, err));
    return wait_for_answer(api, request->resource, request->name, err);
}

int cli_api_request(struct cli_api *api, const struct gt_kube_request *request, cJSON **ret,
                    struct gt_err **err)
{
    GT_TRY(perform(api, request_once, request, err));
    if (ret)
        *ret = gt_steal(api->object);
    else
        cJSON_Delete(gt_steal(api->object));
    return 0;
}

int cli_api_patch(struct cli_api *api, const struct gt_kube_resource *resource, const char *namespace_,
                  const char *name, const char *body, struct gt_err **err)
{
    /* strict: without the grade of an isolation, for instance, a GPU would go out of use */
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = resource,
                                            .namespace_ = namespace_,
                                            .name = name,
                                            .body = body,
                                            .strict = true,
                                            .metadata_only = true};
    return cli_api_request(api, &request, NULL, err);
}

int cli_api_get(struct cli_api *api, const struct gt_kube_resource *resource, const char *name, cJSON **ret,
                struct gt_err **err)
{
    const struct gt_kube_request request = {
        .verb = GT_KUBE_GET, .resource = resource, .name = name, .deadline_ms = CONTACT_MS};
    return cli_api_request(api, &request, ret, err);
}

static void on_proxied(void *arg, struct gt_kube_answer *answer, const char *body, size_t body_len)
{
    struct cli_api *api = arg;
    gt_auto_err struct gt_err *said = NULL;
    if (!answer->error) {
        gt_buf_add(api->body, body, body_len);
    } else if (answer->status && answer->status != 401 &&
               !answer->object) { /* not a Status of the API server */
        int line = (int)strcspn(body, "\r\n");
        gt_fail(&said, EBADMSG, "the answer is %u%s%.*s", answer->status, line ? ": " : "", line, body);
    }
    end(api, said ? said : answer->error);
}

struct api_path {
    const struct cli_api_text *text;
    const char *path;
};

static int text_once(struct cli_api *api, const void *wanted, struct gt_err **err)
{
    const struct api_path *path = wanted;
    struct gt_kube_call *call;
    const struct gt_kube_get get = {.path = path->path,
                                    .accept = GT_KUBE_ACCEPT ", */*",
                                    .deadline_ms = CONTACT_MS,
                                    .try_ms = CONTACT_MS,
                                    .response_max = api->body->max,
                                    .done = on_proxied,
                                    .arg = api};
    GT_TRY(gt_kube_start_raw(api->kube, &get, &call, err));
    return wait_for_answer(api, path->text->resource, NULL, err);
}

int cli_api_text(struct cli_api *api, const struct cli_api_text *text, struct gt_buf *answer,
                 struct gt_err **err)
{
    gt_auto_buf struct gt_buf whole = GT_BUF(8192);
    int r = gt_kube_path(&whole, text->resource, text->namespace_, text->name, text->below, err);
    gt_buf_puts(&whole, text->rest);
    if (r >= 0)
        r = gt_buf_check(&whole, "path", err);
    api->body = answer;
    return r < 0 ? r : perform(api, text_once, &(struct api_path){text, whole.data}, err);
}
