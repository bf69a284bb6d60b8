//! Messages of every kind, at random, and what is left of them when bytes are changed.

use logdur_messages::{Arch, Corrupt, Header, Kind, Malformed, Messages, Thread, check};
use proptest::prelude::*;

/// A message as a wave has it before it is written.
#[derive(Clone, Debug)]
struct Sent {
    header: Header,
    threads: Vec<Thread>,
    /// The dwords of each item.
    items: Vec<Vec<u32>>,
}

impl Sent {
    /// As device code writes it: one dword of each item after the other.
    fn write(&self, to: &mut Vec<u8>) {
        let dwords = self.items.first().map_or(0, Vec::len);
        let data = 4 * (self.threads.len() + dwords * self.items.len());
        to.extend(Header { data_bytes: data as u64, ..self.header }.to_bytes());
        to.extend(self.threads.iter().flat_map(|thread| thread.number().to_le_bytes()));
        for dword in 0..dwords {
            to.extend(self.items.iter().flat_map(|item| item[dword].to_le_bytes()));
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let kinds = prop_oneof![
        Just((Kind::Address, true, 2)),
        Just((Kind::TimeInterval, false, 4)),
        Just((Kind::BlockStart, false, 0)),
        (3_u32.., any::<bool>(), 0_usize..6).prop_map(|(n, vector, dwords)| (Kind::of(n), vector, dwords)),
    ];
    let lanes = prop_oneof![Just(u64::MAX), Just(1), any::<u64>().prop_filter("a wave has lanes", |exec| *exec != 0)];
    (kinds, lanes, any::<bool>(), any::<[u64; 4]>()).prop_flat_map(|((kind, is_vector, dwords), exec, has, some)| {
        let active = exec.count_ones() as usize;
        let items = if is_vector { active } else { 1 };
        let data = prop::collection::vec(prop::collection::vec(any::<u32>(), dwords), items);
        let threads = prop::collection::vec((0..1024_u16, 0..1024_u16, 0..1024_u16), if has { active } else { 0 });
        (data, threads).prop_map(move |(items, threads)| Sent {
            header: Header {
                exec,
                data_bytes: 0,
                is_vector,
                has_lane_headers: has,
                timestamp: some[0],
                file: some[1],
                line: some[2] as u32,
                column: (some[2] >> 32) as u32,
                kind,
                user_data: some[3] as u32,
                block: [some[3] as u16, (some[3] >> 16) as u16, (some[3] >> 32) as u16],
                wave: (some[3] >> 48 & 0xf) as u8,
                xcc: (some[3] >> 52 & 0xf) as u8,
                se: (some[3] >> 56 & 7) as u8,
                cu: (some[3] >> 59 & 0xf) as u8,
                lanes: active as u8,
                arch: Arch(3),
            },
            threads: threads.into_iter().map(|(x, y, z)| Thread([x, y, z])).collect(),
            items,
        })
    })
}

proptest! {
    #[test]
    fn what_waves_send_is_read(all in prop::collection::vec(sent(), 0..5)) {
        let mut bytes = Vec::new();
        all.iter().for_each(|sent| sent.write(&mut bytes));
        let read: Vec<_> = Messages::new(&bytes).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), all.len());
        for (message, sent) in read.iter().zip(&all) {
            let data_bytes = message.header.data_bytes;
            prop_assert_eq!(message.header, Header { data_bytes, ..sent.header });
            prop_assert_eq!(&message.threads().collect::<Vec<_>>(), &sent.threads);
            let lanes = (0..64).filter(|lane| sent.header.exec >> lane & 1 != 0);
            prop_assert!(message.lanes().eq(lanes));
            prop_assert_eq!(message.items(), sent.items.len());
            for (n, item) in sent.items.iter().enumerate() {
                prop_assert!(message.item(n).eq(item.iter().copied()));
                prop_assert_eq!(message.item_bytes(), 4 * item.len());
            }
            prop_assert_eq!(message.item(message.items()).count(), 0);
            let addresses = sent.items.iter().map(|item| u64::from(item[1]) << 32 | u64::from(item[0]));
            match sent.header.kind {
                Kind::Address => prop_assert!(message.addresses().eq(addresses)),
                Kind::TimeInterval => prop_assert!(message.interval().is_some()),
                _ => prop_assert_eq!(message.addresses().len(), 0),
            }
        }
        let checked = check(&bytes);
        prop_assert_eq!((checked.messages, checked.bytes, checked.corrupt), (all.len() as u64, bytes.len(), None));
    }

    #[test]
    fn a_buffer_that_is_cut_has_the_messages_before_the_cut(all in prop::collection::vec(sent(), 1..5), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        let ends: Vec<usize> = all.iter().map(|sent| { sent.write(&mut bytes); bytes.len() }).collect();
        let cut = cut.index(bytes.len());
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let checked = check(&bytes[..cut]);
        let end = whole.checked_sub(1).map_or(0, |last| ends[last]);
        prop_assert_eq!((checked.messages, checked.bytes), (whole as u64, end));
        prop_assert_eq!(checked.corrupt.map(|corrupt| corrupt.offset), (end < cut).then_some(end));
    }

    #[test]
    fn any_bytes_are_read_to_the_first_error(mut all in prop::collection::vec(sent(), 1..3), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        all.truncate(2);
        let mut bytes = Vec::new();
        all.iter().for_each(|sent| sent.write(&mut bytes));
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        let mut read = 0;
        for message in Messages::new(&bytes) {
            match message {
                Ok(message) => {
                    read += 64 + message.header.data_bytes as usize;
                    prop_assert!((0..message.items()).map(|n| message.item(n).count()).sum::<usize>() * 4 <= bytes.len());
                }
                Err(Corrupt { offset, bytes: of, .. }) => prop_assert_eq!((offset, of), (read, bytes.len())),
            }
        }
        prop_assert_eq!(check(&bytes).bytes, read);
    }
}

fn found(header: Header, data: usize) -> Option<Malformed> {
    let bytes: Vec<u8> = header.to_bytes().into_iter().chain(std::iter::repeat_n(0, data)).collect();
    check(&bytes).corrupt.map(|corrupt| corrupt.found)
}

#[test]
fn what_is_wrong_with_a_header_is_named() {
    let right = Header { exec: 7, lanes: 3, is_vector: true, kind: Kind::Address, data_bytes: 24, ..Header::default() };
    assert_eq!(found(right, 24), None);
    assert_eq!(found(right, 20), Some(Malformed::Size { left: 20, size: 24 }));
    assert_eq!(
        found(Header { data_bytes: u64::MAX >> 2, ..right }, 24),
        Some(Malformed::Size { left: 24, size: u64::MAX >> 2 })
    );
    assert_eq!(found(Header { data_bytes: 22, ..right }, 22), Some(Malformed::Unaligned { size: 22 }));
    assert_eq!(found(Header { lanes: 4, ..right }, 24), Some(Malformed::Lanes { mask: 3, count: 4 }));
    assert_eq!(found(Header { data_bytes: 20, ..right }, 20), Some(Malformed::Parts { lanes: 3, size: 20 }));
    assert_eq!(found(Header { data_bytes: 12, ..right }, 12), Some(Malformed::Address { items: 3, size: 4 }));
    assert_eq!(found(Header { exec: 0, lanes: 0, ..right }, 24), Some(Malformed::Parts { lanes: 0, size: 24 }));
    assert_eq!(found(right, 24 + 5), Some(Malformed::Header { left: 5 }));
    let text = check(&right.to_bytes()).corrupt.unwrap().to_string();
    assert_eq!(text, "at byte 0 of 64: expected at most 0 bytes of data, found a size of 24");
}
