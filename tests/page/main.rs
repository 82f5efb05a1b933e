//! The page of `supercargo report` in a real browser: no network access, no errors, navigation by keyboard
//! and mouse, and screen reader output. Also takes the pictures in docs/screenshots.
//!
//! Part of `make release-check`. Needs chromium and chromedriver, which `tests/release/chromium.sh` installs
//! if possible.

mod accessibility;
#[path = "../report/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "the tests of the other page use the rest of it")]
mod driver;
#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../offline/mod.rs"]
mod offline;
mod screen_readers;

use driver::{Browser, Driver, keys};
use offline::{Folder, Ran};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A folder with reports.
struct Reports(Folder);

impl Reports {
    fn new() -> Self {
        Self(Folder::new())
    }

    fn write(&self, name: &str, objects: &[Value]) {
        self.0.write(name, &offline::list(objects));
    }

    /// Writes a report with these flags.
    fn make(&self, name: &str, args: &[&str]) -> PathBuf {
        let page = self.0.path().join(name);
        let args = [&["report"], args, &["--to", name]].concat();
        let mut command = offline::command(self.0.path(), &args);
        let out = command.env("SOURCE_DATE_EPOCH", "1790000000").output();
        let ran = Ran::of(out.expect("the program is built"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        page
    }
}

/// Takes a screenshot, and compares the page with the one that is kept.
fn picture(browser: &Browser<'_>, name: &str) {
    browser.picture(&offline::root().join("docs/screenshots"), name);
}

/// Asserts that only the page was loaded, and that the console has no messages.
fn is_quiet(browser: &Browser<'_>) {
    let (said, asked) = browser.heard();
    assert_eq!(said, Vec::<String>::new(), "the console is silent");
    let foreign: Vec<&String> =
        asked.iter().filter(|url| !url.starts_with("file://") && *url != "data:,").collect();
    assert!(foreign.is_empty(), "asked for {foreign:?}");
    assert_eq!(
        asked.iter().filter(|url| url.starts_with("file://")).count(),
        1,
        "one file is all there is: {asked:?}"
    );
}

fn small(reports: &Reports) -> PathBuf {
    reports.write("cluster.json", &cluster::cluster(48, 420));
    reports.write("checkout.json", &[cluster::checkout(60)]);
    reports.make("small.html", &["--cluster", "cluster.json", "-f", "checkout.json"])
}

#[test]
fn clicks_open_a_node_a_pod_its_scores_and_an_explanation() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let page = small(&reports);
    let browser = driver.open(1400, 900, false);
    browser.go(&page);
    assert_eq!(browser.eval("document.querySelectorAll('.cell[data-node]').length"), 48);
    picture(&browser, "report.png");

    browser.click(".cell[data-node='10']");
    let name = browser.text("document.querySelector('#panel-heading').textContent");
    assert_eq!(browser.text("document.activeElement.id"), "panel");
    assert_eq!(name, browser.text("model.nodes.name[10]"));
    let requests = browser.text("document.querySelector('#panel table').textContent");
    assert!(requests.contains("cpu") && requests.contains("15890m"), "{requests}");

    browser.write("#pod-list input", "checkout worker-b");
    browser.wait_for("document.querySelector('#status').textContent.includes('of Pods')");
    browser.press(&[keys::ESCAPE]);
    assert_eq!(browser.eval("document.querySelector('#panel').hidden"), true);
    browser.click("#pod-list tbody .link");
    let heading = browser.text("document.querySelector('#panel-heading').textContent");
    assert!(heading.starts_with("shop/checkout-"), "{heading}");
    let best = browser.eval("document.querySelectorAll('#panel .scores tbody tr').length");
    assert!(best.as_u64().is_some_and(|rows| (1..=21).contains(&rows)), "{best}");
    let panel = browser.text("document.querySelector('#panel').textContent");
    assert!(panel.contains("Decided by:") && panel.contains("Why not the other nodes"), "{panel}");
    picture(&browser, "report-scores.png");
    browser.press(&[keys::ESCAPE]);

    browser.eval("document.querySelector('#waiting-0 summary').click()");
    assert_eq!(browser.eval("document.querySelector('#waiting-0').open"), true);
    let text = browser.text("document.querySelector('#waiting-0').textContent");
    assert!(text.contains("Possible fixes"), "{text}");
    is_quiet(&browser);
}

#[test]
fn keyboard_moves_between_nodes_opens_one_and_returns() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let page = small(&reports);
    let browser = driver.open(1400, 900, false);
    browser.go(&page);
    browser.press(&[keys::TAB]);
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    browser.eval("document.querySelector('.cell[tabindex=\"0\"]').focus()");
    let here = || browser.text("document.activeElement.dataset.node");
    let first = here();
    browser.press(&[keys::RIGHT]);
    let second = here();
    assert_ne!(first, second);
    browser.press(&[keys::DOWN, keys::UP, keys::LEFT]);
    assert_eq!(here(), first);
    browser.press(&[keys::END]);
    assert_ne!(here(), first);
    let outline = browser.text("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid", "the focus is seen");
    let last = here();
    browser.press(&[keys::ENTER]);
    assert_eq!(browser.text("document.activeElement.id"), "panel");
    browser.press(&[keys::ESCAPE]);
    assert_eq!(here(), last, "the focus is where it was");
    let label = browser.text("document.activeElement.getAttribute('aria-label')");
    assert!(label.contains("cpu") && label.contains(" % ("), "{label}");
    is_quiet(&browser);
}

#[test]
fn map_switches_resource_and_state_and_announces_it() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let page = small(&reports);
    let browser = driver.open(1400, 900, true);
    browser.go(&page);
    let all = || {
        browser.text("[...document.querySelectorAll('.cell .share')].map((it) => it.textContent).join(' ')")
    };
    let after = all();
    browser.click("input[name='state']");
    let before = all();
    assert_ne!(after, before);
    assert!(browser.text("document.querySelector('#status').textContent").contains("cpu, before"));
    browser.eval("(document.querySelector('#map-resource').selectedIndex = 1, document.querySelector('#map-resource').dispatchEvent(new Event('change')))");
    assert_ne!(all(), before);
    browser.eval("document.querySelector('#nodes').scrollIntoView()");
    picture(&browser, "report-dark.png");
    is_quiet(&browser);
}

#[test]
fn plan_is_drawn_with_its_moves() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let cluster = offline::root().join("docs/plan/cluster.yaml").display().to_string();
    let args = ["plan", "free-nodes", "--all-possible", "--cluster", &cluster, "-o", "json"];
    let plan = offline::run(offline::root(), &args);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    std::fs::write(reports.0.path().join("plan.json"), &plan.stdout).expect("a file can be written");
    std::fs::copy(&cluster, reports.0.path().join("cluster.yaml")).expect("a file can be copied");
    let page = reports.make("plan.html", &["--cluster", "cluster.yaml", "--plan", "plan.json"]);
    let browser = driver.open(1100, 560, false);
    browser.go(&page);
    assert_eq!(browser.eval("document.querySelectorAll('#moves path').length"), 2);
    browser.eval("document.querySelector('#moves').scrollIntoView()");
    picture(&browser, "report-moves.png");
    is_quiet(&browser);
}

#[test]
fn removed_and_added_nodes_are_absent_in_the_other_state() {
    let (driver, reports) = (Driver::start(), Reports::new());
    reports.write("cluster.json", &cluster::cluster(12, 60));
    let flags = ["--remove-node", "worker-a-0000", "--add-nodes", "1:template=worker-b-0000"];
    let page = reports.make("changed.html", &[&["--cluster", "cluster.json"][..], &flags].concat());
    let browser = driver.open(1400, 900, false);
    browser.go(&page);
    let of = |name: &str| {
        let node = format!("model.nodes.name.indexOf('{name}')");
        browser.text(&format!("document.querySelector(`.cell[data-node='${{{node}}}']`).textContent"))
    };
    assert!(of("worker-a-0000").contains("absent"), "{}", of("worker-a-0000"));
    assert!(!of("worker-b-0000-new-1").contains("absent"));
    browser.click("input[name='state']");
    assert!(!of("worker-a-0000").contains("absent"));
    assert!(of("worker-b-0000-new-1").contains("absent"));
    is_quiet(&browser);
}

#[test]
fn narrow_screen_does_not_scroll_sideways() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let page = small(&reports);
    let browser = driver.open(360, 740, false);
    browser.go(&page);
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 360);
    browser.eval("document.querySelector('#nodes').scrollIntoView()");
    picture(&browser, "report-narrow.png");
    browser.click(".cell[data-node='3']");
    assert_eq!(browser.eval("document.querySelector('#panel').getBoundingClientRect().width"), 360);
    is_quiet(&browser);
}

#[test]
fn page_shows_all_5000_nodes() {
    let (driver, reports) = (Driver::start(), Reports::new());
    reports.write("cluster.json", &cluster::cluster(5_000, 50_000));
    let page = reports
        .make("large.html", &["--cluster", "cluster.json", "--score-tables", "20", "--explanations", "5"]);
    let browser = driver.open(1400, 1000, false);
    browser.go(&page);
    assert_eq!(browser.eval("document.querySelectorAll('.cell[data-node]').length"), 5_000);
    let elements = browser.eval("document.querySelectorAll('*').length");
    assert!(elements.as_u64().is_some_and(|count| count < 20_000), "{elements}");
    browser.eval("document.querySelector('#nodes').scrollIntoView()");
    picture(&browser, "report-5000.png");
    browser.write("#pod-list input", "api-6d4cf56db9-00123");
    browser.wait_for("document.querySelectorAll('#pod-list tbody tr').length === 1");
    browser.eval("document.querySelector('.cell[tabindex=\"0\"]').focus()");
    browser.press(&[keys::DOWN, keys::ENTER]);
    assert_eq!(browser.text("document.activeElement.id"), "panel");
    is_quiet(&browser);
}

#[test]
fn markup_and_control_characters_in_names_are_escaped() {
    let (driver, reports) = (Driver::start(), Reports::new());
    let evil = "</script><script>document.title='x'</script><img src=x onerror=\"document.title='y'\">\u{1b}[2J\u{202e}";
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "9" } },
        "metadata": { "name": evil, "labels": { "topology.kubernetes.io/zone": evil } },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": evil, "namespace": evil },
        "spec": { "nodeSelector": { "a": evil }, "containers": [{ "name": "c", "image": "i" }] },
    });
    reports.write("cluster.json", &[node, pod]);
    let page = reports.make("evil.html", &["--cluster", "cluster.json", "--as-written"]);
    let browser = driver.open(1000, 800, false);
    browser.go(&page);
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    assert_eq!(browser.eval("document.querySelectorAll('script').length"), 2);
    assert_eq!(browser.text("document.title"), "cluster.json - supercargo report");
    browser.click(".cell[data-node]");
    let heading = browser.text("document.querySelector('#panel-heading').textContent");
    assert!(
        heading.starts_with("</script><script>") && heading.ends_with("\\u{1b}[2J\\u{202e}"),
        "{heading}"
    );
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    is_quiet(&browser);
    // Injected markup would have no effect, and the console shows the violation.
    browser.eval("document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/\" onerror=\"document.title=1\">')");
    let refused = "Content Security Policy";
    browser.wait_for("document.images.length === 1 && document.images[0].complete");
    let (said, _) = browser.heard();
    assert!(said.iter().any(|line| line.contains(refused)), "{said:?}");
    assert_eq!(browser.text("document.title"), "cluster.json - supercargo report");
}
