// SPDX-License-Identifier: Apache-2.0
// The cluster page, second file: the map. One canvas has halls, a tile for each rack, and in it a cell for each node, so
// that ten thousand nodes cost no elements. What it shows is also said in words, for the tile that is looked at.
"use strict";

const map = { tiles: [], halls: [], at: null, cursor: -1, width: 0, height: 0, side: 0, shape: -1, box: "" };
const HEAD = 17, GAP = 4, LABEL = 13, BETWEEN = 14, SIDE_MIN = 22, SIDE_MAX = 200, LABELLED = 54, CELL_MAX = 60;

// Halls lie side by side in `across` columns. Gives the height, and where all is.
function layHalls(side, across, width) {
  const wide = Math.floor((width - (across - 1) * BETWEEN) / across), columns = Math.max(1, Math.floor((wide + GAP) / (side + GAP)));
  const laid = { tiles: [], halls: [], height: 0 };
  for (let first = 0; first < page.halls.length; first += across) {
    let lowest = laid.height;
    page.halls.slice(first, first + across).forEach((hall, n) => {
      const x = n * (wide + BETWEEN), y = laid.height + (hall.name ? HEAD : 0);
      if (hall.name) laid.halls.push({ hall, x, y: laid.height, wide });
      hall.racks.forEach((rack, i) => laid.tiles.push({ rack, x: x + (i % columns) * (side + GAP), y: y + Math.floor(i / columns) * (side + GAP) }));
      lowest = Math.max(lowest, y + Math.ceil(hall.racks.length / columns) * (side + GAP) + GAP);
    });
    laid.height = lowest;
  }
  return laid;
}

// The largest tiles with which all racks are seen at once; below a least size the map scrolls.
function layMap() {
  const box = $("map-box"), width = box.clientWidth, height = box.clientHeight;
  const key = `${page.shape} ${width} ${height}`;
  if (key === map.box) return;
  map.box = key;
  const most = Math.max(1, Math.min(6, page.halls.length, Math.floor(width / 150)));
  let side = SIDE_MAX, laid;
  for (;; side -= side > 48 ? 4 : 1) {
    for (let across = 1; across <= most; across++) {
      const tried = layHalls(side, across, width);
      if (across === 1 || tried.height < laid.height) laid = tried;
    }
    if (laid.height <= height || side <= SIDE_MIN) break;
  }
  map.tiles = laid.tiles;
  map.halls = laid.halls;
  map.side = side;
  map.width = width;
  map.height = Math.max(laid.height, 1);
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

const rackOf = (name) => page.rackOf.get(page.byName.get(name));

// Rectangles of one colour are painted together: changing colours costs more than painting.
const paint = { edge: [], paper: [], busy: [], free: [], job: [] };

function flush(pen, c) {
  for (const [name, list] of Object.entries(paint)) {
    pen.fillStyle = c[name];
    for (let i = 0; i < list.length; i += 4) pen.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    list.length = 0;
  }
}

function drawCell(marks, node, x, y, size, job) {
  const inner = size - (size > 5 ? 1 : 0), count = job ? job.get(node.id) || 0 : node.available;
  paint.busy.push(x, y, inner, inner);
  if (count) {
    const tall = Math.max(2, Math.round((inner * count) / node.gpus));
    paint[job ? "job" : "free"].push(x, y + inner - tall, inner, tall);
  }
  if (!job && (isWrong(node) || node.flags & FLAG.cordoned || node.apart)) marks.push([x, y, inner, isWrong(node)]);
}

function drawMark(pen, c, [x, y, inner, wrong]) {
  pen.strokeStyle = wrong ? c.bad : c.warn;
  pen.lineWidth = inner > 8 ? 2 : 1.5;
  pen.beginPath();
  pen.moveTo(x + 1, y + inner - 1);
  pen.lineTo(x + inner - 1, y + 1);
  if (wrong) {
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + inner - 1, y + inner - 1);
  }
  pen.stroke();
  pen.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
}

function frame(pen, colour, { x, y }, thick) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.strokeRect(x + thick / 2, y + thick / 2, map.side - thick, map.side - thick);
}

function drawCells({ rack, x, y }, marks, job) {
  const side = map.side, top = side >= LABELLED ? LABEL + 1 : 2, wide = side - 5, tall = side - top - 3, count = rack.nodes.length;
  paint.edge.push(x, y, side, side);
  paint.paper.push(x + 1, y + 1, side - 2, side - 2);
  let columns = 1;
  while (Math.floor(wide / columns) * Math.ceil(count / columns) > tall && columns < wide) columns++;
  const cell = Math.min(Math.floor(wide / columns), CELL_MAX);
  if (cell >= 3) {
    rack.nodes.forEach((id, i) => drawCell(marks, page.nodes.get(id), x + 3 + (i % columns) * cell, y + top + Math.floor(i / columns) * cell, cell, job));
    return;
  }
  const share = job ? rack.nodes.filter((id) => job.has(id)).length / count : rack.available / (rack.gpus || 1); // too many for cells
  paint.busy.push(x + 3, y + top, wide, tall);
  paint[job ? "job" : "free"].push(x + 3, y + top + tall * (1 - share), wide, tall * share);
}

function drawLabel(pen, c, { rack, x, y }) {
  pen.fillStyle = c.ink;
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "right";
  pen.fillText(`${rack.available}`, x + map.side - 4, y + 11);
  const room = map.side - 12 - pen.measureText(`${rack.available}`).width;
  pen.textAlign = "left";
  pen.fillStyle = c.soft;
  let name = rack.name;
  while (name.length > 2 && pen.measureText(name).width > room) name = `…${name.slice(name.startsWith("…") ? 2 : 1)}`;
  pen.fillText(name, x + 4, y + 11);
}

// Those that are not emphasized first, and pale.
function drawTiles(pen, c, emphasized) {
  const { job, racks } = emphasized, chosen = (rack) => (racks ? racks.has(rack) : !job || rack.nodes.some((id) => job.has(id)));
  const shown = new Set(map.tiles.filter(({ rack }) => chosen(rack)));
  for (const pale of [true, false]) {
    const tiles = map.tiles.filter((tile) => shown.has(tile) !== pale), marks = [];
    if (!tiles.length) continue;
    pen.globalAlpha = pale ? 0.3 : 1;
    for (const tile of tiles) drawCells(tile, marks, job);
    flush(pen, c);
    for (const mark of marks) drawMark(pen, c, mark);
    if (map.side >= LABELLED) for (const tile of tiles) drawLabel(pen, c, tile);
    if (!job) for (const tile of tiles) if (tile.rack.wrong) frame(pen, c.bad, tile, 2);
  }
  pen.globalAlpha = 1;
  if (map.tiles[map.cursor] && document.activeElement === $("map")) frame(pen, c.focus, map.tiles[map.cursor], 3);
}

// A hue for each domain of the highest tier; the leaves in it are light and dark in turn. In lch a lightness has one contrast for all hues.
function coloursOfHalls(halls) {
  const [first, second] = document.documentElement.dataset.theme === "dark" ? [58, 80] : [38, 58];
  const tops = new Map(), inside = new Map();
  return halls.map((hall) => {
    const top = hall.name.split(" / ")[0];
    if (!tops.has(top)) tops.set(top, tops.size);
    inside.set(top, (inside.get(top) || 0) + 1);
    return `lch(${inside.get(top) % 2 ? first : second}% 40 ${(200 + tops.get(top) * 137) % 360})`;
  });
}

function drawMap() {
  layMap();
  const pen = $("map").getContext("2d"), c = coloursOfMap(), emphasized = emphasis();
  pen.clearRect(0, 0, map.width, map.height);
  const colours = coloursOfHalls(map.halls.map(({ hall }) => hall));
  map.halls.forEach(({ hall, x, y, wide }, n) => {
    pen.fillStyle = colours[n];
    pen.fillRect(x, y + HEAD - 2, Math.max(8, wide - GAP), 2);
    const free = hall.racks.reduce((sum, rack) => sum + rack.available, 0), gpus = hall.racks.reduce((sum, rack) => sum + rack.gpus, 0);
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "left";
    const { job } = emphasized;
    pen.fillStyle = !job || hall.racks.some((rack) => rack.nodes.some((id) => job.has(id))) ? c.ink : c.soft;
    pen.fillText(hall.name, x, y + 12);
    const named = pen.measureText(hall.name).width + 8;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = c.soft;
    const long = `${number(free)} of ${plural(gpus, "GPU")} available`, said = pen.measureText(long).width + named < wide ? long : number(free);
    pen.fillText(said, x + named, y + 12);
  });
  drawTiles(pen, c, emphasized);
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
  map.cursor = best;
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
  canvas.addEventListener("focus", () => { map.cursor = Math.max(0, map.cursor); lookAt(map.cursor); drawMap(); });
  canvas.addEventListener("blur", () => drawMap());
}
