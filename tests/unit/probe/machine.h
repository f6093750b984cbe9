/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "topology/model/node.h"
#include "topology/probe/client.h"

/*
 * A directory that is used as the root of a machine: opt/mxdriver/lib/libmxsml.so is the fake library, its
 * scenario is `scenario`, and `probe` starts the real gputopo-probe.
 */
struct machine {
    char dir[64], scenario[96], probe[96], library[128], socket[96];
    struct gt_probe_client *client; /* freed by machine_done() */
};

/* Limits. On a busy machine a call that does not hang may take long, so limits are long unless a call hangs.
 */
enum { CALL_MS = 10000, SCAN_MS = 20000, PATIENCE_MS = 60000 };
#define SOON_HANGS "--call-timeout 1500"

/* `options` are put into the command line of the probe. */
void machine_new(struct machine *machine, const char *options);
/* Asserts that no process of this machine is left, and that no sanitizer has reported an error. */
void machine_done(struct machine *machine);

/* Two meshes in a server of `gpus` GPUs (half of them each); `more` are further members of the scenario's
 * JSON, such as "\"faults\":[...]", or NULL. */
void machine_scenario(struct machine *machine, unsigned gpus, const char *more);
/* Replaces the library (by one from `directory` of the build tree), or removes it (NULL). */
void machine_library(struct machine *machine, const char *directory);
void machine_spawn(struct machine *machine);

/* One scan that must succeed; the caller frees the log. */
char *machine_scan(struct machine *machine);
/* The same, with the answers applied to a node of `gpus` GPUs. */
struct gt_node *machine_node(struct machine *machine, unsigned gpus, char **ret_log);

/* Processes of this machine by their name ("gputopo-probe", "gputopo-vendor", NULL: any); one of them in
 * *ret_pid. */
unsigned machine_processes(const struct machine *machine, const char *name, pid_t *ret_pid);
/* Waits until all of them, or those of that name, have ended; false if some do not. */
bool machine_gone(const struct machine *machine, const char *name);

long clock_ms(void);
void sleep_ms(long milliseconds);
bool misses(const struct gt_node *node, const char *what, const char *why);
