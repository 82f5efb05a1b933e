
"use strict";
// The data of the report, and how numbers and names are formatted. All text becomes text nodes, never markup.

const model = JSON.parse(document.getElementById("data").textContent);
const { nodes, pods, resources } = model;
const last = model.states.length - 1;
const WAITS = -1, ABSENT = -2, ELSEWHERE = -3;

// Escapes control characters, zero-width characters and bidirectional controls.
function plain(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => {
    const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[c];
    return short || "\\u{" + c.codePointAt(0).toString(16) + "}";
  });
}

// Creates an element with attributes (functions become event listeners) and children (texts or elements).
function el(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, plain(value));
  }
  for (const part of inside.flat()) {
    if (part !== null && part !== undefined) made.append(part instanceof Node ? part : plain(part));
  }
  return made;
}

// Announces a change to screen readers.
function announce(text) {
  document.getElementById("status").textContent = plain(text);
}

function count(number, one) {
  return number.toLocaleString("en") + " " + one + (number === 1 ? "" : "s");
}

function amount(resource, value) {
  const unit = resources[resource].unit;
  if (unit === "milli") {
    if (Math.abs(value) >= 100000) return String(Math.trunc(value / 1000));
    return value % 1000 === 0 ? String(value / 1000) : value + "m";
  }
  if (unit === "bytes") {
    for (const [name, size] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]]) {
      if (Math.abs(value) >= size) return String(Math.trunc((value / size) * 10) / 10) + name;
    }
  }
  return String(value);
}

const absent = nodes.absent.map((numbers) => new Set(numbers));

function share(resource, node, state) {
  if (absent[state].has(node)) return null;
  const allocatable = nodes.allocatable[resource][node];
  return allocatable > 0 ? (100 * nodes.requested[state][resource][node]) / allocatable : null;
}

// Formats a whole percentage. Rounds so that more than 100 % is never shown as 100 %.
function percent(value) {
  if (value === null) return "none";
  return (value > 100 ? Math.ceil(value) : Math.floor(value)) + " %";
}

const closed = new Set(nodes.cordoned);
const byPod = new Map(model.decisions.map((decision) => [decision.pod, decision]));
const explained = new Map();
model.pending.forEach((waiting, at) => waiting.pods.forEach((pod) => explained.set(pod, at)));

function namespaceOf(pod) {
  return model.namespaces[pods.namespace[pod]];
}

function ownerName(owner) {
  return owner < 0 ? "no owner" : model.owners[owner].kind + "/" + model.owners[owner].name;
}

function zoneName(zone) {
  return model.zones[zone] || "no zone";
}

function place(pod, state) {
  const at = pods.node[state][pod];
  return at >= 0 ? nodes.name[at] : { [WAITS]: "pending", [ABSENT]: "absent", [ELSEWHERE]: "unknown node" }[at];
}

// Indexes of the pods on each node, for one state; computed on first use.
const residents = model.states.map(() => null);
function podsOn(node, state) {
  if (!residents[state]) {
    residents[state] = nodes.name.map(() => []);
    pods.node[state].forEach((at, pod) => at >= 0 && residents[state][at].push(pod));
  }
  return residents[state][node];
}

function link(text, open) {
  return el("button", { type: "button", class: "link mono", click: (event) => open(event.currentTarget) }, text);
}
