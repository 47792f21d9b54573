//! `hindcast keys`.

use std::process::ExitCode;

use anyhow::Result;
use hindcast_core::{
    identity::{Environment, KeyId, KeyRecord, PrincipalId, ScopeSet},
    printable::printable,
    quota::{Limits, Usage},
};
use hindcast_services::{
    Events,
    gateway::{Gateway, KeyRequest, NewKey},
};
use serde_json::{Value, json};

use super::{print_json, print_text, small_runtime};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{CreateKey, Json, Keys, OneKey},
    wiring,
};

pub(super) fn run(config: &Config, keys: Keys) -> Result<ExitCode> {
    crate::data_folder::keep_from_others();
    let folder = match keys {
        Keys::Create(_) => DataFolder::open(&config.data_dir)?,
        _ => DataFolder::existing(&config.data_dir)?,
    };
    let gateway = wiring::gateway(config, &folder, &Events::default())?;
    small_runtime()?.block_on(async {
        match keys {
            Keys::Create(request) => create(&gateway, request).await,
            Keys::List(output) => list(&gateway, output).await,
            Keys::Show(key) => show(&gateway, key).await,
            Keys::Rotate(key) => rotate(&gateway, key).await,
            Keys::Revoke(key) => revoke(&gateway, key).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn create(gateway: &Gateway, create: CreateKey) -> Result<()> {
    let request = KeyRequest {
        name: create.name,
        owner: create.owner,
        environment: if create.test { Environment::Test } else { Environment::Live },
        tier: create.tier,
        own_limits: create
            .per_month
            .zip(create.per_minute)
            .map(|(per_month, per_minute)| Limits { per_month, per_minute }),
        scopes: if create.scopes.is_empty() {
            ScopeSet::standard()
        } else {
            create.scopes.into_iter().collect()
        },
        expires_at: create.expires,
        allowed_ips: create.allowed_ips,
    };
    let made = gateway.create_key(request).await?;
    gateway.record_operator("keys/create", &made.record.id.0).await?;
    tell_once(gateway, &made, create.output)
}

async fn rotate(gateway: &Gateway, key: OneKey) -> Result<()> {
    let made = gateway.rotate_key(&id(&key)).await?;
    gateway.record_operator("keys/rotate", &key.id).await?;
    tell_once(gateway, &made, key.output)
}

fn tell_once(gateway: &Gateway, made: &NewKey, output: Json) -> Result<()> {
    if output.json {
        let mut value = key_value(gateway, &made.record, None);
        value["key"] = made.text.clone().into();
        return print_json(&value);
    }
    print_text(&format!(
        "{}\nkey {} ({}, {}): keep it now, it is not shown again\n",
        made.text, made.record.id, made.record.name, made.record.tier
    ))
}

async fn revoke(gateway: &Gateway, key: OneKey) -> Result<()> {
    let record = gateway.revoke_key(&id(&key)).await?;
    gateway.record_operator("keys/revoke", &key.id).await?;
    if key.output.json {
        return print_json(&key_value(gateway, &record, None));
    }
    print_text(&format!("key {} ({}) is revoked\n", record.id, record.name))
}

async fn show(gateway: &Gateway, key: OneKey) -> Result<()> {
    let record = gateway.key(&id(&key)).await?;
    let usage = gateway.usage(&record).await?;
    let value = key_value(gateway, &record, Some(&usage));
    if key.output.json {
        return print_json(&value);
    }
    let mut text = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let value = match value {
            Value::Null => "-".into(),
            Value::String(value) => printable(value).into_owned(),
            Value::Array(items) if items.is_empty() => "-".into(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        };
        text += &format!("{name:<14} {value}\n");
    }
    print_text(&text)
}

async fn list(gateway: &Gateway, output: Json) -> Result<()> {
    let keys = gateway.list_keys().await?;
    if output.json {
        return print_json(&keys.iter().map(|key| key_value(gateway, key, None)).collect());
    }
    if keys.is_empty() {
        return print_text("no keys yet; make one with `hindcast keys create --name NAME`\n");
    }
    let mut text =
        format!("{:<10} {:<20} {:<12} {:<8} {:<21} last used\n", "id", "name", "tier", "state", "created");
    for key in keys {
        let last_used = key.last_used_at.map_or("never".into(), |time| format!("{time:.0}"));
        text += &format!(
            "{:<10} {:<20} {:<12} {:<8} {:<21} {last_used}\n",
            key.id.0,
            printable(&key.name).chars().take(20).collect::<String>(),
            key.tier.name(),
            state(&key),
            format!("{:.0}", key.created_at),
        );
    }
    print_text(&text)
}

fn id(key: &OneKey) -> KeyId {
    KeyId(key.id.as_str().into())
}

fn state(key: &KeyRecord) -> &'static str {
    if key.revoked_at.is_some() {
        "revoked"
    } else if key.expires_at.is_some_and(|end| end <= hindcast_core::Timestamp::now()) {
        "expired"
    } else {
        "active"
    }
}

fn key_value(gateway: &Gateway, key: &KeyRecord, usage: Option<&Usage>) -> Value {
    let limits = gateway.limits(key);
    let PrincipalId(owner) = &key.owner;
    let mut value = json!({
        "id": key.id,
        "name": key.name,
        "owner": owner,
        "state": state(key),
        "environment": key.environment,
        "tier": key.tier,
        "per_month": limits.per_month,
        "per_minute": limits.per_minute,
        "scopes": key.scopes.iter().map(hindcast_core::identity::Scope::name).collect::<Vec<_>>(),
        "allowed_ips": key.allowed_ips,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "rotated_at": key.rotated_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    });
    if let Some(usage) = usage {
        value["used_this_month"] = usage.month.into();
        value["resets_at"] = usage.month_resets_at.to_string().into();
    }
    value
}
