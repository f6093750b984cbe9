/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_HEALTH_FILE_H
#define GPUTOPO_AGENT_HEALTH_FILE_H

#include "base/buf.h"
#include "topology/model/health.h"

/*
 * A file with the unhealthy GPUs and the reasons, so that a restarted agent does not offer them before it has
 * checked them. It lies below the kubelet's device-plugins directory (the kubelet removes the plain files
 * there at its start, and no directories) and counts until the machine boots: `boot` is the kernel's boot ID.
 * docs/reference/health.md.
 */
struct gt_health_file {
    char *dir, *path;
    char boot[64];
    char *text; /* what was written or read last, "" for no file; NULL: not known */
};

/* With zeros in it a file is none, and reading and writing it do nothing. `root` as in gt_scan_options.
 * -ENOENT where the kernel's boot ID is not to be read. */
int gt_health_file_open(struct gt_health_file *file, const char *kubelet_dir, const char *root,
                        struct gt_err **err);
void gt_health_file_close(struct gt_health_file *file);

/*
 * Adds the GPUs of the file, as unhealthy, to `health`, which is empty. No file is no error, nor is one from
 * before the last boot. An error: it is invalid, or cannot be read; nothing was added then.
 */
int gt_health_file_read(struct gt_health_file *file, struct gt_health *health, uint64_t now_s,
                        struct gt_err **err);

/* Makes the file what `health` says, where it is not that already; without an unhealthy GPU there is none. */
int gt_health_file_write(struct gt_health_file *file, const struct gt_health *health, struct gt_err **err);

/* The same of a text; for tests. */
int gt_health_text_read(const char *text, size_t len, const char *boot, struct gt_health *health,
                        uint64_t now_s, struct gt_err **err);
void gt_health_text_write(const struct gt_health *health, const char *boot, struct gt_buf *to);

#endif
