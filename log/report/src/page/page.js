"use strict";
let errors = 0;
window.addEventListener("error", () => { document.body.dataset.errors = ++errors; });
document.body.dataset.errors = errors;
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

// An element with attributes and children; texts are never parsed as HTML.
function make(name, attributes = {}, ...children) {
  const is_svg = ["svg", "rect", "line", "text", "path", "circle", "title", "g"].includes(name);
  const made = is_svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
function digits(value) { return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2); }
function time(ns) {
  if (ns === null) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
  return ns < 1e9 ? `${digits(ns / 1e6)} ms` : `${digits(ns / 1e9)} s`;
}
function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) { count /= 1024; at++; }
  return at ? `${digits(count)} ${units[at]}` : `${Math.round(count)} B`;
}
const number = (count) => count.toLocaleString("en-US");
const percent = (part) => `${(100 * part).toFixed(1)} %`;
function section(title, ...children) {
  const made = make("section", {}, make("h2", {}, title), ...children);
  page.append(made);
  return made;
}
// A table whose headers sort it. A column: title, text of a row, value to sort by, and whether it is text.
function table(columns, rows, of_row = () => ({})) {
  const body = make("tbody");
  let order = null;
  function fill() {
    const sorted = rows.slice();
    if (order) sorted.sort((a, b) => { const [x, y] = [order.value(a), order.value(b)]; return (x < y ? -1 : x > y ? 1 : 0) * order.sign; });
    body.replaceChildren(...sorted.map((row) => make("tr", of_row(row), ...columns.map((column) => {
      const cell = column.show(row);
      return make("td", { class: column.name ? "name" : null }, cell === null ? "–" : cell);
    }))));
  }
  const head = make("tr", {}, ...columns.map((column) => {
    const header = make("th", { class: column.name ? "name" : null, scope: "col" });
    header.append(make("button", { title: "sort", onclick: () => {
      const sign = order && order.value === column.value ? -order.sign : column.name ? 1 : -1;
      order = { value: column.value, sign };
      for (const other of head.children) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      fill();
    } }, column.title));
    return header;
  }));
  fill();
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
}
const ns_column = (title, key) => ({ title, show: (row) => (row.timed ? time(row[key]) : null), value: (row) => row[key] });

page.append(make("p", { class: "dim" }, data.sources.join(", ")));
if (data.problems.length) page.append(make("ul", {}, ...data.problems.map((text) => make("li", {}, text))));

// Summary.
if (data.gpus.length) {
  for (const gpu of data.gpus) {
    const card = (value, title) => make("div", { class: "card" }, make("b", {}, value), title);
    const place = data.gpus.length > 1 ? gpu.bdf : "";
    section(`GPU ${gpu.agent}${gpu.name ? `: ${gpu.name}` : ""}${place && `, ${place}`}`, make("div", { class: "cards" },
      card(number(gpu.calls), "dispatches"), card(time(gpu.spanNs), "from first start to last end"),
      card(gpu.spanNs ? percent(gpu.busyNs / gpu.spanNs) : "–", `busy: ${time(gpu.busyNs)}`),
      card(time(gpu.idleNs), `idle in ${number(gpu.gaps)} gaps, longest ${time(gpu.longestGapNs)}`),
      card(gpu.concurrency.toFixed(2), "kernels at once, while busy"),
      gpu.delayMedianNs === null ? card("–", "doorbell to start: not known")
        : card(time(gpu.delayMedianNs), `doorbell to start (median; p95 ${time(gpu.delayP95Ns)})`)));
  }
}

// Kernels, and the plots of one of them.
const colours = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948", "#ff9da7", "#86bcb6", "#d37295", "#a0cbe8"];
const colour = (kernel) => colours[Math.max(kernel, 0) % colours.length];
const plots = make("div", { "aria-live": "polite" });
function axis_plot(title, width, height, draw) {
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  draw(svg);
  return make("figure", { style: "margin:0" }, make("figcaption", { class: "dim" }, title), svg);
}
function histogram(title, lo, hi, series) {
  const [width, height, base] = [560, 220, 190];
  return axis_plot(title, width, height, (svg) => {
    const most = Math.max(1, ...series.flatMap((one) => one.counts));
    const bins = series[0].counts.length;
    const step = (width - 50) / bins;
    series.forEach((one, at) => one.counts.forEach((count, bin) => {
      if (!count) return;
      const tall = Math.max(1, (base - 15) * count / most);
      const [from, to] = [lo * (hi / lo) ** (bin / bins), lo * (hi / lo) ** ((bin + 1) / bins)];
      svg.append(make("rect", { x: 40 + bin * step + at * step / series.length, y: base - tall, width: Math.max(1, step / series.length - 1), height: tall, fill: one.fill },
        make("title", {}, `${one.name}: ${number(count)} from ${time(from)} to ${time(to)}`)));
    }));
    svg.append(make("line", { x1: 40, x2: width - 10, y1: base, y2: base, stroke: "currentColor" }),
      make("text", { x: 40, y: base + 15 }, time(lo)), make("text", { x: width - 10, y: base + 15, "text-anchor": "end" }, time(hi)),
      make("text", { x: 36, y: 15, "text-anchor": "end" }, number(most)));
  });
}
function over_time(kernel) {
  const [width, height, base] = [640, 220, 190];
  const points = kernel.points;
  const title = kernel.bucketed ? `Durations over time: median and range of ${number(kernel.bucketed)} dispatches each` : "Durations over time";
  return axis_plot(title, width, height, (svg) => {
    const ends = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
    const top = Math.max(1, ...points.map((p) => p[3]));
    const x = (at) => 60 + (width - 75) * (ends[1] > ends[0] ? (at - ends[0]) / (ends[1] - ends[0]) : 0.5);
    const y = (ns) => base - (base - 15) * ns / top;
    for (const [at, low, median, high, replaced] of points) {
      const fill = replaced ? "var(--other)" : "var(--own)";
      if (high > low) svg.append(make("line", { x1: x(at), x2: x(at), y1: y(low), y2: y(high), stroke: fill, opacity: 0.4 }));
      svg.append(make("circle", { cx: x(at), cy: y(median), r: 2.5, fill }, make("title", {}, `${time(median)} at ${time(at)}`)));
    }
    svg.append(make("line", { x1: 60, x2: width - 10, y1: base, y2: base, stroke: "currentColor" }),
      make("text", { x: 60, y: base + 15 }, time(ends[0])), make("text", { x: width - 10, y: base + 15, "text-anchor": "end" }, time(ends[1])),
      make("text", { x: 55, y: 18, "text-anchor": "end" }, time(top)), make("text", { x: 55, y: base, "text-anchor": "end" }, "0"));
  });
}
function choose(kernel, row) {
  for (const other of document.querySelectorAll("tr.chosen")) other.classList.remove("chosen");
  if (row) row.classList.add("chosen");
  const parts = [make("h3", {}, kernel.name)];
  if (!kernel.histogram) {
    parts.push(make("p", { class: "dim" }, kernel.timed ? "Only the kernels with the most time have plots." : "No dispatch of it has times."));
  } else {
    const { lo, hi, own, other } = kernel.histogram;
    const series = [{ name: "application's", counts: own, fill: "var(--own)" }];
    if (kernel.replaced) series.push({ name: "replacement", counts: other, fill: "var(--other)" });
    parts.push(make("div", { class: "plots" }, histogram("Durations, logarithmic", lo, hi, series), over_time(kernel)));
  }
  if (kernel.swap) {
    const { counts, medians, ratio, interval, verdict } = kernel.swap;
    const range = interval ? `, 95 % interval ${interval[0].toFixed(3)} to ${interval[1].toFixed(3)}` : "";
    parts.push(make("p", {}, make("span", { style: "color:var(--own)" }, "■ application's"), ` ${number(counts[0])} dispatches, median ${time(medians[0])}; `,
      make("span", { style: "color:var(--other)" }, "■ replacement"), ` ${number(counts[1])} dispatches, median ${time(medians[1])}; ratio ${ratio.toFixed(3)}${range}: ${verdict}`));
  }
  plots.replaceChildren(...parts);
}
if (data.kernels.length) {
  const columns = [
    ns_column("total", "totalNs"), { title: "share", show: (k) => percent(k.share), value: (k) => k.share },
    { title: "calls", show: (k) => number(k.calls), value: (k) => k.calls },
    ns_column("mean", "meanNs"), ns_column("median", "medianNs"), ns_column("min", "minNs"), ns_column("max", "maxNs"), ns_column("p95", "p95Ns"), ns_column("stddev", "stddevNs"),
    { title: "replaced", show: (k) => number(k.replaced), value: (k) => k.replaced },
    { title: "shapes", show: (k) => (k.shapes.length === 1 ? k.shapes[0].map((size) => (size.some((n) => n) ? size.join("x") : "-")).join("/") : k.shapes.length ? number(k.shapes.length) : "-"), value: (k) => k.shapes.length },
    { title: "kernel", name: true, show: (k) => make("span", {}, make("span", { "aria-hidden": "true", style: `color:${colour(data.names.indexOf(k.name))}` }, "■ "), make("button", { onclick: (event) => choose(k, event.target.closest("tr")) }, k.name)), value: (k) => k.name },
  ];
  section("Kernels", make("p", { class: "dim" }, "Choose a kernel to see its durations. Headers sort the table."),
    table(columns, data.kernels, (k) => ({ "data-kernel": k.name, "data-calls": k.calls, "data-total-ns": k.totalNs })), plots);
  choose(data.kernels[0], document.querySelector("tr[data-kernel]"));
}

// Timeline.
if (data.timeline.tracks.length) {
  const { tracks, spanNs, slices, pieces, resolutionNs } = data.timeline;
  for (const track of tracks) {
    let at = 0;
    track.parsed = [];
    const width = resolutionNs ? 5 : 3;
    for (let i = 0; i < track.slices.length; i += width) {
      at += track.slices[i];
      track.parsed.push([at, track.slices[i + 1], ...track.slices.slice(i + 2, i + width)]);
    }
  }
  const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": `Timeline of ${number(slices)} rows on ${tracks.length} tracks. Arrow keys move, plus and minus zoom, 0 shows everything.` });
  const said = make("p", { class: "dim", "aria-live": "polite" }, "Wheel, drag, arrow keys, + and - zoom and move; 0 shows everything.");
  const [tall, left, top] = [22, 190, 20];
  let view = [0, Math.max(spanNs, 1)];
  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth || 1000, top + tall * tracks.length + 4];
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const to = canvas.getContext("2d");
    to.scale(ratio, ratio);
    const style = getComputedStyle(document.body);
    to.font = "12px system-ui, sans-serif";
    to.fillStyle = style.color;
    const scale = (width - left) / (view[1] - view[0]);
    for (let i = 0; i <= 4; i++) {
      to.textAlign = i === 4 ? "right" : "left";
      to.fillText(time(view[0] + (view[1] - view[0]) * i / 4), left + (width - left) * i / 4, 13);
    }
    to.textAlign = "left";
    tracks.forEach((track, row) => {
      const y = top + row * tall;
      to.fillStyle = style.color;
      to.fillText(track.name, 2, y + 15, left - 8);
      for (const [start, length, kernel, , busy] of track.parsed) {
        if (start + length < view[0] || start > view[1]) continue;
        const x = Math.max(left, left + (start - view[0]) * scale);
        const end = Math.min(width, left + (start + length - view[0]) * scale);
        to.fillStyle = colour(kernel);
        to.globalAlpha = busy === undefined ? 1 : 0.35 + 0.65 * Math.min(1, busy / Math.max(1, length));
        to.fillRect(x, y + 2, Math.max(1, end - x), tall - 4);
        to.globalAlpha = 1;
        if (end - x > 40) {
          to.fillStyle = "#000";
          to.save();
          to.beginPath();
          to.rect(x, y, end - x - 2, tall);
          to.clip();
          to.fillText(data.names[kernel], x + 3, y + 15);
          to.restore();
        }
      }
    });
  }
  function show(from, to) {
    const width = Math.min(Math.max(to - from, 10), Math.max(spanNs, 10));
    const start = Math.min(Math.max(from, 0), Math.max(0, spanNs - width));
    view = [start, start + width];
    draw();
  }
  const zoom = (by, part = 0.5) => { const width = (view[1] - view[0]) * by; const at = view[0] + (view[1] - view[0]) * part; show(at - width * part, at + width * (1 - part)); };
  const move = (part) => { const by = (view[1] - view[0]) * part; show(view[0] + by, view[1] + by); };
  const part_of = (event) => Math.min(1, Math.max(0, (event.offsetX - left) / (canvas.clientWidth - left)));
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, part_of(event)); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, spanNs) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = [event.offsetX, ...view]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const by = (held[0] - event.offsetX) * (held[2] - held[1]) / (canvas.clientWidth - left);
      show(held[1] + by, held[2] + by);
      return;
    }
    const track = tracks[Math.floor((event.offsetY - top) / tall)];
    const at = view[0] + part_of(event) * (view[1] - view[0]);
    const found = track && track.parsed.find(([start, length]) => start <= at && at <= start + length);
    if (found) said.textContent = `${data.names[found[2]]}${found[3] > 1 ? ` and others, ${number(found[3])} dispatches, busy ${time(found[4])}` : ""}: ${time(found[1])} from ${time(found[0])}, ${track.name}`;
  });
  const tool = (text, title, act) => make("button", { "aria-label": title, title, onclick: act }, text);
  const left_out = data.timeline.leftOut ? ` ${number(data.timeline.leftOut)} more tracks are left out.` : "";
  const note = resolutionNs ? `${number(slices)} rows are shown in ${number(pieces)} pieces: neighbours within ${time(resolutionNs)} are one.` : `${number(slices)} rows.`;
  section("Timeline", make("p", { class: "dim" }, note + left_out), make("div", { class: "tools" }, tool("+", "zoom in", () => zoom(0.5)), tool("−", "zoom out", () => zoom(2)), tool("←", "earlier", () => move(-0.2)), tool("→", "later", () => move(0.2)), tool("all", "show everything", () => show(0, spanNs))), canvas, said);
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}

// Gaps and copies.
if (data.gaps.length) {
  const columns = [
    { title: "length", show: (gap) => time(gap.lengthNs), value: (gap) => gap.lengthNs },
    { title: "after", show: (gap) => time(gap.startNs), value: (gap) => gap.startNs },
    { title: "GPU", name: true, show: (gap) => gap.gpu, value: (gap) => gap.gpu },
  ];
  section("Longest gaps between kernels", table(columns, data.gaps));
}
if (data.copies.length) {
  const columns = [
    { title: "direction", name: true, show: (copy) => copy.name, value: (copy) => copy.name },
    { title: "copies", show: (copy) => number(copy.calls), value: (copy) => copy.calls },
    { title: "bytes", show: (copy) => bytes(copy.bytes), value: (copy) => copy.bytes },
    ns_column("total", "totalNs"), { title: "rate", show: (copy) => `${bytes(copy.bytesPerSecond)}/s`, value: (copy) => copy.bytesPerSecond },
    ns_column("median", "medianNs"), ns_column("max", "maxNs"),
  ];
  section("Copies", table(columns, data.copies));
}

if (data.ranges.length) {
  const columns = [
    { title: "range", name: true, show: (range) => range.name, value: (range) => range.name },
    { title: "calls", show: (range) => number(range.calls), value: (range) => range.calls },
    ns_column("total", "totalNs"), ns_column("median", "medianNs"), ns_column("max", "maxNs"),
  ];
  section("Ranges of the application", table(columns, data.ranges));
}

// Captures.
for (const capture of data.captures) {
  const why = (line) => [...line.obstacles.map((text) => `cannot be replayed: ${text}`), ...line.lacks.map((text) => `lacks: ${text}`), ...line.weaknesses.map((text) => `qualified: ${text}`)].join("; ");
  const columns = [
    { title: "dispatch", show: (line) => line.dispatch, value: (line) => line.dispatch },
    { title: "kernel", name: true, show: (line) => line.kernel, value: (line) => line.kernel },
    { title: "grid by workgroup", name: true, show: (line) => line.geometry, value: (line) => line.geometry },
    { title: "duration", show: (line) => time(line.duration_ns), value: (line) => line.duration_ns },
    { title: "held", show: (line) => time(line.held_ns), value: (line) => line.held_ns },
    { title: "captured", show: (line) => bytes(line.bytes), value: (line) => line.bytes },
    { title: "replay", name: true, show: (line) => (line.complete && !line.obstacles.length ? "possible" : "not possible"), value: (line) => line.complete },
    { title: "notes", name: true, show: why, value: why },
  ];
  const complete = capture.dispatches.filter((line) => line.complete).length;
  const lost = capture.lost_dispatches || 0;
  const problems = capture.problems || [];
  const damage = problems.length ? `; the file is damaged in ${number(problems.length)} places, and the records of ${number(lost)} dispatches cannot be read` : "";
  const session = capture.sessions.map((one) => `process ${one.pid} on ${one.host}: ${[one.exe, ...one.arguments].join(" ")}`).join("; ");
  section(`Capture: ${capture.name}`,
    make("p", {}, `${session}. ${number(complete)} of ${number(capture.dispatches.length + lost)} dispatches have all that a replay needs${damage}${capture.finished ? "" : "; the capture was not finished"}.`),
    table(columns, capture.dispatches, (line) => ({ "data-captured": line.dispatch })),
    ...problems.map((text) => make("p", {}, `damaged: ${text}`)),
    ...capture.notes.map((note) => make("p", {}, `${note.severity} ${note.code}: ${note.text}`)));
}

// Searches.
for (const search of data.searches) {
  const best = search.trials.find((trial) => trial.number === search.best);
  const base = search.trials.find((trial) => trial.number === 0);
  const ratio = (trial) => (trial.medianNs !== null && base && base.medianNs ? trial.medianNs / base.medianNs : null);
  const columns = [
    { title: "#", show: (trial) => trial.number, value: (trial) => trial.number },
    { title: "median", show: (trial) => time(trial.medianNs), value: (trial) => trial.medianNs ?? Infinity },
    { title: "ratio", show: (trial) => ratio(trial)?.toFixed(3) ?? null, value: (trial) => trial.medianNs ?? Infinity },
    { title: "values", name: true, show: (trial) => trial.values.map(([key, value]) => `${key}=${value}`).join(" ") || "as captured", value: (trial) => trial.values.join() },
    { title: "result", name: true, show: (trial) => (trial.number === search.best ? "best" : trial.reason || trial.result), value: (trial) => trial.result },
  ];
  const made = section(`Search: ${search.name}`,
    make("p", {}, best ? `Best of ${number(search.trials.length)} configurations: ${best.number}, median ${time(best.medianNs)}${ratio(best) ? `, ${ratio(best).toFixed(3)} of the captured one` : ""}.` : "No configuration was measured."),
    table(columns, search.trials, (trial) => ({ class: trial.number === search.best ? "best" : null, "data-trial": trial.number, "data-median-ns": trial.medianNs })));
  const names = [...new Set(search.trials.flatMap((trial) => trial.values.map(([key]) => key)))];
  if (names.length >= 2) {
    const heat = make("div", { class: "scroll" });
    const pick = (chosen) => make("select", {}, ...names.map((name, at) => make("option", { value: name, selected: at === chosen ? "" : null }, name)));
    const [across, down] = [pick(0), pick(1)];
    const draw = () => {
      const value = (trial, name) => (trial.values.find(([key]) => key === name) || [])[1];
      const all = (name) => [...new Set(search.trials.map((trial) => value(trial, name)).filter((text) => text !== undefined))];
      const cells = (x, y) => search.trials.filter((trial) => trial.medianNs !== null && value(trial, across.value) === x && value(trial, down.value) === y).map((trial) => trial.medianNs);
      const measured = search.trials.map((trial) => trial.medianNs).filter((median) => median !== null);
      const [low, high] = [Math.min(...measured), Math.max(...measured)];
      const cell = (x, y) => {
        const found = cells(x, y);
        if (!found.length) return make("td", { style: "background:#999" }, "–");
        const least = Math.min(...found);
        const part = high > low ? (least - low) / (high - low) : 0;
        return make("td", { style: `background:hsl(${130 - 100 * part} 60% 65%)` }, time(least));
      };
      heat.replaceChildren(make("table", { class: "heat" }, make("thead", {}, make("tr", {}, make("th", {}, `${down.value} \\ ${across.value}`), ...all(across.value).map((x) => make("th", { scope: "col" }, x)))),
        make("tbody", {}, ...all(down.value).map((y) => make("tr", {}, make("th", { scope: "row" }, y), ...all(across.value).map((x) => cell(x, y)))))));
    };
    across.addEventListener("change", draw);
    down.addEventListener("change", draw);
    made.append(make("h3", {}, "Best median by two parameters"), make("div", { class: "tools" }, make("label", {}, "across ", across), make("label", {}, "down ", down)), heat);
    draw();
  }
}

// Verification.
if (data.verified.length) {
  const columns = [
    { title: "dispatch", show: (line) => line.dispatch, value: (line) => line.dispatch },
    { title: "result", name: true, show: (line) => make("span", { class: line.status === 0 ? "PASS" : "FAIL" }, line.result), value: (line) => line.result },
    { title: "kernel", name: true, show: (line) => line.kernel, value: (line) => line.kernel },
    { title: "why", name: true, show: (line) => line.why, value: (line) => line.why },
  ];
  const passed = data.verified.filter((line) => line.status === 0).length;
  section("Verification", make("p", {}, `${number(passed)} of ${number(data.verified.length)} dispatches pass.`), table(columns, data.verified, (line) => ({ "data-dispatch": line.dispatch })));
}
