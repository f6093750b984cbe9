/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/model/loss_wirings.h"

#include <stdlib.h>
#include <string.h>

void wire_set(struct gt_weights *weights, unsigned a, unsigned b, uint16_t w)
{
    weights->w[a][b] = weights->w[b][a] = w;
}

void wire_meshes(struct gt_weights *ret, unsigned n, unsigned size, uint16_t near, uint16_t far)
{
    memset(ret, 0, sizeof(*ret));
    ret->n = n;
    for (unsigned b = 0; b < n; b++)
        for (unsigned a = 0; a < b; a++)
            wire_set(ret, a, b, a / size == b / size ? near : far);
}

void wire_cube_mesh(struct gt_weights *ret, uint16_t far)
{
    static const unsigned links[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                        {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                        {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

    wire_meshes(ret, 8, 8, far, far);
    for (unsigned i = 0; i < GT_COUNT(links); i++)
        wire_set(ret, links[i][0], links[i][1], (uint16_t)(25 * links[i][2]));
}

void wire_ring(struct gt_weights *ret, unsigned n, uint16_t near, uint16_t far)
{
    wire_meshes(ret, n, n, far, far);
    for (unsigned a = 0; a < n; a++)
        wire_set(ret, a, (a + 1) % n, near);
}

void wire_unequal(struct gt_weights *ret, unsigned n)
{
    wire_meshes(ret, n, n, 0, 0);
    for (unsigned b = 0; b < n; b++)
        for (unsigned a = 0; a < b; a++)
            wire_set(ret, a, b, (uint16_t)(1 + (a * 37 + b * b * 11) % 101));
}

void wire_random(struct gt_weights *ret, unsigned n, uint32_t below, uint64_t *random)
{
    wire_meshes(ret, n, n, 0, 0);
    for (unsigned b = 0; b < n; b++)
        for (unsigned a = 0; a < b; a++)
            wire_set(ret, a, b, (uint16_t)(random_next(random) % below));
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
