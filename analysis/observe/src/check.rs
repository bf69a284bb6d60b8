//! What a check is: a file with a [`Checker`], and a row of the table of [`Check`](crate::Check) that names it.

use std::fmt::Debug;
use std::ops::Range;

use amdgpu_emu::isa::access::Parts;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{Group, Step};

use crate::allowed::Divided;
use crate::finding::{Findings, Position};
use crate::heat::Region;
use crate::outstanding::{Operations, Outstanding};
use crate::seen::Seen;

/// A check as a worker of the emulated GPU has it. A dispatch has one, and each worker clones it: clones share what is between
/// workgroups.
///
/// The methods are called in the order in which they are here. Those that a check does not have do nothing, and cost nothing.
pub(crate) trait Checker: Clone + Debug + Send {
    /// What it keeps of a workgroup.
    type Group: Send;

    /// It looks at operations that a wave has not waited for.
    const OUTSTANDING: bool = false;
    /// It looks at instructions that access memory also when they have been executed.
    const AFTER: bool = false;

    /// Of a dispatch that begins.
    fn new(dispatch: &Dispatch<'_>) -> Self;

    /// A workgroup begins.
    fn begin(&mut self, group: &Group<'_>) -> Self::Group;

    /// A wave is about to execute an instruction, which is not outstanding yet.
    #[inline]
    fn before(&mut self, _group: &mut Self::Group, _look: &mut Look<'_>) {}

    /// The same where a check looks at outstanding operations: the instruction is one of them, or the wave has waited.
    #[inline]
    fn issued(&mut self, _group: &mut Self::Group, _look: &mut Look<'_>) {}

    /// A wave has executed an instruction that accesses memory.
    #[inline]
    fn after(&mut self, _group: &mut Self::Group, _step: &Step<'_>, _outstanding: Option<&Outstanding>) {}

    /// All waves of the workgroup that have not ended were at a barrier.
    fn barrier(&mut self, _group: &mut Self::Group, _barrier: &mut Barrier<'_>) {}

    /// The workgroup has ended.
    fn end(&mut self, _group: Self::Group, _findings: &mut Findings) {}

    /// The dispatch has ended: what can be said of all its workgroups together.
    fn judge(&self, _launch: &Launch, _seen: &mut Seen) {}
}

/// A dispatch that begins.
pub(crate) struct Dispatch<'a> {
    pub(crate) launch: &'a Launch,
    /// Named memory, sorted by address.
    pub(crate) regions: &'a [Region],
    /// Memory without a name that it may access, too.
    pub(crate) more: &'a [Range<u64>],
    /// Allocations of which it may access parts only.
    pub(crate) divided: &'a Divided,
    /// Not all workgroups are observed.
    pub(crate) partial: bool,
}

/// An instruction that a wave is about to execute.
pub(crate) struct Look<'a> {
    pub(crate) step: &'a Step<'a>,
    /// The instruction with index mode applied.
    pub(crate) inst: &'a Inst,
    /// Index mode has changed it: it may be another one the next time.
    pub(crate) is_moved: bool,
    /// What it accesses.
    pub(crate) parts: Option<&'a Parts>,
    pub(crate) place: &'a Position,
    /// For checks that look at outstanding operations.
    pub(crate) operations: Option<Operations<'a>>,
    pub(crate) findings: &'a mut Findings,
}

/// A barrier that all waves have reached that have not ended.
pub(crate) struct Barrier<'a> {
    pub(crate) place: &'a Position,
    /// Of each wave, for checks that look at outstanding operations.
    pub(crate) outstanding: &'a [Outstanding],
    pub(crate) findings: &'a mut Findings,
}

/// Makes the module `checkers`, with what holds the checkers of a table's rows. No call is a virtual one: the loop that executes
/// instructions has them inline.
macro_rules! checkers {
    ($( $variant:ident $module:ident $checker:ident; )*) => {
        mod checkers {
            use amdgpu_emu::launch::Launch;
            use amdgpu_emu::observer::{Group, Step};

            use crate::check::{Barrier, Checker, Dispatch, Look};
            use crate::finding::Findings;
            use crate::outstanding::Outstanding;
            use crate::seen::Seen;
            use crate::{Check, Wanted, $( $module ),*};

            /// The checks that are wanted, as a worker has them.
            #[derive(Clone, Debug)]
            pub(crate) struct Checkers {
                $( $module: Option<$module::$checker>, )*
            }

            /// What they keep of a workgroup.
            pub(crate) struct Groups {
                $( $module: Option<<$module::$checker as Checker>::Group>, )*
            }

            impl Checkers {
                pub(crate) fn new(wanted: &Wanted, dispatch: &Dispatch<'_>) -> Checkers {
                    Checkers { $( $module: wanted.checks(Check::$variant).then(|| $module::$checker::new(dispatch)), )* }
                }

                /// Some check looks at outstanding operations.
                pub(crate) fn look_at_operations(&self) -> bool {
                    false $( || $module::$checker::OUTSTANDING && self.$module.is_some() )*
                }

                /// Some check looks at instructions that have been executed.
                #[inline]
                pub(crate) fn look_after(&self) -> bool {
                    false $( || $module::$checker::AFTER && self.$module.is_some() )*
                }

                pub(crate) fn begin(&mut self, group: &Group<'_>) -> Groups {
                    Groups { $( $module: self.$module.as_mut().map(|checker| checker.begin(group)), )* }
                }

                #[inline]
                pub(crate) fn before(&mut self, groups: &mut Groups, look: &mut Look<'_>) {
                    $( if let (Some(checker), Some(group)) = (&mut self.$module, &mut groups.$module) {
                        checker.before(group, look);
                    } )*
                }

                #[inline]
                pub(crate) fn issued(&mut self, groups: &mut Groups, look: &mut Look<'_>) {
                    $( if let (Some(checker), Some(group)) = (&mut self.$module, &mut groups.$module) {
                        checker.issued(group, look);
                    } )*
                }

                #[inline]
                pub(crate) fn after(&mut self, groups: &mut Groups, step: &Step<'_>, outstanding: Option<&Outstanding>) {
                    $( if let (Some(checker), Some(group)) = (&mut self.$module, &mut groups.$module) {
                        checker.after(group, step, outstanding);
                    } )*
                }

                pub(crate) fn barrier(&mut self, groups: &mut Groups, barrier: &mut Barrier<'_>) {
                    $( if let (Some(checker), Some(group)) = (&mut self.$module, &mut groups.$module) {
                        checker.barrier(group, barrier);
                    } )*
                }

                pub(crate) fn end(&mut self, groups: Groups, findings: &mut Findings) {
                    $( if let (Some(checker), Some(group)) = (&mut self.$module, groups.$module) {
                        checker.end(group, findings);
                    } )*
                }

                pub(crate) fn judge(&self, launch: &Launch, seen: &mut Seen) {
                    $( self.$module.iter().for_each(|checker| checker.judge(launch, seen)); )*
                }
            }
        }
    };
}
