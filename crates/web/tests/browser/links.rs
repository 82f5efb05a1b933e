//! Links and files that carry a scenario.

use super::{OBJECTS, answered, is_quiet, opened, outcome, panel, paste, problem, rows, slide};
use crate::driver::Driver;

#[test]
fn link_carries_objects_configuration_changes_and_the_open_pod() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    answered(&browser, || paste(&browser, OBJECTS));
    answered(&browser, || slide(&browser, "#workloads input[type=range]", 4));
    browser.eval("document.querySelector('#pods-table button').click()");
    browser.wait_for("!document.querySelector('#panel').hidden");
    let (decided, pods, explained) = (outcome(&browser), rows(&browser, "pods"), panel(&browser));
    browser.eval("document.querySelector('#link').click()");
    browser.wait_for("location.hash.startsWith('#s=')");
    let address = browser.text("location.href");
    let scenario = address.split_once("#s=").map_or("", |(_, scenario)| scenario);
    let is_url_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(scenario.len() < 2_000 && scenario.chars().all(is_url_safe), "{address}");
    let other = driver.open(1400, 1000, false);
    other.visit(&address);
    other.wait_for("Number(document.body.dataset.answers) >= 1 && !document.querySelector('#panel').hidden");
    assert_eq!((outcome(&other), rows(&other, "pods"), panel(&other)), (decided, pods, explained));
    is_quiet(&other);
}

#[test]
fn damaged_link_is_reported() {
    let driver = Driver::start();
    let browser = driver.open(1000, 800, false);
    browser.visit(&format!("file://{}#s=nonsense", super::page().display()));
    browser.wait_for("!document.querySelector('#problem').hidden");
    assert!(problem(&browser).starts_with("the link is damaged"), "{}", problem(&browser));
}

#[test]
fn scenario_above_64_kib_becomes_a_download_that_can_be_opened() {
    let driver = Driver::start();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let browser = opened(&driver, (1400, 1000), false);
    let path = folder.path().display().to_string();
    let allow = serde_json::json!({ "behavior": "allow", "downloadPath": path });
    browser.command("Browser.setDownloadBehavior", &allow);
    // Names that do not compress: a fixed sequence of pseudo-random digits.
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 8
    };
    let more: String = (0..3_000)
        .map(|_| {
            format!(
                "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n{:014x}{:014x}}}\n",
                draw(),
                draw()
            )
        })
        .collect();
    answered(&browser, || paste(&browser, &(OBJECTS.to_owned() + &more)));
    let before = outcome(&browser);
    browser.eval("document.querySelector('#link').click()");
    browser.wait_for("document.querySelector('#problem').textContent.includes('downloaded')");
    assert_eq!(browser.text("location.hash"), "", "no link is made");
    let file = folder.path().join("supercargo-scenario.json");
    let is_there = || std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('}'));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_there() {
        assert!(std::time::Instant::now() < until, "the file is downloaded");
        std::thread::yield_now();
    }
    let other = opened(&driver, (1400, 1000), false);
    answered(&other, || other.write("#files", &file.display().to_string()));
    assert_eq!(outcome(&other), before);
    assert_eq!(rows(&other, "pods"), rows(&browser, "pods"));
}
