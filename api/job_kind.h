/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kinds/list.h"

enum { GT_CUSTOM_KINDS_MAX = 8 };

#define GT_JOB_KIND(name, file) GT_JOB_##name,
enum gt_job_kind {
    GT_JOB_KIND_LIST(GT_JOB_KIND) GT_JOB_CUSTOM, /* the first of GT_CUSTOM_KINDS_MAX that users describe */
    GT_JOB_KINDS = GT_JOB_CUSTOM + GT_CUSTOM_KINDS_MAX, /* how many may have objects; also: none of them */
    GT_JOB_PODS,                                        /* pods that say themselves which job they form */
    GT_JOB_OWNED,     /* pods that are known by their controller alone, of any kind */
    GT_JOB_POD_GROUP, /* pods without a controller that name a PodGroup of Volcano */
    GT_JOB_POD,       /* a pod without either: a job by itself */
};
#undef GT_JOB_KIND
