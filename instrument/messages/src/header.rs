//! The header of a message.

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a lane's header.
pub(crate) const LANE_HEADER_BYTES: usize = 4;

/// What a message begins with, as the wave wrote it. Source: dh_comms' `wave_header_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The lanes that were active.
    pub exec: u64,
    /// Bytes of data behind the header.
    pub data_bytes: u64,
    /// True when each active lane has an item of data; false when the wave has one.
    pub is_vector: bool,
    /// True when there is a [`Thread`] for each active lane before the data.
    pub has_lane_headers: bool,
    /// The shader clock when the message was sent. It can be compared within an XCC only, and is not in nanoseconds.
    pub timestamp: u64,
    /// The file that the instruction comes from, by [`file_hash`](crate::file_hash).
    pub file: u64,
    /// Its line, 0 where it is not known.
    pub line: u32,
    /// Its column, 0 where it is not known.
    pub column: u32,
    /// What the data are.
    pub kind: Kind,
    /// More about it, by the kind.
    pub user_data: u32,
    /// The workgroup in the grid, cut to 16 bits.
    pub block: [u16; 3],
    /// The wave in its workgroup.
    pub wave: u8,
    /// The accelerator die.
    pub xcc: u8,
    /// The shader engine.
    pub se: u8,
    /// The compute unit.
    pub cu: u8,
    /// How many lanes were active.
    pub lanes: u8,
    /// The processor.
    pub arch: Arch,
}

/// What the data of a message are. Source: the user types of dh_comms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// An address for each lane, of memory that is accessed.
    Address,
    /// Two clocks for the wave: when something began, and when it ended.
    TimeInterval,
    /// No data: the wave enters a block, whose number is the header's `user_data`.
    BlockStart,
    /// The kernel says nothing about it.
    #[default]
    Undefined,
    /// A type of the kernel's own.
    User(u32),
}

impl Kind {
    /// By the number in the header.
    pub const fn of(number: u32) -> Kind {
        match number {
            0 => Kind::Address,
            1 => Kind::TimeInterval,
            2 => Kind::BlockStart,
            u32::MAX => Kind::Undefined,
            other => Kind::User(other),
        }
    }

    /// The number in the header.
    pub const fn number(self) -> u32 {
        match self {
            Kind::Address => 0,
            Kind::TimeInterval => 1,
            Kind::BlockStart => 2,
            Kind::Undefined => u32::MAX,
            Kind::User(other) => other,
        }
    }
}

/// What an access does, and to what: the `user_data` of an address message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// The memory.
    pub space: AddressSpace,
    /// Bytes of each lane.
    pub bytes: u16,
}

impl Access {
    /// By the number in the header: read and write in bits 0 and 1, the memory in bits 2 to 5, the size in bits 6 to 21.
    pub const fn of(user_data: u32) -> Access {
        Access {
            reads: user_data & 1 != 0,
            writes: user_data & 2 != 0,
            space: AddressSpace::of((user_data >> 2 & 0xf) as u8),
            bytes: (user_data >> 6) as u16,
        }
    }

    /// The number in the header.
    pub const fn number(self) -> u32 {
        self.reads as u32 | (self.writes as u32) << 1 | (self.space.number() as u32) << 2 | (self.bytes as u32) << 6
    }
}

/// Memory, by LLVM's number of its address space. Source: AMDGPUUsage, "Address Spaces".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSpace {
    /// Any of global memory, LDS and scratch.
    Flat,
    /// Global memory.
    Global,
    /// Memory of ordered counters.
    Gds,
    /// Memory of a workgroup. Passes cast its addresses to flat ones.
    Lds,
    /// Global memory that the kernel does not write.
    Constant,
    /// Private memory of a work-item.
    Scratch,
    /// A number that is not known.
    Other(u8),
}

impl AddressSpace {
    /// By its number.
    pub const fn of(number: u8) -> AddressSpace {
        match number {
            0 => AddressSpace::Flat,
            1 => AddressSpace::Global,
            2 => AddressSpace::Gds,
            3 => AddressSpace::Lds,
            4 => AddressSpace::Constant,
            5 => AddressSpace::Scratch,
            other => AddressSpace::Other(other),
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        match self {
            AddressSpace::Flat => 0,
            AddressSpace::Global => 1,
            AddressSpace::Gds => 2,
            AddressSpace::Lds => 3,
            AddressSpace::Constant => 4,
            AddressSpace::Scratch => 5,
            AddressSpace::Other(other) => other,
        }
    }
}

/// The processor that a message comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arch(pub u8);

impl Arch {
    /// Its name; `None` for a number that is not known.
    pub fn name(self) -> Option<&'static str> {
        amdgpu_processor::Target::of_message(self.0).map(|target| target.name)
    }
}

/// A lane's work-item in its workgroup, each number cut to 10 bits. Source: dh_comms' `lane_header_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread(pub [u16; 3]);

impl Thread {
    /// By the number before the data.
    pub const fn of(number: u32) -> Thread {
        Thread([number as u16 & 0x3ff, (number >> 10) as u16 & 0x3ff, (number >> 20) as u16 & 0x3ff])
    }

    /// The number before the data.
    pub const fn number(self) -> u32 {
        let [x, y, z] = self.0;
        (x as u32 & 0x3ff) | (y as u32 & 0x3ff) << 10 | (z as u32 & 0x3ff) << 20
    }
}

const VECTOR: u64 = 1 << 62;
const LANE_HEADERS: u64 = 1 << 63;

/// The bytes of a field.
fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

impl Header {
    /// Of the bytes that a message begins with.
    #[inline]
    pub fn of(bytes: &[u8; HEADER_BYTES]) -> Header {
        let u64_at = |at| u64::from_le_bytes(field(bytes, at));
        let u32_at = |at| u32::from_le_bytes(field(bytes, at));
        let u16_at = |at| u16::from_le_bytes(field(bytes, at));
        let (size, place) = (u64_at(8), u16_at(54));
        Header {
            exec: u64_at(0),
            data_bytes: size & (VECTOR - 1),
            is_vector: size & VECTOR != 0,
            has_lane_headers: size & LANE_HEADERS != 0,
            timestamp: u64_at(16),
            file: u64_at(24),
            line: u32_at(32),
            column: u32_at(36),
            kind: Kind::of(u32_at(40)),
            user_data: u32_at(44),
            block: [u16_at(48), u16_at(50), u16_at(52)],
            wave: (place & 0xf) as u8,
            xcc: (place >> 4 & 0xf) as u8,
            se: (place >> 8 & 7) as u8,
            cu: (place >> 11 & 0xf) as u8,
            lanes: u8::from_le_bytes(field(bytes, 56)),
            arch: Arch(u8::from_le_bytes(field(bytes, 57))),
        }
    }

    /// The bytes that a message with this header begins with.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let size =
            self.data_bytes & (VECTOR - 1) | bit(self.is_vector, VECTOR) | bit(self.has_lane_headers, LANE_HEADERS);
        let place = u16::from(self.wave & 0xf)
            | u16::from(self.xcc & 0xf) << 4
            | u16::from(self.se & 7) << 8
            | u16::from(self.cu & 0xf) << 11;
        let [x, y, z] = self.block.map(u16::to_le_bytes);
        let fields: [&[u8]; 13] = [
            &self.exec.to_le_bytes(),
            &size.to_le_bytes(),
            &self.timestamp.to_le_bytes(),
            &self.file.to_le_bytes(),
            &self.line.to_le_bytes(),
            &self.column.to_le_bytes(),
            &self.kind.number().to_le_bytes(),
            &self.user_data.to_le_bytes(),
            &x,
            &y,
            &z,
            &place.to_le_bytes(),
            &[self.lanes, self.arch.0],
        ];
        let mut bytes = [0; HEADER_BYTES];
        bytes.iter_mut().zip(fields.iter().copied().flatten()).for_each(|(to, byte)| *to = *byte);
        bytes
    }

    /// What an address message is about.
    #[inline]
    pub fn access(&self) -> Access {
        Access::of(self.user_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_device_code_writes_them() {
        let mut bytes: [u8; 64] = std::array::from_fn(|n| n as u8);
        bytes[15] = 0x40;
        let header = Header::of(&bytes);
        assert_eq!(header.exec, 0x0706_0504_0302_0100);
        assert_eq!(
            (header.data_bytes, header.is_vector, header.has_lane_headers),
            (0x000e_0d0c_0b0a_0908, true, false)
        );
        assert_eq!((header.timestamp, header.file), (0x1716_1514_1312_1110, 0x1f1e_1d1c_1b1a_1918));
        assert_eq!((header.line, header.column), (0x2322_2120, 0x2726_2524));
        assert_eq!((header.kind, header.user_data), (Kind::User(0x2b2a_2928), 0x2f2e_2d2c));
        assert_eq!(header.block, [0x3130, 0x3332, 0x3534]);
        // 0x3736
        assert_eq!((header.wave, header.xcc, header.se, header.cu), (6, 3, 7, 6));
        assert_eq!((header.lanes, header.arch), (0x38, Arch(0x39)));
    }

    #[test]
    fn headers_of_c_have_the_numbers_and_the_processors_of_the_table() {
        use amdgpu_processor::Messages;
        let mut macros = String::from("#if ");
        let (mut numbered, mut unnumbered) = (Vec::new(), String::new());
        for target in amdgpu_processor::targets() {
            let name = target.name;
            match target.messages {
                Messages::No => {}
                Messages::Unnumbered => unnumbered += &format!("defined(__{name}__) || "),
                Messages::Number(number) => numbered.push((number, name)),
            }
        }
        numbered.sort_unstable();
        for (number, name) in &numbered {
            assert_eq!(Arch(*number).name(), Some(*name));
            macros += &format!("defined(__{name}__)\n#define LOGDUR_ARCH {number}\n#elif ");
        }
        macros += &format!("{unnumbered}!defined(__HIP_DEVICE_COMPILE__)\n");
        let device = include_str!("../../include/logdur_device.h");
        assert!(device.contains(&macros), "instrument/include/logdur_device.h: expected\n{macros}");
        let error = device.lines().find(|line| line.starts_with("#error \"logdur_device.h supports")).unwrap();
        let ends = [numbered.first(), numbered.last()].map(|row| row.unwrap().1);
        assert!(ends.iter().all(|name| error.contains(name)), "{error}");
        // The comment of the field in what handlers include.
        let comment: Vec<String> = numbered.iter().map(|(number, name)| format!("{number} {name}")).collect();
        let comment = format!("/* {} */", comment.join(", "));
        assert!(
            include_str!("../../include/logdur_handler.h").contains(&comment),
            "instrument/include/logdur_handler.h: {comment}"
        );
    }

    #[test]
    fn accesses_kinds_and_threads_are_their_numbers() {
        let access = Access { reads: false, writes: true, space: AddressSpace::Lds, bytes: 16 };
        assert_eq!(access.number(), 2 | 3 << 2 | 16 << 6);
        assert_eq!(Access::of(access.number()), access);
        assert!([0, 1, 2, 3, u32::MAX].iter().all(|&number| Kind::of(number).number() == number));
        assert_eq!(Thread::of(1 | 2 << 10 | 3 << 20), Thread([1, 2, 3]));
        assert_eq!(Thread([1, 2, 3]).number(), 1 | 2 << 10 | 3 << 20);
    }
}
