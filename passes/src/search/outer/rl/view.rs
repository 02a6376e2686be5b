//! A space as the network sees it: marks of genes and of choices, places, masks.

use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Gene, Genome, Space};
use candle_core::{Device, Result, Tensor};

/// A space as tensors. G genes, of at most C choices.
pub(super) struct View {
    pub genes: usize,
    pub blocks: usize,
    /// Whether blocks may be redrawn from tuples.
    pub redraws: bool,
    /// Choices of each gene.
    pub choices: Vec<usize>,
    /// Most choices of a gene.
    pub most: usize,
    /// Marks of genes, `[G]`.
    pub marks: Tensor,
    /// Place, and its square, `[G, 2]`.
    pub places: Tensor,
    /// Marks of choices, `[G * C]`; absent ones as nothing.
    pub choice_marks: Tensor,
    /// 0 where there is such a choice, -1e9 where not, `[G, C]`.
    pub mask: Tensor,
    /// 1 where a gene has several choices, `[G]`.
    pub open: Tensor,
    /// Number of such genes.
    pub open_count: f64,
    /// Part of each gene in the mean of a block, then of all blocks, `[B + 1, G]`.
    pub shares: Tensor,
    marks_of: Vec<Vec<u8>>,
}

impl View {
    /// Reads a space.
    pub fn new(space: &dyn Space, redraws: bool) -> Result<Self> {
        let all = space.genes();
        let most = all.iter().map(|g| g.choices.len()).max().unwrap_or(1);
        let cpu = &Device::Cpu;
        let count = all.len();
        let padded = |gene: &Gene| -> Vec<u32> {
            (0..most).map(|c| gene.choices.get(c).map_or(0, |m| u32::from(*m))).collect()
        };
        let open: Vec<f64> = all.iter().map(|g| f64::from(u8::from(g.choices.len() > 1))).collect();
        let mask = all.iter().flat_map(|g| {
            (0..most).map(|c| if c < g.choices.len() { 0.0 } else { -1e9 }).collect::<Vec<f64>>()
        });
        let places = all.iter().flat_map(|g| {
            let place = f64::from(g.place);
            [place, place * place]
        });
        let marks: Vec<u32> = all.iter().map(|g| u32::from(g.mark)).collect();
        Ok(View {
            genes: count,
            blocks: space.blocks(),
            redraws: redraws && space.tuples() > 0,
            choices: all.iter().map(|g| g.choices.len()).collect(),
            most,
            marks: Tensor::from_vec(marks, count, cpu)?,
            places: Tensor::from_vec(places.collect::<Vec<f64>>(), (count, 2), cpu)?,
            choice_marks: Tensor::from_vec(
                all.iter().flat_map(padded).collect::<Vec<u32>>(),
                count * most,
                cpu,
            )?,
            mask: Tensor::from_vec(mask.collect::<Vec<f64>>(), (count, most), cpu)?,
            open_count: open.iter().sum::<f64>().max(1.0),
            shares: shares(all, space.blocks())?,
            open: Tensor::from_vec(open, count, cpu)?,
            marks_of: all.iter().map(|g| g.choices.clone()).collect(),
        })
    }

    /// Mark of what a genome chooses for a gene.
    pub fn mark(&self, genome: &Genome, gene: usize) -> u32 {
        u32::from(self.marks_of[gene].get(usize::from(genome[gene])).copied().unwrap_or(0))
    }

    /// How much likelier than another choice the parent's is, as a logarithm, so that so many genes
    /// change on average.
    pub fn stay(&self, changes: f64) -> Vec<f64> {
        let odds = |n: &usize| (n.saturating_sub(1).max(1) as f64 * self.open_count / changes).ln();
        self.choices.iter().map(|n| odds(n).max(1e-3)).collect()
    }

    /// Some tuples with their genomes: all, or as many as `most` drawn at random.
    pub fn tuples(&self, space: &dyn Space, dice: &mut Dice, most: usize) -> Vec<(usize, Genome)> {
        if !self.redraws {
            return Vec::new();
        }
        let count = space.tuples();
        let numbers: Vec<usize> = match count <= most {
            true => (0..count).collect(),
            false => (0..most).map(|_| dice.below(count)).collect(),
        };
        let genome = |tuple: usize| {
            let mut genome = vec![0; self.genes];
            (0..self.blocks).for_each(|b| space.redraw(&mut genome, b, tuple));
            genome
        };
        numbers.into_iter().map(|t| (t, genome(t))).collect()
    }
}

/// Part of each gene in the mean over a block's genes, and over all.
fn shares(genes: &[Gene], blocks: usize) -> Result<Tensor> {
    let mut rows: Vec<f64> = Vec::new();
    for block in 0..=blocks {
        let within = |g: &Gene| (block == blocks || g.block == block) && g.choices.len() > 1;
        let count = genes.iter().filter(|g| within(g)).count().max(1) as f64;
        rows.extend(genes.iter().map(|g| if within(g) { 1.0 / count } else { 0.0 }));
    }
    Tensor::from_vec(rows, (blocks + 1, genes.len()), &Device::Cpu)
}
