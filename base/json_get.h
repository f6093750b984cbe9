/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

struct gt_err;

/*
 * Reads the members of a JSON object that somebody else wrote. If `object` is NULL or not an object, it has
 * no members. A member that is null counts as missing, as in the API server.
 */

/* The member; NULL if it is missing. */
const cJSON *gt_get(const cJSON *object, const char *key);

/* The member of a member, and so on: gt_get_at(pod, "metadata", "labels"). */
#define gt_get_at(object, ...) gt_get_at_((object), (const char *const[]){__VA_ARGS__, NULL})
const cJSON *gt_get_at_(const cJSON *object, const char *const *keys);

/* The first element of an array; the others follow as its `next`. NULL: it is empty, or no array. */
const cJSON *gt_first(const cJSON *array);

/* ---- here a wrong value counts as a missing one ---- */

/* The text, which belongs to the object; "" if the member is missing or not a text. */
const char *gt_get_string(const cJSON *object, const char *key);

/* Whether the value is a whole number from -2^53 to 2^53: in this range JSON numbers are exact. */
bool gt_json_is_int(const cJSON *value, int64_t *ret);

/* Whether the value is a whole number from 0 to max. */
bool gt_json_is_unsigned(const cJSON *value, uint64_t max, uint64_t *ret);

/*
 * ---- here a wrong value is an error ----
 * If the member is missing, *ret stays as it is; a wrong value is -EINVAL with the text
 * "SOURCE: PATH.KEY: ...".
 */
struct gt_at {
    const char *source;
    const char *path; /* of the object, "gpus[3]"; "" for the document */
    struct gt_err **err;
};

int gt_at_fail(const struct gt_at *at, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The type of a value for messages: "a string", "a number"... */
const char *gt_json_type(const cJSON *json);

/* Other programs may add members. One that is nearly a member that is missing, of those in `known` (names
 * with commas between), is an error: else its value would be passed over in silence. */
int gt_get_only_known(const struct gt_at *at, const cJSON *object, const char *known);

int gt_get_text(const struct gt_at *at, const cJSON *object, const char *key, char *ret, size_t size);
int gt_get_number(const struct gt_at *at, const cJSON *object, const char *key, double max, double *ret);
int gt_get_integer(const struct gt_at *at, const cJSON *object, const char *key, uint64_t max, uint64_t *ret);
/* The same into an int in which -1 means "unknown"; JSON has no form for -1. */
int gt_get_int(const struct gt_at *at, const cJSON *object, const char *key, int max, int *ret);
int gt_get_unsigned(const struct gt_at *at, const cJSON *object, const char *key, unsigned max,
                    unsigned *ret);
int gt_get_bool(const struct gt_at *at, const cJSON *object, const char *key, bool *ret);

/* An array of at most `max` members, or an object; *ret is NULL if the member is missing. */
int gt_get_array(const struct gt_at *at, const cJSON *object, const char *key, unsigned max,
                 const cJSON **ret, unsigned *ret_count);
int gt_get_object(const struct gt_at *at, const cJSON *object, const char *key, const cJSON **ret);

/* The text of an element of an array: a string of printable UTF-8 of less than `size` bytes. */
int gt_read_text(const struct gt_at *at, const char *key, const cJSON *value, char *ret, size_t size);
