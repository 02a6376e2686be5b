//! What times rest on: how much of a sum was measured, read between measurements, modelled or
//! guessed, and how far it may be off.

use super::price::{self, Category, Priced};
use super::{Pricing, StepModel, Work, requests, scaled, with_host};
use shardc_cost::profile::Overlap;
use shardc_cost::source::Source;
use shardc_cost::time::Ns;
use shardc_ir::dim::Bindings;

/// How a number was obtained, from firm to loose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// A measured point.
    Measured,
    /// Between measured points.
    Interpolated,
    /// A formula, or a measurement carried to another machine or size.
    Modelled,
    /// Nobody measured anything like it.
    Guessed,
}

impl Ground {
    /// Every ground, in order.
    pub const ALL: [Ground; 4] =
        [Ground::Measured, Ground::Interpolated, Ground::Modelled, Ground::Guessed];

    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Ground::Measured => "measured",
            Ground::Interpolated => "interpolated",
            Ground::Modelled => "modelled",
            Ground::Guessed => "guessed",
        }
    }
}

impl From<Source> for Ground {
    fn from(source: Source) -> Self {
        match source {
            Source::Measured => Ground::Measured,
            Source::Interpolated => Ground::Interpolated,
            Source::Modelled => Ground::Modelled,
        }
    }
}

/// Relative error of the host's time of a step: a guess about a guess.
const HOST_ERROR: f64 = 0.5;

/// What a sum of times rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Basis {
    /// Time by ground.
    parts: [Ns; 4],
    /// Sum of the errors of the parts, ns: as if all erred the same way.
    off: f64,
}

impl Basis {
    /// Adds a time and its relative error.
    pub fn add(&mut self, ground: Ground, time: Ns, error: f64) {
        self.parts[ground as usize] += time;
        self.off += time.as_f64() * error;
    }

    /// Both sums together.
    pub fn with(mut self, other: &Basis) -> Basis {
        for (part, more) in self.parts.iter_mut().zip(other.parts) {
            *part += more;
        }
        self.off += other.off;
        self
    }

    /// The sum.
    pub fn total(&self) -> Ns {
        self.parts.iter().copied().sum()
    }

    /// Time by ground, firm ones first.
    pub fn parts(&self) -> impl Iterator<Item = (Ground, Ns)> {
        Ground::ALL.into_iter().zip(self.parts)
    }

    /// The ground of most of the time; the looser one of equals.
    pub fn ground(&self) -> Ground {
        let most = self.parts().max_by_key(|(_, time)| *time);
        most.map_or(Ground::Guessed, |(ground, _)| ground)
    }

    /// Relative half-width of what to expect.
    pub fn error(&self) -> f64 {
        self.off / self.total().as_f64().max(1.0)
    }
}

/// A piece of a step with its price.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Pipeline stage.
    pub stage: usize,
    /// Function and value that it computes.
    pub label: &'a str,
    /// Where reports count it.
    pub category: Category,
    /// Products that one kernel computes; 1 of other work.
    pub products: usize,
    /// Executions in a step.
    pub times: u64,
    /// One execution.
    pub priced: Priced,
}

impl Line<'_> {
    /// Time in a step.
    pub fn time(&self) -> Ns {
        scaled(self.priced.time, self.times)
    }
}

impl StepModel {
    /// Every piece of a step with its price, stage by stage in order of execution.
    pub fn lines(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<Line<'_>> {
        let (pricer, fabric) = pricing.models();
        let stages = self.stages.iter().enumerate();
        let items = stages.flat_map(|(stage, items)| items.iter().map(move |item| (stage, item)));
        items
            .map(|(stage, item)| Line {
                stage,
                label: &item.label,
                category: item.work.category(),
                products: match &item.work {
                    Work::Gemm { n, .. } => n.len(),
                    _ => 1,
                },
                times: item.times,
                priced: price::price(&item.work, &pricer, &fabric, bind),
            })
            .collect()
    }

    /// What each stage saves by collectives that run beside kernels.
    pub fn hidden(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<Ns> {
        let lines = self.lines(pricing, bind);
        self.saved(&lines, &self.busy(&lines, pricing, bind))
    }

    /// What each stage saves by being busy for less time than in turns.
    fn saved(&self, lines: &[Line<'_>], busy: &[Ns]) -> Vec<Ns> {
        let in_turns = self.in_turns(lines);
        in_turns.iter().zip(busy).map(|(all, busy)| all.saturating_sub(*busy)).collect()
    }

    /// Time of each stage on the device where nothing runs beside anything.
    fn in_turns(&self, lines: &[Line<'_>]) -> Vec<Ns> {
        let mut sums = vec![Ns::ZERO; self.stages.len()];
        lines.iter().for_each(|line| sums[line.stage] += line.time());
        sums
    }

    /// Time of each stage on the device.
    fn busy(&self, lines: &[Line<'_>], pricing: Pricing<'_>, bind: &Bindings) -> Vec<Ns> {
        match pricing.profile.overlap {
            Overlap::None => self.in_turns(lines),
            Overlap::Streams { .. } => self.device_times(pricing, bind),
        }
    }

    /// What the times of [`breakdown`](Self::breakdown) rest on.
    pub fn bases(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<(Category, Basis)> {
        let mut out: Vec<(Category, Basis)> = Vec::new();
        let mut add = |category, ground, time, error| match out.iter_mut().find(|b| b.0 == category)
        {
            Some((_, basis)) => basis.add(ground, time, error),
            None => {
                let mut basis = Basis::default();
                basis.add(ground, time, error);
                out.push((category, basis));
            }
        };
        let lines = self.lines(pricing, bind);
        let busy = self.busy(&lines, pricing, bind);
        let mut hidden = self.saved(&lines, &busy);
        for line in lines {
            let mut time = line.time();
            if line.category == Category::Communication {
                let left = &mut hidden[line.stage];
                let beside = time.min(*left);
                (time, *left) = (time.saturating_sub(beside), left.saturating_sub(beside));
            }
            add(line.category, line.priced.source.into(), time, line.priced.error);
        }
        for (items, device) in self.stages.iter().zip(busy) {
            let step = with_host(device, items, requests(items, bind), pricing.profile, bind);
            add(Category::Host, Ground::Guessed, step.saturating_sub(device), HOST_ERROR);
        }
        out.sort_by_key(|(category, _)| *category);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_rests_on_its_largest_part() {
        let mut basis = Basis::default();
        basis.add(Ground::Measured, Ns::new(100), 0.03);
        basis.add(Ground::Modelled, Ns::new(300), 0.2);
        assert_eq!((basis.total(), basis.ground()), (Ns::new(400), Ground::Modelled));
        assert!((basis.error() - 63.0 / 400.0).abs() < 1e-12);
        assert_eq!(basis.with(&basis).total(), Ns::new(800));
    }
}
