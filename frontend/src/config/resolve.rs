//! Which object describes the text model, and which family reads it.

use super::fields::Fields;
use super::registry::{FAMILIES, Family};
use super::{Cx, Options, candidates, multimodal, refused};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::nearest::nearest;

/// Finds the text model and its family.
pub(super) fn resolve<'a>(top: &Fields<'a>, options: &Options) -> Result<Cx<'a>> {
    let fields = multimodal::text_model(top)?;
    let named = architectures(top)?;
    let model_type = match fields.text("model_type")? {
        Some(own) => Some(own),
        None => top.text("model_type")?,
    };
    let architecture = match (named.first(), model_type) {
        (Some(name), _) => name.to_string(),
        (None, Some(model_type)) => model_type.to_string(),
        (None, None) => "unnamed".to_string(),
    };
    let family = match &options.assume {
        Some(name) => assumed(name)?,
        None => {
            let unread = Cx {
                fields: fields.clone(),
                top: top.clone(),
                family: &FAMILIES[0],
                architecture: architecture.clone(),
                name: String::new(),
            };
            refused::check(&unread)?;
            find(top, &fields, model_type, &named)?
        }
    };
    if let Some(other) = named.first().filter(|_| !fields.is_nested()).filter(|a| !family.reads(a))
    {
        let message = format!("{other} is read as {}, with its language-model head", family.name);
        top.warn(codes::READ_AS, "architectures", message);
    }
    let towers = ["vision_config", "audio_config", "visual", "img_processor"];
    if fields.is_nested() || top.has(towers) {
        let message = "only the text model is read; the other towers are left out";
        top.warn(codes::IGNORED, "architectures", message);
    }
    let fields = match fields.is_nested() {
        true => fields.with_defaults(multimodal::defaults(family.name)),
        false => fields,
    };
    let name = match options.name.as_str() {
        "" => architecture.clone(),
        name => name.to_string(),
    };
    Ok(Cx { fields, top: top.clone(), family, architecture, name })
}

fn architectures<'a>(top: &Fields<'a>) -> Result<Vec<&'a str>> {
    Ok(top.texts("architectures")?.unwrap_or_default())
}

/// The family of `--assume`.
fn assumed(name: &str) -> Result<&'static Family> {
    let by_name = |f: &&Family| f.name == name || f.model_types.contains(&name);
    FAMILIES.iter().find(by_name).ok_or_else(|| {
        let names = || {
            FAMILIES.iter().flat_map(|f| [f.name].into_iter().chain(f.model_types.iter().copied()))
        };
        let all: Vec<&str> = FAMILIES.iter().map(|f| f.name).collect();
        let help = match nearest(name, names()) {
            Some(near) => format!("the nearest name is `{near}`"),
            None => "name one of these families".to_string(),
        };
        Box::new(
            Diagnostic::error(codes::UNKNOWN_FAMILY, format!("no family is called {name:?}"))
                .note(format!("families: {}", all.join(", ")))
                .help(help),
        )
    })
}

/// The family that answers to the model type, else to an architecture.
fn find<'a>(
    top: &Fields<'a>,
    fields: &Fields<'a>,
    model_type: Option<&str>,
    named: &[&str],
) -> Result<&'static Family> {
    let by_type = model_type.and_then(|t| FAMILIES.iter().find(|f| f.model_types.contains(&t)));
    let by_architecture =
        FAMILIES.iter().find(|f| named.iter().any(|a| f.architectures.contains(a)));
    by_type.or(by_architecture).ok_or_else(|| unknown(top, fields, model_type, named))
}

fn unknown<'a>(
    top: &Fields<'a>,
    fields: &Fields<'a>,
    model_type: Option<&str>,
    named: &[&str],
) -> Box<Diagnostic> {
    let (at, key) =
        if fields.has("model_type") { (fields, "model_type") } else { (top, "architectures") };
    let keys: Vec<&str> = fields.keys().take(60).collect();
    if model_type.is_none() && named.is_empty() {
        return Box::new(
            Diagnostic::error(
                codes::UNKNOWN_FAMILY,
                "the file names neither `model_type` nor `architectures`",
            )
            .at(top.place(), "in this object")
            .note(format!("keys read: {}", keys.join(", ")))
            .help("pass a model's config.json, or name a family with --assume"),
        );
    }
    let what = named.first().copied().or(model_type).unwrap_or("");
    let help = match candidates::nearest(top, model_type.unwrap_or(what), named) {
        Some(near) => format!(
            "the nearest supported family that reads the file is `{near}`: pass --assume {near}"
        ),
        None => "no supported family reads such a file; `shardc families` lists them".to_string(),
    };
    let error = Diagnostic::error(
        codes::UNKNOWN_FAMILY,
        format!("the architecture {what} is not supported"),
    )
    .note(format!("keys read: {}", keys.join(", ")))
    .help(help);
    Box::new(at.point(error, &[key]))
}
