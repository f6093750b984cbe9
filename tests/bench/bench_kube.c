/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes client under load, for kube.py:
 *
 *     bench_kube fill KUBECONFIG COUNT BODIES     creates NodeGPUTopologies, whole (without a status
 * subresource) bench_kube use KUBECONFIG COUNT BODIES      applies the use of the first COUNT of them, as
 * agents do bench_kube follow KUBECONFIG                      lists and watches them bench_kube json FILE
 * reads the JSON of one object again and again
 *
 * BODIES is a JSON file with what is written: "object" and "use". `follow` answers every byte of
 * its standard input with a line of counters, and ends with it.
 */
#include "bench_kube.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "kube/config.h"
#include "kube/informer.h"

enum { NAME_SIZE = 32, BODIES_MAX = 4 << 20, COUNT_MAX = 100000, IN_FLIGHT = 16 };

static const struct gt_kube_resource topologies = {"topology.metax-tech.com", "v1alpha1", "nodegputopologies",
                                                   false};

static struct gt_loop *loop;
static struct gt_kube *kube;

static int fail(const char *what, struct gt_err *error)
{
    fprintf(stderr, "bench_kube: %s: %s\n", what, gt_err_text(error));
    return 2;
}

static int connect_to(const char *kubeconfig, struct gt_err **err)
{
    gt_auto_kube_config struct gt_kube_config config = {0};
    int r = gt_kube_config_file(kubeconfig, NULL, &config, err);
    if (r == 0)
        r = gt_loop_new(&loop, err);
    if (r == 0)
        r = gt_kube_new(loop, &config, "bench-kube", &kube, err);
    return r;
}

/* ---- fill and use: so many objects at a time ---- */

static struct {
    cJSON *body; /* its name is changed for every object */
    bool use;
    unsigned next, end, running;
    bool failed;
} work;

static void write_next(void);

static void on_written(void *arg, struct gt_kube_answer *answer)
{
    (void)arg;
    if (answer->error && !work.failed) {
        fprintf(stderr, "bench_kube: %s\n", gt_err_text(answer->error));
        work.failed = true;
    }
    work.running--;
    write_next();
    if (work.running == 0)
        gt_loop_stop(loop, work.failed ? 2 : 0);
}

static int write_one(unsigned number, struct gt_err **err)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof(name), "bench-%06u", number);
    cJSON *status = cJSON_GetObjectItemCaseSensitive(work.body, "status");
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(work.body, "metadata"), "name",
                                           cJSON_CreateString(name));
    if (cJSON_HasObjectItem(status, "name"))
        cJSON_ReplaceItemInObjectCaseSensitive(status, "name", cJSON_CreateString(name));
    gt_auto_free char *text = cJSON_PrintUnformatted(work.body);
    struct gt_kube_call *call;
    const struct gt_kube_request request = {.verb = work.use ? GT_KUBE_APPLY : GT_KUBE_CREATE,
                                            .resource = &topologies,
                                            .name = work.use ? name : NULL,
                                            .subresource = work.use ? "status" : NULL,
                                            .body = text,
                                            .field_manager =
                                                work.use ? "gputopo-agent-usage" : "gputopo-agent",
                                            .force = work.use,
                                            .metadata_only = true,
                                            .deadline_ms = 120000,
                                            .try_ms = 60000};
    return gt_kube_start(kube, &request, on_written, NULL, &call, err);
}

static void write_next(void)
{
    gt_auto_err struct gt_err *error = NULL;
    if (work.failed || work.next >= work.end)
        return;
    work.running++;
    if (write_one(work.next++, &error) < 0) {
        fail("cannot write", error);
        work.failed = true;
        work.running--;
    }
}

static int read_body(const char *path, const char *key, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    int r = gt_file_read(AT_FDCWD, path, BODIES_MAX, &text, NULL, err);
    if (r < 0)
        return r;
    cJSON *all = cJSON_Parse(text);
    work.body = cJSON_DetachItemFromObjectCaseSensitive(all, key);
    cJSON_Delete(all);
    if (!cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(work.body, "metadata"), "name"))
        return gt_fail(err, EINVAL, "%s: \"%s\" is no object with a name", path, key);
    return 0;
}

/* GPUs of the use change hands, so that every write is one that the server has to keep. */
static void turn_use(void)
{
    cJSON *status = cJSON_GetObjectItemCaseSensitive(work.body, "status"), *owner;
    char name[NAME_SIZE];
    snprintf(name, sizeof(name), "worker-%d", (int)getpid());
    cJSON_ArrayForEach(owner, cJSON_GetObjectItemCaseSensitive(status, "owners"))
        cJSON_ReplaceItemInObjectCaseSensitive(owner, "pod", cJSON_CreateString(name));
}

/* Prints the seconds that it took. */
static int write_all(char **argv, bool use, struct gt_err **err)
{
    uint64_t count;
    if (!gt_text_to_unsigned(argv[3], COUNT_MAX, &count) || !count)
        return gt_fail(err, EINVAL, "COUNT is a number from 1 to %d", COUNT_MAX);
    int r = connect_to(argv[2], err);
    if (r == 0)
        r = read_body(argv[4], use ? "use" : "object", err);
    if (r < 0)
        return r;
    work.use = use;
    work.end = (unsigned)count;
    if (use)
        turn_use();
    uint64_t start = gt_clock_ns();
    for (unsigned i = 0; i < IN_FLIGHT; i++)
        write_next();
    r = gt_loop_run(loop, err);
    if (r == 0)
        printf("%.6f\n", (double)(gt_clock_ns() - start) / 1e9);
    cJSON_Delete(work.body);
    return r;
}

/* ---- follow ---- */

static struct gt_kube_informer *informer;
static uint64_t begun_ns, synced_ns;
static uint64_t added, updated, deleted;

static void on_add(void *arg, cJSON *object)
{
    (void)arg;
    (void)object;
    added++;
}

static void on_update(void *arg, cJSON *object)
{
    (void)arg;
    (void)object;
    updated++;
}

static void on_delete(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)arg;
    (void)namespace_;
    (void)name;
    (void)object;
    deleted++;
}

static void on_synced(void *arg)
{
    (void)arg;
    if (!synced_ns)
        synced_ns = gt_clock_ns();
}

static void on_error(void *arg, const struct gt_err *error)
{
    (void)arg;
    fprintf(stderr, "bench_kube: %s\n", gt_err_text(error));
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void on_input(void *arg, uint32_t events)
{
    char byte;
    (void)arg;
    (void)events;
    if (read(STDIN_FILENO, &byte, 1) != 1) {
        gt_loop_stop(loop, 0);
        return;
    }
    printf("{\"synced\": %.6f, \"added\": %llu, \"updated\": %llu, \"deleted\": %llu, \"cpu\": %.6f}\n",
           synced_ns ? (double)(synced_ns - begun_ns) / 1e9 : -1.0, (unsigned long long)added,
           (unsigned long long)updated, (unsigned long long)deleted, cpu_seconds());
    fflush(stdout);
}

static int follow(const char *kubeconfig, struct gt_err **err)
{
    const struct gt_kube_informer_spec spec = {.selection = {.resource = &topologies},
                                               .on_add = on_add,
                                               .on_update = on_update,
                                               .on_delete = on_delete,
                                               .on_synced = on_synced,
                                               .on_error = on_error};
    begun_ns = gt_clock_ns();
    int r = connect_to(kubeconfig, err);
    if (r == 0)
        r = gt_kube_informer_start(kube, &spec, &informer, err);
    if (r == 0)
        r = gt_loop_add_fd(loop, STDIN_FILENO, EPOLLIN, on_input, NULL, NULL, err);
    if (r == 0)
        r = gt_loop_run(loop, err);
    gt_kube_informer_free(informer);
    return r;
}

int main(int argc, char **argv)
{
    gt_auto_err struct gt_err *error = NULL;
    int r = -1;
    if (argc == 3 && strcmp(argv[1], "json") == 0)
        return bench_json(argv[2]);
    if (argc == 5 && strcmp(argv[1], "fill") == 0)
        r = write_all(argv, false, &error);
    else if (argc == 5 && strcmp(argv[1], "use") == 0)
        r = write_all(argv, true, &error);
    else if (argc == 3 && strcmp(argv[1], "follow") == 0)
        r = follow(argv[2], &error);
    else
        fprintf(stderr,
                "usage: bench_kube fill|use KUBECONFIG COUNT BODIES | follow KUBECONFIG | json FILE\n");
    if (error)
        fail(argv[1], error);
    gt_kube_free(kube);
    gt_loop_free(loop);
    return r == 0 ? 0 : 2;
}
