#!/usr/bin/python3
"""Only api/ knows the form of the cluster's objects: no other code of the product names their members."""
import re
import subprocess
import sys

# Members that stand in objects of Kubernetes and in nothing of our own.
KEYS = """apiVersion metadata annotations labels ownerReferences involvedObject managedFields resourceVersion creationTimestamp
deletionTimestamp spec status conditions lastTransitionTime schedulingGates nodeName nominatedNodeName nodeSelector affinity
nodeAffinity nodeSelectorTerms matchFields matchExpressions tolerations containers initContainers resourceClaims
resourceClaimTemplateName resourceClaimName allocatable capacity taints preconditions deleteOptions podSets""".split()
KEY = re.compile(r'"(' + "|".join(KEYS) + r')"|"/(metadata|spec|status)[/"]')
# What reads or writes a member. A subresource, a parameter of a query or a name of our own is none.
USE = re.compile(r'\b(gt_get\w*|gt_json_\w+|cJSON_\w+|strcmp)\(|\{"\w+", &|"/')

# Files that name them all the same, and why.
ALLOWED = {
    "kube/page.c": "a list, cut into its objects while it comes",
    "kube/exec.c": "ExecCredential, what exec plugins get and give",
    "scheduler-ext/wire/": "requests of extenders, from their bytes",
    "scheduler-ext/webhook/webhook.c": "AdmissionReview, and its answer",
    "scheduler-ext/companion/apply_set": "objects of any kind as they are and shall be, not understood",
    "scheduler-ext/companion/desired.c": "likewise",
}


def code_of(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)


def main():
    files = subprocess.run(["git", "ls-files", "agent/*.[ch]", "cli/*.[ch]", "deviceplugin/*.[ch]", "kube/*.[ch]", "scheduler-ext/*.[ch]"],
                           check=True, capture_output=True, text=True).stdout.split()
    problems, used = [], set()
    for path in files:
        code = code_of(open(path, encoding="utf-8").read())
        for statement in re.finditer(r"[^;]+", code):
            found = KEY.search(statement.group(0))
            if not found or not USE.search(statement.group(0)):
                continue
            number = code.count("\n", 0, statement.start() + found.start()) + 1
            reason = next((start for start in ALLOWED if path.startswith(start)), None)
            used.add(reason)
            if not reason:
                problems.append(f"{path}:{number}: {found.group(0)}: api/ reads and writes the members of objects")
    problems += [f"tests/lint/check_objects.py: {start} need not be allowed" for start in ALLOWED if start not in used]
    print("\n".join(problems))
    sys.exit(bool(problems))


main()
