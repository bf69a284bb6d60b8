//! Finds the addresses that the kernels of a code object can form, with calls followed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use amdgpu_code_object::{CodeObject, DataKind, Image, LinkedAddress, Target, Unreadable};
use amdgpu_isa::action::Action;
use amdgpu_isa::decode::DecodeError;
use amdgpu_isa::flow::{Step, Walk};
use amdgpu_isa::{Arch, Decoder};

use super::address::{Made, NotUnderstood};
use super::module::Module;
use crate::interface::initialisers;
use crate::target;

/// The code and the data of a code object, as far as variables are concerned.
#[derive(Debug)]
pub(crate) struct Analysis {
    pub(super) module: Module,
    /// The addresses that code makes, by where.
    pub(super) made: BTreeMap<u64, Site>,
    /// What the linker left of what it was told, by where.
    linked: Vec<LinkedAddress>,
    /// By the kernel's name.
    kernels: HashMap<String, Reach>,
    /// The least and the highest address of code.
    pub(super) code: (u64, u64),
    /// Where code is, by start.
    text: Vec<(u64, u64)>,
    /// The names of functions, by address.
    functions: HashMap<u64, String>,
    /// The names of the kernels that a host runtime runs when it loads or unloads the code object.
    initialisers: Vec<String>,
    /// The symbols by which OpenCL's kernels are enqueued on the device.
    pub(super) enqueued: Vec<String>,
}

/// An address that code forms, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) made: Made,
    /// The symbol that the linker was told: its name, and its address.
    pub(super) symbol: Option<(String, u64)>,
}

/// The kinds of data that objects are in.
pub(super) const GROUPS: [DataKind; 3] = [DataKind::Constant, DataKind::Relocated, DataKind::Variable];

/// The addresses that a kernel can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Where the addresses are made.
    pub(super) made: BTreeSet<u64>,
    /// The first instruction that is not understood.
    pub(super) not_understood: Option<NotUnderstood>,
}

/// The processor whose instructions code has, where its tables are known.
pub(crate) fn arch(target: &Target) -> Option<Arch> {
    // Code for a family has only what all its members have: each reads it alike.
    let member = target::members(&target.processor).find_map(|member| member.parse().ok());
    member.or_else(|| target.processor.parse().ok())
}

impl Analysis {
    /// Follows the code of all kernels.
    ///
    /// # Errors
    /// When the bytes are no code object, or damaged.
    pub(crate) fn of(bytes: &[u8]) -> Result<Analysis, Unreadable> {
        let object = CodeObject::parse(bytes)?;
        let image = Image::parse(bytes)?;
        let functions = image.functions(&object)?;
        let text: Vec<(u64, u64)> =
            image.text().iter().map(|(at, code)| (*at, at.saturating_add(code.len() as u64))).collect();
        let first = text.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let last = text.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let mut analysis = Analysis {
            module: Module::read(&object, &image)?,
            made: BTreeMap::new(),
            linked: image.linked_addresses()?,
            kernels: HashMap::new(),
            code: (first, last),
            text,
            functions: functions.iter().map(|function| (function.address, function.name.clone())).collect(),
            initialisers: initialisers(&object),
            enqueued: object.kernels.iter().filter_map(|kernel| kernel.device_enqueue_symbol.clone()).collect(),
        };
        let Some(arch) = arch(&object.target) else { return Ok(analysis) };
        let decoder = Decoder::new(arch);
        let starts: BTreeSet<u64> = functions.iter().map(|function| function.address).collect();
        for kernel in functions.iter().filter(|function| function.is_kernel) {
            let mut reach = Reach::default();
            let mut walk = Walk::new(&decoder, |at| image.code(at));
            walk.start(kernel.address);
            if analysis.initialisers.contains(&kernel.name) {
                // Its table of functions has no section of data.
                analysis.stored_functions().for_each(|(_, function)| walk.start(function));
            }
            let mut jumps = BTreeSet::new();
            while let Some(step) = walk.next() {
                let address = step.address;
                let inst = match &step.inst {
                    Ok(inst) => inst,
                    Err(_) => {
                        reach.refuse(unreadable(&step));
                        continue;
                    }
                };
                // Where a kernel jumps to itself is computed: all of it counts.
                let is_own = address.wrapping_sub(kernel.address) < kernel.size;
                if inst.is_indirect() && !inst.falls_through() && is_own && !jumps.contains(&address) {
                    walk.all(kernel.address, kernel.size).into_iter().for_each(|at| walk.start(at));
                }
                if inst.op.action != Action::GetPc {
                    continue;
                }
                let code = image.code(step.end()).unwrap_or_default();
                match Made::of(&decoder, address, inst, code) {
                    Ok(made) => {
                        if made.is_jump {
                            jumps.insert(made.end);
                        }
                        analysis.follow(&made, &starts, &mut walk, &mut reach);
                        reach.made.insert(address);
                        let symbol = analysis.named_by(&made);
                        analysis.made.entry(address).or_insert(Site { made, symbol });
                    }
                    Err(problem) => reach.refuse(problem),
                }
            }
            for at in &reach.made {
                let end = analysis.made.get(at).map_or(*at, |site| site.made.end);
                if walk.targets().range(at + 1..end).next().is_some() {
                    reach.not_understood = Some(NotUnderstood {
                        address: *at,
                        what: "s_getpc_b64 whose additions are jumped to".to_owned(),
                    });
                    break;
                }
            }
            analysis.kernels.insert(kernel.name.clone(), reach);
        }
        Ok(analysis)
    }

    /// The addresses that a kernel can reach; `None` if its code is missing or for an unknown processor.
    pub(super) fn kernel(&self, name: &str) -> Option<&Reach> {
        self.kernels.get(name)
    }

    /// Where functions are stored that an initialiser may call, and their addresses: everywhere but in the global offset table.
    fn stored_functions(&self) -> impl Iterator<Item = (u64, u64)> {
        let is_got = |at| self.module.range(at).is_some_and(|range| range.kind == DataKind::Got);
        let others = self.module.stored.iter().filter(move |slot| !is_got(slot.at));
        let stored = others.filter_map(|slot| Some((slot.at, slot.base?.wrapping_add_signed(slot.addend))));
        stored.filter(|(_, target)| self.is_code(*target))
    }

    /// True for an address in or behind a table of functions that no section of data has: the linker's `.init_array` and `.fini_array`.
    fn is_table(&self, address: u64) -> bool {
        let mut apart = self.stored_functions().filter(|(at, _)| self.module.range(*at).is_none());
        apart.any(|(at, _)| address.wrapping_sub(at) <= 8)
    }

    /// A variable that a kernel can reach, and an initialiser or finaliser as well, which may write it.
    pub(super) fn initialised_in(&self, kernel: &Reach) -> Option<String> {
        let all = || self.module.ranges_of(&[DataKind::Variable]);
        let of_kernel = self.data(kernel, false).unwrap_or_else(all);
        let of_one = |name: &String| self.kernel(name).and_then(|reach| self.data(reach, true)).unwrap_or_else(all);
        let mut initialised = self.initialisers.iter().flat_map(of_one);
        let start = initialised.find_map(|(start, end)| {
            let both = of_kernel.iter().find(|(from, to)| *from < end && start < *to);
            both.map(|(from, _)| start.max(*from))
        })?;
        Some(self.module.named(start))
    }

    /// True when there is memory that kernels can write.
    pub(crate) fn has_variables(&self) -> bool {
        !self.module.ranges_of(&[DataKind::Variable]).is_empty()
    }

    /// The ranges of variables that a kernel can reach; `None` if they are not known. Without a relocation that names the variable, an
    /// address may be of any in its range. An initialiser may call stored functions: they count as its own code.
    fn data(&self, reach: &Reach, is_initialiser: bool) -> Option<Vec<(u64, u64)>> {
        if reach.not_understood.is_some() {
            return None;
        }
        let mut left = Vec::new();
        for site in reach.made.iter().filter_map(|at| self.made.get(at)) {
            let symbol = site.symbol.as_ref().map(|(name, base)| (&**name, *base));
            if is_initialiser && self.is_table(site.made.target) {
                continue;
            }
            let around = self.around(symbol, site.made.target);
            // A table of functions to call, which no section of data has, is at such an address.
            if around.is_empty() && !self.is_code(site.made.target) {
                return None;
            }
            left.extend(around);
        }
        left.extend(self.text.iter().copied());
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some((start, end)) = left.pop() {
            if self.module.range(start).is_some_and(|range| range.kind == DataKind::Variable) {
                found.push((start, end));
            }
            for slot in self.module.stored_in(start, end).iter().filter(|slot| seen.insert(slot.at)) {
                let Some(base) = slot.base else { continue };
                let target = base.wrapping_add_signed(slot.addend);
                let is_got = self.module.range(slot.at).is_some_and(|range| range.kind == DataKind::Got);
                match self.is_code(target) {
                    true if is_got || is_initialiser => {}
                    true => return None,
                    false if is_initialiser && self.is_table(target) => {}
                    false => {
                        let named = slot.symbol.as_deref().map(|name| (name, base));
                        left.extend(self.around(named.or_else(|| self.stored_by(slot.at, target)), target));
                    }
                }
            }
        }
        Some(found)
    }

    /// The data that an address is of, if it is known, or may be of.
    pub(super) fn around(&self, symbol: Option<(&str, u64)>, target: u64) -> Vec<(u64, u64)> {
        if let Some((name, base)) = symbol
            && let Some(object) = self.module.objects.iter().find(|o| o.name == name && o.address == base)
        {
            return vec![(object.address, object.end())];
        }
        match self.module.range(target) {
            Some(range) if range.kind == DataKind::Got => vec![(target, target.saturating_add(8))],
            Some(range) => self.module.ranges_of(&[range.kind]),
            None if self.is_code(target) => Vec::new(),
            None => self.module.ranges_of(&self.beside(target)),
        }
    }

    /// The kinds of data that an address in none of them may be of.
    pub(super) fn beside(&self, address: u64) -> Vec<DataKind> {
        let kinds: &[DataKind] =
            if address < self.code.0 { &GROUPS[..1] } else { &[DataKind::Relocated, DataKind::Variable] };
        let there = |kind: &DataKind| self.module.ranges.iter().any(|range| range.kind == *kind);
        kinds.iter().copied().filter(there).collect()
    }

    /// The name of a function, or what to say instead.
    pub(super) fn functions_name(&self, address: u64) -> String {
        self.functions.get(&address).cloned().unwrap_or_else(|| format!("a function at {address:#x}"))
    }

    /// True for the address of an instruction, or of a word that may be one.
    pub(super) fn is_code(&self, address: u64) -> bool {
        self.text.iter().any(|(start, end)| (*start..*end).contains(&address))
    }

    /// The symbol that the linker was told for a place: its name, its address, and what was added.
    fn linked_at(&self, at: u64) -> Option<(&str, &LinkedAddress)> {
        let n = self.linked.partition_point(|linked| linked.at < at);
        let linked = self.linked.get(n).filter(|linked| linked.at == at)?;
        Some((linked.symbol.as_deref()?, linked))
    }

    /// The symbol of an address that code makes, if the linker's words and the additions agree.
    fn named_by(&self, made: &Made) -> Option<(String, u64)> {
        let literal = made.halves[0].at.wrapping_add(4);
        let (symbol, linked) = self.linked_at(literal)?;
        // The relocation is relative to the literal, the address to what is behind `s_getpc_b64`.
        let distance = literal.wrapping_sub(made.at.wrapping_add(4));
        let agrees = linked.base.wrapping_add_signed(linked.addend).wrapping_sub(distance) == made.target;
        agrees.then(|| (symbol.to_owned(), linked.base))
    }

    /// The symbol of an address that is stored, and the symbol's address.
    pub(super) fn stored_by(&self, at: u64, target: u64) -> Option<(&str, u64)> {
        let (symbol, linked) = self.linked_at(at)?;
        (linked.base.wrapping_add_signed(linked.addend) == target).then_some((symbol, linked.base))
    }

    /// Goes on where an address leads, if that is code.
    fn follow<'c, C: Fn(u64) -> Option<&'c [u8]>>(
        &self,
        made: &Made,
        functions: &BTreeSet<u64>,
        walk: &mut Walk<'_, C>,
        reach: &mut Reach,
    ) {
        if self.is_code(made.target) {
            // Far in front of a variable may be code, too.
            if !made.is_jump && !functions.contains(&made.target) {
                let what = format!("s_getpc_b64 of {:#x}, which is code but no function", made.target);
                reach.refuse(NotUnderstood { address: made.at, what });
            }
            walk.start(made.target);
        }
        let is_got = self.module.range(made.target).is_some_and(|range| range.kind == DataKind::Got);
        let slots = if is_got { self.module.stored_in(made.target, made.target + 8) } else { &[] };
        for slot in slots {
            let target = slot.base.map(|base| base.wrapping_add_signed(slot.addend));
            target.filter(|target| self.is_code(*target)).into_iter().for_each(|target| walk.start(target));
        }
    }
}

impl Reach {
    fn refuse(&mut self, problem: NotUnderstood) {
        self.not_understood.get_or_insert(problem);
    }
}

fn unreadable(step: &Step) -> NotUnderstood {
    let words: Vec<String> = step.words.words().iter().map(|word| format!("{word:08x}")).collect();
    let what = match step.inst {
        _ if words.is_empty() => "the end of the code".to_owned(),
        Err(DecodeError::Absent(name)) => format!("{name} ({})", words.join(" ")),
        _ => words.join(" "),
    };
    NotUnderstood { address: step.address, what }
}
