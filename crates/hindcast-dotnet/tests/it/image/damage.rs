//! Files that are damaged, by chance or on purpose: none may panic, hang or take much memory.

use hindcast_dotnet::image::{Assembly, MAXIMAL_EMBEDDED_PDB, walk_everything};

use super::{EMBEDDED, SAMPLE, SAMPLE_PDB};

/// Numbers that look random and are the same every time (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Changes a few bytes: to anything, to an extreme, or by one.
fn damage(bytes: &mut [u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        bytes[at] = match numbers.below(4) {
            0 => [0x00, 0x7f, 0x80, 0xff][numbers.below(4)],
            1 => bytes[at].wrapping_add(1),
            2 => bytes[at] ^ 1 << numbers.below(8),
            _ => numbers.next() as u8,
        };
    }
}

fn embedded_pdb() -> Vec<u8> {
    let assembly = Assembly::parse(EMBEDDED).expect("an assembly");
    assembly.embedded_pdb(MAXIMAL_EMBEDDED_PDB).expect("a PDB that can be inflated").expect("an embedded PDB")
}

#[test]
fn whole_files_are_read_without_an_error() {
    for bytes in [SAMPLE, SAMPLE_PDB, EMBEDDED] {
        let walked = walk_everything(bytes).unwrap();
        assert_eq!(walked.error_count, 0, "{walked:?}");
    }
    let walked = walk_everything(SAMPLE).unwrap();
    assert!(walked.types > 15 && walked.methods > 40 && walked.attributes > 20, "{walked:?}");
    let walked = walk_everything(SAMPLE_PDB).unwrap();
    assert!(walked.points > 80 && walked.locals == 18 && walked.documents == 2, "{walked:?}");
}

#[test]
fn damaged_files_are_read_as_far_as_they_make_sense() {
    let mut numbers = Numbers(0x5eed_0001);
    let mut opened = 0;
    for (file, rounds) in [(SAMPLE, 3000), (SAMPLE_PDB, 5000), (EMBEDDED, 2000), (&embedded_pdb(), 2000)] {
        for _ in 0..rounds {
            let mut damaged = file.to_vec();
            damage(&mut damaged, &mut numbers);
            opened += usize::from(walk_everything(&damaged).is_ok());
        }
    }
    // Most bytes are not of the head, so that most files can be opened, and the test looks into them.
    assert!(opened > 9000, "{opened}");
}

#[test]
fn heads_that_are_damaged_are_refused_or_read() {
    let mut numbers = Numbers(0x5eed_0002);
    let metadata = SAMPLE.windows(4).position(|bytes| bytes == b"BSJB").unwrap();
    for (file, head) in [(SAMPLE, 0..0x2b0), (SAMPLE, metadata..metadata + 0x100), (SAMPLE_PDB, 0..0x120)] {
        for _ in 0..1500 {
            let mut damaged = file.to_vec();
            damage(&mut damaged[head.clone()], &mut numbers);
            let _ = walk_everything(&damaged);
        }
    }
}

#[test]
fn files_that_are_cut_off_are_refused_or_read() {
    for file in [SAMPLE, SAMPLE_PDB] {
        for end in (0..file.len()).step_by(file.len() / 400) {
            let _ = walk_everything(&file[..end]);
        }
    }
}
