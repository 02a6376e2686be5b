//! Extents: constants, symbols with ranges, and their per-device shares.

use crate::entity_id;
use std::fmt;

entity_id! {
    /// A symbolic extent declared by `dim %T in 1..8192`.
    Sym
}

impl Sym {
    /// A stand-in for the name where the module is not at hand: `#0`, `#1`, …;
    /// [`Module::name_symbols`](crate::graph::Module::name_symbols) puts the names in.
    pub fn placeholder(self) -> &'static str {
        use crate::entity::EntityId;
        const NUMBERS: [&str; 8] = ["#0", "#1", "#2", "#3", "#4", "#5", "#6", "#7"];
        NUMBERS.get(self.index()).copied().unwrap_or("#")
    }
}

/// A declared symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymDim {
    /// Name without `%`.
    pub name: String,
    /// Smallest value.
    pub lo: u64,
    /// Largest value.
    pub hi: u64,
}

/// An extent: `ceildiv(coeff · sym, div)`; without a symbol `ceildiv(coeff, div)`.
///
/// Closed under the splits of a sharding, since `ceildiv(ceildiv(n, a), b) = ceildiv(n, a·b)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim {
    coeff: u64,
    sym: Option<Sym>,
    div: u64,
}

impl Dim {
    /// A constant.
    pub const fn fixed(n: u64) -> Self {
        Dim { coeff: n, sym: None, div: 1 }
    }

    /// A symbol.
    pub const fn sym(sym: Sym) -> Self {
        Dim { coeff: 1, sym: Some(sym), div: 1 }
    }

    /// The value, if it depends on no symbol.
    pub fn as_fixed(self) -> Option<u64> {
        self.sym.is_none().then(|| self.coeff.div_ceil(self.div))
    }

    /// The global extent and the number of parts it was split into, as far as the extent tells:
    /// an even share of a constant is a constant of one part.
    pub fn whole(self) -> (Self, u64) {
        (Dim { div: 1, ..self }, self.div)
    }

    /// A number that divides the extent whatever its symbol stands for: the coefficient of a multiple
    /// of a symbol, the extent itself without one.
    pub fn known_factor(self) -> u64 {
        match (self.sym, self.div) {
            (Some(_), 1) => self.coeff,
            (Some(_), _) => 1,
            (None, _) => self.coeff.div_ceil(self.div),
        }
    }

    /// The symbol it depends on.
    pub fn symbol(self) -> Option<Sym> {
        self.sym
    }

    /// `self · n`, where no share has been taken yet; `None` on overflow or of a share.
    pub fn times(self, n: u64) -> Option<Self> {
        (self.div == 1 || n == 1)
            .then(|| Some(Dim { coeff: self.coeff.checked_mul(n)?, ..self }))
            .flatten()
    }

    /// The padded share of one device of `parts`: `ceildiv(self, parts)`; `parts` at least 1.
    ///
    /// An uneven share keeps the global extent and the number of parts, since both are needed to
    /// know which device holds how much.
    pub fn share(self, parts: u64) -> Self {
        let div = self.div.saturating_mul(parts.max(1));
        if self.coeff.is_multiple_of(div) {
            Dim { coeff: self.coeff / div, sym: self.sym, div: 1 }
        } else {
            Dim { div, ..self }
        }
    }

    /// The value under `bind`, saturating.
    pub fn eval(self, bind: &Bindings) -> u64 {
        match self.sym {
            None => self.coeff.div_ceil(self.div),
            Some(s) => self.coeff.saturating_mul(bind.get(s)).div_ceil(self.div),
        }
    }

    /// Coefficient, symbol and divisor, for printing.
    pub fn parts(self) -> (u64, Option<Sym>, u64) {
        (self.coeff, self.sym, self.div)
    }

    /// `ceildiv(coeff · sym, div)` as written; `None` when `div` is 0.
    pub fn from_parts(coeff: u64, sym: Option<Sym>, div: u64) -> Option<Self> {
        (div > 0).then(|| Dim { coeff, sym, div: 1 }.share(div))
    }

    /// Shows the extent with symbol names from `syms`.
    pub fn show<'a>(self, names: &'a dyn Fn(Sym) -> &'a str) -> impl fmt::Display + 'a {
        ShowDim { dim: self, names }
    }
}

impl From<u64> for Dim {
    fn from(n: u64) -> Self {
        Dim::fixed(n)
    }
}

struct ShowDim<'a> {
    dim: Dim,
    names: &'a dyn Fn(Sym) -> &'a str,
}

impl fmt::Display for ShowDim<'_> {
    /// `4096`, `%T`, `8*%T`, `ceildiv(%T, 8)`, `ceildiv(3*%T, 8)` or `ceildiv(30, 8)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (coeff, sym, div) = self.dim.parts();
        let times = match sym.map(self.names) {
            None => coeff.to_string(),
            Some(name) if coeff == 1 => format!("%{name}"),
            Some(name) => format!("{coeff}*%{name}"),
        };
        if div == 1 { f.write_str(&times) } else { write!(f, "ceildiv({times}, {div})") }
    }
}

/// Values of the symbols of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    values: Vec<u64>,
}

impl Bindings {
    /// Sets a symbol.
    pub fn set(&mut self, sym: Sym, value: u64) {
        use crate::entity::EntityId;
        if self.values.len() <= sym.index() {
            self.values.resize(sym.index() + 1, 1);
        }
        self.values[sym.index()] = value;
    }

    /// The value of a symbol; 1 where it was never set.
    pub fn get(&self, sym: Sym) -> u64 {
        use crate::entity::EntityId;
        self.values.get(sym.index()).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::EntityId;

    #[test]
    fn shares_compose() {
        let t = Dim::sym(Sym::from_index(0));
        assert_eq!(t.share(4).share(2), t.share(8));
        let mut bind = Bindings::default();
        bind.set(Sym::from_index(0), 17);
        assert_eq!(t.share(8).eval(&bind), 3);
        assert_eq!(t.times(8).map(|d| d.share(8)), Some(t));
        assert_eq!(Dim::fixed(30).share(8).parts(), (30, None, 8));
        assert_eq!(Dim::fixed(32).share(8), Dim::fixed(4));
    }
}
