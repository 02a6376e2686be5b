//! Fleets as a space of genomes: the plan of each pool, how devices are dealt, how steps are made.

use super::{FleetJudge, FleetPlan, PoolPlan, Served};
use crate::slots::Slots;
use shardc_ir::diag::Result;
use shardc_passes::search::outer::{Gene, Genome, Mark, Space, choice, gene};
use shardc_passes::search::{Refusal, legal_degrees};
use shardc_passes::strategy::{Degrees, Facts};

/// Blocks: the plan of the first pool, that of decoding, and the rest.
const BLOCKS: usize = 3;
/// Devices of an instance at most.
const LARGEST: u64 = 64;
/// Parts of the devices that prompts may get, in sixteenths.
const SHARES: u64 = 15;
/// Tokens of mixed steps; 0 is whole prompts.
const CHUNKS: [u64; 6] = [0, 512, 1024, 2048, 4096, 8192];
/// Most requests of a replica.
const BATCHES: [u64; 6] = [32, 64, 128, 256, 512, 1024];

/// Genes of a pool: devices of an instance, tp, pp, ep.
const POOL: usize = 4;
/// Where the other genes stand.
const MODE: usize = 2 * POOL;
const SHARE: usize = MODE + 1;
const CHUNK: usize = MODE + 2;
const BATCH: usize = MODE + 3;

/// The space of fleets.
pub struct FleetSpace<'a> {
    judge: &'a FleetJudge<'a>,
    facts: Facts,
    sizes: Vec<u64>,
    genes: Vec<Gene>,
    /// Degrees of instances from which pools are redrawn, and their genes.
    tuples: Vec<(Degrees, [u8; POOL])>,
    /// What fleets came to; each is simulated once, whichever search asks.
    served: Slots<Genome, Result<Option<Reply>>>,
    guesses: Slots<Genome, f64>,
}

/// What a fleet comes to, or why an instance is not possible.
type Reply = std::result::Result<Served, Refusal>;

impl<'a> FleetSpace<'a> {
    /// The space of a judge's fleets.
    pub fn new(judge: &'a FleetJudge<'a>) -> Self {
        let facts = Facts::of(&judge.programs.prefill);
        let most = judge.devices().min(LARGEST);
        let powers = |most: u64| (0..).map(|n| 1u64 << n).take_while(move |n| *n <= most);
        let fits = |n: &u64| judge.cluster.take(*n).is_ok();
        let sizes: Vec<u64> = powers(most).filter(fits).collect();
        let experts = facts.experts.first().copied().unwrap_or(1);
        let degrees = [
            sizes.clone(),
            powers(judge.cluster.node.devices.min(most).max(1) * 2).collect(),
            powers(most.min(facts.layers.max(1)).min(16)).collect(),
            powers(most.min(experts)).collect(),
        ];
        let mut genes = Vec::new();
        for (pool, name) in ["first", "decode"].into_iter().enumerate() {
            for (i, (part, numbers)) in ["gpus", "tp", "pp", "ep"].iter().zip(&degrees).enumerate()
            {
                let mark = gene::OTHER + (pool * POOL + i) as Mark;
                let log = |n: &u64| choice::NUMBER + n.ilog2() as Mark;
                let choices = numbers.iter().map(log).collect();
                genes.push(new_gene(&format!("{name}.{part}"), mark, choices, pool));
            }
        }
        let rest: [(&str, Vec<Mark>); 4] = [
            ("pools", vec![choice::NUMBER, choice::NUMBER + 1]),
            ("share", (0..SHARES as Mark).map(|n| choice::NUMBER + n).collect()),
            (
                "chunk",
                CHUNKS
                    .iter()
                    .map(|n| choice::NUMBER + n.checked_ilog2().unwrap_or(0) as Mark)
                    .collect(),
            ),
            ("batch", BATCHES.iter().map(|n| choice::NUMBER + n.ilog2() as Mark).collect()),
        ];
        for (i, (name, choices)) in rest.into_iter().enumerate() {
            genes.push(new_gene(name, gene::OTHER + (MODE + i) as Mark, choices, 2));
        }
        let all: Vec<Degrees> = sizes.iter().flat_map(|&n| legal_degrees(&facts, n)).collect();
        let (served, guesses) = (Slots::default(), Slots::default());
        let mut space =
            FleetSpace { judge, facts, sizes, genes, tuples: Vec::new(), served, guesses };
        space.tuples = all.into_iter().filter_map(|d| Some((d, space.encode(&d)?))).collect();
        space
    }

    /// The genes of a pool of such instances; `None` where they are no powers of two, or too many.
    fn encode(&self, degrees: &Degrees) -> Option<[u8; POOL]> {
        let plain = Degrees { etp: if degrees.ep > 1 { 1 } else { degrees.tp }, ..*degrees };
        if plain != *degrees || degrees.cp > 1 {
            return None;
        }
        let at = |gene: usize, n: u64| {
            let mark = n.is_power_of_two().then(|| choice::NUMBER + n.ilog2() as Mark)?;
            self.genes[gene].choices.iter().position(|m| *m == mark).map(|i| i as u8)
        };
        let Degrees { tp, pp, ep, .. } = *degrees;
        Some([at(0, degrees.devices())?, at(1, tp)?, at(2, pp)?, at(3, ep)?])
    }

    /// The fleet that has as many instances of such a plan as there is room for, without pools.
    pub fn of_degrees(&self, degrees: &Degrees) -> Option<Genome> {
        let mut genome = vec![0; self.genes.len()];
        genome[..POOL].copy_from_slice(&self.encode(degrees)?);
        let chunk = self.judge.request.profile.prefill_tokens;
        let mixed = self.judge.request.profile.scheduling.mixed;
        let near = CHUNKS.iter().position(|c| *c == chunk).filter(|_| mixed).unwrap_or(0);
        genome[CHUNK] = near as u8;
        genome[BATCH] = BATCHES.len() as u8 - 1;
        self.repair(&mut genome);
        Some(genome)
    }

    /// The best plan of each size of instance for the stream's mean request, by what the evaluator says
    /// of the steady state: where a search starts from degrees.
    ///
    /// # Errors
    /// A pass refuses a program.
    pub fn starts(&self) -> Result<Vec<Genome>> {
        let mut out = Vec::new();
        for &size in &self.sizes {
            let mut best: Option<(f64, Degrees)> = None;
            let tuples = self.tuples.iter().map(|(degrees, _)| degrees);
            for degrees in tuples.filter(|d| d.devices() == size) {
                if let Ok(plan) = self.judge.instance_plan(degrees)? {
                    let rate = plan.serving.tokens_per_s_per_device;
                    if best.is_none_or(|(most, _)| rate > most) {
                        best = Some((rate, *degrees));
                    }
                }
            }
            out.extend(best.and_then(|(_, degrees)| self.of_degrees(&degrees)));
        }
        Ok(out)
    }

    fn degrees(&self, genome: &Genome, pool: usize) -> Degrees {
        let number = |i: usize| {
            let gene = pool * POOL + i;
            1u64 << (self.genes[gene].choices[usize::from(genome[gene])] - choice::NUMBER)
        };
        let (size, tp, pp, ep) = (number(0), number(1), number(2), number(3));
        let etp = if ep > 1 { 1 } else { tp };
        Degrees { tp, pp, dp: size / (tp * pp).max(1), cp: 1, ep, etp }
    }

    /// The fleet of a repaired genome; `None` where a pool has no devices.
    pub fn plan(&self, genome: &Genome) -> Option<FleetPlan> {
        let devices = self.judge.devices();
        let pool = |pool: usize, share: u64| {
            let degrees = self.degrees(genome, pool);
            PoolPlan { degrees, instances: share / degrees.devices() }
        };
        let chunk = Some(CHUNKS[usize::from(genome[CHUNK])]).filter(|n| *n > 0);
        let max_batch = BATCHES[usize::from(genome[BATCH])];
        if genome[MODE] == 0 {
            let first = pool(0, devices);
            return (first.instances > 0).then_some(FleetPlan {
                first,
                decode: None,
                chunk,
                max_batch,
            });
        }
        let share = devices * (u64::from(genome[SHARE]) + 1) / (SHARES + 1);
        let first = pool(0, share);
        let rest = devices - first.instances * first.degrees.devices();
        let decode = pool(1, rest);
        let both = first.instances > 0 && decode.instances > 0;
        both.then_some(FleetPlan { first, decode: Some(decode), chunk, max_batch })
    }

    /// What the fleet of a repaired genome comes to.
    ///
    /// # Errors
    /// A pass refuses a program.
    pub fn serve(&self, genome: &Genome) -> Result<Option<Reply>> {
        let serve = || self.plan(genome).map(|fleet| self.judge.serve(&fleet)).transpose();
        self.served.slot(genome.clone()).get_or_init(serve).clone()
    }

    fn repair_pool(&self, genome: &mut Genome, pool: usize) {
        let size = self.sizes[usize::from(genome[pool * POOL])];
        let legal = |genome: &Genome| self.degrees(genome, pool).is_legal(&self.facts, size);
        // Fewer stages, then fewer experts' ranks, then narrower tensors: whatever is not legal goes.
        while !legal(genome) {
            let degrees = self.degrees(genome, pool);
            let crowded = degrees.tp * degrees.pp > size;
            let order: [usize; 3] = if crowded { [2, 1, 3] } else { [3, 1, 2] };
            let Some(gene) = order.iter().map(|i| pool * POOL + i).find(|&g| genome[g] > 0) else {
                return;
            };
            genome[gene] -= 1;
        }
    }
}

fn new_gene(name: &str, mark: Mark, choices: Vec<Mark>, block: usize) -> Gene {
    Gene { name: name.to_string(), mark, place: 0.0, choices, block }
}

impl Space for FleetSpace<'_> {
    fn genes(&self) -> &[Gene] {
        &self.genes
    }

    fn blocks(&self) -> usize {
        BLOCKS
    }

    fn tuples(&self) -> usize {
        self.tuples.len()
    }

    fn redraw(&self, genome: &mut Genome, block: usize, tuple: usize) {
        if block < 2 {
            genome[block * POOL..(block + 1) * POOL].copy_from_slice(&self.tuples[tuple].1);
            return;
        }
        // What is no degree is dealt out over the tuples' numbers.
        let mut rest = (tuple as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        for (choice, gene) in genome.iter_mut().zip(&self.genes).skip(MODE) {
            let count = gene.choices.len() as u64;
            *choice = (rest % count) as u8;
            rest /= count;
        }
    }

    fn repair(&self, genome: &mut Genome) {
        for (choice, gene) in genome.iter_mut().zip(&self.genes) {
            *choice = (*choice).min(gene.choices.len().saturating_sub(1) as u8);
        }
        self.repair_pool(genome, 0);
        if genome[MODE] == 0 {
            genome[POOL..2 * POOL].fill(0);
            genome[SHARE] = 0;
        } else {
            self.repair_pool(genome, 1);
        }
    }

    fn worth(&self, genome: &Genome) -> f64 {
        let part = |x: f64| if x.is_finite() { x / (1.0 + x) } else { 1.0 };
        match self.serve(genome) {
            Ok(Some(Ok(served))) if served.rate > 0.0 => served.rate / self.judge.devices() as f64,
            Ok(Some(Ok(served))) => {
                let over = served.over.into_iter().fold(0.0, f64::max);
                served.good - 1.0 - part(over)
            }
            Ok(Some(Err(refusal))) => {
                let over =
                    refusal.memory().map_or(1.0, |m| m.total() as f64 / m.usable.max(1) as f64);
                -3.0 - part(over)
            }
            Ok(None) => -5.0,
            Err(_) => shardc_passes::search::outer::REFUSED,
        }
    }

    fn guess(&self, genome: &Genome) -> Option<f64> {
        let guess = || {
            let rate = self.plan(genome).map_or(Ok(0.0), |fleet| self.judge.guess(&fleet));
            rate.unwrap_or(0.0) / self.judge.devices() as f64
        };
        Some(*self.guesses.slot(genome.clone()).get_or_init(guess))
    }

    fn dearest(&self, genome: &Genome) -> Vec<usize> {
        // Prompts first where they are later than they may be, decoding first where it is slower.
        let [ttft, tpot] = match self.serve(genome) {
            Ok(Some(Ok(served))) => served.over,
            _ => [1.0, 1.0],
        };
        let apart = genome[MODE] == 1;
        let first: usize = usize::from(apart && tpot > ttft);
        let block = |g: &usize| match self.genes[*g].block {
            2 => 1,
            pool if pool == first => 0,
            _ => 2,
        };
        let mut order: Vec<usize> = (0..self.genes.len()).collect();
        order.sort_by_key(|g| (block(g), *g));
        order
    }
}
