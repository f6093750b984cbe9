// SPDX-License-Identifier: Apache-2.0
// The cluster page, second file: the map. One canvas has halls, a tile for each rack, and in it a cell for each node, so
// that ten thousand nodes cost no elements. What it shows is also said in words, for the tile that is looked at.
"use strict";

const map = { tiles: [], halls: [], at: null, cursor: -1, width: 0, height: 0, side: 0, shape: -1, box: "" };
const HEAD = 17, GAP = 4, LABEL = 13, SIDE_MIN = 22, SIDE_MAX = 200;

function heightOf(side, width) {
  const columns = Math.max(1, Math.floor((width + GAP) / (side + GAP)));
  let height = 0;
  for (const hall of page.halls) height += (hall.name ? HEAD : 0) + Math.ceil(hall.racks.length / columns) * (side + GAP) + GAP;
  return height;
}

// The largest tiles with which all racks are seen at once; below a least size the map scrolls.
function layMap() {
  const box = $("map-box"), width = box.clientWidth, height = box.clientHeight;
  const key = `${page.shape} ${width} ${height}`;
  if (key === map.box) return;
  map.box = key;
  let side = SIDE_MAX;
  while (side > SIDE_MIN && heightOf(side, width) > height) side -= side > 48 ? 4 : 1;
  const columns = Math.max(1, Math.floor((width + GAP) / (side + GAP)));
  map.tiles = [];
  map.halls = [];
  let y = 0;
  for (const hall of page.halls) {
    if (hall.name) map.halls.push({ name: hall.name, y, hall });
    y += hall.name ? HEAD : 0;
    hall.racks.forEach((rack, i) => map.tiles.push({ rack, x: (i % columns) * (side + GAP), y: y + Math.floor(i / columns) * (side + GAP) }));
    y += Math.ceil(hall.racks.length / columns) * (side + GAP) + GAP;
  }
  map.side = side;
  map.width = width;
  map.height = Math.max(y, 1);
  map.cursor = Math.min(map.cursor, map.tiles.length - 1);
  const canvas = $("map"), ratio = Math.min(window.devicePixelRatio || 1, map.height > 4000 ? 1 : 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(map.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${map.height}px`;
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

function coloursOfMap() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
  return { paper: read("--paper"), ink: read("--ink"), soft: read("--soft"), edge: read("--edge"), free: read("--free"), busy: read("--busy"),
    bad: read("--bad"), warn: read("--warn"), job: read("--job"), focus: read("--focus") };
}

// What is emphasized: a job's GPUs by node, or the racks where a size fits.
function emphasis() {
  const emphasized = { job: null, racks: null };
  if (view.name === "job") {
    emphasized.job = new Map();
    for (const node of page.nodes.values())
      for (const user of node.users) if (user.job === view.arg) emphasized.job.set(node.id, (emphasized.job.get(node.id) || 0) + user.count);
  }
  if (view.name === "fits" && view.arg) emphasized.racks = new Set(fitting(+view.arg).where.map(([rack]) => rack));
  if (view.name === "rack") emphasized.racks = new Set(page.racks.filter((rack) => rack.name === view.arg));
  if (view.name === "node") emphasized.racks = new Set([rackOf(view.arg)].filter(Boolean));
  return emphasized;
}

const rackOf = (name) => page.racks.find((rack) => rack.nodes.some((id) => page.nodes.get(id).name === name));

function drawCell(pen, c, node, x, y, size, job) {
  const inner = size - (size > 5 ? 1 : 0);
  if (job) {
    const share = (job.get(node.id) || 0) / (node.gpus || 1), tall = Math.max(share ? 2 : 0, Math.round(inner * share));
    pen.fillStyle = c.busy;
    pen.globalAlpha = 0.35;
    pen.fillRect(x, y, inner, inner);
    pen.globalAlpha = 1;
    pen.fillStyle = c.job;
    pen.fillRect(x, y + inner - tall, inner, tall);
    return;
  }
  const closed = node.flags & FLAG.cordoned;
  pen.fillStyle = c.busy;
  pen.fillRect(x, y, inner, inner);
  if (node.available) {
    const tall = Math.max(2, Math.round((inner * node.available) / node.gpus));
    pen.fillStyle = c.free;
    pen.fillRect(x, y + inner - tall, inner, tall);
  }
  if (!isWrong(node) && !closed) return;
  pen.strokeStyle = isWrong(node) ? c.bad : c.warn;
  pen.lineWidth = size > 9 ? 2 : 1.5;
  pen.beginPath();
  pen.moveTo(x + 1, y + inner - 1);
  pen.lineTo(x + inner - 1, y + 1);
  if (isWrong(node)) {
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + inner - 1, y + inner - 1);
  }
  pen.stroke();
  pen.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
}

function drawTile(pen, c, tile, emphasized) {
  const { rack, x, y } = tile, side = map.side, label = side >= 54;
  const dim = (emphasized.racks && !emphasized.racks.has(rack)) || (emphasized.job && !rack.nodes.some((id) => emphasized.job.has(id)));
  pen.globalAlpha = dim ? 0.3 : 1;
  pen.lineWidth = 1;
  pen.strokeStyle = c.edge;
  pen.fillStyle = c.paper;
  pen.fillRect(x, y, side, side);
  pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  if (label) {
    pen.fillStyle = c.ink;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    const free = `${rack.available}`;
    pen.fillText(free, x + side - 4, y + 11);
    const room = side - 12 - pen.measureText(free).width;
    pen.textAlign = "left";
    pen.fillStyle = c.soft;
    let name = rack.name;
    while (name.length > 2 && pen.measureText(name).width > room) name = `…${name.slice(name.startsWith("…") ? 2 : 1)}`;
    pen.fillText(name, x + 4, y + 11);
  }
  const top = label ? LABEL + 1 : 2, wide = side - 5, tall = side - top - 3;
  let columns = 1;
  while (Math.floor(wide / columns) * Math.ceil(rack.nodes.length / columns) > tall && columns < wide) columns++;
  const cell = Math.min(Math.floor(wide / columns), 60);
  if (cell >= 3)
    rack.nodes.forEach((id, i) => drawCell(pen, c, page.nodes.get(id), x + 3 + (i % columns) * cell, y + top + Math.floor(i / columns) * cell, cell, emphasized.job));
  else { // too many nodes for cells
    pen.fillStyle = c.busy;
    pen.fillRect(x + 3, y + top, wide, tall);
    pen.fillStyle = emphasized.job ? c.job : c.free;
    const share = emphasized.job ? rack.nodes.filter((id) => emphasized.job.has(id)).length / rack.nodes.length : rack.available / (rack.gpus || 1);
    pen.fillRect(x + 3, y + top + tall * (1 - share), wide, tall * share);
  }
  pen.globalAlpha = 1;
  if (rack.wrong && !emphasized.job) {
    pen.strokeStyle = c.bad;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
  }
  if (map.tiles[map.cursor] === tile && document.activeElement === $("map")) {
    pen.strokeStyle = c.focus;
    pen.lineWidth = 3;
    pen.strokeRect(x + 1.5, y + 1.5, side - 3, side - 3);
  }
}

function drawMap() {
  layMap();
  const pen = $("map").getContext("2d"), c = coloursOfMap(), emphasized = emphasis();
  pen.clearRect(0, 0, map.width, map.height);
  for (const { name, y, hall } of map.halls) {
    const free = hall.racks.reduce((sum, rack) => sum + rack.available, 0), gpus = hall.racks.reduce((sum, rack) => sum + rack.gpus, 0);
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillStyle = c.ink;
    pen.fillText(name, 0, y + 12);
    const wide = pen.measureText(name).width;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = c.soft;
    pen.fillText(`${number(free)} of ${plural(gpus, "GPU")} available`, wide + 10, y + 12);
  }
  for (const tile of map.tiles) drawTile(pen, c, tile, emphasized);
  return emphasized;
}

// To the first tile of what was chosen.
function scrollMap(emphasized) {
  const chosen = map.tiles.find(({ rack }) => emphasized.racks?.has(rack) || (emphasized.job && rack.nodes.some((id) => emphasized.job.has(id))));
  if (!chosen) return;
  const box = $("map-box");
  if (chosen.y < box.scrollTop || chosen.y + map.side > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, chosen.y - HEAD - GAP);
}

function tileAt(event) {
  const box = $("map").getBoundingClientRect(), x = event.clientX - box.x, y = event.clientY - box.y;
  return map.tiles.findIndex((tile) => x >= tile.x && x < tile.x + map.side && y >= tile.y && y < tile.y + map.side);
}

const saidOf = (rack) => `${rack.name}: ${plural(rack.nodes.length, "node")}, ${rack.available} of ${plural(rack.gpus, "GPU")} available`
  + `${rack.wrong ? `, ${plural(rack.wrong, "node")} with a fault` : ""}${rack.closed ? `, ${rack.closed} cordoned` : ""}`;

function lookAt(index) {
  map.cursor = index;
  const tile = map.tiles[index];
  $("map-said").textContent = tile ? saidOf(tile.rack) : "";
}

function moveCursor(key) {
  const tile = map.tiles[map.cursor] || map.tiles[0];
  if (!tile) return false;
  if (map.cursor < 0) map.cursor = 0;
  let best = -1, least = Infinity;
  map.tiles.forEach((other, i) => {
    const dx = other.x - tile.x, dy = other.y - tile.y;
    const ahead = { ArrowRight: dy === 0 && dx > 0, ArrowLeft: dy === 0 && dx < 0, ArrowDown: dy > 0, ArrowUp: dy < 0 }[key];
    const far = Math.abs(dx) + 1000 * Math.abs(dy);
    if (ahead && far < least) [best, least] = [i, far];
  });
  if (best < 0) return false;
  lookAt(best);
  const box = $("map-box"), { y } = map.tiles[best];
  if (y < box.scrollTop) box.scrollTop = y;
  if (y + map.side > box.scrollTop + box.clientHeight) box.scrollTop = y + map.side - box.clientHeight;
  drawMap();
  return true;
}

function listenMap() {
  const canvas = $("map");
  canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && lookAt(tileAt(event)));
  canvas.addEventListener("click", (event) => {
    const tile = map.tiles[tileAt(event)];
    if (tile) go("rack", tile.rack.name);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && map.tiles[map.cursor]) go("rack", map.tiles[map.cursor].rack.name);
    else if (!moveCursor(event.key)) return;
    event.preventDefault();
  });
  canvas.addEventListener("focus", () => { lookAt(Math.max(0, map.cursor)); drawMap(); });
  canvas.addEventListener("blur", () => drawMap());
}
