//! Every reason against a swap, and every difference that is allowed: tables, from which `docs/kernel-cache.md` is printed.

use std::borrow::Cow;
use std::fmt;

use crate::interface::Interface;
use crate::swap::{Limits, PacketFacts};

mod checks;

/// What a rule finds: what the original or the packet needs, and what the candidate has.
type Found = Option<(Fact, Fact)>;

/// One side of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A number.
    Number(u64),
    /// A size.
    Bytes(u64),
    /// At most this number.
    AtMost(u64),
    /// At least this number.
    AtLeast(u64),
    /// A shape in work-items, or of workgroups.
    Shape([u32; 3]),
    /// Words.
    Text(Cow<'static, str>),
}

impl Fact {
    const fn said(text: &'static str) -> Fact {
        Fact::Text(Cow::Borrowed(text))
    }

    fn shown(value: impl fmt::Display) -> Fact {
        Fact::Text(Cow::Owned(value.to_string()))
    }

    fn shape(shape: Option<[u32; 3]>) -> Fact {
        shape.map_or(Fact::said("none"), Fact::Shape)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Number(n) => write!(f, "{n}"),
            Fact::Bytes(n) => write!(f, "{n} bytes"),
            Fact::AtMost(n) => write!(f, "at most {n}"),
            Fact::AtLeast(n) => write!(f, "at least {n}"),
            Fact::Shape([x, y, z]) => write!(f, "{x}x{y}x{z}"),
            Fact::Text(text) => f.write_str(text),
        }
    }
}

/// Why a kernel does not take the place of another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: expected {expected}, found {found}")]
pub struct Refusal {
    /// The rule.
    pub reason: Reason,
    /// What the original, the packet or the index need.
    pub expected: Fact,
    /// What there is.
    pub found: Fact,
}

/// A difference that is allowed, and shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its name in [`ACCEPTED`].
    pub name: &'static str,
    /// Of the original.
    pub original: Fact,
    /// Of the candidate.
    pub candidate: Fact,
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} becomes {}", self.name, self.original, self.candidate)
    }
}

/// When a rule is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When code is loaded.
    Load,
    /// For each packet.
    Dispatch,
    /// When the candidate's file is read.
    Read,
}

/// A row: a rule and what it says to users.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The reason that it gives.
    pub reason: Reason,
    /// When it is looked at.
    pub when: When,
    /// What is refused and why.
    pub help: &'static str,
}

/// Makes the enum, the table, and the functions that go through the rules, from one list.
macro_rules! rules {
    (
        load: $($(#[doc = $load_help:literal])+ $load:ident $load_name:literal = $check:path;)*
        dispatch: $($(#[doc = $packet_help:literal])+ $packet:ident $packet_name:literal = $packet_check:path;)*
        read: $($(#[doc = $read_help:literal])+ $read:ident $read_name:literal;)*
    ) => {
        /// Why a kernel does not take the place of another: the rules by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $load_help])+ $load,)*
            $($(#[doc = $packet_help])+ $packet,)*
            $($(#[doc = $read_help])+ $read,)*
        }

        impl Reason {
            /// As notices have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$load => $load_name,)*
                    $(Reason::$packet => $packet_name,)*
                    $(Reason::$read => $read_name,)*
                }
            }
        }

        /// Every rule.
        pub const ROWS: &[Row] = &[
            $(Row { reason: Reason::$load, when: When::Load, help: concat!($($load_help,)+) },)*
            $(Row { reason: Reason::$packet, when: When::Dispatch, help: concat!($($packet_help,)+) },)*
            $(Row { reason: Reason::$read, when: When::Read, help: concat!($($read_help,)+) },)*
        ];

        /// What the rules for two kernels have against a swap.
        pub(crate) fn check(original: &Interface, candidate: &Interface) -> Vec<Refusal> {
            let mut refusals = Vec::new();
            $(if let Some((expected, found)) = $check(original, candidate) {
                refusals.push(Refusal { reason: Reason::$load, expected, found });
            })*
            refusals
        }

        /// What the rules for packets have against a swap.
        #[inline]
        pub(crate) fn check_packet(limits: &Limits, facts: &PacketFacts) -> Result<(), Refusal> {
            $(if let Some((expected, found)) = $packet_check(limits, facts) {
                return Err(Refusal { reason: Reason::$packet, expected, found });
            })*
            Ok(())
        }
    };
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

rules! {
    load:
    /// It is for another processor; code for a family runs on its members.
    Processor "processor" = checks::processor;
    /// It depends on xnack being on or off, and it is the other way.
    Xnack "xnack" = checks::xnack;
    /// It depends on sramecc being on or off, and it is the other way.
    Sramecc "sramecc" = checks::sramecc;
    /// Its code object's ABI is newer than what is known here, and not the original's.
    AbiVersion "ABI version" = checks::abi_version;
    /// It is run when code is loaded or unloaded, not dispatched.
    Kind "kind" = checks::kind;
    /// Its code object has no kernel descriptor for it.
    Descriptor "descriptor" = checks::descriptor;
    /// Its waves have another number of lanes.
    WavefrontSize "wave size" = checks::wavefront_size;
    /// It takes more or fewer explicit arguments.
    ArgumentCount "argument count" = checks::argument_count;
    /// An explicit argument differs in place, size or kind, or points into LDS or scratch on one side only. Names, types, `const` and `restrict` do not matter, nor whether a pointer is called global, constant or generic.
    Argument "argument" = checks::argument;
    /// It needs a hidden argument that the original does not have and that nobody but the application's runtime knows: buffers for printf, calls of the host and malloc, queues and completion actions of device enqueue, grids over several devices, and kinds that are not known here.
    HiddenArgument "hidden argument" = checks::hidden_argument;
    /// A hidden argument has another size than the original's, or one that such an argument does not have.
    HiddenArgumentSize "size of hidden argument" = checks::hidden_argument_size;
    /// Its arguments need more memory than is laid anew for a dispatch.
    KernargSize "kernarg size" = checks::kernarg_size;
    /// It needs a stack whose size is not known at compile time: recursion, or calls through pointers, which may lead into other code objects.
    DynamicStack "dynamic stack" = checks::dynamic_stack;
    /// It requires clusters of workgroups of another shape, or of any where the original requires none.
    ClusterDims "cluster" = checks::cluster_dims;
    /// Both require a shape of workgroups, and not the same.
    RequiredWorkgroupSize "required workgroup" = checks::required_workgroup_size;
    /// The original's required workgroup has more work-items than it allows.
    MaxWorkgroupSize "workgroup limit" = checks::max_workgroup_size;
    /// It was compiled for more LDS than a workgroup of this processor can have.
    GroupSize "LDS" = checks::group_size;
    /// It was compiled for more scratch than a wave can have.
    PrivateSize "scratch" = checks::private_size;

    dispatch:
    /// It requires another shape of workgroups than the packet has.
    PacketWorkgroup "workgroup" = checks::packet_workgroup;
    /// The packet's workgroups have more work-items than it allows.
    PacketWorkgroupSize "workgroup size" = checks::packet_workgroup_size;
    /// Triton has compiled it for another number of warps than the packet's workgroups have.
    PacketWarps "workgroup size of Triton" = checks::packet_warps;
    /// It requires that every workgroup is complete, and the packet's grid is no multiple of its workgroup.
    PacketIncomplete "incomplete workgroup" = checks::packet_incomplete;
    /// The packet has less LDS than the original was compiled for, or more than this processor has when it is added to the candidate's.
    PacketGroup "LDS of the packet" = checks::packet_group;
    /// The packet's scratch together with the candidate's is more than a wave can have.
    PacketPrivate "scratch of the packet" = checks::packet_private;
    /// The queue is a cooperative one, on which all workgroups have to run at once, and it needs more registers, LDS or scratch than the original: some might never start.
    PacketCooperative "cooperative queue" = checks::packet_cooperative;

    read:
    /// Its code makes an address in a way that is not understood, so that it is not known which variables it uses: the instruction is named. Code objects without variables are not looked at. Nor is it known for processors whose instructions are not.
    Addresses "addresses";
    /// It uses a variable that cannot be the original's: of another size or kind, initialised otherwise, managed on one side only, or one of several of the name. Or an address in its code does not say of which variable it is, and the variables do not lie as the original's do.
    Variables "variables";
    /// It can get to stored addresses of functions of its code object (tables of virtual functions, function pointers): other code would call into it, or it into other code, with other registers than it was compiled for.
    StoredFunctions "stored functions";
    /// Triton has made it, and the description beside it is not there yet or cannot be read: it alone says how much LDS the kernel wants.
    Description "description";
    /// Its file cannot be read, or is no longer what the index says.
    File "file";
}

/// A difference that is allowed: its name, what it means, and how it is told.
pub struct AcceptedRow {
    /// Its name.
    pub name: &'static str,
    /// What is done about it.
    pub help: &'static str,
    check: fn(&Interface, &Interface) -> Found,
}

/// Variables that the application does not have: the row of [`ACCEPTED`] that is found when code is read.
pub(crate) const OWN_VARIABLES: &str = "variables";

/// Every difference that is allowed and shown.
pub const ACCEPTED: &[AcceptedRow] = &[
    AcceptedRow {
        name: "ABI version",
        help: "Both are known, and hidden arguments are told by kind.",
        check: checks::differing_abi,
    },
    AcceptedRow {
        name: "kernarg segment",
        help: "It is larger, or hidden arguments are at other places: it is laid anew for each dispatch. What the original has is copied; block counts, sizes of workgroups, remainders, dimensions, the size of dynamic LDS, the queue and apertures come from the packet and the queue; global offsets are zero.",
        check: |o, c| checks::differing(o.kernarg_size, c.kernarg_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "kernarg preload",
        help: "Dwords of the kernarg segment that are preloaded into registers: the code has a beginning for firmware that does not do it.",
        check: |o, c| checks::differing(o.preload, c.preload, |(length, _)| Fact::Number(length.into())),
    },
    AcceptedRow {
        name: "LDS",
        help: "The packet gets the candidate's, and what was added to the original's.",
        check: |o, c| checks::differing(o.group_size, c.group_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "scratch",
        help: "The packet gets the larger.",
        check: |o, c| checks::differing(o.private_size, c.private_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "registers",
        help: "Vector, accumulation and scalar registers: more of them may let fewer waves run at once.",
        check: |o, c| {
            let all = |i: &Interface| [i.vgprs, i.agprs, i.sgprs];
            let shown = |[v, a, s]: [u32; 3]| Fact::shown(format_args!("{v} vector, {a} accumulation, {s} scalar"));
            checks::differing(all(o), all(c), shown)
        },
    },
    AcceptedRow {
        name: "workgroup limit",
        help: "Packets with larger workgroups run the original.",
        check: |o, c| {
            checks::differing(o.max_flat_workgroup_size, c.max_flat_workgroup_size, |n| Fact::Number(n.into()))
        },
    },
    AcceptedRow {
        name: "required workgroup",
        help: "Packets with workgroups of another shape run the original.",
        check: |o, c| checks::differing(o.required_workgroup_size, c.required_workgroup_size, Fact::shape),
    },
    AcceptedRow {
        name: "complete workgroups",
        help: "Where only the candidate requires them, packets with incomplete ones run the original.",
        check: |o, c| checks::differing(o.uniform_workgroup_size, c.uniform_workgroup_size, Fact::shown),
    },
    AcceptedRow {
        name: "dynamic stack",
        help: "The candidate needs none where the original did; the packet keeps the room.",
        check: |o, c| checks::differing(o.uses_dynamic_stack, c.uses_dynamic_stack, Fact::shown),
    },
    AcceptedRow {
        name: "float mode",
        help: "Rounding, denormals and NaNs are treated as the candidate was compiled.",
        check: |o, c| {
            checks::differing(o.float_mode, c.float_mode, |mode| {
                mode.map_or(Fact::said("unknown"), |m| Fact::shown(format_args!("{m:#x}")))
            })
        },
    },
    AcceptedRow {
        name: OWN_VARIABLES,
        help: "Those that the application does not have are the candidate's own, initialised from its file. The others are the application's: its writes are seen, and it sees what is written.",
        check: |_, _| None,
    },
];

/// That a candidate has variables which the application does not have.
pub(crate) fn own_variables(names: &[String]) -> Option<Accepted> {
    let (original, candidate) = checks::named(names)?;
    Some(Accepted { name: OWN_VARIABLES, original, candidate })
}

/// What differs of two kernels that fit.
pub(crate) fn accepted(original: &Interface, candidate: &Interface) -> Vec<Accepted> {
    let differs = |row: &AcceptedRow| {
        let (original, candidate) = (row.check)(original, candidate)?;
        Some(Accepted { name: row.name, original, candidate })
    };
    ACCEPTED.iter().filter_map(differs).collect()
}
