/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/informers.h"

#include "base/cleanup.h"
#include "base/prometheus.h"
#include "scheduler-ext/core/capacity.h"

/* A unit lies in one supernode; its pods have 8 GPUs, a smaller one is one pod. */

enum { UNIT_POD_SIZES = 4 };

struct unit_room {
    const struct gt_cluster *cluster;
    uint32_t *pods[UNIT_POD_SIZES]; /* [i][supernode] pods of 2^i GPUs that have room */
    uint64_t available, largest;    /* GPUs: available ones; all of the largest supernode */
};

static void room_done(struct unit_room *room)
{
    for (unsigned i = 0; i < UNIT_POD_SIZES; i++)
        free(room->pods[i]);
}

static int room_find(const struct gt_cluster *cluster, struct unit_room *to)
{
    gt_auto_free uint32_t *all = NULL;
    *to = (struct unit_room){.cluster = cluster};
    if (gt_capacity_empty(cluster, &(struct gt_empty_spec){.pod.gpus = 1}, &all, NULL) < 0)
        return -1;
    for (unsigned i = 0; i < UNIT_POD_SIZES; i++)
        if (gt_capacity_of(cluster, 1U << i, &to->pods[i], NULL) < 0)
            return -1;
    for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++) {
        to->available += to->pods[0][s];
        to->largest = all[s] > to->largest ? all[s] : to->largest;
    }
    return 0;
}

/* Units of 2^i GPUs that have room. */
static uint64_t fitting_units(const struct unit_room *room, unsigned i)
{
    unsigned of = i < UNIT_POD_SIZES ? i : UNIT_POD_SIZES - 1;
    uint64_t units = 0;
    for (uint32_t s = 0; s < gt_cluster_supernodes(room->cluster); s++)
        units += room->pods[of][s] >> (i - of);
    return units;
}

static void write_room(const struct unit_room *room, struct gt_buf *to)
{
    enum { LEAST = 3, MOST = 7 }; /* units of 8 to 128 GPUs */
    static const char share[] = "gputopo_fragmentation_ratio", units[] = "gputopo_fitting_units";
    if (room->available)
        gt_prom_head(to, share, "Share of the available GPUs that no unit of so many GPUs could use.");
    for (unsigned i = LEAST; room->available && i <= MOST; i++)
        gt_buf_printf(to, "%s{unit=\"%u\"} %.6f\n", share, 1U << i,
                      1 - (double)(fitting_units(room, i) << i) / (double)room->available);
    gt_prom_head(to, units, "Units of so many GPUs that fit now, each in one supernode.");
    for (unsigned i = 0; UINT64_C(1) << i <= room->largest; i++)
        gt_buf_printf(to, "%s{unit=\"%llu\"} %llu\n", units, 1ULL << i,
                      (unsigned long long)fitting_units(room, i));
}

void gt_room_metrics(const struct gt_cluster *cluster, struct gt_buf *to)
{
    __attribute__((cleanup(room_done))) struct unit_room room = {0};
    if (room_find(cluster, &room) == 0)
        write_room(&room, to);
}
