//! Generates in-tree volumes that CSI drivers serve: in pods, PersistentVolumes, classes and on nodes.

use crate::draw::Draw;
use serde_json::{Value, json};

/// An in-tree volume type: its field, plugin name and CSI driver.
struct Kind {
    field: &'static str,
    plugin: &'static str,
    driver: &'static str,
    make: fn(&mut Draw, &str) -> Value,
}

const KINDS: [Kind; 7] = [
    Kind {
        field: "awsElasticBlockStore",
        plugin: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
        make: ebs,
    },
    Kind {
        field: "gcePersistentDisk",
        plugin: "kubernetes.io/gce-pd",
        driver: "pd.csi.storage.gke.io",
        make: |draw, name| json!({ "pdName": name, "partition": draw.below(2), "readOnly": draw.percent(30) }),
    },
    Kind {
        field: "azureDisk",
        plugin: "kubernetes.io/azure-disk",
        driver: "disk.csi.azure.com",
        make: azure,
    },
    Kind {
        field: "cinder",
        plugin: "kubernetes.io/cinder",
        driver: "cinder.csi.openstack.org",
        make: |_, name| json!({ "volumeID": name }),
    },
    Kind {
        field: "portworxVolume",
        plugin: "kubernetes.io/portworx-volume",
        driver: "pxd.portworx.com",
        make: |draw, name| json!({ "volumeID": name, "readOnly": draw.percent(30) }),
    },
    Kind {
        field: "azureFile",
        plugin: "kubernetes.io/azure-file",
        driver: "file.csi.azure.com",
        make: |_, name| json!({ "secretName": "s", "shareName": name }),
    },
    Kind {
        field: "vsphereVolume",
        plugin: "kubernetes.io/vsphere-volume",
        driver: "csi.vsphere.vmware.com",
        make: |_, name| json!({ "volumePath": name }),
    },
];

fn kind(draw: &mut Draw) -> &'static Kind {
    &KINDS[draw.weighted(&[(5, 0), (5, 1), (3, 2), (3, 3), (2, 4), (1, 5), (1, 6)])]
}

/// Adds an in-tree source to a volume or to a PersistentVolume's spec.
pub(super) fn source(draw: &mut Draw, name: &str, to: &mut Value) {
    let kind = kind(draw);
    to[kind.field] = (kind.make)(draw, name);
}

fn ebs(draw: &mut Draw, name: &str) -> Value {
    let id = match draw.below(20) {
        0..12 => format!("vol-{name}"),
        12..15 => format!("aws://z1/vol-{name}"),
        15 | 16 => format!("aws:///vol-{name}"),
        17 => format!("aws://z%25/vol-{name}"),
        18 => name.to_owned(),
        _ => draw
            .pick(&["aws://z1/d", "aws://%zz/vol-1", "aws://z 1/vol-1", "aws://z:x/vol-1", "aws://z/vol-1/x"])
            .to_owned(),
    };
    json!({ "volumeID": id, "readOnly": draw.percent(30) })
}

fn azure(draw: &mut Draw, name: &str) -> Value {
    let mut disk = json!({ "diskName": name, "diskURI": format!("uri-{name}") });
    if draw.percent(40) {
        disk["kind"] = draw.weighted(&[(6, "Managed"), (1, "Shared"), (1, "Dedicated")]).into();
    }
    disk
}

/// Returns the name of a CSI driver that serves an in-tree type.
pub(super) fn driver(draw: &mut Draw) -> &'static str {
    kind(draw).driver
}

/// Returns the name of an in-tree plugin, as used in classes and node annotations.
pub(super) fn plugin(draw: &mut Draw) -> &'static str {
    kind(draw).plugin
}

/// Returns the value of a zone label.
pub(super) fn zones(draw: &mut Draw) -> &'static str {
    draw.pick(&["z1", "z2", "z1__z2", "z1__", "r1", "", " z1 __z3", "l-r-a__l-r-b", "l-r-a__l-s-b", "l-r-a"])
}
