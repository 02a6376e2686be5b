//! A row of a measured table as a priced operator.

use super::Op;
use super::table::Row;
use shardc_cost::collective::{
    AllReduceKernel, CollectiveCost, Fabric, Group, Routed, RoutedKernel,
};
use shardc_cost::machine::Cluster;
use shardc_cost::ops::{
    Decode, ExpertRun, Experts, Gemm, MlaBlock, MlaKind, OpCost, Operands, Prefill, Pricer, Span,
};
use shardc_cost::profile::{Load, Profile};
use shardc_cost::source::Source;
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;

/// What runs the rows: kernels in a loop of their own, as benchmarks do.
#[derive(Debug)]
pub struct Bench<'a> {
    cluster: &'a Cluster,
    /// Kernels called one by one.
    eager: Profile,
    /// Kernels of a CUDA graph.
    graph: Profile,
    /// Whether the user named the profile.
    named: bool,
}

/// What is added to a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Latency, ms.
    pub ms: f64,
    source: Source,
    error: f64,
    /// Parts of the latency, us.
    parts: Vec<f64>,
}

impl Predicted {
    /// Cells in the order of [`Bench::columns`].
    pub fn cells(&self) -> Vec<String> {
        let mut cells =
            vec![format!("{:.6}", self.ms), self.source.to_string(), format!("{:.3}", self.error)];
        cells.extend(self.parts.iter().map(|us| format!("{us:.3}")));
        cells
    }
}

impl From<OpCost> for Predicted {
    fn from(cost: OpCost) -> Self {
        Predicted { ms: ms(cost.time), source: cost.source, error: cost.error, parts: vec![] }
    }
}

impl From<CollectiveCost> for Predicted {
    fn from(cost: CollectiveCost) -> Self {
        Predicted { ms: ms(cost.time), source: cost.source, error: cost.error, parts: vec![] }
    }
}

fn ms(time: Ns) -> f64 {
    time.as_f64() / 1e6
}

impl<'a> Bench<'a> {
    /// Rows of `profile`, which counts for more where the user named it.
    pub fn new(cluster: &'a Cluster, profile: Profile, named: bool) -> Bench<'a> {
        let eager = Profile { benchmark: true, ..profile.clone() };
        Bench { cluster, eager, graph: profile, named }
    }

    /// Names of the added columns.
    pub fn columns(&self, op: Op) -> Vec<&'static str> {
        let mut columns = vec!["predicted_ms", "predicted_source", "predicted_error"];
        if op == Op::Deepep {
            columns.extend(["predicted_dispatch_us", "predicted_combine_us"]);
        }
        columns
    }

    /// The latency of a row.
    ///
    /// Errors: a missing column, or a cell that makes no sense.
    pub fn price(&self, op: Op, row: &Row<'_>) -> Result<Predicted> {
        match op {
            Op::Gemm => self.gemm(row),
            Op::AttentionContext => self.context(row),
            Op::AttentionGeneration => self.generation(row),
            Op::MlaContext | Op::MlaGeneration => self.mla(op, row),
            Op::Moe => self.moe(row),
            Op::SendRecv => {
                let across = row.whole("devices_per_node")? == 1;
                Ok(self.fabric().send_recv(across, row.size("size")?).into())
            }
            Op::Deepep => self.deepep(row),
            Op::AllReduce | Op::AllGather | Op::ReduceScatter | Op::AllToAll => {
                self.collective(op, row)
            }
        }
    }

    fn pricer(&self) -> Pricer<'_> {
        Pricer::new(&self.cluster.device, &self.eager)
    }

    fn fabric(&self) -> Fabric<'_> {
        Fabric::new(self.cluster, &self.graph)
    }

    /// vLLM's block-scaled kernels were measured with eager quantisation, others without.
    fn gemm(&self, row: &Row<'_>) -> Result<Predicted> {
        let eager = match row.get("kernel_source") {
            Some(kernel) => kernel.ends_with("BlockScaledMMKernel"),
            None => self.graph.name == "vllm",
        };
        let profile = if eager { &self.eager } else { &self.graph };
        let gemm = Gemm {
            batch: 1,
            m: row.size("m")?,
            n: row.size("n")?,
            k: row.size("k")?,
            operands: operands(row, "gemm_dtype")?,
        };
        Ok(Pricer::new(&self.cluster.device, profile).gemm(&gemm).into())
    }

    fn context(&self, row: &Row<'_>) -> Result<Predicted> {
        let (heads, kv_heads) = heads(row)?;
        let width = row.size("head_dim")?;
        let prefill = Prefill {
            requests: row.size("batch_size")?,
            new: row.size("isl")?,
            past: 0,
            span: span(row)?,
            heads,
            kv_heads,
            qk_dim: width,
            v_dim: width,
            kv_bits: kv_bits(row)?,
        };
        Ok(self.pricer().prefill_attention(&prefill).into())
    }

    fn generation(&self, row: &Row<'_>) -> Result<Predicted> {
        let (heads, kv_heads) = heads(row)?;
        let width = row.size("head_dim")?;
        let decode = Decode {
            requests: row.size("batch_size")?,
            context: context(row, 1)?,
            span: span(row)?,
            heads,
            kv_heads,
            qk_dim: width,
            v_dim: width,
            kv_elements: width.saturating_mul(2),
            kv_bits: kv_bits(row)?,
        };
        Ok(self.pricer().decode_attention(&decode).into())
    }

    /// Whole blocks where the products have a type, attention alone where not.
    fn mla(&self, op: Op, row: &Row<'_>) -> Result<Predicted> {
        let decode = op == Op::MlaGeneration;
        let tokens = if decode { context(row, 0)? } else { row.whole("isl")? };
        let (heads, requests) = (row.size("num_heads")?, row.size("batch_size")?);
        let kv_bits = kv_bits(row)?;
        if row.get("gemm_type").is_some() {
            let fp8_products = operands(row, "gemm_type")?.rhs_bits <= 8.0;
            let kind = MlaKind { decode, fp8_cache: kv_bits <= 8, fp8_products };
            let block = MlaBlock { kind, heads, requests, tokens };
            return Ok(self.pricer().mla_block(&block).into());
        }
        if decode {
            let decode = Decode::mla(requests, tokens, heads, 512, 64, kv_bits);
            return Ok(self.pricer().decode_attention(&decode).into());
        }
        let prefill = Prefill {
            requests,
            new: tokens,
            past: 0,
            span: Span::Causal,
            heads,
            kv_heads: heads,
            qk_dim: 192,
            v_dim: 128,
            kv_bits,
        };
        Ok(self.pricer().prefill_attention(&prefill).into())
    }

    /// TensorRT-LLM's rows split tokens over the devices of expert parallelism; others keep every
    /// token on the device, whose experts it then chooses. Runs whose kernels were not tuned are
    /// known by name.
    fn moe(&self, row: &Row<'_>) -> Result<Predicted> {
        let kernel = row.get("kernel_source");
        let splits = match kernel {
            Some(kernel) => kernel.starts_with("moe_torch_flow"),
            None => !self.named || self.graph.name == "trtllm",
        };
        let (ep, experts) = (row.size("moe_ep_size")?, row.size("num_experts")?);
        let tp = row.size("moe_tp_size")?;
        let (hidden, inter, top_k) =
            (row.size("hidden_size")?, row.size("inter_size")?, row.size("topk")?);
        let run = ExpertRun {
            dtype: row.text("moe_dtype")?,
            kernel: kernel.unwrap_or_default(),
            distribution: row.get("distribution").unwrap_or_default(),
            sizes: [hidden, inter, top_k, experts, tp, ep],
        };
        if top_k > experts {
            return Err(row.wrong("topk", &format!("at most {experts}, the number of experts")));
        }
        let (experts, ep) = if splits { (experts, ep) } else { (experts.div_ceil(ep), 1) };
        let experts = Experts {
            tokens: row.size("num_tokens")?,
            top_k,
            experts,
            ep,
            hidden,
            inter: inter.div_ceil(tp),
            gated: !kernel.is_some_and(|k| k.contains("nongated")),
            operands: operands(row, "moe_dtype")?,
        };
        let (pricer, load) = (self.pricer(), load(row)?);
        let untuned = pricer.is_measured_device() && run.was_untuned();
        let slow = untuned.then(|| pricer.experts_untuned(&experts, &load)).flatten();
        Ok(slow.unwrap_or_else(|| pricer.experts_under(&experts, &load)).into())
    }

    /// `message_size` counts elements; `op_name` decides where one table holds several operations.
    fn collective(&self, op: Op, row: &Row<'_>) -> Result<Predicted> {
        let op = match row.get("op_name") {
            Some("all_gather") => Op::AllGather,
            Some("all_reduce") => Op::AllReduce,
            Some("reduce_scatter") => Op::ReduceScatter,
            Some("alltoall" | "all_to_all") => Op::AllToAll,
            Some(_) => {
                let known = "all_gather, all_reduce, reduce_scatter or all_to_all";
                return Err(row.wrong("op_name", known));
            }
            None => op,
        };
        let dtype = row.get("nccl_dtype").or_else(|| row.get("allreduce_dtype"));
        let size = match dtype.unwrap_or("half") {
            "half" | "bfloat16" | "float16" | "bf16" | "fp16" => 2,
            "int8" | "fp8" | "uint8" => 1,
            "float" | "float32" | "fp32" => 4,
            _ => return Err(row.wrong("nccl_dtype", "half, int8 or float32")),
        };
        let devices = row.size("num_gpus")?;
        let bytes = row.size("message_size")?.saturating_mul(size);
        let fabric = self.fabric();
        let node = self.cluster.node.devices.max(1);
        let group = match devices <= node {
            true => Group::in_node(devices),
            false => Group::strided(devices, 1, node),
        };
        let kernel = row.get("kernel_source").map(str::to_ascii_lowercase);
        Ok(match (op, kernel.as_deref()) {
            (Op::AllGather, _) => fabric.all_gather(group, bytes),
            (Op::ReduceScatter, _) => fabric.reduce_scatter(group, bytes),
            (Op::AllToAll, _) => fabric.all_to_all(group, bytes),
            (_, None) => fabric.all_reduce(group, bytes),
            _ if group.nodes > 1 => fabric.all_reduce(group, bytes),
            (_, Some(kernel)) => fabric.all_reduce_by(all_reduce_kernel(kernel), devices, bytes),
        }
        .into())
    }

    /// Dispatch in fp8 with a scale for 128 elements, combine in bf16.
    fn deepep(&self, row: &Row<'_>) -> Result<Predicted> {
        let group = Group::across(self.cluster.node.devices, row.size("node_num")?);
        let rows = |bits| -> Result<Routed> {
            let (tokens, hidden) = (row.size("num_token")?, row.size("hidden_size")?);
            Ok(Routed { tokens, hidden, top_k: row.size("num_topk")?, bits })
        };
        let kernel = |column| -> Result<RoutedKernel> {
            match row.get(column) {
                Some(_) => Ok(RoutedKernel::Normal { multiprocessors: row.whole(column)? }),
                None => Ok(RoutedKernel::LowLatency),
            }
        };
        let fabric = self.fabric();
        let out = fabric.dispatch_by(kernel("dispatch_sms")?, group, rows(8.25)?);
        let back = fabric.combine_by(kernel("combine_sms")?, group, rows(16.0)?);
        let us = |cost: CollectiveCost| cost.time.as_f64() / 1e3;
        let parts = vec![us(out), us(back)];
        Ok(Predicted {
            ms: ms(out.time + back.time),
            source: out.source.max(back.source),
            error: out.error.max(back.error),
            parts,
        })
    }
}

/// Query heads and KV heads.
fn heads(row: &Row<'_>) -> Result<(u64, u64)> {
    let (heads, kv_heads) = (row.size("num_heads")?, row.size("num_key_value_heads")?);
    match kv_heads <= heads {
        true => Ok((heads, kv_heads)),
        false => Err(row.wrong("num_key_value_heads", &format!("at most {heads}, the heads"))),
    }
}

/// Cached tokens: those before the row, the step, and what the table leaves out of it.
fn context(row: &Row<'_>, left_out: u64) -> Result<u64> {
    let before = if row.get("isl").is_some() { row.whole("isl")? } else { left_out };
    Ok(row.whole("step")?.saturating_add(before))
}

fn span(row: &Row<'_>) -> Result<Span> {
    let window = if row.get("window_size").is_some() { row.whole("window_size")? } else { 0 };
    Ok(if window == 0 { Span::Causal } else { Span::Window(window) })
}

fn kv_bits(row: &Row<'_>) -> Result<u32> {
    match row.text("kv_cache_dtype")? {
        "bfloat16" | "float16" | "bf16" | "fp16" | "half" | "auto" => Ok(16),
        "fp8" | "fp8_e4m3" | "fp8_e5m2" | "int8" => Ok(8),
        _ => Err(row.wrong("kv_cache_dtype", "bfloat16 or fp8")),
    }
}

fn operands(row: &Row<'_>, column: &str) -> Result<Operands> {
    Ok(match row.text(column)? {
        "bfloat16" | "bf16" => Operands::BF16,
        "float16" | "fp16" | "half" => Operands::F16,
        "float32" | "fp32" => Operands::F32,
        "fp8" | "fp8_static" | "fp8_ootb" => Operands::FP8,
        "fp8_block" => Operands::FP8_BLOCK,
        "int8" | "sq" => Operands::INT8,
        "nvfp4" | "fp4" => Operands::FP4,
        "int8_wo" => Operands::weight_only(8.0),
        "int4_wo" | "w4a16_mxfp4" => Operands::weight_only(4.25),
        _ => return Err(row.wrong(column, "bfloat16, fp8, fp8_block or another known type")),
    })
}

/// Power laws go by the nearer of the two measured exponents.
fn load(row: &Row<'_>) -> Result<Load> {
    let name = row.get("distribution").unwrap_or("balanced");
    if let Some(exponent) = name.strip_prefix("power_law") {
        let exponent = exponent.trim_start_matches('_').parse().unwrap_or(1.2);
        return Ok(if exponent < 1.1 { Load::POWER_LAW_1_01 } else { Load::POWER_LAW_1_2 });
    }
    match name {
        "balanced" => Ok(Load::Balanced),
        "uniform" | "random" => Ok(Load::UNIFORM),
        _ => Err(row.wrong("distribution", "balanced, uniform or power_law_X")),
    }
}

fn all_reduce_kernel(kernel: &str) -> AllReduceKernel {
    match kernel {
        k if k.contains("nccl") => AllReduceKernel::Nccl,
        k if k.contains("eager") => AllReduceKernel::CustomEager,
        _ => AllReduceKernel::Custom,
    }
}
