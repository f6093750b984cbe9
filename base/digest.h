/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Digests of bytes, texts and numbers. When to use which one: */

/*
 * FNV-1a of 64 bits: to see whether something has changed; the same in every process. It is not secure:
 * whoever chooses the bytes can make two digests equal.
 */
#define GT_DIGEST_EMPTY UINT64_C(0xcbf29ce484222325)

/* Adds a whole number at once; only adding a byte at a time is the standard FNV-1a. */
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

/*
 * SipHash-2-4 of a text, with a random key for each process: somebody who chooses names can neither fill one
 * slot of a table nor make two texts equal. Other processes compute other digests.
 */
uint64_t gt_digest_keyed(const char *text);

/* The same of any bytes, with the given key. */
uint64_t gt_siphash(const uint64_t key[2], const void *data, size_t len);

/*
 * A digest of texts and numbers, one after the other, eight bytes at a time: for tables that are read a
 * million times a second. Begin with a number that nobody can guess.
 */
static inline uint64_t gt_digest_mix(uint64_t digest, uint64_t number)
{
    digest = (digest ^ number) * UINT64_C(0xff51afd7ed558ccd);
    return digest ^ digest >> 32;
}
uint64_t gt_digest_mix_text(uint64_t digest, const char *text); /* NULL is not "" */

/* The part of a digest that a table uses as its hash. */
static inline uint32_t gt_digest_hash(uint64_t digest)
{
    return (uint32_t)(digest >> 32);
}

/* The keyed hash of an object's namespace and name. */
static inline uint32_t gt_digest_hash_of_name(const char *namespace_, const char *name)
{
    return gt_digest_hash(gt_digest_keyed(namespace_) * 31 + gt_digest_keyed(name));
}
