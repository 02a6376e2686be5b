//! What a plan yields at a limit on TPOT, read off its own frontier: between two batches of which one
//! meets the limit and the next does not, straight. So plans are compared at one TPOT, and a gain is
//! not that of a batch that just fits under the limit.

use super::candidate::{Evaluated, Evaluator};
use super::ready::{Ready, Terms};
use shardc_cost::serving::{Load, Serving};
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;

impl Evaluator<'_> {
    /// Output tokens a second and device of a plan at exactly this TPOT; what its largest batch yields
    /// where that stays below. `None` where no batch meets it.
    ///
    /// # Errors
    /// A pass refuses the plan's programs.
    pub fn at_tpot(&self, plan: &Evaluated, limit: Ns) -> Result<Option<f64>> {
        let lowered = self.lower_plan(plan, &mut |_, _, _| {})?;
        let ready = self.ready(&plan.degrees, lowered)?;
        let at = |batch: u64| serve_at(&ready, &self.terms(), batch);
        let meets = |serving: &Serving| serving.tpot <= limit;
        let Some(most) = at(self.load.max_batch) else { return Ok(None) };
        if meets(&most) {
            return Ok(Some(most.tokens_per_s_per_device));
        }
        let (mut low, mut high) = (None, most);
        let mut below = 0;
        while high.replica_batch - below > 1 {
            let Some(middle) = at(below + (high.replica_batch - below) / 2) else { break };
            if meets(&middle) {
                below = middle.replica_batch;
                low = Some(middle);
            } else {
                high = middle;
            }
        }
        Ok(low.map(|low| between(&low, &high, limit)))
    }
}

/// The service of a plan at a batch, without limits; `None` where not one request is served.
fn serve_at(ready: &Ready, terms: &Terms<'_>, batch: u64) -> Option<Serving> {
    let free = Load { ttft_limit: None, tpot_limit: None, concurrency: None, ..terms.load };
    let load = Load { batch: Some(batch), ..free };
    ready.serve(&Terms { load, ..*terms }).ok().map(|plan| plan.serving)
}

/// Throughput at a TPOT between those of two batches.
fn between(low: &Serving, high: &Serving, limit: Ns) -> f64 {
    let (a, b) = (low.tokens_per_s_per_device, high.tokens_per_s_per_device);
    let (from, to) = (low.tpot.as_f64(), high.tpot.as_f64());
    a + (b - a).max(0.0) * (limit.as_f64() - from) / (to - from)
}
