"use strict";
// Several runs in one chart: which line is whose. Seeds of one method share its line style, so that methods are told apart.

const STYLES = 12;  // six colours times four dashes, without two alike

// Groups runs by method; runs of one method alone are told apart by their names.
function groupsOf(runs) {
  const single = new Set(runs.map((run) => run.method)).size === 1, found = new Map();
  for (const run of runs) {
    const id = single ? run.key : run.method;
    if (!found.has(id)) found.set(id, { name: single ? run.name : run.method, cls: `g${found.size % STYLES}`, runs: [] });
    found.get(id).runs.push(run);
  }
  return [...found.values()];
}

// The one curve per run that a card shows of several.
const OVERLAID = {
  loss: { title: "Loss, held out", curve: (c) => c.nll || c.loss, log: true, by: 1, write: short },
  accuracy: { curve: (c) => c.accuracy, by: 100, write: (v) => `${v.toFixed(1)} %` },
  ece: { curve: (c) => c.ece, by: 100, write: (v) => `${v.toFixed(1)} %`, floor: 0 },
  gap: { curve: (c) => c.gap, by: 100, write: (v) => points(v / 100), level: 0 },
  sharpness: { curve: (c) => c.sharpness, by: 1, write: short, log: true },
  margins: { title: "Margins, test: medians", curve: (c) => c.margin_median, by: 1, write: short, level: 0 },
  rho: { curve: (c) => c.steered_rho || c.rho, by: 1, write: short, floor: 0 },
  gamma: { curve: (c) => c.steered_gamma || c.gamma, by: 1, write: short, floor: 0 },
  decay: { curve: (c) => c.steered_weight_decay, by: 1, write: short, log: true },
};

// Lines of all runs, and the newest value of each group: the mean over its runs.
function overlaid(id, groups, curvesOf) {
  const rule = OVERLAID[id], lines = [], key = [];
  for (const group of groups) {
    const newest = [];
    for (const run of group.runs) {
      const curve = rule.curve(curvesOf(run.key));
      if (!curve || !curve.x.length) continue;
      lines.push({ x: curve.x, y: curve.y.map((v) => (v === null ? null : rule.by * v)), cls: group.cls });
      if (last(curve) !== null) newest.push(rule.by * last(curve));
    }
    if (newest.length) key.push([group.cls, `${group.name} ${rule.write(newest.reduce((p, q) => p + q, 0) / newest.length)}`]);
  }
  const made = { lines, key, title: rule.title, log: rule.log, floor: rule.floor };
  if (rule.level !== undefined && lines.length) made.levels = [{ at: rule.level, cls: "soft dash" }];
  return made;
}
