/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/socket.h>

#include "http/internal.h"

/* The connections of a server by client, and which of them is closed when there are too many. */

/* One address of clients: an IPv4 address, or the first 64 bits of an IPv6 address. */
struct gt_http_remote {
    struct gt_http_remote *next;
    uint64_t prefix;
    bool v6;
    unsigned references;
    unsigned connections; /* that are not shut down */
    size_t held;          /* of the budget */
};

/* Finds the client's address or adds it, with a reference for the caller; NULL without memory. */
struct gt_http_remote *gt_http_remote_get(struct gt_http *http, const struct sockaddr *address);
void gt_http_remote_put(struct gt_http *http, struct gt_http_remote *remote);

/* The connection to close first; NULL if all are serving a request. `remote`: only among its connections;
 * NULL: among all. */
struct gt_http_peer *gt_http_victim(struct gt_http *http, const struct gt_http_remote *remote);

/* How many more bytes of the budget the peer may take. */
size_t gt_http_headroom(const struct gt_http_peer *peer);
/* Sets how many bytes the peer holds now; false: that is too much, and the earlier number stays. */
bool gt_http_hold(struct gt_http_peer *peer, size_t bytes);

/* Shuts the socket down; the library notices and cleans up. It no longer counts. */
void gt_http_cut(struct gt_http_peer *peer);
