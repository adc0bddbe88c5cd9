//! What every page has: its head, its style and its script, around the blocks of a template that extends `base`.

use minijinja::{AutoEscape, Environment, Error, Value};

/// A page as HTML that opens offline. `template` extends `base` and has the block `main`; `context` has `title`, `version`, `style` and,
/// where pictures answer, `script` beside what the template wants.
///
/// # Errors
/// When the template is wrong.
pub fn html(template: &str, context: Value) -> Result<String, Error> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.add_template("base", include_str!("base.html"))?;
    env.render_str(template, context)
}
