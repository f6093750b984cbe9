/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/jobs/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/names.h"
#include "base/err.h"
#include "base/text.h"

_Static_assert((int)GT_OWNER_REPLICAS_MAX == (int)GT_PLAN_PODS_MAX, "a whole template can be planned");

int gt_natural_order(const char *a, const char *b)
{
    while (*a && *b) {
        size_t digits_a = strspn(a, "0123456789"), digits_b = strspn(b, "0123456789");
        if (digits_a && digits_b) {
            size_t zeros_a = strspn(a, "0"), zeros_b = strspn(b, "0");
            size_t len_a = digits_a - (zeros_a < digits_a ? zeros_a : digits_a);
            size_t len_b = digits_b - (zeros_b < digits_b ? zeros_b : digits_b);
            GT_BY(len_a, len_b);
            int order = memcmp(a + digits_a - len_a, b + digits_b - len_b, len_a);
            if (order)
                return order;
            a += digits_a;
            b += digits_b;
            continue;
        }
        if (*a != *b)
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        a++;
        b++;
    }
    return (*a != 0) - (*b != 0);
}

/* A role: how many pods it has or will have. */
struct role {
    const char *name;
    uint32_t replicas;                      /* from the spec, or from the highest index */
    uint32_t base;                          /* the rank of its first pod */
    const struct gt_job_template *template; /* NULL: not in the spec */
    uint32_t planned_base;                  /* `base` when its pods were planned; GT_NONE: none was */
    uint32_t per_child; /* pods of each object between the job and its pods; 0: there is none */
};

/* A pod while the job is made. */
struct pod_slot {
    uint32_t role, index, pod; /* pod GT_NONE: not made yet */
    const char *name;
};

struct job_builder {
    const struct gt_pod_meta *pods;
    uint32_t count;
    const struct gt_job_spec *spec;
    struct gt_err **err;
    struct gt_pod_identity *identities;
    struct role roles[GT_JOB_ROLES_MAX];
    uint32_t role_count;
    struct pod_slot *slots;
    uint32_t slot_count;
    struct gt_job *job;
};

static struct role *find_role(struct job_builder *builder, const char *name)
{
    for (uint32_t i = 0; i < builder->role_count; i++)
        if (strcasecmp(builder->roles[i].name, name) == 0)
            return &builder->roles[i];
    if (builder->role_count == GT_JOB_ROLES_MAX)
        return NULL;
    struct role *role = &builder->roles[builder->role_count++];
    *role = (struct role){.name = name, .planned_base = GT_NONE};
    return role;
}

static int fail_roles(struct job_builder *builder)
{
    return gt_fail(builder->err, E2BIG, "more than %d roles in one job", GT_JOB_ROLES_MAX);
}

static int job_add_templates(struct job_builder *builder)
{
    uint64_t total = 0;
    for (unsigned i = 0; builder->spec && i < builder->spec->count; i++) {
        const struct gt_job_template *template = &builder->spec->templates[i];
        struct role *role = find_role(builder, template->role);
        if (!role)
            return fail_roles(builder);
        if (role->template)
            return gt_fail(builder->err, EINVAL, "two templates have the name \"%.60s\"", template->role);
        role->template = template;
        role->replicas = template->replicas;
        role->per_child = template->per_child;
        total += template->replicas;
    }
    if (total > GT_PLAN_PODS_MAX)
        return gt_fail(builder->err, E2BIG, "a job of %llu pods, the limit is %d", (unsigned long long)total,
                       GT_PLAN_PODS_MAX);
    return 0;
}

/* Pods that say how many there are have to agree. */
static int check_said(const struct job_builder *builder, uint32_t i)
{
    const char *first = builder->pods[0].name, *other = builder->pods[i].name;
    uint32_t pods = builder->identities[0].pods, others = builder->identities[i].pods;
    if (pods && others && pods != others)
        return gt_fail(builder->err, EINVAL, "pods %.100s and %.100s say that the job has %u and %u pods",
                       first, other, pods, others);
    if (pods != others)
        return gt_fail(builder->err, EINVAL,
                       "pod %.100s says that the job has %u pods, and pod %.100s does not say it",
                       pods ? first : other, pods ? pods : others, pods ? other : first);
    if (pods && builder->count > pods)
        return gt_fail(builder->err, EINVAL, "%u pods are there, and they say that the job has %u",
                       builder->count, pods);
    return 0;
}

static int identify_pods(struct job_builder *builder)
{
    for (uint32_t i = 0; i < builder->count; i++) {
        struct gt_pod_identity *identity = &builder->identities[i];
        GT_TRY(gt_pod_identify(&builder->pods[i], identity, builder->err));
        if (identity->kind != builder->identities[0].kind)
            return gt_fail(builder->err, EINVAL, "pods of a %s and of a %s are not one job",
                           gt_job_kind_name(builder->identities[0].kind), gt_job_kind_name(identity->kind));
        GT_TRY(check_said(builder, i));
        if (identity->ignored)
            continue;
        struct role *role = find_role(builder, identity->role);
        if (!role)
            return fail_roles(builder);
        if (!role->template && identity->index >= role->per_child)
            role->per_child = identity->index + 1;
    }
    return 0;
}

/* Adds a pod, unless it will be deleted, or its object has changed and is not yet known. */
static int job_add_pod(struct job_builder *builder, uint32_t pod)
{
    const struct gt_pod_identity *identity = &builder->identities[pod];
    struct role *role = find_role(builder, identity->role);
    uint32_t first = role->template && identity->has_index ? role->template->first : 0;
    uint64_t index = (uint64_t)identity->child * role->per_child + identity->index;
    if (identity->index < first || index >= GT_OWNER_REPLICAS_MAX)
        return gt_fail(builder->err, EINVAL, "pod %.100s has number %llu, the job's first has %u",
                       builder->pods[pod].name, (unsigned long long)index, first);
    if (!role->template && identity->has_index && index >= role->replicas)
        role->replicas = (uint32_t)index + 1;
    if (role->template && identity->has_index && !gt_job_kind_may_grow(identity->kind) &&
        (index - first >= role->replicas ||
         (role->template->per_child && identity->index >= role->per_child)))
        return 0;
    builder->slots[builder->slot_count++] = (struct pod_slot){
        (uint32_t)(role - builder->roles), (uint32_t)index - first, pod, builder->pods[pod].name};
    return 0;
}

static int job_add_pods(struct job_builder *builder)
{
    for (uint32_t i = 0; i < builder->count; i++)
        if (!builder->identities[i].ignored)
            GT_TRY(job_add_pod(builder, i));
    return 0;
}

/* The order of roles: the master, workers, then those of the spec in its order, then by name. */
static int role_place(const struct job_builder *builder, const struct role *role)
{
    const char *master = builder->spec && builder->spec->master ? builder->spec->master : "master";
    if (role->template && builder->spec->in_order)
        return 2;
    return strcasecmp(role->name, master) == 0     ? 0
           : strcasecmp(role->name, "worker") == 0 ? 1
           : role->template                        ? 2
                                                   : 3;
}

static bool role_before(const struct job_builder *builder, const struct role *a, const struct role *b)
{
    int place_a = role_place(builder, a), place_b = role_place(builder, b);
    if (place_a != place_b)
        return place_a < place_b;
    return a->template ? a->template <b->template : strcmp(a->name, b->name) < 0;
}

/* A JobSet's Jobs without GPUs, which load data or launch, have no ranks. */
static void set_bases(struct job_builder *builder)
{
    for (uint32_t i = 0; i < builder->role_count; i++) {
        const struct role *role = &builder->roles[i];
        const struct gt_job_template *of = role->template;
        bool none =
            of && of->per_child && !gt_job_pod_gpus(&(struct gt_job_pod){of->gpus, of->containers, 0});
        for (uint32_t j = 0; j < builder->role_count && !none; j++)
            if (role_before(builder, role, &builder->roles[j]))
                builder->roles[j].base += role->replicas;
    }
}

static int job_by_name(const void *a, const void *b)
{
    const struct pod_slot *x = a, *y = b;
    int order = gt_natural_order(x->name, y->name);
    return order ? order : strcmp(x->name, y->name);
}

static int job_by_place(const void *a, const void *b)
{
    const struct pod_slot *x = a, *y = b;
    GT_BY(x->role, y->role);
    GT_BY(x->index, y->index);
    return (x->pod > y->pod) - (x->pod < y->pod);
}

/* Pods of a kind without an index get one by the order of their names. */
static void count_by_name(struct job_builder *builder)
{
    qsort(builder->slots, builder->slot_count, sizeof(*builder->slots), job_by_name);
    uint32_t next[GT_JOB_ROLES_MAX] = {0};
    for (uint32_t i = 0; i < builder->slot_count; i++) {
        struct pod_slot *slot = &builder->slots[i];
        slot->index = next[slot->role]++;
        struct role *role = &builder->roles[slot->role];
        if (!role->template && slot->index >= role->replicas)
            role->replicas = slot->index + 1;
    }
}

/* Sorts the pods, refuses two with the same index, and adds those that do not exist yet. */
static int fill_reservations(struct job_builder *builder)
{
    uint32_t there = builder->slot_count;
    qsort(builder->slots, there, sizeof(*builder->slots), job_by_place);
    for (uint32_t i = 1; i < there; i++) {
        const struct pod_slot *a = &builder->slots[i - 1], *b = &builder->slots[i];
        if (a->role == b->role && a->index == b->index)
            return gt_fail(builder->err, EINVAL,
                           "pods %.100s and %.100s are both number %u of the job%s%.60s", a->name, b->name,
                           b->index, builder->roles[b->role].name[0] ? "'s " : "",
                           builder->roles[b->role].name);
    }
    for (uint32_t r = 0, at = 0; r < builder->role_count; r++) {
        uint32_t replicas = builder->roles[r].template ? builder->roles[r].replicas : 0;
        while (at < there && builder->slots[at].role < r)
            at++;
        for (uint32_t index = 0; index < replicas; index++) {
            while (at < there && builder->slots[at].role == r && builder->slots[at].index < index)
                at++;
            if (at < there && builder->slots[at].role == r && builder->slots[at].index == index)
                continue;
            builder->slots[builder->slot_count++] = (struct pod_slot){r, index, GT_NONE, ""};
        }
    }
    return 0;
}

static int job_by_rank(const void *a, const void *b)
{
    const struct gt_job_member *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* ---- ranks that stay when the size of a role before the last changes ---- */

/* The rank that a pod was planned with; GT_NONE: it has no plan. */
static uint32_t planned_rank(const struct gt_pod_meta *pod)
{
    const char *text = gt_pod_annotation(pod, GT_KEY_PLAN_RANK);
    uint64_t rank;
    return text && gt_text_to_unsigned(text, GT_PLAN_PODS_MAX - 1, &rank) ? (uint32_t)rank : GT_NONE;
}

/* Whether some pods were planned with other ranks than their roles give now. */
static bool find_planned(struct job_builder *builder)
{
    bool others = false;
    for (uint32_t i = 0; builder->role_count > 1 && i < builder->slot_count; i++) {
        const struct pod_slot *slot = &builder->slots[i];
        struct role *role = &builder->roles[slot->role];
        uint32_t rank = slot->pod == GT_NONE ? GT_NONE : planned_rank(&builder->pods[slot->pod]);
        if (rank == GT_NONE || rank < slot->index)
            continue;
        others = others || rank != role->base + slot->index;
        if (rank - slot->index < role->planned_base)
            role->planned_base = rank - slot->index;
    }
    return others;
}

/* The rank of a missing pod, from the planned ranks of its role; GT_NONE: another role has it. */
static uint32_t expected_rank(const struct job_builder *builder, const struct pod_slot *slot)
{
    uint32_t base = builder->roles[slot->role].planned_base;
    if (base == GT_NONE)
        return GT_NONE;
    for (uint32_t r = 0; r < builder->role_count; r++) {
        uint32_t other = builder->roles[r].planned_base;
        if (other != GT_NONE && other > base && other <= base + slot->index)
            return GT_NONE;
    }
    return base + slot->index;
}

static void take_rank(uint32_t rank, uint32_t at, uint32_t *ranks, bool *taken)
{
    if (rank == GT_NONE || ranks[at] != GT_NONE || taken[rank])
        return;
    taken[rank] = true;
    ranks[at] = rank;
}

/* Sets the rank of each slot: from its role, but planned pods keep theirs, and new pods get the free
 * ranks. */
static int set_ranks(struct job_builder *builder, uint32_t *ranks)
{
    bool keep = find_planned(builder);
    for (uint32_t i = 0; i < builder->slot_count; i++)
        ranks[i] = keep ? GT_NONE : builder->roles[builder->slots[i].role].base + builder->slots[i].index;
    if (!keep)
        return 0;
    gt_auto_free bool *taken = calloc(2 * (size_t)GT_PLAN_PODS_MAX + builder->slot_count, sizeof(*taken));
    if (!taken)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    for (uint32_t i = 0; i < builder->slot_count; i++)
        if (builder->slots[i].pod != GT_NONE)
            take_rank(planned_rank(&builder->pods[builder->slots[i].pod]), i, ranks, taken);
    for (uint32_t i = 0; i < builder->slot_count; i++)
        take_rank(expected_rank(builder, &builder->slots[i]), i, ranks, taken);
    for (uint32_t i = 0, next = 0; i < builder->slot_count; i++) {
        while (ranks[i] == GT_NONE && taken[next])
            next++;
        take_rank(next, i, ranks, taken);
    }
    return 0;
}

static int add_members(struct job_builder *builder)
{
    gt_auto_free uint32_t *ranks = calloc((size_t)builder->slot_count + 1, sizeof(*ranks));
    struct gt_job *job = builder->job;
    job->members = calloc((size_t)builder->slot_count + 1, sizeof(*job->members));
    if (!job->members || !ranks)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    int r = set_ranks(builder, ranks);
    for (uint32_t i = 0; r >= 0 && i < builder->slot_count; i++) {
        const struct pod_slot *slot = &builder->slots[i];
        const struct role *role = &builder->roles[slot->role];
        struct gt_job_member member = {.rank = ranks[i],
                                       .pod = slot->pod,
                                       .template = role->template,
                                       .needed = role->template && slot->index < role->template->minimum};
        if (slot->pod != GT_NONE)
            member.gpus =
                (struct gt_job_pod){builder->pods[slot->pod].gpus, builder->pods[slot->pod].containers,
                                    builder->pods[slot->pod].requests};
        else
            member.gpus = (struct gt_job_pod){role->template->gpus, role->template->containers,
                                              role->template->requests};
        if (gt_job_pod_gpus(&member.gpus))
            job->members[job->member_count++] = member;
    }
    job->others = builder->slot_count - job->member_count;
    job->minimum = builder->spec ? builder->spec->minimum : 0;
    qsort(job->members, job->member_count, sizeof(*job->members), job_by_rank);
    return r;
}

static int job_read_sizes(struct job_builder *builder)
{
    unsigned templates = builder->spec ? builder->spec->count : 0;
    gt_auto_free struct gt_job_texts *texts = calloc((size_t)builder->count + templates + 1, sizeof(*texts));
    uint32_t count = 0;
    if (!texts)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    for (unsigned i = 0; i < templates; i++) {
        const struct gt_job_template *template = &builder->spec->templates[i];
        texts[count++] = gt_job_template_texts(template, template->role[0] ? template->role : "the template");
    }
    for (uint32_t i = 0; i < builder->count; i++)
        if (!builder->identities[i].ignored)
            texts[count++] = gt_job_pod_texts(&builder->pods[i], builder->pods[i].name);
    if (builder->spec && builder->spec->groups)
        gt_job_texts_keep(texts, templates, count);
    int r = gt_job_sizes_read(texts, count, &builder->job->sizes, builder->err);
    builder->job->sizes.of_group = builder->spec && builder->spec->groups;
    return r;
}

/* Where no unit has pods of two roles. */
static int check_roles(const struct job_builder *builder)
{
    const struct gt_job *job = builder->job;
    uint64_t all = 0;
    for (uint32_t i = 0; i < job->member_count; i++) {
        const struct gt_job_template *first = job->members[0].template, *template = job->members[i].template;
        all += gt_job_pod_gpus(&job->members[i].gpus);
        if (job->sizes.whole && first && template && template != first)
            return gt_fail(builder->err, EINVAL,
                           "gpu-group-size " GT_GROUP_WHOLE
                           " makes one unit of %.60s and %.60s: to have units over all "
                           "of the job, annotate its object and not its templates",
                           first->role, template->role);
    }
    for (uint32_t i = 0, next; i < job->member_count && job->sizes.group; i = next) {
        const struct gt_job_template *template = job->members[i].template;
        uint64_t gpus = 0;
        for (next = i; next < job->member_count && job->members[next].template == template; next++)
            gpus += gt_job_pod_gpus(&job->members[next].gpus);
        if (template && gpus % job->sizes.group)
            return gt_fail(builder->err, EINVAL,
                           "the %llu GPUs of %.60s are not a multiple of gpu-group-size %u%s",
                           (unsigned long long)gpus, template->role, job->sizes.group,
                           all % job->sizes.group ? ""
                                                  : ": to have units over all of the job, annotate its "
                                                    "object and not its templates");
    }
    return 0;
}

/* The units of `count` pods of one role, with the sizes of that. They become the members from `to` on, or
 * others where the role has no size. */
static int add_units_of_role(struct job_builder *builder, const struct gt_job_pod *pods, uint32_t first,
                             uint32_t count, uint32_t *to)
{
    struct gt_job *job = builder->job;
    const struct gt_job_template *template = job->members[first].template;
    const struct gt_job_texts texts = gt_job_template_texts(template, template->role);
    struct gt_job_sizes sizes;
    struct gt_job_units units = {0};
    int r = gt_job_sizes_read(&texts, 1, &sizes, builder->err);
    if (r >= 0)
        r = gt_job_units_make(&sizes, pods + first, count, &units, builder->err);
    if (r < 0)
        return gt_wrap(builder->err, "group %.60s", template->role);
    job->sizes = sizes.group > job->sizes.group ? sizes : job->sizes;
    for (uint32_t u = 0; u < units.count; u++) {
        units.units[u].first += *to;
        job->units.units[job->units.count++] = units.units[u];
    }
    if (units.count)
        memmove(&job->members[*to], &job->members[first], count * sizeof(*job->members));
    *to += units.count ? count : 0;
    job->others += units.count ? 0 : count;
    gt_job_units_done(&units);
    return 0;
}

static int make_units_of_roles(struct job_builder *builder, const struct gt_job_pod *pods)
{
    struct gt_job *job = builder->job;
    uint32_t kept = 0;
    int r = 0;
    job->units.units = calloc((size_t)job->member_count + 1, sizeof(*job->units.units));
    if (!job->units.units)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    for (uint32_t i = 0, next; r >= 0 && i < job->member_count; i = next) {
        for (next = i; next < job->member_count && job->members[next].template == job->members[i].template;)
            next++;
        r = add_units_of_role(builder, pods, i, next - i, &kept);
    }
    job->member_count = kept;
    if (!job->units.count)
        gt_job_units_done(&job->units);
    return r;
}

/* A pod that nothing tells the job of. */
static int check_alone(const struct job_builder *builder)
{
    const struct gt_job *job = builder->job;
    uint32_t gpus = job->member_count ? gt_job_pod_gpus(&job->members[0].gpus) : 0;
    if (!builder->count || job->kind != GT_JOB_POD || !gpus || job->sizes.group <= gpus ||
        job->sizes.group % gpus)
        return 0;
    return gt_fail(
        builder->err, EINVAL,
        "gpu-group-size %u is more than the pod's %u GPU%s, and nothing says which other pods are of its "
        "job: " GT_ANNOTATION_JOB_NAME " would",
        job->sizes.group, gpus, gt_plural(gpus));
}

/* A planned job was made smaller by a part of a unit: whole units go on, and the rest breaks the rule. */
static int keep_whole_units(struct job_builder *builder, const struct gt_job_pod *pods, struct gt_err *why)
{
    struct gt_job *job = builder->job;
    uint32_t whole = 0;
    uint64_t gpus = 0;
    bool planned = false;
    for (uint32_t i = 0; i < job->member_count && job->sizes.group && builder->spec; i++) {
        uint32_t pod = job->members[i].pod;
        gpus += gt_job_pod_gpus(&pods[i]);
        planned = planned || (pod != GT_NONE && planned_rank(&builder->pods[pod]) != GT_NONE);
        whole = gpus % job->sizes.group ? whole : i + 1;
    }
    int r = planned && whole && whole < job->member_count
                ? gt_job_units_make(&job->sizes, pods, whole, &job->units, NULL)
                : -EINVAL;
    if (r == -ENOMEM)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    if (r < 0)
        return gt_fail(builder->err, EINVAL, "%s", gt_err_text(why));
    job->rest = job->member_count - whole;
    job->member_count = whole;
    snprintf(job->rest_text, sizeof(job->rest_text),
             "%.160s; its whole units go on (%u), and pods after them get no place (%u)", gt_err_text(why),
             job->units.count, job->rest);
    return 0;
}

static int job_make_units(struct job_builder *builder)
{
    struct gt_job *job = builder->job;
    GT_TRY(builder->spec && builder->spec->units_in_roles ? check_roles(builder) : check_alone(builder));
    gt_auto_free struct gt_job_pod *pods = calloc((size_t)job->member_count + 1, sizeof(*pods));
    if (!pods)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    for (uint32_t i = 0; i < job->member_count; i++)
        pods[i] = job->members[i].gpus;
    if (builder->spec && builder->spec->sizes_of_roles)
        return make_units_of_roles(builder, pods);
    gt_auto_err struct gt_err *why = NULL;
    int r = gt_job_units_make(&job->sizes, pods, job->member_count, &job->units, &why);
    if (r == -EINVAL)
        return keep_whole_units(builder, pods, why);
    return r < 0 ? gt_fail(builder->err, -r, "%s", gt_err_text(why)) : r;
}

/* In a job that runs unit by unit some unit could never exist as a whole; one that is made larger and smaller
 * by load would often have a part of a unit. */
static int check_steps(struct job_builder *builder)
{
    const struct gt_job_units *units = &builder->job->units;
    const struct gt_job_spec *spec = builder->spec;
    for (uint32_t u = 0; spec && (spec->at_once || spec->step) && u < units->count; u++) {
        uint32_t pods = units->units[u].pods;
        if (spec->at_once % pods)
            return gt_fail(builder->err, EINVAL, "parallelism %u is not a multiple of the %u pods of a unit",
                           spec->at_once, pods);
        if (spec->step % pods)
            return gt_fail(
                builder->err, EINVAL,
                "it is scaled by %u pod%s at a time, which is not a multiple of the %u pods of a unit",
                spec->step, gt_plural(spec->step), pods);
    }
    return 0;
}

static int job_make(struct job_builder *builder)
{
    GT_TRY(job_add_templates(builder));
    uint64_t slots = builder->count;
    for (uint32_t i = 0; i < builder->role_count; i++)
        slots += builder->roles[i].replicas;
    builder->identities = calloc((size_t)builder->count + 1, sizeof(*builder->identities));
    builder->slots = calloc(slots + 1, sizeof(*builder->slots));
    if (!builder->identities || !builder->slots)
        return gt_fail_sys(builder->err, ENOMEM, "job");
    GT_TRY(identify_pods(builder));
    GT_TRY(job_add_pods(builder));
    builder->job->kind = builder->count ? builder->identities[0].kind : GT_JOB_POD;
    if (gt_job_kind_is_nameless(builder->job->kind) || builder->job->kind == GT_JOB_POD)
        count_by_name(builder);
    set_bases(builder);
    GT_TRY(fill_reservations(builder));
    GT_TRY(add_members(builder));
    if (!(builder->spec && builder->spec->sizes_of_roles))
        GT_TRY(job_read_sizes(builder));
    GT_TRY(job_make_units(builder));
    return check_steps(builder);
}

int gt_job_make(const struct gt_pod_meta *pods, uint32_t count, const struct gt_job_spec *spec,
                struct gt_job **ret, struct gt_err **err)
{
    if (count > GT_PLAN_PODS_MAX)
        return gt_fail(err, E2BIG, "a job of %u pods, the limit is %d", count, GT_PLAN_PODS_MAX);
    gt_auto_job struct gt_job *job = calloc(1, sizeof(*job));
    GT_NEED(job, err, "job");
    struct job_builder builder = {.pods = pods, .count = count, .spec = spec, .err = err, .job = job};
    int r = job_make(&builder);
    free(builder.identities);
    free(builder.slots);
    if (r >= 0)
        *ret = gt_steal(job);
    return r;
}

void gt_job_free(struct gt_job *job)
{
    free(job->members);
    gt_job_units_done(&job->units);
    free(job);
}
