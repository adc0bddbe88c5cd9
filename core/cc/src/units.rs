//! Time, spans of time and rates.
//!
//! Everything inside is integers: nanoseconds, bytes, bytes per second. Arithmetic saturates instead of
//! overflowing or panicking, so that bad input can make a run odd but never crash it (our choice, because a
//! controller must survive ten days without a loss as well as a zero RTT). Numbers of bytes are plain `u64`s whose
//! names say so; [`Bytes`] is for texts that people write.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

#[cfg(feature = "serde")]
mod serde;
mod text;

pub use text::{UnitError, rate_text, span_text};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant: nanoseconds since the start of the world that drives the code. There is no clock here: a runner
/// passes the time in with each call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

/// A span of time in nanoseconds. Never negative: the difference of two instants saturates at zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nanos(u64);

/// A rate in bytes per second. The largest value, [`Rate::INFINITY`], means "no limit".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

/// A number of bytes with a unit: `1500`, `1500B`, `64kB`, `2MB`, `1GB` (powers of 1000), `64KiB`, `2MiB` (of 1024).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub u64);

impl Time {
    /// The start of the world.
    pub const ZERO: Self = Self(0);
    /// Later than every event: "not until something else happens".
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `millis` milliseconds after the start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The instant `secs` seconds after the start; negative and not-a-number become the start.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(Nanos::from_secs_f64(secs).0)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds since the start.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time passed since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// `secs` seconds; negative and not-a-number become zero, too large becomes [`Nanos::MAX`].
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9) as u64)
    }

    /// `millis` milliseconds; negative and not-a-number become zero.
    pub fn from_millis_f64(millis: f64) -> Self {
        Self((millis * 1e6) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self` times `num / den`, rounded down; `den` of zero gives [`Nanos::MAX`].
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        if den == 0 {
            return Self::MAX;
        }
        match self.0.checked_mul(num) {
            Some(product) => Self(product / den),
            None => {
                let wide = self.0 as u128 * num as u128 / den as u128;
                Self(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
            }
        }
    }

    /// `self` times a non-negative factor; not-a-number and negative give zero.
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }

    /// How many whole times `self` goes into `other`; `self` of zero gives zero.
    pub const fn times_in(self, other: Self) -> u64 {
        match other.0.checked_div(self.0) {
            Some(times) => times,
            None => 0,
        }
    }
}

impl Rate {
    /// Nothing moves.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const INFINITY: Self = Self(u64::MAX);

    /// `bytes` bytes per second.
    pub const fn from_bytes_per_sec(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `mbps` megabits (10^6 bits) per second; negative and not-a-number become zero.
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps * 125_000.0) as u64)
    }

    /// The rate that moves `bytes` in `span`; a span of zero gives [`Rate::INFINITY`].
    pub const fn from_bytes_in(bytes: u64, span: Nanos) -> Self {
        if span.0 == 0 {
            return Self::INFINITY;
        }
        match bytes.checked_mul(NANOS_PER_SEC) {
            Some(product) => Self(product / span.0),
            None => {
                let wide = bytes as u128 * NANOS_PER_SEC as u128 / span.0 as u128;
                Self(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
            }
        }
    }

    /// Bytes per second.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }

    /// Megabits per second.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 125_000.0
    }

    /// Time that `bytes` take, rounded up to a whole nanosecond; never for [`Rate::ZERO`], none for
    /// [`Rate::INFINITY`].
    pub const fn time_for(self, bytes: u64) -> Nanos {
        if self.0 == u64::MAX || bytes == 0 {
            return Nanos::ZERO;
        }
        if self.0 == 0 {
            return Nanos::MAX;
        }
        match bytes.checked_mul(NANOS_PER_SEC) {
            Some(product) => Nanos(product.div_ceil(self.0)),
            None => {
                let wide = (bytes as u128 * NANOS_PER_SEC as u128).div_ceil(self.0 as u128);
                Nanos(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
            }
        }
    }

    /// Bytes that move in `span`, rounded down.
    pub const fn bytes_in(self, span: Nanos) -> u64 {
        match self.0.checked_mul(span.0) {
            Some(product) => product / NANOS_PER_SEC,
            None => {
                let wide = self.0 as u128 * span.0 as u128 / NANOS_PER_SEC as u128;
                if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
            }
        }
    }

    /// `self` times a non-negative factor; not-a-number and negative give zero.
    pub fn mul_f64(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

impl Add<Nanos> for Time {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Time {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub<Nanos> for Time {
    type Output = Self;
    fn sub(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Sub for Time {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        self.since(earlier)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_millis_f64())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.as_mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_agree() {
        let rate = Rate::from_mbps(100.0);
        assert_eq!(rate.time_for(1500), Nanos::from_micros(120));
        assert_eq!(rate.bytes_in(Nanos::from_micros(120)), 1500);
        assert_eq!(Rate::from_bytes_in(1500, Nanos::from_micros(120)), rate);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Rate::ZERO.time_for(1), Nanos::MAX);
        assert_eq!(Rate::INFINITY.time_for(u64::MAX), Nanos::ZERO);
        assert_eq!(Rate::from_bytes_per_sec(1).time_for(u64::MAX), Nanos::MAX);
        assert_eq!(Rate::from_bytes_in(1, Nanos::ZERO), Rate::INFINITY);
        assert_eq!(Time::ZERO - Nanos::from_secs(1), Time::ZERO);
        assert_eq!(Time::NEVER + Nanos::from_secs(1), Time::NEVER);
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(7).mul_div(1, 0), Nanos::MAX);
    }
}
