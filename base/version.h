/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The release ("0.2.0"), and the commit that it was built from: 12 hexadecimal digits, followed by "-dirty"
 * if files were changed; "unknown" if the sources are neither a checkout nor from `git archive`. */
extern const char *const gt_version;
extern const char *const gt_commit;
