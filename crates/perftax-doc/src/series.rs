//! Many whole numbers in one line of a document: runs apart by spaces, rounds by semicolons.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Observations by round, as one string: `812 815 809; 820 818 821`. An array would take a line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The runs of each round; a round may have none.
    pub rounds: Vec<Vec<u64>>,
}

impl Series {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rounds.iter().all(Vec::is_empty)
    }

    /// Observations of all rounds.
    pub fn len(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }

    /// Adds one to a round; rounds before it that have none are empty.
    pub fn push(&mut self, round: usize, observation: u64) {
        if self.rounds.len() <= round {
            self.rounds.resize(round + 1, Vec::new());
        }
        self.rounds[round].push(observation);
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let words = |round: &Vec<u64>| round.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        serializer.serialize_str(&self.rounds.iter().map(words).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Series {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Series".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Series {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        let number = |word: &str| word.parse().map_err(|_| D::Error::custom(format!("'{word}' is no whole number")));
        let round = |text: &str| text.split_whitespace().map(number).collect();
        Ok(Self { rounds: text.split(';').map(round).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_string_and_comes_back() {
        let series = Series { rounds: vec![vec![812, 815], vec![], vec![820]] };
        let text = serde_json::to_string(&series).unwrap();
        assert_eq!(text, "\"812 815; ; 820\"");
        assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), series);
        assert_eq!(serde_json::from_str::<Series>("\"\"").unwrap(), Series::default());
        assert!(serde_json::from_str::<Series>("\"12 x\"").is_err());
    }
}
