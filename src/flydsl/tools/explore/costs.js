// What the cost model says: a mark at each source line, and a sheet with occupancy, limiter and every access.
const launches = () => data.functions.length ? current().cost.launches : [];
const launch = () => launches()[Math.min(state.launch, launches().length - 1)];
const percent = (share) => share >= 0.005 ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : "< 1 %";
const troubled = (access) => access.known && access.factor > 1.2;
const shortly = (access) => access.space === "shared" ? `${+access.factor.toFixed(1)}-way conflict` : `${+access.factor.toFixed(1)}× bytes`;

function costBadge(source) {
  const cost = source && launch()?.lines.find((line) => line.source === source);
  if (!cost || (cost.share < 0.005 && !cost.accesses.some(troubled))) return "";
  const bad = cost.accesses.filter(troubled).sort((a, b) => b.factor - a.factor)[0];
  const title = [`${percent(cost.share)} of ${launch().limiter}`, `this line alone: ${cost.limiter}`, ...cost.accesses.map((a) => a.text)].join("\n");
  return `<span class="cost" title="${escaped(title).replace(/"/g, "&quot;")}">${bad ? `<em>${shortly(bad)}</em>` : ""}<u style="width:${Math.round(40 * cost.share)}px"></u>${percent(cost.share)}</span>`;
}

function costSheet() {
  const all = launches(), one = launch();
  if (!one) return [make("p", { className: "none", textContent: current().cost.why || "this function was compiled, but not called with arguments: there is no launch to predict" })];
  const pick = make("select", { id: "launch", ariaLabel: "launch" });
  fill(pick, all.map((l, i) => `${i + 1}. ${l.kernel}, grid ${l.grid.join("×")}`), Math.min(state.launch, all.length - 1), (i) => { state.launch = i; showSource(); showTab(); });
  pick.hidden = all.length < 2;
  const most = one.parts[0][1];
  const left = make("div", {},
    pick,
    make("h3", { textContent: `${one.us.toFixed(2)} µs on ${one.device}, limited by ${one.limiter}` }),
    make("p", { id: "occupancy", textContent: `occupancy ${percent(one.occupancy)}: ${one.resident} block${one.resident === 1 ? "" : "s"} of ${one.block.filter((n, i) => !i || n > 1).join("×")} threads a unit (bound by ${one.resident_by}), ${one.waves.toFixed(2)} waves` }),
    make("div", { className: "bars", style: "grid-template-columns:max-content 74px minmax(40px,1fr)" }, ...one.parts.flatMap(([name, us]) => [make("span", { textContent: name }), make("em", { textContent: `${us.toFixed(2)} µs` }), make("u", { style: `width:${(100 * us) / most}%` })])),
    ...one.hints.map((hint) => make("p", { className: "hint", textContent: hint, style: "margin-top:8px" })));
  const rows = one.lines.slice(0, 60).map((cost) => {
    const [file, line] = data.sources[cost.source - 1];
    const text = (data.files[file].text.split("\n")[line - 1] ?? "").trim();
    const accesses = cost.accesses.map((a) => make("div", { className: troubled(a) ? "bad" : a.known ? "good" : "dim", textContent: `${a.text} · ${Math.round(a.times)}× a block` }));
    const row = make("tr", {}, make("td", { textContent: percent(cost.share) }), make("td", { className: "l", textContent: cost.limiter }),
      make("td", { className: "l src", textContent: `${data.files[file].short}:${line}  ${text}`, title: text }), make("td", { className: "l" }, ...accesses));
    row.dataset.s = cost.source;
    row.onclick = () => pin(cost.source);
    return row;
  });
  const table = make("table", { id: "line-costs" }, make("tr", {}, make("th", { textContent: "share" }), ...["limited by", "line", "accesses of a warp"].map((t) => make("th", { className: "l", textContent: t }))), ...rows);
  return [make("div", { className: "costs" }, left, table)];
}
