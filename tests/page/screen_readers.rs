//! The page as screen readers get it: checks of the browser's accessibility tree.

use super::driver::{Browser, Driver, keys};
use super::{Reports, cluster, is_quiet, small};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Roles of interactive elements.
const INTERACTIVE: [&str; 9] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "radio",
    "checkbox",
    "DisclosureTriangle",
    "listbox",
];

/// A node of the accessibility tree.
#[derive(Clone, Debug)]
struct AccessibleNode {
    role: String,
    name: String,
    can_focus: bool,
    level: Option<u64>,
}

/// Returns all announced nodes of the tree, in order.
fn tree(browser: &Browser<'_>) -> Vec<AccessibleNode> {
    browser.command("Accessibility.enable", &json!({}));
    let tree = browser.command("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree has nodes").clone();
    let id = |node: &Value| node["nodeId"].as_str().expect("an id").to_owned();
    let at: BTreeMap<String, &Value> = nodes.iter().map(|node| (id(node), node)).collect();
    let mut order = Vec::new();
    let mut open = vec![nodes[0]["nodeId"].clone()];
    while let Some(id) = open.pop() {
        let Some(node) = at.get(id.as_str().unwrap_or_default()) else { continue };
        open.extend(node["childIds"].as_array().into_iter().flatten().rev().cloned());
        if node["ignored"] == true {
            continue;
        }
        let property = |name: &str| {
            let all = node["properties"].as_array().into_iter().flatten();
            all.clone().find(|it| it["name"] == name).map(|it| it["value"]["value"].clone())
        };
        let text = |field: &str| node[field]["value"].as_str().unwrap_or_default().trim().to_owned();
        order.push(AccessibleNode {
            role: text("role"),
            name: text("name"),
            can_focus: property("focusable") == Some(json!(true)),
            level: property("level").and_then(|level| level.as_u64()),
        });
    }
    order
}

/// Asserts rules that hold whatever is open, and returns the tree.
fn checked_tree(browser: &Browser<'_>) -> Vec<AccessibleNode> {
    let all = tree(browser);
    let nameless: Vec<&AccessibleNode> = all
        .iter()
        .filter(|it| INTERACTIVE.contains(&it.role.as_str()) || it.can_focus)
        .filter(|it| it.name.is_empty() || ["generic", "none", ""].contains(&it.role.as_str()))
        .collect();
    assert!(nameless.is_empty(), "what can be worked with has a role and a name: {nameless:?}");
    let levels: Vec<(u64, &str)> = all
        .iter()
        .filter(|it| it.role == "heading")
        .map(|it| (it.level.expect("a level"), it.name.as_str()))
        .collect();
    assert_eq!(levels.iter().filter(|(level, _)| *level == 1).count(), 1, "{levels:?}");
    assert_eq!(levels[0].0, 1, "{levels:?}");
    assert!(levels.iter().all(|(_, name)| !name.is_empty()), "{levels:?}");
    let leaps: Vec<_> = levels.windows(2).filter(|pair| pair[1].0 > pair[0].0 + 1).collect();
    assert!(leaps.is_empty(), "headings leave out no level: {leaps:?}");
    for role in ["banner", "main", "navigation"] {
        assert_eq!(all.iter().filter(|it| it.role == role).count(), 1, "{role}");
    }
    let landmarks =
        all.iter().filter(|it| ["navigation", "region", "complementary"].contains(&it.role.as_str()));
    let nameless: Vec<&AccessibleNode> = landmarks.filter(|it| it.name.is_empty()).collect();
    assert!(nameless.is_empty(), "{nameless:?}");
    let pictures: Vec<&AccessibleNode> = all
        .iter()
        .filter(|it| {
            ["image", "graphics-document", "SvgRoot"].contains(&it.role.as_str()) && it.name.is_empty()
        })
        .collect();
    assert!(pictures.is_empty(), "{pictures:?}");
    let wrong = browser.eval(
        "[...document.querySelectorAll('[id]')].map((it) => it.id).filter((id, at, all) => all.indexOf(id) !== at)",
    );
    assert_eq!(wrong, json!([]), "an id is there once");
    let wrong = browser.eval(
        "[...document.querySelectorAll('table')].flatMap((table) => [\
           table.querySelector('caption')?.textContent ? null : 'no caption: ' + table.textContent.slice(0, 40),\
           [...table.querySelectorAll('th')].every((it) => ['col', 'row'].includes(it.scope)) ? null : 'no scope: ' + table.textContent.slice(0, 40),\
           [...table.querySelectorAll('thead th')].length > 0 ? null : 'no head: ' + table.textContent.slice(0, 40),\
           [...table.querySelectorAll('tbody tr')].every((row) => row.querySelectorAll('th[scope=row]').length === 1) ? null\
             : 'a row without a header: ' + table.textContent.slice(0, 80),\
         ]).filter(Boolean)",
    );
    assert_eq!(wrong, json!([]), "tables say what their cells are");
    let wrong = browser.eval(
        "[...document.querySelectorAll('[aria-labelledby], [aria-describedby], [aria-controls]')].filter((it) => !it.closest('[hidden]')).flatMap((it) =>\
           ['aria-labelledby', 'aria-describedby', 'aria-controls'].flatMap((name) => (it.getAttribute(name) || '').split(' '))\
         ).filter((id) => id && !document.getElementById(id))",
    );
    assert_eq!(wrong, json!([]), "what is referred to is there");
    all
}

fn is_open(browser: &Browser<'_>) {
    browser.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; })");
}

/// Returns the expected names of cells: node, zone, resource and share.
fn cells(browser: &Browser<'_>, resource: usize) -> Vec<String> {
    let names = browser.eval(&format!(
        "model.nodes.name.map((name, at) => name + ', ' + zoneName(model.nodes.zone[at]) + ', ' + model.resources[{resource}].name + ' ' + percent(share({resource}, at, last)) + ' (')"
    ));
    names.as_array().expect("a list").iter().map(|it| it.as_str().expect("a text").to_owned()).collect()
}

fn assert_map_is_announced(browser: &Browser<'_>, resource: usize) {
    let all = tree(browser);
    for wanted in cells(browser, resource) {
        let found = all.iter().filter(|it| it.role == "button" && it.name.starts_with(&wanted)).count();
        assert_eq!(found, 1, "{wanted}");
    }
}

#[test]
fn screen_reader_gets_names_roles_and_announcements() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let page = small(&reports);
    let browser = driver.open(1400, 900, false);
    browser.go(&page);
    checked_tree(&browser);
    is_open(&browser);
    let all = checked_tree(&browser);
    let regions: Vec<&str> = all.iter().filter(|it| it.role == "region").map(|it| it.name.as_str()).collect();
    assert_eq!(regions, ["Summary", "Pending pods", "Nodes", "Topology spread", "Pods by owner", "Pods"]);
    for role in ["columnheader", "rowheader"] {
        assert!(all.iter().any(|it| it.role == role), "{role}");
    }
    assert_map_is_announced(&browser, 0);
    browser.eval("(document.querySelector('#map-resource').selectedIndex = 1, document.querySelector('#map-resource').dispatchEvent(new Event('change')))");
    assert_map_is_announced(&browser, 1);

    let status = |browser: &Browser<'_>| browser.text("document.querySelector('[role=status]').textContent");
    assert!(status(&browser).contains("memory"), "{}", status(&browser));
    browser.click(".cell[data-node='10']");
    assert_panel_is_announced(&browser, &browser.text("model.nodes.name[10]"));
    browser.press(&[keys::ESCAPE]);
    assert_eq!(browser.text("document.activeElement.dataset.node"), "10", "the focus is where it was");
    browser.write("#pod-list input", "checkout worker-b");
    browser.wait_for("document.querySelector('#status').textContent.includes('of Pods')");
    browser.click("#pod-list tbody .link");
    let heading = browser.text("document.querySelector('#panel-heading').textContent");
    assert_panel_is_announced(&browser, &heading);
    browser.press(&[keys::ESCAPE]);
    browser.click("#owner-list th button");
    assert!(status(&browser).contains("sorted by"), "{}", status(&browser));
    is_quiet(&browser);
}

/// Asserts that the opened panel is a landmark of that name, has the focus and is announced.
fn assert_panel_is_announced(browser: &Browser<'_>, name: &str) {
    let all = checked_tree(browser);
    let panels: Vec<&str> =
        all.iter().filter(|it| it.role == "complementary").map(|it| it.name.as_str()).collect();
    assert_eq!(panels, [name]);
    assert_eq!(browser.text("document.activeElement.id"), "panel");
    assert_eq!(browser.text("document.querySelector('[role=status]').textContent"), name);
}

#[test]
fn arrow_keys_reach_every_node_from_the_tab_stop() {
    let (driver, reports) = (Driver::start(), Reports::new());
    // Enough nodes that cells show no names.
    let nodes = 90;
    reports.write("cluster.json", &cluster::cluster(nodes, 200));
    let page = reports.make("mid.html", &["--cluster", "cluster.json"]);
    let browser = driver.open(1400, 900, false);
    browser.go(&page);
    checked_tree(&browser);
    assert_map_is_announced(&browser, 0);
    assert_eq!(browser.eval("document.querySelectorAll('.cell[tabindex=\"0\"]').length"), 1);
    let help = browser.text("document.getElementById(document.querySelector('.cell[data-node]').closest('[aria-describedby]').getAttribute('aria-describedby')).textContent");
    assert!(help.contains("Arrow keys"), "{help}");
    browser.eval("document.querySelector('.cell[tabindex=\"0\"]').focus()");
    let mut seen = BTreeSet::new();
    for _ in 0..nodes {
        seen.insert(browser.text("document.activeElement.dataset.node"));
        browser.press(&[keys::RIGHT]);
    }
    assert_eq!(seen.len(), nodes);
    is_quiet(&browser);
}
