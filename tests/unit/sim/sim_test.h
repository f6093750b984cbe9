/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/sim/group/engine.h"

/* A copy of a text that a reader may change; its memory ends with the NUL. */
static inline char *copy_text(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    return copy;
}

static inline struct gt_site *make_site(const char *shape)
{
    struct gt_site *site = NULL;
    assert_int_equal(gt_site_from_shape(shape, &site, NULL), 0);
    return site;
}
