//! A file that keeps room on the disk of the data folder. When the disk is full it is removed, so that a server can go on counting
//! requests and writing the audit trail, and can be started. Nothing more is taken in until there is room again.

use std::path::{Path, PathBuf};

/// How large it is: room for about a hundred thousand calls.
const BYTES: u64 = 16 << 20;
/// With less than this left, it goes.
const TOO_LITTLE: u64 = 4 << 20;
/// With more than this, it is made again.
const ENOUGH: u64 = 6 * BYTES;

pub(crate) struct Ballast {
    file: PathBuf,
    folder: PathBuf,
}

impl Ballast {
    /// The name in the data folder.
    pub(crate) const NAME: &str = "ballast";

    /// Looks once, before anything in the folder is opened.
    pub(crate) fn of(folder: &Path) -> Self {
        let ballast = Self { file: folder.join(Self::NAME), folder: folder.to_owned() };
        ballast.look();
        ballast
    }

    /// Looks after it for as long as the server runs: a disk says nothing when it fills up.
    pub(crate) async fn keep(self) {
        const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(500);
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            self.look();
        }
    }

    fn look(&self) {
        let Some(left) = hindcast_services::disk_room(&self.folder) else { return };
        let is_there = self.file.exists();
        if left < TOO_LITTLE && is_there {
            match std::fs::remove_file(&self.file) {
                Ok(()) => tracing::error!(
                    "the disk of the data folder is full: nothing more is taken in, and the audit trail has {} MB left · hint: make \
                     room on the disk of `{}`",
                    BYTES >> 20,
                    self.folder.display()
                ),
                Err(error) => tracing::error!(%error, "the disk is full, and the ballast cannot be removed"),
            }
        } else if left > ENOUGH
            && !is_there
            && let Err(error) = self.make()
        {
            tracing::warn!(%error, "no room could be kept for when the disk is full");
            let _ = std::fs::remove_file(&self.file);
        }
    }

    #[cfg(target_os = "linux")]
    fn make(&self) -> std::io::Result<()> {
        let file = std::fs::File::create(&self.file)?;
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, BYTES as i64)?;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn make(&self) -> std::io::Result<()> {
        std::fs::write(&self.file, vec![0xa5; BYTES as usize])
    }
}
