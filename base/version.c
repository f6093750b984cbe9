/* SPDX-License-Identifier: Apache-2.0 */
#include "base/version.h"

const char *const gt_version = GPUTOPO_VERSION;
const char *const gt_commit = GPUTOPO_COMMIT;
