/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json_get.h"
#include "topology/model/measured.h"

/*
 * Values as a file tells them, or `spec` of a NodeGPUTopology:
 *
 *     {"version": 1, "measured": [{"link": [0, 1], "bandwidthGBps": 21.5, "by": "p2p test", "at":
 * "2026-11-29T09:00:00Z"}]}
 *
 * Adds the entries to *to. Those that cannot be used are left out, with a sentence each for `note`. Those
 * that have ended (`until`, or GT_MEASURED_AGE_S after `at`) are left out without one. *again_s: when the
 * first of those added ends, or one of the future begins; 0 before and after: never.
 */
struct gt_measured_reader {
    struct gt_measured *to;
    int64_t now_s, again_s;
    void (*note)(void *arg, const char *why);
    void *arg;
};

/* -EINVAL: no such file. */
int gt_measured_read_file(const cJSON *file, const char *source, struct gt_measured_reader *reader,
                          struct gt_err **err);

/* The `spec` of an object that has values; else NULL. */
const cJSON *gt_measured_spec(const cJSON *object);

/* -EINVAL: its list cannot be read. */
int gt_measured_read_spec(const cJSON *spec, const char *source, struct gt_measured_reader *reader,
                          struct gt_err **err);

/*
 * A row of the table that the vendor's `mxvs p2p` prints, between two GPUs by the vendor's numbers, a < b:
 *     DEVICE1  DEVICE2  TOPOLOGY  SIZE(B)  EFFECTIVE BANDWIDTH  RAW BANDWIDTH  DELAY (us)  VALIDATION
 *     GPU#0    GPU#1    metaxlink 7516192768  50.74 GB/s  63.58 GB/s  137958.24  PASS
 */
struct gt_mxvs_row {
    unsigned a, b;
    bool direct, passed; /* direct: by MetaXLink */
    uint64_t bytes;
    double gbps, raw_gbps;
};

/* Ends the line where it is, and returns the next one, NULL after the last: a row may follow a progress that
 * it writes over. */
char *gt_mxvs_line_end(char *line);

/* 1: it is a row; 0: it is none; -EINVAL: it begins like one. Changes the line. */
int gt_mxvs_row_read(char *line, struct gt_mxvs_row *to);

/*
 * What the vendor's `mxvs p2p` prints, measured at `at_s`: of each pair the lower of both directions, of
 * several sizes the largest. It is the raw bandwidth, which is what nominal values are, too. -EINVAL: it is
 * something else.
 */
int gt_measured_read_mxvs(const char *text, const char *source, int64_t at_s,
                          struct gt_measured_reader *reader, struct gt_err **err);
