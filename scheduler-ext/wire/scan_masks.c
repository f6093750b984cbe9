/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/scan_masks.h"

#include <endian.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif

/* Eight bytes at a time in a general register: works on every machine. */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bit of each byte, as eight bits. */
static inline uint64_t gather(uint64_t x)
{
    return ((x & EACH(0x80)) >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

/* The high bit of each byte that equals the given byte, without carries between bytes. */
static inline uint64_t equal(uint64_t x, uint8_t byte)
{
    x ^= EACH(byte);
    return ~(((x & EACH(0x7f)) + EACH(0x7f)) | x);
}

/* The high bit of each byte below `limit` (at most 0x80). */
static inline uint64_t below(uint64_t x, uint8_t limit)
{
    return ~(((x & EACH(0x7f)) + EACH(0x80U - limit)) | x);
}

static void masks_portable(const uint8_t *bytes, size_t blocks, struct gt_masks *to)
{
    for (; blocks; blocks--, to++) {
        struct gt_masks masks = {0};
        for (unsigned shift = 0; shift < 64; shift += 8, bytes += 8) {
            uint64_t x;
            memcpy(&x, bytes, 8);
            x = le64toh(x);
            uint64_t folded = x | EACH(0x20);
            masks.quote |= gather(equal(x, '"')) << shift;
            masks.backslash |= gather(equal(x, '\\')) << shift;
            masks.op |= gather(equal(folded, '{') | equal(folded, '}') | equal(x, ',') | equal(x, ':'))
                        << shift;
            masks.space |= gather(below(x, 0x21)) << shift;
            masks.control |= gather(below(x, 0x20)) << shift;
            masks.high |= gather(x) << shift;
        }
        *to = masks;
    }
}

#if HAVE_X86

static inline uint64_t bits16(__m128i v)
{
    return (uint16_t)_mm_movemask_epi8(v);
}

static void masks_sse2(const uint8_t *bytes, size_t blocks, struct gt_masks *to)
{
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), comma = _mm_set1_epi8(','),
                  colon = _mm_set1_epi8(':'), open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}'),
                  space = _mm_set1_epi8(0x20), control = _mm_set1_epi8(0x1f);
    for (; blocks; blocks--, to++) {
        struct gt_masks masks = {0};
        for (unsigned shift = 0; shift < 64; shift += 16, bytes += 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)bytes);
            __m128i folded = _mm_or_si128(v, space); /* [ and ] become { and } */
            __m128i op =
                _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close)),
                             _mm_or_si128(_mm_cmpeq_epi8(v, comma), _mm_cmpeq_epi8(v, colon)));
            masks.quote |= bits16(_mm_cmpeq_epi8(v, quote)) << shift;
            masks.backslash |= bits16(_mm_cmpeq_epi8(v, backslash)) << shift;
            masks.op |= bits16(op) << shift;
            masks.space |= bits16(_mm_cmpeq_epi8(_mm_min_epu8(v, space), v)) << shift;
            masks.control |= bits16(_mm_cmpeq_epi8(_mm_min_epu8(v, control), v)) << shift;
            masks.high |= bits16(v) << shift;
        }
        *to = masks;
    }
}

__attribute__((target("avx2"))) static inline uint64_t bits32(__m256i v)
{
    return (uint32_t)_mm256_movemask_epi8(v);
}

__attribute__((target("avx2"))) static void masks_avx2(const uint8_t *bytes, size_t blocks,
                                                       struct gt_masks *to)
{
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'),
                  comma = _mm256_set1_epi8(','), colon = _mm256_set1_epi8(':'), open = _mm256_set1_epi8('{'),
                  close = _mm256_set1_epi8('}'), space = _mm256_set1_epi8(0x20),
                  control = _mm256_set1_epi8(0x1f);
    for (; blocks; blocks--, to++) {
        struct gt_masks masks = {0};
        for (unsigned shift = 0; shift < 64; shift += 32, bytes += 32) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
            __m256i folded = _mm256_or_si256(v, space);
            __m256i op = _mm256_or_si256(
                _mm256_or_si256(_mm256_cmpeq_epi8(folded, open), _mm256_cmpeq_epi8(folded, close)),
                _mm256_or_si256(_mm256_cmpeq_epi8(v, comma), _mm256_cmpeq_epi8(v, colon)));
            masks.quote |= bits32(_mm256_cmpeq_epi8(v, quote)) << shift;
            masks.backslash |= bits32(_mm256_cmpeq_epi8(v, backslash)) << shift;
            masks.op |= bits32(op) << shift;
            masks.space |= bits32(_mm256_cmpeq_epi8(_mm256_min_epu8(v, space), v)) << shift;
            masks.control |= bits32(_mm256_cmpeq_epi8(_mm256_min_epu8(v, control), v)) << shift;
            masks.high |= bits32(v) << shift;
        }
        *to = masks;
    }
}

#endif

const struct gt_masks_variant *gt_masks_variants(void)
{
    static const struct gt_masks_variant ways[] = {
#if HAVE_X86
        {"avx2", masks_avx2},
        {"sse2", masks_sse2},
#endif
        {"portable", masks_portable},
        {0}
    };
#if HAVE_X86
    if (!__builtin_cpu_supports("avx2"))
        return ways + 1;
#endif
    return ways;
}
