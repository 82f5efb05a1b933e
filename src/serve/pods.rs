//! Pages about pending pods, restricted to namespaces whose pods the client may `get` (SubjectAccessReview).
//!
//! A client that may not read the pods of a namespace cannot learn whether it has any. Anonymous requests are
//! rejected before any access review.

use super::gate::{Caller, Gate, Refusal, User};
use futures::FutureExt as _;
use futures::future::{BoxFuture, try_join_all};
use std::collections::BTreeSet;
use std::future::Future;
use supercargo_whatif::pending::{EXPLAIN, LabelQuery, PAGE, Question, parameters};
use tokio::time::Instant;

/// Maximum number of namespaces reviewed for one request.
const NAMESPACES_MAX: usize = 256;

type ReportFuture = BoxFuture<'static, Option<String>>;
type Explained = BoxFuture<'static, Option<Option<String>>>;

/// Sources of the pages about pods.
pub struct PodSources {
    namespaces: Box<dyn Fn() -> BoxFuture<'static, Option<Vec<String>>> + Send + Sync>,
    pending: Box<dyn Fn(Question) -> ReportFuture + Send + Sync>,
    explain: Box<dyn Fn(String, String) -> Explained + Send + Sync>,
}

impl PodSources {
    /// Returns the sources: all namespaces, the report of pending pods, and the explanation of one pending
    /// pod. Each yields `None` while it is temporarily unavailable.
    pub fn new<N, P, E>(
        namespaces: impl Fn() -> N + Send + Sync + 'static,
        pending: impl Fn(Question) -> P + Send + Sync + 'static,
        explain: impl Fn(String, String) -> E + Send + Sync + 'static,
    ) -> Self
    where
        N: Future<Output = Option<Vec<String>>> + Send + 'static,
        P: Future<Output = Option<String>> + Send + 'static,
        E: Future<Output = Option<Option<String>>> + Send + 'static,
    {
        Self {
            namespaces: Box::new(move || namespaces().boxed()),
            pending: Box::new(move |question| pending(question).boxed()),
            explain: Box::new(move |namespace, name| explain(namespace, name).boxed()),
        }
    }
}

/// Outcome of a request for a page about pods.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The page as JSON.
    Json(String),
    /// Temporarily unavailable.
    Later,
    /// The request is invalid.
    Wrong(String),
    /// No such pending pod.
    NoSuchPod(String),
    /// The client is not allowed to read it.
    Refused(Refusal),
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Whether `path` is a page about pods.
pub(super) fn is_about_pods(path: &str) -> bool {
    [PAGE, EXPLAIN].contains(&path)
}

impl PodSources {
    /// Answers a request for one of these pages.
    pub(super) async fn answer(
        &self,
        (gate, now): (&Gate, Instant),
        caller: impl Into<Caller<'_>>,
        path: &str,
        query: &str,
    ) -> Outcome {
        let user = match gate.known_user(now, caller).await {
            Ok(user) => user,
            Err(refusal) => return refusal.into(),
        };
        let answer = match path {
            EXPLAIN => self.explained((gate, now), user, query).await,
            _ => self.reported((gate, now), user, query).await,
        };
        answer.unwrap_or_else(|other| other)
    }

    async fn reported(&self, at: (&Gate, Instant), user: User, query: &str) -> Result<Outcome, Outcome> {
        let (mut namespace, mut labels) = (String::new(), LabelQuery::default());
        for (name, value) in parameters(query, &["namespace", "labelSelector"]).map_err(Outcome::Wrong)? {
            match name {
                "namespace" => namespace = value,
                _ => labels = LabelQuery::parse(&value).map_err(Outcome::Wrong)?,
            }
        }
        let (namespaces, is_part) = self.readable(at, user, namespace).await?;
        let question = Question { namespaces, is_part, labels };
        Ok((self.pending)(question).await.map_or(Outcome::Later, Outcome::Json))
    }

    /// Returns the requested namespaces whose pods the user may read (`None` for all), and whether others
    /// were left out.
    async fn readable(
        &self,
        (gate, now): (&Gate, Instant),
        user: User,
        namespace: String,
    ) -> Result<(Option<BTreeSet<String>>, bool), Outcome> {
        let refusal = match gate.may_get_pods(now, &user, &namespace).await {
            Ok(()) if namespace.is_empty() => return Ok((None, false)),
            Ok(()) => return Ok((Some([namespace].into()), false)),
            Err(refusal @ Refusal::Forbidden(_)) if namespace.is_empty() => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        let all = (self.namespaces)().await.ok_or(Outcome::Later)?;
        if all.len() > NAMESPACES_MAX {
            let text = format!(
                "the cluster has {} namespaces; a user who may not get pods in all of them must name one: ?namespace=NAME",
                all.len()
            );
            return Err(Outcome::Wrong(text));
        }
        let asked = all.into_iter().map(|name| async {
            match gate.may_get_pods(now, &user, &name).await {
                Ok(()) => Ok(Some(name)),
                Err(Refusal::Forbidden(_)) => Ok(None),
                Err(refusal) => Err(refusal),
            }
        });
        let readable: BTreeSet<String> = try_join_all(asked).await?.into_iter().flatten().collect();
        if readable.is_empty() { Err(refusal.into()) } else { Ok((Some(readable), true)) }
    }

    async fn explained(
        &self,
        (gate, now): (&Gate, Instant),
        user: User,
        query: &str,
    ) -> Result<Outcome, Outcome> {
        let (mut namespace, mut name) = (String::new(), String::new());
        for (parameter, value) in parameters(query, &["namespace", "name"]).map_err(Outcome::Wrong)? {
            *(if parameter == "namespace" { &mut namespace } else { &mut name }) = value;
        }
        if namespace.is_empty() || name.is_empty() {
            return Err(Outcome::Wrong(
                "both query parameters are required: ?namespace=NAMESPACE&name=NAME".to_owned(),
            ));
        }
        gate.may_get_pods(now, &user, &namespace).await?;
        Ok(match (self.explain)(namespace.clone(), name.clone()).await {
            None => Outcome::Later,
            Some(Some(json)) => Outcome::Json(json),
            Some(None) => Outcome::NoSuchPod(format!("no pending pod {name:?} in namespace {namespace:?}")),
        })
    }
}

#[cfg(test)]
mod tests;
