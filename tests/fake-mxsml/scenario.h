/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The scenario file named by $GPUTOPO_FAKE_MXSML (README.md). One lock protects all of it. */

enum fault { FAULT_NONE, FAULT_CODE, FAULT_GARBAGE, FAULT_UNTERMINATED, FAULT_WRONG_SIZE };

/* Reads the file again when it has changed since, or when `always`. */
void scenario_refresh(bool always);

/* The object of a device, NULL if there is none; the number of devices. */
const cJSON *scenario_device(unsigned device);
unsigned scenario_devices(void);
const cJSON *scenario_root(void);

double scenario_number(const cJSON *object, const char *key, double otherwise);
const char *scenario_text(const cJSON *object, const char *key, const char *otherwise);

/*
 * The fault of this call; this counts as one use of it. For hangs and crashes the function does not return.
 * `device` -1: a call without one, `link` -1: one that names no link and no second device. *ret_code is the
 * code of FAULT_CODE.
 */
enum fault scenario_fault(const char *call, long device, long link, int *ret_code);

/* Removes the symbols that the scenario lists as missing from this library's symbol table. */
void scenario_hide_symbols(void);
