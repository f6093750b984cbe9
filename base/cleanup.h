/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Variables that free what they own when they go out of scope. A type that is owned by pointer defines its
 * own cleanup beside its `_free`:
 *
 *     GT_DEFINE_CLEANUP(struct thing *, thing_free)
 *     #define gt_auto_thing GT_CLEANUP(thing_free)
 *
 *     gt_auto_thing struct thing *t = NULL;
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses */
#define GT_DEFINE_CLEANUP(type, function)                                                                    \
    static inline void function##_p(type *p)                                                                 \
    {                                                                                                        \
        if (*p)                                                                                              \
            function(*p);                                                                                    \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
#define GT_CLEANUP(function) __attribute__((cleanup(function##_p)))

static inline void gt_free_p(void *p)
{
    free(*(void **)p);
}
#define gt_auto_free __attribute__((cleanup(gt_free_p)))

static inline void gt_close_p(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
#define gt_auto_close __attribute__((cleanup(gt_close_p)))

GT_DEFINE_CLEANUP(FILE *, fclose)

GT_DEFINE_CLEANUP(DIR *, closedir)
#define gt_auto_dir GT_CLEANUP(closedir)

/* Takes the value out of such a variable, so that its cleanup does nothing. */
#define gt_steal(p)                                                                                          \
    __extension__({                                                                                          \
        __typeof__(p) taken_ = (p);                                                                          \
        (p) = NULL;                                                                                          \
        taken_;                                                                                              \
    })

static inline int gt_steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define GT_COUNT(array) (sizeof(array) / sizeof((array)[0]))
