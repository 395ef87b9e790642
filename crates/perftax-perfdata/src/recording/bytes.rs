//! Numbers and strings out of bytes, in the byte order of the machine that recorded. Out of range is None, never a panic.

/// Byte order of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// x86, ARM, RISC-V, POWER LE.
    #[default]
    Little,
    /// s390, POWER BE.
    Big,
}

impl Order {
    /// Of this machine.
    pub fn native() -> Self {
        if cfg!(target_endian = "big") { Self::Big } else { Self::Little }
    }

    /// The 16-bit number at an offset.
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk::<2>()?;
        Some(if self == Self::Little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    /// The 32-bit number at an offset.
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self == Self::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    /// The 64-bit number at an offset.
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self == Self::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }

    /// A word of single-bit C bitfields, with the first declared bit as bit 0: big-endian compilers put it at the top.
    pub fn bitfields(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = self.u64(bytes, at)?;
        Some(if self == Self::Little { word } else { word.reverse_bits() })
    }
}

/// Text up to the first NUL, or all of it.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads one after the other.
pub struct Cursor<'a> {
    order: Order,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// From the start of `bytes`.
    pub fn new(order: Order, bytes: &'a [u8]) -> Self {
        Self { order, rest: bytes }
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// The next 32-bit number.
    pub fn u32(&mut self) -> Option<u32> {
        let order = self.order;
        self.take(4).and_then(|b| order.u32(b, 0))
    }

    /// The next 64-bit number.
    pub fn u64(&mut self) -> Option<u64> {
        let order = self.order;
        self.take(8).and_then(|b| order.u64(b, 0))
    }

    /// The next text, up to its NUL.
    pub fn c_string(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        self.take(end + 1).map(text)
    }

    /// The next string of a header feature: a length, and so many bytes with NULs at the end.
    pub fn string(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        self.take(length).map(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_the_ends() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Order::Little.u16(&bytes, 6), Some(0x0807));
        assert_eq!(Order::Big.u32(&bytes, 0), Some(0x0102_0304));
        assert_eq!(Order::Little.u64(&bytes, 1), None);
        assert_eq!(Order::Big.bitfields(&[0x80, 0, 0, 0, 0, 0, 0, 1], 0), Some(1 | 1 << 63));
        assert_eq!(Order::Little.u64(&bytes, usize::MAX), None);
    }

    #[test]
    fn strings_stop_at_nul_and_never_leave_the_section() {
        let mut cursor = Cursor::new(Order::Little, b"\x08\0\0\0vm\0\0\0\0\0\0\xff\xff\xff\xffx");
        assert_eq!(cursor.string().as_deref(), Some("vm"));
        assert_eq!(cursor.string(), None);
    }
}
