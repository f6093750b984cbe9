/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

enum {
    THREADS = 4,
    PROCESSES = 200,
};

static void *trim_at_once(void *start)
{
    pthread_barrier_wait(start);
    gt_process_trim();
    return NULL;
}

/* Only the first call of a process is special, and only where a sanitizer's allocator stands in for glibc's.
 */
static void first_trims_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pthread_t threads[THREADS];
            pthread_barrier_t start;
            pthread_barrier_init(&start, NULL, THREADS);
            for (int t = 0; t < THREADS; t++)
                if (pthread_create(&threads[t], NULL, trim_at_once, &start) != 0)
                    _exit(1);
            for (int t = 0; t < THREADS; t++)
                pthread_join(threads[t], NULL);
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_trims_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
