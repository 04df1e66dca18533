use super::{Reader, repetition};

/// Takes no text, and keeps what stands on both sides of it apart.
const APART: &str = "z{0}";

/// The expression as fancy-regex has to be given it: 0.20 takes `x+y?x+` for `x+(?:yx+)?`, to which one `x` is enough, and
/// `(?:x+(?:yx+)?)+` for `x+(?:yx+)*`, where the `x` between two `y` can be one.
pub(in crate::split) fn kept_apart(text: &str) -> String {
    let (mut reader, mut rest, mut apart) = (Reader::new(text), text, String::with_capacity(text.len()));
    let mut endless = false;
    while !rest.is_empty() {
        let repetition = if reader.class_depth == 0 { repetition(rest) } else { None };
        let (length, _) = reader.read(rest);
        let (part, after) = rest.split_at(length);
        if endless && repetition.is_none() && ![")", "|"].contains(&part) {
            apart.push_str(APART);
        }
        endless = repetition.is_some() && (part == "+" || part == "*" || part.ends_with(",}"));
        apart.push_str(part);
        rest = after;
    }
    apart
}

/// The expression as it was before.
pub(in crate::split) fn as_given(apart: &str) -> String {
    apart.replace(APART, "")
}
