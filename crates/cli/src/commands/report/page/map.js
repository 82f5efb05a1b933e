
// The map of nodes: one cell per node, grouped by zone. Each cell shows utilization as a number, or as a fill
// level in large clusters, in addition to its color. A single cell is in the tab order; arrow keys move
// between cells.

const map = {
  resource: 0, state: last, order: "name", cells: [], groups: [], at: 0,
  size: nodes.name.length <= 60 ? "big" : nodes.name.length <= 800 ? "mid" : "small",
};

// Returns the shown value of a node in percent, or null if the node does not offer the resource.
function shown(node) {
  if (map.state <= last) return share(map.resource, node, map.state);
  const [before, after] = [share(map.resource, node, 0), share(map.resource, node, last)];
  return before === null && after === null ? null : (after || 0) - (before || 0);
}

function level(value) {
  if (value === null) return "none";
  const size = Math.abs(value);
  const told = size > 100 ? size : Math.max(Math.floor(size), Math.sign(size));
  const at = [0, 25, 50, 75, 90, 100].findIndex((bound) => told <= bound);
  return "l" + (at < 0 ? 6 : at);
}

function told(value, node) {
  if (map.state <= last && absent[map.state].has(node)) return "absent";
  if (map.state <= last || value === null) return percent(value);
  return value === 0 ? "same" : (value > 0 ? "+" : "−") + Math.abs(Math.round(value * 10) / 10) + " %";
}

function marks(node) {
  return (closed.has(node) ? "×" : "") + (nodes.taints[node].length > 0 ? "•" : "");
}

function describe(node) {
  const at = map.resource;
  const amounts = model.states.map((state, index) => amount(at, nodes.requested[index][at][node])).join(" → ");
  const taints = nodes.taints[node].map((taint) => nodes.taintNames[taint]);
  return [nodes.name[node], zoneName(nodes.zone[node]),
    resources[at].name + " " + told(shown(node), node) + " (" + amounts + " of " + amount(at, nodes.allocatable[at][node]) + ")",
    ...model.states.map((state, index) => absent[index].has(node) ? "absent " + state : null),
    closed.has(node) ? "cordoned" : null, taints.length > 0 ? "taints " + taints.join(" ") : null].filter(Boolean).join(", ");
}

function cellOf(node) {
  const cell = el("button", { type: "button", class: "cell", tabindex: "-1", "data-node": String(node) });
  if (map.size === "big") cell.append(el("span", { class: "name mono" }, nodes.name[node]), el("span", { class: "share" }), el("span", { class: "marks", "aria-hidden": "true" }, marks(node)));
  return cell;
}

function paint() {
  for (const [node, cell] of map.cells.entries()) {
    const value = shown(node);
    cell.className = "cell " + level(value) + (closed.has(node) ? " closed" : "");
    cell.setAttribute("aria-label", plain(describe(node)));
    if (map.size === "small") cell.style.setProperty("--p", value === null ? "0%" : Math.min(100, Math.abs(value)) + "%");
    else if (map.size === "mid") cell.textContent = value === null ? "" : told(value, node).replace(" %", "");
    else cell.children[1].textContent = told(value, node);
  }
}

function arrange() {
  const byName = (a, b) => a - b;
  const byValue = (a, b) => (shown(b) ?? -1) - (shown(a) ?? -1) || a - b;
  const chosen = map.order === "name" ? byName : byValue;
  map.sequence = [];
  for (const group of map.groups) {
    group.nodes.sort(chosen);
    group.list.replaceChildren(...group.nodes.map((node) => el("li", null, map.cells[node])));
    map.sequence.push(...group.nodes);
  }
  enter(0);
}

// Puts a single cell into the tab order.
function enter(at) {
  const before = map.cells[map.sequence[map.at]];
  if (before) before.tabIndex = -1;
  map.at = at;
  if (map.sequence.length > 0) map.cells[map.sequence[at]].tabIndex = 0;
}

function go(at) {
  enter(Math.max(0, Math.min(at, map.sequence.length - 1)));
  map.cells[map.sequence[map.at]].focus();
}

// Moves to the nearest cell in the line above or below, by screen position.
function line(step) {
  const here = map.cells[map.sequence[map.at]].getBoundingClientRect();
  let best = null;
  for (let at = map.at + step; at >= 0 && at < map.sequence.length; at += step) {
    const box = map.cells[map.sequence[at]].getBoundingClientRect();
    if (Math.abs(box.top - here.top) < 2) continue;
    if (best && Math.abs(box.top - best.top) > 2) break;
    const off = Math.abs(box.left - here.left);
    if (!best || off < best.off) best = { at, off, top: box.top };
  }
  if (best) go(best.at);
}

function onKey(event) {
  const moves = {
    ArrowRight: () => go(map.at + 1), ArrowLeft: () => go(map.at - 1), ArrowDown: () => line(1), ArrowUp: () => line(-1),
    Home: () => go(0), End: () => go(map.sequence.length - 1),
  };
  const cell = event.target.closest(".cell");
  if (!cell || !moves[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  map.at = map.sequence.indexOf(Number(cell.dataset.node));
  moves[event.key]();
}

function controls() {
  const redraw = () => {
    paint();
    arrange();
    announce("the map shows " + resources[map.resource].name + (last > 0 ? ", " + (model.states[map.state] || "the change") : ""));
  };
  const resource = el("select", { id: "map-resource", change: () => { map.resource = resource.selectedIndex; redraw(); } },
    resources.map((of) => el("option", null, of.name)));
  const order = el("select", { change: () => { map.order = order.value; redraw(); } },
    el("option", { value: "name" }, "name"), el("option", { value: "value" }, "fullest first"));
  const states = [...model.states, "change"].map((name, at) => el("label", null,
    el("input", { type: "radio", name: "state", checked: at === map.state, change: () => { map.state = at; redraw(); } }), name));
  return el("div", { class: "controls" }, el("label", null, "Resource", resource),
    last > 0 ? el("fieldset", null, el("legend", null, "Show"), states) : null, el("label", null, "Order", order));
}

function legend() {
  const sample = (name, fill, text, more) => {
    const cell = el("span", { class: "cell " + name + (more || "") });
    cell.style.setProperty("--p", (map.size === "small" ? fill : name === "l0" ? 0 : 100) + "%");
    return el("li", null, cell, text);
  };
  return el("ul", { class: "legend", "aria-label": "Legend" },
    sample("l0", 0, "0 %"), sample("l1", 25, "to 25 %"), sample("l2", 50, "to 50 %"), sample("l3", 75, "to 75 %"),
    sample("l4", 90, "to 90 %"), sample("l5", 100, "to 100 %"), sample("l6", 100, "above 100 %"),
    sample("none", 0, absent.some((of) => of.size > 0) ? "not offered, or absent" : "not offered"), nodes.cordoned.length > 0 ? sample("l0", 0, "cordoned" + (map.size === "big" ? " ×" : ""), " closed") : null,
    map.size === "big" && nodes.taintNames.length > 0 ? el("li", null, "• tainted") : null);
}

function drawMap() {
  const root = document.getElementById("map");
  map.cells = nodes.name.map((_, node) => cellOf(node));
  const readout = el("p", { id: "readout", class: "dim", "aria-hidden": "true" });
  const tell = (event) => {
    const cell = event.target.closest(".cell");
    if (cell && cell.dataset.node) readout.textContent = cell.getAttribute("aria-label");
  };
  const grid = el("div", { class: map.size, role: "group", "aria-label": "Map of nodes", "aria-describedby": "map-help", keydown: onKey, mouseover: tell, focusin: tell, click: (event) => {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    enter(map.sequence.indexOf(Number(cell.dataset.node)));
    showNode(Number(cell.dataset.node), cell);
    cell.setAttribute("aria-current", "true");
  } });
  model.zones.forEach((_, zone) => {
    const of = nodes.name.map((_, node) => node).filter((node) => nodes.zone[node] === zone);
    const list = el("ul", { class: "cells", "aria-label": "Nodes of " + zoneName(zone) });
    map.groups.push({ nodes: of, list });
    grid.append(el("h3", null, zoneName(zone), " ", el("span", { class: "dim" }, count(of.length, "node"))), list);
  });
  paint();
  arrange();
  root.append(controls(), legend(),
    el("p", { class: "unseen", id: "map-help" }, "Arrow keys move between nodes, Enter opens a node."), grid, readout);
}

drawMap();
