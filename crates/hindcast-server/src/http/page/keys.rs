//! Keys: listed, made and revoked by whoever has the scope `admin`.

use std::time::Duration;

use hindcast_core::identity::{KeyId, KeyRecord, Scope, ScopeSet, Tier};
use hindcast_services::{
    Failure, FailureKind,
    gateway::{KeyRequest, NewKey},
};
use http::Response;
use maud::{Markup, html};

use super::{Body, OPERATIONS, Turned, Visit, form::Form, frame, operations, words};

/// How the audit trail names what is done here.
const LIST: &str = "page/keys.list";
const CREATE: &str = "page/keys.create";
const REVOKE: &str = "page/keys.revoke";

const LONGEST_DAYS: u32 = 3650;

/// The page; with a key that has just been made, whose text is shown this once.
pub(super) async fn show(visit: &Visit<'_>, made: Option<NewKey>) -> Result<Response<Body>, Turned> {
    let gateway = &visit.front.app.gateway;
    let listed = visit
        .front
        .app
        .administer(&visit.desk.caller, LIST, async { Ok((gateway.list_keys().await?, None)) });
    let keys = match listed.await {
        Ok(keys) => keys,
        Err(failure) => return Ok(visit.failed(&failure)),
    };
    let now = visit.front.app.now();
    let content = html! {
        div.head { h1 { "Keys" } }
        (operations::tabs(visit))
        @if let Some(made) = &made {
            div.good-news role="status" {
                p { "The key " strong { (made.record.name) } " was made. This is the only time that it is shown:" }
                code.secret { (made.text) }
            }
        }
        div.scroll tabindex="0" role="region" aria-label="Keys" {
            table.rows {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Id" } th scope="col" { "Owner" } th scope="col" { "Tier" }
                    th scope="col" { "Scopes" } th scope="col" { "Made" } th scope="col" { "Last used" } th scope="col" { "State" }
                } }
                tbody { @for key in keys.iter().rev() { (row(visit, key, now)) } }
            }
        }
        (creating(visit))
    };
    Ok(visit.page("Keys", content))
}

fn row(visit: &Visit<'_>, key: &KeyRecord, now: hindcast_core::Timestamp) -> Markup {
    let has_ended = key.has_ended(now);
    html! {
        tr {
            td { strong { (key.name) } }
            td { code { (key.id.0) } }
            td { (key.owner.0) }
            td { (key.tier.name()) }
            td { (key.scopes.to_string()) }
            td { (words::time(&key.created_at.to_string())) }
            td { @match key.last_used_at { Some(used) => { (words::age(used, now)) " ago" } None => "never" } }
            td {
                @if key.revoked_at.is_some() { span.pill { "revoked" } }
                @else if has_ended { span.pill { "expired" } }
                @else {
                    form method="post" action={ (OPERATIONS) "/keys/revoke" } data-ask={ "Revoke the key " (key.name) "? It is refused from then on." } {
                        (frame::token(&visit.entry.csrf))
                        button.quiet.danger name="key" value=(key.id.0) aria-label={ "Revoke " (key.name) } { "Revoke" }
                    }
                }
            }
        }
    }
}

fn creating(visit: &Visit<'_>) -> Markup {
    let standard = ScopeSet::standard();
    html! {
        section.panel.stack {
            h2 { "Make a key" }
            form.stack method="post" action={ (OPERATIONS) "/keys" } {
                (frame::token(&visit.entry.csrf))
                div.fields {
                    div { label for="key-name" { "Name" } input #key-name type="text" name="name" required maxlength="200"; }
                    div { label for="key-owner" { "Owner (its own where empty)" } input #key-owner type="text" name="owner"; }
                    div {
                        label for="key-tier" { "Tier" }
                        select #key-tier name="tier" { @for tier in Tier::ALL { option value=(tier.name()) { (tier.name()) } } }
                    }
                    div { label for="key-days" { "Ends after days (never where empty)" } input #key-days type="number" name="days" min="1" max=(LONGEST_DAYS); }
                }
                fieldset {
                    legend { "Scopes" }
                    div.checks {
                        @for scope in visit.desk.caller.scopes.iter() {
                            label { input type="checkbox" name="scope" value=(scope.name()) checked[standard.contains(scope)]; (scope.name()) }
                        }
                    }
                }
                button.main type="submit" { "Make the key" }
            }
        }
    }
}

/// Makes a key, which may do no more than the one it is made with.
pub(super) async fn create(visit: &Visit<'_>, form: &Form) -> Result<Response<Body>, Turned> {
    let gateway = &visit.front.app.gateway;
    let made = visit.front.app.administer(&visit.desk.caller, CREATE, async {
        let made = gateway.create_key(request(visit, form)?).await?;
        let target = Some(made.record.id.0.to_string());
        Ok((made, target))
    });
    match made.await {
        Ok(made) => show(visit, Some(made)).await,
        Err(failure) => Ok(visit.back_with(&format!("{OPERATIONS}/keys"), Some(&failure))),
    }
}

fn request(visit: &Visit<'_>, form: &Form) -> Result<KeyRequest, Failure> {
    let invalid =
        |details: String| Failure::new(FailureKind::InvalidInput, details).hint("choose from the form");
    let own = &visit.desk.caller;
    let mut scopes = Vec::new();
    for name in form.fields.all("scope") {
        let scope: Scope =
            name.parse().map_err(|_| invalid(format!("there is no scope `{}`", words::cut(name, 40))))?;
        if !own.may(Some(scope)) {
            let details = format!("a key with `{scope}` can only be made by one that has it");
            return Err(Failure::new(FailureKind::PermissionDenied, details)
                .hint("leave it out, or use `hindcast keys create` on the server's machine"));
        }
        scopes.push(scope);
    }
    let tier = form.get("tier").unwrap_or(Tier::Free.name());
    let tier: Tier =
        tier.parse().map_err(|_| invalid(format!("there is no tier `{}`", words::cut(tier, 40))))?;
    let days = match form.get("days") {
        None => None,
        Some(text) => match text.parse::<u32>() {
            Ok(days @ 1..=LONGEST_DAYS) => Some(days),
            _ => {
                return Err(invalid(format!(
                    "`{}` is no number of days up to {LONGEST_DAYS}",
                    words::cut(text, 40)
                )));
            }
        },
    };
    let environment = own.key.as_ref().map(|key| key.environment);
    let environment = environment.ok_or_else(|| invalid("keys are made with a key".to_owned()))?;
    Ok(KeyRequest {
        name: form.get("name").unwrap_or_default().to_owned(),
        owner: form.get("owner").map(|owner| owner.trim().to_owned()),
        environment,
        tier,
        own_limits: None,
        scopes: scopes.into_iter().collect(),
        expires_at: days.and_then(|days| {
            visit.front.app.now().checked_add(Duration::from_secs(u64::from(days) * 86_400)).ok()
        }),
        allowed_ips: Vec::new(),
    })
}

/// Ends a key at once.
pub(super) async fn revoke(visit: &Visit<'_>, form: &Form) -> Result<Response<Body>, Turned> {
    let gateway = &visit.front.app.gateway;
    let id = KeyId(form.get("key").unwrap_or_default().into());
    let revoked = visit.front.app.administer(&visit.desk.caller, REVOKE, async {
        let record = gateway.revoke_key(&id).await?;
        Ok(((), Some(record.id.0.to_string())))
    });
    let result = revoked.await;
    Ok(visit.back_with(&format!("{OPERATIONS}/keys"), result.err().as_ref()))
}
