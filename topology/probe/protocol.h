/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The text that gputopo-probe and its clients exchange, without any I/O: both ends and the fuzzer read it
 * with these functions. It runs over a stream socket, in ASCII lines that end with a line feed.
 *
 * - `ping`: `ok 0 0`.
 * - `scan`: `ok LENGTH RESTARTS`, then a call log (docs/probe-protocol.md) of LENGTH bytes; RESTARTS counts
 *   the workers that were replaced.
 * - `health`: the same with the calls about health only.
 * - `watch`, with a datagram or sequenced-packet socket passed along (SCM_RIGHTS): `ok 0 0`. The probe then
 *   sends one byte to that socket for events of the library, at most once a second, without waiting.
 *
 * A refused request: error TEXT. There are at most 8 clients; a further one replaces the one that has been
 * idle longest and does not watch. A client is dropped at once for an invalid request, and after 5 s without
 * a request, with half a line, or when it does not read its answer.
 */
enum {
    GT_PROBE_REQUEST_MAX = 64,      /* bytes of one request line */
    GT_PROBE_HEADER_MAX = 256,      /* bytes of one reply line */
    GT_PROBE_DOCUMENT_MAX = 4 << 20 /* bytes of the document behind it */
};

enum gt_probe_request {
    GT_PROBE_INCOMPLETE, /* no whole line yet */
    GT_PROBE_PING,
    GT_PROBE_SCAN,
    GT_PROBE_HEALTH,
    GT_PROBE_WATCH,
    GT_PROBE_BAD, /* not a request, or a line beyond the limit: close the connection */
};

/* Reads the first line of what a client has sent; *ret_used is how many bytes the request took. */
enum gt_probe_request gt_probe_read_request(const char *data, size_t len, size_t *ret_used);

struct gt_probe_header {
    size_t length;     /* bytes of the document that follows */
    unsigned restarts; /* workers that were replaced for this answer */
    char error[200];   /* the probe's error; "": none */
};

/* Reads the reply line and returns its length in bytes; 0 if more bytes are needed, -EBADMSG if it is
 * invalid. */
int gt_probe_read_header(const char *data, size_t len, struct gt_probe_header *ret);
