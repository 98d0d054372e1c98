// A stand-in for VS Code: enough of its API to run the extension, drive it, and print what an editor would show.
"use strict";
const Module = require("module");
const fs = require("fs");
const { pathToFileURL, fileURLToPath } = require("url");
const [, , extension, file, command] = process.argv;

const providers = {}, commands = {}, shown = [], listeners = {};
const diagnostics = new Map();
let told = () => {};
const disposable = { dispose() {} };
const on = (name) => (listener) => { listeners[name] = listener; return disposable; };
const register = (name) => (_selector, provider) => { providers[name] = provider; return disposable; };
const uri = (text) => ({ scheme: text.split(":")[0], fsPath: fileURLToPath(text), toString: () => text });
class Holder { constructor(...parts) { this.parts = parts; } }
class EventEmitter { constructor() { this.event = () => disposable; } fire() {} dispose() {} }
const document = {
  languageId: "python", version: 1, uri: uri(pathToFileURL(file).href), getText: () => fs.readFileSync(file, "utf8"),
};
const settings = { command: JSON.parse(command), target: "" };
const vscode = {
  Range: class { constructor(a, b, c, d) { this.start = { line: a, character: b }; this.end = { line: c, character: d }; } },
  Position: class { constructor(line, character) { this.line = line; this.character = character; } },
  Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
  InlayHint: class { constructor(position, label) { Object.assign(this, { position, label }); } },
  Hover: class { constructor(contents) { this.contents = contents; } },
  MarkdownString: class { constructor(value) { this.value = value; } },
  CodeLens: class { constructor(range, command) { Object.assign(this, { range, command }); } },
  Location: class { constructor(uri, range) { Object.assign(this, { uri, range }); } },
  DebugAdapterExecutable: class { constructor(program, args) { Object.assign(this, { program, args }); } },
  EventEmitter, InlayHintKind: { Type: 1 }, ViewColumn: { Beside: -2 }, Uri: { parse: uri }, Holder,
  workspace: {
    textDocuments: [document],
    getConfiguration: () => ({ get: (name) => settings[name] }),
    onDidOpenTextDocument: on("open"), onDidCloseTextDocument: on("close"),
    onDidSaveTextDocument: on("save"), onDidChangeTextDocument: on("change"),
  },
  languages: {
    createDiagnosticCollection: () => ({ set(u, found) { diagnostics.set(u.toString(), found); told(); }, dispose() {} }),
    registerInlayHintsProvider: register("hints"), registerHoverProvider: register("hover"),
    registerCodeLensProvider: register("lenses"), registerImplementationProvider: register("implementation"),
  },
  window: {
    createOutputChannel: () => ({ appendLine: (text) => console.error(text), dispose() {} }),
    showWarningMessage: (text) => console.error(text),
    showTextDocument: async (u, options) => { shown.push({ path: u.fsPath, line: options.selection.start.line }); },
  },
  commands: { registerCommand: (name, run) => { commands[name] = run; return disposable; } },
  debug: {
    registerDebugAdapterDescriptorFactory: (_type, factory) => { providers.debug = factory; return disposable; },
    registerDebugConfigurationProvider: (_type, provider) => { providers.config = provider; return disposable; },
  },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

(async () => {
  const { activate, deactivate } = require(extension);
  const news = () => new Promise((done) => { told = done; });
  const first = news();
  await activate({ subscriptions: [] });
  await first;
  const text = document.getText().split("\n"), line = text.findIndex((l) => l.includes("tile = "));
  const out = { before: diagnostics.get(document.uri.toString()) };
  out.hints = await providers.hints.provideInlayHints(document, new vscode.Range(0, 0, text.length, 0));
  out.hover = (await providers.hover.provideHover(document, new vscode.Position(line, 5))).contents.value;
  const lenses = await providers.lenses.provideCodeLenses(document);
  out.lenses = lenses.map((l) => l.command.title);
  const { command: name, arguments: given } = lenses[1].command;
  out.opened = await commands[name](...given);
  out.lowered = (await providers.implementation.provideImplementation(document, new vscode.Position(line + 1, 5))).map((l) => l.uri.fsPath);
  out.debug = providers.debug.createDebugAdapterDescriptor();
  out.config = providers.config.resolveDebugConfiguration(undefined, {});
  const second = news();
  fs.writeFileSync(file, text.join("\n").replace("fx.thread_idx.x", "fx.thread_idx.x + nothing"));
  document.version = 2;
  listeners.change({ document });
  listeners.save(document);
  await second;
  out.after = diagnostics.get(document.uri.toString());
  out.shown = shown;
  await deactivate();
  process.stdout.write(JSON.stringify(out));
})().catch((error) => { console.error(error); process.exit(1); });
