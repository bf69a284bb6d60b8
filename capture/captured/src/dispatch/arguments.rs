//! The arguments that the application gave to its kernel.

use std::collections::HashSet;

use amdgpu_code_object::{Argument as Declared, Kernel, ValueKind};

use super::{CapturedDispatch, Code, Companion};
use crate::verify::Type;

/// An argument of a captured dispatch.
#[derive(Clone, Debug)]
pub struct Argument<'c> {
    /// Its name in the source, or its number.
    pub name: String,
    /// Its number: `arg0` is the first.
    pub number: String,
    /// What the code object says of it.
    pub declared: &'c Declared,
    /// Its type in the source, where that is known.
    pub source_type: Option<&'c str>,
    /// Its bytes; `None` if the capture does not have them.
    pub bytes: Option<&'c [u8]>,
}

/// An argument that is an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Its name in the source, or its number.
    pub name: String,
    /// Its number: `arg0` is the first.
    pub number: String,
    /// Its type in the source, where that is known.
    pub source_type: Option<String>,
    /// What it points to.
    pub address: u64,
}

impl Argument<'_> {
    /// The address, of an argument that points to memory.
    pub fn address(&self) -> Option<u64> {
        let bytes = self.bytes.filter(|_| self.declared.kind == ValueKind::GlobalBuffer)?;
        bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The type of its value, if that is one number: bits where the source's type is not known.
    pub fn element_type(&self) -> Option<Type> {
        let is_value = self.declared.kind == ValueKind::ByValue;
        let size = self.declared.size as usize;
        is_value.then(|| Type::of_value(self.source_type, size)).flatten()
    }
}

impl Code {
    /// The arguments of the kernel in a kernarg segment, in their order, without hidden ones.
    pub fn arguments<'c>(&'c self, kernarg: &'c [u8]) -> Vec<Argument<'c>> {
        let mut all = Vec::new();
        for ((number, declared), source_type) in self.kernel.explicit().enumerate().zip(&self.source_types) {
            let number = format!("arg{number}");
            let bytes = kernarg.get(declared.offset as usize..);
            all.push(Argument {
                name: declared.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| number.clone()),
                number,
                declared,
                source_type: source_type.as_deref(),
                bytes: bytes.and_then(|bytes| bytes.get(..declared.size as usize)),
            });
        }
        all
    }
}

/// The types in the source of a kernel's arguments, without hidden ones. A mangled name tells them if it has as many parameters,
/// and pointers where the arguments are pointers.
pub(super) fn source_types(kernel: &Kernel) -> Vec<Option<String>> {
    let arguments: Vec<&Declared> = kernel.explicit().collect();
    let agrees = |parameters: &Vec<String>| {
        let is_pointer = |declared: &Declared| declared.kind == ValueKind::GlobalBuffer;
        let mut both = parameters.iter().zip(&arguments);
        parameters.len() == arguments.len() && both.all(|(of, argument)| !is_pointer(argument) || of.contains('*'))
    };
    let mangled = logdur_demangle::parameters(&kernel.name).filter(agrees).unwrap_or_default();
    let mut mangled = mangled.into_iter().map(Some).chain(std::iter::repeat(None));
    let of_name = |declared: &&Declared| declared.type_name.clone().or(mangled.next().flatten());
    arguments.iter().map(of_name).collect()
}

impl CapturedDispatch<'_> {
    /// The pointers among the arguments: name, type in the source, address. Those of companions come behind, each
    /// address once, with the number of the dispatch in their name: `out@17`.
    pub fn pointers(&self) -> Vec<Pointer> {
        let pointer = |argument: Argument<'_>| {
            let address = argument.address().filter(|address| *address != 0)?;
            let Argument { name, number, source_type, .. } = argument;
            Some(Pointer { name, number, source_type: source_type.map(str::to_owned), address })
        };
        let mut all: Vec<Pointer> =
            self.original.arguments(&self.dispatch.kernarg).into_iter().filter_map(pointer).collect();
        let mut known: HashSet<u64> = all.iter().map(|pointer| pointer.address).collect();
        for Companion { dispatch, original, .. } in &self.companions {
            let others = original.arguments(&dispatch.kernarg).into_iter().filter_map(pointer);
            let others = others.filter(|pointer| known.insert(pointer.address));
            all.extend(others.map(|pointer| Pointer { name: format!("{}@{}", pointer.name, dispatch.id), ..pointer }));
        }
        all
    }
}
