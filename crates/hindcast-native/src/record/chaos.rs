//! Schedules that expose races: a seed decides who runs, and for how long.

use std::time::Duration;

use crate::sys::Tid;

/// Decisions that are the same for the same seed, as long as the program does the same.
#[derive(Debug)]
pub(crate) struct Chaos {
    state: u64,
    /// A thread that is left out for so many decisions, if others can run.
    starved: Option<(Tid, u32)>,
    preemptions: u64,
}

/// What the running thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    GoOn,
    GiveWay,
    /// Make so many steps in the program's own code, and then give way.
    Steps(u32),
}

/// So often it is drawn freely; then ever more rarely, because each preemption takes two checkpoints that must stay.
const FREELY: u64 = 300;
/// A preemption mostly comes after fewer steps than two to the power of this, because few instructions make a race,
const SHORT_WALK: u64 = 6;
/// and sometimes after fewer than two to the power of this.
const LONG_WALK: u64 = 11;

impl Chaos {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, starved: None, preemptions: 0 }
    }

    /// The next number, by the generator that is known as SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// Who is next among those that could run.
    pub(crate) fn choose(&mut self, ready: &[Tid]) -> Option<Tid> {
        let starves = ready.len() > 1 && self.below(8) == 0;
        self.starved = match self.starved {
            Some((_, 0)) => None,
            Some((tid, left)) => Some((tid, left - 1)),
            None if starves => {
                let (index, exponent) = (self.below(ready.len() as u64), self.below(8));
                Some((ready[index as usize], 1 << exponent))
            }
            None => None,
        };
        let starved = self.starved.map(|(tid, _)| tid);
        let fed: Vec<_> = ready.iter().copied().filter(|&tid| Some(tid) != starved).collect();
        let among = if fed.is_empty() { ready } else { &fed };
        let index = self.below(among.len() as u64);
        among.get(index as usize).copied()
    }

    /// What the running thread does behind an event, or when it has just got its turn.
    pub(crate) fn decide(&mut self) -> Decision {
        let is_rare = self.preemptions > FREELY;
        match self.below(8) {
            0 => Decision::GiveWay,
            1..=3 if is_rare && self.below(self.preemptions) >= FREELY => Decision::GoOn,
            1..=3 => {
                self.preemptions += 1;
                let longest = if self.below(4) == 0 { LONG_WALK } else { SHORT_WALK };
                let exponent = self.below(longest);
                Decision::Steps((1 << exponent) + self.below(1 << exponent) as u32)
            }
            _ => Decision::GoOn,
        }
    }

    /// For how long a thread may compute.
    pub(crate) fn turn(&mut self) -> Duration {
        // Long enough that the clock decides only about threads that compute, never about those that are stepped or copied.
        Duration::from_millis(10 + self.below(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_decides_the_same_and_others_decide_otherwise() {
        let decisions = |seed| {
            let mut chaos = Chaos::new(seed);
            let ready = [Tid(7), Tid(8), Tid(9)];
            (0..200).map(|_| (chaos.choose(&ready), chaos.decide())).collect::<Vec<_>>()
        };
        assert_eq!(decisions(1), decisions(1));
        assert_ne!(decisions(1), decisions(2));
        let chosen = |tid| decisions(3).iter().filter(|(chosen, _)| *chosen == Some(Tid(tid))).count();
        assert!([7, 8, 9].into_iter().all(|tid| chosen(tid) > 10));
    }
}
