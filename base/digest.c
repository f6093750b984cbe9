/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "base/backoff.h"

static uint64_t process_key[2];

static void draw_key(void)
{
    struct gt_jitter random;
    for (size_t i = 0; i < 2; i++) {
        gt_jitter_seed(&random);
        process_key[i] = random.state;
    }
}

uint64_t gt_digest_keyed(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw_key);
    return gt_siphash(process_key, text, strlen(text));
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4], unsigned rounds)
{
    while (rounds--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void digest_mix(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

uint64_t gt_siphash(const uint64_t key[2], const void *data, size_t len)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU, key[0] ^ 0x6c7967656e657261U,
                     key[1] ^ 0x7465646279746573U};
    const unsigned char *at = data;
    uint64_t word;
    size_t left = len;
    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        digest_mix(v, le64toh(word));
    }
    word = 0;
    memcpy(&word, at, left);
    digest_mix(v, le64toh(word) | (uint64_t)len << 56);
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t gt_digest_mix_text(uint64_t digest, const char *text)
{
    if (!text)
        return gt_digest_mix(digest, 1);
    size_t len = strlen(text);
    digest = gt_digest_mix(digest, (uint64_t)len << 8 | 2);
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, text + i, len - i < 8 ? len - i : 8);
        digest = gt_digest_mix(digest, word);
    }
    return digest;
}
