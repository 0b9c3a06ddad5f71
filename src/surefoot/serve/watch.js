"use strict";
// Follows the stream of events, keeps the chosen run and the zoom in the address, and writes text as text.

for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  window.addEventListener(kind, (event) => {
    document.documentElement.dataset.trouble = String(event.message || event.reason || event.violatedDirective);
  });
}
const at = (id) => document.getElementById(id);
const cards = buildCards(at("charts"));
const live = { runs: [], chosen: null, curves: {}, bins: null, findings: [], source: null };
const MOST = 20000;  // points of a curve; beyond it every second one goes

function place() {
  const found = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (found.has(name) && Number.isFinite(Number(found.get(name))) ? Number(found.get(name)) : null);
  return { run: found.get("run"), from: number("from"), to: number("to") };
}

function keep(change) {
  const next = { ...place(), ...change };
  const words = new URLSearchParams();
  for (const name of ["run", "from", "to"]) if (next[name] !== null && next[name] !== undefined) words.set(name, next[name]);
  history.replaceState(null, "", `#${words}`);
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

function connect() {
  if (live.source) live.source.close();
  const wanted = place().run;
  const source = new EventSource(wanted ? `events?run=${encodeURIComponent(wanted)}` : "events");
  live.source = source;
  source.onopen = () => { at("link").textContent = "live"; at("link").dataset.live = "yes"; };
  source.onerror = () => { at("link").textContent = "not connected: is surefoot watch running?"; at("link").dataset.live = "no"; };
  source.addEventListener("runs", (event) => {
    const news = JSON.parse(event.data);
    live.runs = news.runs;
    live.chosen = news.chosen;
    if (place().run === null && news.chosen) keep({ run: news.chosen });  // so that a reload shows the same one
    paint();
  });
  source.addEventListener("run", (event) => {
    const news = JSON.parse(event.data);
    if (news.anew) { live.curves = {}; live.bins = null; }
    for (const [name, [x, y]] of Object.entries(news.curves)) {
      const curve = live.curves[name] || (live.curves[name] = { x: [], y: [] });
      for (let i = 0; i < x.length; i += 1) { curve.x.push(x[i]); curve.y.push(y[i]); }
      if (curve.x.length > MOST) live.curves[name] = { x: curve.x.filter((_, i) => i % 2), y: curve.y.filter((_, i) => i % 2) };
    }
    live.bins = news.bins || live.bins;
    live.findings = news.findings;
    paint();
  });
}

let asked = false;
function paint() {  // once per frame, however many events come
  if (asked) return;
  asked = true;
  const draw = () => { if (asked) { asked = false; paintNow(); } };
  requestAnimationFrame(draw);
  setTimeout(draw, 200);  // a page in the background has no frames
}

function paintNow() {
  const run = live.runs.find((each) => each.key === live.chosen);
  paintList();
  if (!run) {
    at("title").textContent = "Waiting for runs";
    return;
  }
  document.title = `${run.method} · ${run.state} · surefoot watch`;
  at("title").textContent = run.method;
  at("about").textContent = `${run.name}: ${run.about}`;
  paintFindings(run);
  paintFacts(run);
  const unit = run.per_epoch || 1, end = Math.max(run.step, 1) / unit, zoom = place();
  const inEpochs = {};
  for (const [name, curve] of Object.entries(live.curves)) inEpochs[name] = { x: curve.x.map((x) => x / unit), y: curve.y };
  const state = {
    inEpochs, bins: live.bins, split: run.split, unit: run.per_epoch ? "epoch" : "step",
    from: zoom.from === null ? 0 : zoom.from, to: zoom.to === null ? end : zoom.to,
  };
  live.shown = state;
  at("zoom").hidden = zoom.from === null && zoom.to === null;
  at("range").textContent = `${state.unit} ${short(state.from)} to ${short(state.to)}`;
  for (const drawn of cards) drawCard(drawn, state);
  document.documentElement.dataset.painted = `${run.key} ${run.step}`;
  if (live.curves.loss) document.documentElement.dataset.drawn ||= Math.round(performance.now());
}

function paintFindings(run) {
  const said = [...live.findings];
  if (run.state === "interrupted") said.unshift(`Interrupted at step ${run.step}${run.n_steps ? ` of ${run.n_steps}` : ""}: nobody is at this run. The same command goes on with it.`);
  const nothing = run.state === "running" ? "Nothing stands out so far." : "Nothing stands out.";
  const lines = (said.length ? said : [nothing]).map((text) =>
    element("li", { class: /^(Diverg|Interrupted)/.test(text) ? "urgent" : "" }, text));
  const before = [...at("findings").children].map((line) => line.textContent).join("\n");
  if (before !== lines.map((line) => line.textContent).join("\n")) at("findings").replaceChildren(...lines);
}

function paintFacts(run) {
  const epoch = run.per_epoch ? (run.step / run.per_epoch).toFixed(1) : null;
  const of = run.n_steps && run.per_epoch ? ` of ${Math.round(run.n_steps / run.per_epoch)}` : "";
  const facts = [
    ["State", run.state], ["Epoch", epoch === null ? "–" : epoch + of],
    ["Step", run.n_steps ? `${run.step} of ${run.n_steps}` : String(run.step)], ["Time left", run.state === "running" ? seconds(run.left) : "–"],
    ["Training time", seconds(run.seconds)], ["Cost, gradient passes", short2(run.passes)],
    [`Accuracy, ${run.split}`, percent(run.accuracy)], [`ECE, ${run.split}`, percent(run.ece)],
  ];
  at("facts").replaceChildren(...facts.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", {}, name), element("dd", { class: ["running", "interrupted"].includes(value) ? value : "" }, value));
    return pair;
  }));
}

const short2 = (value) => (value === null ? "–" : Math.round(value).toLocaleString("en"));

function paintList() {
  const focused = document.activeElement && document.activeElement.dataset.key;
  at("runs").replaceChildren(...live.runs.map((run) => {
    const row = element("tr", run.key === live.chosen ? { "aria-current": "true" } : {});
    const button = element("button", { type: "button", "data-key": run.key, title: run.name }, run.name);
    button.addEventListener("click", () => { keep({ run: run.key, from: null, to: null }); live.chosen = run.key; connect(); });
    const name = element("td");
    name.append(button);
    const bar = element("td"), share = run.n_steps ? run.step / run.n_steps : 0;
    bar.append(element("progress", { max: "1", value: String(share), "aria-label": `${Math.round(100 * share)} %` }));
    row.append(name, element("td", {}, run.method), element("td", { class: run.state }, run.state), bar,
      ...[short(run.loss), percent(run.accuracy), percent(run.ece), points(run.gap), run.state === "running" ? seconds(run.left) : "–"].map((text) => element("td", {}, text)));
    return row;
  }));
  if (focused) { const again = document.querySelector(`[data-key="${CSS.escape(focused)}"]`); if (again) again.focus(); }
}

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
    keep({ run: live.chosen, from: ends[0], to: ends[1] });
    paint();
  });
}
at("whole").addEventListener("click", () => { keep({ from: null, to: null }); paint(); });
window.addEventListener("hashchange", connect);
connect();
