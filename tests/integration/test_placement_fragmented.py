#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Random fragmented clusters in the double of the API server, with --rebalance=evict: the waiting unit runs wherever brute
force finds moves for it, each evicted pod gets another place, and nobody leaves where there is no way.

The environment variable CLUSTERS says how many (8), SEED where to begin (0).
"""

import itertools
import os
import random
import sys
import threading
import time
import unittest

from daemon_driver import wait_for
from placement_case import PlacementCase
from placement_driver import gates, indexed_pod, planned_node

SUPERNODES, NODES = 3, 4


class Fragmented(PlacementCase):
    def fill(self, dice):
        """Jobs of one or two units of one or two whole nodes take the cluster; then some of them end."""
        self.world(SUPERNODES, NODES)
        self.units, self.pods, left = {}, {}, SUPERNODES * NODES
        self.lock = threading.Lock()
        while left:
            size = min(dice.choice((1, 1, 2, 2, 3)), left)
            units = 2 if dice.random() < 0.3 and left >= 2 * size else 1
            left -= size * units
            job = f"j{len(self.units)}"
            self.units[job] = [[f"{job}-{u * size + i}" for i in range(size)] for u in range(units)]
            movable = dice.random() < 0.5
            self.add_job(job, size * units, 8 * size)
            for rank in range(size * units):
                self.pods[f"{job}-{rank}"] = (job, rank, 8 * size, movable)
                self.add(f"{job}-{rank}", *self.pods[f"{job}-{rank}"])
        self.start(patience=200, retry=200, rebalance=2)
        names = list(self.pods)
        waits = [name for name in names if not wait_for(lambda n=name: gates(self.pod(n)) == [], 0.05)]
        if waits:  # the units did not fill the supernodes: those that wait are not there
            self.assertTrue(wait_for(lambda: all(gates(self.pod(n)) == [] or (self.condition(n) or {}).get("reason") == "NoSupernode"
                                                 for n in names)))
        for job in {self.pods[name][0] for name in names if gates(self.pod(name))}:
            self.drop(job)
        for name in self.pods:
            self.bind(name)

    def add(self, name, job, rank, group, movable):
        made = indexed_pod(job, rank, uid=f"uid-{job}", group=group)
        made["metadata"]["annotations"]["metax-tech.com/movable"] = "true" if movable else "false"
        made["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.add_pod(name, made)

    def drop(self, job):
        for name in [name for unit in self.units.pop(job) for name in unit]:
            self.pods.pop(name)
            if self.pod(name)["spec"].get("nodeName"):
                self.end(name)
            else:
                self.api.remove("/api/v1/namespaces/ns/pods", name)

    def place(self, names):
        return int(self.pod(names[0])["spec"]["nodeName"][1])

    def free_nodes(self):
        free = [NODES] * SUPERNODES
        for job in self.units.values():
            for unit in job:
                free[self.place(unit)] -= len(unit)
        return free

    def possible(self, size):
        """Whether some units can go to room that is free now, so that a unit of `size` nodes fits."""
        free = self.free_nodes()
        units = [(self.place(unit), len(unit)) for job, all_ in self.units.items() for unit in all_ if self.pods[all_[0][0]][3]]
        for where in itertools.product(range(-1, SUPERNODES), repeat=len(units)):
            room, gain = list(free), [0] * SUPERNODES
            for (home, nodes), to in zip(units, where):
                if to >= 0:
                    room[to] -= nodes
                    gain[home] += nodes
            if min(room) >= 0 and any(r + g >= size for r, g in zip(room, gain)):
                return True
        return False

    def play(self):
        """The owners and the kubelets: a pod that is deleted goes, and another one comes."""
        self.stop, self.came = threading.Event(), 0

        def run():
            while not self.stop.wait(0.03):
                for name in list(self.pods):
                    pod = self.pod(name)
                    if pod and "deletionTimestamp" in pod["metadata"]:
                        self.came += 1
                        new = f"{name.split('.')[0]}.{self.came}"
                        self.pods[new] = self.pods.pop(name)
                        self.add(new, *self.pods[new])
                        self.end(name)
                    elif pod and not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                        self.bind(name)
        self.player = threading.Thread(target=run, daemon=True)
        self.player.start()
        self.addCleanup(self.end_play)

    def end_play(self):
        self.stop.set()
        self.player.join()

    def check_cluster(self, seed):
        dice = random.Random(seed)
        self.fill(dice)
        jobs = sorted(self.units)
        dice.shuffle(jobs)
        size = dice.choice((2, 3, 4, 4))
        for job in jobs:  # until enough is free in all, and no supernode is
            free = self.free_nodes()
            if sum(free) < size and max(f + sum(len(u) for u in self.units[job] if self.place(u) == s) for s, f in enumerate(free)) < size:
                self.drop(job)
        free = self.free_nodes()
        if sum(free) < size or max(free) >= size:
            return None
        possible = self.possible(size)
        self.play()
        names = self.add_gang("w", size, 8 * size)
        if possible:
            self.assertTrue(wait_for(lambda: self.is_lifted(*names), 30), (seed, free, self.condition("w-0"), self.events()))
        else:
            self.assertTrue(wait_for(lambda: (self.condition("w-0") or {}).get("reason") == "NoSupernode"), (seed, free, self.condition("w-0")))
            time.sleep(1)
            self.assertEqual(self.api.evicted, [], seed)
        self.assertTrue(wait_for(lambda: all((self.pod(n) or {"spec": {}})["spec"].get("nodeName") for n in list(self.pods))),
                        (seed, self.api.evicted, self.events()))
        self.assertEqual(len(set(self.api.evicted)), len(self.api.evicted), seed)
        taken = [self.pod(n)["spec"]["nodeName"] for n in self.pods] + ([planned_node(self.pod(n)) for n in names] if possible else [])
        self.assertEqual(len(set(taken)), len(taken), seed)
        self.end_play()
        return possible, len(self.api.evicted)

    def test_clusters(self):
        wanted, seed, found = int(os.environ.get("CLUSTERS", 8)), int(os.environ.get("SEED", 0)), []
        while len(found) < wanted:
            self.begin_again()
            result = self.check_cluster(seed)
            found += [result] if result else []
            seed += 1
        fits = [moved for possible, moved in found if possible]
        print(f"{len(found)} clusters of {seed} tried: {len(fits)} with a way, {sum(fits)} pods moved; {len(found) - len(fits)} without",
              file=sys.stderr)
        self.assertGreater(sum(fits), len(fits))
        self.assertLess(len(fits), len(found))


if __name__ == "__main__":
    unittest.main()
