// The panel with the explanation of a pod.

let opener = null;

function close() {
  if ($("panel").hidden) return;
  $("panel").hidden = true;
  $("panel").replaceChildren();
  state.pod = "";
  if (opener && opener.isConnected) opener.focus();
  else $("pods-search").focus();
}

const VERDICTS = {
  fitsNow: "fits now", waitsForPreemption: "waits for preemption", blocked: "blocked", neverFits: "can never be scheduled",
  waitsForGroup: "waits for its group", gated: "gated", notOurs: "of another scheduler", bound: "placed", ended: "finished", deleting: "being deleted",
};

async function explain(pod, from) {
  const answer = await request({ do: "explain", pod });
  if (answer.error) {
    // A change can remove the pod whose explanation is open.
    if (from) fail(answer.error);
    else close();
    return;
  }
  state.pod = pod;
  if (from) opener = from;
  const heading = el("h2", { id: "panel-heading" }, pod);
  $("panel").replaceChildren(
    el("header", null, heading, el("button", { type: "button", click: close }, "Close")),
    el("p", null, el("b", null, VERDICTS[answer.verdict] || answer.verdict), ": " + answer.summary + "."),
    ...whyNot(answer), ...hints(answer), ...fixes(answer), ...scores(answer),
    ...(answer.event ? [el("h3", null, "FailedScheduling event"), el("p", { class: "mono" }, answer.event)] : []));
  $("panel").hidden = false;
  $("panel").scrollTop = 0;
  if (from) {
    $("panel").focus();
    announce(pod);
  }
}

function grid(caption, heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", null, el("caption", null, caption),
      el("thead", null, el("tr", null, heads.map(([name, isNumber]) => el("th", { scope: "col", class: isNumber ? "n" : null }, name)))),
      el("tbody", null, rows.map((cells) => el("tr", null, cells.map((cell, at) =>
        at === 0 ? el("th", { scope: "row" }, cell) : el("td", { class: heads[at][1] ? "n" : null }, cell)))))));
}

function whyNot(answer) {
  const parts = answer.beforeNodes.map((it) => el("p", null, it.plugin + ": " + it.text));
  if (answer.reasons.length > 0) {
    parts.push(grid("Every filter evaluated on each of " + count(answer.nodes, "node") + "; " + number(answer.fitsOn) + " feasible",
      [["Reason"], ["Nodes", true], ["Only reason", true], ["Details"]],
      answer.reasons.map((it) => [it.code, number(it.nodes), number(it.aloneOn), it.text])));
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

function fixes(answer) {
  if (answer.changes.length === 0) return [];
  return [el("h3", null, "Possible fixes, each verified by scheduling the pod again"), el("ol", null, answer.changes.map((it) =>
    el("li", null, it.text, it.how ? el("pre", null, it.how) : "",
      el("span", { class: "then" }, it.fitsOn > 0 ? "The pod then fits on " + count(it.fitsOn, "node") + ": " + it.examples.join(", ") : ""))))];
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
