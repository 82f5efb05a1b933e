// The panel with the explanation of a pod or of a pod group.

let opener = null;

function close() {
  if ($("panel").hidden) return;
  $("panel").hidden = true;
  $("panel").replaceChildren();
  state.pod = state.group = "";
  if (opener && opener.isConnected) opener.focus();
  else $("pods-search").focus();
}

const VERDICTS = {
  fitsNow: "fits now", waitsForPreemption: "waits for preemption", blocked: "blocked", neverFits: "fits on no node of this cluster",
  waitsForGroup: "waits for its group", gated: "gated", notOurs: "of another scheduler", bound: "placed", ended: "finished", deleting: "being deleted",
};

const GROUP_VERDICTS = {
  started: "started", startsNow: "starts now", waitsForPreemption: "waits for preemption", blocked: "blocked", neverFits: "can never start",
  givenUp: "given up", tooFewMembers: "has too few members", noGroup: "does not exist", failed: "failed",
};

async function explain(pod, from) {
  const answer = await request({ do: "explain", pod });
  if (!isExplained(answer, from)) return;
  [state.pod, state.group] = [pod, ""];
  showPanel(pod, from, [
    el("p", null, el("b", null, VERDICTS[answer.verdict] || answer.verdict), ": " + answer.summary + "."),
    ...(answer.group ? [el("h3", null, "Pod group"), groupState(answer.group, groupButton(answer.group.group))] : []),
    ...whyNot(answer), ...hints(answer), ...fixes(answer, "pod"), ...scores(answer),
    ...(answer.event ? [el("h3", null, "FailedScheduling event"), el("p", { class: "mono" }, answer.event)] : [])]);
}

async function explainGroup(group, from) {
  const answer = await request({ do: "explainGroup", group });
  if (!isExplained(answer, from)) return;
  [state.pod, state.group] = ["", group];
  const it = answer.explanation;
  showPanel("Pod group " + group, from, [
    groupState(it, ""),
    el("p", null, count(it.members, "member") + ": " + number(it.bound) + " with a node, " + number(it.waiting) + " pending",
      it.gated > 0 ? ", " + number(it.gated) + " with scheduling gates" : "", it.deleting > 0 ? ", " + number(it.deleting) + " being deleted" : "",
      it.minCount === null ? "." : "; at least " + number(it.minCount) + " must start together."),
    ...domains(it), ...shortMembers(it),
    ...(it.victims.length > 0 ? [el("p", null, "Preemption would evict " + it.victims.join(", ") + ".")] : []),
    ...fixes(it, "group"), ...members(answer.members),
    ...(it.status ? [el("h3", null, "Message of the group's condition"), el("p", { class: "mono" }, it.status)] : [])]);
}

// Returns whether there is an explanation. A change can remove the pod or group whose explanation is open.
function isExplained(answer, from) {
  if (!answer.error) return true;
  if (from) fail(answer.error);
  else close();
  return false;
}

function showPanel(name, from, parts) {
  // A link within the panel is gone with the next explanation: the focus then returns to what opened the panel.
  if (from && !$("panel").contains(from)) opener = from;
  $("panel").replaceChildren(
    el("header", null, el("h2", { id: "panel-heading" }, name), el("button", { type: "button", click: close }, "Close")), ...parts);
  $("panel").hidden = false;
  $("panel").scrollTop = 0;
  if (from) {
    $("panel").focus();
    announce(name);
  }
}

function podButton(pod) {
  return el("button", { type: "button", class: "link", click: (event) => explain(pod, event.currentTarget) }, pod);
}

function groupButton(group) {
  return el("button", { type: "button", class: "link", click: (event) => explainGroup(group, event.currentTarget) }, group);
}

function groupState(it, link) {
  return el("p", null, link, link ? " " : "", el("b", null, GROUP_VERDICTS[it.verdict] || it.verdict), ": " + it.summary + ".");
}

function domains(it) {
  if (!it.topologyKey || it.domains.length === 0) return [];
  return [grid("Domains of " + it.topologyKey + ", closest first" + (it.domainCount > it.domains.length ? ", " + it.domains.length + " of " + number(it.domainCount) : ""),
    [["Domain"], ["Nodes", true], ["Members that fit", true], ["More that must fit", true]],
    it.domains.map((of) => [of.name, number(of.nodes), number(of.fits), number(of.lacks)]))];
}

function shortMembers(it) {
  return it.short.flatMap((of) => [
    el("h3", null, count(of.members, "member") + " without a node once the others are placed: " + of.examples.join(", ") + (of.members > of.examples.length ? " and others" : "")),
    reasons("Why " + of.examples[0] + " fits on no node" + (it.closest ? " of " + it.topologyKey + "=" + it.closest : ""), of.reasons)]);
}

function members({ total, rows }) {
  if (total === 0) return [];
  return [el("h3", null, "Members"), grid("Members and their nodes" + (total > rows.length ? ", " + rows.length + " of " + number(total) : ""),
    [["Pod"], ["Node"], ["Reason"]], rows.map((it) => [podButton(it.pod), it.node || el("span", { class: "chip bad" }, "pending"), it.message || ""]))];
}

function grid(caption, heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", null, el("caption", null, caption),
      el("thead", null, el("tr", null, heads.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber ? "n" : null }, name)))),
      el("tbody", null, rows.map((cells) => el("tr", null, cells.map((cell, at) =>
        at === 0 ? el("th", { scope: "row" }, cell) : el("td", { class: heads[at][1] ? "n" : null }, cell)))))));
}

function reasons(caption, all) {
  return grid(caption, [["Reason"], ["Nodes", true], ["Only reason", true], ["Details"]],
    all.map((it) => [it.code, number(it.nodes), number(it.aloneOn), it.text]));
}

function whyNot(answer) {
  const parts = answer.beforeNodes.map((it) => el("p", null, it.plugin + ": " + it.text));
  if (answer.reasons.length > 0) {
    parts.push(reasons("Every filter evaluated on each of " + count(answer.nodes, "node") + "; " + number(answer.fitsOn) + " feasible", answer.reasons));
  }
  if (answer.nearMisses.length > 0) {
    parts.push(grid("Nodes rejected for a single reason" + (answer.nearMissCount > answer.nearMisses.length ? ", " + answer.nearMisses.length + " of " + number(answer.nearMissCount) : ""),
      [["Node"], ["Reason"]], answer.nearMisses.map((it) => [it.node, it.text])));
  }
  if (answer.preemption) parts.push(el("p", null, "Preemption on " + answer.preemption.node + " would evict " + answer.preemption.victims.join(", ") + "."));
  return parts.length === 0 ? [] : [el("h3", null, answer.node ? "Why not elsewhere" : "Why not"), ...parts];
}

function hints(answer) {
  if (answer.hints.length === 0) return [];
  return [el("h3", null, "Possible typo"), el("ul", null, answer.hints.map((it) =>
    el("li", null, it.field + ": " + it.text + (it.didYouMean ? ". Did you mean " + it.didYouMean + "?" : ""))))];
}

function fixes(answer, what) {
  if (answer.changes.length === 0) return [];
  const parts = [el("h3", null, "Possible fixes, each verified by scheduling the " + what + " again"), el("ol", null, answer.changes.map((it) =>
    el("li", null, it.text + (it.needsNewPod ? " (needs a new pod)" : ""), it.how ? el("pre", null, it.how) : "",
      el("span", { class: "then" }, it.fitsOn > 0 ? "The " + what + " then " + (what === "pod" ? "fits on " : "uses ") + count(it.fitsOn, "node") + ": " + it.examples.join(", ") : ""))))];
  if (answer.changes.some((it) => it.needsNewPod)) {
    const how = answer.newPod || "create the pods again, or make the change in the template of their owner";
    parts.push(el("p", null, "The API server accepts no such update of an existing pod: " + how + "."));
  }
  return parts;
}

function scores(answer) {
  const all = answer.scores;
  if (!all || all.nodes.length === 0) return [];
  const heads = [["Plugin"], ["Weight", true], ...all.nodes.map((it) => [it.node, true])];
  const rows = all.nodes[0].plugins.map((of, at) => [of.plugin, of.weight, ...all.nodes.map((it) => {
    const its = it.plugins[at];
    return its.weighted + " (" + its.raw + ")";
  })]);
  rows.push(["total", "", ...all.nodes.map((it) => number(it.total))]);
  return [el("h3", null, "Scores"),
    el("p", null, "Best: " + all.winners.join(", ") + ". Decided by: " + all.decidedBy + "."),
    grid("Weighted scores of the best " + count(all.nodes.length, "node") + ", raw scores in brackets" + (all.leftOut > 0 ? ", without " + number(all.leftOut) + " others" : ""), heads, rows)];
}
