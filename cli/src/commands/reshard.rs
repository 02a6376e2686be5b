//! `shardc reshard`: plans a change of layout and prints its steps.

use serde_json::{Value, json};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use shardc_ir::layout::{Layout, Partial};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_passes::reshard::{self, Objective, Op, ReshardPlan, Step};
use std::io::{self, BufRead, BufReader, Read, Write};

/// Error codes of this command.
pub mod codes {
    shardc_ir::codes! {
        /// A line of `--stdin` is not a request.
        REQUEST = "U101", User, "a line of `reshard --stdin` is not a JSON object with mesh, type, from and to";
        /// A tensor type cannot be read.
        TYPE = "U102", User, "a tensor type is not of the form `f32[16,16]`";
        /// Standard input or output fails.
        STREAM = "U103", User, "standard input cannot be read, or standard output not written";
    }
}

/// Plan a change of layout as a sequence of collectives.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReshardArgs {
    /// Axes with sizes, major first: `x=4,y=2`
    #[arg(long, value_name = "AXES", required_unless_present = "stdin")]
    pub mesh: Option<String>,
    /// Element type and global extents: `f32[16,16,16]`
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "stdin")]
    pub tensor: Option<String>,
    /// Layout before: `[{y},{},{x:(2)2}] unreduced [sum {z}]`
    #[arg(long, value_name = "LAYOUT", required_unless_present = "stdin")]
    pub from: Option<String>,
    /// Layout after
    #[arg(long, value_name = "LAYOUT", required_unless_present = "stdin")]
    pub to: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Read one JSON request a line, `{"mesh","type","from","to"}`, and answer each with a line
    #[arg(long, conflicts_with_all = ["mesh", "tensor", "from", "to"])]
    pub stdin: bool,
}

/// One request, as text.
#[derive(Debug)]
struct Request {
    mesh: String,
    tensor: String,
    from: String,
    to: String,
}

/// A request that was read and planned.
struct Answer {
    mesh: Mesh,
    dims: Vec<u64>,
    bits: u64,
    from: Layout,
    plan: ReshardPlan,
}

/// Runs the command on standard input and output.
///
/// Errors: a request that cannot be read or planned; with `--stdin` those are answers, and only a
/// failing stream is an error.
pub fn run(args: &ReshardArgs) -> Result<()> {
    run_with(args, io::stdin(), &mut io::stdout().lock())
}

/// As [`run`], on the given streams.
pub fn run_with(args: &ReshardArgs, input: impl Read, output: &mut impl Write) -> Result<()> {
    if args.stdin {
        return serve(BufReader::new(input), output).or_else(ignore_closed);
    }
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let request = Request {
        mesh: text(&args.mesh),
        tensor: text(&args.tensor),
        from: text(&args.from),
        to: text(&args.to),
    };
    let answer = answer(&request)?;
    let shown = if args.json {
        format!("{:#}\n", answer.to_json())
    } else {
        format!("{} over {}\n{}", request.tensor, request.mesh, answer.to_text())
    };
    output.write_all(shown.as_bytes()).or_else(ignore_closed)
}

/// Longest line of standard input, bytes; of a longer one only the beginning is read.
const MAX_LINE: u64 = 1 << 16;

/// Answers line by line, flushing whenever no further line is waiting.
fn serve(mut input: BufReader<impl Read>, output: &mut impl Write) -> io::Result<()> {
    let mut output = io::BufWriter::new(output);
    let mut line = Vec::new();
    while input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? > 0 {
        if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            input.skip_until(b'\n')?;
        }
        writeln!(output, "{}", answer_line(&line))?;
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
    }
    output.flush()
}

/// A reader that went away ends the command in peace; any other failure is an error.
fn ignore_closed(error: io::Error) -> Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Box::new(Diagnostic::error(codes::STREAM, error.to_string()))),
    }
}

fn answer_line(line: &[u8]) -> Value {
    match read_request(line).and_then(|request| answer(&request)) {
        Ok(answer) => answer.to_json(),
        Err(problem) => {
            let mut error = json!({"code": problem.code.id, "message": problem.message});
            if let Some(help) = &problem.help {
                error["help"] = json!(help);
            }
            json!({ "error": error })
        }
    }
}

/// Keys of a line of `--stdin`.
const KEYS: [&str; 4] = ["mesh", "type", "from", "to"];

/// Reads one line of JSON.
fn read_request(line: &[u8]) -> Result<Request> {
    let refuse = |why: String| {
        let form = r#"{"mesh": "x=4,y=2", "type": "f32[16]", "from": "[{x}]", "to": "[{y}]"}"#;
        Box::new(Diagnostic::error(codes::REQUEST, why).help(format!("write a line as `{form}`")))
    };
    if line.len() as u64 == MAX_LINE {
        return Err(refuse(format!("the line has {MAX_LINE} bytes or more")));
    }
    let line = line.trim_ascii();
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        refuse(match line {
            [] => "the line is empty".to_string(),
            _ => format!("the line is not JSON at column {}", error.column()),
        })
    })?;
    let Value::Object(keys) = value else {
        return Err(refuse("the line is JSON, but no object".to_string()));
    };
    if let Some(odd) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(refuse(format!(
            "`{}` is no key; there are {}",
            odd.chars().take(40).collect::<String>(),
            KEYS.join(", ")
        )));
    }
    let text = |key: &str| match keys.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(refuse(format!("`{key}` is no string"))),
        None => Err(refuse(format!("the line lacks `{key}`"))),
    };
    Ok(Request { mesh: text("mesh")?, tensor: text("type")?, from: text("from")?, to: text("to")? })
}

fn answer(request: &Request) -> Result<Answer> {
    let mesh = Mesh::parse(&request.mesh)?;
    let (bits, dims) = parse_type(&request.tensor)?;
    let layout = |side: &str, text: &str| {
        let read = Layout::parse(text, &mesh).and_then(|layout| {
            layout.check_dims(&mesh, &dims)?;
            Ok(layout)
        });
        read.map_err(|mut problem| {
            problem.message = format!("`{side}`: {}", problem.message);
            problem.primary = None;
            problem
        })
    };
    let from = layout("from", &request.from)?;
    let to = layout("to", &request.to)?;
    let request = reshard::Request { mesh: &mesh, dims: &dims, bits, from: &from, to: &to };
    let mut plan = reshard::plan(&request, Objective::PeakThenBytes)?;
    write_as_asked(&mesh, &from, &to, &mut plan.steps);
    Ok(Answer { mesh, dims, bits, from, plan })
}

/// Layouts as the request writes them: the last is `to`, and before it axes of one device, which
/// split nothing and are left out of the normal form, stand where `from` has them.
fn write_as_asked(mesh: &Mesh, from: &Layout, to: &Layout, steps: &mut [Step]) {
    let Some((last, before)) = steps.split_last_mut() else { return };
    last.out.clone_from(to);
    for step in before {
        for (list, wanted) in step.out.dims.iter_mut().zip(&from.dims) {
            let single = wanted.iter().filter(|axis| axis.size(mesh) == 1);
            list.splice(..0, single.copied());
        }
    }
}

/// Reads `f32[16,16]` into bits per element and extents.
fn parse_type(text: &str) -> Result<(u64, Vec<u64>)> {
    let refuse = |why: String, help: String| {
        let message = format!("tensor type `{}`: {why}", text.chars().take(80).collect::<String>());
        Box::new(Diagnostic::error(codes::TYPE, message).help(help))
    };
    let form = || "write a type as `f32[16,16]`; a scalar is `f32[]`".to_string();
    let (name, rest) = text
        .trim()
        .split_once('[')
        .ok_or_else(|| refuse("no `[` after the element type".to_string(), form()))?;
    let dtype = DType::from_name(name.trim()).ok_or_else(|| {
        let known: Vec<&str> = DType::TABLE.iter().map(|row| row.1).collect();
        refuse(format!("no element type `{name}`"), format!("there are {}", known.join(", ")))
    })?;
    let inner =
        rest.strip_suffix(']').ok_or_else(|| refuse("no `]` at the end".to_string(), form()))?;
    let extents = inner.split(',').filter(|_| !inner.trim().is_empty());
    let extent = |extent: &str| {
        let wrong = || refuse(format!("`{}` is not an extent", extent.trim()), form());
        extent.trim().parse().map_err(|_| wrong())
    };
    Ok((dtype.bits(), extents.map(extent).collect::<Result<_>>()?))
}

impl Answer {
    fn to_json(&self) -> Value {
        let plan = &self.plan;
        let steps: Vec<Value> = plan
            .steps
            .iter()
            .map(|step| {
                json!({
                    "op": step.op.kind().name(),
                    "args": self.args(&step.op),
                    "out": self.layout(&step.out),
                    "wire_bytes": step.wire_bytes,
                })
            })
            .collect();
        let rejected: Vec<Value> = plan
            .rejected
            .iter()
            .map(|way| {
                let steps: Vec<&str> = way.steps.iter().map(|kind| kind.name()).collect();
                json!({
                    "what": way.what,
                    "steps": steps,
                    "wire_bytes": way.wire_bytes,
                    "peak_elements": way.peak_elements,
                })
            })
            .collect();
        json!({
            "steps": steps,
            "wire_bytes": plan.wire_bytes,
            "peak_elements": plan.peak_elements,
            "lower_bound_bytes": plan.lower_bound_bytes,
            "proven": plan.proven,
            "rejected": rejected,
        })
    }

    fn args(&self, op: &Op) -> Value {
        match op {
            Op::AllGather { axes } | Op::AllSlice { axes } | Op::ReduceScatter { axes, .. } => {
                json!({"axes": self.lists(axes)})
            }
            Op::AllToAll { moves } => {
                let moves: Vec<Value> = moves
                    .iter()
                    .map(|m| json!({"axes": self.axes(&m.axes), "src": m.src, "tgt": m.tgt}))
                    .collect();
                json!({ "moves": moves })
            }
            Op::AllReduce { axes, .. } => json!({"axes": self.axes(axes)}),
            Op::CollectivePermute => json!({}),
        }
    }

    fn layout(&self, layout: &Layout) -> Value {
        let pending = |p: &Partial| json!({"kind": p.kind.name(), "axes": self.axes(&p.axes)});
        let unreduced: Vec<Value> = layout.unreduced.iter().map(pending).collect();
        json!({"dims": self.lists(&layout.dims), "unreduced": unreduced})
    }

    fn lists(&self, lists: &[Vec<AxisRef>]) -> Value {
        lists.iter().map(|axes| self.axes(axes)).collect()
    }

    /// Whole axes by name, sub-axes as `[name, pre, size]`.
    fn axes(&self, axes: &[AxisRef]) -> Value {
        let axis = |axis: &AxisRef| {
            let name = self.mesh.axes.get(usize::from(axis.axis.0)).map(|a| a.name.as_str());
            match axis.sub {
                Some(sub) => json!([name, sub.pre, sub.size]),
                None => json!(name),
            }
        };
        axes.iter().map(axis).collect()
    }

    /// A table of the steps, then totals, bound, and what was considered instead.
    fn to_text(&self) -> String {
        let plan = &self.plan;
        let mut rows = vec![["step", "layout after", "elements", "wire bytes"].map(String::from)];
        let mut row = |step: String, layout: &Layout, wire: String| {
            let elements = layout.local_elements(&self.mesh, &self.dims).to_string();
            rows.push([step, layout.show(&self.mesh).to_string(), elements, wire]);
        };
        row("start".to_string(), &self.from, String::new());
        for step in &plan.steps {
            row(step.op.show(&self.mesh), &step.out, step.wire_bytes.to_string());
        }
        let peak_bytes = u128::from(plan.peak_elements) * u128::from(self.bits);
        let mut text = table(&rows);
        text += &format!(
            "\nwire bytes per device  {} (at least {} whatever the steps)\npeak per device        {} elements, {} bytes\n",
            plan.wire_bytes,
            plan.lower_bound_bytes,
            plan.peak_elements,
            peak_bytes.div_ceil(8),
        );
        if !plan.proven {
            text += "The search met its limit: a better way may exist.\n";
        }
        for (number, way) in plan.rejected.iter().enumerate() {
            let steps: Vec<&str> = way.steps.iter().map(|kind| kind.name()).collect();
            text += &format!(
                "{}{}: {} bytes, peak {} ({})\n",
                if number == 0 { "\nalso considered\n  " } else { "  " },
                way.what,
                way.wire_bytes,
                way.peak_elements,
                steps.join(", "),
            );
        }
        text
    }
}

/// Columns padded to their widest cell, the last two to the right.
fn table(rows: &[[String; 4]]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    let line = |row: &[String; 4]| {
        let [step, layout, elements, wire] = row;
        let [a, b, c, d] = widths;
        format!("  {step:a$}  {layout:b$}  {elements:>c$}  {wire:>d$}").trim_end().to_string()
            + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_text(args: &ReshardArgs, input: &str) -> Result<String> {
        let mut output = Vec::new();
        run_with(args, input.as_bytes(), &mut output)?;
        Ok(String::from_utf8(output).unwrap())
    }

    fn one(json: bool) -> ReshardArgs {
        let text = |t: &str| Some(t.to_string());
        ReshardArgs {
            mesh: text("x=4,y=2"),
            tensor: text("f32[16,16,16]"),
            from: text("[{y},{},{x}]"),
            to: text("[{},{x,y},{}]"),
            json,
            stdin: false,
        }
    }

    #[test]
    fn json_has_the_promised_keys() {
        let text = run_text(&one(true), "").unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["wire_bytes"], 2560);
        assert_eq!(value["peak_elements"], 512);
        assert_eq!(value["lower_bound_bytes"], 1792);
        let first = json!({
            "op": "all_to_all",
            "args": {"moves": [{"axes": ["x"], "src": 2, "tgt": 1}]},
            "out": {"dims": [["y"], ["x"], []], "unreduced": []},
            "wire_bytes": 1536,
        });
        assert_eq!(value["steps"][0], first);
    }

    #[test]
    fn text_is_a_table() {
        let text = run_text(&one(false), "").unwrap();
        let expected = r#"f32[16,16,16] over x=4,y=2
  step                      layout after          elements  wire bytes
  start                     [{"y"}, {}, {"x"}]         512
  all_to_all [{"x"}: 2->1]  [{"y"}, {"x"}, {}]         512        1536
  all_to_all [{"y"}: 0->1]  [{}, {"x", "y"}, {}]       512        1024

wire bytes per device  2560 (at least 1792 whatever the steps)
peak per device        512 elements, 2048 bytes
"#;
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn every_line_is_answered() {
        let args = ReshardArgs { stdin: true, ..ReshardArgs::default() };
        let lines = [
            r#"{"mesh":"x=4","type":"bf16[8]","from":"[{}] unreduced [sum {x}]","to":"[{x}]"}"#,
            r#"{"mesh":"x=4","type":"bf16[8]","from":"[{x:(2)2}]","to":"[{}]"}"#,
            r#"{"mesh":"x=4","type":"bf16[8]","from":"[{}]","to":"[{}] unreduced [sum {x}]"}"#,
            r#"{"mesh":"x=4","type":"bf16(8)","from":"[{}]","to":"[{}]"}"#,
            r#"{"mesh":"x=4","type":"bf16[8]","from":"[{z}]","to":"[{}]"}"#,
            "",
            r#"{"mesh":"x=4"}"#,
            r#"{"mesh":4,"type":"bf16[8]","from":"[{}]","to":"[{}]"}"#,
            r#"{"mesh":"x=99999999999999999999","type":"bf16[8]","from":"[{}]","to":"[{}]"}"#,
            r#"{"mesh":"x=4","type":"bf16[8]","from":"[{}]","to":"[{}]","extra":1}"#,
        ];
        let text = run_text(&args, &lines.join("\n")).unwrap();
        let answers: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(answers.len(), lines.len());
        assert_eq!(answers[0]["steps"][0]["op"], "reduce_scatter");
        assert_eq!(answers[0]["steps"][0]["args"], json!({"axes": [["x"]]}));
        assert_eq!(answers[1]["steps"][0]["args"], json!({"axes": [[["x", 2, 2]]]}));
        let codes: Vec<&Value> = answers[2..].iter().map(|a| &a["error"]["code"]).collect();
        assert_eq!(codes, ["L101", "U102", "L003", "U101", "U101", "U101", "L001", "U101"]);
        let messages: Vec<&Value> = answers[5..].iter().map(|a| &a["error"]["message"]).collect();
        assert_eq!(
            messages,
            [
                "the line is empty",
                "the line lacks `type`",
                "`mesh` is no string",
                "axis \"x\" has 99999999999999999999 devices",
                "`extra` is no key; there are mesh, type, from, to"
            ]
        );
    }

    #[test]
    fn layouts_are_written_as_asked() {
        let text = |t: &str| Some(t.to_string());
        let args = ReshardArgs {
            mesh: text("x=2,y=2,o=1"),
            from: text("[{x},{o},{}]"),
            to: text("[{},{y},{x:(1)2,o}]"),
            ..one(true)
        };
        let value: Value = serde_json::from_str(&run_text(&args, "").unwrap()).unwrap();
        let outs: Vec<&Value> =
            value["steps"].as_array().unwrap().iter().map(|s| &s["out"]["dims"]).collect();
        assert_eq!(
            outs,
            [&json!([["x"], ["o", "y"], []]), &json!([[], ["y"], [["x", 1, 2], "o"]])]
        );
    }

    #[test]
    fn types_are_read_or_refused() {
        assert_eq!(parse_type("f32[]").unwrap(), (32, vec![]));
        assert_eq!(parse_type(" bf16 [ 16 , 4 ]").unwrap(), (16, vec![16, 4]));
        for bad in ["f32", "f32[", "f32[1,]", "f33[1]", "f32[-1]", "f32[1]]", "[1]", ""] {
            assert_eq!(parse_type(bad).unwrap_err().code, codes::TYPE, "{bad}");
        }
    }
}
