//! Messages of chosen workgroups. They are chosen here, so that it works for clones of any pass.
//!
//! # Threads
//! The drain thread.

use logdur_messages::Messages;
use logdur_settings::Workgroups;

/// The messages of chosen workgroups.
#[derive(Default)]
pub(super) struct Chosen {
    words: Vec<u64>,
    /// Bytes of the words that are of messages.
    pub(super) bytes: usize,
    /// Messages of chosen workgroups.
    pub(super) messages: u64,
    /// Messages of the others.
    pub(super) others: u64,
}

impl Chosen {
    /// Copies the messages of chosen workgroups out of whole messages.
    pub(super) fn choose(&mut self, from: &[u8], wanted: &Workgroups) {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        *self = Chosen { words, ..Chosen::default() };
        let (mut messages, mut rest) = (Messages::new(from), from);
        let mut half = None;
        while let Some(Ok(message)) = messages.next() {
            let (of_message, behind) = rest.split_at(rest.len() - messages.left());
            rest = behind;
            if !wanted.has(message.header.block) {
                self.others += 1;
                continue;
            }
            self.messages += 1;
            self.bytes += of_message.len();
            // Messages are whole dwords, and a batch begins at a multiple of eight bytes.
            for dword in of_message.as_chunks::<4>().0 {
                let dword = u64::from(u32::from_le_bytes(*dword));
                match half.take() {
                    None => half = Some(dword),
                    Some(low) => self.words.push(low | dword << 32),
                }
            }
        }
        self.words.extend(half);
    }

    /// The words of the messages.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logdur_messages::{Header, Kind, check};
    use logdur_settings::Value;

    #[test]
    fn messages_of_chosen_workgroups_are_as_they_came() {
        let message = |block: [u16; 3], dwords: u64| {
            let header = Header { kind: Kind::User(9), block, data_bytes: 4 * dwords, ..Header::default() };
            [header.to_bytes().to_vec(), (0..4 * dwords).map(|n| n as u8).collect()].concat()
        };
        let all = [message([0, 0, 0], 1), message([2, 0, 0], 3), message([3, 1, 0], 1), message([5, 0, 1], 2)];
        let wanted = |text: &str| Workgroups::parse(text.as_ref()).unwrap();
        let mut chosen = Chosen::default();
        for (text, numbers) in
            [("2:5", &[1, 2][..]), ("0", &[0]), (",1", &[2]), (",,1", &[3]), ("2:6,0", &[1, 3]), ("9", &[])]
        {
            chosen.choose(&all.concat(), &wanted(text));
            let expected = numbers.iter().map(|&n| all[n].clone()).collect::<Vec<_>>().concat();
            let bytes: Vec<u8> = chosen.words().iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(bytes[..chosen.bytes], expected, "{text}");
            assert_eq!((chosen.messages, chosen.others), (numbers.len() as u64, 4 - numbers.len() as u64), "{text}");
            assert_eq!(check(&bytes[..chosen.bytes]).messages, chosen.messages, "{text}");
        }
    }
}
