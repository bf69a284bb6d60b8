//! From metadata to kernels: which key is which field, in both forms.
//!
//! Source: AMDGPUUsage, "Code Object V2 Metadata", "Code Object V3 Metadata" and those of later versions.

use std::borrow::Cow;

use crate::error::{Result, Unreadable};
use crate::kernel::{Access, AddressSpace, Argument, Kernel, KernelKind};
use crate::value::Value;
use crate::value_kind::ValueKind;

/// A key from version 3 on, and in version 2; empty where there is none.
pub(crate) type Key = [&'static str; 2];

/// Which of the two a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// MessagePack, version 3 and later.
    New,
    /// YAML, version 2.
    Old,
}

impl Form {
    /// The key in this form.
    pub(crate) const fn of(self, [new, old]: Key) -> &'static str {
        match self {
            Form::New => new,
            Form::Old => old,
        }
    }
}

/// A map whose keys are taken one after the other; what is left is not known.
struct Fields<'a> {
    form: Form,
    kernel: &'a str,
    /// Which argument it is, for errors.
    argument: Option<usize>,
    pairs: Vec<(Cow<'a, str>, Option<&'a Value<'a>>)>,
}

impl<'a> Fields<'a> {
    /// The fields of a map; `kernel` is its name, for errors.
    ///
    /// # Errors
    /// When it is no map, or a key is no text.
    fn of(form: Form, kernel: &'a str, argument: Option<usize>, value: &'a Value<'a>) -> Result<Fields<'a>> {
        let mut fields = Fields { form, kernel, argument, pairs: Vec::new() };
        fields.add("", value)?;
        Ok(fields)
    }

    /// In version 2, maps that are in a kernel's map belong to it.
    fn add(&mut self, prefix: &str, value: &'a Value<'a>) -> Result<()> {
        let Value::Map(pairs) = value else { return Err(self.wrong(prefix, "a map", value.describe())) };
        for (key, value) in pairs {
            let Some(key) = key.as_text() else {
                return Err(self.wrong(prefix, "a map whose keys are text", key.describe()));
            };
            match value {
                Value::Map(_) if self.form == Form::Old && prefix.is_empty() => self.add(&format!("{key}."), value)?,
                _ if prefix.is_empty() => self.pairs.push((Cow::Borrowed(key), Some(value))),
                _ => self.pairs.push((Cow::Owned(format!("{prefix}{key}")), Some(value))),
            }
        }
        Ok(())
    }

    fn wrong(&self, key: &str, expected: &'static str, found: String) -> Unreadable {
        let key = match (self.argument, key) {
            (Some(index), "") => format!("argument {index}"),
            (Some(index), key) => format!("argument {index}: {key}"),
            (None, "") => "the kernel".to_owned(),
            (None, key) => key.to_owned(),
        };
        Unreadable::Metadata { kernel: self.kernel.to_owned(), key, expected, found }
    }

    /// What is left of the map has no meaning here.
    fn rest(self) -> Vec<(String, Value<'static>)> {
        self.pairs
            .into_iter()
            .filter_map(|(key, value)| Some((key.into_owned(), value?.clone().into_owned())))
            .collect()
    }

    fn take(&mut self, key: Key) -> Option<&'a Value<'a>> {
        let key = self.form.of(key);
        self.pairs.iter_mut().find(|(k, _)| k == key).and_then(|(_, value)| value.take())
    }

    fn typed<T>(
        &mut self,
        key: Key,
        expected: &'static str,
        read: impl Fn(&'a Value<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(self.form.of(key), expected, value.describe())),
        }
    }

    fn required<T>(&self, key: Key, expected: &'static str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(self.form.of(key), expected, "nothing".to_owned()))
    }

    fn text(&mut self, key: Key) -> Result<Option<String>> {
        self.typed(key, "text", |v| v.as_text().map(str::to_owned))
    }

    fn number(&mut self, key: Key) -> Result<Option<u32>> {
        self.typed(key, NUMBER, |v| v.as_unsigned().and_then(|n| n.try_into().ok()))
    }

    fn flag(&mut self, key: Key) -> Result<bool> {
        Ok(self.typed(key, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    fn numbers(&mut self, key: Key) -> Result<Option<Vec<u32>>> {
        let read = |v: &Value<'_>| v.as_list()?.iter().map(|n| n.as_unsigned()?.try_into().ok()).collect();
        self.typed(key, "a list of numbers below 2^32", read)
    }

    fn shape(&mut self, key: Key) -> Result<Option<[u32; 3]>> {
        match self.numbers(key)? {
            None => Ok(None),
            Some(list) => match <[u32; 3]>::try_from(list.as_slice()) {
                Ok(shape) => Ok(Some(shape)),
                Err(_) => Err(self.wrong(self.form.of(key), "three numbers", format!("{list:?}"))),
            },
        }
    }

    /// Version 2 leaves out what is zero; from version 3 on it has to be there.
    fn count(&mut self, key: Key) -> Result<u32> {
        match (self.number(key)?, self.form) {
            (None, Form::Old) => Ok(0),
            (number, _) => self.required(key, NUMBER, number),
        }
    }
}

const NUMBER: &str = "a number below 2^32";

/// A kernel, without its descriptor. `index` is its place in the list.
///
/// # Errors
/// When something is missing that every kernel has, or is of another type.
pub(crate) fn kernel(form: Form, index: usize, value: &Value<'_>) -> Result<Kernel> {
    let name = value.get(form.of([".name", "Name"])).and_then(Value::as_text);
    let label = name.map_or_else(|| Cow::Owned(format!("#{index}")), Cow::Borrowed);
    let mut f = Fields::of(form, &label, None, value)?;
    let name = f.text([".name", "Name"])?;
    let symbol = f.text([".symbol", "SymbolName"])?;
    Ok(Kernel {
        name: f.required([".name", "Name"], "text", name)?,
        symbol: f.required([".symbol", "SymbolName"], "text", symbol)?,
        arguments: arguments(&mut f)?,
        kernarg_size: f.count([".kernarg_segment_size", "CodeProps.KernargSegmentSize"])?,
        kernarg_align: f.count([".kernarg_segment_align", "CodeProps.KernargSegmentAlign"])?,
        group_size: f.count([".group_segment_fixed_size", "CodeProps.GroupSegmentFixedSize"])?,
        private_size: f.count([".private_segment_fixed_size", "CodeProps.PrivateSegmentFixedSize"])?,
        wavefront_size: f.count([".wavefront_size", "CodeProps.WavefrontSize"])?,
        sgprs: f.count([".sgpr_count", "CodeProps.NumSGPRs"])?,
        vgprs: f.count([".vgpr_count", "CodeProps.NumVGPRs"])?,
        agprs: f.number([".agpr_count", ""])?,
        sgpr_spills: f.number([".sgpr_spill_count", "CodeProps.NumSpilledSGPRs"])?,
        vgpr_spills: f.number([".vgpr_spill_count", "CodeProps.NumSpilledVGPRs"])?,
        max_flat_workgroup_size: f.count([".max_flat_workgroup_size", "CodeProps.MaxFlatWorkGroupSize"])?,
        required_workgroup_size: f.shape([".reqd_workgroup_size", "Attrs.ReqdWorkGroupSize"])?,
        workgroup_size_hint: f.shape([".workgroup_size_hint", "Attrs.WorkGroupSizeHint"])?,
        vec_type_hint: f.text([".vec_type_hint", "Attrs.VecTypeHint"])?,
        uniform_workgroup_size: f.flag([".uniform_work_group_size", ""])?,
        uses_dynamic_stack: f.flag([".uses_dynamic_stack", "CodeProps.IsDynamicCallStack"])?,
        workgroup_processor_mode: f.typed([".workgroup_processor_mode", ""], "true or false", Value::as_bool)?,
        cluster_dims: f.shape([".cluster_dims", ""])?,
        kind: f.text([".kind", ""])?.map_or(KernelKind::Normal, |kind| KernelKind::from_name(&kind)),
        language: f.text([".language", "Language"])?,
        language_version: f.numbers([".language_version", "LanguageVersion"])?.unwrap_or_default(),
        device_enqueue_symbol: f.text([".device_enqueue_symbol", "Attrs.RuntimeHandle"])?,
        descriptor: None,
        unknown: f.rest(),
    })
}

fn arguments(kernel: &mut Fields<'_>) -> Result<Vec<Argument>> {
    let key = [".args", "Args"];
    let values = kernel.typed(key, "a list", Value::as_list)?.unwrap_or_default();
    let mut end = 0;
    let mut argument = |(index, value)| {
        let mut f = Fields::of(kernel.form, kernel.kernel, Some(index), value)?;
        let argument = argument(&mut f, end)?;
        end = argument.offset.saturating_add(argument.size);
        Ok(Argument { unknown: f.rest(), ..argument })
    };
    values.iter().enumerate().map(&mut argument).collect()
}

/// An argument without what is not known. `end` is where the one before it ends: version 2 has alignments, not offsets.
fn argument(f: &mut Fields<'_>, end: u32) -> Result<Argument> {
    let (offset_key, align_key, size_key, kind_key) =
        ([".offset", ""], ["", "Align"], [".size", "Size"], [".value_kind", "ValueKind"]);
    let (offset, align, size) = (f.number(offset_key)?, f.number(align_key)?, f.number(size_key)?);
    let offset = match f.form {
        Form::New => f.required(offset_key, NUMBER, offset)?,
        Form::Old => {
            let align = f.required(align_key, NUMBER, align)?.max(1);
            f.required(align_key, "an alignment that 2^32 bytes have room for", end.checked_next_multiple_of(align))?
        }
    };
    let kind = f.text(kind_key)?;
    let kind = f.required(kind_key, "text", kind)?;
    Ok(Argument {
        name: f.text([".name", "Name"])?,
        type_name: f.text([".type_name", "TypeName"])?,
        offset,
        size: f.required(size_key, NUMBER, size)?,
        kind: ValueKind::from_name(&kind),
        align,
        value_type: f.text([".value_type", "ValueType"])?,
        pointee_align: f.number([".pointee_align", "PointeeAlign"])?,
        address_space: f.text([".address_space", "AddrSpaceQual"])?.map(|name| AddressSpace::from_name(&name)),
        access: f.text([".access", "AccQual"])?.map(|name| Access::from_name(&name)),
        actual_access: f.text([".actual_access", "ActualAccQual"])?.map(|name| Access::from_name(&name)),
        is_const: f.flag([".is_const", "IsConst"])?,
        is_restrict: f.flag([".is_restrict", "IsRestrict"])?,
        is_volatile: f.flag([".is_volatile", "IsVolatile"])?,
        is_pipe: f.flag([".is_pipe", "IsPipe"])?,
        unknown: Vec::new(),
    })
}
