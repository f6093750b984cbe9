/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Every harness defines this: it takes any bytes and returns 0, or aborts if something is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
