//! Exact weights of the sources in a mixture.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use crate::base::int::to_f64;
use crate::error::Error;

/// Maximum number of decimal places of a weight. Weights are stored in units of 10⁻⁶, so that no rounding takes place.
const PLACES: usize = 6;

/// The weight of a source in a mixture: an exact decimal number above 0, with at most 12 digits before the point and
/// 6 after it.
///
/// ```
/// use tokenmill::sample::{Weight, scale_weights};
///
/// let weights: Vec<Weight> = ["1", "0.25", "3"].into_iter().map(str::parse).collect::<Result<_, _>>()?;
/// assert_eq!(scale_weights(&weights), [4, 1, 12]);
/// # Ok::<(), tokenmill::Error>(())
/// ```
///
/// It is written as a text in JSON, and read from a text or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight {
    /// The weight in units of 10⁻⁶; at least 1 and below 10¹⁸.
    millionths: u64,
}

impl Weight {
    /// The default weight of a source.
    pub const ONE: Weight = Weight { millionths: 1_000_000 };

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        to_f64(self.millionths) / 1e6
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

impl FromStr for Weight {
    type Err = Error;

    /// Reads digits, optionally followed by a point and more digits. Signs, exponents and white space are refused.
    ///
    /// # Errors
    /// The text has another form, too many digits, or the value 0.
    fn from_str(text: &str) -> Result<Weight, Error> {
        let millionths = || {
            let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
            let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !digits(whole) || !digits(places) || whole.len() > 12 || places.len() > PLACES {
                return None;
            }
            let places = format!("{places:0<PLACES$}").parse::<u64>().ok()?;
            Some(whole.parse::<u64>().ok()? * 1_000_000 + places).filter(|&millionths| millionths > 0)
        };
        let millionths = millionths().ok_or_else(|| {
            let rule = "a number above 0 with at most 12 digits and 6 decimal places";
            Error::usage(format!("{text:?} must be {rule}"))
        })?;
        Ok(Weight { millionths })
    }
}

impl fmt::Display for Weight {
    /// Writes as few decimal places as are exact, so that parsing gives the same weight again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, places) = (self.millionths / 1_000_000, self.millionths % 1_000_000);
        if places == 0 {
            return write!(f, "{whole}");
        }
        let places = format!("{places:06}");
        write!(f, "{whole}.{}", places.trim_end_matches('0'))
    }
}

impl Serialize for Weight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                // The shortest decimal of a float is the number that the user wrote.
                (None, Some(float)) => float.to_string(),
                _ => number.to_string(),
            },
            other => other.to_string(),
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// Returns the smallest whole numbers in the same ratio as the weights: 1 : 0.25 : 3 becomes 4 : 1 : 12.
///
/// A mixture multiplies the counts of its sources by these numbers, so that no count is rounded.
///
/// The order stays. Each number is at least 1, and below 10¹⁸, since the weights themselves are in whole millionths.
pub fn scale_weights(weights: &[Weight]) -> Vec<u64> {
    let shared = weights.iter().fold(0, |shared, weight| common_divisor(shared, weight.millionths));
    weights.iter().map(|weight| weight.millionths / shared).collect()
}

/// Returns the greatest common divisor (Euclid's algorithm). If one number is 0, this is the other one.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
