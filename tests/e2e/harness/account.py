# SPDX-License-Identifier: Apache-2.0
"""kubectl as another user: with the token of a service account."""
import json
import subprocess

from .waiting import Failed

CONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "https://10.96.0.1:443", certificate-authority: {state}/pki/ca.crt}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""


class Account:
    def __init__(self, cluster, name, token):
        self.cluster, self.name = cluster, name
        self.file = cluster.state / f"{name}.kubeconfig"
        self.file.write_text(CONFIG.format(state=cluster.state, token=token.strip()))

    def run(self, *arguments, data=None):
        """(exit code, standard output, standard error)"""
        process = self.cluster.enter("control", "kubectl", "--kubeconfig", self.file, *arguments, text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(None if data is None else json.dumps(data), 60)
        return process.returncode, out, err

    def may(self, *arguments, data=None):
        code, out, err = self.run(*arguments, data=data)
        if code != 0:
            raise Failed(f"{self.name} may not {' '.join(arguments)}: {err.strip()[-400:]}")
        return out

    def may_not(self, why, *arguments, data=None):
        """`why` has to be in the refusal."""
        code, out, err = self.run(*arguments, data=data)
        if code == 0:
            raise Failed(f"{self.name} may {' '.join(arguments)}, which had to be refused: {out.strip()[-200:]}")
        if why not in " ".join(err.split()):
            raise Failed(f"{self.name}: {' '.join(arguments)} was refused for another reason than '{why}': {err.strip()[-400:]}")


def apply(manager, *more):
    """Arguments of a server-side apply as a program does it."""
    return ("apply", "--server-side", "--force-conflicts", "--validate=false", f"--field-manager={manager}", *more, "-f", "-")


def patch(what, name, body, *more):
    return ("patch", what, name, "--type=merge", "-p", json.dumps(body), *more)
