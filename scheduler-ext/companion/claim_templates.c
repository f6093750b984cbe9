/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_claim.h"
#include "base/clock.h"
#include "kube/index.h"
#include "kube/informer.h"
#include "kube/writer.h"

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
    const char *namespace_, *name; /* in its entry of the index */
    char uid[64];                  /* "": it does not exist, as far as known */
    unsigned unused;               /* rounds in a row without use */
    struct gt_write_key key;
};

struct gt_claim_templates {
    const struct gt_part_env *env;
    struct gt_source *timer;
    struct gt_index index; /* an entry's item is a struct claim_template */
    struct gt_write_line line;
    bool leads, listed;
};

/* ---- the table ---- */

static struct claim_template *claim_templates_find_or_add(struct gt_claim_templates *templates,
                                                          const char *namespace_, const char *name)
{
    struct claim_template *one = gt_index_item(&templates->index, namespace_, name);
    if (one || !(one = calloc(1, sizeof(*one))))
        return one;
    struct gt_index_entry *entry = gt_index_add(&templates->index, namespace_, name);
    if (!entry) {
        free(one);
        return NULL;
    }
    *one = (struct claim_template){.all = templates,
                                   .key = {.line = &templates->line, .of = one},
                                   .namespace_ = entry->key,
                                   .name = gt_index_name(entry)};
    return entry->item = one;
}

static void claim_templates_drop(struct claim_template *template)
{
    gt_auto_free struct gt_index_entry *entry =
        gt_index_take(&template->all->index, template->namespace_, template->name);
    gt_write_remove(&template->key);
    free(entry->item);
}

static bool claim_templates_is_due(const struct claim_template *template, bool *ret_creates)
{
    *ret_creates = !template->uid[0];
    return template->all->leads && template->all->listed &&
           (*ret_creates ? !template->unused : template->unused >= UNUSED_CHECKS);
}

static void claim_templates_add(struct claim_template *template)
{
    bool creates;
    if (claim_templates_is_due(template, &creates))
        gt_write_add(&template->key);
}

/* ---- writes ---- */

static int claim_templates_make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                                struct gt_err **err)
{
    const struct claim_template *one = key->of;
    struct gt_claim_sizes sizes;
    bool creates;
    (void)err;
    if (!claim_templates_is_due(one, &creates))
        return GT_WRITE_NOTHING;
    if (!creates)
        gt_delete_options_write(one->uid, NULL, body);
    else if (gt_claim_template_sizes(one->name, &sizes))
        gt_claim_template_write(one->name, &sizes, body);
    *ret = (struct gt_kube_request){.verb = creates ? GT_KUBE_CREATE : GT_KUBE_DELETE,
                                    .resource = &gt_kube_resource_claim_templates,
                                    .namespace_ = one->namespace_,
                                    .name = creates ? NULL : one->name,
                                    .field_manager = creates ? GT_MANAGER_COMPANION : NULL,
                                    .no_object = true};
    return GT_WRITE_SEND;
}

static bool claim_templates_on_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                                       struct gt_kube_answer *answer)
{
    (void)answer;
    if (outcome != GT_WRITE_DONE)
        return true;
    key->due_ms = gt_clock_ms() + TEMPLATE_RETRY_MS; /* the watch shows it meanwhile */
    gt_write_add(key);
    return true;
}

static void claim_templates_report(const struct gt_write_key *key, bool again, const struct gt_err *error)
{
    const struct claim_template *one = key->of;
    gt_write_log("ResourceClaimTemplate", one->namespace_, one->name, again, error);
}

/* ---- use by pods ---- */

static struct claim_template *claim_templates_next(const struct gt_claim_templates *templates, size_t *slot)
{
    return gt_index_next(&templates->index, slot);
}

static void check_use(struct gt_claim_templates *templates)
{
    const struct gt_cache *cache = gt_informers_cache(templates->env->informers);
    size_t slot = 0;
    for (struct claim_template *one; (one = claim_templates_next(templates, &slot));)
        one->unused++;
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));) {
        struct claim_template *one =
            pod->claim_template ? gt_index_item(&templates->index, pod->meta.namespace_, pod->claim_template)
                                : NULL;
        if (one)
            one->unused = 0;
    }
    slot = 0;
    for (struct claim_template *one; (one = claim_templates_next(templates, &slot));)
        if (!one->uid[0] && one->key.state != GT_WRITE_RUNNING && one->unused >= UNUSED_CHECKS) {
            claim_templates_drop(one);
            slot--; /* another one may be there now */
        } else {
            claim_templates_add(one);
        }
}

static void claim_templates_on_timer(void *arg)
{
    struct gt_claim_templates *templates = arg;
    check_use(templates);
    gt_source_arm(templates->timer, USE_CHECK_MS);
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
    claim_templates_add(one);
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
    struct claim_template *one = gt_index_item(&templates->index, namespace_, name);
    if (!one)
        return;
    one->uid[0] = '\0';
    claim_templates_add(one);
}

static void claim_templates_begin(struct gt_claim_templates *templates)
{
    if (!templates->leads || !templates->listed)
        return;
    size_t slot = 0;
    for (struct claim_template *one; (one = claim_templates_next(templates, &slot));)
        claim_templates_add(one);
    gt_source_arm(templates->timer, USE_CHECK_MS);
}

void gt_claim_templates_on_listed(struct gt_claim_templates *templates)
{
    bool first = !templates->listed;
    templates->listed = true;
    if (first)
        claim_templates_begin(templates);
}

/* ---- creation and end ---- */

void gt_claim_templates_lead(struct gt_claim_templates *templates, bool leads)
{
    templates->leads = leads;
    gt_source_disarm(templates->timer);
    size_t slot = 0;
    for (struct claim_template *one; !leads && (one = claim_templates_next(templates, &slot));)
        gt_write_remove(&one->key);
    claim_templates_begin(templates);
}

void gt_claim_templates_free(struct gt_claim_templates *templates)
{
    if (!templates)
        return;
    size_t slot = 0;
    for (struct claim_template *one; (one = claim_templates_next(templates, &slot));) {
        gt_write_remove(&one->key);
        free(one);
    }
    gt_index_done(&templates->index);
    gt_write_close(&templates->line);
    gt_source_free(templates->timer);
    free(templates);
}
GT_DEFINE_CLEANUP(struct gt_claim_templates *, gt_claim_templates_free)

int gt_claim_templates_new(const struct gt_part_env *env, struct gt_claim_templates **ret,
                           struct gt_err **err)
{
    GT_CLEANUP(gt_claim_templates_free) struct gt_claim_templates *templates = calloc(1, sizeof(*templates));
    GT_NEED(templates, err, "templates of claims");
    templates->env = env;
    templates->index.max = GT_KUBE_OBJECTS_MAX;
    templates->line = (struct gt_write_line){.name = "claimtemplates",
                                             .running_max = TEMPLATES_RUNNING_MAX,
                                             .body_max = TEMPLATE_BODY_MAX,
                                             .retry_ms = TEMPLATE_RETRY_MS,
                                             .retry_max_ms = TEMPLATE_RETRY_MAX_MS,
                                             .may_send = env->is_leading,
                                             .arg = env->leading_arg,
                                             .make = claim_templates_make,
                                             .answered = claim_templates_on_written,
                                             .report = claim_templates_report};
    gt_write_open(gt_kube_writer(env->kube), &templates->line);
    GT_TRY(gt_loop_add_timer(env->loop, claim_templates_on_timer, templates, &templates->timer, err));
    *ret = gt_steal(templates);
    return 0;
}
