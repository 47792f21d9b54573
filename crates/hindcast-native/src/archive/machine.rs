//! The processor: instructions are replayed by it, and registers are as wide as it has them.

use std::io;

use super::{
    ArchiveError,
    stream::{Sink, Source},
};
use crate::{record::Recorder, replay::Label, sys};

/// What a replay depends on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Machine {
    name: String,
    features: Vec<u32>,
    /// Which parts the saved vector registers have, and how long they are.
    pub(super) vectors: (u64, u64),
}

const MOST_FEATURES: u64 = 256;
const LONGEST_NAME: u64 = 256;

/// The system and the processor, for people.
pub(crate) fn machine_name() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} x86_64, {}", release.trim(), brand())
}

impl Machine {
    pub(super) fn of_recording(recorder: &Recorder, chosen: &[Label]) -> io::Result<Self> {
        let first = chosen.first().and_then(|label| recorder.timeline.get(label));
        let thread = first.and_then(|anchor| anchor.frozen.thread().ok());
        let vectors = thread.and_then(|thread| thread.vector_registers().ok());
        let vectors = vectors.ok_or_else(|| io::Error::other("there is no checkpoint"))?;
        Ok(Self { name: brand(), features: features(), vectors: vectors.layout() })
    }

    pub(super) fn write(&self, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        sink.block(self.name.as_bytes())?;
        sink.number(self.features.len() as u64)?;
        self.features.iter().try_for_each(|&feature| sink.number(u64::from(feature)))?;
        sink.numbers(&[self.vectors.0, self.vectors.1])
    }

    pub(super) fn read(source: &mut Source) -> Result<Self, ArchiveError> {
        let name = source.text(LONGEST_NAME)?;
        let count = source.count(MOST_FEATURES)?;
        let features =
            (0..count).map(|_| Ok(source.number()? as u32)).collect::<Result<_, ArchiveError>>()?;
        let [parts, length] = source.numbers()?;
        Ok(Self { name, features, vectors: (parts, length) })
    }

    /// Whether what was recorded can be replayed here.
    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        if self.features == features() { Ok(()) } else { Err(self.differs("it can do other things")) }
    }

    pub(super) fn differs(&self, difference: &'static str) -> ArchiveError {
        ArchiveError::OtherProcessor { recorded: self.name.clone(), here: brand(), difference }
    }
}

/// What the processor says that it can do. Left out is what says on which of its cores somebody asks.
fn features() -> Vec<u32> {
    const HYBRID: u32 = 1 << 15;
    let [_, vendor1, vendor2, vendor3] = sys::processor_features(0, 0);
    let [model, _, ecx1, edx1] = sys::processor_features(1, 0);
    let [_, ebx7, ecx7, edx7] = sys::processor_features(7, 0);
    let [eax71, _, _, edx71] = sys::processor_features(7, 1);
    let [states, _, _, _] = sys::processor_features(0xd, 0);
    let [saves, _, _, _] = sys::processor_features(0xd, 1);
    let [_, _, more_ecx, more_edx] = sys::processor_features(0x8000_0001, 0);
    vec![
        vendor1,
        vendor2,
        vendor3,
        model,
        ecx1,
        edx1,
        ebx7,
        ecx7,
        edx7 & !HYBRID,
        eax71,
        edx71,
        states,
        saves,
        more_ecx,
        more_edx,
    ]
}

fn brand() -> String {
    let words = (0x8000_0002..=0x8000_0004).flat_map(|leaf| sys::processor_features(leaf, 0));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).filter(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
