//! The page of `make page` in a real browser: decisions, lessons, sliders, links, keyboard, screen readers, no network
//! access, and a large dump.
//!
//! Part of `make page-check`, which builds the page and installs chromium and chromedriver if possible.

#[path = "../../../../tests/page/accessibility.rs"]
mod accessibility;
#[allow(dead_code, reason = "the tests of the report use the rest of it")]
#[path = "../../../../tests/report/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "the tests of the report use the rest of it")]
#[path = "../../../../tests/page/driver.rs"]
mod driver;
mod dump;
mod links;

use accessibility::checked_tree;
use driver::{Browser, Driver, keys};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const OBJECTS: &str = "\
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '110'}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: i, resources: {requests: {cpu: '2'}}}
";

/// Returns the page that `make page` built.
fn page() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder is below target");
    let page = target.join("page/index.html");
    assert!(page.is_file(), "{}: `make page` builds it", page.display());
    page
}

/// Opens the page and waits for its first answer.
fn opened<'a>(driver: &'a Driver, size: (u32, u32), is_dark: bool) -> Browser<'a> {
    let browser = driver.open(size.0, size.1, is_dark);
    browser.go(&page());
    browser.wait_for("Number(document.body.dataset.answers) >= 1");
    browser
}

/// Makes a change of the page, and waits until it shows the next answer.
fn answered<R>(browser: &Browser<'_>, change: impl FnOnce() -> R) {
    let before = browser.eval("Number(document.body.dataset.answers)");
    let _ = change();
    browser.wait_for(&format!("Number(document.body.dataset.answers) > {before}"));
}

/// Replaces the objects, as a paste does.
fn paste(browser: &Browser<'_>, objects: &str) {
    let text = Value::from(objects);
    browser.eval(&format!(
        "(document.querySelector('#objects').value = {text}, document.querySelector('#objects').dispatchEvent(new Event('input')))"
    ));
}

/// Moves a slider, as a drag or an arrow key does.
fn slide(browser: &Browser<'_>, css: &str, value: u32) {
    browser.eval(&format!(
        "((it) => {{ it.value = '{value}'; it.dispatchEvent(new Event('input', {{ bubbles: true }})); }})(document.querySelector({}))",
        Value::from(css)
    ));
}

/// Opens the first lesson.
fn lesson(browser: &Browser<'_>) {
    answered(browser, || browser.click("#lessons button"));
    browser.wait_for("document.activeElement.id === 'panel'");
}

fn outcome(browser: &Browser<'_>) -> String {
    browser.text("document.querySelector('#outcome').textContent")
}

fn panel(browser: &Browser<'_>) -> String {
    browser.text("document.querySelector('#panel').textContent")
}

fn problem(browser: &Browser<'_>) -> String {
    browser.text("document.querySelector('#problem').textContent")
}

/// Returns the texts of the cells of a table, one text for each row.
fn rows(browser: &Browser<'_>, table: &str) -> Vec<String> {
    let rows = browser.eval(&format!(
        "[...document.querySelectorAll('#{table}-table tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent).join(' | '))"
    ));
    let rows = rows.as_array().expect("a list").iter();
    rows.map(|row| row.as_str().expect("a text").to_owned()).collect()
}

/// Asserts that only the page was loaded, and that the console has no messages.
fn is_quiet(browser: &Browser<'_>) {
    let (said, asked) = browser.heard();
    assert_eq!(said, Vec::<String>::new(), "the console is silent");
    let own = ["file://", "blob:", "data:,"];
    let foreign: Vec<&String> =
        asked.iter().filter(|url| !own.iter().any(|prefix| url.starts_with(prefix))).collect();
    assert!(foreign.is_empty(), "asked for {foreign:?}");
    assert!(asked.iter().filter(|url| url.starts_with("file://")).count() <= 1, "{asked:?}");
}

#[test]
fn lesson_explains_and_its_step_places_the_pod() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    assert_eq!(outcome(&browser), "0 of 1 pending pod placed.");
    lesson(&browser);
    let text = panel(&browser);
    for part in
        ["fits on no node of this cluster", "business=self-drive-models", "Possible fixes", "Did you mean"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    answered(&browser, || browser.eval("document.querySelector('#lesson button').click()"));
    browser.wait_for("document.querySelector('#panel').textContent.includes('the pod is on kind-worker2')");
    assert_eq!(outcome(&browser), "1 of 1 pending pod placed.");
    assert!(panel(&browser).contains("Scores"), "{}", panel(&browser));
    is_quiet(&browser);
}

#[test]
fn every_step_of_every_lesson_changes_the_answer() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    let lessons = browser.eval("lessons.map((lesson) => lesson.steps.length)");
    let lessons: Vec<u64> = lessons.as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert_eq!(lessons.len(), 4);
    for (lesson, steps) in lessons.iter().enumerate() {
        for step in 0..*steps {
            answered(&browser, || {
                browser.eval(&format!("document.querySelectorAll('#lessons button')[{lesson}].click()"));
            });
            browser.wait_for("!document.querySelector('#panel').hidden");
            let before = panel(&browser);
            answered(&browser, || {
                browser.eval(&format!("document.querySelectorAll('#lesson button')[{step}].click()"));
            });
            browser.wait_for("document.querySelector('#lesson [role=status]').textContent !== ''");
            assert_ne!((panel(&browser), problem(&browser)), (before, String::new()), "{lesson} {step}");
            assert_eq!(problem(&browser), "", "{lesson} {step}");
        }
    }
    is_quiet(&browser);
}

#[test]
fn pasted_objects_are_decided_and_a_mistake_names_line_and_field() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    answered(&browser, || paste(&browser, OBJECTS));
    assert_eq!(outcome(&browser), "3 of 3 pending pods placed.");
    let shown = rows(&browser, "pods");
    assert_eq!(shown.len(), 3);
    assert_eq!(shown.iter().filter(|row| row.contains("| large")).count(), 2, "{shown:?}");
    paste(&browser, &OBJECTS.replace("cpu: '2', memory", "cpu: two, memory"));
    browser.wait_for("!document.querySelector('#problem').hidden");
    let text = problem(&browser);
    assert!(text.starts_with("objects:4:") && text.contains("status.allocatable"), "{text}");
    assert_eq!(rows(&browser, "pods").len(), 3, "the last valid answer stays");
    answered(&browser, || paste(&browser, OBJECTS));
    assert_eq!(problem(&browser), "");
    is_quiet(&browser);
}

#[test]
fn group_waits_as_a_whole_with_its_reason_until_a_node_is_added() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    assert_eq!(browser.eval("document.querySelector('#groups').hidden"), true, "the lesson has no groups");
    answered(&browser, || paste(&browser, include_str!("../../../../docs/groups/racks.yaml")));
    assert_eq!(outcome(&browser), "0 of 4 pending pods placed. 1 of 1 pod group waiting.");
    let notes = browser.text("document.querySelector('#notes').textContent");
    assert!(notes.contains("pod groups are on, since the objects have a PodGroup"), "{notes}");
    let groups = rows(&browser, "groups");
    for part in [
        "ml/training | 0 of 4 | 4 | waiting",
        "topology.kubernetes.io/rack=b, where 3 members fit",
        "Insufficient cpu",
    ] {
        assert!(groups[0].contains(part), "{part}: {groups:?}");
    }
    assert_eq!(rows(&browser, "pods").iter().filter(|row| row.contains("of group ml/training")).count(), 4);
    browser.eval("document.querySelector('#groups-table button').focus()");
    browser.press(&[keys::ENTER]);
    browser.wait_for("document.activeElement.id === 'panel'");
    let text = panel(&browser);
    for part in [
        "Pod group ml/training",
        "1 more must fit",
        "without a node once the others are placed: ml/worker-3",
        "requests 4 cpu",
        "add a node like b1",
        "Members",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    picture(&browser, "page-group.png");
    checked_tree(&browser);
    answered(&browser, || {
        browser.eval("document.querySelector('#like').value = 'b1'");
        slide(&browser, "#more", 1);
    });
    assert_eq!(
        outcome(&browser),
        "4 of 4 pending pods placed; without changes 0 of 4. 0 of 1 pod group waiting; without changes 1."
    );
    assert!(
        rows(&browser, "groups")[0].contains("4 of 4 | 4 | started here, before waiting"),
        "{:?}",
        rows(&browser, "groups")
    );
    assert!(panel(&browser).contains("started: all 4 members have a node"), "{}", panel(&browser));
    browser.press(&[keys::ESCAPE]);
    browser.eval(
        "(document.querySelector('#config-details').open = true, document.querySelector('#clear').click())",
    );
    browser.write("#gates", "GenericWorkload=false");
    answered(&browser, || browser.press(&[keys::ENTER]));
    assert_eq!(outcome(&browser), "4 of 4 pending pods placed.", "members are ordinary pods");
    assert_eq!(browser.eval("document.querySelector('#groups').hidden"), true);
    is_quiet(&browser);
}

#[test]
fn nodes_taints_replicas_and_configuration_change_the_answer() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    answered(&browser, || paste(&browser, OBJECTS));
    answered(&browser, || slide(&browser, "#workloads input[type=range]", 5));
    assert_eq!(outcome(&browser), "3 of 5 pending pods placed; without changes 3 of 3.");
    answered(&browser, || slide(&browser, "#more", 1));
    let placed = outcome(&browser);
    assert!(placed.starts_with("5 of 5") || placed.starts_with("4 of 5"), "{placed}");
    browser.eval("(document.querySelector('#taint-node').value = 'large', document.querySelector('#taint').value = 'a=b:NoSchedule')");
    answered(&browser, || browser.click("#add-taint"));
    assert!(
        rows(&browser, "nodes")
            .iter()
            .any(|row| row.starts_with("large |") && row.contains("a=b:NoSchedule"))
    );
    assert_eq!(browser.eval("document.querySelectorAll('#changes li').length"), 3);
    browser.eval("(document.querySelector('#taint').value = 'nonsense')");
    browser.click("#add-taint");
    browser.wait_for("!document.querySelector('#problem').hidden");
    assert!(problem(&browser).contains("KEY[=VALUE]:EFFECT"), "{}", problem(&browser));
    assert_eq!(browser.eval("document.querySelectorAll('#changes li').length"), 3, "it is not applied");
    answered(&browser, || browser.click("#clear"));
    assert_eq!(outcome(&browser), "3 of 3 pending pods placed.");
    browser.eval("document.querySelector('#config-details').open = true");
    answered(&browser, || browser.click("#config-example"));
    assert!(outcome(&browser).contains("without changes"), "{}", outcome(&browser));
    browser.write("#config", "nonsense: true\n");
    browser.wait_for("document.querySelector('#problem').textContent.includes('configuration')");
    assert!(problem(&browser).contains("nonsense"), "{}", problem(&browser));
    is_quiet(&browser);
}

#[test]
fn keyboard_alone_decides_opens_an_explanation_and_returns() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    browser.press(&[keys::TAB]);
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    browser.eval("document.querySelector('#objects').focus()");
    answered(&browser, || browser.press_with(keys::CONTROL, keys::ENTER));
    browser.eval("document.querySelector('#pods-table button').focus()");
    browser.press(&[keys::ENTER]);
    browser.wait_for("document.activeElement.id === 'panel'");
    assert_eq!(browser.text("document.querySelector('#panel-heading').textContent"), "default/trainer");
    browser.press(&[keys::ESCAPE]);
    assert_eq!(
        browser.text("document.activeElement.textContent"),
        "default/trainer",
        "the focus is where it was"
    );
    // Arrow keys move a slider.
    browser.eval("document.querySelector('#more').focus()");
    answered(&browser, || browser.press(&[keys::RIGHT]));
    assert_eq!(browser.text("document.querySelector('#more-value').textContent"), "1");
    assert!(rows(&browser, "nodes").iter().any(|row| row.starts_with("kind-control-plane-new-1 |")));
    is_quiet(&browser);
}

#[test]
fn narrow_and_dark_screens_show_everything_without_scrolling_sideways() {
    let driver = Driver::start();
    let browser = opened(&driver, (360, 740), true);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 360);
    picture(&browser, "page-narrow.png");
    lesson(&browser);
    assert_eq!(browser.eval("document.querySelector('#panel').getBoundingClientRect().width"), 360);
    browser.press(&[keys::ESCAPE]);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 360);
    assert_eq!(browser.text("getComputedStyle(document.body).backgroundColor"), "rgb(18, 22, 26)");
    answered(&browser, || paste(&browser, OBJECTS));
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 360);
    is_quiet(&browser);
}

#[test]
fn screen_reader_gets_names_roles_and_announcements() {
    let driver = Driver::start();
    let browser = opened(&driver, (1400, 1000), false);
    picture(&browser, "page.png");
    checked_tree(&browser);
    lesson(&browser);
    picture(&browser, "page-why.png");
    let all = checked_tree(&browser);
    assert!(all.iter().any(|it| it.role == "complementary" && it.name == "default/trainer"), "the panel");
    browser.press(&[keys::ESCAPE]);
    browser.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; })");
    answered(&browser, || paste(&browser, OBJECTS));
    answered(&browser, || slide(&browser, "#more", 2));
    let all = checked_tree(&browser);
    let regions: Vec<&str> = all.iter().filter(|it| it.role == "region").map(|it| it.name.as_str()).collect();
    assert_eq!(regions, ["Scenario", "What if", "Pods", "Nodes"]);
    let sliders: Vec<&str> = all.iter().filter(|it| it.role == "slider").map(|it| it.name.as_str()).collect();
    assert_eq!(sliders, ["Number of new nodes", "Replicas of Deployment shop/web"]);
    let status = browser.text("document.querySelector('#status').textContent");
    assert!(status.contains("pending pods placed"), "{status}");
    is_quiet(&browser);
}

#[test]
fn page_and_worker_cannot_connect_anywhere() {
    let driver = Driver::start();
    let browser = opened(&driver, (1000, 800), false);
    is_quiet(&browser);
    browser.eval("(window.tried = [], fetch('http://127.0.0.1:9/').catch(() => tried.push('fetch')), document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/\">'))");
    browser.eval("(window.inner = new Worker(URL.createObjectURL(new Blob([\"fetch('http://127.0.0.1:9/').then(() => postMessage('sent'), () => postMessage('refused'))\"]))), inner.onmessage = (event) => tried.push(event.data))");
    browser.wait_for("tried.length === 2");
    let tried = browser.eval("tried.sort()");
    assert_eq!(tried, json!(["fetch", "refused"]));
    let (said, _) = browser.heard();
    assert!(said.iter().filter(|line| line.contains("Content Security Policy")).count() >= 2, "{said:?}");
}

/// Takes a screenshot, and compares the page with the one that is kept.
fn picture(browser: &Browser<'_>, name: &str) {
    browser.picture(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots"), name);
}
