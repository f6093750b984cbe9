/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_TESTS_FUZZ_H
#define GPUTOPO_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* What every harness defines: takes any bytes, returns 0, aborts where something is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
