/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology/probe/server.h"

/* The socket's mode, in a directory that others may write: nothing is done to the path after it is there. */

static unsigned chmods;

int chmod(const char *path, mode_t mode)
{
    (void)path;
    (void)mode;
    chmods++;
    errno = EPERM;
    return -1;
}

static void modes(void **state)
{
    static const struct {
        bool open;
        mode_t umask, mode;
    } cases[] = {{false, 0, 0600}, {false, 077, 0600}, {true, 0, 0666}, {true, 077, 0666}};
    (void)state;
    char dir[] = "/tmp/gputopo-listen-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/socket", dir);
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_close int fd = -1;
        struct stat st;
        mode_t before = umask(cases[i].umask);
        assert_int_equal(gt_server_listen(path, cases[i].open, &fd, NULL), 0);
        assert_int_equal(umask(before), cases[i].umask); /* as it was */
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISSOCK(st.st_mode));
        assert_int_equal(st.st_mode & 0777, cases[i].mode);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(chmods, 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
