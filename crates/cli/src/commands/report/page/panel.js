
// The panel with details of a node or a pod. Escape closes it and returns the focus.

const panel = document.getElementById("panel");
let opener = null;

function show(from, title, ...inside) {
  if (panel.hidden || !panel.contains(from)) opener = from;
  panel.replaceChildren(
    el("header", null, el("h2", { id: "panel-heading" }, title),
      el("button", { type: "button", id: "panel-close", click: close }, "Close (Esc)")),
    ...inside.flat().filter(Boolean));
  panel.hidden = false;
  panel.scrollTop = 0;
  panel.focus();
  announce(title);
}

function close() {
  if (panel.hidden) return;
  panel.hidden = true;
  panel.replaceChildren();
  document.querySelectorAll(".cell[aria-current]").forEach((cell) => cell.removeAttribute("aria-current"));
  if (opener && opener.isConnected) opener.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
});

function facts(pairs) {
  return el("dl", { class: "rows" }, pairs.filter(Boolean).map(([name, value]) =>
    el("div", null, el("dt", { class: "dim" }, name), el("dd", null, value))));
}

function simple(caption, heads, rows, attributes) {
  const head = el("tr", null, heads.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber ? "n" : null }, name)));
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, el("table", attributes,
    el("caption", null, caption), el("thead", null, head), el("tbody", null, rows)));
}

function showNode(node, from) {
  const taints = nodes.taints[node].map((at) => nodes.taintNames[at]);
  const rows = resources.map((resource, at) => el("tr", null,
    el("th", { scope: "row" }, resource.name),
    model.states.map((_, state) => el("td", { class: "n" }, amount(at, nodes.requested[state][at][node]))),
    el("td", { class: "n" }, amount(at, nodes.allocatable[at][node])),
    model.states.map((_, state) => el("td", { class: "n" }, percent(share(at, node, state))))));
  const of = (text) => model.states.map((state) => [last > 0 ? text + " " + state : text, true]);
  const heads = [["Resource", false], ...of("Requested"), ["Allocatable", true], ...of("Share")];
  const here = [...new Set(model.states.flatMap((_, state) => podsOn(node, state)))];
  const list = table({
    caption: "Pods on this node", rows: here, words: podWords, page: 25,
    columns: [
      { name: "Pod", value: (pod) => pods.name[pod], show: (pod) => link(pods.name[pod], (from) => showPod(pod, from)) },
      { name: "Namespace", value: namespaceOf },
      ...(last > 0 ? [{ name: "Change", value: (pod) => came(pod, node) }] : []),
      ...resources.slice(0, 2).map((resource, at) => ({
        name: resource.name, isNumber: true, value: (pod) => model.requests[pods.request[pod]][at],
        show: (pod) => amount(at, model.requests[pods.request[pod]][at]),
      })),
    ],
  });
  show(from, nodes.name[node],
    facts([["Kind", "node"], ["Zone", zoneName(nodes.zone[node])], ["Taints", taints.join(", ") || "none"],
      ...model.states.map((state, at) => absent[at].has(node) && ["Absent", state]),
      closed.has(node) && ["Cordoned", "unschedulable for new pods"]]),
    el("h3", null, "Requests"), simple("Requests of its pods", heads, rows),
    el("h3", null, count(here.length, "pod")), list.root);
}

function came(pod, node) {
  const [before, after] = [pods.node[0][pod] === node, pods.node[last][pod] === node];
  return before && after ? "stays" : after ? "added" : "removed";
}

function showPod(pod, from) {
  const owner = pods.owner[pod];
  const asks = resources.map((resource, at) => [resource.name, model.requests[pods.request[pod]][at], at])
    .filter(([name, value]) => value > 0 && name !== "pods").map(([name, value, at]) => name + " " + amount(at, value));
  const where = model.states.map((state, at) => {
    const node = pods.node[at][pod];
    const told = node >= 0 ? link(nodes.name[node], (from) => showNode(node, from)) : place(pod, at);
    return [last > 0 ? "Node " + state : "Node", told];
  });
  show(from, namespaceOf(pod) + "/" + pods.name[pod],
    facts([["Kind", "pod"], ["Owner", ownerName(owner)], ...where, ["Requests", asks.join(", ") || "nothing"],
      ["Priority", String(pods.priority[pod])]]),
    waits(pod), scores(pod));
}

function waits(pod) {
  const at = explained.get(pod);
  if (at === undefined) return null;
  const { explanation } = model.pending[at];
  const goThere = () => {
    close();
    const there = document.getElementById("waiting-" + at);
    there.open = true;
    there.scrollIntoView();
    there.querySelector("summary").focus();
  };
  return [el("h3", null, "Why it is pending"), el("p", { id: "panel-why" }, explanation.summary + "."),
    el("ul", null, explanation.reasons.map((group) =>
      el("li", null, count(group.nodes, "node") + ": ", el("code", null, group.code), " ", group.text))),
    explanation.changes.length > 0 && el("p", null, "Best fix:" + explanation.changes[0].text + "."),
    el("p", null, el("button", { type: "button", click: goThere }, "Show the full explanation"))];
}

function scores(pod) {
  const decision = byPod.get(pod);
  if (!decision) return noScores(pod);
  const choose = el("select", null, ["weighted", "normalized", "raw"].map((name) => el("option", { value: name }, name)));
  const at = el("div");
  const draw = () => at.replaceChildren(scoreTable(decision, choose.value));
  choose.addEventListener("change", () => {
    draw();
    announce("scores, " + choose.value);
  });
  draw();
  const lead = decision.margin === null ? "no node has a lower total" : "ahead of the next node by" + decision.margin;
  const others = decision.reasons.map((rest) =>
    el("li", null, count(rest.nodes, "node") + ": ", el("code", null, rest.code), " ", rest.text));
  return [
    el("h3", null, decision.isMade ? "The decision" : decision.node === null ? "Decision in the current state" : "Its node, decided again in the current state"),
    el("p", null, count(decision.fitsOn, "node") + " of " + nodes.name.length.toLocaleString("en") + "  feasible;" +
      (decision.winners === 1 ? "one is best" : decision.winners.toLocaleString("en") + "  are tied") + " (" + lead + ")."),
    el("p", null, "Decided by: " + decision.decidedBy + "."),
    el("div", { class: "controls" }, el("label", null, "Scores", choose)), at,
    decision.leftOut > 0 && el("p", { class: "dim" }, "and " + count(decision.leftOut, "more node") + ", also feasible"),
    others.length > 0 && el("h3", null, "Why not the other nodes"), others.length > 0 && el("ul", null, others),
  ];
}

function noScores(pod) {
  const sibling = pods.owner[pod] < 0 ? undefined : model.decisions.find((other) => pods.owner[other.pod] === pods.owner[pod]);
  const line = "supercargo explain pod " + pods.name[pod] + " -n " + namespaceOf(pod) + " --scores";
  return [el("h3", null, "Scores"),
    el("p", null, explained.has(pod) ? "No node is feasible, so there are no scores." :
      "This report contains scores of" + count(model.decisions.length, "decision") + ", but not of this pod."),
    sibling && el("p", null, "Scores of a pod with the same owner:", link(pods.name[sibling.pod], (from) => showPod(sibling.pod, from))),
    !explained.has(pod) && el("pre", null, line)];
}

// One column per plugin. Plugins with the same value for all shown nodes are listed in a line instead.
function scoreTable(decision, which) {
  const value = (row, at) => which === "weighted" ? row.normalized[at] * decision.weights[at] : row[which][at];
  const all = decision.plugins.map((_, at) => at);
  const differ = all.filter((at) => decision.nodes.some((row) => value(row, at) !== value(decision.nodes[0], at)));
  const same = all.filter((at) => !differ.includes(at));
  const name = (at) => model.plugins[decision.plugins[at]];
  const heads = [["Node", false], ["Total", true], ...differ.map((at) => [name(at), true])];
  const rows = decision.nodes.map((row) => el("tr", { class: row.node === decision.node ? "own" : null },
    el("th", { scope: "row" }, link(nodes.name[row.node], (from) => showNode(row.node, from)),
      row.node === decision.node ? " (its node)" : null),
    el("td", { class: "n" }, String(row.total)), differ.map((at) => el("td", { class: "n" }, String(value(row, at))))));
  const line = same.map((at) => name(at) + " " + value(decision.nodes[0], at)).join(", ");
  return el("div", null, simple("The best " + count(decision.nodes.length, "node") + ", " + which, heads, rows, { class: "scores" }),
    same.length > 0 && el("p", { class: "dim" }, "Equal for all of these:" + line + "."));
}
