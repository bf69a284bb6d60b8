//! The tables of all reasons against a swap and of all accepted differences. `docs/kernel-cache.md` is printed from them.

use std::borrow::Cow;
use std::fmt;

use crate::interface::Interface;
use crate::packet::{Limits, PacketFacts};

mod checks;

/// What a rule finds: what the original or the packet needs, and what the candidate has.
type Conflict = Option<(Fact, Fact)>;

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
    /// The candidate is for another processor. Code for a processor family runs on each member.
    Processor "processor" = checks::processor;
    /// The candidate needs the other xnack setting.
    Xnack "xnack" = checks::xnack;
    /// The candidate needs the other sramecc setting.
    Sramecc "sramecc" = checks::sramecc;
    /// The candidate's code object ABI is not the original's, and newer than the versions known here.
    AbiVersion "ABI version" = checks::abi_version;
    /// One of the two is an initialiser or finaliser, which runs when code is loaded or unloaded.
    Kind "kind" = checks::kind;
    /// The candidate's code object has no kernel descriptor for it.
    Descriptor "descriptor" = checks::descriptor;
    /// The candidate's waves have another number of lanes.
    WavefrontSize "wave size" = checks::wavefront_size;
    /// The candidate takes more or fewer explicit arguments.
    ArgumentCount "argument count" = checks::argument_count;
    /// An explicit argument differs in place, size or kind, or points into LDS or scratch on one side only. Names, types, `const`, `restrict`, and the difference between global, constant and generic pointers do not matter.
    Argument "argument" = checks::argument;
    /// The candidate needs a hidden argument that the original does not have, and that only the application's runtime knows: buffers for printf, host calls and malloc; queues and completion actions of device enqueue; grids over several devices; unknown kinds.
    HiddenArgument "hidden argument" = checks::hidden_argument;
    /// A hidden argument has another size than the original's, or a size that its kind never has.
    HiddenArgumentSize "size of hidden argument" = checks::hidden_argument_size;
    /// The candidate's arguments need more memory than is available for a new layout.
    KernargSize "kernarg size" = checks::kernarg_size;
    /// The candidate needs a stack of unknown size: recursion, or calls through pointers, which may lead into other code objects. An instrumented clone may need one if the original needs none, or if both are in one code object. Its packets get 1024 bytes for the stack, as HIP's runtime gives, or as many as the original's packets have.
    DynamicStack "dynamic stack" = checks::dynamic_stack;
    /// The candidate requires another shape of workgroup clusters, or clusters where the original has none.
    ClusterDims "cluster" = checks::cluster_dims;
    /// Original and candidate require different shapes of workgroups.
    RequiredWorkgroupSize "required workgroup" = checks::required_workgroup_size;
    /// The original's required workgroup has more work-items than the candidate allows.
    MaxWorkgroupSize "workgroup limit" = checks::max_workgroup_size;
    /// The candidate needs more LDS than a workgroup of this processor can have.
    GroupSize "LDS" = checks::group_size;
    /// The candidate needs more scratch than a wave can have.
    PrivateSize "scratch" = checks::private_size;

    dispatch:
    /// The candidate requires another shape of workgroups than the packet has.
    PacketWorkgroup "workgroup" = checks::packet_workgroup;
    /// The packet's workgroups have more work-items than the candidate allows.
    PacketWorkgroupSize "workgroup size" = checks::packet_workgroup_size;
    /// Triton compiled the candidate for another number of warps than the packet's workgroups have.
    PacketWarps "workgroup size of Triton" = checks::packet_warps;
    /// The candidate requires complete workgroups, and the packet's grid is no multiple of its workgroup.
    PacketIncomplete "incomplete workgroup" = checks::packet_incomplete;
    /// The packet has less LDS than the original was compiled for; or its additional LDS and the candidate's exceed the processor's.
    PacketGroup "LDS of the packet" = checks::packet_group;
    /// The packet's scratch together with the candidate's exceeds the limit of a wave.
    PacketPrivate "scratch of the packet" = checks::packet_private;
    /// The queue is cooperative: all workgroups must run at once. The candidate needs more registers, LDS or scratch than the original, so some workgroups might never start.
    PacketCooperative "cooperative queue" = checks::packet_cooperative;
    /// An argument is an offset into dynamic LDS that must move, since the two kernels declare different amounts of LDS; and it is not in the packet's dynamic LDS, or not aligned as the candidate needs it.
    PacketPointer "LDS pointer" = checks::packet_pointer;

    read:
    /// The candidate's code computes an address in an unknown way, so the variables that it uses are not known. The reason names the instruction. Code objects without variables are not checked. The code of unknown processors always has this reason, if there are variables.
    Addresses "addresses";
    /// The candidate uses a variable that an initialiser or finaliser of its code object uses too. Such kernels of a replacement are not run, so the variable might have other values.
    Initialiser "initialiser";
    /// The candidate uses a variable that cannot be the original's: another size, kind or initial value, managed on one side only, or an ambiguous name. Or the application does not have it, and only a host runtime could set it up: a managed variable, OpenCL's handle for enqueuing, a variable of OpenMP's runtime. Or an address in its code does not identify its variable, and the layout of the variables differs from the original's.
    Variables "variables";
    /// The candidate can reach stored addresses of functions (virtual function tables, function pointers). Code would be called across code objects, with other registers than it was compiled for.
    StoredFunctions "stored functions";
    /// The candidate is Triton's, and the description beside it is missing or cannot be read. Only the description has the LDS size.
    Description "description";
    /// The candidate's file cannot be read, or differs from the index.
    File "file";
}

/// A difference that is allowed: its name, what it means, and how it is told.
pub struct AcceptedRow {
    /// Its name.
    pub name: &'static str,
    /// What is done about it.
    pub help: &'static str,
    check: fn(&Interface, &Interface) -> Conflict,
}

/// Variables that the application does not have: the row of [`ACCEPTED`] that is found when code is read.
pub(crate) const OWN_VARIABLES: &str = "variables";

/// Every difference that is allowed and shown.
pub const ACCEPTED: &[AcceptedRow] = &[
    AcceptedRow {
        name: "ABI version",
        help: "Both versions are known, and hidden arguments are identified by kind.",
        check: checks::differing_abi,
    },
    AcceptedRow {
        name: "kernarg segment",
        help: "The candidate's is larger, or has hidden arguments at other places. Each dispatch gets a new segment. Arguments of the original are copied; block counts, workgroup sizes, remainders, dimensions, the size of dynamic LDS, the queue and apertures come from the packet and the queue; global offsets are zero.",
        check: |o, c| checks::differing(o.kernarg_size, c.kernarg_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "kernarg preload",
        help: "Dwords of the kernarg segment that are preloaded into registers. The code has an entry for firmware that does not preload.",
        check: |o, c| checks::differing(o.preload, c.preload, |(length, _)| Fact::Number(length.into())),
    },
    AcceptedRow {
        name: "LDS",
        help: "The packet gets the candidate's size, plus what the application added to the original's. Arguments that are offsets into this addition (OpenCL's `local` pointers) move with it.",
        check: |o, c| checks::differing(o.group_size, c.group_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "scratch",
        help: "The packet gets the larger size.",
        check: |o, c| checks::differing(o.private_size, c.private_size, |n| Fact::Bytes(n.into())),
    },
    AcceptedRow {
        name: "registers",
        help: "Vector, accumulation and scalar registers. With more registers, fewer waves may run at once.",
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
        help: "If only the candidate requires them, packets with incomplete workgroups run the original.",
        check: |o, c| checks::differing(o.uniform_workgroup_size, c.uniform_workgroup_size, Fact::shown),
    },
    AcceptedRow {
        name: "dynamic stack",
        help: "If only the original needs one, the packet keeps its size. If only an instrumented clone needs one, the packet gets room for it.",
        check: |o, c| checks::differing(o.uses_dynamic_stack, c.uses_dynamic_stack, Fact::shown),
    },
    AcceptedRow {
        name: "float mode",
        help: "The candidate's settings for rounding, denormals and NaNs apply.",
        check: |o, c| {
            checks::differing(o.float_mode, c.float_mode, |mode| {
                mode.map_or(Fact::said("unknown"), |m| Fact::shown(format_args!("{m:#x}")))
            })
        },
    },
    AcceptedRow {
        name: OWN_VARIABLES,
        help: "Variables that the application does not have are the candidate's own, initialised from its file. The others are shared with the application: each side sees the other's writes. Captures have the candidate's own variables as well.",
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
