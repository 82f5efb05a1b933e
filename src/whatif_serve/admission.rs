//! Lists the objects that only the admission of pods reads, again and again: they are few and rarely change, and the
//! scheduler does not watch them.

use http::Request;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::request::{self, RequestError};
use supercargo_cli::live::port::encoded;
use supercargo_whatif::load::files::items;
use supercargo_whatif::server::Store;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A kind that is listed.
#[derive(Clone, Copy, Debug)]
struct Listed {
    path: &'static str,
    api_version: &'static str,
    /// The kind of the list.
    kind: &'static str,
    /// Whether all versions of the API server serve it.
    is_always_served: bool,
}

const fn listed(path: &'static str, api_version: &'static str, kind: &'static str) -> Listed {
    Listed { path, api_version, kind, is_always_served: true }
}

/// The kinds. StorageClasses are watched, too, but admission reads them from here.
const KINDS: [Listed; 5] = [
    listed("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClassList"),
    listed("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClassList"),
    listed("/api/v1/limitranges", "v1", "LimitRangeList"),
    // Since 1.34.
    Listed {
        path: "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        api_version: "resource.k8s.io/v1",
        kind: "ResourceClaimTemplateList",
        is_always_served: false,
    },
    listed("/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClassList"),
];
/// Interval of the lists.
const EVERY: Duration = Duration::from_secs(30);
/// Time limit of one list.
const WITHIN: Duration = Duration::from_secs(20);
/// Objects per page, as in kubectl.
const PAGE: usize = 500;
/// Maximum size of a list in bytes, all pages together. 10,000 objects of some kilobytes each take half of it.
const LIST_MAX: usize = 64 << 20;

/// The task that lists; dropping it stops it.
pub(super) struct Admission(JoinHandle<()>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Admission {
    /// Starts the lists.
    pub(super) fn follow(client: kube::Client, store: Arc<Store>) -> Self {
        Self(tokio::spawn(async move {
            let mut failing: BTreeSet<&str> = BTreeSet::new();
            let mut before: Vec<Option<Vec<Value>>> = vec![None; KINDS.len()];
            loop {
                let now = list_all(&client, &before, &mut failing).await;
                if now != before {
                    store.set_admission(now.iter().flatten().flatten().cloned().collect());
                    before = now;
                }
                tokio::time::sleep(EVERY).await;
            }
        }))
    }
}

/// Lists all kinds. A kind whose list fails keeps the objects from `before`; `None` stands for never listed.
async fn list_all(
    client: &kube::Client,
    before: &[Option<Vec<Value>>],
    failing: &mut BTreeSet<&'static str>,
) -> Vec<Option<Vec<Value>>> {
    let mut now = before.to_vec();
    for (kind, known) in KINDS.into_iter().zip(&mut now) {
        let path = kind.path;
        let list = timeout(WITHIN, list(client, kind)).await;
        let list = match list {
            Err(_) => Err(format!("no response within {} s", WITHIN.as_secs())),
            // An API server that does not know the kind has no objects of it. If it had some, the answer is another's.
            Ok(Err(error))
                if error.is_not_served()
                    && !kind.is_always_served
                    && known.as_ref().is_none_or(Vec::is_empty) =>
            {
                Ok(Vec::new())
            }
            Ok(list) => list.map_err(|error| error.to_string()),
        };
        match list {
            Ok(objects) => {
                failing.remove(path);
                *known = Some(objects);
            }
            Err(error) if failing.insert(path) => {
                tracing::warn!(
                    path,
                    error,
                    "failed to list what the admission of pods reads; the objects listed before stay in use"
                );
            }
            Err(_) => {}
        }
    }
    now
}

/// Lists all objects of a kind.
async fn list(client: &kube::Client, kind: Listed) -> Result<Vec<Value>, RequestError> {
    let (mut objects, mut more, mut room) = (Vec::new(), String::new(), LIST_MAX);
    loop {
        let from = if more.is_empty() { String::new() } else { format!("&continue={}", encoded(&more)) };
        let request = Request::get(format!("{}?limit={PAGE}{from}", kind.path)).body(Vec::new());
        let answer = request::send(client, request.expect("the path is valid"), room).await?;
        room = room.saturating_sub(answer.size());
        let mut page: Value = answer.object(kind.api_version, kind.kind)?;
        match page.get("items") {
            Some(Value::Array(_)) => {}
            // Go writes an empty list so.
            Some(Value::Null) => page["items"] = Value::Array(Vec::new()),
            _ => return Err(answer.foreign("its body has no items")),
        }
        more = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        objects.append(&mut items(page));
        if more.is_empty() {
            return Ok(objects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;

    /// An API server that has one object of each kind, in two pages, except that `odd` answers for `path`.
    fn server(path: &'static str, odd: Option<(u16, &'static str)>) -> kube::Client {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let asked = request.uri().path().to_owned();
            let kind = *KINDS.iter().find(|kind| kind.path == asked).expect("a listed kind");
            let is_second = match request.uri().query().expect("pages have a limit") {
                "limit=500" => false,
                "limit=500&continue=a%2Fb" => true,
                other => panic!("{other}"),
            };
            let page = json!({
                "apiVersion": kind.api_version, "kind": kind.kind,
                "metadata": {"continue": if is_second { "" } else { "a/b" }},
                "items": if is_second { json!([{"metadata": {"name": "one"}}]) } else { Value::Null },
            });
            let (code, body) = match odd {
                Some((code, body)) if asked == path => (code, body.to_owned()),
                _ => (200, page.to_string()),
            };
            let response = Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        kube::Client::new(service, "default")
    }

    const LIMIT_RANGES: &str = "/api/v1/limitranges";
    const TEMPLATES: &str = "/apis/resource.k8s.io/v1/resourceclaimtemplates";
    const NO_SUCH_PATH: &str = "404 page not found\n";

    async fn listed_after(
        before: &[Option<Vec<Value>>],
        path: &'static str,
        odd: Option<(u16, &'static str)>,
    ) -> Vec<Option<Vec<Value>>> {
        list_all(&server(path, odd), before, &mut BTreeSet::new()).await
    }

    #[tokio::test]
    async fn all_pages_are_listed_and_objects_have_their_kind() {
        let listed = listed_after(&[const { None }; 5], "", None).await;
        let one = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "one"}});
        assert_eq!(listed[0], Some(vec![one]));
        assert!(listed.iter().all(|kind| kind.as_ref().is_some_and(|objects| objects.len() == 1)));
    }

    #[tokio::test]
    async fn foreign_answer_keeps_the_known_objects() {
        let known = listed_after(&[const { None }; 5], "", None).await;
        for odd in [
            (404, "<html>not found</html>"),
            (404, NO_SUCH_PATH),
            (200, "{}"),
            (200, r#"{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}}"#),
            (200, r#"{"apiVersion": "v1", "kind": "LimitRangeList", "metadata": {}}"#),
            (200, r#"{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}"#),
            (503, "busy"),
        ] {
            assert_eq!(listed_after(&known, LIMIT_RANGES, Some(odd)).await, known, "{odd:?}");
        }
        let empty = r#"{"apiVersion": "v1", "kind": "LimitRangeList", "metadata": {}, "items": []}"#;
        assert_eq!(listed_after(&known, LIMIT_RANGES, Some((200, empty))).await[2], Some(Vec::new()));
    }

    #[tokio::test]
    async fn kind_that_is_not_served_is_empty_unless_it_was_served_before() {
        let never = [const { None }; 5];
        let odd = Some((404, NO_SUCH_PATH));
        let listed = listed_after(&never, TEMPLATES, odd).await;
        assert_eq!(listed[3], Some(Vec::new()));
        assert_eq!(listed_after(&listed, TEMPLATES, odd).await, listed);
        assert_eq!(listed_after(&never, TEMPLATES, Some((404, "<html>"))).await[3], None);
        let known = listed_after(&never, "", None).await;
        assert_eq!(listed_after(&known, TEMPLATES, odd).await, known);
    }
}
