"use strict";
// What each chart shows: its lines, made of the curves that a run has, and what its key says of the newest values.
// One that is shy is not there for a run that has none.

const percent = (v) => (v === null || v === undefined ? "–" : `${(100 * v).toFixed(1)} %`);
const points = (v) => (v === null || v === undefined ? "–" : `${v < 0 ? "−" : "+"}${Math.abs(100 * v).toFixed(1)}`);
const last = (curve) => (curve && curve.y.length ? curve.y[curve.y.length - 1] : null);
const scaled = (curve, by) => (curve ? { x: curve.x, y: curve.y.map((v) => (v === null ? null : by * v)) } : undefined);

// Lines of the curves that are there; each entry is [curve, classes, label, how to write its newest value].
function linesOf(entries) {
  const there = entries.filter(([curve]) => curve && curve.x.length);
  return {
    lines: there.map(([curve, cls]) => ({ x: curve.x, y: curve.y, cls })),
    key: there.map(([curve, cls, label, write]) => [cls, `${label} ${(write || short)(last(curve))}`]),
  };
}

const tenth = (v) => (v === null ? "–" : `${v.toFixed(1)} %`);
const CARDS = [
  { id: "loss", title: "Loss", missing: "No step is recorded yet.", make: (c, split) => ({
    ...linesOf([[c.loss, "a thin", "batch"], [c.train_nll, "a dash", "train"], [c.nll, "b", split]]), log: true }) },
  { id: "accuracy", title: "Accuracy, %", missing: "Measured at the end of each epoch.", make: (c, split) =>
    linesOf([[scaled(c.train_accuracy, 100), "a dash", "train", tenth], [scaled(c.accuracy, 100), "b", split, tenth]]) },
  { id: "ece", title: "ECE, %", missing: "Measured at the end of each epoch.", make: (c, split) => {
    const chance = scaled(c.ece_by_chance, 100);
    const made = linesOf([[scaled(c.ece, 100), "b", split, tenth]]);
    if (chance) {
      made.bands = [{ x: chance.x, low: chance.x.map(() => 0), high: chance.y, cls: "soft" }];
      made.key.push(["soft band", `by chance up to ${tenth(last(chance))}`]);
    }
    return { ...made, floor: 0 };
  } },
  { id: "gap", title: "Confidence gap, points", missing: "This run was recorded without it.", make: (c, split) => {
    const gap = scaled(c.gap, 100), error = c.gap_error;
    const made = linesOf([[gap, "b", split, (v) => points(v === null ? null : v / 100)]]);
    if (gap && error && error.x.length === gap.x.length) {
      made.bands = [{ x: gap.x, low: gap.y.map((v, i) => v - 196 * error.y[i]), high: gap.y.map((v, i) => v + 196 * error.y[i]), cls: "b" }];
      made.key.push(["b band", "95 % interval"]);
    }
    if (gap) made.levels = [{ at: 0, cls: "soft dash" }];
    return made;
  } },
  { id: "reliability", title: "Reliability, newest look", missing: "This run was recorded without it.", bins: true },
  { id: "sharpness", title: "Sharpness", missing: "Not measured: train with --track standard.", make: (c) => ({
    ...linesOf([[c.sharpness, "a", "λ"], [c.two_over_lr, "b dash", "2/η"],
      [differs(c.threshold, c.two_over_lr) ? c.threshold : undefined, "c dot", "(2 + 2β)/η"]]), log: true, cap: 8 }) },
  { id: "margins", title: "Margins, test", missing: "Not measured: train with --track cheap.", make: (c) => {
    const made = linesOf([[c.margin_median, "a", "median"]]);
    if (c.margin_low && c.margin_high && c.margin_low.x.length === c.margin_high.x.length) {
      made.bands = [{ x: c.margin_low.x, low: c.margin_low.y, high: c.margin_high.y, cls: "a" }];
      made.key.push(["a band", "10 % to 90 %"]);
      made.levels = [{ at: 0, cls: "soft dash" }];
    }
    return made;
  } },
  { id: "rho", title: "ρ", missing: "The method has none, or it is not measured: --track cheap.", make: (c) =>
    ({ ...linesOf([[c.steered_rho || c.rho, "a", c.steered_rho ? "turned by the controller" : "of the optimizer"]]), floor: 0 }) },
  { id: "gamma", title: "γ", missing: "The method has none, or it is not measured: --track cheap.", make: (c) =>
    ({ ...linesOf([[c.steered_gamma || c.gamma, "c", c.steered_gamma ? "turned by the controller" : "of the optimizer"]]), floor: 0 }) },
  { id: "decay", title: "Weight decay", isShy: true, missing: "", make: (c) =>
    ({ ...linesOf([[c.steered_weight_decay, "b", "turned by the controller"]]), log: true }) },
];

function differs(one, other) {
  return one && other && one.y.some((v, i) => Math.abs(v - other.y[i]) > 1e-6 * Math.abs(v));
}

function element(name, attributes, text) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function buildCards(place) {
  return CARDS.map((card) => {
    const figure = element("figure", { id: `chart-${card.id}`, class: card.bins ? "" : "zooms" });
    const caption = element("figcaption");
    const title = element("h3", {}, card.title);
    caption.append(title);
    const key = element("p", { class: "key" });
    caption.append(key);
    const svg = shape("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": card.title });
    const note = element("p", { class: "note" }, "Reading …");
    figure.append(caption, svg, note);
    place.append(figure);
    return { card, figure, title, key, svg, note };
  });
}

function drawCard(drawn, state) {
  const { card, figure, title, key, svg, note } = drawn;
  let there, words, name = card.title;
  if (card.bins) {
    there = drawReliability(svg, state.bins);
    name = state.of ? `Reliability of ${state.of}, newest look` : name;
    words = state.bins ? [["a", `accuracy on ${state.bins.split}`], ["b", "distance to confidence"]] : [];
  } else {
    const made = state.several ? state.several(card.id) : card.make(state.inEpochs, state.split);
    there = drawCurves(svg, { ...made, xLabel: state.unit }, state.from, state.to);
    words = made.key;
    name = made.title || name;
  }
  key.replaceChildren(...words.map(([cls, text]) => element("span", { class: cls }, text)));
  if (title.textContent !== name) title.textContent = name;
  svg.setAttribute("aria-label", `${name}: ${words.map(([, text]) => text).join(", ")}`);
  svg.toggleAttribute("hidden", !there);
  note.hidden = there;
  figure.hidden = Boolean(card.isShy) && !there;
  note.textContent = state.isRead ? card.missing : "Reading …";
}
