
// The lists: nodes as a table, owners, and pods.

function podWords(pod) {
  return namespaceOf(pod) + "/" + pods.name[pod] + " " + ownerName(pods.owner[pod]) + " " + place(pod, last);
}

function nodeList() {
  const columns = [
    { name: "Node", value: (node) => nodes.name[node], show: (node) => link(nodes.name[node], (from) => showNode(node, from)) },
    { name: "Zone", value: (node) => zoneName(nodes.zone[node]) },
    ...resources.slice(0, 6).map((resource, at) => ({
      name: resource.name, isNumber: true, value: (node) => share(at, node, last) ?? -1, show: (node) => percent(share(at, node, last)),
    })),
    { name: "Taints", value: (node) => (closed.has(node) ? "cordoned " : "") + nodes.taints[node].map((at) => nodes.taintNames[at]).join(" ") },
  ];
  const words = (node) => nodes.name[node] + " " + zoneName(nodes.zone[node]) + " " + columns[columns.length - 1].value(node);
  const list = table({ caption: "Nodes: requested of allocatable" + (last > 0 ? ", after" : ""), columns, rows: nodes.name.map((_, node) => node), words });
  const details = el("details", null, el("summary", null, "Show as a table"),
    el("div", { class: "controls" }, search("Find nodes", list.seek).root), list.root);
  document.getElementById("map").append(details);
}

function ownerList(pick) {
  const of = model.owners.map(() => ({ pods: 0, placed: 0, was: 0, nodes: new Set(), zones: new Set(), sums: resources.map(() => 0) }));
  pods.owner.forEach((owner, pod) => {
    if (owner < 0) return;
    const [sum, at] = [of[owner], pods.node[last][pod]];
    if (last > 0 && (pods.node[0][pod] >= 0 || pods.node[0][pod] === ELSEWHERE)) sum.was += 1;
    if (at === ABSENT) return;
    sum.pods += 1;
    if (at === WAITS) return;
    sum.placed += 1;
    model.requests[pods.request[pod]].forEach((value, resource) => { sum.sums[resource] += value; });
    if (at >= 0) [sum.nodes.add(at), sum.zones.add(nodes.zone[at])];
  });
  const number = (name, value) => ({ name, value, isNumber: true });
  const columns = [
    { name: "Owner", value: (at) => ownerName(at), show: (at) => link(ownerName(at), () => pick(at)) },
    { name: "Namespace", value: (at) => model.namespaces[model.owners[at].namespace] },
    number("Pods", (at) => of[at].pods),
    ...(last > 0 ? [number("Placed before", (at) => of[at].was)] : []),
    number("Placed", (at) => of[at].placed), number("Pending", (at) => of[at].pods - of[at].placed),
    number("Nodes", (at) => of[at].nodes.size), number("Zones", (at) => of[at].zones.size),
    ...resources.slice(0, 2).map((resource, index) => ({ ...number(resource.name, (at) => of[at].sums[index]), show: (at) => amount(index, of[at].sums[index]) })),
  ];
  const words = (at) => ownerName(at) + " " + model.namespaces[model.owners[at].namespace];
  const list = table({ caption: "Owners" + (last > 0 ? ", after" : ""), columns, rows: model.owners.map((_, at) => at), words, by: { at: 2, falls: true }, page: 25 });
  document.getElementById("owner-list").append(el("div", { class: "controls" }, search("Find owners", list.seek).root), list.root);
}

function podList() {
  const all = pods.name.map((_, pod) => pod);
  const kinds = [
    ["all", () => true], ["pending", (pod) => pods.node[last][pod] === WAITS], ["with scores", (pod) => byPod.has(pod)],
    ...(last > 0 ? [["moved or new", (pod) => pods.node[0][pod] !== pods.node[last][pod]]] : []),
  ];
  let of = null;
  const columns = [
    { name: "Pod", value: (pod) => pods.name[pod], show: (pod) => link(pods.name[pod], (from) => showPod(pod, from)) },
    { name: "Namespace", value: namespaceOf },
    { name: "Owner", value: (pod) => ownerName(pods.owner[pod]) },
    ...(last > 0 ? [{ name: "Before", value: (pod) => place(pod, 0) }] : []),
    { name: last > 0 ? "After" : "Node", value: (pod) => place(pod, last) },
    { name: "Priority", isNumber: true, value: (pod) => pods.priority[pod] },
    ...resources.slice(0, 2).map((resource, at) => ({
      name: resource.name, isNumber: true, value: (pod) => model.requests[pods.request[pod]][at],
      show: (pod) => amount(at, model.requests[pods.request[pod]][at]),
    })),
    { name: "Scores", isNumber: true, value: (pod) => byPod.has(pod) ? 1 : 0, show: (pod) => byPod.has(pod) ? "yes" : "" },
  ];
  const list = table({ caption: "Pods", columns, rows: all, words: podWords });
  const narrow = () => list.replace(all.filter((pod) => kinds[which.selectedIndex][1](pod) && (of === null || pods.owner[pod] === of)));
  const which = el("select", { id: "pod-kind", change: narrow }, kinds.map(([name]) => el("option", null, name)));
  const picked = el("span", { hidden: true });
  const find = search("Find pods", list.seek);
  document.getElementById("pod-list").append(el("div", { class: "controls" }, find.root, el("label", null, "Show", which), picked), list.root);
  const pick = (owner) => {
    of = owner;
    picked.hidden = owner === null;
    picked.replaceChildren(...(owner === null ? [] : ["of " + plain(ownerName(owner)) + " ",
      el("button", { type: "button", click: () => { pick(null); find.field.focus(); } }, "show all owners")]));
    which.selectedIndex = 0;
    narrow();
    announce(count(pods.owner.filter((other) => owner === null || other === owner).length, "pod"));
    if (owner !== null) {
      document.getElementById("pods").scrollIntoView();
      picked.querySelector("button").focus({ preventScroll: true });
    }
  };
  return pick;
}

nodeList();
ownerList(podList());
