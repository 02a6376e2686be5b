//! Every parallel degree of a model up to a number of devices, part by part, with its reason.
//!
//! The rule is that of the engines: whole query heads on every rank, kv heads a multiple or a
//! divisor of the degree. Where only a finer plan can run, which splits kv heads and the query heads
//! of a group by different axes, the row says so.

use super::facts::Facts;
use super::parts::{self, EVERYTHING, Legal, RANKS, refused, whole_heads};
use shardc_ir::layout::gcd;

/// What one part of a model says to a degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it allows the degree.
    pub valid: bool,
    /// Why, or what each rank gets.
    pub reason: String,
}

/// Tensor parallelism of one degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRow {
    /// The degree.
    pub degree: u64,
    /// Attention heads.
    pub heads: Verdict,
    /// Dense and shared feed-forward blocks.
    pub ffn: Verdict,
    /// Vocabulary; padded where it does not divide.
    pub vocab: Verdict,
    /// Routed experts, each split like everything else.
    pub experts: Verdict,
    /// Vocabulary entries, and with padding.
    pub vocab_padding: Option<(u64, u64)>,
    /// Ranks that hold the same kv head, or the same latent row; none where heads do not split.
    pub kv_copies: Option<u64>,
    /// Where heads split only by an axis on kv heads and another on the heads of a group: the sizes
    /// of both, of which the first may be 1.
    pub group_split: Option<(u64, u64)>,
}

/// Expert parallelism of one degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertRow {
    /// The degree.
    pub degree: u64,
    /// Whether every rank holds an expert.
    pub experts: Verdict,
    /// Numbers of ranks with their numbers of experts, larger ones first.
    pub shares: Vec<(u64, u64)>,
}

/// Pipeline parallelism of one degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRow {
    /// The degree.
    pub degree: u64,
    /// Whether every stage holds a layer.
    pub layers: Verdict,
    /// Numbers of stages with their numbers of layers, larger ones first.
    pub shares: Vec<(u64, u64)>,
}

/// The degrees of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Tensor parallelism.
    pub tp: Vec<TensorRow>,
    /// Expert parallelism; one row for a model without experts.
    pub ep: Vec<ExpertRow>,
    /// Pipeline parallelism.
    pub pp: Vec<StageRow>,
}

impl TensorRow {
    /// The parts with their names.
    pub fn parts(&self) -> [(&'static str, &Verdict); 4] {
        [
            ("heads", &self.heads),
            ("ffn", &self.ffn),
            ("vocab", &self.vocab),
            ("experts", &self.experts),
        ]
    }

    /// Whether every part allows the degree.
    pub fn valid(&self) -> bool {
        self.parts().iter().all(|(_, part)| part.valid)
    }

    /// Why the first part that refuses does so, or what each rank gets; with padding, and with what
    /// a finer plan or expert parallelism could do.
    pub fn reason(&self) -> String {
        let parts = self.parts();
        let refusing = parts.iter().find(|(_, part)| !part.valid);
        let mut reason = refusing.map_or(&self.heads, |(_, part)| part).reason.clone();
        let padded = self.vocab_padding.filter(|(size, padded)| size != padded);
        if let (true, Some((size, padded))) = (self.valid(), padded) {
            reason += &format!("; vocabulary {size} padded to {padded}");
        }
        if parts.iter().all(|(name, part)| part.valid != (*name == "experts")) {
            reason += "; with experts split by ep the other parts allow it";
        }
        match self.group_split {
            None => {}
            Some((1, group)) => {
                reason += &format!("; group split: the query heads of each group by {group}");
            }
            Some((kv, group)) => {
                let kv = format!("kv heads by {kv}");
                reason += &format!("; group split: {kv}, the query heads of each group by {group}");
            }
        }
        reason
    }
}

/// Every degree from 1 to `devices`.
pub fn table(facts: &Facts, devices: u64) -> Table {
    let (legal, ranks) = (Legal::of(facts, EVERYTHING), Legal::of(facts, RANKS));
    Table {
        tp: (1..=devices).map(|degree| tensor(facts, degree, &legal)).collect(),
        ep: (1..=devices).map(|degree| expert(facts, degree, &ranks)).collect(),
        pp: (1..=devices).map(|degree| stage(facts, degree)).collect(),
    }
}

fn verdict(result: Result<(), String>, otherwise: impl FnOnce() -> String) -> Verdict {
    match result {
        Ok(()) => Verdict { valid: true, reason: otherwise() },
        Err(reason) => Verdict { valid: false, reason },
    }
}

/// A row; `legal` are the degrees that every part allows.
fn tensor(facts: &Facts, degree: u64, legal: &Legal) -> TensorRow {
    let part =
        |part: parts::Part| part(facts, degree).map_err(|cause| refused(&cause, legal, degree));
    let widths = |list: &[(u64, u64)], none: &str| match list {
        [] => none.to_string(),
        _ => per_rank(list.iter().map(|(width, _)| width / degree), "columns"),
    };
    let vocab_padding = facts.vocab.map(|v| (v, v.div_ceil(degree).saturating_mul(degree)));
    let vocab = match vocab_padding {
        None => "no vocabulary".to_string(),
        Some((v, padded)) if v == padded => format!("{} rows a rank", v / degree),
        Some((v, padded)) => {
            format!(
                "{v} padded to {padded}, {} rows a rank, {} masked",
                padded / degree,
                padded - v
            )
        }
    };
    let group_split = group_split(facts, degree);
    TensorRow {
        degree,
        heads: verdict(part(parts::heads), || heads(facts, degree)),
        ffn: verdict(part(parts::widths), || widths(&facts.widths, "no dense feed-forward block")),
        vocab: Verdict { valid: true, reason: vocab },
        experts: verdict(part(parts::expert_widths), || {
            widths(&facts.expert_widths, "no routed experts")
        }),
        vocab_padding,
        kv_copies: (group_split.is_some() || parts::heads(facts, degree).is_ok())
            .then(|| kv_copies(facts, degree)),
        group_split,
    }
}

/// `14336 columns a rank`, each distinct number once.
fn per_rank(numbers: impl Iterator<Item = u64>, what: &str) -> String {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    let shown: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("{} {what} a rank", shown.join(" or "))
}

/// What each rank gets of the heads.
fn heads(facts: &Facts, degree: u64) -> String {
    let one = |&(kv, group): &(u64, u64)| {
        let (query, held) = (kv.saturating_mul(group) / degree, (kv / degree).max(1));
        match (facts.latent, kv_copies(facts, degree)) {
            (true, 1) => format!("{query} heads a rank"),
            (true, n) => format!("{query} heads a rank, the latent cache on all {n}"),
            (false, 1) => format!("{query} query and {held} kv heads a rank"),
            (false, n) => format!("{query} query and {held} kv heads a rank, each kv head on {n}"),
        }
    };
    let mut kinds: Vec<String> = facts.heads.iter().map(one).collect();
    kinds.dedup();
    if kinds.is_empty() { "no attention".to_string() } else { kinds.join("; ") }
}

/// Ranks that hold one kv head; a latent row belongs to all heads and so to all ranks.
fn kv_copies(facts: &Facts, degree: u64) -> u64 {
    if facts.latent {
        return degree;
    }
    let copies = facts.heads.iter().map(|&(kv, _)| degree / gcd(degree, kv));
    copies.max().unwrap_or(1)
}

/// The a × b = `degree` of largest a that has a divide all kv heads and b all groups, where the
/// engines' rule refuses.
fn group_split(facts: &Facts, degree: u64) -> Option<(u64, u64)> {
    let engines = facts.heads.iter().all(|&(kv, group)| whole_heads(kv, group, degree).is_ok());
    let splits = |(a, b): &(u64, u64)| {
        facts.heads.iter().all(|(kv, group)| kv.is_multiple_of(*a) && group.is_multiple_of(*b))
    };
    let pairs = (1..=degree).rev().filter(|a| degree.is_multiple_of(*a)).map(|a| (a, degree / a));
    pairs.filter(|_| !engines).find(splits)
}

fn expert(facts: &Facts, degree: u64, ranks: &Legal) -> ExpertRow {
    let shares = facts.experts.first().map_or(Vec::new(), |&n| shares(n, degree));
    let legal = match facts.is_moe() || degree == 1 {
        true => parts::experts(facts, degree).map_err(|cause| refused(&cause, ranks, degree)),
        false => Err("the model has no routed experts; nearest legal: 1".to_string()),
    };
    let several = |n: &u64| held(*n, "experts", &self::shares(*n, degree), "ranks");
    let experts = verdict(legal, || match &facts.experts[..] {
        [] => "no routed experts".to_string(),
        all => all.iter().map(several).collect::<Vec<_>>().join("; "),
    });
    ExpertRow { degree, experts, shares }
}

fn stage(facts: &Facts, degree: u64) -> StageRow {
    let layers = facts.layers;
    let legal = match degree <= layers.max(1) {
        true => Ok(()),
        false => {
            Err(format!("{layers} layers leave stages of {degree} empty; nearest legal: {layers}"))
        }
    };
    let shares = shares(layers, degree);
    let layers = verdict(legal, || held(layers, "layers", &shares, "stages"));
    StageRow { degree, layers, shares }
}

/// How `n` things fall to `parts` holders: (holders, things each), larger shares first.
fn shares(n: u64, parts: u64) -> Vec<(u64, u64)> {
    let (each, more) = (n / parts.max(1), n % parts.max(1));
    let all = [(more, each + 1), (parts - more, each)];
    all.into_iter().filter(|(holders, _)| *holders > 0).collect()
}

/// `30 experts: 6 ranks of 4, 2 ranks of 3`.
fn held(n: u64, things: &str, shares: &[(u64, u64)], holders: &str) -> String {
    let one = |&(count, each): &(u64, u64)| {
        let holders = if count == 1 { holders.trim_end_matches('s') } else { holders };
        format!("{count} {holders} of {each}")
    };
    let all: Vec<String> = shares.iter().map(one).collect();
    format!("{n} {things}: {}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(kv: u64, group: u64) -> Facts {
        Facts { heads: vec![(kv, group)], layers: 61, vocab: Some(151_552), ..Facts::default() }
    }

    fn valid_heads(table: &Table) -> Vec<u64> {
        table.tp.iter().filter(|r| r.heads.valid).map(|r| r.degree).collect()
    }

    #[test]
    fn heads_follow_the_engines_and_groups_go_further() {
        let table = table(&dense(4, 7), 28);
        assert_eq!(valid_heads(&table), [1, 2, 4, 28]);
        let finer: Vec<_> = table.tp.iter().filter_map(|r| r.group_split).collect();
        assert_eq!(finer, [(1, 7), (2, 7)]);
        let ways = |i: usize| table.tp[i].reason().rsplit("; ").next().map(str::to_string);
        let group = "query heads of each group by 7";
        assert_eq!(ways(6), Some(format!("group split: the {group}")));
        assert_eq!(ways(13), Some(format!("group split: kv heads by 2, the {group}")));
        assert_eq!((table.tp[27].kv_copies, table.tp[4].kv_copies), (Some(7), None));
        assert_eq!(table.tp[27].heads.reason, "1 query and 1 kv heads a rank, each kv head on 7");
        assert_eq!(
            table.tp[6].heads.reason,
            "4 kv heads are neither a multiple nor a divisor of 7; nearest legal: 4 and 28"
        );
    }

    #[test]
    fn vocabulary_is_padded() {
        let row = &table(&dense(8, 8), 8).tp[5];
        assert_eq!(row.vocab_padding, Some((151_552, 151_554)));
        assert_eq!(row.vocab.reason, "151552 padded to 151554, 25259 rows a rank, 2 masked");
        let row = &table(&dense(8, 8), 64).tp[63];
        let padding = "vocabulary 151552 padded to 151552";
        assert!(row.valid() && !row.reason().contains(padding), "{}", row.reason());
        let row = &table(&Facts { vocab: Some(30), ..dense(8, 8) }, 8).tp[7];
        let heads = "8 query and 1 kv heads a rank";
        assert_eq!(row.reason(), format!("{heads}; vocabulary 30 padded to 32"));
    }

    #[test]
    fn experts_and_layers_may_be_uneven() {
        let facts = Facts { experts: vec![30], ..dense(8, 1) };
        let table = table(&facts, 62);
        assert_eq!(table.ep[7].shares, [(6, 4), (2, 3)]);
        assert_eq!(table.ep[7].experts.reason, "30 experts: 6 ranks of 4, 2 ranks of 3");
        assert!(table.ep[29].experts.valid && !table.ep[30].experts.valid);
        assert_eq!(table.pp[7].layers.reason, "61 layers: 5 stages of 8, 3 stages of 7");
        assert!(table.pp[60].layers.valid && !table.pp[61].layers.valid);
    }

    #[test]
    fn latent_rows_are_on_every_rank() {
        let facts = Facts { latent: true, ..dense(128, 1) };
        let row = &table(&facts, 8).tp[7];
        assert_eq!(row.kv_copies, Some(8));
        assert_eq!(row.heads.reason, "16 heads a rank, the latent cache on all 8");
    }

    #[test]
    fn blocks_are_never_cut() {
        let facts = Facts { expert_widths: vec![(1536, 128)], experts: vec![128], ..dense(4, 16) };
        let row = &table(&facts, 8).tp[7];
        assert!(row.heads.valid && !row.valid());
        assert_eq!(
            row.reason(),
            "expert ffn width 1536 over 8 is 192, which cuts quantisation blocks of 128; \
             nearest legal: 4; with experts split by ep the other parts allow it"
        );
    }
}
