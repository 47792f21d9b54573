//! Locks and condition variables of the system's thread library, in words.

use super::{layout::Layout, place::Placed, shape::Shape};

impl Layout<'_> {
    /// A `pthread_mutex_t`, `pthread_cond_t` or `pthread_rwlock_t`, under whatever name.
    pub(crate) fn lock_shape(&self, placed: &Placed) -> Option<Shape> {
        let data = self.field(placed, "__data")?;
        let (_, found) = self.types.real(data.type_ref)?;
        let words = match found.name.as_str() {
            "__pthread_mutex_s" => self.mutex(&data)?,
            "__pthread_cond_s" => match self.number_at(&data, &["__wrefs"])? >> 3 {
                0 => "nobody waits".to_owned(),
                1 => "1 thread waits".to_owned(),
                count => format!("{count} threads wait"),
            },
            "__pthread_rwlock_arch_t" => self.read_write_lock(&data)?,
            _ => return None,
        };
        Some(Shape::Words(words))
    }

    fn mutex(&self, data: &Placed) -> Option<String> {
        let number = |name: &str| self.number_at(data, &[name]);
        if number("__lock")? == 0 {
            return Some("unlocked".to_owned());
        }
        Some(match (number("__owner")?, number("__count")?) {
            (0, _) => "locked".to_owned(),
            (owner, 0 | 1) => format!("locked by thread {owner}"),
            (owner, count) => format!("locked {count} times by thread {owner}"),
        })
    }

    fn read_write_lock(&self, data: &Placed) -> Option<String> {
        // The lowest three bits tell of writers and of who waits; the others count readers.
        let state = self.number_at(data, &["__readers"])?;
        Some(match (self.number_at(data, &["__cur_writer"])?, state >> 3) {
            (0, 0) => "unlocked".to_owned(),
            (0, readers) => format!("locked for reading by {readers}"),
            (writer, _) => format!("locked for writing by thread {writer}"),
        })
    }
}
