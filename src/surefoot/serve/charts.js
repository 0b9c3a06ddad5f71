"use strict";
// Curves as SVG. What comes from a run folder is only ever a number here, or the text of a text node.

const SPACE = "http://www.w3.org/2000/svg";
const SIZE = { width: 400, height: 228, left: 52, right: 12, top: 8, bottom: 38 };

function shape(name, attributes, text) {
  const node = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return text.replaceAll("-", "−");
}

function ticks(low, high, most) {
  const raw = (high - low) / most || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-6; t += step) found.push(Math.abs(t) < step * 1e-6 ? 0 : t);
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    for (const m of [1, 2, 5]) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) found.push(m * 10 ** e);
  }
  return found.length > 6 ? found.filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9) : found;
}

// Keeps, of more points than there are pixels, the lowest and highest of each column, so that no spike is lost.
function columns(x, y, low, high, count) {
  const width = (high - low) / count || 1;
  const kept = [];
  let cell = null, a = -1, b = -1;
  const flush = () => { if (a >= 0) { kept.push(Math.min(a, b)); if (a !== b) kept.push(Math.max(a, b)); } };
  for (let i = 0; i < x.length; i += 1) {
    if (x[i] < low || x[i] > high) continue;
    const here = Math.floor((x[i] - low) / width);
    if (here !== cell || y[i] === null) { flush(); cell = here; a = b = i; }
    else { if (y[i] < y[a]) a = i; if (y[i] > y[b]) b = i; }
  }
  flush();
  return kept;
}

// Draws lines {x, y, cls}, bands {x, low, high, cls} and level lines {at, cls} over x in [from, to].
function drawCurves(svg, spec, from, to) {
  const values = [];
  const inside = (x) => x >= from && x <= to;
  for (const line of spec.lines) line.y.forEach((v, i) => { if (v !== null && inside(line.x[i])) values.push(v); });
  for (const band of spec.bands || []) band.x.forEach((x, i) => { if (inside(x)) values.push(band.low[i], band.high[i]); });
  for (const level of spec.levels || []) values.push(level.at);
  const log = spec.log && values.every((v) => v > 0);
  if (spec.cap) {  // a limit that a cosine schedule takes to infinity must not flatten what it limits
    const own = spec.lines[0] ? spec.lines[0].y.filter((v, i) => v !== null && inside(spec.lines[0].x[i])) : [];
    const most = spec.cap * own.reduce((p, q) => Math.max(p, q), 0);
    if (most > 0) for (let i = 0; i < values.length; i += 1) values[i] = Math.min(values[i], most);
  }
  svg.replaceChildren();
  if (!values.length) return false;
  let low = values.reduce((p, q) => Math.min(p, q)), high = values.reduce((p, q) => Math.max(p, q));
  if (spec.floor !== undefined) low = Math.min(low, spec.floor);
  if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  const grow = log ? 1 : (high - low) * 0.05;
  if (!log) { if (spec.floor === undefined || low < spec.floor) low -= grow; high += grow; }
  if (log) { low /= 1.15; high *= 1.15; }
  const { width, height, left, right, top, bottom } = SIZE;
  const flat = log ? Math.log10 : (v) => v;
  const sx = (x) => left + ((x - from) / (to - from || 1)) * (width - left - right);
  const sy = (y) => Math.max(top - 4, top + (1 - (flat(y) - flat(low)) / (flat(high) - flat(low))) * (height - top - bottom));
  for (const t of log ? logTicks(low, high) : ticks(low, high, 5)) {
    svg.append(shape("line", { x1: left, x2: width - right, y1: sy(t), y2: sy(t), class: "grid" }));
    svg.append(shape("text", { x: left - 6, y: sy(t) + 4, "text-anchor": "end" }, short(t)));
  }
  for (const t of ticks(from, to, 5)) svg.append(shape("text", { x: sx(t), y: height - 21, "text-anchor": "middle" }, short(t)));
  svg.append(shape("text", { x: width - right, y: height - 5, "text-anchor": "end" }, spec.xLabel || "epoch"));
  for (const band of spec.bands || []) {
    const kept = band.x.map((_, i) => i).filter((i) => inside(band.x[i]));
    if (kept.length < 2) continue;
    const up = kept.map((i) => `${sx(band.x[i]).toFixed(1)},${sy(band.high[i]).toFixed(1)}`);
    const down = kept.reverse().map((i) => `${sx(band.x[i]).toFixed(1)},${sy(band.low[i]).toFixed(1)}`);
    svg.append(shape("polygon", { points: [...up, ...down].join(" "), class: `band ${band.cls}` }));
  }
  for (const level of spec.levels || []) {
    svg.append(shape("line", { x1: left, x2: width - right, y1: sy(level.at), y2: sy(level.at), class: `line thin ${level.cls}` }));
  }
  for (const line of spec.lines) {
    let path = "", pen = false;
    for (const i of columns(line.x, line.y, from, to, width - left - right)) {
      if (line.y[i] === null) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${sx(line.x[i]).toFixed(1)} ${sy(line.y[i]).toFixed(1)}`;
      pen = true;
    }
    svg.append(shape("path", { d: path, class: `line ${line.cls}` }));
    const shown = line.x.map((_, i) => i).filter((i) => inside(line.x[i]) && line.y[i] !== null);
    if (shown.length === 1) svg.append(shape("circle", { cx: sx(line.x[shown[0]]), cy: sy(line.y[shown[0]]), r: 3, fill: "currentColor", class: line.cls }));
  }
  return true;
}

function drawReliability(svg, bins) {
  svg.replaceChildren();
  if (!bins) return false;
  const { width, height, left, right, top, bottom } = SIZE;
  const sx = (x) => left + x * (width - left - right);
  const sy = (y) => top + (1 - y) * (height - top - bottom);
  for (const t of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { x1: left, x2: width - right, y1: sy(t), y2: sy(t), class: "grid" }));
    svg.append(shape("text", { x: left - 6, y: sy(t) + 4, "text-anchor": "end" }, `${100 * t} %`));
    svg.append(shape("text", { x: sx(t), y: height - 21, "text-anchor": t === 1 ? "end" : "middle" }, `${100 * t} %`));
  }
  svg.append(shape("text", { x: sx(0.5), y: height - 5, "text-anchor": "middle" }, "confidence"));
  const n = bins.count.length, most = bins.count.reduce((p, q) => Math.max(p, q || 0), 1);
  for (let b = 0; b < n; b += 1) {
    if (bins.accuracy[b] === null || bins.confidence[b] === null) continue;
    const share = Math.sqrt((bins.count[b] || 0) / most);  // the fewer rows, the narrower
    const wide = Math.max(3, (sx(1 / n) - sx(0)) * 0.9 * share), middle = sx((b + 0.5) / n);
    const up = sy(bins.accuracy[b]);
    svg.append(shape("rect", { x: middle - wide / 2, y: up, width: wide, height: Math.max(0, sy(0) - up), class: "bar a" }));
    svg.append(shape("line", { x1: middle, x2: middle, y1: up, y2: sy(bins.confidence[b]), class: "line b" }));
  }
  svg.append(shape("line", { x1: sx(0), y1: sy(0), x2: sx(1), y2: sy(1), class: "line thin dash soft" }));
  return true;
}
