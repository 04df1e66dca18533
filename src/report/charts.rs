//! Charts of the report page, as SVG.
//!
//! Each function returns a complete `<svg>` element for the page. Charts without data are drawn with empty axes; the
//! page decides whether it shows them. All labels are formatted numbers, so no text has to be escaped.
//!
//! Every chart gives its exact values: areas of the drawing have a `<title>`, which browsers show under the pointer.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::figures::{bytes_per_token_by_merges, grouped};
use super::{ParityFacts, TrainingFacts};
use crate::base::int::{to_f64, to_u64, to_usize, u64_to_usize, with_unit};
use crate::count::Histogram;
use crate::train::HistoryPoint;

/// Colour of labels. Like the two below, it only identifies a role: the page's style sheet selects elements by it and
/// gives each role its colour, light or dark.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of axes and grid lines.
const RULE: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// Colour of the data.
const LINE: RGBColor = RGBColor(0x32, 0x67, 0xB8);

/// Number of colours of the style sheet, `--k0` and on, that people with any colour vision can tell apart.
pub(super) const COLOURS: usize = 6;
/// Colours of lines that are told apart, which are roles like those above.
const LINES: [RGBColor; COLOURS] = [
    RGBColor(0, 0, 0xC0),
    RGBColor(0, 0, 0xC1),
    RGBColor(0, 0, 0xC2),
    RGBColor(0, 0, 0xC3),
    RGBColor(0, 0, 0xC4),
    RGBColor(0, 0, 0xC5),
];

/// Width and height of a chart in units of its drawing. The page shows it at about half this size, so that curves
/// are drawn to half a pixel: the drawing has whole numbers only.
const SIZE: (u32, u32) = (1040, 600);
/// Height above the axes, in the same units.
const TOP: i32 = 16;
/// Message of panics that cannot happen: writing into a string never fails.
const DRAWN: &str = "a chart is drawn into memory";

/// Columns of the curve of merge counts. Within each, the first, last, least and greatest count are drawn, which look
/// the same as all counts do, since a column is narrower than the line. The size of the drawing does not grow with the
/// number of merges.
const COLUMNS: usize = 900;
/// Areas of that curve that show their values under the pointer.
const READINGS: usize = 120;

/// A part of the horizontal axis for which exact values appear under the pointer.
struct Reading {
    /// Its start and end on the axis.
    span: Range<f64>,
    text: String,
}

/// Tokens that are left in the corpus, against merges learned. The points are those of the history, which training
/// records at regular steps.
pub(super) fn tokens_by_merges(training: &TrainingFacts) -> String {
    let point = |point: &HistoryPoint| Point {
        merges: point.merges,
        values: vec![to_f64(point.tokens)],
        text: format!("{} tokens", grouped(point.tokens)),
    };
    curves(&training.history.iter().map(point).collect::<Vec<_>>(), &[LINE])
}

/// Bytes per token of the training text, against merges learned.
pub(super) fn bytes_per_token(training: &TrainingFacts) -> String {
    let point =
        |(merges, bytes)| Point { merges, values: vec![bytes], text: format!("{bytes:.3} bytes per token") };
    let points = bytes_per_token_by_merges(&training.history).into_iter().map(point);
    curves(&points.collect::<Vec<_>>(), &[LINE])
}

/// The cost of each source of parity-aware training, against merges learned: a line for each. Exact values are in the
/// order of the sources.
pub(super) fn costs(parity: &ParityFacts) -> String {
    let show = |cost: &f64| if *cost < 10.0 { format!("{cost:.3}") } else { format!("{cost:.0}") };
    let point = |(merges, costs): (u64, Vec<f64>)| {
        let text = costs.iter().map(show).collect::<Vec<_>>().join(", ");
        Point { merges, values: costs, text }
    };
    curves(&parity.costs().map(point).collect::<Vec<_>>(), &LINES)
}

/// The count of each merge against its rank, on logarithmic axes. Ranks count from 1, since 0 has no logarithm. For
/// the same reason, a count of 0 is drawn as 1.
pub(super) fn counts_by_rank(counts: &[u64]) -> String {
    let rank = |index: usize| to_f64(to_u64(index + 1));
    let mut points = Vec::new();
    for column in columns(counts.len(), COLUMNS) {
        let mut drawn: Vec<usize> = extremes(&counts[column.clone()]).map(|at| column.start + at).into();
        drawn.sort_unstable();
        drawn.dedup();
        points.extend(drawn.into_iter().map(|index| (rank(index), to_f64(counts[index].max(1)))));
    }
    let readings = columns(counts.len(), READINGS).into_iter().map(|area| {
        let span = rank(area.start)..rank(area.end.min(counts.len() - 1));
        let [first, last, least, most] = extremes(&counts[area.clone()]).map(|at| area.start + at);
        let of = |index: usize| grouped(counts[index]);
        let text = match area.len() {
            1 => format!("merge {}: count {}", grouped(to_u64(first + 1)), of(first)),
            _ => {
                let [first, last] = [first, last].map(|index| grouped(to_u64(index + 1)));
                format!("merges {first} to {last}: counts {} to {}", of(least), of(most))
            }
        };
        Reading { span, text }
    });
    let last = to_f64(to_u64(counts.len().max(2)));
    let top = points.iter().map(|&(_, count)| count).fold(10.0, f64::max);
    let (x, y) = ((1.0..last).log_scale(), (1.0..top).log_scale());
    draw(x, y, &|x| short(*x), &readings.collect::<Vec<_>>(), |chart| {
        chart.draw_series(LineSeries::new(points, LINE.stroke_width(4))).expect(DRAWN);
    })
}

/// Divides `ranks` ranks into ranges that are about equally wide on a logarithmic axis: at most `most`.
fn columns(ranks: usize, most: usize) -> Vec<Range<usize>> {
    let (width, last) = (to_f64(to_u64(ranks)).ln() / to_f64(to_u64(most)), to_f64(to_u64(most)) - 1.0);
    let column = |index: usize| (to_f64(to_u64(index + 1)).ln() / width).floor().min(last);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for index in 0..ranks {
        match ranges.last_mut() {
            Some(last) if column(last.start) == column(index) => last.end = index + 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}

/// The positions of the first, the last, the least and the greatest of some counts, of which there is at least one.
fn extremes(counts: &[u64]) -> [usize; 4] {
    let by_count = |&at: &usize| counts[at];
    let least = (0..counts.len()).min_by_key(by_count).unwrap_or(0);
    let most = (0..counts.len()).max_by_key(by_count).unwrap_or(0);
    [0, counts.len() - 1, least, most]
}

/// A bar: a range of lengths, and the number of things with such a length.
struct Bar {
    from: u64,
    to: u64,
    count: u64,
}

/// How many things have each length. Lengths from `longest` on have one bar together, the last. `unit` is the name of
/// a thing.
///
/// `longest` must not exceed the lengths that a histogram keeps apart.
pub(super) fn of_each_length(histogram: &Histogram, longest: u64, unit: &str) -> String {
    let mut bars: Vec<(usize, Bar)> = Vec::new();
    for bin in histogram.bins() {
        let from = bin.from.min(longest);
        match bars.last_mut() {
            Some((_, last)) if last.from == from => {
                last.to = bin.to;
                last.count += bin.count;
            }
            _ => bars.push((u64_to_usize(from), Bar { from, to: bin.to, count: bin.count })),
        }
    }
    let more = if bars.last().is_some_and(|(_, bar)| bar.to > bar.from) { "+" } else { "" };
    let last = u64_to_usize(longest);
    draw_bars(&bars, |length| format!("{length}{}", if length == last { more } else { "" }), unit)
}

/// How many things have a length of 0, of 1, of 2–3, of 4–7, and so on.
pub(super) fn of_each_doubling(histogram: &Histogram, unit: &str) -> String {
    let mut counts = BTreeMap::new();
    for bin in histogram.bins() {
        *counts.entry(bin.from.checked_ilog2().map_or(0, |power| power + 1)).or_default() += bin.count;
    }
    let start = |number: u32| number.checked_sub(1).map_or(0, |power| 1_u64 << power.min(63));
    let bar = |(number, count): (u32, u64)| {
        let to = if number > 63 { u64::MAX } else { start(number + 1).saturating_sub(1) };
        (to_usize(number), Bar { from: start(number), to, count })
    };
    let bars: Vec<(usize, Bar)> = counts.into_iter().map(bar).collect();
    draw_bars(&bars, |number| short(to_f64(start(u32::try_from(number).unwrap_or(64)))), unit)
}

/// A bar chart. `bars` has the place of each bar on the axis, ascending. `length` gives the label of a
/// place. `unit` is the name of a thing that was counted.
fn draw_bars(bars: &[(usize, Bar)], length: impl Fn(usize) -> String, unit: &str) -> String {
    let place = |bar: Option<&(usize, Bar)>| bar.map_or(0.0, |&(place, _)| to_f64(to_u64(place)));
    let (first, last) = (place(bars.first()), place(bars.last()));
    let top = bars.iter().map(|(_, bar)| to_f64(bar.count)).fold(1.0, f64::max);
    // Only whole positions have a length, and so a label.
    let label = |x: &f64| x.to_string().parse().map_or_else(|_| String::new(), &length);
    let readings = bars.iter().map(|(place, Bar { from, to, count })| {
        let lengths = match to - from {
            0 => with_unit(*from, "byte"),
            _ => format!("{} to {} bytes", grouped(*from), grouped(*to)),
        };
        let things = if *count == 1 { "" } else { "s" };
        let x = to_f64(to_u64(*place));
        Reading { span: x - 0.5..x + 0.5, text: format!("{lengths}: {} {unit}{things}", grouped(*count)) }
    });
    // With many bars, space between them would leave nothing of the bars.
    let gap = if last - first < 100.0 { 2 } else { 0 };
    let (x, y) = (first - 0.5..last + 0.5, 0.0..top);
    draw(x, y, &label, &readings.collect::<Vec<_>>(), |chart| {
        let bar = |(place, bar): &(usize, Bar)| {
            let x = to_f64(to_u64(*place));
            let mut bar = Rectangle::new([(x - 0.5, 0.0), (x + 0.5, to_f64(bar.count))], LINE.filled());
            bar.set_margin(0, 0, gap, gap);
            bar
        };
        chart.draw_series(bars.iter().map(bar)).expect(DRAWN);
    })
}

/// The values of one or several lines after a number of merges.
struct Point {
    merges: u64,
    values: Vec<f64>,
    /// The exact values.
    text: String,
}

/// A chart of lines against merges learned, in these colours, which repeat. Each point has as many values as there are
/// lines.
fn curves(points: &[Point], colours: &[RGBColor]) -> String {
    let last = points.last().map_or(1, |point| point.merges).max(1);
    let lines = points.first().map_or(0, |point| point.values.len());
    let highest = points.iter().flat_map(|point| &point.values).copied().fold(0.0, f64::max);
    let top = if highest > 0.0 { highest } else { 1.0 };
    // Values appear up to the middle between their point and the next one.
    let middle =
        |at: usize| points.get(at + 1).map(|next| (to_f64(points[at].merges) + to_f64(next.merges)) / 2.0);
    let readings = points.iter().enumerate().map(|(at, Point { merges, text, .. })| {
        let from = at.checked_sub(1).and_then(middle).unwrap_or(0.0);
        let plural = if *merges == 1 { "" } else { "s" };
        let text = format!("{} merge{plural}: {text}", grouped(*merges));
        Reading { span: from..middle(at).unwrap_or(to_f64(last)), text }
    });
    draw(0.0..to_f64(last), 0.0..top, &|x| short(*x), &readings.collect::<Vec<_>>(), |chart| {
        for (line, colour) in (0..lines).zip(colours.iter().cycle()) {
            let points =
                points.iter().filter_map(|point| Some((to_f64(point.merges), *point.values.get(line)?)));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(4))).expect(DRAWN);
        }
    })
}

/// A chart with two axes that is drawn into a string.
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws axes and grid into an SVG, lets `series` draw the data, and adds the readings. `x` and `y` are the ranges of
/// the axes, and `label` formats positions on the horizontal one. Only horizontal lines of the grid are drawn.
fn draw<X, Y>(
    x: X,
    y: Y,
    label: &dyn Fn(&f64) -> String,
    readings: &[Reading],
    series: impl FnOnce(&mut Chart<'_, '_, X::CoordDescType, Y::CoordDescType>),
) -> String
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let (mut svg, mut titles) = (String::new(), String::new());
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(TOP)
            .margin_right(40)
            .x_label_area_size(64)
            .y_label_area_size(112)
            .build_cartesian_2d(x, y)
            .expect(DRAWN);
        chart
            .configure_mesh()
            .x_labels(7)
            .y_labels(5)
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE.stroke_width(2))
            .axis_style(RULE.stroke_width(2))
            .set_all_tick_mark_size(10)
            .label_style(("sans-serif", 40).into_font().color(&INK))
            .x_label_formatter(label)
            .y_label_formatter(&|y| short(*y))
            .draw()
            .expect(DRAWN);
        series(&mut chart);
        let bottom = chart.y_range().start;
        for Reading { span, text } in readings {
            let [(left, base), (right, _)] =
                [span.start, span.end].map(|x| chart.backend_coord(&(x, bottom)));
            let (width, height) = ((right - left).max(1), base - TOP);
            // Writing to a `String` never fails.
            let _ = writeln!(
                titles,
                "<rect class=\"at\" x=\"{left}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\"><title>{text}</title></rect>"
            );
        }
        area.present().expect(DRAWN);
    }
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    svg.insert_str(end, &titles);
    svg
}

/// A number in at most four digits: `850`, `12k`, `1.7M`. It has at most one decimal place, and none if that would be
/// 0.
fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n < 1e3 => (number, ""),
        n if n < 1e6 => (number / 1e3, "k"),
        n if n < 1e9 => (number / 1e6, "M"),
        n if n < 1e12 => (number / 1e9, "G"),
        _ => (number / 1e12, "T"),
    };
    let text = format!("{scaled:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::HistoryPoint;

    /// The texts that appear under the pointer, in order.
    fn titles(svg: &str) -> Vec<String> {
        let titles = svg.split("<title>").skip(1).filter_map(|rest| rest.split_once("</title>"));
        titles.map(|(title, _)| title.replace('\u{202F}', " ")).collect()
    }

    /// A single high count among many low ones is drawn and appears under the pointer, and the chart stays small.
    #[test]
    fn a_single_high_count_is_drawn() {
        let mut counts = vec![5; 200_000];
        counts[77_776] = 1_000_000;
        let svg = counts_by_rank(&counts);
        let line =
            svg.split("<polyline").nth(1).and_then(|rest| rest.split_once("points=\"")).expect("a line").1;
        let tops = line.split_once('"').expect("its end").0.split(' ').filter(|point| point.ends_with(",16"));
        assert_eq!(tops.count(), 1);
        let titles = titles(&svg);
        assert_eq!(titles.iter().filter(|title| title.ends_with("counts 5 to 1 000 000")).count(), 1);
        assert_eq!(titles[0], "merge 1: count 5");
        assert!(titles.last().is_some_and(|title| title.contains("to 200 000: counts 5 to 5")), "{titles:?}");
        assert!(svg.len() < 50_000, "{} bytes", svg.len());
    }

    /// Ranges of ranks have no gap, for any number of ranks.
    #[test]
    fn columns_cover_every_rank_once() {
        for ranks in [0, 1, 2, 7, 1_000, 50_000] {
            for most in [1, 10, 900] {
                let ranges = columns(ranks, most);
                assert!(ranges.len() <= most);
                let all: Vec<usize> = ranges.into_iter().flatten().collect();
                assert!(all.into_iter().eq(0..ranks), "{ranks} {most}");
            }
        }
    }

    /// Every point of the history appears under the pointer.
    #[test]
    fn every_point_of_a_curve_has_its_value() {
        let history = [(0, 9_000), (1, 8_500), (200, 3_000)];
        let history = history.map(|(merges, tokens)| HistoryPoint { merges, tokens }).into();
        let training = TrainingFacts { history, ..TrainingFacts::default() };
        let tokens = ["0 merges: 9 000 tokens", "1 merge: 8 500 tokens", "200 merges: 3 000 tokens"];
        assert_eq!(titles(&tokens_by_merges(&training)), tokens);
        assert_eq!(titles(&bytes_per_token(&training))[2], "200 merges: 3.000 bytes per token");
    }

    /// Bars have the true counts, also where one stands for several lengths.
    #[test]
    fn bars_have_true_counts() {
        let mut histogram = Histogram::default();
        [1, 40, 41, 41, 200, 300, 301].into_iter().for_each(|length| histogram.add(length));
        let each = titles(&of_each_length(&histogram, 64, "token"));
        let known =
            ["1 byte: 1 token", "40 bytes: 1 token", "41 bytes: 2 tokens", "64 to 319 bytes: 3 tokens"];
        assert_eq!(each, known);
        let doubled = titles(&of_each_doubling(&histogram, "document"));
        assert_eq!(doubled[1], "32 to 63 bytes: 3 documents");
        assert_eq!(doubled[3], "256 to 511 bytes: 2 documents");
    }
}
