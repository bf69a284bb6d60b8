//! Patches the bytes of a code object, before it is loaded, so that it uses the application's variables.

use std::collections::BTreeSet;

use amdgpu_code_object::{AddressBits, DataKind, GlobalKind, StoredAddress, Unreadable, rewrite};

use super::module::Modules;
use super::place::{AddressPatch, Fate, Places, Problem};
use super::reach::{Analysis, GROUPS, Reach, Site};
use crate::rules::{Fact, Reason, Refusal};

/// Which variables a kernel shares with the application, and what is done to its code object for that.
///
/// The additions behind `s_getpc_b64` become moves of the variable's address, and addresses that the loader would store are
/// stored in the file. So it does not matter where the code is loaded, and no code is written after that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The patches of the code object, for all of its kernels.
    pub patches: Vec<Patch>,
    /// Variables of the application that the kernel may use.
    pub shared: Vec<String>,
    /// Variables that the application does not have, and that the kernel may use.
    pub own: Vec<String>,
}

/// Some bytes of a code object that depend on where a variable of the application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// What is there.
    pub what: What,
    /// The application's module: 0 for the kernel's own, others from 1 on.
    pub module: usize,
    /// The address there, before that is loaded.
    pub address: u64,
}

/// What is patched, by its address before the code object is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Two additions become moves: where they are, and which scalar registers they write, the low half first.
    Additions([(u64, u16); 2]),
    /// An address that the loader would store, or a half of it.
    Stored(u64, AddressBits),
}

/// `s_mov_b32` of a literal, without the register that is written. Source: Vega ISA manual, SOP1.
const S_MOV_B32_LITERAL: u32 = 0xbe80_00ff;

impl Binding {
    /// The code object as it is to be loaded. `base` says for a module of the application what is added to its addresses by
    /// where it was loaded.
    ///
    /// # Errors
    /// When a module is not there, or the code object is not the one that the binding is of.
    pub fn apply(&self, bytes: &[u8], base: impl Fn(usize) -> Option<u64>) -> Result<Vec<u8>, Unreadable> {
        let (mut words, mut stored) = (Vec::new(), BTreeSet::new());
        for patch in &self.patches {
            let base = base(patch.module).ok_or_else(|| Unreadable::Unexpected {
                what: "variable",
                at: patch.address,
                expected: "a module of the application's".to_owned(),
                found: format!("none of number {}", patch.module),
            })?;
            let address = base.wrapping_add(patch.address);
            let halves = [address as u32, (address >> 32) as u32];
            match patch.what {
                What::Additions(additions) => {
                    for ((at, register), half) in additions.into_iter().zip(halves) {
                        let code = S_MOV_B32_LITERAL | u32::from(register) << 16;
                        words.push((at, [code.to_le_bytes(), half.to_le_bytes()].concat()));
                    }
                }
                What::Stored(at, part) => {
                    let [low, high] = halves.map(|half| half.to_le_bytes().to_vec());
                    words.push((
                        at,
                        match part {
                            AddressBits::Whole => address.to_le_bytes().to_vec(),
                            AddressBits::Low => low,
                            AddressBits::High => high,
                        },
                    ));
                    stored.insert(at);
                }
            }
        }
        rewrite(bytes, &words, &stored)
    }
}

/// Binds a kernel of a code object to the variables of the application.
pub(crate) fn bind(analysis: &Analysis, kernel: &str, modules: Modules<'_>) -> Result<Binding, Refusal> {
    let places = Places::new(analysis, modules);
    let mut binding = Binder { places, shared: BTreeSet::new(), own: BTreeSet::new() };
    let reach = analysis.kernel(kernel).ok_or_else(|| {
        refused(Reason::Addresses, "instructions that are known here", "a processor whose are not, and variables")
    })?;
    binding.kernel(reach)?;
    if let Some(name) = analysis.initialised_in(reach) {
        return Err(refused(Reason::Initialiser, "variables that no initialiser or finaliser uses", name));
    }
    Ok(Binding {
        patches: binding.patches(),
        shared: binding.shared.into_iter().collect(),
        own: binding.own.into_iter().collect(),
    })
}

fn refused(reason: Reason, expected: impl Into<String>, found: impl Into<String>) -> Refusal {
    Refusal { reason, expected: Fact::Text(expected.into().into()), found: Fact::Text(found.into().into()) }
}

struct Binder<'a> {
    places: Places<'a>,
    shared: BTreeSet<String>,
    own: BTreeSet<String>,
}

impl Binder<'_> {
    /// Everything that a kernel can get to has a place, or it is refused.
    fn kernel(&mut self, reach: &Reach) -> Result<(), Refusal> {
        if let Some(problem) = &reach.not_understood {
            let found = format!("{} at {:#x}", problem.what, problem.address);
            return Err(refused(Reason::Addresses, "instructions that make an address in a way that is known", found));
        }
        let analysis = self.places.analysis;
        let (mut data, mut seen) = (Vec::new(), BTreeSet::new());
        for site in reach.made.iter().filter_map(|at| analysis.made.get(at)) {
            let at = site.made.at;
            let place =
                self.places.of_site(site).map_err(|problem| wrong(problem, &format!("s_getpc_b64 at {at:#x}")))?;
            if place != AddressPatch::Stays && additions(site).is_none() {
                let found = format!("s_getpc_b64 at {at:#x}, whose additions have no room for a variable's address");
                return Err(refused(Reason::Addresses, "additions of literals", found));
            }
            self.tell(site.symbol.as_ref().map(|(name, _)| &**name), site.made.target, place);
            if place == AddressPatch::Stays {
                data.extend(
                    analysis.around(site.symbol.as_ref().map(|(name, base)| (&**name, *base)), site.made.target),
                );
            }
        }
        // Addresses among the instructions count for every kernel.
        let in_code = |stored: &&StoredAddress| analysis.is_code(stored.at);
        let mut slots: Vec<&StoredAddress> = analysis.module.stored.iter().filter(in_code).collect();
        loop {
            while let Some(slot) = slots.pop() {
                self.slot(slot, &mut data)?;
            }
            let Some((start, end)) = data.pop() else { return Ok(()) };
            slots.extend(analysis.module.stored_in(start, end).iter().filter(|slot| seen.insert(slot.at)));
        }
    }

    /// An address that the loader stores where the kernel can get to it.
    fn slot(&mut self, slot: &StoredAddress, data: &mut Vec<(u64, u64)>) -> Result<(), Refusal> {
        let analysis = self.places.analysis;
        let target = slot.base.map(|base| base.wrapping_add_signed(slot.addend));
        if slot.part.is_none() {
            let found = format!("another at {:#x}", slot.at);
            return Err(refused(Reason::Addresses, "relocations that store an address", found));
        }
        if let Some(target) = target.filter(|target| analysis.is_code(*target)) {
            // Through the global offset table functions are called as well.
            let is_got = analysis.module.range(slot.at).is_some_and(|range| range.kind == DataKind::Got);
            let name = slot.symbol.clone().unwrap_or_else(|| analysis.functions_name(target));
            return if is_got { Ok(()) } else { Err(refused(Reason::StoredFunctions, "none", name)) };
        }
        let (place, target) = self
            .place_of(slot)
            .map_err(|problem| wrong(problem, &format!("an address that is stored at {:#x}", slot.at)))?;
        let named = slot.symbol.as_deref().zip(slot.base).or_else(|| analysis.stored_by(slot.at, target));
        self.tell(named.map(|(name, _)| name), target, place);
        if place == AddressPatch::Stays {
            data.extend(analysis.around(named, target));
        }
        Ok(())
    }

    /// What becomes of a stored address, and the address.
    fn place_of(&self, slot: &StoredAddress) -> Result<(AddressPatch, u64), Problem> {
        let analysis = self.places.analysis;
        let Some(base) = slot.base else {
            // What is defined elsewhere is the application's, or missing.
            let name = slot.symbol.as_deref().unwrap_or_default();
            return Ok((self.places.of_external(name)?, slot.addend as u64));
        };
        let target = base.wrapping_add_signed(slot.addend);
        if let Some((name, base)) =
            slot.symbol.as_deref().map(|name| (name, base)).or(analysis.stored_by(slot.at, target))
        {
            return Ok((self.places.of_symbol(name, base)?, target));
        }
        // The global offset table has addresses of symbols, and nothing is added to them.
        let is_got = analysis.module.range(slot.at).is_some_and(|range| range.kind == DataKind::Got);
        let mut begins = analysis.module.objects.iter().filter(|object| is_got && object.address == target);
        let place = match begins.next() {
            Some(object) => self.places.of_object(object)?,
            None => self.places.of_address(target)?,
        };
        Ok((place, target))
    }

    /// Notes which variables an address may be of.
    fn tell(&mut self, symbol: Option<&str>, target: u64, place: AddressPatch) {
        if self.places.analysis.is_code(target) && place == AddressPatch::Stays {
            return;
        }
        let kind = self.places.analysis.module.range(target).map(|range| range.kind);
        let kinds = kind.map_or_else(|| self.places.analysis.beside(target), |kind| vec![kind]);
        let of_name = |name: &str| symbol.is_none_or(|symbol| symbol == name);
        for kind in GROUPS.into_iter().filter(|kind| kinds.contains(kind)) {
            for object in self.places.objects(kind).filter(|o| o.kind == GlobalKind::Variable && of_name(&o.name)) {
                match (self.places.fate(object), place) {
                    (Ok(Fate::Own), AddressPatch::Stays) => self.own.insert(object.name.clone()),
                    (Ok(Fate::Shared { .. }), AddressPatch::Moves { .. }) => self.shared.insert(object.name.clone()),
                    _ => false,
                };
            }
        }
    }

    /// What is other in the code object, as far as that is known: other kernels may not be.
    fn patches(&self) -> Vec<Patch> {
        let analysis = self.places.analysis;
        let of_code = analysis.made.values().filter_map(|site| match self.places.of_site(site) {
            Ok(AddressPatch::Moves { module, by }) => {
                Some(Patch { what: additions(site)?, module, address: site.made.target.wrapping_add(by) })
            }
            _ => None,
        });
        let of_data = analysis.module.stored.iter().filter_map(|slot| {
            let target = slot.base.map(|base| base.wrapping_add_signed(slot.addend));
            let is_code = target.is_some_and(|target| analysis.is_code(target));
            let (place, target) = self.place_of(slot).ok().filter(|_| !is_code)?;
            let AddressPatch::Moves { module, by } = place else { return None };
            Some(Patch { what: What::Stored(slot.at, slot.part?), module, address: target.wrapping_add(by) })
        });
        of_code.chain(of_data).collect()
    }
}

/// The additions of an address, if both have room for half of another.
fn additions(site: &Site) -> Option<What> {
    let halves = site.made.halves;
    halves.iter().all(|half| half.is_literal).then(|| What::Additions(halves.map(|half| (half.at, half.to))))
}

fn wrong(problem: Problem, what: &str) -> Refusal {
    refused(Reason::Variables, problem.expected, format!("{}: {what}", problem.found))
}
