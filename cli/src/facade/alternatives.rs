//! A request asked otherwise: on more devices, in other formats, with other limits.

use super::plan::Programs;
use super::{Model, ModelRequest, Request, read_model};
use shardc_cost::machine::{self, Cluster};
use shardc_frontend::spec::DType;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::search::{
    Asked, Evaluator, Found, NothingFits, Outcome, Requests, explain_infeasible, legal_degrees,
    search_any, search_some,
};
use shardc_passes::strategy::{Degrees, Facts};
use std::collections::BTreeMap;

/// Explains why nothing satisfies a request.
pub(super) fn explain(
    request: &Request,
    model: &Model,
    nothing: NothingFits,
) -> Result<Box<Diagnostic>> {
    let asked = Asked {
        devices: request.cluster.devices(),
        weights_f8: false,
        cache_f8: false,
        max_len: request.context(),
        mem_fraction: request.mem_fraction,
        load: request.load,
        method: request.method,
        forced: request.layout,
        pins: request.pins.is_some(),
    };
    let mut world = Alternatives { request, model, programs: BTreeMap::new(), budget: MAX_LOWERED };
    explain_infeasible(&asked, nothing, &request.cluster, &mut world)
}

/// Plans that are lowered and refused before no further change is looked for.
const MAX_LOWERED: usize = 128;

/// The request with what is needed to ask it otherwise.
struct Alternatives<'a> {
    request: &'a Request,
    model: &'a Model,
    /// Programs by whether weights and caches are in 8 bits.
    programs: BTreeMap<(bool, bool), Programs>,
    /// Plans that may still be lowered to find changes.
    budget: usize,
}

impl Alternatives<'_> {
    fn programs(&mut self, formats: (bool, bool)) -> Result<&Programs> {
        use std::collections::btree_map::Entry;
        match self.programs.entry(formats) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let model = &self.request.model;
                let eight = |wanted: bool, own| if wanted { Some(DType::F8E4M3) } else { own };
                let changed = ModelRequest {
                    dtype: eight(formats.0, model.dtype),
                    kv_dtype: eight(formats.1, model.kv_dtype),
                    ..model.clone()
                };
                let programs = match formats {
                    (false, false) => Programs::of(self.model)?,
                    _ => Programs::of(&read_model(&changed)?)?,
                };
                Ok(entry.insert(programs))
            }
        }
    }

    /// Asks the evaluator of a request.
    fn with<T>(
        &mut self,
        asked: &Asked,
        ask: impl FnOnce(&Evaluator<'_>) -> Result<T>,
    ) -> Result<T> {
        let request = self.request;
        let cluster = match asked.devices == request.cluster.devices() {
            true => request.cluster.clone(),
            false => grown(self.pool(), asked.devices)?,
        };
        let programs = self.programs((asked.weights_f8, asked.cache_f8))?;
        let mut evaluator = Evaluator::new(
            &programs.prefill,
            &programs.decode,
            &cluster,
            &request.profile,
            asked.load,
            asked.max_len,
            asked.mem_fraction,
            request.pins.as_deref().filter(|_| asked.pins),
        );
        evaluator.stage_layers = request.stages.as_deref().filter(|_| asked.forced.is_some());
        ask(&evaluator)
    }

    /// The nodes that more devices come from.
    fn pool(&self) -> &Cluster {
        self.request.pool.as_ref().unwrap_or(&self.request.cluster)
    }
}

impl Requests for Alternatives<'_> {
    fn attempt(&mut self, asked: &Asked) -> Result<Outcome> {
        self.with(asked, |evaluator| search_any(evaluator, asked.method, asked.forced))
    }

    fn possible(&mut self, asked: &Asked) -> Result<Option<Found>> {
        let mut budget = self.budget;
        let found = self.with(asked, |evaluator| {
            search_some(evaluator, asked.method, asked.forced, &mut budget)
        });
        self.budget = budget;
        found
    }

    fn more_devices(&self) -> Vec<(u64, String)> {
        let (pool, now) = (self.pool(), self.request.cluster.devices());
        let node = pool.node.devices;
        let inside = (1..=node).filter(|n| *n > now);
        let whole = (2..=pool.network.max_nodes).map(|n| n * node).filter(|n| *n > now);
        let flag = |devices| match devices <= pool.devices() {
            true => format!("--gpus {devices}"),
            false => larger(pool, devices / node),
        };
        inside.chain(whole).map(|devices| (devices, flag(devices))).take(128).collect()
    }

    fn layouts(&self, devices: u64) -> Vec<Degrees> {
        let mut layouts = legal_degrees(&Facts::of(&self.model.logical), devices);
        // Searches leave context parallelism to the user, who asked for it here.
        if self.request.layout.is_some_and(|forced| forced.cp > 1) {
            let split: Vec<Degrees> = layouts.iter().flat_map(|d| d.with_context()).collect();
            layouts.extend(split);
        }
        layouts
    }

    fn weight_bits(&self) -> u64 {
        let spec = &self.model.spec;
        spec.quantisation.scheme.as_ref().map_or(spec.dtype, |s| s.storage.dtype).bits()
    }

    fn cache_bits(&self) -> u64 {
        self.model.kv_dtype.bits()
    }
}

/// A cluster of so many devices of the same kind: part of a node, or whole nodes.
fn grown(pool: &Cluster, devices: u64) -> Result<Cluster> {
    let nodes = devices.div_ceil(pool.node.devices.max(1)).max(pool.nodes);
    Cluster { nodes, ..pool.clone() }.take(devices)
}

/// How a cluster of so many of these nodes is asked for.
fn larger(pool: &Cluster, nodes: u64) -> String {
    let one = match pool.nodes {
        1 => pool.name.as_str(),
        n => pool.name.strip_suffix(&format!("x{n}")).unwrap_or(&pool.name),
    };
    let name = format!("{one}x{nodes}");
    let is_preset = machine::preset(&name)
        .is_ok_and(|c| c.devices() == nodes * pool.node.devices && c.device == pool.device);
    if is_preset { format!("--cluster {name}") } else { format!("cluster.nodes = {nodes}") }
}
