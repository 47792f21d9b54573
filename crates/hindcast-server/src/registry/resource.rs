//! Resources: rooms that own a part of the URI space.

use std::borrow::Cow;

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    identity::{Caller, Scope},
    license::Feature,
};
use hindcast_services::{Failure, debug::SourceWatch};

use super::Window;
use crate::overtime::Keepable;

/// A resource as it is listed.
#[derive(Debug, Clone)]
pub(crate) struct ResourceEntry {
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) mime_type: Cow<'static, str>,
    /// From 0 to 1: how much a client should care; none where the contract has no such field.
    pub(crate) priority: Option<f32>,
}

/// A family of resources as it is listed.
#[derive(Debug, Clone)]
pub(crate) struct TemplateEntry {
    pub(crate) uri_template: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) mime_type: &'static str,
}

/// What a resource holds.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) mime_type: Cow<'static, str>,
    pub(crate) text: String,
}

impl Keepable for Content {
    fn bytes(&self) -> usize {
        self.mime_type.len() + self.text.len()
    }

    /// Content is what it is: there is no place to say when it was asked for.
    fn marked(self, _began: Timestamp) -> Self {
        self
    }
}

/// Owns the URIs that begin in a certain way. A caller sees of it what its scopes allow.
#[async_trait]
pub(crate) trait ResourceRoom: Send + Sync + 'static {
    /// Whether a URI belongs here, and what reading it needs; none when it does not.
    fn scope(&self, uri: &str) -> Option<Option<Scope>>;

    /// The part of the product that a URI which belongs here is part of; none for what no license can
    /// take away.
    fn feature(&self, uri: &str) -> Option<Feature>;

    /// What can be read now, as far as it is wanted.
    async fn list(&self, caller: &Caller, window: &mut Window) -> Result<Vec<ResourceEntry>, Failure>;

    /// The families that can be read now.
    fn templates(&self, caller: &Caller) -> Vec<TemplateEntry>;

    /// Whether there is something at a URI that belongs here, for a caller who wants to watch it.
    async fn check(&self, _caller: &Caller, _uri: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// The same, and sees to it that changes are announced for as long as what it gives is kept. Most are
    /// announced anyway.
    async fn watch(&self, caller: &Caller, uri: &str) -> Result<Option<SourceWatch>, Failure> {
        self.check(caller, uri).await.map(|()| None)
    }

    /// Reads one; the URI belongs here and the caller may.
    async fn read(&self, caller: &Caller, uri: &str) -> Result<Content, Failure>;

    /// Values for a variable of one of the templates that begin with what was typed; none when the
    /// template is not of this room.
    async fn complete(
        &self,
        caller: &Caller,
        uri_template: &str,
        variable: &str,
        typed: &str,
    ) -> Option<Vec<String>>;
}
