/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/probe/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "topology/model/health.h"
#include "topology/probe/answers.h"

long clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sleep_ms(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void make_dir(const struct machine *machine, const char *name)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s", machine->dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

void machine_new(struct machine *machine, const char *options)
{
    char script[512];
    memset(machine, 0, sizeof(*machine));
    snprintf(machine->dir, sizeof(machine->dir), "/tmp/gputopo-probe-XXXXXX");
    assert_non_null(mkdtemp(machine->dir));
    snprintf(machine->scenario, sizeof(machine->scenario), "%s/scenario.json", machine->dir);
    snprintf(machine->probe, sizeof(machine->probe), "%s/probe", machine->dir);
    snprintf(machine->socket, sizeof(machine->socket), "%s/socket", machine->dir);
    snprintf(machine->library, sizeof(machine->library), "%s/opt/mxdriver/lib/libmxsml.so", machine->dir);
    make_dir(machine, "opt");
    make_dir(machine, "opt/mxdriver");
    make_dir(machine, "opt/mxdriver/lib");
    machine_library(machine, "fake-mxsml");
    machine_scenario(machine, 8, NULL);
    snprintf(script, sizeof(script),
             "#!/bin/sh\nASAN_OPTIONS=$ASAN_OPTIONS:log_path=%s/sanitizer\nexport ASAN_OPTIONS\n"
             "exec " TEST_BINARY_DIR "/bin/gputopo-probe --call-timeout %d --scan-timeout %d %s \"$@\"\n",
             machine->dir, CALL_MS, SCAN_MS, options);
    assert_int_equal(gt_file_write(machine->probe, script, strlen(script), 0700, NULL), 0);
    setenv("GPUTOPO_FAKE_MXSML", machine->scenario, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static bool sanitizer_spoke(const struct machine *machine)
{
    gt_auto_dir DIR *dir = opendir(machine->dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strncmp(entry->d_name, "sanitizer.", 10) == 0) {
            char path[400];
            gt_auto_free char *text = NULL;
            snprintf(path, sizeof(path), "%s/%s", machine->dir, entry->d_name);
            if (gt_file_read(AT_FDCWD, path, 1 << 20, &text, NULL, NULL) == 0)
                print_error("%s\n", text);
            return true;
        }
    return false;
}

void machine_done(struct machine *machine)
{
    gt_probe_client_free(machine->client);
    bool gone = machine_gone(machine, NULL), spoke = sanitizer_spoke(machine);
    nftw(machine->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_true(gone);
    assert_false(spoke);
}

void machine_scenario(struct machine *machine, unsigned gpus, const char *more)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4 << 20);
    unsigned half = gpus / 2 ? gpus / 2 : 1;
    gt_buf_puts(&text, "{\"devices\":[");
    for (unsigned i = 0; i < gpus; i++) {
        gt_buf_printf(&text, "%s{\"bdf\":\"0000:%02x:00.0\",\"uuid\":\"GPU-%u\",\"ports\":[", i ? "," : "",
                      0x0e + i, i);
        unsigned port = 0;
        for (unsigned j = 0; j < gpus && port < 7; j++)
            if (i != j && i / half == j / half) {
                gt_buf_printf(&text, "%s{\"port\":%u,\"remoteDevice\":%u}", port ? "," : "", port, j);
                port++;
            }
        gt_buf_puts(&text, "]}");
    }
    gt_buf_puts(&text, "],\"matrix\":[");
    for (unsigned i = 0; i < gpus; i++) {
        gt_buf_puts(&text, i ? ",[" : "[");
        for (unsigned j = 0; j < gpus; j++)
            gt_buf_printf(&text, "%s%d", j ? "," : "", i == j ? 0 : i / half == j / half ? 5 : 6);
        gt_buf_puts(&text, "]");
    }
    gt_buf_puts(&text, "],\"server\":{\"uuid\":\"SERVER-1\",\"remotes\":[\"SERVER-2\",\"SERVER-3\"]}");
    if (more)
        gt_buf_printf(&text, ",%s", more);
    gt_buf_puts(&text, "}");
    assert_false(text.failed);
    assert_int_equal(gt_file_write(machine->scenario, text.data, text.len, 0600, NULL), 0);
}

void machine_library(struct machine *machine, const char *directory)
{
    char from[512];
    gt_auto_free char *data = NULL;
    size_t len;
    if (!directory) {
        assert_int_equal(unlink(machine->library), 0);
        return;
    }
    snprintf(from, sizeof(from), TEST_BINARY_DIR "/tests/%s/libmxsml.so", directory);
    assert_int_equal(gt_file_read(AT_FDCWD, from, 64 << 20, &data, &len, NULL), 0);
    assert_int_equal(gt_file_write(machine->library, data, len, 0700, NULL), 0);
}

void machine_spawn(struct machine *machine)
{
    assert_int_equal(gt_probe_client_spawn(machine->probe, machine->dir, false, &machine->client, NULL), 0);
}

char *machine_scan(struct machine *machine)
{
    gt_auto_err struct gt_err *err = NULL;
    char *log = NULL;
    if (!machine->client)
        machine_spawn(machine);
    if (gt_probe_scan(machine->client, 0, &log, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return log;
}

struct gt_node *machine_node(struct machine *machine, unsigned gpus, char **ret_log)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *log = machine_scan(machine);
    struct gt_node *node = NULL;
    unsigned unmatched;
    assert_int_equal(gt_node_new(gpus, 0, &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++)
        snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", 0x0e + i);
    if (gt_answers_apply(log, strlen(log), node, &unmatched, &err) < 0 || gt_node_finish(node, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    gt_health_evaluate(&gt_fault_table_default, node);
    if (ret_log)
        *ret_log = gt_steal(log);
    return node;
}

static bool belongs(const struct machine *machine, const char *pid)
{
    char path[64], want[128];
    gt_auto_free char *environment = NULL;
    size_t len;
    snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
    if (gt_file_read(AT_FDCWD, path, 1 << 20, &environment, &len, NULL) < 0)
        return false;
    int n = snprintf(want, sizeof(want), "GPUTOPO_FAKE_MXSML=%s", machine->scenario);
    return memmem(environment, len, want, (size_t)n + 1) != NULL;
}

unsigned machine_processes(const struct machine *machine, const char *name, pid_t *ret_pid)
{
    unsigned count = 0;
    gt_auto_dir DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[64], comm[32] = "";
        if (!isdigit((unsigned char)entry->d_name[0]) || strtol(entry->d_name, NULL, 10) == getpid() ||
            !belongs(machine, entry->d_name))
            continue;
        snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
        gt_file_read_attribute(AT_FDCWD, path, comm, sizeof(comm));
        if (name && strcmp(comm, name) != 0)
            continue;
        count++;
        if (ret_pid)
            *ret_pid = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    return count;
}

bool machine_gone(const struct machine *machine, const char *name)
{
    for (long until = clock_ms() + PATIENCE_MS; clock_ms() < until; sleep_ms(5))
        if (!machine_processes(machine, name, NULL))
            return true;
    return false;
}

bool misses(const struct gt_node *node, const char *what, const char *why)
{
    for (unsigned i = 0; i < node->missing_count; i++)
        if (strstr(node->missing[i].what, what) && strstr(node->missing[i].why, why))
            return true;
    for (unsigned i = 0; i < node->missing_count; i++)
        print_error("  missing: %s: %s\n", node->missing[i].what, node->missing[i].why);
    return false;
}
