/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Measures how fast the JSON of one object is read; prints lines in the form that loss.sh describes. Returns
 * the exit code. */
int bench_json(const char *path);
