/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_VERSION_H
#define GPUTOPO_BASE_VERSION_H

/* The release ("0.1.0") and the commit that it was configured from ("unknown" outside a checkout). */
extern const char *const gt_version;
extern const char *const gt_commit;

#endif
