//! Programs that are run: a text, and comments that say what its inputs hold.
//!
//! `; fill %name: KIND` fills a parameter: `ints N` with numbers below N, `positions N` with positions
//! that follow up to N earlier ones, `uniform LO HI`, `normal`, `nothing`. Caches have nothing where
//! not said otherwise, other parameters normal numbers. `; bind B=3 S=5` gives symbols values, others
//! are drawn from their ranges. `; stages 1 3` says how many layers each pipeline stage runs.

use crate::random::Random;
use shardc_interp::{Inputs, Tensor};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, Module};
use shardc_ir::text::parse;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// The largest value of a symbol that is not given.
const MAX_EXTENT: u64 = 6;

/// A program with its directives.
pub struct Program {
    /// The program.
    pub module: Module,
    /// Layers of each pipeline stage.
    pub stages: Vec<u64>,
    fills: BTreeMap<String, String>,
    binds: BTreeMap<String, u64>,
}

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// It is no program, or a directive is none.
    pub fn read(source: &str) -> Result<Self, String> {
        let parsed = parse(source);
        if let Some(problem) = parsed.diagnostics.first() {
            return Err(problem.to_string());
        }
        let mut program = Program {
            module: parsed.module,
            stages: Vec::new(),
            fills: BTreeMap::new(),
            binds: BTreeMap::new(),
        };
        for line in source.lines().filter_map(|line| line.strip_prefix("; ")) {
            program.direct(line)?;
        }
        Ok(program)
    }

    fn direct(&mut self, line: &str) -> Result<(), String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        if let Some((name, fill)) = line.strip_prefix("fill %").and_then(|l| l.split_once(": ")) {
            self.fills.insert(name.to_string(), fill.to_string());
        } else if let Some(pairs) = line.strip_prefix("bind ") {
            for pair in pairs.split_whitespace() {
                let (name, value) = pair.split_once('=').ok_or("a symbol is bound by `NAME=N`")?;
                self.binds.insert(name.to_string(), number(value)?);
            }
        } else if let Some(counts) = line.strip_prefix("stages ") {
            self.stages = counts.split_whitespace().map(number).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Values of the symbols.
    pub fn bind(&self, random: &mut Random) -> Bindings {
        let mut bind = Bindings::default();
        for (sym, data) in self.module.syms.iter() {
            let span = data.hi.min(data.lo + MAX_EXTENT) - data.lo + 1;
            let drawn = data.lo + random.below(span as usize) as u64;
            bind.set(sym, self.binds.get(&data.name).copied().unwrap_or(drawn));
        }
        bind
    }

    /// Inputs of a function whose types are global.
    ///
    /// # Errors
    /// A fill that is none.
    pub fn inputs(
        &self,
        func: &Func,
        bind: &Bindings,
        random: &mut Random,
    ) -> Result<Inputs, String> {
        let mut out = Inputs::new();
        for &param in &func.params {
            let data = &func.values[param];
            let shape: Vec<usize> = data.ty.dims.iter().map(|d| d.eval(bind) as usize).collect();
            let default = if data.ty.kind == Kind::Cache { "nothing" } else { "normal" };
            let fill = self.fills.get(&data.name).map_or(default, String::as_str);
            let tensor =
                filled(fill, &shape, random).ok_or_else(|| format!("`{fill}` fills nothing"))?;
            out.insert(data.name.clone(), tensor);
        }
        Ok(out)
    }
}

fn filled(fill: &str, shape: &[usize], random: &mut Random) -> Option<Tensor> {
    let words: Vec<&str> = fill.split_whitespace().collect();
    let count = |word: &str| word.parse::<usize>().ok();
    Some(match words[..] {
        ["normal"] => random.tensor(shape),
        ["nothing"] => Tensor::filled(shape, f64::NAN),
        ["ints", n] => {
            let n = count(n)?;
            Tensor::from_fn(shape, |_| random.below(n) as f64)
        }
        ["positions", before] => {
            let before = count(before)?;
            let starts: Vec<usize> =
                (0..*shape.first()?).map(|_| random.below(before + 1)).collect();
            Tensor::from_fn(shape, |at| (starts[at[0]] + at[1]) as f64)
        }
        ["uniform", lo, hi] => {
            let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
            Tensor::from_fn(shape, |_| random.uniform(lo, hi))
        }
        _ => return None,
    })
}
