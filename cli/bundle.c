/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/strip.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "base/version.h"
#include "cli/api.h"
#include "cli/bundle.h"
#include "cli/cli.h"

/* Collects what a developer needs to see what a cluster was like, by the API server alone. It only reads. */

#define BUNDLE_APP "app.kubernetes.io/name"

enum {
    BUNDLE_ANSWER_MAX = 32 << 20,
    BUNDLE_OBJECTS_MAX = 28 << 20, /* of all kinds; each may have 3/4 of what is left */
    COMPANION_LOG = 2 << 20,       /* bytes of the log of a companion's pod */
    AGENT_LOG = 64 << 10,          /* of an agent's, and less where there is no room for all */
    ANSWERS_OF_DECISIONS = 128,
    DECISIONS_BYTES = 12 << 20,                /* of one companion */
    BUNDLE_FILES_MAX = BUNDLE_MAX - (4 << 20), /* of all but missing.txt */
    LOG_LINE_BYTES = 200,
    FILE_BYTES = 1024, /* at most, of the archive around a file */
    FAILED_MAX = 3,    /* in a row */
    FAILED_ALL_MAX = 20,
};

struct bundle_options {
    struct cli_parse parse;
    struct cli_api_options api;
    const char *output, *namespace_;
    bool anonymous;
};

struct bundle_entry {
    char name[BUNDLE_NAME_SIZE];
    char *data;
    size_t len;
};

/* A pod of ours. */
struct bundle_pod {
    char name[GT_API_NAME_MAX + 1], container[64];
    uint16_t http; /* port; 0: none */
    bool companion;
};

/* Questions of one kind: after some without an answer no more are asked, since each may take long. */
struct bundle_series {
    unsigned failed, failed_all; /* failed: in a row */
    bool json;                   /* what answers is an object that may have secrets */
    bool brief;                  /* metrics: only samples that are not 0 */
    struct gt_buf lines;         /* with a limit: what answers is a line of it, and no file */
};

struct bundle_maker {
    const struct bundle_options *options;
    struct cli_api *api;
    struct bundle_entry *entries;
    size_t count, capacity, bytes;
    struct bundle_pod *pods;
    size_t pod_count, pod_capacity;
    char **nodes; /* names of those with a NodeGPUTopology */
    size_t node_count, node_capacity;
    struct gt_buf missing;
    struct bundle_series logs, companions, agents, usage;
    bool has_decisions;
    bool failed; /* no memory */
};

static const struct gt_option own_options[] = {
    {"output", "FILE", "write the archive to FILE, whole or not at all", gt_option_text,
     GT_OPTION_FIELD(struct bundle_options, output), .letter = 'o'},
    {"anonymous", NULL, "put numbers in place of names and addresses, and leave out what cannot be replaced",
     gt_option_set, GT_OPTION_FIELD(struct bundle_options, anonymous)},
    {"namespace", "NAME", "where gputopo is installed (default: gputopo-system)", gt_option_any_text,
     GT_OPTION_FIELD(struct bundle_options, namespace_), .letter = 'n'},
    CLI_API_OPTIONS(struct bundle_options),
    CLI_HELP_OPTION,
};

static void bundle_done(struct bundle_maker *maker)
{
    for (size_t i = 0; i < maker->count; i++)
        free(maker->entries[i].data);
    for (size_t i = 0; i < maker->node_count; i++)
        free(maker->nodes[i]);
    free(maker->entries);
    free(maker->pods);
    free(maker->nodes);
    gt_buf_done(&maker->missing);
    gt_buf_done(&maker->usage.lines);
    cli_api_free_p(&maker->api);
}

static void miss(struct bundle_maker *maker, const char *what, const char *why)
{
    const char *server = strstr(why, "://"), *rest = server ? strstr(server, ": ") : NULL;
    gt_buf_printf(&maker->missing, "%s: %s\n", what, rest ? rest + 2 : why);
}

/* Takes the text over; an empty one is not worth a file. False: there is no room. */
static bool keep(struct bundle_maker *maker, const char *name, struct gt_buf *text)
{
    if (text->failed)
        miss(maker, name, "too large");
    else if (strstr(name, ".."))
        miss(maker, name, "expected a name without '..'");
    else if (maker->bytes + text->len > BUNDLE_FILES_MAX) {
        miss(maker, name,
             "left out, and so are all of its kind after it: the bundle would be larger than 50 MB");
        return false;
    } else if (text->len) {
        if (!GT_GROW(maker->entries, maker->count, maker->capacity, 64)) {
            maker->failed = true;
            return true;
        }
        struct bundle_entry *entry = &maker->entries[maker->count];
        if (!gt_text_copy(entry->name, sizeof(entry->name), name)) {
            miss(maker, name, "its name is too long");
            return true;
        }
        entry->len = text->len;
        entry->data = gt_buf_take(text);
        maker->bytes += entry->len + FILE_BYTES;
        maker->count++;
    }
    return true;
}

/* Metrics without comments and samples of 0: most are. */
static void bundle_shorten(struct gt_buf *text)
{
    size_t len = 0;
    for (size_t at = 0, next; at < text->len; at = next) {
        const char *line = text->data + at, *end = memchr(line, '\n', text->len - at);
        next = end ? (size_t)(end - text->data) + 1 : text->len;
        if (*line == '#' || (next - at > 3 && memcmp(text->data + next - 3, " 0\n", 3) == 0))
            continue;
        memmove(text->data + len, line, next - at);
        len += next - at;
    }
    gt_buf_truncate(text, len);
}

/* A kubelet's settings, for instance, without what may be secret. */
static int bundle_strip(const struct bundle_maker *maker, struct gt_buf *text, struct gt_err **err)
{
    const struct gt_json_limits limits = {BUNDLE_ANSWER_MAX, GT_JSON_VALUES_MAX};
    gt_auto_json cJSON *json = NULL;
    GT_TRY(gt_json_parse_within(text->data ? text->data : "", text->len, "answer", &limits, &json, err));
    gt_strip(json, maker->options->anonymous, false);
    gt_auto_free char *stripped = cJSON_PrintUnformatted(json);
    GT_NEED(stripped, err, "answer");
    gt_buf_consume(text, text->len);
    gt_buf_puts(text, stripped);
    return gt_buf_check(text, "answer", err);
}

static void bundle_fetch(struct bundle_maker *maker, struct bundle_series *series,
                         const struct cli_api_text *from, const char *name)
{
    gt_auto_buf struct gt_buf text = GT_BUF(BUNDLE_ANSWER_MAX);
    gt_auto_err struct gt_err *err = NULL;
    if (series->failed == FAILED_MAX || series->failed_all == FAILED_ALL_MAX)
        return;
    cli_progress("%zu files, %zu MB", maker->count, maker->bytes >> 20);
    if (cli_api_text(maker->api, from, &text, &err) >= 0 &&
        (!series->json || bundle_strip(maker, &text, &err) >= 0)) {
        if (series->brief)
            bundle_shorten(&text);
        series->failed = 0;
        if (series->lines.max)
            gt_buf_printf(&series->lines, "%s\n", text.data);
        else if (!keep(maker, name, &text))
            series->failed = FAILED_MAX;
        return;
    }
    miss(maker, name, gt_err_text(err));
    series->failed++;
    series->failed_all++;
    if (series->failed == FAILED_MAX || series->failed_all == FAILED_ALL_MAX)
        miss(maker, name, "three in a row, or 20, failed, so no further ones of this kind were asked for");
}

/* ---- objects ---- */

struct bundle_kind {
    const struct gt_kube_resource *resource;
    const char *file;
    bool ours_only; /* objects that name us */
};

struct bundle_listing {
    struct bundle_maker *bundle;
    const struct bundle_kind *kind;
    struct gt_buf text;
    unsigned left_out;
};

static void note_node(struct bundle_maker *maker, const char *name)
{
    char *copy = strdup(name);
    if (!copy || !GT_GROW(maker->nodes, maker->node_count, maker->node_capacity, 256)) {
        free(copy);
        maker->failed = true;
        return;
    }
    maker->nodes[maker->node_count++] = copy;
}

/* Whether it is in the namespace where gputopo is, and one of its parts. */
static bool bundle_is_ours(const struct bundle_maker *maker, const cJSON *object)
{
    return strcmp(gt_meta_namespace(object), maker->options->namespace_) == 0 &&
           strncmp(gt_meta_label(object, BUNDLE_APP), "gputopo", 7) == 0;
}

static void note_pod(struct bundle_maker *maker, const cJSON *object)
{
    const char *app = gt_meta_label(object, BUNDLE_APP);
    struct bundle_pod pod = {.companion = strcmp(app, GT_COMPANION_NAME) == 0};
    struct gt_program program;
    if (!bundle_is_ours(maker, object) || !gt_program_of_pod(object, &program) ||
        !gt_text_copy(pod.name, sizeof(pod.name), gt_meta_name(object)) ||
        !gt_text_copy(pod.container, sizeof(pod.container), program.container))
        return;
    pod.http = program.http;
    if (!GT_GROW(maker->pods, maker->pod_count, maker->pod_capacity, 64))
        maker->failed = true;
    else
        maker->pods[maker->pod_count++] = pod;
}

static void bundle_on_begin(void *arg)
{
    struct bundle_listing *listing = arg;
    gt_buf_consume(&listing->text, listing->text.len);
    listing->left_out = 0;
}

static void bundle_on_object(void *arg, cJSON *object)
{
    struct bundle_listing *listing = arg;
    struct bundle_maker *bundle = listing->bundle;
    if (listing->kind->resource == &gt_kube_node_gpu_topologies)
        note_node(bundle, gt_meta_name(object));
    if (listing->kind->resource == &gt_kube_pods)
        note_pod(bundle, object);
    if (listing->kind->resource == &gt_kube_configmaps && !bundle_is_ours(bundle, object) &&
        strncmp(gt_meta_name(object), "gputopo", 7) != 0)
        return;
    gt_strip(object, bundle->options->anonymous, bundle_is_ours(bundle, object));
    gt_auto_free char *line = cJSON_PrintUnformatted(object);
    if (!line) {
        bundle->failed = true;
        return;
    }
    if (listing->kind->ours_only && !strstr(line, GT_USER_PREFIX) && !strstr(line, GT_DRA_DRIVER) &&
        !strstr(line, "gputopo"))
        return;
    size_t len = strlen(line);
    if (listing->text.len + len + 1 > listing->text.max) {
        listing->left_out++;
        return;
    }
    line[len] = '\n';
    gt_buf_add(&listing->text, line, len + 1);
}

static const struct bundle_kind kinds[] = {
    {&gt_kube_node_gpu_topologies, "objects/nodegputopologies.jsonl", false},
    {&gt_kube_supernodes, "objects/supernodes.jsonl", false},
    {&gt_kube_gpu_placements, "objects/gpuplacements.jsonl", false},
    {&gt_kube_nodes, "objects/nodes.jsonl", false},
    {&gt_kube_configmaps, "objects/configmaps.jsonl", true},
    {&gt_kube_leases, "objects/leases.jsonl", true},
    {&gt_kube_events, "objects/events.jsonl", true},
    {&gt_kube_pods, "objects/pods.jsonl", true},
    {&gt_kube_resource_claims, "objects/resourceclaims.jsonl", true},
    {&gt_kube_resource_slices, "objects/resourceslices.jsonl", true},
};

static int add_objects(struct bundle_maker *maker, const struct bundle_kind *kind)
{
    size_t left = BUNDLE_OBJECTS_MAX > maker->bytes ? BUNDLE_OBJECTS_MAX - maker->bytes : 0;
    bool is_text = kind->resource == &gt_kube_configmaps;
    struct bundle_listing listing = {.bundle = maker, .kind = kind, .text = GT_BUF(left / 4 * 3)};
    const struct cli_api_list list = {.resource = kind->resource,
                                      .namespace_ = is_text ? maker->options->namespace_ : NULL,
                                      .on_begin = bundle_on_begin,
                                      .on_object = bundle_on_object,
                                      .arg = &listing};
    gt_auto_err struct gt_err *err = NULL;
    char why[64];
    if (is_text && maker->options->anonymous) {
        miss(maker, kind->file, "left out by --anonymous: they are texts of people");
        return 0;
    }
    int r = cli_api_list(maker->api, &list, &err);
    if (r < 0)
        miss(maker, kind->file, gt_err_text(err));
    snprintf(why, sizeof(why), "%u objects are left out: too many bytes", listing.left_out);
    if (listing.left_out)
        miss(maker, kind->file, why);
    keep(maker, kind->file, &listing.text);
    gt_buf_done(&listing.text);
    return r;
}

/* ---- programs ---- */

/* The number of the last decision of an answer; 0: it has none. */
static uint64_t last_decision(const char *text, size_t len)
{
    static const char key[] = "\"decision\":";
    const char *line = len > 1 ? memrchr(text, '\n', len - 1) : NULL;
    const char *found = len ? strstr(line ? line : text, key) : NULL;
    return found ? strtoull(found + strlen(key), NULL, 10) : 0;
}

/* The last decisions that a companion has, in answers of a megabyte that can be read alone. */
static void add_decisions(struct bundle_maker *maker, const struct cli_api_text *at, const char *name)
{
    gt_auto_buf struct gt_buf all = GT_BUF(BUNDLE_ANSWER_MAX);
    gt_auto_err struct gt_err *err = NULL;
    size_t sizes[ANSWERS_OF_DECISIONS];
    uint64_t after = 0, next = 0;
    unsigned dropped = 0;
    for (unsigned i = 0; i < ANSWERS_OF_DECISIONS; i++, after = next) {
        gt_auto_buf struct gt_buf answer = GT_BUF(BUNDLE_ANSWER_MAX);
        char path[64];
        snprintf(path, sizeof(path), "/debug/decisions?after=%" PRIu64, after);
        struct cli_api_text from = *at;
        from.rest = path;
        if (cli_api_text(maker->api, &from, &answer, &err) < 0) {
            miss(maker, name, gt_err_text(err));
            break;
        }
        next = last_decision(answer.data ? answer.data : "", answer.len);
        if (next <= after)
            break;
        sizes[i] = answer.len;
        while (dropped < i && all.len + answer.len > DECISIONS_BYTES)
            gt_buf_consume(&all, sizes[dropped++]);
        gt_buf_add(&all, answer.data, answer.len);
        maker->has_decisions = true;
    }
    if (dropped)
        miss(maker, name, "the oldest decisions are left out: too many bytes");
    keep(maker, name, &all);
}

static void add_log(struct bundle_maker *maker, const struct bundle_pod *pod, size_t most)
{
    char name[BUNDLE_NAME_SIZE + 64], rest[200];
    snprintf(name, sizeof(name), "%s/%s/log.txt", pod->companion ? "companion" : "agents", pod->name);
    snprintf(rest, sizeof(rest), "?container=%s&tailLines=%zu&limitBytes=%zu", pod->container,
             most / LOG_LINE_BYTES, most);
    if (maker->options->anonymous)
        miss(maker, name, "left out by --anonymous: a log may name objects that are gone");
    else
        bundle_fetch(
            maker, &maker->logs,
            &(struct cli_api_text){&gt_kube_pods, maker->options->namespace_, pod->name, "log", rest}, name);
}

static void add_metrics(struct bundle_maker *maker, const struct bundle_pod *pod)
{
    const char *part = pod->companion ? "companion" : "agents";
    char name[BUNDLE_NAME_SIZE + 64], address[sizeof(pod->name) + 8];
    snprintf(address, sizeof(address), "%s:%u", pod->name, pod->http);
    struct cli_api_text at = {&gt_kube_pods, maker->options->namespace_, address, "proxy", "/metrics"};
    if (!pod->http)
        return;
    snprintf(name, sizeof(name), "%s/%s/metrics.txt", part, pod->name);
    bundle_fetch(maker, pod->companion ? &maker->companions : &maker->agents, &at, name);
    snprintf(name, sizeof(name), "%s/%s" BUNDLE_DECISIONS, part, pod->name);
    if (pod->companion) {
        add_decisions(maker, &at, name);
        return;
    }
    snprintf(name, sizeof(name), "%s/%s/usage", part, pod->name);
    at.rest = "/usage";
    bundle_fetch(maker, &maker->usage, &at, name);
}

/* Of companions, or of agents. */
static void add_programs(struct bundle_maker *maker, bool companions)
{
    for (size_t i = 0; i < maker->pod_count; i++)
        if (maker->pods[i].companion == companions)
            add_metrics(maker, &maker->pods[i]);
}

/* Each agent gets as much of the room that is left. */
static void add_logs(struct bundle_maker *maker, bool companions)
{
    size_t capacity = BUNDLE_FILES_MAX > maker->bytes ? BUNDLE_FILES_MAX - maker->bytes : 0,
           most = companions ? COMPANION_LOG : AGENT_LOG;
    if (!companions && maker->pod_count && most > capacity / maker->pod_count)
        most = capacity / maker->pod_count > 2 * FILE_BYTES ? capacity / maker->pod_count - FILE_BYTES
                                                            : FILE_BYTES;
    for (size_t i = 0; i < maker->pod_count; i++)
        if (maker->pods[i].companion == companions)
            add_log(maker, &maker->pods[i], most);
}

static void add_page(struct bundle_maker *maker)
{
    static const char service[] = "https:" GT_COMPANION_NAME ":https";
    static const struct {
        const char *path, *file;
    } files[] = {{"/debug/model", BUNDLE_MODEL},
                 {"/ui/state", BUNDLE_STATE},
                 {"/ui", BUNDLE_PAGE "index.html"},
                 {"/ui/ui.css", BUNDLE_PAGE "ui.css"},
                 {"/ui/page.js", BUNDLE_PAGE "page.js"},
                 {"/ui/map.js", BUNDLE_PAGE "map.js"},
                 {"/ui/panels.js", BUNDLE_PAGE "panels.js"},
                 {"/ui/views.js", BUNDLE_PAGE "views.js"}};
    struct cli_api_text at = {&gt_kube_services, maker->options->namespace_, service, "proxy", NULL};
    struct bundle_series series = {0};
    for (size_t i = 0; i < GT_COUNT(files); i++) {
        at.rest = files[i].path;
        bundle_fetch(maker, &series, &at, files[i].file);
    }
    if (!maker->has_decisions) /* pods cannot be asked one by one */
        add_decisions(maker, &at, "companion/service" BUNDLE_DECISIONS);
}

static void bundle_add_nodes(struct bundle_maker *maker)
{
    char name[BUNDLE_NAME_SIZE + 64];
    struct bundle_series series = {.json = true};
    for (size_t i = 0; i < maker->node_count; i++) {
        const struct cli_api_text at = {&gt_kube_nodes, NULL, maker->nodes[i], "proxy", "/configz"};
        snprintf(name, sizeof(name), "nodes/%s/configz.json", maker->nodes[i]);
        bundle_fetch(maker, &series, &at, name);
    }
    if (!maker->node_count)
        return;
    miss(maker, "nodes/recording",
         "only the node itself has it: gputopo record there. What the agent has read of "
         "GPUs, their users and faults is in objects/nodegputopologies.jsonl");
    miss(maker, "nodes/pod-resources",
         "only the node itself has the kubelet's list. What the agent has read there is in "
         "agents/usage.jsonl");
    miss(maker, "nodes/faults.d",
         "only the node itself has these files. What they isolate is in objects/nodegputopologies.jsonl. The "
         "fault "
         "table of the chart is in objects/configmaps.jsonl");
}

/* ---- the file ---- */

/* A file whose names cannot be learnt is left out. */
static int make_names(struct bundle_maker *maker, struct bundle_names **ret, struct gt_err **err)
{
    GT_TRY(bundle_names_new(ret, err));
    for (size_t i = 0; i < maker->count; i++) {
        struct bundle_entry *entry = &maker->entries[i];
        gt_auto_err struct gt_err *why = NULL;
        int r = strstr(entry->name, ".json") ? bundle_names_learn(*ret, entry->data, entry->len, &why) : 0;
        if (r == -ENOMEM)
            return gt_fail_sys(err, ENOMEM, "names");
        if (r < 0) {
            miss(maker, entry->name, gt_err_text(why));
            entry->len = 0;
        }
    }
    bundle_names_sort(*ret);
    return 0;
}

GT_DEFINE_CLEANUP(struct bundle_names *, bundle_names_free)

static void tell_about(const struct bundle_maker *maker, struct gt_buf *to)
{
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(time(NULL), now);
    gt_json_printf(to, "{'version': 1, 'time': %s, 'gputopo': %s, 'anonymous': !%d}", now, gt_version,
                   maker->options->anonymous);
    gt_buf_puts(to, "\n");
}

/* Appends a file; false: it does not fit. */
static bool bundle_put(const struct bundle_names *names, const struct bundle_entry *entry, size_t max,
                       struct gt_buf *tar)
{
    gt_auto_buf struct gt_buf name = GT_BUF(BUNDLE_NAME_SIZE), text = GT_BUF(BUNDLE_MAX);
    struct bundle_entry named = *entry;
    const char *shown = entry->name;
    if (names && strncmp(entry->name, BUNDLE_PAGE, strlen(BUNDLE_PAGE)) != 0) {
        bundle_names_replace(names, false, entry->name, strlen(entry->name), &name);
        if (strstr(entry->name, BUNDLE_DECISIONS))
            bundle_names_replace_decisions(names, entry->data, entry->len, &text);
        else
            bundle_names_replace(names, strstr(entry->name, ".json"), entry->data, entry->len, &text);
        shown = name.data;
        named.data = text.data;
        named.len = text.len;
    }
    return !name.failed && !text.failed && tar->len + named.len + 1024 < max &&
           bundle_tar_add(tar, shown, named.data, named.len, (uint64_t)time(NULL));
}

static int bundle_write(struct bundle_maker *maker, struct gt_buf *tar, struct gt_err **err)
{
    GT_CLEANUP(bundle_names_free) struct bundle_names *names = NULL;
    gt_auto_buf struct gt_buf about = GT_BUF(4096);
    GT_TRY(maker->options->anonymous ? make_names(maker, &names, err) : 0);
    tell_about(maker, &about);
    bundle_put(NULL, &(struct bundle_entry){"about.json", about.data, about.len}, BUNDLE_MAX, tar);
    for (size_t i = 0; i < maker->count; i++)
        if (maker->entries[i].len && !bundle_put(names, &maker->entries[i], BUNDLE_FILES_MAX, tar))
            miss(maker, maker->entries[i].name, "left out: it does not fit");
    if (maker->missing.len &&
        !bundle_put(names, &(struct bundle_entry){"missing.txt", maker->missing.data, maker->missing.len},
                    BUNDLE_MAX, tar))
        return gt_fail(err, EFBIG, "missing.txt: it does not fit");
    bundle_tar_end(tar);
    return gt_buf_check(tar, "the bundle", err);
}

/* The most important first, since there is a limit. */
static void bundle_collect(struct bundle_maker *maker)
{
    for (size_t i = 0; i < GT_COUNT(kinds); i++) {
        int r = add_objects(maker, &kinds[i]);
        if (r < 0 && !maker->count && r != -EACCES && r != -ENOENT)
            return; /* there is no server, or it does not know us */
    }
    add_programs(maker, true);
    add_logs(maker, true);
    add_page(maker);
    add_programs(maker, false);
    keep(maker, "agents/usage.jsonl", &maker->usage.lines);
    bundle_add_nodes(maker);
    add_logs(maker, false);
}

static int bundle_run(struct cli_call *call)
{
    const struct bundle_options *options = call->options;
    __attribute__((cleanup(bundle_done))) struct bundle_maker bundle = {
        .options = options,
        .agents = {.brief = true},
        .usage = {.json = true, .lines = GT_BUF(BUNDLE_ANSWER_MAX)},
        .missing = GT_BUF(2 << 20)};
    gt_auto_buf struct gt_buf tar = GT_BUF(BUNDLE_MAX);
    if (!options->output)
        return cli_misuse(call, "-o: expected the file to write");
    GT_TRY(cli_api_open(&options->api, &bundle.api, call->err));
    bundle_collect(&bundle);
    const char *missing = bundle.missing.data ? bundle.missing.data : "";
    if (!bundle.count)
        return gt_fail(call->err, ENODATA, "nothing could be had: %.*s", (int)strcspn(missing, "\n"),
                       missing);
    GT_NEED(!bundle.failed, call->err, "the bundle");
    GT_TRY(bundle_write(&bundle, &tar, call->err));
    return gt_file_write(options->output, tar.data, tar.len, 0600, call->err);
}

const struct cli_verb cli_bundle = {
    .name = "bundle",
    .about = "save what is known of a cluster for a developer",
    .command = {.about = "Save what is known of a cluster in one file (tar) for a developer: our objects, "
                         "Events, logs and "
                         "metrics, "
                         "the state and the last decisions of gputopo-scheduler, and settings of kubelets. "
                         "gputopo replay "
                         "reads it. missing.txt in it says what could not be had.",
                .more = "Example: gputopo bundle -o bundle.tar --anonymous",
                CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct bundle_options),
    .defaults = &(const struct bundle_options){.namespace_ = "gputopo-system"},
    .run = bundle_run};
