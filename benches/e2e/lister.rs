//! Requests the lists that supercargo requests at startup, in the same format and concurrently, discards them, and
//! posts one Binding. Its time is the API server's own.

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::{Buf, BytesMut};
use futures::StreamExt;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::{Client, Resource};
use std::path::Path;
use supercargo_core::model::event::Kind;
use supercargo_objects::api::proto::{Change, Flaw, WatchEvent, bookmark};
use supercargo_objects::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Encoding, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim,
    ResourceSlice, Service, StatefulSet, StorageClass, VolumeAttachment,
};
use tokio::task::JoinSet;

use crate::harness::Access;
use crate::load::NAMESPACE;
use crate::null_binder::bind;
use crate::print_line;

/// Prefix of the log line with the total size of all lists.
pub(crate) const READ: &str = "bytes of lists: ";

/// Size of a frame's length field.
const FRAME_HEAD: usize = size_of::<u32>();

/// Reads the lists, and binds the pod to the node.
pub(crate) async fn run(kubeconfig: &Path, pod: &str, node: &str) -> Result<()> {
    let client = connected(&Access::from_kubeconfig(kubeconfig)).await?;
    let mut lists = JoinSet::new();
    for list in lists_of_all_kinds() {
        let client = client.clone();
        lists.spawn(async move { read(&client, &list).await.with_context(|| format!("GET {list}")) });
    }
    let mut bytes = 0;
    while let Some(read) = lists.join_next().await {
        bytes += read??;
    }
    print_line(&format!("{READ}{bytes}"));
    bind(&client, NAMESPACE, pod, node).await?;
    // The parent reads this process's resource usage while it is alive.
    std::future::pending().await
}

/// Creates a client with the same connection settings as supercargo's.
pub(crate) async fn connected(access: &Access) -> Result<Client> {
    Ok(supercargo_apiserver::client::builder(&access.config().await?)?.build())
}

/// Returns supercargo's initial lists (`crates/apiserver/src/watch`): for each kind, a watch that streams the initial
/// objects.
fn lists_of_all_kinds() -> [String; Kind::ALL.len()] {
    [
        list::<Pod>("&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"),
        list::<Node>(""),
        list::<Namespace>(""),
        list::<Service>(""),
        list::<ReplicationController>(""),
        list::<ReplicaSet>(""),
        list::<StatefulSet>(""),
        list::<PodDisruptionBudget>(""),
        list::<PersistentVolume>(""),
        list::<PersistentVolumeClaim>(""),
        list::<StorageClass>(""),
        list::<CsiNode>(""),
        list::<CsiDriver>(""),
        list::<CsiStorageCapacity>(""),
        list::<VolumeAttachment>(""),
        list::<DeviceClass>(""),
        list::<ResourceClaim>(""),
        list::<ResourceSlice>(""),
    ]
}

fn list<K: Resource<DynamicType = ()>>(selector: &str) -> String {
    let query = "watch=true&allowWatchBookmarks=true&timeoutSeconds=600&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan";
    format!("{}?{query}{selector}", K::url_path(&(), None))
}

/// Reads a list to its end and returns its size in bytes.
async fn read(client: &Client, list: &str) -> Result<usize> {
    let request = Request::get(list).header(ACCEPT, Encoding::Protobuf.accept_watch()).body(Body::empty())?;
    let answer = client.send(request).await?;
    let (status, headers) = (answer.status(), answer.headers());
    let written = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ensure!(status.is_success() && Encoding::of(written) == Encoding::Protobuf, "status {status}, {written}");
    let (mut chunks, mut buffer, mut bytes) = (answer.into_body().into_data_stream(), BytesMut::new(), 0);
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk?);
        while let Some(frame) = frame(&mut buffer) {
            bytes += frame.len();
            if ends_list(&frame)? {
                return Ok(bytes);
            }
        }
    }
    bail!("the list was truncated")
}

/// Splits off a complete frame, without its length field.
fn frame(buffer: &mut BytesMut) -> Option<BytesMut> {
    let length = u32::from_be_bytes(*buffer.first_chunk()?) as usize;
    if buffer.len() - FRAME_HEAD < length {
        return None;
    }
    buffer.advance(FRAME_HEAD);
    Some(buffer.split_to(length))
}

/// Reports whether the frame is the bookmark that ends the list.
fn ends_list(frame: &[u8]) -> Result<bool> {
    let garbled = |flaw: Flaw| anyhow!("{flaw}");
    let WatchEvent { change, object, .. } = WatchEvent::read(frame).map_err(garbled)?;
    match change {
        Change::Applied | Change::Deleted => Ok(false),
        Change::Bookmark => Ok(bookmark(object).map_err(garbled)?.1),
        Change::Error | Change::Unknown(_) => bail!("the API server ended the list with an error"),
    }
}
