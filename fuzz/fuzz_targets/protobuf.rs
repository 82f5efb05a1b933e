//! Objects in the API server's protobuf encoding, of each kind, and their conversion into the engine's model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use supercargo_core::model::intern::Tables;
use supercargo_objects::api::proto::FromProtobuf;
use supercargo_objects::api::{
    Namespace, Node, Pod, PodDisruptionBudget, PodGroupV1Alpha2, PodGroupV1Beta1, ReplicaSet, ResourceClaim,
    ResourceSlice, Service, StatefulSet,
};
use supercargo_objects::convert::Watched;

fn convert<K: FromProtobuf + Watched>(bytes: &[u8]) {
    let object = K::from_protobuf(bytes);
    let mut tables = Tables::new();
    let _ = object.applied(&mut tables);
    let _ = object.key(&mut tables);
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 11 {
        0 => convert::<Pod>(bytes),
        1 => convert::<Node>(bytes),
        2 => convert::<Namespace>(bytes),
        3 => convert::<Service>(bytes),
        4 => convert::<ReplicaSet>(bytes),
        5 => convert::<StatefulSet>(bytes),
        6 => convert::<PodDisruptionBudget>(bytes),
        7 => convert::<ResourceClaim>(bytes),
        8 => convert::<ResourceSlice>(bytes),
        9 => convert::<PodGroupV1Alpha2>(bytes),
        _ => convert::<PodGroupV1Beta1>(bytes),
    }
});
