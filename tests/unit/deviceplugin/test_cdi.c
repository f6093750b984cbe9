/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/file.h"
#include "deviceplugin/cdi.h"
#include "machine.h"

static const char file_name[] = "metax-tech.com-gpu.json";

/* ---- the spec ---- */

static void writes_what_it_was_given(void **state)
{
    (void)state;
    const struct gt_device_nodes control = {1, {"mxcd"}}, card = {2, {"dri/card0", "dri/renderD128"}};
    static const char *const roots[] = {"/host/", "/dev"};
    static const char *const hosts[][3] = {
        {"\"hostPath\":\"/host/mxcd\",", "\"hostPath\":\"/host/dri/card0\",",
         "\"hostPath\":\"/host/dri/renderD128\","},
        {"", "", ""},
    };
    for (unsigned i = 0; i < GT_COUNT(roots); i++) {
        const struct gt_cdi_options options = {"/cdi", "a.b/c.d", roots[i]};
        gt_auto_buf struct gt_buf text = GT_BUF(GT_CDI_SPEC_MAX), expected = GT_BUF(GT_CDI_SPEC_MAX);
        gt_cdi_spec_begin(&options, &control, &text);
        gt_cdi_spec_add(&options, "GPU-0", &card, NULL, &text);
        gt_cdi_spec_add(&options, "a b", NULL, "[\"A=1\",\"B=\"]", &text);
        gt_cdi_spec_end(&text);
        gt_buf_printf(&expected,
                      "{\"cdiVersion\":\"0.6.0\",\"kind\":\"a.b/c.d\",\n"
                      "  \"containerEdits\":{\"deviceNodes\":[\n"
                      "    {\"path\":\"/dev/mxcd\",%s\"permissions\":\"rw\"}]},\n"
                      "  \"devices\":[\n"
                      "    {\"name\":\"GPU-0\",\n"
                      "      \"containerEdits\":{\"deviceNodes\":[\n"
                      "        {\"path\":\"/dev/dri/card0\",%s\"permissions\":\"rw\"},\n"
                      "        {\"path\":\"/dev/dri/renderD128\",%s\"permissions\":\"rw\"}]}},\n"
                      "    {\"name\":\"a_20b\",\n"
                      "      \"containerEdits\":{\"env\":[\"A=1\",\"B=\"]}}]}\n",
                      hosts[i][0], hosts[i][1], hosts[i][2]);
        assert_string_equal(text.data, expected.data);
    }
}

static void names_any_id(void **state)
{
    (void)state;
    static const char *const ids[][2] = {
        {"GPU-c9b65647-5b48-5de2-bff0-ac1aaf03ea67", "GPU-c9b65647-5b48-5de2-bff0-ac1aaf03ea67"},
        {"PCI-0000:0e:00.0", "PCI-0000:0e:00.0"},
        {"a b", "a_20b"},
        {"a_b", "a_5fb"},
        {"a-", "a_2d"},
        {"-", "x_2d"},
        {".a", "x.a"},
        {"\xc3\xa4", "x_c3_a4"},
        {"", "x"},
    };
    for (unsigned i = 0; i < GT_COUNT(ids); i++) {
        gt_auto_buf struct gt_buf name = GT_BUF(256);
        gt_cdi_name_add(&name, ids[i][0]);
        assert_string_equal(name.data, ids[i][1]);
    }
}

/* ---- the file ---- */

struct host {
    char root[64], dev[96], dir[96], path[160];
    struct gt_cdi *cdi;
};

static void touch(const struct host *host, const char *name, bool there)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s", host->dev, name);
    if (there)
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    else
        unlink(path);
}

static void touch_gpu(const struct host *host, unsigned number, bool there)
{
    char name[32];
    snprintf(name, sizeof(name), "dri/card%u", number);
    touch(host, name, there);
    snprintf(name, sizeof(name), "dri/renderD%u", 128 + number);
    touch(host, name, there);
}

static int make_host(void **state)
{
    static struct host host;
    char path[128];
    snprintf(host.root, sizeof(host.root), "/tmp/gputopo-cdi-XXXXXX");
    if (!mkdtemp(host.root))
        return -1;
    snprintf(host.dev, sizeof(host.dev), "%s/dev", host.root);
    snprintf(host.dir, sizeof(host.dir), "%s/cdi", host.root);
    snprintf(host.path, sizeof(host.path), "%s/%s", host.dir, file_name);
    snprintf(path, sizeof(path), "%s/dri", host.dev);
    if (mkdir(host.dev, 0755) < 0 || mkdir(path, 0755) < 0)
        return -1;
    touch(&host, "mxcd", true);
    for (unsigned i = 0; i < 4; i++)
        touch_gpu(&host, i, true);
    static char dev_root[100];
    snprintf(dev_root, sizeof(dev_root), "%s/", host.dev); /* as people write it */
    const struct gt_cdi_options options = {host.dir, "metax-tech.com/gpu", dev_root};
    *state = &host;
    return gt_cdi_new(&options, &host.cdi, NULL);
}

static int remove_host(void **state)
{
    struct host *host = *state;
    char path[128];
    gt_cdi_free(host->cdi);
    touch(host, "mxcd", false);
    touch(host, "mxgd", false);
    for (unsigned i = 0; i < 5; i++)
        touch_gpu(host, i, false);
    snprintf(path, sizeof(path), "%s/dri", host->dev);
    rmdir(path);
    rmdir(host->dev);
    unlink(host->path);
    rmdir(host->path);
    rmdir(host->dir);
    return rmdir(host->root);
}

static char *content(const struct host *host)
{
    char *data = NULL;
    return gt_file_read(AT_FDCWD, host->path, GT_CDI_SPEC_MAX, &data, NULL, NULL) < 0 ? NULL : data;
}

static bool says(const struct host *host, const char *part)
{
    gt_auto_free char *data = content(host);
    return data && strstr(data, part);
}

static ino_t inode(const struct host *host)
{
    struct stat st;
    return stat(host->path, &st) < 0 ? 0 : st.st_ino;
}

static uint64_t writes(const struct host *host)
{
    struct gt_cdi_stats stats;
    gt_cdi_stats(host->cdi, &stats);
    return stats.writes;
}

static void follows_the_host(void **state)
{
    const struct host *host = *state;
    gt_auto_inventory struct gt_inventory *four = machine_inventory(machine_new(4, 0), NULL);
    gt_auto_inventory struct gt_inventory *three = machine_inventory(machine_new(3, 0), four);
    struct stat st;
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0); /* it makes the directory, too */
    assert_int_equal(stat(host->path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_true(says(host, "GPU-0") && says(host, "GPU-3") && !says(host, "mxgd"));
    ino_t first = inode(host);
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    assert_int_equal(writes(host), 1); /* nothing has changed */
    assert_true(inode(host) == first);

    touch(host, "mxgd", true);
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    assert_true(says(host, "/dev/mxgd"));
    touch(host, "dri/card1", false); /* that GPU cannot be given, the others can */
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    assert_true(!says(host, "GPU-1") && says(host, "GPU-2"));
    touch(host, "dri/card1", true);
    assert_int_equal(gt_cdi_refresh(host->cdi, three, NULL), 0); /* one is lost */
    assert_true(says(host, "GPU-1") && !says(host, "GPU-3"));

    struct gt_node *node = machine_new(4, 0);
    node->gpus[0].drm_card = 3; /* the kernel has numbered them again */
    node->gpus[3].drm_card = 0;
    node->gpus[3].health = GT_GPU_UNHEALTHY; /* whoever has it may be restarted */
    gt_auto_inventory struct gt_inventory *swapped = machine_inventory(node, four);
    assert_int_equal(gt_cdi_refresh(host->cdi, swapped, NULL), 0);
    gt_auto_free char *data = content(host);
    assert_true(strstr(data, "card3") < strstr(data, "GPU-1") &&
                strstr(data, "card0") > strstr(data, "GPU-3"));

    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0); /* an Allocate still has that of before */
    gt_auto_free char *after = content(host);
    assert_string_equal(after, data);

    touch(host, "mxcd", false); /* the driver is gone: none can be given */
    assert_int_equal(gt_cdi_refresh(host->cdi, swapped, NULL), 0);
    assert_false(gt_cdi_exists(host->cdi));
    touch(host, "mxcd", true);
    assert_int_equal(gt_cdi_refresh(host->cdi, swapped, NULL), 0);
    assert_true(gt_cdi_exists(host->cdi));
    assert_int_equal(gt_cdi_remove(host->cdi, NULL), 0);
    assert_int_equal(gt_cdi_remove(host->cdi, NULL), 0);
    assert_false(gt_cdi_exists(host->cdi));
}

static void rights_what_others_did(void **state)
{
    const struct host *host = *state;
    gt_auto_inventory struct gt_inventory *four = machine_inventory(machine_new(4, 0), NULL);
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    gt_auto_free char *good = content(host);
    for (unsigned how = 0; how < 4; how++) {
        if (how == 0)
            unlink(host->path);
        else if (how == 1)
            assert_int_equal(truncate(host->path, 3), 0);
        else if (how == 2)
            assert_int_equal(gt_file_write(host->path, "{}", 2, 0644, NULL), 0);
        else {
            unlink(host->path);
            assert_int_equal(symlink("/dev/null", host->path), 0);
            gt_auto_err struct gt_err *err = NULL; /* nothing is written through a link of somebody else's */
            assert_int_equal(gt_cdi_refresh(host->cdi, four, &err), -EEXIST);
            unlink(host->path);
        }
        assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
        gt_auto_free char *now = content(host);
        assert_string_equal(now, good);
    }
    uint64_t before = writes(host);
    struct gt_cdi *second = NULL; /* as after a restart of the agent: what is right stays as it is */
    const struct gt_cdi_options options = {host->dir, "metax-tech.com/gpu", host->dev};
    ino_t same = inode(host);
    char cut_off[200], foreign[200];
    snprintf(cut_off, sizeof(cut_off), "%s.aB3xZ9", host->path);
    snprintf(foreign, sizeof(foreign), "%s/other.json", host->dir);
    assert_int_equal(gt_file_write(cut_off, "{", 1, 0600, NULL), 0);
    assert_int_equal(gt_file_write(foreign, "{", 1, 0600, NULL), 0);
    assert_int_equal(gt_cdi_new(&options, &second, NULL), 0);
    assert_int_equal(access(cut_off, F_OK), 0); /* another instance may be writing it */
    gt_cdi_free(second);
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, cut_off, times, 0), 0);
    assert_int_equal(gt_cdi_new(&options, &second, NULL), 0);
    assert_int_equal(access(cut_off, F_OK), -1);
    assert_int_equal(access(foreign, F_OK), 0);
    unlink(foreign);
    assert_int_equal(gt_cdi_refresh(second, four, NULL), 0);
    assert_true(inode(host) == same);
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    assert_int_equal(writes(host), before);
    gt_cdi_free(second);
}

struct refreshing {
    const struct host *host;
    const struct gt_inventory *inventory;
    pthread_barrier_t start;
};

static void *refresh_in_a_thread(void *arg)
{
    struct refreshing *refreshing = arg;
    pthread_barrier_wait(&refreshing->start);
    gt_cdi_refresh(refreshing->host->cdi, refreshing->inventory, NULL);
    return NULL;
}

/* The newest data is written last: what an Allocate read earlier does not replace what a scan read later. */
static void two_threads_write_what_the_later_saw(void **state)
{
    enum { ROUNDS = 2000 };
    const struct host *host = *state;
    gt_auto_inventory struct gt_inventory *many = machine_inventory(machine_new(GT_GPUS_MAX, 0), NULL);
    struct refreshing refreshing = {.host = host, .inventory = many};
    unsigned stale = 0;
    assert_int_equal(pthread_barrier_init(&refreshing.start, NULL, 2), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        touch(host, "dri/card0", true);
        assert_int_equal(pthread_create(&thread, NULL, refresh_in_a_thread, &refreshing), 0);
        pthread_barrier_wait(&refreshing.start);
        touch(host, "dri/card0", false);
        assert_int_equal(gt_cdi_refresh(host->cdi, many, NULL), 0);
        pthread_join(thread, NULL);
        stale += says(host, "GPU-0\"");
    }
    pthread_barrier_destroy(&refreshing.start);
    touch(host, "dri/card0", true);
    assert_int_equal(stale, 0);
}

static void says_why_it_cannot_write(void **state)
{
    const struct host *host = *state;
    gt_auto_inventory struct gt_inventory *four = machine_inventory(machine_new(4, 0), NULL);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_cdi_stats stats;
    assert_int_equal(gt_file_write(host->dir, "", 0, 0600, NULL),
                     0); /* a file where the directory should be */
    assert_true(gt_cdi_refresh(host->cdi, four, &err) < 0);
    assert_non_null(strstr(gt_err_text(err), host->dir));
    gt_cdi_stats(host->cdi, &stats);
    assert_false(stats.current);
    assert_int_equal(stats.failures, 1);
    unlink(host->dir);
    assert_int_equal(gt_cdi_refresh(host->cdi, four, NULL), 0);
    gt_cdi_stats(host->cdi, &stats);
    assert_true(stats.current);
}

static void checks_its_options(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"metax-tech.com/1gpu", "/dev"},
        {"gpu", "/dev"},
        {"", "/dev"},
        {"/b", "/dev"},
        {"a/", "/dev"},
        {"a/b/c", "/dev"},
        {"a b/c", "/dev"},
        {"a-/b", "/dev"},
        {"a/b-", "/dev"},
        {"-a/b", "/dev"},
        {"a/b:c", "/dev"},
        {"a/b", "dev"},
        {"a/b", "/x/../dev"},
        {"a/b", ""},
        {"a/b", "/"},
        {"a/b", "/dev//x"},
        {"a/b", "/dev/./x"},
        {"a/b", "/x/.."},
    };
    static const char *const good[][2] = {{"metax-tech.com/gpu", "/dev"}, {"a_b.c/d", "/dev/x/"}};
    for (unsigned i = 0; i < GT_COUNT(good); i++)
        assert_int_equal(gt_cdi_check(&(struct gt_cdi_options){"/nowhere", good[i][0], good[i][1]}, NULL), 0);
    for (unsigned i = 0; i < GT_COUNT(bad); i++) {
        const struct gt_cdi_options options = {"/nowhere", bad[i][0], bad[i][1]};
        struct gt_cdi *cdi = NULL;
        assert_int_equal(gt_cdi_check(&options, NULL), -EINVAL);
        assert_int_equal(gt_cdi_new(&options, &cdi, NULL), -EINVAL);
        assert_null(cdi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_it_was_given),
        cmocka_unit_test(names_any_id),
        cmocka_unit_test_setup_teardown(follows_the_host, make_host, remove_host),
        cmocka_unit_test_setup_teardown(rights_what_others_did, make_host, remove_host),
        cmocka_unit_test_setup_teardown(two_threads_write_what_the_later_saw, make_host, remove_host),
        cmocka_unit_test_setup_teardown(says_why_it_cannot_write, make_host, remove_host),
        cmocka_unit_test(checks_its_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
