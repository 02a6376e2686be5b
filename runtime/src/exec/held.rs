//! A value in transit: its components as stored bytes, cut into boxes and put together again.

use crate::kernels::{Numbers, Operand, Output, ROUTED, Rows};
use crate::number;
use crate::place::{Place, for_each_run, volume};
use shardc_ir::dtype::DType;
use std::ops::Range;

/// One component of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Format of the elements.
    pub dtype: DType,
    /// Whether it has all dimensions, or lacks the last.
    pub full: bool,
    /// The elements, row-major.
    pub bytes: Vec<u8>,
}

/// A value, or a box of it, as one rank has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its components: more than one where an arg-max or attention pends.
    pub parts: Vec<Component>,
    /// The rows that exist, of routed rows.
    pub rows: Option<Rows>,
}

impl Held {
    /// A result in formats `dtypes` of its components.
    pub fn of(output: &Output, dtypes: &[(DType, bool)]) -> Self {
        let part = |(numbers, &(dtype, full)): (&Numbers, &(DType, bool))| {
            let mut bytes = vec![0; number::bytes_of(dtype, numbers.len())];
            match numbers {
                Numbers::Real(x) => number::narrow(dtype, x, &mut bytes),
                Numbers::Whole(x) => number::store_integers(dtype, x, &mut bytes),
            }
            Component { dtype, full, bytes }
        };
        let parts = output.parts.iter().zip(dtypes).map(part).collect();
        Held { parts, rows: output.rows.clone() }
    }

    /// The numbers.
    pub fn output(&self) -> Output {
        let numbers = |c: &Component| {
            let count = c.bytes.len() * 8 / c.dtype.bits() as usize;
            if !c.dtype.is_float() {
                return Numbers::Whole(number::integers(c.dtype, &c.bytes, count));
            }
            let mut out = vec![0.0; count];
            number::widen(c.dtype, &c.bytes, 0, &mut out);
            Numbers::Real(out)
        };
        Output { parts: self.parts.iter().map(numbers).collect(), rows: self.rows.clone() }
    }

    /// The value, which is not pending, as an operand.
    pub fn operand<'a>(&'a self, place: &'a Place) -> Operand<'a> {
        let part = self.parts.first();
        Operand {
            place,
            dtype: part.map_or(DType::F32, |p| p.dtype),
            bytes: part.map_or(&[][..], |p| &p.bytes).into(),
            scales: None,
            rows: self.rows.as_ref(),
        }
    }

    /// The box `ranges` of the global tensor, of which `place` is here.
    ///
    /// # Errors
    /// Elements take less than a byte.
    pub fn cut(&self, place: &Place, ranges: &[Range<usize>]) -> Result<Held, String> {
        let own = place.relative(ranges);
        let mut parts = Vec::with_capacity(self.parts.len());
        let rows = self.rows.as_ref().map(|rows| {
            let inside = |row: &[u32; 3]| {
                row.iter().zip(&own).all(|(&i, range)| range.contains(&(i as usize)))
            };
            let kept = rows.iter().enumerate().filter(|(_, row)| inside(row));
            kept.map(|(at, row)| (at, *row)).collect::<Vec<_>>()
        });
        for part in &self.parts {
            let size = part.size()?;
            let mut bytes = Vec::new();
            let mut take = |first: usize, count: usize| {
                bytes.extend_from_slice(&part.bytes[first * size..(first + count) * size]);
            };
            match &rows {
                None => {
                    let rank = part.rank(place);
                    for_each_run(&place.shape()[..rank], &own[..rank], take);
                }
                Some(rows) => {
                    let shape = &place.shape()[ROUTED..];
                    let width = volume(shape);
                    for (at, _) in rows {
                        for_each_run(shape, &own[ROUTED..], |first, count| {
                            take(at * width + first, count);
                        });
                    }
                }
            }
            parts.push(Component { bytes, ..*part });
        }
        // Rows of a box are counted from where the box begins.
        let counted = |(_, row): (usize, [u32; 3])| {
            let mut row = row;
            row.iter_mut().zip(&own).for_each(|(i, range)| *i -= range.start as u32);
            row
        };
        Ok(Held { parts, rows: rows.map(|rows| rows.into_iter().map(counted).collect()) })
    }

    /// The part `place`, from boxes of the global tensor that make it up.
    ///
    /// # Errors
    /// There is no box, or boxes differ in kind.
    pub fn join(place: &Place, boxes: &[(Vec<Range<usize>>, Held)]) -> Result<Held, String> {
        let (_, first) = boxes.first().ok_or("nothing is at hand")?;
        let alike = |(_, held): &(_, Held)| {
            let kinds = |h: &Held| h.parts.iter().map(|c| (c.dtype, c.full)).collect::<Vec<_>>();
            kinds(held) == kinds(first) && held.rows.is_some() == first.rows.is_some()
        };
        if !boxes.iter().all(alike) {
            return Err("parts of different kinds are put together".to_string());
        }
        let rows = first.rows.as_ref().map(|_| all_rows(place, boxes));
        let mut parts = Vec::new();
        for (i, part) in first.parts.iter().enumerate() {
            let rank = part.rank(place);
            let shape = place.shape();
            let count = match &rows {
                None => volume(&shape[..rank]),
                Some(rows) => rows.len() * volume(&shape[ROUTED..]),
            };
            let mut out = Component { bytes: vec![0; count * part.size()?], ..part.clone() };
            for (ranges, held) in boxes {
                let from = held.parts.get(i).ok_or("a component is missing")?;
                match (&rows, &held.rows) {
                    (Some(rows), Some(own)) => out.put_rows(place, rows, ranges, own, from)?,
                    _ => out.put(&shape[..rank], &place.relative(ranges)[..rank], from)?,
                }
            }
            parts.push(out);
        }
        Ok(Held { parts, rows })
    }
}

/// The rows of all boxes, counted from where the part begins, in order.
fn all_rows(place: &Place, boxes: &[(Vec<Range<usize>>, Held)]) -> Rows {
    let mut out = Rows::new();
    for (ranges, held) in boxes {
        out.extend(held.rows.iter().flatten().map(|row| moved(place, ranges, row)));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// A row of a box, counted from where the part begins.
fn moved(place: &Place, ranges: &[Range<usize>], row: &[u32; 3]) -> [u32; 3] {
    let mut row = *row;
    let starts = ranges.iter().zip(&place.ranges).map(|(r, own)| r.start - own.start);
    row.iter_mut().zip(starts).for_each(|(i, start)| *i += start as u32);
    row
}

impl Component {
    /// Bytes of an element.
    fn size(&self) -> Result<usize, String> {
        match self.dtype.bits() {
            bits if bits.is_multiple_of(8) => Ok(bits as usize / 8),
            _ => Err(format!("values in {} do not travel", self.dtype)),
        }
    }

    /// Dimensions of the component of a value in `place`.
    fn rank(&self, place: &Place) -> usize {
        if self.full { place.rank() } else { place.rank().saturating_sub(1) }
    }

    /// Writes a box.
    fn put(
        &mut self,
        shape: &[usize],
        ranges: &[Range<usize>],
        from: &Component,
    ) -> Result<(), String> {
        let size = self.size()?;
        let volume: usize = ranges.iter().map(Range::len).product();
        if from.bytes.len() != volume * size {
            return Err("a part has another size than its box".to_string());
        }
        let mut at = 0;
        for_each_run(shape, ranges, |first, count| {
            let own = &mut self.bytes[first * size..(first + count) * size];
            own.copy_from_slice(&from.bytes[at..at + count * size]);
            at += count * size;
        });
        Ok(())
    }

    /// Writes the rows of a box of routed rows.
    fn put_rows(
        &mut self,
        place: &Place,
        rows: &Rows,
        ranges: &[Range<usize>],
        own: &Rows,
        from: &Component,
    ) -> Result<(), String> {
        let size = self.size()?;
        let shape = &place.shape()[ROUTED..];
        let inner = &place.relative(ranges)[ROUTED..];
        let (width, part) = (volume(shape), inner.iter().map(Range::len).product::<usize>());
        if from.bytes.len() != own.len() * part * size {
            return Err("routed rows have another size than their box".to_string());
        }
        let mut at = 0;
        for row in own {
            let row = rows.binary_search(&moved(place, ranges, row));
            let row = row.map_err(|_| "a routed row is lost")?;
            for_each_run(shape, inner, |first, count| {
                let to = (row * width + first) * size;
                self.bytes[to..to + count * size]
                    .copy_from_slice(&from.bytes[at..at + count * size]);
                at += count * size;
            });
        }
        Ok(())
    }
}

impl Held {
    /// The value as one message.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = vec![self.parts.len() as u8, u8::from(self.rows.is_some())];
        if let Some(rows) = &self.rows {
            out.extend((rows.len() as u64).to_le_bytes());
            rows.iter().flatten().for_each(|i| out.extend(i.to_le_bytes()));
        }
        for part in &self.parts {
            out.extend([part.dtype as u8, u8::from(part.full)]);
            out.extend((part.bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(&part.bytes);
        }
        out
    }

    /// The value of a message.
    ///
    /// # Errors
    /// The message is none of a value.
    pub fn unpack(message: &[u8]) -> Result<Self, String> {
        let mut rest = Reader { rest: message };
        let [parts, routed] = *rest.take::<2>()?;
        let mut held = Held { parts: Vec::new(), rows: None };
        if routed != 0 {
            let count = rest.length()?;
            let bytes = rest.slice(count.saturating_mul(12))?;
            let numbers = bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
            let numbers: Vec<u32> = numbers.collect();
            held.rows = Some(numbers.as_chunks::<3>().0.to_vec());
        }
        for _ in 0..parts {
            let [dtype, full] = *rest.take::<2>()?;
            let row = DType::TABLE.get(usize::from(dtype)).ok_or("a message has no format")?;
            let length = rest.length()?;
            let bytes = rest.slice(length)?.to_vec();
            held.parts.push(Component { dtype: row.0, full: full != 0, bytes });
        }
        Ok(held)
    }
}

/// Reads a message from its front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn slice(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (own, rest) = self.rest.split_at_checked(count).ok_or("a message is cut short")?;
        self.rest = rest;
        Ok(own)
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], String> {
        let (own, rest) = self.rest.split_first_chunk().ok_or("a message is cut short")?;
        self.rest = rest;
        Ok(own)
    }

    fn length(&mut self) -> Result<usize, String> {
        Ok(u64::from_le_bytes(*self.take::<8>()?) as usize)
    }
}
