/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The line, from 1, on which the value at `path` ("nodes[3].topology.links[2].a") begins in a JSON text that
 * gt_json_parse() has accepted. Where the path does not exist, the line of the last value on it that exists:
 * for a missing key, its object. "" is the document itself.
 */
unsigned gt_json_line(const char *text, size_t len, const char *path);
