//! What a search leaves for later ones: the plans it evaluated and the parameters of its policy.
//!
//! Plans are kept by names of genes and marks of choices, so that the best of them start a search of
//! another model or cluster, too.

use super::space::{Gene, Genome, Mark, Space, fitness};
use super::trial::Entry;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::fmt::Write;

/// A parameter of a policy: name, shape, numbers.
pub type Parameter = (String, Vec<usize>, Vec<f64>);

/// What a search leaves behind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What was searched: model, cluster and load in words.
    pub about: String,
    /// Names of the genes with the marks of their choices.
    pub genes: Vec<(String, Mark, Vec<Mark>)>,
    /// Plans in the order in which they were evaluated.
    pub entries: Vec<Entry>,
    /// Parameters of a policy, if there was one.
    pub parameters: Vec<Parameter>,
}

/// What a plan of another space tells of guesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// Marks of what it chooses for the genes of a space; none where it has nothing like one.
    pub marks: Vec<Option<Mark>>,
    /// What it is worth, as a part of the best.
    pub worth: f64,
    /// What was guessed, as a part of the best guess.
    pub guess: f64,
}

const HEADER: &str = "shardc-history 1";
/// Plans that start another search.
const STARTS: usize = 8;
/// Plans of which another search learns how far guesses err.
const LESSONS: usize = 200;
/// Most numbers of a line.
const MOST: usize = 1 << 20;

impl Memory {
    /// A memory of a space.
    pub fn new(about: &str, genes: &[Gene], entries: &[Entry], parameters: Vec<Parameter>) -> Self {
        Memory {
            about: about.replace('\n', " "),
            genes: genes.iter().map(|g| (g.name.clone(), g.mark, g.choices.clone())).collect(),
            entries: entries.to_vec(),
            parameters,
        }
    }

    /// The text that [`parse`](Self::parse) reads back.
    pub fn print(&self) -> String {
        let join = |marks: &[u8]| marks.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        let mut out = format!("{HEADER}\nabout {}\n", self.about);
        for (name, mark, choices) in &self.genes {
            let _ = writeln!(out, "gene {name} {mark} {}", join(choices));
        }
        for entry in &self.entries {
            let guess = entry.guess.map_or(String::new(), |guess| format!(" {guess:?}"));
            let _ = writeln!(out, "plan {:?} {}{guess}", entry.worth, join(&entry.genome));
        }
        for (name, shape, numbers) in &self.parameters {
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            let _ = write!(out, "parameter {name} {}", shape.join("x"));
            for number in numbers {
                let _ = write!(out, " {number:?}");
            }
            out.push('\n');
        }
        out
    }

    /// Reads a memory.
    ///
    /// # Errors
    /// `S204` with the line that cannot be read.
    pub fn parse(text: &str) -> Result<Self> {
        let mut out = Memory::default();
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line.trim_end() != HEADER) {
            return Err(unreadable(1, &format!("it does not begin with `{HEADER}`")));
        }
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            out.line(line).map_err(|cause| unreadable(at + 1, &cause))?;
        }
        Ok(out)
    }

    fn line(&mut self, line: &str) -> std::result::Result<(), String> {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        let mut word = || words.next().ok_or("it ends too early");
        match what {
            "about" => self.about = rest.to_string(),
            "gene" => {
                let (name, mark) = (word()?.to_string(), number(word()?)?);
                self.genes.push((name, mark, list(word()?)?));
            }
            "plan" => {
                let worth: f64 = number(word()?)?;
                let genome = list(word()?)?;
                let guess: Option<f64> = words.next().map(number).transpose()?;
                let fits = genome.len() == self.genes.len()
                    && genome.iter().zip(&self.genes).all(|(c, g)| usize::from(*c) < g.2.len());
                if !fits || worth.is_nan() || guess.is_some_and(f64::is_nan) {
                    return Err("the plan has no choice for every gene above it".to_string());
                }
                self.entries.push(Entry { genome, worth, guess });
            }
            "parameter" => {
                let (name, shape) = (word()?.to_string(), word()?);
                let shape: Vec<usize> = shape.split('x').map(number).collect::<Result2<_>>()?;
                let numbers: Vec<f64> = words.map(number).collect::<Result2<_>>()?;
                let count = shape.iter().fold(1usize, |n, s| n.saturating_mul(*s));
                if numbers.len() != count || count > MOST || numbers.iter().any(|n| !n.is_finite())
                {
                    return Err(format!("`{name}` has not {count} finite numbers"));
                }
                self.parameters.push((name, shape, numbers));
            }
            other => return Err(format!("`{other}` is neither gene, plan nor parameter")),
        }
        Ok(())
    }

    /// The best plans as genomes of a space: genes of one name choose alike; failing that, genes that
    /// decide the same at the same place.
    pub fn starts(&self, space: &dyn Space) -> Vec<Genome> {
        let mut best: Vec<&Entry> = self.entries.iter().filter(|e| e.worth > 0.0).collect();
        best.sort_by(|a, b| fitness(b.worth).total_cmp(&fitness(a.worth)));
        let sources: Vec<Option<usize>> =
            space.genes().iter().map(|gene| self.like(gene)).collect();
        let mut out: Vec<Genome> = Vec::new();
        for entry in best {
            let of = |(gene, source): (&Gene, &Option<usize>)| {
                let mark = source.map(|s| self.genes[s].2[usize::from(entry.genome[s])]);
                let found = mark.and_then(|m| gene.choices.iter().position(|c| *c == m));
                found.unwrap_or(0) as u8
            };
            let mut genome: Genome = space.genes().iter().zip(&sources).map(of).collect();
            space.repair(&mut genome);
            if !out.contains(&genome) {
                out.push(genome);
            }
            if out.len() == STARTS {
                break;
            }
        }
        out
    }

    /// What the plans tell of guesses, the last of them, by the genes of a space.
    pub fn lessons(&self, space: &dyn Space) -> Vec<Lesson> {
        let sources: Vec<Option<usize>> =
            space.genes().iter().map(|gene| self.like(gene)).collect();
        let guesses = self.entries.iter().filter_map(|e| Some((e, e.guess?)));
        let best = guesses.clone().map(|(e, _)| e.worth).fold(f64::MIN_POSITIVE, f64::max);
        let top = guesses.clone().map(|(_, guess)| guess).fold(f64::MIN_POSITIVE, f64::max);
        let of = |(entry, guess): (&Entry, f64)| {
            let mark = |s: &Option<usize>| s.map(|s| self.genes[s].2[usize::from(entry.genome[s])]);
            let marks = sources.iter().map(mark).collect();
            Lesson { marks, worth: entry.worth / best, guess: guess / top }
        };
        let skipped = guesses.clone().count().saturating_sub(LESSONS);
        guesses.skip(skipped).map(of).collect()
    }

    /// The gene here that is most like one of another space.
    fn like(&self, gene: &Gene) -> Option<usize> {
        let suffix = |name: &str| name.rsplit('.').next().unwrap_or("").to_string();
        let same =
            self.genes.iter().position(|(name, mark, _)| *name == gene.name && *mark == gene.mark);
        same.or_else(|| {
            let wanted = suffix(&gene.name);
            let like = |(name, mark, _): &(String, Mark, Vec<Mark>)| {
                *mark == gene.mark && suffix(name) == wanted
            };
            self.genes.iter().position(like)
        })
    }
}

type Result2<T> = std::result::Result<T, String>;

fn number<T: std::str::FromStr>(word: &str) -> Result2<T> {
    word.parse().map_err(|_| format!("`{word}` is no number that fits"))
}

fn list(word: &str) -> Result2<Vec<u8>> {
    word.split(',').take(MOST).map(number).collect()
}

fn unreadable(line: usize, cause: &str) -> Box<Diagnostic> {
    let message = format!("line {line} of the history cannot be read: {cause}");
    let help = "give a file that --save-history wrote";
    Box::new(Diagnostic::error(codes::BAD_HISTORY, message).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(genome: &[u8], worth: f64, guess: Option<f64>) -> Entry {
        Entry { genome: genome.to_vec(), worth, guess }
    }

    fn memory() -> Memory {
        let gene = |name: &str, choices: &[u8]| Gene {
            name: name.to_string(),
            mark: 4,
            place: 0.0,
            choices: choices.to_vec(),
            block: 0,
        };
        let genes = [gene("a.0", &[0, 1, 3]), gene("a.1", &[0, 7])];
        let entries = [entry(&[2, 1], 12.25, Some(14.0)), entry(&[0, 0], -0.1, None)];
        let parameters = vec![("out".to_string(), vec![1, 2], vec![0.1, -3e-9])];
        Memory::new("a model", &genes, &entries, parameters)
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let memory = memory();
        assert_eq!(Memory::parse(&memory.print()).ok(), Some(memory));
    }

    #[test]
    fn damage_is_refused_with_its_line() {
        let text = memory().print();
        for (from, to) in [
            ("shardc-history 1", "history"),
            ("plan 12.25 2,1", "plan 12.25 3,1"),
            ("plan 12.25 2,1", "plan 12.25 2"),
            ("plan 12.25 2,1", "plan x 2,1"),
            ("plan 12.25 2,1 14.0", "plan 12.25 2,1 many"),
            ("1x2", "1x3"),
            ("gene a.0 4", "gene a.0 400"),
            ("parameter", "parametre"),
        ] {
            let damaged = text.replacen(from, to, 1);
            let refused = Memory::parse(&damaged).err();
            assert!(refused.is_some_and(|d| d.message.contains("line ")), "{from} as {to}");
        }
    }
}
