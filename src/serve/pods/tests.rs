//! Access to the pages about pods.

use super::super::gate::{Access, Decision, ResourceAccess, ReviewError, Reviewer, Token};
use super::*;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::sync::{Arc, Mutex};

/// Knows `ann`, who may read the pods of a and c, `all`, who may read all pods, `none`, and `root` of
/// system:masters.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Vec<String>>>);

impl Reviewer for Fake {
    fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>> {
        let name = token.secret().to_owned();
        let groups = if name == "root" { vec!["system:masters".to_owned()] } else { Vec::new() };
        let is_known = name != "made-up";
        let user = is_known.then(|| User { name, groups, ..User::default() });
        std::future::ready(Ok(user)).boxed()
    }

    fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        panic!("unexpected path review: {access:?}")
    }

    fn authorize_resource(
        &self,
        access: ResourceAccess,
    ) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        let (name, namespace) = (access.user.name.as_str(), access.namespace.as_str());
        self.0.lock().unwrap().push(format!("{name} {namespace}"));
        let decision = match (name, namespace) {
            ("all", _) | ("ann", "a" | "c") => Decision::Allowed,
            _ => Decision::Denied { reason: "because".to_owned() },
        };
        std::future::ready(Ok(decision)).boxed()
    }
}

fn sources(namespaces: usize) -> PodSources {
    let names = move || {
        let names =
            (0..namespaces).map(|n| if n < 3 { ["a", "b", "c"][n].to_owned() } else { format!("n{n}") });
        std::future::ready(Some(names.collect()))
    };
    let pending = |question: Question| {
        std::future::ready(Some(format!("{:?}, partial: {}", question.namespaces, question.is_part)))
    };
    let explain = |namespace: String, name: String| {
        std::future::ready(Some((name == "there").then(|| format!("{namespace}/{name}"))))
    };
    PodSources::new(names, pending, explain)
}

async fn ask(sources: &PodSources, token: &str, path: &str, query: &str) -> (Outcome, Vec<String>) {
    let fake = Fake::default();
    let gate = Gate::new(fake.clone());
    let mut headers = HeaderMap::new();
    if !token.is_empty() {
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    }
    let outcome = sources.answer((&gate, Instant::now()), &headers, path, query).await;
    let asked = fake.0.lock().unwrap().clone();
    (outcome, asked)
}

fn json(text: &str) -> Outcome {
    Outcome::Json(text.to_owned())
}

fn forbidden(user: &str, scope: &str) -> Outcome {
    let text =
        format!("pods is forbidden: User {user:?} cannot get resource \"pods\" in API group \"\" {scope}");
    Outcome::Refused(Refusal::Forbidden(text))
}

#[tokio::test]
async fn report_covers_only_namespaces_whose_pods_the_user_may_read() {
    let sources = sources(3);
    let everywhere = "at the cluster scope";
    for (token, query, expected) in [
        ("all", "", json("None, partial: false")),
        ("root", "", json("None, partial: false")),
        ("ann", "", json("Some({\"a\", \"c\"}), partial: true")),
        ("ann", "namespace=a", json("Some({\"a\"}), partial: false")),
        ("ann", "namespace=b", forbidden("ann", "in the namespace \"b\"")),
        ("ann", "namespace=no-such", forbidden("ann", "in the namespace \"no-such\"")),
        ("none", "", forbidden("none", everywhere)),
        ("", "", Outcome::Refused(Refusal::Unauthorized)),
        ("made-up", "namespace=a", Outcome::Refused(Refusal::Unauthorized)),
    ] {
        assert_eq!(ask(&sources, token, PAGE, query).await.0, expected, "{token} {query}");
    }
    assert_eq!(ask(&sources, "all", PAGE, "").await.1, ["all "], "one review for all namespaces");
    assert!(ask(&sources, "", PAGE, "").await.1.is_empty(), "an anonymous request causes no review");
}

#[tokio::test]
async fn partial_access_to_many_namespaces_requires_naming_one() {
    let sources = sources(NAMESPACES_MAX + 1);
    let (outcome, asked) = ask(&sources, "ann", PAGE, "").await;
    assert!(
        matches!(&outcome, Outcome::Wrong(why) if why.starts_with("the cluster has 257 namespaces")),
        "{outcome:?}"
    );
    assert_eq!(asked, ["ann "]);
    assert_eq!(ask(&sources, "all", PAGE, "").await.0, json("None, partial: false"));
    assert_eq!(ask(&sources, "ann", PAGE, "namespace=c").await.0, json("Some({\"c\"}), partial: false"));
}

#[tokio::test]
async fn existence_of_a_pod_is_revealed_only_with_read_permission() {
    let sources = sources(3);
    for (token, query, expected) in [
        ("ann", "namespace=a&name=there", json("a/there")),
        ("ann", "namespace=a&name=x", Outcome::NoSuchPod("no pending pod \"x\" in namespace \"a\"".into())),
        ("ann", "namespace=b&name=there", forbidden("ann", "in the namespace \"b\"")),
        ("ann", "namespace=b&name=x", forbidden("ann", "in the namespace \"b\"")),
        ("", "namespace=a&name=there", Outcome::Refused(Refusal::Unauthorized)),
        (
            "all",
            "name=there",
            Outcome::Wrong("both query parameters are required: ?namespace=NAMESPACE&name=NAME".into()),
        ),
    ] {
        assert_eq!(ask(&sources, token, EXPLAIN, query).await.0, expected, "{token} {query}");
    }
}

#[tokio::test]
async fn invalid_query_is_rejected_without_a_review() {
    let sources = sources(3);
    for query in ["pod=a", "namespace=%zz", "labelSelector=a+within+(b)"] {
        let (outcome, asked) = ask(&sources, "ann", PAGE, query).await;
        assert!(matches!(outcome, Outcome::Wrong(_)), "{query}: {outcome:?}");
        assert!(asked.is_empty(), "{asked:?}");
    }
}
