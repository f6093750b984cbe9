/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/accounts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int by_namespace(const void *a, const void *b)
{
    const struct gt_account *x = a, *y = b;
    return strcmp(x->namespace_, y->namespace_);
}

static void account_free(struct gt_account *account)
{
    free(account->namespace_);
    free(account);
}

struct gt_account *gt_account_join(struct gt_accounts *accounts, const char *namespace_, size_t len)
{
    struct gt_account *account = calloc(1, sizeof(*account));
    if (!account)
        return NULL;
    account->namespace_ = strndup(namespace_, len);
    struct gt_account **found =
        account->namespace_ ? tsearch(account, &accounts->by_namespace, by_namespace) : NULL;
    struct gt_account *kept = found ? *found : NULL;
    if (kept != account)
        account_free(account);
    if (kept)
        kept->jobs++;
    return kept;
}

void gt_account_leave(struct gt_accounts *accounts, struct gt_account *account)
{
    if (--account->jobs)
        return;
    tdelete(account, &accounts->by_namespace, by_namespace);
    account_free(account);
}
