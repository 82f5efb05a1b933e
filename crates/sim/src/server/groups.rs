//! PodGroups of the simulated API server.

use super::{Change, Server};
use crate::groups::Group;
use std::sync::Arc;
use supercargo_core::model::event::Kind;

impl Server {
    pub(crate) fn put_group(&mut self, mut group: Group) {
        self.version += 1;
        group.version = self.version;
        let group = Arc::new(group);
        self.groups.insert(group.key(), Arc::clone(&group));
        self.publish(Kind::PodGroup, Change::Group(group));
    }

    pub(crate) fn remove_group(&mut self, key: &str) {
        if self.groups.remove(key).is_some() {
            self.version += 1;
            self.publish(Kind::PodGroup, Change::GroupGone(key.to_owned()));
        }
    }
}
