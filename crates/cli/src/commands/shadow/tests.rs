//! Tests of the text output and of rejected input.

use super::*;
use clap::Parser;
use supercargo_whatif::shadow_report::{Cell, Disagreement, Node, PodName, Side};

fn node(name: &str, scores: [(i64, i64); 2]) -> Node {
    let [(spread, spread_score), (fit, fit_score)] = scores;
    let cell = |plugin: &str, raw, normalized, weight| Cell {
        plugin: plugin.to_owned(),
        raw,
        normalized,
        weight,
        weighted: normalized * weight,
    };
    Node {
        node: name.to_owned(),
        total: spread_score * 2 + fit_score,
        plugins: vec![
            cell("PodTopologySpread", spread, spread_score, 2),
            cell("NodeResourcesFit", fit, fit_score, 1),
        ],
    }
}

fn report() -> ShadowReport {
    let pod =
        |name: &str| PodName { namespace: "shop".to_owned(), name: name.to_owned(), uid: "1".to_owned() };
    let word = |text: &str| text.to_owned();
    ShadowReport {
        api_version: word("supercargo.dev/v1alpha1"),
        kind: word("ShadowReport"),
        shadow_of: word("default-scheduler"),
        since: word("2026-01-01T00:00:00Z"),
        decisions: [(word("same"), 6), (word("different"), 1), (word("they_fit_we_not"), 1)].into(),
        unjudged: [(word("unordered"), 2), (word("failed"), 0)].into(),
        dropped: 3,
        disagreements: vec![
            Disagreement {
                time: word("2026-01-01T00:00:07Z"),
                pod: pod("web-1"),
                agreement: word("different"),
                regret: Some(50),
                feasible_nodes: 2,
                ours: Some(node("node-a", [(1, 100), (75, 75)])),
                theirs: Side::Scored(node("node-b", [(4, 50), (125, 125)])),
            },
            Disagreement {
                time: word("2026-01-01T00:00:08Z"),
                pod: pod("web\u{1b}[2J"),
                agreement: word("they_fit_we_not"),
                regret: None,
                feasible_nodes: 0,
                ours: None,
                theirs: Side::Rejected {
                    node: word("node-c"),
                    rejected_by: Some(word("NodeResourcesFit")),
                    reason: word("Insufficient cpu"),
                },
            },
        ],
    }
}

const TABLE: &str = "\
shadow of default-scheduler since 2026-01-01T00:00:00Z: 8 decisions compared, 2 not compared

AGREEMENT         DECISIONS   SHARE
same                      6   75.0%
different                 1   12.5%
they_fit_we_not           1   12.5%
not compared, unordered: 2

3 earlier disagreements dropped

2026-01-01T00:00:07Z  shop/web-1  different, regret 50, 2 feasible nodes
  WHOSE   NODE    PLUGIN                      RAW  NORMALIZED  WEIGHT  WEIGHTED
  ours    node-a  PodTopologySpread             1         100       2       200
  ours    node-a  NodeResourcesFit             75          75       1        75
  ours    node-a  TOTAL                                                     275
  theirs  node-b  PodTopologySpread             4          50       2       100
  theirs  node-b  NodeResourcesFit            125         125       1       125
  theirs  node-b  TOTAL                                                     225

2026-01-01T00:00:08Z  shop/web\\u{1b}[2J  they_fit_we_not, 0 feasible nodes
  theirs node-c: Insufficient cpu (NodeResourcesFit)
  ours   none
";

#[test]
fn report_shows_both_score_tables_without_control_characters() {
    assert_eq!(table::render(&report()), TABLE);
}

#[test]
fn report_survives_a_json_round_trip() {
    let text = serde_json::to_string(&report()).expect("the report serializes");
    assert_eq!(parsed(&text).expect("the JSON is a report"), report());
}

#[test]
fn other_kinds_and_versions_are_rejected() {
    let error = parsed("{}").expect_err("the object is empty").to_string();
    assert!(
        error.starts_with("not a ShadowReport: ") && error.ends_with("; give an answer of /debug/shadow")
    );
    let text =
        serde_json::to_string(&ShadowReport { api_version: "supercargo.dev/v9".to_owned(), ..report() });
    let error =
        parsed(&text.expect("the report serializes")).expect_err("the version is not supported").to_string();
    assert_eq!(
        error,
        "this is a ShadowReport of supercargo.dev/v9, which this version of supercargo does not support; \
         use the supercargo of the shadow's version"
    );
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    _args: ShadowArgs,
}

#[test]
fn report_requires_exactly_one_source() {
    let read = |line: &[&str]| {
        Line::try_parse_from(["shadow", "report"].iter().chain(line))
            .map(drop)
            .map_err(|error| error.exit_code())
    };
    assert_eq!(read(&["--server", "https://localhost:1", "--insecure-skip-tls-verify"]), Ok(()));
    assert_eq!(read(&["-f", "-", "-o", "json"]), Ok(()));
    assert_eq!(read(&[]), Err(2));
    assert_eq!(read(&["-f", "-", "--server", "https://localhost:1"]), Err(2));
    assert_eq!(read(&["-f", "-", "--token-file", "t"]), Err(2));
}

#[test]
fn missing_file_is_named_in_the_error() {
    let args = ReportArgs {
        request_timeout: std::time::Duration::from_secs(10),
        port: PortArgs::default(),
        file: Some(PathBuf::from("no-such-report.json")),
        output: Output::Table,
    };
    let Err(Failed { cause, code }) = report_text(&args) else { panic!("the file does not exist") };
    assert_eq!(code, 2);
    assert!(cause.to_string().contains("no-such-report.json"), "{cause:#}");
}
