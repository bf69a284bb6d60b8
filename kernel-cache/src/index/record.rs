//! Objects and kernels as bytes of the index.
//!
//! Many kernels differ only by their names: the rest is written once.

use amdgpu_code_object::container::{CodeLocation, Kind};
use amdgpu_code_object::{Abi, AddressSpace, KernelKind, Setting, Target, ValueKind};

use super::wire::{Reader, Writer};
use crate::interface::{Common, Interface, Parameter};

/// Changes whenever bytes of an index mean something else than before, or an interface says something else of the same
/// code object.
const FORMAT: u32 = 3;

/// What kernels of one code object have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) place: CodeLocation,
    pub(crate) abi: Abi,
    pub(crate) target: Target,
    pub(crate) common: Common,
}

/// Says how an index is to be read: the format, and the words that it has by number.
pub(super) fn fingerprint() -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&FORMAT.to_le_bytes());
    let kinds = ValueKind::ALL.iter().map(ValueKind::name);
    let spaces = AddressSpace::ALL.iter().map(AddressSpace::name);
    for word in kinds.chain(spaces).chain(KernelKind::ALL.iter().map(KernelKind::name)) {
        hasher.update(word.as_bytes()).update(b"\n");
    }
    super::first_word(&hasher.finalize())
}

/// The number of a word in the table of those that are known, from 1 on; 0 and its text for another.
fn word<T: PartialEq>(w: &mut Writer, all: &[T], value: &T, name: &str) {
    match all.iter().position(|known| known == value) {
        Some(n) => w.number(n as u64 + 1),
        None => {
            w.number(0_u8);
            w.text(name);
        }
    }
}

fn read_word<T: Clone>(r: &mut Reader<'_>, all: &[T], other: fn(&str) -> T) -> Option<T> {
    match r.number::<usize>()? {
        0 => r.text().map(other),
        n => all.get(n - 1).cloned(),
    }
}

fn abi_number(abi: Abi) -> u16 {
    match abi {
        Abi::V2 => 2,
        Abi::V3 => 3,
        Abi::V4 => 4,
        Abi::V5 => 5,
        Abi::V6 => 6,
        Abi::Later(n) => n,
        // The enum is open: what is not known here is later than everything that is.
        _ => u16::MAX,
    }
}

fn abi(number: u16) -> Option<Abi> {
    Some(match number {
        0 | 1 => return None,
        2 => Abi::V2,
        3 => Abi::V3,
        4 => Abi::V4,
        5 => Abi::V5,
        6 => Abi::V6,
        later => Abi::Later(later),
    })
}

const SETTINGS: [Setting; 4] = [Setting::Unsupported, Setting::Any, Setting::Off, Setting::On];
const CONTAINERS: [Kind; 4] = [Kind::Bare, Kind::Bundle, Kind::CompressedBundle, Kind::Package];

fn ordinal<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|v| v == value).and_then(|n| u8::try_from(n).ok()).unwrap_or(u8::MAX)
}

impl Shared {
    pub(super) fn write(&self, w: &mut Writer) {
        let CodeLocation { kind, in_host_elf, id, container_offset, container_length, offset, length } = &self.place;
        w.number(ordinal(&CONTAINERS, kind));
        w.flag(*in_host_elf);
        w.text(id);
        [container_offset, container_length, offset, length].into_iter().for_each(|n| w.number(*n));
        w.number(abi_number(self.abi));
        w.text(&self.target.processor);
        w.number(ordinal(&SETTINGS, &self.target.xnack));
        w.number(ordinal(&SETTINGS, &self.target.sramecc));
        w.number(self.target.generic_version);
        let Common { variables, stored_functions, initialisers } = &self.common;
        [variables, stored_functions, initialisers].into_iter().for_each(|texts| w.texts(texts));
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Option<Shared> {
        let setting = |r: &mut Reader<'_>| SETTINGS.get(r.number::<usize>()?).copied();
        let place = CodeLocation {
            kind: *CONTAINERS.get(r.number::<usize>()?)?,
            in_host_elf: r.flag()?,
            id: r.text()?.to_owned(),
            container_offset: r.number()?,
            container_length: r.number()?,
            offset: r.number()?,
            length: r.number()?,
        };
        Some(Shared {
            place,
            abi: abi(r.number()?)?,
            target: Target {
                processor: r.text()?.to_owned(),
                xnack: setting(r)?,
                sramecc: setting(r)?,
                generic_version: r.number()?,
            },
            common: Common {
                variables: r.texts()?.into(),
                stored_functions: r.texts()?.into(),
                initialisers: r.texts()?.into(),
            },
        })
    }
}

/// Writes the properties of a kernel, except for its name and those that it shares with its object.
pub(super) fn write_shape(w: &mut Writer, i: &Interface) {
    word(w, KernelKind::ALL, &i.kind, i.kind.name());
    w.number(i.arguments.len() as u64);
    for a in &i.arguments {
        w.number(a.offset);
        w.number(a.size);
        word(w, ValueKind::ALL, &a.kind, a.kind.name());
        w.flag(a.address_space.is_some());
        if let Some(space) = &a.address_space {
            word(w, AddressSpace::ALL, space, space.name());
        }
        // 0 for none.
        w.number(a.pointee_align.unwrap_or(0));
    }
    for n in [i.kernarg_size, i.kernarg_align, i.group_size, i.private_size, i.wavefront_size] {
        w.number(n);
    }
    w.number(i.max_flat_workgroup_size);
    w.shape(i.required_workgroup_size);
    w.flag(i.uniform_workgroup_size);
    w.flag(i.uses_dynamic_stack);
    w.number(i.preload.0);
    w.number(i.preload.1);
    w.shape(i.cluster_dims);
    [i.sgprs, i.vgprs, i.agprs].into_iter().for_each(|n| w.number(n));
    // One more than the value, 0 for none.
    w.number(i.float_mode.map_or(0, |mode| u64::from(mode) + 1));
}

/// Puts a kernel together again.
pub(super) fn read_shape(r: &mut Reader<'_>, name: &str, shared: Shared) -> Option<Interface> {
    let argument = |r: &mut Reader<'_>| {
        Some(Parameter {
            offset: r.number()?,
            size: r.number()?,
            kind: read_word(r, ValueKind::ALL, ValueKind::from_name)?,
            address_space: match r.flag()? {
                true => Some(read_word(r, AddressSpace::ALL, AddressSpace::from_name)?),
                false => None,
            },
            pointee_align: Some(r.number()?).filter(|align| *align != 0),
        })
    };
    Some(Interface {
        name: name.to_owned(),
        abi: shared.abi,
        target: shared.target,
        kind: read_word(r, KernelKind::ALL, KernelKind::from_name)?,
        arguments: r.list(argument)?,
        kernarg_size: r.number()?,
        kernarg_align: r.number()?,
        group_size: r.number()?,
        private_size: r.number()?,
        wavefront_size: r.number()?,
        max_flat_workgroup_size: r.number()?,
        required_workgroup_size: r.shape()?,
        uniform_workgroup_size: r.flag()?,
        uses_dynamic_stack: r.flag()?,
        preload: (r.number()?, r.number()?),
        cluster_dims: r.shape()?,
        sgprs: r.number()?,
        vgprs: r.number()?,
        agprs: r.number()?,
        float_mode: match r.number::<u64>()? {
            0 => None,
            n => Some(u32::try_from(n - 1).ok()?),
        },
        variables: shared.common.variables,
        stored_functions: shared.common.stored_functions,
        initialisers: shared.common.initialisers,
    })
}
