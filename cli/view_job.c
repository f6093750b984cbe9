/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/view.h"

/* The letters of random suffixes of generated names; there are no vowels, unlike in words. */
static const char suffix_letters[] = "bcdfghjklmnpqrstvwxz2456789";
static const char *const roles[] = {"master", "worker", "launcher"};

/* The length without a suffix of "-" and `low` to `high` bytes of `letters`; the same length where there is
 * no such suffix. */
static size_t without(const char *name, size_t len, const char *messages, size_t low, size_t high)
{
    size_t n = 0;
    while (n < len && strchr(messages, name[len - 1 - n]))
        n++;
    if (n < low || n > high || len < n + 2 || name[len - 1 - n] != '-')
        return len;
    return len - n - 1;
}

static size_t without_role(const char *name, size_t len)
{
    for (size_t i = 0; i < GT_COUNT(roles); i++) {
        size_t n = strlen(roles[i]);
        if (len > n + 1 && name[len - 1 - n] == '-' && memcmp(name + len - n, roles[i], n) == 0)
            return len - n - 1;
    }
    return len;
}

void cli_job_of_pod(const char *pod, char *to, size_t size)
{
    static const char digits[] = "0123456789";
    size_t len = strlen(pod);
    /* A number of up to ten digits is an index; five characters that may be a random suffix or a number count
     * as a number. */
    size_t cut = without(pod, len, digits, 1, 10);
    if (cut == len) {
        cut = without(pod, len, suffix_letters, 5, 5);
        if (cut < len) {
            size_t set = without(pod, cut, suffix_letters, 8, 10); /* of a Deployment's ReplicaSet */
            cut = set < cut ? set : without(pod, cut, digits, 1, 10);
        }
    }
    if (cut < len)
        cut = without_role(pod, cut);
    if (cut >= size)
        cut = size - 1;
    memcpy(to, pod, cut);
    to[cut] = '\0';
}
