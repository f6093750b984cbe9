// SPDX-License-Identifier: Apache-2.0
// The cluster page, third file: what is on the first screen, in the order in which it is needed at night.
"use strict";

const REASONS_SHOWN = 5, PLACES_SHOWN = 3, NAMESPACES_SHOWN = 30, LARGEST_SHOWN = 20, FOUND_SHOWN = 40, EVENTS_SHOWN = 40;

const hrefOf = (name, arg) => `#/${name}${arg === undefined || arg === "" ? "" : `/${encodeURIComponent(arg)}`}`;
const link = (name, arg, text, classes, title) => make("a", { href: hrefOf(name, arg), class: classes, title }, text);
const jobLink = (key) => {
  const job = page.jobs.get(key);
  return link("job", key, job ? `${job.namespace}/${job.name}` : key, "job");
};

// Replaces what has changed, so that the focus and what is being read stay.
function put(box, children) {
  const made = make("div", null, ...children);
  if (box.childNodes.length === made.childNodes.length && [...box.childNodes].every((child, i) => child.isEqualNode(made.childNodes[i]))) return;
  const focused = box.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null, scroll = box.scrollTop;
  box.replaceChildren(...made.childNodes);
  box.scrollTop = scroll;
  if (focused) [...box.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus();
}

// ---- 1. is something wrong? ----

const FAULTS = { // name of the view: test of a node, words for one and for several
  "not-ready": [(node) => !(node.flags & FLAG.ready), "node not Ready", "nodes not Ready"],
  stale: [(node) => node.flags & FLAG.stale, "node without a current report", "nodes without a current report"],
  unhealthy: [(node) => node.bad, "node with unhealthy GPUs", "nodes with unhealthy GPUs"],
  "link-down": [(node) => node.flags & FLAG.links, "node with a link down", "nodes with a link down"],
  outlived: [(node) => node.flags & FLAG.outlived, "node with the report of an earlier Node", "nodes with the report of an earlier Node"],
  isolated: [(node) => node.apart, "node with isolated GPUs", "nodes with isolated GPUs"],
  cordoned: [(node) => node.flags & FLAG.cordoned, "node cordoned", "nodes cordoned"],
  spare: [(node) => node.flags & FLAG.spare, "spare node", "spare nodes"],
};

function wrongs() {
  const sum = page.sum, head = page.head, found = [];
  const add = (count, one, many, name, arg) => count && found.push(name ? link(name, arg, `${number(count)} ${count === 1 ? one : many}`) : `${number(count)} ${count === 1 ? one : many}`);
  if (!head.leader) found.push("no replica leads");
  if (head.certificate) found.push(head.certificate);
  for (const [fault, count] of [["not-ready", sum.notReady], ["stale", sum.stale], ["link-down", sum.links], ["outlived", sum.outlived]])
    add(count, FAULTS[fault][1], FAULTS[fault][2], "nodes", fault);
  add(sum.bad, "GPU unhealthy", "GPUs unhealthy", "nodes", "unhealthy");
  add(sum.torn.length, "job torn", "jobs torn", "jobs", "torn");
  add(sum.unplaced.length, "job runs without a plan", "jobs run without a plan", "jobs", "unplaced");
  add(sum.lost.length, "job has lost its plan", "jobs have lost their plans", "jobs", "lost");
  return found;
}

function notes() {
  const { sum, head } = page, found = [];
  if (head.only) found.push(`only what namespace ${head.only} has`);
  if (!head.synced) found.push("still reading the cluster: this is not all of it");
  if (sum.cordoned) found.push(link("nodes", "cordoned", `${number(sum.cordoned)} ${sum.cordoned === 1 ? "node" : "nodes"} cordoned`));
  if (sum.apart) found.push(link("nodes", "isolated", `${plural(sum.apart, "GPU")} isolated`));
  if (head.withoutTopology) found.push(link("absent", "", `${plural(head.withoutTopology, "node")} with GPUs not shown: no report of an agent`));
  if (head.podsBeyond) found.push(`${plural(head.podsBeyond, "pod")} beyond the limit not shown`);
  if (!head.places) found.push("placement is off");
  else if (!head.acts) found.push("this replica stands by: the one that leads knows why jobs wait");
  return found;
}

const separated = (parts) => parts.flatMap((part, i) => (i ? [" · ", part] : [part]));

function drawStatus() {
  const wrong = wrongs(), { sum, head } = page;
  $("status").className = wrong.length ? "wrong" : "";
  put($("status-text"), [make("b", null, wrong.length ? "Wrong: " : page.nodes.size ? "Nothing is wrong. " : "No node has published its GPUs. "),
    ...separated([...wrong, ...notes().map((note) => make("span", { class: "note" }, note))])]);
  put($("summary"), [`${plural(sum.nodes, "node")}, ${plural(sum.gpus, "GPU")}: `, make("b", null, `${number(sum.available)} available`),
    `, ${number(sum.used - sum.planned > 0 ? sum.used - sum.planned : 0)} used, ${number(sum.planned)} planned`,
    make("span", { class: "quiet" }, head.leader ? ` · leader ${head.leader.split("_")[0]}` : "")]);
  document.title = `${wrong.length ? "⚠ " : ""}gputopo: ${number(sum.available)} GPUs available`;
}

// ---- 2. what fits ----

function fitRow({ size, units, where }) {
  const places = where.slice(0, PLACES_SHOWN).flatMap(([rack, count], i) => [i ? ", " : "", link("rack", rack.name, rack.name), count > 1 ? ` ×${count}` : ""]);
  if (where.length > PLACES_SHOWN) places.push(", ", link("fits", size, `${where.length - PLACES_SHOWN} more`));
  return make("tr", { class: units ? "" : "none" }, make("th", { scope: "row" }, link("fits", size, `${size} GPUs`)), make("td", { class: "n" }, number(units)),
    make("td", { class: "where" }, ...(places.length ? places : ["nowhere"])));
}

function drawFits() {
  put($("fits-rows"), sizes().map((size) => fitRow(fitting(size))));
}

// ---- 3. who waits ----

function reasonLine({ reason, jobs, oldest }) {
  const first = jobs[0], said = first.text || STATES[first.state] || "";
  return make("li", null, make("a", { href: hrefOf("waits", reason), title: said },
    make("b", null, number(jobs.length)), " ", make("span", { class: "reason" }, reason),
    make("span", { class: "quiet" }, ` ${oldest < Infinity ? `for ${since(oldest)}, ` : ""}first ${first.namespace}/${first.name}, ${plural(first.wants, "GPU")}`)));
}

function drawWaits() {
  const groups = waiting(), jobs = groups.reduce((sum, group) => sum + group.jobs.length, 0);
  $("waits-count").textContent = number(jobs);
  const lines = groups.slice(0, REASONS_SHOWN).map(reasonLine), rest = groups.slice(REASONS_SHOWN);
  if (rest.length) lines.push(make("li", null, link("waits", "", `${plural(rest.reduce((sum, group) => sum + group.jobs.length, 0), "job")} for ${rest.length} more reasons`)));
  put($("waits-lines"), lines.length ? lines : [make("li", { class: "quiet" }, "No job waits.")]);
}

// ---- 4. who uses what ----

function byNamespace() {
  const spaces = new Map();
  for (const [key, count] of page.held) {
    const name = page.jobs.get(key)?.namespace ?? key.split("/")[0];
    if (!spaces.has(name)) spaces.set(name, { name, gpus: 0, jobs: [] });
    const space = spaces.get(name);
    space.gpus += count;
    space.jobs.push([key, count]);
  }
  return [...spaces.values()].sort((a, b) => b.gpus - a.gpus || order(a.name, b.name));
}

function useRow(a, count, what) {
  const share = page.sum.gpus ? (100 * count) / page.sum.gpus : 0;
  const bar = make("meter", { min: 0, max: 100, value: share.toFixed(1), "aria-hidden": "true" });
  return make("li", { class: "use" }, a, make("span", { class: "quiet" }, what), bar, make("span", { class: "n" }, number(count)));
}

function found(words) {
  const fits = (text) => words.every((word) => text.toLowerCase().includes(word)), rows = [];
  const add = (row) => rows.push(row) < FOUND_SHOWN;
  for (const job of page.jobs.values())
    if (fits(`${job.key} ${job.kind} ${STATES[job.state] || ""} ${job.reason || ""}`) && !add(useRow(jobLink(job.key), page.held.get(job.key) || 0, `job, ${STATES[job.state] || job.state}`))) return rows;
  for (const rack of page.racks)
    if (fits(rack.name) && !add(useRow(link("rack", rack.name, rack.name), rack.gpus - rack.available, `rack, ${rack.available} available`))) return rows;
  for (const node of page.nodes.values())
    if (fits(`${node.name} ${node.note} ${node.users.map((user) => user.pod).join(" ")}`) && !add(useRow(link("node", node.name, node.name), node.gpus - node.available, node.note ? `node, ${node.note}` : "node"))) return rows;
  return rows;
}

function drawUses() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let rows;
  if (words.length) {
    rows = found(words);
    if (!rows.length) rows = [make("li", { class: "quiet" }, "Nothing has all these words in it.")];
    else if (rows.length >= FOUND_SHOWN) rows.push(make("li", { class: "quiet" }, "and more: add a word"));
  } else {
    const largest = [...page.held].sort((a, b) => b[1] - a[1] || order(a[0], b[0])).slice(0, LARGEST_SHOWN);
    rows = byNamespace().slice(0, NAMESPACES_SHOWN).map((space) => useRow(link("uses", space.name, space.name), space.gpus,
      `${plural(space.jobs.length, "job")}`));
    if (largest.length) rows.push(make("li", { class: "title" }, "Largest jobs"));
    rows.push(...largest.map(([key, count]) => useRow(jobLink(key), count, STATES[page.jobs.get(key)?.state] || "")));
  }
  put($("uses-rows"), rows.length ? rows : [make("li", { class: "quiet" }, "No pod has a GPU.")]);
}

// ---- 6. what happened ----

function clock(ms) {
  const at = new Date(ms), two = (n) => String(n).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return now() - ms < 43200000 ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

function objectLink(event) {
  if (event.kind === "Node" && page.byName.has(event.name)) return link("node", event.name, event.name);
  const key = `${event.namespace}/${event.kind}/${event.name}`, name = event.namespace ? `${event.namespace}/${event.name}` : event.name;
  return page.jobs.has(key) ? link("job", key, name) : make("span", null, name);
}

const eventLine = (event) => make("li", { class: event.warning ? "warning" : "" }, make("time", { datetime: new Date(event.ms).toISOString() }, clock(event.ms)), " ",
  make("b", null, event.reason), " ", objectLink(event), " ", make("span", { class: "quiet" }, event.text));

function drawLog() {
  put($("log-lines"), page.events.length ? page.events.slice(0, EVENTS_SHOWN).map(eventLine)
    : [make("li", { class: "quiet" }, "Nothing yet: this replica remembers what happened since it began.")]);
}
