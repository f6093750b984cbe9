/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/measured.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/check.h"
#include "cli/cli.h"

/* The vendor's test of what pairs of GPUs carry, `mxvs p2p`, pair by pair. */

#define BANDWIDTH_TOOL "/opt/maca/bin/mxvs"
#define KUBELET_USERS  "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
#define CLAIM_USERS    "/var/lib/kubelet/plugins/" GT_DRA_DRIVER "/claims.json"

enum {
    BANDWIDTH_TEXT_MAX = 64 << 10,
    BANDWIDTH_IDLE_MIB = 1536,
    BANDWIDTH_OF_OTHERS = 80, /* percent of the median of the pairs of its kind, below: slow */
    BANDWIDTH_OF_LINK = 50,   /* percent of what the link carries */
    BANDWIDTH_PAIRS_MAX = GT_GPUS_MAX * (GT_GPUS_MAX - 1) / 2,
    USERS_MAX = 16 << 20,
};

struct bandwidth {
    const struct cli_checked *of;
    const struct cli_compute *how;
    char tool[PATH_MAX];
    uint64_t in_use; /* GPUs that are not tested */
    unsigned count;
    struct bandwidth_pair {
        const struct gt_link *link;
        bool direct, passed; /* direct: the tool calls it MetaXLink */
        bool slow;
        double gbps;
    } * pairs;
};

/* ---- which GPUs are in use ---- */

static bool bandwidth_lists(const cJSON *ids, const char *id)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, ids) if (cJSON_IsString(item) ? strcmp(item->valuestring, id) == 0
                                                           : bandwidth_lists(item, id)) return true;
    return false;
}

static bool bandwidth_gpu_is_in_use(const cJSON *kubelet, const cJSON *claims, const struct gt_gpu *gpu)
{
    char id[GT_ID_SIZE], bdf[GT_BDF_SIZE + 4], device[GT_DRA_DEVICE_SIZE] = "";
    gt_gpu_device_id(gpu, id);
    snprintf(bdf, sizeof(bdf), "PCI-%s", gpu->bdf);
    gt_dra_device_name(gpu->bdf, device);
    for (const cJSON *entry = gt_first(gt_get_at(kubelet, "Data", "PodDeviceEntries")); entry;
         entry = entry->next) {
        const cJSON *ids = gt_get(entry, "DeviceIDs");
        if (bandwidth_lists(ids, id) || bandwidth_lists(ids, bdf))
            return true;
    }
    return bandwidth_lists(claims, device);
}

/* Pods that have ended may be among them: the kubelet forgets them with the next pod. */
static int bandwidth_find_in_use(struct bandwidth *bandwidth, struct gt_err **err)
{
    static const char *const names[] = {KUBELET_USERS, CLAIM_USERS};
    gt_auto_json cJSON *kubelet = NULL, *claims = NULL;
    cJSON **const to[] = {&kubelet, &claims};
    for (unsigned i = 0; i < GT_COUNT(names); i++) {
        char path[PATH_MAX];
        gt_auto_free char *text = NULL;
        gt_auto_err struct gt_err *why = NULL;
        size_t len = 0;
        if (snprintf(path, sizeof(path), "%s%s", bandwidth->of->root, names[i]) >= (int)sizeof(path))
            return gt_fail_sys(err, ENAMETOOLONG, "%s", bandwidth->of->root);
        int r = gt_file_read(AT_FDCWD, path, USERS_MAX, &text, &len, &why);
        if (r == -ENOENT)
            continue;
        if (r < 0)
            return gt_fail(err, -r, "which GPUs are in use is not known: %s", gt_err_text(why));
        GT_TRY(gt_json_parse(text, len, path, to[i], err));
    }
    for (unsigned i = 0; i < bandwidth->of->node->gpu_count; i++) {
        const struct gt_gpu *gpu = &bandwidth->of->node->gpus[i];
        bool busy = gpu->evidence.knows_memory && gpu->evidence.memory_mib >= BANDWIDTH_IDLE_MIB;
        if (busy || gpu->vendor_index < 0 || bandwidth_gpu_is_in_use(kubelet, claims, gpu))
            bandwidth->in_use |= UINT64_C(1) << i;
    }
    return 0;
}

/* ---- one pair ---- */

/* Reads until the other end is closed; what is too much is dropped. */
static void bandwidth_listen(int in, unsigned seconds, struct gt_buf *to)
{
    char piece[4096];
    struct pollfd wait = {.fd = in, .events = POLLIN};
    uint64_t end_ms = gt_clock_ms() + (seconds + 5) * UINT64_C(1000), now_ms;
    while ((now_ms = gt_clock_ms()) < end_ms) {
        int r = poll(&wait, 1, (int)(end_ms - now_ms));
        ssize_t n = r > 0 ? read(in, piece, sizeof(piece)) : 0;
        if (n <= 0 && !(r < 0 && errno == EINTR))
            return;
        if (n > 0 && to->len + (size_t)n <= BANDWIDTH_TEXT_MAX)
            gt_buf_add(to, piece, (size_t)n);
    }
}

/* False: the table has no row of this pair. */
static bool bandwidth_read(char *text, unsigned from, unsigned to, struct bandwidth_pair *ret)
{
    struct gt_mxvs_row row;
    for (char *line = text, *next; line; line = next) {
        next = gt_mxvs_line_end(line);
        if (gt_mxvs_row_read(line, &row) != 1 || row.a != (from < to ? from : to) ||
            row.b != (from < to ? to : from))
            continue;
        ret->gbps = row.gbps;
        ret->direct = row.direct;
        ret->passed = row.passed;
        return true;
    }
    return false;
}

static int bandwidth_test(const struct bandwidth *bandwidth, struct bandwidth_pair *pair, struct gt_err **err)
{
    const struct gt_gpu *a = &bandwidth->of->node->gpus[pair->link->a],
                        *b = &bandwidth->of->node->gpus[pair->link->b];
    gt_auto_buf struct gt_buf said = GT_BUF(BANDWIDTH_TEXT_MAX + 1);
    char from[16], to[16];
    int ends[2];
    pid_t pid = -1;
    snprintf(from, sizeof(from), "%d", a->vendor_index);
    snprintf(to, sizeof(to), "%d", b->vendor_index);
    const char *const argv[] = {bandwidth->tool, "p2p", "--src-devices", from, "--dst-devices", to, NULL};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return gt_fail_sys(err, errno, "pipe");
    int r = cli_check_spawn(bandwidth->how->seconds, argv, NULL, ends[1], &pid, err);
    close(ends[1]);
    if (r >= 0)
        bandwidth_listen(ends[0], bandwidth->how->seconds, &said);
    close(ends[0]);
    GT_TRY(r);
    int status = gt_child_end(pid, CLI_CHECK_LATE_MS);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return gt_fail(err, ETIMEDOUT, "the bandwidth test of GPUs %u and %u does not end within %u s",
                       pair->link->a, pair->link->b, bandwidth->how->seconds);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return gt_fail(err, EIO, "the bandwidth test of GPUs %u and %u fails: %s, %s %d", pair->link->a,
                       pair->link->b, bandwidth->tool, WIFEXITED(status) ? "exit code" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    gt_buf_puts(&said, "");
    if (!said.data || !bandwidth_read(said.data, (unsigned)a->vendor_index, (unsigned)b->vendor_index, pair))
        return gt_fail(err, EBADMSG, "%s prints no row for GPU#%s and GPU#%s", bandwidth->tool, from, to);
    return 0;
}

/* ---- what the values say ---- */

static int bandwidth_order(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* The median of the pairs of this kind. False: there are none. */
static bool bandwidth_median(const struct bandwidth *bandwidth, bool direct, double *ret)
{
    double values[BANDWIDTH_PAIRS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < bandwidth->count; i++)
        if (bandwidth->pairs[i].direct == direct)
            values[count++] = bandwidth->pairs[i].gbps;
    if (!count)
        return false;
    qsort(values, count, sizeof(values[0]), bandwidth_order);
    *ret = values[count / 2];
    return true;
}

static void bandwidth_judge_kind(const struct bandwidth *bandwidth, bool direct, struct cli_check *check)
{
    double median = 0, lowest = 0;
    const struct gt_link *at = NULL;
    unsigned slow = 0;
    if (!bandwidth_median(bandwidth, direct, &median))
        return;
    for (unsigned i = 0; i < bandwidth->count; i++) {
        struct bandwidth_pair *pair = &bandwidth->pairs[i];
        if (pair->direct != direct)
            continue;
        pair->slow = pair->gbps * 100 < median * BANDWIDTH_OF_OTHERS ||
                     (direct && pair->link->kind == GT_LINK_MX && !gt_link_is_down(pair->link) &&
                      pair->gbps * 100 < (double)pair->link->weight * BANDWIDTH_OF_LINK);
        slow += pair->slow;
        if (!at || pair->gbps < lowest) {
            lowest = pair->gbps;
            at = pair->link;
        }
    }
    cli_check_found(check, "%s: median %.1f GB/s, lowest %.1f between GPUs %u and %u, %u pairs slow",
                    direct ? "MetaXLink" : "PCIe", median, lowest, at->a, at->b, slow);
}

/* How many pairs of a GPU were tested, and how many of them are slow. */
static unsigned bandwidth_slow_of(const struct bandwidth *bandwidth, unsigned gpu, unsigned *ret_tested)
{
    unsigned slow = 0;
    *ret_tested = 0;
    for (unsigned i = 0; i < bandwidth->count; i++)
        if (bandwidth->pairs[i].link->a == gpu || bandwidth->pairs[i].link->b == gpu) {
            ++*ret_tested;
            slow += bandwidth->pairs[i].slow;
        }
    return slow;
}

static void bandwidth_add(const struct bandwidth *bandwidth, unsigned gpu, const char *grade,
                          const char *reason, struct gt_buf *to)
{
    const struct gt_gpu *who = &bandwidth->of->node->gpus[gpu];
    char index[16];
    snprintf(index, sizeof(index), "%u", gpu);
    gt_json_printf(to, "{'gpu': %s, 'grade': %s, 'reason': %s}", who->uuid[0] ? who->uuid : index, grade,
                   reason);
}

/* A GPU is slow if most of its pairs are; a pair that is slow between two others makes both slow. The worst
 * of what is found of a GPU is told, once. */
static unsigned bandwidth_tell(const struct bandwidth *bandwidth, struct cli_check *check, struct gt_buf *to)
{
    uint64_t slow = 0;
    unsigned told = 0;
    for (unsigned g = 0; g < bandwidth->of->node->gpu_count; g++) {
        unsigned tested, of = bandwidth_slow_of(bandwidth, g, &tested);
        slow |= of * 2 > tested ? UINT64_C(1) << g : 0;
    }
    for (unsigned g = 0; g < bandwidth->of->node->gpu_count; g++) {
        char reason[100] = "";
        const char *grade = "slow";
        unsigned tested, of = bandwidth_slow_of(bandwidth, g, &tested);
        if (slow >> g & 1)
            snprintf(reason, sizeof(reason), "the bandwidth test is slow to %u of %u GPUs", of, tested);
        for (unsigned i = 0; i < bandwidth->count; i++) {
            const struct bandwidth_pair *pair = &bandwidth->pairs[i];
            unsigned other = pair->link->a == g ? pair->link->b : pair->link->a;
            if (pair->link->a != g && pair->link->b != g)
                continue;
            if (!pair->passed) {
                grade = "bad";
                snprintf(reason, sizeof(reason), "the bandwidth test finds wrong data to or from GPU %u",
                         other);
                break;
            }
            if (pair->slow && !reason[0] && !(slow >> other & 1))
                snprintf(reason, sizeof(reason), "the bandwidth test finds %.1f GB/s to GPU %u", pair->gbps,
                         other);
        }
        if (!reason[0])
            continue;
        cli_check_found(check, "GPU %u: %s", g, reason);
        bandwidth_add(bandwidth, g, grade, reason, to);
        told++;
    }
    return told;
}

/* What an earlier run found of GPUs that were not tested now still holds. */
static unsigned bandwidth_keep(const struct bandwidth *bandwidth, struct gt_buf *to)
{
    char path[PATH_MAX];
    gt_auto_free char *text = NULL;
    gt_auto_json cJSON *json = NULL;
    size_t len = 0;
    unsigned kept = 0;
    snprintf(path, sizeof(path), "%s/check-node-bandwidth.json", bandwidth->how->fault_dir);
    if (gt_file_read(AT_FDCWD, path, BANDWIDTH_TEXT_MAX, &text, &len, NULL) < 0 ||
        gt_json_parse(text, len, path, &json, NULL) < 0)
        return 0;
    for (const cJSON *fault = gt_first(gt_get(json, "faults")); fault; fault = fault->next) {
        int gpu = gt_node_gpu_named(bandwidth->of->node, gt_get_string(fault, "gpu"));
        if (gpu < 0 || !(bandwidth->in_use >> gpu & 1))
            continue;
        bandwidth_add(bandwidth, (unsigned)gpu, gt_get_string(fault, "grade"), gt_get_string(fault, "reason"),
                      to);
        kept++;
    }
    return kept;
}

/* A direct link that the tool does not find, or finds although it is not known. */
static unsigned bandwidth_compare(const struct bandwidth *bandwidth, struct cli_check *check)
{
    unsigned differ = 0;
    for (unsigned i = 0; i < bandwidth->count; i++) {
        const struct bandwidth_pair *pair = &bandwidth->pairs[i];
        bool direct = pair->link->kind == GT_LINK_MX && !gt_link_is_down(pair->link);
        if (direct == pair->direct)
            continue;
        cli_check_found(check, "GPUs %u and %u: %s here, %s for the test", pair->link->a, pair->link->b,
                        direct ? "MetaXLink" : "PCIe", pair->direct ? "MetaXLink" : "PCIe");
        differ++;
    }
    return differ;
}

static int bandwidth_run(struct bandwidth *bandwidth, struct cli_check *check, struct gt_err **err)
{
    const struct gt_node *node = bandwidth->of->node;
    gt_auto_buf struct gt_buf faults = GT_BUF(BANDWIDTH_TEXT_MAX);
    GT_TRY(bandwidth_find_in_use(bandwidth, err));
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (bandwidth->in_use >> link->a & 1 || bandwidth->in_use >> link->b & 1)
            continue;
        cli_progress("bandwidth test, GPUs %u and %u of %u", link->a, link->b, node->gpu_count);
        bandwidth->pairs[bandwidth->count].link = link;
        GT_TRY(bandwidth_test(bandwidth, &bandwidth->pairs[bandwidth->count], err));
        bandwidth->count++;
    }
    for (unsigned g = 0; g < node->gpu_count; g++)
        if (bandwidth->in_use >> g & 1)
            cli_check_found(check, "GPU %u: in use, not tested", g);
    if (!bandwidth->count) {
        cli_check_cannot(check, "there are no two GPUs that are not in use");
        return 0;
    }
    bandwidth_judge_kind(bandwidth, true, check);
    bandwidth_judge_kind(bandwidth, false, check);
    cli_check_faults_begin(&faults);
    unsigned told = bandwidth_tell(bandwidth, check, &faults), differ = bandwidth_compare(bandwidth, check);
    cli_check_evaluate(check, !told && !differ);
    told += bandwidth_keep(bandwidth, &faults);
    return cli_check_faults_write(bandwidth->how->fault_dir, "-bandwidth", &faults, told, err);
}

/* The tool of the root, else of $PATH. */
static void bandwidth_find_tool(struct bandwidth *bandwidth)
{
    snprintf(bandwidth->tool, sizeof(bandwidth->tool), "%s" BANDWIDTH_TOOL, bandwidth->of->root);
    if (access(bandwidth->tool, X_OK) < 0)
        snprintf(bandwidth->tool, sizeof(bandwidth->tool), "mxvs");
}

int cli_check_bandwidth(const struct cli_checked *checked, const struct cli_compute *compute,
                        struct cli_checks *to, struct gt_err **err)
{
    struct cli_check *check =
        cli_check_add(to, "bandwidth", "the vendor's test finds each pair as fast as others");
    struct bandwidth all = {.of = checked, .how = compute};
    if (!cli_check_has_gpus(checked, check))
        return 0;
    gt_auto_free struct bandwidth_pair *pairs = calloc(checked->node->link_count + 1UL, sizeof(*pairs));
    GT_NEED(pairs, err, "pairs");
    all.pairs = pairs;
    bandwidth_find_tool(&all);
    int r = bandwidth_run(&all, check, err);
    if (r < 0)
        cli_check_cannot(check, "the test did not end well");
    return r;
}
