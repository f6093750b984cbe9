/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "scheduler-ext/wire/scan_state.h"

/* The characters that a backslash before them escapes. */
uint64_t gt_find_escaped(struct gt_scan *s, uint64_t backslash)
{
    uint64_t escaped = 0;
    unsigned at = 0;
    if (s->escaped) {
        escaped = 1;
        at = 1;
        s->escaped = false;
    }
    for (uint64_t left; (left = backslash & gt_bits_from(at));) {
        unsigned i = gt_bit_first(left);
        if (i == 63) {
            s->escaped = true;
            break;
        }
        escaped |= UINT64_C(1) << (i + 1);
        at = i + 2;
    }
    return escaped;
}

static uint64_t lowest(uint64_t bad, unsigned at)
{
    return at < 64 ? bad | UINT64_C(1) << at : bad;
}

/* Which escapes are wrong; a \u may reach into the next block. */
uint64_t gt_check_escapes(struct gt_scan *s, const uint8_t *p, uint64_t escaped)
{
    uint64_t bad = 0;
    for (unsigned i = 0; s->hex_left; i++, s->hex_left--)
        if (!gt_is_hex(p[i]))
            bad = lowest(bad, i);
    for (; escaped; escaped &= escaped - 1) {
        unsigned i = gt_bit_first(escaped);
        if (p[i] == '"' || p[i] == '\\')
            continue;
        if (!gt_is_escape(p[i])) {
            bad = lowest(bad, i);
        } else if (p[i] == 'u') {
            for (unsigned k = 1; k <= 4; k++) {
                if (i + k > 63) {
                    s->hex_left = (uint8_t)(5 - k);
                    break;
                }
                if (!gt_is_hex(p[i + k])) {
                    bad = lowest(bad, i + k);
                    break;
                }
            }
        }
    }
    return bad;
}

uint64_t gt_check_utf8(struct gt_scan *s, const uint8_t *p, uint64_t high)
{
    for (unsigned i = 0; i < GT_MASKS_BLOCK; i++) {
        if (!s->utf8.left) {
            if (!(high & gt_bits_from(i)))
                break;
            i = gt_bit_first(high & gt_bits_from(i));
        }
        if (!gt_utf8_step(&s->utf8, p[i]))
            return UINT64_C(1) << i;
    }
    return 0;
}

uint64_t gt_check_controls(const uint8_t *p, uint64_t control, uint64_t in_string)
{
    uint64_t bad = control & in_string;
    for (uint64_t left = control & ~in_string; left; left &= left - 1) {
        uint8_t c = p[gt_bit_first(left)];
        if (c != '\n' && c != '\r' && c != '\t')
            bad |= left & -left;
    }
    return bad;
}
