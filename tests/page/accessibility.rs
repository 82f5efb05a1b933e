//! Checks of the browser's accessibility tree that hold for every page.

use super::driver::Browser;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Roles of interactive elements.
const INTERACTIVE: [&str; 11] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "radio",
    "checkbox",
    "DisclosureTriangle",
    "listbox",
    "slider",
    "spinbutton",
];

/// A node of the accessibility tree.
#[derive(Clone, Debug)]
pub(crate) struct AccessibleNode {
    pub(crate) role: String,
    pub(crate) name: String,
    can_focus: bool,
    level: Option<u64>,
}

/// Returns all announced nodes of the tree, in order.
pub(crate) fn tree(browser: &Browser<'_>) -> Vec<AccessibleNode> {
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
pub(crate) fn checked_tree(browser: &Browser<'_>) -> Vec<AccessibleNode> {
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
