/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/cache/audit.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/decide/decide.h"

/*
 * What the cache costs at 10,000 nodes and 100,000 pods (and 300,000, most without GPUs): memory, and time
 * for each kind of object; and what limits on CPU cost a decision on a job. Prints measures in the form that
 * loss.sh describes. Objects are parsed one by one, as an informer does; parsing is not in the times, the
 * memory is that of the process.
 */
enum {
    REWIRED_GPUS = 16,
    REWIRED_TIMES = 2000,
    NODES = 10000,
    PODS = 100000,
    MANY = 300000,
    GPUS = 8,
    PER_SUPERNODE = 16,
    PER_JOB = 8
};

static void measure(const char *name, double value, const char *unit, const char *goal)
{
    printf("%s\t%.*f\t%s\t%s\n", name, value < 100 ? 2 : 0, value, unit, goal);
    fflush(stdout);
}

static void stop(const char *what)
{
    fprintf(stderr, "bench_cache: %s\n", what);
    exit(2);
}

static double resident_mib(void)
{
    long pages = 0, unused = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128];
    if (!file || !fgets(line, sizeof(line), file))
        stop("/proc/self/statm cannot be read");
    fclose(file);
    char *end;
    unused = strtol(line, &end, 10);
    pages = strtol(end, NULL, 10);
    (void)unused;
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static cJSON *parse(const struct gt_buf *text)
{
    cJSON *json = text->failed ? NULL : cJSON_ParseWithLength(text->data, text->len);
    if (!json)
        stop("an object is no JSON");
    return json;
}

/* ---- objects, as large as real ones are where the cache reads them ---- */

/* `names` of its pods have the GPUs, one each. */
static cJSON *topology(unsigned n, unsigned first_pod, unsigned names, unsigned version)
{
    static struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_consume(&to, to.len);
    gt_buf_printf(&to,
                  "{\"metadata\":{\"name\":\"node-%05u\",\"resourceVersion\":\"%u\"},\"status\":{\"gpus\":[",
                  n, version);
    for (unsigned i = 0; i < GPUS; i++)
        gt_buf_printf(&to,
                      "%s{\"index\":%u,\"uuid\":\"GPU-%08x-5a5a-4b4b-8c8c-0123456789%02x\",\"bdf\":"
                      "\"0000:%02x:00.0\",\"product\":\"MXC550\",\"numaNode\":0,\"mode\":\"native\","
                      "\"healthy\":true,\"zone\":1}",
                      i ? "," : "", i, n, i, i + 1);
    gt_buf_puts(&to, "],\"links\":[");
    for (unsigned b = 1; b < GPUS; b++)
        for (unsigned a = 0; a < b; a++)
            gt_buf_printf(&to, "%s{\"a\":%u,\"b\":%u,\"kind\":\"MX\",\"weight\":64}", a + b > 1 ? "," : "", a,
                          b);
    gt_buf_puts(&to, "],\"free\":[");
    for (unsigned i = names; i < GPUS; i++)
        gt_buf_printf(&to, "%s%u", i > names ? "," : "", i);
    gt_buf_puts(&to, "],\"owners\":[");
    for (unsigned i = 0; i < names; i++)
        gt_buf_printf(
            &to,
            "%s{\"gpu\":%u,\"namespace\":\"team-%u\",\"pod\":\"pretrain-%u-worker-%u\",\"container\":"
            "\"pytorch\"}",
            i ? "," : "", i, (first_pod + i) / PER_JOB % 50, (first_pod + i) / PER_JOB,
            (first_pod + i) % PER_JOB);
    gt_buf_puts(&to, "]}}");
    return parse(&to);
}

static cJSON *node(unsigned n)
{
    static struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_consume(&to, to.len);
    gt_buf_printf(
        &to, "{\"metadata\":{\"name\":\"node-%05u\",\"labels\":{\"kubernetes.io/hostname\":\"node-%05u\",", n,
        n);
    for (unsigned i = 0; i < 25; i++)
        gt_buf_printf(&to, "\"example.com/some-label-number-%u\":\"value-%u\",", i, i);
    gt_buf_printf(
        &to,
        "\"topology.kubernetes.io/zone\":\"zone-%u\"}},\"spec\":{},\"status\":{\"capacity\":{\"metax-tech."
        "com/"
        "gpu\":\"8\"},\"allocatable\":{\"cpu\":\"191\",\"memory\":\"2113929216Ki\",\"pods\":\"250\",\"rdma/"
        "hca\":"
        "\"8\",\"metax-tech.com/gpu\":\"8\"},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
        n % 8);
    return parse(&to);
}

static cJSON *supernode(unsigned s)
{
    static struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_consume(&to, to.len);
    gt_buf_printf(
        &to,
        "{\"metadata\":{\"name\":\"super-%u\"},\"status\":{\"tier\":1,\"parent\":\"row-%u\",\"members\":[", s,
        s / 16);
    for (unsigned i = 0; i < PER_SUPERNODE; i++)
        gt_buf_printf(&to, "%s{\"node\":\"node-%05u\"}", i ? "," : "", s * PER_SUPERNODE + i);
    gt_buf_puts(&to, "]}}");
    return parse(&to);
}

enum stage { WAITING, PLANNED, BOUND };

/* A pod of a PyTorchJob; `gpus` 0: one of the many that ask for none. */
static cJSON *pod(unsigned p, unsigned gpus, enum stage stage, unsigned on)
{
    static struct gt_buf to = GT_BUF(1 << 20);
    unsigned job = p / PER_JOB;
    gt_buf_consume(&to, to.len);
    gt_buf_printf(&to,
                  "{\"metadata\":{\"namespace\":\"team-%u\",\"name\":\"pretrain-%u-worker-%u\",\"uid\":"
                  "\"%08x-1111-4222-8333-444455556666\",\"creationTimestamp\":\"2026-01-01T00:%02u:00Z\","
                  "\"ownerReferences\":[{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\",\"name\":"
                  "\"pretrain-%u\",\"uid\":\"%08x-aaaa-4bbb-8ccc-ddddeeeeffff\",\"controller\":true}],",
                  job % 50, job, p % PER_JOB, p, p % 60, job, job);
    gt_buf_printf(
        &to,
        "\"labels\":{\"training.kubeflow.org/job-name\":\"pretrain-%u\",\"training.kubeflow.org/"
        "replica-type\":\"worker\",\"training.kubeflow.org/replica-index\":\"%u\",\"app\":\"pretrain\"},"
        "\"annotations\":{\"metax-tech.com/gpu-group-size\":\"32\"",
        job, p % PER_JOB);
    if (stage != WAITING && gpus) {
        gt_buf_printf(&to,
                      ",\"" GT_PLAN_ANNOTATION_NODE "\":\"node-%05u\",\"" GT_PLAN_ANNOTATION_GPUS
                      "\":\"{\\\"pytorch\\\":[",
                      on);
        for (unsigned i = 0; i < gpus; i++)
            gt_buf_printf(&to, "%s\\\"GPU-%08x-5a5a-4b4b-8c8c-0123456789%02x\\\"", i ? "," : "", on,
                          (p * gpus + i) % GPUS);
        gt_buf_printf(&to,
                      "]}\",\"" GT_PLAN_ANNOTATION_UNIT "\":\"0\",\"" GT_PLAN_ANNOTATION_RANK "\":\"%u\"",
                      p % PER_JOB);
    }
    gt_buf_puts(
        &to, "}},\"spec\":{\"schedulerName\":\"volcano\",\"priority\":10,\"priorityClassName\":\"batch\",");
    if (stage == WAITING && gpus)
        gt_buf_puts(&to, "\"schedulingGates\":[{\"name\":\"" GT_GATE "\"}],");
    if (stage == BOUND)
        gt_buf_printf(&to, "\"nodeName\":\"node-%05u\",", on);
    if (stage == PLANNED)
        gt_buf_printf(
            &to,
            "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
            "\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\","
            "\"values\":[\"node-%05u\"]}]}]}}},",
            on);
    gt_buf_printf(
        &to,
        "\"tolerations\":[{\"key\":\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":"
        "\"NoExecute\",\"tolerationSeconds\":300}],\"containers\":[{\"name\":\"pytorch\",\"image\":"
        "\"example.com/"
        "pytorch:2.6\",\"resources\":{\"requests\":{\"cpu\":\"%u\",\"memory\":\"%uMi\"},\"limits\":{\"cpu\":"
        "\"16\"",
        gpus ? gpus * 4 : 1 + on % 2, gpus ? 4096 : p % 500 + 1);
    if (gpus)
        gt_buf_printf(&to, ",\"metax-tech.com/gpu\":\"%u\"", gpus);
    gt_buf_puts(&to, "}}}]},\"status\":{\"phase\":\"Pending\"}}");
    return parse(&to);
}

/* ---- passing them to the cache ---- */

struct timer {
    uint64_t ns, count;
};

#define TIMED(timer, call)                                                                                   \
    do {                                                                                                     \
        uint64_t start_ = gt_clock_ns();                                                                     \
        call;                                                                                                \
        (timer)->ns += gt_clock_ns() - start_;                                                               \
        (timer)->count++;                                                                                    \
    } while (0)

static void report(const char *name, const struct timer *timer, const char *goal)
{
    measure(name, (double)timer->ns / (double)timer->count / 1000, "us", goal);
}

static void read_pod(struct gt_cache *cache, const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_cache_pod(cache, &pod);
}

static void hand_pod(struct gt_cache *cache, struct timer *timer, cJSON *object)
{
    TIMED(timer, read_pod(cache, object));
    cJSON_Delete(object);
}

static void hand_topology(struct gt_cache *cache, struct timer *timer, cJSON *object)
{
    TIMED(timer, gt_cache_topology(cache, object, 1));
    cJSON_Delete(object);
}

static void hand_cluster(struct gt_cache *cache, bool timed)
{
    struct timer topologies = {0}, nodes = {0}, supernodes = {0}, same = {0};
    for (unsigned n = 0; n < NODES; n++) {
        hand_topology(cache, &topologies, topology(n, 0, 0, 1));
        cJSON *object = node(n);
        TIMED(&nodes, gt_cache_node(cache, object));
        cJSON_Delete(object);
    }
    for (unsigned s = 0; s < NODES / PER_SUPERNODE; s++) {
        cJSON *object = supernode(s);
        TIMED(&supernodes, gt_cache_supernode(cache, object));
        TIMED(&same, gt_cache_supernode(cache, object));
        cJSON_Delete(object);
    }
    if (!timed)
        return;
    report("topology, new", &topologies, "-");
    report("node, new", &nodes, "-");
    report("supernode of 16 nodes, new", &supernodes, "-");
    report("supernode, nothing new", &same, "-");
}

/* `asking` of the pods ask for GPUs, and as many of them as have room are on nodes and in use there. */
static void hand_pods(struct gt_cache *cache, unsigned pods, unsigned asking, bool timed)
{
    struct timer waiting = {0}, planned = {0}, bound = {0}, none = {0}, named = {0}, same = {0};
    unsigned room = NODES * GPUS, placed = asking < room ? asking : room;
    for (unsigned p = 0; p < pods; p++) {
        unsigned gpus = p < asking ? 1 : 0, on = gpus ? p / GPUS : p % NODES;
        hand_pod(cache, gpus ? &waiting : &none, pod(p, gpus, gpus ? WAITING : BOUND, on));
        if (p >= placed)
            continue;
        hand_pod(cache, &planned, pod(p, gpus, PLANNED, on));
        hand_pod(cache, &same, pod(p, gpus, PLANNED, on));
        hand_pod(cache, &bound, pod(p, gpus, BOUND, on));
        if (p % GPUS == GPUS - 1)
            hand_topology(cache, &named, topology(on, on * GPUS, GPUS, 2));
    }
    struct gt_cache_counters counters;
    gt_cache_counters(cache, &counters);
    if (counters.refused || counters.pods[GT_CACHE_RUNNING] != placed)
        stop("the cache did not take the pods as they were meant");
    if (!timed)
        return;
    report("pod, new and gated", &waiting, "<50");
    report("pod, planned", &planned, "<50");
    report("pod, nothing new", &same, "-");
    report("pod, bound", &bound, "-");
    report("pod without GPUs", &none, "-");
    report("topology, 8 pods named", &named, "<200");
}

static void measure_tick(struct gt_cache *cache)
{
    struct timer ticks = {0};
    for (unsigned i = 0; i < 20; i++)
        TIMED(&ticks, gt_cache_tick(cache, 2 + i));
    report("tick", &ticks, "-");
    struct timer questions = {0};
    struct gt_cache_counters counters;
    for (unsigned i = 0; i < 20; i++)
        TIMED(&questions, gt_cache_counters(cache, &counters));
    report("counters", &questions, "-");
}

/* A round over everything, in the steps that the companion makes. */
static void measure_audit(struct gt_cache *cache)
{
    gt_auto_audit struct gt_audit *audit = NULL;
    struct timer steps = {0};
    if (gt_audit_new(&(struct gt_audit_spec){.cache = cache}, &audit, NULL) < 0)
        stop("no audit");
    for (bool done = false; !done;)
        TIMED(&steps, done = gt_audit_step(audit, 2000, 1));
    measure("audit, a round", (double)steps.ns / 1e6, "ms", "-");
    report("audit, a step", &steps, "<2000");
}

/* On each node a pod with host ports, as of a DaemonSet. */
static void hand_daemons(struct gt_cache *cache)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    for (unsigned n = 0; n < NODES; n++) {
        gt_buf_consume(&text, text.len);
        gt_buf_printf(
            &text,
            "{\"metadata\":{\"namespace\":\"kube-system\",\"name\":\"daemon-%u\",\"uid\":\"d-%u\"},"
            "\"spec\":{\"hostNetwork\":true,\"nodeName\":\"node-%05u\",\"containers\":[{\"name\":\"c\","
            "\"ports\":[{\"hostPort\":%u},{\"hostPort\":10256}]}]}}",
            n, n, n, n % 4 ? 9100 : 29500);
        cJSON *object = parse(&text);
        read_pod(cache, object);
        cJSON_Delete(object);
    }
}

/* A job of 128 pods of 8 GPUs in units of 4 on the idle nodes, as it waits in the queue. `ports`: JSON. */
static double decide_us(struct gt_cache *cache, const char *cpu, const char *ports)
{
    enum { JOB = 128, ROUNDS = 30 };
    double least = 1e18;
    char key[64], name[32];
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    snprintf(name, sizeof(name), "%s%s", cpu, *ports ? "-ports" : "");
    for (unsigned i = 0; i < JOB; i++) {
        gt_buf_consume(&text, text.len);
        gt_buf_printf(
            &text,
            "{\"metadata\":{\"namespace\":\"n\",\"name\":\"j%s-%u\",\"uid\":\"%s-%u\",\"labels\":{"
            "\"batch.kubernetes.io/job-name\":\"j%s\",\"batch.kubernetes.io/job-completion-index\":"
            "\"%u\"},\"annotations\":{\"metax-tech.com/gpu-group-size\":\"32\"}},\"spec\":{"
            "\"schedulingGates\":[{\"name\":\"" GT_GATE "\"}],\"containers\":[{\"name\":\"c\","
            "\"ports\":[%s],\"resources\":{\"requests\":{\"cpu\":\"%s\",\"memory\":\"1Gi\"},\"limits\":{"
            "\"metax-tech.com/gpu\":8}}}]}}",
            name, i, name, i, name, i, ports, cpu);
        cJSON *object = parse(&text);
        read_pod(cache, object);
        cJSON_Delete(object);
    }
    snprintf(key, sizeof(key), "n/Job/j%s", name);
    struct gt_cache_job *job = gt_cache_find_job(cache, key);
    for (unsigned round = 0; job && round < ROUNDS; round++) {
        struct gt_reservations reservations = {0};
        struct gt_job_view *view = NULL;
        struct gt_plan_failure failure;
        const struct gt_job_view_spec spec = {.now = 1};
        const struct gt_decide_spec plainly = {.reserve_until = 1000};
        gt_buf_consume(&text, text.len);
        if (gt_job_view_make(cache, job, &spec, &reservations, &view, NULL) < 0)
            stop("no view");
        uint64_t start = gt_clock_ns();
        if (gt_decide(view, &plainly, &failure, &text) != GT_DECISION_PLACED)
            stop(text.data);
        double took = (double)(gt_clock_ns() - start) / 1000;
        least = took < least ? took : least;
        gt_job_view_free(view);
        for (struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
            gt_cache_unplan_pod(cache, pod);
        gt_reservations_done(&reservations, gt_cache_cluster(cache));
    }
    return least;
}

static void measure_decisions(struct gt_cache *cache)
{
    double plain = decide_us(cache, "0", ""), some = decide_us(cache, "160", ""), times = some / plain;
    measure("decide on 32 units of 4 pods of 8", plain, "us", "-");
    measure("the same, half of the nodes lack CPUs", some, "us", "-");
    measure("times as long", times, "", "<1.5");
    hand_daemons(cache);
    measure("the same with a host port, taken on every fourth node",
            decide_us(cache, "0", "{\"hostPort\":29500}"), "us", "<2000");
}

static void run(unsigned pods, unsigned asking, bool timed)
{
    gt_auto_cache struct gt_cache *cache = NULL;
    char name[96];
    if (gt_cache_new(NULL, &cache, NULL) < 0)
        stop("no cache");
    hand_cluster(cache, timed);
    hand_pods(cache, pods, asking, timed);
    snprintf(name, sizeof(name), "resident, 10,000 nodes, %u pods, %u of them ask", pods, asking);
    measure(name, resident_mib(), "MiB", pods == PODS ? "<143" : "<190"); /* 150 and 200 MB */
    if (timed)
        measure_tick(cache);
    else if (pods == PODS)
        measure_audit(cache);
    else
        measure_decisions(cache);
}

/* Of this thread: what a busy machine does in between is not in it. */
static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* One node reports other weights each time, and a scheduler asks in between. */
static void run_rewired(void)
{
    gt_auto_cache struct gt_cache *cache = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    struct timer reports = {0}, questions = {0};
    uint64_t slowest_ns = 0;
    uint32_t seed = 1;
    if (gt_cache_new(NULL, &cache, NULL) < 0)
        stop("no cache");
    for (unsigned i = 0; i < REWIRED_TIMES; i++) {
        gt_buf_consume(&text, text.len);
        gt_buf_puts(&text, "{\"metadata\":{\"name\":\"n\"},\"status\":{\"gpus\":[");
        for (unsigned g = 0; g < REWIRED_GPUS; g++)
            gt_buf_printf(&text, "%s{\"index\":%u,\"bdf\":\"0000:%02x:00.0\",\"healthy\":true}", g ? "," : "",
                          g, g + 1);
        gt_buf_puts(&text, "],\"links\":[");
        for (unsigned b = 1; b < REWIRED_GPUS; b++)
            for (unsigned a = 0; a < b; a++)
                gt_buf_printf(&text, "%s{\"a\":%u,\"b\":%u,\"kind\":\"MX\",\"bandwidthMBps\":%u}",
                              a + b > 1 ? "," : "", a, b,
                              1000 * (1 + (seed = seed * 1664525 + 1013904223) % 200));
        gt_buf_puts(&text, "]}}");
        cJSON *object = parse(&text);
        uint64_t start_ns = cpu_ns(), took_ns;
        double value;
        TIMED(&reports, gt_cache_topology(cache, object, 1 + i));
        TIMED(&questions, gt_score_all(gt_cache_cluster(cache), 1 + i % REWIRED_GPUS, &value));
        took_ns = cpu_ns() - start_ns;
        slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
        cJSON_Delete(object);
    }
    report("a node of 16 GPUs that is rewired at each report, a report", &reports, "-");
    report("the question behind it", &questions, "-");
    measure("a report and the question, slowest, CPU", (double)slowest_ns / 1000, "us", "<5000");
    measure("resident after 2,000 such reports", resident_mib(), "MiB", "<100");
}

static void go_on(const char *with)
{
    char command[4096];
    ssize_t len = readlink("/proc/self/exe", command, sizeof(command) - 1);
    if (len <= 0)
        stop("the program's own path is not known");
    command[len] = '\0';
    execl(command, command, with, (char *)NULL);
    stop("the program cannot be started again");
}

int main(int argc, char **argv)
{
    /* Each in a process of its own, so that the memory is its own. */
    if (argc == 2 && strcmp(argv[1], "rewired") == 0)
        run_rewired();
    else if (argc == 2 && strcmp(argv[1], "many") == 0) {
        run(MANY, 20000, false);
        go_on("rewired");
    } else if (argc == 2 && strcmp(argv[1], "all") == 0) {
        run(PODS, PODS, false);
        go_on("many");
    } else {
        printf("# cache\n");
        measure("resident at the start", resident_mib(), "MiB", "-");
        run(PODS, 20000, true);
        go_on("all");
    }
    return 0;
}
