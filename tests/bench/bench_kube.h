/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BENCH_KUBE_H
#define GPUTOPO_BENCH_KUBE_H

/* Measures how fast the JSON of one object is read; prints lines in the form that loss.sh describes. Returns
 * the exit code. */
int bench_json(const char *path);

#endif
