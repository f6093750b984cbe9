#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""measures.py [--list]: figures of how the product's C code is built; with --list also what each of them counts.

No figure fails a build. Compare those of a change with those of the commit before."""
import collections
import os
import re
import subprocess
import sys

import check_circles
import check_names

STRUCT = re.compile(r"^(?:typedef )?struct\s+(\w+)\s*\{(.*?)^\}", re.M | re.S)
NESTED = re.compile(r"\b(?:struct|union|enum)\b\s*\w*\s*\{[^{}]*\}")
FUNCTION_POINTER = re.compile(r".*?\(\s*\*\s*(?:const )?(\w+)[^)]*\)\s*\(")
POINTER = re.compile(r"(?:const )?struct (\w+)(?: const)? (?:const )?\*+(?:const )?(?:\*const )*(\w+)$")
ROLES = set("ret to from at into out old new before after previous next first second a b x y left right source target other arg own".split())
# A list of something, a text and what other libraries define are called after what is in them
CONTAINERS = set("gt_buf gt_err gt_node_set gt_table cJSON dirent msghdr sockaddr sockaddr_storage sockaddr_un stat timespec utsname".split())
WRITE = re.compile(r"\bGT_KUBE_(?:CREATE|UPDATE|APPLY|MERGE_PATCH|DELETE)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# The walk: who follows gpu-group-size from a PyTorchJob and its first pod to the patch that removes the gate reads the shortest
# chain of calls from each function of a line to the next. A line begins where something is called by a pointer, or by an event.
WALK = """
gt_webhook_mutate gt_pod_read
gt_webhook_mutate gt_pod_identify
gt_webhook_mutate gt_owners_find
gt_webhook_mutate webhook_check_pod gt_job_sizes_read
gt_webhook_mutate gt_pod_json_add_gate
owner_watch_on_object gt_owners_put gt_owner_read
read_kubeflow gt_template_add gt_template_copy_text
came_pod gt_pod_read
came_pod gt_cache_pod gt_pod_identify
placement_part_on_pod gt_placement_mark
reconcile_marked gt_placement_reconcile gt_reconcile_make gt_job_make gt_job_sizes_read
gt_job_make gt_job_units_make
gt_placement_reconcile reconcile_enqueue gt_queue_put
on_round gt_queue_run
on_try gt_placement_try gt_decide gt_plan_job
gt_decide gt_cache_plan_pod
gt_placement_try gt_placement_report gt_write_object
gt_placement_reconcile gt_reconcile_write_plans gt_write_lift gt_pod_patch_write
write_make write_request
"""
# What is known of a job (scheduler-ext/placement/state.h): five small structs.
JOB_PARTS = [f"pjob_{part}" for part in ("wait", "place", "lift", "move", "report")]
TOGETHER = ("agent", "cli", "kube", "scheduler-ext")


def flat(text, brackets):
    while (less := re.sub(brackets, "", text)) != text:
        text = less
    return text


def members(body):
    """(name, declaration) of each member; a struct within it is one member."""
    while (less := NESTED.sub("int", body)) != body:
        body = less
    for declaration in re.sub(r"^\s*#.*|\"\"", "", body, flags=re.M).split(";"):
        declaration = " ".join(declaration.split())
        pointer = FUNCTION_POINTER.match(declaration)
        names = [pointer.group(1)] if pointer else [
            name.group(1) for one in flat(declaration, r"\([^()]*\)|\[[^\[\]]*\]").split(",")
            if (name := re.search(r"(\w+)\s*(?::\s*\w+)?\s*$", one))]
        yield from ((name, declaration) for name in names)


def stems(name):
    return {re.sub(r"s$", "", re.sub(r"(?<=ss)es$", "", re.sub(r"ies$", "y", word))) for word in name.lower().split("_")}


def misnamed(parameters):
    """(name of the struct, name of the parameter) of each pointer that has no word of its struct in its name, nor a role."""
    for one in flat(parameters, r"\([^()]*\)|\[[^\[\]]*\]").split(","):
        pointer = POINTER.match(" ".join(one.split()))
        if not pointer:
            continue
        tag, name = pointer.groups()
        if name in ROLES or name.startswith("ret_") or (tag in CONTAINERS and len(name) > 1 and name != "of"):
            continue
        if not stems(name) & (stems(tag) - {"gt"}):
            yield tag, name


def is_place(body):
    """A node, and GPUs of it as a mask."""
    named = dict(members(body))
    return "node" in named and any(re.search(r"(?:^|_)mask$", name) and "uint64_t" in declaration
                                   for name, declaration in named.items())


def one_user(headers, raw):
    """Headers that one file beside their own source includes."""
    users = {path: set() for path in headers}
    for path, text in raw.items():
        for header in INCLUDE.findall(text):
            if header in users and path != header[:-1] + "c":
                users[header].add(path)
    return [f"{header}: {', '.join(by)}" for header, by in users.items() if len(by) == 1]


def walk(texts):
    """(the files in the order in which one comes into them, the functions that are not there any more)"""
    calls, module = {}, {}
    for path, text in texts.items():
        for _, name, body in check_circles.DEFINITION.findall(text):
            calls[name], module[name] = sorted(set(check_circles.WORD.findall(body))), check_circles.module_of(path, set(texts))
    stays, lost = [], []
    for line in WALK.split("\n"):
        names = line.split()
        for start, goal in zip(names, names[1:]):
            before = {start: None}
            todo = collections.deque(before)
            while todo and goal not in before:
                at = todo.popleft()
                for name in calls.get(at, ()):
                    if name in calls and name not in before:
                        before[name] = at
                        todo.append(name)
            chain, at = [], goal if goal in before else lost.append(f"{start} does not lead to {goal}")
            while at:
                chain.append(module[at])
                at = before[at]
            for at in reversed(chain):
                if not stays or stays[-1] != at:
                    stays.append(at)
    return stays, lost


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["git", "ls-files", "*.c", "*.h"], check=True, capture_output=True, text=True).stdout.split()
    raw = {path: open(path, encoding="utf-8").read() for path in files
           if not path.startswith("tests/") and os.path.exists(path)}
    texts = {path: check_names.strip_comments(text) for path, text in raw.items()}
    structs = [(path, name, body) for path, text in texts.items() for name, body in STRUCT.findall(text)]
    functions = [(path, *function) for path, text in texts.items() for function in check_names.functions(text)]
    places = check_names.function_places(texts)
    static = [(path, name) for path, name, is_static, _, _ in functions if is_static]
    shared = sorted(f"{path}: {name}" for path, name in static if check_names.is_shared(places[name]))
    counts = [(path, name, len(list(members(body)))) for path, name, body in structs]
    parameters = [(path, name, flat(given, r"\([^()]*\)|\[[^\[\]]*\]").count(",") + 1) for path, name, _, given, _ in functions]
    lines = {path: text.count("\n") for path, text in raw.items()}

    def put(what, items, figure=None):
        print(f"{figure or len(items):>8}  {what}")
        if "--list" in sys.argv[1:]:
            for item in items:
                print(f"{'':10}  {item}")

    stays, lost = walk(texts)
    if lost:
        sys.exit("measures: the walk: " + "; ".join(lost))
    put("stays of the walk from annotation to patch: changes of the file that one reads", stays)
    put("files of the walk", sorted(set(stays)))
    put("forms of that data, but for the simulator's: structs with the size of an atom, as text or number", [
        f"{path}: {name}" for path, name, body in structs if path.startswith(("api/", "scheduler-ext/")) and "/sim/" not in path
        and any(member in ("atomic", "atom") or given.endswith("of[GT_KEY_SIZES]") for member, given in members(body))])
    put("types that mean a place: a member `node`, and a mask of 64 bits",
        [f"{path}: {name}" for path, name, body in structs if is_place(body)])
    put("modules that write to the API server by themselves: files of the agent, the companion and kube/ that name a verb that writes "
        "and not the writer",
        [path for path, text in texts.items() if path.endswith(".c") and path.startswith(("agent/", "kube/", "scheduler-ext/"))
         and path != "kube/request.c" and WRITE.search(text) and "gt_write_" not in text])
    put(f"of the {len(static)} static functions share their name with another file's", shared,
        f"{100 * len(shared) / len(static):.1f} %")
    put("structs above 20 members",
        [f"{path}: {name}, {count}" for path, name, count in sorted(counts, key=lambda c: -c[2]) if count > 20])
    parts = {name: [member for member, _ in members(body)] for _, name, body in structs if name in JOB_PARTS}
    put(f"members of each of {', '.join(JOB_PARTS)}; goal: 12 at most", [f"{name}: {', '.join(parts[name])}" for name in JOB_PARTS],
        " ".join(str(len(parts[name])) for name in JOB_PARTS))
    put("functions with more than 6 parameters",
        [f"{path}: {name}, {count}" for path, name, count in sorted(parameters, key=lambda c: -c[2]) if count > 6])
    put("parameters that are not called as the struct that they point to",
        [f"{path}: {name}: struct {tag} *{one}" for path, name, _, given, _ in functions for tag, one in misnamed(given)])
    put("headers that one file beside their own source includes", one_user([path for path in raw if path.endswith(".h")], raw))
    put("C files below 60 lines", [f"{path}: {count}" for path, count in lines.items() if path.endswith(".c") and count < 60])
    folders = sorted({path.split("/")[0] for path in lines})
    sums = {part: sum(count for path, count in lines.items() if path.startswith(part + "/")) for part in folders}
    put("lines of C, of them", [], sum(sums.values()))
    for part in folders:
        put(f"  {part}", [], sums[part])
    put(f"  {', '.join(TOGETHER)} together", [], sum(sums[part] for part in TOGETHER))


if __name__ == "__main__":
    main()
