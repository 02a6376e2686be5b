//! Rewrite rules as data: one table of equations between terms, each with named side conditions.
//!
//! A rule says that what its left side computes, its right side computes too, wherever its
//! conditions hold. Rules are written as text and read once, so that a person, the e-graph and a
//! checker read the same rows. A row needs no code: patterns are made of operators, and conditions
//! come from a closed set ([`Condition`]).
//!
//! Two planes: on the *device* plane a term is what one device computes, so collectives are
//! operators and every term has a layout; on the *value* plane a term is a value of the model.
//!
//! Rules hold over the reals. `docs/algebra.md` lists them; `tests/files/algebra` has a program
//! for each, which is run before and after the rule.

mod collectives;
mod commuting;
mod partial;
mod pattern;
mod read;
#[cfg(test)]
mod tests;

pub use pattern::{AttrPattern, Others, Pattern};
pub use read::read;

use std::sync::LazyLock;

/// What a group of rules is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Theme {
    /// Collectives in a row.
    Collectives,
    /// Collectives before and after operators.
    Commuting,
    /// Partial sums, and values that join them.
    Partial,
}

impl Theme {
    /// Name in the reference.
    pub fn name(self) -> &'static str {
        match self {
            Theme::Collectives => "collectives",
            Theme::Commuting => "commuting",
            Theme::Partial => "partial sums",
        }
    }
}

/// Where a rule holds: the terms that its sides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plane {
    /// What one device computes.
    Device,
    /// Values of the model.
    Value,
}

/// A side condition over the variables of a rule. Attributes are axis lists per dimension (*lists*),
/// axis lists, reductions, or moves of axes between dimensions.
///
/// A condition on variables that the left side does not bind stands for every choice that meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// `lists` puts exactly `axes` on one dimension.
    Places {
        /// Lists per dimension.
        lists: &'static str,
        /// Axes.
        axes: &'static str,
    },
    /// `axes` are exactly those that `lists` names, in any order.
    Names {
        /// Axes.
        axes: &'static str,
        /// Lists per dimension.
        lists: &'static str,
    },
    /// In every dimension `whole` is `major`, then `minor`; neither of them is empty.
    Joins {
        /// Lists per dimension.
        whole: &'static str,
        /// Lists per dimension.
        major: &'static str,
        /// Lists per dimension.
        minor: &'static str,
    },
    /// `whole` has the axes of `first` and of `second`, and they have none in common.
    Unites {
        /// Axes.
        whole: &'static str,
        /// Axes.
        first: &'static str,
        /// Axes.
        second: &'static str,
    },
    /// `moves` takes the same axes from the one dimension of `from` to the one dimension of `to`.
    Moves {
        /// Moves.
        moves: &'static str,
        /// Lists per dimension.
        from: &'static str,
        /// Lists per dimension.
        to: &'static str,
    },
    /// The layouts on both sides of `f` come from an assignment of axes to the factors of its
    /// sharding rule, under which no factor that it reduces is split otherwise than before.
    Flows,
    /// As [`Condition::Flows`], but the axes in question split a factor that `f` reduces.
    Contracts,
    /// As [`Condition::Contracts`], but other factors lose the axes that the reduced one gains.
    Trades,
    /// `f` is linear in the operand in question, and its other operands are complete.
    Linear,
    /// `f` is a sum of its operands.
    Additive,
}

impl Condition {
    /// Every kind of condition by name, with what it says.
    pub const KINDS: [(&'static str, &'static str); 10] = [
        ("places", "lists that put exactly these axes on one dimension"),
        ("names", "axes that are exactly those of these lists"),
        ("joins", "lists that are two lists one after the other, dimension by dimension"),
        ("unites", "axes that are those of two disjoint lists"),
        ("moves", "moves of all axes from the one dimension of one list to that of another"),
        ("flows", "layouts on both sides of `f` come from one assignment of axes to its factors"),
        ("contracts", "as flows, and the axes split a factor that `f` reduces"),
        ("trades", "as contracts, but other factors lose the axes that the reduced one gains"),
        ("linear", "`f` is linear in that operand, and the others are complete"),
        ("additive", "`f` is a sum of its operands"),
    ];

    /// Name in the reference.
    pub fn name(&self) -> &'static str {
        let at = match self {
            Condition::Places { .. } => 0,
            Condition::Names { .. } => 1,
            Condition::Joins { .. } => 2,
            Condition::Unites { .. } => 3,
            Condition::Moves { .. } => 4,
            Condition::Flows => 5,
            Condition::Contracts => 6,
            Condition::Trades => 7,
            Condition::Linear => 8,
            Condition::Additive => 9,
        };
        Self::KINDS[at].0
    }

    /// The condition with its variables: `joins(j, h, g)`.
    pub fn text(&self) -> String {
        let of = |vars: &[&str]| format!("{}({})", self.name(), vars.join(", "));
        match self {
            Condition::Places { lists, axes } => of(&[lists, axes]),
            Condition::Names { axes, lists } => of(&[axes, lists]),
            Condition::Joins { whole, major, minor } => of(&[whole, major, minor]),
            Condition::Unites { whole, first, second } => of(&[whole, first, second]),
            Condition::Moves { moves, from, to } => of(&[moves, from, to]),
            _ => self.name().to_string(),
        }
    }
}

/// A rule as written.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name, kebab-case; certificates and reports use it.
    pub name: &'static str,
    /// What is rewritten.
    pub lhs: &'static str,
    /// What it becomes.
    pub rhs: &'static str,
    /// When.
    pub when: &'static [Condition],
    /// One sentence: what it is good for, or why it holds.
    pub doc: &'static str,
}

/// A rule that has been read.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The row.
    pub row: Row,
    /// Its group.
    pub theme: Theme,
    /// Where it holds.
    pub plane: Plane,
    /// The left side.
    pub lhs: Pattern,
    /// The right side.
    pub rhs: Pattern,
}

/// The groups of the table, in order.
pub const GROUPS: &[(Theme, Plane, &[Row])] = &[
    (Theme::Collectives, Plane::Device, collectives::ROWS),
    (Theme::Partial, Plane::Device, partial::ROWS),
    (Theme::Commuting, Plane::Device, commuting::ROWS),
];

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let groups = GROUPS.iter();
    let rows =
        groups.flat_map(|(theme, plane, rows)| rows.iter().map(|row| (*theme, *plane, *row)));
    rows.filter_map(|(theme, plane, row)| Rule::of(row, theme, plane).ok()).collect()
});

/// Every rule of the table, in order.
pub fn rules() -> &'static [Rule] {
    &RULES
}

impl Rule {
    /// Reads a row.
    ///
    /// # Errors
    /// Says what of its text cannot be read. A test reads every row of the table.
    pub fn of(row: Row, theme: Theme, plane: Plane) -> Result<Rule, String> {
        let (lhs, rhs) = (read(row.lhs)?, read(row.rhs)?);
        Ok(Rule { row, theme, plane, lhs, rhs })
    }

    /// The rule of that name.
    pub fn named(name: &str) -> Option<&'static Rule> {
        rules().iter().find(|r| r.row.name == name)
    }
}
