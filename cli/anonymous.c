/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "cli/bundle.h"

/* The same name gets the same number everywhere in a bundle, so that what belongs together can be seen. */

struct name_list { /* when sorted: each once */
    char **list;
    size_t count, capacity;
};

struct bundle_names {
    struct name_list all;    /* a name's number is its position */
    struct name_list places; /* those that the texts of decisions have: of nodes and supernodes */
};

enum { NAMES_LINE_MAX = 32 << 20, NAMES_DEPTH_MAX = 64, BUNDLE_ADDRESS_MAX = 46 };

/* Members whose texts are names, beside those that end with "name": of objects, or such names with slashes
 * between them. */
static const char *const keys[] = {
    "namespace", "holderIdentity",    "node",   "job",        "pod",           "parent", "key",
    "leader",    "supernode",         "nodes",  "supernodes", "members",       "pool",   "host",
    "subdomain", "reportingInstance", "switch", "switchPort", "clusterDomain", "behind", "partOf",
    "parts",     "claimTemplate",     "claim",  "container"};

static bool is_name_key(const char *key)
{
    size_t len = strlen(key);
    return GT_HAS_TEXT(keys, GT_COUNT(keys), key) || (len >= 4 && strcasecmp(key + len - 4, "name") == 0);
}

/* Words of Kubernetes and of ours, which say nothing of anybody. */
static const char *const public_words[] = {"default", "kube-system", "cpu", "memory"};

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

static bool is_public(const char *name, size_t len)
{
    for (size_t i = 0; i < GT_COUNT(public_words); i++)
        if (strlen(public_words[i]) == len && strncmp(public_words[i], name, len) == 0)
            return true;
    return len < 2 || strspn(name, "0123456789") >= len || strncmp(name, "gputopo", 7) == 0 ||
           memmem(name, len, "metax-tech", 10);
}

static int add_name(struct name_list *names, const char *name, size_t len, struct gt_err **err)
{
    if (is_public(name, len))
        return 0;
    GT_NEED(GT_GROW(names->list, names->count, names->capacity, 1024), err, "names");
    char *copy = names->list[names->count] = strndup(name, len);
    GT_NEED(copy, err, "names");
    names->count++;
    return 0;
}

/* All parts of "namespace/Kind/name" but the kind. */
static int learn_text(struct bundle_names *names, const char *text, struct gt_err **err)
{
    if (strstr(text, "kubernetes.io/") || strstr(text, "metax-tech.com/"))
        return 0; /* a key of a label or a taint */
    for (const char *at = text; *at;) {
        size_t len = 0;
        while (is_of_name(at[len]))
            len++;
        bool kind = at > text && at[-1] == '/' && at[len] == '/' && isupper((unsigned char)*at);
        if (len && !kind)
            GT_TRY(add_name(&names->all, at, len, err));
        at += len + (at[len] != 0);
    }
    return 0;
}

/* A row of the page's state: its first text is a name, and so are those with a slash; others are our words.
 */
static int learn_row(struct bundle_names *names, const cJSON *row, unsigned depth, struct gt_err **err)
{
    bool first = true;
    for (const cJSON *item = row->child; item && depth < NAMES_DEPTH_MAX; item = item->next) {
        if (cJSON_IsString(item) && (first || strchr(item->valuestring, '/')))
            GT_TRY(learn_text(names, item->valuestring, err));
        first = first && !cJSON_IsString(item);
        if (cJSON_IsArray(item))
            GT_TRY(learn_row(names, item, depth + 1, err));
    }
    return 0;
}

/* `named`: what stands here is a name. */
static int learn_value(struct bundle_names *names, const cJSON *value, bool named, unsigned depth,
                       struct gt_err **err)
{
    if (named && cJSON_IsString(value))
        return learn_text(names, value->valuestring, err);
    if (depth == NAMES_DEPTH_MAX)
        return 0;
    for (const cJSON *item = value->child; item; item = item->next) {
        bool in_list = cJSON_IsArray(value);
        if (in_list && named && cJSON_IsArray(item))
            GT_TRY(learn_row(names, item, depth + 1, err));
        else
            GT_TRY(learn_value(names, item, in_list ? named : item->string && is_name_key(item->string),
                               depth + 1, err));
    }
    return 0;
}

/* The lists ["node-1", 0, 3] and [3, "rack-1", 1, -1] of a decision's cluster. */
static int learn_places(struct bundle_names *names, const cJSON *list, struct gt_err **err)
{
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next)
        for (const cJSON *value = item->child; value; value = value->next)
            if (cJSON_IsString(value)) {
                GT_TRY(add_name(&names->places, value->valuestring, strlen(value->valuestring), err));
                GT_TRY(add_name(&names->all, value->valuestring, strlen(value->valuestring), err));
            }
    return 0;
}

int bundle_names_new(struct bundle_names **ret, struct gt_err **err)
{
    *ret = calloc(1, sizeof(**ret));
    GT_NEED(*ret, err, "names");
    return 0;
}

void bundle_names_free(struct bundle_names *names)
{
    struct name_list *const lists[] = {&names->all, &names->places};
    for (size_t l = 0; l < GT_COUNT(lists); l++) {
        for (size_t i = 0; i < lists[l]->count; i++)
            free(lists[l]->list[i]);
        free(lists[l]->list);
    }
    free(names);
}

int bundle_names_learn(struct bundle_names *names, const char *text, size_t len, struct gt_err **err)
{
    const struct gt_json_limits limits = {NAMES_LINE_MAX, 8 * GT_JSON_VALUES_MAX};
    for (const char *line = text, *end = text + len; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((next ? next : end) - line);
        gt_auto_json cJSON *json = NULL;
        GT_TRY(size ? gt_json_parse_within(line, size, "--anonymous", &limits, &json, err) : 0);
        if (gt_get(json, "classes")) {
            GT_TRY(learn_places(names, gt_get(json, "nodes"), err));
            GT_TRY(learn_places(names, gt_get(json, "supernodes"), err));
        } else if (json)
            GT_TRY(learn_value(names, json, false, 0, err));
        line += size + 1;
    }
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct name_list *names)
{
    size_t kept = 0;
    if (names->count)
        qsort(names->list, names->count, sizeof(*names->list), by_text);
    for (size_t i = 0; i < names->count; i++)
        if (kept && strcmp(names->list[kept - 1], names->list[i]) == 0)
            free(names->list[i]);
        else
            names->list[kept++] = names->list[i];
    names->count = kept;
}

void bundle_names_sort(struct bundle_names *names)
{
    sort_names(&names->all);
    sort_names(&names->places);
}

/* "10.0.0.1"; the text is not longer than `len`. */
static bool is_ipv4(const char *text, size_t len)
{
    size_t dots = 0, digits = 0;
    for (size_t i = 0; i < len; i++) {
        dots += text[i] == '.';
        digits += isdigit((unsigned char)text[i]) != 0;
    }
    return dots == 3 && digits + dots == len && digits >= 4;
}

/* The length of an IPv6 or MAC address here; 0: there is none. PCI addresses and times have fewer colons. */
static size_t address_length(const char *text, size_t len)
{
    size_t colons = 0, used = 0;
    bool twice = false;
    while (used < len && used < BUNDLE_ADDRESS_MAX &&
           (isxdigit((unsigned char)text[used]) || text[used] == ':')) {
        colons += text[used] == ':';
        twice = twice || (used && text[used] == ':' && text[used - 1] == ':');
        used++;
    }
    return colons == 7 || colons == 5 || (twice && colons >= 2) ? used : 0;
}

static bool find_name(const struct name_list *names, const char *text, size_t len, size_t *ret)
{
    size_t at = GT_LOWER_BOUND(i, names->count, strncmp(names->list[i], text, len) < 0);
    *ret = at;
    return at < names->count && strncmp(names->list[at], text, len) == 0 && !names->list[at][len];
}

/* What of a text is replaced. */
enum name_scope {
    NAMES_ALL,
    NAMES_NO_KEYS, /* not the keys of JSON objects, which are our words */
    NAMES_PLACES,  /* only those of nodes and supernodes */
};

/* How much of a run is a known name: all of it, or what is before a hyphen or a dot (the pod of a job, the
 * domain of a node). 0: nothing is. */
static size_t known_length(const struct name_list *names, const char *text, size_t len, bool whole,
                           size_t *ret)
{
    if (find_name(names, text, len, ret))
        return len;
    for (size_t i = whole ? 0 : len; i > 1; i--)
        if ((text[i - 1] == '-' || text[i - 1] == '.') && find_name(names, text, i - 1, ret))
            return i - 1;
    return 0;
}

/* A run of letters that names have; a dot or a hyphen at its end may be the sentence's. */
static void replace_run(const struct bundle_names *names, const char *text, size_t len, enum name_scope scope,
                        struct gt_buf *to)
{
    size_t at, short_len = len;
    while (short_len && !isalnum((unsigned char)text[short_len - 1]))
        short_len--;
    const struct name_list *known = scope == NAMES_PLACES ? &names->places : &names->all;
    size_t of_name = known_length(known, text, short_len, scope == NAMES_PLACES, &at);
    if (of_name && find_name(&names->all, text, of_name, &at)) /* a node may be named as its address */
        gt_buf_printf(to, of_name < short_len ? "name-%zu-x" : "name-%zu", at);
    else if (is_ipv4(text, short_len))
        gt_buf_puts(to, "address");
    else
        gt_buf_add(to, text, short_len);
    gt_buf_add(to, text + short_len, len - short_len);
}

static void replace_part(const struct bundle_names *names, const char *text, size_t len,
                         enum name_scope scope, struct gt_buf *to)
{
    bool joined = false; /* with what was before */
    for (size_t i = 0; i < len;) {
        size_t run = joined ? 0 : address_length(text + i, len - i);
        joined = false;
        if (run) {
            gt_buf_puts(to, "address");
            i += run;
            continue;
        }
        if (text[i] == '\\') { /* "\\n" of JSON: its letter is of no name */
            run = i + 1 < len && text[i + 1] == 'u' ? 6 : 2;
            run = run < len - i ? run : len - i;
            gt_buf_add(to, text + i, run);
            i += run;
            continue;
        }
        while (i + run < len && is_of_name(text[i + run]))
            run++;
        bool key =
            scope == NAMES_NO_KEYS && i + run + 1 < len && text[i + run] == '"' && text[i + run + 1] == ':';
        joined = run;
        if (run && !key)
            replace_run(names, text + i, run, scope, to);
        else
            gt_buf_add(to, text + i, run = run ? run : 1);
        i += run;
    }
}

void bundle_names_replace(const struct bundle_names *names, bool json, const char *text, size_t len,
                          struct gt_buf *to)
{
    replace_part(names, text, len, json ? NAMES_NO_KEYS : NAMES_ALL, to);
}

void bundle_names_replace_decisions(const struct bundle_names *names, const char *text, size_t len,
                                    struct gt_buf *to)
{
    static const char begin[] = ",\"text\":\"", end[] = "\",\"static\":";
    for (const char *at = text, *all = text + len; at < all;) {
        const char *next = memchr(at, '\n', (size_t)(all - at));
        next = next ? next + 1 : all;
        const char *said = memmem(at, (size_t)(next - at), begin, strlen(begin));
        const char *rest = said ? memmem(said, (size_t)(next - said), end, strlen(end)) : NULL;
        replace_part(names, at, (size_t)((rest ? said : next) - at), NAMES_NO_KEYS, to);
        if (rest) {
            replace_part(names, said, (size_t)(rest - said), NAMES_PLACES, to);
            replace_part(names, rest, (size_t)(next - rest), NAMES_NO_KEYS, to);
        }
        at = next;
    }
}
