//! How contents are compressed.

use crate::frame::{Codec, HEAD, is_believed};

/// Less than this is not worth decoding: 1 part in 10.
pub(crate) const WORTH: usize = 10;

/// How contents are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// As they are.
    None,
    /// By LZ4 where the first chunk of a pack says that it saves a tenth.
    #[default]
    Auto,
    /// By LZ4 where the whole pack becomes smaller.
    Lz4,
    /// By zstd where the whole pack becomes smaller: smaller files than LZ4's, and slower.
    Zstd,
}

/// Compresses a chunk alone, behind the room for a head, if that is worth it.
pub(crate) fn compressed(bytes: &[u8], compress: Compress, packed: &mut Vec<u8>) -> Codec {
    let (codec, length) = match compress {
        Compress::None => return Codec::Raw,
        Compress::Auto | Compress::Lz4 => (Codec::Lz4, lz4(bytes, packed)),
        Compress::Zstd => (Codec::Zstd, Some(zstd(bytes, packed))),
    };
    let most =
        if compress == Compress::Auto { bytes.len() - bytes.len() / WORTH } else { bytes.len().saturating_sub(1) };
    match length.filter(|n| *n <= most && is_believed(bytes.len() as u64, *n as u64)) {
        Some(length) => {
            packed.truncate(HEAD + length);
            codec
        }
        None => Codec::Raw,
    }
}

/// Packs bytes behind the room for a head; how many they are then.
pub(crate) fn lz4(bytes: &[u8], to: &mut Vec<u8>) -> Option<usize> {
    to.resize(HEAD + lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
    lz4_flex::block::compress_into(bytes, to.get_mut(HEAD..)?).ok()
}

/// The same as one frame of zstd.
pub(crate) fn zstd(bytes: &[u8], to: &mut Vec<u8>) -> usize {
    to.truncate(HEAD);
    to.resize(HEAD, 0);
    ruzstd::encoding::compress(bytes, &mut *to, ruzstd::encoding::CompressionLevel::Fastest);
    to.len() - HEAD
}
