//! The reader of a symbol: where it is, what later parts can refer to, and whole encodings.

use super::{DEPTH, Id, Node, Qualifiers, RefQualifier, Signature, Tree};

/// What was learnt of a function's name that decides what follows it.
#[derive(Default)]
pub(super) struct NameFacts {
    /// It is an encoding's own: template parameters behind it stand for its arguments.
    pub(super) tags: bool,
    /// Constructors, destructors and conversions have no result.
    pub(super) without_result: bool,
    pub(super) ends_with_arguments: bool,
    pub(super) qualifiers: Qualifiers,
    pub(super) reference: RefQualifier,
    pub(super) explicit_object: bool,
}

/// One level of template parameters. What a lambda does not declare, but uses, is `auto`.
pub(super) type Level = Option<Vec<Id>>;

/// The parser. Every function that reads a production returns `None` when the symbol does not have it.
pub(super) struct Parser<'s> {
    pub(super) rest: &'s str,
    pub(super) tree: Tree<'s>,
    pub(super) substitutions: Vec<Id>,
    /// What template parameters stand for, from the outermost level on.
    pub(super) levels: Vec<Level>,
    /// The level that a lambda's `auto` has, while its parameters are read.
    pub(super) lambda_level: Option<usize>,
    /// Arguments of templates may follow a template parameter.
    pub(super) arguments_follow: bool,
    /// Template parameters may stand before their arguments.
    pub(super) forwards_allowed: bool,
    /// In constraints, levels are not followed: parameters keep their numbers.
    pub(super) in_constraint: bool,
    /// How many parameters got an invented name, by kind.
    pub(super) invented: [usize; 3],
    depth: usize,
}

impl<'s> Parser<'s> {
    pub(super) fn new(symbol: &'s str) -> Parser<'s> {
        Parser {
            rest: symbol,
            tree: Tree { nodes: Vec::new(), forwards: Vec::new() },
            substitutions: Vec::new(),
            levels: Vec::new(),
            lambda_level: None,
            arguments_follow: true,
            forwards_allowed: false,
            in_constraint: false,
            invented: [0; 3],
            depth: 0,
        }
    }

    pub(super) fn add(&mut self, node: Node<'s>) -> Id {
        self.tree.nodes.push(node);
        Id(self.tree.nodes.len() - 1)
    }

    pub(super) fn text(&mut self, text: &'s str) -> Id {
        self.add(Node::Text(text))
    }

    /// The letter `ahead` of the next one; 0 at the end.
    pub(super) fn look(&self, ahead: usize) -> u8 {
        self.rest.as_bytes().get(ahead).copied().unwrap_or(0)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.eat(text).then_some(())
    }

    /// The next bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'s str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    /// Digits, perhaps none; negative ones begin with `n`.
    pub(super) fn digits(&mut self, negative: bool) -> &'s str {
        let sign = usize::from(negative && self.look(0) == b'n');
        let count = self.rest.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
        if count == 0 { "" } else { self.take(sign + count).unwrap_or_default() }
    }

    /// A number, and `_` behind it: none is 0, `0` is 1.
    pub(super) fn index(&mut self) -> Option<usize> {
        let digits = self.digits(false);
        self.expect("_")?;
        if digits.is_empty() { Some(0) } else { digits.parse::<usize>().ok()?.checked_add(1) }
    }

    /// Reads one production deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= DEPTH {
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Items up to `end`.
    pub(super) fn until(&mut self, end: &str, item: impl Fn(&mut Self) -> Option<Id>) -> Option<Vec<Id>> {
        let mut all = Vec::new();
        while !self.eat(end) {
            all.push(item(self)?);
        }
        Some(all)
    }

    /// A whole symbol.
    pub(super) fn symbol(mut self) -> Option<(Tree<'s>, Id)> {
        self.expect("_Z")?;
        let mut root = self.encoding()?;
        if self.look(0) == b'.' {
            let suffix = std::mem::take(&mut self.rest);
            root = self.add(Node::DotSuffix(root, suffix));
        }
        self.rest.is_empty().then_some((self.tree, root))
    }

    /// `<encoding>`: a function with its parameters, data, or something that the compiler makes.
    pub(super) fn encoding(&mut self) -> Option<Id> {
        let levels = std::mem::take(&mut self.levels);
        let encoding = self.deeper(Self::encoding_of_its_own);
        self.levels = levels;
        encoding
    }

    fn ends(&self) -> bool {
        matches!(self.look(0), 0 | b'E' | b'.' | b'_')
    }

    fn encoding_of_its_own(&mut self) -> Option<Id> {
        if matches!(self.look(0), b'G' | b'T') {
            return self.special_name();
        }
        let mut facts = NameFacts { tags: true, ..NameFacts::default() };
        let forwards = self.tree.forwards.len();
        let name = self.name(&mut facts)?;
        for at in forwards..self.tree.forwards.len() {
            let (index, _) = *self.tree.forwards.get(at)?;
            let found = *self.levels.first()?.as_ref()?.get(index)?;
            self.tree.forwards.get_mut(at)?.1 = Some(found);
        }
        if self.ends() {
            return Some(name);
        }
        let mut enable_if = None;
        if self.eat("Ua9enable_ifI") {
            enable_if = Some(self.until("E", Self::template_argument)?);
        }
        let mut result = None;
        if !facts.without_result && facts.ends_with_arguments {
            result = Some(self.type_name()?);
        }
        let mut parameters = Vec::new();
        if !self.eat("v") {
            loop {
                let parameter = self.type_name()?;
                let object = facts.explicit_object && parameters.is_empty();
                parameters.push(if object { self.add(Node::Prefixed("this ", parameter)) } else { parameter });
                if self.ends() || self.look(0) == b'Q' {
                    break;
                }
            }
        }
        let constraint = if self.eat("Q") { Some(self.constraint()?) } else { None };
        let NameFacts { qualifiers, reference, .. } = facts;
        let signature = Signature { result, parameters, qualifiers, reference };
        Some(self.add(Node::Encoding { name, signature, enable_if, constraint }))
    }

    /// `<special-name>`.
    fn special_name(&mut self) -> Option<Id> {
        let code = self.take(2)?;
        let of_type = match code {
            "TV" => "vtable for ",
            "TT" => "VTT for ",
            "TI" => "typeinfo for ",
            "TS" => "typeinfo name for ",
            _ => "",
        };
        if !of_type.is_empty() {
            let of = self.type_name()?;
            return Some(self.add(Node::Prefixed(of_type, of)));
        }
        let (text, of) = match code {
            "Tc" => {
                self.call_offset()?;
                self.call_offset()?;
                ("covariant return thunk to ", self.encoding()?)
            }
            "Th" | "Tv" => {
                self.rest_of_call_offset(code == "Tv")?;
                let text = if code == "Tv" { "virtual thunk to " } else { "non-virtual thunk to " };
                (text, self.encoding()?)
            }
            "TC" => {
                let class = self.type_name()?;
                self.digits(true);
                self.expect("_")?;
                let outer = self.type_name()?;
                let both = self.add(Node::Joined(outer, "-in-", class));
                ("construction vtable for ", both)
            }
            "TW" => ("thread-local wrapper routine for ", self.name(&mut NameFacts::default())?),
            "TH" => ("thread-local initialization routine for ", self.name(&mut NameFacts::default())?),
            "TA" => ("template parameter object for ", self.template_argument()?),
            "GV" => ("guard variable for ", self.name(&mut NameFacts::default())?),
            "GR" => {
                let name = self.name(&mut NameFacts::default())?;
                let numbered = self.rest.bytes().take_while(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).count();
                let number = self.take(numbered)?;
                if !self.eat("_") && !number.is_empty() {
                    return None;
                }
                ("reference temporary for ", name)
            }
            _ => return None,
        };
        Some(self.add(Node::Prefixed(text, of)))
    }

    fn call_offset(&mut self) -> Option<()> {
        match self.take(1)? {
            "h" => self.rest_of_call_offset(false),
            "v" => self.rest_of_call_offset(true),
            _ => None,
        }
    }

    fn rest_of_call_offset(&mut self, is_virtual: bool) -> Option<()> {
        for _ in 0..=u8::from(is_virtual) {
            if self.digits(true).is_empty() {
                return None;
            }
            self.expect("_")?;
        }
        Some(())
    }

    /// A constraint behind `Q`.
    pub(super) fn constraint(&mut self) -> Option<Id> {
        let before = std::mem::replace(&mut self.in_constraint, true);
        let read = self.expression();
        self.in_constraint = before;
        read
    }
}
