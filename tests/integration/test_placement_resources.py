#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CPU, memory, pods and other resources of nodes: no plan where a pod could not run, whatever GPUs are free there.

Usage: test_placement_resources.py PLACEMENT_HOST [unittest arguments]
"""

import unittest

from daemon_driver import wait_for
from placement_case import PODS, TOPOLOGIES, PlacementCase
from placement_driver import GATE, RESOURCE, indexed_pod, node_status, planned_node, topology

LONG = 600000  # ms: what comes sooner comes of an event


class PlacementResourcesTest(PlacementCase):
    def room(self, node, **amounts):
        """What the node has besides GPUs; `_` stands for a dash in a name."""
        status = node_status()
        status["allocatable"].update({name.replace("_", "-"): amount for name, amount in amounts.items()})
        self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=status)

    def rooms(self, **amounts):
        for node in self.nodes:
            self.room(node, **amounts)

    def other(self, name, node, phase="Running", **requests):
        """A pod without GPUs on a node, as a DaemonSet's."""
        self.add_pod(name, {"metadata": {}, "spec": {"nodeName": node, "containers": [
            {"name": "main", "resources": {"requests": requests}}]}, "status": {"phase": phase}})

    def gang(self, name, pods, gpus=8, made=None, group=None, **requests):
        """An Indexed Job of one unit whose pods ask for that besides GPUs; the first `made` of them are there."""
        group = group or pods * gpus
        self.add_job(name, pods, group, gpus)
        names = [f"{name}-{i}" for i in range(pods)]
        for i, pod_name in enumerate(names[:made]):
            pod = indexed_pod(name, i, gpus=gpus, group=group)
            pod["spec"]["containers"][0]["resources"]["requests"] = {RESOURCE: str(gpus), **requests}
            self.add_pod(pod_name, pod)
        return names

    def wait_waits(self, name, reason, text):
        def is_so():
            job = self.host.job(f"ns/Job/{name}")
            return job.get("reason") == reason and text in job.get("text", "")
        self.assertTrue(wait_for(is_so), (self.host.job(f"ns/Job/{name}"), self.host.counters()))

    def nodes_of(self, names):
        return sorted(planned_node(self.pod(name)) for name in names)

    def test_a_feasible_node_stands_beside_a_full_one(self):
        """The best supernode by GPUs has one node whose CPUs a DaemonSet has."""
        self.world(2, nodes_each=2)
        self.rooms(cpu="64", memory="256Gi", pods="110")
        self.other("daemon", "s0-n1", cpu="60")
        self.start(retry=LONG)
        names = self.gang("job-a", 2, cpu="16")
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s1-n0", "s1-n1"])

    def test_who_lacks_cpus_waits_with_numbers_until_they_are_free(self):
        self.world(1, nodes_each=2)
        self.rooms(cpu="64", memory="256Gi", pods="110")
        self.other("a", "s0-n0", cpu="60")
        self.other("b", "s0-n1", memory="255Gi")
        self.start(retry=LONG)
        names = self.gang("job-a", 2, cpu="16", memory="64Gi")
        self.wait_waits("job-a", "TooFewResources",
                        "GPUs for it are free, on nodes with too little else; 1 node lacks CPU (a pod needs 16, at most 4 is free), "
                        "1 node lacks memory (a pod needs 64Gi, at most 1Gi is free)")
        self.api.remove(PODS, "a")
        self.wait_waits("job-a", "TooFewResources", "; 1 node lacks memory (a pod needs 64Gi, at most 1Gi is free)")
        self.other("b", "s0-n1", phase="Succeeded", memory="255Gi")
        self.wait_lifted(*names)

    def test_rdma_devices_beside_gpus(self):
        """Of a plugin of its own, such as MetaX's operator has: as many pods of a node as have such a device."""
        self.world(1, nodes_each=2)
        rdma = "rdma/roce_shared_devices"
        for node, devices in (("s0-n0", "1"), ("s0-n1", "2")):
            status = node_status()
            status["allocatable"][rdma] = devices
            self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=status)
        self.other("holder", "s0-n0", **{rdma: "1"})
        self.start(retry=LONG)
        names = self.gang("job-a", 2, gpus=2, group=4, **{rdma: "1"})
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s0-n1", "s0-n1"])
        others = self.gang("job-b", 1, gpus=1, **{rdma: "1"})
        self.wait_waits("job-b", "TooFewResources", f"2 nodes lack {rdma} (a pod needs 1, at most 0 is free)")
        self.api.remove(PODS, "holder")
        self.wait_lifted(*others)
        self.assertEqual(self.nodes_of(others), ["s0-n0"])

    def test_gpus_of_a_control_plane_node(self):
        """They are for pods that tolerate its taint."""
        self.world(1, nodes_each=2)
        control = "node-role.kubernetes.io/control-plane"
        self.api.add("/api/v1/nodes", "s0-n0", metadata={"labels": {"kubernetes.io/hostname": "s0-n0", control: ""}},
                     spec={"taints": [{"key": control, "effect": "NoSchedule"}]}, status=node_status())
        self.start(retry=LONG)
        plain = self.gang("job-a", 1, gpus=8)
        self.wait_lifted(*plain)
        self.assertEqual(self.nodes_of(plain), ["s0-n1"])
        self.gang("job-b", 1, gpus=8)
        self.wait_waits("job-b", "TooFewGPUs", "")
        self.add_job("job-c", 1, 8, 8)
        self.add_pod("job-c-0", indexed_pod("job-c", 0, gpus=8, group=8, tolerations=[{"key": control, "operator": "Exists"}]))
        self.wait_lifted("job-c-0")
        self.assertEqual(self.nodes_of(["job-c-0"]), ["s0-n0"])

    def offer(self, node, gpus):
        status = node_status()
        status["allocatable"][RESOURCE] = str(gpus)
        self.api.add("/api/v1/nodes", node, metadata={"labels": {"kubernetes.io/hostname": node}}, spec={}, status=status)

    def test_no_more_gpus_than_the_node_offers(self):
        """Its NodeGPUTopology shows 8 free ones; the scheduler would refuse the pod."""
        for offered in (0, 4):
            with self.subTest(offered=offered):
                self.world(1, nodes_each=1)
                self.offer("s0-n0", offered)
                self.start(retry=LONG)
                names = self.gang("job-a", 1, gpus=8)
                self.wait_waits("job-a", "TooFewResources",
                                f"1 node offers too few GPUs (of s0-n0's 8 GPUs {offered} are allocatable, {offered} of them free)")
                self.assertIsNone(planned_node(self.pod(names[0])))
                self.offer("s0-n0", 8)
                self.wait_lifted(*names)
                self.doCleanups()
                self.setUp()

    def test_a_node_that_offers_half_gets_pods_for_half(self):
        self.world(1, nodes_each=2)
        self.offer("s0-n0", 4)
        self.start(retry=LONG)
        names = self.gang("job-a", 3, gpus=4)
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s0-n0", "s0-n1", "s0-n1"])

    def test_a_report_of_an_earlier_machine_is_not_believed(self):
        """A node was removed and added again under its name; the garbage collector has not come yet."""
        self.world(1, nodes_each=1)
        def report(uid):
            self.api.add(TOPOLOGIES, "s0-n0", status=topology("s0-n0"), metadata={"ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "s0-n0", "uid": uid}]})
        report("uid-of-the-removed-one")
        self.start(retry=LONG)
        names = self.gang("job-a", 1, gpus=8)
        self.wait_waits("job-a", "TooFewGPUs",
                        "; the report of 1 node is not believed: written for an earlier Node of the same name")
        self.assertIsNone(planned_node(self.pod(names[0])))
        report(self.api.objects[self.api.place("/api/v1/nodes/x")[0], "s0-n0"]["metadata"]["uid"])
        self.wait_lifted(*names)

    def test_a_node_that_grows_wakes_who_waits(self):
        self.world(1, nodes_each=1)
        self.rooms(**{"cpu": "8", "example.com/nic": "0"})
        self.start(retry=LONG)
        names = self.gang("job-a", 1, **{"cpu": "4", "example.com/nic": "1"})
        self.wait_waits("job-a", "NeverFits", "no node has any example.com/nic, a pod asks for 1")
        self.rooms(**{"cpu": "8", "example.com/nic": "2"})
        self.wait_lifted(*names)

    def test_jobs_do_not_share_the_last_cpus(self):
        """The places of a plan are taken, before the pod is bound and afterwards."""
        self.world(1, nodes_each=1)
        self.rooms(cpu="30", pods="110")
        self.start(retry=LONG)
        first = self.gang("job-a", 1, gpus=2, cpu="16")
        self.wait_lifted(*first)
        second = self.gang("job-b", 1, gpus=2, cpu="16")
        self.wait_waits("job-b", "TooFewResources", "; 1 node lacks CPU (a pod needs 16, at most 14 is free)")
        self.bind(first[0])
        third = self.gang("job-c", 1, gpus=2, cpu="14")
        self.wait_lifted(*third)
        self.assertFalse(self.is_lifted(*second))
        self.end(first[0])
        self.wait_lifted(*second)

    def test_pods_of_a_job_share_nodes_as_far_as_cpus_go(self):
        self.world(1, nodes_each=3)
        self.rooms(cpu="64", pods="110")
        self.start(retry=LONG)
        names = self.gang("job-a", 8, gpus=1, cpu="20")
        self.wait_lifted(*names)
        nodes = self.nodes_of(names)
        self.assertLessEqual(max(nodes.count(node) for node in self.nodes), 3, nodes)

    def test_pods_to_come_have_their_cpus_kept(self):
        self.world(1, nodes_each=2)
        self.rooms(cpu="20", pods="110")
        self.start(retry=LONG)
        names = self.gang("job-a", 2, gpus=2, made=1, group=4, cpu="8")
        self.assertTrue(wait_for(lambda: planned_node(self.pod(names[0]))), self.pod(names[0]))
        taken = self.gang("job-b", 1, gpus=2, cpu="16")
        self.wait_lifted(*taken)  # both of the first job are on one node
        self.assertNotEqual(planned_node(self.pod(taken[0])), planned_node(self.pod(names[0])))
        self.gang("job-c", 1, gpus=2, cpu="8")
        self.wait_waits("job-c", "TooFewResources", "; 2 nodes lack CPU (a pod needs 8, at most 4 is free)")

    def test_pods_that_the_node_may_have(self):
        self.world(1, nodes_each=2)
        self.room("s0-n0", pods="1")
        self.room("s0-n1", pods="2")
        self.other("daemon", "s0-n0")
        self.other("daemon-too", "s0-n1")
        self.start(retry=LONG)
        names = self.gang("job-a", 1, gpus=1)
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s0-n1"])
        self.assertNotIn(GATE, str(self.pod(names[0])["spec"]))


unittest.main(verbosity=2)
