# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of gputopo's programs as SPDX 2.3 JSON: of which Debian packages, of which version and under which
licence, each of them consists; with the checksums of the files. The same input gives the same bytes."""
import datetime
import hashlib
import json
import re
import uuid

import gomodules
import parts

FIELDS = ("Version", "Architecture", "Maintainer", "Homepage", "source:Package", "source:Version")


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def licence_reference(package):
    return "LicenseRef-debian-" + re.sub(r"[^A-Za-z0-9.-]", "-", package)


def debian_package(name):
    """The package of that name as SPDX has it."""
    answer = parts.ask("dpkg-query", "-W", "-f", "\t".join(f"${{{field}}}" for field in FIELDS) + "\n", name)
    version, machine, maintainer, homepage, source, source_version = answer.splitlines()[0].split("\t")
    names = sorted(set(re.findall(r"^License:[ \t]+(\S.*)$", parts.package_copyright(name).read_text(errors="replace"), re.M)))
    package = {
        "SPDXID": identifier("Package", name), "name": name, "versionInfo": version,
        "supplier": "Organization: Debian", "originator": "Person: " + re.sub(r"\s*<(.*)>", r" (\1)", maintainer),
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "sourceInfo": f"built from the Debian source package {source} {source_version}",
        "licenseConcluded": "NOASSERTION", "licenseDeclared": licence_reference(name), "copyrightText": "NOASSERTION",
        "externalRefs": [purl(name, version, machine)]}
    if homepage:
        package["homepage"] = homepage
    if names:
        package["licenseComments"] = "the licences that its copyright file names: " + "; ".join(names)
    return package


def checksums(data):
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("sha1", "sha256")]


def file_of(place, data, licence):
    return {"SPDXID": identifier("File", place), "fileName": "./" + place, "fileTypes": ["BINARY"], "checksums": checksums(data),
            "licenseConcluded": licence, "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}


def relationship(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def with_files(package, files):
    """The package, which says that these files are all that is shipped of it."""
    sums = sorted(file["checksums"][0]["checksumValue"] for file in files)
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    return {**package, "filesAnalyzed": True, "licenseInfoFromFiles": ["NOASSERTION"],
            "packageVerificationCode": {"packageVerificationCodeValue": code}} if files else package


def links(build, name):
    """[(kind, package)] of a program."""
    linked = parts.owners(parts.libraries(parts.program_of(build, name)))
    opened = parts.owners(parts.opened(build, name)) - linked
    contained = parts.owners(parts.archives(build, name))
    return [(kind, package) for kind, packages in (("DYNAMIC_LINK", linked), ("DEPENDS_ON", opened), ("STATIC_LINK", contained))
            for package in sorted(packages)]


def our_package(version, commit, licence):
    return {"SPDXID": identifier("Package", "gputopo"), "name": "gputopo", "versionInfo": f"{version} ({commit})",
            "downloadLocation": "NOASSERTION", "primaryPackagePurpose": "APPLICATION", "licenseDeclared": "Apache-2.0",
            "licenseConcluded": licence, "copyrightText": "2026 the gputopo authors"}


def purl(name, version, machine):
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={machine}"}


def finished(version, packages, files, relations, texts):
    """The whole document. `texts`: {Debian package: its copyright file's text}."""
    created = datetime.datetime.fromtimestamp(parts.epoch(), datetime.timezone.utc)
    body = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"gputopo-{version}",
        "creationInfo": {"creators": [f"Tool: gputopo-{version}"], "created": created.strftime("%Y-%m-%dT%H:%M:%SZ")},
        "packages": packages, "files": files, "relationships": [relationship("SPDXRef-DOCUMENT", "DESCRIBES", packages[0]["SPDXID"]), *relations],
        "hasExtractedLicensingInfos": [
            {"licenseId": licence_reference(name), "name": f"copyright file of the Debian package {name}", "extractedText": text}
            for name, text in texts.items()]}
    unique = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return json.dumps({**body, "documentNamespace": f"https://spdx.org/spdxdocs/gputopo-{version}-{unique}"}, indent=1) + "\n"


def of_client(identity, place, data, contained):
    """Of the static client at `place`. `identity`: version and commit. `contained`: [(Debian source package, version, copyright text)]."""
    version, commit = identity
    program = file_of(place, data, "Apache-2.0")
    packages = [with_files(our_package(version, commit, "Apache-2.0"), [program])]
    relations = [relationship(packages[0]["SPDXID"], "CONTAINS", program["SPDXID"])]
    for name, of, _ in contained:
        packages.append({
            "SPDXID": identifier("Package", name), "name": name, "versionInfo": of, "supplier": "Organization: Debian",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "sourceInfo": "compiled from the Debian source package",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": licence_reference(name), "copyrightText": "NOASSERTION",
            "externalRefs": [purl(name, of, "source")]})
        relations.append(relationship(program["SPDXID"], "STATIC_LINK", packages[-1]["SPDXID"]))
    return finished(version, packages, [program], relations, {name: text for name, _, text in contained})


def document(build, programs, shipped):
    """`programs`: {name: bytes}. `shipped`: {place: (package, bytes)} of the Debian files that go with them."""
    version, commit = parts.identity(build)
    ours = our_package(version, commit, "Apache-2.0 AND GPL-3.0-only")
    ours["licenseComments"] = "the sources are Apache-2.0; a program that is linked with libpci is, as a binary, under GPL-3.0"
    files, linked = {"gputopo": []}, {}
    for name, data in sorted(programs.items()):
        linked[name] = links(build, name)
        licence = "GPL-3.0-only" if ("DYNAMIC_LINK", "libpci3") in linked[name] else "Apache-2.0"
        files["gputopo"].append(file_of(f"usr/bin/{name}", data, licence))
    for place, (package, data) in sorted(shipped.items()):
        files.setdefault(package, []).append(file_of(place, data, "NOASSERTION"))
    debian = sorted({package for found in linked.values() for _, package in found} | set(files) - {"gputopo"})
    packages = [with_files(ours, files["gputopo"]), *(with_files(debian_package(name), files.get(name, ())) for name in debian)]
    built = {name: gomodules.modules(parts.program_of(build, name)) for name in sorted(set(programs) & set(gomodules.PROGRAMS))}
    packages += [gomodules.package(module) for module in sorted(set().union(*built.values()))]
    relations = [relationship(identifier("Package", package), "CONTAINS", file["SPDXID"])
                  for package in sorted(files) for file in files[package]]
    relations += [relationship(identifier("File", f"usr/bin/{name}"), kind, identifier("Package", package))
                  for name in sorted(linked) for kind, package in linked[name]]
    relations += [relationship(identifier("File", f"usr/bin/{name}"), "STATIC_LINK", gomodules.package(module)["SPDXID"])
                  for name, modules in built.items() for module in modules]
    return finished(version, packages, [file for package in sorted(files) for file in files[package]], relations,
                    {name: parts.package_copyright(name).read_text(errors="replace") for name in debian})
