# SPDX-License-Identifier: Apache-2.0
"""cert-manager's controllers and its injector of CAs, outside a pod."""
from .schedulers import Program
from .waiting import until


class CertManager:
    def __init__(self, cluster, directory):
        """`directory`: where ../build has put the program and the custom resources."""
        self.cluster, self.directory = cluster, directory
        self.program = Program(cluster, "cert-manager", directory / "cert-manager")

    def start(self):
        self.cluster.kubectl("apply", "--server-side", "-f", self.directory / "crd")
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=290s", "-f", self.directory / "crd")
        self.program.start()
        until("cert-manager", lambda: self.program.alive() and self.program.said("Starting workers"), 60)

    def stop(self):
        self.program.stop()
