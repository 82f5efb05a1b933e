//! Whether the API server does not serve a kind, by its discovery documents.
//!
//! A 404 alone does not say so: a proxy without a route sends the same text.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use supercargo_objects::api::Encoding;

use super::backoff::Budget;
use super::lines::{Trouble, page};
use super::object::Object;

/// The groups that an API server serves.
#[derive(Deserialize)]
struct Groups {
    kind: String,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// The resources of a version of a group.
#[derive(Deserialize)]
struct Resources {
    kind: String,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
}

/// Returns whether the discovery documents lack the kind. They count as lacking it if the API server does not let this
/// client read them; an answer that no API server sends, or none, says nothing.
pub(super) async fn is_absent<K: Object>(client: &kube::Client, budget: &Budget) -> bool {
    lacks::<K>(client, budget).await.unwrap_or_else(|trouble| match trouble {
        Trouble::Refused(status) => status.code == 403 && status.reason == "Forbidden",
        _ => false,
    })
}

async fn lacks<K: Object>(client: &kube::Client, budget: &Budget) -> Result<bool, Trouble> {
    let (group, version, plural) = (K::group(&()), K::version(&()), K::plural(&()));
    let all: Groups = read(client, budget, "/apis").await?;
    if all.kind != "APIGroupList" {
        return Err(Trouble::Garbled(format!("{} instead of APIGroupList", all.kind)));
    }
    let mut of_group = all.groups.iter().filter(|it| it.name == *group).flat_map(|it| &it.versions);
    if !of_group.any(|it| it.version == *version) {
        return Ok(true);
    }
    let served: Resources = read(client, budget, &format!("/apis/{group}/{version}")).await?;
    if served.kind != "APIResourceList" {
        return Err(Trouble::Garbled(format!("{} instead of APIResourceList", served.kind)));
    }
    Ok(!served.resources.iter().any(|it| it.name == *plural))
}

async fn read<T: DeserializeOwned>(client: &kube::Client, budget: &Budget, path: &str) -> Result<T, Trouble> {
    budget.request().await;
    let (_, body) = page(client, path, Encoding::Json).await?;
    serde_json::from_slice(&body).map_err(|error| Trouble::Garbled(error.to_string()))
}
