/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/view.h"

#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <string.h>

#include "api/supernode.h"
#include "base/json.h"

enum { PARENTS_MAX = 1 << 20, PATTERNS_MAX = 256, PATTERN_LEN_MAX = 256, NAMED = 4 };

struct hypernode_member {
    char *member, *parent;
    bool is_node, foreign;
};

/* A selector of a foreign HyperNode. */
struct pattern {
    char *parent;
    bool is_node, is_all; /* is_all: it may have any member */
    regex_t regex;
};

struct gt_member_parents {
    struct hypernode_member *known;
    size_t count, capacity;
    struct pattern patterns[PATTERNS_MAX];
    unsigned pattern_count;
    char **foreign; /* names of HyperNodes that are not ours */
    size_t foreign_count, foreign_capacity;
    bool failed;
};

int gt_member_parents_new(struct gt_member_parents **ret, struct gt_err **err)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "HyperNodes");
}

void gt_member_parents_free(struct gt_member_parents *parents)
{
    if (!parents)
        return;
    for (size_t i = 0; i < parents->count; i++) {
        free(parents->known[i].member);
        free(parents->known[i].parent);
    }
    for (unsigned i = 0; i < parents->pattern_count; i++) {
        free(parents->patterns[i].parent);
        if (!parents->patterns[i].is_all)
            regfree(&parents->patterns[i].regex);
    }
    for (size_t i = 0; i < parents->foreign_count; i++)
        free(parents->foreign[i]);
    free(parents->foreign);
    free(parents->known);
    free(parents);
}

static void hypernodes_add_known(struct gt_member_parents *parents, const char *member, const char *parent,
                                 bool is_node, bool foreign)
{
    bool capacity =
        parents->count < PARENTS_MAX && GT_GROW(parents->known, parents->count, parents->capacity, 64);
    char *a = capacity ? strdup(member) : NULL, *b = a ? strdup(parent) : NULL;
    if (!b) {
        free(a);
        parents->failed = true;
        return;
    }
    parents->known[parents->count++] =
        (struct hypernode_member){.member = a, .parent = b, .is_node = is_node, .foreign = foreign};
}

/* Volcano uses Go's regular expressions. Only those are understood that mean the same in POSIX extended
 * syntax; repetitions with a number are not, since their cost has no limit. */
static bool is_understood(const char *text)
{
    return strlen(text) <= PATTERN_LEN_MAX && !strpbrk(text, "\\{}") && !strstr(text, "(?") &&
           !strstr(text, "*?") && !strstr(text, "+?") && !strstr(text, "??") && !strstr(text, "[:");
}

/* `text` NULL: it selects in another way. */
static void add_pattern(struct gt_member_parents *parents, const char *parent, bool is_node, const char *text)
{
    /* A selector beyond the limit counts as having every member, so that no foreign member is taken. */
    bool last = parents->pattern_count == PATTERNS_MAX;
    struct pattern *p = &parents->patterns[last ? PATTERNS_MAX - 1 : parents->pattern_count];
    if (last && !p->is_all)
        regfree(&p->regex);
    if (last)
        free(p->parent);
    *p = (struct pattern){.parent = strdup(parent), .is_node = is_node};
    p->is_all =
        last || !text || !is_understood(text) || regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB) != 0;
    parents->failed |= !p->parent;
    if (!last)
        parents->pattern_count++;
}

static void hypernodes_add_member(struct gt_member_parents *parents, const char *parent, bool foreign,
                                  const struct gt_hyper_node_member *member)
{
    if (member->name)
        hypernodes_add_known(parents, member->name, parent, member->is_node, foreign);
    if (member->pattern && foreign)
        add_pattern(parents, parent, member->is_node, member->pattern);
    if (member->by_labels && foreign)
        add_pattern(parents, parent, member->is_node, NULL);
}

void gt_member_parents_add(void *arg, const char *name, enum gt_apply_set_state state, const char *have)
{
    struct gt_member_parents *parents = arg;
    bool foreign = state == GT_APPLY_SET_FOREIGN;
    gt_auto_json cJSON *object = cJSON_Parse(have);
    gt_auto_hyper_node struct gt_hyper_node node = {0};
    parents->failed |= !object || gt_hyper_node_read(object, &node, NULL) < 0;
    for (unsigned i = 0; i < node.count; i++)
        hypernodes_add_member(parents, name, foreign, &node.members[i]);
    if (!foreign)
        return;
    bool capacity = parents->foreign_count < PARENTS_MAX &&
                    GT_GROW(parents->foreign, parents->foreign_count, parents->foreign_capacity, 64);
    char *copied = capacity ? strdup(name) : NULL;
    if (copied)
        parents->foreign[parents->foreign_count++] = copied;
    parents->failed |= !copied;
}

static int hypernodes_compare_known(const void *a, const void *b)
{
    const struct hypernode_member *x = a, *y = b;
    int order = strcmp(x->member, y->member);
    return order ? order : (int)y->foreign - (int)x->foreign; /* foreign ones first */
}

static int hypernodes_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool gt_member_parents_end(struct gt_member_parents *parents)
{
    if (parents->count)
        qsort(parents->known, parents->count, sizeof(*parents->known), hypernodes_compare_known);
    if (parents->foreign_count)
        qsort(parents->foreign, parents->foreign_count, sizeof(char *), hypernodes_compare_names);
    return !parents->failed;
}

const char *gt_member_parents_find(const struct gt_member_parents *parents, bool is_node, const char *member,
                                   const char *self, bool *ret_foreign)
{
    size_t first = GT_LOWER_BOUND(i, parents->count, strcmp(parents->known[i].member, member) < 0);
    for (size_t i = first; i < parents->count && strcmp(parents->known[i].member, member) == 0; i++) {
        const struct hypernode_member *known = &parents->known[i];
        if (known->is_node != is_node || (!known->foreign && strcmp(known->parent, self) == 0))
            continue;
        *ret_foreign = known->foreign;
        return known->parent;
    }
    for (unsigned i = 0; i < parents->pattern_count; i++) {
        const struct pattern *p = &parents->patterns[i];
        if (p->is_node != is_node || (!p->is_all && regexec(&p->regex, member, 0, NULL, 0) != 0))
            continue;
        *ret_foreign = true;
        return p->parent;
    }
    return NULL;
}

/* The desired members of a HyperNode, and those that were left out. */
struct members {
    const struct gt_view *view;
    const struct gt_member_parents *parents;
    const char *self;
    struct gt_hyper_node node;
    unsigned refused, waiting;
    bool failed;
    struct gt_buf why;
};

static void hypernodes_add(struct members *members, bool is_node, const char *name)
{
    bool foreign = false;
    const char *parent = gt_member_parents_find(members->parents, is_node, name, members->self, &foreign);
    if (parent && !foreign) {
        members->waiting++;
        return;
    }
    if (parent) {
        if (members->refused++ < NAMED)
            gt_buf_printf(&members->why, "%s%s %s is held by the HyperNode %s, which is somebody else's",
                          members->why.len ? "; " : "", is_node ? "node" : "HyperNode", name, parent);
        return;
    }
    struct gt_hyper_node_member *member = gt_hyper_node_add(&members->node);
    if (member)
        *member = (struct gt_hyper_node_member){.is_node = is_node, .name = name};
    members->failed |= !member;
}

static void hypernodes_add_all(struct members *members, uint32_t s, const bool *made)
{
    const struct gt_join *join = members->view->join;
    const struct gt_supernode *supernode = &join->supernodes[s];
    for (uint32_t i = 0; i < supernode->count; i++)
        hypernodes_add(members, true, members->view->reports[join->members[supernode->first + i]]->name);
    for (uint32_t child = 0; members->view->sums[s].children && child < join->supernode_count; child++)
        if (join->supernodes[child].parent == s && made[child])
            hypernodes_add(members, false, join->supernodes[child].name);
}

__attribute__((format(printf, 4, 5))) static void hypernodes_say(struct gt_projected *to, bool good,
                                                                 const char *reason, const char *format, ...)
{
    va_list args;
    to->good = good;
    to->reason = reason;
    va_start(args, format);
    vsnprintf(to->message, sizeof(to->message), format, args);
    va_end(args);
}

bool gt_hypernode_write(const struct gt_view *view, uint32_t s, const struct gt_member_parents *parents,
                        bool *made, struct gt_projected *ret, struct gt_buf *to)
{
    const struct gt_supernode *supernode = &view->join->supernodes[s];
    gt_auto_buf struct gt_buf text = GT_BUF(GT_APPLY_SET_BODY_MAX);
    struct members members = {.view = view,
                              .parents = parents,
                              .self = supernode->name,
                              .node = {.tier = supernode->tier},
                              .why = {.max = sizeof(ret->message) - 64}};
    made[s] = false;
    const char *name = supernode->name;
    if (parents->foreign_count &&
        bsearch(&name, parents->foreign, parents->foreign_count, sizeof(char *), hypernodes_compare_names)) {
        hypernodes_say(ret, false, "NameTaken", "the HyperNode %s is somebody else's, it is left as it is",
                       supernode->name);
        return false;
    }
    hypernodes_add_all(&members, s, made);
    gt_hyper_node_write(&members.node, &text);
    made[s] = members.node.count && !members.failed && !text.failed;
    if (members.refused)
        hypernodes_say(ret, false, "MemberHeld", "%s%s", members.why.data ? members.why.data : "",
                       members.refused > NAMED ? "; and others" : "");
    else if (members.waiting)
        hypernodes_say(ret, false, "Moving", "%u member%s still held by another HyperNode of ours",
                       members.waiting, members.waiting == 1 ? " is" : "s are");
    else if (!members.node.count)
        hypernodes_say(ret, false, "Empty", "a HyperNode without members is not possible");
    else
        hypernodes_say(ret, true, "Projected", "the HyperNode %s has every member", supernode->name);
    gt_buf_done(&members.why);
    gt_hyper_node_done(&members.node);
    if (made[s])
        gt_buf_puts(to, text.data);
    return made[s];
}
