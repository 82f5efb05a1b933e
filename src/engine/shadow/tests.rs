//! Tests that the book stays within its bounds and that its JSON is a valid report.

use super::*;
use supercargo_core::compare::{Agreement, Comparison, OtherDecision};
use supercargo_core::model::effect::PodRef;
use supercargo_core::shadow::{Judgement, Unjudged};
use supercargo_whatif::shadow_report::ShadowReport;

fn judgement(name: &str, agreement: Agreement) -> Judgement {
    let theirs = OtherDecision::None { message: "0/1 nodes are available".to_owned() };
    let comparison = Comparison { ours: None, theirs, feasible: 1 };
    Judgement {
        pod: PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: name.into() },
        at: Time::from_secs(1),
        agreement,
        regret: None,
        comparison: (agreement != Agreement::Same).then_some(comparison),
    }
}

fn shown(book: &Results) -> ShadowReport {
    serde_json::from_str(&book.to_json()).expect("the JSON is a report")
}

#[test]
fn results_count_everything_and_keep_the_latest_disagreements() {
    let book = Results::bounded("default-scheduler", 2, 1 << 20);
    book.judged(&judgement("agreed", Agreement::Same), Time::from_secs(2));
    for name in ["first", "second", "third"] {
        book.judged(&judgement(name, Agreement::WeFitTheyNot), Time::from_secs(2));
    }
    book.unjudged(Unjudged::Unordered);
    let report = shown(&book);
    assert!(report.is_of_this_version());
    assert_eq!(report.decisions["same"], 1);
    assert_eq!(report.decisions["we_fit_they_not"], 3);
    assert_eq!(report.decisions["raced"], 0, "every label is present");
    assert_eq!(report.unjudged["unordered"], 1);
    assert_eq!(report.dropped, 1);
    let names: Vec<&str> = report.disagreements.iter().map(|it| &*it.pod.name).collect();
    assert_eq!(names, ["second", "third"]);
}

#[test]
fn results_drop_disagreements_over_the_byte_limit() {
    let one = Results::new("them");
    one.judged(&judgement("a", Agreement::Raced), Time::from_secs(2));
    let room = serde_json::to_string(&shown(&one).disagreements[0]).expect("the entry serializes").len() + 20;
    let book = Results::bounded("them", 100, 2 * room);
    for name in ["a", "b", "c", "d"] {
        book.judged(&judgement(name, Agreement::Raced), Time::from_secs(2));
    }
    let report = shown(&book);
    assert_eq!((report.disagreements.len(), report.dropped), (2, 2));
    book.judged(&judgement(&"e".repeat(3 * room), Agreement::Raced), Time::from_secs(2));
    let report = shown(&book);
    assert_eq!((report.disagreements.len(), report.dropped), (0, 5), "an entry over the limit is not stored");
}

#[test]
fn shadow_grants_no_credits() {
    assert!(Nowhere.credits().is_empty());
}
