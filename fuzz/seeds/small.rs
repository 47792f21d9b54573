//! Rust's own debug information without the library's.
#![no_std]
#![no_main]

pub enum Shape {
    Dot,
    Line { from: (i32, i32), to: Option<&'static Shape> },
    Text(&'static str),
}

static DOT: Shape = Shape::Dot;
static SHAPES: [Shape; 3] =
    [Shape::Dot, Shape::Line { from: (1, 2), to: Some(&DOT) }, Shape::Text("text")];

#[inline(never)]
fn measure(shapes: &[Shape]) -> usize {
    let mut total = 0;
    for shape in shapes {
        total += match shape {
            Shape::Dot => 1,
            Shape::Line { from, to } => from.0 as usize + usize::from(to.is_some()),
            Shape::Text(text) => text.len(),
        };
    }
    total
}

#[no_mangle]
pub extern "C" fn _start() -> usize {
    measure(&SHAPES)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
