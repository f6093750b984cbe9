/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "cli/api.h"
#include "cli/cli.h"

/* Asks the companion why a pod or a job has its place, or waits. */

enum { TIMEOUT_MS = 10000 };

#define LOCAL_COMPANION   "127.0.0.1:9401"
#define COMPANION_SERVICE "gputopo-system/https:" GT_COMPANION_NAME ":https"
#define COMPANION_FORWARD                                                                                    \
    "kubectl -n gputopo-system port-forward deploy/gputopo-scheduler 9401, and --companion=" LOCAL_COMPANION

struct explain_options {
    struct cli_parse parse;
    struct cli_api_options api;
    const char *companion, *service, *namespace_;
};

enum { EXPLAIN_NAME = CLI_FORMATS };
static const char *const explain_formats[] = {CLI_FORMAT_WORDS, "name", NULL};

static const struct gt_option own_options[] = {
    {"namespace", "NAME", "where the pod or job is (default: anywhere)", gt_option_any_text,
     GT_OPTION_FIELD(struct explain_options, namespace_), .letter = 'n'},
    CLI_API_OPTIONS(struct explain_options),
    {"service", "NAMESPACE/NAME",
     "the Service of gputopo-scheduler, which the API server asks (" COMPANION_SERVICE ")",
     gt_option_any_text, GT_OPTION_FIELD(struct explain_options, service)},
    {"companion", "ADDRESS:PORT", "ask gputopo-scheduler at this address, not by the API server",
     gt_option_any_text, GT_OPTION_FIELD(struct explain_options, companion)},
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml, or name for a list of all jobs", explain_formats),
    CLI_WATCH_OPTION,
    CLI_HELP_OPTION,
};

static bool names_cluster(const struct explain_options *options)
{
    return options->api.kubeconfig || options->api.context ||
           strcmp(options->service, COMPANION_SERVICE) != 0;
}

static int make_question(const struct explain_options *options, const char *named, struct gt_buf *to,
                         struct gt_err **err)
{
    gt_auto_buf struct gt_buf name = GT_BUF(4096);
    gt_buf_puts(to, "/explain");
    if (!named) {
        gt_kube_query(to, "namespace", options->namespace_);
        gt_kube_query(to, "format", "name");
        return gt_buf_check(to, "the namespace", err);
    }
    if (options->namespace_)
        gt_buf_printf(&name, "%s/", options->namespace_);
    gt_buf_puts(&name, named);
    GT_TRY(gt_buf_check(&name, "the name", err));
    gt_kube_query(to, "name", name.data);
    gt_kube_query(to, "format", options->parse.format == CLI_TEXT ? NULL : "json");
    return gt_buf_check(to, "the name", err);
}

static int ask_service(const struct explain_options *options, const char *question, struct gt_buf *answer,
                       struct gt_err **err)
{
    const char *slash = strchr(options->service, '/');
    gt_auto_free char *namespace_ = strndup(options->service, (size_t)(slash - options->service));
    cli_auto_api struct cli_api *api = NULL;
    GT_TRY(namespace_ ? cli_api_open(&options->api, &api, err) : gt_fail_sys(err, ENOMEM, "service"));
    return cli_api_text(api,
                        &(struct cli_api_text){&gt_kube_services, namespace_, slash + 1, "proxy", question},
                        answer, err);
}

/* By the API server; without a word about the cluster also on this machine, as in the companion's own pod. */
static int cli_explain_query(const struct explain_options *options, const char *name, struct gt_buf *answer,
                             struct gt_err **err)
{
    gt_auto_buf struct gt_buf question = GT_BUF(4096);
    gt_auto_err struct gt_err *why = NULL, *why_not = NULL;
    int r = make_question(options, name, &question, err);
    if (r < 0)
        return r;
    if (options->companion)
        r = cli_http_get(options->companion, question.data, TIMEOUT_MS, answer, &why);
    else
        r = ask_service(options, question.data, answer, &why);
    bool answered = r >= 0 || r == -EBADMSG;
    if (!answered && !options->companion && !names_cluster(options)) {
        int local = cli_http_get(LOCAL_COMPANION, question.data, TIMEOUT_MS, answer, &why_not);
        answered = local >= 0 || local == -EBADMSG;
        r = answered ? local : r;
    }
    if (r >= 0)
        return 0;
    if (answered || (r == -EINVAL && options->companion))
        return gt_fail(err, -r, "%s", gt_err_text(why_not ? why_not : why));
    return gt_fail(err, -r,
                   "gputopo-scheduler cannot be reached: %s%s%s; by a port-forward: " COMPANION_FORWARD,
                   gt_err_text(why), why_not ? "; " : "", gt_err_text(why_not));
}

static int cli_explain_run(struct cli_call *call)
{
    const struct explain_options *options = call->options;
    const char *name = call->args[0];
    bool list = options->parse.format == EXPLAIN_NAME;
    if (list && name)
        return cli_misuse(call, "-o name lists all jobs, unexpected argument '%.100s'", name);
    if (!strchr(options->service, '/'))
        return cli_misuse(call, "--service: expected NAMESPACE/NAME, is '%.100s'", options->service);
    if (!list && (!name || !*name))
        return cli_misuse(call, "expected the name of a pod, job or node");
    if (!list && options->namespace_ && strchr(name, '/'))
        return cli_misuse(call, "-n: '%.100s' names the namespace already", name);
    if (options->companion && names_cluster(options))
        return cli_misuse(call, "--companion: not together with --kubeconfig, --context or --service");
    int r = cli_explain_query(options, name, call->text, call->err);
    call->is_misuse = r == -EINVAL && options->companion;
    return call->is_misuse ? gt_wrap(call->err, "--companion") : r;
}

const struct cli_verb cli_explain = {
    .name = "explain",
    .about = "say why a pod or a job is where it is, or waits",
    .command =
        {.arguments = "POD|JOB|NODE",
         .about =
             "Explain why a pod or a job is where it is: its plan, what nodes are worth to it, or the reason "
             "why it waits. POD and JOB are NAME or NAMESPACE/NAME; a job may be NAMESPACE/KIND/NAME as "
             "well. Of a node: who has its GPUs, or to whom they are promised.",
         .more = "Example: gputopo explain team/train",
         CLI_OPTIONS(own_options)},
    .most_args = 1,
    .options_size = sizeof(struct explain_options),
    .defaults = &(const struct explain_options){.service = COMPANION_SERVICE},
    .run = cli_explain_run};
