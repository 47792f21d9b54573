//! The posts of a program: where its own functions begin, and where their branches lead to.

use std::{collections::BTreeSet, ops::Range};

use hindcast_symbols::{FunctionPattern, FunctionTarget, Memory as _};
use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};

use super::super::Session;
use crate::replay::Posts;

/// More functions than this are not looked at.
const MOST_FUNCTIONS: usize = 20_000;
/// Of a program with more posts, only the beginnings of functions are.
const MOST_POSTS: usize = 6000;
const LARGEST_FUNCTION: u64 = 1 << 20;

impl Session {
    /// The functions of the program itself, not of its libraries, that have a source here.
    pub(super) fn compared_functions(&self) -> Vec<FunctionTarget> {
        let Ok(every) = FunctionPattern::read("/./") else { return Vec::new() };
        let scribe = self.scribe();
        let is_own = |target: &FunctionTarget| {
            let loaded = self.image.at(target.address).filter(|loaded| Some(loaded.module) == self.main);
            !target.inlined && loaded.is_some() && scribe.own_beginning(target.address).is_some()
        };
        self.symbols.functions_named(&every, MOST_FUNCTIONS).into_iter().filter(is_own).collect()
    }

    /// The posts, and whether branches are among them. A post has the same number in every recording of a build.
    pub(super) fn posts(&self) -> (Posts, bool) {
        let targets = self.compared_functions();
        let functions: Vec<_> =
            targets.iter().filter_map(|target| self.symbols.function_at(target.address)).collect();
        let starts: BTreeSet<u64> = functions.iter().map(|function| function.start).collect();
        let mut all = starts.clone();
        for range in functions.iter().flat_map(|function| &function.ranges) {
            self.add_ways_out(range, &mut all);
        }
        let has_branches = all.len() <= MOST_POSTS;
        let chosen = if has_branches { all } else { starts };
        let base = |address: u64| self.image.at(address).map_or(0, |loaded| loaded.range.start);
        let posts = chosen.into_iter().map(|address| (address, number(address - base(address)))).collect();
        (posts, has_branches)
    }

    /// Where the branches of a function lead to.
    fn add_ways_out(&self, range: &Range<u64>, into: &mut BTreeSet<u64>) {
        let length = range.end.saturating_sub(range.start);
        let mut code = vec![0; usize::try_from(length.min(LARGEST_FUNCTION)).unwrap_or_default()];
        if self.process.memory().read(range.start, &mut code).is_err() {
            return;
        }
        let mut behind_jumps = Vec::new();
        let mut has_table = false;
        for instruction in Decoder::with_ip(64, &code, range.start, DecoderOptions::NONE) {
            let next = instruction.next_ip();
            match instruction.flow_control() {
                FlowControl::ConditionalBranch => {
                    let target = (instruction.op0_kind() == OpKind::NearBranch64)
                        .then(|| instruction.near_branch_target());
                    let ways = [Some(next), target].into_iter().flatten();
                    let ways: Vec<_> = ways.filter(|way| range.contains(way)).collect();
                    let returns = |way: &&u64| returns_at_once(&code, range.start, **way);
                    // The other way tells which one was gone, and there is no room for a jump here.
                    let has_other = ways.iter().any(|way| !returns(&way));
                    into.extend(ways.iter().filter(|way| !has_other || !returns(way)));
                }
                FlowControl::IndirectBranch => {
                    has_table = true;
                    behind_jumps.push(next);
                }
                FlowControl::UnconditionalBranch => behind_jumps.push(next),
                _ => {}
            }
        }
        // Where a jump through a table goes is not known: to what nothing else leads to.
        if has_table {
            into.extend(behind_jumps.into_iter().filter(|way| range.contains(way)));
        }
    }
}

/// Whether there are only a few bytes from an address to the end of a function.
fn returns_at_once(code: &[u8], start: u64, address: u64) -> bool {
    const FEW: usize = 5;
    let rest =
        usize::try_from(address - start).ok().and_then(|offset| code.get(offset..)).unwrap_or_default();
    let mut length = 0;
    for instruction in Decoder::with_ip(64, rest, address, DecoderOptions::NONE) {
        length += instruction.len();
        match instruction.flow_control() {
            FlowControl::Return => return length < FEW,
            FlowControl::Next if length < FEW => {}
            _ => return false,
        }
    }
    false
}

/// Spread, so that sums over different posts differ.
fn number(offset: u64) -> u32 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (offset.wrapping_add(1).wrapping_mul(SPREAD) >> 32) as u32
}
