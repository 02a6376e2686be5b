//! Drawings of a benchmark: the best so far, and what is reached in the end.

use super::case::Case;
use super::race::{Contestant, Run, contestants, quartiles};
use plotters::coord::Shift;
use plotters::prelude::*;
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};

/// Size of a drawing, pixels.
const SIZE: (u32, u32) = (1200, 640);
/// Points of a curve.
const POINTS: usize = 100;

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn drawing(draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(Into::into).and_then(|()| draw(&area))
    };
    drawn.map_err(|error| Diagnostic::error(codes::DRAWING, error.to_string()))?;
    Ok(text)
}

/// Medians of the best so far, as parts of the best known: against evaluations on the left, against
/// seconds on the right.
///
/// # Errors
/// `X902` where the drawing fails.
pub fn progress(title: &str, best: f64, runs: &[Run]) -> Result<String> {
    drawing(|area| {
        let most = runs.iter().map(|r| r.evaluations).max().unwrap_or(1) as f64;
        let slowest = runs.iter().map(|r| r.seconds).fold(1e-3, f64::max);
        let halves = area.titled(title, ("sans-serif", 20))?.split_evenly((1, 2));
        let after = |run: &Run, x: f64| run.after(x as u64);
        let by = |run: &Run, x: f64| {
            let until = run.steps.iter().take_while(|s| s.seconds <= x);
            until.last().map_or(0.0, |s| s.worth.max(0.0))
        };
        curves(&halves[0], "evaluations", most, best, runs, &after)?;
        curves(&halves[1], "seconds", slowest, best, runs, &by)?;
        area.present()?;
        Ok(())
    })
}

fn curves(
    area: &Area<'_>,
    name: &str,
    most: f64,
    best: f64,
    runs: &[Run],
    at: &dyn Fn(&Run, f64) -> f64,
) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..most, 0.0..1.02)?;
    chart
        .configure_mesh()
        .x_desc(name)
        .y_desc("median of the best so far / best known")
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (i, contestant) in contestants(runs).into_iter().enumerate() {
        let colour = Palette99::pick(i).stroke_width(2);
        let own: Vec<&Run> = runs.iter().filter(|r| r.contestant == contestant).collect();
        let point = |k: usize| {
            let x = most * k as f64 / POINTS as f64;
            let values: Vec<f64> = own.iter().map(|r| at(r, x) / best).collect();
            (x, quartiles(&values).0)
        };
        let series = chart.draw_series(LineSeries::new((0..=POINTS).map(point), colour))?;
        series
            .label(contestant.label())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    let place = SeriesLabelPosition::LowerRight;
    chart
        .configure_series_labels()
        .position(place)
        .border_style(BLACK)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// Of every case, the best found over the best reading of both Megatron rules, as bars.
///
/// # Errors
/// `X902` where the drawing fails.
pub fn ratios(cases: &[Case]) -> Result<String> {
    let of = |case: &Case| {
        let rules = ["megatron-2021", "megatron-folded"].map(|rule| case.megatron(rule));
        let generous = rules.into_iter().flatten().max_by(f64::total_cmp)?;
        Some((case.best() / generous, case.reached("degrees").map_or(1.0, |d| d / generous)))
    };
    let bars: Vec<(f64, f64)> = cases.iter().filter_map(of).collect();
    drawing(|area| {
        let most = bars.iter().map(|b| b.0).fold(1.2, f64::max) * 1.05;
        let mut chart = ChartBuilder::on(area)
            .caption("over the most generous reading of both Megatron rules", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..bars.len().max(1) as f64, 0.9..most)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_desc("case, in the order of the table")
            .y_desc("ratio")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (offset, colour, name, of) in [
            (0.1, BLUE, "best found", (|b: &(f64, f64)| b.0) as fn(&(f64, f64)) -> f64),
            (0.5, RED, "degrees", |b: &(f64, f64)| b.1),
        ] {
            let bar = |(i, b): (usize, &(f64, f64))| {
                let left = i as f64 + offset;
                Rectangle::new(
                    [(left, 0.9), (left + 0.4, of(b).max(0.9))],
                    colour.mix(0.6).filled(),
                )
            };
            chart.draw_series(bars.iter().enumerate().map(bar))?.label(name).legend(
                move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.mix(0.6).filled())
                },
            );
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
        area.present()?;
        Ok(())
    })
}

/// What every contestant reaches in the end, over all cases and seeds: median and quartiles, of what
/// `exact` reaches where it ran, else of the best known.
///
/// # Errors
/// `X902` where the drawing fails.
pub fn finals(cases: &[Case]) -> Result<String> {
    let all = contestants(cases.iter().flat_map(|c| &c.runs));
    let of = |contestant: &Contestant| -> (f64, f64, f64) {
        let own = |case: &Case| -> Vec<f64> {
            let whole = case.exact().unwrap_or(case.best()).max(f64::MIN_POSITIVE);
            let runs = case.runs.iter().filter(|r| r.contestant == *contestant);
            runs.map(|r| r.last() / whole).collect()
        };
        quartiles(&cases.iter().flat_map(own).collect::<Vec<f64>>())
    };
    let boxes: Vec<(f64, f64, f64)> = all.iter().map(of).collect();
    let to = if cases.iter().all(|c| c.exact().is_some()) { "exact" } else { "the best known" };
    drawing(|area| {
        let count = boxes.len().max(1);
        let most = boxes.iter().map(|b| b.2).fold(1.0, f64::max) * 1.02;
        let mut chart = ChartBuilder::on(area)
            .caption(format!("at the end, of {to}: median and quartiles"), ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(12)
            .build_cartesian_2d(0.0..most, 0.0..count as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (i, (median, low, high)) in boxes.iter().enumerate() {
            let (bottom, top) = (i as f64 + 0.2, i as f64 + 0.8);
            let range = Rectangle::new([(*low, bottom), (*high, top)], BLUE.mix(0.3).filled());
            chart.draw_series([range])?;
            let middle =
                PathElement::new([(*median, bottom), (*median, top)], BLUE.stroke_width(3));
            chart.draw_series([middle])?;
            let place = (most * 0.005, i as f64 + 0.6);
            chart.draw_series([Text::new(all[i].label(), place, ("sans-serif", 14))])?;
        }
        area.present()?;
        Ok(())
    })
}
