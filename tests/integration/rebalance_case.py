# SPDX-License-Identifier: Apache-2.0
"""What the tests of moves have in common."""

import re
import threading
import time

from daemon_driver import wait_for
from placement_case import PlacementCase
from placement_driver import gates, indexed_pod, planned_node, pod_spec, replica

COMMAND = re.compile(r"kubectl annotate pod -n ns (\S+) metax-tech\.com/move-to=([^\s;]+)")


class RebalanceCase(PlacementCase):
    """The unit u of two nodes runs in one supernode, the pod v on one node of the other; w wants a whole one."""

    def begin(self, movable="true", u=2, unit=0, more=(), waiting=True, **options):
        self.world(2)
        self.more, self.unit = dict(more), unit or 8 * u
        self.names = [f"u-{rank}" for rank in range(u)]
        self.add_job("u", u, self.unit)
        self.movable = movable
        for rank, name in enumerate(self.names):
            self.add_pod(name, self.unit_pod(rank))
        self.start(**{"patience": 300, "retry": 200, **options})
        self.wait_lifted(*self.names)
        for name in self.names:
            self.bind(name)
        self.home = planned_node(self.pod("u-0"))[:2]
        self.other = {"s0": "s1", "s1": "s0"}[self.home]
        self.add_pod("v", {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on("v", f"{self.other}-n0", range(8))
        self.api.meddle, self.arm = self.arm or self.api.meddle, None
        if waiting:
            self.add_gang("w", 4, 32)

    arm = None  # what is to meddle from when w comes

    def unit_pod(self, rank):
        made = indexed_pod("u", rank, group=self.unit)
        made["metadata"]["annotations"].update({"metax-tech.com/movable": self.movable, **self.more})
        made["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if self.pool:
            made["spec"]["nodeSelector"] = self.pool
        if rank == self.never:
            made["metadata"]["annotations"]["metax-tech.com/slow-gpus"] = "never"
        return made

    never = None  # the rank whose template takes no slow GPUs
    pool = None  # the node selector of its pods

    def suggestion(self):
        return COMMAND.findall((self.condition("w-0") or {}).get("message", ""))

    def play(self):
        """The Job's controller and the kubelets: a pod that is deleted goes, and another one comes."""
        self.stop_playing()
        stop = threading.Event()

        def run():
            while not stop.wait(0.05):
                for rank, name in enumerate(list(self.names)):
                    pod = self.pod(name)
                    if pod and "deletionTimestamp" in pod["metadata"]:
                        self.names[rank] = f"u-{rank}-{int(time.monotonic() * 1000)}"
                        if self.pause:
                            self.end(name)
                            stop.wait(self.pause)
                        self.add_pod(self.names[rank], self.unit_pod(rank))
                        if not self.pause:
                            self.end(name)
                    elif pod and not gates(pod) and not pod["spec"].get("nodeName") and planned_node(pod):
                        self.bind(name)
                    elif pod and self.answers:
                        self.tell_done(name, self.asked(name))
        self.player = threading.Thread(target=run, daemon=True), stop
        self.addCleanup(self.stop_playing)
        self.player[0].start()

    def asked(self, name):
        return self.pod(name)["metadata"]["annotations"].get("metax-tech.com/checkpoint-asked")

    def tell_done(self, name, when):
        annotations = self.pod(name)["metadata"]["annotations"]
        if when and annotations.get("metax-tech.com/checkpoint-done") != when:
            self.change_pod(name, {"annotations": {**annotations, "metax-tech.com/checkpoint-done": when}})

    player = None
    answers = False  # whether its job tells at once that a checkpoint is written
    pause = 0  # seconds that the Job waits after a pod has gone before it makes the next one

    def stop_playing(self):
        if self.player:
            thread, stop = self.player
            stop.set()
            thread.join()
            self.player = None

    def ask(self, moves):
        for name, node in moves:
            self.change_pod(name, {"annotations": {**self.pod(name)["metadata"]["annotations"],
                                                   "metax-tech.com/move-to": node}})

    def check_moved(self, moves):
        """w has the supernode of u, u the nodes that were suggested, and each pod left once."""
        self.wait_lifted("w-0", "w-1", "w-2", "w-3")
        self.assertEqual({planned_node(self.pod(f"w-{i}"))[:2] for i in range(4)}, {self.home})
        self.assertTrue(wait_for(self.all_run))
        self.assertEqual(sorted(self.pod(n)["spec"]["nodeName"] for n in self.names), sorted(node for _, node in moves))
        self.assertEqual(sorted(self.api.evicted), sorted(name for name, _ in moves))

    def check_silent(self):
        """An Event would say it at once, the condition only later."""
        self.assertTrue(wait_for(lambda: (self.condition("w-0") or {}).get("reason") == "NoSupernode"))
        time.sleep(1.5)
        self.assertNotIn("MovesSuggested", [event["reason"] for event in self.events()])

    def moves(self):
        """The moves in the object of the waiting job."""
        return (self.status("job-w") or {}).get("moves", "")

    def reasons(self):
        return [event["reason"] for event in self.events()]

    def all_run(self):
        return all((self.pod(name) or {"spec": {}})["spec"].get("nodeName") for name in self.names)

    def check_evicted(self, *names):
        """w has the supernode of u, u two nodes of the other one, and each pod left once."""
        self.wait_lifted("w-0", "w-1", "w-2", "w-3")
        self.assertEqual({planned_node(self.pod(f"w-{i}"))[:2] for i in range(4)}, {self.home})
        self.assertTrue(wait_for(self.all_run))
        self.assertEqual({self.pod(n)["spec"]["nodeName"][:2] for n in self.names}, {self.other})
        self.assertEqual(sorted(self.api.evicted), sorted(names))

    def check_stopped(self, text):
        """It is said why, nobody has left, and no place is reserved any more."""
        self.assertTrue(wait_for(lambda: any(e["reason"] == "MovesStopped" and text in e["note"] for e in self.events())), self.events())
        self.assertTrue(wait_for(lambda: not self.moves()))
        self.assertTrue(wait_for(lambda: self.host.counters()["reservedGPUs"] == 0), self.host.counters())
        self.assertEqual(self.api.evicted, [])

    def required_pod(self, rank, **spec):
        made = indexed_pod("w", rank, group=8, **spec)
        made["metadata"]["annotations"]["metax-tech.com/job-topology"] = "required=supernode"
        return made

    def require_one_supernode(self, **options):
        """The waiting job has units of one pod each, and they must lie in one supernode."""
        self.begin(waiting=False, **options)
        self.add_job("w", 4, 8)
        for rank in range(4):
            self.add_pod(f"w-{rank}", self.required_pod(rank))

    def lone_pod(self, number, node=None):
        """A pod that may move, on this node, or on one of that supernode."""
        made = replica(f"x-{number}", uid=f"x{number}", gpus=8, gated=False)
        made["metadata"]["annotations"] = {"metax-tech.com/movable": "true"}
        self.add_pod(f"x-{number}", made)
        self.run_on(f"x-{number}", node or f"s{number}-n0", range(8))

    def occupy(self, name, node):
        self.add_pod(name, {"metadata": {}, "spec": pod_spec(8, False)})
        self.run_on(name, node, range(8))
