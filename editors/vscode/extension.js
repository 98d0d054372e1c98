// Starts `fly lsp` and `fly debug --dap`. Plain JavaScript without packages, so that the folder is all there is to install.
"use strict";
const { spawn } = require("child_process");
const vscode = require("vscode");

const SHOW = "fly.showLowered";
const SELECTOR = { language: "python", scheme: "file" };

// The protocol on a child's standard input and output: a header with the length, then JSON.
class Client {
  constructor(command, args, log) {
    this.log = log;
    this.pending = new Map();
    this.handlers = new Map();
    this.number = 0;
    this.buffer = Buffer.alloc(0);
    this.child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.child.stdout.on("data", (data) => this.receive(data));
    this.child.stderr.on("data", (data) => log(String(data).trimEnd()));
    this.child.stdin.on("error", () => {}); // it ended: said by "exit"
    this.over = new Promise((done) => {
      const end = (why) => {
        for (const { fail } of this.pending.values()) fail(new Error(why));
        this.pending.clear();
        this.ended = why;
        done(why);
      };
      this.child.on("error", (error) => end(`${command} could not be started: ${error.message}`));
      this.child.on("exit", (code) => end(`fly lsp ended with status ${code}`));
    });
  }

  receive(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (;;) {
      const head = this.buffer.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/content-length: *(\d+)/i.exec(this.buffer.toString("ascii", 0, head))?.[1]);
      if (this.buffer.length < head + 4 + length) return;
      const text = this.buffer.toString("utf8", head + 4, head + 4 + length);
      this.buffer = this.buffer.subarray(head + 4 + length);
      this.take(JSON.parse(text));
    }
  }

  async take(message) {
    if (message.method === undefined) {
      const waiting = this.pending.get(message.id);
      this.pending.delete(message.id);
      if (message.error) waiting?.fail(new Error(message.error.message));
      else waiting?.done(message.result);
      return;
    }
    const handler = this.handlers.get(message.method);
    const result = handler ? await handler(message.params) : null;
    if (message.id !== undefined) this.write({ id: message.id, result: result ?? null });
  }

  write(message) {
    if (this.ended) return;
    const data = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.child.stdin.write(`Content-Length: ${data.length}\r\n\r\n`);
    this.child.stdin.write(data);
  }

  notify(method, params) { this.write({ method, params }); }

  ask(method, params) {
    if (this.ended) return Promise.reject(new Error(this.ended));
    const id = ++this.number;
    return new Promise((done, fail) => {
      this.pending.set(id, { done, fail });
      this.write({ id, method, params });
    });
  }

  async stop() {
    if (this.ended) return;
    const timer = setTimeout(() => this.child.kill(), 3000);
    await this.ask("shutdown", undefined).catch(() => {});
    this.notify("exit", undefined);
    await this.over;
    clearTimeout(timer);
  }
}

const range = (r) => new vscode.Range(r.start.line, r.start.character, r.end.line, r.end.character);
const place = (document, position) => ({
  textDocument: { uri: document.uri.toString() },
  position: { line: position.line, character: position.character },
});
const command = () => vscode.workspace.getConfiguration("fly").get("command", ["fly"]);

// One server and what it is asked for.
class Session {
  constructor(output) {
    const target = vscode.workspace.getConfiguration("fly").get("target", "");
    const [program, ...words] = command();
    this.changedHints = new vscode.EventEmitter();
    this.changedLenses = new vscode.EventEmitter();
    this.diagnostics = vscode.languages.createDiagnosticCollection("fly");
    this.client = new Client(program, [...words, "lsp", ...(target ? ["--target", target] : [])], (text) => output.appendLine(text));
    this.client.over.then((why) => { if (!this.stopping) { output.appendLine(why); vscode.window.showWarningMessage(`FlyDSL: ${why}. Is flydsl[lsp] installed? See the setting fly.command.`); } });
    this.client.handlers.set("textDocument/publishDiagnostics", (p) => this.publish(p));
    this.client.handlers.set("workspace/inlayHint/refresh", () => this.changedHints.fire());
    this.client.handlers.set("workspace/codeLens/refresh", () => this.changedLenses.fire());
    this.client.handlers.set("window/showDocument", async (p) => {
      const at = p.selection && range(p.selection);
      await vscode.window.showTextDocument(vscode.Uri.parse(p.uri), { selection: at, viewColumn: vscode.ViewColumn.Beside, preview: true });
      return { success: true };
    });
    this.ready = this.client
      .ask("initialize", {
        processId: process.pid,
        rootUri: null,
        capabilities: {
          window: { showDocument: { support: true } },
          workspace: { inlayHint: { refreshSupport: true }, codeLens: { refreshSupport: true } },
        },
      })
      .then(() => {
        this.client.notify("initialized", {});
        for (const document of vscode.workspace.textDocuments) this.open(document);
      })
      .catch((error) => output.appendLine(String(error)));
    this.parts = [
      this.diagnostics, this.changedHints, this.changedLenses,
      vscode.workspace.onDidOpenTextDocument((d) => this.open(d)),
      vscode.workspace.onDidCloseTextDocument((d) => this.tell(d, "textDocument/didClose", {})),
      vscode.workspace.onDidSaveTextDocument((d) => this.tell(d, "textDocument/didSave", {})),
      vscode.workspace.onDidChangeTextDocument((e) => this.tell(e.document, "textDocument/didChange", { contentChanges: [{ text: e.document.getText() }] })),
      vscode.languages.registerInlayHintsProvider(SELECTOR, { onDidChangeInlayHints: this.changedHints.event, provideInlayHints: (d, r) => this.hints(d, r) }),
      vscode.languages.registerHoverProvider(SELECTOR, { provideHover: (d, p) => this.hover(d, p) }),
      vscode.languages.registerCodeLensProvider(SELECTOR, { onDidChangeCodeLenses: this.changedLenses.event, provideCodeLenses: (d) => this.lenses(d) }),
      vscode.languages.registerImplementationProvider(SELECTOR, { provideImplementation: (d, p) => this.lowered(d, p) }),
    ];
  }

  ours(document) { return document.languageId === "python" && document.uri.scheme === "file"; }

  open(document) {
    if (!this.ours(document)) return;
    this.client.notify("textDocument/didOpen", { textDocument: { uri: document.uri.toString(), languageId: "python", version: document.version, text: document.getText() } });
  }

  tell(document, method, params) {
    if (this.ours(document)) this.client.notify(method, { textDocument: { uri: document.uri.toString(), version: document.version }, ...params });
  }

  publish({ uri, diagnostics }) {
    const found = diagnostics.map((d) => {
      const made = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
      made.source = d.source;
      return made;
    });
    this.diagnostics.set(vscode.Uri.parse(uri), found);
  }

  async hints(document, r) {
    const found = await this.client.ask("textDocument/inlayHint", { textDocument: { uri: document.uri.toString() }, range: { start: { line: r.start.line, character: 0 }, end: { line: r.end.line, character: 0 } } });
    return (found ?? []).map((h) => {
      const made = new vscode.InlayHint(new vscode.Position(h.position.line, h.position.character), h.label, vscode.InlayHintKind.Type);
      made.tooltip = h.tooltip;
      return made;
    });
  }

  async hover(document, position) {
    const found = await this.client.ask("textDocument/hover", place(document, position));
    return found && new vscode.Hover(new vscode.MarkdownString(found.contents.value), range(found.range));
  }

  async lenses(document) {
    const found = await this.client.ask("textDocument/codeLens", { textDocument: { uri: document.uri.toString() } });
    return (found ?? []).map((lens) => new vscode.CodeLens(range(lens.range), lens.command));
  }

  async lowered(document, position) {
    const found = await this.client.ask("textDocument/implementation", place(document, position));
    return (found ?? []).map((l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range)));
  }

  async stop() {
    this.stopping = true;
    for (const part of this.parts) part.dispose();
    await this.client.stop();
  }
}

let session;

async function activate(context) {
  const output = vscode.window.createOutputChannel("FlyDSL");
  session = new Session(output);
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand(SHOW, (...given) => session.client.ask("workspace/executeCommand", { command: SHOW, arguments: given })),
    vscode.commands.registerCommand("fly.restart", async () => { await session.stop(); session = new Session(output); }),
    vscode.commands.registerCommand("fly.explore", () => {
      const file = vscode.window.activeTextEditor?.document.uri.fsPath;
      if (!file) return;
      const [program, ...words] = command();
      const terminal = vscode.window.createTerminal({ name: "fly explore", shellPath: program, shellArgs: [...words, "explore", file, "--serve", "--open"] });
      terminal.show();
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory("fly", {
      createDebugAdapterDescriptor() {
        const [program, ...words] = command();
        return new vscode.DebugAdapterExecutable(program, [...words, "debug", "--dap"]);
      },
    }),
    vscode.debug.registerDebugConfigurationProvider("fly", {
      // F5 without a launch.json debugs the file that is open.
      resolveDebugConfiguration(_folder, config) {
        return config.type ? config : { type: "fly", request: "launch", name: "FlyDSL kernel", program: "${file}" };
      },
    }),
  );
  await session.ready;
}

async function deactivate() { await session?.stop(); }

module.exports = { activate, deactivate };
