//! `shardc cost`: predicted latencies beside measured ones, row by row.

mod report;
mod rows;
pub mod table;

use crate::args::{self, Overlapping};
use crate::failure::{InSource, Outcome};
use crate::input::{self, Source};
use crate::output;
use flate2::read::MultiGzDecoder;
use report::Report;
use rows::Bench;
use shardc::codes;
use shardc_cost::profile::Profile;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use table::Table;

/// Which table the rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Op {
    /// Matrix products
    Gemm,
    /// Attention over new tokens
    AttentionContext,
    /// Attention of one token a request over a cache
    AttentionGeneration,
    /// Multi-head latent attention over new tokens
    MlaContext,
    /// Multi-head latent attention of one token a request
    MlaGeneration,
    /// Routed experts
    Moe,
    /// All-reduce
    AllReduce,
    /// All-gather
    AllGather,
    /// Reduce-scatter
    ReduceScatter,
    /// All-to-all
    AllToAll,
    /// One device to another
    SendRecv,
    /// Dispatch and combine of routed tokens
    Deepep,
}

/// Predict the latency of every row of a table of measured kernels or collectives.
#[derive(Clone, Debug, clap::Args)]
pub struct CostArgs {
    /// What the rows are; a row of several collectives goes by its own `op_name`
    #[arg(long, value_enum, value_name = "OP")]
    pub op: Op,
    /// A preset or a cluster file that runs them
    #[arg(long, value_name = "MACHINE", default_value = "h100")]
    pub machine: String,
    /// Whose kernels run, unless `kernel_source` says it
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The table: CSV with a header, gzipped if its name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub csv: PathBuf,
    /// Write the table with predictions here rather than to standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Print errors against the measured latencies, by type
    #[arg(long)]
    pub report: bool,
    /// Print the report as JSON
    #[arg(long, requires = "report")]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: a table or machine that cannot be read, a missing column, a cell that makes no sense.
pub fn run(args: &CostArgs) -> Outcome {
    let cluster = input::cluster(&args.machine)?;
    let profile = match &args.profile {
        Some(name) => args::profile(name, Overlapping::None)?,
        None => Profile::vllm(),
    };
    let source = read(&args.csv)?;
    let table = Table::parse(&source.text).in_source(&source)?;
    let bench = Bench::new(&cluster, profile, args.profile.is_some());
    let mut report = Report::default();
    let mut out = table.header_with(&bench.columns(args.op)).in_source(&source)?;
    for row in table.rows() {
        let predicted = row.and_then(|row| {
            let predicted = bench.price(args.op, &row)?;
            if args.report {
                report.add(args.op, &row, predicted.ms)?;
            }
            Ok(row.with(&predicted.cells()))
        });
        out += &predicted.in_source(&source)?;
    }
    if let Some(path) = &args.output {
        output::write(path, &out)?;
    }
    match (args.report, args.json) {
        (true, false) => output::print(&report.to_text()),
        (true, true) => output::print(&report.to_json()),
        (false, _) if args.output.is_none() => output::print(&out),
        (false, _) => Ok(()),
    }
}

/// Longest table read, bytes after decompression; the largest measured one has 8 MB.
const MAX_TABLE: u64 = 512 << 20;

/// The text of a table, decompressed where its name ends in `.gz`.
fn read(path: &Path) -> Result<Source> {
    let name = path.display().to_string();
    let unreadable = |error: io::Error| {
        let message = format!("{name} cannot be read: {error}");
        Box::new(Diagnostic::error(codes::UNREADABLE, message))
    };
    let file = File::open(path).map_err(unreadable)?;
    let packed = path.extension().is_some_and(|e| e == "gz");
    let mut bytes: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut text = String::new();
    bytes.by_ref().take(MAX_TABLE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_TABLE {
        let message = format!("{name} has more than {MAX_TABLE} bytes");
        return Err(Box::new(Diagnostic::error(codes::TOO_LARGE, message)));
    }
    Ok(Source { name, text })
}
