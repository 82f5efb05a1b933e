//! Who may have an answer: bearer tokens and access rights, as the API server judges them.
//!
//! Follows upstream's delegated authentication and authorization
//! (`apiserver/pkg/{authentication,authorization}`) with these choices of our own: the always-allowed paths
//! are answered without looking at the token, so health does not depend on the API server; a rejected token
//! is remembered as well, so a client that retries costs the API server one review; a token that
//! nobody could judge is an error (500), not a bad token (401). Client certificates are not looked at.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use tokio::time::Instant;

use super::answers::Answers;
use crate::telemetry::Throttle;

/// How long answers are used: upstream's cache lifetimes of tokens, allowed and denied requests.
const ANSWER_LIFETIME: Duration = Duration::from_secs(10);

/// Answers kept of each kind. Scrapers are few; only somebody trying tokens at random fills this, and then
/// an answer costs one review again.
const ANSWERS: usize = 1024;

/// How often a failed review is logged: clients cause them with made-up tokens while the API server is away.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Upstream's default of `--authorization-always-allow-paths`.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const MASTERS: &str = "system:masters";

/// Where a token is that came through the API server's proxy, which takes the header `Authorization` away. Written as that is.
pub const HANDED_ON: HeaderName = HeaderName::from_static("x-supercargo-authorization");

/// A bearer token, which never shows in a log.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(String);

impl Token {
    /// The token itself, for the review.
    pub fn secret(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn for_tests(secret: &str) -> Self {
        Self(secret.to_owned())
    }

    /// The token of a request, as upstream finds it: `Bearer`, in any case, and one word. Another scheme,
    /// or a scheme alone, is no token.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(AUTHORIZATION).or_else(|| headers.get(HANDED_ON))?.to_str().ok()?;
        let (scheme, rest) = value.trim().split_once(' ')?;
        let token = rest.split(' ').next().filter(|token| !token.is_empty())?;
        scheme.eq_ignore_ascii_case("bearer").then(|| Self(token.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Who asks, as a TokenReview names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// User name.
    pub name: String,
    /// Unique id, where there is one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else the authenticator said.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Who.
    pub user: User,
    /// The method in lower case, such as `get`.
    pub verb: String,
    /// The path, without the query.
    pub path: String,
}

/// Somebody who wants to read the pods of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAccess {
    /// Who.
    pub user: User,
    /// Which; empty for all.
    pub namespace: String,
}

/// What a SubjectAccessReview says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allowed,
    /// No; the reason is often empty.
    Denied {
        /// Why, in the authorizer's words.
        reason: String,
    },
}

/// Why the API server could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No answer in time.
    #[error("the API server did not answer a {review} within {} s", after.as_secs_f64())]
    TimedOut {
        /// Kind of the review.
        review: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// An answer that is not a review, or none.
    #[error("a {review} failed: {reason}")]
    Failed {
        /// Kind of the review.
        review: &'static str,
        /// What went wrong; when the right to ask is missing, the API server's words say so.
        reason: String,
    },
    /// Too many questions are open.
    #[error("too many reviews are waiting for the API server")]
    Overloaded,
    /// Whoever asked went away or panicked.
    #[error("the review was interrupted")]
    Interrupted,
}

/// Asks the API server, or in tests something that stands for it.
pub trait Reviewer: Send + Sync + 'static {
    /// Whose token this is; `None` if it is nobody's.
    fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>>;

    /// Whether somebody may do something.
    fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>>;

    /// Whether somebody may get the pods of a namespace.
    fn authorize_pods(&self, access: PodAccess) -> BoxFuture<'static, Result<Decision, ReviewError>>;
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token is nobody's.
    Unauthorized,
    /// The user may not; the message is upstream's.
    Forbidden(String),
    /// Nobody could say.
    Unknown(ReviewError),
}

/// Lets requests pass, or says why not.
pub struct Gate {
    reviewer: Arc<dyn Reviewer>,
    users: Arc<Answers<Token, Option<User>>>,
    decisions: Arc<Answers<Access, Decision>>,
    pods: Arc<Answers<PodAccess, Decision>>,
    always_allowed: Vec<String>,
    failures: Throttle,
}

impl Gate {
    /// A gate that asks this reviewer, with upstream's always-allowed paths.
    pub fn new(reviewer: impl Reviewer) -> Self {
        Self {
            reviewer: Arc::new(reviewer),
            users: Answers::new(ANSWER_LIFETIME, ANSWERS),
            decisions: Answers::new(ANSWER_LIFETIME, ANSWERS),
            pods: Answers::new(ANSWER_LIFETIME, ANSWERS),
            always_allowed: ALWAYS_ALLOWED.map(String::from).to_vec(),
            failures: Throttle::new(LOG_EVERY),
        }
    }

    /// Replaces the paths that everybody may read; one that ends in `*` stands for all that begin so.
    #[must_use]
    pub fn with_always_allowed(mut self, paths: Vec<String>) -> Self {
        self.always_allowed = paths;
        self
    }

    /// Whether everybody may read this path.
    pub(super) fn always_allows(&self, path: &str) -> bool {
        self.always_allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == allowed,
        })
    }

    /// Whether the sender of these headers may do this now.
    pub(super) async fn admit(
        &self,
        now: Instant,
        headers: &HeaderMap,
        verb: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        if self.always_allows(path) {
            return Ok(());
        }
        let user = self.user(now, headers).await?;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let name = user.name.clone();
        let access = Access { user, verb: verb.to_owned(), path: path.to_owned() };
        let ask = |access| self.reviewer.authorize(access);
        match self.decisions.get(now, access, ask).await.map_err(|error| self.unknown(error))? {
            Decision::Allowed => Ok(()),
            Decision::Denied { reason } => {
                let mut message = format!("forbidden: User {name:?} cannot {verb} path {path:?}");
                if !reason.is_empty() {
                    message.push_str(": ");
                    message.push_str(&reason);
                }
                Err(Refusal::Forbidden(message))
            }
        }
    }

    /// Who sent these headers, if that is somebody.
    pub(super) async fn known_user(&self, now: Instant, headers: &HeaderMap) -> Result<User, Refusal> {
        let user = self.user(now, headers).await?;
        if user.name == ANONYMOUS { Err(Refusal::Unauthorized) } else { Ok(user) }
    }

    /// Whether somebody may get the pods of a namespace, or of all where that is empty; the message is the API server's.
    pub(super) async fn may_get_pods(
        &self,
        now: Instant,
        user: &User,
        namespace: &str,
    ) -> Result<(), Refusal> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let access = PodAccess { user: user.clone(), namespace: namespace.to_owned() };
        let ask = |access| self.reviewer.authorize_pods(access);
        match self.pods.get(now, access, ask).await.map_err(|error| self.unknown(error))? {
            Decision::Allowed => Ok(()),
            Decision::Denied { .. } => {
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let name = &user.name;
                Err(Refusal::Forbidden(format!(
                    "pods is forbidden: User {name:?} cannot get resource \"pods\" in API group \"\" {scope}"
                )))
            }
        }
    }

    async fn user(&self, now: Instant, headers: &HeaderMap) -> Result<User, Refusal> {
        let Some(token) = Token::of(headers) else {
            let groups = vec![UNAUTHENTICATED.to_owned()];
            return Ok(User { name: ANONYMOUS.to_owned(), groups, ..User::default() });
        };
        let ask = |token| self.reviewer.authenticate(token);
        let user = self.users.get(now, token, ask).await.map_err(|error| self.unknown(error))?;
        user.ok_or(Refusal::Unauthorized)
    }

    fn unknown(&self, error: ReviewError) -> Refusal {
        if let Some(withheld) = self.failures.admit() {
            tracing::warn!(%error, withheld, "cannot tell whether a request may be answered");
        }
        Refusal::Unknown(error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt as _;

    use super::*;

    /// Knows the tokens `admin`, `reader` and `plain`; fails for `broken`. Readers may get /metrics.
    #[derive(Clone, Default)]
    struct Fake {
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl Fake {
        fn note(&self, what: String) {
            self.asked.lock().unwrap().push(what);
        }

        fn asked(&self) -> Vec<String> {
            std::mem::take(&mut self.asked.lock().unwrap())
        }
    }

    impl Reviewer for Fake {
        fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>> {
            self.note(format!("who {}", token.secret()));
            let user = |name: &str, group: &str| {
                Some(User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() })
            };
            std::future::ready(match token.secret() {
                "admin" => Ok(user("root", "system:masters")),
                "reader" => Ok(user("prometheus", "readers")),
                "plain" => Ok(user("<b>", "system:authenticated")),
                "broken" => {
                    Err(ReviewError::TimedOut { review: "TokenReview", after: Duration::from_secs(10) })
                }
                _ => Ok(None),
            })
            .boxed()
        }

        fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>> {
            self.note(format!("may {} {} {}", access.user.name, access.verb, access.path));
            let allowed = access.user.groups.contains(&"readers".to_owned())
                && access.verb == "get"
                && access.path == "/metrics";
            let reason = if access.path == "/told" { "told so" } else { "" }.to_owned();
            let decision = if allowed { Decision::Allowed } else { Decision::Denied { reason } };
            std::future::ready(Ok(decision)).boxed()
        }

        fn authorize_pods(&self, access: PodAccess) -> BoxFuture<'static, Result<Decision, ReviewError>> {
            self.note(format!("may {} get pods of {:?}", access.user.name, access.namespace));
            let allowed = access.user.name == "prometheus" && access.namespace == "monitoring";
            let decision =
                if allowed { Decision::Allowed } else { Decision::Denied { reason: String::new() } };
            std::future::ready(Ok(decision)).boxed()
        }
    }

    struct Door {
        gate: Gate,
        fake: Fake,
        start: Instant,
    }

    impl Door {
        fn new() -> Self {
            let fake = Fake::default();
            Self { gate: Gate::new(fake.clone()), fake, start: Instant::now() }
        }

        async fn at(&self, seconds: u64, authorization: &str, path: &str) -> Result<(), Refusal> {
            let mut headers = HeaderMap::new();
            if !authorization.is_empty() {
                headers.insert(AUTHORIZATION, authorization.parse().unwrap());
            }
            self.gate.admit(self.start + Duration::from_secs(seconds), &headers, "get", path).await
        }
    }

    fn forbidden(message: &str) -> Result<(), Refusal> {
        Err(Refusal::Forbidden(message.to_owned()))
    }

    #[tokio::test]
    async fn health_is_for_everybody_and_asks_nobody() {
        let door = Door::new();
        for path in ["/healthz", "/livez", "/readyz"] {
            for authorization in ["", "Bearer bad", "Bearer broken"] {
                assert_eq!(door.at(0, authorization, path).await, Ok(()));
            }
        }
        assert!(door.fake.asked().is_empty());
        let anonymous =
            forbidden("forbidden: User \"system:anonymous\" cannot get path \"/readyz/shutdown\"");
        assert_eq!(door.at(0, "", "/readyz/shutdown").await, anonymous);
    }

    #[tokio::test]
    async fn metrics_are_for_those_with_the_right() {
        let door = Door::new();
        assert_eq!(door.at(0, "Bearer reader", "/metrics").await, Ok(()));
        assert_eq!(door.at(0, "bearer  reader", "/metrics").await, door.at(0, "", "/metrics").await);
        assert_eq!(door.at(0, "bEARER reader rest", "/metrics").await, Ok(()));
        assert_eq!(door.at(0, "Bearer bad", "/metrics").await, Err(Refusal::Unauthorized));
        assert_eq!(
            door.at(0, "", "/metrics").await,
            forbidden("forbidden: User \"system:anonymous\" cannot get path \"/metrics\"")
        );
        assert_eq!(
            door.at(0, "Basic cmVhZGVy", "/metrics").await,
            forbidden("forbidden: User \"system:anonymous\" cannot get path \"/metrics\"")
        );
        assert_eq!(
            door.at(0, "Bearer plain", "/told").await,
            forbidden("forbidden: User \"<b>\" cannot get path \"/told\": told so")
        );
    }

    #[tokio::test]
    async fn masters_are_not_asked_about() {
        let door = Door::new();
        assert_eq!(door.at(0, "Bearer admin", "/anything").await, Ok(()));
        assert_eq!(door.fake.asked(), ["who admin"]);
    }

    #[tokio::test]
    async fn answers_are_used_for_ten_seconds_and_then_asked_again() {
        let door = Door::new();
        for second in [0, 3, 9] {
            assert_eq!(door.at(second, "Bearer reader", "/metrics").await, Ok(()));
            assert_eq!(door.at(second, "Bearer bad", "/metrics").await, Err(Refusal::Unauthorized));
            assert!(door.at(second, "", "/metrics").await.is_err());
        }
        let all =
            ["who reader", "may prometheus get /metrics", "who bad", "may system:anonymous get /metrics"];
        assert_eq!(door.fake.asked(), all);
        assert_eq!(door.at(10, "Bearer reader", "/metrics").await, Ok(()));
        assert_eq!(door.at(10, "Bearer bad", "/metrics").await, Err(Refusal::Unauthorized));
        assert!(door.at(10, "", "/metrics").await.is_err());
        assert_eq!(door.fake.asked(), all);
    }

    #[tokio::test]
    async fn an_answer_is_for_one_user_and_one_path() {
        let door = Door::new();
        assert_eq!(door.at(0, "Bearer reader", "/metrics").await, Ok(()));
        assert!(door.at(0, "Bearer reader", "/configz").await.is_err());
        assert!(door.at(0, "Bearer plain", "/metrics").await.is_err());
    }

    #[tokio::test]
    async fn a_reviewer_that_fails_is_not_a_bad_token_and_is_asked_again() {
        let door = Door::new();
        for _ in 0..2 {
            assert!(matches!(door.at(0, "Bearer broken", "/metrics").await, Err(Refusal::Unknown(_))));
        }
        assert_eq!(door.fake.asked(), ["who broken", "who broken"]);
    }

    #[tokio::test]
    async fn pods_are_for_those_who_may_get_them_and_a_stranger_is_not_asked_about() {
        let door = Door::new();
        let mut headers = HeaderMap::new();
        assert_eq!(door.gate.known_user(door.start, &headers).await, Err(Refusal::Unauthorized));
        headers.insert(HANDED_ON, "Bearer reader".parse().unwrap());
        let user = door.gate.known_user(door.start, &headers).await.unwrap();
        assert_eq!(user.name, "prometheus");
        headers.insert(AUTHORIZATION, "Bearer plain".parse().unwrap());
        assert_eq!(door.gate.known_user(door.start, &headers).await.unwrap().name, "<b>", "it goes first");
        for _ in 0..2 {
            assert_eq!(door.gate.may_get_pods(door.start, &user, "monitoring").await, Ok(()));
            for (namespace, scope) in [("", "at the cluster scope"), ("x", "in the namespace \"x\"")] {
                let told = format!(
                    "pods is forbidden: User \"prometheus\" cannot get resource \"pods\" in API group \"\" {scope}"
                );
                let refused = door.gate.may_get_pods(door.start, &user, namespace).await;
                assert_eq!(refused, Err(Refusal::Forbidden(told)));
            }
        }
        let asked = door.fake.asked();
        assert_eq!(asked.iter().filter(|asked| asked.contains("get pods")).count(), 3, "{asked:?}");
        let root = User { groups: vec![MASTERS.to_owned()], ..User::default() };
        assert_eq!(door.gate.may_get_pods(door.start, &root, "x").await, Ok(()));
        assert!(door.fake.asked().is_empty());
    }

    #[test]
    fn allowed_paths_are_exact_or_prefixes() {
        let gate = Gate::new(Fake::default()).with_always_allowed(vec!["/a".into(), "/b/*".into()]);
        let allowed = |path| gate.always_allows(path);
        assert!(allowed("/a") && allowed("/b/") && allowed("/b/c"));
        assert!(!allowed("/a/b") && !allowed("/b") && !allowed("/healthz"));
    }

    #[test]
    fn a_token_does_not_show() {
        assert_eq!(format!("{:?}", Token("secret".to_owned())), "Token(..)");
    }
}
