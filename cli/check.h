/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/device_nodes.h"
#include "topology/discovery/facts.h"
#include "topology/probe/answers_log.h"

/*
 * The checks of `gputopo check-node`: what this project assumes about GPUs, driver and vendor library. Each
 * check reads the results of one scan; only those of device nodes and of the host read the machine itself.
 */

enum cli_verdict {
    CLI_UNCHECKED, /* it cannot be checked here: `why` says the reason */
    CLI_PASSED,
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
    struct cli_check list[64];
};

/* What the checks read; all borrowed. */
struct cli_checked {
    const struct gt_node *node;
    const struct gt_facts *facts;     /* of PCI and the kernel */
    const struct gt_answers *answers; /* of the vendor library; NULL: none, no_answers says why */
    const char *no_answers;           /* why */
    const char *root;                 /* the host's, "" this machine; NULL: as dev_root */
    const char *dev_root;             /* where the device nodes are; NULL: the scan is not of this machine */
    struct gt_device_nodes nodes;     /* of the driver, in dev_root */
    unsigned vendor;                  /* PCI vendor id of the GPUs */
    bool unprivileged;                /* the library was asked by a process without capabilities */
};

struct cli_check_rule {
    const char *name, *assumed;
    /* NULL: each value of the call is a number from `low` to `high`; `word` stands before it. */
    void (*judge)(const struct cli_checked *of, struct cli_check *check);
    const char *call; /* which the library must have answered; NULL: none */
    enum {
        CLI_CHECK_ALWAYS,
        CLI_CHECK_GPUS,
        CLI_CHECK_MACHINE
    } needs; /* a GPU; this machine, no recording */
    int64_t low, high;
    const char *word;
};
/* Each up to one without a name. */
extern const struct cli_check_rule cli_check_kernel[], cli_check_host[], cli_check_library[],
    cli_check_identity[], cli_check_links[], cli_check_health[];

/* --compute */
struct cli_compute {
    const char *command; /* for a shell; NULL: none */
    const char *fault_dir;
    unsigned seconds; /* for each GPU */
};
/* Runs the command for each GPU, one after the other, and writes those that fail as faults for the agent. */
int cli_check_compute(const struct cli_checked *checked, const struct cli_compute *compute,
                      struct cli_checks *to, struct gt_err **err);

/* --bandwidth: likewise the vendor's test of each pair of GPUs; `seconds` for each pair. */
int cli_check_bandwidth(const struct cli_checked *checked, const struct cli_compute *compute,
                        struct cli_checks *to, struct gt_err **err);

/* For the files that implement checks. */

/* Starts a test under timeout(1), with this output and nothing to read. `env` NULL: this process's own. Wait
 * for it with gt_child_end(), so much longer than `seconds`. */
enum { CLI_CHECK_LATE_MS = 5000 };
int cli_check_spawn(unsigned seconds, const char *const *command, const char *const *env, int out, pid_t *ret,
                    struct gt_err **err);

/* A file of faults for the agent, check-nodeNAME.json in this directory: begun, then one object a fault. With
 * `count` 0 the file of an earlier run is removed. */
void cli_check_faults_begin(struct gt_buf *faults);
int cli_check_faults_write(const char *dir, const char *name, struct gt_buf *faults, unsigned count,
                           struct gt_err **err);

/* Appends a check: CLI_UNCHECKED, without a reason. Texts are borrowed. */
struct cli_check *cli_check_add(struct cli_checks *to, const char *name, const char *assumed);
/* Appends to `found`, with "; " between the pieces. A text that is too long is cut. */
void cli_check_found(struct cli_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_check_evaluate(struct cli_check *check, bool passed);
void cli_check_cannot(struct cli_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next entry of this call in the log, with or without a value; *at is 0 at first. NULL after the last
 * one. */
const struct gt_answer *cli_check_next(const struct cli_checked *checked, const char *call, unsigned *at);
/* The next one with a value. */
const struct gt_answer *cli_check_value(const struct cli_checked *checked, const char *call, unsigned *at);

/* Whether the call was answered at least once; otherwise marks the check as unchecked and says why. */
bool cli_check_answered(const struct cli_checked *checked, const char *call, struct cli_check *check);

/* Whether there is a GPU; otherwise marks the check as unchecked and says so. */
bool cli_check_has_gpus(const struct cli_checked *checked, struct cli_check *check);

/* The index of the node's GPU that has this number in the library; -1: none. */
int cli_check_gpu(const struct cli_checked *checked, unsigned vendor_number);

/* Different texts and how often each occurred. */
struct cli_tally {
    unsigned count, others; /* others: texts that found no free entry in `of` */
    struct {
        char text[80];
        unsigned times;
    } of[10];
};
void cli_tally_add(struct cli_tally *tally, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "0a01 (8 times), 4001" */
void cli_check_found_tally(struct cli_check *check, const char *before, const struct cli_tally *tally);
