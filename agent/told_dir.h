/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "topology/model/isolation.h"
#include "topology/model/measured.h"

/*
 * Directories in which other programs tell the agent something: they and their files are root's, or of the
 * user that the agent runs as, and nobody else may write them.
 */

/* Faults: `*.json` (docs/reference/agent.md#faults). What a file said holds while the file is there: also if
 * it can then not be read, until it can. */

enum { GT_FAULT_FILES_MAX = 64 };

struct gt_fault_dir {
    struct gt_isolations told; /* of all files together */
    unsigned count;
    struct gt_fault_dir_file {
        char name[NAME_MAX + 1];
        uint64_t stamp;   /* of its state when it was last read */
        bool is_bad;      /* it could not be used then: it is tried again */
        unsigned entries; /* of `told`, in the files' order */
    } files[GT_FAULT_FILES_MAX];
    uint64_t said; /* digest of what was last said of the directory itself, 0: nothing */
};

/* Reads what has changed, and logs what is wrong, each once. Returns whether `told` is different then. */
bool gt_fault_dir_read(const char *path, struct gt_fault_dir *dir);

/* What programs have measured on this node: `*.json`, and `*.txt` as the vendor's test prints it. A file that
 * cannot be read says nothing. */
struct gt_measured_dir {
    struct gt_measured told; /* of all files together */
    uint64_t stamp;          /* of the files' state when they were last read */
    int64_t again_s;         /* when a value gets too old, or one of the future is due; 0: never */
    int64_t seen_s;          /* the time of the last call: it may be set back */
};

/* Reads all files if one has changed or the time says so, and logs what is wrong. Returns whether `told` is
 * different then. */
bool gt_measured_dir_read(const char *path, struct gt_measured_dir *dir);

/* Logs why a value is not used: a note of api/measured.h. */
void gt_measured_note(void *arg, const char *why);

/* What such programs tell, and what of it is held because it comes and goes. */
struct gt_told {
    struct gt_isolation_damper damper;
    struct gt_isolations in_use;
};

/* Returns whether `in_use` is different then. */
bool gt_told_settle(struct gt_told *told, const struct gt_flapping_rule *rule,
                    const struct gt_isolations *isolations);
