//! Controllers by name: `copa`, `copa:delta=0.1,mode=default`.
//!
//! A controller's file ends in an `ENTRY`; its one line in [`CONTROLLERS`] makes it known to the simulator, the
//! command line, scenario files and tests alike. Others are registered at run time: [`register`].

mod definition;
mod elsewhere;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use crate::ability::Ability;
use crate::controller::{Controller, Env, ReceiverHalf};
use crate::datapath::Datapath;
use crate::entry::{Entry, Params, SpecError, StartUpEntry};
use crate::foreign::clipped;
use crate::names::nearest;

pub use definition::{Definition, MOST_REGISTERED, RegisterError, Shared, register};

/// Every controller that comes with paceline, in the order in which they are listed.
pub const CONTROLLERS: &[Entry] = &[
    crate::reno::ENTRY,
    crate::cubic::ENTRY,
    crate::cubic_medium::L1_ENTRY,
    crate::cubic_medium::L1G_ENTRY,
    crate::cubic_medium::L2_ENTRY,
    crate::hops::ENTRY,
    crate::hpcc::ENTRY,
    crate::bic::ENTRY,
    crate::vegas::ENTRY,
    crate::dctcp::ENTRY,
    crate::prague::ENTRY,
    crate::bbr::ENTRY,
    crate::bbr3::ENTRY,
    crate::copa::ENTRY,
    crate::ledbat::ENTRY,
    crate::ledbat::PLUS_ENTRY,
    crate::rledbat::ENTRY,
    crate::verus::ENTRY,
    crate::sprout::ENTRY,
    crate::sprout::EWMA_ENTRY,
    #[cfg(feature = "models")]
    crate::mdi::ENTRY,
    crate::fixed::ENTRY,
];

/// Every controller: those of [`CONTROLLERS`], then those registered so far.
pub fn controllers() -> Vec<&'static Entry> {
    CONTROLLERS.iter().chain(definition::registered()).collect()
}

/// The controller of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    controllers().into_iter().find(|entry| entry.name == name)
}

/// A controller and its parameters, as parsed from `name:key=value,key=value`.
///
/// ```
/// use paceline_cc::{Env, Spec};
/// let spec: Spec = "fixed:window=20".parse()?;
/// assert_eq!(spec.build(&Env::default()).window(), 20 * 1448);
/// # Ok::<(), paceline_cc::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Spec {
    /// Lasts as long as the process, also when registered at run time: nothing is ever taken out of the registry.
    entry: &'static Entry,
    params: Params,
    /// What it is called where it is one of a program's own.
    elsewhere: Option<Arc<str>>,
}

impl Spec {
    /// The controller inside a program that is not ours, of which this text is all that is known: a name for records. It needs nothing
    /// of a datapath, and built all the same it is a window that is never the limit.
    pub fn elsewhere(text: &str) -> Self {
        Self { entry: &elsewhere::ENTRY, params: Params::default(), elsewhere: Some(text.into()) }
    }

    /// What the registry knows of this controller.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The checked parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// What the registry knows of its start-up; nothing for a controller without.
    pub fn start_up(&self) -> Option<&'static StartUpEntry> {
        self.params.start_up(self.entry)
    }

    /// Whether it, or its start-up, cannot work without `ability`.
    pub fn needs(&self, ability: Ability) -> bool {
        let of_start_up = || self.start_up().is_some_and(|start_up| start_up.needs.contains(&ability));
        self.entry.needs().any(|need| need == ability) || of_start_up()
    }

    /// Parses a text that the user of this machine wrote: where it names a file with a model, `read` gives its content. [`Spec::from_str`] reads no file: a peer's text must not make a host read any.
    ///
    /// ```
    /// use paceline_cc::Spec;
    /// let model = "1,0,0,1,1,0,0,1\n1\n";
    /// let spec = Spec::read("mdi:model=still.csv", |_| Ok(model.to_owned()))?;
    /// assert_eq!(spec.to_string(), "mdi:model=still.csv");
    /// # Ok::<(), paceline_cc::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// [`SpecError`] when it is not a controller, or the file is not a model.
    pub fn read(text: &str, mut read: impl FnMut(&str) -> io::Result<String>) -> Result<Self, SpecError> {
        Self::parse(text, &mut |name| Some(read(name)))
    }

    fn parse(text: &str, read: &mut dyn FnMut(&str) -> Option<io::Result<String>>) -> Result<Self, SpecError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let entry = find(name).ok_or_else(|| {
            let all = controllers();
            let names = all.iter().map(|entry| entry.name);
            SpecError::UnknownController { name: clipped(name), hint: nearest(name, names) }
        })?;
        Ok(Self { entry, params: Params::parse(entry, rest, read)?, elsewhere: None })
    }

    /// It names a model that came from a file, so that its text means nothing on another machine.
    pub fn is_local(&self) -> bool {
        self.params.local()
    }

    /// The same over this datapath, which says what the parameters are that are left to it.
    ///
    /// ```
    /// use paceline_cc::Spec;
    /// let spec: Spec = "bbr3".parse()?;
    /// assert_eq!(spec.over(&paceline_cc::datapath::UDP).to_string(), "bbr3:budget=1");
    /// # Ok::<(), paceline_cc::SpecError>(())
    /// ```
    #[must_use]
    pub fn over(mut self, datapath: &Datapath) -> Self {
        for (controller, param, value) in datapath.defaults {
            if *controller == self.entry.name {
                self.params.settle(self.entry, param, value);
            }
        }
        self
    }

    /// Makes the sending half.
    pub fn build(&self, env: &Env) -> Box<dyn Controller> {
        (self.entry.make)(&self.params, env)
    }

    /// Makes the receiving half, for controllers that need one.
    pub fn build_receiver(&self, env: &Env) -> Option<Box<dyn ReceiverHalf>> {
        self.entry.receiver.map(|make| make(&self.params, env))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text, &mut |_| None)
    }
}

/// The text that gives the same controller again: the name and the parameters that differ from their defaults.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.elsewhere.as_deref().unwrap_or(self.entry.name))?;
        for (index, param) in self.params.given(self.entry).enumerate() {
            write!(f, "{}{param}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spec({self})")
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.params == other.params && self.elsewhere == other.elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Ecn;

    #[test]
    fn every_entry_builds_from_its_defaults_and_names_its_sources() {
        for entry in CONTROLLERS {
            let spec: Spec = entry.name.parse().expect("the bare name parses");
            assert_eq!(spec.to_string(), entry.name);
            let controller = spec.build(&Env::default());
            assert!(controller.window() >= 1448, "{}", entry.name);
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for param in entry.params() {
                assert!(!param.source.is_empty(), "{}:{}", entry.name, param.name);
                assert!(param.kind.takes(param.default), "{}:{}", entry.name, param.name);
            }
            // What a controller answers to marks is what its entry says.
            let exact = matches!(controller.nature().ecn, Ecn::Exact | Ecn::L4s);
            assert_eq!(spec.needs(Ability::ExactMarks), exact, "{}", entry.name);
            assert_eq!(spec.needs(Ability::Ect1), controller.nature().ecn == Ecn::L4s, "{}", entry.name);
        }
    }

    #[test]
    fn the_readme_names_controllers() {
        let list = include_str!("../README.md")
            .split("with its parameters: ")
            .nth(1)
            .and_then(|text| text.split(" and more").next());
        let names: Vec<&str> = list.expect("a list").split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 10 && names.iter().all(|name| find(name).is_some()), "{names:?}");
    }

    #[test]
    fn a_start_up_needs_for_its_controller() {
        let needs = |text: &str| text.parse::<Spec>().unwrap().needs(Ability::ExactGaps);
        assert!(needs("cubic:start=chirp") && needs("reno:start=chirp-q"));
        assert!(!needs("cubic") && !needs("copa"));
    }

    #[test]
    fn errors_name_the_nearest() {
        let error = "rno".parse::<Spec>().unwrap_err();
        assert_eq!(error.to_string(), "unknown controller 'rno'; did you mean reno?");
        let error = "fixed:windw=3".parse::<Spec>().unwrap_err();
        assert_eq!(error.to_string(), "controller 'fixed' has no parameter 'windw'; did you mean window?");
        let error = "fixed:window=nan".parse::<Spec>().unwrap_err();
        assert!(error.to_string().starts_with("controller 'fixed': window=nan is not a number from 1"));
        assert!("fixed:window=1,window=2".parse::<Spec>().is_err());
    }

    #[test]
    fn the_parameters_of_chirps_are_checked() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert_eq!(
            error("dctcp:chirp_gain=3"),
            "controller 'dctcp': chirp_gain does not apply to start=slow; it goes with chirp, chirp-p, chirp-q"
        );
        assert_eq!(
            error("cubic:chirp_packets=8,start=hystart"),
            "controller 'cubic': chirp_packets does not apply to start=hystart; it goes with chirp, chirp-p, chirp-q, chirp-r"
        );
        assert!(error("prague:start=chirp-r,chirp_gain=2").contains("does not apply to start=chirp-r"));
        assert!(error("dctcp:start=chirp-q,chirp_again=off").ends_with("it goes with chirp"));
        assert_eq!(
            error("reno:start=chirp-q,chirp_packets=1"),
            "controller 'reno': chirp_packets=1 is not a number from 2 to 64"
        );
        assert!(error("reno:start=chirp-q,chirp_gain=0.5").ends_with("chirp_gain=0.5 is not a number from 1 to 4"));
        assert!(error("reno:start=chirp-q,chirp_geometry=5").ends_with("chirp_geometry=5 is not a number from 1 to 3"));
    }

    #[test]
    fn alpha_starts_at_zero_with_chirps_unless_given() {
        for name in ["dctcp", "prague"] {
            for (params, alpha) in [("", 1.0), (":start=chirp-p", 0.0), (":start=chirp-r,alpha=0.5", 0.5)] {
                let spec: Spec = format!("{name}{params}").parse().unwrap();
                assert_eq!(spec.params().number("alpha"), alpha, "{spec}");
                assert_eq!(spec.to_string(), format!("{name}{params}"));
            }
            let given: Spec = format!("{name}:alpha=1,start=chirp-q").parse().unwrap();
            assert_eq!(given.to_string(), format!("{name}:start=chirp-q,alpha=1"));
        }
    }

    #[test]
    fn text_round_trips() {
        let spec: Spec = "fixed:rate=12.5,window=7".parse().unwrap();
        assert_eq!(spec.to_string(), "fixed:window=7,rate=12.5");
        assert_eq!(spec.to_string().parse::<Spec>().unwrap(), spec);
    }
}
