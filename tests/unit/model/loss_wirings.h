/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_MODEL_LOSS_WIRINGS_H
#define TESTS_UNIT_MODEL_LOSS_WIRINGS_H

#include "tests/unit/seed.h"
#include "topology/model/loss.h"

/* Pair weights of wirings that exist or are possible. */

/* Groups of `size` GPUs, `near` within a group and `far` between groups. */
void wire_meshes(struct gt_weights *ret, unsigned n, unsigned size, uint16_t near, uint16_t far);
/* Eight GPUs, two quads with single and double links, joined crosswise; `far` where there is no link. */
void wire_cube_mesh(struct gt_weights *ret, uint16_t far);
void wire_ring(struct gt_weights *ret, unsigned n, uint16_t near, uint16_t far);
/* All GPUs have different weights. */
void wire_unequal(struct gt_weights *ret, unsigned n);
/* Random weights below `below`; changes the state. */
void wire_random(struct gt_weights *ret, unsigned n, uint32_t below, uint64_t *random);
void wire_set(struct gt_weights *weights, unsigned a, unsigned b, uint16_t w);

/* A pseudo-random number (splitmix64). */
uint64_t random_next(uint64_t *state);

#endif
