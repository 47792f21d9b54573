//! The pieces of code that a line has in a function. A compiler moves parts of a line away from each other: then a pass of
//! the line goes through several pieces, and is to stop at the first. And it copies code: then a pass goes through one of the
//! copies, and is to stop at each.

use std::collections::BTreeMap;

use hindcast_symbols::{Function, LineTarget, Memory as _};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::Session;

/// Larger functions are not looked at.
const LARGEST_FUNCTION: u64 = 64 << 10;
/// Nor are lines with more pieces, and functions with more loops.
const MOST_PIECES: usize = 64;
const MOST_LOOPS: usize = 256;

/// What was found out about the pieces of a line beside the first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces {
    /// Those that no pass of the line comes to that went through the first, or another of these.
    pub(super) copies: Vec<u64>,
    /// Whether there may be others of that kind.
    pub(super) is_doubtful: bool,
}

impl Pieces {
    const UNKNOWN: Self = Self { copies: Vec::new(), is_doubtful: true };
}

impl Session {
    /// Which of the further pieces of a line are copies.
    pub(super) fn pieces(&self, target: &LineTarget) -> Pieces {
        if target.further.is_empty() {
            return Pieces::default();
        }
        let function = self.symbols.function_at(target.address);
        let Some((flow, function)) = function.and_then(|function| Some((self.flow(&function)?, function)))
        else {
            return Pieces::UNKNOWN;
        };
        let pieces = flow.pieces(target.address, &target.further);
        // Nothing leads to where exceptions land, or it looks as if the call before did.
        let is_landed_in = function.ranges.iter().any(|range| self.symbols.is_landed_in(range.start));
        if is_landed_in && !pieces.copies.is_empty() { Pieces::UNKNOWN } else { pieces }
    }

    fn flow(&self, function: &Function) -> Option<Flow> {
        let length = |range: &std::ops::Range<u64>| range.end.saturating_sub(range.start);
        if function.from_symtab || function.ranges.iter().map(length).sum::<u64>() > LARGEST_FUNCTION {
            return None;
        }
        let mut instructions = Vec::new();
        for range in &function.ranges {
            let mut code = vec![0; usize::try_from(length(range)).ok()?];
            self.process.memory().read(range.start, &mut code).ok()?;
            instructions.extend(Decoder::with_ip(64, &code, range.start, DecoderOptions::NONE));
        }
        Flow::of(&instructions, function.start)
    }
}

/// Which instructions of a function follow each other.
struct Flow {
    /// By address.
    known: BTreeMap<u64, usize>,
    next: Vec<Vec<usize>>,
    previous: Vec<Vec<usize>>,
    /// Whether one comes there from the beginning.
    reached: Vec<bool>,
    loops: Vec<Loop>,
    /// Whether a jump leads nobody knows where.
    is_open: bool,
}

/// What is repeated by a jump back.
struct Loop {
    jump: (usize, usize),
    body: Vec<bool>,
}

impl Flow {
    /// `None` where that is too much, or no code.
    fn of(instructions: &[Instruction], start: u64) -> Option<Self> {
        let known: BTreeMap<u64, usize> =
            instructions.iter().enumerate().map(|(at, instruction)| (instruction.ip(), at)).collect();
        let entry = *known.get(&start)?;
        let next: Vec<Vec<usize>> =
            instructions.iter().map(|instruction| following(instruction, &known)).collect();
        let mut flow = Self {
            known,
            previous: vec![Vec::new(); next.len()],
            reached: Vec::new(),
            next,
            loops: Vec::new(),
            is_open: false,
        };
        flow.reached = flow.reached_from(entry, |_| true);
        let reached = || instructions.iter().zip(&flow.reached).filter(|(_, reached)| **reached);
        if reached().any(|(instruction, _)| instruction.is_invalid()) {
            return None;
        }
        flow.is_open =
            reached().any(|(instruction, _)| instruction.flow_control() == FlowControl::IndirectBranch);
        for (at, next) in flow.next.iter().enumerate().filter(|(at, _)| flow.reached[*at]) {
            next.iter().for_each(|&next| flow.previous[next].push(at));
        }
        let jumps = flow.jumps_back(entry);
        if jumps.len() > MOST_LOOPS {
            return None;
        }
        let body = |&jump: &(usize, usize)| Loop { jump, body: flow.body(jump) };
        // What is entered in the middle has no head that all rounds begin with.
        flow.loops =
            jumps.iter().map(body).filter(|found| found.jump.1 == entry || !found.body[entry]).collect();
        Some(flow)
    }

    fn pieces(&self, first: u64, further: &[u64]) -> Pieces {
        let at = |address: &u64| self.known.get(address).copied();
        let Some(first) = at(&first).filter(|first| self.reached[*first] && further.len() < MOST_PIECES)
        else {
            return Pieces::UNKNOWN;
        };
        let mut chosen = vec![first];
        let mut pieces = Pieces::default();
        for (piece, address) in further.iter().filter_map(|address| Some((at(address)?, *address))) {
            let is_apart = chosen.iter().all(|&other| !self.leads(other, piece) && !self.leads(piece, other));
            if self.is_open {
                pieces.is_doubtful |= is_apart;
            } else if is_apart && self.reached[piece] {
                chosen.push(piece);
                pieces.copies.push(address);
            }
        }
        pieces
    }

    /// Whether a pass comes from one instruction to another: without beginning another round of a loop that both are in.
    fn leads(&self, from: usize, to: usize) -> bool {
        let cut: Vec<_> =
            self.loops.iter().filter(|of| of.body[from] && of.body[to]).map(|of| of.jump).collect();
        self.reached_from(from, |jump| !cut.contains(&jump))[to]
    }

    fn reached_from(&self, from: usize, goes: impl Fn((usize, usize)) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.next.len()];
        reached[from] = true;
        let mut left = vec![from];
        while let Some(at) = left.pop() {
            for &next in &self.next[at] {
                if !reached[next] && goes((at, next)) {
                    reached[next] = true;
                    left.push(next);
                }
            }
        }
        reached
    }

    /// Jumps to what leads to them.
    fn jumps_back(&self, entry: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let (mut seen, mut on_way) = (vec![false; self.next.len()], vec![false; self.next.len()]);
        let mut way = vec![(entry, 0)];
        (seen[entry], on_way[entry]) = (true, true);
        while let Some((at, turn)) = way.last_mut() {
            let Some(&next) = self.next[*at].get(*turn) else {
                on_way[*at] = false;
                way.pop();
                continue;
            };
            *turn += 1;
            if on_way[next] {
                found.push((*at, next));
            } else if !seen[next] {
                (seen[next], on_way[next]) = (true, true);
                way.push((next, 0));
            }
        }
        found
    }

    /// What leads to a jump back without coming by where it leads.
    fn body(&self, (jump, head): (usize, usize)) -> Vec<bool> {
        let mut body = vec![false; self.next.len()];
        body[head] = true;
        let mut left = vec![jump];
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut body[at], true) {
                left.extend(&self.previous[at]);
            }
        }
        body
    }
}

/// The instructions of the function that may come after one.
fn following(instruction: &Instruction, known: &BTreeMap<u64, usize>) -> Vec<usize> {
    let behind = known.get(&instruction.next_ip()).copied();
    let led_to = match instruction.op0_kind() {
        OpKind::NearBranch64 => known.get(&instruction.near_branch_target()).copied(),
        _ => None,
    };
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => behind.into_iter().chain(led_to).collect(),
        FlowControl::UnconditionalBranch => led_to.into_iter().collect(),
        FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => Vec::new(),
        _ => behind.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a line at offsets in this code; which are copies of the first.
    fn copies(code: &[u8], first: u64, further: &[u64]) -> Pieces {
        let instructions: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().collect();
        Flow::of(&instructions, 0).map_or(Pieces::UNKNOWN, |flow| flow.pieces(first, further))
    }

    fn certain(copies: &[u64]) -> Pieces {
        Pieces { copies: copies.to_vec(), is_doubtful: false }
    }

    #[test]
    fn one_of_two_ways_is_a_copy_and_what_follows_both_is_not() {
        // je 4; nop; ret; nop; ret
        assert_eq!(copies(&[0x74, 0x02, 0x90, 0xc3, 0x90, 0xc3], 2, &[4]), certain(&[4]));
        // nop; je 4; nop; nop; ret: the first leads to the second, whichever way is gone
        assert_eq!(copies(&[0x90, 0x74, 0x01, 0x90, 0x90, 0xc3], 0, &[3, 4]), certain(&[]));
        // je 5; nop; jmp 6; nop; nop; ret
        let joined = [0x74, 0x03, 0x90, 0xeb, 0x01, 0x90, 0x90, 0xc3];
        assert_eq!(copies(&joined, 2, &[5, 6]), certain(&[5]));
    }

    #[test]
    fn another_round_of_a_loop_around_both_is_another_pass() {
        // 0: je 5; 2: nop; 3: jmp 6; 5: nop; 6: jne 0; 8: ret
        let around = [0x74, 0x03, 0x90, 0xeb, 0x01, 0x90, 0x75, 0xf8, 0xc3];
        assert_eq!(copies(&around, 2, &[5]), certain(&[5]));
        // 0: je 5; 2: nop; 3: jmp 0; 5: nop; 6: ret: the loop is part of the pass
        let within = [0x74, 0x03, 0x90, 0xeb, 0xfb, 0x90, 0xc3];
        assert_eq!(copies(&within, 2, &[5]), certain(&[]));
    }

    #[test]
    fn behind_a_jump_to_nobody_knows_where_nothing_is_certain() {
        // je 5; nop; jmp rax; nop; ret
        let open = [0x74, 0x03, 0x90, 0xff, 0xe0, 0x90, 0xc3];
        assert_eq!(copies(&open, 2, &[5]), Pieces::UNKNOWN);
        // nop; je 5; jmp rax; nop; ret: the first leads to it however that jump goes
        let led = [0x90, 0x74, 0x02, 0xff, 0xe0, 0x90, 0xc3];
        assert_eq!(copies(&led, 0, &[5]), certain(&[]));
        // What nothing leads to is where exceptions land.
        assert_eq!(copies(&[0x90, 0xc3, 0x90, 0xc3], 0, &[2]), certain(&[]));
    }
}
