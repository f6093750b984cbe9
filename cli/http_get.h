/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"

/*
 * Asks one of our own daemons over plain HTTP: "GET path" at "ADDRESS:PORT" ("127.0.0.1:9400", "[::1]:9400",
 * "localhost:9400", a name). The body of an answer with status 200 is appended to `body`, up to its limit;
 * another status is -EBADMSG, with the first line of its body. -ETIMEDOUT where connecting and reading
 * together take longer than `timeout_ms`.
 */
int cli_http_get(const char *address, const char *path, unsigned timeout_ms, struct gt_buf *body,
                 struct gt_err **err);
