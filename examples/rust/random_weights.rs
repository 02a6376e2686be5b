//! Writes a checkpoint of random bf16 weights for a model's configuration, to run and to measure it.
//!
//! `cargo run --release --bin random_weights -- CONFIG DIRECTORY [SEED]`

use shardc_frontend::config::{Options, read};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [config, directory, seed @ ..] = &args[..] else {
        return Err("usage: random_weights CONFIG DIRECTORY [SEED]".into());
    };
    let seed = seed.first().map_or(Ok(0), |seed| seed.parse())?;
    let text = std::fs::read_to_string(config)?;
    let spec = read(&text, &Options::default()).map_err(|d| d.to_string())?.spec;
    let sources = shardc::facade::sources(&spec);
    let written = shardc_runtime::weights::random::write(Path::new(directory), &sources, seed);
    println!("{} numbers", written.map_err(|d| d.to_string())?);
    Ok(())
}
