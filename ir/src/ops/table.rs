//! The operator table: one row per operator.

use super::attention::{Attention, KvRead, KvWrite, SparseIndex};
use super::collective::{
    AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, Recv, ReduceScatter, Send,
};
use super::contract::{Einsum, GroupedEinsum};
use super::control::{Constant, Repeat};
use super::elementwise::{
    AddLike, Clamp, DivLike, LinearUnary, MulLike, Offset, Pointwise, Scale, Unary,
};
use super::embed::{Embedding, LastToken};
use super::moe::{Combine, Dispatch, Router};
use super::norm::{LayerNorm, RmsNorm};
use super::placement::{Constraint, Reshard, ToPartial};
use super::position::{AlibiSlopes, PositionScale, Rope};
use super::reduce::{ArgMax, Reduce, Softmax};
use super::shape::{Broadcast, Cast, Concat, Dequantise, Pad, Quantise, Reshape, Slice, Transpose};
use super::{Family, Inferred, Lifespan, OpInfo, Operator};
use crate::attr::{AttrValue, Attrs};
use crate::rule::Rule;
use crate::types::Type;

macro_rules! op_table {
    ($($variant:ident($payload:ident) $name:literal $family:ident $min:literal..=$max:literal
        $lifespan:ident $summary:literal;)*) => {
        /// An operator with its attributes.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Op { $(#[doc = $summary] $variant($payload),)* }

        /// Every operator, in table order.
        pub const OPS: &[OpInfo] = &[$(OpInfo {
            name: $name,
            family: Family::$family,
            operands: ($min, $max),
            lifespan: Lifespan::$lifespan,
            keys: <$payload as Attrs>::KEYS,
            summary: $summary,
            doc: <$payload as Attrs>::DOC,
            attrs: <$payload as Attrs>::reference,
        }),*];

        enum Row { $($variant,)* }

        impl Op {
            /// The row of the table.
            pub fn info(&self) -> &'static OpInfo {
                match self { $(Op::$variant(_) => &OPS[Row::$variant as usize],)* }
            }

            /// The attributes that are present, in printing order.
            pub fn attrs(&self) -> Vec<(&'static str, AttrValue)> {
                match self { $(Op::$variant(a) => a.to_list(),)* }
            }

            /// The operator `name` with attributes from `get`; `None` for an unknown name.
            pub fn from_text(
                name: &str,
                get: &dyn Fn(&str) -> Option<AttrValue>,
            ) -> Option<Result<Self, String>> {
                match name { $($name => Some($payload::from_list(get).map(Op::$variant)),)* _ => None }
            }

            /// Result types from operand types.
            ///
            /// # Errors
            /// Says which operand does not fit and how.
            pub fn infer(&self, operands: &[&Type]) -> Result<Inferred, String> {
                let (min, max) = self.info().operands;
                if operands.len() < min || operands.len() > max {
                    return Err(arity_problem(self.info(), operands.len()));
                }
                match self { $(Op::$variant(a) => a.infer(operands),)* }
            }

            /// The sharding rule, or `None` where layouts do not flow through factors.
            pub fn rule(&self, operands: &[&Type], results: &[&Type]) -> Option<Rule> {
                match self { $(Op::$variant(a) => a.rule(operands, results),)* }
            }
        }
    };
}

op_table! {
    Dot(Einsum)              "dot"          Contract     2..=2  Always "general contraction; the letters of `spec` are its factors";
    GroupedDot(GroupedEinsum) "grouped_dot" Contract     2..=2  Always "contraction of routed rows with each expert's own matrix";
    Add(AddLike)             "add"          Elementwise  2..=2  Always "sum; the second operand may broadcast along `dims`";
    Sub(AddLike)             "sub"          Elementwise  2..=2  Always "difference";
    Mul(MulLike)             "mul"          Elementwise  2..=2  Always "product";
    Div(DivLike)             "div"          Elementwise  2..=2  Always "quotient";
    Max(Pointwise)           "max"          Elementwise  2..=2  Always "larger of two";
    Min(Pointwise)           "min"          Elementwise  2..=2  Always "smaller of two";
    Neg(LinearUnary)         "neg"          Elementwise  1..=1  Always "negation";
    Scale(Scale)             "scale"        Elementwise  1..=1  Always "product with the constant `by`";
    Offset(Offset)           "offset"       Elementwise  1..=1  Always "sum with the constant `by`";
    Clamp(Clamp)             "clamp"        Elementwise  1..=1  Always "limits to `lo` and `hi`";
    Silu(Unary)              "silu"         Elementwise  1..=1  Always "x · sigmoid(x)";
    Gelu(Unary)              "gelu"         Elementwise  1..=1  Always "Gaussian error linear unit, by erf";
    GeluTanh(Unary)          "gelu_tanh"    Elementwise  1..=1  Always "Gaussian error linear unit, by tanh";
    Relu(Unary)              "relu"         Elementwise  1..=1  Always "max(x, 0)";
    Relu2(Unary)             "relu2"        Elementwise  1..=1  Always "max(x, 0)²";
    Sigmoid(Unary)           "sigmoid"      Elementwise  1..=1  Always "1 / (1 + exp(−x))";
    Tanh(Unary)              "tanh"         Elementwise  1..=1  Always "hyperbolic tangent";
    Exp(Unary)               "exp"          Elementwise  1..=1  Always "exponential";
    Log(Unary)               "log"          Elementwise  1..=1  Always "natural logarithm";
    Sqrt(Unary)              "sqrt"         Elementwise  1..=1  Always "square root";
    Rsqrt(Unary)             "rsqrt"        Elementwise  1..=1  Always "1 / square root";
    Reduce(Reduce)           "reduce"       Reduce       1..=1  Always "sum, maximum or minimum over `dims`";
    Softmax(Softmax)         "softmax"      Reduce       1..=1  Always "softmax over `dim`";
    ArgMax(ArgMax)           "argmax"       Reduce       1..=1  Always "index of the largest element along `dim`; the lowest index wins a tie";
    RmsNorm(RmsNorm)         "rms_norm"     Norm         1..=2  Always "division by the root mean square of the last dimensions";
    LayerNorm(LayerNorm)     "layer_norm"   Norm         1..=3  Always "normalisation to mean 0 and variance 1 over the last dimensions";
    Rope(Rope)               "rope"         Position     2..=2  Always "rotary position embedding of (x, positions)";
    PositionScale(PositionScale) "position_scale" Position 2..=2 Always "rows times a factor that grows with the position: (x, positions)";
    AlibiSlopes(AlibiSlopes) "alibi_slopes" Position     0..=0  Always "how fast each head's scores fall with the distance";
    Attention(Attention)     "attention"    Attention    4..=9  Always "attention of (q, k, v, positions[, sinks][, slopes][, selected][, new k, new v])";
    KvWrite(KvWrite)         "kv_write"     Attention    3..=3  Always "cache with new rows written at their positions: (cache, rows, positions)";
    KvRead(KvRead)           "kv_read"      Attention    1..=1  Always "view of a cache as a tensor";
    SparseIndex(SparseIndex) "sparse_index" Attention    4..=4  Always "the `top_k` best scored positions of (q, k, head weights, positions)";
    Router(Router)           "router"       Moe          1..=2  Always "top-k experts of (logits[, correction bias]): weights and indices";
    Dispatch(Dispatch)       "dispatch"     Moe          2..=3  Always "rows routed to their experts: (x, indices[, weights])";
    Combine(Combine)         "combine"      Moe          2..=3  Always "sum of a token's expert rows: (rows, indices[, weights])";
    Embedding(Embedding)     "embedding"    Embed        2..=2  Always "rows of (table, ids)";
    LastToken(LastToken)     "last_token"   Embed        1..=1  Always "the last of the new tokens of each request";
    Reshape(Reshape)         "reshape"      Shape        1..=1  Always "the same elements in other dimensions";
    Transpose(Transpose)     "transpose"    Shape        1..=1  Always "permutation of dimensions";
    Concat(Concat)           "concat"       Shape        1..=64 Always "concatenation along `dim`";
    Slice(Slice)             "slice"        Shape        1..=1  Always "elements `lo..hi` of dimension `dim`";
    Pad(Pad)                 "pad"          Shape        1..=1  Always "zeros before and after dimension `dim`";
    Broadcast(Broadcast)     "broadcast"    Shape        1..=1  Always "copies along new dimensions";
    Cast(Cast)               "cast"         Shape        1..=1  Always "conversion of the element type";
    Quantise(Quantise)       "quantise"     Shape        1..=1  Always "conversion to a narrow format with scales";
    Dequantise(Dequantise)   "dequantise"   Shape        1..=1  Always "conversion of scaled storage to plain elements";
    Constant(Constant)       "constant"     Control      0..=0  Always "a tensor filled with `value`";
    Repeat(Repeat)           "repeat"       Control      1..=4096 Always "layer functions run one after another over stacked weights";
    Constraint(Constraint)   "constraint"   Placement    1..=1  Global "a layout that the user wants here";
    Reshard(Reshard)         "reshard"      Placement    1..=1  Sharded "the same value in another layout";
    ToPartial(ToPartial)     "to_partial"   Placement    1..=1  Always "a complete value as a partial sum: the first device keeps it, the others hold zero";
    AllGather(AllGather)     "all_gather"   Collective   1..=1  Communicating "removes axes from the minor end of dimensions";
    AllSlice(AllSlice)       "all_slice"    Collective   1..=1  Communicating "appends axes at the minor end of dimensions; moves nothing";
    AllReduce(AllReduce)     "all_reduce"   Collective   1..=1  Communicating "completes a partial value on every device";
    ReduceScatter(ReduceScatter) "reduce_scatter" Collective 1..=1 Communicating "completes a partial value, split over the same axes";
    AllToAll(AllToAll)       "all_to_all"   Collective   1..=1  Communicating "moves axes from one dimension to another";
    CollectivePermute(CollectivePermute) "collective_permute" Collective 1..=1 Communicating "exchanges shards between devices";
    Send(Send)               "send"         Collective   1..=1  Local "hands a value to another pipeline stage";
    Recv(Recv)               "recv"         Collective   0..=0  Local "takes a value from another pipeline stage";
}

/// What is wrong with a number of operands.
pub(crate) fn arity_problem(info: &OpInfo, got: usize) -> String {
    let plural = if info.operands.1 == 1 { "" } else { "s" };
    format!("`{}` takes {} operand{plural}, not {got}", info.name, info.arity())
}
