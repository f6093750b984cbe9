/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_ACCOUNTS_H
#define GPUTOPO_PLACEMENT_ACCOUNTS_H

#include <stddef.h>
#include <stdint.h>

/*
 * What is promised to pods that do not exist, by namespace. A pod that exists is charged by the API server's
 * quota; a promise would be charged to nobody. No I/O, no clock.
 */
struct gt_account {
    uint64_t promised; /* GPUs, summed over the namespace's jobs */
    uint32_t jobs;
    char *namespace_;
};

struct gt_accounts {
    void *by_namespace; /* of search.h */
};

/* That of a job's namespace, its first `len` bytes; gt_account_leave() it. NULL: no memory. */
struct gt_account *gt_account_join(struct gt_accounts *accounts, const char *namespace_, size_t len);
void gt_account_leave(struct gt_accounts *accounts, struct gt_account *account);

#endif
