//! Links between named nodes: what a scenario has in place of `[down]` and `[up]`.

use std::fmt;

use paceline_path::Direction;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A link between two nodes: the keys of a [`Direction`] from the first to the second, and the same, or `back`, from the second
/// to the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// The nodes that it joins.
    pub between: [String; 2],
    /// From the first to the second.
    #[serde(flatten)]
    pub there: Direction,
    /// From the second to the first; without it, as there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Direction>,
}

impl Link {
    /// From the second node to the first.
    pub fn back(&self) -> &Direction {
        self.back.as_ref().unwrap_or(&self.there)
    }
}

/// By hand, because `#[serde(flatten)]` loses the places of values and accepts unknown keys.
impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LinkVisitor)
    }
}

struct LinkVisitor;

impl<'de> Visitor<'de> for LinkVisitor {
    type Value = Link;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, such as { between = [\"a\", \"b\"], rate = \"10 Mbit/s\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Link, A::Error> {
        let mut own = Own::default();
        let there = Direction::deserialize(MapAccessDeserializer::new(Rest { map, own: &mut own }))?;
        let Between(between) = own.between.ok_or_else(|| A::Error::missing_field("between"))?;
        Ok(Link { between, there, back: own.back })
    }
}

/// The keys that a link has beside those of a direction.
#[derive(Default)]
struct Own {
    between: Option<Between>,
    back: Option<Direction>,
}

/// Two nodes; by hand, because TOML lets an array of three pass for one of two.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Between([String; 2]);

/// A link with more ends than two, or fewer.
#[derive(Debug, thiserror::Error)]
#[error("a link joins two nodes, not {0}; write [\"a\", \"b\"]")]
struct NotTwo(usize);

impl TryFrom<Vec<String>> for Between {
    type Error = NotTwo;

    fn try_from(nodes: Vec<String>) -> Result<Self, NotTwo> {
        nodes.try_into().map(Self).map_err(|nodes: Vec<String>| NotTwo(nodes.len()))
    }
}

/// The other entries of a link's table.
struct Rest<'a, A> {
    map: A,
    own: &'a mut Own,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, mut seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            match self.map.next_key_seed(KeySeed(seed))? {
                None => return Ok(None),
                Some(Key::Other(value)) => return Ok(Some(value)),
                Some(Key::Between(again)) => {
                    self.own.between = Some(self.map.next_value()?);
                    seed = again;
                }
                Some(Key::Back(again)) => {
                    self.own.back = Some(self.map.next_value()?);
                    seed = again;
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A key of the link's own, with the seed for the next one; or one of the direction's.
enum Key<K, V> {
    Between(K),
    Back(K),
    Other(V),
}

struct KeySeed<K>(K);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<K> {
    type Value = Key<K, K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for KeySeed<K> {
    type Value = Key<K, K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        match key {
            "between" => Ok(Key::Between(self.0)),
            "back" => Ok(Key::Back(self.0)),
            other => self.0.deserialize(StrDeserializer::new(other)).map(Key::Other),
        }
    }
}
