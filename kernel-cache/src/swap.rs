//! Whether a kernel may take the place of another, and what changes in the packet then.

use std::borrow::Borrow;

use crate::interface::Interface;
use crate::kernarg::Kernarg;
use crate::packet::{Limits, PacketFacts};
use crate::rules::{self, Accepted, Fact, Reason, Refusal};
use crate::variables::{Analysis, Binding, Modules, bind};

/// How a kernel takes the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Where its arguments come from.
    pub kernarg: Kernarg,
    /// The conditions on a packet, and the changes of its sizes.
    pub limits: Limits,
    /// The accepted differences.
    pub accepted: Vec<Accepted>,
    /// How it comes to use the application's variables.
    pub binding: Box<Binding>,
    /// Where it takes a pointer that the original does not have, in its kernarg segment: for an instrumented clone.
    pub added: Option<u32>,
}

/// The sizes of a swapped packet, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// LDS of a workgroup.
    pub group: u32,
    /// Scratch of a work-item.
    pub private: u32,
}

/// Whether a candidate may take the place of the original, whose target is what its agent is, where that is known. Its
/// variables are not looked at: [`fit_code`] does that.
///
/// # Errors
/// Every reason why not.
pub fn fit(original: &Interface, candidate: &Interface) -> Result<Swap, Vec<Refusal>> {
    let refusals = rules::check(original, candidate);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let kernarg = Kernarg::of(original, candidate);
    Ok(Swap {
        limits: Limits::of(original, candidate, &kernarg),
        kernarg,
        accepted: rules::accepted(original, candidate),
        binding: Box::default(),
        added: None,
    })
}

/// Whether a candidate may take the place of the original as its instrumented clone: it has one pointer more, behind the other
/// explicit arguments, and may need a dynamic stack. Everything else is compared as for [`fit`].
///
/// What a clone calls beyond the original is in its own code object. Where the original needs a dynamic stack too, it may call what the
/// application points to: then the clone has to be `beside` it, in the same code object.
///
/// # Errors
/// Every reason why not.
pub fn fit_clone(original: &Interface, candidate: &Interface, beside: bool) -> Result<Swap, Vec<Refusal>> {
    let Some((mut without, added)) = candidate.without_last_pointer() else {
        let counted = Fact::Text(format!("{} and a pointer", original.explicit().count()).into());
        let found = Fact::Text(format!("{}, the last one is no pointer", candidate.explicit().count()).into());
        return Err(vec![Refusal { reason: Reason::ArgumentCount, expected: counted, found }]);
    };
    let has_stack = without.uses_dynamic_stack && (beside || !original.uses_dynamic_stack);
    without.uses_dynamic_stack &= !has_stack;
    let mut swap = fit(original, &without)?;
    if has_stack {
        without.uses_dynamic_stack = true;
        swap.accepted = rules::accepted(original, &without);
        swap.limits.add_stack(original);
    }
    swap.kernarg = Kernarg::relaid(original, &without);
    swap.added = Some(added);
    Ok(swap)
}

/// Whether a candidate of a code object may take the place of the original, whose variables are in modules of the application.
///
/// # Errors
/// Every reason why not.
pub fn fit_code(
    original: &Interface,
    candidate: &Interface,
    code: &[u8],
    modules: Modules<'_>,
) -> Result<Swap, Vec<Refusal>> {
    let swap = fit(original, candidate)?;
    let analysis = || Analysis::of(code).map_err(|error| unreadable(&error));
    swap.bound(candidate, modules, analysis).map_err(|refusal| vec![refusal])
}

/// That a code object cannot be read.
pub(crate) fn unreadable(error: &dyn std::error::Error) -> Refusal {
    let [expected, found] = ["the file of the index".to_owned(), error.to_string()].map(|s| Fact::Text(s.into()));
    Refusal { reason: Reason::File, expected, found }
}

impl Swap {
    /// The same with the candidate's variables bound to the application's. Only a code object that has some is looked at.
    pub(crate) fn bound<A: Borrow<Analysis>>(
        mut self,
        candidate: &Interface,
        modules: Modules<'_>,
        analysis: impl FnOnce() -> Result<A, Refusal>,
    ) -> Result<Swap, Refusal> {
        let has_none = candidate.variables.is_empty() && candidate.stored_functions.is_empty();
        if has_none && candidate.initialisers.is_empty() {
            return Ok(self);
        }
        let analysis = analysis()?;
        // Without a name, a variable is seen only in the file.
        if has_none && !analysis.borrow().has_variables() {
            return Ok(self);
        }
        self.binding = Box::new(bind(analysis.borrow(), &candidate.name, modules)?);
        self.accepted.extend(rules::own_variables(&self.binding.own));
        Ok(self)
    }

    /// The sizes of the packet after the swap. This compares a few numbers and allocates nothing.
    ///
    /// # Errors
    /// Why the original has to run for this packet.
    #[inline]
    pub fn for_packet(&self, facts: &PacketFacts) -> Result<Sizes, Refusal> {
        rules::check_packet(&self.limits, facts)?;
        let narrow = |size| u32::try_from(size).unwrap_or(u32::MAX);
        Ok(Sizes { group: narrow(self.limits.group(facts)), private: narrow(self.limits.private(facts)) })
    }
}
