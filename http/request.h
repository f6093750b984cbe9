/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_HTTP_REQUEST_H
#define GPUTOPO_HTTP_REQUEST_H

#include <microhttpd.h>

#include "http/internal.h"

/* The callbacks of libmicrohttpd for one request, in their order; `http` is the server. */
void *gt_http_on_line(void *http, const char *uri, struct MHD_Connection *connection);
enum MHD_Result gt_http_on_request(void *http, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **state);
void gt_http_on_request_done(void *http, struct MHD_Connection *connection, void **state,
                             enum MHD_RequestTerminationCode code);

/* Frees what belongs to the current request. */
void gt_http_peer_reset(struct gt_http_peer *peer);

#endif
