#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""daemonset/ without a cluster: test_manifests.py BUILD_DIR VERSION [unittest arguments]"""

import copy
import json
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

import jsonschema
import yaml

from crds import part_schema

BUILD, VERSION = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
DAEMONSET = ROOT / "daemonset"
KINDS = re.findall(r"^\| \w+ \| [\w.-]+/\w+ \| (\w+) \|.* while it exists \|$", (ROOT / "docs/reference/jobs.md").read_text(), re.M)
PERMISSIONS = (ROOT / "docs/reference/permissions.md").read_text().replace(
    "[objects of all kinds of jobs](jobs.md#which-job-which-rank)", ", ".join(f"`{resource}`" for resource in KINDS))
GROUP = "topology.metax-tech.com"
CLUSTER_SCOPED = ("nodegputopologies", "supernodes")
PROJECTED = ("hypernodes", "nodefeatures")
COMPONENTS = ("placement", "recreate", "kueue", "volcano", *PROJECTED)
PROGRAMS = ("gputopo", "gputopo-agent", "gputopo-probe", "gputopo-scheduler")


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def crd(plural):
    definition, = documents(DAEMONSET / "crds" / f"{plural}.yaml")
    return definition


def schema_of(plural):
    version, = crd(plural)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def build(directory):
    """What `kubectl kustomize` makes of a directory, as far as ours go: resources, JSON patches, and what is left out."""
    made = []
    kustomization, = documents(directory / "kustomization.yaml")
    for resource in kustomization["resources"]:
        path = (directory / resource).resolve()
        made += build(path) if path.is_dir() else documents(path)
    patch_all(made, kustomization)
    return made


def add_component(made, directory):
    """A component's resources, and its patches on what is there."""
    kustomization, = documents(directory / "kustomization.yaml")
    assert kustomization["kind"] == "Component"
    for resource in kustomization["resources"]:
        made += documents(directory / resource)
    patch_all(made, kustomization)


def patch_all(made, kustomization):
    for patch in kustomization.get("patches", []):
        if "target" not in patch:
            gone = yaml.safe_load(patch["patch"])
            assert gone.pop("$patch") == "delete", patch
            made.remove(one(made, gone["kind"], gone["metadata"]["name"]))
            continue
        target, = [item for item in made if item["kind"] == patch["target"]["kind"]
                   and item["metadata"]["name"] == patch["target"]["name"]]
        for step in yaml.safe_load(patch["patch"]):
            apply_step(target, step)


def apply_step(target, step):
    *path, last = step["path"].strip("/").split("/")
    for key in path:
        target = target[int(key)] if isinstance(target, list) else target[key]
    if isinstance(target, list) and last != "-":
        last = int(last)
    if step["op"] == "test":
        assert target[last] == step["value"], f"{step}: is {target[last]}"
    elif step["op"] == "remove":
        del target[last]
    elif last == "-":
        target.append(step["value"])
    else:
        assert step["op"] == "add" or last in target or isinstance(target, list), step
        target[last] = step["value"]


def one(objects, kind, name):
    found, = [item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name]
    return found


def pod_of(objects, kind="DaemonSet", name="gputopo-agent"):
    return one(objects, kind, name)["spec"]["template"]["spec"]


def container(pod, name):
    found, = [item for item in pod["containers"] if item["name"] == name]
    return found


class CustomResources(unittest.TestCase):
    SCALARS = ("enum", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "pattern", "maxItems")
    LATER = {"status.gpus[]": {"health"}}  # an agent of an older version writes objects without it

    def plain(self, schema, defs):
        """A JSON Schema in the words of a definition: no $ref, no null among types."""
        schema = copy.deepcopy(schema)
        if "$ref" in schema:
            schema = {**defs[schema.pop("$ref").rsplit("/", 1)[1]], **schema}
        if "anyOf" in schema:
            first, null = schema.pop("anyOf")
            self.assertEqual(null, {"type": "null"})
            schema = {**self.plain(first, defs), **schema, "nullable": True}
        if isinstance(schema.get("type"), list):
            name, null = schema["type"]
            self.assertEqual(null, "null")
            schema.update(type=name, nullable=True)
        if "exclusiveMinimum" in schema and not isinstance(schema["exclusiveMinimum"], bool):
            schema["minimum"], schema["exclusiveMinimum"] = schema["exclusiveMinimum"], True
        return schema

    def compare(self, file, ours, defs, path):
        file = self.plain(file, defs)
        if "type" in file:
            self.assertEqual(ours["type"], file["type"], path)
        self.assertEqual(ours.get("nullable", False), file.get("nullable", False), f"{path}: nullable")
        for key in self.SCALARS:
            if key == "maxLength" and "pattern" in file and key not in file:
                continue  # a definition needs a length for what the pattern bounds
            self.assertEqual(ours.get(key), file.get(key), f"{path}: {key}")
        if path != "status":  # an object is made without, and two writers fill it
            later = self.LATER.get(path, set())
            self.assertEqual(sorted(ours.get("required", [])), sorted(set(file.get("required", [])) - later), f"{path}: required")
            self.assertEqual(set(ours.get("properties", {})), set(file.get("properties", {})), path)
        for name, value in file.get("properties", {}).items():
            self.compare(value, ours["properties"][name], defs, f"{path}.{name}")
        if "items" in file:
            self.compare(file["items"], ours["items"], defs, path + "[]")

    def test_the_node_in_a_status_is_the_node_in_a_file(self):
        schema = json.loads((ROOT / "docs/node.schema.json").read_text())
        self.compare(schema, schema_of("nodegputopologies")["properties"]["status"], schema["$defs"], "status")

    def bounded(self, schema, path):
        if path not in ("", ".apiVersion", ".kind", ".metadata") and not path.endswith("[]"):
            self.assertIn("description", schema, path)
        kind = schema["type"]
        if kind == "array":
            self.assertIn("maxItems", schema, path)
            self.bounded(schema["items"], path + "[]")
        elif kind == "string" and path not in (".apiVersion", ".kind") and schema.get("format") != "date-time":
            self.assertTrue({"enum", "maxLength"} & set(schema), f"{path} may have any length")
        elif kind in ("integer", "number"):
            self.assertIn("minimum", schema, path)
        for name, value in schema.get("properties", {}).items():
            self.bounded(value, f"{path}.{name}")

    def test_everything_is_described_and_has_limits(self):
        for plural in (*CLUSTER_SCOPED, "gpuplacements"):
            self.bounded(schema_of(plural), "")

    def test_what_the_api_knows_them_by(self):
        for plural in (*CLUSTER_SCOPED, "gpuplacements"):
            spec = crd(plural)["spec"]
            alone = plural in CLUSTER_SCOPED  # the status is written apart
            self.assertEqual((spec["group"], spec["scope"], spec["names"]["categories"]),
                             (GROUP, "Cluster" if alone else "Namespaced", ["gputopo"]))
            version, = spec["versions"]
            self.assertEqual((version["name"], version.get("subresources")), ("v1alpha1", {"status": {}} if alone else None))
            self.assertEqual("spec" in version["schema"]["openAPIV3Schema"]["properties"], plural != "supernodes")
            for column in version["additionalPrinterColumns"]:
                self.follow(column["jsonPath"], version["schema"]["openAPIV3Schema"])

    def test_the_placements_that_are_written(self):
        written = subprocess.run([BUILD / "tests/test_api_gpu_placement", "40"], check=True, capture_output=True, text=True).stdout
        schemas = {part: part_schema("gpuplacements", part) for part in ("spec", "status")}
        objects = [json.loads(line) for line in written.splitlines()[::2]]
        self.assertEqual(len(objects[-1]["status"]["pods"]), 16384)
        for item in objects:
            templates = item["spec"].get("templates", [])
            self.assertEqual(item["spec"].get("gpus", 0), sum(t["pods"] * t["gpus"] for t in templates))
            for part, schema in schemas.items():
                jsonschema.validate(item[part], schema)

    def follow(self, path, schema):
        """A column's path leads somewhere."""
        if path.startswith(".metadata."):
            return
        for key in re.sub(r"\[[^]]*\]", "", path).strip(".").split("."):
            schema = schema["items"] if "items" in schema else schema
            self.assertIn(key, schema["properties"], path)
            schema = schema["properties"][key]


class Permissions(unittest.TestCase):
    def setUp(self):
        self.objects = build(DAEMONSET / "base")

    def rows(self, heading):
        section = PERMISSIONS.split(f"## {heading}\n")[1].split("\n## ")[0]
        return [line for line in section.splitlines() if line.startswith("| ")]

    def test_every_rule_is_justified(self):
        rows = self.rows("The API server")
        for component in COMPONENTS:
            add_component(self.objects, DAEMONSET / "components" / component)
        for role in (item for item in self.objects if item["kind"] in ("Role", "ClusterRole")):
            name = role["metadata"]["name"]
            for rule in role["rules"]:
                words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                self.assertFalse({"*", "escalate", "bind", "impersonate", "secrets", "nodes/proxy"} & set(words), rule)
                for resource in rule["resources"]:
                    verbs = ", ".join(rule["verbs"])
                    account = "both" if name == "gputopo-events" else name
                    found = [row for row in rows if row.startswith(f"| {account} |") and f"`{resource}`" in row
                             and verbs in row.split("|")[2]]
                    self.assertEqual(len(found), 1, f"{name}: {resource}: {verbs}")

    def test_roles_are_given_to_our_accounts_only(self):
        for component in COMPONENTS:
            add_component(self.objects, DAEMONSET / "components" / component)
        accounts = {item["metadata"]["name"]: item for item in self.objects if item["kind"] == "ServiceAccount"}
        self.assertEqual(set(accounts), {"gputopo-agent", "gputopo-scheduler"})
        for account in accounts.values():
            self.assertIs(account["automountServiceAccountToken"], False)
        for binding in (item for item in self.objects if item["kind"] in ("RoleBinding", "ClusterRoleBinding")):
            for subject in binding["subjects"]:
                if binding["metadata"]["name"] == "gputopo-vc-scheduler":  # Volcano's account, which reads, and moves units off lost nodes
                    role = one(self.objects, "ClusterRole", "gputopo-vc-scheduler")
                    writes = [rule for rule in role["rules"] if set(rule["verbs"]) != {"list", "watch"}]
                    self.assertEqual(writes, [{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}])
                    self.assertEqual(subject, {"kind": "ServiceAccount", "name": "volcano-scheduler", "namespace": "volcano-system"})
                    continue
                self.assertEqual((subject["kind"], subject["namespace"]), ("ServiceAccount", "gputopo-system"))
                self.assertIn(subject["name"], accounts)
            kind = binding["kind"].removesuffix("Binding")
            self.assertEqual(binding["roleRef"]["kind"], kind)
            one(self.objects, kind, binding["roleRef"]["name"])

    def test_every_policy_is_in_force_and_told(self):
        policies = {item["metadata"]["name"]: item["spec"] for item in self.objects
                    if item["kind"] == "ValidatingAdmissionPolicy"}
        bindings = {item["spec"]["policyName"]: item["spec"]["validationActions"] for item in self.objects
                    if item["kind"] == "ValidatingAdmissionPolicyBinding"}
        self.assertEqual(bindings, {name: ["Deny"] for name in policies})
        for name, spec in policies.items():
            self.assertEqual(spec["failurePolicy"], "Fail", name)
            self.assertIn(f"| {name} |", PERMISSIONS)
            users = re.findall(r"system:serviceaccount:gputopo-system:(\S+?)\"", json.dumps(spec).replace("\\", ""))
            self.assertLessEqual(set(users), {"gputopo-agent", "gputopo-scheduler"}, name)
            self.assertTrue(users or name == "gputopo-isolation", name)  # that is about everybody
            text = json.dumps(spec["matchConditions"])
            for rule in spec["validations"] if name == "gputopo-pods" else []:  # only what breaks one is looked at again
                self.assertIn(json.dumps(f"({rule['expression']})")[1:-1], text)

    def test_the_policy_allows_what_the_agent_writes(self):
        text = (DAEMONSET / "base/policy.yaml").read_text()
        written = set(re.findall(r"GT_LABEL_GPU_[A-Z]+", (ROOT / "agent/publish_node.c").read_text()))
        names = dict(re.findall(r'#define (GT_LABEL_GPU_[A-Z]+) +"(.+)"', (ROOT / "api/names.h").read_text()))
        labels = {names[name] for name in written}
        allowed, = re.findall(r"name: ownLabels\n\s+expression: '(.*)'", text)
        self.assertEqual(set(json.loads(allowed)), labels)

    def test_the_agents_container_is_not_privileged(self):
        for directory in ("base", "no-probe", "recorded"):
            pod = pod_of(build(DAEMONSET / directory))
            self.assertFalse({"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & set(pod))
            self.assertIs(pod["automountServiceAccountToken"], False)
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            security = container(pod, "agent")["securityContext"]
            self.assertEqual((security["privileged"], security["allowPrivilegeEscalation"],
                              security["readOnlyRootFilesystem"], security["capabilities"]),
                             (False, False, True, {"drop": ["ALL"]}))
            paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
            mounts = {mount["name"]: mount for mount in container(pod, "agent")["volumeMounts"]}
            writable = {paths[name] for name, mount in mounts.items() if name in paths and not mount.get("readOnly")}
            self.assertEqual(writable, {"/var/lib/kubelet/device-plugins"})
            # what the kubelet is told must be true on the host: a path is the same inside
            for name, path in paths.items():
                if name in mounts:
                    self.assertEqual(mounts[name]["mountPath"], path)
            if directory == "base":
                for path in paths.values():
                    self.assertIn(f"hostPath `{path}`", PERMISSIONS)

    def test_no_container_is_privileged(self):
        for item in (item for item in self.objects if item["kind"] in ("DaemonSet", "Deployment")):
            self.assertEqual(len(item["spec"]["template"]["spec"]["containers"]), 1, item["metadata"]["name"])
            for one_of in item["spec"]["template"]["spec"]["containers"]:
                security = one_of["securityContext"]
                self.assertEqual((security["privileged"], security["allowPrivilegeEscalation"], security["capabilities"],
                                  security["readOnlyRootFilesystem"]), (False, False, {"drop": ["ALL"]}, True), one_of["name"])

    def test_the_probes_container_knows_nothing(self):
        """It has the library, its socket, and the devices that the agent hands out: no /dev, no token, no network."""
        pod = pod_of(self.objects, name="gputopo-probe")
        self.assertIs(pod["automountServiceAccountToken"], False)
        self.assertEqual(pod["securityContext"], {"seccompProfile": {"type": "RuntimeDefault"}})
        self.assertFalse({"serviceAccountName", "hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & set(pod))
        self.assertEqual({volume["hostPath"]["path"] for volume in pod["volumes"]}, {"/opt", "/run/gputopo"})
        probe, = pod["containers"]
        self.assertEqual([mount["name"] for mount in probe["volumeMounts"] if not mount.get("readOnly")], ["probe"])
        for path in ("/opt", "/run/gputopo"):
            self.assertIn(f"hostPath `{path}`", PERMISSIONS)
        self.assertIn("--no-network", probe["args"])

    def test_agent_and_probe_find_each_other(self):
        """The agent advertises what the probe asks for, and looks where it listens, on the same nodes."""
        agent, probe = pod_of(self.objects), pod_of(self.objects, name="gputopo-probe")
        arguments = dict(argument.partition("=")[::2] for item in (agent, probe) for one_of in item["containers"] for argument in one_of["args"])
        self.assertEqual(arguments["--probe"], arguments["--socket"])
        self.assertEqual(container(probe, "probe")["resources"]["limits"][arguments["--probe-resource"]], 1)
        self.assertIn(f'"{arguments["--probe-resource"]}" in', (DAEMONSET / "base/policy.yaml").read_text())
        for pod in (agent, probe):
            volume, = [volume for volume in pod["volumes"] if volume["name"] == "probe"]
            self.assertEqual(volume["hostPath"], {"path": "/run/gputopo", "type": "DirectoryOrCreate"})
            self.assertEqual([mount["mountPath"] for item in pod["containers"] for mount in item["volumeMounts"] if mount["name"] == "probe"],
                             ["/run/gputopo"])
        for key in ("nodeSelector", "tolerations", "priorityClassName"):
            self.assertEqual(agent[key], probe[key])

    def test_without_the_probe(self):
        for directory in ("no-probe", "recorded"):
            objects = build(DAEMONSET / directory)
            self.assertFalse([item for item in objects if item["metadata"]["name"] == "gputopo-probe"])
            pod = pod_of(objects)
            # files of faults are read all the same
            self.assertEqual([mount["readOnly"] for mount in container(pod, "agent")["volumeMounts"] if mount["mountPath"] == "/run/gputopo"],
                             [True])
            self.assertFalse([argument for argument in container(pod, "agent")["args"]
                              if argument.startswith("--probe") and argument != "--probe=none"])

    def test_the_companion(self):
        deployment, = documents(DAEMONSET / "base/companion.yaml")
        pod = pod_of([deployment], "Deployment", "gputopo-scheduler")
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(pod["serviceAccountName"], "gputopo-scheduler")
        self.assertEqual([volume for volume in pod["volumes"] if "hostPath" in volume], [])
        self.assertEqual(container(pod, "scheduler")["securityContext"]["capabilities"], {"drop": ["ALL"]})
        # its Service has the plain port, too, which Volcano asks: an expired certificate must not take that away
        self.assertEqual(container(pod, "scheduler")["readinessProbe"]["httpGet"]["path"], "/readyz?exclude=certificate")

    def test_mounts_and_volumes_belong_together(self):
        pods = [pod_of(build(DAEMONSET / directory)) for directory in ("base", "no-probe", "recorded")]
        pods.append(pod_of(self.objects, name="gputopo-probe"))
        pods.append(pod_of(documents(DAEMONSET / "base/companion.yaml"), "Deployment", "gputopo-scheduler"))
        for pod in pods:
            names = [volume["name"] for volume in pod["volumes"]]
            used = [mount["name"] for item in pod["containers"] for mount in item["volumeMounts"]]
            self.assertEqual(set(names), set(used))
            for item in pod["containers"]:
                self.assertEqual(item["image"], f"localhost/gputopo:{VERSION}")
                paths = [mount["mountPath"] for mount in item["volumeMounts"]]
                for path in paths:  # below a read-only mount nothing else can be mounted
                    self.assertFalse([other for other in paths if other.startswith(path + "/")], paths)

    def test_the_options_are_known(self):
        if not (BUILD / "bin/gputopo-agent").exists():
            self.skipTest("gputopo-agent is not built")
        told = subprocess.run([BUILD / "bin/gputopo-agent", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for directory in ("base", "no-probe", "recorded"):
            for argument in container(pod_of(build(DAEMONSET / directory)), "agent")["args"]:
                self.assertIn(f"  {argument.split('=')[0]} ", told)

    def test_the_companions_options_are_known(self):
        """Also those of the components; and what they say in each other's company."""
        program = BUILD / "bin/gputopo-scheduler"
        if not program.exists():
            self.skipTest("gputopo-scheduler is not built")
        for component in COMPONENTS:
            add_component(self.objects, DAEMONSET / "components" / component)
        arguments = container(pod_of(self.objects, "Deployment", "gputopo-scheduler"), "scheduler")["args"]
        self.assertEqual(arguments[-2:], [f"--project={component}" for component in PROJECTED])
        done = subprocess.run([program, *arguments, "--version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_network_policies(self):
        """Each pod is closed but for the ports that others have to ask, and for them alone; and the page tells each rule."""
        add_component(self.objects, DAEMONSET / "components/placement")
        policies = [item for item in self.objects if item["kind"] == "NetworkPolicy"]
        rows = self.rows("The network")
        opened = set()
        for workload in (item for item in self.objects if item["kind"] in ("DaemonSet", "Deployment")):
            template = workload["spec"]["template"]
            mine = [item for item in policies if item["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()]
            self.assertEqual({kind for item in mine for kind in item["spec"]["policyTypes"]}, {"Ingress", "Egress"}, workload["metadata"]["name"])
            ports = {port["containerPort"] for item in template["spec"]["containers"] for port in item.get("ports", [])}
            for item in mine:
                for rule in item["spec"]["ingress"]:
                    for port in rule["ports"]:
                        self.assertIn(port["port"], ports, item["metadata"]["name"])
                        who = sorted(peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in rule.get("from", []))
                        opened.add((workload["metadata"]["name"], port["port"], *who))
                for rule in item["spec"].get("egress", []):
                    self.assertEqual({port["port"] for port in rule["ports"]}, {443, 6443})
        self.assertEqual(opened, {("gputopo-agent", 9400, "monitoring"), ("gputopo-scheduler", 9401, "monitoring"),
                                  ("gputopo-scheduler", 9401, "volcano-system"), ("gputopo-scheduler", 9443)})
        for name, port, *_ in opened:
            self.assertTrue([row for row in rows if f"`{name}`" in row and f"{port}" in row], f"{name} {port} is not told")

    def test_the_webhooks(self):
        """They reach our Service, leave our namespace alone, and fail open; their CA comes from the script."""
        add_component(self.objects, DAEMONSET / "components/placement")
        service = one(self.objects, "Service", "gputopo-scheduler")
        self.assertIn(443, [port["port"] for port in service["spec"]["ports"]])
        pod = pod_of(self.objects, "Deployment", "gputopo-scheduler")
        ports = {port["name"] for port in container(pod, "scheduler")["ports"]}
        self.assertEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports - {"health"})  # that is the kubelet's
        hooks = [hook for kind in ("Mutating", "Validating")
                 for hook in one(self.objects, f"{kind}WebhookConfiguration", "gputopo-scheduler")["webhooks"]]
        self.assertEqual(len(hooks), 4)
        for hook in hooks:
            self.assertEqual(hook["failurePolicy"], "Ignore")
            self.assertEqual(hook["sideEffects"], "NoneOnDryRun" if hook["name"].startswith("gate.") else "None")
            self.assertIn(hook["clientConfig"]["service"]["path"], ("/webhook/mutate", "/webhook/validate"))
            expression, = hook["namespaceSelector"]["matchExpressions"]
            self.assertEqual((expression["operator"], sorted(expression["values"])), ("NotIn", ["gputopo-system", "kube-system"]))

    def test_the_script_makes_certificates_that_fit(self):
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(scratch) / "tls"
            for _ in range(2):  # the second run renews, under the same CA
                before = (directory / "ca.crt").read_bytes() if directory.exists() else None
                subprocess.run([DAEMONSET / "tls", directory, "10.1.2.3", "extender.example.com"], check=True)
            self.assertEqual((directory / "ca.crt").read_bytes(), before)
            told = subprocess.run(["openssl", "x509", "-in", directory / "tls.crt", "-noout", "-ext", "subjectAltName"],
                                  stdout=subprocess.PIPE, text=True, check=True).stdout
            for name in ("DNS:gputopo-scheduler.gputopo-system.svc", "DNS:extender.example.com", "IP Address:10.1.2.3"):
                self.assertIn(name, told)
            for file, purpose in (("tls.crt", "sslserver"), ("scheduler.crt", "sslclient")):
                subprocess.run(["openssl", "verify", "-purpose", purpose, "-CAfile", directory / "ca.crt", directory / file],
                               check=True, stdout=subprocess.DEVNULL)
            for key in directory.glob("*.key"):
                self.assertEqual(key.stat().st_mode & 0o077, 0, key)
            component, = documents(directory / "kustomization.yaml")
            secret, = component["secretGenerator"]
            self.assertEqual((secret["name"], secret["namespace"]), ("gputopo-scheduler-tls", "gputopo-system"))
            objects = build(DAEMONSET / "base")
            add_component(objects, DAEMONSET / "components/placement")
            patch_all(objects, component)
            for kind in ("Mutating", "Validating"):
                for hook in one(objects, f"{kind}WebhookConfiguration", "gputopo-scheduler")["webhooks"]:
                    self.assertTrue(hook["clientConfig"]["caBundle"])

    def test_a_wish_for_everything_is_one_command(self):
        self.assertEqual(build(DAEMONSET), self.objects)
        kinds = [item["kind"] for item in self.objects]
        self.assertEqual((kinds[0], kinds.count("CustomResourceDefinition")), ("Namespace", 3))


@unittest.skipUnless(all((BUILD / "bin" / name).exists() for name in PROGRAMS), "the programs are not built")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.directory = pathlib.Path(scratch.name)
        cls.archive = cls.make("one.tar")
        with tarfile.open(cls.archive) as tar:
            tar.extractall(cls.directory / "oci")
        cls.index = json.loads((cls.directory / "oci/index.json").read_text())
        cls.manifest = json.loads(cls.blob(cls.index["manifests"][0]))
        layer = cls.directory / "layer.tar.gz"
        layer.write_bytes(cls.blob(cls.manifest["layers"][0]))
        cls.tree = cls.directory / "tree"
        with tarfile.open(layer) as tar:
            cls.members = tar.getmembers()
            tar.extractall(cls.tree)

    @classmethod
    def make(cls, name, *more):
        out = cls.directory / name
        subprocess.run([DAEMONSET / "image", BUILD, out, *more], check=True, stdout=subprocess.DEVNULL)
        return out

    @classmethod
    def blob(cls, descriptor):
        return (cls.directory / "oci/blobs/sha256" / descriptor["digest"].split(":")[1]).read_bytes()

    def test_names(self):
        names = self.index["manifests"][0]["annotations"]
        self.assertEqual(names["io.containerd.image.name"], f"localhost/gputopo:{VERSION}")

    def test_the_page_lists_what_is_in_it(self):
        if BUILD.name != "build" or platform.machine() != "x86_64":
            self.skipTest("the page is about the release, on amd64")
        done = subprocess.run([ROOT / "release/contents.py", BUILD, "--check"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_same_input_gives_the_same_bytes(self):
        self.assertEqual(self.make("two.tar").read_bytes(), self.archive.read_bytes())

    def test_programs_run_with_what_is_in_it(self):
        loader, = [path for path in self.tree.glob("lib*/ld-linux*")]
        libraries = ":".join(str(path) for path in (*self.tree.glob("lib/*-linux-*"), *self.tree.glob("usr/lib/*-linux-*")))
        for program in PROGRAMS:
            done = subprocess.run([loader, "--inhibit-cache", "--library-path", libraries, self.tree / "usr/bin" / program,
                                   "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
            self.assertEqual(done.returncode, 0, f"{program}: {done.stdout}")

    def test_nothing_odd_is_in_it(self):
        for member in self.members:
            self.assertTrue(member.isdir() or member.isfile(), member.name)
            self.assertEqual((member.uid, member.gid, member.mtime, member.mode & 0o6000), (0, 0, 0, 0), member.name)
        names = {member.name for member in self.members}
        self.assertFalse({name for name in names if name.endswith(("/sh", "/bash"))})
        self.assertIn("usr/share/doc/gputopo/copyright", names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
