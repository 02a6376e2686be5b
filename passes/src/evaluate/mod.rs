//! What a local program costs: time of a step, memory of a device, collectives of a step.
//!
//! A program is read once into [`StepModel`]: priced pieces of work over symbolic extents. The
//! search then asks for many batch sizes without touching the IR again.

mod basis;
mod collect;
mod fuse;
mod memory;
mod mixed;
mod overlap;
mod price;
mod work;

pub use basis::{Basis, Ground, Line};
pub use memory::MemoryModel;
pub use mixed::{MixedSizes, MixedSteps, Shared};
pub use price::{Breakdown, Category, Priced};
pub(crate) use price::{collective, price};
pub use work::{Comm, Extent, Work};

use overlap::Streams;
use shardc_cost::collective::Fabric;
use shardc_cost::machine::Cluster;
use shardc_cost::ops::Pricer;
use shardc_cost::profile::Profile;
use shardc_cost::serving::StepTime;
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, FuncKind, Inst, Module};
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// A piece of work and how often one step does it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Function and value that it computes, for reports.
    pub label: String,
    /// The work.
    pub work: Work,
    /// Executions per step.
    pub times: u64,
    /// Which of the stretches between meetings of all streams it is in.
    pub segment: usize,
    /// Its number in the stage.
    pub number: u32,
    /// The items of its segment whose results it reads.
    pub needs: Vec<u32>,
}

/// The work of one step, stage by stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepModel {
    /// Per pipeline stage.
    pub stages: Vec<Vec<Item>>,
}

/// The machine that prices a step.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    /// Devices and links.
    pub cluster: &'a Cluster,
    /// Whose kernels and collectives.
    pub profile: &'a Profile,
}

impl StepModel {
    /// Reads a local module.
    ///
    /// # Errors
    /// `S101` at another level.
    pub fn of(module: &Module, cluster: &Cluster) -> Result<Self> {
        crate::precondition::level(module, "evaluate", shardc_ir::graph::Level::Local)?;
        let mesh = crate::precondition::mesh(module, "evaluate")?;
        let programs: Vec<_> =
            module.funcs.values().filter(|f| f.kind == FuncKind::Program).collect();
        let reader =
            collect::Reader { module, mesh: &mesh, cluster, stages: programs.len() as u64 };
        let stages = programs.iter().enumerate();
        Ok(StepModel { stages: stages.map(|(i, p)| reader.program(p, i as u64)).collect() })
    }

    /// The same step with a kernel for each product, where engines have one for all of an operand.
    #[must_use]
    pub fn with_products_apart(&self) -> StepModel {
        let apart = |item: &Item| match &item.work {
            Work::Gemm { batch, m, n, k, operands } => {
                let one = |n: &Extent| Work::Gemm {
                    batch: batch.clone(),
                    m: m.clone(),
                    n: vec![n.clone()],
                    k: k.clone(),
                    operands: *operands,
                };
                n.iter().map(|n| Item { work: one(n), ..item.clone() }).collect()
            }
            _ => vec![item.clone()],
        };
        let stage = |items: &Vec<Item>| items.iter().flat_map(apart).collect();
        StepModel { stages: self.stages.iter().map(stage).collect() }
    }

    /// Time of each stage, host time included.
    pub fn stage_times(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<Ns> {
        self.stages.iter().map(|items| stage_time(items, pricing, bind)).collect()
    }

    /// Time of each stage on the device.
    pub fn device_times(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<Ns> {
        self.stages.iter().map(|items| device_time(items, pricing, bind)).collect()
    }

    /// Time of a step through all stages, and the interval between micro-batches.
    pub fn time(&self, pricing: Pricing<'_>, bind: &Bindings) -> StepTime {
        StepTime::of_stages(self.stage_times(pricing, bind))
    }

    /// Time by category, all stages together; of communication, what is not hidden behind kernels.
    pub fn breakdown(&self, pricing: Pricing<'_>, bind: &Bindings) -> Breakdown {
        Breakdown::of(&self.bases(pricing, bind))
    }

    /// What the host adds to the device's time of each stage.
    pub fn host_times(&self, pricing: Pricing<'_>, bind: &Bindings) -> Vec<Ns> {
        let of_stage = |items: &Vec<Item>| {
            let device = device_time(items, pricing, bind);
            let requests = requests(items, bind);
            with_host(device, items, requests, pricing.profile, bind).saturating_sub(device)
        };
        self.stages.iter().map(of_stage).collect()
    }

    /// Collectives that one device of the busiest stage executes in one step, by name.
    pub fn collectives(&self) -> BTreeMap<&'static str, u64> {
        let count = |items: &Vec<Item>| {
            let mut out: BTreeMap<&'static str, u64> = BTreeMap::new();
            for item in items {
                if let Work::Communicate(comm) = &item.work {
                    *out.entry(comm.name).or_default() += item.times;
                }
            }
            out
        };
        let counts = self.stages.iter().map(count);
        counts.max_by_key(|c| c.values().sum::<u64>()).unwrap_or_default()
    }
}

/// The work of those instructions of a function that `wanted` names, fused as engines fuse;
/// extents may be symbols that the module does not declare.
pub(crate) fn work_of(
    module: &Module,
    func: &Func,
    cluster: &Cluster,
    wanted: &dyn Fn(Inst) -> bool,
) -> Vec<Work> {
    let mesh = Mesh::new("m", []);
    let reader = collect::Reader { module, mesh: &mesh, cluster, stages: 1 };
    reader.some(func, wanted)
}

/// As [`work_of`], with the mesh of the module, which says who communicates.
pub(crate) fn work_on(
    module: &Module,
    func: &Func,
    cluster: &Cluster,
    wanted: &dyn Fn(Inst) -> bool,
) -> Vec<Work> {
    let none = Mesh::new("m", []);
    let mesh = module.mesh.as_ref().unwrap_or(&none);
    let reader = collect::Reader { module, mesh, cluster, stages: 1 };
    reader.some(func, wanted)
}

impl<'a> Pricing<'a> {
    /// The models of operators and of collectives.
    pub fn models(self) -> (Pricer<'a>, Fabric<'a>) {
        (Pricer::new(&self.cluster.device, self.profile), self.fabric())
    }

    /// How a device runs a step.
    fn streams(self) -> Streams {
        Streams::of(self.profile.overlap, self.cluster.device.multiprocessors)
    }

    /// The model of collectives alone, which costs nothing to make.
    pub fn fabric(self) -> Fabric<'a> {
        Fabric::new(self.cluster, self.profile)
    }
}

fn stage_time(items: &[Item], pricing: Pricing<'_>, bind: &Bindings) -> Ns {
    let device = device_time(items, pricing, bind);
    with_host(device, items, requests(items, bind), pricing.profile, bind)
}

fn device_time(items: &[Item], pricing: Pricing<'_>, bind: &Bindings) -> Ns {
    let (pricer, fabric) = pricing.models();
    let time = |item: &Item| price::price(&item.work, &pricer, &fabric, bind).time.as_f64();
    pricing.streams().time(items, time)
}

/// A stage's step that gives so many requests a token, on the device and on the host.
fn with_host(device: Ns, items: &[Item], requests: u64, profile: &Profile, bind: &Bindings) -> Ns {
    if device.is_infinite() {
        return device;
    }
    let launched = launched(items, profile, bind);
    Ns::from_ns(profile.host.step(device.as_f64(), requests, launched))
}

/// Requests of the attention of a stage; 0 where there is none.
fn requests(items: &[Item], bind: &Bindings) -> u64 {
    attends(items, bind).map_or(0, |(requests, _)| requests)
}

/// Requests and new tokens of the attention of a stage, if there is any.
fn attends(items: &[Item], bind: &Bindings) -> Option<(u64, u64)> {
    items.iter().find_map(|item| match &item.work {
        Work::Attention { requests, new, .. } => Some((requests.eval(bind), new.eval(bind))),
        _ => None,
    })
}

/// Kernels that the host launches one by one. Steps of prompts are launched so; a CUDA graph launches
/// those of decoding, if there are any.
fn launched(items: &[Item], profile: &Profile, bind: &Bindings) -> u64 {
    let decodes = attends(items, bind).is_none_or(|(_, new)| new == 1);
    match decodes && profile.cuda_graphs {
        true => 0,
        false => items.iter().fold(0, |n: u64, item| n.saturating_add(item.times)),
    }
}

fn scaled(time: Ns, times: u64) -> Ns {
    if time.is_infinite() { time } else { Ns::new(time.get().saturating_mul(times)) }
}
