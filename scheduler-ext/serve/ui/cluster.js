// SPDX-License-Identifier: Apache-2.0
// The cluster page, second file: supernodes, nodes and GPUs.
"use strict";

const MANY = 250, VERY_MANY = 2500, COLUMN_ROWS = 16;

// ---- nodes ----

function said(group) {
  const unit = group.unit === null || group.unit === undefined ? "" : `, unit ${group.unit}`;
  const who = group.job ? ` ${group.state === "assumed" ? "for" : "by"} ${group.job}${unit}` : "";
  return `GPU ${ranges(group.gpus)} ${group.state}${who}`;
}

function drawRow(row, node) {
  const cells = [], box = make("span", "cells"), unsure = new Set(node.healthUnknown);
  box.setAttribute("aria-hidden", "true");
  for (const group of node.gpus)
    for (const gpu of group.gpus) {
      const taken = group.state === "used" || group.state === "assumed";
      const cell = make("span", `g ${group.state}${taken ? ` ${colour(group.job)}` : ""}`);
      if (taken && !group.job) cell.classList.add("unknown");
      if (unsure.has(gpu)) cell.classList.add("unsure");
      if (group.job) cell.dataset.job = group.job;
      if (group.unit !== null && group.unit !== undefined) cell.dataset.unit = group.unit;
      cells[gpu] = cell;
    }
  box.append(...cells.filter(Boolean));
  if (cells.length > 16) box.style.setProperty("--per-row", 16);
  row.className = `node${node.stale || !node.ready ? " stale" : ""}`;
  const name = make("span", "name", shortName(node.name));
  row.replaceChildren(name, box);
  if (node.note) row.append(make("span", "flags", node.note));
  row.setAttribute("aria-label", `Node ${node.name}${node.note ? `, ${node.note}` : ""}: ${node.gpus.map(said).join("; ")}`);
  row.text = [node.name, node.supernode, node.product, node.note, ...node.gpus.flatMap((g) => [g.state, g.job, g.pod])]
    .filter(Boolean).join(" ").toLowerCase();
  row.drawn = drawingOf(node);
}

// All that a row shows.
const drawingOf = (node) => JSON.stringify([node.gpus, node.healthUnknown, node.supernode, node.note, node.stale, node.ready, node.gpus.map((g) => page.slots.get(g.job))]);

// ---- names: what all have at their end is left out, long ones show their end ----

function measureNames(nodes) {
  let tail = nodes.length > 1 ? nodes[0].name : "";
  for (const { name } of nodes) while (tail && !name.endsWith(tail)) tail = tail.slice(1);
  const dot = tail.indexOf(".");
  page.tail = dot < 0 ? 0 : tail.length - dot;
  const most = nodes.length > MANY ? 14 : 24;
  page.nameLength = Math.min(most, Math.max(4, ...nodes.slice(0, 20000).map((node) => node.name.length - page.tail)));
}

function shortName(name) {
  const short = page.tail ? name.slice(0, -page.tail) : name;
  return short.length > page.nameLength ? `…${short.slice(1 - page.nameLength)}` : short;
}

// ---- frames ----

const tierName = (tier) => (TIERS[tier - 1] ? `${TIERS[tier - 1]}, tier ${tier}` : `tier ${tier}`);

// Neighbours of one tier get colours far from each other.
function tint(frame, tier, number) {
  if (tier > 1) frame.style.setProperty("--tint", `${(number * 137 + tier * 60) % 360}`);
}

function makeFrame(title, tier, names, children) {
  const frame = make("section", `frame${children.length ? " inner" : ""}`), head = make("div", "head");
  head.append(make("h3", "", title));
  if (tier) head.append(make("span", "tier", tier > 1 ? tierName(tier) : `tier ${tier}`));
  frame.tier = tier;
  frame.sum = make("span", "sum");
  head.append(frame.sum);
  frame.append(head);
  frame.setAttribute("aria-label", title);
  frame.names = [...names];
  if (names.length) {
    const list = make("ul", "nodes");
    const columns = columnsOf(names.length);
    list.style.setProperty("--columns", columns);
    // what is out of sight in a very large cluster is not laid out: this is about its size
    if (!children.length) frame.style.containIntrinsicSize = `auto ${columns * 70 + 16}px auto ${Math.ceil(names.length / columns) * 8 + 50}px`;
    for (const name of [...names].sort(order)) {
      const row = make("li", "node");
      row.tabIndex = -1;
      row.dataset.node = name;
      page.rows.set(name, row);
      list.append(row);
    }
    frame.append(list);
  }
  if (children.length) {
    const inside = make("div", "frames");
    inside.append(...children);
    frame.append(inside);
    for (const child of children) frame.names.push(...child.names);
  }
  return frame;
}

function columnsOf(nodes) {
  const size = page.model.nodes.length, cell = size > VERY_MANY ? 66 : size > MANY ? page.nameLength * 6 + 108 : page.nameLength * 8 + 190;
  const fit = Math.max(1, Math.floor(($("left").clientWidth - 60) / cell));
  return Math.min(fit, Math.ceil(nodes / (size > VERY_MANY ? COLUMN_ROWS / 4 : COLUMN_ROWS)));
}

function buildFrames(model) {
  const below = new Map(), known = new Set(model.supernodes.map((s) => s.name)), placed = new Set();
  for (const supernode of model.supernodes) {
    const parent = known.has(supernode.parent) ? supernode.parent : "";
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(supernode);
  }
  page.rows.clear();
  page.frames = [];
  const counted = [];
  const build = (parent, depth) =>
    (depth > 9 ? [] : below.get(parent) || []).sort((a, b) => order(a.name, b.name)).map((supernode) => {
      const names = supernode.nodes.filter((name) => page.nodes.has(name) && !placed.has(name));
      names.forEach((name) => placed.add(name));
      const made = build(supernode.name, depth + 1), lone = made.filter((child) => child.lone).flatMap((child) => child.names);
      const frame = makeFrame(supernode.name, supernode.tier, [...names, ...lone], made.filter((child) => !child.lone));
      // A node that is a supernode of itself is drawn in the frame above; this one is only counted.
      frame.lone = parent !== "" && supernode.tier === 1 && names.length === 1 && !made.length;
      counted[supernode.tier] = (counted[supernode.tier] || 0) + 1;
      tint(frame, supernode.tier, counted[supernode.tier]);
      page.frames.push(frame);
      return frame;
    });
  const frames = build("", 0), rest = model.nodes.map((node) => node.name).filter((name) => !placed.has(name));
  if (rest.length) {
    frames.push(makeFrame(frames.length ? "outside of supernodes" : "nodes", 0, rest, []));
    page.frames.push(frames.at(-1));
  }
  const box = make("div", "frames");
  box.append(...frames);
  const size = model.nodes.length > VERY_MANY ? "tiny" : model.nodes.length > MANY ? "small" : "";
  $("cluster").className = size;
  $("cluster").style.setProperty("--name", page.nameLength);
  $("cluster").replaceChildren(box);
  const first = page.rows.values().next().value;
  if (first) first.tabIndex = 0;
}

function sumUp(names) {
  const sum = { gpus: 0, free: 0, used: 0, assumed: 0, unhealthy: 0 };
  for (const name of names)
    for (const group of page.nodes.get(name)?.gpus || []) {
      sum.gpus += group.gpus.length;
      sum[group.state] += group.gpus.length;
    }
  return sum;
}

function drawCluster(model) {
  const shape = JSON.stringify([model.supernodes.map((s) => [s.name, s.tier, s.parent, s.nodes]), model.nodes.length, $("left").clientWidth >> 5]);
  if (shape !== page.shape || model.nodes.some((node) => !page.rows.has(node.name))) {
    const focused = document.activeElement?.dataset?.node;
    measureNames(model.nodes);
    buildFrames(model);
    page.shape = shape;
    if (focused) page.rows.get(focused)?.focus();
  }
  for (const node of model.nodes) {
    const row = page.rows.get(node.name);
    if (row.drawn !== drawingOf(node)) drawRow(row, node);
  }
  for (const frame of page.frames) {
    const sum = sumUp(frame.names);
    frame.sum.textContent = `${model.nodes.length > MANY ? "" : `${plural(frame.names.length, "node")}, `}${sum.free}/${sum.gpus} free${sum.unhealthy ? `, ${sum.unhealthy} unhealthy` : ""}`;
  }
}
