#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The packages made from a build, and their metadata: test_packages.py BUILD_DIR VERSION [unittest arguments]"""
import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
BUILD, VERSION = pathlib.Path(sys.argv.pop(1)).resolve(), sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
MAINTAINER = "A Maintainer <maintainer@example.com>"
PROGRAMS = ("gputopo", "gputopo-agent", "gputopo-probe", "gputopo-scheduler")
# what lintian says and we mean: gRPC brings its zlib; the daemons' pages are Markdown; nobody filed a bug to ask for it
KNOWN = {"embedded-library", "no-manual-page", "initial-upload-closes-no-bugs"}


def ask(*command, **options):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, text=True, **options).stdout


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", ask("readelf", "-d", program)))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.directory = pathlib.Path(scratch.name)


class Commit(Case):
    """What --version says."""

    def setUp(self):
        self.source = self.directory / self._testMethodName
        (self.source / "cmake").mkdir(parents=True)
        shutil.copy(ROOT / "cmake/commit", self.source / "cmake")

    def header(self, *options):
        out = self.source / "out/commit.h"
        ask("cmake", "-D", f"SOURCE={self.source}", "-D", f"OUT={out}", *options, "-P", ROOT / "cmake/commit.cmake")
        return out, re.fullmatch(r'#define GPUTOPO_COMMIT "(.*)"\n', out.read_text()).group(1)

    def git(self, *arguments):
        return ask("git", "-C", self.source, "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments).strip()

    def test_every_program_says_the_same(self):
        said = {name: ask(BUILD / "bin" / name, "--version") for name in PROGRAMS}
        for name, line in said.items():
            self.assertRegex(line, rf"^{name} {re.escape(VERSION)} \(([0-9a-f]{{12}}(-dirty)?|unknown)\)\n$")
        self.assertEqual(len({line.split(" ", 1)[1] for line in said.values()}), 1, said)

    def test_a_checkout(self):
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "one")
        self.git("tag", "v9.9")
        commit = self.git("rev-parse", "--short=12", "HEAD")
        out, said = self.header()
        self.assertEqual(said, commit)
        os.utime(out, (0, 0))
        self.header()
        self.assertEqual(out.stat().st_mtime, 0, "a header that is true already is left alone")
        (self.source / "cmake/commit").write_text("$Format:%H %ct$\n\n")
        self.assertEqual(self.header()[1], commit + "-dirty")

    def test_an_archive(self):
        shutil.copy(ROOT / ".gitattributes", self.source)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "one")
        commit, time = self.git("log", "-1", "--format=%H %ct").split()
        archive = subprocess.run(["git", "-C", self.source, "archive", "HEAD"], stdout=subprocess.PIPE, check=True).stdout
        shutil.rmtree(self.source / ".git")
        subprocess.run(["tar", "-x", "-C", self.source], input=archive, check=True)
        self.assertEqual((self.source / "cmake/commit").read_text(), f"{commit} {time}\n")
        self.assertEqual(self.header()[1], commit[:12])

    def test_neither(self):
        self.assertEqual(self.header()[1], "unknown")
        self.assertEqual(self.header("-D", "COMMIT=mine")[1], "mine")


class Bill(Case):
    """The SPDX document in the image is true of the image."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = cls.directory / "tree"
        cls.file = cls.directory / "sbom.json"
        ask(ROOT / "daemonset/image", BUILD, cls.tree, "--tree", "--sbom", cls.file)
        cls.bill = json.loads(cls.file.read_text())
        cls.packages = {package["SPDXID"]: package for package in cls.bill["packages"]}
        cls.files = {file["SPDXID"]: file for file in cls.bill["files"]}

    def related(self, one, kind):
        return {self.packages[relation["relatedSpdxElement"]]["name"] for relation in self.bill["relationships"]
                if (relation["spdxElementId"], relation["relationshipType"]) == (one, kind)}

    def test_it_is_in_the_image(self):
        self.assertEqual((self.tree / "usr/share/doc/gputopo/sbom.spdx.json").read_bytes(), self.file.read_bytes())

    def test_references(self):
        known = {"SPDXRef-DOCUMENT", *self.packages, *self.files}
        self.assertEqual(len(known), 1 + len(self.bill["packages"]) + len(self.bill["files"]), "identifiers are not unique")
        for relation in self.bill["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
        licences = {licence["licenseId"] for licence in self.bill["hasExtractedLicensingInfos"]}
        self.assertEqual({package["licenseDeclared"] for package in self.packages.values()} - {"Apache-2.0"}, licences)

    def test_every_file_is_listed_and_is_that_file(self):
        elf = {"./" + str(path.relative_to(self.tree)) for path in self.tree.rglob("*")
               if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"}
        self.assertEqual({file["fileName"] for file in self.files.values()}, elf)
        for file in self.files.values():
            data = (self.tree / file["fileName"]).read_bytes()
            for checksum in file["checksums"]:
                self.assertEqual(hashlib.new(checksum["algorithm"].lower(), data).hexdigest(), checksum["checksumValue"])

    def test_versions_are_dpkgs(self):
        for package in self.packages.values():
            if package["name"] != "gputopo":
                self.assertIn(package["versionInfo"], ask("dpkg-query", "-W", "-f", "${Version}\n", package["name"]).splitlines())

    def test_links_and_licences(self):
        for name in PROGRAMS:
            file, = [file for file in self.files.values() if file["fileName"] == f"./usr/bin/{name}"]
            dynamic = self.related(file["SPDXID"], "DYNAMIC_LINK")
            gpl = "libpci.so.3" in needed(BUILD / "bin" / name)
            self.assertEqual("libpci3" in dynamic, gpl, name)
            self.assertEqual(file["licenseConcluded"], "GPL-3.0-only" if gpl else "Apache-2.0", name)
            static = self.related(file["SPDXID"], "STATIC_LINK")
            self.assertEqual(static, {"libabsl-dev", "libc-ares-dev", "libgrpc-dev", "libre2-dev", "libstdc++-12-dev", "zlib1g-dev"}
                             if name == "gputopo-agent" else set(), name)
            for package in static:
                self.assertIn(package, (ROOT / "release/copyright").read_text())

    def test_the_licences_are_there(self):
        """Of everything that is linked or contained, and the texts that these refer to."""
        names = {package["name"] for package in self.packages.values()}
        self.assertLessEqual({"libgrpc-dev", "libpci3", "libc6", "gputopo"}, names)
        for name in names:
            text = (self.tree / "usr/share/doc" / name / "copyright").read_text(errors="replace")
            for reference in re.findall(r"/usr/share/common-licenses/[A-Z]+-[\d.]*\d", text):
                self.assertTrue((self.tree / reference.lstrip("/")).exists(), f"{name}: {reference}")
        for name in ("GPL-2", "GPL-3", "Apache-2.0"):
            self.assertTrue((self.tree / "usr/share/common-licenses" / name).exists(), name)

    def test_a_validator(self):
        try:
            from spdx_tools.spdx.parser.parse_anything import parse_file
            from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
        except ImportError:
            self.skipTest("no spdx-tools")
        self.assertEqual([str(message) for message in validate_full_spdx_document(parse_file(str(self.file)))], [])


class Client(Case):
    """The archive of the static client, which says what the program contains."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        texts = {name: cls.directory / name for name in ("curl", "openssl")}
        for name, path in texts.items():
            path.write_text(f"the licence of {name}")
        told = f"curl 7.88.1-10+deb12u1 {texts['curl']}\nopenssl 3.0.17-1~deb12u2 {texts['openssl']}\n"
        for name in ("one", "two"):
            ask(ROOT / "release/bundle", BUILD, cls.directory / name, input=told)
        with tarfile.open(cls.directory / "one") as tar:
            cls.files = {member.name.partition("/")[2]: tar.extractfile(member).read() for member in tar}

    def test_the_same_bytes(self):
        self.assertEqual((self.directory / "one").read_bytes(), (self.directory / "two").read_bytes())

    def test_files(self):
        self.assertEqual(sorted(self.files), ["LICENSE", "kubectl-gputopo", "licences/curl", "licences/openssl", "sbom.spdx.json"])
        self.assertEqual(self.files["licences/curl"], b"the licence of curl")

    def test_bill(self):
        bill = json.loads(self.files["sbom.spdx.json"])
        self.assertEqual({package["name"]: package["versionInfo"] for package in bill["packages"] if package["name"] != "gputopo"},
                         {"curl": "7.88.1-10+deb12u1", "openssl": "3.0.17-1~deb12u2"})
        program, = bill["files"]
        self.assertEqual((program["fileName"], program["licenseConcluded"]), ("./kubectl-gputopo", "Apache-2.0"))
        self.assertIn({"algorithm": "SHA256", "checksumValue": hashlib.sha256(self.files["kubectl-gputopo"]).hexdigest()}, program["checksums"])
        names = {package["SPDXID"]: package["name"] for package in bill["packages"]}
        linked = {names[one["relatedSpdxElement"]] for one in bill["relationships"] if one["relationshipType"] == "STATIC_LINK"}
        self.assertEqual(linked, {"curl", "openssl"})
        self.assertEqual({one["extractedText"] for one in bill["hasExtractedLicensingInfos"]}, {"the licence of curl", "the licence of openssl"})


class Debian(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("one", "two"):
            ask("cpack", "-B", cls.directory / name, "-D", f"CPACK_DEBIAN_PACKAGE_MAINTAINER={MAINTAINER}", cwd=BUILD,
                stderr=subprocess.STDOUT)
        cls.packages = sorted((cls.directory / "one").glob("*.deb"))

    def test_names(self):
        machine = ask("dpkg", "--print-architecture").strip()
        self.assertEqual([path.name for path in self.packages],
                         [f"{name}_{VERSION}-1_{machine}.deb" for name in ("gputopo-agent", "gputopo-scheduler", "gputopo-simulate", "gputopo")])

    def test_the_same_bytes(self):
        for path in self.packages:
            self.assertEqual(path.read_bytes(), (self.directory / "two" / path.name).read_bytes(), path.name)

    def test_the_agents(self):
        agent = self.packages[0]
        self.assertEqual(ask("dpkg-deb", "-f", agent, "Maintainer"), MAINTAINER + "\n")
        self.assertRegex(ask("dpkg-deb", "-f", agent, "Depends"), r"gputopo \(= .*libcurl3-gnutls.*libpci3")
        listing = ask("dpkg-deb", "-c", agent)
        for place in ("etc/default/gputopo-agent", "usr/bin/gputopo-agent", "usr/lib/udev/rules.d/70-gputopo-dev-char.rules",
                      "usr/lib/systemd/system/gputopo-agent.service",
                      "usr/share/doc/gputopo-agent/contains/libgrpc-dev", "usr/share/doc/gputopo-agent/copyright"):
            self.assertRegex(listing, rf"-rw.r.xr.x|-rw-r--r-- root/root .* \./{re.escape(place)}\n")
            self.assertIn(f"./{place}\n", listing)
        self.assertNotIn("usr/local", listing)
        self.assertEqual(ask("dpkg-deb", "-I", agent, "conffiles"), "/etc/default/gputopo-agent\n")

    @unittest.skipUnless(shutil.which("lintian"), "no lintian")
    def test_lintian(self):
        done = subprocess.run(["lintian", "--allow-root", *self.packages], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False)
        tags = set(re.findall(r"^[EW]: \S+: (\S+)", done.stdout, re.M))
        self.assertLessEqual(tags, KNOWN, done.stdout)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd")
    def test_the_units(self):
        """systemd understands every line, and thinks little of what an attacker could do with the agent."""
        root = self.directory / "root"
        ask("dpkg-deb", "-x", self.packages[0], root)
        for unit, exposure in (("gputopo-agent.service", 25), ("gputopo-probe.service", 65)):  # tenths; an empty unit has 96
            done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={exposure}",
                                   root / "usr/lib/systemd/system" / unit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-300:])
            self.assertNotRegex(done.stdout, "Unknown|Failed to parse")


class Release(unittest.TestCase):
    """What only the releaser knows is asked for before anything is made; no release bears an address that nobody has."""

    def refused(self, *arguments, environment=()):
        out = pathlib.Path(tempfile.mkdtemp()) / "out"
        self.addCleanup(shutil.rmtree, out.parent)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DEB")}
        done = subprocess.run([ROOT / "release/make", *(arguments and (out, *arguments))], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, env={**kept, **dict(environment)})
        self.assertEqual((done.returncode, out.exists()), (2, False), done.stdout)
        self.assertIn("\nrelease: Everything that a release consists of: ", done.stdout)
        return done.stdout

    def test_no_url(self):
        self.assertIn("the URL", self.refused())
        self.assertIn('"files" is no http(s) URL', self.refused("files"))

    def test_no_maintainer(self):
        for environment in ({}, {"DEBFULLNAME": "A Maintainer"}, {"DEBFULLNAME": "A Maintainer", "DEBEMAIL": ""}):
            self.assertIn("DEBFULLNAME and DEBEMAIL", self.refused("https://example.com/files", environment=environment))

    def test_an_architecture_that_is_not_there(self):
        told = self.refused("https://example.com/files", "amd64", "riscv64", environment={"DEBFULLNAME": "A Maintainer", "DEBEMAIL": "a@example.com"})
        self.assertIn('"riscv64" is not amd64 or arm64', told)

    def test_no_address_of_nobody(self):
        paths = [*(ROOT / "release").rglob("*"), ROOT / "daemonset/chart/Chart.yaml", *(ROOT / "daemonset/monitoring").iterdir()]
        self.assertEqual([path.name for path in paths if path.is_file() and re.search(r"\bexample\.(com|org|net)", path.read_text())], [])


class Given(unittest.TestCase):
    """What release/publish and release/airgap refuse, and the file that needs no network. The e2e suite pushes to a registry."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.scratch)
        self.released = self.scratch / "released"
        self.released.mkdir()
        (self.released / f"gputopo-chart-{VERSION}.tgz").write_bytes(b"chart")
        self.sum_up()

    def sum_up(self):
        names = sorted(path.name for path in self.released.iterdir() if path.name != "SHA256SUMS")
        (self.released / "SHA256SUMS").write_text(ask("sha256sum", *names, cwd=self.released))

    def refused(self, *command):
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_publish(self):
        publish = ROOT / "release/publish"
        self.assertIn('"registry" is no REGISTRY/PROJECT', self.refused(publish, self.released, "registry"))
        self.assertIn("has no SHA256SUMS", self.refused(publish, self.scratch, "localhost/gpu"))
        self.assertIn(f"has no image gputopo-{VERSION}-image-ARCH.tar", self.refused(publish, self.released, "localhost/gpu"))
        chart = self.released / f"gputopo-chart-{VERSION}.tgz"
        chart.write_bytes(b"other")
        self.assertIn("is not the released file: its checksum is", self.refused(publish, self.released, "localhost/gpu"))
        chart.rename(self.released / "gputopo.tar")
        self.assertIn("is missing, and SHA256SUMS names it", self.refused(publish, self.released, "localhost/gpu"))
        self.sum_up()
        self.assertIn("names 0 charts, expected one", self.refused(publish, self.released, "localhost/gpu"))

    def test_a_registry_that_takes_half(self):
        """The image is there, the chart is refused. That is one plain sentence, and no command to install what is not whole."""
        with tarfile.open(self.released / f"gputopo-{VERSION}-image-amd64.tar", "w") as tar:
            index = {"manifests": [{"mediaType": "m", "digest": "sha256:0", "size": 1, "platform": {"architecture": "amd64", "os": "linux"}}]}
            member = tarfile.TarInfo("index.json")
            member.size = len(json.dumps(index))
            tar.addfile(member, io.BytesIO(json.dumps(index).encode()))
        values = tarfile.TarInfo("gputopo/values.yaml")
        text = b"image:\n  repository: localhost/gputopo\n"
        values.size = len(text)
        with tarfile.open(self.released / f"gputopo-chart-{VERSION}.tgz", "w:gz") as tar:
            tar.addfile(values, io.BytesIO(text))
        self.sum_up()
        said = r'time="2026-01-01T00:00:00Z" level=fatal msg="writing blob: \"PUT\": StatusCode: 405, Method not allowed\n"'
        (self.scratch / "skopeo").write_text(f"#!/bin/sh\ncase $* in *charts*) printf %s '{said}' >&2; exit 1 ;; esac\n")
        (self.scratch / "skopeo").chmod(0o755)
        command = ["env", f"PATH={self.scratch}:{os.environ['PATH']}", ROOT / "release/publish", self.released, "localhost/gpu"]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.stdout, f"localhost/gpu/gputopo:{VERSION}\nlocalhost/gpu/gputopo-files:{VERSION}\n")
        self.assertEqual(done.stderr, f'publish: localhost/gpu/charts/gputopo:{VERSION} was not pushed: writing blob: "PUT": StatusCode: 405, Method not allowed\n')
        self.assertEqual(done.returncode, 1)

    @unittest.skipUnless(shutil.which("docker-registry") and shutil.which("skopeo"), "there is no docker-registry or no skopeo")
    def test_files_come_back_from_a_registry(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        (self.scratch / "registry.yml").write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {self.scratch}/registry}}}}\nhttp: {{addr: \"{address}\"}}\n")
        registry = subprocess.Popen(["docker-registry", "serve", self.scratch / "registry.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(registry.wait)
        self.addCleanup(registry.terminate)
        ask("curl", "--silent", "--fail", "--retry", "60", "--retry-delay", "1", "--retry-connrefused", f"http://{address}/v2/")
        push = runpy.run_path(str(ROOT / "release/publish"))["push_files"]
        with contextlib.redirect_stdout(io.StringIO()):
            push(sorted(self.released.iterdir()), f"{address}/gpu/gputopo-files:{VERSION}", True)
        got = self.scratch / "got"
        ask("skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://{address}/gpu/gputopo-files:{VERSION}", f"dir:{got}")
        layers = json.loads((got / "manifest.json").read_text())["layers"]
        self.assertEqual({one["annotations"]["org.opencontainers.image.title"]: (got / one["digest"][7:]).read_bytes() for one in layers},
                         {path.name: path.read_bytes() for path in self.released.iterdir()})

    def test_airgap(self):
        carrier = self.scratch / "gputopo.run"
        self.assertIn("has no SHA256SUMS", self.refused(ROOT / "release/airgap", self.scratch, carrier))
        ask(ROOT / "release/airgap", self.released, carrier)
        self.assertIn("is there already", self.refused(ROOT / "release/airgap", self.released, carrier))
        ask("sh", carrier, "extract", self.scratch / "out")
        found = {path.name: path.read_bytes() for path in (self.scratch / "out").iterdir()}
        self.assertEqual(found, {**{path.name: path.read_bytes() for path in self.released.iterdir()},
                                 "publish": (ROOT / "release/publish").read_bytes()})
        self.assertIn("is not empty", self.refused("sh", carrier, "extract", self.scratch / "out"))
        (self.scratch / "ctr").symlink_to("/bin/false")
        self.assertRegex(self.refused("env", f"PATH={self.scratch}:{os.environ['PATH']}", "sh", carrier, "load"), "^.*: there is no image for [a-z0-9]+ in it\n$")
        damaged = self.scratch / "damaged.run"
        damaged.write_bytes(carrier.read_bytes().replace(b"chart\0", b"chert\0"))
        for verb in ("load",), ("push", "localhost/gpu"), ("extract", self.scratch / "damaged"):
            self.assertIn("damaged", self.refused("sh", damaged, *verb))
        self.assertFalse((self.scratch / "gputopo.run.part").exists())


class Dockerfile(unittest.TestCase):
    def test_it_installs_what_the_build_needs(self):
        wanted = re.search(r"^readonly packages_build=\((.*?)\)", (ROOT / "dev").read_text(), re.M | re.S).group(1).split()
        text = (ROOT / "daemonset/Dockerfile").read_text()
        first = re.search(r"--no-install-recommends \\\n(.*?)\nCOPY", text, re.S).group(1).replace("\\", " ").split()
        self.assertEqual(set(first), {*wanted, "file", "python3"})

    def test_the_base_is_pinned(self):
        self.assertRegex((ROOT / "daemonset/Dockerfile").read_text(), r"\nARG BASE=debian:bookworm-\d{8}-slim\n")


if __name__ == "__main__":
    unittest.main()
