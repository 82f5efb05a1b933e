//! The tables that turn text into small ids. `src/convert` asks them as objects come in; past that point the engine
//! compares numbers. Text comes back out only for messages.
//!
//! Ids compare for equality. Their order is the order of first sight and means nothing.

use crate::hash::FixedMap;
use crate::node::Taint;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// An interned text: a label key or value, a namespace, a node's or a resource's name, an image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(NonZeroU32);

impl Symbol {
    const fn at(index: u32) -> Self {
        match NonZeroU32::new(index + 1) {
            Some(id) => Self(id),
            None => panic!("the table of symbols is full"),
        }
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// An interned set of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSetId(u32);

/// An interned list of taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaintSetId(u32);

macro_rules! well_known {
    ($($(#[$doc:meta])* $name:ident = $index:literal $text:literal;)*) => {
        /// Texts the engine itself looks for; they have the same id in every table.
        pub mod known {
            use super::Symbol;
            $($(#[$doc])* pub const $name: Symbol = Symbol::at($index);)*
            pub(super) const ALL: &[(Symbol, &str)] = &[$(($name, $text)),*];
        }
    };
}

well_known! {
    /// The empty text.
    EMPTY = 0 "";
    /// The label with a node's host name, the default topology of "one per node".
    HOSTNAME = 1 "kubernetes.io/hostname";
    /// The label with a node's zone.
    ZONE = 2 "topology.kubernetes.io/zone";
    /// The label with a node's region.
    REGION = 3 "topology.kubernetes.io/region";
    /// The former label with a node's zone.
    BETA_ZONE = 4 "failure-domain.beta.kubernetes.io/zone";
    /// The former label with a node's region.
    BETA_REGION = 5 "failure-domain.beta.kubernetes.io/region";
    /// The taint that stands for `spec.unschedulable`.
    UNSCHEDULABLE = 6 "node.kubernetes.io/unschedulable";
    /// The address of a host port that takes all addresses.
    ANY_ADDRESS = 7 "0.0.0.0";
    /// The protocol of a host port that names none.
    TCP = 8 "TCP";
    /// The access mode of claims that one pod at most may use.
    READ_WRITE_ONCE_POD = 9 "ReadWriteOncePod";
    /// The volume mode of claims and volumes that name none.
    FILESYSTEM = 10 "Filesystem";
    /// The provisioner of classes whose volumes are made by hand.
    NO_PROVISIONER = 11 "kubernetes.io/no-provisioner";
}

struct Entry {
    text: Arc<str>,
    /// The text read as a base-10 i64, for `Gt` and `Lt`.
    number: Option<i64>,
}

/// All interned texts, label sets and taint sets of one scheduler.
pub struct Tables {
    symbols: FixedMap<Arc<str>, Symbol>,
    entries: Vec<Entry>,
    label_sets: Interner<(Symbol, Symbol)>,
    taint_sets: Interner<Taint>,
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Tables that hold the well-known texts and nothing else.
    pub fn new() -> Self {
        let mut tables = Self {
            symbols: FixedMap::default(),
            entries: Vec::new(),
            label_sets: Interner::default(),
            taint_sets: Interner::default(),
        };
        for &(symbol, text) in known::ALL {
            assert_eq!(tables.symbol(text), symbol, "well-known texts are numbered from zero");
        }
        tables
    }

    /// The id of `text`, given now if it has none.
    pub fn symbol(&mut self, text: &str) -> Symbol {
        if let Some(&symbol) = self.symbols.get(text) {
            return symbol;
        }
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 texts are alive");
        let symbol = Symbol::at(index);
        let text: Arc<str> = text.into();
        self.entries.push(Entry { number: parse_number(&text), text: Arc::clone(&text) });
        self.symbols.insert(text, symbol);
        symbol
    }

    /// The id of `text` if it has one.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.symbols.get(text).copied()
    }

    /// The text of `symbol`.
    pub fn text(&self, symbol: Symbol) -> &str {
        &self.entries[symbol.index()].text
    }

    /// The text of `symbol` read as Go's `strconv.ParseInt(text, 10, 64)` reads it.
    pub fn number(&self, symbol: Symbol) -> Option<i64> {
        self.entries[symbol.index()].number
    }

    /// The id of a set of labels. Of a key given twice the last value counts.
    pub fn label_set(&mut self, mut pairs: Vec<(Symbol, Symbol)>) -> LabelSetId {
        pairs.sort_by_key(|&(key, _)| key);
        pairs.reverse();
        pairs.dedup_by_key(|&mut (key, _)| key);
        pairs.reverse();
        LabelSetId(self.label_sets.intern(pairs))
    }

    /// The labels of a set.
    pub fn labels(&self, id: LabelSetId) -> Labels<'_> {
        Labels(self.label_sets.get(id.0))
    }

    /// The id of a list of taints.
    pub fn taint_set(&mut self, taints: Vec<Taint>) -> TaintSetId {
        TaintSetId(self.taint_sets.intern(taints))
    }

    /// The taints of a list, in the node's order.
    pub fn taints(&self, id: TaintSetId) -> &[Taint] {
        self.taint_sets.get(id.0)
    }
}

/// Go's `strconv.ParseInt(text, 10, 64)`: an optional sign, then digits; `i64::from_str` takes the same texts.
fn parse_number(text: &str) -> Option<i64> {
    text.parse().ok()
}

struct Interner<T> {
    ids: FixedMap<Arc<[T]>, u32>,
    items: Vec<Arc<[T]>>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { ids: FixedMap::default(), items: Vec::new() }
    }
}

impl<T: Eq + std::hash::Hash> Interner<T> {
    fn intern(&mut self, items: Vec<T>) -> u32 {
        if let Some(&id) = self.ids.get(items.as_slice()) {
            return id;
        }
        let id = u32::try_from(self.items.len()).expect("fewer than 2^32 sets are alive");
        let items: Arc<[T]> = items.into();
        self.items.push(Arc::clone(&items));
        self.ids.insert(items, id);
        id
    }

    fn get(&self, id: u32) -> &[T] {
        &self.items[id as usize]
    }
}

/// The labels of one object, sorted by key id. The default is of an object without labels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels<'a>(&'a [(Symbol, Symbol)]);

impl<'a> Labels<'a> {
    /// The value of `key`, if the object has that label.
    pub fn get(self, key: Symbol) -> Option<Symbol> {
        self.0.binary_search_by_key(&key, |&(k, _)| k).ok().map(|at| self.0[at].1)
    }

    /// All pairs of key and value, in no meaningful order.
    pub fn iter(self) -> impl Iterator<Item = (Symbol, Symbol)> + 'a {
        self.0.iter().copied()
    }

    /// Whether there is no label at all.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_id_and_comes_back() {
        let mut tables = Tables::new();
        let a = tables.symbol("a");
        assert_eq!(tables.symbol("a"), a);
        assert_eq!(tables.text(a), "a");
        assert_eq!(tables.find("b"), None);
        assert_eq!(tables.symbol("kubernetes.io/hostname"), known::HOSTNAME);
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
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
