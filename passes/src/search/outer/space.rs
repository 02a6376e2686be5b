//! What the searches of this folder search: genes, blocks of them, and what a genome is worth.

use super::dice::Dice;

/// A choice for every gene, by its number among the gene's choices.
pub type Genome = Vec<u8>;

/// What a choice, or a gene, stands for; the same in every model, so that what is learned of one
/// helps with another.
pub type Mark = u8;

/// Marks of choices.
pub mod choice {
    use super::Mark;

    /// Splits nothing: copies.
    pub const IDLE: Mark = 0;
    /// Requests.
    pub const REQUESTS: Mark = 1;
    /// New tokens.
    pub const TOKENS: Mark = 2;
    /// KV heads.
    pub const KV_HEADS: Mark = 3;
    /// Query heads of a KV head.
    pub const GROUP: Mark = 4;
    /// Cached tokens.
    pub const CACHED: Mark = 5;
    /// Routed experts.
    pub const EXPERTS: Mark = 6;
    /// What a product makes of a token, such as the width of a feed-forward block.
    pub const COLUMNS: Mark = 7;
    /// What a product sums over.
    pub const SUMS: Mark = 8;
    /// The first of numbers that grow by factors: numbers n get `NUMBER + n`.
    pub const NUMBER: Mark = 9;
}

/// How many marks of choices there are at most.
pub const CHOICES: usize = 40;

/// Marks of genes.
pub mod gene {
    use super::Mark;

    /// Pipeline stages.
    pub const STAGES: Mark = 0;
    /// Whether an axis splits requests into replicas.
    pub const REPLICAS: Mark = 1;
    /// An axis of the residual stream.
    pub const STREAM: Mark = 2;
    /// An axis of products before attention.
    pub const PROJECTIONS: Mark = 3;
    /// An axis of attention.
    pub const ATTENTION: Mark = 4;
    /// An axis of the product after attention.
    pub const OUTPUT: Mark = 5;
    /// An axis of the first products of a feed-forward block.
    pub const FFN_UP: Mark = 6;
    /// An axis of its last product.
    pub const FFN_DOWN: Mark = 7;
    /// An axis of routed experts.
    pub const EXPERTS: Mark = 8;
    /// An axis of the rows that experts are sent.
    pub const DISPATCH: Mark = 9;
    /// An axis of embedding or head.
    pub const VOCABULARY: Mark = 10;
    /// Whether prompts gather the weights of an operator and split tokens instead.
    pub const GATHER: Mark = 11;
    /// The first of what spaces other than that of layouts have.
    pub const OTHER: Mark = 12;
}

/// How many marks of genes there are at most.
pub const GENES: usize = 32;

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Gene {
    /// For reports.
    pub name: String,
    /// What it decides.
    pub mark: Mark,
    /// Where it stands among its like, from 0 to 1: an axis from the innermost to the outermost.
    pub place: f32,
    /// What each choice stands for; at least one choice.
    pub choices: Vec<Mark>,
    /// The block that it is redrawn with.
    pub block: usize,
}

/// A space of plans, all of which one evaluator judges.
pub trait Space: Sync {
    /// The genes; every genome has as many choices.
    fn genes(&self) -> &[Gene];

    /// Number of blocks of genes.
    fn blocks(&self) -> usize;

    /// Number of tuples from which blocks are drawn; 0 where there are none.
    fn tuples(&self) -> usize;

    /// Gives the genes of a block what a tuple says.
    fn redraw(&self, genome: &mut Genome, block: usize, tuple: usize);

    /// Makes a genome that of a legal plan. Genomes of one plan become equal as far as that is cheap
    /// to see.
    fn repair(&self, genome: &mut Genome);

    /// What the plan of a repaired genome is worth: above 0 and larger the better; where it is not
    /// possible 0 or less, the smaller the further from being so. One call is one evaluation.
    fn worth(&self, genome: &Genome) -> f64;

    /// A guess at the worth of a repaired genome, on the same scale, that costs next to nothing beside
    /// an evaluation; none where the space has no guesses.
    fn guess(&self, _genome: &Genome) -> Option<f64> {
        None
    }

    /// The genes of a repaired genome, those of what is dearest first.
    fn dearest(&self, genome: &Genome) -> Vec<usize>;
}

/// The worth of a plan that a pass refuses: below every other.
pub const REFUSED: f64 = -100.0;

/// Worth on a scale on which differences are ratios, and no impossible plan reaches a possible one.
pub fn fitness(worth: f64) -> f64 {
    if worth > 0.0 { worth.ln() } else { worth - 1e3 }
}

/// A genome drawn at random: gene by gene, or block by block from tuples where `block_moves`.
pub fn drawn(space: &dyn Space, dice: &mut Dice, block_moves: bool) -> Genome {
    let mut genome: Genome =
        space.genes().iter().map(|g| dice.below(g.choices.len()) as u8).collect();
    if block_moves && space.tuples() > 0 {
        // Blocks of one tuple fit each other; half of the draws mix tuples.
        let all = dice.below(space.tuples());
        let mixed = dice.chance(0.5);
        for block in 0..space.blocks() {
            let tuple = if mixed { dice.below(space.tuples()) } else { all };
            space.redraw(&mut genome, block, tuple);
        }
    }
    genome
}

/// A step from a genome: one gene changes, or, where `block_moves`, half of the time a block or all
/// of them are redrawn from a tuple.
pub fn step(space: &dyn Space, genome: &Genome, dice: &mut Dice, block_moves: bool) -> Genome {
    let mut next = genome.clone();
    if block_moves && space.tuples() > 0 && dice.chance(0.5) {
        let (block, tuple) = (dice.below(space.blocks() + 1), dice.below(space.tuples()));
        let blocks = if block == space.blocks() { 0..block } else { block..block + 1 };
        blocks.for_each(|b| space.redraw(&mut next, b, tuple));
        return next;
    }
    mutate(space, &mut next, dice);
    next
}

/// Changes one gene that has other choices.
pub fn mutate(space: &dyn Space, genome: &mut Genome, dice: &mut Dice) {
    let open: Vec<usize> =
        (0..genome.len()).filter(|&g| space.genes()[g].choices.len() > 1).collect();
    if open.is_empty() {
        return;
    }
    let gene = open[dice.below(open.len())];
    let other = 1 + dice.below(space.genes()[gene].choices.len() - 1);
    genome[gene] = ((usize::from(genome[gene]) + other) % space.genes()[gene].choices.len()) as u8;
}
