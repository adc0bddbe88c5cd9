//! Colours: the hue belongs to the controller's name, wherever it appears; the dash belongs to the datapath.
//!
//! Found by a search (our choice) over hues near those of Okabe and Ito's palette, for the largest least distance in OKLab as people
//! with normal, deuteranopic and protanopic sight see it, under the condition that text of each colour reaches 4.5:1 on the page
//! and on its washes (WCAG 2.2, success criterion 1.4.3), in light and in dark. Those of the reserve share pictures without controllers: they
//! differ from one another three times as much as from a controller's.

/// A colour in both themes, as `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// On a light page.
    pub light: &'static str,
    /// On a dark page.
    pub dark: &'static str,
}

/// Names with their colours, and the style that goes with them.
macro_rules! palette {
    ($($name:literal $light:literal $dark:literal;)*) => {
        /// Every name of the palette: controllers, then the reserve.
        const COLOURS: &[(&str, Colour)] = &[$(($name, Colour { light: $light, dark: $dark })),*];

        /// Style rules: `.c-NAME` sets `--c` for what lies inside.
        macro_rules! palette_style {
            () => {
                concat!(
                    ":root {", $(" --c-", $name, ": ", $light, ";",)* " }\n",
                    "@media screen and (prefers-color-scheme: dark) { :root {", $(" --c-", $name, ": ", $dark, ";",)* " } }\n",
                    $(".c-", $name, " { --c: var(--c-", $name, "); }\n",)*
                )
            };
        }
    };
}

palette! {
    "reno" "#4f3001" "#cc9300";
    "cubic" "#3768de" "#80a1fe";
    "cubic-l1" "#2451ae" "#accefc";
    "cubic-l1g" "#017284" "#30c0c6";
    "cubic-l2" "#254772" "#4989dd";
    "hops" "#137300" "#c0e036";
    "hpcc" "#2008f6" "#d0f479";
    "bic" "#3d28a6" "#707dfe";
    "vegas" "#460037" "#be9965";
    "dctcp" "#5f114e" "#e896bc";
    "prague" "#b2439c" "#db5a9c";
    "bbr" "#327d59" "#9efeb7";
    "bbr3" "#430a13" "#5db79a";
    "copa" "#b34708" "#fdac75";
    "ledbat" "#1f0b6d" "#86eaa4";
    "verus" "#420c8a" "#947ebb";
    "sprout" "#723e39" "#bc7768";
    "sprout-ewma" "#006271" "#a4e8fd";
    "mdi" "#444b07" "#b4bf07";
    "fixed" "#4f4a56" "#cccccc";
    "other-0" "#065cff" "#7ebfff";
    "other-1" "#cf1e44" "#b37d03";
    "other-2" "#8915c9" "#00da89";
    "other-3" "#2077a3" "#0e9796";
}

/// Style rules: `.c-NAME` sets `--c` for what lies inside, in light and dark.
pub const STYLE: &str = palette_style!();

/// How many colours at the end of the palette wait for unknown names.
pub(crate) const RESERVE: usize = 4;

/// The colour of a controller, by its name or by `name:key=value`. One that is not in the palette gets one of the reserve, always the same.
pub fn colour(controller: &str) -> Colour {
    entry(controller).1
}

/// The CSS class that sets this colour (as `--c`) for what lies inside: `c-copa`.
pub fn class(controller: &str) -> String {
    format!("c-{}", entry(controller).0)
}

/// The name of a controller's colour in the palette.
pub(crate) fn name(controller: &str) -> &'static str {
    entry(controller).0
}

/// The CSS class of a dash: solid for TCP, then one for each datapath, and one more for `alcc` over another controller.
pub fn dash(via: &str) -> &'static str {
    match via {
        "tcp" => "d0",
        "udp" => "d1",
        "alcc" => "d2",
        "quic" => "d3",
        "icn" => "d4",
        _ => "d5",
    }
}

/// The CSS classes of contestants such as `copa@udp` that share one picture, in their order: the controller gives the colour, the
/// datapath the dash. Where both are taken, the colour is another one, so that no two are alike.
pub fn classes<'a>(contestants: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut given: Vec<(&'static str, &'static str)> = Vec::new();
    for contestant in contestants {
        let (controller, via) = contestant.split_once('@').unwrap_or((contestant, "tcp"));
        let dash = dash(via);
        given.push((free(contestant, controller, |colour| given.contains(&(colour, dash))), dash));
    }
    given.into_iter().map(|(colour, dash)| format!("c-{colour} {dash}")).collect()
}

/// CSS classes for what is not a controller, such as the flows of one contestant: colours that no controller has.
pub fn others() -> impl Iterator<Item = String> {
    COLOURS[COLOURS.len() - RESERVE..].iter().map(|(name, _)| format!("c-{name} d0"))
}

/// The name of the colour of a contestant: its controller's, one of the reserve where that is taken, then any that is left.
pub(crate) fn free(contestant: &str, controller: &str, taken: impl Fn(&'static str) -> bool) -> &'static str {
    let own = name(controller);
    let reserve = (0..RESERVE).map(|i| reserve(hash(contestant) + i).0);
    let any = COLOURS.iter().map(|(name, _)| *name);
    std::iter::once(own).chain(reserve).chain(any).find(|colour| !taken(colour)).unwrap_or(own)
}

fn entry(controller: &str) -> &'static (&'static str, Colour) {
    // `ledbat++` is a kind of `ledbat`, and a class has no `+` in its name.
    let name = controller.split([':', '+']).next().unwrap_or_default();
    let known = COLOURS[..COLOURS.len() - RESERVE].iter().find(|(known, _)| *known == name);
    known.unwrap_or_else(|| reserve(hash(name)))
}

/// A colour of the reserve, counted round and round.
pub(crate) fn reserve(number: usize) -> &'static (&'static str, Colour) {
    &COLOURS[COLOURS.len() - RESERVE + number % RESERVE]
}

/// FNV-1a: the same in every version of the compiler, unlike the standard library's.
pub(crate) fn hash(text: &str) -> usize {
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let share = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// The values of a variable of the style sheet: light, dark.
    fn variable(variable: &str) -> [&'static str; 2] {
        let key = format!("{variable}: ");
        let mut values = include_str!("report.css").split(&key).skip(1).map(|rest| &rest[..7]);
        [values.next().unwrap(), values.next().unwrap()]
    }

    #[test]
    fn every_colour_can_be_read() {
        for (name, colour) in COLOURS {
            for behind in ["--paper", "--wash"] {
                let [light, dark] = variable(behind);
                for (text, page) in [(colour.light, light), (colour.dark, dark)] {
                    assert!(contrast(text, page) >= 4.5, "{name}: {text} on {page}: {:.2}", contrast(text, page));
                }
            }
        }
    }

    #[test]
    fn a_name_keeps_its_colour_whatever_its_parameters() {
        assert_eq!(colour("copa:delta=0.1"), colour("copa"));
        assert_eq!(class("copa:delta=0.1"), "c-copa");
        let names = ["copa@udp", "copa@tcp", "copa:delta=0.1@udp", "beside"];
        let mut given = classes(names.into_iter().chain(["copa@udp"; 15]));
        assert_eq!(given[..2], ["c-copa d1", "c-copa d0"]);
        assert!(given[2].starts_with("c-other-") && given[3].starts_with("c-other-"), "{given:?}");
        given.sort();
        given.dedup();
        assert_eq!(given.len(), 19);
        assert_eq!(colour("westwood"), colour("westwood:a=2"));
        assert!(class("westwood").starts_with("c-other-"));
        assert_eq!(class("ledbat++"), "c-ledbat");
        let both = classes(["ledbat@tcp", "ledbat++@tcp"]);
        assert_ne!(both[0], both[1]);
        // A name alone never gives a colour of the reserve.
        assert_eq!(class("other-1"), reserve(hash("other-1")).0.replace("other", "c-other"));
        let own = || COLOURS[..COLOURS.len() - RESERVE].iter().map(|(name, _)| class(name));
        assert!(others().all(|class| own().all(|own| !class.contains(&own))));
        let style = palette_style!();
        assert!(style.contains(".c-copa { --c: var(--c-copa); }") && style.matches("--c-copa:").count() == 2);
    }
}
