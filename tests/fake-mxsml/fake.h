/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/fake-mxsml/mxsml_fake.h"
#include "tests/fake-mxsml/scenario.h"

/* Every function first finds its fault and its device. */
struct entry {
    enum fault fault;
    int code; /* to be returned if there is no device, or if the fault is a code */
};

/* The device's object; a dummy for device -1; NULL: return entry->code. */
const cJSON *enter(const char *call, long device, struct entry *entry);
/* The same for a call about one link of the device, or about it and another device. */
const cJSON *enter_link(const char *call, long device, long link, struct entry *entry);

/* Write results, changed as the fault says. */
void put_text(const struct entry *entry, char *to, size_t size, const char *text);
u32 put_number(const struct entry *entry, u32 number);
enum result put_sized_text(const struct entry *entry, char *to, u32 *size, const char *text);

/* A top-level member of the scenario. */
const cJSON *list_of(const char *key);
