//! Protobuf and JSON of the API server decode to equal objects, and a scheduler that reads JSON behaves the same.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use supercargo_objects::api::proto::{FromProtobuf, list};
use supercargo_objects::api::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Encoding, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, ResourceClaim,
    ResourceSlice, Service, StatefulSet, StorageClass, VolumeAttachment,
};

use crate::harness::ControlPlane;
use crate::harness::nodes;
use crate::world::{World, play, requesting, sample};

/// One object of each decoded kind, unless a controller creates one.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {zone: z}}
spec: {taints: [{key: a, value: b, effect: NoSchedule}]}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: default}
spec: {selector: {app: a}, ports: [{port: 80, targetPort: web}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: rc, namespace: default}
spec: {replicas: 0, selector: {app: a}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: rs, namespace: default}
spec: {replicas: 1, selector: {matchLabels: {app: b}}, template: {metadata: {labels: {app: b}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ss, namespace: default}
spec: {replicas: 0, serviceName: s, selector: {matchExpressions: [{key: app, operator: In, values: [c, d]}, {key: app, operator: Exists}]}, template: {metadata: {labels: {app: c}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: default}
spec: {minAvailable: 50%, selector: {matchLabels: {app: b}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, annotations: {volume.beta.kubernetes.io/storage-class: slow, other: "1"}}
spec:
  capacity: {storage: 1024Mi}
  accessModes: [ReadWriteOnce, ReadOnlyMany]
  csi: {driver: d.example.com, volumeHandle: h, volumeAttributes: {a: b}}
  claimRef: {namespace: default, name: absent}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [z]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 0.5Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: d.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [z]}]}]
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: of-no-node}
spec: {drivers: [{name: d.example.com, nodeID: id, allocatable: {count: 3}}]}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: d.example.com}
spec: {storageCapacity: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: sc, namespace: default}
storageClassName: late
capacity: 100Gi
maximumVolumeSize: 1500M
nodeTopology: {matchLabels: {zone: z}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {name: va}
spec: {attacher: d.example.com, nodeName: node-1, source: {persistentVolumeName: v}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: "device.driver == 'd.example.com'"}}]
  config: [{opaque: {driver: d.example.com, parameters: {mode: "<shared>", share: 1.0}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: rc, namespace: default, finalizers: [resource.kubernetes.io/delete-protection, example.com/other], annotations: {resource.kubernetes.io/extended-resource-claim: "true"}}
spec:
  devices:
    requests:
    - {name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 1024Mi}}, tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}}
    - {name: s, firstAvailable: [{name: a, deviceClassName: gpu, allocationMode: All}, {name: b, deviceClassName: gpu, count: 2}]}
    constraints: [{requests: [r], matchAttribute: d.example.com/numa}]
    config: [{requests: [r], opaque: {driver: d.example.com, parameters: {a: [1, null]}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: d.example.com
  pool: {name: p, generation: 2, resourceSliceCount: 1}
  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [z]}]}]}
  devices:
  - name: d0
    attributes: {numa: {int: -1}, model: {string: a}, d.example.com/ecc: {bool: true}, driver: {version: 1.2.3}}
    capacity: {memory: {value: 80Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi, step: 1Gi}}}}
    allowMultipleAllocations: true
    taints: [{key: k, value: v, effect: NoSchedule}]
    bindsToNode: true
    bindingConditions: [ready]
    bindingFailureConditions: [failed]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: default}
---
apiVersion: v1
kind: Pod
metadata: {name: full, namespace: default, labels: {app: a, empty: ""}}
spec:
  schedulerName: absent
  priority: 0
  hostUsers: false
  nodeSelector: {disk: ssd}
  tolerations: [{operator: Exists}, {key: k, value: v, effect: NoExecute, tolerationSeconds: 5}]
  schedulingGates: [{name: example.com/wait}]
  affinity:
    nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}}]}
    podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, namespaceSelector: {}, labelSelector: {matchLabels: {app: a}}}]}
  topologySpreadConstraints: [{maxSkew: 2, minDomains: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: a}}, matchLabelKeys: [pod-template-hash], nodeTaintsPolicy: Honor}]
  initContainers: [{name: side, image: i, restartPolicy: Always, resources: {requests: {cpu: 0.1}}}]
  containers:
  - {name: c, image: i, resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {cpu: 2}}, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}, {containerPort: 53, protocol: UDP}]}
  volumes:
  - {name: claim, persistentVolumeClaim: {claimName: c}}
  - {name: inline, csi: {driver: d.example.com, readOnly: true}}
  - {name: disk, gcePersistentDisk: {pdName: p, readOnly: true}}
  - {name: block, rbd: {monitors: [m1, m2], image: i}}
  - {name: lun, iscsi: {targetPortal: "1.2.3.4:3260", iqn: "iqn.2001-04.com.example:s", lun: 0}}
  - {name: made, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
  - {name: conf, configMap: {name: kube-root-ca.crt}}
"#;

#[tokio::test]
async fn api_servers_protobuf_and_json_decode_to_equal_objects() -> Result<()> {
    // A control plane without controllers, so that nothing changes between the two lists.
    let plane = ControlPlane::builder().start().await?;
    let client = plane.client().await?;
    let file = plane.folder().join("objects.yaml");
    std::fs::write(&file, OBJECTS)?;
    plane.admin().kubectl(&["apply", "-f", &file.display().to_string()]).await?;
    same::<Pod>(&client).await?;
    same::<Node>(&client).await?;
    same::<Namespace>(&client).await?;
    same::<Service>(&client).await?;
    same::<ReplicationController>(&client).await?;
    same::<ReplicaSet>(&client).await?;
    same::<StatefulSet>(&client).await?;
    same::<PodDisruptionBudget>(&client).await?;
    same::<PersistentVolume>(&client).await?;
    same::<PersistentVolumeClaim>(&client).await?;
    same::<StorageClass>(&client).await?;
    same::<CsiNode>(&client).await?;
    same::<CsiDriver>(&client).await?;
    same::<CsiStorageCapacity>(&client).await?;
    same::<VolumeAttachment>(&client).await?;
    same::<DeviceClass>(&client).await?;
    same::<ResourceClaim>(&client).await?;
    same::<ResourceSlice>(&client).await
}

async fn same<K>(client: &Client) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + FromProtobuf + Debug,
{
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "K: DeserializeOwned"))]
    struct List<K> {
        items: Vec<K>,
    }

    let path = K::url_path(&(), None);
    let json = get(client, &path, Encoding::Json).await?;
    let from_json: List<K> = serde_json::from_slice(&json)?;
    let bytes = get(client, &path, Encoding::Protobuf).await?;
    let page = list(&bytes).map_err(|flaw| anyhow::anyhow!("{path}: {flaw}"))?;
    ensure!(!page.items.is_empty(), "no objects to compare at {path}");
    let texts = |items: &[K]| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>();
    let items: Vec<K> = page.items.into_iter().map(K::from_protobuf).collect();
    assert_eq!(texts(&items), texts(&from_json.items));
    Ok(())
}

async fn get(client: &Client, path: &str, encoding: Encoding) -> Result<Vec<u8>> {
    let request = Request::get(path).header("accept", encoding.accept()).body(Body::empty())?;
    let response = client.send(request).await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    let content_type = response.headers()["content-type"].to_str()?;
    ensure!(Encoding::of(content_type) == encoding, "{path}: {content_type}");
    Ok(response.into_body().collect().await.context("the response is incomplete")?.to_bytes().into())
}

/// Pods that use many decoded fields: requests, selectors, taints, affinity and preemption.
async fn mixed_work(world: &World<'_>) -> Result<()> {
    let nodes = ["a", "b"].map(|name| world.node(name).allocatable("cpu", "4"));
    nodes::create_all(&world.client, &nodes).await?;
    let mut apart = requesting(&json!({"cpu": "1"}));
    apart["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}},
    ]}});
    for name in ["one", "two"] {
        world.create(name, &apart).await?;
    }
    let placed = [world.bound("one").await?, world.bound("two").await?];
    ensure!(placed[0] != placed[1], "both are on {}", placed[0]);
    world.create("three", &apart).await?;
    world.waiting("three", "2 node(s) didn't match pod anti-affinity rules").await?;
    world.delete("one").await?;
    ensure!(world.bound("three").await? == placed[0], "it is placed on the victim's node");
    Ok(())
}

#[tokio::test]
async fn scheduler_reads_protobuf_unless_configured_for_json() -> Result<()> {
    play("encoding", async |world| {
        mixed_work(world).await?;
        let received = async |world: &World<'_>, kind: &str, encoding: &str| -> Result<f64> {
            let series =
                format!("supercargo_watch_received_bytes_total{{encoding=\"{encoding}\",kind=\"{kind}\"}}");
            sample(&world.metrics().await?, &series).context(series)
        };
        for kind in ["Pod", "Node", "DeviceClass"] {
            ensure!(received(world, kind, "protobuf").await? > 0.0, "{kind} does not come as protobuf");
            ensure!(received(world, kind, "json").await? == 0.0, "{kind} comes as JSON");
        }
        world.read_json().await?;
        world.node("c").allocatable("cpu", "1").create(&world.client).await?;
        world.create("late", &requesting(&json!({"cpu": "1"}))).await?;
        ensure!(world.bound("late").await?.ends_with("-c"), "anti-affinity excludes the other nodes");
        for kind in ["Pod", "Node", "DeviceClass"] {
            ensure!(received(world, kind, "protobuf").await? == 0.0, "{kind} comes as protobuf");
            ensure!(received(world, kind, "json").await? > 0.0, "{kind} does not come as JSON");
        }
        Ok(())
    })
    .await
}
