//! A CSV text by named columns. Every complaint points at its line.

use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result, Span};
use shardc_ir::nearest::nearest;

/// A table with a header.
#[derive(Debug)]
pub struct Table<'a> {
    text: &'a str,
    columns: Vec<&'a str>,
    /// Where the header ends.
    body: usize,
}

/// A row of a table.
#[derive(Debug)]
pub struct Row<'a> {
    columns: &'a [&'a str],
    cells: Vec<&'a str>,
    line: &'a str,
    start: usize,
}

impl<'a> Table<'a> {
    /// Reads the header.
    ///
    /// Errors: an empty text, a column that stands twice.
    pub fn parse(text: &'a str) -> Result<Table<'a>> {
        let header = text.lines().next().unwrap_or_default();
        let columns: Vec<&str> =
            header.trim_start_matches('\u{feff}').split(',').map(bare).collect();
        if columns.iter().all(|c| c.is_empty()) {
            let help = "the first line names the columns, as in `m,n,k,gemm_dtype,latency`";
            let message = "the table has no header";
            return Err(Box::new(Diagnostic::error(codes::TABLE_SHAPE, message).help(help)));
        }
        let twice = columns.iter().enumerate().find(|(i, c)| columns[..*i].contains(c));
        if let Some((_, name)) = twice {
            let message = format!("two columns are called `{name}`");
            return Err(Box::new(
                Diagnostic::error(codes::TABLE_SHAPE, message).at(Span::new(0, header.len()), ""),
            ));
        }
        let body = text.find('\n').map_or(text.len(), |end| end + 1);
        Ok(Table { text, columns, body })
    }

    /// The header with more columns.
    ///
    /// Errors: a column of that name is there already.
    pub fn header_with(&self, more: &[&str]) -> Result<String> {
        if let Some(name) = more.iter().find(|name| self.columns.contains(name)) {
            let message = format!("the table has a column `{name}` already");
            let help = "remove the column, or give the table without predictions";
            return Err(Box::new(
                Diagnostic::error(codes::TABLE_SHAPE, message)
                    .at(Span::new(0, self.body), "")
                    .help(help),
            ));
        }
        Ok(format!("{},{}\n", self.columns.join(","), more.join(",")))
    }

    /// Every row that is not blank, with an error where it has not as many cells as columns.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row<'_>>> {
        let mut start = self.body;
        self.text[self.body..].split_inclusive('\n').filter_map(move |whole| {
            let (at, line) = (start, whole.trim_end_matches(['\n', '\r']));
            start += whole.len();
            (!line.trim().is_empty()).then(|| self.row(line, at))
        })
    }

    fn row(&self, line: &'a str, start: usize) -> Result<Row<'_>> {
        let cells: Vec<&str> = cells(line).map(bare).collect();
        if cells.len() == self.columns.len() {
            return Ok(Row { columns: &self.columns, cells, line, start });
        }
        let number = self.text[..start].matches('\n').count() + 1;
        let (found, wanted) = (cells.len(), self.columns.len());
        let message = format!("line {number} has {found} cells, and the header {wanted}");
        Err(Box::new(
            Diagnostic::error(codes::TABLE_SHAPE, message)
                .at(Span::new(start, start + line.len()), "this row"),
        ))
    }
}

impl Row<'_> {
    /// The line with more cells.
    pub fn with(&self, more: &[String]) -> String {
        format!("{},{}\n", self.line, more.join(","))
    }

    /// A cell, if the table has the column.
    pub fn get(&self, column: &str) -> Option<&str> {
        self.columns.iter().position(|c| *c == column).map(|i| self.cells[i])
    }

    /// A cell.
    ///
    /// Errors: the table lacks the column.
    pub fn text(&self, column: &str) -> Result<&str> {
        self.get(column).ok_or_else(|| {
            let message = format!("the table has no column `{column}`");
            let known = self.columns.join(", ");
            let help = match nearest(column, self.columns.iter().copied()) {
                Some(near) => format!("is it `{near}`? The columns are {known}"),
                None => format!("the columns are {known}"),
            };
            Box::new(Diagnostic::error(codes::TABLE_COLUMN, message).help(help))
        })
    }

    /// A whole number, also one written with a zero fraction.
    ///
    /// Errors: the column is missing, or its cell is something else.
    pub fn whole(&self, column: &str) -> Result<u64> {
        let text = self.text(column)?;
        let plain = text.split_once('.').map_or(text, |(whole, fraction)| {
            if fraction.bytes().all(|b| b == b'0') { whole } else { text }
        });
        plain.parse().map_err(|_| self.wrong(column, "a whole number of at least 0"))
    }

    /// A whole number above 0.
    ///
    /// Errors: the column is missing, or its cell is something else.
    pub fn size(&self, column: &str) -> Result<u64> {
        match self.whole(column)? {
            0 => Err(self.wrong(column, "a whole number of at least 1")),
            size => Ok(size),
        }
    }

    /// A number above 0.
    ///
    /// Errors: the column is missing, or its cell is something else.
    pub fn positive(&self, column: &str) -> Result<f64> {
        let number = self.text(column)?.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
        number.ok_or_else(|| self.wrong(column, "a number above 0"))
    }

    /// A complaint about a cell.
    pub fn wrong(&self, column: &str, wanted: &str) -> Box<Diagnostic> {
        let cell = self.get(column).unwrap_or_default();
        let shown: String = cell.chars().take(40).collect();
        let offset = cell.as_ptr() as usize - self.line.as_ptr() as usize;
        let start = self.start + offset.min(self.line.len());
        Box::new(
            Diagnostic::error(codes::TABLE_CELL, format!("`{column}` is `{shown}`, not {wanted}"))
                .at(Span::new(start, start + cell.len()), format!("must be {wanted}")),
        )
    }
}

/// The cells of a line, split at commas outside quotes.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
}

/// A cell without spaces and quotes around it.
fn bare(cell: &str) -> &str {
    let cell = cell.trim();
    cell.strip_prefix('"').and_then(|c| c.strip_suffix('"')).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas() {
        let split: Vec<&str> = cells("a,\"b, c\",d").map(bare).collect();
        assert_eq!(split, ["a", "b, c", "d"]);
    }

    #[test]
    fn cells_come_by_name_and_lines_come_back() {
        let table = Table::parse("m, \"n\",latency\r\n1,2.0,0.5\r\n\n 3 ,x,1").unwrap();
        let rows: Vec<Row<'_>> = table.rows().map(|r| r.unwrap()).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].whole("m").unwrap(), rows[0].whole("n").unwrap()), (1, 2));
        assert_eq!(rows[0].positive("latency").unwrap(), 0.5);
        assert_eq!(rows[0].with(&["7".to_string()]), "1,2.0,0.5,7\n");
        assert_eq!(rows[1].whole("m").unwrap(), 3);
        assert_eq!(table.header_with(&["p"]).unwrap(), "m,n,latency,p\n");
    }

    #[test]
    fn complaints_name_the_place() {
        let table = Table::parse("m,n\n1,2\n-3,4\n5\n").unwrap();
        let rows: Vec<Result<Row<'_>>> = table.rows().collect();
        let bad = rows[1].as_ref().unwrap().whole("m").unwrap_err();
        assert_eq!(bad.code, codes::TABLE_CELL);
        assert_eq!(bad.primary.unwrap().span, Span::new(8, 10));
        let missing = rows[0].as_ref().unwrap().text("k").unwrap_err();
        assert_eq!(missing.code, codes::TABLE_COLUMN);
        let short = rows[2].as_ref().unwrap_err();
        assert!(short.message.starts_with("line 4 has 1 cells"), "{}", short.message);
        assert_eq!(Table::parse("\n1\n").unwrap_err().code, codes::TABLE_SHAPE);
        assert_eq!(Table::parse("m,m\n").unwrap_err().code, codes::TABLE_SHAPE);
        assert_eq!(table.header_with(&["m"]).unwrap_err().code, codes::TABLE_SHAPE);
    }
}
