//! What a role has counted.

use libbpf_rs::{MapCore, MapFlags, Object};

/// The counters of a role: a field for each row of its program's list, in the same order.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl $name {
            /// Each with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            pub(crate) fn read(object: &libbpf_rs::Object) -> Self {
                let mut rows = $crate::counters::rows(object);
                Self { $($field: rows.next().unwrap_or(0),)+ }
            }
        }
    };
}

pub(crate) use counters;

/// The rows of an object's counters, each summed over the processors.
pub(crate) fn rows(object: &Object) -> impl Iterator<Item = u64> {
    let map = object.maps().find(|map| map.name() == "counters");
    (0_u32..).map_while(move |row| {
        let values = map.as_ref()?.lookup_percpu(&row.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(values.iter().filter_map(|value| Some(u64::from_ne_bytes(*value.first_chunk()?))).sum())
    })
}
