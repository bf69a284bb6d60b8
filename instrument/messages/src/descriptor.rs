//! The descriptor that a kernel sends messages with: the structure behind its additional argument.

/// What the additional argument of an instrumented kernel points to: where its sub-buffers are. Addresses are the GPU's.
///
/// Source: dh_comms' `dh_comms_descriptor`, which has no version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// How many sub-buffers there are. A wave uses the one with the number of its flattened workgroup, modulo this.
    pub sub_buffers: u64,
    /// Bytes of a sub-buffer.
    pub capacity: u64,
    /// The sub-buffers, one behind the other. Host memory that both sides see coherently.
    pub data: u64,
    /// For each sub-buffer a `u64`: its bytes that are used. Host memory that both sides see coherently.
    pub sizes: u64,
    /// A `u32`; a kernel sets bit 0 when it drops a message that is larger than a sub-buffer.
    pub errors: u64,
    /// For each sub-buffer a byte: the lock that waves take. Only the GPU uses it; zero at first.
    pub locks: u64,
    /// For each sub-buffer a byte: 1 while a wave waits for the host to empty the sub-buffer.
    pub full: u64,
}

impl Descriptor {
    /// Bytes of the structure.
    pub const BYTES: usize = 56;

    /// The structure as the GPU reads it.
    pub fn to_bytes(&self) -> [u8; Descriptor::BYTES] {
        let fields = [self.sub_buffers, self.capacity, self.data, self.sizes, self.errors, self.locks, self.full];
        let mut bytes = [0; Descriptor::BYTES];
        for (to, field) in bytes.chunks_exact_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_eight_bytes_each_in_the_order_of_the_device_header() {
        let descriptor =
            Descriptor { sub_buffers: 1, capacity: 2, data: 3, sizes: 4, errors: 5, locks: 6, full: 0x0102 };
        let bytes = descriptor.to_bytes();
        let at = |n: usize| bytes[n];
        assert_eq!([0, 8, 16, 24, 32, 40, 48].map(at), [1, 2, 3, 4, 5, 6, 2]);
        assert_eq!(bytes[49], 1);
    }
}
