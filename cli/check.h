/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_CHECK_H
#define GPUTOPO_CLI_CHECK_H

#include "topology/discovery/facts.h"
#include "topology/probe/answers_log.h"

/*
 * The checks of `gputopo check-node`: what this project takes for granted about GPUs, driver and vendor
 * library without having seen them. Each looks at what one scan read; only those of device nodes look at the
 * machine itself.
 */

enum cli_verdict {
    CLI_UNCHECKED, /* it cannot be checked here, see `why` */
    CLI_HOLDS,
    CLI_BROKEN,
};

struct cli_check {
    const char *name, *assumed;
    enum cli_verdict verdict;
    char found[400]; /* "" nothing */
    char why[200];   /* of CLI_UNCHECKED */
};

struct cli_checks {
    unsigned count;
    struct cli_check list[48];
};

/* What is looked at. */
struct cli_checked {
    const struct gt_node *node;
    const struct gt_facts *facts;     /* of PCI and the kernel */
    const struct gt_answers *answers; /* of the vendor library, NULL: there are none */
    const char *no_answers;           /* why */
    const char *dev_root;             /* where the device nodes are, NULL: not of this machine */
    unsigned vendor;                  /* PCI vendor id of the GPUs */
    bool unprivileged;                /* the library was asked by a process without capabilities */
};

void cli_check_kernel(const struct cli_checked *of, struct cli_checks *to);
void cli_check_library(const struct cli_checked *of, struct cli_checks *to);
void cli_check_identity(const struct cli_checked *of, struct cli_checks *to);
void cli_check_links(const struct cli_checked *of, struct cli_checks *to);
void cli_check_health(const struct cli_checked *of, struct cli_checks *to);

/* For the files of checks. */

/* A new one, unchecked and without a reason. */
struct cli_check *cli_check_add(struct cli_checks *to, const char *name, const char *assumed);
/* Adds to what was found; pieces are separated by "; ". What has no room is cut. */
void cli_check_found(struct cli_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_check_evaluate(struct cli_check *check, bool holds);
void cli_check_cannot(struct cli_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next entry of this call in the log, with or without a value; *at begins at 0. NULL behind the last. */
const struct gt_answer *cli_check_next(const struct cli_checked *of, const char *call, unsigned *at);

/* Whether the call was answered at least once; else the check says that it cannot be made, and why. */
bool cli_check_answered(const struct cli_checked *of, const char *call, struct cli_check *check);

/* The node's GPU with this number of the library, -1 none. */
int cli_check_gpu(const struct cli_checked *of, unsigned vendor_number);

/* Texts and how often each was met. */
struct cli_tally {
    unsigned count, others; /* others: met when all places were taken */
    struct {
        char text[80];
        unsigned times;
    } of[10];
};
void cli_tally_add(struct cli_tally *tally, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "0a01 (8 times), 4001" */
void cli_check_found_tally(struct cli_check *check, const char *before, const struct cli_tally *tally);

#endif
