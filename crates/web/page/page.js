// The scenario, the questions about it, and its link.

const LINK_MAX = 64 << 10;
const LINK_TEXT_MAX = 16 << 20;
const EDIT_PAUSE = 250;
const lessons = JSON.parse($("lesson-data").textContent);
const state = { files: null, changes: [], pod: "", group: "", isLoaded: false, lesson: null, workloads: new Map() };
let asking = null, again = false, loading = 0, pause = 0;

function fail(text) {
  $("problem").hidden = false;
  $("problem").textContent = shown(text);
}

function isFine() {
  $("problem").hidden = true;
  $("problem").textContent = "";
}

// --- loading --------------------------------------------------------------------------------------------------------

// Reads the objects, then decides. A newer call replaces an older one.
async function load() {
  const turn = ++loading;
  clearTimeout(pause);
  if (waiting.size > 0 && state.files) stopWorker();
  isFine();
  const began = performance.now();
  const sources = state.files
    ? state.files.map((file) => ({ name: file.name, blob: file }))
    : [{ name: "objects", blob: new Blob([$("objects").value]) }];
  if (!state.files && $("objects").value.trim() === "") {
    state.isLoaded = false;
    $("outcome").textContent = "Enter objects, or choose a lesson.";
    return;
  }
  const answer = await request({ do: "load", inputs: sources.map((it) => it.name), version: $("version").value, featureGates: $("gates").value }, sources);
  if (turn !== loading || answer.error === "cancelled") return;
  if (answer.error) {
    fail(answer.error);
    $("outcome").textContent = state.isLoaded ? "The last valid scenario is shown below." : "No scenario is loaded.";
    return;
  }
  state.isLoaded = true;
  timings.loadMilliseconds = performance.now() - began;
  $("notes").replaceChildren(...answer.notes.slice(0, 20).map((note) => el("li", null, note)));
  $("notes").hidden = answer.notes.length === 0;
  const some = await request({ do: "nodes", limit: 100 });
  if (some.rows) {
    $("node-names").replaceChildren(...some.rows.map((node) => el("option", { value: node.name })));
    // The node to copy must be one of this scenario.
    const same = await request({ do: "nodes", filter: $("like").value, limit: 500 });
    const isHere = same.rows && same.rows.some((node) => node.name === $("like").value);
    if (!isHere && some.rows.length > 0) $("like").value = some.rows[0].name;
  }
  await ask();
}

// Decides with the configuration and changes of now. While an answer is on its way, only the last question counts.
function ask() {
  if (asking) {
    again = true;
    return asking;
  }
  const all = async () => {
    do {
      again = false;
      await askOnce();
    } while (again);
  };
  asking = all().finally(() => { asking = null; });
  return asking;
}

async function askOnce() {
  if (!state.isLoaded) return;
  const began = performance.now();
  const answer = await request({ do: "ask", config: $("config").value, changes: state.changes });
  if (again || answer.error === "cancelled") return;
  if (answer.error) {
    fail(answer.error);
    return;
  }
  isFine();
  await show(answer);
  timings.askMilliseconds = performance.now() - began;
  if (!timings.firstDecision) timings.firstDecision = performance.now();
  document.body.dataset.answers = String(Number(document.body.dataset.answers || 0) + 1);
}

async function show(answer) {
  const isChanged = state.changes.length > 0 || $("config").value.trim() !== "";
  const ofGroups = answer.groups === 0 ? "" : " " + number(answer.groupsWaiting) + " of " + count(answer.groups, "pod group") + " waiting" +
    (isChanged ? "; without changes " + number(answer.groupsWaitingBefore) : "") + ".";
  const text = (answer.decided === 0 ? "No pod is pending." :
    number(answer.placed) + " of " + count(answer.decided, "pending pod") + " placed" +
    (isChanged ? "; without changes " + number(answer.placedBefore) + " of " + number(answer.placedBefore + answer.pendingBefore) : "") + ".") + ofGroups;
  $("outcome").textContent = text;
  $("outcome").classList.toggle("short", answer.pending > 0);
  announce(text);
  $("figures").hidden = false;
  $("figures").replaceChildren(...[["Nodes", answer.nodes], ["Pods", answer.pods], ["Placed", answer.placed], ["Pending", answer.pending], ["Changed results", answer.moved]]
    .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, el("b", null, number(value))))));
  showChanges();
  $("groups").hidden = $("groups-link").hidden = answer.groups === 0;
  await Promise.all([podTable.draw(), nodeTable.draw(), workloadTable.draw(), answer.groups === 0 ? groupTable.clear() : groupTable.draw()]);
  if (state.pod) await explain(state.pod);
  if (state.group) await explainGroup(state.group);
}

// --- tables ---------------------------------------------------------------------------------------------------------

const podChoice = el("select", { id: "pod-choice", change: () => podTable.first() },
  [["decided", "decided here"], ["pending", "pending"], ["moved", "with another result than without changes"], ["all", "all"]]
    .map(([value, name]) => el("option", { value }, name)));
const podTable = table({
  name: "pods", caption: "Pods and their nodes", heads: [{ name: "Pod" }, { name: "Node" }, { name: "Reason" }],
  controls: [el("label", { for: "pod-choice" }, "Pods"), podChoice], only: () => podChoice.value,
  row: (it) => el("tr", null,
    el("th", { scope: "row" }, podButton(it.pod), it.group ? [" of group ", groupButton(it.group)] : ""),
    el("td", null, it.node || el("span", { class: "chip bad" }, "pending"), it.isMoved ? el("span", { class: "dim" }, it.before ? ", before " + it.before : ", before pending") : ""),
    el("td", null, it.message || (it.isDecided ? "placed here" : it.node ? "was on this node" : ""),
      it.nominatedNode && it.victims ? " Preemption on " + it.nominatedNode + " would evict " + it.victims.join(", ") + "." : "")),
});

const groupChoice = el("select", { id: "group-choice", change: () => groupTable.first() },
  [["all", "all"], ["pending", "waiting"]].map(([value, name]) => el("option", { value }, name)));
const groupTable = table({
  name: "groups", caption: "Pod groups and their members", page: 10,
  heads: [{ name: "Pod group" }, { name: "With a node", isNumber: true }, { name: "Needed together", isNumber: true }, { name: "State" }, { name: "Reason" }],
  controls: [el("label", { for: "group-choice" }, "Groups"), groupChoice], only: () => groupChoice.value,
  row: (it) => el("tr", null, el("th", { scope: "row" }, groupButton(it.group)),
    el("td", { class: "n" }, number(it.bound) + " of " + number(it.members)), el("td", { class: "n" }, it.minCount === null ? "none" : number(it.minCount)),
    el("td", null, it.progress === "waits" ? el("span", { class: "chip bad" }, "waiting") : it.progress === "starts" ? "started here" : "was started",
      it.isMoved ? el("span", { class: "dim" }, it.progress === "waits" ? ", before not waiting" : ", before waiting") : ""),
    el("td", null, groupReason(it).join(" "))),
});

// Returns sentences about why a group, or one of its members, waits.
function groupReason(it) {
  const lacking = it.minCount === null ? 0 : it.minCount - it.members;
  return [
    it.exists ? "" : "The PodGroup does not exist.",
    it.exists && lacking > 0 ? number(lacking) + " more " + (lacking === 1 ? "member" : "members") + " must be created." : "",
    it.closest ? "Closest domain: " + it.topologyKey + "=" + it.closest.name + ", where " + count(it.closest.members, "member") + (it.closest.members === 1 ? " fits." : " fit.") : "",
    it.short ? it.short.pod + ": " + it.short.message : "",
    it.message || "",
    it.victims ? "Preemption would evict " + it.victims.join(", ") + "." : "",
  ].filter((part) => part !== "");
}

function share([requested, all]) {
  return all > 0 ? Math.round(100 * requested / all) + "%" : "none";
}

const nodeTable = table({
  name: "nodes", caption: "Nodes, and the requested share of allocatable",
  heads: [{ name: "Node" }, { name: "Pods", isNumber: true }, { name: "CPU", isNumber: true }, { name: "Memory", isNumber: true }, { name: "Taints" }],
  row: (it) => el("tr", null, el("th", { scope: "row" }, it.name),
    el("td", { class: "n" }, number(it.pods) + " of " + number(it.podsMax)), el("td", { class: "n" }, share(it.cpuMilli)), el("td", { class: "n" }, share(it.memory)),
    el("td", null, it.isCordoned ? "cordoned " : "", it.taints.map((taint) =>
      el("button", { type: "button", class: "chip", "aria-label": "Remove the taint " + taint + " from " + it.name, click: () => change({ change: "untaint", node: it.name, taint }) }, taint + " \u00d7")))),
});

const workloadTable = table({
  name: "workloads", caption: "Workloads and their replicas", page: 8,
  heads: [{ name: "Workload" }, { name: "Replicas" }, { name: "Pending", isNumber: true }],
  row: (it) => {
    const name = it.kind + " " + it.namespace + "/" + it.name;
    const key = it.kind + "/" + it.namespace + "/" + it.name;
    if (!state.workloads.has(key)) state.workloads.set(key, it.pods);
    const most = Math.max(20, 3 * state.workloads.get(key));
    const value = el("output", null, number(it.pods));
    const range = el("input", {
      type: "range", min: 0, max: most, "aria-label": "Replicas of " + name, "data-key": key,
      input: (event) => {
        value.textContent = number(Number(event.target.value));
        scale(it, Number(event.target.value));
      },
    });
    range.value = String(it.pods);
    range.disabled = it.kind === "DaemonSet";
    return el("tr", null, el("th", { scope: "row" }, name), el("td", null, range, " ", value), el("td", { class: "n" }, number(it.pending)));
  },
});
const drawWorkloads = workloadTable.draw;
workloadTable.draw = async () => {
  // A slider that is being moved keeps its focus.
  const key = document.activeElement && document.activeElement.dataset.key;
  await drawWorkloads();
  const same = key && [...document.querySelectorAll("#workloads input[type=range]")].find((it) => it.dataset.key === key);
  if (same) same.focus();
};

// --- changes --------------------------------------------------------------------------------------------------------

function describe(it) {
  switch (it.change) {
    case "addNodes": return "add " + count(it.count, "node") + " like " + it.like;
    case "removeNode": return "remove the node " + it.node;
    case "taint": return "add the taint " + it.taint + " to " + it.node;
    case "untaint": return "remove the taint " + it.taint + " from " + it.node;
    default: return "run " + count(it.replicas, "replica") + " of " + it.kind + " " + it.namespace + "/" + it.name;
  }
}

function showChanges() {
  $("changes").replaceChildren(...state.changes.map((it, at) => el("li", null, describe(it) + " ",
    el("button", { type: "button", "aria-label": "Undo: " + describe(it), click: () => { state.changes.splice(at, 1); syncSliders(); ask(); } }, "Undo"))));
  $("no-changes").hidden = state.changes.length > 0;
  $("clear").hidden = state.changes.length === 0;
}

async function change(it) {
  const before = [...state.changes];
  state.changes.push(it);
  await tried(before);
}

// Decides with the new changes; takes them back if the engine rejects them.
async function tried(before) {
  await ask();
  if ($("problem").hidden) return;
  state.changes = before;
  showChanges();
}

function scale({ kind, namespace, name }, replicas) {
  const isSame = (it) => it.change === "scale" && it.kind === kind && it.namespace === namespace && it.name === name;
  const loaded = state.workloads.get(kind + "/" + namespace + "/" + name);
  state.changes = state.changes.filter((it) => !isSame(it));
  if (replicas !== loaded) state.changes.push({ change: "scale", kind, namespace, name, replicas });
  ask();
}

function moreNodes() {
  const [like, amount] = [$("like").value.trim(), Number($("more").value)];
  $("more-value").textContent = String(amount);
  const before = [...state.changes];
  state.changes = state.changes.filter((it) => it.change !== "addNodes");
  if (amount > 0) state.changes.unshift({ change: "addNodes", like, count: amount });
  return tried(before);
}

function syncSliders() {
  const added = state.changes.find((it) => it.change === "addNodes");
  $("more").value = String(added ? added.count : 0);
  $("more-value").textContent = String(added ? added.count : 0);
  if (added) $("like").value = added.like;
}

function reset() {
  state.changes = [];
  state.workloads.clear();
  $("like").value = "";
  syncSliders();
  showChanges();
  close();
}

// --- lessons --------------------------------------------------------------------------------------------------------

// Opens a lesson; with the button that was pressed, also the explanation of its pod.
async function open(lesson, button) {
  reset();
  state.lesson = lesson.id;
  useText(lesson.objects);
  $("config").value = $("gates").value = "";
  $("version").selectedIndex = 0;
  const done = el("p", { class: "dim", role: "status" });
  $("lesson").replaceChildren(el("h3", null, lesson.title), el("p", null, lesson.text), el("ul", null, lesson.steps.map((step) =>
    el("li", null, el("button", { type: "button", click: async () => {
      if (step.from) {
        $("objects").value = $("objects").value.replaceAll(step.from, step.to);
        await load();
      } else {
        await change(step.change);
      }
      done.textContent = step.then;
    } }, step.name)))), done);
  $("lesson").hidden = false;
  await load();
  if (button) await (lesson.group ? explainGroup(lesson.group, button) : explain(lesson.pod, button));
}

$("lessons").append(...lessons.map((lesson) => el("button", { type: "button", click: (event) => open(lesson, event.currentTarget) }, lesson.title)));

// --- links and files ------------------------------------------------------------------------------------------------

function scenario() {
  return { version: 1, kubeScheduler: $("version").value, objects: state.files ? "" : $("objects").value, config: $("config").value, featureGates: $("gates").value, changes: state.changes, pod: state.pod, group: state.group };
}

async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const stream = new Blob([Uint8Array.from(binary, (char) => char.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const parts = [];
  let size = 0;
  for (let reader = stream.getReader(), part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > LINK_TEXT_MAX) throw new Error("it is larger than 16 MiB");
    parts.push(part.value);
  }
  return new Blob(parts).text();
}

async function link() {
  if (state.files) {
    fail("a link carries text only, and this scenario has files; download the scenario instead, and pass on the files with it");
    return;
  }
  const fragment = "#s=" + await packed(JSON.stringify(scenario()));
  if (fragment.length > LINK_MAX) {
    download();
    announce("The scenario is too large for a link, so it was downloaded as a file. Drop the file on this page to open it.");
    fail("the link would have " + number(fragment.length) + " characters, more than " + number(LINK_MAX) + "; the scenario was downloaded as a file instead");
    return;
  }
  isFine();
  history.replaceState(null, "", fragment);
  try {
    await navigator.clipboard.writeText(location.href);
    announce("The address of this page carries the scenario now. It is copied.");
  } catch {
    announce("The address of this page carries the scenario now. Copy it from the address bar.");
  }
}

function download() {
  const address = URL.createObjectURL(new Blob([JSON.stringify(scenario(), null, 1)], { type: "application/json" }));
  el("a", { href: address, download: "supercargo-scenario.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// Opens a scenario that a link or a file carries. What it says is shown, never trusted.
async function restore(text) {
  const saved = JSON.parse(text);
  const isText = (value) => value === undefined || typeof value === "string";
  if (saved.version !== 1 || ![saved.objects, saved.config, saved.featureGates, saved.pod, saved.group, saved.kubeScheduler].every(isText) || !Array.isArray(saved.changes || [])) {
    throw new Error("it is no scenario of this page");
  }
  reset();
  $("lesson").hidden = true;
  $("config").value = saved.config || "";
  $("gates").value = saved.featureGates || "";
  $("config-details").open = Boolean(saved.config || saved.featureGates);
  if ([...$("version").options].some((it) => it.value === saved.kubeScheduler)) $("version").value = saved.kubeScheduler;
  state.changes = saved.changes || [];
  if (saved.objects || !state.files) useText(saved.objects || "");
  await load();
  syncSliders();
  if (saved.pod) await explain(saved.pod);
  if (saved.group) await explainGroup(saved.group);
}

async function fromLink() {
  if (!location.hash.startsWith("#s=")) return false;
  try {
    await restore(await unpacked(location.hash.slice(3)));
  } catch (error) {
    fail("the link is damaged: " + error.message);
  }
  return true;
}

function useText(text) {
  state.files = null;
  $("objects").value = text;
  $("text-input").hidden = false;
  $("file-input").hidden = true;
}

async function useFiles(list) {
  const files = [...list];
  if (files.length === 0) return;
  if (files.length === 1 && files[0].size < LINK_TEXT_MAX && files[0].name.endsWith(".json")) {
    const text = await files[0].text();
    if (text.includes('"kubeScheduler"')) {
      try {
        return await restore(text);
      } catch (error) {
        fail(files[0].name + ": " + error.message);
        return;
      }
    }
  }
  reset();
  $("lesson").hidden = true;
  state.files = files;
  $("file-names").textContent = shown(files.map((file) => file.name).join(", "));
  $("text-input").hidden = true;
  $("file-input").hidden = false;
  await load();
}

// --- start ----------------------------------------------------------------------------------------------------------

$("pod-list").append(podTable.root);
$("group-list").append(groupTable.root);
$("node-list").append(nodeTable.root);
$("workloads").append(workloadTable.root);
const edited = () => {
  clearTimeout(pause);
  pause = setTimeout(load, EDIT_PAUSE);
};
$("objects").addEventListener("input", edited);
$("config").addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(ask, EDIT_PAUSE);
});
$("version").addEventListener("change", load);
$("gates").addEventListener("change", load);
$("decide").addEventListener("click", load);
$("link").addEventListener("click", link);
$("download").addEventListener("click", download);
$("files").addEventListener("change", (event) => useFiles(event.target.files));
$("use-text").addEventListener("click", () => { useText(""); reset(); load(); });
$("more").addEventListener("input", moreNodes);
$("like").addEventListener("change", () => { if (Number($("more").value) > 0) moreNodes(); });
$("add-taint").addEventListener("click", () => change({ change: "taint", node: $("taint-node").value.trim(), taint: $("taint").value.trim() }));
$("remove-taint").addEventListener("click", () => change({ change: "untaint", node: $("taint-node").value.trim(), taint: $("taint").value.trim() }));
$("remove-node").addEventListener("click", () => change({ change: "removeNode", node: $("taint-node").value.trim() }));
$("clear").addEventListener("click", () => { state.changes = []; syncSliders(); ask(); });
$("config-example").addEventListener("click", () => {
  $("config").value = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        type: MostAllocated\n        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]\n";
  ask();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) load();
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  useFiles(event.dataTransfer.files);
});
window.addEventListener("hashchange", fromLink);
startWorker();
fromLink().then((isOpen) => { if (!isOpen) open(lessons[0]); });
