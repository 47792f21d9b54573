//! The posts of a program: where its own functions begin, and where their branches lead to.
//!
//! To go through all of them one by one takes long. To tell two ways apart by a sum, fewer do, at places where
//! a jump to code of ours fits: any in the block that a branch leads to, or none where the next post tells which way was
//! gone.

use std::collections::{BTreeMap, BTreeSet};

use hindcast_symbols::{FunctionPattern, FunctionTarget, Memory as _};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::super::Session;
use crate::replay::{Listing, Posts, Site};

/// More functions than this are not looked at.
const MOST_FUNCTIONS: usize = 20_000;
/// Of a program with more posts, only the beginnings of functions are summed up.
const MOST_POSTS: usize = 6000;
const LARGEST_FUNCTION: u64 = 1 << 20;

/// The posts of a program. They are the same in every recording of a build, also their numbers.
pub(super) struct ProgramPosts {
    /// All.
    pub(super) all: Posts,
    /// Those that are summed up.
    pub(super) summed: Posts,
    /// Where jumps fit for them.
    pub(super) sites: Vec<Site>,
    /// Whether branches are among those that are summed up.
    pub(super) has_branches: bool,
}

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

    pub(super) fn posts(&self, functions: &[FunctionTarget]) -> ProgramPosts {
        let mut all = BTreeSet::new();
        // By the address of the post: first those of beginnings alone.
        let mut chosen: [BTreeMap<u64, Option<Site>>; 2] = Default::default();
        for target in functions {
            let Some(function) = self.symbols.function_at(target.address) else { continue };
            let mut instructions = Vec::new();
            for range in &function.ranges {
                let length = range.end.saturating_sub(range.start).min(LARGEST_FUNCTION);
                let mut code = vec![0; usize::try_from(length).unwrap_or_default()];
                if self.process.memory().read(range.start, &mut code).is_ok() {
                    instructions.extend(Decoder::with_ip(64, &code, range.start, DecoderOptions::NONE));
                }
            }
            instructions.sort_by_key(Instruction::ip);
            let blocks = Blocks::of(Listing::new(instructions), function.start);
            all.extend(blocks.ways());
            chosen[0].extend(blocks.begin());
            chosen[1].extend(blocks.chosen());
        }
        let has_branches = chosen[1].len() <= MOST_POSTS;
        let [beginnings, branches] = chosen;
        let chosen = if has_branches { branches } else { beginnings };
        let numbered = |address: u64| {
            let base = self.image.at(address).map_or(0, |loaded| loaded.range.start);
            (address, number(address - base))
        };
        ProgramPosts {
            all: all.into_iter().map(numbered).collect(),
            summed: chosen.keys().copied().map(numbered).collect(),
            sites: chosen.into_values().flatten().collect(),
            has_branches,
        }
    }
}

/// Spread, so that sums over different posts differ.
fn number(offset: u64) -> u32 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (offset.wrapping_add(1).wrapping_mul(SPREAD) >> 32) as u32
}

/// A function in pieces that are executed from their first to their last instruction.
struct Blocks {
    listing: Listing,
    blocks: Vec<Block>,
    /// Where the function begins.
    entry: usize,
}

struct Block {
    /// The instructions.
    first: usize,
    end: usize,
    /// The blocks that follow; `None` is somewhere else.
    next: Vec<Option<usize>>,
    /// From how many places one comes here.
    entries: usize,
    /// Whether a branch leads here, or nobody knows what does.
    is_way: bool,
}

/// What comes next behind a branch.
type Following = BTreeSet<Option<usize>>;

impl Blocks {
    fn of(listing: Listing, start: u64) -> Self {
        let known: BTreeMap<u64, usize> = listing
            .instructions()
            .iter()
            .enumerate()
            .map(|(at, instruction)| (instruction.ip(), at))
            .collect();
        let target = |instruction: &Instruction| match instruction.op0_kind() {
            OpKind::NearBranch64 => known.get(&instruction.near_branch_target()).copied(),
            _ => None,
        };
        let entry = known.get(&start).copied().unwrap_or_default();
        let mut leaders = BTreeSet::from([0, entry]);
        let mut ways = BTreeSet::from([0, entry]);
        for (at, instruction) in listing.instructions().iter().enumerate() {
            let led_to = target(instruction);
            match instruction.flow_control() {
                FlowControl::ConditionalBranch => ways.extend(led_to.into_iter().chain([at + 1])),
                FlowControl::UnconditionalBranch => leaders.extend(led_to.into_iter().chain([at + 1])),
                FlowControl::IndirectBranch | FlowControl::Return => leaders.extend([at + 1]),
                _ => {}
            }
        }
        leaders.extend(&ways);
        leaders.retain(|leader| *leader < listing.instructions().len());
        let firsts: Vec<usize> = leaders.into_iter().collect();
        let block_of = |instruction: usize| firsts.binary_search(&instruction).ok();
        let ends = firsts.iter().skip(1).copied().chain([listing.instructions().len()]);
        let mut blocks: Vec<Block> = Vec::new();
        for (&first, end) in firsts.iter().zip(ends) {
            let next = match listing.instructions().get(end.saturating_sub(1)) {
                Some(last) => match last.flow_control() {
                    FlowControl::ConditionalBranch => vec![block_of(end), target(last).and_then(block_of)],
                    FlowControl::UnconditionalBranch => vec![target(last).and_then(block_of)],
                    FlowControl::IndirectBranch | FlowControl::Return => vec![None],
                    _ => vec![block_of(end)],
                },
                None => Vec::new(),
            };
            blocks.push(Block { first, end, next, entries: 0, is_way: ways.contains(&first) });
        }
        for next in blocks.iter().flat_map(|block| block.next.clone()).flatten().collect::<Vec<_>>() {
            blocks[next].entries += 1;
        }
        let is_switch = |instruction: &Instruction| instruction.flow_control() == FlowControl::IndirectBranch;
        let has_switch = listing.instructions().iter().any(is_switch);
        for block in &mut blocks {
            // The table of a switch leads there, or an exception; or it is nothing but filling.
            let is_filling = listing.instructions().get(block.first).is_some_and(is_filling);
            block.is_way |= (has_switch || block.entries == 0) && !is_filling;
        }
        let entry = firsts.binary_search(&entry).unwrap_or_default();
        Self { listing, blocks, entry }
    }

    fn address(&self, block: usize) -> Option<u64> {
        self.listing.instructions().get(self.blocks[block].first).map(Instruction::ip)
    }

    /// Where branches lead to, the beginning, and where nobody knows what leads there.
    fn ways(&self) -> impl Iterator<Item = u64> {
        let ways = self.blocks.iter().enumerate().filter(|(_, block)| block.is_way);
        ways.filter_map(|(at, _)| self.address(at))
    }

    /// The post where the function begins.
    fn begin(&self) -> Option<(u64, Option<Site>)> {
        match self.site_in(self.entry) {
            Some(site) => Some((site.address, Some(site))),
            None => Some((self.address(self.entry)?, None)),
        }
    }

    /// Posts that tell ways apart, with sites where they fit.
    fn chosen(&self) -> Vec<(u64, Option<Site>)> {
        let fitting: BTreeMap<usize, Site> = (0..self.blocks.len())
            .filter(|at| self.blocks[*at].is_way)
            .filter_map(|at| Some((at, self.site_in(at)?)))
            .collect();
        let mut posted: BTreeSet<usize> = fitting.keys().copied().collect();
        let is_missing =
            |at: &usize, posted: &BTreeSet<usize>| self.blocks[*at].is_way && !posted.contains(at);
        for (at, block) in self.blocks.iter().enumerate() {
            if is_missing(&at, &posted) && (at == self.entry || block.entries == 0) {
                posted.insert(at);
            }
        }
        for block in &self.blocks {
            let [one, other] = block.next[..] else { continue };
            for missing in [one, other].into_iter().flatten() {
                if is_missing(&missing, &posted) && !self.are_apart(one, other, &posted) {
                    posted.insert(missing);
                }
            }
        }
        let post = |at: usize| match fitting.get(&at) {
            Some(site) => Some((site.address, Some(site.clone()))),
            None => Some((self.address(at)?, None)),
        };
        posted.into_iter().filter_map(post).collect()
    }

    /// Whether the next post tells which of two ways was gone.
    fn are_apart(&self, one: Option<usize>, other: Option<usize>, posted: &BTreeSet<usize>) -> bool {
        let following = |way: Option<usize>| {
            let mut found = Following::new();
            self.follow(way, posted, &mut Vec::new(), &mut found).then_some(found)
        };
        matches!((following(one), following(other)), (Some(one), Some(other)) if one.is_disjoint(&other))
    }

    /// Collects the next posts; false where there is none because it goes round.
    fn follow(
        &self,
        way: Option<usize>,
        posted: &BTreeSet<usize>,
        passed: &mut Vec<usize>,
        found: &mut Following,
    ) -> bool {
        const FARTHEST: usize = 32;
        let Some(at) = way.filter(|at| !posted.contains(at)) else {
            found.insert(way);
            return true;
        };
        if passed.contains(&at) || passed.len() == FARTHEST {
            return false;
        }
        passed.push(at);
        let is_ended = self.blocks[at].next.iter().all(|next| self.follow(*next, posted, passed, found));
        passed.pop();
        is_ended
    }

    /// Where a jump fits in a block, or in those that follow it alone.
    fn site_in(&self, block: usize) -> Option<Site> {
        let mut at = block;
        for _ in 0..self.blocks.len() {
            let Block { first, end, next, .. } = &self.blocks[at];
            if let Some(site) = (*first..*end).find_map(|index| self.listing.site(index)) {
                return Some(site);
            }
            match next[..] {
                [Some(next)] if self.blocks[next].entries == 1 && !self.blocks[next].is_way => at = next,
                _ => return None,
            }
        }
        None
    }
}

fn is_filling(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Int3
            | Code::Nopd
            | Code::Nopw
            | Code::Nopq
            | Code::Nop_rm16
            | Code::Nop_rm32
            | Code::Nop_rm64
            | Code::INVALID
    )
}
