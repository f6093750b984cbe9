/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/supernodes_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "api/config_map.h"
#include "base/file.h"
#include "base/log.h"
#include "kube/informer.h"

enum { FILE_MS = 10000 };

struct gt_groups_source {
    const char *what;
    char field[300];
    struct gt_kube_informer *informer;
    struct gt_source *timer;
    char *text; /* the last text, NULL: there was none */
    struct gt_groups *groups;
    char error[512];
    bool is_known;
    void (*on_change)(void *arg);
    void *arg;
};

static bool groups_source_is_file(const struct gt_groups_source *source)
{
    return source->what && strchr(source->what, '/');
}

static void groups_source_clear(struct gt_groups_source *source)
{
    free(gt_steal(source->text));
    gt_groups_free(gt_steal(source->groups));
    source->error[0] = '\0';
}

static void groups_source_take(struct gt_groups_source *source, const char *text)
{
    struct gt_groups *groups = NULL;
    gt_auto_err struct gt_err *err = NULL;
    bool same = source->is_known && source->text && strcmp(source->text, text) == 0;
    source->is_known = true;
    if (same)
        return;
    free(source->text);
    source->text = strdup(text);
    if (gt_groups_read(text, strlen(text), &groups, &err) < 0)
        snprintf(source->error, sizeof(source->error), "%s", gt_err_text(err));
    else {
        gt_groups_free(source->groups);
        source->groups = groups;
        source->error[0] = '\0';
        gt_info("configuration of supernodes read", GT_STR("from", source->what),
                GT_INT("groups", groups->count), GT_INT("mistakes", groups->note_count));
    }
    source->on_change(source->arg);
}

static void take_nothing(struct gt_groups_source *source)
{
    bool same = source->is_known && !source->text && !source->error[0];
    source->is_known = true;
    groups_source_clear(source);
    if (!same)
        source->on_change(source->arg);
}

static void take_error(struct gt_groups_source *source, const char *why)
{
    bool same = source->is_known && strcmp(source->error, why) == 0;
    source->is_known = true;
    free(gt_steal(source->text)); /* the next text counts as changed */
    snprintf(source->error, sizeof(source->error), "%s", why);
    if (!same)
        source->on_change(source->arg);
}

static void groups_source_on_object(void *arg, cJSON *object)
{
    struct gt_groups_source *source = arg;
    gt_auto_config_map struct gt_config_map *map = NULL;
    gt_auto_err struct gt_err *err = NULL;
    const char *text =
        gt_config_map_read(object, &map, &err) < 0 ? NULL : gt_config_map_get(map, GT_GROUPS_KEY);
    if (text)
        groups_source_take(source, text);
    else
        take_error(source, err ? gt_err_text(err) : "it has no key \"" GT_GROUPS_KEY "\"");
}

static void groups_source_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)namespace_;
    (void)name;
    (void)object;
    take_nothing(arg);
}

static void groups_source_on_synced(void *arg)
{
    struct gt_groups_source *source = arg;
    if (!source->is_known)
        take_nothing(source);
}

static void groups_source_on_timer(void *arg)
{
    struct gt_groups_source *source = arg;
    gt_auto_free char *text = NULL;
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_file_read(AT_FDCWD, source->what, GT_GROUPS_TEXT_MAX, &text, NULL, &err);
    if (r >= 0)
        groups_source_take(source, text);
    else if (r == -ENOENT)
        take_nothing(source);
    else
        take_error(source, gt_err_text(err));
    gt_source_arm(source->timer, FILE_MS);
}

void gt_groups_source_free(struct gt_groups_source *source)
{
    if (!source)
        return;
    gt_kube_informer_free(source->informer);
    gt_source_free(source->timer);
    groups_source_clear(source);
    free(source);
}

static int groups_source_follow(struct gt_groups_source *source, struct gt_kube *kube, const char *namespace_,
                                struct gt_err **err)
{
    snprintf(source->field, sizeof(source->field), "metadata.name=%s", source->what);
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_configmaps,
                      .namespace_ = namespace_,
                      .field_selector = source->field},
        .on_add = groups_source_on_object,
        .on_update = groups_source_on_object,
        .on_delete = groups_source_on_deleted,
        .on_synced = groups_source_on_synced,
        .arg = source,
    };
    return gt_kube_informer_start(kube, &spec, &source->informer, err);
}

int gt_groups_source_new(struct gt_loop *loop, struct gt_kube *kube, const char *namespace_, const char *what,
                         void (*on_change)(void *arg), void *arg, struct gt_groups_source **ret,
                         struct gt_err **err)
{
    __attribute__((cleanup(gt_groups_source_free_p))) struct gt_groups_source *source =
        calloc(1, sizeof(*source));
    if (!source)
        return gt_fail_sys(err, ENOMEM, "groups");
    *source = (struct gt_groups_source){.what = what, .on_change = on_change, .arg = arg};
    if (!what)
        source->is_known = true;
    else if (groups_source_is_file(source)) {
        GT_TRY(gt_loop_add_timer(loop, groups_source_on_timer, source, &source->timer, err));
        gt_source_arm(source->timer, 0);
    } else
        GT_TRY(groups_source_follow(source, kube, namespace_, err));
    *ret = gt_steal(source);
    return 0;
}

bool gt_groups_source_is_known(const struct gt_groups_source *source)
{
    return source->is_known;
}

const struct gt_groups *gt_groups_source_get(const struct gt_groups_source *source)
{
    return source->groups;
}

const char *gt_groups_source_error(const struct gt_groups_source *source)
{
    return source->error;
}

bool gt_groups_source_is_configmap(const struct gt_groups_source *source)
{
    return source->what && !groups_source_is_file(source);
}
