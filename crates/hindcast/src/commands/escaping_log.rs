//! The log on standard error, in which nobody but us makes lines.

use std::io::{self, Write};

use hindcast_core::printable::acts_on_terminals;
use tracing_subscriber::fmt::MakeWriter;

/// Standard error for a log whose lines are written one at a time: what is in a line cannot begin another.
#[derive(Clone, Copy)]
pub(super) struct EscapingLog {
    /// Whether lines are coloured. The library that colours them escapes the escapes of others.
    pub(super) coloured: bool,
}

pub(super) struct Lines<W> {
    out: W,
    coloured: bool,
}

impl<'a> MakeWriter<'a> for EscapingLog {
    type Writer = Lines<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines { out: io::stderr(), coloured: self.coloured }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        let mut shown = String::with_capacity(text.len() + 1);
        for letter in text.chars() {
            match letter {
                '\u{1b}' if self.coloured => shown.push(letter),
                letter if acts_on_terminals(letter) => shown.extend(letter.escape_default()),
                letter => shown.push(letter),
            }
        }
        shown.push_str(end);
        self.out.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_forge_a_line_or_command_the_terminal() {
        let logged = |coloured| {
            let mut out = Vec::new();
            Lines { out: &mut out, coloured }
                .write_all(b"WARN name=a\n2030 INFO all is well\x1b[2J\n")
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(logged(false), "WARN name=a\\n2030 INFO all is well\\u{1b}[2J\n");
        assert_eq!(logged(true).lines().count(), 1);
    }
}
