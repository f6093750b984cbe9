/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gputopo-file-XXXXXX");
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    gt_auto_dir DIR *dir = opendir(folder);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        unlinkat(dirfd(dir), entry->d_name, 0);
    return rmdir(folder);
}

static unsigned files_here(void)
{
    unsigned count = 0;
    gt_auto_dir DIR *dir = opendir(".");
    while (readdir(dir))
        count++;
    return count - 2;
}

static void whole_files(void **state)
{
    (void)state;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *big = malloc(100000), *data = NULL, *again = NULL, *empty = NULL;
    memset(big, 'b', 100000);
    size_t len = 0;
    assert_int_equal(gt_file_write("f", "a\0b", 3, 0640, &err), 0);
    assert_int_equal(gt_file_read(AT_FDCWD, "f", 3, &data, &len, &err), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(data, "a\0b", 4);
    struct stat st;
    assert_int_equal(stat("f", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(gt_file_write("f", big, 100000, 0600, &err), 0);
    assert_int_equal(gt_file_read(AT_FDCWD, "f", 100000, &again, &len, &err), 0);
    assert_int_equal(len, 100000);
    assert_memory_equal(again, big, 100000);
    assert_int_equal(gt_file_write("f", "", 0, 0600, &err), 0);
    assert_int_equal(gt_file_read(AT_FDCWD, "f", 0, &empty, NULL, &err), 0);
    assert_string_equal(empty, "");
    assert_int_equal(files_here(), 1); /* no temporary file stays */
}

static void refused(void **state)
{
    (void)state;
    char *data = NULL;
    gt_auto_err struct gt_err *large = NULL, *none = NULL, *dir = NULL, *no_dir = NULL, *is_dir = NULL;
    assert_int_equal(gt_file_write("g", "0123456789", 10, 0600, NULL), 0);
    assert_int_equal(gt_file_read(AT_FDCWD, "g", 9, &data, NULL, &large), -EFBIG);
    assert_string_equal(gt_err_text(large), "g: larger than the limit of 9 bytes");
    assert_int_equal(gt_file_read(AT_FDCWD, "nowhere", 9, &data, NULL, &none), -ENOENT);
    assert_string_equal(gt_err_text(none), "nowhere: No such file or directory");
    assert_int_equal(gt_file_read(AT_FDCWD, ".", 9, &data, NULL, &dir), -EISDIR);
    assert_null(data);
    assert_int_equal(gt_file_write("no/such/g", "x", 1, 0600, &no_dir), -ENOENT);
    assert_int_equal(gt_file_write(".", "x", 1, 0600, &is_dir), -EISDIR);
    /* A FIFO without a writer reads as empty and does not hang. */
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(gt_file_read(AT_FDCWD, "fifo", 9, &data, NULL, NULL), 0);
    assert_string_equal(data, "");
    free(data);
    assert_int_equal(gt_file_write("/dev/null", "x", 1, 0600, NULL), 0);
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode)); /* written to, not replaced */
}

static void attributes(void **state)
{
    (void)state;
    char text[8] = "before";
    gt_auto_close int fd = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(gt_file_write("attr", "0x9999\n", 7, 0600, NULL), 0);
    assert_int_equal(gt_file_read_attribute(fd, "attr", text, sizeof(text)), 6);
    assert_string_equal(text, "0x9999");
    assert_int_equal(gt_file_write("attr", " \n\t ", 4, 0600, NULL), 0);
    assert_int_equal(gt_file_read_attribute(fd, "attr", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(gt_file_write("attr", "0123456789", 10, 0600, NULL), 0);
    assert_int_equal(gt_file_read_attribute(fd, "attr", text, sizeof(text)), 7); /* cut */
    assert_string_equal(text, "0123456");
    assert_int_equal(gt_file_read_attribute(fd, "nowhere", text, sizeof(text)), -ENOENT);
    assert_int_equal(gt_file_read_attribute(fd, ".", text, sizeof(text)), -EISDIR);
}

static void touch(const char *name)
{
    gt_auto_close int fd = open(name, O_WRONLY | O_CREAT, 0600);
    assert_return_code(fd, errno);
}

/* What killed writers have left goes; nothing else does, nor what may be written now. */
static void leftovers(void **state)
{
    (void)state;
    static const char *const others[] = {"s.json",         "s.json.unreadable", "s.json.aB3-Z9",
                                         "s.json.aB3xZ9x", "s.jsonaB3xZ9.",     "t.json.aB3xZ9"};
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    gt_auto_free char *data = NULL;
    for (unsigned i = 0; i < GT_COUNT(others); i++)
        touch(others[i]);
    touch("s.json.aB3xZ9");
    touch("s.json.000000");
    assert_return_code(mkdir("s.json.abcdef", 0700), errno);
    assert_return_code(utimensat(AT_FDCWD, "s.json.000000", times, 0), errno);
    assert_int_equal(gt_file_sweep("s.json", 60), 1);
    assert_int_equal(access("s.json.aB3xZ9", F_OK), 0);
    gt_auto_free char *whole = NULL;
    assert_true(asprintf(&whole, "%s/s.json", folder) > 0);
    assert_int_equal(gt_file_sweep(whole, 0), 1);
    assert_int_equal(access("s.json.aB3xZ9", F_OK), -1);
    assert_return_code(rmdir("s.json.abcdef"), errno);
    for (unsigned i = 0; i < GT_COUNT(others); i++)
        assert_return_code(access(others[i], F_OK), errno);
    assert_int_equal(gt_file_sweep("no/such/s.json", 0), 0);
    assert_return_code(gt_file_write_durable("s.json", "ab", 2, 0600, NULL), 0);
    assert_return_code(gt_file_write_durable(whole, "abc", 3, 0600, NULL), 0);
    assert_return_code(gt_file_read(AT_FDCWD, "s.json", 9, &data, NULL, NULL), 0);
    assert_string_equal(data, "abc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_files), cmocka_unit_test(refused),
                                       cmocka_unit_test(attributes), cmocka_unit_test(leftovers)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
