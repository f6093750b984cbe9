/* SPDX-License-Identifier: Apache-2.0 */
#include "base/version.h"

#include "commit.h" /* made by cmake/commit.cmake at every build */

const char *const gt_version = GPUTOPO_VERSION;
const char *const gt_commit = GPUTOPO_COMMIT;
