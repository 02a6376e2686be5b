//! Certificates as text: JSON with one placement, substitution or step a line, the same bytes every
//! time.

use super::{Certificate, Proof, VERSION, codes};
use crate::diag::{Diagnostic, Result};
use crate::json::{self, What, fingerprint, lines};
use crate::launch::Source;

const HELP: &str = "compile the model again with `shardc compile MODEL -o DIR`";

impl Certificate {
    /// Reads a file.
    ///
    /// # Errors
    /// `R001` where the text is no certificate as [`to_text`](Self::to_text) writes it, `R002` where
    /// it is one of another version.
    pub fn read(text: &str) -> Result<Self> {
        let what = What { noun: "the certificate", version: VERSION, help: HELP };
        let read: Certificate = json::read(text, &what, codes::SYNTAX, codes::VERSION)?;
        match read.to_text() == text {
            true => Ok(read),
            false => Err(what.damaged(codes::SYNTAX, "its text is not as shardc writes it")),
        }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut out = format!("{{\n  \"version\": {},\n  \"phases\": [", self.version);
        for (i, proof) in self.phases.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            proof.write(&mut out);
        }
        out.push_str("\n  ]\n}\n");
        out
    }
}

impl Proof {
    fn write(&self, out: &mut String) {
        let field = |out: &mut String, key: &str, value: &str| {
            out.push_str(&format!("      \"{key}\": {value},\n"));
        };
        out.push_str(&format!("    {{ \"phase\": {},\n", json::line(&self.phase)));
        field(out, "model", &json::line(&self.model));
        field(out, "logical", &json::line(&self.logical));
        field(out, "local", &json::line(&self.local));
        field(out, "rewrites", &lines(&self.rewrites, "      "));
        field(out, "placements", &lines(&self.placements, "      "));
        field(out, "substitutions", &lines(&self.substitutions, "      "));
        out.push_str("      \"functions\": [");
        for (i, function) in self.functions.iter().enumerate() {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            out.push_str(&format!(
                "        {{ \"local\": {}, \"logical\": {},\n          \"steps\": {} }}",
                json::line(&function.local),
                json::line(&function.logical),
                lines(&function.steps, "          ")
            ));
        }
        out.push_str("\n      ] }");
    }
}

impl Source {
    /// The source of a program's text.
    pub fn of(file: &str, text: &str) -> Self {
        Source { file: file.to_string(), sha256: fingerprint(text) }
    }

    /// Checks that `program` is the text that a certificate speaks of.
    ///
    /// # Errors
    /// `R003` where it is not.
    pub fn certifies(&self, program: &str) -> Result<()> {
        let found = fingerprint(program);
        if self.sha256 == found {
            return Ok(());
        }
        let message = format!(
            "{} is not the program of the certificate: its SHA-256 is {found}, not {}",
            self.file, self.sha256
        );
        let help = "a certificate holds for the programs that it was written with; compile again";
        Err(Box::new(Diagnostic::error(codes::SOURCE, message).help(help)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn everything() -> Certificate {
        let source = || Source::of("ir/decode/01-logical.sir", "text");
        let placement = Placement {
            dims: vec![vec!["dp".to_string(), "tp:(2)4".to_string()], Vec::new()],
            pending: vec![Pending { kind: "sum".to_string(), axes: vec!["ep".to_string()] }],
        };
        let step = Step {
            rule: Rule::LocalOp,
            at: 3,
            of: "a".to_string(),
            layers: Some([0, 4]),
            after: Some(2),
            with: Some(0),
            to: vec![0],
        };
        let proof = Proof {
            phase: "decode".to_string(),
            model: source(),
            logical: source(),
            local: source(),
            rewrites: vec![Rewrite {
                rule: RewriteRule::AbsorbLatentAttention,
                function: "moe".to_string(),
                before: "attn.ctx".to_string(),
                after: "attn.ctx".to_string(),
            }],
            placements: vec![placement],
            substitutions: vec![vec![Given {
                factor: "b".to_string(),
                axes: vec!["dp".to_string()],
            }]],
            functions: vec![Refinement {
                local: "moe".to_string(),
                logical: "moe".to_string(),
                steps: vec![step],
            }],
        };
        Certificate { version: VERSION, phases: vec![proof] }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let certificate = everything();
        let text = certificate.to_text();
        assert_eq!(Certificate::read(&text).unwrap(), certificate);
        let source = &certificate.phases[0].model;
        assert!(source.certifies("text").is_ok());
        assert_eq!(source.certifies("texts").unwrap_err().code, codes::SOURCE);
    }

    #[test]
    fn cuts_other_spaces_versions_and_keys_are_refused() {
        let text = everything().to_text();
        let end = text.trim_end().len();
        for cut in (0..end).filter(|&i| text.is_char_boundary(i)) {
            assert_eq!(Certificate::read(&text[..cut]).unwrap_err().code, codes::SYNTAX, "{cut}");
        }
        let code = |text: String| Certificate::read(&text).unwrap_err().code;
        assert_eq!(code(text.replacen("\"at\":3", "\"at\": 3", 1)), codes::SYNTAX);
        assert_eq!(code(text.replacen("\"version\": 1", "\"version\": 2", 1)), codes::VERSION);
        assert_eq!(code(text.replacen("\"after\":2", "\"behind\":2", 1)), codes::SYNTAX);
        assert_eq!(code(text.replacen("\"local-op\"", "\"trust-me\"", 1)), codes::SYNTAX);
    }
}
