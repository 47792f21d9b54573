//! Containers of the GNU C++ library.

use super::{
    items::Items,
    layout::Layout,
    place::Placed,
    shape::{ADDRESS_SPACE, List, Shape, Style, aligned},
};
use crate::types::{TypeKind, TypeRef};

impl Layout<'_> {
    pub(crate) fn cpp_container(&self, placed: &Placed, name: &str) -> Option<Shape> {
        match name {
            "vector" => self.cpp_vector(placed),
            "deque" => self.deque(placed),
            "list" => {
                let node = self.path(placed, &["_M_impl", "_M_node"])?;
                let first = self.number_at(&node, &["_M_next"])?;
                let end = node.address()?;
                let count =
                    self.number_at(&node, &["_M_size"]).or_else(|| self.number_at(&node, &["_M_data"]));
                self.chain(first, end, 16, self.parameter(placed, 0)?, count, Style::Sequence)
            }
            "forward_list" => {
                let first = self.number_at(placed, &["_M_impl", "_M_head", "_M_next"])?;
                self.chain(first, 0, 8, self.parameter(placed, 0)?, None, Style::Sequence)
            }
            "map" | "multimap" => self.red_black(placed, Style::Map),
            "set" | "multiset" => self.red_black(placed, Style::Set),
            "unordered_map" | "unordered_multimap" => self.hashed(placed, Style::Map),
            "unordered_set" | "unordered_multiset" => self.hashed(placed, Style::Set),
            "span" => {
                let (address, element) = self.pointer(&self.field(placed, "_M_ptr")?)?;
                let count = self
                    .number_at(placed, &["_M_extent", "_M_extent_value"])
                    .or_else(|| self.constant_parameter(placed, 1))?;
                self.heap_run(address, element?, count)
            }
            "initializer_list" => {
                let (address, element) = self.pointer(&self.field(placed, "_M_array")?)?;
                self.heap_run(address, element?, self.number_at(placed, &["_M_len"])?)
            }
            _ => None,
        }
    }

    fn constant_parameter(&self, placed: &Placed, index: usize) -> Option<u64> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        structure.parameters.get(index)?.value.and_then(|value| u64::try_from(value).ok())
    }

    fn cpp_vector(&self, placed: &Placed) -> Option<Shape> {
        let parts = self.field(placed, "_M_impl")?;
        let (start, finish) = (self.field(&parts, "_M_start")?, self.field(&parts, "_M_finish")?);
        if let Some(first) = self.field(&start, "_M_p") {
            return self.bit_vector(&first, &start, &finish);
        }
        let (begin, element) = self.pointer(&start)?;
        let end = self.pointer(&finish)?.0;
        let limit = self.number_at(&parts, &["_M_end_of_storage"])?;
        let stride = self.stride(element?).filter(|stride| *stride > 0)?;
        let size = end.wrapping_sub(begin);
        if end < begin || limit < end || size % stride != 0 || size >= ADDRESS_SPACE {
            let said = format!("from {begin:#x} to {end:#x} of {limit:#x}, elements of {stride} bytes");
            return Some(Shape::Corrupt(said));
        }
        self.heap_run(begin, element?, size / stride)
    }

    /// A `vector<bool>` has iterators of words and bits.
    fn bit_vector(&self, first: &Placed, start: &Placed, finish: &Placed) -> Option<Shape> {
        let (begin, word) = self.pointer(first)?;
        let end = self.number_at(finish, &["_M_p"])?;
        let skipped = self.number_at(start, &["_M_offset"])?;
        let last = self.number_at(finish, &["_M_offset"])?;
        let bits = end
            .checked_sub(begin)
            .filter(|size| *size < ADDRESS_SPACE)
            .and_then(|size| (size * 8).checked_add(last)?.checked_sub(skipped));
        let Some(count) = bits else {
            return Some(Shape::Corrupt(format!("from {begin:#x} to {end:#x}")));
        };
        let items = Items::Bits { first: Placed::memory(word?, begin), skipped };
        Some(Shape::List(List::new(count, items, Style::Sequence)))
    }

    fn deque(&self, placed: &Placed) -> Option<Shape> {
        let parts = self.field(placed, "_M_impl")?;
        let (start, finish) = (self.field(&parts, "_M_start")?, self.field(&parts, "_M_finish")?);
        let element = self.pointer(&self.field(&start, "_M_cur")?)?.1?;
        let stride = self.stride(element).filter(|stride| *stride > 0)?;
        let at = |iterator: &Placed, name: &str| self.number_at(iterator, &[name]);
        let per_block = (512 / stride).max(1);
        let directory = at(&start, "_M_node")?;
        let last_node = at(&finish, "_M_node")?;
        let skipped = at(&start, "_M_cur")?.wrapping_sub(at(&start, "_M_first")?) / stride;
        let in_last = at(&finish, "_M_cur")?.wrapping_sub(at(&finish, "_M_first")?) / stride;
        let blocks = last_node.wrapping_sub(directory) / 8;
        if last_node < directory || blocks >= 1 << 40 || skipped > per_block || in_last > per_block {
            return Some(Shape::Corrupt(format!("blocks from {directory:#x} to {last_node:#x}")));
        }
        let Some(count) = (blocks * per_block + in_last).checked_sub(skipped) else {
            return Some(Shape::Corrupt("it ends before it begins".to_owned()));
        };
        let items = Items::Blocks { directory, skipped, per_block, element, stride };
        Some(Shape::List(List::new(count, items, Style::Sequence)))
    }

    /// Nodes whose value stands behind `links` bytes of pointers. Without a count, they are counted.
    fn chain(
        &self,
        first: u64,
        end: u64,
        links: u64,
        element: TypeRef,
        count: Option<u64>,
        style: Style,
    ) -> Option<Shape> {
        let value = aligned(links, self.alignment(element));
        let items = Items::Chain { first, end, next: 0, value, element };
        let count = match count {
            Some(count) => count,
            None => self.length_of_chain(first, end),
        };
        Some(Shape::List(List::new(count, items, style)))
    }

    fn length_of_chain(&self, first: u64, end: u64) -> u64 {
        let mut node = first;
        let mut count = 0;
        // A longer one is most likely circular.
        while node != 0 && node != end && count < 100_000 {
            count += 1;
            match self.memory.read_pointer(node) {
                Ok(next) => node = next,
                Err(_) => break,
            }
        }
        count
    }

    fn red_black(&self, placed: &Placed, style: Style) -> Option<Shape> {
        let tree = self.field(placed, "_M_t")?;
        let element = self.parameter(&tree, 1)?;
        let parts = self.field(&tree, "_M_impl")?;
        let header = self.field(&parts, "_M_header")?;
        let count = self.number_at(&parts, &["_M_node_count"])?;
        let leftmost = self.number_at(&header, &["_M_left"])?;
        let links = self.types.size(header.type_ref).unwrap_or(32);
        let value = aligned(links, self.alignment(element));
        let items = Items::RedBlack { leftmost, header: header.address()?, value, element };
        Some(Shape::List(List::new(count, items, style)))
    }

    fn hashed(&self, placed: &Placed, style: Style) -> Option<Shape> {
        let table = self.field(placed, "_M_h")?;
        let element = self.parameter(&table, 1)?;
        let count = self.number_at(&table, &["_M_element_count"])?;
        let first = self.number_at(&table, &["_M_before_begin", "_M_nxt"])?;
        self.chain(first, 0, 8, element, Some(count), style)
    }
}
