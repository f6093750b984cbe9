// SPDX-License-Identifier: Apache-2.0
// The cluster page, last file: one view for each address (#/job/KEY), drawing all, and what people do.
"use strict";

const view = { name: "", arg: "", asked: "", answers: new Map() }; // answers: texts and wirings by their address
const JOBS_SHOWN = 200, NODES_SHOWN = 200, ANSWERS_KEPT = 50;

function go(name, arg) {
  location.hash = name ? hrefOf(name, arg) : "#/";
}

function readAddress() {
  const [, name, arg] = /^#\/([a-z-]*)(?:\/(.*))?$/.exec(location.hash) || [];
  view.name = name && VIEWS[name] ? name : "";
  try {
    view.arg = arg ? decodeURIComponent(arg) : "";
  } catch {
    view.arg = "";
  }
}

// An answer of the companion for the view that is open; it is asked once for each state of the cluster at most.
function answerOf(address, kind) {
  const known = view.answers.get(address);
  if (known && (known.state === page.state || performance.now() - known.at < 5000 || known.busy)) return known.value;
  const entry = { state: page.state, at: performance.now(), busy: true, value: known?.value };
  view.answers.set(address, entry);
  if (view.answers.size > ANSWERS_KEPT) view.answers.delete(view.answers.keys().next().value);
  request(address)
    .then(async (answer) => (answer.ok ? answer[kind]() : kind === "text" ? answer.text() : null))
    .catch((error) => (kind === "text" ? `no answer: ${error.message}` : null))
    .then((value) => {
      entry.value = value;
      entry.busy = false;
      drawView();
    });
  return entry.value;
}

const explained = (query, classes) => make("pre", { class: classes || "", tabindex: 0 }, answerOf(`explain?${query}`, "text") ?? "asking…");

// ---- pieces ----

function gpuStates(node) {
  const states = [], lists = { free: listed(node.free), assumed: listed(node.assumed), unhealthy: listed(node.unhealthy), isolated: listed(node.isolated), unsure: listed(node.unknown) };
  for (let i = 0; i < node.gpus; i++) states.push({ state: "used", user: null, unsure: false });
  for (const user of node.users) for (const gpu of listed(user.mask)) if (states[gpu]) states[gpu].user = user;
  for (const state of ["free", "assumed", "unhealthy", "isolated"]) for (const gpu of lists[state]) if (states[gpu]) states[gpu].state = state;
  for (const gpu of lists.unsure) if (states[gpu]) states[gpu].unsure = true;
  return states;
}

function hue(key) {
  let h = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) h = Math.imul(h ^ key.charCodeAt(i), 0x01000193);
  return (h >>> 0) % 12;
}

function cells(node) {
  const box = make("span", { class: "cells", "aria-hidden": "true" });
  gpuStates(node).forEach(({ state, user, unsure }, gpu) => {
    const chosen = view.name === "job" && user && user.job === view.arg;
    const classes = `g ${state}${user && state !== "unhealthy" && state !== "isolated" ? ` h${hue(user.job)}` : ""}${unsure ? " unsure" : ""}${chosen ? " on" : ""}`;
    box.append(make("i", { class: classes, title: `GPU ${gpu}: ${state}${user ? `, ${user.pod}` : ""}` }, chosen && user.unit !== null ? `${user.unit}` : ""));
  });
  return box;
}

function nodeRow(node) {
  const users = [...new Set(node.users.map((user) => user.job))].filter((key) => view.name !== "job" || key !== view.arg);
  const said = [node.note, node.bad ? `${plural(node.bad, "GPU")} unhealthy` : "", node.apart ? `${plural(node.apart, "GPU")} isolated` : ""].filter(Boolean).join(", ");
  const marks = said ? make("span", { class: isWrong(node) ? "bad" : "note" }, said) : null;
  return make("li", { class: "node" }, link("node", node.name, node.name), cells(node), make("span", { class: "n" }, `${node.available} of ${node.gpus}`),
    make("span", { class: "who" }, ...separated([...users.slice(0, 3).map(jobLink), ...(users.length > 3 ? [`${users.length - 3} more`] : [])]), marks ? " " : "", marks));
}

function nodeList(nodes, most = NODES_SHOWN) {
  const list = make("ul", { class: "nodes" }, ...nodes.slice(0, most).map(nodeRow));
  if (nodes.length > most) list.append(make("li", { class: "quiet" }, `and ${number(nodes.length - most)} more`));
  return list;
}

// The job in front is named where he who looks may see it.
function inLine(job) {
  if (job.place === null) return [];
  const before = page.line.get(job.place - 1);
  return [`number ${job.place + 1} in line${before ? `, behind ${before.namespace}/${before.name}` : ""}`];
}

function jobRow(job) {
  const meta = [STATES[job.state] || job.state, ...inLine(job)];
  if (job.since) meta.push(`for ${since(job.since)}`);
  meta.push(`${plural(job.wants, "GPU")}${job.group ? ` in units of ${job.group}` : ""}`);
  if (job.holds) meta.push("nodes are reserved for it");
  return make("li", null, jobLink(job.key), " ", make("span", { class: "quiet" }, meta.join(" · ")), job.text ? make("p", null, job.text) : null);
}

function jobList(jobs, most = JOBS_SHOWN) {
  const list = make("ol", { class: "jobs" }, ...jobs.slice(0, most).map(jobRow));
  if (jobs.length > most) list.append(make("li", { class: "quiet" }, `and ${number(jobs.length - most)} more${most < JOBS_SHOWN ? "" : ": use the search"}`));
  return list;
}

// ---- views: each gives a title and what is below it ----

function viewFits() {
  const size = +view.arg;
  if (!size) return ["What fits now", make("p", null, "Choose a size on the left.")];
  const { units, where } = fitting(size);
  return [`${plural(units, "unit")} of ${size} GPUs fit now`,
    make("p", { class: "quiet" }, "Each in one rack, on nodes that take pods now, as pods of whole nodes, or of one part of a node where the unit is smaller. What pods ask beside GPUs is not looked at: gputopo plan does."),
    make("ul", { class: "columns" }, ...where.slice(0, NODES_SHOWN).map(([rack, count]) => make("li", null, link("rack", rack.name, rack.name), ` ×${count}`)))];
}

function viewWaits() {
  const groups = waiting().filter(({ reason }) => !view.arg || reason === view.arg);
  const jobs = groups.flatMap((group) => group.jobs);
  return [view.arg ? `${plural(jobs.length, "job")}: ${view.arg}` : `${plural(jobs.length, "job")} not settled`,
    ...(view.arg ? [jobList(jobs)] : groups.map((group) => make("section", null, make("h3", null, link("waits", group.reason, `${group.reason}: ${group.jobs.length}`)), jobList(group.jobs, 20))))];
}

function viewUses() {
  const space = byNamespace().find(({ name }) => name === view.arg);
  if (!space) return [view.arg ? `Nothing in ${view.arg} has a GPU` : "Who uses what"];
  space.jobs.sort((a, b) => b[1] - a[1] || order(a[0], b[0]));
  return [`${space.name}: ${plural(space.gpus, "GPU")} in ${plural(space.jobs.length, "job")}`,
    make("ul", { class: "rows" }, ...space.jobs.slice(0, JOBS_SHOWN).map(([key, count]) => useRow(jobLink(key), count, STATES[page.jobs.get(key)?.state] || "")))];
}

function viewJobs() {
  const keys = { torn: page.sum.torn, unplaced: page.sum.unplaced, lost: page.sum.lost }[view.arg] || [];
  const words = { torn: "with a unit in more than one rack", unplaced: "that run without a plan", lost: "that have lost their plans" }[view.arg] || "";
  return [`${plural(keys.length, "job")} ${words}`, jobList(keys.map((key) => page.jobs.get(key)).filter(Boolean))];
}

function viewNodes() {
  const fault = FAULTS[view.arg];
  if (!fault) return ["No such list of nodes"];
  const nodes = [...page.nodes.values()].filter(fault[0]).sort((a, b) => order(a.name, b.name));
  return [`${number(nodes.length)} ${nodes.length === 1 ? fault[1] : fault[2]}`, nodeList(nodes)];
}

function viewAbsent() {
  const { absent, withoutTopology } = page.head, more = withoutTopology - absent.length;
  return [`${plural(withoutTopology, "node")} without a report of an agent`, make("ul", { class: "columns" }, ...absent.map((name) => make("li", null, name))),
    absent.length && more ? make("p", { class: "quiet" }, `and ${number(more)} more`) : null];
}

function viewRack() {
  const rack = page.racks.find(({ name }) => name === view.arg);
  return rack ? [saidOf(rack), nodeList(rack.nodes.map((id) => page.nodes.get(id)))] : [`There is no rack ${view.arg}`];
}

function viewNode() {
  const node = page.nodes.get(page.byName.get(view.arg));
  if (!node) return [`There is no node ${view.arg} with GPUs`];
  const rack = rackOf(node.name), wiring = answerOf(`ui/node?name=${encodeURIComponent(node.name)}`, "json");
  const history = page.events.filter((event) => event.kind === "Node" && event.name === node.name);
  return [make("span", null, `Node ${node.name}: ${node.available} of ${plural(node.gpus, "GPU")} available`),
    make("p", { class: "quiet" }, "in ", rack ? link("rack", rack.name, rack.name) : "no rack", wiring?.product ? ` · ${wiring.product}` : "",
      wiring?.observedAt ? ` · published ${age(now() - Date.parse(wiring.observedAt))} ago` : ""),
    node.note ? make("p", { class: isWrong(node) ? "bad" : "note" }, node.note) : null,
    make("div", { class: "two" }, make("div", null, wiring ? drawWiring(wiring, gpuStates(node)) : wiring === undefined ? "asking…" : "Its wiring is not told."),
      make("div", null, explained(`node=${encodeURIComponent(node.name)}`, "sentences"), make("h3", null, "Its health"),
        make("ul", { class: "log" }, ...(history.length ? history.map(eventLine) : [make("li", { class: "quiet" }, "No change since this replica began.")]))))];
}

// The domains above racks, a tier each, the lowest first.
function domainsAbove(racks) {
  const tiers = new Map(), count = (tier) => [...page.tree.values()].filter((domain) => domain.tier === tier).length;
  for (const rack of racks)
    for (let at = page.tree.get(rack.hall); at; at = page.tree.get(at.parent)) tiers.set(at.tier, (tiers.get(at.tier) || new Set()).add(at.name));
  return [...tiers].sort(([a], [b]) => a - b).map(([tier, names]) =>
    `${names.size} of ${plural(count(tier), "domain")} of tier ${tier}: ${[...names].sort(order).slice(0, 12).join(", ")}`);
}

function viewJob() {
  const job = page.jobs.get(view.arg);
  if (!job) return [`There is no job ${view.arg}`];
  const nodes = [...page.nodes.values()].filter((node) => node.users.some((user) => user.job === job.key));
  const racks = new Set(nodes.map((node) => rackOf(node.name)));
  return [`Job ${job.namespace}/${job.name}`,
    make("p", { class: "quiet" }, [job.kind, STATES[job.state] || job.state, `${plural(job.wants, "GPU")}${job.group ? ` in units of ${job.group}` : ""}`,
      ...inLine(job), job.since ? `since ${since(job.since)}` : ""].filter(Boolean).join(" · ")),
    job.text ? make("p", { class: job.state === "refused" || job.state === "plan-lost" ? "bad" : "" }, job.reason ? `${job.reason}: ${job.text}` : job.text) : null,
    nodes.length ? make("p", { class: "domains" }, `on ${plural(nodes.length, "node")} in ${racks.size} of ${plural(page.racks.length, "rack")}: `,
      ...separated([...racks].slice(0, 12).map((rack) => link("rack", rack.name, rack.name)))) : null,
    ...domainsAbove(racks).map((line) => make("p", { class: "domains quiet" }, line)),
    nodes.length ? nodeList(nodes.sort((a, b) => order(a.name, b.name)), 40) : null, explained(`job=${encodeURIComponent(job.key)}`)];
}

function viewLog() {
  return [`The last ${page.events.length} decisions and changes`, make("ul", { class: "log" }, ...page.events.map(eventLine))];
}

const VIEWS = { fits: viewFits, waits: viewWaits, uses: viewUses, jobs: viewJobs, nodes: viewNodes, absent: viewAbsent, rack: viewRack, node: viewNode, job: viewJob, log: viewLog,
  cluster: () => ["The cluster", make("p", { class: "quiet" }, "Choose a rack.")] };

// ---- the wiring of a node ----

const svg = (tag, given, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Pairs by their bandwidth, the highest first: [[GB/s, [[i, j]...]]...]
function pairsOf(weights) {
  const pairs = new Map();
  weights.forEach((row, i) => row.forEach((weight, j) => j > i && pairs.set(weight, [...(pairs.get(weight) || []), [i, j]])));
  return [...pairs].sort((a, b) => b[0] - a[0]);
}

// Where most pairs have the best link, a ring stands for them, and the others are drawn: all lines would be a hairball.
function drawWiring({ weights }, states) {
  const n = weights.length, radius = Math.max(112, 3.7 * n), dot = Math.min(17, radius * Math.sin(Math.PI / Math.max(n, 2)) - 2.5); // neighbours do not touch
  const size = 2 * (radius + dot + 3), middle = size / 2, label = Math.min(13, 1.1 * dot), pairs = pairsOf(weights);
  const all = (n * (n - 1)) / 2, ring = pairs.length > 0 && n > 2 && pairs[0][1].length * 2 > all;
  const at = (i) => [middle + radius * Math.sin((2 * Math.PI * (i + 0.5)) / n), middle - radius * Math.cos((2 * Math.PI * (i + 0.5)) / n)];
  const picture = svg("svg", { viewBox: `0 0 ${size} ${size}`, width: size, class: "wiring", role: "img", "aria-label": `Wiring of ${plural(n, "GPU")}` }), words = [];
  if (ring) picture.append(svg("circle", { cx: middle, cy: middle, r: radius, class: "w0" }));
  const drawn = ring ? pairs.slice(1) : pairs.slice(0, Math.max(1, pairs.length - 1));
  if (ring) words.push(`ring: ${pairs.length > 1 ? "all other pairs" : "every pair"} ${pairs[0][0]} GB/s`);
  drawn.forEach(([weight, list], level) => {
    for (const [i, j] of list) {
      const [x1, y1] = at(i), [x2, y2] = at(j);
      picture.append(svg("line", { x1, y1, x2, y2, class: ring ? "less" : `w${Math.min(level, 2)}` }));
    }
    words.push(`${ring ? "dashed" : ["thick", "medium", "thin"][Math.min(level, 2)]}: ${weight} GB/s`);
  });
  if (!ring && pairs.length > 1) words.push(`no line: ${pairs.at(-1)[0]} GB/s`);
  for (let i = 0; i < n; i++) {
    const [x, y] = at(i), { state } = states[i] || { state: "used" };
    picture.append(svg("circle", { cx: x, cy: y, r: dot, class: `gpu ${state}` }), svg("text", { x, y: y + label / 3, "font-size": label, "text-anchor": "middle" }, `${i}`));
  }
  return make("figure", null, picture, make("figcaption", { class: "quiet" }, words.slice(0, 5).join(" · ")));
}

// ---- all of it ----

function drawView() {
  if (!page.head) return;
  const shown = VIEWS[view.name];
  document.body.dataset.view = view.name || "home";
  $("log").hidden = Boolean(shown);
  $("view").hidden = !shown;
  if (!shown) return;
  const [title, ...below] = shown();
  put($("view-title"), [title]);
  put($("view-body"), below);
}

function drawAll() {
  const began = performance.now();
  if (page.shape !== map.shape) {
    buildRacks();
    map.shape = page.shape;
  }
  sumUp();
  drawStatus();
  drawFits();
  drawWaits();
  drawUses();
  drawView();
  drawLog();
  drawMap();
  page.drewMs = performance.now() - began;
}

// What people do changes the view alone.
function openView() {
  const before = `${view.name}/${view.arg}`;
  readAddress();
  if (!page.head) return;
  drawView();
  if (`${view.name}/${view.arg}` !== before) {
    $("view-body").scrollTop = 0;
    if (view.name) $("view-title").focus({ preventScroll: true });
  }
  scrollMap(drawMap());
}

function theme(next) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const dark = page.theme === "dark" || (page.theme === "automatic" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").textContent = { automatic: "◐", light: "☀", dark: "☾" }[page.theme];
    $("theme").setAttribute("aria-label", `Theme: ${page.theme}`);
    if (page.head) drawMap();
  };
  page.theme = ["automatic", "light", "dark"].includes(next) ? next : "automatic";
  apply();
  system.onchange = apply;
}

function onKey(event) {
  if (event.key === "Escape") {
    if ($("search").value) {
      $("search").value = "";
      drawUses();
    } else go("");
  } else if (event.key === "/" && document.activeElement !== $("search")) {
    $("search").focus();
    event.preventDefault();
  }
}

function start() {
  const asked = new URLSearchParams(location.search);
  theme(asked.get("theme"));
  $("theme").addEventListener("click", () => theme({ automatic: "light", light: "dark", dark: "automatic" }[page.theme]));
  $("search").value = asked.get("q") || "";
  $("search").addEventListener("input", () => page.head && drawUses());
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", () => document.hidden || plan(0));
  window.addEventListener("hashchange", openView);
  new ResizeObserver(() => page.head && drawMap()).observe($("map-box"));
  $("sign-in").addEventListener("submit", signIn);
  listenMap();
  setInterval(tick, 1000);
  readAddress();
  ask().then(() => page.head && scrollMap(emphasis()));
}

start();
