"use strict";
// The list of runs: one row each, changed in place, so that a click or the focus is never lost to news.

const COLUMNS = [
  (run) => run.method, (run) => run.state, null, (run) => short(run.loss), (run) => percent(run.accuracy),
  (run) => percent(run.ece), (run) => points(run.gap), (run) => (run.state === "running" ? seconds(run.left) : "–"),
];

function buildRow(run, act) {
  const row = element("tr"), box = element("input", { type: "checkbox" }), name = element("button", { type: "button" });
  box.dataset.key = name.dataset.key = run.key;
  box.addEventListener("change", () => act.draw(run.key, box.checked));
  name.addEventListener("click", () => act.only(run.key));
  const first = element("td"), second = element("td"), bar = element("progress", { max: "1" });
  first.append(box);
  second.append(name);
  const cells = COLUMNS.map(() => element("td"));
  cells[2].append(bar);
  row.append(first, second, ...cells);
  return { row, box, name, bar, cells };
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Makes the rows say what the runs are, in their order.
function paintRows(body, known, runs, chosen, most, act) {
  const there = new Set(runs.map((run) => run.key));
  for (const [key, made] of known) if (!there.has(key)) { made.row.remove(); known.delete(key); }
  runs.forEach((run, place) => {
    if (!known.has(run.key)) known.set(run.key, buildRow(run, act));
    const { row, box, name, bar, cells } = known.get(run.key);
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
    box.checked = chosen.includes(run.key);
    box.disabled = !box.checked && chosen.length >= most;
    box.setAttribute("aria-label", `Draw ${run.name}`);
    setText(name, run.name);
    name.title = run.name;
    if (run.key === chosen[0]) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
    const share = run.n_steps ? run.step / run.n_steps : 0;
    bar.value = share;
    bar.setAttribute("aria-label", `${Math.round(100 * share)} % of ${run.name}`);
    COLUMNS.forEach((text, i) => { if (text) setText(cells[i], text(run)); });
    cells[1].className = run.state;
  });
}
