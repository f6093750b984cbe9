#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Rules between pods that a scheduler will check: a plan keeps them, or is not made.

Usage: test_placement_rules.py PLACEMENT_HOST [unittest arguments]
"""

import unittest

from daemon_driver import wait_for
from placement_case import PlacementCase
from placement_driver import indexed_pod, node_status, planned_node, pod_spec

LONG = 600000  # ms: what comes sooner comes of an event
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(key, labels, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def apart(*terms):
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def together(*terms):
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def spread(key, labels, **more):
    return {"topologySpreadConstraints": [{"topologyKey": key, "labelSelector": {"matchLabels": labels}, "maxSkew": 1,
                                           "whenUnsatisfiable": "DoNotSchedule", **more}]}


class PlacementRulesTest(PlacementCase):
    def label(self, node, **labels):
        self.api.add("/api/v1/nodes", node, status=node_status(), spec={}, metadata={
            "labels": {HOSTNAME: node, **{key.replace("zone", ZONE): value for key, value in labels.items()}}})

    def zones(self, **nodes):
        for node, zone in nodes.items():
            self.label(node.replace("_", "-"), **({"zone": zone} if zone else {}))

    def gang(self, name, pods, gpus=4, group=None, ports=(), labels=None, made=None, **spec):
        """An Indexed Job of one unit whose pods have the rules; the first `made` of them are there."""
        group = group or pods * gpus
        self.add_job(name, pods, group, gpus)
        names = [f"{name}-{i}" for i in range(pods)]
        for i, pod_name in enumerate(names[:made]):
            pod = indexed_pod(name, i, gpus=gpus, group=group)
            pod["metadata"]["labels"].update(labels or {})
            pod["spec"]["containers"][0]["ports"] = [dict(port) for port in ports]
            pod["spec"].update(spec)
            self.add_pod(pod_name, pod)
        return names

    def other(self, name, node, labels=None, ports=(), phase="Running", **spec):
        """A pod without GPUs on a node."""
        self.add_pod(name, {"metadata": {"labels": labels or {}}, "status": {"phase": phase}, "spec": {
            "nodeName": node, "containers": [{"name": "main", "ports": list(ports)}], **spec}})

    def wait_waits(self, name, *texts, reason="PodRules"):
        def is_so():
            job = self.host.job(f"ns/Job/{name}")
            return job.get("reason") == reason and all(text in job.get("text", "") for text in texts)
        self.assertTrue(wait_for(is_so), (self.host.job(f"ns/Job/{name}"), self.host.counters()))

    def nodes_of(self, names):
        return sorted(planned_node(self.pod(name)) for name in names)

    def count_of(self, names):
        nodes = self.nodes_of(names)
        return sorted(nodes.count(node) for node in set(nodes))

    # -- host ports --

    PORT = {"containerPort": 29500, "hostPort": 29500, "protocol": "TCP"}

    def test_pods_with_a_host_port_do_not_share_a_node(self):
        self.world(1, nodes_each=4)
        self.start(retry=LONG)
        names = self.gang("job-a", 4, ports=[self.PORT])
        self.wait_lifted(*names)
        self.assertEqual(self.count_of(names), [1, 1, 1, 1])

    def test_ports_differ_by_protocol_and_address(self):
        """What conflicts is one number of one protocol, on one address or on all of them."""
        self.world(1, nodes_each=1)
        self.other("a", "s0-n0", ports=[{**self.PORT, "protocol": "UDP"}])
        self.other("b", "s0-n0", ports=[{**self.PORT, "hostIP": "10.0.0.1"}])
        self.start(retry=LONG)
        names = self.gang("job-a", 1, ports=[{**self.PORT, "hostIP": "10.0.0.2"}])
        self.wait_lifted(*names)
        self.gang("job-b", 1, ports=[self.PORT])
        self.wait_waits("job-b", "its pods have host port 29500, so a node holds one of them, and on 1 node a host port is taken")

    def test_a_port_that_is_taken_is_waited_for(self):
        """By a pod without GPUs, and by one of another job; the waiting job gets the node when the port is free."""
        self.world(1, nodes_each=2)
        self.other("daemon", "s0-n1", hostNetwork=True, ports=[{"containerPort": 29500}])
        self.start(retry=LONG)
        self.gang("job-a", 2, ports=[self.PORT])
        self.wait_waits("job-a", "GPUs for it are free, on nodes where rules of pods do not allow it",
                        "so a node holds one of them, and on 1 node a host port is taken")
        self.other("daemon", "s0-n1", hostNetwork=True, ports=[{"containerPort": 29500}], phase="Failed")
        self.wait_lifted("job-a-0", "job-a-1")
        self.gang("job-b", 1, ports=[self.PORT])
        self.wait_waits("job-b", "on 2 nodes a host port is taken")

    def test_a_reserved_place_whose_port_was_taken_is_left(self):
        """The second pod comes later; its place was reserved on a node where a pod with its port runs by now."""
        self.world(1, nodes_each=3)
        self.start(retry=LONG)
        names = self.gang("job-a", 2, made=1, ports=[self.PORT])
        self.wait_lifted("job-a-0")
        self.assertTrue(wait_for(lambda: 1 in self.named("job-job-a")), self.objects())
        held = self.named("job-job-a")[1][0]
        free, = set(self.nodes) - {held, planned_node(self.pod("job-a-0"))}
        self.other("daemon", held, ports=[self.PORT])
        pod = indexed_pod("job-a", 1, gpus=4, group=8)
        pod["spec"]["containers"][0]["ports"] = [self.PORT]
        self.add_pod("job-a-1", pod)
        self.wait_lifted(*names)
        self.assertEqual(planned_node(self.pod("job-a-1")), free)

    # -- runtime class --

    def test_a_runtime_class_as_admission_writes_it(self):
        """Its overhead and its node selector are in the pod's spec."""
        self.world(1, nodes_each=2)
        for node, cpu in (("s0-n0", "10"), ("s0-n1", "64")):
            status = node_status()
            status["allocatable"]["cpu"] = cpu
            self.api.add("/api/v1/nodes", node, spec={}, status=status, metadata={"labels": {HOSTNAME: node}})
        self.start(retry=LONG)
        names = self.gang("job-a", 1, runtimeClassName="kata", overhead={"cpu": "12"})
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s0-n1"])
        self.gang("job-b", 1, runtimeClassName="kata", nodeSelector={"kata": "yes"})
        self.wait_waits("job-b", "its node selector, affinity or tolerations exclude", reason="NeverFits")

    # -- anti-affinity --

    def test_pods_that_are_apart_by_host_do_not_share_a_node(self):
        self.world(1, nodes_each=4)
        self.start(retry=LONG)
        names = self.gang("job-a", 4, labels={"app": "a"}, **apart(term(HOSTNAME, {"app": "a"})))
        self.wait_lifted(*names)
        self.assertEqual(self.count_of(names), [1, 1, 1, 1])

    def test_pods_that_are_apart_by_zone(self):
        self.world(1, nodes_each=4)
        self.zones(s0_n0="a", s0_n1="a", s0_n2="b", s0_n3="b")
        self.start(retry=LONG)
        names = self.gang("job-a", 2, labels={"app": "a"}, **apart(term(ZONE, {"app": "a"})))
        self.wait_lifted(*names)
        self.assertEqual([node in ("s0-n0", "s0-n1") for node in self.nodes_of(names)], [True, False])
        self.gang("job-b", 3, labels={"app": "b"}, **apart(term(ZONE, {"app": "b"})))
        self.wait_waits("job-b", "; anti-affinity of pods keeps them apart by topology.kubernetes.io/zone")

    def test_other_pods_are_kept_away_from_in_both_directions(self):
        """One that the job's rule means, and one whose rule means the job."""
        self.world(1, nodes_each=4)
        self.other("theirs", "s0-n0", **apart(term(HOSTNAME, {"app": "a"})))
        self.other("meant", "s0-n1", labels={"noisy": "yes"})
        self.start(retry=LONG)
        names = self.gang("job-a", 2, gpus=8, labels={"app": "a"}, **apart(term(HOSTNAME, {"noisy": "yes"})))
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s0-n2", "s0-n3"])
        self.gang("job-b", 2, gpus=8, labels={"app": "a"})
        self.wait_waits("job-b", "; anti-affinity of pods keeps them apart by kubernetes.io/hostname, from pods in 1 of 4 places too")

    def test_pods_of_other_namespaces(self):
        """They count where a selector or a list of namespaces means theirs."""
        self.world(1, nodes_each=2)
        self.api.add("/api/v1/namespaces/far/pods", "elsewhere", metadata={"namespace": "far", "labels": {"noisy": "yes"}},
                     spec={"nodeName": "s0-n0", "containers": [{"name": "main"}]}, status={"phase": "Running"})
        self.start(retry=LONG)
        for name, node, more in (("job-a", "s0-n1", {"namespaceSelector": {}}), ("job-b", "s0-n1", {"namespaces": ["far"]}),
                                 ("job-c", "s0-n0", {})):
            names = self.gang(name, 1, **apart(term(HOSTNAME, {"noisy": "yes"}, **more)))
            self.wait_lifted(*names)
            self.assertEqual(self.nodes_of(names), [node])

    # -- affinity --

    def test_pods_that_belong_together_are_in_one_zone(self):
        """The supernode that is chosen otherwise has two zones; and a unit is not torn for it."""
        self.world(2, nodes_each=2)
        self.zones(s0_n0="a", s0_n1="b", s1_n0="c", s1_n1="c")
        self.start(retry=LONG)
        names = self.gang("job-a", 4, labels={"app": "a"}, **together(term(ZONE, {"app": "a"})))
        self.wait_lifted(*names)
        self.assertEqual(set(self.nodes_of(names)), {"s1-n0", "s1-n1"})

    def test_a_pod_that_another_wants_near(self):
        self.world(2, nodes_each=2)
        self.zones(s0_n0="a", s0_n1="a", s1_n0="b", s1_n1="b")
        self.start(retry=LONG)
        self.gang("job-a", 2, gpus=8, **together(term(ZONE, {"app": "db"})))
        self.wait_waits("job-a", "; required affinity wants its pods in one place, by topology.kubernetes.io/zone")
        self.other("db", "s1-n0", labels={"app": "db"})
        self.wait_lifted("job-a-0", "job-a-1")
        self.assertEqual(self.nodes_of(["job-a-0", "job-a-1"]), ["s1-n0", "s1-n1"])

    # -- spread --

    def test_pods_are_spread_by_host(self):
        self.world(1, nodes_each=4)
        self.start(retry=LONG)
        names = self.gang("job-a", 4, labels={"app": "a"}, **spread(HOSTNAME, {"app": "a"}))
        self.wait_lifted(*names)
        self.assertEqual(self.count_of(names), [1, 1, 1, 1])

    def test_pods_are_spread_by_zone(self):
        """4 pods over 2 zones, of which one has more room."""
        self.world(1, nodes_each=4)
        self.zones(s0_n0="a", s0_n1="a", s0_n2="a", s0_n3="b")
        self.start(retry=LONG)
        names = self.gang("job-a", 4, labels={"app": "a"}, **spread(ZONE, {"app": "a"}))
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names).count("s0-n3"), 2)
        self.gang("job-b", 2, gpus=8, labels={"app": "b"}, **spread(ZONE, {"app": "b"}))
        self.wait_waits("job-b", "; its pods must be spread by topology.kubernetes.io/zone (maxSkew 1)")

    def test_nodes_that_a_spread_constraint_does_not_count(self):
        """A zone where no pod may run has none of them. It counts where its labels or taints are said to be of no account."""
        self.world(1, nodes_each=4)
        self.zones(s0_n0="a", s0_n1="a", s0_n2="b")
        self.start(retry=LONG)
        closed, taints = {HOSTNAME: "s0-n3", ZONE: "c", "closed": "yes"}, [{"key": "closed", "effect": "NoSchedule"}]
        only = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "closed", "operator": "DoesNotExist"}]}]}}}}
        for name, spec, more, counts in (("job-a", {}, only, {"nodeAffinityPolicy": "Ignore"}),
                                         ("job-b", {"taints": taints}, {}, {"nodeTaintsPolicy": "Ignore"})):
            self.api.add("/api/v1/nodes", "s0-n3", status=node_status(), spec=spec, metadata={"labels": closed})
            skips = {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}
            rules = {**spread(ZONE, {"app": name}, **{**skips, **counts}), **more}
            names = self.gang(name, 3, labels={"app": name}, **rules)
            self.wait_waits(name, "; its pods must be spread by topology.kubernetes.io/zone (maxSkew 1)")
            for pod in names:
                self.end(pod)
            name += "-2"
            names = self.gang(name, 3, labels={"app": name}, **spread(ZONE, {"app": name}, **skips), **more)
            self.wait_lifted(*names)
            self.assertEqual(len({node == "s0-n2" for node in self.nodes_of(names)}), 2)
            for pod in names:
                self.end(pod)

    def test_says_where_not_all_ways_were_tried(self):
        """Too many for the first job; the other does not fit without its rules either."""
        said = "; not all ways to place its pods were tried, one might do"
        self.world(3, nodes_each=8)
        for at, node in enumerate(self.nodes):
            self.label(node, zone=f"z{(at % 8 * 7 + at // 8) % 5}")
            self.add_pod(f"used-{at}", {"metadata": {}, "status": {"phase": "Running"},
                                        "spec": {**pod_spec(gpus=5, gated=False), "nodeName": node}})
        self.start(retry=LONG)
        rules = {"labels": {"app": "a"}, **spread(ZONE, {"app": "a"})}
        self.gang("job-a", 60, gpus=1, group=20, **rules)
        self.wait_waits("job-a", said)
        self.gang("job-b", 80, gpus=1, group=20, **rules)
        self.wait_waits("job-b", "80 GPUs are needed in all, the cluster has 72", reason="TooFewGPUs")
        self.assertNotIn(said, self.host.job("ns/Job/job-b")["text"])

    def test_more_domains_than_there_are(self):
        """With minDomains 2 and one zone, its least domain counts as empty."""
        self.world(1, nodes_each=2)
        self.zones(s0_n0="a", s0_n1="a")
        self.start(retry=LONG)
        self.gang("job-a", 2, labels={"app": "a"}, **spread(ZONE, {"app": "a"}, minDomains=2))
        self.wait_waits("job-a", "; its pods must be spread by topology.kubernetes.io/zone (maxSkew 1, minDomains 2)")
        self.label("s0-n1", zone="b")
        self.wait_lifted("job-a-0", "job-a-1")

    def test_a_job_waits_until_those_are_bound_whom_its_pods_would_hinder(self):
        """job-a is planned, one pod a node; bound before it, job-b's pod would make it two."""
        self.world(1, nodes_each=2)
        self.start(retry=LONG)
        rule = spread(HOSTNAME, {"app": "a"})
        names = self.gang("job-a", 2, labels={"app": "a"}, **rule)
        self.wait_lifted(*names)
        self.gang("job-b", 1, labels={"app": "a"})
        self.wait_waits("job-b", "; pod job-a-", ", which is planned, has to be bound before: its rules mean these pods")
        self.gang("job-c", 1)  # a job of the same shape, of which no rule speaks
        self.wait_lifted("job-c-0")
        for name in names:
            self.bind(name)
        self.wait_lifted("job-b-0")

    # -- nodes --

    def members(self, name, group, *specs):
        """Pods that say which job they form, each with its own spec."""
        for rank, spec in enumerate(specs):
            pod = indexed_pod(name, rank, gpus=4, group=group, **spec)
            pod["metadata"] = {"annotations": {"metax-tech.com/job-name": name, "metax-tech.com/job-pods": str(len(specs)),
                                               "metax-tech.com/rank": str(rank), "metax-tech.com/gpu-group-size": str(group)}}
            self.add_pod(f"{name}-{rank}", pod)
        return [f"{name}-{rank}" for rank in range(len(specs))]

    def test_a_pod_that_names_its_node(self):
        """The others of its unit join it there, in a supernode that would not be chosen otherwise."""
        self.world(2)
        self.start(retry=LONG)
        self.add_job("a", 4, 32)
        pod = indexed_pod("a", 3, group=32, gated=False)
        pod["spec"]["nodeName"] = "s1-n2"
        self.add_pod("a-3", pod)
        names = [f"a-{i}" for i in range(3)]
        for i, name in enumerate(names):
            self.add_pod(name, indexed_pod("a", i, group=32))
        self.wait_lifted(*names)
        self.assertEqual(self.nodes_of(names), ["s1-n0", "s1-n1", "s1-n3"])

    def test_pods_of_one_job_that_may_run_on_different_nodes(self):
        """Each gets a node that it selects, or tolerates; a unit is not torn for it."""
        self.world(2, nodes_each=2)
        for node, disk in (("s0-n0", "ssd"), ("s0-n1", "ssd"), ("s1-n0", "ssd"), ("s1-n1", "hdd")):
            self.label(node, disk=disk)
        taint = {"key": "special", "value": "x", "effect": "NoSchedule"}
        self.api.add("/api/v1/nodes", "s1-n0", status=node_status(), spec={"taints": [taint]},
                     metadata={"labels": {HOSTNAME: "s1-n0", "disk": "ssd"}})
        self.start(retry=LONG)
        ssd = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "special", "operator": "Exists"}]}
        names = self.members("job-a", 12, ssd, ssd, {"nodeSelector": {"disk": "hdd"}})
        self.wait_lifted(*names)
        self.assertEqual([planned_node(self.pod(name)) for name in names], ["s1-n0", "s1-n0", "s1-n1"])
        for name in names:
            self.bind(name)
        names = self.members("job-b", 8, {"nodeSelector": {"disk": "ssd"}}, {})
        self.wait_lifted(*names)
        self.assertEqual(planned_node(self.pod(names[0]))[:2], "s0")
        self.members("job-c", 16, *[{"nodeSelector": {"disk": disk}} for disk in ("ssd", "ssd", "hdd", "hdd")])
        said = "; its node selector, affinity or tolerations exclude 1 node; 3 nodes are not for all of its pods"
        self.assertTrue(wait_for(lambda: said in (self.condition("job-c-0") or {}).get("message", "")), self.condition("job-c-0"))

    def test_soft_rules_change_nothing(self):
        self.world(1, nodes_each=4)
        self.start(retry=LONG)
        names = self.gang("job-a", 4, labels={"app": "a"}, **spread(HOSTNAME, {"app": "a"}, whenUnsatisfiable="ScheduleAnyway"))
        self.wait_lifted(*names)
        self.assertEqual(self.count_of(names), [2, 2])

    def test_preferred_affinity_changes_nothing(self):
        """Two fit on a node, so there they are, though they would rather be apart, or where no place is."""
        self.world(1, nodes_each=4)
        self.zones(s0_n0="a", s0_n1="a", s0_n2="b", s0_n3="c")
        self.other("db", "s0-n3", labels={"app": "db"})
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        self.start(retry=LONG)
        for kind, key, labels in (("podAntiAffinity", HOSTNAME, {"app": "a"}), ("podAffinity", ZONE, {"app": "db"})):
            rules = {"affinity": {kind: {preferred: [{"weight": 100, "podAffinityTerm": term(key, labels)}]}}}
            names = self.gang(f"job-{kind.lower()}", 4, labels={"app": "a"}, **rules)
            self.wait_lifted(*names)
            self.assertEqual(self.count_of(names), [2, 2])
            self.assertNotIn("s0-n3", self.nodes_of(names))
            for name in names:
                self.end(name)

    def test_rules_that_contradict_each_other(self):
        """The job waits and says which; it is planned as far as that is possible: alone."""
        self.world(1)
        self.start(retry=LONG)
        mine = term(HOSTNAME, {"app": "a"})
        rules = {"affinity": {**apart(mine)["affinity"], **together(mine)["affinity"]}}
        self.gang("job-a", 2, labels={"app": "a"}, **rules)
        self.wait_waits("job-a", f"required affinity and required anti-affinity by {HOSTNAME} mean the same pods: at most one of its pods can be placed")
        self.wait_lifted(*self.gang("job-b", 1, labels={"app": "a"}, **rules))

    def test_too_many_rules_are_said(self):
        self.world(1)
        self.start(retry=LONG)
        self.gang("job-a", 1, **apart(*[term(HOSTNAME, {"app": f"a{i}"}) for i in range(17)]))
        self.assertTrue(wait_for(lambda: any("more than 16 required rules on other pods" in str(e) for e in self.api.objects.values())),
                        self.host.counters())


if __name__ == "__main__":
    unittest.main(verbosity=2)
