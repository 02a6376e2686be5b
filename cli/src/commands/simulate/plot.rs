//! Distributions of times and gauges over time, as SVG.

use super::Simulated;
use super::perfetto::pool_name;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use shardc::codes;
use shardc_cost::simulate::{Point, PoolStats, Request};
use shardc_ir::diag::{Diagnostic, Result};

/// Size of the drawing, pixels.
const SIZE: (u32, u32) = (1200, 900);
/// Points of a distribution's curve.
const POINTS: usize = 200;

/// A curve and its name.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws six panels: distributions of TTFT, TPOT and time to the last token; requests that run,
/// requests that wait, KV memory over time.
///
/// # Errors
/// `X902` where the drawing fails.
pub fn draw(simulated: &Simulated<'_>) -> Result<String> {
    let mut text = String::new();
    let drawn = panels(simulated, &SVGBackend::with_string(&mut text, SIZE).into_drawing_area());
    drawn.map_err(|error| Diagnostic::error(codes::DRAWING, error.to_string()))?;
    Ok(text)
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn panels(simulated: &Simulated<'_>, root: &Area<'_>) -> Drawn {
    root.fill(&WHITE)?;
    let done: Vec<&Request> = simulated.served.requests.iter().filter(|r| r.is_done()).collect();
    let times = |time: &dyn Fn(&Request) -> Option<u64>| {
        distribution(done.iter().filter_map(|r| time(r)).collect())
    };
    let gauge = |of: &dyn Fn(&Point, &PoolStats) -> f64| over_time(simulated, of);
    let areas = root.split_evenly((3, 2));
    shares(&areas[0], "TTFT", times(&|r| Some(r.ttft())))?;
    shares(&areas[2], "TPOT", times(&|r| r.tpot()))?;
    shares(&areas[4], "time to the last token", times(&|r| Some(r.e2e())))?;
    gauges(&areas[1], ("running", "requests"), &gauge(&|p, _| p.running as f64))?;
    gauges(&areas[3], ("waiting", "requests"), &gauge(&|p, _| p.waiting as f64))?;
    let kv = |p: &Point, pool: &PoolStats| {
        let memory = pool.kv_capacity.max(1) as f64 * pool.replicas.max(1) as f64;
        100.0 * p.kv_bytes as f64 / memory
    };
    gauges(&areas[5], ("KV memory in use", "%"), &gauge(&kv))?;
    root.present()?;
    Ok(())
}

/// Shares of requests by time in ms.
fn distribution(mut times: Vec<u64>) -> Curve {
    times.sort_unstable();
    let at = |i: usize| {
        let rank = i * times.len().saturating_sub(1) / POINTS;
        let time = times.get(rank).copied().unwrap_or(0);
        (time as f64 / 1e6, 100.0 * i as f64 / POINTS as f64)
    };
    Curve { name: String::new(), points: (0..=POINTS).map(at).collect() }
}

/// A gauge of each pool over time in seconds.
fn over_time(simulated: &Simulated<'_>, of: &dyn Fn(&Point, &PoolStats) -> f64) -> Vec<Curve> {
    let pools = &simulated.served.pools;
    let curve = |(i, pool): (usize, &PoolStats)| {
        let width = pool.series.width as f64;
        let points = pool.series.points.iter().enumerate();
        let points = points.map(|(k, p)| ((k as f64 + 0.5) * width / 1e9, of(p, pool) / width));
        Curve { name: pool_name(pools.len(), i).to_string(), points: points.collect() }
    };
    pools.iter().enumerate().map(curve).collect()
}

/// Shares of requests over whole decades of time.
fn shares(area: &Area<'_>, title: &str, curve: Curve) -> Drawn {
    let end = |point: Option<&(f64, f64)>| point.map_or(1.0, |p| p.0.max(1e-3)).log10();
    let (low, high) = (end(curve.points.first()).floor(), end(curve.points.last()).ceil());
    let decades = 10f64.powf(low)..10f64.powf(high.max(low + 1.0));
    panel(area, (title, "ms", "requests, %"), decades.log_scale(), 100.0, &[curve])
}

/// Gauges over time.
fn gauges(area: &Area<'_>, (title, unit): (&str, &str), curves: &[Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(1e-6, f64::max) * 1.02;
    panel(area, (title, "s", unit), 0.0..most(|p| p.0), most(|p| p.1), curves)
}

fn panel<X>(
    area: &Area<'_>,
    (title, x_name, y_name): (&str, &str, &str),
    x: X,
    most: f64,
    curves: &[Curve],
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(x, 0.0..most)?;
    let mut mesh = chart.configure_mesh();
    let label = |value: &f64| format!("{}", (value * 1e6).round() / 1e6);
    mesh.x_label_formatter(&label).y_label_formatter(&label);
    mesh.x_desc(x_name).y_desc(y_name).light_line_style(TRANSPARENT).draw()?;
    for (i, curve) in curves.iter().enumerate() {
        let colour = Palette99::pick(i).stroke_width(2);
        let series = chart.draw_series(LineSeries::new(curve.points.iter().copied(), colour))?;
        if curves.len() > 1 {
            let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour);
            series.label(&curve.name).legend(key);
        }
    }
    if curves.len() > 1 {
        chart.configure_series_labels().border_style(BLACK).draw()?;
    }
    Ok(())
}
