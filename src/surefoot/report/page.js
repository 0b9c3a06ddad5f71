"use strict";
(() => {
  const root = document.documentElement;
  let figures = [];
  const config = {
    responsive: true,
    displaylogo: false,
    modeBarButtons: [["toImage", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };
  const touch = matchMedia("(pointer: coarse)").matches;

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  /* "--name/alpha" becomes the value that the custom property has just now. */
  function paint(text, style) {
    const [, name, alpha] = /^(--[\w-]+)(?:\/([\d.]+))?$/.exec(text);
    const hex = style.getPropertyValue(name).trim();
    if (alpha === undefined) return hex;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  }

  /* Only keys that name a colour are touched: a method may be called anything. */
  function painted(value, style) {
    if (Array.isArray(value)) return value.map((item) => painted(item, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [
        key,
        /color$/.test(key) && typeof item === "string" ? paint(item, style) : painted(item, style),
      ]),
    );
  }

  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked, select[name="${name}"]`)?.value;
  const checked = (name) => [...document.querySelectorAll(`input[name="${name}"]:checked`)].map((box) => box.value);

  function draw(figure) {
    const place = document.getElementById(figure.id);
    /* A figure with several views says by which switch one is chosen. */
    const wanted = figure.switch ? chosen(figure.switch) : "";
    const single = figure.switch === undefined;
    const view = figure.views[wanted ?? Object.keys(figure.views)[0]];
    place.hidden = view === undefined;
    if (place.hidden) return void Plotly.purge(place);
    const { data, layout } = painted(view, getComputedStyle(root));
    if (single) {
      const [methods, splits] = [checked("method"), checked("split")];
      for (const trace of data) {
        if (!trace.meta) continue;
        const { method, split } = trace.meta;
        trace.visible = methods.includes(String(method)) && (split === undefined || splits.includes(split));
      }
      layout.dragmode = touch ? false : "zoom"; /* on a touch screen a drag scrolls the page */
      layout.uirevision = "keep"; /* hiding a line does not undo a zoom */
    }
    if (root.classList.contains("printing")) layout.width = place.clientWidth; /* as wide as its card is on paper */
    return Plotly.react(place, data, layout, config).then(() => name(place));
  }

  /* The picture is what has a name: the buttons beside it must not be inside an image. */
  function name(place) {
    const says = (place.dataset.says ??= place.getAttribute("aria-label"));
    place.removeAttribute("role");
    place.removeAttribute("aria-label");
    const [picture, ...layers] = place.querySelectorAll(".main-svg");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", says);
    for (const layer of layers) layer.setAttribute("aria-hidden", "true");
    return place;
  }

  const drawAll = () => Promise.all(figures.map(draw));
  const fit = (places) => places.forEach((place) => place && Plotly.Plots.resize(place)); /* back to its card's width */

  /* One figure per frame, so that the page can be read and scrolled meanwhile. */
  async function open() {
    figures = JSON.parse(await unpack("figures"));
    if (figures.length) {
      const script = document.createElement("script");
      script.textContent = await unpack("plotly"); /* the page's policy names its hash */
      document.body.append(script);
    }
    for (const figure of figures) {
      await draw(figure);
      await new Promise((next) => setTimeout(next));
    }
    root.dataset.drawn = figures.length;
    root.dataset.took = performance.now(); /* milliseconds since the page was opened */
  }

  document.addEventListener("change", ({ target }) => {
    if (target.name === "view") {
      for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== target.value;
    }
    const isSwitch = figures.some((figure) => figure.switch === target.name);
    for (const figure of figures) {
      if (isSwitch ? figure.switch === target.name : figure.id.startsWith("curve-")) draw(figure);
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      root.classList.toggle("printing", printing); /* light colours and the width of a sheet */
      drawAll().then((places) => printing || fit(places));
    });
  }
  open();
})();
