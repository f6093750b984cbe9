/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/told_dir.h"
#include "base/file.h"
#include "base/time_text.h"
#include "topology/model/loss.h"

/* What files of measured values say over time. tests/integration/test_isolate.py tries their contents. */

static char folder[] = "/tmp/gputopo-measured-XXXXXX";
static const char *const names[] = {"p2p.txt",     "a.json",    "pipe.json",    "link.json", "loop.json",
                                    "folder.json", "open.json", ".hidden.json", "note"};

static void path_of(const char *name, char to[static 256])
{
    snprintf(to, 256, "%s/%s", folder, name);
}

static void tell(const char *name, int64_t at_s, double gbps)
{
    char path[256], text[256], when[GT_TIME_TEXT_SIZE];
    path_of(name, path);
    gt_time_text(at_s, when);
    snprintf(text, sizeof(text),
             "{\"version\": 1, \"measured\": [{\"gpu\": 3, \"bandwidthGBps\": %g, \"at\": \"%s\"}]}", gbps,
             when);
    assert_return_code(gt_file_write(path, text, strlen(text), 0644, NULL), 0);
}

static int begin(void **state)
{
    (void)state;
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 7);
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    char path[256];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        path_of(names[i], path);
        remove(path);
    }
    return rmdir(folder);
}

static void values_of_the_future_count_in_time(void **state)
{
    struct gt_measured_dir dir = {.stamp = 0};
    int64_t now_s = time(NULL);
    (void)state;
    tell("a.json", now_s + GT_MEASURED_AHEAD_S + 2, 21);
    assert_false(gt_measured_dir_read(folder, &dir));
    assert_false(gt_measured_dir_read(folder, &dir));
    while (time(NULL) < now_s + 2)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_true(gt_measured_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 1);
    assert_int_equal(dir.told.of[0].mbps, 21000);
    assert_false(gt_measured_dir_read(folder, &dir));
}

static void a_clock_that_is_set_back(void **state)
{
    struct gt_measured_dir dir = {.stamp = 0};
    (void)state;
    tell("a.json", time(NULL), 21);
    assert_true(gt_measured_dir_read(folder, &dir));
    /* as they were when the clock was a year ahead, and all was too old */
    dir.told.count = 0;
    dir.again_s = 0;
    dir.seen_s += 365 * 24 * 3600;
    assert_true(gt_measured_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 1);
}

static void what_does_not_change_them(void **state)
{
    struct gt_measured_dir dir = {.stamp = 0};
    (void)state;
    tell("a.json", time(NULL) - 60, 21);
    assert_true(gt_measured_dir_read(folder, &dir));
    uint64_t stamp = dir.stamp;
    tell(".hidden.json", time(NULL), 3);
    tell("note", time(NULL), 3);
    assert_false(gt_measured_dir_read(folder, &dir));
    assert_true(dir.stamp == stamp); /* nothing was read again, and nothing logged */
    tell("a.json", time(NULL), 21);
    assert_false(gt_measured_dir_read(folder, &dir));
    tell("a.json", time(NULL), 20);
    assert_true(gt_measured_dir_read(folder, &dir));
}

static void what_is_no_file_of_them(void **state)
{
    struct gt_measured_dir dir = {.stamp = 0};
    char path[256], target[256];
    (void)state;
    path_of("pipe.json", path);
    assert_return_code(mkfifo(path, 0644), 0);
    path_of("loop.json", path);
    assert_return_code(symlink("loop.json", path), 0);
    path_of("folder.json", path);
    assert_return_code(mkdir(path, 0755), 0);
    path_of("open.json", path);
    tell("open.json", time(NULL), 3);
    assert_return_code(chmod(path, 0646), 0);
    path_of("note", target);
    path_of("link.json", path);
    tell("note", time(NULL), 3);
    assert_return_code(symlink(target, path), 0);
    assert_false(gt_measured_dir_read(folder, &dir));
    tell("a.json", time(NULL), 21);
    assert_true(gt_measured_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 1);
    assert_return_code(chmod(folder, 0777), 0);
    assert_true(gt_measured_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 0);
}

static void tell_text(const char *name, const char *text)
{
    char path[256];
    path_of(name, path);
    assert_return_code(gt_file_write(path, text, strlen(text), 0644, NULL), 0);
}

#define MXVS                                                                                                 \
    "                                           MXVS P2P TEST\n\n"                                           \
    "                                                 EFFECTIVE          RAW    TRANSMISSION        DATA\n"  \
    " DEVICE1   DEVICE2   TOPOLOGY    SIZE(B)         BANDWIDTH    BANDWIDTH    DELAY   (us)  VALIDATION\n"  \
    " \u2500\u2500\u2500\u2500\n"

static void what_the_vendors_test_prints(void **state)
{
    static const char text[] = MXVS
        " GPU#0     GPU#1     metaxlink   1024               1.10 GB/s    1.30 GB/s            9.10        "
        "PASS\n"
        " GPU#0     GPU#1     metaxlink   7516192768     50.74 GB/s   63.58 GB/s       137958.24        "
        "PASS\n"
        " GPU#1     GPU#0     metaxlink   7516192768     41.04 GB/s   52.70 GB/s       139892.49        "
        "PASS\n"
        "running 50%\r GPU#2     GPU#1     pcie        7516192768     37.72 GB/s   46.11 GB/s       "
        "185595.13        "
        "PASS\r\n"
        " GPU#0     GPU#2     pcie        7516192768     37.72 GB/s   46.11 GB/s       185595.13        "
        "FAIL\n"
        " GPU#0     GPU#3     pcie        7516192768     37.72 MB/s   46.11 MB/s       185595.13        "
        "PASS\n"
        " GPU#0     GPU#0     pcie        7516192768     37.72 GB/s   46.11 GB/s       185595.13        "
        "PASS\n"
        " GPU#0     GPU#64    pcie        7516192768     37.72 GB/s   46.11 GB/s       185595.13        "
        "PASS\n"
        " GPU#3     GPU#4     pcie        7516192768     37.72 GB/s   0.00 GB/s       185595.13        PASS\n"
        " GPU#4     GPU#5     pcie        7516192768     37.7";
    struct gt_measured_dir dir = {.stamp = 0};
    (void)state;
    tell_text("p2p.txt", text);
    assert_true(gt_measured_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 2);
    assert_string_equal(dir.told.of[0].gpu, "#0");
    assert_string_equal(dir.told.of[0].peer, "#1");
    assert_int_equal(dir.told.of[0].mbps, 52700);
    assert_string_equal(dir.told.of[1].gpu, "#1");
    assert_string_equal(dir.told.of[1].peer, "#2");
    assert_int_equal(dir.told.of[1].mbps, 46110);
    for (size_t len = 0; len < sizeof(text); len += 7) { /* half a file */
        char cut[sizeof(text)];
        snprintf(cut, len + 1, "%s", text);
        tell_text("p2p.txt", cut);
        gt_measured_dir_read(folder, &dir);
        assert_true(dir.told.count <= 2);
    }
    tell_text("p2p.txt", "GPU#0 GPU#1 metaxlink 7516192768 50.74 GB/s 63.58 GB/s 137958.24 PASS\n");
    gt_measured_dir_read(folder, &dir);
    assert_int_equal(dir.told.count, 0);
}

/* The vendor's numbers, where they are known. */
static void which_gpu_the_vendor_means(void **state)
{
    struct gt_measured told = {.count = 1, .of = {{"#0", "#1", 3000}}};
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        gt_auto_node struct gt_node *node = NULL;
        assert_return_code(gt_node_new(3, 0, &node, NULL), 0);
        for (unsigned i = 0; i < 3; i++) {
            snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", i);
            node->gpus[i].vendor_index = known ? (int)(2 - i) : -1;
        }
        assert_return_code(gt_measured_apply(&told, node, NULL), 0);
        assert_int_equal(gt_node_link(node, 0, 1)->measured_mbps, known ? 0 : 3000);
        assert_int_equal(gt_node_link(node, 1, 2)->measured_mbps, known ? 3000 : 0);
    }
}

/* Loss, score and choice are of the lower value. */
static void what_is_measured_counts(void **state)
{
    struct gt_measured told = {.count = 1, .of = {{"#2", "", 3000}}};
    struct gt_choice choice;
    struct gt_weights weights;
    (void)state;
    for (unsigned measured = 0; measured < 2; measured++) {
        gt_auto_node struct gt_node *node = NULL;
        gt_auto_class struct gt_class *class = NULL;
        assert_return_code(gt_node_new(4, 0, &node, NULL), 0);
        for (unsigned i = 0; i < 4; i++)
            snprintf(node->gpus[i].bdf, sizeof(node->gpus[i].bdf), "0000:%02x:00.0", i);
        for (unsigned l = 0; l < node->link_count; l++)
            node->links[l].kind = GT_LINK_MX;
        told.count = measured;
        gt_auto_err struct gt_err *err = NULL;
        if (gt_measured_apply(&told, node, &err) < 0)
            fail_msg("%s", gt_err_text(err));
        gt_weights_of(node, &weights);
        assert_return_code(gt_class_new(&weights, &class, NULL), 0);
        assert_int_equal(gt_class_sum(class, 0x5), measured ? 3 : 64);
        assert_int_equal(gt_class_sum(class, 0x3), 64);
        assert_true(gt_choose(class, 0xe, 0, 2, 0, &choice));
        assert_int_equal(choice.mask, measured ? 0xa : 0x6);
        assert_true(gt_choose(class, 0x7, 0, 1, 0, &choice)); /* the one that leaves the best pair */
        assert_int_equal(choice.mask, measured ? 0x4 : 0x1);
    }
}

/* The directory can be opened, but not read: that is said, and is no sign that there are no files. */
static void faults_with_one_descriptor_left(void **state)
{
    static const char text[] = "{\"version\": 1, \"faults\": [{\"gpu\": \"GPU-3\", \"reason\": \"broken\"}]}";
    struct gt_fault_dir dir = {0};
    struct rlimit before, few;
    char path[256];
    (void)state;
    path_of("a.json", path);
    assert_return_code(gt_file_write(path, text, strlen(text), 0644, NULL), 0);
    assert_return_code(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    assert_return_code(next, 0);
    close(next);
    few = (struct rlimit){(rlim_t)next + 1, before.rlim_max};
    assert_return_code(setrlimit(RLIMIT_NOFILE, &few), 0);
    bool differs = gt_fault_dir_read(folder, &dir);
    assert_return_code(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(differs);
    assert_true(dir.said);
    assert_true(gt_fault_dir_read(folder, &dir));
    assert_int_equal(dir.told.count, 1);
    assert_false(dir.said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_of_the_future_count_in_time, begin, end),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set_back, begin, end),
        cmocka_unit_test_setup_teardown(what_does_not_change_them, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_file_of_them, begin, end),
        cmocka_unit_test_setup_teardown(what_the_vendors_test_prints, begin, end),
        cmocka_unit_test(which_gpu_the_vendor_means),
        cmocka_unit_test(what_is_measured_counts),
        cmocka_unit_test_setup_teardown(faults_with_one_descriptor_left, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
