//! This end of the bus.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use paceline_int::bus::{Address, Bus, BusOptions, Keys, PublisherRole};

use super::super::BusArgs;
use crate::complaint;

/// The variable that is read where the option is not given: other users cannot see it.
const BUS: &str = "PACELINE_BUS";

impl BusArgs {
    /// Opens it; `role`: what this end publishes.
    pub(crate) fn open(&self, role: Option<PublisherRole>) -> anyhow::Result<Bus> {
        let address = self.address()?;
        let keys = self.keys()?;
        let mut options = BusOptions {
            domain: self.domain.clone(),
            role,
            keys,
            max_age: Duration::from_nanos(self.max_age.as_nanos()),
            log: Arc::new(complaint::print),
            ..BusOptions::default()
        };
        if let Some(name) = &self.publisher {
            options.name.clone_from(name);
        }
        Ok(Bus::open(&address, options)?)
    }

    /// As [`BusArgs::open`], but for someone who publishes nothing but signs of life, and can do without where there is no key for them.
    pub(crate) fn open_quietly(&self, role: PublisherRole) -> anyhow::Result<Bus> {
        let name = self.publisher.clone().unwrap_or_else(|| BusOptions::default().name);
        let keys = self.keys()?;
        let may = keys.is_none_or(|keys| keys.of(&name).is_some_and(|key| key.roles().contains(&role)));
        self.open(may.then_some(role))
    }

    pub(super) fn address(&self) -> anyhow::Result<Address> {
        if let Some(text) = &self.bus {
            let address: Address = text.parse().map_err(|wrong| anyhow!("--bus: {wrong}"))?;
            if address.has_credentials() {
                complaint::print(&format!(
                    "--bus: who lists the processes of this machine reads the password; put the address into {BUS}"
                ));
            }
            return Ok(address);
        }
        let Some(text) = std::env::var_os(BUS) else { return Ok(Address::default()) };
        let text = text
            .into_string()
            .map_err(|_| anyhow!("{BUS}: it is not UTF-8; give local, local:/FOLDER or nats://HOST:PORT"))?;
        text.parse().map_err(|wrong| anyhow!("{BUS}: {wrong}"))
    }

    fn keys(&self) -> anyhow::Result<Option<Keys>> {
        let keys = self.keys.as_deref().map(Keys::read).transpose()?;
        if let (Some(keys), Some(folder)) = (&keys, &self.keys)
            && keys.is_empty()
        {
            return Err(anyhow!("{}: there is no key in it; make one with: paceline int key NAME", folder.display()));
        }
        Ok(keys)
    }
}
