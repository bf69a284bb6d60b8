//! How fast one core takes messages out of sub-buffers: copied, checked, and each address of each lane looked at.

use std::hint::black_box;
use std::time::Instant;

use logdur_messages::{Access, AddressSpace, Header, Kind, Messages, check};

/// Bytes of a sub-buffer.
const CAPACITY: usize = 32 << 10;
const SUB_BUFFERS: usize = 256;
const ROUNDS: usize = 40;

/// A sub-buffer of messages with 64 addresses each, with lane headers.
fn full() -> Vec<u8> {
    let access = Access { reads: true, writes: false, space: AddressSpace::Global, bytes: 4 };
    let header = Header {
        exec: u64::MAX,
        lanes: 64,
        is_vector: true,
        has_lane_headers: true,
        data_bytes: 64 * 12,
        kind: Kind::Address,
        user_data: access.number(),
        ..Header::default()
    };
    let mut bytes = Vec::new();
    for n in 0.. {
        if bytes.len() + 64 + 64 * 12 > CAPACITY {
            break;
        }
        bytes.extend(header.to_bytes());
        bytes.extend((0..64_u32).flat_map(u32::to_le_bytes));
        bytes.extend((0..64_u32).flat_map(|lane| (n * 256 + 4 * lane).to_le_bytes()));
        bytes.extend([0x7f12_u32; 64].iter().flat_map(|high| high.to_le_bytes()));
    }
    bytes
}

fn main() {
    let buffers = vec![full(); SUB_BUFFERS];
    let (mut copy, mut messages, mut sum) = (Vec::new(), 0, 0_u64);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for buffer in &buffers {
            copy.clear();
            copy.extend_from_slice(buffer);
            messages += check(&copy).messages;
            for message in Messages::new(&copy).flatten() {
                sum = message.addresses().fold(sum, u64::wrapping_add);
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    black_box(sum);
    let millions = |count: f64| count / seconds / 1e6;
    println!("from sub-buffers of {CAPACITY} bytes to a handler, on one core:");
    println!("  {:8.1} million messages a second", millions(messages as f64));
    println!("  {:8.1} million lane addresses a second", millions(messages as f64 * 64.0));
}
