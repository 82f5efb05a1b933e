//! Interning tables: they map text to small ids. `crates/objects/src/convert` interns text when it converts objects.
//! The engine compares ids, and reads text only for messages.
//!
//! Ids can be compared for equality. Their order has no meaning, since a freed id is assigned to another text.

mod gc;
mod trace;

pub(crate) use gc::{MarkWorklist, WorkBudget, mark_after};
use trace::Bits;
pub(crate) use trace::{Marks, TraceIds, holds_no_ids, trace_ids};

use crate::collections::hash::{HashSeed, Keyed};
use crate::collections::shared::{Pool, Shared};
use crate::collections::uniques::Uniques;
use crate::model::emulation::{Compat, EmulatedVersion, GroupGates, VersionRules};
use crate::model::node::Taint;
use crate::model::pod::PodTemplate;
use crate::model::selector::RequiredNodeAffinity;
use gc::Collection;
use std::fmt;
use std::mem::take;
use std::num::NonZeroU32;
use std::ops::Range;

/// An interned text, for example a label key or value, a namespace, the name of a node or resource, or an
/// image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(NonZeroU32);

impl Symbol {
    /// The lowest id.
    pub(crate) const FIRST: Self = Self::at(0);

    const fn at(index: u32) -> Self {
        match NonZeroU32::new(index + 1) {
            Some(id) => Self(id),
            None => panic!("the table of symbols is full"),
        }
    }

    fn index(self) -> usize {
        self.place() as usize
    }

    fn place(self) -> u32 {
        self.0.get() - 1
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The id of an interned label set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSetId(u32);

/// The id of an interned list of taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(u32);

macro_rules! well_known {
    ($($(#[$doc:meta])* $name:ident = $index:literal $text:literal;)*) => {
        /// Well-known texts. They have the same id in every table.
        pub mod known {
            use super::Symbol;
            $($(#[$doc])* pub const $name: Symbol = Symbol::at($index);)*
            pub(crate) const ALL: &[(Symbol, &str)] = &[$(($name, $text)),*];
        }
    };
}

well_known! {
    /// The empty text.
    EMPTY = 0 "";
    /// The label with a node's host name, the default topology key for spreading over nodes.
    HOSTNAME = 1 "kubernetes.io/hostname";
    /// The label with a node's zone.
    ZONE = 2 "topology.kubernetes.io/zone";
    /// The label with a node's region.
    REGION = 3 "topology.kubernetes.io/region";
    /// The deprecated label with a node's zone.
    BETA_ZONE = 4 "failure-domain.beta.kubernetes.io/zone";
    /// The deprecated label with a node's region.
    BETA_REGION = 5 "failure-domain.beta.kubernetes.io/region";
    /// The taint of a cordoned node (`spec.unschedulable`).
    UNSCHEDULABLE = 6 "node.kubernetes.io/unschedulable";
    /// The address of a host port on all addresses.
    ANY_ADDRESS = 7 "0.0.0.0";
    /// The default protocol of a host port.
    TCP = 8 "TCP";
    /// The access mode of claims that at most one pod may use.
    READ_WRITE_ONCE_POD = 9 "ReadWriteOncePod";
    /// The default volume mode of claims and volumes.
    FILESYSTEM = 10 "Filesystem";
    /// The provisioner of StorageClasses without dynamic provisioning.
    NO_PROVISIONER = 11 "kubernetes.io/no-provisioner";
    /// The name of the claim for a pod's extended resources until it is created.
    EXTENDED_RESOURCES = 12 "<extended-resources>";
}

/// The minimum growth of the tables, in entries, before a gc round is worthwhile.
const GROWTH_MIN: usize = 16_384;

/// All interned texts, label sets, taint lists and shared pod parts of one scheduler.
///
/// An id is stable as long as a gc root marks it in each round (`Scheduler::collect_all_ids`).
pub struct Tables {
    texts: Uniques<Box<str>>,
    label_sets: Interner<(Symbol, Symbol)>,
    taint_sets: Interner<Taint>,
    templates: Pool<PodTemplate>,
    node_affinities: Pool<RequiredNodeAffinity>,
    hashing: Keyed,
    rules: VersionRules,
    group_gates: GroupGates,
    compat: Compat,
    /// Ids that are never freed, even if no gc root marks them.
    pinned: Marks,
    is_pinning: bool,
    /// The number of entries after the last gc round.
    held: usize,
    round: Option<Box<Collection>>,
    rounds: u64,
}

/// Numbers of entries in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSizes {
    /// Texts.
    pub symbols: usize,
    /// Sets of labels.
    pub label_sets: usize,
    /// Taint lists.
    pub taint_sets: usize,
    /// Shared parts of pods: templates and required node affinities.
    pub shared: usize,
}

impl TableSizes {
    /// Returns the number of all entries.
    pub fn total(self) -> usize {
        self.symbols + self.label_sets + self.taint_sets + self.shared
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Creates tables that contain only the well-known texts.
    pub fn new() -> Self {
        Self::hashed_by(Keyed::default())
    }

    /// Creates tables whose hashes use this seed. The engine uses it also for other maps with keys chosen by
    /// users.
    pub fn seeded(seed: HashSeed) -> Self {
        Self::hashed_by(Keyed::with(seed))
    }

    fn hashed_by(hashing: Keyed) -> Self {
        let mut tables = Self {
            texts: Uniques::hashed_by(hashing.clone()),
            label_sets: Interner(Uniques::hashed_by(hashing.clone())),
            taint_sets: Interner(Uniques::hashed_by(hashing.clone())),
            templates: Pool::hashed_by(hashing.clone()),
            node_affinities: Pool::hashed_by(hashing.clone()),
            hashing,
            rules: VersionRules::default(),
            group_gates: GroupGates::OFF,
            compat: Compat::default(),
            pinned: Marks::default(),
            is_pinning: false,
            held: 0,
            round: None,
            rounds: 0,
        };
        tables.pinned(|tables| {
            for &(symbol, text) in known::ALL {
                assert_eq!(tables.symbol(text), symbol, "well-known texts are numbered from zero");
            }
        });
        tables
    }

    /// Returns the hash function for keys that users choose.
    pub(crate) fn hashing(&self) -> &Keyed {
        &self.hashing
    }

    /// Returns the rules of the emulated version, which conversion and plugins follow.
    pub fn rules(&self) -> VersionRules {
        self.rules
    }

    /// Sets the emulated version. Objects that were converted before keep the values of the previous version.
    pub fn emulate(&mut self, version: EmulatedVersion) {
        self.rules = version.rules().with_groups(self.group_gates);
    }

    /// Sets the feature gates of pod groups, before the first object is converted.
    pub fn set_group_gates(&mut self, gates: GroupGates) {
        self.group_gates = gates;
        self.rules = self.rules.with_groups(gates);
    }

    /// Whether defects of kube-scheduler that lose a pod or break a claim's own constraints are reproduced
    /// (`--compat=upstream`).
    pub fn copies_defects(&self) -> bool {
        self.compat == Compat::Upstream
    }

    /// Sets whether such defects are reproduced.
    pub fn set_compat(&mut self, compat: Compat) {
        self.compat = compat;
    }

    /// Returns the id of `text`, assigning one if it has none.
    pub fn symbol(&mut self, text: &str) -> Symbol {
        let known = self.find(text);
        let symbol = known.unwrap_or_else(|| Symbol::at(self.texts.add(self.texts.hash(text), text.into())));
        self.hold(&symbol);
        symbol
    }

    /// Marks an id that was just requested, since the caller will hold it.
    fn hold(&mut self, asked: &(impl TraceIds + ?Sized)) {
        if self.is_pinning {
            asked.mark(&mut self.pinned);
        }
        if let Some(round) = &mut self.round {
            asked.mark(&mut round.marks);
        }
    }

    /// Runs `build` and pins all ids that it requests, so that they are never freed. For configuration, which
    /// no gc root covers.
    pub fn pinned<R>(&mut self, build: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.is_pinning, true);
        let built = build(self);
        self.is_pinning = before;
        built
    }

    /// Returns the id of `text`, if it has one.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.texts.find(self.texts.hash(text), |known| **known == *text).map(Symbol::at)
    }

    /// Returns the text of `symbol`.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.place())
    }

    /// Parses the text of `symbol` as Go's `strconv.ParseInt(text, 10, 64)` does: an optional sign, then
    /// digits. `i64::from_str` accepts the same texts.
    pub fn number(&self, symbol: Symbol) -> Option<i64> {
        self.text(symbol).parse().ok()
    }

    /// Returns the id of a label set. If a key occurs several times, its last value counts.
    pub fn label_set(&mut self, mut pairs: Vec<(Symbol, Symbol)>) -> LabelSetId {
        pairs.sort_by_key(|&(key, _)| key);
        pairs.reverse();
        pairs.dedup_by_key(|&mut (key, _)| key);
        pairs.reverse();
        // The gc round may already have passed the label sets, so the pairs are marked here.
        self.hold(&*pairs);
        let id = LabelSetId(self.label_sets.intern(pairs));
        self.hold(&id);
        id
    }

    /// Returns the labels of a label set.
    pub fn labels(&self, id: LabelSetId) -> Labels<'_> {
        Labels(self.label_sets.get(id.0))
    }

    /// Returns the id of a list of taints.
    pub fn taint_set(&mut self, taints: Vec<Taint>) -> TaintSetId {
        self.hold(&*taints);
        let id = TaintSetId(self.taint_sets.intern(taints));
        self.hold(&id);
        id
    }

    /// Returns the taints of a list, in the node's order.
    pub fn taints(&self, id: TaintSetId) -> &[Taint] {
        self.taint_sets.get(id.0)
    }

    /// Returns the shared copy of an equal template.
    pub fn template(&mut self, template: PodTemplate) -> Shared<PodTemplate> {
        self.templates.share(template)
    }

    /// Returns the shared copy of an equal required node affinity.
    pub fn node_affinity(&mut self, required: RequiredNodeAffinity) -> Shared<RequiredNodeAffinity> {
        self.node_affinities.share(required)
    }

    /// Returns the sizes of the tables, including entries that became unused since the last gc round.
    pub fn sizes(&self) -> TableSizes {
        TableSizes {
            symbols: self.texts.len(),
            label_sets: self.label_sets.len(),
            taint_sets: self.taint_sets.len(),
            shared: self.templates.len() + self.node_affinities.len(),
        }
    }

    /// Whether the tables have grown enough since the last gc round for another one.
    pub(crate) fn have_grown(&self) -> bool {
        self.sizes().total() - self.held.min(self.sizes().total()) > GROWTH_MIN.max(self.held / 2)
    }
}

struct Interner<T>(Uniques<Box<[T]>>);

impl<T: Eq + std::hash::Hash> Interner<T> {
    fn intern(&mut self, items: Vec<T>) -> u32 {
        let hash = self.0.hash(&*items);
        let known = self.0.find(hash, |known| **known == *items);
        known.unwrap_or_else(|| self.0.add(hash, items.into_boxed_slice()))
    }

    fn get(&self, id: u32) -> &[T] {
        self.0.get(id)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Eq + std::hash::Hash + TraceIds> Interner<T> {
    /// Frees the entries in a range of indexes that are neither marked nor pinned, and marks the ids that the
    /// remaining ones hold. `of` selects the marks of this table. Returns the number of indexes visited.
    fn sweep_range(
        &mut self,
        places: Range<usize>,
        marks: &mut Marks,
        pinned: &Bits,
        of: fn(&mut Marks) -> &mut Bits,
    ) -> usize {
        let marked = take(of(marks));
        let mut stays = |at, items: &[T]| {
            let is_held = marked.has(at) || pinned.has(at);
            if is_held {
                items.mark(marks);
            }
            is_held
        };
        let visited = self.0.sweep_range(places, |at, items| stays(at, items));
        *of(marks) = marked;
        visited
    }
}

/// The labels of one object, sorted by key id. The default is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a>(&'a [(Symbol, Symbol)]);

impl<'a> Labels<'a> {
    /// Returns the value of `key`, if the object has that label.
    pub fn get(self, key: Symbol) -> Option<Symbol> {
        self.0.binary_search_by_key(&key, |&(k, _)| k).ok().map(|at| self.0[at].1)
    }

    /// Returns all pairs of key and value, in arbitrary order.
    pub fn iter(self) -> impl Iterator<Item = (Symbol, Symbol)> + 'a {
        self.0.iter().copied()
    }

    /// Whether there are no labels.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frees everything but these label sets and the ids in them, in the smallest possible slices. Returns the
    /// number of freed ids.
    fn give_back_but(tables: &mut Tables, held: &[LabelSetId]) -> usize {
        tables.begin_collection();
        let mut marks = Marks::default();
        held.mark(&mut marks);
        tables.all_is_marked(marks);
        (0..).find_map(|_| tables.sweep(&mut WorkBudget::new(1))).expect("it comes to an end")
    }

    #[test]
    fn interned_text_has_one_id_and_round_trips() {
        let mut tables = Tables::new();
        let a = tables.symbol("a");
        assert_eq!(tables.symbol("a"), a);
        assert_eq!(tables.text(a), "a");
        assert_eq!(tables.find("b"), None);
        assert_eq!(tables.symbol("kubernetes.io/hostname"), known::HOSTNAME);
    }

    #[test]
    fn unmarked_ids_are_freed_and_reused() {
        let mut tables = Tables::new();
        let pinned = tables.pinned(|tables| tables.symbol("pinned"));
        let [key, value, alone] = ["key", "value", "alone"].map(|text| tables.symbol(text));
        let set = tables.label_set(vec![(key, value)]);
        tables.label_set(vec![(key, alone)]);
        assert_eq!(give_back_but(&mut tables, &[set]), 2, "a text and a set");
        assert_eq!(tables.text(value), "value", "the set holds it");
        assert_eq!(tables.text(pinned), "pinned");
        assert_eq!(tables.find("alone"), None);
        assert_eq!(tables.symbol("new"), alone, "the id is free");
        assert_eq!(tables.labels(set).get(key), Some(value));
        assert_eq!(give_back_but(&mut tables, &[]), 4);
        assert_eq!(tables.sizes().symbols, known::ALL.len() + 1);
    }

    #[test]
    fn ids_interned_during_a_sweep_survive() {
        // The request happens after each possible number of slices. An entry not yet visited is kept; a freed
        // one gets a new id.
        for pieces in 0..100 {
            let mut tables = Tables::new();
            let texts: Vec<String> = (0..40).map(|at| format!("text {at}")).collect();
            let symbols: Vec<Symbol> = texts.iter().map(|text| tables.symbol(text)).collect();
            for pair in symbols.chunks(2) {
                tables.label_set(vec![(pair[0], pair[1])]);
            }
            tables.begin_collection();
            tables.all_is_marked(Marks::default());
            for _ in 0..pieces {
                tables.sweep(&mut WorkBudget::new(1));
            }
            let (key, value) = (tables.symbol(&texts[0]), tables.symbol(&texts[39]));
            let set = tables.label_set(vec![(key, value)]);
            let second = tables.symbol(&texts[1]);
            let again = tables.label_set(vec![(key, second)]);
            while tables.is_collecting() {
                tables.sweep(&mut WorkBudget::new(1));
            }
            assert_eq!([tables.text(key), tables.text(value)], [&*texts[0], &*texts[39]]);
            assert_eq!(tables.labels(set).get(key), Some(value));
            assert_eq!(tables.labels(again).get(key).map(|value| tables.text(value)), Some(&*texts[1]));
            assert_eq!(tables.sizes().symbols, known::ALL.len() + 3, "after {pieces} pieces");
        }
    }

    #[test]
    fn numbers_parse_as_in_go() {
        let mut tables = Tables::new();
        let mut number = |text: &str| {
            let symbol = tables.symbol(text);
            tables.number(symbol)
        };
        assert_eq!(number("05"), Some(5));
        assert_eq!(number("-3"), Some(-3));
        assert_eq!(number("+3"), Some(3));
        assert_eq!(number("x"), None);
        assert_eq!(number(""), None);
        assert_eq!(number("9223372036854775808"), None);
    }

    #[test]
    fn label_sets_ignore_order_and_the_last_value_of_a_key_counts() {
        let mut tables = Tables::new();
        let [a, b, c] = ["a", "b", "c"].map(|t| tables.symbol(t));
        let one = tables.label_set(vec![(a, b), (b, c)]);
        assert_eq!(tables.label_set(vec![(b, c), (a, b)]), one);
        let twice = tables.label_set(vec![(a, b), (a, c)]);
        assert_eq!(tables.labels(twice).get(a), Some(c));
        assert_eq!(tables.labels(twice).get(b), None);
    }
}
