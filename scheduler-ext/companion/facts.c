/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/facts.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
#include "kube/status.h"

struct gt_facts {
    void *tree; /* of search.h, by name */
    uint32_t count;
    const char *label_keys;
    bool with_gpus;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct gt_fact *)a)->name, ((const struct gt_fact *)b)->name);
}

static void forget_topology(struct gt_fact *fact)
{
    for (uint32_t i = 0; i < fact->remote_count; i++)
        free(fact->remotes[i]);
    free(fact->remotes);
    free(fact->server_uuid);
    free(fact->gpu_text);
    fact->remotes = NULL;
    fact->remote_count = 0;
    fact->server_uuid = fact->gpu_text = NULL;
    fact->gpus = fact->free = -1;
    fact->links = GT_FACT_LINKS_UNKNOWN;
    fact->has_topology = false;
}

static void forget_node(struct gt_fact *fact)
{
    free(fact->uid);
    free(fact->label);
    fact->uid = fact->label = NULL;
    fact->has_node = false;
}

static void free_fact(void *item)
{
    struct gt_fact *fact = item;
    forget_topology(fact);
    forget_node(fact);
    free(fact->name);
    free(fact);
}

int gt_facts_new(const char *label_keys, bool with_gpus, struct gt_facts **ret, struct gt_err **err)
{
    struct gt_facts *facts = calloc(1, sizeof(*facts));
    if (!facts)
        return gt_fail_sys(err, ENOMEM, "facts");
    facts->label_keys = label_keys;
    facts->with_gpus = with_gpus;
    *ret = facts;
    return 0;
}

void gt_facts_free(struct gt_facts *facts)
{
    if (!facts)
        return;
    tdestroy(facts->tree, free_fact);
    free(facts);
}

static struct gt_fact *find(const struct gt_facts *facts, const char *name)
{
    const struct gt_fact key = {.name = (char *)(uintptr_t)name};
    void *found = tfind(&key, &facts->tree, compare);
    return found ? *(struct gt_fact **)found : NULL;
}

static struct gt_fact *find_or_add(struct gt_facts *facts, const char *name)
{
    struct gt_fact *fact = find(facts, name);
    if (fact || !*name)
        return fact;
    fact = calloc(1, sizeof(*fact));
    if (!fact || !(fact->name = strdup(name)) || !tsearch(fact, &facts->tree, compare)) {
        if (fact)
            free_fact(fact);
        return NULL;
    }
    fact->gpus = fact->free = -1;
    facts->count++;
    return fact;
}

static void drop_if_empty(struct gt_facts *facts, struct gt_fact *fact)
{
    if (fact->has_node || fact->has_topology)
        return;
    tdelete(fact, &facts->tree, compare);
    facts->count--;
    free_fact(fact);
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* A copy of a text that is there and not too long, else NULL. */
static char *copy(const char *text)
{
    return text && *text && strlen(text) <= GT_FACT_TEXT_MAX ? strdup(text) : NULL;
}

bool gt_label_key_next(const char **keys, char ret[static GT_LABEL_KEY_SIZE])
{
    const char *key = *keys;
    size_t len = strcspn(key, ",");
    *keys = key[len] ? key + len + 1 : NULL;
    if (len >= GT_LABEL_KEY_SIZE)
        return false;
    memcpy(ret, key, len);
    ret[len] = '\0';
    return true;
}

static const char *label_of(const struct gt_facts *facts, const cJSON *labels)
{
    const char *keys = facts->label_keys, *label = "";
    char key[GT_LABEL_KEY_SIZE];
    while (keys && !*label)
        if (gt_label_key_next(&keys, key))
            label = gt_get_string(labels, key);
    return label;
}

bool gt_facts_node(struct gt_facts *facts, const cJSON *object)
{
    struct gt_fact *fact = find_or_add(facts, gt_kube_meta(object, "name"));
    if (!fact)
        return false;
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(metadata, "labels");
    char *label = copy(label_of(facts, labels));
    char *uid = copy(gt_get_string(metadata, "uid"));
    bool changed = !fact->has_node || !is_same(fact->label, label);
    forget_node(fact);
    fact->label = label;
    fact->uid = uid;
    fact->has_node = true;
    return changed;
}

bool gt_facts_node_gone(struct gt_facts *facts, const char *name)
{
    struct gt_fact *fact = find(facts, name);
    if (!fact || !fact->has_node)
        return false;
    forget_node(fact);
    drop_if_empty(facts, fact);
    return true;
}

/* A whole number from 0 to max, else -1. */
static int number_of(const cJSON *object, const char *key, int max)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > max)
        return -1;
    int number = (int)item->valuedouble;
    return (double)number == item->valuedouble ? number : -1;
}

static enum gt_fact_links links_of(const cJSON *status)
{
    const cJSON *condition, *list = cJSON_GetObjectItemCaseSensitive(status, "conditions");
    cJSON_ArrayForEach(condition, list)
    {
        if (strcmp(gt_get_string(condition, "type"), "LinksHealthy") != 0)
            continue;
        const char *said = gt_get_string(condition, "status");
        return strcmp(said, "True") == 0    ? GT_FACT_LINKS_UP
               : strcmp(said, "False") == 0 ? GT_FACT_LINKS_DOWN
                                            : GT_FACT_LINKS_UNKNOWN;
    }
    return GT_FACT_LINKS_UNKNOWN;
}

static bool copy_remotes(const cJSON *supernode, struct gt_fact *to)
{
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(supernode, "remote");
    int size = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (size == 0)
        return true;
    to->remotes = calloc(GT_FACT_REMOTES_MAX, sizeof(*to->remotes));
    if (!to->remotes)
        return false;
    cJSON_ArrayForEach(item, list)
    {
        const char *text = cJSON_GetStringValue(item);
        if (!text || !*text || strlen(text) > GT_FACT_TEXT_MAX || to->remote_count == GT_FACT_REMOTES_MAX)
            continue;
        char *copied = strdup(text);
        if (!copied)
            return false;
        to->remotes[to->remote_count++] = copied;
    }
    if (to->remote_count) { /* most have a few only */
        char **less = realloc(to->remotes, to->remote_count * sizeof(*less));
        to->remotes = less ? less : to->remotes;
    }
    return true;
}

static void add_text(struct gt_buf *to, const cJSON *from, const char *key)
{
    const char *text = gt_get_string(from, key);
    if (!*text || strlen(text) > GT_FACT_TEXT_MAX)
        return;
    gt_json_add_text(to, key, text);
}

static void add_number(struct gt_buf *to, const cJSON *from, const char *key)
{
    char text[16];
    int number = number_of(from, key, 1 << 20);
    snprintf(text, sizeof(text), "%d", number);
    if (number >= 0)
        gt_json_add_text(to, key, text);
}

/* The GPUs as instances of a feature, as NodeFeatures have them: every attribute is a text. */
static char *gpu_text_of(const cJSON *status)
{
    const cJSON *gpu, *gpus = cJSON_GetObjectItemCaseSensitive(status, "gpus");
    gt_auto_buf struct gt_buf text = GT_BUF(128 << 10);
    unsigned count = 0;
    gt_json_begin(&text, NULL, '[');
    cJSON_ArrayForEach(gpu, gpus)
    {
        if (count++ == GT_FACT_GPUS_MAX)
            break;
        gt_json_begin(&text, NULL, '{');
        gt_json_begin(&text, "attributes", '{');
        if (text.failed)
            return NULL;
        add_number(&text, gpu, "index");
        add_text(&text, gpu, "product");
        add_text(&text, gpu, "bdf");
        add_number(&text, gpu, "numaNode");
        add_number(&text, gpu, "zone");
        add_text(&text, gpu, "health");
        const cJSON *healthy = cJSON_GetObjectItemCaseSensitive(gpu, "healthy");
        if (cJSON_IsBool(healthy))
            gt_json_add_text(&text, "healthy", cJSON_IsTrue(healthy) ? "true" : "false");
        gt_buf_puts(&text, "}}");
    }
    gt_json_end(&text, ']');
    return gt_buf_take(&text);
}

static bool is_same_topology(const struct gt_fact *a, const struct gt_fact *b)
{
    if (a->has_topology != b->has_topology || a->gpus != b->gpus || a->free != b->free ||
        a->links != b->links || a->remote_count != b->remote_count ||
        !is_same(a->server_uuid, b->server_uuid) || !is_same(a->gpu_text, b->gpu_text))
        return false;
    for (uint32_t i = 0; i < a->remote_count; i++)
        if (strcmp(a->remotes[i], b->remotes[i]) != 0)
            return false;
    return true;
}

bool gt_facts_topology(struct gt_facts *facts, const cJSON *object)
{
    struct gt_fact *fact = find_or_add(facts, gt_kube_meta(object, "name"));
    if (!fact)
        return false;
    const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
    const cJSON *supernode = cJSON_GetObjectItemCaseSensitive(status, "supernode");
    struct gt_fact news = {.has_topology = true,
                           .server_uuid = copy(gt_get_string(supernode, "uuid")),
                           .gpus = number_of(status, "gpuCount", GT_FACT_GPUS_MAX),
                           .free = number_of(status, "freeCount", GT_FACT_GPUS_MAX),
                           .links = links_of(status),
                           .gpu_text = facts->with_gpus ? gpu_text_of(status) : NULL};
    if (news.free > news.gpus)
        news.free = -1;
    if (!copy_remotes(supernode, &news) || is_same_topology(fact, &news)) {
        forget_topology(&news);
        drop_if_empty(facts, fact);
        return false;
    }
    forget_topology(fact);
    fact->has_topology = true;
    fact->server_uuid = news.server_uuid;
    fact->remotes = news.remotes;
    fact->remote_count = news.remote_count;
    fact->gpus = news.gpus;
    fact->free = news.free;
    fact->links = news.links;
    fact->gpu_text = news.gpu_text;
    return true;
}

bool gt_facts_topology_gone(struct gt_facts *facts, const char *name)
{
    struct gt_fact *fact = find(facts, name);
    if (!fact || !fact->has_topology)
        return false;
    forget_topology(fact);
    drop_if_empty(facts, fact);
    return true;
}

struct walk {
    const struct gt_fact **items;
    uint32_t count, room;
};

static void visit(const void *node, VISIT which, void *arg)
{
    struct walk *walk = arg;
    const struct gt_fact *fact = *(const struct gt_fact *const *)node;
    if ((which == postorder || which == leaf) && fact->has_node && walk->count < walk->room)
        walk->items[walk->count++] = fact;
}

const struct gt_fact **gt_facts_list(const struct gt_facts *facts, uint32_t *ret_count)
{
    struct walk walk = {.items = malloc(((size_t)facts->count + 1) * sizeof(*walk.items)),
                        .room = facts->count};
    if (!walk.items)
        return NULL;
    twalk_r(facts->tree, visit, &walk);
    *ret_count = walk.count;
    return walk.items;
}
