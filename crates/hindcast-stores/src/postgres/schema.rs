//! The tables in PostgreSQL, and how older ones become newer ones.

use hindcast_core::store::StoreError;

use super::database::{Database, Lease, column};

/// Each entry takes the database from the version of its index to the next. Entries are only ever added.
///
/// Columns are those of the embedded store, so that rows can move between both unchanged.
pub(super) const MIGRATIONS: [&str; 4] = [
    "
    CREATE TABLE hindcast.keys (
        id           text PRIMARY KEY,
        name         text NOT NULL,
        owner        text NOT NULL,
        environment  text NOT NULL,
        tier         text NOT NULL,
        per_month    bigint,
        per_minute   bigint,
        scopes       text NOT NULL,
        secret_hash  bytea NOT NULL,
        created_at   bigint NOT NULL,
        expires_at   bigint,
        revoked_at   bigint,
        rotated_at   bigint,
        allowed_ips  text NOT NULL
    );

    -- The current windows only: a key's usage is one row that is updated in place, with room for that on its page.
    CREATE TABLE hindcast.usage (
        key_id        text PRIMARY KEY REFERENCES hindcast.keys(id),
        month         bigint NOT NULL,
        month_used    bigint NOT NULL,
        minute        bigint NOT NULL,
        minute_used   bigint NOT NULL,
        last_used_at  bigint NOT NULL
    ) WITH (fillfactor = 50);

    CREATE TABLE hindcast.audit (
        seq          bigint PRIMARY KEY,
        time         bigint NOT NULL,
        principal    text,
        key_id       text,
        ip           text,
        method       text NOT NULL,
        tool         text,
        target       text,
        session_id   text,
        outcome      text NOT NULL,
        duration_us  bigint NOT NULL,
        hash         bytea NOT NULL
    );

    CREATE TABLE hindcast.audit_head (
        single     int PRIMARY KEY CHECK (single = 1),
        seq        bigint NOT NULL,
        hash       bytea NOT NULL,
        signature  text NOT NULL
    ) WITH (fillfactor = 50);

    CREATE TABLE hindcast.license (
        single  int PRIMARY KEY CHECK (single = 1),
        file  text NOT NULL
    );
",
    "-- Until when requests that are free have come. Lost in a crash, it begins anew.
    CREATE UNLOGGED TABLE hindcast.free_requests (
        key_id     text PRIMARY KEY,
        until      bigint NOT NULL
    ) WITH (fillfactor = 50);
",
    super::knowledge::TABLES,
    "
    -- When a document was last changed or sent, as it says itself. Of older ones it is not known until they are read again.
    ALTER TABLE hindcast.documents ADD COLUMN dated bigint;
",
];

/// Servers that start at the same time bring the tables up to date one after the other.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(7521962890315264)";

/// Brings the tables to the newest version, in one transaction. What is up to date is not written to, so that a role
/// without the right to make tables will do from then on.
pub(super) async fn migrate(database: &Database) -> Result<(), StoreError> {
    let lease = database.work().await?;
    if pending(&lease).await?.is_empty() {
        return Ok(());
    }
    lease.begin().await?;
    lease.batch(LOCK).await?;
    migrate_locked(&lease).await?;
    lease.commit().await
}

async fn migrate_locked(lease: &Lease<'_>) -> Result<(), StoreError> {
    let pending = pending(lease).await?;
    if pending.len() == MIGRATIONS.len() {
        let schema = "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = 'hindcast'";
        if lease.row(schema, &[]).await?.is_none() {
            lease.batch("CREATE SCHEMA hindcast").await?;
        }
        let version = "CREATE TABLE IF NOT EXISTS hindcast.version (single int PRIMARY KEY CHECK (single = 1), version int NOT NULL)";
        lease.batch(version).await?;
    }
    for migration in pending {
        lease.batch(migration).await?;
    }
    let version = MIGRATIONS.len();
    lease
        .batch(&format!(
            "INSERT INTO hindcast.version VALUES (1, {version}) ON CONFLICT (single) DO UPDATE SET version = {version}"
        ))
        .await
}

async fn pending(lease: &Lease<'_>) -> Result<&'static [&'static str], StoreError> {
    let version = version(lease).await?;
    MIGRATIONS.get(version..).ok_or_else(|| {
        StoreError::Corrupt(format!(
            "the database has version {version}, this program knows {} · hint: use the newer hindcast that made it",
            MIGRATIONS.len()
        ))
    })
}

/// The version of the tables; 0 where there are none.
pub(super) async fn version(lease: &Lease<'_>) -> Result<usize, StoreError> {
    // Not `to_regclass`: it may go by what it knew before somebody else made the table.
    let there = "
        SELECT relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'hindcast' AND relname = 'version'";
    if lease.row(there, &[]).await?.is_none() {
        return Ok(0);
    }
    let version = lease.row("SELECT version FROM hindcast.version", &[]).await?;
    let version = version.as_ref().map(|row| column::<i32>(row, 0)).transpose()?.unwrap_or_default();
    // A negative version was never written by us: read as a huge one it is refused.
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}
