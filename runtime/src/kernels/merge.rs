//! Completing pending reductions: contributions in group order, in f32.

use super::operand::{Numbers, Output, larger};
use shardc_ir::layout::ReduceKind;

/// What the contributions of a group come to, in their order.
///
/// # Errors
/// They are not contributions to a reduction of `kind`, or differ in size or in their rows.
pub fn merge(kind: ReduceKind, contributions: Vec<Output>) -> Result<Output, String> {
    let mut rest = contributions.into_iter();
    let mut sum = rest.next().ok_or("a group has no members")?;
    for next in rest {
        if sum.rows != next.rows {
            return Err("contributions to a sum hold different routed rows".to_string());
        }
        sum.add(kind, &next)?;
    }
    Ok(sum)
}

impl Output {
    fn add(&mut self, kind: ReduceKind, next: &Output) -> Result<(), String> {
        let sizes = |o: &Output| o.parts.iter().map(Numbers::len).collect::<Vec<_>>();
        if sizes(self) != sizes(next) {
            return Err("contributions to a reduction differ in size".to_string());
        }
        use Numbers::{Real, Whole};
        match (kind, &mut self.parts[..], &next.parts[..]) {
            (ReduceKind::Sum, [Real(a)], [Real(b)]) => {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            }
            (ReduceKind::Max, [Real(a)], [Real(b)]) => {
                a.iter_mut().zip(b).for_each(|(a, &b)| *a = larger(*a, b));
            }
            (ReduceKind::Sum, [Whole(a)], [Whole(b)]) => {
                a.iter_mut().zip(b).for_each(|(a, &b)| *a = a.saturating_add(b));
            }
            (ReduceKind::Max, [Whole(a)], [Whole(b)]) => {
                a.iter_mut().zip(b).for_each(|(a, &b)| *a = b.max(*a));
            }
            (ReduceKind::ArgMax, [Real(v), Whole(i)], [Real(w), Whole(j)]) => {
                let pairs = v.iter_mut().zip(i).zip(w.iter().zip(j));
                pairs.for_each(|((v, i), (&w, &j))| best((v, i), (w, j)));
            }
            (ReduceKind::Lse, [Real(a), Real(m), Real(s)], [Real(b), Real(n), Real(t)]) => {
                rescale((a, m, s), (b, n, t));
            }
            _ => return Err(format!("the operand holds no contributions to a {}", kind.name())),
        }
        Ok(())
    }

    /// Ends what does not pend any more: an arg-max is its index, attention its weighted mean.
    pub fn finish(self) -> Self {
        let Output { parts, rows } = self;
        let mut parts = parts.into_iter();
        let components = (parts.next(), parts.next(), parts.next());
        let parts = match components {
            (Some(_), Some(index), None) => vec![index],
            (Some(Numbers::Real(mut a)), Some(_), Some(Numbers::Real(sums))) => {
                let width = a.len() / sums.len().max(1);
                for (row, sum) in a.chunks_mut(width.max(1)).zip(&sums) {
                    row.iter_mut().for_each(|x| *x /= sum);
                }
                vec![Numbers::Real(a)]
            }
            (first, ..) => first.into_iter().collect(),
        };
        Output { parts, rows }
    }
}

impl Numbers {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Real(x) => x.len(),
            Numbers::Whole(x) => x.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The pair with the larger value, of equal ones that with the lower index.
fn best((v, i): (&mut f32, &mut i64), (w, j): (f32, i64)) {
    if w == *v {
        *i = j.min(*i);
    } else if w > *v {
        *i = j;
    }
    *v = larger(*v, w);
}

/// Accumulators and sums of two parts of the keys, relative to the common maximum.
fn rescale((a, m, s): (&mut [f32], &mut [f32], &mut [f32]), (b, n, t): (&[f32], &[f32], &[f32])) {
    let width = (a.len() / m.len().max(1)).max(1);
    for (row, (left, right)) in a.chunks_mut(width).zip(b.chunks(width)).enumerate() {
        let max = larger(m[row], n[row]);
        let weight = |own: f32| if own == max { 1.0 } else { (own - max).exp() };
        let (by, with) = (weight(m[row]), weight(n[row]));
        left.iter_mut().zip(right).for_each(|(x, y)| *x = *x * by + y * with);
        (m[row], s[row]) = (max, s[row] * by + t[row] * with);
    }
}
