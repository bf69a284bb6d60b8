//! Buffers as files of NumPy. Source: "NumPy format", `numpy.lib.format`, version 1.0.

use crate::verify::Type;

/// What the header's length is made a multiple of, magic and all.
const ALIGN: usize = 64;
/// Magic, version 1.0.
const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The header of a file with so many elements, one dimension; `None` for types that NumPy has not.
pub(crate) fn header(element_type: Type, elements: u64) -> Option<Vec<u8>> {
    let letter = match element_type {
        Type::Int(bytes) => format!("i{bytes}"),
        Type::Unsigned(bytes) => format!("u{bytes}"),
        Type::F16 => "f2".to_owned(),
        Type::F32 => "f4".to_owned(),
        Type::F64 => "f8".to_owned(),
        Type::Bf16 | Type::Bits(_) => return None,
    };
    let mut text = format!("{{'descr': '<{letter}', 'fortran_order': False, 'shape': ({elements},), }}");
    let fixed = MAGIC.len() + 2;
    let padded = (fixed + text.len() + 1).next_multiple_of(ALIGN) - fixed;
    text.extend(std::iter::repeat_n(' ', padded - 1 - text.len()));
    text.push('\n');
    let length = u16::try_from(padded).ok()?;
    Some([MAGIC, &length.to_le_bytes(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_aligned_and_says_type_and_shape() {
        let header = header(Type::F32, 1000).unwrap();
        assert_eq!((header.len() % 64, header.last()), (0, Some(&b'\n')));
        let text = String::from_utf8_lossy(&header[10..]).into_owned();
        assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }"), "{text}");
        assert_eq!(super::header(Type::Bf16, 1), None);
    }
}
