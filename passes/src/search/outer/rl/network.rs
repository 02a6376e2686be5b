//! The policy network: genes attend to what elites chose for them, then to each other, and prefer
//! choices by their marks. Its parameters speak of marks only, so they fit every space.

use super::view::View;
use super::{ELITES, LOT};
use crate::search::outer::dice::Dice;
use crate::search::outer::memory::Parameter;
use crate::search::outer::space::{CHOICES, GENES, Genome};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops::{log_softmax, silu, softmax};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

/// Width of embeddings.
const WIDTH: usize = 24;
/// Most blocks of a space; one kind of proposal more redraws all of them, and one none.
const BLOCKS: usize = 4;
/// Standard deviation of parameters at first.
const SPREAD: f64 = 0.1;
/// Part of a uniform vote that is added to those of elites.
const DOUBT: f64 = 0.05;
/// Weight of the likelihood of the elites' own choices, and of entropy.
const IMITATION: f64 = 0.3;
const ENTROPY: f64 = 0.01;
/// Sharpness at first of the choice among tuples.
const SHARPNESS: f64 = 3.0;

const SHAPES: [(&str, &[usize]); 18] = [
    ("gene", &[GENES, WIDTH]),
    ("place", &[2, WIDTH]),
    ("choice", &[CHOICES, WIDTH]),
    ("rank", &[ELITES, WIDTH]),
    ("elite.query", &[WIDTH, WIDTH]),
    ("elite.key", &[WIDTH, WIDTH]),
    ("elite.value", &[WIDTH, WIDTH]),
    ("self.query", &[WIDTH, WIDTH]),
    ("self.key", &[WIDTH, WIDTH]),
    ("self.value", &[WIDTH, WIDTH]),
    ("mlp.up", &[WIDTH, 2 * WIDTH]),
    ("mlp.down", &[2 * WIDTH, WIDTH]),
    ("out", &[WIDTH, WIDTH]),
    ("keep", &[WIDTH, 1]),
    ("kind", &[WIDTH, BLOCKS + 2]),
    ("kind.bias", &[BLOCKS + 2]),
    ("vote", &[1]),
    ("sharpness", &[1]),
];

/// The network with its optimiser.
pub(super) struct Network {
    vars: Vec<Var>,
    optimiser: AdamW,
}

/// What the network prefers, as plain numbers.
pub(super) struct Preferences {
    /// By gene and choice.
    pub logits: Vec<Vec<f64>>,
    /// By gene, what is added to its parent's choice.
    pub keep: Vec<f64>,
    /// Weights of redrawing nothing, each block, all.
    pub kinds: Vec<f64>,
    /// By block, then for all, the weights of the tuples.
    pub tuples: Vec<Vec<f64>>,
}

/// A lot of proposals.
#[derive(Default)]
pub(super) struct Draws {
    pub chosen: Vec<Genome>,
    /// What each began with, and what made that likelier, by gene.
    pub base: Vec<Genome>,
    pub stay: Vec<Vec<f64>>,
    /// What was redrawn: 0 nothing, then blocks, then all; and from which tuple of the lot.
    pub kinds: Vec<usize>,
    pub picked: Vec<usize>,
    pub advantage: Vec<f64>,
}

impl Draws {
    /// Some of the proposals, by their numbers.
    pub fn only(&self, numbers: &[usize]) -> Draws {
        fn some<T: Clone>(of: &[T], numbers: &[usize]) -> Vec<T> {
            numbers.iter().map(|&at| of[at].clone()).collect()
        }
        Draws {
            chosen: some(&self.chosen, numbers),
            base: some(&self.base, numbers),
            stay: some(&self.stay, numbers),
            kinds: some(&self.kinds, numbers),
            picked: some(&self.picked, numbers),
            advantage: Vec::new(),
        }
    }
}

/// The same as tensors.
struct Output {
    /// `[G, C]`.
    logits: Tensor,
    /// `[G]`.
    keep: Tensor,
    /// Logarithms of the probabilities of kinds, `[B + 2]`.
    kinds: Tensor,
    /// The same of tuples, by block and all, `[B + 1, T]`; none without tuples.
    tuples: Option<Tensor>,
}

impl Network {
    /// A network of drawn parameters, or of given ones where name and shape fit.
    pub fn new(dice: &mut Dice, given: &[Parameter], rate: f64) -> Result<Self> {
        let mut vars = Vec::new();
        for (name, shape) in SHAPES {
            let count: usize = shape.iter().product();
            let known = given.iter().find(|(n, s, v)| n == name && s == shape && v.len() == count);
            let numbers = match (known, name) {
                (Some((.., numbers)), _) => numbers.clone(),
                (None, "vote") => vec![1.0],
                (None, "sharpness") => vec![SHARPNESS],
                (None, "kind.bias") => (0..count).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect(),
                (None, _) => (0..count).map(|_| SPREAD * normal(dice)).collect(),
            };
            vars.push(Var::from_tensor(&Tensor::from_vec(numbers, shape, &Device::Cpu)?)?);
        }
        let adam = ParamsAdamW { lr: rate, weight_decay: 0.0, ..ParamsAdamW::default() };
        let optimiser = AdamW::new(vars.clone(), adam)?;
        Ok(Network { vars, optimiser })
    }

    /// The parameters.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        let of = |((name, shape), var): (&(&str, &[usize]), &Var)| {
            let numbers = var.as_tensor().flatten_all()?.to_vec1::<f64>()?;
            Ok((name.to_string(), shape.to_vec(), numbers))
        };
        SHAPES.iter().zip(&self.vars).map(of).collect()
    }

    fn var(&self, name: &str) -> &Tensor {
        let at = SHAPES.iter().position(|(n, _)| *n == name).unwrap_or(0);
        self.vars[at].as_tensor()
    }

    /// What the network prefers, given the best plans and the tuples at hand.
    pub fn preferences(
        &self,
        view: &View,
        elites: &[Genome],
        tuples: &[(usize, Genome)],
    ) -> Result<Preferences> {
        let out = self.forward(view, elites, tuples)?;
        let weights = |t: &Tensor| t.exp()?.to_vec2::<f64>();
        Ok(Preferences {
            logits: out.logits.to_vec2()?,
            keep: out.keep.to_vec1()?,
            kinds: out.kinds.exp()?.to_vec1()?,
            tuples: out.tuples.as_ref().map_or(Ok(Vec::new()), weights)?,
        })
    }

    fn forward(
        &self,
        view: &View,
        elites: &[Genome],
        tuples: &[(usize, Genome)],
    ) -> Result<Output> {
        let scale = 1.0 / (WIDTH as f64).sqrt();
        let gene = self.var("gene").index_select(&view.marks, 0)?;
        let mut h = (gene + view.places.matmul(self.var("place"))?)?;
        let mut votes = None;
        if !elites.is_empty() {
            let (context, vote) = self.attend(view, &h, elites)?;
            h = (h + context)?;
            votes = Some(vote);
        }
        let (q, k) = (h.matmul(self.var("self.query"))?, h.matmul(self.var("self.key"))?);
        let attention = softmax(&(q.matmul(&k.t()?)? * scale)?, D::Minus1)?;
        h = (&h + attention.matmul(&h.matmul(self.var("self.value"))?)?)?;
        h = (&h + silu(&h.matmul(self.var("mlp.up"))?)?.matmul(self.var("mlp.down"))?)?;
        let (count, most) = (view.genes, view.most);
        let marks = self.var("choice").index_select(&view.choice_marks, 0)?;
        let marks = marks.reshape((count, most, WIDTH))?;
        let query = h.matmul(self.var("out"))?.reshape((count, WIDTH, 1))?;
        let mut logits = marks.matmul(&query)?.reshape((count, most))?;
        if let Some(votes) = votes {
            let votes = (votes + DOUBT)?.log()?;
            logits = (logits + votes.broadcast_mul(self.var("vote"))?)?;
        }
        let logits = (logits + &view.mask)?;
        let keep = h.matmul(self.var("keep"))?.reshape(count)?;
        let kinds = h.mean_keepdim(0)?.matmul(self.var("kind"))?.reshape(BLOCKS + 2)?;
        let kinds = (kinds + self.var("kind.bias"))?.narrow(0, 0, view.blocks + 2)?;
        let kinds = log_softmax(&kinds, 0)?;
        let tuples = match tuples {
            [] => None,
            _ => Some(self.tuples(view, &logits, tuples)?),
        };
        Ok(Output { logits, keep, kinds, tuples })
    }

    /// Genes attend to the choices of elites: what they take from it `[G, W]`, and the votes for every
    /// choice `[G, C]`.
    fn attend(&self, view: &View, h: &Tensor, elites: &[Genome]) -> Result<(Tensor, Tensor)> {
        let (count, number) = (view.genes, elites.len());
        let marks = (0..count).flat_map(|g| elites.iter().map(move |e| view.mark(e, g)));
        let marks = Tensor::from_vec(marks.collect::<Vec<u32>>(), count * number, &Device::Cpu)?;
        let rank = self.var("rank").narrow(0, 0, number)?.reshape((1, number, WIDTH))?;
        let tokens = self.var("choice").index_select(&marks, 0)?.reshape((count, number, WIDTH))?;
        let tokens = tokens.broadcast_add(&rank)?.reshape((count * number, WIDTH))?;
        let project = |name: &str| tokens.matmul(self.var(name))?.reshape((count, number, WIDTH));
        let query = h.matmul(self.var("elite.query"))?.reshape((count, WIDTH, 1))?;
        let scores = (project("elite.key")?.matmul(&query)? * (1.0 / (WIDTH as f64).sqrt()))?;
        let weights = softmax(&scores.reshape((count, number))?, D::Minus1)?;
        let row = weights.reshape((count, 1, number))?;
        let context = row.matmul(&project("elite.value")?)?.reshape((count, WIDTH))?;
        let taken: Vec<f64> = (0..count)
            .flat_map(|g| elites.iter().flat_map(move |e| one_hot(usize::from(e[g]), view.most)))
            .collect();
        let taken = Tensor::from_vec(taken, (count, number, view.most), &Device::Cpu)?;
        let votes = row.matmul(&taken)?.reshape((count, view.most))?;
        Ok((context, votes))
    }

    /// Logarithms of the probabilities of tuples for each block and for all, `[B + 1, T]`: a tuple is as
    /// likely as the mean of what it chooses.
    fn tuples(&self, view: &View, logits: &Tensor, tuples: &[(usize, Genome)]) -> Result<Tensor> {
        let index = (0..view.genes).flat_map(|g| tuples.iter().map(move |t| u32::from(t.1[g])));
        let shape = (view.genes, tuples.len());
        let index = Tensor::from_vec(index.collect::<Vec<u32>>(), shape, &Device::Cpu)?;
        let chosen = log_softmax(logits, D::Minus1)?.gather(&index, 1)?;
        let scores = view.shares.matmul(&chosen)?.broadcast_mul(self.var("sharpness"))?;
        log_softmax(&scores, D::Minus1)
    }

    /// One step towards proposals of positive advantage and the elites' own choices.
    pub fn update(
        &mut self,
        view: &View,
        elites: &[Genome],
        tuples: &[(usize, Genome)],
        draws: &Draws,
    ) -> Result<()> {
        let out = self.forward(view, elites, tuples)?;
        let (count, most, lot) = (view.genes, view.most, draws.chosen.len().min(LOT));
        let flat = |of: &dyn Fn(usize, usize) -> Vec<f64>| -> Vec<f64> {
            (0..lot).flat_map(|i| (0..count).flat_map(move |g| of(i, g))).collect()
        };
        let cpu = &Device::Cpu;
        let has_base = |i: usize, g: usize| draws.stay[i][g] > 0.0;
        let base = flat(&|i, g| match has_base(i, g) {
            true => one_hot(usize::from(draws.base[i][g]), most),
            false => vec![0.0; most],
        });
        let base = Tensor::from_vec(base, (lot, count, most), cpu)?;
        let stay = Tensor::from_vec(flat(&|i, g| vec![draws.stay[i][g]]), (lot, count), cpu)?;
        let keep = stay.broadcast_add(&out.keep)?.reshape((lot, count, 1))?;
        let logits = out.logits.reshape((1, count, most))?;
        let logits = base.broadcast_mul(&keep)?.broadcast_add(&logits)?;
        let chosen = (0..lot).flat_map(|i| draws.chosen[i].iter().map(|&c| u32::from(c)));
        let chosen = Tensor::from_vec(chosen.collect::<Vec<u32>>(), (lot, count, 1), cpu)?;
        let likely = log_softmax(&logits, D::Minus1)?.gather(&chosen, 2)?.reshape((lot, count))?;
        let mut likely = likely.broadcast_mul(&view.open)?.sum(1)?;
        if let (true, Some(of_tuples)) = (view.redraws, &out.tuples) {
            let kinds: Vec<u32> = draws.kinds.iter().take(lot).map(|&k| k as u32).collect();
            let kinds = out.kinds.gather(&Tensor::from_vec(kinds, lot, cpu)?, 0)?;
            let number = tuples.len();
            let place = |i: usize| match draws.kinds[i] {
                0 => 0,
                kind => ((kind - 1) * number + draws.picked[i]) as u32,
            };
            let places = Tensor::from_vec((0..lot).map(place).collect::<Vec<u32>>(), lot, cpu)?;
            let redrawn = (0..lot).map(|i| if draws.kinds[i] > 0 { 1.0 } else { 0.0 });
            let redrawn = Tensor::from_vec(redrawn.collect::<Vec<f64>>(), lot, cpu)?;
            let picked = (of_tuples.flatten_all()?.gather(&places, 0)? * redrawn)?;
            likely = ((likely + kinds)? + picked)?;
        }
        let advantage = Tensor::from_vec(draws.advantage[..lot].to_vec(), lot, cpu)?;
        let gain = ((likely * advantage)?.mean_all()? / view.open_count.sqrt())?;
        let own = log_softmax(&out.logits, D::Minus1)?;
        let mut loss = gain.neg()?;
        if !elites.is_empty() {
            loss = (loss - (imitation(view, &own, elites)? * IMITATION)?)?;
        }
        let entropy = (own.exp()? * own.clamp(-50.0, 0.0)?)?.sum(1)?;
        let entropy = ((entropy * &view.open)?.sum_all()? / -view.open_count)?;
        let loss = (loss - (entropy * ENTROPY)?)?;
        self.optimiser.backward_step(&loss.to_dtype(DType::F64)?)
    }
}

/// Mean logarithm of the likelihood of what elites chose.
fn imitation(view: &View, own: &Tensor, elites: &[Genome]) -> Result<Tensor> {
    let few = &elites[..elites.len().min(3)];
    let index = (0..view.genes).flat_map(|g| few.iter().map(move |e| u32::from(e[g])));
    let shape = (view.genes, few.len());
    let index = Tensor::from_vec(index.collect::<Vec<u32>>(), shape, &Device::Cpu)?;
    let open = view.open.reshape((view.genes, 1))?;
    let sum = own.gather(&index, 1)?.broadcast_mul(&open)?.sum_all()?;
    sum / (view.open_count * few.len() as f64)
}

fn one_hot(at: usize, size: usize) -> Vec<f64> {
    (0..size).map(|i| if i == at { 1.0 } else { 0.0 }).collect()
}

/// A draw of the normal distribution (Box and Muller).
fn normal(dice: &mut Dice) -> f64 {
    let radius = (-2.0 * (1.0 - dice.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * dice.unit()).cos()
}
