/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/supernodes_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/json_get.h"
#include "base/log.h"
#include "kube/informer.h"

enum { FILE_MS = 10000 };

struct gt_config_source {
    const struct gt_config_kind *kind;
    const char *what;
    char field[300];
    struct gt_kube_informer *informer;
    struct gt_source *timer;
    char *text; /* the last text, NULL: there was none */
    void *value;
    char error[512];
    bool is_known;
    void *arg;
};

static bool config_source_is_file(const struct gt_config_source *source)
{
    return source->what && strchr(source->what, '/');
}

static void config_source_drop(struct gt_config_source *source)
{
    if (source->value)
        source->kind->free(gt_steal(source->value));
}

static void config_source_clear(struct gt_config_source *source)
{
    free(gt_steal(source->text));
    config_source_drop(source);
    source->error[0] = '\0';
}

static void config_source_on_text(struct gt_config_source *source, const char *text)
{
    void *value = NULL;
    gt_auto_err struct gt_err *err = NULL;
    bool same = source->is_known && source->text && strcmp(source->text, text) == 0;
    source->is_known = true;
    if (same)
        return;
    free(source->text);
    source->text = strdup(text);
    if (source->kind->read(text, &value, &err) < 0)
        snprintf(source->error, sizeof(source->error), "%s", gt_err_text(err));
    else {
        config_source_drop(source);
        source->value = value;
        source->error[0] = '\0';
        gt_info("configuration of supernodes read", GT_STR("from", source->what),
                GT_STR("what", source->kind->what));
    }
    source->kind->on_change(source->arg);
}

static void config_source_on_nothing(struct gt_config_source *source)
{
    bool same = source->is_known && !source->text && !source->error[0];
    source->is_known = true;
    config_source_clear(source);
    if (!same)
        source->kind->on_change(source->arg);
}

static void config_source_on_error(struct gt_config_source *source, const char *why)
{
    bool same = source->is_known && strcmp(source->error, why) == 0;
    source->is_known = true;
    free(gt_steal(source->text)); /* the next text counts as changed */
    snprintf(source->error, sizeof(source->error), "%s", why);
    if (!same)
        source->kind->on_change(source->arg);
}

static void config_source_on_object(void *arg, cJSON *object)
{
    struct gt_config_source *source = arg;
    const char *text = NULL;
    for (const char *const *key = source->kind->keys; *key && !text; key++)
        text = cJSON_GetStringValue(gt_get_at(object, "data", *key));
    if (text)
        config_source_on_text(source, text);
    else {
        char why[64];
        snprintf(why, sizeof(why), "it has no key \"%.32s\"", source->kind->keys[0]);
        config_source_on_error(source, why);
    }
}

static void config_source_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)namespace_;
    (void)name;
    (void)object;
    config_source_on_nothing(arg);
}

static void config_source_on_synced(void *arg)
{
    struct gt_config_source *source = arg;
    if (!source->is_known)
        config_source_on_nothing(source);
}

static void config_source_on_timer(void *arg)
{
    struct gt_config_source *source = arg;
    gt_auto_free char *text = NULL;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_file_read(AT_FDCWD, source->what, source->kind->text_max, &text, NULL, &err);
    if (r >= 0)
        config_source_on_text(source, text);
    else if (r == -ENOENT)
        config_source_on_nothing(source);
    else
        config_source_on_error(source, gt_err_text(err));
    gt_source_arm(source->timer, FILE_MS);
}

void gt_config_source_free(struct gt_config_source *source)
{
    if (!source)
        return;
    gt_kube_informer_free(source->informer);
    gt_source_free(source->timer);
    config_source_clear(source);
    free(source);
}

static int config_source_follow(struct gt_config_source *source, const struct gt_part_env *env,
                                struct gt_err **err)
{
    snprintf(source->field, sizeof(source->field), "metadata.name=%s", source->what);
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_configmaps,
                      .namespace_ = env->namespace_,
                      .field_selector = source->field},
        .on_add = config_source_on_object,
        .on_update = config_source_on_object,
        .on_delete = config_source_on_deleted,
        .on_synced = config_source_on_synced,
        .arg = source,
    };
    return gt_kube_informer_start(env->kube, &spec, &source->informer, err);
}

int gt_config_source_new(const struct gt_part_env *env, const char *what, const struct gt_config_kind *kind,
                         void *arg, struct gt_config_source **ret, struct gt_err **err)
{
    __attribute__((cleanup(gt_config_source_free_p))) struct gt_config_source *source =
        calloc(1, sizeof(*source));
    GT_NEED(source, err, "groups");
    *source = (struct gt_config_source){.kind = kind, .what = what, .arg = arg};
    if (!what)
        source->is_known = true;
    else if (config_source_is_file(source)) {
        GT_TRY(gt_loop_add_timer(env->loop, config_source_on_timer, source, &source->timer, err));
        gt_source_arm(source->timer, 0);
    } else
        GT_TRY(config_source_follow(source, env, err));
    *ret = gt_steal(source);
    return 0;
}

bool gt_config_source_is_known(const struct gt_config_source *source)
{
    return source->is_known;
}

const void *gt_config_source_get(const struct gt_config_source *source)
{
    return source->value;
}

const char *gt_config_source_error(const struct gt_config_source *source)
{
    return source->error;
}

bool gt_config_source_is_configmap(const struct gt_config_source *source)
{
    return source->what && !config_source_is_file(source);
}
