// Runs the page's script without a browser: prints the text of the table of hosts, one line an element that
// has no element within. Arguments: the script, and what /v1/fleet answers.
"use strict";
const fs = require("node:fs");

class Element {
  constructor(tag) { this.tag = tag; this.nodes = []; this.attributes = {}; }
  append(...nodes) { this.nodes.push(...nodes); }
  prepend(...nodes) { this.nodes.unshift(...nodes); }
  replaceChildren(...nodes) { this.nodes = nodes; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener() {}
  get children() { return this.nodes.filter(node => node instanceof Element); }
  set textContent(text) { this.nodes = [text]; }
  get textContent() { return this.nodes.map(node => node instanceof Element ? node.textContent : node).join(""); }
}

const byId = {};
const find = id => byId[id] ??= Object.assign(new Element(id), {value: ""});
globalThis.document = {createElement: tag => new Element(tag), getElementById: find, addEventListener() {}, hidden: true};
globalThis.EventSource = class {};
globalThis.fetch = async () => ({ok: true, json: async () => JSON.parse(fs.readFileSync(process.argv[3]))});
globalThis.setTimeout = () => 0;

const lines = [];
function tell(element) {
  if (element.tag === "li" || !element.children.length) lines.push(element.textContent);
  element.children.forEach(tell);
}
(0, eval)(fs.readFileSync(process.argv[2], "utf8"));
setImmediate(() => { tell(find("hosts")); console.log(find("link").textContent); console.log(lines.join("\n")); });
