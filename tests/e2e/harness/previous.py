# SPDX-License-Identifier: Apache-2.0
"""What an operator upgrades from: chart, manifests and programs of earlier commits."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from .install import DAEMONSET
from .waiting import Failed

ROOT = DAEMONSET.parent
PROGRAMS = ("gputopo", "gputopo-agent", "gputopo-probe", "gputopo-scheduler")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{command[0]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout.strip()


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def commits():
    """The commits before the last two changes of a custom resource's definition, the latest first: there are no other releases yet. Fewer where
    the history is not here."""
    return [before for change in git("log", "-2", "--format=%h", "--", "daemonset/crds")
            for before in git("rev-parse", "--short", "--verify", "--quiet", f"{change}^")]


def version(of):
    return f"0.0.0-g{of}"


def extract(of, to, *paths):
    to.mkdir(parents=True)
    run("git", "-C", ROOT, "archive", "--output", f"{to}.tar", of, *paths)
    run("tar", "-xf", f"{to}.tar", "-C", to)


def daemonset(of, directory):
    """daemonset/ of that commit; its chart has a version of its own."""
    extract(of, directory / of, "daemonset")
    chart = directory / of / "daemonset/chart/Chart.yaml"
    chart.write_text(re.sub(r"^(version|appVersion): .*", rf"\1: {version(of)}", chart.read_text(), flags=re.M))
    return directory / of / "daemonset"


def archive(of):
    """An OCI archive of that commit, which bears the tag of such a chart; made once, as it takes minutes."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "gputopo/e2e")
    made = cache / f"release-{of}.tar"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gputopo-previous.") as directory:
        source, build = pathlib.Path(directory, "source"), pathlib.Path(directory, "build")
        extract(of, source)
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        environment = {**os.environ, "CCACHE_BASEDIR": directory, "CCACHE_NOHASHDIR": "1"}
        run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *launcher, env=environment)
        run("ninja", "-C", build, *PROGRAMS, env=environment)
        run(DAEMONSET / "image", build, f"{directory}/image.tar", "--name", f"localhost/gputopo:{version(of)}")
        cache.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"{directory}/image.tar", f"{made}.{os.getpid()}")
        os.replace(f"{made}.{os.getpid()}", made)
    return made
