/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/* Call logs made by hand, for the reader's tests. */
struct vendor_log {
    char *text;
    size_t len, capacity;
    unsigned calls;
};

void log_begin(struct vendor_log *log);
/* `args` such as "0,1"; `rest` such as "\"rc\":0,\"value\":5". */
void log_call(struct vendor_log *log, const char *call, const char *args, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* DeviceInfo of an ordinary GPU at 0000:<0x0e+n>:00.0. */
void log_device(struct vendor_log *log, unsigned device);
void log_level(struct vendor_log *log, unsigned from, unsigned to, unsigned level);
void log_remote(struct vendor_log *log, unsigned device, unsigned link, int remote);
/* Ends the log; `more` follows "library", for example ",\"stopped\":\"x\"". */
void log_end(struct vendor_log *log, const char *more);
void log_done(struct vendor_log *log);

/* A node with `gpus` GPUs at those addresses, with nothing known about their paths. */
struct gt_node *log_node(unsigned gpus);

/* Whether the node's missing list has an entry with these parts. */
bool log_misses(const struct gt_node *node, const char *what, const char *why);
void log_print_missing(const struct gt_node *node);
