//! Where two recordings of one program differ, and what engines tell about the way that a program took.
//!
//! A way is the row of *posts* that a program passed in its own code: where functions begin, and where branches lead to. It
//! does not depend on addresses, on how long library functions took, or on what the system answered. Two recordings
//! of one build went the same way as long as they passed the same posts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallValue, Location, Moment};

/// Which way did the program go?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayQuestion {
    /// From this moment on; from the start of the recording where absent. Passes are counted from there.
    pub since: Option<Moment>,
    /// What is to be told.
    pub part: WayPart,
}

/// What is told of a way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WayPart {
    /// A sum over some of the posts that tells ways apart, from time to time.
    Sums,
    /// The posts one by one.
    Posts {
        /// Where they begin.
        from: WayPlace,
        /// So many at most.
        count: u32,
        /// Whether frames are told as well, which takes longer.
        with_frames: bool,
    },
    /// When and where a post was passed.
    Pass(WayPlace),
    /// What expressions and variables are at a moment.
    Values {
        /// When.
        moment: Moment,
        /// Beside the variables of the function.
        show: Vec<String>,
    },
    /// What functions got and returned before a moment.
    Calls {
        /// The moment.
        until: Moment,
        /// The call whose moment is to be told, by its place in the answer without this.
        wanted: Option<u64>,
    },
}

/// A place in a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayPlace {
    /// After so many of the posts that are summed up.
    pub summed: u64,
    /// From there on, the number of a post, from 0.
    pub post: u64,
}

/// To [`WayQuestion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum WayFinding {
    /// To [`WayPart::Sums`].
    Sums(WaySums),
    /// To [`WayPart::Posts`].
    Posts(Vec<PassedPost>),
    /// To [`WayPart::Pass`].
    Pass(Box<WayPass>),
    /// To [`WayPart::Values`]: numbers only, because addresses mean nothing in another recording.
    Values(Vec<CallValue>),
    /// To [`WayPart::Calls`].
    Calls(WayCalls),
}

/// Sums over a way: equal ones say that the same posts were passed in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaySums {
    /// The build of the program.
    pub build: String,
    /// Which posts there are.
    pub posts: u64,
    /// A sum is told each time that so many more were passed.
    pub every: u64,
    /// These sums.
    pub sums: Vec<u64>,
    /// How many were passed in all.
    pub total: u64,
    /// The sum at the end.
    pub last: u64,
    /// How the program ended, or where the recording does.
    pub end: String,
    /// What was not looked at.
    pub notes: Vec<String>,
}

impl WaySums {
    /// How many passes are known to be the same in both; nothing where all are.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        if (self.total, self.last) == (other.total, other.last) {
            return None;
        }
        let every = self.every.max(other.every);
        let sum = |way: &Self, index: u64| {
            let passes = (index + 1) * every;
            way.sums.get(usize::try_from(passes / way.every).ok()?.checked_sub(1)?).copied()
        };
        let same = (0..)
            .take_while(|&index| sum(self, index).is_some_and(|sum_here| sum(other, index) == Some(sum_here)))
            .count() as u64;
        Some(same * every)
    }
}

/// A post that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedPost {
    /// Which one; the same in every recording of the build.
    pub post: u32,
    /// Where the frame begins on the stack that passed it; 0 where that was not asked for.
    pub frame: u64,
}

/// A pass, and the instruction before it: the branch or call that led there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayPass {
    /// Right before the branch.
    pub moment: Moment,
    /// Its statement.
    pub location: Location,
    /// The statement that it led to; absent where the way ended before this pass: then all else is about its end.
    pub next: Option<Location>,
    /// At the post, from where the way can be followed further.
    pub at: Moment,
}

/// What functions got and returned, in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayCalls {
    /// The functions, with the names of what is compared of them.
    pub functions: Vec<ComparedFunction>,
    /// The calls and returns.
    pub calls: Vec<ComparedCall>,
    /// Some functions that were called too often are not told to the end.
    pub frequent: u64,
    /// The wanted one.
    pub wanted: Option<(Moment, Location)>,
}

/// A function whose calls are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedFunction {
    /// Its name.
    pub name: String,
    /// Its parameters that are numbers.
    pub parameters: Vec<String>,
}

/// A call, or its return.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedCall {
    /// The number of the function.
    pub function: u32,
    /// Whether it returned here.
    pub returned: bool,
    /// The parameters, or what was returned; absent where it is not known.
    pub values: Vec<Option<String>>,
}

/// Where two recordings differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// About how many branches and calls both did in the same way before
    pub same: u64,
    /// The first branch that differs; absent where both went the same way
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchDifference>,
    /// The first argument or result before it with the same two values as a variable at the branch
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueDifference>,
    /// How this recording ends
    pub here_ends: String,
    /// How the other one ends
    pub there_ends: String,
    /// Behind this difference both go the same way again: `after` for the next one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What was not compared
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A branch that two recordings took differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BranchDifference {
    /// The last statement that both executed
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What this recording did next
    pub here: NextStep,
    /// What the other one did next
    pub there: NextStep,
    /// Variables that differ right before the branch
    pub values: Vec<TwoValues>,
}

/// What a program did behind a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextStep {
    /// Right before the branch, in its own recording
    pub moment: Moment,
    /// The next statement; where it ends before one, the last
    pub location: Location,
    /// Its source line, where that was read
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the recording ends there
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// A value in two recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TwoValues {
    /// What it is
    pub name: String,
    /// In this recording
    pub here: String,
    /// In the other one
    pub there: String,
}

/// An argument or a result that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueDifference {
    /// The function
    pub function: String,
    /// Its parameter; absent for what it returned
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// In this recording
    pub here: String,
    /// In the other one
    pub there: String,
    /// When, in this recording
    pub here_moment: Moment,
    /// When, in the other one
    pub there_moment: Moment,
    /// Where the function begins, or where it returned to
    pub location: Location,
    /// The variable at the branch that has the same two values
    pub same_as: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(every: u64, sums: &[u64], total: u64, last: u64) -> WaySums {
        let (build, end) = (String::new(), String::new());
        WaySums { build, posts: 0, every, sums: sums.to_vec(), total, last, end, notes: Vec::new() }
    }

    #[test]
    fn the_first_sum_that_differs_says_where_to_look() {
        let way = sums(10, &[1, 2, 3], 35, 9);
        assert_eq!(way.first_difference(&way), None);
        assert_eq!(way.first_difference(&sums(10, &[1, 2, 4], 35, 8)), Some(20));
        assert_eq!(way.first_difference(&sums(10, &[1, 2, 3], 36, 8)), Some(30));
        assert_eq!(way.first_difference(&sums(10, &[1], 15, 8)), Some(10));
        assert_eq!(way.first_difference(&sums(20, &[2], 35, 8)), Some(20));
        assert_eq!(way.first_difference(&sums(20, &[7], 35, 8)), Some(0));
    }

    #[test]
    fn ways_of_different_steps_are_the_same_where_they_end_the_same() {
        assert_eq!(sums(10, &[1, 2, 3], 30, 3).first_difference(&sums(20, &[2], 30, 3)), None);
    }
}
