# SPDX-License-Identifier: Apache-2.0
"""Enforces the cluster's NetworkPolicies, which its network does not: as nftables rules in the nodes' network namespaces.

Rules are made of the pods that run at that moment, and end with remove(). Connections are judged when they begin; what is let in is
answered. As Kubernetes has it, a pod that no policy selects is open, and what comes from a pod's own node is let in: it is not forwarded."""
from .waiting import Failed

TABLE = "gputopo_policy"
FAMILIES = ("bridge", "ip")  # between pods of one node, and of two


def matches(selector, labels):
    """Whether a label selector takes these labels; the empty one takes all."""
    if set(selector) - {"matchLabels", "matchExpressions"}:
        raise Failed(f"a selector that is not understood: {selector}")
    tests = {"In": lambda value, of: value in of, "NotIn": lambda value, of: value not in of,
             "Exists": lambda value, _: value is not None, "DoesNotExist": lambda value, _: value is None}
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        tests[one["operator"]](labels.get(one["key"]), one.get("values", [])) for one in selector.get("matchExpressions") or [])


class Enforcer:
    def __init__(self, cluster):
        self.cluster = cluster

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def apply(self):
        """Puts what the policies say now in place of what they said before; returns the number of pods that they select."""
        self.namespaces = {item["metadata"]["name"]: item["metadata"].get("labels", {}) for item in self.cluster.get("namespaces")["items"]}
        self.pods = [item for item in self.cluster.get("pods", "-A")["items"]
                     if item["status"].get("podIP") and item["status"]["phase"] in ("Pending", "Running") and not item["spec"].get("hostNetwork")]
        policies = self.cluster.get("networkpolicies", "-A")["items"]
        ruled = 0
        for number in range(1, self.cluster.nodes + 1):
            mine = [pod for pod in self.pods if pod["spec"]["nodeName"] == f"node{number}"]
            chains = [chain for pod in mine for chain in self.chains(pod, policies)]
            ruled += len({address for _, address, _ in chains})
            self.load(number, "".join(self.table(family, chains) for family in FAMILIES))
        return ruled

    def remove(self):
        for number in range(1, self.cluster.nodes + 1):
            self.load(number, "")

    def load(self, number, text):
        """All at once: tables that were there go."""
        gone = "".join(f"table {family} {TABLE}\ndelete table {family} {TABLE}\n" for family in FAMILIES)
        self.cluster.ask(number, "nft", "-f", "-", data=gone + text)

    @staticmethod
    def table(family, chains):
        """Leaving a pod comes before reaching another."""
        jumps = [f"ip {'saddr' if way == 'from' else 'daddr'} {address} jump {way}-{address.replace('.', '-')}" for way, address, _ in chains]
        rules = "\n".join(["type filter hook forward priority 0; policy accept;", "ip protocol tcp tcp flags & (syn | ack) != syn accept",
                           *sorted(jumps, key=lambda line: " saddr " not in f" {line} ")])
        bodies = "".join(f"chain {way}-{address.replace('.', '-')} {{\n" + "".join(f"{rule} return\n" for rule in allowed) + "drop\n}\n"
                         for way, address, allowed in chains)
        return f"table {family} {TABLE} {{\n{bodies}chain forward {{\n{rules}\n}}\n}}\n"

    def chains(self, pod, policies):
        """("from" or "to", the pod's address, what is allowed) for each direction in which some policy selects the pod."""
        selecting = [policy for policy in policies if policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
                     and matches(policy["spec"]["podSelector"], pod["metadata"].get("labels", {}))]
        for way, kind, rules, peers, address in (("from", "Egress", "egress", "to", "daddr"), ("to", "Ingress", "ingress", "from", "saddr")):
            mine = [policy for policy in selecting if kind in policy["spec"]["policyTypes"]]
            if mine:
                yield way, pod["status"]["podIP"], [self.allowed(rule, peers, address, policy["metadata"]["namespace"])
                                                    for policy in mine for rule in policy["spec"].get(rules) or []]

    def allowed(self, rule, peers, address, namespace):
        """The match of one rule, in nftables's words; "ip daddr {}" is not among them, so nobody is 0.0.0.0/32."""
        words = []
        if rule.get(peers):
            words.append(f"ip {address} {{ {', '.join(sorted(set(self.addresses(rule[peers], namespace)))) or '0.0.0.0/32'} }}")
        if rule.get("ports"):
            for port in rule["ports"]:
                if port.get("protocol", "TCP") != "TCP" or not isinstance(port.get("port"), int) or "endPort" in port:
                    raise Failed(f"a port that is not understood: {port}")
            words.append(f"tcp dport {{ {', '.join(str(port['port']) for port in rule['ports'])} }}")
        return " ".join(words)

    def addresses(self, peers, namespace):
        for peer in peers:
            if set(peer) - {"ipBlock", "namespaceSelector", "podSelector"} or "except" in peer.get("ipBlock", {}):
                raise Failed(f"a peer that is not understood: {peer}")
            if "ipBlock" in peer:
                yield peer["ipBlock"]["cidr"]
                continue
            for pod in self.pods:
                of = pod["metadata"]["namespace"]
                near = matches(peer["namespaceSelector"], self.namespaces[of]) if "namespaceSelector" in peer else of == namespace
                if near and matches(peer.get("podSelector", {}), pod["metadata"].get("labels", {})):
                    yield pod["status"]["podIP"]
