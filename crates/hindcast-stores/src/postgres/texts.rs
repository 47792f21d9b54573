//! Texts as PostgreSQL keeps them, which has no zeros. SUB announces one, or itself.

use std::borrow::Cow;

use hindcast_core::store::StoreError;
use tokio_postgres::Row;

use super::database::column;

/// A text without zeros, from which [`restored`] makes the same text again.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', '\u{1a}']) {
        true => text.replace('\u{1a}', "\u{1a}1").replace('\0', "\u{1a}0").into(),
        false => text.into(),
    }
}

/// A text as it was before it was [`kept`].
pub(super) fn restored(text: String) -> String {
    match text.contains('\u{1a}') {
        true => text.replace("\u{1a}0", "\0").replace("\u{1a}1", "\u{1a}"),
        false => text,
    }
}

/// A text of a row.
pub(super) fn text(row: &Row, at: usize) -> Result<String, StoreError> {
    column(row, at).map(restored)
}

/// A text of a row that may have none there.
pub(super) fn optional_text(row: &Row, at: usize) -> Result<Option<String>, StoreError> {
    column::<Option<String>>(row, at).map(|text| text.map(restored))
}
