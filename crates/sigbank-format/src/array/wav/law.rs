//! The two codes of ITU-T G.711: 16-bit samples as 8 bits, a sign, the exponent of a step and a place between two steps.

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) enum Law {
    A,
    Mu,
}

impl Law {
    /// The sample that a code stands for, on the full scale of 16 bits.
    pub(in crate::array) fn decode(self, code: u8) -> i16 {
        // Codes are stored with bits turned over, so that silence has many changes of level on a line.
        let code = code ^ if self == Self::A { 0x55 } else { 0xff };
        let (exponent, step) = (code >> 4 & 7, i16::from(code & 0xf));
        let size = match (self, exponent) {
            (Self::A, 0) => step * 16 + 8,
            (Self::A, exponent) => (step * 16 + 264) << (exponent - 1),
            // Every step is counted from 33/4 of the finest one, and that is taken off again.
            (Self::Mu, exponent) => ((step * 8 + 132) << exponent) - 132,
        };
        // A set sign bit means positive in A-law, negative in mu-law.
        if (code & 0x80 != 0) == (self == Self::A) { size } else { -size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_recommendation() {
        assert_eq!([0xd5, 0x55, 0xaa, 0x2a, 0x80].map(|code| Law::A.decode(code)), [8, -8, 32256, -32256, 5504]);
        assert_eq!([0xff, 0x7f, 0x80, 0x00, 0xf0].map(|code| Law::Mu.decode(code)), [0, 0, 32124, -32124, 120]);
        // Both grow from code to code, away from zero, on either side.
        for (law, mask) in [(Law::A, 0x55), (Law::Mu, 0xff)] {
            let sizes: Vec<i16> = (0..128).map(|code| law.decode(code ^ mask).abs()).collect();
            assert!(sizes.is_sorted_by(|a, b| a < b), "{law:?}");
            assert!((0..128).all(|code: u8| law.decode(code ^ mask) == -law.decode((code | 0x80) ^ mask)), "{law:?}");
        }
    }
}
