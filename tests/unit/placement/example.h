/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

/* The first object of the file of that name in daemonset/examples, in lower case. Fails the test where there
 * is none. */
cJSON *example_of(const char *name);
