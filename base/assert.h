/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>

/* What a header promises or asks for. A build for debugging, with sanitizers or for fuzzing aborts where it
 * does not hold. It is gone from release builds, so `condition` must have no effects. */
#ifdef NDEBUG
#define GT_ASSERT(condition) ((void)(0 && (condition)))
#else
#define GT_ASSERT(condition) assert(condition)
#endif
