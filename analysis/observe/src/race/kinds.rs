//! The kinds of races: one table.

use amdgpu_emu::isa::access::Space;

use super::cell::{By, Write, flag};
use super::clocks::{Me, Relation};

macro_rules! kinds {
    ($( $name:ident $says:literal; )*) => {
        /// What is wrong with two accesses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Kind {
            $( #[doc = $says] $name, )*
        }

        impl Kind {
            /// The same in words.
            pub(super) const fn says(self) -> &'static str {
                match self { $( Kind::$name => $says, )* }
            }
        }
    };
}

kinds! {
    Read "memory is read that another workgroup writes, and nothing orders the two";
    Stale "memory is read that another workgroup wrote, and no cache was invalidated since";
    MateRead "memory is read that another wave of the workgroup writes, and nothing orders the two";
    Written "memory is written by two workgroups with different values, and nothing orders the two";
    MateWritten "memory is written by two waves of a workgroup with different values, and nothing orders the two";
    Atomic "memory is written by an atomic and by an access that is none, and nothing orders the two";
    LdsRead "LDS is read that another wave writes, without a barrier between";
    LdsReadLate "LDS is read that another wave writes; its write is not waited for before the barrier";
    LdsOverwritten "LDS is written that another wave reads; its read is not waited for before the barrier";
    LdsWritten "LDS is written by two waves, without a barrier between";
    LdsWrittenLate "LDS is written by two waves; a write is not waited for before the barrier";
    LdsAtomic "LDS is written by an atomic and by an access that is none, without a barrier between";
    LoadRead "LDS is read, and the wave's own load into it has not been waited for";
    LoadWritten "LDS is written, and the wave's own load into it has not been waited for";
}

impl Kind {
    /// True for writes of which each may be an atomic store, where coherent loads read what they write.
    pub(super) fn may_be_atomic(self) -> bool {
        matches!(self, Kind::Written | Kind::MateWritten | Kind::LdsWritten)
    }

    /// Of a plain read behind a write.
    pub(super) fn of_read(relation: Relation, write: &Write, me: &Me<'_>) -> Option<Kind> {
        Some(match (relation, me.space) {
            (Relation::Behind | Relation::Unknown, _) => return None,
            (Relation::Stale, _) => Kind::Stale,
            (Relation::Late, Space::Lds) => Kind::LdsReadLate,
            (_, Space::Lds) => Kind::LdsRead,
            // A load into LDS is waited for as what it reads.
            (_, Space::Memory) if write.has(flag::LOADS) => return None,
            (_, Space::Memory) => Kind::read(&write.by, me),
        })
    }

    /// Of a write behind a read.
    pub(super) fn of_overwritten(relation: Relation, _write: &Write, read: &By, me: &Me<'_>) -> Option<Kind> {
        Some(match (relation, me.space) {
            (Relation::Behind | Relation::Unknown | Relation::Stale, _) => return None,
            (Relation::Late, Space::Lds) => Kind::LdsOverwritten,
            (_, Space::Lds) => Kind::LdsRead,
            (_, Space::Memory) => Kind::read(read, me),
        })
    }

    fn read(other: &By, me: &Me<'_>) -> Kind {
        if me.is_mate(other.wave) { Kind::MateRead } else { Kind::Read }
    }

    /// Of two writes; `atomic` says that one of them is an atomic.
    pub(super) fn of_writes(relation: Relation, atomic: bool, other: &By, me: &Me<'_>) -> Option<Kind> {
        Some(match (relation, me.space) {
            (Relation::Behind | Relation::Unknown | Relation::Stale, _) => return None,
            (_, Space::Lds) if atomic => Kind::LdsAtomic,
            (Relation::Late, Space::Lds) => Kind::LdsWrittenLate,
            (_, Space::Lds) => Kind::LdsWritten,
            (_, Space::Memory) if atomic => Kind::Atomic,
            (_, Space::Memory) if me.is_mate(other.wave) => Kind::MateWritten,
            (_, Space::Memory) => Kind::Written,
        })
    }
}
