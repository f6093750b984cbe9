# SPDX-License-Identifier: Apache-2.0
"""What watches with selectors tell, held to the same expectation against the double and a real API server."""

PODS = "/v1/pods"
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
# (type, its phase, its label) by watch, of the changes in change_pods()
EXPECTED = {
    "living": [("ADDED", "Pending", "v"), ("MODIFIED", "Running", "v"), ("MODIFIED", "Running", "w"),
               ("DELETED", "Running", "w"), ("ADDED", "Running", "v"), ("DELETED", "Running", "v")],
    "labelled": [("ADDED", "Pending", "v"), ("MODIFIED", "Running", "v"), ("DELETED", "Running", "v"),
                 ("ADDED", "Succeeded", "v"), ("MODIFIED", "Running", "v"), ("MODIFIED", "Failed", "v"),
                 ("DELETED", "Failed", "v")],
    "unbound": [("ADDED", "Pending", "v"), ("MODIFIED", "Running", "v"), ("MODIFIED", "Running", "w"),
                ("MODIFIED", "Succeeded", "w"), ("MODIFIED", "Succeeded", "v"), ("MODIFIED", "Running", "v"),
                ("MODIFIED", "Failed", "v"), ("DELETED", "Failed", "v")],
}


class SelectedWatches:
    """For a TestCase with `tool`, and a namespace `default` with its account."""

    def in_default(self, do, **more):
        answer = self.tool.ask(do, PODS, namespace="default", **more)
        self.assertLess(answer.get("status") or 599, 300, answer)
        return answer.get("object", {}).get("metadata", {}).get("resourceVersion")

    def make_pod(self, name):
        return self.in_default("create", body={
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"k": "v"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]}, "status": {"phase": "Pending"}})

    def change_pods(self):
        """The versions of all changes of the pod."""
        def phase(value):
            return self.in_default("merge", name="changed", subresource="status", body={"status": {"phase": value}})

        def label(value):
            return self.in_default("merge", name="changed", body={"metadata": {"labels": {"k": value}}})
        versions = [self.make_pod("changed"), phase("Running"), label("w"), phase("Succeeded"), label("v"),
                    phase("Running"), phase("Failed")]
        self.in_default("delete", name="changed")
        return versions

    def test_selected_watches(self):
        version = self.make_pod("first")
        selectors = {"living": {"fieldSelector": LIVING}, "labelled": {"labelSelector": "k=v"},
                     "unbound": {"fieldSelector": "spec.nodeName="}}
        watches = {name: self.tool.start("watch", PODS, namespace="default", resourceVersion=version, **selector)
                   for name, selector in selectors.items()}
        versions = self.change_pods()
        self.make_pod("last")
        for name, number in watches.items():
            self.tool.wait(number, lambda a: a.get("object", {}).get("metadata", {}).get("name") == "last")
            told = [(a["event"], a["object"]) for a in self.tool.said(number)
                    if a.get("object", {}).get("metadata", {}).get("name") == "changed"]
            told = [(kind, pod) for kind, pod in told  # the real one marks a pod before it deletes it
                    if kind != "MODIFIED" or "deletionTimestamp" not in pod["metadata"]]
            with self.subTest(name):
                self.assertEqual([(kind, pod["status"]["phase"], pod["metadata"]["labels"]["k"]) for kind, pod in told],
                                 EXPECTED[name])
                if name == "living":  # an end has the version of the change that made it
                    self.assertEqual([pod["metadata"]["resourceVersion"] for _, pod in told], [
                        versions[i] for i in (0, 1, 2, 3, 5, 6)])
        for name in ("first", "last"):
            self.in_default("delete", name=name)
