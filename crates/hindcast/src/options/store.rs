//! `hindcast store` on the command line.

use clap::{Args, Subcommand, ValueEnum};

use super::Json;

#[derive(Subcommand)]
pub(crate) enum Store {
    /// Show where keys, limits, audit trail and knowledge base are kept, and whether that answers
    Status(Json),
    /// Copy keys, limits, audit trail, license and knowledge base from the data folder to the database of `store.url`, or back, and
    /// compare every row. Stop all servers first. If it is interrupted, run it again to continue
    Migrate(MigrateStore),
}

#[derive(Args)]
pub(crate) struct MigrateStore {
    /// Where to
    #[arg(long, value_name = "STORE")]
    pub(crate) to: StoreKind,
    /// Copy the knowledge base alone, as to a database that has keys and an audit trail of its own
    #[arg(long)]
    pub(crate) only_knowledge: bool,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// The database that `store.url` or `--store-url` names
    Postgres,
    /// The data folder
    Sqlite,
}
