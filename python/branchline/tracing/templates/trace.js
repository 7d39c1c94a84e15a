/* The pictures of a trace: offset against time with what goes on below it, sizes of requests, reads of each event. */
"use strict";

const PALETTE = {{ palette.BRANCHES | tojson }};
const DOING = {{ palette.DOING | tojson }};
const BINS = 160;
const LABEL_WIDTH = 70, LABEL_HEIGHT = 12;

/* A column of whole numbers: see `packed` in trace_page.py. */
async function unpack(text) {
  const colon = text.indexOf(":"), count = Number(text.slice(0, colon));
  const letters = atob(text.slice(colon + 1)), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(inflated).arrayBuffer());
  const found = new Float64Array(count), used = count ? planes.length / count : 0;
  let sum = 0;
  for (let row = 0; row < count; row++) {
    let folded = 0;
    for (let plane = used - 1; plane >= 0; plane--) folded = folded * 256 + planes[plane * count + row];
    const half = Math.floor(folded / 2);
    sum += folded - 2 * half ? -half - 1 : half;
    found[row] = sum;
  }
  return found;
}

async function columns(packed) {
  const found = {};
  for (const [name, text] of Object.entries(packed)) found[name] = await unpack(text);
  return found;
}

/* The columns of a trace, with times in seconds. */
async function unpacked(data) {
  const [parts, requests, spans] = await Promise.all([columns(data.parts), columns(data.requests), columns(data.spans)]);
  const seconds = (column) => column.map((value) => value * data.tick);
  for (const one of [parts, requests, spans]) {
    one.begin = seconds(one.begin);
    one.end = one.begin.map((value, row) => value + one.took[row] * data.tick);
  }
  for (const one of [requests, spans]) one.busy = seconds(one.busy);
  parts.whole = parts.size.map((value, row) => value + parts.cut[row]);
  return { ...data, parts, requests, spans };
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

function size(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 999.5 && unit < UNITS.length - 1) { bytes /= 1000; unit += 1; }
  return (unit ? bytes.toPrecision(3) : String(Math.round(bytes))) + " " + UNITS[unit];
}

/* A place in a file, with as many digits as it takes to differ from one that is a step away. */
function place(bytes, step) {
  const unit = Math.min(Math.max(Math.floor(Math.log10(Math.abs(bytes) || 1) / 3), 0), UNITS.length - 1);
  const digits = Math.ceil(3 * unit - Math.log10(step) - 1e-9);
  if (!unit || digits > 6) return count(bytes) + " B";
  return (bytes / Math.pow(1000, unit)).toFixed(Math.max(digits, 0)) + " " + UNITS[unit];
}

function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function seconds(value) {
  if (value >= 1) return value.toPrecision(4) + " s";
  return value >= 1e-3 ? (value * 1e3).toPrecision(3) + " ms" : (value * 1e6).toPrecision(3) + " \u00b5s";
}

function ticks(low, high, most) {
  const raw = (high - low) / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* One trace: its pictures in `root`. */
class View {
  constructor(root, data) {
    this.data = data;
    this.root = root;
    this.parts = data.parts;
    this.requests = data.requests;
    this.spans = data.spans;
    this.file = data.files.length === 1 ? 0 : -1;
    this.base = [];
    let base = 0;
    for (const one of data.files) { this.base.push(base); base += one.size; }
    this.top = base;
    this.followers = [];
    this.build();
    this.reset();
    new ResizeObserver(() => this.draw()).observe(this.main);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  build() {
    const choose = element("select", { class: "file", "aria-label": "file" });
    if (this.data.files.length > 1) choose.append(element("option", { value: -1 }, "all files, one above the other"));
    this.data.files.forEach((one, number) => choose.append(element("option", { value: number }, one.name)));
    choose.value = this.file;
    choose.addEventListener("change", () => { this.file = Number(choose.value); this.reset(); });
    const buttons = [["+", () => this.zoom(0.5)], ["\u2212", () => this.zoom(2)], ["whole", () => this.reset()]].map(([text, act]) => {
      const button = element("button", { type: "button" }, text);
      button.addEventListener("click", act);
      return button;
    });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.main = element("canvas", { class: "where", tabindex: 0, "aria-label": "offset in the file against time" });
    this.named = element("output", { class: "named" }, "Point at a read to see what it hit. Wheel: zoom (with Shift in time only). Drag: move.");
    this.strips = ["seeks per second", "what threads do", "requests in flight"].map((title) => {
      const canvas = element("canvas", { class: "strip", "aria-label": title });
      return { title, canvas };
    });
    this.legend = element("p", { class: "legend" });
    this.root.append(
      element("h3", {}, "Offset against time since the first read"), element("div", { class: "bar" }, choose, ...buttons), this.legend,
      element("div", { class: "frame" }, this.main, this.tip), this.named,
      ...this.strips.map(({ title, canvas }) => element("figure", {}, element("figcaption", {}, title), canvas)),
    );
    this.listen();
    this.small = element("div", { class: "small" });
    this.root.append(this.small);
  }

  listen() {
    this.main.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x, y] = this.place(event);
      this.zoom(Math.exp(event.deltaY / 400), x, y, event.shiftKey);
    }, { passive: false });
    let from = null;
    this.main.addEventListener("pointerdown", (event) => { from = this.place(event); this.main.setPointerCapture(event.pointerId); });
    this.main.addEventListener("pointerup", () => { from = null; });
    this.main.addEventListener("pointermove", (event) => {
      const at = this.place(event);
      if (from) {
        this.move(from[0] - at[0], from[1] - at[1]);
        from = this.place(event);
      } else this.point(event);
    });
    this.main.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.main.addEventListener("dblclick", () => this.reset());
    this.main.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, 0.2], ArrowDown: [0, -0.2] }[event.key];
      if (step) this.move(step[0] * (this.x1 - this.x0), step[1] * (this.y1 - this.y0));
      else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else return;
      event.preventDefault();
    });
  }

  offset(part) { return this.parts.offset[part] + (this.file < 0 ? this.base[this.parts.file[part]] : 0); }

  shown(file) { return this.file < 0 || this.file === file; }

  reset() {
    const wall = Math.max(this.data.wall, 1e-9);
    [this.x0, this.x1] = [-0.01 * wall, 1.01 * wall];
    const top = this.file < 0 ? this.top : this.data.files[this.file].size;
    [this.y0, this.y1] = [-0.01 * top, 1.01 * Math.max(top, 1)];
    this.draw();
    this.drawSmall();
  }

  zoom(factor, x = (this.x0 + this.x1) / 2, y = (this.y0 + this.y1) / 2, inTimeOnly = false) {
    this.x0 = x + (this.x0 - x) * factor; this.x1 = x + (this.x1 - x) * factor;
    if (!inTimeOnly) { this.y0 = y + (this.y0 - y) * factor; this.y1 = y + (this.y1 - y) * factor; }
    this.draw();
  }

  move(x, y) { this.x0 += x; this.x1 += x; this.y0 += y; this.y1 += y; this.draw(); }

  /* Time and offset under the pointer. */
  place(event) {
    const box = this.main.getBoundingClientRect();
    const x = (event.clientX - box.left - this.left) / this.width, y = (event.clientY - box.top) / this.height;
    return [this.x0 + x * (this.x1 - this.x0), this.y1 - y * (this.y1 - this.y0)];
  }

  begin(canvas) {
    const scale = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
    canvas.width = wide * scale; canvas.height = high * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink"); this.soft = style.getPropertyValue("--soft"); this.rule = style.getPropertyValue("--rule");
    pen.font = "11px system-ui, sans-serif";
    return [pen, wide, high];
  }

  axisX(pen, wide, high, labels) {
    pen.strokeStyle = this.rule; pen.fillStyle = this.soft; pen.textAlign = "center"; pen.textBaseline = "top";
    for (const tick of ticks(this.x0, this.x1, 8)) {
      const x = this.left + (tick - this.x0) / (this.x1 - this.x0) * this.width;
      pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, high); pen.stroke();
      if (labels) pen.fillText(this.x1 - this.x0 < 0.05 ? (tick * 1000).toPrecision(6) * 1 + " ms" : tick + " s", x, high + 4);
    }
  }

  draw() {
    const [pen, wide, high] = this.begin(this.main);
    if (!wide) return;
    this.left = 92; this.width = wide - this.left - 4; this.height = high - 20;
    this.axisX(pen, wide, this.height, true);
    pen.textAlign = "right"; pen.textBaseline = "middle"; pen.fillStyle = this.soft;
    const marks = ticks(this.y0, this.y1, 7), step = Math.max(marks.length > 1 ? marks[1] - marks[0] : 1, 1);
    for (const tick of marks) {
      const y = this.height * (this.y1 - tick) / (this.y1 - this.y0);
      pen.beginPath(); pen.moveTo(this.left, y); pen.lineTo(wide, y); pen.stroke();
      pen.fillText(place(tick, step), this.left - 6, y);
    }
    pen.save();
    pen.beginPath(); pen.rect(this.left, 0, this.width, this.height); pen.clip();
    this.drawParts(pen);
    pen.restore();
    this.drawStrips();
    this.followers.forEach((other) => other(this));
  }

  box(part) {
    const parts = this.parts, per = this.width / (this.x1 - this.x0), down = this.height / (this.y1 - this.y0);
    const x = this.left + (parts.begin[part] - this.x0) * per, y = (this.y1 - this.offset(part) - parts.size[part]) * down;
    return [x, y, Math.max((parts.end[part] - parts.begin[part]) * per, 2), Math.max(parts.size[part] * down, 2)];
  }

  /* Of parts too small to be seen apart one is painted in each place of two pixels: of millions there are no more. */
  drawParts(pen) {
    const parts = this.parts, used = new Map(), per = this.width / (this.x1 - this.x0), down = this.height / (this.y1 - this.y0);
    const across = Math.ceil(this.width / 2) + 1, painted = new Int8Array(across * (Math.ceil(this.height / 2) + 1)).fill(-2);
    for (let part = 0; part < parts.begin.length; part++) {
      if (!this.shown(parts.file[part])) continue;
      const x = (parts.begin[part] - this.x0) * per, y = (this.y1 - this.offset(part) - parts.size[part]) * down;
      const wide = Math.max((parts.end[part] - parts.begin[part]) * per, 2), high = Math.max(parts.size[part] * down, 2);
      if (x > this.width || x + wide < 0 || y > this.height || y + high < 0) continue;
      const rank = parts.rank[part];
      used.set(rank, (used.get(rank) || 0) + 1);
      if (wide <= 2 && high <= 2) {
        const cell = Math.max(y >> 1, 0) * across + Math.max(x >> 1, 0);
        if (painted[cell] >= rank && painted[cell] !== -2) continue;
        painted[cell] = rank;
      }
      pen.fillStyle = rank < 0 ? this.soft : PALETTE[rank];
      pen.fillRect(this.left + x, y, wide, high);
      if (wide > LABEL_WIDTH && high > LABEL_HEIGHT) {
        pen.fillStyle = "#fff"; pen.textAlign = "left"; pen.textBaseline = "middle";
        pen.fillText(this.title(part), Math.max(this.left + x, this.left) + 4, Math.min(Math.max(y + high / 2, 8), this.height - 8), wide - 8);
      }
    }
    this.legend.replaceChildren(...this.data.ranked.map((name, rank) => [rank, name]).filter(([rank]) => used.has(rank)).map(([rank, name]) =>
      element("span", {}, element("i", { style: "background:" + PALETTE[rank] }), name)),
      ...(used.has(-1) ? [element("span", {}, element("i", { class: "rest" }), this.data.ranked.length ? "everything else" : "everything")] : []));
  }

  title(part) {
    const parts = this.parts, names = this.data.names;
    const what = this.data.whats[parts.what[part]];
    if (parts.branch[part] < 0) return what + (parts.tree[part] >= 0 ? " " + names[parts.tree[part]] : "");
    return names[parts.branch[part]] + (parts.basket[part] >= 0 ? ", " + what + " " + parts.basket[part] : "");
  }

  /* What lies under the pointer, or near it: its name and numbers. */
  point(event) {
    const box = this.main.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = -1, nearest = 8;
    for (let part = 0; part < this.parts.begin.length; part++) {
      if (!this.shown(this.parts.file[part])) continue;
      const [x, y, wide, high] = this.box(part);
      const away = Math.hypot(Math.max(x - px, 0, px - x - wide), Math.max(y - py, 0, py - y - high));
      if (away < nearest) { nearest = away; best = part; }
    }
    this.tip.hidden = best < 0;
    if (best < 0) return;
    const parts = this.parts, lines = [this.title(best)];
    if (parts.branch[best] >= 0 && parts.tree[best] >= 0) lines.push("tree " + this.data.names[parts.tree[best]]);
    if (parts.first[best] >= 0) lines.push("entries " + count(parts.first[best]) + " to " + count(parts.behind[best] - 1));
    lines.push(count(parts.size[best]) + " bytes at " + count(parts.offset[best]));
    if (parts.whole[best] > parts.size[best]) lines.push("of " + count(parts.whole[best]) + " bytes of it");
    lines.push("read call " + count(parts.request[best]) + ", at " + seconds(Math.max(parts.begin[best], 0)) + ", took " + seconds(parts.end[best] - parts.begin[best]));
    if (this.data.files.length > 1) lines.push(this.data.files[parts.file[best]].name);
    this.tip.replaceChildren(...lines.map((line, number) => element(number ? "div" : "b", {}, line)));
    this.named.textContent = lines.join("; ");
    const right = px > box.width / 2;
    this.tip.style.cssText = (right ? "right:" + (box.width - px + 12) : "left:" + (px + 12)) + "px;top:" + Math.min(py + 12, box.height - 90) + "px";
  }

  strip(canvas, series, unit) {
    const [pen, wide, high] = this.begin(canvas);
    const top = Math.max(...series.reduce((sum, one) => sum.map((value, bin) => value + one.values[bin]), new Array(BINS).fill(0)), 1e-12);
    this.axisX(pen, wide, high, false);
    const width = this.width / BINS, below = new Array(BINS).fill(0);
    for (const one of series) {
      pen.fillStyle = one.colour;
      one.values.forEach((value, bin) => {
        const tall = value / top * (high - 4);
        below[bin] += tall;
        if (value) pen.fillRect(this.left + bin * width, high - below[bin], Math.max(width - 0.5, 0.5), tall);
      });
    }
    pen.fillStyle = this.soft; pen.textAlign = "right"; pen.textBaseline = "top";
    pen.fillText(unit(top > 1e-12 ? top : 0), this.left - 6, 2);
  }

  /* In each of the bins what is counted of the rows, or how many of them are at work, in one or in several series. */
  bins(rows, many, series, isCounted) {
    const values = Array.from({ length: many }, () => new Array(BINS).fill(0)), step = (this.x1 - this.x0) / BINS;
    for (let row = 0; row < rows.begin.length; row++) {
      const own = values[series(row)];
      if (own === undefined || rows.begin[row] > this.x1 || rows.end[row] < this.x0) continue;
      const first = Math.floor((rows.begin[row] - this.x0) / step);
      if (isCounted) {
        if (first >= 0 && first < BINS) own[first] += rows.count[row] / step;
        continue;
      }
      const last = Math.min(Math.floor((rows.end[row] - this.x0) / step), BINS - 1);
      const took = rows.end[row] - rows.begin[row], share = took > 0 ? rows.busy[row] / took : 0;
      for (let bin = Math.max(first, 0); bin <= last; bin++) {
        const low = this.x0 + bin * step;
        own[bin] += share * Math.max(Math.min(rows.end[row], low + step) - Math.max(rows.begin[row], low), 0) / step;
      }
    }
    return values;
  }

  drawStrips() {
    const requests = this.requests, shown = (row) => (this.shown(requests.kind[row]) ? 0 : -1);
    const [seeks, doing, flying] = this.strips.map(({ canvas }) => canvas);
    this.strip(seeks, [{ colour: PALETTE[1], values: this.bins(requests, 1, shown, true)[0] }], (top) => count(top) + " /s");
    const kinds = this.data.spanned, at = this.bins(this.spans, kinds.length, (row) => this.spans.kind[row], false);
    const series = [{ name: "reading", colour: DOING.reading, values: this.bins(requests, 1, () => 0, false)[0] }];
    kinds.forEach((name, kind) => series.push({ name, colour: DOING[name] || PALETTE[7], values: at[kind] }));
    this.strip(doing, series, (top) => (top && top.toPrecision(2)) + " threads");
    this.strips[1].canvas.previousSibling.replaceChildren("what threads do: ", ...series.map((one) =>
      element("span", {}, element("i", { style: "background:" + one.colour }), one.name + " ")));
    this.strip(flying, [{ colour: PALETTE[3], values: this.bins(requests, 1, shown, false)[0] }], (top) => top && top.toPrecision(2));
  }

  /* Sizes of requests, and reads of each event. */
  drawSmall() {
    const sizes = this.data.sizes, chosen = this.data.events.filter((one) => this.shown(one.file) && one.read_calls.length);
    this.small.replaceChildren(
      bars("Read calls by their size", sizes.map((one) => one.read_calls), sizes.map((one) => "\u2264 " + size(one.up_to_bytes)), count),
      bars("Bytes by the size of the call", sizes.map((one) => one.read_bytes), sizes.map((one) => "\u2264 " + size(one.up_to_bytes)), size),
      ...chosen.slice(0, 8).flatMap((one) => {
        const name = this.data.files[one.file].name.split("/").pop();
        return [bars("Read calls of each event, " + name, one.read_calls, null, count, one.joined), bars("Bytes read of each event, " + name, one.read_bytes, null, size, one.joined)];
      }));
  }
}

/* A picture of bars; `joined` of what is numbered are together in each. */
function bars(title, groups, labels, formatted, joined = 1) {
  const top = Math.max(...groups, 1), wide = 460, high = 130, left = 52, step = (wide - left) / Math.max(groups.length, 1);
  const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high + 34}`, role: "img", "aria-label": title });
  for (const tick of ticks(0, top, Math.min(4, top))) {
    const y = high - tick / top * (high - 6);
    svg.append(drawn("path", { class: "grid", d: `M${left} ${y}H${wide}` }), drawn("text", { x: left - 5, y: y + 4, "text-anchor": "end" }, formatted(tick)));
  }
  groups.forEach((value, number) => {
    const tall = value / top * (high - 6), x = left + number * step;
    const bar = drawn("rect", { x, y: high - tall, width: Math.max(step - (step > 3 ? 1 : 0), 0.6), height: tall });
    const from = number * joined, name = labels ? labels[number] : joined > 1 ? `${from} to ${from + joined - 1}` : from;
    bar.append(drawn("title", {}, `${name}: ${formatted(value)}`));
    svg.append(bar);
    const every = labels ? Math.ceil(groups.length / 6) : Math.max(1, ticks(0, Math.max(groups.length, 2), 8)[1]);
    if (number % every === 0) svg.append(drawn("text", { x: x + step / 2, y: high + 15, "text-anchor": "middle" }, labels ? labels[number] : count(from)));
  });
  if (!labels) svg.append(drawn("text", { x: wide, y: high + 30, "text-anchor": "end" }, "event"));
  return element("figure", {}, element("figcaption", {}, title), svg);
}

/* Tables are sorted by the column whose head is clicked. */
function sortable(table) {
  table.querySelectorAll("thead th").forEach((head, column) => head.addEventListener("click", () => {
    const body = table.tBodies[0], key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const sign = head.dataset.down === "1" ? -1 : 1;
    head.dataset.down = sign === 1 ? "1" : "0";
    const compare = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : b - a);
    [...body.rows].sort((a, b) => sign * compare(key(a), key(b))).forEach((row) => body.append(row));
  }));
}

/* Views that stand side by side show the same range: what is done to one is done to all. */
function link(views) {
  let busy = false;
  for (const view of views) {
    view.followers.push((one) => {
      if (busy) return;
      busy = true;
      for (const other of views) if (other !== one) { [other.x0, other.x1, other.y0, other.y1] = [one.x0, one.x1, one.y0, one.y1]; other.draw(); }
      busy = false;
    });
  }
}

document.querySelectorAll("table").forEach(sortable);
let views = [];
/* What the pictures wait for. */
const ready = (async () => {
  const roots = [...document.querySelectorAll(".trace")];
  const traces = await Promise.all(roots.map((root) => unpacked(JSON.parse(document.getElementById(root.dataset.of).textContent))));
  views = roots.map((root, number) => new View(root, traces[number]));
  if (views.length > 1) {
    const wall = Math.max(...views.map((view) => view.data.wall));
    views.forEach((view) => { view.data.wall = wall; view.reset(); });
    link(views);
  }
})().catch((error) => {
  document.querySelectorAll(".trace").forEach((root) => root.append("This browser cannot draw the pictures: " + error));
  throw error;
});
