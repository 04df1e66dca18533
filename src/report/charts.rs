use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::TrainingFacts;
use super::compression::compression;
use crate::count::{Bin, Histogram};
use crate::units::{amount, float};

/// The colours below stand for roles; the page's style sheet gives each role its colour by them, light or
/// dark.
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const RULE: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
const LINE: RGBColor = RGBColor(0x32, 0x67, 0xB8);

const SIZE: (u32, u32) = (520, 300);
const DRAWN: &str = "a chart is drawn into memory";

/// Points of the chart of merge counts are at least this part of their rank apart.
const RANK_STEP: usize = 50;

/// Tokens left in the corpus against merges learned.
pub(super) fn tokens_by_merges(training: &TrainingFacts) -> String {
    let points: Vec<(u64, f64)> = training.history.iter().map(|p| (p.merges, float(p.tokens))).collect();
    curve(&points, short)
}

/// How many times fewer tokens than bytes, against merges learned.
pub(super) fn compression_by_merges(training: &TrainingFacts) -> String {
    curve(&compression(&training.history), |y| format!("{y:.1}×"))
}

/// The count of each merge against its rank, both logarithmic.
pub(super) fn counts_by_rank(counts: &[u64]) -> String {
    let mut points = Vec::new();
    let mut rank = 0;
    while rank < counts.len() {
        points.push((float(amount(rank + 1)), float(counts[rank].max(1))));
        rank += 1 + rank / RANK_STEP;
    }
    let last = float(amount(counts.len().max(2)));
    let top = points.iter().map(|&(_, count)| count).fold(10.0, f64::max);
    draw((1.0..last).log_scale(), (1.0..top).log_scale(), &|x| short(*x), &|y| short(*y), |chart| {
        chart.draw_series(LineSeries::new(points, LINE.stroke_width(2))).expect(DRAWN);
    })
}

/// A bar for each bin. The axis is linear for short lengths and logarithmic for long ones, as the bins are.
pub(super) fn bars(histogram: &Histogram) -> String {
    let bins = histogram.bins();
    let number = |length| amount(Histogram::bin_number(length));
    let first = bins.first().map_or(0, |bin| number(bin.from));
    let last = bins.last().map_or(0, |bin| number(bin.from));
    let top = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let label = |x: &f64| format_bin(*x);
    draw(float(first)..float(last + 1), 0.0..float(top), &label, &|y| short(*y), |chart| {
        let bar = |bin: &Bin| {
            let x = float(number(bin.from));
            let mut bar = Rectangle::new([(x, 0.0), (x + 1.0, float(bin.count))], LINE.filled());
            bar.set_margin(0, 0, 1, 1);
            bar
        };
        chart.draw_series(bins.iter().map(bar)).expect(DRAWN);
    })
}

/// The least length of the bin that begins at `x`.
fn format_bin(x: f64) -> String {
    let number: usize = format!("{x:.0}").parse().unwrap_or(0);
    short(float(Histogram::bounds(number).0))
}

fn curve(points: &[(u64, f64)], y_label: impl Fn(f64) -> String) -> String {
    let last = points.last().map_or(1, |&(merges, _)| merges).max(1);
    let top = points.iter().map(|&(_, y)| y).fold(1.0, f64::max);
    draw(0.0..float(last), 0.0..top, &|x| short(*x), &|y| y_label(*y), |chart| {
        let points = points.iter().map(|&(merges, y)| (float(merges), y));
        chart.draw_series(LineSeries::new(points, LINE.stroke_width(2))).expect(DRAWN);
    })
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws axes and grid, and lets `series` draw into them.
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

/// A number in at most four figures: `850`, `12k`, `1.7M`.
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
