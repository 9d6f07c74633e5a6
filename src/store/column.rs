//! Owns the mapping between column values and the types of `domain`, both ways.

use std::str::FromStr;

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value::Error as NameError},
};
use serde_json::value::RawValue;
use sqlx::{Decode, Row as _, Sqlite, Type, sqlite::SqliteRow};

use super::{QueryError, StoreError};
use crate::domain::{ModelUsage, Seq, Timestamp, TokenUsage, Usd};

/// Tokens above this in one turn are no count but a defect of the CLI. The bound keeps sums within 64 bits.
pub(super) const MAX_TOKENS: u64 = 1 << 43;

/// A row of `table`, read column by column.
pub(super) struct Columns<'r> {
    pub(super) table: &'static str,
    pub(super) row: &'r SqliteRow,
}

impl<'r> Columns<'r> {
    /// A value of a type that SQLite has.
    pub(super) fn get<T>(&self, column: &'static str) -> Result<T, QueryError>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        Ok(self.row.try_get(column)?)
    }

    /// A value that is parsed from its text: an id. In another spelling than ours it is none, as no query would find it.
    pub(super) fn parsed<T: FromStr + ToString>(&self, column: &'static str) -> Result<T, QueryError> {
        let text: &str = self.get(column)?;
        self.spelled(column, text)
    }

    pub(super) fn parsed_opt<T: FromStr + ToString>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, QueryError> {
        let text: Option<&str> = self.get(column)?;
        text.map(|text| self.spelled(column, text)).transpose()
    }

    fn spelled<T: FromStr + ToString>(&self, column: &'static str, text: &str) -> Result<T, QueryError> {
        let value = text.parse::<T>().ok();
        value
            .filter(|value| value.to_string() == text)
            .ok_or_else(|| self.corrupt(column))
    }

    /// A value of an enum, by its JSON name.
    pub(super) fn named<T: for<'de> Deserialize<'de>>(&self, column: &'static str) -> Result<T, QueryError> {
        let name: &str = self.get(column)?;
        let name: serde::de::value::StrDeserializer<'_, NameError> = name.into_deserializer();
        T::deserialize(name).map_err(|_| self.corrupt(column))
    }

    /// As [`Self::named`], or nothing.
    pub(super) fn named_opt<T: for<'de> Deserialize<'de>>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, QueryError> {
        match self.get::<Option<&str>>(column)? {
            Some(_) => self.named(column).map(Some),
            None => Ok(None),
        }
    }

    /// A number that is never negative.
    pub(super) fn count(&self, column: &'static str) -> Result<u64, QueryError> {
        u64::try_from(self.get::<i64>(column)?).map_err(|_| self.corrupt(column))
    }

    pub(super) fn count_opt(&self, column: &'static str) -> Result<Option<u64>, QueryError> {
        self.get::<Option<i64>>(column)?
            .map(|number| u64::try_from(number).map_err(|_| self.corrupt(column)))
            .transpose()
    }

    pub(super) fn seq(&self, column: &'static str) -> Result<Seq, QueryError> {
        self.count(column).map(Seq::new)
    }

    pub(super) fn time(&self, column: &'static str) -> Result<Timestamp, QueryError> {
        self.instant(column, self.get(column)?)
    }

    pub(super) fn time_opt(&self, column: &'static str) -> Result<Option<Timestamp>, QueryError> {
        self.get::<Option<i64>>(column)?
            .map(|micros| self.instant(column, micros))
            .transpose()
    }

    fn instant(&self, column: &'static str, micros: i64) -> Result<Timestamp, QueryError> {
        let at = Timestamp::from_micros(micros);
        at.is_a_date().then_some(at).ok_or_else(|| self.corrupt(column))
    }

    pub(super) fn usd(&self, column: &'static str) -> Result<Usd, QueryError> {
        self.get(column).map(Usd::from_nanos)
    }

    pub(super) fn usd_opt(&self, column: &'static str) -> Result<Option<Usd>, QueryError> {
        Ok(self.get::<Option<i64>>(column)?.map(Usd::from_nanos))
    }

    /// The token classes, in columns of their usual names.
    pub(super) fn tokens(&self) -> Result<TokenUsage, QueryError> {
        Ok(TokenUsage {
            input_tokens: self.count("input_tokens")?,
            output_tokens: self.count("output_tokens")?,
            cache_read_input_tokens: self.count("cache_read_tokens")?,
            cache_creation_input_tokens: self.count("cache_creation_tokens")?,
            cache_creation_5m_input_tokens: self.count("cache_creation_5m_tokens")?,
            cache_creation_1h_input_tokens: self.count("cache_creation_1h_tokens")?,
            web_search_requests: self.count("web_searches")?,
        })
    }

    /// The token classes, which are known or unknown together.
    pub(super) fn tokens_opt(&self) -> Result<Option<TokenUsage>, QueryError> {
        match self.count_opt("input_tokens")? {
            Some(_) => self.tokens().map(Some),
            None => Ok(None),
        }
    }

    /// The usage of one model, in columns of their usual names.
    pub(super) fn model_usage(&self) -> Result<ModelUsage, QueryError> {
        Ok(ModelUsage {
            model: self.get("model")?,
            tokens: self.tokens()?,
            cost_usd: self.usd_opt("cost_nanos")?,
            context_window: self.count_opt("context_window")?,
            max_output_tokens: self.count_opt("max_output_tokens")?,
        })
    }

    /// A JSON document that is kept byte for byte.
    pub(super) fn raw_json(&self, column: &'static str) -> Result<Box<RawValue>, QueryError> {
        RawValue::from_string(self.get(column)?).map_err(|_| self.corrupt(column))
    }

    pub(super) fn raw_json_opt(&self, column: &'static str) -> Result<Option<Box<RawValue>>, QueryError> {
        self.get::<Option<String>>(column)?
            .map(|text| RawValue::from_string(text).map_err(|_| self.corrupt(column)))
            .transpose()
    }

    /// A JSON document whose content is read.
    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, QueryError> {
        serde_json::from_str(self.get(column)?).map_err(|_| self.corrupt(column))
    }

    /// A JSON document whose content is read, where there may be none.
    pub(super) fn json_opt<T: DeserializeOwned>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, QueryError> {
        let text: Option<&str> = self.get(column)?;
        text.map(serde_json::from_str)
            .transpose()
            .map_err(|_| self.corrupt(column))
    }

    pub(super) fn corrupt(&self, column: &'static str) -> QueryError {
        QueryError::Store(StoreError::Corrupt {
            table: self.table,
            column,
        })
    }
}

/// The JSON name of an enum's value, to store. Empty for what is no plain enum, which no column takes.
pub(super) fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// A number as SQLite has it.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Token counts in the order of the columns: input, output, cache read, cache creation, its parts of five minutes and of an hour, and web
/// searches.
pub(super) fn token_integers(usage: TokenUsage) -> [i64; 7] {
    [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_creation_5m_input_tokens,
        usage.cache_creation_1h_input_tokens,
        usage.web_search_requests,
    ]
    .map(|tokens| integer(tokens.min(MAX_TOKENS)))
}
