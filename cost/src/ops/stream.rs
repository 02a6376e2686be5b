//! Operators that only move bytes, and the small ones around a layer stack.

use super::{Gemm, OpCost, Operands, Pricer, Terms};
use crate::machine::Math;
use crate::source::Source;

impl Pricer<'_> {
    /// Time of a kernel that reads and writes `bytes` in all and computes little: norms,
    /// additions, activations, rotary embeddings, casts, copies.
    pub fn stream(&self, bytes: f64) -> OpCost {
        if bytes <= 0.0 {
            return OpCost::NOTHING;
        }
        let fit = &self.profile.stream;
        let floor = self.tuned.rates.latency(fit.floor_ns);
        let memory = self.tuned.rates.stream(bytes, fit.memory);
        let terms = Terms { floor, compute: 0.0, memory, total: floor + memory };
        self.cost(terms, 0.0, bytes, self.device.flops.of(Math::F32))
    }

    /// A row-wise kernel over `[tokens, width]`: `reads` inputs and `writes` outputs of `bits`.
    pub fn elementwise(
        &self,
        tokens: u64,
        width: u64,
        reads: u64,
        writes: u64,
        bits: u32,
    ) -> OpCost {
        let values = tokens as f64 * width as f64 * (reads as f64 + writes as f64);
        self.stream(values * f64::from(bits) / 8.0)
    }

    /// An RMS or layer norm over `[tokens, width]`.
    pub fn norm(&self, tokens: u64, width: u64, bits: u32) -> OpCost {
        self.elementwise(tokens, width, 1, 1, bits)
    }

    /// Gathering `tokens` rows of an embedding table.
    pub fn embedding(&self, tokens: u64, hidden: u64, bits: u32) -> OpCost {
        self.elementwise(tokens, hidden, 1, 1, bits)
    }

    /// A router: scores of all experts, then the best of each row.
    pub fn router(&self, tokens: u64, hidden: u64, experts: u64) -> OpCost {
        let gemm = Gemm { batch: 1, m: tokens, n: experts, k: hidden, operands: Operands::BF16 };
        self.gemm(&gemm).then(self.elementwise(tokens, experts, 1, 1, 32))
    }

    /// Choosing a token from each row of local logits in 32 bits: one pass for the maximum, one
    /// for the sum, one for the choice.
    pub fn sampling(&self, rows: u64, vocab: u64) -> OpCost {
        self.elementwise(rows, vocab, 3, 0, 32)
    }
}

impl OpCost {
    /// Both operators, one after the other.
    pub fn then(self, next: OpCost) -> OpCost {
        let slower = if next.time > self.time { next } else { self };
        OpCost {
            time: self.time + next.time,
            flops: self.flops + next.flops,
            bytes: self.bytes + next.bytes,
            bound: slower.bound,
            source: Source::max(self.source, next.source),
            error: self.error.max(next.error),
        }
    }
}
