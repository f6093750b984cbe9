# SPDX-License-Identifier: Apache-2.0
"""Schedulers and operators of a cluster beside those that ../up starts: as processes of its control plane, each with the
configuration of daemonset/examples."""
import base64
import os
import re
import signal
import textwrap

import yaml

from .account import Account
from .cluster import children
from .install import DAEMONSET, EXAMPLES
from .placed import APPLY
from .waiting import Failed, same, until

CONTROL = "10.77.0.1"  # the control plane's address among the nodes


class Program:
    """A process of the control plane; its output goes to log/NAME."""

    def __init__(self, cluster, name, *command):
        self.cluster, self.name, self.command = cluster, name, command
        self.process = None

    def start(self):
        log = open(self.cluster.state / "log" / self.name, "a")
        self.process = self.cluster.enter("control", *self.command, stdout=log, stderr=log, start_new_session=True)
        return self

    def alive(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with {self.process.returncode}: {self.log()[-500:]}")
        return True

    def pid(self):
        """nsenter stays between us and what it runs in another PID namespace."""
        return until(f"the process of {self.name}", lambda: children(self.process.pid), 30, 0.02)[0]

    def stop(self):
        if self.process and self.process.poll() is None:
            os.kill(self.pid(), signal.SIGKILL)
            self.process.wait(60)

    def log(self):
        return (self.cluster.state / "log" / self.name).read_text(errors="replace")

    def said(self, text):
        return text in self.log()


# For a program whose certificate lies at a fixed place below /tmp: that becomes its own, but for the cluster's directory.
OWN_TMP = textwrap.dedent("""
        state=$1 program=$2 directory=/tmp/k8s-webhook-server/serving-certs
        mount --bind "$state" /mnt
        mount -t tmpfs tmp /tmp
        mkdir -p "$state" "$directory"
        mount --bind /mnt "$state"
""")


def webhook_client(cluster, url):
    """Of a program outside a pod, whose certificate is of the cluster's CA."""
    return {"url": url, "caBundle": base64.b64encode((cluster.state / "pki" / "ca.crt").read_bytes()).decode()}


def apply_webhooks(cluster, file, name, url, kept=""):
    """Those whose path matches `kept`; our own pods and the cluster's need none of them."""
    for webhooks in yaml.safe_load_all(file.read_text()):
        if not webhooks:
            continue
        webhooks["metadata"]["name"] = f"{name}-{webhooks['metadata']['name']}"
        hooks = [{**hook, "clientConfig": webhook_client(cluster, url + path), "namespaceSelector": {"matchExpressions": [
                     {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "gputopo-system"]}]}}
                 for hook in webhooks["webhooks"] for path in [hook["clientConfig"]["service"]["path"]] if re.search(kept, path)]
        cluster.kubectl("apply", "--server-side", "-f", "-", data={**webhooks, "webhooks": hooks})


class ExtendedKubeScheduler:
    """A second kube-scheduler, for pods with schedulerName gpu-scheduler, that asks the companion."""
    NAME = "gpu-scheduler"

    def __init__(self, placed):
        self.placed, self.cluster = placed, placed.cluster
        state = self.cluster.state
        self.file = state / "gpu-scheduler.yaml"
        self.program = Program(self.cluster, self.NAME, "kube-scheduler", f"--config={self.file}", "--secure-port=10359", "-v=3",
                               f"--authentication-kubeconfig={state}/scheduler.kubeconfig",
                               f"--authorization-kubeconfig={state}/scheduler.kubeconfig")

    def start(self):
        state = self.cluster.state
        text = (EXAMPLES / "kube-scheduler.yaml").read_text()
        values = {"kubeconfig": f"{state}/scheduler.kubeconfig", "leaderElect": "false",
                  "urlPrefix": f"https://{self.placed.address()}:9443/kube-scheduler",  # no kube-proxy: the pod's address
                  "caFile": f"{self.placed.tls}/ca.crt", "certFile": f"{self.placed.tls}/scheduler.crt",
                  "keyFile": f"{self.placed.tls}/scheduler.key"}
        for key, value in values.items():
            text, count = re.subn(rf"(?m)^(\s*(?:- )?{key}: )\S+", rf"\g<1>{value}", text)
            if count != 1:
                raise Failed(f"the example has {count} lines of {key}")
        self.file.write_text(text + f"profiles: [{{schedulerName: {self.NAME}}}]\n")
        self.program.start()
        until("gpu-scheduler to run", lambda: self.program.alive() and self.program.said("Caches are synced"), 60)

    def stop(self):
        self.program.stop()


class Volcano:
    """Scheduler, controllers and webhooks of Volcano, by its own installation file where the API is concerned."""
    SERVICE = "volcano-admission-service"

    def __init__(self, placed, directory, scheduler=None):
        """`scheduler`: the one with our plugins, which then has no more rights than its account; None: Volcano's own."""
        self.placed, self.cluster, self.directory, self.ours = placed, placed.cluster, directory, scheduler
        self.configuration = self.cluster.state / "volcano" / "volcano-scheduler.conf"  # alone in its directory
        state = self.cluster.state
        admin = f"--kubeconfig={state}/admin.kubeconfig"
        self.programs = [
            Program(self.cluster, "vc-scheduler", scheduler or "vc-scheduler",
                    f"--kubeconfig={state}/volcano-scheduler.kubeconfig" if scheduler else admin, f"--scheduler-conf={self.configuration}",
                    "--leader-elect=false", "--listen-address=127.0.0.1:8180", "--healthz-address=127.0.0.1:11251",
                    "--cache-dumper=false", "-v=3"),
            Program(self.cluster, "vc-controller-manager", "vc-controller-manager", admin, "--leader-elect=false",
                    "--listen-address=127.0.0.1:8181", "--healthz-address=127.0.0.1:11252", "-v=3"),
            Program(self.cluster, "vc-webhook-manager", "vc-webhook-manager", admin, "--listen-address=0.0.0.0",
                    "--port=8443", f"--tls-cert-file={state}/volcano.crt", f"--tls-private-key-file={state}/volcano.key",
                    f"--ca-cert-file={state}/pki/ca.crt", "--webhook-namespace=volcano-system",
                    f"--webhook-service-name={self.SERVICE}", *self.admissions(), "-v=3")]

    def start(self, configuration):
        cluster = self.cluster
        cluster.kubectl("apply", "--server-side", "-f", self.directory / "crd")
        cluster.kubectl("create", "namespace", "volcano-system")
        self.make_certificate()
        self.configuration.parent.mkdir()
        self.configure(configuration)
        webhooks = self.installed("volcano-webhooks.yaml", r"(?m)^kind: (Mutating|Validating)WebhookConfiguration$")
        if self.ours:
            account = self.installed("volcano-account.yaml", r"(?ms)^kind: (ServiceAccount|ClusterRole|ClusterRoleBinding)$.*name: volcano-scheduler")
            cluster.kubectl("apply", "--server-side", "-f", account, "-f", DAEMONSET / "components" / "volcano" / "rbac.yaml")
            Account(cluster, "volcano-scheduler", cluster.kubectl("create", "token", "volcano-scheduler", "-n", "volcano-system", "--duration=6h"))
        for manifest in (
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.SERVICE, "namespace": "volcano-system"},
                 "spec": {"ports": [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]}},
                {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                 "metadata": {"name": self.SERVICE, "namespace": "volcano-system",
                              "labels": {"kubernetes.io/service-name": self.SERVICE}},
                 "ports": [{"name": "", "port": 8443, "protocol": "TCP"}],
                 "endpoints": [{"addresses": [CONTROL], "conditions": {"ready": True}}]},
                {"apiVersion": "v1", "kind": "Endpoints",  # which API servers of 1.26 ask for a webhook's address
                 "metadata": {"name": self.SERVICE, "namespace": "volcano-system", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
                 "subsets": [{"addresses": [{"ip": CONTROL}], "ports": [{"port": 8443, "protocol": "TCP"}]}]}):
            cluster.kubectl(*APPLY, "-f", "-", data=manifest)
        cluster.kubectl("apply", "--server-side", "-f", webhooks)
        scheduler, controllers, webhooks = self.programs
        webhooks.start()
        until("Volcano's webhooks", lambda: webhooks.alive() and self.answers(), 60)
        scheduler.start()
        controllers.start()
        until("the default queue", lambda: any(
            item["metadata"]["name"] == "default" and item.get("status", {}).get("state") == "Open"
            for item in cluster.get("queues")["items"]), 60)

    def installed(self, file, pattern):
        """A file with those parts of Volcano's installation that match."""
        path = self.cluster.state / file
        path.write_text("\n---\n".join(part for part in (self.directory / "installer.yaml").read_text().split("\n---\n")
                                        if re.search(pattern, part)))
        return path

    def admissions(self):
        """As Volcano itself installs them, without the one that its installation file has no webhook for."""
        text = (self.directory / "installer.yaml").read_text()
        paths = re.search(r"--enabled-admission=(\S+)", text).group(1).split(",")
        return ["--enabled-admission=" + ",".join(
            path for path in paths if f"name: {self.SERVICE}{path.replace('/', '-')}\n" in text)]

    def answers(self):
        """A Volcano Job without tasks is refused by Volcano's webhook, if it is there."""
        try:
            self.cluster.kubectl("create", "--dry-run=server", "-f", "-", data={
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
                "metadata": {"name": "none", "namespace": "default"}, "spec": {"schedulerName": "volcano"}})
        except Failed as refusal:
            return "No task specified" in str(refusal) or (False, str(refusal)[-200:])
        return False, "it was admitted"

    def make_certificate(self):
        names = f"DNS:{self.SERVICE}.volcano-system.svc"
        self.cluster.ask("control", "sh", "-euc", """
            cd "$1"
            openssl req -newkey rsa:2048 -nodes -keyout volcano.key -out volcano.csr -subj /CN=volcano 2>/dev/null
            echo "subjectAltName=$2" >volcano.ext
            openssl x509 -req -in volcano.csr -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 -out volcano.crt \\
                -extfile volcano.ext 2>/dev/null""", "sh", self.cluster.state, names)

    def configure(self, text):
        """Written at once: the scheduler reads it again at every change, and has taken it with its next cycle."""
        part = self.cluster.state / "volcano-scheduler.part"
        part.write_text(text)
        part.rename(self.configuration)

    def reload(self, text):
        """Until the scheduler has taken another configuration."""
        before = len(self.programs[0].log())
        self.configure(text)
        until("the scheduler to take the configuration",
              lambda: "Finished loading scheduler config" in self.programs[0].log()[before:])

    def rounds(self, count):
        """Until the scheduler has looked at everything so often, from beginning to end."""
        before = self.programs[0].log().count("Close Session ")
        until(f"{count} rounds of the scheduler", lambda: self.programs[0].log().count("Close Session ") > before + count)

    def with_us(self, actions=None, **more):
        """The configuration of daemonset/examples, with the address of the companion's pod."""
        text = (EXAMPLES / "volcano-scheduler.yaml").read_text().split("volcano-scheduler.conf: |\n")[1]
        text = "\n".join(line[4:] for line in text.splitlines()) + "\n"
        address = "gputopo-scheduler.gputopo-system.svc:9401"
        if address not in text:
            raise Failed("the example asks somebody else")
        text = text.replace(address, f"{self.placed.address()}:9401")
        return self.with_actions(text, actions)

    @staticmethod
    def manual(file):
        """What a ConfigMap of the vendor's manual in daemonset/examples says."""
        return next(yaml.safe_load_all((EXAMPLES / file).read_text()))["data"]["volcano-scheduler.conf"]

    def with_plugins(self):
        """The manual's two ConfigMaps in one: gpu-podaffinity in the first tier, gpu-aware behind binpack."""
        text, count = re.subn(r"(?m)^( *)- name: binpack\n", r"\g<0>\g<1>- name: gpu-aware\n\g<1>  arguments: {weight: 1, loss.weight: 0.5}\n",
                              self.manual("manual-gpu-podaffinity.yaml"))
        same(count, 1, "lines of binpack in the manual's ConfigMap")
        return text

    def without_us(self, actions=None):
        return self.with_actions(self.with_us().split("  - name: extender\n")[0], actions)

    @staticmethod
    def with_actions(text, actions):
        return re.sub(r'^actions: ".*"', f'actions: "{actions}"', text) if actions else text

    def stop(self):
        for program in self.programs:
            program.stop()


class TrainingOperator:
    """Kubeflow's, outside a pod. In one it would find its certificate, which it makes itself, where the kubelet mounts the
    secret; here it gets a /tmp of its own, and a copy there."""
    SECRET = "training-operator-webhook-cert"
    START = OWN_TMP + textwrap.dedent("""\
        (
            until kubectl get secret -n kubeflow {secret} -o 'jsonpath={{.data.tls\\.crt}}' | grep -q .; do sleep .2; done
            cd "$directory"
            kubectl get secret -n kubeflow {secret} -o json | /usr/bin/python3 -c '
        import base64, json, pathlib, sys
        for name, text in sorted(json.load(sys.stdin)["data"].items(), key=lambda item: item[0] == "tls.crt"):
            part = pathlib.Path("part") # the operator ends where it finds a file without content
            part.write_bytes(base64.b64decode(text))
            part.rename(name)'
        ) &
        shift 2
        exec "$program" "$@"
    """).format(secret=SECRET)

    def __init__(self, cluster, directory, gang=True, init=None, kinds=("pytorchjob",)):
        """`gang`: it makes PodGroups of Volcano. `init`: a file with the init containers of workers."""
        self.cluster, self.directory, self.kinds = cluster, directory, kinds
        self.program = Program(
            cluster, "training-operator", "unshare", "--mount", "env", "MY_POD_NAMESPACE=kubeflow", "sh", "-euc", self.START,
            "sh", cluster.state, directory / "training-operator.v1", *(["--gang-scheduler-name=volcano"] if gang else []),
            *([f"--pytorch-init-container-template-file={init}"] if init else []),
            *(f"--enable-scheme={kind}" for kind in kinds), "--pytorch-init-container-image=local.test/pause:1",
            "--metrics-bind-address=127.0.0.1:8182", "--health-probe-bind-address=127.0.0.1:8183")

    def start(self):
        self.cluster.kubectl("apply", "--server-side", "-f", self.directory / "crd")
        self.cluster.kubectl("create", "namespace", "kubeflow")
        for manifest in (
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.SECRET, "namespace": "kubeflow"}},
                {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                 "metadata": {"name": "validator.training-operator.kubeflow.org"}}):
            self.cluster.kubectl(*APPLY, "-f", "-", data=manifest)
        self.program.start()
        until("the training operator", lambda: self.program.alive() and self.program.said("Serving webhook server") and all(
            re.search(f"Starting workers.*{kind}", self.program.log()) for kind in self.kinds), 90)

    def stop(self):
        self.program.stop()


class DlroverMaster:
    """dlrover's own master of a job, as dlrover's operator starts it in a pod; it makes the workers, and makes them again. The operator
    is a Go module that the module proxy does not have."""

    def __init__(self, cluster, packages, job):
        self.program = Program(cluster, f"dlrover-{job}", "env", f"PYTHONPATH={packages}", f"POD_IP={CONTROL}",
                               f"KUBECONFIG={cluster.state}/admin.kubeconfig", "/usr/bin/python3", "-m", "dlrover.python.master.main",
                               "--platform=pyk8s", "--namespace=default", f"--job_name={job}", "--port=50001")

    def start(self):
        self.program.start()

    def stop(self):
        self.program.stop()


class Kueue:
    """Outside a pod. It reads certificates from fixed places, one of them below /etc: it gets an /etc of its own."""
    URL = f"https://{CONTROL}:9443"
    START = textwrap.dedent("""
        state=$1 program=$2
        openssl req -newkey rsa:2048 -nodes -keyout "$state/kueue/tls.key" -out "$state/kueue/tls.csr" -subj /CN=kueue 2>/dev/null
        echo "subjectAltName=IP:{control}" >"$state/kueue/ext"
        openssl x509 -req -in "$state/kueue/tls.csr" -CA "$state/pki/ca.crt" -CAkey "$state/pki/ca.key" -CAcreateserial -days 30 \\
            -out "$state/kueue/tls.crt" -extfile "$state/kueue/ext" 2>/dev/null
        cp -a /etc "$state/kueue/etc"
        mkdir -p "$state/kueue/etc/kueue/metrics/certs"
        cp "$state/kueue/tls.crt" "$state/kueue/tls.key" "$state/kueue/etc/kueue/metrics/certs"
        mount --bind "$state/kueue/etc" /etc
        shift 2
        exec "$program" "$@"
    """).format(control=CONTROL)
    CONFIGURATION = """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        namespace: kueue-system
        health: {{healthProbeBindAddress: "127.0.0.1:8184"}}
        metrics: {{bindAddress: "127.0.0.1:8185"}}
        webhook: {{port: 9443, certDir: {directory}}}
        leaderElection: {{leaderElect: false}}
        internalCertManagement: {{enable: false}}
        integrations: {{frameworks: [{frameworks}]}}
    """
    CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
    HOOKS = "-kueue-x-k8s-io-|-batch-v1-job$|--v1-pod$"

    def __init__(self, cluster, directory, *frameworks):
        """`frameworks`: its integrations beside Jobs and pods; their definitions have to be there when it starts."""
        self.cluster, self.directory, self.frameworks = cluster, directory, frameworks
        self.own = cluster.state / "kueue"
        self.program = Program(
            cluster, "kueue", "unshare", "--mount", "env", f"KUBECONFIG={cluster.state}/admin.kubeconfig", "sh", "-euc", self.START, "sh",
            cluster.state, directory / "kueue", f"--config={self.own}/config.yaml", "--feature-gates=VisibilityOnDemand=false",
            "--zap-log-level=2")

    def start(self):
        self.own.mkdir()
        (self.own / "config.yaml").write_text(textwrap.dedent(self.CONFIGURATION.format(
            directory=self.own, frameworks=", ".join(("batch/job", "pod", *self.frameworks)))))
        for file in sorted((self.directory / "crd").iterdir()):
            definition = yaml.safe_load(file.read_text())
            if definition["spec"]["names"]["plural"] in self.CONVERTED:
                definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {
                    "clientConfig": webhook_client(self.cluster, self.URL + "/convert"), "conversionReviewVersions": ["v1"]}}
            self.cluster.kubectl("apply", "--server-side", "-f", "-", data=definition)
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "crd", "--all")  # else it ends
        self.cluster.kubectl("create", "namespace", "kueue-system")
        self.program.start()
        until("Kueue", lambda: self.program.alive() and self.program.said("Serving webhook server"), 90)
        kinds = [f"-{framework.split('/')[1]}$" for framework in self.frameworks]
        apply_webhooks(self.cluster, self.directory / "webhooks.yaml", "kueue", self.URL, "|".join([self.HOOKS, *kinds]))

    def stop(self):
        """Its webhooks go with it: they would refuse the pods of everybody."""
        for kind in ("mutating", "validating"):
            names = self.cluster.kubectl("get", f"{kind}webhookconfigurations", "-o", "name").split()
            for name in (name for name in names if "/kueue-" in name):
                self.cluster.kubectl("delete", name)
        self.program.stop()


def define_kinds(cluster, directory, *names):
    """Those named, else every one. All at the beginning: the garbage collector, for which a deletion waits, looks for new ones every 30 seconds."""
    cluster.kubectl("apply", "--server-side", *(
        f"--filename={files}" for name in names or ["*"] for files in sorted(directory.glob(f"more/{name}/crd"))))
    until("the definitions", lambda: all(any(one["type"] == "Established" and one["status"] == "True" for one in
                                             item["status"].get("conditions") or []) for item in cluster.get("crd")["items"]))


class KindController:
    """Of one kind of jobs, outside a pod: each has a /tmp of its own, where it looks for its certificate."""
    START = OWN_TMP + textwrap.dedent("""\
        openssl req -newkey rsa:2048 -nodes -keyout "$directory/tls.key" -out /tmp/csr -subj /CN=kinds 2>/dev/null
        echo "subjectAltName=IP:{control}" >/tmp/ext
        openssl x509 -req -in /tmp/csr -CA "$state/pki/ca.crt" -CAkey "$state/pki/ca.key" -CAserial /tmp/serial -CAcreateserial \\
            -days 30 -out "$directory/tls.crt" -extfile /tmp/ext 2>/dev/null
        shift 2
        exec "$program" "$@"
    """).format(control=CONTROL)
    CONFIGURATION = """
        apiVersion: config.{group}/v1alpha1
        kind: Configuration
        health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
        metrics: {{bindAddress: "0"}}
        webhook: {{port: {port}, host: ""}}
        leaderElection: {{leaderElect: false}}
        {certificates}: {{enable: false}}
    """

    def __init__(self, cluster, directory, name, group, port, namespace, certificates="internalCertManagement"):
        self.cluster, self.name, self.port, self.namespace = cluster, name, port, namespace
        self.files, self.configuration = directory / "more" / name, cluster.state / f"{name}.yaml"
        self.text = textwrap.dedent(self.CONFIGURATION.format(group=group, port=port, health=port + 100, certificates=certificates))
        self.program = Program(cluster, name, "unshare", "--mount", "env", f"KUBECONFIG={cluster.state}/admin.kubeconfig", "sh", "-euc",
                               self.START, "sh", cluster.state, directory / name, f"--config={self.configuration}")

    def start(self):
        self.configuration.write_text(self.text)
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.program.start()
        until(self.name, lambda: self.program.alive() and self.program.said("Serving webhook server"), 90)
        apply_webhooks(self.cluster, self.files / "webhooks.yaml", self.name, f"https://{CONTROL}:{self.port}")

    def stop(self):
        self.program.stop()


class PlainController:
    """Of one kind of jobs, outside a pod, without webhooks."""

    def __init__(self, cluster, directory, name, ready, *arguments):
        self.cluster, self.name, self.ready = cluster, name, ready
        self.program = Program(cluster, name, "env", f"KUBECONFIG={cluster.state}/admin.kubeconfig", directory / name, *arguments)

    def start(self):
        self.program.start()
        until(self.name, lambda: self.program.alive() and re.search(self.ready, self.program.log()), 90)

    def stop(self):
        self.program.stop()


def mpi_operator(cluster, directory):
    return PlainController(cluster, directory, "mpi-operator", "Started workers", "-lock-namespace=default", "-kube-api-qps=50",
                           "-kube-api-burst=100")


def ray_operator(cluster, directory):
    return PlainController(cluster, directory, "ray-operator", "RayService.*Starting workers", "--enable-leader-election=false",
                           "--metrics-addr=127.0.0.1:8186", "--health-probe-bind-address=127.0.0.1:8187")


def kind_controllers(cluster, directory, trainer=None):
    """Of JobSets, LeaderWorkerSets and TrainJobs. `trainer`: the directory of another one."""
    return [KindController(cluster, directory, "jobset", "jobset.x-k8s.io", 9543, "jobset-system"),
            KindController(cluster, directory, "lws", "lws.x-k8s.io", 9544, "lws-system"),
            KindController(cluster, trainer or directory, "trainer-controller-manager", "trainer.kubeflow.org", 9545, "kubeflow-system", "certManagement")]
