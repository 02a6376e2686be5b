//! Traces of requests: CSV files by the names of their columns, and JSON Lines.
//!
//! Known: Azure (`TIMESTAMP,ContextTokens,GeneratedTokens`), Mooncake (JSON objects with
//! `timestamp` in ms, `input_length`, `output_length`), tables of lengths without times
//! (`num_prefill_tokens,num_decode_tokens`), and other tables with columns of the same meaning.

use super::clock;
use serde::Deserialize;
use shardc::codes;
use shardc_cost::simulate::Arrival;
use shardc_ir::diag::{Diagnostic, Result, Span};

/// Requests of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The requests in the order of the file; the earliest arrives at 0.
    pub requests: Vec<Arrival>,
    /// Whether it says when they arrive.
    pub timed: bool,
    /// Requests without a prompt or an answer, which are left out.
    pub left_out: u64,
}

/// Names of columns, in lower case without anything but letters and digits.
const TIME: [&str; 5] = ["timestamp", "arrivedat", "arrivaltime", "arrival", "time"];
const PROMPT: [&str; 8] = [
    "contexttokens",
    "numprefilltokens",
    "inputlength",
    "inputtokens",
    "prompttokens",
    "requesttokens",
    "promptlen",
    "isl",
];
const ANSWER: [&str; 8] = [
    "generatedtokens",
    "numdecodetokens",
    "outputlength",
    "outputtokens",
    "completiontokens",
    "responsetokens",
    "outputlen",
    "osl",
];

/// One request as its line says it: ns since some moment, tokens of prompt and answer.
struct Row {
    time: Option<i128>,
    isl: u64,
    osl: u64,
}

/// What is wrong with a line.
type Fault = String;

/// Reads a trace.
///
/// # Errors
/// `U130` at the first line that is not a request, with the number of all such lines.
pub fn parse(text: &str) -> Result<Trace> {
    let mut lines = lines(text);
    let Some((first, header)) = lines.next() else {
        return Err(Box::new(Diagnostic::error(codes::TRACE, "the trace is empty").help(FORMS)));
    };
    if header.starts_with('{') {
        let all = std::iter::once((first, header)).chain(lines);
        return collect(all.map(|(at, line)| (at, line, object(line))));
    }
    let columns = Columns::of(header).map_err(|fault| {
        let span = Span::new(first, first + header.len());
        Box::new(Diagnostic::error(codes::TRACE, fault).at(span, "the header").help(FORMS))
    })?;
    collect(lines.map(|(at, line)| (at, line, columns.row(line))))
}

const FORMS: &str = "give CSV with a header such as TIMESTAMP,ContextTokens,GeneratedTokens or \
    num_prefill_tokens,num_decode_tokens, or JSON Lines with timestamp, input_length and \
    output_length (docs/simulate.md)";

/// Lines that are not blank, without the space around them, and where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let placed = text.split_inclusive('\n').map(move |line| {
        let at = next + (line.len() - line.trim_start().len());
        next += line.len();
        (at, line.trim())
    });
    placed.filter(|(_, line)| !line.is_empty())
}

/// Gathers rows, or the first fault with the number of all.
fn collect<'t>(
    rows: impl Iterator<Item = (usize, &'t str, std::result::Result<Row, Fault>)>,
) -> Result<Trace> {
    let mut read = Vec::new();
    let mut faults: Option<(Diagnostic, u64)> = None;
    for (at, line, row) in rows {
        match row {
            Ok(row) => read.push(row),
            Err(fault) => {
                let first = || {
                    let span = Span::new(at, at + line.len());
                    Diagnostic::error(codes::TRACE, "a line is not a request").at(span, fault)
                };
                let (diagnostic, count) = faults.take().unwrap_or_else(|| (first(), 0));
                faults = Some((diagnostic, count + 1));
            }
        }
    }
    match faults {
        None => Ok(assemble(&read)),
        Some((first, count)) => {
            let lines = read.len() as u64 + count;
            Err(Box::new(first.note(format!("{count} of {lines} lines cannot be read"))))
        }
    }
}

fn assemble(rows: &[Row]) -> Trace {
    let origin = rows.iter().filter_map(|row| row.time).min().unwrap_or(0);
    let at = |time: i128| u64::try_from(time.saturating_sub(origin)).unwrap_or(u64::MAX);
    let empty = |row: &&Row| row.isl > 0 && row.osl > 0;
    let arrival = |row: &Row| Arrival {
        at: row.time.map_or(0, at),
        isl: row.isl as u32,
        osl: row.osl as u32,
    };
    let requests: Vec<Arrival> = rows.iter().filter(empty).map(arrival).collect();
    Trace {
        timed: !rows.is_empty() && rows.iter().all(|row| row.time.is_some()),
        left_out: (rows.len() - requests.len()) as u64,
        requests,
    }
}

/// A line of JSON Lines.
#[derive(Deserialize)]
struct Object {
    /// Milliseconds.
    #[serde(alias = "arrival_time_ms")]
    timestamp: Option<f64>,
    #[serde(alias = "input_tokens", alias = "prompt_tokens", alias = "isl")]
    input_length: u64,
    #[serde(alias = "output_tokens", alias = "completion_tokens", alias = "osl")]
    output_length: u64,
}

fn object(line: &str) -> std::result::Result<Row, Fault> {
    let object: Object = serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        text.split(" at line").next().unwrap_or_default().to_string()
    })?;
    let time = object.timestamp.map(|ms| {
        // A cast saturates.
        (ms.is_finite()).then_some((ms * 1e6).round() as i128).ok_or("the time is not a number")
    });
    Ok(Row {
        time: time.transpose()?,
        isl: tokens(object.input_length)?,
        osl: tokens(object.output_length)?,
    })
}

/// Which columns of a CSV file matter.
struct Columns {
    time: Option<usize>,
    isl: usize,
    osl: usize,
}

impl Columns {
    fn of(header: &str) -> std::result::Result<Columns, Fault> {
        let plain = |name: &str| -> String {
            let kept = name.chars().filter(char::is_ascii_alphanumeric);
            kept.map(|c| c.to_ascii_lowercase()).collect()
        };
        let names: Vec<String> = header.split(',').map(plain).collect();
        let find = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let needed = |known: &[&str], what: &str| {
            find(known).ok_or_else(|| format!("the trace has no column of {what}"))
        };
        Ok(Columns {
            time: find(&TIME),
            isl: needed(&PROMPT, "prompt lengths")?,
            osl: needed(&ANSWER, "answer lengths")?,
        })
    }

    fn row(&self, line: &str) -> std::result::Result<Row, Fault> {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let cell = |column: usize| {
            let missing = || format!("column {} is missing", column + 1);
            cells.get(column).copied().filter(|cell| !cell.is_empty()).ok_or_else(missing)
        };
        let time = |column: usize| {
            let cell = cell(column)?;
            clock::parse(cell).ok_or_else(|| format!("`{cell}` is neither a date nor seconds"))
        };
        Ok(Row {
            time: self.time.map(time).transpose()?,
            isl: number(cell(self.isl)?)?,
            osl: number(cell(self.osl)?)?,
        })
    }
}

/// A number of tokens, `12` or `12.0`.
fn number(cell: &str) -> std::result::Result<u64, Fault> {
    let whole = cell.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|b| b == b'0'));
    let digits = whole.map_or(cell, |(digits, _)| digits);
    tokens(digits.parse().map_err(|_| format!("`{cell}` is not a number of tokens"))?)
}

fn tokens(count: u64) -> std::result::Result<u64, Fault> {
    match count <= u64::from(Arrival::MOST_TOKENS) {
        true => Ok(count),
        false => Err(format!("{count} tokens are more than {}", Arrival::MOST_TOKENS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(text: &str) -> Vec<(u64, u32, u32)> {
        parse(text).unwrap().requests.iter().map(|r| (r.at, r.isl, r.osl)).collect()
    }

    #[test]
    fn azure() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
            2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n";
        assert_eq!(arrivals(text), [(0, 4808, 10), (52_000_000, 3180, 8)]);
        assert!(parse(text).unwrap().timed);
        let later = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:00.5+00:00,3,4\n";
        assert_eq!(arrivals(later), [(0, 3, 4)]);
    }

    #[test]
    fn mooncake() {
        let text = "{\"timestamp\": 27, \"input_length\": 6955, \"output_length\": 52, \
            \"hash_ids\": [46, 47]}\n\n{\"timestamp\": 30.5, \"input_length\": 6, \
            \"output_length\": 26}\n";
        assert_eq!(arrivals(text), [(0, 6955, 52), (3_500_000, 6, 26)]);
    }

    #[test]
    fn lengths_only() {
        let text = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n\
            3772,54,3826,69.8\n2015.0,0,2015,0\n";
        let trace = parse(text).unwrap();
        assert!(!trace.timed);
        assert_eq!((trace.requests.len(), trace.left_out), (1, 1));
    }

    #[test]
    fn seconds() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
            5,ChatGPT,472,18,490,Conversation log\n45.25,ChatGPT,1087,230,1317,API log\n";
        assert_eq!(arrivals(text), [(0, 472, 18), (40_250_000_000, 1087, 230)]);
    }

    #[test]
    fn faults_have_their_line_and_number() {
        let fault = |text: &str| {
            let error = parse(text).unwrap_err();
            let label = error.primary.clone().unwrap();
            let line = text[..label.span.start as usize].matches('\n').count() + 1;
            (line, label.message, error.notes)
        };
        let text = "isl,osl\n1,2\n1\n-4,2\n";
        let wanted = (3, "column 2 is missing".to_string());
        let (line, message, notes) = fault(text);
        assert_eq!(((line, message), &notes[0][..]), (wanted, "2 of 3 lines cannot be read"));
        assert_eq!(fault("isl,osl\n\n  99999999999,2\n").0, 3);
        assert_eq!(fault("time,isl,osl\nnoon,1,2").1, "`noon` is neither a date nor seconds");
        let missing = fault("{\"input_length\": 3}\n").1;
        assert_eq!(missing, "missing field `output_length`");
        assert!(parse("a,b\n1,2").unwrap_err().message.contains("prompt lengths"));
        assert!(parse(" \n").unwrap_err().message.contains("empty"));
    }
}
