//! HTTP extenders of a configuration, as the engine knows them.

use crate::v1;
use supercargo_core::model::extender::{Extender, ExtenderId};
use supercargo_core::model::intern::Tables;

/// Returns extenders for an engine that never calls them.
pub fn unreached(written: &[v1::Extender], tables: &mut Tables) -> Vec<Extender> {
    (0..).map(ExtenderId).zip(written).map(|(id, written)| known(id, written, tables)).collect()
}

/// Returns the extender with this id for the engine.
pub fn known(id: ExtenderId, written: &v1::Extender, tables: &mut Tables) -> Extender {
    Extender {
        id,
        url: written.url_prefix.as_str().into(),
        filters: !written.filter_verb.is_empty(),
        prioritizes: !written.prioritize_verb.is_empty(),
        preempts: !written.preempt_verb.is_empty(),
        binds: !written.bind_verb.is_empty(),
        weight: written.weight,
        ignorable: written.ignorable,
        managed: written.managed_resources.iter().map(|it| tables.symbol(&it.name)).collect(),
    }
}
