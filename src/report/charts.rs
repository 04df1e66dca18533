//! Charts of the report page, as SVG.
//!
//! Each function returns a complete `<svg>` element for the page. Charts without data are drawn with empty axes; the
//! page decides whether it shows them. All labels are formatted numbers, so no text has to be escaped.

use std::collections::BTreeMap;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::TrainingFacts;
use super::figures::compression;
use crate::base::int::{ratio, to_f64, to_u64, to_usize};
use crate::count::{Bin, Histogram};

/// Colour of labels. Like the two below, it only identifies a role: the page's style sheet selects elements by it and
/// gives each role its colour, light or dark.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of axes and grid lines.
const RULE: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// Colour of the data.
const LINE: RGBColor = RGBColor(0x32, 0x67, 0xB8);

/// Width and height of a chart in pixels.
const SIZE: (u32, u32) = (520, 300);
/// Message of panics that cannot happen: writing into a string never fails.
const DRAWN: &str = "a chart is drawn into memory";

/// Points in the chart of merge counts are at least 1/50 of their rank apart. On a logarithmic axis, more points
/// would lie on top of each other. The number of points grows with the logarithm of the number of merges.
const RANK_STEP: usize = 50;

/// Tokens that are left in the corpus, against merges learned. The points are those of the history, which training
/// records at regular steps.
pub(super) fn tokens_by_merges(training: &TrainingFacts) -> String {
    let points: Vec<(u64, f64)> = training.history.iter().map(|p| (p.merges, to_f64(p.tokens))).collect();
    curve(&points, short)
}

/// Compression (tokens before the first merge, divided by tokens left), against merges learned.
pub(super) fn compression_by_merges(training: &TrainingFacts) -> String {
    curve(&compression(&training.history), |y| format!("{y:.1}×"))
}

/// The count of each merge against its rank, on logarithmic axes. Ranks count from 1, since 0 has no logarithm. For
/// the same reason, a count of 0 is drawn as 1.
pub(super) fn counts_by_rank(counts: &[u64]) -> String {
    let mut points = Vec::new();
    let mut rank = 0;
    while rank < counts.len() {
        points.push((to_f64(to_u64(rank + 1)), to_f64(counts[rank].max(1))));
        rank += 1 + rank / RANK_STEP;
    }
    let last = to_f64(to_u64(counts.len().max(2)));
    let top = points.iter().map(|&(_, count)| count).fold(10.0, f64::max);
    draw((1.0..last).log_scale(), (1.0..top).log_scale(), &|x| short(*x), &|y| short(*y), |chart| {
        chart.draw_series(LineSeries::new(points, LINE.stroke_width(2))).expect(DRAWN);
    })
}

/// How many things have each length. The axis is linear for short lengths and logarithmic for long ones, as the
/// bins are. The bar of a bin with several lengths shows their mean.
pub(super) fn of_each_length(histogram: &Histogram) -> String {
    let bar = |bin: &Bin| (Histogram::bin_number(bin.from), ratio(bin.count, bin.to - bin.from + 1));
    bars(histogram.bins().iter().map(bar).collect(), |number| Histogram::bounds(number).0)
}

/// How many things have a length of 0, of 1, of 2–3, of 4–7, and so on.
pub(super) fn of_each_doubling(histogram: &Histogram) -> String {
    let mut heights = BTreeMap::new();
    for bin in histogram.bins() {
        *heights.entry(to_usize(bin.from.checked_ilog2().map_or(0, |power| power + 1))).or_default() +=
            bin.count;
    }
    let bars_of = heights.into_iter().map(|(number, count)| (number, to_f64(count))).collect();
    bars(bars_of, |number| number.checked_sub(1).map_or(0, |power| 1 << power.min(63)))
}

/// A bar chart. `bars` has the middle of each bar on the axis, ascending, and its height. `length` gives the
/// length at which a position of the axis begins.
fn bars(bars: Vec<(usize, f64)>, length: impl Fn(usize) -> u64) -> String {
    let first = bars.first().map_or(0, |&(place, _)| to_u64(place));
    let last = bars.last().map_or(0, |&(place, _)| to_u64(place));
    let top = bars.iter().map(|&(_, height)| height).fold(1.0, f64::max);
    // Only whole positions have a length, and so a label.
    let label = |x: &f64| x.to_string().parse().map_or_else(|_| String::new(), |x| short(to_f64(length(x))));
    draw(to_f64(first) - 0.5..to_f64(last) + 0.5, 0.0..top, &label, &|y| short(*y), |chart| {
        let bar = |(place, height)| {
            let x = to_f64(to_u64(place));
            let mut bar = Rectangle::new([(x - 0.5, 0.0), (x + 0.5, height)], LINE.filled());
            bar.set_margin(0, 0, 1, 1);
            bar
        };
        chart.draw_series(bars.into_iter().map(bar)).expect(DRAWN);
    })
}

/// A line chart of `points`, against merges learned.
fn curve(points: &[(u64, f64)], y_label: impl Fn(f64) -> String) -> String {
    let last = points.last().map_or(1, |&(merges, _)| merges).max(1);
    let top = points.iter().map(|&(_, y)| y).fold(1.0, f64::max);
    draw(0.0..to_f64(last), 0.0..top, &|x| short(*x), &|y| y_label(*y), |chart| {
        let points = points.iter().map(|&(merges, y)| (to_f64(merges), y));
        chart.draw_series(LineSeries::new(points, LINE.stroke_width(2))).expect(DRAWN);
    })
}

/// A chart with two axes that is drawn into a string.
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws axes and grid into an SVG, and lets `series` draw the data. `x` and `y` are the ranges of the axes, and the
/// label functions format positions on them. Only horizontal lines of the grid are drawn.
fn draw<X, Y>(
    x: X,
    y: Y,
    x_label: &dyn Fn(&f64) -> String,
    y_label: &dyn Fn(&f64) -> String,
    series: impl FnOnce(&mut Chart<'_, '_, X::CoordDescType, Y::CoordDescType>),
) -> String
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(20)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(x, y)
            .expect(DRAWN);
        chart
            .configure_mesh()
            .x_labels(7)
            .y_labels(5)
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE)
            .axis_style(RULE)
            .label_style(("sans-serif", 20).into_font().color(&INK))
            .x_label_formatter(x_label)
            .y_label_formatter(y_label)
            .draw()
            .expect(DRAWN);
        series(&mut chart);
        area.present().expect(DRAWN);
    }
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
