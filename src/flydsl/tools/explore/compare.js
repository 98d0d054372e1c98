// Two targets, or two versions, side by side: the pane chosen on the left, the same text of the other on the right.
const compare = { with: "", kind: "asm", aligned: false };
const comparing = () => compare.with !== "";
const kinds = { asm: "assembly", llvm: "LLVM IR", ir: "IR", source: "Python" };

// The other side: its version and its target.
function other() {
  const [what, key] = [compare.with[0], compare.with.slice(1)];
  if (what === "t") return { version: data, target: data.functions[state.fn].targets.find((t) => t.target === key), label: key.split(":").slice(0, 2).join(":") };
  const version = others[Number(key)];
  const fn = version?.functions.find((f) => f.name === data.functions[state.fn].name);
  return { version, target: fn?.targets.find((t) => t.target === current().target), label: version?.label };
}

function fillCompare() {
  const choices = [["", "with nothing"]];
  for (const t of data.functions[state.fn].targets) if (t !== current()) choices.push(["t" + t.target, t.short]);
  others.forEach((version, i) => choices.push(["v" + i, version.label]));
  if (!choices.some(([value]) => value === compare.with) || (comparing() && !other().target)) compare.with = "";
  $("compare").replaceChildren(...choices.map(([value, text]) => make("option", { value, textContent: text })));
  $("compare").value = compare.with;
  $("compare-pick").classList.toggle("single", choices.length < 2);
  $("compare").onchange = () => { compare.with = $("compare").value; compare.aligned = compare.with[0] === "v"; showTarget(); };
  const shown = Object.keys(kinds).filter((k) => k !== "source" || compare.with[0] === "v");
  if (!shown.includes(compare.kind)) compare.kind = "asm";
  kindSelect.replaceChildren(...shown.map((k) => make("option", { value: k, textContent: kinds[k] })));
  kindSelect.value = compare.kind;
  kindSelect.onchange = () => { compare.kind = kindSelect.value; showTarget(); };
  alignButton.onclick = () => { compare.aligned = !compare.aligned; showTarget(); };
  for (const pane of Object.values(panes)) {
    const away = comparing() ? pane.id !== "other" && pane.id !== "source" && pane.id !== compare.kind : pane.id === "other";
    pane.node.classList.toggle("away", away);
  }
  if (comparing()) panes[compare.kind].node.classList.remove("hidden");
}

// Lines of another version have the numbers of the same lines here, where they are unchanged.
function renumbered(version) {
  if (version === data) return (n) => n;
  const known = new Map(), here = new Map(data.sources.map(([f, line], i) => [`${f}:${line}`, i + 1]));
  version.files.forEach((file, k) => {
    let j = data.files.findIndex((f) => f.name === file.name);
    if (j < 0) j = k === 0 ? 0 : -1;
    if (j < 0) return;
    for (const [mark, a, b] of difference(file.text.split("\n"), data.files[j].text.split("\n")))
      if (mark === " ") known.set(`${k}:${a + 1}`, here.get(`${j}:${b + 1}`));
  });
  return (n) => n ? known.get(version.sources[n - 1].join(":")) ?? data.sources.length + n : 0;
}

function comparedText(version, target) {
  if (compare.kind === "asm") return target.asm;
  if (compare.kind === "llvm") return target.llvm[state.llvm];
  if (compare.kind === "source") {
    const name = data.files[state.file].name, at = Math.max(0, version.files.findIndex((f) => f.name === name));
    const lines = version.files[at].text.split("\n"), map = new Array(lines.length).fill(0);
    version.sources.forEach(([f, line], i) => { if (f === at && line <= lines.length) map[line - 1] = i + 1; });
    return { text: version.files[at].text, map };
  }
  const wanted = current().stages[state.stage].name;
  let at = target.stages.findIndex((s) => s.name === wanted);
  if (at < 0) at = Math.min(state.stage, target.stages.length - 1);  // each backend has passes of its own
  return stageText(target.stages, at);
}

function showCompared() {
  const { version, target, label } = other(), left = panes[compare.kind];
  panes.other.lang = left.lang;
  panes.other.head.querySelector("h2").textContent = label;
  const mine = comparedText(data, current()), number = renumbered(version);
  const theirs = { ...comparedText(version, target) };
  theirs.map = theirs.map.map(number);
  alignButton.setAttribute("aria-pressed", compare.aligned);
  if (!compare.aligned) {
    panes.other.show(theirs.text, theirs.map);
    if (left !== panes.ir || !state.diff) left.show(mine.text, mine.map);
    left.code.onscroll = panes.other.code.onscroll = null;
    return;
  }
  // The other version is what was: its lines that are gone are red, those that came here are green.
  const a = theirs.text.split("\n"), b = mine.text.split("\n"), rows = pairs(difference(a, b));
  const filler = ["?", "", 0, ""];
  left.showRows(rows.map(([i, j, same]) => j < 0 ? filler : [same ? "" : "+", b[j], mine.map[j], j + 1]), `+${rows.filter((r) => r[1] >= 0 && !r[2]).length}`);
  panes.other.showRows(rows.map(([i, j, same]) => i < 0 ? filler : [same ? "" : "-", a[i], theirs.map[i], i + 1]), `−${rows.filter((r) => r[0] >= 0 && !r[2]).length}`);
  const follow = (from, to) => { from.code.onscroll = () => { if (to.code.scrollTop !== from.code.scrollTop) to.code.scrollTop = from.code.scrollTop; }; };
  follow(left, panes.other);
  follow(panes.other, left);
}

// Removed and added lines that follow one another share rows.
function pairs(rows) {
  const out = [];
  let gone = [], came = [];
  const flush = () => {
    for (let k = 0; k < Math.max(gone.length, came.length); k++) out.push([gone[k] ?? -1, came[k] ?? -1, false]);
    gone = []; came = [];
  };
  for (const [mark, i, j] of rows) {
    if (mark === "-") gone.push(i);
    else if (mark === "+") came.push(j);
    else { flush(); out.push([i, j, true]); }
  }
  flush();
  return out;
}

function comparedSheet() {
  const { target, label } = other(), here = current();
  const rows = [];
  const add = (name, a, b, less = true) => {
    if (a === undefined && b === undefined) return;
    const number = typeof a === "number" && typeof b === "number";
    const show = (v) => v === undefined || v === null ? "–" : typeof v === "number" ? String(+v.toPrecision(4)) : String(v);
    const change = number && a !== b ? (b ? `${a > b ? "+" : "−"}${Math.abs((100 * (a - b)) / b).toFixed(1)} %` : `${a > b ? "+" : ""}${show(a - b)}`) : "";
    const cls = change && less !== null ? ((b > a) === less ? "better" : "worse") : "";
    rows.push(make("tr", {}, make("td", { className: "l", textContent: name }), make("td", { textContent: show(a) }), make("td", { textContent: show(b) }), make("td", { className: cls, textContent: change })));
  };
  const better = { occupancy: false, registers: true, spills: true, shared: true, scratch: true, code_size: true, sgprs: true, agprs: true };
  here.cost.launches.forEach((one, i) => {
    const peer = target.cost.launches[i];
    if (!peer) return;
    const name = here.cost.launches.length > 1 ? `launch ${i + 1}: ` : "";
    add(`${name}predicted, µs`, one.us, peer.us);
    add(`${name}limited by`, one.limiter, peer.limiter);
    add(`${name}resident occupancy, %`, 100 * one.occupancy, 100 * peer.occupancy, false);
    add(`${name}bytes moved / used`, one.asked ? one.moved / one.asked : undefined, peer.asked ? peer.moved / peer.asked : undefined);
    add(`${name}bank conflicts`, one.conflicts ?? undefined, peer.conflicts ?? undefined);
  });
  here.kernels.forEach((kernel, k) => {
    const peer = target.kernels[k] ?? {};
    const keys = [...new Set([...Object.keys(kernel), ...Object.keys(peer)])].filter((key) => key in better);
    for (const key of keys) add((here.kernels.length > 1 ? `${kernel.name}: ` : "") + (labels[key] ?? key), kernel[key] ?? undefined, peer[key] ?? undefined, better[key]);
  });
  add("binary, bytes", here.binary.size, target.binary.size);
  const mine = compare.with[0] === "t" ? here.short : data.label ?? "now";
  return [make("table", { id: "compared" }, make("tr", {}, ...["", mine, label, "change"].map((t, i) => make("th", { className: i ? "" : "l", textContent: t }))), ...rows)];
}
