/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_BASE_DIGEST_H
#define GPUTOPO_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * FNV-1a of 64 bits: one number for what may have changed, the same in every process. No security: whoever
 * chooses the bytes can make two digests alike (kube/digest.h is for names that strangers choose).
 */
#define GT_DIGEST_EMPTY UINT64_C(0xcbf29ce484222325)

/* Takes in a whole number at once: a byte at a time is FNV-1a proper. */
static inline uint64_t gt_digest_number(uint64_t digest, uint64_t number)
{
    return (digest ^ number) * UINT64_C(0x100000001b3);
}

static inline uint64_t gt_digest_bytes(uint64_t digest, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        digest = gt_digest_number(digest, p[i]);
    return digest;
}

#endif
