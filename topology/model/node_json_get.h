/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_MODEL_NODE_JSON_GET_H
#define GPUTOPO_MODEL_NODE_JSON_GET_H

#include <cjson/cJSON.h>

#include "topology/model/node.h"

/*
 * Typed reading of the members of a JSON object that somebody else wrote. A member that is missing or null
 * leaves *ret as it is; one that is wrong is -EINVAL with "SOURCE: PATH.KEY: ..." as text.
 */
struct gt_at {
    const char *source;
    const char *path; /* of the object, "gpus[3]"; "" for the document */
    struct gt_err **err;
};

int gt_at_fail(const struct gt_at *at, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "a string", "a number"...: what a value is. */
const char *gt_json_type(const cJSON *json);

/* The member; NULL where it is missing or null. */
const cJSON *gt_get(const cJSON *object, const char *key);

int gt_get_text(const struct gt_at *at, const cJSON *object, const char *key, char *ret, size_t size);
int gt_get_number(const struct gt_at *at, const cJSON *object, const char *key, double max, double *ret);
int gt_get_integer(const struct gt_at *at, const cJSON *object, const char *key, uint64_t max, uint64_t *ret);
/* The same into an int, where -1 is "unknown" and has no form in JSON. */
int gt_get_int(const struct gt_at *at, const cJSON *object, const char *key, int max, int *ret);
int gt_get_unsigned(const struct gt_at *at, const cJSON *object, const char *key, unsigned max,
                    unsigned *ret);
int gt_get_bool(const struct gt_at *at, const cJSON *object, const char *key, bool *ret);
int gt_get_kind(const struct gt_at *at, const cJSON *object, const char *key, enum gt_link_kind *ret);
int gt_get_bdf(const struct gt_at *at, const cJSON *object, const char *key, char ret[static GT_BDF_SIZE]);

/* An array of at most max members, or an object; *ret is NULL where there is none. */
int gt_get_array(const struct gt_at *at, const cJSON *object, const char *key, unsigned max,
                 const cJSON **ret, unsigned *ret_count);
int gt_get_object(const struct gt_at *at, const cJSON *object, const char *key, const cJSON **ret);

/* The text of an element of an array: a string of printable UTF-8 below `size` bytes. */
int gt_read_text(const struct gt_at *at, const char *key, const cJSON *value, char *ret, size_t size);
int gt_read_kind(const struct gt_at *at, const char *key, const cJSON *value, enum gt_link_kind *ret);

#endif
