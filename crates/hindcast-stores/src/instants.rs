//! Instants as stores keep them.

use hindcast_core::Timestamp;

/// Nanoseconds since the epoch reach to the year 2262; what lies beyond is held at that edge.
pub(crate) fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(if time.as_nanosecond() < 0 { i64::MIN } else { i64::MAX })
}

pub(crate) fn timestamp(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}
