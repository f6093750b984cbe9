/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BENCH_KUBE_H
#define GPUTOPO_BENCH_KUBE_H

/* The JSON of one object, read again and again: measures in the form that loss.sh describes. The exit code.
 */
int bench_json(const char *path);

#endif
