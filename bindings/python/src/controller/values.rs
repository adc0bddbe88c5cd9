//! Events as Python sees them: what every guest sees ([`paceline_lab::guest_values`]), as classes. What is unknown is `None`.

use paceline_cc as cc;
use pyo3::prelude::*;

/// A pyclass with the fields of a struct of `cc`, and how each is read from it.
macro_rules! value {
    ($(#[$about:meta])* $name:ident of $from:ty, $($(#[$meaning:meta])* $field:ident: $kind:ty = $read:expr),+ $(,)?) => {
        $(#[$about])*
        #[pyclass(frozen, get_all, module = "paceline._paceline")]
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[$meaning])* $field: $kind),+
        }

        impl From<&$from> for $name {
            fn from(from: &$from) -> Self {
                $(let $field: fn(&$from) -> $kind = $read;)+
                Self { $($field: $field(from)),+ }
            }
        }

        #[pymethods]
        impl $name {
            fn __repr__(&self) -> String {
                format!("{self:?}")
            }
        }
    };
}

paceline_lab::guest_values!(value);
