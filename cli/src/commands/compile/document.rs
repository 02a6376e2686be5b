//! A plan as JSON: the summary that `--json` prints, and `plan.json` with everything else.

use super::{RequestArgs, layouts};
use crate::commands::check::certificate;
use crate::commands::clusters::constants;
use crate::failure;
use serde_json::{Map, Value, json};
use shardc::facade::{self, Exchange, PhasePlan, Plan, Request};
use shardc_cost::memory::Memory;
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, FuncKind, Module};
use shardc_ir::launch::Source;
use shardc_ir::mesh::AxisRef;
use shardc_ir::text::{print, show_type};
use shardc_ir::weights;
use shardc_passes::search::bindings;
use shardc_passes::strategy::megatron::Phase;

/// Version of the schema of `plan.json`; grows when keys change their meaning.
pub const SCHEMA: u64 = 1;

/// The value of the key `generator` of every `plan.json`.
pub const GENERATOR: &str = "shardc";

/// Groups whose rank lists are written.
const GROUPS: [&str; 8] = ["tp", "tp_kv", "tp_group", "cp", "dp", "etp", "ep", "edp"];

/// A plan with what it was asked for.
pub struct Document<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The request.
    pub request: &'a Request,
    /// The command line.
    pub args: &'a RequestArgs,
}

impl Document<'_> {
    /// What `--json` prints.
    pub fn summary(&self, files: &[String]) -> Value {
        let plan = self.plan;
        let serving = &plan.best.serving;
        let mut out = json!({
            "model": self.model(),
            "cluster": {
                "devices": plan.cluster.devices(),
                "nodes": plan.cluster.nodes,
                "name": plan.cluster.name,
                "device": plan.cluster.device.name,
            },
            "plan": {
                "search": self.search(),
                "evaluations": plan.evaluations,
                "phases": plan.phases.iter().map(|p| self.phase(p)).collect::<Vec<_>>(),
                "memory": memory(&plan.best.memory),
                "throughput_tokens_per_s_per_gpu": serving.tokens_per_s_per_device,
                "ttft_ms": serving.ttft.as_ms(),
                "tpot_ms": serving.tpot.as_ms(),
                "batch": serving.batch,
                "chunk_tokens": plan.best.chunk,
                "limited_by": super::screen::limit(serving.limited_by),
                "profile": self.request.profile.name,
            },
            "sources": super::sources::to_json(plan),
            "warnings": plan.notes.iter().map(|n| failure::to_json(n, None)).collect::<Vec<_>>(),
            "files": files,
        });
        if let Some(chosen) = &plan.chosen {
            out["plan"]["auto"] = json!({ "ran": chosen.name, "why": chosen.why });
        }
        if let Some(reading) = plan.reading {
            out["plan"]["reading"] = json!(reading.name());
        }
        if let Some(algebra) = &plan.best.algebra {
            out["plan"]["algebra"] = super::algebra::to_json(algebra);
        }
        if let Some(proof) = &plan.proof {
            out["plan"]["lower_bound"] = json!(proof.least_ns());
            out["plan"]["gap"] = json!(proof.gap());
            out["plan"]["proof"] = layouts::proof(proof);
        }
        out
    }

    /// Every file of the plan's directory: path and text, in order.
    ///
    /// Errors: a program that no launch plan can say, or that no certificate can be written for.
    pub fn files(&self) -> Result<Vec<(String, String)>> {
        let (mut files, mut programs, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for phase in &self.plan.phases {
            let (first, mut last) = (files.len(), String::new());
            for (i, (pass, module)) in phase.dumps.iter().enumerate() {
                let text = print(module);
                if text != last {
                    let name = format!("ir/{}/{:02}-{pass}.sir", phase.phase.name(), i + 1);
                    files.push((name, text.clone()));
                    last = text;
                }
            }
            if let (Some(logical), Some(local)) = (files.get(first), files.last()) {
                let source = |(name, text): &(String, String)| Source::of(name, text);
                programs.push(local.0.clone());
                sources.push([source(logical), source(local)]);
            }
        }
        for plan in facade::launch_plans(self.request, self.plan, &programs)? {
            files.push((format!("launch/{}.json", plan.phase), plan.to_text()));
        }
        let certificate = facade::certificate(self.plan, &sources)?;
        files.push((certificate::FILE.to_string(), certificate.to_text()));
        let maps = facade::checked_sources(&self.plan.model)?;
        files.insert(0, (weights::FILE.to_string(), weights::to_text(&maps)));
        files.insert(0, ("schedule.toml".to_string(), self.schedule()));
        let mut names = vec!["plan.json".to_string()];
        names.extend(files.iter().map(|(name, _)| name.clone()));
        files.insert(0, ("plan.json".to_string(), format!("{:#}\n", self.full(&names))));
        Ok(files)
    }

    /// The text of `schedule.toml`.
    fn schedule(&self) -> String {
        let (model, cluster) = (&self.plan.model.spec.name, &self.plan.cluster.name);
        format!(
            "# Every decision of a plan of {model} on {cluster}. Change a line, and compile again:\n\
             # shardc compile MODEL --cluster NAME --schedule schedule.toml\n\n{}",
            self.plan.schedule.to_toml()
        )
    }

    /// The text of `plan.json`; no path but those inside the directory is in it.
    fn full(&self, files: &[String]) -> Value {
        let mut out = json!({ "generator": GENERATOR, "schema_version": SCHEMA });
        if let (Value::Object(out), Value::Object(summary)) = (&mut out, self.summary(files)) {
            out.extend(summary);
        }
        out["sources"]["constants"] = constants(&self.plan.cluster);
        out["request"] = self.echo();
        out["mesh"] = self.mesh();
        out["stages"] = self.stages();
        if self.plan.best.layouts.is_some() {
            let of = |p: &PhasePlan| (p.phase.name().to_string(), layouts::assignments(p));
            out["assignments"] = Value::Object(self.plan.phases.iter().map(of).collect());
        }
        out["replica_groups"] = self.replica_groups();
        out
    }

    /// The name of the search, or `layout` or `schedule` where the user decided.
    pub fn search(&self) -> &str {
        match (&self.request.schedule, self.request.layout) {
            (Some(_), _) => "schedule",
            (None, Some(_)) => "layout",
            (None, None) => &self.args.search,
        }
    }

    fn model(&self) -> Value {
        let (model, spec) = (&self.plan.model, &self.plan.model.spec);
        json!({
            "name": spec.name,
            "family": spec.family,
            "parameters": spec.parameters().ok(),
            "active_parameters": spec.active_parameters().ok(),
            "kv_bytes_per_token": spec.kv_bytes_per_token(model.kv_dtype),
            "layers": spec.layers.len(),
            "architecture": spec.architecture,
            "dtype": spec.dtype.name(),
            "quantisation": spec.quantisation.scheme.as_ref().map(|s| &s.method),
            "kv_dtype": model.kv_dtype.name(),
            "weight_bytes": spec.weight_bytes().ok(),
            "max_positions": spec.max_positions,
        })
    }

    fn phase(&self, phase: &PhasePlan) -> Value {
        let d = layouts::headline(&self.plan.best, phase.phase);
        let times = phase.breakdown.times.iter();
        let breakdown: Map<String, Value> =
            times.map(|(category, ns)| (category.name().to_string(), json!(ns.get()))).collect();
        json!({
            "name": phase.phase.name(),
            "tp": d.tp,
            "pp": self.plan.best.degrees.pp,
            "dp": d.dp,
            "cp": d.cp,
            "kvp": d.kvp,
            "rep": d.rep,
            "ep": d.ep,
            "etp": d.etp,
            "edp": d.edp,
            "mixed": phase.mixed,
            "time_ns": phase.time_ns,
            "collectives": of_step(phase),
            "expert_exchange": phase.exchange.map(Exchange::name),
            "micro_batches": phase.micro_batches,
            "micro_batch_interval_ns": phase.interval_ns,
            "micro_batch_requests": phase.requests,
            "micro_batch_tokens": phase.tokens,
            "micro_batch_ns": breakdown,
        })
    }

    /// What was asked, with defaults filled in.
    fn echo(&self) -> Value {
        let (request, args) = (self.request, self.args);
        let load = &request.load;
        json!({
            "cluster": self.plan.cluster.name,
            "devices": self.plan.cluster.devices(),
            "isl": load.isl,
            "osl": load.osl,
            "prefilled": load.prefilled,
            "concurrency": load.concurrency,
            "objective": match args.objective {
                super::request::Goal::Throughput => "throughput",
                super::request::Goal::Latency => "latency",
            },
            "ttft_ms": args.ttft,
            "tpot_ms": args.tpot,
            "dtype": request.model.dtype.map(|d| d.name()),
            "kv_dtype": request.model.kv_dtype.map(|d| d.name()),
            "max_len": request.context(),
            "mem_fraction": request.mem_fraction,
            "search": if request.schedule.is_some() { "schedule" } else { &args.search },
            "layout": args.layout,
            "pins": request.pins,
            "seed": args.effort.seed,
            "evaluations": args.effort.evaluations,
            "start": args.effort.names()[0],
            "moves": args.effort.names()[1],
            "assume": request.model.assume,
            "egraph": request.egraph,
            "profile": request.profile.name,
            "overlap": request.profile.overlap.name(),
        })
    }

    /// The mesh of one stage, and which axes each group is made of.
    fn mesh(&self) -> Value {
        let groups = &self.plan.best.groups;
        let axes = |list: &[AxisRef]| -> Vec<String> {
            let plain = |a: &AxisRef| groups.mesh.show(*a).to_string().replace('"', "");
            list.iter().map(plain).collect()
        };
        let named: Map<String, Value> =
            groups.named.iter().map(|(n, list)| (n.to_string(), json!(axes(list)))).collect();
        let sizes: Vec<Value> =
            groups.mesh.axes.iter().map(|a| json!({"name": a.name, "size": a.size})).collect();
        json!({ "axes": sizes, "groups": named })
    }

    /// Layers, devices and local shapes of every pipeline stage.
    fn stages(&self) -> Value {
        let devices = self.plan.best.degrees.stage_devices();
        let mut first = 0;
        let stage = |(i, &layers): (usize, &u64)| {
            let range = [first, first + layers];
            first += layers;
            json!({
                "stage": i,
                "layers": range,
                "first_rank": i as u64 * devices,
                "ranks": devices,
                "program": format!("stage_{i}"),
                "parameters": self.parameters(i),
            })
        };
        self.plan.stage_layers.iter().enumerate().map(stage).collect()
    }

    /// What one device of a stage stores: name, local type, bytes at one request a replica.
    fn parameters(&self, stage: usize) -> Value {
        let decode = self.plan.phases.iter().find(|p| p.phase == Phase::Decode);
        let Some(module) = decode.and_then(PhasePlan::local) else { return Value::Null };
        let context = self.request.context();
        let bind = bindings(module, self.plan.best.degrees.dp, 1, context);
        let program = module.funcs.values().filter(|f| f.kind == FuncKind::Program).nth(stage);
        program.map_or(Value::Null, |f| stored(module, f, &bind))
    }

    /// Ranks that talk to each other, by group; ranks of later stages are offset by whole stages.
    fn replica_groups(&self) -> Value {
        let (groups, degrees) = (&self.plan.best.groups, &self.plan.best.degrees);
        let stage = degrees.stage_devices();
        let mut out = Map::new();
        for name in GROUPS {
            let axes = groups.axes(name);
            if axes.is_empty() {
                continue;
            }
            let of_stage = groups.mesh.groups(axes);
            let offset = |s: u64| {
                let shift = move |group: &Vec<u64>| -> Vec<u64> {
                    group.iter().map(|rank| rank + s * stage).collect()
                };
                of_stage.iter().map(shift)
            };
            let lists: Vec<Vec<u64>> = (0..degrees.pp).flat_map(offset).collect();
            out.insert(name.to_string(), json!(lists));
        }
        if degrees.pp > 1 {
            let chain = |rank: u64| (0..degrees.pp).map(|s| rank + s * stage).collect::<Vec<_>>();
            out.insert("pp".to_string(), json!((0..stage).map(chain).collect::<Vec<_>>()));
        }
        Value::Object(out)
    }
}

/// Collectives that one device executes in one step: in every micro-batch of it.
fn of_step(phase: &PhasePlan) -> Map<String, Value> {
    let count = |(name, n): (&&'static str, &u64)| {
        (name.to_string(), json!(n.saturating_mul(phase.micro_batches)))
    };
    phase.collectives.iter().map(count).collect()
}

/// Every item of memory apart; they add up to the total.
pub fn itemised(memory: &Memory) -> Value {
    let name = |name: &str| if name == "reserve" { "driver" } else { name }.to_string();
    memory.items().into_iter().map(|(item, bytes)| (name(item), json!(bytes))).collect()
}

/// Weights and caches of a program.
fn stored(module: &Module, program: &Func, bind: &Bindings) -> Value {
    let kept = program.params.iter().filter(|&&v| program.ty(v).kind.is_stored());
    let row = |&value: &shardc_ir::graph::Value| {
        let ty = program.ty(value);
        json!({
            "name": program.values[value].name,
            "type": show_type(module, ty),
            "bytes": ty.bytes(bind),
        })
    };
    kept.map(row).collect()
}

/// The fullest rank. The items up to `reserve` add up to `total`; `reserve_items` is its inside.
/// `items` are the same bytes with communication and driver apart, as `shardc evaluate` has them.
fn memory(m: &Memory) -> Value {
    json!({
        "weights": m.weights,
        "kv_cache": m.kv_cache,
        "activations": m.activations,
        "workspace": m.workspace,
        "reserve": m.reserve.saturating_add(m.communication),
        "total": m.total(),
        "capacity": m.capacity,
        "reserve_items": {"communication": m.communication, "driver": m.reserve},
        "items": itemised(m),
        "usable": m.usable,
    })
}
