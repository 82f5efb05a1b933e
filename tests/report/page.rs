//! The page as text: sections, data and escaping.

use crate::cluster;
use crate::support::{Folder, node, pod};
use serde_json::{Value, json};

/// Returns the text between two markers; the first occurs once.
fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    assert_eq!(page.matches(before).count(), 1, "{before}");
    let (_, rest) = page.split_once(before).expect("it is there");
    rest.split_once(after).expect("it ends").0
}

fn data(page: &str) -> Value {
    let text = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    serde_json::from_str(text).expect("the data is JSON")
}

fn before_and_after() -> Folder {
    let folder = Folder::of(&cluster::cluster(12, 60));
    folder.write("new", &[cluster::checkout(6)]);
    folder
}

#[test]
fn page_has_all_sections_with_headings() {
    let page = before_and_after().page(&["-f", "new"]);
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    for section in ["summary", "waiting", "nodes", "spread", "owners", "pods"] {
        let heading = format!(
            "<section id=\"{section}\" aria-labelledby=\"{section}-heading\">\n<h2 id=\"{section}-heading\">"
        );
        assert!(page.contains(&heading), "{section}");
        assert!(page.contains(&format!("<a href=\"#{section}\">")), "{section}");
    }
    for landmark in [
        "<header>",
        "<nav aria-label=",
        "<main id=\"main\"",
        "<aside id=\"panel\"",
        "role=\"status\"",
        "<noscript>",
    ] {
        assert!(page.contains(landmark), "{landmark}");
    }
}

#[test]
fn page_data_equals_the_json_report() {
    let folder = before_and_after();
    assert_eq!(data(&folder.page(&["-f", "new"])), folder.model(&["-f", "new"]));
}

#[test]
fn page_loads_nothing_external_and_blocks_foreign_scripts() {
    let page = before_and_after().page(&[]);
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for outside in [
        " src=",
        "<link",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "innerHTML",
        "eval(",
        " style=",
        " onclick=",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let links = page.matches("href=\"").count();
    assert_eq!(links, page.matches("href=\"#").count(), "links lead to the page itself");
}

#[test]
fn page_shows_its_main_facts_without_scripts() {
    let page = before_and_after().page(&["-f", "new"]);
    let shown = page.split("<script").next().expect("there is a beginning");
    for text in [
        "Placed 6 of 6 pods",
        "Did you mean <code>disk=ssd</code>?",
        "requests 64 cpu",
        "data/trainer-0",
        "eu-north-1a",
        "<code>NodeSelectorMismatch</code>",
        "kubernetes.io/hostname",
    ] {
        assert!(shown.contains(text), "{text}");
    }
}

#[test]
fn markup_and_control_characters_in_names_are_escaped() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&quot;\u{1b}[2J\u{202e}\u{2028}{{data}}";
    let mut bad = pod("p", "1", &json!({ "nodeSelector": { "a": evil } }));
    bad["metadata"]["name"] = json!(evil);
    bad["metadata"]["namespace"] = json!(evil);
    let mut tainted = node(evil, evil);
    tainted["spec"] = json!({ "taints": [{ "key": evil, "value": evil, "effect": "NoSchedule" }] });
    let folder = Folder::of(&[tainted, bad]);
    let page = folder.page(&["--as-written"]);
    assert_eq!(page.matches("</script>").count(), 2, "the data and the script end once each");
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "control characters are escaped");
    assert!(!page.contains(['\u{202e}', '\u{2028}']), "bidirectional controls are escaped");
    assert_eq!(data(&page)["nodes"]["name"], json!([evil]), "the data has the original name");
    let shown = page.split("<script").next().expect("there is a beginning");
    assert!(shown.contains("&lt;/script&gt;") && shown.contains("\\u{1b}[2J\\u{202e}\\u{2028}{{data}}"));
}

#[test]
fn empty_cluster_has_a_page() {
    let page = Folder::of(&[]).page(&[]);
    assert!(page.contains("No pending pods.") && page.contains("No pod has a topology spread constraint."));
    let page = Folder::of(&[pod("p", "1", &json!({}))]).page(&[]);
    assert!(page.contains("the cluster has no nodes"));
}
