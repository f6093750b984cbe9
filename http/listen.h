/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"

/* Reads "ADDRESS:PORT" as gt_http_new() documents it. *ret_any: no address was given; then IPv4 may be used
 * if the machine has no IPv6. -EINVAL for any other text. */
int gt_http_address(const char *text, struct sockaddr_storage *ret, bool *ret_any, struct gt_err **err);

/* A non-blocking listening TCP socket on that address; the caller closes it. */
int gt_http_listen(const char *text, int *ret_fd, unsigned *ret_port, struct gt_err **err);
