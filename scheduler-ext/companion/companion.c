/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "api/names.h"
#include "base/backoff.h"
#include "base/options.h"
#include "base/process.h"
#include "base/shutdown.h"
#include "base/version.h"
#include "kube/config.h"
#include "scheduler-ext/companion/private.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/placement/controller.h"

/* Altogether, the process ends within two seconds. */
enum { RELEASE_MS = 1500, COMPANION_END_MS = 1800, EVENTS_PER_MINUTE = 600 };

static void lead_all(struct gt_companion *companion, bool leads)
{
    companion->leads = leads;
    for (unsigned i = 0; i < gt_part_count; i++)
        if (companion->parts[i] && gt_parts[i]->lead)
            gt_parts[i]->lead(companion->parts[i], leads);
}

static void companion_on_lead(void *arg, bool leads)
{
    struct gt_companion *companion = arg;
    gt_info(leads ? "leads now: writes" : "leads no more: only watches");
    companion->lease_error[0] = '\0';
    lead_all(companion, leads);
}

static void companion_on_lease_error(void *arg, const char *what)
{
    struct gt_companion *companion = arg;
    gt_log(gt_log_level_of(companion->lease_error, sizeof(companion->lease_error), what),
           "the lease cannot be written or read", GT_STR("why", what));
}

/* The leader writes a note into its lease with each renewal, and the other replicas read it (leader.h). */

static void companion_write_note(void *arg, struct gt_buf *to)
{
    struct gt_companion *companion = arg;
    if (companion->placement)
        gt_placement_write_note(companion->placement, to);
}

static void companion_write_last_note(void *arg, struct gt_buf *to)
{
    struct gt_companion *companion = arg;
    if (companion->placement)
        gt_placement_write_last_note(companion->placement, to);
}

static void companion_read_note(void *arg, const char *note)
{
    struct gt_companion *companion = arg;
    if (companion->placement)
        gt_placement_read_note(companion->placement, note);
}

static bool is_leading(void *arg)
{
    const struct gt_companion *companion = arg;
    return companion->leads && (!companion->elect || gt_leader_is_current(gt_elect_leader(companion->elect)));
}

/* The lease is released, or could not be in time: it expires by itself. */
static void companion_on_released(void *arg)
{
    struct gt_companion *companion = arg;
    gt_loop_stop(companion->loop, 0);
}

static void companion_on_end(void *arg, int signal)
{
    struct gt_companion *companion = arg;
    if (companion->ending) {
        gt_loop_stop(companion->loop, 0); /* the second signal */
        return;
    }
    companion->ending = true;
    gt_info("shutting down", GT_STR("signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"));
    gt_source_arm(companion->end_timer, RELEASE_MS);
    if (companion->elect)
        gt_leader_release(gt_elect_leader(companion->elect));
    else {
        lead_all(companion, false);
        gt_loop_stop(companion->loop, 0);
    }
}

/* Host name and a random part, as by client-go: a restarted pod has another identity. */
static int make_instance(struct gt_companion *companion, struct gt_err **err)
{
    char host[128] = {0};
    struct gt_jitter jitter;
    if (gethostname(host, sizeof(host) - 1) < 0)
        return gt_fail_sys(err, errno, "the host's name");
    gt_jitter_seed(&jitter);
    snprintf(companion->instance, sizeof(companion->instance), "%s_%016llx", host,
             (unsigned long long)gt_jitter_below(&jitter, UINT64_MAX));
    return 0;
}

static int start_client(struct gt_companion *companion, struct gt_err **err)
{
    const struct gt_companion_options *options = companion->options;
    gt_auto_kube_config struct gt_kube_config config = {0};
    int r = options->kubeconfig ? gt_kube_config_file(options->kubeconfig, NULL, &config, err)
                                : gt_kube_config_pod(NULL, &config, err);
    if (r < 0)
        return options->kubeconfig ? r : gt_wrap(err, "no --kubeconfig, and this is no pod");
    GT_TRY(gt_kube_new(companion->loop, &config, GT_COMPANION_NAME, &companion->kube, err));
    gt_kube_on_oversize(companion->kube, gt_kube_log_oversize, NULL);
    return gt_kube_recorder_new(companion->kube, GT_DOMAIN "/" GT_COMPANION_NAME, companion->instance,
                                EVENTS_PER_MINUTE, &companion->recorder, err);
}

/* The namespace of its own objects and of the Leases. */
static const char *own_namespace(const struct gt_companion *companion)
{
    const char *own = companion->options->namespace_;
    return own ? own : gt_kube_namespace(companion->kube);
}

/* One cache for all parts that need it; it starts when all of them have added their handlers. */
static int make_informers(struct gt_companion *companion, struct gt_err **err)
{
    const struct gt_companion_options *options = companion->options;
    struct gt_informers_spec spec = {.gpu_attributes = options->project_nodefeatures,
                                     .lease_namespace = own_namespace(companion),
                                     .supernode_labels = options->supernode_label,
                                     .network_labels = options->network_labels};
    for (unsigned i = 0; i < gt_part_count; i++)
        if (options->parts >> i & 1) {
            spec.kinds |= gt_parts[i]->kinds;
            spec.reports |= gt_parts[i]->reports;
        }
    if (spec.kinds >> GT_INFORMER_PLACEMENTS & 1 && options->placement.claims != GT_CLAIMS_OFF)
        spec.kinds |= 1U << GT_INFORMER_CLAIMS | 1U << GT_INFORMER_CLAIM_TEMPLATES | 1U << GT_INFORMER_SLICES;
    if (!spec.kinds)
        return 0;
    int r = gt_informers_new(companion->loop, companion->kube, &spec, &companion->informers, err);
    struct gt_cache *cache = r >= 0 ? gt_informers_cache(companion->informers) : NULL;
    if (cache)
        gt_cluster_set_prefers_close(gt_cache_cluster(cache), options->close);
    return cache && options->chain.count ? gt_chain_set(gt_cache_cluster(cache), &options->chain, err) : r;
}

static int start_parts(struct gt_companion *companion, struct gt_err **err)
{
    companion->env = (struct gt_part_env){.loop = companion->loop,
                                          .kube = companion->kube,
                                          .recorder = companion->recorder,
                                          .options = companion->options,
                                          .namespace_ = own_namespace(companion),
                                          .instance = companion->instance,
                                          .is_leading = is_leading,
                                          .describe = gt_companion_describe,
                                          .leading_arg = companion};
    GT_TRY(make_informers(companion, err));
    companion->env.informers = companion->informers;
    for (unsigned i = 0; i < gt_part_count; i++) {
        if (!(companion->options->parts >> i & 1))
            continue;
        int r = gt_parts[i]->new (&companion->env, &companion->parts[i], err);
        if (r < 0)
            return gt_wrap(err, "%s", gt_parts[i]->name);
        if (gt_parts[i]->placement)
            companion->env.placement = companion->placement = gt_parts[i]->placement(companion->parts[i]);
    }
    return companion->informers ? gt_informers_start(companion->informers, err) : 0;
}

static int start_election(struct gt_companion *companion, struct gt_err **err)
{
    if (!companion->options->leader_elect) {
        lead_all(companion, true);
        return 0;
    }
    const struct gt_leader_spec spec = {.namespace_ = own_namespace(companion),
                                        .name = GT_COMPANION_NAME,
                                        .identity = companion->instance,
                                        .on_lead = companion_on_lead,
                                        .on_released = companion_on_released,
                                        .on_error = companion_on_lease_error,
                                        .write_note = companion_write_note,
                                        .write_last_note = companion_write_last_note,
                                        .read_note = companion_read_note,
                                        .arg = companion};
    return gt_elect_new(companion->loop, companion->kube, &spec, &companion->elect, err);
}

static void companion_log_start(const struct gt_companion *companion)
{
    const struct gt_companion_options *options = companion->options;
    gt_auto_buf struct gt_buf parts = GT_BUF(1024);
    for (unsigned i = 0; i < gt_part_count; i++)
        if (companion->parts[i])
            gt_buf_printf(&parts, "%s%s", parts.len ? "," : "", gt_parts[i]->name);
    gt_info(GT_COMPANION_NAME " started", GT_STR("version", gt_version), GT_STR("commit", gt_commit),
            GT_STR("instance", companion->instance), GT_STR("namespace", companion->env.namespace_),
            GT_STR("parts", parts.data ? parts.data : ""),
            GT_STR("http", options->serve.http ? options->serve.http : "none"),
            GT_BOOL("leaderElect", options->leader_elect));
}

static int companion_start(struct gt_companion *companion, struct gt_err **err)
{
    GT_TRY(gt_loop_new(&companion->loop, err));
    signal(SIGPIPE, SIG_IGN);
    GT_TRY(gt_loop_add_timer(companion->loop, companion_on_released, companion, &companion->end_timer, err));
    GT_TRY(gt_shutdown_new(companion->loop, COMPANION_END_MS, companion_on_end, companion, &companion->end,
                           err));
    GT_TRY(make_instance(companion, err));
    GT_TRY(start_client(companion, err));
    GT_TRY(gt_companion_serve(companion, err));
    GT_TRY(start_parts(companion, err));
    companion_log_start(companion);
    return start_election(companion, err);
}

static void companion_stop(struct gt_companion *companion, int result)
{
    gt_shutdown_begin(companion->end, result < 0 ? 1 : 0);
    gt_http_free(companion->health);
    gt_http_free(companion->https);
    gt_http_free(companion->http);
    gt_elect_free(companion->elect);
    for (unsigned i = gt_part_count; i-- > 0;)
        if (companion->parts[i])
            gt_parts[i]->free(companion->parts[i]);
    gt_informers_free(companion->informers);
    gt_kube_recorder_free(companion->recorder);
    gt_kube_free(companion->kube);
    gt_shutdown_free(companion->end);
    gt_loop_free(companion->loop);
}

/* Until a signal ends it. An error means that it could not start. */
static int companion_run(const void *options, struct gt_err **err)
{
    struct gt_companion companion = {.options = options};
    const char *kinds = companion.options->kinds;
    GT_TRY(kinds ? gt_kinds_file_read(kinds, err) : 0);
    int r = companion_start(&companion, err);
    if (r >= 0)
        r = gt_loop_run(companion.loop, err);
    companion_stop(&companion, r);
    return r;
}

static const char program[] = GT_COMPANION_NAME;

/* The endpoints use at most a quarter of the file descriptors for connections. */
enum { COMPANION_DESCRIPTORS = 128 };

int main(int argc, char **argv)
{
    static struct gt_companion_options options;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_companion_options_read(argc, argv, &options, &err) < 0)
        return gt_exit_with(program, err, GT_EXIT_USAGE);
    if (options.help) {
        gt_auto_buf struct gt_buf text = GT_BUF(16 << 10);
        gt_companion_options_help(&text);
        return gt_exit_with_text(program, &text);
    }
    if (options.version)
        return gt_exit_with_version(program);
    gt_log_setup(options.log_level, options.log_format);
    return gt_process_run(program, COMPANION_DESCRIPTORS, companion_run, &options);
}
