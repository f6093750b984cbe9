// SPDX-License-Identifier: Apache-2.0
// The cluster page, first of four files: what the page knows, and how it learns of changes. Texts go in as textContent.
"use strict";

const EVERY_MS = 1000, HIDDEN_MS = 30000, PATIENCE_MS = 30000, TIMEOUT_MS = 20000, EVENTS_KEPT = 200;
const FLAG = { ready: 2, cordoned: 4, stale: 8, links: 16, alone: 32, reserved: 64, spare: 128, outlived: 256 };
const STATES = {
  gathers: "not planned yet", waits: "waits for room", refused: "refused", writes: "plan is being written", placed: "placed",
  "plan-lost": "plan lost", gated: "gated", pending: "waits for the scheduler", starting: "starting", running: "running",
};
const $ = (id) => document.getElementById(id);
const order = new Intl.Collator("en", { numeric: true }).compare;
const thousands = new Intl.NumberFormat("en");

const page = {
  head: null, state: "", etag: "", tree: new Map(), nodes: new Map(), jobs: new Map(), events: [], // as the companion told it
  racks: [], halls: [], byName: new Map(), rackOf: new Map(), held: new Map(), line: new Map(), sum: null, // made of it, see sumUp()
  shape: 0, clock: 0, gotAt: 0, failures: 0, why: "", timer: 0, turn: 0, drewMs: 0, theme: "automatic",
};

// ---- small things ----

// make("p", { class: "quiet", href: "#/" }, "text", element)
function make(tag, given, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(given || {}))
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
const number = (n) => thousands.format(n);
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 120 ? `${s} s` : s < 7200 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}
const now = () => Date.now() + page.clock;
const since = (seconds) => (seconds ? age(now() - seconds * 1000) : "");

// "0-2,5" to [0, 1, 2, 5]
function listed(text) {
  const found = [];
  if (!text) return found;
  for (const part of text.split(",")) {
    const [first, last] = part.split("-");
    for (let i = +first; i <= +(last ?? first); i++) found.push(i);
  }
  return found;
}
function countOf(text) {
  let sum = 0;
  if (!text) return 0;
  for (const part of text.split(",")) {
    const dash = part.indexOf("-");
    sum += dash < 0 ? 1 : part.slice(dash + 1) - part.slice(0, dash) + 1;
  }
  return sum;
}

// ---- what the companion tells ----

function readNode([id, name, inside, gpus, available, flags, free, assumed, unhealthy, isolated, unknown, note, users]) {
  return { id, name, inside, gpus, available, flags, free, assumed, unhealthy, isolated, unknown, note,
    bad: countOf(unhealthy), apart: countOf(isolated), planned: countOf(assumed),
    users: users.map(([job, mask, unit, rank, pod]) => ({ job, mask, unit, rank, pod, count: countOf(mask) })) };
}

const isWrong = (node) => !(node.flags & FLAG.ready) || (node.flags & (FLAG.stale | FLAG.links | FLAG.outlived)) !== 0 || node.bad > 0;

function take(told) {
  if (told.all) for (const map of [page.tree, page.nodes, page.jobs]) map.clear();
  if (told.all) page.events = [];
  page.shape += told.all || Boolean(told.supernodes) || told.nodesGone.length > 0;
  if (told.supernodes) {
    page.tree.clear();
    for (const [id, name, tier, parent] of told.supernodes) page.tree.set(id, { id, name, tier, parent });
  }
  for (const id of told.nodesGone) page.nodes.delete(id);
  for (const row of told.nodes) {
    const old = page.nodes.get(row[0]), node = readNode(row);
    page.shape += !old || old.inside !== node.inside || old.name !== node.name;
    page.nodes.set(node.id, node);
  }
  for (const key of told.jobsGone) page.jobs.delete(key);
  for (const job of told.jobs) page.jobs.set(job.key, job);
  const kept = { true: 0, false: 0 }; // many decisions do not push out what happened to nodes
  page.events = told.events.reverse().concat(page.events).filter((event) => ++kept[event.kind === "Node"] <= EVENTS_KEPT);
  page.head = told;
  page.state = told.state;
  page.clock = told.ms - Date.now();
}

// ---- racks and halls: built again only when nodes come, go or move ----

// Nodes without a supernode of tier 1 are drawn together, though each is one by itself.
function buildRacks() {
  const racks = new Map(), halls = new Map();
  page.byName.clear();
  page.rackOf.clear();
  for (const node of page.nodes.values()) {
    const above = page.tree.get(node.inside), key = above ? above.id : -1;
    page.byName.set(node.name, node.id);
    if (!racks.has(key)) {
      const lone = !above || above.tier > 1, hall = lone ? above : page.tree.get(above.parent);
      racks.set(key, { name: lone ? `${above ? above.name : "outside"}: single nodes` : above.name, lone, hall: hall ? hall.id : -1, nodes: [] });
    }
    racks.get(key).nodes.push(node.id);
    page.rackOf.set(node.id, racks.get(key));
  }
  for (const rack of racks.values()) {
    if (!halls.has(rack.hall)) halls.set(rack.hall, { name: hallName(rack.hall), racks: [] });
    halls.get(rack.hall).racks.push(rack);
    rack.nodes.sort((a, b) => order(page.nodes.get(a).name, page.nodes.get(b).name));
  }
  page.halls = [...halls.values()].sort((a, b) => order(a.name, b.name));
  for (const hall of page.halls) hall.racks.sort((a, b) => order(a.name, b.name));
  page.racks = page.halls.flatMap((hall) => hall.racks);
}

function hallName(id) {
  const names = [];
  for (let at = page.tree.get(id); at && names.length < 8; at = page.tree.get(at.parent)) names.unshift(at.name);
  return names.join(" / ") || (page.tree.size ? "in no hall" : "");
}

// ---- sums ----

function sumUp() {
  const sum = { nodes: page.nodes.size, gpus: 0, available: 0, planned: 0, used: 0, bad: 0, apart: 0,
    notReady: 0, cordoned: 0, stale: 0, links: 0, outlived: 0, alone: 0, torn: [], unplaced: [], lost: [] };
  const spread = new Map(); // "unit job" of those that must lie in one supernode: where it is
  const torn = new Set();
  page.held.clear();
  for (const rack of page.racks) {
    Object.assign(rack, { gpus: 0, available: 0, wrong: 0, closed: 0, rooms: new Map() });
    for (const id of rack.nodes) {
      const node = page.nodes.get(id);
      rack.gpus += node.gpus;
      rack.available += node.available;
      if (node.available) {
        const kind = node.gpus * ROOMS + node.available;
        rack.rooms.set(kind, (rack.rooms.get(kind) || 0) + 1);
      }
      rack.wrong += isWrong(node);
      rack.closed += (node.flags & FLAG.cordoned) > 0;
      sum.bad += node.bad;
      sum.apart += node.apart;
      sum.planned += node.planned;
      sum.notReady += !(node.flags & FLAG.ready);
      sum.cordoned += (node.flags & FLAG.cordoned) > 0;
      sum.stale += (node.flags & FLAG.stale) > 0;
      sum.links += (node.flags & FLAG.links) > 0;
      sum.outlived += (node.flags & FLAG.outlived) > 0;
      sum.alone += (node.flags & FLAG.alone) > 0;
      for (const user of node.users) {
        page.held.set(user.job, (page.held.get(user.job) || 0) + user.count);
        sum.used += user.count;
        const job = page.jobs.get(user.job);
        if (!job?.group || job.atomic || user.unit === null) continue;
        const unit = `${user.unit} ${user.job}`, where = rack.lone ? node.name : rack, known = spread.get(unit);
        if (known === undefined) spread.set(unit, where);
        else if (known !== where) torn.add(user.job);
      }
    }
    sum.gpus += rack.gpus;
    sum.available += rack.available;
  }
  sum.torn = [...torn];
  page.line.clear();
  for (const job of page.jobs.values()) {
    if (job.place !== null) page.line.set(job.place, job);
    if (job.unplaced) sum.unplaced.push(job.key);
    if (job.state === "plan-lost") sum.lost.push(job.key);
  }
  page.sum = sum;
}

const ROOMS = 1000; // in rack.rooms: GPUs of a node * ROOMS + those that are available: how many such nodes

// How many units of a size fit: each inside one rack, on whole nodes, or on part of one node where it is smaller.
function fitting(size) {
  const where = [];
  let units = 0;
  for (const rack of page.racks) {
    let room = 0, here = 0;
    for (const [kind, nodes] of rack.rooms) {
      const available = kind % ROOMS, part = Math.min(size, Math.floor(kind / ROOMS)), usable = available - (available % part);
      if (rack.lone) here += nodes * Math.floor(usable / size);
      else room += nodes * usable;
    }
    here += Math.floor(room / size);
    if (here) where.push([rack, here]);
    units += here;
  }
  where.sort((a, b) => b[1] - a[1] || order(a[0].name, b[0].name));
  return { size, units, where };
}

const SIZES_SHOWN = 4; // beside the usual ones
const USUAL = [8, 16, 32, 64, 128];
const sizes = () => [...USUAL, ...page.head.sizes.filter((size) => !USUAL.includes(size)).slice(0, SIZES_SHOWN)].sort((a, b) => a - b);

// Jobs that need attention, by reason; the largest group first.
function waiting() {
  const groups = new Map();
  for (const job of page.jobs.values()) {
    if (job.settled) continue;
    const reason = job.reason || STATES[job.state] || job.state;
    if (!groups.has(reason)) groups.set(reason, []);
    groups.get(reason).push(job);
  }
  for (const jobs of groups.values())
    jobs.sort((a, b) => (a.place ?? 1e9) - (b.place ?? 1e9) || (a.since || 1e12) - (b.since || 1e12) || order(a.key, b.key));
  return [...groups].map(([reason, jobs]) => ({ reason, jobs, oldest: Math.min(...jobs.map((job) => job.since || Infinity)) }))
    .sort((a, b) => b.jobs.length - a.jobs.length || order(a.reason, b.reason));
}

// ---- asking ----

function plan(ms) {
  clearTimeout(page.timer);
  page.timer = setTimeout(ask, ms);
}

// Who looks, where the companion wants to know it: kept in this tab alone.
const viewer = () => ({ token: sessionStorage.getItem("token") || "", namespace: sessionStorage.getItem("namespace") || "" });

function request(address, headers) {
  const { token, namespace } = viewer();
  const whole = namespace ? `${address}${address.includes("?") ? "&" : "?"}namespace=${encodeURIComponent(namespace)}` : address;
  return fetch(whole, { headers: { ...headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) }, signal: AbortSignal.timeout(TIMEOUT_MS) });
}

function signIn(event) {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value.trim());
  sessionStorage.setItem("namespace", $("namespace").value.trim());
  $("token").value = "";
  Object.assign(page, { head: null, state: "", etag: "", failures: 0 });
  plan(0);
}

// Where it is asked again before an answer has come (the tab is shown again, somebody signs in), the last one alone counts.
async function ask() {
  const began = performance.now(), turn = ++page.turn;
  let wait = EVERY_MS;
  try {
    const query = page.state ? `?since=${page.state}&events=${page.head.lastEvent}` : "";
    const answer = await request(`ui/state${query}`, page.etag ? { "If-None-Match": page.etag } : {});
    const told = answer.status === 200 ? await answer.json() : null, said = answer.status < 400 ? "" : await saying(answer);
    if (turn !== page.turn) return;
    $("sign-in").hidden = answer.status !== 401 && answer.status !== 403;
    if (!$("sign-in").hidden) {
      $("sign-in-why").textContent = viewer().token ? said : "";
      return;
    }
    if (answer.status === 503 && !page.head) wait = 300; // it is read for the first time, or asks who we are
    else if (said) throw new Error(said);
    else {
      if (told) {
        take(told);
        page.etag = answer.headers.get("ETag") || "";
        drawAll();
        wait = Math.max(wait, 5 * (performance.now() - began)); // a very large cluster is not asked all the time
      }
      page.gotAt = performance.now();
      page.failures = 0;
    }
  } catch (error) {
    if (turn !== page.turn) return;
    page.failures++;
    page.why = error.name === "TimeoutError" ? "no answer in time" : error.message;
    wait = Math.min(PATIENCE_MS, EVERY_MS * 2 ** Math.min(page.failures, 8));
  }
  tick();
  plan(document.hidden ? Math.max(wait, HIDDEN_MS) : wait);
}

async function saying(answer) {
  const text = (await answer.text()).trim().split("\n")[0].slice(0, 200);
  return `it answers ${answer.status}${text ? `: ${text}` : ""}`;
}

function tick() {
  const old = page.gotAt ? age(performance.now() - page.gotAt) : "";
  $("age").textContent = !page.gotAt ? "no data yet" : page.failures ? `data are ${old} old` : "live";
  $("age").className = page.failures ? "off" : "on";
  $("trouble").hidden = !page.failures;
  const text = `The companion cannot be reached (${page.why}). ${page.gotAt ? "What you see is old. " : ""}It is asked again and again.`;
  if (page.failures && $("trouble").textContent !== text) $("trouble").textContent = text;
}
