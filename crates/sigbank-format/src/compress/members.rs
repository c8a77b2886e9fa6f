//! What gzip, bzip2, xz and zstd have in common: a stream of members, each of which must end, and nothing after them.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::error::{FormatError, FormatErrorKind, Result};

/// What one call of [`Codec::step`] did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    /// Bytes taken from the input.
    pub(super) consumed: usize,
    /// Bytes put into the output.
    pub(super) written: usize,
    /// Whether the member has ended, its checksum found right.
    pub(super) ended: bool,
}

/// A raw decoder of one member.
pub(super) trait Codec: Send {
    /// How many bytes [`Codec::starts`] looks at (4 at most).
    const HEAD: usize;
    /// Zero bytes may follow a member in multiples of this; 0 where they may not.
    const PADDING: usize;
    /// Whether a member begins so.
    fn starts(head: &[u8]) -> bool;
    /// Makes ready for the next member.
    fn restart(&mut self) -> Result<()>;
    /// Decodes some of `input` into `output`.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step>;
}

enum State {
    Between,
    Inside,
    Done,
    Failed(FormatError),
}

/// A reader of members one after another.
pub(super) struct Members<R, C> {
    word: &'static str,
    source: R,
    codec: C,
    state: State,
    members: u64,
    /// The first bytes of a member, taken from the source to look at, given to the codec first.
    head: [u8; 4],
    head_at: usize,
    head_len: usize,
}

impl<R: BufRead, C: Codec> Members<R, C> {
    pub(super) fn new(word: &'static str, source: R, codec: C) -> Self {
        Self { word, source, codec, state: State::Between, members: 0, head: [0; 4], head_at: 0, head_len: 0 }
    }

    /// Looks for the next member. `false`: the source has ended where it may.
    fn begin(&mut self) -> io::Result<bool> {
        let mut padding = 0;
        self.head_at = 0;
        self.head_len = 0;
        while self.head_len < C::HEAD {
            let Some(byte) = next_byte(&mut self.source)? else { break };
            if self.head_len == 0 && byte == 0 && C::PADDING > 0 && self.members > 0 {
                padding += 1;
                continue;
            }
            if let Some(slot) = self.head.get_mut(self.head_len) {
                *slot = byte;
            }
            self.head_len += 1;
        }
        let bad_padding = C::PADDING > 0 && padding % C::PADDING != 0;
        let head = self.head.get(..self.head_len).unwrap_or_default();
        if head.is_empty() && self.members > 0 && !bad_padding {
            return Ok(false);
        }
        if head.len() == C::HEAD && C::starts(head) && !bad_padding {
            if self.members > 0 {
                self.codec.restart()?;
            }
            return Ok(true);
        }
        Err(io::Error::from(FormatError::corrupt(match (self.members, head.len()) {
            (0, n) if n < C::HEAD => format!("{}: {n} bytes are too few to hold compressed data", self.word),
            (0, _) => format!("{}: the data begin with {head:02x?}, as nothing of this compression does", self.word),
            (n, _) if bad_padding => format!("{}: {padding} zero bytes after {n} complete member(s)", self.word),
            (n, _) => format!("{}: bytes left over after {n} complete member(s): {head:02x?}", self.word),
        })))
    }

    fn advance(&mut self, output: &mut [u8]) -> io::Result<usize> {
        loop {
            match &self.state {
                State::Done => return Ok(0),
                State::Failed(e) => return Err(e.clone().into()),
                State::Between => self.state = if self.begin()? { State::Inside } else { State::Done },
                State::Inside => {
                    let from_head = self.head_at < self.head_len;
                    let input = match from_head {
                        true => self.head.get(self.head_at..self.head_len).unwrap_or_default(),
                        false => fill(&mut self.source)?,
                    };
                    let ended_input = input.is_empty();
                    let step = self.codec.step(input, output).map_err(|e| e.within(self.word))?;
                    match from_head {
                        true => self.head_at += step.consumed,
                        false => self.source.consume(step.consumed),
                    }
                    if step.ended {
                        self.state = State::Between;
                        self.members += 1;
                    }
                    if step.written > 0 {
                        return Ok(step.written);
                    }
                    if ended_input && !step.ended {
                        let text = format!("{}: the data end inside member {}: they were cut short", self.word, self.members + 1);
                        return Err(io::Error::new(ErrorKind::UnexpectedEof, FormatError::corrupt(text)));
                    }
                    if step.consumed == 0 && !step.ended {
                        return Err(FormatError::corrupt(format!("{}: the decoder makes no progress", self.word)).into());
                    }
                }
            }
        }
    }
}

impl<R: BufRead, C: Codec> Read for Members<R, C> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        let result = self.advance(output);
        if let Err(e) = &result
            && let Some(own) = e.get_ref().and_then(|e| e.downcast_ref::<FormatError>())
            && own.kind() != FormatErrorKind::Io
        {
            self.state = State::Failed(own.clone());
        }
        result
    }
}

/// What the source has ready; empty only at its end.
pub(super) fn fill(source: &mut impl BufRead) -> io::Result<&[u8]> {
    // Asked twice because of the borrow; the second time costs nothing.
    while let Err(e) = source.fill_buf() {
        if e.kind() != ErrorKind::Interrupted {
            return Err(e);
        }
    }
    source.fill_buf()
}

fn next_byte(source: &mut impl BufRead) -> io::Result<Option<u8>> {
    let byte = fill(source)?.first().copied();
    source.consume(usize::from(byte.is_some()));
    Ok(byte)
}
