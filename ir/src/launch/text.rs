//! Launch plans as text: JSON with one buffer, step or group a line, the same bytes every time.

use super::{LaunchPlan, VERSION, codes};
use crate::diag::{Diagnostic, Result};
use crate::json::{self, What, fingerprint, lines};

const HELP: &str = "compile the model again with `shardc compile MODEL -o DIR`";

impl LaunchPlan {
    /// Reads a file.
    ///
    /// # Errors
    /// `K001` where the text is no launch plan, `K002` where it is one of another version.
    pub fn read(text: &str) -> Result<Self> {
        let what = What { noun: "the launch plan", version: VERSION, help: HELP };
        json::read(text, &what, codes::SYNTAX, codes::VERSION)
    }

    /// Checks that `program` is the text that this plan was made for.
    ///
    /// # Errors
    /// `K003` where it is not.
    pub fn belongs_to(&self, program: &str) -> Result<()> {
        let found = fingerprint(program);
        if self.source.sha256 == found {
            return Ok(());
        }
        let message = format!(
            "{} is not the program of the {} launch plan: its SHA-256 is {found}, not {}",
            self.source.file, self.phase, self.source.sha256
        );
        let help = "a launch plan holds for the program that it was written with; compile again";
        Err(Box::new(Diagnostic::error(codes::SOURCE, message).help(help)))
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = String::from("{\n");
        field(&mut out, "version", &json::line(&self.version));
        field(&mut out, "phase", &json::line(&self.phase));
        field(&mut out, "source", &json::line(&self.source));
        field(&mut out, "dims", &lines(&self.dims, "  "));
        field(&mut out, "streams", &json::line(&self.streams));
        field(&mut out, "groups", &lines(&self.groups, "  "));
        field(&mut out, "programs", &lines(&self.programs, "  "));
        out.push_str("  \"routines\": [");
        for (i, routine) in self.routines.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            out.push_str(&format!(
                "    {{ \"name\": {}, \"function\": {}, \"frame\": {},\n",
                json::line(&routine.name),
                json::line(&routine.function),
                routine.frame
            ));
            out.push_str(&format!("      \"buffers\": {},\n", lines(&routine.buffers, "      ")));
            out.push_str(&format!("      \"steps\": {} }}", lines(&routine.steps, "      ")));
        }
        out.push_str("\n  ]\n}\n");
        out
    }
}

fn field(out: &mut String, key: &str, value: &str) {
    out.push_str(&format!("  \"{key}\": {value},\n"));
}

#[cfg(test)]
mod tests {
    use super::super::*;

    /// A plan with one of everything.
    fn everything() -> LaunchPlan {
        let step = |action: Action| Step {
            action,
            op: "add".to_string(),
            inst: 3,
            reads: vec!["a".to_string(), "b".to_string()],
            writes: vec!["c".to_string()],
            stream: 1,
            waits: vec![0, 2],
            records: Some(4),
        };
        let run = Run { trips: 58, body: vec!["moe".to_string()] };
        let actions = [
            Action::Launch,
            Action::Collective { groups: 0, order: 1, elements: [2, 4] },
            Action::Send { by: 8, order: 2, elements: 7 },
            Action::Recv { by: -8, order: 0, elements: 7 },
            Action::Repeat { layers: vec![run], frame: 512 },
            Action::Copy,
            Action::Return,
        ];
        let places =
            [Place::At(256), Place::Caller, Place::View("a".into()), Place::Over("b".into())];
        let buffer = |place: Place| Buffer {
            value: "a".to_string(),
            kind: BufferKind::Scratch,
            ty: "tensor<4 x f32>".to_string(),
            bytes: 16,
            place,
            live: [0, 3],
        };
        let pattern = Pattern { first: 0, members: vec![[2, 1]], copies: vec![[4, 2]] };
        let routine = Routine {
            name: "stage_0".to_string(),
            function: "stage_0".to_string(),
            frame: 0,
            buffers: places.map(buffer).to_vec(),
            steps: actions.map(step).to_vec(),
        };
        LaunchPlan {
            version: VERSION,
            phase: "decode".to_string(),
            source: Source { file: "ir/decode/06.sir".to_string(), sha256: fingerprint("text") },
            dims: vec![Bound { name: "B".to_string(), max: 8, held: 16 }],
            streams: vec!["compute".to_string(), "communication".to_string()],
            groups: vec![GroupSet { axes: vec!["\"tp\"".to_string()], patterns: vec![pattern] }],
            programs: vec![Program {
                stage: 0,
                ranks: [0, 8],
                routine: "stage_0".to_string(),
                arenas: Arenas::default(),
                promised: Promised::default(),
            }],
            routines: vec![routine],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let plan = everything();
        let text = plan.to_text();
        let again = LaunchPlan::read(&text).unwrap();
        assert_eq!(again, plan);
        assert_eq!(again.to_text(), text);
        assert!(plan.belongs_to("text").is_ok());
        assert_eq!(plan.belongs_to("texts").unwrap_err().code, codes::SOURCE);
    }

    #[test]
    fn every_cut_is_refused() {
        let text = everything().to_text();
        let end = text.trim_end().len();
        for cut in (0..end).filter(|&i| text.is_char_boundary(i)) {
            assert_eq!(LaunchPlan::read(&text[..cut]).unwrap_err().code, codes::SYNTAX, "{cut}");
        }
    }

    #[test]
    fn other_versions_and_unknown_keys_are_refused() {
        let text = everything().to_text();
        let newer = text.replacen("\"version\": 1", "\"version\": 2", 1);
        assert_eq!(LaunchPlan::read(&newer).unwrap_err().code, codes::VERSION);
        let unknown = text.replacen("\"phase\"", "\"stage\"", 1);
        assert_eq!(LaunchPlan::read(&unknown).unwrap_err().code, codes::SYNTAX);
    }
}
