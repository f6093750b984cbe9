// SPDX-License-Identifier: Apache-2.0
// The cluster page, first of three files: what the page knows, words, and the colours of jobs. Every text goes in as
// textContent.
"use strict";

const MARKS = 3;
const STATES = {
  gathers: "not planned yet", waits: "waits for room", refused: "refused", writes: "plan is being written", placed: "placed",
  "plan-lost": "plan lost", gated: "gated", pending: "waits for the scheduler", starting: "starting", running: "running",
};
const TIERS = ["supernode", "leaf", "spine", "hall"];
const $ = (id) => document.getElementById(id);
const order = new Intl.Collator("en", { numeric: true }).compare;

const page = {
  model: null, jobs: new Map(), nodes: new Map(), // by key, by name
  shape: "", rows: new Map(), cells: new Map(), // name: row; job key: its cells
  hues: 0, palette: [], slots: new Map(), meaning: new Map(), // colours of jobs; job key: its colour; state of a GPU: words
  picked: null, shown: null, // a job's key; {node} or {job} in the details
  words: [], gotAt: 0, nextAt: 0, failures: 0, patience: 40, why: "", timer: 0,
};

function make(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 120 ? `${s} s` : s < 7200 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}
const ageOf = (stamp) => (stamp ? age(Date.parse(page.model.time) - Date.parse(stamp)) : "");

// [0,1,2,5] to "0-2,5"
function ranges(list) {
  const parts = [];
  for (let i = 0; i < list.length; i++) {
    const first = list[i];
    while (i + 1 < list.length && list[i + 1] === list[i] + 1) i++;
    parts.push(first === list[i] ? `${first}` : `${first}-${list[i]}`);
  }
  return parts.join(",");
}

// ---- colours: a job's is the hash of its key, or the next one that is not taken, the largest jobs first; it keeps it
// while it lives ----

function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

// The legend and the colours are the model's, as those of `gputopo cluster -o svg`.
function learn(legend) {
  if (page.hues) return;
  page.hues = legend.jobColors.length;
  page.palette = legend.jobColors;
  page.meaning = new Map(legend.gpus.map(({ name, text }) => [name, text]));
  legend.jobColors.forEach((value, i) => document.styleSheets[0].insertRule(`.h${i} { --c: ${value}; }`));
  $("legend").prepend(...legend.gpus.map(({ name, text }) => {
    const item = make("li"), cell = make("span", `g h0 ${name}`);
    cell.setAttribute("aria-hidden", "true");
    item.append(cell, text);
    return item;
  }));
}

function colourJobs(held) {
  const all = page.hues * MARKS, taken = new Set();
  for (const key of [...page.slots.keys()]) if (!held.has(key)) page.slots.delete(key);
  for (const slot of page.slots.values()) taken.add(slot);
  const fresh = [...held.keys()].filter((key) => !page.slots.has(key));
  fresh.sort((a, b) => held.get(b) - held.get(a) || (a < b ? -1 : 1));
  for (const key of fresh) {
    const hue = hash(key) % page.hues;
    let slot = hue;
    for (let i = 0; taken.has(slot) && i < all; i++) slot = ((hue + i) % page.hues) + page.hues * Math.floor(i / page.hues);
    if (taken.has(slot) && taken.size >= all) slot = hash(key) % all;
    taken.add(slot);
    page.slots.set(key, slot);
  }
}

function colour(key) {
  const slot = page.slots.get(key);
  return slot === undefined ? "unknown" : `h${slot % page.hues} m${Math.floor(slot / page.hues)}`;
}
