//! Finds the application's variable for each address in a code object.

use std::cell::OnceCell;
use std::collections::HashMap;

use amdgpu_code_object::{DataKind, GlobalKind};

use super::module::{Module, Modules, Object};
use super::reach::{Analysis, GROUPS, Site};

/// How an address is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPatch {
    /// It leads to code, constants or variables of its own code object.
    Stays,
    /// It leads into a module of the application, at this distance.
    Moves { module: usize, by: u64 },
}

/// Why the target of an address is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) expected: String,
    pub(super) found: String,
}

impl Problem {
    fn new(expected: impl Into<String>, found: impl Into<String>) -> Problem {
        Problem { expected: expected.into(), found: found.into() }
    }
}

/// What a variable is: the code object's own, or one of the application's, by the module's number and its address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Own,
    Shared { module: usize, address: u64 },
}

/// Decides about addresses of a candidate.
pub(super) struct Places<'a> {
    pub(super) analysis: &'a Analysis,
    modules: Modules<'a>,
    own: HashMap<&'a str, Vec<&'a Object>>,
    candidates: HashMap<&'a str, Vec<&'a Object>>,
    /// By kind of data.
    groups: [OnceCell<Result<AddressPatch, Problem>>; GROUPS.len()],
}

/// Variables that a host runtime sets up before kernels run, and which one. Source: LLVM's `offload` (`DeviceEnvironmentTy`, its RPC
/// client and its memory pool).
const OF_HOSTS: &[(&str, &str)] = &[
    ("__omp_rtl_device_environment", "which OpenMP's runtime fills in"),
    ("omptarget_device_environment", "which OpenMP's runtime fills in"),
    ("__omp_rtl_device_memory_pool", "which OpenMP's runtime fills in"),
    ("__omp_rtl_device_memory_pool_tracker", "which OpenMP's runtime fills in"),
    ("__llvm_rpc_client", "which OpenMP's runtime connects to the host"),
];

/// What helps where an address does not say of which variable it is.
const EVIDENCE: &str =
    "the original's layout of its variables, or relocations that name them (-Xoffload-linker --emit-relocs)";

/// True for an object without references.
fn is_unread(object: &Object) -> bool {
    matches!(object.kind, GlobalKind::Descriptor | GlobalKind::CompilationUnitId | GlobalKind::Coordinates)
}

impl<'a> Places<'a> {
    pub(super) fn new(analysis: &'a Analysis, modules: Modules<'a>) -> Places<'a> {
        Places {
            analysis,
            modules,
            own: modules.own.map(Module::by_name).unwrap_or_default(),
            candidates: analysis.module.by_name(),
            groups: Default::default(),
        }
    }

    fn module(&self) -> &'a Module {
        &self.analysis.module
    }

    /// What an object of the candidate is to the application.
    pub(super) fn fate(&self, object: &Object) -> Result<Fate, Problem> {
        let name = &*object.name;
        if is_unread(object) {
            return Ok(Fate::Own);
        }
        let there = self.own.get(name).map(Vec::as_slice).unwrap_or_default();
        let is_variable = object.kind == GlobalKind::Variable;
        match there {
            // What is no variable on either side is as it was compiled.
            _ if !is_variable && there.iter().all(|other| other.kind != GlobalKind::Variable) => Ok(Fate::Own),
            _ if self.modules.own.is_none() => {
                Err(Problem::new("the original's variables", format!("{name}, and a code object that is not seen")))
            }
            // Only then the application's other code objects are asked: files do not share variables by name alone.
            [other] if other.kind == GlobalKind::External => self.elsewhere(object),
            [other] => self.same(object, other).map(|()| Fate::Shared { module: 0, address: other.address }),
            [] => self.own(object),
            several => {
                Err(Problem::new(format!("one {name}"), format!("{} in the original's code object", several.len())))
            }
        }
    }

    /// A variable that the kernel's own module refers to and does not have is another module's.
    fn elsewhere(&self, object: &Object) -> Result<Fate, Problem> {
        match self.exported(&object.name)[..] {
            [(module, other)] => {
                self.same_in(object, module, other).map(|()| Fate::Shared { module, address: other.address })
            }
            [] => {
                Err(Problem::new(format!("{}, which the original refers to, of the application", object.name), "none"))
            }
            ref several => {
                Err(Problem::new(format!("one {}", object.name), format!("{} of the application's", several.len())))
            }
        }
    }

    /// The variables of a name that other modules show.
    fn exported(&self, name: &str) -> Vec<(usize, &'a Object)> {
        let all =
            self.modules.others.iter().enumerate().flat_map(|(n, module)| module.variables().map(move |o| (n + 1, o)));
        all.filter(|(_, other)| other.exported && other.name == name).collect()
    }

    /// A variable that the application does not have is the candidate's, unless its host has to set it up.
    fn own(&self, object: &Object) -> Result<Fate, Problem> {
        let name = &*object.name;
        let is_managed = self.candidates.contains_key(&*format!("{name}.managed"));
        let is_handle = self.analysis.enqueued.iter().any(|symbol| symbol == name);
        let what = match OF_HOSTS.iter().find(|(known, _)| *known == name) {
            _ if is_managed => "a managed variable, whose memory HIP allocates",
            _ if is_handle => "a handle for enqueuing on the device, which OpenCL fills in",
            Some((_, what)) => what,
            None => return Ok(Fate::Own),
        };
        Err(Problem::new(format!("{name} of the application"), format!("one of the candidate's own, {what}")))
    }

    fn same(&self, object: &Object, other: &Object) -> Result<(), Problem> {
        self.same_in(object, 0, other)
    }

    /// True if two variables of a name have the same kind, size and initial bytes.
    fn same_in(&self, object: &Object, module: usize, other: &Object) -> Result<(), Problem> {
        let name = &*object.name;
        let differ = |o: String, c: String| Err(Problem::new(format!("{name} {o}"), format!("{name} {c}")));
        if object.kind != other.kind {
            let shown = |kind| match kind {
                GlobalKind::Variable => "that is a variable",
                GlobalKind::Constant => "that is a constant",
                _ => "that is something else",
            };
            return differ(shown(other.kind).to_owned(), shown(object.kind).to_owned());
        }
        if object.size != other.size {
            return differ(format!("of {} bytes", other.size), format!("of {} bytes", object.size));
        }
        if self.candidates.get(name).is_some_and(|all| all.len() > 1) {
            return Err(Problem::new(format!("one {name}"), "several in its code object"));
        }
        let there = self.modules.get(module);
        // The host allocates managed memory and writes its address into the variable.
        let managed = format!("{name}.managed");
        let is_managed = |module: &Module| module.objects.iter().any(|o| o.name == managed);
        let [c, o] = [is_managed(self.module()), there.is_some_and(is_managed)];
        if c != o {
            let shown = |is: bool| if is { "that is managed" } else { "that is not managed" };
            return differ(shown(o).to_owned(), shown(c).to_owned());
        }
        let stored = |module: &Module, o: &Object| {
            let stored = module.stored_in(o.address, o.end()).iter().map(|stored| {
                let target = stored.base.map(|base| module.named(base.wrapping_add_signed(stored.addend)));
                (stored.at - o.address, target.or_else(|| stored.symbol.clone()))
            });
            stored.collect::<Vec<_>>()
        };
        let is_same = |there: &Module| {
            there.bytes(other.address, other.size) == self.module().bytes(object.address, object.size)
                && stored(there, other) == stored(self.module(), object)
        };
        if !there.is_some_and(is_same) {
            return differ("as it is initialised".to_owned(), "initialised otherwise".to_owned());
        }
        Ok(())
    }

    /// Patches an address that code forms.
    pub(super) fn of_site(&self, site: &Site) -> Result<AddressPatch, Problem> {
        match &site.symbol {
            Some((name, base)) => self.of_symbol(name, *base),
            None if self.analysis.is_code(site.made.target) => Ok(AddressPatch::Stays),
            None => self.of_address(site.made.target),
        }
    }

    /// Patches addresses relative to a symbol.
    pub(super) fn of_symbol(&self, name: &str, base: u64) -> Result<AddressPatch, Problem> {
        let named = self.candidates.get(name).into_iter().flatten().find(|object| object.address == base);
        match named {
            Some(object) => self.of_object(object),
            None if self.analysis.is_code(base) => Ok(AddressPatch::Stays),
            None => self.of_address(base),
        }
    }

    /// Patches addresses of a symbol that the candidate does not define.
    pub(super) fn of_external(&self, name: &str) -> Result<AddressPatch, Problem> {
        let own = self.own.get(name).map(Vec::as_slice).unwrap_or_default();
        let found = match own {
            // The original's code object must refer to it as well.
            [] => Vec::new(),
            objects if objects.iter().all(|o| o.kind == GlobalKind::External) => self.exported(name),
            objects => objects.iter().filter(|o| o.kind == GlobalKind::Variable).map(|o| (0, *o)).collect(),
        };
        match found[..] {
            // It is as if its own address were 0.
            [(module, object)] => Ok(AddressPatch::Moves { module, by: object.address }),
            [] => Err(Problem::new(format!("{name} of the original"), "none")),
            ref several => Err(Problem::new(format!("one {name}"), format!("{} of the application's", several.len()))),
        }
    }

    pub(super) fn of_object(&self, object: &Object) -> Result<AddressPatch, Problem> {
        Ok(match self.fate(object)? {
            Fate::Own => AddressPatch::Stays,
            Fate::Shared { module, address } => {
                AddressPatch::Moves { module, by: address.wrapping_sub(object.address) }
            }
        })
    }

    /// Patches an address of which only the value is known.
    pub(super) fn of_address(&self, address: u64) -> Result<AddressPatch, Problem> {
        if let Some(range) = self.module().range(address) {
            return if range.kind == DataKind::Got { Ok(AddressPatch::Stays) } else { self.of_group(range.kind) };
        }
        // In front of data, behind it, or in between: of what is on the same side of the code.
        let mut places = self.analysis.beside(address).into_iter().map(|kind| self.of_group(kind));
        let outside = || Problem::new("an address of the code object", format!("{address:#x}"));
        let first = places.next().ok_or_else(outside)??;
        for place in places {
            if place? != first {
                return Err(Problem::new(EVIDENCE, format!("an address between data: {address:#x}")));
            }
        }
        Ok(first)
    }

    /// Patches all addresses of a kind of data: all move by one distance, or none does.
    fn of_group(&self, kind: DataKind) -> Result<AddressPatch, Problem> {
        let Some(n) = GROUPS.iter().position(|group| *group == kind) else { return Ok(AddressPatch::Stays) };
        let Some(cell) = self.groups.get(n) else { return Ok(AddressPatch::Stays) };
        cell.get_or_init(|| self.group(kind)).clone()
    }

    /// The objects of a kind of data, by address.
    pub(super) fn objects(&self, kind: DataKind) -> impl Iterator<Item = &'a Object> {
        let module = self.module();
        module.objects.iter().filter(move |o| module.range(o.address).is_some_and(|range| range.kind == kind))
    }

    fn group(&self, kind: DataKind) -> Result<AddressPatch, Problem> {
        let (mut place, mut own) = (None, None);
        // A variable that is not the same is the better reason.
        let places: Result<Vec<_>, Problem> = self.objects(kind).map(|o| Ok((o, self.of_object(o)?))).collect();
        for (object, found) in places? {
            match found {
                AddressPatch::Stays if object.kind == GlobalKind::Variable => own = Some(object),
                AddressPatch::Stays => {}
                moves => match place {
                    Some((first, _)) if first != moves => {
                        let found = format!("one among its own, where {} lies otherwise", object.name);
                        return Err(Problem::new(EVIDENCE, found));
                    }
                    _ => place = Some((moves, object)),
                },
            }
        }
        let Some((place @ AddressPatch::Moves { module, by }, shared)) = place else { return Ok(AddressPatch::Stays) };
        if let Some(own) = own {
            let found = format!("one of {}, which is the original's, and {}, which it has not", shared.name, own.name);
            return Err(Problem::new(EVIDENCE, found));
        }
        if !self.module().has_all_names {
            return Err(Problem::new(EVIDENCE, "a code object without a table of symbols"));
        }
        self.rest(kind, module, by)?;
        Ok(place)
    }

    /// Whether constants, and what has no name, are the same at a distance.
    fn rest(&self, kind: DataKind, module: usize, by: u64) -> Result<(), Problem> {
        for range in self.module().ranges.iter().filter(|range| range.kind == kind) {
            let mut at = range.start;
            let inside = self.module().objects.iter().filter(|o| range.contains(o.address));
            for object in inside {
                let size = object.address.saturating_sub(at);
                let is_padding = size < 1 << object.address.trailing_zeros().min(12)
                    && self.module().bytes(at, size).is_some_and(<[u8]>::is_empty);
                if !is_padding {
                    self.same_constant(kind, at, size, module, by)?;
                }
                if object.kind == GlobalKind::Constant {
                    self.same_constant(kind, object.address, object.size, module, by)?;
                }
                at = at.max(object.end());
            }
            self.same_constant(kind, at, range.end().saturating_sub(at), module, by)?;
        }
        Ok(())
    }

    fn same_constant(&self, kind: DataKind, start: u64, size: u64, module: usize, by: u64) -> Result<(), Problem> {
        let (there, moved) = (self.modules.get(module), start.wrapping_add(by));
        let same = size == 0
            || kind != DataKind::Variable
                && there.is_some_and(|there| {
                    let end = moved.saturating_add(size);
                    let is_constant = there.range(moved).is_some_and(|range| range.kind != DataKind::Variable);
                    let overlaps = |o: &Object| o.address < end && moved < o.end();
                    is_constant
                        && !there.variables().any(overlaps)
                        && there.stored_in(moved, end).is_empty()
                        && self.module().stored_in(start, start.saturating_add(size)).is_empty()
                        && there.bytes(moved, size) == self.module().bytes(start, size)
                });
        if same {
            return Ok(());
        }
        let what = self.module().named(start);
        Err(Problem::new(
            EVIDENCE,
            format!("one among variables and {size} bytes at {what}, which the original has not there"),
        ))
    }
}
