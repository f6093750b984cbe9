/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_claim.h"
#include "api/removal.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/table.h"

enum {
    USE_CHECK_MS = 60000, /* which are in use */
    UNUSED_CHECKS = 3,
    TEMPLATE_RETRY_MS = 1000,
    TEMPLATE_RETRY_MAX_MS = 300000,
    TEMPLATE_BODY_MAX = 16 << 10,
    TEMPLATES_RUNNING_MAX = 8,
};

struct claim_template {
    struct gt_claim_templates *all;
    uint32_t hash;
    char *namespace_, *name;
    char uid[64];      /* resourceVersion; "": it does not exist, as far as known */
    unsigned unused;   /* rounds in a row without use */
    unsigned failures; /* failed writes in a row */
    uint64_t next_ms;  /* no write before then */
    struct gt_kube_call *call;
};

struct gt_claim_templates {
    const struct gt_part_env *env;
    struct gt_source *timer;
    struct gt_table table;
    uint64_t check_ms;
    unsigned running;
    bool leads, listed;
};

/* ---- the table ---- */

struct template_key {
    const char *namespace_, *name;
};

static bool claim_templates_is_template(const void *item, const void *key)
{
    const struct claim_template *one = item;
    const struct template_key *wanted = key;
    return strcmp(one->name, wanted->name) == 0 && strcmp(one->namespace_, wanted->namespace_) == 0;
}

static struct claim_template *claim_templates_find(const struct gt_claim_templates *templates,
                                                   const char *namespace_, const char *name)
{
    const struct template_key key = {namespace_, name};
    return gt_table_find(&templates->table, gt_digest_hash_of_name(namespace_, name),
                         claim_templates_is_template, &key);
}

static void free_template(struct claim_template *one)
{
    if (one->call) {
        gt_kube_cancel(one->call);
        one->all->running--;
    }
    free(one->namespace_);
    free(one->name);
    free(one);
}

static struct claim_template *claim_templates_find_or_add(struct gt_claim_templates *templates,
                                                          const char *namespace_, const char *name)
{
    struct claim_template *one = claim_templates_find(templates, namespace_, name);
    if (one || !(one = calloc(1, sizeof(*one))))
        return one;
    *one = (struct claim_template){.all = templates,
                                   .hash = gt_digest_hash_of_name(namespace_, name),
                                   .namespace_ = strdup(namespace_),
                                   .name = strdup(name)};
    if (one->namespace_ && one->name && gt_table_add(&templates->table, one->hash, one) == 0)
        return one;
    free_template(one);
    return NULL;
}

static void claim_templates_drop(struct claim_template *one)
{
    gt_table_remove(&one->all->table, one->hash, one);
    free_template(one);
}

static void soon(struct gt_claim_templates *templates)
{
    if (templates->leads && templates->listed)
        gt_source_arm(templates->timer, 0);
}

/* ---- writes ---- */

static void claim_templates_on_written(void *arg, struct gt_kube_answer *answer)
{
    struct claim_template *one = arg;
    struct gt_claim_templates *templates = one->all;
    one->call = NULL;
    templates->running--;
    if (!answer->error || answer->status == 404) {
        one->failures = 0;
        one->next_ms = gt_clock_ms() + TEMPLATE_RETRY_MS; /* the watch sends it */
    } else {
        gt_log(one->failures ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot write a ResourceClaimTemplate",
               GT_STR("namespace", one->namespace_), GT_STR("name", one->name),
               GT_STR("error", gt_err_text(answer->error)));
        one->next_ms =
            gt_clock_ms() + gt_backoff_step(one->failures++, TEMPLATE_RETRY_MS, TEMPLATE_RETRY_MAX_MS);
    }
    soon(templates);
}

static int claim_templates_send(struct claim_template *one, bool creates, struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(TEMPLATE_BODY_MAX);
    struct gt_claim_sizes sizes;
    if (!creates)
        gt_delete_options_write(one->uid, NULL, &body);
    else if (gt_claim_template_sizes(one->name, &sizes))
        gt_claim_template_write(one->name, &sizes, &body);
    const struct gt_kube_request request = {.verb = creates ? GT_KUBE_CREATE : GT_KUBE_DELETE,
                                            .resource = &gt_kube_resource_claim_templates,
                                            .namespace_ = one->namespace_,
                                            .name = creates ? NULL : one->name,
                                            .body = body.data,
                                            .field_manager = creates ? GT_MANAGER_COMPANION : NULL,
                                            .no_object = true};
    int r = gt_buf_check(&body, "ResourceClaimTemplate", err);
    return r < 0 ? r
                 : gt_kube_start(one->all->env->kube, &request, claim_templates_on_written, one, &one->call,
                                 err);
}

/* When it is to be written next; UINT64_MAX: it is as desired. */
static uint64_t write_if_due(struct claim_template *one, uint64_t now)
{
    struct gt_claim_templates *templates = one->all;
    gt_auto_err struct gt_err *error = NULL;
    bool creates = !one->uid[0] && !one->unused, deletes = one->uid[0] && one->unused >= UNUSED_CHECKS;
    if (one->call || (!creates && !deletes) || templates->running >= TEMPLATES_RUNNING_MAX)
        return UINT64_MAX; /* each answer starts a new round */
    if (one->next_ms > now)
        return one->next_ms;
    if (!templates->env->is_leading(templates->env->leading_arg))
        return now + TEMPLATE_RETRY_MS;
    if (claim_templates_send(one, creates, &error) == 0) {
        templates->running++;
        return UINT64_MAX;
    }
    one->next_ms = now + gt_backoff_step(one->failures++, TEMPLATE_RETRY_MS, TEMPLATE_RETRY_MAX_MS);
    return one->next_ms;
}

/* ---- use by pods ---- */

static struct claim_template *after(const struct gt_claim_templates *templates,
                                    const struct claim_template *one)
{
    return gt_table_after(&templates->table, one ? one->hash : 0, one);
}

static void check_use(struct gt_claim_templates *templates)
{
    const struct gt_cache *cache = gt_informers_cache(templates->env->informers);
    for (struct claim_template *one = after(templates, NULL); one; one = after(templates, one))
        one->unused++;
    for (const struct gt_cache_pod *pod = gt_cache_next_pod(cache, NULL); pod;
         pod = gt_cache_next_pod(cache, pod)) {
        struct claim_template *one =
            pod->claim_template ? claim_templates_find(templates, pod->meta.namespace_, pod->claim_template)
                                : NULL;
        if (one)
            one->unused = 0;
    }
    for (struct claim_template *next = after(templates, NULL), *one; (one = next);) {
        next = after(templates, one);
        if (!one->uid[0] && !one->call && one->unused >= UNUSED_CHECKS)
            claim_templates_drop(one);
    }
}

static void claim_templates_on_timer(void *arg)
{
    struct gt_claim_templates *templates = arg;
    uint64_t now = gt_clock_ms();
    if (!templates->leads || !templates->listed)
        return;
    if (now >= templates->check_ms) {
        check_use(templates);
        templates->check_ms = now + USE_CHECK_MS;
    }
    uint64_t next = templates->check_ms;
    for (struct claim_template *one = after(templates, NULL); one; one = after(templates, one)) {
        uint64_t due = write_if_due(one, now);
        next = due < next ? due : next;
    }
    gt_source_arm(templates->timer, next > now ? next - now : 0);
}

void gt_claim_templates_observe_pod(struct gt_claim_templates *templates, const struct gt_pod *pod)
{
    if (!pod->claim_template || pod->ended || pod->invalid || !*pod->meta.namespace_)
        return;
    struct claim_template *one =
        claim_templates_find_or_add(templates, pod->meta.namespace_, pod->claim_template);
    if (!one)
        return;
    one->unused = 0;
    if (!one->uid[0])
        soon(templates);
}

/* ---- existing templates ---- */

void gt_claim_templates_observe(struct gt_claim_templates *templates, const cJSON *object)
{
    const char *name = gt_meta_name(object), *namespace_ = gt_meta_namespace(object);
    struct gt_claim_sizes sizes;
    if (!gt_meta_is_companions(object)) {
        gt_claim_templates_observe_deleted(templates, namespace_, name);
        return;
    }
    struct claim_template *one = gt_claim_template_sizes(name, &sizes)
                                     ? claim_templates_find_or_add(templates, namespace_, name)
                                     : NULL;
    if (one)
        snprintf(one->uid, sizeof(one->uid), "%s", gt_meta_uid(object));
}

void gt_claim_templates_observe_deleted(struct gt_claim_templates *templates, const char *namespace_,
                                        const char *name)
{
    struct claim_template *one = claim_templates_find(templates, namespace_, name);
    if (!one)
        return;
    one->uid[0] = '\0';
    soon(templates);
}

void gt_claim_templates_on_listed(struct gt_claim_templates *templates)
{
    templates->listed = true;
    soon(templates);
}

/* ---- creation and end ---- */

void gt_claim_templates_lead(struct gt_claim_templates *templates, bool leads)
{
    templates->leads = leads;
    templates->check_ms = gt_clock_ms() + USE_CHECK_MS;
    for (struct claim_template *one = after(templates, NULL); one && !leads; one = after(templates, one))
        if (one->call) {
            gt_kube_cancel(gt_steal(one->call));
            templates->running--;
        }
    soon(templates);
}

void gt_claim_templates_free(struct gt_claim_templates *templates)
{
    if (!templates)
        return;
    for (struct claim_template *next = after(templates, NULL), *one; (one = next);) {
        next = after(templates, one);
        free_template(one);
    }
    gt_table_done(&templates->table);
    gt_source_free(templates->timer);
    free(templates);
}

int gt_claim_templates_new(const struct gt_part_env *env, struct gt_claim_templates **ret,
                           struct gt_err **err)
{
    struct gt_claim_templates *templates = calloc(1, sizeof(*templates));
    if (!templates)
        return gt_fail_sys(err, ENOMEM, "templates of claims");
    templates->env = env;
    int r = gt_loop_add_timer(env->loop, claim_templates_on_timer, templates, &templates->timer, err);
    if (r < 0) {
        gt_claim_templates_free(templates);
        return r;
    }
    *ret = templates;
    return 0;
}
