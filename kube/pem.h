/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* A PEM text as a file in memory: libcurl with GnuTLS accepts files only. */
struct gt_pem {
    int fd; /* -1: none */
    char path[32];
};

/* Does nothing if `data` is NULL. `name` is used in errors. */
int gt_pem_open(const char *data, const char *name, struct gt_pem *ret, struct gt_err **err);
void gt_pem_close(struct gt_pem *pem);
