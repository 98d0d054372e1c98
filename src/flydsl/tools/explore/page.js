// The page's program: four panes of text whose lines carry the number of the source line they come from.
let data = JSON.parse(document.getElementById("data").textContent);
const others = data.others ?? [];  // other versions, newest first
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text) => text.replace(/[&<>]/g, (c) => escapes[c]);
const hue = (source) => Math.round((source * 137.508) % 360);
const state = { fn: 0, target: 0, launch: 0, stage: 0, llvm: 1, file: 0, diff: false, pin: 0, hover: 0, tab: "resources" };
const stored = {
  get(key) { try { return localStorage.getItem("fly-explore-" + key); } catch { return null; } },
  set(key, value) { try { localStorage.setItem("fly-explore-" + key, value); } catch { /* private windows have none */ } },
};

// --- colours of words ------------------------------------------------------------------------------------------

const rules = {
  python: [
    ["c", /#.*/], ["s", /[rbf]*("""[^]*?("""|$)|'''[^]*?('''|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/],
    ["o", /@[\w.]+/], ["k", /\b(?:def|class|return|if|elif|else|for|while|in|not|and|or|is|import|from|as|with|try|except|finally|raise|lambda|yield|pass|break|continue|None|True|False|global|nonlocal|assert|async|await)\b/],
    ["n", /\b(?:0x[\da-fA-F]+|\d[\d_.]*(?:e[+-]?\d+)?)\b/], ["y", /\b\w+(?=\()/], ["", /\w+/],
  ],
  mlir: [
    ["c", /\/\/.*/], ["s", /"(?:[^"\\]|\\.)*"/], ["v", /%[\w#$.-]+/], ["y", /@[\w$.-]+/], ["t", /![\w.]+|#[\w.]+/],
    ["o", /\b(?:fly\w*|arith|scf|gpu|func|llvm|vector|math|memref|builtin|cf|rocdl|nvvm|ub)\.[\w.]+/],
    ["t", /\b(?:[su]?i\d+|b?f\d+|index|vector|tensor|memref)\b/], ["k", /\b(?:attributes|kernel|iter_args|to|step|else|return|do|dense|array|true|false|unit)\b/],
    ["n", /-?\b\d[\w.+-]*/], ["", /[A-Za-z_]\w*/],
  ],
  llvm: [
    ["c", /;.*/], ["s", /"(?:[^"\\]|\\.)*"/], ["v", /%[\w$.-]+|%"[^"]*"/], ["y", /@[\w$.-]+|@"[^"]*"/], ["c", /#\d+|![\w.]+/],
    ["t", /\b(?:i\d+|half|bfloat|float|double|ptr|void|label|token|metadata|x)\b/],
    ["k", /\b(?:define|declare|attributes|target|datalayout|triple|source_filename|internal|constant|global|private|protected|align|addrspace|to|nounwind|amdgpu_kernel|ptx_kernel|inbounds|nsw|nuw|fast|contract|reassoc|nnan|ninf|nsz|arcp|afn|disjoint|tail)\b/],
    ["o", /\b(?:add|sub|mul|[su]div|[su]rem|fadd|fsub|fmul|fdiv|frem|fneg|shl|[al]shr|and|or|xor|icmp|fcmp|select|phi|br|switch|ret|call|load|store|getelementptr|alloca|extractvalue|insertvalue|extractelement|insertelement|shufflevector|trunc|[sz]ext|fptrunc|fpext|[su]itofp|fpto[su]i|bitcast|ptrtoint|inttoptr|addrspacecast|freeze|fence|atomicrmw|cmpxchg|unreachable)\b/],
    ["n", /-?\b(?:0x[\da-fA-FHR]+|\d[\d.e+-]*)\b/], ["", /[A-Za-z_$][\w$.]*/],
  ],
  asm: [
    ["c", /(?:\/\/|;|#).*/], ["s", /"(?:[^"\\]|\\.)*"/], ["y", /^[\w.$]+:/], ["t", /^\s*\.[\w.]+/], ["o", /^\s*@?!?%?p?\d*\s*[a-z][\w.:]*/],
    ["v", /%[\w.]+|\b[vsa](?:\d+|\[[\d:]+\])|\b(?:vcc|exec|scc|m0|off|vcc_lo|exec_lo)\b/], ["n", /[$-]?\b(?:0x[\da-fA-F]+|0f[\dA-F]{8}|\d[\d.]*)\b/], ["", /[A-Za-z_.$][\w.$]*/],
  ],
};
const compiled = {};
for (const [lang, list] of Object.entries(rules))
  compiled[lang] = [new RegExp(list.map(([, r]) => `(${r.source.replace(/\((?!\?)/g, "(?:")})`).join("|"), "g"), list.map(([c]) => c)];

function coloured(text, lang) {
  const [pattern, classes] = compiled[lang];
  let out = "", last = 0;
  pattern.lastIndex = 0;
  for (let match; (match = pattern.exec(text)); ) {
    if (!match[0]) { pattern.lastIndex++; continue; }
    const cls = classes[match.findIndex((part, i) => i && part !== undefined) - 1];
    out += escaped(text.slice(last, match.index));
    out += cls ? `<span class="${cls}">${escaped(match[0])}</span>` : escaped(match[0]);
    last = match.index + match[0].length;
  }
  return out + escaped(text.slice(last));
}

// --- differences -----------------------------------------------------------------------------------------------

// Myers' algorithm over lines. Numbers of SSA values do not count: one new op would otherwise change every line below.
function difference(before, after) {
  const plain = (line) => line.replace(/%\d+/g, "%");
  const a = before.map(plain), b = after.map(plain);
  let start = 0, ea = a.length, eb = b.length;
  while (start < ea && start < eb && a[start] === b[start]) start++;
  while (ea > start && eb > start && a[ea - 1] === b[eb - 1]) { ea--; eb--; }
  const n = ea - start, m = eb - start, limit = Math.min(n + m, 2500);
  const trace = [];
  let v = new Map([[1, 0]]), done = -1;
  search: for (let d = 0; d <= limit; d++) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? v.get(k + 1) : v.get(k - 1) + 1;
      let y = x - k;
      while (x < n && y < m && a[start + x] === b[start + y]) { x++; y++; }
      v.set(k, x);
      if (x >= n && y >= m) { done = d; break search; }
    }
  }
  const middle = [];
  if (done < 0) {
    for (let i = 0; i < n; i++) middle.push(["-", start + i, -1]);
    for (let j = 0; j < m; j++) middle.push(["+", -1, start + j]);
  } else {
    let x = n, y = m;
    for (let d = done; d >= 0; d--) {
      const old = trace[d], k = x - y;
      const up = k === -d || (k !== d && (old.get(k - 1) ?? -1) < (old.get(k + 1) ?? -1));
      const pk = up ? k + 1 : k - 1, px = d ? old.get(pk) : 0, py = d ? px - pk : 0;
      while (x > px && y > py) { x--; y--; middle.push([" ", start + x, start + y]); }
      if (d) { if (up) middle.push(["+", -1, start + --y]); else middle.push(["-", start + --x, -1]); }
    }
    middle.reverse();
  }
  const out = [];
  for (let i = 0; i < start; i++) out.push([" ", i, i]);
  out.push(...middle);
  for (let i = ea; i < a.length; i++) out.push([" ", i, eb + i - ea]);
  return out;
}

// --- panes -----------------------------------------------------------------------------------------------------

class Pane {
  constructor(id, title, lang) {
    this.id = id;
    this.lang = lang;
    this.lines = [];
    this.code = make("div", { className: "code", tabIndex: 0 });
    this.ruler = make("div", { className: "ruler" });
    this.info = make("span", { className: "info" });
    this.head = make("div", { className: "head" }, make("h2", { textContent: title }));
    this.tools = make("span", { className: "tools" });
    this.head.append(this.tools, make("span", { className: "grow" }), this.info);
    this.node = make("section", { className: "pane", id: "pane-" + id }, this.head, make("div", { className: "body" }, this.code, this.ruler));
    this.code.addEventListener("mouseover", (e) => hover(Number(e.target.closest?.(".ln")?.dataset.s || 0)));
    this.code.addEventListener("mouseleave", () => hover(0));
    this.code.addEventListener("click", (e) => {
      if (e.target.classList.contains("gap")) return this.open(e.target);
      if (String(getSelection())) return;
      const line = e.target.closest(".ln");
      if (line?.dataset.s) pin(Number(line.dataset.s), this);
    });
  }
  line(text, source, number, mark = "") {
    const cls = mark === "+" ? " add" : mark === "-" ? " del" : mark === "?" ? " filler" : "";
    const from = source ? ` data-s="${source}" style="--h:${hue(source)}"` : "";
    return `<div class="ln${cls}"${from}><i>${number}</i>${this.diffing ? `<b>${mark === "?" ? " " : mark || " "}</b>` : ""}<code>${coloured(text, this.lang) || " "}</code>${this.id === "source" ? costBadge(source) : ""}</div>`;
  }
  blocks(rows) {
    let out = "";
    for (let i = 0; i < rows.length; i += 60) {
      const part = rows.slice(i, i + 60);
      out += `<div class="block" style="contain-intrinsic-size:auto ${part.length * 18}px">${part.join("")}</div>`;
    }
    return out;
  }
  show(text, map, note = "") {
    this.diffing = false;
    const lines = text.split("\n");
    this.code.innerHTML = this.blocks(lines.map((t, i) => this.line(t, map[i], i + 1)));
    this.code.classList.toggle("quiet", map.some((s) => s));
    this.finish(`${lines.length} lines${note}`);
  }
  // Rows of [mark, text, source, number]: one side of a comparison.
  showRows(rows, note) {
    this.diffing = true;
    this.code.classList.remove("quiet");
    this.code.innerHTML = this.blocks(rows.map(([mark, text, source, number]) => this.line(text, source, number, mark)));
    this.finish(note);
  }
  showDifference(before, after) {
    this.diffing = true;
    this.code.classList.remove("quiet");
    const a = before.text.split("\n"), b = after.text.split("\n");
    const rows = difference(a, b), keep = new Uint8Array(rows.length);
    rows.forEach(([mark], i) => { if (mark !== " ") for (let j = Math.max(0, i - 3); j <= i + 3 && j < rows.length; j++) keep[j] = 1; });
    const html = rows.map(([mark, i, j]) => j < 0 ? this.line(a[i], before.map[i], "", "-") : this.line(b[j], after.map[j], j + 1, mark === "+" ? "+" : ""));
    let out = "", run = [];
    const close = (hidden) => { if (run.length) out += hidden ? `<button class="gap">⋯ ${run.length} unchanged lines</button><div hidden>${this.blocks(run)}</div>` : this.blocks(run); run = []; };
    html.forEach((row, i) => { if (i && keep[i] !== keep[i - 1]) close(!keep[i - 1]); run.push(row); });
    close(rows.length ? !keep[rows.length - 1] : false);
    this.code.innerHTML = out;
    const count = (mark) => rows.filter((r) => r[0] === mark).length;
    this.finish(`+${count("+")} −${count("-")}`);
  }
  open(gap) { gap.nextElementSibling.hidden = false; gap.remove(); this.mark(); }
  finish(note) { this.info.textContent = note; this.code.scrollTop = this.id === "source" ? this.code.scrollTop : 0; this.mark(); }
  of(source) { return source ? [...this.code.querySelectorAll(`.ln[data-s="${source}"]`)] : []; }
  mark() {
    for (const old of this.code.querySelectorAll(".pin, .hov")) old.classList.remove("pin", "hov");
    for (const line of this.of(state.pin)) line.classList.add("pin");
    for (const line of this.of(state.hover)) line.classList.add("hov");
    this.rule();
  }
  rule() {
    const total = Math.max(1, this.code.scrollHeight), ticks = [];
    const top = (line) => line.offsetTop + (line.offsetParent === this.code ? 0 : line.parentNode.offsetTop);
    const tick = (line, cls, source) => ticks.push(`<i class="${cls}" style="top:${(100 * top(line)) / total}%;--h:${hue(source)}"></i>`);
    for (const line of this.of(state.pin).slice(0, 400)) tick(line, "", state.pin);
    for (const line of this.code.querySelectorAll(".hit")) { if (ticks.length > 800) break; tick(line, "m", 0); }
    this.ruler.innerHTML = ticks.join("");
  }
  reveal(line) {
    const top = line.getBoundingClientRect().top - this.code.getBoundingClientRect().top + this.code.scrollTop;
    this.code.scrollTop = Math.max(0, top - this.code.clientHeight / 3);
  }
}

function hover(source) {
  if (source === state.hover) return;
  for (const line of document.querySelectorAll(".ln.hov")) line.classList.remove("hov");
  state.hover = source;
  if (source) for (const line of document.querySelectorAll(`.ln[data-s="${source}"]`)) line.classList.add("hov");
  where();
}

const turns = {};
function pin(source, from) {
  if (source && source === state.pin && from) {
    // The same line again: go on to the next place in the other panes.
    for (const pane of visible()) if (pane !== from) {
      const all = pane.of(source);
      if (all.length) pane.reveal(all[(turns[pane.id] = ((turns[pane.id] ?? 0) + 1) % all.length)]);
    }
    return;
  }
  state.pin = source;
  const file = data.sources[source - 1]?.[0] ?? state.file;
  if (file !== state.file) { state.file = file; showSource(); }
  for (const pane of Object.values(panes)) {
    turns[pane.id] = 0;
    pane.mark();
    const [first] = pane.of(source);
    if (first && pane !== from) { const hidden = first.closest("[hidden]"); if (hidden) pane.open(hidden.previousElementSibling); pane.reveal(first); }
  }
  where();
}

function where() {
  const source = state.hover || state.pin;
  if (!source) { $("where").textContent = "hover a line to see what it became; click to keep it"; return; }
  if (source > data.sources.length) { $("where").textContent = "a line of the other version only"; return; }
  const [file, line] = data.sources[source - 1];
  const counts = visible().filter((p) => p.id !== "source").map((p) => `${p.of(source).length} in ${p.id}`).join(", ");
  $("where").textContent = `${data.files[file].short}:${line} → ${counts}`;
}

// --- what is shown ---------------------------------------------------------------------------------------------

const panes = { source: new Pane("source", "Python", "python"), ir: new Pane("ir", "IR", "mlir"), llvm: new Pane("llvm", "LLVM IR", "llvm"), asm: new Pane("asm", "Assembly", "asm"), other: new Pane("other", "Compared", "asm") };
const visible = () => Object.values(panes).filter((p) => !p.node.matches(".hidden, .away"));
const current = () => data.functions[state.fn].targets[Math.min(state.target, data.functions[state.fn].targets.length - 1)];
function stageText(stages, i) { while (stages[i].same) i--; return stages[i]; }

function fill(select, names, chosen, onchange) {
  select.replaceChildren(...names.map((name, i) => make("option", { value: i, textContent: name })));
  select.value = chosen;
  select.onchange = () => onchange(Number(select.value));
}

const fileSelect = make("select", { ariaLabel: "file" }), stageSelect = make("select", { id: "stage", ariaLabel: "pass" });
const llvmSelect = make("select", { id: "llvm", ariaLabel: "LLVM IR" });
const diffButton = make("button", { className: "flat", id: "diff", textContent: "diff", title: "what this pass changed ( d )" });
const previous = make("button", { className: "flat", textContent: "‹", title: "pass before ( [ )" }), next = make("button", { className: "flat", textContent: "›", title: "pass after ( ] )" });
const kindSelect = make("select", { id: "kind", ariaLabel: "what to compare" });
const alignButton = make("button", { className: "flat", id: "align", textContent: "align", title: "the same lines beside each other, with what differs marked" });
panes.source.tools.append(fileSelect);
panes.other.tools.append(kindSelect, alignButton);
panes.ir.tools.append(previous, stageSelect, next, " ", diffButton);
panes.llvm.tools.append(llvmSelect);
diffButton.onclick = () => { state.diff = !state.diff; showStage(); };
previous.onclick = () => step(-1);
next.onclick = () => step(1);

function step(by) {
  const count = current().stages.length;
  state.stage = Math.min(count - 1, Math.max(0, state.stage + by));
  showStage();
}

function showSource() {
  const file = data.files[state.file], lines = file.text.split("\n"), map = new Array(lines.length).fill(0);
  data.sources.forEach(([f, line], i) => { if (f === state.file && line <= lines.length) map[line - 1] = i + 1; });
  panes.source.show(file.text, map);
  fileSelect.value = state.file;
}

function showStage() {
  const { stages } = current();
  state.stage = Math.min(state.stage, stages.length - 1);
  const text = stageText(stages, state.stage);
  if (state.diff && state.stage > 0) panes.ir.showDifference(stageText(stages, state.stage - 1), text);
  else panes.ir.show(text.text, text.map, stages[state.stage].same ? " · unchanged" : "");
  stageSelect.value = state.stage;
  if (comparing()) showCompared();
  diffButton.setAttribute("aria-pressed", state.diff);
  [...$("pipeline").querySelectorAll(".stage[data-stage]")].forEach((node, i) => node.setAttribute("aria-current", i === state.stage));
  $("pipeline").querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  afterText();
}

function showLlvm() { const text = current().llvm[state.llvm]; panes.llvm.show(text.text, text.map); llvmSelect.value = state.llvm; if (comparing()) showCompared(); afterText(); }
function afterText() { if ($("search").value) search(true); where(); }

function showPipeline() {
  const { stages, times } = current(), bar = $("pipeline");
  const ms = (seconds) => seconds === undefined ? "" : `${(seconds * 1e3).toFixed(seconds < 0.001 ? 2 : 1)} ms`;
  const parts = [];
  stages.forEach((stage, i) => {
    const took = stage.name === "origin" ? times.trace : times.passes?.[stage.name];
    const node = make("button", { className: "stage" + (stage.same ? " same" : ""), title: stage.name + (stage.same ? ": changes nothing here" : "") }, stage.name === "origin" ? "traced" : stage.name.replace(/^fly-/, ""), make("small", { textContent: ms(took) }));
    node.dataset.stage = i;
    node.onclick = () => { state.stage = i; showStage(); };
    parts.push(node, make("span", { className: "arrow", textContent: "→" }));
  });
  current().llvm.forEach((text, i) => {
    const node = make("button", { className: "stage" }, text.name, make("small", { textContent: ms(i ? times.llvm?.optimize : times.translate) }));
    node.onclick = () => { state.llvm = i; toggle("llvm", true); showLlvm(); };
    parts.push(node, make("span", { className: "arrow", textContent: "→" }));
  });
  const asm = make("button", { className: "stage" }, current().binary.ext === "ptx" ? "ptx" : "assembly", make("small", { textContent: ms(times.llvm?.emit) }));
  asm.onclick = () => toggle("asm", true);
  parts.push(asm);
  bar.replaceChildren(...parts);
}

function showTarget() {
  const target = current();
  [...$("targets").children].forEach((node, i) => node.setAttribute("aria-selected", i === state.target));
  fill(stageSelect, target.stages.map((s, i) => `${String(i).padStart(2, "0")} ${s.name === "origin" ? "traced" : s.name}${s.same ? " ·" : ""}`), state.stage, (i) => { state.stage = i; showStage(); });
  fill(llvmSelect, target.llvm.map((t) => t.name === "LLVM IR" ? "as written" : t.name), state.llvm, (i) => { state.llvm = i; showLlvm(); });
  showPipeline();
  showStage();
  showLlvm();
  panes.asm.show(target.asm.text, target.asm.map, ` · ${target.binary.ext} ${(target.binary.size / 1024).toFixed(1)} KiB`);
  fillCompare();
  showSource();
  if (comparing()) showCompared();
  showTab();
  pin(state.pin);
}

function showFunction() {
  const { targets } = data.functions[state.fn];
  state.target = Math.min(state.target, targets.length - 1);
  $("targets").replaceChildren(...targets.map((t, i) => make("button", { role: "tab", textContent: t.short, title: t.target, onclick: () => { state.target = i; showTarget(); } })));
  showTarget();
}

// --- the drawer ------------------------------------------------------------------------------------------------

const labels = { name: "kernel", registers: "registers", agprs: "AGPRs", sgprs: "SGPRs", vgprs: "VGPRs", spills: "spills", shared: "shared memory", static_smem: "static shared", dynamic_smem: "dynamic shared", scratch: "scratch", occupancy: "occupancy", code_size: "code" };
const sheets = {
  costs: costSheet,
  compared: comparedSheet,
  resources() {
    const { targets } = data.functions[state.fn];
    const keys = [...new Set(targets.flatMap((t) => t.kernels.flatMap((k) => Object.keys(k))))].filter((k) => k !== "name" && targets.some((t) => t.kernels.some((kernel) => kernel[k] !== null && typeof kernel[k] !== "object")));
    const shown = (value) => value === undefined || value === null ? "–" : typeof value === "object" ? "" : String(value);
    const head = make("tr", {}, ...["target", "kernel"].map((t) => make("th", { className: "l", textContent: t })), ...keys.map((k) => make("th", { textContent: labels[k] ?? k.replaceAll("_", " ") })), make("th", { textContent: "binary" }));
    const rows = targets.flatMap((t, i) => t.kernels.map((kernel) => make("tr", { className: i === state.target ? "on" : "" },
      make("td", { className: "l", textContent: t.short }), make("td", { className: "l", textContent: kernel.name }),
      ...keys.map((k) => make("td", { textContent: shown(kernel[k]), className: (k === "spills" || k === "scratch") && kernel[k] > 0 ? "bad" : "" })),
      make("td", { textContent: `${t.binary.ext} ${t.binary.size} B` }))));
    const table = make("table", { id: "resources" }, head, ...rows);
    const bare = targets.some((t) => t.kernels.every((k) => Object.values(k).every((v) => v === null || typeof v !== "number")));
    return bare ? [table, make("p", { className: "none", textContent: "– : not known before the code is loaded, or without the vendor's assembler" })] : [table];
  },
  layouts() {
    const list = current().drawings;
    if (!list.length) return [make("p", { className: "none", textContent: "no layout of this function is static and small enough to draw" })];
    return [make("div", { className: "cards" }, ...list.map((d) => {
      const [title, rest] = [d.title.slice(0, d.title.indexOf(":")), d.title.slice(d.title.indexOf(":") + 2)];
      const card = make("figure", { className: "card", style: `margin:0;--h:${hue(d.source)}` }, make("h3", { textContent: title }), make("p", { textContent: rest }));
      card.insertAdjacentHTML("beforeend", data.pictures[d.picture]);
      if (d.source) { card.dataset.s = d.source; card.onclick = () => pin(d.source); }
      const larger = make("button", { textContent: "⤢", title: "larger", ariaLabel: "larger" });
      larger.onclick = (e) => { e.stopPropagation(); enlarge(data.pictures[d.picture]); };
      card.append(larger);
      return card;
    }))];
  },
  times() {
    const { times } = current(), flat = [];
    for (const [name, value] of Object.entries(times)) typeof value === "object" ? flat.push(...Object.entries(value).map(([n, v]) => [`${name}/${n}`, v])) : flat.push([name, value]);
    const order = ["trace", "passes/", "translate", "llvm/parse", "llvm/optimize", "llvm/emit", "link"], rank = (n) => { const i = order.findIndex((o) => n.startsWith(o)); return i < 0 ? 99 : i; };
    flat.sort((a, b) => rank(a[0]) - rank(b[0]));
    const most = Math.max(...flat.map(([, v]) => v), 1e-9);
    return [make("div", { className: "bars" }, ...flat.flatMap(([n, v]) => [make("span", { textContent: n }), make("em", { textContent: `${(v * 1e3).toFixed(2)} ms` }), make("u", { style: `width:${(100 * v) / most}%` })]))];
  },
};

function enlarge(svg) {
  const box = make("dialog", { id: "picture" });
  box.insertAdjacentHTML("beforeend", svg);
  box.onclick = () => box.close();
  box.onclose = () => box.remove();
  document.body.append(box);
  box.showModal();
}

function showTab() {
  const counts = { costs: current().cost.launches.length || "", layouts: current().drawings.length };
  if (state.tab === "compared" && !comparing()) state.tab = "resources";
  const names = ["resources", "costs", ...(comparing() ? ["compared"] : []), "layouts", "times"];
  $("tabs").replaceChildren(...names.map((name) => {
    const tab = make("button", { role: "tab", id: "tab-" + name }, name[0].toUpperCase() + name.slice(1), make("small", { textContent: counts[name] ?? "" }));
    tab.setAttribute("aria-selected", name === state.tab);
    tab.onclick = () => { const same = state.tab === name; $("drawer").classList.toggle("closed", same && !$("drawer").classList.contains("closed")); state.tab = name; showTab(); };
    return tab;
  }));
  $("sheet").replaceChildren(...sheets[state.tab]());
}

// --- search ----------------------------------------------------------------------------------------------------

let hits = [], at = -1;
function search(keep = false) {
  const query = $("search").value.toLowerCase();
  for (const old of document.querySelectorAll(".hit, .now")) old.classList.remove("hit", "now");
  hits = [];
  const ranges = [];
  if (query) for (const pane of visible()) for (const code of pane.code.querySelectorAll(".ln > code")) {
    const text = code.textContent.toLowerCase();
    let from = text.indexOf(query);
    if (from < 0) continue;
    code.parentNode.classList.add("hit");
    hits.push([pane, code.parentNode]);
    for (; from >= 0 && ranges.length < 5000; from = text.indexOf(query, from + query.length)) ranges.push(rangeIn(code, from, from + query.length));
  }
  if (globalThis.Highlight) CSS.highlights.set("found", new Highlight(...ranges));
  at = keep ? Math.min(at, hits.length - 1) : -1;
  for (const pane of Object.values(panes)) pane.rule();
  $("found").textContent = query ? `${hits.length} line${hits.length === 1 ? "" : "s"}` : "";
}
function rangeIn(node, from, to) {
  const range = document.createRange(), walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  for (let text, seen = 0; (text = walk.nextNode()); seen += text.length) {
    if (from >= seen && from <= seen + text.length) range.setStart(text, from - seen);
    if (to >= seen && to <= seen + text.length) { range.setEnd(text, to - seen); break; }
  }
  return range;
}
function nextHit(by) {
  if (!hits.length) return;
  document.querySelector(".ln.now")?.classList.remove("now");
  at = (at + by + hits.length) % hits.length;
  const [pane, line] = hits[at];
  const hidden = line.closest("[hidden]");
  if (hidden) pane.open(hidden.previousElementSibling);
  line.classList.add("now");
  pane.reveal(line);
  $("found").textContent = `${at + 1} of ${hits.length}`;
}

// --- frame -----------------------------------------------------------------------------------------------------

function toggle(id, on) {
  const pane = panes[id].node, show = on ?? pane.classList.contains("hidden");
  if (!show && visible().length === 1) return;
  pane.classList.toggle("hidden", !show);
  $("toggle-" + id).setAttribute("aria-pressed", show);
  where();
}
function theme(name) { document.documentElement.dataset.theme = name; stored.set("theme", name); }

const main = $("panes");
Object.values(panes).forEach((pane, i, all) => {
  main.append(pane.node);
  if (i + 1 < all.length) {
    const bar = make("div", { className: "split" });
    bar.onpointerdown = (e) => {
      const right = all.slice(i + 1).find((p) => !p.node.classList.contains("hidden"));
      if (!right) return;
      const start = e.clientX, a = pane.node.offsetWidth, b = right.node.offsetWidth;
      for (const p of visible()) p.node.style.flex = `${p.node.offsetWidth} 1 0`;
      bar.setPointerCapture(e.pointerId);
      bar.onpointermove = (m) => {
        const by = Math.max(90 - a, Math.min(b - 90, m.clientX - start));
        pane.node.style.flex = `${a + by} 1 0`;
        right.node.style.flex = `${b - by} 1 0`;
      };
      bar.onpointerup = () => { bar.onpointermove = null; };
    };
    main.append(bar);
  }
  if (pane.id === "other") { pane.node.classList.add("away"); return; }
  const chip = make("button", { className: "chip", id: "toggle-" + pane.id, textContent: pane.head.querySelector("h2").textContent, onclick: () => toggle(pane.id) });
  chip.setAttribute("aria-pressed", true);
  $("toggles").append(chip);
});
$("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
$("search").oninput = () => search();
$("search").onkeydown = (e) => { if (e.key === "Enter") { e.preventDefault(); nextHit(e.shiftKey ? -1 : 1); } if (e.key === "Escape") { $("search").value = ""; search(); $("search").blur(); } };
addEventListener("keydown", (e) => {
  if (e.target.matches("input, select") || e.ctrlKey || e.metaKey || e.altKey) return;
  const keys = { "/": () => $("search").focus(), "[": () => step(-1), "]": () => step(1), d: () => diffButton.click(), t: () => $("theme").click(), Escape: () => pin(0) };
  const pane = ["source", "ir", "llvm", "asm"][Number(e.key) - 1];
  const action = keys[e.key] ?? (pane && (() => toggle(pane)));
  if (action) { e.preventDefault(); action(); }
});
theme(stored.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));

// Show data in place of what was shown; function, target and pass stay where they have the same names.
function load(fresh) {
  const before = data.functions.length ? { fn: data.functions[state.fn].name, target: current().target, stage: current().stages[state.stage]?.name } : null;
  const kept = data.sources[state.pin - 1];
  data = fresh;
  state.hover = 0;
  state.pin = kept ? 1 + data.sources.findIndex(([file, line]) => file === kept[0] && line === kept[1]) : 0;
  const place = (list, wanted) => Math.max(0, list.findIndex((each) => wanted(each)));
  document.body.classList.toggle("empty", !data.functions.length);
  $("script").textContent = data.title;
  if (!data.functions.length) return;
  state.fn = before ? place(data.functions, (f) => f.name === before.fn) : 0;
  state.target = before ? place(data.functions[state.fn].targets, (t) => t.target === before.target) : 0;
  state.stage = before ? place(current().stages, (s) => s.name === before.stage) : 0;
  state.file = Math.min(state.file, data.files.length - 1);
  $("function-pick").classList.toggle("single", data.functions.length < 2);
  fill($("function"), data.functions.map((f) => f.name), state.fn, (i) => { state.fn = i; showFunction(); });
  fill(fileSelect, data.files.map((f) => f.short), state.file, (i) => { state.file = i; showSource(); });
  fileSelect.hidden = data.files.length < 2;
  showFunction();
  if (!before) {
    const firstLine = panes.source.code.querySelector(".ln[data-s]");
    if (firstLine) panes.source.reveal(firstLine);
  }
  where();
}
load(data);
document.documentElement.dataset.ready = "true";
