/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_DIGEST_H
#define GPUTOPO_KUBE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * Of a text, with a key that each process draws for itself: who chooses names can neither fill one slot of a
 * table nor make two texts look alike. It means nothing to another process.
 */
uint64_t gt_index_digest(const char *text);

/* SipHash-2-4. */
uint64_t gt_siphash(const uint64_t key[2], const void *data, size_t len);

#endif
