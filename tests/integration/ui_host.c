/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The companion's debug pages over an invented cluster, for test_ui.py and for looking at the page:
 *
 *     ui-host [--racks N] [--nodes N] [--listen ADDRESS:PORT] [--hostile] [--fail-after N] [--no-placement]
 *             [--patience MILLISECONDS] [--spare-nodes N] [--wrong]
 *
 * Racks of nodes with 8 GPUs in two halls, jobs that run, are planned, wait and are refused, by the real
 * cache and the real placement controller; its API server does not exist. Says "port N" on standard output.
 * The end of standard input ends it. --wrong: also what no healthy companion shows: no leader, a certificate
 * that ends, a torn unit, a pod without a plan, and a lost plan. --hostile: names that try to be HTML.
 * --fail-after: so many models, then 503.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/text.h"
#include "scheduler-ext/placement/times.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/explain.h"
#include "scheduler-ext/serve/page_state.h"
#include "tests/unit/cache/cache_world.h"

enum { RACKS_MAX = 4096, NODES_MAX = 16, STALE_MS = 15 * 60 * 1000, NAME_SIZE = 128 };

static struct {
    uint64_t racks, nodes, fail_after, models, patience_ms, spares;
    const char *listen;
    bool hostile, fails, no_placement, wrong;
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_placement *placement;
    struct gt_http *http;
    struct gt_page *page;
    uint64_t began_ms;
} host = {.racks = 5, .nodes = 9, .listen = "127.0.0.1:0"};

/* ---- the world ---- */

static const char *name_of(uint64_t rack, uint64_t node)
{
    static char names[4][NAME_SIZE];
    static unsigned next;
    char *name = names[next++ % 4];
    if (node)
        snprintf(name, NAME_SIZE, "rack-%c%s-n%02" PRIu64, (char)('a' + rack % 26),
                 rack < 26 ? "" : (char[]){(char)('a' + rack / 26 % 26), (char)('a' + rack / 676), 0}, node);
    else
        snprintf(name, NAME_SIZE, "rack-%c%s", (char)('a' + rack % 26),
                 rack < 26 ? "" : (char[]){(char)('a' + rack / 26 % 26), (char)('a' + rack / 676), 0});
    return name;
}

static void cache_object(cJSON *object, void (*give)(struct gt_cache *, const cJSON *))
{
    give(host.cache, object);
    cJSON_Delete(object);
}

/* Made some minutes ago. */
static void give_pod_object(const struct world_pod *pod)
{
    struct world_pod made = *pod;
    char created[32];
    time_t when = time(NULL) - 400;
    struct tm parts;
    strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &parts));
    made.created = created;
    cJSON *object = world_pod(&made);
    struct gt_pod read;
    gt_pod_read(object, GT_RESOURCE_GPU, &read);
    if (host.placement)
        gt_placement_observe_pod(host.placement, &read);
    gt_cache_pod(host.cache, &read);
    cJSON_Delete(object);
}

/* A pod of a PyTorchJob, planned where `node` is not NULL, and there where it `runs`. */
struct torch {
    const char *job, *group, *atomic;
    unsigned index, gpus, unit;
    uint64_t rack, node; /* node 0: nowhere */
    uint64_t mask;
    bool runs;
};

static const char *torch_name(const struct torch *torch)
{
    static char names[8][NAME_SIZE];
    static unsigned next;
    char *name = names[next++ % 8];
    snprintf(name, NAME_SIZE, "%s-%s-%u", torch->job, torch->index ? "worker" : "master",
             torch->index ? torch->index - 1 : 0);
    return name;
}

static void give_torch(const struct torch *torch)
{
    gt_auto_buf struct gt_buf labels = GT_BUF(4096), annotations = GT_BUF(4096);
    gt_buf_puts(&labels, "\"training.kubeflow.org/job-name\":");
    gt_text_quote(&labels, torch->job);
    gt_buf_printf(&labels,
                  ",\"training.kubeflow.org/replica-type\":\"%s\",\"training.kubeflow.org/replica-index\":"
                  "\"%u\"",
                  torch->index ? "worker" : "master", torch->index ? torch->index - 1 : 0);
    if (torch->group)
        gt_buf_printf(&annotations, "\"metax-tech.com/gpu-group-size\":\"%s\",", torch->group);
    if (torch->atomic)
        gt_buf_printf(&annotations, "\"metax-tech.com/atomic-gpu-group-size\":\"%s\",", torch->atomic);
    if (torch->node)
        gt_buf_printf(&annotations,
                      "\"" GT_PLAN_ANNOTATION_UNIT "\":\"%u\",\"" GT_PLAN_ANNOTATION_RANK "\":\"%u\",",
                      torch->unit, torch->index);
    const char *node = torch->node ? name_of(torch->rack, torch->node) : NULL;
    give_pod_object(POD(.name = torch_name(torch), .gpus = torch->gpus, .labels = labels.data,
                        .annotations = annotations.data, .gated = !torch->runs, .plan_node = node,
                        .plan_mask = torch->mask, .node = torch->runs ? node : NULL));
}

static unsigned give_torch_job(struct torch torch, unsigned pods, unsigned pods_of_unit)
{
    uint64_t first = torch.node;
    for (torch.index = 0; torch.index < pods; torch.index++) {
        torch.unit = torch.index / pods_of_unit;
        if (first)
            torch.node = first + torch.index % host.nodes;
        give_torch(&torch);
    }
    return pods;
}

/* What runs on a node: the topology names it. */
static void describe(struct world_topology *topology, uint64_t rack, uint64_t node)
{
    static char small[4][NAME_SIZE];
    uint64_t turn = rack * host.nodes + node;
    if (rack < 2 && node <= 8) { /* llama-70b: 16 pods, one a node */
        struct torch torch = {.job = "llama-70b", .index = (unsigned)(rack * 8 + node - 1)};
        topology->owners[0] = (struct world_owner){torch_name(&torch), 0xff};
        return;
    }
    if (rack == 3 && node == 4) {
        topology->unnamed = 0x0f;
        return;
    }
    if (rack % 5 == 2 && node <= 4) /* vision-ft is planned there */
        return;
    if (turn % 3 == 0) {
        snprintf(small[0], NAME_SIZE, "notebook-%" PRIu64 "-0", turn);
        topology->owners[0] = (struct world_owner){small[0], 0x03};
    }
    if (turn % 4 == 1) {
        snprintf(small[1], NAME_SIZE, "eval-%" PRIu64 "-x", turn % 7);
        snprintf(small[2], NAME_SIZE, "%s%" PRIu64, small[1], turn);
        topology->owners[turn % 3 == 0] = (struct world_owner){small[2], 0xf0};
    }
    if (rack >= 5 && turn % 2) { /* much more for large clusters */
        snprintf(small[3], NAME_SIZE, "batch-%" PRIu64 "-w%" PRIu64, turn / 40, turn);
        topology->owners[0] = (struct world_owner){small[3], 0xff};
        topology->owners[1].pod = NULL;
    }
    if (rack == 3 && node == 6)
        topology->isolated = 1 << 3;
    if (turn % 17 == 11)
        topology->unhealthy = UINT64_C(1) << turn % 8;
    if (turn % 17 == 10) /* no vendor library there */
        topology->unknown = 0xff;
}

static void give_owners(const struct world_topology *topology)
{
    for (unsigned i = 0; i < WORLD_OWNERS && topology->owners[i].pod; i++) {
        const char *pod = topology->owners[i].pod;
        char job[NAME_SIZE];
        gt_text_copy(job, sizeof(job), pod);
        char *dash = strrchr(job, '-');
        if (strncmp(pod, "llama", 5) == 0 || !dash)
            continue;
        *dash = '\0';
        give_pod_object(POD(.name = pod, .job = job, .node = topology->name,
                            .gpus = (unsigned)__builtin_popcountll(topology->owners[i].mask)));
    }
}

static void give_rack(uint64_t rack, uint64_t now)
{
    char rack_name[NAME_SIZE];
    struct world_supernode super = {.name = rack_name, .tier = 1};
    char members[NODES_MAX][NAME_SIZE];
    char parent[32];
    snprintf(parent, sizeof(parent), "hall-%" PRIu64, host.racks <= 5 ? 1 + rack / 3 : 1 + rack / 16);
    gt_text_copy(rack_name, sizeof(rack_name), name_of(rack, 0));
    super.parent = parent;
    for (uint64_t n = 1; n <= host.nodes; n++) {
        gt_text_copy(members[n - 1], NAME_SIZE, name_of(rack, n));
        super.members[n - 1] = members[n - 1];
    }
    cache_object(world_supernode(&super), gt_cache_supernode);
    for (uint64_t n = 1; n <= host.nodes; n++) {
        const char *name = members[n - 1];
        struct world_topology topology = {.name = name, .gpus = 8, .version = "1"};
        topology.link_down = rack == 3 && n == 2;
        describe(&topology, rack, n);
        cache_object(
            world_node(NODE(.name = name, .cordoned = rack == 4 && n == 8, .not_ready = rack == 4 && n == 7)),
            gt_cache_node);
        give_owners(&topology);
        cJSON *object = world_topology(&topology);
        gt_cache_topology(host.cache, object, now + 20);
        cJSON_Delete(object);
    }
}

static void give_wrong(void)
{
    give_torch(&(struct torch){
        .job = "torn", .group = "16", .gpus = 8, .rack = 2, .node = 7, .mask = 0xff, .runs = true});
    give_torch(&(struct torch){.job = "torn",
                               .group = "16",
                               .gpus = 8,
                               .rack = 3,
                               .node = 7,
                               .mask = 0xff,
                               .runs = true,
                               .index = 1});
    give_pod_object(POD(.name = "bare-0", .job = "bare", .gpus = 8, .node = name_of(2, 8),
                        .annotations = "\"metax-tech.com/gpu-group-size\":\"8\","));
    give_pod_object(
        POD(.name = "lost-0", .job = "lost", .gpus = 8, .plan_node = name_of(0, 1), .plan_mask = 0xff,
            .annotations = "\"metax-tech.com/gpu-group-size\":\"8\","
                           "\"" GT_PLAN_ANNOTATION_UNIT "\":\"0\",\"" GT_PLAN_ANNOTATION_RANK "\":\"0\","));
}

static void make_world(void)
{
    uint64_t now = gt_clock_ms();
    for (uint64_t hall = 0; hall <= (host.racks - 1) / (host.racks <= 5 ? 3 : 16); hall++) {
        char name[32];
        snprintf(name, sizeof(name), "hall-%" PRIu64, hall + 1);
        cache_object(world_supernode(SUPERNODE(.name = name, .tier = 2)), gt_cache_supernode);
    }
    give_torch_job(
        (struct torch){
            .job = "llama-70b", .group = "32", .gpus = 8, .rack = 0, .node = 1, .mask = 0xff, .runs = true},
        8, 4);
    for (unsigned i = 8; i < 16; i++)
        give_torch(&(struct torch){.job = "llama-70b",
                                   .group = "32",
                                   .gpus = 8,
                                   .rack = 1,
                                   .node = i - 7,
                                   .mask = 0xff,
                                   .runs = true,
                                   .index = i,
                                   .unit = i / 4});
    /* one was observed long before the others: the same version is no sign of life */
    cJSON *silent = world_topology(TOPOLOGY(.name = name_of(4, 6), .gpus = 8, .version = "1"));
    gt_cache_topology(host.cache, silent, now);
    cJSON_Delete(silent);
    for (uint64_t rack = 0; rack < host.racks; rack++)
        give_rack(rack, now);
    give_torch_job(
        (struct torch){.job = "vision-ft", .group = "16", .gpus = 8, .rack = 2, .node = 1, .mask = 0xff}, 4,
        2);
    give_torch_job((struct torch){.job = "moe-236b", .group = "128", .atomic = "64", .gpus = 8}, 32, 16);
    give_torch_job((struct torch){.job = "odd-sizes", .group = "12", .gpus = 8}, 3, 1);
    give_pod_object(POD(.name = "probe-0", .job = "probe", .gpus = 8));
    if (host.wrong)
        give_wrong();
    if (host.hostile) {
        give_torch_job(
            (struct torch){.job = "<img src=x onerror=alert(1)>", .group = "</script><b>", .gpus = 8}, 2, 1);
        give_pod_object(POD(.name = "<script>alert(2)</script>", .job = "\\\"><svg onload=alert(3)>",
                            .gpus = 1, .node = name_of(2, 6)));
    }
    gt_cache_tick(host.cache, now + STALE_MS + 10);
}

/* ---- what is around it ---- */

static void on_pod(void *arg, struct gt_cache_pod *pod)
{
    (void)arg;
    if (host.placement)
        gt_placement_on_pod(host.placement, pod);
}

static void on_pod_deleted(void *arg, struct gt_cache_pod *pod)
{
    (void)arg;
    if (host.placement)
        gt_placement_on_pod_deleted(host.placement, pod);
}

static void on_capacity(void *arg)
{
    (void)arg;
    if (host.placement)
        gt_placement_on_capacity(host.placement);
}

static void serve(void *arg, const struct gt_http_request *request, struct gt_http_response *response)
{
    struct timespec wall;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &wall);
    const struct gt_debug_view view = {.cache = host.cache,
                                       .placement = host.placement,
                                       .weights = GT_AWARE_DEFAULT,
                                       .leads = true,
                                       .synced = true,
                                       .now_ms = gt_clock_ms(),
                                       .wall_ms =
                                           (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000};
    if (strcmp(request->path, "/debug/decisions") == 0) {
        gt_decisions_serve(host.placement, request->query, response);
        return;
    }
    if (strcmp(request->path, "/debug/model") == 0) {
        uint64_t began = gt_clock_ns();
        response->content_type = "application/json";
        gt_model_json(&view, &response->body);
        fprintf(stderr, "model: %zu bytes in %.2f ms\n", response->body.len,
                (double)(gt_clock_ns() - began) * 1e-6);
    } else if (strcmp(request->path, "/ui/state") == 0) {
        const struct gt_page_around around = {
            .leader = host.wrong ? "" : "ui-host",
            .certificate = host.wrong ? "the certificate of the webhooks ends in 2 days" : ""};
        if (host.fails && host.models++ >= host.fail_after) {
            response->status = 503;
            return;
        }
        while (!gt_page_scan(host.page, &view, UINT64_MAX / 2))
            ;
        gt_page_state(host.page, &view, &around, request->query, response);
    } else if (strcmp(request->path, "/ui/node") == 0) {
        char name[NAME_SIZE];
        gt_query_get(request->query, "name", name, sizeof(name));
        response->content_type = "application/json";
        if (!gt_page_node_json(&view, name, &response->body))
            response->status = 404;
    } else if (strcmp(request->path, "/explain") == 0) {
        gt_explain(&view, request->query, response);
    } else if (!gt_ui_serve(request->path, response)) {
        response->status = 404;
    }
}

static void on_input(void *arg, uint32_t events)
{
    char chunk[256];
    (void)arg;
    (void)events;
    ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        gt_loop_stop(host.loop, 0);
}

static int start(struct gt_err **err)
{
    const struct gt_cache_spec cache = {
        .on_pod = on_pod, .on_pod_deleted = on_pod_deleted, .on_capacity = on_capacity, .stale_ms = STALE_MS};
    char nowhere[] = "https://127.0.0.1:1", token[] = "none";
    const struct gt_kube_config config = {.server = nowhere, .token = token};
    struct gt_http_spec http = {.address = host.listen, .handler = serve, .answer_max = 64 << 20};
    int r = gt_loop_new(&host.loop, err);
    if (r == 0)
        r = gt_kube_new(host.loop, &config, "ui-host", &host.kube, err);
    if (r == 0)
        r = gt_cache_new(&cache, &host.cache, err);
    if (r == 0)
        r = gt_page_new(&(struct gt_page_spec){0}, &host.page, err);
    if (r == 0)
        r = gt_owners_new("metax-tech.com/gpu", &host.owners, err);
    struct gt_placement_times times = GT_PLACEMENT_TIMES;
    times.settle_ms = 1;
    times.gang_ms = 3600000;
    times.retry_ms = host.patience_ms ? host.patience_ms : times.retry_ms;
    const struct gt_placement_spec placement = {.loop = host.loop,
                                                .kube = host.kube,
                                                .cache = host.cache,
                                                .owners = host.owners,
                                                .options = {.patience_ms = host.patience_ms,
                                                            .reserve.waiting_percent = 100,
                                                            .spare_nodes = host.spares},
                                                .times = &times};
    if (r == 0 && !host.no_placement)
        r = gt_placement_new(&placement, &host.placement, err);
    if (r == 0)
        make_world();
    if (r == 0 && host.placement)
        gt_placement_start(host.placement);
    if (r == 0)
        r = gt_http_start(host.loop, &http, &host.http, err);
    return r < 0 ? r : gt_loop_add_fd(host.loop, STDIN_FILENO, EPOLLIN, on_input, NULL, NULL, err);
}

static void end(void)
{
    gt_http_free(host.http);
    gt_page_free(host.page);
    gt_placement_free(host.placement);
    gt_owners_free(host.owners);
    gt_cache_free(host.cache);
    if (host.kube)
        gt_kube_free(host.kube);
    if (host.loop)
        gt_loop_free(host.loop);
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'r':
        return gt_text_to_unsigned(arg, RACKS_MAX, &host.racks) && host.racks ? 0 : EINVAL;
    case 'n':
        return gt_text_to_unsigned(arg, NODES_MAX, &host.nodes) && host.nodes >= 9 ? 0 : EINVAL;
    case 'l':
        host.listen = arg;
        return 0;
    case 'h':
        host.hostile = true;
        return 0;
    case 'w':
        return gt_text_to_unsigned(arg, UINT32_MAX, &host.patience_ms) ? 0 : EINVAL;
    case 's':
        return gt_text_to_unsigned(arg, NODES_MAX, &host.spares) ? 0 : EINVAL;
    case 'p':
        host.no_placement = true;
        return 0;
    case 'b':
        host.wrong = true;
        return 0;
    case 'f':
        host.fails = true;
        return gt_text_to_unsigned(arg, UINT32_MAX, &host.fail_after) ? 0 : EINVAL;
    default:
        (void)state;
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {{.name = "racks", .key = 'r', .arg = "N"},
                                                 {.name = "nodes", .key = 'n', .arg = "N"},
                                                 {.name = "listen", .key = 'l', .arg = "ADDRESS"},
                                                 {.name = "hostile", .key = 'h'},
                                                 {.name = "no-placement", .key = 'p'},
                                                 {.name = "wrong", .key = 'b'},
                                                 {.name = "patience", .key = 'w', .arg = "MS"},
                                                 {.name = "spare-nodes", .key = 's', .arg = "N"},
                                                 {.name = "fail-after", .key = 'f', .arg = "N"},
                                                 {0}};
    static const struct argp argp = {.options = options, .parser = on_option};
    gt_auto_err struct gt_err *error = NULL;
    if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0)
        return 2;
    int r = start(&error);
    if (r == 0) {
        printf("port %u\n", gt_http_port(host.http));
        fflush(stdout);
        r = gt_loop_run(host.loop, &error);
    }
    if (r < 0)
        fprintf(stderr, "ui-host: %s\n", gt_err_text(error));
    end();
    return r < 0;
}
