/// Decimal places that a weight may have.
const PLACES: usize = 6;

/// The weight 1 in millionths.
pub(super) const ONE: u64 = 1_000_000;

/// A weight in millionths; `None` unless it is a plain decimal above zero with at most six places.
pub(super) fn millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > PLACES {
        return None;
    }
    let padded = format!("{whole}{fraction:0<PLACES$}");
    padded.parse().ok().filter(|&weight| weight > 0)
}

/// The smallest whole numbers in the same ratio.
pub(super) fn scaled(weights: &[u64]) -> Vec<u64> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    weights.iter().map(|weight| weight / divisor).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
