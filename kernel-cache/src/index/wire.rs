//! Values as bytes: numbers in as few bytes as they need, texts with their length before them.

/// Appends values.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// Seven bits a byte, the lowest first; the eighth says that there are more.
    pub(super) fn number(&mut self, value: impl Into<u64>) {
        let mut value = value.into();
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.number(u8::from(value));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        texts.iter().for_each(|text| self.text(text));
    }

    pub(super) fn shape(&mut self, shape: Option<[u32; 3]>) {
        self.flag(shape.is_some());
        shape.into_iter().flatten().for_each(|n| self.number(n));
    }
}

/// Takes values from the front. `None` is damage: a value that is not there or not possible.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The last byte has room for one bit.
            if bits > u64::MAX >> shift {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return T::try_from(value).ok();
            }
        }
        None
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.number::<u8>()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.number::<usize>()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// As many as are said to be there; no memory is taken for those that are not.
    pub(super) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number::<usize>()?;
        let mut list = Vec::with_capacity(count.min(self.0.len()));
        for _ in 0..count {
            list.push(one(self)?);
        }
        Some(list)
    }

    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        self.list(|r| r.text().map(str::to_owned))
    }

    pub(super) fn shape(&mut self) -> Option<Option<[u32; 3]>> {
        if !self.flag()? {
            return Some(None);
        }
        Some(Some([self.number()?, self.number()?, self.number()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_nothing_else() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut writer = Writer::default();
        numbers.iter().for_each(|&n| writer.number(n));
        writer.texts(&["_Z3addPf".to_owned(), String::new()]);
        writer.shape(Some([64, 2, 1]));
        writer.shape(None);
        writer.flag(true);
        let mut reader = Reader(&writer.0);
        assert!(numbers.iter().all(|&n| reader.number() == Some(n)));
        assert_eq!(reader.texts(), Some(vec!["_Z3addPf".to_owned(), String::new()]));
        assert_eq!((reader.shape(), reader.shape(), reader.flag()), (Some(Some([64, 2, 1])), Some(None), Some(true)));
        assert_eq!((reader.number::<u64>(), reader.0.len()), (None, 0));
    }

    #[test]
    fn what_is_cut_off_or_too_large_is_damage() {
        assert_eq!(Reader(&[0x80]).number::<u64>(), None);
        assert_eq!(Reader(&[0x80, 2]).number::<u8>(), None);
        assert_eq!(Reader(&[0xff; 12]).number::<u64>(), None);
        let near = |last| [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last];
        assert_eq!(Reader(&near(1)).number::<u64>(), Some(u64::MAX));
        assert_eq!([2, 3, 0x7f].map(|last| Reader(&near(last)).number::<u64>()), [None; 3], "past 2^64");
        assert_eq!(Reader(&[4, b'a', b'b']).text(), None);
        assert_eq!(Reader(&[2, 0xff, 0xfe]).text(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).texts(), None);
        assert_eq!(Reader(&[2]).flag(), None);
    }
}
