//! Sites: groups of both phases and all layers that take one decision.
//!
//! Groups that read a weight or cache of one name are one site, whatever the function or phase; so are
//! the dispatch and the combine of rows. What an axis may be put to is what any of them allows.

use super::operators::Operators;
use crate::search::outer::space::{Mark, choice, gene};
use std::collections::BTreeSet;

/// A site.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// What its axes are genes of.
    pub mark: Mark,
    /// For reports: a name that its groups have in common.
    pub name: String,
    /// Names of the weights and caches that its groups read.
    stored: BTreeSet<String>,
    /// What an axis may be put to; nothing first.
    pub choices: Vec<Mark>,
    /// Whether prompts may gather its weights.
    pub gathers: bool,
}

/// The sites of both phases, and per phase, function and group its site.
pub(super) struct Sites {
    pub all: Vec<Site>,
    pub of: [Vec<Vec<Option<usize>>>; 2],
}

impl Sites {
    /// Joins the groups of prefill and decoding.
    pub fn of(phases: [&[Operators<'_>]; 2]) -> Self {
        let mut sites = Sites { all: Vec::new(), of: [Vec::new(), Vec::new()] };
        // Decoding first: its names are those of reports.
        for phase in [1, 0] {
            for ops in phases[phase] {
                let found = (0..ops.units.len()).map(|unit| sites.place(ops, unit)).collect();
                sites.of[phase].push(found);
            }
        }
        for site in &mut sites.all {
            site.finish();
        }
        sites
    }

    fn place(&mut self, ops: &Operators<'_>, unit: usize) -> Option<usize> {
        let mark = ops.decides(unit)?;
        let stored: BTreeSet<String> = ops.stored(unit).map(str::to_string).collect();
        let same = |s: &Site| match mark {
            gene::DISPATCH => s.mark == mark,
            _ => s.mark == mark && !s.stored.is_disjoint(&stored),
        };
        let at = self.all.iter().position(same).unwrap_or_else(|| {
            let name = match mark {
                gene::ATTENTION => "attention",
                gene::EXPERTS => "experts",
                gene::DISPATCH => "dispatch",
                _ => stored.first().map_or("", |s| s.trim_end_matches(".w")),
            };
            self.all.push(Site {
                mark,
                name: name.to_string(),
                stored: BTreeSet::new(),
                choices: vec![choice::IDLE],
                gathers: false,
            });
            self.all.len() - 1
        });
        let site = &mut self.all[at];
        site.stored.extend(stored);
        for &mark in ops.choices(unit).iter().filter(|m| **m != Mark::MAX) {
            if !site.choices.contains(&mark) {
                site.choices.push(mark);
            }
        }
        Some(at)
    }
}

impl Site {
    /// Orders choices and drops those that mean the same.
    fn finish(&mut self) {
        self.choices.sort_unstable();
        let has = |mark: Mark| self.choices.contains(&mark);
        let alike = [(choice::CACHED, choice::TOKENS), (choice::KV_HEADS, choice::GROUP)];
        // In one phase a prompt's tokens are what the cache holds; latent heads are of either kind.
        let drop_tokens = has(alike[0].0) && self.mark == gene::ATTENTION;
        if drop_tokens {
            self.choices.retain(|m| *m != choice::TOKENS);
        }
        if self.mark == gene::ATTENTION {
            // Replicas say which axes split the requests of attention.
            self.choices.retain(|m| *m != choice::REQUESTS);
        }
        let splits = [choice::COLUMNS, choice::SUMS, choice::KV_HEADS, choice::GROUP];
        let weights = !matches!(self.mark, gene::ATTENTION | gene::DISPATCH | gene::EXPERTS);
        self.gathers = weights && splits.iter().any(|m| self.choices.contains(m));
    }
}
