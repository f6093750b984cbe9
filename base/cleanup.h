/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Makes room for an element more in a list of `count`; `capacity` doubles, beginning with `first`. False: no
 * memory. */
#define GT_GROW(list, count, capacity, first)                                                                \
    __extension__({                                                                                          \
        bool grown_ = true;                                                                                  \
        if ((count) == (capacity)) {                                                                         \
            __typeof__(capacity) more_ = (capacity) ? 2 * (capacity) : (first);                              \
            void *longer_ = reallocarray((list), more_, sizeof(*(list)));                                    \
            grown_ = longer_ != NULL;                                                                        \
            (list) = grown_ ? longer_ : (list);                                                              \
            (capacity) = grown_ ? more_ : (capacity);                                                        \
        }                                                                                                    \
        grown_;                                                                                              \
    })

/* The first of these elements of which that member is this text; NULL: none. */
#define GT_FIND(list, count, member, text)                                                                   \
    __extension__({                                                                                          \
        size_t at_ = 0, count_ = (count);                                                                    \
        while (at_ < count_ && strcmp((list)[at_].member, (text)) != 0)                                      \
            at_++;                                                                                           \
        at_ < count_ ? &(list)[at_] : NULL;                                                                  \
    })

/* The place of a text among these; `count`: it is none of them. */
#define GT_PLACE_OF_TEXT(list, count, text)                                                                  \
    __extension__({                                                                                          \
        size_t at_ = 0, count_ = (count);                                                                    \
        while (at_ < count_ && strcmp((list)[at_], (text)) != 0)                                             \
            at_++;                                                                                           \
        at_;                                                                                                 \
    })
#define GT_HAS_TEXT(list, count, text) (GT_PLACE_OF_TEXT((list), (count), (text)) < (count))

/* How many of `count` elements in order stand before what is sought: `before` says so of the element `i`. */
#define GT_LOWER_BOUND(i, count, before)                                                                     \
    __extension__({                                                                                          \
        size_t low_ = 0, high_ = (count);                                                                    \
        while (low_ < high_) {                                                                               \
            size_t i = low_ + (high_ - low_) / 2;                                                            \
            if (before)                                                                                      \
                low_ = (i) + 1;                                                                              \
            else                                                                                             \
                high_ = (i);                                                                                 \
        }                                                                                                    \
        low_;                                                                                                \
    })

/* In a comparison for qsort(): returns from it where the two differ. */
#define GT_BY(a, b)                                                                                          \
    do {                                                                                                     \
        if ((a) != (b))                                                                                      \
            return (a) < (b) ? -1 : 1;                                                                       \
    } while (0)
