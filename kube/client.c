/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "kube/internal.h"

/* The client itself: its configuration and counters. Requests with their tries are in request.c. */

enum { AGENT_MAX = 256, OBJECT_TEXT_MAX = 1024 };

static int copy_config(const struct gt_kube_config *from, struct gt_kube_config *to, struct gt_err **err)
{
    const struct {
        const char *from;
        char **to;
    } texts[] = {{from->server, &to->server},
                 {from->namespace_, &to->namespace_},
                 {from->ca_file, &to->ca_file},
                 {from->ca_data, &to->ca_data},
                 {from->certificate_file, &to->certificate_file},
                 {from->certificate_data, &to->certificate_data},
                 {from->key_file, &to->key_file},
                 {from->key_data, &to->key_data},
                 {from->token, &to->token},
                 {from->token_file, &to->token_file}};
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        GT_TRY(gt_text_dup(texts[i].from, "Kubernetes client", texts[i].to, err));
    return 0;
}

/* ---- its writer ---- */

static void kube_client_wake(struct gt_kube *kube, uint64_t after_ms)
{
    uint64_t at = gt_clock_ms() + after_ms;
    if (at >= kube->writer_ms)
        return;
    kube->writer_ms = at;
    gt_source_arm(kube->writer_timer, after_ms);
}

static void kube_client_on_writer_timer(void *arg)
{
    struct gt_kube *kube = arg;
    kube->writer_ms = UINT64_MAX;
    gt_writer_run(kube->writer);
}

static int kube_client_make_writer(struct gt_kube *kube, struct gt_err **err)
{
    const struct gt_writer_port port = {gt_kube_start, gt_kube_cancel, gt_clock_ms, kube_client_wake, kube};
    kube->writer_ms = UINT64_MAX;
    GT_TRY(gt_loop_add_timer(kube->loop, kube_client_on_writer_timer, kube, &kube->writer_timer, err));
    return gt_writer_new(&port, &kube->writer, err);
}

struct gt_writer *gt_kube_writer(struct gt_kube *kube)
{
    return kube->writer;
}

/* ---- creation and end ---- */

int gt_kube_new(struct gt_loop *loop, const struct gt_kube_config *config, const char *component,
                struct gt_kube **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_kube_free) struct gt_kube *kube = calloc(1, sizeof(*kube));
    GT_NEED(kube, err, "Kubernetes client");
    kube->loop = loop;
    gt_jitter_seed(&kube->jitter);
    GT_TRY(gt_kube_config_check_server(config->server, err));
    if (config->exec && !gt_kube_config_has_credential(config))
        return gt_fail(
            err, EOPNOTSUPP,
            "a user with exec is for the command line: a daemon takes a token, tokenFile or client "
            "certificate");
    GT_TRY(copy_config(config, &kube->config, err));
    if (kube->config.token_file)
        GT_TRY(gt_kube_token_new(kube->config.token_file, gt_clock_ms(), &kube->token, err));
    if (kube->config.token && !gt_kube_token_is_whole(kube->config.token, NULL))
        return gt_fail(err, EINVAL,
                       "Kubernetes client: the token has white space or control characters in it");
    GT_TRY(gt_loop_add_timer(loop, gt_kube_on_timer, kube, &kube->timer, err));
    GT_TRY(kube_client_make_writer(kube, err));
    struct utsname system = {0};
    uname(&system);
    char agent[AGENT_MAX];
    snprintf(agent, sizeof(agent), "%s/%s (linux/%.32s) gputopo/%.40s", component, gt_version, system.machine,
             gt_commit);
    GT_TRY(gt_json_arena_new(&kube->arena, err));
    GT_TRY(gt_transport_new(loop, &kube->config, agent, &kube->transport, err));
    *ret = gt_steal(kube);
    return 0;
}

void gt_kube_free(struct gt_kube *kube)
{
    if (!kube)
        return;
    while (kube->calls)
        gt_kube_cancel(kube->calls);
    gt_transport_free(kube->transport);
    gt_json_arena_free(kube->arena);
    gt_source_free(kube->timer);
    gt_source_free(kube->writer_timer);
    gt_writer_free(kube->writer);
    gt_kube_token_free(kube->token);
    gt_kube_config_done(&kube->config);
    free(kube);
}

const char *gt_kube_namespace(const struct gt_kube *kube)
{
    return kube->config.namespace_ ? kube->config.namespace_ : "default";
}

void gt_kube_counters(const struct gt_kube *kube, struct gt_kube_counters *ret)
{
    *ret = kube->counters;
    ret->waiting = kube->call_count - kube->counters.running;
}

void gt_kube_log_oversize(void *arg, const char *object, size_t max)
{
    (void)arg;
    gt_warning("an object is too large to be read: what was known of it stays", GT_STR("object", object),
               GT_INT("limit", max));
}

void gt_kube_on_oversize(struct gt_kube *kube, gt_kube_oversize_report *report, void *arg)
{
    kube->on_oversize = report;
    kube->on_oversize_arg = arg;
}

void gt_kube_pass_over(struct gt_kube *kube, const struct gt_kube_resource *resource, const char *namespace_,
                       const char *name, size_t max)
{
    gt_auto_buf struct gt_buf object = GT_BUF(OBJECT_TEXT_MAX);
    kube->counters.oversize++;
    gt_buf_puts(&object, resource->plural);
    if (*name)
        gt_buf_printf(&object, " %s%s%s", namespace_, *namespace_ ? "/" : "", name);
    if (!kube->on_oversize || object.failed)
        return;
    uint64_t digest = gt_digest_keyed(object.data);
    for (unsigned i = 0; i < GT_COUNT(kube->oversize_reported); i++)
        if (kube->oversize_reported[i] == digest)
            return;
    kube->oversize_reported[kube->oversize_next++ % GT_COUNT(kube->oversize_reported)] = digest;
    kube->on_oversize(kube->on_oversize_arg, object.data, max);
}
