//! `shardc clusters`: the cluster presets, or everything about one of them.

use crate::failure::Outcome;
use crate::{input, output};
use serde_json::{Value, json};
use shardc_cost::machine::{self, Cluster, Constant};
use shardc_ir::diag::Result;

/// Lists the cluster presets, or describes one cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct ClustersArgs {
    /// A preset or a cluster file to describe with the source of its constants
    #[arg(value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: the named cluster cannot be read.
pub fn run(args: &ClustersArgs) -> Outcome {
    let clusters = match &args.cluster {
        Some(name) => vec![input::cluster(name)?],
        None => machine::presets().iter().map(|n| machine::preset(n)).collect::<Result<_>>()?,
    };
    if args.json {
        let row = |cluster: &Cluster| match args.cluster {
            None => to_json(cluster),
            Some(_) => {
                let mut row = to_json(cluster);
                row["constants"] = constants(cluster);
                row
            }
        };
        let rows: Vec<Value> = clusters.iter().map(row).collect();
        return output::print(&format!("{:#}\n", json!({ "clusters": rows })));
    }
    if args.cluster.is_some() {
        return output::print(&clusters.iter().map(Cluster::describe).collect::<String>());
    }
    let line = |c: &Cluster| format!("{:16}  {}\n", c.name, c.summary());
    let foot =
        "\nPRESETxN is N such nodes; PRESET with fewer devices, as in h100x4, is part of one\n";
    output::print(&(clusters.iter().map(line).collect::<String>() + foot))
}

fn to_json(cluster: &Cluster) -> Value {
    json!({
        "name": cluster.name,
        "device": cluster.device.name,
        "devices": cluster.devices(),
        "nodes": cluster.nodes,
        "memory_bytes": cluster.device.memory.capacity_bytes,
        "summary": cluster.summary(),
    })
}

/// Every constant of a cluster: `{"PATH": {"value", "origin", "text"}}`.
pub fn constants(cluster: &Cluster) -> Value {
    let row = |c: &Constant<'_>| {
        let number =
            c.value.parse::<u64>().map(Value::from).or(c.value.parse::<f64>().map(Value::from));
        let value = number.unwrap_or_else(|_| json!(c.value));
        let source =
            json!({"value": value, "origin": c.source.origin.name(), "text": c.source.text});
        (c.path.to_string(), source)
    };
    Value::Object(cluster.constants().iter().map(row).collect())
}
