"use strict";
// Elements, tables and the connection to the worker.

const $ = (id) => document.getElementById(id);

// Makes an element. Texts are never parsed as markup.
function el(name, attributes, ...children) {
  const it = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") it.addEventListener(key, value);
    else if (value === true) it.setAttribute(key, "");
    else if (value !== null && value !== false && value !== undefined) it.setAttribute(key, value);
  }
  it.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== "").map((child) =>
    child instanceof Node ? child : document.createTextNode(shown(String(child)))));
  return it;
}

// Escapes control characters and those that change the direction of text, which could disguise a name.
function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (char) => "\\u{" + char.codePointAt(0).toString(16) + "}");
}

function announce(text) {
  $("status").textContent = shown(text);
}

const number = (value) => value.toLocaleString("en");
const count = (value, noun) => number(value) + " " + noun + (value === 1 ? "" : "s");

// --- the worker -----------------------------------------------------------------------------------------------------

let worker, waiting = new Map(), next = 1;
const timings = { loadMilliseconds: 0, askMilliseconds: 0, memory: 0, firstDecision: 0 };

function startWorker() {
  const source = new Blob([$("worker-source").textContent], { type: "text/javascript" });
  const address = URL.createObjectURL(source);
  worker = new Worker(address);
  URL.revokeObjectURL(address);
  worker.postMessage({ engine: $("engine").textContent });
  worker.onmessage = ({ data }) => {
    if (data.read !== undefined) {
      progress(data);
      return;
    }
    const resolve = waiting.get(data.id);
    waiting.delete(data.id);
    timings.memory = Math.max(timings.memory, data.memory || 0);
    if (data.stopped) stopWorker();
    resolve(data.answer);
  };
}

function stopWorker() {
  worker.terminate();
  worker = null;
  state.isLoaded = false;
  const left = [...waiting.values()];
  waiting.clear();
  left.forEach((resolve) => resolve({ error: "cancelled" }));
}

// Sends a request to the engine, and returns the answer. A failed request has the field `error`.
function request(request, blobs) {
  if (!worker) startWorker();
  const id = next++;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker.postMessage({ id, request, blobs });
  });
}

function progress({ read, of, name }) {
  const share = of === 0 ? 100 : Math.floor(100 * read / of);
  $("outcome").textContent = shown("Reading " + name + ": " + share + "% of " + number(Math.ceil(of / 1e6)) + " MB.");
}

// --- tables ---------------------------------------------------------------------------------------------------------

// A table whose rows come from the engine, one page at a time.
function table({ name, caption, heads, row, controls = [], page = 25, only = () => undefined }) {
  let offset = 0, total = 0, asked = 0;
  const search = el("input", { type: "search", id: name + "-search", input: () => { offset = 0; draw(); } });
  const body = el("tbody");
  const whole = el("table", { class: "list", id: name + "-table" }, el("caption", null, caption),
    el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col", class: head.isNumber ? "n" : null }, head.name)))), body);
  const back = el("button", { type: "button", click: () => turn(-page) }, "Previous");
  const on = el("button", { type: "button", click: () => turn(page) }, "Next");
  const told = el("span", { class: "dim" });
  const pager = el("div", { class: "pager", role: "group", "aria-label": "Pages of: " + caption }, back, on, told);
  const root = el("div", null,
    el("div", { class: "controls" }, el("label", { for: name + "-search" }, "Search " + name), search, controls),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, whole), pager);

  function turn(by) {
    offset = Math.max(0, Math.min(offset + by, total - 1));
    draw().then(() => announce(told.textContent));
  }

  async function draw() {
    const turn = ++asked;
    const part = await request({ do: name, filter: search.value, offset, limit: page, ...(only() ? { only: only() } : {}) });
    if (turn !== asked || part.error) return;
    total = part.total;
    const to = Math.min(offset + page, total);
    told.textContent = total === 0 ? "no rows" : number(offset + 1) + " to " + number(to) + " of " + number(total);
    [back.disabled, on.disabled] = [offset === 0, to >= total];
    body.replaceChildren(...part.rows.map((it) => row(it)));
  }

  function clear() {
    [offset, total] = [0, 0];
    body.replaceChildren();
    told.textContent = "";
  }

  return { root, draw, clear, first: () => { offset = 0; return draw(); } };
}
