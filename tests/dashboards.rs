//! Checks dashboards, rules and runbooks: every panel and rule uses metrics and labels that exist in a scrape, and
//! every alert has a runbook and a test.
//!
//! Reads only files. `tests/fixtures/metrics-ours.txt` lists what a scrape has, which a test on a real control plane
//! verifies, and `metrics-groups.txt` beside it what the feature gate of pod groups adds. promtool tests that rules
//! fire (`make rules`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(documents.len(), 1, "{name} is one document");
    documents.remove(0)
}

fn dashboard() -> Value {
    serde_json::from_str(&read("dashboards/supercargo.json")).expect("the dashboard is JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

/// Series by name, each with its possible labels, including the target's.
type Known = BTreeMap<String, BTreeSet<String>>;

const OF_THE_TARGET: [&str; 2] = ["job", "instance"];

fn labels<'a>(of: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    of.into_iter().chain(OF_THE_TARGET).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// Returns the series of a scrape.
fn scraped() -> Known {
    let mut known = Known::new();
    let lists = [read("tests/fixtures/metrics-ours.txt"), read("tests/fixtures/metrics-groups.txt")];
    for line in lists.iter().flat_map(|list| list.lines()).filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, kind, keys) = (word(), word(), labels(word().split(',')));
        if kind == "histogram" {
            let with_bound = keys.iter().cloned().chain(["le".to_owned()]).collect();
            known.insert(format!("{name}_bucket"), with_bound);
            known.insert(format!("{name}_sum"), keys.clone());
            known.insert(format!("{name}_count"), keys);
        } else {
            known.insert(name.to_owned(), keys);
        }
    }
    // Series that Prometheus adds for every target.
    known.insert("up".to_owned(), labels([]));
    known
}

/// Families of which the recorded scrapes show no series, with the reason.
const NOT_SCRAPED: [(&str, &str); 10] = [
    ("scheduler_queueing_hint_execution_duration_seconds", "listed so that a version can lack it"),
    ("scheduler_resourceclaim_creates_total", "counts claims that the scheduler makes"),
    ("dynamic_resource_allocation_resourceclaim_creates_total", "from 1.37 on"),
    ("scheduler_dra_bindingconditions_allocations_total", "counts devices with binding conditions"),
    ("scheduler_dra_bindingconditions_wait_duration_seconds", "counts devices with binding conditions"),
    ("scheduler_volume_scheduling_stage_error_total", "counts errors"),
    ("scheduler_queued_entities", "from 1.37 on"),
    ("scheduler_queue_incoming_entities_total", "from 1.37 on"),
    ("kubernetes_healthcheck", "on the page /metrics/slis"),
    ("kubernetes_healthchecks_total", "on the page /metrics/slis"),
];

#[test]
fn each_declared_family_is_in_a_recorded_scrape_or_has_a_reason() {
    let sources = ["families.rs", "groups.rs"].map(|file| read(&format!("src/telemetry/metrics/{file}")));
    let names = |source: &str| -> Vec<String> {
        let after = source.split("Family::new(").skip(1);
        let name = |text: &str| text.split('"').nth(1).expect("a family has a name").to_owned();
        after.map(name).collect()
    };
    let declared: BTreeSet<String> = sources.iter().flat_map(|source| names(source)).collect();
    let lists = [read("tests/fixtures/metrics-ours.txt"), read("tests/fixtures/metrics-groups.txt")];
    let lines = lists.iter().flat_map(|list| list.lines());
    let scraped: BTreeSet<String> =
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    let missing: Vec<&String> = declared.difference(&scraped).collect();
    let excepted: BTreeSet<String> = NOT_SCRAPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(declared.len() > 90, "only {} declared families were found", declared.len());
    assert_eq!(
        missing,
        excepted.iter().collect::<Vec<_>>(),
        "a family without a series in the recorded scrapes"
    );
}

/// A query's selectors, and the labels by which it groups.
#[derive(Debug, Default)]
struct Query {
    selectors: Vec<(String, Vec<String>)>,
    grouped: Vec<String>,
}

const WORDS: [&str; 20] = [
    "sum",
    "max",
    "min",
    "count",
    "topk",
    "rate",
    "increase",
    "histogram_quantile",
    "absent",
    "changes",
    "by",
    "on",
    "and",
    "or",
    "unless",
    "without",
    "avg",
    "bool",
    "ignoring",
    "group_left",
];

impl Query {
    /// Parses the names in a query; panics at an unknown word.
    fn read(text: &str) -> Self {
        let (mut query, mut rest, mut last) = (Self::default(), text, String::new());
        while let Some(first) = rest.chars().next() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
            if first == '[' {
                rest = rest.split_once(']').expect("a range ends").1;
            } else if first == '{' {
                let (inside, after) = rest[1..].split_once('}').expect("a selector ends");
                let keys = matchers(inside);
                let selector = query.selectors.last_mut().filter(|(name, _)| *name == last);
                selector.unwrap_or_else(|| panic!("a selector without a name in {text}")).1.extend(keys);
                rest = after;
            } else if first == '(' && matches!(last.as_str(), "by" | "on") {
                let (inside, after) = rest[1..].split_once(')').expect("a list ends");
                query.grouped.extend(inside.split(',').map(|label| label.trim().to_owned()));
                (rest, last) = (after, String::new());
            } else if first.is_ascii_alphabetic() || first == '_' {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let word = &rest[..end];
                if !WORDS.contains(&word) {
                    query.selectors.push((word.to_owned(), Vec::new()));
                }
                word.clone_into(&mut last);
                rest = &rest[end..];
            } else if first.is_ascii_digit() {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
                rest = &rest[end..];
            } else {
                assert!(" \n(),*/+->=<".contains(first), "{first:?} in {text}");
                rest = &rest[first.len_utf8()..];
            }
        }
        query
    }

    fn check(&self, known: &Known, whose: &str) {
        assert!(!self.selectors.is_empty(), "{whose} has no selector");
        let mut all = BTreeSet::new();
        for (name, keys) in &self.selectors {
            let has = known.get(name).unwrap_or_else(|| panic!("{whose}: unknown series {name}"));
            for key in keys {
                assert!(has.contains(key), "{whose}: {name} has no label {key}");
            }
            all.extend(has.iter().cloned());
        }
        for label in &self.grouped {
            assert!(all.contains(label), "{whose}: no selected series has the label {label}");
        }
    }
}

/// Returns the labels of `a="b", c=~"d"`; values may contain commas.
fn matchers(inside: &str) -> Vec<String> {
    let outside: Vec<&str> = inside.split('"').step_by(2).collect();
    outside
        .iter()
        .filter_map(|part| part.split(['=', '!']).next())
        .map(|key| key.trim_matches([',', ' ']).to_owned())
        .filter(|key| !key.is_empty())
        .collect()
}

#[test]
fn query_is_parsed_into_names_and_labels() {
    let query = Query::read(
        r#"sum by (job, le) (rate(a_bucket{job="x", code=~"5..|<error>"}[5m])) > 14.4 * 0.01 and on (job) b:c"#,
    );
    let names: Vec<&str> = query.selectors.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a_bucket", "b:c"]);
    assert_eq!(query.selectors[0].1, ["job", "code"]);
    assert_eq!(query.grouped, ["job", "le", "job"]);
}

#[test]
fn every_panel_queries_existing_series() {
    let (known, mut queries) = (scraped(), 0);
    for panel in dashboard()["panels"].as_array().expect("there are panels") {
        let title = text(&panel["title"]);
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = text(&target["expr"]);
            Query::read(expr).check(&known, title);
            assert!(!expr.contains("[5m]"), "{title}: rates must use $__rate_interval");
            for selector in expr.split('{').skip(1) {
                assert!(
                    selector.starts_with(r#"job=~"$job", instance=~"$instance""#),
                    "{title} must use the dashboard's variables"
                );
            }
            queries += 1;
        }
    }
    assert!(queries > 25, "{queries} queries");
}

#[test]
fn every_panel_has_a_description_and_a_unit() {
    let dashboard = dashboard();
    let (mut ids, mut rows) = (BTreeSet::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("there are panels") {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64()), "{title} must have a unique id");
        if panel["type"] == "row" {
            rows.push(title.to_owned());
            continue;
        }
        assert!(text(&panel["description"]).len() > 30, "{title} has a description");
        assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{title} has a unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        if panel["type"] == "timeseries" {
            assert_eq!(panel["options"]["legend"]["displayMode"], "table", "{title}");
        }
        for target in panel["targets"].as_array().expect("a panel has queries") {
            assert!(!text(&target["legendFormat"]).is_empty(), "{title} must have legends");
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    let questions = [
        "Is it scheduling?",
        "Why are pods pending?",
        "Where is time spent?",
        "Is it healthy?",
        "Do pod groups start?",
        "Does shadow mode agree?",
    ];
    assert_eq!(rows, questions);
}

#[test]
fn panels_do_not_overlap_and_fit_the_page() {
    let mut taken = BTreeSet::new();
    for panel in dashboard()["panels"].as_array().expect("there are panels") {
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for cell in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert(cell), "{} overlaps another", panel["title"]);
        }
    }
}

#[test]
fn dashboard_can_be_provisioned() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "supercargo-overview", "links use this uid");
    assert_eq!(dashboard["editable"], false);
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|v| text(&v["name"]))
        .collect();
    assert_eq!(variables, ["datasource", "job", "instance"]);
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    assert!(dashboard["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "supercargo")));
}

fn rules() -> Vec<Value> {
    let groups = yaml("dashboards/rules.yaml")["groups"].clone();
    groups
        .as_array()
        .expect("groups")
        .iter()
        .flat_map(|g| g["rules"].as_array().expect("rules").clone())
        .collect()
}

#[test]
fn every_rule_uses_existing_series_or_earlier_rules() {
    let mut known = scraped();
    for rule in rules() {
        let name = rule["record"].as_str().or(rule["alert"].as_str()).expect("a rule has a name").to_owned();
        let expr = text(&rule["expr"]);
        let query = Query::read(expr);
        query.check(&known, &name);
        for selector in
            expr.split('{').skip(1).filter(|selector| !selector.starts_with("result=\"error\"}\n"))
        {
            assert!(selector.starts_with("job=\"supercargo\""), "{name} selects other jobs, too: {selector}");
        }
        if rule["record"].is_string() {
            let kept = query.grouped.into_iter().filter(|label| label != "le").collect();
            known.insert(name, kept);
        }
    }
}

#[test]
fn every_alert_has_a_runbook_positive_and_negative_tests_and_texts() {
    let tests = yaml("dashboards/rules-test.yaml");
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for test in tests["tests"].as_array().expect("tests") {
        for case in test["alert_rule_test"].as_array().expect("alerts") {
            let fired = case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
            if fired { &mut fires } else { &mut silent }.insert(text(&case["alertname"]).to_owned());
        }
    }
    let mut alerts = BTreeSet::new();
    for rule in rules().into_iter().filter(|rule| rule["alert"].is_string()) {
        let name = text(&rule["alert"]).to_owned();
        let file = format!("docs/runbooks/{name}.md");
        assert!(text(&rule["annotations"]["runbook_url"]).ends_with(&file), "{name}");
        let runbook = read(&file);
        assert!(runbook.starts_with(&format!("# {name}\n")), "{file}");
        for part in ["Meaning", "Impact", "Diagnosis", "Mitigation"] {
            assert!(runbook.contains(&format!("\n## {part}\n")), "{file} has no part {part}");
        }
        for word in ["summary", "description"] {
            assert!(!text(&rule["annotations"][word]).is_empty(), "{name}: {word}");
        }
        assert!(matches!(text(&rule["labels"]["severity"]), "critical" | "warning" | "info"), "{name}");
        alerts.insert(name);
    }
    assert_eq!(alerts, fires, "each alert fires in rules-test.yaml");
    assert_eq!(alerts, silent, "each alert has a negative test there");
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks")).expect("runbooks");
    let files: BTreeSet<String> = files
        .map(|file| file.expect("a file").file_name().to_string_lossy().trim_end_matches(".md").to_owned())
        .collect();
    assert_eq!(alerts, files, "every runbook belongs to an alert");
}

#[test]
fn series_in_runbooks_exist() {
    let known = scraped();
    for rule in rules().iter().filter_map(|rule| rule["alert"].as_str()) {
        let runbook = read(&format!("docs/runbooks/{rule}.md"));
        for quoted in runbook.split('`').skip(1).step_by(2) {
            let Some(at) =
                quoted.find("scheduler_").or(quoted.find("supercargo_")).or(quoted.find("rest_client_"))
            else {
                continue;
            };
            let name: String =
                quoted[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let there = known.keys().any(|series| series.starts_with(&name))
                || name == "scheduler_volume_scheduling_stage_error_total";
            assert!(there, "{rule}: unknown series {name}");
        }
    }
}
