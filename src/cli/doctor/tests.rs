//! What facts come to, and how it is told.

use super::facts::{Configured, Facts, Lease, configuration, series};
use super::judge::checks;
use super::*;
use clap::Parser;
use serde_json::json;

fn args() -> DoctorArgs {
    let line = crate::args::Args::try_parse_from(["supercargo", "doctor"]).expect("no flag is needed");
    let Some(crate::args::Command::Doctor(args)) = line.command else { panic!("it is the doctor's") };
    args
}

fn lease(age: i64) -> Option<Lease> {
    Some(Lease { holder: "supercargo-7d4f_uuid".to_owned(), age, good_for: 15 })
}

fn configured(by: &str, serves: &[&str], lease: &str) -> Configured {
    Configured {
        by: by.to_owned(),
        serves: serves.iter().map(|&name| name.to_owned()).collect(),
        lease: Some(("kube-system".to_owned(), lease.to_owned())),
    }
}

/// An installation with nothing amiss.
fn healthy() -> Facts {
    Facts {
        version: Ok("v1.36.3".to_owned()),
        account: Ok(true),
        rights: Ok(rights::all().into_iter().map(|right| (right, true)).collect()),
        lease: Ok(lease(2)),
        kube_scheduler: Ok(lease(1)),
        configured: Ok(vec![configured("kube-system/supercargo-config", &["supercargo"], "supercargo")]),
        pending: Ok([("supercargo".to_owned(), 3), ("default-scheduler".to_owned(), 1)].into()),
        drift: Ok(Some([("kind=\"Pod\",which=\"missed\"".to_owned(), 0)].into())),
    }
}

fn found(facts: &Facts) -> Vec<(&'static str, Status)> {
    let checks = checks(facts, &args());
    assert_eq!(checks.iter().map(|check| check.id).collect::<Vec<_>>(), CHECK_IDS);
    checks.iter().filter(|check| check.status != Status::Ok).map(|check| (check.id, check.status)).collect()
}

#[test]
fn where_nothing_is_amiss_all_is_well() {
    assert_eq!(found(&healthy()), []);
    let report = DoctorReport::of(checks(&healthy(), &args()));
    let text = text(&report, false);
    assert!(text.starts_with(&format!("supercargo {}: all is well\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(!text.contains("What to do"), "{text}");
}

#[test]
fn each_thing_that_is_amiss_is_found_by_its_check_alone() {
    use Status::{Problem, Unknown, Warning};
    let with = |change: &dyn Fn(&mut Facts)| {
        let mut facts = healthy();
        change(&mut facts);
        found(&facts)
    };
    let two = |serves: &[&str], lease: &str| {
        let first = configured("kube-system/supercargo-config", &["supercargo"], "supercargo");
        Ok(vec![first, configured("team/supercargo-config", serves, lease)])
    };
    assert_eq!(with(&|it| it.version = Ok("v1.33.1".to_owned())), [("ApiServerVersion", Warning)]);
    assert_eq!(with(&|it| it.account = Ok(false)), [("ServiceAccount", Problem)]);
    assert_eq!(with(&|it| it.rights.as_mut().expect("they are known")[0].1 = false), [("Rights", Problem)]);
    assert_eq!(with(&|it| it.rights = Err("403: no, you".to_owned())), [("Rights", Unknown)]);
    for nobody in
        [None, lease(16), lease(i64::MAX), Some(Lease { holder: String::new(), age: 1, good_for: 15 })]
    {
        assert_eq!(with(&|it| it.lease = Ok(nobody.clone())), [("Leader", Problem)], "{nobody:?}");
    }
    assert_eq!(
        with(&|it| it.configured = two(&["default-scheduler"], "other")),
        [("DefaultScheduler", Problem)]
    );
    assert_eq!(with(&|it| it.configured = two(&["default-scheduler"], "kube-scheduler")), []);
    assert_eq!(with(&|it| it.configured = two(&["supercargo"], "other")), [("ServedOnce", Problem)]);
    assert_eq!(with(&|it| it.configured = two(&["supercargo"], "supercargo")), []);
    assert_eq!(with(&|it| it.pending = Ok([("volcano".to_owned(), 2)].into())), [("UnservedPods", Warning)]);
    assert_eq!(
        with(&|it| it.kube_scheduler = Ok(None)),
        [("UnservedPods", Warning)],
        "nobody serves default-scheduler"
    );
    assert_eq!(with(&|it| it.drift = Ok(None)), [("CacheDrift", Unknown)]);
    assert_eq!(with(&|it| it.drift = Ok(Some([("x".to_owned(), 2)].into()))), [("CacheDrift", Problem)]);
}

#[test]
fn a_missing_right_is_told_with_what_does_not_work_and_what_to_do() {
    let mut facts = healthy();
    for (right, has) in facts.rights.as_mut().expect("they are known") {
        *has = !["pods/binding", "events"].contains(&right.resource.as_str());
    }
    facts.version = Ok("v1.35.0".to_owned());
    facts.drift = Err("nobody leads who could be asked".to_owned());
    let report = DoctorReport::of(checks(&facts, &args()));
    let told = text(&report, false);
    for part in [
        ": 1 problem, 1 warning, 1 check that could not be made\n",
        "problem  Rights ",
        "no pod is bound (without create pods/binding)",
        "there are no events about pods (without create events.events.k8s.io, patch events.events.k8s.io)",
        "Rights            apply the roles and bindings of manifests/base, or of the chart\n",
    ] {
        assert!(told.contains(part), "{part:?} is not in:\n{told}");
    }
    let json = serde_json::to_value(&report).expect("it is JSON");
    assert_eq!(
        (&json["kind"], &json["problems"], &json["unknown"]),
        (&json!("DoctorReport"), &json!(1), &json!(1))
    );
    assert_eq!(
        (&json["checks"][2]["id"], &json["checks"][2]["status"]),
        (&json!("Rights"), &json!("problem"))
    );
}

#[test]
fn configurations_are_read_as_the_scheduler_reads_them() {
    let map = |name: &str, text: &str| json!({ "metadata": { "namespace": "ns", "name": name }, "data": { "config.yaml": text } });
    let it = configuration(&map("supercargo-config", "profiles: []")).expect("it is one");
    assert_eq!(it.serves, ["default-scheduler".to_owned()].into());
    assert_eq!(it.lease, Some(("kube-system".to_owned(), "kube-scheduler".to_owned())));
    let text = "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: a}, {}]";
    let it = configuration(&map("supercargo-config", text)).expect("it is one");
    assert_eq!((it.serves.len(), it.lease), (2, None));
    assert_eq!(configuration(&map("supercargo-shadow-config", text)), None);
    assert_eq!(configuration(&map("other", ": not YAML")), None);
}

#[test]
fn every_check_is_on_the_page() {
    let page = include_str!("../../../docs/doctor.md");
    for id in CHECK_IDS {
        assert!(page.contains(&format!("| `{id}` |")), "{id} is not explained");
    }
}

#[test]
fn the_drift_is_read_from_a_scrape() {
    let scrape = "# TYPE x gauge\nsupercargo_cache_drift{kind=\"Pod\",which=\"missed\"} 2\nother 1\n";
    assert_eq!(series(scrape), Some([("kind=\"Pod\",which=\"missed\"".to_owned(), 2)].into()));
    assert_eq!(series("other 1\n"), None);
}
