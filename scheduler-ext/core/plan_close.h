/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/core/plan_work.h"

/*
 * Closeness above the supernode. The rule of the cluster decides which kinds of supernodes the job takes: two
 * are of one kind when they have equally many slots, now and when empty. Which ones of a kind is free, and
 * decided here, so nothing is lost at tier 1: the job touches as few domains as possible of the highest tier,
 * then of the one below, and so on down. Of a job that one leaf holds the spines that were added first count
 * next, and in them the fewest available GPUs; of others the fewest available GPUs, the highest tier first.
 * Domains in which the job has pods already cost nothing.
 */

struct gt_close_place {
    uint32_t from, to; /* the supernode that the rule chose, and the one of its kind that is taken */
    uint32_t load;     /* units, or atoms of a split unit */
    uint32_t first;    /* scratch */
    uint32_t path[GT_TIERS_MAX]; /* of `to`: domains from the highest tier down */
};

/* Places a fresh unit in this supernode, or notes that it is to lie there, until gt_close_whole(). */
void gt_close_put(struct job *job, struct gt_plan_unit *unit, uint32_t super, const struct room *room);

/* Places the noted units of a kind; ranks follow the tree. */
void gt_close_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* Memory for places, valid until the next call or gt_close_whole(); NULL without memory. */
struct gt_close_place *gt_close_places(struct gt_cluster *cluster, uint32_t count);

/* Sets `to` of each place (with `from` and `load`), and sorts them along the tree. The slots are those before
 * the places are taken. `unit`: one that is split; for it, domains count where only other units
 * are. NULL: whole units. */
void gt_close_choose(struct job *job, const struct room *room, struct gt_close_place *places, uint32_t count,
                     const struct gt_plan_unit *unit);

/* A new mark for supernodes that have pods of a job, or of one unit. */
uint32_t gt_close_next_touch(struct gt_cluster *cluster);

/* Scratch memory that is kept for the next plan: 0 to 2. NULL without memory. */
void *gt_close_memory(struct gt_cluster *cluster, unsigned block, size_t size);
