//! Authenticates and authorizes requests: client certificates, checked here, bearer tokens and access rights, reviewed
//! by the API server.
//!
//! Follows upstream's delegated authentication and authorization
//! (`apiserver/pkg/{authentication,authorization}`), with these differences:
//!
//! - Always-allowed paths are answered without a look at the token, so health does not depend on the API
//!   server.
//! - Rejected tokens are cached as well, so a client that retries costs the API server one review.
//! - A failed review is an error (500), not an invalid token (401).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::Instant;

use super::clients::{Clients, PeerCertificates};
use super::review_cache::ReviewCache;
use rustls::pki_types::UnixTime;
use supercargo_apiserver::Throttle;
use supercargo_apiserver::client::FORWARDED_TOKEN;

pub use super::access::{Access, Decision, Resource, ResourceAccess, User};

/// Lifetimes of cached results.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Of reviewed tokens.
    pub tokens: Duration,
    /// Of allowed access.
    pub allowed: Duration,
    /// Of denied access.
    pub denied: Duration,
}

impl Default for Lifetimes {
    /// Upstream's defaults.
    fn default() -> Self {
        let usual = Duration::from_secs(10);
        Self { tokens: usual, allowed: usual, denied: usual }
    }
}

impl Lifetimes {
    fn of(self, decision: &Decision) -> Duration {
        if *decision == Decision::Allowed { self.allowed } else { self.denied }
    }
}

/// What a request is authenticated by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) certificates: Option<&'a PeerCertificates>,
}

impl<'a, B> From<&'a http::Request<B>> for Caller<'a> {
    fn from(request: &'a http::Request<B>) -> Self {
        Self { headers: request.headers(), certificates: request.extensions().get() }
    }
}

impl<'a> From<&'a HeaderMap> for Caller<'a> {
    fn from(headers: &'a HeaderMap) -> Self {
        Self { headers, certificates: None }
    }
}

/// Cached results per kind of review. Scrapers are few, so only a client that guesses tokens fills the cache;
/// a miss costs one review.
const ANSWERS: usize = 1024;

/// Log interval of failed reviews. Clients can cause them with invalid tokens while the API server is
/// unreachable.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Upstream's default of `--authorization-always-allow-paths`.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/readyz", "/livez"];

const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const MASTERS: &str = "system:masters";

/// A bearer token; its `Debug` output hides the secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(String);

impl Token {
    /// Returns the secret, for the review.
    pub fn secret(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(super) fn for_tests(secret: &str) -> Self {
        Self(secret.to_owned())
    }

    /// Returns the bearer token of a request, parsed as upstream does: `Bearer` in any case, then one word.
    /// Any other scheme counts as no token.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(AUTHORIZATION).or_else(|| headers.get(FORWARDED_TOKEN))?.to_str().ok()?;
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

/// Why a review failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No response in time.
    #[error("the API server did not answer a {review} within {} s", after.as_secs_f64())]
    TimedOut {
        /// Kind of the review.
        review: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// No response, or one that is not a review.
    #[error("a {review} failed: {reason}")]
    Failed {
        /// Kind of the review.
        review: &'static str,
        /// The cause; for a missing permission, the API server's message.
        reason: String,
    },
    /// Too many reviews are in flight.
    #[error("too many reviews are waiting for the API server")]
    Overloaded,
    /// The query was cancelled or panicked.
    #[error("the review was interrupted")]
    Interrupted,
}

/// Reviews tokens and access, by the API server or by a fake in tests.
pub trait Reviewer: Send + Sync + 'static {
    /// Returns the user of a token; `None` for an invalid token.
    fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>>;

    /// Returns whether the user may access the path.
    fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>>;

    /// Returns whether the user may read the objects.
    fn authorize_resource(&self, access: ResourceAccess)
    -> BoxFuture<'static, Result<Decision, ReviewError>>;
}

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The token is invalid.
    Unauthorized,
    /// The user lacks the permission; the message is upstream's.
    Forbidden(String),
    /// The review failed.
    Unknown(ReviewError),
}

/// Admits requests or rejects them with a reason.
pub struct Gate {
    reviewer: Arc<dyn Reviewer>,
    users: Arc<ReviewCache<Token, Option<User>>>,
    decisions: Arc<ReviewCache<Access, Decision>>,
    resources: Arc<ReviewCache<ResourceAccess, Decision>>,
    clients: Arc<Clients>,
    always_allowed: Vec<String>,
    failures: Throttle,
}

impl Gate {
    /// Returns a gate that uses `reviewer`, with upstream's always-allowed paths.
    pub fn new(reviewer: impl Reviewer) -> Self {
        Self::with_lifetimes(reviewer, Lifetimes::default())
    }

    /// Returns a gate that uses `reviewer` and caches its answers for these times.
    pub fn with_lifetimes(reviewer: impl Reviewer, lifetimes: Lifetimes) -> Self {
        Self {
            reviewer: Arc::new(reviewer),
            users: ReviewCache::new(move |_| lifetimes.tokens, ANSWERS),
            decisions: ReviewCache::new(move |decision| lifetimes.of(decision), ANSWERS),
            resources: ReviewCache::new(move |decision| lifetimes.of(decision), ANSWERS),
            clients: Arc::default(),
            always_allowed: ALWAYS_ALLOWED.map(String::from).to_vec(),
            failures: Throttle::new(LOG_EVERY),
        }
    }

    /// Replaces the always-allowed paths; a trailing `*` matches any suffix.
    #[must_use]
    pub fn with_always_allowed(mut self, paths: Vec<String>) -> Self {
        self.always_allowed = paths;
        self
    }

    /// Authenticates clients with certificates of these authorities, too.
    #[must_use]
    pub fn with_clients(mut self, clients: Arc<Clients>) -> Self {
        self.clients = clients;
        self
    }

    /// Whether the path is open to everyone.
    pub(super) fn always_allows(&self, path: &str) -> bool {
        // As upstream, the first slash is optional.
        let path = without_slash(path);
        self.always_allowed.iter().any(|allowed| match without_slash(allowed).strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == without_slash(allowed),
        })
    }

    /// Checks whether the caller may access the path.
    pub(super) async fn admit(
        &self,
        now: Instant,
        caller: impl Into<Caller<'_>>,
        verb: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        if self.always_allows(path) {
            return Ok(());
        }
        let user = self.user(now, caller.into()).await?;
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

    /// Returns the authenticated user; anonymous requests are unauthorized.
    pub(super) async fn known_user(
        &self,
        now: Instant,
        caller: impl Into<Caller<'_>>,
    ) -> Result<User, Refusal> {
        let user = self.user(now, caller.into()).await?;
        if user.name == ANONYMOUS { Err(Refusal::Unauthorized) } else { Ok(user) }
    }

    /// Checks whether the user may get the pods of a namespace (empty for all). The message is the API
    /// server's.
    pub(super) async fn may_get_pods(
        &self,
        now: Instant,
        user: &User,
        namespace: &str,
    ) -> Result<(), Refusal> {
        let resource = Resource { group: "", name: "pods" };
        let namespace = namespace.to_owned();
        self.may_read(now, ResourceAccess { user: user.clone(), verb: "get", resource, namespace }).await
    }

    /// Checks whether the user may list all objects of a kind.
    pub(super) async fn may_list(
        &self,
        now: Instant,
        user: &User,
        resource: Resource,
    ) -> Result<(), Refusal> {
        let namespace = String::new();
        self.may_read(now, ResourceAccess { user: user.clone(), verb: "list", resource, namespace }).await
    }

    async fn may_read(&self, now: Instant, access: ResourceAccess) -> Result<(), Refusal> {
        let ResourceAccess { user, verb, resource: Resource { group, name: resource }, namespace } =
            access.clone();
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let ask = |access| self.reviewer.authorize_resource(access);
        match self.resources.get(now, access, ask).await.map_err(|error| self.unknown(error))? {
            Decision::Allowed => Ok(()),
            Decision::Denied { .. } => {
                let scope = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let (name, dot) = (&user.name, if group.is_empty() { "" } else { "." });
                Err(Refusal::Forbidden(format!(
                    "{resource}{dot}{group} is forbidden: User {name:?} cannot {verb} resource {resource:?} in \
                     API group {group:?} {scope}"
                )))
            }
        }
    }

    async fn user(&self, now: Instant, caller: Caller<'_>) -> Result<User, Refusal> {
        let Caller { headers, certificates } = caller;
        let certified =
            certificates.map(|certificates| self.clients.user(headers, certificates, UnixTime::now()));
        if let Some(Ok(Some(user))) = certified {
            return Ok(user);
        }
        let Some(token) = Token::of(headers) else {
            // As upstream, a certificate that cannot be verified is not an anonymous request.
            if let Some(Err(_)) = certified {
                return Err(Refusal::Unauthorized);
            }
            let groups = vec![UNAUTHENTICATED.to_owned()];
            return Ok(User { name: ANONYMOUS.to_owned(), groups, ..User::default() });
        };
        let ask = |token| self.reviewer.authenticate(token);
        let user = self.users.get(now, token, ask).await.map_err(|error| self.unknown(error))?;
        user.ok_or(Refusal::Unauthorized)
    }

    fn unknown(&self, error: ReviewError) -> Refusal {
        if let Some(withheld) = self.failures.admit() {
            tracing::warn!(%error, withheld, "failed to review a request with the API server");
        }
        Refusal::Unknown(error)
    }
}

fn without_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt as _;

    use super::*;

    /// Knows the tokens `admin`, `reader` and `plain`, and fails for `broken`. Readers may get /metrics.
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
            let reason = if access.path == "/denied" { "a rule denies it" } else { "" }.to_owned();
            let decision = if allowed { Decision::Allowed } else { Decision::Denied { reason } };
            std::future::ready(Ok(decision)).boxed()
        }

        fn authorize_resource(
            &self,
            access: ResourceAccess,
        ) -> BoxFuture<'static, Result<Decision, ReviewError>> {
            let ResourceAccess { user, verb, resource, namespace } = &access;
            self.note(format!("may {} {verb} {} of {namespace:?}", user.name, resource.name));
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
    async fn health_endpoints_are_open_and_cause_no_review() {
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
    async fn metrics_require_permission() {
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
            door.at(0, "Bearer plain", "/denied").await,
            forbidden("forbidden: User \"<b>\" cannot get path \"/denied\": a rule denies it")
        );
    }

    #[tokio::test]
    async fn system_masters_need_no_access_review() {
        let door = Door::new();
        assert_eq!(door.at(0, "Bearer admin", "/anything").await, Ok(()));
        assert_eq!(door.fake.asked(), ["who admin"]);
    }

    #[tokio::test]
    async fn review_results_are_cached_for_ten_seconds() {
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
    async fn cached_decision_applies_to_one_user_and_path() {
        let door = Door::new();
        assert_eq!(door.at(0, "Bearer reader", "/metrics").await, Ok(()));
        assert!(door.at(0, "Bearer reader", "/configz").await.is_err());
        assert!(door.at(0, "Bearer plain", "/metrics").await.is_err());
    }

    #[tokio::test]
    async fn failed_review_is_an_error_and_is_not_cached() {
        let door = Door::new();
        for _ in 0..2 {
            assert!(matches!(door.at(0, "Bearer broken", "/metrics").await, Err(Refusal::Unknown(_))));
        }
        assert_eq!(door.fake.asked(), ["who broken", "who broken"]);
    }

    #[tokio::test]
    async fn pods_require_permission_and_anonymous_requests_cause_no_review() {
        let door = Door::new();
        let mut headers = HeaderMap::new();
        assert_eq!(door.gate.known_user(door.start, &headers).await, Err(Refusal::Unauthorized));
        headers.insert(FORWARDED_TOKEN, "Bearer reader".parse().unwrap());
        let user = door.gate.known_user(door.start, &headers).await.unwrap();
        assert_eq!(user.name, "prometheus");
        headers.insert(AUTHORIZATION, "Bearer plain".parse().unwrap());
        assert_eq!(
            door.gate.known_user(door.start, &headers).await.unwrap().name,
            "<b>",
            "Authorization takes precedence"
        );
        for _ in 0..2 {
            assert_eq!(door.gate.may_get_pods(door.start, &user, "monitoring").await, Ok(()));
            for (namespace, scope) in [("", "at the cluster scope"), ("x", "in the namespace \"x\"")] {
                let message = format!(
                    "pods is forbidden: User \"prometheus\" cannot get resource \"pods\" in API group \"\" {scope}"
                );
                let refused = door.gate.may_get_pods(door.start, &user, namespace).await;
                assert_eq!(refused, Err(Refusal::Forbidden(message)));
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
        let gate =
            Gate::new(Fake::default()).with_always_allowed(vec!["/a".into(), "/b/*".into(), "c".into()]);
        let allowed = |path| gate.always_allows(path);
        assert!(allowed("/a") && allowed("/b/") && allowed("/b/c") && allowed("/c"));
        assert!(!allowed("/a/b") && !allowed("/b") && !allowed("/healthz"));
    }

    #[test]
    fn debug_output_hides_the_token() {
        assert_eq!(format!("{:?}", Token("secret".to_owned())), "Token(..)");
    }
}
