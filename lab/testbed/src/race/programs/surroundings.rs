//! What a command of a program finds: its folder, its variables, its user.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use paceline_cc::Nanos;
use paceline_emulator::command::tree::{TreeSetting, UserId};
use paceline_emulator::world::Site;
use paceline_experiment::program::{Program, Ready, Side};
use paceline_linux::user::find;

use super::seconds;

/// Where programs are found when paceline itself has no `PATH`.
const PLACES: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the commands of one flow find, beside their program.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    /// The race's folder.
    pub(super) shared: PathBuf,
    /// The flow's.
    pub(super) folder: PathBuf,
    pub(super) run: u32,
    /// What the program said of itself.
    pub(super) version: Option<String>,
    pub(super) seed: u64,
    pub(super) flow: usize,
    /// How long the flow is.
    pub(super) length: Nanos,
    /// What it has to bring over, where it has an end.
    pub(super) bytes: Option<u64>,
}

impl Surroundings {
    /// One side of the program's flow, at the first of these sites; its peer is at the other. Makes its folder and the files for its outputs.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn setting(&self, program: &Program, side: Side, [here, there]: [&Site; 2]) -> io::Result<TreeSetting> {
        let out = std::path::absolute(self.folder.join(side.name()))?;
        fs::create_dir_all(&out)?;
        let user = program.user.as_deref().map(|name| user(name).ok_or(io::ErrorKind::NotFound)).transpose()?;
        if let Some(UserId { user, group }) = user {
            chown(&out, Some(user), Some(group))?;
        }
        let (command, role) = match side {
            Side::Sender => (&program.sender, program.server == Side::Sender),
            Side::Receiver => (&program.receiver, program.server == Side::Receiver),
        };
        let mut environment = usual(program, &out, &std::path::absolute(&self.shared)?, self.bytes);
        let six = |site: &Site| site.ipv6.map_or_else(String::new, |address| address.to_string());
        for (name, value) in [
            ("PACELINE_ROLE", side.name().to_owned()),
            ("PACELINE_SELF", here.ipv4.to_string()),
            ("PACELINE_PEER", there.ipv4.to_string()),
            ("PACELINE_PEER6", six(there)),
            ("PACELINE_SECONDS", seconds(self.length).to_string()),
            ("PACELINE_RUN", self.run.to_string()),
            ("PACELINE_SEED", self.seed.to_string()),
            ("PACELINE_FLOW", self.flow.to_string()),
            ("ROLE", if role { "server" } else { "client" }.to_owned()),
        ] {
            environment.push((name.into(), value.into()));
        }
        environment.push(("PACELINE_OUT".into(), out.clone().into()));
        environment.push(("QLOGDIR".into(), out.clone().into()));
        let output = |kind: &str| File::create(self.folder.join(format!("{}.{kind}", side.name())));
        Ok(TreeSetting {
            words: shell(command),
            environment,
            folder: out,
            outputs: [output("out")?, output("err")?],
            ready: match &program.ready {
                Ready::Line(line) if role => Some(line.clone()),
                _ => None,
            },
            user,
        })
    }
}

/// A command as a program with arguments.
pub(super) fn shell(command: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", command].map(OsString::from).to_vec()
}

/// Variables that every command finds. Of two with the same name the later holds.
pub(super) fn usual(program: &Program, home: &Path, shared: &Path, bytes: Option<u64>) -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| PLACES.into());
    let mut environment: Vec<(OsString, OsString)> =
        vec![("PATH".into(), path), ("HOME".into(), home.into()), ("LANG".into(), "C.UTF-8".into())];
    let inherited = |name: &String| Some((name.into(), std::env::var_os(name)?));
    environment.extend(program.inherit.iter().filter_map(inherited));
    environment.extend(program.env.iter().map(|(name, value)| (name.into(), value.into())));
    environment.extend(program.options.iter().map(|(name, value)| (variable(name).into(), value.into())));
    environment.push(("PACELINE_SHARED".into(), shared.into()));
    environment.push(("PACELINE_PORT".into(), program.port.to_string().into()));
    environment.extend(bytes.map(|bytes| ("PACELINE_BYTES".into(), bytes.to_string().into())));
    environment
}

/// The variable of an option: what a shell takes for a name.
fn variable(option: &str) -> String {
    let sign = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' };
    option.chars().map(sign).collect()
}

/// The user of this name.
pub(super) fn user(name: &str) -> Option<UserId> {
    find(name).map(|(user, group)| UserId { user, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_variable_that_a_shell_takes() {
        assert_eq!(["cc", "pkt-size", "a.b+c"].map(variable), ["CC", "PKT_SIZE", "A_B_C"]);
    }

    #[test]
    fn a_flow_lasts_whole_seconds_rounded_up() {
        assert_eq!([0, 1, 999, 1000, 1001, 30_000].map(|ms| seconds(Nanos::from_millis(ms))), [0, 1, 1, 1, 2, 30]);
    }
}
