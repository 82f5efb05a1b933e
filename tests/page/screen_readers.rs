//! The page as screen readers get it: checks of the browser's accessibility tree.

use super::accessibility::{checked_tree, tree};
use super::driver::{Browser, Driver, keys};
use super::{Reports, cluster, is_quiet, small};
use std::collections::BTreeSet;

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
