// SPDX-License-Identifier: Apache-2.0
// The cluster page, last file: jobs, details, what people do, and asking debug/model, from which everything comes.
"use strict";

const EVERY_MS = 2000, HIDDEN_MS = 30000, PATIENCE_MS = 30000, TIMEOUT_MS = 20000, SOON_MS = 500, JOBS_SHOWN = 60, WAITING_SHOWN = 40;

// ---- jobs ----

function jobButton(job, withSwatch) {
  const button = make("button", "job");
  button.type = "button";
  button.dataset.job = job.key;
  button.setAttribute("aria-pressed", String(page.picked === job.key));
  if (withSwatch) {
    const swatch = make("span", `g used ${colour(job.key)}`);
    swatch.setAttribute("aria-hidden", "true");
    button.append(swatch, " ");
  }
  button.append(make("b", "", job.name), " ", make("span", "quiet", withSwatch ? job.namespace : `${job.namespace}, ${job.kind}`));
  button.title = `${job.key}: ${STATES[job.state] || job.state || "not known"}`;
  return button;
}

const has = (job) => page.words.every((word) => `${job.key} ${job.kind} ${STATES[job.state]} ${job.reason} ${job.text}`.toLowerCase().includes(word));

function drawWaiting(jobs) {
  const waiting = jobs.filter((job) => !job.settled);
  waiting.sort((a, b) => (a.place ?? 1e9) - (b.place ?? 1e9) || order(a.created ?? "", b.created ?? "") || order(a.key, b.key));
  const list = waiting.slice(0, WAITING_SHOWN).map((job) => {
    const item = make("li", job.state), meta = [STATES[job.state] || job.state];
    if (job.place !== null) meta.push(`number ${job.place + 1} in line`);
    const since = ageOf(job.since || job.created);
    if (since) meta.push(`for ${since}`);
    meta.push(`${plural(job.wants, "GPU")}${job.groupSize ? ` in units of ${job.groupSize}` : ""}`);
    if (job.holds) meta.push("nodes are reserved for it");
    item.append(jobButton(job, false), make("span", "meta", meta.join(" · ")));
    if (job.text && job.state !== "writes") item.append(make("span", "why", job.reason ? `${job.reason}: ${job.text}` : job.text));
    return item;
  });
  if (waiting.length > WAITING_SHOWN) list.push(make("li", "", `and ${waiting.length - WAITING_SHOWN} more`));
  $("waiting").hidden = !waiting.length;
  $("waiting-title").textContent = `Waiting: ${plural(waiting.length, "job")}`;
  replaceList($("waiting-jobs"), list);
}

function drawJobs(jobs, held) {
  const having = jobs.filter((job) => held.has(job.key)).sort((a, b) => held.get(b.key) - held.get(a.key) || order(a.key, b.key));
  const list = having.slice(0, JOBS_SHOWN).map((job) => {
    const item = make("li");
    item.append(jobButton(job, true), make("span", "count", `${held.get(job.key)}`));
    return item;
  });
  if (having.length > JOBS_SHOWN) list.push(make("li", "count", `and ${having.length - JOBS_SHOWN} more: use the filter`));
  $("running-title").textContent = `Jobs with GPUs: ${having.length}`;
  replaceList($("jobs"), list);
}

// Keeps the focus where it was.
function replaceList(list, items) {
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.job : undefined;
  const scroll = list.scrollTop;
  list.replaceChildren(...items);
  list.scrollTop = scroll;
  if (key !== undefined) list.querySelectorAll("button").forEach((button) => button.dataset.job === key && button.focus());
}

// ---- all of it ----

function drawSummary(model) {
  const sum = sumUp(page.nodes.keys()), waiting = model.jobs.filter((job) => !job.settled).length;
  const parts = [plural(model.nodes.length, "node"), `${plural(sum.gpus, "GPU")}: ${sum.free} free, ${sum.used} used, ${sum.assumed} ${page.meaning.get("assumed")}, ${sum.unhealthy} unhealthy`,
    plural(model.counters.supernodes, "supernode"), `${plural(model.jobs.length, "job")}, ${waiting} waiting`];
  $("summary").textContent = parts.join(" · ");
  const notes = [];
  if (!model.synced) notes.push("The companion is still reading the cluster: this is not all of it yet.");
  if (model.truncated) notes.push(`Too large to show whole: ${plural(model.leftOut.nodes, "node")} and ${plural(model.leftOut.jobs, "job")} are left out.`);
  if (model.counters.placement && !model.counters.placement.acts)
    notes.push("This replica stands by. The one that leads knows why jobs wait.");
  if (model.counters.nodesWithoutTopology) notes.push(`${plural(model.counters.nodesWithoutTopology, "node")} with GPUs but without a NodeGPUTopology: not shown.`);
  $("nothing").textContent = model.nodes.length ? notes.join(" ") : ["No node has published its GPUs.", ...notes].join(" ");
  $("nothing").hidden = !$("nothing").textContent;
}

function draw() {
  const model = page.model, held = new Map();
  page.jobs = new Map(model.jobs.map((job) => [job.key, job]));
  page.nodes = new Map(model.nodes.map((node) => [node.name, node]));
  for (const node of model.nodes)
    for (const group of node.gpus)
      if (group.job && group.state !== "unhealthy") held.set(group.job, (held.get(group.job) || 0) + group.gpus.length);
  learn(model.legend);
  colourJobs(held);
  drawSummary(model);
  drawCluster(model);
  const there = applyFilter();
  drawWaiting(model.jobs.filter(has));
  drawJobs(model.jobs.filter((job) => there.has(job.key) || has(job)), held);
  applyPick();
  if (page.shown?.node) showNode(page.shown.node);
}

// Gives the jobs on the nodes that are left.
function applyFilter() {
  const there = new Set();
  for (const [name, row] of page.rows) {
    row.hidden = !page.words.every((word) => (row.text || "").includes(word));
    if (!row.hidden) for (const group of page.nodes.get(name)?.gpus || []) there.add(group.job);
  }
  for (const frame of page.frames || []) frame.hidden = frame.names.every((name) => page.rows.get(name).hidden);
  return there;
}

const isIn = (job, frame) => job !== null && frame.names.some((name) => page.nodes.get(name)?.gpus.some((group) => group.job === job));

// "2 of 3 leaves, 1 of 2 halls": where a job is, the highest tier first.
function domainsOf(job) {
  const all = [], used = [];
  for (const frame of page.frames || []) {
    if (!frame.tier) continue;
    all[frame.tier] = (all[frame.tier] || 0) + 1;
    used[frame.tier] = (used[frame.tier] || 0) + isIn(job, frame);
  }
  return all.map((count, tier) => (used[tier] ? `${used[tier]} of ${count} ${tier === 2 ? "leaves" : tier <= TIERS.length ? `${TIERS[tier - 1]}s` : `domains of tier ${tier}`}` : ""))
    .filter(Boolean).reverse().join(", ");
}

function applyPick() {
  if (page.picked && !page.jobs.has(page.picked)) page.picked = null;
  $("cluster").classList.toggle("picked", page.picked !== null);
  for (const row of page.rows.values())
    for (const cell of row.querySelectorAll(".g")) cell.classList.toggle("on", page.picked !== null && cell.dataset.job === page.picked);
  const slot = page.slots.get(page.picked);
  for (const frame of page.frames || []) {
    frame.classList.toggle("on", frame.tier > 0 && isIn(page.picked, frame));
    frame.style.setProperty("--job", slot === undefined ? "" : page.palette[slot % page.hues]);
  }
  for (const button of document.querySelectorAll("button.job")) button.setAttribute("aria-pressed", String(button.dataset.job === page.picked));
}

// ---- details ----

function show(what, ...content) {
  page.shown = what;
  $("about").replaceChildren(...content);
  for (const row of document.querySelectorAll(".node.pinned")) row.classList.remove("pinned");
  if (what?.node) page.rows.get(what.node)?.classList.add("pinned");
  $("details").classList.toggle("open", what !== null);
}

function showHelp() {
  show(null, make("h2", "", "Details"),
    make("p", "quiet", "Point at a node, or tap it, to see who has its GPUs. Click a job to see where it is: cells show the number of its unit. Arrow keys go from node to node; Escape forgets the choice."));
}

function showNode(name) {
  const node = page.nodes.get(name);
  if (!node) return showHelp();
  const list = make("ul"), sum = sumUp([name]);
  for (const group of node.gpus) {
    const item = make("li"), swatch = make("span", `g ${group.state} ${group.job ? colour(group.job) : group.state === "used" || group.state === "assumed" ? "unknown" : ""}`);
    swatch.setAttribute("aria-hidden", "true");
    const text = make("div", "", `${group.gpus.length > 1 ? "GPUs" : "GPU"} ${ranges(group.gpus)}: ${page.meaning.get(group.state)}${group.job || group.state === "free" || group.state === "unhealthy" ? "" : group.state === "used" ? ", nobody knows by whom" : " for a pod that is still to come"}`);
    item.append(swatch, text);
    if (group.job) {
      const job = page.jobs.get(group.job) || { key: group.job, name: group.job, namespace: "", kind: "" }, who = make("div");
      who.append(jobButton(job, false), make("div", "quiet", `pod ${group.pod}${group.unit === null ? "" : `, unit ${group.unit}`}${group.rank === null ? "" : `, rank ${group.rank}`}`));
      item.append(who);
    }
    list.append(item);
  }
  const about = [make("h2", "", `Node ${node.name}`), make("p", "quiet", [node.supernode ? `in ${node.supernode}` : "outside of supernodes", node.product, node.observedAt ? `published ${ageOf(node.observedAt)} ago` : ""].filter(Boolean).join(" · "))];
  if (node.note) about.push(make("p", "bad", node.note));
  if (node.healthUnknown) about.push(make("p", "quiet", `health unknown: GPU ${ranges(node.healthUnknown)}`));
  const known = make("p", "", `${sum.free} of ${plural(sum.gpus, "GPU")} free`);
  if (page.pinned !== name) return show({ node: name }, ...about, known, list);
  const text = make("pre", "sentences", "asking…");
  show({ node: name }, ...about, known, list, text);
  explain(`node=${encodeURIComponent(name)}`, text);
}

async function explain(query, text) {
  text.tabIndex = 0;
  try {
    const answer = await fetch(`explain?${query}`, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    text.textContent = await answer.text();
  } catch (error) {
    text.textContent = `no answer: ${error.message}`;
  }
}

function showJob(key) {
  const job = page.jobs.get(key);
  if (!job) return;
  const about = [make("h2", "", `Job ${job.name}`), make("p", "quiet", `${job.kind} in ${job.namespace} · ${STATES[job.state] || job.state}`)];
  if (job.text) about.push(make("p", "", job.reason ? `${job.reason}: ${job.text}` : job.text));
  if (domainsOf(key)) about.push(make("p", "domains", `in ${domainsOf(key)}`));
  const text = make("pre", "", "asking…");
  show({ job: key }, ...about, text);
  explain(`job=${encodeURIComponent(key)}`, text);
}

function pick(key) {
  page.picked = page.picked === key ? null : key;
  applyPick();
  if (page.picked) showJob(page.picked);
  else showHelp();
}

// ---- what people do ----

function nodeAt(event) {
  return event.target.closest?.(".node")?.dataset.node;
}

function moveFocus(row, key) {
  const rows = [...page.rows.values()].filter((other) => other.offsetParent !== null), at = rows.indexOf(row);
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -at, End: rows.length - 1 - at }[key];
  if (step === undefined || !rows[at + step]) return false;
  row.tabIndex = -1;
  rows[at + step].tabIndex = 0;
  rows[at + step].focus();
  return true;
}

function listen() {
  const cluster = $("cluster");
  cluster.addEventListener("pointerover", (event) => {
    const name = nodeAt(event);
    if (name && event.pointerType === "mouse" && !page.picked && !page.pinned) showNode(name);
  });
  cluster.addEventListener("click", (event) => {
    const name = nodeAt(event), job = event.target.dataset?.job;
    if (!name) return;
    if (job && event.detail && window.innerWidth > 900) return pick(job);
    page.pinned = name;
    showNode(name);
  });
  cluster.addEventListener("focusin", (event) => nodeAt(event) && !page.picked && showNode(nodeAt(event)));
  cluster.addEventListener("keydown", (event) => {
    const row = event.target.closest(".node");
    if (!row) return;
    if (event.key === "Enter" || event.key === " ") showNode(row.dataset.node);
    else if (!moveFocus(row, event.key)) return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.job");
    if (button) pick(button.dataset.job);
  });
  const forget = () => {
    page.pinned = null;
    page.picked = null;
    applyPick();
    showHelp();
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && forget());
  $("close").addEventListener("click", forget);
  $("filter").addEventListener("input", () => {
    page.words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (page.model) draw();
  });
  window.addEventListener("resize", () => page.model && draw());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && page.nextAt - performance.now() > EVERY_MS) plan(0);
  });
}

function theme(next) {
  const wanted = next || "automatic", system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const dark = page.theme === "dark" || (page.theme === "automatic" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").textContent = `Theme: ${page.theme}`;
  };
  page.theme = ["automatic", "light", "dark"].includes(wanted) ? wanted : "automatic";
  apply();
  system.onchange = apply;
}

// ---- asking ----

function tick() {
  const now = performance.now(), dot = $("dot"), old = page.gotAt ? age(now - page.gotAt) : "";
  dot.className = page.failures ? "off" : page.gotAt ? "on" : "";
  $("age").textContent = !page.gotAt ? "no data yet" : page.failures ? `data are ${old} old` : `live, ${old} old`;
  $("trouble").hidden = !page.failures;
  const text = `The companion cannot be reached (${page.why}). ${page.gotAt ? "What you see is old." : ""} It is asked again and again.`;
  if (page.failures && $("trouble").textContent !== text) $("trouble").textContent = text;
}

function plan(ms) {
  clearTimeout(page.timer);
  page.nextAt = performance.now() + ms;
  page.timer = setTimeout(ask, ms);
}

async function ask() {
  const began = performance.now();
  let wait = EVERY_MS;
  try {
    const answer = await fetch("debug/model?pods=no", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (answer.status === 503 && !page.model && page.patience-- > 0) { // a large cluster's is being written
      plan(SOON_MS);
      return;
    }
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const model = await answer.json();
    if (model.version !== 1) throw new Error("it is of another version than this page: load it again");
    page.model = model;
    page.gotAt = performance.now();
    page.failures = 0;
    draw();
    wait = Math.max(wait, 10 * (performance.now() - began)); // a large cluster is not asked all the time
  } catch (error) {
    page.failures++;
    page.why = error.name === "TimeoutError" ? "no answer in time" : error.message;
    wait = Math.min(PATIENCE_MS, EVERY_MS * 2 ** Math.min(page.failures, 8));
  }
  tick();
  plan(document.hidden ? Math.max(wait, HIDDEN_MS) : wait);
}

function start() {
  const asked = new URLSearchParams(location.search);
  theme(asked.get("theme"));
  $("theme").addEventListener("click", () => theme({ automatic: "light", light: "dark", dark: "automatic" }[page.theme]));
  $("filter").value = asked.get("filter") || "";
  page.words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  showHelp();
  listen();
  setInterval(tick, 1000);
  ask().then(() => asked.get("job") && page.jobs.has(asked.get("job")) && pick(asked.get("job")));
}

start();
