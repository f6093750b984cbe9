/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "base/buf.h"
#include "topology/model/health.h"
#include "topology/model/isolation.h"

/*
 * A file with the unhealthy GPUs and the reasons, so that a restarted agent does not offer them before it has
 * checked them. It is in a directory below the kubelet's device-plugins directory (at its start the kubelet
 * removes plain files there, but no directories) and is valid until the next boot: `boot` is the kernel's
 * boot ID. See docs/reference/health.md.
 */
struct gt_health_file {
    char dir[PATH_MAX], path[PATH_MAX];
    char boot[64];
    char *text; /* the last content that was written or read, "" for no file; NULL: not known */
};

/* If a struct gt_health_file is all zeros, reading and writing do nothing. `root` as in gt_scan_options.
 * -ENOENT if the kernel's boot ID cannot be read. */
int gt_health_file_open(struct gt_health_file *file, const char *kubelet_dir, const char *root,
                        struct gt_err **err);
void gt_health_file_close(struct gt_health_file *file);

/*
 * Adds the GPUs of the file, as unhealthy, to `health`, which must be empty. A missing file, or one from
 * before the last boot, is no error. On an error the file is invalid or cannot be read, and nothing was
 * added.
 */
int gt_health_file_read(struct gt_health_file *file, struct gt_health *health, uint64_t now_s,
                        struct gt_err **err);

/* Writes `health` to the file if it has changed; without an unhealthy GPU the file is removed. */
int gt_health_file_write(struct gt_health_file *file, const struct gt_health *health, struct gt_err **err);

/* The same with a text; for tests. */
int gt_health_text_read(const char *text, size_t len, const char *boot, struct gt_health *health,
                        uint64_t now_s, struct gt_err **err);
void gt_health_text_write(const struct gt_health *health, const char *boot, struct gt_buf *to);

/* Who isolates. */
enum gt_isolation_source {
    GT_ISOLATED_BY_OBJECT, /* `spec.isolated` of the node's object */
    GT_ISOLATED_BY_FILES,  /* --fault-dir */
    GT_ISOLATED_BY_NODE,   /* --fault-conditions */
    GT_ISOLATED_BY_CHECK,  /* --admit-after-check */
    GT_ISOLATION_SOURCES,
};

/*
 * What a source isolates on this node, kept beside it: what the object and the Node said last holds over
 * restarts, reboots, and while the API server is away, what is held back over restarts. 1: read; 0: there is
 * no such file, `*ret` is untouched.
 */
int gt_isolation_file_read(const char *kubelet_dir, enum gt_isolation_source source,
                           struct gt_isolations *ret, struct gt_err **err);
/* Without isolations the file is removed. It waits for the disk: not for the thread of an event loop. */
int gt_isolation_file_write(const char *kubelet_dir, enum gt_isolation_source source,
                            const struct gt_isolations *isolations, struct gt_err **err);

/* Whether check-node has passed since the boot, of which `root` as in gt_scan_options tells; kept there, too.
 */
bool gt_admitted_file_is_current(const char *kubelet_dir, const char *root);
int gt_admitted_file_write(const char *kubelet_dir, const char *root, struct gt_err **err);
