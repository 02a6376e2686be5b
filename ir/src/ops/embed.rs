//! Look-ups by token.

use super::{Inferred, Operator, rank_is};
use crate::attrs;
use crate::dim::Dim;
use crate::rule::{Rule, RuleBuilder};
use crate::types::Type;

attrs! {
    /// Rows of a table `[v, h]` at ids `[b, s]`. A table split by rows looks up its own rows and
    /// leaves zeros elsewhere: a partial sum.
    pub struct Embedding {}

    /// Of `[b, s, h]` the row of the last new token of each request: `[b, 1, h]`. Split tokens
    /// leave zeros except on the device that holds the last one: a partial sum.
    pub struct LastToken {}
}

impl Operator for Embedding {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rank_is("operand 0 (table)", x[0], 2)?;
        rank_is("operand 1 (ids)", x[1], 2)?;
        let dims = vec![x[1].dims[0], x[1].dims[1], x[0].dims[1]];
        Inferred::one(Type::tensor(dims, x[0].elem.dtype))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let builder = RuleBuilder::new(&["vh", "bs"], &["bsh"]);
        Some(builder.sizes(0, &x[0].dims).sizes(1, &x[1].dims).sum('v').build())
    }
}

impl Operator for LastToken {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rank_is("operand 0", x[0], 3)?;
        let dims = vec![x[0].dims[0], Dim::fixed(1), x[0].dims[2]];
        Inferred::one(x[0].as_tensor().with_dims(dims))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let builder = RuleBuilder::new(&["bsh"], &["boh"]).sizes(0, &x[0].dims).sum('s');
        Some(builder.whole("o").linear(&[0]).build())
    }
}
