"use strict";
// Follows the stream of events, keeps the chosen run and the zoom in the address, and writes text as text.

for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  window.addEventListener(kind, (event) => {
    document.documentElement.dataset.trouble = String(event.message || event.reason || event.violatedDirective);
  });
}
const at = (id) => document.getElementById(id);
const cards = buildCards(at("charts"));
const live = { runs: [], chosen: [], drawn: new Map(), rows: new Map(), source: null, shown: null };
const MOST = 20000;  // points of a curve; beyond it every second one goes
const MOST_DRAWN = 24;  // runs at once

function place() {
  const found = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (found.get(name) && Number.isFinite(Number(found.get(name))) ? Number(found.get(name)) : null);
  return { runs: (found.get("run") || "").split(",").filter(Boolean), from: number("from"), to: number("to") };
}

function keep(change) {
  const next = { ...place(), ...change };
  const words = [next.runs.length ? `run=${next.runs.map(encodeURIComponent).join(",")}` : ""];
  for (const name of ["from", "to"]) if (next[name] !== null) words.push(`${name}=${next[name]}`);
  history.replaceState(null, "", `#${words.filter(Boolean).join("&")}`);
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

function connect() {
  if (live.source) live.source.close();
  const wanted = place().runs;
  const source = new EventSource(wanted.length ? `events?run=${wanted.map(encodeURIComponent).join(",")}` : "events");
  live.source = source;
  source.onopen = () => { at("link").textContent = "live"; at("link").dataset.live = "yes"; };
  source.onerror = () => { at("link").textContent = "not connected: is surefoot watch running?"; at("link").dataset.live = "no"; };
  source.addEventListener("runs", (event) => {
    const news = JSON.parse(event.data);
    live.runs = news.runs;
    live.chosen = news.chosen;
    for (const key of live.drawn.keys()) if (!news.chosen.includes(key)) live.drawn.delete(key);
    if (!place().runs.length && news.chosen.length) keep({ runs: news.chosen });  // so that a reload shows the same one
    paint();
  });
  source.addEventListener("run", (event) => {
    const news = JSON.parse(event.data);
    if (news.anew || !live.drawn.has(news.key)) live.drawn.set(news.key, { curves: {}, bins: null, findings: [] });
    const drawn = live.drawn.get(news.key);
    for (const [name, [x, y]] of Object.entries(news.curves)) {
      const curve = drawn.curves[name] || (drawn.curves[name] = { x: [], y: [] });
      for (let i = 0; i < x.length; i += 1) { curve.x.push(x[i]); curve.y.push(y[i]); }
      if (curve.x.length > MOST) drawn.curves[name] = { x: curve.x.filter((_, i) => i % 2), y: curve.y.filter((_, i) => i % 2) };
    }
    drawn.bins = news.bins || drawn.bins;
    drawn.findings = news.findings;
    paint();
  });
}

function choose(keys) {  // the first one is told about
  const others = keys[0] !== live.chosen[0];
  keep(others ? { runs: keys, from: null, to: null } : { runs: keys });
  live.chosen = keys;
  connect();
}

const act = {
  only: (key) => choose([key]),
  draw: (key, wanted) => {
    const left = live.chosen.filter((each) => each !== key);
    if (wanted) choose([...left, key]); else if (left.length) choose(left); else paint();
  },
};

let asked = false;
function paint() {  // once per frame, however many events come
  if (asked) return;
  asked = true;
  const draw = () => { if (asked) { asked = false; paintNow(); } };
  requestAnimationFrame(draw);
  setTimeout(draw, 200);  // a page in the background has no frames
}

function paintNow() {
  const runs = live.chosen.map((key) => live.runs.find((run) => run.key === key)).filter(Boolean), run = runs[0];
  paintRows(at("runs"), live.rows, live.runs, live.chosen, MOST_DRAWN, act);
  at("empty").hidden = live.runs.length > 0;
  if (!run) {
    at("title").textContent = "Waiting for runs";
    return;
  }
  const more = runs.length - 1, titled = more ? `${run.method} and ${more} more` : run.method;
  document.title = `${titled} · ${run.state} · surefoot watch`;
  setText(at("title"), titled);
  setText(at("about"), `${more ? "Sentences, numbers and reliability are of " : ""}${run.name}: ${run.about}`);
  paintFindings(run);
  paintFacts(run);
  const zoom = place(), groups = groupsOf(runs), inEpochs = new Map();
  const end = Math.max(...runs.map((each) => Math.max(each.step, 1) / (each.per_epoch || 1)));
  for (const each of runs) {
    const curves = {}, unit = each.per_epoch || 1;
    for (const [name, curve] of Object.entries((live.drawn.get(each.key) || { curves: {} }).curves)) {
      curves[name] = { x: curve.x.map((x) => x / unit), y: curve.y };
    }
    inEpochs.set(each.key, curves);
  }
  const state = {
    inEpochs: inEpochs.get(run.key), bins: (live.drawn.get(run.key) || { bins: null }).bins, split: run.split,
    unit: run.per_epoch ? "epoch" : "step", from: zoom.from === null ? 0 : zoom.from, to: zoom.to === null ? end : zoom.to,
    isRead: live.drawn.has(run.key), of: more ? run.name : null, several: more ? (id) => overlaid(id, groups, (key) => inEpochs.get(key)) : null,
  };
  live.shown = state;
  paintChoices(run, groups, more, zoom);
  for (const drawn of cards) drawCard(drawn, state);
  document.documentElement.dataset.painted = `${run.key} ${run.step}`;
  document.documentElement.dataset.lines = String([...inEpochs.values()].filter((curves) => curves.loss || curves.nll).length);
  if (state.inEpochs.loss) document.documentElement.dataset.drawn ||= Math.round(performance.now());
}

function paintChoices(run, groups, more, zoom) {
  at("zoom").hidden = false;
  at("whole").hidden = zoom.from === null && zoom.to === null;
  setText(at("unit"), run.per_epoch ? "Epochs" : "Steps");
  for (const name of ["from", "to"]) {
    if (document.activeElement !== at(name)) at(name).value = Number(live.shown[name].toPrecision(5));
  }
  at("groups").replaceChildren(...(more ? groups : []).map((group) =>
    element("span", { class: group.cls }, group.runs.length > 1 ? `${group.name}, mean of ${group.runs.length} runs` : group.name)));
  const beside = live.runs.filter((each) => each.group === run.group);
  at("choices").hidden = live.runs.length < 2;
  at("together").hidden = beside.length < 2 || beside.length === more + 1;
  at("alone").hidden = !more;
  setText(at("many"), beside.length > MOST_DRAWN ? `The first ${MOST_DRAWN} of ${beside.length} are drawn.` : "");
}

function paintFindings(run) {
  const said = [...(live.drawn.get(run.key) || { findings: [] }).findings];
  if (run.state === "interrupted") {
    const where = `Interrupted at step ${count(run.step)}${run.n_steps ? ` of ${count(run.n_steps)}` : ""}: no process is at this run.`;
    said.unshift(`${where} ${run.own ? "Its loop has ended without finishing." : "The same command goes on with it, or says why it cannot."}`);
  }
  const nothing = !live.drawn.has(run.key) ? "Reading …" : run.state === "running" ? "Nothing stands out so far." : "Nothing stands out.";
  const lines = (said.length ? said : [nothing]).map((text) =>
    element("li", { class: /^(Diverg|Interrupted|Worse than before)/.test(text) ? "urgent" : "" }, text));
  const before = [...at("findings").children].map((line) => line.textContent).join("\n");
  if (before !== lines.map((line) => line.textContent).join("\n")) at("findings").replaceChildren(...lines);
}

function paintFacts(run) {
  const epoch = run.per_epoch ? (run.step / run.per_epoch).toFixed(1) : null;
  const of = run.n_steps && run.per_epoch ? ` of ${count(run.n_steps / run.per_epoch)}` : "";
  const facts = [
    ["State", run.state], ["Epoch", epoch === null ? "–" : epoch + of],
    ["Step", run.n_steps ? `${count(run.step)} of ${count(run.n_steps)}` : count(run.step)], ["Time left", run.state === "running" ? seconds(run.left) : "–"],
    ["Training time", seconds(run.seconds)], ["Cost, gradient passes", count(run.passes)],
    [`Accuracy, ${run.split}`, percent(run.accuracy)], [`ECE, ${run.split}`, percent(run.ece)],
  ];
  at("facts").replaceChildren(...facts.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", {}, name), element("dd", { class: ["running", "interrupted"].includes(value) ? value : "" }, value));
    return pair;
  }));
}

const count = (value) => (value === null ? "–" : Math.round(value).toLocaleString("en"));

// Drag over a curve to look closer.
for (const { card, svg } of cards) {
  if (card.bins) continue;
  let start = null, mark = null;
  const where = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * SIZE.width;
    return Math.min(SIZE.width - SIZE.right, Math.max(SIZE.left, x));
  };
  const value = (x) => live.shown.from + ((x - SIZE.left) / (SIZE.width - SIZE.left - SIZE.right)) * (live.shown.to - live.shown.from);
  svg.addEventListener("pointerdown", (event) => { start = where(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const here = where(event);
    if (mark) mark.remove();
    mark = shape("rect", { x: Math.min(start, here), width: Math.abs(here - start), y: SIZE.top, height: SIZE.height - SIZE.top - SIZE.bottom, class: "choice" });
    svg.append(mark);
  });
  svg.addEventListener("pointercancel", () => { start = null; if (mark) mark.remove(); });
  svg.addEventListener("pointerup", (event) => {
    const from = start, to = where(event);
    start = null;
    if (mark) mark.remove();
    if (from === null || Math.abs(to - from) < 8) return;
    const ends = [value(from), value(to)].sort((a, b) => a - b).map((v) => Number(v.toPrecision(5)));
    keep({ runs: live.chosen, from: ends[0], to: ends[1] });
    paint();
  });
}
for (const name of ["from", "to"]) {
  at(name).addEventListener("change", () => {
    const ends = [at("from").valueAsNumber, at("to").valueAsNumber];
    if (ends.every(Number.isFinite) && ends[0] < ends[1]) keep({ from: ends[0], to: ends[1] });
    paint();
  });
}
at("whole").addEventListener("click", () => { keep({ from: null, to: null }); paint(); at("from").focus(); });
at("together").addEventListener("click", () => {
  const run = live.runs.find((each) => each.key === live.chosen[0]);
  const beside = live.runs.filter((each) => each.group === run.group && each.key !== run.key).map((each) => each.key);
  choose([run.key, ...beside].slice(0, MOST_DRAWN));
});
at("alone").addEventListener("click", () => choose(live.chosen.slice(0, 1)));
window.addEventListener("hashchange", connect);
connect();
