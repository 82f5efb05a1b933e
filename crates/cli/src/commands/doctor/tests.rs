//! Verdicts and output for given facts.

use super::*;
use crate::commands::doctor::facts::{
    ApiVersion, Configured, Facts, Known, Lease, Pending, configuration, is_recent, series,
};
use crate::commands::doctor::installation::{Holder, Installation, classes};
use crate::commands::doctor::judge::checks;
use crate::commands::doctor::tls_and_clock::Clocks;
use crate::live::certificates::{Certificates, Validity};
use clap::Parser;
use serde_json::{Value, json};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: DoctorArgs,
}

fn args() -> DoctorArgs {
    Line::try_parse_from(["doctor"]).expect("no flag is needed").args
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

fn pending(by_name: &[(&str, usize)]) -> Pending {
    let by_name = by_name.iter().map(|&(name, pods)| (name.to_owned(), pods)).collect();
    Pending { by_name, is_cut: false }
}

fn api_version(minor: &str) -> Known<ApiVersion> {
    let answer = json!({ "gitVersion": format!("v1.{minor}.3"), "major": "1", "minor": minor });
    Ok(ApiVersion::of(&answer))
}

/// Facts of an installation without problems.
fn healthy() -> Facts {
    Facts {
        version: api_version("36"),
        account: Ok(Some(true)),
        rights: Ok(rights::all().into_iter().map(|right| (right, true)).collect()),
        lease: Ok(lease(2)),
        kube_scheduler: Ok(lease(1)),
        configured: Ok(vec![configured("kube-system/supercargo-config", &["supercargo"], "supercargo")]),
        pending: Ok(pending(&[("supercargo", 3), ("default-scheduler", 1)])),
        reporting: [].into(),
        drift: Ok(Some([("kind=\"Pod\",which=\"missed\"".to_owned(), 0)].into())),
        certificates: Certificates {
            serving: until("2027-03-01T00:00:00Z"),
            client: until("2027-03-01T00:00:00Z"),
            authority: until("2035-01-01T00:00:00Z"),
        },
        clocks: Clocks { here: time("2027-01-01T00:00:02Z"), there: Ok(time("2027-01-01T00:00:00Z")) },
        installation: Installation {
            holder: Ok(Holder::Runs("supercargo-7d4f".to_owned())),
            deployments: Ok(vec![deployment()]),
            missing_classes: Ok(Vec::new()),
            quotas: Ok(Vec::new()),
        },
    }
}

fn time(text: &str) -> jiff::Timestamp {
    text.parse().expect("it is a time")
}

fn until(text: &str) -> Result<Option<Validity>, String> {
    Ok(Some(Validity { from: time("2026-01-01T00:00:00Z"), until: time(text) }))
}

/// The shipped Deployment, with all pods available.
fn deployment() -> Value {
    let written = include_str!("../../../../../manifests/base/deployment.yaml");
    let mut deployment: Value = serde_saphyr::from_str(written).expect("it is YAML");
    deployment["status"] = json!({"replicas": 2, "availableReplicas": 2});
    deployment
}

fn found(facts: &Facts) -> Vec<(&'static str, Status)> {
    let checks = checks(facts, &args());
    assert_eq!(checks.iter().map(|check| check.id).collect::<Vec<_>>(), CHECK_IDS);
    checks.iter().filter(|check| check.status != Status::Ok).map(|check| (check.id, check.status)).collect()
}

#[test]
fn healthy_installation_has_no_problems() {
    assert_eq!(found(&healthy()), []);
    let report = DoctorReport::of(checks(&healthy(), &args()));
    let text = text(&report, false);
    assert!(
        text.starts_with(&format!("supercargo {}: no problems found\n", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert!(!text.contains("Recommended actions"), "{text}");
}

#[test]
fn truncated_pod_list_makes_unserved_pods_unknown() {
    let mut facts = healthy();
    facts.pending = Ok(Pending { is_cut: true, ..pending(&[("supercargo", 10_000)]) });
    assert_eq!(found(&facts), [("UnservedPods", Status::Unknown)]);
}

#[test]
fn each_problem_is_found_by_exactly_one_check() {
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
    assert_eq!(with(&|it| it.version = api_version("33")), [("ApiServerVersion", Warning)]);
    assert_eq!(with(&|it| it.account = Ok(Some(false))), [("ServiceAccount", Problem)]);
    assert_eq!(with(&|it| it.rights.as_mut().expect("they are known")[0].1 = false), [("Rights", Problem)]);
    assert_eq!(with(&|it| it.rights = Err("403: no, you".to_owned())), [("Rights", Unknown)]);
    for lease_state in
        [None, lease(16), lease(i64::MAX), Some(Lease { holder: String::new(), age: 1, good_for: 15 })]
    {
        assert_eq!(with(&|it| it.lease = Ok(lease_state.clone())), [("Leader", Problem)], "{lease_state:?}");
    }
    assert_eq!(
        with(&|it| it.configured = two(&["default-scheduler"], "other")),
        [("DefaultScheduler", Problem)]
    );
    assert_eq!(with(&|it| it.configured = two(&["default-scheduler"], "kube-scheduler")), []);
    assert_eq!(with(&|it| it.configured = two(&["supercargo"], "other")), [("ServedOnce", Problem)]);
    assert_eq!(with(&|it| it.configured = two(&["supercargo"], "supercargo")), []);
    assert_eq!(with(&|it| it.pending = Ok(pending(&[("volcano", 2)]))), [("UnservedPods", Warning)]);
    assert_eq!(
        with(&|it| it.kube_scheduler = Ok(None)),
        [("UnservedPods", Warning)],
        "no scheduler serves default-scheduler"
    );
    assert_eq!(with(&|it| it.drift = Ok(None)), [("CacheDrift", Warning)]);
    assert_eq!(with(&|it| it.drift = Ok(Some([("x".to_owned(), 2)].into()))), [("CacheDrift", Problem)]);
}

#[test]
fn missing_permission_is_reported_with_effect_and_action() {
    let mut facts = healthy();
    for (right, has) in facts.rights.as_mut().expect("they are known") {
        *has = !["pods/binding", "events"].contains(&right.resource.as_str());
    }
    facts.version = api_version("38");
    facts.drift = Err("no leader to ask".to_owned());
    let report = DoctorReport::of(checks(&facts, &args()));
    let output = text(&report, false);
    for part in [
        ": 1 problem, 1 warning, 1 check could not run\n",
        "problem  Rights ",
        "no pod is bound (without create pods/binding)",
        "pods get no events (without create events.events.k8s.io, patch events.events.k8s.io)",
        "Rights            apply the roles and bindings of manifests/base, or of the chart\n",
    ] {
        assert!(output.contains(part), "{part:?} is not in:\n{output}");
    }
    let json = serde_json::to_value(&report).expect("it is JSON");
    assert_eq!(
        (&json["kind"], &json["problems"], &json["unknown"]),
        (&json!("DoctorReport"), &json!(1), &json!(1))
    );
    assert_eq!(
        (&json["checks"][3]["id"], &json["checks"][3]["status"]),
        (&json!("Rights"), &json!("problem"))
    );
}

#[test]
fn rejected_credentials_are_a_problem_with_an_action() {
    let why = "401: Unauthorized".to_owned();
    let facts = Facts::unanswered(why, healthy().certificates);
    let report = DoctorReport::of(checks(&facts, &args()));
    let problems: Vec<_> = report.checks.iter().filter(|check| check.status == Status::Problem).collect();
    assert_eq!(problems.iter().map(|check| check.id).collect::<Vec<_>>(), ["Credentials"]);
    assert!(problems[0].to_do.as_ref().is_some_and(|text| text.contains("log in again")), "{problems:?}");
    assert_eq!(report.code(), NOT_WELL);
}

fn line(more: &[&str]) -> Result<DoctorArgs, String> {
    let line = Line::try_parse_from(std::iter::once(&"doctor").chain(more));
    line.map(|line| line.args).map_err(|error| error.to_string())
}

#[test]
fn identity_is_the_named_one_then_that_of_as_then_the_service_account() {
    let supercargo = "system:serviceaccount:kube-system:supercargo";
    for (flags, user, lease) in [
        (&[][..], supercargo, "supercargo"),
        (&["--service-account", "team:it"], "system:serviceaccount:team:it", "supercargo"),
        (&["--identity", "system:serviceaccount:team:it"], "system:serviceaccount:team:it", "supercargo"),
        (&["--identity", "system:kube-scheduler"], "system:kube-scheduler", "kube-scheduler"),
        (&["--identity", "system:kube-scheduler", "--lease", "mine"], "system:kube-scheduler", "mine"),
        (&["--as", "system:kube-scheduler"], "system:kube-scheduler", "kube-scheduler"),
        (&["--as", "jane", "--identity", "joe"], "joe", "supercargo"),
        (&["--as", "jane", "--service-account", "kube-system:supercargo"], supercargo, "supercargo"),
    ] {
        let args = line(flags).expect("valid flags");
        let identity = Identity::of(&args);
        assert_eq!((identity.user.as_str(), args.lease().1), (user, lease), "{flags:?}");
        assert_eq!(identity.asks, flags.first() == Some(&"--as") && flags.len() == 2, "{flags:?}");
    }
    let account = Identity::of(&line(&["--service-account", "ns:account"]).expect("valid flags"));
    let groups = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
    assert_eq!(account.review(&json!({}))["spec"]["user"], "system:serviceaccount:ns:account");
    assert_eq!(account.review(&json!({}))["spec"]["groups"], json!(groups));
    let args = line(&["--as", "jane", "--as-group", "a", "--as-group", "b"]).expect("valid flags");
    assert_eq!(
        args.act_as().map(|other| (other.user, other.groups.to_vec())),
        Some(("jane", vec!["a".to_owned(), "b".to_owned()]))
    );
    assert_eq!(Identity::of(&args).groups, ["a", "b", "system:authenticated"]);
}

#[test]
fn invalid_identity_is_refused() {
    for (flags, part) in [
        (&["--service-account", "supercargo"][..], "expected namespace:name"),
        (
            &["--identity", "system:serviceaccount:supercargo"],
            "expected system:serviceaccount:namespace:name",
        ),
        (&["--identity", " "], "expected a name"),
        (&["--as", "a\r\nb"], "expected printable ASCII characters"),
        (&["--identity", "a", "--service-account", "b:c"], "cannot be used with"),
        (&["--as-group", "a"], "--as <USER>"),
    ] {
        let refusal = line(flags).expect_err("it is invalid");
        assert!(refusal.contains(part), "{flags:?}: {refusal}");
    }
}

#[test]
fn rights_of_a_user_need_no_service_account() {
    let args = line(&["--identity", "system:kube-scheduler"]).expect("valid flags");
    let mut facts = healthy();
    facts.account = Ok(None);
    let text_of = |facts: &Facts, id: &str| {
        let check = checks(facts, &args).into_iter().find(|check| check.id == id).expect("it is there");
        (check.status, check.text, check.to_do.unwrap_or_default())
    };
    assert_eq!(text_of(&facts, "ServiceAccount").0, Status::Ok);
    assert!(text_of(&facts, "Rights").1.starts_with("system:kube-scheduler has all "));
    facts.rights.as_mut().expect("they are known")[0].1 = false;
    let (status, text, to_do) = text_of(&facts, "Rights");
    assert!(status == Status::Problem && text.starts_with("system:kube-scheduler lacks 1 of "), "{text}");
    assert!(to_do.contains("restore the bootstrap roles"), "{to_do}");
    facts.rights = Err("403: no".to_owned());
    assert!(text_of(&facts, "Rights").2.ends_with("or to impersonate system:kube-scheduler"));
}

#[test]
fn refused_impersonation_is_a_problem_with_an_action() {
    let args = line(&["--as", "jane"]).expect("valid flags");
    let why =
        "403: users \"jane\" is forbidden: User \"joe\" cannot impersonate resource \"users\"".to_owned();
    let report = DoctorReport::of(checks(&Facts::unanswered(why, healthy().certificates), &args));
    assert_eq!(
        (report.checks[0].id, report.checks[0].status, report.code()),
        ("Credentials", Status::Problem, NOT_WELL)
    );
    assert!(
        report.checks[0].text.starts_with("the API server does not take requests as jane: "),
        "{report:?}"
    );
}

#[test]
fn check_that_could_not_run_is_not_a_success() {
    let code = |change: &dyn Fn(&mut Facts)| {
        let mut facts = healthy();
        change(&mut facts);
        DoctorReport::of(checks(&facts, &args())).code()
    };
    assert_eq!(code(&|_| {}), 0);
    assert_eq!(code(&|it| it.version = api_version("33")), 0, "a warning");
    assert_eq!(code(&|it| it.configured = Err("403: no, you".to_owned())), NOT_KNOWN);
    assert_eq!(code(&|it| it.drift = Err("502: no".to_owned())), NOT_KNOWN);
    assert_eq!(
        code(&|it| {
            it.configured = Err("403: no, you".to_owned());
            it.account = Ok(Some(false));
        }),
        NOT_WELL
    );
}

#[test]
fn configurations_get_the_schedulers_defaults() {
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
fn every_check_is_documented() {
    let page = include_str!("../../../../../docs/doctor.md");
    for id in CHECK_IDS {
        assert!(page.contains(&format!("| `{id}` |")), "{id} is not explained");
    }
}

#[test]
fn drift_is_read_from_a_metrics_scrape() {
    let scrape = "# TYPE x gauge\nsupercargo_cache_drift{kind=\"Pod\",which=\"missed\"} 2\nother 1\n";
    assert_eq!(series(scrape), Some([("kind=\"Pod\",which=\"missed\"".to_owned(), 2)].into()));
    assert_eq!(series("other 1\n"), None);
}

fn with(change: impl Fn(&mut Facts)) -> Vec<(&'static str, Status)> {
    let mut facts = healthy();
    change(&mut facts);
    found(&facts)
}

#[test]
fn certificate_is_reported_within_30_days_of_its_expiry() {
    use Status::{Problem, Unknown, Warning};
    // The API server's clock shows January 1.
    for (end, expected) in [
        ("2027-01-31T00:00:00Z", None),
        ("2027-01-30T23:59:59Z", Some(Warning)),
        ("2027-01-01T00:00:01Z", Some(Warning)),
        ("2027-01-01T00:00:00Z", Some(Problem)),
    ] {
        let one = |id| expected.map(|status| (id, status)).into_iter().collect::<Vec<_>>();
        assert_eq!(with(|it| it.certificates.serving = until(end)), one("ApiServerCertificate"), "{end}");
        assert_eq!(with(|it| it.certificates.client = until(end)), one("ClientCertificate"), "{end}");
        assert_eq!(with(|it| it.certificates.authority = until(end)), one("CertificateAuthority"), "{end}");
    }
    let tomorrow = Validity { from: time("2027-01-02T00:00:00Z"), until: time("2028-01-01T00:00:00Z") };
    assert_eq!(with(|it| it.certificates.serving = Ok(Some(tomorrow))), [("ApiServerCertificate", Problem)]);
    assert_eq!(with(|it| it.certificates.client = Ok(None)), []);
    let unread = || Err("not an X.509 certificate".to_owned());
    assert_eq!(with(|it| it.certificates.client = unread()), [("ClientCertificate", Unknown)]);
}

#[test]
fn expired_certificate_of_unreachable_api_server_is_reported() {
    let certificates = Certificates { serving: until("2026-12-31T00:00:00Z"), ..healthy().certificates };
    let mut facts = Facts::unanswered("it does not answer".to_owned(), certificates);
    facts.clocks.here = time("2027-01-01T00:00:00Z");
    let found = found(&facts);
    let problems: Vec<_> = found.iter().filter(|(_, status)| *status == Status::Problem).collect();
    assert_eq!(problems, [&("ApiServerCertificate", Status::Problem)]);
    assert_eq!(found.len(), CHECK_IDS.len() - 2, "the other two certificates are valid: {found:?}");
}

#[test]
fn clock_skew_above_five_seconds_is_a_warning() {
    let at = |here: &str| {
        let clocks = Clocks::read(time(here), Some("Fri, 01 Jan 2027 00:00:10 GMT"));
        assert_eq!(clocks.there, Ok(time("2027-01-01T00:00:10Z")));
        with(move |it| it.clocks = clocks.clone())
    };
    assert_eq!(at("2027-01-01T00:00:15Z"), []);
    assert_eq!(at("2027-01-01T00:00:16Z"), [("ClockSkew", Status::Warning)]);
    assert_eq!(at("2027-01-01T00:00:04Z"), [("ClockSkew", Status::Warning)]);
    for date in [None, Some("yesterday")] {
        let clocks = Clocks::read(time("2027-01-01T00:00:00Z"), date);
        assert_eq!(clocks.now(), clocks.here);
        assert_eq!(with(|it| it.clocks = clocks.clone()), [("ClockSkew", Status::Unknown)]);
    }
}

#[test]
fn missing_lease_holder_is_a_warning() {
    let name = || "supercargo-7d4f".to_owned();
    let warned = [("Holder", Status::Warning)];
    let is_gone = |it: &mut Facts| {
        it.lease = Ok(lease(16));
        it.installation.holder = Ok(Holder::Unknown(name()));
    };
    assert_eq!(with(is_gone), [("Leader", Status::Problem), warned[0]]);
    assert_eq!(with(|it| it.installation.holder = Ok(Holder::Ends(name(), "Failed".to_owned()))), warned);
    assert_eq!(with(|it| it.installation.holder = Ok(Holder::OnHost("node-1".to_owned()))), []);
    assert_eq!(with(|it| it.installation.holder = Ok(Holder::Vacant)), []);
    assert_eq!(with(|it| it.installation.holder = Err("403: no".to_owned())), [("Holder", Status::Unknown)]);
}

#[test]
fn lease_holder_that_is_no_pod_is_well_while_it_renews_the_lease() {
    let mut facts = healthy();
    facts.installation.holder = Ok(Holder::Unknown("supercargo-7d4f".to_owned()));
    assert_eq!(found(&facts), []);
    let text = |id: &str| {
        let check = checks(&facts, &args()).into_iter().find(|check| check.id == id).expect("it is there");
        check.text
    };
    let holder = facts.lease.as_ref().ok().and_then(Option::as_ref).map(|lease| lease.holder.clone());
    let holder = holder.expect("the lease is held");
    assert!(text("Leader").starts_with(&holder), "{}", text("Leader"));
    assert_eq!(
        text("Holder"),
        format!(
            "the lease holder, {holder}, is a process that is no pod in kube-system and no node of the cluster; it \
             renewed the lease 2 s ago"
        )
    );

    let of_a_pod = DoctorArgs { pod: Some("supercargo-7d4f".to_owned()), ..args() };
    let check = checks(&facts, &of_a_pod).into_iter().find(|check| check.id == "Holder");
    assert_eq!(check.map(|check| check.status), Some(Status::Warning));
}

#[test]
fn failed_and_unavailable_replicas_are_reported() {
    let status = |status: Value| {
        with(move |it| {
            it.installation.deployments.as_mut().expect("they are known")[0]["status"] = status.clone();
        })
    };
    assert_eq!(status(json!({"availableReplicas": 1})), [("Replicas", Status::Warning)]);
    let failure =
        |status: &str| json!([{"type": "ReplicaFailure", "status": status, "message": "exceeded quota"}]);
    let refused = status(json!({"availableReplicas": 1, "conditions": failure("True")}));
    assert_eq!(refused, [("Replicas", Status::Problem)]);
    assert_eq!(status(json!({"availableReplicas": 2, "conditions": failure("False")})), []);
    assert_eq!(with(|it| it.installation.deployments = Ok(Vec::new())), [], "it may be a static pod");
}

#[test]
fn missing_priority_class_is_a_problem() {
    assert_eq!(classes(&[]), ["system-cluster-critical".to_owned()].into());
    let mut other = deployment();
    other["spec"]["template"]["spec"]["priorityClassName"] = json!("gold");
    assert_eq!(classes(&[other]), ["gold".to_owned()].into());
    let mut none = deployment();
    none["spec"]["template"]["spec"]["priorityClassName"] = json!(null);
    assert_eq!(classes(&[none]), [].into());
    assert_eq!(
        with(|it| it.installation.missing_classes = Ok(vec!["gold".to_owned()])),
        [("PriorityClass", Status::Problem)]
    );
}

/// A ResourceQuota with these scopes.
fn quota(scopes: &Value, hard: &Value, used: &Value) -> Value {
    json!({
        "metadata": {"name": "critical", "namespace": "kube-system"},
        "spec": {"hard": hard, "scopeSelector": {"matchExpressions": scopes}}, "status": {"used": used},
    })
}

fn of_class(operator: &str, classes: &[&str]) -> Value {
    json!([{"scopeName": "PriorityClass", "operator": operator, "values": classes}])
}

#[test]
fn exhausted_quota_in_scope_is_a_warning() {
    let warned = [("ResourceQuota", Status::Warning)];
    let full = |scopes: Value| quota(&scopes, &json!({"pods": "2"}), &json!({"pods": "2"}));
    let with_quota = |quota: Value| with(move |it| it.installation.quotas = Ok(vec![quota.clone()]));
    let (ours, other) = ("system-cluster-critical", "system-node-critical");
    assert_eq!(with_quota(full(of_class("In", &[other, ours]))), warned);
    assert_eq!(with_quota(full(of_class("In", &[other]))), []);
    assert_eq!(with_quota(full(of_class("NotIn", &[other]))), warned);
    assert_eq!(with_quota(full(of_class("NotIn", &[ours]))), []);
    assert_eq!(with_quota(full(of_class("Exists", &[]))), warned);
    assert_eq!(with_quota(full(of_class("DoesNotExist", &[]))), []);
    assert_eq!(with_quota(full(json!([]))), warned);
    let by_scope = |scope: &str| {
        let mut quota = full(json!([]));
        quota["spec"]["scopes"] = json!([scope]);
        with_quota(quota)
    };
    assert_eq!((by_scope("NotBestEffort"), by_scope("NotTerminating")), (warned.to_vec(), warned.to_vec()));
    assert_eq!((by_scope("BestEffort"), by_scope("Terminating")), (vec![], vec![]));

    let any = of_class("Exists", &[]);
    let of = |hard: Value, used: Value| with_quota(quota(&any, &hard, &used));
    assert_eq!(of(json!({"pods": "3"}), json!({"pods": "2"})), []);
    // The shipped pod requests 200m cpu and 256Mi memory, with a limit of 1Gi memory.
    assert_eq!(of(json!({"requests.cpu": "600m"}), json!({"requests.cpu": "400m"})), []);
    assert_eq!(of(json!({"cpu": "599m"}), json!({"cpu": "400m"})), warned);
    assert_eq!(of(json!({"limits.memory": "3Gi"}), json!({"limits.memory": "2Gi"})), []);
    assert_eq!(of(json!({"limits.memory": "3Gi"}), json!({"limits.memory": "2049Mi"})), warned);
    assert_eq!(of(json!({"requests.nvidia.com/gpu": "0"}), json!({})), []);
}

#[test]
fn quota_that_requires_an_unset_limit_is_a_problem() {
    let with_hard =
        |hard: Value| with(move |it| it.installation.quotas = Ok(vec![quota(&json!([]), &hard, &json!({}))]));
    assert_eq!(with_hard(json!({"limits.cpu": "10"})), [("ResourceQuota", Status::Problem)]);
    assert_eq!(with_hard(json!({"limits.memory": "10Gi", "requests.memory": "10Gi", "cpu": "10"})), []);
}

#[test]
fn default_scheduler_without_lease_is_known_by_its_events_only() {
    let text_of = |facts: &Facts, id: &str| {
        let check = checks(facts, &args()).into_iter().find(|check| check.id == id).expect("it is there");
        check.text
    };
    let mut facts = healthy();
    facts.kube_scheduler = Ok(None);
    assert_eq!(found(&facts), [("UnservedPods", Status::Warning)]);
    assert!(text_of(&facts, "UnservedPods").ends_with("so it is not known whether that scheduler runs"));
    let text = text_of(&facts, "DefaultScheduler");
    assert_eq!(
        text,
        "no scheduler is known to serve default-scheduler. The lease kube-system/kube-scheduler does not exist, and no event \
         of the last 10 minutes has its name"
    );

    facts.reporting.insert("default-scheduler".to_owned());
    assert_eq!(found(&facts), []);
    let text = text_of(&facts, "DefaultScheduler");
    assert_eq!(
        text,
        "some scheduler serves default-scheduler, as events of the last 10 minutes show. The lease \
         kube-system/kube-scheduler does not exist, so it is not known which one"
    );

    facts.kube_scheduler = Ok(lease(16));
    assert!(text_of(&facts, "DefaultScheduler").contains("kube-system/kube-scheduler is not held"));
}

#[test]
fn event_of_the_last_ten_minutes_is_recent() {
    let now = time("2027-01-01T00:10:00Z");
    let is_recent = |event: Value| is_recent(&event, now);
    assert!(is_recent(json!({"eventTime": "2027-01-01T00:00:00.000000Z"})));
    assert!(!is_recent(json!({"eventTime": "2026-12-31T23:59:59.000000Z"})));
    let last = json!({"lastObservedTime": "2027-01-01T00:09:00.000000Z"});
    assert!(is_recent(json!({"eventTime": "2026-12-31T00:00:00.000000Z", "series": last})));
    assert!(is_recent(json!({"eventTime": null, "lastTimestamp": "2027-01-01T00:09:00Z"})));
    assert!(!is_recent(json!({})));
}
