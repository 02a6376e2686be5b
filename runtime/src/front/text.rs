//! Text as tokens and back, by the `tokenizer.json` beside a checkpoint's weights.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::path::Path;
#[cfg(feature = "text")]
use {std::path::PathBuf, tokenizers::Tokenizer};

/// The tokenizer of a checkpoint.
#[cfg(feature = "text")]
#[derive(Clone, Debug)]
pub struct Text {
    tokenizer: Tokenizer,
    path: PathBuf,
}

#[cfg(feature = "text")]
impl Text {
    /// Reads `tokenizer.json` in the directory of the weights, or beside their file.
    ///
    /// # Errors
    /// `W115` where there is none, or it is damaged.
    pub fn beside(weights: &Path) -> Result<Self> {
        let directory = match weights.is_dir() {
            true => weights,
            false => weights.parent().unwrap_or(Path::new(".")),
        };
        let path = directory.join("tokenizer.json");
        let unreadable = |cause: String| {
            let message = format!("{} cannot be read: {cause}", path.display());
            let help = "put the model's tokenizer.json beside its weights, or pass --tokens";
            Box::new(Diagnostic::error(codes::TOKENIZER, message).help(help))
        };
        let bytes = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
        let tokenizer = Tokenizer::from_bytes(bytes).map_err(|e| unreadable(e.to_string()))?;
        Ok(Text { tokenizer, path })
    }

    /// The tokens of a prompt, with those that the tokenizer puts around a text.
    ///
    /// # Errors
    /// `W108` where the text has no tokens.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u64>> {
        let encoded = self.tokenizer.encode(prompt, true);
        let encoded = encoded.map_err(|e| self.refused(&format!("refuses the prompt: {e}")))?;
        match encoded.get_ids() {
            [] => Err(self.refused("makes no token of the prompt")),
            ids => Ok(ids.iter().map(|&id| id.into()).collect()),
        }
    }

    /// The text of generated tokens, without those that mark its end and the like.
    ///
    /// # Errors
    /// `W108` where the tokenizer cannot say.
    pub fn decode(&self, tokens: &[i64]) -> Result<String> {
        let ids: Vec<u32> = tokens.iter().filter_map(|&id| u32::try_from(id).ok()).collect();
        let text = self.tokenizer.decode(&ids, true);
        text.map_err(|e| self.refused(&format!("makes no text of the answer: {e}")))
    }

    fn refused(&self, cause: &str) -> Box<Diagnostic> {
        let message = format!("{} {cause}", self.path.display());
        Box::new(Diagnostic::error(codes::REQUEST, message))
    }
}

/// No tokenizer: this build has none.
#[cfg(not(feature = "text"))]
#[derive(Clone, Debug)]
pub enum Text {}

#[cfg(not(feature = "text"))]
impl Text {
    /// Refuses.
    ///
    /// # Errors
    /// `W115`.
    pub fn beside(_weights: &Path) -> Result<Self> {
        let message = "this build reads no text";
        let help = "build with the feature `text`, or pass --tokens";
        Err(Box::new(Diagnostic::error(codes::TOKENIZER, message).help(help)))
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// None: there is no such value.
    pub fn encode(&self, _prompt: &str) -> Result<Vec<u64>> {
        match *self {}
    }

    /// The text of tokens.
    ///
    /// # Errors
    /// None: there is no such value.
    pub fn decode(&self, _tokens: &[i64]) -> Result<String> {
        match *self {}
    }
}
